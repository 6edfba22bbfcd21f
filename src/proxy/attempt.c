/* attempt.c - an exchange and a server: finding one, connecting, going on as far as both sides
 * allow, and losing it again. */
#define _GNU_SOURCE /* strerrordesc_np(), which threads may call */
#include "proxy/exchange_steps.h"

#include "base/list.h"
#include "frontend/loopback_client.h"
#include "proxy/forward.h"
#include "upstream/connect.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

/* How many reads and writes of one exchange may follow each other before others have their turn. */
#define ROUNDS_MAX 16

/* A post to a ticket that is leaving arrives within so long. */
#define LEAVING_NS WEIR_NS_PER_MS

static void connect_to(struct weir_exchange *exchange, const char *error);

/* ---- how long anything may take ---- */

const struct weir_config_upstream *weir_exchange_upstream(const struct weir_exchange *exchange)
{
    return exchange->backend->origin->upstream->config;
}

/* Whether the deadline still counts: it is for the first byte that the client gets. */
static bool has_deadline(const struct weir_exchange *exchange)
{
    return exchange->state <= WEIR_EXCHANGE_JUDGING;
}

void weir_exchange_set_timer(struct weir_exchange *exchange, uint64_t timeout_ns)
{
    uint64_t due_ns =
        timeout_ns == WEIR_NEVER ? WEIR_NEVER : exchange->worker->loop.now_ns + timeout_ns;
    if (has_deadline(exchange) && exchange->deadline_ns < due_ns) {
        due_ns = exchange->deadline_ns;
    }
    weir_timer_set(&exchange->worker->loop, &exchange->backend->timer, due_ns);
}

uint64_t weir_exchange_idle_ns(const struct weir_exchange *exchange)
{
    return exchange->session == WEIR_SESSION_OPEN
               ? WEIR_NEVER
               : weir_exchange_upstream(exchange)->idle_timeout_ns;
}

static void on_again(struct weir_post *post)
{
    struct weir_exchange *exchange = weir_container_of(post, struct weir_exchange, again);
    exchange->again.arrive = NULL;
    if (exchange->state == WEIR_EXCHANGE_OVER) {
        weir_exchange_bury_if_free(exchange);
        return;
    }
    if (exchange->backend != NULL) {
        weir_exchange_go_on(exchange);
    } else {
        weir_exchange_pump_reply(exchange);
    }
    weir_exchange_watch_client(exchange);
}

void weir_exchange_defer(struct weir_exchange *exchange)
{
    if (exchange->again.arrive == NULL) {
        exchange->again = (struct weir_post){.arrive = on_again};
        weir_loop_defer(&exchange->worker->loop, &exchange->again);
    }
}

/* A transfer whose two sides both keep up must not keep the loop from other exchanges. */
bool weir_exchange_had_turn(struct weir_exchange *exchange, uint32_t rounds)
{
    if (rounds < ROUNDS_MAX) {
        return false;
    }
    /* Bytes flow, so no side is idle. But a server that only sends interim replies is late. */
    bool awaits_head = exchange->request.sent && exchange->state < WEIR_EXCHANGE_JUDGING;
    if (exchange->backend != NULL && !awaits_head) {
        weir_exchange_set_timer(exchange, weir_exchange_idle_ns(exchange));
    }
    weir_exchange_defer(exchange);
    return true;
}

/* ---- answers for an upstream ---- */

/* "Upstream `NAME` ", and the rest of a detail. */
#define REST_BYTES_MAX   (WEIR_ADDRESS_TEXT_MAX + 224)
#define DETAIL_BYTES_MAX (WEIR_NAME_BYTES_MAX + 16 + REST_BYTES_MAX)

/* `what` goes on where the name of the upstream ends. */
static void answer_for_upstream(struct weir_exchange *exchange,
                                const struct weir_config_upstream *upstream,
                                enum weir_problem_kind kind, uint16_t status, const char *what)
{
    struct weir_slice name = upstream->name;
    char detail[DETAIL_BYTES_MAX];
    snprintf(detail, sizeof detail, "Upstream `%.*s` %s", (int)name.bytes, name.data, what);
    weir_exchange_answer(exchange, kind, status, detail);
}

/* Why no server of the upstream could be connected to: the last error of the first that has one. */
static const struct weir_origin *find_connect_error(const struct weir_upstream *upstream)
{
    for (uint32_t i = 0; i < upstream->config->url_count; i++) {
        if (upstream->origins[i].connect_error != 0) {
            return &upstream->origins[i];
        }
    }
    return NULL;
}

