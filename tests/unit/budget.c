#include "weir/budget.h"

#include "unit/helpers.h"

struct purse {
    struct memory memory;
    struct weir_budget *budget;
};

/* 100 tokens a day for everybody. */
static const struct weir_rate daily = {.tokens = 100, .period_ns = DAY};

static void open_budget(struct purse *p, struct weir_rate rate, uint32_t tenants_max)
{
    memory_init(&p->memory);
    struct weir_budget_options options = {.allocator = &p->memory.allocator,
                                          .seed = {5, 6},
                                          .rate = rate,
                                          .tenants_max = tenants_max};
    assert_int_equal(weir_budget_create(&options, &p->budget), WEIR_OK);
}

static void close_budget(struct purse *p)
{
    weir_budget_destroy(p->budget);
    expect_no_memory_out(&p->memory);
}

/* 0 when it was taken, else how long until it will be there. */
static uint64_t spend(struct purse *p, const char *tenant, uint32_t cost, uint64_t now_ns)
{
    uint64_t retry_ns = 0;
    enum weir_status status =
        weir_budget_reserve(p->budget, weir_slice_of(tenant), cost, now_ns, &retry_ns);
    assert_int_equal(status, retry_ns == 0 ? WEIR_OK : WEIR_BUDGET_SPENT);
    return retry_ns;
}

static int64_t left(struct purse *p, const char *tenant, uint64_t now_ns)
{
    return weir_budget_left(p->budget, weir_slice_of(tenant), now_ns);
}

static void settle(struct purse *p, const char *tenant, uint32_t reserved, uint32_t actual,
                   uint64_t now_ns)
{
    assert_int_equal(weir_budget_settle(p->budget, weir_slice_of(tenant), reserved, actual, now_ns),
                     WEIR_OK);
}

static enum weir_status set(struct purse *p, const char *tenant, struct weir_rate rate,
                            uint64_t now_ns)
{
    return weir_budget_set(p->budget, weir_slice_of(tenant), &rate, now_ns);
}

TEST(options_out_of_range_are_refused_and_leave_nothing_behind)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_budget *budget = NULL;
    struct weir_budget_options options = {.allocator = &memory.allocator,
                                          .rate = {.tokens = 1, .period_ns = 1}};
    assert_int_equal(weir_budget_create(&options, &budget), WEIR_BAD_RATE);
    options.rate = daily;
    options.rate.burst = WEIR_RATE_TOKENS_MAX + 1;
    assert_int_equal(weir_budget_create(&options, &budget), WEIR_BAD_RATE);
    options.rate = daily;
    options.tenants_max = WEIR_TENANTS_MAX + 1;
    assert_int_equal(weir_budget_create(&options, &budget), WEIR_BAD_TENANTS);
    assert_null(budget);
    assert_int_equal(memory.calls, 0);
    options.tenants_max = WEIR_TENANTS_MAX;
    assert_int_equal(weir_budget_create(&options, &budget), WEIR_OK);
    weir_budget_destroy(budget);
    weir_budget_destroy(NULL);
    expect_no_memory_out(&memory);
}

TEST(a_budget_without_an_allocator_uses_malloc)
{
    struct weir_budget_options options = {.rate = daily};
    struct weir_budget *budget;
    uint64_t retry_ns;
    assert_int_equal(weir_budget_create(&options, &budget), WEIR_OK);
    assert_int_equal(weir_budget_reserve(budget, weir_slice_of("a"), 1, 0, &retry_ns), WEIR_OK);
    weir_budget_destroy(budget);
}

TEST(a_budget_is_spent_to_the_last_token_and_then_refuses_with_the_time_to_wait)
{
    struct purse p;
    open_budget(&p, daily, 0);
    assert_int_equal(left(&p, "a", 0), 100);
    assert_int_equal(spend(&p, "a", 99, 0), 0);
    assert_int_equal(left(&p, "a", 0), 1);
    assert_int_equal(spend(&p, "a", 2, 0), DAY / 100);
    /* Nothing was taken by that. */
    assert_int_equal(left(&p, "a", 0), 1);
    assert_int_equal(spend(&p, "a", 1, 0), 0);
    assert_int_equal(left(&p, "a", 0), 0);
    assert_int_equal(spend(&p, "a", 1, 0), DAY / 100);
    assert_int_equal(spend(&p, "a", 1, DAY / 100 - 1), 1);
    assert_int_equal(spend(&p, "a", 1, DAY / 100), 0);
    close_budget(&p);
}

