/* What the gateway answers for itself: every reply is read by the parser, and its document by a
 * JSON library that is not ours. */
#include "gates/problem.h"

#include "unit/wire.h"

#include <jansson.h>

static char out_data[WEIR_BUFFER_MIDDLE + 1];
static struct weir_buffer out;
static struct weir_http1_head head;
static json_t *document;

static void begin_out(uint32_t capacity)
{
    memset(out_data, '?', sizeof out_data);
    out = (struct weir_buffer){.data = out_data, .capacity = capacity};
}

static struct weir_slice body(void)
{
    return (struct weir_slice){out_data + head.head_bytes, out.end - head.head_bytes};
}

static void write_with(const struct weir_problem *problem, bool keep_alive)
{
    begin_out(WEIR_BUFFER_MIDDLE);
    assert_true(weir_problem_write(problem, keep_alive, true, &out));
    head = accept_response(weir_buffer_slice(&out), WEIR_METHOD_GET);
    assert_int_equal(head.status, problem->status);
    assert_int_equal(head.framing, WEIR_FRAMING_LENGTH);
    assert_int_equal(head.content_length, body().bytes);
    assert_int_equal(head.persists, keep_alive);
    json_decref(document);
    document = json_loadb(body().data, body().bytes, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(document)) {
        fail_msg("no document: %.*s", (int)body().bytes, body().data);
    }
    assert_int_equal(body().data[body().bytes - 1], '\n');
}

static void write_problem(const struct weir_problem *problem)
{
    write_with(problem, true);
}

static bool wrap(const void *context, const struct weir_problem *problem, struct weir_json *json)
{
    if (context == NULL) {
        return false;
    }
    weir_json_open(json, '{');
    weir_json_put_string(json, "text", weir_slice_of(context));
    weir_json_name(json, "problem");
    weir_problem_put(json, problem);
    weir_json_put_number(json, "more", 1);
    weir_json_close(json, '}');
    return true;
}

static int forget_document(void **test_state __attribute__((unused)))
{
    json_decref(document);
    document = NULL;
    return 0;
}

static const char *text_of(const char *name)
{
    const char *text = json_string_value(json_object_get(document, name));
    if (text == NULL) {
        fail_msg("%s is no text", name);
    }
    return text;
}

static int64_t number_of(const char *name)
{
    assert_true(json_is_integer(json_object_get(document, name)));
    return json_integer_value(json_object_get(document, name));
}

static void expect_null(const char *name)
{
    assert_true(json_is_null(json_object_get(document, name)));
}

static void expect_field(const char *name, const char *value)
{
    bool repeated;
    const struct weir_http1_field *field =
        weir_http1_find_name(&head, out_data, weir_slice_of(name), &repeated);
    if (field == NULL || repeated) {
        fail_msg("%s is %s", name, field == NULL ? "missing" : "repeated");
    }
    expect_text(weir_http1_value(out_data, field), value);
}

static void expect_no_field(const char *name)
{
    assert_null(weir_http1_find_name(&head, out_data, weir_slice_of(name), NULL));
}

static const struct weir_problem plain = {
    .kind = WEIR_PROBLEM_NO_ROUTE, .status = 404, .detail = "Nothing is there."};

static const struct weir_key_stats busy = {.active = 3, .waiting = 5, .limit = 4};

static struct weir_problem refusal(void)
{
    return (struct weir_problem){.kind = WEIR_PROBLEM_LINE_TIMEOUT,
                                 .status = 429,
                                 .detail = "It waited.",
                                 .stats = &busy,
                                 .gate = weir_slice_of("llm"),
                                 .key = weir_slice_of("gpt"),
                                 .flow = weir_slice_of("f1"),
                                 .tenant = weir_slice_of("acme"),
                                 .waited_ns = 2 * SECOND + 999999,
                                 .timeout_ns = 3 * SECOND,
                                 .retry_ns = SECOND};
}

/* ---- kinds ---- */

