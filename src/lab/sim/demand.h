/* demand.h - which tenant asks for what, and when: the tenants of a scenario, or the lines of a
 * trace.
 *
 * Every tenant has its own random numbers, so what is asked depends on the scenario and the seed
 * alone, never on what became of an earlier request. */
#ifndef WEIR_LAB_SIM_DEMAND_H
#define WEIR_LAB_SIM_DEMAND_H

#include "lab/sim/clock.h"
#include "lab/sim/random.h"
#include "lab/sim/scenario.h"

#define WEIR_SIM_NAME_BYTES 80

/* One request as its client makes it. */
struct weir_sim_wish {
    uint32_t tenant; /* its number among all of them */
    uint32_t input;
    uint32_t input_estimate; /* what a gateway believes */
    uint32_t output;
    uint32_t max_tokens;
    uint64_t deadline_ns;     /* absolute; WEIR_NEVER: none of its own */
    uint64_t cancel_after_ns; /* from the first byte; WEIR_NEVER: it stays */
};

struct weir_sim_tenant {
    const struct weir_sim_tenant_settings *settings;
    uint32_t group; /* the place of its settings */
    char name[WEIR_SIM_NAME_BYTES];
    struct weir_sim_random random;
    struct weir_sim_timer timer;
    double gap_s;  /* between two requests, on average */
    uint32_t left; /* of a burst that is arriving now */
};

/* What a request is on average, over all tenants as often as they ask. */
struct weir_sim_mean {
    double input;
    double output;
    double max_tokens;
    double tokens;
    double reply_s; /* time at the provider */
};

struct weir_sim_demand {
    const struct weir_sim_scenario *scenario;
    struct weir_sim_tenant *tenants;
    uint32_t tenant_count;
    struct weir_sim_mean mean;
    double capacity; /* tokens a second that the account allows at first */
    uint32_t trace_next;
    struct weir_sim_timer trace_timer;
};

/* The tokens a second that an account allows to requests of that mean, its limits scaled. */
double weir_sim_capacity(const struct weir_sim_provider_settings *provider,
                         const struct weir_sim_mean *mean, double scale, uint32_t concurrent);

/* False without memory. Deinit is safe on a zeroed one. */
WEIR_MUST_CHECK bool weir_sim_demand_init(struct weir_sim_demand *demand,
                                          const struct weir_sim_scenario *scenario, uint64_t seed,
                                          const struct weir_allocator *allocator);
void weir_sim_demand_deinit(struct weir_sim_demand *demand, const struct weir_allocator *allocator);

/* Sets the timers of all first arrivals; kinds are the caller's. */
void weir_sim_demand_start(struct weir_sim_demand *demand, struct weir_sim_clock *clock,
                           uint32_t tenant_kind, uint32_t trace_kind);

/* What a client of the tenant asks for now. */
struct weir_sim_wish weir_sim_demand_draw(struct weir_sim_demand *demand,
                                          struct weir_sim_tenant *tenant, uint64_t now_ns);

/* A tenant's timer was due: what it asks for. Sets the timer for its next, unless it has clients
 * that ask again when they are answered: then all of them ask for the first time. */
struct weir_sim_wish weir_sim_demand_next(struct weir_sim_demand *demand,
                                          struct weir_sim_tenant *tenant,
                                          struct weir_sim_clock *clock);

/* The trace's timer was due. */
struct weir_sim_wish weir_sim_demand_replay(struct weir_sim_demand *demand,
                                            struct weir_sim_clock *clock);

#endif
