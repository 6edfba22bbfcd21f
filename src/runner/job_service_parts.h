/* job_service_parts.h - the inside of the job service: what its files share.
 *
 * A run is one job's way from its turn to the record of its end. A job that only needs to be
 * recorded (dropped, cancelled in line, or found running at the start) is a run that begins at its
 * end.
 *
 *     a turn                 DONE            its loop             ended             DONE
 *     ------> IDLE, TAKING ------> GOING --------------> RUNNING -------> SETTLING ------> OVER
 *
 * One lock guards all fields that are marked so; under it no system call is made.
 * weir_job_service_unlock() releases it and carries out everything that the schedule has decided
 * meanwhile, so every change ends with that call. Posts and calls of the store are made without the
 * lock. */
#ifndef WEIR_RUNNER_JOB_SERVICE_PARTS_H
#define WEIR_RUNNER_JOB_SERVICE_PARTS_H

#include "base/clock.h"
#include "base/slab.h"
#include "runner/command.h"
#include "runner/job_service.h"
#include "runner/launcher.h"
#include "runner/route_attempt.h"
#include "store/store.h"

#include <linux/limits.h> /* PATH_MAX, which C17 alone does not have */
#include <openssl/evp.h>
#include <pthread.h>

/* How soon an operation that the disk has refused is tried again. */
#define WEIR_JOB_SERVICE_RETRY_NS (WEIR_NS_PER_SECOND / 2)

/* Runs at once: running jobs, and others that are being recorded. */
#define WEIR_JOB_SERVICE_RUNS_MAX UINT32_C(10000000)

/* Waiting submitters are counted by the hash of their tenant. Two tenants with the same hash share
 * one allowance: with so many slots that is rare, and the secret seed keeps a client from choosing
 * it. */
#define WEIR_JOB_SERVICE_TENANT_COUNTS 4096

enum weir_run_state {
    WEIR_RUN_IDLE,     /* nothing may start at present; in the job service's list `idle` */
    WEIR_RUN_TAKING,   /* the store records RUNNING, or will be asked again */
    WEIR_RUN_GOING,    /* posted to its loop */
    WEIR_RUN_RUNNING,  /* in its loop */
    WEIR_RUN_SETTLING, /* the store records its end, or will be asked again */
    WEIR_RUN_OVER
};

/* Why a run is asked to end. */
enum weir_run_halt {
    WEIR_HALT_NONE,
    WEIR_HALT_CANCEL,
    WEIR_HALT_LAPSE,
};

/* How an attempt ended, by command or by route. */
struct weir_run_report {
    enum weir_attempt_end end;
    bool orderly; /* LOST: Weir was shutting down, so no kill is counted */
    struct weir_slice error;
    uint64_t retry_after_ms;
    uint32_t status;
    struct weir_slice type;
    struct weir_job_bytes result;
    struct weir_slice log;
};

struct weir_run {
    struct weir_job_service *service;
    uint64_t number;
    uint32_t queue;             /* its number in the schedule */
    struct weir_epoch epoch;    /* the schedule's, */
    struct weir_epoch recorded; /* and the store's */

    /* Under the lock. */
    struct weir_map_node node;
    struct weir_link all;
    struct weir_link link; /* in a list: idle, stuck, or work to do without the lock */
    enum weir_run_state state;
    enum weir_run_halt halt;
    uint32_t holds; /* posts under way and other references: it may not be freed */
    struct weir_job_service_request *cancels;
    double progress;
    uint32_t progress_bytes;
    char progress_text[WEIR_COMMAND_PROGRESS_BYTES_MAX];

    struct weir_config_snapshot *snapshot; /* whose `config` it is; null: it never had one */
    const struct weir_config_queue *config;
    struct weir_worker *worker; /* in whose loop it runs; null: in the command loop */
    struct weir_post go;
    struct weir_post stop;
    bool entered;    /* it is in the schedule */
    bool folder;     /* an attempt's folder may exist */
    bool stale;      /* its end did not count */
    bool rests;      /* it could not begin, and is or will be stuck; under the lock */
    bool unrecorded; /* found at the start: its folder exists, but no record of its start */
    uint64_t began_ns;
    uint64_t ran_ms;

    union {
        struct weir_store_take take;
        struct weir_store_look look;
    };
    struct weir_store_settle settle;
    struct weir_store_op *asked; /* the operation of both that is under way or stuck */
    struct weir_job_row row;     /* its texts are in `memory` */
    void *memory;
    void *texts; /* of the settlement */

    /* Its loop's own. */
    struct weir_command_kind kind;
    struct weir_command_attempt *command;
    struct weir_route_attempt *route_attempt;
    struct weir_disk_task sweep;
};