/* With why its server could not be used: a sentence, or the system's error and the address of the
 * server, which may be null; if neither is known, with `otherwise`. */
static void answer_unreachable(struct weir_exchange *exchange, const struct weir_upstream *upstream,
                               const struct weir_origin *origin, const char *error,
                               const char *otherwise)
{
    char what[REST_BYTES_MAX];
    if (error != NULL) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502, error);
        return;
    }
    if (origin != NULL && origin->connect_error != 0) {
        char address[WEIR_ADDRESS_TEXT_MAX];
        weir_address_format(&origin->connect_address, address);
        snprintf(
            what, sizeof what,
            "is unreachable: connect to %s: %s. Check its url, and that the server is running.",
            address, strerrordesc_np(origin->connect_error));
        otherwise = what;
    }
    answer_for_upstream(exchange, upstream->config, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502,
                        otherwise);
}

void weir_exchange_answer_down(struct weir_exchange *exchange, uint32_t index)
{
    const struct weir_upstream *upstream = &exchange->worker_config->upstreams[index];
    answer_unreachable(exchange, upstream, find_connect_error(upstream), NULL,
                       "is unreachable. Check that a server of it is running.");
}

/* ---- another attempt ---- */

void weir_exchange_restart(struct weir_exchange *exchange)
{
    assert(exchange->backend == NULL);
    assert(exchange->reply.progress != WEIR_REPLY_BEGUN);
    exchange->request.sent = false; /* a write may have failed */
    exchange->request.head_sent = 0;
    exchange->request.body_sent = 0;
    if (exchange->request.spool != NULL) {
        weir_body_spool_rewind(exchange);
    }
    exchange->reply.ready = 0;
    exchange->reply.status = 0;
    exchange->client->keeps = exchange->request.persists;
    exchange->reconnected = false;
    exchange->urls_tried = 0;
    exchange->server_failed = false;
}

void weir_exchange_leave_backend(struct weir_exchange *exchange)
{
    struct weir_backend *backend = exchange->backend;
    bool whole = exchange->state >= WEIR_EXCHANGE_JUDGING && exchange->request.sent &&
                 exchange->reply.body.state == WEIR_BODY_ENDED;
    exchange->backend = NULL;
    weir_backend_done(backend, whole, exchange->reply.ready, NULL);
}

void weir_exchange_retry(struct weir_exchange *exchange, uint64_t at_ns, enum weir_outcome outcome)
{
    assert(exchange->request.keeps_body);
    assert(exchange->reply.progress < WEIR_REPLY_INTERIM_CUT);
    weir_exchange_leave_backend(exchange);
    weir_buffer_release(&exchange->worker->buffers, &exchange->reply.head);
    weir_filters_restart(exchange);
    weir_exchange_end_ticket(exchange, outcome);
    weir_exchange_restart(exchange);
    exchange->reply.progress = WEIR_REPLY_NONE;
    if (!weir_exchange_has_untried_lane(exchange)) {
        exchange->lanes_tried = 0; /* all lanes once more */
    }
    weir_exchange_move(exchange, WEIR_EXCHANGE_PAUSED);
    weir_timer_set(&exchange->worker->loop, &exchange->client->timer, at_ns);
}

void weir_exchange_resume(struct weir_exchange *exchange)
{
    weir_client_relax(exchange->client);
    if (exchange->place == WEIR_PLACE_LEAVING) { /* its lease was over in the same moment */
        weir_timer_set(&exchange->worker->loop, &exchange->client->timer,
                       exchange->worker->loop.now_ns + LEAVING_NS);
        return;
    }
    bool entered = weir_filters_enter_again(exchange, NULL);
    assert(entered);
}

/* ---- a server ---- */

bool weir_exchange_is_idempotent(enum weir_http_method method)
{
    return method == WEIR_METHOD_GET || method == WEIR_METHOD_HEAD || method == WEIR_METHOD_PUT ||
           method == WEIR_METHOD_DELETE || method == WEIR_METHOD_OPTIONS ||
           method == WEIR_METHOD_TRACE;
}

/* This attempt has not reached that server; whether its lane has another one that it has not tried.
 */
static bool leave_server(struct weir_exchange *exchange, const struct weir_origin *origin)
{
    exchange->urls_tried |= UINT64_C(1) << (origin - origin->upstream->origins);
    return exchange->urls_tried != UINT64_MAX >> (64 - origin->upstream->config->url_count);
}

