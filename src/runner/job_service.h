/* job_service.h - where jobs are handed in and results handed out: schedule, store and runners as
 * one.
 *
 * The schedule decides under one short lock, which every thread may take. The store's thread
 * commits. A thread of its own, the command loop, has a loop in which commands run; a job that is a
 * route's runs in the loop of one of the workers. What callers want is a request that is embedded
 * in what they are about; its answer arrives in the loop that they name.
 *
 *     door -> body -> submit -> [store: ACCEPT, commit] -> 202, enter the schedule
 *     a turn -> [store: TAKE] -> run -> end -> [store: SETTLE, commit] -> forget or requeue
 *
 * Promises (docs/internals/jobs.md states and tests each): J1 a 202 is on disk. J2 what was
 * accepted is queued, running, done, cancelled or dead, exactly once. J3 an answer counts only
 * under its epoch. J4 a job found running at a start has spent an attempt, unless it had ended
 * well. J5 while the disk fails nothing is accepted and nothing is started, and what runs goes on
 * and is recorded later. */
#ifndef WEIR_RUNNER_JOB_SERVICE_H
#define WEIR_RUNNER_JOB_SERVICE_H

#include "base/histogram.h"
#include "base/map.h"
#include "jobs/port.h"
#include "jobs/schedule.h"
#include "jobs/waiters.h"
#include "store/disk.h"
#include "worker/config_snapshot.h"

#define WEIR_JOB_SERVICE_ORDERS_MAX 10000 /* of one submission */

/* Who wait for room before they send their body, in all. A tenant may have as many there as there
 * are places left: half of them alone, a third beside another such, and there are always some for
 * one that has none. */
#define WEIR_JOB_ADMISSIONS_MAX 2000

struct weir_job_service;

/* The server's part in jobs is that of an extension: it knows nothing else of them. */
extern const struct weir_extension weir_job_service_extension;

/* The job service that the worker's API hands jobs to; null while no config has named queues. */
struct weir_job_service *weir_job_service_of(const struct weir_worker *worker);

struct weir_job_service_options {
    struct weir_config_snapshot
        *snapshot; /* at the start; its config's queues; the job service takes it as well */
    struct weir_worker *workers[WEIR_LOOPS_MAX]; /* for routes; their loops need not run yet */
    uint32_t worker_count;
    struct weir_event_log *event_log; /* for job.* events; may be null */

    /* Another record of truth, for tests; null: the one in the config's data folder. */
    const struct weir_store_port *port;
    struct weir_store *store;
};

/* Whether the commands of its queues can be run here and now, before a job finds out that one
 * cannot; else a sentence in `error`, with the file and the line. */
WEIR_MUST_CHECK bool weir_job_service_check(const struct weir_config *config, char *error,
                                            size_t error_bytes);

/* Opens the data folder and recovers; nothing is started before weir_job_service_resume(). Null on
 * failure, with a sentence in `error`. */
struct weir_job_service *weir_job_service_open(const struct weir_job_service_options *options,
                                               char *error, size_t error_bytes);

/* New queues; nothing is started from now on. False with a sentence: nothing has changed. Called
 * in the main thread. */
WEIR_MUST_CHECK bool weir_job_service_configure(struct weir_job_service *service,
                                                struct weir_config_snapshot *snapshot, char *error,
                                                size_t error_bytes);

/* Every worker has the routes of the snapshot: what is queued is started. */
void weir_job_service_resume(struct weir_job_service *service);

/* Starts nothing more and accepts nothing more, and whoever waits for room or for a job's end is
 * told before this returns; `drained` is called once, in some thread, when
 * nothing runs any more and all is on record. */
void weir_job_service_drain(struct weir_job_service *service, void (*drained)(void *context),
                            void *context);

/* After the workers' loops have stopped: what still runs is ended, and queued again without a kill
 * being counted; if that cannot be recorded, the next start finds an attempt that was lost. All
 * requests are answered when this returns, and what is asked from now on is refused. */
