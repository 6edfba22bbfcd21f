/* Every kind of mistake with its message, word by word. */
#include "unit/config_helpers.h"

#include "config/suggest.h"

#define LISTEN "listen: 127.0.0.1:1\nupstreams: {u: {url: http://u}, v: {url: http://v}}\n"

/* ---- fields ---- */

TEST(an_unknown_field_is_told_with_those_that_are_known)
{
    expect_errors(
        API "lissten: 1\n",
        "weir.yaml:2:1: lissten is no field; expected listen, api, protocol, data, threads, grace, "
        "events, dns, trusted, upstreams, gates, routes, queues, tenants or api_tokens; did you "
        "mean "
        "listen?\n");
    expect_errors(
        API "gates:\n"
            "  f: { limitt: 3, line: { tmeout: 5s } }\n",
        "weir.yaml:3:8: gates.f.limitt is no field; expected limit, rate, tokens, line, lease, "
        "early_reject, weights, choice, breaker, controller, settle, estimate, events, tenants or "
        "keys; did you mean limit?\n"
        "weir.yaml:3:27: gates.f.line.tmeout is no field; expected timeout, max, cost, status, "
        "by_priority or by_tenant; did you mean timeout?\n");
    expect_errors(API "gates: { f: { zzzzz: 3 } }\n",
                  "weir.yaml:2:15: gates.f.zzzzz is no field; expected limit, rate, tokens, line, "
                  "lease, early_reject, weights, choice, breaker, controller, settle, estimate, "
                  "events, tenants or keys\n");
    expect_errors(
        API "Data: x\n",
        "weir.yaml:2:1: Data is no field; expected listen, api, protocol, data, threads, "
        "grace, events, dns, trusted, upstreams, gates, routes, queues, tenants or api_tokens; did "
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
        "protocol, data, threads, grace, events, dns, trusted, upstreams, gates, routes, queues, "
        "tenants or "
        "api_tokens\n");
    expect_errors(
        "- a\n",
        "weir.yaml:1:1: the file is a list; expected a mapping with the fields listen, api, "
        "protocol, data, threads, grace, events, dns, trusted, upstreams, gates, routes, queues, "
        "tenants or "
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
        "line, lease, early_reject, weights, choice, breaker, controller, settle, estimate, "
        "events, tenants or keys\n"
        "weir.yaml:2:27: gates.b.line is \"5s\"; expected a mapping with the fields timeout, max, "
        "cost, status, by_priority or by_tenant\n");
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

TEST(an_event_file_is_told_how_it_looks)
{
    expect_errors(
        API "events: { rotate: 1KiB, keep: 101 }\n",
        "weir.yaml:2:9: events has no file; expected one\n"
        "weir.yaml:2:19: events.rotate is \"1KiB\"; expected a size from 64KiB to 1TiB\n"
        "weir.yaml:2:31: events.keep is \"101\"; expected a whole number from 0 to 100\n");
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
        "http://host:port, https://host:port or unix:/path; the path is the request's own\n");
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
        "weir.yaml:2:84: upstreams.a.headers.C has a ${...} without a name; expected ${NAME} of "
        "letters, digits and _; write $${ for a ${ that is meant as it stands\n"
        "weir.yaml:2:99: upstreams.a.headers.D is a mapping; expected the value of a header\n"
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
        "weir.yaml:2:80: upstreams.a.headers.C has a ${...} without a name; expected ${NAME} of "
        "letters, digits and _; write $${ for a ${ that is meant as it stands\n"
        "weir.yaml:2:89: upstreams.a.headers.D has a ${...} without a name; expected ${NAME} of "
        "letters, digits and _; write $${ for a ${ that is meant as it stands\n"
        "weir.yaml:2:99: upstreams.a.headers.E has a ${...} without a name; expected ${NAME} of "
        "letters, digits and _; write $${ for a ${ that is meant as it stands\n"
        "weir.yaml:2:110: upstreams.a.headers.F has a ${...} without a name; expected ${NAME} of "
        "letters, digits and _; write $${ for a ${ that is meant as it stands\n"
        "weir.yaml:2:123: upstreams.a.headers.G has a ${...} without a name; expected ${NAME} of "
        "letters, digits and _; write $${ for a ${ that is meant as it stands\n");
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
                  "weir.yaml:2:37: gates.a.tenants.default.wieght is no field; expected limit, "
                  "rate or weight; did you mean weight?\n"
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

