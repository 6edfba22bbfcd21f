/* Who may come in, and who is dropped to make room. */
#include "unit/jobs.h"

static enum weir_schedule_answer ask_for(struct command_loop *y, const char *tenant,
                                         enum weir_priority priority, uint32_t count,
                                         uint64_t *retry_after_ns)
{
    struct weir_schedule_ask ask = {
        .tenant = weir_slice_of(tenant), .priority = priority, .count = count};
    enum weir_schedule_answer answer = weir_schedule_ask(y->schedule, &ask, y->now, retry_after_ns);
    check_yard(y);
    return answer;
}

static enum weir_schedule_answer come(struct command_loop *y, uint32_t count)
{
    uint64_t retry_after_ns;
    return ask_for(y, "", NORMAL, count, &retry_after_ns);
}

static void enter_reserved(struct command_loop *y, uint64_t number, enum weir_priority priority)
{
    enter_job(
        y, (struct weir_schedule_entry){.number = number, .priority = priority, .reserved = true});
}

/* ---- bounds ---- */

TEST(places_are_reserved_taken_and_given_back)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1, .jobs_max = 3));
    enter_plain(&y, 100);
    expect_start(&y, 100); /* what runs takes no place */
    assert_int_equal(come(&y, 2), WEIR_SCHEDULE_COME);
    assert_int_equal(come(&y, 2), WEIR_SCHEDULE_FULL);
    assert_int_equal(come(&y, 1), WEIR_SCHEDULE_COME);
    assert_int_equal(come(&y, 1), WEIR_SCHEDULE_FULL);
    assert_int_equal(stats_at(&y, 0).reserved, 3);
    enter_reserved(&y, 1, NORMAL);
    enter_reserved(&y, 2, NORMAL);
    assert_int_equal(stats_at(&y, 0).reserved, 1);
    assert_int_equal(come(&y, 1), WEIR_SCHEDULE_FULL);
    weir_schedule_withdraw(y.schedule, &(struct weir_schedule_ask){.count = 1});
    assert_int_equal(come(&y, 1), WEIR_SCHEDULE_COME);
    enter_reserved(&y, 3, NORMAL);
    assert_int_equal(stats_at(&y, 0).queued, 3);
    assert_int_equal(come(&y, 1), WEIR_SCHEDULE_FULL);
    assert_int_equal(hold_job(&y, 3), WEIR_OK);
    assert_int_equal(come(&y, 1), WEIR_SCHEDULE_COME);
    requeue_at(&y, 3, 0); /* whatever the bounds */
    assert_int_equal(stats_at(&y, 0).queued, 3);
    enter_plain(&y, 4); /* one that was found at the start */
    assert_int_equal(stats_at(&y, 0).queued, 4);
    close_yard(&y);
}

TEST(jobs_that_are_delayed_or_parked_take_a_place_as_well)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2, .jobs_max = 2));
    enter_job(&y, (struct weir_schedule_entry){.number = 1, .key = weir_slice_of("k")});
    enter_job(&y, (struct weir_schedule_entry){.number = 2, .key = weir_slice_of("k")});
    enter_job(&y, (struct weir_schedule_entry){.number = 3, .next_ms = DAWN_MS + 1});
    assert_int_equal(stats_at(&y, 0).parked, 1);
    assert_int_equal(stats_at(&y, 0).delayed, 1);
    assert_int_equal(come(&y, 1), WEIR_SCHEDULE_FULL);
    close_yard(&y);
}