/* The connection broke before anything of a reply came, for a reason that may be known. A pooled
 * one was probably closed before it took anything. That is not certain, so what must not happen
 * twice is not sent again. */
static void lose_backend(struct weir_exchange *exchange, const char *error)
{
    struct weir_origin *origin = exchange->backend->origin;
    bool fresh = !exchange->backend->reused;
    bool untouched = exchange->request.head_sent == 0;
    if (fresh) {
        weir_backend_failed(exchange->backend);
    }
    weir_backend_drop(exchange->backend);
    exchange->backend = NULL;
    bool harmless =
        untouched || (!fresh && exchange->reply.progress == WEIR_REPLY_NONE &&
                      weir_exchange_is_idempotent((enum weir_http_method)exchange->request.method));
    bool whole = exchange->request.keeps_body ||
                 exchange->request.body.bytes == exchange->request.body_ready;
    bool another = fresh && leave_server(exchange, origin);
    if ((!exchange->reconnected || another) && harmless && whole) {
        uint64_t urls_tried = exchange->urls_tried;
        weir_exchange_restart(exchange);
        exchange->urls_tried = urls_tried;
        exchange->reconnected = true;
        exchange->server_failed = fresh; /* should there be no other */
        connect_to(exchange, error);
        return;
    }
    exchange->server_failed = true;
    if ((untouched && weir_exchange_fail_over_unreachable(exchange)) ||
        weir_exchange_fail_over_refused(exchange, WEIR_OUTCOME_SOFT_LOSS)) {
        return;
    }
    answer_unreachable(exchange, origin->upstream, origin, error,
                       "closed the connection or refused it. Check that it is running, and try "
                       "again.");
}

void weir_exchange_lose_backend(struct weir_exchange *exchange)
{
    lose_backend(exchange, NULL);
}

static void answer_lack(struct weir_exchange *exchange)
{
    if (exchange->client->loopback != NULL) {
        exchange->client->loopback->lacking = true;
    }
    weir_exchange_answer(
        exchange, WEIR_PROBLEM_OUT_OF_DESCRIPTORS, 503,
        "This gateway has no descriptor or memory left for a connection to the upstream. "
        "Try again, or raise its limit of open files.");
}

/* Whether the connection is there. If not, its events go on with it, or it has been lost. */
static bool is_connected(struct weir_exchange *exchange, enum weir_connect_progress progress,
                         const char *error)
{
    if (progress == WEIR_CONNECT_FAILED && exchange->backend->lacks) {
        weir_backend_drop(exchange->backend);
        exchange->backend = NULL;
        answer_lack(exchange);
    } else if (progress == WEIR_CONNECT_FAILED) {
        lose_backend(exchange, error);
    } else if (progress == WEIR_CONNECT_UNDER_WAY) {
        weir_exchange_set_timer(exchange, weir_backend_connect_patience_ns(exchange->backend));
    }
    return progress == WEIR_CONNECT_DONE;
}

/* Whether the reply whose head is there goes on now. */
static bool may_reply(struct weir_exchange *exchange)
{
    if (!weir_exchange_has_hook(exchange, WEIR_HOOK_MAY_REPLY)) {
        return true;
    }
    if (!weir_filters_may_reply(exchange)) {
        return false;
    }
    if (exchange->state == WEIR_EXCHANGE_JUDGING) {
        weir_exchange_move(exchange, WEIR_EXCHANGE_REPLYING);
    }
    return true;
}

void weir_exchange_go_on(struct weir_exchange *exchange)
{
    struct weir_backend *backend = exchange->backend;
    if (!backend->connected) {
        const char *error;
        enum weir_connect_progress progress = weir_backend_connect(backend, &error);
        if (!is_connected(exchange, progress, error)) {
            return;
        }
        weir_exchange_move(exchange, WEIR_EXCHANGE_SENDING);
    }
    if (!weir_exchange_pump_request(exchange) || exchange->backend == NULL) {
        return;
    }
    if (exchange->state >= WEIR_EXCHANGE_JUDGING || weir_exchange_read_head(exchange)) {
        if (!may_reply(exchange)) {
            return;
        }
        bool opened =
            exchange->state == WEIR_EXCHANGE_TUNNEL && exchange->reply.progress != WEIR_REPLY_BEGUN;
        weir_exchange_pump_reply(exchange);
        if (opened && exchange->backend != NULL) {
            weir_exchange_pump_request(exchange); /* what the client has sent ahead */
        }
    } else if (exchange->state == WEIR_EXCHANGE_SENDING && exchange->request.minor > 0 &&
               weir_buffer_bytes(&exchange->reply.head) > 0) {
        (void)!weir_exchange_write(exchange); /* an interim reply goes on at once */
    }
}

