/* Heads of requests: lines, fields and limits. What their fields mean is in http1_judge.c. */
#include "wire/http1.h"

#include "unit/wire.h"

static struct text text;

static struct weir_http1_limits limits_of(uint16_t line, uint16_t head, uint16_t fields)
{
    return (struct weir_http1_limits){line, head, fields};
}

/* ---- the request line ---- */

TEST(a_usual_request_is_read_in_full)
{
    static const char data[] = "POST /v1/chat?stream=1 HTTP/1.1\r\n"
                               "Host: api.example.com\r\n"
                               "Content-Type: application/json\r\n"
                               "X-Tenant:acme\r\n"
                               "Content-Length: 12\r\n"
                               "\r\n"
                               "{\"model\":\"a\"}";
    struct weir_http1_head head = accept_request(BYTES(data));
    assert_int_equal(head.head_bytes, strlen(data) - 13);
    assert_int_equal(head.method, WEIR_METHOD_POST);
    expect_span(data, head.method_name, "POST");
    expect_span(data, head.target, "/v1/chat?stream=1");
    assert_int_equal(head.form, WEIR_TARGET_ORIGIN);
    expect_span(data, head.path, "/v1/chat");
    assert_true(head.has_query);
    expect_span(data, head.query, "stream=1");
    expect_span(data, head.authority, "api.example.com");
    assert_int_equal(head.minor, 1);
    assert_int_equal(head.framing, WEIR_FRAMING_LENGTH);
    assert_int_equal(head.content_length, 12);
    assert_true(head.persists);
    assert_int_equal(head.field_count, 4);
    expect_text(weir_http1_name(data, &head.fields[2]), "X-Tenant");
    expect_text(weir_http1_value(data, &head.fields[2]), "acme");
    assert_int_equal(head.fields[0].id, WEIR_FIELD_HOST);
    assert_int_equal(head.fields[1].id, WEIR_FIELD_CONTENT_TYPE);
    assert_int_equal(head.fields[2].id, WEIR_FIELD_OTHER);
    assert_int_equal(head.fields[3].id, WEIR_FIELD_CONTENT_LENGTH);
}

TEST(a_request_needs_more_until_its_last_byte)
{
    static const char data[] = "GET /a HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
    struct weir_http1_head head;
    for (size_t bytes = 0; bytes < strlen(data); bytes++) {
        struct reading reading = request_reading((struct weir_slice){data, bytes});
        assert_int_equal(read_head(&reading, &head), WEIR_HTTP1_NEED_MORE);
    }
    accept_request(BYTES(data));
}

TEST(nothing_needs_more_even_without_a_buffer)
{
    struct weir_http1_head head;
    weir_http1_init_request(&head, WEIR_HTTP1_LIMITS_DEFAULT);
    assert_int_equal(weir_http1_parse(&head, NULL, 0), WEIR_HTTP1_NEED_MORE);
    weir_http1_init_trailers(&head, WEIR_HTTP1_LIMITS_DEFAULT);
    assert_int_equal(weir_http1_parse(&head, NULL, 0), WEIR_HTTP1_NEED_MORE);
}