TEST(retry_is_written_only_when_the_budget_is_spent)
{
    struct purse p;
    open_budget(&p, daily, 0);
    uint64_t retry_ns = 42;
    struct weir_slice a = weir_slice_of("a");
    assert_int_equal(weir_budget_reserve(p.budget, a, 100, 0, &retry_ns), WEIR_OK);
    assert_int_equal(weir_budget_reserve(p.budget, a, 0, 0, &retry_ns), WEIR_BAD_COST);
    assert_int_equal(retry_ns, 42);
    assert_int_equal(weir_budget_reserve(p.budget, a, 1, 0, &retry_ns), WEIR_BUDGET_SPENT);
    assert_int_equal(retry_ns, DAY / 100);
    close_budget(&p);
}

TEST(each_tenant_has_a_budget_of_its_own)
{
    struct purse p;
    open_budget(&p, daily, 0);
    assert_int_equal(spend(&p, "a", 100, 0), 0);
    assert_int_equal(spend(&p, "b", 100, 0), 0);
    assert_int_equal(spend(&p, "", 100, 0), 0);
    assert_true(spend(&p, "a", 1, 0) > 0);
    assert_true(spend(&p, "", 1, 0) > 0);
    assert_int_equal(left(&p, "c", 0), 100);
    close_budget(&p);
}

TEST(a_cost_is_good_from_1_to_the_largest_and_refused_beyond)
{
    struct purse p;
    open_budget(&p, daily, 0);
    uint64_t retry_ns;
    static const uint32_t bad[] = {0, WEIR_COST_MAX + 1, UINT32_MAX};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(weir_budget_reserve(p.budget, weir_slice_of("a"), bad[i], 0, &retry_ns),
                         WEIR_BAD_COST);
    }
    assert_int_equal(left(&p, "a", 0), 100);
    assert_int_equal(spend(&p, "a", WEIR_COST_MAX, 0), 0);
    close_budget(&p);
}

TEST(a_tenants_name_has_at_most_255_bytes)
{
    struct purse p;
    open_budget(&p, daily, 0);
    char name[256];
    memset(name, 'x', sizeof name);
    uint64_t retry_ns;
    struct weir_slice longest = {name, 255};
    struct weir_slice longer = {name, 256};
    assert_int_equal(weir_budget_reserve(p.budget, longest, 1, 0, &retry_ns), WEIR_OK);
    assert_int_equal(weir_budget_reserve(p.budget, longer, 1, 0, &retry_ns), WEIR_BAD_NAME);
    assert_int_equal(weir_budget_set(p.budget, longest, &daily, 0), WEIR_OK);
    assert_int_equal(weir_budget_set(p.budget, longer, &daily, 0), WEIR_BAD_NAME);
    assert_int_equal(weir_budget_left(p.budget, longest, 0), 99);
    close_budget(&p);
}

TEST(g9_a_cost_above_the_budget_needs_a_full_one_and_leaves_a_debt)
{
    struct purse p;
    open_budget(&p, daily, 0);
    assert_int_equal(spend(&p, "a", 1, 0), 0);
    assert_int_equal(spend(&p, "a", 250, 0), DAY / 100);
    assert_int_equal(spend(&p, "a", 250, DAY / 100), 0);
    assert_int_equal(left(&p, "a", DAY / 100), -150);
    assert_int_equal(spend(&p, "a", 1, DAY / 100), 151 * (DAY / 100));
    close_budget(&p);
}

TEST(a_settlement_replaces_what_was_reserved)
{
    struct purse p;
    open_budget(&p, daily, 0);
    assert_int_equal(spend(&p, "a", 50, 0), 0);
    settle(&p, "a", 50, 20, 0);
    assert_int_equal(left(&p, "a", 0), 80);
    assert_int_equal(spend(&p, "a", 50, 0), 0);
    settle(&p, "a", 50, 90, 0);
    assert_int_equal(left(&p, "a", 0), -10);
    assert_int_equal(spend(&p, "a", 10, DAY / 5), 0);
    /* It never went: all comes back, but not above the burst. */
    settle(&p, "a", 10, 0, DAY / 5);
    settle(&p, "a", 100, 0, DAY / 5);
    assert_int_equal(left(&p, "a", DAY / 5), 100);
    close_budget(&p);
}

