/* What commands are given: limits, environment, files, signals, a user. */
#define _GNU_SOURCE
#include "unit/command_loop.h"

#include <dlfcn.h>

/* ---- limits ---- */

TEST(a_command_that_writes_too_much_fails)
{
    struct trial trial = {.run = {SCRIPT("head -c 5000 /dev/zero; exit 0")},
                          .limits = {.output_bytes = 4096}};
    run(&trial);
    /* The shell does not mind how head ended; what it wrote is just what was allowed. */
    assert_int_equal(trial.end, WEIR_ATTEMPT_SUCCESS);
    assert_int_equal(trial.count, 4096);
    finish(&trial);
    trial = (struct trial){.run = {"head", "-c", "5000", "/dev/zero"},
                           .limits = {.output_bytes = 4096}};
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_FAILURE,
                  "the command wrote more than the 4096 bytes that limits.output allows");
    finish(&trial);
}

TEST(a_command_within_its_output_limit_is_left_alone)
{
    struct trial trial = {.run = {"head", "-c", "4096", "/dev/zero"},
                          .limits = {.output_bytes = 4096}};
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_SUCCESS);
    assert_int_equal(trial.count, 4096);
    finish(&trial);
}

TEST(a_command_that_computes_too_long_fails)
{
    struct trial trial = {.run = {SCRIPT("while :; do :; done")}, .limits = {.cpu_seconds = 1}};
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_FAILURE,
                  "the command used up the 1 s of CPU time that limits.cpu allows");
    finish(&trial);
}

TEST(a_command_that_ignores_its_cpu_limit_is_killed_for_it)
{
    struct trial trial = {.run = {SCRIPT("trap '' XCPU; while :; do :; done")},
                          .limits = {.cpu_seconds = 1}};
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_FAILURE,
                  "the command used up the 1 s of CPU time that limits.cpu allows");
    finish(&trial);
}

TEST(a_command_gets_no_more_memory_than_its_limit)
{
    struct trial trial = {.run = {SCRIPT("ulimit -v")}, .limits = {.memory_bytes = 100 * MIB}};
    run(&trial);
    expect_result(&trial, "102400\n");
    finish(&trial);
    trial = (struct trial){.run = {"dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"},
                           .limits = {.memory_bytes = 100 * MIB}};
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_FAILURE);
    assert_non_null(strstr(trial.error, "exit status 1"));
    finish(&trial);
}

TEST(a_command_gets_no_more_processes_than_its_limit)
{
    struct trial trial = {
        .run = {SCRIPT("ulimit -u; sleep 0.2 & sleep 0.2 & sleep 0.2 & wait; exit 0")},
        .user = "nobody",
        .limits = {.processes = 2}};
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_FAILURE);
    assert_non_null(strstr(trial.log, "fork"));
    finish(&trial);
}

TEST(limits_that_are_not_named_are_those_of_weir_but_for_cores)
{
    struct trial trial = {.run = {SCRIPT("ulimit -c; ulimit -f; ulimit -v")}};
    run(&trial);
    assert_int_equal(strncmp(trial.result, "0\n", 2), 0);
    finish(&trial);
}

/* ---- what it is given ---- */

TEST(the_environment_is_clean)
{
    char expected[500];
    assert_int_equal(setenv("PATH", "/usr/bin:/bin", 1), 0);
    assert_int_equal(setenv("LANG", "C.UTF-8", 1), 0);
    assert_int_equal(setenv("SECRET", "of-weir", 1), 0);
    struct trial trial = {.run = {"/usr/bin/env"}, .environment = {"MODE=fast", "PATHOLOGY=x"}};
    run(&trial);
    snprintf(expected, sizeof expected,
             "PATH=/usr/bin:/bin\nHOME=%1$s/work/"
             "7-1\nLANG=C.UTF-8\nWEIR_JOB_ID=order-1\nWEIR_ATTEMPT=1\n"
             "WEIR_QUEUE=pricing\nWEIR_TENANT=acme\nWEIR_JOB_DIR=%1$s/work/"
             "7-1\nMODE=fast\nPATHOLOGY=x\n",
             command_loop.folder);
    expect_result(&trial, expected);
    finish(&trial);
}

