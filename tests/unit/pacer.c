/* A rate found from refusals alone. */
#include "core/pacer.h"
#include "unit/helpers.h"

#include <math.h>

#define expect_near(a, b)                              \
    do {                                               \
        double a_ = (a), b_ = (b);                     \
        if (fabs(a_ - b_) > 1e-6 * (1.0 + fabs(b_))) { \
            fail_msg("%f is not near %f", a_, b_);     \
        }                                              \
    } while (0)

/* One that is given a rate to begin with. */
static struct weir_pacer fresh(void)
{
    struct weir_pacer pacer;
    weir_pacer_init(&pacer, &(struct weir_rate_settings){.start = 500});
    return pacer;
}

static const struct weir_bill thousand = {1000, 0};

/* Sends `count` requests of 1,000, of which all are accepted. */
static void send(struct weir_pacer *pacer, uint32_t count, uint64_t now_ns)
{
    for (uint32_t i = 0; i < count; i++) {
        weir_pacer_send(pacer, thousand, false, now_ns);
        weir_pacer_accept(pacer, pacer->reacted + 1);
    }
}

/* One more is sent and refused. */
static double refuse(struct weir_pacer *pacer, uint64_t number, double retry_after_s,
                     uint64_t now_ns)
{
    weir_pacer_send(pacer, thousand, false, now_ns);
    weir_pacer_undo(pacer, number, thousand, false);
    struct weir_pacer_refusal refusal = {.number = number,
                                         .sent_last = number,
                                         .bill = thousand,
                                         .retry_after_known = retry_after_s > 0.0,
                                         .retry_after_s = retry_after_s,
                                         .rounding_s = 1.0,
                                         .cost_mean = 1000.0,
                                         .now_ns = now_ns};
    return weir_pacer_refuse(pacer, &refusal);
}

TEST(without_a_rate_to_begin_with_nothing_waits_until_a_refusal_has_measured_one)
{
    struct weir_pacer pacer;
    weir_pacer_init(&pacer, &(struct weir_rate_settings){0});
    expect_near(weir_pacer_wait(&pacer, 1e9, false), 0.0);
    send(&pacer, 100, SECOND);
    expect_near(weir_pacer_wait(&pacer, 1e9, false), 0.0);
    assert_true(pacer.asleep);
    /* A hundred thousand in ten seconds, and empty for two more. */
    expect_near(refuse(&pacer, 101, 2.0, 11 * SECOND), 2.0);
    assert_false(pacer.asleep);
    expect_near(pacer.measured, 100000.0 / 11.5);
    assert_true(weir_pacer_wait(&pacer, 1000.0, false) > 2.0);
    assert_true(weir_pacer_wait(&pacer, 1000.0, true) > 2.0);
}

TEST(what_little_was_delivered_because_little_was_asked_for_is_no_rate)
{
    struct weir_pacer pacer;
    weir_pacer_init(&pacer, &(struct weir_rate_settings){0});
    send(&pacer, 5, SECOND);
    refuse(&pacer, 6, 1.0, 100 * SECOND);
    expect_near(pacer.measured, 500.0);
}

TEST(before_the_first_refusal_the_rate_grows_only_while_it_is_what_holds)
{
    struct weir_pacer pacer = fresh();
    expect_near(pacer.rate, 500.0);
    weir_pacer_advance(&pacer, 6.0, false, true);
    expect_near(pacer.rate, 500.0);
    weir_pacer_advance(&pacer, 6.0, true, false); /* something else holds too */
    expect_near(pacer.rate, 500.0);
    weir_pacer_advance(&pacer, 6.0, true, true);
    expect_near(pacer.rate, 500.0 * exp(1.0));
}

TEST(the_first_refusal_gives_what_was_delivered_until_then_but_not_more_than_was_sent)
{
    struct weir_pacer pacer = fresh();
    pacer.rate = 1e6;
    send(&pacer, 10, SECOND);
    refuse(&pacer, 11, 1.0, 5 * SECOND); /* 10,000 in 4.5 s */
    expect_near(pacer.measured, 10000.0 / 4.5);
    pacer = fresh();
    send(&pacer, 10, SECOND);
    refuse(&pacer, 11, 1.0, 5 * SECOND);
    expect_near(pacer.measured, 500.0);
}

