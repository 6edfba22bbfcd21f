#include "config/scalars.h"

#include "unit/helpers.h"

#define MILLISECOND (SECOND / 1000)

/* A text of exactly its bytes, at the end of a block, so that ASan sees who reads beyond. */
static struct weir_slice exact(const char *text)
{
    static char *block;
    free(block);
    size_t bytes = strlen(text);
    block = malloc(bytes + 1);
    assert_non_null(block);
    char *start = block + 1;
    memcpy(start, text, bytes);
    return (struct weir_slice){start, bytes};
}

#define expect_not(call, text)                 \
    do {                                       \
        if (call) {                            \
            fail_msg("accepted \"%s\"", text); \
        }                                      \
    } while (0)

TEST(a_number_is_decimal_and_nothing_else)
{
    uint64_t number = 7;
    assert_true(weir_scalar_number(exact("0"), &number));
    assert_int_equal(number, 0);
    assert_true(weir_scalar_number(exact("1234567890"), &number));
    assert_int_equal(number, 1234567890);
    assert_true(weir_scalar_number(exact("18446744073709551615"), &number));
    assert_true(number == UINT64_MAX);
    static const char *const bad[] = {"",
                                      "010",
                                      "00",
                                      "0x10",
                                      "0o7",
                                      "+1",
                                      "-1",
                                      "1.0",
                                      "1e3",
                                      "1_000",
                                      "1,0",
                                      " 1",
                                      "1 ",
                                      "one",
                                      "1a",
                                      "٣",
                                      "0b1",
                                      "18446744073709551616",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        number = 7;
        expect_not(weir_scalar_number(exact(bad[i]), &number), bad[i]);
        assert_int_equal(number, 7);
    }
}

TEST(a_duration_is_a_sum_of_units_from_large_to_small)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"250ms", 250 * MILLISECOND},
                {"0s", 0},
                {"0ms", 0},
                {"5s", 5 * SECOND},
                {"1m30s", 90 * SECOND},
                {"2h", 2 * HOUR},
                {"7d", 7 * DAY},
                {"1d2h3m4s5ms", DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + 5 * MILLISECOND},
                {"90m", 90 * MINUTE},
                {"1s1ms", SECOND + MILLISECOND},
                {"3650d", 3650 * DAY}};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        uint64_t ns = 1;
        assert_true(weir_scalar_duration(exact(good[i].text), &ns));
        assert_int_equal(ns, good[i].ns);
    }
}

TEST(what_is_no_duration_is_refused)
{
    static const char *const bad[] = {"",
                                      "5",
                                      "s",
                                      "5 s",
                                      "5S",
                                      "5sec",
                                      "1.5s",
                                      "-5s",
                                      "+5s",
                                      "05s",
                                      "1h1h",
                                      "1s1m",
                                      "1ms1s",
                                      "5s ",
                                      " 5s",
                                      "5us",
                                      "5ns",
                                      "1w",
                                      "1y",
                                      "1h30",
                                      "s5",
                                      "5ss",
                                      "3651d",
                                      "3650d1ms",
                                      "99999999999999999999d",
                                      "18446744073709551615d",
                                      "none"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        uint64_t ns = 7;
        expect_not(weir_scalar_duration(exact(bad[i]), &ns), bad[i]);
        assert_int_equal(ns, 7);
    }
}

TEST(a_duration_is_shown_in_the_largest_unit_that_divides_it)
{
    assert_string_equal(weir_scalar_show_duration(90 * SECOND).text, "90s");
    assert_string_equal(weir_scalar_show_duration(60 * SECOND).text, "1m");
    assert_string_equal(weir_scalar_show_duration(36 * HOUR).text, "36h");
    assert_string_equal(weir_scalar_show_duration(48 * HOUR).text, "2d");
    assert_string_equal(weir_scalar_show_duration(1500 * MILLISECOND).text, "1500ms");
    assert_string_equal(weir_scalar_show_duration(0).text, "0s");
}

