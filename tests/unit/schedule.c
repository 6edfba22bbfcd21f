/* A job's way through the schedule: in, started, ended, held, back or gone. */
#include "unit/jobs.h"

TEST(a_job_starts_at_once_while_a_worker_is_free)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2));
    expect_place(&y, 1, WEIR_SCHEDULE_NOWHERE);
    for (uint64_t i = 1; i <= 3; i++) {
        enter_plain(&y, i);
    }
    struct weir_epoch first = expect_start(&y, 1);
    struct weir_epoch second = expect_start(&y, 2);
    expect_nothing(&y);
    assert_false(weir_epoch_equal(first, second));
    assert_true(weir_epoch_equal(look_at(&y, 2).epoch, second));
    expect_place(&y, 3, WEIR_SCHEDULE_WAITING);
    finish(&y, 1, first);
    expect_start(&y, 3);
    assert_int_equal(stats_at(&y, 0).running, 2);
    assert_int_equal(stats_at(&y, 0).started, 3);
    close_yard(&y);
}

TEST(an_answer_counts_only_once_and_only_under_its_epoch)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    enter_plain(&y, 1);
    struct weir_epoch untold = look_at(&y, 1).epoch;
    assert_int_equal(try_end(&y, 1, untold), WEIR_NOT_HELD); /* nobody has been told to run it */
    struct weir_epoch epoch = expect_start(&y, 1);
    assert_int_equal(try_end(&y, 2, epoch), WEIR_NOT_HELD);
    assert_int_equal(try_end(&y, 1, (struct weir_epoch){BOOT - 1, epoch.counter}), WEIR_NOT_HELD);
    assert_int_equal(try_end(&y, 1, (struct weir_epoch){BOOT, epoch.counter + 1}), WEIR_NOT_HELD);
    assert_int_equal(try_end(&y, 1, epoch), WEIR_OK);
    expect_place(&y, 1, WEIR_SCHEDULE_HELD);
    assert_int_equal(try_end(&y, 1, epoch), WEIR_NOT_HELD);
    requeue_at(&y, 1, 0);
    struct weir_epoch again = expect_start(&y, 1);
    assert_int_equal(try_end(&y, 1, epoch), WEIR_NOT_HELD);
    assert_int_equal(weir_schedule_renew(y.schedule, 1, epoch, y.now), WEIR_NOT_HELD);
    finish(&y, 1, again);
    assert_int_equal(try_end(&y, 1, again), WEIR_NOT_HELD);
    close_yard(&y);
}

TEST(a_worker_is_free_the_moment_its_job_has_ended)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    enter_plain(&y, 1);
    enter_plain(&y, 2);
    struct weir_epoch epoch = expect_start(&y, 1);
    assert_int_equal(try_end(&y, 1, epoch), WEIR_OK);
    expect_start(&y, 2);
    expect_place(&y, 1, WEIR_SCHEDULE_HELD);
    assert_int_equal(stats_at(&y, 0).held, 1);
    close_yard(&y);
}

TEST(a_job_that_goes_back_is_first_in_its_tenants_line)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    for (uint64_t i = 1; i <= 4; i++) {
        enter_plain(&y, i);
    }
    struct weir_epoch epoch = expect_start(&y, 1);
    assert_int_equal(try_end(&y, 1, epoch), WEIR_OK);
    requeue_at(&y, 1, 0);
    epoch = expect_start(&y, 2);
    finish(&y, 2, epoch);
    uint64_t numbers[3];
    run_all(&y, 1, numbers, 3);
    assert_int_equal(numbers[0], 1);
    assert_int_equal(numbers[1], 3);
    assert_int_equal(numbers[2], 4);
    close_yard(&y);
}

TEST(a_job_can_be_held_wherever_it_waits_and_nowhere_else)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2));
    enter_job(&y, (struct weir_schedule_entry){.number = 1, .key = weir_slice_of("k")});
    enter_job(&y, (struct weir_schedule_entry){.number = 2, .key = weir_slice_of("k")});
    enter_plain(&y, 3);
    enter_plain(&y, 4);
    enter_job(&y, (struct weir_schedule_entry){.number = 5, .next_ms = DAWN_MS + 1000});
    expect_place(&y, 1, WEIR_SCHEDULE_RUNNING);
    expect_place(&y, 2, WEIR_SCHEDULE_PARKED);
    expect_place(&y, 3, WEIR_SCHEDULE_RUNNING);
    expect_place(&y, 4, WEIR_SCHEDULE_WAITING);
    expect_place(&y, 5, WEIR_SCHEDULE_DELAYED);
    assert_int_equal(hold_job(&y, 1), WEIR_NOT_HELD);
    assert_int_equal(hold_job(&y, 6), WEIR_NOT_HELD);
    for (uint64_t i = 2; i <= 5; i++) {
        assert_int_equal(hold_job(&y, i), i == 3 ? WEIR_NOT_HELD : WEIR_OK);
        assert_int_equal(hold_job(&y, i), WEIR_NOT_HELD);
    }
    assert_int_equal(stats_at(&y, 0).queued, 0);
    assert_int_equal(stats_at(&y, 0).held, 3);
    forget_job(&y, 2);
    expect_place(&y, 2, WEIR_SCHEDULE_NOWHERE);
    requeue_at(&y, 4, 0);
    requeue_at(&y, 5, 0);
    expect_place(&y, 4, WEIR_SCHEDULE_WAITING);
    expect_place(&y, 5, WEIR_SCHEDULE_DELAYED);
    close_yard(&y);
}

