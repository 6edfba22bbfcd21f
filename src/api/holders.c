/* holders.c - GET /gates/{gate}/{key}/holders: the holders of permits at a key, since when and for
 * how long; and POST /gates/{gate}/{key}/holders/{handle}/end, by which an administrator ends one.
 *
 * A page of holders is copied under the key's lock, and the reply is made of the copy. Holders are
 * named by handles, never by what would let a caller release or use the permit. Everything here
 * runs in the call's own loop. */
#include "api/handlers.h"

#include "api/gates.h"
#include "api/job_call.h"
#include "base/alloc.h"
#include "base/slice.h"
#include "config/scalars.h"
#include "gates/flow.h"
#include "gates/permit_owner.h"

#define ROWS_DEFAULT 100
#define ROWS_MAX     1000

/* A lease that ends later than this stands for none: permits of flows have such leases. */
#define LEASE_SHOWN_MAX_NS (WEIR_DURATION_MAX_NS / 2)

/* What is kept of a holder after the key's lock is let go. */
struct holder_entry {
    struct weir_holder_handle handle;
    const char *kind;
    uint64_t since_ns;
    uint64_t lease_end_ns;
    uint32_t cost;
    enum weir_priority priority;
    uint8_t name_bytes;
    uint8_t tenant_bytes;
    uint8_t flow_bytes;
    uint8_t from_bytes;
    char from[48]; /* an IPv6 address has 46 bytes */
    char text[WEIR_PERMIT_NAME_BYTES_MAX + 2 * WEIR_NAME_BYTES_MAX]; /* name, tenant, flow */
};

struct holder_page {
    uint64_t now_ns;
    struct weir_key_stats stats;
    struct weir_slice own; /* the only tenant whose permits are listed; empty: all are */
    uint32_t rows_max;
    uint32_t count;
    bool more; /* there are holders after these */
    struct holder_entry entries[];
};

struct holder_view {
    uint32_t gate;
    uint32_t next; /* entry */
    uint32_t rows_max;
    uint64_t after; /* the ticket number that the query names */
    struct holder_page *page;
};

static const struct weir_allocator *const memory = &weir_allocator_libc;

static size_t page_bytes(uint32_t rows_max)
{
    return sizeof(struct holder_page) + rows_max * sizeof(struct holder_entry);
}

static void drop_page(struct weir_call *call)
{
    struct holder_view *view = call->context;
    weir_release(memory, view->page, page_bytes(view->rows_max));
}

/* ---- the question ---- */

static const char *set_parameter(void *context, struct weir_slice name, struct weir_slice value,
                                 uint32_t *bit)
{
    struct holder_view *view = context;
    struct weir_holder_handle handle;
    uint64_t rows;
    if (weir_slice_equal(name, weir_slice_of("after"))) {
        *bit = 1;
        bool good = weir_holder_handle_parse(value, &handle);
        view->after = good ? handle.number : 0;
        return good ? NULL : "must be the `next` of an earlier reply";
    }
    if (weir_slice_equal(name, weir_slice_of("limit"))) {
        *bit = 2;
        bool good = weir_scalar_number(value, &rows) && rows >= 1 && rows <= ROWS_MAX;
        view->rows_max = good ? (uint32_t)rows : view->rows_max;
        return good ? NULL : "must be a number from 1 to 1000";
    }
    return "is unknown. Parameters: after, limit";
}

/* ---- the copy ---- */

static uint8_t add_text(struct holder_entry *entry, size_t *bytes, struct weir_slice text)
{
    weir_slice_copy(entry->text + *bytes, text);
    *bytes += text.bytes;
    return (uint8_t)text.bytes;
}

