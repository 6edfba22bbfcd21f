/* schedule_state.h - the schedule's state, shared by the files that together make its decisions:
 *
 *   schedule.c        the calls on jobs: enter, end, hold, requeue, forget
 *   schedule_turn.c   the core's line: joining it, whose turn it is, parking, starting
 *   schedule_time.c   what waits for a moment: delays, dates, leases
 *   schedule_queue.c  queues: their making, their settings
 *   schedule_door.c   which jobs may come in, and which are dropped
 *   schedule_party.c  what jobs of a queue share: a tenant, a key
 *   schedule_look.c   answers questions about it
 *   schedule_validate.c  whether the invariants hold
 *
 * Invariants, each asserted by weir_schedule_validate():
 *
 *   S1  Every job is in exactly one place, and its queue's counts say how many are in each.
 *   S2  A WAITING job's ticket waits at its queue's key, or is admitted and the job stands in
 *       `turns`; a RUNNING job's is admitted; of all others it is at no key.
 *   S3  A DELAYED job is in one of the two heaps, `moments` or `dates`; a RUNNING one with a lease
 *       is in `moments`; no other is in a heap. There is room in `moments` for every job.
 *   S4  A strand's `busy` is how many of its jobs run, and one for the job that is coming. While
 *       some are parked, either one is coming or `busy` is at the queue's bound.
 *   S5  In a queue that drops its oldest, exactly the queued jobs are in the heaps by age.
 *   S6  `news` are the RUNNING jobs whose start the caller has not fetched yet, and the HELD ones
 *       whose lapse it has not. */
#ifndef WEIR_JOBS_SCHEDULE_STATE_H
#define WEIR_JOBS_SCHEDULE_STATE_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slab.h"
#include "core/bucket.h"
#include "core/rules.h"
#include "core/ticket.h"
#include "jobs/schedule.h"
#include "weir/gate.h"

#include <assert.h>

/* How many turns one call decides, and how many jobs one call lets become due; the rest follow at
 * the next wake, which is due at once. It bounds how long the caller's lock is held. */
#define WEIR_SCHEDULE_BATCH_MAX 1024

/* After how long a step that lacked memory is tried again. */
#define WEIR_SCHEDULE_AGAIN_NS (UINT64_C(100) * WEIR_NS_PER_MS)

/* How many tenants of a queue have a bucket of their own besides those that are named in its
 * settings; the others share one. */
#define WEIR_SCHEDULE_BUCKETS_MAX UINT32_C(100000)

/* Of all queues together. A heap's most. */
#define WEIR_SCHEDULE_TOTAL_MAX (UINT32_MAX / 4)

/* A moving mean: the plain mean of the first eight values, then over about as many. */
struct weir_mean {
    uint64_t value;
    uint64_t count;
};

void weir_mean_add(struct weir_mean *mean, uint64_t value);

/* A tenant at a queue, as long as it has jobs there or its bucket is not full. */
struct weir_guest {
    struct weir_map_node node;
    struct weir_link link;      /* in the queue's list of all */
    struct weir_bucket *bucket; /* of submissions; null: not needed yet */
    struct weir_mean run_ms;    /* run times of its ended jobs */
    uint32_t jobs;
    uint8_t name_bytes;
    char name[];
};

/* The jobs of a queue with the same key, as long as there are any. */
struct weir_strand {
    struct weir_map_node node;
    struct weir_link link;   /* in the queue's list of all */
    struct weir_link parked; /* first come, first served */
    uint32_t busy;           /* S4 */
    uint32_t jobs;
    bool coming; /* a job that was parked has a place kept for it, and has not started yet */
    uint8_t name_bytes;
    char name[];
};

struct weir_schedule_job {
    struct weir_plain_ticket ticket; /* its tag is the job's number */
    struct weir_map_node node;       /* by number */
    struct weir_guest *guest;
    struct weir_strand *strand; /* null: it has no key */
    union {
        struct weir_link
            link; /* PARKED: in its strand; WAITING and its turn has come: in `turns` */
        struct {
            struct weir_schedule_job *next; /* in `news` */
            uint64_t counter;               /* of its epoch */
        } start;                            /* RUNNING, and HELD afterwards */
        uint64_t moment;                    /* DELAYED, and HELD afterwards: until when */
    };
    uint32_t place_moment; /* in `moments` or `dates` */
    uint32_t place_age;    /* in its queue's heap by age */
    uint32_t cost_ms;      /* 0: not known */
    uint16_t queue;
    uint8_t place; /* enum weir_schedule_place */
    uint8_t priority : 2;
    bool dated : 1;
    bool by_wall : 1; /* `moment` is the wall clock's */
    bool retry : 1;   /* it has waited before, and goes first in its tenant's line */
    bool coming : 1;  /* it is the one that its strand keeps a place for */
    bool untold : 1;  /* it is in `news` */
    bool resting : 1; /* HELD: it was DELAYED before */
};

