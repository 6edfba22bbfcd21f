#include "core/rules.h"

#include "unit/helpers.h"

struct rules_fixture {
    struct memory memory;
    struct weir_rules *rules;
};

static void open_rules(struct rules_fixture *f, struct weir_settings settings)
{
    memory_init(&f->memory);
    assert_int_equal(weir_rules_create(&settings, &f->memory.allocator, &f->rules), WEIR_OK);
    assert_int_equal(f->memory.blocks, 1);
}

static void close_rules(struct rules_fixture *f)
{
    weir_rules_give(f->rules);
    expect_no_memory_out(&f->memory);
}

TEST(every_zero_becomes_the_default_that_its_comment_names)
{
    struct rules_fixture f;
    open_rules(&f, (struct weir_settings){0});
    const struct weir_settings *settings = &f.rules->settings;
    assert_int_equal(settings->lane_count, 1);
    assert_int_equal(settings->lanes[0].limit, 10);
    assert_int_equal(settings->lanes[0].rate_count, 0);
    assert_int_equal(settings->priority_weights[HIGH], 4);
    assert_int_equal(settings->priority_weights[NORMAL], 3);
    assert_int_equal(settings->priority_weights[LOW], 1);
    assert_int_equal(settings->line.tickets, 1000);
    assert_int_equal(settings->line.cost, UINT64_MAX);
    assert_int_equal(settings->line_by_tenant.tickets, UINT32_MAX);
    assert_int_equal(settings->line_by_tenant.cost, UINT64_MAX);
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        assert_int_equal(settings->line_by_priority[i].tickets, UINT32_MAX);
        assert_int_equal(settings->line_by_priority[i].cost, UINT64_MAX);
    }
    assert_int_equal(settings->timeout_ns, 10 * SECOND);
    assert_int_equal(settings->lease_ns, WEIR_NEVER);
    assert_int_equal(settings->forget_ns, HOUR);
    assert_int_equal(settings->tenant_default.weight, 1);
    assert_int_equal(settings->tenant_default.limit, WEIR_LIMIT_NONE);
    assert_int_equal(settings->tenants_max, 10000);
    assert_int_equal(settings->recorder_events, 0);
    close_rules(&f);
}

TEST(what_is_named_stays_as_it_is)
{
    struct weir_tenant_settings tenant = {.name = weir_slice_of("a"), .weight = 2, .limit = 3};
    struct rules_fixture f;
    open_rules(
        &f,
        (struct weir_settings){
            LANE(.id = 9, .limit = 3, .breaker = {.failures = 1, .pause_ns = 5, .pause_max_ns = 7}),
            .priority_weights = {5, 6, 7}, .line = {8, 9}, .line_by_tenant = {10, 11},
            .line_by_priority = {{12, 13}, {14, 15}, {16, 17}}, .timeout_ns = 18, .lease_ns = 19,
            .forget_ns = 20, .tenant_default = {.weight = 21, .limit = 22}, .tenants = &tenant,
            .tenant_count = 1, .tenants_max = 23});
    const struct weir_settings *settings = &f.rules->settings;
    assert_int_equal(settings->lanes[0].id, 9);
    assert_int_equal(settings->lanes[0].limit, 3);
    assert_int_equal(settings->lanes[0].breaker.pause_max_ns, 7);
    assert_int_equal(settings->priority_weights[2], 7);
    assert_int_equal(settings->line.tickets, 8);
    assert_int_equal(settings->line.cost, 9);
    assert_int_equal(settings->line_by_tenant.tickets, 10);
    assert_int_equal(settings->line_by_priority[2].cost, 17);
    assert_int_equal(settings->timeout_ns, 18);
    assert_int_equal(settings->lease_ns, 19);
    assert_int_equal(settings->forget_ns, 20);
    assert_int_equal(settings->tenant_default.weight, 21);
    assert_int_equal(settings->tenant_default.limit, 22);
    assert_int_equal(settings->tenants_max, 23);
    assert_int_equal(weir_rules_tenant(f.rules, weir_slice_of("a"))->limit, 3);
    close_rules(&f);
}

