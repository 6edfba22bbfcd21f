/* Who goes next: priorities, tenants by run time, and jobs of one key. */
#include "unit/jobs.h"

static void enter_keyed(struct command_loop *y, uint64_t number, const char *tenant,
                        const char *key)
{
    enter_job(y, (struct weir_schedule_entry){
                     .number = number, .tenant = weir_slice_of(tenant), .key = weir_slice_of(key)});
}

/* ---- order ---- */

TEST(jobs_of_a_tenant_start_in_the_order_of_their_coming)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    for (uint64_t i = 0; i < 50; i++) {
        enter_plain(&y, 100 - i); /* numbers are only names here */
    }
    uint64_t numbers[50];
    run_all(&y, 7, numbers, 50);
    for (uint64_t i = 0; i < 50; i++) {
        assert_int_equal(numbers[i], 100 - i);
    }
    expect_nothing(&y);
    close_yard(&y);
}

TEST(any_8_starts_are_4_high_3_normal_1_low_while_all_wait)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    uint64_t state = 5;
    uint8_t priorities[601] = {0};
    for (uint64_t i = 0; i < 601; i++) {
        static const char *const tenants[] = {"a", "b", "c"};
        priorities[i] = (uint8_t)(i % 3);
        enter_job(&y, (struct weir_schedule_entry){
                          .number = i,
                          .tenant = weir_slice_of(tenants[next_random(&state) % 3]),
                          .priority = (enum weir_priority)(i % 3),
                      });
    }
    uint64_t numbers[400];
    run_all(&y, 3, numbers, 400);
    for (size_t i = 1; i + 8 <= 400; i++) { /* the first one started before the others came */
        int counts[WEIR_PRIORITY_COUNT] = {0};
        for (size_t j = i; j < i + 8; j++) {
            counts[priorities[numbers[j]]]++;
        }
        assert_int_equal(counts[HIGH], 4);
        assert_int_equal(counts[NORMAL], 3);
        assert_int_equal(counts[LOW], 1);
    }
    close_yard(&y);
}

/* ---- tenants ---- */

TEST(a_hundred_thousand_jobs_delay_a_single_one_by_at_most_one_turn)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1, .jobs_max = 200000));
    y.unchecked = true;
    for (uint64_t i = 0; i < 100000; i++) {
        enter_of(&y, i, "crowd");
    }
    uint64_t before;
    run_all(&y, 10, &before, 1); /* there is a mean run time now */
    for (uint64_t round = 0; round < 100; round++) {
        uint64_t single = 200000 + round;
        enter_of(&y, single, "single");
        uint64_t numbers[3];
        run_all(&y, 10, numbers, 3);
        assert_true(numbers[0] == single || numbers[1] == single);
    }
    close_yard(&y);
}

/* How long each of two tenants ran until there were so many starts; each always has jobs. */
static void compete(struct command_loop *y, const uint64_t run_ms[2], uint64_t cost_ms,
                    uint32_t starts, uint64_t served_ms[2])
{
    static const char *const tenants[] = {"one", "two"};
    uint64_t number = 0;
    for (; number < 8; number++) {
        enter_job(y, (struct weir_schedule_entry){.number = number,
                                                  .tenant = weir_slice_of(tenants[number % 2]),
                                                  .cost_ms = cost_ms});
    }
    for (uint32_t i = 0; i < starts; i++) {
        struct weir_epoch epoch;
        uint64_t started = next_start(y, &epoch);
        uint32_t who = started % 2;
        pass(y, run_ms[who] * MS);
        served_ms[who] += run_ms[who];
        finish(y, started, epoch);
        number += (number % 2) != who;
        enter_job(y, (struct weir_schedule_entry){.number = number++,
                                                  .tenant = weir_slice_of(tenants[who]),
                                                  .cost_ms = cost_ms});
    }
}

TEST(tenants_with_unequal_run_times_get_the_same_run_time)
{
    static const uint64_t run_ms[2] = {5, 500};
    for (uint64_t cost_ms = 0; cost_ms <= 1000; cost_ms += 250) { /* whatever is said beforehand */
        struct command_loop y;
        open_yard(&y, QUEUE(.workers = 1));
        uint64_t served_ms[2] = {0};
        compete(&y, run_ms, cost_ms, 2000, served_ms);
        assert_true(served_ms[0] + 1500 > served_ms[1]);
        assert_true(served_ms[1] + 1500 > served_ms[0]);
        close_yard(&y);
    }
}

