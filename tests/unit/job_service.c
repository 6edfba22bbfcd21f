/* The job service: the life of a job from the door to its end, and each way in which it can go
 * wrong. The commands are real processes. */
#define _GNU_SOURCE
#include "unit/job_service_helpers.h"

#include <sys/resource.h>

/* ---- going well ---- */

TEST(a_job_runs_and_its_result_is_on_record)
{
    open_service("  q: { run: [/bin/cat] }\n");
    uint64_t number = submit((struct order){.id = "a", .tenant = "acme", .body = "hello"});
    await_end(number);
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_DONE);
    assert_int_equal(row->attempts, 1);
    assert_int_equal(row->kills, 0);
    assert_int_equal(row->epoch.boot, 1);
    expect_text(row->result.bytes, "hello");
    struct weir_job_service_counts counts;
    weir_job_service_count(office.service, &counts);
    assert_int_equal(counts.all.accepted, 1);
    assert_int_equal(counts.all.ended[WEIR_JOB_DONE], 1);
    assert_null(counts.error);
    assert_true(counts.store.working);
    assert_false(
        weir_job_service_watch(office.service, &(struct weir_job_service_watch){.number = number}));
}

TEST(the_same_id_again_is_the_same_job_and_takes_no_place)
{
    open_service("  q: { line: { max: 2 } }\n");
    struct weir_acceptance acceptance;
    uint64_t number = submit((struct order){.id = "a"});
    for (int i = 0; i < 5; i++) {
        assert_int_equal(submit_in(&office.loop, (struct order){.id = "a"}, &acceptance),
                         WEIR_JOB_SERVICE_DONE);
        assert_false(acceptance.fresh);
        assert_int_equal(acceptance.number, number);
    }
    assert_int_equal(submit_in(&office.loop, (struct order){.id = "a", .body = "x"}, &acceptance),
                     WEIR_JOB_SERVICE_CONFLICT);
    assert_int_equal(stats_of_queue("q").queued, 1);
    assert_int_equal(stats_of_queue("q").reserved, 0);
}

TEST(a_batch_is_accepted_as_a_whole)
{
    open_service("  q: { run: [/bin/cat], workers: 8, line: { max: 1000 } }\n"
                 "  r: { line: { max: 1000 } }\n");
    struct weir_job_order orders[300];
    struct weir_acceptance acceptances[300];
    char ids[300][16];
    struct asked call;
    for (uint32_t i = 0; i < 300; i++) {
        snprintf(ids[i], sizeof ids[i], "job-%u", i);
        orders[i] = order_of((struct order){.id = ids[i], .queue = i % 10 == 0 ? "q" : "r"});
        struct weir_job_admission door = {.ask = ask_of(&orders[i])};
        assert_true(weir_job_service_ask(office.service, &door));
        assert_int_equal(door.answer, WEIR_SCHEDULE_COME);
    }
    prepare(&call, &office.loop);
    call.request.accept = (struct weir_store_accept){
        .orders = orders, .order_count = 300, .acceptances = acceptances};
    weir_job_service_submit(office.service, &call.request);
    wait_until(&office.loop, &call.told);
    assert_int_equal(call.request.end, WEIR_JOB_SERVICE_DONE);
    free(call.request.op.memory);
    assert_int_equal(stats_of_queue("r").queued, 270);
    for (uint32_t i = 0; i < 300; i += 10) {
        await_end(acceptances[i].number);
    }
    assert_int_equal(stats_of_queue("q").queued, 0);
    assert_int_equal(stats_of_queue("q").reserved, 0);
}

TEST(a_delayed_job_starts_when_it_is_due)
{
    open_service("  q: { run: [/bin/true] }\n");
    int64_t before_ms = wall_ms();
    uint64_t number = submit((struct order){.id = "a", .delay_ms = 120});
    assert_int_equal(stats_of_queue("q").delayed, 1);
    await_end(number);
    assert_true(wall_ms() - before_ms >= 119);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
}

TEST(progress_is_told_while_a_job_runs)
{
    open_service(
        "  q: " SH("echo weir-progress: 0.4 half way >&2; read line < fifo || sleep 60") "}\n");
    uint64_t number = submit((struct order){.id = "a"});
    struct weir_job_service_live live;
    do {
        weir_job_service_live(office.service, number, &live);
    } while (live.progress < 0);
    assert_true(live.progress > 0.39 && live.progress < 0.41);
    expect_text((struct weir_slice){live.progress_text, live.progress_bytes}, "half way");
    assert_int_equal(live.look.place, WEIR_SCHEDULE_RUNNING);
    assert_int_equal(cancel_job("a"), WEIR_JOB_SERVICE_DONE);
    await_end(number);
    weir_job_service_live(office.service, number, &live);
    assert_int_equal(live.look.place, WEIR_SCHEDULE_NOWHERE);
}

