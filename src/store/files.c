/* files.c - long bodies and results as files in DATA/bodies: names, removal, orphans, and doubt
 * about whether files can be written.
 *
 * Files are made, sealed and removed in any thread, usually a disk thread. `aside_lock` guards the
 * list of files whose removal waits until it is certain that no row refers to them. */
#define _GNU_SOURCE /* O_DIRECTORY, fdopendir */
#include "store/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES 24 /* for a number of 64 bits */

int weir_store_open_bodies(const char *folder)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/bodies", folder);
    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return -1;
    }
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

uint64_t weir_store_file_new(struct weir_store *store)
{
    return atomic_fetch_add_explicit(&store->file_last, 1, memory_order_relaxed) + 1;
}

int weir_store_file_path(const struct weir_store *store, uint64_t file, char *path, size_t bytes)
{
    return snprintf(path, bytes, "%s/bodies/%" PRIu64, store->folder, file);
}

/* Syncs the file's bytes, and its name in the folder. */
bool weir_store_file_seal(struct weir_store *store, int fd)
{
    return fsync(fd) == 0 && fsync(store->bodies_fd) == 0;
}

/* If the removal fails, the next start removes the file as an orphan. */
static void remove_file(struct weir_store *store, uint64_t file)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%" PRIu64, file);
    unlinkat(store->bodies_fd, name, 0);
}

/* Keeps a file as NUMBER.damaged, because its job may be a damaged one. */
static void keep_file(struct weir_store *store, uint64_t file)
{
    char name[NAME_BYTES];
    char kept[NAME_BYTES + 8];
    snprintf(name, sizeof name, "%" PRIu64, file);
    snprintf(kept, sizeof kept, "%s.damaged", name);
    (void)renameat(store->bodies_fd, name, store->bodies_fd, kept);
}

/* If memory runs out, the next start removes the file. */
static void put_aside(struct weir_store *store, uint64_t file)
{
    if (store->aside_count == store->aside_size) {
        size_t size = store->aside_size == 0 ? 16 : 2 * store->aside_size;
        uint64_t *aside = realloc(store->aside, size * sizeof aside[0]);
        if (aside == NULL) {
            return;
        }
        store->aside = aside;
        store->aside_size = size;
    }
    store->aside[store->aside_count++] = file;
}

void weir_store_file_remove(struct weir_store *store, uint64_t file)
{
    pthread_mutex_lock(&store->aside_lock);
    bool in_doubt = store->in_doubt;
    if (in_doubt) {
        put_aside(store, file);
    }
    pthread_mutex_unlock(&store->aside_lock);
    if (!in_doubt) {
        remove_file(store, file);
    }
}

void weir_store_doubt_record(struct weir_store *store)
{
    pthread_mutex_lock(&store->aside_lock);
    store->in_doubt = true;
    pthread_mutex_unlock(&store->aside_lock);
}

void weir_store_trust_record(struct weir_store *store)
{
    pthread_mutex_lock(&store->aside_lock);
    store->in_doubt = false;
    for (size_t i = 0; i < store->aside_count; i++) {
        remove_file(store, store->aside[i]);
    }
    store->aside_count = 0;
    pthread_mutex_unlock(&store->aside_lock);
}

/* ---- doubt ---- */

/* Writes as many bytes as the shortest body in a file. */
static bool write_trial(int fd)
{
    static const char zeros[WEIR_JOB_INLINE_BYTES_MAX];
    size_t at = 0;
    while (at < sizeof zeros) {
        ssize_t written = write(fd, zeros + at, sizeof zeros - at);
        if (written == 0) {
            errno = ENOSPC;
        }
        if (written <= 0 && errno != EINTR) {
            return false;
        }
        at += written < 0 ? 0 : (size_t)written;
    }
    return fsync(fd) == 0;
}

int weir_store_try_file(struct weir_store *store)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%" PRIu64, weir_store_file_new(store));
    int fd = openat(store->bodies_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno;
    }
    int error = write_trial(fd) ? 0 : errno;
    close(fd);
    unlinkat(store->bodies_fd, name, 0);
    return error;
}

/* ---- orphans ---- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The number that a name stands for; 0 if the file is not ours. */
static uint64_t number_of(const char *name)
{
    char again[NAME_BYTES];
    uint64_t number = strtoull(name, NULL, 10);
    snprintf(again, sizeof again, "%" PRIu64, number);
    return strcmp(again, name) == 0 ? number : 0;
}

static DIR *list_bodies(struct weir_store *store)
{
    int fd = openat(store->bodies_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL && fd >= 0) {
        close(fd);
    }
    return list;
}

bool weir_store_has_files(struct weir_store *store)
{
    DIR *list = list_bodies(store);
    bool any = false;
    struct dirent *entry;
    while (list != NULL && !any && (entry = readdir(list)) != NULL) {
        any = number_of(entry->d_name) != 0;
    }
    if (list != NULL) {
        closedir(list);
    }
    return any;
}

bool weir_store_remove_orphans(struct weir_store *store, uint64_t *files, size_t count)
{
    DIR *list = list_bodies(store);
    if (list == NULL) {
        return false;
    }
    if (count > 0) {
        qsort(files, count, sizeof files[0], compare);
    }
    uint64_t last = count > 0 ? files[count - 1] : 0;
    bool keep = store->recovery.salvaged || store->recovery.damaged > 0;
    struct dirent *entry;
    while ((entry = readdir(list)) != NULL) {
        uint64_t file = number_of(entry->d_name);
        last = file > last ? file : last;
        if (file != 0 &&
            (count == 0 || bsearch(&file, files, count, sizeof files[0], compare) == NULL)) {
            if (keep) {
                keep_file(store, file);
            } else {
                weir_store_file_remove(store, file);
            }
        }
    }
    closedir(list);
    atomic_store_explicit(&store->file_last, last, memory_order_relaxed);
    return true;
}
