/* Jobs in lines of JSON, and what single values may be: every line is read from memory that ends
 * where it does. */
#include "api/job_line.h"

#include "api/submit_head.h"
#include "unit/wire.h"

static struct weir_job_line line;
static char wrong[220];

static bool read_line(struct weir_slice bytes)
{
    memset(wrong, 0x5a, sizeof wrong);
    line = (struct weir_job_line){0};
    return weir_job_line_read(&line, (char *)guarded(bytes), bytes.bytes, wrong, sizeof wrong);
}

static void expect_good_of(struct weir_slice bytes)
{
    if (!read_line(bytes)) {
        fail_msg("%s For: %.*s", wrong, (int)bytes.bytes, bytes.data);
    }
}

static void expect_wrong_of(struct weir_slice bytes, const char *words)
{
    if (read_line(bytes)) {
        fail_msg("accepted: %.*s", (int)bytes.bytes, bytes.data);
    }
    if (memchr(wrong, '\0', sizeof wrong) == NULL || strstr(wrong, words) == NULL) {
        fail_msg("\"%.200s\" does not say \"%s\" for: %.*s", wrong, words, (int)bytes.bytes,
                 bytes.data);
    }
}

#define expect_good(literal)         expect_good_of(BYTES(literal))
#define expect_wrong(literal, words) expect_wrong_of(BYTES(literal), words)

/* ---- lines ---- */

TEST(an_empty_object_is_a_job_without_wishes_and_body)
{
    expect_good("{}");
    assert_int_equal(line.params.present, 0);
    assert_int_equal(line.body.bytes, 0);
    assert_false(line.is_json);
    expect_good(" { } ");
}

TEST(every_field_is_read)
{
    expect_good("{\"id\":\"a.b-c_1\",\"queue\":\"q\",\"tenant\":\"t\",\"priority\":\"low\","
                "\"delay\":\"1m30s\",\"attempts\":7,\"timeout\":\"250ms\",\"key\":\"k\","
                "\"cost\":\"90s\",\"body\":\"hello\"}");
    assert_int_equal(line.params.present, 1023 & ~WEIR_JOB_PARAM_RUN_AT);
    expect_text(line.params.id, "a.b-c_1");
    expect_text(line.params.queue, "q");
    expect_text(line.params.tenant, "t");
    expect_text(line.params.key, "k");
    assert_int_equal(line.params.priority, WEIR_PRIORITY_LOW);
    assert_int_equal(line.params.delay_ms, 90000);
    assert_int_equal(line.params.attempts, 7);
    assert_int_equal(line.params.timeout_ms, 250);
    assert_int_equal(line.params.cost_ms, 90000);
    expect_text(line.body, "hello");
    assert_false(line.is_json);
}

TEST(a_string_is_a_body_without_its_escapes)
{
    expect_good("{\"body\":\"a\\n\\u00e9\\ud83d\\ude00\\\"\\\\\\/b\",\"id\":\"x\"}");
    expect_text(line.body, "a\n\xc3\xa9\xf0\x9f\x98\x80\"\\/b");
    expect_text(line.params.id, "x");
    expect_good("{\"body\":\"\"}");
    assert_int_equal(line.body.bytes, 0);
}

TEST(any_other_json_is_a_body_as_it_stands)
{
    static const char *const values[] = {"{}",
                                         "[]",
                                         "{\"a\":[1, 2.50,{\"b\":\"}]\\\"\"}], \"c\" : null}",
                                         "[[[1]],[\"]\"]]",
                                         "0",
                                         "-1.5e+10",
                                         "123456789012345678901234567890",
                                         "true",
                                         "false",
                                         "null"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        static struct text text;
        for (int behind = 0; behind < 2; behind++) {
            text.bytes = 0;
            add(&text, behind ? "{\"id\":\"x\", \"body\" : " : "{\"body\":");
            add(&text, values[i]);
            add(&text, behind ? " }" : ",\"id\":\"x\"}");
            expect_good_of(slice_of(&text));
            assert_true(line.is_json);
            expect_text(line.body, values[i]);
            expect_text(line.params.id, "x");
        }
    }
}

TEST(what_is_meant_for_all_stays_where_a_line_says_nothing_else)
{
    struct weir_job_line given = {
        .params = {.present = WEIR_JOB_PARAM_PRIORITY | WEIR_JOB_PARAM_DELAY,
                   .priority = WEIR_PRIORITY_HIGH,
                   .delay_ms = 5}};
    line = given;
    assert_true(weir_job_line_read(&line, (char *)guarded(BYTES("{\"id\":\"x\"}")), 10, wrong,
                                   sizeof wrong));
    assert_int_equal(line.params.priority, WEIR_PRIORITY_HIGH);
    assert_int_equal(line.params.delay_ms, 5);
    line = given;
    static const char dated[] = "{\"run_at\":1767225600000}";
    assert_true(weir_job_line_read(&line, (char *)guarded(BYTES(dated)), sizeof dated - 1, wrong,
                                   sizeof wrong));
    struct weir_job_order order = {.created_ms = 1000};
    weir_job_params_apply(&line.params, &order);
    assert_true(order.dated);
    assert_int_equal(order.due_ms, INT64_C(1767225600000));
}

