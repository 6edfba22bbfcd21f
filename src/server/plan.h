/* plan.h - how a config becomes a plan that the threads share, and a plan each thread's site;
 * site.h says what these are. */
#ifndef WEIR_SERVER_PLAN_H
#define WEIR_SERVER_PLAN_H

#include "worker/site.h"

/* A plan with one user, which owns the config from now on, also when this fails. Adds to `gates`
 * the gates that are not there yet, and reads the files that the config names. Null on failure,
 * with a sentence that says why. */
struct weir_plan *weir_plan_create(struct weir_config *config, struct weir_gates *gates,
                                   const char **wrong);

/* Gives the gates their settings. `before` is the plan that was in force, or null. Called in the
 * loop `loop_index`, or before any loop runs. */
WEIR_MUST_CHECK enum weir_status weir_plan_apply(const struct weir_plan *plan,
                                                 const struct weir_plan *before,
                                                 struct weir_gates *gates, uint32_t loop_index);

/* The name of something that differs and that only a start can change, or null. */
const char *weir_plan_needs_restart(const struct weir_config *before,
                                    const struct weir_config *after);

/* Whether both take the same peers' word. */
bool weir_plan_same_trust(const struct weir_config *before, const struct weir_config *after);

/* Makes the upstreams of a plan known to a worker. Null on failure, with a sentence that says why.
 * May be called in any thread. */
struct weir_site *weir_site_create(struct weir_plan *plan, struct weir_worker *worker,
                                   const char **wrong);

/* One that never came into use. */
void weir_site_destroy(struct weir_site *site);

/* Another one is in force: closes idle connections, and goes once nobody uses it. */
void weir_site_retire(struct weir_site *site);

#endif
