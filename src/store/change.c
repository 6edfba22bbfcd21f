/* change.c - the operations that change a job on record: TAKE, SETTLE, REDRIVE and REMOVE. Each
 * reads the job, checks it, and then writes it. Everything runs in the store's thread, within the
 * transaction of a batch. */
#include "store/page.h"
#include "store/record.h"

#include <assert.h>
#include <stdlib.h>

/* Reads the job to be changed. On failure, `end` says why. A damaged job becomes a dead letter at
 * once, which is a state that the caller does not expect. */
static bool get_job(struct weir_store *store, uint64_t number, struct weir_record *record,
                    enum weir_store_end *end)
{
    struct weir_database *database = &store->database;
    enum weir_record_found found = weir_record_get(database, number, record);
    if (found == WEIR_RECORD_WHOLE) {
        return true;
    }
    if (found == WEIR_RECORD_DAMAGED) {
        *end = WEIR_STORE_STALE;
        (void)!weir_store_condemn(store, record); /* the caller checks whether the database works */
        weir_database_reset(database, WEIR_SQL_GET_JOB);
        return false;
    }
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_REMEMBERED);
    *end = WEIR_STORE_UNKNOWN;
    if (database->health.failure == SQLITE_OK) {
        weir_bind_number(statement, 1, number);
        if (weir_database_step(database, WEIR_SQL_GET_REMEMBERED)) {
            weir_database_reset(database, WEIR_SQL_GET_REMEMBERED);
            *end = WEIR_STORE_STALE;
        }
    }
    return false;
}

static void done_with_job(struct weir_store *store)
{
    weir_database_reset(&store->database, WEIR_SQL_GET_JOB);
}

/* ---- take ---- */

/* Adds the body. A damaged or missing one is added as it is: its digest reveals that. */
static bool add_body(struct weir_store *store, struct weir_parcel *parcel, struct weir_job_row *row,
                     bool *room)
{
    struct weir_database *database = &store->database;
    if (row->order.body.file != 0 || row->order.body.count == 0) {
        return true;
    }
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_BODY);
    weir_bind_number(statement, 1, row->number);
    if (!weir_database_step(database, WEIR_SQL_GET_BODY)) {
        return database->health.failure == SQLITE_OK;
    }
    row->order.body.bytes = weir_column_bytes(statement, 0);
    *room = weir_parcel_add(parcel, &row->order.body.bytes);
    weir_database_reset(database, WEIR_SQL_GET_BODY);
    return true;
}

/* Packs the row and its body into memory that the caller gets. False: the database has failed. */
static bool pack(struct weir_store *store, struct weir_store_take *take)
{
    struct weir_job_row *row = &take->row;
    struct weir_parcel parcel;
    uint64_t body_bytes = row->order.body.file == 0 ? row->order.body.count : 0;
    bool good = true;
    bool room =
        weir_parcel_init(&parcel, 0, 512 + (size_t)body_bytes) && weir_parcel_add_row(&parcel, row);
    if (room) {
        good = add_body(store, &parcel, row, &room);
    }
    if (!good || !room) {
        free(parcel.memory);
        take->op.end = WEIR_STORE_FAILED;
        take->op.error = "out of memory";
        return good;
    }
    weir_parcel_finish_row(&parcel, row);
    take->op.memory = parcel.memory;
    return true;
}

static bool write_take(struct weir_store *store, const struct weir_store_take *take, uint64_t sum)
{
    sqlite3_stmt *statement = weir_database_statement(&store->database, WEIR_SQL_TAKE_JOB);
    weir_bind_number(statement, 1, take->number);
    weir_bind_number(statement, 2, take->row.attempts);
    weir_bind_number(statement, 3, take->epoch.boot);
    weir_bind_number(statement, 4, take->epoch.counter);
    weir_bind_time(statement, 5, take->now_ms);
    weir_bind_number(statement, 6, sum);
    return weir_database_change(&store->database, WEIR_SQL_TAKE_JOB);
}

