/* Every kind of mistake with its message, word by word. */
#include "unit/config_helpers.h"

#include "config/suggest.h"

/* ---- fields ---- */

TEST(an_unknown_field_is_told_with_those_that_are_known)
{
    expect_errors(
        API "lissten: 1\n",
        "weir.yaml:2:1: lissten is no field; expected listen, api, protocol, data, spool_max, "
        "threads, grace, "
        "events, log, access_log, metrics, dns, trusted, upstreams, gates, routes, queues, prices, "
        "unpriced, tenants or "
        "api_tokens; did you "
        "mean "
        "listen?\n");
    expect_errors(
        API "gates:\n"
            "  f: { limitt: 3, line: { tmeout: 5s } }\n",
        "weir.yaml:3:8: gates.f.limitt is no field; expected limit, rate, tokens, line, lease, "
        "early_reject, weights, choice, breaker, controller, aimd, settle, estimate, preset, "
        "depth, max_keys, "
        "forget, events, tenants or keys; did you mean limit?\n"
        "weir.yaml:3:27: gates.f.line.tmeout is no field; expected timeout, max, status, cost, "
        "by_priority or by_tenant; did you mean timeout?\n");
    expect_errors(
        API "gates: { f: { zzzzz: 3 } }\n",
        "weir.yaml:2:15: gates.f.zzzzz is no field; expected limit, rate, tokens, line, "
        "lease, early_reject, weights, choice, breaker, controller, aimd, settle, estimate, "
        "preset, depth, max_keys, forget, events, tenants or keys\n");
    expect_errors(
        API "Data: x\n",
        "weir.yaml:2:1: Data is no field; expected listen, api, protocol, data, spool_max, "
        "threads, "
        "grace, events, log, access_log, metrics, dns, trusted, upstreams, gates, routes, queues, "
        "prices, unpriced, "
        "tenants or api_tokens; did "
        "you mean data?\n");
}

TEST(a_file_without_an_address_is_refused)
{
    expect_errors(
        "data: x\n",
        "weir.yaml:1:1: the file has neither listen nor api; expected at least one of them\n");
    expect_errors(
        "routes: []\n",
        "weir.yaml:1:1: the file has neither listen nor api; expected at least one of them\n");
}

TEST(a_file_is_a_mapping)
{
    expect_errors(
        "hello\n",
        "weir.yaml:1:1: the file is \"hello\"; expected a mapping with the fields listen, api, "
        "protocol, data, spool_max, threads, grace, events, log, access_log, metrics, dns, "
        "trusted, "
        "upstreams, gates, "
        "routes, queues, prices, unpriced, tenants or "
        "api_tokens\n");
    expect_errors(
        "- a\n",
        "weir.yaml:1:1: the file is a list; expected a mapping with the fields listen, api, "
        "protocol, data, spool_max, threads, grace, events, log, access_log, metrics, dns, "
        "trusted, "
        "upstreams, gates, "
        "routes, queues, prices, unpriced, tenants or "
        "api_tokens\n");
}

TEST(a_section_is_a_mapping)
{
    expect_errors(API "gates: [a]\n"
                      "upstreams: x\n"
                      "queues: 3\n",
                  "weir.yaml:2:8: gates is a list; expected a mapping of names to gates\n"
                  "weir.yaml:3:12: upstreams is \"x\"; expected a mapping of names to upstreams\n"
                  "weir.yaml:4:9: queues is \"3\"; expected a mapping of names to queues\n");
    expect_errors(
        API "gates: { a: 5, b: { line: 5s } }\n",
        "weir.yaml:2:13: gates.a is \"5\"; expected a mapping with the fields limit, rate, tokens, "
        "line, lease, early_reject, weights, choice, breaker, controller, aimd, settle, estimate, "
        "preset, depth, max_keys, forget, events, tenants or keys\n"
        "weir.yaml:2:27: gates.b.line is \"5s\"; expected a mapping with the fields timeout, max, "
        "status, cost, by_priority or by_tenant\n");
    expect_errors(API "routes: { a: b }\n",
                  "weir.yaml:2:9: routes is a mapping; expected a list of routes, each of which "
                  "starts with - match: /path\n");
}

TEST(numbers_are_strict_and_bounded)
{
    expect_errors(API "threads: 0\n",
                  "weir.yaml:2:10: threads is \"0\"; expected a whole number from 1 to 64\n");
    expect_errors(API "threads: 65\n",
                  "weir.yaml:2:10: threads is \"65\"; expected a whole number from 1 to 64\n");
    expect_errors(API "threads: 1.5\n",
                  "weir.yaml:2:10: threads is \"1.5\"; expected a whole number from 1 to 64\n");
    expect_errors(API "threads: 010\n",
                  "weir.yaml:2:10: threads is \"010\"; expected a whole number from 1 to 64\n");
    expect_errors(API "threads: 0x2\n",
                  "weir.yaml:2:10: threads is \"0x2\"; expected a whole number from 1 to 64\n");
    expect_errors(API "threads: '2'\n", "weir.yaml:2:10: threads is \"2\"; expected a whole number "
                                        "from 1 to 64, without quotes\n");
    expect_errors(API "threads: []\n",
                  "weir.yaml:2:10: threads is a list; expected a whole number from 1 to 64\n");
    expect_errors(API "threads:\n",
                  "weir.yaml:2:9: threads is empty; expected a whole number from 1 to 64\n");
    expect_errors(API "threads: -1\n",
                  "weir.yaml:2:10: threads is \"-1\"; expected a whole number from 1 to 64\n");
    expect_errors(API "threads: 1_0\n",
                  "weir.yaml:2:10: threads is \"1_0\"; expected a whole number from 1 to 64\n");
}

