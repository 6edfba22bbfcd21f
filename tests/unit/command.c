/* Commands: how they end, and what cannot be run. What is asked of each is a small script. */
#define _GNU_SOURCE
#include "unit/command_loop.h"

#include <dlfcn.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/wait.h>

/* ---- ends ---- */

TEST(an_exit_status_is_a_failure_with_the_last_words)
{
    struct trial trial = {
        .run = {SCRIPT("echo out; echo first >&2; echo last >&2; echo >&2; exit 3")}};
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_FAILURE, "the command ended with exit status 3: last");
    assert_string_equal(trial.log, "first\nlast\n\n");
    finish(&trial);
    trial = (struct trial){.run = {"/bin/false"}};
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_FAILURE, "the command ended with exit status 1");
    finish(&trial);
}

TEST(a_signal_kills_and_is_named)
{
    struct trial trial = {.run = {SCRIPT("kill -SEGV $$")}};
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_KILLED,
                  "the command was killed by signal 11 (Segmentation fault)");
    finish(&trial);
    trial = (struct trial){.run = {SCRIPT("kill -KILL $$")}};
    run(&trial);
    expect_failed(
        &trial, WEIR_ATTEMPT_KILLED,
        "the command was killed by signal 9 (Killed); perhaps the machine ran out of memory");
    finish(&trial);
}

TEST(a_timeout_ends_a_command_even_if_it_ignores_sigterm)
{
    struct trial trial = {.run = {SCRIPT("trap '' TERM; while :; do sleep 0.01; done")},
                          .timeout_ms = 100};
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_TIMEOUT, "the command was ended after its timeout of 0.1 s");
    finish(&trial);
}

TEST(a_command_that_ends_well_after_its_timeout_has_timed_out)
{
    struct trial trial = {.run = {SCRIPT("trap 'exit 0' TERM; while :; do sleep 0.01; done")},
                          .timeout_ms = 50,
                          .grace_ns = 60 * SECOND};
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_TIMEOUT);
    assert_false(is_there(".done"));
    finish(&trial);
}

TEST(a_running_command_is_asked_to_end_before_it_is_killed)
{
    struct trial trial = {
        .run = {SCRIPT("trap 'echo asked >&2; exit 0' TERM; echo weir-progress: ready >&2;"
                       "while :; do sleep 0.01; done")},
        .then = CANCEL,
        .grace_ns = 60 * SECOND};
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_CANCELLED, "it was cancelled");
    assert_non_null(strstr(trial.log, "asked\n")); /* it may also tell of its own children's end */
    finish(&trial);
}

TEST(a_cancelled_command_that_does_not_end_is_killed)
{
    struct trial trial = {
        .run = {SCRIPT(
            "trap '' TERM; echo weir-progress: ready >&2; while :; do sleep 0.01; done")},
        .then = CANCEL};
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_CANCELLED, "it was cancelled");
    finish(&trial);
}

TEST(a_command_that_is_stopped_can_be_cancelled)
{
    struct trial trial = {
        .run = {SCRIPT("(until grep -q '^State:.T' /proc/$$/status; do sleep 0.01; done;"
                       "echo weir-progress: ready >&2) & kill -STOP $$")},
        .then = CANCEL,
        .grace_ns = 60 * SECOND};
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_CANCELLED);
    finish(&trial);
}

TEST(a_command_that_is_cancelled_before_it_runs_does_not_run)
{
    struct trial trial = {.run = {SCRIPT("touch ran")}};
    start(&trial);
    weir_command_cancel(trial.command);
    weir_loop_run(&command_loop.loop);
    expect_failed(&trial, WEIR_ATTEMPT_CANCELLED, "it was cancelled");
    assert_false(is_there("ran"));
    finish(&trial);
}

/* The launcher is the only child, and there is no zombie. */
static void expect_only_the_launcher(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), 0);
}

TEST(a_command_that_is_destroyed_is_gone_and_tells_nothing)
{
    struct trial trial = {
        .run = {SCRIPT(
            "trap '' TERM; echo weir-progress: is $$ >&2; while :; do sleep 0.01; done")},
        .then = KILL};
    int pid;
    run(&trial);
    assert_int_equal(sscanf(trial.text, "is %d", &pid), 1);
    assert_true(is_alive(pid));
    assert_true(weir_command_destroy(trial.command, 10000));
    assert_false(is_alive(pid));
    expect_only_the_launcher();
    turn_for(20 * MS);
    assert_false(trial.ended);
    finish(&trial);
}