void weir_job_service_stop(struct weir_job_service *service);

/* After the posts of the workers' loops have been delivered: nobody asks anything any more. */
void weir_job_service_close(struct weir_job_service *service);

/* ---- the door ---- */

/* Asked before a body is read. Embedded in the caller. */
struct weir_job_admission {
    struct weir_post on_done; /* private until it arrives: the caller's `arrive` */
    struct weir_loop *loop;
    struct weir_job_service
        *service; /* private, as the next four; the last three under the job service's lock */
    struct weir_post post;
    struct weir_link link;
    struct weir_waiter waiter;
    bool under_way;
    bool left; /* private: nobody wants its answer */
    struct weir_schedule_ask ask;
    struct weir_slice
        id;       /* of the one job that is asked for, if it may be there already; or empty */
    bool at_once; /* it does not wait for room */
    uint64_t deadline_ns; /* of waiting for room; the loop's clock */
    enum weir_schedule_answer answer;
    bool drains; /* FULL: because Weir ends */
    bool known;  /* COME, though there is no room: the job is there already, and has no place now */
    uint64_t retry_after_ns;
    bool waiting;  /* under the job service's lock */
    bool reserved; /* the same: it has places */
};

/* True: `answer` is there. False: it waits for room, or its id is looked up because there is none,
 * and `told` will arrive in its loop, once, unless weir_job_service_leave_admission() is called
 * before. Where there is room, or neither an id nor patience, it is answered at once. */
bool weir_job_service_ask(struct weir_job_service *service, struct weir_job_admission *door);

/* Whoever waits goes away; whoever has places gives them back, also those that `told` is just
 * bringing. True: `told` will not arrive any more. False: it is under way, and the door must stay
 * until then. */
bool weir_job_service_leave_admission(struct weir_job_service *service,
                                      struct weir_job_admission *door);

/* The same for one that has its answer, and its tenant's rate is as if it had not asked. */
void weir_job_service_revoke(struct weir_job_service *service, struct weir_job_admission *door);

/* The queue's number and its settings, or null; an empty name is the default queue. Asked in a
 * worker's loop, and good until that goes on: copy what is needed for longer. */
const struct weir_config_queue *weir_job_service_queue(struct weir_job_service *service,
                                                       struct weir_slice name, uint32_t *number);

/* ---- requests ---- */

enum weir_job_service_end {
    WEIR_JOB_SERVICE_DONE,
    WEIR_JOB_SERVICE_UNKNOWN,  /* there is no such job; submit: it repeats nothing */
    WEIR_JOB_SERVICE_CONFLICT, /* submit: the id is taken by another body */
    WEIR_JOB_SERVICE_STALE,    /* it is not in a state in which that can be done */
    WEIR_JOB_SERVICE_NO_QUEUE, /* submit: a queue has been taken out of the config */
    WEIR_JOB_SERVICE_FULL, /* submit: as many ids are remembered as may be, or as many dead letters
                              kept */
    WEIR_JOB_SERVICE_FAILED, /* the disk does not work; `error` says why */
    WEIR_JOB_SERVICE_DRAINING
};

/* One request. It must stay until `told` has arrived; its `memory` is freed with free(). */
struct weir_job_service_request {
    struct weir_post on_done; /* the caller's `arrive`, called once in its loop */
    struct weir_loop *loop;
    enum weir_job_service_end end;
    const char *error;
    bool repeats; /* submit: there are no places for it, only what is there already counts */
    union {
        struct weir_store_op op;
        struct weir_store_accept accept;
        struct weir_store_look look;
        struct weir_store_list list;
        struct weir_store_redrive redrive;
        struct weir_store_remove remove;
        struct weir_store_settle settle;
    };
    struct weir_job_service *service; /* private, as all below */
    struct weir_link link;            /* among those that are tried again */
    void (*again)(struct weir_job_service_request *request);
    struct weir_job_service_request *next; /* that waits for the same run */
    struct weir_slice id;
    uint64_t number;
    uint32_t queue;
    uint32_t tries;
};

