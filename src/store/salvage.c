/* salvage.c - reads the pages of a damaged SQLite file without SQLite, and copies the rows into a
 * new database. The main thread runs it at the start, when no connection is open. It trusts no
 * value of the file: every page number, offset and length is checked. */
#define _GNU_SOURCE
#include "store/salvage.h"

#include "base/clock.h"
#include "store/database.h"
#include "store/record.h"
#include "store/salvage_files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of SQLite's file format. */
#define PAGE_BYTES        4096u
#define MAP_ENTRY_BYTES   5u
#define MAP_ENTRIES       (PAGE_BYTES / MAP_ENTRY_BYTES) /* of a page of the map */
#define MAP_ROOT          1u
#define MAP_TREE          5u
#define ROOT_FIRST        3u
#define ROOT_COUNT        6u
#define PAGE_INDEX_INNER  0x02u
#define PAGE_TABLE_INNER  0x05u
#define PAGE_INDEX_LEAF   0x0au
#define PAGE_TABLE_LEAF   0x0du
#define LEAF_HEAD_BYTES   8u
#define FRAGMENTS_MAX     60 /* SQLite defragments a page before it has more bytes in fragments */
#define INNER_HEAD_BYTES  12u
#define LOCAL_BYTES_MAX   (PAGE_BYTES - 35)
#define LOCAL_BYTES_MIN   ((PAGE_BYTES - 12) * 32 / 255 - 23)
#define OVERFLOW_BYTES    (PAGE_BYTES - 4)
#define DEPTH_MAX         8                   /* enough for a tree of a billion pages */
#define PAYLOAD_BYTES_MAX (UINT32_C(1) << 20) /* a row has up to 128 KiB */
#define COLUMNS_MAX       34

/* The file's own value is lost, so any row may lack a checksum. */
#define UNCHECKED_ALL WEIR_IDS_NUMBER_MAX

enum salvage_table {
    TABLE_JOBS,
    TABLE_BODIES,
    TABLE_RESULTS,
    TABLE_REMEMBERED,
    TABLE_COUNT,
    TABLE_NONE = TABLE_COUNT
};

/* The values of a row, in the order of its table's columns; the first one is the number. */
struct salvage_row {
    uint64_t number;
    int column_count;
    struct {
        int serial;       /* SQLite's serial type */
        const char *data; /* in the payload */
        size_t bytes;
    } columns[COLUMNS_MAX];
};

struct salvage_copy {
    int fd;
    uint32_t page_count;
    unsigned char *pages; /* of each: IN_USE, INNER */
    char *payload;
    sqlite3 *to;
    sqlite3_stmt *read[TABLE_COUNT];    /* the values as columns that record.h can read */
    sqlite3_stmt *replace[TABLE_COUNT]; /* for rows whose checksum matches */
    sqlite3_stmt *add[TABLE_COUNT];     /* for others, unless the number exists */
    struct weir_database rules;         /* only `unchecked` is used */
    struct weir_salvage *salvage;
    int failure; /* SQLite's first error in the new database; SQLITE_OK: none */
    int error;   /* the system's errno with it, or 0 */
};

#define IN_USE 1u
#define INNER  2u

/* ---- the new database ---- */

enum salvage_statement {
    STATEMENT_READ,
    STATEMENT_REPLACE,
    STATEMENT_ADD,
    STATEMENT_COUNT
};