TEST(asks_of_one_submission_get_their_places_at_once)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 0, .jobs_max = 5, .jobs_by_priority = {[LOW] = 2},
                        .tenant_default = {.rate = {.tokens = 3, .period_ns = SECOND}}));
    struct weir_schedule_ask first = {.tenant = weir_slice_of("s"),
                                      .priority = HIGH,
                                      .count = 1,
                                      .besides = {[HIGH] = 2, [LOW] = 2}};
    struct weir_schedule_ask second = {
        .tenant = weir_slice_of("t"), .priority = HIGH, .count = 2, .seated = true};
    struct weir_schedule_ask third = {
        .tenant = weir_slice_of("t"), .priority = LOW, .count = 2, .seated = true};
    uint64_t retry_after_ns;
    enter_plain(&y, 1);
    assert_int_equal(weir_schedule_ask(y.schedule, &first, y.now, &retry_after_ns),
                     WEIR_SCHEDULE_FULL); /* of the queue's five, */
    assert_int_equal(weir_schedule_awaited(y.schedule, &first), 5);
    assert_int_equal(stats_at(&y, 0).reserved, 0);
    assert_int_equal(hold_job(&y, 1), WEIR_OK);
    first.besides[LOW] = 3;
    first.besides[HIGH] = 1;
    assert_int_equal(weir_schedule_ask(y.schedule, &first, y.now, &retry_after_ns),
                     WEIR_SCHEDULE_FULL); /* of the two of that priority */
    assert_int_equal(weir_schedule_awaited(y.schedule, &first), 0);
    first.besides[LOW] = 2;
    first.besides[HIGH] = 3;
    assert_int_equal(weir_schedule_awaited(y.schedule, &first), 0); /* more than there are */
    first.besides[LOW] = 2;
    first.besides[HIGH] = 2;
    assert_int_equal(weir_schedule_ask(y.schedule, &first, y.now, &retry_after_ns),
                     WEIR_SCHEDULE_COME);
    assert_int_equal(stats_at(&y, 0).reserved, 5);
    assert_int_equal(weir_schedule_ask(y.schedule, &second, y.now, &retry_after_ns),
                     WEIR_SCHEDULE_COME); /* though it is full by now */
    assert_int_equal(weir_schedule_ask(y.schedule, &third, y.now, &retry_after_ns),
                     WEIR_SCHEDULE_TOO_FAST);
    assert_int_equal(stats_at(&y, 0).reserved, 5);
    check_yard(&y);
    weir_schedule_revoke(y.schedule, &second, y.now);
    assert_int_equal(weir_schedule_ask(y.schedule, &third, y.now, &retry_after_ns),
                     WEIR_SCHEDULE_COME);
    weir_schedule_withdraw(y.schedule, &third);
    assert_int_equal(stats_at(&y, 0).reserved, 5);
    weir_schedule_revoke(y.schedule, &first, y.now);
    assert_int_equal(stats_at(&y, 0).reserved, 0);
    close_yard(&y);
}

TEST(a_priority_may_have_a_bound_of_its_own)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 0, .jobs_max = 10, .jobs_by_priority = {[HIGH] = 2}));
    uint64_t retry_after_ns;
    assert_int_equal(ask_for(&y, "", HIGH, 3, &retry_after_ns), WEIR_SCHEDULE_FULL);
    assert_int_equal(ask_for(&y, "", HIGH, 2, &retry_after_ns), WEIR_SCHEDULE_COME);
    assert_int_equal(ask_for(&y, "", HIGH, 1, &retry_after_ns), WEIR_SCHEDULE_FULL);
    assert_int_equal(ask_for(&y, "", LOW, 8, &retry_after_ns), WEIR_SCHEDULE_COME);
    assert_int_equal(ask_for(&y, "", LOW, 1, &retry_after_ns), WEIR_SCHEDULE_FULL);
    enter_reserved(&y, 1, HIGH);
    enter_reserved(&y, 2, LOW);
    assert_int_equal(stats_at(&y, 0).by_priority[HIGH], 1);
    assert_int_equal(stats_at(&y, 0).by_priority[LOW], 1);
    assert_int_equal(stats_at(&y, 0).by_priority[NORMAL], 0);
    close_yard(&y);
}