TEST(several_workers_share_run_time_evenly_too)
{
    enum {
        WORKERS = 3
    };
    static const uint64_t run_ms[2] = {85, 195};
    static const char *const tenants[] = {"one", "two"};
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = WORKERS));
    uint64_t number = 0;
    for (; number < 16; number++) {
        enter_of(&y, number, tenants[number % 2]);
    }
    struct {
        uint64_t number;
        struct weir_epoch epoch;
        uint64_t end_ns;
    } lanes[WORKERS] = {0};
    uint64_t served_ms[2] = {0};
    for (int i = 0; i < 3000; i++) {
        size_t first = 0;
        for (size_t j = 0; j < WORKERS; j++) {
            if (lanes[j].end_ns == 0) {
                lanes[j].number = next_start(&y, &lanes[j].epoch);
                lanes[j].end_ns = y.now.now_ns + run_ms[lanes[j].number % 2] * MS;
            }
            first = lanes[j].end_ns < lanes[first].end_ns ? j : first;
        }
        uint64_t who = lanes[first].number % 2;
        pass(&y, lanes[first].end_ns - y.now.now_ns);
        served_ms[who] += run_ms[who];
        finish(&y, lanes[first].number, lanes[first].epoch);
        lanes[first].end_ns = 0;
        number += number % 2 != who;
        enter_of(&y, number++, tenants[who]);
    }
    assert_true(served_ms[0] < served_ms[1] + 1000);
    assert_true(served_ms[1] < served_ms[0] + 1000);
    close_yard(&y);
}

TEST(jobs_that_take_no_time_do_not_starve_others)
{
    static const uint64_t run_ms[2] = {0, 1};
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    uint64_t served_ms[2] = {0};
    compete(&y, run_ms, 0, 1000, served_ms);
    assert_in_range(served_ms[1], 480, 520);
    close_yard(&y);
}

TEST(a_tenant_has_its_weight_and_no_more_workers_than_its_limit)
{
    struct weir_tenant_settings tenants[] = {{.name = weir_slice_of("heavy"), .weight = 3},
                                             {.name = weir_slice_of("bound"), .limit = 1}};
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1, .tenants = tenants, .tenant_count = 2));
    enter_of(&y, 999, "first");
    for (uint64_t i = 0; i < 80; i++) {
        enter_of(&y, i, i < 40 ? "heavy" : "light");
    }
    uint64_t numbers[41];
    run_all(&y, 10, numbers, 41);
    int heavy = 0;
    for (int i = 1; i < 41; i++) {
        heavy += numbers[i] < 40;
    }
    assert_in_range(heavy, 29, 31);
    close_yard(&y);

    open_yard(&y, QUEUE(.workers = 3, .tenants = tenants, .tenant_count = 2));
    for (uint64_t i = 1; i <= 3; i++) {
        enter_of(&y, i, "bound");
    }
    struct weir_epoch epoch = expect_start(&y, 1);
    expect_nothing(&y);
    enter_of(&y, 4, "free");
    expect_start(&y, 4);
    finish(&y, 1, epoch);
    expect_start(&y, 2);
    expect_nothing(&y);
    close_yard(&y);
}

TEST(nobody_starves_while_others_keep_coming)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2));
    y.unchecked = true;
    enter_job(&y, (struct weir_schedule_entry){.number = 1, .priority = LOW, .cost_ms = 100000});
    enter_job(&y, (struct weir_schedule_entry){.number = 2, .priority = LOW, .cost_ms = 100000});
    enter_job(&y,
              (struct weir_schedule_entry){
                  .number = 3, .tenant = weir_slice_of("z"), .priority = LOW, .cost_ms = 100000});
    uint64_t number = 10;
    bool seen = false;
    for (int i = 0; i < 500 && !seen; i++) {
        char tenant[8];
        snprintf(tenant, sizeof tenant, "t%d", i % 40);
        enter_job(&y, (struct weir_schedule_entry){.number = number++,
                                                   .tenant = weir_slice_of(tenant),
                                                   .priority = i % 2 == 0 ? HIGH : NORMAL});
        enter_job(&y, (struct weir_schedule_entry){.number = number++,
                                                   .tenant = weir_slice_of(tenant),
                                                   .priority = LOW,
                                                   .cost_ms = 1});
        struct weir_epoch epoch;
        uint64_t started = next_start(&y, &epoch);
        seen = started == 3;
        pass(&y, 50 * MS);
        finish(&y, started, epoch);
    }
    assert_true(seen);
    close_yard(&y);
}

