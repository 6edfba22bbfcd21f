/* snapshot_build.c - makes config snapshots and worker configs, and applies a snapshot's settings
 * to the gates.
 *
 * The main thread calls all of it, at the start and for each reload; only
 * weir_config_snapshot_apply() runs in a loop's thread once the loops run, because it sets timers
 * there. No lock is needed: a snapshot is complete before another thread sees it, and the gates
 * have their own locks. */
#include "server/snapshot_build.h"

#include "a2a/a2a_filter.h"
#include "base/alloc.h"
#include "base/list.h"
#include "base/slice.h"
#include "llm/dialect.h"
#include "llm/llm_filter.h"
#include "proxy/access_log.h"
#include "proxy/exchange_flow.h"
#include "rpc/rpc_filter.h"
#include "server/settings.h"
#include "tenants/prices.h"
#include "tenants/token.h"
#include "upstream/secret.h"
#include "upstream/trust.h"
#include "upstream/upstream.h"

#include <assert.h>
#include <stdlib.h>

/* ---- snapshots ---- */

static bool learns(const struct weir_config_gate *gate)
{
    bool any = gate->rules.controller != WEIR_CONTROLLER_NONE;
    for (uint32_t i = 0; !any && i < gate->key_count; i++) {
        any = gate->keys[i].rules.controller != WEIR_CONTROLLER_NONE;
    }
    return any;
}

/* The number by which the gates know where a route's lanes lead. */
static uint32_t lane_names_of(const struct weir_config *config, uint32_t index,
                              struct weir_gates *gates)
{
    const struct weir_config_route *route = &config->routes[index];
    struct weir_slice names[WEIR_LANES_MAX];
    assert(route->upstream_count <= WEIR_LANES_MAX);
    for (uint32_t i = 0; i < route->upstream_count; i++) {
        names[i] = config->upstreams[route->upstreams[i]].name;
    }
    struct weir_lane_name_spec lane_names = {names, route->upstream_count,
                                             route->llm != WEIR_CONFIG_LLM_NONE};
    return weir_gates_add_lane_names(gates, &lane_names);
}

/* What is done besides passing a request on, by the route that it takes. Null without memory. */
static struct weir_filter_list *make_filters(const struct weir_config *config,
                                             const struct weir_dialect *dialects,
                                             const struct weir_rpc_settings *rpc_settings,
                                             const struct weir_a2a_settings *a2a_settings)
{
    struct weir_filter_list *filters = calloc(config->route_count + UINT32_C(1), sizeof *filters);
    for (uint32_t i = 0; filters != NULL && i <= config->route_count; i++) {
        if (config->access_log.file.bytes > 0) { /* the first, as `arrived` asks for */
            weir_filter_list_add(&filters[i], &weir_access_filter, &config->access_log);
        }
    }
    for (uint32_t i = 0; filters != NULL && i < config->route_count; i++) {
        if (config->routes[i].llm != WEIR_CONFIG_LLM_NONE) {
            weir_filter_list_add(&filters[i], &weir_llm_filter, &dialects[i]);
        }
        if (weir_rpc_wanted(&config->routes[i])) {
            weir_filter_list_add(&filters[i], &weir_rpc_filter, rpc_settings++);
        }
        if (config->routes[i].a2a) {
            weir_filter_list_add(&filters[i], &weir_a2a_filter, a2a_settings);
        }
        if (config->routes[i].permit == WEIR_CONFIG_PERMIT_FLOW) {
            weir_filter_list_add(&filters[i], &weir_flow_filter, NULL);
        }
    }
    return filters;
}

/* Null without memory. */
static struct weir_server_lines *make_server_lines(const struct weir_config *config)
{
    size_t count = 1; /* calloc() may answer null for none */
    for (uint32_t i = 0; i < config->upstream_count; i++) {
        count += config->upstreams[i].url_count;
    }
    return calloc(count, sizeof(struct weir_server_lines));
}