static bool copy_holder(void *context, const struct weir_permit_holder *holder)
{
    struct holder_page *page = context;
    page->more = page->count == page->rows_max;
    if (page->more) {
        return false;
    }
    struct holder_entry *entry = &page->entries[page->count++];
    struct weir_slice from = weir_slice_of(holder->from == NULL ? "" : holder->from);
    size_t bytes = 0;
    *entry = (struct holder_entry){.handle = holder->handle,
                                   .kind = holder->kind,
                                   .since_ns = holder->since_ns,
                                   .lease_end_ns = holder->lease_end_ns,
                                   .cost = holder->cost,
                                   .priority = holder->priority};
    entry->name_bytes =
        add_text(entry, &bytes, (struct weir_slice){holder->name, holder->name_bytes});
    entry->tenant_bytes = add_text(entry, &bytes, holder->tenant);
    entry->flow_bytes = add_text(entry, &bytes, holder->flow);
    if (from.bytes <= sizeof entry->from) {
        weir_slice_copy(entry->from, from);
        entry->from_bytes = (uint8_t)from.bytes;
    }
    return true;
}

/* ---- the answer ---- */

static void put_ms_between(struct weir_json *json, const char *name, uint64_t earlier_ns,
                           uint64_t later_ns)
{
    weir_json_put_number(json, name, later_ns > earlier_ns ? (later_ns - earlier_ns) / 1000000 : 0);
}

static void put_handle(struct weir_json *json, const char *name, struct weir_holder_handle handle)
{
    char text[WEIR_HOLDER_HANDLE_BYTES_MAX];
    weir_json_put_string(json, name,
                         (struct weir_slice){text, weir_holder_handle_format(handle, text)});
}

static void put_entry(struct weir_json *json, const struct holder_page *page, uint32_t index)
{
    const struct holder_entry *entry = &page->entries[index];
    const char *tenant = entry->text + entry->name_bytes;
    weir_json_open(json, '{');
    put_handle(json, "handle", entry->handle);
    weir_json_put_string(json, "kind", weir_slice_of(entry->kind));
    weir_json_put_string(json, "name", (struct weir_slice){entry->text, entry->name_bytes});
    weir_json_put_string(json, "flow",
                         (struct weir_slice){tenant + entry->tenant_bytes, entry->flow_bytes});
    weir_json_put_string(json, "tenant", (struct weir_slice){tenant, entry->tenant_bytes});
    weir_json_put_string(json, "from", (struct weir_slice){entry->from, entry->from_bytes});
    weir_json_put_string(json, "priority", weir_slice_of(weir_priority_name(entry->priority)));
    weir_json_put_number(json, "cost", entry->cost);
    put_ms_between(json, "held_ms", entry->since_ns, page->now_ns);
    if (entry->lease_end_ns > page->now_ns &&
        entry->lease_end_ns - page->now_ns > LEASE_SHOWN_MAX_NS) {
        weir_json_put_null(json, "lease_left_ms");
    } else {
        put_ms_between(json, "lease_left_ms", page->now_ns, entry->lease_end_ns);
    }
    weir_json_close(json, '}');
}

static bool produce_holders(struct weir_call *call, struct weir_json *json)
{
    struct holder_view *view = call->context;
    const struct holder_page *page = view->page;
    if (view->next == 0) {
        weir_json_open(json, '{');
        weir_json_put_string(json, "gate", weir_gates_name(call->worker->gates, view->gate));
        weir_json_put_string(json, "key", call->segments[2]);
        weir_json_put_number(json, "active", page->stats.active);
        weir_json_put_number(json, "waiting", page->stats.waiting);
        weir_api_put_limit(json, page->stats.limit);
        if (page->more) {
            put_handle(json, "next", page->entries[page->count - 1].handle);
        } else {
            weir_json_put_null(json, "next");
        }
        weir_json_name(json, "holders");
        weir_json_open(json, '[');
    }
    for (; view->next < page->count; view->next++) {
        if (json->capacity - json->bytes < WEIR_API_ITEM_BYTES_MAX) {
            return false;
        }
        put_entry(json, page, view->next);
    }
    return weir_api_end_list(json);
}

void weir_api_get_holders(struct weir_call *call)
{
    static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct holder_view),
                                                 .free = drop_page};
    struct holder_view *view = weir_call_attach(call, &hooks);
    if (view == NULL) {
        return;
    }
    view->rows_max = ROWS_DEFAULT;
    if (!weir_job_read_query(call, set_parameter, view)) {
        return;
    }
    struct weir_key *key = weir_api_find_key(call, &view->gate);
    if (key == NULL) {
        return;
    }
    struct holder_page *page = weir_allocate(memory, page_bytes(view->rows_max));
    view->page = page;
    if (page == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "Out of memory for listing the holders. Try again later, or with a "
                          "smaller limit.");
    } else {
        *page = (struct holder_page){.now_ns = call->worker->loop.now_ns,
                                     .stats = weir_gates_stats(key),
                                     .own = call->credential.tenant,
                                     .rows_max = view->rows_max};
        weir_gates_holders(key, view->after, page->own, copy_holder, page);
        weir_call_reply(call, 200, "application/json", produce_holders);
    }
    weir_key_give(key);
}

