/* gates.c - what happens at gates: GET /gates, /gates/{gate} and /gates/{gate}/{key}.
 *
 * A reply is made piece by piece, since a gate may have a million keys. Between two pieces the call
 * remembers how far it is, and pins the key at which it stands. */
#include "api/gates.h"

#include "api/handlers.h"
#include "base/slice.h"
#include "gates/override.h"
#include "worker/config_snapshot.h"
#include "worker/key_tenant.h"

#include <stdio.h>

/* The most keys that one piece of a reply looks at: it bounds how long the loop is held up. */
#define KEYS_AT_ONCE 256

/* What the keys of a gate have together. */
struct gate_sum {
    uint64_t keys;
    uint64_t active;
    uint64_t waiting;
    uint64_t reserved;
};

/* How far the reply is. */
struct gate_view {
    uint32_t gate;
    struct weir_key *key; /* pinned, or null */
    uint32_t lane;        /* of the key: the next one to list */
    bool opened;          /* the document has been begun */
    struct gate_sum sum;  /* of the keys before `key` */
};

static void drop_view(struct weir_call *call)
{
    struct gate_view *view = call->context;
    if (view->key != NULL) {
        weir_key_give(view->key);
    }
}

static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct gate_view),
                                             .free = drop_view};

/* ---- pieces ---- */

bool weir_api_end_list(struct weir_json *json)
{
    if (json->capacity - json->bytes < WEIR_API_ITEM_BYTES_MAX) {
        return false;
    }
    weir_json_close(json, ']');
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

void weir_api_put_limit(struct weir_json *json, uint32_t limit)
{
    if (limit == WEIR_LIMIT_NONE) {
        weir_json_put_null(json, "limit");
    } else {
        weir_json_put_number(json, "limit", limit);
    }
}

static void put_counts(struct weir_json *json, const struct weir_key_stats *stats)
{
    static const char *const ends[WEIR_END_COUNT] = {
        [WEIR_END_LEFT] = "left",           [WEIR_END_TIMEOUT] = "timeout",
        [WEIR_END_CANCELLED] = "cancelled", [WEIR_END_REFUSED] = "refused",
        [WEIR_END_DISPLACED] = "displaced", [WEIR_END_LAPSED] = "lapsed"};
    weir_json_put_number(json, "active", stats->active);
    weir_json_put_number(json, "waiting", stats->waiting);
    weir_api_put_limit(json, stats->limit);
    weir_json_put_number(json, "reserved", stats->reserved);
    weir_json_put_number(json, "waiting_cost", stats->waiting_cost);
    weir_json_name(json, "waiting_by_priority");
    weir_json_open(json, '{');
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        weir_json_put_number(json, weir_priority_name((enum weir_priority)i),
                             stats->waiting_by_priority[i]);
    }
    weir_json_close(json, '}');
    weir_json_put_number(json, "tenants", stats->tenants);
    weir_json_put_number(json, "entered", stats->entered);
    weir_json_name(json, "ended");
    weir_json_open(json, '{');
    for (int i = 0; i < WEIR_END_COUNT; i++) {
        if (ends[i] != NULL) {
            weir_json_put_number(json, ends[i], stats->ended[i]);
        }
    }
    weir_json_close(json, '}');
}

static void put_by_hand(struct weir_json *json, const struct weir_key *key)
{
    bool paused;
    struct weir_override override = weir_gates_override_of(key, &paused);
    weir_api_put_override(json, &override, paused);
}

static void put_or_null(struct weir_json *json, const char *name, bool known, double number)
{
    if (known) {
        weir_json_put_decimal(json, name, number);
    } else {
        weir_json_put_null(json, name);
    }
}

/* What is not known yet is 0 there. */
static void put_if_known(struct weir_json *json, const char *name, double number)
{
    put_or_null(json, name, number > 0.0, number);
}

