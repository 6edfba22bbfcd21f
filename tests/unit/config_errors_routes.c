/* Mistakes in routes, queues and tokens, each with its message, word by word. */
#include "unit/config_helpers.h"

/* ---- routes ---- */

TEST(a_route_needs_a_match_and_an_upstream)
{
    expect_errors(LISTEN "routes:\n"
                         "  - { match: /c }\n"
                         "  - { upstream: u }\n"
                         "  - {}\n"
                         "  -\n",
                  "weir.yaml:4:5: routes[0] has no upstream; expected one\n"
                  "weir.yaml:5:5: routes[1] has no match; expected one\n"
                  "weir.yaml:6:5: routes[2] has no match; expected one\n"
                  "weir.yaml:6:5: routes[2] has no upstream; expected one\n"
                  "weir.yaml:7:4: routes[3] has no match; expected one\n"
                  "weir.yaml:7:4: routes[3] has no upstream; expected one\n");
}

TEST(names_of_gates_and_upstreams_must_exist)
{
    expect_errors("listen: 127.0.0.1:1\n"
                  "upstreams: { functions: { url: http://h } }\n"
                  "gates: { functions: {} }\n"
                  "routes:\n"
                  "  - { match: /a, upstream: functons, gate: function }\n"
                  "  - { match: /b, upstream: [functions, functions] }\n"
                  "  - { match: /d, upstream: nothing-like-it, gate: }\n"
                  "  - { match: /e, upstream: [] }\n"
                  "  - { match: /f, upstream: { a: b }, gate: [functions] }\n",
                  "weir.yaml:5:28: routes[0].upstream is \"functons\"; expected the name of an "
                  "upstream that stands under upstreams; did you mean functions?\n"
                  "weir.yaml:5:44: routes[0].gate is \"function\"; expected the name of a gate "
                  "that stands under gates; did you mean functions?\n"
                  "weir.yaml:6:40: routes[1].upstream[1] is \"functions\"; expected each upstream "
                  "once, because each makes a lane of its own\n"
                  "weir.yaml:7:28: routes[2].upstream is \"nothing-like-it\"; expected the name of "
                  "an upstream that stands under upstreams\n"
                  "weir.yaml:7:51: routes[2].gate is empty; expected the name of a gate that "
                  "stands under gates\n"
                  "weir.yaml:8:28: routes[3].upstream has 0 upstreams; expected 1 to 64\n"
                  "weir.yaml:9:28: routes[4].upstream is a mapping; expected the name of an "
                  "upstream that stands under upstreams\n"
                  "weir.yaml:9:44: routes[4].gate is a list; expected the name of a gate that "
                  "stands under gates\n");
}

TEST(a_match_is_a_path)
{
    expect_errors(
        LISTEN "routes:\n"
               "  - { match: 'a', upstream: u }\n"
               "  - { match: '/a//b', upstream: u }\n"
               "  - { match: '/a/../b', upstream: u }\n"
               "  - { match: '/x{a}', upstream: u }\n"
               "  - { match: '/{a}/{a}', upstream: u }\n"
               "  - { match: '/{tenant}', upstream: u }\n"
               "  - { match: , upstream: u }\n"
               "  - { match: [/], upstream: u }\n",
        "weir.yaml:4:14: routes[0].match is \"a\"; expected a path that starts with /\n"
        "weir.yaml:5:14: routes[1].match is \"/a//b\"; expected a path without empty segments "
        "(//)\n"
        "weir.yaml:6:14: routes[2].match is \"/a/../b\"; expected a path without . and .. "
        "segments\n"
        "weir.yaml:7:14: routes[3].match is \"/x{a}\"; expected a path of letters, digits and "
        "-._~!$&'()*+,;=:@, without query or %\n"
        "weir.yaml:8:14: routes[4].match is \"/{a}/{a}\"; expected captures with different names\n"
        "weir.yaml:9:14: routes[5].match is \"/{tenant}\"; expected other names for captures than "
        "model, tenant and upstream, which mean something in a key\n"
        "weir.yaml:10:14: routes[6].match is empty; expected a path such as /functions/{function}\n"
        "weir.yaml:11:14: routes[7].match is a list; expected a path such as "
        "/functions/{function}\n");
}

TEST(a_match_with_a_parameter_needs_an_address_that_keeps_paths)
{
    static const char rest[] = "upstreams: { u: { url: http://h } }\n"
                               "routes: [{ match: '/a;b/c', upstream: u }]\n";
    char text[256];
    snprintf(text, sizeof text, "listen: [127.0.0.1:1, { address: unix:/s, paths: refuse }]\n%s",
             rest);
    expect_errors(text, "weir.yaml:3:19: routes[0].match is \"/a;b/c\"; expected a path without "
                        "parameters (;), or paths: keep on an address of listen\n");
    snprintf(text, sizeof text, "listen: [127.0.0.1:1, { address: unix:/s, paths: keep }]\n%s",
             rest);
    unload(load(text));
}

TEST(a_tie_between_routes_names_both)
{
    expect_errors(LISTEN "routes:\n"
                         "  - { match: '/f/{a}', upstream: u }\n"
                         "  - { match: /g, upstream: u }\n"
                         "  - { match: '/f/{b}', upstream: u }\n"
                         "  - { match: /g/, upstream: u }\n"
                         "  - { match: /g, upstream: v }\n",
                  "weir.yaml:6:14: routes[2].match is \"/f/{b}\"; expected paths or methods "
                  "of its own, but the route on line 4 takes the same requests\n"
                  "weir.yaml:8:14: routes[4].match is \"/g\"; expected paths or methods of its "
                  "own, but the route on line 5 takes the same requests\n");
}

