/* Whole runs: the same seed gives the same bytes, nothing leaks, and each part of a scenario does
 * what it says. */
#include "unit/sim_run.h"

#include <math.h>

/* FNV-1a over everything that a run has measured. */
static uint64_t digest_of(const struct weir_sim_scenario *scenario, const char *policy,
                          uint64_t seed)
{
    struct weir_sim_world world;
    weir_sim_world_init(&world, scenario, policy_of(policy), seed, NULL);
    assert_true(weir_sim_world_run(&world));
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < world.measure.second_count; i++) {
        const struct weir_sim_second *second = &world.measure.seconds[i];
        const uint64_t words[] = {(uint64_t)second->offered,
                                  (uint64_t)second->accepted,
                                  (uint64_t)second->possible,
                                  second->answers,
                                  second->refused,
                                  second->failed,
                                  second->waiting,
                                  second->flying};
        for (size_t j = 0; j < COUNT_OF(words); j++) {
            digest = (digest ^ words[j]) * UINT64_C(0x100000001b3);
        }
    }
    weir_sim_world_deinit(&world);
    return digest;
}

#define SMALL                                                                         \
    "duration: 3m\n"                                                                  \
    "warmup: 30s\n"                                                                   \
    "provider: { limits: [ { rate: 600000/m, burst: 10s } ], errors: 0.02 }\n"        \
    "changes: [ { at: 1m, limits: 0.5 }, { at: 2m, limits: 1 } ]\n"                   \
    "tenants:\n"                                                                      \
    "  a: { count: 3, load: 1.5, cancel: { share: 0.2, after: 1s } }\n"               \
    "  b: { load: 0.4, arrivals: bursts, burst: 30, priority: high, deadline: 4s }\n" \
    "  c: { load: 0.3, arrivals: constant, weight: 3 }\n"

TEST(the_same_seed_gives_the_same_run_and_another_one_does_not)
{
    struct weir_sim_scenario *scenario = load_scenario(SMALL);
    for (uint32_t i = 0; weir_sim_policies[i] != NULL; i++) {
        const char *name = weir_sim_policies[i]->name;
        assert_int_equal(digest_of(scenario, name, 1), digest_of(scenario, name, 1));
        assert_int_not_equal(digest_of(scenario, name, 1), digest_of(scenario, name, 2));
    }
    weir_sim_scenario_destroy(scenario);
}

/* Wherever it is compiled, and however: a change here changes every published figure. */
TEST(a_run_is_the_same_on_every_machine)
{
    struct weir_sim_scenario *scenario = load_scenario(SMALL);
    assert_int_equal(digest_of(scenario, "truth", 7), UINT64_C(0x465d466ddb08c35c));
    assert_int_equal(digest_of(scenario, "backoff", 7), UINT64_C(0x3c4abc80f4f6658d));
    weir_sim_scenario_destroy(scenario);
}

TEST(all_policies_meet_the_same_requests)
{
    struct weir_sim_scenario *scenario = load_scenario(SMALL);
    uint64_t asked = run(scenario, "truth", 3).asked;
    for (uint32_t i = 0; weir_sim_policies[i] != NULL; i++) {
        assert_int_equal(run(scenario, weir_sim_policies[i]->name, 3).asked, asked);
    }
    weir_sim_scenario_destroy(scenario);
}

TEST(memory_comes_back_and_running_out_of_it_ends_the_run)
{
    struct weir_sim_scenario *scenario = load_scenario(
        "duration: 5s\nwarmup: 1s\ninstances: 2\n"
        "provider: { limits: [ { rate: 60000/m } ] }\ntenants: { a: { count: 2, load: 2 } }\n");
    for (uint32_t i = 0; weir_sim_policies[i] != NULL; i++) {
        for (uint64_t n = 1;; n++) {
            struct memory memory;
            struct weir_sim_world world;
            memory_init(&memory);
            memory.fail_at = n;
            weir_sim_world_init(&world, scenario, weir_sim_policies[i], 1, &memory.allocator);
            bool good = weir_sim_world_run(&world);
            weir_sim_world_deinit(&world);
            assert_int_equal(memory.blocks, 0);
            /* A gate that has no memory for a ticket refuses it, as it does in life. */
            assert_true(good || memory.failed > 0);
            if (memory.failed == 0) {
                break;
            }
        }
    }
    weir_sim_scenario_destroy(scenario);
}

static bool stop_half_way(void *context, double share)
{
    *(double *)context = share;
    return share < 0.5;
}

