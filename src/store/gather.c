/* gather.c - a layer (VFS) over SQLite's default one that joins small writes. A file belongs to the
 * connection that opened it, and so to one thread; only weir_gather_open() touches global state. */
#include "store/gather.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

/* SQLite's layer for Unix writes less than 128 KiB by one call; longer commits take several. */
#define GATHER_BYTES_MAX (120u * 1024)

/* See "The WAL File Format" of SQLite. */
#define JOURNAL_HEAD_BYTES 32

/* By how much the journal is made longer at a time. */
#define EXTEND_WRITES 4

struct gathered {
    sqlite3_file file;  /* SQLite's view of the file */
    bool is_journal;    /* else the database itself */
    sqlite3_file *real; /* behind this struct, in the same memory */
    char *bytes;        /* room for GATHER_BYTES_MAX */
    sqlite3_int64 at;   /* their offset in the file */
    int count;          /* bytes held back */
    sqlite3_int64 end;  /* of the file, if it is the journal */
};

/* The real file's struct follows ours, aligned for any type. */
#define REAL_OFFSET ((sizeof(struct gathered) + 15) & ~(size_t)15)

static sqlite3_vfs layer;
static sqlite3_vfs *below;

static struct gathered *gathered_of(sqlite3_file *file)
{
    return (struct gathered *)file;
}

/* Extends the journal ahead of use. Syncing bytes that overwrite old ones is cheaper than syncing a
 * file that has grown, which takes a commit of the file system's own journal. SQLite does not
 * mistake the zeros for a page. A failure does not matter.
 *
 * Never along with the journal's head, though, which SQLite syncs before it writes anything else:
 * on the disk there may still be the journal before, which was emptied and not synced since. Until
 * a new head is there it counts, and zeros in the middle of it would leave a part that is older
 * than the database. */
static void extend(struct gathered *gathered)
{
    static const char zeros[GATHER_BYTES_MAX];
    for (int i = 0; i < EXTEND_WRITES; i++) {
        if (gathered->real->pMethods->xWrite(gathered->real, zeros, sizeof zeros, gathered->end) !=
            SQLITE_OK) {
            return;
        }
        gathered->end += (sqlite3_int64)sizeof zeros;
    }
}

/* Writes the bytes held back. If that fails they are dropped: a commit that they belong to fails
 * and is rolled back; if they belong to a checkpoint, that fails, and the journal still has them.
 */
static int flush_writes(struct gathered *gathered)
{
    int count = gathered->count;
    if (count == 0) {
        return SQLITE_OK;
    }
    gathered->count = 0;
    int result =
        gathered->real->pMethods->xWrite(gathered->real, gathered->bytes, count, gathered->at);
    if (gathered->is_journal && result == SQLITE_OK && gathered->at + count > gathered->end) {
        gathered->end = gathered->at + count;
        if (gathered->at > 0) {
            extend(gathered);
        }
    }
    return result;
}

static int on_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    struct gathered *gathered = gathered_of(file);
    bool joins = gathered->count > 0 && at == gathered->at + gathered->count &&
                 (unsigned)count <= GATHER_BYTES_MAX - (unsigned)gathered->count;
    if (!joins) {
        int result = flush_writes(gathered);
        if (result != SQLITE_OK) {
            return result;
        }
        if ((unsigned)count > GATHER_BYTES_MAX) {
            return gathered->real->pMethods->xWrite(gathered->real, bytes, count, at);
        }
        gathered->at = at;
    }
    memcpy(gathered->bytes + gathered->count, bytes, (size_t)count);
    gathered->count += count;
    return SQLITE_OK;
}

/* ---- calls that need the file up to date ---- */

static int on_close(sqlite3_file *file)
{
    struct gathered *gathered = gathered_of(file);
    int flushed = flush_writes(gathered);
    int closed = gathered->real->pMethods->xClose(gathered->real);
    sqlite3_free(gathered->bytes);
    return flushed != SQLITE_OK ? flushed : closed;
}

static int on_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 at)
{
    struct gathered *gathered = gathered_of(file);
    int result = flush_writes(gathered);
    return result != SQLITE_OK ? result
                               : gathered->real->pMethods->xRead(gathered->real, bytes, count, at);
}

/* Overwrites the journal's head, without which it is not valid. SQLite truncates the journal once
 * the database has all of it, and does not sync that: after a power cut a disk may have a part of
 * it, whose pages are older than the database's. So the journal is made invalid first. */
