#include "unit/config_helpers.h"

#include "config/match.h"

/* The complete example of the design, but for its comments. */
static const char example[] =
    "listen: 127.0.0.1:8080\n"
    "api:    127.0.0.1:7070\n"
    "data:   ./weir-data\n"
    "threads: 2\n"
    "\n"
    "upstreams:\n"
    "  openai:\n"
    "    url: https://api.openai.com          # or a list of urls\n"
    "    headers: { Authorization: \"Bearer ${OPENAI_API_KEY}\" }\n"
    "    timeouts: { connect: 5s, first_byte: 60s, idle: 5m }\n"
    "  functions: { url: \"http://127.0.0.1:9001\" }\n"
    "\n"
    "gates:\n"
    "  functions:\n"
    "    limit: 10\n"
    "    line: { timeout: 10s, max: 1000, status: 429 }\n"
    "    keys: { resize-image: { limit: 2 } }\n"
    "  agents:\n"
    "    limit: 3\n"
    "    line: { timeout: 30s }\n"
    "    lease: 10m\n"
    "    events: a2a\n"
    "  llm:\n"
    "    limit: { start: 4, min: 1, max: 64 }\n"
    "    tokens: { rate: { start: 500/s, min: 50/s, max: 5000/s }, burst: 2000 }\n"
    "    line: { timeout: 30s, max: 100 }\n"
    "    tenants: { default: { limit: 4, rate: 600/m }, acme: { weight: 2 } }\n"
    "\n"
    "routes:\n"
    "  - match: /functions/{function}\n"
    "    key: \"{function}\"\n"
    "    tenant: header:X-Tenant\n"
    "    priority: header:X-Priority\n"
    "    flow: header:X-Flow\n"
    "    deadline: 60s\n"
    "    gate: functions\n"
    "    upstream: functions\n"
    "  - match: /openai/\n"
    "    strip: /openai\n"
    "    llm: openai\n"
    "    key: \"{model}\"\n"
    "    gate: llm\n"
    "    upstream: openai\n"
    "\n"
    "queues:\n"
    "  pricing:\n"
    "    run: [\"./pricer\", \"{in}\", \"{out}\"]\n"
    "    workers: 4\n"
    "    line: { max: 200000, full: reject }\n"
    "    lease: 5m\n"
    "    timeout: 10m\n"
    "    attempts: 5\n"
    "    backoff: { first: 1s, max: 5m }\n"
    "    keep: 24h\n";

static const char *const example_environment[] = {"OPENAI_API_KEY", "sk-secret", NULL};

static struct weir_config *load_example(void)
{
    environment = example_environment;
    return load(example);
}

static void expect_limit(const struct weir_config_limit *limit, enum weir_config_kind kind,
                         uint32_t start, uint32_t min, uint32_t max)
{
    assert_int_equal(limit->kind, kind);
    assert_int_equal(limit->start, start);
    assert_int_equal(limit->min, min);
    assert_int_equal(limit->max, max);
}

static void expect_rate(const struct weir_config_rate *rate, uint64_t tokens, uint64_t period_ns)
{
    assert_int_equal(rate->tokens, tokens);
    assert_int_equal(rate->period_ns, period_ns);
}

static void expect_source(const struct weir_config_source *source,
                          enum weir_config_source_kind kind, const char *text)
{
    assert_int_equal(source->kind, kind);
    expect_slice(source->text, text);
}

/* ---- the example ---- */

TEST(the_example_says_where_to_listen)
{
    struct weir_config *config = load_example();
    expect_slice(config->file, "weir.yaml");
    assert_int_equal(config->listen_count, 1);
    assert_int_equal(config->listen[0].line, 1);
    assert_int_equal(config->listen[0].address.kind, WEIR_CONFIG_ADDRESS_TCP);
    expect_slice(config->listen[0].address.host, "127.0.0.1");
    assert_int_equal(config->listen[0].address.port, 8080);
    assert_int_equal(config->listen[0].half_close, WEIR_CONFIG_HALF_CLOSE_CLOSE);
    assert_int_equal(config->listen[0].connections_max, 10000);
    assert_int_equal(config->api_count, 1);
    assert_int_equal(config->api[0].address.port, 7070);
    expect_slice(config->data, "./weir-data");
    assert_int_equal(config->threads, 2);
    assert_int_equal(config->grace_ns, 30 * SECOND);
    assert_int_equal(config->api_token_count, 0);
    unload(config);
}

TEST(the_example_has_two_upstreams)
{
    struct weir_config *config = load_example();
    assert_int_equal(config->upstream_count, 2);
    const struct weir_config_upstream *openai = &config->upstreams[0];
    expect_slice(openai->name, "openai");
    assert_int_equal(openai->line, 7);
    assert_int_equal(openai->url_count, 1);
    assert_true(openai->urls[0].tls);
    expect_slice(openai->urls[0].address.host, "api.openai.com");
    assert_int_equal(openai->urls[0].address.port, 443);
    assert_int_equal(openai->header_count, 1);
    expect_slice(openai->headers[0].name, "Authorization");
    expect_slice(openai->headers[0].value, "Bearer sk-secret");
    assert_int_equal(openai->connect_timeout_ns, 5 * SECOND);
    assert_int_equal(openai->first_byte_timeout_ns, 60 * SECOND);
    assert_int_equal(openai->idle_timeout_ns, 5 * MINUTE);
    const struct weir_config_upstream *functions = &config->upstreams[1];
    expect_slice(functions->name, "functions");
    assert_int_equal(functions->line, 11);
    assert_false(functions->urls[0].tls);
    assert_int_equal(functions->urls[0].address.port, 9001);
    assert_int_equal(functions->header_count, 0);
    assert_int_equal(functions->connect_timeout_ns, 5 * SECOND);
    assert_int_equal(functions->first_byte_timeout_ns, 60 * SECOND);
    assert_int_equal(functions->idle_timeout_ns, 5 * MINUTE);
    assert_int_equal(functions->keepalive, 64);
    assert_int_equal(functions->health.failures, 3);
    assert_int_equal(functions->health.pause_ns, SECOND);
    assert_int_equal(functions->health.pause_max_ns, 30 * SECOND);
    unload(config);
}

TEST(the_example_has_a_gate_with_a_key_that_differs)
{
    struct weir_config *config = load_example();
    assert_int_equal(config->gate_count, 3);
    const struct weir_config_gate *gate = &config->gates[0];
    expect_slice(gate->name, "functions");
    assert_int_equal(gate->line, 14);
    expect_limit(&gate->rules.limit, WEIR_CONFIG_KIND_FIXED, 10, 10, 10);
    assert_int_equal(gate->rules.line.timeout_ns, 10 * SECOND);
    assert_int_equal(gate->rules.line.max.tickets, 1000);
    assert_int_equal(gate->rules.line.max.cost, 0);
    assert_int_equal(gate->rules.line.status, 429);
    assert_int_equal(gate->rules.line.by_tenant, 0);
    assert_int_equal(gate->rules.rate.kind, WEIR_CONFIG_KIND_NONE);
    assert_int_equal(gate->rules.tokens.kind, WEIR_CONFIG_KIND_NONE);
    assert_true(gate->rules.lease_ns == WEIR_NEVER);
    assert_false(gate->rules.early_reject);
    assert_int_equal(gate->rules.weights[HIGH], 4);
    assert_int_equal(gate->rules.weights[NORMAL], 3);
    assert_int_equal(gate->rules.weights[LOW], 1);
    assert_int_equal(gate->rules.choice, WEIR_CHOICE_IN_ORDER);
    assert_int_equal(gate->rules.breaker.failures, 0);
    assert_false(gate->events_a2a);
    assert_int_equal(gate->tenant_default.weight, 1);
    assert_int_equal(gate->tenant_default.limit, 0);
    assert_int_equal(gate->tenant_default.rate.tokens, 0);
    assert_int_equal(gate->tenant_count, 0);
    assert_int_equal(gate->key_count, 1);
    expect_slice(gate->keys[0].name, "resize-image");
    assert_int_equal(gate->keys[0].line, 17);
    expect_limit(&gate->keys[0].rules.limit, WEIR_CONFIG_KIND_FIXED, 2, 2, 2);
    assert_int_equal(gate->keys[0].rules.line.timeout_ns, 10 * SECOND);
    assert_int_equal(gate->keys[0].rules.line.max.tickets, 1000);
    unload(config);
}

