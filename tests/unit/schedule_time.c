/* What waits for a moment: delays, dates and leases, with clocks that stand still or jump. */
#include "unit/jobs.h"

static void enter_delayed(struct command_loop *y, uint64_t number, int64_t delay_ms)
{
    enter_job(y, (struct weir_schedule_entry){.number = number,
                                              .created_ms = y->now.wall_ms,
                                              .next_ms = y->now.wall_ms + delay_ms});
}

static void enter_dated(struct command_loop *y, uint64_t number, int64_t date_ms)
{
    enter_job(
        y, (struct weir_schedule_entry){
               .number = number, .created_ms = y->now.wall_ms, .next_ms = date_ms, .dated = true});
}

/* ---- delays ---- */

TEST(a_delayed_job_starts_when_it_is_due_and_not_before)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    assert_int_equal(weir_schedule_due(y.schedule), WEIR_NEVER);
    enter_delayed(&y, 1, 5000);
    uint64_t due_ns = y.now.now_ns + 5 * SECOND;
    expect_place(&y, 1, WEIR_SCHEDULE_DELAYED);
    assert_int_equal(weir_schedule_due(y.schedule), due_ns);
    assert_int_equal(look_at(&y, 1).start_ns, due_ns);
    y.now.now_ns = due_ns - 1;
    wake_yard(&y);
    expect_nothing(&y);
    y.now.now_ns = due_ns;
    wake_yard(&y);
    expect_start(&y, 1);
    assert_int_equal(weir_schedule_due(y.schedule), WEIR_NEVER);
    close_yard(&y);
}

TEST(delays_do_not_follow_a_wall_clock_that_jumps)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 5));
    enter_delayed(&y, 1, 5000);
    y.now.wall_ms += 3600000;
    wake_yard(&y);
    expect_nothing(&y);
    y.now.wall_ms -= 7200000;
    pass(&y, 5 * SECOND);
    wake_yard(&y);
    expect_start(&y, 1);
    close_yard(&y);
}

TEST(a_delay_found_again_lasts_as_long_as_is_left_and_never_longer_than_it_was_meant)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 5));
    struct weir_schedule_entry entry = {
        .number = 1, .created_ms = DAWN_MS - 4000, .next_ms = DAWN_MS + 6000};
    enter_job(&y, entry);
    assert_int_equal(look_at(&y, 1).start_ns, y.now.now_ns + 6 * SECOND);
    entry.number = 2; /* the clock was set back by an hour since */
    entry.created_ms += 3600000;
    entry.next_ms += 3600000;
    enter_job(&y, entry);
    assert_int_equal(look_at(&y, 2).start_ns, y.now.now_ns + 10 * SECOND);
    entry.number = 3; /* it has passed */
    entry.created_ms = DAWN_MS - 9000;
    entry.next_ms = DAWN_MS;
    enter_job(&y, entry);
    expect_start(&y, 3);
    entry.number = 4; /* odd */
    entry.created_ms = DAWN_MS + 9000;
    entry.next_ms = DAWN_MS + 5000;
    enter_job(&y, entry);
    expect_start(&y, 4);
    close_yard(&y);
}

TEST(the_longest_delays_overflow_nothing)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 5));
    enter_job(&y, (struct weir_schedule_entry){.number = 1, .next_ms = INT64_MAX});
    enter_job(&y, (struct weir_schedule_entry){.number = 2, .next_ms = INT64_MAX, .dated = true});
    enter_job(&y, (struct weir_schedule_entry){.number = 3, .next_ms = INT64_MIN, .dated = true});
    enter_delayed(&y, 4, 1000);
    enter_dated(&y, 5, DAWN_MS + 1000);
    expect_start(&y, 3);
    pass(&y, SECOND);
    wake_yard(&y);
    expect_start(&y, 4);
    expect_start(&y, 5);
    expect_place(&y, 1, WEIR_SCHEDULE_DELAYED);
    expect_place(&y, 2, WEIR_SCHEDULE_DELAYED);
    assert_true(look_at(&y, 2).start_ns > y.now.now_ns);
    close_yard(&y);
}

TEST(a_job_that_failed_waits_out_its_backoff_and_is_first_then)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    for (uint64_t i = 1; i <= 3; i++) {
        enter_plain(&y, i);
    }
    struct weir_epoch epoch = expect_start(&y, 1);
    assert_int_equal(try_end(&y, 1, epoch), WEIR_OK);
    requeue_at(&y, 1, y.now.wall_ms + 2000);
    expect_place(&y, 1, WEIR_SCHEDULE_DELAYED);
    epoch = expect_start(&y, 2);
    pass(&y, 2 * SECOND);
    wake_yard(&y);
    expect_place(&y, 1, WEIR_SCHEDULE_WAITING);
    finish(&y, 2, epoch);
    expect_start(&y, 1);
    close_yard(&y);
}

