#include "core/bucket.h"

#include "unit/helpers.h"

/* 10 tokens a second, 20 at most. */
static const struct weir_rate ten = {.tokens = 10, .period_ns = SECOND, .burst = 20};

static const struct weir_rate ten_in_debt = {
    .tokens = 10, .period_ns = SECOND, .burst = 20, .settle = WEIR_SETTLE_DEBT};

static struct weir_bucket bucket_of(const struct weir_rate *rate, uint64_t now_ns)
{
    struct weir_bucket bucket;
    weir_bucket_init(&bucket, rate, now_ns);
    return bucket;
}

/* How long until a ticket of that cost may go: 0 if now. */
static uint64_t wait_of(const struct weir_bucket *bucket, uint32_t cost, uint64_t now_ns)
{
    return weir_bucket_ready_ns(bucket, cost, now_ns) - now_ns;
}

static bool same(const struct weir_bucket *a, const struct weir_bucket *b)
{
    return a->level == b->level && a->debt == b->debt && a->at_ns == b->at_ns;
}

/* ---- rates ---- */

TEST(a_rate_is_valid_at_its_bounds_and_not_beyond)
{
    const struct weir_rate valid = {.tokens = 1, .period_ns = SECOND};
    struct weir_rate rate = valid;
    assert_true(weir_rate_valid(&rate));
    rate.tokens = 0;
    assert_false(weir_rate_valid(&rate));
    rate.tokens = WEIR_RATE_TOKENS_MAX;
    assert_true(weir_rate_valid(&rate));
    rate.tokens = WEIR_RATE_TOKENS_MAX + 1;
    assert_false(weir_rate_valid(&rate));

    rate = valid;
    rate.period_ns = SECOND - 1;
    assert_false(weir_rate_valid(&rate));
    rate.period_ns = SECOND + 1;
    assert_true(weir_rate_valid(&rate));
    rate.period_ns = DAY;
    assert_true(weir_rate_valid(&rate));
    rate.period_ns = DAY + 1;
    assert_false(weir_rate_valid(&rate));

    rate = valid;
    rate.burst = WEIR_RATE_TOKENS_MAX;
    assert_true(weir_rate_valid(&rate));
    rate.burst = WEIR_RATE_TOKENS_MAX + 1;
    assert_false(weir_rate_valid(&rate));

    rate = valid;
    rate.unit = WEIR_UNIT_COUNT;
    assert_false(weir_rate_valid(&rate));
    rate = valid;
    rate.settle = (enum weir_settle)(WEIR_SETTLE_DEBT + 1);
    assert_false(weir_rate_valid(&rate));
}

TEST(a_burst_of_0_equals_the_tokens_and_every_other_difference_counts)
{
    const struct weir_rate a = {.tokens = 5, .period_ns = SECOND};
    struct weir_rate b = {.tokens = 5, .period_ns = SECOND, .burst = 5};
    assert_true(weir_rate_equal(&a, &b));
    b.burst = 6;
    assert_false(weir_rate_equal(&a, &b));
    b = a;
    b.tokens = 6;
    assert_false(weir_rate_equal(&a, &b));
    b = a;
    b.period_ns++;
    assert_false(weir_rate_equal(&a, &b));
    b = a;
    b.unit = WEIR_UNIT_REQUESTS;
    assert_false(weir_rate_equal(&a, &b));
    b = a;
    b.settle = WEIR_SETTLE_DEBT;
    assert_false(weir_rate_equal(&a, &b));
}

/* ---- taking ---- */

TEST(bucket_starts_full_with_its_burst_or_its_tokens)
{
    struct weir_bucket bucket = bucket_of(&ten, 5);
    assert_int_equal(weir_bucket_level(&bucket, 5), 20);
    assert_true(weir_bucket_full(&bucket, 5));
    const struct weir_rate plain = {.tokens = 10, .period_ns = SECOND};
    bucket = bucket_of(&plain, 5);
    assert_int_equal(weir_bucket_level(&bucket, 5), 10);
}

