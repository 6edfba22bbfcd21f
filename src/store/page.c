#include "store/page.h"

#include "base/slice.h"
#include "store/record.h"

#include <assert.h>
#include <stdlib.h>

/* The most rows that one page examines: some 10 ms. */
#define LOOKS_MAX 10000u

static bool matches(const struct weir_store_filter *filter, const struct weir_job_row *row)
{
    if (filter == NULL) {
        return true;
    }
    if (filter->state >= 0 && (int)row->state != filter->state) {
        return false;
    }
    if (filter->queue.bytes > 0 && !weir_slice_equal(filter->queue, row->order.queue)) {
        return false;
    }
    return !(filter->by_tenant || filter->tenant.bytes > 0) ||
           weir_slice_equal(filter->tenant, row->order.tenant);
}

/* Reads rows until the page is full, the search is long enough, or there are no more. False: out of
 * memory. */
static bool fill(struct weir_store *store, struct weir_page *page, struct weir_parcel *parcel)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_JOBS);
    struct weir_record record;
    uint32_t looks = 0;
    weir_bind_number(statement, 1, page->after);
    while (weir_database_step(database, WEIR_SQL_GET_JOBS)) {
        bool whole = weir_record_read(database, statement, &record); /* a damaged row is left out */
        bool found = whole && matches(page->filter, &record.row);
        bool room = !found || weir_parcel_add_row(parcel, &record.row);
        if (found && room) {
            memcpy(parcel->memory + page->row_count * sizeof record.row, &record.row,
                   sizeof record.row);
            page->row_count++;
        }
        if (!room || ++looks == LOOKS_MAX || page->row_count == page->rows_max) {
            page->next = record.row.number;
            weir_database_reset(database, WEIR_SQL_GET_JOBS);
            return room;
        }
    }
    return true;
}

bool weir_page_read(struct weir_store *store, struct weir_page *page)
{
    struct weir_parcel parcel;
    size_t head_bytes = page->rows_max * sizeof page->rows[0];
    assert(page->rows_max > 0 && page->rows_max <= WEIR_STORE_PAGE_MAX);
    bool room =
        weir_parcel_init(&parcel, head_bytes, head_bytes + 4096) && fill(store, page, &parcel);
    bool good = store->database.health.failure == SQLITE_OK;
    if (!good || !room) {
        free(parcel.memory);
        return good;
    }
    page->memory = parcel.memory;
    page->rows = (struct weir_job_row *)(void *)parcel.memory;
    for (uint32_t i = 0; i < page->row_count; i++) {
        weir_parcel_finish_row(&parcel, &page->rows[i]);
    }
    return true;
}