TEST(what_is_no_object_is_refused)
{
    expect_wrong("", "not a JSON object");
    expect_wrong("[]", "not a JSON object");
    expect_wrong("\"x\"", "not a JSON object");
    expect_wrong("1", "not a JSON object");
    expect_wrong("null", "not a JSON object");
    expect_wrong("{} {}", "byte 4");
    expect_wrong("{\"id\":\"x\"", "not a JSON object");
    expect_wrong("{\"id\":}", "not a JSON object");
    expect_wrong("{\"id\"}", "not a JSON object");
    expect_wrong("{\"body\":{}", "not a JSON object");
    expect_wrong("{\"body\":\"\xff\"}", "not a JSON object");
    expect_wrong("{\"body\":\"a", "not a JSON object");
}

TEST(a_line_that_ends_early_is_refused_wherever)
{
    struct weir_slice whole =
        BYTES("{\"id\":\"x\",\"attempts\":12,\"body\":{\"a\":[1,\"\\u00e9\",true]},\"key\":\"k\"}");
    expect_good_of(whole);
    for (size_t bytes = 0; bytes < whole.bytes; bytes++) {
        expect_wrong_of((struct weir_slice){whole.data, bytes}, "not a JSON object");
    }
}

TEST(a_field_that_nobody_knows_or_that_comes_twice_is_refused)
{
    expect_wrong("{\"nam\":\"x\"}", "field nam is not a field");
    expect_wrong("{\"\":\"x\"}", "is not a field");
    expect_wrong("{\"a-very-long-name-of-a-field\":1}", "field a-very-long-name is not a field");
    expect_wrong("{\"ids\":\"x\"}", "is not a field");
    expect_wrong("{\"body\":1,\"body\":2}", "body is given twice");
    expect_wrong("{\"id\":\"x\",\"id\":\"x\"}", "id is given twice");
    expect_wrong("{\"delay\":\"5s\",\"run_at\":1767225600000}", "do not go together");
}

TEST(a_value_of_another_type_is_refused)
{
    static const char *const others[] = {"null", "true", "1.5", "{}", "[]", "-1", "{\"a\":1}"};
    static const char *const names[] = {"id",       "queue",   "tenant", "priority", "delay",
                                        "attempts", "timeout", "key",    "cost",     "run_at"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (size_t j = 0; j < sizeof others / sizeof others[0]; j++) {
            static struct text text;
            text.bytes = 0;
            add(&text, "{\"");
            add(&text, names[i]);
            add(&text, "\":");
            add(&text, others[j]);
            add(&text, "}");
            expect_wrong_of(slice_of(&text), names[i]);
        }
    }
    expect_wrong("{\"delay\":5}", "delay must be a string");
}

/* ---- values ---- */

TEST(names_have_1_to_255_bytes)
{
    static const char *const names[] = {"queue", "tenant", "key"};
    for (size_t i = 0; i < 3; i++) {
        expect_good_of(with_text(names[i], 1));
        expect_good_of(with_text(names[i], 255));
        expect_wrong_of(with_text(names[i], 0), "1 to 255");
        expect_wrong_of(with_text(names[i], 256), "1 to 255");
    }
}

TEST(an_id_is_one_that_a_path_may_carry)
{
    expect_good_of(with_text("id", 128));
    expect_wrong_of(with_text("id", 129), "1 to 128");
    expect_wrong_of(with_text("id", 0), "1 to 128");
    expect_wrong("{\"id\":\"a b\"}", "letters, digits");
    expect_wrong("{\"id\":\"-a\"}", "first");
    expect_wrong("{\"id\":\"a/b\"}", "letters, digits");
}

TEST(priorities_are_written_exactly_so)
{
    expect_good("{\"priority\":\"high\"}");
    assert_int_equal(line.params.priority, WEIR_PRIORITY_HIGH);
    expect_good("{\"priority\":\"normal\"}");
    assert_int_equal(line.params.priority, WEIR_PRIORITY_NORMAL);
    expect_wrong("{\"priority\":\"High\"}", "high, normal or low");
    expect_wrong("{\"priority\":\"\"}", "high, normal or low");
}

TEST(durations_have_a_unit)
{
    expect_good("{\"delay\":\"0s\"}");
    expect_wrong("{\"delay\":\"5\"}", "duration");
    expect_wrong("{\"delay\":\"\"}", "duration");
    expect_wrong("{\"timeout\":\"0s\"}", "at least 1ms");
    expect_wrong("{\"cost\":\"0ms\"}", "at least 1ms");
    expect_good("{\"timeout\":\"1ms\"}");
    expect_wrong("{\"delay\":\"11000000000d\"}", "duration");
}

TEST(attempts_are_1_to_1000)
{
    expect_good("{\"attempts\":1}");
    expect_good("{\"attempts\":\"1000\"}");
    assert_int_equal(line.params.attempts, 1000);
    expect_wrong("{\"attempts\":0}", "1 to 1000");
    expect_wrong("{\"attempts\":1001}", "1 to 1000");
    expect_wrong("{\"attempts\":18446744073709551617}", "1 to 1000");
    expect_wrong("{\"attempts\":1e3}", "1 to 1000");
}

