/* schedule.h - which job goes next: queues of jobs over the core's line, without any I/O.
 *
 * A queue is a key of the core with one lane, whose permits are its workers. A job's ticket waits
 * in its line; cost is run time in milliseconds, expected first and corrected when the job has
 * ended, so that tenants take turns by how long their jobs run. Jobs that are not due yet are in
 * heaps: those with a date by the wall clock, delays and backoffs by the monotonic one, which does
 * not jump. A job whose turn comes while its `key` is at its limit of running jobs is parked, gives
 * its permit to the next job, and is first in its tenant's line when a job of the key ends; parked
 * jobs of one key come back one after the other, in the order of their turns.
 *
 *     where    how it comes there                 where it goes from there
 *     DELAYED  enter, requeue: not due yet        WAITING when due
 *     WAITING  enter, requeue, due                RUNNING at its turn, or PARKED
 *     PARKED   its turn, but its key is busy      WAITING when a job of its key ends
 *     RUNNING  its turn                           HELD when it ends or its lease does
 *     HELD     end, hold, drop, a lapsed lease    DELAYED or WAITING by requeue; gone by forget
 *
 * HELD jobs get no turn: the store is recording their next state. Every call takes the present time
 * and returns with everything decided; the caller then drains weir_schedule_next() and arranges for
 * weir_schedule_wake() at weir_schedule_due(). The caller brings one lock for all of it. No job is
 * ever displaced from its line: bounds are checked at admission, before a job is accepted. */
#ifndef WEIR_JOBS_SCHEDULE_H
#define WEIR_JOBS_SCHEDULE_H

#include "jobs/job.h"

#define WEIR_SCHEDULE_QUEUES_MAX 512
#define WEIR_SCHEDULE_JOBS_MAX   UINT32_C(10000000) /* of a queue */

struct weir_schedule;

/* The present: the loop's monotonic clock, and the wall's. */
struct weir_instant {
    uint64_t now_ns;
    int64_t wall_ms;
};

enum weir_schedule_full {
    WEIR_SCHEDULE_REJECT,
    WEIR_SCHEDULE_WAIT,
    WEIR_SCHEDULE_DROP_OLDEST
};

struct weir_schedule_queue {
    struct weir_slice name;
    uint32_t workers;                               /* running jobs; 0: none is started */
    uint32_t jobs_max;                              /* queued, whether due or not */
    uint32_t jobs_by_priority[WEIR_PRIORITY_COUNT]; /* 0: no bound of their own */
    enum weir_schedule_full full;
    uint32_t per_key;  /* jobs with the same key at once; at least 1 */
    uint64_t lease_ns; /* of a start; WEIR_NEVER: none */
    struct weir_tenant_settings
        tenant_default; /* weight, limit (running at once); rate: submissions */
    const struct weir_tenant_settings *tenants; /* tenants with settings of their own */
    uint32_t tenant_count;
};

struct weir_schedule_options {
    const struct weir_allocator *allocator; /* null: malloc and free */
    uint64_t seed[2];
    uint32_t boot; /* of the epochs that are given */
};

enum weir_status weir_schedule_create(const struct weir_schedule_options *options,
                                      struct weir_schedule **schedule) WEIR_MUST_CHECK;
void weir_schedule_destroy(struct weir_schedule *schedule);

/* Sets the queues. A queue that is no longer named keeps its jobs and starts none. WEIR_NO_MEMORY,
 * WEIR_BAD_NAME, WEIR_TOO_MANY_KEYS and what weir_settings_check() finds: then nothing has changed.
 * If memory is short, weights and limits of tenants may follow a little later. */
WEIR_MUST_CHECK enum weir_status weir_schedule_configure(struct weir_schedule *schedule,
                                                         const struct weir_schedule_queue *queues,
                                                         uint32_t queue_count,
                                                         struct weir_instant now);

/* A queue by its name: its number, which stays, or UINT32_MAX. */
uint32_t weir_schedule_find_queue(const struct weir_schedule *schedule, struct weir_slice name);

/* A queue by its name, made without workers if there is none, for jobs found at the start. Its
 * number, or UINT32_MAX without memory or with too many queues. */
uint32_t weir_schedule_need_queue(struct weir_schedule *schedule, struct weir_slice name,
                                  struct weir_instant now);

/* ---- admission ---- */

enum weir_schedule_answer {
    WEIR_SCHEDULE_COME, /* the places are reserved */
    WEIR_SCHEDULE_FULL, /* the queue is full; `retry_after_ns` from the measured drain, or 5 s */
    WEIR_SCHEDULE_TOO_FAST, /* the tenant's rate; `retry_after_ns` */
    WEIR_SCHEDULE_NO_QUEUE  /* it is not among the queues of the present settings */
};

struct weir_schedule_ask {
    uint32_t queue;
    struct weir_slice tenant;
    enum weir_priority priority;
    uint32_t count;

    /* A submission with several asks at one queue gets all its places at once. Otherwise two
     * submissions that hold half of them each would wait for each other. */
    uint32_t besides[WEIR_PRIORITY_COUNT]; /* the first ask reserves for all of them; */
    bool seated; /* the others, after it, only check their tenant's rate */
};

/* Asks for places. A queue that drops its oldest always has some. With FULL and a queue that waits,
 * the tenant's rate is not charged. */
enum weir_schedule_answer weir_schedule_ask(struct weir_schedule *schedule,
                                            const struct weir_schedule_ask *ask,
                                            struct weir_instant now, uint64_t *retry_after_ns);

/* For an ask that was answered FULL: how many places it waits for, if it lacks room in the queue as
 * a whole. 0: it has reached its priority's own bound, or asks for more than the queue will ever
 * have. */
uint64_t weir_schedule_awaited(const struct weir_schedule *schedule,
                               const struct weir_schedule_ask *ask);

