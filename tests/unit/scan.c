/* Also built as scan_portable.c, which takes the way without SSE2. */
#include "wire/scan.h"

#include "unit/wire.h"

typedef const char *scan_function(const char *from, const char *end);
typedef bool goes_on_function(uint8_t byte);

static bool value_goes_on(uint8_t byte)
{
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

static bool target_goes_on(uint8_t byte)
{
    return byte > 0x20 && byte < 0x7f && byte != '#';
}

static bool name_goes_on(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '-';
}

static bool text_goes_on(uint8_t byte)
{
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

static bool base64_goes_on(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') ||
           (byte != 0 && byte < 128 && strchr("+/-_=", (int)byte) != NULL);
}

static bool line_goes_on(uint8_t byte)
{
    return byte != '\r' && byte != '\n';
}

/* Any byte at any place of a run of any length, with another stop behind it or none. */
static void try_all(scan_function *scan, goes_on_function *goes_on, char stop)
{
    char run[40];
    for (size_t bytes = 1; bytes <= sizeof run; bytes++) {
        for (size_t at = 0; at < bytes; at++) {
            for (unsigned byte = 0; byte < 256; byte++) {
                memset(run, 'a', sizeof run);
                run[at] = (char)byte;
                if (byte % 3 == 0 && at + 1 < bytes) {
                    run[at + 1] = stop;
                }
                size_t expected = 0;
                while (expected < bytes && goes_on((uint8_t)run[expected])) {
                    expected++;
                }
                const char *from = guarded((struct weir_slice){run, bytes});
                size_t got = (size_t)(scan(from, from + bytes) - from);
                if (got != expected) {
                    fail_msg("byte %u at %zu of %zu: expected %zu, got %zu", byte, at, bytes,
                             expected, got);
                }
            }
        }
    }
}

static const char *scan_value(const char *from, const char *end)
{
    return weir_scan_value(from, end);
}

static const char *scan_target(const char *from, const char *end)
{
    return weir_scan_target(from, end);
}

static const char *scan_name(const char *from, const char *end)
{
    return weir_scan_name(from, end);
}

static const char *scan_text(const char *from, const char *end)
{
    return weir_scan_text(from, end);
}

static const char *scan_base64(const char *from, const char *end)
{
    return weir_scan_base64(from, end);
}

static const char *scan_line(const char *from, const char *end)
{
    return weir_scan_line(from, end);
}

TEST(values_are_scanned_up_to_the_first_control_character)
{
    try_all(scan_value, value_goes_on, '\0');
}

TEST(targets_are_scanned_up_to_the_first_character_that_cannot_be_in_one)
{
    try_all(scan_target, target_goes_on, '\0');
}

TEST(names_are_scanned_up_to_the_first_unusual_character)
{
    try_all(scan_name, name_goes_on, '\0');
}

TEST(strings_of_json_are_scanned_up_to_what_is_not_plain_in_them)
{
    try_all(scan_text, text_goes_on, '"');
}

TEST(base64_is_scanned_up_to_what_is_not_in_its_alphabet)
{
    try_all(scan_base64, base64_goes_on, ' ');
}

TEST(lines_are_scanned_up_to_their_end)
{
    try_all(scan_line, line_goes_on, '\n');
    try_all(scan_line, line_goes_on, '\r');
}

TEST(nothing_is_scanned_where_there_is_nothing)
{
    const char *from = guarded((struct weir_slice){"", 0});
    assert_ptr_equal(weir_scan_value(from, from), from);
    assert_ptr_equal(weir_scan_target(from, from), from);
    assert_ptr_equal(weir_scan_name(from, from), from);
    assert_ptr_equal(weir_scan_text(from, from), from);
    assert_ptr_equal(weir_scan_base64(from, from), from);
    assert_ptr_equal(weir_scan_line(from, from), from);
}

TEST(every_character_is_in_the_classes_that_the_standard_gives_it)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        bool symbol = byte != 0 && byte < 128 && strchr("!#$%&'*+-.^_`|~", (int)byte) != NULL;
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool digit = c >= '0' && c <= '9';
        bool hex = digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        bool host = letter || digit || c == '-' || c == '.' || c == '_' || c == '~';
        bool value = value_goes_on((uint8_t)byte);
        assert_int_equal(weir_char_is(c, WEIR_CHAR_TOKEN), symbol || letter || digit);
        assert_int_equal(weir_char_is(c, WEIR_CHAR_TARGET), target_goes_on((uint8_t)byte));
        assert_int_equal(weir_char_is(c, WEIR_CHAR_VALUE), value);
        assert_int_equal(weir_char_is(c, WEIR_CHAR_HEX), hex);
        assert_int_equal(weir_char_is(c, WEIR_CHAR_HOST), host);
        assert_int_equal(weir_char_is(c, WEIR_CHAR_WORD), letter || digit || c == '-');
        assert_int_equal(weir_char_is(c, WEIR_CHAR_QUOTED), value && c != '"' && c != '\\');
        if (hex) {
            char text[2] = {c, '\0'};
            assert_int_equal(weir_char_hex(c), strtol(text, NULL, 16));
        }
    }
}

TEST(texts_are_the_same_but_for_the_case_of_letters)
{
    assert_true(weir_text_same(weir_slice_of("Chunked"), weir_slice_of("cHUNKED")));
    assert_true(weir_text_same(weir_slice_of(""), weir_slice_of("")));
    assert_false(weir_text_same(weir_slice_of("a"), weir_slice_of("")));
    assert_false(weir_text_same(weir_slice_of("a-"), weir_slice_of("a\r")));
    assert_false(weir_text_same(weir_slice_of("@"), weir_slice_of("`")));
    assert_false(weir_text_same(weir_slice_of("["), weir_slice_of("{")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_scanned_up_to_the_first_control_character),
        cmocka_unit_test(targets_are_scanned_up_to_the_first_character_that_cannot_be_in_one),
        cmocka_unit_test(names_are_scanned_up_to_the_first_unusual_character),
        cmocka_unit_test(strings_of_json_are_scanned_up_to_what_is_not_plain_in_them),
        cmocka_unit_test(base64_is_scanned_up_to_what_is_not_in_its_alphabet),
        cmocka_unit_test(lines_are_scanned_up_to_their_end),
        cmocka_unit_test(nothing_is_scanned_where_there_is_nothing),
        cmocka_unit_test(every_character_is_in_the_classes_that_the_standard_gives_it),
        cmocka_unit_test(texts_are_the_same_but_for_the_case_of_letters),
    };
    return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
