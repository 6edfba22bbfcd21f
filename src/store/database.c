/* database.c - one SQLite connection: opening, settings, transactions, failures. Only the store's
 * thread uses it, after the main thread has opened it.
 *
 * The format, version 2. Jobs have no index over their ids: see ids.h. `jobs` holds only small
 * values and short bodies, so that a change of state rewrites little; longer bodies and results up
 * to 64 KiB have tables of their own, and still longer ones are files. A job that is forgotten but
 * for its id is a row of `remembered`. The agenda says when which row is to be forgotten next, in
 * the order of time, in which it mostly grows as well.
 *
 * Empty bytes are NULL.
 *
 * Each row of `jobs`, `bodies`, `results` and `remembered` has a checksum over its number and all
 * of its columns (record.c); the bytes of a body have a SHA-256 in the row of their job. Version 1
 * had no checksums. A database of version 1 gets the columns when it is opened; the rows that it
 * has then are valid without a checksum, and get one when they are written next: `unchecked` in
 * `meta` is the highest number of them. */
#define _GNU_SOURCE
#include "store/database.h"

#include "store/gather.h"
#include "store/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPLICATION_ID 0x57656972 /* "Weir" */
#define VERSION        2

/* Of SQLite's file format. */
#define HEADER_BYTES        100
#define JOURNAL_HEAD_BYTES  32
#define JOURNAL_FRAME_BYTES 24
#define HEADER_MAGIC        "SQLite format 3"
#define HEADER_VERSION_AT   60
#define HEADER_APPLICATION  68

static const char schema[] =
    "PRAGMA page_size = 4096;"
    "PRAGMA auto_vacuum = INCREMENTAL;"
    "PRAGMA synchronous = FULL;"
    "BEGIN;"
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;"
    "CREATE TABLE jobs(number INTEGER PRIMARY KEY, state, attempts, kills, boot, counter,"
    " started_ms, ended_ms, next_ms, keep_ms, result_status, result_bytes, result_file, log_bytes,"
    " priority, attempts_max, timeout_ms, cost_ms, created_ms, due_ms, dated, body_bytes,"
    " body_file, id, queue, tenant, key, type, digest, error, result_type, body, result_sum,"
    " checksum);"
    "CREATE TABLE bodies(number INTEGER PRIMARY KEY, bytes, checksum);"
    "CREATE TABLE results(number INTEGER PRIMARY KEY, result, log, checksum);"
    "CREATE TABLE remembered(number INTEGER PRIMARY KEY, id, digest, state, tenant,"
    " ended_ms, forget_ms, checksum);"
    "CREATE TABLE agenda(at_ms INTEGER, number INTEGER, PRIMARY KEY(at_ms, number)) WITHOUT ROWID;"
    "INSERT INTO meta VALUES('boot', 0), ('forgotten', 0), ('probe', 0), ('unchecked', 0),"
    " ('unchecked.copy', 0);"
    "PRAGMA application_id = 1466263922;"
    "PRAGMA user_version = 2;"
    "COMMIT;";

/* From version 1. The columns come last, as in a new database; SQLite rewrites no row for them. */
static const char upgrade[] = "BEGIN IMMEDIATE;"
                              "ALTER TABLE jobs ADD COLUMN result_sum;"
                              "ALTER TABLE jobs ADD COLUMN checksum;"
                              "ALTER TABLE bodies ADD COLUMN checksum;"
                              "ALTER TABLE results ADD COLUMN checksum;"
                              "ALTER TABLE remembered ADD COLUMN checksum;"
                              "INSERT OR REPLACE INTO meta SELECT 'unchecked', max("
                              " coalesce((SELECT max(number) FROM jobs), 0),"
                              " coalesce((SELECT max(number) FROM remembered), 0));"
                              "INSERT OR REPLACE INTO meta SELECT 'unchecked.copy', value FROM meta"
                              " WHERE name = 'unchecked';"
                              "PRAGMA user_version = 2;"
                              "COMMIT;";

static_assert(APPLICATION_ID == 1466263922, "as it stands in the schema");

/* Settings of every connection, and the values that it must report. The exclusive lock comes first:
 * then the journal's index is in memory, and there is no shared file of it. */
struct setting {
    const char *set; /* null: it was decided when the file was made */
    const char *get;
    const char *expected;
};