TEST(bucket_refuses_past_its_burst_and_says_how_long_to_wait)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    assert_int_equal(wait_of(&bucket, 19, 0), 0);
    assert_int_equal(wait_of(&bucket, 20, 0), 0);
    weir_bucket_take(&bucket, 20, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), 0);
    assert_int_equal(wait_of(&bucket, 1, 0), SECOND / 10);
    assert_int_equal(wait_of(&bucket, 1, SECOND / 10 - 1), 1);
    assert_int_equal(wait_of(&bucket, 1, SECOND / 10), 0);
    assert_int_equal(wait_of(&bucket, 2, SECOND / 10), SECOND / 10);
    assert_int_equal(wait_of(&bucket, 20, 0), 2 * SECOND);
}

TEST(asking_changes_nothing)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    weir_bucket_take(&bucket, 15, 0);
    struct weir_bucket before = bucket;
    wait_of(&bucket, 7, SECOND / 3);
    weir_bucket_level(&bucket, SECOND);
    weir_bucket_full(&bucket, 9 * SECOND);
    assert_true(same(&bucket, &before));
}

TEST(what_flows_in_stops_at_the_burst)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    weir_bucket_take(&bucket, 20, 0);
    assert_int_equal(weir_bucket_level(&bucket, 2 * SECOND - 1), 19);
    assert_false(weir_bucket_full(&bucket, 2 * SECOND - 1));
    assert_int_equal(weir_bucket_level(&bucket, 2 * SECOND), 20);
    assert_true(weir_bucket_full(&bucket, 2 * SECOND));
    assert_int_equal(weir_bucket_level(&bucket, DAY), 20);
    weir_bucket_take(&bucket, 20, DAY);
    assert_int_equal(weir_bucket_level(&bucket, DAY), 0);
}

TEST(the_wait_is_rounded_up_and_is_then_enough)
{
    /* A third of a second a token: no whole number of nanoseconds. */
    const struct weir_rate rate = {.tokens = 3, .period_ns = SECOND};
    struct weir_bucket bucket = bucket_of(&rate, 0);
    weir_bucket_take(&bucket, 3, 0);
    assert_int_equal(wait_of(&bucket, 1, 0), 333333334);
    assert_int_equal(wait_of(&bucket, 1, 333333333), 1);
    assert_int_equal(wait_of(&bucket, 1, 333333334), 0);
    assert_int_equal(wait_of(&bucket, 2, 0), 666666667);
    assert_int_equal(wait_of(&bucket, 3, 0), SECOND);
}

TEST(a_million_tiny_steps_add_up_to_exactly_one_big_one)
{
    /* 7 tokens an hour: a step of 999 ns adds far less than a token, and no whole part of one. */
    const struct weir_rate rate = {.tokens = 7, .period_ns = HOUR, .burst = 1000};
    struct weir_bucket often = bucket_of(&rate, 0);
    weir_bucket_take(&often, 1000, 0);
    struct weir_bucket once = often;
    for (uint64_t i = 1; i <= 1000000; i++) {
        weir_bucket_settle(&often, 1, 1, i * 999);
    }
    weir_bucket_settle(&once, 1, 1, UINT64_C(999000000));
    assert_true(same(&often, &once));
    assert_true(often.level == (__int128)UINT64_C(999000000) * 7);
}

TEST(a_bucket_drawn_to_the_last_token_all_the_time_gives_exactly_its_rate)
{
    const struct weir_rate rate = {.tokens = 7, .period_ns = SECOND};
    struct weir_bucket bucket = bucket_of(&rate, 0);
    uint64_t now_ns = 0;
    for (int i = 0; i < 7 + 7 * 1000; i++) {
        now_ns = weir_bucket_ready_ns(&bucket, 1, now_ns);
        weir_bucket_take(&bucket, 1, now_ns);
    }
    assert_int_equal(now_ns, 1000 * SECOND);
}

