/* line.c - GET /gates/{gate}/{key}/line: the tickets that wait at a key, where, why, and when each
 * is predicted to start.
 *
 * The first entries are copied under the key's lock; the reply is made of the copy. */
#include "api/handlers.h"

#include "api/gates.h"
#include "base/alloc.h"
#include "base/slice.h"

/* So many are listed, from the first on; the number of all that wait is in the reply as well. */
#define PLACES_MAX 200

/* What is kept of a waiting ticket after the key's lock is let go. */
struct line_entry {
    uint64_t entered_ns;
    uint64_t deadline_ns;
    uint32_t position;
    struct weir_explanation why;
    uint32_t cost;
    enum weir_priority priority;
    uint8_t tenant_bytes;
    uint8_t flow_bytes;
    char text[2 * WEIR_NAME_BYTES_MAX]; /* the tenant, then the flow */
};

struct line_copy {
    uint64_t now_ns;
    struct weir_key_stats stats;
    struct weir_slice own; /* the only tenant whose tickets are listed; empty: all are */
    uint32_t seen;
    uint32_t count; /* of those seen that are listed */
    struct weir_place places[PLACES_MAX];
    struct line_entry entries[PLACES_MAX];
};

struct line_view {
    uint32_t gate;
    uint32_t next; /* entry */
    struct line_copy *copy;
};

static const struct weir_allocator *const memory = &weir_allocator_libc;

static void drop_copy(struct weir_call *call)
{
    struct line_view *view = call->context;
    weir_release(memory, view->copy, sizeof *view->copy);
}

static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct line_view),
                                             .free = drop_copy};

static void note(void *context, const struct weir_place *place,
                 const struct weir_gate_ticket *gate_ticket)
{
    struct line_copy *line = context;
    line->seen++;
    if (line->own.bytes > 0 && !weir_slice_equal(line->own, place->tenant)) {
        return;
    }
    struct line_entry *entry = &line->entries[line->count++];
    *entry = (struct line_entry){.entered_ns = place->ticket->entered_ns,
                                 .deadline_ns = place->ticket->deadline_ns,
                                 .position = line->seen,
                                 .why = place->why,
                                 .cost = place->ticket->cost,
                                 .priority = (enum weir_priority)place->ticket->priority,
                                 .tenant_bytes = (uint8_t)place->tenant.bytes,
                                 .flow_bytes = (uint8_t)gate_ticket->flow.bytes};
    if (entry->tenant_bytes > 0) {
        memcpy(entry->text, place->tenant.data, entry->tenant_bytes);
    }
    if (entry->flow_bytes > 0) {
        memcpy(entry->text + entry->tenant_bytes, gate_ticket->flow.data, entry->flow_bytes);
    }
}

static uint64_t ms_between(uint64_t earlier_ns, uint64_t later_ns)
{
    return later_ns > earlier_ns ? (later_ns - earlier_ns) / 1000000 : 0;
}

static void put_entry(struct weir_json *json, const struct line_copy *line, uint32_t index)
{
    static const char *const bindings[WEIR_BINDING_COUNT] = {
        "none",    "turn",         "limit",       "bucket",     "pause",
        "breaker", "tenant_limit", "tenant_rate", "gate_paused"};
    const struct line_entry *entry = &line->entries[index];
    weir_json_open(json, '{');
    weir_json_put_number(json, "position", entry->position);
    weir_json_put_string(json, "tenant", (struct weir_slice){entry->text, entry->tenant_bytes});
    weir_json_put_string(json, "flow",
                         (struct weir_slice){entry->text + entry->tenant_bytes, entry->flow_bytes});
    weir_json_put_string(json, "priority", weir_slice_of(weir_priority_name(entry->priority)));
    weir_json_put_number(json, "cost", entry->cost);
    weir_json_put_number(json, "waited_ms", ms_between(entry->entered_ns, line->now_ns));
    if (entry->deadline_ns == WEIR_NEVER) {
        weir_json_put_null(json, "timeout_in_ms");
    } else {
        weir_json_put_number(json, "timeout_in_ms", ms_between(line->now_ns, entry->deadline_ns));
    }
    weir_json_put_string(json, "binding", weir_slice_of(bindings[entry->why.binding]));
    weir_json_put_number(json, "ahead", entry->why.ahead);
    weir_json_put_number(json, "ahead_own", entry->why.ahead_own);
    if (entry->why.start_ns == 0) {
        weir_json_put_null(json, "start_in_ms");
    } else {
        weir_json_put_number(json, "start_in_ms", ms_between(line->now_ns, entry->why.start_ns));
    }
    weir_json_close(json, '}');
}

static bool produce_line(struct weir_call *call, struct weir_json *json)
{
    struct line_view *view = call->context;
    const struct line_copy *line = view->copy;
    if (view->next == 0) {
        weir_json_open(json, '{');
        weir_json_put_string(json, "gate", weir_gates_name(call->worker->gates, view->gate));
        weir_json_put_string(json, "key", call->segments[2]);
        weir_json_put_number(json, "active", line->stats.active);
        weir_json_put_number(json, "waiting", line->stats.waiting);
        weir_api_put_limit(json, line->stats.limit);
        weir_json_name(json, "line");
        weir_json_open(json, '[');
    }
    for (; view->next < line->count; view->next++) {
        if (json->capacity - json->bytes < WEIR_API_ITEM_BYTES_MAX) {
            return false;
        }
        put_entry(json, line, view->next);
    }
    return weir_api_end_list(json);
}

static void copy_line(const struct weir_call *call, struct weir_key *key, struct line_copy *line)
{
    line->own = call->credential.tenant;
    line->seen = 0;
    line->count = 0;
    line->now_ns = call->worker->loop.now_ns;
    line->stats = weir_gates_stats(key);
    weir_gates_line(key, line->now_ns, line->places, PLACES_MAX, note, line);
}

void weir_api_get_line(struct weir_call *call)
{
    struct line_view *view = weir_call_attach(call, &hooks);
    struct weir_key *key = view == NULL ? NULL : weir_api_find_key(call, &view->gate);
    if (key == NULL) {
        return;
    }
    view->copy = weir_allocate(memory, sizeof *view->copy);
    if (view->copy == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "Out of memory for listing the line. Try again later.");
    } else {
        copy_line(call, key, view->copy);
        weir_call_reply(call, 200, "application/json", produce_line);
    }
    weir_key_give(key);
}
