/* Lines on their way to a file: each is there whole or counted as dropped, no caller waits, and the
 * file can be moved away and changed. */
#define _GNU_SOURCE /* mkdtemp */
#include "log/line_file.h"
#include "unit/helpers.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define CAPACITY     WEIR_LINE_BYTES_MAX
#define THREADS      4
#define THREAD_LINES 2000

static char folder[] = "/tmp/weir-lines-XXXXXX";
static char path[64];
static char moved[64];
static char text[1 << 20];
static struct weir_line_file *file;

static int set_up(void **state __attribute__((unused)))
{
    signal(SIGPIPE, SIG_IGN);
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(moved, sizeof moved, "%s/log.1", folder);
    file = weir_line_file_create(CAPACITY);
    assert_non_null(file);
    return 0;
}

static int tear_down(void **state __attribute__((unused)))
{
    weir_line_file_destroy(file);
    unlink(path);
    unlink(moved);
    return rmdir(folder);
}

static void put(const char *line)
{
    weir_line_file_put(file, weir_slice_of(line));
}

static void expect_file(const char *name, const char *expected)
{
    FILE *opened = fopen(name, "r");
    assert_non_null(opened);
    text[fread(text, 1, sizeof text - 1, opened)] = '\0';
    fclose(opened);
    assert_string_equal(text, expected);
}

static void expect_lines(uint64_t written, uint64_t dropped)
{
    struct weir_line_file_counts counts = weir_line_file_counts(file);
    assert_int_equal(counts.written, written);
    assert_int_equal(counts.dropped, dropped);
}

TEST(lines_are_appended_in_their_order)
{
    put("before it is open\n");
    assert_true(weir_line_file_open(file, weir_slice_of(path)));
    put("one\n");
    put("two\n");
    weir_line_file_flush(file);
    expect_file(path, "one\ntwo\n");
    expect_lines(2, 0);
}

TEST(a_file_that_was_moved_away_keeps_its_lines_and_the_next_are_in_a_new_one)
{
    assert_true(weir_line_file_open(file, weir_slice_of(path)));
    put("one\n");
    assert_int_equal(rename(path, moved), 0);
    put("two\n");
    assert_true(weir_line_file_reopen(file));
    put("three\n");
    weir_line_file_flush(file);
    expect_file(moved, "one\ntwo\n");
    expect_file(path, "three\n");
}

TEST(another_file_is_taken_up_and_one_that_cannot_be_opened_is_not)
{
    assert_true(weir_line_file_open(file, weir_slice_of(path)));
    put("one\n");
    assert_false(weir_line_file_open(file, weir_slice_of(folder)));
    assert_int_equal(errno, EISDIR);
    put("two\n");
    assert_true(weir_line_file_open(file, weir_slice_of(moved)));
    put("three\n");
    weir_line_file_flush(file);
    expect_file(path, "one\ntwo\n");
    expect_file(moved, "three\n");
}