TEST(a_bucket_of_requests_takes_one_whatever_the_cost)
{
    const struct weir_rate rate = {.tokens = 2, .period_ns = MINUTE, .unit = WEIR_UNIT_REQUESTS};
    struct weir_bucket bucket = bucket_of(&rate, 0);
    assert_int_equal(weir_bucket_price(&bucket, WEIR_COST_MAX), 1);
    assert_int_equal(wait_of(&bucket, WEIR_COST_MAX, 0), 0);
    weir_bucket_take(&bucket, WEIR_COST_MAX, 0);
    weir_bucket_take(&bucket, 1, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), 0);
    assert_int_equal(wait_of(&bucket, 1000, 0), MINUTE / 2);
    /* It cost more or less than expected, but it was one request all the same. */
    weir_bucket_settle(&bucket, 1000, 0, 0);
    weir_bucket_settle(&bucket, 1, 1000, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), 0);
}

/* ---- G9: larger than the bucket ---- */

TEST(g9_a_cost_above_the_burst_goes_when_the_bucket_is_full_and_the_rest_is_owed)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    assert_int_equal(wait_of(&bucket, 21, 0), 0);
    weir_bucket_take(&bucket, 1, 0);
    assert_int_equal(wait_of(&bucket, 20, 0), SECOND / 10);
    assert_int_equal(wait_of(&bucket, 21, 0), SECOND / 10);
    assert_int_equal(wait_of(&bucket, WEIR_COST_MAX, 0), SECOND / 10);
    assert_int_equal(wait_of(&bucket, 21, SECOND / 10), 0);
    weir_bucket_take(&bucket, 50, SECOND / 10);
    assert_int_equal(weir_bucket_level(&bucket, SECOND / 10), -30);
    assert_int_equal(wait_of(&bucket, 1, SECOND / 10), 3 * SECOND + SECOND / 10);
    assert_int_equal(wait_of(&bucket, 21, SECOND / 10), 5 * SECOND);
}

TEST(g9_with_debt_the_rest_is_paid_before_anything_flows_in)
{
    struct weir_bucket bucket = bucket_of(&ten_in_debt, 0);
    weir_bucket_take(&bucket, 50, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), -30);
    assert_true(bucket.level == 0);
    assert_int_equal(wait_of(&bucket, 1, 0), 3 * SECOND + SECOND / 10);
    weir_bucket_settle(&bucket, 1, 1, 3 * SECOND);
    assert_true(bucket.debt == 0);
    assert_true(bucket.level == 0);
    assert_int_equal(weir_bucket_level(&bucket, 3 * SECOND + SECOND / 10), 1);
}

/* ---- settlement ---- */

TEST(a_lower_cost_is_refunded_but_never_past_the_burst)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    weir_bucket_take(&bucket, 10, 0);
    weir_bucket_settle(&bucket, 10, 4, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), 16);
    weir_bucket_take(&bucket, 6, 0);
    /* 5 flow in; then 6 come back: 10 + 5 + 6 is 1 too many. */
    weir_bucket_settle(&bucket, 6, 0, SECOND / 2);
    assert_int_equal(weir_bucket_level(&bucket, SECOND / 2), 20);
    assert_true(weir_bucket_full(&bucket, SECOND / 2));
    weir_bucket_settle(&bucket, 6, 0, SECOND / 2);
    assert_int_equal(weir_bucket_level(&bucket, SECOND / 2), 20);
}

TEST(the_same_cost_changes_nothing)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    weir_bucket_take(&bucket, 10, 0);
    struct weir_bucket before = bucket;
    weir_bucket_settle(&bucket, 10, 10, 0);
    assert_true(same(&bucket, &before));
}

TEST(negative_a_higher_cost_is_taken_from_what_is_there_and_below_zero)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    weir_bucket_take(&bucket, 5, 0);
    weir_bucket_settle(&bucket, 5, 12, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), 8);
    assert_int_equal(wait_of(&bucket, 9, 0), SECOND / 10);
    weir_bucket_settle(&bucket, 5, 25, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), -12);
    assert_true(bucket.debt == 0);
    assert_int_equal(wait_of(&bucket, 1, 0), SECOND + 3 * SECOND / 10);
    assert_false(weir_bucket_full(&bucket, SECOND));
}

