/* rpc_filter.c - the hooks of the filter: reads the body, decides about permit and key, and writes
 * refusals as errors of JSON-RPC. Everything runs in the loop of the exchange's worker, but for
 * making the settings. */
#include "rpc/rpc_filter.h"

#include "base/slice.h"
#include "proxy/exchange_steps.h"
#include "rpc/rpc_error.h"
#include "rpc/rpc_worker.h"

#include <assert.h>
#include <stdlib.h>

/* ---- settings ---- */

bool weir_rpc_wanted(const struct weir_config_route *route)
{
    return route->llm == WEIR_CONFIG_LLM_NONE && !route->a2a && weir_config_route_reads_body(route);
}

struct weir_rpc_settings *weir_rpc_settings_create(const struct weir_config *config)
{
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < config->route_count; i++) {
        wanted += weir_rpc_wanted(&config->routes[i]);
    }
    struct weir_rpc_settings *settings = calloc(wanted + UINT32_C(1), sizeof *settings);
    struct weir_rpc_settings *next = settings;
    for (uint32_t i = 0; settings != NULL && i < config->route_count; i++) {
        const struct weir_config_route *route = &config->routes[i];
        if (!weir_rpc_wanted(route)) {
            continue;
        }
        const struct weir_config_source *part = weir_config_json_part(route->key, route->key_parts);
        next->route = route;
        weir_json_rpc_paths_init(&next->paths);
        if (part != NULL) {
            weir_json_rpc_paths_add(&next->paths, part->text);
        }
        next++;
    }
    return settings;
}

/* ---- the body ---- */

static void forget_value(struct weir_json_value *value)
{
    value->kind = WEIR_JSON_VALUE_ABSENT;
    value->too_long = false;
    value->bytes = 0;
}

static bool begin(struct weir_exchange *exchange, const struct weir_filter_use *use,
                  const struct weir_request_facts *facts, void **state)
{
    struct weir_rpc_exchange *rpc = weir_slab_take(&exchange->worker->rpc->exchanges);
    if (rpc == NULL) {
        return false;
    }
    memset(rpc, 0, offsetof(struct weir_rpc_exchange, key)); /* the texts need not be */
    rpc->settings = use->settings;
    rpc->priority = (uint8_t)facts->priority;
    rpc->has_body = exchange->request.body.state != WEIR_BODY_ENDED;
    rpc->key_bytes = (uint16_t)facts->key.bytes;
    rpc->key_gap = facts->key_gap;
    memcpy(rpc->key, facts->key.data, facts->key.bytes);
    forget_value(&rpc->id);
    forget_value(&rpc->named);
    *state = rpc;
    return true;
}

static void drop_reader(struct weir_exchange *exchange, struct weir_rpc_exchange *rpc)
{
    weir_slab_give(&exchange->worker->rpc->readers, rpc->reader);
    rpc->reader = NULL;
}

static bool is_ungated(const struct weir_config_route *route, struct weir_slice method)
{
    for (uint32_t i = 0; i < route->ungated_count; i++) {
        if (weir_config_fits(route->ungated[i], method)) {
            return true;
        }
    }
    return false;
}

/* Whether a message waits for a reply that costs something. */
static bool needs_permit(const struct weir_config_route *route, const struct weir_json_rpc *reader)
{
    switch (weir_json_rpc_kind(reader)) {
    case WEIR_JSON_RPC_REQUEST:
        return !is_ungated(route, weir_json_rpc_method(reader));
    case WEIR_JSON_RPC_NOTIFICATION:
    case WEIR_JSON_RPC_RESPONSE:
        return false;
    case WEIR_JSON_RPC_INVALID:
        break;
    }
    return true; /* what a server makes of it is not known */
}

static void take_message(struct weir_rpc_exchange *rpc, const struct weir_json_rpc *reader)
{
    const struct weir_config_route *route = rpc->settings->route;
    if (reader->message_count > WEIR_RPC_BATCH_MAX) {
        return; /* it will be refused */
    }
    rpc->is_gated = rpc->is_gated || !route->json_rpc || needs_permit(route, reader);
    if (reader->message_count > 1) {
        return;
    }
    if (!reader->is_batch) {
        rpc->id = *weir_json_rpc_id(reader);
    }
    if (rpc->key_gap != WEIR_KEY_NO_GAP) {
        rpc->named = *weir_json_rpc_value(reader, 0);
    }
}

static void read_bytes(struct weir_rpc_exchange *rpc, struct weir_slice bytes)
{
    struct weir_rpc_reader *reader = rpc->reader;
    while (!reader->failed) {
        size_t used;
        switch (weir_json_rpc_next(&reader->rpc, bytes, &used)) {
        case WEIR_JSON_RPC_NEED_MORE:
            return;
        case WEIR_JSON_RPC_MESSAGE:
            take_message(rpc, &reader->rpc);
            break;
        case WEIR_JSON_RPC_FAULT:
            reader->failed = true;
            break;
        }
        bytes = (struct weir_slice){bytes.data + used, bytes.bytes - used};
    }
}

static bool begin_reading(struct weir_exchange *exchange, struct weir_rpc_exchange *rpc)
{
    rpc->reader = weir_slab_take(&exchange->worker->rpc->readers);
    if (rpc->reader == NULL) {
        return false;
    }
    rpc->reader->failed = false;
    weir_json_rpc_init(&rpc->reader->rpc, &rpc->settings->paths);
    return true;
}