TEST(what_follows_a_head_is_not_looked_at)
{
    struct weir_http1_head head =
        accept_request(BYTES("GET / HTTP/1.1\r\nHost: a\r\n\r\n\0\n\xff: "));
    assert_int_equal(head.head_bytes, strlen("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
}

TEST(two_requests_in_a_row_are_read_one_after_the_other)
{
    static const char data[] = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.0\r\n\r\n";
    struct weir_http1_head first = accept_request(BYTES(data));
    struct weir_slice rest = {data + first.head_bytes, strlen(data) - first.head_bytes};
    struct weir_http1_head second = accept_request(rest);
    expect_span(rest.data, second.path, "/2");
    assert_int_equal(first.head_bytes + second.head_bytes, strlen(data));
}

TEST(methods_are_recognised_and_any_other_token_is_let_through)
{
    static const struct {
        const char *name;
        enum weir_http_method method;
    } methods[] = {
        {"GET", WEIR_METHOD_GET},         {"HEAD", WEIR_METHOD_HEAD},
        {"POST", WEIR_METHOD_POST},       {"PUT", WEIR_METHOD_PUT},
        {"DELETE", WEIR_METHOD_DELETE},   {"TRACE", WEIR_METHOD_TRACE},
        {"OPTIONS", WEIR_METHOD_OPTIONS}, {"PATCH", WEIR_METHOD_PATCH},
        {"get", WEIR_METHOD_OTHER},       {"GETS", WEIR_METHOD_OTHER},
        {"GE", WEIR_METHOD_OTHER},        {"PROPFIND", WEIR_METHOD_OTHER},
        {"M-SEARCH", WEIR_METHOD_OTHER},  {"!#$%&'*+-.^_`|~09", WEIR_METHOD_OTHER},
        {"OPTIONSX", WEIR_METHOD_OTHER},  {"X", WEIR_METHOD_OTHER},
    };
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        text.bytes = 0;
        add(&text, methods[i].name);
        add(&text, " / HTTP/1.1\r\nHost: a\r\n\r\n");
        struct weir_http1_head head = accept_request(slice_of(&text));
        assert_int_equal(head.method, methods[i].method);
        expect_span(text.data, head.method_name, methods[i].name);
    }
}

TEST(a_method_has_at_most_32_characters)
{
    for (size_t bytes = 31; bytes <= 33; bytes++) {
        text.bytes = 0;
        add_times(&text, 'M', bytes);
        add(&text, " / HTTP/1.1\r\nHost: a\r\n\r\n");
        struct reading reading = request_reading(slice_of(&text));
        if (bytes <= WEIR_HTTP1_METHOD_BYTES_MAX) {
            struct weir_http1_head head;
            accept_head(&reading, &head);
        } else {
            expect_fault(&reading, WEIR_HTTP_FAULT_METHOD_LONG);
        }
    }
}

TEST(a_method_that_is_no_token_is_refused)
{
    expect_bad_request(" / HTTP/1.1\r\nHost: a\r\n\r\n", METHOD);
    expect_bad_request("GE(T / HTTP/1.1\r\nHost: a\r\n\r\n", METHOD);
    expect_bad_request("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", METHOD);
    expect_bad_request("\tGET / HTTP/1.1\r\nHost: a\r\n\r\n", METHOD);
    expect_bad_request("GET\0 / HTTP/1.1\r\nHost: a\r\n\r\n", METHOD);
    expect_bad_request("\xc3\x84 / HTTP/1.1\r\nHost: a\r\n\r\n", METHOD);
    expect_bad_request("GET\r\n\r\n", METHOD);
    expect_bad_request("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", METHOD); /* TLS */
}

TEST(every_byte_of_a_target_is_visible_ascii_and_no_number_sign)
{
    for (int c = 0; c < 256; c++) {
        text.bytes = 0;
        add(&text, "GET /a-long-path/");
        add_times(&text, (char)c, 1);
        add(&text, "/and-the-rest HTTP/1.1\r\nHost: a\r\n\r\n");
        struct reading reading = request_reading(slice_of(&text));
        struct weir_http1_head head;
        if (c > 0x20 && c < 0x7f && c != '#') {
            accept_head(&reading, &head);
        } else {
            enum weir_http_fault fault = c == '\n'  ? WEIR_HTTP_FAULT_BARE_LF
                                         : c == ' ' ? WEIR_HTTP_FAULT_VERSION
                                                    : WEIR_HTTP_FAULT_TARGET;
            expect_fault(&reading, fault);
        }
    }
}

TEST(single_spaces_separate_the_parts_of_the_request_line)
{
    expect_bad_request("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", TARGET);
    expect_bad_request("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", TARGET);
    expect_bad_request("GET / HTTP/1.1\t\r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET \r\nHost: a\r\n\r\n", TARGET);
    expect_bad_request("GET /\r\nHost: a\r\n\r\n", TARGET); /* HTTP/0.9 */
    expect_bad_request("GET / \r\nHost: a\r\n\r\n", VERSION);
}

TEST(fields_do_not_stand_before_the_request_line)
{
    expect_bad_request("Host: a\r\nGET / HTTP/1.1\r\n\r\n", METHOD);
    expect_bad_request("Host: a\r\nAccept: */*\r\n\r\n", METHOD);
    expect_bad_request("GET: / HTTP/1.1\r\nHost: a\r\n\r\n", METHOD);
}

TEST(versions_are_1_0_and_1_1_and_nothing_else)
{
    assert_int_equal(accept_request(BYTES("GET / HTTP/1.0\r\n\r\n")).minor, 0);
    assert_int_equal(accept_request(BYTES("GET / HTTP/1.1\r\nHost: a\r\n\r\n")).minor, 1);
    expect_bad_request("GET / HTTP/1.2\r\nHost: a\r\n\r\n", VERSION_UNKNOWN);
    expect_bad_request("GET / HTTP/1.9\r\nHost: a\r\n\r\n", VERSION_UNKNOWN);
    expect_bad_request("GET / HTTP/2.0\r\nHost: a\r\n\r\n", VERSION_UNKNOWN);
    expect_bad_request("GET / HTTP/3.0\r\nHost: a\r\n\r\n", VERSION_UNKNOWN);
    expect_bad_request("GET / HTTP/0.9\r\nHost: a\r\n\r\n", VERSION_UNKNOWN);
    expect_bad_request("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", VERSION_UNKNOWN);
    expect_bad_request("GET / HTTP/1.\r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET / HTTP/1.10\r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET / HTTP/01.1\r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET / HTTP/1,1\r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET / HTTP/2\r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET / http/1.1\r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET / HTTPS/1.1\r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET / RTSP/1.0\r\nHost: a\r\n\r\n", VERSION);
    expect_bad_request("GET / HTTP/1.1X\r\nHost: a\r\n\r\n", VERSION);
}

TEST(one_empty_line_before_a_request_is_skipped_and_no_more)
{
    static const char data[] = "\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n";
    struct weir_http1_head head = accept_request(BYTES(data));
    expect_span(data, head.path, "/x");
    assert_int_equal(head.head_bytes, strlen(data));
    expect_bad_request("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", EMPTY_LINES);
    expect_bad_request("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", BARE_LF);
    expect_bad_request("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", BARE_CR);
    expect_bad_request("\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", BARE_LF);
    expect_bad_request("\r\n GET / HTTP/1.1\r\nHost: a\r\n\r\n", METHOD);
}

/* ---- line ends ---- */

TEST(a_line_feed_alone_ends_no_line)
{
    expect_bad_request("GET / HTTP/1.1\nHost: a\r\n\r\n", BARE_LF);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\n\r\n", BARE_LF);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\n\n", BARE_LF);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\n\n", BARE_LF);
    expect_bad_request("GET / HTTP/1.1\r\nHost:\n a\r\n\r\n", BARE_LF);
    expect_bad_request("GET / HTTP/1.1\r\nHo\nst: a\r\n\r\n", BARE_LF);
    expect_bad_request("GET /\nHTTP/1.1\r\nHost: a\r\n\r\n", BARE_LF);
    expect_bad_request("GET / HTTP\n/1.1\r\nHost: a\r\n\r\n", BARE_LF);
    expect_bad_request("GET\n/ HTTP/1.1\r\nHost: a\r\n\r\n", BARE_LF);
}

