/* A provider's account, with values worked out by hand. The clock starts at an odd moment, so that
 * nothing depends on its being 0. */
#include "lab/mock/quota.h"

#include "unit/helpers.h"

#define START (7 * SECOND + 3)

static struct weir_mock_quota_rules rules_of(enum weir_mock_measure of, uint64_t tokens,
                                             uint64_t period_ns)
{
    struct weir_mock_quota_rules rules = {0};
    rules.limits[of] = (struct weir_mock_limit){tokens, period_ns};
    return rules;
}

static struct weir_mock_quota quota_of(struct weir_mock_quota_rules rules)
{
    struct weir_mock_quota quota;
    memset(&quota, 0x5a, sizeof quota);
    weir_mock_quota_init(&quota, &rules, START);
    return quota;
}

static struct weir_mock_usage usage(uint64_t input, uint64_t output, uint64_t output_max)
{
    return (struct weir_mock_usage){input, output, output_max};
}

/* Takes, or tells how long until it would. */
static uint64_t take(struct weir_mock_quota *quota, struct weir_mock_usage asked, uint64_t now_ns,
                     struct weir_mock_bill *bill)
{
    struct weir_mock_lack lack;
    bool taken = weir_mock_quota_take(quota, &asked, now_ns, bill, &lack);
    assert_int_equal(taken, lack.wait_ns == 0);
    return lack.wait_ns;
}

static void settle(struct weir_mock_quota *quota, struct weir_mock_bill *bill,
                   struct weir_mock_usage took, uint64_t now_ns)
{
    weir_mock_quota_settle(quota, bill, &took, now_ns);
}

static void expect_level(struct weir_mock_quota *quota, enum weir_mock_measure of, double level,
                         uint64_t now_ns)
{
    assert_float_equal(weir_mock_quota_level(quota, of, now_ns), level, 1e-3);
}

TEST(each_rule_charges_when_it_says)
{
    static const struct {
        enum weir_charge charge;
        double taken;      /* of 1000 tokens, when it comes in */
        double taken_less; /* once it has ended with less than was thought */
        double taken_more; /* or with more */
        uint64_t charged_less;
    } cases[] = {
        {WEIR_CHARGE_ESTIMATE, 130, 110, 190, 110},
        {WEIR_CHARGE_MAX, 180, 110, 190, 110},
        {WEIR_CHARGE_MAX_KEPT, 180, 180, 190, 180},
        {WEIR_CHARGE_END, 0, 110, 190, 110},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_mock_quota_rules rules = rules_of(WEIR_MEASURE_TOKENS, 1000, MINUTE);
        struct weir_mock_bill bill;
        rules.charge = cases[i].charge;
        struct weir_mock_quota quota = quota_of(rules);
        assert_int_equal(take(&quota, usage(100, 30, 80), START, &bill), 0);
        expect_level(&quota, WEIR_MEASURE_TOKENS, 1000 - cases[i].taken, START);
        settle(&quota, &bill, usage(100, 10, 0), START);
        expect_level(&quota, WEIR_MEASURE_TOKENS, 1000 - cases[i].taken_less, START);
        assert_int_equal(bill.charged[WEIR_MEASURE_TOKENS], cases[i].charged_less);

        quota = quota_of(rules);
        assert_int_equal(take(&quota, usage(100, 30, 80), START, &bill), 0);
        settle(&quota, &bill, usage(100, 90, 0), START);
        expect_level(&quota, WEIR_MEASURE_TOKENS, 1000 - cases[i].taken_more, START);
        assert_int_equal(bill.charged[WEIR_MEASURE_TOKENS], 190);
    }
}

TEST(each_measure_counts_its_own)
{
    static const double expected[] = {99, 70, 80, 90, 70};
    struct weir_mock_quota_rules rules = {0};
    for (enum weir_mock_measure of = 0; of < WEIR_MEASURES; of++) {
        rules.limits[of] = (struct weir_mock_limit){100, MINUTE};
    }
    struct weir_mock_quota quota = quota_of(rules);
    struct weir_mock_bill bill;
    assert_int_equal(take(&quota, usage(20, 10, 50), START, &bill), 0);
    for (enum weir_mock_measure of = 0; of < WEIR_MEASURES; of++) {
        expect_level(&quota, of, expected[of], START);
    }
    weir_mock_quota_refund(&quota, &bill, START);
    for (enum weir_mock_measure of = 0; of < WEIR_MEASURES; of++) {
        expect_level(&quota, of, 100, START);
        assert_int_equal(bill.charged[of], 0);
    }
}