/* A queue of the schedule, by its number. All under the lock. */
struct weir_job_service_place {
    struct weir_job_service_tally tally;
    struct weir_link admissions; /* admissions that wait for room, */
    struct weir_waiters waiters; /* and their order */
    bool held;                   /* free places are kept for one that needs several */
    struct weir_link link;       /* in the list of places with waiters */
    uint32_t config;             /* its index in the snapshot's config, or WEIR_CONFIG_NONE */
};

/* The thread that runs commands, and whose timer serves the whole service. */
struct weir_command_loop {
    struct weir_loop loop;
    pthread_t thread;
    struct weir_timer timer;
    struct weir_post arm; /* sets the timer; under way if `arming`, under the lock */
    struct weir_post halt;
    bool arming;
    bool made; /* the loop is there, */
    bool runs; /* and the thread */
};

/* Jobs whose attempts left folders, found when Weir starts, in order. */
struct weir_job_service_remains {
    uint64_t *numbers;
    size_t count;
    size_t size;
};

struct weir_job_service {
    pthread_mutex_t lock;
    pthread_cond_t quiet;        /* signals that `asked` is 0 */
    atomic_uint_least64_t asked; /* operations under way in the store */

    /* Under the lock. */
    struct weir_schedule *schedule;
    struct weir_config_snapshot *snapshot;
    uint32_t numbers[WEIR_SCHEDULE_QUEUES_MAX]; /* of the config's queues in the schedule */
    struct weir_job_service_place places[WEIR_SCHEDULE_QUEUES_MAX];
    struct weir_link waiting_places; /* places with waiters */
    uint32_t admission_count;
    uint16_t
        tenant_counts[WEIR_JOB_SERVICE_TENANT_COUNTS]; /* waiters by the hash of their tenant */
    struct weir_slab run_slab;
    struct weir_map runs; /* by number */
    struct weir_link all_runs;
    struct weir_link idle;
    struct weir_link stuck;              /* runs, */
    struct weir_link stuck_requests;     /* and requests, that are retried */
    uint32_t busy;                       /* runs that are neither idle nor over */
    struct weir_map watches;             /* by number, */
    struct weir_link all_watches;        /* and each of them */
    struct weir_job_service_tally tally; /* of all places together */
    uint64_t stale;
    uint64_t renew_every_ns;
    uint64_t renew_ns;     /* when leases are renewed; WEIR_NEVER: nothing runs */
    uint64_t retry_ns;     /* when stuck ones are retried; WEIR_NEVER: there are none */
    uint64_t admission_ns; /* the earliest deadline of a waiter */
    uint64_t armed_ns;     /* when the command loop wakes up */
    bool dated;            /* there may be jobs with a date */
    bool paused;           /* nothing is started at present */
    bool draining;         /* nothing is started or accepted any more */
    bool stopped;          /* nothing runs any more */
    void (*drained)(void *context);
    void *drained_context;
    uint64_t random;
    uint64_t seed[2]; /* of the hashes of tenants */
    uint32_t next_worker;

    /* These do not change. */
    const struct weir_store_port *port;
    struct weir_store *store; /* as the port expects it */
    struct weir_store *files; /* SQLite's, or null for another store */
    uint32_t boot;
    struct weir_disk *disk;
    struct weir_launcher *launcher; /* the command loop's own, while that runs */
    int work_lock;                  /* as in leftovers.h; -1: none */
    struct weir_event_log *event_log;
    struct weir_worker *workers[WEIR_LOOPS_MAX];
    uint32_t worker_count;
    EVP_MD *sha256;
    struct weir_job_service_remains remains; /* used until all jobs have been found */
    char folder[PATH_MAX];
    struct weir_command_loop command_loop;
};

/* ---- the lock, job_service.c ---- */

/* Takes the lock and reads the clocks. */
struct weir_instant weir_job_service_lock(struct weir_job_service *service);

/* Carries out what the schedule has decided, releases the lock, and then does what must be done
 * without it. */
void weir_job_service_unlock(struct weir_job_service *service, struct weir_instant now);

/* Hands an operation to the store; and ends a completion. */
void weir_job_service_pass(struct weir_job_service *service, struct weir_store_op *op);
void weir_job_service_complete(struct weir_job_service *service);

static inline uint64_t weir_job_service_hash(uint64_t number)
{
    uint64_t x = number * UINT64_C(0x9e3779b97f4a7c15); /* neighbours go to different chains */
    return x ^ (x >> 32);
}

/* Unlikely to repeat. Under the lock. */
uint64_t weir_job_service_random(struct weir_job_service *service);

/* The config of a queue at present, or null. Under the lock. */
const struct weir_config_queue *weir_job_service_config(const struct weir_job_service *service,
                                                        uint32_t queue);

/* The settings that the commands of a queue share. */
struct weir_command_kind weir_job_service_command_kind(const struct weir_config_queue *config);

/* ---- admissions, job_service_admission.c; under the lock ---- */