static const char *const statement_texts[STATEMENT_COUNT][TABLE_COUNT] = {
    [STATEMENT_READ] =
        {
            [TABLE_JOBS] =
                "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
                " ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?10, ?33, ?34,"
                " ?32",
            [TABLE_BODIES] = "SELECT ?1, ?2, ?3",
            [TABLE_RESULTS] = "SELECT ?1, ?2, ?3, ?4",
            [TABLE_REMEMBERED] = "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8",
        },
    [STATEMENT_REPLACE] =
        {
            [TABLE_JOBS] =
                "INSERT OR REPLACE INTO jobs VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
                " ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27,"
                " ?28, ?29, ?30, ?31, ?32, ?33, ?34)",
            [TABLE_BODIES] = "INSERT OR REPLACE INTO bodies VALUES(?1, ?2, ?3)",
            [TABLE_RESULTS] = "INSERT OR REPLACE INTO results VALUES(?1, ?2, ?3, ?4)",
            [TABLE_REMEMBERED] =
                "INSERT OR REPLACE INTO remembered VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        },
    [STATEMENT_ADD] =
        {
            [TABLE_JOBS] =
                "INSERT OR IGNORE INTO jobs VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
                " ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27,"
                " ?28, ?29, ?30, ?31, ?32, ?33, ?34)",
            [TABLE_BODIES] = "INSERT OR IGNORE INTO bodies VALUES(?1, ?2, ?3)",
            [TABLE_RESULTS] = "INSERT OR IGNORE INTO results VALUES(?1, ?2, ?3, ?4)",
            [TABLE_REMEMBERED] =
                "INSERT OR IGNORE INTO remembered VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        },
};

static const int column_counts[TABLE_COUNT] = {34, 3, 4, 8};

static bool note_result(struct salvage_copy *copy, int result)
{
    if (result != SQLITE_OK && copy->failure == SQLITE_OK) {
        copy->failure = result;
        copy->error = sqlite3_system_errno(copy->to);
    }
    return result == SQLITE_OK;
}

static bool prepare_statements(struct salvage_copy *copy)
{
    sqlite3_stmt **const into[STATEMENT_COUNT] = {[STATEMENT_READ] = copy->read,
                                                  [STATEMENT_REPLACE] = copy->replace,
                                                  [STATEMENT_ADD] = copy->add};
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        for (int table = 0; table < TABLE_COUNT; table++) {
            if (!note_result(copy, sqlite3_prepare_v2(copy->to, statement_texts[i][table], -1,
                                                      &into[i][table], NULL))) {
                return false;
            }
        }
    }
    return true;
}

static void bind_column(sqlite3_stmt *statement, int index, int serial, const char *data,
                        size_t bytes)
{
    int64_t number = 0;
    double real;
    if (serial == 0) {
        sqlite3_bind_null(statement, index);
    } else if (serial >= 12) {
        sqlite3_bind_blob64(statement, index, bytes == 0 ? "" : data, bytes, SQLITE_STATIC);
    } else if (serial == 8 || serial == 9) {
        sqlite3_bind_int64(statement, index, serial - 8);
    } else {
        number = (signed char)data[0] < 0 ? -1 : 0;
        for (size_t i = 0; i < bytes; i++) {
            number = (int64_t)((uint64_t)number << 8 | (unsigned char)data[i]);
        }
        if (serial == 7) {
            memcpy(&real, &number, sizeof real);
            sqlite3_bind_double(statement, index, real);
        } else {
            sqlite3_bind_int64(statement, index, number);
        }
    }
}

static void bind_row(sqlite3_stmt *statement, enum salvage_table table,
                     const struct salvage_row *row)
{
    sqlite3_clear_bindings(statement);
    weir_bind_number(statement, 1, row->number);
    for (int i = 1; i < row->column_count && i < column_counts[table]; i++) {
        bind_column(statement, i + 1, row->columns[i].serial, row->columns[i].data,
                    row->columns[i].bytes);
    }
}

/* Whether the checksum matches. */
static bool row_checksum_matches(struct salvage_copy *copy, enum salvage_table table,
                                 const struct salvage_row *row)
{
    sqlite3_stmt *statement = copy->read[table];
    struct weir_record record;
    struct weir_remembered remembered;
    uint64_t sum;
    bool whole = false;
    bind_row(statement, table, row);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        switch (table) {
        case TABLE_JOBS:
            whole = weir_record_read(&copy->rules, statement, &record);
            break;
        case TABLE_REMEMBERED:
            whole = weir_remembered_read(&copy->rules, statement, &remembered);
            break;
        case TABLE_BODIES:
            sum = weir_body_sum(row->number, weir_column_bytes(statement, 1));
            whole = weir_sum_matches(&copy->rules, statement, 2, row->number, sum);
            break;
        case TABLE_RESULTS:
            sum = weir_result_sum(row->number, weir_column_bytes(statement, 1),
                                  weir_column_bytes(statement, 2));
            whole = weir_sum_matches(&copy->rules, statement, 3, row->number, sum);
            break;
        case TABLE_COUNT:
            break;
        }
    }
    sqlite3_reset(statement);
    return whole;
}