TEST(a_command_that_is_destroyed_while_its_folder_is_made_tells_nothing)
{
    struct trial trial = {.run = {"/bin/true"}};
    start(&trial);
    weir_disk_rest(command_loop.disk);
    assert_true(weir_command_destroy(trial.command, 10000));
    weir_loop_settle(&command_loop.loop);
    assert_false(trial.ended);
    finish(&trial);
}

/* Both disk threads have something else to do. */
struct hindrance {
    struct weir_disk_task tasks[2];
    sem_t over;
};

static struct hindrance hindrance;

static void hinder(struct weir_disk_task *task)
{
    (void)task;
    sem_wait(&hindrance.over);
}

static void hinder_disk(void)
{
    assert_int_equal(sem_init(&hindrance.over, 0, 0), 0);
    for (int i = 0; i < 2; i++) {
        hindrance.tasks[i] = (struct weir_disk_task){.work = hinder};
        weir_disk_submit(command_loop.disk, &hindrance.tasks[i]);
    }
}

static void let_disk_work(void)
{
    sem_post(&hindrance.over);
    sem_post(&hindrance.over);
    weir_disk_rest(command_loop.disk);
    sem_destroy(&hindrance.over);
}

static size_t open_files(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

TEST(a_command_that_has_ended_well_is_not_destroyed_any_more)
{
    struct trial trial = {
        .run = {SCRIPT("echo weir-progress: ready >&2; until test -e go; do sleep 0.01; done;"
                       "echo well")},
        .then = KILL};
    char path[160];
    run(&trial);
    hinder_disk();
    snprintf(path, sizeof path, "%s/work/%d-1/go", command_loop.folder, NUMBER);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t before = open_files(); open_files() == before;) { /* its log is closed */
        turn_for(MS);
    }
    assert_false(weir_command_destroy(trial.command, 10000));
    assert_false(trial.ended);
    let_disk_work();
    weir_loop_settle(&command_loop.loop);
    assert_true(trial.ended);
    expect_result(&trial, "well\n");
    finish(&trial);
}

/* Each script tells, as its result, the process that it leaves behind. */
TEST(what_a_command_has_started_is_gone_when_its_end_is_told)
{
    static const char *const scripts[] = {
        "sleep 1000 & echo $!",
        "setsid sleep 1000 & echo $!",
        /* twice forked, in a session of its own, deaf to SIGTERM, with an empty environment */
        "(setsid sh -c 'trap \"\" TERM; echo $$ >pid; env -i sleep 1000' &) & "
        "until test -s pid; do sleep 0.01; done; cat pid",
        /* a parent that ends when its child has begun, again and again */
        "(sh -c 'sh -c \"sh -c \\\"echo \\\\\\$\\\\\\$ >pid; exec sleep 1000\\\" &\" &' &); "
        "until test -s pid; do sleep 0.01; done; cat pid",
    };
    for (size_t i = 0; i < COUNT_OF(scripts); i++) {
        struct trial trial = {.run = {SCRIPT(scripts[i])}};
        run(&trial);
        assert_int_equal(trial.end, WEIR_ATTEMPT_SUCCESS);
        pid_t pid = (pid_t)strtol(trial.result, NULL, 10);
        assert_true(pid > 1);
        assert_false(is_alive(pid));
        finish(&trial);
    }
}

TEST(what_a_cancelled_command_has_started_is_gone_when_its_end_is_told)
{
    struct trial trial = {
        .run = {SCRIPT("trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo weir-progress: is $$ >&2;"
                       "sleep 1000' &) & wait; sleep 1000")},
        .then = CANCEL};
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_CANCELLED);
    int pid;
    assert_int_equal(sscanf(trial.text, "is %d", &pid), 1);
    assert_false(is_alive(pid));
    finish(&trial);
}

TEST(who_left_the_group_and_keeps_stderr_open_delays_nothing)
{
    struct trial trial = {.run = {SCRIPT("setsid sleep 1000 & echo said >&2")}};
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_SUCCESS);
    assert_string_equal(trial.log, "said\n");
    finish(&trial);
}

/* ---- what cannot be run ---- */

TEST(a_command_that_is_not_there_is_a_failure_that_names_it)
{
    struct trial trial = {.run = {"no-such-command"}};
    run(&trial);
    expect_failed(
        &trial, WEIR_ATTEMPT_FAILURE,
        "the command \"no-such-command\" was not run: it was not found: No such file or directory");
    finish(&trial);
    trial = (struct trial){.run = {"/no/such/command"}};
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_FAILURE,
                  "the command \"/no/such/command\" was not run: it was not found: No such file or "
                  "directory");
    finish(&trial);
}