TEST(keys_have_no_tenants_events_or_keys)
{
    expect_errors(API "gates: { a: { keys: { k: { tenants: {}, limit: x } } }, b: { keys: 5 } }\n",
                  "weir.yaml:2:28: gates.a.keys.k.tenants is no field; expected limit, rate, "
                  "tokens, line, lease, early_reject, weights, choice, breaker, controller, settle "
                  "or estimate\n"
                  "weir.yaml:2:48: gates.a.keys.k.limit is \"x\"; expected a whole number from 1 "
                  "to 10000000, none, or {start, min, max}\n"
                  "weir.yaml:2:68: gates.b.keys is \"5\"; expected a mapping of keys to what "
                  "differs there\n");
}

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

TEST(a_tie_between_routes_names_both)
{
    expect_errors(LISTEN "routes:\n"
                         "  - { match: '/f/{a}', upstream: u }\n"
                         "  - { match: /g, upstream: u }\n"
                         "  - { match: '/f/{b}', upstream: u }\n"
                         "  - { match: /g/, upstream: u }\n"
                         "  - { match: /g, upstream: v }\n",
                  "weir.yaml:6:14: routes[2].match is \"/f/{b}\"; expected paths of its own, but "
                  "the route on line 4 matches just the same\n"
                  "weir.yaml:8:14: routes[4].match is \"/g\"; expected paths of its own, but the "
                  "route on line 5 matches just the same\n");
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
                  "\"{function}\", header:NAME, or a constant\n");
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
        "weir.yaml:5:86: routes[1].prio is no field; expected match, strip, key, tenant, priority, "
        "flow, deadline, gate, upstream, llm, custom, default_key, cache_read, retries, permit, "
        "flow_idle, depth, websocket or max_body; did "
        "you mean priority?\n"
        "weir.yaml:6:41: routes[2].priority is a list; expected header:NAME, high, normal or low\n"
        "weir.yaml:6:53: routes[2].tenant is a list; expected header:NAME or a constant\n"
        "weir.yaml:6:67: routes[2].max_body is a list; expected a size such as 512B, 64KiB, 1MB or "
        "2GiB, or none\n");
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
                  "weir.yaml:4:66: routes[0].default_key means nothing, because the route has no "
                  "llm; expected llm: openai, anthropic or custom with it\n"
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
        "weir.yaml:10:73: routes[6].default_key is empty; expected a text that stands for {model}\n"
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
        "between, such as usage.output_tokens, each of 1 to 64 letters, digits, _, -, $ and @\n"
        "weir.yaml:3:97: routes[0].custom.stream is \"a..b\"; expected up to 8 names with dots "
        "between, such as usage.output_tokens, each of 1 to 64 letters, digits, _, -, $ and @\n"
        "weir.yaml:3:115: routes[0].custom.max_tokens is empty; expected up to 8 names with dots "
        "between, such as usage.output_tokens, each of 1 to 64 letters, digits, _, -, $ and @\n"
        "weir.yaml:3:131: routes[0].custom.input_tokens is \"a.b.c.d.e.f.g.h.i\"; expected up to 8 "
        "names with dots between, such as usage.output_tokens, each of 1 to 64 letters, digits, _, "
        "-, $ and @\n"
        "weir.yaml:3:165: routes[0].custom.output_tokens is a list; expected up to 8 names with "
        "dots between, such as usage.output_tokens, each of 1 to 64 letters, digits, _, -, $ and "
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

TEST(a_queue_leads_to_a_path_that_means_nothing_but_itself)
{
    static const char *const bad[] = {"/x?a=b", "/x#a", "/x%61",   "/a b",    "/../x", "/x/.",
                                      "/./x",   "x",    "/x\\\\y", "/\u00e9", "/x|y"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char text[256];
        snprintf(text, sizeof text,
                 LISTEN "routes: [{match: /, upstream: u}]\nqueues: {q: {route: \"%s\"}}\n",
                 bad[i]);
        const struct weir_config_errors *errors = load_bad(text);
        assert_int_equal(errors->count, 1);
        assert_non_null(strstr(errors->list[0].text,
                               "; expected a path that a route matches, without a query, escapes "
                               "or segments that begin with a dot"));
    }
    unload(load(LISTEN "routes: [{match: /, upstream: u}]\n"
                       "queues: {q: {route: \"/a.b/~c-d_e//f:g@h!$&'()*+,;=\"}}\n"));
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

/* ---- how many there may be ---- */

/* HEAD, then the item `count` times with its number for each #, then TAIL. */
static char *repeat(const char *head, const char *item, uint32_t count, const char *tail)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    fputs(head, out);
    for (uint32_t i = 0; i < count; i++) {
        for (const char *at = item; *at != '\0'; at++) {
            if (*at == '#') {
                fprintf(out, "%u", i);
            } else {
                fputc(*at, out);
            }
        }
    }
    fputs(tail, out);
    fclose(out);
    return text;
}

