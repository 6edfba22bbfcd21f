/* The pace of a request's body: who may go on, and who is cut off when. */
#include "frontend/body_pace.h"

#include "unit/helpers.h"

#define MS           (SECOND / 1000)
#define RATE_BYTES   1000
#define WINDOW       WEIR_BODY_PACE_WINDOW_NS
#define TOTAL        (60 * SECOND)
#define STALL        (30 * SECOND)
#define TRICKLES_MAX 100000

/* 1000 bytes a second, within a minute, no pause of 30 seconds. */
static struct weir_config_listener listener(void)
{
    return (struct weir_config_listener){.patience = {.stall_ns = STALL, .body_ns = TOTAL},
                                         .body_rate_bytes = RATE_BYTES};
}

/* Sends so many bytes each time so much time has passed, from `now_ns` on. Returns when it is cut
 * off, WEIR_NEVER if it never is. */
static uint64_t trickle(struct weir_body_pace *pace, const struct weir_config_listener *config,
                        uint64_t bytes, uint64_t every_ns, uint64_t now_ns)
{
    for (int i = 0; i < TRICKLES_MAX; i++) {
        uint64_t due_ns = weir_body_pace_wait(pace, config, true, now_ns);
        if (due_ns <= now_ns + every_ns) {
            assert_int_equal(weir_body_pace_judge(pace, config, due_ns - 1), WEIR_BODY_LATE_NOT);
            assert_int_not_equal(weir_body_pace_judge(pace, config, due_ns), WEIR_BODY_LATE_NOT);
            return due_ns;
        }
        now_ns += every_ns;
        weir_body_pace_receive(pace, config, bytes, now_ns);
    }
    return WEIR_NEVER;
}

TEST(a_client_that_sends_nothing_is_late_after_the_window)
{
    struct weir_config_listener config = listener();
    struct weir_body_pace pace = {0};
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, 7 * SECOND), 7 * SECOND + WINDOW);
    assert_int_equal(weir_body_pace_judge(&pace, &config, 7 * SECOND + WINDOW - 1),
                     WEIR_BODY_LATE_NOT);
    assert_int_equal(weir_body_pace_judge(&pace, &config, 7 * SECOND + WINDOW),
                     WEIR_BODY_LATE_RATE);
}

TEST(asking_again_while_it_waits_moves_nothing)
{
    struct weir_config_listener config = listener();
    struct weir_body_pace pace = {0};
    uint64_t due_ns = weir_body_pace_wait(&pace, &config, true, SECOND);
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, 4 * SECOND), due_ns);
    assert_int_equal(weir_body_pace_wait(&pace, &config, false, 4 * SECOND), due_ns);
}

TEST(a_client_at_the_rate_goes_on_and_one_just_below_does_not)
{
    struct weir_config_listener config = listener();
    config.patience.body_ns = WEIR_NEVER;
    struct weir_body_pace pace = {0};
    assert_int_equal(trickle(&pace, &config, 100, 100 * MS, SECOND), WEIR_NEVER);
    pace = (struct weir_body_pace){0};
    uint64_t cut_ns = trickle(&pace, &config, 99, 100 * MS, SECOND);
    /* Each second costs 10 ms more than it earns, so the window lasts for 500 s. */
    assert_true(cut_ns > 485 * SECOND && cut_ns < 506 * SECOND);
}

TEST(bytes_that_came_early_are_worth_one_window_at_most)
{
    struct weir_config_listener config = listener();
    struct weir_body_pace pace = {0};
    weir_body_pace_wait(&pace, &config, true, SECOND);
    weir_body_pace_receive(&pace, &config, UINT32_MAX, 2 * SECOND);
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, 2 * SECOND), 2 * SECOND + WINDOW);
    /* A byte in every second earns next to nothing. */
    assert_in_range(trickle(&pace, &config, 1, SECOND, 2 * SECOND), 2 * SECOND + WINDOW,
                    2 * SECOND + WINDOW + 10 * MS);
}

TEST(time_in_which_weir_does_not_wait_is_free)
{
    struct weir_config_listener config = listener();
    struct weir_body_pace pace = {0};
    weir_body_pace_wait(&pace, &config, true, SECOND);
    weir_body_pace_stop(&pace, &config, 3 * SECOND); /* two seconds are spent */
    assert_int_equal(weir_body_pace_judge(&pace, &config, DAY), WEIR_BODY_LATE_NOT);
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, DAY), DAY + WINDOW - 2 * SECOND);
}

