/* What an emulated provider counts, second by second. */
#include "lab/mock/stats.h"

#include "unit/helpers.h"

#include <jansson.h>

#define START (3 * SECOND + 1)

static struct weir_mock_stats stats;

static void begin(void)
{
    memset(&stats, 0x5a, sizeof stats);
    weir_mock_stats_init(&stats, START);
}

/* A document that is to be released. */
static json_t *read_json(const struct weir_json *json)
{
    assert_false(json->failed);
    json_t *document = json_loadb(json->data, json->bytes, JSON_ALLOW_NUL, NULL);
    assert_non_null(document);
    return document;
}

static char room[65536];

static json_t *told(uint64_t since, uint64_t now_ns)
{
    struct weir_json json;
    weir_json_init(&json, room, sizeof room);
    weir_json_open(&json, '{');
    weir_mock_stats_write(&stats, &json, since, now_ns);
    weir_json_close(&json, '}');
    return read_json(&json);
}

static json_t *series(uint64_t since)
{
    struct weir_json json;
    weir_json_init(&json, room, sizeof room);
    weir_mock_stats_write_series(&stats, &json, since);
    return read_json(&json);
}

static uint64_t number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static uint64_t at(const json_t *object, const char *name, size_t index)
{
    return (uint64_t)json_integer_value(json_array_get(json_object_get(object, name), index));
}

static void refuse_at(uint64_t now_ns)
{
    weir_mock_stats_turn(&stats, now_ns);
    weir_mock_stats_add(&stats, refused, 1);
}

TEST(a_count_goes_to_the_whole_and_to_its_second)
{
    begin();
    refuse_at(START);
    refuse_at(START + SECOND - 1);
    refuse_at(START + SECOND);
    refuse_at(START + 3 * SECOND);
    json_t *all = told(1, START + 3 * SECOND + 7000000);
    assert_int_equal(number(all, "refused"), 4);
    assert_int_equal(number(all, "requests"), 0);
    assert_int_equal(number(all, "now_ms"), 3007);
    json_t *since = json_object_get(all, "since");
    assert_int_equal(number(since, "second"), 1);
    assert_int_equal(number(since, "refused"), 2);
    json_decref(all);
    json_t *seconds = series(0);
    assert_int_equal(number(seconds, "second"), 0);
    assert_int_equal(json_array_size(json_object_get(seconds, "refused")), 4);
    assert_int_equal(at(seconds, "refused", 0), 2);
    assert_int_equal(at(seconds, "refused", 1), 1);
    assert_int_equal(at(seconds, "refused", 2), 0);
    assert_int_equal(at(seconds, "refused", 3), 1);
    json_decref(seconds);
}

TEST(old_seconds_are_forgotten_and_the_whole_is_not)
{
    begin();
    for (uint64_t second = 0; second < WEIR_MOCK_SECONDS + 5; second++) {
        refuse_at(START + second * SECOND);
    }
    json_t *seconds = series(0);
    assert_int_equal(number(seconds, "second"), 5);
    assert_int_equal(json_array_size(json_object_get(seconds, "refused")), WEIR_MOCK_SECONDS);
    for (size_t i = 0; i < WEIR_MOCK_SECONDS; i++) {
        assert_int_equal(at(seconds, "refused", i), 1);
    }
    json_decref(seconds);
    seconds = series(WEIR_MOCK_SECONDS + 3);
    assert_int_equal(json_array_size(json_object_get(seconds, "refused")), 2);
    json_decref(seconds);
    seconds = series(UINT64_MAX); /* a second that is yet to come: there is the current one */
    assert_int_equal(number(seconds, "second"), WEIR_MOCK_SECONDS + 4);
    json_decref(seconds);
    json_t *all = told(WEIR_NEVER, START + (WEIR_MOCK_SECONDS + 4) * SECOND);
    assert_int_equal(number(all, "refused"), WEIR_MOCK_SECONDS + 5);
    assert_null(json_object_get(all, "since"));
    json_decref(all);
}

TEST(after_a_long_rest_nothing_old_is_told_as_new)
{
    begin();
    weir_mock_stats_flow(&stats, 1e-7, START); /* 100 a second */
    for (uint64_t second = 0; second < 10; second++) {
        refuse_at(START + second * SECOND);
    }
    refuse_at(START + 100000 * SECOND);
    json_t *seconds = series(0);
    assert_int_equal(number(seconds, "second"), 100001 - WEIR_MOCK_SECONDS);
    for (size_t i = 0; i + 1 < WEIR_MOCK_SECONDS; i++) {
        assert_int_equal(at(seconds, "refused", i), 0);
        assert_in_range(at(seconds, "tokens_allowed", i), 99, 101);
    }
    assert_int_equal(at(seconds, "refused", WEIR_MOCK_SECONDS - 1), 1);
    json_decref(seconds);
    json_t *all = told(WEIR_NEVER, START + 100000 * SECOND);
    assert_in_range(number(all, "tokens_allowed"), 9999999, 10000001);
    json_decref(all);
}

TEST(what_flows_in_is_counted_by_the_second_whatever_the_rate_does)
{
    begin();
    weir_mock_stats_flow(&stats, 100e-9, START);
    weir_mock_stats_turn(&stats, START + SECOND / 4);
    weir_mock_stats_flow(&stats, 200e-9, START + SECOND / 2);
    weir_mock_stats_flow(&stats, 0, START + 2 * SECOND);
    weir_mock_stats_turn(&stats, START + 3 * SECOND);
    json_t *seconds = series(0);
    assert_in_range(at(seconds, "tokens_allowed", 0), 149, 150);
    assert_in_range(at(seconds, "tokens_allowed", 1), 199, 201);
    assert_in_range(at(seconds, "tokens_allowed", 2), 0, 1);
    json_decref(seconds);
    assert_in_range(stats.sums.tokens_allowed, 349, 350);
}

