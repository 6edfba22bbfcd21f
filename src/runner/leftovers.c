#define _GNU_SOURCE /* F_OFD_SETLK, SYS_pidfd_open */
#include "runner/leftovers.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h> /* PATH_MAX, which C17 alone does not have */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TRY_EVERY_MS          5u
#define ENVIRONMENT_BYTES_MAX (256u << 10) /* of a process; WEIR_JOB_DIR is among the first */
#define VARIABLE              "WEIR_JOB_DIR="

struct search {
    char prefix[PATH_MAX + 8]; /* of the folders of attempts: DATA/work/ */
    char *environment;         /* room for that of a process */
};

/* ---- what a process says of itself ---- */

static size_t read_file(pid_t pid, const char *name, char *to, size_t bytes_max)
{
    char path[64];
    size_t bytes = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1) {
        return 0;
    }
    for (ssize_t got = 1; got > 0 && bytes<bytes_max; bytes += got> 0 ? (size_t)got : 0) {
        got = read(fd, to + bytes, bytes_max - bytes);
    }
    close(fd);
    return bytes;
}

/* Whether it stands in the folder of an attempt. */
static bool stands_there(const struct search *search, pid_t pid)
{
    char path[64], folder[PATH_MAX + 8];
    snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
    ssize_t bytes = readlink(path, folder, sizeof folder - 1);
    folder[bytes > 0 ? bytes : 0] = '\0';
    return strncmp(folder, search->prefix, strlen(search->prefix)) == 0;
}

/* The value is relative for a user who cannot reach the folder from the root. That alone tells
 * nothing, and somebody who looks around in the folder is not to be killed; both together do. */
static bool is_ours(const struct search *search, pid_t pid, const char *value)
{
    return strcmp(value, ".") == 0 ? stands_there(search, pid)
                                   : strncmp(value, search->prefix, strlen(search->prefix)) == 0;
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

/* The descriptor is opened first, so that the number cannot become another's before the kill. */
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

/* Kills what it finds; returns one that was there, or 0. A zombie has no environment. */
static pid_t kill_leftovers(const struct search *search)
{
    pid_t found = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) {
            continue;
        }
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid != getpid() && kill_leftover(search, pid)) {
            found = pid;
        }
    }
    if (all != NULL) {
        closedir(all);
    }
    return found;
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = TRY_EVERY_MS * 1000000}, NULL);
}

/* Returns 0 when none is left, or one that is. */
static pid_t kill_until_none(const struct search *search, uint64_t patience_ms)
{
    for (uint64_t waited_ms = 0;; waited_ms += TRY_EVERY_MS) {
        pid_t pid = kill_leftovers(search);
        if (pid == 0 || waited_ms >= patience_ms) {
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

static int take_lock(const char *folder, uint64_t patience_ms, char *wrong, size_t wrong_bytes)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/work.lock", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd == -1) {
        snprintf(wrong, wrong_bytes, "%s cannot be opened: %s", path, strerror(errno));
        return -1;
    }
    if (lock_within(fd, patience_ms)) {
        return fd;
    }
    if (errno == EAGAIN || errno == EACCES) {
        snprintf(wrong, wrong_bytes,
                 "Commands that an earlier Weir started on %s have not ended within %llu s after "
                 "it: end the processes \"job-supervisor\" and what they have started, then start "
                 "Weir again",
                 folder, (unsigned long long)(patience_ms / 1000));
    } else {
        snprintf(wrong, wrong_bytes, "%s cannot be locked: %s", path, strerror(errno));
    }
    close(fd);
    return -1;
}

/* ---- calls ---- */

static bool end_unsupervised(const char *folder, uint64_t patience_ms, char *wrong,
                             size_t wrong_bytes)
{
    struct search search;
    snprintf(search.prefix, sizeof search.prefix, "%s/work/", folder);
    search.environment = malloc(ENVIRONMENT_BYTES_MAX);
    if (search.environment == NULL) {
        snprintf(wrong, wrong_bytes, "there is no memory to look for processes of commands");
        return false;
    }
    pid_t pid = kill_until_none(&search, patience_ms);
    free(search.environment);
    if (pid != 0) {
        snprintf(wrong, wrong_bytes,
                 "Process %d belongs to a command that an earlier Weir started on %s, and cannot "
                 "be killed: end it, then start Weir again",
                 (int)pid, folder);
    }
    return pid == 0;
}

int weir_leftovers_end(const char *folder, bool search, uint64_t patience_ms, char *wrong,
                       size_t wrong_bytes)
{
    int fd = take_lock(folder, patience_ms, wrong, wrong_bytes);
    if (fd != -1 && search && !end_unsupervised(folder, patience_ms, wrong, wrong_bytes)) {
        close(fd);
        return -1;
    }
    return fd;
}