/* ---- ending one ---- */

/* A holder that is looked for by its handle. */
struct holder_search {
    struct weir_holder_handle handle;
    struct weir_slice own; /* the permit has to be this tenant's; empty: any tenant's */
    bool found;
    bool ends_itself;
    struct weir_slice flow;
    struct weir_slice tenant;
    char flow_text[WEIR_NAME_BYTES_MAX];
    char tenant_text[WEIR_NAME_BYTES_MAX];
};

static bool meet_holder(void *context, const struct weir_permit_holder *holder)
{
    struct holder_search *search = context;
    search->found = holder->handle.number == search->handle.number &&
                    holder->handle.check == search->handle.check;
    if (search->found) {
        search->ends_itself = holder->ends_itself;
        search->flow = weir_slice_copy(search->flow_text, holder->flow);
        search->tenant = weir_slice_copy(search->tenant_text, holder->tenant);
    }
    return false; /* the first after the number before it is the only one that it can be */
}

static bool find_holder(const struct weir_key *key, struct holder_search *search)
{
    search->found = false;
    if (search->handle.number > 0) { /* tickets count from 1 */
        weir_gates_holders(key, search->handle.number - 1, search->own, meet_holder, search);
    }
    return search->found;
}

/* What a call that ends a holder remembers. */
struct holder_end {
    bool goes_on; /* requests are inside: it ends with the last of them */
};

static bool produce_end(struct weir_call *call, struct weir_json *json)
{
    const struct holder_end *end = call->context;
    weir_json_open(json, '{');
    weir_json_put_string(json, "state", weir_slice_of(end->goes_on ? "ending" : "ended"));
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

static enum weir_status end_holder(struct weir_call *call, struct weir_key *key,
                                   struct holder_search *search)
{
    struct weir_worker *worker = call->worker;
    struct holder_end *end = call->context;
    if (!find_holder(key, search)) {
        return WEIR_NOT_HELD;
    }
    if (!search->ends_itself) {
        return weir_gates_end_holder(worker->gates, key, search->handle, worker->index);
    }
    struct weir_flow_name flow = {key, search->flow, search->tenant};
    struct weir_result result = {.outcome = WEIR_OUTCOME_CANCELLED};
    enum weir_status status = weir_flows_release(worker->flows, &flow, &result, worker->index);
    end->goes_on = status == WEIR_OK && find_holder(key, search);
    return status;
}

void weir_api_end_holder(struct weir_call *call)
{
    static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct holder_end)};
    struct holder_search search = {.own = call->credential.tenant};
    uint32_t gate;
    if (!weir_slice_equal(call->segments[3], weir_slice_of("holders"))) {
        weir_call_problem(call, WEIR_PROBLEM_NOT_FOUND, 404,
                          "The API has no such path. GET /gates lists the gates.");
        return;
    }
    if (weir_call_attach(call, &hooks) == NULL) {
        return;
    }
    if (!weir_holder_handle_parse(call->segments[4], &search.handle)) {
        weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                          "The path names no handle, such as 2a-5f3c1b09. GET "
                          "/gates/{gate}/{key}/holders lists the holders with their handles.");
        return;
    }
    struct weir_key *key = weir_api_find_key(call, &gate);
    if (key == NULL) {
        return;
    }
    if (end_holder(call, key, &search) == WEIR_OK) {
        weir_call_reply(call, 200, "application/json", produce_end);
    } else {
        weir_call_problem(call, WEIR_PROBLEM_NOT_HELD, 409,
                          "The key has no holder of that handle: its permit has come back. GET "
                          "/gates/{gate}/{key}/holders lists those that there are.");
    }
    weir_key_give(key);
}