/* ---- failing ---- */

TEST(a_job_that_fails_is_tried_again_and_then_is_a_dead_letter)
{
    open_service("  q: " SH("echo oh dear >&2; exit 3") "}\n");
    await_end(submit((struct order){.id = "a", .attempts = 3}));
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_FAILED);
    assert_int_equal(row->attempts, 3);
    assert_int_equal(row->kills, 0);
    expect_part(row->error, "3");
    expect_part(row->log, "oh dear");
    struct weir_job_service_counts counts;
    weir_job_service_count(office.service, &counts);
    assert_int_equal(counts.all.ended[WEIR_JOB_QUEUED], 2);
    assert_int_equal(counts.all.ended[WEIR_JOB_FAILED], 1);
    assert_int_equal(counts.all.dead, 1);
}

TEST(a_retry_waits_for_its_backoff)
{
    open_service("  q: { run: [/bin/false], backoff: { first: 400ms, max: 400ms } }\n");
    int64_t before_ms = wall_ms();
    uint64_t number = submit((struct order){.id = "a", .attempts = 2});
    await(stats_of_queue("q").delayed == 1);
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_QUEUED);
    assert_true(row->next_ms >= before_ms + 200); /* at least half of it */
    await_end(number);
    assert_true(wall_ms() >= before_ms + 200);
    assert_int_equal(look_at("a")->attempts, 2);
}

TEST(a_job_that_kills_its_worker_three_times_is_quarantined)
{
    open_service("  q: " SH("kill -9 $$") "}\n");
    await_end(submit((struct order){.id = "a", .attempts = 100}));
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_FAILED);
    assert_int_equal(row->attempts, 3);
    assert_int_equal(row->kills, 3);
    expect_part(row->error, "quarantined");
}

TEST(a_damaged_body_is_not_run)
{
    open_service("  q: { run: [/bin/cat] }\n");
    fake.damage = true;
    await_end(submit((struct order){.id = "a", .body = "hello"}));
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_FAILED);
    assert_int_equal(row->attempts, 1);
    expect_text(row->error, "its body is damaged on disk");
}

TEST(what_cannot_be_begun_waits_and_spends_no_attempt)
{
    open_service("  q: { run: [/bin/cat], backoff: { first: 1ms, max: 1ms } }\n");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    uint64_t number = submit((struct order){.id = "a", .body = "hello", .attempts = 1});
    const struct weir_job_row *row;
    do { /* at least twice */
        row = look_at("a");
    } while (row->state != WEIR_JOB_QUEUED || row->epoch.counter < 2);
    assert_int_equal(row->attempts, 0);
    assert_true(row->error.bytes > 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    await_end(number);
    row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_DONE);
    assert_int_equal(row->attempts, 1);
    expect_text(row->result.bytes, "hello");
}

TEST(a_lease_that_runs_out_ends_the_attempt)
{
    open_service(
        "  q: { run: [/bin/sleep, \"60\"], lease: 1s, grace: 10ms, backoff: { first: 1ms } }\n");
    pthread_mutex_lock(&office.service->lock);
    office.service->renew_every_ns =
        1000 * SECOND; /* the command loop is busy with something else */
    pthread_mutex_unlock(&office.service->lock);
    await_end(submit((struct order){.id = "a", .attempts = 1}));
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_FAILED);
    assert_int_equal(row->kills, 1);
    expect_part(row->error, "lease");
}

static void *allocate_nothing(void *context, size_t bytes)
{
    (void)context, (void)bytes;
    return NULL;
}

static const struct weir_allocator no_memory = {.allocate = allocate_nothing};

/* Whether the command loop can make timers, without which no command begins. Nothing runs there
 * now. */
static void have_timers(bool some)
{
    struct weir_loop *loop = &office.service->command_loop.loop;
    loop->allocator = some ? &weir_allocator_libc : &no_memory;
    loop->timer_count = some ? loop->timer_count - 1000 : loop->timer_count + 1000;
}