TEST(the_example_has_a_gate_for_agents)
{
    struct weir_config *config = load_example();
    const struct weir_config_gate *gate = &config->gates[1];
    expect_slice(gate->name, "agents");
    expect_limit(&gate->rules.limit, WEIR_CONFIG_KIND_FIXED, 3, 3, 3);
    assert_int_equal(gate->rules.line.timeout_ns, 30 * SECOND);
    assert_int_equal(gate->rules.line.max.tickets, 1000);
    assert_int_equal(gate->rules.lease_ns, 10 * MINUTE);
    assert_true(gate->events_a2a);
    unload(config);
}

TEST(the_example_has_an_adaptive_gate_with_tenants)
{
    struct weir_config *config = load_example();
    const struct weir_config_gate *gate = &config->gates[2];
    expect_slice(gate->name, "llm");
    expect_limit(&gate->rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 64);
    const struct weir_config_bucket *tokens = &gate->rules.tokens;
    assert_int_equal(tokens->kind, WEIR_CONFIG_KIND_ADAPTIVE);
    expect_rate(&tokens->start, 500, SECOND);
    expect_rate(&tokens->min, 50, SECOND);
    expect_rate(&tokens->max, 5000, SECOND);
    assert_int_equal(tokens->burst, 2000);
    assert_int_equal(gate->rules.line.timeout_ns, 30 * SECOND);
    assert_int_equal(gate->rules.line.max.tickets, 100);
    assert_int_equal(gate->tenant_default.limit, 4);
    assert_int_equal(gate->tenant_default.rate.tokens, 600);
    assert_int_equal(gate->tenant_default.rate.period_ns, MINUTE);
    assert_int_equal(gate->tenant_default.rate.unit, WEIR_UNIT_REQUESTS);
    assert_int_equal(gate->tenant_default.weight, 1);
    assert_int_equal(gate->tenant_count, 1);
    expect_slice(gate->tenants[0].name, "acme");
    assert_int_equal(gate->tenants[0].weight, 2);
    assert_int_equal(gate->tenants[0].limit, 4);
    assert_int_equal(gate->tenants[0].rate.tokens, 600);
    unload(config);
}

TEST(the_example_has_a_route_with_a_capture)
{
    struct weir_config *config = load_example();
    assert_int_equal(config->route_count, 2);
    const struct weir_config_route *route = &config->routes[0];
    expect_slice(route->match, "/functions/{function}");
    assert_int_equal(route->line, 30);
    assert_int_equal(route->strip_segments, 0);
    assert_int_equal(route->key_parts, 1);
    assert_int_equal(route->key[0].kind, WEIR_CONFIG_SOURCE_CAPTURE);
    assert_int_equal(route->key[0].capture, 0);
    expect_source(&route->tenant, WEIR_CONFIG_SOURCE_HEADER, "X-Tenant");
    expect_source(&route->priority, WEIR_CONFIG_SOURCE_HEADER, "X-Priority");
    expect_source(&route->flow, WEIR_CONFIG_SOURCE_HEADER, "X-Flow");
    assert_int_equal(route->deadline_ns, 60 * SECOND);
    assert_int_equal(route->gate, 0);
    assert_int_equal(route->upstream_count, 1);
    assert_int_equal(route->upstreams[0], 1);
    assert_false(route->websocket);
    assert_int_equal(route->permit, WEIR_CONFIG_PERMIT_REQUEST);
    assert_int_equal(route->flow_idle_ns, 60 * SECOND);
    assert_int_equal(route->depth, 5);
    assert_int_equal(route->llm, WEIR_CONFIG_LLM_NONE);
    assert_true(route->body_bytes_max == UINT64_MAX);
    struct weir_match match;
    assert_true(weir_matcher_find(config->matcher, weir_slice_of("/functions/f/x"), &match));
    assert_int_equal(match.route, 0);
    expect_slice(match.captures[0], "f");
    unload(config);
}

TEST(the_example_has_a_route_to_an_llm)
{
    struct weir_config *config = load_example();
    const struct weir_config_route *route = &config->routes[1];
    expect_slice(route->match, "/openai/");
    assert_int_equal(route->strip_segments, 1);
    assert_int_equal(route->key_parts, 1);
    assert_int_equal(route->key[0].kind, WEIR_CONFIG_SOURCE_MODEL);
    assert_int_equal(route->tenant.kind, WEIR_CONFIG_SOURCE_NONE);
    assert_int_equal(route->priority.kind, WEIR_CONFIG_SOURCE_NONE);
    assert_int_equal(route->priority_constant, NORMAL);
    assert_true(route->deadline_ns == WEIR_NEVER);
    assert_int_equal(route->gate, 2);
    assert_int_equal(route->upstreams[0], 0);
    assert_int_equal(route->llm, WEIR_CONFIG_LLM_OPENAI);
    struct weir_match match;
    assert_true(weir_matcher_find(config->matcher, weir_slice_of("/openai/v1"), &match));
    assert_int_equal(match.route, 1);
    assert_false(weir_matcher_find(config->matcher, weir_slice_of("/openai"), &match));
    unload(config);
}

TEST(the_example_has_a_queue)
{
    struct weir_config *config = load_example();
    assert_int_equal(config->queue_count, 1);
    const struct weir_config_queue *queue = &config->queues[0];
    expect_slice(queue->name, "pricing");
    assert_int_equal(queue->line, 46);
    assert_int_equal(queue->run_count, 3);
    expect_slice(queue->run[0], "./pricer");
    expect_slice(queue->run[1], "{in}");
    expect_slice(queue->run[2], "{out}");
    expect_slice(queue->route, "");
    expect_slice(queue->user, "");
    assert_int_equal(queue->workers, 4);
    assert_int_equal(queue->jobs_max, 200000);
    assert_int_equal(queue->jobs_by_priority[HIGH], 0);
    assert_int_equal(queue->full, WEIR_CONFIG_FULL_REJECT);
    assert_int_equal(queue->lease_ns, 5 * MINUTE);
    assert_int_equal(queue->timeout_ns, 10 * MINUTE);
    assert_int_equal(queue->attempts, 5);
    assert_int_equal(queue->backoff_first_ns, SECOND);
    assert_int_equal(queue->backoff_max_ns, 5 * MINUTE);
    assert_int_equal(queue->keep_ns, 24 * HOUR);
    unload(config);
}

TEST(https_needs_nothing_but_its_url)
{
    struct weir_config *config = load(API "upstreams: { a: { url: https://a } }\n");
    const struct weir_config_tls *tls = &config->upstreams[0].tls;
    assert_true(tls->verify);
    assert_int_equal(tls->ca.bytes, 0);
    assert_int_equal(tls->server_name.bytes, 0);
    assert_int_equal(config->dns.server_count, 0);
    unload(config);
}

TEST(an_upstream_may_say_whom_it_trusts)
{
    struct weir_config *config = load(API "upstreams:\n"
                                          "  a:\n"
                                          "    url: [http://a, https://b]\n"
                                          "    tls:\n"
                                          "      verify: false\n"
                                          "      server_name: c.example\n"
                                          "      ca: ./ca.pem\n");
    const struct weir_config_tls *tls = &config->upstreams[0].tls;
    assert_false(tls->verify);
    expect_slice(tls->ca, "./ca.pem");
    assert_int_equal(tls->ca_line, 8);
    expect_slice(tls->server_name, "c.example");
    unload(config);
}

