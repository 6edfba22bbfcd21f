/* lock.c - locks the data folder with an open-file-description lock on DATA/lock. Called once by
 * the main thread, before anything else of the store. */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Together one second. */
#define TRIES_MAX    200
#define TRY_EVERY_NS 5000000

static int complain(char *error, size_t error_bytes, const char *path, const char *what)
{
    snprintf(error, error_bytes, "%s %s: %s", path, what, strerror(errno));
    return -1;
}

/* Syncs the parent, so that the folder's name survives a power cut. */
static void sync_parent(const char *folder)
{
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s/..", folder);
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/* Reads the holder's process id from the file. 0: not written yet. */
static pid_t holder(int fd)
{
    char text[32] = "";
    ssize_t count = pread(fd, text, sizeof text - 1, 0);
    long pid = count > 0 ? strtol(text, NULL, 10) : 0;
    return pid > 0 && pid <= INT_MAX ? (pid_t)pid : 0;
}

static void name_holder(int fd, const char *folder, char *error, size_t error_bytes)
{
    long pid = holder(fd);
    if (pid > 0) {
        snprintf(error, error_bytes,
                 "another weir (pid %ld) uses %s: stop it, or name another folder in `data`", pid,
                 folder);
    } else {
        snprintf(error, error_bytes,
                 "another weir uses %s: stop it, or name another folder in `data`", folder);
    }
}

static bool write_pid(int fd)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    return ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)length, 0) == length;
}

/* A Weir that was killed keeps its lock until the kernel has ended it, which takes a moment on a
 * busy machine, and leaves it for a moment to a child that was about to become a command. So this
 * waits, also if the holder still seems to live: a start right after `kill -9` must not fail. */
static bool lock_file(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    for (int tries = 0; fcntl(fd, F_OFD_SETLK, &lock) != 0; tries++) {
        int error = errno;
        if ((error != EAGAIN && error != EACCES) || tries == TRIES_MAX) {
            errno = error;
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = TRY_EVERY_NS}, NULL);
    }
    return true;
}

int weir_lock_take(const char *folder, char *error, size_t error_bytes)
{
    char path[PATH_MAX];
    /* Other users may pass through the folder but not list it, because commands may run as other
     * users. */
    if (mkdir(folder, 0711) == 0) {
        sync_parent(folder);
    } else if (errno != EEXIST) {
        return complain(error, error_bytes, folder, "cannot be made");
    }
    int length = snprintf(path, sizeof path, "%s/lock", folder);
    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return complain(error, error_bytes, folder, "cannot be used");
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return complain(error, error_bytes, path, "cannot be opened");
    }
    if (!lock_file(fd)) {
        if (errno == EAGAIN || errno == EACCES) {
            name_holder(fd, folder, error, error_bytes);
        } else {
            complain(error, error_bytes, path, "cannot be locked");
        }
        close(fd);
        return -1;
    }
    if (!write_pid(fd)) {
        complain(error, error_bytes, path, "cannot be written");
        close(fd);
        return -1;
    }
    return fd;
}
