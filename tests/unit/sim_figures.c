/* What policies reach in whole runs stays within bounds. A figure that leaves its bounds is either
 * a fault or an improvement to write down. */
#include "unit/sim_run.h"

struct bounds {
    const char *scenario;
    const char *policy;
    double used_min;
    double used_max;
    double refused_max;
};

TEST(policies_reach_what_they_reached)
{
    static const struct bounds all[] = {
        {"steady", "truth", 0.995, 1.005, 0},
        {"steady", "low", 0.49, 0.51, 0},
        {"steady", "high", 0.99, 1.01, 0.85},
        {"steady", "backoff", 0.99, 1.01, 0.92},
        {"silent", "published", 0.28, 0.33, 0},
        {"steady", "learned", 0.99, 1.01, 0.0001},
        {"steady", "aimd", 0.45, 1.01, 0.01},
        {"silent", "learned", 0.97, 1.03, 0.003},
        {"places", "truth", 0.98, 1.03, 0},
        {"places", "learned", 0.96, 1.01, 0.01},
        {"instances", "learned", 0.99, 1.02, 0.0001},
        {"day", "learned", 0.98, 1.01, 0.02},
        {"streams", "learned", 0.97, 1.03, 0.001},

        {"places", "gradient2", 0.9, 1.01, 0.8},
        {"instances", "truth", 0.99, 1.005, 0},
        {"day", "truth", 0.99, 1.005, 0},
        {"streams", "truth", 0.97, 1.03, 0},
    };
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct weir_sim_scenario *scenario = load_shipped(all[i].scenario);
        struct weir_sim_result result = run(scenario, all[i].policy, 1);
        if (result.used < all[i].used_min || result.used > all[i].used_max ||
            result.refused_share > all[i].refused_max) {
            fail_msg("%s, %s: %f used, %f refused", all[i].scenario, all[i].policy, result.used,
                     result.refused_share);
        }
        weir_sim_scenario_destroy(scenario);
    }
}

/* What is in flight is charged only when it ends: many seconds' worth of the account, which no
 * refusal can take back. */
TEST(ours_finds_the_rate_of_a_silent_provider_that_charges_at_the_end)
{
    struct weir_sim_scenario *scenario = load_scenario(
        "duration: 10m\nwarmup: 2m\n"
        "provider: { stated: nothing, charge: end, limits: [ { rate: 1000000/m, burst: 10s } ] }\n"
        "line: { max: 400 }\ntenants: { a: { count: 4, load: 4 } }\n");
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct weir_sim_result result = run(scenario, "learned", seed);
        if (result.used < 0.97 || result.refused_share > 0.003) {
            fail_msg("seed %d: %f used, %f refused", (int)seed, result.used, result.refused_share);
        }
    }
    weir_sim_scenario_destroy(scenario);
}

TEST(the_line_is_fair_where_clients_of_their_own_are_not)
{
    struct weir_sim_scenario *scenario = load_shipped("noisy");
    assert_true(run(scenario, "truth", 1).jain > 0.99);
    assert_true(run(scenario, "learned", 1).jain > 0.99);
    assert_true(run(scenario, "backoff", 1).jain < 0.3);
    assert_true(run(scenario, "reference", 1).jain < 0.3);
    weir_sim_scenario_destroy(scenario);
}

TEST(the_truth_recovers_at_once_and_a_fixed_limit_never)
{
    struct weir_sim_scenario *scenario = load_shipped("change");
    assert_true(run(scenario, "truth", 1).recover_s <= 1);
    assert_true(run(scenario, "high", 1).recover_s >= WEIR_SIM_NOT_RECOVERED);
    weir_sim_scenario_destroy(scenario);
    scenario = load_shipped("steady");
    assert_true(run(scenario, "truth", 1).recover_s < 0);
    weir_sim_scenario_destroy(scenario);
}

TEST(a_change_behind_the_end_is_none)
{
    struct weir_sim_scenario *scenario = load_scenario(
        "duration: 40s\nwarmup: 1s\nprovider: { limits: [ { rate: 60000/m, burst: 2s } ] }\n"
        "changes: [ { at: 5s, limits: 1 }, { at: 2h, limits: 2 } ]\ntenants: { a: { load: 2 } }\n");
    assert_true(run(scenario, "truth", 1).recover_s == 0);
    assert_true(run(scenario, "backoff", 1).recover_s >= WEIR_SIM_NOT_RECOVERED);
    scenario->duration_ns = 4 * SECOND;
    assert_true(run(scenario, "truth", 1).recover_s < 0);
    weir_sim_scenario_destroy(scenario);
}

TEST(ours_recovers_from_what_changes)
{
    static const struct {
        const char *scenario;
        double seconds;
    } all[] = {{"change", 30}, {"change-silent", 120}, {"brownout", 30}};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct weir_sim_scenario *scenario = load_shipped(all[i].scenario);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct weir_sim_result result = run(scenario, "learned", seed);
            if (result.recover_s > all[i].seconds || result.sent_per_begun > 1.1) {
                fail_msg("%s, seed %d: %f s, %f sent", all[i].scenario, (int)seed, result.recover_s,
                         result.sent_per_begun);
            }
        }
        weir_sim_scenario_destroy(scenario);
    }
}

TEST(instances_share_an_account_that_states_its_quota)
{
    struct weir_sim_scenario *scenario = load_shipped("instances");
    assert_true(run(scenario, "learned", 1).jain_instances > 0.99);
    weir_sim_scenario_destroy(scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_reach_what_they_reached),
        cmocka_unit_test(ours_finds_the_rate_of_a_silent_provider_that_charges_at_the_end),
        cmocka_unit_test(the_line_is_fair_where_clients_of_their_own_are_not),
        cmocka_unit_test(the_truth_recovers_at_once_and_a_fixed_limit_never),
        cmocka_unit_test(a_change_behind_the_end_is_none),
        cmocka_unit_test(ours_recovers_from_what_changes),
        cmocka_unit_test(instances_share_an_account_that_states_its_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
