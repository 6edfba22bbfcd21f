#include "wire/path.h"

#include "unit/wire.h"

#define DOTS   WEIR_PATH_DOTS
#define SLASH  WEIR_PATH_ENCODED_SLASH
#define BACK   WEIR_PATH_BACKSLASH
#define NUL    WEIR_PATH_ENCODED_NUL
#define ESCAPE WEIR_PATH_BAD_ESCAPE
#define EMPTY  WEIR_PATH_EMPTY_SEGMENT

struct sample {
    const char *path;
    unsigned flaws;
};

static void expect_flaws(const struct sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct weir_slice path = weir_slice_of(samples[i].path);
        path.data = guarded(path);
        unsigned flaws = weir_path_flaws(path);
        if (flaws != samples[i].flaws) {
            fail_msg("%s: expected %u, got %u", samples[i].path, samples[i].flaws, flaws);
        }
    }
}

TEST(usual_paths_have_no_flaws)
{
    static const struct sample samples[] = {
        {"", 0},
        {"/", 0},
        {"/a/b/", 0},
        {"/a.b/c..d/...", 0},
        {"/..a/b../.c", 0},
        {"/a%20b/%41%7e", 0},
        {"/a;b=c/d", 0},
        {"/a:@!$&'()*+,=~-_", 0},
        {"/%2e%2e%2e", 0},
        {"/%252f", 0},
        {"/%2500", 0},
        {"/a/;/b", 0},
        {"/....", 0},
        {"/%2ea", 0},
        {"/a%2e", 0},
        {"/%01%ff", 0},
    };
    expect_flaws(samples, COUNT_OF(samples));
}

TEST(segments_of_one_or_two_dots_are_found_however_they_are_written)
{
    static const struct sample samples[] = {
        {"/..", DOTS},    {"/.", DOTS},      {"/../", DOTS},      {"/./a", DOTS},
        {"/a/..", DOTS},  {"/a/../b", DOTS}, {"/%2e%2e/a", DOTS}, {"/.%2E", DOTS},
        {"/%2e", DOTS},   {"/%2E./a", DOTS}, {"/..;x=y/a", DOTS}, {"/.;/a", DOTS},
        {"/a/..;", DOTS}, {"..", DOTS},      {"/..;/..a", DOTS},
    };
    expect_flaws(samples, COUNT_OF(samples));
}

TEST(escapes_that_change_the_shape_of_a_path_are_found)
{
    static const struct sample samples[] = {
        {"/a%2fb", SLASH}, {"/a%2Fb", SLASH},      {"/a%5cb", BACK},
        {"/a%5Cb", BACK},  {"/a\\b", BACK},        {"/a%00", NUL},
        {"/%00", NUL},     {"/a%2f..%2fb", SLASH}, {"/..%2f", SLASH},
        {"/..%5c", BACK},  {"/\\../", BACK},       {"/%2f%5c%00/..", SLASH | BACK | NUL | DOTS},
    };
    expect_flaws(samples, COUNT_OF(samples));
}

TEST(a_percent_without_two_digits_is_found)
{
    static const struct sample samples[] = {
        {"/%", ESCAPE},    {"/%2", ESCAPE},   {"/%2g", ESCAPE},         {"/%g2", ESCAPE},
        {"/%%41", ESCAPE}, {"/a%/b", ESCAPE}, {"/%u002f", ESCAPE},      {"/%2%2f", ESCAPE | SLASH},
        {"/% 41", ESCAPE}, {"/%-1", ESCAPE},  {"/%/..", ESCAPE | DOTS},
    };
    expect_flaws(samples, COUNT_OF(samples));
}

TEST(empty_segments_are_told_but_are_not_unsafe)
{
    static const struct sample samples[] = {
        {"//", EMPTY}, {"//a", EMPTY}, {"/a//b", EMPTY}, {"/a//", EMPTY}, {"/a///b", EMPTY},
    };
    expect_flaws(samples, COUNT_OF(samples));
    assert_true((WEIR_PATH_UNSAFE & EMPTY) == 0);
    assert_int_equal(WEIR_PATH_UNSAFE, DOTS | SLASH | BACK | NUL | ESCAPE);
}

TEST(an_escape_of_what_needs_none_is_another_spelling)
{
    static const char *const plain[] = {"/", "/a-b._~9", "/%20%c3%A9", "/100%25", "/%", "/%6"};
    static const char *const other[] = {"/%61", "/%41", "/%39", "/%2d", "/%2E", "/%5f", "/x/%7e"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        assert_true(weir_path_spelled_plainly(weir_slice_of(plain[i])));
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        assert_false(weir_path_spelled_plainly(weir_slice_of(other[i])));
    }
}

TEST(a_segment_is_decoded_to_what_it_stands_for_or_not_at_all)
{
    char bytes[4];
    assert_int_equal(weir_path_decode(weir_slice_of("a%C3%a9"), bytes, sizeof bytes), 3);
    assert_memory_equal(bytes, "a\xc3\xa9", 3);
    assert_int_equal(weir_path_decode(weir_slice_of("abcd"), bytes, sizeof bytes), 4);
    assert_int_equal(weir_path_decode(weir_slice_of("abcde"), bytes, sizeof bytes), 0);
    assert_int_equal(weir_path_decode(weir_slice_of(""), bytes, sizeof bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_paths_have_no_flaws),
        cmocka_unit_test(segments_of_one_or_two_dots_are_found_however_they_are_written),
        cmocka_unit_test(escapes_that_change_the_shape_of_a_path_are_found),
        cmocka_unit_test(a_percent_without_two_digits_is_found),
        cmocka_unit_test(empty_segments_are_told_but_are_not_unsafe),
        cmocka_unit_test(an_escape_of_what_needs_none_is_another_spelling),
        cmocka_unit_test(a_segment_is_decoded_to_what_it_stands_for_or_not_at_all),

    };
    return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}