TEST(no_limit_wins_over_a_number_and_the_longest_pause_defaults_to_the_first)
{
    struct rules_fixture f;
    open_rules(&f, (struct weir_settings){LANE(.no_limit = true, .limit = 5,
                                               .breaker = {.failures = 1, .pause_ns = 5})});
    assert_int_equal(f.rules->settings.lanes[0].limit, WEIR_LIMIT_NONE);
    assert_int_equal(f.rules->settings.lanes[0].breaker.pause_max_ns, 5);
    close_rules(&f);
}

/* The cycle as letters: H, N, L. */
static void expect_cycle(uint32_t high, uint32_t normal, uint32_t low, const char *expected)
{
    static const char letters[] = {[HIGH] = 'H', [NORMAL] = 'N', [LOW] = 'L'};
    struct rules_fixture f;
    open_rules(&f, (struct weir_settings){
                       .priority_weights = {[HIGH] = high, [NORMAL] = normal, [LOW] = low}});
    char cycle[WEIR_CYCLE_MAX + 1] = {0};
    for (uint32_t i = 0; i < f.rules->cycle_slots; i++) {
        cycle[i] = letters[f.rules->cycle[i]];
    }
    assert_string_equal(cycle, expected);
    close_rules(&f);
}

TEST(the_cycle_is_laid_by_smooth_weighted_round_robin)
{
    expect_cycle(0, 0, 0, "HNHNLHNH");
    expect_cycle(4, 3, 1, "HNHNLHNH");
    expect_cycle(1, 1, 1, "HNL");
    expect_cycle(2, 2, 2, "HNLHNL");
    expect_cycle(1, 2, 1, "NHLN");
    expect_cycle(5, 1, 1, "HHNHLHH");
    expect_cycle(1, 1, 16, "LLLLLHLLLLLNLLLLLL");
}

TEST(the_longest_cycle_gives_every_priority_its_weight)
{
    struct rules_fixture f;
    open_rules(&f, (struct weir_settings){.priority_weights = {16, 16, 16}});
    assert_int_equal(f.rules->cycle_slots, WEIR_CYCLE_MAX);
    uint32_t seen[WEIR_PRIORITY_COUNT] = {0};
    for (uint32_t i = 0; i < f.rules->cycle_slots; i++) {
        seen[f.rules->cycle[i]]++;
    }
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        assert_int_equal(seen[i], 16);
    }
    close_rules(&f);
}

TEST(the_callers_memory_may_change_or_go_away_afterwards)
{
    char name[] = "acme";
    struct weir_rate rates[2] = {{.tokens = 1, .period_ns = SECOND},
                                 {.tokens = 2, .period_ns = SECOND}};
    struct weir_lane_settings lanes[2] = {{.id = 1, .rates = &rates[0], .rate_count = 1},
                                          {.id = 2, .rates = &rates[1], .rate_count = 1}};
    struct weir_tenant_settings tenant = {.name = weir_slice_of(name), .weight = 7};
    struct rules_fixture f;
    open_rules(&f, (struct weir_settings){
                       .lanes = lanes, .lane_count = 2, .tenants = &tenant, .tenant_count = 1});
    memset(name, 'x', sizeof name);
    memset(rates, 0xff, sizeof rates);
    memset(lanes, 0xff, sizeof lanes);
    memset(&tenant, 0xff, sizeof tenant);
    const struct weir_settings *settings = &f.rules->settings;
    assert_int_equal(settings->lanes[0].id, 1);
    assert_int_equal(settings->lanes[0].rates[0].tokens, 1);
    assert_int_equal(settings->lanes[1].id, 2);
    assert_int_equal(settings->lanes[1].rate_count, 1);
    assert_int_equal(settings->lanes[1].rates[0].tokens, 2);
    assert_int_equal(weir_rules_tenant(f.rules, weir_slice_of("acme"))->weight, 7);
    close_rules(&f);
}