TEST(durations_need_their_unit)
{
    expect_errors(API "grace: 30\n", "weir.yaml:2:8: grace is \"30\"; expected a duration such as "
                                     "250ms, 5s, 1m30s, 2h or 7d; did you mean 30s?\n");
    expect_errors(API "grace: 1h1h\n", "weir.yaml:2:8: grace is \"1h1h\"; expected a duration such "
                                       "as 250ms, 5s, 1m30s, 2h or 7d\n");
    expect_errors(API "grace: 2d\n",
                  "weir.yaml:2:8: grace is \"2d\"; expected a duration from 0s to 1d\n");
    expect_errors(API "grace: {}\n", "weir.yaml:2:8: grace is a mapping; expected a duration such "
                                     "as 250ms, 5s, 1m30s, 2h or 7d\n");
    expect_errors(API "gates: { a: { line: { timeout: 0s }, lease: 366d } }\n",
                  "weir.yaml:2:32: gates.a.line.timeout is \"0s\"; expected a duration from 1ms to "
                  "365d, or none\n"
                  "weir.yaml:2:45: gates.a.lease is \"366d\"; expected a duration from 1ms to "
                  "365d, or none\n");
    expect_errors(API "gates: { a: { lease: 5 } }\n",
                  "weir.yaml:2:22: gates.a.lease is \"5\"; expected a duration such as 250ms, 5s, "
                  "1m30s, 2h or 7d, or none; did you mean 5s?\n");
}

TEST(booleans_are_true_or_false)
{
    expect_errors(
        API "gates: { a: { early_reject: yes }, b: { early_reject: 'true' }, c: { early_reject: "
            "True } }\n",
        "weir.yaml:2:29: gates.a.early_reject is \"yes\"; expected true or false\n"
        "weir.yaml:2:55: gates.b.early_reject is \"true\"; expected true or false, without quotes\n"
        "weir.yaml:2:84: gates.c.early_reject is \"True\"; expected true or false\n");
}

TEST(words_are_one_of_a_few)
{
    expect_errors(API "gates: { a: { choice: mostroom, events: a2b }, b: { choice: random } }\n",
                  "weir.yaml:2:23: gates.a.choice is \"mostroom\"; expected in_order or most_room; "
                  "did you mean most_room?\n"
                  "weir.yaml:2:41: gates.a.events is \"a2b\"; expected a2a; did you mean a2a?\n"
                  "weir.yaml:2:61: gates.b.choice is \"random\"; expected in_order or most_room\n");
}

TEST(texts_are_not_empty)
{
    expect_errors(API "data: ''\n", "weir.yaml:2:7: data is \"\"; expected some text\n");
    expect_errors(API "data:\n", "weir.yaml:2:6: data is empty; expected some text\n");
    expect_errors(API "data: [x]\n", "weir.yaml:2:7: data is a list; expected some text\n");
}

TEST(names_have_letters_digits_and_a_few_signs)
{
    expect_errors(API "gates: { 'my gate': {}, '': {}, -x: {} }\n",
                  "weir.yaml:2:10: gates.my gate is no name for a gate; expected 1 to 64 letters, "
                  "digits, -, _ and ., starting with a letter or digit\n"
                  "weir.yaml:2:25: gates.\"\" is no name for a gate; expected 1 to 64 letters, "
                  "digits, -, _ and ., starting with a letter or digit\n"
                  "weir.yaml:2:33: gates.-x is no name for a gate; expected 1 to 64 letters, "
                  "digits, -, _ and ., starting with a letter or digit\n");
    expect_errors(API "upstreams: { a/b: { url: http://h } }\n"
                      "queues: { a b: }\n",
                  "weir.yaml:2:14: upstreams.a/b is no name for an upstream; expected 1 to 64 "
                  "letters, digits, -, _ and ., starting with a letter or digit\n"
                  "weir.yaml:3:11: queues.a b is no name for a queue; expected 1 to 64 letters, "
                  "digits, -, _ and ., starting with a letter or digit\n");
}

/* ---- server ---- */

TEST(addresses_are_told_how_they_look)
{
    expect_errors("listen: 8080\n",
                  "weir.yaml:1:9: listen is \"8080\"; expected an address such as 127.0.0.1:8080, "
                  "\"[::1]:8080\", localhost:8080 or unix:/run/weir.sock\n");
    expect_errors("listen: []\n", "weir.yaml:1:9: listen has 0 addresses; expected 1 to 16\n");
    expect_errors("listen:\n",
                  "weir.yaml:1:8: listen is empty; expected an address such as 127.0.0.1:8080, "
                  "\"[::1]:8080\", localhost:8080 or unix:/run/weir.sock\n");
    expect_errors(
        "listen: ':8080'\n"
        "api: [localhost, { half_close: maybe }, { address: 'unix:x', max_connections: 0 }]\n",
        "weir.yaml:1:9: listen is \":8080\"; expected an address such as 127.0.0.1:8080, "
        "\"[::1]:8080\", localhost:8080 or unix:/run/weir.sock\n"
        "weir.yaml:2:7: api[0] is \"localhost\"; expected an address such as 127.0.0.1:8080, "
        "\"[::1]:8080\", localhost:8080 or unix:/run/weir.sock\n"
        "weir.yaml:2:18: api[1] has no address; expected one\n"
        "weir.yaml:2:32: api[1].half_close is \"maybe\"; expected close or keep\n"
        "weir.yaml:2:52: api[2].address is \"unix:x\"; expected an address such as 127.0.0.1:8080, "
        "\"[::1]:8080\", localhost:8080 or unix:/run/weir.sock\n"
        "weir.yaml:2:79: api[2].max_connections is \"0\"; expected a whole number from 1 to "
        "1000000\n");
}

