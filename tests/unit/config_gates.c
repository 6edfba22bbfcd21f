/* What a configuration says of gates and their keys. */
#include "unit/config_helpers.h"

TEST(a_gate_that_names_nothing_has_10_permits_and_10_seconds)
{
    struct weir_config *config = load(API "gates: { a: , b: {} }\n");
    for (uint32_t i = 0; i < 2; i++) {
        const struct weir_config_rules *rules = &config->gates[i].rules;
        expect_limit(&rules->limit, WEIR_CONFIG_KIND_FIXED, 10, 10, 10);
        assert_int_equal(rules->line.timeout_ns, 10 * SECOND);
        assert_int_equal(rules->line.max.tickets, 1000);
    }
    unload(config);
}

TEST(the_environment_may_give_other_defaults)
{
    environment =
        (const char *const[]){"MAX_CONCURRENT_REQUESTS", "7", "QUEUE_TIMEOUT_SECONDS", "3", NULL};
    struct weir_config *config =
        load(API "gates: { a: , b: { limit: 2, line: { timeout: 1s } }, c: { limit: none, line: { "
                 "timeout: none } }, d: { limit: {} } }\n");
    expect_limit(&config->gates[0].rules.limit, WEIR_CONFIG_KIND_FIXED, 7, 7, 7);
    assert_int_equal(config->gates[0].rules.line.timeout_ns, 3 * SECOND);
    expect_limit(&config->gates[1].rules.limit, WEIR_CONFIG_KIND_FIXED, 2, 2, 2);
    assert_int_equal(config->gates[1].rules.line.timeout_ns, SECOND);
    expect_limit(&config->gates[2].rules.limit, WEIR_CONFIG_KIND_NONE, WEIR_LIMIT_NONE,
                 WEIR_LIMIT_NONE, WEIR_LIMIT_NONE);
    assert_true(config->gates[2].rules.line.timeout_ns == WEIR_NEVER);
    assert_int_equal(config->gates[3].rules.line.timeout_ns, 3 * SECOND);
    unload(config);
}

TEST(defaults_in_the_environment_have_bounds)
{
    static const char gate[] = API "gates: { a: }\n";
    USE_ENVIRONMENT("MAX_CONCURRENT_REQUESTS", "1", "QUEUE_TIMEOUT_SECONDS", "1");
    struct weir_config *config = load(gate);
    expect_limit(&config->gates[0].rules.limit, WEIR_CONFIG_KIND_FIXED, 1, 1, 1);
    assert_int_equal(config->gates[0].rules.line.timeout_ns, SECOND);
    unload(config);
    USE_ENVIRONMENT("MAX_CONCURRENT_REQUESTS", "10000000", "QUEUE_TIMEOUT_SECONDS", "31536000");
    config = load(gate);
    assert_int_equal(config->gates[0].rules.limit.start, 10000000);
    assert_int_equal(config->gates[0].rules.line.timeout_ns, 365 * DAY);
    unload(config);
    USE_ENVIRONMENT("MAX_CONCURRENT_REQUESTS", "10000001", "QUEUE_TIMEOUT_SECONDS", "31536001");
    assert_int_equal(load_bad(gate)->count, 2);
}

TEST(an_empty_default_in_the_environment_is_none)
{
    USE_ENVIRONMENT("MAX_CONCURRENT_REQUESTS", "", "QUEUE_TIMEOUT_SECONDS", "");
    struct weir_config *config = load(API "gates: { a: }\n");
    expect_limit(&config->gates[0].rules.limit, WEIR_CONFIG_KIND_FIXED, 10, 10, 10);
    assert_int_equal(config->gates[0].rules.line.timeout_ns, 10 * SECOND);
    unload(config);
}

TEST(a_bad_default_in_the_environment_is_told_once_if_it_counts)
{
    USE_ENVIRONMENT("MAX_CONCURRENT_REQUESTS", "many", "QUEUE_TIMEOUT_SECONDS", "0");
    expect_errors(API "gates:\n  a:\n  b:\n",
                  "weir.yaml:3:5: gates.a names no limit, so the environment's "
                  "MAX_CONCURRENT_REQUESTS counts, which is \"many\"; expected a whole number from "
                  "1 to 10000000\n"
                  "weir.yaml:3:5: gates.a names no line.timeout, so the environment's "
                  "QUEUE_TIMEOUT_SECONDS counts, which is \"0\"; expected a whole number from 1 to "
                  "31536000\n");
    unload(load(API "gates: { a: { limit: 1, line: { timeout: 1s } } }\n"));
}

