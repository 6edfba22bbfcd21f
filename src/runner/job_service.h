/* job_service.h - the life of jobs: joins the schedule, the store and the runners.
 *
 * The schedule decides under one short lock, which every thread may take. The store's thread
 * commits. A thread of its own, the command loop, has a loop in which commands run; a job of a
 * queue with a route runs in the loop of one of the workers. A caller embeds a request in its own
 * object; the answer arrives in the loop that the request names.
 *
 * admission -> body -> submit -> [store: ACCEPT, commit] -> 202, enter the schedule
 *     a turn -> [store: TAKE] -> run -> end -> [store: SETTLE, commit] -> forget or requeue
 *
 * Promises (docs/internals/jobs.md states and tests each): J1 a 202 is on disk. J2 an accepted job
 * is queued, running, done, cancelled or dead, exactly once. J3 an answer counts only under its
 * epoch. J4 a job found running at a start has spent an attempt, unless it had ended well. J5 while
 * the disk fails nothing is accepted and nothing is started; running jobs go on and are recorded
 * later. */
#ifndef WEIR_RUNNER_JOB_SERVICE_H
#define WEIR_RUNNER_JOB_SERVICE_H

#include "base/histogram.h"
#include "base/map.h"
#include "jobs/port.h"
#include "jobs/schedule.h"
#include "jobs/waiters.h"
#include "net/disk.h"
#include "worker/config_snapshot.h"

#define WEIR_JOB_SERVICE_ORDERS_MAX 10000 /* of one submission */

/* The most submitters that wait for room before they send their body. Tenants share these places: a
 * tenant may occupy as many as are left, so half of them alone, a third beside another such tenant,
 * and a tenant without any always finds some. */
#define WEIR_JOB_ADMISSIONS_MAX 2000

struct weir_job_service;

/* Jobs as an extension of the server, which knows nothing else of them. */
extern const struct weir_extension weir_job_service_extension;

/* The job service of a worker; null while no config has named queues. */
struct weir_job_service *weir_job_service_of(const struct weir_worker *worker);

struct weir_job_service_options {
    struct weir_config_snapshot
        *snapshot; /* at the start; its config's queues; the job service takes it as well */
    struct weir_worker *workers[WEIR_LOOPS_MAX]; /* for routes; their loops need not run yet */
    uint32_t worker_count;
    struct weir_event_log *event_log; /* for job.* events; may be null */

    /* Another store, for tests; null: the database in the config's data folder. */
    const struct weir_store_port *port;
    struct weir_store *store;
};

/* Whether the commands of the config's queues can run here and now. False, with a sentence in
 * `error` that names the file and the line. */
WEIR_MUST_CHECK bool weir_job_service_check(const struct weir_config *config, char *error,
                                            size_t error_bytes);

/* Opens the data folder and recovers; nothing is started before weir_job_service_resume(). Null on
 * failure, with a sentence in `error`. */
struct weir_job_service *weir_job_service_open(const struct weir_job_service_options *options,
                                               char *error, size_t error_bytes);

/* New queues; nothing is started from now on. False, with a sentence and nothing changed, on
 * failure. Called in the main thread. */
WEIR_MUST_CHECK bool weir_job_service_configure(struct weir_job_service *service,
                                                struct weir_config_snapshot *snapshot, char *error,
                                                size_t error_bytes);

/* Starts queued jobs; called when every worker has the snapshot. */
void weir_job_service_resume(struct weir_job_service *service);

/* Starts and accepts nothing more, and answers all callers that wait for room or for a job's end
 * before it returns. `drained` is called once, in some thread, when nothing runs any more and
 * everything is on record. */
void weir_job_service_drain(struct weir_job_service *service, void (*drained)(void *context),
                            void *context);

/* Called after the workers' loops have stopped. Ends running jobs and queues them again, without
 * counting a kill; if that cannot be recorded, the next start finds a lost attempt. All requests
 * are answered when this returns, and later ones are refused. */
void weir_job_service_stop(struct weir_job_service *service);

/* Called after the posts of the workers' loops have been delivered, when no request can come any
 * more. */