TEST(it_is_all_or_nothing_and_the_longest_wait_is_told)
{
    struct weir_mock_quota_rules rules = rules_of(WEIR_MEASURE_TOKENS, 100, SECOND);
    rules.limits[WEIR_MEASURE_REQUESTS] = (struct weir_mock_limit){1, MINUTE};
    rules.limits[WEIR_MEASURE_OUTPUT] = (struct weir_mock_limit){100, MINUTE};
    struct weir_mock_quota quota = quota_of(rules);
    struct weir_mock_bill bill;
    struct weir_mock_lack lack;
    assert_int_equal(take(&quota, usage(0, 90, 90), START, &bill), 0);
    struct weir_mock_usage more = usage(0, 20, 20);
    assert_false(weir_mock_quota_take(&quota, &more, START, &bill, &lack));
    assert_int_equal(lack.of, WEIR_MEASURE_REQUESTS);
    assert_in_range(lack.wait_ns, MINUTE, MINUTE + 1);
    assert_int_equal(lack.asked, 1);
    expect_level(&quota, WEIR_MEASURE_TOKENS, 10, START);
    expect_level(&quota, WEIR_MEASURE_REQUESTS, 0, START);
    expect_level(&quota, WEIR_MEASURE_OUTPUT, 10, START);
    /* A refused one has no bill, so whoever ends it all the same gives nothing back. */
    weir_mock_quota_refund(&quota, &bill, START);
    expect_level(&quota, WEIR_MEASURE_TOKENS, 10, START);
}

TEST(the_wait_that_is_told_is_enough_and_not_too_long)
{
    struct weir_mock_quota quota = quota_of(rules_of(WEIR_MEASURE_TOKENS, 6000, MINUTE));
    struct weir_mock_bill bill;
    assert_int_equal(take(&quota, usage(6000, 0, 0), START, &bill), 0);
    uint64_t wait_ns = take(&quota, usage(150, 0, 0), START, &bill);
    assert_in_range(wait_ns, 3 * SECOND / 2, 3 * SECOND / 2 + 1);
    assert_int_not_equal(take(&quota, usage(150, 0, 0), START + wait_ns - 1000000, &bill), 0);
    assert_int_equal(take(&quota, usage(150, 0, 0), START + wait_ns, &bill), 0);
}

TEST(what_is_more_than_a_bucket_holds_goes_when_it_is_full_and_leaves_a_debt)
{
    struct weir_mock_quota quota = quota_of(rules_of(WEIR_MEASURE_TOKENS, 600, MINUTE));
    struct weir_mock_bill bill;
    assert_int_equal(take(&quota, usage(1, 0, 0), START, &bill), 0);
    assert_in_range(take(&quota, usage(1000, 0, 0), START, &bill), SECOND / 10, SECOND / 10 + 1);
    assert_int_equal(take(&quota, usage(1000, 0, 0), START + SECOND, &bill), 0);
    expect_level(&quota, WEIR_MEASURE_TOKENS, -400, START + SECOND);
    struct weir_mock_stated state =
        weir_mock_quota_state(&quota, WEIR_MEASURE_TOKENS, START + SECOND);
    assert_int_equal(state.remaining, 0);
    assert_in_range(state.reset_ns, 100 * SECOND - 1000, 100 * SECOND + 1000);
}

TEST(the_last_token_is_stated)
{
    struct weir_mock_quota quota = quota_of(rules_of(WEIR_MEASURE_TOKENS, 600, MINUTE));
    struct weir_mock_bill bill;
    for (uint64_t left = 2; left-- > 0;) {
        assert_int_equal(take(&quota, usage(left == 1 ? 599 : 1, 0, 0), START, &bill), 0);
        assert_int_equal(weir_mock_quota_state(&quota, WEIR_MEASURE_TOKENS, START).remaining, left);
    }
}

TEST(charged_at_the_end_it_refuses_only_where_nothing_is_left)
{
    struct weir_mock_quota_rules rules = rules_of(WEIR_MEASURE_TOKENS, 600, MINUTE);
    struct weir_mock_bill bills[3];
    rules.charge = WEIR_CHARGE_END;
    struct weir_mock_quota quota = quota_of(rules);
    for (size_t i = 0; i < COUNT_OF(bills); i++) { /* many may be under way that it cannot pay */
        assert_int_equal(take(&quota, usage(300, 300, 300), START, &bills[i]), 0);
    }
    settle(&quota, &bills[0], usage(300, 299, 0), START);
    assert_int_equal(take(&quota, usage(1, 1, 1), START, &bills[0]), 0);
    settle(&quota, &bills[1], usage(300, 300, 0), START);
    expect_level(&quota, WEIR_MEASURE_TOKENS, -599, START);
    assert_in_range(take(&quota, usage(1, 1, 1), START, &bills[1]), MINUTE - 1, MINUTE + 1);
}