TEST(a_size_has_a_unit_of_1000_or_1024)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0B", 0},
                {"512B", 512},
                {"64KiB", 65536},
                {"1KB", 1000},
                {"1MB", 1000000},
                {"1MiB", 1048576},
                {"2GB", UINT64_C(2000000000)},
                {"2GiB", UINT64_C(2147483648)},
                {"1TB", UINT64_C(1000000000000)},
                {"16777215TiB", UINT64_C(16777215) << 40}};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        uint64_t bytes = 1;
        assert_true(weir_scalar_size(exact(good[i].text), &bytes));
        assert_true(bytes == good[i].bytes);
    }
    static const char *const bad[] = {"",      "64",  "64K", "64k",  "64kb",        "64 KiB",
                                      "1.5MB", "-1B", "B",   "1MBB", "16777216TiB", "064B"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        uint64_t bytes = 7;
        expect_not(weir_scalar_size(exact(bad[i]), &bytes), bad[i]);
        assert_int_equal(bytes, 7);
    }
}

TEST(a_rate_is_a_number_per_second_minute_hour_or_day)
{
    static const struct {
        const char *text;
        struct weir_config_rate rate;
    } good[] = {{"500/s", {500, SECOND}},   {"600/m", {600, MINUTE}},
                {"10000/h", {10000, HOUR}}, {"1000000/d", {1000000, DAY}},
                {"1/s", {1, SECOND}},       {"1099511627776/d", {UINT64_C(1) << 40, DAY}}};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct weir_config_rate rate;
        assert_true(weir_scalar_rate(exact(good[i].text), &rate));
        assert_int_equal(rate.tokens, good[i].rate.tokens);
        assert_int_equal(rate.period_ns, good[i].rate.period_ns);
    }
    static const char *const bad[] = {"",      "500",    "500/",           "/s",     "0/s",
                                      "500/x", "500 /s", "1.5/s",          "500/ms", "500/s ",
                                      "-5/s",  "05/s",   "1099511627777/s"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct weir_config_rate rate = {7, 7};
        expect_not(weir_scalar_rate(exact(bad[i]), &rate), bad[i]);
        assert_int_equal(rate.tokens, 7);
    }
}

TEST(a_percentage_has_its_sign)
{
    uint64_t percent = 7;
    assert_true(weir_scalar_percent(exact("0%"), &percent));
    assert_int_equal(percent, 0);
    assert_true(weir_scalar_percent(exact("100%"), &percent));
    assert_int_equal(percent, 100);
    assert_true(weir_scalar_percent(exact("18446744073709551615%"), &percent));
    assert_true(percent == UINT64_MAX);
    static const char *const bad[] = {"",     "%",    "10",  "10 %",
                                      " 10%", "10% ", "-1%", "1.5%",
                                      "010%", "10%%", "%10", "18446744073709551616%"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        percent = 7;
        expect_not(weir_scalar_percent(exact(bad[i]), &percent), bad[i]);
        assert_int_equal(percent, 7);
    }
}

TEST(a_path_has_up_to_8_names_with_dots_between)
{
    static const char *const good[] = {"a",   "usage.output_tokens", "$x.@y.z-1._", "0",
                                       "9.9", "a.b.c.d.e.f.g.h"};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_true(weir_scalar_path(exact(good[i])));
    }
    static const char *const bad[] = {"",
                                      ".",
                                      "a.",
                                      ".a",
                                      "a..b",
                                      "a b",
                                      "a[0]",
                                      "a/b",
                                      "a\"b",
                                      "a\\b",
                                      "a*",
                                      "g\xc3\xbc",
                                      "a.b.c.d.e.f.g.h.i",
                                      "a.b.c.d.e.f.g.h."};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        expect_not(weir_scalar_path(exact(bad[i])), bad[i]);
    }
    assert_false(weir_scalar_path((struct weir_slice){NULL, 0}));
    assert_false(weir_scalar_path((struct weir_slice){"a\0b", 3}));
    for (size_t bytes = 47; bytes <= 49; bytes++) {
        char path[2 * 49 + 2];
        memset(path, 'n', sizeof path);
        path[bytes] = '.';
        path[2 * bytes + 1] = '\0';
        assert_int_equal(weir_scalar_path(exact(path)), bytes <= 48);
        path[bytes] = '\0';
        assert_int_equal(weir_scalar_path(exact(path)), bytes <= 48);
    }
}