TEST(jobs_of_removed_queues_stay_and_do_not_start)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    enter_plain(&y, 1);
    enter_plain(&y, 2);
    struct weir_epoch epoch = expect_start(&y, 1);
    configure_queue(&y, QUEUE(.workers = 1, .name = {"other", 5}));
    assert_int_equal(weir_schedule_find_queue(y.schedule, weir_slice_of("q")), 0);
    assert_int_equal(weir_schedule_find_queue(y.schedule, weir_slice_of("other")), 1);
    assert_int_equal(weir_schedule_find_queue(y.schedule, weir_slice_of("none")), UINT32_MAX);
    finish(&y, 1, epoch);
    expect_nothing(&y);
    assert_int_equal(stats_at(&y, 0).queued, 1);
    assert_int_equal(stats_at(&y, 0).workers, 0);
    configure_queue(&y, QUEUE(.workers = 1));
    expect_start(&y, 2);
    close_yard(&y);
}

TEST(jobs_are_found_before_their_queue_is_configured)
{
    struct command_loop y;
    open_bare_yard(&y);
    uint32_t queue = weir_schedule_need_queue(y.schedule, weir_slice_of("q"), y.now);
    assert_int_equal(queue, 0);
    assert_int_equal(weir_schedule_need_queue(y.schedule, weir_slice_of("q"), y.now), 0);
    enter_plain(&y, 5);
    enter_plain(&y, 6);
    expect_nothing(&y);
    configure_queue(&y, QUEUE(.workers = 1));
    expect_start(&y, 5);
    expect_nothing(&y);
    close_yard(&y);
}

TEST(queues_have_a_most_and_names_have_lengths)
{
    struct command_loop y;
    open_bare_yard(&y);
    y.unchecked = true;
    char name[8];
    for (int i = 0; i < WEIR_SCHEDULE_QUEUES_MAX; i++) {
        snprintf(name, sizeof name, "q%d", i);
        assert_int_equal(weir_schedule_need_queue(y.schedule, weir_slice_of(name), y.now), i);
    }
    assert_int_equal(weir_schedule_need_queue(y.schedule, weir_slice_of("x"), y.now), UINT32_MAX);
    assert_int_equal(weir_schedule_need_queue(y.schedule, weir_slice_of("q7"), y.now), 7);
    struct weir_schedule_queue one = QUEUE(.workers = 1);
    assert_int_equal(try_configure(&y, &one, 1), WEIR_TOO_MANY_KEYS);
    assert_int_equal(try_configure(&y, NULL, WEIR_SCHEDULE_QUEUES_MAX + 1), WEIR_TOO_MANY_KEYS);
    close_yard(&y);
    open_yard(&y, QUEUE(.workers = 1));
    char long_name[256];
    memset(long_name, 'n', sizeof long_name);
    struct weir_slice too_long = {long_name, 256};
    assert_int_equal(weir_schedule_need_queue(y.schedule, too_long, y.now), UINT32_MAX);
    assert_int_equal(weir_schedule_need_queue(y.schedule, weir_slice_of(""), y.now), UINT32_MAX);
    struct weir_schedule_entry entry = {.number = 1, .tenant = too_long};
    assert_int_equal(try_enter(&y, entry), WEIR_BAD_NAME);
    entry = (struct weir_schedule_entry){.number = 1, .key = too_long};
    assert_int_equal(try_enter(&y, entry), WEIR_BAD_NAME);
    entry.key.bytes = 255;
    entry.tenant = (struct weir_slice){long_name, 255};
    assert_int_equal(try_enter(&y, entry), WEIR_OK);
    close_yard(&y);
}

TEST(bad_settings_change_nothing)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    enter_plain(&y, 1);
    enter_plain(&y, 2);
    struct weir_tenant_settings twice[] = {{.name = weir_slice_of("a")},
                                           {.name = weir_slice_of("a")}};
    struct weir_tenant_settings odd = {.rate = {.tokens = 1, .period_ns = 1}};
    struct {
        struct weir_schedule_queue queue;
        enum weir_status status;
    } bad[] = {
        {{.name = weir_slice_of("q")}, WEIR_BAD_DURATION},
        {QUEUE(.lease_ns = WEIR_DURATION_MAX_NS + 1), WEIR_BAD_DURATION},
        {QUEUE(.workers = WEIR_LIMIT_MAX + 1), WEIR_BAD_LIMIT},
        {QUEUE(.jobs_max = WEIR_SCHEDULE_JOBS_MAX + 1), WEIR_BAD_BOUND},
        {QUEUE(.tenants = twice, .tenant_count = 2), WEIR_BAD_TENANTS},
        {QUEUE(.tenant_default = odd), WEIR_BAD_RATE},
        {QUEUE(.name = {"", 0}), WEIR_BAD_NAME},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct weir_schedule_queue queues[] = {QUEUE(.name = {"new", 3}), QUEUE(.workers = 9),
                                               bad[i].queue};
        assert_int_equal(try_configure(&y, queues, 3), bad[i].status);
        assert_int_equal(weir_schedule_find_queue(y.schedule, weir_slice_of("new")), UINT32_MAX);
        assert_int_equal(stats_at(&y, 0).workers, 1);
        assert_int_equal(stats_at(&y, 0).running, 1);
    }
    close_yard(&y);
}

