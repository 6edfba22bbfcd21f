/* How many at once: the window of the learned controller. */
#include "core/window.h"
#include "unit/helpers.h"

#include <math.h>

/* A round has shown that nothing queues. */
static struct weir_window fresh(void)
{
    struct weir_window window;
    weir_window_init(&window, &(struct weir_window_settings){0});
    window.room = true;
    return window;
}

static struct weir_echo echo_of(uint64_t number, uint32_t among, bool held)
{
    return (struct weir_echo){.number = number,
                              .sent_last = number,
                              .among = among,
                              .active = among,
                              .held = held,
                              .streamed = true,
                              .delay_s = 0.5,
                              .ended = number,
                              .now_ns = number * SECOND};
}

static void accept(struct weir_window *window, uint64_t number, uint32_t among, bool held)
{
    struct weir_echo echo = echo_of(number, among, held);
    weir_window_accept(window, &echo);
    weir_window_time(window, &echo);
}

static void refuse(struct weir_window *window, uint64_t number, uint32_t among)
{
    struct weir_echo echo = echo_of(number, among, true);
    weir_window_refuse(window, &echo);
}

static void lose(struct weir_window *window, uint64_t number, uint32_t among)
{
    struct weir_echo echo = echo_of(number, among, true);
    weir_window_lose(window, &echo);
}

TEST(it_starts_at_16_and_grows_by_one_for_each_first_byte_while_it_holds)
{
    struct weir_window window = fresh();
    assert_true(window.size == 16.0);
    accept(&window, 1, 16, true);
    accept(&window, 2, 16, true);
    assert_true(window.size == 18.0);
    assert_int_equal(window.reason, WEIR_LIMIT_GROWN);
}

TEST(it_does_not_grow_before_a_round_has_shown_that_nothing_queues)
{
    struct weir_window window = fresh();
    window.room = false;
    for (uint64_t i = 1; i <= 8; i++) {
        accept(&window, i, 16, true);
    }
    assert_true(window.size == 16.0);
    accept(&window, 9, 16, true);
    assert_true(window.size == 17.0);
}

TEST(it_does_not_grow_while_something_else_holds)
{
    struct weir_window window = fresh();
    for (uint64_t i = 1; i <= 100; i++) {
        accept(&window, i, 16, false);
    }
    assert_true(window.size == 16.0);
}

TEST(a_refusal_with_retry_after_ends_the_growth_at_what_was_taken)
{
    struct weir_window window = fresh();
    for (uint64_t i = 1; i <= 10; i++) {
        accept(&window, i, (uint32_t)i, true);
    }
    assert_true(window.size == 26.0);
    weir_window_halt(&window);
    assert_true(window.size == 10.0);
    assert_int_equal(window.reason, WEIR_LIMIT_REFUSED);
    accept(&window, 11, 10, true);
    assert_true(window.size == 10.0); /* from now on it is probed */
    accept(&window, 12, 14, true);
    weir_window_halt(&window);
    assert_true(window.size == 10.0); /* it does not grow by a second one either */
}

TEST(the_refused_count_less_one_is_the_limit)
{
    struct weir_window window = fresh();
    window.size = 20.0;
    accept(&window, 1, 16, false);
    refuse(&window, 2, 17);
    assert_true(window.size == 16.0);
    assert_int_equal(window.reason, WEIR_LIMIT_REFUSED);
    assert_true(window.patience == 8.0);
}

TEST(a_refusal_of_fewer_than_were_taken_before_is_not_about_the_window)
{
    struct weir_window window = fresh();
    window.size = 200.0;
    accept(&window, 1, 100, false);
    refuse(&window, 2, 80);
    assert_true(window.size == 200.0);
    assert_true(window.accepted == 90.0);
    refuse(&window, 3, 81);
    assert_true(window.size == 80.0);
}

TEST(one_more_is_probed_after_8_then_16_full_windows_and_each_refusal_doubles_that)
{
    struct weir_window window = fresh();
    window.size = 20.0;
    accept(&window, 1, 16, false);
    refuse(&window, 2, 17);
    uint64_t number = 3;
    for (int i = 0; i < 7; i++) {
        accept(&window, number++, 16, true);
    }
    accept(&window, number++, 15, true); /* not a full window */
    assert_true(window.size == 16.0);
    accept(&window, number++, 16, true);
    assert_true(window.size == 17.0);
    assert_int_equal(window.reason, WEIR_LIMIT_PROBED);
    refuse(&window, number++, 17);
    assert_true(window.size == 16.0);
    assert_true(window.probe == 16.0);
    for (int i = 0; i < 20; i++) {
        refuse(&window, number++, 17);
    }
    assert_true(window.patience == 500.0);
    assert_true(weir_window_explains(&window, 17));
    assert_false(weir_window_explains(&window, 16));
}

/* A limit on requests at once is the same number each time. */
TEST(a_bound_that_is_found_again_explains_what_is_refused_above_it)
{
    struct weir_window window = fresh();
    window.size = 20.0;
    accept(&window, 1, 16, false);
    refuse(&window, 2, 17);
    assert_false(weir_window_explains(&window, 17)); /* it may have been the rate */
    refuse(&window, 3, 17);
    assert_true(weir_window_explains(&window, 17));
    assert_false(weir_window_explains(&window, 16));
    window.size = 30.0;
    window.accepted = 20.0;
    refuse(&window, 4, 22); /* another one */
    assert_false(weir_window_explains(&window, 22));
}