static void destroy_snapshot(struct weir_config_snapshot *snapshot)
{
    weir_trust_destroy(snapshot->trust);
    weir_secrets_destroy(snapshot->secrets);
    weir_config_destroy(snapshot->config);
    weir_tokens_destroy(snapshot->tokens);
    weir_prices_destroy(snapshot->prices);
    free(snapshot->filters);
    free(snapshot->filter_settings);
    free(snapshot->rpc_settings);
    free(snapshot->a2a_settings);
    free(snapshot->lane_names);
    free(snapshot->server_lines);
    free(snapshot->learns);
    free(snapshot->gates);
    free(snapshot);
}

struct weir_config_snapshot *weir_config_snapshot_create(struct weir_config *config,
                                                         struct weir_gates *gates,
                                                         struct weir_secrets *before,
                                                         const char **error)
{
    struct weir_config_snapshot *snapshot = calloc(1, sizeof *snapshot);
    uint32_t *numbers = calloc(config->gate_count + UINT32_C(1), sizeof *numbers);
    uint32_t *lane_names = calloc(config->route_count + UINT32_C(1), sizeof *lane_names);
    bool *learning = calloc(config->gate_count + UINT32_C(1), sizeof *learning);
    struct weir_dialect *dialects = weir_dialects_create(config);
    struct weir_rpc_settings *rpc_settings = weir_rpc_settings_create(config);
    struct weir_server_lines *server_lines = make_server_lines(config);
    struct weir_a2a_settings *a2a_settings = weir_a2a_settings_create();
    struct weir_filter_list *filters = NULL;
    struct weir_tokens *tokens = weir_tokens_load(config, error);
    struct weir_trust *trust = tokens == NULL ? NULL : weir_trust_load(config, error);
    struct weir_prices *prices = NULL;
    struct weir_secrets *secrets = trust == NULL ? NULL : weir_secrets_load(config, before, error);
    if (secrets == NULL) {
        goto failed;
    }
    if (config->prices.bytes > 0) {
        prices = weir_prices_load(config->prices, error);
        if (prices == NULL) {
            goto failed;
        }
    }
    filters = dialects == NULL || rpc_settings == NULL || a2a_settings == NULL
                  ? NULL
                  : make_filters(config, dialects, rpc_settings, a2a_settings);
    if (snapshot == NULL || numbers == NULL || lane_names == NULL || learning == NULL ||
        filters == NULL || server_lines == NULL) {
        *error = "out of memory";
        goto failed;
    }
    for (uint32_t i = 0; i < config->gate_count; i++) {
        enum weir_status status = weir_gates_add(gates, config->gates[i].name, &numbers[i]);
        if (status != WEIR_OK) {
            *error = weir_status_text(status);
            goto failed;
        }
        learning[i] = learns(&config->gates[i]);
    }
    for (uint32_t i = 0; i < config->route_count; i++) {
        lane_names[i] = lane_names_of(config, i, gates);
    }
    snapshot->config = config;
    snapshot->gates = numbers;
    snapshot->learns = learning;
    snapshot->filters = filters;
    snapshot->filter_settings = dialects;
    snapshot->rpc_settings = rpc_settings;
    snapshot->a2a_settings = a2a_settings;
    snapshot->lane_names = lane_names;
    snapshot->server_lines = server_lines;
    snapshot->tokens = tokens;
    snapshot->prices = prices;
    snapshot->trust = trust;
    snapshot->secrets = secrets;
    snapshot->destroy = destroy_snapshot;
    atomic_init(&snapshot->users, 1);
    return snapshot;

failed:
    free(server_lines);
    weir_prices_destroy(prices);
    weir_secrets_destroy(secrets);
    weir_trust_destroy(trust);
    weir_tokens_destroy(tokens);
    free(filters);
    free(a2a_settings);
    free(dialects);
    free(rpc_settings);
    free(learning);
    free(lane_names);
    free(numbers);
    free(snapshot);
    weir_config_destroy(config);
    return NULL;
}

static const struct weir_config_gate *find_gate(const struct weir_config *config,
                                                struct weir_slice name)
{
    for (uint32_t i = 0; i < config->gate_count; i++) {
        if (weir_slice_equal(config->gates[i].name, name)) {
            return &config->gates[i];
        }
    }
    return NULL;
}