TEST(every_kind_has_a_type_and_a_title_of_its_own)
{
    static char types[WEIR_PROBLEM_COUNT][64];
    static char titles[WEIR_PROBLEM_COUNT][128];
    for (int kind = 0; kind < WEIR_PROBLEM_COUNT; kind++) {
        struct weir_problem problem = plain;
        problem.kind = (enum weir_problem_kind)kind;
        write_problem(&problem);
        snprintf(types[kind], sizeof types[kind], "%s", text_of("type"));
        snprintf(titles[kind], sizeof titles[kind], "%s", text_of("title"));
        assert_int_equal(strncmp(types[kind], "urn:weir:", 9), 0);
        assert_true(strspn(types[kind] + 9, "abcdefghijklmnopqrstuvwxyz-") ==
                    strlen(types[kind]) - 9);
        assert_true(strlen(types[kind]) > 9);
        assert_true(strlen(titles[kind]) > 3);
        for (int other = 0; other < kind; other++) {
            assert_string_not_equal(types[other], types[kind]);
            assert_string_not_equal(titles[other], titles[kind]);
        }
    }
    write_problem(&plain);
    assert_string_equal(text_of("type"), "urn:weir:no-route");
    assert_string_equal(text_of("title"), "No route leads there");
}

TEST(a_plain_problem_tells_four_things_and_no_more)
{
    write_problem(&plain);
    assert_int_equal(json_object_size(document), 4);
    assert_string_equal(text_of("detail"), "Nothing is there.");
    assert_int_equal(number_of("status"), 404);
    expect_span(out_data, head.reason, "Not Found");
    expect_field("content-type", "application/problem+json");
    expect_field("connection", "keep-alive");
    expect_no_field("retry-after");
    expect_no_field("www-authenticate");
}

TEST(whoever_must_say_who_asks_is_told_how)
{
    struct weir_problem problem = plain;
    problem.kind = WEIR_PROBLEM_UNAUTHORIZED;
    problem.status = 401;
    write_problem(&problem);
    expect_field("www-authenticate", "Bearer");
    problem.kind = WEIR_PROBLEM_FORBIDDEN;
    problem.status = 403;
    write_problem(&problem);
    expect_no_field("www-authenticate");
}

TEST(the_id_of_the_request_stands_in_the_head_and_in_the_document)
{
    struct weir_problem problem = plain;
    problem.request_id = weir_slice_of("a \"b\"");
    write_problem(&problem);
    expect_field("x-request-id", "a \"b\"");
    assert_string_equal(text_of("request_id"), "a \"b\"");
    write_problem(&plain);
    expect_no_field("x-request-id");
    assert_null(json_object_get(document, "request_id"));
}

TEST(whether_the_connection_stays_open_is_said)
{
    write_with(&plain, true);
    expect_field("connection", "keep-alive");
    write_with(&plain, false);
    expect_field("connection", "close");
}

/* ---- refused tickets ---- */

TEST(a_refused_ticket_is_told_all_about)
{
    struct weir_problem problem = refusal();
    write_problem(&problem);
    assert_int_equal(json_object_size(document), 13);
    assert_string_equal(text_of("type"), "urn:weir:line-timeout");
    assert_string_equal(text_of("gate"), "llm");
    assert_string_equal(text_of("key"), "gpt");
    assert_string_equal(text_of("flow"), "f1");
    assert_string_equal(text_of("tenant"), "acme");
    assert_int_equal(number_of("active"), 3);
    assert_int_equal(number_of("waiting"), 5);
    assert_int_equal(number_of("limit"), 4);
    assert_int_equal(number_of("waited_ms"), 2000);
    assert_int_equal(number_of("timeout_ms"), 3000);
    expect_field("retry-after", "1");
}

TEST(what_has_no_limit_or_no_timeout_is_null)
{
    struct weir_key_stats stats = busy;
    struct weir_problem problem = refusal();
    problem.stats = &stats;
    stats.limit = WEIR_LIMIT_NONE;
    problem.timeout_ns = WEIR_NEVER;
    write_problem(&problem);
    assert_int_equal(json_object_size(document), 13);
    expect_null("limit");
    expect_null("timeout_ms");
    stats.limit = 0;
    problem.timeout_ns = 0;
    write_problem(&problem);
    assert_int_equal(number_of("limit"), 0);
    assert_int_equal(number_of("timeout_ms"), 0);
    stats.limit = WEIR_LIMIT_NONE - 1;
    problem.timeout_ns = WEIR_NEVER - 1;
    write_problem(&problem);
    assert_int_equal(number_of("limit"), WEIR_LIMIT_NONE - 1);
    assert_true(number_of("timeout_ms") == (int64_t)((WEIR_NEVER - 1) / 1000000));
}

