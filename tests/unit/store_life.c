/* A store over time: starts, crashes, files, what is forgotten, and its threads. */
#define _GNU_SOURCE
#include "unit/store_helpers.h"

#include "net/disk.h"
#include "store/lock.h"

#include <sqlite3.h>
#include <sys/wait.h>

/* ---- starts ---- */

TEST(every_start_has_a_boot_number_of_its_own)
{
    for (uint32_t boot = 1; boot <= 5; boot++) {
        open_store();
        assert_int_equal(weir_store_boot(store), boot);
        close_store();
    }
}

/* The files as they are while the store is open are what a crash leaves. */
TEST(after_a_crash_everything_that_was_acknowledged_is_there)
{
    char id[16];
    uint64_t numbers[100];
    open_store();
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "job-%d", i);
        numbers[i] = submit_job(id, id);
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(settle_as(numbers[i], start_job(numbers[i]), WEIR_JOB_DONE),
                         WEIR_STORE_DONE);
    }
    struct weir_epoch epoch = start_job(numbers[10]);
    submit_job("last", "so that the start is committed");
    shell("mkdir ../image.$$ && cp -r . ../image.$$ && echo $$ > image");
    close_store();
    shell("rm -rf jobs.db jobs.db-wal && cp -r ../image.$(cat image)/. . && rm -r ../image.$(cat "
          "image)");
    open_store();
    assert_int_equal(found_count, 91);
    assert_int_equal(found_numbers[0], numbers[10]);
    assert_int_equal(found_states[0], WEIR_JOB_RUNNING);
    assert_true(weir_epoch_equal(found_epochs[0], epoch));
    assert_int_equal(found_states[1], WEIR_JOB_QUEUED);
    assert_int_equal(state_of("job-3"), WEIR_JOB_DONE);
    assert_int_equal(weir_store_boot(store), 2);
    assert_int_equal(submit_job("next", "x"), numbers[99] + 2);
}

TEST(a_durable_start_is_on_disk_when_it_is_told_and_is_the_same_one_when_it_is_tried_again)
{
    struct weir_store_take take = {.durable = true};
    open_store();
    take.number = submit_job("route", "body");
    take.epoch = (struct weir_epoch){weir_store_boot(store), ++epoch_counter};
    for (int tries = 0; tries < 2; tries++) { /* as after a commit that only seemed to fail */
        assert_int_equal(call(&take.op, WEIR_STORE_TAKE), WEIR_STORE_DONE);
        assert_int_equal(take.row.attempts, 1);
        free(take.op.memory);
    }
    shell("mkdir ../image.$$ && cp -r . ../image.$$ && echo $$ > image");
    close_store();
    shell("rm -rf jobs.db jobs.db-wal && cp -r ../image.$(cat image)/. . && rm -r ../image.$(cat "
          "image)");
    open_store();
    assert_int_equal(found_count, 1);
    assert_int_equal(found_states[0], WEIR_JOB_RUNNING);
    assert_true(weir_epoch_equal(found_epochs[0], take.epoch));
    take.epoch.counter++;
    assert_int_equal(call(&take.op, WEIR_STORE_TAKE), WEIR_STORE_STALE);
}

static bool refuse_third(void *context, const struct weir_job_row *row)
{
    (void)context;
    return row->number < 3;
}

TEST(without_memory_for_its_jobs_it_is_not_opened)
{
    open_store();
    submit_job("a", "1");
    submit_job("b", "2");
    submit_job("c", "3");
    close_store();
    options.found = refuse_third;
    assert_false(try_open());
    assert_non_null(strstr(error, "memory"));
    options.found = note_found;
    open_store();
    assert_int_equal(found_count, 3);
}

