/* jobs.h - what the tests of the schedule share: a schedule with memory that counts, a clock that
 * the test moves, and short calls that validate everything afterwards. */
#ifndef WEIR_TESTS_JOBS_H
#define WEIR_TESTS_JOBS_H

#include "jobs/schedule.h"
#include "unit/helpers.h"

#define MS   UINT64_C(1000000)
#define BOOT 7

/* The wall clock at the start: some day in 2024. */
#define DAWN_MS INT64_C(1718000000000)

struct command_loop {
    struct memory memory;
    struct weir_schedule *schedule;
    struct weir_instant now;
    bool unchecked; /* too large to be validated after every step */
};

static inline void check_yard(const struct command_loop *y)
{
    if (!y->unchecked) {
        weir_schedule_validate(y->schedule);
    }
}

/* What is not said of a queue: its name is q, it takes a thousand jobs and has no lease. */
static inline struct weir_schedule_queue complete(struct weir_schedule_queue queue)
{
    if (queue.name.data == NULL) {
        queue.name = weir_slice_of("q");
    }
    queue.jobs_max = queue.jobs_max == 0 ? 1000 : queue.jobs_max;
    queue.per_key = queue.per_key == 0 ? 1 : queue.per_key;
    queue.lease_ns = queue.lease_ns == 0 ? WEIR_NEVER : queue.lease_ns;
    return queue;
}

#define QUEUE(...) complete((struct weir_schedule_queue){__VA_ARGS__})

static inline enum weir_status
try_configure(struct command_loop *y, const struct weir_schedule_queue *queues, uint32_t count)
{
    enum weir_status status = weir_schedule_configure(y->schedule, queues, count, y->now);
    check_yard(y);
    return status;
}

static inline void configure_queue(struct command_loop *y, struct weir_schedule_queue queue)
{
    assert_int_equal(try_configure(y, &queue, 1), WEIR_OK);
}

static inline void open_bare_yard(struct command_loop *y)
{
    *y = (struct command_loop){.now = {1000 * SECOND, DAWN_MS}};
    memory_init(&y->memory);
    struct weir_schedule_options options = {
        .allocator = &y->memory.allocator, .seed = {3, 4}, .boot = BOOT};
    assert_int_equal(weir_schedule_create(&options, &y->schedule), WEIR_OK);
}

static inline void open_yard(struct command_loop *y, struct weir_schedule_queue queue)
{
    open_bare_yard(y);
    configure_queue(y, queue);
}

static inline void close_yard(struct command_loop *y)
{
    weir_schedule_destroy(y->schedule);
    expect_no_memory_out(&y->memory);
}

/* Both clocks. */
static inline void pass(struct command_loop *y, uint64_t ns)
{
    y->now.now_ns += ns;
    y->now.wall_ms += (int64_t)(ns / MS);
}

static inline void wake_yard(struct command_loop *y)
{
    weir_schedule_wake(y->schedule, y->now);
    check_yard(y);
}

static inline enum weir_status try_enter(struct command_loop *y, struct weir_schedule_entry entry)
{
    enum weir_status status = weir_schedule_enter(y->schedule, &entry, y->now);
    check_yard(y);
    return status;
}

static inline void enter_job(struct command_loop *y, struct weir_schedule_entry entry)
{
    assert_int_equal(try_enter(y, entry), WEIR_OK);
}

/* A job of normal priority, at once. */
static inline void enter_of(struct command_loop *y, uint64_t number, const char *tenant)
{
    enter_job(y, (struct weir_schedule_entry){.number = number, .tenant = weir_slice_of(tenant)});
}

static inline void enter_plain(struct command_loop *y, uint64_t number)
{
    enter_of(y, number, "");
}

/* The next start, which must be there, with its epoch. */
static inline uint64_t next_start(struct command_loop *y, struct weir_epoch *epoch)
{
    struct weir_schedule_news news = weir_schedule_next(y->schedule);
    check_yard(y);
    assert_int_equal(news.what, WEIR_SCHEDULE_START);
    assert_int_equal(news.epoch.boot, BOOT);
    *epoch = news.epoch;
    return news.number;
}

static inline void expect_nothing(struct command_loop *y)
{
    assert_int_equal(weir_schedule_next(y->schedule).what, WEIR_SCHEDULE_NOTHING);
}

static inline struct weir_epoch expect_start(struct command_loop *y, uint64_t number)
{
    struct weir_epoch epoch;
    assert_int_equal(next_start(y, &epoch), number);
    return epoch;
}

static inline enum weir_status try_end(struct command_loop *y, uint64_t number,
                                       struct weir_epoch epoch)
{
    enum weir_status status = weir_schedule_end(y->schedule, number, epoch, y->now);
    check_yard(y);
    return status;
}

/* A running job has ended and is over. */
static inline void finish(struct command_loop *y, uint64_t number, struct weir_epoch epoch)
{
    assert_int_equal(try_end(y, number, epoch), WEIR_OK);
    weir_schedule_forget(y->schedule, number);
    check_yard(y);
}

static inline enum weir_status hold_job(struct command_loop *y, uint64_t number)
{
    enum weir_status status = weir_schedule_hold(y->schedule, number, y->now);
    check_yard(y);
    return status;
}

static inline void requeue_at(struct command_loop *y, uint64_t number, int64_t next_ms)
{
    weir_schedule_requeue(y->schedule, number, next_ms, y->now);
    check_yard(y);
}

static inline void forget_job(struct command_loop *y, uint64_t number)
{
    weir_schedule_forget(y->schedule, number);
    check_yard(y);
}

static inline struct weir_schedule_look look_at(const struct command_loop *y, uint64_t number)
{
    return weir_schedule_look(y->schedule, number, y->now);
}

#define expect_place(y, number, expected) assert_int_equal(look_at(y, number).place, expected)

static inline struct weir_schedule_stats stats_at(const struct command_loop *y, uint32_t queue)
{
    struct weir_slice name;
    struct weir_schedule_stats stats;
    assert_true(weir_schedule_get_stats(y->schedule, queue, &name, &stats));
    return stats;
}

/* Lets one worker's jobs run for `ms` each, in the order in which they start, and writes down
 * their numbers. */
static inline void run_all(struct command_loop *y, uint64_t ms, uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct weir_epoch epoch;
        numbers[i] = next_start(y, &epoch);
        pass(y, ms * MS);
        finish(y, numbers[i], epoch);
    }
}

#endif
