/* Prometheus' text format: what a label may be, and how numbers are written. */
#include "unit/wire.h"

#include "base/slice.h"
#include "wire/chars.h"
#include "wire/exposition.h"

#include <string.h>

static void expect_label(struct weir_slice value, const char *expected)
{
    char room[64];
    memset(room, 0x5a, sizeof room);
    const char *end = weir_exposition_label(room, (struct weir_slice){guarded(value), value.bytes});
    assert_int_equal(end - room, strlen(expected));
    assert_memory_equal(room, expected, strlen(expected));
    assert_int_equal(*end, 0x5a);
    assert_true((size_t)(end - room) <= value.bytes * WEIR_EXPOSITION_BYTES_PER_BYTE);
}

TEST(a_label_escapes_three_characters_and_no_other)
{
    expect_label(weir_slice_of(""), "");
    expect_label(weir_slice_of("a\\b\"c\nd"), "a\\\\b\\\"c\\nd");
    expect_label(weir_slice_of("\r\t\x7f'{}"), "\r\t\x7f'{}");
}

TEST(what_is_not_utf_8_in_a_label_becomes_the_sign_for_it)
{
    expect_label(weir_slice_of("\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"),
                 "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80");
    expect_label(weir_slice_of("a\xff"), "a\xef\xbf\xbd");
    expect_label(weir_slice_of("\xe4\xb8"), "\xef\xbf\xbd\xef\xbf\xbd");
    expect_label(weir_slice_of("\xc3\""), "\xef\xbf\xbd\\\"");
}

TEST(a_text_is_utf_8_only_as_a_whole)
{
    static const char *const right[] = {"", "a", "\xc2\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"};
    static const char *const wrong[] = {"\x80",         "a\xc3",        "\xc1\xbf",
                                        "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                        "\xff",         "a\xfe z"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_true(weir_text_is_utf8(weir_slice_of(right[i])));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct weir_slice text = weir_slice_of(wrong[i]);
        assert_false(weir_text_is_utf8((struct weir_slice){guarded(text), text.bytes}));
    }
}

static void expect_written(char *(*write)(char *to, uint64_t number), uint64_t number,
                           const char *expected)
{
    char room[WEIR_EXPOSITION_NUMBER_BYTES_MAX + 1];
    memset(room, 0x5a, sizeof room);
    const char *end = write(room, number);
    assert_int_equal(end - room, strlen(expected));
    assert_memory_equal(room, expected, strlen(expected));
    assert_int_equal(*end, 0x5a);
}

TEST(numbers_are_written_in_full_and_seconds_as_short_as_they_are_exact)
{
    expect_written(weir_exposition_number, 0, "0");
    expect_written(weir_exposition_number, 10, "10");
    expect_written(weir_exposition_number, UINT64_MAX, "18446744073709551615");
    expect_written(weir_exposition_seconds, 0, "0");
    expect_written(weir_exposition_seconds, 1, "0.000000001");
    expect_written(weir_exposition_seconds, 999999999, "0.999999999");
    expect_written(weir_exposition_seconds, 1000000000, "1");
    expect_written(weir_exposition_seconds, 1050000000, "1.05");
    expect_written(weir_exposition_seconds, UINT64_MAX, "18446744073.709551615");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_label_escapes_three_characters_and_no_other),
        cmocka_unit_test(what_is_not_utf_8_in_a_label_becomes_the_sign_for_it),
        cmocka_unit_test(a_text_is_utf_8_only_as_a_whole),
        cmocka_unit_test(numbers_are_written_in_full_and_seconds_as_short_as_they_are_exact),
    };
    return cmocka_run_group_tests_name("exposition", tests, NULL, NULL);
}