static void serve_backend(struct weir_backend *backend)
{
    struct weir_exchange *exchange = backend->user;
    weir_exchange_go_on(exchange);
    weir_exchange_watch_client(exchange);
}

static void backend_late(struct weir_backend *backend)
{
    struct weir_exchange *exchange = backend->user;
    bool by_client = weir_exchange_wants_body(exchange) || weir_exchange_wants_reader(exchange);
    /* A deadline is the client's or the route's, and says nothing about the server. */
    bool expired = has_deadline(exchange) && exchange->deadline_ns <= exchange->worker->loop.now_ns;
    if (!backend->connected && !expired) {
        const char *error;
        enum weir_connect_progress progress = weir_backend_connect_late(backend, &error);
        (void)is_connected(exchange, progress, error);
        return;
    }
    if (by_client && !expired) {
        /* The exchange waits for the client, which has a timeout of its own. */
        weir_exchange_set_timer(exchange, weir_exchange_idle_ns(exchange));
        return;
    }
    if (!expired && exchange->state != WEIR_EXCHANGE_TUNNEL) {
        weir_backend_failed(backend);
        exchange->server_failed = true;
    }
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_TIMED_OUT) &&
        weir_filters_timed_out(exchange, expired)) {
        return;
    }
    if (exchange->reply.progress == WEIR_REPLY_BEGUN) {
        weir_exchange_abandon(exchange, WEIR_ABANDON_REPLY_CUT);
    } else {
        answer_for_upstream(exchange, weir_exchange_upstream(exchange),
                            WEIR_PROBLEM_UPSTREAM_TIMEOUT, 504,
                            "took longer than first_byte, idle or the deadline allows. Try again, "
                            "or raise them.");
    }
}

/* Puts the upstream's prefix before the path, in place of another lane's. There is room. */
static void set_prefix(struct weir_exchange *exchange, struct weir_slice prefix)
{
    struct weir_buffer *request = &exchange->request.head;
    char *line = request->data + request->begin;
    char *path = (char *)memchr(line, ' ', exchange->request.open_bytes) + 1;
    char *rest = path + exchange->request.prefix_bytes;
    size_t rest_bytes = exchange->request.open_bytes - (size_t)(rest - line);
    memmove(path + prefix.bytes, rest, rest_bytes);
    if (prefix.bytes > 0) {
        memcpy(path, prefix.data, prefix.bytes);
    }
    exchange->request.open_bytes = (uint32_t)((size_t)(path - line) + prefix.bytes + rest_bytes);
    exchange->request.prefix_bytes = (uint32_t)prefix.bytes;
}

bool weir_exchange_replace_in_path(struct weir_exchange *exchange, size_t behind, size_t bytes,
                                   struct weir_slice text)
{
    struct weir_buffer *request = &exchange->request.head;
    size_t wanted = exchange->request.open_bytes + text.bytes - bytes;
    request->end = request->begin + exchange->request.open_bytes; /* the rest is another server's */
    if (wanted > WEIR_BUFFER_LARGE ||
        !weir_buffer_reserve(&exchange->worker->buffers, request, (uint32_t)wanted)) {
        return false;
    }
    char *line = request->data + request->begin;
    char *path = (char *)memchr(line, ' ', exchange->request.open_bytes) + 1;
    size_t path_bytes = 0;
    while (path[path_bytes] != ' ' && path[path_bytes] != '?') {
        path_bytes++;
    }
    assert(behind + bytes <= path_bytes);
    char *at = path + path_bytes - behind - bytes;
    size_t rest_bytes = exchange->request.open_bytes - (size_t)(at + bytes - line);
    memmove(at + text.bytes, at + bytes, rest_bytes);
    memcpy(at, text.data, text.bytes);
    exchange->request.open_bytes = (uint32_t)wanted;
    request->end = request->begin + exchange->request.open_bytes;
    return true;
}

/* Makes room for the end of the head, and cuts off that of an attempt before. */
static bool reserve_end(struct weir_exchange *exchange, const struct weir_forward_end *end)
{
    struct weir_buffer *request = &exchange->request.head;
    size_t wanted =
        exchange->request.open_bytes + end->upstream->prefix.bytes + weir_forward_end_bytes(end);
    request->end = request->begin + exchange->request.open_bytes;
    return wanted <= WEIR_BUFFER_LARGE &&
           weir_buffer_reserve(&exchange->worker->buffers, request, (uint32_t)wanted);
}