TEST(refusals_before_anything_was_accepted_measure_nothing)
{
    struct weir_pacer pacer = fresh();
    refuse(&pacer, 1, 20.0, SECOND);
    expect_near(pacer.measured, 500.0);
    refuse(&pacer, 2, 20.0, 30 * SECOND);
    expect_near(pacer.measured, 500.0);
}

/* A request a minute for an hour: 17 a second were asked for, and nothing says that more were not
 * to be had. */
TEST(a_refusal_after_a_quiet_time_does_not_take_the_demand_for_the_supply)
{
    struct weir_pacer pacer = fresh();
    for (uint64_t minute = 0; minute < 60; minute++) {
        weir_pacer_advance(&pacer, 60.0, false, true);
        send(&pacer, 1, (1 + 60 * minute) * SECOND);
    }
    refuse(&pacer, 61, 1.0, 3600 * SECOND);
    expect_near(pacer.measured, 500.0);
}

/* It pays with what there is, so that those who come at once do not wait for it later. */
TEST(until_a_refusal_whoever_finds_nothing_under_way_goes_whatever_it_costs)
{
    struct weir_pacer pacer = fresh();
    struct weir_bill dear = {30000, 0};
    for (int i = 0; i < 3; i++) {
        expect_near(weir_pacer_wait(&pacer, 30000.0, true), 0.0);
        assert_true(weir_pacer_send(&pacer, dear, true, SECOND));
        expect_near(pacer.balance, 0.0);
        expect_near(weir_pacer_wait(&pacer, 500.0, false), 1.0);
        weir_pacer_settle(&pacer, dear, 30000, true);
    }
    assert_int_equal(pacer.charged, 90000);
    assert_false(weir_pacer_send(&pacer, thousand, false, SECOND));
    assert_true(weir_pacer_send(&pacer, dear, true, SECOND));
    expect_near(pacer.balance, -1000.0);
    refuse(&pacer, 5, 1.0, 10 * SECOND);
    pacer.balance = 0.0;
    assert_true(weir_pacer_wait(&pacer, 30000.0, true) > 0.0);
    assert_false(weir_pacer_send(&pacer, thousand, true, 10 * SECOND));
}

TEST(who_went_free_gets_back_no_more_than_it_paid_and_owes_nothing)
{
    struct weir_pacer pacer = fresh();
    struct weir_bill dear = {30000, 0};
    struct weir_bill later = {0, 30000};
    weir_pacer_send(&pacer, dear, true, SECOND); /* there are 2,000 */
    weir_pacer_settle(&pacer, dear, 500, true);
    expect_near(pacer.balance, 1500.0);
    weir_pacer_send(&pacer, dear, true, SECOND);
    weir_pacer_undo(&pacer, 2, dear, true);
    expect_near(pacer.balance, 1500.0);
    weir_pacer_send(&pacer, later, true, SECOND);
    weir_pacer_settle(&pacer, later, 90000, true);
    expect_near(pacer.balance, 0.0);
    expect_near(pacer.open, 0.0);
    assert_int_equal(pacer.charged, 90500);
    pacer.balance = 50000.0; /* all of it is there */
    weir_pacer_send(&pacer, dear, true, SECOND);
    weir_pacer_settle(&pacer, (struct weir_bill){0, 0}, 25000, true); /* while it is streamed */
    expect_near(pacer.balance, 0.0);
    dear.at_once = 55000;
    weir_pacer_settle(&pacer, dear, 40000, true);
    expect_near(pacer.balance, 10000.0);
}

/* 20 x 1,000 delivered in the 10 s between two empty moments, whatever the rate was. */
TEST(between_two_refusals_the_delivered_is_the_rate)
{
    struct weir_pacer pacer = fresh();
    pacer.rate = 2500.0;
    send(&pacer, 10, SECOND);
    refuse(&pacer, 11, 1.0, 5 * SECOND);
    pacer.measured = 2500.0;
    send(&pacer, 20, 6 * SECOND);
    refuse(&pacer, 32, 1.0, 15 * SECOND);
    expect_near(pacer.measured, 2500.0 + 20.0 / 24.0 * (2000.0 - 2500.0));
}

