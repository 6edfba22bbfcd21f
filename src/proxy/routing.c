/* routing.c - an exchange begins: where its request goes, on whose behalf, and into which line. */
#include "proxy/exchange_steps.h"

#include "base/hex.h"
#include "base/slice.h"
#include "config/match.h"
#include "config/scalars.h"
#include "frontend/guard.h"
#include "frontend/loopback_client.h"
#include "proxy/forward.h"
#include "proxy/request_path.h"
#include "tenants/api_key.h"
#include "wire/media_type.h"
#include "wire/path.h"

#include <assert.h>
#include <stdio.h>

#define IS_METHOD(name)                                                                        \
    static_assert((int)WEIR_CONFIG_METHOD_##name == (int)WEIR_METHOD_##name, "one number for " \
                                                                             "both")
IS_METHOD(OTHER);
IS_METHOD(GET);
IS_METHOD(HEAD);
IS_METHOD(POST);
IS_METHOD(PUT);
IS_METHOD(DELETE);
IS_METHOD(OPTIONS);
IS_METHOD(TRACE);
IS_METHOD(PATCH);

/* Room for the names of all methods. */
#define ALLOW_BYTES_MAX 64

/* The text that a source stands for. */
static struct weir_slice text_of(const struct weir_config_source *source,
                                 const struct weir_http1_head *head, const char *data,
                                 const struct weir_match *match)
{
    const struct weir_http1_field *field;
    switch (source->kind) {
    case WEIR_CONFIG_SOURCE_CONSTANT:
        return source->text;
    case WEIR_CONFIG_SOURCE_CAPTURE:
        return match->captures[source->capture];
    case WEIR_CONFIG_SOURCE_HEADER:
        field = weir_http1_find_name(head, data, source->text, NULL);
        return field == NULL ? (struct weir_slice){"", 0} : weir_http1_value(data, field);
    default:
        return (struct weir_slice){"", 0};
    }
}

#define KEY_BYTES_MAX WEIR_NAME_BYTES_MAX

/* Of an id that Weir makes: 64 bits in hexadecimal. */
#define MADE_ID_BYTES 16

/* The key cannot be made, and so has no place for what the body names. */
static size_t no_key(uint16_t *key_gap)
{
    *key_gap = WEIR_KEY_NO_GAP;
    return 0;
}

/* Puts the key together from its parts. 0 if it is empty or too long. What the body names is not
 * known yet: `*key_gap` is where it goes. */
static size_t compose_key(const struct weir_exchange *exchange, const struct weir_http1_head *head,
                          const char *data, const struct weir_match *match, char key[KEY_BYTES_MAX],
                          uint16_t *key_gap)
{
    const struct weir_config_route *route = exchange->route;
    bool asks_session = exchange->session != WEIR_SESSION_NONE;
    const struct weir_config_source *parts = asks_session ? route->session_key : route->key;
    uint32_t part_count = asks_session ? route->session_key_parts : route->key_parts;
    size_t bytes = 0;
    *key_gap = WEIR_KEY_NO_GAP;
    for (uint32_t i = 0; i < part_count; i++) {
        if (parts[i].kind == WEIR_CONFIG_SOURCE_MODEL || parts[i].kind == WEIR_CONFIG_SOURCE_JSON) {
            *key_gap = (uint16_t)bytes;
            continue;
        }
        struct weir_slice part = text_of(&parts[i], head, data, match);
        if (parts[i].kind == WEIR_CONFIG_SOURCE_TENANT) {
            part = exchange->gate_ticket.tenant;
        } else if (parts[i].kind == WEIR_CONFIG_SOURCE_UPSTREAM) {
            part = exchange->worker_config->config->upstreams[route->upstreams[0]].name;
        }
        if (parts[i].kind == WEIR_CONFIG_SOURCE_CAPTURE) {
            /* What it stands for: %c3 and %C3 are one key. */
            size_t decoded = weir_path_decode(part, key + bytes, KEY_BYTES_MAX - bytes);
            if (decoded == 0) {
                return no_key(key_gap);
            }
            bytes += decoded;
            continue;
        }
        if (bytes + part.bytes > KEY_BYTES_MAX) {
            return no_key(key_gap);
        }
        if (part.bytes > 0) { /* a tenant that is not believed has no text */
            memcpy(key + bytes, part.data, part.bytes);
            bytes += part.bytes;
        }
    }
    return bytes;
}

