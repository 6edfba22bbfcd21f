/* A stated quota: what the provider's bucket must look like now, and how fast to send by it. */
#include "core/mirror.h"
#include "unit/helpers.h"

#include <math.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * (1.0 + fabs(b));
}

#define expect_near(a, b)                          \
    do {                                           \
        double a_ = (a), b_ = (b);                 \
        if (!near(a_, b_)) {                       \
            fail_msg("%f is not near %f", a_, b_); \
        }                                          \
    } while (0)

/* 60,000 tokens a minute, whole seconds. */
static struct weir_quota minute(int64_t remaining)
{
    uint64_t lacking_ms = (uint64_t)(60000 - remaining);
    return (struct weir_quota){.limit = 60000,
                               .remaining = remaining,
                               .reset_ns = (lacking_ms + 999) / 1000 * SECOND,
                               .reset_rounding_ns = SECOND};
}

static struct weir_mirror mirror_of(struct weir_quota quota)
{
    struct weir_mirror mirror;
    weir_mirror_init(&mirror, &quota);
    assert_true(weir_mirror_hear(&mirror, &quota, (struct weir_sighting){.number = 1}, SECOND));
    return mirror;
}

TEST(the_window_is_found_where_rounding_leaves_no_doubt)
{
    struct weir_mirror mirror = mirror_of(minute(58000)); /* 2 s, rounded: could be anything */
    assert_false(mirror.window_known);
    expect_near(mirror.window_s, 60.0);
    struct weir_quota quota = minute(30000);
    weir_mirror_hear(&mirror, &quota, (struct weir_sighting){.number = 2}, SECOND);
    assert_true(mirror.window_known);
    expect_near(mirror.window_s, 60.0);
    expect_near(mirror.refill, 1000.0);
}

TEST(a_window_between_the_common_ones_is_kept_until_it_is_contradicted)
{
    struct weir_quota quota = {.limit = 1000, .remaining = 0, .reset_ns = 25 * SECOND};
    struct weir_mirror mirror = mirror_of(quota);
    expect_near(mirror.window_s, 25.0);
    quota.reset_ns = 25400 * (SECOND / 1000); /* within what exact numbers may be off */
    weir_mirror_hear(&mirror, &quota, (struct weir_sighting){.number = 2}, SECOND);
    expect_near(mirror.window_s, 25.0);
    quota.reset_ns = 30 * SECOND;
    weir_mirror_hear(&mirror, &quota, (struct weir_sighting){.number = 3}, SECOND);
    expect_near(mirror.window_s, 30.0);
}

TEST(a_day_is_told_from_a_minute)
{
    struct weir_quota quota = {.limit = 864000,
                               .remaining = 432000,
                               .reset_ns = 43200 * SECOND,
                               .reset_rounding_ns = SECOND};
    struct weir_mirror mirror = mirror_of(quota);
    expect_near(mirror.window_s, 86400.0);
    expect_near(mirror.refill, 10.0);
    assert_false(weir_mirror_is_rate(&mirror));
}

/* Sent at 2 s, told at 5 s, and 1,000 sent since. */
TEST(the_level_rises_with_time_and_falls_by_what_was_sent_since)
{
    struct weir_quota quota = minute(30000);
    struct weir_mirror mirror = mirror_of(quota);
    struct weir_sighting from = {.number = 2, .sent_ns = 2 * SECOND, .since = 1000.0};
    weir_mirror_hear(&mirror, &quota, from, 5 * SECOND);
    expect_near(mirror.level, 32000.0);
    weir_mirror_charge(&mirror, 2500.0);
    expect_near(mirror.level, 29500.0);
    weir_mirror_charge(&mirror, -500.0);
    weir_mirror_advance(&mirror, 2.0, false, 7 * SECOND);
    expect_near(mirror.level, 32000.0);
    weir_mirror_advance(&mirror, 500.0, false, 507 * SECOND);
    expect_near(mirror.level, 60000.0);
    weir_mirror_charge(&mirror, 100000.0);
    expect_near(mirror.level, -40000.0);
    from = (struct weir_sighting){.number = 3, .sent_ns = 9 * SECOND}; /* time that steps back */
    weir_mirror_hear(&mirror, &quota, from, 5 * SECOND);
    expect_near(mirror.level, 30000.0);
}