/* Ends the request's head as this server is to see it. False if it does not fit. */
static bool finish_head(struct weir_exchange *exchange, const struct weir_origin *origin)
{
    struct weir_buffer *request = &exchange->request.head;
    const struct weir_body *body = &exchange->request.body;
    struct weir_forward_end end = {.upstream = origin->upstream->config,
                                   .secrets = origin->upstream->secrets,
                                   .authority = origin->authority,
                                   .framing = body->framing,
                                   .content_length = body->bytes + body->left_bytes};
    struct weir_slice prefix = end.upstream->prefix;
    if (!reserve_end(exchange, &end)) {
        return false;
    }
    if (prefix.bytes > 0 || exchange->request.prefix_bytes > 0) {
        set_prefix(exchange, prefix);
        request->end = request->begin + exchange->request.open_bytes;
    }
    return weir_forward_end(&end, request) ||
           /* A secret has become longer in this moment, and will not do so twice. */
           (end.secrets != NULL && reserve_end(exchange, &end) && weir_forward_end(&end, request));
}

static void begin_sending(struct weir_exchange *exchange, struct weir_backend *backend)
{
    exchange->backend = backend;
    exchange->server_failed = false;
    backend->ready = serve_backend;
    backend->late = backend_late;
    weir_http1_init_response(&backend->head, WEIR_HTTP1_LIMITS_DEFAULT,
                             (enum weir_http_method)exchange->request.method);
    if (backend->connected) {
        weir_exchange_move(exchange, WEIR_EXCHANGE_SENDING);
        serve_backend(backend);
    } else {
        weir_exchange_set_timer(exchange, weir_backend_connect_patience_ns(backend));
    }
}

uint32_t weir_exchange_lane(const struct weir_exchange *exchange)
{
    uint32_t lane = weir_exchange_has_place(exchange) ? exchange->gate_ticket.ticket.lane_id : 0;
    return exchange->route->upstreams[lane % exchange->route->upstream_count];
}

/* Finds a server that was not tried and a connection, and begins to send. `error` is why the server
 * before could not be used, if that is known. It calls itself at most once for each server. */
static void connect_to(struct weir_exchange *exchange, const char *error)
{
    uint32_t index = weir_exchange_lane(exchange);
    struct weir_origin *origin =
        weir_upstream_choose(&exchange->worker_config->upstreams[index], exchange->urls_tried);
    weir_exchange_move(exchange, WEIR_EXCHANGE_CONNECTING);
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_ATTEMPT) &&
        !weir_filters_attempt(exchange, exchange->worker_config->upstreams[index].config)) {
        return;
    }
    if (origin != NULL && !finish_head(exchange, origin)) {
        weir_exchange_answer(
            exchange, WEIR_PROBLEM_BAD_REQUEST, 431,
            "The header section is too long to be passed on. Send fewer or shorter header fields.");
        return;
    }
    struct weir_backend *backend =
        origin == NULL ? NULL : weir_backend_take(origin, exchange, !exchange->reconnected);
    bool our_lack = backend == NULL && origin != NULL && weir_connect_lacks(errno);
    if (backend == NULL && origin != NULL && !our_lack) {
        weir_origin_failed(origin);
        exchange->server_failed = true;
        if (leave_server(exchange, origin) || !exchange->reconnected) {
            exchange->reconnected = true;
            connect_to(exchange, error);
            return;
        }
    }
    if (our_lack) {
        answer_lack(exchange);
        return;
    }
    if (backend == NULL && weir_exchange_fail_over_unreachable(exchange)) {
        return;
    }
    if (backend == NULL) {
        if (error == NULL) {
            weir_exchange_answer_down(exchange, index);
        } else {
            answer_unreachable(exchange, &exchange->worker_config->upstreams[index], NULL, error,
                               NULL);
        }
        return;
    }
    begin_sending(exchange, backend);
}

void weir_exchange_admitted(struct weir_exchange *exchange)
{
    exchange->admitted_ns = exchange->worker->loop.now_ns;
    if (exchange->route->upstream_count > 1 && exchange->gate_ticket.ticket.lane_id < 64) {
        uint64_t lane = UINT64_C(1) << exchange->gate_ticket.ticket.lane_id;
        exchange->tried_again = (exchange->lanes_tried & lane) != 0;
        exchange->lanes_tried |= lane;
    }
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_ADMITTED) && !weir_filters_admitted(exchange)) {
        return;
    }
    connect_to(exchange, NULL);
}
