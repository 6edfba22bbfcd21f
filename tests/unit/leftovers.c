/* Processes that an earlier Weir has left, as the next one finds and ends them. */
#define _GNU_SOURCE
#include "unit/helpers.h"

#include "runner/leftovers.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static char attempt[96];
static char error[1000];

/* As where /proc is not mounted, if the test says so. */
static bool proc_is_missing;

DIR *opendir(const char *path)
{
    DIR *(*real)(const char *);
    if (proc_is_missing && strcmp(path, "/proc") == 0) {
        errno = ENOENT;
        return NULL;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "opendir");
    return real(path);
}

static int make_folder(void **state)
{
    (void)state;
    memcpy(folder, "/tmp/weir-leftovers-XXXXXX", 27);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(attempt, sizeof attempt, "%s/work", folder);
    if (mkdir(attempt, 0700) != 0) {
        return -1;
    }
    snprintf(attempt, sizeof attempt, "%s/work/7-1", folder);
    return mkdir(attempt, 0700);
}

static int remove_folder(void **state)
{
    (void)state;
    char path[96];
    snprintf(path, sizeof path, "%s/work.lock", folder);
    unlink(path);
    rmdir(attempt);
    snprintf(path, sizeof path, "%s/work", folder);
    rmdir(path);
    return rmdir(folder);
}

/* A process that sleeps in `place`, with that WEIR_JOB_DIR; it has begun when this returns. */
static pid_t begin_in(const char *place, const char *value)
{
    char variable[200];
    int ends[2];
    snprintf(variable, sizeof variable, "WEIR_JOB_DIR=%s", value);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char *argv[] = {(char[]){"sleep"}, (char[]){"1000"}, NULL};
        char *envp[] = {(char[]){"A=b"}, variable, (char[]){"C=d"}, NULL};
        if (chdir(place) == 0) {
            execve("/bin/sleep", argv, envp);
        }
        _exit(127);
    }
    char byte;
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* closed by execve() */
    close(ends[0]);
    return pid;
}

static void expect_killed(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void expect_untouched(pid_t pid)
{
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(what_was_started_in_an_attempt_is_killed_and_nothing_else)
{
    char beside[160];
    snprintf(beside, sizeof beside, "%s/workshop", folder);
    pid_t reached = begin_in("/", attempt);
    pid_t unreached = begin_in(attempt, ".");
    pid_t stranger = begin_in(attempt, "/somewhere/else/work/7-1");
    pid_t neighbour = begin_in("/", beside);
    pid_t elsewhere = begin_in("/tmp", ".");
    int fd = weir_leftovers_end(folder, true, 10000, error, sizeof error);
    assert_true(fd >= 0);
    close(fd);
    expect_killed(reached);
    expect_killed(unreached);
    expect_untouched(stranger);
    expect_untouched(neighbour);
    expect_untouched(elsewhere);
}

TEST(without_a_list_of_processes_nothing_begins_and_the_reason_is_told)
{
    proc_is_missing = true;
    int fd = weir_leftovers_end(folder, true, 10000, error, sizeof error);
    proc_is_missing = false;
    assert_int_equal(fd, -1);
    assert_string_equal(error,
                        "Cannot list /proc to look for processes of an earlier Weir: No such "
                        "file or directory. Mount /proc, then start Weir again.");
}

/* A supervisor that has ended: no process has that number. */
#define NO_PROCESS 0x7ffffff0

TEST(one_attempt_is_ended_and_no_other)
{
    char other[160], inside[160];
    snprintf(other, sizeof other, "%s0", attempt); /* 7-10 */
    snprintf(inside, sizeof inside, "%s/inside", attempt);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(mkdir(inside, 0700), 0);
    pid_t reached = begin_in("/", attempt);
    pid_t unreached = begin_in(inside, ".");
    pid_t neighbour = begin_in("/", other);
    pid_t unreached_neighbour = begin_in(other, ".");
    struct weir_leftovers_attempt ended = {.folder_fd = open(attempt, O_RDONLY | O_CLOEXEC),
                                           .supervisor = NO_PROCESS};
    assert_true(weir_leftovers_end_attempt(&ended, 10000, error, sizeof error));
    close(ended.folder_fd);
    expect_killed(reached);
    expect_killed(unreached);
    expect_untouched(neighbour);
    expect_untouched(unreached_neighbour);
    rmdir(other);
    rmdir(inside);
}

TEST(an_attempt_whose_supervisor_goes_on_is_not_over)
{
    struct weir_leftovers_attempt going = {.folder_fd = open(attempt, O_RDONLY | O_CLOEXEC),
                                           .supervisor = getpid()};
    char expected[80];
    snprintf(expected, sizeof expected, "process %d cannot be killed", (int)getpid());
    assert_false(weir_leftovers_end_attempt(&going, 20, error, sizeof error));
    assert_string_equal(error, expected);
    close(going.folder_fd);
}

TEST(without_folders_of_attempts_no_process_is_looked_at)
{
    pid_t pid = begin_in("/", attempt);
    int fd = weir_leftovers_end(folder, false, 10000, error, sizeof error);
    assert_true(fd >= 0);
    close(fd);
    expect_untouched(pid);
}

TEST(as_long_as_the_lock_is_held_nothing_begins_and_the_reason_is_told)
{
    int fd = weir_leftovers_end(folder, false, 0, error, sizeof error);
    assert_true(fd >= 0);
    int copy = dup(fd); /* a supervisor's */
    close(fd);
    assert_int_equal(weir_leftovers_end(folder, false, 20, error, sizeof error), -1);
    assert_non_null(strstr(error, folder));
    assert_non_null(strstr(error, "job-supervisor"));
    close(copy);
    fd = weir_leftovers_end(folder, false, 0, error, sizeof error);
    assert_true(fd >= 0);
    close(fd);
}

TEST(a_lock_that_cannot_be_opened_is_told_with_its_path)
{
    assert_int_equal(weir_leftovers_end("/nowhere", false, 0, error, sizeof error), -1);
    assert_string_equal(error, "/nowhere/work.lock cannot be opened: No such file or directory");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_was_started_in_an_attempt_is_killed_and_nothing_else),
        IN_FOLDER(without_a_list_of_processes_nothing_begins_and_the_reason_is_told),
        IN_FOLDER(one_attempt_is_ended_and_no_other),
        IN_FOLDER(an_attempt_whose_supervisor_goes_on_is_not_over),
        IN_FOLDER(without_folders_of_attempts_no_process_is_looked_at),
        IN_FOLDER(as_long_as_the_lock_is_held_nothing_begins_and_the_reason_is_told),
        IN_FOLDER(a_lock_that_cannot_be_opened_is_told_with_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
