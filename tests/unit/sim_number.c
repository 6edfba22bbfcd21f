#include "lab/sim/number.h"
#include "lab/sim/random.h"
#include "unit/helpers.h"

#include <math.h>

static void expect_close(double x, double expected)
{
    double error = fabs(x - expected) / fmax(fabs(expected), 1);
    if (!(error < 1e-14)) {
        fail_msg("%.17g is not %.17g", x, expected);
    }
}

TEST(logarithms_and_powers_agree_with_the_library)
{
    for (double x = 1e-300; x < 1e300; x *= 1.7) {
        expect_close(weir_sim_log(x), log(x));
    }
    expect_close(weir_sim_log(5e-324), log(5e-324));
    for (double x = -20; x < 20; x += 0.01) {
        expect_close(weir_sim_exp(x) / exp(x), 1);
    }
    expect_close(weir_sim_exp(1e9), weir_sim_exp(700));
    for (double x = 1e-12; x < 1e15; x *= 3.1) {
        expect_close(weir_sim_sqrt(x) / sqrt(x), 1);
    }
    assert_true(weir_sim_sqrt(0) == 0);
    assert_true(weir_sim_log(1) == 0);
    assert_true(weir_sim_exp(0) == 1);
}

/* The bits themselves: on another machine they must be these. */
TEST(results_are_the_same_to_the_last_bit_everywhere)
{
    struct {
        double value;
        uint64_t bits;
    } cases[] = {
        {weir_sim_log(10), 0},
        {weir_sim_exp(1), 0},
        {weir_sim_sqrt(2), 0},
    };
    static const uint64_t expected[] = {UINT64_C(0x40026bb1bbb55515), UINT64_C(0x4005bf0a8b14576a),
                                        UINT64_C(0x3ff6a09e667f3bcc)};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        memcpy(&cases[i].bits, &cases[i].value, sizeof cases[i].bits);
        assert_int_equal(cases[i].bits, expected[i]);
    }
}

/* The authors' own test vector: the first outputs from the state 1, 2, 3, 4. */
TEST(the_generator_is_xoshiro256_plus_plus)
{
    struct weir_sim_random random = {.state = {1, 2, 3, 4}};
    static const uint64_t expected[] = {UINT64_C(41943041), UINT64_C(58720359),
                                        UINT64_C(3588806011781223), UINT64_C(3591011842654386)};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(weir_sim_random_bits(&random), expected[i]);
    }
}

TEST(streams_of_one_seed_differ_and_repeat)
{
    struct weir_sim_random a = weir_sim_random_of(7, 1);
    struct weir_sim_random again = weir_sim_random_of(7, 1);
    struct weir_sim_random other_stream = weir_sim_random_of(7, 2);
    struct weir_sim_random other_seed = weir_sim_random_of(8, 1);
    uint64_t bits = weir_sim_random_bits(&a);
    assert_int_equal(bits, weir_sim_random_bits(&again));
    assert_int_not_equal(bits, weir_sim_random_bits(&other_stream));
    assert_int_not_equal(bits, weir_sim_random_bits(&other_seed));
}

TEST(distributions_have_the_moments_that_they_should)
{
    struct weir_sim_random random = weir_sim_random_of(1, 1);
    const int count = 200000;
    double uniform = 0;
    double exponential = 0;
    double normal = 0;
    double square = 0;
    int below = 0;
    for (int i = 0; i < count; i++) {
        double u = weir_sim_uniform(&random);
        assert_true(u >= 0);
        assert_true(u < 1);
        uniform += u;
        exponential += weir_sim_exponential(&random);
        double n = weir_sim_normal(&random);
        normal += n;
        square += n * n;
        below += weir_sim_lognormal(&random, 250, 0.8) < 250;
    }
    assert_true(fabs(uniform / count - 0.5) < 0.005);
    assert_true(fabs(exponential / count - 1) < 0.01);
    assert_true(fabs(normal / count) < 0.01);
    assert_true(fabs(square / count - 1) < 0.02);
    assert_true(abs(below - count / 2) < 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithms_and_powers_agree_with_the_library),
        cmocka_unit_test(results_are_the_same_to_the_last_bit_everywhere),
        cmocka_unit_test(the_generator_is_xoshiro256_plus_plus),
        cmocka_unit_test(streams_of_one_seed_differ_and_repeat),
        cmocka_unit_test(distributions_have_the_moments_that_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
