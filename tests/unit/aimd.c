/* Grows by addition, falls by a factor: the window and the rate of `aimd`, with reference 001's
 * figures. */
#include "core/aimd.h"
#include "unit/helpers.h"

#include <math.h>

#define expect_near(a, b)                              \
    do {                                               \
        double a_ = (a), b_ = (b);                     \
        if (fabs(a_ - b_) > 1e-6 * (1.0 + fabs(b_))) { \
            fail_msg("%f is not near %f", a_, b_);     \
        }                                              \
    } while (0)

static struct weir_aimd of(struct weir_control_settings settings)
{
    struct weir_aimd aimd;
    weir_aimd_init(&aimd, &settings);
    return aimd;
}

static struct weir_aimd fresh(void)
{
    return of((struct weir_control_settings){0});
}

/* Number `number`, when `sent_last` have been sent. */
static struct weir_echo echo_of(uint64_t number, uint64_t sent_last)
{
    return (struct weir_echo){.number = number, .sent_last = sent_last, .held = true};
}

/* A first token that took so long. */
static void hear(struct weir_aimd *aimd, uint64_t number, double delay_s)
{
    struct weir_echo echo = echo_of(number, number);
    echo.streamed = true;
    echo.delay_s = delay_s;
    weir_aimd_hear(aimd, &echo);
}

TEST(it_starts_with_the_references_figures)
{
    struct weir_aimd aimd = fresh();
    expect_near(aimd.window, 4.0);
    expect_near(aimd.window_min, 1.0);
    expect_near(aimd.window_max, 64.0);
    expect_near(aimd.rate, 500.0);
    expect_near(aimd.rate_min, 50.0);
    expect_near(aimd.rate_max, 5000.0);
    expect_near(aimd.burst, 2000.0);
    expect_near(aimd.level, 2000.0);
}

/* ---- the window ---- */

TEST(a_window_of_successes_makes_it_one_more_and_only_while_it_holds)
{
    struct weir_aimd aimd = fresh();
    struct weir_echo echo = echo_of(1, 1);
    for (int i = 0; i < 4; i++) {
        weir_aimd_succeed(&aimd, &echo);
    }
    assert_true(aimd.window > 4.8 && aimd.window <= 5.0);
    assert_int_equal(aimd.reason, WEIR_LIMIT_GROWN);
    double before = aimd.window;
    echo.held = false;
    weir_aimd_succeed(&aimd, &echo);
    expect_near(aimd.window, before);
    echo.held = true;
    for (int i = 0; i < 10000; i++) {
        weir_aimd_succeed(&aimd, &echo);
    }
    expect_near(aimd.window, 64.0);
}

TEST(a_window_of_losses_makes_it_seven_tenths_once)
{
    struct weir_aimd aimd = fresh();
    weir_aimd_set(&aimd, 40.0);
    for (uint64_t number = 1; number <= 40; number++) { /* all were sent before the first came */
        struct weir_echo echo = echo_of(number, 40);
        weir_aimd_refuse(&aimd, &echo);
    }
    expect_near(aimd.window, 28.0);
    assert_int_equal(aimd.reason, WEIR_LIMIT_REFUSED);
    struct weir_echo echo = echo_of(41, 60);
    weir_aimd_lose(&aimd, &echo);
    expect_near(aimd.window, 19.6);
    assert_int_equal(aimd.reason, WEIR_LIMIT_LOST);
    for (uint64_t number = 100; number <= 200; number++) {
        echo = echo_of(number, number);
        weir_aimd_refuse(&aimd, &echo);
    }
    expect_near(aimd.window, 1.0);
}

TEST(first_tokens_half_a_second_above_the_baseline_make_it_nine_tenths)
{
    struct weir_aimd aimd = fresh();
    weir_aimd_set(&aimd, 40.0);
    for (uint64_t number = 1; number <= 50; number++) {
        hear(&aimd, number, 0.6);
    }
    expect_near(aimd.window, 40.0);
    for (uint64_t number = 51; number <= 150; number++) { /* later, but not by so much */
        hear(&aimd, number, 1.05);
    }
    expect_near(aimd.window, 40.0);
    for (uint64_t number = 151; number <= 200 && aimd.window == 40.0; number++) {
        hear(&aimd, number, 3.0);
    }
    expect_near(aimd.window, 36.0);
    assert_int_equal(aimd.reason, WEIR_LIMIT_DELAYED);
    struct weir_echo whole = echo_of(1000, 1000);
    whole.delay_s = 60.0; /* a reply that is not streamed has no first token */
    double before = aimd.delay_s;
    weir_aimd_hear(&aimd, &whole);
    expect_near(aimd.delay_s, before);
}

/* ---- the rate ---- */

TEST(the_rate_grows_by_50_for_each_second_in_which_it_alone_held)
{
    struct weir_aimd aimd = fresh();
    weir_aimd_advance(&aimd, 10.0, false);
    expect_near(aimd.rate, 500.0);
    weir_aimd_advance(&aimd, 2.0, true);
    expect_near(aimd.rate, 600.0);
    weir_aimd_advance(&aimd, 1000.0, true);
    expect_near(aimd.rate, 5000.0);
}

TEST(the_rate_falls_once_per_round_trip_by_its_factors_and_not_below_its_least)
{
    struct weir_aimd aimd = fresh();
    struct weir_echo echo = echo_of(1, 10);
    weir_aimd_refuse(&aimd, &echo);
    expect_near(aimd.rate, 350.0);
    echo = echo_of(10, 20);
    weir_aimd_refuse(&aimd, &echo);
    expect_near(aimd.rate, 350.0);
    echo = echo_of(11, 20);
    weir_aimd_lose(&aimd, &echo);
    expect_near(aimd.rate, 0.85 * 350.0);
    for (uint64_t number = 21; number < 50; number++) {
        echo = echo_of(number, number);
        weir_aimd_refuse(&aimd, &echo);
    }
    expect_near(aimd.rate, 50.0);
}

