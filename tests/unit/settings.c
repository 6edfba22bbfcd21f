/* What a gate accepts as settings: each limit at one below, at it, and one above; and that refused
 * settings change nothing. */
#include "unit/helpers.h"

/* Both ways in must say the same, and a refusal must leave nothing behind. */
static void expect_status(struct weir_settings settings, enum weir_status expected)
{
    assert_string_equal(weir_status_name(weir_settings_check(&settings)),
                        weir_status_name(expected));
    struct memory memory;
    memory_init(&memory);
    struct weir_gate_options options = options_with(&memory.allocator);
    struct weir_gate *gate = NULL;
    assert_string_equal(weir_status_name(weir_gate_create(&options, &settings, &gate)),
                        weir_status_name(expected));
    assert_int_equal(gate != NULL, expected == WEIR_OK);
    weir_gate_destroy(gate);
    expect_no_memory_out(&memory);
}

#define expect_lane(expected, ...) \
    expect_status((struct weir_settings){LANE(__VA_ARGS__)}, expected)

TEST(zeroed_settings_are_good)
{
    expect_status((struct weir_settings){0}, WEIR_OK);
}

/* ---- lanes ---- */

TEST(a_key_has_at_most_64_lanes)
{
    struct weir_lane_settings lanes[WEIR_LANES_MAX + 1] = {0};
    for (uint16_t i = 0; i < COUNT_OF(lanes); i++) {
        lanes[i].id = i;
    }
    struct weir_settings settings = {.lanes = lanes, .lane_count = 63};
    expect_status(settings, WEIR_OK);
    settings.lane_count = 64;
    expect_status(settings, WEIR_OK);
    settings.lane_count = 65;
    expect_status(settings, WEIR_BAD_LANES);
    settings.lane_count = UINT32_MAX;
    expect_status(settings, WEIR_BAD_LANES);
}

TEST(two_lanes_cannot_have_the_same_id)
{
    struct weir_lane_settings lanes[3] = {{.id = 7}, {.id = UINT16_MAX}, {.id = 0}};
    struct weir_settings settings = {.lanes = lanes, .lane_count = 3};
    expect_status(settings, WEIR_OK);
    lanes[2].id = 7;
    expect_status(settings, WEIR_BAD_LANES);
    lanes[2].id = UINT16_MAX;
    expect_status(settings, WEIR_BAD_LANES);
}

TEST(the_choice_of_lanes_is_one_of_two)
{
    expect_status((struct weir_settings){.choice = WEIR_CHOICE_MOST_ROOM}, WEIR_OK);
    expect_status((struct weir_settings){.choice = (enum weir_choice)2}, WEIR_BAD_LANES);
}

TEST(a_lanes_limit_ends_at_ten_million)
{
    expect_lane(WEIR_OK, .limit = 1);
    expect_lane(WEIR_OK, .limit = WEIR_LIMIT_MAX - 1);
    expect_lane(WEIR_OK, .limit = WEIR_LIMIT_MAX);
    expect_lane(WEIR_BAD_LIMIT, .limit = WEIR_LIMIT_MAX + 1);
    expect_lane(WEIR_OK, .no_limit = true);
    expect_lane(WEIR_BAD_LIMIT, .no_limit = true, .limit = WEIR_LIMIT_MAX + 1);
}

TEST(a_lane_has_at_most_8_rates)
{
    struct weir_rate rates[WEIR_RATES_MAX + 1];
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        rates[i] = (struct weir_rate){.tokens = 1, .period_ns = SECOND};
    }
    expect_lane(WEIR_OK, .rates = rates, .rate_count = 7);
    expect_lane(WEIR_OK, .rates = rates, .rate_count = 8);
    expect_lane(WEIR_BAD_RATE, .rates = rates, .rate_count = 9);
    rates[7].tokens = 0;
    expect_lane(WEIR_OK, .rates = rates, .rate_count = 7);
    expect_lane(WEIR_BAD_RATE, .rates = rates, .rate_count = 8);
}