TEST(a_date_is_rfc_3339_or_milliseconds)
{
    expect_good("{\"run_at\":\"2026-01-01T00:00:00Z\"}");
    assert_int_equal(line.params.run_at_ms, INT64_C(1767225600000));
    expect_good("{\"run_at\":\"2026-01-01T02:00:00.125+02:00\"}");
    assert_int_equal(line.params.run_at_ms, INT64_C(1767225600125));
    expect_good("{\"run_at\":1767225600125}");
    assert_int_equal(line.params.run_at_ms, INT64_C(1767225600125));
    expect_good("{\"run_at\":\"1767225600125\"}");
    expect_wrong("{\"run_at\":1767225600}", "milliseconds"); /* seconds, most likely */
    expect_wrong("{\"run_at\":4102444800001}", "2100");
    expect_wrong("{\"run_at\":\"tomorrow\"}", "date");
    expect_wrong("{\"run_at\":\"5s\"}", "date");
    expect_wrong("{\"run_at\":\"2026-02-30T00:00:00Z\"}", "date");
    expect_wrong("{\"run_at\":\"\"}", "date");
}

TEST(an_order_keeps_what_is_not_wished_for)
{
    struct weir_job_order order = {.created_ms = 1000, .attempts_max = 5, .timeout_ms = 60000};
    expect_good("{}");
    weir_job_params_apply(&line.params, &order);
    assert_int_equal(order.attempts_max, 5);
    assert_int_equal(order.timeout_ms, 60000);
    assert_int_equal(order.due_ms, 0);
    assert_false(order.dated);
    expect_good("{\"delay\":\"2s\",\"attempts\":1,\"timeout\":\"1s\",\"cost\":\"3s\"}");
    weir_job_params_apply(&line.params, &order);
    assert_int_equal(order.due_ms, 3000);
    assert_int_equal(order.attempts_max, 1);
    assert_int_equal(order.timeout_ms, 1000);
    assert_int_equal(order.cost_ms, 3000);
    assert_false(order.dated);
}

TEST(a_name_is_known_only_where_it_may_stand)
{
    assert_int_equal(weir_job_params_find(BYTES("id"), WEIR_JOB_PARAM_QUERY), 0);
    assert_int_equal(weir_job_params_find(BYTES("id"), UINT32_MAX), WEIR_JOB_PARAM_ID);
    assert_int_equal(weir_job_params_find(BYTES("cost"), WEIR_JOB_PARAM_QUERY),
                     WEIR_JOB_PARAM_COST);
    assert_int_equal(weir_job_params_find(BYTES("Cost"), WEIR_JOB_PARAM_QUERY), 0);
}

static uint64_t patience_of(struct weir_slice text)
{
    uint64_t timeout_ns = 0;
    struct weir_slice value = {(const char *)guarded(text), text.bytes};
    return weir_submit_read_timeout(value, &timeout_ns) ? timeout_ns / 1000000 : UINT64_MAX;
}

TEST(nobody_waits_for_room_for_more_than_300_seconds)
{
    assert_int_equal(patience_of(BYTES("")), 30000);
    assert_int_equal(patience_of(BYTES("0s")), 0);
    assert_int_equal(patience_of(BYTES("50ms")), 50);
    assert_int_equal(patience_of(BYTES("299s")), 299000);
    assert_int_equal(patience_of(BYTES("5m")), 300000);
    assert_int_equal(patience_of(BYTES("301s")), 300000);
    assert_int_equal(patience_of(BYTES("3650d")), 300000);
    assert_int_equal(patience_of(BYTES("3651d")), UINT64_MAX);
    assert_int_equal(patience_of(BYTES("30")), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_object_is_a_job_without_wishes_and_body),
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(a_string_is_a_body_without_its_escapes),
        cmocka_unit_test(any_other_json_is_a_body_as_it_stands),
        cmocka_unit_test(what_is_meant_for_all_stays_where_a_line_says_nothing_else),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(a_line_that_ends_early_is_refused_wherever),
        cmocka_unit_test(a_field_that_nobody_knows_or_that_comes_twice_is_refused),
        cmocka_unit_test(a_value_of_another_type_is_refused),
        cmocka_unit_test(names_have_1_to_255_bytes),
        cmocka_unit_test(an_id_is_one_that_a_path_may_carry),
        cmocka_unit_test(priorities_are_written_exactly_so),
        cmocka_unit_test(durations_have_a_unit),
        cmocka_unit_test(attempts_are_1_to_1000),
        cmocka_unit_test(a_date_is_rfc_3339_or_milliseconds),
        cmocka_unit_test(an_order_keeps_what_is_not_wished_for),
        cmocka_unit_test(a_name_is_known_only_where_it_may_stand),
        cmocka_unit_test(nobody_waits_for_room_for_more_than_300_seconds),
    };
    return cmocka_run_group_tests_name("job_line", tests, NULL, NULL);
}
