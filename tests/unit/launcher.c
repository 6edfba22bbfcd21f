/* The launcher: what is killed, and what cannot be sent or heard. */
#define _GNU_SOURCE
#include "unit/command_loop.h"

#include <sys/socket.h>
#include <sys/wait.h>

/* ---- faults ---- */

static int sends_left = -1; /* until one fails; -1: none does */
static bool answer_is_late; /* the next one, of a command that has begun */
static bool launcher_dies;  /* while the next answer is waited for */

static void kill_launcher(void);

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    if (sends_left == 0) {
        sends_left = -1;
        errno = ENOBUFS;
        return -1;
    }
    sends_left -= sends_left > 0;
    return syscall(SYS_sendmsg, socket, message, flags);
}

ssize_t recv(int socket, void *to, size_t bytes, int flags)
{
    if (answer_is_late && flags == MSG_WAITALL) {
        answer_is_late = false;
        errno = EAGAIN;
        return -1;
    }
    if (launcher_dies && flags == MSG_WAITALL) {
        launcher_dies = false;
        kill_launcher();
    }
    return syscall(SYS_recvfrom, socket, to, bytes, flags, NULL, NULL);
}

/* ---- starting ---- */

static int start_sleep(struct weir_launcher *launcher, struct weir_spawned *spawned)
{
    char *const argv[] = {(char[]){"sleep"}, (char[]){"1000"}, NULL};
    char *const envp[] = {NULL};
    int root = open("/", O_RDONLY | O_CLOEXEC);
    struct weir_spawn spawn = {
        .path = "/bin/sleep", .argv = argv, .envp = envp, .folder_fd = root, .files = {-1, -1, -1}};
    int error = weir_launcher_start(launcher, &spawn, spawned);
    close(root);
    return error;
}

/* The launcher is the only child. */
static pid_t find_launcher(void)
{
    pid_t pid = 0;
    FILE *children = fopen("/proc/thread-self/children", "re");
    assert_non_null(children);
    assert_int_equal(fscanf(children, "%d", &pid), 1);
    fclose(children);
    return pid;
}