TEST(news_of_an_older_request_are_ignored)
{
    struct weir_mirror mirror = mirror_of(minute(30000));
    struct weir_quota quota = minute(10000);
    weir_mirror_hear(&mirror, &quota, (struct weir_sighting){.number = 5}, SECOND);
    quota = minute(50000);
    assert_false(weir_mirror_hear(&mirror, &quota, (struct weir_sighting){.number = 4}, SECOND));
    expect_near(mirror.level, 11000.0); /* a second after it was sent */
}

/* The target is 30 s of refill, and half the bucket: 30,000. */
TEST(at_the_target_it_sends_at_the_refill_and_above_it_faster)
{
    struct weir_mirror mirror = mirror_of(minute(30000));
    expect_near(mirror.target, 30000.0);
    expect_near(mirror.exponent, 3.0);
    mirror.level = 30000.0;
    weir_mirror_advance(&mirror, 0.0, true, SECOND);
    expect_near(mirror.rate, 1000.0);
    mirror.level = 15000.0;
    weir_mirror_advance(&mirror, 0.0, true, SECOND);
    expect_near(mirror.rate, 125.0);
    mirror.level = 60000.0;
    weir_mirror_advance(&mirror, 0.0, true, SECOND);
    expect_near(mirror.rate, 4000.0); /* eight times, but four are the most */
    mirror.level = -10000.0;
    weir_mirror_advance(&mirror, 0.0, true, SECOND);
    expect_near(mirror.rate, 20.0); /* never nothing */
}

TEST(a_small_bucket_is_steered_less_steeply)
{
    struct weir_quota quota = {.limit = 2000, .remaining = 1000, .reset_ns = SECOND};
    struct weir_mirror mirror =
        mirror_of(quota); /* 2 s of refill: target 1,000, a second's worth */
    expect_near(mirror.exponent, 0.5);
}

TEST(after_a_change_of_the_limit_the_target_is_what_is_there_and_is_rebuilt)
{
    struct weir_mirror mirror = mirror_of(minute(30000));
    struct weir_quota quota = {.limit = 120000, .remaining = 30000, .reset_ns = 45 * SECOND};
    assert_true(weir_mirror_hear(&mirror, &quota, (struct weir_sighting){.number = 2}, SECOND));
    expect_near(mirror.goal, 60000.0);
    expect_near(mirror.target, 30000.0);
    weir_mirror_advance(&mirror, 10.0, true, SECOND);
    expect_near(mirror.target, 30400.0); /* 2 % of 2,000 a second */
    quota.limit = 60000;
    quota.remaining = 100;
    quota.reset_ns = 59900 * (SECOND / 1000);
    weir_mirror_hear(&mirror, &quota, (struct weir_sighting){.number = 3}, SECOND);
    expect_near(mirror.target, 3000.0); /* but not less than a tenth */
}

TEST(what_flows_in_is_cut_only_while_nobody_waits_and_refunds_never)
{
    struct weir_mirror mirror = mirror_of(minute(30000));
    mirror.balance = 0.0;
    mirror.level = -1e6; /* the least rate: 20 */
    weir_mirror_advance(&mirror, 200.0, true, SECOND);
    expect_near(mirror.balance, 4000.0);
    weir_mirror_advance(&mirror, 100.0, false, SECOND);
    expect_near(mirror.balance, 4000.0);
    mirror.balance = 1900.0;
    weir_mirror_advance(&mirror, 100.0, false, SECOND);
    expect_near(mirror.balance, 2000.0);
}

TEST(a_request_waits_for_the_level_and_one_above_the_limit_for_most_of_it)
{
    struct weir_mirror mirror = mirror_of(minute(30000));
    mirror.level = 30000.0;
    expect_near(weir_mirror_wait_level(&mirror, 30000.0, SECOND), 0.0);
    expect_near(weir_mirror_wait_level(&mirror, 31000.0, SECOND), 1.0);
    expect_near(weir_mirror_wait_level(&mirror, 1e9, SECOND), 27.0); /* 57,000 */
    assert_true(weir_mirror_level_covers(&mirror, 30000.0));
    assert_false(weir_mirror_level_covers(&mirror, 30001.0));
}