TEST(a_lanes_rate_is_valid_at_its_bounds_and_not_beyond)
{
    expect_lane(WEIR_OK, RATE(.tokens = 1, .period_ns = SECOND));
    expect_lane(WEIR_BAD_RATE, RATE(.tokens = 0, .period_ns = SECOND));
    expect_lane(WEIR_OK, RATE(.tokens = WEIR_RATE_TOKENS_MAX, .period_ns = SECOND));
    expect_lane(WEIR_BAD_RATE, RATE(.tokens = WEIR_RATE_TOKENS_MAX + 1, .period_ns = SECOND));
    expect_lane(WEIR_BAD_RATE, RATE(.tokens = 1, .period_ns = 0));
    expect_lane(WEIR_BAD_RATE, RATE(.tokens = 1, .period_ns = SECOND - 1));
    expect_lane(WEIR_OK, RATE(.tokens = 1, .period_ns = DAY));
    expect_lane(WEIR_BAD_RATE, RATE(.tokens = 1, .period_ns = DAY + 1));
    expect_lane(WEIR_OK, RATE(.tokens = 1, .period_ns = DAY, .burst = WEIR_RATE_TOKENS_MAX));
    expect_lane(WEIR_BAD_RATE,
                RATE(.tokens = 1, .period_ns = DAY, .burst = WEIR_RATE_TOKENS_MAX + 1));
    expect_lane(WEIR_BAD_RATE, RATE(.tokens = 1, .period_ns = DAY, .unit = WEIR_UNIT_COUNT));
    expect_lane(WEIR_BAD_RATE, RATE(.tokens = 1, .period_ns = DAY, .settle = (enum weir_settle)2));
}

TEST(a_breaker_needs_a_pause_that_is_not_longer_than_its_longest)
{
    expect_lane(WEIR_OK, .breaker = {.failures = 1, .pause_ns = 1});
    expect_lane(WEIR_BAD_BREAKER, .breaker = {.failures = 1, .pause_ns = 0});
    expect_lane(WEIR_BAD_BREAKER, .breaker = {.failures = 1, .pause_ns = 0, .pause_max_ns = 5});
    expect_lane(WEIR_OK, .breaker = {.failures = 1, .pause_ns = 4, .pause_max_ns = 5});
    expect_lane(WEIR_OK, .breaker = {.failures = 1, .pause_ns = 5, .pause_max_ns = 5});
    expect_lane(WEIR_BAD_BREAKER, .breaker = {.failures = 1, .pause_ns = 6, .pause_max_ns = 5});
    expect_lane(WEIR_OK, .breaker = {.failures = 1, .pause_ns = WEIR_DURATION_MAX_NS});
    expect_lane(WEIR_BAD_BREAKER, .breaker = {.failures = 1, .pause_ns = WEIR_DURATION_MAX_NS + 1});
    expect_lane(WEIR_OK,
                .breaker = {.failures = 1, .pause_ns = 1, .pause_max_ns = WEIR_DURATION_MAX_NS});
    expect_lane(
        WEIR_BAD_BREAKER,
        .breaker = {.failures = 1, .pause_ns = 1, .pause_max_ns = WEIR_DURATION_MAX_NS + 1});
    /* What is not used is not looked at. */
    expect_lane(WEIR_OK, .breaker = {.failures = 0, .pause_ns = WEIR_NEVER});
    expect_lane(WEIR_OK, .breaker = {.failures = UINT32_MAX, .pause_ns = 1});
}

TEST(a_mistake_in_the_last_lane_is_found_too)
{
    struct weir_lane_settings lanes[3] = {{.id = 0}, {.id = 1}, {.id = 2, .limit = UINT32_MAX}};
    expect_status((struct weir_settings){.lanes = lanes, .lane_count = 3}, WEIR_BAD_LIMIT);
}

/* ---- the line ---- */

static void expect_weights(uint32_t normal, uint32_t high, uint32_t low, enum weir_status expected)
{
    expect_status(
        (struct weir_settings){.priority_weights = {[NORMAL] = normal, [HIGH] = high, [LOW] = low}},
        expected);
}

TEST(priorities_have_weights_from_1_to_16_all_of_them_or_none)
{
    expect_weights(1, 1, 1, WEIR_OK);
    expect_weights(15, 15, 15, WEIR_OK);
    expect_weights(16, 16, 16, WEIR_OK);
    expect_weights(17, 1, 1, WEIR_BAD_WEIGHT);
    expect_weights(1, 17, 1, WEIR_BAD_WEIGHT);
    expect_weights(1, 1, 17, WEIR_BAD_WEIGHT);
    expect_weights(0, 1, 1, WEIR_BAD_WEIGHT);
    expect_weights(1, 0, 1, WEIR_BAD_WEIGHT);
    expect_weights(1, 1, 0, WEIR_BAD_WEIGHT);
    expect_weights(0, 0, 1, WEIR_BAD_WEIGHT);
    expect_weights(0, 0, 0, WEIR_OK);
}

