#include "store/record.h"

#include "base/slice.h"

#include <assert.h>
#include <stdlib.h>

/* The places of WEIR_JOB_COLUMNS. */
enum {
    NUMBER,
    STATE,
    ATTEMPTS,
    KILLS,
    BOOT,
    COUNTER,
    STARTED_MS,
    ENDED_MS,
    NEXT_MS,
    RESULT_STATUS,
    RESULT_BYTES,
    RESULT_FILE,
    LOG_BYTES,
    PRIORITY,
    ATTEMPTS_MAX,
    TIMEOUT_MS,
    COST_MS,
    CREATED_MS,
    DUE_MS,
    DATED,
    BODY_BYTES,
    BODY_FILE,
    ID,
    QUEUE,
    TENANT,
    KEY,
    TYPE,
    DIGEST,
    ERROR,
    RESULT_TYPE
};

/* A number that must be below `end`; else `good` is not kept. */
static uint32_t read_small(sqlite3_stmt *statement, int index, uint64_t end, bool *good)
{
    uint64_t number = weir_column_number(statement, index);
    *good = *good && number < end;
    return (uint32_t)number;
}

/* A text that must not have more than `bytes_max`: whoever is told of it has no more room. */
static struct weir_slice read_text(sqlite3_stmt *statement, int index, size_t bytes_max, bool *good)
{
    struct weir_slice text = weir_column_bytes(statement, index);
    *good = *good && text.bytes <= bytes_max;
    return text;
}

/* How many bytes there are, in a file or, up to a bound, in the database. */
static struct weir_job_bytes read_bytes(sqlite3_stmt *statement, int count_index, int file_index,
                                        bool *good)
{
    struct weir_job_bytes bytes = {.count = weir_column_number(statement, count_index),
                                   .file = weir_column_number(statement, file_index)};
    *good = *good && bytes.count <= (bytes.file == 0 ? WEIR_JOB_INLINE_BYTES_MAX : INT64_MAX);
    return bytes;
}

static void read_order(sqlite3_stmt *statement, struct weir_job_order *order, bool *good)
{
    struct weir_slice digest = weir_column_bytes(statement, DIGEST);
    order->priority =
        (enum weir_priority)read_small(statement, PRIORITY, WEIR_PRIORITY_COUNT, good);
    order->attempts_max = read_small(statement, ATTEMPTS_MAX, UINT64_C(1) << 32, good);
    order->timeout_ms = weir_column_number(statement, TIMEOUT_MS);
    order->cost_ms = weir_column_number(statement, COST_MS);
    order->created_ms = sqlite3_column_int64(statement, CREATED_MS);
    order->due_ms = sqlite3_column_int64(statement, DUE_MS);
    order->dated = read_small(statement, DATED, 2, good) != 0;
    order->body = read_bytes(statement, BODY_BYTES, BODY_FILE, good);
    order->id = read_text(statement, ID, WEIR_JOB_ID_BYTES_MAX, good);
    order->queue = read_text(statement, QUEUE, WEIR_NAME_BYTES_MAX, good);
    order->tenant = read_text(statement, TENANT, WEIR_NAME_BYTES_MAX, good);
    order->key = read_text(statement, KEY, WEIR_NAME_BYTES_MAX, good);
    order->type = read_text(statement, TYPE, WEIR_JOB_TYPE_BYTES_MAX, good);
    *good = *good && order->id.bytes > 0 && order->queue.bytes > 0;
    *good = *good && digest.bytes == sizeof order->digest;
    if (*good) {
        memcpy(order->digest, digest.data, sizeof order->digest);
    }
}

bool weir_record_read(struct weir_database *database, sqlite3_stmt *statement,
                      struct weir_record *record)
{
    struct weir_job_row *row = &record->row;
    bool good = true;
    *record = (struct weir_record){0};
    row->number = weir_column_number(statement, NUMBER);
    row->state = (enum weir_job_state)read_small(statement, STATE, WEIR_JOB_STATE_COUNT, &good);
    row->attempts = read_small(statement, ATTEMPTS, UINT64_C(1) << 32, &good);
    row->kills = read_small(statement, KILLS, UINT64_C(1) << 32, &good);
    row->epoch.boot = read_small(statement, BOOT, UINT64_C(1) << 32, &good);
    row->epoch.counter = weir_column_number(statement, COUNTER);
    row->started_ms = sqlite3_column_int64(statement, STARTED_MS);
    row->ended_ms = sqlite3_column_int64(statement, ENDED_MS);
    row->next_ms = sqlite3_column_int64(statement, NEXT_MS);
    row->result_status = read_small(statement, RESULT_STATUS, UINT64_C(1) << 32, &good);
    row->result = read_bytes(statement, RESULT_BYTES, RESULT_FILE, &good);
    record->log_bytes = read_small(statement, LOG_BYTES, UINT64_C(1) << 32, &good);
    record->has_results = (row->result.count > 0 && row->result.file == 0) || record->log_bytes > 0;
    row->error = read_text(statement, ERROR, WEIR_JOB_ERROR_BYTES_MAX, &good);
    row->result_type = read_text(statement, RESULT_TYPE, WEIR_JOB_TYPE_BYTES_MAX, &good);
    read_order(statement, &row->order, &good);
    good = good && row->number > 0 && row->number <= WEIR_IDS_NUMBER_MAX;
    if (!good) {
        weir_database_damage(database);
    }
    return good;
}

