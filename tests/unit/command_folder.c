/* The folders of commands: bodies, results, what is left behind, and `.done`. */
#define _GNU_SOURCE
#include "unit/command_loop.h"

#include "runner/folder.h"

#include <sys/resource.h>

/* ---- bodies and results ---- */

TEST(a_body_is_standard_input_and_standard_output_the_result)
{
    struct trial trial = {.run = {"/bin/cat"}, BODY("what is asked")};
    run(&trial);
    expect_result(&trial, "what is asked");
    finish(&trial);
}

TEST(a_command_is_found_in_path)
{
    struct trial trial = {.run = {"cat"}, BODY("found")};
    run(&trial);
    expect_result(&trial, "found");
    finish(&trial);
}

TEST(named_files_take_the_place_of_standard_input_and_output)
{
    struct trial trial = {
        .run = {SCRIPT("test \"$(cat)\" = '' && echo said && tr a-z A-Z <\"$1\" >\"$2\""), "x",
                "{in}", "{out}"},
        BODY("what is asked")};
    run(&trial);
    expect_result(&trial, "WHAT IS ASKED");
    assert_string_equal(trial.log, "said\n");
    finish(&trial);
}

TEST(words_are_replaced_only_as_whole_arguments)
{
    struct trial trial = {.run = {SCRIPT("printf '%s|' \"$@\""), "x", "{id}", "{attempt}",
                                  "{tenant}", "{queue}", "a{id}", "{other}", ""},
                          .attempt = 3};
    run(&trial);
    expect_result(&trial, "order-1|3|acme|pricing|a{id}|{other}||");
    finish(&trial);
}

TEST(a_command_that_makes_no_result_has_an_empty_one)
{
    struct trial trial = {.run = {"/bin/true", "{out}"}};
    run(&trial);
    expect_result(&trial, "");
    finish(&trial);
    trial = (struct trial){.run = {"/bin/true"}};
    run(&trial);
    expect_result(&trial, "");
    finish(&trial);
}

TEST(long_bodies_and_results_are_files)
{
    struct trial trial = {.run = {"/bin/cat"}, .body_path = command_loop.body_path};
    write_body(WEIR_JOB_INLINE_BYTES_MAX + 1);
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_SUCCESS);
    assert_int_equal(trial.count, WEIR_JOB_INLINE_BYTES_MAX + 1);
    assert_int_equal(trial.file, RESULT_FILE);
    expect_letters(command_loop.result_path, WEIR_JOB_INLINE_BYTES_MAX + 1);
    finish(&trial);
    expect_letters(command_loop.result_path, WEIR_JOB_INLINE_BYTES_MAX + 1);
    unlink(command_loop.result_path);
}

TEST(a_result_of_the_largest_size_that_is_at_hand_is_at_hand)
{
    struct trial trial = {.run = {"/bin/cp", "{in}", "{out}"}, .body_path = command_loop.body_path};
    write_body(WEIR_JOB_INLINE_BYTES_MAX);
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_SUCCESS);
    assert_int_equal(trial.count, WEIR_JOB_INLINE_BYTES_MAX);
    assert_int_equal(trial.file, 0);
    assert_int_equal(access(command_loop.result_path, F_OK), -1);
    finish(&trial);
}

TEST(a_command_that_changes_its_body_changes_a_copy)
{
    struct trial trial = {.run = {SCRIPT("echo ruined >\"$1\""), "x", "{in}"},
                          .body_path = command_loop.body_path};
    write_body(100);
    run(&trial);
    expect_result(&trial, "");
    expect_letters(command_loop.body_path, 100);
    finish(&trial);
}

TEST(a_result_with_another_name_is_copied)
{
    struct trial trial = {
        .run = {SCRIPT("mv \"$1\" other && ln other \"$2\""), "x", "{in}", "{out}"},
        .body_path = command_loop.body_path};
    write_body(100000);
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_SUCCESS);
    struct stat status;
    assert_int_equal(stat(command_loop.result_path, &status), 0);
    assert_int_equal(status.st_nlink, 1);
    expect_letters(command_loop.result_path, 100000);
    finish(&trial);
    unlink(command_loop.result_path);
}

TEST(a_folder_that_is_there_already_is_made_anew)
{
    struct trial trial = {.run = {SCRIPT("mkdir -p a/b && touch a/b/c && ls -A")}};
    run(&trial);
    expect_result(&trial, "a\nin\nout\n");
    free(trial.result);
    free(trial.log);
    trial = (struct trial){.run = {SCRIPT("ls -A")}};
    run(&trial);
    expect_result(&trial, "in\nout\n");
    finish(&trial);
}

/* What an attempt that could not be begun has left, in the way of the same one when it comes again:
 * `work/7-1`, and a folder in that which is not empty. */
static void leave_folder(void)
{
    static const char *const names[] = {"work", "work/7-1", "work/7-1/inner",
                                        "work/7-1/inner/most"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", command_loop.folder, names[i]);
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    }
}

