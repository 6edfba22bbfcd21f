#include "base/hex.h"

#include "unit/helpers.h"

static void expect_digits(uint64_t number)
{
    char expected[17];
    char text[17] = "";
    snprintf(expected, sizeof expected, "%016llx", (unsigned long long)number);
    weir_hex_write_64(text, number);
    assert_string_equal(text, expected);
}

TEST(a_number_is_written_with_all_its_digits)
{
    expect_digits(0);
    expect_digits(UINT64_MAX);
    expect_digits(UINT64_C(0x0123456789abcdef));
    expect_digits(UINT64_C(0xfedcba9876543210));
    for (int digit = 0; digit < 16; digit++) {
        for (int place = 0; place < 16; place++) {
            expect_digits((uint64_t)digit << (4 * place));
        }
    }
}

TEST(bytes_are_written_in_their_order)
{
    static const uint8_t bytes[] = {0x00, 0x9a, 0xff, 0x10};
    char text[9] = "";
    weir_hex_write_bytes(text, bytes, sizeof bytes);
    assert_string_equal(text, "009aff10");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_written_with_all_its_digits),
        cmocka_unit_test(bytes_are_written_in_their_order),
    };
    return cmocka_run_group_tests_name("hex", tests, NULL, NULL);
}