TEST(a_file_that_is_no_program_is_a_failure_that_names_it)
{
    write_body(10);
    struct trial trial = {.run = {command_loop.body_path}};
    char sentence[300];
    run(&trial);
    snprintf(sentence, sizeof sentence,
             "the command \"%s\" was not run: it was not found: Permission denied",
             command_loop.body_path);
    expect_failed(&trial, WEIR_ATTEMPT_FAILURE, sentence);
    finish(&trial);
    assert_int_equal(chmod(command_loop.body_path, 0755), 0);
    trial = (struct trial){.run = {command_loop.body_path}};
    run(&trial);
    snprintf(sentence, sizeof sentence,
             "the command \"%s\" was not run: it could not be started: Exec format error",
             command_loop.body_path);
    expect_failed(&trial, WEIR_ATTEMPT_FAILURE, sentence);
    finish(&trial);
}

TEST(a_relative_path_is_looked_up_from_where_weir_is)
{
    struct trial trial = {.run = {"bin/cat"}, BODY("from the root")};
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir("/"), 0);
    run(&trial);
    assert_int_equal(chdir(before), 0);
    expect_result(&trial, "from the root");
    finish(&trial);
}

TEST(a_data_folder_that_is_gone_is_a_failure)
{
    struct trial trial = {.run = {"/bin/true"}};
    char folder[sizeof command_loop.folder];
    memcpy(folder, command_loop.folder, sizeof folder);
    memcpy(command_loop.folder, "/no/such/folder", 16);
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_FAILURE,
                  "the command \"/bin/true\" was not run: its folder could not be made: No such "
                  "file or directory");
    memcpy(command_loop.folder, folder, sizeof folder);
    finish(&trial);
}

TEST(what_is_wrong_with_a_kind_is_said)
{
    struct trial trial = {.run = {"no-such-command"}};
    make_kind(&trial, &kind_room);
    assert_string_equal(
        weir_command_kind_objection(&kind_room.kind),
        "the command \"no-such-command\" cannot be run: No such file or directory in PATH");
    kind_room.run[0] = weir_slice_of("/etc/passwd");
    assert_string_equal(weir_command_kind_objection(&kind_room.kind),
                        "the command \"/etc/passwd\" cannot be run: Permission denied");
    kind_room.run[0] = weir_slice_of("cat");
    assert_null(weir_command_kind_objection(&kind_room.kind));
    kind_room.kind.user = weir_slice_of("nobody-at-all");
    assert_string_equal(weir_command_kind_objection(&kind_room.kind),
                        "commands cannot run as the user \"nobody-at-all\": there is no such user; "
                        "create it, or correct `user`");
    kind_room.kind.user = weir_slice_of("nobody");
    const char *objection = weir_command_kind_objection(&kind_room.kind);
    if (am_root()) {
        assert_null(objection);
    } else {
        assert_non_null(strstr(objection, "start Weir as root, or remove `user`"));
    }
    kind_room.kind.run_count = 0;
    assert_string_equal(weir_command_kind_objection(&kind_room.kind), "no command is named");
}

/* ---- progress and the log ---- */

TEST(progress_is_told_while_a_command_runs)
{
    struct trial trial = {
        .run = {SCRIPT("echo 'weir-progress: 0.25 a quarter' >&2; printf 'weir-progress: 1' >&2")}};
    run(&trial);
    expect_result(&trial, "");
    assert_true(trial.tellings >= 1);
    assert_true(trial.progress == 1);
    assert_string_equal(trial.text, "");
    finish(&trial);
}

TEST(of_a_long_log_the_end_is_kept)
{
    struct trial trial = {
        .run = {SCRIPT("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo the end >&2")}};
    run(&trial);
    expect_result(&trial, "");
    assert_int_equal(trial.log_bytes, WEIR_COMMAND_LOG_BYTES_MAX);
    assert_string_equal(trial.log + trial.log_bytes - 9, "xthe end\n");
    finish(&trial);
}

/* ---- many ---- */

#define MANY    1000
#define AT_ONCE 8

static struct {
    uint32_t started;
    uint32_t ended;
} crowd;

static void start_one_of_many(void);