TEST(debt_what_is_there_may_still_be_spent_and_what_flows_in_pays_first)
{
    struct weir_bucket bucket = bucket_of(&ten_in_debt, 0);
    weir_bucket_take(&bucket, 5, 0);
    weir_bucket_settle(&bucket, 5, 12, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), 8);
    /* 15 are there although 7 are owed. */
    assert_int_equal(wait_of(&bucket, 15, 0), 0);
    assert_int_equal(wait_of(&bucket, 16, 0), 8 * SECOND / 10);
    weir_bucket_take(&bucket, 15, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), -7);
    assert_int_equal(wait_of(&bucket, 1, 0), 8 * SECOND / 10);
    assert_int_equal(weir_bucket_level(&bucket, 7 * SECOND / 10), 0);
}

TEST(a_refund_pays_the_debt_before_it_fills_the_bucket)
{
    struct weir_bucket bucket = bucket_of(&ten_in_debt, 0);
    weir_bucket_take(&bucket, 20, 0);
    weir_bucket_settle(&bucket, 10, 16, 0);
    assert_true(bucket.debt == (__int128)6 * SECOND);
    weir_bucket_settle(&bucket, 10, 3, 0);
    assert_true(bucket.debt == 0);
    assert_true(bucket.level == (__int128)1 * SECOND);
    assert_int_equal(weir_bucket_level(&bucket, 0), 1);
}

TEST(a_bucket_knows_when_it_will_be_full)
{
    struct weir_bucket bucket;
    struct weir_rate rate = {.tokens = 3, .period_ns = SECOND, .burst = 3};
    weir_bucket_init(&bucket, &rate, 100);
    assert_int_equal(weir_bucket_full_ns(&bucket, 100), 100);
    assert_int_equal(weir_bucket_full_ns(&bucket, 50), 50);
    weir_bucket_take(&bucket, 1, 100);
    uint64_t full_ns = weir_bucket_full_ns(&bucket, 100);
    assert_int_equal(full_ns, 100 + SECOND / 3 + 1); /* rounded up */
    assert_false(weir_bucket_full(&bucket, full_ns - 1));
    assert_true(weir_bucket_full(&bucket, full_ns));
    assert_int_equal(weir_bucket_full_ns(&bucket, full_ns - 1), full_ns);
    assert_int_equal(weir_bucket_full_ns(&bucket, full_ns), full_ns);
    /* A clock that steps back changes nothing. */
    assert_int_equal(weir_bucket_full_ns(&bucket, 0), full_ns);
}

TEST(a_full_bucket_that_owes_is_not_full)
{
    struct weir_bucket bucket = bucket_of(&ten_in_debt, 0);
    weir_bucket_settle(&bucket, 0, 1, 0);
    assert_true(bucket.level == (__int128)20 * SECOND);
    assert_int_equal(weir_bucket_level(&bucket, 0), 19);
    assert_false(weir_bucket_full(&bucket, SECOND / 10 - 1));
    assert_true(weir_bucket_full(&bucket, SECOND / 10));
}

/* ---- time (G8) ---- */

TEST(g8_time_that_stands_still_refills_nothing)
{
    struct weir_bucket bucket = bucket_of(&ten, SECOND);
    weir_bucket_take(&bucket, 20, SECOND);
    for (int i = 0; i < 1000; i++) {
        weir_bucket_settle(&bucket, 1, 1, SECOND);
        assert_int_equal(wait_of(&bucket, 1, SECOND), SECOND / 10);
    }
    assert_int_equal(weir_bucket_level(&bucket, SECOND), 0);
}

TEST(g8_time_that_steps_back_neither_refills_nor_counts_twice)
{
    struct weir_bucket bucket = bucket_of(&ten, 10 * SECOND);
    weir_bucket_take(&bucket, 20, 10 * SECOND);
    for (int i = 0; i < 10; i++) {
        weir_bucket_settle(&bucket, 1, 1, 9 * SECOND);
        weir_bucket_settle(&bucket, 1, 1, 10 * SECOND);
    }
    assert_int_equal(weir_bucket_level(&bucket, 10 * SECOND), 0);
    assert_true(weir_bucket_ready_ns(&bucket, 1, 5 * SECOND) > 5 * SECOND);
    assert_int_equal(weir_bucket_level(&bucket, 11 * SECOND), 10);
}

