/* submission.h - jobs on their way in: through the doors of their queues, a long body into a file,
 * and all into one commit.
 *
 *     orders, doors -> enter -> [door, one after the other] -> OPEN
 *     OPEN -> take -> [piece of a long body] -> OPEN ... -> [commit] -> ENDED
 *
 * A front end (submit.c, submit_many.c, protocol_submit.c) reads what a client sends, makes orders
 * of it, and answers; everything in between is here. In brackets is what is waited for: the state
 * is UNDER_WAY meanwhile, and `arrived` is called in the front end's loop when it is over. Wherever
 * the client goes away: what waits at a door leaves it, places that no job has taken are given
 * back, and a file that no job refers to is removed. What has been handed to the job service or to
 * a disk thread stays until it arrives, and what the orders point into has to stay with it. */
#ifndef WEIR_API_SUBMISSION_H
#define WEIR_API_SUBMISSION_H

#include "api/job_params.h"
#include "api/job_refusal.h"
#include "api/job_spool.h"
#include "runner/job_service.h"

enum weir_submission_state {
    WEIR_SUBMISSION_NEW,
    WEIR_SUBMISSION_UNDER_WAY, /* `arrived` will be called */
    WEIR_SUBMISSION_OPEN,      /* all doors are passed: more of the body may come, or the commit */
    WEIR_SUBMISSION_ENDED      /* all orders are on record, or `refusal` says why not */
};

struct weir_submission;

/* Places that are asked for at once: of one queue, tenant and priority. */
struct weir_submission_door {
    struct weir_job_admission admission;
    struct weir_submission *submission;
    struct weir_slice queue;
    bool inside; /* it has places */
};

/* Zeroed; then the first part is set. */
struct weir_submission {
    struct weir_worker *worker;
    struct weir_job_service *job_service;
    void (*arrived)(struct weir_submission *submission);
    struct weir_job_order *orders;
    struct weir_acceptance *acceptances;
    uint32_t order_count;
    struct weir_submission_door *doors;   /* with room for one of each order */
    const struct weir_job_params *params; /* of a single order, which is completed when it is
                                           * committed; null: orders are complete */
    bool repeatable; /* all orders may be there already: that is looked at where there is no room */

    /* Read only. */
    enum weir_submission_state state;
    struct weir_job_refusal refusal; /* once it has ended; no reason: it was accepted */
    bool at_door;                    /* it waits for a place */
    uint64_t committed_ns;           /* when it was handed to the store */
    struct weir_job_spool *spool;    /* of a long body; null: none, or it has been dealt with */

    /* Private. */
    uint32_t door_count;
    uint32_t asked; /* doors that have answered */
    bool looking;   /* whether all orders are there already */
    bool left;      /* the client has gone */
    struct weir_job_service_request request;
};

/* The order's queue, by its name or, if that is empty, the default one, whose name goes to `room`;
 * what the order leaves to the queue is filled in. Null: there is none; that is
 * WEIR_JOB_REFUSED_QUEUE. Good until the loop goes on. */
const struct weir_config_queue *weir_submission_find_queue(const struct weir_submission *submission,
                                                           struct weir_job_order *order,
                                                           char room[WEIR_NAME_BYTES_MAX],
                                                           uint32_t *number);

/* The order will need a place of its queue, by number. `id` is that of a single job that may be
 * there already; else empty. */
void weir_submission_add_door(struct weir_submission *submission,
                              const struct weir_job_order *order, uint32_t queue,
                              struct weir_slice id, uint64_t deadline_ns);

/* Doors to the same queue, tenant and priority become one, in the order in which they are asked. */
void weir_submission_merge_doors(struct weir_submission *submission);

/* Asks at the doors. */
void weir_submission_enter(struct weir_submission *submission);

/* OPEN: some of the body of the single order, which must stay until this has been dealt with. The
 * last of it is followed by the commit. */
void weir_submission_take(struct weir_submission *submission, struct weir_slice piece, bool last);

/* OPEN: hands the orders to the store. */
void weir_submission_commit(struct weir_submission *submission);

/* The client goes, or the front end gives up. True if what was under way will not arrive. */
bool weir_submission_cancel(struct weir_submission *submission);

/* Frees what it refers to; not while something is under way. */
void weir_submission_deinit(struct weir_submission *submission);

#endif
