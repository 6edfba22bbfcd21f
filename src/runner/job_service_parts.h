/* job_service_parts.h - the job service from within: what its files share.
 *
 * A run is one job's way from its turn to the record of what became of it. Others that only need to
 * be recorded (a job that is dropped, cancelled in line, or found running at the start) are runs
 * that begin at their end.
 *
 *     a turn                 DONE            its loop             ended             DONE
 *     ------> IDLE, TAKING ------> GOING --------------> RUNNING -------> SETTLING ------> OVER
 *
 * One lock guards all that is marked so; under it no system call is made. It is let go by
 * weir_job_service_unlock(), which sees to everything that the schedule has decided meanwhile: so
 * every change ends with a call of it. Whatever has to be told or asked then is done without the
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

/* How soon what the disk has refused is tried again. */
#define WEIR_JOB_SERVICE_RETRY_NS (WEIR_NS_PER_SECOND / 2)

/* Runs at once: those of all workers, and others that are being recorded. */
#define WEIR_JOB_SERVICE_RUNS_MAX UINT32_C(10000000)

/* Tenants at doors are counted by their hash. Two that have the same are one: with so many that is
 * rare, nobody can choose it, and then they share what one may have. */
#define WEIR_JOB_SERVICE_CROWDS 4096

enum weir_run_state {
    WEIR_RUN_IDLE,     /* nothing may be started at present; on the job service's `idle` */
    WEIR_RUN_TAKING,   /* the store makes it RUNNING, or will be asked again */
    WEIR_RUN_GOING,    /* on the way to its loop */
    WEIR_RUN_RUNNING,  /* in its loop */
    WEIR_RUN_SETTLING, /* the store records its end, or will be asked again */
    WEIR_RUN_OVER
};

/* Why it is made to end. */
enum weir_run_halt {
    WEIR_HALT_NONE,
    WEIR_HALT_CANCEL,
    WEIR_HALT_LAPSE,
};

/* How an attempt ended, by command or by route. */
struct weir_run_report {
    enum weir_attempt_end end;
    bool orderly; /* LOST: Weir was told to end, so no kill is counted */
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
    struct weir_epoch epoch;    /* as the schedule knows it, */
    struct weir_epoch recorded; /* and as the store does */

    /* Under the lock. */
    struct weir_map_node node;
    struct weir_link all;
    struct weir_link link; /* idle, stuck, or what is to be done without the lock */
    enum weir_run_state state;
    enum weir_run_halt halt;
    uint32_t holds; /* posts under way and the like: it may not be freed */
    struct weir_job_service_request *cancels;
    double progress;
    uint32_t progress_bytes;
    char progress_text[WEIR_COMMAND_PROGRESS_BYTES_MAX];

    struct weir_config_snapshot *snapshot; /* which `config` is of; null: it was never to run */
    const struct weir_config_queue *config;
    struct weir_worker *worker; /* in whose loop it runs; null: in the command loop */
    struct weir_post go;
    struct weir_post stop;
    bool entered;    /* the schedule knows it */
    bool folder;     /* it may have one */
    bool stale;      /* its end did not count */
    bool rests;      /* it could not be begun, and is or will be stuck; under the lock */
    bool unrecorded; /* found at the start: its folder is there, but not that it was begun */
    uint64_t began_ns;
    uint64_t ran_ms;

    union {
        struct weir_store_take take;
        struct weir_store_look look;
    };
    struct weir_store_settle settle;
    struct weir_store_op *asked; /* that of both which is under way or stuck */
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
    struct weir_link doors;      /* who wait for room, */
    struct weir_waiters waiters; /* and whose turn it is */
    bool held;                   /* what becomes free is for one who needs several places */
    struct weir_link link;       /* among those at whose doors somebody waits */
    uint32_t config;             /* its index in the snapshot's config, or WEIR_CONFIG_NONE */
};

/* The thread in which commands run, and which has the time for all. */
struct weir_command_loop {
    struct weir_loop loop;
    pthread_t thread;
    struct weir_timer timer;
    struct weir_post arm; /* the timer is to be set; under way if `arming`, under the lock */
    struct weir_post halt;
    bool arming;
    bool made; /* the loop is there, */
    bool runs; /* and the thread */
};

/* Jobs of which there are folders of attempts when Weir starts, in order. */
struct weir_job_service_remains {
    uint64_t *numbers;
    size_t count;
    size_t size;
};