TEST(a_counter_starts_anew_at_its_end_whether_somebody_tells_or_not)
{
    struct weir_quota quota = {
        .limit = 6000, .remaining = 3000, .reset = WEIR_RESET_WINDOW, .reset_ns = 30 * SECOND};
    struct weir_mirror mirror = mirror_of(quota); /* heard at 1 s, so it ends at 31 s */
    expect_near(mirror.window_s, 60.0);
    expect_near(mirror.rate, 100.0);
    weir_mirror_charge(&mirror, 3000.0);
    weir_mirror_advance(&mirror, 20.0, true, 21 * SECOND);
    expect_near(mirror.level, 0.0);
    expect_near(weir_mirror_wait_level(&mirror, 1.0, 21 * SECOND), 10.0);
    weir_mirror_advance(&mirror, 10.0, true, 31 * SECOND);
    expect_near(mirror.level, 6000.0);
    assert_int_equal(mirror.end_ns, 91 * SECOND);
    weir_mirror_advance(&mirror, 10.0, true, 1000 * SECOND);
    assert_int_equal(mirror.end_ns, 1051 * SECOND);
}

TEST(a_days_quota_is_spent_freely_until_it_is_nearly_gone)
{
    struct weir_quota quota = {.limit = 864000, .remaining = 800000, .reset_ns = 6400 * SECOND};
    struct weir_mirror mirror = mirror_of(quota);
    assert_true(mirror.rate > 800000.0 / 60.0);
    mirror.level = 100.0;
    weir_mirror_advance(&mirror, 1.0, true, SECOND);
    assert_true(mirror.rate < 10.0);
}

TEST(a_limit_of_nothing_lets_nothing_pass_until_it_is_forgotten)
{
    struct weir_quota quota = {.limit = 0};
    struct weir_mirror mirror = mirror_of(quota);
    expect_near(weir_mirror_wait_level(&mirror, 1.0, SECOND), 60.0);
    expect_near(weir_mirror_wait_level(&mirror, 1.0, 61 * SECOND), 0.0);
    quota.reset_ns = 10 * SECOND;
    weir_mirror_hear(&mirror, &quota, (struct weir_sighting){.number = 2}, 61 * SECOND);
    expect_near(weir_mirror_wait_level(&mirror, 1.0, 61 * SECOND), 10.0);
}

TEST(numbers_that_make_no_sense_are_told_apart)
{
    struct weir_quota good = {.limit = 1, .remaining = -5};
    assert_true(weir_quota_valid(&good));
    struct weir_quota bad[] = {good, good, good, good, good, good, good};
    bad[0].limit = -1;
    bad[1].limit = INT64_MAX;
    bad[2].remaining = INT64_MIN;
    bad[3].unit = WEIR_UNIT_COUNT;
    bad[4].reset_ns = UINT64_MAX;
    bad[5].remaining_rounding = -1;
    bad[6].reset = (enum weir_reset)2;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(weir_quota_valid(&bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_window_is_found_where_rounding_leaves_no_doubt),
        cmocka_unit_test(a_window_between_the_common_ones_is_kept_until_it_is_contradicted),
        cmocka_unit_test(a_day_is_told_from_a_minute),
        cmocka_unit_test(the_level_rises_with_time_and_falls_by_what_was_sent_since),
        cmocka_unit_test(news_of_an_older_request_are_ignored),
        cmocka_unit_test(at_the_target_it_sends_at_the_refill_and_above_it_faster),
        cmocka_unit_test(a_small_bucket_is_steered_less_steeply),
        cmocka_unit_test(after_a_change_of_the_limit_the_target_is_what_is_there_and_is_rebuilt),
        cmocka_unit_test(what_flows_in_is_cut_only_while_nobody_waits_and_refunds_never),
        cmocka_unit_test(a_request_waits_for_the_level_and_one_above_the_limit_for_most_of_it),
        cmocka_unit_test(a_counter_starts_anew_at_its_end_whether_somebody_tells_or_not),
        cmocka_unit_test(a_days_quota_is_spent_freely_until_it_is_nearly_gone),
        cmocka_unit_test(a_limit_of_nothing_lets_nothing_pass_until_it_is_forgotten),
        cmocka_unit_test(numbers_that_make_no_sense_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
