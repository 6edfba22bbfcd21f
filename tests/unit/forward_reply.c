/* Heads of replies as they go on: to the client, with what Weir adds. */
#include "unit/forward_helpers.h"

#define DURATIONS "server-timing: line;dur=0.000, upstream;dur=0.000\r\n"
#define TIMING    DURATIONS "x-request-id: " ID_TEXT "\r\n"

static void forward_reply_of(struct weir_forward_reply reply, struct weir_slice bytes,
                             enum weir_http_method method, const char *expected)
{
    struct weir_http1_head head = accept_response(bytes, method);
    reply.head = &head;
    reply.request_id = weir_slice_of(ID_TEXT);
    reply.framing = head.framing;
    reply.data = guarded(bytes);
    begin_out(WEIR_BUFFER_LARGE);
    assert_true(weir_forward_reply(&reply, &out));
    expect_text(weir_buffer_slice(&out), expected);
    struct weir_http1_head again = accept_response(weir_buffer_slice(&out), method);
    assert_int_equal(again.head_bytes, out.end);
    assert_int_equal(again.status, head.status);
    assert_int_equal(again.framing, head.framing);
    assert_true(again.content_length == head.content_length);
    assert_int_equal(again.upgrade, head.upgrade);
}

#define expect_reply(bytes, expected)                                                         \
    forward_reply_of((struct weir_forward_reply){.keep_alive = true}, bytes, WEIR_METHOD_GET, \
                     expected)

TEST(a_reply_goes_on_with_what_weir_adds)
{
    expect_reply(BYTES("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag:  \"x\" \r\n\r\n"),
                 "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag:  \"x\" \r\nvia: 1.1 weir\r\n" TIMING
                 "connection: keep-alive\r\n\r\n");
    expect_reply(BYTES("HTTP/1.1 204 No Content\r\n\r\n"),
                 "HTTP/1.1 204 No Content\r\nvia: 1.1 weir\r\n" TIMING
                 "connection: keep-alive\r\n\r\n");
}

TEST(a_servers_own_id_of_the_request_stays)
{
    expect_reply(BYTES("HTTP/1.1 204 No Content\r\nX-Request-ID: req_1\r\n\r\n"),
                 "HTTP/1.1 204 No Content\r\nX-Request-ID: req_1\r\nvia: 1.1 weir\r\n" DURATIONS
                 "weir-request-id: " ID_TEXT "\r\nconnection: keep-alive\r\n\r\n");
    expect_reply(BYTES("HTTP/1.1 204 No Content\r\nX-Request-Id: " ID_TEXT "\r\n\r\n"),
                 "HTTP/1.1 204 No Content\r\nX-Request-Id: " ID_TEXT
                 "\r\nvia: 1.1 weir\r\n" DURATIONS "connection: keep-alive\r\n\r\n");
}

TEST(a_reason_stays_the_upstreams_and_an_empty_one_becomes_the_usual)
{
    expect_reply(BYTES("HTTP/1.1 404 Gone \xc3\xa4way\r\nContent-Length: 0\r\n\r\n"),
                 "HTTP/1.1 404 Gone \xc3\xa4way\r\nContent-Length: 0\r\nvia: 1.1 weir\r\n" TIMING
                 "connection: keep-alive\r\n\r\n");
    expect_reply(BYTES("HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n"),
                 "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nvia: 1.1 weir\r\n" TIMING
                 "connection: keep-alive\r\n\r\n");
    expect_reply(BYTES("HTTP/1.1 999 \r\nContent-Length: 0\r\n\r\n"),
                 "HTTP/1.1 999 Unknown\r\nContent-Length: 0\r\nvia: 1.1 weir\r\n" TIMING
                 "connection: keep-alive\r\n\r\n");
}

