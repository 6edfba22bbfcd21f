/* A disk that fails: nothing that was acknowledged is lost, nothing that failed is there, and it
 * recovers by itself. Each test goes through every write and every sync of the same work. */
#define _GNU_SOURCE
#include "unit/store_helpers.h"
#include "unit/store_vfs.h"

#define JOBS 6

/* What was acknowledged. */
struct diary {
    bool accepted[JOBS];
    bool unsure[JOBS]; /* whether it was accepted: the power went during it */
    enum weir_job_state state[JOBS];
    bool state_unsure[JOBS];
    uint64_t number[JOBS];
};

static struct diary diary;

static int begin_failing(void **state)
{
    disk_insert();
    memset(&diary, 0, sizeof diary);
    return begin(state);
}

static int end_failing(void **state)
{
    int result = end(state);
    disk_remove();
    return result;
}

/* Few pages, so that the journal is copied and started over every now and then. */
static void open_small(void)
{
    options.retry_ms = 1;
    options.journal_bytes = 6 * 4096;
    open_store();
}

static const char *id_of(int job)
{
    static char id[8];
    snprintf(id, sizeof id, "job-%d", job);
    return id;
}

/* Bodies of several pages, so that commits are not all alike. */
static struct weir_job_order order_numbered(int job)
{
    static char body[JOBS][9000];
    memset(body[job], 'a' + job, (size_t)(job % 3) * 4000 + 10);
    return order_of(id_of(job), body[job]);
}

/* Tries until it works, or once if the power is off. */
static bool insist(struct weir_store_op *op, enum weir_store_act act)
{
    for (int tries = 0; call(op, act) == WEIR_STORE_FAILED; tries++) {
        assert_true(tries < 5000);
        if (disk.fault == DISK_DEAD) {
            return false;
        }
        usleep(1000);
    }
    return true;
}

static bool accept_numbered(int job)
{
    struct weir_job_order order = order_numbered(job);
    struct weir_acceptance acceptance;
    struct weir_store_accept accept = {
        .orders = &order, .order_count = 1, .acceptances = &acceptance};
    diary.unsure[job] = true;
    if (!insist(&accept.op, WEIR_STORE_ACCEPT)) {
        return false;
    }
    assert_int_equal(accept.op.end, WEIR_STORE_DONE);
    assert_true(acceptance.fresh); /* what has failed before is not there */
    diary.unsure[job] = false;
    diary.accepted[job] = true;
    diary.number[job] = acceptance.number;
    return true;
}

static bool run_numbered(int job, enum weir_job_state after)
{
    struct weir_store_take take;
    while (take_job(diary.number[job], &take) == WEIR_STORE_FAILED) {
        if (disk.fault == DISK_DEAD) {
            return false;
        }
        usleep(1000);
    }
    assert_int_equal(take.op.end, WEIR_STORE_DONE);
    free(take.op.memory);
    diary.state_unsure[job] = true;
    struct weir_store_settle settle = {.number = diary.number[job],
                                       .before = WEIR_JOB_RUNNING,
                                       .epoch = take.epoch,
                                       .after = after,
                                       .now_ms = 3000,
                                       .log = text("a log"),
                                       .keep_until_ms = INT64_C(4000000000000)};
    if (!insist(&settle.op, WEIR_STORE_SETTLE)) {
        return false;
    }
    assert_int_equal(settle.op.end, WEIR_STORE_DONE);
    diary.state_unsure[job] = false;
    diary.state[job] = after;
    return true;
}

/* The work. False: the power went. */
static bool work(void)
{
    for (int job = 0; job < JOBS; job++) {
        if (!accept_numbered(job)) {
            return false;
        }
        if (job % 2 == 1) {
            enum weir_job_state after = job % 3 == 0 ? WEIR_JOB_FAILED : WEIR_JOB_DONE;
            if (!run_numbered(job - 1, after)) {
                return false;
            }
        }
    }
    return true;
}

static void check_job(int job)
{
    struct weir_store_look look;
    enum weir_store_end end = look_at(id_of(job), 0, &look);
    if (!diary.accepted[job]) {
        assert_true(end == WEIR_STORE_UNKNOWN || (end == WEIR_STORE_DONE && diary.unsure[job]));
        free(look.op.memory);
        return;
    }
    assert_int_equal(end, WEIR_STORE_DONE);
    assert_int_equal(look.row.number, diary.number[job]);
    if (!diary.state_unsure[job]) {
        assert_int_equal(look.row.state, diary.state[job]);
        assert_int_equal(look.row.attempts, diary.state[job] == WEIR_JOB_QUEUED ? 0 : 1);
    }
    free(look.op.memory);
}

