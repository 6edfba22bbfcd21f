/* store.h - the record of jobs on disk: one SQLite database, one connection, one thread.
 *
 * The thread takes all operations that were submitted since its last turn, carries them out within
 * one transaction, commits, and completes them. So operations that arrive during a commit share the
 * next one, and a single operation does not wait. LOOK and LIST are answered first and see
 * committed data; no operation completes before its commit is on disk, except for starts: a TAKE
 * that is not durable completes at once, and is committed with the next batch, or 5 ms later.
 *
 * When a write or a sync fails, all operations that wait for the commit fail, and nothing of them
 * is on record. Until writing works again, both of the database and of files, which is tried twice
 * a second, every operation but LOOK and LIST fails at once. A failed batch may contain starts that
 * have completed: their jobs are on record as QUEUED, under an older epoch. A SETTLE from RUNNING
 * that finds this counts the attempt and sets the epoch, as if the start had been recorded; its
 * caller need not know.
 *
 * Rows have checksums. A job whose row is damaged becomes a dead letter when the row is read, at
 * the start or later. A database with invalid pages is copied into a new file when it is opened, as
 * far as it can be read; if the damage is found later, nothing is written until the next start.
 *
 * A settlement from RUNNING replaces the result and log of earlier attempts; one from QUEUED keeps
 * them. A result's file is removed with its job, or when another result replaces it: a reader of
 * its number may find it gone.
 *
 * In the data folder: `lock`, held while the store is open; `jobs.db` and its journal; `bodies/`,
 * the files of long bodies and results, named by their numbers. */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "jobs/port.h"

struct weir_store_options {
    const char *folder;     /* made if needed */
    uint64_t ids_max;       /* the most remembered ids; 0: 16 million */
    uint64_t remember_ms;   /* how long an id is remembered after its job has ended; 0: 7 days */
    uint64_t retry_ms;      /* how often a failed disk is retried; 0: 500 */
    uint64_t journal_bytes; /* when the journal is copied into the database; 0: 8 MiB */

    /* Called by weir_store_open() for each job that is QUEUED, RUNNING or FAILED on record, in the
     * order of the numbers. The row is valid during the call. False: out of memory, and opening
     * fails. */
    bool (*found)(void *context, const struct weir_job_row *row);
    void *context;
};

extern const struct weir_store_port weir_store_sqlite;

/* Opens the store. Null on failure, with a sentence in `error` that says what to do: another Weir
 * has the folder, the file is no database, or of another program or a later version, the disk is
 * full. Damage that was repaired, and losses, are logged. The thread runs from now on.
 */
struct weir_store *weir_store_open(const struct weir_store_options *options, char *error,
                                   size_t error_bytes);

/* The number of this start; committed before weir_store_open() returns. */
uint32_t weir_store_boot(const struct weir_store *store);

/* Finishes all submitted operations, and ends. No operation may be submitted any more. */
void weir_store_close(struct weir_store *store);

/* ---- files ---- */

/* A new file's number and its path, which is `bodies/NUMBER` in the folder; nothing is made. From
 * any thread. A file that no row refers to when the store is opened again is removed. */
uint64_t weir_store_file_new(struct weir_store *store);
int weir_store_file_path(const struct weir_store *store, uint64_t file, char *path, size_t bytes);

/* These two block, and are for disk threads. False, with errno. */
WEIR_MUST_CHECK bool weir_store_file_seal(struct weir_store *store,
                                          int fd); /* syncs the file and its folder */

/* Removes a file. If a commit that failed may still be on record, the file stays until that is
 * certain. */
void weir_store_file_remove(struct weir_store *store, uint64_t file);

/* Reports that the file of a job's result is damaged: the job becomes a dead letter that says so.
 * Any thread. */
void weir_store_result_damaged(struct weir_store *store, uint64_t number);

/* Called after a file could not be written: tests whether any file can be written, or only that one
 * was too long for the free space. If none can, the store fails until both files and the database
 * can be written again. Blocks; for disk threads. */
void weir_store_file_doubt(struct weir_store *store);

#endif