TEST(a_settlement_for_nobody_known_changes_nothing_unless_it_is_owed)
{
    struct purse p;
    open_budget(&p, daily, 0);
    settle(&p, "a", 5, 1, 0);
    assert_int_equal(left(&p, "a", 0), 100);
    settle(&p, "a", 5, 25, 0);
    assert_int_equal(left(&p, "a", 0), 80);
    close_budget(&p);
}

TEST(in_mode_debt_what_is_there_may_still_be_spent)
{
    struct weir_rate rate = daily;
    rate.settle = WEIR_SETTLE_DEBT;
    struct purse p;
    open_budget(&p, rate, 0);
    assert_int_equal(spend(&p, "a", 40, 0), 0);
    settle(&p, "a", 40, 140, 0);
    assert_int_equal(left(&p, "a", 0), -40);
    assert_int_equal(spend(&p, "a", 60, 0), 0);
    assert_int_equal(spend(&p, "a", 1, 0), 101 * (DAY / 100));
    close_budget(&p);
}

TEST(a_budget_of_requests_counts_requests)
{
    struct weir_rate rate = {.tokens = 2, .period_ns = DAY, .unit = WEIR_UNIT_REQUESTS};
    struct purse p;
    open_budget(&p, rate, 0);
    assert_int_equal(spend(&p, "a", 1000, 0), 0);
    assert_int_equal(spend(&p, "a", 1, 0), 0);
    assert_int_equal(spend(&p, "a", 1, 0), DAY / 2);
    close_budget(&p);
}

/* ---- no budget ---- */

TEST(without_a_rate_everybody_may_spend_what_they_like_and_nothing_is_kept)
{
    struct purse p;
    open_budget(&p, (struct weir_rate){0}, 0);
    uint64_t blocks = p.memory.blocks;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(spend(&p, "a", WEIR_COST_MAX, 0), 0);
    }
    settle(&p, "a", 1, WEIR_COST_MAX, 0);
    assert_int_equal(left(&p, "a", 0), INT64_MAX);
    assert_int_equal(p.memory.blocks, blocks);
    close_budget(&p);
}

TEST(without_a_rate_one_tenant_may_have_one_of_its_own)
{
    struct purse p;
    open_budget(&p, (struct weir_rate){0}, 0);
    assert_int_equal(set(&p, "a", daily, 0), WEIR_OK);
    assert_int_equal(spend(&p, "a", 100, 0), 0);
    assert_true(spend(&p, "a", 1, 0) > 0);
    assert_int_equal(spend(&p, "b", WEIR_COST_MAX, 0), 0);
    assert_int_equal(left(&p, "b", 0), INT64_MAX);
    close_budget(&p);
}

/* ---- a rate of its own ---- */

TEST(a_new_rate_of_its_own_leaves_spent_what_was_spent)
{
    struct purse p;
    open_budget(&p, daily, 0);
    assert_int_equal(spend(&p, "a", 90, 0), 0);
    struct weir_rate larger = {.tokens = 1000, .period_ns = DAY};
    assert_int_equal(set(&p, "a", larger, 0), WEIR_OK);
    assert_int_equal(left(&p, "a", 0), 10);
    assert_int_equal(left(&p, "a", DAY / 10), 110);
    /* Another unit cannot be converted: it starts full. */
    struct weir_rate requests = {.tokens = 7, .period_ns = DAY, .unit = WEIR_UNIT_REQUESTS};
    assert_int_equal(set(&p, "a", requests, 0), WEIR_OK);
    assert_int_equal(left(&p, "a", 0), 7);
    close_budget(&p);
}

TEST(a_rate_of_its_own_may_come_before_the_first_use)
{
    struct purse p;
    open_budget(&p, daily, 0);
    struct weir_rate small = {.tokens = 3, .period_ns = DAY};
    assert_int_equal(set(&p, "a", small, 0), WEIR_OK);
    assert_int_equal(left(&p, "a", 0), 3);
    assert_int_equal(spend(&p, "a", 3, 0), 0);
    assert_int_equal(spend(&p, "a", 1, 0), DAY / 3);
    close_budget(&p);
}