TEST(an_adaptive_gate_has_the_defaults_of_llms)
{
    struct weir_config *config =
        load(API "gates: { a: { limit: {} }, b: { limit: { max: 2 } }, c: { limit: { min: 100 } }, "
                 "d: { limit: { start: 80 } }, e: { limit: { min: 10 }, line: { max: 5, timeout: "
                 "1s } } }\n");
    expect_limit(&config->gates[0].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 16, 1, 0);
    assert_int_equal(config->gates[0].rules.controller, WEIR_CONTROLLER_LEARNED);
    assert_int_equal(config->gates[0].rules.settle, WEIR_SETTLE_NEGATIVE);
    assert_int_equal(config->gates[0].rules.estimate, WEIR_ESTIMATE_NONE);
    assert_false(config->gates[0].llm);
    assert_int_equal(config->gates[0].rules.line.timeout_ns, 30 * SECOND);
    assert_int_equal(config->gates[0].rules.line.max.tickets, 100);
    expect_limit(&config->gates[1].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 2, 1, 2);
    expect_limit(&config->gates[2].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 100, 100, 0);
    expect_limit(&config->gates[3].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 80, 1, 0);
    expect_limit(&config->gates[4].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 16, 10, 0);
    assert_int_equal(config->gates[4].rules.line.timeout_ns, SECOND);
    assert_int_equal(config->gates[4].rules.line.max.tickets, 5);
    unload(config);
}

/* What aimd has for a max that is not named, and learned once its own would be too small. */
TEST(a_max_that_is_not_named_is_the_controller_s)
{
    static const struct {
        const char *gate;
        uint32_t start;
        uint32_t min;
        uint32_t max;
    } cases[] = {
        {"{ controller: aimd, limit: {} }", 4, 1, 64},
        {"{ controller: aimd, limit: { start: 64 } }", 64, 1, 64},
        {"{ controller: aimd, limit: { start: 65 } }", 65, 1, 65},
        {"{ controller: aimd, limit: { min: 63 } }", 63, 63, 64},
        {"{ controller: aimd, limit: { min: 100 } }", 100, 100, 100},
        {"{ controller: aimd, limit: { max: 3 } }", 3, 1, 3},
        {"{ controller: learned, limit: { start: 64 } }", 64, 1, 0},
        {"{ controller: learned, limit: { start: 8192 } }", 8192, 1, 0},
        {"{ controller: learned, limit: { start: 8193 } }", 8193, 1, 8193},
        {"{ controller: learned, limit: { min: 10000 } }", 10000, 10000, 10000},
        {"{ controller: learned, limit: { max: 10000 } }", 16, 1, 10000},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[128];
        snprintf(text, sizeof text, API "gates: { a: %s }\n", cases[i].gate);
        struct weir_config *config = load(text);
        expect_limit(&config->gates[0].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, cases[i].start,
                     cases[i].min, cases[i].max);
        unload(config);
    }
}

TEST(whatever_is_adaptive_has_a_controller)
{
    struct weir_config *config =
        load(API "gates:\n"
                 "  a: { limit: 3, tokens: { rate: { start: 500/s } } }\n"
                 "  b: { limit: 3, tokens: { rate: { start: 500/s } }, controller: aimd }\n"
                 "  c: { limit: {}, controller: aimd }\n"
                 "  d: { limit: 3, tokens: 500/s }\n"
                 "  e: { rate: 5/s }\n");
    static const enum weir_controller expected[] = {WEIR_CONTROLLER_LEARNED, WEIR_CONTROLLER_AIMD,
                                                    WEIR_CONTROLLER_AIMD, WEIR_CONTROLLER_NONE,
                                                    WEIR_CONTROLLER_NONE};
    for (uint32_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(config->gates[i].rules.controller, expected[i]);
    }
    /* What is named stays as it is. */
    expect_limit(&config->gates[0].rules.limit, WEIR_CONFIG_KIND_FIXED, 3, 3, 3);
    expect_limit(&config->gates[1].rules.limit, WEIR_CONFIG_KIND_FIXED, 3, 3, 3);
    unload(config);
}

