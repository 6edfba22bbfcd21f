/* Numbers that look random. */
#include "lab/mock/draw.h"

#include "unit/helpers.h"

#define DRAWS 20000

TEST(the_same_seed_and_number_give_the_same_and_others_do_not)
{
    uint64_t one = weir_draw_sequence(1, 1);
    assert_int_equal(weir_draw_sequence(1, 1), one);
    assert_int_not_equal(weir_draw_sequence(1, 2), one);
    assert_int_not_equal(weir_draw_sequence(2, 1), one);
    assert_int_not_equal(weir_draw_sequence(2, 1), weir_draw_sequence(1, 2));
}

TEST(uniform_numbers_fill_their_range)
{
    double sum = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t sequence = weir_draw_sequence(7, i); /* as requests do: the first of each */
        double x = weir_draw_uniform(&sequence);
        assert_true(x >= 0);
        assert_true(x < 1);
        sum += x;
    }
    assert_float_equal(sum / DRAWS, 0.5, 0.01);
}

TEST(half_are_below_the_median_and_a_sixth_beyond_a_deviation)
{
    uint64_t sequence = 42;
    int below = 0;
    int beyond = 0;
    for (int i = 0; i < DRAWS; i++) {
        double x = weir_draw_lognormal(&sequence, 250, 0.6);
        below += x < 250;
        beyond += x > 250 * 1.8221188; /* e^0.6 */
    }
    assert_in_range(below, DRAWS * 48 / 100, DRAWS * 52 / 100);
    assert_in_range(beyond, DRAWS * 15 / 100, DRAWS * 17 / 100);
}

TEST(without_a_spread_every_number_is_the_median)
{
    uint64_t sequence = 42;
    for (int i = 0; i < 100; i++) {
        assert_float_equal(weir_draw_lognormal(&sequence, 250, 0), 250, 0);
    }
    assert_float_equal(weir_draw_lognormal(&sequence, 0, 3), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_and_number_give_the_same_and_others_do_not),
        cmocka_unit_test(uniform_numbers_fill_their_range),
        cmocka_unit_test(half_are_below_the_median_and_a_sixth_beyond_a_deviation),
        cmocka_unit_test(without_a_spread_every_number_is_the_median),
    };
    return cmocka_run_group_tests_name("mock_draw", tests, NULL, NULL);
}
