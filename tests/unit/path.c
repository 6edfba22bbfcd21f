#include "wire/path.h"

#include "unit/wire.h"

#define DOTS   WEIR_PATH_DOTS
#define SLASH  WEIR_PATH_ENCODED_SLASH
#define BACK   WEIR_PATH_BACKSLASH
#define NUL    WEIR_PATH_ENCODED_NUL
#define ESCAPE WEIR_PATH_BAD_ESCAPE
#define EMPTY  WEIR_PATH_EMPTY_SEGMENT

#define PARAMETERS WEIR_PATH_PARAMETERS
#define ALONE      WEIR_PATH_PARAMETERS_ALONE
#define NEEDLESS   WEIR_PATH_NEEDLESS_ESCAPE
#define DELIMITER  WEIR_PATH_ESCAPED_DELIMITER

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
        {"/a%20b/%c3%a9", 0},
        {"/a:@!$&'()*+,=~-_", 0},
        {"/%252f", 0},
        {"/%2500", 0},
        {"/....", 0},
        {"/%01%ff", 0},
    };
    expect_flaws(samples, COUNT_OF(samples));
}

TEST(segments_of_one_or_two_dots_are_found_however_they_are_written)
{
    static const struct sample samples[] = {
        {"/..", DOTS},
        {"/.", DOTS},
        {"/../", DOTS},
        {"/./a", DOTS},
        {"/a/..", DOTS},
        {"/a/../b", DOTS},
        {"..", DOTS},
        {"/%2e%2e/a", DOTS | NEEDLESS},
        {"/.%2E", DOTS | NEEDLESS},
        {"/%2e", DOTS | NEEDLESS},
        {"/%2E./a", DOTS | NEEDLESS},
        {"/..;x=y/a", DOTS | PARAMETERS},
        {"/.;/a", DOTS | PARAMETERS},
        {"/a/..;", DOTS | PARAMETERS},
        {"/..;/..a", DOTS | PARAMETERS},
        {"/..%3b/a", DOTS | PARAMETERS | DELIMITER},
        {"/%2e%2e%2e", NEEDLESS},
        {"/%2ea", NEEDLESS},
        {"/a%2e", NEEDLESS},
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
        {"/%", ESCAPE},
        {"/%2", ESCAPE},
        {"/%2g", ESCAPE},
        {"/%g2", ESCAPE},
        {"/%%41", ESCAPE | NEEDLESS},
        {"/a%/b", ESCAPE},
        {"/%u002f", ESCAPE},
        {"/%2%2f", ESCAPE | SLASH},
        {"/% 41", ESCAPE},
        {"/%-1", ESCAPE},
        {"/%/..", ESCAPE | DOTS},
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
    static const char *const plain[] = {"/", "/a-b._~9", "/%20%c3%A9", "/100%25", "/%2561"};
    static const char *const other[] = {"/%61", "/%41", "/%39", "/%2da", "/a%2E", "/%5f", "/x/%7e"};
    for (size_t i = 0; i < COUNT_OF(plain); i++) {
        assert_int_equal(weir_path_flaws(weir_slice_of(plain[i])), 0);
    }
    for (size_t i = 0; i < COUNT_OF(other); i++) {
        assert_int_equal(weir_path_flaws(weir_slice_of(other[i])), NEEDLESS);
    }
}

TEST(parameters_are_found_and_segments_of_nothing_else)
{
    static const struct sample samples[] = {
        {"/a;b=c/d", PARAMETERS},       {"/a%3bb", PARAMETERS | DELIMITER},
        {"/a/;b", PARAMETERS},          {"/;", PARAMETERS},
        {"/a/;/b", PARAMETERS | ALONE}, {"/;/;", PARAMETERS | ALONE},
        {"/a;/;b", PARAMETERS | ALONE}, {"/%3B/", PARAMETERS | DELIMITER | ALONE},
        {"/a;/b;;c/d", PARAMETERS},     {"/...;/a", PARAMETERS},
        {"/;../a", PARAMETERS | ALONE},
    };
    expect_flaws(samples, COUNT_OF(samples));
}

TEST(an_escaped_delimiter_is_told)
{
    static const char delimiters[] = "!$&'()*+,=:@";
    for (size_t i = 0; i < sizeof delimiters - 1; i++) {
        char path[8];
        snprintf(path, sizeof path, "/a%%%02X", (unsigned)delimiters[i]);
        assert_int_equal(weir_path_flaws(weir_slice_of(path)), DELIMITER);
    }
}

/* In memory of exactly its size; what is in front of the result does not matter. */
static void expect_normal(const char *path, bool merge, const char *expected)
{
    size_t bytes = strlen(path);
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    memcpy(text, path, bytes);
    for (int i = 0; i < 2; i++) { /* twice is as good as once */
        size_t left = weir_path_normalize(text, bytes, merge);
        if (left != strlen(expected) || memcmp(text + bytes - left, expected, left) != 0) {
            fail_msg("%s became %.*s", path, (int)left, text + bytes - left);
        }
        memmove(text, text + bytes - left, left);
        bytes = left;
    }
    free(text);
}

TEST(a_path_is_normalized_in_place_up_to_its_end)
{
    expect_normal("", true, "");
    expect_normal("/", true, "/");
    expect_normal("/a/b/", true, "/a/b/");
    expect_normal("//", true, "/");
    expect_normal("///a////b//", true, "/a/b/");
    expect_normal("///a////b//", false, "///a////b//");
    expect_normal("/%61%62", true, "/ab");
    expect_normal("//%7euser//%C3%bc", true, "/~user/%C3%bc");
    expect_normal("//%7e", false, "//~");
    expect_normal("/%2561", true, "/%2561");
    expect_normal("/%25%36%31", true, "/%2561");
    expect_normal("/a%2d%2E%5F", true, "/a-._");
    expect_normal("/a;x//b%3b", true, "/a;x/b%3b");
}

static void expect_loose(const char *path, bool drop_parameters, const char *expected)
{
    char text[64];
    size_t bytes = weir_path_read_loosely(weir_slice_of(path), drop_parameters, text);
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal(text, expected, bytes);
}

TEST(the_loosest_reading_decodes_escapes_and_then_drops_parameters)
{
    expect_loose("", true, "");
    expect_loose("/a%3Ab/%c3", true, "/a:b/\xc3");
    expect_loose("/a;b;c/d;/e", true, "/a/d/e");
    expect_loose("/a;b;c/d;/e", false, "/a;b;c/d;/e");
    expect_loose("/a%3bb%3A/c", true, "/a/c");
    expect_loose("/a%3bb%3A/c", false, "/a;b:/c");
    expect_loose("/a/;x", true, "/a/");
    expect_loose("/%2541", true, "/%41");
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
        cmocka_unit_test(parameters_are_found_and_segments_of_nothing_else),
        cmocka_unit_test(an_escaped_delimiter_is_told),
        cmocka_unit_test(a_path_is_normalized_in_place_up_to_its_end),
        cmocka_unit_test(the_loosest_reading_decodes_escapes_and_then_drops_parameters),
        cmocka_unit_test(a_segment_is_decoded_to_what_it_stands_for_or_not_at_all),
    };
    return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}
