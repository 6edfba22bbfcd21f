#include "unit/config_helpers.h"

#include "config/match.h"

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
    assert_int_equal(config->listen[0].patience.body_ns, 15 * MINUTE);
    assert_int_equal(config->listen[0].body_rate_bytes, 8192);
    assert_int_equal(config->api[0].body_rate_bytes, 8192);
    assert_int_equal(config->listen[1].line, 3);
    expect_slice(config->api[0].address.host, "localhost");
    assert_int_equal(config->grace_ns, 0);
    unload(config);
}

TEST(bodies_have_a_least_rate_and_a_total_time_unless_none)
{
    struct weir_config *config = load("listen:\n  - { address: 1.2.3.4:0, body_rate: 1B, timeouts: "
                                      "{ body: 1ms } }\n  - { address: 1.2.3.4:0, body_rate: 1GiB, "
                                      "timeouts: { body: 1d } }\n  - { address: 1.2.3.4:0, "
                                      "body_rate: none, timeouts: { body: none } }\n");
    assert_int_equal(config->listen[0].body_rate_bytes, 1);
    assert_int_equal(config->listen[0].patience.body_ns, SECOND / 1000);
    assert_int_equal(config->listen[1].body_rate_bytes, 1 << 30);
    assert_int_equal(config->listen[1].patience.body_ns, DAY);
    assert_int_equal(config->listen[2].body_rate_bytes, WEIR_NEVER);
    assert_int_equal(config->listen[2].patience.body_ns, WEIR_NEVER);
    unload(config);
}