void weir_job_service_close(struct weir_job_service *service);

/* ---- admission ---- */

/* Places in queues, reserved before a body is read. Embedded in the caller. */
struct weir_job_admission {
    struct weir_post on_done; /* the caller sets `arrive`; private until it arrives */
    struct weir_loop *loop;
    struct weir_job_service
        *service; /* private, like the next four; the last three under the service's lock */
    struct weir_post post;
    struct weir_link link;
    struct weir_waiter waiter;
    bool under_way;
    bool left; /* private: its answer is not wanted any more */
    struct weir_schedule_ask ask;
    struct weir_slice id; /* of the only job, if it may have been submitted before; or empty */
    bool at_once;         /* do not wait for room */
    uint64_t deadline_ns; /* of waiting for room; the loop's clock */
    enum weir_schedule_answer answer;
    bool drains; /* FULL: because Weir shuts down */
    bool known;  /* COME without room: the job exists already, and no place is reserved */
    uint64_t retry_after_ns;
    bool waiting;  /* under the job service's lock */
    bool reserved; /* under the job service's lock: it has places */
};

/* Asks for places. True: `answer` is set. False: the caller waits for room, or, if there is none,
 * the store looks whether `id` exists; then `on_done` arrives in its loop, once, unless
 * weir_job_service_leave_admission() is called before. Where there is room, or neither an id nor
 * time to wait, the answer comes at once. */
bool weir_job_service_ask(struct weir_job_service *service, struct weir_job_admission *admission);

/* Ends waiting, and gives reserved places back, also those that `on_done` is just bringing. True:
 * `on_done` will not arrive any more. False: it is under way, and the admission must stay until
 * then. */
bool weir_job_service_leave_admission(struct weir_job_service *service,
                                      struct weir_job_admission *admission);

/* Gives reserved places back, after the answer, and restores its tenant's rate as if it had not
 * asked. */
void weir_job_service_revoke(struct weir_job_service *service,
                             struct weir_job_admission *admission);

/* Finds a queue's number and settings, or null; an empty name is the default queue. Called in a
 * worker's loop; the settings are valid until the loop goes on: copy what is needed for longer. */
const struct weir_config_queue *weir_job_service_queue(struct weir_job_service *service,
                                                       struct weir_slice name, uint32_t *number);

/* ---- requests ---- */

enum weir_job_service_end {
    WEIR_JOB_SERVICE_DONE,
    WEIR_JOB_SERVICE_UNKNOWN, /* there is no such job; submit with `repeats`: the job does not exist
                               */
    WEIR_JOB_SERVICE_CONFLICT, /* submit: the id exists with another body */
    WEIR_JOB_SERVICE_STALE,    /* the job's state does not allow it */
    WEIR_JOB_SERVICE_NO_QUEUE, /* submit: a queue is no longer in the config */
    WEIR_JOB_SERVICE_FULL,   /* submit: the limit of remembered ids or of dead letters is reached */
    WEIR_JOB_SERVICE_FAILED, /* the disk fails; `error` says why */
    WEIR_JOB_SERVICE_DRAINING
};

/* One request. It must stay until `on_done` has arrived; its `memory` is freed with free(). */
struct weir_job_service_request {
    struct weir_post on_done; /* the caller's `arrive`, called once in its loop */
    struct weir_loop *loop;
    enum weir_job_service_end end;
    const char *error;
    bool repeats; /* submit: no places are reserved; only jobs that exist already count */
    union {
        struct weir_store_op op;
        struct weir_store_accept accept;
        struct weir_store_look look;
        struct weir_store_list list;
        struct weir_store_redrive redrive;
        struct weir_store_remove remove;
        struct weir_store_settle settle;
    };
    struct weir_job_service *service; /* private, like all fields below */
    struct weir_link link;            /* in the list of requests that are retried */
    void (*again)(struct weir_job_service_request *request);
    struct weir_job_service_request *next; /* the next request that waits for the same run */
    struct weir_slice id;
    uint64_t number;
    uint32_t queue;
    uint32_t tries;
};