TEST(what_concerns_the_upstreams_connection_stays_behind)
{
    expect_reply(BYTES("HTTP/1.1 200 OK\r\nConnection: close, X-Listed\r\nA: 1\r\nX-Listed: 2\r\n"
                       "Keep-Alive: timeout=5\r\nUpgrade: h2c\r\nProxy-Authenticate: Basic\r\n"
                       "B: 2\r\nContent-Length: 0\r\nProxy-Connection: close\r\n\r\n"),
                 "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nContent-Length: 0\r\nvia: 1.1 weir\r\n" TIMING
                 "connection: keep-alive\r\n\r\n");
    expect_reply(BYTES("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
                 "HTTP/1.1 204 No Content\r\nvia: 1.1 weir\r\n" TIMING
                 "connection: keep-alive\r\n\r\n");
}

TEST(a_chunked_reply_stays_chunked)
{
    expect_reply(BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: 1\r\n\r\n"),
                 "HTTP/1.1 200 OK\r\nA: 1\r\ntransfer-encoding: chunked\r\nvia: 1.1 weir\r\n" TIMING
                 "connection: keep-alive\r\n\r\n");
}

TEST(a_length_that_does_not_hold_stays_behind)
{
    struct weir_slice bytes = BYTES("HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 7\r\nB: 2\r\n\r\n");
    struct weir_http1_head head = accept_response(bytes, WEIR_METHOD_POST);
    struct weir_forward_reply reply = {.head = &head,
                                       .framing = WEIR_FRAMING_CHUNKED,
                                       .data = guarded(bytes),
                                       .request_id = weir_slice_of(ID_TEXT),
                                       .keep_alive = true};
    begin_out(WEIR_BUFFER_LARGE);
    assert_true(weir_forward_reply(&reply, &out));
    expect_text(weir_buffer_slice(&out),
                "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\ntransfer-encoding: chunked\r\n"
                "via: 1.1 weir\r\n" TIMING "connection: keep-alive\r\n\r\n");
    reply.framing = WEIR_FRAMING_UNTIL_CLOSE;
    reply.keep_alive = false;
    begin_out(WEIR_BUFFER_LARGE);
    assert_true(weir_forward_reply(&reply, &out));
    expect_text(weir_buffer_slice(&out),
                "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nvia: 1.1 weir\r\n" TIMING
                "connection: close\r\n\r\n");
}

TEST(a_reply_to_head_announces_the_length_and_no_chunks)
{
    struct weir_forward_reply reply = {.keep_alive = true};
    forward_reply_of(reply, BYTES("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"), WEIR_METHOD_HEAD,
                     "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nvia: 1.1 weir\r\n" TIMING
                     "connection: keep-alive\r\n\r\n");
    forward_reply_of(
        reply, BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), WEIR_METHOD_HEAD,
        "HTTP/1.1 200 OK\r\nvia: 1.1 weir\r\n" TIMING "connection: keep-alive\r\n\r\n");
}

TEST(whether_the_clients_connection_stays_open_is_said)
{
    forward_reply_of((struct weir_forward_reply){.keep_alive = false},
                     BYTES("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n"), WEIR_METHOD_GET,
                     "HTTP/1.1 200 OK\r\nvia: 1.1 weir\r\n" TIMING "connection: close\r\n\r\n");
}

TEST(a_reply_of_http_1_0_is_sent_as_1_1_and_via_tells)
{
    expect_reply(BYTES("HTTP/1.0 200 OK\r\nVia: 1.1 x\r\nContent-Length: 1\r\nvia: 1.0 y\r\n\r\n"),
                 "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nvia: 1.1 x, 1.0 y, 1.0 weir\r\n" TIMING
                 "connection: keep-alive\r\n\r\n");
}