TEST(a_controller_alone_makes_the_limit_adaptive)
{
    USE_ENVIRONMENT("MAX_CONCURRENT_REQUESTS", "7");
    struct weir_config *config =
        load(API "gates:\n"
                 "  a: { controller: learned }\n"
                 "  b: { controller: aimd, tokens: 500/s }\n"
                 "  c: { limit: 5, keys: { k: { controller: aimd } } }\n"
                 "  d: { controller: aimd, tokens: { rate: { start: 500/s } } }\n");
    expect_limit(&config->gates[0].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 16, 1, 0);
    assert_int_equal(config->gates[0].rules.controller, WEIR_CONTROLLER_LEARNED);
    assert_int_equal(config->gates[0].rules.line.timeout_ns, 30 * SECOND);
    assert_int_equal(config->gates[0].rules.line.max.tickets, 100);
    expect_limit(&config->gates[1].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 64);
    assert_int_equal(config->gates[1].rules.controller, WEIR_CONTROLLER_AIMD);
    expect_limit(&config->gates[2].rules.limit, WEIR_CONFIG_KIND_FIXED, 5, 5, 5);
    assert_int_equal(config->gates[2].rules.controller, WEIR_CONTROLLER_NONE);
    expect_limit(&config->gates[2].keys[0].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 64);
    assert_int_equal(config->gates[2].keys[0].rules.controller, WEIR_CONTROLLER_AIMD);
    expect_limit(&config->gates[3].rules.limit, WEIR_CONFIG_KIND_FIXED, 7, 7, 7);
    unload(config);
}

TEST(a_key_has_the_controller_of_its_gate_if_it_adapts)
{
    struct weir_config *config =
        load(API "gates:\n"
                 "  a:\n"
                 "    limit: {}\n"
                 "    controller: aimd\n"
                 "    settle: debt\n"
                 "    estimate: ewma\n"
                 "    keys:\n"
                 "      same: {}\n"
                 "      fixed: { limit: 2 }\n"
                 "      learned: { controller: learned }\n"
                 "      owing: { limit: 2, tokens: 5/s }\n"
                 "  b: { limit: {}, keys: { k: { controller: aimd } } }\n"
                 "  c: { limit: 2, keys: { k: { limit: { max: 9 } } } }\n");
    const struct weir_config_key *key = config->gates[0].keys;
    assert_int_equal(key[0].rules.controller, WEIR_CONTROLLER_AIMD);
    assert_int_equal(key[0].rules.settle, WEIR_SETTLE_DEBT);
    assert_int_equal(key[0].rules.estimate, WEIR_ESTIMATE_EWMA);
    assert_int_equal(key[1].rules.controller, WEIR_CONTROLLER_NONE);
    assert_int_equal(key[1].rules.settle, WEIR_SETTLE_NEGATIVE);
    assert_int_equal(key[2].rules.controller, WEIR_CONTROLLER_LEARNED);
    expect_limit(&key[2].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 16, 1, 64);
    assert_int_equal(key[2].rules.settle, WEIR_SETTLE_NEGATIVE);
    assert_int_equal(key[3].rules.controller, WEIR_CONTROLLER_NONE);
    assert_int_equal(key[3].rules.settle, WEIR_SETTLE_DEBT);
    expect_limit(&config->gates[1].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 16, 1, 0);
    expect_limit(&config->gates[1].keys[0].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 64);
    assert_int_equal(config->gates[2].rules.controller, WEIR_CONTROLLER_NONE);
    assert_int_equal(config->gates[2].keys[0].rules.controller, WEIR_CONTROLLER_LEARNED);
    unload(config);
}

/* Routes that lead to gates of one name each, whatever the order of the sections. */
#define LLM_ROUTES                                           \
    "routes:\n"                                              \
    "  - { match: /a, upstream: u, gate: a, llm: openai }\n" \
    "  - { match: /b, upstream: u, gate: b }\n"              \
    "  - { match: /c, upstream: u, gate: c, llm: openai }\n" \
    "  - { match: /d, upstream: u, gate: d, llm: openai }\n" \
    "  - { match: /e, upstream: u, llm: openai }\n"          \
    "upstreams: { u: { url: http://u } }\n"

#define LLM_GATES                                                                              \
    "gates: { a: { keys: { k: { line: { max: 5 } }, l: { limit: 2 } } }, b: , c: { limit: 3, " \
    "estimate: ewma }, d: { controller: aimd } }\n"