TEST(measurements_that_agree_double_the_plateau_and_others_make_it_short)
{
    struct weir_pacer pacer = fresh();
    pacer.rate = 2000.0;
    send(&pacer, 10, SECOND);
    refuse(&pacer, 11, 1.0, 5 * SECOND);
    pacer.measured = 2000.0;
    double first_s = pacer.span_s;
    send(&pacer, 20, 6 * SECOND);
    refuse(&pacer, 32, 1.0, 15 * SECOND);
    expect_near(pacer.span_s, 2.0 * first_s);
    send(&pacer, 200, 16 * SECOND); /* ten times as much */
    refuse(&pacer, 233, 1.0, 25 * SECOND);
    assert_true(pacer.span_s <= first_s);
}

TEST(the_rate_leaves_what_was_measured_along_a_cubic_as_it_is_used)
{
    struct weir_pacer pacer = fresh();
    pacer.rate = 1000.0;
    send(&pacer, 4, SECOND);
    refuse(&pacer, 5, 1.0, 5 * SECOND);
    pacer.measured = 1000.0;
    pacer.span_s = 10.0;
    weir_pacer_advance(&pacer, 100.0, true, true); /* time alone moves nothing */
    pacer.rate = 1000.0;
    send(&pacer, 10, 6 * SECOND);
    assert_true(pacer.spent_s > 9.0 && pacer.spent_s <= 10.0);
    assert_true(pacer.rate > 1070.0 && pacer.rate <= 1100.0);
}

TEST(a_pause_leaves_a_reserve_inside_the_provider)
{
    struct weir_pacer pacer = fresh();
    pacer.rate = 1000.0;
    pacer.balance = 1e6;
    send(&pacer, 4, SECOND);
    expect_near(refuse(&pacer, 5, 2.0, 5 * SECOND), 2.0);
    double reserve = fmax(pacer.measured, 3000.0);
    expect_near(pacer.balance, 1000.0 - 2.0 * pacer.measured - reserve);
}

TEST(refusals_of_what_was_sent_before_the_reaction_are_the_same_refusal)
{
    struct weir_pacer pacer = fresh();
    pacer.rate = 1000.0;
    send(&pacer, 10, SECOND);
    struct weir_pacer_refusal refusal = {.number = 9,
                                         .sent_last = 10,
                                         .bill = thousand,
                                         .retry_after_known = true,
                                         .retry_after_s = 1.0,
                                         .now_ns = 5 * SECOND};
    weir_pacer_undo(&pacer, 9, thousand, false);
    weir_pacer_refuse(&pacer, &refusal);
    struct weir_pacer before = pacer;
    weir_pacer_undo(&pacer, 10, thousand, false);
    refusal.number = 10;
    refusal.retry_after_s = 3.0;
    expect_near(weir_pacer_refuse(&pacer, &refusal), 3.0);
    expect_near(pacer.measured, before.measured);
    /* The anchor is moved with what turned out not to have been accepted. */
    assert_int_equal(pacer.charged - pacer.anchor_charged, before.charged - before.anchor_charged);
    assert_int_equal(pacer.count - pacer.anchor_count, before.count - before.anchor_count);
}

TEST(a_drought_doubles_the_pause_and_keeps_the_anchor)
{
    struct weir_pacer pacer = fresh();
    pacer.rate = 1000.0;
    send(&pacer, 10, SECOND);
    double first_s = refuse(&pacer, 11, 0.0, 5 * SECOND);
    int64_t anchor_ns = pacer.anchor_ns;
    double measured = pacer.measured;
    expect_near(refuse(&pacer, 12, 0.0, 6 * SECOND), 2.0 * first_s);
    expect_near(refuse(&pacer, 13, 0.0, 7 * SECOND), 4.0 * first_s);
    for (uint64_t i = 14; i < 30; i++) {
        refuse(&pacer, i, 0.0, i * SECOND);
    }
    expect_near(pacer.backoff, 32.0);
    expect_near(pacer.measured, measured);
    assert_true(pacer.anchor_ns == anchor_ns);
}