static bool has_key(const struct weir_config_gate *gate, struct weir_slice name)
{
    for (uint32_t i = 0; i < gate->key_count; i++) {
        if (weir_slice_equal(gate->keys[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* Keys without settings of their own any more follow the gate's again. */
static enum weir_status forget_overrides(const struct weir_config_gate *gate,
                                         const struct weir_config_gate *before,
                                         struct weir_gates *gates, uint32_t number)
{
    enum weir_status status = WEIR_OK;
    for (uint32_t i = 0; before != NULL && status == WEIR_OK && i < before->key_count; i++) {
        if (!has_key(gate, before->keys[i].name)) {
            status = weir_gates_override(gates, number, before->keys[i].name, NULL);
        }
    }
    return status;
}

/* Forgets the settings of keys at gates that are no longer named: should such a gate come back, it
 * starts without them. */
static enum weir_status forget_gates(const struct weir_config_snapshot *snapshot,
                                     const struct weir_config_snapshot *before,
                                     struct weir_gates *gates)
{
    static const struct weir_config_gate nothing;
    enum weir_status status = WEIR_OK;
    for (uint32_t i = 0; before != NULL && status == WEIR_OK && i < before->config->gate_count;
         i++) {
        const struct weir_config_gate *gate = &before->config->gates[i];
        if (find_gate(snapshot->config, gate->name) == NULL) {
            status = forget_overrides(&nothing, gate, gates, before->gates[i]);
        }
    }
    return status;
}

enum weir_status weir_config_snapshot_apply(const struct weir_config_snapshot *snapshot,
                                            const struct weir_config_snapshot *before,
                                            struct weir_gates *gates, uint32_t loop_index)
{
    const struct weir_config *config = snapshot->config;
    enum weir_status status = forget_gates(snapshot, before, gates);
    for (uint32_t i = 0; status == WEIR_OK && i < config->gate_count; i++) {
        const struct weir_config_gate *gate = &config->gates[i];
        uint32_t number = snapshot->gates[i];
        struct weir_gate_settings made;
        weir_gates_set_a2a(gates, number, gate->events_a2a);
        weir_gates_set_keys_max(gates, number, gate->keys_max);
        status = forget_overrides(
            gate, before == NULL ? NULL : find_gate(before->config, gate->name), gates, number);
        for (uint32_t j = 0; status == WEIR_OK && j < gate->key_count; j++) {
            weir_gate_settings_make(&made, config, i, &gate->keys[j].rules);
            status = weir_gates_override(gates, number, gate->keys[j].name, &made.settings);
        }
        if (status == WEIR_OK) {
            weir_gate_settings_make(&made, config, i, &gate->rules);
            status = weir_gates_configure(gates, number, &made.settings, loop_index);
        }
    }
    return status;
}

static bool same_address(const struct weir_config_address *a, const struct weir_config_address *b)
{
    return a->kind == b->kind && weir_slice_equal(a->host, b->host) && a->port == b->port &&
           weir_slice_equal(a->path, b->path);
}

static bool same_listeners(const struct weir_config_listener *a, uint32_t a_count,
                           const struct weir_config_listener *b, uint32_t b_count)
{
    if (a_count != b_count) {
        return false;
    }
    for (uint32_t i = 0; i < a_count; i++) {
        if (!same_address(&a[i].address, &b[i].address) || a[i].half_close != b[i].half_close ||
            a[i].paths != b[i].paths || a[i].connections_max != b[i].connections_max ||
            a[i].host_count != b[i].host_count || a[i].patience.head_ns != b[i].patience.head_ns ||
            a[i].patience.idle_ns != b[i].patience.idle_ns ||
            a[i].patience.stall_ns != b[i].patience.stall_ns ||
            a[i].patience.body_ns != b[i].patience.body_ns ||
            a[i].body_rate_bytes != b[i].body_rate_bytes ||
            !weir_slice_equal(a[i].public_url, b[i].public_url)) {
            return false;
        }
        for (uint32_t j = 0; j < a[i].host_count; j++) {
            if (!weir_slice_equal(a[i].hosts[j], b[i].hosts[j])) {
                return false;
            }
        }
    }
    return true;
}

const char *weir_config_snapshot_needs_restart(const struct weir_config *before,
                                               const struct weir_config *after)
{
    if (!same_listeners(before->listen, before->listen_count, after->listen, after->listen_count)) {
        return "listen";
    }
    if (!same_listeners(before->api, before->api_count, after->api, after->api_count)) {
        return "api";
    }
    if (!same_listeners(before->protocol, before->protocol_count, after->protocol,
                        after->protocol_count)) {
        return "protocol";
    }
    if (!weir_slice_equal(before->data, after->data)) {
        return "data";
    }
    return before->threads != after->threads ? "threads" : NULL;
}

bool weir_config_snapshot_same_trust(const struct weir_config *before,
                                     const struct weir_config *after)
{
    if (before->trusted_count != after->trusted_count) {
        return false;
    }
    for (uint32_t i = 0; i < before->trusted_count; i++) {
        const struct weir_config_network *a = &before->trusted[i], *b = &after->trusted[i];
        if (a->kind != b->kind || a->bits != b->bits ||
            memcmp(a->bytes, b->bytes, sizeof a->bytes) != 0) {
            return false;
        }
    }
    return true;
}

/* ---- worker configs ---- */

/* The name under which requests without a route are counted. No route can have it: a route's match
 * begins with a slash. */
#define NO_ROUTE "_none"

static bool open_routes(struct weir_worker_config *worker_config)
{
    struct weir_worker *worker = worker_config->worker;
    uint32_t count = worker_config->config->route_count;
    worker_config->routes = weir_allocate_zeroed(
        worker->allocator, (count + UINT32_C(1)) * sizeof(struct weir_tally *));
    for (uint32_t i = 0; worker_config->routes != NULL && i <= count; i++) {
        struct weir_slice name =
            i < count ? worker_config->config->routes[i].match : weir_slice_of(NO_ROUTE);
        worker_config->routes[i] =
            weir_tally_take(&worker->tallies, worker->allocator, WEIR_TALLY_ROUTE, name);
        if (worker_config->routes[i] == NULL) {
            return false;
        }
    }
    return worker_config->routes != NULL;
}

static void close_routes(struct weir_worker_config *worker_config)
{
    struct weir_worker *worker = worker_config->worker;
    uint32_t count = worker_config->config->route_count;
    for (uint32_t i = 0; worker_config->routes != NULL && i <= count; i++) {
        weir_tally_give(&worker->tallies, worker->allocator, worker_config->routes[i]);
    }
    weir_release(worker->allocator, worker_config->routes,
                 (count + UINT32_C(1)) * sizeof(struct weir_tally *));
}

struct weir_worker_config *weir_worker_config_create(struct weir_config_snapshot *snapshot,
                                                     struct weir_worker *worker, const char **error)
{
    struct weir_worker_config *worker_config =
        weir_allocate_zeroed(worker->allocator, sizeof *worker_config);
    if (worker_config == NULL) {
        *error = "out of memory";
        return NULL;
    }
    worker_config->snapshot = weir_config_snapshot_take(snapshot);
    worker_config->config = snapshot->config;
    worker_config->worker = worker;
    worker_config->destroy = weir_worker_config_destroy;
    *error = open_routes(worker_config) ? weir_upstreams_open(worker_config) : "out of memory";
    if (*error != NULL) {
        weir_worker_config_destroy(worker_config);
        return NULL;
    }
    return worker_config;
}

void weir_worker_config_destroy(struct weir_worker_config *worker_config)
{
    if (worker_config != NULL) {
        const struct weir_allocator *allocator = worker_config->worker->allocator;
        assert(worker_config->users == 0);
        weir_upstreams_free(worker_config);
        close_routes(worker_config);
        weir_config_snapshot_give(worker_config->snapshot);
        weir_release(allocator, worker_config, sizeof *worker_config);
    }
}

void weir_worker_config_retire(struct weir_worker_config *worker_config)
{
    assert(!worker_config->retired);
    weir_upstreams_close(worker_config);
    worker_config->users++; /* as weir_worker_config_take() does */
    worker_config->retired = true;
    weir_worker_config_give(worker_config);
}