TEST(stopping_ends_the_wait_once_and_bytes_that_follow_still_pay)
{
    struct weir_config_listener config = listener();
    struct weir_body_pace pace = {0};
    weir_body_pace_wait(&pace, &config, true, SECOND);
    weir_body_pace_stop(&pace, &config, 3 * SECOND); /* two seconds are spent */
    weir_body_pace_stop(&pace, &config, 20 * SECOND);
    assert_int_equal(pace.waited_ns, 2 * SECOND);
    weir_body_pace_receive(&pace, &config, RATE_BYTES, 20 * SECOND); /* and one is earned */
    assert_int_equal(pace.waited_ns, 2 * SECOND);
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, DAY), DAY + WINDOW - SECOND);
}

TEST(before_anything_is_held_only_the_pause_and_the_total_count)
{
    struct weir_config_listener config = listener();
    struct weir_body_pace pace = {0};
    uint64_t now_ns = SECOND;
    assert_int_equal(weir_body_pace_wait(&pace, &config, false, now_ns), now_ns + STALL);
    assert_int_equal(weir_body_pace_judge(&pace, &config, now_ns + STALL - 1), WEIR_BODY_LATE_NOT);
    assert_int_equal(weir_body_pace_judge(&pace, &config, now_ns + STALL), WEIR_BODY_LATE_STALL);
    now_ns += STALL - 1;
    weir_body_pace_receive(&pace, &config, 1, now_ns);
    assert_int_equal(weir_body_pace_wait(&pace, &config, false, now_ns), now_ns + STALL);
    now_ns += STALL - 1;
    weir_body_pace_receive(&pace, &config, 1, now_ns);
    /* Of the minute two nanoseconds are left. */
    assert_int_equal(weir_body_pace_wait(&pace, &config, false, now_ns), now_ns + 2);
    assert_int_equal(weir_body_pace_judge(&pace, &config, now_ns + 1), WEIR_BODY_LATE_NOT);
    assert_int_equal(weir_body_pace_judge(&pace, &config, now_ns + 2), WEIR_BODY_LATE_TOTAL);
}

TEST(the_window_begins_when_something_is_held)
{
    struct weir_config_listener config = listener();
    struct weir_body_pace pace = {0};
    weir_body_pace_wait(&pace, &config, false, SECOND);
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, 21 * SECOND), 21 * SECOND + WINDOW);
    /* The total goes on: 20 s before, and what comes now. */
    config.patience.body_ns = 22 * SECOND;
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, 22 * SECOND), 23 * SECOND);
}

TEST(a_restart_gives_the_window_anew_but_not_the_total)
{
    struct weir_config_listener config = listener();
    struct weir_body_pace pace = {0};
    weir_body_pace_wait(&pace, &config, true, SECOND);
    weir_body_pace_restart(&pace, 5 * SECOND);
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, 5 * SECOND), 5 * SECOND + WINDOW);
    config.patience.body_ns = 6 * SECOND;
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, 5 * SECOND), 7 * SECOND);
}

TEST(a_late_100_does_not_shorten_the_time_to_answer_it)
{
    struct weir_config_listener config = listener();
    config.patience.stall_ns = 4 * SECOND;
    struct weir_body_pace pace = {0};
    weir_body_pace_wait(&pace, &config, true, SECOND);
    weir_body_pace_restart(&pace, 2 * SECOND); /* a part of the window has passed */
    assert_int_equal(weir_body_pace_judge(&pace, &config, 6 * SECOND - 1), WEIR_BODY_LATE_NOT);
    assert_int_equal(weir_body_pace_judge(&pace, &config, 6 * SECOND), WEIR_BODY_LATE_RATE);
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, 3 * SECOND), 6 * SECOND);
}

TEST(without_a_rate_or_a_total_only_the_pause_counts)
{
    struct weir_config_listener config = listener();
    config.body_rate_bytes = WEIR_NEVER;
    config.patience.body_ns = WEIR_NEVER;
    struct weir_body_pace pace = {0};
    assert_int_equal(trickle(&pace, &config, 1, STALL - 1, SECOND), WEIR_NEVER);
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, HOUR), HOUR + STALL);
    config.patience.stall_ns = WEIR_NEVER;
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, HOUR), WEIR_NEVER);
}

