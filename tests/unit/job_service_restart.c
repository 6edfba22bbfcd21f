/* The job service when Weir ends, is killed, starts again, or gets another config. */
#define _GNU_SOURCE
#include "unit/job_service_helpers.h"

/* ---- ends and starts ---- */

static atomic_int drained;

static void note_drained(void *context)
{
    (void)context;
    atomic_fetch_add(&drained, 1);
}

TEST(draining_accepts_nothing_starts_nothing_and_tells_when_all_is_done)
{
    open_service("  q: " SH("while ! test -e ../../go; do sleep 0.01; done") "}\n");
    struct weir_acceptance acceptance;
    atomic_store(&drained, 0);
    submit((struct order){.id = "a"});
    submit((struct order){.id = "a2"});
    await(look_at("a2")->state == WEIR_JOB_RUNNING);
    submit((struct order){.id = "b"});
    weir_job_service_drain(office.service, note_drained, NULL);
    assert_int_equal(submit_in(&office.loop, (struct order){.id = "c"}, &acceptance),
                     WEIR_JOB_SERVICE_DRAINING);
    assert_int_equal(atomic_load(&drained), 0);
    char path[100];
    snprintf(path, sizeof path, "%s/go", office.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    await(atomic_load(&drained) == 1);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
    assert_int_equal(look_at("b")->state, WEIR_JOB_QUEUED);
    assert_int_equal(look_at("b")->attempts, 0);
}

TEST(what_runs_when_weir_is_told_to_end_runs_again_and_has_spent_no_attempt)
{
    open_service("  q: { attempts: 1, run: [/bin/sleep, \"60\"] }\n");
    submit((struct order){.id = "a"});
    await(look_at("a")->state == WEIR_JOB_RUNNING);
    close_service();
    open_service("  q: { }\n");
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_QUEUED);
    assert_int_equal(row->next_ms, 0); /* at once */
    close_service();
    open_service("  q: { run: [/bin/true] }\n");
    await_end(number_of("a"));
    row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_DONE);
    assert_int_equal(row->attempts, 1);
    assert_int_equal(row->kills, 0);
    assert_int_equal(row->epoch.boot, 3);
}

TEST(however_early_weir_is_told_to_end_no_attempt_is_spent_and_no_folder_left)
{
    char path[100];
    open_service("  q: { attempts: 1, run: [/bin/sleep, \"60\"] }\n");
    submit((struct order){.id = "a"});
    for (int round = 0; round < 20; round++) {
        await(look_at("a")->state == WEIR_JOB_RUNNING);
        close_service();
        snprintf(path, sizeof path, "%s/work", office.folder);
        assert_int_equal(rmdir(path), 0);
        open_service("  q: { attempts: 1, run: [/bin/sleep, \"60\"] }\n");
    }
    assert_true(look_at("a")->attempts <= 1);
    assert_int_equal(look_at("a")->kills, 0);
}

static void note_complete(struct weir_store_op *op)
{
    (void)op;
}

static struct weir_store *open_record(void)
{
    char error[200];
    struct weir_store_options options = {.folder = office.folder};
    struct weir_store *store = weir_store_open(&options, error, sizeof error);
    assert_non_null(store);
    return store;
}

/* The first job of a record, which has begun to run. */
static void take_job(struct weir_store *store, const char *id, int64_t now_ms)
{
    static struct weir_job_order order; /* it stays until the store is closed, as do the others */
    static struct weir_acceptance acceptance;
    static struct weir_store_accept accept;
    static struct weir_store_take take;
    order = order_of((struct order){.id = id});
    accept = (struct weir_store_accept){.op = {.act = WEIR_STORE_ACCEPT, .complete = note_complete},
                                        .orders = &order,
                                        .order_count = 1,
                                        .acceptances = &acceptance};
    free(take.op.memory);
    take = (struct weir_store_take){.op = {.act = WEIR_STORE_TAKE, .complete = note_complete},
                                    .number = 1,
                                    .epoch = {weir_store_boot(store), 1},
                                    .now_ms = now_ms};
    weir_store_sqlite.submit(store, &accept.op);
    weir_store_sqlite.submit(store, &take.op);
}

/* A record of a job that runs, as a Weir that was killed leaves it. */
static void leave_running(const char *id)
{
    struct weir_store *store = open_record();
    take_job(store, id, wall_ms());
    weir_store_close(store);
}

TEST(what_ran_when_weir_was_killed_has_spent_an_attempt)
{
    leave_running("a");
    open_service("  q: { run: [/bin/true], backoff: { first: 1ms } }\n");
    await_end(1);
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_DONE);
    assert_int_equal(row->attempts, 2);
    assert_int_equal(row->kills, 1);
}

TEST(an_attempt_that_had_ended_well_is_not_repeated)
{
    open_service("  q: { run: [/bin/echo, made] }\n");
    fake_fail(FAIL(SETTLE));
    submit((struct order){.id = "a"});
    await(fake_failures(WEIR_STORE_SETTLE) >= 1);
    close_service();
    fake_close();
    office.faked = false;
    leave_running("a"); /* the same number and attempt */
    open_service("  q: { run: [/bin/false] }\n");
    await_end(1);
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_DONE);
    assert_int_equal(row->attempts, 1);
    assert_int_equal(row->kills, 0);
    expect_text(row->result.bytes, "made\n");
    char path[100];
    snprintf(path, sizeof path, "%s/work/1-1", office.folder);
    await(access(path, F_OK) != 0); /* its folder goes when that is on record */
}