TEST(there_are_bounds_on_how_many_of_everything)
{
    static const struct {
        uint32_t most;
        const char *head;
        const char *item;
        const char *tail;
        const char *complaint;
    } cases[] = {
        {16, "api: [", "127.0.0.1:#, ", "]\n", "api has 17 addresses; expected 1 to 16"},
        {256, API "trusted: [", "10.0.0.0/8, ", "]\n",
         "trusted has 257 entries; expected at most 256"},
        {1024, API "upstreams: {", "u#: {url: http://h}, ", "}\n",
         "upstreams has 1025 entries; expected at most 1024"},
        {64, API "upstreams: {a: {url: [", "http://h#, ", "]}}\n",
         "upstreams.a.url has 65 urls; expected 1 to 64"},
        {64, API "upstreams: {a: {url: http://h, headers: {", "X-#: y, ", "}}}\n",
         "upstreams.a.headers has 65 entries; expected at most 64"},
        {1000, API "upstreams: {a: {url: http://h, models: {", "m#: y, ", "}}}\n",
         "upstreams.a.models has 1001 entries; expected at most 1000"},
        {1024, API "gates: {", "g#: , ", "}\n", "gates has 1025 entries; expected at most 1024"},
        {10000, API "gates: {a: {tenants: {", "t#: , ", "}}}\n",
         "gates.a.tenants has 10001 entries; expected at most 10000"},
        {10000, API "gates: {a: {keys: {", "k#: , ", "}}}\n",
         "gates.a.keys has 10001 entries; expected at most 10000"},
        {4096, LISTEN "routes: [", "{match: /r#, upstream: u}, ", "]\n",
         "routes has 4097 entries; expected at most 4096"},
        {256, API "queues: {", "q#: , ", "}\n", "queues has 257 entries; expected at most 256"},
        {64, API "queues: {q: {run: [", "x, ", "]}}\n",
         "queues.q.run has 65 entries; expected at most 64"},
        {256, API "queues: {q: {environment: {", "V#: x, ", "}}}\n",
         "queues.q.environment has 257 entries; expected at most 256"},
        {10000, API "queues: {q: {tenants: {", "t#: , ", "}}}\n",
         "queues.q.tenants has 10001 entries; expected at most 10000"},
        {16, API "protocol: [", "127.0.0.1:#, ", "]\n",
         "protocol has 17 addresses; expected 1 to 16"},
        {1024, API "api_tokens: {", "t#: {file: /f, scopes: [read]}, ", "}\n",
         "api_tokens has 1025 entries; expected at most 1024"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (uint32_t count = cases[i].most - 1; count <= cases[i].most + 1; count++) {
            char *text = repeat(cases[i].head, cases[i].item, count, cases[i].tail);
            if (count <= cases[i].most) {
                unload(load(text));
            } else {
                const struct weir_config_errors *errors = load_bad(text);
                if (errors->count != 1 ||
                    strstr(errors->list[0].text, cases[i].complaint) == NULL) {
                    fail_msg("%s: %s", cases[i].complaint, errors->list[0].text);
                }
            }
            free(text);
        }
    }
}

TEST(a_route_has_up_to_64_lanes)
{
    for (uint32_t count = 63; count <= 65; count++) {
        char *upstreams =
            repeat("listen: 127.0.0.1:1\nupstreams: {", "u#: {url: http://h}, ", count, "}\n");
        char *text = repeat(upstreams, "", 0, "routes: [{match: /, upstream: [");
        char *whole = repeat(text, "u#, ", count, "]}]\n");
        if (count <= 64) {
            unload(load(whole));
        } else {
            expect_errors(whole, "weir.yaml:3:31: routes[0].upstream has 65 upstreams; expected 1 "
                                 "to 64\n");
        }
        free(upstreams);
        free(text);
        free(whole);
    }
}

TEST(names_and_constants_have_up_to_255_bytes)
{
    static const struct {
        const char *head;
        const char *tail;
    } forms[] = {{API "gates: {a: {keys: {", ": }}}\n"},
                 {API "gates: {a: {tenants: {", ": }}}\n"},
                 {LISTEN "routes: [{match: /, upstream: u, key: ", "}]\n"},
                 {LISTEN "routes: [{match: /, upstream: u, tenant: ", "}]\n"},
                 {LISTEN "routes: [{match: /, upstream: u, llm: openai, key: '{model}', "
                         "default_key: ",
                  "}]\n"},
                 {API "upstreams: {u: {url: http://u, models: {", ": x}}}\n"},
                 {API "upstreams: {u: {url: http://u, models: {x: ", "}}}\n"}};
    static const char *const complaints[] = {
        "has a name of 256 bytes; expected 1 to 255",
        "has a name of 256 bytes; expected 1 to 255",
        "routes[0].key has 256 bytes; expected at most 255",
        "routes[0].tenant has 256 bytes; expected at most 255",
        "routes[0].default_key has 256 bytes; expected at most 255",
        "has a name of 256 bytes; expected 1 to 255",
        "upstreams.u.models.x has 256 bytes; expected at most 255"};
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        for (size_t bytes = 254; bytes <= 256; bytes++) {
            char name[257];
            memset(name, 'k', bytes);
            name[bytes] = '\0';
            char *text = repeat(forms[i].head, name, 1, forms[i].tail);
            if (bytes <= 255) {
                unload(load(text));
            } else {
                assert_non_null(strstr(load_bad(text)->list[0].text, complaints[i]));
            }
            free(text);
        }
    }
}

