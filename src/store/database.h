/* database.h - one connection to the database of jobs, its statements and its journal.
 *
 * Whatever SQLite answers that was not expected makes the connection fail: the first reason is
 * kept, and nothing more may be written until weir_database_heal() has succeeded.
 *
 * A sync that failed is never believed when it succeeds later: by then the kernel may have thrown
 * away what it could not write. So after a failure the journal is cut back to the last commit whose
 * sync succeeded, all of it is copied into the database and synced there, and a probe is written.
 * What failed to commit is then known not to be there. */
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
    int failure;     /* the first thing that went wrong; SQLITE_OK: nothing */
    bool damaged;    /* it will not heal by itself */
    const char *why; /* a sentence that lives for ever */
    int error;       /* an errno, or 0: the system did not say */
};

/* Which file it is, whatever it is called. */
struct weir_file_identity {
    uint64_t device;
    uint64_t inode;
};

struct weir_database {
    sqlite3 *handle; /* null: it could not even be opened again */
    sqlite3_stmt *statements[WEIR_SQL_COUNT];
    char path[PATH_MAX];
    uint32_t page_bytes;
    uint32_t frames;    /* pages in the journal, of commits that are safely on disk */
    bool copied;        /* all of them are in the database as well; the next commit starts over */
    bool begun;         /* a transaction is open */
    uint64_t unchecked; /* rows up to that number may have no checksum: version 1 wrote them */
    bool known;         /* which files they are, since a commit: */
    struct weir_file_identity files[2];
    struct weir_database_health health;
};

/* Makes the file if there is none. False, with a sentence in `error`; then nothing of a file that
 * was there has been changed. */
WEIR_MUST_CHECK bool weir_database_open(struct weir_database *database, const char *folder,
                                        char *error, size_t error_bytes);

/* Makes a new file with the tables and nothing in them, and opens it as it is. A file that is there
 * is removed. False, with a sentence. */
WEIR_MUST_CHECK bool weir_database_make(const char *path, sqlite3 **handle, char *error,
                                        size_t error_bytes);

/* Reads all pages and sees whether they fit together. False: they do not, and the database is
 * damaged. */
WEIR_MUST_CHECK bool weir_database_check(struct weir_database *database);

/* It is as if writing to it had failed with that errno, which something beside it has met. */
void weir_database_blame(struct weir_database *database, int error);

/* What is said of that. */
const char *weir_database_explain_error(int error);

/* The sentence for why it has failed while it was being opened. */
void weir_database_explain(const struct weir_database *database, char *error, size_t error_bytes);

/* Copies the journal into the database if it works, and closes it. Safe on a zeroed one. */
void weir_database_close(struct weir_database *database);

/* ---- statements ---- */

/* To be bound, then run or stepped. */
static inline sqlite3_stmt *weir_database_statement(const struct weir_database *database,
                                                    enum weir_sql sql)
{
    return database->statements[sql];
}

void weir_bind_number(sqlite3_stmt *statement, int index, uint64_t number);
void weir_bind_time(sqlite3_stmt *statement, int index, int64_t ms);
void weir_bind_bytes(sqlite3_stmt *statement, int index, struct weir_slice bytes);

/* What a column of the present row holds. Bytes are good until the statement goes on. */
uint64_t weir_column_number(sqlite3_stmt *statement, int index);
struct weir_slice weir_column_bytes(sqlite3_stmt *statement, int index);

/* Runs a statement that answers with nothing. False: it has failed. */
WEIR_MUST_CHECK bool weir_database_run(struct weir_database *database, enum weir_sql sql);

/* The same, of one that must change exactly one row: else the database is damaged. */
WEIR_MUST_CHECK bool weir_database_change(struct weir_database *database, enum weir_sql sql);

/* The next row of an answer. False: there is none, or it has failed. Whoever does not go on until
 * then must weir_database_reset(). */
WEIR_MUST_CHECK bool weir_database_step(struct weir_database *database, enum weir_sql sql);
void weir_database_reset(struct weir_database *database, enum weir_sql sql);

/* A number that is kept by its name. 0 if the database has failed. */
uint64_t weir_meta_get(struct weir_database *database, const char *name);

/* It is at least `value` from now on. */
WEIR_MUST_CHECK bool weir_meta_raise(struct weir_database *database, const char *name,
                                     uint64_t value);

/* Somebody has found what must not be. */
void weir_database_damage(struct weir_database *database);

/* ---- transactions ---- */

/* Unless one is open already. */
WEIR_MUST_CHECK bool weir_database_begin(struct weir_database *database);

/* On disk when it returns true. False: nothing of it is there, or where nobody will find it: the
 * files were removed. */
WEIR_MUST_CHECK bool weir_database_commit(struct weir_database *database);

/* After a failure: nothing of the transaction is there, and reading goes on if it can. */
void weir_database_abandon(struct weir_database *database);

/* Copies what is in the journal into the database; `empty`: and makes the journal's file empty. */
WEIR_MUST_CHECK bool weir_database_checkpoint(struct weir_database *database, bool empty);

/* Whether what it failed to commit may be found by the next start all the same: its sync failed, or
 * it was written to files that somebody has moved away. A heal ends that. */
bool weir_database_in_doubt(const struct weir_database *database);

/* Opens the connection anew and makes sure that writing works. False: not yet. */
WEIR_MUST_CHECK bool weir_database_heal(struct weir_database *database);

#endif
