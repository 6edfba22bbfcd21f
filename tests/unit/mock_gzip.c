/* gzip that compresses nothing. */
#include "lab/mock/gzip.h"

#include "unit/wire.h"

TEST(a_piece_is_wrapped_to_the_byte)
{
    static const char expected[] = "\x1f\x8b\x08\0\0\0\0\0\0\xff"
                                   "\x01\x09\0\xf6\xff"
                                   "123456789"
                                   "\x26\x39\xf4\xcb\x09\0\0\0"; /* the CRC that everybody knows */
    char out[9 + WEIR_GZIP_EXTRA_BYTES];
    struct weir_gzip gzip = {0};
    struct weir_slice piece = {"123456789", 9};
    size_t bytes = weir_gzip_write(&gzip, (struct weir_slice){guarded(piece), 9}, true, out);
    assert_int_equal(bytes, sizeof out);
    assert_int_equal(bytes, sizeof expected - 1);
    assert_memory_equal(out, expected, bytes);
}

TEST(the_sum_goes_on_from_piece_to_piece)
{
    char out[9 + 2 * WEIR_GZIP_EXTRA_BYTES];
    struct weir_gzip gzip = {0};
    size_t first = weir_gzip_write(&gzip, weir_slice_of("1234"), false, out);
    assert_int_equal(first, 10 + 5 + 4);
    assert_int_equal(out[10], 0); /* more follows */
    size_t second = weir_gzip_write(&gzip, weir_slice_of("56789"), true, out + first);
    assert_int_equal(second, 5 + 5 + 8);
    assert_memory_equal(out + first + 10, "\x26\x39\xf4\xcb\x09\0\0\0", 8);
}

TEST(nothing_and_the_longest_piece_fit)
{
    static char piece[WEIR_GZIP_PIECE_BYTES_MAX];
    static char out[WEIR_GZIP_PIECE_BYTES_MAX + WEIR_GZIP_EXTRA_BYTES];
    struct weir_gzip gzip = {0};
    struct weir_slice all = {piece, sizeof piece};
    assert_int_equal(weir_gzip_write(&gzip, all, true, out), sizeof out);
    gzip = (struct weir_gzip){0};
    assert_int_equal(weir_gzip_write(&gzip, (struct weir_slice){"", 0}, true, out),
                     WEIR_GZIP_EXTRA_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_piece_is_wrapped_to_the_byte),
        cmocka_unit_test(the_sum_goes_on_from_piece_to_piece),
        cmocka_unit_test(nothing_and_the_longest_piece_fit),
    };
    return cmocka_run_group_tests_name("mock_gzip", tests, NULL, NULL);
}