TEST(what_is_configured_takes_the_place_of_what_every_command_has)
{
    assert_int_equal(unsetenv("LANG"), 0);
    struct trial trial = {.run = {"/usr/bin/env"}, .environment = {"PATH=/bin", "HOME=/x"}};
    run(&trial);
    assert_null(strstr(trial.result, "LANG="));
    assert_null(strstr(trial.result, "HOME=/tmp"));
    assert_non_null(strstr(trial.result, "PATH=/bin\nHOME=/x\n"));
    finish(&trial);
}

TEST(no_descriptor_leaks_into_a_command)
{
    int open_fd = open("/etc/passwd", O_RDONLY); /* as a library may do it */
    struct trial trial = {.run = {SCRIPT("i=3; while [ $i -lt 200 ]; do test -e /proc/$$/fd/$i && "
                                         "echo $i; i=$((i+1)); done; exit 0")}};
    run(&trial);
    close(open_fd);
    expect_result(&trial, "");
    finish(&trial);
}

static void run_without_standard_files(struct trial *trial)
{
    int saved[3];
    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 100);
        close(i);
    }
    run(trial);
    for (int i = 0; i < 3; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
}

TEST(a_command_runs_even_if_weir_has_no_standard_files)
{
    struct trial trial = {.run = {SCRIPT("cat; echo said >&2")}, BODY("body")};
    run_without_standard_files(&trial);
    expect_result(&trial, "body");
    assert_string_equal(trial.log, "said\n");
    finish(&trial);
    trial = (struct trial){.run = {SCRIPT("cat \"$1\" >\"$2\"; echo said"), "x", "{in}", "{out}"},
                           BODY("body")};
    run_without_standard_files(&trial);
    expect_result(&trial, "body");
    assert_string_equal(trial.log, "said\n");
    finish(&trial);
}