/* ---- keys ---- */

TEST(of_one_key_only_so_many_run_and_others_pass_by)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 4, .per_key = 2));
    for (uint64_t i = 1; i <= 4; i++) {
        enter_keyed(&y, i, "", "k");
    }
    enter_plain(&y, 5);
    enter_keyed(&y, 6, "", "other");
    struct weir_epoch first = expect_start(&y, 1);
    struct weir_epoch second = expect_start(&y, 2);
    expect_start(&y, 5);
    expect_start(&y, 6);
    expect_nothing(&y);
    assert_int_equal(stats_at(&y, 0).parked, 2);
    expect_place(&y, 3, WEIR_SCHEDULE_PARKED);
    finish(&y, 2, second);
    expect_start(&y, 3);
    finish(&y, 1, first);
    expect_start(&y, 4);
    assert_int_equal(stats_at(&y, 0).parked, 0);
    close_yard(&y);
}

TEST(parked_jobs_come_back_in_order_and_before_the_rest_of_their_tenant)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1, .per_key = 1));
    enter_plain(&y, 100);
    struct weir_epoch epoch = expect_start(&y, 100);
    for (uint64_t i = 1; i <= 3; i++) {
        enter_keyed(&y, i, "", "k");
    }
    enter_plain(&y, 4);
    configure_queue(&y, QUEUE(.workers = 2, .per_key = 1));
    struct weir_epoch keyed = expect_start(&y, 1);
    expect_nothing(&y);
    enter_plain(&y, 5);
    finish(&y, 100, epoch); /* 2 and 3 have their turn and are parked; 4 goes */
    epoch = expect_start(&y, 4);
    expect_place(&y, 2, WEIR_SCHEDULE_PARKED);
    expect_place(&y, 3, WEIR_SCHEDULE_PARKED);
    for (uint64_t i = 2; i <= 3; i++) {
        finish(&y, i - 1, keyed);
        keyed = expect_start(&y, i);
        expect_nothing(&y);
    }
    finish(&y, 4, epoch);
    expect_start(&y, 5);
    close_yard(&y);
}

TEST(parking_costs_its_tenant_nothing)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2));
    enter_keyed(&y, 1, "x", "k");
    expect_start(&y, 1);
    enter_plain(&y, 2);
    struct weir_epoch epoch = expect_start(&y, 2);
    for (uint64_t i = 10; i < 30; i++) { /* all of them will be parked */
        enter_job(&y, (struct weir_schedule_entry){.number = i,
                                                   .tenant = weir_slice_of("parker"),
                                                   .key = weir_slice_of("k"),
                                                   .cost_ms = 10000});
    }
    enter_of(&y, 40, "parker");
    enter_of(&y, 41, "other");
    enter_of(&y, 42, "other");
    uint64_t numbers[3];
    finish(&y, 2, epoch);
    run_all(&y, 10, numbers, 3);
    assert_int_equal(stats_at(&y, 0).parked, 20);
    assert_true(numbers[0] == 40 || numbers[1] == 40);
    close_yard(&y);
}

TEST(a_kept_place_goes_to_the_next_if_its_job_is_held)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2));
    for (uint64_t i = 1; i <= 3; i++) {
        enter_keyed(&y, i, "", "k");
    }
    enter_plain(&y, 4);
    enter_plain(&y, 5);
    struct weir_epoch keyed = expect_start(&y, 1);
    expect_start(&y, 4);
    configure_queue(&y, QUEUE(.workers = 1)); /* so that nobody starts when 1 ends */
    finish(&y, 1, keyed);
    expect_nothing(&y);
    expect_place(&y, 2, WEIR_SCHEDULE_WAITING);
    expect_place(&y, 3, WEIR_SCHEDULE_PARKED);
    assert_int_equal(hold_job(&y, 2), WEIR_OK);
    expect_place(&y, 3, WEIR_SCHEDULE_WAITING);
    requeue_at(&y, 2, 0); /* first in line again, but the place is kept for 3 */
    configure_queue(&y, QUEUE(.workers = 3));
    expect_start(&y, 3);
    expect_start(&y, 5);
    expect_place(&y, 2, WEIR_SCHEDULE_PARKED);
    close_yard(&y);
}

