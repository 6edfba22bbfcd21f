/* Scenarios: what is read, what is refused and in which words, and that every shipped one is good.
 */
#include "unit/config_helpers.h"

#include "lab/sim/load.h"
#include "lab/sim/world.h"

#include <dirent.h>

static struct weir_sim_scenario *loaded;
static struct weir_config_errors mistakes;

static bool load_scenario(const char *text)
{
    return weir_sim_load_text(weir_slice_of("s.yaml"), weir_slice_of(text), NULL, &loaded,
                              &mistakes);
}

/* All mistakes, a line each. */
static void expect_mistakes(const char *text, const char *expected)
{
    char all[8192] = "";
    size_t bytes = 0;
    assert_false(load_scenario(text));
    for (uint32_t i = 0; i < mistakes.count; i++) {
        bytes += (size_t)snprintf(all + bytes, sizeof all - bytes, "%s\n", mistakes.list[i].text);
    }
    assert_string_equal(all, expected);
}

#define GOOD                                        \
    "provider: { limits: [ { rate: 60000/m } ] }\n" \
    "tenants: { a: { load: 2 } }\n"

TEST(a_scenario_has_useful_defaults)
{
    assert_true(load_scenario(GOOD));
    assert_int_equal(loaded->duration_ns, 10 * MINUTE);
    assert_int_equal(loaded->warmup_ns, MINUTE);
    assert_int_equal(loaded->instances, 1);
    assert_int_equal(loaded->provider.limit_count, 1);
    assert_int_equal(loaded->provider.limits[0].burst, 60000);
    assert_int_equal(loaded->provider.limits[0].of, WEIR_SIM_OF_TOKENS);
    assert_int_equal(loaded->tenants[0].count, 1);
    assert_int_equal(loaded->tenants[0].max_tokens, 1024);
    assert_true(loaded->provider.tokens_per_second == 70);
    weir_sim_scenario_destroy(loaded);
}

TEST(every_field_is_read)
{
    assert_true(
        load_scenario("about: all of it\n"
                      "duration: 20m\n"
                      "warmup: 2m\n"
                      "seed: 42\n"
                      "instances: 3\n"
                      "retries: 1\n"
                      "line: { max: 7, timeout: 9s }\n"
                      "policies: [truth, envoy]\n"
                      "provider:\n"
                      "  limits:\n"
                      "    - { of: requests, rate: 600/m, burst: 2s, window: true, hidden: true }\n"
                      "    - { of: output, rate: 1000/s, burst: 77 }\n"
                      "  charge: end\n"
                      "  concurrent: 5\n"
                      "  queue: 6\n"
                      "  first_token: { median: 250ms, spread: 0.125 }\n"
                      "  tokens_per_second: 33.5\n"
                      "  delay: 40ms\n"
                      "  stated: rounded\n"
                      "  retry_after: exact\n"
                      "  errors: 0.01\n"
                      "changes:\n"
                      "  - { at: 1m, limits: 0.5 }\n"
                      "  - { at: 2m, errors: 1, slow: 2.5, concurrent: 9 }\n"
                      "tenants:\n"
                      "  a:\n"
                      "    count: 4\n"
                      "    arrivals: bursts\n"
                      "    rate: 90/m\n"
                      "    think: 3s\n"
                      "    burst: 12\n"
                      "    weight: 3\n"
                      "    priority: low\n"
                      "    input: { median: 1000, spread: 1 }\n"
                      "    output: { median: 10.5, spread: 0 }\n"
                      "    max_tokens: 99\n"
                      "    estimate_error: 0.3\n"
                      "    deadline: 5s\n"
                      "    cancel: { share: 0.25, after: 2s }\n"
                      "    from: 1m\n"
                      "    until: 2m\n"));
    const struct weir_sim_provider_settings *provider = &loaded->provider;
    expect_slice(loaded->about, "all of it");
    assert_int_equal(loaded->duration_ns, 20 * MINUTE);
    assert_int_equal(loaded->seed, 42);
    assert_int_equal(loaded->instances, 3);
    assert_int_equal(loaded->retries, 1);
    assert_int_equal(loaded->line_max, 7);
    assert_int_equal(loaded->line_timeout_ns, 9 * SECOND);
    assert_int_equal(__builtin_popcount(loaded->policies), 2);
    assert_int_equal(provider->limits[0].burst, 20); /* two seconds of ten */
    assert_true(provider->limits[0].window);
    assert_true(provider->limits[0].hidden);
    assert_int_equal(provider->limits[1].of, WEIR_SIM_OF_OUTPUT);
    assert_int_equal(provider->limits[1].burst, 77);
    assert_int_equal(provider->charge, WEIR_SIM_CHARGE_END);
    assert_int_equal(provider->queue, 6);
    assert_true(provider->first_token_s.median == 0.25);
    assert_true(provider->first_token_s.spread == 0.125);
    assert_int_equal(provider->headers, WEIR_SIM_HEADERS_ROUNDED);
    assert_int_equal(provider->retry_after, WEIR_SIM_RETRY_AFTER_EXACT);
    assert_true(provider->errors == 0.01);
    assert_true(loaded->changes[0].limits == 0.5);
    assert_true(loaded->changes[0].errors < 0);
    assert_int_equal(loaded->changes[1].concurrent, 9);
    const struct weir_sim_tenant_settings *tenant = &loaded->tenants[0];
    assert_int_equal(tenant->arrivals, WEIR_SIM_ARRIVALS_BURSTS);
    assert_true(tenant->rate == 1.5);
    assert_int_equal(tenant->think_ns, 3 * SECOND);
    assert_int_equal(tenant->priority, WEIR_PRIORITY_LOW);
    assert_true(tenant->output.median == 10.5);
    assert_int_equal(tenant->deadline_ns, 5 * SECOND);
    assert_int_equal(tenant->cancel_after_ns, 2 * SECOND);
    assert_int_equal(tenant->until_ns, 2 * MINUTE);
    weir_sim_scenario_destroy(loaded);
}

