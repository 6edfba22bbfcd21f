/* Lines on stderr about what happens again and again. */
#define _GNU_SOURCE /* mkstemp, pread */
#include "gates/rate_limited_log.h"
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

/* What was written to stderr since then. */
static void end_capture(char *text, size_t room)
{
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    ssize_t bytes = pread(captured, text, room - 1, 0);
    assert_true(bytes >= 0);
    text[bytes] = '\0';
    close(captured);
}

TEST(a_line_is_written_at_once_and_then_once_a_minute_with_how_often_it_was_held_back)
{
    struct weir_rate_limited_log log = {0};
    char text[4096];
    begin_capture();
    weir_log_rate_limited(&log, 5, "gate %s: %d", "g", 1);
    weir_log_rate_limited(&log, 5, "gate %s: %d", "g", 2);
    weir_log_rate_limited(&log, 5 + WEIR_LOG_PERIOD_NS - 1, "gate %s: %d", "g", 3);
    weir_log_rate_limited(&log, 5 + WEIR_LOG_PERIOD_NS, "gate %s: %d", "g", 4);
    weir_log_rate_limited(&log, 5 + 2 * WEIR_LOG_PERIOD_NS, "gate %s: %d", "g", 5);
    end_capture(text, sizeof text);
    assert_string_equal(text, "weir: gate g: 1\n"
                              "weir: gate g: 4 (2 more times since the last such line)\n"
                              "weir: gate g: 5\n");
}

TEST(a_time_that_steps_back_writes_nothing_and_a_long_text_is_cut)
{
    struct weir_rate_limited_log log = {0};
    char text[4096];
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    begin_capture();
    weir_log_rate_limited(&log, 100, "%s", longer);
    weir_log_rate_limited(&log, 1, "%s", "earlier");
    end_capture(text, sizeof text);
    assert_int_equal(strlen(text), strlen("weir: ") + 1023 + 1);
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