TEST(no_tokens_take_a_tenants_budget_away_and_a_rate_gives_it_back)
{
    struct purse p;
    open_budget(&p, daily, 0);
    assert_int_equal(spend(&p, "a", 100, 0), 0);
    assert_int_equal(set(&p, "a", (struct weir_rate){0}, 0), WEIR_OK);
    assert_int_equal(left(&p, "a", 0), INT64_MAX);
    assert_int_equal(spend(&p, "a", WEIR_COST_MAX, 0), 0);
    settle(&p, "a", WEIR_COST_MAX, 1, 0);
    assert_int_equal(left(&p, "b", 0), 100);
    assert_int_equal(set(&p, "a", daily, 0), WEIR_OK);
    assert_int_equal(left(&p, "a", 0), 100);
    assert_int_equal(set(&p, "new", (struct weir_rate){0}, 0), WEIR_OK);
    assert_int_equal(left(&p, "new", 0), INT64_MAX);
    close_budget(&p);
}

TEST(a_bad_rate_of_its_own_is_refused_and_changes_nothing)
{
    struct purse p;
    open_budget(&p, daily, 0);
    assert_int_equal(spend(&p, "a", 10, 0), 0);
    struct weir_rate bad = {.tokens = WEIR_RATE_TOKENS_MAX + 1, .period_ns = DAY};
    assert_int_equal(set(&p, "a", bad, 0), WEIR_BAD_RATE);
    bad = (struct weir_rate){.tokens = 1, .period_ns = DAY + 1};
    assert_int_equal(set(&p, "a", bad, 0), WEIR_BAD_RATE);
    assert_int_equal(left(&p, "a", 0), 90);
    assert_int_equal(left(&p, "a", DAY), 100);
    close_budget(&p);
}

TEST(a_rate_of_its_own_is_never_forgotten)
{
    struct purse p;
    open_budget(&p, daily, 0);
    assert_int_equal(set(&p, "a", (struct weir_rate){.tokens = 3, .period_ns = DAY}, 0), WEIR_OK);
    assert_int_equal(set(&p, "free", (struct weir_rate){0}, 0), WEIR_OK);
    char name[16];
    for (uint64_t i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "t%u", (unsigned)i);
        assert_int_equal(spend(&p, name, 1, i * DAY), 0);
    }
    assert_int_equal(left(&p, "a", 50 * DAY), 3);
    assert_int_equal(left(&p, "free", 50 * DAY), INT64_MAX);
    close_budget(&p);
}

/* ---- how many tenants ---- */

TEST(tenants_beyond_the_most_share_one_bucket)
{
    struct purse p;
    open_budget(&p, daily, 2);
    assert_int_equal(spend(&p, "a", 60, 0), 0);
    assert_int_equal(spend(&p, "b", 60, 0), 0);
    assert_int_equal(spend(&p, "c", 60, 0), 0);
    assert_int_equal(left(&p, "d", 0), 40);
    assert_true(spend(&p, "d", 60, 0) > 0);
    assert_int_equal(spend(&p, "d", 40, 0), 0);
    settle(&p, "d", 40, 30, 0);
    assert_int_equal(left(&p, "c", 0), 10);
    assert_int_equal(left(&p, "a", 0), 40);
    close_budget(&p);
}

TEST(a_bucket_that_is_full_again_makes_room_for_another_tenant)
{
    struct purse p;
    open_budget(&p, daily, 2);
    assert_int_equal(spend(&p, "a", 50, 0), 0);
    assert_int_equal(spend(&p, "b", 100, 0), 0);
    assert_int_equal(spend(&p, "c", 70, DAY / 2), 0);
    /* a was full again after half a day, and c took its place; the next one has to share. */
    assert_int_equal(left(&p, "c", DAY / 2), 30);
    assert_int_equal(left(&p, "b", DAY / 2), 50);
    assert_int_equal(spend(&p, "d", 100, DAY / 2), 0);
    assert_true(spend(&p, "e", 1, DAY / 2) > 0);
    assert_int_equal(left(&p, "c", DAY / 2), 30);
    close_budget(&p);
}