static enum weir_priority priority_of(const struct weir_config_route *route, struct weir_slice text)
{
    if (route->priority.kind != WEIR_CONFIG_SOURCE_HEADER) {
        return route->priority_constant;
    }
    enum weir_priority priority;
    return weir_priority_parse(text, &priority) ? priority : WEIR_PRIORITY_NORMAL;
}

/* Keeps a piece of the head beyond the head itself. */
static struct weir_slice keep_text(char room[WEIR_NAME_BYTES_MAX], struct weir_slice text)
{
    text.bytes = text.bytes > WEIR_NAME_BYTES_MAX ? WEIR_NAME_BYTES_MAX : text.bytes;
    return weir_slice_copy(room, text);
}

/* What the head says, as far as it is needed after the head is gone. */
struct request_reading {
    struct weir_http1_head *head;
    char *data; /* the head's bytes, in which the path may be rewritten */
    struct weir_match match;
    struct weir_slice key;
    char key_text[KEY_BYTES_MAX];
    uint16_t key_gap; /* see weir_request_facts */
    enum weir_priority priority;
};

/* Whether it asks about the server as a whole: OPTIONS *, or its absolute form (RFC 9112, section
 * 3.2.4). */
static bool asks_for_options(const struct weir_http1_head *head)
{
    bool bare = head->form == WEIR_TARGET_ABSOLUTE && head->path.bytes == 0 && !head->has_query;
    return head->method == WEIR_METHOD_OPTIONS && (bare || head->form == WEIR_TARGET_ASTERISK);
}

/* The route's deadline, or a sooner one that the client asks for. False if what it asks for is no
 * duration. */
static bool set_deadline(struct weir_exchange *exchange, const struct request_reading *reading,
                         uint64_t now_ns)
{
    uint64_t timeout_ns = exchange->route->deadline_ns;
    const struct weir_http1_field *asked = weir_http1_find(reading->head, WEIR_FIELD_WEIR_TIMEOUT);
    if (asked != NULL) {
        uint64_t asked_ns;
        if ((reading->head->repeated & WEIR_FIELD_BIT(WEIR_TIMEOUT)) != 0 ||
            !weir_scalar_duration(weir_http1_value(reading->data, asked), &asked_ns)) {
            return false;
        }
        timeout_ns = asked_ns < timeout_ns ? asked_ns : timeout_ns;
    }
    exchange->deadline_ns = timeout_ns == WEIR_NEVER ? WEIR_NEVER : now_ns + timeout_ns;
    return true;
}

static bool make_request(struct weir_exchange *exchange, const struct request_reading *reading)
{
    struct weir_worker *worker = exchange->worker;
    uint32_t wanted = reading->head->head_bytes + UINT32_C(768);
    wanted = wanted > WEIR_BUFFER_LARGE ? WEIR_BUFFER_LARGE : wanted;
    struct weir_forward_request request = {.config = exchange->worker_config->config,
                                           .route = exchange->route,
                                           .head = reading->head,
                                           .data = reading->data,
                                           .policy = &exchange->filters->policy,
                                           .peer = exchange->client->peer,
                                           .peer_is_unix =
                                               exchange->client->listener->config->address.kind ==
                                               WEIR_CONFIG_ADDRESS_UNIX,
                                           .trusted = exchange->client->trusted,
                                           .request_id = weir_exchange_id(exchange)};
    if (!weir_buffer_reserve(&worker->buffers, &exchange->request.head, wanted) ||
        !weir_forward_request(&request, &exchange->request.head)) {
        return false;
    }
    exchange->request.open_bytes = weir_buffer_bytes(&exchange->request.head);
    return true;
}