TEST(g8_after_a_step_back_the_moment_it_names_is_enough)
{
    struct weir_bucket bucket = bucket_of(&ten, 10 * SECOND);
    weir_bucket_take(&bucket, 20, 10 * SECOND);
    uint64_t ready_ns = weir_bucket_ready_ns(&bucket, 1, 5 * SECOND);
    assert_int_equal(wait_of(&bucket, 1, ready_ns), 0);
    assert_int_equal(ready_ns, 10 * SECOND + SECOND / 10);
}

/* ---- a new rate ---- */

TEST(a_new_rate_counts_from_now_on_and_leaves_the_level)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    weir_bucket_take(&bucket, 20, 0);
    const struct weir_rate faster = {.tokens = 100, .period_ns = SECOND, .burst = 20};
    weir_bucket_set_rate(&bucket, &faster, SECOND / 2);
    assert_int_equal(weir_bucket_level(&bucket, SECOND / 2), 5);
    assert_int_equal(wait_of(&bucket, 6, SECOND / 2), SECOND / 100);
    assert_int_equal(weir_bucket_level(&bucket, SECOND / 2 + SECOND / 10), 15);
}

TEST(a_smaller_burst_cuts_the_level_and_a_larger_one_does_not_fill_it)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    const struct weir_rate small = {.tokens = 10, .period_ns = SECOND, .burst = 7};
    weir_bucket_set_rate(&bucket, &small, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), 7);
    assert_true(weir_bucket_full(&bucket, 0));
    weir_bucket_set_rate(&bucket, &ten, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), 7);
    assert_int_equal(weir_bucket_level(&bucket, SECOND), 17);
}

TEST(a_new_period_keeps_the_number_of_tokens)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    weir_bucket_take(&bucket, 3, 0);
    const struct weir_rate minute = {.tokens = 600, .period_ns = MINUTE, .burst = 20};
    const struct weir_rate day = {.tokens = 864000, .period_ns = DAY, .burst = 20};
    weir_bucket_set_rate(&bucket, &minute, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), 17);
    assert_true(bucket.level == (__int128)17 * MINUTE);
    assert_int_equal(wait_of(&bucket, 18, 0), SECOND / 10);
    weir_bucket_set_rate(&bucket, &day, 0);
    weir_bucket_set_rate(&bucket, &ten, 0);
    assert_true(bucket.level == (__int128)17 * SECOND);
}

TEST(a_part_of_a_token_that_does_not_divide_is_rounded_against_the_caller)
{
    /* A third of the new unit is lost from a level, and added to a debt. */
    const struct weir_rate three = {.tokens = 1, .period_ns = 3 * SECOND, .burst = 9};
    const struct weir_rate one = {.tokens = 1, .period_ns = SECOND, .burst = 9};
    struct weir_bucket bucket = bucket_of(&three, 0);
    bucket.level = (__int128)3 * SECOND + 1;
    weir_bucket_set_rate(&bucket, &one, 0);
    assert_true(bucket.level == 1000000000);

    bucket = bucket_of(&three, 0);
    bucket.level = -1;
    weir_bucket_set_rate(&bucket, &one, 0);
    assert_true(bucket.level == -1);

    struct weir_rate in_debt = three;
    in_debt.settle = WEIR_SETTLE_DEBT;
    bucket = bucket_of(&in_debt, 0);
    bucket.debt = (__int128)3 * SECOND + 1;
    struct weir_rate one_in_debt = one;
    one_in_debt.settle = WEIR_SETTLE_DEBT;
    weir_bucket_set_rate(&bucket, &one_in_debt, 0);
    assert_true(bucket.debt == 1000000001);
}

TEST(a_debt_survives_a_change_of_rate_period_and_mode)
{
    struct weir_bucket bucket = bucket_of(&ten_in_debt, 0);
    weir_bucket_take(&bucket, 50, 0);
    const struct weir_rate minute = {.tokens = 60, .period_ns = MINUTE, .burst = 20};
    weir_bucket_set_rate(&bucket, &minute, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), -30);
    assert_int_equal(wait_of(&bucket, 1, 0), 31 * SECOND);

    bucket = bucket_of(&ten, 0);
    weir_bucket_take(&bucket, 50, 0);
    weir_bucket_set_rate(&bucket, &minute, 0);
    assert_int_equal(weir_bucket_level(&bucket, 0), -30);
    assert_int_equal(wait_of(&bucket, 1, 0), 31 * SECOND);
}