static const struct setting settings[] = {
    {"PRAGMA locking_mode = EXCLUSIVE", "PRAGMA locking_mode", "exclusive"},
    {"PRAGMA trusted_schema = OFF", "PRAGMA trusted_schema", "0"},
    {"PRAGMA cell_size_check = ON", "PRAGMA cell_size_check", "1"},
    {"PRAGMA journal_mode = WAL", "PRAGMA journal_mode", "wal"},
    {"PRAGMA synchronous = FULL", "PRAGMA synchronous", "2"},
    {"PRAGMA wal_autocheckpoint = 0", "PRAGMA wal_autocheckpoint", "0"},
    {"PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys", "0"},
    {"PRAGMA secure_delete = OFF", "PRAGMA secure_delete", "0"},
    {"PRAGMA temp_store = MEMORY", "PRAGMA temp_store", "2"},
    {"PRAGMA mmap_size = 0", "PRAGMA mmap_size", "0"},
    {"PRAGMA cache_size = -32768", "PRAGMA cache_size", "-32768"},
    {NULL, "PRAGMA auto_vacuum", "2"},
    {NULL, "PRAGMA application_id", "1466263922"},
};

static const char *const texts[WEIR_SQL_COUNT] = {
#define WEIR_SQL(name, text) text,
    WEIR_STATEMENTS
#undef WEIR_SQL
};

/* ---- failures ---- */

static const char *explain(int result, int system_error)
{
    bool full = system_error == ENOSPC || system_error == EDQUOT;
    if (result == SQLITE_READONLY_DBMOVED) {
        return "jobs.db or its journal was removed or replaced while weir ran: check the data "
               "folder and start weir again";
    }
    switch (result & 0xff) {
    case SQLITE_FULL:
        return "the disk that holds the data folder is full";
    case SQLITE_IOERR:
        return full ? "the disk that holds the data folder is full"
                    : "the disk that holds the data folder fails to read or write";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        return "the data folder cannot be written to";
    case SQLITE_NOMEM:
        return "out of memory";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "another program has locked jobs.db";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return "jobs.db is damaged, and nothing more is written to it: start weir again, which"
               " copies all that can be read into a new file";
    default:
        return "jobs.db cannot be used";
    }
}

/* Only the first failure is kept. */
static bool fail_database(struct weir_database *database, int result)
{
    if (database->health.failure == SQLITE_OK) {
        int system_error = database->handle == NULL ? 0 : sqlite3_system_errno(database->handle);
        database->health.failure = result;
        database->health.why = explain(result, system_error);
        database->health.error = (result & 0xff) == SQLITE_FULL ? ENOSPC : system_error;
    }
    int kind = database->health.failure & 0xff;
    database->health.damaged = kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB ||
                               database->health.failure == SQLITE_READONLY_DBMOVED;
    return false;
}

void weir_database_damage(struct weir_database *database)
{
    fail_database(database, SQLITE_CORRUPT);
}

const char *weir_database_explain_error(int error)
{
    bool closed = error == EROFS || error == EACCES || error == EPERM || error == ENOENT;
    return explain(closed ? SQLITE_CANTOPEN : SQLITE_IOERR, error);
}

void weir_database_blame(struct weir_database *database, int error)
{
    if (database->health.failure == SQLITE_OK) {
        database->health.failure = SQLITE_IOERR;
    }
    if (!database->health.damaged) {
        database->health.why = weir_database_explain_error(error);
        database->health.error = error;
    }
}

void weir_database_explain(const struct weir_database *database, char *error, size_t error_bytes)
{
    const char *said = database->handle == NULL ? "no memory" : sqlite3_errmsg(database->handle);
    if (database->health.damaged) {
        snprintf(error, error_bytes,
                 "%s is damaged, and was left as it is: restore a backup of its folder, or move"
                 " the folder away and see what `sqlite3 jobs.db .recover` finds",
                 database->path);
    } else {
        snprintf(error, error_bytes, "%s: %s (SQLite says: %s)", database->path,
                 database->health.why, said);
    }
}

/* ---- statements ---- */

void weir_bind_number(sqlite3_stmt *statement, int index, uint64_t number)
{
    sqlite3_bind_int64(statement, index, (sqlite3_int64)number);
}

