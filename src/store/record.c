/* record.c - converts jobs between rows of the database and memory: columns, checksums, damaged
 * rows, ids, and parcels. Everything runs in the store's thread. */
#define _DEFAULT_SOURCE /* htole64 */
#include "store/record.h"

#include "base/slice.h"
#include "store/crc32c.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Indexes of WEIR_JOB_COLUMNS. */
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
    RESULT_TYPE,
    KEEP_MS,
    RESULT_SUM,
    CHECKSUM
};

/* ---- checksums ---- */

/* Each table has a start value of its own, so that no row is valid in another table. */
enum table {
    TABLE_JOBS = 1,
    TABLE_BODIES,
    TABLE_RESULTS,
    TABLE_REMEMBERED
};

static uint32_t sum_numbers(uint32_t sum, uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        numbers[i] = htole64(numbers[i]); /* a data folder may move to another machine */
    }
    return weir_crc32c(sum, (struct weir_slice){(const char *)numbers, count * sizeof numbers[0]});
}

/* The checksum of the columns that identify a job. */
static uint32_t sum_identity(const struct weir_job_row *row)
{
    const struct weir_job_order *order = &row->order;
    uint64_t numbers[] = {TABLE_JOBS, row->number, order->id.bytes, order->queue.bytes,
                          order->tenant.bytes};
    uint32_t sum = sum_numbers(0, numbers, sizeof numbers / sizeof numbers[0]);
    sum = weir_crc32c(sum, (struct weir_slice){(const char *)order->digest, sizeof order->digest});
    sum = weir_crc32c(sum, order->id);
    sum = weir_crc32c(sum, order->queue);
    return weir_crc32c(sum, order->tenant);
}

static uint32_t sum_rest(const struct weir_record *record)
{
    const struct weir_job_row *row = &record->row;
    const struct weir_job_order *order = &row->order;
    uint64_t numbers[] = {TABLE_JOBS,
                          row->number,
                          row->state,
                          row->attempts,
                          row->kills,
                          row->epoch.boot,
                          row->epoch.counter,
                          (uint64_t)row->started_ms,
                          (uint64_t)row->ended_ms,
                          (uint64_t)row->next_ms,
                          (uint64_t)record->keep_ms,
                          row->result_status,
                          row->result.count,
                          row->result.file,
                          row->result.checksum,
                          record->log_bytes,
                          order->priority,
                          order->attempts_max,
                          order->timeout_ms,
                          order->cost_ms,
                          (uint64_t)order->created_ms,
                          (uint64_t)order->due_ms,
                          order->dated ? 1 : 0,
                          order->body.count,
                          order->body.file,
                          order->key.bytes,
                          order->type.bytes,
                          row->error.bytes,
                          row->result_type.bytes};
    uint32_t sum = sum_numbers(0, numbers, sizeof numbers / sizeof numbers[0]);
    sum = weir_crc32c(sum, order->key);
    sum = weir_crc32c(sum, order->type);
    sum = weir_crc32c(sum, row->error);
    return weir_crc32c(sum, row->result_type);
}

/* Two checksums of 32 bits: if only other columns are damaged, the job is still identified. */
uint64_t weir_record_sum(const struct weir_record *record)
{
    return (uint64_t)sum_identity(&record->row) << 32 | sum_rest(record);
}

static uint32_t sum_bytes(enum table table, uint64_t number, struct weir_slice bytes)
{
    uint64_t numbers[] = {table, number, bytes.bytes};
    return weir_crc32c(sum_numbers(0, numbers, sizeof numbers / sizeof numbers[0]), bytes);
}

uint64_t weir_body_sum(uint64_t number, struct weir_slice bytes)
{
    return sum_bytes(TABLE_BODIES, number, bytes);
}

uint64_t weir_result_sum(uint64_t number, struct weir_slice result, struct weir_slice log)
{
    return (uint64_t)sum_bytes(TABLE_RESULTS, number, result) << 32 |
           sum_bytes(TABLE_RESULTS, number, log);
}

uint64_t weir_remembered_sum(const struct weir_remembered *remembered)
{
    uint64_t numbers[] = {TABLE_REMEMBERED,
                          remembered->number,
                          remembered->state,
                          (uint64_t)remembered->ended_ms,
                          (uint64_t)remembered->forget_ms,
                          remembered->id.bytes,
                          remembered->tenant.bytes};
    uint32_t sum = sum_numbers(0, numbers, sizeof numbers / sizeof numbers[0]);
    sum = weir_crc32c(
        sum, (struct weir_slice){(const char *)remembered->digest, sizeof remembered->digest});
    sum = weir_crc32c(sum, remembered->id);
    return weir_crc32c(sum, remembered->tenant);
}