/* As a Weir leaves a job that waits for its next attempt, whose clock was an hour ahead. */
TEST(a_backoff_is_short_also_if_the_clock_went_back)
{
    int64_t ahead_ms = wall_ms() + 3600000;
    struct weir_store *store = open_record();
    take_job(store, "a", ahead_ms);
    struct weir_store_settle settle = {.op = {.act = WEIR_STORE_SETTLE, .complete = note_complete},
                                       .number = 1,
                                       .before = WEIR_JOB_RUNNING,
                                       .epoch = {weir_store_boot(store), 1},
                                       .after = WEIR_JOB_QUEUED,
                                       .now_ms = ahead_ms,
                                       .next_ms = ahead_ms + 20};
    weir_store_sqlite.submit(store, &settle.op);
    weir_store_close(store);
    assert_int_equal(settle.op.end, WEIR_STORE_DONE);
    open_service("  q: { run: [/bin/true] }\n");
    await_end(1);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
}

TEST(what_is_left_of_earlier_attempts_is_swept_at_the_start)
{
    char path[100];
    open_service("  q: { }\n");
    submit((struct order){.id = "a"});
    close_service();
    snprintf(path, sizeof path, "%s/work/1-7", office.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    open_service("  q: { run: [/bin/true] }\n"); /* its turn comes before anything is swept */
    assert_int_equal(access(path, F_OK), -1);
}

TEST(what_looks_like_an_attempt_in_a_folder_that_is_not_ours_stays)
{
    char path[100], error[1000];
    snprintf(path, sizeof path, "%s/work", office.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/work/2024-11", office.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    struct weir_job_service_options options = {.snapshot =
                                                   snapshot_of("  q: { run: [/bin/true] }\n")};
    assert_null(weir_job_service_open(&options, error, sizeof error));
    assert_non_null(strstr(error, "/jobs.db is missing, but "));
    assert_int_equal(rmdir(path), 0);
    open_service("  q: { run: [/bin/true] }\n");
}

TEST(what_waits_at_the_end_waits_at_the_start)
{
    open_service("  q: { }\n");
    for (int i = 0; i < 5; i++) {
        char id[8];
        snprintf(id, sizeof id, "%d", i);
        submit((struct order){.id = id, .delay_ms = i == 4 ? 3600000 : 0});
    }
    close_service();
    open_service("  q: { }\n");
    assert_int_equal(stats_of_queue("q").queued, 5);
    assert_int_equal(stats_of_queue("q").delayed, 1);
}

/* ---- another config ---- */

TEST(a_queue_that_is_taken_out_keeps_its_jobs_until_it_comes_back)
{
    open_service("  q: { }\n  r: { }\n");
    uint32_t number;
    uint64_t job = submit((struct order){.id = "a"});
    reconfigure("  r: { run: [/bin/cat] }\n");
    assert_null(weir_job_service_queue(office.service, weir_slice_of("q"), &number));
    expect_text(weir_job_service_queue(office.service, (struct weir_slice){0}, &number)->name, "r");
    await_end(submit((struct order){.id = "b", .queue = "r"}));
    assert_int_equal(look_at("a")->state, WEIR_JOB_QUEUED);
    reconfigure("  r: { }\n  q: { run: [/bin/cat] }\n");
    await_end(job);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
}

TEST(a_shorter_lease_is_renewed_more_often)
{
    open_service("  q: { run: [/bin/sleep, \"1.6\"], workers: 2, lease: 5m }\n");
    uint64_t first = submit((struct order){.id = "a", .attempts = 1});
    await(stats_of_queue("q").running == 1);
    reconfigure("  q: { run: [/bin/sleep, \"1.6\"], workers: 2, lease: 1s }\n");
    await_end(submit((struct order){.id = "b", .attempts = 1}));
    await_end(first);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
    assert_int_equal(look_at("b")->state, WEIR_JOB_DONE);
}

TEST(a_command_that_is_not_there_is_said_at_the_start)
{
    char error[1000];
    struct weir_job_service_options options = {
        .snapshot = snapshot_of("  q: { run: [/nowhere/at/all] }\n")};
    assert_null(weir_job_service_open(&options, error, sizeof error));
    expect_part(weir_slice_of(error), "queue q");
    assert_null(strchr(error, '\n'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REAL(draining_accepts_nothing_starts_nothing_and_tells_when_all_is_done),
        REAL(what_runs_when_weir_is_told_to_end_runs_again_and_has_spent_no_attempt),
        REAL(however_early_weir_is_told_to_end_no_attempt_is_spent_and_no_folder_left),
        REAL(what_ran_when_weir_was_killed_has_spent_an_attempt),
        FAKE(an_attempt_that_had_ended_well_is_not_repeated),
        REAL(a_backoff_is_short_also_if_the_clock_went_back),
        REAL(what_is_left_of_earlier_attempts_is_swept_at_the_start),
        REAL(what_looks_like_an_attempt_in_a_folder_that_is_not_ours_stays),
        REAL(what_waits_at_the_end_waits_at_the_start),
        REAL(a_queue_that_is_taken_out_keeps_its_jobs_until_it_comes_back),
        REAL(a_shorter_lease_is_renewed_more_often),
        REAL(a_command_that_is_not_there_is_said_at_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