/* Accepts `accept.orders`; for each, a place of its queue, tenant and priority was reserved by an
 * admission, and is used or given back: the admissions have none from now on. With `repeats` none
 * was reserved, and nothing new is accepted. */
void weir_job_service_submit(struct weir_job_service *service,
                             struct weir_job_service_request *request);

/* Reads a job: `look.id` and `look.with` say which and how much. */
void weir_job_service_look(struct weir_job_service *service,
                           struct weir_job_service_request *request);

/* Lists jobs; fill `list` except for its op. */
void weir_job_service_list(struct weir_job_service *service,
                           struct weir_job_service_request *request);

/* Cancels the job `look.id` if it is queued or runs. The answer is DONE when that is on record, or,
 * for a running job, as soon as it was asked to end. It is STALE if the job has ended; `look.row`
 * says how. */
void weir_job_service_cancel(struct weir_job_service *service,
                             struct weir_job_service_request *request);

/* Queues dead letters again: `redrive.number`, or those that match `redrive.filter`. */
void weir_job_service_redrive(struct weir_job_service *service,
                              struct weir_job_service_request *request);

/* Removes the dead letter `remove.number`. */
void weir_job_service_remove(struct weir_job_service *service,
                             struct weir_job_service_request *request);

/* ---- what the service knows without the store ---- */

struct weir_job_service_live {
    struct weir_schedule_look look;
    double progress; /* RUNNING: 0 to 1; less than 0: not reported */
    uint32_t progress_bytes;
    char progress_text[256];
};

void weir_job_service_live(struct weir_job_service *service, uint64_t number,
                           struct weir_job_service_live *live);

/* Counts of a queue by number, for GET /capacity and /metrics, with its dead letters; false past
 * the last. */
bool weir_job_service_stats(struct weir_job_service *service, uint32_t queue,
                            struct weir_slice *name, struct weir_schedule_stats *stats,
                            uint64_t *dead);

/* Why a queue by number accepts nothing, for reasons of its own; null: it accepts, or is only full.
 */
const char *weir_job_service_objection(struct weir_job_service *service, uint32_t queue);

/* Counters of a queue since the start. */
struct weir_job_service_tally {
    uint64_t dead; /* dead letters at present */
    uint64_t accepted;
    uint64_t ended[WEIR_JOB_STATE_COUNT]; /* by the state that they reached; QUEUED: tried again */
    struct weir_histogram ran;            /* how long attempts have run, by weir_scale_job_run */
};

/* The counters of a queue by number; false past the last. */
bool weir_job_service_tally(struct weir_job_service *service, uint32_t queue,
                            struct weir_job_service_tally *tally);

struct weir_job_service_counts {
    struct weir_job_service_tally all; /* all queues together */
    uint64_t stale;                    /* ends that came too late to count */
    const char *error;                 /* why no queue accepts anything; null: they do */
    struct weir_store_counts store;
};
void weir_job_service_count(struct weir_job_service *service,
                            struct weir_job_service_counts *counts);

/* ---- waiting for a job's end ---- */

/* Waits for a job's end; embedded in the caller. `on_done` arrives when the job is DONE, FAILED or
 * CANCELLED on record, or before that when Weir begins to drain. */
struct weir_job_service_watch {
    struct weir_post on_done;
    struct weir_loop *loop;
    struct weir_map_node node; /* private, as the next */
    struct weir_link link;
    uint64_t number;
    bool sleeping; /* private, under the job service's lock */
    bool drains;   /* set before `on_done` arrives: Weir drains */
};

/* True: `on_done` will arrive once. False: the job has ended, does not exist, or Weir drains. */
bool weir_job_service_watch(struct weir_job_service *service, struct weir_job_service_watch *watch);

/* True: `on_done` will not arrive. False: it is under way. */
bool weir_job_service_unwatch(struct weir_job_service *service,
                              struct weir_job_service_watch *watch);

/* ---- bodies in files ---- */

struct weir_disk *weir_job_service_disk(struct weir_job_service *service);
struct weir_store *weir_job_service_store(struct weir_job_service *service);

#endif