TEST(routes_of_the_same_paths_that_share_a_method_are_a_tie)
{
    expect_errors(LISTEN "routes:\n"
                         "  - { match: '/f/{a}', methods: [POST, GET], upstream: u }\n"
                         "  - { match: '/f/{b}', methods: DELETE, upstream: u }\n"
                         "  - { match: '/f/{c}', upstream: u }\n"
                         "  - { match: '/f/{d}', methods: [PATCH, GET], upstream: u }\n",
                  "weir.yaml:7:14: routes[3].match is \"/f/{d}\"; expected paths or methods of its "
                  "own, but the route on line 4 takes GET of the same paths, too\n");
}

TEST(methods_are_names_each_of_them_once)
{
    expect_errors(
        LISTEN "routes:\n"
               "  - { match: /a, methods: [GET, post], upstream: u }\n"
               "  - { match: /b, methods: CONNECT, upstream: u }\n"
               "  - { match: /c, methods: [GET, POST, GET], upstream: u }\n"
               "  - { match: /d, methods: [], upstream: u }\n",
        "weir.yaml:4:33: routes[0].methods[1] is \"post\"; expected GET, HEAD, POST, PUT, PATCH, "
        "DELETE, OPTIONS or TRACE, in capitals; only a route without methods takes others\n"
        "weir.yaml:5:27: routes[1].methods is \"CONNECT\"; expected GET, HEAD, POST, PUT, PATCH, "
        "DELETE, OPTIONS or TRACE, in capitals; only a route without methods takes others\n"
        "weir.yaml:6:39: routes[2].methods[2] is \"GET\"; expected each method once\n"
        "weir.yaml:7:27: routes[3].methods is empty; expected methods such as [GET, POST]\n");
}

TEST(routes_that_differ_by_their_models_are_no_tie)
{
    unload(load("listen: 127.0.0.1:1\n"
                "upstreams: { u: { url: http://u } }\n"
                "routes:\n"
                "  - { match: /, llm: openai, models: [a, 'b*', '*'], upstream: u }\n"
                "  - { match: /, llm: openai, models: [b, 'bb*'], upstream: u }\n"
                "  - { match: /, llm: openai, upstream: u }\n"
                "  - { match: /, methods: GET, upstream: u, max_body: 64MiB, llm: openai }\n"
                "  - { match: /, methods: POST, llm: openai, models: [a], upstream: u }\n"));
}

#define A_MODEL                                                                                 \
    "expected a model such as gpt-4o, or the start of one and a *, such as claude-*, of up to " \
    "255 "                                                                                      \
    "bytes\n"

TEST(the_models_of_routes_are_checked)
{
    expect_errors(
        LISTEN "routes:\n"
               "  - { match: /a, llm: openai, models: [a, 'b*'], upstream: u }\n"
               "  - { match: /a, llm: openai, models: [c, 'b*'], upstream: u }\n"
               "  - { match: /b, llm: openai, models: [], upstream: u }\n"
               "  - { match: /c, llm: openai, models: ['*b', 'a*b', ''], upstream: u }\n"
               "  - { match: /d, models: [a], upstream: u }\n"
               "  - { match: /e, llm: custom, custom: { model: m, output_tokens: t },\n"
               "      models: [a], upstream: u }\n"
               "  - { match: /f, llm: openai, models: [a], upstream: u }\n"
               "  - { match: /f, llm: anthropic, models: [b], upstream: u }\n"
               "  - { match: /g, llm: openai, models: [a], upstream: u }\n"
               "  - { match: /g, llm: openai, upstream: u, max_body: 1MiB }\n"
               "  - { match: /h, llm: openai, models: [a], upstream: u, tenant: header:A }\n"
               "  - { match: /h, llm: openai, models: [b], upstream: u, tenant: header:B }\n",
        "weir.yaml:5:14: routes[1].match is \"/a\"; expected models of its own, but the route on "
        "line 4 takes b* of the same paths, too\n"
        "weir.yaml:6:39: routes[2].models is empty; expected at least one model, or no models "
        "field "
        "at all, which takes every model\n"
        "weir.yaml:7:40: routes[3].models[0] is \"*b\"; " A_MODEL
        "weir.yaml:7:46: routes[3].models[1] is \"a*b\"; " A_MODEL
        "weir.yaml:7:53: routes[3].models[2] is \"\"; " A_MODEL
        "weir.yaml:8:26: routes[4].models means nothing, because the route has no llm; expected "
        "llm: openai, anthropic or custom with it\n"
        "weir.yaml:10:15: routes[5].models do not go with llm: custom, whose routes may each read "
        "the model elsewhere; expected llm: openai or anthropic, or no models\n"
        "weir.yaml:12:14: routes[7].match is \"/f\"; expected the same llm as the route on line "
        "11, "
        "from which it differs by models only: that is needed before the model is known\n"
        "weir.yaml:14:14: routes[9].match is \"/g\"; expected the same max_body as the route on "
        "line 13, from which it differs by models only: that is needed before the model is known\n"
        "weir.yaml:16:14: routes[11].match is \"/h\"; expected the same tenant as the route on "
        "line 15, from which it differs by models only: that is needed before the model is "
        "known\n");
}

TEST(what_is_stripped_starts_the_match)
{
    expect_errors(LISTEN "routes:\n"
                         "  - { match: /a/b/, strip: /a/, upstream: u }\n"
                         "  - { match: /openai, strip: /open, upstream: u }\n"
                         "  - { match: /c, strip: /c/d, upstream: u }\n"
                         "  - { match: /d, strip: /, upstream: u }\n"
                         "  - { match: /e, strip: , upstream: u }\n",
                  "weir.yaml:4:28: routes[0].strip is \"/a/\"; expected the start of the match in "
                  "whole segments, without / at its end; did you mean /a?\n"
                  "weir.yaml:5:30: routes[1].strip is \"/open\"; expected the start of the match "
                  "in whole segments, without / at its end\n"
                  "weir.yaml:6:25: routes[2].strip is \"/c/d\"; expected the start of the match in "
                  "whole segments, without / at its end\n"
                  "weir.yaml:7:25: routes[3].strip is \"/\"; expected the start of the match in "
                  "whole segments, without / at its end\n"
                  "weir.yaml:8:25: routes[4].strip is empty; expected the start of the match in "
                  "whole segments, without / at its end\n");
}