struct weir_job_service {
    pthread_mutex_t lock;
    pthread_cond_t quiet;        /* `asked` is 0 */
    atomic_uint_least64_t asked; /* operations of the store that are under way */

    /* Under the lock. */
    struct weir_schedule *schedule;
    struct weir_config_snapshot *snapshot;
    uint32_t numbers[WEIR_SCHEDULE_QUEUES_MAX]; /* of the config's queues in the schedule */
    struct weir_job_service_place places[WEIR_SCHEDULE_QUEUES_MAX];
    struct weir_link crowded; /* places at whose doors somebody waits */
    uint32_t door_count;
    uint16_t crowds[WEIR_JOB_SERVICE_CROWDS]; /* of these, by their tenants' hashes */
    struct weir_slab run_slab;
    struct weir_map runs; /* by number */
    struct weir_link all_runs;
    struct weir_link idle;
    struct weir_link stuck;              /* runs, */
    struct weir_link stuck_requests;     /* and requests that are tried again */
    uint32_t busy;                       /* runs that are neither idle nor over */
    struct weir_map watches;             /* by number, */
    struct weir_link all_watches;        /* and each of them */
    struct weir_job_service_tally tally; /* of all places together */
    uint64_t stale;
    uint64_t renew_every_ns;
    uint64_t renew_ns; /* when leases are renewed; WEIR_NEVER: nothing runs */
    uint64_t retry_ns; /* when what is stuck is tried again; WEIR_NEVER: nothing is */
    uint64_t door_ns;  /* when somebody at a door has waited long enough */
    uint64_t armed_ns; /* when the command loop wakes up */
    bool dated;        /* there may be jobs with a date */
    bool paused;       /* nothing is started at present, */
    bool draining;     /* or any more; nothing is accepted */
    bool stopped;      /* nobody runs any more */
    void (*drained)(void *context);
    void *drained_context;
    uint64_t random;
    uint64_t seed[2]; /* of the crowds' hashes */
    uint32_t next_worker;

    /* These do not change. */
    const struct weir_store_port *port;
    struct weir_store *store; /* as the port wants it */
    struct weir_store *files; /* SQLite's, or null: another keeps the record */
    uint32_t boot;
    struct weir_disk *disk;
    struct weir_launcher *launcher; /* the command loop's own, while that runs */
    int work_lock;                  /* as in leftovers.h; -1: none */
    struct weir_event_log *event_log;
    struct weir_worker *workers[WEIR_LOOPS_MAX];
    uint32_t worker_count;
    EVP_MD *sha256;
    struct weir_job_service_remains remains; /* until all have been found */
    char folder[PATH_MAX];
    struct weir_command_loop command_loop;
};

/* ---- the lock, job_service.c ---- */

/* Takes the lock and tells the time. */
struct weir_instant weir_job_service_lock(struct weir_job_service *service);

/* Sees to what the schedule has decided, lets the lock go, and does what is to be done then. */
void weir_job_service_unlock(struct weir_job_service *service, struct weir_instant now);

/* Hands an operation to the store; and what every completion ends with. */
void weir_job_service_pass(struct weir_job_service *service, struct weir_store_op *op);
void weir_job_service_complete(struct weir_job_service *service);

static inline uint64_t weir_job_service_hash(uint64_t number)
{
    uint64_t x = number * UINT64_C(0x9e3779b97f4a7c15); /* neighbours go to different chains */
    return x ^ (x >> 32);
}

/* Unlikely to repeat. Under the lock. */
uint64_t weir_job_service_random(struct weir_job_service *service);

/* What the config says of a queue at present, or null. Under the lock. */
const struct weir_config_queue *weir_job_service_config(const struct weir_job_service *service,
                                                        uint32_t queue);

/* What its commands have in common. */
struct weir_command_kind weir_job_service_command_kind(const struct weir_config_queue *config);

/* ---- the door, job_service_admission.c; under the lock ---- */

/* Whoever has room now, and whoever has waited long enough, joins `told`. */
void weir_job_service_serve_admissions(struct weir_job_service *service, struct weir_instant now,
                                       struct weir_link *told);

/* Tells them; without the lock. */
void weir_job_service_notify_admissions(struct weir_link *told);