TEST(a_carriage_return_is_followed_by_a_line_feed_or_is_a_fault)
{
    expect_bad_request("GET / HTTP/1.1\r\rHost: a\r\n\r\n", BARE_CR);
    expect_bad_request("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", BARE_CR);
    expect_bad_request("GET / HTTP/1.1\rHost: a\r\n\r\n", BARE_CR);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", BARE_CR);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", BARE_CR);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\n\rX", BARE_CR);
    expect_bad_request("GET / HTTP/1.1\r\nHost:\ra\r\n\r\n", BARE_CR);
    expect_more("GET / HTTP/1.1\r\nHost: a\r\n\r");
}

/* ---- fields ---- */

TEST(field_names_are_tokens)
{
    for (int c = 0; c < 256; c++) {
        text.bytes = 0;
        add(&text, "GET / HTTP/1.1\r\nHost: a\r\nX-Some");
        add_times(&text, (char)c, 1);
        add(&text, "Name: value\r\n\r\n");
        struct reading reading = request_reading(slice_of(&text));
        struct weir_http1_head head;
        if (c == ':' || (c != 0 && strchr("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                                          c) != NULL)) {
            accept_head(&reading, &head);
        } else {
            enum weir_http_fault fault = c == '\n'               ? WEIR_HTTP_FAULT_BARE_LF
                                         : c == ' ' || c == '\t' ? WEIR_HTTP_FAULT_SPACE_IN_NAME
                                                                 : WEIR_HTTP_FAULT_NAME;
            expect_fault(&reading, fault);
        }
    }
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", NAME);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\nno-colon\r\n\r\n", NAME);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\n\0: x\r\n\r\n", NAME);
}

TEST(a_field_name_has_at_most_255_characters)
{
    for (size_t bytes = 254; bytes <= 256; bytes++) {
        text.bytes = 0;
        add(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
        add_times(&text, 'n', bytes);
        add(&text, ": v\r\nAccept: */*\r\n\r\n");
        struct reading reading = request_reading(slice_of(&text));
        struct weir_http1_head head;
        if (bytes <= WEIR_HTTP1_NAME_BYTES_MAX) {
            accept_head(&reading, &head);
            assert_int_equal(head.fields[1].name_bytes, bytes);
        } else {
            expect_fault(&reading, WEIR_HTTP_FAULT_NAME_LONG);
        }
    }
}

TEST(no_blank_stands_before_a_colon)
{
    expect_bad_request("GET / HTTP/1.1\r\nHost : a\r\n\r\n", SPACE_IN_NAME);
    expect_bad_request("GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", SPACE_IN_NAME);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
                       SPACE_IN_NAME);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\nA b: c\r\n\r\n", SPACE_IN_NAME);
}

TEST(no_line_begins_with_a_blank)
{
    expect_bad_request("GET / HTTP/1.1\r\n Host: a\r\n\r\n", FOLDED);
    expect_bad_request("GET / HTTP/1.1\r\n\tHost: a\r\n\r\n", FOLDED);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", FOLDED);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\t2\r\n\r\n", FOLDED);
    expect_bad_request("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n \r\n\r\n", FOLDED);
}