TEST(dns_servers_have_the_usual_port_if_they_name_none)
{
    static const struct {
        const char *text;
        const char *host;
        uint16_t port;
    } cases[] = {{"192.0.2.1", "192.0.2.1", 53},
                 {"192.0.2.1:5353", "192.0.2.1", 5353},
                 {"[::1]", "::1", 53},
                 {"[::1]:54", "::1", 54},
                 {"2001:db8::1", "2001:db8::1", 53}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[128];
        snprintf(text, sizeof text, API "dns: { servers: \"%s\" }\n", cases[i].text);
        struct weir_config *config = load(text);
        assert_int_equal(config->dns.server_count, 1);
        expect_slice(config->dns.servers[0].host, cases[i].host);
        assert_int_equal(config->dns.servers[0].port, cases[i].port);
        unload(config);
    }
}

/* ---- where to listen ---- */

TEST(an_api_address_alone_is_a_configuration)
{
    struct weir_config *config = load(API);
    assert_int_equal(config->listen_count, 0);
    assert_int_equal(config->threads, 0);
    expect_slice(config->data, "./weir-data");
    assert_int_equal(config->grace_ns, 30 * SECOND);
    assert_int_equal(config->gate_count, 0);
    assert_null(config->matcher);
    unload(config);
}

TEST(addresses_may_be_a_list_in_short_and_long_form)
{
    struct weir_config *config =
        load("listen:\n  - \"[::1]:0\"\n  - { address: unix:/tmp/w, half_close: keep, "
             "max_connections: 5, timeouts: { head: 2s } }\napi: { address: localhost:7070 "
             "}\ngrace: 0s\n");
    assert_int_equal(config->listen_count, 2);
    expect_slice(config->listen[0].address.host, "::1");
    assert_int_equal(config->listen[0].address.port, 0);
    assert_int_equal(config->listen[1].address.kind, WEIR_CONFIG_ADDRESS_UNIX);
    expect_slice(config->listen[1].address.path, "/tmp/w");
    assert_int_equal(config->listen[1].half_close, WEIR_CONFIG_HALF_CLOSE_KEEP);
    assert_int_equal(config->listen[1].connections_max, 5);
    assert_int_equal(config->listen[1].patience.head_ns, 2 * SECOND);
    assert_int_equal(config->listen[1].patience.idle_ns, 75 * SECOND);
    assert_int_equal(config->listen[0].patience.head_ns, 15 * SECOND);
    assert_int_equal(config->listen[0].patience.stall_ns, 30 * SECOND);
    assert_int_equal(config->listen[1].line, 3);
    expect_slice(config->api[0].address.host, "localhost");
    assert_int_equal(config->grace_ns, 0);
    unload(config);
}

TEST(events_are_written_to_a_file_that_is_rotated)
{
    struct weir_config *config = load(API);
    assert_int_equal(config->events.file.bytes, 0);
    unload(config);
    config = load(API "events: { file: e }\n");
    expect_slice(config->events.file, "e");
    assert_int_equal(config->events.rotate_bytes, 64 << 20);
    assert_int_equal(config->events.keep, 5);
    unload(config);
    config = load(API "events: { file: e, rotate: 1TiB, keep: 100 }\n");
    assert_int_equal(config->events.rotate_bytes, UINT64_C(1) << 40);
    assert_int_equal(config->events.keep, 100);
    unload(config);
}

TEST(this_machine_is_trusted_unless_somebody_else_is_named)
{
    struct weir_config *config = load(API);
    assert_int_equal(config->trusted_count, 3);
    assert_int_equal(config->trusted[0].kind, WEIR_CONFIG_NETWORK_V4);
    assert_int_equal(config->trusted[0].bits, 8);
    assert_int_equal(config->trusted[0].bytes[0], 127);
    assert_int_equal(config->trusted[1].kind, WEIR_CONFIG_NETWORK_V6);
    assert_int_equal(config->trusted[1].bits, 128);
    assert_int_equal(config->trusted[1].bytes[15], 1);
    assert_int_equal(config->trusted[2].kind, WEIR_CONFIG_NETWORK_UNIX);
    unload(config);
    config = load(API "trusted: []\n");
    assert_int_equal(config->trusted_count, 0);
    unload(config);
    config = load(API "trusted: [10.0.0.0/8, unix]\n");
    assert_int_equal(config->trusted_count, 2);
    assert_int_equal(config->trusted[0].bytes[0], 10);
    assert_int_equal(config->trusted[1].kind, WEIR_CONFIG_NETWORK_UNIX);
    unload(config);
}

TEST(the_api_is_open_to_others_with_tokens_only)
{
    USE_ENVIRONMENT("TOKEN", "0123456789abcdef");
    struct weir_config *config =
        load("api: 0.0.0.0:7070\napi_tokens:\n"
             "  ops: { token: \"${TOKEN}\", scopes: [read, admin] }\n"
             "  ci: { file: /run/ci, scopes: [submit, work], tenant: acme }\n");
    assert_int_equal(config->api_token_count, 2);
    const struct weir_config_api_token *ops = &config->api_tokens[0];
    expect_slice(ops->name, "ops");
    assert_int_equal(ops->line, 3);
    expect_slice(ops->token, "0123456789abcdef");
    expect_slice(ops->file, "");
    assert_int_equal(ops->scopes, WEIR_CONFIG_SCOPE_READ | WEIR_CONFIG_SCOPE_ADMIN);
    expect_slice(ops->tenant, "");
    const struct weir_config_api_token *ci = &config->api_tokens[1];
    expect_slice(ci->token, "");
    expect_slice(ci->file, "/run/ci");
    assert_int_equal(ci->scopes, WEIR_CONFIG_SCOPE_SUBMIT | WEIR_CONFIG_SCOPE_WORK);
    expect_slice(ci->tenant, "acme");
    unload(config);
}

/* ---- gates ---- */

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
    expect_limit(&config->gates[0].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 0);
    assert_int_equal(config->gates[0].rules.controller, WEIR_CONTROLLER_LEARNED);
    assert_int_equal(config->gates[0].rules.settle, WEIR_SETTLE_NEGATIVE);
    assert_int_equal(config->gates[0].rules.estimate, WEIR_ESTIMATE_NONE);
    assert_false(config->gates[0].llm);
    assert_int_equal(config->gates[0].rules.line.timeout_ns, 30 * SECOND);
    assert_int_equal(config->gates[0].rules.line.max.tickets, 100);
    expect_limit(&config->gates[1].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 2, 1, 2);
    expect_limit(&config->gates[2].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 100, 100, 0);
    expect_limit(&config->gates[3].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 80, 1, 0);
    expect_limit(&config->gates[4].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 10, 10, 0);
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
        {"{ controller: learned, limit: { max: 10000 } }", 4, 1, 10000},
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
    expect_limit(&config->gates[0].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 0);
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
    expect_limit(&key[2].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 64);
    assert_int_equal(key[2].rules.settle, WEIR_SETTLE_NEGATIVE);
    assert_int_equal(key[3].rules.controller, WEIR_CONTROLLER_NONE);
    assert_int_equal(key[3].rules.settle, WEIR_SETTLE_DEBT);
    expect_limit(&config->gates[1].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 0);
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
    expect_limit(&a->rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 0);
    assert_int_equal(a->rules.controller, WEIR_CONTROLLER_LEARNED);
    assert_int_equal(a->rules.settle, WEIR_SETTLE_NEGATIVE);
    assert_int_equal(a->rules.estimate, WEIR_ESTIMATE_MEAN);
    assert_int_equal(a->rules.line.timeout_ns, 30 * SECOND);
    assert_int_equal(a->rules.line.max.tickets, 100);
    assert_int_equal(a->rules.tokens.kind, WEIR_CONFIG_KIND_NONE);
    expect_limit(&a->keys[0].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 0);
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
    assert_int_equal(c->rules.line.timeout_ns, 10 * SECOND);
    expect_limit(&config->gates[3].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 64);
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
    expect_limit(&config->gates[0].rules.limit, WEIR_CONFIG_KIND_ADAPTIVE, 4, 1, 0);
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

