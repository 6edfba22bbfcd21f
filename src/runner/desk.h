/* desk.h - where jobs are handed in and results handed out: schedule, store and runners as one.
 *
 * The schedule decides under one short lock, which every thread may take. The store's thread
 * commits. A thread of its own, the yard, has a loop in which commands run; a job that is a route's
 * runs in the loop of one of the workers. What callers want is a request that is embedded in what
 * they are about; its answer arrives in the loop that they name.
 *
 *     door -> body -> submit -> [store: ACCEPT, commit] -> 202, enter the schedule
 *     a turn -> [store: TAKE] -> run -> end -> [store: SETTLE, commit] -> forget or requeue
 *
 * Promises (docs/JOBS.md states and tests each): J1 a 202 is on disk. J2 what was accepted is
 * queued, running, done, cancelled or dead, exactly once. J3 an answer counts only under its epoch.
 * J4 a worker is free the moment its job has ended. J5 while the disk fails nothing is accepted and
 * nothing is started, and what runs goes on and is recorded later. */
#ifndef WEIR_RUNNER_DESK_H
#define WEIR_RUNNER_DESK_H

#include "config/config.h"
#include "gateway/worker.h"
#include "jobs/port.h"
#include "jobs/schedule.h"
#include "store/disk.h"

#define WEIR_DESK_ORDERS_MAX 10000 /* of one submission */
#define WEIR_DESK_DOOR_MAX   1000  /* who wait for room before they send their body; in all */

struct weir_desk;

struct weir_desk_options {
    struct weir_config *config;   /* at the start; its queues */
    struct weir_worker **workers; /* for routes; their loops need not run yet */
    uint32_t worker_count;
    struct weir_journal *journal; /* for job.* events */
};

/* Opens the data folder, recovers, and starts to run what is queued. Null on failure, with a
 * sentence in `wrong`. */
struct weir_desk *weir_desk_open(const struct weir_desk_options *options, char *wrong,
                                 size_t wrong_bytes);

/* New queues. False with a sentence: nothing has changed. Called in the main thread. */
WEIR_MUST_CHECK bool weir_desk_configure(struct weir_desk *desk, const struct weir_config *config,
                                         char *wrong, size_t wrong_bytes);

/* Starts nothing more and accepts nothing more; `drained` is called once, in some thread, when
 * nothing runs any more. */
void weir_desk_drain(struct weir_desk *desk, void (*drained)(void *context), void *context);

/* After the workers' loops have stopped. What still runs is ended, and found again at the next
 * start as an attempt that was lost; without a kill being counted if Weir was told to end. */
void weir_desk_close(struct weir_desk *desk);

/* ---- the door ---- */

/* Asked before a body is read. Embedded in the caller. */
struct weir_desk_door {
    struct weir_post told; /* private until it arrives: the caller's `arrive` */
    struct weir_loop *loop;
    struct weir_link link; /* private */
    struct weir_schedule_ask ask;
    uint64_t deadline_ns; /* of waiting for room; the loop's clock */
    enum weir_schedule_answer answer;
    uint64_t retry_after_ns;
    bool waiting;
};

/* True: `answer` is there. False: it waits for room, and `told` will arrive in its loop, once,
 * unless weir_desk_leave_door() is called before. A queue that does not wait answers at once. */
bool weir_desk_ask(struct weir_desk *desk, struct weir_desk_door *door);

/* Whoever waits goes away; whoever has places gives them back, also those that `told` is just
 * bringing. True: `told` will not arrive any more. False: it is under way, and the door must stay
 * until then. */
bool weir_desk_leave_door(struct weir_desk *desk, struct weir_desk_door *door);

/* The queue's number and its settings, or null; an empty name is the default queue. Good until the
 * config changes: copy what is needed. */
const struct weir_config_queue *weir_desk_queue(struct weir_desk *desk, struct weir_slice name,
                                                uint32_t *number);

/* ---- requests ---- */