TEST(the_most_at_once_is_kept_for_each_second)
{
    begin();
    weir_mock_stats_enter(&stats);
    weir_mock_stats_enter(&stats);
    weir_mock_stats_leave(&stats);
    weir_mock_stats_turn(&stats, START + SECOND);
    weir_mock_stats_turn(&stats, START + 2 * SECOND);
    weir_mock_stats_leave(&stats);
    weir_mock_stats_turn(&stats, START + 3 * SECOND);
    json_t *seconds = series(0);
    assert_int_equal(at(seconds, "most", 0), 2);
    assert_int_equal(at(seconds, "most", 1), 1);
    assert_int_equal(at(seconds, "most", 2), 1);
    assert_int_equal(at(seconds, "most", 3), 0);
    json_decref(seconds);
    assert_int_equal(stats.most, 2);
}

TEST(clearing_forgets_all_but_who_is_inside)
{
    begin();
    weir_mock_stats_flow(&stats, 100e-9, START);
    weir_mock_stats_enter(&stats);
    weir_mock_stats_enter(&stats);
    weir_mock_stats_leave(&stats);
    refuse_at(START + 5 * SECOND);
    weir_mock_stats_tenant(&stats, weir_slice_of("a"))->tokens = 7;
    weir_mock_stats_clear(&stats, START + 5 * SECOND);
    json_t *all = told(0, START + 5 * SECOND);
    assert_int_equal(number(all, "refused"), 0);
    assert_int_equal(number(all, "active"), 1);
    assert_int_equal(number(all, "most"), 1);
    assert_int_equal(number(json_object_get(all, "since"), "second"), 5);
    json_decref(all);
    assert_int_equal(stats.tenant_count, 0);
    weir_mock_stats_turn(&stats, START + 6 * SECOND); /* the flow goes on */
    assert_in_range(stats.sums.tokens_allowed, 99, 101);
}

TEST(tenants_are_told_apart_up_to_a_bound)
{
    begin();
    struct weir_mock_tenant *first = weir_mock_stats_tenant(&stats, weir_slice_of("a"));
    assert_ptr_equal(weir_mock_stats_tenant(&stats, weir_slice_of("a")), first);
    assert_ptr_not_equal(weir_mock_stats_tenant(&stats, weir_slice_of("aa")), first);
    for (int i = 0; i < 2 * WEIR_MOCK_TENANTS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        weir_mock_stats_tenant(&stats, weir_slice_of(name))->requests++;
    }
    assert_int_equal(stats.tenant_count, WEIR_MOCK_TENANTS_MAX);
    const struct weir_mock_tenant *others = &stats.tenants[WEIR_MOCK_TENANTS_MAX - 1];
    assert_memory_equal(others->name, "(others)", others->name_bytes);
    assert_int_equal(others->requests, 2 * WEIR_MOCK_TENANTS_MAX - (WEIR_MOCK_TENANTS_MAX - 3));
    assert_ptr_equal(weir_mock_stats_tenant(&stats, weir_slice_of("a")), first);
}

TEST(all_tenants_and_all_seconds_fit_into_what_is_told)
{
    begin();
    for (int i = 0; i < WEIR_MOCK_TENANTS_MAX; i++) {
        char name[WEIR_MOCK_TENANT_BYTES_MAX + 8]; /* longer than is kept, and all to be escaped */
        memset(name, '\x01', sizeof name);
        snprintf(name, sizeof name, "%d", i);
        struct weir_slice all = {name, sizeof name};
        weir_mock_stats_tenant(&stats, all)->tokens = UINT64_C(1) << 40;
    }
    struct weir_json json;
    weir_json_init(&json, room, 50000);
    weir_mock_stats_write_tenants(&stats, &json);
    json_decref(read_json(&json));
    for (uint64_t second = 0; second < WEIR_MOCK_SECONDS; second++) {
        weir_mock_stats_turn(&stats, START + second * SECOND);
        weir_mock_stats_add(&stats, tokens_allowed, 1000000);
        weir_mock_stats_add(&stats, tokens_charged, 1000000);
        weir_mock_stats_add(&stats, tokens_returned, 1000000);
        weir_mock_stats_add(&stats, tokens_input, 1000000);
        weir_mock_stats_add(&stats, tokens_output, 1000000);
        weir_mock_stats_add(&stats, requests, 100);
        weir_mock_stats_add(&stats, accepted, 100);
    }
    weir_json_init(&json, room, 60000);
    weir_mock_stats_write_series(&stats, &json, 0);
    json_decref(read_json(&json));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_count_goes_to_the_whole_and_to_its_second),
        cmocka_unit_test(old_seconds_are_forgotten_and_the_whole_is_not),
        cmocka_unit_test(after_a_long_rest_nothing_old_is_told_as_new),
        cmocka_unit_test(what_flows_in_is_counted_by_the_second_whatever_the_rate_does),
        cmocka_unit_test(the_most_at_once_is_kept_for_each_second),
        cmocka_unit_test(clearing_forgets_all_but_who_is_inside),
        cmocka_unit_test(tenants_are_told_apart_up_to_a_bound),
        cmocka_unit_test(all_tenants_and_all_seconds_fit_into_what_is_told),
    };
    return cmocka_run_group_tests_name("mock_stats", tests, NULL, NULL);
}