/* The settings with that bound at one of the five places where one can stand. */
static struct weir_settings bounded_at(int place, struct weir_bound bound)
{
    struct weir_settings settings = {0};
    if (place < WEIR_PRIORITY_COUNT) {
        settings.line_by_priority[place] = bound;
    } else if (place == WEIR_PRIORITY_COUNT) {
        settings.line = bound;
    } else {
        settings.line_by_tenant = bound;
    }
    return settings;
}

TEST(every_bound_ends_at_ten_million_tickets_and_a_cost_of_two_to_the_42)
{
    for (int place = 0; place < WEIR_PRIORITY_COUNT + 2; place++) {
        struct weir_bound bound = {.tickets = WEIR_TICKETS_MAX, .cost = WEIR_LINE_COST_MAX};
        expect_status(bounded_at(place, bound), WEIR_OK);
        bound.tickets++;
        expect_status(bounded_at(place, bound), WEIR_BAD_BOUND);
        bound.tickets -= 2;
        expect_status(bounded_at(place, bound), WEIR_OK);
        bound.cost++;
        expect_status(bounded_at(place, bound), WEIR_BAD_BOUND);
    }
}

TEST(durations_end_at_a_quarter_of_the_numbers_or_are_never)
{
    for (int which = 0; which < 3; which++) {
        static const uint64_t good[] = {1, WEIR_DURATION_MAX_NS - 1, WEIR_DURATION_MAX_NS,
                                        WEIR_NEVER};
        static const uint64_t bad[] = {WEIR_DURATION_MAX_NS + 1, WEIR_NEVER - 1};
        struct weir_settings settings = {0};
        uint64_t *fields[] = {&settings.timeout_ns, &settings.lease_ns, &settings.forget_ns};
        for (size_t i = 0; i < COUNT_OF(good); i++) {
            *fields[which] = good[i];
            expect_status(settings, WEIR_OK);
        }
        for (size_t i = 0; i < COUNT_OF(bad); i++) {
            *fields[which] = bad[i];
            expect_status(settings, WEIR_BAD_DURATION);
        }
    }
}

TEST(a_recorder_keeps_at_most_65536_decisions)
{
    expect_status((struct weir_settings){.recorder_events = 65535}, WEIR_OK);
    expect_status((struct weir_settings){.recorder_events = 65536}, WEIR_OK);
    expect_status((struct weir_settings){.recorder_events = 65537}, WEIR_BAD_RECORDER);
}

/* ---- tenants ---- */

TEST(a_key_keeps_at_most_a_million_tenants)
{
    expect_status((struct weir_settings){.tenants_max = 1}, WEIR_OK);
    expect_status((struct weir_settings){.tenants_max = WEIR_TENANTS_MAX}, WEIR_OK);
    expect_status((struct weir_settings){.tenants_max = WEIR_TENANTS_MAX + 1}, WEIR_BAD_TENANTS);
    /* Said before the list is read. */
    expect_status((struct weir_settings){.tenant_count = WEIR_TENANTS_MAX + 1}, WEIR_BAD_TENANTS);
}

/* What holds for a tenant that is named must hold for the default. */
static void expect_tenant(struct weir_tenant_settings tenant, enum weir_status expected)
{
    expect_status((struct weir_settings){.tenant_default = tenant}, expected);
    tenant.name = weir_slice_of("acme");
    struct weir_tenant_settings two[] = {{.name = weir_slice_of("other")}, tenant};
    expect_status((struct weir_settings){.tenants = two, .tenant_count = 2}, expected);
}