void weir_exchange_enter(struct weir_exchange *exchange, struct weir_slice key,
                         struct weir_request *request)
{
    struct weir_worker *worker = exchange->worker;
    weir_exchange_move(exchange, WEIR_EXCHANGE_WAITING);
    weir_exchange_pause_body(exchange);
    if (exchange->gate == WEIR_CONFIG_NONE) {
        weir_exchange_admitted(exchange);
        return;
    }
    const struct weir_config_snapshot *snapshot = exchange->worker_config->snapshot;
    /* All of the body is in the client's buffer, where it can stay until no other lane needs it. */
    exchange->request.keeps_body =
        exchange->request.keeps_body ||
        (exchange->route->upstream_count > 1 && exchange->request.repeatable &&
         exchange->request.body.state == WEIR_BODY_ENDED);
    request->tenant = exchange->gate_ticket.tenant;
    request->lanes_tried = exchange->lanes_tried;
    struct weir_destination where = {
        .gate = snapshot->gates[exchange->gate],
        .loop_index = worker->index,
        .lane_names = snapshot->lane_names[exchange->route - snapshot->config->routes],
        .key = key};
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_ENTER) &&
        weir_filters_enter(exchange, &where, request)) {
        return;
    }
    exchange->gate_ticket.owner = &weir_exchange_owner;
    exchange->gate_ticket.from = exchange->client->peer;
    switch (weir_gate_ticket_enter(worker->gates, &exchange->gate_ticket, &where, request)) {
    case WEIR_ADMITTED:
        exchange->place = WEIR_PLACE_OWN;
        weir_exchange_admitted(exchange);
        break;
    case WEIR_WAITING:
        exchange->place = WEIR_PLACE_OWN;
        if (exchange->route->upstream_count > 1 && weir_exchange_fail_fast(exchange)) {
            break;
        }
        if (weir_buffer_bytes(&exchange->client->in) == 0) {
            weir_buffer_release(&worker->buffers, &exchange->client->in);
        }
        break;
    case WEIR_REFUSED:
        weir_exchange_refuse(exchange);
        weir_gate_ticket_close(&exchange->gate_ticket);
        break;
    }
}

/* Sets the tenant, the flow and the priority, as far as the client is believed. */
static void identify(struct weir_exchange *exchange, struct request_reading *reading)
{
    const struct weir_config_route *found = exchange->route;
    const struct weir_http1_head *head = reading->head;
    const char *data = reading->data;
    bool trusted = exchange->client->trusted;
    bool by_key = found->tenant.kind == WEIR_CONFIG_SOURCE_API_KEY; /* see check_key() */
    if (!by_key && (trusted || found->tenant.kind == WEIR_CONFIG_SOURCE_CONSTANT)) {
        exchange->gate_ticket.tenant =
            keep_text(exchange->tenant_text, text_of(&found->tenant, head, data, &reading->match));
    }
    exchange->gate_ticket.flow =
        keep_text(exchange->flow_text, text_of(&found->flow, head, data, &reading->match));
    reading->priority = priority_of(found, text_of(&found->priority, head, data, &reading->match));
    if (!trusted && found->priority.kind == WEIR_CONFIG_SOURCE_HEADER) {
        reading->priority = WEIR_PRIORITY_NORMAL;
    }
    const struct weir_loopback_client *loopback = exchange->client->loopback;
    if (loopback != NULL) {
        reading->priority = loopback->priority;
        if (loopback->tenant.bytes > 0) {
            exchange->gate_ticket.tenant = keep_text(exchange->tenant_text, loopback->tenant);
        }
    }
    reading->priority = weir_config_tenant_priority(
        exchange->worker_config->config, exchange->gate_ticket.tenant, reading->priority);
}

struct refusal {
    enum weir_problem_kind kind;
    uint16_t status;
    const char *detail; /* null: there is none */
};

static const struct refusal no_key_refusal = {WEIR_PROBLEM_BAD_REQUEST, 400,
                                              "The request names no key for its route (key), or "
                                              "one of more than 255 bytes. Name another one."};

static const struct refusal long_head_refusal = {
    WEIR_PROBLEM_BAD_REQUEST, 431,
    "The header section is too long to be passed on. Send fewer or shorter header fields."};

