/* Numbers with decimals: rounded to the thousandth, as short as they are, and never anything else
 * than a number. */
#include "unit/wire.h"

#include "wire/decimal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void expect_decimal(double number, const char *expected)
{
    char room[WEIR_DECIMAL_BYTES_MAX + 1];
    memset(room, 0x5a, sizeof room);
    const char *end = weir_decimal_write(room, number);
    assert_int_equal(end - room, strlen(expected));
    assert_memory_equal(room, expected, strlen(expected));
    assert_int_equal(room[WEIR_DECIMAL_BYTES_MAX], 0x5a);
}

TEST(a_number_is_rounded_to_the_thousandth_and_has_no_zeroes_at_its_end)
{
    expect_decimal(0.0, "0");
    expect_decimal(4.0, "4");
    expect_decimal(10.0, "10");
    expect_decimal(4.5, "4.5");
    expect_decimal(0.125, "0.125");
    expect_decimal(0.01, "0.01");
    expect_decimal(1.0 / 3.0, "0.333");
    expect_decimal(2.0 / 3.0, "0.667");
    expect_decimal(0.9995, "1");
    expect_decimal(0.0004, "0");
    expect_decimal(0.0005, "0.001");
    expect_decimal(1099511627776.0625, "1099511627776.063");
}

TEST(what_is_below_zero_has_a_sign_unless_it_is_rounded_to_zero)
{
    expect_decimal(-4.0, "-4");
    expect_decimal(-0.125, "-0.125");
    expect_decimal(-0.0004, "0");
    expect_decimal(-0.0, "0");
}

TEST(what_is_too_large_or_no_number_is_still_written_as_one)
{
    expect_decimal(WEIR_DECIMAL_MAX - 1.0, "9007199254740991");
    expect_decimal(WEIR_DECIMAL_MAX, "9007199254740992");
    expect_decimal(WEIR_DECIMAL_MAX * 2.0, "9007199254740992");
    expect_decimal(-WEIR_DECIMAL_MAX * 2.0, "-9007199254740992");
    expect_decimal(1e300, "9007199254740992");
    expect_decimal((double)INFINITY, "9007199254740992");
    expect_decimal((double)-INFINITY, "-9007199254740992");
    expect_decimal((double)NAN, "0");
    expect_decimal(5e-324, "0");
}

TEST(none_is_longer_than_the_room_for_it_and_all_read_back)
{
    uint64_t state = 1;
    for (int i = 0; i < 100000; i++) {
        char room[WEIR_DECIMAL_BYTES_MAX + 2];
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        double number = (double)(int64_t)state / (double)(UINT64_C(1) << (state >> 58));
        char *end = weir_decimal_write(room, number);
        assert_true(end - room <= WEIR_DECIMAL_BYTES_MAX);
        *end = '\0';
        double bounded = fabs(number) <= WEIR_DECIMAL_MAX ? number
                         : number < 0.0                   ? -WEIR_DECIMAL_MAX
                                                          : WEIR_DECIMAL_MAX;
        double read = strtod(room, &end);
        assert_int_equal(*end, '\0');
        /* Half a thousandth, or what a double of that size can be off by. */
        assert_true(fabs(read - bounded) <= 0.0005 + 4e-16 * fabs(bounded));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_rounded_to_the_thousandth_and_has_no_zeroes_at_its_end),
        cmocka_unit_test(what_is_below_zero_has_a_sign_unless_it_is_rounded_to_zero),
        cmocka_unit_test(what_is_too_large_or_no_number_is_still_written_as_one),
        cmocka_unit_test(none_is_longer_than_the_room_for_it_and_all_read_back),
    };
    return cmocka_run_group_tests_name("decimal", tests, NULL, NULL);
}
