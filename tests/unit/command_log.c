/* What commands say: the end of it is kept, and progress is read, however the bytes arrive. */
#include "unit/wire.h"

#include "runner/command_log.h"

/* What was told of a log that arrived whole, and in pieces of every length up to a bound. */
struct told {
    bool news;
    double progress;
    char text[WEIR_COMMAND_PROGRESS_BYTES_MAX + 1];
};

static struct told read_in_pieces(struct weir_slice bytes, size_t piece)
{
    struct weir_command_log log = {0};
    struct told told = {0};
    struct weir_slice text;
    for (size_t at = 0; at < bytes.bytes; at += piece) {
        size_t count = bytes.bytes - at < piece ? bytes.bytes - at : piece;
        const char *copy = guarded((struct weir_slice){bytes.data + at, count});
        weir_command_log_take(&log, (struct weir_slice){copy, count});
    }
    weir_command_log_end(&log);
    told.news = weir_command_log_progress(&log, &told.progress, &text);
    if (told.news) {
        memcpy(told.text, text.data, text.bytes);
    }
    assert_false(weir_command_log_progress(&log, &told.progress, &text));
    struct weir_slice kept = weir_command_log_kept(&log);
    size_t expected =
        bytes.bytes < WEIR_COMMAND_LOG_BYTES_MAX ? bytes.bytes : WEIR_COMMAND_LOG_BYTES_MAX;
    assert_int_equal(kept.bytes, expected);
    if (expected > 0) {
        assert_memory_equal(kept.data, bytes.data + bytes.bytes - expected, expected);
    }
    weir_command_log_deinit(&log);
    return told;
}

static struct told read_log(const char *bytes)
{
    struct weir_slice slice = weir_slice_of(bytes);
    struct told whole = read_in_pieces(slice, slice.bytes + 1);
    for (size_t piece = 1; piece < 40; piece++) {
        struct told told = read_in_pieces(slice, piece);
        assert_int_equal(told.news, whole.news);
        assert_true(!told.news || told.progress == whole.progress);
        assert_string_equal(told.text, whole.text);
    }
    return whole;
}

#define expect_told(bytes, number, words)        \
    do {                                         \
        struct told told_ = read_log(bytes);     \
        assert_true(told_.news);                 \
        assert_true(told_.progress == (number)); \
        assert_string_equal(told_.text, words);  \
    } while (0)

TEST(progress_is_a_number_and_what_it_is_about)
{
    expect_told("weir-progress: 0.4 half way there\n", 0.4, "half way there");
    expect_told("weir-progress:0.4 \t half way\r\n", 0.4, "half way");
    expect_told("weir-progress: 0\n", 0, "");
    expect_told("weir-progress: 1", 1, "");
    expect_told("weir-progress: 2.5e-1 small\n", 0.25, "small");
    expect_told("noise\nweir-progress: .5 x\nnoise", 0.5, "x");
}

TEST(progress_without_a_number_is_only_text)
{
    expect_told("weir-progress: thinking\n", -1, "thinking");
    expect_told("weir-progress: nan of it\n", -1, "nan of it");
    expect_told("weir-progress: inf\n", -1, "inf");
    expect_told("weir-progress: 0x1p-1 x\n", -1, "0x1p-1 x");
    expect_told("weir-progress: 50% x\n", -1, "50% x");
    expect_told("weir-progress: - x\n", -1, "- x");
    expect_told("weir-progress: 1.2.3\n", -1, "1.2.3");
}

TEST(a_number_beyond_the_range_is_its_end)
{
    expect_told("weir-progress: 40 x\n", 1, "x");
    expect_told("weir-progress: -3 x\n", 0, "x");
    expect_told("weir-progress: 1e999 x\n", 1, "x");
    expect_told("weir-progress: 1e-999 x\n", 0, "x");
}