TEST(a_tenant_has_a_weight_up_to_1000_a_limit_up_to_ten_million_and_a_valid_rate)
{
    expect_tenant((struct weir_tenant_settings){.weight = 999}, WEIR_OK);
    expect_tenant((struct weir_tenant_settings){.weight = 1000}, WEIR_OK);
    expect_tenant((struct weir_tenant_settings){.weight = 1001}, WEIR_BAD_WEIGHT);
    expect_tenant((struct weir_tenant_settings){.limit = WEIR_LIMIT_MAX}, WEIR_OK);
    expect_tenant((struct weir_tenant_settings){.limit = WEIR_LIMIT_MAX + 1}, WEIR_BAD_LIMIT);
    expect_tenant((struct weir_tenant_settings){.rate = {.tokens = 1, .period_ns = SECOND}},
                  WEIR_OK);
    expect_tenant((struct weir_tenant_settings){.rate = {.tokens = 1, .period_ns = 1}},
                  WEIR_BAD_RATE);
    /* Without tokens there is no bucket, whatever else stands there. */
    expect_tenant((struct weir_tenant_settings){.rate = {.tokens = 0, .period_ns = 1}}, WEIR_OK);
}

TEST(a_tenants_name_has_at_most_255_bytes)
{
    char name[256];
    memset(name, 'x', sizeof name);
    struct weir_tenant_settings tenant = {.name = {name, 254}};
    struct weir_settings settings = {.tenants = &tenant, .tenant_count = 1};
    expect_status(settings, WEIR_OK);
    tenant.name.bytes = 255;
    expect_status(settings, WEIR_OK);
    tenant.name.bytes = 256;
    expect_status(settings, WEIR_BAD_TENANTS);
}

TEST(the_anonymous_tenant_may_have_settings_of_its_own)
{
    struct weir_tenant_settings tenant = {.name = {NULL, 0}, .weight = 2};
    expect_status((struct weir_settings){.tenants = &tenant, .tenant_count = 1}, WEIR_OK);
}

TEST(a_tenant_is_named_once)
{
    struct weir_tenant_settings tenants[] = {{.name = weir_slice_of("a")},
                                             {.name = weir_slice_of("b")},
                                             {.name = weir_slice_of("ab")},
                                             {.name = weir_slice_of("c")}};
    struct weir_settings settings = {.tenants = tenants, .tenant_count = 4};
    expect_status(settings, WEIR_OK);
    tenants[3].name = weir_slice_of("a");
    struct memory memory;
    memory_init(&memory);
    struct weir_gate_options options = options_with(&memory.allocator);
    struct weir_gate *gate = NULL;
    assert_int_equal(weir_gate_create(&options, &settings, &gate), WEIR_BAD_TENANTS);
    assert_null(gate);
    expect_no_memory_out(&memory);
}

TEST(the_check_finds_a_tenant_that_is_named_twice)
{
    struct weir_tenant_settings tenants[] = {{.name = weir_slice_of("a")},
                                             {.name = weir_slice_of("a")}};
    struct weir_settings settings = {.tenants = tenants, .tenant_count = 2};
    assert_int_equal(weir_settings_check(&settings), WEIR_BAD_TENANTS);
}

/* ---- refused settings change nothing ---- */

TEST(a_gate_goes_on_with_its_settings_when_new_ones_are_refused)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    uint64_t bytes = f.memory.bytes;
    struct weir_settings bad = {LANE(.limit = 2), .recorder_events = UINT32_MAX};
    assert_int_equal(weir_gate_configure(f.gate, &bad), WEIR_BAD_RECORDER);
    assert_int_equal(weir_gate_override(f.gate, weir_slice_of("key"), &bad), WEIR_BAD_RECORDER);
    assert_int_equal(f.memory.bytes, bytes);
    assert_int_equal(weir_gate_apply(f.gate, f.key, 0, &f.news), WEIR_OK);
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter(&f, &tickets[0], 1), WEIR_ADMITTED);
    assert_int_equal(enter(&f, &tickets[1], 1), WEIR_WAITING);
    assert_int_equal(cancel(&f, &tickets[1], 1), WEIR_OK);
    leave(&f, &tickets[0], 1);
    close_key(&f);
}

TEST(a_gate_keeps_at_most_ten_million_keys)
{
    struct weir_gate_options options = {.keys_max = WEIR_KEYS_MAX};
    struct weir_settings settings = {0};
    struct weir_gate *gate = NULL;
    assert_int_equal(weir_gate_create(&options, &settings, &gate), WEIR_OK);
    weir_gate_destroy(gate);
    gate = NULL;
    options.keys_max = WEIR_KEYS_MAX + 1;
    assert_int_equal(weir_gate_create(&options, &settings, &gate), WEIR_BAD_KEYS);
    assert_null(gate);
}

