/* sweep.c - forgets jobs and ids whose time has come, and gives free pages back to the file system.
 * Everything runs in the store's thread. */
#include "store/record.h"

#include <assert.h>

/* So many free pages are always kept. */
#define FREE_PAGES_MIN 128

/* How many pages one run of WEIR_SQL_VACUUM gives back. */
#define PAGES_AT_ONCE 64

static bool plan(struct weir_store *store, int64_t at_ms, uint64_t number)
{
    sqlite3_stmt *statement = weir_database_statement(&store->database, WEIR_SQL_PLAN);
    weir_bind_time(statement, 1, at_ms);
    weir_bind_number(statement, 2, number);
    return weir_database_run(&store->database, WEIR_SQL_PLAN);
}

static bool remove_row(struct weir_store *store, enum weir_sql sql, uint64_t number)
{
    weir_bind_number(weir_database_statement(&store->database, sql), 1, number);
    return weir_database_change(&store->database, sql);
}

/* The row may be missing, if the database was damaged. */
static bool remove_bytes_row(struct weir_store *store, enum weir_sql sql, uint64_t number)
{
    weir_bind_number(weir_database_statement(&store->database, sql), 1, number);
    return weir_database_run(&store->database, sql);
}

/* Removes all of a job; its number is never used again. */
static bool forget_id(struct weir_store *store, struct weir_slice id, uint64_t number)
{
    struct weir_id_entry entry = {weir_ids_hash(&store->ids, id), number};
    weir_batch_note_gone(store, entry);
    store->packing.gone_count++;
    return weir_meta_raise(&store->database, "forgotten", number);
}

static bool remember(struct weir_store *store, const struct weir_job_row *row, int64_t forget_ms)
{
    sqlite3_stmt *statement = weir_database_statement(&store->database, WEIR_SQL_REMEMBER);
    struct weir_slice digest = {(const char *)row->order.digest, sizeof row->order.digest};
    weir_bind_number(statement, 1, row->number);
    weir_bind_bytes(statement, 2, row->order.id);
    weir_bind_bytes(statement, 3, digest);
    weir_bind_number(statement, 4, row->state);
    weir_bind_bytes(statement, 5, row->order.tenant);
    weir_bind_time(statement, 6, row->ended_ms);
    weir_bind_time(statement, 7, forget_ms);
    struct weir_remembered remembered = {.number = row->number,
                                         .id = row->order.id,
                                         .tenant = row->order.tenant,
                                         .state = row->state,
                                         .ended_ms = row->ended_ms,
                                         .forget_ms = forget_ms};
    memcpy(remembered.digest, row->order.digest, sizeof remembered.digest);
    weir_bind_number(statement, 8, weir_remembered_sum(&remembered));
    store->batch.live_change += weir_remembered_live_bytes(row->order.id);
    return weir_database_run(&store->database, WEIR_SQL_REMEMBER) &&
           plan(store, forget_ms, row->number);
}

static bool remove_bytes(struct weir_store *store, const struct weir_record *record)
{
    const struct weir_job_row *row = &record->row;
    bool has_body = weir_body_beside(&row->order.body);
    if (row->order.body.file != 0) {
        weir_batch_note_file(store, row->order.body.file);
    }
    if (row->result.file != 0) {
        weir_batch_note_file(store, row->result.file);
    }
    return (!has_body || remove_bytes_row(store, WEIR_SQL_DELETE_BODY, row->number)) &&
           (!record->has_results || remove_bytes_row(store, WEIR_SQL_DELETE_RESULT, row->number));
}

bool weir_store_expire(struct weir_store *store, const struct weir_record *record,
                       int64_t forget_ms, int64_t now_ms)
{
    const struct weir_job_row *row = &record->row;
    store->batch.live_change -= weir_job_live_bytes(row, record->log_bytes);
    store->packing.gone_count++;
    bool good = forget_ms > now_ms ? remember(store, row, forget_ms)
                                   : forget_id(store, row->order.id, row->number);
    return good && remove_bytes(store, record) &&
           remove_row(store, WEIR_SQL_DELETE_JOB, row->number);
}

/* ---- the agenda ---- */

static bool expire_job(struct weir_store *store, const struct weir_record *record, int64_t now_ms)
{
    const struct weir_job_row *row = &record->row;
    if (row->state != WEIR_JOB_DONE && row->state != WEIR_JOB_CANCELLED) {
        return true; /* dead letters stay until they are removed */
    }
    if (record->keep_ms > now_ms) { /* the agenda, which has no checksums, is damaged */
        return plan(store, record->keep_ms, row->number);
    }
    return weir_store_expire(store, record, row->ended_ms + (int64_t)store->remember_ms, now_ms);
}