TEST(names_may_be_empty)
{
    struct weir_problem problem = refusal();
    problem.flow = (struct weir_slice){NULL, 0};
    problem.tenant = weir_slice_of("");
    write_problem(&problem);
    assert_string_equal(text_of("flow"), "");
    assert_string_equal(text_of("tenant"), "");
}

TEST(when_to_come_back_is_told_in_whole_seconds_rounded_up_and_at_least_one)
{
    static const struct {
        uint64_t retry_ns;
        const char *expected;
    } cases[] = {
        {0, "1"},
        {1, "1"},
        {SECOND - 1, "1"},
        {SECOND, "1"},
        {SECOND + 1, "2"},
        {2 * SECOND - 1, "2"},
        {2 * SECOND, "2"},
        {2 * SECOND + 1, "3"},
        {HOUR, "3600"},
        {365 * DAY, "31536000"},
        {WEIR_NEVER - 1, "18446744074"},
    };
    struct weir_problem problem = refusal();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        problem.retry_ns = cases[i].retry_ns;
        write_problem(&problem);
        expect_field("retry-after", cases[i].expected);
    }
}

TEST(every_429_and_503_tells_when_to_come_back_and_nothing_else_does)
{
    static const uint16_t refusals[] = {429, 503};
    struct weir_problem problem = plain;
    problem.retry_ns = SECOND;
    write_problem(&problem);
    expect_no_field("retry-after");
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        problem.status = refusals[i];
        problem.retry_ns = WEIR_NEVER;
        write_problem(&problem);
        expect_field("retry-after", "1");
        expect_no_field("x-should-retry");
    }
}

TEST(clients_that_would_sleep_for_more_than_a_minute_are_asked_not_to_retry)
{
    struct weir_problem problem = refusal();
    problem.retry_ns = 60 * SECOND;
    write_problem(&problem);
    expect_no_field("x-should-retry");
    problem.retry_ns = 60 * SECOND + 1;
    write_problem(&problem);
    expect_field("x-should-retry", "false");
    problem.retry_ns = SECOND;
    problem.kind = WEIR_PROBLEM_BUDGET_SPENT;
    write_problem(&problem);
    expect_field("x-should-retry", "false");
    problem.kind = WEIR_PROBLEM_QUOTA_SPENT;
    write_problem(&problem);
    expect_field("x-should-retry", "false");
}

/* ---- names are somebody's bytes ---- */

TEST(a_name_may_hold_quotes_and_control_characters)
{
    struct weir_problem problem = refusal();
    problem.gate = weir_slice_of("a\"b\\c/");
    problem.key = weir_slice_of("\r\nX-Smuggled: 1\r\n\r\n");
    problem.flow = weir_slice_of("\x01\x1f\t\b\f\x7f");
    problem.tenant = weir_slice_of("</script>\xe2\x80\xa8");
    problem.detail = "Say \"please\"\n.";
    write_problem(&problem);
    assert_string_equal(text_of("gate"), "a\"b\\c/");
    assert_string_equal(text_of("key"), "\r\nX-Smuggled: 1\r\n\r\n");
    assert_string_equal(text_of("flow"), "\x01\x1f\t\b\f\x7f");
    assert_string_equal(text_of("tenant"), "</script>\xe2\x80\xa8");
    assert_string_equal(text_of("detail"), "Say \"please\"\n.");
    expect_no_field("x-smuggled");
    assert_null(memchr(body().data, '\r', body().bytes));
    assert_ptr_equal(memchr(body().data, '\n', body().bytes), body().data + body().bytes - 1);
}