TEST(what_the_shared_bucket_owes_does_not_concern_a_tenant_that_gets_its_own_again)
{
    struct purse p;
    static const char *const names[] = {"a", "b", "c", "d", "shares"};
    open_budget(&p, daily, 4);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(spend(&p, names[i], 1, 0), 0);
    }
    settle(&p, "shares", 1, 1000, 0);
    assert_int_equal(left(&p, "x", 0), 100 - 1000);
    /* A day later the others are full again, and two new ones take the places of four. */
    assert_int_equal(spend(&p, "e", 1, DAY), 0);
    assert_int_equal(spend(&p, "f", 1, DAY), 0);
    assert_int_equal(left(&p, "x", DAY), 100);
    assert_int_equal(left(&p, "e", DAY), 99);
    close_budget(&p);
}

TEST(many_tenants_come_and_go_and_the_memory_does_not_grow)
{
    struct weir_rate rate = {.tokens = 10, .period_ns = SECOND};
    struct purse p;
    open_budget(&p, rate, 0);
    char name[16];
    uint64_t most = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "t%u", (unsigned)i);
        /* One token takes a tenth of a second, in which a hundred others come. */
        assert_int_equal(spend(&p, name, 1, i * SECOND / 1000), 0);
        most = p.memory.blocks > most ? p.memory.blocks : most;
    }
    assert_true(most < 500);
    close_budget(&p);
}

TEST(a_debt_that_is_settled_after_its_account_was_forgotten_is_kept)
{
    struct purse p;
    open_budget(&p, daily, 0);
    assert_int_equal(spend(&p, "a", 10, 0), 0);
    /* A day later a is full again, and others take its account's place. */
    assert_int_equal(spend(&p, "b", 1, DAY), 0);
    assert_int_equal(spend(&p, "c", 1, DAY), 0);
    settle(&p, "a", 10, 60, DAY);
    assert_int_equal(left(&p, "a", DAY), 50);
    close_budget(&p);
}

/* ---- time ---- */

TEST(g8_a_clock_that_stands_still_or_steps_back_refills_nothing)
{
    struct purse p;
    open_budget(&p, daily, 0);
    assert_int_equal(spend(&p, "a", 100, DAY), 0);
    for (int i = 0; i < 10; i++) {
        assert_true(spend(&p, "a", 1, DAY) > 0);
        assert_true(spend(&p, "a", 1, 0) > 0);
        settle(&p, "a", 1, 1, DAY / 2);
    }
    assert_int_equal(left(&p, "a", 0), 0);
    assert_int_equal(left(&p, "a", DAY), 0);
    assert_int_equal(left(&p, "a", DAY + DAY / 100), 1);
    close_budget(&p);
}

TEST(g8_after_a_step_back_the_time_to_wait_is_enough)
{
    struct purse p;
    open_budget(&p, daily, 0);
    assert_int_equal(spend(&p, "a", 100, DAY), 0);
    uint64_t retry_ns = spend(&p, "a", 1, DAY / 2);
    uint64_t again_ns = spend(&p, "a", 1, DAY / 2 + retry_ns);
    close_budget(&p);
    assert_int_equal(again_ns, 0);
}

TEST(rates_of_their_own_are_bounded_like_all_accounts)
{
    struct purse p;
    open_budget(&p, daily, 2);
    assert_int_equal(set(&p, "a", daily, 0), WEIR_OK);
    assert_int_equal(set(&p, "b", daily, 0), WEIR_OK);
    assert_int_equal(set(&p, "c", daily, 0), WEIR_TOO_MANY_TENANTS);
    assert_int_equal(set(&p, "a", daily, 0), WEIR_OK);
    close_budget(&p);
}