static bool lacks_sum(const struct weir_database *database, sqlite3_stmt *statement, int index,
                      uint64_t number)
{
    return number <= database->unchecked && sqlite3_column_type(statement, index) == SQLITE_NULL;
}

bool weir_sum_matches(const struct weir_database *database, sqlite3_stmt *statement, int index,
                      uint64_t number, uint64_t sum)
{
    return lacks_sum(database, statement, index, number) ||
           (sqlite3_column_type(statement, index) == SQLITE_INTEGER &&
            weir_column_number(statement, index) == sum);
}

/* ---- reading ---- */

/* Reads a number that must be below `end`; else clears `good`. */
static uint32_t read_small(sqlite3_stmt *statement, int index, uint64_t end, bool *good)
{
    uint64_t number = weir_column_number(statement, index);
    *good = *good && number < end;
    return (uint32_t)number;
}

/* Reads a text that must not have more than `bytes_max`, which is all that readers have room for.
 */
static struct weir_slice read_text(sqlite3_stmt *statement, int index, size_t bytes_max, bool *good)
{
    struct weir_slice text = weir_column_bytes(statement, index);
    *good = *good && text.bytes <= bytes_max;
    return text;
}

/* Reads the size of bytes, in a file or, up to a bound, in the database. */
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
    if (digest.bytes == sizeof order->digest) { /* a damaged row may still identify its job */
        memcpy(order->digest, digest.data, sizeof order->digest);
    }
}

/* Whether the row is intact, and if not, whether its job is identified. */
static bool check_sum(const struct weir_database *database, sqlite3_stmt *statement,
                      struct weir_record *record, bool good)
{
    uint64_t sum = weir_column_number(statement, CHECKSUM);
    bool named = record->row.order.id.bytes > 0 && record->row.order.queue.bytes > 0;
    if (lacks_sum(database, statement, CHECKSUM, record->row.number)) {
        record->identified = good;
        return good;
    }
    if (sqlite3_column_type(statement, CHECKSUM) != SQLITE_INTEGER) {
        return false;
    }
    record->identified = named && sum >> 32 == sum_identity(&record->row);
    return good && record->identified && (uint32_t)sum == sum_rest(record);
}

bool weir_record_read(const struct weir_database *database, sqlite3_stmt *statement,
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
    row->result.checksum = weir_column_number(statement, RESULT_SUM);
    record->keep_ms = sqlite3_column_int64(statement, KEEP_MS);
    record->log_bytes = read_small(statement, LOG_BYTES, UINT64_C(1) << 32, &good);
    record->has_results = (row->result.count > 0 && row->result.file == 0) || record->log_bytes > 0;
    row->error = read_text(statement, ERROR, WEIR_JOB_ERROR_BYTES_MAX, &good);
    row->result_type = read_text(statement, RESULT_TYPE, WEIR_JOB_TYPE_BYTES_MAX, &good);
    read_order(statement, &row->order, &good);
    good = good && row->number > 0 && row->number <= WEIR_IDS_NUMBER_MAX;
    return check_sum(database, statement, record, good);
}

enum weir_record_found weir_record_get(struct weir_database *database, uint64_t number,
                                       struct weir_record *record)
{
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_JOB);
    weir_bind_number(statement, 1, number);
    if (!weir_database_step(database, WEIR_SQL_GET_JOB)) {
        return WEIR_RECORD_NONE;
    }
    return weir_record_read(database, statement, record) ? WEIR_RECORD_WHOLE : WEIR_RECORD_DAMAGED;
}

bool weir_remembered_read(const struct weir_database *database, sqlite3_stmt *statement,
                          struct weir_remembered *remembered)
{
    bool good = true;
    struct weir_slice digest = weir_column_bytes(statement, 2);
    *remembered = (struct weir_remembered){
        .number = weir_column_number(statement, 0),
        .id = read_text(statement, 1, WEIR_JOB_ID_BYTES_MAX, &good),
        .state = (enum weir_job_state)read_small(statement, 3, WEIR_JOB_STATE_COUNT, &good),
        .tenant = read_text(statement, 4, WEIR_NAME_BYTES_MAX, &good),
        .ended_ms = sqlite3_column_int64(statement, 5),
        .forget_ms = sqlite3_column_int64(statement, 6)};
    if (!good || remembered->id.bytes == 0 || digest.bytes != sizeof remembered->digest ||
        remembered->number == 0 || remembered->number > WEIR_IDS_NUMBER_MAX) {
        return false;
    }
    memcpy(remembered->digest, digest.data, sizeof remembered->digest);
    return weir_sum_matches(database, statement, 7, remembered->number,
                            weir_remembered_sum(remembered));
}