enum weir_desk_end {
    WEIR_DESK_DONE,
    WEIR_DESK_UNKNOWN,  /* there is no such job */
    WEIR_DESK_CONFLICT, /* submit: the id is taken by another body */
    WEIR_DESK_STALE,    /* it is not in a state in which that can be done */
    WEIR_DESK_FULL, /* submit: as many ids are remembered as may be, or as many dead letters kept */
    WEIR_DESK_FAILED, /* the disk does not work; `wrong` says why */
    WEIR_DESK_DRAINING
};

/* One request. It must stay until `told` has arrived; its `memory` is freed with free(). */
struct weir_desk_request {
    struct weir_post told; /* the caller's `arrive`, called once in its loop */
    struct weir_loop *loop;
    enum weir_desk_end end;
    const char *wrong;
    union {
        struct weir_store_op op;
        struct weir_store_accept accept;
        struct weir_store_look look;
        struct weir_store_list list;
        struct weir_store_redrive redrive;
        struct weir_store_remove remove;
        struct weir_store_settle settle;
    };
    struct weir_desk *desk; /* private, as all below */
    struct weir_slice id;
    int step;
};

/* Accepts `accept.orders`; for each, a place of its queue, tenant and priority was reserved at the
 * door, and is taken or given back. */
void weir_desk_submit(struct weir_desk *desk, struct weir_desk_request *request);

/* `look.id` and `look.with` say what. */
void weir_desk_look(struct weir_desk *desk, struct weir_desk_request *request);

/* `list` without its op. */
void weir_desk_list(struct weir_desk *desk, struct weir_desk_request *request);

/* `look.id`: a job that is queued or runs is cancelled; DONE when that is on record, for one that
 * runs as soon as it has been told to end. STALE when it is over already; `look.row` then tells. */
void weir_desk_cancel(struct weir_desk *desk, struct weir_desk_request *request);

/* `redrive.number`, or by `redrive.filter`; they enter the schedule. */
void weir_desk_redrive(struct weir_desk *desk, struct weir_desk_request *request);

/* `remove.number`. */
void weir_desk_remove(struct weir_desk *desk, struct weir_desk_request *request);

/* ---- what is known without asking the store ---- */

struct weir_desk_live {
    struct weir_schedule_look look;
    double progress; /* RUNNING: 0 to 1; less than 0: not told */
    uint32_t progress_bytes;
    char progress_text[256];
};

void weir_desk_live(struct weir_desk *desk, uint64_t number, struct weir_desk_live *live);

/* Of a queue by number, for GET /capacity and /metrics, with its dead letters; false past the last.
 */
bool weir_desk_stats(struct weir_desk *desk, uint32_t queue, struct weir_slice *name,
                     struct weir_schedule_stats *stats, uint64_t *dead);

struct weir_desk_counts {
    uint64_t accepted;
    uint64_t ended[WEIR_JOB_STATE_COUNT]; /* by what they became */
    uint64_t retried;
    struct weir_store_counts store;
};
void weir_desk_count(struct weir_desk *desk, struct weir_desk_counts *counts);

/* ---- waiting for a job's end ---- */

/* Embedded in whoever waits: `told` arrives when the job is DONE, FAILED or CANCELLED, on record.
 */
struct weir_desk_watch {
    struct weir_post told;
    struct weir_loop *loop;
    struct weir_link link; /* private */
    uint64_t number;
    bool sleeping; /* private, under the desk's lock */
};

/* True: it is watched, and `told` will arrive once. False: it is over already, or is not there. */
bool weir_desk_watch(struct weir_desk *desk, struct weir_desk_watch *watch);

/* True: `told` will not arrive. False: it is under way, and will. */
bool weir_desk_unwatch(struct weir_desk *desk, struct weir_desk_watch *watch);

/* ---- bodies in files ---- */

struct weir_disk *weir_desk_disk(struct weir_desk *desk);
struct weir_store *weir_desk_store(struct weir_desk *desk);

#endif
