/* A store that finds its files damaged, replaced, or not its own: it says so and leaves them. */
#define _GNU_SOURCE
#include "unit/store_helpers.h"

#include "base/slice.h"

#include <sqlite3.h>

/* ---- damage ---- */

/* Says something to the database behind the store's back. */
static void change_database(const char *sql)
{
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(path_of("jobs.db"), &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

static uint64_t checksum(const char *name)
{
    FILE *stream = fopen(path_of(name), "rb");
    uint64_t sum = 14695981039346656037u;
    int c;
    assert_non_null(stream);
    while ((c = fgetc(stream)) != EOF) {
        sum = (sum ^ (uint64_t)c) * 1099511628211u;
    }
    fclose(stream);
    return sum;
}

/* It is not opened, says so with these words, and leaves the file as it is. */
static void expect_refusal(const char *words)
{
    uint64_t before = checksum("jobs.db");
    assert_false(try_open());
    if (strstr(error, words) == NULL || strstr(error, "jobs.db") == NULL) {
        fail_msg("\"%s\" is not in: %s", words, error);
    }
    assert_true(checksum("jobs.db") == before);
}

static void fill_store(int count)
{
    char id[16];
    open_store();
    for (int i = 0; i < count; i++) {
        snprintf(id, sizeof id, "job-%d", i);
        submit_job(id, "a body that is as long as the others");
    }
    close_store();
}

/* What is written to a file that has no name any more is gone with the process. */
TEST(nothing_is_accepted_once_a_file_was_removed_or_replaced)
{
    static const char *const removals[] = {"rm jobs.db jobs.db-wal", "rm jobs.db-wal",
                                           "mv jobs.db-wal away",
                                           "cp jobs.db copy && mv copy jobs.db", "rm -r ./*"};
    for (size_t i = 0; i < COUNT_OF(removals); i++) {
        struct weir_acceptance acceptance;
        struct weir_store_counts counts;
        options.retry_ms = 1;
        open_store();
        submit_job("a", "one");
        shell(removals[i]);
        for (int k = 0; k < 5; k++) { /* it does not heal by itself */
            assert_int_equal(accept_order(order_of("b", "two"), &acceptance), WEIR_STORE_FAILED);
            usleep(2000);
        }
        weir_store_sqlite.count(store, &counts);
        assert_false(counts.working);
        assert_non_null(strstr(counts.error, "removed or replaced"));
        close_store();
        shell("rm -rf ./*");
    }
}

TEST(a_file_that_is_no_database_is_left_as_it_is)
{
    shell("echo 'dear diary, this is a text that is longer than one hundred bytes, so that it could"
          " well be the header of a database' > jobs.db");
    expect_refusal("damaged or no database");
    shell(": > jobs.db");
    expect_refusal("damaged or no database");
}

TEST(the_database_of_another_program_is_left_as_it_is)
{
    change_database("create table recipes(name)");
    expect_refusal("another program");
}

TEST(the_database_of_a_later_version_is_left_as_it_is)
{
    fill_store(3);
    change_database("pragma user_version = 3");
    expect_refusal("later version");
}

/* How many files are kept as they were when they were found damaged. */
static int count_kept(void)
{
    int count = 0;
    DIR *list = opendir(folder);
    struct dirent *entry;
    assert_non_null(list);
    while ((entry = readdir(list)) != NULL) {
        count += strstr(entry->d_name, "jobs.db.damaged-") == entry->d_name ? 1 : 0;
    }
    closedir(list);
    return count;
}

/* A job that is a dead letter because it is damaged. */
static void expect_dead_letter(const char *id, const char *queue)
{
    struct weir_store_look look;
    assert_int_equal(look_at(id, 0, &look), WEIR_STORE_DONE);
    assert_int_equal(look.row.state, WEIR_JOB_FAILED);
    assert_true(look.row.error.bytes > 0);
    assert_non_null(strstr(look.row.error.data, "damaged on disk"));
    assert_non_null(strstr(look.row.error.data, "under another id")); /* this one is taken */
    expect_slice(look.row.order.queue, queue);
    free(look.op.memory);
}

TEST(what_is_left_of_a_database_that_was_cut_short_is_served)
{
    struct weir_store_counts counts;
    fill_store(300);
    shell("truncate -s 40960 jobs.db && cp jobs.db cut");
    open_store();
    counts = counts_now();
    assert_true(found_count > 10);
    assert_true(found_count < 300);
    assert_true(counts.pages_lost > 0);
    assert_int_equal(count_kept(), 1);
    shell("cmp cut jobs.db.damaged-*");
    for (size_t i = 0; i < found_count; i++) {
        struct weir_store_take take;
        assert_int_equal(take_job(found_numbers[i], &take), WEIR_STORE_DONE);
        expect_slice(take.row.order.body.bytes, "a body that is as long as the others");
        free(take.op.memory);
    }
    uint64_t number = submit_job("a new one", "x");
    assert_true(number > 300); /* no number of a lost job is given again */
    reopen();
    assert_int_equal(count_kept(), 1);
    assert_int_equal(counts_now().pages_lost, 0);
}

/* What a Weir leaves that was killed: a database, and a journal with the latest jobs. One page of
 * the database, which the journal does not have, is damaged. */
static void leave_journal_and_damage(void)
{
    fill_store(300);
    open_store();
    submit_job("late", "a body that is as long as the others");
    shell("cp jobs.db cut && cp jobs.db-wal cut-wal");
    close_store();
    shell("rm jobs.db* && test -s cut-wal"
          " && dd if=/dev/zero of=cut bs=4096 seek=12 count=1 conv=notrunc status=none"
          " && cp cut jobs.db && cp cut-wal jobs.db-wal");
}

TEST(a_damaged_database_and_its_journal_are_kept_as_they_were_found)
{
    leave_journal_and_damage();
    open_store();
    assert_true(counts_now().pages_lost > 0);
    assert_int_equal(state_of("late"), WEIR_JOB_QUEUED);
    assert_int_equal(count_kept(), 2);
    shell("cmp cut jobs.db.damaged-*[0-9] && cmp cut-wal jobs.db.damaged-*-wal");
    shell("test ! -e jobs.db.copy && test ! -e jobs.db.copy-wal");
    reopen();
    assert_int_equal(state_of("late"), WEIR_JOB_QUEUED);
    assert_int_equal(count_kept(), 2);
}

TEST(a_damaged_database_that_cannot_be_copied_stays_as_it_was_and_the_cause_is_told)
{
    static const char *const names[] = {"jobs.db.new", "jobs.db.copy"};
    leave_journal_and_damage();
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_int_equal(mkdir(path_of(names[i]), 0700), 0);
        expect_refusal("Is a directory");
        assert_non_null(strstr(error, names[i]));
        shell("cmp cut jobs.db && cmp cut-wal jobs.db-wal");
        assert_int_equal(rmdir(path_of(names[i])), 0);
        assert_int_equal(count_kept(), 0);
    }
    open_store();
    assert_int_equal(state_of("late"), WEIR_JOB_QUEUED);
}

TEST(a_database_whose_tables_have_other_names_gives_its_rows)
{
    fill_store(3);
    change_database("alter table jobs rename column queue to cue");
    open_store();
    assert_int_equal(found_count, 3);
    assert_int_equal(counts_now().lost, 0);
    assert_int_equal(count_kept(), 1);
}

/* Only the row that is damaged is concerned, and only where that is found. */
TEST(a_row_that_cannot_be_ours_is_a_dead_letter)
{
    static const char *const damages[] = {
        "state = 9",
        "state = 2",
        "attempts = attempts + 1",
        "kills = 1",
        "boot = 1",
        "counter = 1",
        "started_ms = 1",
        "ended_ms = 1",
        "next_ms = 1",
        "keep_ms = 1",
        "result_status = 200",
        "priority = 2",
        "priority = 5",
        "attempts_max = -1",
        "timeout_ms = timeout_ms + 1",
        "cost_ms = 1",
        "created_ms = created_ms + 1",
        "due_ms = 1",
        "dated = 1",
        "key = zeroblob(256)",
        "key = x'41'",
        "type = zeroblob(101)",
        "error = zeroblob(501)",
        "error = x'41'",
        "result_type = zeroblob(101)",
        "body_bytes = 65537",
        "body_bytes = body_bytes - 1",
        "body_bytes = -1, body_file = 9",
        "result_bytes = 65537",
        "result_bytes = -1, result_file = 9",
        "result_file = 9",
        "result_sum = 5",
        "log_bytes = -1",
        "log_bytes = 5",
        "checksum = checksum + 1",
    };
    static const char *const unnamed[] = {
        "id = NULL",          "digest = x'00'",        "digest = zeroblob(32)",
        "id = zeroblob(129)", "id = x'6a6f622d39'",    "queue = NULL",
        "queue = x'41'",      "queue = zeroblob(256)", "tenant = zeroblob(256)",
        "tenant = NULL",      "number = 77",           "checksum = NULL",
    };
    for (size_t i = 0; i < COUNT_OF(damages) + COUNT_OF(unnamed); i++) {
        char change[200];
        bool named = i < COUNT_OF(damages);
        const char *damage = named ? damages[i] : unnamed[i - COUNT_OF(damages)];
        shell("rm -rf jobs.db jobs.db-wal");
        fill_store(3);
        snprintf(change, sizeof change, "update jobs set %s where number = 2", damage);
        change_database(change);
        open_store();
        assert_int_equal(found_count, 3);
        if (counts_now().damaged != 1) {
            fail_msg("%s: not found", damage);
        }
        assert_int_equal(counts_now().dead, 1);
        assert_int_equal(state_of("job-0"), WEIR_JOB_QUEUED);
        assert_int_equal(state_of("job-2"), WEIR_JOB_QUEUED);
        if (named) {
            expect_dead_letter("job-1", "pricing");
        } else {
            expect_dead_letter(strstr(damage, "77") != NULL ? "damaged-77" : "damaged-2",
                               "damaged");
        }
        reopen(); /* it is on record */
        assert_int_equal(counts_now().damaged, 0);
        assert_int_equal(counts_now().dead, 1);
        close_store();
    }
}

/* While Weir runs: what would be served, run or changed is a dead letter instead. */
TEST(a_row_that_is_damaged_later_is_a_dead_letter_when_it_is_read)
{
    struct weir_store_look look;
    struct weir_store_take take;
    sqlite3 *handle;
    fill_store(4);
    /* The store has the file for itself, so that the damage is done to a copy of its rows. */
    assert_int_equal(sqlite3_open(path_of("jobs.db"), &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle,
                                  "create trigger rot after update of state on jobs when"
                                  " new.number = 4 begin"
                                  " update jobs set timeout_ms = 1 where number = 2;"
                                  " update jobs set cost_ms = 1 where number = 3; end",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(handle), SQLITE_OK);
    open_store();
    assert_int_equal(take_job(4, &take), WEIR_STORE_DONE);
    free(take.op.memory);
    assert_int_equal(take_job(2, &take), WEIR_STORE_STALE);
    assert_int_equal(look_at("job-2", 0, &look), WEIR_STORE_FAILED);
    assert_non_null(strstr(look.op.error, "damaged on disk"));
    EXPECT_SOON(counts_now().dead == 2);
    expect_dead_letter("job-1", "pricing");
    expect_dead_letter("job-2", "pricing");
    assert_int_equal(counts_now().damaged, 2);
    assert_int_equal(state_of("job-0"), WEIR_JOB_QUEUED);
    submit_job("another", "x");
}

/* ---- flipped bits ---- */

#define JOBS 60

/* Several hundred, but for the builds that are watched by sanitizers or not optimized, which are
 * clang's. */
#ifdef __clang__
#define FLIPS 150
#else
#define FLIPS 800
#endif

static bool look_is_forgotten(const char *id)
{
    struct weir_store_look look;
    bool forgotten = look_at(id, 0, &look) == WEIR_STORE_DONE && look.row.forgotten;
    free(look.op.memory);
    return forgotten;
}

/* Of every kind of page there is one: bodies beside their jobs, results, ids that are remembered.
 */
static char *body_of(int job)
{
    static char body[9000];
    size_t bytes = job % 5 == 0 ? 3000u : job % 7 == 0 ? 8000u : 60u;
    memset(body, 'a' + job % 26, bytes);
    body[bytes] = '\0';
    return body;
}

static char *result_of(int job)
{
    static char result[6001];
    size_t bytes = job % 4 == 0 ? 6000u : 80u;
    memset(result, 'A' + job % 26, bytes);
    result[bytes] = '\0';
    return result;
}

static enum weir_job_state state_after(int job)
{
    static const enum weir_job_state states[] = {WEIR_JOB_QUEUED, WEIR_JOB_QUEUED, WEIR_JOB_DONE,
                                                 WEIR_JOB_DONE, WEIR_JOB_FAILED};
    return states[job % 5];
}

static const char *name_of(int job)
{
    static char id[32];
    snprintf(id, sizeof id, "job-number-%d", job);
    return id;
}

static void fill_all_tables(void)
{
    options.remember_ms = UINT64_C(1) << 42;
    open_store();
    for (int job = 0; job < JOBS; job++) {
        uint64_t number = submit_job(name_of(job), body_of(job));
        enum weir_job_state after = state_after(job);
        if (after == WEIR_JOB_QUEUED) {
            continue;
        }
        bool gone = job % 10 == 2;
        struct weir_store_settle settle = {
            .number = number,
            .before = WEIR_JOB_RUNNING,
            .epoch = start_job(number),
            .after = after,
            .now_ms = 3000,
            .error = text(after == WEIR_JOB_FAILED ? "exit status 3" : ""),
            .result = {.count = strlen(result_of(job)), .bytes = text(result_of(job))},
            .log = text("a log"),
            .keep_until_ms = gone ? 1 : INT64_C(4000000000000)};
        assert_int_equal(call(&settle.op, WEIR_STORE_SETTLE), WEIR_STORE_DONE);
    }
    EXPECT_SOON(look_is_forgotten(name_of(2)) && look_is_forgotten(name_of(52)));
    close_store();
}

struct verdict {
    int right;
    int dead; /* damaged, and said */
    int lost;
};

static bool is_damaged_letter(const struct weir_job_row *row)
{
    return row->state == WEIR_JOB_FAILED && row->error.bytes > 7 &&
           memmem(row->error.data, row->error.bytes, "damaged", 7) != NULL;
}

/* All that is told of it is what was recorded. */
static void expect_right(int job, const struct weir_job_row *row)
{
    enum weir_job_state state = state_after(job);
    expect_slice(row->order.id, name_of(job));
    expect_slice(row->order.tenant, "acme");
    assert_int_equal(row->number, job + 1);
    assert_int_equal(row->state, state);
    if (row->forgotten) {
        assert_int_equal(job % 10, 2);
        return;
    }
    expect_slice(row->order.queue, "pricing");
    expect_slice(row->order.type, "text/plain");
    assert_int_equal(row->order.attempts_max, 5);
    assert_int_equal(row->order.timeout_ms, 600000);
    assert_int_equal(row->order.created_ms, 1000);
    assert_int_equal(row->attempts, state == WEIR_JOB_QUEUED ? 0 : 1);
    assert_int_equal(row->ended_ms, state == WEIR_JOB_QUEUED ? 0 : 3000);
    expect_slice(row->error, state == WEIR_JOB_FAILED ? "exit status 3" : "");
    if (state != WEIR_JOB_QUEUED) {
        expect_slice(row->result.bytes, result_of(job));
        expect_slice(row->log, "a log");
    }
}

/* A body that is not the one that was handed in does not match its digest: what runs it looks. */
static bool body_is_told(int job, const struct weir_job_row *row)
{
    struct weir_slice body = row->order.body.bytes;
    struct weir_job_order order = order_of(name_of(job), body_of(job));
    assert_memory_equal(row->order.digest, order.digest, sizeof order.digest);
    return weir_slice_equal(body, text(body_of(job)));
}

static void check_job(int job, struct verdict *verdict)
{
    struct weir_store_look look;
    struct weir_store_take take;
    enum weir_store_end end =
        look_at(name_of(job), WEIR_STORE_WITH_RESULT | WEIR_STORE_WITH_LOG, &look);
    if (end == WEIR_STORE_FAILED) {
        assert_non_null(strstr(look.op.error, "damaged on disk"));
        verdict->dead++;
        return;
    }
    if (end != WEIR_STORE_DONE) {
        verdict->lost++;
        return;
    }
    if (is_damaged_letter(&look.row)) {
        verdict->dead++;
        free(look.op.memory);
        return;
    }
    expect_right(job, &look.row);
    free(look.op.memory);
    if (state_after(job) == WEIR_JOB_QUEUED) {
        assert_int_equal(take_job((uint64_t)job + 1, &take), WEIR_STORE_DONE);
        if (!body_is_told(job, &take.row)) {
            verdict->dead++;
            free(take.op.memory);
            return;
        }
        free(take.op.memory);
    }
    verdict->right++;
}

/* Every job is right, or said to be damaged, or counted as lost; and what is new is accepted. */
static struct verdict check_all(void)
{
    struct verdict verdict = {0};
    for (int job = 0; job < JOBS; job++) {
        check_job(job, &verdict);
    }
    struct weir_store_counts counts = counts_now();
    bool told = counts.damaged + counts.lost + counts.ids_lost + counts.pages_lost > 0;
    assert_true(verdict.lost == 0 || told);
    assert_true(counts.working);
    submit_job("a new one", "x");
    close_store();
    open_store(); /* what was mended stays so */
    assert_int_equal(counts_now().lost, 0);
    assert_int_equal(state_of("a new one"), WEIR_JOB_QUEUED);
    close_store();
    return verdict;
}

static void restore(void)
{
    shell("rm -rf jobs.db* bodies/* && cp good jobs.db");
}

static void flip_bit(const char *name, uint64_t bit)
{
    int fd = open(path_of(name), O_RDWR);
    unsigned char byte;
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)(bit / 8)), 1);
    byte = (unsigned char)(byte ^ 1u << bit % 8);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
    close(fd);
}