/* ---- upstreams and routes ---- */

TEST(an_upstream_may_have_several_urls_and_other_settings)
{
    USE_ENVIRONMENT("A", "one", "B", "two");
    struct weir_config *config =
        load(API "upstreams:\n  a:\n    url: [http://h1:81, unix:/s, \"http://[::1]\"]\n"
                 "    headers: { X-Both: \"${A}-${B}$\", X-Plain: \"$${A}$x$\" }\n"
                 "    keepalive: 0\n    health: { failures: 0, pause: 1m }\n");
    const struct weir_config_upstream *upstream = &config->upstreams[0];
    assert_int_equal(upstream->url_count, 3);
    expect_slice(upstream->urls[0].address.host, "h1");
    assert_int_equal(upstream->urls[0].address.port, 81);
    expect_slice(upstream->urls[1].address.path, "/s");
    expect_slice(upstream->urls[2].address.host, "::1");
    assert_int_equal(upstream->urls[2].address.port, 80);
    assert_int_equal(upstream->header_count, 2);
    expect_slice(upstream->headers[0].value, "one-two$");
    expect_slice(upstream->headers[1].value, "${A}$x$");
    assert_int_equal(upstream->keepalive, 0);
    assert_int_equal(upstream->health.failures, 0);
    assert_int_equal(upstream->health.pause_ns, MINUTE);
    assert_int_equal(upstream->health.pause_max_ns, MINUTE);
    unload(config);
}

TEST(an_upstream_may_have_its_paths_somewhere_else)
{
    struct weir_config *config = load(API "upstreams:\n"
                                          "  a: { url: http://a }\n"
                                          "  b: { url: http://b, prefix: /openai/v1.2/x_-~ }\n");
    expect_slice(config->upstreams[0].prefix, "");
    expect_slice(config->upstreams[1].prefix, "/openai/v1.2/x_-~");
    unload(config);
}

TEST(an_upstream_may_say_what_models_are_called_there_and_when_it_charges)
{
    struct weir_config *config = load(
        API "upstreams:\n"
            "  a: { url: http://a }\n"
            "  b: { url: http://b, charge: max, models: { gpt-4o: my-deployment, 'a/b c': \"4\" "
            "} }\n"
            "  c: { url: http://c, charge: max_kept, models: {} }\n"
            "  d: { url: http://d, charge: end, models: }\n"
            "  e: { url: http://e, charge: estimate }\n");
    const struct weir_config_upstream *upstream = config->upstreams;
    assert_int_equal(upstream[0].charge, WEIR_CHARGE_ESTIMATE);
    assert_int_equal(upstream[0].model_count, 0);
    assert_int_equal(upstream[1].charge, WEIR_CHARGE_MAX);
    assert_int_equal(upstream[1].model_count, 2);
    expect_slice(upstream[1].models[0].from, "gpt-4o");
    expect_slice(upstream[1].models[0].to, "my-deployment");
    expect_slice(upstream[1].models[1].from, "a/b c");
    expect_slice(upstream[1].models[1].to, "4");
    assert_int_equal(upstream[2].charge, WEIR_CHARGE_MAX_KEPT);
    assert_int_equal(upstream[2].model_count, 0);
    assert_int_equal(upstream[3].charge, WEIR_CHARGE_END);
    assert_int_equal(upstream[4].charge, WEIR_CHARGE_ESTIMATE);
    unload(config);
}

TEST(a_route_to_an_llm_has_the_defaults_of_its_api)
{
    struct weir_config *config =
        load("listen: 127.0.0.1:1\n"
             "upstreams: { u: { url: http://u } }\n"
             "routes:\n"
             "  - { match: /a, upstream: u }\n"
             "  - { match: /b, upstream: u, llm: openai }\n"
             "  - { match: /c, upstream: u, llm: anthropic }\n"
             "  - { match: /d, upstream: u, llm: custom, custom: { output_tokens: o } }\n"
             "  - { match: /e, upstream: u, llm: openai, key: '{model}', default_key: other,\n"
             "      cache_read: 0%, retries: 0 }\n"
             "  - { match: /f, upstream: u, llm: anthropic, cache_read: 100%, retries: 1 }\n");
    const struct weir_config_route *route = config->routes;
    assert_int_equal(route->llm, WEIR_CONFIG_LLM_NONE);
    assert_null(route->custom);
    assert_int_equal(route->default_key.bytes, 0);
    assert_int_equal(route->cache_read_percent, 0);
    assert_int_equal(route->retries, 0);
    route++;
    assert_int_equal(route->llm, WEIR_CONFIG_LLM_OPENAI);
    assert_null(route->custom);
    expect_slice(route->default_key, "default");
    assert_int_equal(route->cache_read_percent, 100);
    assert_int_equal(route->retries, 2);
    route++;
    expect_slice(route->default_key, "default");
    assert_int_equal(route->cache_read_percent, 10);
    assert_int_equal(route->retries, 2);
    route++;
    assert_int_equal(route->llm, WEIR_CONFIG_LLM_CUSTOM);
    expect_slice(route->custom->output_tokens, "o");
    assert_int_equal(route->custom->model.bytes, 0);
    assert_int_equal(route->custom->requests.limit.bytes, 0);
    assert_int_equal(route->cache_read_percent, 100);
    assert_int_equal(route->retries, 2);
    route++;
    expect_slice(route->default_key, "other");
    assert_int_equal(route->cache_read_percent, 0);
    assert_int_equal(route->retries, 0);
    route++;
    assert_int_equal(route->cache_read_percent, 100);
    assert_int_equal(route->retries, 1);
    unload(config);
}

TEST(an_api_of_its_own_says_where_everything_stands)
{
    struct weir_config *config =
        load("listen: 127.0.0.1:1\n"
             "upstreams: { u: { url: http://u } }\n"
             "routes:\n"
             "  - match: /\n"
             "    upstream: u\n"
             "    llm: custom\n"
             "    key: \"{model}\"\n"
             "    cache_read: 25%\n"
             "    custom:\n"
             "      model: engine\n"
             "      max_tokens: options.max\n"
             "      stream: options.$stream\n"
             "      input_tokens: meta.usage.in\n"
             "      output_tokens: meta.usage.out\n"
             "      cached_tokens: a.b.c.d.e.f.g.h\n"
             "      requests: { limit: X-Limit, remaining: X-Left }\n"
             "      tokens: { limit: X-Tokens, remaining: X-Tokens-Left, reset: X-Reset }\n");
    const struct weir_config_route *route = &config->routes[0];
    const struct weir_config_llm_custom *custom = route->custom;
    expect_slice(custom->model, "engine");
    expect_slice(custom->max_tokens, "options.max");
    expect_slice(custom->stream, "options.$stream");
    expect_slice(custom->input_tokens, "meta.usage.in");
    expect_slice(custom->output_tokens, "meta.usage.out");
    expect_slice(custom->cached_tokens, "a.b.c.d.e.f.g.h");
    expect_slice(custom->requests.limit, "X-Limit");
    expect_slice(custom->requests.remaining, "X-Left");
    expect_slice(custom->requests.reset, "");
    expect_slice(custom->tokens.limit, "X-Tokens");
    expect_slice(custom->tokens.remaining, "X-Tokens-Left");
    expect_slice(custom->tokens.reset, "X-Reset");
    assert_int_equal(route->cache_read_percent, 25);
    unload(config);
}