static void put_quota(struct weir_json *json, const struct weir_quota_stats *quota)
{
    static const char *const units[WEIR_UNIT_COUNT] = {[WEIR_UNIT_COST] = "cost",
                                                       [WEIR_UNIT_REQUESTS] = "requests",
                                                       [WEIR_UNIT_INPUT] = "input",
                                                       [WEIR_UNIT_OUTPUT] = "output"};
    weir_json_open(json, '{');
    weir_json_put_string(json, "unit", weir_slice_of(units[quota->unit]));
    weir_json_put_decimal(json, "limit", quota->limit);
    weir_json_put_decimal(json, "level", quota->level);
    weir_json_put_decimal(json, "target", quota->target);
    weir_json_put_decimal(json, "refill", quota->refill);
    weir_json_put_decimal(json, "rate", quota->rate);
    weir_json_put_decimal(json, "window_seconds", quota->window_seconds);
    weir_json_put_bool(json, "window_known", quota->window_known);
    weir_json_put_string(json, "reset",
                         weir_slice_of(quota->reset == WEIR_RESET_FULL ? "full" : "window"));
    weir_json_close(json, '}');
}

static void put_control(struct weir_json *json, const struct weir_control_stats *control)
{
    weir_json_name(json, "control");
    weir_json_open(json, '{');
    weir_json_put_string(json, "controller",
                         weir_slice_of(weir_controller_name(control->controller)));
    weir_json_put_decimal(json, "window", control->window);
    put_or_null(json, "rate", weir_api_has_rate(control), control->rate);
    weir_json_put_bool(json, "rate_active", control->rate_active);
    put_or_null(json, "bucket", weir_api_has_rate(control), control->bucket);
    weir_json_put_decimal(json, "debt", control->debt);
    put_if_known(json, "measured", control->measured);
    put_if_known(json, "first_token_ms", control->first_token_seconds * 1000.0);
    put_if_known(json, "baseline_ms", control->baseline_seconds * 1000.0);
    weir_json_put_decimal(json, "failure_share", control->failure_share);
    weir_json_put_number(json, "refused", control->refused);
    weir_json_put_number(json, "lost", control->lost);
    weir_json_put_number(json, "sent", control->sent);
    weir_json_put_decimal(json, "cost_mean", control->cost_mean);
    weir_json_name(json, "quotas");
    weir_json_open(json, '[');
    for (uint32_t i = 0; i < control->quota_count; i++) {
        put_quota(json, &control->quotas[i]);
    }
    weir_json_close(json, ']');
    weir_json_close(json, '}');
}

static void put_estimate(struct weir_json *json, const struct weir_estimate_stats *estimate)
{
    weir_json_name(json, "estimate");
    weir_json_open(json, '{');
    weir_json_put_number(json, "count", estimate->count);
    weir_json_put_decimal(json, "output_mean", estimate->output_mean);
    weir_json_put_decimal(json, "error_mean", estimate->error_mean);
    weir_json_put_decimal(json, "error_abs_mean", estimate->error_abs_mean);
    weir_json_close(json, '}');
}

/* A lane, and what it is called and believes as far as that is known. */
struct lane {
    struct weir_lane_stats stats;
    struct weir_slice upstream;
    bool learns;
    struct weir_control_stats control;
};

static void put_lane(struct weir_json *json, const struct lane *described, uint64_t now_ns)
{
    const struct weir_lane_stats *lane = &described->stats;
    weir_json_open(json, '{');
    weir_json_put_number(json, "lane", lane->id);
    if (described->upstream.bytes > 0) {
        weir_json_put_string(json, "upstream", described->upstream);
    }
    weir_json_put_number(json, "active", lane->active);
    weir_api_put_limit(json, lane->limit);
    weir_json_put_number(json, "reserved", lane->reserved);
    if (lane->paused_until_ns > now_ns) {
        weir_json_put_number(json, "paused_ms", (lane->paused_until_ns - now_ns) / 1000000 + 1);
    }
    weir_json_put_bool(json, "probing", lane->probing);
    weir_json_name(json, "buckets");
    weir_json_open(json, '[');
    for (uint32_t i = 0; i < lane->bucket_count; i++) {
        weir_json_signed(json, lane->bucket_level[i]);
    }
    weir_json_close(json, ']');
    if (described->learns) {
        put_control(json, &described->control);
    }
    weir_json_close(json, '}');
}

/* ---- GET /gates/{gate}/{key} ---- */

/* The lane that is next. False if there are no more. */
static bool look_at_lane(const struct weir_call *call, uint32_t lane_names, struct lane *lane)
{
    const struct gate_view *view = call->context;
    uint64_t now_ns = call->worker->loop.now_ns;
    if (!weir_gates_lane(view->key, view->lane, now_ns, &lane->stats)) {
        return false;
    }
    lane->upstream = weir_lane_names_name(weir_gates_lane_names(call->worker->gates), lane_names,
                                          lane->stats.id);
    lane->learns = weir_gates_control(view->key, view->lane, now_ns, &lane->control);
    return true;
}