/* Whether a file is still known to be a database of ours; if not, it must not be touched. */
static bool is_header(uint64_t byte)
{
    return byte < 16 || (byte >= 60 && byte < 64) || (byte >= 68 && byte < 72);
}

TEST(a_bit_that_is_flipped_anywhere_is_found)
{
    struct stat about;
    uint64_t chance = 12345;
    int dead = 0, lost = 0, flips = 0;
    fill_all_tables();
    assert_int_equal(stat(path_of("jobs.db"), &about), 0);
    shell("mv jobs.db good");
    uint64_t bits = (uint64_t)about.st_size * 8;
    uint64_t step = bits / FLIPS;
    for (uint64_t at = 0; at + step < bits; at += step, flips++) {
        chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t bit = at + (chance >> 33) % step;
        restore();
        flip_bit("jobs.db", bit);
        if (!try_open()) {
            if (!is_header(bit / 8)) {
                fail_msg("bit %lu of byte %lu: %s", (unsigned long)(bit % 8),
                         (unsigned long)(bit / 8), error);
            }
            continue;
        }
        struct verdict verdict = check_all();
        assert_true(verdict.right >= JOBS - 3); /* only what is near it is concerned */
        dead += verdict.dead;
        lost += verdict.lost;
    }
    print_message("# %d flips: %d dead letters, %d lost\n", flips, dead, lost);
    assert_true(dead > flips / 20);
}