TEST(a_permit_may_belong_to_a_flow)
{
    struct weir_config *config =
        load("listen: 127.0.0.1:1\n"
             "gates: { g: { lease: 1m, keys: { k: { lease: 2m } } } }\n"
             "routes:\n"
             "  - { match: /a, upstream: u, gate: g, flow: header:F, permit: flow, depth: 1,\n"
             "      flow_idle: 1ms }\n"
             "  - { match: /b, upstream: u, gate: g, flow: f, permit: flow, depth: 1000,\n"
             "      flow_idle: 365d }\n"
             "  - { match: /c, upstream: u, permit: request }\n"
             "upstreams: { u: { url: http://u } }\n");
    const struct weir_config_route *route = &config->routes[0];
    assert_int_equal(route->permit, WEIR_CONFIG_PERMIT_FLOW);
    assert_int_equal(route->depth, 1);
    assert_int_equal(route->flow_idle_ns, SECOND / 1000);
    route++;
    assert_int_equal(route->permit, WEIR_CONFIG_PERMIT_FLOW);
    assert_int_equal(route->depth, 1000);
    assert_int_equal(route->flow_idle_ns, 365 * DAY);
    route++;
    assert_int_equal(route->permit, WEIR_CONFIG_PERMIT_REQUEST);
    const struct weir_config_gate *gate = &config->gates[0];
    assert_int_equal(weir_config_key_rules(gate, weir_slice_of("k"))->lease_ns, 2 * MINUTE);
    assert_int_equal(weir_config_key_rules(gate, weir_slice_of("other"))->lease_ns, MINUTE);
    unload(config);
}

TEST(a_route_may_have_lanes_constants_and_a_composed_key)
{
    struct weir_config *config =
        load("listen: 127.0.0.1:1\n"
             "routes:\n"
             "  - match: /a/{b}/{c}\n"
             "    strip: /a/{b}\n"
             "    key: \"{c}:{tenant}-{b}{upstream}\"\n"
             "    tenant: acme\n"
             "    priority: high\n"
             "    flow: f\n"
             "    upstream: v\n"
             "    websocket: true\n"
             "    max_body: 64KiB\n"
             "  - { match: /h, key: header:X-Key, upstream: [v, u], priority: low }\n"
             "  - { match: /c, key: c, upstream: u, max_body: none, deadline: none }\n"
             "  - { match: /d, upstream: u, priority: normal, llm: anthropic, key: \"{model}\" }\n"
             "  - { match: /e, upstream: u, llm: custom, custom: { model: m } }\n"
             "upstreams: { u: { url: http://u }, v: { url: http://v } }\n");
    const struct weir_config_route *route = &config->routes[0];
    assert_int_equal(route->strip_segments, 2);
    assert_int_equal(route->key_parts, 6);
    assert_int_equal(route->key[0].kind, WEIR_CONFIG_SOURCE_CAPTURE);
    assert_int_equal(route->key[0].capture, 1);
    expect_source(&route->key[1], WEIR_CONFIG_SOURCE_CONSTANT, ":");
    assert_int_equal(route->key[2].kind, WEIR_CONFIG_SOURCE_TENANT);
    expect_source(&route->key[3], WEIR_CONFIG_SOURCE_CONSTANT, "-");
    assert_int_equal(route->key[4].kind, WEIR_CONFIG_SOURCE_CAPTURE);
    assert_int_equal(route->key[4].capture, 0);
    assert_int_equal(route->key[5].kind, WEIR_CONFIG_SOURCE_UPSTREAM);
    expect_source(&route->tenant, WEIR_CONFIG_SOURCE_CONSTANT, "acme");
    expect_source(&route->flow, WEIR_CONFIG_SOURCE_CONSTANT, "f");
    assert_int_equal(route->priority.kind, WEIR_CONFIG_SOURCE_CONSTANT);
    assert_int_equal(route->priority_constant, HIGH);
    assert_int_equal(route->gate, WEIR_CONFIG_NONE);
    assert_true(route->websocket);
    assert_int_equal(route->body_bytes_max, 65536);
    route++;
    expect_source(&route->key[0], WEIR_CONFIG_SOURCE_HEADER, "X-Key");
    assert_int_equal(route->upstream_count, 2);
    assert_int_equal(route->upstreams[0], 1);
    assert_int_equal(route->upstreams[1], 0);
    assert_int_equal(route->priority_constant, LOW);
    route++;
    expect_source(&route->key[0], WEIR_CONFIG_SOURCE_CONSTANT, "c");
    route++;
    assert_int_equal(route->priority_constant, NORMAL);
    assert_int_equal(route->llm, WEIR_CONFIG_LLM_ANTHROPIC);
    route++;
    assert_int_equal(route->llm, WEIR_CONFIG_LLM_CUSTOM);
    expect_source(&route->key[0], WEIR_CONFIG_SOURCE_CONSTANT, "all");
    assert_int_equal(route->key_parts, 1);
    unload(config);
}

/* ---- queues ---- */

TEST(a_queue_that_names_nothing_has_defaults)
{
    struct weir_config *config = load(API "queues: { q: }\n");
    const struct weir_config_queue *queue = &config->queues[0];
    assert_int_equal(queue->run_count, 0);
    assert_int_equal(queue->workers, 1);
    assert_int_equal(queue->jobs_max, 600);
    assert_int_equal(queue->jobs_by_priority[HIGH], 100);
    assert_int_equal(queue->jobs_by_priority[NORMAL], 300);
    assert_int_equal(queue->jobs_by_priority[LOW], 200);
    assert_int_equal(queue->lease_ns, 5 * MINUTE);
    assert_int_equal(queue->timeout_ns, 10 * MINUTE);
    assert_int_equal(queue->attempts, 5);
    assert_int_equal(queue->backoff_first_ns, SECOND);
    assert_int_equal(queue->backoff_max_ns, 5 * MINUTE);
    assert_int_equal(queue->keep_ns, DAY);
    assert_int_equal(queue->per_key, 1);
    assert_int_equal(queue->dead_max, 100000);
    assert_int_equal(queue->body_bytes_max, UINT64_C(1) << 30);
    assert_int_equal(queue->grace_ns, 5 * SECOND);
    assert_int_equal(queue->environment_count, 0);
    assert_int_equal(queue->limit_memory_bytes, 0);
    assert_int_equal(queue->limit_processes, 0);
    assert_int_equal(queue->limit_cpu_seconds, 0);
    assert_int_equal(queue->limit_output_bytes, 0);
    assert_int_equal(queue->tenant_default.weight, 1);
    assert_int_equal(queue->tenant_default.limit, 0);
    assert_int_equal(queue->tenant_default.rate.tokens, 0);
    assert_int_equal(queue->tenant_count, 0);
    unload(config);
}

TEST(a_queue_may_lead_to_a_route_and_bound_its_priorities)
{
    struct weir_config *config =
        load(API "upstreams: { u: { url: http://u } }\n"
                 "routes: [ { match: /f, upstream: u } ]\n"
                 "queues: { a: { route: /f/price, user: nobody, line: { by_priority: { high: 5 }, "
                 "full: drop_oldest } }, b: { line: { max: 9, by_priority: { low: 2 }, full: wait "
                 "} } }\n");
    const struct weir_config_queue *a = &config->queues[0];
    expect_slice(a->route, "/f/price");
    expect_slice(a->user, "nobody");
    assert_int_equal(a->jobs_max, 505);
    assert_int_equal(a->jobs_by_priority[HIGH], 5);
    assert_int_equal(a->jobs_by_priority[LOW], 200);
    assert_int_equal(a->full, WEIR_CONFIG_FULL_DROP_OLDEST);
    const struct weir_config_queue *b = &config->queues[1];
    assert_int_equal(b->jobs_max, 9);
    assert_int_equal(b->jobs_by_priority[HIGH], 0);
    assert_int_equal(b->jobs_by_priority[LOW], 2);
    assert_int_equal(b->full, WEIR_CONFIG_FULL_WAIT);
    unload(config);
}