TEST(a_key_is_made_of_what_is_known)
{
    expect_errors(LISTEN
                  "routes:\n"
                  "  - { match: '/a/{function}', key: '{functoin}', upstream: u }\n"
                  "  - { match: /b, key: '{model}', upstream: u }\n"
                  "  - { match: /c, key: '{upstream}', upstream: [u, v] }\n"
                  "  - { match: /d, key: 'a{', upstream: u }\n"
                  "  - { match: /e, key: 'header:bad name', upstream: u }\n"
                  "  - { match: /f, key: 'a{tenant}b{tenant}c{tenant}d{tenant}e', upstream: u }\n"
                  "  - { match: /g, key: , upstream: u }\n",
                  "weir.yaml:4:36: routes[0].key is \"{functoin}\"; expected in braces a name that "
                  "the match captures, or model, tenant or upstream; did you mean function?\n"
                  "weir.yaml:5:23: routes[1].key has {model}, but the route has no llm; expected "
                  "llm: openai, anthropic or custom, which says where the model stands\n"
                  "weir.yaml:6:23: routes[2].key has {upstream}, but the route has several; "
                  "expected one, because the key is known before the lane\n"
                  "weir.yaml:7:23: routes[3].key is \"a{\"; expected a } after every {\n"
                  "weir.yaml:8:23: routes[4].key is \"header:bad name\"; expected the name of a "
                  "header after header:, such as header:X-Tenant\n"
                  "weir.yaml:9:23: routes[5].key is \"a{tenant}b{tenant}c{tenant}d{tenant}e\"; "
                  "expected at most 8 parts\n"
                  "weir.yaml:10:23: routes[6].key is empty; expected a template such as "
                  "\"{function}\", header:NAME, json:PATH, or a constant\n");
}

TEST(the_other_fields_of_a_route_are_checked)
{
    expect_errors(
        LISTEN "routes:\n"
               "  - { match: /e, tenant: '{x}', priority: hihg, flow: 'header:', upstream: u }\n"
               "  - { match: /f, upstream: u, max_body: 10, llm: opanai, websocket: on, deadline: "
               "5, prio: high }\n"
               "  - { match: /g, upstream: u, priority: [], tenant: [], max_body: [] }\n",
        "weir.yaml:4:26: routes[0].tenant is \"{x}\"; expected header:NAME or a constant, without "
        "braces\n"
        "weir.yaml:4:43: routes[0].priority is \"hihg\"; expected header:NAME, high, normal or "
        "low; did you mean high?\n"
        "weir.yaml:4:55: routes[0].flow is \"header:\"; expected the name of a header after "
        "header:, such as header:X-Tenant\n"
        "weir.yaml:5:41: routes[1].max_body is \"10\"; expected a size such as 512B, 64KiB, 1MB or "
        "2GiB, or none\n"
        "weir.yaml:5:50: routes[1].llm is \"opanai\"; expected openai, anthropic or custom; did "
        "you mean openai?\n"
        "weir.yaml:5:69: routes[1].websocket is \"on\"; expected true or false\n"
        "weir.yaml:5:83: routes[1].deadline is \"5\"; expected a duration such as 250ms, 5s, "
        "1m30s, 2h or 7d, or none; did you mean 5s?\n"
        "weir.yaml:5:86: routes[1].prio is no field; expected match, methods, strip, key, tenant, "
        "priority, "
        "flow, deadline, retry_after_max, models, gate, upstream, permit, flow_idle, depth, a2a, "
        "task_lease, json_rpc, ungated, sessions, websocket, llm, custom, default_key, cache_read, "
        "retries or max_body; "
        "did you mean priority?\n"
        "weir.yaml:6:41: routes[2].priority is a list; expected header:NAME, high, normal or low\n"
        "weir.yaml:6:53: routes[2].tenant is a list; expected header:NAME or a constant\n"
        "weir.yaml:6:67: routes[2].max_body is a list; expected a size such as 512B, 64KiB, 1MB or "
        "2GiB, or none\n");
}

TEST(what_a_body_names_for_a_key_is_checked)
{
    expect_errors(
        LISTEN "routes:\n"
               "  - { match: /a, key: 'json:', upstream: u }\n"
               "  - { match: /b, key: '{json:a..b}', upstream: u }\n"
               "  - { match: /c, key: '{json:a}{json:b}', upstream: u }\n"
               "  - { match: /d, key: json:a, llm: openai, upstream: u }\n"
               "  - { match: /e, key: a, default_key: b, upstream: u }\n"
               "  - { match: /f, key: json:a.b.c.d.e.f.g.h.i, upstream: u }\n",
        "weir.yaml:4:23: routes[0].key is \"json:\"; expected a path after json:, such as "
        "json:params.name: up to 8 names with dots between, each of 1 to 48 letters, digits, _, -, "
        "$ and @\n"
        "weir.yaml:5:23: routes[1].key is \"{json:a..b}\"; expected a path after json:, such as "
        "json:params.name: up to 8 names with dots between, each of 1 to 48 letters, digits, _, -, "
        "$ and @\n"
        "weir.yaml:6:23: routes[2].key has 2 parts that the body names (json:); expected one\n"
        "weir.yaml:7:23: routes[3].key has json:, but the route has llm, which reads the model; "
        "expected {model}, or llm: custom with custom.model for another path\n"
        "weir.yaml:8:39: routes[4].default_key means nothing, because no part of the key comes "
        "from "
        "the body; expected key: \"json:PATH\" with it, or key: \"{model}\" and llm\n"
        "weir.yaml:9:23: routes[5].key is \"json:a.b.c.d.e.f.g.h.i\"; expected a path after json:, "
        "such as json:params.name: up to 8 names with dots between, each of 1 to 48 letters, "
        "digits, _, -, $ and @\n");
}

