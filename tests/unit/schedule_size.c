/* What a job costs: memory, and work that does not depend on how many others there are. Work is
 * counted in time, of one run against another, and generously: what must not be is a line that is
 * walked over. */
#define _POSIX_C_SOURCE 200809L

#include "unit/jobs.h"

#include <time.h>

/* Besides its tenant and its key. */
#define BYTES_MAX 320

static const struct weir_schedule_queue roomy = {
    .name = {"q", 1}, .workers = 1, .jobs_max = 2000000, .per_key = 1, .lease_ns = WEIR_NEVER};

static void open_roomy(struct command_loop *y, enum weir_schedule_full full)
{
    struct weir_schedule_queue queue = roomy;
    queue.full = full;
    open_yard(y, queue);
    y->unchecked = true;
}

/* ---- memory ---- */

static void expect_small(struct command_loop *y, uint64_t count, struct weir_schedule_entry entry)
{
    uint64_t before = y->memory.bytes;
    for (uint64_t i = 0; i < count; i++) {
        entry.number = i;
        enter_job(y, entry);
    }
    assert_in_range((y->memory.bytes - before) / count, 100, BYTES_MAX);
    y->unchecked = false;
    check_yard(y);
    close_yard(y);
}

TEST(a_queued_job_takes_at_most_320_bytes)
{
    struct command_loop y;
    /* Tables grow by doubling: just before and just after are the best and the worst. */
    const uint64_t counts[] = {100000, 131072, 131073, 200000};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        open_roomy(&y, WEIR_SCHEDULE_REJECT);
        expect_small(&y, counts[i], (struct weir_schedule_entry){.tenant = weir_slice_of("t")});
    }
}

TEST(a_delayed_job_takes_at_most_320_bytes)
{
    struct command_loop y;
    struct weir_schedule_entry entry = {.created_ms = DAWN_MS, .next_ms = DAWN_MS + 1000};
    open_roomy(&y, WEIR_SCHEDULE_REJECT);
    expect_small(&y, 100000, entry);
    open_roomy(&y, WEIR_SCHEDULE_REJECT);
    entry.dated = true;
    expect_small(&y, 100000, entry);
}

TEST(a_job_in_a_queue_that_drops_its_oldest_takes_at_most_320_bytes)
{
    struct command_loop y;
    open_roomy(&y, WEIR_SCHEDULE_DROP_OLDEST);
    expect_small(&y, 100000, (struct weir_schedule_entry){0});
}

TEST(a_parked_job_takes_at_most_320_bytes)
{
    struct command_loop y;
    open_roomy(&y, WEIR_SCHEDULE_REJECT);
    expect_small(&y, 100000, (struct weir_schedule_entry){.key = weir_slice_of("k")});
}

TEST(memory_comes_back_when_jobs_have_gone)
{
    struct command_loop y;
    open_roomy(&y, WEIR_SCHEDULE_REJECT);
    uint64_t peak = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        enter_plain(&y, i);
    }
    peak = y.memory.bytes;
    for (uint64_t i = 0; i < 100000; i++) {
        struct weir_epoch epoch = expect_start(&y, i);
        finish(&y, i, epoch);
    }
    assert_true(y.memory.bytes < peak / 4);
    close_yard(&y);
}

/* ---- work ---- */

static uint64_t cpu_ns(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* Everything that is done to jobs, a thousand times: numbers from `base` on. */
static void do_thousand(struct command_loop *y, uint64_t base)
{
    struct weir_epoch epoch;
    uint64_t dropped;
    for (uint64_t i = base; i < base + 1000; i++) {
        enter_of(y, i, "busy");
        enter_job(y, (struct weir_schedule_entry){.number = i + 1000,
                                                  .next_ms = y->now.wall_ms + 1000000});
        (void)look_at(y, i);
        if (hold_job(y, i) == WEIR_OK) { /* unless it has started */
            requeue_at(y, i, 0);
        }
        struct weir_schedule_news news = weir_schedule_next(y->schedule);
        if (news.what == WEIR_SCHEDULE_START) {
            epoch = news.epoch;
            pass(y, MS);
            finish(y, news.number, epoch);
        }
        assert_int_equal(hold_job(y, i + 1000), WEIR_OK);
        forget_job(y, i + 1000);
        assert_false(weir_schedule_drop(y->schedule, 0, y->now, &dropped));
        wake_yard(y);
    }
}

/* The least time of a few rounds over a queue with so many jobs of so many tenants. */
static uint64_t measure(uint64_t count, uint32_t tenants, bool delayed)
{
    struct command_loop y;
    open_roomy(&y, WEIR_SCHEDULE_DROP_OLDEST);
    for (uint64_t i = 0; i < count; i++) {
        char tenant[16];
        snprintf(tenant, sizeof tenant, "t%u", (unsigned)(i % tenants));
        enter_job(&y, (struct weir_schedule_entry){
                          .number = i,
                          .tenant = weir_slice_of(tenant),
                          .next_ms = delayed ? DAWN_MS + 100000000 + (int64_t)(i % 977) : 0});
    }
    uint64_t least_ns = UINT64_MAX;
    for (uint64_t round = 0; round < 5; round++) {
        uint64_t start_ns = cpu_ns();
        do_thousand(&y, 10000000 + round * 10000);
        uint64_t took_ns = cpu_ns() - start_ns;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    close_yard(&y);
    return least_ns;
}

TEST(work_does_not_grow_with_the_number_of_jobs_tenants_or_delays)
{
    /* Walking over a line of 200,000 would take hundreds of times as long; caches that are too
     * small for it take a few times. */
    uint64_t few_ns = measure(1000, 1, false);
    assert_true(measure(200000, 1, false) < 20 * few_ns);
    assert_true(measure(200000, 100000, false) < 20 * few_ns);
    assert_true(measure(200000, 1, true) < 20 * few_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queued_job_takes_at_most_320_bytes),
        cmocka_unit_test(a_delayed_job_takes_at_most_320_bytes),
        cmocka_unit_test(a_job_in_a_queue_that_drops_its_oldest_takes_at_most_320_bytes),
        cmocka_unit_test(a_parked_job_takes_at_most_320_bytes),
        cmocka_unit_test(memory_comes_back_when_jobs_have_gone),
        cmocka_unit_test(work_does_not_grow_with_the_number_of_jobs_tenants_or_delays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