TEST(a_newcomer_does_not_overtake_those_who_are_parked)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 3, .per_key = 2));
    for (uint64_t i = 1; i <= 4; i++) {
        enter_keyed(&y, i, "a", "k");
    }
    struct weir_epoch first = expect_start(&y, 1);
    struct weir_epoch second = expect_start(&y, 2);
    enter_of(&y, 9, "b");
    struct weir_epoch other = expect_start(&y, 9);
    configure_queue(&y, QUEUE(.workers = 1, .per_key = 2));
    pass(&y, SECOND);
    finish(&y, 1, first);
    finish(&y, 2, second); /* two places are free now, and 3 comes alone */
    expect_place(&y, 3, WEIR_SCHEDULE_WAITING);
    expect_place(&y, 4, WEIR_SCHEDULE_PARKED);
    enter_keyed(&y, 5, "c", "k");
    finish(&y, 9, other); /* c is next, but 4 is before it */
    expect_place(&y, 5, WEIR_SCHEDULE_PARKED);
    struct weir_epoch third = expect_start(&y, 3);
    expect_place(&y, 4, WEIR_SCHEDULE_WAITING);
    finish(&y, 3, third);
    struct weir_epoch fourth = expect_start(&y, 4);
    finish(&y, 4, fourth);
    expect_start(&y, 5);
    close_yard(&y);
}

TEST(a_raised_bound_lets_parked_jobs_go)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 5));
    for (uint64_t i = 1; i <= 5; i++) {
        enter_keyed(&y, i, "", "k");
    }
    expect_start(&y, 1);
    assert_int_equal(stats_at(&y, 0).parked, 4);
    configure_queue(&y, QUEUE(.workers = 5, .per_key = 3));
    expect_start(&y, 2);
    expect_start(&y, 3);
    expect_nothing(&y);
    configure_queue(&y, QUEUE(.workers = 5, .per_key = 1));
    assert_int_equal(stats_at(&y, 0).parked, 2);
    close_yard(&y);
}

TEST(a_lowered_bound_parks_the_one_that_is_coming_again)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 4, .per_key = 2));
    for (uint64_t i = 1; i <= 4; i++) {
        enter_keyed(&y, i, "", "k");
    }
    struct weir_epoch first = expect_start(&y, 1);
    struct weir_epoch second = expect_start(&y, 2);
    configure_queue(&y, QUEUE(.workers = 0, .per_key = 2));
    finish(&y, 1, first);
    expect_place(&y, 3, WEIR_SCHEDULE_WAITING);
    configure_queue(&y, QUEUE(.workers = 4, .per_key = 1));
    expect_nothing(&y);
    expect_place(&y, 3, WEIR_SCHEDULE_PARKED);
    finish(&y, 2, second);
    expect_start(&y, 3); /* it is still the first */
    expect_nothing(&y);
    close_yard(&y);
}

TEST(keys_of_different_queues_have_nothing_to_do_with_each_other)
{
    struct command_loop y;
    open_bare_yard(&y);
    struct weir_schedule_queue queues[] = {QUEUE(.workers = 2),
                                           QUEUE(.workers = 2, .name = {"r", 1})};
    assert_int_equal(try_configure(&y, queues, 2), WEIR_OK);
    enter_keyed(&y, 1, "", "k");
    enter_job(&y, (struct weir_schedule_entry){.number = 2, .queue = 1, .key = weir_slice_of("k")});
    expect_start(&y, 1);
    expect_start(&y, 2);
    close_yard(&y);
}

TEST(a_hundred_thousand_of_one_busy_key_are_parked_over_many_wakes)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2, .jobs_max = 200000));
    y.unchecked = true;
    enter_plain(&y, 500000);
    struct weir_epoch epoch = expect_start(&y, 500000);
    for (uint64_t i = 1; i <= 100000; i++) {
        enter_keyed(&y, i, "", "k");
    }
    enter_plain(&y, 500001);
    struct weir_epoch keyed = expect_start(&y, 1);
    finish(&y, 500000, epoch);
    expect_nothing(&y); /* not all in one call */
    uint64_t parked = stats_at(&y, 0).parked;
    assert_in_range(parked, 1, 1024 + 2);
    int wakes = 0;
    while (weir_schedule_due(y.schedule) <= y.now.now_ns) {
        assert_true(wakes++ < 200);
        weir_schedule_wake(y.schedule, y.now);
    }
    expect_start(&y, 500001);
    weir_schedule_validate(y.schedule);
    finish(&y, 1, keyed);
    expect_start(&y, 2);
    close_yard(&y);
}