/* Everything is as it was acknowledged, and every body is whole. */
static void check_diary(void)
{
    for (int job = 0; job < JOBS; job++) {
        struct weir_store_take take;
        check_job(job);
        bool queued =
            diary.accepted[job] && !diary.state_unsure[job] && diary.state[job] == WEIR_JOB_QUEUED;
        if (queued) {
            struct weir_job_order order = order_numbered(job);
            assert_int_equal(take_job(diary.number[job], &take), WEIR_STORE_DONE);
            assert_int_equal(take.row.order.body.bytes.bytes, order.body.count);
            assert_memory_equal(take.row.order.body.bytes.data, order.body.bytes.data,
                                order.body.count);
            free(take.op.memory);
        }
    }
}

/* How many changes the work makes when nothing fails. */
static uint64_t count_changes(void)
{
    open_small();
    uint64_t before = disk.changes;
    assert_true(work());
    uint64_t changes = disk.changes - before;
    assert_true(changes > 30);
    close_store();
    return changes;
}

static void start_anew(void **state)
{
    assert_int_equal(end(state), 0);
    disk_forget();
    assert_int_equal(begin(state), 0);
    memset(&diary, 0, sizeof diary);
    open_small();
}

/* Work on a disk that fails at some point and works again later; then the power goes. */
static void survive_each(void **state, enum disk_fault fault)
{
    uint64_t changes = count_changes();
    for (uint64_t at = 1; at <= 2 * changes; at++) {
        start_anew(state);
        disk_arm(fault, at);
        assert_true(work());
        if (disk.failures == 0) {
            assert_true(at > changes / 2); /* starts are committed alone or along with others */
            break;
        }
        EXPECT_SOON(counts_now().working);
        for (int job = 0; job < JOBS; job++) {
            check_job(job);
        }
        disk_arm(DISK_DEAD, 1);
        close_store();
        disk_lose_power(at % 3 == 0 ? 0 : at);
        open_small();
        check_diary();
    }
}

TEST(a_write_or_a_sync_that_fails_loses_nothing)
{
    survive_each(test_state, DISK_EIO);
}

TEST(a_full_disk_loses_nothing)
{
    survive_each(test_state, DISK_FULL);
}

TEST(a_write_that_is_cut_short_loses_nothing)
{
    survive_each(test_state, DISK_SHORT);
}

TEST(a_power_cut_at_any_moment_loses_nothing)
{
    uint64_t changes = count_changes();
    bool cut = true;
    for (uint64_t at = 1; cut; at++) {
        for (uint64_t chance = 0; chance < 3; chance++) {
            start_anew(test_state);
            disk_arm(DISK_DEAD, at);
            cut = !work();
            assert_true(cut || at > changes / 2);
            close_store();
            disk_lose_power(chance * at * 977);
            open_small();
            check_diary();
        }
    }
}

TEST(while_the_disk_fails_it_says_why_and_can_be_read)
{
    struct weir_store_look look;
    struct weir_acceptance acceptance;
    options.retry_ms = 20;
    open_store();
    submit_job("a", "x");
    disk_arm(DISK_DEAD, 1);
    assert_int_equal(accept_order(order_of("b", "y"), &acceptance), WEIR_STORE_FAILED);
    assert_false(counts_now().working);
    assert_non_null(counts_now().error);
    for (int round = 0; round < 50; round++) {
        assert_int_equal(look_at("a", 0, &look), WEIR_STORE_DONE);
        free(look.op.memory);
        assert_int_equal(look_at("b", 0, &look), WEIR_STORE_UNKNOWN);
        assert_int_equal(accept_order(order_of("b", "y"), &acceptance), WEIR_STORE_FAILED);
        usleep(2000);
    }
    assert_false(counts_now().working);
    disk_arm(DISK_NO_FAULT, 0);
    EXPECT_SOON(counts_now().working);
    assert_null(counts_now().error);
    submit_job("b", "y");
}

static atomic_bool asks;

static void ask_again(struct weir_store_op *op)
{
    free(op->memory);
    if (atomic_load(&asks)) {
        weir_store_sqlite.submit(store, op);
    } else {
        note_completion(op);
    }
}

