/* Heads of responses, and trailers. */
#include "wire/http1.h"

#include "unit/wire.h"

static struct text text;

#define GET     WEIR_METHOD_GET
#define HEAD    WEIR_METHOD_HEAD
#define CONNECT WEIR_METHOD_CONNECT

#define expect_bad_response(literal, name)                                  \
    do {                                                                    \
        struct reading bad_reading = response_reading(BYTES(literal), GET); \
        expect_fault(&bad_reading, WEIR_HTTP_FAULT_##name);                 \
    } while (0)

static struct weir_http1_head response(const char *data, enum weir_http_method method)
{
    return accept_response(weir_slice_of(data), method);
}

TEST(a_usual_response_is_read_in_full)
{
    static const char data[] = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\n"
                               "Content-Length: 5\r\n\r\nhello";
    struct weir_http1_head head = response(data, GET);
    assert_int_equal(head.status, 429);
    expect_span(data, head.reason, "Too Many Requests");
    assert_int_equal(head.minor, 1);
    assert_int_equal(head.framing, WEIR_FRAMING_LENGTH);
    assert_true(head.content_length == 5);
    assert_true(head.persists);
    assert_int_equal(head.method, GET);
    assert_int_equal(head.head_bytes, strlen(data) - 5);
    expect_text(weir_http1_value(data, weir_http1_find(&head, WEIR_FIELD_RETRY_AFTER)), "3");
}

TEST(a_reason_may_be_missing_or_empty_or_odd)
{
    static const char none[] = "HTTP/1.1 200\r\n\r\n";
    static const char empty[] = "HTTP/1.1 200 \r\n\r\n";
    static const char odd[] = "HTTP/1.0 200 \t(\xff) \r\n\r\n";
    struct weir_http1_head head = response(none, GET);
    assert_int_equal(head.reason.bytes, 0);
    head = response(empty, GET);
    assert_int_equal(head.reason.bytes, 0);
    head = response(odd, GET);
    expect_span(odd, head.reason, "\t(\xff) ");
    expect_bad_response("HTTP/1.1 200 O\0K\r\n\r\n", REASON);
    expect_bad_response("HTTP/1.1 200 O\x7fK\r\n\r\n", REASON);
    expect_bad_response("HTTP/1.1 200 OK\rX\r\n\r\n", BARE_CR);
    expect_bad_response("HTTP/1.1 200 OK\n\r\n", BARE_LF);
    expect_bad_response("HTTP/1.1 200\n\r\n", BARE_LF);
}

TEST(a_status_has_three_digits_from_100)
{
    assert_int_equal(response("HTTP/1.1 100 \r\n\r\n", GET).status, 100);
    assert_int_equal(response("HTTP/1.1 999 \r\n\r\n", GET).status, 999);
    expect_bad_response("HTTP/1.1 099 OK\r\n\r\n", STATUS);
    expect_bad_response("HTTP/1.1 000 OK\r\n\r\n", STATUS);
    expect_bad_response("HTTP/1.1 20 OK\r\n\r\n", STATUS);
    expect_bad_response("HTTP/1.1 2000 OK\r\n\r\n", STATUS);
    expect_bad_response("HTTP/1.1 2x0 OK\r\n\r\n", STATUS);
    expect_bad_response("HTTP/1.1 +20 OK\r\n\r\n", STATUS);
    expect_bad_response("HTTP/1.1 OK\r\n\r\n", STATUS);
    expect_bad_response("HTTP/1.1 200\tOK\r\n\r\n", STATUS);
    expect_bad_response("HTTP/1.1 200OK\r\n\r\n", STATUS);
    expect_bad_response("HTTP/1.1  200 OK\r\n\r\n", STATUS);
}

TEST(a_response_begins_with_its_version)
{
    expect_bad_response("Server: x\r\nHTTP/1.1 200 OK\r\n\r\n", VERSION);
    expect_bad_response("\r\nHTTP/1.1 200 OK\r\n\r\n", VERSION);
    expect_bad_response(" HTTP/1.1 200 OK\r\n\r\n", VERSION);
    expect_bad_response("http/1.1 200 OK\r\n\r\n", VERSION);
    expect_bad_response("ICY 200 OK\r\n\r\n", VERSION);
    expect_bad_response("HTTP/1.1\r\n\r\n", VERSION);
    expect_bad_response("HTTP/1.1\t200 OK\r\n\r\n", VERSION);
    expect_bad_response("HTTP/2.0 200 OK\r\n\r\n", VERSION_UNKNOWN);
    expect_bad_response("HTTP/1.2 200 OK\r\n\r\n", VERSION_UNKNOWN);
    expect_bad_response("HTTP/0.9 200 OK\r\n\r\n", VERSION_UNKNOWN);
}

TEST(the_status_line_has_its_limit_to_the_byte)
{
    for (size_t bytes = 31; bytes <= 33; bytes++) {
        text.bytes = 0;
        add(&text, "HTTP/1.1 200 ");
        add_times(&text, 'r', bytes - text.bytes - 2);
        add(&text, "\r\n\r\n");
        struct reading reading = response_reading(slice_of(&text), GET);
        reading.limits = (struct weir_http1_limits){32, 64, 10};
        struct weir_http1_head head;
        if (bytes <= 32) {
            accept_head(&reading, &head);
        } else {
            expect_fault(&reading, WEIR_HTTP_FAULT_LINE_LONG);
        }
    }
}

/* ---- framing ---- */

TEST(a_response_without_length_or_coding_lasts_until_the_connection_closes)
{
    struct weir_http1_head head =
        response("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n", GET);
    assert_int_equal(head.framing, WEIR_FRAMING_UNTIL_CLOSE);
    assert_false(head.persists);
    head = response("HTTP/1.1 999 ?\r\n\r\n", GET);
    assert_int_equal(head.framing, WEIR_FRAMING_UNTIL_CLOSE);
}

TEST(a_chunked_response_is_recognised)
{
    struct weir_http1_head head =
        response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", GET);
    assert_int_equal(head.framing, WEIR_FRAMING_CHUNKED);
    assert_true(head.persists);
}

TEST(the_answer_to_head_and_a_304_have_no_body_but_may_describe_one)
{
    struct weir_http1_head head = response("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", HEAD);
    assert_int_equal(head.framing, WEIR_FRAMING_NONE);
    assert_true(head.content_length == 7);
    assert_true(head.persists);
    head = response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD);
    assert_int_equal(head.framing, WEIR_FRAMING_NONE);
    head = response("HTTP/1.1 200 OK\r\n\r\n", HEAD);
    assert_int_equal(head.framing, WEIR_FRAMING_NONE);
    assert_true(head.persists);
    head = response("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", GET);
    assert_int_equal(head.framing, WEIR_FRAMING_NONE);
    head = response("HTTP/1.1 304 Not Modified\r\n\r\n", GET);
    assert_int_equal(head.framing, WEIR_FRAMING_NONE);
    assert_true(head.persists);
}

