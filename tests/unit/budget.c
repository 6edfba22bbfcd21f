/* Budgets of a day and a month: what is let through, what waits, what is refused, and when a period
 * ends. The calendar is compared with libc's. */
#define _GNU_SOURCE /* timegm */
#include "weir/budget.h"

#include "unit/helpers.h"

#include <time.h>

#define DAY_S INT64_C(86400)

/* 2026-02-27 12:00:00 UTC, a Friday. */
#define NOON INT64_C(1772193600)

/* One budget with 100 tokens a day and 1,000 a month, unless a test says otherwise. */
struct purse {
    struct weir_budget budget;
    struct weir_budget_limits limits;
    struct weir_budget_charge charge;
    int64_t wall_s;
    struct weir_budget_refusal refusal;
};

static void open_purse(struct purse *p)
{
    *p = (struct purse){.limits = weir_budget_unlimited(), .wall_s = NOON};
    p->limits.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_TOKENS] = 100;
    p->limits.most[WEIR_BUDGET_MONTH].units[WEIR_BUDGET_TOKENS] = 1000;
    p->charge = (struct weir_budget_charge){&p->budget, &p->limits};
}

static struct weir_budget_amount tokens(uint64_t count)
{
    return (struct weir_budget_amount){{[WEIR_BUDGET_TOKENS] = count, [WEIR_BUDGET_REQUESTS] = 1}};
}

static enum weir_status reserve(struct purse *p, uint64_t count)
{
    struct weir_budget_amount need = tokens(count);
    struct weir_budget_moment now = weir_budget_moment_of(p->wall_s);
    return weir_budget_reserve(&p->charge, 1, &need, &now, &p->refusal);
}

static void settle(struct purse *p, uint64_t reserved, uint64_t spent)
{
    struct weir_budget_amount was = tokens(reserved);
    struct weir_budget_amount is = tokens(spent);
    struct weir_budget_moment now = weir_budget_moment_of(p->wall_s);
    weir_budget_settle(&p->charge, 1, &was, &is, &now);
}

static void release(struct purse *p, uint64_t reserved)
{
    struct weir_budget_amount was = tokens(reserved);
    struct weir_budget_amount nothing = {{0}};
    struct weir_budget_moment now = weir_budget_moment_of(p->wall_s);
    weir_budget_settle(&p->charge, 1, &was, &nothing, &now);
}

static uint64_t left(struct purse *p, enum weir_budget_period period)
{
    struct weir_budget_moment now = weir_budget_moment_of(p->wall_s);
    return weir_budget_left(&p->charge, period, WEIR_BUDGET_TOKENS, &now);
}

static void spend(struct purse *p, uint64_t count)
{
    assert_int_equal(reserve(p, count), WEIR_OK);
    settle(p, count, count);
}

/* ---- what is let through ---- */

TEST(up_to_the_bound_is_let_through_at_once_and_one_more_waits)
{
    for (uint64_t second = 39; second <= 41; second++) {
        struct purse p;
        open_purse(&p);
        assert_int_equal(reserve(&p, 60), WEIR_OK);
        assert_int_equal(reserve(&p, second), second <= 40 ? WEIR_OK : WEIR_WOULD_WAIT);
    }
}

TEST(what_others_did_not_use_lets_one_go_that_waits)
{
    struct purse p;
    open_purse(&p);
    assert_int_equal(reserve(&p, 90), WEIR_OK);
    assert_int_equal(reserve(&p, 20), WEIR_WOULD_WAIT);
    settle(&p, 90, 10);
    assert_int_equal(left(&p, WEIR_BUDGET_DAY), 90);
    assert_int_equal(reserve(&p, 20), WEIR_OK);
}

TEST(what_is_released_costs_nothing)
{
    struct purse p;
    open_purse(&p);
    assert_int_equal(reserve(&p, 90), WEIR_OK);
    release(&p, 90);
    assert_int_equal(left(&p, WEIR_BUDGET_DAY), 100);
    assert_int_equal(p.budget.in_flight, 0);
    assert_int_equal(p.budget.spent[WEIR_BUDGET_DAY].units[WEIR_BUDGET_REQUESTS], 0);
}