/* Nothing is asserted while it is asked, which would otherwise go on for ever. */
TEST(a_disk_is_tried_again_although_somebody_asks_all_the_time)
{
    struct weir_store_look look = {.op = {.act = WEIR_STORE_LOOK, .complete = ask_again},
                                   .number = 1};
    struct weir_acceptance acceptance;
    options.retry_ms = 20;
    open_store();
    submit_job("a", "x");
    disk_arm(DISK_DEAD, 1);
    assert_int_equal(accept_order(order_of("b", "y"), &acceptance), WEIR_STORE_FAILED);
    atomic_store(&asks, true);
    weir_store_sqlite.submit(store, &look.op);
    disk_arm(DISK_NO_FAULT, 0);
    bool working = false;
    for (int tries = 0; tries < 5000 && !working; tries++) {
        usleep(1000);
        working = counts_now().working;
    }
    atomic_store(&asks, false);
    wait_for_completions(1);
    assert_true(working);
    submit_job("b", "y");
}

TEST(a_start_that_was_told_and_never_written_is_settled)
{
    struct weir_store_take take;
    options.retry_ms = 1;
    open_store();
    uint64_t number = submit_job("a", "x");
    disk_arm(DISK_EIO, 1);
    assert_int_equal(take_job(number, &take), WEIR_STORE_DONE);
    free(take.op.memory);
    EXPECT_SOON(disk.failures == 1);
    EXPECT_SOON(counts_now().working);
    assert_int_equal(state_of("a"), WEIR_JOB_QUEUED);
    assert_int_equal(settle_as(number, take.epoch, WEIR_JOB_DONE), WEIR_STORE_DONE);
    assert_int_equal(settle_as(number, take.epoch, WEIR_JOB_DONE), WEIR_STORE_STALE);
    reopen();
    assert_int_equal(state_of("a"), WEIR_JOB_DONE);
}

/* What the failed sync left in memory looks well to who starts next, and is not on the disk. */
TEST(what_a_failed_sync_left_in_memory_is_not_believed_by_the_next_start)
{
    struct weir_acceptance acceptance;
    bool opened = false;
    for (uint64_t at = 1; !opened; at++) {
        start_anew(test_state);
        for (int job = 0; job < JOBS - 1; job++) {
            assert_true(accept_numbered(job));
        }
        close_store();
        options.retry_ms = 3600000;
        options.journal_bytes = 0;
        open_store();
        disk_arm(DISK_UNSYNCED, 1);
        diary.unsure[JOBS - 1] = true;
        assert_int_equal(accept_order(order_numbered(JOBS - 1), &acceptance), WEIR_STORE_FAILED);
        close_store();
        disk_arm(DISK_DEAD, at);
        opened = try_open();
        if (opened) {
            close_store();
        }
        disk_lose_power(at % 2 == 0 ? 0 : at);
        open_small();
        check_diary();
    }
}

/* A journal that is long enough for a part of it to make a difference. */
static void fill_and_close(void)
{
    for (int i = 0; i < 100; i++) {
        char id[16];
        snprintf(id, sizeof id, "more-%d", i);
        submit_job(id, "x");
    }
    assert_true(accept_numbered(0));
    close_store();
}

/* The journal is emptied when a store is closed, after all of it is in the database. Of that no
 * more than a part may get to the disk, and a part of a journal is older than the database. */
TEST(a_journal_that_is_emptied_only_in_part_is_none)
{
    for (uint64_t chance = 1; chance <= 40; chance++) {
        start_anew(test_state);
        fill_and_close();
        disk_lose_power(chance * 977);
        open_small();
        check_diary();
    }
}

/* The journal is emptied when a store is closed, which need not have got to the disk: there is the
 * old one, and what is written to the new one must not hide a part of it before its head is there.
 */
TEST(a_journal_that_is_begun_anew_leaves_the_old_one_whole)
{
    for (uint64_t chance = 1; chance <= 40; chance++) {
        start_anew(test_state);
        close_store();
        options.journal_bytes = 0;
        open_store();
        fill_and_close();
        disk_arm(DISK_DEAD, 1 + chance % 8);
        assert_false(try_open());
        disk_lose_power(chance * 977);
        open_small();
        check_diary();
    }
}

TEST(a_store_that_cannot_be_opened_says_why)
{
    open_store();
    submit_job("a", "x");
    close_store();
    for (uint64_t at = 1;; at++) {
        disk_arm(DISK_EIO, at);
        if (try_open()) {
            break;
        }
        assert_non_null(strstr(error, "jobs.db"));
        assert_true(at < 100);
    }
    assert_int_equal(found_count, 1);
}

/* Otherwise two starts could give the same epoch to different attempts. */
TEST(the_number_of_a_start_is_on_the_disk_before_anything_is_done)
{
    for (uint32_t boot = 1; boot <= 4; boot++) {
        open_store();
        assert_int_equal(weir_store_boot(store), boot);
        disk_arm(DISK_DEAD, 1);
        close_store();
        disk_lose_power(0);
    }
}