TEST(json_rpc_and_sessions_stand_only_where_they_mean_something)
{
    expect_errors(
        "listen: 127.0.0.1:1\n"
        "upstreams: { u: { url: http://u }, v: { url: http://v } }\n"
        "gates: { g: {} }\n"
        "routes:\n"
        "  - { match: /a, upstream: u, llm: openai, json_rpc: true, sessions: {} }\n"
        "  - { match: /b, upstream: u, websocket: true, json_rpc: true }\n"
        "  - { match: /c, upstream: u, ungated: [ping] }\n"
        "  - { match: /d, upstream: u, json_rpc: true, ungated: ping }\n"
        "  - { match: /e, upstream: u, json_rpc: true, ungated: [''] }\n"
        "  - { match: /f, upstream: u, gate: g, permit: flow, flow: header:F, sessions: {} }\n"
        "  - { match: /h, upstream: u, sessions: { key: a } }\n"
        "  - { match: /i, upstream: u, sessions: { gate: g, key: json:a } }\n"
        "  - { match: /j, upstream: u, sessions: { gate: h } }\n"
        "  - { match: /k, upstream: u, sessions: true }\n"
        "  - { match: /l, upstream: u, llm: openai, json_rpc: false }\n"
        "  - { match: /m, upstream: [u, v], sessions: { gate: g, key: '{upstream}' } }\n",
        "weir.yaml:5:54: routes[0].json_rpc stands beside llm, but no API of an LLM has it; "
        "expected a route of its own for it, without llm\n"
        "weir.yaml:5:70: routes[0].sessions stands beside llm, but no API of an LLM has it; "
        "expected a route of its own for it, without llm\n"
        "weir.yaml:6:58: routes[1].json_rpc stands beside websocket: true, but what a WebSocket "
        "carries is not read; expected a route of its own for WebSockets\n"
        "weir.yaml:7:40: routes[2].ungated means nothing, because the route has no json_rpc: true; "
        "expected it with it\n"
        "weir.yaml:8:56: routes[3].ungated is \"ping\"; expected a list of methods such as "
        "[initialize, \"notifications/*\"]\n"
        "weir.yaml:9:57: routes[4].ungated[0] is \"\"; expected a method such as ping\n"
        "weir.yaml:10:80: routes[5].sessions stands beside permit: flow, by which an event stream "
        "would hold the flow's permit; expected permit: request, or a route of its own with "
        "methods: [GET]\n"
        "weir.yaml:11:48: routes[6].sessions.key means nothing, because the sessions have no gate; "
        "expected gate: NAME with it\n"
        "weir.yaml:12:57: routes[7].sessions.key has a part that a body names, but a GET that "
        "opens an event stream has no body; expected other parts\n"
        "weir.yaml:13:49: routes[8].sessions.gate is \"h\"; expected the name of a gate that "
        "stands under gates\n"
        "weir.yaml:14:41: routes[9].sessions is \"true\"; expected a mapping with the fields gate "
        "or key\n"
        "weir.yaml:16:62: routes[11].sessions.key has {upstream}, but the route has several; "
        "expected one, because the key is known before the lane\n");
}

TEST(a_permit_of_a_flow_needs_a_flow_and_a_gate)
{
    expect_errors(
        "listen: 127.0.0.1:1\n"
        "upstreams: { u: { url: http://u } }\n"
        "gates: { g: { limit: 1 } }\n"
        "routes:\n"
        "  - { match: /a, upstream: u, gate: g, permit: flow }\n"
        "  - { match: /b, upstream: u, flow: header:F, permit: flow }\n"
        "  - { match: /c, upstream: u, permit: folw, depth: 0, flow_idle: 0s }\n"
        "  - { match: /d, upstream: u, permit: [], depth: 1001, flow_idle: 366d }\n",
        "weir.yaml:5:48: routes[0].permit is flow, but the route has no flow; expected flow: "
        "header:NAME and gate: NAME with it\n"
        "weir.yaml:6:55: routes[1].permit is flow, but the route has no gate; expected flow: "
        "header:NAME and gate: NAME with it\n"
        "weir.yaml:7:39: routes[2].permit is \"folw\"; expected request or flow; did you mean "
        "flow?\n"
        "weir.yaml:7:52: routes[2].depth is \"0\"; expected a whole number from 1 to 1000\n"
        "weir.yaml:7:66: routes[2].flow_idle is \"0s\"; expected a duration from 1ms to 365d\n"
        "weir.yaml:8:39: routes[3].permit is a list; expected request or flow\n"
        "weir.yaml:8:50: routes[3].depth is \"1001\"; expected a whole number from 1 to 1000\n"
        "weir.yaml:8:67: routes[3].flow_idle is \"366d\"; expected a duration from 1ms to 365d\n");
}

TEST(what_is_said_of_an_llm_needs_one)
{
    expect_errors(LISTEN "routes:\n"
                         "  - { match: /a, upstream: u, custom: { model: m }, default_key: k,\n"
                         "      cache_read: 10%, retries: 1 }\n"
                         "  - { match: /b, upstream: u, llm: opanai, retries: 1 }\n"
                         "  - { match: /c, upstream: u, llm: openai, custom: { model: m } }\n",
                  "weir.yaml:4:39: routes[0].custom means nothing, because the route has no llm; "
                  "expected llm: openai, anthropic or custom with it\n"
                  "weir.yaml:4:66: routes[0].default_key means nothing, because no part of the key "
                  "comes from the body; expected key: \"json:PATH\" with it, or key: "
                  "\"{model}\" and llm\n"
                  "weir.yaml:5:19: routes[0].cache_read means nothing, because the route has no "
                  "llm; expected llm: openai, anthropic or custom with it\n"
                  "weir.yaml:5:33: routes[0].retries means nothing, because the route has no llm; "
                  "expected llm: openai, anthropic or custom with it\n"
                  "weir.yaml:6:36: routes[1].llm is \"opanai\"; expected openai, anthropic or "
                  "custom; did you mean openai?\n"
                  "weir.yaml:7:52: routes[2].custom means nothing to an API that is known; "
                  "expected llm: custom with it\n");
}

