/* spool_space.c - how much of the disk long bodies take, and their files and threads.
 *
 * Any thread may call. `used` is atomic; `lock` guards the start of the disk threads. */
#define _GNU_SOURCE /* O_TMPFILE, mkostemp() */
#include "proxy/spool_space.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Enough that one slow call does not hold up all others; a disk is not faster with more. */
#define DISK_THREADS 4

struct weir_spool_space {
    _Atomic uint64_t used;
    pthread_mutex_t lock;
    struct weir_disk *disk; /* null before the first long body */
    char folder[];
};

struct weir_spool_space *weir_spool_space_create(struct weir_slice folder)
{
    struct weir_spool_space *space = calloc(1, sizeof *space + folder.bytes + 1);
    if (space != NULL) {
        pthread_mutex_init(&space->lock, NULL);
        memcpy(space->folder, folder.data, folder.bytes);
    }
    return space;
}

void weir_spool_space_rest(struct weir_spool_space *space)
{
    if (space->disk != NULL) {
        weir_disk_rest(space->disk);
    }
}

void weir_spool_space_destroy(struct weir_spool_space *space)
{
    if (space == NULL) {
        return;
    }
    if (space->disk != NULL) {
        weir_disk_destroy(space->disk);
    }
    assert(atomic_load(&space->used) == 0);
    pthread_mutex_destroy(&space->lock);
    free(space);
}

struct weir_disk *weir_spool_space_disk(struct weir_spool_space *space)
{
    pthread_mutex_lock(&space->lock);
    if (space->disk == NULL) {
        space->disk = weir_disk_create(DISK_THREADS);
    }
    struct weir_disk *disk = space->disk;
    pthread_mutex_unlock(&space->lock);
    return disk;
}

bool weir_spool_space_has(const struct weir_spool_space *space, uint64_t bytes, uint64_t bytes_max)
{
    uint64_t used = atomic_load_explicit(&space->used, memory_order_relaxed);
    return used <= bytes_max && bytes <= bytes_max - used;
}

bool weir_spool_space_take(struct weir_spool_space *space, uint64_t bytes, uint64_t bytes_max)
{
    uint64_t used = atomic_load_explicit(&space->used, memory_order_relaxed);
    do {
        if (used > bytes_max || bytes > bytes_max - used) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&space->used, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void weir_spool_space_give(struct weir_spool_space *space, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub_explicit(&space->used, bytes, memory_order_relaxed);
    assert(before >= bytes);
}

/* Some file systems cannot make a file without a name (NFS, older overlays). There the name is
 * taken away at once. */
static int open_and_unlink(const char *folder)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/body-XXXXXX", folder);
    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC); /* 0600 */
    if (fd >= 0) {
        unlink(path);
    }
    return fd;
}

int weir_spool_space_open(const struct weir_spool_space *space)
{
    const int flags = O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC;
    int fd = open(space->folder, flags, 0600);
    if (fd < 0 && errno == ENOENT && (mkdir(space->folder, 0700) == 0 || errno == EEXIST)) {
        fd = open(space->folder, flags, 0600);
    }
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) {
        return fd;
    }
    return open_and_unlink(space->folder);
}