TEST(a_gate_that_a_route_to_an_llm_leads_to_is_adaptive)
{
    struct weir_config *config = load("listen: 127.0.0.1:1\n" LLM_ROUTES LLM_GATES);
    const struct weir_config_gate *a = &config->gates[0];
    assert_true(a->llm);
    expect_limit(&a->rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 16, 1, 0);
    assert_int_equal(a->rules.controller, WEIR_CONTROLLER_LEARNED);
    assert_int_equal(a->rules.settle, WEIR_SETTLE_NEGATIVE);
    assert_int_equal(a->rules.estimate, WEIR_ESTIMATE_MEAN);
    assert_int_equal(a->rules.line.timeout_ns, 30 * SECOND);
    assert_int_equal(a->rules.line.max.tickets, 100);
    assert_int_equal(a->rules.tokens.kind, WEIR_CONFIG_KIND_NONE);
    expect_limit(&a->keys[0].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 16, 1, 0);
    assert_int_equal(a->keys[0].rules.estimate, WEIR_ESTIMATE_MEAN);
    assert_int_equal(a->keys[0].rules.line.max.tickets, 5);
    assert_int_equal(a->keys[1].rules.controller, WEIR_CONTROLLER_NONE);
    assert_int_equal(a->keys[1].rules.estimate, WEIR_ESTIMATE_MEAN);
    const struct weir_config_gate *b = &config->gates[1];
    assert_false(b->llm);
    expect_limit(&b->rules.limit, WEIR_CONFIG_KIND_FIXED, 10, 10, 10);
    assert_int_equal(b->rules.estimate, WEIR_ESTIMATE_NONE);
    assert_int_equal(b->rules.line.timeout_ns, 10 * SECOND);
    const struct weir_config_gate *c = &config->gates[2];
    assert_true(c->llm);
    expect_limit(&c->rules.limit, WEIR_CONFIG_KIND_FIXED, 3, 3, 3);
    assert_int_equal(c->rules.controller, WEIR_CONTROLLER_NONE);
    assert_int_equal(c->rules.estimate, WEIR_ESTIMATE_EWMA);
    assert_int_equal(c->rules.line.timeout_ns, 30 * SECOND);
    expect_limit(&config->gates[3].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 64);
    unload(config);
}

TEST(an_upstream_that_a_route_to_an_llm_leads_to_has_longer_for_its_first_byte)
{
    struct weir_config *config = load(
        "routes:\n"
        "  - { match: /a, upstream: [l, named], llm: openai }\n"
        "  - { match: /b, upstream: l }\n"
        "  - { match: /c, upstream: plain }\n"
        "listen: 127.0.0.1:1\n"
        "upstreams: { l: { url: http://l, timeouts: { idle: 1s } }, plain: { url: http://p }, "
        "named: { url: http://n, timeouts: { first_byte: 60s } }, unused: { url: http://x } }\n");
    assert_int_equal(config->upstreams[0].first_byte_timeout_ns, 600 * SECOND);
    assert_int_equal(config->upstreams[0].idle_timeout_ns, SECOND);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(config->upstreams[i].first_byte_timeout_ns, 60 * SECOND);
    }
    unload(config);
}

TEST(the_environment_counts_at_the_gate_of_an_llm_too)
{
    USE_ENVIRONMENT("MAX_CONCURRENT_REQUESTS", "7", "QUEUE_TIMEOUT_SECONDS", "3");
    struct weir_config *config = load("listen: 127.0.0.1:1\n" LLM_GATES LLM_ROUTES);
    const struct weir_config_gate *a = &config->gates[0];
    expect_limit(&a->rules.limit, WEIR_CONFIG_KIND_FIXED, 7, 7, 7);
    assert_int_equal(a->rules.controller, WEIR_CONTROLLER_NONE);
    assert_int_equal(a->rules.estimate, WEIR_ESTIMATE_MEAN);
    assert_int_equal(a->rules.line.timeout_ns, 3 * SECOND);
    assert_int_equal(a->rules.line.max.tickets, 1000);
    expect_limit(&config->gates[3].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 64);
    assert_int_equal(config->gates[3].rules.line.timeout_ns, 3 * SECOND);
    unload(config);
    USE_ENVIRONMENT("MAX_CONCURRENT_REQUESTS", "");
    config = load("listen: 127.0.0.1:1\n" LLM_GATES LLM_ROUTES);
    expect_limit(&config->gates[0].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 16, 1, 0);
    unload(config);
    USE_ENVIRONMENT("MAX_CONCURRENT_REQUESTS", "many");
    assert_int_equal(load_bad("listen: 127.0.0.1:1\n" LLM_GATES LLM_ROUTES)->count, 1);
}