TEST(values_have_no_control_characters_but_tabs)
{
    for (int c = 0; c < 256; c++) {
        text.bytes = 0;
        add(&text, "GET / HTTP/1.1\r\nHost: a\r\nX: some longer value");
        add_times(&text, (char)c, 1);
        add(&text, "and its end\r\n\r\n");
        struct reading reading = request_reading(slice_of(&text));
        struct weir_http1_head head;
        if (c == '\t' || (c >= 0x20 && c != 0x7f)) {
            accept_head(&reading, &head);
            assert_int_equal(head.fields[1].value_bytes, strlen("some longer value.and its end"));
        } else {
            enum weir_http_fault fault = c == '\n'   ? WEIR_HTTP_FAULT_BARE_LF
                                         : c == '\r' ? WEIR_HTTP_FAULT_BARE_CR
                                                     : WEIR_HTTP_FAULT_VALUE;
            expect_fault(&reading, fault);
        }
    }
}

TEST(blanks_around_a_value_are_not_part_of_it)
{
    static const struct {
        const char *line;
        const char *value;
    } lines[] = {
        {"X:v", "v"},
        {"X: v", "v"},
        {"X:\tv", "v"},
        {"X: \t  v \t ", "v"},
        {"X:v ", "v"},
        {"X:", ""},
        {"X: ", ""},
        {"X: \t \t", ""},
        {"X: a b", "a b"},
        {"X: a\tb ", "a\tb"},
        {"X: :", ":"},
        {"X: \xff ", "\xff"},
        {"X:                                  far         ", "far"},
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        text.bytes = 0;
        add(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
        add(&text, lines[i].line);
        add(&text, "\r\n\r\n");
        struct weir_http1_head head = accept_request(slice_of(&text));
        expect_text(weir_http1_value(text.data, &head.fields[1]), lines[i].value);
    }
}

TEST(known_fields_are_found_by_number_and_all_by_name)
{
    static const char data[] = "GET / HTTP/1.1\r\nHOST: a\r\nx-one: 1\r\nCookie: b\r\nX-One: 2\r\n"
                               "cookie: c\r\nLast: 3\r\n\r\n";
    bool repeated;
    struct weir_http1_head head = accept_request(BYTES(data));
    assert_ptr_equal(weir_http1_find(&head, WEIR_FIELD_HOST), &head.fields[0]);
    assert_ptr_equal(weir_http1_find(&head, WEIR_FIELD_COOKIE), &head.fields[2]);
    assert_null(weir_http1_find(&head, WEIR_FIELD_EXPECT));
    assert_true((head.repeated & WEIR_FIELD_BIT(COOKIE)) != 0);
    assert_true((head.repeated & WEIR_FIELD_BIT(HOST)) == 0);
    assert_ptr_equal(weir_http1_find_name(&head, data, weir_slice_of("X-ONE"), &repeated),
                     &head.fields[1]);
    assert_true(repeated);
    assert_ptr_equal(weir_http1_find_name(&head, data, weir_slice_of("last"), &repeated),
                     &head.fields[5]);
    assert_false(repeated);
    assert_ptr_equal(weir_http1_find_name(&head, data, weir_slice_of("Cookie"), NULL),
                     &head.fields[2]);
    assert_ptr_equal(weir_http1_find_name(&head, data, weir_slice_of("Host"), NULL),
                     &head.fields[0]);
    assert_null(weir_http1_find_name(&head, data, weir_slice_of("none"), &repeated));
    assert_false(repeated);
}

/* ---- limits ---- */

/* The request line of so many bytes, its CRLF included. */
static void add_line(struct text *request, size_t bytes)
{
    static const char start[] = "GET /";
    static const char end[] = " HTTP/1.1\r\n";
    add(request, start);
    add_times(request, 'p', bytes - strlen(start) - strlen(end));
    add(request, end);
}

TEST(the_first_line_has_its_limit_to_the_byte)
{
    for (size_t bytes = 63; bytes <= 65; bytes++) {
        text.bytes = 0;
        add_line(&text, bytes);
        add(&text, "Host: a\r\n\r\n");
        struct reading reading = request_reading(slice_of(&text));
        reading.limits = limits_of(64, 1024, 10);
        if (bytes <= 64) {
            struct weir_http1_head head;
            accept_head(&reading, &head);
        } else {
            expect_fault(&reading, WEIR_HTTP_FAULT_LINE_LONG);
        }
    }
    assert_int_equal(weir_http_fault_status(WEIR_HTTP_FAULT_LINE_LONG), 414);
}

TEST(an_empty_line_before_a_request_does_not_count_as_its_line)
{
    for (size_t bytes = 64; bytes <= 65; bytes++) {
        text.bytes = 0;
        add(&text, "\r\n");
        add_line(&text, bytes);
        add(&text, "Host: a\r\n\r\n");
        struct reading reading = request_reading(slice_of(&text));
        reading.limits = limits_of(64, 1024, 10);
        struct weir_http1_head head;
        if (bytes == 64) {
            accept_head(&reading, &head);
        } else {
            expect_fault(&reading, WEIR_HTTP_FAULT_LINE_LONG);
        }
    }
}

TEST(a_line_that_reaches_its_limit_incomplete_is_refused_at_once)
{
    text.bytes = 0;
    add(&text, "GET /");
    add_times(&text, 'p', 59);
    struct reading reading = request_reading(slice_of(&text));
    reading.limits = limits_of(64, 1024, 10);
    assert_int_equal(text.bytes, 64);
    expect_fault(&reading, WEIR_HTTP_FAULT_LINE_LONG);
    reading.bytes.bytes = 63;
    struct weir_http1_head head;
    assert_int_equal(read_head(&reading, &head), WEIR_HTTP1_NEED_MORE);
}

TEST(the_head_has_its_limit_to_the_byte)
{
    for (size_t bytes = 199; bytes <= 201; bytes++) {
        text.bytes = 0;
        add(&text, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
        add_times(&text, 'v', bytes - text.bytes - 4);
        add(&text, "\r\n\r\n");
        assert_int_equal(text.bytes, bytes);
        struct reading reading = request_reading(slice_of(&text));
        reading.limits = limits_of(64, 200, 10);
        if (bytes <= 200) {
            struct weir_http1_head head;
            accept_head(&reading, &head);
            assert_int_equal(head.head_bytes, bytes);
        } else {
            expect_fault(&reading, WEIR_HTTP_FAULT_HEAD_LONG);
        }
    }
    assert_int_equal(weir_http_fault_status(WEIR_HTTP_FAULT_HEAD_LONG), 431);
}

TEST(a_fault_beyond_the_limit_is_not_seen)
{
    text.bytes = 0;
    add(&text, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
    add_times(&text, 'v', 200 - text.bytes);
    add_bytes(&text, "\0\n", 2);
    struct reading reading = request_reading(slice_of(&text));
    reading.limits = limits_of(64, 200, 10);
    expect_fault(&reading, WEIR_HTTP_FAULT_HEAD_LONG);
    text.data[199] = '\0';
    expect_fault(&reading, WEIR_HTTP_FAULT_VALUE);
}

TEST(the_largest_head_has_65535_bytes)
{
    for (size_t bytes = 65534; bytes <= 65536; bytes++) {
        text.bytes = 0;
        add(&text, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
        add_times(&text, 'v', bytes - text.bytes - 4);
        add(&text, "\r\n\r\n");
        add_times(&text, 'b', 70000); /* of a body */
        struct reading reading = request_reading(slice_of(&text));
        reading.limits = limits_of(65535, 65535, 100);
        struct weir_http1_head head;
        if (bytes <= WEIR_HTTP1_HEAD_BYTES_MAX) {
            accept_head(&reading, &head);
            assert_int_equal(head.fields[1].value_bytes,
                             bytes - 4 - strlen("GET / HTTP/1.1\r\nHost: a\r\nX: "));
        } else {
            expect_fault(&reading, WEIR_HTTP_FAULT_HEAD_LONG);
        }
    }
}

TEST(the_number_of_fields_has_its_limit)
{
    static const uint16_t limits[] = {1, 2, 99, 100};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        for (uint16_t count = (uint16_t)(limits[i] - 1); count <= limits[i] + 1; count++) {
            text.bytes = 0;
            add(&text, "GET / HTTP/1.0\r\n");
            for (uint16_t field = 0; field < count; field++) {
                add(&text, "Some-Field: value\r\n");
            }
            add(&text, "\r\n");
            struct reading reading = request_reading(slice_of(&text));
            reading.limits.fields_max = limits[i];
            struct weir_http1_head head;
            if (count <= limits[i]) {
                accept_head(&reading, &head);
                assert_int_equal(head.field_count, count);
            } else {
                expect_fault(&reading, WEIR_HTTP_FAULT_FIELDS_MANY);
            }
        }
    }
    assert_int_equal(weir_http_fault_status(WEIR_HTTP_FAULT_FIELDS_MANY), 431);
}

TEST(limits_are_valid_at_their_bounds_and_not_beyond)
{
    assert_true(weir_http1_limits_valid(WEIR_HTTP1_LIMITS_DEFAULT));
    assert_true(weir_http1_limits_valid(limits_of(16, 16, 1)));
    assert_true(weir_http1_limits_valid(limits_of(65535, 65535, 100)));
    assert_false(weir_http1_limits_valid(limits_of(15, 16, 1)));
    assert_false(weir_http1_limits_valid(limits_of(17, 16, 1)));
    assert_false(weir_http1_limits_valid(limits_of(16, 16, 0)));
    assert_false(weir_http1_limits_valid(limits_of(16, 16, 101)));
}

static void init_with_bad_limits(void *argument)
{
    weir_http1_init_request(argument, limits_of(15, 16, 1));
}

TEST(invalid_limits_are_a_broken_contract)
{
    struct weir_http1_head head;
    expect_abort(init_with_bad_limits, &head, "weir_http1_limits_valid");
}

/* ---- the two ways of reading ---- */

/* Where blocks of bytes begin and end must not matter, so every length of everything is tried. */
TEST(every_length_of_method_target_name_and_value_is_read_alike)
{
    for (size_t bytes = 1; bytes <= 40; bytes++) {
        text.bytes = 0;
        add_times(&text, 'M', bytes > 32 ? 32 : bytes);
        add(&text, " /");
        add_times(&text, 't', bytes);
        add(&text, " HTTP/1.0\r\n");
        add_times(&text, 'n', bytes);
        add(&text, ":");
        add_times(&text, ' ', bytes % 3);
        add_times(&text, 'v', bytes);
        add_times(&text, '\t', bytes % 4);
        add(&text, "\r\n");
        add_times(&text, 'm', bytes);
        add(&text, ":\r\n\r\n");
        struct weir_http1_head head = accept_request(slice_of(&text));
        assert_int_equal(head.target.bytes, bytes + 1);
        assert_int_equal(head.fields[0].name_bytes, bytes);
        assert_int_equal(head.fields[0].value_bytes, bytes);
        assert_int_equal(head.fields[1].name_bytes, bytes);
        assert_int_equal(head.fields[1].value_bytes, 0);
    }
}

/* Random bytes from an alphabet that often makes sense, so that all states meet all bytes. */
TEST(random_heads_are_read_alike_however_they_arrive)
{
    static const char *const pieces[] = {
        "GET ",
        "POST ",
        "/",
        "*",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "\r\n",
        "\r",
        "\n",
        " ",
        "\t",
        ":",
        "Host: a\r\n",
        "Host",
        ": ",
        "a",
        "\r\n\r\n",
        "Content-Length: 1\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: ",
        "close",
        ",",
        "keep-alive",
        "upgrade",
        "\x7f",
        "\xff",
        "0",
        "Expect: 100-continue\r\n",
        "#",
        "?",
        "X-Long-Name-That-Goes-On-And-On: ",
        "http://h/",
        "Upgrade: websocket\r\n",
    };
    uint64_t seed = 7;
    struct weir_http1_head head;
    size_t done = 0;
    for (int round = 0; round < 3000; round++) {
        text.bytes = 0;
        if (next_random(&seed) % 4 != 0) {
            add(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
        }
        size_t count = next_random(&seed) % 12;
        for (size_t i = 0; i < count; i++) {
            add(&text, pieces[next_random(&seed) % COUNT_OF(pieces)]);
        }
        struct reading reading = request_reading(slice_of(&text));
        done += read_head(&reading, &head) == WEIR_HTTP1_DONE;
    }
    assert_true(done > 100); /* it is not only nonsense */
}

/* Wherever it stands: the fast way reads blocks, and what is left of them byte by byte. */
TEST(a_head_says_whether_it_has_a_name_with_rarer_characters)
{
    static const struct {
        const char *fields;
        bool odd;
    } cases[] = {
        {"", false},
        {"A-1: b_c\r\n", false},
        {"A_1: b\r\n", true},
        {"A.1: b\r\nB: c\r\nAccept: d, and much more of it behind it\r\n", true},
        {"B: c\r\nAccept: d, and much more of it behind it\r\nA_: b\r\n", true},
        {"A-name-that-is-longer-than-a-block-of-16_: b\r\n", true},
        {"A-name-that-is-longer-than-a-block-of-16-: b\r\n", false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_http1_head head;
        text.bytes = 0;
        add(&text, "GET /a_b HTTP/1.1\r\nHost: a_b\r\n");
        add(&text, cases[i].fields);
        add(&text, "\r\n");
        struct reading reading = request_reading(slice_of(&text));
        accept_head(&reading, &head); /* in every way in which it may arrive */
        assert_int_equal(head.has_odd_name, cases[i].odd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_usual_request_is_read_in_full),
        cmocka_unit_test(a_request_needs_more_until_its_last_byte),
        cmocka_unit_test(nothing_needs_more_even_without_a_buffer),
        cmocka_unit_test(what_follows_a_head_is_not_looked_at),
        cmocka_unit_test(two_requests_in_a_row_are_read_one_after_the_other),
        cmocka_unit_test(methods_are_recognised_and_any_other_token_is_let_through),
        cmocka_unit_test(a_method_has_at_most_32_characters),
        cmocka_unit_test(a_method_that_is_no_token_is_refused),
        cmocka_unit_test(every_byte_of_a_target_is_visible_ascii_and_no_number_sign),
        cmocka_unit_test(single_spaces_separate_the_parts_of_the_request_line),
        cmocka_unit_test(fields_do_not_stand_before_the_request_line),
        cmocka_unit_test(versions_are_1_0_and_1_1_and_nothing_else),
        cmocka_unit_test(one_empty_line_before_a_request_is_skipped_and_no_more),
        cmocka_unit_test(a_line_feed_alone_ends_no_line),
        cmocka_unit_test(a_carriage_return_is_followed_by_a_line_feed_or_is_a_fault),
        cmocka_unit_test(field_names_are_tokens),
        cmocka_unit_test(a_field_name_has_at_most_255_characters),
        cmocka_unit_test(no_blank_stands_before_a_colon),
        cmocka_unit_test(no_line_begins_with_a_blank),
        cmocka_unit_test(values_have_no_control_characters_but_tabs),
        cmocka_unit_test(blanks_around_a_value_are_not_part_of_it),
        cmocka_unit_test(known_fields_are_found_by_number_and_all_by_name),
        cmocka_unit_test(the_first_line_has_its_limit_to_the_byte),
        cmocka_unit_test(an_empty_line_before_a_request_does_not_count_as_its_line),
        cmocka_unit_test(a_line_that_reaches_its_limit_incomplete_is_refused_at_once),
        cmocka_unit_test(the_head_has_its_limit_to_the_byte),
        cmocka_unit_test(a_fault_beyond_the_limit_is_not_seen),
        cmocka_unit_test(the_largest_head_has_65535_bytes),
        cmocka_unit_test(the_number_of_fields_has_its_limit),
        cmocka_unit_test(limits_are_valid_at_their_bounds_and_not_beyond),
        cmocka_unit_test(invalid_limits_are_a_broken_contract),
        cmocka_unit_test(every_length_of_method_target_name_and_value_is_read_alike),
        cmocka_unit_test(random_heads_are_read_alike_however_they_arrive),
        cmocka_unit_test(a_head_says_whether_it_has_a_name_with_rarer_characters),
    };
    return cmocka_run_group_tests_name("http1", tests, NULL, NULL);
}
