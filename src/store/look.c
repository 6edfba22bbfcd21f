/* What is only read: a job, or a page of jobs. */
#include "store/page.h"
#include "store/record.h"

#include <stdlib.h>

/* A result whose length is not the one that its row says is none that was ever kept. */
static bool is_whole(const struct weir_store_look *look)
{
    const struct weir_job_bytes *result = &look->row.result;
    bool asked = (look->with & WEIR_STORE_WITH_RESULT) != 0;
    return !asked || result->file != 0 || result->bytes.bytes == result->count;
}

static bool add_results(struct weir_store *store, struct weir_store_look *look,
                        struct weir_parcel *parcel, bool *room)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_RESULT);
    weir_bind_number(statement, 1, look->row.number);
    if (!weir_database_step(database, WEIR_SQL_GET_RESULT)) {
        return database->health.failure == SQLITE_OK;
    }
    if ((look->with & WEIR_STORE_WITH_RESULT) != 0 && look->row.result.file == 0) {
        look->row.result.bytes = weir_column_bytes(statement, 0);
        *room = weir_parcel_add(parcel, &look->row.result.bytes);
    }
    if (*room && (look->with & WEIR_STORE_WITH_LOG) != 0) {
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
    op->wrong = "there is no memory";
    return true;
}

static bool answer(struct weir_store *store, struct weir_store_look *look, bool has_results)
{
    struct weir_parcel parcel;
    bool room = weir_parcel_init(&parcel, 0, 512) && weir_parcel_add_row(&parcel, &look->row);
    if (room && has_results && look->with != 0 && !add_results(store, look, &parcel, &room)) {
        free(parcel.memory);
        return false;
    }
    if (room && !is_whole(look)) {
        weir_database_damage(&store->database);
        free(parcel.memory);
        return false;
    }
    if (!room) {
        return lack_memory(&look->op, &parcel);
    }
    weir_parcel_finish_row(&parcel, &look->row);
    look->op.memory = parcel.memory;
    look->op.end = WEIR_STORE_DONE;
    return true;
}

/* Of one that is forgotten there is its id, tenant and digest, and what became of it. */
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
    struct weir_slice digest = weir_column_bytes(statement, 1);
    uint64_t state = weir_column_number(statement, 2);
    bool good = digest.bytes == sizeof look->row.order.digest && state < WEIR_JOB_STATE_COUNT;
    if (good) {
        look->row = (struct weir_job_row){.number = number,
                                          .order.id = weir_column_bytes(statement, 0),
                                          .order.tenant = weir_column_bytes(statement, 3),
                                          .state = (enum weir_job_state)state,
                                          .ended_ms = sqlite3_column_int64(statement, 4),
                                          .forgotten = true};
        memcpy(look->row.order.digest, digest.data, digest.bytes);
        good = answer(store, look, false);
    } else {
        weir_database_damage(database);
    }
    weir_database_reset(database, WEIR_SQL_GET_REMEMBERED);
    return good;
}

static bool look_at_number(struct weir_store *store, struct weir_store_look *look, uint64_t number)
{
    struct weir_record record;
    if (weir_record_get(&store->database, number, &record)) {
        look->row = record.row;
        bool good = answer(store, look, record.has_results);
        weir_database_reset(&store->database, WEIR_SQL_GET_JOB);
        return good;
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
    list->op.wrong = "there is no memory";
    list->op.memory = page.memory;
    list->rows = page.rows;
    list->row_count = page.row_count;
    list->next = page.next;
    return true;
}