TEST(alone_a_request_goes_while_anything_is_left_and_not_afterwards)
{
    struct purse p;
    open_purse(&p);
    spend(&p, 99);
    spend(&p, 500); /* larger than all of it */
    assert_int_equal(left(&p, WEIR_BUDGET_DAY), 0);
    assert_int_equal(reserve(&p, 1), WEIR_BUDGET_SPENT);
    assert_int_equal(p.refusal.period, WEIR_BUDGET_DAY);
    assert_int_equal(p.refusal.unit, WEIR_BUDGET_TOKENS);
    assert_int_equal(p.refusal.most, 100);
    assert_int_equal(p.refusal.spent, 599);
    assert_int_equal(p.refusal.retry_s, DAY_S / 2);
}

TEST(a_large_request_waits_while_another_is_under_way)
{
    struct purse p;
    open_purse(&p);
    assert_int_equal(reserve(&p, 1), WEIR_OK);
    assert_int_equal(reserve(&p, 500), WEIR_WOULD_WAIT);
    settle(&p, 1, 1);
    assert_int_equal(reserve(&p, 500), WEIR_OK);
    assert_int_equal(reserve(&p, 1), WEIR_WOULD_WAIT);
}

TEST(more_than_was_reserved_may_have_been_spent_and_counts)
{
    struct purse p;
    open_purse(&p);
    assert_int_equal(reserve(&p, 10), WEIR_OK);
    settle(&p, 10, 130);
    assert_int_equal(reserve(&p, 1), WEIR_BUDGET_SPENT);
    assert_int_equal(p.refusal.spent, 130);
}

TEST(a_budget_of_nothing_lets_nothing_through_but_what_needs_nothing_of_it)
{
    struct purse p;
    open_purse(&p);
    p.limits.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_TOKENS] = 0;
    assert_int_equal(reserve(&p, 1), WEIR_BUDGET_SPENT);
    assert_int_equal(reserve(&p, 0), WEIR_OK);
}

TEST(without_bounds_everything_goes_and_is_counted)
{
    struct purse p;
    open_purse(&p);
    p.limits = weir_budget_unlimited();
    assert_int_equal(reserve(&p, WEIR_BUDGET_NEED_MAX), WEIR_OK);
    assert_int_equal(reserve(&p, WEIR_BUDGET_NEED_MAX), WEIR_OK);
    assert_true(left(&p, WEIR_BUDGET_DAY) == WEIR_NEVER);
    settle(&p, WEIR_BUDGET_NEED_MAX, 7);
    assert_int_equal(p.budget.spent[WEIR_BUDGET_MONTH].units[WEIR_BUDGET_TOKENS], 7);
}

TEST(a_need_that_is_too_large_is_refused_and_reserves_nothing)
{
    struct purse p;
    open_purse(&p);
    assert_int_equal(reserve(&p, WEIR_BUDGET_NEED_MAX + 1), WEIR_BAD_COST);
    assert_int_equal(p.budget.in_flight, 0);
}

TEST(each_unit_has_a_bound_of_its_own)
{
    struct purse p;
    open_purse(&p);
    p.limits.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_REQUESTS] = 2;
    spend(&p, 1);
    spend(&p, 1);
    assert_int_equal(reserve(&p, 1), WEIR_BUDGET_SPENT);
    assert_int_equal(p.refusal.unit, WEIR_BUDGET_REQUESTS);
    p.limits.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_REQUESTS] = 3; /* a new config */
    assert_int_equal(reserve(&p, 1), WEIR_OK);
}

/* ---- several budgets ---- */