void weir_bind_time(sqlite3_stmt *statement, int index, int64_t ms)
{
    sqlite3_bind_int64(statement, index, ms);
}

void weir_bind_bytes(sqlite3_stmt *statement, int index, struct weir_slice bytes)
{
    if (bytes.bytes == 0) {
        sqlite3_bind_null(statement, index);
    } else {
        sqlite3_bind_blob64(statement, index, bytes.data, bytes.bytes, SQLITE_STATIC);
    }
}

uint64_t weir_column_number(sqlite3_stmt *statement, int index)
{
    return (uint64_t)sqlite3_column_int64(statement, index);
}

struct weir_slice weir_column_bytes(sqlite3_stmt *statement, int index)
{
    const char *data = sqlite3_column_blob(statement, index);
    return (struct weir_slice){data, (size_t)sqlite3_column_bytes(statement, index)};
}

void weir_database_reset(struct weir_database *database, enum weir_sql sql)
{
    sqlite3_reset(database->statements[sql]);
}

bool weir_database_step(struct weir_database *database, enum weir_sql sql)
{
    int result = sqlite3_step(database->statements[sql]);
    if (result == SQLITE_ROW) {
        return true;
    }
    sqlite3_reset(database->statements[sql]);
    return result == SQLITE_DONE ? false : fail_database(database, result);
}

bool weir_database_run(struct weir_database *database, enum weir_sql sql)
{
    int result = sqlite3_step(database->statements[sql]);
    while (result == SQLITE_ROW) { /* pragmas may return rows */
        result = sqlite3_step(database->statements[sql]);
    }
    sqlite3_reset(database->statements[sql]);
    return result == SQLITE_DONE ? true : fail_database(database, result);
}

bool weir_database_change(struct weir_database *database, enum weir_sql sql)
{
    if (!weir_database_run(database, sql)) {
        return false;
    }
    return sqlite3_changes(database->handle) == 1 ? true : fail_database(database, SQLITE_CORRUPT);
}

uint64_t weir_meta_get(struct weir_database *database, const char *name)
{
    sqlite3_stmt *statement = database->statements[WEIR_SQL_GET_META];
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    if (!weir_database_step(database, WEIR_SQL_GET_META)) {
        fail_database(
            database,
            SQLITE_CORRUPT); /* the row must exist, unless the database has failed already */
        return 0;
    }
    uint64_t value = weir_column_number(statement, 0);
    weir_database_reset(database, WEIR_SQL_GET_META);
    return value;
}

bool weir_meta_raise(struct weir_database *database, const char *name, uint64_t value)
{
    sqlite3_stmt *statement = database->statements[WEIR_SQL_RAISE_META];
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    weir_bind_number(statement, 2, value);
    return weir_database_change(database, WEIR_SQL_RAISE_META);
}

/* ---- transactions ---- */

bool weir_database_begin(struct weir_database *database)
{
    assert(database->health.failure == SQLITE_OK);
    database->begun = database->begun || weir_database_run(database, WEIR_SQL_BEGIN);
    return database->begun;
}

/* Does not use stat(): reading a file's times makes the next write set new ones, to the nanosecond,
 * and where the file system has no journal the next sync then writes its inode, too. */
static bool identify(const char *path, struct weir_file_identity *identity)
{
    struct statx about;
    if (statx(AT_FDCWD, path, 0, STATX_INO, &about) != 0) {
        return false;
    }
    *identity = (struct weir_file_identity){
        (uint64_t)about.stx_dev_major << 32 | about.stx_dev_minor, about.stx_ino};
    return true;
}

/* Whether the files that were written are still the named ones. Writes to a removed file succeed,
 * but are lost when it is closed. */
static bool check_place(struct weir_database *database)
{
    struct weir_file_identity files[2] = {{0}};
    char journal[PATH_MAX + 4];
    snprintf(journal, sizeof journal, "%s-wal", database->path);
    bool there = identify(database->path, &files[0]) && identify(journal, &files[1]);
    if (there && !database->known) {
        memcpy(database->files, files, sizeof files);
        database->known = true;
    }
    return there && memcmp(database->files, files, sizeof files) == 0
               ? true
               : fail_database(database, SQLITE_READONLY_DBMOVED);
}