/* Decides admissions that have room now or whose deadline has passed, and adds them to `answered`.
 */
void weir_job_service_serve_admissions(struct weir_job_service *service, struct weir_instant now,
                                       struct weir_link *answered);

/* Posts the answers; without the lock. */
void weir_job_service_notify_admissions(struct weir_link *answered);

/* Ends all waiting: all waiters are answered that there is no room. */
void weir_job_service_close_admissions(struct weir_job_service *service,
                                       struct weir_link *answered);

/* ---- runs, job_service_run.c and job_service_settle.c ---- */

/* Makes a run of that number, in no list but the job service's. Null without memory. Under the
 * lock. */
struct weir_run *weir_run_create(struct weir_job_service *service, uint64_t number, uint32_t queue);
struct weir_run *weir_job_service_find_run(const struct weir_job_service *service, uint64_t number);

/* Handles a turn, or a lease that has run out: returns the run to continue without the lock, or
 * null. Under the lock. */
struct weir_run *weir_run_begin(struct weir_job_service *service,
                                const struct weir_schedule_news *news, struct weir_instant now);
struct weir_run *weir_run_lapse(struct weir_job_service *service,
                                const struct weir_schedule_news *news);

/* Asks the store to record RUNNING. */
void weir_run_take(struct weir_run *run);

/* Asks the run to end for this reason. True: the caller must call weir_run_send_stop(), without the
 * lock. */
bool weir_run_stop(struct weir_run *run, enum weir_run_halt halt);
void weir_run_send_stop(struct weir_run *run);

/* Ends everything that runs or is about to, when no loop turns and the disk threads rest; ends that
 * were already reported are taken. Returns whether there was anything. */
bool weir_job_service_halt_all(struct weir_job_service *service);

/* Moves the run to a state. Under the lock. */
void weir_run_move(struct weir_run *run, enum weir_run_state state);

/* Gives up a hold: frees the run if it is over and no other hold is left. Without the lock. */
void weir_run_let_go(struct weir_run *run);

/* Takes the end of the attempt. In its loop, or in the store's thread. */
void weir_run_end(struct weir_run *run, const struct weir_run_report *report);

/* A job that is QUEUED on record becomes FAILED or CANCELLED without having run. The run is
 * SETTLING, its row is there, and the schedule holds it if it has entered. */
void weir_run_retire(struct weir_run *run, enum weir_job_state after, const char *error);

/* Retires a job whose row is not loaded, because its queue is full and newer jobs have come. */
void weir_run_drop(struct weir_run *run);

/* Forgets a job whose turn has come but which is not QUEUED on record. */
void weir_run_vanish(struct weir_run *run);

/* Puts a run back that lacks memory or descriptors. It keeps its worker for a short while, so that
 * not all waiting jobs are tried; no attempt is spent. */
void weir_run_rest(struct weir_run *run);

/* Asks the store again, or lets the run go back. */
void weir_run_ask_again(struct weir_run *run);

/* Marks a run that the store has refused as stuck: it is retried soon. Cancellations that wait for
 * it fail with `error`. */
void weir_run_stick(struct weir_run *run, const char *error);

/* Frees the run. Under the lock, or when no other thread is left. */
void weir_run_destroy(struct weir_run *run);

/* ---- what is found at the start, job_service_recover.c ---- */

/* Looks for folders of attempts; and frees the list again. */
void weir_job_service_find_remains(struct weir_job_service *service, const char *folder);
void weir_job_service_forget_remains(struct weir_job_service *service);

/* For weir_store_open(); the context is the job service. */
bool weir_job_service_found(void *context, const struct weir_job_row *row);

/* Settles the jobs that were found running. */
void weir_job_service_recover(struct weir_job_service *service);

/* ---- requests, job_service_request.c ---- */

/* Answers a request in its loop. */
void weir_job_service_answer(struct weir_job_service_request *request,
                             enum weir_job_service_end end, const char *error);

/* Cancellations that waited for a run, linked by `next`: looks up again what has become of their
 * job; or answers all of them alike. */
void weir_job_service_cancel_all_again(struct weir_job_service_request *requests);
void weir_job_service_answer_all(struct weir_job_service_request *requests,
                                 enum weir_job_service_end end, const char *error);

/* ---- notifications, job_service_notify.c ---- */

/* Takes the watches of a job, or all because Weir drains, linked by their nodes; and posts their
 * answers. Posting happens without the lock, the rest under it. */
struct weir_map_node *weir_job_service_take_watches(struct weir_job_service *service,
                                                    uint64_t number);
struct weir_map_node *weir_job_service_take_all_watches(struct weir_job_service *service);
void weir_job_service_notify_watches(struct weir_map_node *watches);

/* Publishes a run's end, which is on record, as an event. Without the lock. */
void weir_job_service_notify_end(const struct weir_run *run);

#endif