TEST(what_never_has_a_body_must_not_announce_one)
{
    static const char *const statuses[] = {"100", "101", "103", "199", "204"};
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        static const char *const fields[] = {"", "Content-Length: 0\r\n", "Content-Length: 1\r\n",
                                             "Transfer-Encoding: chunked\r\n"};
        for (size_t j = 0; j < COUNT_OF(fields); j++) {
            text.bytes = 0;
            add(&text, "HTTP/1.1 ");
            add(&text, statuses[i]);
            add(&text, " x\r\n");
            add(&text, fields[j]);
            add(&text, "\r\n");
            struct reading reading = response_reading(slice_of(&text), GET);
            if (j < 2) {
                struct weir_http1_head head;
                accept_head(&reading, &head);
                assert_int_equal(head.framing, WEIR_FRAMING_NONE);
                assert_true(head.persists);
            } else {
                expect_fault(&reading, WEIR_HTTP_FAULT_BODY_FORBIDDEN);
            }
        }
    }
}

TEST(an_accepted_connect_opens_a_tunnel)
{
    struct weir_http1_head head = response("HTTP/1.1 200 OK\r\n\r\n", CONNECT);
    assert_int_equal(head.framing, WEIR_FRAMING_NONE);
    head = response("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\n", CONNECT);
    assert_int_equal(head.framing, WEIR_FRAMING_LENGTH);
    struct reading reading =
        response_reading(BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), CONNECT);
    expect_fault(&reading, WEIR_HTTP_FAULT_BODY_FORBIDDEN);
}

