#include "base/slice.h"

#include "unit/helpers.h"

/* Both comparisons, over copies of exactly these bytes, so that ASan sees one read too many. */
static void expect_comparison(const char *a, const char *b, size_t a_bytes, size_t b_bytes,
                              bool equal)
{
    char *left = malloc(a_bytes + (a_bytes == 0));
    char *right = malloc(b_bytes + (b_bytes == 0));
    assert_non_null(left);
    assert_non_null(right);
    memcpy(left, a, a_bytes);
    memcpy(right, b, b_bytes);
    struct weir_slice x = {left, a_bytes};
    struct weir_slice y = {right, b_bytes};
    assert_int_equal(weir_slice_equal(x, y), equal);
    assert_int_equal(weir_slice_equal_short(x, y), equal && a_bytes <= 16);
    free(left);
    free(right);
}

TEST(slices_of_every_length_equal_themselves)
{
    char bytes[32];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(200 + i);
    }
    for (size_t length = 0; length <= sizeof bytes; length++) {
        expect_comparison(bytes, bytes, length, length, true);
    }
}

TEST(a_difference_in_any_one_byte_is_seen_at_every_length)
{
    char bytes[20];
    memset(bytes, 'x', sizeof bytes);
    for (size_t length = 1; length <= sizeof bytes; length++) {
        for (size_t i = 0; i < length; i++) {
            char other[20];
            memcpy(other, bytes, sizeof other);
            other[i] = (char)(other[i] ^ (1 << (i % 8)));
            expect_comparison(bytes, other, length, length, false);
        }
    }
}

TEST(a_prefix_is_not_equal)
{
    char bytes[20] = {0};
    for (size_t length = 0; length < sizeof bytes; length++) {
        expect_comparison(bytes, bytes, length, length + 1, false);
        expect_comparison(bytes, bytes, length + 1, length, false);
    }
}

TEST(the_empty_slice_needs_no_data)
{
    struct weir_slice none = {NULL, 0};
    assert_true(weir_slice_equal(none, weir_slice_of("")));
    assert_true(weir_slice_equal_short(none, weir_slice_of("")));
    assert_false(weir_slice_equal(none, weir_slice_of("a")));
    assert_false(weir_slice_equal_short(none, weir_slice_of("a")));
}

TEST(slices_are_ordered_by_their_bytes)
{
    static const char *const ordered[] = {"", "a", "aa", "ab", "b", "\xff"};
    for (size_t i = 0; i < COUNT_OF(ordered); i++) {
        for (size_t j = 0; j < COUNT_OF(ordered); j++) {
            int order = weir_slice_compare(weir_slice_of(ordered[i]), weir_slice_of(ordered[j]));
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
    struct weir_slice none = {NULL, 0};
    assert_int_equal(weir_slice_compare(none, none), 0);
}

TEST(a_copy_is_equal_and_elsewhere)
{
    char room[8] = "-------";
    struct weir_slice copy = weir_slice_copy(room, weir_slice_of("lane"));
    assert_ptr_equal(copy.data, room);
    assert_true(weir_slice_equal(copy, weir_slice_of("lane")));
    assert_memory_equal(room, "lane---", 7);
    copy = weir_slice_copy(room, (struct weir_slice){NULL, 0});
    assert_int_equal(copy.bytes, 0);
    assert_memory_equal(room, "lane---", 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_of_every_length_equal_themselves),
        cmocka_unit_test(a_difference_in_any_one_byte_is_seen_at_every_length),
        cmocka_unit_test(a_prefix_is_not_equal),
        cmocka_unit_test(the_empty_slice_needs_no_data),
        cmocka_unit_test(slices_are_ordered_by_their_bytes),
        cmocka_unit_test(a_copy_is_equal_and_elsewhere),
    };
    return cmocka_run_group_tests_name("slice", tests, NULL, NULL);
}