static bool produce_key(struct weir_call *call, struct weir_json *json)
{
    struct gate_view *view = call->context;
    uint64_t now_ns = call->worker->loop.now_ns;
    struct weir_key_record record;
    struct weir_key_stats stats = weir_gates_measure(view->key, &record);
    struct lane lane;
    /* One lane a call: a key may have 64 of them, and a piece is bounded. */
    if (!view->opened) {
        view->opened = true;
        weir_json_open(json, '{');
        weir_json_put_string(json, "gate", weir_gates_name(call->worker->gates, view->gate));
        weir_json_put_string(json, "key", weir_key_name(view->key));
        put_counts(json, &stats);
        put_by_hand(json, view->key);
        if (stats.interval_ns > 0) {
            weir_json_put_number(json, "interval_us", stats.interval_ns / 1000);
        }
        if (stats.estimate.count > 0) {
            put_estimate(json, &stats.estimate);
        }
        weir_json_name(json, "lanes");
        weir_json_open(json, '[');
    }
    while (look_at_lane(call, record.lane_names, &lane)) {
        struct weir_json before = *json;
        put_lane(json, &lane, now_ns);
        if (json->failed) {
            *json = before;
            return false;
        }
        view->lane++;
    }
    return weir_api_end_list(json);
}

/* Says that a name of the path is not there. */
static void miss(struct weir_call *call, const char *before, struct weir_slice name,
                 const char *after)
{
    char detail[2 * WEIR_NAME_BYTES_MAX];
    int bytes = (int)(name.bytes < WEIR_NAME_BYTES_MAX ? name.bytes : WEIR_NAME_BYTES_MAX);
    snprintf(detail, sizeof detail, "%s \"%.*s\"%s", before, bytes, name.data, after);
    weir_call_problem(call, WEIR_PROBLEM_NOT_FOUND, 404, detail);
}

bool weir_api_find_gate(struct weir_call *call, uint32_t *gate)
{
    struct weir_gates *gates = call->worker->gates;
    for (uint32_t i = 0; i < weir_gates_count(gates); i++) {
        if (weir_slice_equal(weir_gates_name(gates, i), call->segments[1])) {
            *gate = i;
            return true;
        }
    }
    miss(call, "The config has no gate", call->segments[1], ". GET /gates lists all.");
    return false;
}

bool weir_api_key_open(const struct weir_call *call, uint32_t gate, struct weir_slice key)
{
    return weir_key_open_to(call->worker->worker_config->snapshot, gate, key,
                            call->credential.tenant);
}

/* A key of another tenant is answered like an unused one, so that the answer does not reveal
 * whether it exists. */
struct weir_key *weir_api_find_key(struct weir_call *call, uint32_t *gate)
{
    if (!weir_api_find_gate(call, gate)) {
        return NULL;
    }
    struct weir_key *key = weir_api_key_open(call, *gate, call->segments[2])
                               ? weir_gates_find(call->worker->gates, *gate, call->segments[2])
                               : NULL;
    if (key == NULL) {
        miss(call, "The gate exists, but its key", call->segments[2],
             " is unused: no permit is held or waited for. The first request or acquire creates a "
             "key; GET /gates/{gate} lists the keys in use.");
    }
    return key;
}

void weir_api_get_key(struct weir_call *call)
{
    struct gate_view *view = weir_call_attach(call, &hooks);
    if (view == NULL) {
        return;
    }
    view->key = weir_api_find_key(call, &view->gate);
    if (view->key != NULL) {
        weir_call_reply(call, 200, "application/json", produce_key);
    }
}

/* ---- GET /gates/{gate} ---- */