static void count_end(void *context, const struct weir_command_report *report)
{
    (void)context;
    assert_int_equal(report->end, WEIR_ATTEMPT_SUCCESS);
    assert_int_equal(report->result.count, 4);
    crowd.ended++;
    if (crowd.started < MANY) {
        start_one_of_many();
    } else if (crowd.ended == MANY) {
        weir_loop_stop(&command_loop.loop);
    }
}

static void start_one_of_many(void)
{
    struct weir_job_row row = {
        .number = 100 + crowd.started++,
        .attempts = 1,
        .order = {.id = weir_slice_of("x"), .body = {.count = 4, .bytes = weir_slice_of("body")}}};
    assert_non_null(
        weir_command_start(&(struct weir_command_options){.loop = &command_loop.loop,
                                                          .disk = command_loop.disk,
                                                          .launcher = command_loop.launcher,
                                                          .folder = command_loop.folder,
                                                          .kind = &kind_room.kind,
                                                          .row = &row,
                                                          .result_file = RESULT_FILE,
                                                          .result_path = command_loop.result_path,
                                                          .ended = count_end}));
}

TEST(a_thousand_commands_leave_no_descriptor_and_no_zombie)
{
    struct trial trial = {.run = {"/bin/cat"}};
    size_t before = open_files();
    make_kind(&trial, &kind_room);
    for (int i = 0; i < AT_ONCE; i++) {
        start_one_of_many();
    }
    weir_loop_run(&command_loop.loop);
    assert_true(open_files() <= before + AT_ONCE); /* supervisors that wait for another command */
    expect_only_the_launcher();
}

/* The machine has as many processes as it may, or there is room. In place of libc's, which has both
 * names: with ThreadSanitizer the other one is called. */
static bool crowded;

typedef int clone_function(int (*begin)(void *), void *stack, int flags, void *argument, ...);

static int clone_or_not(int (*begin)(void *), void *stack, int flags, void *argument, va_list more)
{
    if (crowded) {
        errno = EAGAIN;
        return -1;
    }
    clone_function *real = (clone_function *)dlsym(RTLD_NEXT, "__clone");
    assert_non_null(real);
    return real(begin, stack, flags, argument, va_arg(more, void *));
}

int clone(int (*begin)(void *), void *stack, int flags, void *argument, ...)
{
    va_list more;
    va_start(more, argument);
    int pid = clone_or_not(begin, stack, flags, argument, more);
    va_end(more);
    return pid;
}

int __clone(int (*begin)(void *), void *stack, int flags, void *argument, ...);

int __clone(int (*begin)(void *), void *stack, int flags, void *argument, ...)
{
    va_list more;
    va_start(more, argument);
    int pid = clone_or_not(begin, stack, flags, argument, more);
    va_end(more);
    return pid;
}

TEST(without_room_for_a_process_a_command_is_not_begun)
{
    struct trial trial = {.run = {"/bin/true"}};
    crowded = true; /* for the launcher as well, if it begins now */
    weir_launcher_destroy(command_loop.launcher);
    command_loop.launcher = weir_launcher_create();
    assert_non_null(command_loop.launcher);
    run(&trial);
    crowded = false;
    assert_int_equal(trial.end, WEIR_ATTEMPT_UNABLE);
    assert_non_null(strstr(trial.error, "it could not be started: Resource temporarily"));
    finish(&trial);
}

/* What could not be begun, or kept, is not the job's fault. */
TEST(without_descriptors_no_attempt_is_counted_and_nothing_leaks)
{
    struct trial trial = {.run = {"/bin/cat"}, BODY("body")};
    struct rlimit limit, tight;
    size_t before = open_files();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int unable = 0, unkept = 0;
    for (rlim_t files = 5; files < 40; files++) {
        tight = limit;
        tight.rlim_cur = files;
        memset(&trial.error, 0, sizeof trial.error);
        trial.ended = false;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
        run(&trial);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_true(trial.end == WEIR_ATTEMPT_SUCCESS ||
                    (trial.end == WEIR_ATTEMPT_UNABLE &&
                     strstr(trial.error, "Too many open files") != NULL));
        unable += trial.end == WEIR_ATTEMPT_UNABLE;
        unkept += strstr(trial.error, "result could not be kept") != NULL;
        assert_true(open_files() <= before + 1); /* a supervisor that waits for another command */
        finish(&trial);
    }
    assert_int_equal(trial.end, WEIR_ATTEMPT_SUCCESS);
    assert_true(unable > unkept);
}

