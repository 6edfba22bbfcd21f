/* Memory that fails, at every single allocation in turn: nothing leaks, and no job is lost that was
 * taken in. */
#include "unit/jobs.h"

#define JOBS_MAX 200

/* A run of everything that needs memory, and what is known of its jobs. */
struct run {
    struct command_loop y;
    bool in[JOBS_MAX]; /* it was taken in, and is not over */
    struct weir_epoch epochs[JOBS_MAX];
    bool runs[JOBS_MAX];
};

static void hear(struct run *r)
{
    struct weir_schedule_news news;
    while ((news = weir_schedule_next(r->y.schedule)).what != WEIR_SCHEDULE_NOTHING) {
        assert_true(r->in[news.number]);
        if (news.what == WEIR_SCHEDULE_START) {
            assert_false(r->runs[news.number]);
            r->runs[news.number] = true;
            r->epochs[news.number] = news.epoch;
        } else {
            r->runs[news.number] = false;
            weir_schedule_requeue(r->y.schedule, news.number, 0, r->y.now);
        }
        weir_schedule_validate(r->y.schedule);
    }
}

static void take_in(struct run *r, struct weir_schedule_entry entry)
{
    enum weir_status status = try_enter(&r->y, entry);
    assert_true(status == WEIR_OK || status == WEIR_NO_MEMORY);
    r->in[entry.number] = status == WEIR_OK;
    enum weir_schedule_place place = look_at(&r->y, entry.number).place;
    assert_int_equal(place != WEIR_SCHEDULE_NOWHERE, r->in[entry.number]);
    hear(r);
}

static void end_one(struct run *r, bool again)
{
    for (uint64_t i = 0; i < JOBS_MAX; i++) {
        if (r->runs[i]) {
            r->runs[i] = false;
            assert_int_equal(try_end(&r->y, i, r->epochs[i]), WEIR_OK);
            if (again) {
                requeue_at(&r->y, i, i % 2 == 0 ? 0 : r->y.now.wall_ms + 10);
            } else {
                forget_job(&r->y, i);
                r->in[i] = false;
            }
            hear(r);
            return;
        }
    }
}

static void hold_and_let_go(struct run *r, uint64_t number)
{
    if (hold_job(&r->y, number) == WEIR_OK) {
        hear(r);
        requeue_at(&r->y, number, 0);
        hear(r);
    }
}

static void try_settings(struct run *r, uint32_t workers, enum weir_schedule_full full)
{
    struct weir_tenant_settings tenants[] = {
        {.name = weir_slice_of("a"), .weight = 2, .rate = {.tokens = 9, .period_ns = SECOND}},
        {.name = weir_slice_of("b"), .limit = 1}};
    struct weir_schedule_queue queues[] = {
        QUEUE(.workers = workers, .full = full, .tenants = tenants, .tenant_count = 2,
              .tenant_default = {.rate = {.tokens = 50, .period_ns = SECOND}}, .lease_ns = MINUTE),
        QUEUE(.workers = 2, .name = {"r", 1})};
    uint32_t before = weir_schedule_find_queue(r->y.schedule, weir_slice_of("q"));
    struct weir_schedule_stats old = {0};
    if (before != UINT32_MAX) {
        old = stats_at(&r->y, before);
    }
    enum weir_status status = try_configure(&r->y, queues, 2);
    assert_true(status == WEIR_OK || status == WEIR_NO_MEMORY);
    uint32_t after = weir_schedule_find_queue(r->y.schedule, weir_slice_of("q"));
    if (status == WEIR_NO_MEMORY) {
        assert_int_equal(after, before);
        assert_true(before == UINT32_MAX || stats_at(&r->y, before).workers == old.workers);
        r->y.memory.fail_at = 0; /* the rest needs queues */
        assert_int_equal(try_configure(&r->y, queues, 2), WEIR_OK);
    } else {
        assert_int_equal(stats_at(&r->y, after).workers, workers);
    }
    hear(r);
}

static void ask_as(struct run *r, const char *tenant)
{
    struct weir_schedule_ask ask = {.tenant = weir_slice_of(tenant), .count = 1};
    uint64_t retry_after_ns;
    enum weir_schedule_answer answer =
        weir_schedule_ask(r->y.schedule, &ask, r->y.now, &retry_after_ns);
    weir_schedule_validate(r->y.schedule);
    if (answer == WEIR_SCHEDULE_COME) {
        weir_schedule_withdraw(r->y.schedule, &ask);
    }
}