TEST(what_comes_back_does_not_overflow)
{
    struct weir_mock_quota_rules rules = rules_of(WEIR_MEASURE_TOKENS, 600, MINUTE);
    struct weir_mock_bill bill;
    rules.charge = WEIR_CHARGE_MAX;
    struct weir_mock_quota quota = quota_of(rules);
    assert_int_equal(take(&quota, usage(100, 10, 400), START, &bill), 0);
    settle(&quota, &bill, usage(100, 10, 0), START + MINUTE);
    expect_level(&quota, WEIR_MEASURE_TOKENS, 600, START + MINUTE);
}

TEST(a_burst_is_what_flows_in_within_its_time)
{
    struct weir_mock_quota_rules rules = rules_of(WEIR_MEASURE_TOKENS, 6000, MINUTE);
    rules.burst_ns = 2 * SECOND;
    struct weir_mock_quota quota = quota_of(rules);
    struct weir_mock_bill bill;
    assert_int_equal(weir_mock_quota_state(&quota, WEIR_MEASURE_TOKENS, START).limit, 200);
    assert_int_equal(take(&quota, usage(200, 0, 0), START, &bill), 0);
    assert_in_range(take(&quota, usage(100, 0, 0), START, &bill), SECOND, SECOND + 1);
    rules.burst_ns = 1; /* of which nothing would ever go through */
    quota = quota_of(rules);
    assert_int_equal(weir_mock_quota_state(&quota, WEIR_MEASURE_TOKENS, START).limit, 1);
    assert_int_equal(take(&quota, usage(100, 0, 0), START, &bill), 0);
}

TEST(a_quota_begins_anew_with_each_period_and_not_before)
{
    struct weir_mock_quota_rules rules = rules_of(WEIR_MEASURE_QUOTA, 1000, HOUR);
    rules.burst_ns = SECOND; /* which is for buckets */
    struct weir_mock_quota quota = quota_of(rules);
    struct weir_mock_bill bill;
    assert_int_equal(take(&quota, usage(900, 0, 0), START + MINUTE, &bill), 0);
    assert_int_equal(take(&quota, usage(101, 0, 0), START + 2 * MINUTE, &bill), 58 * MINUTE);
    expect_level(&quota, WEIR_MEASURE_QUOTA, 100, START + HOUR - 1);
    expect_level(&quota, WEIR_MEASURE_QUOTA, 1000, START + HOUR);
    assert_int_equal(take(&quota, usage(1000, 0, 0), START + HOUR, &bill), 0);
    expect_level(&quota, WEIR_MEASURE_QUOTA, 0, START + 2 * HOUR - 1);
    assert_int_equal(
        weir_mock_quota_state(&quota, WEIR_MEASURE_QUOTA, START + 2 * HOUR - 1).reset_ns, 1);
    expect_level(&quota, WEIR_MEASURE_QUOTA, 1000, START + 5 * HOUR);
}

TEST(a_limit_that_changes_keeps_what_is_there)
{
    struct weir_mock_quota_rules rules = rules_of(WEIR_MEASURE_TOKENS, 600, MINUTE);
    struct weir_mock_quota quota = quota_of(rules);
    struct weir_mock_bill bill;
    assert_int_equal(take(&quota, usage(300, 0, 0), START, &bill), 0);
    rules.limits[WEIR_MEASURE_TOKENS].tokens = 1200; /* ten flowed in at the old rate */
    weir_mock_quota_change(&quota, &rules, START + SECOND);
    expect_level(&quota, WEIR_MEASURE_TOKENS, 310, START + SECOND);
    expect_level(&quota, WEIR_MEASURE_TOKENS, 330, START + 2 * SECOND);
    rules.limits[WEIR_MEASURE_TOKENS].tokens = 60; /* what no longer fits is gone */
    weir_mock_quota_change(&quota, &rules, START + 2 * SECOND);
    expect_level(&quota, WEIR_MEASURE_TOKENS, 60, START + 2 * SECOND);
    rules.limits[WEIR_MEASURE_REQUESTS] = (struct weir_mock_limit){5, SECOND};
    weir_mock_quota_change(&quota, &rules, START + 2 * SECOND);
    expect_level(&quota, WEIR_MEASURE_REQUESTS, 5, START + 2 * SECOND);
}

