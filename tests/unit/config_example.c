/* The complete example of the design, as text and as a file, and how a configuration is printed. */
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
    "    depth: 6\n"
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
    assert_int_equal(config->listen[0].paths, WEIR_CONFIG_PATHS_NORMALIZE);
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
    assert_int_equal(gate->rules.breaker.failures, WEIR_CONFIG_NONE);
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
    assert_int_equal(route->line, 31);
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
    assert_int_equal(queue->line, 47);
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
        "  - {address: \"[::1]:0\", half_close: keep, paths: refuse, max_connections: 1, hosts: "
        "[\"a.example\", "
        "\"*\"], timeouts: {head: 1s, idle: 2s, stall: 3s, body: 4s}, body_rate: 5KiB}\n"
        "  - {address: \"unix:/s\", half_close: close, paths: keep, max_connections: 2, hosts: [], "
        "timeouts: {head: 15s, idle: 75s, stall: 30s, body: none}, body_rate: none}\n"
        "protocol:\n"
        "  - {address: \"127.0.0.1:7071\", half_close: close, max_connections: 3, hosts: [], "
        "timeouts: {head: 15s, idle: 75s, stall: 30s, body: 15m}, body_rate: 8KiB}\n"
        "data: \"d\"\n"
        "spool_max: 5MiB\n"
        "threads: 1\n"
        "grace: 0s\n"
        "events:\n"
        "  readers: 256\n"
        "  file: \"/e\"\n"
        "  rotate: 65KiB\n"
        "  keep: 0\n"
        "log:\n"
        "  level: warn\n"
        "  format: json\n"
        "  file: \"/l\"\n"
        "access_log:\n"
        "  file: \"/a\"\n"
        "  format: combined\n"
        "  query: true\n"
        "metrics:\n"
        "  llm_names: false\n"
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
        "    aimd: {step: 51, beta: 71%, beta_soft: 86%, window_beta: 72%, delay_threshold: 501ms, "
        "delay_decrease: 91%}\n"
        "    settle: debt\n"
        "    estimate: ewma\n"
        "    depth: 6\n"
        "    max_keys: 7\n"
        "    forget: none\n"
        "    events: a2a\n"
        "    tenants:\n"
        "      \"default\": {weight: 2, limit: 1, rate: {rate: 1/s, burst: 1}, tokens: {rate: "
        "7/s}}\n"
        "      \"t\": {weight: 1, limit: none, rate: {rate: 5/d}, tokens: {rate: 7/s}}\n"
        "      \"s\": {weight: 1, limit: 1, rate: none, tokens: none}\n"
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
        "    retry_after_max: 30s\n"
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
        "    retry_after_max: 30s\n"
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
        "    retry_after_max: 30s\n"
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
        "    retry_after_max: 30s\n"
        "    upstream: [\"u\"]\n"
        "    permit: request\n"
        "    flow_idle: 1m\n"
        "    depth: 5\n"
        "    websocket: false\n"
        "    llm: anthropic\n"
        "    default_key: \"default\"\n"
        "    cache_read: 10%\n"
        "    retries: 2\n"
        "    max_body: 64MiB\n"
        "  - match: \"/{z}\"\n"
        "    key: \"{z}\"\n"
        "    tenant: \"api_key\"\n"
        "    deadline: none\n"
        "    retry_after_max: 30s\n"
        "    upstream: [\"u\"]\n"
        "    permit: request\n"
        "    flow_idle: 1m\n"
        "    depth: 5\n"
        "    websocket: false\n"
        "    max_body: none\n"
        "  - match: \"/\"\n"
        "    key: \"header:K\"\n"
        "    deadline: none\n"
        "    retry_after_max: 30s\n"
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
        "  \"default\": {tokens_per_day: 5, tokens_per_month: none, requests_per_day: none, "
        "requests_per_month: none, money_per_day: none, money_per_month: none, priority: normal}\n"
        "  \"a\": {tokens_per_day: none, tokens_per_month: none, requests_per_day: none, "
        "requests_per_month: none, money_per_day: none, money_per_month: none, priority: low, "
        "models: [\"m\", \"n*\"]}\n"
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

TEST(methods_json_and_sessions_are_printed)
{
    static const char routes[] = "routes:\n"
                                 "  - match: \"/a/{b}\"\n"
                                 "    methods: [POST, DELETE]\n"
                                 "    key: \"{b}:{json:c.0}\"\n"
                                 "    deadline: none\n"
                                 "    retry_after_max: 30s\n"
                                 "    gate: \"g\"\n"
                                 "    upstream: [\"u\"]\n"
                                 "    permit: request\n"
                                 "    flow_idle: 1m\n"
                                 "    depth: 5\n"
                                 "    json_rpc: true\n"
                                 "    ungated: [\"a*\", \"b\"]\n"
                                 "    sessions:\n"
                                 "      gate: \"g\"\n"
                                 "      key: \"{b}\"\n"
                                 "    websocket: false\n"
                                 "    default_key: \"d\"\n"
                                 "    max_body: none\n"
                                 "  - match: \"/c\"\n"
                                 "    key: \"all\"\n"
                                 "    deadline: none\n"
                                 "    retry_after_max: 30s\n"
                                 "    upstream: [\"u\"]\n"
                                 "    permit: request\n"
                                 "    flow_idle: 1m\n"
                                 "    depth: 5\n"
                                 "    json_rpc: true\n"
                                 "    ungated: []\n"
                                 "    sessions: {}\n"
                                 "    websocket: false\n"
                                 "    max_body: none\n";
    char text[2048];
    snprintf(text, sizeof text,
             "listen: 127.0.0.1:1\nupstreams: { u: { url: http://u } }\ngates: { g: {} }\n%s",
             routes);
    struct weir_config *config = load(text);
    char *printed = print(config);
    assert_non_null(strstr(printed, routes));
    free(printed);
    unload(config);
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
        cmocka_unit_test(a_file_is_loaded_by_its_path),
        cmocka_unit_test(a_file_that_cannot_be_read_is_told),
        cmocka_unit_test(a_configuration_keeps_nothing_of_what_it_was_made_from),
        cmocka_unit_test(no_configuration_can_be_destroyed),
        cmocka_unit_test(the_process_s_own_environment_is_the_default),
        cmocka_unit_test(who_does_without_secrets_needs_no_variable),
        cmocka_unit_test(what_is_printed_can_be_loaded_and_is_printed_the_same),
        cmocka_unit_test(everything_that_differs_from_a_default_is_printed),
        cmocka_unit_test(methods_json_and_sessions_are_printed),
        cmocka_unit_test(secrets_are_not_printed),
        cmocka_unit_test(quotes_are_printed_so_that_they_come_back),
    };
    return cmocka_run_group_tests_name("config_example", tests, NULL, NULL);
}
