/* What a request's fields say: whom it addresses, where its body ends, what its connection does. */
#include "wire/http1_judge.h"

#include "unit/wire.h"

static struct text text;

/* A request of HTTP/1.1 with these lines of fields, Host included. */
static struct weir_slice request_with(const char *line, const char *fields)
{
    text.bytes = 0;
    add(&text, line);
    add(&text, "\r\nHost: a\r\n");
    add(&text, fields);
    add(&text, "\r\n");
    return slice_of(&text);
}

static struct weir_http1_head get(const char *fields)
{
    return accept_request(request_with("GET / HTTP/1.1", fields));
}

static struct weir_http1_head post(const char *fields)
{
    return accept_request(request_with("POST / HTTP/1.1", fields));
}

#define expect_bad_fields(fields, name)                                                        \
    do {                                                                                       \
        struct reading bad_reading = request_reading(request_with("POST / HTTP/1.1", fields)); \
        expect_fault(&bad_reading, WEIR_HTTP_FAULT_##name);                                    \
    } while (0)

/* ---- Host ---- */

TEST(http_1_1_has_exactly_one_host)
{
    expect_bad_request("GET / HTTP/1.1\r\n\r\n", HOST_MISSING);
    expect_bad_request("GET / HTTP/1.1\r\nX-Host: a\r\n\r\n", HOST_MISSING);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", HOST_REPEATED);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", HOST_REPEATED);
    expect_bad_request("GET http://a/ HTTP/1.1\r\n\r\n", HOST_MISSING);
    get("");
}

TEST(http_1_0_has_at_most_one_host)
{
    struct weir_http1_head head = accept_request(BYTES("GET / HTTP/1.0\r\n\r\n"));
    assert_int_equal(head.authority.bytes, 0);
    accept_request(BYTES("GET / HTTP/1.0\r\nHost: a\r\n\r\n"));
    expect_bad_request("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", HOST_REPEATED);
    expect_bad_request("GET / HTTP/1.0\r\nHost: a b\r\n\r\n", HOST);
}

TEST(a_host_names_a_host)
{
    accept_request(BYTES("GET / HTTP/1.1\r\nHost: example.com:8080\r\n\r\n"));
    accept_request(BYTES("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"));
    expect_bad_request("GET / HTTP/1.1\r\nHost:\r\n\r\n", HOST);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", HOST);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", HOST);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", HOST);
    expect_bad_request("GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", HOST);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", HOST);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a:\r\n\r\n", HOST);
    expect_bad_request("GET http://b/ HTTP/1.1\r\nHost: a/b\r\n\r\n", HOST);
}

/* ---- targets ---- */

struct target {
    const char *line;
    enum weir_http1_target_form form;
    const char *authority;
    const char *path;
    const char *query; /* null without one */
};

