/* accept.c - the operation ACCEPT: writes new jobs and their bodies, and finds ids that exist
 * already. It runs in the store's thread, within the transaction of a batch. */
#include "store/record.h"

#include "base/slice.h"

#include <assert.h>

static bool insert_job(struct weir_store *store, const struct weir_job_order *order,
                       uint64_t number)
{
    sqlite3_stmt *statement = weir_database_statement(&store->database, WEIR_SQL_INSERT_JOB);
    struct weir_slice digest = {(const char *)order->digest, sizeof order->digest};
    weir_bind_number(statement, 1, number);
    weir_bind_time(statement, 2, order->due_ms);
    weir_bind_number(statement, 3, order->priority);
    weir_bind_number(statement, 4, order->attempts_max);
    weir_bind_number(statement, 5, order->timeout_ms);
    weir_bind_number(statement, 6, order->cost_ms);
    weir_bind_time(statement, 7, order->created_ms);
    weir_bind_number(statement, 8, order->dated ? 1 : 0);
    weir_bind_number(statement, 9, order->body.count);
    weir_bind_number(statement, 10, order->body.file);
    weir_bind_bytes(statement, 11, order->id);
    weir_bind_bytes(statement, 12, order->queue);
    weir_bind_bytes(statement, 13, order->tenant);
    weir_bind_bytes(statement, 14, order->key);
    weir_bind_bytes(statement, 15, order->type);
    weir_bind_bytes(statement, 16, digest);
    weir_bind_bytes(statement, 17,
                    weir_body_beside(&order->body) ? (struct weir_slice){0} : order->body.bytes);
    struct weir_record record = {
        .row = {.number = number, .order = *order, .next_ms = order->due_ms}};
    weir_bind_number(statement, 18, weir_record_sum(&record));
    return weir_database_run(&store->database, WEIR_SQL_INSERT_JOB);
}

static bool insert_body(struct weir_store *store, const struct weir_job_order *order,
                        uint64_t number)
{
    if (!weir_body_beside(&order->body)) {
        return true;
    }
    sqlite3_stmt *statement = weir_database_statement(&store->database, WEIR_SQL_INSERT_BODY);
    weir_bind_number(statement, 1, number);
    weir_bind_bytes(statement, 2, order->body.bytes);
    weir_bind_number(statement, 3, weir_body_sum(number, order->body.bytes));
    return weir_database_run(&store->database, WEIR_SQL_INSERT_BODY);
}

/* The id is noted first, so that it is taken back whatever fails after that. */
static bool insert_with_id(struct weir_store *store, const struct weir_job_order *order,
                           uint64_t hash, struct weir_acceptance *acceptance)
{
    struct weir_id_entry entry = {hash, store->number_last + 1};
    if (!weir_batch_note_fresh(store, entry)) {
        return false;
    }
    store->number_last++;
    store->batch.live_change += weir_order_live_bytes(order);
    *acceptance =
        (struct weir_acceptance){.fresh = true, .number = entry.number, .state = WEIR_JOB_QUEUED};
    return insert_job(store, order, entry.number) && insert_body(store, order, entry.number);
}

/* Accepts a single order and sets how it ends. False: the database has failed. */
static bool accept_one(struct weir_store *store, const struct weir_store_accept *accept,
                       uint32_t index, enum weir_store_end *end)
{
    const struct weir_job_order *order = &accept->orders[index];
    struct weir_acceptance *acceptance = &accept->acceptances[index];
    uint64_t hash = weir_ids_hash(&store->ids, order->id);
    struct weir_known known;
    assert(order->id.bytes > 0 && order->id.bytes <= WEIR_JOB_ID_BYTES_MAX);
    assert(order->tenant.bytes <= WEIR_NAME_BYTES_MAX);
    assert(order->body.bytes.bytes == (order->body.file == 0 ? order->body.count : 0));
    if (!weir_record_find(store, order->id, hash, &known)) {
        return false;
    }
    *acceptance = (struct weir_acceptance){0};
    if (known.number != 0) {
        struct weir_slice tenant = {known.tenant, known.tenant_bytes};
        bool same = memcmp(known.digest, order->digest, sizeof known.digest) == 0 &&
                    weir_slice_equal(tenant, order->tenant);
        acceptance->number = known.number;
        acceptance->state = known.state;
        acceptance->conflict = !same;
        *end = same ? WEIR_STORE_DONE : WEIR_STORE_CONFLICT;
        return true;
    }
    if (accept->known_only || store->ids.count >= store->ids_max) {
        *end = accept->known_only ? WEIR_STORE_UNKNOWN : WEIR_STORE_FULL;
        return true;
    }
    *end = WEIR_STORE_DONE;
    return insert_with_id(store, order, hash, acceptance);
}

/* Checks all orders, so that every conflict is reported. */
static bool accept_each(struct weir_store *store, struct weir_store_accept *accept)
{
    accept->op.end = WEIR_STORE_DONE;
    for (uint32_t i = 0; i < accept->order_count; i++) {
        enum weir_store_end end;
        if (!accept_one(store, accept, i, &end)) {
            return false;
        }
        bool worse = end == WEIR_STORE_CONFLICT ||
                     (end != WEIR_STORE_DONE && accept->op.end == WEIR_STORE_DONE);
        accept->op.end = worse ? end : accept->op.end;
    }
    return true;
}

/* If several orders are not all accepted, nothing of them stays. */
bool weir_store_accept(struct weir_store *store, struct weir_store_accept *accept)
{
    struct weir_database *database = &store->database;
    size_t fresh_before = store->batch.fresh_count;
    uint64_t number_before = store->number_last;
    int64_t live_before = store->batch.live_change;
    bool several = accept->order_count > 1;
    if (several && !weir_database_run(database, WEIR_SQL_SAVE)) {
        return false;
    }
    if (!accept_each(store, accept)) {
        return false;
    }
    if (accept->op.end != WEIR_STORE_DONE && store->batch.fresh_count > fresh_before) {
        assert(several);
        if (!weir_database_run(database, WEIR_SQL_REVERT)) {
            return false;
        }
        weir_batch_take_back(store, fresh_before);
        store->number_last = number_before;
        store->batch.live_change = live_before;
    }
    return !several || weir_database_run(database, WEIR_SQL_RELEASE);
}