TEST(mistakes_are_told_with_their_line_and_what_was_expected)
{
    expect_mistakes(
        "tenant: {}\n" GOOD,
        "s.yaml:1:1: tenant is no field; expected about, duration, warmup, seed, "
        "provider, changes, instances, line, retries, tenants or policies; did you mean "
        "tenants?\n");
    expect_mistakes(GOOD "duration: 600\n",
                    "s.yaml:3:11: duration is \"600\"; expected a duration such as 250ms, 5s, "
                    "1m30s, 2h or 7d; did you mean 600s?\n");
    expect_mistakes("provider: { limits: [ { rate: lots } ] }\ntenants: { a: { load: -1 } }\n",
                    "s.yaml:1:31: provider.limits[0].rate is \"lots\"; expected a rate such as "
                    "1000000/m, 500/s or 20000000/d\n"
                    "s.yaml:2:23: tenants.a.load is \"-1\"; expected a number from 0 to 1000, such "
                    "as 0.5\n");
    expect_mistakes("provider: { limits: [ { of: tokns, rate: 1/s, burst: big } ] }\n"
                    "tenants: { a: { load: 1 } }\n",
                    "s.yaml:1:29: provider.limits[0].of is \"tokns\"; expected tokens, requests, "
                    "input or output; did you mean tokens?\n"
                    "s.yaml:1:54: provider.limits[0].burst is \"big\"; expected how much it holds: "
                    "a number such as 2000, or a time such as 10s of its rate\n");
    expect_mistakes(
        GOOD "policies: [truth, pablished]\n",
        "s.yaml:3:19: policies[1] is \"pablished\"; expected truth, low, high, backoff, "
        "published, vegas, gradient2, envoy, aimd or learned; did you mean published?\n");
}