TEST(the_fields_of_an_llm_are_checked)
{
    expect_errors(
        LISTEN "routes:\n"
               "  - { match: /a, upstream: u, llm: openai, retries: 3 }\n"
               "  - { match: /b, upstream: u, llm: openai, cache_read: 101% }\n"
               "  - { match: /c, upstream: u, llm: openai, cache_read: 10 }\n"
               "  - { match: /d, upstream: u, llm: openai, cache_read: 0.1 }\n"
               "  - { match: /e, upstream: u, llm: openai, cache_read: 101 }\n"
               "  - { match: /f, upstream: u, llm: openai, cache_read: [] }\n"
               "  - { match: /g, upstream: u, llm: openai, key: '{model}', default_key: }\n"
               "  - { match: /h, upstream: u, llm: openai, default_key: k }\n"
               "  - { match: /i, upstream: u, llm: openai, key: '{', default_key: k }\n"
               "  - { match: i, upstream: u, llm: openai, default_key: k }\n",
        "weir.yaml:4:53: routes[0].retries is \"3\"; expected a whole number from 0 to 2\n"
        "weir.yaml:5:56: routes[1].cache_read is \"101%\"; expected a percentage from 0% to 100%\n"
        "weir.yaml:6:56: routes[2].cache_read is \"10\"; expected a percentage from 0% to 100%; "
        "did you mean 10%?\n"
        "weir.yaml:7:56: routes[3].cache_read is \"0.1\"; expected a percentage from 0% to 100%\n"
        "weir.yaml:8:56: routes[4].cache_read is \"101\"; expected a percentage from 0% to 100%\n"
        "weir.yaml:9:56: routes[5].cache_read is a list; expected a percentage from 0% to 100%\n"
        "weir.yaml:10:73: routes[6].default_key is empty; expected a text that stands for what the "
        "body names\n"
        "weir.yaml:11:57: routes[7].default_key stands for {model}, which is not in the key; "
        "expected key: \"{model}\" with it\n"
        "weir.yaml:12:49: routes[8].key is \"{\"; expected a } after every {\n"
        "weir.yaml:13:14: routes[9].match is \"i\"; expected a path that starts with /\n");
}

TEST(an_api_of_its_own_says_where_things_stand)
{
    expect_errors(
        LISTEN "routes:\n"
               "  - { match: /a, upstream: u, llm: custom }\n"
               "  - { match: /b, upstream: u, llm: custom, custom: }\n"
               "  - { match: /c, upstream: u, llm: custom, custom: { max_tokens: m } }\n"
               "  - { match: /d, upstream: u, llm: custom, custom: 5 }\n"
               "  - { match: /e, upstream: u, llm: custom, custom: { modle: m, model: m } }\n"
               "  - { match: /f, upstream: u, llm: custom, key: '{model}', custom: { "
               "output_tokens: o } }\n"
               "  - { match: /g, upstream: u, llm: custom, cache_read: 1%, custom: { "
               "output_tokens: o } }\n",
        "weir.yaml:4:36: routes[0].llm is custom, but the route has no custom; expected custom: "
        "{model, output_tokens}, which says where they stand\n"
        "weir.yaml:5:52: routes[1].custom has neither model nor output_tokens; expected at least "
        "one of them\n"
        "weir.yaml:6:52: routes[2].custom has neither model nor output_tokens; expected at least "
        "one of them\n"
        "weir.yaml:7:52: routes[3].custom is \"5\"; expected a mapping with the fields model, "
        "max_tokens, stream, input_tokens, output_tokens, cached_tokens, requests or tokens\n"
        "weir.yaml:8:54: routes[4].custom.modle is no field; expected model, max_tokens, stream, "
        "input_tokens, output_tokens, cached_tokens, requests or tokens; did you mean model?\n"
        "weir.yaml:9:49: routes[5].key has {model}, but custom does not say where it stands; "
        "expected custom.model with it\n"
        "weir.yaml:10:56: routes[6].cache_read means nothing, because custom does not say where "
        "cached tokens stand; expected custom.cached_tokens with it\n");
    expect_errors(
        LISTEN
        "routes: [{ match: /a, upstream: u, llm: custom, key: '{model}', custom: { model: 'a b', "
        "stream: a..b, max_tokens: , input_tokens: a.b.c.d.e.f.g.h.i, output_tokens: [] } }]\n",
        "weir.yaml:3:82: routes[0].custom.model is \"a b\"; expected up to 8 names with dots "
        "between, such as usage.output_tokens, each of 1 to 48 letters, digits, _, -, $ and @\n"
        "weir.yaml:3:97: routes[0].custom.stream is \"a..b\"; expected up to 8 names with dots "
        "between, such as usage.output_tokens, each of 1 to 48 letters, digits, _, -, $ and @\n"
        "weir.yaml:3:115: routes[0].custom.max_tokens is empty; expected up to 8 names with dots "
        "between, such as usage.output_tokens, each of 1 to 48 letters, digits, _, -, $ and @\n"
        "weir.yaml:3:131: routes[0].custom.input_tokens is \"a.b.c.d.e.f.g.h.i\"; expected up to 8 "
        "names with dots between, such as usage.output_tokens, each of 1 to 48 letters, digits, _, "
        "-, $ and @\n"
        "weir.yaml:3:165: routes[0].custom.output_tokens is a list; expected up to 8 names with "
        "dots between, such as usage.output_tokens, each of 1 to 48 letters, digits, _, -, $ and "
        "@\n");
    expect_errors(
        LISTEN
        "routes:\n"
        "  - match: /b\n"
        "    upstream: u\n"
        "    llm: custom\n"
        "    custom:\n"
        "      model: m\n"
        "      requests: { limit: L }\n"
        "      tokens: { limit: 'a b', remaining: , resett: R }\n"
        "  - { match: /c, upstream: u, llm: custom, custom: { model: m, requests: L, tokens: "
        "} }\n",
        "weir.yaml:9:17: routes[0].custom.requests has no remaining; expected one\n"
        "weir.yaml:10:24: routes[0].custom.tokens.limit is \"a b\"; expected the name of a header "
        "such as X-RateLimit-Remaining\n"
        "weir.yaml:10:42: routes[0].custom.tokens.remaining is empty; expected the name of a "
        "header such as X-RateLimit-Remaining\n"
        "weir.yaml:10:44: routes[0].custom.tokens.resett is no field; expected limit, remaining or "
        "reset; did you mean reset?\n"
        "weir.yaml:11:74: routes[1].custom.requests is \"L\"; expected a mapping with the fields "
        "limit, remaining or reset\n"
        "weir.yaml:11:85: routes[1].custom.tokens has no limit; expected one\n"
        "weir.yaml:11:85: routes[1].custom.tokens has no remaining; expected one\n");
}