TEST(what_becomes_of_paths_is_said_of_addresses_with_routes_only)
{
    expect_errors(
        "listen: { address: 'unix:/a', paths: merge }\n",
        "weir.yaml:1:38: listen.paths is \"merge\"; expected normalize, refuse or keep\n");
    expect_errors(
        "api: [127.0.0.1:1, { address: 'unix:/a', paths: normalize }]\n"
        "protocol: { address: 'unix:/b', paths: keep }\n",
        "weir.yaml:1:49: api[1].paths has no meaning here; expected paths on addresses of listen "
        "only\n"
        "weir.yaml:2:40: protocol.paths has no meaning here; expected paths on addresses of listen "
        "only\n");
}

TEST(an_api_that_others_can_reach_needs_tokens)
{
    expect_errors("api: 0.0.0.0:7070\n",
                  "weir.yaml:1:6: api can be reached from other machines; expected api_tokens "
                  "then, or an address of this machine such as 127.0.0.1:7070\n");
    expect_errors("api: [127.0.0.1:1, { address: 10.1.2.3:80 }, unix:/a]\n"
                  "api_tokens: {}\n",
                  "weir.yaml:1:20: api[1] can be reached from other machines; expected api_tokens "
                  "then, or an address of this machine such as 127.0.0.1:7070\n");
}

TEST(a_protocol_that_others_can_reach_needs_tokens)
{
    expect_errors(API "protocol: [127.0.0.1:7071, 0.0.0.0:7071]\n",
                  "weir.yaml:2:28: protocol[1] can be reached from other machines; expected "
                  "api_tokens then, or an address of this machine such as 127.0.0.1:7071\n");
    expect_errors("api: 10.0.0.1:1\nprotocol: 10.0.0.1:2\n",
                  "weir.yaml:1:6: api can be reached from other machines; expected api_tokens "
                  "then, or an address of this machine such as 127.0.0.1:7070\n"
                  "weir.yaml:2:11: protocol can be reached from other machines; expected "
                  "api_tokens then, or an address of this machine such as 127.0.0.1:7071\n");
    expect_errors(
        "protocol: 127.0.0.1:7071\n",
        "weir.yaml:1:1: the file has neither listen nor api; expected at least one of them\n");
}

TEST(a_rate_of_bodies_is_a_size_within_its_bounds)
{
    expect_errors("api: { address: 127.0.0.1:0, body_rate: 0B }\n",
                  "weir.yaml:1:41: api.body_rate is \"0B\"; expected a size from 1B to 1GiB, or "
                  "none\n");
    expect_errors("api: { address: 127.0.0.1:0, body_rate: 2GiB }\n",
                  "weir.yaml:1:41: api.body_rate is \"2GiB\"; expected a size from 1B to 1GiB, or "
                  "none\n");
    expect_errors(
        "api: { address: 127.0.0.1:0, timeouts: { body: 2d } }\n",
        "weir.yaml:1:48: api.timeouts.body is \"2d\"; expected a duration from 1ms to 1d, "
        "or none\n");
}

TEST(an_event_file_is_told_how_it_looks)
{
    expect_errors(API "events: { rotate: 1MiB, keep: 1 }\n",
                  "weir.yaml:2:19: events.rotate is set without events.file; expected both\n"
                  "weir.yaml:2:31: events.keep is set without events.file; expected both\n");
    expect_errors(
        API "events: { readers: 0 }\n",
        "weir.yaml:2:20: events.readers is \"0\"; expected a whole number from 1 to 10000\n");
    expect_errors(
        API "events: { file: e, rotate: 1KiB, keep: 101 }\n",
        "weir.yaml:2:28: events.rotate is \"1KiB\"; expected a size from 64KiB to 1TiB\n"
        "weir.yaml:2:40: events.keep is \"101\"; expected a whole number from 0 to 100\n");
    expect_errors(API "events: { file: e, rotate: 64 }\n",
                  "weir.yaml:2:28: events.rotate is \"64\"; expected a size such as 512B, 64KiB, "
                  "1MB or 2GiB\n");
    expect_errors(API "events: { file: e, rotate: none }\n",
                  "weir.yaml:2:28: events.rotate is \"none\"; expected a size such as 512B, 64KiB, "
                  "1MB or 2GiB\n");
}

TEST(networks_are_told_how_they_look)
{
    expect_errors(API "trusted: [10.0.0.1/8, 300.0.0.1, unix, '::1/129']\n",
                  "weir.yaml:2:11: trusted[0] is \"10.0.0.1/8\"; expected a network without bits "
                  "beyond its prefix; did you mean 10.0.0.0/8?\n"
                  "weir.yaml:2:23: trusted[1] is \"300.0.0.1\"; expected an address or network "
                  "such as 10.0.0.0/8 or ::1, or unix\n"
                  "weir.yaml:2:40: trusted[3] is \"::1/129\"; expected an address or network such "
                  "as 10.0.0.0/8 or ::1, or unix\n");
    expect_errors(API "trusted: 10.0.0.0/8\n",
                  "weir.yaml:2:10: trusted is \"10.0.0.0/8\"; expected a list of networks, such as "
                  "[10.0.0.0/8, unix]; [] trusts nobody\n");
    expect_errors(API "trusted: [[]]\n", "weir.yaml:2:11: trusted[0] is a list; expected an "
                                         "address or network such as 10.0.0.0/8 or ::1, or unix\n");
}

