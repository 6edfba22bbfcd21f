/* usage.h - what tenants have used, by tenant, model and day (UTC): a ledger in memory.
 *
 * Every thread adds to it under one short lock; an exchange with an LLM does so once or twice.
 * Everything is bounded: rows in all, models of a tenant on a day, days. When rows run out, the
 * oldest day is forgotten; when that does not help, the use is counted as _other. usage_file.h
 * keeps it across restarts. */
#ifndef WEIR_TENANTS_USAGE_H
#define WEIR_TENANTS_USAGE_H

#include "weir/budget.h"
#include "weir/settings.h"

#define WEIR_USAGE_OTHER "_other"

/* The most rows; a row takes about 150 bytes and its names. */
#define WEIR_USAGE_ROWS_MAX (UINT32_C(1) << 18)

/* The most models of one tenant on one day: requests name the models, so a client could invent any
 * number of them. */
#define WEIR_USAGE_MODELS_MAX 64

#define WEIR_USAGE_DAYS_MAX 400

struct weir_usage_book;

struct weir_usage_counts {
    uint64_t requests; /* that reached a provider */
    uint64_t refused;  /* by Weir: budgets, models, lines */
    uint64_t input;    /* tokens, cached ones included */
    uint64_t output;
    uint64_t cached;        /* of the input: read from the provider's cache */
    uint64_t cache_written; /* of the input: written to it */
    uint64_t money;         /* in billionths, as it was priced at the time */
};

/* Days count from 1970. */
uint32_t weir_usage_day(int64_t wall_s);

/* 2025-08-21. */
struct weir_usage_day_text {
    char text[16];
};
struct weir_usage_day_text weir_usage_show_day(uint32_t day);

/* False if the text is no day between 1970 and 9999. */
bool weir_usage_read_day(struct weir_slice text, uint32_t *day);

/* An empty ledger, or null without memory. */
struct weir_usage_book *weir_usage_create(uint32_t rows_max);
void weir_usage_destroy(struct weir_usage_book *usage);

/* ---- counting, from any thread ---- */

/* Adds to what a tenant has used of a model. Names of more than WEIR_NAME_BYTES_MAX bytes are
 * counted as _other. Without memory for a new row, the day's _other is added to. */
void weir_usage_add(struct weir_usage_book *usage, int64_t wall_s, struct weir_slice tenant,
                    struct weir_slice model, const struct weir_usage_counts *counts);

/* What a tenant has used of all models from one day to another, both included. A tenant without
 * room for its own sum shares one with all such tenants. Takes constant time for each day. */
struct weir_budget_amount weir_usage_sums(struct weir_usage_book *usage, uint32_t from_day,
                                          uint32_t to_day, struct weir_slice tenant);

/* The largest output of one request for that model by the tenant on that day; 0: there was none. */
uint64_t weir_usage_output_most(struct weir_usage_book *usage, int64_t wall_s,
                                struct weir_slice tenant, struct weir_slice model);

/* ---- reading, from any thread ---- */

struct weir_usage_row {
    uint32_t day;
    struct weir_usage_counts counts;
    uint64_t output_most; /* of one request */
    uint8_t tenant_bytes;
    uint8_t model_bytes;
    char text[2 * WEIR_NAME_BYTES_MAX]; /* the tenant, then the model */
};

static inline struct weir_slice weir_usage_tenant(const struct weir_usage_row *row)
{
    return (struct weir_slice){row->text, row->tenant_bytes};
}

static inline struct weir_slice weir_usage_model(const struct weir_usage_row *row)
{
    return (struct weir_slice){row->text + row->tenant_bytes, row->model_bytes};
}

/* Selects rows; a null text selects any. The texts must stay while the filter is used. */
struct weir_usage_filter {
    const struct weir_slice *tenant;
    const struct weir_slice *model;
    uint32_t from_day;
    uint32_t to_day; /* the last one */
};

/* How far reading has come. Zeroed: at the start. */
struct weir_usage_cursor {
    uint32_t day;
    uint32_t row;
};

/* The next rows, oldest day first and within a day in the order in which they came: up to `most`,
 * and fewer if not many match, since the lock is not held for long. 0 with `*over` set when there
 * are no more. */
uint32_t weir_usage_page(struct weir_usage_book *usage, const struct weir_usage_filter *filter,
                         struct weir_usage_cursor *cursor, struct weir_usage_row *rows,
                         uint32_t most, bool *over);

/* ---- keeping ---- */

/* Finds the first day from `*day` on that has changed since it was last saved; `*state` identifies
 * its present content. False: no day has changed. */
bool weir_usage_changed(struct weir_usage_book *usage, uint32_t *day, uint64_t *state);

/* Notes that the day's content `state` has been saved. */
void weir_usage_saved(struct weir_usage_book *usage, uint32_t day, uint64_t state);

/* Adds a saved row. False, with nothing changed, if there is no room or no memory for it. */
WEIR_MUST_CHECK bool weir_usage_restore(struct weir_usage_book *usage,
                                        const struct weir_usage_row *row);

/* Forgets a day of which only a part could be restored. */
void weir_usage_forget(struct weir_usage_book *usage, uint32_t day);

#endif