TEST(a_request_is_reserved_in_all_of_its_budgets_or_in_none)
{
    struct purse tenant, key;
    open_purse(&tenant);
    open_purse(&key);
    key.limits.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_TOKENS] = 50;
    struct weir_budget_charge charges[] = {tenant.charge, key.charge};
    struct weir_budget_moment now = weir_budget_moment_of(NOON);
    struct weir_budget_refusal refusal;
    struct weir_budget_amount need = tokens(30);
    assert_int_equal(weir_budget_reserve(charges, 2, &need, &now, &refusal), WEIR_OK);
    assert_int_equal(weir_budget_reserve(charges, 2, &need, &now, &refusal), WEIR_WOULD_WAIT);
    assert_int_equal(refusal.index, 1);
    assert_int_equal(tenant.budget.in_flight, 1);
    assert_int_equal(tenant.budget.reserved.units[WEIR_BUDGET_TOKENS], 30);
    weir_budget_settle(charges, 2, &need, &need, &now);
    assert_int_equal(left(&tenant, WEIR_BUDGET_DAY), 70);
    assert_int_equal(left(&key, WEIR_BUDGET_DAY), 20);
    assert_int_equal(weir_budget_reserve(charges, 2, &need, &now, NULL), WEIR_OK);
}

TEST(being_spent_is_said_before_having_to_wait_and_for_as_long_as_it_lasts)
{
    struct purse p;
    open_purse(&p);
    p.limits.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_REQUESTS] = 1;
    p.limits.most[WEIR_BUDGET_MONTH].units[WEIR_BUDGET_TOKENS] = 60;
    spend(&p, 60);
    assert_int_equal(reserve(&p, 60), WEIR_BUDGET_SPENT);
    assert_int_equal(p.refusal.period, WEIR_BUDGET_MONTH); /* longer than the day's requests */
    assert_int_equal(p.refusal.retry_s, DAY_S / 2 + DAY_S);
}

/* ---- time ---- */

TEST(a_day_begins_at_midnight_utc_and_a_month_with_its_first_day)
{
    struct purse p;
    open_purse(&p);
    spend(&p, 100);
    p.wall_s = NOON + DAY_S / 2 - 1;
    assert_int_equal(reserve(&p, 1), WEIR_BUDGET_SPENT);
    assert_int_equal(p.refusal.retry_s, 1);
    p.wall_s++; /* the 28th */
    assert_int_equal(left(&p, WEIR_BUDGET_DAY), 100);
    assert_int_equal(left(&p, WEIR_BUDGET_MONTH), 900);
    spend(&p, 100);
    p.wall_s += DAY_S; /* 1 March */
    assert_int_equal(left(&p, WEIR_BUDGET_DAY), 100);
    assert_int_equal(left(&p, WEIR_BUDGET_MONTH), 1000);
}

TEST(what_is_under_way_at_midnight_counts_for_the_day_on_which_it_ends)
{
    struct purse p;
    open_purse(&p);
    assert_int_equal(reserve(&p, 80), WEIR_OK);
    p.wall_s += DAY_S;
    assert_int_equal(reserve(&p, 30), WEIR_WOULD_WAIT);
    settle(&p, 80, 80);
    assert_int_equal(left(&p, WEIR_BUDGET_DAY), 20);
}

TEST(a_clock_that_steps_back_gives_nothing_back)
{
    struct purse p;
    open_purse(&p);
    spend(&p, 100);
    p.wall_s -= 5 * DAY_S;
    assert_int_equal(left(&p, WEIR_BUDGET_DAY), 0);
    assert_int_equal(reserve(&p, 1), WEIR_BUDGET_SPENT);
    p.wall_s = NOON;
    assert_int_equal(reserve(&p, 1), WEIR_BUDGET_SPENT);
}