TEST(a_limit_that_comes_or_goes_while_a_request_is_under_way_is_settled_with)
{
    struct weir_mock_quota_rules none = {.charge = WEIR_CHARGE_END};
    struct weir_mock_quota_rules some = rules_of(WEIR_MEASURE_TOKENS, 600, MINUTE);
    struct weir_mock_bill bill;
    some.charge = WEIR_CHARGE_END;
    struct weir_mock_quota quota = quota_of(none);
    assert_int_equal(take(&quota, usage(100, 10, 10), START, &bill), 0);
    weir_mock_quota_change(&quota, &some, START);
    settle(&quota, &bill, usage(100, 10, 0), START);
    expect_level(&quota, WEIR_MEASURE_TOKENS, 490, START);
    assert_int_equal(take(&quota, usage(100, 10, 10), START, &bill), 0);
    weir_mock_quota_change(&quota, &none, START);
    settle(&quota, &bill, usage(100, 10, 0), START);
    weir_mock_quota_change(&quota, &some, START);
    expect_level(&quota, WEIR_MEASURE_TOKENS, 600, START);
}

TEST(time_that_stands_still_or_steps_back_brings_nothing)
{
    struct weir_mock_quota quota = quota_of(rules_of(WEIR_MEASURE_TOKENS, 600, MINUTE));
    struct weir_mock_bill bill;
    assert_int_equal(take(&quota, usage(600, 0, 0), START + MINUTE, &bill), 0);
    expect_level(&quota, WEIR_MEASURE_TOKENS, 0, START + MINUTE);
    expect_level(&quota, WEIR_MEASURE_TOKENS, 0, START + SECOND);
    expect_level(&quota, WEIR_MEASURE_TOKENS, 10, START + MINUTE + SECOND);
}

TEST(the_largest_limits_do_not_overflow)
{
    struct weir_mock_quota quota = quota_of(rules_of(WEIR_MEASURE_TOKENS, WEIR_MOCK_TOKENS_MAX, 1));
    struct weir_mock_bill bill;
    assert_int_equal(take(&quota, usage(WEIR_MOCK_TOKENS_MAX, 0, 0), START, &bill), 0);
    quota = quota_of(rules_of(WEIR_MEASURE_REQUESTS, 1, WEIR_MOCK_PERIOD_MAX_NS));
    assert_int_equal(take(&quota, usage(1, 0, 0), START, &bill), 0);
    assert_in_range(take(&quota, usage(1, 0, 0), START, &bill), DAY, DAY + 1);
    quota = quota_of(rules_of(WEIR_MEASURE_TOKENS, 1, WEIR_MOCK_PERIOD_MAX_NS));
    assert_int_equal(take(&quota, usage(UINT64_C(1) << 60, 0, 0), START, &bill), 0);
    assert_true(take(&quota, usage(1, 0, 0), START, &bill) > DAY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_charges_when_it_says),
        cmocka_unit_test(each_measure_counts_its_own),
        cmocka_unit_test(it_is_all_or_nothing_and_the_longest_wait_is_told),
        cmocka_unit_test(the_wait_that_is_told_is_enough_and_not_too_long),
        cmocka_unit_test(what_is_more_than_a_bucket_holds_goes_when_it_is_full_and_leaves_a_debt),
        cmocka_unit_test(the_last_token_is_stated),
        cmocka_unit_test(charged_at_the_end_it_refuses_only_where_nothing_is_left),
        cmocka_unit_test(what_comes_back_does_not_overflow),
        cmocka_unit_test(a_burst_is_what_flows_in_within_its_time),
        cmocka_unit_test(a_quota_begins_anew_with_each_period_and_not_before),
        cmocka_unit_test(a_limit_that_changes_keeps_what_is_there),
        cmocka_unit_test(a_limit_that_comes_or_goes_while_a_request_is_under_way_is_settled_with),
        cmocka_unit_test(time_that_stands_still_or_steps_back_brings_nothing),
        cmocka_unit_test(the_largest_limits_do_not_overflow),
    };
    return cmocka_run_group_tests_name("mock_quota", tests, NULL, NULL);
}