/* Waits until the job's run is as it says. */
static void await_run(uint64_t number, bool (*is_so)(const struct weir_run *run))
{
    for (bool found = false; !found; usleep(1000)) {
        pthread_mutex_lock(&office.service->lock);
        const struct weir_run *run = weir_job_service_find_run(office.service, number);
        found = run != NULL && is_so(run);
        pthread_mutex_unlock(&office.service->lock);
    }
}

static bool rests(const struct weir_run *run)
{
    return !weir_list_empty(&run->service->stuck);
}

static bool has_lapsed(const struct weir_run *run)
{
    struct weir_instant now = {.now_ns = weir_clock_ns()};
    return weir_schedule_look(run->service->schedule, run->number, now).place == WEIR_SCHEDULE_HELD;
}

TEST(a_lease_that_runs_out_before_anything_is_begun_costs_nothing)
{
    open_service("  q: { run: [/bin/cat], lease: 1s }\n");
    have_timers(false);
    pthread_mutex_lock(&office.service->lock);
    office.service->renew_every_ns =
        1000 * SECOND; /* the command loop is busy with something else */
    pthread_mutex_unlock(&office.service->lock);
    uint64_t number = submit((struct order){.id = "a", .body = "hello", .attempts = 1});
    await_run(number, rests);
    pthread_mutex_lock(&office.service->lock);
    office.service->retry_ns = WEIR_NEVER; /* the same */
    pthread_mutex_unlock(&office.service->lock);
    await_run(number, has_lapsed);
    have_timers(true);
    struct weir_instant now = weir_job_service_lock(office.service);
    office.service->retry_ns = now.now_ns;
    weir_job_service_unlock(office.service, now);
    await_end(number);
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_DONE);
    assert_int_equal(row->attempts, 1);
    assert_int_equal(row->kills, 0);
}

TEST(a_lease_is_renewed_while_a_job_runs)
{
    open_service("  q: { run: [/bin/sleep, \"2.2\"], lease: 1s }\n");
    await_end(submit((struct order){.id = "a", .attempts = 1}));
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
}

/* ---- cancelling ---- */

TEST(a_job_in_line_is_cancelled)
{
    open_service("  q: { }\n");
    uint64_t number = submit((struct order){.id = "a"});
    struct watched watched = {
        .watch = {.on_done = {.arrive = on_watch}, .loop = &office.loop, .number = number}};
    assert_true(weir_job_service_watch(office.service, &watched.watch));
    assert_int_equal(cancel_job("a"), WEIR_JOB_SERVICE_DONE);
    wait_until(&office.loop, &watched.told);
    assert_int_equal(look_at("a")->state, WEIR_JOB_CANCELLED);
    assert_int_equal(cancel_job("a"), WEIR_JOB_SERVICE_STALE);
    assert_int_equal(cancel_job("b"), WEIR_JOB_SERVICE_UNKNOWN);
    assert_int_equal(stats_of_queue("q").queued, 0);
}

TEST(a_running_job_is_cancelled)
{
    open_service("  q: { run: [/bin/sleep, \"60\"] }\n");
    uint64_t number = submit((struct order){.id = "a"});
    await(look_at("a")->state == WEIR_JOB_RUNNING);
    assert_int_equal(cancel_job("a"), WEIR_JOB_SERVICE_DONE);
    await_end(number);
    assert_int_equal(look_at("a")->state, WEIR_JOB_CANCELLED);
    await(stats_of_queue("q").running == 0);
}

TEST(a_job_whose_turn_has_come_while_nothing_may_start_is_cancelled)
{
    open_service("  q: { run: [/bin/cat] }\n");
    char error[100];
    assert_true(
        weir_job_service_configure(office.service, &office.snapshots[0], error, sizeof error));
    uint64_t number = submit((struct order){.id = "a"});
    assert_int_equal(stats_of_queue("q").running, 1);
    assert_int_equal(look_at("a")->state, WEIR_JOB_QUEUED);
    assert_int_equal(cancel_job("a"), WEIR_JOB_SERVICE_DONE);
    await_end(number);
    weir_job_service_resume(office.service);
    assert_int_equal(look_at("a")->state, WEIR_JOB_CANCELLED);
    assert_int_equal(look_at("a")->attempts, 0);
    assert_int_equal(stats_of_queue("q").running, 0);
}

/* ---- a disk that does not work ---- */