bool weir_database_commit(struct weir_database *database)
{
    assert(database->begun);
    if (database->health.failure != SQLITE_OK || !weir_database_run(database, WEIR_SQL_COMMIT) ||
        !check_place(database)) {
        return false;
    }
    database->begun = false;
    return true;
}

bool weir_database_in_doubt(const struct weir_database *database)
{
    return database->health.failure == SQLITE_IOERR_FSYNC ||
           database->health.failure == SQLITE_READONLY_DBMOVED;
}

void weir_database_abandon(struct weir_database *database)
{
    assert(database->health.failure != SQLITE_OK);
    database->begun = false;
    /* After some failures SQLite has rolled back already. */
    if (database->handle != NULL && sqlite3_get_autocommit(database->handle) == 0) {
        sqlite3_step(database->statements[WEIR_SQL_ROLLBACK]);
        sqlite3_reset(database->statements[WEIR_SQL_ROLLBACK]);
    }
}

/* SQLite calls this with the journal's length after a commit that is safely on disk. */
static int note_commit(void *context, sqlite3 *handle, const char *name, int frames)
{
    struct weir_database *database = context;
    (void)handle;
    (void)name;
    database->frames = (uint32_t)frames;
    database->copied = false;
    return SQLITE_OK;
}

bool weir_database_checkpoint(struct weir_database *database, bool empty)
{
    int mode = empty ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
    int all, copied;
    assert(!database->begun);
    int result = sqlite3_wal_checkpoint_v2(database->handle, NULL, mode, &all, &copied);
    if (result != SQLITE_OK) {
        return fail_database(database, result);
    }
    database->copied = all == copied;
    database->frames = empty ? 0 : database->frames;
    return true;
}

/* ---- connections ---- */

static void close_connection(struct weir_database *database)
{
    for (int i = 0; i < WEIR_SQL_COUNT; i++) {
        sqlite3_finalize(database->statements[i]);
        database->statements[i] = NULL;
    }
    int result = sqlite3_close(database->handle);
    assert(result == SQLITE_OK);
    database->handle = NULL;
    database->begun = false;
}

/* The first column of a query's first row, as text; empty if there is none. */
static bool ask_pragma(struct weir_database *database, const char *question, char *answer,
                       size_t bytes)
{
    sqlite3_stmt *statement;
    int result = sqlite3_prepare_v2(database->handle, question, -1, &statement, NULL);
    answer[0] = '\0';
    if (result == SQLITE_OK) {
        result = sqlite3_step(statement);
        if (result == SQLITE_ROW) {
            snprintf(answer, bytes, "%s", (const char *)sqlite3_column_text(statement, 0));
        }
    }
    sqlite3_finalize(statement);
    return result == SQLITE_ROW || result == SQLITE_DONE ? true : fail_database(database, result);
}

static bool apply_settings(struct weir_database *database)
{
    char answer[32];
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const struct setting *setting = &settings[i];
        if (setting->set != NULL && !ask_pragma(database, setting->set, answer, sizeof answer)) {
            return false;
        }
        if (!ask_pragma(database, setting->get, answer, sizeof answer)) {
            return false;
        }
        if (strcmp(answer, setting->expected) != 0) {
            return fail_database(database, setting->set == NULL ? SQLITE_CORRUPT : SQLITE_MISUSE);
        }
    }
    if (!ask_pragma(database, "PRAGMA page_size", answer, sizeof answer)) {
        return false;
    }
    database->page_bytes = (uint32_t)strtoul(answer, NULL, 10);
    return true;
}

bool weir_database_check(struct weir_database *database)
{
    char answer[64];
    return ask_pragma(database, "PRAGMA quick_check(1)", answer, sizeof answer) &&
           (strcmp(answer, "ok") == 0 || fail_database(database, SQLITE_CORRUPT));
}

/* Upgrades a database of version 1 to version 2, or leaves it as it is. */
static bool upgrade_format(struct weir_database *database)
{
    char answer[32];
    if (!ask_pragma(database, "PRAGMA user_version", answer, sizeof answer)) {
        return false;
    }
    if (strcmp(answer, "1") == 0) {
        if (!weir_database_check(database)) { /* writing to it could do more harm */
            return false;
        }
        int result = sqlite3_exec(database->handle, upgrade, NULL, NULL, NULL);
        if (result != SQLITE_OK) {
            fail_database(database, result == SQLITE_ERROR ? SQLITE_CORRUPT : result);
            sqlite3_exec(database->handle, "ROLLBACK", NULL, NULL, NULL);
            return false;
        }
        return true;
    }
    return strcmp(answer, "2") == 0 ? true : fail_database(database, SQLITE_CORRUPT);
}

