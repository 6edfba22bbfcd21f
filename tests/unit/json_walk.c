#include "wire/json_walk.h"

#include "llm/llm_names.h"
#include "unit/wire.h"

#include <assert.h>

static struct text text;

/* A table of a few names, and one of the longest. */
#define LONGEST "0123456789_123456789_123456789_123456789_1234567"

static const struct weir_slice texts[] = {
    {"a", 1}, {"b", 1}, {"usage", 5}, {"model", 5}, {"prompt_tokens_details", 21}, {LONGEST, 48},
};
static_assert(sizeof LONGEST - 1 == WEIR_JSON_NAME_BYTES_MAX, "the longest");

enum step {
    EACH = WEIR_JSON_ELEMENT,
    A = WEIR_JSON_FIRST_NAME,
    B,
    USAGE,
    MODEL,
    DETAILS,
    LONG,
    OTHER = WEIR_JSON_OTHER,
};

static struct weir_json_names table(void)
{
    struct weir_json_names names = {.names = texts};
    for (size_t bytes = 0; bytes < sizeof names.starts; bytes++) {
        while (names.starts[bytes] < COUNT_OF(texts) && texts[names.starts[bytes]].bytes < bytes) {
            names.starts[bytes]++;
        }
    }
    return names;
}

/* The paths of all values and ends, in order. A string counts once. */
struct paths {
    uint64_t paths[1024];
    char marks[1024];
    size_t count;
    bool in_string;
};

static void walk_part(struct weir_json_walk *walk, struct weir_slice part, struct paths *paths)
{
    struct weir_slice rest = {guarded(part), part.bytes};
    for (;;) {
        size_t used = SIZE_MAX;
        struct weir_slice piece;
        enum weir_json_token token = weir_json_walk_next(walk, rest, &used, &piece);
        assert_true(used <= rest.bytes);
        rest.data += used;
        rest.bytes -= used;
        if (token == WEIR_JSON_MORE) {
            assert_int_equal(rest.bytes, 0);
            return;
        }
        assert_int_not_equal(token, WEIR_JSON_FAULT);
        assert_int_not_equal(token, WEIR_JSON_NAME);
        if (!paths->in_string) {
            assert_true(paths->count < COUNT_OF(paths->paths));
            paths->marks[paths->count] = (char)token;
            paths->paths[paths->count++] = walk->path;
        } else {
            assert_true(paths->paths[paths->count - 1] == walk->path);
        }
        paths->in_string = token == WEIR_JSON_STRING && !walk->scan.ends;
    }
}

static void walk_parts(struct weir_slice input, size_t step, bool known_only, struct paths *paths)
{
    struct weir_json_names names = table();
    struct weir_json_walk walk;
    memset(&walk, 0x5a, sizeof walk);
    (known_only ? weir_json_walk_init_known : weir_json_walk_init)(&walk, &names);
    paths->count = 0;
    paths->in_string = false;
    for (size_t at = 0; at < input.bytes; at += step) {
        size_t bytes = step < input.bytes - at ? step : input.bytes - at;
        walk_part(&walk, (struct weir_slice){input.data + at, bytes}, paths);
    }
    assert_true(weir_json_scan_is_whole(&walk.scan));
}

static const struct paths *walk_all(struct weir_slice input, bool known_only)
{
    static struct paths whole, other;
    walk_parts(input, input.bytes, known_only, &whole);
    for (size_t step = 1; step < 9; step++) {
        walk_parts(input, step, known_only, &other);
        assert_int_equal(other.count, whole.count);
        assert_memory_equal(other.marks, whole.marks, whole.count);
        assert_memory_equal(other.paths, whole.paths, whole.count * sizeof whole.paths[0]);
    }
    return &whole;
}

static void expect_told(struct weir_slice input, bool known_only, const uint64_t *expected,
                        size_t count)
{
    const struct paths *paths = walk_all(input, known_only);
    for (size_t i = 0; i < count && i < paths->count; i++) {
        if (paths->paths[i] != expected[i]) {
            fail_msg("value %zu: expected %jx, got %jx", i, (uintmax_t)expected[i],
                     (uintmax_t)paths->paths[i]);
        }
    }
    assert_int_equal(paths->count, count);
}

static void expect_paths(struct weir_slice input, const uint64_t *expected, size_t count)
{
    expect_told(input, false, expected, count);
}