/* Accepts `accept.orders`; for each, a place of its queue, tenant and priority was reserved at the
 * door, and is taken or given back: the doors have none from now on. With `repeats` none was, and
 * nothing new is accepted. */
void weir_job_service_submit(struct weir_job_service *service,
                             struct weir_job_service_request *request);

/* `look.id` and `look.with` say what. */
void weir_job_service_look(struct weir_job_service *service,
                           struct weir_job_service_request *request);

/* `list` without its op. */
void weir_job_service_list(struct weir_job_service *service,
                           struct weir_job_service_request *request);

/* `look.id`: a job that is queued or runs is cancelled; DONE when that is on record, for one that
 * runs as soon as it has been told to end. STALE when it is over already; `look.row` then tells. */
void weir_job_service_cancel(struct weir_job_service *service,
                             struct weir_job_service_request *request);

/* `redrive.number`, or by `redrive.filter`; they enter the schedule. */
void weir_job_service_redrive(struct weir_job_service *service,
                              struct weir_job_service_request *request);

/* `remove.number`. */
void weir_job_service_remove(struct weir_job_service *service,
                             struct weir_job_service_request *request);

/* ---- what is known without asking the store ---- */

struct weir_job_service_live {
    struct weir_schedule_look look;
    double progress; /* RUNNING: 0 to 1; less than 0: not told */
    uint32_t progress_bytes;
    char progress_text[256];
};

void weir_job_service_live(struct weir_job_service *service, uint64_t number,
                           struct weir_job_service_live *live);

/* Of a queue by number, for GET /capacity and /metrics, with its dead letters; false past the last.
 */
bool weir_job_service_stats(struct weir_job_service *service, uint32_t queue,
                            struct weir_slice *name, struct weir_schedule_stats *stats,
                            uint64_t *dead);

/* Why a queue by number accepts nothing, for reasons of its own; null: it does, or may be full. */
const char *weir_job_service_objection(struct weir_job_service *service, uint32_t queue);

/* What is counted of each queue since the start. */
struct weir_job_service_tally {
    uint64_t dead; /* letters, at present */
    uint64_t accepted;
    uint64_t ended[WEIR_JOB_STATE_COUNT]; /* by what they became; QUEUED: tried again */
    struct weir_histogram ran;            /* how long attempts have run, by weir_scale_job_run */
};

/* The same of a queue by number; false past the last. */
bool weir_job_service_tally(struct weir_job_service *service, uint32_t queue,
                            struct weir_job_service_tally *tally);

struct weir_job_service_counts {
    struct weir_job_service_tally all; /* queues together */
    uint64_t stale;                    /* ends that came too late to count */
    const char *error; /* why nothing is accepted, whatever the queue; null: it is */
    struct weir_store_counts store;
};
void weir_job_service_count(struct weir_job_service *service,
                            struct weir_job_service_counts *counts);

/* ---- waiting for a job's end ---- */

/* Embedded in whoever waits: `told` arrives when the job is DONE, FAILED or CANCELLED, on record;
 * or before, when Weir begins to drain, because nobody is kept waiting then. */
struct weir_job_service_watch {
    struct weir_post on_done;
    struct weir_loop *loop;
    struct weir_map_node node; /* private, as the next */
    struct weir_link link;
    uint64_t number;
    bool sleeping; /* private, under the job service's lock */
    bool drains;   /* once it is told: why */
};

/* True: it is watched, and `told` will arrive once. False: it is over already, or is not there, or
 * Weir drains. */
bool weir_job_service_watch(struct weir_job_service *service, struct weir_job_service_watch *watch);

/* True: `told` will not arrive. False: it is under way, and will. */
bool weir_job_service_unwatch(struct weir_job_service *service,
                              struct weir_job_service_watch *watch);

/* ---- bodies in files ---- */

struct weir_disk *weir_job_service_disk(struct weir_job_service *service);
struct weir_store *weir_job_service_store(struct weir_job_service *service);

#endif