static const struct refusal no_memory_refusal = {WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                                                 "Out of memory for this request. Try again."};

static struct weir_request_facts facts_of(const struct request_reading *reading)
{
    return (struct weir_request_facts){.head = reading->head,
                                       .data = reading->data,
                                       .path = weir_http1_slice(reading->data, reading->head->path),
                                       .key = reading->key,
                                       .key_gap = reading->key_gap,
                                       .priority = reading->priority};
}

static bool begin_filters(struct weir_exchange *exchange, const struct request_reading *reading)
{
    struct weir_request_facts facts = facts_of(reading);
    return weir_filters_begin(exchange, &facts);
}

/* On routes that ask for an API key, only the key decides on the tenant. */
static struct refusal check_key(struct weir_exchange *exchange,
                                const struct request_reading *reading)
{
    struct weir_worker *worker = exchange->worker;
    struct weir_api_key_grant grant;
    if (exchange->route->tenant.kind != WEIR_CONFIG_SOURCE_API_KEY ||
        exchange->client->loopback != NULL) {
        return (struct refusal){0};
    }
    switch (weir_api_keys_see(worker->keys, worker->hasher, reading->head, reading->data, &grant)) {
    case WEIR_API_KEY_GOOD:
        exchange->gate_ticket.tenant = keep_text(exchange->tenant_text, grant.tenant);
        exchange->api_key = grant.id;
        return (struct refusal){0};
    case WEIR_API_KEY_WRONG:
        weir_tally_add(&worker->refused_keys[WEIR_REFUSED_API_KEY_WRONG], 1);
        return (struct refusal){WEIR_PROBLEM_UNAUTHORIZED, 401,
                                "Unknown or revoked API key. Ask the operator of this gateway for "
                                "another one."};
    case WEIR_API_KEY_NONE:
        weir_tally_add(&worker->refused_keys[WEIR_REFUSED_API_KEY_MISSING], 1);
        break;
    }
    return (struct refusal){WEIR_PROBLEM_UNAUTHORIZED, 401,
                            "This route asks for an API key of this gateway, which begins with "
                            "weir_. Send it as Authorization: Bearer KEY, X-Api-Key: KEY, "
                            "Api-Key: KEY or X-Goog-Api-Key: KEY."};
}

/* Whether one of the route's upstreams is sent fields of its own, which may be secrets. */
static bool adds_fields(const struct weir_exchange *exchange)
{
    const struct weir_config_route *route = exchange->route;
    bool adds = false;
    for (uint32_t i = 0; i < route->upstream_count; i++) {
        adds = adds ||
               exchange->worker_config->config->upstreams[route->upstreams[i]].header_count > 0;
    }
    return adds;
}

/* Whether the client asks for a session: for an event stream, by GET (of MCP, say, or of a page
 * that listens to events). */
static bool asks_for_session(const struct request_reading *reading)
{
    const struct weir_http1_head *head = reading->head;
    if (head->method != WEIR_METHOD_GET || head->framing != WEIR_FRAMING_NONE) {
        return false;
    }
    for (uint16_t i = 0; i < head->field_count; i++) {
        if (weir_text_same(weir_http1_name(reading->data, &head->fields[i]),
                           weir_slice_of("accept")) &&
            weir_media_type_accepted(weir_http1_value(reading->data, &head->fields[i]),
                                     weir_slice_of("text/event-stream"))) {
            return true;
        }
    }
    return false;
}

static void choose_gate(struct weir_exchange *exchange, const struct request_reading *reading)
{
    const struct weir_config_route *route = exchange->route;
    exchange->gate = route->gate;
    if (route->has_sessions && asks_for_session(reading)) {
        exchange->session = WEIR_SESSION_ASKED;
        exchange->gate = route->session_gate;
    }
}