TEST(while_the_disk_fails_nothing_is_accepted)
{
    open_service("  q: { run: [/bin/cat] }\n");
    struct weir_acceptance acceptance;
    fake_fail(FAIL(ACCEPT));
    assert_int_equal(submit_in(&office.loop, (struct order){.id = "a"}, &acceptance),
                     WEIR_JOB_SERVICE_FAILED);
    assert_int_equal(stats_of_queue("q").reserved, 0);
    fake_fail(0);
    await_end(submit((struct order){.id = "a"}));
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
}

TEST(while_the_disk_fails_nothing_is_started_and_then_all_is)
{
    open_service("  q: { run: [/bin/cat], workers: 2 }\n");
    char ids[10][4];
    uint64_t numbers[10];
    fake_fail(FAIL(TAKE));
    for (int i = 0; i < 10; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", i);
        numbers[i] = submit((struct order){.id = ids[i]});
    }
    await(fake_failures(WEIR_STORE_TAKE) >= 4);
    assert_true(fake_failures(WEIR_STORE_TAKE) < 20); /* only those whose turn it is are tried */
    assert_int_equal(look_at("0")->state, WEIR_JOB_QUEUED);
    fake_fail(0);
    for (int i = 0; i < 10; i++) {
        await_end(numbers[i]);
        assert_int_equal(look_at(ids[i])->attempts, 1);
    }
}

TEST(what_ends_while_the_disk_fails_is_recorded_later)
{
    open_service("  q: { run: [/bin/true] }\n");
    fake_fail(FAIL(SETTLE));
    uint64_t number = submit((struct order){.id = "a"});
    await(fake_failures(WEIR_STORE_SETTLE) >= 2);
    assert_int_equal(stats_of_queue("q").running, 0); /* its worker is free all the same */
    assert_int_equal(stats_of_queue("q").held, 1);
    assert_int_equal(look_at("a")->state, WEIR_JOB_RUNNING);
    fake_fail(0);
    await_end(number);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
    assert_int_equal(look_at("a")->attempts, 1);
}

TEST(a_cancellation_that_cannot_be_recorded_says_so)
{
    open_service("  q: { }\n");
    uint64_t number = submit((struct order){.id = "a"});
    fake_fail(FAIL(SETTLE));
    assert_int_equal(cancel_job("a"), WEIR_JOB_SERVICE_FAILED);
    fake_fail(0);
    await_end(number); /* it is done as soon as it can be */
    assert_int_equal(look_at("a")->state, WEIR_JOB_CANCELLED);
}

TEST(an_end_that_does_not_count_is_forgotten_and_counted)
{
    open_service("  q: { run: [/bin/true] }\n");
    fake.stale = FAIL(SETTLE);
    uint64_t number = submit((struct order){.id = "a"});
    await_end(number);
    struct weir_job_service_counts counts;
    weir_job_service_count(office.service, &counts);
    assert_int_equal(counts.stale, 1);
    assert_int_equal(counts.all.ended[WEIR_JOB_DONE], 0);
    struct weir_job_service_live live;
    weir_job_service_live(office.service, number, &live);
    assert_int_equal(live.look.place, WEIR_SCHEDULE_NOWHERE);
}

TEST(a_turn_of_a_job_that_is_not_queued_is_forgotten_and_told)
{
    open_service("  q: { run: [/bin/true] }\n");
    char error[100];
    assert_true(
        weir_job_service_configure(office.service, &office.snapshots[0], error, sizeof error));
    uint64_t number = submit((struct order){.id = "a"});
    struct watched watched = {
        .watch = {.on_done = {.arrive = on_watch}, .loop = &office.loop, .number = number}};
    assert_true(weir_job_service_watch(office.service, &watched.watch));
    fake.stale = FAIL(TAKE);
    weir_job_service_resume(office.service);
    wait_until(&office.loop, &watched.told);
    assert_int_equal(stats_of_queue("q").running, 0);
    assert_int_equal(stats_of_queue("q").held, 0);
}

TEST(what_cannot_be_recorded_at_the_end_is_left_for_the_next_start)
{
    open_service("  q: { run: [/bin/true] }\n");
    fake_fail(FAIL(SETTLE));
    submit((struct order){.id = "a"});
    await(fake_failures(WEIR_STORE_SETTLE) >= 1);
    close_service();
    assert_int_equal(fake.rows[0].row.state, WEIR_JOB_RUNNING);
}

/* ---- many at once ---- */

#define THREADS         4
#define JOBS_PER_THREAD 40