TEST(targets_have_four_forms)
{
    static const struct target targets[] = {
        {"GET / HTTP/1.1", WEIR_TARGET_ORIGIN, "a", "/", NULL},
        {"GET /? HTTP/1.1", WEIR_TARGET_ORIGIN, "a", "/", ""},
        {"GET /x?y?z HTTP/1.1", WEIR_TARGET_ORIGIN, "a", "/x", "y?z"},
        {"GET //x/y HTTP/1.1", WEIR_TARGET_ORIGIN, "a", "//x/y", NULL},
        {"GET http://b HTTP/1.1", WEIR_TARGET_ABSOLUTE, "b", "", NULL},
        {"GET http://b/ HTTP/1.1", WEIR_TARGET_ABSOLUTE, "b", "/", NULL},
        {"GET HTTPS://b:8443/x?y HTTP/1.1", WEIR_TARGET_ABSOLUTE, "b:8443", "/x", "y"},
        {"GET http://b?y HTTP/1.1", WEIR_TARGET_ABSOLUTE, "b", "", "y"},
        {"GET http://[::1]/x HTTP/1.1", WEIR_TARGET_ABSOLUTE, "[::1]", "/x", NULL},
        {"OPTIONS http://b HTTP/1.1", WEIR_TARGET_ABSOLUTE, "b", "", NULL},
        {"OPTIONS * HTTP/1.1", WEIR_TARGET_ASTERISK, "a", "", NULL},
        {"CONNECT b:443 HTTP/1.1", WEIR_TARGET_AUTHORITY, "b:443", "", NULL},
        {"CONNECT [::1]:443 HTTP/1.1", WEIR_TARGET_AUTHORITY, "[::1]:443", "", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        struct weir_http1_head head = accept_request(request_with(targets[i].line, ""));
        assert_int_equal(head.form, targets[i].form);
        expect_span(text.data, head.authority, targets[i].authority);
        expect_span(text.data, head.path, targets[i].path);
        assert_int_equal(head.has_query, targets[i].query != NULL);
        expect_span(text.data, head.query, targets[i].query == NULL ? "" : targets[i].query);
    }
}

TEST(a_target_of_another_form_is_refused)
{
    static const char *const lines[] = {
        "GET * HTTP/1.1",
        "OPTIONS *x HTTP/1.1",
        "OPTIONS ** HTTP/1.1",
        "GET x HTTP/1.1",
        "GET ?x HTTP/1.1",
        "GET b:443 HTTP/1.1",
        "GET ftp://b/ HTTP/1.1",
        "GET http:/b/ HTTP/1.1",
        "GET http://?x HTTP/1.1",
        "GET http:///x HTTP/1.1",
        "GET http://u@b/ HTTP/1.1",
        "GET http://b:x/ HTTP/1.1",
        "GET http://b:99999/ HTTP/1.1",
        "GET http://b\\c/ HTTP/1.1",
        "GET http HTTP/1.1",
        "CONNECT b HTTP/1.1",
        "CONNECT / HTTP/1.1",
        "CONNECT http://b:443 HTTP/1.1",
        "CONNECT b:443/ HTTP/1.1",
        "CONNECT * HTTP/1.1",
        "GET https:// HTTP/1.1",
        "GET ws://b/ HTTP/1.1",
        "GET httpx://b/ HTTP/1.1",
        "GET \\ HTTP/1.1",
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct reading reading = request_reading(request_with(lines[i], ""));
        expect_fault(&reading, WEIR_HTTP_FAULT_TARGET_FORM);
    }
}

/* ---- framing ---- */

TEST(without_a_length_or_coding_a_request_has_no_body)
{
    struct weir_http1_head head = post("");
    assert_int_equal(head.framing, WEIR_FRAMING_NONE);
    assert_true(head.content_length == WEIR_HTTP1_NO_LENGTH);
}

TEST(a_length_is_a_plain_number_up_to_the_largest_signed_one)
{
    assert_true(post("Content-Length: 0\r\n").content_length == 0);
    assert_int_equal(post("Content-Length: 0\r\n").framing, WEIR_FRAMING_LENGTH);
    assert_true(post("content-length:42 \r\n").content_length == 42);
    assert_true(post("Content-Length: 9223372036854775806\r\n").content_length == INT64_MAX - 1);
    assert_true(post("Content-Length: 9223372036854775807\r\n").content_length == INT64_MAX);
    expect_bad_fields("Content-Length: 9223372036854775808\r\n", LENGTH);
    expect_bad_fields("Content-Length: 18446744073709551616\r\n", LENGTH);
    expect_bad_fields("Content-Length: 99999999999999999999999999\r\n", LENGTH);
}

TEST(a_length_that_is_no_plain_number_is_refused)
{
    static const char *const values[] = {"",      "+1",  "-1",  "1,1",  "1, 1", "1 1",
                                         "0x1",   "1.0", "1e3", "01",   "00",   "1;",
                                         "\"1\"", "a",   "1a",  "\xb2", "1,"};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        struct text fields = {.bytes = 0};
        add(&fields, "Content-Length: ");
        add(&fields, values[i]);
        add(&fields, "\r\n");
        add_bytes(&fields, "", 1);
        expect_bad_fields(fields.data, LENGTH);
    }
}

TEST(a_repeated_length_is_refused_even_if_it_is_the_same)
{
    expect_bad_fields("Content-Length: 1\r\nContent-Length: 1\r\n", LENGTH_REPEATED);
    expect_bad_fields("Content-Length: 1\r\nX: y\r\ncontent-length: 2\r\n", LENGTH_REPEATED);
}

