/* store_vfs.h - a disk that fails on command, under SQLite: a layer over its usual one.
 *
 * What is written can be read back at once, as from the kernel's memory, but gets to the disk only
 * with a sync that succeeds. A sync that fails forgets what it should have written, as kernels do:
 * a later one that succeeds does not bring it to the disk. Losing power leaves the files as the
 * disk has them, with or without some of what was not synced. */
#ifndef WEIR_TESTS_STORE_VFS_H
#define WEIR_TESTS_STORE_VFS_H

#include <assert.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DISK_FILES_MAX  8
#define DISK_RANGES_MAX 20000

enum disk_fault {
    DISK_NO_FAULT,
    DISK_EIO,      /* once */
    DISK_FULL,     /* for a few times */
    DISK_UNSYNCED, /* the next sync fails, once */
    DISK_SHORT,    /* half of it is written, then the disk is full */
    DISK_DEAD      /* for ever: the power is off */
};

#define DISK_PAGE_BYTES 4096

struct disk_range {
    uint64_t offset;
    uint64_t bytes;
};

/* A file as it is on the disk, and what has been written since. */
struct disk_file {
    char path[300];
    uint8_t *bytes;
    uint64_t count;
    struct disk_range dirty[DISK_RANGES_MAX];
    uint32_t dirty_count;
    bool changed; /* its length, too, is not on the disk yet */
};

