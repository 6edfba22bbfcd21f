#include "config/match.h"

#include "base/alloc.h"
#include "base/slice.h"
#include "unit/helpers.h"

#define PATTERNS_MAX 64

struct routes {
    struct memory memory;
    struct weir_arena arena;
    struct weir_pattern patterns[PATTERNS_MAX];
    const struct weir_matcher *matcher;
};

static int compare(const void *left, const void *right)
{
    return weir_pattern_compare(*(const struct weir_pattern *const *)left,
                                *(const struct weir_pattern *const *)right);
}

/* A matcher of these patterns; the route is the index among them. */
static void open_routes(struct routes *routes, const char *const *texts)
{
    const struct weir_pattern *sorted[PATTERNS_MAX];
    uint32_t count = 0;
    memory_init(&routes->memory);
    weir_arena_init(&routes->arena,
                    &(struct weir_arena_options){&routes->memory.allocator, 1024, 1 << 20});
    for (; texts[count] != NULL; count++) {
        routes->patterns[count].route = count;
        assert_null(weir_pattern_read(weir_slice_of(texts[count]), &routes->patterns[count]));
        assert_int_equal(routes->patterns[count].route, count);
        sorted[count] = &routes->patterns[count];
    }
    qsort(sorted, count, sizeof sorted[0], compare);
    routes->matcher = weir_matcher_create(&routes->arena, sorted, count);
    assert_non_null(routes->matcher);
}

static void close_routes(struct routes *routes)
{
    weir_arena_deinit(&routes->arena);
    expect_no_memory_out(&routes->memory);
}

/* Looks the path up from a block that ends with it. */
static bool find(const struct routes *routes, const char *path, struct weir_match *match)
{
    static char *block;
    size_t bytes = strlen(path);
    free(block);
    block = malloc(bytes + 1);
    assert_non_null(block);
    memcpy(block + 1, path, bytes);
    return weir_matcher_find(routes->matcher, (struct weir_slice){block + 1, bytes}, match);
}

/* The route, and the captures with a comma after each. */
static void expect_match(const struct routes *routes, const char *path, uint32_t route,
                         const char *captures)
{
    struct weir_match match;
    char said[1024] = "";
    if (!find(routes, path, &match)) {
        fail_msg("nothing matches %s", path);
    }
    size_t length = 0;
    for (uint32_t i = 0; i < match.capture_count; i++) {
        length += (size_t)snprintf(said + length, sizeof said - length, "%.*s,",
                                   (int)match.captures[i].bytes, match.captures[i].data);
    }
    if (match.route != route || strcmp(said, captures) != 0) {
        fail_msg("%s matches %u with %s", path, match.route, said);
    }
}

static void expect_none(const struct routes *routes, const char *path)
{
    struct weir_match match = {.route = 7};
    if (find(routes, path, &match)) {
        fail_msg("%s matches %u", path, match.route);
    }
    assert_int_equal(match.route, 7);
}

TEST(a_pattern_is_a_prefix_of_whole_segments)
{
    static struct routes routes;
    open_routes(&routes,
                (const char *const[]){"/functions/{function}", "/openai/", "/plain", NULL});
    expect_match(&routes, "/functions/a", 0, "a,");
    expect_match(&routes, "/functions/a/", 0, "a,");
    expect_match(&routes, "/functions/a/b/c", 0, "a,");
    expect_match(&routes, "/functions/a//", 0, "a,");
    expect_none(&routes, "/functions");
    expect_none(&routes, "/functions/");
    expect_none(&routes, "/functions//a");
    expect_none(&routes, "/functionsx/a");
    expect_none(&routes, "/function/a");
    expect_none(&routes, "/Functions/a");
    expect_match(&routes, "/openai/", 1, "");
    expect_match(&routes, "/openai/v1/chat", 1, "");
    expect_match(&routes, "/openai//", 1, "");
    expect_none(&routes, "/openai");
    expect_none(&routes, "/openaix");
    expect_match(&routes, "/plain", 2, "");
    expect_match(&routes, "/plain/", 2, "");
    expect_match(&routes, "/plain/x", 2, "");
    expect_none(&routes, "/plainx");
    expect_none(&routes, "/plai");
    close_routes(&routes);
}

TEST(a_slash_alone_matches_every_path)
{
    static struct routes routes;
    open_routes(&routes, (const char *const[]){"/", NULL});
    expect_match(&routes, "/", 0, "");
    expect_match(&routes, "/a", 0, "");
    expect_match(&routes, "//", 0, "");
    expect_match(&routes, "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t", 0, "");
    close_routes(&routes);
}