TEST(an_llm_is_neither_reached_by_websockets_nor_counted_by_flows)
{
    expect_errors(
        "listen: 127.0.0.1:1\n"
        "upstreams: { u: { url: http://u } }\n"
        "gates: { g: }\n"
        "routes:\n"
        "  - { match: /a, upstream: u, llm: openai, websocket: true }\n"
        "  - { match: /b, upstream: u, llm: openai, gate: g, flow: f, permit: flow }\n"
        "  - { match: /c, upstream: u, llm: openai, gate: g, flow: f, permit: request,\n"
        "      websocket: false }\n",
        "weir.yaml:5:55: routes[0].websocket is true, but the route has llm, and what a WebSocket "
        "carries is not counted; expected a route of its own for WebSockets, without llm\n"
        "weir.yaml:6:70: routes[1].permit is flow, but the route has llm, which counts what each "
        "request costs; expected permit: request\n");
}

TEST(a_route_with_agents_has_one_upstream_and_public_urls_and_counts_in_one_way)
{
    expect_errors("listen: [{ address: '127.0.0.1:1', public_url: 'https://a' }, 127.0.0.1:2]\n"
                  "upstreams: { u: { url: http://u }, v: { url: http://v } }\n"
                  "gates: { g: }\n"
                  "routes:\n"
                  "  - { match: /a, upstream: u, a2a: true }\n",
                  "weir.yaml:5:36: routes[0].a2a is true, but the address of listen on line 1 has "
                  "no public_url; expected one on each, such as https://weir.example.com: agent "
                  "cards lead clients there\n");
    expect_errors(
        "listen: { address: '127.0.0.1:1', public_url: 'https://a' }\n"
        "upstreams: { u: { url: http://u }, v: { url: http://v } }\n"
        "gates: { g: }\n"
        "routes:\n"
        "  - { match: /a, upstream: u, a2a: true, llm: openai }\n"
        "  - { match: /b, upstream: u, a2a: true, gate: g, flow: f, permit: flow }\n"
        "  - { match: /c, upstream: [u, v], a2a: true }\n"
        "  - { match: /d, upstream: u, task_lease: 5s }\n"
        "  - { match: /e, upstream: u, a2a: true, task_lease: 0s }\n"
        "  - { match: /f, upstream: u, a2a: true, json_rpc: true, ungated: [x], sessions: {} }\n"
        "  - { match: /g, upstream: u, a2a: true, gate: g, key: 'json:params.id' }\n",
        "weir.yaml:5:36: routes[0].a2a is true, but the route has llm; expected one of them\n"
        "weir.yaml:6:36: routes[1].a2a is true, but the route has permit: flow; expected one of "
        "them\n"
        "weir.yaml:7:41: routes[2].a2a is true, but the route has several upstreams; expected one, "
        "because only the agent that has begun a task knows it\n"
        "weir.yaml:8:43: routes[3].task_lease is set without a2a: true; expected both\n"
        "weir.yaml:9:54: routes[4].task_lease is \"0s\"; expected a duration from 1ms to 365d\n"
        "weir.yaml:10:52: routes[5].json_rpc stands beside a2a: true, which knows A2A's calls "
        "itself; expected it without\n"
        "weir.yaml:10:67: routes[5].ungated stands beside a2a: true, which knows A2A's calls "
        "itself; expected it without\n"
        "weir.yaml:10:82: routes[5].sessions stands beside a2a: true, which knows A2A's calls "
        "itself; expected it without\n"
        "weir.yaml:11:56: routes[6].key has json:, but the route has a2a: true; expected a key of "
        "the path or of header fields, which all calls about a task have in common\n");
}

TEST(a_public_url_is_that_of_a_server_and_perhaps_a_path)
{
    static const char *const bad[] = {"weir.example.com", "ftp://a",     "https://",
                                      "https:///a",       "https://a?b", "https://a#b",
                                      "https://a b",      "https://:80", "https://u@a"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char config[256];
        char error[256];
        snprintf(config, sizeof config, "listen: { address: '127.0.0.1:1', public_url: '%s' }\n",
                 bad[i]);
        snprintf(error, sizeof error,
                 "weir.yaml:1:47: listen.public_url is \"%s\"; expected a URL such as "
                 "https://weir.example.com, without a query\n",
                 bad[i]);
        expect_errors(config, error);
    }
    expect_errors("listen: 127.0.0.1:1\n"
                  "api: { address: '127.0.0.1:2', public_url: 'https://a' }\n",
                  "weir.yaml:2:44: api.public_url has no meaning here; expected public_url on "
                  "addresses of listen only\n");
}

/* ---- queues and tokens ---- */

