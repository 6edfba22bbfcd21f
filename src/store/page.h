/* page.h - a page of jobs that a filter finds, after a bounded search. */
#ifndef WEIR_STORE_PAGE_H
#define WEIR_STORE_PAGE_H

#include "store/inside.h"

struct weir_page {
    const struct weir_store_filter *filter; /* null: all */
    uint64_t after;
    uint32_t rows_max;
    void *memory; /* of the rows, to be freed by the caller; null: none */
    struct weir_job_row *rows;
    uint32_t row_count;
    uint64_t next; /* where the next page begins; 0: there is none */
};

/* False: the database has failed, and there is no memory to free. */
WEIR_MUST_CHECK bool weir_page_read(struct weir_store *store, struct weir_page *page);

#endif