/* A commit that was reported as failed may be on disk nevertheless. Then a durable TAKE that is
 * tried again finds its own start, whose epoch no other start has. */
static bool is_taken(const struct weir_store_take *take, const struct weir_job_row *row)
{
    return row->state == WEIR_JOB_RUNNING && weir_epoch_equal(row->epoch, take->epoch);
}

bool weir_store_take(struct weir_store *store, struct weir_store_take *take)
{
    struct weir_record record;
    if (!get_job(store, take->number, &record, &take->op.end)) {
        return store->database.health.failure == SQLITE_OK;
    }
    bool again = is_taken(take, &record.row);
    bool queued = record.row.state == WEIR_JOB_QUEUED;
    take->op.end = again || queued ? WEIR_STORE_DONE : WEIR_STORE_STALE;
    bool good = true;
    uint64_t sum = 0;
    if (take->op.end == WEIR_STORE_DONE) {
        record.row.state = WEIR_JOB_RUNNING;
        record.row.attempts += again ? 0 : 1;
        record.row.epoch = take->epoch;
        record.row.started_ms = take->now_ms;
        sum = weir_record_sum(&record);
        take->row = record.row;
        good = pack(store, take);
    }
    done_with_job(store);
    return good && (take->op.end != WEIR_STORE_DONE || write_take(store, take, sum));
}

/* ---- settle ---- */

static bool is_older(struct weir_epoch a, struct weir_epoch b)
{
    return a.boot < b.boot || (a.boot == b.boot && a.counter < b.counter);
}

/* Whether the job is in the state that the caller expects. A start that was reported early, and
 * whose commit failed later, is on record as QUEUED with an older epoch: it counts as started. */
static bool is_expected(const struct weir_store_settle *settle, const struct weir_job_row *row,
                        bool *made_up)
{
    *made_up = false;
    if (settle->before == WEIR_JOB_QUEUED) {
        return row->state == WEIR_JOB_QUEUED;
    }
    if (row->state == WEIR_JOB_RUNNING) {
        return weir_epoch_equal(row->epoch, settle->epoch);
    }
    *made_up = row->state == WEIR_JOB_QUEUED && is_older(row->epoch, settle->epoch);
    return *made_up;
}

/* The results of the last attempt replace earlier ones. A job that did not run keeps them. */
static bool write_results(struct weir_store *store, const struct weir_store_settle *settle,
                          const struct weir_record *record)
{
    struct weir_database *database = &store->database;
    bool at_hand = settle->result.count > 0 && settle->result.file == 0;
    if (record->row.result.file != 0 && record->row.result.file != settle->result.file) {
        weir_batch_note_file(store, record->row.result.file);
    }
    if (at_hand || settle->log.bytes > 0) {
        sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_SET_RESULT);
        weir_bind_number(statement, 1, settle->number);
        weir_bind_bytes(statement, 2, at_hand ? settle->result.bytes : (struct weir_slice){0});
        weir_bind_bytes(statement, 3, settle->log);
        weir_bind_number(statement, 4,
                         weir_result_sum(settle->number,
                                         at_hand ? settle->result.bytes : (struct weir_slice){0},
                                         settle->log));
        return weir_database_run(database, WEIR_SQL_SET_RESULT);
    }
    if (record->has_results) {
        weir_bind_number(weir_database_statement(database, WEIR_SQL_DELETE_RESULT), 1,
                         settle->number);
        return weir_database_run(database, WEIR_SQL_DELETE_RESULT); /* it may be damaged */
    }
    return true;
}

static bool ends(enum weir_job_state state)
{
    return state != WEIR_JOB_QUEUED && state != WEIR_JOB_RUNNING;
}

