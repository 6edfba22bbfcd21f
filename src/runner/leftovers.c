/* leftovers.c - finds and kills processes of commands that no supervisor watches any more, by the
 * lock `work.lock` and by reading /proc. Its functions block: weir_leftovers_end() is called in the
 * main thread at the start, weir_leftovers_end_attempt() in disk threads. They share no state. */
#define _GNU_SOURCE /* F_OFD_SETLK, SYS_pidfd_open */
#include "runner/leftovers.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h> /* PATH_MAX, which C17 alone does not have */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TRY_EVERY_MS          5u
#define ENVIRONMENT_BYTES_MAX (256u << 10) /* of a process; WEIR_JOB_DIR comes among the first */
#define VARIABLE              "WEIR_JOB_DIR="

struct search {
    char prefix[PATH_MAX + 8]; /* DATA/work/ for all attempts, DATA/work/NUMBER-ATTEMPT for one */
    char *environment;         /* room for that of a process */
};

/* ---- one process ---- */

static size_t read_file(pid_t pid, const char *name, char *to, size_t bytes_max)
{
    char path[64];
    size_t bytes = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1) {
        return 0;
    }
    while (bytes < bytes_max) {
        ssize_t got = read(fd, to + bytes, bytes_max - bytes);
        if (got <= 0) {
            break;
        }
        bytes += (size_t)got;
    }
    close(fd);
    return bytes;
}

/* Whether a path leads into a folder of the attempts searched for. */
static bool is_inside(const struct search *search, const char *path)
{
    size_t bytes = strlen(search->prefix);
    return strncmp(path, search->prefix, bytes) == 0 &&
           (search->prefix[bytes - 1] == '/' || path[bytes] == '\0' || path[bytes] == '/');
}

/* Whether the process has its working directory there. */
static bool works_there(const struct search *search, pid_t pid)
{
    char path[64], folder[PATH_MAX + 8];
    snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
    ssize_t bytes = readlink(path, folder, sizeof folder - 1);
    folder[bytes > 0 ? bytes : 0] = '\0';
    return is_inside(search, folder);
}

/* For a user who cannot reach the folder from the root, the value is a relative path. That alone
 * proves nothing, and neither does a working directory in the folder (an operator may look around
 * there); both together do. */
static bool is_ours(const struct search *search, pid_t pid, const char *value)
{
    return strcmp(value, ".") == 0 ? works_there(search, pid) : is_inside(search, value);
}

static bool belongs_to_attempt(const struct search *search, pid_t pid)
{
    char *text = search->environment;
    size_t bytes = read_file(pid, "environ", text, ENVIRONMENT_BYTES_MAX - 1);
    text[bytes] = '\0';
    for (size_t at = 0; at < bytes; at += strlen(text + at) + 1) {
        if (strncmp(text + at, VARIABLE, sizeof VARIABLE - 1) == 0 &&
            is_ours(search, pid, text + at + sizeof VARIABLE - 1)) {
            return true;
        }
    }
    return false;
}

/* ---- all of them ---- */

/* The pidfd is opened before the check, so that the number cannot become another process's before
 * the kill. */
static bool kill_leftover(const struct search *search, pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    bool found = fd != -1 && belongs_to_attempt(search, pid);
    if (found) {
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    }
    if (fd != -1) {
        close(fd);
    }
    return found;
}

/* Kills the processes that it finds; returns one of them, 0 if there was none, or -1 with errno. A
 * zombie has no environment and is not found. */
static pid_t kill_leftovers(const struct search *search)
{
    pid_t found = 0;
    DIR *all = opendir("/proc");
    if (all == NULL) {
        return -1;
    }
    for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) {
            continue;
        }
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid != getpid() && kill_leftover(search, pid)) {
            found = pid;
        }
    }
    closedir(all);
    return found;
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = TRY_EVERY_MS * WEIR_NS_PER_MS}, NULL);
}

/* Repeats until none is left. Returns 0, a process that is left, or -1 with errno. */
static pid_t kill_until_none(const struct search *search, uint64_t patience_ms)
{
    for (uint64_t waited_ms = 0;; waited_ms += TRY_EVERY_MS) {
        pid_t pid = kill_leftovers(search);
        if (pid <= 0 || waited_ms >= patience_ms) {
            return pid;
        }
        rest();
    }
}

/* ---- one attempt ---- */

/* Whether the process has ended; its children have a new parent by then. */
static bool has_ended(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    bool ended = fd == -1 || poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) > 0;
    if (fd != -1) {
        close(fd);
    }
    return ended;
}

/* Finds a child of the launcher that is no supervisor, or 0: the launcher is about to kill it.
 * Supervisors are in the launcher's session, commands are not. */
static pid_t find_stray(const struct search *search, pid_t launcher)
{
    char name[40];
    char *text = search->environment;
    snprintf(name, sizeof name, "task/%d/children", (int)launcher);
    text[read_file(launcher, name, text, ENVIRONMENT_BYTES_MAX - 1)] = '\0';
    for (char *end = text;; text = end) {
        pid_t pid = (pid_t)strtol(text, &end, 10);
        if (end == text) {
            return 0;
        }
        pid_t session = getsid(pid);
        if (session != launcher && session != -1) {
            return pid;
        }
    }
}