/* There are no more bytes. */
static void end_reading(struct weir_exchange *exchange, struct weir_rpc_exchange *rpc)
{
    const struct weir_rpc_reader *reader = rpc->reader;
    rpc->is_read = !reader->failed && weir_json_rpc_end(&reader->rpc);
    rpc->is_batch = reader->rpc.is_batch;
    rpc->message_count = reader->rpc.message_count;
    if (!rpc->is_read) {
        forget_value(&rpc->named);
        forget_value(&rpc->id);
    }
    drop_reader(exchange, rpc);
}

static bool read_body(struct weir_exchange *exchange, void *state, struct weir_slice bytes,
                      bool last)
{
    struct weir_rpc_exchange *rpc = state;
    if (rpc->reader == NULL && bytes.bytes > 0 && !begin_reading(exchange, rpc)) {
        return false;
    }
    if (bytes.bytes > 0) {
        read_bytes(rpc, bytes);
    }
    if (last && rpc->reader != NULL) {
        end_reading(exchange, rpc);
    }
    return true;
}

/* ---- into the line ---- */

/* The text that the body names for the key. False if it is longer than a key may be. */
static bool name_part(const struct weir_rpc_exchange *rpc, struct weir_slice *part)
{
    bool named = rpc->key_gap != WEIR_KEY_NO_GAP && rpc->is_read;
    *part = named ? weir_json_value_text(&rpc->named) : (struct weir_slice){"", 0};
    if (rpc->key_gap != WEIR_KEY_NO_GAP && part->bytes == 0) {
        *part = rpc->settings->route->default_key;
    }
    return !(named && rpc->named.too_long) && rpc->key_bytes + part->bytes <= WEIR_NAME_BYTES_MAX;
}

/* Puts the key together in `key`. Its length; 0 if it is empty or too long. */
static size_t complete_key(const struct weir_rpc_exchange *rpc, char key[WEIR_NAME_BYTES_MAX])
{
    struct weir_slice part;
    if (!name_part(rpc, &part)) {
        return 0;
    }
    size_t at = part.bytes == 0 ? rpc->key_bytes : rpc->key_gap;
    memcpy(key, rpc->key, at);
    if (part.bytes > 0) {
        memcpy(key + at, part.data, part.bytes);
    }
    memcpy(key + at + part.bytes, rpc->key + at, rpc->key_bytes - at);
    return rpc->key_bytes + part.bytes;
}

static struct weir_request request_of(const struct weir_exchange *exchange,
                                      const struct weir_rpc_exchange *rpc)
{
    return (struct weir_request){.priority = (enum weir_priority)rpc->priority,
                                 .cost = rpc->is_read && rpc->is_batch ? rpc->message_count : 0,
                                 .deadline_ns = exchange->deadline_ns};
}

static void enter(struct weir_exchange *exchange, const struct weir_rpc_exchange *rpc,
                  struct weir_request *request)
{
    char key[WEIR_NAME_BYTES_MAX];
    size_t key_bytes = exchange->gate == WEIR_CONFIG_NONE ? 0 : complete_key(rpc, key);
    if (key_bytes == 0 && exchange->gate != WEIR_CONFIG_NONE) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_BAD_REQUEST, 400,
                             "The route's key, which contains a value of the body (json:), is "
                             "empty or has more than 255 bytes. Send a shorter value.");
        return;
    }
    weir_exchange_enter(exchange, (struct weir_slice){key, key_bytes}, request);
}

static void ask(struct weir_exchange *exchange, void *state)
{
    const struct weir_rpc_exchange *rpc = state;
    const struct weir_config_route *route = rpc->settings->route;
    if (rpc->is_read && rpc->is_batch && rpc->message_count > WEIR_RPC_BATCH_MAX) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_BAD_REQUEST, 400,
                             "The batch has more than 1000 messages. Send several smaller ones.");
        return;
    }
    bool is_session = exchange->session != WEIR_SESSION_NONE;
    if (route->json_rpc && !is_session && (!rpc->has_body || (rpc->is_read && !rpc->is_gated))) {
        exchange->gate = WEIR_CONFIG_NONE;
    }
    struct weir_request request = request_of(exchange, rpc);
    enter(exchange, rpc, &request);
}

/* ---- the other hooks ---- */

static void enter_again(struct weir_exchange *exchange, void *state,
                        const struct weir_request *request)
{
    const struct weir_rpc_exchange *rpc = state;
    struct weir_request again = request_of(exchange, rpc);
    again.retry = true;
    if (request != NULL) {
        again.deadline_ns = request->deadline_ns;
    }
    enter(exchange, rpc, &again);
}

/* No other attempt follows a reply that goes on, which may take long: its body is not needed. */
static bool let_body_go(struct weir_exchange *exchange, void *state __attribute__((unused)))
{
    weir_exchange_let_body_go(exchange);
    return true;
}

static bool replace(const struct weir_exchange *exchange, const void *state,
                    const struct weir_problem *problem, struct weir_json *json)
{
    static const struct weir_json_value unknown = {.kind = WEIR_JSON_VALUE_ABSENT};
    const struct weir_rpc_exchange *rpc = state;
    if (!exchange->route->json_rpc || exchange->request.method != WEIR_METHOD_POST) {
        return false;
    }
    weir_rpc_put_error(json, rpc != NULL ? &rpc->id : &unknown, problem);
    return true;
}

static void end(struct weir_exchange *exchange, void *state)
{
    struct weir_rpc_exchange *rpc = state;
    if (rpc == NULL) {
        return;
    }
    if (rpc->reader != NULL) {
        drop_reader(exchange, rpc);
    }
    weir_slab_give(&exchange->worker->rpc->exchanges, rpc);
}

const struct weir_exchange_filter weir_rpc_filter = {.begin = begin,
                                                     .body = read_body,
                                                     .body_read = ask,
                                                     .enter_again = enter_again,
                                                     .may_reply = let_body_go,
                                                     .replace = replace,
                                                     .end = end};