/* The other bucket may have overflowed while we were idle: less proves nothing, more does. */
/* Without Retry-After nobody tells for how long it has been empty: only an acceptance does. */
TEST(what_was_charged_measures_nothing_if_nobody_was_accepted_and_nothing_is_told)
{
    struct weir_pacer pacer = fresh();
    pacer.rate = 1000.0;
    send(&pacer, 10, SECOND);
    refuse(&pacer, 11, 0.0, 5 * SECOND);
    int64_t anchor_ns = pacer.anchor_ns;
    for (uint32_t i = 0; i < 20; i++) { /* sent at once, answers are on their way */
        weir_pacer_send(&pacer, thousand, false, 6 * SECOND);
    }
    weir_pacer_accept(&pacer, 11); /* of before the reaction: no news */
    weir_pacer_accept(&pacer, 12);
    weir_pacer_accept(&pacer, 13);
    refuse(&pacer, 32, 0.0, 7 * SECOND);
    assert_true(pacer.anchor_ns == anchor_ns);
    expect_near(pacer.backoff, 2.0);
    send(&pacer, 3, 8 * SECOND);
    refuse(&pacer, 36, 0.0, 9 * SECOND);
    assert_true(pacer.anchor_ns > anchor_ns);
    expect_near(pacer.backoff, 1.0);
}

TEST(what_was_cut_while_idle_makes_a_measurement_a_lower_bound)
{
    struct weir_pacer pacer = fresh();
    pacer.rate = 1000.0;
    send(&pacer, 10, SECOND);
    refuse(&pacer, 11, 1.0, 5 * SECOND);
    double measured = pacer.measured;
    weir_pacer_advance(&pacer, 1000.0, false, false);
    assert_false(pacer.clean);
    send(&pacer, 4, 6 * SECOND);
    refuse(&pacer, 16, 1.0, 15 * SECOND); /* 400 a second */
    expect_near(pacer.measured, measured);
    assert_true(pacer.clean);
    weir_pacer_advance(&pacer, 1000.0, false, false);
    assert_false(pacer.clean);
    send(&pacer, 40, 16 * SECOND);
    refuse(&pacer, 57, 1.0, 25 * SECOND); /* 4,000 */
    expect_near(pacer.measured, measured + 40.0 / 44.0 * (4000.0 - measured));
}

/* The account was empty before anybody here came. Nothing was delivered, which measures nothing. */
TEST(who_is_refused_from_the_first_begins_anew)
{
    struct weir_pacer pacer = fresh();
    weir_pacer_advance(&pacer, 600.0, true, true); /* growing proves nothing either */
    expect_near(refuse(&pacer, 1, 1.0, SECOND), 1.0);
    assert_false(pacer.anchored);
    expect_near(pacer.rate, 500.0);
    expect_near(pacer.balance, 1000.0 - 500.0 - 3000.0);
    assert_true(weir_pacer_wait(&pacer, 1000.0, false) <= 7.0);
    weir_pacer_advance(&pacer, 6.0, true, true);
    expect_near(pacer.rate, 500.0 * exp(1.0));
    /* What comes then is measured from that empty moment on: 20,000 in 10 s. */
    pacer.rate = 1e6;
    send(&pacer, 20, 2 * SECOND);
    refuse(&pacer, 22, 1.0, 11 * SECOND);
    assert_true(pacer.anchored);
    expect_near(pacer.measured, 2000.0);
}

/* ---- charged at the end ---- */

static const struct weir_bill at_the_end = {0, 1000};

static double refuse_later(struct weir_pacer *pacer, uint64_t number, double delay_s,
                           uint64_t now_ns)
{
    weir_pacer_send(pacer, at_the_end, false, now_ns);
    weir_pacer_undo(pacer, number, at_the_end, false);
    struct weir_pacer_refusal refusal = {.number = number,
                                         .sent_last = number,
                                         .bill = at_the_end,
                                         .retry_after_known = true,
                                         .retry_after_s = 1.0,
                                         .rounding_s = 1.0,
                                         .cost_mean = 1000.0,
                                         .delay_s = delay_s,
                                         .now_ns = now_ns};
    return weir_pacer_refuse(pacer, &refusal);
}

/* `sent` are out, of which the first `ended` have been charged. */
static struct weir_pacer with_open(uint32_t sent, uint32_t ended)
{
    struct weir_pacer pacer = fresh();
    pacer.rate = 1e6;
    pacer.balance = 1e6;
    for (uint32_t i = 0; i < sent; i++) {
        weir_pacer_send(&pacer, at_the_end, false, SECOND);
    }
    for (uint32_t i = 0; i < ended; i++) {
        weir_pacer_settle(&pacer, at_the_end, 1000, false);
    }
    return pacer;
}