static void put_row(struct salvage_copy *copy, enum salvage_table table,
                    const struct salvage_row *row)
{
    bool whole = row_checksum_matches(copy, table, row);
    sqlite3_stmt *statement = whole ? copy->replace[table] : copy->add[table];
    bind_row(statement, table, row);
    (void)sqlite3_step(statement);
    (void)note_result(copy, sqlite3_reset(statement)); /* an error of the step */
}

/* ---- pages ---- */

static bool read_page(const struct salvage_copy *copy, uint32_t page, unsigned char *bytes)
{
    return page >= 1 && page <= copy->page_count &&
           pread(copy->fd, bytes, PAGE_BYTES, (off_t)(page - 1) * PAGE_BYTES) == PAGE_BYTES;
}

static uint32_t get_16(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

static uint32_t get_32(const unsigned char *bytes)
{
    return get_16(bytes) << 16 | get_16(bytes + 2);
}

static bool is_map(uint32_t page)
{
    return page >= 2 && (page - 2) % (MAP_ENTRIES + 1) == 0;
}

/* Reads from the map which pages are parts of trees. */
static void read_map(struct salvage_copy *copy)
{
    unsigned char map[PAGE_BYTES];
    for (uint32_t at = 2; at <= copy->page_count; at += MAP_ENTRIES + 1) {
        if (!read_page(copy, at, map)) {
            continue;
        }
        for (uint32_t i = 0; i < MAP_ENTRIES && at + 1 + i <= copy->page_count; i++) {
            unsigned type = map[i * MAP_ENTRY_BYTES];
            copy->pages[at + 1 + i] = type == MAP_ROOT || type == MAP_TREE ? IN_USE : 0;
        }
    }
}

static void mark_in_use(struct salvage_copy *copy, uint32_t page)
{
    if (page >= 2 && page <= copy->page_count && !is_map(page)) {
        copy->pages[page] |= IN_USE;
    }
}

/* The first pages of the tables: with auto_vacuum they are the first of the file and stay there. */
static void mark_roots_in_use(struct salvage_copy *copy)
{
    for (uint32_t page = ROOT_FIRST; page < ROOT_FIRST + ROOT_COUNT; page++) {
        mark_in_use(copy, page);
    }
}

/* The pages below an inner page of a table. */
static void mark_children_in_use(struct salvage_copy *copy, const unsigned char *page)
{
    uint32_t count = get_16(page + 3);
    mark_in_use(copy, get_32(page + 8));
    for (uint32_t i = 0; i < count && INNER_HEAD_BYTES + 2 * i + 2 <= PAGE_BYTES; i++) {
        uint32_t at = get_16(page + INNER_HEAD_BYTES + 2 * i);
        if (at >= INNER_HEAD_BYTES && at + 4 <= PAGE_BYTES) {
            mark_in_use(copy, get_32(page + at));
        }
    }
}

/* Marks the pages below pages in use, since the map may be damaged as well. */
static void follow_trees(struct salvage_copy *copy)
{
    unsigned char page[PAGE_BYTES];
    for (uint32_t at = 2; at <= copy->page_count; at++) {
        if (!is_map(at) && read_page(copy, at, page) && page[0] == PAGE_TABLE_INNER) {
            copy->pages[at] |= INNER;
        }
    }
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        for (uint32_t at = 2; at <= copy->page_count; at++) {
            if (copy->pages[at] == (IN_USE | INNER) && read_page(copy, at, page)) {
                mark_children_in_use(copy, page);
            }
        }
    }
}