TEST(a_job_whose_turn_has_come_can_be_held_before_it_is_decided)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2, .jobs_max = 200000));
    y.unchecked = true;
    enter_plain(&y, 500000);
    struct weir_epoch epoch = expect_start(&y, 500000);
    for (uint64_t i = 1; i <= 3000; i++) {
        enter_keyed(&y, i, "", "k");
    }
    expect_start(&y, 1);
    y.unchecked = false;
    finish(&y, 500000, epoch);
    uint64_t next = stats_at(&y, 0).parked + 2;
    expect_place(&y, next, WEIR_SCHEDULE_WAITING);
    assert_int_equal(look_at(&y, next).ahead, 0);
    assert_int_equal(hold_job(&y, next), WEIR_OK);
    forget_job(&y, next);
    while (weir_schedule_due(y.schedule) <= y.now.now_ns) {
        wake_yard(&y);
    }
    assert_int_equal(stats_at(&y, 0).parked, 2998);
    close_yard(&y);
}

/* ---- telling ---- */

TEST(a_place_in_line_and_a_start_are_told)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    for (uint64_t i = 0; i < 40; i++) {
        enter_plain(&y, i);
    }
    assert_int_equal(look_at(&y, 20).ahead, 19);
    assert_int_equal(look_at(&y, 20).start_ns, 0); /* nothing has been measured */
    uint64_t numbers[10];
    run_all(&y, 100, numbers, 10);
    assert_int_equal(look_at(&y, 20).ahead, 9);
    assert_int_equal(look_at(&y, 20).start_ns, y.now.now_ns + 10 * 100 * MS);
    assert_int_equal(stats_at(&y, 0).interval_ns, 100 * MS);
    configure_queue(&y, QUEUE(.workers = 0));
    assert_int_equal(look_at(&y, 20).start_ns, 0);
    close_yard(&y);
}

TEST(parked_jobs_are_no_starts_in_what_is_measured)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2));
    enter_keyed(&y, 1000, "", "k");
    expect_start(&y, 1000);
    for (uint64_t i = 0; i < 40; i++) {
        enter_keyed(&y, 2 * i, "", i == 0 ? "" : "k");
        enter_plain(&y, 2 * i + 1);
    }
    uint64_t numbers[20];
    run_all(&y, 100, numbers, 20);
    assert_int_equal(stats_at(&y, 0).interval_ns, 100 * MS);
    close_yard(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_of_a_tenant_start_in_the_order_of_their_coming),
        cmocka_unit_test(any_8_starts_are_4_high_3_normal_1_low_while_all_wait),
        cmocka_unit_test(a_hundred_thousand_jobs_delay_a_single_one_by_at_most_one_turn),
        cmocka_unit_test(tenants_with_unequal_run_times_get_the_same_run_time),
        cmocka_unit_test(several_workers_share_run_time_evenly_too),
        cmocka_unit_test(jobs_that_take_no_time_do_not_starve_others),
        cmocka_unit_test(a_tenant_has_its_weight_and_no_more_workers_than_its_limit),
        cmocka_unit_test(nobody_starves_while_others_keep_coming),
        cmocka_unit_test(of_one_key_only_so_many_run_and_others_pass_by),
        cmocka_unit_test(parked_jobs_come_back_in_order_and_before_the_rest_of_their_tenant),
        cmocka_unit_test(parking_costs_its_tenant_nothing),
        cmocka_unit_test(a_kept_place_goes_to_the_next_if_its_job_is_held),
        cmocka_unit_test(a_newcomer_does_not_overtake_those_who_are_parked),
        cmocka_unit_test(a_raised_bound_lets_parked_jobs_go),
        cmocka_unit_test(a_lowered_bound_parks_the_one_that_is_coming_again),
        cmocka_unit_test(keys_of_different_queues_have_nothing_to_do_with_each_other),
        cmocka_unit_test(a_hundred_thousand_of_one_busy_key_are_parked_over_many_wakes),
        cmocka_unit_test(a_job_whose_turn_has_come_can_be_held_before_it_is_decided),
        cmocka_unit_test(a_place_in_line_and_a_start_are_told),
        cmocka_unit_test(parked_jobs_are_no_starts_in_what_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