/* Makes the tables in memory that hold rows while they are moved. */
static bool make_room(struct weir_database *database)
{
    int result = sqlite3_exec(database->handle,
                              "CREATE TEMP TABLE pack_jobs AS SELECT * FROM jobs WHERE 0;"
                              "CREATE TEMP TABLE pack_bodies AS SELECT * FROM bodies WHERE 0;"
                              "CREATE TEMP TABLE pack_results AS SELECT * FROM results WHERE 0;"
                              "CREATE TEMP TABLE pack_remembered AS"
                              " SELECT * FROM remembered WHERE 0",
                              NULL, NULL, NULL);
    if (result != SQLITE_OK) {
        return fail_database(database, result == SQLITE_ERROR ? SQLITE_CORRUPT : result);
    }
    return true;
}

static bool prepare_statements(struct weir_database *database)
{
    for (int i = 0; i < WEIR_SQL_COUNT; i++) {
        int result = sqlite3_prepare_v3(database->handle, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                        &database->statements[i], NULL);
        if (result != SQLITE_OK) {
            /* The table has not the columns that we gave it. */
            return fail_database(database, result == SQLITE_ERROR ? SQLITE_CORRUPT : result);
        }
    }
    return true;
}

/* Stored twice, because if it were lost, sound rows without checksums would look damaged. */
static bool read_unchecked(struct weir_database *database)
{
    char answer[32];
    if (!ask_pragma(database,
                    "SELECT coalesce(max(value), 281474976710655) FROM meta"
                    " WHERE name IN ('unchecked', 'unchecked.copy')",
                    answer, sizeof answer)) {
        return false;
    }
    database->unchecked = strtoull(answer, NULL, 10);
    return true;
}

/* Opens the connection so that closing it does not copy the journal, which may be the reason for
 * closing. */
static bool open_connection(struct weir_database *database)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                SQLITE_OPEN_EXRESCODE;
    int result = weir_gather_open(database->path, &database->handle, flags);
    if (result != SQLITE_OK) {
        return fail_database(database, result);
    }
    result = sqlite3_db_config(database->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (result != SQLITE_OK) {
        return fail_database(database, result);
    }
    if (!apply_settings(database) || !upgrade_format(database) || !make_room(database) ||
        !prepare_statements(database)) {
        return false;
    }
    if (!read_unchecked(database)) {
        return false;
    }
    sqlite3_wal_hook(database->handle, note_commit, database);
    database->known = false;
    return true;
}

/* Writes without changing anything, to see whether writing works. */
static bool probe(struct weir_database *database)
{
    return weir_database_begin(database) && weir_meta_raise(database, "probe", 0) &&
           weir_database_commit(database);
}

bool weir_database_heal(struct weir_database *database)
{
    uint64_t frame_bytes = database->page_bytes + JOURNAL_FRAME_BYTES;
    uint64_t good_bytes =
        database->copied ? 0 : JOURNAL_HEAD_BYTES + database->frames * frame_bytes;
    if (database->health.damaged) {
        return false;
    }
    close_connection(database);
    if (!weir_journal_cut(database->path, good_bytes)) {
        return false;
    }
    database->health.failure = SQLITE_OK;
    if (open_connection(database) && weir_database_checkpoint(database, true) && probe(database)) {
        return true;
    }
    weir_database_abandon(database);
    return false;
}

/* ---- the file ---- */

static bool report_file_problem(char *error, size_t error_bytes, const char *path, const char *what)
{
    snprintf(error, error_bytes, "%s %s", path, what);
    return false;
}

static bool complain_of_system(char *error, size_t error_bytes, const char *path, const char *what)
{
    snprintf(error, error_bytes, "%s %s: %s", path, what, strerror(errno));
    return false;
}