TEST(a_filled_in_value_has_up_to_8192_bytes)
{
    static char value[8200];
    static const char *const pairs[] = {"LONG", value, NULL};
    for (size_t bytes = 8190; bytes <= 8192; bytes++) {
        memset(value, 'v', sizeof value);
        value[bytes] = '\0';
        environment = pairs;
        static const char text[] =
            API "upstreams: {a: {url: http://h, headers: {A: \"x${LONG}\"}}}\n";
        if (bytes + 1 <= 8192) {
            struct weir_config *config = load(text);
            assert_int_equal(config->upstreams[0].headers[0].value.bytes, bytes + 1);
            unload(config);
        } else {
            expect_errors(text, "weir.yaml:2:45: upstreams.a.headers.A is too long; expected at "
                                "most 8192 bytes\n");
        }
    }
}

/* ---- the list of mistakes ---- */

TEST(twenty_mistakes_are_told_and_the_others_counted)
{
    for (uint32_t count = 19; count <= 40; count += 7) {
        char *text = repeat(API "gates:\n", "  g#: {limit: x}\n", count, "");
        const struct weir_config_errors *errors = load_bad(text);
        assert_int_equal(errors->count, count > 20 ? 20 : count);
        assert_int_equal(errors->left_out, count > 20 ? count - 20 : 0);
        free(text);
    }
}

TEST(mistakes_are_told_in_the_order_of_the_file)
{
    const struct weir_config_errors *errors =
        load_bad("routes: [{match: x, upstream: u}]\nzzz: 1\ngates: {a: {limit: x}}\nthreads: 0\n"
                 "listen: x\nthreads: 0\n");
    assert_int_equal(errors->count, 7);
    for (uint32_t i = 1; i < errors->count; i++) {
        assert_true(errors->list[i - 1].line <= errors->list[i].line);
    }
    assert_int_equal(errors->list[0].line, 1);
    assert_int_equal(errors->list[0].column, 18);
    assert_int_equal(errors->list[6].line, 6);
}

TEST(a_long_name_of_a_file_loses_its_beginning)
{
    char name[300];
    struct weir_config_errors errors = {.count = 0};
    memset(name, 'a', sizeof name);
    memcpy(name + sizeof name - 5, ".yaml", 5);
    errors.file = (struct weir_slice){name, sizeof name};
    weir_config_errors_add(&errors, 3, 4, "x");
    weir_config_errors_add(&errors, 0, 0, "x");
    assert_memory_equal(errors.list[0].text, "...aaa", 6);
    assert_string_equal(errors.list[0].text + 3 + 200 - 5, ".yaml:3:4: x");
    assert_string_equal(errors.list[1].text + 3 + 200 - 5, ".yaml: x");
}

