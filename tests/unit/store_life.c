/* A store over time: starts, crashes, damage, what is forgotten, and how much disk that leaves. */
#define _GNU_SOURCE
#include "unit/store_helpers.h"

#include "store/disk.h"
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
    assert_non_null(strstr(wrong, "memory"));
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
    assert_non_null(strstr(wrong, deeper));
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
        bool taken = weir_lock_take(folder, wrong, sizeof wrong) >= 0;
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
    if (strstr(wrong, words) == NULL || strstr(wrong, "jobs.db") == NULL) {
        fail_msg("\"%s\" is not in: %s", words, wrong);
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
        assert_non_null(strstr(counts.wrong, "removed or replaced"));
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
    change_database("pragma user_version = 2");
    expect_refusal("later version");
}

TEST(a_database_that_was_cut_short_is_left_as_it_is)
{
    fill_store(300);
    shell("truncate -s -4096 jobs.db");
    expect_refusal("damaged");
}

TEST(a_database_whose_tables_are_not_ours_is_left_as_it_is)
{
    fill_store(3);
    change_database("alter table jobs rename column queue to cue");
    expect_refusal("damaged");
}

TEST(a_row_that_cannot_be_ours_is_found_at_the_start)
{
    static const char *const damages[] = {
        "state = 9",    "id = NULL",         "digest = x'00'",
        "priority = 5", "attempts_max = -1", "id = zeroblob(129)",
    };
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        char change[200];
        shell("rm -rf jobs.db jobs.db-wal");
        fill_store(3);
        snprintf(change, sizeof change, "update jobs set %s where number = 2", damages[i]);
        change_database(change);
        expect_refusal("damaged");
    }
}

static void flip(const char *name, long at)
{
    FILE *stream = fopen(path_of(name), "r+b");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, at, SEEK_SET), 0);
    int c = fgetc(stream);
    assert_int_equal(fseek(stream, at, SEEK_SET), 0);
    fputc(c ^ 0xff, stream);
    fclose(stream);
}

/* Wherever a byte is wrong, it is told, or the jobs come out whole or with a body whose digest
 * tells; nothing crashes, and no job is made up. */
TEST(a_byte_that_is_wrong_anywhere_does_no_harm)
{
    struct stat about;
    int refused = 0;
    fill_store(60);
    assert_int_equal(stat(path_of("jobs.db"), &about), 0);
    shell("cp jobs.db good");
    for (long at = 0; at < about.st_size; at += 97) {
        shell("cp good jobs.db && rm -f jobs.db-wal");
        flip("jobs.db", at);
        if (!try_open()) {
            refused++;
            continue;
        }
        assert_true(found_count <= 60);
        for (size_t i = 0; i < found_count && i < 3; i++) {
            struct weir_store_take take;
            take_job(found_numbers[i], &take);
            free(take.op.memory);
        }
        close_store();
    }
    assert_true(refused > 10);
}

TEST(damage_that_is_found_later_stops_all_writing)
{
    struct weir_store_look look;
    struct weir_acceptance acceptance;
    fill_store(1);
    change_database("insert into remembered values(7, x'676f6e65', x'00', 2, NULL, 0, 0)");
    open_store();
    assert_int_equal(look_at("gone", 0, &look), WEIR_STORE_FAILED);
    assert_non_null(strstr(look.op.wrong, "damaged"));
    assert_int_equal(accept_order(order_of("b", "y"), &acceptance), WEIR_STORE_FAILED);
    assert_false(counts_now().working);
    assert_int_equal(state_of("job-0"), WEIR_JOB_QUEUED);
}