TEST(what_costs_more_than_the_burst_goes_when_the_bucket_is_full)
{
    struct weir_aimd aimd = fresh();
    expect_near(weir_aimd_wait(&aimd, 1e9), 0.0);
    weir_aimd_take(&aimd, 3000.0);
    expect_near(aimd.level, -1000.0);
    expect_near(weir_aimd_wait(&aimd, 1e9), 3000.0 / 500.0);
    expect_near(weir_aimd_wait(&aimd, 1000.0), 2000.0 / 500.0);
    weir_aimd_advance(&aimd, 1e6, false);
    expect_near(aimd.level, 2000.0); /* never more than its burst */
}

TEST(what_was_underestimated_is_owed_or_taken_below_zero)
{
    struct weir_aimd aimd = fresh();
    weir_aimd_take(&aimd, 2000.0);
    weir_aimd_settle(&aimd, 2000.0, 2500.0);
    expect_near(aimd.level, -500.0);
    expect_near(aimd.debt, 0.0);
    weir_aimd_settle(&aimd, 2000.0, 1500.0);
    expect_near(aimd.level, 0.0);
    aimd = of((struct weir_control_settings){.settle = WEIR_SETTLE_DEBT});
    weir_aimd_take(&aimd, 1500.0);
    weir_aimd_settle(&aimd, 1500.0, 2300.0);
    expect_near(aimd.level, 500.0); /* may still be spent */
    expect_near(aimd.debt, 800.0);
    weir_aimd_advance(&aimd, 1.0, false); /* what flows in pays the debt first */
    expect_near(aimd.level, 500.0);
    expect_near(aimd.debt, 300.0);
}

TEST(a_stated_rate_replaces_what_was_guessed_and_lifts_a_maximum_nobody_set)
{
    struct weir_aimd aimd = fresh();
    weir_aimd_state(&aimd, 16000.0);
    expect_near(aimd.rate, 16000.0);
    expect_near(aimd.rate_max, 16000.0);
    aimd = of((struct weir_control_settings){.rate = {.max = 3000}});
    weir_aimd_state(&aimd, 16000.0);
    expect_near(aimd.rate, 3000.0);
}

TEST(settings_bound_what_it_has_become)
{
    struct weir_aimd aimd = fresh();
    weir_aimd_bound(&aimd, &(struct weir_control_settings){.window = {.min = 8, .max = 16},
                                                           .rate = {.min = 600, .max = 700}});
    expect_near(aimd.window, 8.0);
    assert_int_equal(aimd.reason, WEIR_LIMIT_SET);
    expect_near(aimd.rate, 600.0);
    weir_aimd_set(&aimd, 100.0);
    expect_near(aimd.window, 16.0);
}

TEST(its_factors_are_settings)
{
    struct weir_control_settings settings = {.rate = {.start = 1000, .max = 5000},
                                             .aimd = {.step = 200,
                                                      .beta = 50,
                                                      .beta_soft = 90,
                                                      .window_beta = 25,
                                                      .delay_decrease = 80,
                                                      .delay_threshold_ns = 100 * WEIR_NS_PER_MS}};
    struct weir_aimd aimd = of(settings);
    weir_aimd_set(&aimd, 40.0);
    weir_aimd_advance(&aimd, 2.0, true);
    expect_near(aimd.rate, 1400.0);
    struct weir_echo echo = echo_of(1, 1);
    weir_aimd_refuse(&aimd, &echo);
    expect_near(aimd.rate, 700.0);
    expect_near(aimd.window, 10.0);
    echo = echo_of(2, 2);
    weir_aimd_lose(&aimd, &echo);
    expect_near(aimd.rate, 630.0);
    expect_near(aimd.window, 2.5);
    weir_aimd_set(&aimd, 40.0);
    hear(&aimd, 3, 1.0);
    for (uint64_t number = 4; number <= 100 && aimd.window == 40.0; number++) {
        hear(&aimd, number, 1.25); /* less than the usual half a second above */
    }
    expect_near(aimd.window, 32.0);
    weir_aimd_bound(&aimd, &(struct weir_control_settings){.rate = {.start = 1000}});
    echo = echo_of(200, 200);
    weir_aimd_refuse(&aimd, &echo);
    expect_near(aimd.rate, 441.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_starts_with_the_references_figures),
        cmocka_unit_test(a_window_of_successes_makes_it_one_more_and_only_while_it_holds),
        cmocka_unit_test(a_window_of_losses_makes_it_seven_tenths_once),
        cmocka_unit_test(first_tokens_half_a_second_above_the_baseline_make_it_nine_tenths),
        cmocka_unit_test(the_rate_grows_by_50_for_each_second_in_which_it_alone_held),
        cmocka_unit_test(the_rate_falls_once_per_round_trip_by_its_factors_and_not_below_its_least),
        cmocka_unit_test(what_costs_more_than_the_burst_goes_when_the_bucket_is_full),
        cmocka_unit_test(what_was_underestimated_is_owed_or_taken_below_zero),
        cmocka_unit_test(a_stated_rate_replaces_what_was_guessed_and_lifts_a_maximum_nobody_set),
        cmocka_unit_test(settings_bound_what_it_has_become),
        cmocka_unit_test(its_factors_are_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