/* The memory of a queued job, besides its tenant and key: the object in its slab, an entry in the
 * heap of moments, and a chain in the map; in rarer cases an entry by date and one by age. */
#define WEIR_SCHEDULE_SLAB_BYTES 16
static_assert(sizeof(struct weir_schedule_job) + WEIR_SCHEDULE_SLAB_BYTES +
                      3 * sizeof(struct weir_heap_entry) + sizeof(struct weir_map_node *) <=
                  320,
              "a queued job takes at most 320 bytes");

struct weir_queue {
    struct weir_map_node node; /* by name */
    struct weir_link behind;   /* in the schedule's list of queues whose key has more to admit */
    uint32_t number;
    struct weir_gate *gate; /* with one key */
    struct weir_key *key;
    struct weir_rules *door; /* the tenants' rates */
    bool named;              /* in the present settings */
    bool stale; /* the key could not take up its gate's settings yet, for lack of memory */
    bool aged;  /* `ages` are kept */

    uint32_t workers;
    uint32_t jobs_max;
    uint32_t jobs_by_priority[WEIR_PRIORITY_COUNT]; /* without zeroes */
    enum weir_schedule_full full;
    uint32_t per_key;
    uint64_t lease_ns;

    uint32_t counts[WEIR_SCHEDULE_HELD + 1]; /* by place */
    uint32_t jobs;                           /* in all places */
    uint32_t jobs_of[WEIR_PRIORITY_COUNT];   /* in all places, by priority */
    uint32_t queued_of[WEIR_PRIORITY_COUNT];
    uint64_t reserved;
    uint64_t reserved_of[WEIR_PRIORITY_COUNT];
    struct weir_heap ages[WEIR_PRIORITY_COUNT]; /* queued jobs by number */

    struct weir_map guests;
    struct weir_link all_guests;
    uint32_t buckets;          /* of guests that are not named in the settings */
    struct weir_bucket others; /* of tenants beyond that; without tokens until it is needed */
    struct weir_map strands;
    struct weir_link all_strands;

    struct weir_mean interval_ns; /* between two starts while a job waits */
    struct weir_mean run_ms;
    uint64_t last_start_ns; /* the last start, if a job has waited ever since; else 0 */
    uint64_t started;
    uint8_t name_bytes;
    char name[];
};

struct weir_schedule {
    const struct weir_allocator *allocator;
    uint64_t seed[2];
    uint64_t now_ns; /* the latest time seen: it never goes back */
    int64_t wall_ms; /* the last time seen */
    uint64_t counter;
    uint32_t boot;
    uint32_t queue_count;
    uint32_t dated_count; /* jobs that are dated: the room needed in `dates` */
    struct weir_slab slab;
    struct weir_map jobs; /* by number */
    struct weir_map names;
    struct weir_heap moments;
    struct weir_heap dates;
    struct weir_link turns; /* jobs whose turn has come and which are not decided yet */
    struct weir_link behind;
    struct weir_schedule_job *news_first;
    struct weir_schedule_job *news_last;
    uint64_t again_ns; /* when stale queues are tried again; WEIR_NEVER: there are none */
    struct weir_queue *queues[WEIR_SCHEDULE_QUEUES_MAX];
};

static inline struct weir_queue *weir_job_queue(const struct weir_schedule *schedule,
                                                const struct weir_schedule_job *job)
{
    return schedule->queues[job->queue];
}

static inline struct weir_ticket *weir_job_ticket(struct weir_schedule_job *job)
{
    return (struct weir_ticket *)(void *)&job->ticket;
}

static inline const struct weir_ticket *weir_job_ticket_const(const struct weir_schedule_job *job)
{
    return (const struct weir_ticket *)(const void *)&job->ticket;
}

static inline uint64_t weir_job_number(const struct weir_schedule_job *job)
{
    return weir_job_ticket_const(job)->tag;
}

static inline uint32_t weir_queue_queued(const struct weir_queue *queue)
{
    return queue->counts[WEIR_SCHEDULE_DELAYED] + queue->counts[WEIR_SCHEDULE_WAITING] +
           queue->counts[WEIR_SCHEDULE_PARKED];
}

/* ---- schedule.c ---- */

void weir_schedule_take_time(struct weir_schedule *schedule, struct weir_instant now);

/* The job with that number, or null. */
struct weir_schedule_job *weir_schedule_find(const struct weir_schedule *schedule, uint64_t number);

/* The only function that changes a job's place. */
void weir_job_move(struct weir_schedule *schedule, struct weir_schedule_job *job,
                   enum weir_schedule_place place);

/* Puts all queued jobs of a queue into its heaps by age, which have room. */
void weir_schedule_age(struct weir_schedule *schedule, struct weir_queue *queue);

