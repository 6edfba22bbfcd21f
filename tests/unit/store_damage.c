/* A store that finds its files damaged, replaced, or not its own: it says so and leaves them. */
#define _GNU_SOURCE
#include "unit/store_helpers.h"

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
        "state = 9",
        "id = NULL",
        "digest = x'00'",
        "priority = 5",
        "attempts_max = -1",
        "id = zeroblob(129)",
        "queue = NULL",
        "queue = zeroblob(256)",
        "tenant = zeroblob(256)",
        "key = zeroblob(256)",
        "type = zeroblob(101)",
        "error = zeroblob(501)",
        "result_type = zeroblob(101)",
        "body_bytes = 65537",
        "body_bytes = -1, body_file = 9",
        "result_bytes = 65537",
        "result_bytes = -1, result_file = 9",
        "log_bytes = -1",
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

TEST(a_result_of_another_length_than_its_row_says_is_damage)
{
    static const char *const damages[] = {
        "update jobs set result_bytes = 3",
        "update results set result = zeroblob(3)",
        "update results set result = NULL",
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
        assert_non_null(strstr(look.op.wrong, "damaged"));
        assert_false(counts_now().working);
        close_store();
        shell("rm -rf ./*");
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIFE(nothing_is_accepted_once_a_file_was_removed_or_replaced),
        LIFE(a_file_that_is_no_database_is_left_as_it_is),
        LIFE(the_database_of_another_program_is_left_as_it_is),
        LIFE(the_database_of_a_later_version_is_left_as_it_is),
        LIFE(a_database_that_was_cut_short_is_left_as_it_is),
        LIFE(a_database_whose_tables_are_not_ours_is_left_as_it_is),
        LIFE(a_row_that_cannot_be_ours_is_found_at_the_start),
        LIFE(a_byte_that_is_wrong_anywhere_does_no_harm),
        LIFE(damage_that_is_found_later_stops_all_writing),
        LIFE(a_result_of_another_length_than_its_row_says_is_damage),
        LIFE(a_journal_or_files_without_their_database_are_left_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