TEST(a_queue_may_say_what_its_commands_find_and_may_use)
{
    USE_ENVIRONMENT("KEY", "k=1");
    struct weir_config *config =
        load(API "queues: { q: { run: [a], grace: 0s, per_key: 3, dead: 7, body: 0B, environment: "
                 "{ MODE: fast, EMPTY: '', _K: 'x${KEY}$${y}' }, limits: { memory: 1MiB, "
                 "processes: 64, cpu: 1m1ms, output: 1B } }, r: { limits: { cpu: 1s } } }\n");
    const struct weir_config_queue *queue = &config->queues[0];
    assert_int_equal(queue->grace_ns, 0);
    assert_int_equal(queue->per_key, 3);
    assert_int_equal(queue->dead_max, 7);
    assert_int_equal(queue->body_bytes_max, 0);
    assert_int_equal(queue->environment_count, 3);
    expect_slice(queue->environment[0], "MODE=fast");
    expect_slice(queue->environment[1], "EMPTY=");
    expect_slice(queue->environment[2], "_K=xk=1${y}");
    assert_int_equal(queue->limit_memory_bytes, UINT64_C(1) << 20);
    assert_int_equal(queue->limit_processes, 64);
    assert_int_equal(queue->limit_cpu_seconds, 61);
    assert_int_equal(queue->limit_output_bytes, 1);
    assert_int_equal(config->queues[1].limit_cpu_seconds, 1);
    assert_int_equal(config->queues[1].limit_memory_bytes, 0);
    unload(config);
}

TEST(a_queue_has_tenants_as_a_gate_has)
{
    struct weir_config *config =
        load(API "queues: { q: { tenants: { acme: { weight: 2 }, default: { rate: { rate: 100/s, "
                 "burst: 7 }, limit: 2 }, free: { rate: none, limit: none } } } }\n");
    const struct weir_config_queue *queue = &config->queues[0];
    assert_int_equal(queue->tenant_default.limit, 2);
    assert_int_equal(queue->tenant_count, 2);
    expect_slice(queue->tenants[0].name, "acme");
    assert_int_equal(queue->tenants[0].weight, 2);
    assert_int_equal(queue->tenants[0].limit, 2);
    assert_int_equal(queue->tenants[0].rate.tokens, 100);
    assert_int_equal(queue->tenants[0].rate.period_ns, SECOND);
    assert_int_equal(queue->tenants[0].rate.burst, 7);
    expect_slice(queue->tenants[1].name, "free");
    assert_int_equal(queue->tenants[1].weight, 1);
    assert_int_equal(queue->tenants[1].limit, 0);
    assert_int_equal(queue->tenants[1].rate.tokens, 0);
    unload(config);
}

TEST(the_line_protocol_has_addresses_as_the_api_has)
{
    struct weir_config *config = load(API);
    assert_int_equal(config->protocol_count, 0);
    unload(config);
    config = load(API "protocol: 127.0.0.1:7071\n");
    assert_int_equal(config->protocol_count, 1);
    expect_slice(config->protocol[0].address.host, "127.0.0.1");
    assert_int_equal(config->protocol[0].address.port, 7071);
    unload(config);
    config = load(API "protocol: [unix:/p, { address: 0.0.0.0:1, max_connections: 5 }]\n"
                      "api_tokens: { t: { file: /f, scopes: [submit] } }\n");
    assert_int_equal(config->protocol_count, 2);
    expect_slice(config->protocol[0].address.path, "/p");
    assert_int_equal(config->protocol[1].connections_max, 5);
    unload(config);
}

/* ---- files ---- */

TEST(a_file_is_loaded_by_its_path)
{
    char path[] = "/tmp/weir-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, example, strlen(example)), strlen(example));
    close(fd);
    environment = example_environment;
    struct weir_config_options options = {.lookup = look_up};
    struct weir_config *config = NULL;
    assert_true(weir_config_load_file(path, &options, &config, &config_errors));
    expect_slice(config->file, path);
    assert_int_equal(config->route_count, 2);
    weir_config_destroy(config);
    unlink(path);
}

TEST(a_file_that_cannot_be_read_is_told)
{
    struct weir_config_options options = {.lookup = look_up};
    struct weir_config *config = NULL;
    assert_false(weir_config_load_file("/nowhere/weir.yaml", &options, &config, &config_errors));
    assert_int_equal(config_errors.count, 1);
    assert_string_equal(config_errors.list[0].text,
                        "/nowhere/weir.yaml: cannot be opened: No such file or directory; expected "
                        "a file that weir may read");
    assert_false(weir_config_load_file("/", &options, &config, &config_errors));
    assert_string_equal(config_errors.list[0].text,
                        "/: cannot be read: Is a directory; expected a file");
    assert_false(weir_config_load_file("/dev/zero", &options, &config, &config_errors));
    assert_string_equal(config_errors.list[0].text,
                        "/dev/zero: it is too large; expected at most 1048576 bytes");
    assert_null(config);
}

TEST(a_configuration_keeps_nothing_of_what_it_was_made_from)
{
    char *name = strdup("name.yaml");
    char *copy = strdup(example);
    assert_non_null(name);
    assert_non_null(copy);
    struct weir_config_options options = {.lookup = look_up};
    struct weir_config *config = NULL;
    environment = example_environment;
    assert_true(weir_config_load_text(weir_slice_of(name), weir_slice_of(copy), &options, &config,
                                      &config_errors));
    char *before = print(config);
    memset(name, 'x', strlen(name));
    memset(copy, 'x', strlen(copy));
    char *after = print(config);
    assert_string_equal(before, after);
    expect_slice(config->file, "name.yaml");
    struct weir_match match;
    assert_true(weir_matcher_find(config->matcher, weir_slice_of("/functions/f"), &match));
    free(name);
    free(copy);
    free(before);
    free(after);
    weir_config_destroy(config);
}

TEST(no_configuration_can_be_destroyed)
{
    weir_config_destroy(NULL);
}

TEST(the_process_s_own_environment_is_the_default)
{
    setenv("WEIR_TEST_VALUE", "from-getenv", 1);
    struct weir_config_options options = {0};
    struct weir_config *config = NULL;
    assert_true(weir_config_load_text(
        weir_slice_of("t"),
        weir_slice_of(API "upstreams: { a: { url: http://a, headers: { A: \"${WEIR_TEST_VALUE}\" } "
                          "} }\n"),
        &options, &config, &config_errors));
    expect_slice(config->upstreams[0].headers[0].value, "from-getenv");
    weir_config_destroy(config);
}

TEST(who_does_without_secrets_needs_no_variable)
{
    static const char text[] =
        API "data: d\n"
            "upstreams: { u: { url: http://u, headers: { A: \"x ${A}\" } } }\n"
            "queues: { q: { environment: { E: \"${A}${B}\" } } }\n"
            "api_tokens: { t: { token: \"${A}\", scopes: [read] } }\n";
    struct weir_config_options options = {.lookup = look_up, .without_secrets = true};
    struct weir_config *config = NULL;
    USE_ENVIRONMENT("B", "");
    assert_true(weir_config_load_text(weir_slice_of("t"), weir_slice_of(text), &options, &config,
                                      &config_errors));
    expect_slice(config->data, "d");
    weir_config_destroy(config);
    assert_false(weir_config_load_text(weir_slice_of("t"), weir_slice_of(API "data: ''\n"),
                                       &options, &config, &config_errors));
    environment = NULL;
}

/* ---- printing ---- */