TEST(routes_without_listen_lead_nowhere)
{
    expect_errors(
        API "upstreams: { u: { url: http://h } }\n"
            "routes: [{ match: /, upstream: u }]\n",
        "weir.yaml:3:9: routes lead nowhere without listen; expected an address to listen on\n");
}

/* ---- upstreams ---- */

TEST(urls_are_told_how_they_look)
{
    expect_errors(API "upstreams: { a: {}, b: { url: [] }, c: { url: ftp://x }, d: { url: "
                      "[http://h, 5] }, e: { url: { } } }\n",
                  "weir.yaml:2:17: upstreams.a has no url; expected one\n"
                  "weir.yaml:2:31: upstreams.b.url has 0 urls; expected 1 to 64\n"
                  "weir.yaml:2:47: upstreams.c.url is \"ftp://x\"; expected http://host:port, "
                  "https://host:port or unix:/path\n"
                  "weir.yaml:2:79: upstreams.d.url[1] is \"5\"; expected http://host:port, "
                  "https://host:port or unix:/path\n"
                  "weir.yaml:2:95: upstreams.e.url is a mapping; expected http://host:port, "
                  "https://host:port or unix:/path\n");
}

TEST(a_url_with_a_password_or_a_query_is_not_shown)
{
    expect_errors(
        API "upstreams: { a: { url: 'http://u:secret@h' }, b: { url: http://h/v1?key=secret } }\n",
        "weir.yaml:2:24: upstreams.a.url names a user; expected http://host:port, "
        "https://host:port or unix:/path; put credentials into headers\n"
        "weir.yaml:2:57: upstreams.b.url goes on after its host and port; expected "
        "http://host:port, https://host:port or unix:/path; put the path into prefix, such as "
        "prefix: /v1, or leave it to the requests\n");
}

TEST(settings_of_tls_are_told_how_they_look)
{
    expect_errors(
        API "upstreams: { a: { url: https://h, tls: { ca: [], server_name: \"a:1\", "
            "verify: 0, cert: x } }, b: { url: [http://h, unix:/x], tls: {} } }\n",
        "weir.yaml:2:46: upstreams.a.tls.ca is a list; expected the path of a file of "
        "certificates\n"
        "weir.yaml:2:63: upstreams.a.tls.server_name is \"a:1\"; expected a host name such as "
        "api.example.com, or an IP address\n"
        "weir.yaml:2:78: upstreams.a.tls.verify is \"0\"; expected true or false\n"
        "weir.yaml:2:81: upstreams.a.tls.cert is no field; expected ca, server_name or verify\n"
        "weir.yaml:2:130: upstreams.b.tls has no use without TLS; expected a url that begins with "
        "https://\n");
}

TEST(a_dns_server_is_an_ip_address)
{
    expect_errors(API "dns: { servers: [dns.example, 192.0.2.1:x, \"[::1]:0\", unix:/x, 1.2.3] }\n",
                  "weir.yaml:2:18: dns.servers[0] is \"dns.example\"; expected an IP address such "
                  "as 192.0.2.53, 127.0.0.1:5353 or \"[::1]:5353\"\n"
                  "weir.yaml:2:31: dns.servers[1] is \"192.0.2.1:x\"; expected an IP address such "
                  "as 192.0.2.53, 127.0.0.1:5353 or \"[::1]:5353\"\n"
                  "weir.yaml:2:44: dns.servers[2] is \"[::1]:0\"; expected an IP address such as "
                  "192.0.2.53, 127.0.0.1:5353 or \"[::1]:5353\"\n"
                  "weir.yaml:2:55: dns.servers[3] is \"unix:/x\"; expected an IP address such as "
                  "192.0.2.53, 127.0.0.1:5353 or \"[::1]:5353\"\n"
                  "weir.yaml:2:64: dns.servers[4] is \"1.2.3\"; expected an IP address such as "
                  "192.0.2.53, 127.0.0.1:5353 or \"[::1]:5353\"\n");
    expect_errors(API "dns: { servers: [] }\n",
                  "weir.yaml:2:17: dns.servers has 0 servers; expected 1 to 8\n");
    expect_errors(API
                  "dns: { servers: [1.1.1.1, 1.1.1.1, 1.1.1.1, 1.1.1.1, 1.1.1.1, 1.1.1.1, 1.1.1.1, "
                  "1.1.1.1, 1.1.1.1] }\n",
                  "weir.yaml:2:17: dns.servers has 9 servers; expected 1 to 8\n");
    expect_errors(API "dns: {}\n", "weir.yaml:2:6: dns has no servers; expected one\n");
}

TEST(headers_have_names_of_their_own)
{
    expect_errors(API "upstreams: { a: { url: http://h, headers: { 'bad name': x, connection: "
                      "close, X-A: 1, x-a: 2 } } }\n",
                  "weir.yaml:2:57: upstreams.a.headers.bad name is no header; expected a name such "
                  "as X-Api-Key\n"
                  "weir.yaml:2:72: upstreams.a.headers.connection belongs to the connection; "
                  "expected another header; remove it\n"
                  "weir.yaml:2:92: upstreams.a.headers.x-a stands here again, after line 2; "
                  "expected each header once; upper and lower case are the same\n");
    expect_errors(API "upstreams: { a: { url: http://h, headers: [secret] } }\n",
                  "weir.yaml:2:43: upstreams.a.headers is a list; expected a mapping of headers to "
                  "their values\n");
}

