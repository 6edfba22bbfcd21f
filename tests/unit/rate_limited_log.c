/* Lines of the log about what happens again and again. */
#define _GNU_SOURCE /* mkstemp, pread */
#include "log/rate_limited_log.h"
#include "unit/helpers.h"

#include <fcntl.h>

static int captured = -1;
static int kept = -1;

static void begin_capture(void)
{
    char name[] = "/tmp/weir-log-XXXXXX";
    captured = mkstemp(name);
    assert_true(captured >= 0);
    unlink(name);
    kept = dup(STDERR_FILENO);
    assert_true(dup2(captured, STDERR_FILENO) >= 0);
}

/* What was written to stderr since then, without the times. */
static void end_capture(char *text, size_t room)
{
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    ssize_t bytes = pread(captured, text, room - 1, 0);
    assert_true(bytes >= 0);
    text[bytes] = '\0';
    close(captured);
    char *to = text;
    for (const char *line = text; *line != '\0';) {
        size_t line_bytes = strcspn(line, "\n") + 1;
        assert_true(line_bytes > WEIR_LOG_TIME_BYTES);
        memmove(to, line + WEIR_LOG_TIME_BYTES + 1, line_bytes - WEIR_LOG_TIME_BYTES - 1);
        to += line_bytes - WEIR_LOG_TIME_BYTES - 1;
        line += line_bytes;
    }
    *to = '\0';
}

static void log_one(struct weir_rate_limited_log *log, uint64_t now_ns, int number)
{
    weir_log_rate_limited(log, now_ns, WEIR_LOG_WARN, "thing", NULL, "gate %s: %d", "g", number);
}

TEST(a_line_is_written_at_once_and_then_once_a_minute_with_how_often_it_was_held_back)
{
    struct weir_rate_limited_log log = {0};
    char text[4096];
    begin_capture();
    log_one(&log, 5, 1);
    log_one(&log, 5, 2);
    log_one(&log, 5 + WEIR_LOG_PERIOD_NS - 1, 3);
    log_one(&log, 5 + WEIR_LOG_PERIOD_NS, 4);
    log_one(&log, 5 + 2 * WEIR_LOG_PERIOD_NS, 5);
    end_capture(text, sizeof text);
    assert_string_equal(text, "warn thing: gate g: 1\n"
                              "warn thing: gate g: 4 (2 more times since the last such line)\n"
                              "warn thing: gate g: 5\n");
}

TEST(a_time_that_steps_back_writes_nothing_and_a_long_text_is_cut)
{
    struct weir_rate_limited_log log = {0};
    char text[4096];
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    begin_capture();
    weir_log_rate_limited(&log, 100, WEIR_LOG_WARN, "thing", NULL, "%s", longer);
    weir_log_rate_limited(&log, 1, WEIR_LOG_WARN, "thing", NULL, "%s", "earlier");
    end_capture(text, sizeof text);
    assert_int_equal(strlen(text), strlen("warn thing: ") + WEIR_LOG_MESSAGE_BYTES_MAX + 1);
    assert_null(strstr(text, "earlier"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_line_is_written_at_once_and_then_once_a_minute_with_how_often_it_was_held_back),
        cmocka_unit_test(a_time_that_steps_back_writes_nothing_and_a_long_text_is_cut),
    };
    return cmocka_run_group_tests_name("rate_limited_log", tests, NULL, NULL);
}