TEST(every_field_of_a_gate_is_read)
{
    struct weir_config *config =
        load(API "gates:\n"
                 "  a:\n"
                 "    limit: none\n"
                 "    rate: { rate: 100/s, burst: 5 }\n"
                 "    tokens: 1000/h\n"
                 "    line: { timeout: 250ms, max: 7, cost: 99, status: 503, by_tenant: 3,\n"
                 "            by_priority: { high: 1, normal: 2, low: 3 } }\n"
                 "    lease: 1m30s\n"
                 "    early_reject: true\n"
                 "    weights: { high: 5, low: 2 }\n"
                 "    choice: most_room\n"
                 "    breaker: { failures: 5, pause: 2s, pause_max: 1m }\n"
                 "    settle: debt\n"
                 "    estimate: mean\n"
                 "    max_keys: 5\n"
                 "    forget: 2m\n"
                 "    tenants: { x: { limit: none, rate: { rate: 5/d, burst: 2 }, weight: 9 } }\n");
    const struct weir_config_rules *rules = &config->gates[0].rules;
    assert_int_equal(rules->limit.kind, WEIR_CONFIG_KIND_NONE);
    assert_int_equal(rules->rate.kind, WEIR_CONFIG_KIND_FIXED);
    expect_rate(&rules->rate.start, 100, SECOND);
    expect_rate(&rules->rate.min, 100, SECOND);
    expect_rate(&rules->rate.max, 100, SECOND);
    assert_int_equal(rules->rate.burst, 5);
    expect_rate(&rules->tokens.start, 1000, HOUR);
    assert_int_equal(rules->tokens.burst, 0);
    assert_int_equal(rules->line.timeout_ns, SECOND / 4);
    assert_int_equal(rules->line.max.tickets, 7);
    assert_int_equal(rules->line.max.cost, 99);
    assert_int_equal(rules->line.status, 503);
    assert_int_equal(rules->line.by_tenant, 3);
    assert_int_equal(rules->line.by_priority[HIGH], 1);
    assert_int_equal(rules->line.by_priority[NORMAL], 2);
    assert_int_equal(rules->line.by_priority[LOW], 3);
    assert_int_equal(config->gates[0].keys_max, 5);
    assert_int_equal(config->gates[0].forget_ns, 2 * MINUTE);
    assert_int_equal(rules->lease_ns, 90 * SECOND);
    assert_true(rules->early_reject);
    assert_int_equal(rules->weights[HIGH], 5);
    assert_int_equal(rules->weights[NORMAL], 3);
    assert_int_equal(rules->weights[LOW], 2);
    assert_int_equal(rules->choice, WEIR_CHOICE_MOST_ROOM);
    assert_int_equal(rules->breaker.failures, 5);
    assert_int_equal(rules->breaker.pause_ns, 2 * SECOND);
    assert_int_equal(rules->breaker.pause_max_ns, MINUTE);
    assert_int_equal(rules->controller, WEIR_CONTROLLER_NONE);
    assert_int_equal(rules->settle, WEIR_SETTLE_DEBT);
    assert_int_equal(rules->estimate, WEIR_ESTIMATE_MEAN);
    const struct weir_tenant_settings *tenant = &config->gates[0].tenants[0];
    assert_int_equal(tenant->limit, 0);
    assert_int_equal(tenant->rate.tokens, 5);
    assert_int_equal(tenant->rate.period_ns, DAY);
    assert_int_equal(tenant->rate.burst, 2);
    assert_int_equal(tenant->weight, 9);
    unload(config);
}