/* The key of the view has not been written yet. */
static bool produce_gate(struct weir_call *call, struct weir_json *json)
{
    struct weir_gates *gates = call->worker->gates;
    struct gate_view *view = call->context;
    if (!view->opened) {
        view->opened = true;
        weir_json_open(json, '{');
        weir_json_put_string(json, "gate", weir_gates_name(call->worker->gates, view->gate));
        weir_json_put_bool(json, "paused", weir_gates_is_paused(gates, view->gate));
        weir_json_name(json, "keys");
        weir_json_open(json, '[');
        view->key = weir_gates_next(gates, view->gate, NULL);
    }
    for (uint32_t i = 0; view->key != NULL; i++) {
        if (i == KEYS_AT_ONCE || json->capacity - json->bytes < WEIR_API_ITEM_BYTES_MAX) {
            return false;
        }
        if (weir_api_key_open(call, view->gate, weir_key_name(view->key))) {
            struct weir_key_stats stats = weir_gates_stats(view->key);
            weir_json_open(json, '{');
            weir_json_put_string(json, "key", weir_key_name(view->key));
            put_counts(json, &stats);
            put_by_hand(json, view->key);
            weir_json_close(json, '}');
        }
        view->key = weir_gates_next(gates, view->gate, view->key);
    }
    return weir_api_end_list(json);
}

void weir_api_get_gate(struct weir_call *call)
{
    struct gate_view *view = weir_call_attach(call, &hooks);
    if (view != NULL && weir_api_find_gate(call, &view->gate)) {
        weir_call_reply(call, 200, "application/json", produce_gate);
    }
}

/* ---- GET /gates ---- */

const struct weir_config_gate *weir_api_find_config(const struct weir_call *call, uint32_t gate)
{
    const struct weir_worker_config *worker_config = call->worker->worker_config;
    for (uint32_t i = 0; i < worker_config->config->gate_count; i++) {
        if (worker_config->snapshot->gates[i] == gate) {
            return &worker_config->config->gates[i];
        }
    }
    return NULL;
}

static void put_sum(struct weir_call *call, struct weir_json *json)
{
    const struct gate_view *view = call->context;
    const struct weir_config_gate *gate = weir_api_find_config(call, view->gate);
    const struct gate_sum *sum = &view->sum;
    if (gate == NULL && sum->active == 0 && sum->waiting == 0) {
        return; /* it has drained, too */
    }
    weir_json_open(json, '{');
    weir_json_put_string(json, "gate", weir_gates_name(call->worker->gates, view->gate));
    weir_json_put_number(json, "keys", sum->keys);
    weir_json_put_number(json, "active", sum->active);
    weir_json_put_number(json, "waiting", sum->waiting);
    weir_json_put_number(json, "reserved", sum->reserved);
    weir_api_put_limit(json, gate == NULL || gate->rules.limit.kind == WEIR_CONFIG_KIND_NONE
                                 ? WEIR_LIMIT_NONE
                                 : gate->rules.limit.start);
    weir_json_put_bool(json, "draining", gate == NULL);
    weir_json_put_bool(json, "paused", weir_gates_is_paused(call->worker->gates, view->gate));
    weir_json_put_number(json, "overrides",
                         weir_gates_override_count(call->worker->gates, view->gate));
    weir_json_close(json, '}');
}

/* Adds up the keys of the gate at the cursor. True once there are no more. */
static bool add_keys(struct weir_call *call)
{
    struct weir_gates *gates = call->worker->gates;
    struct gate_view *view = call->context;
    struct gate_sum *sum = &view->sum;
    view->key = view->key == NULL ? weir_gates_next(gates, view->gate, NULL) : view->key;
    for (uint32_t i = 0; view->key != NULL; i++) {
        if (i == KEYS_AT_ONCE) {
            return false;
        }
        if (weir_api_key_open(call, view->gate, weir_key_name(view->key))) {
            struct weir_key_stats stats = weir_gates_stats(view->key);
            sum->keys++;
            sum->active += stats.active;
            sum->waiting += stats.waiting;
            sum->reserved += stats.reserved;
        }
        view->key = weir_gates_next(gates, view->gate, view->key);
    }
    return true;
}

static bool produce_gates(struct weir_call *call, struct weir_json *json)
{
    struct gate_view *view = call->context;
    if (!view->opened) {
        view->opened = true;
        weir_json_open(json, '{');
        weir_json_name(json, "gates");
        weir_json_open(json, '[');
    }
    while (view->gate < weir_gates_count(call->worker->gates)) {
        if (json->capacity - json->bytes < WEIR_API_ITEM_BYTES_MAX || !add_keys(call)) {
            return false;
        }
        put_sum(call, json);
        view->sum = (struct gate_sum){0};
        view->gate++;
    }
    weir_json_close(json, ']');
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

void weir_api_get_gates(struct weir_call *call)
{
    if (weir_call_attach(call, &hooks) != NULL) {
        weir_call_reply(call, 200, "application/json", produce_gates);
    }
}