TEST(events_are_written_to_a_file_that_is_rotated)
{
    struct weir_config *config = load(API);
    assert_int_equal(config->events.file.bytes, 0);
    assert_int_equal(config->events.readers_max, 256);
    unload(config);
    config = load(API "events: { readers: 3 }\n");
    assert_int_equal(config->events.file.bytes, 0);
    assert_int_equal(config->events.readers_max, 3);
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

TEST(of_the_routes_of_one_path_the_method_decides)
{
    struct weir_config *config =
        load("listen: 127.0.0.1:1\n"
             "routes:\n"
             "  - { match: '/a/{rest}', upstream: u }\n"
             "  - { match: '/a/{x}', methods: [GET, DELETE], upstream: u }\n"
             "  - { match: '/a/{y}', methods: \"POST\", upstream: u }\n"
             "  - { match: /b, methods: [PUT], upstream: u }\n"
             "upstreams: { u: { url: http://u } }\n");
    struct weir_match match;
    assert_true(weir_matcher_find(config->matcher, weir_slice_of("/a/b"), &match));
    static const uint32_t expected[] = {
        [WEIR_CONFIG_METHOD_OTHER] = 0,  [WEIR_CONFIG_METHOD_GET] = 1,
        [WEIR_CONFIG_METHOD_HEAD] = 0,   [WEIR_CONFIG_METHOD_POST] = 2,
        [WEIR_CONFIG_METHOD_DELETE] = 1, [WEIR_CONFIG_METHOD_PATCH] = 0};
    for (uint32_t i = 0; i < COUNT_OF(expected); i++) {
        bool named = weir_config_method_name((enum weir_config_method)i) != NULL;
        if (named || i == WEIR_CONFIG_METHOD_OTHER) {
            uint32_t found =
                weir_config_find_route(config, match.route, (enum weir_config_method)i);
            assert_int_equal(found, i == WEIR_CONFIG_METHOD_PUT ? 0 : expected[i]);
        }
    }
    assert_true(weir_matcher_find(config->matcher, weir_slice_of("/b"), &match));
    assert_int_equal(weir_config_find_route(config, match.route, WEIR_CONFIG_METHOD_PUT), 3);
    assert_int_equal(weir_config_find_route(config, match.route, WEIR_CONFIG_METHOD_GET),
                     WEIR_CONFIG_NONE);
    assert_int_equal(weir_config_find_route(config, match.route, WEIR_CONFIG_METHOD_OTHER),
                     WEIR_CONFIG_NONE);
    unload(config);
}

TEST(a_route_may_read_json_and_have_sessions)
{
    struct weir_config *config =
        load("listen: 127.0.0.1:1\n"
             "gates: { g: {}, s: {} }\n"
             "routes:\n"
             "  - { match: /a, upstream: u, gate: g, json_rpc: true, key: json:params.name }\n"
             "  - { match: '/b/{c}', upstream: u, key: '{c}:{json:a.0}', default_key: d,\n"
             "      json_rpc: true, ungated: [], sessions: { gate: s, key: '{c}' } }\n"
             "  - { match: /d, upstream: u, sessions: { gate: g } }\n"
             "  - { match: /e, upstream: u }\n"
             "upstreams: { u: { url: http://u } }\n");
    const struct weir_config_route *route = &config->routes[0];
    assert_true(route->json_rpc && route->has_sessions);
    assert_int_equal(route->key_parts, 1);
    expect_source(&route->key[0], WEIR_CONFIG_SOURCE_JSON, "params.name");
    expect_slice(route->default_key, "default");
    assert_int_equal(route->session_gate, WEIR_CONFIG_NONE);
    assert_int_equal(route->ungated_count, 3);
    expect_slice(route->ungated[2], "notifications/*");
    assert_true(weir_config_route_leads_to(route, 0));
    assert_false(weir_config_route_leads_to(route, 1));
    route++;
    assert_int_equal(route->key_parts, 3);
    assert_int_equal(route->key[0].kind, WEIR_CONFIG_SOURCE_CAPTURE);
    expect_source(&route->key[2], WEIR_CONFIG_SOURCE_JSON, "a.0");
    assert_ptr_equal(weir_config_json_part(route->key, route->key_parts), &route->key[2]);
    expect_slice(route->default_key, "d");
    assert_int_equal(route->ungated_count, 0);
    assert_int_equal(route->session_gate, 1);
    assert_int_equal(route->session_key_parts, 1);
    assert_int_equal(route->session_key[0].kind, WEIR_CONFIG_SOURCE_CAPTURE);
    assert_true(weir_config_route_leads_to(route, 1));
    route++;
    assert_true(route->has_sessions && !route->json_rpc);
    assert_int_equal(route->session_gate, 0);
    expect_source(&route->session_key[0], WEIR_CONFIG_SOURCE_CONSTANT, "all");
    route++;
    assert_false(route->json_rpc || route->has_sessions);
    assert_null(weir_config_json_part(route->key, route->key_parts));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_api_address_alone_is_a_configuration),
        cmocka_unit_test(addresses_may_be_a_list_in_short_and_long_form),
        cmocka_unit_test(bodies_have_a_least_rate_and_a_total_time_unless_none),
        cmocka_unit_test(events_are_written_to_a_file_that_is_rotated),
        cmocka_unit_test(this_machine_is_trusted_unless_somebody_else_is_named),
        cmocka_unit_test(the_api_is_open_to_others_with_tokens_only),
        cmocka_unit_test(an_upstream_may_have_several_urls_and_other_settings),
        cmocka_unit_test(an_upstream_may_have_its_paths_somewhere_else),
        cmocka_unit_test(an_upstream_may_say_what_models_are_called_there_and_when_it_charges),
        cmocka_unit_test(a_route_to_an_llm_has_the_defaults_of_its_api),
        cmocka_unit_test(an_api_of_its_own_says_where_everything_stands),
        cmocka_unit_test(a_permit_may_belong_to_a_flow),
        cmocka_unit_test(of_the_routes_of_one_path_the_method_decides),
        cmocka_unit_test(a_route_may_read_json_and_have_sessions),
        cmocka_unit_test(a_route_may_have_lanes_constants_and_a_composed_key),
        cmocka_unit_test(a_queue_that_names_nothing_has_defaults),
        cmocka_unit_test(a_queue_may_lead_to_a_route_and_bound_its_priorities),
        cmocka_unit_test(a_queue_may_say_what_its_commands_find_and_may_use),
        cmocka_unit_test(a_queue_has_tenants_as_a_gate_has),
        cmocka_unit_test(the_line_protocol_has_addresses_as_the_api_has),
    };
    return cmocka_run_group_tests_name("config_load", tests, NULL, NULL);
}