static uint32_t read_big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Checks that an existing file is ours, before SQLite may touch it. */
static bool check_header(const char *path, char *error, size_t error_bytes)
{
    unsigned char header[HEADER_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return complain_of_system(error, error_bytes, path, "cannot be read");
    }
    ssize_t count = read(fd, header, sizeof header);
    close(fd);
    if (count != sizeof header || memcmp(header, HEADER_MAGIC, sizeof HEADER_MAGIC) != 0) {
        return report_file_problem(
            error, error_bytes, path,
            "is damaged or no database, and was left as it is: restore a backup of its"
            " folder, or move the file away to start with none");
    }
    if (read_big_endian(header + HEADER_APPLICATION) != APPLICATION_ID) {
        return report_file_problem(
            error, error_bytes, path,
            "is the database of another program, and was left as it is: name another"
            " folder in `data`");
    }
    if (read_big_endian(header + HEADER_VERSION_AT) > VERSION) {
        return report_file_problem(
            error, error_bytes, path,
            "was written by a later version of weir, and was left as it is: use that"
            " version, or another folder in `data`");
    }
    return true;
}

static void complain_of_sqlite(int result, const char *path, char *error, size_t error_bytes)
{
    snprintf(error, error_bytes, "%s: %s (SQLite says: %s)", path, explain(result, errno),
             sqlite3_errstr(result));
}

bool weir_database_make(const char *path, sqlite3 **handle, char *error, size_t error_bytes)
{
    *handle = NULL;
    if (unlink(path) != 0 && errno != ENOENT) {
        return complain_of_system(error, error_bytes, path, "cannot be removed");
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return complain_of_system(error, error_bytes, path, "cannot be made");
    }
    close(fd); /* created here with mode 0600, because SQLite would let others read it */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE;
    int result = sqlite3_open_v2(path, handle, flags, NULL);
    if (result == SQLITE_OK) {
        result = sqlite3_exec(*handle, schema, NULL, NULL, NULL);
    }
    if (result != SQLITE_OK) {
        complain_of_sqlite(result, path, error, error_bytes);
        sqlite3_close(*handle);
        *handle = NULL;
        unlink(path);
        return false;
    }
    return true;
}

/* The file is made under another name, so that a file of the right name is always complete. */
static bool make_file(struct weir_database *database, char *error, size_t error_bytes)
{
    char fresh[PATH_MAX + 4];
    sqlite3 *handle;
    snprintf(fresh, sizeof fresh, "%s.new", database->path);
    if (!weir_database_make(fresh, &handle, error, error_bytes)) {
        return false;
    }
    sqlite3_close(handle);
    if (rename(fresh, database->path) != 0) {
        return complain_of_system(error, error_bytes, fresh, "cannot be renamed");
    }
    return true;
}

/* A journal without its database would be applied to the new one. */
static bool check_no_journal(const char *path, char *error, size_t error_bytes)
{
    char journal[PATH_MAX + 4];
    struct stat about;
    snprintf(journal, sizeof journal, "%s-wal", path);
    if (stat(journal, &about) == 0 && about.st_size > 0) {
        return report_file_problem(
            error, error_bytes, journal,
            "is there without its database jobs.db: restore both, or move it away to"
            " start with none");
    }
    return true;
}

bool weir_database_open(struct weir_database *database, const char *folder, char *error,
                        size_t error_bytes)
{
    struct stat about;
    *database = (struct weir_database){0};
    int length = snprintf(database->path, sizeof database->path, "%s/jobs.db", folder);
    if (length < 0 || (size_t)length + sizeof "-wal" > sizeof database->path) {
        return report_file_problem(error, error_bytes, folder, "has too long a name");
    }
    if (stat(database->path, &about) == 0) {
        if (!check_header(database->path, error, error_bytes)) {
            return false;
        }
    } else if (!check_no_journal(database->path, error, error_bytes) ||
               !make_file(database, error, error_bytes)) {
        return false;
    }
    if (!weir_journal_renew(database->path)) {
        return report_file_problem(
            error, error_bytes, database->path,
            "has a journal that cannot be written: see whether the disk is full");
    }
    if (!open_connection(database)) {
        weir_database_explain(database, error, error_bytes);
        close_connection(database);
        return false;
    }
    return true;
}

void weir_database_close(struct weir_database *database)
{
    if (database->handle != NULL && database->health.failure == SQLITE_OK) {
        (void)!weir_database_checkpoint(database,
                                        true); /* on failure everything stays in the journal */
    }
    close_connection(database);
}