TEST(the_values_of_headers_are_never_shown)
{
    USE_ENVIRONMENT("SECRET", "very-secret-value", "LINES", "secret\nsecret-secret-secret");
    expect_errors(
        API "upstreams: { a: { url: http://h, headers: { A: [secret], B: \"${SECRET}\\u00e9 \", C: "
            "'secret${', D: { secret: x }, E: '${LINES}', F: } } }\n",
        "weir.yaml:2:48: upstreams.a.headers.A is a list; expected the value of a header\n"
        "weir.yaml:2:61: upstreams.a.headers.B has a control character, or a space at its end, "
        "once its variables are filled in; expected the value of a header\n"
        "weir.yaml:2:84: upstreams.a.headers.C has a ${...} without a name; expected ${NAME} or "
        "${NAME:-default}, with a name of letters, digits and _; write $${ for a ${ that is meant "
        "as it stands\n"
        "weir.yaml:2:99: upstreams.a.headers.D has no file; expected a value, or {file: PATH} "
        "whose "
        "first line is the value\n"
        "weir.yaml:2:101: upstreams.a.headers.D.secret is no field; expected file or prefix\n"
        "weir.yaml:2:117: upstreams.a.headers.E has a control character, or a space at its end, "
        "once its variables are filled in; expected the value of a header\n"
        "weir.yaml:2:132: upstreams.a.headers.F is empty; expected the value of a header\n");
}

TEST(variables_must_be_there)
{
    USE_ENVIRONMENT("EMPTY", "");
    expect_errors(
        API "upstreams: { a: { url: http://h, headers: { A: '${MISSING}', B: '${EMPTY}', C: '${', "
            "D: '${}', E: '${1}', F: '${A-B}', G: 'x${LONG' } } }\n",
        "weir.yaml:2:48: upstreams.a.headers.A needs ${MISSING}, which is not set; expected it in "
        "the environment of weir\n"
        "weir.yaml:2:65: upstreams.a.headers.B needs ${EMPTY}, which is empty; expected it in the "
        "environment of weir\n"
        "weir.yaml:2:80: upstreams.a.headers.C has a ${...} without a name; expected ${NAME} or "
        "${NAME:-default}, with a name of letters, digits and _; write $${ for a ${ that is meant "
        "as it stands\n"
        "weir.yaml:2:89: upstreams.a.headers.D has a ${...} without a name; expected ${NAME} or "
        "${NAME:-default}, with a name of letters, digits and _; write $${ for a ${ that is meant "
        "as it stands\n"
        "weir.yaml:2:99: upstreams.a.headers.E has a ${...} without a name; expected ${NAME} or "
        "${NAME:-default}, with a name of letters, digits and _; write $${ for a ${ that is meant "
        "as it stands\n"
        "weir.yaml:2:110: upstreams.a.headers.F has a ${...} without a name; expected ${NAME} or "
        "${NAME:-default}, with a name of letters, digits and _; write $${ for a ${ that is meant "
        "as it stands\n"
        "weir.yaml:2:123: upstreams.a.headers.G has a ${...} without a name; expected ${NAME} or "
        "${NAME:-default}, with a name of letters, digits and _; write $${ for a ${ that is meant "
        "as it stands\n");
}

TEST(models_have_names_on_both_sides)
{
    expect_errors(
        API "upstreams:\n"
            "  a: { url: http://h, models: [x] }\n"
            "  b: { url: http://h, models: { '': x, y: '', z: [], w: , v: { a: b } } }\n"
            "  c: { url: http://h, charge: maxkept }\n"
            "  d: { url: http://h, charge: 5 }\n"
            "  e: { url: http://h, charge: [] }\n",
        "weir.yaml:3:31: upstreams.a.models is a list; expected a mapping of models to what they "
        "are called there\n"
        "weir.yaml:4:37: upstreams.b.models.\"\" has a name of 0 bytes; expected 1 to 255\n"
        "weir.yaml:4:43: upstreams.b.models.y is \"\"; expected what the model is called there\n"
        "weir.yaml:4:50: upstreams.b.models.z is a list; expected what the model is called there\n"
        "weir.yaml:4:57: upstreams.b.models.w is empty; expected what the model is called there\n"
        "weir.yaml:4:62: upstreams.b.models.v is a mapping; expected what the model is called "
        "there\n"
        "weir.yaml:5:31: upstreams.c.charge is \"maxkept\"; expected estimate, max, max_kept or "
        "end; did you mean max_kept?\n"
        "weir.yaml:6:31: upstreams.d.charge is \"5\"; expected estimate, max, max_kept or end\n"
        "weir.yaml:7:31: upstreams.e.charge is a list; expected estimate, max, max_kept or end\n");
}

TEST(a_pause_is_not_above_the_longest)
{
    expect_errors(API "upstreams: { a: { url: http://h, health: { pause: 1m, pause_max: 10s } } }\n"
                      "gates: { a: { breaker: { failures: 1, pause: 1m, pause_max: 10s }, keys: { "
                      "k: { breaker: { pause_max: 1ms } } } } }\n",
                  "weir.yaml:2:42: upstreams.a.health has a pause above its pause_max; expected "
                  "pause <= pause_max\n"
                  "weir.yaml:3:24: gates.a.breaker has a pause above its pause_max; expected pause "
                  "<= pause_max\n"
                  "weir.yaml:3:90: gates.a.keys.k.breaker has a pause above its pause_max; "
                  "expected pause <= pause_max\n");
}