/* Counts pages that others refer to beyond the file's end: it was truncated. */
static void count_missing(struct salvage_copy *copy)
{
    unsigned char page[PAGE_BYTES];
    uint32_t last = 0;
    for (uint32_t at = 2; at <= copy->page_count; at++) {
        if (copy->pages[at] != (IN_USE | INNER) || !read_page(copy, at, page)) {
            continue;
        }
        uint32_t count = get_16(page + 3);
        for (uint32_t i = 0; i <= count && INNER_HEAD_BYTES + 2 * i + 2 <= PAGE_BYTES; i++) {
            uint32_t cell = i < count ? get_16(page + INNER_HEAD_BYTES + 2 * i) : 8;
            uint32_t child = cell + 4 <= PAGE_BYTES ? get_32(page + cell) : 0;
            if (child > copy->page_count && child != last) {
                copy->salvage->pages_lost++;
                last = child;
            }
        }
    }
}

/* ---- rows ---- */

/* Reads SQLite's variable-length number. False: it does not fit. */
static bool get_number(const unsigned char **at, const unsigned char *end, uint64_t *number)
{
    *number = 0;
    for (int i = 0; i < 9 && *at < end; i++) {
        unsigned char byte = *(*at)++;
        if (i == 8) {
            *number = *number << 8 | byte;
            return true;
        }
        *number = *number << 7 | (byte & 0x7f);
        if ((byte & 0x80) == 0) {
            return true;
        }
    }
    return false;
}

static size_t bytes_of(uint64_t serial)
{
    static const unsigned char bytes[12] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
    return serial >= 12 ? (size_t)((serial - 12) / 2) : bytes[serial];
}

/* Splits the payload into columns. False: it is not valid. */
static bool split_columns(const char *payload, size_t bytes, struct salvage_row *row)
{
    const unsigned char *at = (const unsigned char *)payload;
    const unsigned char *end = at + bytes;
    uint64_t head_bytes, serial;
    if (!get_number(&at, end, &head_bytes) || head_bytes > bytes) {
        return false;
    }
    const unsigned char *head_end = (const unsigned char *)payload + head_bytes;
    const char *value = payload + head_bytes;
    for (row->column_count = 0; at < head_end; row->column_count++) {
        if (row->column_count == COLUMNS_MAX || !get_number(&at, head_end, &serial) ||
            serial > 2 * PAYLOAD_BYTES_MAX + 13 || serial == 10 || serial == 11 ||
            bytes_of(serial) > (size_t)(payload + bytes - value)) {
            return false;
        }
        row->columns[row->column_count].serial = (int)serial;
        row->columns[row->column_count].data = value;
        row->columns[row->column_count].bytes = bytes_of(serial);
        value += bytes_of(serial);
    }
    return true;
}

/* Adds what does not fit into the row's own page. */
static bool read_overflow(const struct salvage_copy *copy, uint32_t page, size_t have, size_t bytes)
{
    unsigned char part[PAGE_BYTES];
    while (have < bytes) {
        if (is_map(page) || !read_page(copy, page, part)) {
            return false;
        }
        size_t step = bytes - have < OVERFLOW_BYTES ? bytes - have : OVERFLOW_BYTES;
        memcpy(copy->payload + have, part + 4, step);
        have += step;
        page = get_32(part);
    }
    return true;
}

/* How many bytes of a payload are in the page itself. */
static size_t local_bytes(size_t bytes)
{
    if (bytes <= LOCAL_BYTES_MAX) {
        return bytes;
    }
    size_t local = LOCAL_BYTES_MIN + (bytes - LOCAL_BYTES_MIN) % OVERFLOW_BYTES;
    return local <= LOCAL_BYTES_MAX ? local : LOCAL_BYTES_MIN;
}