/* What is against passing the request on by the route that was found. */
static struct refusal check_route(struct weir_exchange *exchange, struct request_reading *reading)
{
    const struct weir_http1_head *head = reading->head;
    const struct weir_config_route *found = exchange->route;
    struct refusal unknown = check_key(exchange, reading);
    if (unknown.detail != NULL) {
        return unknown;
    }
    if (head->method == WEIR_METHOD_TRACE && (found->by_model || adds_fields(exchange))) {
        return (struct refusal){
            WEIR_PROBLEM_BAD_REQUEST, 501,
            "TRACE is not passed on here: the reply would show header fields that this gateway "
            "adds for the upstream (headers). Use another method."};
    }
    if (head->upgrade == WEIR_UPGRADE_WEBSOCKET && !found->websocket) {
        return (struct refusal){
            WEIR_PROBLEM_BAD_REQUEST, 400,
            "This route does not let WebSockets through. Set websocket: true on "
            "it if it should."};
    }
    if (!set_deadline(exchange, reading, exchange->worker->loop.now_ns)) {
        return (struct refusal){WEIR_PROBLEM_BAD_REQUEST, 400,
                                "Weir-Timeout is one duration, such as 250ms, 10s or 1m."};
    }
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_OBJECT)) {
        struct weir_request_facts facts = facts_of(reading);
        const char *error = weir_filters_object(exchange, &facts);
        if (error != NULL) {
            return (struct refusal){WEIR_PROBLEM_BAD_REQUEST, 400, error};
        }
    }
    identify(exchange, reading);
    choose_gate(exchange, reading);
    weir_body_init(&exchange->request.body, head, found->body_bytes_max);
    if (exchange->request.body.state == WEIR_BODY_FAULT) {
        return (struct refusal){WEIR_PROBLEM_BODY_TOO_LARGE, 413, WEIR_BODY_TOO_LONG};
    }
    size_t key_bytes = compose_key(exchange, head, reading->data, &reading->match,
                                   reading->key_text, &reading->key_gap);
    reading->key = (struct weir_slice){reading->key_text, key_bytes};
    if (key_bytes == 0 && exchange->gate != WEIR_CONFIG_NONE &&
        reading->key_gap == WEIR_KEY_NO_GAP) {
        return no_key_refusal;
    }
    if (!make_request(exchange, reading)) {
        return long_head_refusal;
    }
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_BEGIN) && !begin_filters(exchange, reading)) {
        return no_memory_refusal;
    }
    return (struct refusal){0};
}

/* Whether the request may come to this listener at all. */
static struct refusal check_caller(struct weir_exchange *exchange,
                                   const struct request_reading *reading)
{
    const char *error = weir_guard_objection(exchange->client->listener, &exchange->worker->guard,
                                             reading->head, reading->data);
    return (struct refusal){WEIR_PROBLEM_FORBIDDEN, 403, error};
}

/* Counts the exchange as one of the route, and gives it the route's filters. */
static void follow_route(struct weir_exchange *exchange, uint32_t route)
{
    const struct weir_filter_list *filters = &exchange->worker_config->snapshot->filters[route];
    exchange->tally = exchange->worker_config->routes[route];
    exchange->filters = filters;
    exchange->hooks = filters->hooks;
}