TEST(the_full_are_told_to_come_back_after_the_measured_drain_or_five_seconds)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1, .jobs_max = 20));
    for (uint64_t i = 0; i < 31; i++) {
        enter_plain(&y, i);
    }
    uint64_t retry_after_ns;
    assert_int_equal(ask_for(&y, "", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_FULL);
    assert_int_equal(retry_after_ns, 5 * SECOND);
    uint64_t numbers[10];
    run_all(&y, 300, numbers, 10);
    assert_int_equal(stats_at(&y, 0).queued, 20);
    assert_int_equal(ask_for(&y, "", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_FULL);
    assert_int_equal(retry_after_ns, 300 * MS);
    assert_int_equal(ask_for(&y, "", NORMAL, 4, &retry_after_ns), WEIR_SCHEDULE_FULL);
    assert_int_equal(retry_after_ns, 4 * 300 * MS);
    configure_queue(&y, QUEUE(.workers = 0, .jobs_max = 20));
    assert_int_equal(ask_for(&y, "", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_FULL);
    assert_int_equal(retry_after_ns, 5 * SECOND);
    close_yard(&y);
}

TEST(a_queue_that_is_not_configured_takes_nothing)
{
    struct command_loop y;
    open_bare_yard(&y);
    assert_int_equal(weir_schedule_need_queue(y.schedule, weir_slice_of("q"), y.now), 0);
    assert_int_equal(come(&y, 1), WEIR_SCHEDULE_NO_QUEUE);
    configure_queue(&y, QUEUE(.workers = 1));
    assert_int_equal(come(&y, 1), WEIR_SCHEDULE_COME);
    close_yard(&y);
}

/* ---- rates ---- */

#define PER_SECOND(n)                      \
    {                                      \
        .tokens = (n), .period_ns = SECOND \
    }

TEST(a_tenant_that_submits_too_fast_is_told_when_it_may)
{
    struct command_loop y;
    struct weir_tenant_settings ten = {.rate = PER_SECOND(10)};
    ten.rate.unit = WEIR_UNIT_REQUESTS; /* each job of a submission counts, whatever is said */
    open_yard(&y, QUEUE(.workers = 0, .tenant_default = ten));
    uint64_t retry_after_ns;
    assert_int_equal(ask_for(&y, "a", NORMAL, 9, &retry_after_ns), WEIR_SCHEDULE_COME);
    assert_int_equal(ask_for(&y, "a", NORMAL, 2, &retry_after_ns), WEIR_SCHEDULE_TOO_FAST);
    assert_int_equal(retry_after_ns, 100 * MS);
    assert_int_equal(stats_at(&y, 0).reserved, 9);
    assert_int_equal(ask_for(&y, "b", NORMAL, 10, &retry_after_ns), WEIR_SCHEDULE_COME);
    pass(&y, 100 * MS);
    assert_int_equal(ask_for(&y, "a", NORMAL, 2, &retry_after_ns), WEIR_SCHEDULE_COME);
    assert_int_equal(ask_for(&y, "a", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_TOO_FAST);
    pass(&y, SECOND);
    /* More than the bucket holds needs a full one and leaves a debt. */
    assert_int_equal(ask_for(&y, "a", NORMAL, 30, &retry_after_ns), WEIR_SCHEDULE_COME);
    assert_int_equal(ask_for(&y, "a", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_TOO_FAST);
    assert_int_equal(retry_after_ns, 2100 * MS);
    close_yard(&y);
}

TEST(whoever_is_refused_elsewhere_has_not_submitted)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 0, .tenant_default = {.rate = PER_SECOND(10)}));
    struct weir_schedule_ask ask = {.tenant = weir_slice_of("a"), .priority = NORMAL, .count = 9};
    uint64_t retry_after_ns;
    assert_int_equal(ask_for(&y, "a", NORMAL, 9, &retry_after_ns), WEIR_SCHEDULE_COME);
    weir_schedule_revoke(y.schedule, &ask, y.now);
    assert_int_equal(stats_at(&y, 0).reserved, 0);
    assert_int_equal(ask_for(&y, "a", NORMAL, 9, &retry_after_ns), WEIR_SCHEDULE_COME);
    assert_int_equal(ask_for(&y, "a", NORMAL, 2, &retry_after_ns), WEIR_SCHEDULE_TOO_FAST);
    /* What time has given back meanwhile does not make it more than it was. */
    pass(&y, SECOND);
    weir_schedule_revoke(y.schedule, &ask, y.now);
    assert_int_equal(ask_for(&y, "a", NORMAL, 10, &retry_after_ns), WEIR_SCHEDULE_COME);
    assert_int_equal(ask_for(&y, "a", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_TOO_FAST);
    assert_int_equal(retry_after_ns, 100 * MS);
    ask.count = 10;
    weir_schedule_withdraw(y.schedule, &ask); /* this one stays charged */
    assert_int_equal(ask_for(&y, "a", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_TOO_FAST);
    close_yard(&y);
}

TEST(the_rate_of_submissions_does_not_pace_the_starts)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 100, .tenant_default = {.rate = PER_SECOND(1)}));
    for (uint64_t i = 1; i <= 50; i++) {
        enter_of(&y, i, "a");
        expect_start(&y, i);
    }
    close_yard(&y);
}

TEST(who_finds_a_full_queue_does_not_pay)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 0, .jobs_max = 1, .full = WEIR_SCHEDULE_WAIT,
                        .tenant_default = {.rate = PER_SECOND(2)}));
    enter_plain(&y, 1);
    uint64_t retry_after_ns;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(ask_for(&y, "a", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_FULL);
    }
    assert_int_equal(hold_job(&y, 1), WEIR_OK);
    assert_int_equal(ask_for(&y, "a", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_COME);
    close_yard(&y);
}