TEST(a_folder_that_is_there_and_stays_for_want_of_descriptors_is_told_as_that)
{
    struct weir_folder_order order = {.data = command_loop.folder, .number = 7, .attempt = 1};
    struct rlimit limit;
    int lacking = 0, error = EMFILE;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (rlim_t files = 3; error == EMFILE && files < 40; files++) {
        struct rlimit tight = {files, limit.rlim_max};
        struct weir_folder folder;
        leave_folder();
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
        error = weir_folder_make(&order, &folder);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        lacking += error == EMFILE;
        if (error == 0) {
            close(folder.fd);
        }
    }
    assert_int_equal(error, 0);
    assert_true(lacking > 2);
    weir_command_sweep(command_loop.folder, 7, 1);
}

/* ---- what it leaves ---- */

TEST(only_a_regular_file_is_a_result)
{
    static const struct {
        const char *script;
        const char *sentence;
    } attacks[] = {
        {"ln -s /etc/passwd \"$1\"",
         "the command left a symbolic link as its result; only a regular file counts"},
        {"ln -s /no/such/file \"$1\"",
         "the command left a symbolic link as its result; only a regular file counts"},
        {"mkfifo \"$1\"", "the command left something as its result that is not a regular file"},
        {"mkdir \"$1\"", "the command left something as its result that is not a regular file"},
    };
    for (size_t i = 0; i < COUNT_OF(attacks); i++) {
        struct trial trial = {.run = {SCRIPT(attacks[i].script), "x", "{out}"}};
        run(&trial);
        expect_failed(&trial, WEIR_ATTEMPT_FAILURE, attacks[i].sentence);
        assert_false(is_there(".done"));
        finish(&trial);
    }
}

TEST(standard_output_that_is_replaced_by_a_link_is_not_followed)
{
    struct trial trial = {.run = {SCRIPT("echo true; ln -sf /etc/passwd out")}};
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_FAILURE);
    finish(&trial);
}

TEST(a_link_in_the_place_of_done_is_not_followed)
{
    struct trial trial = {.run = {SCRIPT("ln -s ../../body .done")}};
    write_body(10);
    run(&trial);
    expect_result(&trial, "");
    expect_letters(command_loop.body_path, 10);
    finish(&trial);
}

/* A folder cannot be written to, which is as much as a disk that does not work. */
TEST(a_result_at_hand_needs_no_promise_and_a_longer_one_does)
{
    struct trial trial = {.run = {SCRIPT("mkdir .done; echo result")}};
    write_body(10);
    run(&trial);
    expect_result(&trial, "result\n");
    finish(&trial);
    trial = (struct trial){.run = {SCRIPT("mkdir .done; head -c 65537 /dev/zero")}};
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_FAILURE);
    assert_non_null(strstr(trial.error, "the command's result could not be kept"));
    finish(&trial);
}

TEST(sweeping_removes_whatever_is_there_and_follows_no_link)
{
    char path[160];
    struct trial trial = {
        .run = {
            SCRIPT("mkdir -p a/b/c d && touch a/1 a/b/2 a/b/c/3 && ln -s /etc d/etc && ln -s "
                   "../../.. up && mkfifo p &&"
                   "mkdir .weir-0 && touch .weir-0/x && chmod 0 a/b d && i=0;"
                   "while [ $i -lt 300 ]; do mkdir deep; cd deep; touch file; i=$((i+1)); done")}};
    write_body(10);
    run(&trial);
    expect_result(&trial, "");
    finish(&trial);
    snprintf(path, sizeof path, "%s/work/7-1", command_loop.folder);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
    expect_letters(command_loop.body_path, 10);
}

static bool keep_nine(void *context, uint64_t number)
{
    (*(int *)context)++;
    return number == 9;
}

TEST(all_folders_of_attempts_that_are_not_wanted_are_swept_and_nothing_else)
{
    static const char *const names[] = {"8-1", "9-1", "9-12", "9", "x", "09-1", "9-1x", "9--1"};
    char path[160];
    int asked = 0;
    weir_command_sweep(command_loop.folder, 1, 1); /* which makes `work` */
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/work/%s", command_loop.folder, names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    weir_command_sweep_all(command_loop.folder, keep_nine, &asked);
    assert_int_equal(asked, 3);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/work/%s", command_loop.folder, names[i]);
        assert_int_equal(rmdir(path), i < 1 ? -1 : 0);
    }
}

/* ---- .done ---- */

static bool find(struct weir_job_bytes *result, void **memory)
{
    *memory = NULL;
    return weir_command_finished(
        &(struct weir_command_find){.folder = command_loop.folder,
                                    .number = NUMBER,
                                    .attempt = 1,
                                    .result_file = RESULT_FILE,
                                    .result_path = command_loop.result_path},
        result, memory);
}