/* Reads from the head where the request goes, and on whose behalf. */
static struct refusal find_route(struct weir_exchange *exchange, struct request_reading *reading)
{
    const struct weir_http1_head *head = reading->head;
    if (head->form == WEIR_TARGET_AUTHORITY || head->method == WEIR_METHOD_CONNECT) {
        return (struct refusal){WEIR_PROBLEM_BAD_REQUEST, 501,
                                "CONNECT is not served here. Send the request itself."};
    }
    struct weir_request_path request_path;
    enum weir_config_paths paths = exchange->client->listener->config->paths;
    const char *error =
        weir_request_path_settle(&request_path, paths, reading->head, reading->data);
    if (error != NULL) {
        return (struct refusal){WEIR_PROBLEM_BAD_REQUEST, 400, error};
    }
    struct weir_slice path = weir_http1_slice(reading->data, head->path);
    path = path.bytes == 0 ? weir_slice_of("/") : path;
    if (!weir_matcher_find(exchange->worker_config->config->matcher, path, &reading->match)) {
        return (struct refusal){WEIR_PROBLEM_NO_ROUTE, 404,
                                "The path matches no route of the config. Check its spelling, or "
                                "add a route for it."};
    }
    const struct weir_config *config = exchange->worker_config->config;
    uint32_t route =
        weir_config_find_route(config, reading->match.route, (enum weir_config_method)head->method);
    if (route == WEIR_CONFIG_NONE) {
        return (struct refusal){
            WEIR_PROBLEM_BAD_REQUEST, 405,
            "No route of the config takes this method on this path. Use one of those in Allow, or "
            "add the method to a route (methods)."};
    }
    const char *plain = exchange->worker_config->snapshot->filters[route].plain_paths;
    error = weir_request_path_objection(&request_path, exchange->worker_config->config, path,
                                        &reading->match, plain);
    if (error != NULL) {
        return (struct refusal){WEIR_PROBLEM_BAD_REQUEST, 400, error};
    }
    exchange->route = &config->routes[route];
    follow_route(exchange, route);
    return check_route(exchange, reading);
}

/* Asked only where there is another lane to send the request to. */
static bool has_idempotency_key(const struct weir_exchange *exchange,
                                const struct request_reading *reading)
{
    return exchange->route->upstream_count > 1 &&
           weir_http1_find_name(reading->head, reading->data, weir_slice_of("idempotency-key"),
                                NULL) != NULL;
}

/* Writes the methods that the routes of the path take, for Allow. */
static void list_methods(const struct weir_config *config, uint32_t first,
                         char allow[ALLOW_BYTES_MAX])
{
    uint32_t methods = 0;
    size_t bytes = 0;
    for (uint32_t i = first; i != WEIR_CONFIG_NONE; i = config->routes[i].next) {
        methods |= config->routes[i].methods;
    }
    allow[0] = '\0';
    for (uint32_t i = 0; i < WEIR_CONFIG_METHOD_COUNT; i++) {
        if ((methods >> i & 1) != 0) {
            bytes += (size_t)snprintf(allow + bytes, ALLOW_BYTES_MAX - bytes, "%s%s",
                                      bytes == 0 ? "" : ", ",
                                      weir_config_method_name((enum weir_config_method)i));
            assert(bytes < ALLOW_BYTES_MAX);
        }
    }
}

static void answer_refusal(struct weir_exchange *exchange, const struct request_reading *reading,
                           const struct refusal *refusal)
{
    char allow[ALLOW_BYTES_MAX];
    struct weir_problem problem = {
        .kind = refusal->kind, .status = refusal->status, .detail = refusal->detail};
    if (refusal->status == 405) {
        list_methods(exchange->worker_config->config, reading->match.route, allow);
        problem.allow = allow;
    }
    weir_exchange_answer_problem(exchange, &problem);
}

/* ---- the model decides ---- */

void weir_exchange_drop_head(struct weir_exchange *exchange)
{
    struct weir_kept_head *kept = exchange->request.kept;
    exchange->request.kept = NULL;
    if (kept != NULL) {
        weir_buffer_release(&exchange->worker->buffers, &kept->bytes);
        weir_slab_give(&exchange->worker->heads, kept->head);
        weir_slab_give(&exchange->worker->kept_heads, kept);
    }
}

/* Keeps a copy of the head until the model is known. False without memory. */
static bool keep_head(struct weir_exchange *exchange, const struct request_reading *reading)
{
    struct weir_worker *worker = exchange->worker;
    struct weir_kept_head *kept = weir_slab_take(&worker->kept_heads);
    struct weir_http1_head *head = weir_slab_take(&worker->heads);
    uint32_t bytes = reading->head->head_bytes;
    if (kept != NULL) {
        kept->bytes = (struct weir_buffer){0};
    }
    if (kept == NULL || head == NULL ||
        !weir_buffer_reserve(&worker->buffers, &kept->bytes, bytes)) {
        if (head != NULL) {
            weir_slab_give(&worker->heads, head);
        }
        if (kept != NULL) {
            weir_slab_give(&worker->kept_heads, kept);
        }
        return false;
    }
    *head = *reading->head;
    memcpy(kept->bytes.data, reading->data, bytes);
    kept->bytes.end = bytes;
    kept->head = head;
    kept->match = reading->match;
    kept->arrived_ns = exchange->arrived_ns;
    for (uint32_t i = 0; i < kept->match.capture_count; i++) {
        kept->match.captures[i].data =
            kept->bytes.data + (reading->match.captures[i].data - reading->data);
    }
    exchange->request.kept = kept;
    return true;
}

