/* child.c - starts this program as a child process, reads what it prints, and ends it. Only the
 * main thread of `weir demo` calls it. */
#define _GNU_SOURCE /* memfd_create, pipe2 */
#include "cli/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "/proc/self/exe"

#define ARGUMENTS_MAX 32

/* How long a child may take to report that it is ready, and to end. */
#define START_PATIENCE_MS 10000
#define END_PATIENCE_MS   5000
#define END_LOOK_MS       5

#define LINE_BYTES_MAX  512
#define ERROR_BYTES_MAX 4096

/* ---- starting ---- */

/* In the child: unblocks all signals, and leaves the terminal's process group, because a Ctrl-C is
 * for the parent alone, which ends the child. The parent may have ended before the parent-death
 * signal was set. */
static void belong_to(pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        raise(SIGTERM);
    }
}

/* In the child: its stdout is the pipe, its stderr the file, its stdin nothing. */
static void redirect(int out_fd, int error_fd)
{
    dup2(out_fd, STDOUT_FILENO);
    dup2(error_fd, STDERR_FILENO);
    close(STDIN_FILENO);
}

/* 0 in the child. */
static pid_t start(struct weir_child *child, const char *name)
{
    int pipe_fds[2];
    *child = WEIR_CHILD_NONE;
    child->name = name;
    int error_fd = memfd_create("weir-child", MFD_CLOEXEC);
    if (error_fd == -1) {
        return -1;
    }
    if (pipe2(pipe_fds, O_CLOEXEC) == -1) {
        close(error_fd);
        return -1;
    }
    fflush(stdout);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        belong_to(parent);
        redirect(pipe_fds[1], error_fd);
        return 0;
    }
    close(pipe_fds[1]);
    child->pid = pid == -1 ? 0 : pid;
    child->out_fd = pipe_fds[0];
    child->error_fd = error_fd;
    return pid;
}

bool weir_child_start(struct weir_child *child, const char *name, char *const arguments[])
{
    char *all[ARGUMENTS_MAX + 2] = {"weir"};
    size_t count = 0;
    for (; arguments[count] != NULL; count++) {
        assert(count < ARGUMENTS_MAX);
        all[1 + count] = arguments[count];
    }
    pid_t pid = start(child, name);
    if (pid == 0) {
        execv(PROGRAM, all);
        fprintf(stderr, "cannot run %s: %s\n", PROGRAM, strerror(errno));
        _exit(127);
    }
    return pid != -1;
}

bool weir_child_fork(struct weir_child *child, const char *name, int (*run)(void *context),
                     void *context)
{
    pid_t pid = start(child, name);
    if (pid == 0) {
        _exit(run(context));
    }
    return pid != -1;
}

/* ---- reading its output ---- */

static void complain(const struct weir_child *child, const char *what)
{
    char text[ERROR_BYTES_MAX];
    ssize_t bytes = pread(child->error_fd, text, sizeof text, 0);
    fprintf(stderr, "weir: %s %s%s\n", child->name, what, bytes > 0 ? ":" : "");
    if (bytes > 0) {
        fwrite(text, 1, (size_t)bytes, stderr);
    }
}

/* Reads a line, without its end, byte by byte, since later bytes are for the next caller; lines are
 * few. */
static bool read_line(const struct weir_child *child, char line[LINE_BYTES_MAX])
{
    for (size_t bytes = 0; bytes < LINE_BYTES_MAX; bytes++) {
        struct pollfd polled = {.fd = child->out_fd, .events = POLLIN};
        if (poll(&polled, 1, START_PATIENCE_MS) != 1 || read(child->out_fd, &line[bytes], 1) != 1) {
            return false;
        }
        if (line[bytes] == '\n') {
            line[bytes] = '\0';
            return true;
        }
    }
    return false;
}

bool weir_child_hear(struct weir_child *child, const char *prefix, char *text, size_t bytes)
{
    char line[LINE_BYTES_MAX];
    while (read_line(child, line)) {
        size_t prefix_bytes = strlen(prefix);
        if (strncmp(line, prefix, prefix_bytes) == 0) {
            int written = snprintf(text, bytes, "%s", line + prefix_bytes);
            return written >= 0 && (size_t)written < bytes;
        }
    }
    complain(child, "did not start");
    return false;
}

/* ---- ending ---- */

bool weir_child_has_ended(struct weir_child *child)
{
    if (child->pid == 0 || waitpid(child->pid, NULL, WNOHANG) != child->pid) {
        return child->pid == 0;
    }
    child->pid = 0;
    complain(child, "has ended");
    return true;
}

static void wait_or_kill(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = END_LOOK_MS * WEIR_NS_PER_MS};
    for (int waited_ms = 0; waited_ms < END_PATIENCE_MS; waited_ms += END_LOOK_MS) {
        if (waitpid(pid, NULL, WNOHANG) == pid) {
            return;
        }
        nanosleep(&pause, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

void weir_child_end(struct weir_child *child)
{
    if (child->pid != 0) {
        kill(child->pid, SIGTERM);
        wait_or_kill(child->pid);
    }
    if (child->out_fd != -1) {
        close(child->out_fd);
    }
    if (child->error_fd != -1) {
        close(child->error_fd);
    }
    *child = WEIR_CHILD_NONE;
}
