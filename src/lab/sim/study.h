/* study.h - a scenario run under several policies and from several seeds: what a table or a plot
 * shows.
 *
 * Figures are medians over the seeds. The record of every policy's first seed is kept, for plots.
 */
#ifndef WEIR_LAB_SIM_STUDY_H
#define WEIR_LAB_SIM_STUDY_H

#include "lab/sim/world.h"

#define WEIR_SIM_SEEDS_MAX 1000

struct weir_sim_entry {
    const struct weir_sim_policy *policy;
    struct weir_sim_result result;
    struct weir_sim_group_result *groups; /* as many as the scenario has */
    struct weir_sim_world world;          /* of the first seed */
};

struct weir_sim_study {
    const struct weir_sim_scenario *scenario;
    uint32_t policies; /* bit set */
    uint64_t seed;     /* the first */
    uint32_t seeds;    /* 1 .. WEIR_SIM_SEEDS_MAX */
    const struct weir_allocator *allocator;
    /* Told now and then which policy runs, and how much of everything is done; false stops it. */
    bool (*progress)(void *context, const char *policy, double done);
    void *progress_context;

    struct weir_sim_entry *entries;
    uint32_t entry_count;
    uint32_t runs_done; /* private */
    uint32_t runs;
    bool stopped;
};

enum weir_sim_study_end {
    WEIR_SIM_STUDY_DONE,
    WEIR_SIM_STUDY_STOPPED,
    WEIR_SIM_STUDY_NO_MEMORY
};

/* Runs it all. The fields down to `progress_context` are the caller's to fill in; a null allocator
 * is malloc. Deinit is needed whatever the result. */
WEIR_MUST_CHECK enum weir_sim_study_end weir_sim_study_run(struct weir_sim_study *study);
void weir_sim_study_deinit(struct weir_sim_study *study);

/* The median of some numbers, which are put into order; the mean of the two in the middle. Requires
 * at least one. */
double weir_sim_median(double *values, uint32_t count);

#endif