TEST(a_run_can_be_stopped)
{
    struct weir_sim_scenario *scenario = load_scenario(SMALL);
    struct weir_sim_world world;
    double share = 0;
    weir_sim_world_init(&world, scenario, policy_of("truth"), 1, NULL);
    world.progress = stop_half_way;
    world.progress_context = &share;
    assert_false(weir_sim_world_run(&world));
    assert_true(share >= 0.5 && share < 0.6);
    weir_sim_world_deinit(&world);
    weir_sim_scenario_destroy(scenario);
}

TEST(a_trace_is_replayed_as_it_is)
{
    static const struct weir_sim_arrival trace[] = {
        {.at_ns = SECOND, .tenant = 0, .input = 100, .output = 50},
        {.at_ns = SECOND, .tenant = 1, .input = 200, .output = 70, .max_tokens = 80},
        {.at_ns = 2 * SECOND, .tenant = 0, .input = 300, .output = 90},
    };
    struct weir_sim_scenario *scenario =
        load_scenario("duration: 20s\nwarmup: 0s\nprovider: { limits: [ { rate: 60000/m } ] }\n"
                      "tenants: { a: { load: 1 }, b: { load: 1 } }\n");
    scenario->trace = trace;
    scenario->trace_count = 3;
    struct weir_sim_result result = run(scenario, "truth", 1);
    assert_int_equal(result.asked, 3);
    assert_int_equal(result.served, 3);
    assert_int_equal(result.refused, 0);
    assert_true(fabs(result.used - 1) < 1e-9);
    scenario->trace = NULL;
    weir_sim_scenario_destroy(scenario);
}

/* ---- clients who ask again ---- */

#define SLOTS                                                                   \
    "duration: 60s\nwarmup: 0s\n"                                               \
    "line: { max: 100, timeout: 5m }\n"                                         \
    "tenants: { a: { clients: 8, think: %s, %s } }\n"                           \
    "provider: { concurrent: 4, queue: 1000, stated: nothing, delay: 0s, %s,\n" \
    "  tokens_per_second: 100, first_token: { median: 500ms, spread: 0 } }\n"

/* Replies of a second each. */
#define SECONDS "output: { median: 50, spread: 0 }"

static struct weir_sim_result run_slots(const char *think, const char *more, const char *provider,
                                        const char *policy, uint32_t *flying_most)
{
    char text[1024];
    struct weir_sim_world world;
    snprintf(text, sizeof text, SLOTS, think, more, provider);
    struct weir_sim_scenario *scenario = load_scenario(text);
    weir_sim_world_init(&world, scenario, policy_of(policy), 1, NULL);
    assert_true(weir_sim_world_run(&world));
    struct weir_sim_result result = world.measure.result;
    for (uint32_t i = 0; i < world.measure.second_count; i++) {
        uint32_t flying = world.measure.seconds[i].flying;
        *flying_most = flying > *flying_most ? flying : *flying_most;
    }
    weir_sim_world_deinit(&world);
    weir_sim_scenario_destroy(scenario);
    return result;
}

TEST(clients_ask_again_when_they_are_answered_and_no_sooner)
{
    uint32_t flying = 0;
    struct weir_sim_result result = run_slots("0s", SECONDS, "whole: false", "backoff", &flying);
    assert_int_equal(flying, 8); /* four of them in the provider's queue */
    assert_in_range(result.served, 4 * 58, 4 * 60);
    result = run_slots("2s", SECONDS, "whole: false", "backoff", &flying);
    assert_in_range(result.served, 8 * 60 / 3 - 8, 8 * 60 / 3);
    assert_in_range(result.asked - result.served, 0, 8);
}

TEST(a_whole_reply_has_its_first_byte_at_its_end)
{
    uint32_t flying = 0;
    struct weir_sim_result result = run_slots("0s", SECONDS, "whole: false", "truth", &flying);
    assert_true(result.first_p50_s > 0.49 && result.first_p50_s < 0.52);
    result = run_slots("0s", SECONDS, "whole: true", "truth", &flying);
    assert_true(result.first_p50_s > 0.98 && result.first_p50_s < 1.03);
    assert_in_range(result.served, 4 * 58, 4 * 60);
}

TEST(those_whose_requests_are_lost_ask_again_a_second_later)
{
    uint32_t flying = 0;
    struct weir_sim_result result =
        run_slots("0s", SECONDS ", deadline: 1ms", "whole: false", "truth", &flying);
    assert_in_range(result.asked, 4 * 55, 4 * 125);
}

/* ---- streams ---- */

/* A policy that is `learned` and writes down what it is told of the one stream. */
static struct {
    uint32_t count;
    uint32_t outputs[64];
    uint64_t after_ns[64];
    double charged; /* by the lane, when it was last told */
} told;