TEST(new_rates_hold_at_once_and_named_tenants_have_their_own)
{
    struct weir_tenant_settings tenants[] = {
        {.name = weir_slice_of("fast"), .rate = PER_SECOND(100)}, {.name = weir_slice_of("free")}};
    struct command_loop y;
    struct weir_schedule_queue queue =
        QUEUE(.workers = 0, .tenant_default = {.rate = PER_SECOND(2)}, .tenants = tenants,
              .tenant_count = 2);
    open_yard(&y, queue);
    uint64_t retry_after_ns;
    assert_int_equal(ask_for(&y, "fast", NORMAL, 100, &retry_after_ns), WEIR_SCHEDULE_COME);
    assert_int_equal(ask_for(&y, "fast", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_TOO_FAST);
    assert_int_equal(retry_after_ns, 10 * MS);
    assert_int_equal(ask_for(&y, "free", NORMAL, 500, &retry_after_ns), WEIR_SCHEDULE_COME);
    assert_int_equal(ask_for(&y, "slow", NORMAL, 2, &retry_after_ns), WEIR_SCHEDULE_COME);
    queue.tenant_default.rate.tokens = 4;
    configure_queue(&y, queue);
    assert_int_equal(ask_for(&y, "slow", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_TOO_FAST);
    assert_int_equal(retry_after_ns, 250 * MS);
    queue.tenant_default.rate.tokens = 0;
    configure_queue(&y, queue);
    assert_int_equal(ask_for(&y, "slow", NORMAL, 50, &retry_after_ns), WEIR_SCHEDULE_COME);
    close_yard(&y);
}

TEST(buckets_that_are_full_again_are_forgotten)
{
    struct command_loop y;
    open_yard(&y,
              QUEUE(.workers = 0, .jobs_max = 100000, .tenant_default = {.rate = PER_SECOND(2)}));
    y.unchecked = true;
    uint64_t retry_after_ns;
    uint64_t most_bytes = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        char tenant[16];
        snprintf(tenant, sizeof tenant, "t%u", (unsigned)i);
        assert_int_equal(ask_for(&y, tenant, NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_COME);
        pass(&y, 10 * MS);
        if (i == 1000) {
            most_bytes = y.memory.bytes;
        }
    }
    assert_true(y.memory.bytes < 2 * most_bytes);
    weir_schedule_validate(y.schedule);
    close_yard(&y);
}

TEST(tenants_beyond_the_most_share_one_bucket)
{
    struct command_loop y;
    struct weir_tenant_settings named = {.name = weir_slice_of("named"), .rate = PER_SECOND(3)};
    open_yard(&y, QUEUE(.workers = 0, .jobs_max = 1000000,
                        .tenant_default = {.rate = {.tokens = 5, .period_ns = DAY}},
                        .tenants = &named, .tenant_count = 1));
    y.unchecked = true;
    uint64_t retry_after_ns;
    for (uint32_t i = 0; i < 100001; i++) {
        char tenant[16];
        snprintf(tenant, sizeof tenant, "t%u", i);
        assert_int_equal(ask_for(&y, tenant, NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_COME);
    }
    uint64_t bytes = y.memory.bytes;
    int came = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        char tenant[16];
        snprintf(tenant, sizeof tenant, "x%u", i);
        came += ask_for(&y, tenant, NORMAL, 1, &retry_after_ns) == WEIR_SCHEDULE_COME;
    }
    assert_int_equal(came, 5);
    assert_int_equal(y.memory.bytes, bytes);
    assert_int_equal(ask_for(&y, "t7", NORMAL, 4, &retry_after_ns), WEIR_SCHEDULE_COME);
    assert_int_equal(ask_for(&y, "named", NORMAL, 3, &retry_after_ns), WEIR_SCHEDULE_COME);
    assert_int_equal(ask_for(&y, "named", NORMAL, 1, &retry_after_ns), WEIR_SCHEDULE_TOO_FAST);
    weir_schedule_validate(y.schedule);
    close_yard(&y);
}

/* ---- dropping ---- */

static uint64_t drop(struct command_loop *y)
{
    uint64_t number = UINT64_MAX;
    bool dropped = weir_schedule_drop(y->schedule, 0, y->now, &number);
    check_yard(y);
    return dropped ? number : UINT64_MAX;
}

TEST(the_oldest_is_dropped_wherever_it_waits)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 2, .jobs_max = 3, .full = WEIR_SCHEDULE_DROP_OLDEST));
    enter_job(&y, (struct weir_schedule_entry){.number = 1, .key = weir_slice_of("k")});
    enter_job(&y, (struct weir_schedule_entry){.number = 4, .key = weir_slice_of("k")});
    enter_job(&y, (struct weir_schedule_entry){.number = 2, .key = weir_slice_of("k")});
    enter_plain(&y, 9);
    enter_job(&y, (struct weir_schedule_entry){
                      .number = 3, .priority = HIGH, .next_ms = INT64_MAX, .dated = true});
    assert_int_equal(drop(&y), UINT64_MAX); /* as many as may be */
    assert_int_equal(come(&y, 100), WEIR_SCHEDULE_COME);
    for (uint64_t i = 5; i <= 7; i++) {
        enter_reserved(&y, i, NORMAL);
    }
    expect_place(&y, 1, WEIR_SCHEDULE_RUNNING); /* what runs is not dropped */
    assert_int_equal(drop(&y), 2);
    expect_place(&y, 2, WEIR_SCHEDULE_HELD);
    assert_int_equal(drop(&y), 3);
    assert_int_equal(drop(&y), 4);
    assert_int_equal(drop(&y), UINT64_MAX);
    forget_job(&y, 2);
    requeue_at(&y, 3, 0);
    assert_int_equal(drop(&y), 3);
    close_yard(&y);
}