TEST(the_window_is_no_longer_than_the_pause_that_is_allowed)
{
    struct weir_config_listener config = listener();
    config.patience.stall_ns = WINDOW - 1;
    assert_int_equal(weir_body_pace_window_ns(&config), WINDOW - 1);
    config.patience.stall_ns = WINDOW + 1;
    assert_int_equal(weir_body_pace_window_ns(&config), WINDOW);
    config.patience.stall_ns = 300 * MS;
    struct weir_body_pace pace = {0};
    assert_int_equal(weir_body_pace_wait(&pace, &config, true, SECOND), SECOND + 300 * MS);
}

TEST(time_that_stands_still_or_steps_back_makes_nobody_late)
{
    struct weir_config_listener config = listener();
    struct weir_body_pace pace = {0};
    weir_body_pace_wait(&pace, &config, true, HOUR);
    assert_int_equal(weir_body_pace_judge(&pace, &config, HOUR), WEIR_BODY_LATE_NOT);
    assert_int_equal(weir_body_pace_judge(&pace, &config, SECOND), WEIR_BODY_LATE_NOT);
    weir_body_pace_receive(&pace, &config, 1, SECOND);
    assert_int_equal(pace.waited_ns, 0);
    assert_int_equal(pace.spent_ns, 0);
}

TEST(the_largest_rate_and_the_largest_read_do_not_overflow)
{
    struct weir_config_listener config = listener();
    config.body_rate_bytes = 1;
    struct weir_body_pace pace = {0};
    weir_body_pace_wait(&pace, &config, true, SECOND);
    weir_body_pace_receive(&pace, &config, UINT32_MAX, 2 * SECOND);
    assert_int_equal(pace.spent_ns, 0);
    config.body_rate_bytes = UINT64_C(1) << 30;
    weir_body_pace_wait(&pace, &config, true, 2 * SECOND);
    weir_body_pace_receive(&pace, &config, 1, 3 * SECOND);
    assert_int_equal(pace.spent_ns, SECOND);
}

TEST(each_way_to_be_late_names_its_setting)
{
    struct weir_config_listener config = listener();
    config.body_rate_bytes = 8192;
    char text[WEIR_BODY_LATE_TEXT_BYTES];
    weir_body_late_text(WEIR_BODY_LATE_RATE, &config, text);
    assert_string_equal(text,
                        "The request's body came more slowly than 8KiB a second (body_rate "
                        "of the listener), over 5s. Send it faster, or have body_rate lowered.");
    weir_body_late_text(WEIR_BODY_LATE_TOTAL, &config, text);
    assert_string_equal(text,
                        "The request's body took longer than 1m (timeouts.body of the listener). "
                        "Send it faster, or have timeouts.body raised.");
    weir_body_late_text(WEIR_BODY_LATE_STALL, &config, text);
    assert_string_equal(text, "The next part of the request's body did not come within 30s "
                              "(timeouts.stall of the listener). Send it without long pauses.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_sends_nothing_is_late_after_the_window),
        cmocka_unit_test(asking_again_while_it_waits_moves_nothing),
        cmocka_unit_test(a_client_at_the_rate_goes_on_and_one_just_below_does_not),
        cmocka_unit_test(bytes_that_came_early_are_worth_one_window_at_most),
        cmocka_unit_test(time_in_which_weir_does_not_wait_is_free),
        cmocka_unit_test(stopping_ends_the_wait_once_and_bytes_that_follow_still_pay),
        cmocka_unit_test(before_anything_is_held_only_the_pause_and_the_total_count),
        cmocka_unit_test(the_window_begins_when_something_is_held),
        cmocka_unit_test(a_restart_gives_the_window_anew_but_not_the_total),
        cmocka_unit_test(a_late_100_does_not_shorten_the_time_to_answer_it),
        cmocka_unit_test(without_a_rate_or_a_total_only_the_pause_counts),
        cmocka_unit_test(the_window_is_no_longer_than_the_pause_that_is_allowed),
        cmocka_unit_test(time_that_stands_still_or_steps_back_makes_nobody_late),
        cmocka_unit_test(the_largest_rate_and_the_largest_read_do_not_overflow),
        cmocka_unit_test(each_way_to_be_late_names_its_setting),
    };
    return cmocka_run_group_tests_name("body_pace", tests, NULL, NULL);
}