/* A process that must end before the attempt is over; 0: none, -1: it cannot be determined. */
static pid_t find_remaining(const struct search *search,
                            const struct weir_leftovers_attempt *attempt)
{
    if (!has_ended(attempt->supervisor)) {
        return attempt->supervisor;
    }
    pid_t stray = attempt->launcher == 0 ? 0 : find_stray(search, attempt->launcher);
    pid_t leftover = kill_leftovers(search);
    return leftover != 0 ? leftover : stray;
}

/* The kernel may leave out a child of the launcher's while another one ends; so only two empty
 * searches in a row count. */
static pid_t end_remaining(const struct search *search,
                           const struct weir_leftovers_attempt *attempt, uint64_t patience_ms)
{
    int clean = 0;
    for (uint64_t waited_ms = 0;; waited_ms += TRY_EVERY_MS) {
        pid_t pid = find_remaining(search, attempt);
        clean = pid == 0 ? clean + 1 : 0;
        if (pid == -1 || clean == 2 || (pid != 0 && waited_ms >= patience_ms)) {
            return pid;
        }
        rest();
    }
}

/* ---- the lock ---- */

/* False, with errno. */
static bool lock_within(int fd, uint64_t patience_ms)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    for (uint64_t waited_ms = 0; fcntl(fd, F_OFD_SETLK, &lock) != 0; waited_ms += TRY_EVERY_MS) {
        if ((errno != EAGAIN && errno != EACCES) || waited_ms >= patience_ms) {
            return false;
        }
        rest();
    }
    return true;
}

static int take_lock(const char *folder, uint64_t patience_ms, char *error, size_t error_bytes)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/work.lock", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd == -1) {
        snprintf(error, error_bytes, "%s cannot be opened: %s", path, strerror(errno));
        return -1;
    }
    if (lock_within(fd, patience_ms)) {
        return fd;
    }
    if (errno == EAGAIN || errno == EACCES) {
        snprintf(error, error_bytes,
                 "Commands that an earlier Weir started on %s have not ended within %llu s after "
                 "it. End the processes \"job-supervisor\" and what they have started, then start "
                 "Weir again",
                 folder, (unsigned long long)(patience_ms / 1000));
    } else {
        snprintf(error, error_bytes, "%s cannot be locked: %s", path, strerror(errno));
    }
    close(fd);
    return -1;
}

/* ---- calls ---- */

static bool end_unsupervised(const char *folder, uint64_t patience_ms, char *error,
                             size_t error_bytes)
{
    struct search search;
    snprintf(search.prefix, sizeof search.prefix, "%s/work/", folder);
    search.environment = malloc(ENVIRONMENT_BYTES_MAX);
    if (search.environment == NULL) {
        snprintf(error, error_bytes,
                 "Out of memory while looking for processes of an earlier Weir. Free 256 KiB, then "
                 "start Weir again.");
        return false;
    }
    pid_t pid = kill_until_none(&search, patience_ms);
    int why = errno;
    free(search.environment);
    if (pid == -1) {
        snprintf(
            error, error_bytes,
            "Cannot list /proc to look for processes of an earlier Weir: %s. Mount /proc, then "
            "start Weir again.",
            strerror(why));
    } else if (pid != 0) {
        snprintf(error, error_bytes,
                 "Process %d belongs to a command that an earlier Weir started on %s, and cannot "
                 "be killed: end it, then start Weir again",
                 (int)pid, folder);
    }
    return pid == 0;
}

int weir_leftovers_end(const char *folder, bool search, uint64_t patience_ms, char *error,
                       size_t error_bytes)
{
    int fd = take_lock(folder, patience_ms, error, error_bytes);
    if (fd != -1 && search && !end_unsupervised(folder, patience_ms, error, error_bytes)) {
        close(fd);
        return -1;
    }
    return fd;
}

bool weir_leftovers_end_attempt(const struct weir_leftovers_attempt *attempt, uint64_t patience_ms,
                                char *error, size_t error_bytes)
{
    struct search search;
    char name[40];
    snprintf(name, sizeof name, "/proc/self/fd/%d", attempt->folder_fd);
    ssize_t bytes = readlink(name, search.prefix, sizeof search.prefix - 1);
    if (bytes <= 0) {
        snprintf(error, error_bytes, "cannot read %s: %s", name, strerror(errno));
        return false;
    }
    search.prefix[bytes] = '\0';
    search.environment = malloc(ENVIRONMENT_BYTES_MAX);
    if (search.environment == NULL) {
        snprintf(error, error_bytes, "out of memory");
        return false;
    }
    pid_t pid = end_remaining(&search, attempt, patience_ms);
    int why = errno;
    free(search.environment);
    if (pid == -1) {
        snprintf(error, error_bytes, "cannot list /proc: %s", strerror(why));
    } else if (pid != 0) {
        snprintf(error, error_bytes, "process %d cannot be killed", (int)pid);
    }
    return pid == 0;
}
