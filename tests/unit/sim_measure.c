#include "lab/sim/measure.h"

#include "lab/sim/clock.h"
#include "lab/sim/policies.h"
#include "unit/helpers.h"

#include <math.h>

static void expect_near(double x, double expected, double tolerance)
{
    if (!(fabs(x - expected) <= tolerance)) {
        fail_msg("%.12g is not %.12g", x, expected);
    }
}

/* ---- the clock ---- */

TEST(timers_come_in_order_and_ties_as_they_were_set)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_sim_clock clock;
    weir_sim_clock_init(&clock, &memory.allocator);
    struct weir_sim_timer timers[5] = {{0}};
    weir_sim_clock_set(&clock, &timers[0], 30);
    weir_sim_clock_set(&clock, &timers[1], 10);
    weir_sim_clock_set(&clock, &timers[2], 20);
    weir_sim_clock_set(&clock, &timers[3], 20);
    weir_sim_clock_set(&clock, &timers[4], 5);
    weir_sim_clock_set(&clock, &timers[4], WEIR_NEVER);
    assert_ptr_equal(weir_sim_clock_next(&clock, 100), &timers[1]);
    assert_int_equal(clock.now_ns, 10);
    weir_sim_clock_set(&clock, &timers[1], 3); /* has passed: now */
    assert_ptr_equal(weir_sim_clock_next(&clock, 100), &timers[1]);
    assert_int_equal(clock.now_ns, 10);
    assert_ptr_equal(weir_sim_clock_next(&clock, 100), &timers[2]);
    assert_ptr_equal(weir_sim_clock_next(&clock, 100), &timers[3]);
    assert_null(weir_sim_clock_next(&clock, 29));
    assert_ptr_equal(weir_sim_clock_next(&clock, 30), &timers[0]);
    assert_null(weir_sim_clock_next(&clock, UINT64_MAX - 1));
    weir_sim_clock_set(&clock, &timers[0], 40);
    weir_sim_clock_deinit(&clock);
    assert_int_equal(timers[0].place, 0);
    assert_int_equal(memory.blocks, 0);
}

/* ---- waits ---- */

TEST(quantiles_are_right_to_two_percent)
{
    struct weir_sim_waits waits = {0};
    assert_true(weir_sim_waits_quantile(&waits, 0.99) == 0);
    for (uint64_t i = 1; i <= 1000; i++) {
        weir_sim_waits_add(&waits, i * 10 * SECOND / 1000);
    }
    expect_near(weir_sim_waits_quantile(&waits, 0.5), 5, 0.1);
    expect_near(weir_sim_waits_quantile(&waits, 0.99), 9.9, 0.2);
    struct weir_sim_waits none = {0};
    weir_sim_waits_add(&none, 0);
    assert_true(weir_sim_waits_quantile(&none, 0.5) == 0);
    weir_sim_waits_add(&none, UINT64_MAX);
    assert_int_equal(none.count, 2);
}

/* ---- fairness ---- */

TEST(jains_index_is_one_for_equals_and_a_share_for_one_who_has_it_all)
{
    const double equal[] = {5, 5, 5, 5};
    const double one[] = {7, 0, 0, 0};
    const double two[] = {1, 1, 0, 0};
    expect_near(weir_sim_jain(equal, 4), 1, 0);
    expect_near(weir_sim_jain(one, 4), 0.25, 0);
    expect_near(weir_sim_jain(two, 4), 0.5, 0);
    expect_near(weir_sim_jain(NULL, 0), 1, 0);
}

TEST(fair_shares_give_nobody_more_than_asked_and_the_rest_by_weight)
{
    double shares[4];
    const double asked[] = {10, 100, 100, 0};
    const double weights[] = {1, 1, 3, 1};
    weir_sim_fair_shares(asked, weights, 4, 90, shares);
    expect_near(shares[0], 10, 1e-9);
    expect_near(shares[1], 20, 1e-9);
    expect_near(shares[2], 60, 1e-9);
    expect_near(shares[3], 0, 1e-9);
    weir_sim_fair_shares(asked, weights, 4, 1000, shares);
    expect_near(shares[2], 100, 1e-9);
}

/* ---- the published formulas ---- */

TEST(vegas_moves_by_its_queue)
{
    /* At 100 the step is log10 = 2, so alpha is 6, beta 12, and up to 2 it leaps by beta. */
    expect_near(weir_sim_vegas_next(100, 1, 1, false), 112, 1e-9);
    expect_near(weir_sim_vegas_next(100, 0.95, 1, false), 102, 1e-9);
    expect_near(weir_sim_vegas_next(100, 0.91, 1, false), 100, 1e-9);
    expect_near(weir_sim_vegas_next(100, 0.8, 1, false), 98, 1e-9);
    expect_near(weir_sim_vegas_next(100, 1, 1, true), 98, 1e-9);
    expect_near(weir_sim_vegas_next(1, 0.1, 1, true), 1, 0);
    expect_near(weir_sim_vegas_next(1000, 1, 1, false), 1000, 0);
}

TEST(gradient2_goes_a_fifth_of_the_way_to_its_gradient)
{
    expect_near(weir_sim_gradient2_next(100, 1, 1), 100.8, 1e-9);  /* no slower: + 4 / 5 */
    expect_near(weir_sim_gradient2_next(100, 1, 2), 95.8, 1e-9);   /* 0.75: 80 + 79 / 5 */
    expect_near(weir_sim_gradient2_next(100, 1, 100), 90.8, 1e-9); /* never below a half */
    expect_near(weir_sim_gradient2_next(20, 1, 100), 20, 0);
    expect_near(weir_sim_gradient2_next(200, 1, 1), 200, 0);
}

TEST(envoys_gradient_multiplies_and_adds_its_root)
{
    expect_near(weir_sim_envoy_next(64, 1, 1.25), 72, 1e-9);          /* 64 and its root */
    expect_near(weir_sim_envoy_next(100, 1, 5), 50 + sqrt(50), 1e-9); /* at most halved */
    expect_near(weir_sim_envoy_next(100, 1, 0.1), 200 + sqrt(200), 1e-9);
    expect_near(weir_sim_envoy_next(3, 1, 100), 3, 0);
    expect_near(weir_sim_envoy_next(1000, 1, 1), 1000, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_come_in_order_and_ties_as_they_were_set),
        cmocka_unit_test(quantiles_are_right_to_two_percent),
        cmocka_unit_test(jains_index_is_one_for_equals_and_a_share_for_one_who_has_it_all),
        cmocka_unit_test(fair_shares_give_nobody_more_than_asked_and_the_rest_by_weight),
        cmocka_unit_test(vegas_moves_by_its_queue),
        cmocka_unit_test(gradient2_goes_a_fifth_of_the_way_to_its_gradient),
        cmocka_unit_test(envoys_gradient_multiplies_and_adds_its_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