/* ---- gates ---- */

TEST(limits_are_numbers_none_or_adaptive)
{
    expect_errors(API "gates: { a: { limit: 0 }, b: { limit: 10000001 }, c: { limit: '5' }, d: { "
                      "limit: [] }, e: { limit: }, f: { limit: nope } }\n",
                  "weir.yaml:2:22: gates.a.limit is \"0\"; expected a whole number from 1 to "
                  "10000000, none, or {start, min, max}\n"
                  "weir.yaml:2:39: gates.b.limit is \"10000001\"; expected a whole number from 1 "
                  "to 10000000, none, or {start, min, max}\n"
                  "weir.yaml:2:63: gates.c.limit is \"5\"; expected a whole number from 1 to "
                  "10000000, none, or {start, min, max}, without quotes\n"
                  "weir.yaml:2:82: gates.d.limit is a list; expected a whole number from 1 to "
                  "10000000, none, or {start, min, max}\n"
                  "weir.yaml:2:100: gates.e.limit is empty; expected a whole number from 1 to "
                  "10000000, none, or {start, min, max}\n"
                  "weir.yaml:2:115: gates.f.limit is \"nope\"; expected a whole number from 1 to "
                  "10000000, none, or {start, min, max}\n");
    expect_errors(
        API "gates: { a: { limit: { start: 10, max: 4 } }, b: { limit: { min: 5, max: 4 } }, c: { "
            "limit: { min: 0, step: 1 } } }\n",
        "weir.yaml:2:22: gates.a.limit has start 10, min 1 and max 4; expected min <= start <= "
        "max\n"
        "weir.yaml:2:59: gates.b.limit has start 5, min 5 and max 4; expected min <= start <= max\n"
        "weir.yaml:2:100: gates.c.limit.min is \"0\"; expected a whole number from 1 to 10000000\n"
        "weir.yaml:2:103: gates.c.limit.step is no field; expected start, min or max\n");
}

TEST(a_start_is_not_below_the_min_whatever_the_max)
{
    expect_errors(
        API "gates: { a: { limit: { start: 2, min: 5 } }, b: { limit: { start: 2, min: 5, "
            "max: 9 } }, c: { limit: { max: 0 } } }\n",
        "weir.yaml:2:22: gates.a.limit has start 2 and min 5; expected min <= start\n"
        "weir.yaml:2:58: gates.b.limit has start 2, min 5 and max 9; expected min <= start <= max\n"
        "weir.yaml:2:109: gates.c.limit.max is \"0\"; expected a whole number from 1 to "
        "10000000\n");
}

TEST(a_controller_needs_something_to_control)
{
    expect_errors(API "gates:\n"
                      "  a: { limit: 5, controller: learned }\n"
                      "  b: { limit: none, controller: aimd, tokens: 5/s }\n"
                      "  c: { limit: {}, keys: { k: { limit: 5, controller: aimd } } }\n"
                      "  d: { controller: lerned }\n"
                      "  e: { controller: none, limit: 5 }\n"
                      "  f: { controller: , limit: x }\n"
                      "  g: { controller: aimd, limit: x }\n",
                  "weir.yaml:3:30: gates.a.controller has nothing to control, because neither "
                  "limit nor tokens are adaptive; expected limit: {start, min, max} with it; "
                  "remove limit for the defaults\n"
                  "weir.yaml:4:33: gates.b.controller has nothing to control, because neither "
                  "limit nor tokens are adaptive; expected limit: {start, min, max} with it; "
                  "remove limit for the defaults\n"
                  "weir.yaml:5:54: gates.c.keys.k.controller has nothing to control, because "
                  "neither limit nor tokens are adaptive; expected limit: {start, min, max} with "
                  "it; remove limit for the defaults\n"
                  "weir.yaml:6:20: gates.d.controller is \"lerned\"; expected learned or aimd; did "
                  "you mean learned?\n"
                  "weir.yaml:7:20: gates.e.controller is \"none\"; expected learned or aimd\n"
                  "weir.yaml:8:20: gates.f.controller is empty; expected learned or aimd\n"
                  "weir.yaml:8:29: gates.f.limit is \"x\"; expected a whole number from 1 to "
                  "10000000, none, or {start, min, max}\n"
                  "weir.yaml:9:33: gates.g.limit is \"x\"; expected a whole number from 1 to "
                  "10000000, none, or {start, min, max}\n");
}

TEST(a_debt_needs_somebody_who_owes_it)
{
    expect_errors(
        API "gates:\n"
            "  a: { settle: debt }\n"
            "  b: { limit: {}, settle: debt }\n"
            "  c: { settle: debt, tokens: { rate: { start: 5/s } } }\n"
            "  d: { settle: debt, tokens: 5/s, keys: { k: { tokens: none, settle: debt "
            "}, l: { tokens: none } } }\n"
            "  e: { settle: allow_negative }\n"
            "  f: { estimate: none }\n",
        "weir.yaml:3:16: gates.a.settle is \"debt\"; expected tokens with a fixed rate, or "
        "controller: aimd, with it, because nothing else has debts\n"
        "weir.yaml:4:27: gates.b.settle is \"debt\"; expected tokens with a fixed rate, or "
        "controller: aimd, with it, because nothing else has debts\n"
        "weir.yaml:5:16: gates.c.settle is \"debt\"; expected tokens with a fixed rate, or "
        "controller: aimd, with it, because nothing else has debts\n"
        "weir.yaml:6:70: gates.d.keys.k.settle is \"debt\"; expected tokens with a fixed rate, or "
        "controller: aimd, with it, because nothing else has debts\n"
        "weir.yaml:7:16: gates.e.settle is \"allow_negative\"; expected negative or debt\n"
        "weir.yaml:8:18: gates.f.estimate is \"none\"; expected mean or ewma\n");
}