static struct disk {
    pthread_mutex_t lock;
    sqlite3_vfs layer;
    sqlite3_vfs *below;
    struct disk_file *files[DISK_FILES_MAX];
    uint32_t file_count;
    uint64_t fault_at; /* which change fails */
    /* Changed under the lock, and looked at by tests without it. */
    _Atomic enum disk_fault fault;
    atomic_uint_fast64_t changes; /* writes, syncs and truncations so far */
    atomic_uint_fast64_t failures;
    atomic_uint_fast64_t syncs;    /* so far, */
    atomic_uint_fast64_t sync_us;  /* and how long each takes */
    const char *_Atomic forgetful; /* a setting that is told to be another than was set */
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct disk_handle {
    sqlite3_file base;
    struct disk_file *file;
    sqlite3_file *below;
};

#define BELOW(handle) (((struct disk_handle *)(void *)(handle))->below)

/* Whether this change is to fail. */
static bool disk_fails(bool syncs)
{
    uint64_t now = ++disk.changes;
    if (disk.fault == DISK_UNSYNCED) {
        bool first = syncs && disk.failures == 0;
        disk.failures += first ? 1 : 0;
        return first;
    }
    uint64_t last = disk.fault == DISK_FULL   ? disk.fault_at + 5
                    : disk.fault == DISK_DEAD ? UINT64_MAX
                                              : disk.fault_at;
    bool fails = disk.fault != DISK_NO_FAULT && now >= disk.fault_at && now <= last;
    disk.failures += fails ? 1 : 0;
    return fails;
}

static int disk_write(sqlite3_file *handle, const void *bytes, int count, sqlite3_int64 offset)
{
    struct disk_file *file = ((struct disk_handle *)(void *)handle)->file;
    pthread_mutex_lock(&disk.lock);
    bool fails = disk_fails(false);
    int written = !fails ? count : disk.fault == DISK_SHORT ? count / 2 : 0;
    int result = SQLITE_OK;
    if (written > 0) {
        result = BELOW(handle)->pMethods->xWrite(BELOW(handle), bytes, written, offset);
        assert(file->dirty_count < DISK_RANGES_MAX);
        file->dirty[file->dirty_count++] = (struct disk_range){(uint64_t)offset, (uint64_t)written};
        file->changed = true;
    }
    if (fails) {
        bool full = disk.fault == DISK_FULL || disk.fault == DISK_SHORT;
        result = full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    }
    pthread_mutex_unlock(&disk.lock);
    return result;
}

static int disk_truncate(sqlite3_file *handle, sqlite3_int64 size)
{
    pthread_mutex_lock(&disk.lock);
    int result = SQLITE_IOERR_TRUNCATE;
    if (!disk_fails(false)) {
        ((struct disk_handle *)(void *)handle)->file->changed = true;
        result = BELOW(handle)->pMethods->xTruncate(BELOW(handle), size);
    }
    pthread_mutex_unlock(&disk.lock);
    return result;
}

static void disk_resize(struct disk_file *file, uint64_t count)
{
    if (count > file->count) {
        file->bytes = realloc(file->bytes, count);
        assert(file->bytes != NULL);
        memset(file->bytes + file->count, 0, count - file->count);
    }
    file->count = count;
}

/* What was written, as the file has it now, gets to the disk; the rest stays as it was there. */
static void disk_persist(struct disk_file *file, const char *now, uint64_t count,
                         const struct disk_range *range)
{
    uint64_t end = range->offset + range->bytes < count ? range->offset + range->bytes : count;
    if (range->offset < end) {
        memcpy(file->bytes + range->offset, now + range->offset, end - range->offset);
    }
}

static char *disk_read_all(const char *path, uint64_t *count)
{
    FILE *stream = fopen(path, "rb");
    char *bytes = NULL;
    *count = 0;
    if (stream != NULL) {
        assert(fseek(stream, 0, SEEK_END) == 0);
        *count = (uint64_t)ftell(stream);
        rewind(stream);
        bytes = malloc(*count + 1);
        assert(bytes != NULL && fread(bytes, 1, *count, stream) == *count);
        fclose(stream);
    }
    return bytes;
}

static int disk_sync(sqlite3_file *handle, int flags)
{
    struct disk_file *file = ((struct disk_handle *)(void *)handle)->file;
    (void)flags;
    disk.syncs++;
    usleep((useconds_t)disk.sync_us);
    pthread_mutex_lock(&disk.lock);
    bool fails = disk_fails(true);
    if (!fails && file->changed) {
        uint64_t count;
        char *now = disk_read_all(file->path, &count);
        disk_resize(file, count);
        for (uint32_t i = 0; i < file->dirty_count; i++) {
            disk_persist(file, now, count, &file->dirty[i]);
        }
        free(now);
        file->changed = false;
    }
    if (!fails ||
        disk.fault != DISK_DEAD) { /* what was under way when the power went may be there */
        file->dirty_count = 0;
    }
    pthread_mutex_unlock(&disk.lock);
    return fails ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int disk_close(sqlite3_file *handle)
{
    return BELOW(handle)->pMethods->xClose(BELOW(handle));
}

static int disk_read(sqlite3_file *handle, void *bytes, int count, sqlite3_int64 offset)
{
    return BELOW(handle)->pMethods->xRead(BELOW(handle), bytes, count, offset);
}

static int disk_size(sqlite3_file *handle, sqlite3_int64 *size)
{
    return BELOW(handle)->pMethods->xFileSize(BELOW(handle), size);
}

static int disk_lock(sqlite3_file *handle, int level)
{
    return BELOW(handle)->pMethods->xLock(BELOW(handle), level);
}

static int disk_unlock(sqlite3_file *handle, int level)
{
    return BELOW(handle)->pMethods->xUnlock(BELOW(handle), level);
}

static int disk_check_lock(sqlite3_file *handle, int *locked)
{
    return BELOW(handle)->pMethods->xCheckReservedLock(BELOW(handle), locked);
}

static int disk_control(sqlite3_file *handle, int what, void *argument)
{
    if (what == SQLITE_FCNTL_PRAGMA && disk.forgetful != NULL) {
        char **words = argument; /* its answer, its name, what it is to be */
        if (strcmp(words[1], disk.forgetful) == 0 && words[2] == NULL) {
            words[0] = sqlite3_mprintf("%s", "another");
            return SQLITE_OK;
        }
    }
    return BELOW(handle)->pMethods->xFileControl(BELOW(handle), what, argument);
}

static int disk_sector(sqlite3_file *handle)
{
    return BELOW(handle)->pMethods->xSectorSize(BELOW(handle));
}

static int disk_traits(sqlite3_file *handle)
{
    return BELOW(handle)->pMethods->xDeviceCharacteristics(BELOW(handle));
}

/* Version 1: without shared memory, which an exclusive connection does not need. */
static const sqlite3_io_methods disk_methods = {.iVersion = 1,
                                                .xClose = disk_close,
                                                .xRead = disk_read,
                                                .xWrite = disk_write,
                                                .xTruncate = disk_truncate,
                                                .xSync = disk_sync,
                                                .xFileSize = disk_size,
                                                .xLock = disk_lock,
                                                .xUnlock = disk_unlock,
                                                .xCheckReservedLock = disk_check_lock,
                                                .xFileControl = disk_control,
                                                .xSectorSize = disk_sector,
                                                .xDeviceCharacteristics = disk_traits};

/* A file that is seen for the first time is on the disk as it is. */
static struct disk_file *disk_find(const char *path)
{
    for (uint32_t i = 0; i < disk.file_count; i++) {
        if (strcmp(disk.files[i]->path, path) == 0) {
            return disk.files[i];
        }
    }
    assert(disk.file_count < DISK_FILES_MAX);
    struct disk_file *file = calloc(1, sizeof *file);
    assert(file != NULL);
    snprintf(file->path, sizeof file->path, "%s", path);
    file->bytes = (uint8_t *)disk_read_all(path, &file->count);
    disk.files[disk.file_count++] = file;
    return file;
}

static int disk_open(sqlite3_vfs *layer, sqlite3_filename path, sqlite3_file *handle, int flags,
                     int *got)
{
    struct disk_handle *mine = (struct disk_handle *)(void *)handle;
    (void)layer;
    mine->base.pMethods = NULL;
    mine->below = (sqlite3_file *)(void *)(mine + 1);
    pthread_mutex_lock(&disk.lock);
    mine->file = disk_find(path);
    pthread_mutex_unlock(&disk.lock);
    int result = disk.below->xOpen(disk.below, path, mine->below, flags, got);
    if (result == SQLITE_OK) {
        mine->base.pMethods = &disk_methods;
    }
    return result;
}

static void disk_insert(void)
{
    disk.below = sqlite3_vfs_find(NULL);
    disk.layer = *disk.below;
    disk.layer.zName = "failing disk";
    disk.layer.szOsFile = (int)sizeof(struct disk_handle) + disk.below->szOsFile;
    disk.layer.xOpen = disk_open;
    assert(sqlite3_vfs_register(&disk.layer, 1) == SQLITE_OK);
}

static void disk_forget(void)
{
    while (disk.file_count > 0) {
        struct disk_file *file = disk.files[--disk.file_count];
        free(file->bytes);
        free(file);
    }
    disk.fault = DISK_NO_FAULT;
    disk.changes = disk.failures = disk.syncs = disk.sync_us = 0;
    disk.forgetful = NULL;
}

static void disk_remove(void)
{
    sqlite3_vfs_unregister(&disk.layer);
    disk_forget();
}

static void disk_arm(enum disk_fault fault, uint64_t at)
{
    pthread_mutex_lock(&disk.lock);
    disk.fault = fault;
    disk.fault_at = disk.changes + at;
    disk.failures = 0;
    pthread_mutex_unlock(&disk.lock);
}

static uint64_t disk_next_chance(uint64_t chance)
{
    return chance * 6364136223846793005u + 1442695040888963407u;
}

/* Of what a file has lost since it was synced, some may be gone, page by page. */
static uint64_t disk_tear(struct disk_file *file, uint64_t count, uint64_t chance)
{
    for (uint64_t at = count; at < file->count; at += DISK_PAGE_BYTES) {
        chance = disk_next_chance(chance);
        if (chance >> 63 != 0) {
            uint64_t left = file->count - at;
            memset(file->bytes + at, 0, left < DISK_PAGE_BYTES ? left : DISK_PAGE_BYTES);
        }
    }
    return chance;
}

/* The files as they are found after the power came back; of what was not synced, what `chance` says
 * is there as well. Nothing may be open. */
static void disk_lose_power(uint64_t chance)
{
    for (uint32_t f = 0; f < disk.file_count; f++) {
        struct disk_file *file = disk.files[f];
        uint64_t count;
        char *now = disk_read_all(file->path, &count);
        if (now == NULL) {
            continue;
        }
        if (chance != 0 && file->changed && count > file->count) {
            disk_resize(file, count);
        }
        if (chance != 0) {
            chance = disk_tear(file, count, chance);
        }
        for (uint32_t i = 0; chance != 0 && i < file->dirty_count; i++) {
            chance = disk_next_chance(chance);
            if (chance >> 63 != 0) {
                disk_persist(file, now, file->count < count ? file->count : count, &file->dirty[i]);
            }
        }
        free(now);
        FILE *stream = fopen(file->path, "wb");
        assert(stream != NULL && fwrite(file->bytes, 1, file->count, stream) == file->count);
        assert(fclose(stream) == 0);
    }
    disk_forget();
}

#endif