TEST(queues_are_checked)
{
    expect_errors(
        API "queues: { a: { run: ./x }, b: { run: [] }, c: { route: /x }, d: { run: [a], route: /x "
            "}, e: { line: { full: rejct } }, f: { backoff: { first: 10m } }, g: { run: [''] }, h: "
            "{ lease: 1ms }, i: { run: } }\n",
        "weir.yaml:2:21: queues.a.run is \"./x\"; expected a list of a command and its arguments, "
        "such as [./pricer, \"{in}\"]\n"
        "weir.yaml:2:38: queues.b.run is empty; expected a list of a command and its arguments, "
        "such as [./pricer, \"{in}\"]\n"
        "weir.yaml:2:56: queues.c.route is \"/x\"; expected a path that a route matches\n"
        "weir.yaml:2:65: queues.d has both run and route; expected one of them, or neither, "
        "which keeps jobs and runs none\n"
        "weir.yaml:2:84: queues.d.route is \"/x\"; expected a path that a route matches\n"
        "weir.yaml:2:109: queues.e.line.full is \"rejct\"; expected reject, wait or drop_oldest; "
        "did you mean reject?\n"
        "weir.yaml:2:123: queues.f has a backoff with first above max; expected first <= max\n"
        "weir.yaml:2:163: queues.g.run[0] is \"\"; expected a command or an argument\n"
        "weir.yaml:2:182: queues.h.lease is \"1ms\"; expected a duration from 1s to 365d\n"
        "weir.yaml:2:199: queues.i.run is empty; expected a list of a command and its arguments, "
        "such as [./pricer, \"{in}\"]\n");
}

TEST(a_queue_leads_to_a_path_that_takes_post)
{
    expect_errors("listen: 127.0.0.1:1\n"
                  "upstreams: { u: { url: http://u } }\n"
                  "routes: [ { match: /x, methods: [GET], upstream: u } ]\n"
                  "queues: { a: { route: /x } }\n",
                  "weir.yaml:4:23: queues.a.route is \"/x\"; expected a path that a route matches, "
                  "with POST among its methods, by which jobs are sent\n");
}

TEST(a_queue_leads_to_a_path_that_means_nothing_but_itself)
{
    static const char *const bad[] = {"/x?a=b", "/x#a", "/x%61", "/a b",    "/../x",
                                      "/x/.",   "/./x", "x",     "/x\\\\y", "/\u00e9",
                                      "/x|y",   "//x",  "/x//",  "/x;y",    "/;"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char text[256];
        snprintf(text, sizeof text,
                 LISTEN "routes: [{match: /, upstream: u}]\nqueues: {q: {route: \"%s\"}}\n",
                 bad[i]);
        const struct weir_config_errors *errors = load_bad(text);
        assert_int_equal(errors->count, 1);
        assert_non_null(strstr(errors->list[0].text,
                               "; expected a path that a route matches, without a query, "
                               "escapes, parameters (;), empty segments (//) or segments that "
                               "begin with a dot"));
    }
    unload(load(LISTEN "routes: [{match: /, upstream: u}]\n"
                       "queues: {q: {route: \"/a.b/~c-d_e/f:g@h!$&'()*+,=/\"}}\n"));
}

TEST(what_a_queue_bounds_is_checked)
{
    expect_errors(
        API "queues: { q: { per_key: 0, dead: 0, body: 1, grace: 2d, limits: { memory: 1KiB, "
            "processes: 0, cpu: 999ms, output: 0B, disk: 1 }, tenants: { default: { limit: 0 }, t: "
            "{ weight: 1001, rate: { rate: { start: 1/s } } } } }, r: { limits: 3, tenants: 4 } "
            "}\n",
        "weir.yaml:2:25: queues.q.per_key is \"0\"; expected a whole number from 1 to 10000\n"
        "weir.yaml:2:34: queues.q.dead is \"0\"; expected a whole number from 1 to 10000000\n"
        "weir.yaml:2:43: queues.q.body is \"1\"; expected a size such as 512B, 64KiB, 1MB or "
        "2GiB\n"
        "weir.yaml:2:53: queues.q.grace is \"2d\"; expected a duration from 0s to 1d\n"
        "weir.yaml:2:75: queues.q.limits.memory is \"1KiB\"; expected a size from 1MiB to "
        "1024TiB\n"
        "weir.yaml:2:92: queues.q.limits.processes is \"0\"; expected a whole number from 1 to "
        "1000000\n"
        "weir.yaml:2:100: queues.q.limits.cpu is \"999ms\"; expected a duration from 1s to 365d\n"
        "weir.yaml:2:115: queues.q.limits.output is \"0B\"; expected a size from 1B to 1024TiB\n"
        "weir.yaml:2:119: queues.q.limits.disk is no field; expected memory, processes, cpu "
        "or output\n"
        "weir.yaml:2:159: queues.q.tenants.default.limit is \"0\"; expected a whole number from"
        " 1 to 10000000\n"
        "weir.yaml:2:177: queues.q.tenants.t.weight is \"1001\"; expected a whole number from 1"
        " to 1000\n"
        "weir.yaml:2:189: queues.q.tenants.t.rate cannot be adaptive; expected a rate such as"
        " 600/m, or {rate, burst}\n"
        "weir.yaml:2:234: queues.r.limits is \"3\"; expected a mapping with the fields memory, "
        "processes, cpu or output\n"
        "weir.yaml:2:246: queues.r.tenants is \"4\"; expected a mapping of tenants to {limit, "
        "rate, weight}\n");
}