TEST(the_folder_is_made_if_its_parent_is_there)
{
    struct stat about;
    char deeper[128];
    snprintf(deeper, sizeof deeper, "%s/data", folder);
    options.folder = deeper;
    open_store();
    submit_job("a", "x");
    assert_int_equal(stat(path_of("data/jobs.db"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(stat(path_of("data/bodies"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    assert_int_equal(stat(path_of("data/jobs.db-shm"), &about), -1);
    close_store();
    snprintf(deeper, sizeof deeper, "%s/no/data", folder);
    assert_false(try_open());
    assert_non_null(strstr(error, deeper));
}

/* ---- the lock ---- */

TEST(a_second_weir_on_the_same_folder_is_told_of_the_first)
{
    char expected[100];
    char again[1000];
    open_store();
    snprintf(expected, sizeof expected, "another weir (pid %ld) uses %s", (long)getpid(), folder);
    assert_null(weir_store_open(&options, again, sizeof again));
    assert_non_null(strstr(again, expected));
    submit_job("a", "x");
    reopen();
    assert_int_equal(found_count, 1);
}

TEST(a_folder_whose_weir_has_died_is_free_though_a_child_of_it_still_has_the_lock)
{
    pid_t first = fork();
    if (first == 0) {
        bool taken = weir_lock_take(folder, error, sizeof error) >= 0;
        if (taken && fork() == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
            _exit(0);
        }
        _exit(taken ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_int_equal(status, 0);
    open_store();
    close_store();
}

TEST(a_weir_that_is_about_to_end_is_waited_for)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t first = fork();
    if (first == 0) {
        bool taken = weir_lock_take(folder, error, sizeof error) >= 0;
        bool written = write(ready[1], "", 1) == 1;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        _exit(taken && written ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    open_store();
    close_store();
    int status = -1;
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
}

/* ---- files ---- */

static uint64_t make_file(const char *content)
{
    char path[300];
    uint64_t file = weir_store_file_new(store);
    assert_true(weir_store_file_path(store, file, path, sizeof path) < (int)sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    assert_true(weir_store_file_seal(store, fd));
    close(fd);
    return file;
}

static bool file_exists(uint64_t file)
{
    char path[300];
    weir_store_file_path(store, file, path, sizeof path);
    return access(path, F_OK) == 0;
}

static void expect_done_with_file(uint64_t number, uint64_t file, enum weir_job_state after,
                                  int64_t keep_until_ms)
{
    struct weir_store_settle settle = {.number = number,
                                       .before = WEIR_JOB_RUNNING,
                                       .epoch = start_job(number),
                                       .after = after,
                                       .now_ms = wall_now_ms(),
                                       .result = {.count = 100000, .file = file},
                                       .keep_until_ms = keep_until_ms};
    assert_int_equal(call(&settle.op, WEIR_STORE_SETTLE), WEIR_STORE_DONE);
}

TEST(a_file_is_there_as_long_as_a_job_refers_to_it)
{
    struct weir_acceptance acceptance;
    open_store();
    uint64_t body = make_file("a long body");
    uint64_t first = make_file("a result");
    uint64_t second = make_file("another");
    uint64_t orphan = make_file("nobody's");
    struct weir_job_order order = order_of("a", "");
    order.body = (struct weir_job_bytes){.count = 100000, .file = body};
    assert_int_equal(accept_order(order, &acceptance), WEIR_STORE_DONE);
    expect_done_with_file(acceptance.number, first, WEIR_JOB_QUEUED, 0);
    reopen();
    assert_true(file_exists(body) && file_exists(first));
    assert_false(file_exists(second) || file_exists(orphan));
    assert_true(weir_store_file_new(store) > orphan);
    second = make_file("another");
    int64_t keep_until_ms = wall_now_ms() + 300;
    expect_done_with_file(acceptance.number, second, WEIR_JOB_DONE, keep_until_ms);
    EXPECT_SOON(!file_exists(first));
    assert_true(file_exists(second) || wall_now_ms() >= keep_until_ms);
    EXPECT_SOON(!file_exists(second) && !file_exists(body));
    uint64_t unused = make_file("of a submission that was refused");
    weir_store_file_remove(store, unused);
    assert_false(file_exists(unused));
}

/* ---- forgetting ---- */

static void finish(uint64_t number, enum weir_job_state after, int64_t keep_ms)
{
    struct weir_store_settle settle = {.number = number,
                                       .before = WEIR_JOB_RUNNING,
                                       .epoch = start_job(number),
                                       .after = after,
                                       .now_ms = wall_now_ms(),
                                       .result = {.count = 3, .bytes = text("yes")},
                                       .log = text("a log"),
                                       .keep_until_ms = wall_now_ms() + keep_ms};
    assert_int_equal(call(&settle.op, WEIR_STORE_SETTLE), WEIR_STORE_DONE);
}

static bool is_forgotten(const char *id)
{
    struct weir_store_look look;
    assert_int_equal(look_at(id, 0, &look), WEIR_STORE_DONE);
    free(look.op.memory);
    return look.row.forgotten;
}

TEST(a_result_is_forgotten_in_time_and_its_id_is_not)
{
    struct weir_acceptance acceptance;
    struct weir_store_list list = {.filter = {.state = -1}, .rows_max = 10};
    open_store();
    uint64_t done = submit_job("done", "x");
    uint64_t kept = submit_job("kept", "y");
    uint64_t dead = submit_job("dead", "z");
    finish(done, WEIR_JOB_DONE, 0);
    finish(kept, WEIR_JOB_DONE, 3600000);
    finish(dead, WEIR_JOB_FAILED, 0);
    EXPECT_SOON(is_forgotten("done"));
    assert_false(is_forgotten("kept"));
    assert_false(is_forgotten("dead"));
    for (int round = 0; round < 2; round++) {
        assert_int_equal(accept_order(order_of("done", "x"), &acceptance), WEIR_STORE_DONE);
        assert_false(acceptance.fresh);
        assert_int_equal(acceptance.number, done);
        assert_int_equal(acceptance.state, WEIR_JOB_DONE);
        assert_int_equal(accept_order(order_of("done", "other"), &acceptance), WEIR_STORE_CONFLICT);
        reopen();
    }
    assert_int_equal(call(&list.op, WEIR_STORE_LIST), WEIR_STORE_DONE);
    assert_int_equal(list.row_count, 2);
    free(list.op.memory);
}

TEST(an_id_is_forgotten_in_time_and_its_number_never_given_again)
{
    struct weir_store_look look;
    options.remember_ms = 100;
    open_store();
    uint64_t number = submit_job("a", "x");
    finish(number, WEIR_JOB_CANCELLED, 0);
    EXPECT_SOON(counts_now().remembered == 0);
    assert_int_equal(look_at("a", 0, &look), WEIR_STORE_UNKNOWN);
    reopen();
    assert_int_equal(submit_job("a", "another body"), number + 1);
    assert_int_equal(counts_now().remembered, 1);
}

static int64_t ask_database(const char *sql)
{
    sqlite3 *handle;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path_of("jobs.db"), &handle), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    assert_int_equal(sqlite3_close(handle), SQLITE_OK);
    return answer;
}

TEST(nothing_is_left_of_what_is_forgotten)
{
    static char body[5000];
    static const char *const tables[] = {"jobs", "bodies", "results", "remembered", "agenda"};
    options.remember_ms = 1;
    open_store();
    for (size_t length = 0; length < sizeof body; length += 600) {
        char id[16];
        snprintf(id, sizeof id, "job-%zu", length);
        memset(body, 'x', length);
        finish(submit_job(id, body), WEIR_JOB_DONE, 0);
    }
    EXPECT_SOON(counts_now().remembered == 0);
    close_store();
    for (size_t i = 0; i < COUNT_OF(tables); i++) {
        char question[64];
        snprintf(question, sizeof question, "SELECT count(*) FROM %s", tables[i]);
        assert_int_equal(ask_database(question), 0);
    }
    assert_int_equal(ask_database("SELECT value FROM meta WHERE name = 'forgotten'"), 9);
}

/* ---- the disk's threads ---- */

struct repeated_task {
    struct weir_disk_task task;
    atomic_int *count;
    struct weir_disk *disk;
    int again;
};

static void do_task(struct weir_disk_task *task)
{
    struct repeated_task *task_again = (struct repeated_task *)(void *)task;
    if (task_again->again-- > 0) {
        weir_disk_submit(task_again->disk, task);
        return;
    }
    atomic_fetch_add(task_again->count, 1);
}

TEST(the_disks_threads_rest_when_every_task_is_done)
{
    static struct repeated_task tasks[1000];
    struct weir_disk *threads = weir_disk_create(2);
    assert_non_null(threads);
    weir_disk_rest(threads); /* at once */
    for (int round = 1; round <= 3; round++) {
        atomic_int count = 0;
        for (size_t i = 0; i < COUNT_OF(tasks); i++) {
            tasks[i] = (struct repeated_task){{.work = do_task}, &count, threads, (int)i % 3};
            weir_disk_submit(threads, &tasks[i].task);
        }
        weir_disk_rest(threads);
        assert_int_equal(atomic_load(&count), COUNT_OF(tasks));
    }
    weir_disk_destroy(threads);
}

TEST(every_task_for_the_disk_is_done_before_its_threads_end)
{
    static struct repeated_task tasks[1000];
    for (uint32_t threads_count = 1; threads_count <= 4; threads_count += 3) {
        atomic_int count = 0;
        struct weir_disk *threads = weir_disk_create(threads_count);
        assert_non_null(threads);
        for (size_t i = 0; i < COUNT_OF(tasks); i++) {
            tasks[i] = (struct repeated_task){{.work = do_task}, &count, threads, (int)i % 3};
            weir_disk_submit(threads, &tasks[i].task);
        }
        EXPECT_SOON(atomic_load(&count) > 500);
        EXPECT_SOON(atomic_load(&count) == COUNT_OF(tasks));
        weir_disk_destroy(threads);
    }
    atomic_int count = 0;
    struct weir_disk *threads = weir_disk_create(2);
    for (size_t i = 0; i < COUNT_OF(tasks); i++) {
        tasks[i] = (struct repeated_task){{.work = do_task}, &count, threads, 0};
        weir_disk_submit(threads, &tasks[i].task);
    }
    weir_disk_destroy(threads);
    assert_int_equal(atomic_load(&count), COUNT_OF(tasks));
}

/* ---- many at once ---- */

#define SENDERS    4
#define SENDER_OPS 300

struct sender {
    pthread_t thread;
    int number;
    atomic_int completed;
};

struct sent {
    struct weir_store_accept accept;
    struct weir_job_order order;
    struct weir_acceptance acceptance;
    struct sender *sender;
    char id[24];
};

static void note_sent(struct weir_store_op *op)
{
    struct sent *sent = (struct sent *)(void *)op;
    atomic_fetch_add(&sent->sender->completed, 1);
}

static void *send_many(void *context)
{
    static struct sent all[SENDERS][SENDER_OPS];
    struct sender *sender = context;
    for (int i = 0; i < SENDER_OPS; i++) {
        struct sent *sent = &all[sender->number][i];
        /* Every id is sent by two of them. */
        snprintf(sent->id, sizeof sent->id, "job-%d-%d", sender->number / 2, i);
        sent->order = order_of(sent->id, "x");
        sent->sender = sender;
        sent->accept =
            (struct weir_store_accept){.op = {.act = WEIR_STORE_ACCEPT, .complete = note_sent},
                                       .orders = &sent->order,
                                       .order_count = 1,
                                       .acceptances = &sent->acceptance};
        weir_store_sqlite.submit(store, &sent->accept.op);
    }
    while (atomic_load(&sender->completed) < SENDER_OPS) {
        usleep(1000);
    }
    return NULL;
}

TEST(many_threads_may_hand_over_at_once)
{
    static struct sender senders[SENDERS];
    open_store();
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.number = i};
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_many, &senders[i]), 0);
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(senders[i].thread, NULL);
    }
    assert_int_equal(counts_now().remembered, SENDERS / 2 * SENDER_OPS);
    reopen();
    assert_int_equal(found_count, SENDERS / 2 * SENDER_OPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIFE(every_start_has_a_boot_number_of_its_own),
        LIFE(after_a_crash_everything_that_was_acknowledged_is_there),
        LIFE(a_durable_start_is_on_disk_when_it_is_told_and_is_the_same_one_when_it_is_tried_again),
        LIFE(without_memory_for_its_jobs_it_is_not_opened),
        LIFE(the_folder_is_made_if_its_parent_is_there),
        LIFE(a_second_weir_on_the_same_folder_is_told_of_the_first),
        LIFE(a_folder_whose_weir_has_died_is_free_though_a_child_of_it_still_has_the_lock),
        LIFE(a_weir_that_is_about_to_end_is_waited_for),
        LIFE(a_file_is_there_as_long_as_a_job_refers_to_it),
        LIFE(a_result_is_forgotten_in_time_and_its_id_is_not),
        LIFE(an_id_is_forgotten_in_time_and_its_number_never_given_again),
        LIFE(nothing_is_left_of_what_is_forgotten),
        cmocka_unit_test(the_disks_threads_rest_when_every_task_is_done),
        cmocka_unit_test(every_task_for_the_disk_is_done_before_its_threads_end),
        LIFE(many_threads_may_hand_over_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