TEST(a_long_message_is_cut)
{
    struct weir_config_errors errors = {.count = 0};
    char text[2000];
    memset(text, 'a', sizeof text);
    for (size_t bytes = WEIR_CONFIG_ERROR_BYTES_MAX - 4; bytes < WEIR_CONFIG_ERROR_BYTES_MAX;
         bytes++) {
        weir_config_errors_add(&errors, 0, 0, "%.*s", (int)bytes, text);
    }
    /* The place is ": ", and a zero ends it. */
    assert_int_equal(strlen(errors.list[0].text), WEIR_CONFIG_ERROR_BYTES_MAX - 2);
    assert_int_equal(strlen(errors.list[1].text), WEIR_CONFIG_ERROR_BYTES_MAX - 1);
    assert_string_equal(errors.list[1].text + WEIR_CONFIG_ERROR_BYTES_MAX - 4, "aaa");
    assert_string_equal(errors.list[2].text + WEIR_CONFIG_ERROR_BYTES_MAX - 4, "...");
    assert_string_equal(errors.list[3].text + WEIR_CONFIG_ERROR_BYTES_MAX - 4, "...");
}

TEST(what_is_shown_of_a_text_cannot_do_harm)
{
    assert_string_equal(weir_show(weir_slice_of("plain \xc3\xa4")).text, "plain \xc3\xa4");
    assert_string_equal(weir_show(weir_slice_of("a\x1b[31m\n\x7f")).text, "a\\x1b[31m\\x0a\\x7f");
    assert_string_equal(weir_show(weir_slice_of("\xc2\x9b"
                                                "1\xc2\xa0"))
                            .text,
                        "\\xc2\\x9b1\xc2\xa0");
    assert_string_equal(weir_show((struct weir_slice){"a\0b", 3}).text, "a\\x00b");
    assert_string_equal(weir_show((struct weir_slice){NULL, 0}).text, "");
    char *half = malloc(1);
    assert_non_null(half);
    *half = '\xc2';
    assert_string_equal(weir_show((struct weir_slice){half, 1}).text, "\xc2");
    free(half);
    /* Whatever the length, it fits, and is cut between characters only. */
    char text[256];
    for (size_t lead = 0; lead < 4; lead++) {
        for (size_t bytes = 0; bytes < 200; bytes++) {
            for (size_t i = 0; i < bytes; i++) {
                text[i] = i < lead ? 'a' : "\xe2\x82\xac"[(i - lead) % 3];
            }
            if (bytes > lead && (bytes - lead) % 3 != 0) {
                continue;
            }
            struct weir_shown shown = weir_show((struct weir_slice){text, bytes});
            size_t length = strlen(shown.text);
            assert_true(length < sizeof shown.text);
            bool cut = length != bytes || memcmp(shown.text, text, bytes) != 0;
            size_t kept = cut ? length - 3 : length;
            assert_memory_equal(shown.text, text, kept);
            assert_true(kept <= lead || (kept - lead) % 3 == 0);
            assert_true(!cut || strcmp(shown.text + kept, "...") == 0);
        }
    }
    memset(text, '\n', sizeof text);
    assert_true(strlen(weir_show((struct weir_slice){text, sizeof text}).text) < 64);
}

/* ---- suggestions ---- */

static const char *suggest(const char *word, const char *const *candidates)
{
    static char best[WEIR_SUGGEST_BYTES_MAX + 1];
    struct weir_suggestion suggestion = weir_suggestion_for(weir_slice_of(word));
    for (; *candidates != NULL; candidates++) {
        weir_suggestion_offer(&suggestion, weir_slice_of(*candidates));
    }
    snprintf(best, sizeof best, "%.*s", (int)suggestion.best.bytes, suggestion.best.data);
    return best;
}

TEST(the_nearest_word_is_suggested_if_it_is_near_enough)
{
    static const char *const words[] = {"limit", "line", "lease", "upstreams", "priority", NULL};
    static const struct {
        const char *word;
        const char *best;
    } cases[] = {{"limt", "limit"},
                 {"ilmit", "limit"},
                 {"linee", "line"},
                 {"limits", "limit"},
                 {"lmiit", "limit"},
                 {"lomit", "limit"},
                 {"LIMIT", "limit"},
                 {"limt_", ""},
                 {"lin", "line"},
                 {"lease", "lease"},
                 {"leaes", "lease"},
                 {"lea", "lease"},
                 {"prio", "priority"},
                 {"pr", ""},
                 {"upstram", "upstreams"},
                 {"upstraems", "upstreams"},
                 {"usptraems", "upstreams"},
                 {"upxyzeams", "upstreams"},
                 {"uxyzzeams", ""},
                 {"zzz", ""},
                 {"", ""}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (strcmp(suggest(cases[i].word, words), cases[i].best) != 0) {
            fail_msg("%s: %s", cases[i].word, suggest(cases[i].word, words));
        }
    }
    static const char *const ties[] = {"ab", "ac", "a", NULL};
    assert_string_equal(suggest("ad", ties), "ab");
    assert_string_equal(suggest("ac", ties), "ac");
}