TEST(a_setting_that_does_not_hold_is_found_at_the_start)
{
    static const char *const names[] = {
        "locking_mode",       "trusted_schema", "cell_size_check", "journal_mode", "synchronous",
        "wal_autocheckpoint", "foreign_keys",   "secure_delete",   "temp_store",   "mmap_size",
        "cache_size",         "auto_vacuum",    "application_id",  "user_version"};
    open_store();
    submit_job("a", "x");
    close_store();
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        disk.forgetful = names[i];
        assert_false(try_open());
        assert_non_null(strstr(error, "jobs.db"));
    }
    disk.forgetful = NULL;
    assert_true(try_open());
    assert_int_equal(found_count, 1);
}

/* ---- commits are shared ---- */

#define HANDED 300

static atomic_uint handed_back;

static void note_handed(struct weir_store_op *op)
{
    assert_int_equal(op->end, WEIR_STORE_DONE);
    handed_back++;
}

TEST(what_comes_during_a_commit_shares_the_next)
{
    static struct weir_store_accept accepts[HANDED];
    static struct weir_job_order orders[HANDED];
    static struct weir_acceptance acceptances[HANDED];
    static char ids[HANDED][8];
    open_store();
    submit_job("first", "x");
    for (int i = 0; i < HANDED; i++) {
        snprintf(ids[i], sizeof ids[i], "j%d", i);
        orders[i] = order_of(ids[i], "x");
        accepts[i] =
            (struct weir_store_accept){.op = {.act = WEIR_STORE_ACCEPT, .complete = note_handed},
                                       .orders = &orders[i],
                                       .order_count = 1,
                                       .acceptances = &acceptances[i]};
    }
    handed_back = 0;
    disk.sync_us = 50000;
    uint64_t before = disk.syncs;
    for (int i = 0; i < HANDED; i++) {
        weir_store_sqlite.submit(store, &accepts[i].op);
    }
    assert_true(handed_back <= HANDED / 2); /* nobody is told before a sync that takes so long */
    EXPECT_SOON(handed_back == HANDED);
    assert_in_range(disk.syncs - before, 1, 6);
    /* Many in one operation are one commit. */
    struct weir_store_accept all = {
        .orders = orders, .order_count = HANDED, .acceptances = acceptances};
    for (int i = 0; i < HANDED; i++) {
        ids[i][0] = 'k';
    }
    before = disk.syncs;
    assert_int_equal(call(&all.op, WEIR_STORE_ACCEPT), WEIR_STORE_DONE);
    assert_in_range(disk.syncs - before, 1, 2);
    disk.sync_us = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_write_or_a_sync_that_fails_loses_nothing, begin_failing,
                                        end_failing),
        cmocka_unit_test_setup_teardown(a_full_disk_loses_nothing, begin_failing, end_failing),
        cmocka_unit_test_setup_teardown(a_write_that_is_cut_short_loses_nothing, begin_failing,
                                        end_failing),
        cmocka_unit_test_setup_teardown(a_power_cut_at_any_moment_loses_nothing, begin_failing,
                                        end_failing),
        cmocka_unit_test_setup_teardown(while_the_disk_fails_it_says_why_and_can_be_read,
                                        begin_failing, end_failing),
        cmocka_unit_test_setup_teardown(a_disk_is_tried_again_although_somebody_asks_all_the_time,
                                        begin_failing, end_failing),
        cmocka_unit_test_setup_teardown(a_start_that_was_told_and_never_written_is_settled,
                                        begin_failing, end_failing),
        cmocka_unit_test_setup_teardown(
            what_a_failed_sync_left_in_memory_is_not_believed_by_the_next_start, begin_failing,
            end_failing),
        cmocka_unit_test_setup_teardown(a_journal_that_is_emptied_only_in_part_is_none,
                                        begin_failing, end_failing),
        cmocka_unit_test_setup_teardown(a_journal_that_is_begun_anew_leaves_the_old_one_whole,
                                        begin_failing, end_failing),
        cmocka_unit_test_setup_teardown(a_store_that_cannot_be_opened_says_why, begin_failing,
                                        end_failing),
        cmocka_unit_test_setup_teardown(
            the_number_of_a_start_is_on_the_disk_before_anything_is_done, begin_failing,
            end_failing),
        cmocka_unit_test_setup_teardown(a_setting_that_does_not_hold_is_found_at_the_start,
                                        begin_failing, end_failing),
        cmocka_unit_test_setup_teardown(what_comes_during_a_commit_shares_the_next, begin_failing,
                                        end_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