TEST(signals_are_neither_ignored_nor_blocked_in_a_command)
{
    sigset_t all, before;
    sigfillset(&all);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    struct trial trial = {.run = {"/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"}};
    run(&trial);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    expect_result(&trial, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    finish(&trial);
}

TEST(a_command_has_a_session_a_group_and_no_way_to_more_rights)
{
    struct trial trial = {
        .run = {SCRIPT(
            "grep NoNewPrivs /proc/self/status; cut -d' ' -f1,5,6 /proc/$$/stat; pwd; umask")}};
    run(&trial);
    int pid, group, session, mask;
    char folder[200];
    assert_int_equal(sscanf(trial.result, "NoNewPrivs: 1 %d %d %d %199s %o", &pid, &group, &session,
                            folder, &mask),
                     5);
    assert_int_equal(group, pid);
    assert_int_equal(session, pid);
    assert_int_equal(mask, 077);
    assert_int_equal(strncmp(folder, command_loop.folder, strlen(command_loop.folder)), 0);
    finish(&trial);
}

TEST(a_command_dies_with_weir)
{
    int pipes[2];
    pid_t pid = 0;
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    pid_t weir = fork();
    assert_true(weir >= 0);
    if (weir == 0) {
        char *const argv[] = {(char[]){"sleep"}, (char[]){"1000"}, NULL};
        char *const envp[] = {NULL};
        struct weir_spawned spawned;
        struct weir_spawn spawn = {.path = "/bin/sleep",
                                   .argv = argv,
                                   .envp = envp,
                                   .folder_fd = open("/", O_RDONLY),
                                   .files = {-1, -1, -1}};
        struct weir_launcher *launcher = weir_launcher_create();
        bool told = launcher != NULL && weir_launcher_start(launcher, &spawn, &spawned) == 0 &&
                    write(pipes[1], &spawned.pid, sizeof pid) == sizeof pid;
        _exit(told ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(weir, &status, 0), weir);
    assert_int_equal(status, 0);
    assert_int_equal(read(pipes[0], &pid, sizeof pid), sizeof pid);
    close(pipes[0]);
    close(pipes[1]);
    expect_gone_soon(pid);
}

/* What the list of users answers, with no entry; -1: as it is. */
static int no_user_error = -1;

int getpwnam_r(const char *name, struct passwd *entry, char *room, size_t bytes,
               struct passwd **found)
{
    int (*real)(const char *, struct passwd *, char *, size_t, struct passwd **);
    if (no_user_error != -1) {
        *found = NULL;
        return no_user_error;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "getpwnam_r");
    return real(name, entry, room, bytes, found);
}

TEST(every_answer_that_means_no_such_user_is_told_as_that)
{
    static const int answers[] = {0, ENOENT, ESRCH, EBADF, EPERM};
    struct weir_slice program = weir_slice_of("/bin/true");
    struct weir_command_kind kind = {
        .run = &program, .run_count = 1, .user = weir_slice_of("stranger")};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        no_user_error = answers[i];
        const char *objection = weir_command_kind_objection(&kind);
        no_user_error = -1;
        assert_string_equal(objection, "commands cannot run as the user \"stranger\": there is no "
                                       "such user; create it, or correct `user`");
    }
    no_user_error = EIO;
    const char *objection = weir_command_kind_objection(&kind);
    no_user_error = -1;
    assert_string_equal(objection,
                        "commands cannot run as the user \"stranger\": Input/output error");
}

TEST(a_command_runs_as_the_user_that_is_named)
{
    struct trial trial = {.run = {SCRIPT("id -un; id -Gn; cat \"$1\"; echo changed >\"$1\"; test "
                                         "\"$(ls -ld . | cut -c1-10)\" = drwx------ && touch mine "
                                         "&& echo \"$HOME\" && case $1 in /*) echo reached;; esac"),
                                  "x", "{in}"},
                          .user = "nobody",
                          BODY("body\n")};
    run(&trial);
    if (am_root()) {
        struct passwd *nobody = getpwnam("nobody");
        char expected[200];
        snprintf(expected, sizeof expected, "nobody\nnogroup\nbody\n%s\nreached\n", nobody->pw_dir);
        expect_result(&trial, expected);
        assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
    } else {
        expect_failed(&trial, WEIR_ATTEMPT_FAILURE,
                      "the command \"/bin/sh\" was not run: Weir may not run it as its user: "
                      "Operation not permitted");
    }
    finish(&trial);
}

TEST(another_user_reads_a_long_body_and_cannot_change_it)
{
    if (!am_root()) {
        skip(); /* commands cannot have another user */
    }
    struct trial trial = {
        .run = {SCRIPT("cat \"$1\" >\"$2\"; (echo changed >\"$1\") 2>/dev/null; exit 0"), "x",
                "{in}", "{out}"},
        .user = "nobody",
        .body_path = command_loop.body_path};
    write_body(100000);
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_SUCCESS);
    assert_int_equal(trial.count, 100000);
    expect_letters(command_loop.body_path, 100000);
    expect_letters(command_loop.result_path, 100000);
    struct stat status;
    assert_int_equal(stat(command_loop.result_path, &status), 0);
    assert_int_equal(status.st_uid, geteuid());
    assert_int_equal(status.st_mode & 0777, 0600);
    finish(&trial);
    unlink(command_loop.result_path);
}

TEST(another_user_works_in_a_folder_that_it_cannot_reach_from_the_root)
{
    if (!am_root()) {
        skip(); /* commands cannot have another user */
    }
    struct trial trial = {.run = {SCRIPT("cat \"$1\" >\"$2\""), "x", "{in}", "{out}"},
                          .user = "nobody",
                          BODY("body")};
    assert_int_equal(chmod(command_loop.folder, 0700), 0);
    run(&trial);
    assert_int_equal(chmod(command_loop.folder, 0711), 0);
    expect_result(&trial, "body");
    finish(&trial);
}