bool weir_record_get(struct weir_database *database, uint64_t number, struct weir_record *record)
{
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_JOB);
    weir_bind_number(statement, 1, number);
    if (!weir_database_step(database, WEIR_SQL_GET_JOB)) {
        return false;
    }
    if (!weir_record_read(database, statement, record)) {
        weir_database_reset(database, WEIR_SQL_GET_JOB);
        return false;
    }
    return true;
}

/* Whether the present row, which begins with id, digest, state and tenant, is of that id. */
static bool match(struct weir_store *store, sqlite3_stmt *statement, struct weir_slice id,
                  struct weir_known *known)
{
    bool good = true;
    struct weir_slice digest = weir_column_bytes(statement, 1);
    struct weir_slice tenant = weir_column_bytes(statement, 3);
    enum weir_job_state state =
        (enum weir_job_state)read_small(statement, 2, WEIR_JOB_STATE_COUNT, &good);
    if (!good || digest.bytes != sizeof known->digest || tenant.bytes > sizeof known->tenant) {
        weir_database_damage(&store->database);
        return false;
    }
    if (!weir_slice_equal(weir_column_bytes(statement, 0), id)) {
        return false;
    }
    memcpy(known->digest, digest.data, sizeof known->digest);
    if (tenant.bytes > 0) {
        memcpy(known->tenant, tenant.data, tenant.bytes);
    }
    known->tenant_bytes = tenant.bytes;
    known->state = state;
    return true;
}

static bool verify(struct weir_store *store, enum weir_sql sql, uint64_t number,
                   struct weir_slice id, struct weir_known *known)
{
    sqlite3_stmt *statement = weir_database_statement(&store->database, sql);
    weir_bind_number(statement, 1, number);
    if (!weir_database_step(&store->database, sql)) {
        return false;
    }
    bool same = match(store, statement, id, known);
    known->number = same ? number : 0;
    weir_database_reset(&store->database, sql);
    return same;
}

bool weir_record_find(struct weir_store *store, struct weir_slice id, uint64_t hash,
                      struct weir_known *known)
{
    struct weir_ids_search search = {.hash = hash};
    uint64_t number;
    known->number = 0;
    while ((number = weir_ids_next(&store->ids, &search)) != 0) {
        if (verify(store, WEIR_SQL_GET_ID, number, id, known) ||
            verify(store, WEIR_SQL_GET_REMEMBERED, number, id, known)) {
            break;
        }
    }
    return store->database.health.failure == SQLITE_OK;
}

/* ---- parcels ---- */

bool weir_parcel_init(struct weir_parcel *parcel, size_t head_bytes, size_t size_bytes)
{
    assert(head_bytes <= size_bytes);
    *parcel = (struct weir_parcel){.used = head_bytes, .size = size_bytes};
    parcel->memory = malloc(size_bytes > 0 ? size_bytes : 1);
    return parcel->memory != NULL;
}

/* The offset takes the place of the address: the memory may move while it grows. */
bool weir_parcel_add(struct weir_parcel *parcel, struct weir_slice *slice)
{
    if (slice->bytes > parcel->size - parcel->used) {
        size_t size = 2 * parcel->size + slice->bytes;
        char *memory = realloc(parcel->memory, size);
        if (memory == NULL) {
            return false;
        }
        parcel->memory = memory;
        parcel->size = size;
    }
    if (slice->bytes > 0) {
        memcpy(parcel->memory + parcel->used, slice->data, slice->bytes);
    }
    slice->data = (const char *)(uintptr_t)parcel->used;
    parcel->used += slice->bytes;
    return true;
}

/* Bytes of the log and of bodies are added where they are read. */
bool weir_parcel_add_row(struct weir_parcel *parcel, struct weir_job_row *row)
{
    return weir_parcel_add(parcel, &row->order.id) && weir_parcel_add(parcel, &row->order.queue) &&
           weir_parcel_add(parcel, &row->order.tenant) &&
           weir_parcel_add(parcel, &row->order.key) && weir_parcel_add(parcel, &row->order.type) &&
           weir_parcel_add(parcel, &row->error) && weir_parcel_add(parcel, &row->result_type);
}

static void finish(const struct weir_parcel *parcel, struct weir_slice *slice)
{
    slice->data = parcel->memory + (uintptr_t)slice->data;
}

void weir_parcel_finish_row(const struct weir_parcel *parcel, struct weir_job_row *row)
{
    struct weir_slice *slices[] = {&row->order.id,    &row->order.queue,      &row->order.tenant,
                                   &row->order.key,   &row->order.type,       &row->error,
                                   &row->result_type, &row->order.body.bytes, &row->result.bytes,
                                   &row->log};
    for (size_t i = 0; i < sizeof slices / sizeof slices[0]; i++) {
        finish(parcel, slices[i]);
    }
}
