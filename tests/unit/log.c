/* The log: what a line looks like, what cannot break out of it, and which lines there are. */
#define _GNU_SOURCE /* mkdtemp */
#include "log/log.h"
#include "unit/helpers.h"

#include <jansson.h>

#define EARLY UINT64_C(1755780059007000000) /* 2025-08-21T12:40:59.007Z */
#define LATE  UINT64_C(4107542399999999999) /* 2100-02-28T23:59:59.999Z */

static char folder[] = "/tmp/weir-log-XXXXXX";
static char path[64];
static char text[65536];

static int make_folder(void **state __attribute__((unused)))
{
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    return 0;
}

static int remove_folder(void **state __attribute__((unused)))
{
    weir_log_close();
    unlink(path);
    return rmdir(folder);
}

static void open_log(enum weir_log_level level, enum weir_log_format format)
{
    assert_true(weir_log_open(&(struct weir_log_settings){level, format, weir_slice_of(path)}));
}

/* All that is in the file. */
static const char *read_log(void)
{
    weir_log_flush();
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Behind the time. */
static const char *read_line(void)
{
    return read_log() + WEIR_LOG_TIME_BYTES + 1;
}

TEST(times_are_utc_with_milliseconds)
{
    char time[WEIR_LOG_TIME_BYTES + 1] = {0};
    weir_log_time(EARLY, time);
    assert_string_equal(time, "2025-08-21T12:40:59.007Z");
    weir_log_time(LATE, time);
    assert_string_equal(time, "2100-02-28T23:59:59.999Z");
    weir_log_time(0, time);
    assert_string_equal(time, "1970-01-01T00:00:00.000Z");
}

TEST(a_line_of_text_has_a_level_an_event_a_sentence_and_names)
{
    open_log(WEIR_LOG_INFO, WEIR_LOG_TEXT);
    weir_log_event(WEIR_LOG_WARN, "wrong_key", NULL, "number %d", 7);
    assert_string_equal(read_line(), "warn wrong_key: number 7\n");
    struct weir_log_names names = {.tenant = weir_slice_of("acme"),
                                   .gate = weir_slice_of("a \"b\"\\"),
                                   .request_id = weir_slice_of("id=1")};
    unlink(path);
    weir_log_reopen();
    weir_log_event(WEIR_LOG_INFO, "x", &names, "y");
    assert_string_equal(read_line(),
                        "info x: y request_id=\"id=1\" gate=\"a \\\"b\\\"\\\\\" tenant=acme\n");
}

TEST(nothing_in_a_line_begins_another_one)
{
    struct weir_log_names names = {.tenant = weir_slice_of("a\r\nb\x1b[2J\x7f")};
    open_log(WEIR_LOG_INFO, WEIR_LOG_TEXT);
    weir_log_event(WEIR_LOG_INFO, "x", &names, "%s", "one\ntwo\r");
    assert_string_equal(read_line(),
                        "info x: one\\x0atwo\\x0d tenant=\"a\\x0d\\x0ab\\x1b[2J\\x7f\"\n");
    open_log(WEIR_LOG_INFO, WEIR_LOG_JSON);
    unlink(path);
    weir_log_reopen();
    weir_log_event(WEIR_LOG_INFO, "x", &names, "%s", "one\ntwo\xff");
    json_t *line = json_loads(read_log(), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(line);
    assert_string_equal(json_string_value(json_object_get(line, "message")),
                        "one\ntwo\xef\xbf\xbd");
    assert_string_equal(json_string_value(json_object_get(line, "tenant")), "a\r\nb\x1b[2J\x7f");
    assert_string_equal(json_string_value(json_object_get(line, "level")), "info");
    assert_string_equal(json_string_value(json_object_get(line, "event")), "x");
    assert_int_equal(json_string_length(json_object_get(line, "time")), WEIR_LOG_TIME_BYTES);
    assert_int_equal(json_object_size(line), 5);
    assert_int_equal(strcspn(text, "\n"), strlen(text) - 1);
    json_decref(line);
}

TEST(the_longest_line_is_whole_in_both_formats)
{
    static char longest[WEIR_LOG_MESSAGE_BYTES_MAX + 1];
    static char name[255];
    memset(longest, 1, sizeof longest - 1);
    memset(name, 1, sizeof name);
    struct weir_slice long_name = {name, sizeof name};
    struct weir_log_names names = {long_name, long_name, long_name, long_name, long_name,
                                   long_name, long_name, long_name, long_name};
    open_log(WEIR_LOG_INFO, WEIR_LOG_TEXT);
    weir_log_event(WEIR_LOG_INFO, "x", &names, "%s", longest);
    read_log();
    assert_int_equal(strcspn(text, "\n"), strlen(text) - 1);
    open_log(WEIR_LOG_INFO, WEIR_LOG_JSON);
    unlink(path);
    weir_log_reopen();
    weir_log_event(WEIR_LOG_INFO, "x", &names, "%s", longest);
    json_t *line = json_loads(read_log(), 0, NULL);
    assert_non_null(line);
    assert_int_equal(json_string_length(json_object_get(line, "message")), sizeof longest - 1);
    json_decref(line);
}

TEST(lines_below_the_level_are_not_written_and_not_counted)
{
    struct weir_log_counts before = weir_log_counts();
    open_log(WEIR_LOG_WARN, WEIR_LOG_TEXT);
    assert_false(weir_log_writes(WEIR_LOG_INFO));
    assert_true(weir_log_writes(WEIR_LOG_WARN));
    weir_log_event(WEIR_LOG_DEBUG, "x", NULL, "1");
    weir_log_event(WEIR_LOG_INFO, "x", NULL, "2");
    weir_log_event(WEIR_LOG_WARN, "x", NULL, "3");
    weir_log_event(WEIR_LOG_ERROR, "x", NULL, "4");
    assert_null(strstr(read_log(), ": 2"));
    assert_non_null(strstr(text, ": 3\n"));
    assert_non_null(strstr(text, ": 4\n"));
    struct weir_log_counts after = weir_log_counts();
    assert_int_equal(after.lines[WEIR_LOG_INFO] - before.lines[WEIR_LOG_INFO], 0);
    assert_int_equal(after.lines[WEIR_LOG_WARN] - before.lines[WEIR_LOG_WARN], 1);
    assert_int_equal(after.lines[WEIR_LOG_ERROR] - before.lines[WEIR_LOG_ERROR], 1);
    assert_true(after.dropped == before.dropped);
}

TEST(a_file_that_cannot_be_opened_changes_nothing)
{
    char missing[80];
    snprintf(missing, sizeof missing, "%s/no/log", folder);
    open_log(WEIR_LOG_INFO, WEIR_LOG_TEXT);
    struct weir_log_settings settings = {WEIR_LOG_ERROR, WEIR_LOG_JSON, weir_slice_of(missing)};
    assert_false(weir_log_open(&settings));
    weir_log_event(WEIR_LOG_INFO, "x", NULL, "still here");
    assert_string_equal(read_line(), "info x: still here\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_utc_with_milliseconds),
        cmocka_unit_test_setup_teardown(a_line_of_text_has_a_level_an_event_a_sentence_and_names,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(nothing_in_a_line_begins_another_one, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(the_longest_line_is_whole_in_both_formats, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(lines_below_the_level_are_not_written_and_not_counted,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_opened_changes_nothing, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