TEST(a_priority_beyond_its_own_bound_pays_for_itself)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 0, .jobs_max = 10, .jobs_by_priority = {[LOW] = 1},
                        .full = WEIR_SCHEDULE_DROP_OLDEST));
    for (uint64_t i = 1; i <= 4; i++) {
        enter_job(&y, (struct weir_schedule_entry){.number = i, .priority = i < 3 ? HIGH : LOW});
    }
    assert_int_equal(drop(&y), 3);
    assert_int_equal(drop(&y), UINT64_MAX);
    close_yard(&y);
}

TEST(a_queue_may_begin_and_cease_to_drop)
{
    struct command_loop y;
    open_yard(&y, QUEUE(.workers = 1));
    for (uint64_t i = 1; i <= 40; i++) {
        enter_job(&y, (struct weir_schedule_entry){
                          .number = i, .priority = i % 3, .next_ms = i % 4 == 0 ? INT64_MAX : 0});
    }
    assert_int_equal(drop(&y), UINT64_MAX);
    configure_queue(&y, QUEUE(.workers = 1, .jobs_max = 36, .full = WEIR_SCHEDULE_DROP_OLDEST));
    assert_int_equal(drop(&y), 2);
    assert_int_equal(drop(&y), 3);
    configure_queue(&y, QUEUE(.workers = 1, .jobs_max = 3));
    assert_int_equal(drop(&y), UINT64_MAX);
    requeue_at(&y, 3, 0);
    configure_queue(&y, QUEUE(.workers = 1, .jobs_max = 3, .full = WEIR_SCHEDULE_DROP_OLDEST));
    for (uint64_t i = 3; i <= 37; i++) {
        assert_int_equal(drop(&y), i);
    }
    assert_int_equal(drop(&y), UINT64_MAX);
    close_yard(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_reserved_taken_and_given_back),
        cmocka_unit_test(jobs_that_are_delayed_or_parked_take_a_place_as_well),
        cmocka_unit_test(asks_of_one_submission_get_their_places_at_once),
        cmocka_unit_test(a_priority_may_have_a_bound_of_its_own),
        cmocka_unit_test(the_full_are_told_to_come_back_after_the_measured_drain_or_five_seconds),
        cmocka_unit_test(a_queue_that_is_not_configured_takes_nothing),
        cmocka_unit_test(a_tenant_that_submits_too_fast_is_told_when_it_may),
        cmocka_unit_test(whoever_is_refused_elsewhere_has_not_submitted),
        cmocka_unit_test(the_rate_of_submissions_does_not_pace_the_starts),
        cmocka_unit_test(who_finds_a_full_queue_does_not_pay),
        cmocka_unit_test(new_rates_hold_at_once_and_named_tenants_have_their_own),
        cmocka_unit_test(buckets_that_are_full_again_are_forgotten),
        cmocka_unit_test(tenants_beyond_the_most_share_one_bucket),
        cmocka_unit_test(the_oldest_is_dropped_wherever_it_waits),
        cmocka_unit_test(a_priority_beyond_its_own_bound_pays_for_itself),
        cmocka_unit_test(a_queue_may_begin_and_cease_to_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