TEST(many_jobs_that_are_due_at_once_become_so_over_several_wakes)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1, .jobs_max = 10000));
    y.unchecked = true;
    for (uint64_t i = 1; i <= 5000; i++) {
        enter_delayed(&y, i, 1000);
    }
    y.unchecked = false;
    pass(&y, SECOND);
    int wakes = 0;
    while (weir_schedule_due(y.schedule) <= y.now.now_ns) {
        assert_true(wakes++ < 10);
        wake_yard(&y);
    }
    assert_int_equal(wakes, 5);
    for (uint64_t i = 1; i <= 100; i++) { /* in the order of their numbers */
        struct weir_epoch epoch = expect_start(&y, i);
        y.unchecked = true;
        finish(&y, i, epoch);
    }
    close_yard(&y);
}

/* ---- dates ---- */

TEST(a_dated_job_starts_when_the_wall_clock_says_so)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 5));
    enter_dated(&y, 1, DAWN_MS + 500);
    enter_dated(&y, 2, DAWN_MS + 60000);
    assert_int_equal(weir_schedule_due(y.schedule), y.now.now_ns + 500 * MS);
    pass(&y, 500 * MS);
    wake_yard(&y);
    expect_start(&y, 1);
    /* The clock may be set any time: it is looked at every second. */
    assert_int_equal(weir_schedule_due(y.schedule), y.now.now_ns + SECOND);
    y.now.wall_ms = DAWN_MS + 59999;
    wake_yard(&y);
    expect_nothing(&y);
    y.now.wall_ms = DAWN_MS - 1000000; /* set back, and forth */
    wake_yard(&y);
    expect_nothing(&y);
    y.now.wall_ms = DAWN_MS + 60000;
    wake_yard(&y);
    expect_start(&y, 2);
    assert_int_equal(weir_schedule_due(y.schedule), WEIR_NEVER);
    close_yard(&y);
}

TEST(a_date_that_has_passed_is_at_once)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 5));
    enter_dated(&y, 1, DAWN_MS);
    expect_start(&y, 1);
    enter_dated(&y, 2, 1);
    expect_start(&y, 2);
    close_yard(&y);
}

TEST(a_dated_job_that_fails_waits_by_the_monotonic_clock)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    enter_dated(&y, 1, DAWN_MS);
    struct weir_epoch epoch = expect_start(&y, 1);
    assert_int_equal(try_end(&y, 1, epoch), WEIR_OK);
    requeue_at(&y, 1, y.now.wall_ms + 1000);
    y.now.wall_ms += 3600000;
    wake_yard(&y);
    expect_nothing(&y);
    pass(&y, SECOND);
    wake_yard(&y);
    expect_start(&y, 1);
    close_yard(&y);
}

TEST(a_job_held_while_it_was_delayed_goes_back_to_its_moment)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 5));
    enter_delayed(&y, 1, 5000);
    enter_dated(&y, 2, DAWN_MS + 5000);
    enter_delayed(&y, 3, 5000);
    enter_dated(&y, 4, DAWN_MS + 5000);
    for (uint64_t i = 1; i <= 4; i++) {
        assert_int_equal(hold_job(&y, i), WEIR_OK);
    }
    pass(&y, SECOND);
    requeue_at(&y, 1, 0);
    requeue_at(&y, 2, 0);
    requeue_at(&y, 3, DAWN_MS + 7000);
    requeue_at(&y, 4, DAWN_MS + 7000);
    assert_int_equal(look_at(&y, 1).start_ns, y.now.now_ns + 4 * SECOND);
    assert_int_equal(look_at(&y, 2).start_ns, y.now.now_ns + 4 * SECOND);
    assert_int_equal(look_at(&y, 3).start_ns, y.now.now_ns + 6 * SECOND);
    assert_int_equal(look_at(&y, 4).start_ns, y.now.now_ns + 6 * SECOND);
    y.now.wall_ms += 10000; /* dates follow, delays do not */
    wake_yard(&y);
    expect_start(&y, 2);
    expect_start(&y, 4);
    expect_nothing(&y);
    close_yard(&y);
}

/* ---- leases ---- */

static void expect_lapse(struct command_loop *y, uint64_t number, struct weir_epoch epoch,
                         uint64_t ran_ms)
{
    struct weir_schedule_news news = weir_schedule_next(y->schedule);
    assert_int_equal(news.what, WEIR_SCHEDULE_LAPSED);
    assert_int_equal(news.number, number);
    assert_true(weir_epoch_equal(news.epoch, epoch));
    assert_int_equal(news.ran_ms, ran_ms);
    expect_place(y, number, WEIR_SCHEDULE_HELD);
}

TEST(a_lease_that_is_not_renewed_lapses_and_its_worker_is_free)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1, .lease_ns = SECOND));
    enter_plain(&y, 1);
    enter_plain(&y, 2);
    struct weir_epoch epoch = expect_start(&y, 1);
    pass(&y, 600 * MS);
    assert_int_equal(weir_schedule_renew(y.schedule, 1, epoch, y.now), WEIR_OK);
    pass(&y, 999 * MS);
    wake_yard(&y);
    expect_nothing(&y);
    pass(&y, MS);
    assert_int_equal(weir_schedule_due(y.schedule), y.now.now_ns);
    wake_yard(&y);
    expect_lapse(&y, 1, epoch, 1600);
    expect_start(&y, 2);
    assert_int_equal(try_end(&y, 1, epoch), WEIR_NOT_HELD);
    assert_int_equal(weir_schedule_renew(y.schedule, 1, epoch, y.now), WEIR_NOT_HELD);
    requeue_at(&y, 1, 0);
    close_yard(&y);
}