/* A file of ours in a folder from which everybody may take things. */
static void put_secret(const char *folder, const char *path, mode_t mode)
{
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_not_equal(fd, -1);
    assert_int_equal(write(fd, "secret", 6), 6);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static bool find_finished(void)
{
    struct weir_job_bytes result;
    void *memory = NULL;
    bool found =
        weir_command_finished(&(struct weir_command_find){.folder = command_loop.folder,
                                                          .number = NUMBER,
                                                          .attempt = 1,
                                                          .result_file = RESULT_FILE,
                                                          .result_path = command_loop.result_path},
                              &result, &memory);
    free(memory);
    return found;
}

TEST(a_file_that_another_user_could_not_read_is_not_his_result)
{
    if (!am_root()) {
        skip(); /* commands cannot have another user */
    }
    char folder[96], path[112];
    snprintf(folder, sizeof folder, "%s/open", command_loop.folder);
    snprintf(path, sizeof path, "%s/secret", folder);
    for (int i = 0; i < 2; i++) {
        struct trial trial = {
            .run = {SCRIPT("echo 6 >.done; mv \"$1\" \"$2\""), "x", path, "{out}"},
            .user = "nobody"};
        bool secret = i == 0 && am_root();
        put_secret(folder, path, i == 0 ? 0600 : 0644);
        run(&trial);
        if (secret) {
            expect_failed(&trial, WEIR_ATTEMPT_FAILURE,
                          "the command left a file of another user as its result; it must be a "
                          "file of its own, so copy it");
        } else {
            expect_result(&trial, "secret");
        }
        /* Nor is it one that was not recorded, whatever his `.done` says. */
        assert_int_equal(find_finished(), !secret);
        finish(&trial);
        assert_int_equal(rmdir(folder), 0);
    }
}

TEST(another_user_may_give_its_long_body_back_as_it_is)
{
    if (!am_root()) {
        skip(); /* commands cannot have another user */
    }
    struct trial trial = {.run = {SCRIPT("mv \"$1\" \"$2\""), "x", "{in}", "{out}"},
                          .user = "nobody",
                          .body_path = command_loop.body_path};
    write_body(100000);
    run(&trial);
    assert_int_equal(trial.end, WEIR_ATTEMPT_SUCCESS);
    expect_letters(command_loop.body_path, 100000);
    expect_letters(command_loop.result_path, 100000);
    finish(&trial);
    unlink(command_loop.result_path);
}

TEST(a_user_who_is_not_there_is_a_failure)
{
    struct trial trial = {.run = {"/bin/true"}, .user = "nobody-at-all"};
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_FAILURE,
                  "the command \"/bin/true\" was not run: its user was not found: No such file or "
                  "directory");
    finish(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_YARD(a_command_that_writes_too_much_fails),
        IN_YARD(a_command_within_its_output_limit_is_left_alone),
        IN_YARD(a_command_that_computes_too_long_fails),
        IN_YARD(a_command_that_ignores_its_cpu_limit_is_killed_for_it),
        IN_YARD(a_command_gets_no_more_memory_than_its_limit),
        IN_YARD(a_command_gets_no_more_processes_than_its_limit),
        IN_YARD(limits_that_are_not_named_are_those_of_weir_but_for_cores),
        IN_YARD(the_environment_is_clean),
        IN_YARD(what_is_configured_takes_the_place_of_what_every_command_has),
        IN_YARD(no_descriptor_leaks_into_a_command),
        IN_YARD(a_command_runs_even_if_weir_has_no_standard_files),
        IN_YARD(signals_are_neither_ignored_nor_blocked_in_a_command),
        IN_YARD(a_command_has_a_session_a_group_and_no_way_to_more_rights),
        IN_YARD(a_command_dies_with_weir),
        cmocka_unit_test(every_answer_that_means_no_such_user_is_told_as_that),
        IN_YARD(a_command_runs_as_the_user_that_is_named),
        IN_YARD(another_user_reads_a_long_body_and_cannot_change_it),
        IN_YARD(another_user_works_in_a_folder_that_it_cannot_reach_from_the_root),
        IN_YARD(a_file_that_another_user_could_not_read_is_not_his_result),
        IN_YARD(another_user_may_give_its_long_body_back_as_it_is),
        IN_YARD(a_user_who_is_not_there_is_a_failure),
    };
    alarm(250);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