static void work(struct run *r)
{
    static const char *const names[] = {"", "a", "b", "c", "d", "e"};
    try_settings(r, 1, WEIR_SCHEDULE_REJECT);
    for (uint64_t i = 0; i < 120; i++) {
        struct weir_schedule_entry entry = {.number = i,
                                            .queue = i % 5 == 0,
                                            .tenant = weir_slice_of(names[i % 6]),
                                            .key = weir_slice_of(i % 3 == 0 ? names[i % 4] : ""),
                                            .priority = (enum weir_priority)(i % 7 % 3),
                                            .created_ms = r->y.now.wall_ms};
        if (i % 4 == 1) {
            entry.next_ms = r->y.now.wall_ms + (int64_t)(i % 8) * 10;
            entry.dated = i % 8 == 1;
        }
        ask_as(r, names[i % 6]);
        take_in(r, entry);
        if (i % 3 == 2) {
            end_one(r, i % 2 == 0);
        }
        if (i % 10 == 7) {
            hold_and_let_go(r, i - 2);
        }
        pass(&r->y, 5 * MS);
        wake_yard(&r->y);
        hear(r);
        if (i == 60) {
            try_settings(r, 3, WEIR_SCHEDULE_DROP_OLDEST);
        }
        if (i == 90) {
            try_settings(r, 2, WEIR_SCHEDULE_REJECT);
        }
    }
}

/* With memory again, everybody who was taken in comes to an end. */
static void work_off(struct run *r)
{
    r->y.memory.fail_at = 0;
    for (int turn = 0; turn < 1000; turn++) {
        pass(&r->y, 100 * MS);
        wake_yard(&r->y);
        hear(r);
        end_one(r, false);
    }
    for (uint64_t i = 0; i < JOBS_MAX; i++) {
        assert_false(r->in[i]);
    }
    assert_int_equal(stats_at(&r->y, 0).queued + stats_at(&r->y, 1).queued, 0);
    assert_int_equal(stats_at(&r->y, 0).running + stats_at(&r->y, 1).running, 0);
}

/* How many allocations failed. */
static uint64_t fail_from(uint64_t fail_at, bool fail_on)
{
    struct run *r = calloc(1, sizeof *r);
    assert_non_null(r);
    open_bare_yard(&r->y);
    r->y.memory.fail_at = r->y.memory.calls + fail_at;
    r->y.memory.fail_on = fail_on;
    work(r);
    uint64_t failed = r->y.memory.failed;
    work_off(r);
    close_yard(&r->y);
    free(r);
    return failed;
}

TEST(each_allocation_may_fail_and_no_job_is_lost)
{
    uint64_t number = 1;
    while (fail_from(number, false) > 0) {
        number++;
        assert_true(number < 5000);
    }
    assert_true(number > 50);
}

TEST(memory_may_run_out_at_any_point_and_come_back_and_no_job_is_lost)
{
    uint64_t number = 1;
    while (fail_from(number, true) > 0) {
        number++;
        assert_true(number < 5000);
    }
    assert_true(number > 50);
}

TEST(a_schedule_that_cannot_be_made_leaves_nothing)
{
    struct memory memory;
    memory_init(&memory);
    memory.fail_at = 1;
    struct weir_schedule *schedule = NULL;
    struct weir_schedule_options options = {.allocator = &memory.allocator};
    assert_int_equal(weir_schedule_create(&options, &schedule), WEIR_NO_MEMORY);
    assert_null(schedule);
    expect_no_memory_out(&memory);
    options.allocator = NULL;
    assert_int_equal(weir_schedule_create(&options, &schedule), WEIR_OK);
    weir_schedule_destroy(schedule);
}

TEST(settings_that_find_no_memory_are_followed_as_soon_as_there_is_some)
{
    struct weir_tenant_settings bound = {.name = weir_slice_of("a"), .limit = 1};
    int late = 0;
    for (uint64_t fail_at = 1; fail_at < 100; fail_at++) {
        struct command_loop y;
        open_yard(&y, QUEUE(.workers = 1));
        for (uint64_t i = 0; i < 6; i++) {
            enter_of(&y, i, "a");
        }
        struct weir_schedule_queue queue =
            QUEUE(.workers = 3, .tenants = &bound, .tenant_count = 1);
        y.memory.fail_at = y.memory.calls + fail_at;
        y.memory.fail_on = true;
        enum weir_status status = try_configure(&y, &queue, 1);
        y.memory.fail_at = 0;
        bool stale = status == WEIR_OK && y.memory.failed > 0;
        assert_int_equal(stats_at(&y, 0).workers, status == WEIR_OK ? 3 : 1);
        if (stale) { /* the workers are there, the tenant's limit is not yet */
            late++;
            assert_int_equal(stats_at(&y, 0).running, 3);
            assert_int_equal(weir_schedule_due(y.schedule), y.now.now_ns + 100 * MS);
            pass(&y, 100 * MS);
            wake_yard(&y);
            assert_int_equal(weir_schedule_due(y.schedule), WEIR_NEVER);
            struct weir_epoch epochs[3];
            for (uint64_t i = 0; i < 3; i++) {
                epochs[i] = expect_start(&y, i);
            }
            for (uint64_t i = 0; i < 2; i++) {
                finish(&y, i, epochs[i]);
                expect_nothing(&y);
            }
        }
        close_yard(&y);
    }
    assert_int_equal(late, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_may_fail_and_no_job_is_lost),
        cmocka_unit_test(memory_may_run_out_at_any_point_and_come_back_and_no_job_is_lost),
        cmocka_unit_test(a_schedule_that_cannot_be_made_leaves_nothing),
        cmocka_unit_test(settings_that_find_no_memory_are_followed_as_soon_as_there_is_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