/* A reader of a pipe that takes nothing: the thread waits, and callers never do. */
TEST(what_the_buffer_has_no_room_for_is_dropped_and_counted)
{
    static char line[1025];
    char read_back[4096];
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_true(weir_line_file_open(file, weir_slice_of(path)));
    memset(line, 'x', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    for (int i = 0; i < 1000; i++) {
        put(line);
    }
    struct weir_line_file_counts counts = weir_line_file_counts(file);
    assert_true(counts.dropped > 0);
    uint64_t expected = 1000 - counts.dropped;
    uint64_t lines = 0;
    while (lines < expected) {
        ssize_t got = read(reader, read_back, sizeof read_back);
        for (ssize_t i = 0; i < got; i++) {
            lines += read_back[i] == '\n';
        }
    }
    close(reader);
    weir_line_file_flush(file);
    expect_lines(expected, counts.dropped);
    put("no reader\n");
    weir_line_file_flush(file);
    expect_lines(expected, counts.dropped + 1);
}

static int reported;
static uint64_t reported_dropped;

static void report(void *context, int error, uint64_t dropped)
{
    assert_ptr_equal(context, &reported);
    reported = error;
    reported_dropped = dropped;
}

/* The limit of a file's size stands for a disk that is full. */
TEST(a_line_that_does_not_fit_on_the_disk_is_taken_back_and_counted)
{
    struct rlimit before, small;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 10;
    weir_line_file_set_report(file, report, &reported);
    assert_true(weir_line_file_open(file, weir_slice_of(path)));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    put("one\n");
    put("two\n");
    put("three\n");
    put("four\n");
    weir_line_file_flush(file);
    expect_file(path, "one\ntwo\n");
    expect_lines(2, 2);
    assert_int_equal(reported, EFBIG);
    assert_int_equal(reported_dropped, 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    put("five\n");
    weir_line_file_flush(file);
    expect_file(path, "one\ntwo\nfive\n");
    expect_lines(3, 2);
    assert_int_equal(reported, 0);
}

/* stderr's file was opened by what started this program, mostly without O_APPEND. */
TEST(a_part_of_a_line_in_the_file_of_stderr_is_ended_and_not_cut)
{
    struct rlimit before, small;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 10;
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    int kept = dup(STDERR_FILENO);
    assert_true(fd >= 0);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    bool opened = weir_line_file_open(file, weir_slice_of(""));
    int limited = setrlimit(RLIMIT_FSIZE, &small);
    put("one\n");
    put("two\n");
    put("three\n");
    weir_line_file_flush(file);
    int freed = setrlimit(RLIMIT_FSIZE, &before);
    put("five\n");
    weir_line_file_flush(file);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    close(fd);
    assert_true(opened && limited == 0 && freed == 0);
    expect_file(path, "one\ntwo\nth\nfive\n");
}

TEST(all_is_written_before_it_ends)
{
    assert_true(weir_line_file_open(file, weir_slice_of(path)));
    put("one\n");
    weir_line_file_destroy(file);
    file = NULL;
    expect_file(path, "one\n");
}

/* What starts this program may stop reading its stderr in the middle of a line. */
TEST(a_stderr_that_takes_nothing_does_not_hold_up_the_end)
{
    static char filler[4096];
    static char line[6001];
    int ends[2];
    int kept = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, 2 * sizeof filler), 2 * sizeof filler);
    assert_int_equal(write(ends[1], filler, sizeof filler), sizeof filler);
    memset(line, 'x', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    alarm(60); /* ends a test that hangs */
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    bool opened = weir_line_file_open(file, weir_slice_of(""));
    put(line);
    weir_line_file_destroy(file);
    file = NULL;
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    alarm(0);
    close(kept);
    close(ends[0]);
    close(ends[1]);
    assert_true(opened);
}

/* A pipe whose reader stopped reading is left for the next file, with the lines in hand. */
TEST(a_pipe_that_takes_nothing_is_left_for_the_next_file)
{
    static char line[6001];
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(fcntl(reader, F_SETPIPE_SZ, 4096), 4096);
    assert_true(weir_line_file_open(file, weir_slice_of(path)));
    memset(line, 'x', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    put(line);
    alarm(60); /* ends a test that hangs */
    assert_true(weir_line_file_open(file, weir_slice_of(moved)));
    put("next\n");
    while (weir_line_file_counts(file).written == 0) {
        weir_line_file_flush(file);
    }
    alarm(0);
    close(reader);
    expect_lines(1, 1);
    expect_file(moved, "next\n");
}

static void *put_many(void *context)
{
    char line[32];
    for (int i = 0; i < THREAD_LINES; i++) {
        snprintf(line, sizeof line, "%s %d\n", (const char *)context, i);
        put(line);
    }
    return NULL;
}

TEST(lines_of_several_threads_are_whole_and_all_of_them_are_counted)
{
    static const char *const names[THREADS] = {"a", "b", "c", "d"};
    pthread_t threads[THREADS];
    uint64_t lines = 0;
    assert_true(weir_line_file_open(file, weir_slice_of(path)));
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, (void *)(uintptr_t)names[i]),
                         0);
    }
    for (int i = 0; i < 20; i++) {
        assert_true(weir_line_file_reopen(file));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    weir_line_file_flush(file);
    FILE *opened = fopen(path, "r");
    assert_non_null(opened);
    int last[THREADS] = {-1, -1, -1, -1};
    char line[64], name;
    int number;
    while (fgets(line, sizeof line, opened) != NULL) {
        assert_int_equal(sscanf(line, "%c %d\n", &name, &number), 2);
        assert_true(number > last[name - 'a']);
        last[name - 'a'] = number;
        lines++;
    }
    fclose(opened);
    struct weir_line_file_counts counts = weir_line_file_counts(file);
    assert_int_equal(counts.written, lines);
    assert_int_equal(counts.written + counts.dropped, THREADS * THREAD_LINES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_appended_in_their_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_file_that_was_moved_away_keeps_its_lines_and_the_next_are_in_a_new_one, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            another_file_is_taken_up_and_one_that_cannot_be_opened_is_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_buffer_has_no_room_for_is_dropped_and_counted,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_line_that_does_not_fit_on_the_disk_is_taken_back_and_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_of_a_line_in_the_file_of_stderr_is_ended_and_not_cut,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pipe_that_takes_nothing_is_left_for_the_next_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(all_is_written_before_it_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stderr_that_takes_nothing_does_not_hold_up_the_end,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            lines_of_several_threads_are_whole_and_all_of_them_are_counted, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("line_file", tests, NULL, NULL);
}
