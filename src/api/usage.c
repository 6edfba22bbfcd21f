/* GET /usage: reads the query, which days and tenants are wanted, and writes rows of the usage
 * book page by page, so that it never holds the book's lock for long. Runs in the loop of the
 * call. */
#include "api/handlers.h"

#include "api/gates.h"
#include "base/slice.h"
#include "config/scalars.h"
#include "tenants/usage.h"
#include "wire/query.h"

#include <stdio.h>

#define ROWS_AT_ONCE 16

/* Everything that a reply in several pieces needs. */
struct report {
    struct weir_usage_filter filter;
    struct weir_slice tenant;
    struct weir_slice model;
    struct weir_usage_cursor cursor;
    uint32_t row_count;
    uint32_t next; /* of the rows, which has not been written yet */
    struct weir_usage_row rows[ROWS_AT_ONCE];
    bool opened; /* the document has been begun */
    size_t text_bytes;
    char text[sizeof((struct weir_call *)NULL)->text]; /* the query's values */
};

/* ---- the reply ---- */

static void put_row(struct weir_json *json, const struct weir_usage_row *row)
{
    weir_json_open(json, '{');
    weir_json_put_string(json, "day", weir_slice_of(weir_usage_show_day(row->day).text));
    weir_json_put_string(json, "tenant", weir_usage_tenant(row));
    weir_json_put_string(json, "model", weir_usage_model(row));
    weir_json_put_number(json, "requests", row->counts.requests);
    weir_json_put_number(json, "refused", row->counts.refused);
    weir_json_put_number(json, "input_tokens", row->counts.input);
    weir_json_put_number(json, "output_tokens", row->counts.output);
    weir_json_put_number(json, "cached_tokens", row->counts.cached);
    weir_json_put_number(json, "cache_written_tokens", row->counts.cache_written);
    weir_json_name(json, "money");
    weir_json_raw(json, weir_slice_of(weir_scalar_show_money(row->counts.money).text));
    weir_json_close(json, '}');
}

/* One page a piece, however few rows of it match: so that the ledger is never locked for long. */
static bool produce_usage(struct weir_call *call, struct weir_json *json)
{
    struct report *report = call->context;
    bool over = false;
    if (!report->opened) {
        report->opened = true;
        weir_json_open(json, '{');
        weir_json_name(json, "usage");
        weir_json_open(json, '[');
    }
    if (report->next == report->row_count) {
        report->next = 0;
        report->row_count = weir_usage_page(call->worker->usage, &report->filter, &report->cursor,
                                            report->rows, ROWS_AT_ONCE, &over);
    }
    while (report->next < report->row_count) {
        if (json->capacity - json->bytes < WEIR_API_ITEM_BYTES_MAX) {
            return false;
        }
        put_row(json, &report->rows[report->next++]);
    }
    return over && weir_api_end_list(json);
}

/* ---- the question ---- */

static bool refuse(struct weir_call *call, const char *format, struct weir_slice what)
{
    char detail[512];
    int bytes = (int)(what.bytes < WEIR_NAME_BYTES_MAX ? what.bytes : WEIR_NAME_BYTES_MAX);
    snprintf(detail, sizeof detail, format, bytes, what.data);
    weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400, detail);
    return false;
}

/* The query's texts take no more room than the query. */
static struct weir_slice keep(struct report *report, struct weir_slice value)
{
    struct weir_slice copy = weir_slice_copy(report->text + report->text_bytes, value);
    report->text_bytes += value.bytes;
    return copy;
}

static bool read_day(struct weir_call *call, struct weir_slice value, uint32_t *day)
{
    return weir_usage_read_day(value, day) ||
           refuse(call, "%.*s is not a day. Write it as 2025-08-21 (UTC).", value);
}

static bool read_parameter(struct weir_call *call, struct report *report, struct weir_slice name,
                           struct weir_slice value)
{
    struct weir_usage_filter *filter = &report->filter;
    if (weir_slice_equal(name, weir_slice_of("tenant"))) {
        report->tenant = keep(report, value);
        filter->tenant = &report->tenant;
        return true;
    }
    if (weir_slice_equal(name, weir_slice_of("model"))) {
        report->model = keep(report, value);
        filter->model = &report->model;
        return true;
    }
    if (weir_slice_equal(name, weir_slice_of("from"))) {
        return read_day(call, value, &filter->from_day);
    }
    if (weir_slice_equal(name, weir_slice_of("to"))) {
        return read_day(call, value, &filter->to_day);
    }
    if (weir_slice_equal(name, weir_slice_of("day"))) {
        bool read = read_day(call, value, &filter->from_day);
        filter->to_day = filter->from_day;
        return read;
    }
    return refuse(call, "Unknown parameter \"%.*s\". Parameters: tenant, model, day, from, to.",
                  name);
}

static bool read_query(struct weir_call *call, struct report *report)
{
    struct weir_slice rest = call->query, name, value;
    char room[sizeof call->text];
    for (;;) {
        switch (weir_query_next(&rest, room, sizeof room, &name, &value)) {
        case WEIR_QUERY_END:
            return true;
        case WEIR_QUERY_FAULT:
            return refuse(call,
                          "Malformed query: an escape is a %% and two hexadecimal digits.%.*s",
                          (struct weir_slice){"", 0});
        case WEIR_QUERY_PAIR:
            if (report->text_bytes + value.bytes > sizeof report->text) {
                return refuse(call, "The query is too long.%.*s", (struct weir_slice){"", 0});
            }
            if (!read_parameter(call, report, name, value)) {
                return false;
            }
            break;
        }
    }
}

/* A caller that speaks for one tenant sees no other's usage, whatever the query says. */
static bool confine(struct weir_call *call, struct report *report)
{
    const struct weir_slice *own = &call->credential.tenant;
    if (own->bytes == 0) {
        return true;
    }
    if (report->filter.tenant != NULL && !weir_slice_equal(report->tenant, *own)) {
        weir_call_problem(call, WEIR_PROBLEM_FORBIDDEN, 403,
                          "The credentials belong to another tenant. Leave out the parameter "
                          "tenant to see your own.");
        return false;
    }
    report->filter.tenant = own;
    return true;
}

void weir_api_get_usage(struct weir_call *call)
{
    static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct report)};
    struct report *report = weir_call_attach(call, &hooks);
    if (report == NULL) {
        return;
    }
    report->filter.to_day = UINT32_MAX;
    if (read_query(call, report) && confine(call, report)) {
        weir_call_reply(call, 200, "application/json", produce_usage);
    }
}
