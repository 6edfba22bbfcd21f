/* database.h - one connection to the database of jobs, its statements and its journal.
 *
 * Every unexpected result of SQLite makes the connection fail: the first reason is kept, and
 * nothing more may be written until weir_database_heal() has succeeded.
 *
 * A sync that succeeds after a failed one proves nothing: the kernel may have dropped the pages
 * that it could not write. So after a failure the journal is cut back to the last commit whose sync
 * succeeded, all of it is copied into the database and synced there, and a probe is written. A
 * commit that failed is then certainly not on disk. */
#ifndef WEIR_STORE_DATABASE_H
#define WEIR_STORE_DATABASE_H

#include "store/statements.h"
#include "weir/types.h"

#include <linux/limits.h> /* PATH_MAX, which C17 alone does not have */
#include <sqlite3.h>
#include <stdbool.h>

enum weir_sql {
#define WEIR_SQL(name, text) WEIR_SQL_##name,
    WEIR_STATEMENTS
#undef WEIR_SQL
        WEIR_SQL_COUNT
};

struct weir_database_health {
    int failure;     /* SQLite's first error; SQLITE_OK: none */
    bool damaged;    /* only a restart can repair it */
    const char *why; /* a sentence; a static text */
    int error;       /* the system's errno, or 0: none */
};

/* Identifies a file independently of its name. */
struct weir_file_identity {
    uint64_t device;
    uint64_t inode;
};

struct weir_database {
    sqlite3 *handle; /* null: reopening it has failed */
    sqlite3_stmt *statements[WEIR_SQL_COUNT];
    char path[PATH_MAX];
    uint32_t page_bytes;
    uint32_t frames;    /* pages in the journal, of commits that are safely on disk */
    bool copied;        /* the database has all of them as well; the next commit starts over */
    bool begun;         /* a transaction is open */
    uint64_t unchecked; /* rows up to that number may have no checksum: version 1 wrote them */
    bool known;         /* the identities below are set, since a commit: */
    struct weir_file_identity files[2];
    struct weir_database_health health;
};

/* Opens the database, making the file if there is none. False, with a sentence in `error`; then an
 * existing file is unchanged. */
WEIR_MUST_CHECK bool weir_database_open(struct weir_database *database, const char *folder,
                                        char *error, size_t error_bytes);

/* Makes a new file with empty tables, and opens it with SQLite's default settings. An existing file
 * is removed. False, with a sentence. */
WEIR_MUST_CHECK bool weir_database_make(const char *path, sqlite3 **handle, char *error,
                                        size_t error_bytes);

/* Reads all pages and checks that they fit together. False: they do not, and the database is
 * damaged. */
WEIR_MUST_CHECK bool weir_database_check(struct weir_database *database);

/* Makes the database fail with an errno that a file beside it has met. */
void weir_database_blame(struct weir_database *database, int error);

/* The sentence for such an errno. */
const char *weir_database_explain_error(int error);

/* The sentence for why it has failed while it was being opened. */
void weir_database_explain(const struct weir_database *database, char *error, size_t error_bytes);

/* Copies the journal into the database if that works, and closes it. Safe on a zeroed one. */
void weir_database_close(struct weir_database *database);

/* ---- statements ---- */

/* The statement, to be bound and then run or stepped. */
static inline sqlite3_stmt *weir_database_statement(const struct weir_database *database,
                                                    enum weir_sql sql)
{
    return database->statements[sql];
}

void weir_bind_number(sqlite3_stmt *statement, int index, uint64_t number);
void weir_bind_time(sqlite3_stmt *statement, int index, int64_t ms);
void weir_bind_bytes(sqlite3_stmt *statement, int index, struct weir_slice bytes);

/* Reads a column of the present row. Bytes are valid until the statement is stepped or reset. */
uint64_t weir_column_number(sqlite3_stmt *statement, int index);
struct weir_slice weir_column_bytes(sqlite3_stmt *statement, int index);

/* Runs a statement that returns no rows. False: it has failed. */
WEIR_MUST_CHECK bool weir_database_run(struct weir_database *database, enum weir_sql sql);

/* Runs a statement that must change exactly one row: else the database is damaged. */
WEIR_MUST_CHECK bool weir_database_change(struct weir_database *database, enum weir_sql sql);

/* Steps to the next row. False: there is none, or the database has failed. A caller that stops
 * before that must call weir_database_reset(). */
WEIR_MUST_CHECK bool weir_database_step(struct weir_database *database, enum weir_sql sql);
void weir_database_reset(struct weir_database *database, enum weir_sql sql);

/* Reads a number of `meta`. 0 if the database has failed. */
uint64_t weir_meta_get(struct weir_database *database, const char *name);

/* Raises a number of `meta` to at least `value`. */
WEIR_MUST_CHECK bool weir_meta_raise(struct weir_database *database, const char *name,
                                     uint64_t value);

/* Marks the database as damaged. */
void weir_database_damage(struct weir_database *database);

/* ---- transactions ---- */

/* Begins a transaction unless one is open. */
WEIR_MUST_CHECK bool weir_database_begin(struct weir_database *database);

/* True: the transaction is on disk. False: nothing of it is, or only in files that were removed. */
WEIR_MUST_CHECK bool weir_database_commit(struct weir_database *database);

/* Rolls back after a failure; reading goes on if it can. */
void weir_database_abandon(struct weir_database *database);

/* Copies the journal into the database; with `empty` it also truncates the journal's file. */
WEIR_MUST_CHECK bool weir_database_checkpoint(struct weir_database *database, bool empty);

/* Whether the next start may find a commit that has failed: its sync failed, or it was written to
 * files that were moved away. A heal ends that. */
bool weir_database_in_doubt(const struct weir_database *database);

/* Reopens the connection and verifies that writing works. False: not yet. */
WEIR_MUST_CHECK bool weir_database_heal(struct weir_database *database);

#endif