TEST(the_level_is_rounded_down_also_below_zero)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    bucket.level = -1;
    assert_int_equal(weir_bucket_level(&bucket, 0), -1);
    bucket.level = -(__int128)SECOND;
    assert_int_equal(weir_bucket_level(&bucket, 0), -1);
    bucket.level = -(__int128)SECOND - 1;
    assert_int_equal(weir_bucket_level(&bucket, 0), -2);
    bucket.level = (__int128)SECOND - 1;
    assert_int_equal(weir_bucket_level(&bucket, 0), 0);
}

/* ---- long periods and large numbers ---- */

TEST(a_days_tokens_flow_in_over_the_whole_day)
{
    const struct weir_rate rate = {.tokens = 1000, .period_ns = DAY};
    struct weir_bucket bucket = bucket_of(&rate, 0);
    weir_bucket_take(&bucket, 1000, 0);
    assert_int_equal(wait_of(&bucket, 1, 0), DAY / 1000);
    assert_int_equal(weir_bucket_level(&bucket, 12 * HOUR), 500);
    assert_int_equal(weir_bucket_level(&bucket, DAY - 1), 999);
    assert_int_equal(weir_bucket_level(&bucket, DAY), 1000);
    assert_int_equal(weir_bucket_level(&bucket, 2 * DAY), 1000);
}

TEST(the_largest_bucket_fills_and_empties_without_overflow)
{
    const struct weir_rate rate = {
        .tokens = WEIR_RATE_TOKENS_MAX, .period_ns = DAY, .burst = WEIR_RATE_TOKENS_MAX};
    struct weir_bucket bucket = bucket_of(&rate, 0);
    assert_true(weir_bucket_level(&bucket, 0) == (int64_t)WEIR_RATE_TOKENS_MAX);
    for (uint64_t i = 0; i < WEIR_RATE_TOKENS_MAX / WEIR_COST_MAX; i++) {
        assert_int_equal(wait_of(&bucket, WEIR_COST_MAX, 0), 0);
        weir_bucket_take(&bucket, WEIR_COST_MAX, 0);
    }
    assert_int_equal(weir_bucket_level(&bucket, 0), 0);
    /* All the time that there is flows in at once. */
    assert_true(weir_bucket_full(&bucket, UINT64_MAX));
    weir_bucket_take(&bucket, WEIR_COST_MAX, UINT64_MAX);
    assert_true(weir_bucket_level(&bucket, UINT64_MAX) ==
                (int64_t)(WEIR_RATE_TOKENS_MAX - WEIR_COST_MAX));
}

TEST(a_debt_of_ages_is_counted_and_its_end_is_as_far_away_as_a_duration_may_be)
{
    const struct weir_rate rate = {.tokens = 1, .period_ns = DAY};
    struct weir_bucket bucket = bucket_of(&rate, 0);
    for (int i = 0; i < 100000; i++) {
        weir_bucket_settle(&bucket, 0, WEIR_COST_MAX, 0);
    }
    assert_true(weir_bucket_level(&bucket, 0) == 1 - (int64_t)100000 * WEIR_COST_MAX);
    assert_int_equal(wait_of(&bucket, 1, 0), WEIR_DURATION_MAX_NS);
    assert_int_equal(wait_of(&bucket, 1, DAY), WEIR_DURATION_MAX_NS);
    const struct weir_rate second = {.tokens = 1, .period_ns = SECOND};
    weir_bucket_set_rate(&bucket, &second, 0);
    assert_true(weir_bucket_level(&bucket, 0) == 1 - (int64_t)100000 * WEIR_COST_MAX);
}