TEST(an_attempt_that_has_ended_well_is_found_again)
{
    struct weir_job_bytes result;
    void *memory;
    struct trial trial = {.run = {"/bin/cat"}, BODY("the result")};
    assert_false(find(&result, &memory));
    run(&trial);
    assert_true(find(&result, &memory));
    assert_int_equal(result.count, 10);
    assert_int_equal(result.file, 0);
    assert_memory_equal(result.bytes.data, "the result", 10);
    free(memory);
    finish(&trial);
    assert_false(find(&result, &memory));
}

TEST(a_long_result_is_found_again_although_its_file_is_gone)
{
    struct weir_job_bytes result;
    void *memory;
    struct trial trial = {.run = {"/bin/cat"}, .body_path = command_loop.body_path};
    write_body(100000);
    run(&trial);
    assert_int_equal(unlink(command_loop.result_path),
                     0); /* as the store does to what no row names */
    assert_true(find(&result, &memory));
    assert_int_equal(result.count, 100000);
    assert_int_equal(result.file, RESULT_FILE);
    assert_null(memory);
    expect_letters(command_loop.result_path, 100000);
    finish(&trial);
    unlink(command_loop.result_path);
}

TEST(an_attempt_that_has_failed_is_not_found)
{
    struct weir_job_bytes result;
    void *memory;
    struct trial trial = {.run = {SCRIPT("echo x; exit 1")}};
    run(&trial);
    assert_false(find(&result, &memory));
    finish(&trial);
}

static void write_done(const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/work/%d-1/.done", command_loop.folder, NUMBER);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

TEST(a_promise_that_is_not_whole_is_none)
{
    static const char *const broken[] = {
        "",     "5",     "4\n",  "6\n",  "x\n",
        "05\n", "5\n\n", "-5\n", " 5\n", "99999999999999999999999999999999999999\n"};
    struct weir_job_bytes result;
    void *memory;
    struct trial trial = {.run = {"/bin/cat"}, BODY("hello")};
    run(&trial);
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        write_done(broken[i]);
        assert_false(find(&result, &memory));
    }
    write_done("5\n");
    assert_true(find(&result, &memory));
    free(memory);
    finish(&trial);
}

TEST(a_long_result_that_is_not_all_there_is_not_found)
{
    struct weir_job_bytes result;
    void *memory;
    struct trial trial = {.run = {"/bin/cat"}, .body_path = command_loop.body_path};
    write_body(100000);
    run(&trial);
    write_done("100001\n");
    assert_false(find(&result, &memory));
    write_done("100000\n");
    assert_true(find(&result, &memory));
    finish(&trial);
    unlink(command_loop.result_path);
}

TEST(an_empty_result_is_found_again_with_and_without_a_file)
{
    struct weir_job_bytes result = {.count = 1};
    void *memory;
    struct trial trial = {.run = {"/bin/true", "{out}"}};
    run(&trial);
    assert_false(is_there("out"));
    assert_true(find(&result, &memory));
    assert_int_equal(result.count, 0);
    free(memory);
    write_done("1\n");
    assert_false(find(&result, &memory));
    finish(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_YARD(a_body_is_standard_input_and_standard_output_the_result),
        IN_YARD(a_command_is_found_in_path),
        IN_YARD(named_files_take_the_place_of_standard_input_and_output),
        IN_YARD(words_are_replaced_only_as_whole_arguments),
        IN_YARD(a_command_that_makes_no_result_has_an_empty_one),
        IN_YARD(long_bodies_and_results_are_files),
        IN_YARD(a_result_of_the_largest_size_that_is_at_hand_is_at_hand),
        IN_YARD(a_command_that_changes_its_body_changes_a_copy),
        IN_YARD(a_result_with_another_name_is_copied),
        IN_YARD(a_folder_that_is_there_already_is_made_anew),
        IN_YARD(a_folder_that_is_there_and_stays_for_want_of_descriptors_is_told_as_that),
        IN_YARD(only_a_regular_file_is_a_result),
        IN_YARD(standard_output_that_is_replaced_by_a_link_is_not_followed),
        IN_YARD(a_link_in_the_place_of_done_is_not_followed),
        IN_YARD(a_result_at_hand_needs_no_promise_and_a_longer_one_does),
        IN_YARD(sweeping_removes_whatever_is_there_and_follows_no_link),
        IN_YARD(all_folders_of_attempts_that_are_not_wanted_are_swept_and_nothing_else),
        IN_YARD(an_attempt_that_has_ended_well_is_found_again),
        IN_YARD(a_long_result_is_found_again_although_its_file_is_gone),
        IN_YARD(an_attempt_that_has_failed_is_not_found),
        IN_YARD(a_promise_that_is_not_whole_is_none),
        IN_YARD(a_long_result_that_is_not_all_there_is_not_found),
        IN_YARD(an_empty_result_is_found_again_with_and_without_a_file),
    };
    alarm(250);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