TEST(chunked_is_the_only_coding)
{
    assert_int_equal(post("Transfer-Encoding: chunked\r\n").framing, WEIR_FRAMING_CHUNKED);
    assert_int_equal(post("transfer-encoding:Chunked\r\n").framing, WEIR_FRAMING_CHUNKED);
    static const char *const values[] = {
        "",         "gzip",          "identity", "gzip, chunked", "chunked, chunked", "chunked,",
        ",chunked", "chunked, gzip", "xchunked", "chunkedx",      "chunked;q=1",      "\"chunked\"",
        "chunke",   "chun ked",
    };
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        struct text fields = {.bytes = 0};
        add(&fields, "Transfer-Encoding: ");
        add(&fields, values[i]);
        add(&fields, "\r\n");
        add_bytes(&fields, "", 1);
        struct reading reading = request_reading(request_with("POST / HTTP/1.1", fields.data));
        expect_fault(&reading, WEIR_HTTP_FAULT_CODING_UNKNOWN);
    }
    assert_int_equal(weir_http_fault_status(WEIR_HTTP_FAULT_CODING_UNKNOWN), 501);
}

TEST(a_coding_excludes_a_length_a_second_coding_and_http_1_0)
{
    expect_bad_fields("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", LENGTH_AND_CODING);
    expect_bad_fields("Content-Length: 0\r\nTransfer-Encoding: gzip\r\n", LENGTH_AND_CODING);
    expect_bad_fields("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                      CODING_REPEATED);
    expect_bad_fields("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
                      CODING_REPEATED);
    expect_bad_request("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", CODING_VERSION);
}

TEST(no_tab_stands_around_what_frames_a_message)
{
    expect_bad_fields("Transfer-Encoding:\tchunked\r\n", FRAMING_TAB);
    expect_bad_fields("Transfer-Encoding: chunked\t\r\n", FRAMING_TAB);
    expect_bad_fields("Transfer-Encoding: \t chunked\r\n", FRAMING_TAB);
    expect_bad_fields("Transfer-Encoding: chunked \t \r\n", FRAMING_TAB);
    expect_bad_fields("Content-Length:\t1\r\n", FRAMING_TAB);
    expect_bad_fields("Content-Length: 1\t\r\n", FRAMING_TAB);
    expect_bad_fields("Connection:\tclose\r\n", FRAMING_TAB);
    expect_bad_fields("Connection: close\t\r\n", FRAMING_TAB);
    expect_bad_fields("Connection: close\t,x\r\n", FRAMING_TAB);
    expect_bad_fields("Connection: close,\tx\r\n", FRAMING_TAB);
    post("Transfer-Encoding:   chunked   \r\nConnection:  close  ,  x  \r\n");
}

/* ---- Connection ---- */

TEST(connections_persist_by_version_and_option)
{
    assert_true(get("").persists);
    assert_true(get("Connection: keep-alive\r\n").persists);
    assert_false(get("Connection: close\r\n").persists);
    assert_false(get("connection: CLOSE\r\n").persists);
    assert_false(get("Connection: keep-alive, close\r\n").persists);
    assert_false(get("Connection: x\r\nConnection: close\r\n").persists);
    assert_false(get("Connection: ,, ,close,,\r\n").persists);
    assert_true(get("Connection: closed\r\n").persists);
    assert_true(get("Connection:\r\n").persists);
    assert_false(accept_request(BYTES("GET / HTTP/1.0\r\n\r\n")).persists);
    assert_true(accept_request(BYTES("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")).persists);
    assert_false(
        accept_request(BYTES("GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n")).persists);
}

TEST(connection_options_are_tokens)
{
    expect_bad_fields("Connection: close;x\r\n", CONNECTION);
    expect_bad_fields("Connection: close x\r\n", CONNECTION);
    expect_bad_fields("Connection: \"close\"\r\n", CONNECTION);
    expect_bad_fields("Connection: cl\xc3\xb6se\r\n", CONNECTION);
    expect_bad_fields("Connection: a=b\r\n", CONNECTION);
}

TEST(connection_has_at_most_32_options)
{
    for (size_t count = 31; count <= 33; count++) {
        struct text fields = {.bytes = 0};
        add(&fields, "Connection: x\r\nConnection: ");
        for (size_t i = 2; i < count; i++) {
            add(&fields, i % 2 == 0 ? "x, " : ",");
        }
        add(&fields, "y\r\n");
        add_bytes(&fields, "", 1);
        struct reading reading = request_reading(request_with("GET / HTTP/1.1", fields.data));
        struct weir_http1_head head;
        if (count <= WEIR_HTTP1_OPTIONS_MAX) {
            accept_head(&reading, &head);
        } else {
            expect_fault(&reading, WEIR_HTTP_FAULT_CONNECTION_MANY);
        }
    }
}

TEST(connection_must_not_list_what_frames_or_routes)
{
    expect_bad_fields("Connection: Content-Length\r\nContent-Length: 1\r\n", CONNECTION_OPTION);
    expect_bad_fields("Connection: close, transfer-encoding\r\n", CONNECTION_OPTION);
    expect_bad_fields("Connection: host\r\n", CONNECTION_OPTION);
}

TEST(fields_of_one_hop_are_told_apart_from_the_others)
{
    struct weir_http1_head head =
        get("Connection: x-private, TE, authorization\r\nX-Private: 1\r\nAccept: 2\r\n"
            "x-PRIVATE: 3\r\nTE: trailers\r\nKeep-Alive: 5\r\nAuthorization: b\r\n"
            "Proxy-Connection: keep-alive\r\nProxy-Authorization: c\r\nUpgrade: x\r\n"
            "X-Privat: 4\r\nTrailer: t\r\n");
    static const bool expected[] = {false, true, true, false, true,  true, true,
                                    true,  true, true, true,  false, false};
    assert_int_equal(head.field_count, COUNT_OF(expected));
    for (uint16_t i = 0; i < head.field_count; i++) {
        assert_int_equal(weir_http1_is_hop_by_hop(&head, i), expected[i]);
    }
}

TEST(listed_fields_are_marked_from_the_first_one_to_the_last_one)
{
    text.bytes = 0;
    add(&text, "GET / HTTP/1.1\r\nX-First: 1\r\nConnection: x-last,x-first\r\nHost: a\r\n");
    for (int i = 3; i < 99; i++) {
        add(&text, "X-Other: v\r\n");
    }
    add(&text, "X-Last: v\r\n\r\n");
    struct weir_http1_head head = accept_request(slice_of(&text));
    assert_int_equal(head.field_count, 100);
    for (uint16_t i = 0; i < 100; i++) {
        assert_int_equal(weir_http1_is_hop_by_hop(&head, i), i == 0 || i == 1 || i == 99);
    }
}

/* ---- Expect and Upgrade ---- */

TEST(the_only_expectation_is_100_continue)
{
    assert_true(post("Expect: 100-continue\r\nContent-Length: 1\r\n").expects_continue);
    assert_true(post("expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n").expects_continue);
    assert_false(post("Content-Length: 1\r\n").expects_continue);
    expect_bad_fields("Expect: 200-ok\r\n", EXPECTATION);
    expect_bad_fields("Expect:\r\n", EXPECTATION);
    expect_bad_fields("Expect: 100-continue, x\r\n", EXPECTATION);
    expect_bad_fields("Expect: 100-continue\r\nExpect: 100-continue\r\n", EXPECTATION);
    assert_int_equal(weir_http_fault_status(WEIR_HTTP_FAULT_EXPECTATION), 417);
}

TEST(nobody_waits_for_a_100_without_a_body_or_in_http_1_0)
{
    assert_false(post("Expect: 100-continue\r\n").expects_continue);
    assert_false(post("Expect: 100-continue\r\nContent-Length: 0\r\n").expects_continue);
    assert_false(accept_request(BYTES("POST / HTTP/1.0\r\nExpect: 100-continue\r\n"
                                      "Content-Length: 1\r\n\r\n"))
                     .expects_continue);
}

TEST(a_complete_wish_for_websocket_is_recognised)
{
    assert_int_equal(get("Connection: Upgrade\r\nUpgrade: websocket\r\n").upgrade,
                     WEIR_UPGRADE_WEBSOCKET);
    assert_int_equal(get("Connection: keep-alive, upgrade\r\nUpgrade: WebSocket\r\n").upgrade,
                     WEIR_UPGRADE_WEBSOCKET);
    assert_int_equal(get("Upgrade: websocket\r\n").upgrade, WEIR_UPGRADE_NONE);
    assert_int_equal(get("Connection: upgrade\r\n").upgrade, WEIR_UPGRADE_NONE);
    assert_int_equal(post("Connection: upgrade\r\nUpgrade: websocket\r\n").upgrade,
                     WEIR_UPGRADE_OTHER);
    assert_int_equal(get("Connection: upgrade\r\nUpgrade: h2c\r\n").upgrade, WEIR_UPGRADE_OTHER);
    assert_int_equal(get("Connection: upgrade\r\nUpgrade: websocket, h2c\r\n").upgrade,
                     WEIR_UPGRADE_OTHER);
    assert_int_equal(get("Connection: upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n").upgrade,
                     WEIR_UPGRADE_OTHER);
    assert_int_equal(accept_request(BYTES("GET / HTTP/1.0\r\nConnection: upgrade\r\n"
                                          "Upgrade: websocket\r\n\r\n"))
                         .upgrade,
                     WEIR_UPGRADE_NONE);
}

TEST(what_becomes_a_tunnel_has_no_body)
{
    struct reading reading = request_reading(request_with(
        "GET / HTTP/1.1", "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n"));
    expect_fault(&reading, WEIR_HTTP_FAULT_BODY_FORBIDDEN);
    reading = request_reading(request_with(
        "GET / HTTP/1.1",
        "Connection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n"));
    expect_fault(&reading, WEIR_HTTP_FAULT_BODY_FORBIDDEN);
    reading = request_reading(request_with("CONNECT b:1 HTTP/1.1", "Content-Length: 1\r\n"));
    expect_fault(&reading, WEIR_HTTP_FAULT_BODY_FORBIDDEN);
    get("Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n");
    accept_request(request_with("CONNECT b:1 HTTP/1.1", "Content-Length: 0\r\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_1_1_has_exactly_one_host),
        cmocka_unit_test(http_1_0_has_at_most_one_host),
        cmocka_unit_test(a_host_names_a_host),
        cmocka_unit_test(targets_have_four_forms),
        cmocka_unit_test(a_target_of_another_form_is_refused),
        cmocka_unit_test(without_a_length_or_coding_a_request_has_no_body),
        cmocka_unit_test(a_length_is_a_plain_number_up_to_the_largest_signed_one),
        cmocka_unit_test(a_length_that_is_no_plain_number_is_refused),
        cmocka_unit_test(a_repeated_length_is_refused_even_if_it_is_the_same),
        cmocka_unit_test(chunked_is_the_only_coding),
        cmocka_unit_test(a_coding_excludes_a_length_a_second_coding_and_http_1_0),
        cmocka_unit_test(no_tab_stands_around_what_frames_a_message),
        cmocka_unit_test(connections_persist_by_version_and_option),
        cmocka_unit_test(connection_options_are_tokens),
        cmocka_unit_test(connection_has_at_most_32_options),
        cmocka_unit_test(connection_must_not_list_what_frames_or_routes),
        cmocka_unit_test(fields_of_one_hop_are_told_apart_from_the_others),
        cmocka_unit_test(listed_fields_are_marked_from_the_first_one_to_the_last_one),
        cmocka_unit_test(the_only_expectation_is_100_continue),
        cmocka_unit_test(nobody_waits_for_a_100_without_a_body_or_in_http_1_0),
        cmocka_unit_test(a_complete_wish_for_websocket_is_recognised),
        cmocka_unit_test(what_becomes_a_tunnel_has_no_body),
    };
    return cmocka_run_group_tests_name("http1_judge", tests, NULL, NULL);
}