/* What the route that the model has decided on says of the request. */
static struct refusal read_again(struct weir_exchange *exchange, struct request_reading *reading,
                                 uint64_t arrived_ns)
{
    bool in_time = set_deadline(exchange, reading, arrived_ns);
    assert(in_time); /* it could be read before */
    identify(exchange, reading);
    choose_gate(exchange, reading);
    size_t key_bytes = compose_key(exchange, reading->head, reading->data, &reading->match,
                                   reading->key_text, &reading->key_gap);
    reading->key = (struct weir_slice){reading->key_text, key_bytes};
    if (key_bytes == 0 && exchange->gate != WEIR_CONFIG_NONE &&
        reading->key_gap == WEIR_KEY_NO_GAP) {
        return no_key_refusal;
    }
    weir_buffer_release(&exchange->worker->buffers, &exchange->request.head);
    exchange->request.prefix_bytes = 0;
    return make_request(exchange, reading) ? (struct refusal){0} : long_head_refusal;
}

bool weir_exchange_choose_route(struct weir_exchange *exchange, struct weir_slice model,
                                char key_text[WEIR_NAME_BYTES_MAX],
                                struct weir_request_facts *facts)
{
    const struct weir_config *config = exchange->worker_config->config;
    const struct weir_kept_head *kept = exchange->request.kept;
    struct request_reading reading = {
        .head = kept->head, .data = kept->bytes.data, .match = kept->match};
    uint32_t route = weir_config_choose_route(config, kept->match.route,
                                              (enum weir_config_method)kept->head->method, model);
    if (route == WEIR_CONFIG_NONE) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_NO_ROUTE, 404,
                             model.bytes == 0
                                 ? "The request names no model, by which the routes of this path "
                                   "are chosen (models). Name one, or add a route without models."
                                 : "No route of this path takes the model of this request "
                                   "(models). Name another one, or add a route for it.");
        return false;
    }
    exchange->route = &config->routes[route];
    follow_route(exchange, route);
    struct refusal refusal = read_again(exchange, &reading, kept->arrived_ns);
    if (refusal.detail != NULL) {
        weir_exchange_answer(exchange, refusal.kind, refusal.status, refusal.detail);
        return false;
    }
    memcpy(key_text, reading.key_text, reading.key.bytes);
    facts->key = (struct weir_slice){key_text, reading.key.bytes};
    facts->key_gap = reading.key_gap;
    facts->priority = reading.priority;
    weir_exchange_drop_head(exchange);
    return true;
}

/* ---- the whole ---- */

static void go(struct weir_exchange *exchange, struct request_reading *reading)
{
    const struct weir_http1_head *head = reading->head;
    struct refusal refusal = check_caller(exchange, reading);
    bool options = refusal.detail == NULL && asks_for_options(head);
    if (refusal.detail == NULL && !options) {
        refusal = find_route(exchange, reading);
    }
    exchange->request.repeatable =
        refusal.detail == NULL && !options &&
        (weir_exchange_is_idempotent(head->method) || has_idempotency_key(exchange, reading));
    if (refusal.detail == NULL && !options && exchange->route->by_model &&
        !keep_head(exchange, reading)) {
        refusal = no_memory_refusal;
    }
    /* Before any answer: after it, the connection goes on with what follows the head. */
    weir_buffer_consume(&exchange->client->in, head->head_bytes);
    if (refusal.detail != NULL) {
        answer_refusal(exchange, reading, &refusal);
        return;
    }
    if (options) {
        weir_exchange_answer_options(exchange);
        return;
    }
    exchange->request.upgrade = (uint8_t)head->upgrade;
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_BODY)) {
        weir_exchange_begin_whole(exchange, head->expects_continue);
        return;
    }
    struct weir_request request = {.priority = reading->priority,
                                   .deadline_ns = exchange->deadline_ns};
    if (exchange->request.body.state == WEIR_BODY_ENDED) {
        weir_exchange_enter(exchange, reading->key, &request);
        return;
    }
    exchange->request.expects = head->expects_continue;
    weir_exchange_begin_start(exchange, reading->key, &request);
}