TEST(a_request_that_is_charged_at_the_end_counts_from_then_on)
{
    struct weir_pacer pacer = with_open(60, 10);
    refuse_later(&pacer, 61, 2.0, 5 * SECOND); /* 10,000 in 4.5 s */
    expect_near(pacer.measured, 10000.0 / 4.5);
    double measured = pacer.measured;
    for (uint32_t i = 0; i < 50; i++) { /* nothing new is sent, but the rest ends */
        weir_pacer_settle(&pacer, at_the_end, 1000, false);
    }
    refuse_later(&pacer, 62, 2.0, 15 * SECOND); /* 50,000 in 10 s */
    expect_near(pacer.measured, measured + 50.0 / 54.0 * (5000.0 - measured));
    double again = pacer.measured;
    refuse_later(&pacer, 63, 2.0, 16 * SECOND); /* nothing was charged in between */
    expect_near(pacer.measured, again);
    expect_near(pacer.backoff, 2.0);
}

TEST(what_was_refused_was_never_charged_before_or_after_the_reaction)
{
    struct weir_pacer pacer = with_open(60, 10);
    refuse_later(&pacer, 61, 2.0, 5 * SECOND);
    uint64_t count = pacer.count;
    uint64_t anchor_count = pacer.anchor_count;
    weir_pacer_undo(&pacer, 60, at_the_end, false);
    assert_int_equal(pacer.count, count);
    assert_int_equal(pacer.anchor_count, anchor_count);
    expect_near(pacer.open, 49000.0);
}

/* 10 of 60 charged in 4.5 s: 2,222 a second. 50,000 are open, 22 s of that. But what takes 2 s on
 * average will have been charged after 4. */
TEST(what_is_open_is_waited_for_no_longer_than_it_takes)
{
    struct weir_pacer pacer = with_open(60, 10);
    refuse_later(&pacer, 61, 2.0, 5 * SECOND);
    double measured = 10000.0 / 4.5;
    expect_near(pacer.balance, 1000.0 - measured - 3000.0 - 4.0 * measured);
    pacer = with_open(60, 10);
    refuse_later(&pacer, 61, 20.0, 5 * SECOND);
    expect_near(pacer.balance, 1000.0 - measured - 3000.0 - 50000.0);
    pacer = with_open(60, 10);
    refuse_later(&pacer, 61, 0.0, 5 * SECOND); /* nobody knows how long */
    expect_near(pacer.balance, 1000.0 - measured - 3000.0 - 50000.0);
}

TEST(the_plateau_outlasts_what_is_felt_only_at_the_end)
{
    struct weir_pacer pacer = with_open(60, 10);
    refuse_later(&pacer, 61, 2.0, 5 * SECOND);
    expect_near(pacer.span_s, 8.0);
    pacer = with_open(60, 10);
    refuse_later(&pacer, 61, 100.0, 5 * SECOND); /* longer than the longest otherwise */
    expect_near(pacer.span_s, 400.0);
}

TEST(it_sleeps_while_quotas_rule_and_wakes_at_a_refusal_with_what_they_state)
{
    struct weir_pacer pacer = fresh();
    weir_pacer_sleep(&pacer, 8000.0);
    assert_true(pacer.asleep);
    expect_near(weir_pacer_wait(&pacer, 1e9, false), 0.0);
    send(&pacer, 5, SECOND);
    struct weir_pacer_refusal refusal = {.number = 5,
                                         .sent_last = 5,
                                         .bill = thousand,
                                         .retry_after_known = true,
                                         .retry_after_s = 1.0,
                                         .stated = 8000.0,
                                         .now_ns = 5 * SECOND};
    weir_pacer_undo(&pacer, 5, thousand, false);
    weir_pacer_refuse(&pacer, &refusal);
    assert_false(pacer.asleep);
    expect_near(pacer.measured, 8000.0);
    assert_true(isfinite(pacer.balance));
    weir_pacer_sleep(&pacer, 8000.0); /* still below four times of it */
    assert_false(pacer.asleep);
    pacer.rate = 32001.0;
    weir_pacer_sleep(&pacer, 8000.0);
    assert_true(pacer.asleep);
}

