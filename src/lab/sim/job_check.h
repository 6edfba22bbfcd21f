/* job_check.h - what an observer outside of Weir has seen of its jobs, and whether it can be true.
 *
 * It knows what was promised to clients, which attempts ran under which epoch, and what the store
 * said was on record, and nothing of how it is decided. The first thing that must not be is kept as
 * a sentence. */
#ifndef WEIR_LAB_SIM_JOB_CHECK_H
#define WEIR_LAB_SIM_JOB_CHECK_H

#include "lab/sim/job_store.h"

#define WEIR_SIM_QUEUES_MAX 4
#define WEIR_SIM_KEYS_MAX   4

/* Of one job, by its number. */
struct weir_sim_fate {
    bool accepted; /* a client got that answer */
    bool cancelled;
    bool removed;
    uint32_t client;
    uint32_t queue;
    uint32_t key; /* 0: none */
    uint32_t attempts_max;
    uint32_t starts;         /* since it was last redriven */
    uint32_t done;           /* times that it was reported as done */
    struct weir_epoch epoch; /* of the last start that was reported */
    bool leased;             /* it runs */
};

struct weir_sim_history {
    struct weir_sim_fate *fates; /* by number - 1 */
    uint32_t fates_max;
    uint32_t workers[WEIR_SIM_QUEUES_MAX];
    uint32_t per_key[WEIR_SIM_QUEUES_MAX];
    uint32_t running[WEIR_SIM_QUEUES_MAX];
    uint32_t by_key[WEIR_SIM_QUEUES_MAX][WEIR_SIM_KEYS_MAX];
    uint64_t digest; /* of all that has happened, in its order */
    uint64_t accepted;
    uint64_t starts;
    uint64_t done;
    uint64_t dead;
    uint64_t cancelled;
    uint64_t refused_answers; /* that came too late */
    char error[200];          /* empty: nothing */
};

/* Notes the first violation; later ones are ignored. */
void weir_sim_history_blame(struct weir_sim_history *history, const char *what, uint64_t number);

/* One more thing that has happened. */
void weir_sim_history_note(struct weir_sim_history *history, uint32_t what, uint64_t number);

/* A client got the answer that its job is accepted; `row` is as it stands. */
void weir_sim_history_accepted(struct weir_sim_history *history, uint32_t client, uint64_t number);

/* An attempt has a worker from now on, or no longer. */
void weir_sim_history_leased(struct weir_sim_history *history, uint64_t number,
                             struct weir_epoch epoch);
void weir_sim_history_freed(struct weir_sim_history *history, uint64_t number);

/* The store has said that the attempt began. */
void weir_sim_history_began(struct weir_sim_history *history, const struct weir_job_row *row);

/* The store has said that this is on record. */
void weir_sim_history_settled(struct weir_sim_history *history,
                              const struct weir_store_settle *settle);
void weir_sim_history_redriven(struct weir_sim_history *history, uint64_t number);
void weir_sim_history_removed(struct weir_sim_history *history, uint64_t number);

/* Nothing runs any more. */
void weir_sim_history_crashed(struct weir_sim_history *history);

/* At the end, with all done that there was to do. */
void weir_sim_history_close(struct weir_sim_history *history, const struct weir_sim_store *store);

/* Tenants that always have jobs waiting get the same run time, whatever each of their jobs takes.
 * False if they do not, or without memory. */
bool weir_sim_jobs_fair(uint64_t seed);

#endif