/* Calls `visit` for every job, which may remove that one. */
typedef void weir_job_visit(void *context, struct weir_schedule_job *job);
void weir_schedule_each(const struct weir_schedule *schedule, weir_job_visit *visit, void *context);

/* ---- schedule_turn.c ---- */

/* Lets a job, which is in no other place, join its queue's line. False, and nothing changed,
 * without memory. */
bool weir_job_join(struct weir_schedule *schedule, struct weir_schedule_job *job);

/* Lets a job join its queue's line that cannot be refused: without memory it is DELAYED for a
 * moment. */
void weir_job_join_surely(struct weir_schedule *schedule, struct weir_schedule_job *job);

/* Takes a WAITING job out of the line, or a PARKED one out of its strand. */
void weir_job_leave_line(struct weir_schedule *schedule, struct weir_schedule_job *job);

/* Gives the worker of a RUNNING job back. */
void weir_job_end(struct weir_schedule *schedule, struct weir_schedule_job *job);

/* Takes the news of a call on a queue's key: whose turn has come. */
void weir_schedule_collect(struct weir_schedule *schedule, struct weir_queue *queue,
                           struct weir_news *news);

/* Starts or parks jobs whose turn has come. The last step of every call. */
void weir_schedule_decide(struct weir_schedule *schedule);

/* Sends the next parked job to the line, if there is a place for it. */
void weir_strand_release(struct weir_schedule *schedule, struct weir_queue *queue,
                         struct weir_strand *strand);

/* Frees the place that was kept for a job. */
void weir_strand_give_up(struct weir_schedule *schedule, struct weir_schedule_job *job);

/* Adds the start or the lapse of a job to what weir_schedule_next() returns. */
void weir_job_announce(struct weir_schedule *schedule, struct weir_schedule_job *job);

/* How long it has run, in whole milliseconds. */
uint64_t weir_job_ran_ms(const struct weir_schedule *schedule, const struct weir_schedule_job *job);

/* ---- schedule_time.c ---- */

/* Delays the job until a moment of the monotonic clock, or of the wall's. */
void weir_job_delay(struct weir_schedule *schedule, struct weir_schedule_job *job,
                    uint64_t moment_ns);
void weir_job_date(struct weir_schedule *schedule, struct weir_schedule_job *job, int64_t date_ms);

/* Takes a DELAYED job out of its heap; `moment` says until when it would have been there. */
void weir_job_leave_heap(struct weir_schedule *schedule, struct weir_schedule_job *job);

/* Begins or renews the lease of a RUNNING job, and ends it. */
void weir_job_lease(struct weir_schedule *schedule, struct weir_schedule_job *job);
void weir_job_end_lease(struct weir_schedule *schedule, struct weir_schedule_job *job);

/* The time in so many milliseconds, at most WEIR_DURATION_MAX_NS from now. */
uint64_t weir_schedule_after(const struct weir_schedule *schedule, int64_t delay_ms);

/* ---- schedule_queue.c ---- */

void weir_queue_destroy(struct weir_schedule *schedule, struct weir_queue *queue);

/* Tries again to let a queue's key follow its settings. */
void weir_queue_apply(struct weir_schedule *schedule, struct weir_queue *queue);

/* ---- schedule_door.c ---- */

/* The job to drop from a queue that drops its oldest and has too many; else null. */
struct weir_schedule_job *weir_queue_oldest_beyond(const struct weir_queue *queue);

/* ---- schedule_party.c ---- */

/* The guest with that name, or null. */
struct weir_guest *weir_guest_find(const struct weir_schedule *schedule,
                                   const struct weir_queue *queue, struct weir_slice name);

/* The guest with that name, made if there is none; null without memory. A guest with neither jobs
 * nor a bucket must be given back. */
struct weir_guest *weir_guest_obtain(struct weir_schedule *schedule, struct weir_queue *queue,
                                     struct weir_slice name);

/* Forgets the guest if it has no jobs and its bucket is full. */
void weir_guest_give(struct weir_schedule *schedule, struct weir_queue *queue,
                     struct weir_guest *guest);

/* Examines up to `looks` guests, going round, and forgets those that are not needed. */
void weir_guests_sweep(struct weir_schedule *schedule, struct weir_queue *queue, uint32_t looks);

/* Finds or makes the strand of a key, and gives it back. */
struct weir_strand *weir_strand_obtain(struct weir_schedule *schedule, struct weir_queue *queue,
                                       struct weir_slice name);
void weir_strand_give(struct weir_schedule *schedule, struct weir_queue *queue,
                      struct weir_strand *strand);

static inline struct weir_slice weir_guest_name(const struct weir_guest *guest)
{
    return (struct weir_slice){guest->name, guest->name_bytes};
}

static inline struct weir_slice weir_strand_name(const struct weir_strand *strand)
{
    return (struct weir_slice){strand->name, strand->name_bytes};
}

#endif
