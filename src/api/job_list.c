/* job_list.c - GET /jobs and GET /dlq: what a query asks for, and a page of jobs. */
#include "api/job_list.h"

#include "api/job_document.h"
#include "base/slice.h"
#include "config/scalars.h"

#include <stdio.h>

#define ROWS_DEFAULT 100

/* ---- the question ---- */

static const char *keep_name(struct weir_slice value, char *room, struct weir_slice *name)
{
    if (value.bytes > WEIR_NAME_BYTES_MAX) {
        return "must have at most 255 bytes";
    }
    *name = weir_slice_copy(room, value);
    return NULL;
}

static const char *set_state(struct weir_job_filter *filter, struct weir_slice value)
{
    enum weir_job_state state;
    if (!weir_job_state_read(value, &state)) {
        return "must be queued, running, done, failed or cancelled";
    }
    filter->filter.state = (int)state;
    return NULL;
}

static const char *set_limit(struct weir_job_filter *filter, struct weir_slice value)
{
    uint64_t rows;
    if (!weir_scalar_number(value, &rows) || rows < 1 || rows > WEIR_STORE_PAGE_MAX) {
        return "must be a number from 1 to 1000";
    }
    filter->rows_max = (uint32_t)rows;
    return NULL;
}

static const char *set_parameter(void *context, struct weir_slice name, struct weir_slice value,
                                 uint32_t *bit)
{
    struct weir_job_filter *filter = context;
    if (weir_slice_equal(name, weir_slice_of("queue"))) {
        *bit = 1;
        return value.bytes == 0 ? "must be the name of a queue"
                                : keep_name(value, filter->queue, &filter->filter.queue);
    }
    if (weir_slice_equal(name, weir_slice_of("tenant"))) {
        *bit = 2;
        filter->filter.by_tenant = true;
        return keep_name(value, filter->tenant, &filter->filter.tenant);
    }
    if (filter->by_state && weir_slice_equal(name, weir_slice_of("state"))) {
        *bit = 4;
        return set_state(filter, value);
    }
    if (filter->by_page && weir_slice_equal(name, weir_slice_of("after"))) {
        *bit = 8;
        return weir_scalar_number(value, &filter->after) && filter->after <= INT64_MAX
                   ? NULL
                   : "must be the `next` of an earlier reply";
    }
    if (filter->by_page && weir_slice_equal(name, weir_slice_of("limit"))) {
        *bit = 16;
        return set_limit(filter, value);
    }
    return filter->by_state  ? "is unknown. Parameters: state, queue, tenant, after, limit"
           : filter->by_page ? "is unknown. Parameters: queue, tenant, after, limit"
                             : "is unknown. Parameters: queue, tenant";
}

/* A caller that speaks for one tenant sees no other's jobs. */
static bool confine(struct weir_call *call, struct weir_job_filter *filter)
{
    struct weir_slice own = call->credential.tenant;
    const uint32_t all = WEIR_CONFIG_SCOPE_READ | WEIR_CONFIG_SCOPE_ADMIN;
    if (own.bytes == 0) {
        if (call->credential.scopes != 0 && (call->credential.scopes & all) == 0) {
            weir_call_problem(call, WEIR_PROBLEM_FORBIDDEN, 403,
                              "The token has the scope submit and names no tenant, so it owns no "
                              "jobs. Listing all jobs needs the scope read.");
            return false;
        }
        return true;
    }
    if (filter->filter.by_tenant && !weir_slice_equal(filter->filter.tenant, own)) {
        weir_call_problem(call, WEIR_PROBLEM_FORBIDDEN, 403,
                          "The credentials belong to another tenant. Leave out the parameter "
                          "tenant to see your own.");
        return false;
    }
    filter->filter.by_tenant = true;
    memcpy(filter->tenant, own.data, own.bytes);
    filter->filter.tenant = (struct weir_slice){filter->tenant, own.bytes};
    return true;
}

bool weir_job_filter_read(struct weir_call *call, struct weir_job_filter *filter)
{
    filter->rows_max = ROWS_DEFAULT;
    return weir_job_read_query(call, set_parameter, filter) && confine(call, filter);
}

/* ---- the answer ---- */

struct job_listing {
    struct weir_job_call job;
    uint32_t listed; /* how many of the page's jobs */
    bool opened;     /* the list has been begun */
    struct weir_job_filter filter;
};

/* As many as fit into a piece. */
static bool produce_page(struct weir_call *call, struct weir_json *json)
{
    struct job_listing *listing = call->context;
    const struct weir_store_list *list = &listing->job.request.list;
    if (!listing->opened) {
        listing->opened = true;
        weir_json_open(json, '{');
        weir_json_name(json, "jobs");
        weir_json_open(json, '[');
    }
    while (listing->listed < list->row_count) {
        if (json->capacity - json->bytes < WEIR_JOB_DOCUMENT_BYTES_MAX) {
            return false;
        }
        weir_job_document(json, &list->rows[listing->listed++], NULL);
    }
    weir_json_close(json, ']');
    if (list->next > 0) {
        char text[24];
        int bytes = snprintf(text, sizeof text, "%llu", (unsigned long long)list->next);
        weir_json_put_string(json, "next", (struct weir_slice){text, (size_t)bytes});
    }
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

static void tell(struct weir_job_call *job)
{
    if (job->request.end == WEIR_JOB_SERVICE_DONE) {
        weir_call_reply(job->call, 200, "application/json", produce_page);
    } else {
        weir_job_refuse(job);
    }
}

void weir_job_list(struct weir_call *call, int state)
{
    static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct job_listing),
                                                 .end = weir_job_call_end,
                                                 .free = weir_job_call_free};
    struct job_listing *listing = weir_job_begin(call, &hooks);
    if (listing == NULL) {
        return;
    }
    listing->filter.filter.state = state;
    listing->filter.by_state = state < 0;
    listing->filter.by_page = true;
    if (!weir_job_filter_read(call, &listing->filter)) {
        return;
    }
    struct weir_job_service_request *request = weir_job_prepare(&listing->job);
    request->list.filter = listing->filter.filter;
    request->list.after = listing->filter.after;
    request->list.rows_max = listing->filter.rows_max;
    weir_job_ask(&listing->job, weir_job_service_list, tell);
}