#define expect_values(input, ...)                                   \
    do {                                                            \
        static const uint64_t expected_[] = {__VA_ARGS__};          \
        expect_paths(BYTES(input), expected_, COUNT_OF(expected_)); \
    } while (0)

#define ROOT           WEIR_JSON_PATH_ROOT
#define P1(a)          WEIR_JSON_PATH1(a)
#define P2(a, b)       WEIR_JSON_PATH2(a, b)
#define P3(a, b, c)    WEIR_JSON_PATH3(a, b, c)
#define P4(a, b, c, d) WEIR_JSON_PATH4(a, b, c, d)

TEST(a_value_is_at_the_names_that_lead_to_it)
{
    expect_values("{\"a\":1}", ROOT, P1(A), ROOT);
    expect_values("{\"a\":1,\"usage\":{\"b\":true,\"model\":\"x\"},\"b\":null}", ROOT, P1(A),
                  P1(USAGE), P2(USAGE, B), P2(USAGE, MODEL), P1(USAGE), P1(B), ROOT);
    expect_values("1 ", ROOT);
    expect_values("\"a\"", ROOT);
    expect_values("{}", ROOT, ROOT);
}

TEST(elements_of_an_array_share_a_step)
{
    expect_values("[]", ROOT, ROOT);
    expect_values("[1,[2],{\"a\":3}]", ROOT, P1(EACH), P1(EACH), P2(EACH, EACH), P1(EACH), P1(EACH),
                  P2(EACH, A), P1(EACH), ROOT);
    expect_values("{\"a\":[{\"b\":1},{\"b\":2}],\"b\":[]}", ROOT, P1(A), P2(A, EACH),
                  P3(A, EACH, B), P2(A, EACH), P2(A, EACH), P3(A, EACH, B), P2(A, EACH), P1(A),
                  P1(B), P1(B), ROOT);
}

#define expect_known(input, ...)                                         \
    do {                                                                 \
        static const uint64_t expected_[] = {__VA_ARGS__};               \
        expect_told(BYTES(input), true, expected_, COUNT_OF(expected_)); \
    } while (0)

TEST(names_that_are_not_in_the_table_are_all_others)
{
    expect_values("{\"\":1,\"c\":2,\"usag\":3,\"usages\":4,\"USAGE\":5,\"uxxxe\":6}", ROOT,
                  P1(OTHER), P1(OTHER), P1(OTHER), P1(OTHER), P1(OTHER), P1(OTHER), ROOT);
}

TEST(below_a_name_that_is_not_in_the_table_none_is)
{
    expect_values("{\"x\":{\"a\":6,\"y\":[{\"a\":7}]},\"a\":8}", ROOT, P1(OTHER), P2(OTHER, OTHER),
                  P2(OTHER, OTHER), P3(OTHER, OTHER, EACH), P4(OTHER, OTHER, EACH, OTHER),
                  P3(OTHER, OTHER, EACH), P2(OTHER, OTHER), P1(OTHER), P1(A), ROOT);
    expect_values("{\"a\":{\"x\":{\"a\":1},\"b\":2}}", ROOT, P1(A), P2(A, OTHER),
                  P3(A, OTHER, OTHER), P2(A, OTHER), P2(A, B), P1(A), ROOT);
}

TEST(values_may_be_told_only_where_all_names_are_known)
{
    expect_known("{\"x\":1,\"a\":2,\"y\":\"text\",\"b\":\"text\"}", ROOT, P1(A), P1(B), ROOT);
    expect_known("{\"x\":{\"a\":[1,{\"b\":2}]},\"a\":{\"x\":{\"a\":1},\"b\":2,\"y\":[]},\"z\":{}}",
                 ROOT, P1(A), P2(A, B), P1(A), ROOT);
    expect_known("[{\"x\":[[{\"a\":1}]]},{\"a\":2}]", ROOT, P1(EACH), P1(EACH), P1(EACH),
                 P2(EACH, A), P1(EACH), ROOT);
    expect_known("{\"x\":\"a\\n\\u0041\\ud83dx\xc3\xa4\",\"\\u0078\":\"\\n\",\"a\":\"\\n\"}", ROOT,
                 P1(A), ROOT);
}

