/* look.c - the operations that only read: LOOK, a job, and LIST, a page of jobs. They run in the
 * store's thread and see what is committed. */
#include "store/page.h"
#include "store/record.h"

#include <stdlib.h>

/* Whether the present row of `results` is intact and belongs to the job. */
static bool is_whole(const struct weir_database *database, sqlite3_stmt *statement,
                     const struct weir_record *record)
{
    const struct weir_job_row *row = &record->row;
    struct weir_slice result = weir_column_bytes(statement, 0);
    struct weir_slice log = weir_column_bytes(statement, 1);
    uint64_t expected = row->result.file == 0 ? row->result.count : 0;
    return result.bytes == expected && log.bytes == record->log_bytes &&
           weir_sum_matches(database, statement, 2, row->number,
                            weir_result_sum(row->number, result, log));
}

/* Adds the result and the log. `whole`: they are intact. False: the database failed. */
static bool add_results(struct weir_store *store, struct weir_store_look *look,
                        const struct weir_record *record, struct weir_parcel *parcel, bool *room,
                        bool *whole)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_RESULT);
    weir_bind_number(statement, 1, look->row.number);
    *whole = false;
    if (!weir_database_step(database, WEIR_SQL_GET_RESULT)) {
        return database->health.failure == SQLITE_OK;
    }
    *whole = is_whole(database, statement, record);
    if (*whole && (look->with & WEIR_STORE_WITH_RESULT) != 0 && look->row.result.file == 0) {
        look->row.result.bytes = weir_column_bytes(statement, 0);
        *room = weir_parcel_add(parcel, &look->row.result.bytes);
    }
    if (*whole && *room && (look->with & WEIR_STORE_WITH_LOG) != 0) {
        look->row.log = weir_column_bytes(statement, 1);
        *room = weir_parcel_add(parcel, &look->row.log);
    }
    weir_database_reset(database, WEIR_SQL_GET_RESULT);
    return true;
}

static bool lack_memory(struct weir_store_op *op, struct weir_parcel *parcel)
{
    free(parcel->memory);
    op->end = WEIR_STORE_FAILED;
    op->error = "out of memory";
    return true;
}

/* Reports damage: the job cannot be shown, and becomes a dead letter with the next commit. */
static bool find_damage(struct weir_store *store, struct weir_store_look *look,
                        struct weir_parcel *parcel, enum weir_damage damage)
{
    free(parcel->memory);
    weir_store_report_damage(store, look->row.number, damage);
    look->op.end = WEIR_STORE_FAILED;
    look->op.error = damage == WEIR_DAMAGE_RESULT
                         ? "the result of this job is damaged on disk: redrive the job from the"
                           " dead letter queue to get it again"
                         : "the record of this job is damaged on disk: submit the job again under"
                           " another id if it is still needed";
    return true;
}

/* `record` is null for a job that is forgotten but for its id. */
static bool answer(struct weir_store *store, struct weir_store_look *look,
                   const struct weir_record *record)
{
    struct weir_parcel parcel;
    bool whole = true;
    bool room = weir_parcel_init(&parcel, 0, 512) && weir_parcel_add_row(&parcel, &look->row);
    if (room && record != NULL && record->has_results && look->with != 0 &&
        !add_results(store, look, record, &parcel, &room, &whole)) {
        free(parcel.memory);
        return false;
    }
    if (room && !whole) {
        return find_damage(store, look, &parcel, WEIR_DAMAGE_RESULT);
    }
    if (!room) {
        return lack_memory(&look->op, &parcel);
    }
    weir_parcel_finish_row(&parcel, &look->row);
    look->op.memory = parcel.memory;
    look->op.end = WEIR_STORE_DONE;
    return true;
}

/* Answers for a forgotten job, of which the id, tenant, digest and final state are kept. */
static bool look_at_remembered(struct weir_store *store, struct weir_store_look *look,
                               uint64_t number)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_REMEMBERED);
    weir_bind_number(statement, 1, number);
    if (!weir_database_step(database, WEIR_SQL_GET_REMEMBERED)) {
        look->op.end = WEIR_STORE_UNKNOWN;
        return database->health.failure == SQLITE_OK;
    }
    struct weir_remembered remembered;
    bool good = true;
    if (weir_remembered_read(database, statement, &remembered)) {
        look->row = (struct weir_job_row){.number = number,
                                          .order.id = remembered.id,
                                          .order.tenant = remembered.tenant,
                                          .state = remembered.state,
                                          .ended_ms = remembered.ended_ms,
                                          .forgotten = true};
        memcpy(look->row.order.digest, remembered.digest, sizeof remembered.digest);
        good = answer(store, look, NULL);
    } else {
        look->op.end = WEIR_STORE_UNKNOWN;
    }
    weir_database_reset(database, WEIR_SQL_GET_REMEMBERED);
    return good;
}

static bool look_at_number(struct weir_store *store, struct weir_store_look *look, uint64_t number)
{
    struct weir_record record;
    struct weir_parcel none = {0};
    bool good = true;
    switch (weir_record_get(&store->database, number, &record)) {
    case WEIR_RECORD_WHOLE:
        look->row = record.row;
        good = answer(store, look, &record);
        weir_database_reset(&store->database, WEIR_SQL_GET_JOB);
        return good;
    case WEIR_RECORD_DAMAGED:
        look->row.number = number;
        good = find_damage(store, look, &none, WEIR_DAMAGE_RECORD);
        weir_database_reset(&store->database, WEIR_SQL_GET_JOB);
        return good;
    case WEIR_RECORD_NONE:
        break;
    }
    return store->database.health.failure == SQLITE_OK && look_at_remembered(store, look, number);
}

bool weir_store_look(struct weir_store *store, struct weir_store_look *look)
{
    struct weir_known known = {.number = look->number};
    if (look->id.bytes > 0) {
        uint64_t hash = weir_ids_hash(&store->ids, look->id);
        if (!weir_record_find(store, look->id, hash, &known)) {
            return false;
        }
    }
    if (known.number == 0) {
        look->op.end = WEIR_STORE_UNKNOWN;
        return true;
    }
    return look_at_number(store, look, known.number);
}

bool weir_store_list(struct weir_store *store, struct weir_store_list *list)
{
    struct weir_page page = {
        .filter = &list->filter, .after = list->after, .rows_max = list->rows_max};
    if (!weir_page_read(store, &page)) {
        return false;
    }
    list->op.end = page.memory == NULL ? WEIR_STORE_FAILED : WEIR_STORE_DONE;
    list->op.error = "out of memory";
    list->op.memory = page.memory;
    list->rows = page.rows;
    list->row_count = page.row_count;
    list->next = page.next;
    return true;
}