static void make_id(struct weir_exchange *exchange)
{
    exchange->id_bytes = MADE_ID_BYTES;
    weir_hex_write_64(exchange->id_text, weir_worker_random(exchange->worker));
}

/* Bytes that mean the same in a header field, in JSON and on a line of a log. */
static bool is_usable_id(struct weir_slice id)
{
    bool usable = id.bytes > 0 && id.bytes <= WEIR_REQUEST_ID_BYTES_MAX;
    for (size_t i = 0; usable && i < id.bytes; i++) {
        usable = id.data[i] >= ' ' && id.data[i] <= '~';
    }
    return usable;
}

static void set_id(struct weir_exchange *exchange, const struct request_reading *reading)
{
    const struct weir_http1_head *head = reading->head;
    const struct weir_http1_field *field = weir_http1_find(head, WEIR_FIELD_X_REQUEST_ID);
    if (field != NULL && (head->repeated & WEIR_FIELD_BIT(X_REQUEST_ID)) == 0 &&
        !weir_http1_is_hop_by_hop(head, (uint16_t)(field - head->fields)) &&
        is_usable_id(weir_http1_value(reading->data, field))) {
        struct weir_slice id = weir_http1_value(reading->data, field);
        exchange->id_bytes = (uint8_t)weir_slice_copy(exchange->id_text, id).bytes;
    } else {
        make_id(exchange);
    }
}

static void answer_fault(struct weir_exchange *exchange, enum weir_http_fault fault)
{
    weir_exchange_answer(exchange, WEIR_PROBLEM_BAD_REQUEST, weir_http_fault_status(fault),
                         weir_http_fault_text(fault));
}

void weir_exchange_begin(struct weir_client *client)
{
    struct weir_worker *worker = client->worker;
    struct weir_http1_head *head = client->head;
    struct weir_exchange *exchange = weir_slab_take(&worker->exchanges);
    if (exchange == NULL) {
        weir_client_abandon(client, WEIR_ABANDON_RESOURCES);
        return;
    }
    memset(exchange, 0, offsetof(struct weir_exchange, tenant_text)); /* the texts need not be */
    exchange->client = client;
    exchange->worker = worker;
    exchange->worker_config = weir_worker_config_take(
        client->loopback == NULL ? worker->worker_config : client->loopback->worker_config);
    follow_route(exchange, exchange->worker_config->config->route_count); /* until one is found */
    exchange->arrived_ns = worker->loop.now_ns;
    exchange->admitted_ns = worker->loop.now_ns;
    exchange->deadline_ns = WEIR_NEVER;
    exchange->gate = WEIR_CONFIG_NONE; /* until a route is found */
    client->call = exchange;
    client->head = NULL;
    struct request_reading reading = {.head = head, .data = client->in.data + client->in.begin};
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_ARRIVED)) {
        weir_filters_arrived(exchange, head, reading.data);
    }
    if (head->fault != WEIR_HTTP_FAULT_NONE) {
        exchange->request.body.state = WEIR_BODY_GOES_ON;
        make_id(exchange);
        answer_fault(exchange, head->fault);
    } else {
        exchange->request.minor = head->minor;
        exchange->request.method = (uint8_t)head->method;
        exchange->request.persists = head->persists;
        exchange->request.body.state =
            head->framing == WEIR_FRAMING_NONE ? WEIR_BODY_ENDED : WEIR_BODY_GOES_ON;
        set_id(exchange, &reading);
        go(exchange, &reading);
    }
    weir_slab_give(&worker->heads, head);
}