TEST(the_framing_of_responses_is_as_strict_as_that_of_requests)
{
    expect_bad_response("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
                        LENGTH_REPEATED);
    expect_bad_response("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", LENGTH);
    expect_bad_response(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        LENGTH_AND_CODING);
    expect_bad_response("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                        CODING_UNKNOWN);
    expect_bad_response("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", CODING_VERSION);
    expect_bad_response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\t\r\n\r\n", FRAMING_TAB);
    expect_bad_response("HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n", FOLDED);
    expect_bad_response("HTTP/1.1 200 OK\r\nConnection: a b\r\n\r\n", CONNECTION);
    expect_bad_response("HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n", SPACE_IN_NAME);
}

TEST(a_switch_to_websocket_is_recognised)
{
    assert_int_equal(response("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                              "Upgrade: websocket\r\n\r\n",
                              GET)
                         .upgrade,
                     WEIR_UPGRADE_WEBSOCKET);
    assert_int_equal(
        response("HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", GET).upgrade,
        WEIR_UPGRADE_OTHER);
    /* Servers advertise by it what they could speak; nothing is being switched. */
    assert_int_equal(
        response("HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", GET)
            .upgrade,
        WEIR_UPGRADE_NONE);
}

TEST(responses_need_neither_host_nor_expectations)
{
    response("HTTP/1.1 200 OK\r\nHost: a b\r\nExpect: nothing\r\n\r\n", GET);
}

/* ---- trailers ---- */

static struct reading trailers_reading(struct weir_slice bytes)
{
    return (struct reading){.kind = WEIR_HTTP1_TRAILERS,
                            .limits = {16, 64, 2}, /* the first is not used */
                            .bytes = bytes};
}

#define expect_bad_trailers(literal, name)                             \
    do {                                                               \
        struct reading bad_reading = trailers_reading(BYTES(literal)); \
        expect_fault(&bad_reading, WEIR_HTTP_FAULT_##name);            \
    } while (0)

TEST(trailers_are_fields_up_to_an_empty_line)
{
    static const char data[] = "grpc-status: 0\r\nServer-Timing: db\r\n\r\nGET";
    struct weir_http1_head head;
    struct reading reading = trailers_reading(BYTES(data));
    accept_head(&reading, &head);
    assert_int_equal(head.field_count, 2);
    assert_int_equal(head.head_bytes, strlen(data) - 3);
    expect_text(weir_http1_value(data, &head.fields[0]), "0");
    reading = trailers_reading(BYTES("\r\n"));
    accept_head(&reading, &head);
    assert_int_equal(head.field_count, 0);
    assert_int_equal(head.head_bytes, 2);
    reading = trailers_reading(BYTES("\r"));
    assert_int_equal(read_head(&reading, &head), WEIR_HTTP1_NEED_MORE);
}

TEST(trailers_are_as_strict_as_headers)
{
    expect_bad_trailers("\n", BARE_LF);
    expect_bad_trailers("\rX", BARE_CR);
    expect_bad_trailers("a: b\n\r\n", BARE_LF);
    expect_bad_trailers(" a: b\r\n\r\n", FOLDED);
    expect_bad_trailers("a : b\r\n\r\n", SPACE_IN_NAME);
    expect_bad_trailers("a: \0\r\n\r\n", VALUE);
    expect_bad_trailers("GET / HTTP/1.1\r\n\r\n", SPACE_IN_NAME);
}

TEST(trailers_have_limits_of_their_own)
{
    struct weir_http1_head head;
    struct reading reading = trailers_reading(BYTES("a: 1\r\nb: 2\r\n\r\n"));
    accept_head(&reading, &head);
    expect_bad_trailers("a: 1\r\nb: 2\r\nc: 3\r\n\r\n", FIELDS_MANY);
    for (size_t bytes = 63; bytes <= 65; bytes++) {
        text.bytes = 0;
        add(&text, "a: ");
        add_times(&text, 'v', bytes - text.bytes - 4);
        add(&text, "\r\n\r\n");
        reading = trailers_reading(slice_of(&text));
        if (bytes <= 64) {
            accept_head(&reading, &head);
        } else {
            expect_fault(&reading, WEIR_HTTP_FAULT_HEAD_LONG);
        }
    }
}

TEST(whatever_somebody_acts_upon_must_not_come_as_a_trailer)
{
    for (unsigned id = 1; id < WEIR_FIELD_COUNT; id++) {
        struct weir_slice name = weir_field_name((enum weir_field_id)id);
        text.bytes = 0;
        add_bytes(&text, name.data, name.bytes);
        add(&text, ": 1\r\n\r\n");
        struct reading reading = trailers_reading(slice_of(&text));
        struct weir_http1_head head;
        if (id == WEIR_FIELD_SERVER_TIMING) {
            accept_head(&reading, &head);
        } else {
            expect_fault(&reading, WEIR_HTTP_FAULT_TRAILER);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_usual_response_is_read_in_full),
        cmocka_unit_test(a_reason_may_be_missing_or_empty_or_odd),
        cmocka_unit_test(a_status_has_three_digits_from_100),
        cmocka_unit_test(a_response_begins_with_its_version),
        cmocka_unit_test(the_status_line_has_its_limit_to_the_byte),
        cmocka_unit_test(a_response_without_length_or_coding_lasts_until_the_connection_closes),
        cmocka_unit_test(a_chunked_response_is_recognised),
        cmocka_unit_test(the_answer_to_head_and_a_304_have_no_body_but_may_describe_one),
        cmocka_unit_test(what_never_has_a_body_must_not_announce_one),
        cmocka_unit_test(an_accepted_connect_opens_a_tunnel),
        cmocka_unit_test(the_framing_of_responses_is_as_strict_as_that_of_requests),
        cmocka_unit_test(a_switch_to_websocket_is_recognised),
        cmocka_unit_test(responses_need_neither_host_nor_expectations),
        cmocka_unit_test(trailers_are_fields_up_to_an_empty_line),
        cmocka_unit_test(trailers_are_as_strict_as_headers),
        cmocka_unit_test(trailers_have_limits_of_their_own),
        cmocka_unit_test(whatever_somebody_acts_upon_must_not_come_as_a_trailer),
    };
    return cmocka_run_group_tests_name("http1_response", tests, NULL, NULL);
}