TEST(variables_of_commands_are_checked_and_never_shown)
{
    USE_ENVIRONMENT("SECRET", "very-secret-value");
    expect_errors(
        API "queues: { q: { environment: { 1A: secret, A-B: '${SECRET}', WEIR_ID: x, C: "
            "[secret], D: , E: 'secret${NONE}', '': secret } }, r: { environment: secret "
            "} }\n",
        "weir.yaml:2:35: queues.q.environment.1A is no name of a variable; expected 1 to 64 "
        "letters, digits and _, no digit first\n"
        "weir.yaml:2:48: queues.q.environment.A-B is no name of a variable; expected 1 to 64 "
        "letters, digits and _, no digit first\n"
        "weir.yaml:2:70: queues.q.environment.WEIR_ID is a name that Weir fills in; expected "
        "one without WEIR_\n"
        "weir.yaml:2:76: queues.q.environment.C is a list; expected the value of a variable; "
        "\"\" is an empty one\n"
        "weir.yaml:2:89: queues.q.environment.D is empty; expected the value of a variable; "
        "\"\" is an empty one\n"
        "weir.yaml:2:94: queues.q.environment.E needs ${NONE}, which is not set; expected it "
        "in the environment of weir\n"
        "weir.yaml:2:115: queues.q.environment.\"\" is no name of a variable; expected 1 to 64 "
        "letters, digits and _, no digit first\n"
        "weir.yaml:2:145: queues.r.environment is not right (and not shown); expected a "
        "mapping of variables to their values\n");
}

TEST(a_token_needs_scopes)
{
    expect_errors(API "api_tokens: { a: { file: /f } }\n",
                  "weir.yaml:2:18: api_tokens.a has no scopes; expected one\n");
}

TEST(tokens_are_checked_and_never_shown)
{
    USE_ENVIRONMENT("SHORT", "secret", "SECRET", "very-secret-value", "LINES",
                    "secret\nsecret-secret-secret");
    expect_errors(
        API "api_tokens: { a: { token: literal-secret-text, scopes: [read] }, b: { scopes: "
            "[secret, raed] }, c: { token: '${SHORT}', file: x, scopes: read }, d: { token: "
            "'${SECRET}', scopes: [] }, e: { token: '${LINES}', scopes: [read] }, f: { token: "
            "[secret], scopes: { secret: x } } }\n",
        "weir.yaml:2:27: api_tokens.a.token is written out; expected a variable such as "
        "${WEIR_TOKEN}, or file: with the path of a file, so that this file holds no secret\n"
        "weir.yaml:2:69: api_tokens.b has neither token nor file; expected one of them\n"
        "weir.yaml:2:80: api_tokens.b.scopes[0] is not right (and not shown); expected read, "
        "submit, work or admin\n"
        "weir.yaml:2:88: api_tokens.b.scopes[1] is not right (and not shown); expected read, "
        "submit, work or admin; did you mean read?\n"
        "weir.yaml:2:100: api_tokens.c has both token and file; expected one of them\n"
        "weir.yaml:2:109: api_tokens.c.token is too short, or has a control character or a space "
        "at its end; expected at least 16 printable characters\n"
        "weir.yaml:2:138: api_tokens.c.scopes is no list of scopes; expected some of read, submit, "
        "work and admin, such as [read, submit]\n"
        "weir.yaml:2:179: api_tokens.d.scopes is no list of scopes; expected some of read, submit, "
        "work and admin, such as [read, submit]\n"
        "weir.yaml:2:197: api_tokens.e.token is too short, or has a control character or a space "
        "at its end; expected at least 16 printable characters\n"
        "weir.yaml:2:239: api_tokens.f.token is a list; expected a variable such as ${WEIR_TOKEN}\n"
        "weir.yaml:2:257: api_tokens.f.scopes is no list of scopes; expected some of read, submit, "
        "work and admin, such as [read, submit]\n");
    expect_errors(API "api_tokens: [secret]\n", "weir.yaml:2:13: api_tokens is a list; expected a "
                                                "mapping of names to {token, scopes, tenant}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_route_needs_a_match_and_an_upstream),
        cmocka_unit_test(names_of_gates_and_upstreams_must_exist),
        cmocka_unit_test(a_match_is_a_path),
        cmocka_unit_test(a_match_with_a_parameter_needs_an_address_that_keeps_paths),
        cmocka_unit_test(a_tie_between_routes_names_both),
        cmocka_unit_test(routes_of_the_same_paths_that_share_a_method_are_a_tie),
        cmocka_unit_test(methods_are_names_each_of_them_once),
        cmocka_unit_test(routes_that_differ_by_their_models_are_no_tie),
        cmocka_unit_test(the_models_of_routes_are_checked),
        cmocka_unit_test(what_is_stripped_starts_the_match),
        cmocka_unit_test(a_key_is_made_of_what_is_known),
        cmocka_unit_test(the_other_fields_of_a_route_are_checked),
        cmocka_unit_test(what_a_body_names_for_a_key_is_checked),
        cmocka_unit_test(json_rpc_and_sessions_stand_only_where_they_mean_something),
        cmocka_unit_test(a_permit_of_a_flow_needs_a_flow_and_a_gate),
        cmocka_unit_test(what_is_said_of_an_llm_needs_one),
        cmocka_unit_test(the_fields_of_an_llm_are_checked),
        cmocka_unit_test(an_api_of_its_own_says_where_things_stand),
        cmocka_unit_test(an_llm_is_neither_reached_by_websockets_nor_counted_by_flows),
        cmocka_unit_test(
            a_route_with_agents_has_one_upstream_and_public_urls_and_counts_in_one_way),
        cmocka_unit_test(a_public_url_is_that_of_a_server_and_perhaps_a_path),
        cmocka_unit_test(queues_are_checked),
        cmocka_unit_test(a_queue_leads_to_a_path_that_takes_post),
        cmocka_unit_test(a_queue_leads_to_a_path_that_means_nothing_but_itself),
        cmocka_unit_test(what_a_queue_bounds_is_checked),
        cmocka_unit_test(variables_of_commands_are_checked_and_never_shown),
        cmocka_unit_test(a_token_needs_scopes),
        cmocka_unit_test(tokens_are_checked_and_never_shown),
    };
    return cmocka_run_group_tests_name("config_errors_routes", tests, NULL, NULL);
}