/* The columns that every settlement writes, from what it makes of the row. */
static bool write_settlement(struct weir_store *store, const struct weir_store_settle *settle,
                             struct weir_record *record)
{
    sqlite3_stmt *statement = weir_database_statement(&store->database, WEIR_SQL_SETTLE_JOB);
    struct weir_job_row *row = &record->row;
    row->state = settle->after;
    row->kills = settle->kills;
    row->ended_ms = ends(settle->after) ? settle->now_ms : 0;
    row->next_ms = settle->after == WEIR_JOB_QUEUED ? settle->next_ms : 0;
    record->keep_ms = settle->keep_until_ms;
    weir_bind_number(statement, 1, settle->number);
    weir_bind_number(statement, 2, row->state);
    weir_bind_number(statement, 3, row->attempts);
    weir_bind_number(statement, 4, row->epoch.boot);
    weir_bind_number(statement, 5, row->epoch.counter);
    weir_bind_number(statement, 6, row->kills);
    weir_bind_time(statement, 7, row->started_ms);
    weir_bind_time(statement, 8, row->ended_ms);
    weir_bind_time(statement, 9, row->next_ms);
    weir_bind_time(statement, 10, record->keep_ms);
    weir_bind_bytes(statement, 11, row->error);
    weir_bind_number(statement, 12, row->result_status);
    weir_bind_bytes(statement, 13, row->result_type);
    weir_bind_number(statement, 14, row->result.count);
    weir_bind_number(statement, 15, row->result.file);
    weir_bind_number(statement, 16, record->log_bytes);
    weir_bind_number(statement, 17, row->result.checksum);
    weir_bind_number(statement, 18, weir_record_sum(record));
    return weir_database_change(&store->database, WEIR_SQL_SETTLE_JOB);
}

static bool plan_forgetting(struct weir_store *store, const struct weir_store_settle *settle)
{
    if (settle->after != WEIR_JOB_DONE && settle->after != WEIR_JOB_CANCELLED) {
        return true;
    }
    sqlite3_stmt *statement = weir_database_statement(&store->database, WEIR_SQL_PLAN);
    weir_bind_time(statement, 1, settle->keep_until_ms);
    weir_bind_number(statement, 2, settle->number);
    return weir_database_run(&store->database, WEIR_SQL_PLAN);
}

static bool write_all(struct weir_store *store, const struct weir_store_settle *settle,
                      struct weir_record *record, bool made_up)
{
    struct weir_job_row *row = &record->row;
    store->batch.live_change -= weir_job_live_bytes(row, record->log_bytes);
    if (made_up) {
        row->attempts++;
        row->epoch = settle->epoch;
        row->started_ms = settle->now_ms;
    }
    row->attempts -= settle->uncounted && row->attempts > 0 ? 1 : 0;
    if (settle->before == WEIR_JOB_RUNNING) {
        if (!write_results(store, settle, record)) {
            return false;
        }
        row->result_status = settle->result_status;
        row->result_type = settle->result_type;
        row->result = settle->result;
        record->log_bytes = settle->log.bytes;
    }
    row->error = settle->error;
    store->batch.live_change += weir_job_live_bytes(row, record->log_bytes);
    store->batch.dead_change += settle->after == WEIR_JOB_FAILED ? 1 : 0;
    return write_settlement(store, settle, record) && plan_forgetting(store, settle);
}

bool weir_store_end_again(struct weir_store *store, const struct weir_store_settle *settle,
                          struct weir_record *record)
{
    return write_all(store, settle, record, false);
}

bool weir_store_settle(struct weir_store *store, struct weir_store_settle *settle)
{
    struct weir_record record;
    bool made_up;
    assert(settle->before == WEIR_JOB_QUEUED || settle->before == WEIR_JOB_RUNNING);
    assert(settle->after != WEIR_JOB_RUNNING);
    assert(settle->error.bytes <= WEIR_JOB_ERROR_BYTES_MAX);
    assert(settle->log.bytes <= WEIR_JOB_INLINE_BYTES_MAX);
    if (!get_job(store, settle->number, &record, &settle->op.end)) {
        return store->database.health.failure == SQLITE_OK;
    }
    bool good = true;
    settle->op.end = WEIR_STORE_STALE;
    if (is_expected(settle, &record.row, &made_up)) {
        settle->op.end = WEIR_STORE_DONE;
        good = write_all(store, settle, &record, made_up);
    }
    done_with_job(store);
    return good;
}