TEST(settlement_gives_back_or_takes_more_and_charges_at_the_end_where_that_is_the_rule)
{
    struct weir_pacer pacer = fresh();
    struct weir_bill later = {0, 1000};
    expect_near(pacer.balance, 2000.0);
    weir_pacer_send(&pacer, thousand, false, SECOND);
    weir_pacer_settle(&pacer, thousand, 400, false);
    expect_near(pacer.balance, 1600.0);
    assert_int_equal(pacer.charged, 400);
    weir_pacer_send(&pacer, later, false, SECOND);
    assert_int_equal(pacer.charged, 400);
    expect_near(pacer.open, 1000.0);
    weir_pacer_settle(&pacer, later, 3000, false);
    expect_near(pacer.balance, -1400.0);
    expect_near(pacer.open, 0.0);
    assert_int_equal(pacer.charged, 3400);
}

TEST(nobody_waits_longer_than_30_s_of_the_rate_however_large)
{
    struct weir_pacer pacer = fresh();
    pacer.begun = true;
    pacer.balance = 0.0;
    expect_near(weir_pacer_wait(&pacer, 1e9, false), 30.0);
    pacer.balance = 15000.0;
    expect_near(weir_pacer_wait(&pacer, 1e9, false), 0.0);
}

TEST(bounds_hold_whatever_is_learned)
{
    struct weir_pacer pacer;
    weir_pacer_init(&pacer, &(struct weir_rate_settings){.start = 100, .min = 50, .max = 200});
    weir_pacer_advance(&pacer, 1000.0, true, true);
    expect_near(pacer.rate, 200.0);
    weir_pacer_bound(&pacer, &(struct weir_rate_settings){.max = 20});
    expect_near(pacer.rate, 20.0);
    pacer = fresh();
    for (int i = 0; i < 1000; i++) {
        weir_pacer_advance(&pacer, 3600.0, true, true);
    }
    assert_true(isfinite(pacer.rate));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            without_a_rate_to_begin_with_nothing_waits_until_a_refusal_has_measured_one),
        cmocka_unit_test(what_little_was_delivered_because_little_was_asked_for_is_no_rate),
        cmocka_unit_test(before_the_first_refusal_the_rate_grows_only_while_it_is_what_holds),
        cmocka_unit_test(
            the_first_refusal_gives_what_was_delivered_until_then_but_not_more_than_was_sent),
        cmocka_unit_test(refusals_before_anything_was_accepted_measure_nothing),
        cmocka_unit_test(a_refusal_after_a_quiet_time_does_not_take_the_demand_for_the_supply),
        cmocka_unit_test(until_a_refusal_whoever_finds_nothing_under_way_goes_whatever_it_costs),
        cmocka_unit_test(who_went_free_gets_back_no_more_than_it_paid_and_owes_nothing),
        cmocka_unit_test(between_two_refusals_the_delivered_is_the_rate),
        cmocka_unit_test(measurements_that_agree_double_the_plateau_and_others_make_it_short),
        cmocka_unit_test(the_rate_leaves_what_was_measured_along_a_cubic_as_it_is_used),
        cmocka_unit_test(a_pause_leaves_a_reserve_inside_the_provider),
        cmocka_unit_test(refusals_of_what_was_sent_before_the_reaction_are_the_same_refusal),
        cmocka_unit_test(a_drought_doubles_the_pause_and_keeps_the_anchor),
        cmocka_unit_test(
            what_was_charged_measures_nothing_if_nobody_was_accepted_and_nothing_is_told),
        cmocka_unit_test(what_was_cut_while_idle_makes_a_measurement_a_lower_bound),
        cmocka_unit_test(who_is_refused_from_the_first_begins_anew),
        cmocka_unit_test(a_request_that_is_charged_at_the_end_counts_from_then_on),
        cmocka_unit_test(what_was_refused_was_never_charged_before_or_after_the_reaction),
        cmocka_unit_test(what_is_open_is_waited_for_no_longer_than_it_takes),
        cmocka_unit_test(the_plateau_outlasts_what_is_felt_only_at_the_end),
        cmocka_unit_test(it_sleeps_while_quotas_rule_and_wakes_at_a_refusal_with_what_they_state),
        cmocka_unit_test(
            settlement_gives_back_or_takes_more_and_charges_at_the_end_where_that_is_the_rule),
        cmocka_unit_test(nobody_waits_longer_than_30_s_of_the_rate_however_large),
        cmocka_unit_test(bounds_hold_whatever_is_learned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