/* Nobody waits any more: all are told that there is no room. */
void weir_job_service_close_admissions(struct weir_job_service *service, struct weir_link *told);

/* ---- runs, job_service_run.c and job_service_settle.c ---- */

/* A run of that number, in no list but the job service's. Null without memory. Under the lock. */
struct weir_run *weir_run_create(struct weir_job_service *service, uint64_t number, uint32_t queue);
struct weir_run *weir_job_service_find_run(const struct weir_job_service *service, uint64_t number);

/* A turn has come, or a lease has run out: the run to be seen to without the lock, or null. Under
 * the lock. */
struct weir_run *weir_run_begin(struct weir_job_service *service,
                                const struct weir_schedule_news *news, struct weir_instant now);
struct weir_run *weir_run_lapse(struct weir_job_service *service,
                                const struct weir_schedule_news *news);

/* Asks the store to make it RUNNING. */
void weir_run_take(struct weir_run *run);

/* The run is to end for this reason. True: weir_run_send_stop() is due, without the lock. */
bool weir_run_stop(struct weir_run *run, enum weir_run_halt halt);
void weir_run_send_stop(struct weir_run *run);

/* Ends what runs anywhere, or was about to, now that no loop turns and the disk threads rest; what
 * has ended by itself is heard. Whether there was anything. */
bool weir_job_service_halt_all(struct weir_job_service *service);

/* The state changes. Under the lock. */
void weir_run_move(struct weir_run *run, enum weir_run_state state);

/* Whoever has held it does not any more: it is freed if it is over and nobody else does. Without
 * the lock. */
void weir_run_let_go(struct weir_run *run);

/* The attempt has ended. In its loop, or in the store's thread. */
void weir_run_end(struct weir_run *run, const struct weir_run_report *report);

/* A job that is QUEUED on record becomes FAILED or CANCELLED without having run. It is SETTLING,
 * its row is there, and the schedule holds it, if it knows it. */
void weir_run_retire(struct weir_run *run, enum weir_job_state after, const char *error);

/* The same for one whose row is not there, because its queue is full and newer ones have come. */
void weir_run_drop(struct weir_run *run);

/* A job whose turn has come is not QUEUED on record, so there is nothing to start. */
void weir_run_vanish(struct weir_run *run);

/* There is no memory or no descriptor to run it: it keeps its worker for a little while, so that
 * not all who wait are tried, and goes back; no attempt is spent. */
void weir_run_rest(struct weir_run *run);

/* Asks the store again, or lets it go back. */
void weir_run_ask_again(struct weir_run *run);

/* The store has refused it: tried again soon. Its cancellations are told why. */
void weir_run_stick(struct weir_run *run, const char *error);

/* Gives its memory back. Under the lock, or when there is nobody else. */
void weir_run_destroy(struct weir_run *run);

/* ---- what is found at the start, job_service_recover.c ---- */

/* Looks for what was left of attempts, and forgets that again. */
void weir_job_service_find_remains(struct weir_job_service *service, const char *folder);
void weir_job_service_forget_remains(struct weir_job_service *service);

/* For weir_store_open(); the context is the job service. */
bool weir_job_service_found(void *context, const struct weir_job_row *row);

/* Sees to what was found running. */
void weir_job_service_recover(struct weir_job_service *service);

/* ---- requests, job_service_request.c ---- */

/* Answers a request in its loop. */
void weir_job_service_answer(struct weir_job_service_request *request,
                             enum weir_job_service_end end, const char *error);

/* Cancellations that waited for a run, linked by `next`: they look again what has become of their
 * job; or all have the same answer. */
void weir_job_service_cancel_all_again(struct weir_job_service_request *requests);
void weir_job_service_answer_all(struct weir_job_service_request *requests,
                                 enum weir_job_service_end end, const char *error);

/* ---- telling, job_service_notify.c ---- */

/* Those who watch the job, or all because Weir drains, linked by their nodes; and told. The last
 * without the lock, the others under it. */
struct weir_map_node *weir_job_service_take_watches(struct weir_job_service *service,
                                                    uint64_t number);
struct weir_map_node *weir_job_service_take_all_watches(struct weir_job_service *service);
void weir_job_service_notify_watches(struct weir_map_node *watches);

/* A run's end is on record: tells those who read along. Without the lock. */
void weir_job_service_notify_end(const struct weir_run *run);

#endif
