/* pack.c - packs rows closer together. Everything runs in the store's thread.
 *
 * SQLite keeps a page until two thirds of it are empty. So when rows are deleted in random order,
 * the remaining ones may take more than twice the room that they need. Then the rows of each table
 * are taken out and put back in the order of their numbers, a few at a time, which leaves pages
 * nearly full: while the store is idle, and along with other commits, in proportion to them. */
#include "store/record.h"

#include <assert.h>

/* What a row takes besides its bytes: numbers, digest, and the page's own share. */
#define JOB_BYTES        130
#define REMEMBERED_BYTES 99

/* Packing pays from so many pages for so many bytes on; and this many pages are always fine. */
#define PAGES_PER_DATA(bytes) ((bytes) / 4096 / 3 * 4)
#define PAGES_MIN             1024u

/* A pass reads and writes everything, so as many rows must have gone as to pay for it. */
#define GONE_MIN 1000u

/* While operations wait, the check is repeated only after so many more rows have gone. Rows of
 * which few fit into a page cannot be packed better, and must not be moved for ever: the pages must
 * have grown by this factor since the last pass. */
#define GONE_AGAIN 100u
#define DENSE_PART 1.25

#define TABLES 4

/* The statements of a table follow each other, from WEIR_SQL_PACK_... on. */
enum pack_step {
    TAKE_OUT,
    ASK_LAST,
    CLEAR,
    PUT_BACK,
    EMPTY
};

static const struct packed_table {
    enum weir_sql first;
    uint32_t rows_max; /* of a whole step: bodies and results are up to 64 KiB each */
} tables[TABLES] = {
    {WEIR_SQL_PACK_JOBS, 256},
    {WEIR_SQL_PACK_BODIES, 32},
    {WEIR_SQL_PACK_RESULTS, 16},
    {WEIR_SQL_PACK_REMEMBERED, 256},
};

int64_t weir_order_live_bytes(const struct weir_job_order *order)
{
    uint64_t body_bytes = order->body.file == 0 ? order->body.count : 0;
    return (int64_t)(JOB_BYTES + order->id.bytes + order->queue.bytes + order->tenant.bytes +
                     order->key.bytes + order->type.bytes + body_bytes);
}

int64_t weir_job_live_bytes(const struct weir_job_row *row, uint64_t log_bytes)
{
    uint64_t result_bytes = row->result.file == 0 ? row->result.count : 0;
    return weir_order_live_bytes(&row->order) +
           (int64_t)(row->error.bytes + row->result_type.bytes + result_bytes + log_bytes);
}

int64_t weir_remembered_live_bytes(struct weir_slice id)
{
    return (int64_t)(REMEMBERED_BYTES + id.bytes);
}

static uint64_t live_bytes(const struct weir_store *store)
{
    return store->live_bytes > 0 ? (uint64_t)store->live_bytes : 0;
}

/* Whether enough rows have gone to check at all. */
static bool is_due(const struct weir_store *store, bool busy)
{
    const struct weir_packing *packing = &store->packing;
    return packing->gone_count >= GONE_MIN && packing->gone_count >= store->ids.count / 4 &&
           (!busy || packing->gone_count >= packing->seen_count + GONE_AGAIN);
}

static bool is_worth_while(struct weir_store *store, bool busy, bool *worth)
{
    struct weir_packing *packing = &store->packing;
    uint64_t used, free_pages;
    *worth = is_due(store, busy);
    if (!*worth) {
        return true;
    }
    if (!weir_store_count_pages(store, &used, &free_pages)) {
        return false;
    }
    double dense_pages = packing->dense * (double)live_bytes(store);
    packing->seen_count = packing->gone_count;
    *worth = used > PAGES_MIN && used > PAGES_PER_DATA(live_bytes(store)) &&
             (!busy || (double)used > DENSE_PART * dense_pages);
    return true;
}

/* Notes the density after the last table is done. */
static bool note_density(struct weir_store *store)
{
    uint64_t used, free_pages;
    if (!weir_store_count_pages(store, &used, &free_pages)) {
        return false;
    }
    store->packing.dense = (double)used / (double)(live_bytes(store) + 1);
    return true;
}

/* Runs one step of a table; it must concern so many rows. */
static bool move(struct weir_store *store, enum weir_sql sql, uint64_t count)
{
    struct weir_database *database = &store->database;
    if (!weir_database_run(database, sql)) {
        return false;
    }
    if ((uint64_t)sqlite3_changes64(database->handle) != count) {
        weir_database_damage(database);
        return false;
    }
    return true;
}

/* Takes some rows out, and reports which; none: the table is done. */
static bool take_out(struct weir_store *store, const struct packed_table *table, uint32_t part,
                     uint64_t *last, uint64_t *count)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, table->first + TAKE_OUT);
    weir_bind_number(statement, 1, store->packing.after);
    weir_bind_number(statement, 2, (table->rows_max * part - 1) / WEIR_PACK_WHOLE + 1);
    if (!weir_database_run(database, table->first + TAKE_OUT) ||
        !weir_database_step(database, table->first + ASK_LAST)) {
        return false;
    }
    statement = weir_database_statement(database, table->first + ASK_LAST);
    *last = weir_column_number(statement, 0);
    *count = weir_column_number(statement, 1);
    weir_database_reset(database, table->first + ASK_LAST);
    return true;
}

static bool pack_some(struct weir_store *store, uint32_t part)
{
    struct weir_packing *packing = &store->packing;
    const struct packed_table *table = &tables[packing->table];
    uint64_t last, count;
    if (!weir_batch_begin(store) || !take_out(store, table, part, &last, &count)) {
        return false;
    }
    if (count == 0) {
        packing->after = 0;
        packing->table++;
        packing->under_way = packing->table < TABLES;
        return packing->under_way || note_density(store);
    }
    sqlite3_stmt *statement = weir_database_statement(&store->database, table->first + CLEAR);
    weir_bind_number(statement, 1, packing->after);
    weir_bind_number(statement, 2, last);
    packing->after = last;
    return move(store, table->first + CLEAR, count) &&
           move(store, table->first + PUT_BACK, count) && move(store, table->first + EMPTY, count);
}

bool weir_store_pack(struct weir_store *store, uint32_t part, bool *moved)
{
    struct weir_packing *packing = &store->packing;
    assert(part > 0 && part <= WEIR_PACK_WHOLE);
    *moved = packing->under_way;
    if (!packing->under_way) {
        if (!is_worth_while(store, part < WEIR_PACK_WHOLE, moved)) {
            return false;
        }
        *packing =
            *moved ? (struct weir_packing){.under_way = true, .dense = packing->dense} : *packing;
    }
    return !*moved || pack_some(store, part);
}