/* Fills the page at an offset of the database with bytes that follow from `seed`, the first being
 * `kind`; with `seed` 0 all are zeros. */
static void overwrite_page(off_t at, uint64_t seed, unsigned char kind)
{
    unsigned char page[4096] = {0};
    for (size_t i = 0; seed != 0 && i < sizeof page; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        page[i] = (unsigned char)(seed >> 56);
    }
    page[0] = kind;
    int fd = open(path_of("jobs.db"), O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, page, sizeof page, at), sizeof page);
    close(fd);
}

/* A whole page, of every kind. */
static void lose_pages(uint64_t seed, unsigned char kind)
{
    struct stat about;
    int right = 0, pages = 0;
    fill_all_tables();
    assert_int_equal(stat(path_of("jobs.db"), &about), 0);
    shell("mv jobs.db good");
    for (off_t at = 4096; at < about.st_size; at += 4096, pages++) {
        restore();
        overwrite_page(at, seed == 0 ? 0 : seed + (uint64_t)at, kind);
        open_store();
        right += check_all().right;
    }
    print_message("# %d of %d jobs of %d databases\n", right, JOBS * pages, pages);
    assert_true(right > JOBS * pages * 8 / 10);
}

TEST(a_page_of_zeros_costs_what_was_in_it)
{
    lose_pages(0, 0);
}