TEST(more_workers_start_more_jobs_and_fewer_let_them_run_out)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    for (uint64_t i = 1; i <= 6; i++) {
        enter_plain(&y, i);
    }
    struct weir_epoch epochs[6];
    epochs[0] = expect_start(&y, 1);
    configure_queue(&y, QUEUE(.workers = 4));
    for (uint64_t i = 2; i <= 4; i++) {
        epochs[i - 1] = expect_start(&y, i);
    }
    configure_queue(&y, QUEUE(.workers = 2));
    for (uint64_t i = 1; i <= 2; i++) {
        finish(&y, i, epochs[i - 1]);
        expect_nothing(&y);
    }
    finish(&y, 3, epochs[2]);
    expect_start(&y, 5);
    configure_queue(&y, QUEUE(.workers = 0));
    finish(&y, 4, epochs[3]);
    expect_nothing(&y);
    expect_place(&y, 6, WEIR_SCHEDULE_WAITING);
    close_yard(&y);
}

TEST(thousands_of_workers_start_over_several_wakes)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 0, .jobs_max = 10000));
    y.unchecked = true;
    for (uint64_t i = 1; i <= 5000; i++) {
        enter_plain(&y, i);
    }
    y.unchecked = false;
    configure_queue(&y, QUEUE(.workers = 4000, .jobs_max = 10000));
    int wakes = 0;
    while (weir_schedule_due(y.schedule) <= y.now.now_ns) {
        assert_true(wakes++ < 20);
        wake_yard(&y);
    }
    assert_true(wakes >= 2);
    assert_int_equal(stats_at(&y, 0).running, 4000);
    for (uint64_t i = 1; i <= 4000; i++) {
        assert_int_equal(weir_schedule_next(y.schedule).number, i);
    }
    expect_nothing(&y);
    close_yard(&y);
}

TEST(a_schedule_is_taken_down_with_jobs_in_every_place)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 3, .full = WEIR_SCHEDULE_DROP_OLDEST, .lease_ns = SECOND));
    for (uint64_t i = 1; i <= 3; i++) {
        enter_job(&y, (struct weir_schedule_entry){.number = i, .key = weir_slice_of("k")});
    }
    enter_plain(&y, 4);
    struct weir_epoch epoch = expect_start(&y, 1);
    expect_start(&y, 4);
    enter_plain(&y, 5);
    enter_plain(&y, 6);
    enter_job(&y, (struct weir_schedule_entry){.number = 7, .next_ms = DAWN_MS + 5});
    enter_job(&y, (struct weir_schedule_entry){.number = 8, .next_ms = DAWN_MS + 5, .dated = true});
    assert_int_equal(try_end(&y, 1, epoch), WEIR_OK);
    close_yard(&y);
    weir_schedule_destroy(NULL);
}

static void enter_twice(void *argument)
{
    struct command_loop *y = argument;
    enter_plain(y, 1);
    enter_plain(y, 1);
}

static void forget_what_runs(void *argument)
{
    struct command_loop *y = argument;
    enter_plain(y, 1);
    weir_schedule_forget(y->schedule, 1);
}

TEST(broken_contracts_end_the_program)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    expect_abort(enter_twice, &y, "weir_schedule_find");
    expect_abort(forget_what_runs, &y, "WEIR_SCHEDULE_HELD");
    close_yard(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_starts_at_once_while_a_worker_is_free),
        cmocka_unit_test(an_answer_counts_only_once_and_only_under_its_epoch),
        cmocka_unit_test(a_worker_is_free_the_moment_its_job_has_ended),
        cmocka_unit_test(a_job_that_goes_back_is_first_in_its_tenants_line),
        cmocka_unit_test(a_job_can_be_held_wherever_it_waits_and_nowhere_else),
        cmocka_unit_test(jobs_of_removed_queues_stay_and_do_not_start),
        cmocka_unit_test(jobs_are_found_before_their_queue_is_configured),
        cmocka_unit_test(queues_have_a_most_and_names_have_lengths),
        cmocka_unit_test(bad_settings_change_nothing),
        cmocka_unit_test(more_workers_start_more_jobs_and_fewer_let_them_run_out),
        cmocka_unit_test(thousands_of_workers_start_over_several_wakes),
        cmocka_unit_test(a_schedule_is_taken_down_with_jobs_in_every_place),
        cmocka_unit_test(broken_contracts_end_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
