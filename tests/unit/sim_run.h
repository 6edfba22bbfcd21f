/* Runs of the simulator for tests: scenarios from a text or as they ship, and what a run comes to.
 */
#ifndef WEIR_TESTS_SIM_RUN_H
#define WEIR_TESTS_SIM_RUN_H

#include "lab/sim/load.h"
#include "lab/sim/policies.h"
#include "lab/sim/world.h"
#include "unit/helpers.h"

static inline struct weir_sim_scenario *load_scenario(const char *text)
{
    struct weir_sim_scenario *scenario = NULL;
    struct weir_config_errors errors;
    if (!weir_sim_load_text(weir_slice_of("s.yaml"), weir_slice_of(text), NULL, &scenario,
                            &errors)) {
        fail_msg("%s", errors.list[0].text);
    }
    return scenario;
}

static inline struct weir_sim_scenario *load_shipped(const char *name)
{
    struct weir_sim_scenario *scenario = NULL;
    struct weir_config_errors errors;
    char path[4096];
    snprintf(path, sizeof path, "%s/examples/sim/%s.yaml", getenv("WEIR_ROOT"), name);
    if (!weir_sim_load_file(path, &scenario, &errors)) {
        fail_msg("%s", errors.list[0].text);
    }
    return scenario;
}

static inline const struct weir_sim_policy *policy_of(const char *name)
{
    for (uint32_t i = 0; weir_sim_policies[i] != NULL; i++) {
        if (weir_sim_policy_is(weir_sim_policies[i], weir_slice_of(name))) {
            return weir_sim_policies[i];
        }
    }
    fail_msg("no policy %s", name);
    return NULL;
}

static inline struct weir_sim_result run(const struct weir_sim_scenario *scenario,
                                         const char *policy, uint64_t seed)
{
    struct weir_sim_world world;
    weir_sim_world_init(&world, scenario, policy_of(policy), seed, NULL);
    assert_true(weir_sim_world_run(&world));
    struct weir_sim_result result = world.measure.result;
    weir_sim_world_deinit(&world);
    return result;
}

#endif