TEST(a_page_of_chance_costs_what_was_in_it)
{
    lose_pages(1, 0xff);
}

/* The first byte of a page says what it is. */
TEST(a_page_of_chance_that_looks_like_an_inner_one_is_told)
{
    lose_pages(2, 0x05);
}

TEST(a_page_of_chance_that_looks_like_a_leaf_is_told)
{
    lose_pages(3, 0x0d);
}

TEST(a_page_of_chance_that_looks_like_an_index_is_told)
{
    lose_pages(4, 0x0a);
}

/* ---- version 1 ---- */

static void become_version_1(void)
{
    change_database("alter table jobs drop column checksum;"
                    "alter table jobs drop column result_sum;"
                    "alter table bodies drop column checksum;"
                    "alter table results drop column checksum;"
                    "alter table remembered drop column checksum;"
                    "delete from meta where name like 'unchecked%';"
                    "pragma user_version = 1");
}

TEST(a_database_of_version_1_is_read_and_goes_on)
{
    struct verdict verdict;
    fill_all_tables();
    become_version_1();
    open_store();
    verdict = check_all();
    assert_int_equal(verdict.right, JOBS);
    assert_int_equal(count_kept(), 0);
    open_store(); /* rows that were written since have a checksum, which counts */
    uint64_t number = submit_job("young", "x");
    close_store();
    char change[100];
    snprintf(change, sizeof change, "update jobs set checksum = NULL where number = %lu",
             (unsigned long)number);
    change_database(change);
    open_store();
    assert_int_equal(counts_now().damaged, 1);
}