TEST(a_small_bound_is_found_twice_before_it_explains_anything)
{
    struct weir_window window = fresh();
    accept(&window, 1, 3, false);
    refuse(&window, 2, 4);
    refuse(&window, 3, 4);
    assert_false(weir_window_explains(&window, 4));
    refuse(&window, 4, 4);
    assert_true(weir_window_explains(&window, 4));
}

TEST(a_bound_above_which_probes_went_well_is_none)
{
    struct weir_window window = fresh();
    window.size = 20.0;
    accept(&window, 1, 16, false);
    refuse(&window, 2, 17);
    refuse(&window, 3, 17);
    for (uint64_t i = 4; i < 200; i++) {
        accept(&window, i, (uint32_t)window.size, true);
    }
    assert_true(window.probes >= 2);
    assert_false(weir_window_explains(&window, 100));
}

TEST(refusals_of_one_round_count_once)
{
    struct weir_window window = fresh();
    window.size = 20.0;
    struct weir_echo echo = echo_of(3, 20, true);
    echo.sent_last = 10;
    weir_window_refuse(&window, &echo);
    echo = echo_of(10, 19, true);
    weir_window_refuse(&window, &echo);
    assert_true(window.patience == 8.0);
    assert_true(window.size == 18.0);
    assert_int_equal(window.confirmed, 0);
}

TEST(errors_are_judged_by_their_share)
{
    struct weir_window window = fresh();
    window.size = 100.0;
    for (uint64_t i = 1; i <= 1000; i++) { /* one in ten */
        if (i % 10 == 0) {
            lose(&window, i, 100);
        } else {
            accept(&window, i, 100, false);
        }
    }
    assert_true(window.size == 100.0);
}

TEST(a_brown_out_cuts_to_a_tenth_and_slow_start_leads_back)
{
    struct weir_window window = fresh();
    window.size = 100.0;
    accept(&window, 1, 100, false);
    uint64_t number = 2;
    for (int i = 0; i < 60; i++) {
        lose(&window, number++, 50);
    }
    assert_true(window.size == 10.0);
    assert_int_equal(window.reason, WEIR_LIMIT_LOST);
    assert_true(window.back == 100.0);
    for (int i = 0; i < 12; i++) { /* until the share has fallen below 0.3 */
        accept(&window, number++, 10, true);
    }
    double size = window.size;
    for (int i = 0; i < 50; i++) {
        accept(&window, number++, 10, true);
    }
    assert_true(window.size == size + 50.0);
}

TEST(losses_of_what_was_sent_before_a_cut_do_not_cut_again)
{
    struct weir_window window = fresh();
    window.size = 100.0;
    window.accepted = 100.0;
    struct weir_echo echo = echo_of(1, 100, true);
    echo.sent_last = 100;
    window.failures = 0.9;
    weir_window_lose(&window, &echo);
    assert_true(window.size == 85.0);
    lose(&window, 100, 100);
    assert_true(window.size == 85.0);
    lose(&window, 101, 100);
    assert_true(window.size == 85.0 * 0.85);
}

TEST(bounds_hold_whatever_happens)
{
    struct weir_window window;
    weir_window_init(&window, &(struct weir_window_settings){.start = 5, .min = 3, .max = 6});
    for (uint64_t i = 1; i <= 10; i++) {
        accept(&window, i, 6, true);
    }
    assert_true(window.size == 6.0);
    refuse(&window, 11, 1);
    refuse(&window, 12, 1);
    for (uint64_t i = 12; i < 100; i++) {
        lose(&window, i, 6);
        refuse(&window, i, 1);
    }
    assert_true(window.size == 3.0);
    weir_window_bound(&window, &(struct weir_window_settings){.min = 8, .max = 9});
    assert_true(window.size == 8.0);
    window = fresh();
    for (uint64_t i = 1; i <= 20000; i++) {
        accept(&window, i, 10000, true);
    }
    assert_true(window.size == 8192.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_starts_at_16_and_grows_by_one_for_each_first_byte_while_it_holds),
        cmocka_unit_test(it_does_not_grow_before_a_round_has_shown_that_nothing_queues),
        cmocka_unit_test(a_refusal_with_retry_after_ends_the_growth_at_what_was_taken),
        cmocka_unit_test(it_does_not_grow_while_something_else_holds),
        cmocka_unit_test(the_refused_count_less_one_is_the_limit),
        cmocka_unit_test(a_refusal_of_fewer_than_were_taken_before_is_not_about_the_window),
        cmocka_unit_test(
            one_more_is_probed_after_8_then_16_full_windows_and_each_refusal_doubles_that),
        cmocka_unit_test(a_bound_that_is_found_again_explains_what_is_refused_above_it),
        cmocka_unit_test(a_small_bound_is_found_twice_before_it_explains_anything),
        cmocka_unit_test(a_bound_above_which_probes_went_well_is_none),
        cmocka_unit_test(refusals_of_one_round_count_once),
        cmocka_unit_test(errors_are_judged_by_their_share),
        cmocka_unit_test(a_brown_out_cuts_to_a_tenth_and_slow_start_leads_back),
        cmocka_unit_test(losses_of_what_was_sent_before_a_cut_do_not_cut_again),
        cmocka_unit_test(bounds_hold_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