TEST(a_wait_of_just_the_longest_duration_is_told_exactly)
{
    /* One token a second less would be owed for 2^62 nanoseconds and a part of a second. */
    const struct weir_rate rate = {.tokens = 1, .period_ns = SECOND};
    struct weir_bucket bucket = bucket_of(&rate, 0);
    bucket.level = (__int128)SECOND - (__int128)WEIR_DURATION_MAX_NS + 1;
    assert_int_equal(wait_of(&bucket, 1, 0), WEIR_DURATION_MAX_NS - 1);
    bucket.level--;
    assert_int_equal(wait_of(&bucket, 1, 0), WEIR_DURATION_MAX_NS);
    bucket.level--;
    assert_int_equal(wait_of(&bucket, 1, 0), WEIR_DURATION_MAX_NS);
}

static void take_below_zero(void *argument)
{
    weir_bucket_take(argument, 1, 0);
}

TEST(taking_from_a_bucket_below_zero_is_an_assertion)
{
    struct weir_bucket bucket = bucket_of(&ten, 0);
    weir_bucket_take(&bucket, 50, 0);
    expect_abort(take_below_zero, &bucket, "bucket->level >= 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_is_valid_at_its_bounds_and_not_beyond),
        cmocka_unit_test(a_burst_of_0_equals_the_tokens_and_every_other_difference_counts),
        cmocka_unit_test(bucket_starts_full_with_its_burst_or_its_tokens),
        cmocka_unit_test(bucket_refuses_past_its_burst_and_says_how_long_to_wait),
        cmocka_unit_test(asking_changes_nothing),
        cmocka_unit_test(what_flows_in_stops_at_the_burst),
        cmocka_unit_test(the_wait_is_rounded_up_and_is_then_enough),
        cmocka_unit_test(a_million_tiny_steps_add_up_to_exactly_one_big_one),
        cmocka_unit_test(a_bucket_drawn_to_the_last_token_all_the_time_gives_exactly_its_rate),
        cmocka_unit_test(a_bucket_of_requests_takes_one_whatever_the_cost),
        cmocka_unit_test(
            g9_a_cost_above_the_burst_goes_when_the_bucket_is_full_and_the_rest_is_owed),
        cmocka_unit_test(g9_with_debt_the_rest_is_paid_before_anything_flows_in),
        cmocka_unit_test(a_lower_cost_is_refunded_but_never_past_the_burst),
        cmocka_unit_test(the_same_cost_changes_nothing),
        cmocka_unit_test(negative_a_higher_cost_is_taken_from_what_is_there_and_below_zero),
        cmocka_unit_test(debt_what_is_there_may_still_be_spent_and_what_flows_in_pays_first),
        cmocka_unit_test(a_refund_pays_the_debt_before_it_fills_the_bucket),
        cmocka_unit_test(a_bucket_knows_when_it_will_be_full),
        cmocka_unit_test(a_full_bucket_that_owes_is_not_full),
        cmocka_unit_test(g8_time_that_stands_still_refills_nothing),
        cmocka_unit_test(g8_time_that_steps_back_neither_refills_nor_counts_twice),
        cmocka_unit_test(g8_after_a_step_back_the_moment_it_names_is_enough),
        cmocka_unit_test(a_new_rate_counts_from_now_on_and_leaves_the_level),
        cmocka_unit_test(a_smaller_burst_cuts_the_level_and_a_larger_one_does_not_fill_it),
        cmocka_unit_test(a_new_period_keeps_the_number_of_tokens),
        cmocka_unit_test(a_part_of_a_token_that_does_not_divide_is_rounded_against_the_caller),
        cmocka_unit_test(a_debt_survives_a_change_of_rate_period_and_mode),
        cmocka_unit_test(the_level_is_rounded_down_also_below_zero),
        cmocka_unit_test(a_days_tokens_flow_in_over_the_whole_day),
        cmocka_unit_test(the_largest_bucket_fills_and_empties_without_overflow),
        cmocka_unit_test(a_debt_of_ages_is_counted_and_its_end_is_as_far_away_as_a_duration_may_be),
        cmocka_unit_test(a_wait_of_just_the_longest_duration_is_told_exactly),
        cmocka_unit_test(taking_from_a_bucket_below_zero_is_an_assertion),
    };
    return cmocka_run_group_tests_name("bucket", tests, NULL, NULL);
}