TEST(an_adaptive_rate_reaches_from_a_tenth_to_ten_times_its_start)
{
    struct weir_config *config =
        load(API "gates: { a: { tokens: { rate: { start: 500/s } } }, b: { tokens: { rate: { "
                 "start: 5/s, max: 301/m } } } }\n");
    const struct weir_config_bucket *a = &config->gates[0].rules.tokens;
    expect_rate(&a->min, 50, SECOND);
    expect_rate(&a->start, 500, SECOND);
    expect_rate(&a->max, 5000, SECOND);
    const struct weir_config_bucket *b = &config->gates[1].rules.tokens;
    expect_rate(&b->min, 1, SECOND);
    expect_rate(&b->max, 301, MINUTE);
    unload(config);
    /* Ten times as much, but not more than there may be. */
    config = load(API "gates: { a: { tokens: { rate: { start: 109951162777/s } } }, b: { tokens: { "
                      "rate: { start: 109951162778/s } } } }\n");
    expect_rate(&config->gates[0].rules.tokens.max, UINT64_C(1099511627770), SECOND);
    expect_rate(&config->gates[1].rules.tokens.max, WEIR_RATE_TOKENS_MAX, SECOND);
    unload(config);
}

TEST(a_key_has_what_its_gate_has_but_for_what_it_names)
{
    USE_ENVIRONMENT("MAX_CONCURRENT_REQUESTS", "7");
    struct weir_config *config =
        load(API "gates:\n"
                 "  a:\n"
                 "    keys: { \"odd / key\": { line: { max: 5 }, weights: { low: 2 } },\n"
                 "            fixed: { limit: 3, lease: none, breaker: { pause: 5s } } }\n"
                 "    line: { timeout: 2s, status: 503 }\n"
                 "    lease: 1m\n"
                 "    breaker: { failures: 4 }\n"
                 "  b: { limit: {}, keys: { k: { limit: 1 } } }\n");
    const struct weir_config_key *odd = &config->gates[0].keys[0];
    expect_slice(odd->name, "odd / key");
    expect_limit(&odd->rules.limit, WEIR_CONFIG_KIND_FIXED, 7, 7, 7);
    assert_int_equal(odd->rules.line.max.tickets, 5);
    assert_int_equal(odd->rules.line.timeout_ns, 2 * SECOND);
    assert_int_equal(odd->rules.line.status, 503);
    assert_int_equal(odd->rules.lease_ns, MINUTE);
    assert_int_equal(odd->rules.weights[LOW], 2);
    assert_int_equal(odd->rules.weights[HIGH], 4);
    const struct weir_config_key *fixed = &config->gates[0].keys[1];
    assert_int_equal(fixed->line, 5);
    expect_limit(&fixed->rules.limit, WEIR_CONFIG_KIND_FIXED, 3, 3, 3);
    assert_true(fixed->rules.lease_ns == WEIR_NEVER);
    assert_int_equal(fixed->rules.breaker.failures, 4);
    assert_int_equal(fixed->rules.breaker.pause_ns, 5 * SECOND);
    assert_int_equal(config->gates[0].rules.breaker.pause_ns, SECOND);
    assert_int_equal(config->gates[0].rules.line.max.tickets, 1000);
    /* The line is the gate's, whatever the limit of the key. */
    assert_int_equal(config->gates[1].keys[0].rules.line.max.tickets, 100);
    unload(config);
}

TEST(named_tenants_start_from_the_default_wherever_it_stands)
{
    struct weir_config *config =
        load(API "gates: { a: { tenants: { x: { limit: none }, y: , default: { limit: 4, rate: "
                 "10/s, weight: 3 }, z: { rate: none, weight: 1 } } } }\n");
    const struct weir_config_gate *gate = &config->gates[0];
    assert_int_equal(gate->tenant_count, 3);
    expect_slice(gate->tenants[0].name, "x");
    assert_int_equal(gate->tenants[0].limit, 0);
    assert_int_equal(gate->tenants[0].rate.tokens, 10);
    assert_int_equal(gate->tenants[0].weight, 3);
    expect_slice(gate->tenants[1].name, "y");
    assert_int_equal(gate->tenants[1].limit, 4);
    expect_slice(gate->tenants[2].name, "z");
    assert_int_equal(gate->tenants[2].rate.tokens, 0);
    assert_int_equal(gate->tenants[2].weight, 1);
    unload(config);
}

TEST(a_max_that_is_the_controller_s_is_not_printed)
{
    struct weir_config *config = load("listen: 127.0.0.1:1\n" LLM_GATES LLM_ROUTES);
    char *first = print(config);
    unload(config);
    assert_non_null(strstr(first, "    limit: {min: 1}\n"));
    assert_non_null(strstr(first, "    limit: {min: 1, max: 64}\n"));
    assert_non_null(strstr(first, "    controller: learned\n    settle: negative\n"
                                  "    estimate: mean\n"));
    config = load(first);
    char *second = print(config);
    assert_int_equal(config->gates[0].rules.limit.max, 0);
    unload(config);
    assert_string_equal(first, second);
    free(first);
    free(second);
}

