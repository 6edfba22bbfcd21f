/* journal.c - cuts and rewrites SQLite's write-ahead log after a failed fsync. The store's thread
 * calls it while no connection is open. */
#include "store/journal.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_BYTES      65536
#define FRAME_HEAD_BYTES 24

struct journal {
    char path[PATH_MAX];
    sqlite3_file *file; /* null: there is no journal */
    uint64_t bytes;
};

static bool close_journal(struct journal *journal, bool good)
{
    if (journal->file != NULL && journal->file->pMethods != NULL) {
        good = journal->file->pMethods->xClose(journal->file) == SQLITE_OK && good;
    }
    free(journal->file);
    return good;
}

/* A missing journal counts as an empty one. */
static bool open_journal(struct journal *journal, const char *database)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_WAL;
    *journal = (struct journal){0};
    int length = snprintf(journal->path, sizeof journal->path, "%s-wal", database);
    if (length < 0 || (size_t)length >= sizeof journal->path) {
        return false;
    }
    if (access(journal->path, F_OK) != 0) {
        return true;
    }
    journal->file = calloc(1, (size_t)vfs->szOsFile);
    if (journal->file == NULL) {
        return false;
    }
    sqlite3_int64 bytes;
    if (vfs->xOpen(vfs, journal->path, journal->file, flags, &flags) != SQLITE_OK ||
        journal->file->pMethods->xFileSize(journal->file, &bytes) != SQLITE_OK) {
        return close_journal(journal, false);
    }
    journal->bytes = (uint64_t)bytes;
    return true;
}

static bool sync_journal(struct journal *journal)
{
    return journal->file->pMethods->xSync(journal->file, SQLITE_SYNC_NORMAL) == SQLITE_OK;
}

/* Whether only the zeros that extended the journal (gather.h) follow: SQLite takes them for its
 * end. */
static bool ends_at(struct journal *journal, uint64_t at)
{
    static const char zeros[FRAME_HEAD_BYTES];
    char head[FRAME_HEAD_BYTES];
    if (journal->bytes < at + sizeof head) {
        return journal->bytes <= at;
    }
    return journal->file->pMethods->xRead(journal->file, head, sizeof head, (sqlite3_int64)at) ==
               SQLITE_OK &&
           memcmp(head, zeros, sizeof head) == 0;
}

bool weir_journal_cut(const char *database, uint64_t bytes)
{
    struct journal journal;
    if (!open_journal(&journal, database)) {
        return false;
    }
    if (ends_at(&journal, bytes)) {
        return close_journal(&journal, true);
    }
    const struct sqlite3_io_methods *methods = journal.file->pMethods;
    bool cut = methods->xTruncate(journal.file, (sqlite3_int64)bytes) == SQLITE_OK;
    return close_journal(&journal, cut && sync_journal(&journal));
}

bool weir_journal_renew(const char *database)
{
    struct journal journal;
    if (!open_journal(&journal, database)) {
        return false;
    }
    char *chunk = malloc(CHUNK_BYTES);
    bool good = chunk != NULL;
    for (uint64_t at = 0; good && at < journal.bytes;) {
        const struct sqlite3_io_methods *methods = journal.file->pMethods;
        uint64_t rest = journal.bytes - at;
        int count = rest < CHUNK_BYTES ? (int)rest : CHUNK_BYTES;
        good = methods->xRead(journal.file, chunk, count, (sqlite3_int64)at) == SQLITE_OK &&
               methods->xWrite(journal.file, chunk, count, (sqlite3_int64)at) == SQLITE_OK;
        at += (uint64_t)count;
    }
    free(chunk);
    return close_journal(&journal, good && (journal.bytes == 0 || sync_journal(&journal)));
}
