/* measure.h - what is counted while a simulation runs, and what it comes to.
 *
 * Everything about the provider is counted by the second in which the provider decided it. What
 * would have been possible is found afterwards, from the demand and the limits alone: a fluid that
 * uses every bucket as soon as a tenant asks. */
#ifndef WEIR_LAB_SIM_MEASURE_H
#define WEIR_LAB_SIM_MEASURE_H

#include "lab/sim/demand.h"

#define WEIR_SIM_NOT_RECOVERED 1e9

/* A histogram of durations: 64 steps for each doubling, from 1 us to 12 days. */
#define WEIR_SIM_WAIT_STEPS (64 * 40)

struct weir_sim_waits {
    uint64_t count;
    uint32_t steps[WEIR_SIM_WAIT_STEPS];
};

struct weir_sim_second {
    double offered;  /* tokens that arrived */
    double accepted; /* tokens that the provider let in */
    double possible; /* tokens that it could have */
    double allowed;  /* the limits' rate, bursts left out */
    double window;   /* requests at once that it allows; 0: any number */
    uint32_t answers;
    uint32_t refused;
    uint32_t failed;
    uint32_t waiting;
    uint32_t flying;
};

struct weir_sim_group_result {
    struct weir_slice name;
    uint32_t count;
    double tokens;
    double wait_p50_s;
    double wait_p99_s;
    double first_p50_s; /* from the arrival until the first byte */
    double first_p99_s;
};

/* What one run came to; after the warm-up, unless a field's comment says otherwise. */
struct weir_sim_result {
    uint64_t asked;
    uint64_t sent;   /* each time that it was */
    uint64_t begun;  /* requests that were sent at least once */
    uint64_t served; /* whole replies */
    uint64_t answers;
    uint64_t refused;
    uint64_t failed;
    uint64_t total;       /* asked, with the warm-up */
    double used;          /* share of what was possible */
    double refused_share; /* of all answers */
    double served_share;  /* of all asked */
    double wait_p50_s;    /* from the arrival until what was answered well was sent */
    double wait_p99_s;
    double first_p50_s; /* from then until its first byte */
    double first_p99_s;
    double jain;           /* of the tokens that tenants were served, against their fair share */
    double jain_instances; /* the same of the instances */
    double sent_per_begun;
    double recover_s; /* the longest after a change; below 0: nothing changed */
};

/* A run's whole record. */
struct weir_sim_measure {
    const struct weir_sim_scenario *scenario;
    const struct weir_sim_demand *demand;
    const struct weir_allocator *allocator;
    struct weir_sim_second *seconds;
    uint32_t second_count;
    double *tenant_offered; /* by tenant, after the warm-up */
    double *tenant_tokens;
    double *shares; /* tokens by tenant in each of WEIR_SIM_SHARE_BINS parts of the run */
    double instance_tokens[WEIR_SIM_INSTANCES_MAX];
    struct weir_sim_waits waits;
    struct weir_sim_waits firsts;
    struct weir_sim_waits *group_waits;
    struct weir_sim_waits *group_firsts;
    struct weir_sim_result result;
};

#define WEIR_SIM_SHARE_BINS 120

void weir_sim_waits_add(struct weir_sim_waits *waits, uint64_t wait_ns);

/* In seconds; the upper end of the step in which the quantile lies. 0 if nothing was counted. */
double weir_sim_waits_quantile(const struct weir_sim_waits *waits, double quantile);

/* Jain's index: 1 when all are equal, 1/n when one has it all. 1 if there is nothing. */
double weir_sim_jain(const double *x, uint32_t count);

/* Deals `total` out to the tenants, none getting more than it asks for, and those that ask for more
 * in proportion to their weights. */
void weir_sim_fair_shares(const double *asked, const double *weights, uint32_t count, double total,
                          double *shares);

WEIR_MUST_CHECK bool weir_sim_measure_init(struct weir_sim_measure *measure,
                                           const struct weir_sim_scenario *scenario,
                                           const struct weir_sim_demand *demand,
                                           const struct weir_allocator *allocator);

/* Safe on a zeroed one. */
void weir_sim_measure_deinit(struct weir_sim_measure *measure);

/* The second in which that moment lies. */
struct weir_sim_second *weir_sim_measure_at(struct weir_sim_measure *measure, uint64_t now_ns);

bool weir_sim_measure_counts(const struct weir_sim_measure *measure, uint64_t now_ns);

/* Adds tokens to a tenant's and an instance's account, or takes some back. */
void weir_sim_measure_tokens(struct weir_sim_measure *measure, uint32_t tenant, uint32_t instance,
                             double tokens, uint64_t at_ns);

/* Fills in the result. Requires the demand that was given at first. */
void weir_sim_measure_finish(struct weir_sim_measure *measure);

/* What became of one group of tenants. */
struct weir_sim_group_result weir_sim_measure_group(const struct weir_sim_measure *measure,
                                                    uint32_t group);

#endif