TEST(times_are_told_in_milliseconds_with_three_decimals)
{
    static const struct {
        uint64_t line_ns;
        uint64_t upstream_ns;
        const char *expected;
    } cases[] = {
        {0, 0, "line;dur=0.000, upstream;dur=0.000"},
        {999, 1000, "line;dur=0.000, upstream;dur=0.001"},
        {999 * 1000, 999999, "line;dur=0.999, upstream;dur=0.999"},
        {1000000, 1001000, "line;dur=1.000, upstream;dur=1.001"},
        {1010000, 1100000, "line;dur=1.010, upstream;dur=1.100"},
        {HOUR, HOUR + 123456789, "line;dur=3600000.000, upstream;dur=3600123.456"},
        {UINT64_MAX, 0, "line;dur=18446744073709.551, upstream;dur=0.000"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char expected[256];
        snprintf(expected, sizeof expected,
                 "HTTP/1.1 200 OK\r\nServer-Timing: db;dur=53\r\nContent-Length: 0\r\n"
                 "via: 1.1 weir\r\nserver-timing: %s\r\nx-request-id: %s\r\n"
                 "connection: close\r\n\r\n",
                 cases[i].expected, ID_TEXT);
        forward_reply_of((struct weir_forward_reply){.line_ns = cases[i].line_ns,
                                                     .upstream_ns = cases[i].upstream_ns},
                         BYTES("HTTP/1.1 200 OK\r\nServer-Timing: db;dur=53\r\n"
                               "Content-Length: 0\r\n\r\n"),
                         WEIR_METHOD_GET, expected);
    }
}

TEST(an_upgrade_is_accepted_anew)
{
    struct weir_forward_reply reply = {.keep_alive = true};
    forward_reply_of(reply,
                     BYTES("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                           "Connection: upgrade\r\n"
                           "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"),
                     WEIR_METHOD_GET,
                     "HTTP/1.1 101 Switching Protocols\r\n"
                     "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                     "connection: Upgrade\r\nupgrade: websocket\r\n" TIMING "\r\n");
    assert_int_equal(accept_response(weir_buffer_slice(&out), WEIR_METHOD_GET).upgrade,
                     WEIR_UPGRADE_WEBSOCKET);
}

TEST(what_comes_before_the_reply_says_nothing_of_connections_or_times)
{
    expect_reply(BYTES("HTTP/1.1 100 Continue\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    expect_reply(BYTES("HTTP/1.1 103 \r\nLink: </a>\r\nConnection: close\r\n\r\n"),
                 "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
}

TEST(a_reply_that_does_not_fit_fails_to_the_byte_and_leaves_the_buffer)
{
    static const struct {
        struct weir_slice bytes;
    } cases[] = {
        {BYTES(
            "HTTP/1.1 200 \r\nA: 1\r\nTransfer-Encoding: chunked\r\nVia: 1.0 a\r\nB: 2\r\n\r\n")},
        {BYTES("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
               "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")},
        {BYTES("HTTP/1.1 100 Continue\r\n\r\n")},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_http1_head head = accept_response(cases[i].bytes, WEIR_METHOD_GET);
        struct weir_forward_reply reply = {
            .head = &head, .framing = head.framing, .data = guarded(cases[i].bytes)};
        begin_out(WEIR_BUFFER_LARGE);
        assert_true(weir_forward_reply(&reply, &out));
        uint32_t needed = out.end;
        for (uint32_t capacity = 0; capacity <= needed + 1; capacity++) {
            begin_out(capacity);
            bool fits = weir_forward_reply(&reply, &out);
            assert_int_equal(fits, capacity >= needed);
            assert_int_equal(out.end, fits ? needed : 0);
            assert_int_equal(out_data[capacity], '?');
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_goes_on_with_what_weir_adds),
        cmocka_unit_test(a_servers_own_id_of_the_request_stays),
        cmocka_unit_test(a_reason_stays_the_upstreams_and_an_empty_one_becomes_the_usual),
        cmocka_unit_test(what_concerns_the_upstreams_connection_stays_behind),
        cmocka_unit_test(a_chunked_reply_stays_chunked),
        cmocka_unit_test(a_length_that_does_not_hold_stays_behind),
        cmocka_unit_test(a_reply_to_head_announces_the_length_and_no_chunks),
        cmocka_unit_test(whether_the_clients_connection_stays_open_is_said),
        cmocka_unit_test(a_reply_of_http_1_0_is_sent_as_1_1_and_via_tells),
        cmocka_unit_test(times_are_told_in_milliseconds_with_three_decimals),
        cmocka_unit_test(an_upgrade_is_accepted_anew),
        cmocka_unit_test(what_comes_before_the_reply_says_nothing_of_connections_or_times),
        cmocka_unit_test(a_reply_that_does_not_fit_fails_to_the_byte_and_leaves_the_buffer),
    };
    return cmocka_run_group_tests_name("forward_reply", tests, NULL, NULL);
}