static bool forget_remembered(struct weir_store *store, uint64_t number, int64_t now_ms)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_REMEMBERED);
    weir_bind_number(statement, 1, number);
    if (!weir_database_step(database, WEIR_SQL_GET_REMEMBERED)) {
        return database->health.failure == SQLITE_OK;
    }
    struct weir_remembered remembered;
    bool whole = weir_remembered_read(database, statement, &remembered);
    bool early = whole && remembered.forget_ms > now_ms;
    bool good = true;
    if (early) {
        good = plan(store, remembered.forget_ms, number);
    } else if (whole) {
        store->batch.live_change -= weir_remembered_live_bytes(remembered.id);
        good = forget_id(store, remembered.id, number);
    }
    weir_database_reset(database, WEIR_SQL_GET_REMEMBERED);
    return good && (early || remove_row(store, WEIR_SQL_FORGET, number));
}

/* Handles a due number: first its job is forgotten, later its id. */
static bool sweep_number(struct weir_store *store, uint64_t number, int64_t now_ms)
{
    struct weir_database *database = &store->database;
    struct weir_record record;
    enum weir_record_found found = weir_record_get(database, number, &record);
    if (found != WEIR_RECORD_NONE) {
        bool good = found == WEIR_RECORD_WHOLE ? expire_job(store, &record, now_ms)
                                               : weir_store_condemn(store, &record);
        weir_database_reset(database, WEIR_SQL_GET_JOB);
        return good;
    }
    return database->health.failure == SQLITE_OK && forget_remembered(store, number, now_ms);
}

/* Finds the first due entry; number 0: there is none. */
static bool next_entry(struct weir_store *store, int64_t now_ms, int64_t *at_ms, uint64_t *number)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_PLANNED);
    weir_bind_time(statement, 1, now_ms);
    *number = 0;
    if (!weir_database_step(database, WEIR_SQL_GET_PLANNED)) {
        return database->health.failure == SQLITE_OK;
    }
    *at_ms = sqlite3_column_int64(statement, 0);
    *number = weir_column_number(statement, 1);
    weir_database_reset(database, WEIR_SQL_GET_PLANNED);
    return true;
}

static bool cross_out(struct weir_store *store, int64_t at_ms, uint64_t number)
{
    sqlite3_stmt *statement = weir_database_statement(&store->database, WEIR_SQL_DELETE_PLANNED);
    weir_bind_time(statement, 1, at_ms);
    weir_bind_number(statement, 2, number);
    return weir_database_change(&store->database, WEIR_SQL_DELETE_PLANNED);
}

bool weir_store_sweep(struct weir_store *store, int64_t now_ms, uint32_t most, uint32_t *done)
{
    assert(most <= WEIR_BATCH_SWEEP_MAX);
    for (*done = 0; *done < most; (*done)++) {
        int64_t at_ms;
        uint64_t number;
        if (!next_entry(store, now_ms, &at_ms, &number)) {
            return false;
        }
        if (number == 0) {
            return true;
        }
        if (!weir_batch_begin(store) || !cross_out(store, at_ms, number) ||
            !sweep_number(store, number, now_ms)) {
            return false;
        }
    }
    return true;
}

/* ---- pages ---- */

static bool get_count(struct weir_store *store, enum weir_sql sql, uint64_t *count)
{
    struct weir_database *database = &store->database;
    *count = 0;
    if (weir_database_step(database, sql)) {
        *count = weir_column_number(weir_database_statement(database, sql), 0);
        weir_database_reset(database, sql);
    }
    return database->health.failure == SQLITE_OK;
}

bool weir_store_count_pages(struct weir_store *store, uint64_t *used, uint64_t *free_pages)
{
    uint64_t pages;
    if (!get_count(store, WEIR_SQL_GET_PAGES, &pages) ||
        !get_count(store, WEIR_SQL_GET_FREE_PAGES, free_pages)) {
        return false;
    }
    *used = pages - *free_pages;
    return true;
}

static bool count_superfluous(struct weir_store *store, uint32_t part, uint64_t *superfluous)
{
    uint64_t used, free_pages;
    if (!weir_store_count_pages(store, &used, &free_pages)) {
        return false;
    }
    uint64_t allowed = used / part;
    allowed = allowed > FREE_PAGES_MIN ? allowed : FREE_PAGES_MIN;
    *superfluous = free_pages > allowed ? free_pages - allowed : 0;
    return true;
}

bool weir_store_shrink(struct weir_store *store, uint32_t part, uint32_t pages_max, bool *given)
{
    uint64_t superfluous;
    *given = false;
    if (!count_superfluous(store, part, &superfluous)) {
        return false;
    }
    uint64_t rest = superfluous < pages_max ? superfluous : pages_max;
    for (; rest >= PAGES_AT_ONCE; rest -= PAGES_AT_ONCE) {
        *given = true;
        if (!weir_batch_begin(store) || !weir_database_run(&store->database, WEIR_SQL_VACUUM)) {
            return false;
        }
    }
    return true;
}