/* ---- redrive ---- */

static void begin_again(struct weir_job_row *row)
{
    row->state = WEIR_JOB_QUEUED;
    row->attempts = row->kills = 0;
    row->ended_ms = row->next_ms = 0;
}

/* Reads the record again: a row in a page lacks columns that the checksum covers. */
static bool redrive_row(struct weir_store *store, struct weir_job_row *row)
{
    struct weir_database *database = &store->database;
    struct weir_record record;
    if (weir_record_get(database, row->number, &record) != WEIR_RECORD_WHOLE) {
        weir_database_reset(database, WEIR_SQL_GET_JOB);
        weir_database_damage(database); /* it was valid a moment ago */
        return false;
    }
    begin_again(&record.row);
    uint64_t sum = weir_record_sum(&record);
    weir_database_reset(database, WEIR_SQL_GET_JOB);
    begin_again(row);
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_REDRIVE_JOB);
    weir_bind_number(statement, 1, row->number);
    weir_bind_number(statement, 2, sum);
    store->batch.dead_change--;
    return weir_database_change(database, WEIR_SQL_REDRIVE_JOB);
}

/* The page of jobs that a redrive covers. */
static struct weir_page page_of(const struct weir_store_redrive *redrive,
                                const struct weir_store_filter *dead)
{
    if (redrive->number != 0) {
        return (struct weir_page){.after = redrive->number - 1, .rows_max = 1};
    }
    return (struct weir_page){
        .filter = dead, .after = redrive->after, .rows_max = WEIR_STORE_PAGE_MAX};
}

static enum weir_store_end judge_one(const struct weir_store_redrive *redrive,
                                     const struct weir_page *page)
{
    if (page->row_count == 0 || page->rows[0].number != redrive->number) {
        return WEIR_STORE_UNKNOWN;
    }
    return page->rows[0].state == WEIR_JOB_FAILED ? WEIR_STORE_DONE : WEIR_STORE_STALE;
}

bool weir_store_redrive(struct weir_store *store, struct weir_store_redrive *redrive)
{
    struct weir_store_filter dead = redrive->filter;
    dead.state = WEIR_JOB_FAILED;
    struct weir_page page = page_of(redrive, &dead);
    redrive->op.end = WEIR_STORE_DONE;
    if (!weir_page_read(store, &page)) {
        return false;
    }
    if (page.memory == NULL) {
        redrive->op.end = WEIR_STORE_FAILED;
        redrive->op.error = "out of memory";
        return true;
    }
    if (redrive->number != 0) {
        redrive->op.end = judge_one(redrive, &page);
        page.next = 0;
    }
    for (uint32_t i = 0; i < page.row_count && redrive->op.end == WEIR_STORE_DONE; i++) {
        if (!redrive_row(store, &page.rows[i])) {
            free(page.memory);
            return false;
        }
    }
    redrive->op.memory = page.memory;
    redrive->rows = page.rows;
    redrive->row_count = redrive->op.end == WEIR_STORE_DONE ? page.row_count : 0;
    redrive->next = page.next;
    return true;
}

/* ---- remove ---- */

bool weir_store_remove(struct weir_store *store, struct weir_store_remove *remove)
{
    struct weir_record record;
    if (!get_job(store, remove->number, &record, &remove->op.end)) {
        return store->database.health.failure == SQLITE_OK;
    }
    bool good = true;
    remove->op.end = WEIR_STORE_STALE;
    if (record.row.state == WEIR_JOB_FAILED) {
        int64_t forget_ms = remove->now_ms + (int64_t)store->remember_ms;
        remove->op.end = WEIR_STORE_DONE;
        store->batch.dead_change--;
        good = weir_store_expire(store, &record, forget_ms, remove->now_ms);
    }
    done_with_job(store);
    return good;
}