TEST(a_damaged_database_of_version_1_gives_what_can_be_read)
{
    fill_all_tables();
    become_version_1();
    shell("truncate -s -4096 jobs.db");
    open_store();
    assert_true(check_all().right > JOBS / 2);
    assert_int_equal(count_kept(), 1);
}

/* ---- results and ids ---- */

TEST(an_id_whose_record_is_damaged_is_forgotten)
{
    struct weir_store_look look;
    fill_all_tables();
    change_database("update remembered set tenant = x'41' where number = 3");
    open_store();
    assert_int_equal(counts_now().ids_lost, 1);
    assert_int_equal(look_at(name_of(2), 0, &look), WEIR_STORE_UNKNOWN);
    assert_true(look_is_forgotten(name_of(12)));
    submit_job(name_of(2), "again");
}

TEST(a_result_that_is_not_what_was_kept_makes_a_dead_letter)
{
    static const char *const damages[] = {
        "update results set result = zeroblob(3)",
        "update results set result = x'7b7c'",
        "update results set result = NULL",
        "update results set log = x'41'",
        "update results set number = 9",
        "update results set checksum = NULL",
        "delete from results",
    };
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        struct weir_store_look look;
        open_store();
        uint64_t number = submit_job("a", "x");
        struct weir_store_settle settle = {.number = number,
                                           .before = WEIR_JOB_RUNNING,
                                           .epoch = start_job(number),
                                           .after = WEIR_JOB_DONE,
                                           .now_ms = 3000,
                                           .result = {.count = 2, .bytes = text("{}")},
                                           .keep_until_ms = INT64_C(4000000000000)};
        assert_int_equal(call(&settle.op, WEIR_STORE_SETTLE), WEIR_STORE_DONE);
        close_store();
        change_database(damages[i]);
        open_store();
        assert_int_equal(look_at("a", 0, &look), WEIR_STORE_DONE);
        free(look.op.memory);
        assert_int_equal(look_at("a", WEIR_STORE_WITH_RESULT, &look), WEIR_STORE_FAILED);
        assert_non_null(strstr(look.op.error, "damaged"));
        EXPECT_SOON(state_of("a") == WEIR_JOB_FAILED);
        assert_true(counts_now().working);
        assert_int_equal(counts_now().dead, 1);
        struct weir_store_redrive redrive = {.number = number};
        assert_int_equal(call(&redrive.op, WEIR_STORE_REDRIVE), WEIR_STORE_DONE);
        assert_int_equal(redrive.row_count, 1);
        free(redrive.op.memory);
        assert_int_equal(state_of("a"), WEIR_JOB_QUEUED);
        close_store();
        shell("rm -rf ./*");
    }
}