TEST(rates_are_told_how_they_look)
{
    expect_errors(API "gates: { a: { rate: 5 }, b: { rate: 5/x }, c: { tokens: { rate: [] } }, d: "
                      "{ tokens: { burst: 5 } }, e: { tokens: { rate: 5/s, burst: 0 } } }\n",
                  "weir.yaml:2:21: gates.a.rate is \"5\"; expected a rate such as 500/s, 600/m, "
                  "10000/h or 1000000/d, none, or {rate, burst}\n"
                  "weir.yaml:2:37: gates.b.rate is \"5/x\"; expected a rate such as 500/s, 600/m, "
                  "10000/h or 1000000/d, none, or {rate, burst}\n"
                  "weir.yaml:2:65: gates.c.tokens.rate is a list; expected a rate such as 500/s, "
                  "600/m, 10000/h or 1000000/d, or {start, min, max}\n"
                  "weir.yaml:2:86: gates.d.tokens has no rate; expected one\n"
                  "weir.yaml:2:135: gates.e.tokens.burst is \"0\"; expected a whole number from 1 "
                  "to 1099511627776\n");
    expect_errors(API "gates: { a: { tokens: { rate: { start: 5/s, min: 301/m } } }, b: { tokens: "
                      "{ rate: { min: 5/s } } }, c: { tokens: { rate: { start: 5/s, max: 1/s } } "
                      "}, d: { tokens: { rate: { start: x } } } }\n",
                  "weir.yaml:2:31: gates.a.tokens.rate has rates that are out of order; expected "
                  "min <= start <= max\n"
                  "weir.yaml:2:84: gates.b.tokens.rate has no start; expected one\n"
                  "weir.yaml:2:123: gates.c.tokens.rate has rates that are out of order; expected "
                  "min <= start <= max\n"
                  "weir.yaml:2:183: gates.d.tokens.rate.start is \"x\"; expected a rate such as "
                  "500/s, 600/m, 10000/h or 1000000/d\n");
}

TEST(only_limits_and_tokens_are_adaptive)
{
    expect_errors(API "gates: { a: { rate: { rate: { start: 5/s } } }, b: { keys: { k: { rate: { "
                      "rate: { start: 5/s } } } } } }\n",
                  "weir.yaml:2:21: gates.a.rate cannot be adaptive, as limit and tokens can; "
                  "expected a rate such as 600/m, none, or {rate, burst}\n"
                  "weir.yaml:2:73: gates.b.keys.k.rate cannot be adaptive, as limit and tokens "
                  "can; expected a rate such as 600/m, none, or {rate, burst}\n");
}

TEST(lines_are_bounded)
{
    expect_errors(
        API "gates: { a: { line: { max: 0, cost: 0, status: 500, by_tenant: 0, by_priority: { "
            "high: 0, urgent: 1 } } } }\n",
        "weir.yaml:2:28: gates.a.line.max is \"0\"; expected a whole number from 1 to 10000000\n"
        "weir.yaml:2:37: gates.a.line.cost is \"0\"; expected a whole number from 1 to "
        "4398046511104\n"
        "weir.yaml:2:48: gates.a.line.status is \"500\"; expected 429 or 503\n"
        "weir.yaml:2:64: gates.a.line.by_tenant is \"0\"; expected a whole number from 1 to "
        "10000000\n"
        "weir.yaml:2:88: gates.a.line.by_priority.high is \"0\"; expected a whole number from 1 to "
        "10000000\n"
        "weir.yaml:2:91: gates.a.line.by_priority.urgent is no field; expected high, normal or "
        "low\n");
    expect_errors(
        API "gates: { a: { line: { max: 10000001, cost: 4398046511105, status: '429' }, weights: { "
            "high: 17, low: 0 } } }\n",
        "weir.yaml:2:28: gates.a.line.max is \"10000001\"; expected a whole number from 1 to "
        "10000000\n"
        "weir.yaml:2:44: gates.a.line.cost is \"4398046511105\"; expected a whole number from 1 to "
        "4398046511104\n"
        "weir.yaml:2:67: gates.a.line.status is \"429\"; expected 429 or 503, without quotes\n"
        "weir.yaml:2:93: gates.a.weights.high is \"17\"; expected a whole number from 1 to 16\n"
        "weir.yaml:2:102: gates.a.weights.low is \"0\"; expected a whole number from 1 to 16\n");
}

TEST(a_breaker_needs_failures)
{
    expect_errors(
        API "gates: { a: { breaker: { pause: 5s } }, b: { breaker: }, c: { breaker: { failures: 0 "
            "} } }\n",
        "weir.yaml:2:24: gates.a.breaker has no failures; expected how many in a row close a lane\n"
        "weir.yaml:2:55: gates.b.breaker has no failures; expected how many in a row close a "
        "lane\n");
}