TEST(a_name_has_1_to_64_letters_digits_and_a_few_signs)
{
    char longest[66];
    memset(longest, 'a', sizeof longest);
    longest[64] = '\0';
    assert_true(weir_scalar_name(exact("a")));
    assert_true(weir_scalar_name(exact("resize-image_2.0")));
    assert_true(weir_scalar_name(exact("0")));
    assert_true(weir_scalar_name(exact("AZaz09")));
    assert_true(weir_scalar_name(exact(longest)));
    longest[64] = 'a';
    longest[65] = '\0';
    assert_false(weir_scalar_name(exact(longest)));
    static const char *const bad[] = {"", "-a", "_a", ".a", "a b", "a/b", "a:b", "ä", "a\n"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        expect_not(weir_scalar_name(exact(bad[i])), bad[i]);
    }
}

TEST(a_variable_is_named_by_letters_digits_and_underscores)
{
    assert_true(weir_scalar_variable(exact("OPENAI_API_KEY")));
    assert_true(weir_scalar_variable(exact("_a1")));
    static const char *const bad[] = {"", "1A", "A-B", "A.B", "A B", "A}"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        expect_not(weir_scalar_variable(exact(bad[i])), bad[i]);
    }
}

TEST(headers_have_a_token_for_a_name_and_no_control_characters)
{
    assert_true(weir_scalar_header_name(exact("X-Api-Key")));
    assert_true(weir_scalar_plain_header_name(exact("X-Api-Key-09")));
    assert_false(weir_scalar_plain_header_name(exact("X-Api_Key")));
    assert_false(weir_scalar_plain_header_name(exact("X-Api-Key.")));
    assert_true(weir_scalar_header_name(exact("!#$%&'*+-.^_`|~09az")));
    assert_false(weir_scalar_header_name(exact("")));
    assert_false(weir_scalar_header_name(exact("X Y")));
    assert_false(weir_scalar_header_name(exact(" X")));
    assert_true(weir_scalar_header_name(exact("AZaz09")));
    assert_false(weir_scalar_header_name(exact("X:")));
    assert_false(weir_scalar_header_name((struct weir_slice){"X\0", 2}));
    for (size_t bytes = 63; bytes <= 65; bytes++) {
        char name[66] = "";
        memset(name, 'a', bytes);
        assert_int_equal(weir_scalar_header_name(exact(name)), bytes <= 64);
        assert_int_equal(weir_scalar_variable(exact(name)), bytes <= 64);
    }
    assert_true(weir_scalar_header_value(exact("")));
    assert_true(weir_scalar_header_value(exact("Bearer ab cd")));
    assert_true(weir_scalar_header_value(exact("g\xc3\xbc")));
    assert_false(weir_scalar_header_value(exact("a\r\nX: y")));
    assert_false(weir_scalar_header_value(exact("a\tb")));
    assert_false(weir_scalar_header_value(exact("a\x7f")));
    assert_false(weir_scalar_header_value(exact("a ")));
    assert_false(weir_scalar_header_value(exact(" a")));
    assert_false(weir_scalar_header_value(exact(" ")));
    assert_true(weir_scalar_header_value(exact("a")));
}

TEST(words_are_the_same_in_upper_and_lower_case)
{
    assert_true(weir_scalar_same_word(exact("X-Api"), weir_slice_of("x-aPI")));
    assert_true(weir_scalar_same_word(exact("AZ"), weir_slice_of("az")));
    assert_false(weir_scalar_same_word(exact("["), weir_slice_of("{")));
    assert_false(weir_scalar_same_word(exact("X-Api"), weir_slice_of("x-ap")));
    assert_false(weir_scalar_same_word(exact("@"), weir_slice_of("`")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_decimal_and_nothing_else),
        cmocka_unit_test(a_duration_is_a_sum_of_units_from_large_to_small),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(a_duration_is_shown_in_the_largest_unit_that_divides_it),
        cmocka_unit_test(a_size_has_a_unit_of_1000_or_1024),
        cmocka_unit_test(a_rate_is_a_number_per_second_minute_hour_or_day),
        cmocka_unit_test(a_percentage_has_its_sign),
        cmocka_unit_test(a_path_has_up_to_8_names_with_dots_between),
        cmocka_unit_test(a_name_has_1_to_64_letters_digits_and_a_few_signs),
        cmocka_unit_test(a_variable_is_named_by_letters_digits_and_underscores),
        cmocka_unit_test(headers_have_a_token_for_a_name_and_no_control_characters),
        cmocka_unit_test(words_are_the_same_in_upper_and_lower_case),
    };
    return cmocka_run_group_tests_name("config_scalars", tests, NULL, NULL);
}