TEST(what_does_not_start_with_a_slash_matches_nothing)
{
    static struct routes routes;
    open_routes(&routes, (const char *const[]){"/", "/a", "/{x}", NULL});
    expect_none(&routes, "");
    expect_none(&routes, "*");
    expect_none(&routes, "a");
    expect_none(&routes, "http://a/");
    close_routes(&routes);
}

TEST(without_patterns_or_a_matcher_nothing_matches)
{
    static struct routes routes;
    struct weir_match match;
    open_routes(&routes, (const char *const[]){NULL});
    expect_none(&routes, "/");
    assert_false(weir_matcher_find(NULL, weir_slice_of("/"), &match));
    close_routes(&routes);
}

/* The order that match.h states, as an example. */
TEST(the_most_specific_match_wins)
{
    static const char *const texts[] = {"/a/b", "/a/{x}/c", "/a/{x}", "/a/",
                                        "/a",   "/{x}/b/c", "/",      NULL};
    for (uint32_t i = 0; texts[i] != NULL; i++) {
        for (uint32_t j = 0; texts[j] != NULL; j++) {
            struct weir_pattern a = {.route = 0}, b = {.route = 0};
            assert_null(weir_pattern_read(weir_slice_of(texts[i]), &a));
            assert_null(weir_pattern_read(weir_slice_of(texts[j]), &b));
            int order = weir_pattern_compare(&a, &b);
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
    static struct routes routes;
    open_routes(&routes, texts);
    expect_match(&routes, "/a/b", 0, "");
    expect_match(&routes, "/a/b/c", 0, "");
    expect_match(&routes, "/a/z/c", 1, "z,");
    expect_match(&routes, "/a/z/c/d", 1, "z,");
    expect_match(&routes, "/a/z/d", 2, "z,");
    expect_match(&routes, "/a/z", 2, "z,");
    expect_match(&routes, "/a/", 3, "");
    expect_match(&routes, "/a//", 3, "");
    expect_match(&routes, "/a", 4, "");
    expect_match(&routes, "/z/b/c", 5, "z,");
    expect_match(&routes, "/z/b", 6, "");
    expect_match(&routes, "/", 6, "");
    close_routes(&routes);
}

TEST(a_literal_that_leads_nowhere_gives_way_to_a_capture)
{
    static struct routes routes;
    open_routes(&routes, (const char *const[]){"/a/{x}/c", "/{y}/b", "/{y}/{z}/d/{w}", NULL});
    expect_match(&routes, "/a/b", 1, "a,");
    expect_match(&routes, "/a/b/c", 0, "b,");
    expect_match(&routes, "/a/b/d", 1, "a,");
    expect_match(&routes, "/a/q/d/e", 2, "a,q,e,");
    expect_match(&routes, "/a/b/d/e", 1, "a,");
    expect_none(&routes, "/a/q/d");
    close_routes(&routes);
}

TEST(captures_are_counted_from_the_left)
{
    static struct routes routes;
    open_routes(&routes, (const char *const[]){"/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}",
                                               "/x/{one}/y/{two}", NULL});
    expect_match(&routes, "/1/2/3/4/5/6/7/8/9", 0, "1,2,3,4,5,6,7,8,");
    expect_match(&routes, "/x/1/y/2", 1, "1,2,");
    expect_match(&routes, "/x/1/y/2/5/6/7/8", 1, "1,2,");
    expect_match(&routes, "/x/1/z/2/5/6/7/8", 0, "x,1,z,2,5,6,7,8,");
    assert_int_equal(weir_pattern_capture(&routes.patterns[1], weir_slice_of("one")), 0);
    assert_int_equal(weir_pattern_capture(&routes.patterns[1], weir_slice_of("two")), 1);
    assert_int_equal(weir_pattern_capture(&routes.patterns[1], weir_slice_of("x")),
                     WEIR_CAPTURE_NONE);
    close_routes(&routes);
}

TEST(patterns_that_differ_in_the_names_of_captures_only_tie)
{
    static const struct {
        const char *a;
        const char *b;
        bool tie;
    } cases[] = {{"/a", "/a", true},
                 {"/{x}", "/{y}", true},
                 {"/a/{x}/b", "/a/{y}/b", true},
                 {"/", "/", true},
                 {"/a/", "/a/", true},
                 {"/a", "/a/", false},
                 {"/{x}", "/{y}/", false},
                 {"/a/{x}", "/a/b", false},
                 {"/a", "/b", false},
                 {"/{x}/a", "/{x}/b", false},
                 {"/a", "/aa", false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_pattern a = {.route = 0}, b = {.route = 0};
        assert_null(weir_pattern_read(weir_slice_of(cases[i].a), &a));
        assert_null(weir_pattern_read(weir_slice_of(cases[i].b), &b));
        assert_int_equal(weir_pattern_compare(&a, &b) == 0, cases[i].tie);
        assert_int_equal(weir_pattern_compare(&b, &a) == 0, cases[i].tie);
    }
}

static void create_with_tie(void *argument)
{
    struct weir_arena *arena = argument;
    struct weir_pattern a = {.route = 0};
    (void)weir_pattern_read(weir_slice_of("/a"), &a);
    const struct weir_pattern *patterns[] = {&a, &a};
    (void)weir_matcher_create(arena, patterns, 2);
}

TEST(a_matcher_of_patterns_that_tie_cannot_be_made)
{
    struct weir_arena arena;
    weir_arena_init(&arena, &(struct weir_arena_options){&weir_allocator_libc, 1024, 4096});
    expect_abort(create_with_tie, &arena, "weir_pattern_compare");
}

TEST(a_pattern_has_up_to_16_segments_and_8_captures)
{
    struct weir_pattern pattern = {.route = 3};
    assert_null(weir_pattern_read(weir_slice_of("/1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g"), &pattern));
    assert_int_equal(pattern.segment_count, 16);
    assert_false(pattern.below);
    assert_int_equal(pattern.route, 3);
    assert_null(weir_pattern_read(weir_slice_of("/1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/"), &pattern));
    assert_true(pattern.below);
    assert_string_equal(
        weir_pattern_read(weir_slice_of("/1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h"), &pattern),
        "at most 16 segments");
    assert_null(weir_pattern_read(weir_slice_of("/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}"), &pattern));
    assert_string_equal(
        weir_pattern_read(weir_slice_of("/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}"), &pattern),
        "at most 8 captures");
}

TEST(what_is_no_pattern_is_told_what_was_expected)
{
    static const char *const start = "a path that starts with /";
    static const char *const empty = "a path without empty segments (//)";
    static const char *const capture = "a capture that is a whole segment of the form {name}";
    static const char *const characters =
        "a path of letters, digits and -._~!$&'()*+,;=:@, without query or %";
    static const struct {
        const char *text;
        const char *const *expected;
    } cases[] = {{"", &start},           {"a", &start},
                 {"*", &start},          {"//", &empty},
                 {"/a//", &empty},       {"/a//b", &empty},
                 {"/{}", &capture},      {"/{", &capture},
                 {"/{a", &capture},      {"/{a}b", &capture},
                 {"/{a-b}", &capture},   {"/{1}", &capture},
                 {"/{a}{b}", &capture},  {"/a{b}", &characters},
                 {"/a}", &characters},   {"/a b", &characters},
                 {"/a%41", &characters}, {"/a?b", &characters},
                 {"/a#b", &characters},  {"/\xc3\xa4", &characters},
                 {"/a\\b", &characters}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_pattern pattern = {.route = 9, .segment_count = 5};
        const char *expected = weir_pattern_read(weir_slice_of(cases[i].text), &pattern);
        assert_non_null(expected);
        assert_string_equal(expected, *cases[i].expected);
        assert_int_equal(pattern.segment_count, 5);
    }
    struct weir_pattern pattern;
    pattern.route = 0;
    assert_non_null(weir_pattern_read(weir_slice_of("/a/./b"), &pattern));
    assert_non_null(weir_pattern_read(weir_slice_of("/.."), &pattern));
    assert_null(weir_pattern_read(weir_slice_of("/..."), &pattern));
    assert_null(weir_pattern_read(weir_slice_of("/azAZ09-._~!$&'()*+,;=:@/{azAZ_09}"), &pattern));
    assert_null(weir_pattern_read(weir_slice_of("/{z}/{Z}/{a}/{A}"), &pattern));
    assert_null(weir_pattern_read(weir_slice_of("/.well-known/{_x9}"), &pattern));
    assert_non_null(weir_pattern_read(weir_slice_of("/{a}/{a}"), &pattern));
    assert_non_null(weir_pattern_read((struct weir_slice){"/a\0b", 4}, &pattern));
}

/* ---- against the definition, word by word ---- */

static size_t split(struct weir_slice path, struct weir_slice parts[64])
{
    size_t count = 0;
    const char *start = path.data + 1;
    for (const char *at = start;; at++) {
        if (at == path.data + path.bytes || *at == '/') {
            parts[count++] = (struct weir_slice){start, (size_t)(at - start)};
            start = at + 1;
        }
        if (at == path.data + path.bytes) {
            return count;
        }
    }
}

static bool plainly_matches(const struct weir_pattern *pattern, struct weir_slice path)
{
    struct weir_slice parts[64];
    size_t count = split(path, parts);
    if (count < pattern->segment_count + pattern->below) {
        return false;
    }
    for (uint32_t i = 0; i < pattern->segment_count; i++) {
        const struct weir_pattern_segment *segment = &pattern->segments[i];
        if (segment->capture ? parts[i].bytes == 0 : !weir_slice_equal(segment->text, parts[i])) {
            return false;
        }
    }
    return true;
}

/* A path or pattern of up to five segments from few words, so that much collides. */
static void make_text(uint64_t *state, bool pattern, char text[64])
{
    static const char *const words[] = {"a", "b", "ab", "{x}", ""};
    size_t length = 0;
    uint64_t count = next_random(state) % 5;
    for (uint64_t i = 0; i < count; i++) {
        const char *word = words[next_random(state) % (pattern ? 4 : 5)];
        if (!pattern && word[0] == '{') {
            word = "c";
        }
        if (pattern && word[0] == '{') {
            length += (size_t)snprintf(text + length, 64 - length, "/{x%u}", (unsigned)i);
        } else {
            length += (size_t)snprintf(text + length, 64 - length, "/%s", word);
        }
    }
    if (count == 0 || next_random(state) % 3 == 0) {
        snprintf(text + length, 64 - length, "/");
    }
}

TEST(the_matcher_agrees_with_trying_every_pattern)
{
    uint64_t state = 42;
    for (int round = 0; round < 2000; round++) {
        static char texts[20][64];
        static struct weir_pattern patterns[20];
        const struct weir_pattern *sorted[20];
        uint32_t count = 0;
        for (int i = 0; i < 20; i++) {
            make_text(&state, true, texts[count]);
            patterns[count].route = count;
            assert_null(weir_pattern_read(weir_slice_of(texts[count]), &patterns[count]));
            bool tie = false;
            for (uint32_t j = 0; j < count; j++) {
                tie = tie || weir_pattern_compare(&patterns[j], &patterns[count]) == 0;
            }
            if (!tie) {
                sorted[count] = &patterns[count];
                count++;
            }
        }
        qsort(sorted, count, sizeof sorted[0], compare);
        struct weir_arena arena;
        weir_arena_init(&arena, &(struct weir_arena_options){&weir_allocator_libc, 4096, 1 << 20});
        const struct weir_matcher *matcher = weir_matcher_create(&arena, sorted, count);
        for (int i = 0; i < 30; i++) {
            char path[64];
            make_text(&state, false, path);
            const struct weir_pattern *best = NULL;
            for (uint32_t j = 0; j < count && best == NULL; j++) {
                best = plainly_matches(sorted[j], weir_slice_of(path)) ? sorted[j] : NULL;
            }
            struct weir_match match;
            bool found = weir_matcher_find(matcher, weir_slice_of(path), &match);
            assert_int_equal(found, best != NULL);
            if (found && match.route != best->route) {
                fail_msg("%s: %s, not %s", path, texts[match.route], texts[best->route]);
            }
        }
        weir_arena_deinit(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_is_a_prefix_of_whole_segments),
        cmocka_unit_test(a_slash_alone_matches_every_path),
        cmocka_unit_test(what_does_not_start_with_a_slash_matches_nothing),
        cmocka_unit_test(without_patterns_or_a_matcher_nothing_matches),
        cmocka_unit_test(the_most_specific_match_wins),
        cmocka_unit_test(a_literal_that_leads_nowhere_gives_way_to_a_capture),
        cmocka_unit_test(captures_are_counted_from_the_left),
        cmocka_unit_test(patterns_that_differ_in_the_names_of_captures_only_tie),
        cmocka_unit_test(a_matcher_of_patterns_that_tie_cannot_be_made),
        cmocka_unit_test(a_pattern_has_up_to_16_segments_and_8_captures),
        cmocka_unit_test(what_is_no_pattern_is_told_what_was_expected),
        cmocka_unit_test(the_matcher_agrees_with_trying_every_pattern),
    };
    return cmocka_run_group_tests_name("config_match", tests, NULL, NULL);
}