TEST(tenants_are_told_how_they_look)
{
    expect_errors(API "gates: { a: { tenants: { default: { wieght: 2 }, x: { limit: 0, weight: "
                      "1001, rate: { rate: { start: 5/s } } }, '': {} } }, b: { tenants: [x] } }\n",
                  "weir.yaml:2:37: gates.a.tenants.default.wieght is no field; expected weight, "
                  "limit, rate or tokens; did you mean weight?\n"
                  "weir.yaml:2:62: gates.a.tenants.x.limit is \"0\"; expected a whole number from "
                  "1 to 10000000\n"
                  "weir.yaml:2:73: gates.a.tenants.x.weight is \"1001\"; expected a whole number "
                  "from 1 to 1000\n"
                  "weir.yaml:2:85: gates.a.tenants.x.rate cannot be adaptive; expected a rate such "
                  "as 600/m, or {rate, burst}\n"
                  "weir.yaml:2:117: gates.a.tenants.\"\" has a name of 0 bytes; expected 1 to 255\n"
                  "weir.yaml:2:139: gates.b.tenants is a list; expected a mapping of tenants to "
                  "{limit, rate, weight}\n");
}

TEST(a_table_of_keys_has_room_for_one_at_least)
{
    expect_errors(
        API "gates: { a: { max_keys: 0 }, b: { max_keys: 10000001, forget: 999ms }, "
            "c: { keys: { k: { max_keys: 5 } } } }\n",
        "weir.yaml:2:25: gates.a.max_keys is \"0\"; expected a whole number from 1 to "
        "10000000\n"
        "weir.yaml:2:45: gates.b.max_keys is \"10000001\"; expected a whole number from 1 "
        "to 10000000\n"
        "weir.yaml:2:63: gates.b.forget is \"999ms\"; expected a duration from 1s to "
        "365d, or none\n"
        "weir.yaml:2:90: gates.c.keys.k.max_keys is no field; expected limit, rate, "
        "tokens, line, lease, early_reject, weights, choice, breaker, controller, aimd, settle "
        "or estimate\n");
}

TEST(keys_have_no_tenants_events_or_keys)
{
    expect_errors(
        API "gates: { a: { keys: { k: { tenants: {}, limit: x } } }, b: { keys: 5 } }\n",
        "weir.yaml:2:28: gates.a.keys.k.tenants is no field; expected limit, rate, "
        "tokens, line, lease, early_reject, weights, choice, breaker, controller, aimd, settle "
        "or estimate\n"
        "weir.yaml:2:48: gates.a.keys.k.limit is \"x\"; expected a whole number from 1 "
        "to 10000000, none, or {start, min, max}\n"
        "weir.yaml:2:68: gates.b.keys is \"5\"; expected a mapping of keys to what "
        "differs there\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_field_is_told_with_those_that_are_known),
        cmocka_unit_test(a_file_without_an_address_is_refused),
        cmocka_unit_test(a_file_is_a_mapping),
        cmocka_unit_test(a_section_is_a_mapping),
        cmocka_unit_test(numbers_are_strict_and_bounded),
        cmocka_unit_test(durations_need_their_unit),
        cmocka_unit_test(booleans_are_true_or_false),
        cmocka_unit_test(words_are_one_of_a_few),
        cmocka_unit_test(texts_are_not_empty),
        cmocka_unit_test(names_have_letters_digits_and_a_few_signs),
        cmocka_unit_test(addresses_are_told_how_they_look),
        cmocka_unit_test(what_becomes_of_paths_is_said_of_addresses_with_routes_only),
        cmocka_unit_test(an_api_that_others_can_reach_needs_tokens),
        cmocka_unit_test(a_protocol_that_others_can_reach_needs_tokens),
        cmocka_unit_test(a_rate_of_bodies_is_a_size_within_its_bounds),
        cmocka_unit_test(an_event_file_is_told_how_it_looks),
        cmocka_unit_test(networks_are_told_how_they_look),
        cmocka_unit_test(routes_without_listen_lead_nowhere),
        cmocka_unit_test(urls_are_told_how_they_look),
        cmocka_unit_test(a_url_with_a_password_or_a_query_is_not_shown),
        cmocka_unit_test(settings_of_tls_are_told_how_they_look),
        cmocka_unit_test(a_dns_server_is_an_ip_address),
        cmocka_unit_test(headers_have_names_of_their_own),
        cmocka_unit_test(the_values_of_headers_are_never_shown),
        cmocka_unit_test(variables_must_be_there),
        cmocka_unit_test(models_have_names_on_both_sides),
        cmocka_unit_test(a_pause_is_not_above_the_longest),
        cmocka_unit_test(limits_are_numbers_none_or_adaptive),
        cmocka_unit_test(a_start_is_not_below_the_min_whatever_the_max),
        cmocka_unit_test(a_controller_needs_something_to_control),
        cmocka_unit_test(a_debt_needs_somebody_who_owes_it),
        cmocka_unit_test(rates_are_told_how_they_look),
        cmocka_unit_test(only_limits_and_tokens_are_adaptive),
        cmocka_unit_test(lines_are_bounded),
        cmocka_unit_test(a_breaker_needs_failures),
        cmocka_unit_test(tenants_are_told_how_they_look),
        cmocka_unit_test(a_table_of_keys_has_room_for_one_at_least),
        cmocka_unit_test(keys_have_no_tenants_events_or_keys),
    };
    return cmocka_run_group_tests_name("config_errors", tests, NULL, NULL);
}