/* ---- damaged rows ---- */

#define DAMAGED_ERROR \
    "its record is damaged on disk: submit the job again under another id if it is still needed"

static void become_dead_letter(struct weir_record *record)
{
    struct weir_job_row *row = &record->row;
    struct weir_job_order was = row->order;
    uint64_t number = row->number;
    *row = (struct weir_job_row){.number = number, .state = WEIR_JOB_FAILED};
    row->ended_ms = weir_wall_ms();
    row->error = weir_slice_of(DAMAGED_ERROR);
    row->order.priority = WEIR_PRIORITY_NORMAL;
    row->order.attempts_max = 1;
    record->log_bytes = 0;
    record->keep_ms = 0;
    record->has_results = false;
    if (record->identified) {
        row->order.id = was.id;
        row->order.queue = was.queue;
        row->order.tenant = was.tenant;
        memcpy(row->order.digest, was.digest, sizeof was.digest);
        return;
    }
    snprintf(record->damaged_id, sizeof record->damaged_id, "damaged-%" PRIu64, number);
    row->order.id = weir_slice_of(record->damaged_id);
    row->order.queue = weir_slice_of(WEIR_RECORD_QUEUE_DAMAGED);
}

/* The body stays where it is: even a suspect copy is better than none. */
bool weir_record_condemn(struct weir_database *database, struct weir_record *record)
{
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_CONDEMN_JOB);
    struct weir_job_row *row = &record->row;
    become_dead_letter(record);
    struct weir_slice digest = {(const char *)row->order.digest, sizeof row->order.digest};
    weir_bind_number(statement, 1, row->number);
    weir_bind_time(statement, 2, row->ended_ms);
    weir_bind_number(statement, 3, row->order.priority);
    weir_bind_bytes(statement, 4, row->order.id);
    weir_bind_bytes(statement, 5, row->order.queue);
    weir_bind_bytes(statement, 6, row->order.tenant);
    weir_bind_bytes(statement, 7, digest);
    weir_bind_bytes(statement, 8, row->error);
    weir_bind_number(statement, 9, weir_record_sum(record));
    return weir_database_change(database, WEIR_SQL_CONDEMN_JOB);
}

/* ---- ids ---- */

static void note_known_job(struct weir_known *known, const struct weir_job_order *order,
                           enum weir_job_state state)
{
    memcpy(known->digest, order->digest, sizeof known->digest);
    if (order->tenant.bytes > 0) {
        memcpy(known->tenant, order->tenant.data, order->tenant.bytes);
    }
    known->tenant_bytes = order->tenant.bytes;
    known->state = state;
}

/* Whether the job of that number has the id. A damaged one will be a dead letter. */
static bool is_job(struct weir_store *store, uint64_t number, struct weir_slice id,
                   struct weir_known *known)
{
    struct weir_record record;
    enum weir_record_found found = weir_record_get(&store->database, number, &record);
    if (found == WEIR_RECORD_NONE) {
        return false;
    }
    bool same = record.identified && weir_slice_equal(record.row.order.id, id);
    if (same) {
        note_known_job(known, &record.row.order,
                       found == WEIR_RECORD_WHOLE ? record.row.state : WEIR_JOB_FAILED);
        known->number = number;
    }
    weir_database_reset(&store->database, WEIR_SQL_GET_JOB);
    return same;
}

/* Whether a job of that number and id is remembered. A damaged row does not count. */
static bool is_remembered(struct weir_store *store, uint64_t number, struct weir_slice id,
                          struct weir_known *known)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_REMEMBERED);
    struct weir_remembered remembered;
    weir_bind_number(statement, 1, number);
    if (!weir_database_step(database, WEIR_SQL_GET_REMEMBERED)) {
        return false;
    }
    bool same = weir_remembered_read(database, statement, &remembered) &&
                weir_slice_equal(remembered.id, id);
    if (same) {
        struct weir_job_order order = {.tenant = remembered.tenant};
        memcpy(order.digest, remembered.digest, sizeof order.digest);
        note_known_job(known, &order, remembered.state);
        known->number = number;
    }
    weir_database_reset(database, WEIR_SQL_GET_REMEMBERED);
    return same;
}

bool weir_record_find(struct weir_store *store, struct weir_slice id, uint64_t hash,
                      struct weir_known *known)
{
    struct weir_ids_search search = {.hash = hash};
    uint64_t number;
    known->number = 0;
    while ((number = weir_ids_next(&store->ids, &search)) != 0) {
        if (is_job(store, number, id, known) || is_remembered(store, number, id, known)) {
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

/* Stores the offset in place of the address: the memory may move while it grows. */
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