TEST(each_of_a_thousand_tenants_finds_its_own_settings_and_strangers_the_default)
{
    enum {
        count = 1000
    };
    static struct weir_tenant_settings tenants[count];
    static char names[count][16];
    for (uint32_t i = 0; i < count; i++) {
        /* In no order, and of several lengths. */
        uint32_t number = i * 7919 % count;
        snprintf(names[i], sizeof names[i], "t%u", number);
        tenants[i] =
            (struct weir_tenant_settings){.name = weir_slice_of(names[i]), .weight = number + 1};
    }
    struct rules_fixture f;
    open_rules(&f, (struct weir_settings){
                       .tenants = tenants, .tenant_count = count, .tenant_default = {.limit = 77}});
    for (uint32_t i = 0; i < count; i++) {
        const struct weir_tenant_settings *found =
            weir_rules_tenant(f.rules, weir_slice_of(names[i]));
        assert_int_equal(found->weight, i * 7919 % count + 1);
        assert_int_equal(found->limit, WEIR_LIMIT_NONE);
    }
    static const char *const strangers[] = {"", "t", "t1000", "T1", "t01", "u1"};
    for (size_t i = 0; i < COUNT_OF(strangers); i++) {
        assert_int_equal(weir_rules_tenant(f.rules, weir_slice_of(strangers[i]))->limit, 77);
    }
    close_rules(&f);
}

TEST(names_may_hold_any_bytes_and_the_empty_one_is_the_anonymous_tenants)
{
    struct weir_tenant_settings tenants[] = {{.name = {"\0", 1}, .weight = 2},
                                             {.name = {NULL, 0}, .weight = 3},
                                             {.name = {"\0\0", 2}, .weight = 4},
                                             {.name = {"\xff", 1}, .weight = 5}};
    struct rules_fixture f;
    open_rules(&f, (struct weir_settings){.tenants = tenants, .tenant_count = 4});
    for (size_t i = 0; i < COUNT_OF(tenants); i++) {
        assert_int_equal(weir_rules_tenant(f.rules, tenants[i].name)->weight, tenants[i].weight);
    }
    close_rules(&f);
}

TEST(a_name_twice_among_many_is_refused_without_a_leak)
{
    static const char *const names[] = {"d", "b", "a", "c", "e", "b", "f"};
    struct weir_tenant_settings tenants[COUNT_OF(names)] = {0};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        tenants[i].name = weir_slice_of(names[i]);
    }
    struct memory memory;
    memory_init(&memory);
    struct weir_settings settings = {.tenants = tenants, .tenant_count = COUNT_OF(names)};
    struct weir_rules *rules = NULL;
    assert_int_equal(weir_rules_create(&settings, &memory.allocator, &rules), WEIR_BAD_TENANTS);
    assert_null(rules);
    expect_no_memory_out(&memory);
}

TEST(rules_live_until_their_last_reference_is_given_back)
{
    struct rules_fixture f;
    open_rules(&f, (struct weir_settings){0});
    assert_ptr_equal(weir_rules_take(f.rules), f.rules);
    weir_rules_give(f.rules);
    assert_int_equal(f.memory.blocks, 1);
    close_rules(&f);
    weir_rules_give(NULL);
}

TEST(without_memory_there_are_no_rules)
{
    struct memory memory;
    memory_init(&memory);
    memory.fail_at = 1;
    struct weir_settings settings = {0};
    struct weir_rules *rules = NULL;
    assert_int_equal(weir_rules_create(&settings, &memory.allocator, &rules), WEIR_NO_MEMORY);
    assert_null(rules);
    expect_no_memory_out(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_zero_becomes_the_default_that_its_comment_names),
        cmocka_unit_test(what_is_named_stays_as_it_is),
        cmocka_unit_test(no_limit_wins_over_a_number_and_the_longest_pause_defaults_to_the_first),
        cmocka_unit_test(the_cycle_is_laid_by_smooth_weighted_round_robin),
        cmocka_unit_test(the_longest_cycle_gives_every_priority_its_weight),
        cmocka_unit_test(the_callers_memory_may_change_or_go_away_afterwards),
        cmocka_unit_test(
            each_of_a_thousand_tenants_finds_its_own_settings_and_strangers_the_default),
        cmocka_unit_test(names_may_hold_any_bytes_and_the_empty_one_is_the_anonymous_tenants),
        cmocka_unit_test(a_name_twice_among_many_is_refused_without_a_leak),
        cmocka_unit_test(rules_live_until_their_last_reference_is_given_back),
        cmocka_unit_test(without_memory_there_are_no_rules),
    };
    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