TEST(the_longest_name_is_found_and_a_longer_one_is_not)
{
    expect_values("{\"" LONGEST "\":1,\"" LONGEST "x\":2,\"prompt_tokens_details\":3}", ROOT,
                  P1(LONG), P1(OTHER), P1(DETAILS), ROOT);
    text.bytes = 0;
    add(&text, "{\"");
    add_times(&text, 'a', 1000);
    add(&text, "\":1,\"a\":2}");
    static const uint64_t expected[] = {ROOT, P1(OTHER), P1(A), ROOT};
    expect_paths(slice_of(&text), expected, COUNT_OF(expected));
}

TEST(a_name_is_what_its_escapes_stand_for)
{
    expect_values("{\"\\u0075sag\\u0065\":1,\"mod\\u0065l\":2,\"model\\u0000\":3,\"\\u0061\":4}",
                  ROOT, P1(USAGE), P1(MODEL), P1(OTHER), P1(A), ROOT);
}

TEST(a_path_has_eight_steps_and_what_is_deeper_has_none)
{
    /* a.a.a.a.a.a.a.a is the last that can be told. */
    uint64_t expected[64];
    size_t count = 0;
    text.bytes = 0;
    for (unsigned depth = 0; depth < 12; depth++) {
        uint64_t path = 0;
        for (unsigned step = 0; step < depth && step < 8; step++) {
            path |= (uint64_t)A << 8 * step;
        }
        expected[count++] = depth <= 8 ? path : WEIR_JSON_PATH_DEEP;
        add(&text, "{\"a\":");
    }
    expected[count++] = WEIR_JSON_PATH_DEEP;
    add(&text, "1");
    for (unsigned depth = 12; depth-- > 0;) {
        expected[count++] = expected[depth];
        add(&text, "}");
    }
    expect_paths(slice_of(&text), expected, count);
}

TEST(a_path_is_right_again_behind_what_was_too_deep)
{
    expect_values("{\"a\":[[[[[[[[[[1]]]]]]]]]],\"b\":2}", ROOT, P1(A), P2(A, EACH),
                  P3(A, EACH, EACH), P4(A, EACH, EACH, EACH),
                  P4(A, EACH, EACH, EACH) | (uint64_t)EACH << 32,
                  P4(A, EACH, EACH, EACH) | UINT64_C(0x0101) << 32,
                  P4(A, EACH, EACH, EACH) | UINT64_C(0x010101) << 32,
                  P4(A, EACH, EACH, EACH) | UINT64_C(0x01010101) << 32, WEIR_JSON_PATH_DEEP,
                  WEIR_JSON_PATH_DEEP, WEIR_JSON_PATH_DEEP, WEIR_JSON_PATH_DEEP,
                  WEIR_JSON_PATH_DEEP, P4(A, EACH, EACH, EACH) | UINT64_C(0x01010101) << 32,
                  P4(A, EACH, EACH, EACH) | UINT64_C(0x010101) << 32,
                  P4(A, EACH, EACH, EACH) | UINT64_C(0x0101) << 32,
                  P4(A, EACH, EACH, EACH) | UINT64_C(0x01) << 32, P4(A, EACH, EACH, EACH),
                  P3(A, EACH, EACH), P2(A, EACH), P1(A), P1(B), ROOT);
}

TEST(every_name_that_the_readers_know_is_in_their_table)
{
#define FIND(more, name, known)                                                   \
    assert_int_equal(weir_json_names_find(&weir_llm_names, weir_slice_of(known)), \
                     WEIR_LLM_NAME_##name);
    WEIR_LLM_NAMES(FIND, )
    assert_int_equal(weir_json_names_find(&weir_llm_names, BYTES("")), WEIR_JSON_OTHER);
    assert_int_equal(weir_json_names_find(&weir_llm_names, BYTES("modem")), WEIR_JSON_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_at_the_names_that_lead_to_it),
        cmocka_unit_test(elements_of_an_array_share_a_step),
        cmocka_unit_test(names_that_are_not_in_the_table_are_all_others),
        cmocka_unit_test(below_a_name_that_is_not_in_the_table_none_is),
        cmocka_unit_test(values_may_be_told_only_where_all_names_are_known),
        cmocka_unit_test(the_longest_name_is_found_and_a_longer_one_is_not),
        cmocka_unit_test(a_name_is_what_its_escapes_stand_for),
        cmocka_unit_test(a_path_has_eight_steps_and_what_is_deeper_has_none),
        cmocka_unit_test(a_path_is_right_again_behind_what_was_too_deep),
        cmocka_unit_test(every_name_that_the_readers_know_is_in_their_table),
    };
    return cmocka_run_group_tests_name("json_walk", tests, NULL, NULL);
}