TEST(the_preset_of_agents_beats_the_environment_but_not_the_file)
{
    USE_ENVIRONMENT("MAX_CONCURRENT_REQUESTS", "7", "QUEUE_TIMEOUT_SECONDS", "9");
    struct weir_config *config = load(
        API "gates: {a: {preset: agents}, b: {preset: agents, limit: 2}, c: ,\n"
            " d: {preset: agents, line: {timeout: 1s, max: 5}, keys: {k: {limit: 1}, l: }}}\n");
    const struct weir_config_gate *gates = config->gates;
    expect_limit(&gates[0].rules.limit, WEIR_CONFIG_KIND_FIXED, 3, 3, 3);
    assert_int_equal(gates[0].rules.line.timeout_ns, 30 * WEIR_NS_PER_SECOND);
    assert_int_equal(gates[0].rules.line.max.tickets, 1000);
    assert_int_equal(gates[1].rules.limit.start, 2);
    assert_int_equal(gates[1].rules.line.timeout_ns, 30 * WEIR_NS_PER_SECOND);
    assert_int_equal(gates[2].rules.limit.start, 7);
    assert_int_equal(gates[2].rules.line.timeout_ns, 9 * WEIR_NS_PER_SECOND);
    assert_int_equal(gates[3].rules.limit.start, 3);
    assert_int_equal(gates[3].rules.line.timeout_ns, WEIR_NS_PER_SECOND);
    assert_int_equal(gates[3].keys[0].rules.limit.start, 1);
    assert_int_equal(gates[3].keys[1].rules.limit.start, 3);
    unload(config);
    expect_errors(API "gates: {a: {preset: agent}}\n",
                  "weir.yaml:2:21: gates.a.preset is \"agent\"; expected agents; did you mean "
                  "agents?\n");
}

TEST(the_factors_of_aimd_are_settings_with_bounds)
{
    struct weir_config *config = load(
        API
        "gates: {a: {controller: aimd}, b: {controller: aimd, aimd: {step: 1000000000, beta: 1%,"
        " beta_soft: 99%, window_beta: 60%, delay_threshold: 2s, delay_decrease: 95%}, keys: {k:"
        " {aimd: {beta: 99%}}}}}\n");
    const struct weir_aimd_settings *usual = &config->gates[0].rules.aimd;
    assert_int_equal(usual->step, 50);
    assert_int_equal(usual->beta, 70);
    assert_int_equal(usual->beta_soft, 85);
    assert_int_equal(usual->window_beta, 70);
    assert_int_equal(usual->delay_threshold_ns, WEIR_NS_PER_SECOND / 2);
    assert_int_equal(usual->delay_decrease, 90);
    const struct weir_aimd_settings *named = &config->gates[1].rules.aimd;
    assert_int_equal(named->step, 1000000000);
    assert_int_equal(named->beta, 1);
    assert_int_equal(named->beta_soft, 99);
    assert_int_equal(named->delay_threshold_ns, 2 * WEIR_NS_PER_SECOND);
    assert_int_equal(config->gates[1].keys[0].rules.aimd.beta, 99);
    assert_int_equal(config->gates[1].keys[0].rules.aimd.step, 1000000000);
    char *text = print(config);
    assert_non_null(strstr(text,
                           "    aimd: {step: 50, beta: 70%, beta_soft: 85%, window_beta: 70%, "
                           "delay_threshold: 500ms, delay_decrease: 90%}\n"));
    unload(config);
    unload(load(text));
    free(text);
    expect_errors(
        API "gates: {a: {controller: aimd, aimd: {step: 0, beta: 0.7, beta_soft: 0%, window_beta: "
            "100%, delay_threshold: 0s, delay_decrease: 90}}, b: {aimd: {beta: 70%}}, c: "
            "{controller: learned, aimd: {beta: 70%}}}\n",
        "weir.yaml:2:44: gates.a.aimd.step is \"0\"; expected a whole number from 1 to 1000000000\n"
        "weir.yaml:2:53: gates.a.aimd.beta is \"0.7\"; expected a percentage from 1% to 99%\n"
        "weir.yaml:2:69: gates.a.aimd.beta_soft is \"0%\"; expected a percentage from 1% to 99%\n"
        "weir.yaml:2:86: gates.a.aimd.window_beta is \"100%\"; expected a percentage from 1% to "
        "99%\n"
        "weir.yaml:2:109: gates.a.aimd.delay_threshold is \"0s\"; expected a duration from 1ms to "
        "1d\n"
        "weir.yaml:2:129: gates.a.aimd.delay_decrease is \"90\"; expected a percentage from 1% to "
        "99%; did you mean 90%?\n"
        "weir.yaml:2:145: gates.b.aimd means nothing, because another controller adapts, or none; "
        "expected controller: aimd with it\n"
        "weir.yaml:2:190: gates.c.aimd means nothing, because another controller adapts, or none; "
        "expected controller: aimd with it\n");
}