static int invalidate_journal(struct gathered *gathered)
{
    static const char nothing[JOURNAL_HEAD_BYTES];
    sqlite3_file *real = gathered->real;
    int result = real->pMethods->xWrite(real, nothing, sizeof nothing, 0);
    return result != SQLITE_OK ? result : real->pMethods->xSync(real, SQLITE_SYNC_NORMAL);
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 bytes)
{
    struct gathered *gathered = gathered_of(file);
    int result = flush_writes(gathered);
    if (gathered->is_journal && result == SQLITE_OK && bytes == 0 && gathered->end > 0) {
        result = invalidate_journal(gathered);
    }
    if (result == SQLITE_OK) {
        result = gathered->real->pMethods->xTruncate(gathered->real, bytes);
    }
    if (result == SQLITE_OK) {
        gathered->end = bytes;
    }
    return result;
}

static int on_sync(sqlite3_file *file, int flags)
{
    struct gathered *gathered = gathered_of(file);
    int result = flush_writes(gathered);
    return result != SQLITE_OK ? result : gathered->real->pMethods->xSync(gathered->real, flags);
}

static int on_size(sqlite3_file *file, sqlite3_int64 *bytes)
{
    struct gathered *gathered = gathered_of(file);
    int result = flush_writes(gathered);
    return result != SQLITE_OK ? result
                               : gathered->real->pMethods->xFileSize(gathered->real, bytes);
}

/* ---- calls that pass through ---- */

static int on_lock(sqlite3_file *file, int kind)
{
    sqlite3_file *real = gathered_of(file)->real;
    return real->pMethods->xLock(real, kind);
}

static int on_unlock(sqlite3_file *file, int kind)
{
    sqlite3_file *real = gathered_of(file)->real;
    return real->pMethods->xUnlock(real, kind);
}

static int on_check(sqlite3_file *file, int *reserved)
{
    sqlite3_file *real = gathered_of(file)->real;
    return real->pMethods->xCheckReservedLock(real, reserved);
}

static int on_control(sqlite3_file *file, int what, void *argument)
{
    sqlite3_file *real = gathered_of(file)->real;
    return real->pMethods->xFileControl(real, what, argument);
}

static int on_sector(sqlite3_file *file)
{
    sqlite3_file *real = gathered_of(file)->real;
    return real->pMethods->xSectorSize(real);
}

static int on_characteristics(sqlite3_file *file)
{
    sqlite3_file *real = gathered_of(file)->real;
    return real->pMethods->xDeviceCharacteristics(real);
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_check,
    .xFileControl = on_control,
    .xSectorSize = on_sector,
    .xDeviceCharacteristics = on_characteristics,
};

/* ---- the layer ---- */

static int on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *result)
{
    (void)vfs;
    if ((flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_DB)) == 0) {
        return below->xOpen(below, name, file, flags, result);
    }
    struct gathered *gathered = gathered_of(file);
    *gathered = (struct gathered){.is_journal = (flags & SQLITE_OPEN_WAL) != 0,
                                  .real = (sqlite3_file *)((char *)file + REAL_OFFSET)};
    gathered->bytes = sqlite3_malloc((int)GATHER_BYTES_MAX);
    if (gathered->bytes == NULL) {
        return SQLITE_NOMEM;
    }
    int opened = below->xOpen(below, name, gathered->real, flags, result);
    if (opened == SQLITE_OK) {
        opened = gathered->real->pMethods->xFileSize(gathered->real, &gathered->end);
    }
    if (opened != SQLITE_OK) {
        sqlite3_free(gathered->bytes);
        if (gathered->real->pMethods != NULL) {
            gathered->real->pMethods->xClose(gathered->real);
        }
        return opened;
    }
    gathered->file.pMethods = &methods;
    return SQLITE_OK;
}

int weir_gather_open(const char *path, struct sqlite3 **handle, int flags)
{
    below = sqlite3_vfs_find(NULL);
    assert(below != NULL && below != &layer);
    layer = *below;
    layer.pNext = NULL;
    layer.zName = "weir-gather";
    layer.szOsFile = (int)REAL_OFFSET + below->szOsFile;
    layer.xOpen = on_open;
    int result = sqlite3_vfs_register(&layer, 0);
    if (result != SQLITE_OK) {
        return result;
    }
    result = sqlite3_open_v2(path, handle, flags, layer.zName);
    /* Open files keep the layer. Left registered, it might become the default one. */
    sqlite3_vfs_unregister(&layer);
    return result;
}