TEST(what_is_printed_can_be_loaded_and_is_printed_the_same)
{
    struct weir_config *config = load_example();
    char *first = print(config);
    unload(config);
    config = load(first);
    char *second = print(config);
    unload(config);
    assert_string_equal(first, second);
    assert_non_null(strstr(first, "    tokens: {rate: {start: 500/s, min: 50/s, max: 5000/s}, "
                                  "burst: 2000}\n"));
    assert_non_null(strstr(first, "    strip: \"/openai\"\n"));
    free(first);
    free(second);
}

TEST(everything_that_differs_from_a_default_is_printed)
{
    /* As it is printed, so that both are compared letter by letter. */
    static const char text[] =
        "listen:\n"
        "  - {address: \"[::1]:0\", half_close: keep, max_connections: 1, hosts: [\"a.example\", "
        "\"*\"], timeouts: {head: 1s, idle: 2s, stall: 3s}}\n"
        "  - {address: \"unix:/s\", half_close: close, max_connections: 2, hosts: [], "
        "timeouts: {head: 15s, idle: 75s, stall: 30s}}\n"
        "protocol:\n"
        "  - {address: \"127.0.0.1:7071\", half_close: close, max_connections: 3, hosts: [], "
        "timeouts: {head: 15s, idle: 75s, stall: 30s}}\n"
        "data: \"d\"\n"
        "threads: 1\n"
        "grace: 0s\n"
        "events:\n"
        "  file: \"/e\"\n"
        "  rotate: 65KiB\n"
        "  keep: 0\n"
        "dns: {servers: [\"192.0.2.1:53\", \"[::1]:5353\"]}\n"
        "trusted: []\n"
        "\n"
        "upstreams:\n"
        "  \"u\":\n"
        "    url:\n"
        "      - \"http://h:81\"\n"
        "      - \"https://[::2]:443\"\n"
        "      - \"unix:/u\"\n"
        "    tls:\n"
        "      ca: \"/ca.pem\"\n"
        "      server_name: \"::2\"\n"
        "      verify: false\n"
        "    headers:\n"
        "      \"A\": \"***\"\n"
        "      \"B\": \"***\"\n"
        "    timeouts: {connect: 1ms, first_byte: 2m, idle: 3h}\n"
        "    keepalive: 0\n"
        "    health: {failures: 0, pause: 2s, pause_max: 4s}\n"
        "    charge: max_kept\n"
        "    models:\n"
        "      \"m\": \"n\"\n"
        "      \"o p\": \"5\"\n"
        "  \"v\":\n"
        "    url:\n"
        "      - \"http://h:80\"\n"
        "    timeouts: {connect: 5s, first_byte: 1m, idle: 5m}\n"
        "    keepalive: 64\n"
        "    health: {failures: 3, pause: 1s, pause_max: 30s}\n"
        "    charge: estimate\n"
        "\n"
        "gates:\n"
        "  \"g\":\n"
        "    limit: none\n"
        "    rate: {rate: 1/s, burst: 1}\n"
        "    tokens: {rate: {start: 2/m, min: 1/h, max: 9999/d}}\n"
        "    line: {timeout: none, max: 1, status: 503, cost: 1, by_priority: {high: 1, normal: "
        "2, low: 3}, by_tenant: 1}\n"
        "    lease: 1s\n"
        "    early_reject: true\n"
        "    weights: {high: 1, normal: 2, low: 3}\n"
        "    choice: most_room\n"
        "    breaker: {failures: 1, pause: 2s, pause_max: 4s}\n"
        "    controller: aimd\n"
        "    settle: debt\n"
        "    estimate: ewma\n"
        "    events: a2a\n"
        "    tenants:\n"
        "      \"default\": {weight: 2, limit: 1, rate: {rate: 1/s, burst: 1}}\n"
        "      \"t\": {weight: 1, limit: none, rate: {rate: 5/d}}\n"
        "      \"s\": {weight: 1, limit: 1, rate: none}\n"
        "    keys:\n"
        "      \"k\":\n"
        "        limit: {start: 2, min: 1, max: 3}\n"
        "        rate: none\n"
        "        tokens: none\n"
        "        line: {timeout: 1s, max: 2, status: 429, cost: 1, by_priority: {high: 1, normal: "
        "2, low: 3}, by_tenant: 1}\n"
        "        lease: none\n"
        "        early_reject: false\n"
        "        weights: {high: 1, normal: 2, low: 3}\n"
        "        choice: in_order\n"
        "        breaker: {failures: 0, pause: 2s, pause_max: 4s}\n"
        "        controller: learned\n"
        "        settle: negative\n"
        "        estimate: mean\n"
        "      \"l\":\n"
        "        limit: 5\n"
        "        rate: none\n"
        "        tokens: none\n"
        "        line: {timeout: 1s, max: 2, status: 429, cost: 1, by_priority: {high: 1, normal: "
        "2, low: 3}, by_tenant: 1}\n"
        "        lease: none\n"
        "        early_reject: false\n"
        "        weights: {high: 1, normal: 2, low: 3}\n"
        "        choice: in_order\n"
        "        breaker: {failures: 0, pause: 2s, pause_max: 4s}\n"
        "        settle: negative\n"
        "        estimate: mean\n"
        "\n"
        "routes:\n"
        "  - match: \"/a/{b}/{c}\"\n"
        "    strip: \"/a/{b}\"\n"
        "    key: \"x{c}{b}{tenant}{upstream}\"\n"
        "    tenant: \"t\"\n"
        "    priority: \"low\"\n"
        "    flow: \"header:F\"\n"
        "    deadline: 1d\n"
        "    gate: \"g\"\n"
        "    upstream: [\"u\"]\n"
        "    permit: flow\n"
        "    flow_idle: 1500ms\n"
        "    depth: 1000\n"
        "    websocket: true\n"
        "    max_body: 0B\n"
        "  - match: \"/l\"\n"
        "    key: \"x{model}{tenant}\"\n"
        "    deadline: none\n"
        "    gate: \"g\"\n"
        "    upstream: [\"u\"]\n"
        "    permit: request\n"
        "    flow_idle: 1m\n"
        "    depth: 5\n"
        "    websocket: false\n"
        "    llm: custom\n"
        "    custom:\n"
        "      model: \"a\"\n"
        "      max_tokens: \"b.c\"\n"
        "      stream: \"d\"\n"
        "      input_tokens: \"e\"\n"
        "      output_tokens: \"f\"\n"
        "      cached_tokens: \"g\"\n"
        "      requests:\n"
        "        limit: \"H\"\n"
        "        remaining: \"I\"\n"
        "      tokens:\n"
        "        limit: \"J\"\n"
        "        remaining: \"K\"\n"
        "        reset: \"L\"\n"
        "    default_key: \"none\"\n"
        "    cache_read: 50%\n"
        "    retries: 1\n"
        "    max_body: none\n"
        "  - match: \"/m\"\n"
        "    key: \"all\"\n"
        "    deadline: none\n"
        "    upstream: [\"u\"]\n"
        "    permit: request\n"
        "    flow_idle: 1m\n"
        "    depth: 5\n"
        "    websocket: false\n"
        "    llm: custom\n"
        "    custom:\n"
        "      output_tokens: \"f\"\n"
        "    retries: 0\n"
        "    max_body: none\n"
        "  - match: \"/n\"\n"
        "    key: \"{model}\"\n"
        "    deadline: none\n"
        "    upstream: [\"u\"]\n"
        "    permit: request\n"
        "    flow_idle: 1m\n"
        "    depth: 5\n"
        "    websocket: false\n"
        "    llm: anthropic\n"
        "    default_key: \"default\"\n"
        "    cache_read: 10%\n"
        "    retries: 2\n"
        "    max_body: none\n"
        "  - match: \"/{z}\"\n"
        "    key: \"{z}\"\n"
        "    tenant: \"api_key\"\n"
        "    deadline: none\n"
        "    upstream: [\"u\"]\n"
        "    permit: request\n"
        "    flow_idle: 1m\n"
        "    depth: 5\n"
        "    websocket: false\n"
        "    max_body: none\n"
        "  - match: \"/\"\n"
        "    key: \"header:K\"\n"
        "    deadline: none\n"
        "    upstream: [\"v\", \"u\"]\n"
        "    permit: request\n"
        "    flow_idle: 1m\n"
        "    depth: 5\n"
        "    websocket: false\n"
        "    max_body: none\n"
        "\n"
        "queues:\n"
        "  \"q\":\n"
        "    route: \"/x\"\n"
        "    user: \"w\"\n"
        "    environment:\n"
        "      \"A\": \"***\"\n"
        "      \"B\": \"***\"\n"
        "    limits: {memory: 1025KiB, processes: 2, cpu: 61s, output: 1B}\n"
        "    grace: 1ms\n"
        "    workers: 2\n"
        "    per_key: 2\n"
        "    line: {max: 7, by_priority: {normal: 1}, full: drop_oldest}\n"
        "    lease: 1s\n"
        "    timeout: 2s\n"
        "    attempts: 3\n"
        "    backoff: {first: 2ms, max: 2ms}\n"
        "    keep: 0s\n"
        "    dead: 9\n"
        "    body: 0B\n"
        "    tenants:\n"
        "      \"default\": {weight: 2, limit: 3, rate: {rate: 4/m, burst: 5}}\n"
        "      \"a\": {weight: 1, limit: none, rate: none}\n"
        "  \"r\":\n"
        "    limits: {processes: 1, output: 1TiB}\n"
        "    grace: 5s\n"
        "    workers: 1\n"
        "    per_key: 1\n"
        "    line: {max: 1, full: wait}\n"
        "    lease: 5m\n"
        "    timeout: 10m\n"
        "    attempts: 5\n"
        "    backoff: {first: 1s, max: 5m}\n"
        "    keep: 1d\n"
        "    dead: 100000\n"
        "    body: 1GiB\n"
        "    tenants:\n"
        "      \"default\": {weight: 1, limit: none, rate: none}\n"
        "\n"
        "tenants:\n"
        "  \"default\": {tokens_per_day: 5, priority: normal}\n"
        "  \"a\": {tokens_per_day: none, priority: low, models: [\"m\", \"n*\"]}\n"
        "\n"
        "api_tokens:\n"
        "  \"a\":\n"
        "    file: \"/f\"\n"
        "    scopes: [read, submit, work, admin]\n"
        "    tenant: \"x\"\n"
        "  \"b\":\n"
        "    file: \"/f\"\n"
        "    scopes: [work]\n";
    struct weir_config *config = load(text);
    char *printed = print(config);
    assert_string_equal(printed, text);
    free(printed);
    unload(config);
}

