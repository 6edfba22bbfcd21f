/* What the controllers come to against a provider under constant overload: the figures that
 * docs/internals/congestion.md promises, on fixed seeds. */
#include "unit/provider.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SEEDS 3

#define LEARNED                                \
    .control = {                               \
        .controller = WEIR_CONTROLLER_LEARNED, \
    }

/* The mean over the seeds. */
static struct trial try(struct trial trial)
{
    double used = 0.0;
    double refused = 0.0;
    struct trial run = trial;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run = trial;
        run.seed = seed;
        run_trial(&run);
        used += run.used / SEEDS;
        refused += run.refused / SEEDS;
    }
    run.used = used;
    run.refused = refused;
    return run;
}

static void expect(struct trial trial, double used, double refused)
{
    struct trial result = try(trial);
    if (result.used < used || result.refused > refused) {
        fail_msg("used %.4f (at least %.4f), refused %.5f (at most %.5f)", result.used, used,
                 result.refused, refused);
    }
}

#define TEST(name) static void name(void **state)

TEST(with_headers_nearly_all_is_used_and_nothing_is_refused)
{
    (void)state;
    expect((struct trial){.rate = 16667, .burst_s = 60, .headers = true, .seconds = 300, LEARNED},
           0.99, 0.0001);
    expect((struct trial){.rate = 16667, .burst_s = 10, .headers = true, .seconds = 300, LEARNED},
           0.99, 0.0001);
    expect((struct trial){.rate = 500, .burst_s = 60, .headers = true, .seconds = 1800, LEARNED},
           0.99, 0.0001);
}

/* Measured from when the first burst has been spent, which would count as use. */
TEST(a_silent_providers_rate_is_found_by_few_refusals)
{
    (void)state;
    struct trial trial = {
        .rate = 16667, .burst_s = 60, .measured_from_s = 300, .seconds = 900, LEARNED};
    expect(trial, 0.97, 0.003);
    trial.no_retry_after = true;
    expect(trial, 0.97, 0.003);
    trial.burst_s = 10;
    trial.no_retry_after = false;
    expect(trial, 0.97, 0.003);
}

TEST(a_rule_that_is_known_makes_charging_at_the_end_bearable)
{
    (void)state;
    struct trial trial = {
        .rate = 16667,
        .burst_s = 60,
        .charging = AT_THE_END,
        .measured_from_s = 300,
        .seconds = 900,
        .control = {.controller = WEIR_CONTROLLER_LEARNED, .charge = WEIR_CHARGE_END}};
    expect(trial, 0.97, 0.003);
    trial.burst_s = 10;
    expect(trial, 0.97, 0.003);
}

TEST(a_limit_that_is_halved_or_doubled_is_followed_with_headers_within_30_s)
{
    (void)state;
    struct trial trial = {.rate = 16667,
                          .burst_s = 60,
                          .headers = true,
                          .seconds = 330,
                          .changed_at_s = 100,
                          .measured_from_s = 130,
                          LEARNED};
    trial.changed_rate = 8333;
    expect(trial, 0.97, 0.0001);
    trial.changed_rate = 33333;
    expect(trial, 0.97, 0.0001);
}

TEST(a_limit_that_is_halved_or_doubled_is_found_without_headers)
{
    (void)state;
    struct trial trial = {.rate = 16667, .burst_s = 60, .changed_at_s = 200, LEARNED};
    trial.changed_rate = 8333;
    trial.measured_from_s = 230;
    trial.seconds = 530;
    expect(trial, 0.97, 0.004);
    trial.changed_rate = 33333;
    trial.measured_from_s = 320;
    trial.seconds = 620;
    expect(trial, 0.97, 0.003);
}

TEST(a_hundredth_of_errors_costs_nothing)
{
    (void)state;
    expect((struct trial){.rate = 16667,
                          .burst_s = 60,
                          .headers = true,
                          .error_share = 0.01,
                          .seconds = 300,
                          LEARNED},
           0.99, 0.0001);
}

TEST(after_a_brown_out_all_is_used_again_within_30_s)
{
    (void)state;
    expect((struct trial){.rate = 16667,
                          .burst_s = 60,
                          .headers = true,
                          .seconds = 400,
                          .brown_from_s = 100,
                          .brown_to_s = 160,
                          .measured_from_s = 190,
                          LEARNED},
           0.97, 0.0001);
}

/* 16 places, which refuse without a word: the window is the refused count less one. */
TEST(a_limit_on_parallel_requests_is_found_by_counting)
{
    (void)state;
    struct trial result =
        try((struct trial){.rate = 500000, .burst_s = 60, .places = 16, .seconds = 600, LEARNED});
    assert_true(result.stats.window >= 15.0);
    assert_true(result.stats.window < 18.0);
    assert_true(result.refused < 0.01);
}

/* The reference's maxima are a fifth of this account; a stated quota lifts those of the rate. */
TEST(aimd_stays_within_its_maxima_until_the_provider_lifts_them)
{
    (void)state;
    struct trial trial = {.rate = 16667,
                          .burst_s = 60,
                          .seconds = 900,
                          .control = {.controller = WEIR_CONTROLLER_AIMD}};
    struct trial silent = try(trial);
    trial.headers = true;
    struct trial stated = try(trial);
    assert_true(silent.stats.rate <= 5000.0);
    assert_true(silent.used < 0.35);
    assert_true(stated.stats.rate > 16000.0);
    assert_true(stated.used > 0.5); /* the window's maximum of 64 holds it */
    assert_true(stated.refused < 0.001);
}

TEST(the_same_seed_gives_the_same_figures)
{
    (void)state;
    struct trial trial = {.seed = 7, .rate = 16667, .burst_s = 10, .seconds = 200, LEARNED};
    struct trial again = trial;
    run_trial(&trial);
    run_trial(&again);
    assert_true(trial.used == again.used);
    assert_true(trial.sent == again.sent);
    assert_true(trial.stats.rate == again.stats.rate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_headers_nearly_all_is_used_and_nothing_is_refused),
        cmocka_unit_test(a_silent_providers_rate_is_found_by_few_refusals),
        cmocka_unit_test(a_rule_that_is_known_makes_charging_at_the_end_bearable),
        cmocka_unit_test(a_limit_that_is_halved_or_doubled_is_followed_with_headers_within_30_s),
        cmocka_unit_test(a_limit_that_is_halved_or_doubled_is_found_without_headers),
        cmocka_unit_test(a_hundredth_of_errors_costs_nothing),
        cmocka_unit_test(after_a_brown_out_all_is_used_again_within_30_s),
        cmocka_unit_test(a_limit_on_parallel_requests_is_found_by_counting),
        cmocka_unit_test(aimd_stays_within_its_maxima_until_the_provider_lifts_them),
        cmocka_unit_test(the_same_seed_gives_the_same_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