static void tell(struct weir_sim_site *site, struct weir_sim_request *request, uint32_t output)
{
    weir_sim_policy_learned.streamed(site, request, output);
    struct weir_lane_stats lane;
    assert_true(weir_key_get_lane(site->key, 0, site->world->clock.now_ns, &lane));
    assert_true(told.count < COUNT_OF(told.outputs));
    told.outputs[told.count] = output;
    told.after_ns[told.count++] = site->world->clock.now_ns - request->first_ns;
    told.charged = (double)lane.reserved;
}

/* One request of 100 tokens, 10 of them a second, so many in all. */
static struct weir_sim_result stream_one(uint32_t output, const char *cancel)
{
    struct weir_sim_arrival arrival = {
        .at_ns = SECOND, .input = 100, .output = output, .max_tokens = 100000};
    char text[512];
    snprintf(text, sizeof text,
             "duration: 2h\nwarmup: 0s\n"
             "provider: { tokens_per_second: 10, limits: [ { rate: 60000/m } ] }\n"
             "tenants: { a: { load: 1, estimate_error: 0, max_tokens: 100000%s } }\n",
             cancel);
    struct weir_sim_scenario *scenario = load_scenario(text);
    struct weir_sim_policy policy = weir_sim_policy_learned;
    policy.streamed = tell;
    scenario->trace = &arrival;
    scenario->trace_count = 1;
    memset(&told, 0, sizeof told);
    struct weir_sim_world world;
    weir_sim_world_init(&world, scenario, &policy, 1, NULL);
    assert_true(weir_sim_world_run(&world));
    struct weir_sim_result result = world.measure.result;
    weir_sim_world_deinit(&world);
    scenario->trace = NULL;
    weir_sim_scenario_destroy(scenario);
    return result;
}

TEST(a_stream_is_settled_while_it_streams)
{
    static const uint32_t tenths[] = {10, 20, 30, 40, 50, 62, 78, 97, 122, 152};
    assert_int_equal(stream_one(160, "").served, 1);
    assert_int_equal(told.count, COUNT_OF(tenths));
    for (uint32_t i = 0; i < told.count; i++) {
        assert_in_range(told.outputs[i], tenths[i] - 1, tenths[i]); /* the last is on its way */
        assert_int_equal(told.after_ns[i] * 10 / SECOND, tenths[i]);
    }
    /* 128 were expected; what came beyond them is charged before the end. */
    assert_true(told.charged == 100.0 + 152.0);
}

TEST(a_short_stream_is_not_counted_and_the_longest_is_within_bounds)
{
    assert_int_equal(stream_one(10, "").served, 1);
    assert_int_equal(told.count, 0);
    assert_int_equal(stream_one(36000, "").served, 1); /* an hour */
    assert_in_range(told.count, 20, 40);
    for (uint32_t i = 1; i < told.count; i++) {
        assert_true(told.outputs[i] > told.outputs[i - 1]);
        assert_true(told.outputs[i] <= 36000);
    }
}

TEST(a_client_that_leaves_ends_the_counting)
{
    struct weir_sim_result result = stream_one(36000, ", cancel: { share: 1, after: 60s }");
    assert_int_equal(result.served, 0);
    assert_in_range(told.count, 1, 30);
    assert_true(told.outputs[told.count - 1] < 6000); /* ten times the mean */
}

/* ---- what is reached ---- */

TEST(a_policy_is_found_by_the_name_that_it_had_before)
{
    uint32_t named = 0;
    for (uint32_t i = 0; weir_sim_policies[i] != NULL; i++) {
        bool is = weir_sim_policy_is(weir_sim_policies[i], weir_slice_of("reference"));
        assert_int_equal(is, strcmp(weir_sim_policies[i]->name, "published") == 0);
        named += is;
        assert_false(weir_sim_policy_is(weir_sim_policies[i], weir_slice_of("publish")));
    }
    assert_int_equal(named, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_is_found_by_the_name_that_it_had_before),
        cmocka_unit_test(the_same_seed_gives_the_same_run_and_another_one_does_not),
        cmocka_unit_test(a_run_is_the_same_on_every_machine),
        cmocka_unit_test(all_policies_meet_the_same_requests),
        cmocka_unit_test(memory_comes_back_and_running_out_of_it_ends_the_run),
        cmocka_unit_test(a_run_can_be_stopped),
        cmocka_unit_test(a_trace_is_replayed_as_it_is),
        cmocka_unit_test(clients_ask_again_when_they_are_answered_and_no_sooner),
        cmocka_unit_test(a_whole_reply_has_its_first_byte_at_its_end),
        cmocka_unit_test(those_whose_requests_are_lost_ask_again_a_second_later),
        cmocka_unit_test(a_stream_is_settled_while_it_streams),
        cmocka_unit_test(a_short_stream_is_not_counted_and_the_longest_is_within_bounds),
        cmocka_unit_test(a_client_that_leaves_ends_the_counting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