TEST(a_max_that_is_the_controller_s_is_not_printed)
{
    struct weir_config *config = load("listen: 127.0.0.1:1\n" LLM_GATES LLM_ROUTES);
    char *first = print(config);
    unload(config);
    assert_non_null(strstr(first, "    limit: {start: 4, min: 1}\n"));
    assert_non_null(strstr(first, "    limit: {start: 4, min: 1, max: 64}\n"));
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

TEST(secrets_are_not_printed)
{
    USE_ENVIRONMENT("S", "secret-secret-secret");
    struct weir_config *config =
        load(API "upstreams: { u: { url: http://u, headers: { A: \"${S}\", B: secret } } }\n"
                 "queues: { q: { environment: { E: \"${S}\", F: secret, G: 'x=secret' } } }\n"
                 "api_tokens: { t: { token: \"${S}\", scopes: [read, work] } }\n");
    char *text = print(config);
    assert_null(strstr(text, "secret"));
    assert_non_null(strstr(text, "      \"B\": \"***\"\n"));
    assert_non_null(strstr(text, "      \"G\": \"***\"\n"));
    assert_non_null(strstr(text, "    token: \"***\"\n    scopes: [read, work]\n"));
    free(text);
    unload(config);
}

TEST(quotes_are_printed_so_that_they_come_back)
{
    struct weir_config *config = load(API "data: 'a\"b\\c'\ngates: { g: { keys: { '\"': } } }\n");
    char *text = print(config);
    unload(config);
    config = load(text);
    expect_slice(config->data, "a\"b\\c");
    expect_slice(config->gates[0].keys[0].name, "\"");
    free(text);
    unload(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_says_where_to_listen),
        cmocka_unit_test(the_example_has_two_upstreams),
        cmocka_unit_test(the_example_has_a_gate_with_a_key_that_differs),
        cmocka_unit_test(the_example_has_a_gate_for_agents),
        cmocka_unit_test(the_example_has_an_adaptive_gate_with_tenants),
        cmocka_unit_test(the_example_has_a_route_with_a_capture),
        cmocka_unit_test(the_example_has_a_route_to_an_llm),
        cmocka_unit_test(the_example_has_a_queue),
        cmocka_unit_test(https_needs_nothing_but_its_url),
        cmocka_unit_test(an_upstream_may_say_whom_it_trusts),
        cmocka_unit_test(dns_servers_have_the_usual_port_if_they_name_none),
        cmocka_unit_test(an_api_address_alone_is_a_configuration),
        cmocka_unit_test(addresses_may_be_a_list_in_short_and_long_form),
        cmocka_unit_test(events_are_written_to_a_file_that_is_rotated),
        cmocka_unit_test(this_machine_is_trusted_unless_somebody_else_is_named),
        cmocka_unit_test(the_api_is_open_to_others_with_tokens_only),
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
        cmocka_unit_test(the_environment_counts_at_the_gate_of_an_llm_too),
        cmocka_unit_test(every_field_of_a_gate_is_read),
        cmocka_unit_test(an_adaptive_rate_reaches_from_a_tenth_to_ten_times_its_start),
        cmocka_unit_test(a_key_has_what_its_gate_has_but_for_what_it_names),
        cmocka_unit_test(named_tenants_start_from_the_default_wherever_it_stands),
        cmocka_unit_test(an_upstream_may_have_several_urls_and_other_settings),
        cmocka_unit_test(an_upstream_may_have_its_paths_somewhere_else),
        cmocka_unit_test(an_upstream_may_say_what_models_are_called_there_and_when_it_charges),
        cmocka_unit_test(a_route_to_an_llm_has_the_defaults_of_its_api),
        cmocka_unit_test(an_api_of_its_own_says_where_everything_stands),
        cmocka_unit_test(a_permit_may_belong_to_a_flow),
        cmocka_unit_test(a_route_may_have_lanes_constants_and_a_composed_key),
        cmocka_unit_test(a_queue_that_names_nothing_has_defaults),
        cmocka_unit_test(a_queue_may_lead_to_a_route_and_bound_its_priorities),
        cmocka_unit_test(a_queue_may_say_what_its_commands_find_and_may_use),
        cmocka_unit_test(a_queue_has_tenants_as_a_gate_has),
        cmocka_unit_test(the_line_protocol_has_addresses_as_the_api_has),
        cmocka_unit_test(a_file_is_loaded_by_its_path),
        cmocka_unit_test(a_file_that_cannot_be_read_is_told),
        cmocka_unit_test(a_configuration_keeps_nothing_of_what_it_was_made_from),
        cmocka_unit_test(no_configuration_can_be_destroyed),
        cmocka_unit_test(the_process_s_own_environment_is_the_default),
        cmocka_unit_test(who_does_without_secrets_needs_no_variable),
        cmocka_unit_test(what_is_printed_can_be_loaded_and_is_printed_the_same),
        cmocka_unit_test(everything_that_differs_from_a_default_is_printed),
        cmocka_unit_test(a_max_that_is_the_controller_s_is_not_printed),
        cmocka_unit_test(secrets_are_not_printed),
        cmocka_unit_test(quotes_are_printed_so_that_they_come_back),
    };
    return cmocka_run_group_tests_name("config_load", tests, NULL, NULL);
}