TEST(what_is_not_utf8_in_a_name_is_replaced)
{
    struct weir_problem problem = refusal();
    problem.gate = weir_slice_of("a\xff"
                                 "b");
    problem.key = weir_slice_of("\xc3");
    problem.flow = weir_slice_of("\xc0\xaf");
    problem.tenant = weir_slice_of("\xc3\xa4\xed\xa0\x80");
    write_problem(&problem);
    assert_string_equal(text_of("gate"), "a\xef\xbf\xbd"
                                         "b");
    assert_string_equal(text_of("key"), "\xef\xbf\xbd");
    assert_non_null(strstr(text_of("flow"), "\xef\xbf\xbd"));
    assert_int_equal(strncmp(text_of("tenant"), "\xc3\xa4\xef\xbf\xbd", 5), 0);
}

TEST(a_nul_in_a_name_is_written_as_an_escape)
{
    struct weir_problem problem = refusal();
    problem.key = BYTES("a\0b");
    begin_out(WEIR_BUFFER_MIDDLE);
    assert_true(weir_problem_write(&problem, true, true, &out));
    assert_null(memchr(out_data, '\0', out.end));
    out_data[out.end] = '\0';
    assert_non_null(strstr(out_data, "\"a\\u0000b\""));
}

TEST(the_methods_that_there_are_stand_in_a_field)
{
    struct weir_problem problem = {
        .kind = WEIR_PROBLEM_BAD_REQUEST, .status = 405, .detail = "No.", .allow = "GET, HEAD"};
    begin_out(WEIR_BUFFER_MIDDLE);
    assert_true(weir_problem_write(&problem, true, true, &out));
    out_data[out.end] = '\0';
    assert_non_null(strstr(out_data, "\r\nallow: GET, HEAD\r\n"));
    problem.allow = NULL;
    begin_out(WEIR_BUFFER_MIDDLE);
    assert_true(weir_problem_write(&problem, true, true, &out));
    out_data[out.end] = '\0';
    assert_null(strstr(out_data, "allow:"));
}

TEST(a_name_is_read_to_its_end_and_not_beyond)
{
    struct weir_problem problem = refusal();
    problem.key = (struct weir_slice){guarded(weir_slice_of("a\xe2\x82")), 3};
    begin_out(WEIR_BUFFER_MIDDLE);
    assert_true(weir_problem_write(&problem, true, true, &out));
}

/* Six bytes for one is the most that there is. */
TEST(the_longest_names_fit_whatever_they_hold)
{
    static const char worst[] = {'\x01', '"', '\xff', 'n'};
    static char name[WEIR_NAME_BYTES_MAX];
    for (size_t i = 0; i < COUNT_OF(worst); i++) {
        struct weir_slice longest = {name, sizeof name};
        struct weir_problem problem = refusal();
        memset(name, worst[i], sizeof name);
        problem.gate = problem.key = problem.flow = problem.tenant = longest;
        write_problem(&problem);
        assert_int_equal(json_string_length(json_object_get(document, "key")),
                         worst[i] == '\xff' ? 3 * sizeof name : sizeof name);
    }
}

TEST(a_detail_that_is_too_long_fails_and_leaves_the_buffer)
{
    static char detail[13000];
    struct weir_problem problem = plain;
    memset(detail, 'd', sizeof detail - 1);
    problem.detail = detail;
    begin_out(WEIR_BUFFER_MIDDLE);
    assert_false(weir_problem_write(&problem, true, true, &out));
    assert_int_equal(out.end, 0);
}

/* ---- HEAD, and room ---- */

TEST(without_its_body_a_reply_still_announces_the_length)
{
    struct weir_problem problem = refusal();
    write_problem(&problem);
    uint32_t head_bytes = head.head_bytes;
    static char whole[4096];
    memcpy(whole, out_data, out.end);
    begin_out(WEIR_BUFFER_MIDDLE);
    assert_true(weir_problem_write(&problem, true, false, &out));
    assert_int_equal(out.end, head_bytes);
    assert_memory_equal(out_data, whole, head_bytes);
    accept_response(weir_buffer_slice(&out), WEIR_METHOD_HEAD);
    begin_out(head_bytes);
    assert_true(weir_problem_write(&problem, true, false, &out));
}