/* It is left as a zombie, so that nothing else gets its number. */
static void kill_launcher(void)
{
    siginfo_t info;
    pid_t pid = find_launcher();
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

/* ---- the lock ---- */

static int lock_file(const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

TEST(no_command_runs_without_the_lock_whichever_message_fails)
{
    char path[] = "/tmp/weir-launcher-XXXXXX";
    close(mkstemp(path));
    bool failed = true;
    for (int nth = 0; failed; nth++) {
        struct weir_spawned spawned;
        struct weir_launcher *launcher = weir_launcher_create();
        int fd = lock_file(path);
        assert_non_null(launcher);
        assert_true(fd >= 0);
        assert_true(weir_launcher_hold(launcher, fd));
        kill_launcher();
        sends_left = nth;
        int error = start_sleep(launcher, &spawned);
        failed = error != 0;
        if (failed) {
            assert_int_equal(error, ENOBUFS);
            assert_int_equal(start_sleep(launcher, &spawned), 0);
        }
        sends_left = -1;
        close(fd);
        assert_int_equal(lock_file(path), -1); /* the new launcher holds it */
        weir_launch_finish(spawned.fd, 10000);
        close(spawned.fd);
        weir_launcher_destroy(launcher);
        fd = lock_file(path);
        assert_true(fd >= 0);
        close(fd);
        assert_true(nth < 10);
    }
    unlink(path);
}

/* ---- a start that takes too long ---- */

TEST(a_command_whose_start_timed_out_is_gone_when_that_is_told)
{
    struct weir_spawned spawned;
    struct weir_launcher *launcher = weir_launcher_create();
    assert_non_null(launcher);
    answer_is_late = true;
    assert_int_equal(start_sleep(launcher, &spawned), ETIMEDOUT);
    assert_int_equal(spawned.fd, -1);
    assert_true(spawned.late);
    assert_true(spawned.pid > 0);
    assert_int_equal(kill(spawned.pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    weir_launcher_destroy(launcher);
}

TEST(a_start_that_timed_out_is_an_attempt)
{
    struct trial trial = {.run = {"/bin/sleep", "1000"}};
    answer_is_late = true;
    run(&trial);
    expect_failed(&trial, WEIR_ATTEMPT_FAILURE,
                  "the supervisor did not start the command within 10 s");
    finish(&trial);
}

/* ---- a launcher that is killed ---- */

/* The stopped launcher reads neither the request for a supervisor nor the order that follows it, so
 * the kernel throws both away when the launcher dies, and resets their socket. */
TEST(a_launcher_killed_before_it_reads_an_order_has_begun_nothing_and_is_replaced)
{
    struct weir_spawned spawned;
    struct weir_launcher *launcher = weir_launcher_create();
    assert_non_null(launcher);
    assert_int_equal(kill(weir_launcher_pid(launcher), SIGSTOP), 0);
    launcher_dies = true;
    assert_int_equal(start_sleep(launcher, &spawned), EAGAIN);
    assert_int_equal(spawned.fd, -1);
    assert_int_equal(spawned.pid, 0);
    assert_int_equal(start_sleep(launcher, &spawned), 0);
    weir_launch_finish(spawned.fd, 10000);
    close(spawned.fd);
    weir_launcher_destroy(launcher);
}

/* ---- a supervisor that is killed ---- */

#define KILLED                                                                \
    "The job supervisor was killed (by the kernel for want of memory, or by " \
    "another process); what the command had started was killed too."

struct family {
    struct trial trial;
    char script[300];
    pid_t supervisor;
    pid_t left; /* a process in a session of its own */
};

/* A command that has left a process, started with `how`; both sleep. */
static void begin_family(struct family *family, const char *how)
{
    *family = (struct family){.left = 0};
    snprintf(family->script, sizeof family->script,
             "setsid %s /bin/sh -c 'while :; do sleep 1000; done' & "
             "echo weir-progress: 0 $PPID $! >&2; while :; do sleep 1000; done",
             how);
    family->trial = (struct trial){.run = {"/bin/sh", "-c", family->script}, .then = KILL};
    run(&family->trial);
    assert_int_equal(sscanf(family->trial.text, "%d %d", &family->supervisor, &family->left), 2);
    assert_true(is_alive(family->left));
}

static void expect_killed(struct family *family)
{
    if (!family->trial.ended) {
        weir_loop_run(&command_loop.loop);
    }
    assert_false(is_alive(family->left));
    expect_failed(&family->trial, WEIR_ATTEMPT_KILLED, KILLED);
    finish(&family->trial);
}

TEST(without_its_supervisor_an_attempt_lasts_until_the_launcher_has_killed_all_of_it)
{
    static const char *const ways[] = {"", "env -i"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct family family;
        pid_t launcher = find_launcher();
        begin_family(&family, ways[i]);
        assert_int_equal(kill(launcher, SIGSTOP), 0);
        assert_int_equal(kill(family.supervisor, SIGKILL), 0);
        turn_for(100 * MS);
        assert_false(family.trial.ended);
        assert_int_equal(kill(launcher, SIGCONT), 0);
        expect_killed(&family);
    }
}

TEST(without_its_supervisor_and_the_launcher_an_attempt_ends_with_its_processes)
{
    struct family family;
    begin_family(&family, "");
    kill_launcher();
    assert_int_equal(kill(family.supervisor, SIGKILL), 0);
    expect_killed(&family);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_command_runs_without_the_lock_whichever_message_fails),
        cmocka_unit_test(a_command_whose_start_timed_out_is_gone_when_that_is_told),
        IN_YARD(a_start_that_timed_out_is_an_attempt),
        cmocka_unit_test(
            a_launcher_killed_before_it_reads_an_order_has_begun_nothing_and_is_replaced),
        IN_YARD(without_its_supervisor_an_attempt_lasts_until_the_launcher_has_killed_all_of_it),
        IN_YARD(without_its_supervisor_and_the_launcher_an_attempt_ends_with_its_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