/* Starts a command that waits, and lets it end when no descriptor is left for its result. */
static void lose_result(struct trial *trial)
{
    struct rlimit limit, tight;
    char path[160];
    snprintf(path, sizeof path, "%s/work/%d-1/go", command_loop.folder, NUMBER);
    start(trial);
    for (int i = 0; i < 1000 && !is_there("begun"); i++) {
        turn_for(10 * MS);
    }
    assert_true(is_there("begun"));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    tight = limit;
    tight.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    assert_int_equal(mknod(path, S_IFREG | 0600, 0), 0);
    turn_for(300 * MS); /* it rests by now, or a little later */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_false(trial->ended);
}

TEST(a_result_that_cannot_be_kept_is_told_after_a_rest_and_does_not_count)
{
    for (int i = 0; i < 3; i++) {
        struct trial trial = {
            .run = {SCRIPT("touch begun; while ! test -e go; do sleep 0.01; done; echo result")}};
        lose_result(&trial);
        if (i == 0) {
            weir_loop_run(&command_loop.loop);
            expect_failed(&trial, WEIR_ATTEMPT_UNABLE,
                          "the command's result could not be kept: Too many open files");
        } else if (i == 1) {
            weir_command_cancel(trial.command);
            weir_loop_run(&command_loop.loop);
            expect_failed(&trial, WEIR_ATTEMPT_CANCELLED, "it was cancelled");
        } else {
            assert_true(weir_command_destroy(trial.command, 10000));
            turn_for(SECOND);
            assert_false(trial.ended);
        }
        finish(&trial);
    }
}

TEST(a_command_that_cannot_be_begun_can_be_cancelled_and_destroyed)
{
    struct rlimit limit, tight;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    tight = limit;
    tight.rlim_cur = 3;
    for (int destroyed = 0; destroyed < 2; destroyed++) {
        struct trial trial = {.run = {"/bin/cat"}, BODY("body")};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
        start(&trial);
        turn_for(100 * MS); /* it rests by now */
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_false(trial.ended);
        if (destroyed) {
            assert_true(weir_command_destroy(trial.command, 10000));
            turn_for(SECOND);
            assert_false(trial.ended);
        } else {
            weir_command_cancel(trial.command);
            weir_loop_run(&command_loop.loop);
            expect_failed(&trial, WEIR_ATTEMPT_CANCELLED, "it was cancelled");
        }
        finish(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_YARD(an_exit_status_is_a_failure_with_the_last_words),
        IN_YARD(a_signal_kills_and_is_named),
        IN_YARD(a_timeout_ends_a_command_even_if_it_ignores_sigterm),
        IN_YARD(a_command_that_ends_well_after_its_timeout_has_timed_out),
        IN_YARD(a_running_command_is_asked_to_end_before_it_is_killed),
        IN_YARD(a_cancelled_command_that_does_not_end_is_killed),
        IN_YARD(a_command_that_is_stopped_can_be_cancelled),
        IN_YARD(a_command_that_is_cancelled_before_it_runs_does_not_run),
        IN_YARD(a_command_that_is_destroyed_is_gone_and_tells_nothing),
        IN_YARD(a_command_that_is_destroyed_while_its_folder_is_made_tells_nothing),
        IN_YARD(a_command_that_has_ended_well_is_not_destroyed_any_more),
        IN_YARD(what_a_command_has_started_is_gone_when_its_end_is_told),
        IN_YARD(what_a_cancelled_command_has_started_is_gone_when_its_end_is_told),
        IN_YARD(who_left_the_group_and_keeps_stderr_open_delays_nothing),
        IN_YARD(a_command_that_is_not_there_is_a_failure_that_names_it),
        IN_YARD(a_file_that_is_no_program_is_a_failure_that_names_it),
        IN_YARD(a_relative_path_is_looked_up_from_where_weir_is),
        IN_YARD(a_data_folder_that_is_gone_is_a_failure),
        IN_YARD(what_is_wrong_with_a_kind_is_said),
        IN_YARD(progress_is_told_while_a_command_runs),
        IN_YARD(of_a_long_log_the_end_is_kept),
        IN_YARD(a_thousand_commands_leave_no_descriptor_and_no_zombie),
        IN_YARD(without_room_for_a_process_a_command_is_not_begun),
        IN_YARD(without_descriptors_no_attempt_is_counted_and_nothing_leaks),
        IN_YARD(a_result_that_cannot_be_kept_is_told_after_a_rest_and_does_not_count),
        IN_YARD(a_command_that_cannot_be_begun_can_be_cancelled_and_destroyed),
    };
    alarm(250);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