TEST(a_reply_is_written_behind_what_is_in_the_buffer)
{
    begin_out(WEIR_BUFFER_MIDDLE);
    memcpy(out_data, "abc", 3);
    out.begin = 1;
    out.end = 3;
    assert_true(weir_problem_write(&plain, true, true, &out));
    assert_int_equal(out.begin, 1);
    assert_memory_equal(out_data, "abcHTTP/1.1 404 Not Found\r\n", 27);
    accept_response((struct weir_slice){out_data + 3, out.end - 3}, WEIR_METHOD_GET);
}

TEST(a_reply_that_does_not_fit_fails_to_the_byte)
{
    struct weir_problem problem = refusal();
    for (int with_body = 0; with_body < 2; with_body++) {
        begin_out(WEIR_BUFFER_MIDDLE);
        assert_true(weir_problem_write(&problem, true, with_body != 0, &out));
        uint32_t needed = out.end;
        for (uint32_t capacity = 0; capacity <= needed + 1; capacity++) {
            begin_out(capacity);
            bool fits = weir_problem_write(&problem, true, with_body != 0, &out);
            assert_int_equal(fits, capacity >= needed);
            assert_int_equal(out.end, fits ? needed : 0);
            assert_int_equal(out_data[capacity], '?');
        }
    }
}

TEST(another_document_takes_its_place)
{
    struct weir_problem problem = {.kind = WEIR_PROBLEM_BAD_REQUEST,
                                   .status = 400,
                                   .detail = "Say it in another way.",
                                   .replace = wrap,
                                   .context = "outside"};
    write_problem(&problem);
    expect_field("content-type", "application/json");
    assert_string_equal(text_of("text"), "outside");
    assert_int_equal(number_of("more"), 1);
    json_t *inside = json_object_get(document, "problem");
    assert_string_equal(json_string_value(json_object_get(inside, "type")), "urn:weir:bad-request");
    assert_string_equal(json_string_value(json_object_get(inside, "detail")),
                        "Say it in another way.");
}

TEST(the_usual_document_stays_where_there_is_no_other)
{
    struct weir_problem problem = {
        .kind = WEIR_PROBLEM_BAD_REQUEST, .status = 400, .detail = "No.", .replace = wrap};
    write_problem(&problem);
    expect_field("content-type", "application/problem+json");
    assert_string_equal(text_of("type"), "urn:weir:bad-request");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_a_type_and_a_title_of_its_own),
        cmocka_unit_test(a_plain_problem_tells_four_things_and_no_more),
        cmocka_unit_test(whoever_must_say_who_asks_is_told_how),
        cmocka_unit_test(the_id_of_the_request_stands_in_the_head_and_in_the_document),

        cmocka_unit_test(whether_the_connection_stays_open_is_said),
        cmocka_unit_test(a_refused_ticket_is_told_all_about),
        cmocka_unit_test(what_has_no_limit_or_no_timeout_is_null),
        cmocka_unit_test(names_may_be_empty),
        cmocka_unit_test(when_to_come_back_is_told_in_whole_seconds_rounded_up_and_at_least_one),
        cmocka_unit_test(every_429_and_503_tells_when_to_come_back_and_nothing_else_does),
        cmocka_unit_test(clients_that_would_sleep_for_more_than_a_minute_are_asked_not_to_retry),
        cmocka_unit_test(a_name_may_hold_quotes_and_control_characters),
        cmocka_unit_test(what_is_not_utf8_in_a_name_is_replaced),
        cmocka_unit_test(a_nul_in_a_name_is_written_as_an_escape),
        cmocka_unit_test(the_methods_that_there_are_stand_in_a_field),
        cmocka_unit_test(a_name_is_read_to_its_end_and_not_beyond),
        cmocka_unit_test(the_longest_names_fit_whatever_they_hold),
        cmocka_unit_test(a_detail_that_is_too_long_fails_and_leaves_the_buffer),
        cmocka_unit_test(without_its_body_a_reply_still_announces_the_length),
        cmocka_unit_test(a_reply_is_written_behind_what_is_in_the_buffer),
        cmocka_unit_test(a_reply_that_does_not_fit_fails_to_the_byte),
        cmocka_unit_test_teardown(another_document_takes_its_place, forget_document),
        cmocka_unit_test_teardown(the_usual_document_stays_where_there_is_no_other,
                                  forget_document),
    };
    return cmocka_run_group_tests_name("problem", tests, NULL, forget_document);
}