TEST(a_journal_or_files_without_their_database_are_left_as_they_are)
{
    fill_store(3);
    shell("mv jobs.db away && echo something > jobs.db-wal");
    assert_false(try_open());
    assert_non_null(strstr(error, "jobs.db-wal"));
    shell("rm jobs.db-wal && touch bodies/7");
    assert_false(try_open());
    assert_non_null(strstr(error, "bodies"));
    assert_int_equal(access(path_of("bodies/7"), F_OK), 0);
    shell("mv away jobs.db");
    open_store();
    assert_int_equal(access(path_of("bodies/7"), F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIFE(nothing_is_accepted_once_a_file_was_removed_or_replaced),
        LIFE(a_file_that_is_no_database_is_left_as_it_is),
        LIFE(the_database_of_another_program_is_left_as_it_is),
        LIFE(the_database_of_a_later_version_is_left_as_it_is),
        LIFE(what_is_left_of_a_database_that_was_cut_short_is_served),
        LIFE(a_damaged_database_and_its_journal_are_kept_as_they_were_found),
        LIFE(a_damaged_database_that_cannot_be_copied_stays_as_it_was_and_the_cause_is_told),
        LIFE(a_database_whose_tables_have_other_names_gives_its_rows),
        LIFE(a_row_that_cannot_be_ours_is_a_dead_letter),
        LIFE(a_row_that_is_damaged_later_is_a_dead_letter_when_it_is_read),
        LIFE(a_bit_that_is_flipped_anywhere_is_found),
        LIFE(a_page_of_zeros_costs_what_was_in_it),
        LIFE(a_page_of_chance_costs_what_was_in_it),
        LIFE(a_page_of_chance_that_looks_like_an_inner_one_is_told),
        LIFE(a_page_of_chance_that_looks_like_a_leaf_is_told),
        LIFE(a_page_of_chance_that_looks_like_an_index_is_told),
        LIFE(a_database_of_version_1_is_read_and_goes_on),
        LIFE(a_damaged_database_of_version_1_gives_what_can_be_read),
        LIFE(an_id_whose_record_is_damaged_is_forgotten),
        LIFE(a_result_that_is_not_what_was_kept_makes_a_dead_letter),
        LIFE(a_journal_or_files_without_their_database_are_left_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