TEST(a_journal_or_files_without_their_database_are_left_as_they_are)
{
    fill_store(3);
    shell("mv jobs.db away && echo something > jobs.db-wal");
    assert_false(try_open());
    assert_non_null(strstr(wrong, "jobs.db-wal"));
    shell("rm jobs.db-wal && touch bodies/7");
    assert_false(try_open());
    assert_non_null(strstr(wrong, "bodies"));
    assert_int_equal(access(path_of("bodies/7"), F_OK), 0);
    shell("mv away jobs.db");
    open_store();
    assert_int_equal(access(path_of("bodies/7"), F_OK), -1);
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
    expect_done_with_file(acceptance.number, second, WEIR_JOB_DONE, wall_now_ms() + 300);
    EXPECT_SOON(!file_exists(first));
    assert_true(file_exists(second));
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

/* ---- the disk's use ---- */

static uint64_t file_bytes(const char *name)
{
    struct stat about;
    return stat(path_of(name), &about) == 0 ? (uint64_t)about.st_size : 0;
}

#define SHORT_JOBS   20000
#define SHORT_WINDOW 500

struct short_life {
    struct weir_store_accept accept;
    struct weir_store_take take;
    struct weir_store_settle settle;
    struct weir_job_order order;
    struct weir_acceptance acceptance;
    char id[24];
};

static struct short_life lives[SHORT_WINDOW];
static char short_body[1000];

static void accept_short(int first)
{
    for (int i = 0; i < SHORT_WINDOW; i++) {
        struct short_life *life = &lives[i];
        snprintf(life->id, sizeof life->id, "short-%d", first + i);
        life->order = order_of(life->id, short_body);
        life->accept = (struct weir_store_accept){
            .op = {.act = WEIR_STORE_ACCEPT, .complete = note_completion},
            .orders = &life->order,
            .order_count = 1,
            .acceptances = &life->acceptance};
        weir_store_sqlite.submit(store, &life->accept.op);
    }
    wait_for_completions(SHORT_WINDOW);
}

/* Two completions follow. */
static void run_short(struct short_life *life, uint64_t number)
{
    struct weir_epoch epoch = {weir_store_boot(store), ++epoch_counter};
    life->take =
        (struct weir_store_take){.op = {.act = WEIR_STORE_TAKE, .complete = note_completion},
                                 .number = number,
                                 .epoch = epoch};
    life->settle =
        (struct weir_store_settle){.op = {.act = WEIR_STORE_SETTLE, .complete = note_completion},
                                   .number = number,
                                   .before = WEIR_JOB_RUNNING,
                                   .epoch = epoch,
                                   .after = WEIR_JOB_DONE,
                                   .now_ms = wall_now_ms(),
                                   .keep_until_ms = wall_now_ms()};
    weir_store_sqlite.submit(store, &life->take.op);
    weir_store_sqlite.submit(store, &life->settle.op);
}

/* A window of jobs goes through its whole life, all at once. */
static void live_short(int first)
{
    accept_short(first);
    for (int i = 0; i < SHORT_WINDOW; i++) {
        assert_int_equal(lives[i].accept.op.end, WEIR_STORE_DONE);
        run_short(&lives[i], lives[i].acceptance.number);
    }
    wait_for_completions(2 * SHORT_WINDOW);
    for (int i = 0; i < SHORT_WINDOW; i++) {
        assert_int_equal(lives[i].settle.op.end, WEIR_STORE_DONE);
        free(lives[i].take.op.memory);
    }
}

/* The load under which some queues' logs grow for ever. */
TEST(one_old_job_and_many_short_ones_leave_a_small_file)
{
    const char *many = getenv("WEIR_STORE_SHORT_JOBS");
    int count = many == NULL ? SHORT_JOBS : (int)strtol(many, NULL, 10);
    uint64_t most = 0;
    memset(short_body, 'x', sizeof short_body - 1);
    options.remember_ms = 1;
    open_store();
    submit_job("old", "it waits for ever");
    for (int done = 0; done < count; done += SHORT_WINDOW) {
        live_short(done);
        uint64_t bytes = file_bytes("jobs.db") + file_bytes("jobs.db-wal");
        most = bytes > most ? bytes : most;
    }
    EXPECT_SOON(counts_now().remembered == 1);
    EXPECT_SOON(file_bytes("jobs.db-wal") == 0);
    print_message("# at most %.1f MB, then %.1f MB\n", (double)most / 1e6,
                  (double)file_bytes("jobs.db") / 1e6);
    assert_true(file_bytes("jobs.db") < 2000000);
    EXPECT_SOON(counts_now().disk_bytes < 2000000);
    assert_true(most < 64000000);
    reopen();
    assert_int_equal(found_count, 1);
}

#define SCATTERED 40000

/* One in three, by chance. */
static bool stays(uint64_t number)
{
    number *= UINT64_C(0x9e3779b97f4a7c15);
    return (number ^ number >> 32) % 3 == 0;
}

/* Those that stay are spread over all pages, which become empty a little at a time. */
TEST(few_jobs_that_stay_among_many_that_go_lie_close_together)
{
    uint64_t stay_count = 0;
    short_body[200] = '\0';
    memset(short_body, 'x', 200);
    options.remember_ms = 1;
    open_store();
    for (int first = 0; first < SCATTERED; first += SHORT_WINDOW) {
        accept_short(first);
    }
    for (uint64_t first = 0; first < SCATTERED; first += SHORT_WINDOW) {
        uint32_t count = 0;
        for (uint64_t i = first; i < first + SHORT_WINDOW; i++) {
            uint64_t number = i * 7919 % SCATTERED + 1; /* each once, in no order */
            if (stays(number)) {
                stay_count++;
            } else {
                run_short(&lives[count++], number);
            }
        }
        wait_for_completions(2 * count);
        for (uint32_t i = 0; i < count; i++) {
            free(lives[i].take.op.memory);
        }
    }
    EXPECT_SOON(counts_now().remembered == stay_count);
    EXPECT_SOON(file_bytes("jobs.db-wal") == 0);
    EXPECT_SOON(file_bytes("jobs.db") / stay_count < 560);
    print_message("# %u bytes for one of about 350\n",
                  (unsigned)(file_bytes("jobs.db") / stay_count));
    reopen();
    assert_int_equal(found_count, stay_count);
    for (size_t i = 0; i < found_count; i += 1000) {
        struct weir_store_take take;
        assert_true(stays(found_numbers[i]));
        assert_int_equal(take_job(found_numbers[i], &take), WEIR_STORE_DONE);
        expect_slice(take.row.order.body.bytes, short_body);
        free(take.op.memory);
    }
}

/* ---- a store that never rests ---- */

/* Somebody asks again as soon as he is answered: there is always something to do. */
static struct {
    struct weir_store_look look;
    atomic_bool ends;
} pest;

static void ask_again(struct weir_store_op *op)
{
    free(op->memory);
    if (atomic_load(&pest.ends)) {
        note_completion(op);
    } else {
        weir_store_sqlite.submit(store, op);
    }
}

static void begin_to_ask(void)
{
    atomic_store(&pest.ends, false);
    pest.look = (struct weir_store_look){.op = {.act = WEIR_STORE_LOOK, .complete = ask_again},
                                         .number = 1};
    weir_store_sqlite.submit(store, &pest.look.op);
}

static void cease_to_ask(void)
{
    atomic_store(&pest.ends, true);
    wait_for_completions(1);
}

/* What a job of these takes, about, in pages that are full. */
#define SCATTERED_BYTES 356

/* The journal is copied when it has 8 MiB, and a batch that follows has as many at most. */
#define JOURNAL_MOST (UINT64_C(17) << 20)

/* The file, as a multiple of what lives in it. */
static double file_times(uint64_t live_count)
{
    return (double)file_bytes("jobs.db") / (double)(live_count * SCATTERED_BYTES);
}

/* The file gets smaller when the journal is copied to it, which is now and then: so much may have
 * been given back that it does not know of yet. docs/JOBS.md allows for eight times as much. */
#define UNCOPIED_BYTES (UINT64_C(1) << 19)

/* The most that was measured. */
struct extent {
    double times;
    uint64_t journal_bytes;
};

static void measure(struct extent *most, uint64_t live_count)
{
    double slack = (double)UNCOPIED_BYTES / (double)(live_count * SCATTERED_BYTES);
    double times = file_times(live_count) - slack;
    uint64_t journal_bytes = file_bytes("jobs.db-wal");
    most->times = times > most->times ? times : most->times;
    most->journal_bytes = journal_bytes > most->journal_bytes ? journal_bytes : most->journal_bytes;
}

/* Of so many new ones one in three stays, the others go in no order. */
static struct extent scatter(uint64_t base, uint64_t *live_count)
{
    struct extent most = {0};
    for (int first = 0; first < SCATTERED; first += SHORT_WINDOW) {
        accept_short((int)base + first);
    }
    *live_count += SCATTERED;
    for (uint64_t first = 0; first < SCATTERED; first += SHORT_WINDOW) {
        uint32_t count = 0;
        for (uint64_t i = first; i < first + SHORT_WINDOW; i++) {
            uint64_t number = base + i * 7919 % SCATTERED; /* each once */
            if (!stays(number)) {
                run_short(&lives[count++], number);
            }
        }
        wait_for_completions(2 * count);
        for (uint32_t i = 0; i < count; i++) {
            free(lives[i].take.op.memory);
        }
        *live_count -= count;
        measure(&most, *live_count);
    }
    return most;
}

static bool is_tidied(uint64_t live_count)
{
    return counts_now().remembered == live_count && file_bytes("jobs.db-wal") == 0 &&
           file_times(live_count) < 1.7;
}

/* Nothing is asserted before the last question, which would otherwise be asked for ever. */
TEST(a_store_that_never_rests_stays_small)
{
    uint64_t live_count = 1;
    short_body[200] = '\0';
    memset(short_body, 'x', 200);
    options.remember_ms = 1;
    open_store();
    submit_job("old", "it waits for ever");
    begin_to_ask();
    struct extent most = scatter(2, &live_count);
    /* Nor do those who only read keep it from being tidied. */
    bool tidied = false;
    for (int tries = 0; tries < 20000 && !tidied; tries++) {
        tidied = is_tidied(live_count);
        usleep(1000);
    }
    cease_to_ask();
    print_message("# at most %.2f times what lives in it, and a journal of %.1f MB\n", most.times,
                  (double)most.journal_bytes / 1e6);
    assert_true(most.times < 2);
    assert_true(most.journal_bytes < JOURNAL_MOST);
    assert_true(tidied);
    reopen();
    assert_int_equal(found_count, live_count);
}

/* ---- the disk's threads ---- */

struct errand {
    struct weir_disk_task task;
    atomic_int *count;
    struct weir_disk *disk;
    int again;
};

static void do_errand(struct weir_disk_task *task)
{
    struct errand *errand = (struct errand *)(void *)task;
    if (errand->again-- > 0) {
        weir_disk_submit(errand->disk, task);
        return;
    }
    atomic_fetch_add(errand->count, 1);
}

TEST(the_disks_threads_rest_when_every_task_is_done)
{
    static struct errand errands[1000];
    struct weir_disk *threads = weir_disk_create(2);
    assert_non_null(threads);
    weir_disk_rest(threads); /* at once */
    for (int round = 1; round <= 3; round++) {
        atomic_int count = 0;
        for (size_t i = 0; i < COUNT_OF(errands); i++) {
            errands[i] = (struct errand){{.work = do_errand}, &count, threads, (int)i % 3};
            weir_disk_submit(threads, &errands[i].task);
        }
        weir_disk_rest(threads);
        assert_int_equal(atomic_load(&count), COUNT_OF(errands));
    }
    weir_disk_destroy(threads);
}

TEST(every_task_for_the_disk_is_done_before_its_threads_end)
{
    static struct errand errands[1000];
    for (uint32_t threads_count = 1; threads_count <= 4; threads_count += 3) {
        atomic_int count = 0;
        struct weir_disk *threads = weir_disk_create(threads_count);
        assert_non_null(threads);
        for (size_t i = 0; i < COUNT_OF(errands); i++) {
            errands[i] = (struct errand){{.work = do_errand}, &count, threads, (int)i % 3};
            weir_disk_submit(threads, &errands[i].task);
        }
        EXPECT_SOON(atomic_load(&count) > 500);
        EXPECT_SOON(atomic_load(&count) == COUNT_OF(errands));
        weir_disk_destroy(threads);
    }
    atomic_int count = 0;
    struct weir_disk *threads = weir_disk_create(2);
    for (size_t i = 0; i < COUNT_OF(errands); i++) {
        errands[i] = (struct errand){{.work = do_errand}, &count, threads, 0};
        weir_disk_submit(threads, &errands[i].task);
    }
    weir_disk_destroy(threads);
    assert_int_equal(atomic_load(&count), COUNT_OF(errands));
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

#define LIFE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIFE(every_start_has_a_boot_number_of_its_own),
        LIFE(after_a_crash_everything_that_was_acknowledged_is_there),
        LIFE(without_memory_for_its_jobs_it_is_not_opened),
        LIFE(the_folder_is_made_if_its_parent_is_there),
        LIFE(a_second_weir_on_the_same_folder_is_told_of_the_first),
        LIFE(a_folder_whose_weir_has_died_is_free_though_a_child_of_it_still_has_the_lock),
        LIFE(nothing_is_accepted_once_a_file_was_removed_or_replaced),
        LIFE(a_file_that_is_no_database_is_left_as_it_is),
        LIFE(the_database_of_another_program_is_left_as_it_is),
        LIFE(the_database_of_a_later_version_is_left_as_it_is),
        LIFE(a_database_that_was_cut_short_is_left_as_it_is),
        LIFE(a_database_whose_tables_are_not_ours_is_left_as_it_is),
        LIFE(a_row_that_cannot_be_ours_is_found_at_the_start),
        LIFE(a_byte_that_is_wrong_anywhere_does_no_harm),
        LIFE(damage_that_is_found_later_stops_all_writing),
        LIFE(a_journal_or_files_without_their_database_are_left_as_they_are),
        LIFE(a_file_is_there_as_long_as_a_job_refers_to_it),
        LIFE(a_result_is_forgotten_in_time_and_its_id_is_not),
        LIFE(an_id_is_forgotten_in_time_and_its_number_never_given_again),
        LIFE(nothing_is_left_of_what_is_forgotten),
        LIFE(one_old_job_and_many_short_ones_leave_a_small_file),
        LIFE(a_store_that_never_rests_stays_small),
        LIFE(few_jobs_that_stay_among_many_that_go_lie_close_together),
        cmocka_unit_test(the_disks_threads_rest_when_every_task_is_done),
        cmocka_unit_test(every_task_for_the_disk_is_done_before_its_threads_end),
        LIFE(many_threads_may_hand_over_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