/* Gives places back that no job will use. The tenant's rate stays charged. */
void weir_schedule_withdraw(struct weir_schedule *schedule, const struct weir_schedule_ask *ask);

/* Gives places back and restores the tenant's rate as if it had not been asked, unless it shares a
 * bucket. */
void weir_schedule_revoke(struct weir_schedule *schedule, const struct weir_schedule_ask *ask,
                          struct weir_instant now);

/* ---- jobs ---- */

struct weir_schedule_entry {
    uint64_t number; /* must be new */
    uint32_t queue;
    struct weir_slice tenant;
    struct weir_slice key;
    enum weir_priority priority;
    uint64_t cost_ms;   /* 0: not known */
    int64_t created_ms; /* when its delay began: its submission, or the start that failed */
    int64_t next_ms;    /* not before; 0: at once */
    bool dated;
    bool reserved; /* a place was reserved for it, and is used now */
};

/* Enters a job that is on record. A delay that has not begun yet because the wall clock was set
 * back lasts no longer than it was meant to: next_ms - created_ms. WEIR_NO_MEMORY, WEIR_BAD_NAME of
 * a tenant or key of more than WEIR_NAME_BYTES_MAX, WEIR_LINE_FULL with WEIR_SCHEDULE_JOBS_MAX in
 * the queue, running ones included: then nothing has changed. */
WEIR_MUST_CHECK enum weir_status weir_schedule_enter(struct weir_schedule *schedule,
                                                     const struct weir_schedule_entry *entry,
                                                     struct weir_instant now);

/* A job to start, now RUNNING, or a job whose lease has run out, now HELD. */
enum weir_schedule_what {
    WEIR_SCHEDULE_NOTHING,
    WEIR_SCHEDULE_START,
    WEIR_SCHEDULE_LAPSED
};

struct weir_schedule_news {
    enum weir_schedule_what what;
    uint64_t number;
    uint32_t queue;
    struct weir_epoch epoch;
    uint64_t ran_ms; /* LAPSED */
};

/* The next decision. Call it until there is none. */
struct weir_schedule_news weir_schedule_next(struct weir_schedule *schedule);

/* Renews the lease of a running job. STALE: WEIR_NOT_HELD. */
WEIR_MUST_CHECK enum weir_status weir_schedule_renew(struct weir_schedule *schedule,
                                                     uint64_t number, struct weir_epoch epoch,
                                                     struct weir_instant now);

/* Ends a running job, which is HELD until its next state is known; its worker is free.
 * WEIR_NOT_HELD if it does not run, or not under that epoch. */
WEIR_MUST_CHECK enum weir_status weir_schedule_end(struct weir_schedule *schedule, uint64_t number,
                                                   struct weir_epoch epoch,
                                                   struct weir_instant now);

/* Holds a job that has not started. WEIR_NOT_HELD if it does not exist, runs or is held. */
WEIR_MUST_CHECK enum weir_status weir_schedule_hold(struct weir_schedule *schedule, uint64_t number,
                                                    struct weir_instant now);

/* Requeues a HELD job: it goes back to where it was, or waits until `next_ms`, and is then first in
 * its tenant's line. It counts as queued, whatever the bounds. */
void weir_schedule_requeue(struct weir_schedule *schedule, uint64_t number, int64_t next_ms,
                           struct weir_instant now);

/* Forgets a HELD job, which is over. */
void weir_schedule_forget(struct weir_schedule *schedule, uint64_t number);

/* Chooses the job to drop from a queue that drops its oldest and has too many jobs; it is HELD from
 * now on. False when there is none. */
bool weir_schedule_drop(struct weir_schedule *schedule, uint32_t queue, struct weir_instant now,
                        uint64_t *number);

/* ---- time ---- */

/* Handles what has become due. Call it at weir_schedule_due(), and at least once a second while
 * there are jobs with a date: the wall clock may be set. */
void weir_schedule_wake(struct weir_schedule *schedule, struct weir_instant now);
uint64_t weir_schedule_due(const struct weir_schedule *schedule);

/* ---- reading the state ---- */

enum weir_schedule_place {
    WEIR_SCHEDULE_NOWHERE, /* there is no such job */
    WEIR_SCHEDULE_DELAYED,
    WEIR_SCHEDULE_WAITING,
    WEIR_SCHEDULE_PARKED,
    WEIR_SCHEDULE_RUNNING,
    WEIR_SCHEDULE_HELD
};

struct weir_schedule_look {
    enum weir_schedule_place place;
    uint64_t ahead;          /* WAITING: about how many go before it */
    uint64_t start_ns;       /* predicted, on the monotonic clock; 0: unknown */
    struct weir_epoch epoch; /* RUNNING */
};

/* Examines a bounded number of other jobs, and estimates beyond that. */
struct weir_schedule_look weir_schedule_look(const struct weir_schedule *schedule, uint64_t number,
                                             struct weir_instant now);

struct weir_schedule_stats {
    uint32_t workers;
    uint32_t running;
    uint64_t queued; /* the sum of the next three */
    uint64_t waiting;
    uint64_t delayed;
    uint64_t parked;
    uint64_t held;
    uint64_t reserved;                         /* at admission */
    uint64_t by_priority[WEIR_PRIORITY_COUNT]; /* of the queued */
    uint64_t jobs_max;
    uint64_t started;
    uint64_t interval_ns; /* mean time between two starts; 0: unknown */
};

/* False, and nothing written, past the last queue. */
bool weir_schedule_get_stats(const struct weir_schedule *schedule, uint32_t queue,
                             struct weir_slice *name, struct weir_schedule_stats *stats);

/* Walks over everything. For tests. */
void weir_schedule_validate(const struct weir_schedule *schedule);

#endif