TEST(a_reset_has_a_header_and_a_unit)
{
    struct weir_config *config = load(
        LISTEN "gates: {g: }\nroutes: [{match: /, upstream: u, gate: g, llm: custom, custom: "
               "{model: m, requests: {limit: L, remaining: R, reset: {header: T, unit: window}},"
               " tokens: {limit: L2, remaining: R2, reset: T2}}}]\n");
    const struct weir_config_llm_custom *custom = config->routes[0].custom;
    expect_slice(custom->requests.reset, "T");
    assert_int_equal(custom->requests.reset_unit, WEIR_CONFIG_RESET_WINDOW);
    expect_slice(custom->tokens.reset, "T2");
    assert_int_equal(custom->tokens.reset_unit, WEIR_CONFIG_RESET_ANY);
    char *text = print(config);
    assert_non_null(strstr(text, "        reset: {header: \"T\", unit: window}\n"));
    assert_non_null(strstr(text, "        reset: \"T2\"\n"));
    unload(config);
    config = load(text);
    assert_int_equal(config->routes[0].custom->requests.reset_unit, WEIR_CONFIG_RESET_WINDOW);
    unload(config);
    free(text);
    expect_errors(
        LISTEN "gates: {g: }\nroutes: [{match: /, upstream: u, gate: g, llm: custom, custom: "
               "{model: m, requests: {limit: L, remaining: R, reset: {header: T}},"
               " tokens: {limit: L2, remaining: R2, reset: {header: T, unit: h}}}}]\n",
        "weir.yaml:4:117: routes[0].custom.requests.reset has no unit; expected one\n"
        "weir.yaml:4:191: routes[0].custom.tokens.reset.unit is \"h\"; expected ms, s, date or "
        "window\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gate_that_names_nothing_has_10_permits_and_10_seconds),
        cmocka_unit_test(the_environment_may_give_other_defaults),
        cmocka_unit_test(defaults_in_the_environment_have_bounds),
        cmocka_unit_test(an_empty_default_in_the_environment_is_none),
        cmocka_unit_test(a_bad_default_in_the_environment_is_told_once_if_it_counts),
        cmocka_unit_test(an_adaptive_gate_has_the_defaults_of_llms),
        cmocka_unit_test(a_max_that_is_not_named_is_the_controller_s),
        cmocka_unit_test(whatever_is_adaptive_has_a_controller),
        cmocka_unit_test(a_controller_alone_makes_the_limit_adaptive),
        cmocka_unit_test(a_key_has_the_controller_of_its_gate_if_it_adapts),
        cmocka_unit_test(a_gate_that_a_route_to_an_llm_leads_to_is_adaptive),
        cmocka_unit_test(an_upstream_that_a_route_to_an_llm_leads_to_has_longer_for_its_first_byte),
        cmocka_unit_test(the_environment_counts_at_the_gate_of_an_llm_too),
        cmocka_unit_test(every_field_of_a_gate_is_read),
        cmocka_unit_test(an_adaptive_rate_reaches_from_a_tenth_to_ten_times_its_start),
        cmocka_unit_test(a_key_has_what_its_gate_has_but_for_what_it_names),
        cmocka_unit_test(named_tenants_start_from_the_default_wherever_it_stands),
        cmocka_unit_test(a_max_that_is_the_controller_s_is_not_printed),
        cmocka_unit_test(the_factors_of_aimd_are_settings_with_bounds),
        cmocka_unit_test(a_reset_has_a_header_and_a_unit),
        cmocka_unit_test(the_preset_of_agents_beats_the_environment_but_not_the_file),
    };
    return cmocka_run_group_tests_name("config_gates", tests, NULL, NULL);
}
