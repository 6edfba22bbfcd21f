#include "unit/helpers.h"

#include "store/crc32c.h"

#include <string.h>

static uint32_t crc_of(const char *bytes, size_t count)
{
    return weir_crc32c(0, (struct weir_slice){bytes, count});
}

/* Values from RFC 3720, B.4. */
TEST(crc32c_gives_the_published_values)
{
    char bytes[32];
    assert_int_equal(crc_of("", 0), 0);
    assert_int_equal(crc_of("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc_of(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc_of(bytes, sizeof bytes), 0x62a8ab43);
    for (int i = 0; i < 32; i++) {
        bytes[i] = (char)i;
    }
    assert_int_equal(crc_of(bytes, sizeof bytes), 0x46dd794e);
}

TEST(crc32c_is_the_same_in_pieces_and_without_the_instruction)
{
    char bytes[100];
    for (int i = 0; i < 100; i++) {
        bytes[i] = (char)(i * 37 + 11);
    }
    for (size_t count = 0; count <= sizeof bytes; count++) {
        struct weir_slice whole = {bytes, count};
        uint32_t expected = weir_crc32c(0, whole);
        assert_int_equal(weir_crc32c_portable(0, whole), expected);
        for (size_t cut = 0; cut <= count; cut++) {
            uint32_t crc = crc_of(bytes, cut);
            crc = weir_crc32c(crc, (struct weir_slice){bytes + cut, count - cut});
            assert_int_equal(crc, expected);
        }
    }
}

TEST(crc32c_differs_after_any_single_flipped_bit)
{
    char bytes[300] = "a row of the database";
    uint32_t expected = crc_of(bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        assert_int_not_equal(crc_of(bytes, sizeof bytes), expected);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_gives_the_published_values),
        cmocka_unit_test(crc32c_is_the_same_in_pieces_and_without_the_instruction),
        cmocka_unit_test(crc32c_differs_after_any_single_flipped_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