TEST(long_words_get_no_suggestion)
{
    char word[WEIR_SUGGEST_BYTES_MAX + 2];
    char other[WEIR_SUGGEST_BYTES_MAX + 2];
    const char *const candidates[] = {other, NULL};
    for (size_t bytes = WEIR_SUGGEST_BYTES_MAX - 1; bytes <= WEIR_SUGGEST_BYTES_MAX + 1; bytes++) {
        memset(word, 'a', bytes);
        word[bytes] = '\0';
        memcpy(other, word, sizeof word);
        other[3] = 'b';
        const char *best = suggest(word, candidates);
        assert_string_equal(best, bytes <= WEIR_SUGGEST_BYTES_MAX ? other : "");
    }
}

TEST(a_prefix_is_the_plain_beginning_of_a_path)
{
    static const char *const wrong[] = {"openai", "/",     "/a/",  "//a",  "/a//b",
                                        "/..",    "/a/.b", "/a b", "/%41", "/a?b"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[256];
        char expected[256];
        snprintf(text, sizeof text, API "upstreams: { a: { url: http://a, prefix: '%s' } }\n",
                 wrong[i]);
        snprintf(expected, sizeof expected,
                 "weir.yaml:2:42: upstreams.a.prefix is \"%s\"; expected the beginning of a path, "
                 "such as /openai, without a slash at its end, of at most 255 bytes\n",
                 wrong[i]);
        expect_errors(text, expected);
    }
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
        cmocka_unit_test(an_api_that_others_can_reach_needs_tokens),
        cmocka_unit_test(a_protocol_that_others_can_reach_needs_tokens),
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
        cmocka_unit_test(keys_have_no_tenants_events_or_keys),
        cmocka_unit_test(a_route_needs_a_match_and_an_upstream),
        cmocka_unit_test(names_of_gates_and_upstreams_must_exist),
        cmocka_unit_test(a_match_is_a_path),
        cmocka_unit_test(a_tie_between_routes_names_both),
        cmocka_unit_test(what_is_stripped_starts_the_match),
        cmocka_unit_test(a_key_is_made_of_what_is_known),
        cmocka_unit_test(the_other_fields_of_a_route_are_checked),
        cmocka_unit_test(a_permit_of_a_flow_needs_a_flow_and_a_gate),
        cmocka_unit_test(what_is_said_of_an_llm_needs_one),
        cmocka_unit_test(the_fields_of_an_llm_are_checked),
        cmocka_unit_test(an_api_of_its_own_says_where_things_stand),
        cmocka_unit_test(an_llm_is_neither_reached_by_websockets_nor_counted_by_flows),
        cmocka_unit_test(queues_are_checked),
        cmocka_unit_test(a_queue_leads_to_a_path_that_means_nothing_but_itself),
        cmocka_unit_test(what_a_queue_bounds_is_checked),
        cmocka_unit_test(variables_of_commands_are_checked_and_never_shown),
        cmocka_unit_test(a_token_needs_scopes),
        cmocka_unit_test(tokens_are_checked_and_never_shown),
        cmocka_unit_test(there_are_bounds_on_how_many_of_everything),
        cmocka_unit_test(a_route_has_up_to_64_lanes),
        cmocka_unit_test(names_and_constants_have_up_to_255_bytes),
        cmocka_unit_test(a_filled_in_value_has_up_to_8192_bytes),
        cmocka_unit_test(twenty_mistakes_are_told_and_the_others_counted),
        cmocka_unit_test(mistakes_are_told_in_the_order_of_the_file),
        cmocka_unit_test(a_long_name_of_a_file_loses_its_beginning),
        cmocka_unit_test(a_long_message_is_cut),
        cmocka_unit_test(what_is_shown_of_a_text_cannot_do_harm),
        cmocka_unit_test(the_nearest_word_is_suggested_if_it_is_near_enough),
        cmocka_unit_test(long_words_get_no_suggestion),
        cmocka_unit_test(a_prefix_is_the_plain_beginning_of_a_path),
    };
    return cmocka_run_group_tests_name("config_errors", tests, NULL, NULL);
}