struct crowd {
    pthread_t thread;
    struct weir_loop loop;
    int index;
    int ends[WEIR_JOB_STATE_COUNT];
};

static void *push_jobs(void *context)
{
    struct crowd *crowd = context;
    struct weir_loop *loop = &crowd->loop;
    for (int i = 0; i < JOBS_PER_THREAD; i++) {
        char id[32];
        struct weir_acceptance acceptance;
        struct order order = {.id = id,
                              .tenant = i % 2 == 0 ? "a" : "b",
                              .body = i % 5 == 0 ? "exit 1" : "exit 0",
                              .attempts = 2};
        snprintf(id, sizeof id, "%d-%d", crowd->index, i);
        assert_int_equal(submit_in(loop, order, &acceptance), WEIR_JOB_SERVICE_DONE);
        if (i % 3 == 0) {
            enum weir_job_service_end end = cancel_in(loop, id);
            assert_true(end == WEIR_JOB_SERVICE_DONE || end == WEIR_JOB_SERVICE_STALE);
        }
        if (i % 4 == 0) {
            await_end_in(loop, acceptance.number);
        }
        struct weir_job_service_live live;
        weir_job_service_live(office.service, acceptance.number, &live);
    }
    return NULL;
}

TEST(every_job_of_many_threads_ends_exactly_once)
{
    open_service(
        "  q: { run: [/bin/sh], workers: 8, backoff: { first: 1ms, max: 2ms }, grace: 50ms }\n");
    struct crowd crowds[THREADS];
    for (int i = 0; i < THREADS; i++) {
        crowds[i] = (struct crowd){.index = i};
        assert_true(weir_loop_init(&crowds[i].loop, &weir_allocator_libc));
        assert_int_equal(pthread_create(&crowds[i].thread, NULL, push_jobs, &crowds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(crowds[i].thread, NULL);
    }
    for (uint64_t number = 1; number <= THREADS * JOBS_PER_THREAD; number++) {
        await_end(number);
    }
    struct weir_job_service_counts counts;
    weir_job_service_count(office.service, &counts);
    assert_int_equal(counts.all.accepted, THREADS * JOBS_PER_THREAD);
    assert_int_equal(counts.all.ended[WEIR_JOB_DONE] + counts.all.ended[WEIR_JOB_FAILED] +
                         counts.all.ended[WEIR_JOB_CANCELLED],
                     THREADS * JOBS_PER_THREAD);
    assert_int_equal(counts.stale, 0);
    assert_int_equal(stats_of_queue("q").queued, 0);
    assert_int_equal(stats_of_queue("q").running, 0);
    close_service(); /* from now on nobody rings any more */
    for (int i = 0; i < THREADS; i++) {
        weir_loop_deinit(&crowds[i].loop);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REAL(a_job_runs_and_its_result_is_on_record),
        REAL(the_same_id_again_is_the_same_job_and_takes_no_place),
        REAL(a_batch_is_accepted_as_a_whole),
        REAL(a_delayed_job_starts_when_it_is_due),
        REAL(progress_is_told_while_a_job_runs),
        REAL(a_job_that_fails_is_tried_again_and_then_is_a_dead_letter),
        REAL(a_retry_waits_for_its_backoff),
        REAL(a_job_that_kills_its_worker_three_times_is_quarantined),
        FAKE(a_damaged_body_is_not_run),
        REAL(what_cannot_be_begun_waits_and_spends_no_attempt),
        REAL(a_lease_that_runs_out_ends_the_attempt),
        REAL(a_lease_that_runs_out_before_anything_is_begun_costs_nothing),
        REAL(a_lease_is_renewed_while_a_job_runs),
        REAL(a_job_in_line_is_cancelled),
        REAL(a_running_job_is_cancelled),
        REAL(a_job_whose_turn_has_come_while_nothing_may_start_is_cancelled),
        FAKE(while_the_disk_fails_nothing_is_accepted),
        FAKE(while_the_disk_fails_nothing_is_started_and_then_all_is),
        FAKE(what_ends_while_the_disk_fails_is_recorded_later),
        FAKE(a_cancellation_that_cannot_be_recorded_says_so),
        FAKE(an_end_that_does_not_count_is_forgotten_and_counted),
        FAKE(a_turn_of_a_job_that_is_not_queued_is_forgotten_and_told),
        FAKE(what_cannot_be_recorded_at_the_end_is_left_for_the_next_start),
        REAL(every_job_of_many_threads_ends_exactly_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