TEST(what_does_not_fit_together_is_told)
{
    expect_mistakes("tenants: { a: { load: 1 } }\n",
                    "s.yaml:1:1: the file has a provider without limits; expected provider.limits "
                    "or provider.concurrent\n");
    expect_mistakes("provider: { concurrent: 3 }\n",
                    "s.yaml:1:1: the file has no tenants; expected one\n");
    expect_mistakes("provider: { concurrent: 3 }\ntenants: {}\n",
                    "s.yaml:2:10: tenants are none; expected at least one\n");
    expect_mistakes(GOOD "warmup: 10m\n",
                    "s.yaml:1:1: the file has a warmup that is not shorter than its duration of "
                    "10m; expected warmup < duration\n");
    expect_mistakes("provider: { concurrent: 3 }\ntenants: { a: {}, b: { load: 1, rate: 1/s } }\n",
                    "s.yaml:2:15: tenants.a has none of load, rate and clients; expected load, in "
                    "times of what the account allows, or rate, in requests, or clients, who ask "
                    "again when they are answered\n"
                    "s.yaml:2:22: tenants.b has more than one of load, rate and clients; expected "
                    "load, in times of what the account allows, or rate, in requests, or clients, "
                    "who ask again when they are answered\n");
    expect_mistakes(GOOD
                    "changes: [ { at: 2m, limits: 1 }, { at: 1m, limits: 2 }, { limits: 3 } ]\n",
                    "s.yaml:3:35: changes[1] is before the one above it; expected the order of "
                    "time\n"
                    "s.yaml:3:58: changes[2] has no at; expected one\n"
                    "s.yaml:3:58: changes[2] is before the one above it; expected the order of "
                    "time\n");
    expect_mistakes("provider: { concurrent: 3 }\n"
                    "tenants: { a: { load: 1, count: 600 }, b: { load: 1, count: 600 } }\n",
                    "s.yaml:2:10: tenants are 1200 in all; expected at most 1000\n");
    expect_mistakes("", "s.yaml:1:1: it is empty; expected at least one field\n");
}

TEST(decimals_are_strict)
{
    static const char *const bad[] = {".5", "1.",        "1.2.3", "1e3", "0x1",        "1_000",
                                      "+1", "0.1234567", "\"1\"", "[]",  "1000.000001"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char text[256];
        snprintf(text, sizeof text, "provider: { concurrent: 3 }\ntenants: { a: { load: %s } }\n",
                 bad[i]);
        assert_false(load_scenario(text));
        assert_int_equal(mistakes.count, 1);
    }
}

TEST(every_failed_allocation_is_told)
{
    for (uint64_t n = 1;; n++) {
        struct memory memory;
        memory_init(&memory);
        memory.fail_at = n;
        bool good = weir_sim_load_text(weir_slice_of("s.yaml"), weir_slice_of(GOOD),
                                       &memory.allocator, &loaded, &mistakes);
        assert_int_equal(good, memory.failed == 0);
        if (good) {
            weir_sim_scenario_destroy(loaded);
        }
        assert_int_equal(memory.blocks, 0);
        if (memory.failed == 0) {
            break;
        }
    }
}

TEST(every_shipped_scenario_is_good_and_says_what_it_is)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/examples/sim", getenv("WEIR_ROOT"));
    DIR *folder = opendir(path);
    assert_non_null(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strstr(entry->d_name, ".yaml") == NULL) {
            continue;
        }
        snprintf(path, sizeof path, "%s/examples/sim/%s", getenv("WEIR_ROOT"), entry->d_name);
        if (!weir_sim_load_file(path, &loaded, &mistakes)) {
            fail_msg("%s", mistakes.list[0].text);
        }
        assert_true(loaded->about.bytes > 0);
        weir_sim_scenario_destroy(loaded);
        count++;
    }
    closedir(folder);
    assert_true(count >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scenario_has_useful_defaults),
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(mistakes_are_told_with_their_line_and_what_was_expected),
        cmocka_unit_test(what_does_not_fit_together_is_told),
        cmocka_unit_test(decimals_are_strict),
        cmocka_unit_test(every_failed_allocation_is_told),
        cmocka_unit_test(every_shipped_scenario_is_good_and_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
