/* job_life.h - the state of one life of job_world.h, shared by the files that live it:
 *
 *   job_run.c     what Weir is about to do with each job: start, settle, drop, recover
 *   job_client.c  clients, which submit, cancel, redrive
 *   job_world.c   crashes, settings, the life itself
 *
 *   outside, and so there after a crash: clients, the store, attempts for which no run waits
 *   inside, and so gone with a crash: the schedule, and the run of each job
 *
 * A run is one of
 *
 *     IDLE -> TAKING -> WORKING -> SETTLING -> IDLE     a start, to its end on record
 *     IDLE -> LEAVING -> IDLE                           cancelled or dropped before it started
 *     RECOVERING -> IDLE                                found running at a start of Weir */
#ifndef WEIR_LAB_SIM_JOB_LIFE_H
#define WEIR_LAB_SIM_JOB_LIFE_H

#include "base/list.h"
#include "jobs/schedule.h"
#include "jobs/verdict.h"
#include "lab/sim/job_check.h"
#include "lab/sim/job_world.h"

#include <assert.h>

#define DAWN_MS INT64_C(1700000000000)

/* How long clients come and things go wrong, and when all must be over. */
#define STORM_NS (UINT64_C(20) * WEIR_NS_PER_SECOND)
#define END_NS   WEIR_NS_PER_HOUR

#define ECHOES_MAX 16

enum timer_kind {
    STORE,
    CLIENT,
    RUN,
    ECHO,
    WAKE,
    CRASH,
    BOOT,
    CHANGE, /* settings, the wall clock, the disk */
    REDRIVE
};

enum sim_worker_phase {
    IDLE,
    TAKING,
    WORKING,
    SETTLING,
    LEAVING,
    RECOVERING
};

struct weir_sim_client {
    struct weir_sim_timer timer;
    struct weir_sim_life *world;
    uint32_t index;
    uint32_t tries;
    bool asking; /* its job is with the store */
    bool told;
    bool wants_cancel;
    bool other_body; /* it will ask again under the same id with another body */
    uint64_t number;
    char id[24];
    struct weir_job_order order;
    struct weir_acceptance acceptance;
    struct weir_schedule_ask place;
    struct weir_store_accept accept;
};

struct weir_sim_run {
    struct weir_sim_timer timer;
    struct weir_sim_life *world;
    enum sim_worker_phase phase;
    bool cancelled;
    bool lapsed; /* before it was known that it had begun */
    bool silent; /* its attempt renews its lease no more */
    enum weir_attempt_end end;
    struct weir_epoch epoch;
    uint64_t end_ns;
    struct weir_job_row row;
    struct weir_store_take take;
    struct weir_store_settle settle;
};

/* The answer of an attempt that has lost its lease, still to come. */
struct weir_sim_echo {
    struct weir_sim_timer timer;
    uint64_t number;
    struct weir_epoch epoch;
};

struct weir_sim_queue_plan {
    const char *name;
    uint32_t workers;
    uint32_t jobs_max;
    enum weir_schedule_full full;
    uint32_t per_key;
    uint64_t lease_ns;
};

#define QUEUES UINT32_C(3)

extern const struct weir_sim_queue_plan weir_sim_queue_plans[QUEUES];

struct weir_sim_life {
    struct weir_sim_clock clock;
    struct weir_sim_random clients_random;
    struct weir_sim_random work_random;
    struct weir_sim_random chaos_random;
    struct weir_sim_store *store;
    struct weir_schedule *schedule; /* null: Weir is down */
    struct weir_sim_history history;
    struct weir_sim_jobs_result *result;
    uint32_t boot;
    int64_t wall_offset_ms;
    bool calm; /* nothing goes wrong any more */
    uint32_t client_count;
    uint32_t rows_max;
    struct weir_sim_client *clients;
    struct weir_sim_run *runs; /* by number - 1 */
    struct weir_sim_echo echoes[ECHOES_MAX];
    struct weir_sim_timer wake;
    struct weir_sim_timer crash;
    struct weir_sim_timer boot_timer;
    struct weir_sim_timer change;
    struct weir_sim_timer redrive_timer;
    bool redriving;
    struct weir_store_redrive redrive;
    struct weir_store_list list;
    struct weir_store_remove removal;
};

static inline uint64_t draw(struct weir_sim_random *random, uint64_t below)
{
    return weir_sim_random_bits(random) % below;
}

static inline bool chance(struct weir_sim_random *random, uint32_t percent)
{
    return draw(random, 100) < percent;
}

static inline struct weir_instant now_of(const struct weir_sim_life *w)
{
    int64_t wall_ms = DAWN_MS + (int64_t)(w->clock.now_ns / WEIR_NS_PER_MS) + w->wall_offset_ms;
    return (struct weir_instant){WEIR_NS_PER_SECOND + w->clock.now_ns, wall_ms};
}

static inline void set_timer(struct weir_sim_life *w, struct weir_sim_timer *timer,
                             uint64_t after_ns)
{
    weir_sim_clock_set(&w->clock, timer, w->clock.now_ns + after_ns);
}

static inline void hand_over(struct weir_sim_life *w, struct weir_store_op *op)
{
    weir_sim_store_port.submit(weir_sim_store_face(w->store), op);
}

static inline uint64_t number_of(const struct weir_sim_run *run)
{
    return (uint64_t)(run - run->world->runs) + 1;
}

static inline struct weir_sim_run *run_of(struct weir_sim_life *w, uint64_t number)
{
    assert(number >= 1);
    assert(number <= w->rows_max);
    return &w->runs[number - 1];
}

static inline void expect(struct weir_sim_life *w, bool good, const char *what, uint64_t number)
{
    if (!good) {
        weir_sim_history_blame(&w->history, what, number);
    }
}

/* ---- job_run.c ---- */

/* The end of everything that was done to the schedule: what it has decided is done. */
void weir_sim_job_attend(struct weir_sim_life *w);

/* Lets it be written what becomes of a job. */
void weir_sim_job_settle(struct weir_sim_run *run, enum weir_job_state before,
                         enum weir_job_state after, int64_t next_ms);

/* An attempt is over, however: the verdict is written down. */
void weir_sim_job_judge(struct weir_sim_run *run, enum weir_attempt_end end);

/* A job that is on record takes its place in the schedule. */
void weir_sim_job_enter_row(struct weir_sim_life *w, const struct weir_job_row *row, bool reserved);

/* While a queue has more than it may, its oldest goes to the dead letters. */
void weir_sim_job_drop_oldest(struct weir_sim_life *w);

/* The runner's answer for an attempt that is given up is still to come. */
void weir_sim_job_leave_echo(struct weir_sim_life *w, const struct weir_sim_run *run,
                             uint64_t after_ns);

void weir_sim_run_wake(struct weir_sim_run *run);
void weir_sim_echo_wake(struct weir_sim_life *w, const struct weir_sim_echo *echo);

/* ---- job_client.c ---- */

void weir_sim_client_init(struct weir_sim_life *w, uint32_t index);
void weir_sim_client_wake(struct weir_sim_client *client);

/* It got no answer, or none that helps, and asks again later. */
void weir_sim_client_try_later(struct weir_sim_client *client, uint64_t after_ns);

/* Dead letters are redriven, or one is removed. */
void weir_sim_redrive_wake(struct weir_sim_life *w);

#endif