/* Reads one row of a page. False: only its number is known, or 0 if not even that. */
static bool read_row(const struct salvage_copy *copy, const unsigned char *page, uint32_t offset,
                     struct salvage_row *row)
{
    const unsigned char *at = page + offset;
    const unsigned char *end = page + PAGE_BYTES;
    uint64_t bytes;
    *row = (struct salvage_row){0};
    if (offset < LEAF_HEAD_BYTES || offset >= PAGE_BYTES || !get_number(&at, end, &bytes) ||
        !get_number(&at, end, &row->number)) {
        return false;
    }
    if (bytes > PAYLOAD_BYTES_MAX) {
        return false;
    }
    size_t local = local_bytes((size_t)bytes);
    bool more = local < bytes;
    if (local + (more ? 4 : 0) > (size_t)(end - at)) {
        return false;
    }
    memcpy(copy->payload, at, local);
    return (!more || read_overflow(copy, get_32(at + local), local, (size_t)bytes)) &&
           split_columns(copy->payload, (size_t)bytes, row);
}

/* The table of a row, by its columns. Version 1 had no checksums, and so fewer columns. */
static enum salvage_table table_of_row(const struct salvage_row *row)
{
    int serial;
    switch (row->column_count) {
    case 32:
    case 34:
        return TABLE_JOBS;
    case 7:
    case 8:
        return TABLE_REMEMBERED;
    case 4:
        return TABLE_RESULTS;
    case 2:
        return TABLE_BODIES;
    case 3: /* a checksum, or the log of version 1 */
        serial = row->columns[2].serial;
        return serial != 0 && serial < 12 ? TABLE_BODIES : TABLE_RESULTS;
    default:
        return TABLE_NONE;
    }
}

static bool is_number(uint64_t number)
{
    return number > 0 &&
           number <= WEIR_IDS_NUMBER_MAX / 2; /* higher numbers must remain for new jobs */
}

/* The table that most rows of a page belong to. */
static enum salvage_table table_of_page(const struct salvage_copy *copy, const unsigned char *page,
                                        uint32_t count)
{
    uint32_t counts[TABLE_COUNT + 1] = {0};
    enum salvage_table most = TABLE_NONE;
    struct salvage_row row;
    for (uint32_t i = 0; i < count; i++) {
        if (read_row(copy, page, get_16(page + LEAF_HEAD_BYTES + 2 * i), &row)) {
            counts[table_of_row(&row)]++;
        }
    }
    for (int table = 0; table < TABLE_COUNT; table++) {
        most = counts[table] > (most == TABLE_NONE ? 0 : counts[most]) ? (enum salvage_table)table
                                                                       : most;
    }
    return most;
}

/* Copies the rows of a page. Of an invalid row the number is kept, if it is one: recovery reports
 * it. */
static void copy_leaf(struct salvage_copy *copy, const unsigned char *page)
{
    struct salvage_row row;
    uint32_t count = get_16(page + 3);
    uint32_t most = (PAGE_BYTES - LEAF_HEAD_BYTES) / 2;
    count = count < most ? count : most;
    enum salvage_table table = table_of_page(copy, page, count);
    for (uint32_t i = 0; i < count && table != TABLE_NONE; i++) {
        bool read = read_row(copy, page, get_16(page + LEAF_HEAD_BYTES + 2 * i), &row);
        row.column_count = read && table_of_row(&row) == table ? row.column_count : 0;
        if (is_number(row.number)) {
            put_row(copy, table, &row);
        } else {
            copy->salvage->rows_lost++;
        }
    }
}

/* Whether the header and the cell pointers of a page look as SQLite writes them. The kind of a page
 * is one byte, which a random page matches now and then. */
static bool page_is_sound(const unsigned char *page)
{
    bool inner = page[0] == PAGE_TABLE_INNER || page[0] == PAGE_INDEX_INNER;
    bool leaf = page[0] == PAGE_TABLE_LEAF || page[0] == PAGE_INDEX_LEAF;
    uint32_t head_bytes = inner ? INNER_HEAD_BYTES : LEAF_HEAD_BYTES;
    uint32_t count = get_16(page + 3);
    uint32_t content = get_16(page + 5);
    bool sound = (inner || leaf) && page[7] <= FRAGMENTS_MAX && content <= PAGE_BYTES &&
                 content >= head_bytes + 2 * count;
    for (uint32_t i = 0; sound && i < count; i++) {
        uint32_t cell = get_16(page + head_bytes + 2 * i);
        sound = cell >= content && cell < PAGE_BYTES;
    }
    return sound;
}

