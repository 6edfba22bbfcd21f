/* store.h - the record of truth on disk: one SQLite database, one connection, one thread.
 *
 * The thread takes whatever has been handed over since it last looked, carries it out within one
 * transaction, commits, and completes it. So what arrives during a commit shares the next one, and
 * a lonely operation waits for nobody. LOOK and LIST are answered first and see what is committed;
 * nothing of a commit is told before it is known to be on disk, but for starts: a TAKE that is not
 * durable completes at once, and is committed with whatever comes next, or 5 ms later.
 *
 * When a write or a sync fails, all that waits for the commit fails, and nothing of it is there.
 * Until writing works again, both of the database and of files, which is tried twice a second,
 * everything fails at once but LOOK and LIST. Starts that were told already may be among what
 * failed: their jobs stand on record as QUEUED, under an older epoch. A SETTLE from RUNNING that
 * finds that counts the attempt and puts the epoch in, as if the start were there; whoever started
 * the job need not know.
 *
 * Rows have checksums. A job whose row is damaged becomes a dead letter when the row is read, at
 * the start or later. A database whose pages make no sense is copied into a new file when it is
 * opened, as far as it can be read; found later, it is not written to any more until then.
 *
 * A settlement from RUNNING replaces what earlier attempts left as result and log; one from QUEUED
 * leaves it. A result's file is removed with its job, or when another takes its place: who is told
 * its number may find it gone.
 *
 * In the data folder: `lock`, held while the store is open; `jobs.db` and its journal; `bodies/`,
 * the files of long bodies and results, named by their numbers. */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "jobs/port.h"

struct weir_store_options {
    const char *folder;     /* made if it is not there */
    uint64_t ids_max;       /* remembered at most; 0: 16 million */
    uint64_t remember_ms;   /* how long an id is, after its job has ended; 0: 7 days */
    uint64_t retry_ms;      /* how often a disk that fails is tried again; 0: 500 */
    uint64_t journal_bytes; /* when the journal is copied into the database; 0: 8 MiB */

    /* What stands on record as QUEUED, RUNNING or FAILED, in the order of the numbers; called by
     * weir_store_open(), before it returns. The row is good during the call. False: there is no
     * memory for it, and opening fails. */
    bool (*found)(void *context, const struct weir_job_row *row);
    void *context;
};

extern const struct weir_store_port weir_store_sqlite;

/* Null on failure, with a sentence in `error` that says what to do: another Weir has the folder,
 * the file is no database, or of another program or a later version, the disk is full. What was
 * damaged and is mended or lost is said on stderr. The thread runs from now on. */
struct weir_store *weir_store_open(const struct weir_store_options *options, char *error,
                                   size_t error_bytes);

/* Counts the starts; committed before weir_store_open() returns. */
uint32_t weir_store_boot(const struct weir_store *store);

/* Carries out what has been handed over, and ends. Nothing may be handed over any more. */
void weir_store_close(struct weir_store *store);

/* ---- files ---- */

/* A new file's number and its path, which is `bodies/NUMBER` in the folder; nothing is made. From
 * any thread. A file that no row refers to when the store is opened again is removed. */
uint64_t weir_store_file_new(struct weir_store *store);
int weir_store_file_path(const struct weir_store *store, uint64_t file, char *path, size_t bytes);

/* These block, and are for disk threads. False, with errno. */
WEIR_MUST_CHECK bool weir_store_file_seal(struct weir_store *store,
                                          int fd); /* file and folder on disk */

/* While a row that was told to have failed may come back, it stays until that is known. */
void weir_store_file_remove(struct weir_store *store, uint64_t file);

/* The result of that job is in a file that is not what was written: the job becomes a dead letter
 * that says so. From any thread. */
void weir_store_result_damaged(struct weir_store *store, uint64_t number);

/* A file could not be written: sees whether none can, or that one was only too long for what room
 * there is. If none can, the store has failed, and recovers when both files and the database can be
 * written again. When this returns, that is told. Blocks, and is for disk threads. */
void weir_store_file_doubt(struct weir_store *store);

#endif