TEST(a_key_sets_at_most_a_mebibyte_aside_for_its_caller)
{
    struct weir_gate_options options = {.key_extra_bytes = WEIR_KEY_EXTRA_MAX};
    struct weir_settings settings = {0};
    struct weir_gate *gate = NULL;
    struct weir_key *key;
    assert_int_equal(weir_gate_create(&options, &settings, &gate), WEIR_OK);
    assert_int_equal(weir_gate_take(gate, weir_slice_of("k"), 0, &key), WEIR_OK);
    memset(weir_key_extra(key), 1, WEIR_KEY_EXTRA_MAX);
    weir_key_give(key);
    weir_gate_destroy(gate);
    gate = NULL;
    options.key_extra_bytes = WEIR_KEY_EXTRA_MAX + 1;
    assert_int_equal(weir_gate_create(&options, &settings, &gate), WEIR_BAD_EXTRA);
    options.key_extra_bytes = SIZE_MAX;
    assert_int_equal(weir_gate_create(&options, &settings, &gate), WEIR_BAD_EXTRA);
    assert_null(gate);
}

/* ---- the defaults ---- */

TEST(a_zeroed_gate_has_one_lane_with_10_permits_and_10_seconds_in_a_line_of_1000)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){0});
    static struct weir_ticket tickets[1011];
    memset(tickets, 0, sizeof tickets);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(enter(&f, &tickets[i], 5), WEIR_ADMITTED);
    }
    assert_int_equal(stats_of(&f).lanes, 1);
    assert_int_equal(lane_of(&f, 0, 5).id, 0);
    assert_int_equal(lane_of(&f, 0, 5).limit, 10);
    for (size_t i = 10; i < 1010; i++) {
        assert_int_equal(enter(&f, &tickets[i], 5), WEIR_WAITING);
    }
    assert_int_equal(enter(&f, &tickets[1010], 5), WEIR_REFUSED);
    expect_refused(&tickets[1010], WEIR_LINE_FULL);
    assert_null(weir_key_recorder(f.key));
    assert_int_equal(f.news.wake_ns, 5 + 10 * SECOND);
    wake(&f, 5 + 10 * SECOND - 1);
    expect_counts(&f, 10, 1000);
    wake(&f, 5 + 10 * SECOND);
    expect_counts(&f, 10, 0);
    for (size_t i = 0; i < 10; i++) {
        leave(&f, &tickets[i], DAY);
    }
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeroed_settings_are_good),
        cmocka_unit_test(a_key_has_at_most_64_lanes),
        cmocka_unit_test(two_lanes_cannot_have_the_same_id),
        cmocka_unit_test(the_choice_of_lanes_is_one_of_two),
        cmocka_unit_test(a_lanes_limit_ends_at_ten_million),
        cmocka_unit_test(a_lane_has_at_most_8_rates),
        cmocka_unit_test(a_lanes_rate_is_valid_at_its_bounds_and_not_beyond),
        cmocka_unit_test(a_breaker_needs_a_pause_that_is_not_longer_than_its_longest),
        cmocka_unit_test(a_mistake_in_the_last_lane_is_found_too),
        cmocka_unit_test(priorities_have_weights_from_1_to_16_all_of_them_or_none),
        cmocka_unit_test(every_bound_ends_at_ten_million_tickets_and_a_cost_of_two_to_the_42),
        cmocka_unit_test(durations_end_at_a_quarter_of_the_numbers_or_are_never),
        cmocka_unit_test(a_recorder_keeps_at_most_65536_decisions),
        cmocka_unit_test(a_key_keeps_at_most_a_million_tenants),
        cmocka_unit_test(
            a_tenant_has_a_weight_up_to_1000_a_limit_up_to_ten_million_and_a_valid_rate),
        cmocka_unit_test(a_tenants_name_has_at_most_255_bytes),
        cmocka_unit_test(the_anonymous_tenant_may_have_settings_of_its_own),
        cmocka_unit_test(a_tenant_is_named_once),
        cmocka_unit_test(the_check_finds_a_tenant_that_is_named_twice),
        cmocka_unit_test(a_gate_goes_on_with_its_settings_when_new_ones_are_refused),
        cmocka_unit_test(a_gate_keeps_at_most_ten_million_keys),
        cmocka_unit_test(a_key_sets_at_most_a_mebibyte_aside_for_its_caller),
        cmocka_unit_test(
            a_zeroed_gate_has_one_lane_with_10_permits_and_10_seconds_in_a_line_of_1000),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