TEST(what_is_told_since_the_last_question_is_merged)
{
    expect_told("weir-progress: 0.1 a\nweir-progress: 0.2 b\n", 0.2, "b");
    expect_told("weir-progress: 0.1 a\nweir-progress: b\n", 0.1, "b");
    struct weir_command_log log = {0};
    double progress;
    struct weir_slice text;
    weir_command_log_take(&log, weir_slice_of("weir-progress: 0.5 x\n"));
    assert_true(weir_command_log_progress(&log, &progress, &text));
    weir_command_log_take(&log, weir_slice_of("weir-progress: y\n"));
    assert_true(weir_command_log_progress(&log, &progress, &text));
    assert_true(progress == -1);
    weir_command_log_deinit(&log);
}

TEST(other_lines_tell_nothing)
{
    static const char *const lines[] = {"",
                                        "\n",
                                        "weir-progress\n",
                                        "weir-progress:\n",
                                        "weir-progress: \t \n",
                                        " weir-progress: 0.4\n",
                                        "weir-progres: 0.4\n",
                                        "Weir-Progress: 0.4\n",
                                        "xweir-progress: 0.4\n"};
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        assert_false(read_log(lines[i]).news);
    }
}

TEST(control_characters_are_left_out_and_what_is_no_text_is_marked)
{
    expect_told("weir-progress: 0.4 a\033[31mb\ac\177d\n", 0.4, "a[31mbcd");
    expect_told("weir-progress: 0.4 a\302\205b\302\240c\n", 0.4, "ab\302\240c");
    expect_told("weir-progress: 0.4 a\377b\303\n", 0.4, "a?b?");
    expect_told("weir-progress: 0.4 gr\303\274n\n", 0.4, "gr\303\274n");
}

TEST(a_long_text_is_cut_between_characters)
{
    char line[1000] = "weir-progress: 0.4 ";
    size_t start = strlen(line);
    for (size_t i = 0; i < 300; i++) {
        memcpy(line + start + 2 * i, "\303\274", 2);
    }
    memcpy(line + start + 600, "\nx", 3);
    struct told told = read_log(line);
    assert_true(told.progress == 0.4);
    assert_int_equal(strlen(told.text), WEIR_COMMAND_PROGRESS_BYTES_MAX);
    line[start] = 'a'; /* and now the last one would be cut in half */
    memmove(line + start + 1, line + start + 2, 600);
    told = read_log(line);
    assert_int_equal(strlen(told.text), WEIR_COMMAND_PROGRESS_BYTES_MAX - 1);
}

TEST(a_line_without_end_costs_nothing_and_the_next_one_counts)
{
    size_t bytes = 200000;
    char *text = malloc(bytes + 100);
    assert_non_null(text);
    memset(text, 'x', bytes);
    memcpy(text, "weir-progress: 0.1 ", 19);
    struct told told = read_in_pieces((struct weir_slice){text, bytes}, 4096);
    assert_true(told.progress == 0.1);
    memcpy(text + bytes, "\nweir-progress: 0.9 y", 22);
    told = read_in_pieces((struct weir_slice){text, bytes + 21}, 70000);
    assert_true(told.progress == 0.9);
    assert_string_equal(told.text, "y");
    free(text);
}

TEST(the_last_line_is_the_one_that_says_something)
{
    static const struct {
        const char *text;
        const char *last;
    } cases[] = {{"", ""},      {"\n\n", ""},          {"a", "a"},         {"a\n", "a"},
                 {"a\nb", "b"}, {"a\n b \r\n\n", "b"}, {"\na\n \t\n", "a"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_slice text = weir_slice_of(cases[i].text);
        text.data = guarded(text);
        struct weir_slice last = weir_command_text_last_line(text);
        assert_int_equal(last.bytes, strlen(cases[i].last));
        assert_memory_equal(last.data, cases[i].last, last.bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_a_number_and_what_it_is_about),
        cmocka_unit_test(progress_without_a_number_is_only_text),
        cmocka_unit_test(a_number_beyond_the_range_is_its_end),
        cmocka_unit_test(what_is_told_since_the_last_question_is_merged),
        cmocka_unit_test(other_lines_tell_nothing),
        cmocka_unit_test(control_characters_are_left_out_and_what_is_no_text_is_marked),
        cmocka_unit_test(a_long_text_is_cut_between_characters),
        cmocka_unit_test(a_line_without_end_costs_nothing_and_the_next_one_counts),
        cmocka_unit_test(the_last_line_is_the_one_that_says_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