TEST(an_end_in_time_leaves_no_lease_behind)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1, .lease_ns = SECOND));
    enter_plain(&y, 1);
    struct weir_epoch epoch = expect_start(&y, 1);
    assert_int_equal(try_end(&y, 1, epoch), WEIR_OK);
    assert_int_equal(weir_schedule_due(y.schedule), WEIR_NEVER);
    forget_job(&y, 1);
    close_yard(&y);
}

TEST(a_lease_does_not_lapse_before_its_start_was_told)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1, .lease_ns = SECOND));
    enter_plain(&y, 1);
    pass(&y, 5 * SECOND);
    wake_yard(&y);
    struct weir_epoch epoch = expect_start(&y, 1);
    expect_nothing(&y);
    pass(&y, SECOND);
    wake_yard(&y);
    expect_lapse(&y, 1, epoch, 6000);
    close_yard(&y);
}

TEST(a_lapsed_job_frees_the_place_of_its_key)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2, .lease_ns = SECOND));
    enter_job(&y, (struct weir_schedule_entry){.number = 1, .key = weir_slice_of("k")});
    enter_job(&y, (struct weir_schedule_entry){.number = 2, .key = weir_slice_of("k")});
    struct weir_epoch epoch = expect_start(&y, 1);
    pass(&y, SECOND);
    wake_yard(&y);
    expect_lapse(&y, 1, epoch, 1000);
    expect_start(&y, 2);
    close_yard(&y);
}

TEST(leases_follow_the_settings_when_they_are_renewed)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2));
    enter_plain(&y, 1);
    struct weir_epoch epoch = expect_start(&y, 1);
    assert_int_equal(weir_schedule_due(y.schedule), WEIR_NEVER);
    configure_queue(&y, QUEUE(.workers = 2, .lease_ns = SECOND));
    assert_int_equal(weir_schedule_due(y.schedule), WEIR_NEVER);
    assert_int_equal(weir_schedule_renew(y.schedule, 1, epoch, y.now), WEIR_OK);
    assert_int_equal(weir_schedule_due(y.schedule), y.now.now_ns + SECOND);
    configure_queue(&y, QUEUE(.workers = 2));
    assert_int_equal(weir_schedule_renew(y.schedule, 1, epoch, y.now), WEIR_OK);
    assert_int_equal(weir_schedule_due(y.schedule), WEIR_NEVER);
    close_yard(&y);
}

/* ---- a clock that goes wrong ---- */

TEST(a_monotonic_clock_that_steps_back_counts_as_standing_still)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1, .lease_ns = 10 * SECOND));
    enter_plain(&y, 1);
    struct weir_epoch epoch = expect_start(&y, 1);
    enter_delayed(&y, 2, 5000);
    y.now.now_ns -= 500 * SECOND;
    wake_yard(&y);
    expect_nothing(&y);
    finish(&y, 1, epoch);
    y.now.now_ns += 504 * SECOND;
    wake_yard(&y);
    expect_nothing(&y);
    y.now.now_ns += SECOND;
    wake_yard(&y);
    expect_start(&y, 2);
    close_yard(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delayed_job_starts_when_it_is_due_and_not_before),
        cmocka_unit_test(delays_do_not_follow_a_wall_clock_that_jumps),
        cmocka_unit_test(
            a_delay_found_again_lasts_as_long_as_is_left_and_never_longer_than_it_was_meant),
        cmocka_unit_test(the_longest_delays_overflow_nothing),
        cmocka_unit_test(a_job_that_failed_waits_out_its_backoff_and_is_first_then),
        cmocka_unit_test(many_jobs_that_are_due_at_once_become_so_over_several_wakes),
        cmocka_unit_test(a_dated_job_starts_when_the_wall_clock_says_so),
        cmocka_unit_test(a_date_that_has_passed_is_at_once),
        cmocka_unit_test(a_dated_job_that_fails_waits_by_the_monotonic_clock),
        cmocka_unit_test(a_job_held_while_it_was_delayed_goes_back_to_its_moment),
        cmocka_unit_test(a_lease_that_is_not_renewed_lapses_and_its_worker_is_free),
        cmocka_unit_test(an_end_in_time_leaves_no_lease_behind),
        cmocka_unit_test(a_lease_does_not_lapse_before_its_start_was_told),
        cmocka_unit_test(a_lapsed_job_frees_the_place_of_its_key),
        cmocka_unit_test(leases_follow_the_settings_when_they_are_renewed),
        cmocka_unit_test(a_monotonic_clock_that_steps_back_counts_as_standing_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