TEST(a_record_is_restored_into_the_day_and_the_month_that_it_lies_in)
{
    struct purse p;
    open_purse(&p);
    struct weir_budget_moment now = weir_budget_moment_of(NOON);
    struct weir_budget_amount ten = tokens(10);
    for (int64_t back = 0; back < 60; back++) {
        struct weir_budget_moment when = weir_budget_moment_of(NOON - back * DAY_S);
        weir_budget_restore(&p.budget, &ten, &when, &now);
    }
    assert_int_equal(left(&p, WEIR_BUDGET_DAY), 90);
    assert_int_equal(left(&p, WEIR_BUDGET_MONTH), 1000 - 27 * 10);
    struct weir_budget_amount all = {{[WEIR_BUDGET_TOKENS] = UINT64_MAX}};
    weir_budget_restore(&p.budget, &all, &now, &now);
    weir_budget_restore(&p.budget, &all, &now, &now);
    assert_int_equal(left(&p, WEIR_BUDGET_DAY), 0);
}

TEST(days_and_months_are_those_of_the_calendar)
{
    for (int64_t day = 0; day < 60000; day++) { /* to 2134 */
        time_t wall_s = (time_t)(day * DAY_S + day % DAY_S);
        struct tm date;
        gmtime_r(&wall_s, &date);
        struct weir_budget_moment moment = weir_budget_moment_of(wall_s);
        struct tm next_month = {.tm_year = date.tm_year, .tm_mon = date.tm_mon + 1, .tm_mday = 1};
        assert_int_equal(moment.numbers[WEIR_BUDGET_DAY], day);
        assert_int_equal(moment.numbers[WEIR_BUDGET_MONTH], (date.tm_year - 70) * 12 + date.tm_mon);
        assert_int_equal(moment.left_s[WEIR_BUDGET_DAY], DAY_S - wall_s % DAY_S);
        assert_int_equal(moment.left_s[WEIR_BUDGET_MONTH], timegm(&next_month) - wall_s);
    }
    assert_int_equal(weir_budget_moment_of(-1).numbers[WEIR_BUDGET_DAY], 0);
    assert_int_equal(weir_budget_moment_of(INT64_MAX).numbers[WEIR_BUDGET_DAY], UINT32_MAX);
}

/* ---- what a caller must not do ---- */

static void settle_twice(void *argument)
{
    (void)argument;
    struct purse p;
    open_purse(&p);
    spend(&p, 5);
    settle(&p, 5, 5);
}

TEST(a_reservation_is_settled_once)
{
    expect_abort(settle_twice, NULL, "in_flight > 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_to_the_bound_is_let_through_at_once_and_one_more_waits),
        cmocka_unit_test(what_others_did_not_use_lets_one_go_that_waits),
        cmocka_unit_test(what_is_released_costs_nothing),
        cmocka_unit_test(alone_a_request_goes_while_anything_is_left_and_not_afterwards),
        cmocka_unit_test(a_large_request_waits_while_another_is_under_way),
        cmocka_unit_test(more_than_was_reserved_may_have_been_spent_and_counts),
        cmocka_unit_test(a_budget_of_nothing_lets_nothing_through_but_what_needs_nothing_of_it),
        cmocka_unit_test(without_bounds_everything_goes_and_is_counted),
        cmocka_unit_test(a_need_that_is_too_large_is_refused_and_reserves_nothing),
        cmocka_unit_test(each_unit_has_a_bound_of_its_own),
        cmocka_unit_test(a_request_is_reserved_in_all_of_its_budgets_or_in_none),
        cmocka_unit_test(being_spent_is_said_before_having_to_wait_and_for_as_long_as_it_lasts),
        cmocka_unit_test(a_day_begins_at_midnight_utc_and_a_month_with_its_first_day),
        cmocka_unit_test(what_is_under_way_at_midnight_counts_for_the_day_on_which_it_ends),
        cmocka_unit_test(a_clock_that_steps_back_gives_nothing_back),
        cmocka_unit_test(a_record_is_restored_into_the_day_and_the_month_that_it_lies_in),
        cmocka_unit_test(days_and_months_are_those_of_the_calendar),
        cmocka_unit_test(a_reservation_is_settled_once),
    };
    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