TEST(a_rate_of_its_own_can_be_taken_away_again)
{
    struct purse p;
    open_budget(&p, daily, 2);
    assert_int_equal(set(&p, "a", (struct weir_rate){.tokens = 5, .period_ns = DAY}, 0), WEIR_OK);
    assert_int_equal(spend(&p, "a", 3, 0), 0);
    assert_int_equal(weir_budget_set(p.budget, weir_slice_of("a"), NULL, 0), WEIR_OK);
    assert_int_equal(left(&p, "a", 0), 2); /* what it has spent stays spent */
    assert_int_equal(left(&p, "a", DAY), 100);
    assert_int_equal(weir_budget_set(p.budget, weir_slice_of("nobody"), NULL, 0), WEIR_OK);
    close_budget(&p);

    open_budget(&p, (struct weir_rate){0}, 2);
    assert_int_equal(set(&p, "a", daily, 0), WEIR_OK);
    assert_int_equal(weir_budget_set(p.budget, weir_slice_of("a"), NULL, 0), WEIR_OK);
    assert_int_equal(left(&p, "a", 0), INT64_MAX);
    close_budget(&p);
}

TEST(a_settlement_out_of_range_is_refused_and_changes_nothing)
{
    struct purse p;
    char name[WEIR_NAME_BYTES_MAX + 1];
    memset(name, 'n', sizeof name);
    open_budget(&p, daily, 2);
    assert_int_equal(spend(&p, "a", 10, 0), 0);
    struct weir_slice a = weir_slice_of("a");
    assert_int_equal(weir_budget_settle(p.budget, a, 10, WEIR_COST_MAX + 1, 0), WEIR_BAD_COST);
    assert_int_equal(weir_budget_settle(p.budget, a, WEIR_COST_MAX + 1, 10, 0), WEIR_BAD_COST);
    struct weir_slice long_name = {name, sizeof name};
    assert_int_equal(weir_budget_settle(p.budget, long_name, 1, 9, 0), WEIR_BAD_NAME);
    assert_int_equal(left(&p, "a", 0), 90);
    close_budget(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_out_of_range_are_refused_and_leave_nothing_behind),
        cmocka_unit_test(a_budget_without_an_allocator_uses_malloc),
        cmocka_unit_test(
            a_budget_is_spent_to_the_last_token_and_then_refuses_with_the_time_to_wait),
        cmocka_unit_test(retry_is_written_only_when_the_budget_is_spent),
        cmocka_unit_test(each_tenant_has_a_budget_of_its_own),
        cmocka_unit_test(a_cost_is_good_from_1_to_the_largest_and_refused_beyond),
        cmocka_unit_test(a_tenants_name_has_at_most_255_bytes),
        cmocka_unit_test(g9_a_cost_above_the_budget_needs_a_full_one_and_leaves_a_debt),
        cmocka_unit_test(a_settlement_replaces_what_was_reserved),
        cmocka_unit_test(a_settlement_for_nobody_known_changes_nothing_unless_it_is_owed),
        cmocka_unit_test(in_mode_debt_what_is_there_may_still_be_spent),
        cmocka_unit_test(a_budget_of_requests_counts_requests),
        cmocka_unit_test(without_a_rate_everybody_may_spend_what_they_like_and_nothing_is_kept),
        cmocka_unit_test(without_a_rate_one_tenant_may_have_one_of_its_own),
        cmocka_unit_test(a_new_rate_of_its_own_leaves_spent_what_was_spent),
        cmocka_unit_test(a_rate_of_its_own_may_come_before_the_first_use),
        cmocka_unit_test(no_tokens_take_a_tenants_budget_away_and_a_rate_gives_it_back),
        cmocka_unit_test(a_bad_rate_of_its_own_is_refused_and_changes_nothing),
        cmocka_unit_test(a_rate_of_its_own_is_never_forgotten),
        cmocka_unit_test(tenants_beyond_the_most_share_one_bucket),
        cmocka_unit_test(a_bucket_that_is_full_again_makes_room_for_another_tenant),
        cmocka_unit_test(
            what_the_shared_bucket_owes_does_not_concern_a_tenant_that_gets_its_own_again),
        cmocka_unit_test(many_tenants_come_and_go_and_the_memory_does_not_grow),
        cmocka_unit_test(a_debt_that_is_settled_after_its_account_was_forgotten_is_kept),
        cmocka_unit_test(g8_a_clock_that_stands_still_or_steps_back_refills_nothing),
        cmocka_unit_test(g8_after_a_step_back_the_time_to_wait_is_enough),
        cmocka_unit_test(rates_of_their_own_are_bounded_like_all_accounts),
        cmocka_unit_test(a_rate_of_its_own_can_be_taken_away_again),
        cmocka_unit_test(a_settlement_out_of_range_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