static void copy_pages(struct salvage_copy *copy)
{
    unsigned char page[PAGE_BYTES];
    for (uint32_t at = 3; at <= copy->page_count && copy->failure == SQLITE_OK; at++) {
        if (is_map(at) || (copy->pages[at] & IN_USE) == 0) {
            continue;
        }
        bool read = read_page(copy, at, page);
        if (read && page[0] == PAGE_TABLE_LEAF) {
            copy_leaf(copy, page); /* even from a damaged page, since rows have their checksums */
        }
        copy->salvage->pages_lost += !read || !page_is_sound(page);
    }
}

/* ---- the whole ---- */

/* Reads a value of the old `meta` as far as possible. It uses SQLite, because those rows are few.
 */
static void read_meta(sqlite3 *from, const char *name, uint64_t *value)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(from, "SELECT value FROM meta WHERE name = ?1", -1, &statement, NULL) ==
        SQLITE_OK) {
        sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
        if (sqlite3_step(statement) == SQLITE_ROW) {
            *value = weir_column_number(statement, 0);
        }
    }
    sqlite3_finalize(statement);
}

/* Applies the journal of the working copy, because it has the latest pages. False: the journal
 * cannot be used. */
static bool apply_journal(sqlite3 *from, const struct weir_salvage_paths *paths)
{
    struct stat about;
    int result =
        sqlite3_exec(from, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA page_count", NULL, NULL, NULL);
    if (result == SQLITE_OK) {
        result = sqlite3_wal_checkpoint_v2(from, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    return result == SQLITE_OK && stat(paths->work_journal, &about) == 0 && about.st_size == 0;
}

/* Applies the journal if there is one, and reads `meta`. False: the journal cannot be used. */
static bool read_source(const struct weir_salvage_paths *paths, uint64_t meta[3])
{
    sqlite3 *from = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE;
    bool opened = sqlite3_open_v2(paths->source, &from, flags, NULL) == SQLITE_OK;
    bool applied = !paths->has_journal;
    meta[2] = UNCHECKED_ALL;
    if (opened) {
        sqlite3_db_config(from, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        applied = applied || apply_journal(from, paths);
        read_meta(from, "boot", &meta[0]);
        read_meta(from, "forgotten", &meta[1]);
        read_meta(from, "unchecked", &meta[2]);
    }
    sqlite3_close(from);
    return applied;
}

static bool run_sql(struct salvage_copy *copy, const char *sql)
{
    return copy->failure == SQLITE_OK &&
           note_result(copy, sqlite3_exec(copy->to, sql, NULL, NULL, NULL));
}

/* Writes `meta` and the agenda, which follow from the rows. */
static void finish_rows(struct salvage_copy *copy, const uint64_t meta[3])
{
    char sql[300];
    uint64_t boot = meta[0] < UINT32_MAX / 2 ? meta[0] : 0;
    uint64_t forgotten = meta[1] <= WEIR_IDS_NUMBER_MAX / 2 ? meta[1] : 0;
    snprintf(sql, sizeof sql,
             "UPDATE meta SET value = %" PRIu64 " WHERE name = 'boot';"
             "UPDATE meta SET value = %" PRIu64 " WHERE name = 'forgotten';"
             "UPDATE meta SET value = %" PRIu64 " WHERE name LIKE 'unchecked%%'",
             boot, forgotten, copy->rules.unchecked);
    run_sql(copy, sql);
    run_sql(copy, "INSERT OR IGNORE INTO agenda SELECT keep_ms, number FROM jobs"
                  " WHERE state IN (2, 4) AND typeof(keep_ms) = 'integer'");
    run_sql(copy, "INSERT OR IGNORE INTO agenda SELECT forget_ms, number FROM remembered"
                  " WHERE typeof(forget_ms) = 'integer'");
}

static bool fill_new_database(struct salvage_copy *copy, const uint64_t meta[3])
{
    /* An unfinished file is made again at the next start, so it needs no journal and no sync yet.
     */
    if (!run_sql(copy, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN") ||
        !prepare_statements(copy)) {
        return false;
    }
    copy->rules.unchecked = meta[2];
    read_map(copy);
    mark_roots_in_use(copy);
    follow_trees(copy);
    count_missing(copy);
    copy_pages(copy);
    finish_rows(copy, meta);
    return run_sql(copy, "COMMIT");
}

static bool open_salvage(struct salvage_copy *copy, const struct weir_salvage_paths *paths,
                         char *error, size_t error_bytes)
{
    struct stat about;
    copy->fd = open(paths->source, O_RDONLY | O_CLOEXEC);
    if (copy->fd < 0 || fstat(copy->fd, &about) != 0) {
        snprintf(error, error_bytes, "%s cannot be read: %s", paths->source, strerror(errno));
        return false;
    }
    copy->page_count = (uint32_t)(about.st_size / PAGE_BYTES);
    copy->pages = calloc(copy->page_count + 1, 1);
    copy->payload = malloc(PAYLOAD_BYTES_MAX);
    if (copy->pages == NULL || copy->payload == NULL) {
        snprintf(error, error_bytes,
                 "Out of memory reading %s, which is damaged (needs 1 byte per 4 KiB page).",
                 paths->path);
        return false;
    }
    return weir_database_make(paths->fresh, &copy->to, error, error_bytes);
}

static void close_salvage(struct salvage_copy *copy)
{
    for (int table = 0; table < TABLE_COUNT; table++) {
        sqlite3_finalize(copy->read[table]);
        sqlite3_finalize(copy->replace[table]);
        sqlite3_finalize(copy->add[table]);
    }
    sqlite3_close(copy->to);
    free(copy->pages);
    free(copy->payload);
    if (copy->fd >= 0) {
        close(copy->fd);
    }
}

/* Why the new database could not be filled, or not be put in its place (`code`, an errno). */
static void explain_failure(const struct salvage_copy *copy, const struct weir_salvage_paths *paths,
                            int code, char *error, size_t error_bytes)
{
    char cause[200];
    if (copy->failure == SQLITE_OK) {
        snprintf(cause, sizeof cause, "%s", strerror(code));
    } else {
        const char *system = copy->error == 0 ? "the database reports" : strerror(copy->error);
        snprintf(cause, sizeof cause, "%s (SQLite: %s)", system, sqlite3_errstr(copy->failure));
    }
    snprintf(error, error_bytes,
             "%s is damaged, and copying what can be read into %s failed: %s. Free disk space if it"
             " is full, then start Weir again.",
             paths->path, paths->fresh, cause);
}

static bool make_new_database(struct salvage_copy *copy, const struct weir_salvage_paths *paths,
                              char *error, size_t error_bytes)
{
    uint64_t meta[3] = {0};
    if (!read_source(paths, meta)) {
        snprintf(error, error_bytes,
                 "%s is damaged so that its journal jobs.db-wal cannot be used; both were left as"
                 " they are. Restore a backup of their folder, or move it away and see what"
                 " `sqlite3 jobs.db .recover` finds.",
                 paths->path);
        return false;
    }
    bool opened = open_salvage(copy, paths, error, error_bytes);
    bool good = opened && fill_new_database(copy, meta);
    close_salvage(copy);
    if (opened && !good) {
        explain_failure(copy, paths, 0, error, error_bytes);
    }
    return good;
}

bool weir_salvage(const char *path, struct weir_salvage *salvage, char *error, size_t error_bytes)
{
    struct weir_salvage_paths paths;
    struct salvage_copy copy = {.fd = -1, .salvage = salvage};
    *salvage = (struct weir_salvage){0};
    weir_salvage_find_paths(&paths, path);
    weir_salvage_remove_work(&paths); /* left over from a start that was killed */
    bool good = weir_salvage_make_work(&paths, error, error_bytes) &&
                make_new_database(&copy, &paths, error, error_bytes);
    if (good && !weir_salvage_put_in_place(&paths, salvage->aside, sizeof salvage->aside)) {
        explain_failure(&copy, &paths, errno, error, error_bytes);
        good = false;
    }
    weir_salvage_remove_work(&paths);
    return good;
}
