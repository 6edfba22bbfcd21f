#include "gateway/exchange.h"

#include "base/list.h"
#include "base/slice.h"
#include "gateway/forward.h"

#include <assert.h>

/* How many reads and writes of one exchange may follow each other before others have their turn. */
#define ROUNDS_MAX 16

static void serve_backend(struct weir_backend *backend);
static void backend_late(struct weir_backend *backend);
static void start(struct weir_exchange *exchange, const struct weir_origin *not_this);
static void pump_reply(struct weir_exchange *exchange);
static void go_on(struct weir_exchange *exchange);
static void watch_client(struct weir_exchange *exchange);

static void set_state(struct weir_exchange *exchange, enum weir_exchange_state state)
{
    /* WAITING may also end in REPLYING, with an answer of ours. */
    assert(state >= exchange->state || (exchange->retried && state == WEIR_EXCHANGE_CONNECTING));
    exchange->state = (uint8_t)state;
}

/* ---- its end ---- */

static void free_exchange(struct weir_dead *dead)
{
    struct weir_exchange *exchange = weir_container_of(dead, struct weir_exchange, dead);
    weir_site_give(exchange->site);
    weir_slab_give(&exchange->worker->exchanges, exchange);
}

/* Once it is over and nothing to it is under way. */
static void bury_if_free(struct weir_exchange *exchange)
{
    if (exchange->state == WEIR_EXCHANGE_OVER && !exchange->pass_pending &&
        !exchange->again_pending) {
        weir_loop_bury(&exchange->worker->loop, &exchange->dead, free_exchange);
    }
}

static enum weir_outcome outcome_of(uint16_t status)
{
    if (status == 429) {
        return WEIR_OUTCOME_RATE_LIMIT;
    }
    if (status >= 500) {
        return WEIR_OUTCOME_SOFT_LOSS;
    }
    return status >= 400 ? WEIR_OUTCOME_CLIENT_ERROR : WEIR_OUTCOME_SUCCESS;
}

/* The pass goes back, if there is one. */
static void end_pass(struct weir_exchange *exchange, enum weir_outcome outcome)
{
    if (!exchange->has_pass) {
        return;
    }
    exchange->has_pass = false;
    exchange->pass_pending =
        outcome == WEIR_OUTCOME_CANCELLED
            ? !weir_pass_cancel(&exchange->pass)
            : !weir_pass_leave(&exchange->pass, &(struct weir_result){.outcome = outcome});
}

static void release_memory(struct weir_exchange *exchange)
{
    struct weir_buffer_pool *buffers = &exchange->worker->buffers;
    weir_buffer_release(buffers, &exchange->request);
    weir_buffer_release(buffers, &exchange->reply);
    weir_buffer_release(buffers, &exchange->tail);
}

/* Lets go of everything. The client has been told, or is about to be closed by its owner. */
static void finish(struct weir_exchange *exchange, enum weir_outcome outcome)
{
    exchange->client = NULL;
    if (exchange->backend != NULL) {
        weir_backend_drop(exchange->backend);
        exchange->backend = NULL;
    }
    release_memory(exchange);
    set_state(exchange, WEIR_EXCHANGE_OVER);
    end_pass(exchange, outcome);
    bury_if_free(exchange);
}

static void abort_call(struct weir_client *client)
{
    finish(client->call, WEIR_OUTCOME_CANCELLED);
}

/* The client's connection cannot go on: closing it ends the exchange as well. */
static void abandon(struct weir_exchange *exchange)
{
    weir_client_close(exchange->client);
}

static void complete(struct weir_exchange *exchange)
{
    struct weir_client *client = exchange->client;
    bool keep = exchange->keep_client && exchange->request_body.state == WEIR_BODY_ENDED &&
                exchange->body_ready == 0;
    client->unfinished = exchange->request_body.state != WEIR_BODY_ENDED;
    finish(exchange, WEIR_OUTCOME_CANCELLED);
    weir_client_done(client, keep);
}

/* ---- answers of our own ---- */

static void answer(struct weir_exchange *exchange, struct weir_problem *problem)
{
    struct weir_worker *worker = exchange->worker;
    if (exchange->backend != NULL) {
        weir_backend_drop(exchange->backend);
        exchange->backend = NULL;
    }
    if (exchange->reply_begun) {
        abandon(exchange);
        return;
    }
    weir_buffer_release(&worker->buffers, &exchange->reply);
    exchange->keep_client = exchange->keep_client && !worker->draining &&
                            exchange->request_body.state == WEIR_BODY_ENDED;
    if (!weir_buffer_reserve(&worker->buffers, &exchange->reply, WEIR_BUFFER_MIDDLE) ||
        !weir_problem_write(problem, exchange->keep_client, exchange->method != WEIR_METHOD_HEAD,
                            &exchange->reply)) {
        abandon(exchange);
        return;
    }
    exchange->status = problem->status;
    exchange->head_done = true;
    exchange->upstream_done = true;
    exchange->body_ready = 0;
    exchange->reply_ready = 0;
    set_state(exchange, WEIR_EXCHANGE_REPLYING);
    pump_reply(exchange);
    watch_client(exchange);
}

void weir_exchange_answer(struct weir_exchange *exchange, enum weir_problem_kind kind,
                          uint16_t status, const char *detail)
{
    struct weir_problem problem = {.kind = kind, .status = status, .detail = detail};
    answer(exchange, &problem);
}

static const struct weir_config_gate *gate_of(const struct weir_exchange *exchange)
{
    return &exchange->site->config->gates[exchange->route->gate];
}

/* The key's own rules, if it has any. */
static const struct weir_config_rules *rules_of(const struct weir_config_gate *gate,
                                                struct weir_slice key)
{
    for (uint32_t i = 0; i < gate->key_count; i++) {
        if (weir_slice_equal(gate->keys[i].name, key)) {
            return &gate->keys[i].rules;
        }
    }
    return &gate->rules;
}

void weir_exchange_refuse(struct weir_exchange *exchange, enum weir_problem_kind kind,
                          const char *detail)
{
    struct weir_pass *pass = &exchange->pass;
    const struct weir_config_gate *gate = gate_of(exchange);
    struct weir_problem problem = {.kind = kind,
                                   .detail = detail,
                                   .gate = gate->name,
                                   .flow = exchange->flow,
                                   .tenant = exchange->tenant,
                                   .timeout_ns = WEIR_NEVER,
                                   .retry_ns = WEIR_NEVER};
    struct weir_key_stats stats;
    if (pass->key != NULL) {
        stats = weir_pass_stats(pass);
        problem.stats = &stats;
        problem.key = weir_key_name(pass->key);
        problem.status = (uint16_t)rules_of(gate, problem.key)->line.status;
        if (pass->ticket.deadline_ns != WEIR_NEVER) {
            problem.timeout_ns = pass->ticket.deadline_ns - exchange->arrived_ns;
        }
        problem.waited_ns = exchange->worker->loop.now_ns - exchange->arrived_ns;
        problem.retry_ns = weir_pass_predict(pass, exchange->tenant);
    } else {
        problem.status = 503;
    }
    answer(exchange, &problem);
}

/* ---- how long anything may take ---- */

static void set_backend_timer(struct weir_exchange *exchange, uint64_t timeout_ns)
{
    uint64_t due_ns = exchange->worker->loop.now_ns + timeout_ns;
    if (!exchange->head_done && exchange->deadline_ns < due_ns) {
        due_ns = exchange->deadline_ns;
    }
    weir_timer_set(&exchange->worker->loop, &exchange->backend->timer, due_ns);
}

static const struct weir_config_upstream *upstream_of(const struct weir_exchange *exchange)
{
    return exchange->backend->origin->upstream->config;
}

/* Whether there is nothing to send until the client has sent more of its body. */
static bool wants_body(const struct weir_exchange *exchange)
{
    return !exchange->upgraded && !exchange->request_sent &&
           exchange->request_body.state == WEIR_BODY_GOES_ON && exchange->body_ready == 0 &&
           exchange->backend != NULL && exchange->backend->connected;
}

/* Whether there is something that the client has not read yet. */
static bool wants_reader(const struct weir_exchange *exchange)
{
    return weir_buffer_bytes(&exchange->reply) > 0 || exchange->reply_ready > 0;
}

/* A client that others wait for has a limited time to go on. */
static void watch_client(struct weir_exchange *exchange)
{
    struct weir_client *client = exchange->client;
    if (client == NULL) {
        return;
    }
    if (wants_body(exchange) || wants_reader(exchange)) {
        weir_client_press(client);
    } else if (client->timer.due_ns != WEIR_NEVER) {
        weir_client_relax(client);
    }
}

static void client_late(struct weir_client *client)
{
    struct weir_exchange *exchange = client->call;
    if (exchange->reply_begun || exchange->upstream_done) {
        abandon(exchange);
        return;
    }
    weir_exchange_answer(
        exchange, WEIR_PROBLEM_REQUEST_TIMEOUT, 408,
        "The next part of the request's body did not come in time. Send it without "
        "long pauses.");
}

/* ---- one turn among others ---- */

static void on_again(struct weir_post *post)
{
    struct weir_exchange *exchange = weir_container_of(post, struct weir_exchange, again);
    exchange->again_pending = false;
    if (exchange->state == WEIR_EXCHANGE_OVER) {
        bury_if_free(exchange);
        return;
    }
    if (exchange->backend != NULL) {
        go_on(exchange);
    } else {
        pump_reply(exchange);
    }
    watch_client(exchange);
}

/* A transfer whose two sides both keep up must not keep the loop from everybody else. */
static bool had_its_turn(struct weir_exchange *exchange, uint32_t rounds)
{
    if (rounds < ROUNDS_MAX) {
        return false;
    }
    if (!exchange->again_pending) {
        exchange->again_pending = true;
        exchange->again = (struct weir_post){.arrive = on_again};
        weir_loop_defer(&exchange->worker->loop, &exchange->again);
    }
    return true;
}

/* ---- the request, on its way up ---- */

/* Reads more of the request's body. False if there is nothing now, or the exchange is over. */
static bool read_client(struct weir_exchange *exchange)
{
    struct weir_client *client = exchange->client;
    struct weir_buffer *in = &client->in;
    if (!client->stream.readable) {
        return false;
    }
    weir_buffer_compact(in);
    if (weir_buffer_room(in) == 0 &&
        (in->capacity >= WEIR_BUFFER_MIDDLE ||
         !weir_buffer_reserve(&exchange->worker->buffers, in, WEIR_BUFFER_MIDDLE))) {
        return false;
    }
    ssize_t got = weir_stream_read(&client->stream, in->data + in->end, weir_buffer_room(in));
    if (got == WEIR_STREAM_AGAIN) {
        return false;
    }
    if (got <= 0) {
        abandon(exchange);
        return false;
    }
    in->end += (uint32_t)got;
    return true;
}

static void check_body(struct weir_exchange *exchange)
{
    struct weir_slice all = weir_buffer_slice(&exchange->client->in);
    struct weir_slice fresh = {all.data + exchange->body_ready, all.bytes - exchange->body_ready};
    exchange->body_ready += (uint32_t)weir_body_accept(&exchange->request_body, fresh);
}

static void note_sent(struct weir_exchange *exchange, size_t sent)
{
    uint32_t head_left = weir_buffer_bytes(&exchange->request) - exchange->request_sent_bytes;
    uint32_t of_head = sent < head_left ? (uint32_t)sent : head_left;
    exchange->request_sent_bytes += of_head;
    sent -= of_head;
    exchange->body_ready -= (uint32_t)sent;
    weir_buffer_consume(&exchange->client->in, sent);
}

/* Whether a server may get the request twice without doing more than once (RFC 9110, section
 * 9.2.2). */
static bool is_idempotent(enum weir_http_method method)
{
    return method == WEIR_METHOD_GET || method == WEIR_METHOD_HEAD || method == WEIR_METHOD_PUT ||
           method == WEIR_METHOD_DELETE || method == WEIR_METHOD_OPTIONS ||
           method == WEIR_METHOD_TRACE;
}

/* The connection broke before anything of a reply came. A pooled one was probably closed before it
 * took anything; nobody knows, so what must not happen twice is not sent again. */
static void lose_backend(struct weir_exchange *exchange)
{
    struct weir_origin *origin = exchange->backend->origin;
    bool fresh = !exchange->backend->reused;
    bool untouched = exchange->request_sent_bytes == 0;
    weir_backend_drop(exchange->backend);
    exchange->backend = NULL;
    if (fresh) {
        weir_origin_failed(origin);
    }
    bool harmless = untouched || (!fresh && is_idempotent((enum weir_http_method)exchange->method));
    if (!exchange->retried && harmless && exchange->request_body.bytes == exchange->body_ready) {
        exchange->retried = true;
        exchange->request_sent = false;
        exchange->request_sent_bytes = 0;
        start(exchange, fresh ? origin : NULL);
        return;
    }
    weir_exchange_answer(
        exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502,
        "The upstream closed the connection or refused it. Check that it is running, "
        "and try again.");
}

/* Sends what can be sent. False if the exchange took another way on it. */
static bool pump_request(struct weir_exchange *exchange)
{
    const struct weir_config_upstream *upstream = upstream_of(exchange);
    for (uint32_t rounds = 0; !exchange->request_sent; rounds++) {
        if (had_its_turn(exchange, rounds)) {
            return true;
        }
        check_body(exchange);
        if (exchange->request_body.state == WEIR_BODY_FAULT) {
            enum weir_http_fault fault = exchange->request_body.fault;
            exchange->keep_client = false;
            weir_exchange_answer(exchange,
                                 fault == WEIR_HTTP_FAULT_BODY_LARGE ? WEIR_PROBLEM_BODY_TOO_LARGE
                                                                     : WEIR_PROBLEM_BAD_REQUEST,
                                 weir_http_fault_status(fault), weir_http_fault_text(fault));
            return false;
        }
        struct iovec parts[2];
        int count = 0;
        struct weir_slice head = weir_buffer_slice(&exchange->request);
        if (exchange->request_sent_bytes < head.bytes) {
            parts[count++] = (struct iovec){(char *)head.data + exchange->request_sent_bytes,
                                            head.bytes - exchange->request_sent_bytes};
        }
        if (exchange->body_ready > 0) {
            struct weir_buffer *in = &exchange->client->in;
            parts[count++] = (struct iovec){in->data + in->begin, exchange->body_ready};
        }
        if (count == 0) {
            if (exchange->request_body.state == WEIR_BODY_ENDED) {
                exchange->request_sent = true;
                set_backend_timer(exchange, upstream->first_byte_timeout_ns);
            } else if (!read_client(exchange)) {
                if (exchange->state == WEIR_EXCHANGE_OVER) {
                    return false;
                }
                set_backend_timer(exchange, upstream->idle_timeout_ns);
                return true;
            }
            continue;
        }
        ssize_t sent = weir_stream_write(&exchange->backend->stream, parts, count);
        if (sent == WEIR_STREAM_AGAIN) {
            set_backend_timer(exchange, upstream->idle_timeout_ns);
            return true;
        }
        if (sent < 0) {
            /* What the server said before it closed may still be there. */
            exchange->request_sent = true;
            return true;
        }
        note_sent(exchange, (size_t)sent);
    }
    return true;
}

/* ---- the reply, on its way down ---- */

static bool read_backend(struct weir_exchange *exchange, ssize_t *got)
{
    struct weir_backend *backend = exchange->backend;
    struct weir_buffer *in = &backend->in;
    *got = WEIR_STREAM_AGAIN;
    if (!backend->stream.readable) {
        return false;
    }
    weir_buffer_compact(in);
    uint32_t wanted =
        in->capacity == 0 || weir_buffer_room(in) > 0 ? WEIR_BUFFER_MIDDLE : WEIR_BUFFER_LARGE;
    if (weir_buffer_room(in) == 0 && !weir_buffer_reserve(&exchange->worker->buffers, in, wanted)) {
        return false;
    }
    if (weir_buffer_room(in) == 0) {
        return false;
    }
    *got = weir_stream_read(&backend->stream, in->data + in->end, weir_buffer_room(in));
    if (*got > 0) {
        in->end += (uint32_t)*got;
    }
    return *got > 0;
}

static bool write_head(struct weir_exchange *exchange, const struct weir_http1_head *head)
{
    struct weir_worker *worker = exchange->worker;
    struct weir_backend *backend = exchange->backend;
    uint64_t now_ns = worker->loop.now_ns;
    uint32_t wanted = head->head_bytes + UINT32_C(512);
    wanted += weir_buffer_bytes(&exchange->reply);
    if (wanted > WEIR_BUFFER_LARGE ||
        !weir_buffer_reserve(&worker->buffers, &exchange->reply, wanted)) {
        return false;
    }
    struct weir_forward_reply reply = {.head = head,
                                       .data = backend->in.data + backend->in.begin,
                                       .keep_alive = exchange->keep_client,
                                       .line_ns = exchange->admitted_ns - exchange->arrived_ns,
                                       .upstream_ns = now_ns - exchange->admitted_ns};
    return weir_forward_reply(&reply, &exchange->reply);
}

/* From now on both sides send what they like until one of them closes: bodies without a frame. The
 * permit is held meanwhile. */
static void open_tunnel(struct weir_exchange *exchange)
{
    static const struct weir_http1_head unframed = {.framing = WEIR_FRAMING_UNTIL_CLOSE};
    weir_body_init(&exchange->request_body, &unframed, UINT64_MAX);
    weir_body_init(&exchange->reply_body, &unframed, UINT64_MAX);
    exchange->request_sent = false;
    exchange->keep_client = false;
    exchange->upgraded = true;
}

/* A head of the upstream's is complete. False if the exchange took another way on it. */
static bool take_head(struct weir_exchange *exchange)
{
    struct weir_backend *backend = exchange->backend;
    struct weir_http1_head *head = &backend->head;
    bool switches = head->status == 101;
    bool final = head->status >= 200 || switches;
    if (switches && !(exchange->upgrading && head->upgrade == WEIR_UPGRADE_WEBSOCKET)) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502,
                             "The upstream switched to a protocol that it was not asked for.");
        return false;
    }
    if (final && exchange->minor == 0 && head->framing == WEIR_FRAMING_CHUNKED) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502,
                             "The upstream answered HTTP/1.0 in chunks, which only HTTP/1.1 has. "
                             "Send the request in HTTP/1.1.");
        return false;
    }
    if (final) {
        exchange->keep_client = exchange->keep_client &&
                                head->framing != WEIR_FRAMING_UNTIL_CLOSE &&
                                !exchange->worker->draining;
    }
    if ((final || exchange->minor > 0) && !write_head(exchange, head)) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_OUT_OF_MEMORY, 502,
                             "The upstream's header section is too long to be passed on.");
        return false;
    }
    uint16_t head_bytes = head->head_bytes;
    if (final) {
        exchange->status = head->status;
        exchange->head_done = true;
        weir_body_init(&exchange->reply_body, head, UINT64_MAX);
        weir_origin_worked(backend->origin);
        set_state(exchange, WEIR_EXCHANGE_REPLYING);
        if (switches) {
            open_tunnel(exchange);
        }
    } else {
        weir_http1_init_response(head, WEIR_HTTP1_LIMITS_DEFAULT,
                                 (enum weir_http_method)exchange->method);
    }
    weir_buffer_consume(&backend->in, head_bytes);
    return true;
}

/* Reads heads until the final one. False if it is not there yet, or another way was taken. */
static bool read_head(struct weir_exchange *exchange)
{
    while (!exchange->head_done) {
        struct weir_backend *backend = exchange->backend;
        struct weir_slice bytes = weir_buffer_slice(&backend->in);
        enum weir_http1_result result =
            bytes.bytes == 0 ? WEIR_HTTP1_NEED_MORE
                             : weir_http1_parse(&backend->head, bytes.data, bytes.bytes);
        if (result == WEIR_HTTP1_DONE) {
            if (!take_head(exchange)) {
                return false;
            }
            continue;
        }
        if (result == WEIR_HTTP1_FAULT) {
            weir_origin_failed(backend->origin);
            weir_exchange_answer(exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502,
                                 weir_http_fault_text(backend->head.fault));
            return false;
        }
        ssize_t got;
        if (!read_backend(exchange, &got)) {
            if (got != WEIR_STREAM_AGAIN) {
                lose_backend(exchange);
            }
            return false;
        }
    }
    return true;
}

/* The upstream has said everything: its connection and the permit are free before the client has
 * read it all. */
static void end_upstream(struct weir_exchange *exchange)
{
    struct weir_backend *backend = exchange->backend;
    bool keep = backend->head.persists && exchange->request_sent &&
                exchange->request_body.state == WEIR_BODY_ENDED &&
                exchange->reply_body.framing != WEIR_FRAMING_UNTIL_CLOSE &&
                weir_buffer_bytes(&backend->in) == exchange->reply_ready;
    exchange->tail = backend->in;
    backend->in = (struct weir_buffer){0};
    exchange->backend = NULL;
    exchange->upstream_done = true;
    if (keep) {
        weir_backend_keep(backend);
    } else {
        weir_backend_drop(backend);
    }
    end_pass(exchange, outcome_of(exchange->status));
}

static struct weir_buffer *reply_source(struct weir_exchange *exchange)
{
    return exchange->upstream_done ? &exchange->tail : &exchange->backend->in;
}

/* Checks what has come of the body. False if it cannot go on. */
static bool check_reply(struct weir_exchange *exchange)
{
    if (exchange->upstream_done) {
        return true;
    }
    struct weir_slice all = weir_buffer_slice(&exchange->backend->in);
    struct weir_slice fresh = {all.data + exchange->reply_ready, all.bytes - exchange->reply_ready};
    exchange->reply_ready += (uint32_t)weir_body_accept(&exchange->reply_body, fresh);
    if (exchange->reply_body.state == WEIR_BODY_FAULT) {
        abandon(exchange);
        return false;
    }
    if (exchange->reply_body.state == WEIR_BODY_ENDED) {
        end_upstream(exchange);
    }
    return true;
}

/* Writes what is there to the client. True if all of it went. */
static bool write_client(struct weir_exchange *exchange)
{
    struct weir_buffer *source = reply_source(exchange);
    struct iovec parts[2];
    int count = 0;
    struct weir_slice head = weir_buffer_slice(&exchange->reply);
    if (head.bytes > 0) {
        parts[count++] = (struct iovec){(char *)head.data, head.bytes};
    }
    if (exchange->reply_ready > 0) {
        parts[count++] = (struct iovec){source->data + source->begin, exchange->reply_ready};
    }
    if (count == 0) {
        return true;
    }
    ssize_t sent = weir_stream_write(&exchange->client->stream, parts, count);
    if (sent == WEIR_STREAM_AGAIN) {
        return false;
    }
    if (sent < 0) {
        abandon(exchange);
        return false;
    }
    exchange->reply_begun = exchange->head_done; /* an interim reply does not begin the final one */
    size_t of_head = (size_t)sent < head.bytes ? (size_t)sent : head.bytes;
    weir_buffer_consume(&exchange->reply, of_head);
    size_t of_body = (size_t)sent - of_head;
    exchange->reply_ready -= (uint32_t)of_body;
    weir_buffer_consume(source, of_body);
    return weir_buffer_bytes(&exchange->reply) == 0 && exchange->reply_ready == 0;
}

static void pump_reply(struct weir_exchange *exchange)
{
    for (uint32_t rounds = 0; exchange->state == WEIR_EXCHANGE_REPLYING; rounds++) {
        if (had_its_turn(exchange, rounds)) {
            return;
        }
        if (!check_reply(exchange) || !write_client(exchange)) {
            return;
        }
        if (exchange->upstream_done) {
            complete(exchange);
            return;
        }
        ssize_t got;
        if (!read_backend(exchange, &got)) {
            if (got == WEIR_STREAM_AGAIN) {
                set_backend_timer(exchange, upstream_of(exchange)->idle_timeout_ns);
                return;
            }
            weir_body_close(&exchange->reply_body);
        }
    }
}

/* ---- the upstream's connection ---- */

static void go_on(struct weir_exchange *exchange)
{
    struct weir_backend *backend = exchange->backend;
    if (!backend->connected) {
        if (!backend->stream.writable) {
            return;
        }
        if (weir_socket_error(backend->stream.watch.fd) != 0) {
            lose_backend(exchange);
            return;
        }
        backend->connected = true;
        set_state(exchange, WEIR_EXCHANGE_SENDING);
    }
    if (!pump_request(exchange) || exchange->backend == NULL) {
        return;
    }
    if (exchange->head_done || read_head(exchange)) {
        bool opened = exchange->upgraded && !exchange->reply_begun;
        pump_reply(exchange);
        if (opened && exchange->backend != NULL) {
            pump_request(exchange); /* what the client has sent ahead */
        }
    } else if (exchange->state == WEIR_EXCHANGE_SENDING && exchange->minor > 0 &&
               weir_buffer_bytes(&exchange->reply) > 0) {
        (void)!write_client(exchange); /* an interim reply goes on at once */
    }
}

static void serve_backend(struct weir_backend *backend)
{
    struct weir_exchange *exchange = backend->user;
    go_on(exchange);
    watch_client(exchange);
}

static void backend_late(struct weir_backend *backend)
{
    struct weir_exchange *exchange = backend->user;
    bool by_client = wants_body(exchange) || wants_reader(exchange) || exchange->upgraded;
    /* A deadline is the client's or the route's, and says nothing about the server. */
    bool expired = !exchange->head_done && exchange->deadline_ns <= exchange->worker->loop.now_ns;
    if (!backend->connected && !expired) {
        lose_backend(exchange);
        return;
    }
    if (!by_client && !expired) {
        weir_origin_failed(backend->origin);
    }
    if (exchange->reply_begun) {
        abandon(exchange);
    } else {
        weir_exchange_answer(
            exchange, WEIR_PROBLEM_UPSTREAM_TIMEOUT, 504,
            "The upstream took longer than its timeouts allow. Try again, or raise "
            "first_byte or deadline.");
    }
}

/* Finds a server and a connection, and begins to send. */
static void start(struct weir_exchange *exchange, const struct weir_origin *not_this)
{
    uint32_t lane = exchange->has_pass ? exchange->pass.ticket.lane_id : 0;
    uint32_t index = exchange->route->upstreams[lane % exchange->route->upstream_count];
    struct weir_origin *origin = weir_upstream_choose(&exchange->site->upstreams[index], not_this);
    set_state(exchange, WEIR_EXCHANGE_CONNECTING);
    struct weir_backend *backend =
        origin == NULL ? NULL : weir_backend_take(origin, exchange, !exchange->retried);
    if (backend == NULL) {
        weir_exchange_answer(
            exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502,
            "No server of the upstream can be reached. Check that one is running.");
        return;
    }
    exchange->backend = backend;
    backend->ready = serve_backend;
    backend->late = backend_late;
    weir_http1_init_response(&backend->head, WEIR_HTTP1_LIMITS_DEFAULT,
                             (enum weir_http_method)exchange->method);
    if (backend->connected) {
        set_state(exchange, WEIR_EXCHANGE_SENDING);
        serve_backend(backend);
    } else {
        set_backend_timer(exchange, origin->upstream->config->connect_timeout_ns);
    }
}

void weir_exchange_admitted(struct weir_exchange *exchange)
{
    struct weir_worker *worker = exchange->worker;
    uint32_t lane = exchange->has_pass ? exchange->pass.ticket.lane_id : 0;
    uint32_t index = exchange->route->upstreams[lane % exchange->route->upstream_count];
    const struct weir_upstream *upstream = &exchange->site->upstreams[index];
    exchange->admitted_ns = worker->loop.now_ns;
    size_t wanted = weir_buffer_bytes(&exchange->request) +
                    weir_forward_finish_bytes(upstream->config, upstream->origins[0].authority);
    if (wanted > WEIR_BUFFER_LARGE ||
        !weir_buffer_reserve(&worker->buffers, &exchange->request, (uint32_t)wanted) ||
        !weir_forward_finish(upstream->config, upstream->origins[0].authority,
                             &exchange->request)) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_BAD_REQUEST, 431,
                             "The header section is too long to be passed on.");
        return;
    }
    start(exchange, NULL);
}

/* ---- the gate ---- */

void weir_exchange_told(struct weir_pass *pass, enum weir_ticket_state state)
{
    struct weir_exchange *exchange = weir_container_of(pass, struct weir_exchange, pass);
    if (state == WEIR_TICKET_IDLE) {
        exchange->pass_pending = false;
        bury_if_free(exchange);
        return;
    }
    if (state == WEIR_TICKET_ADMITTED) {
        weir_exchange_admitted(exchange);
        return;
    }
    exchange->has_pass = false;
    switch ((enum weir_end)pass->ticket.end) {
    case WEIR_END_DISPLACED:
        weir_exchange_refuse(
            exchange, WEIR_PROBLEM_DISPLACED,
            "The line was full, and this tenant had more than its share of it. Wait "
            "for some of its requests to pass before sending more.");
        break;
    default:
        weir_exchange_refuse(
            exchange, WEIR_PROBLEM_LINE_TIMEOUT,
            "It waited as long as it may and its turn did not come. Try again after "
            "Retry-After, or raise the gate's limit or its line's timeout.");
    }
    if (exchange->pass.key != NULL) {
        weir_pass_close(&exchange->pass);
    }
}

/* ---- the client's side ---- */

static void client_ready(struct weir_client *client)
{
    struct weir_exchange *exchange = client->call;
    if (weir_client_gone(client) && !exchange->upstream_done) {
        abandon(exchange); /* out of the line, or from under the upstream's hands */
        return;
    }
    if (exchange->state == WEIR_EXCHANGE_REPLYING) {
        pump_reply(exchange);
    }
    if (exchange->backend != NULL && exchange->backend->connected && !exchange->request_sent) {
        go_on(exchange);
    }
    watch_client(exchange);
}

const struct weir_service weir_proxy = {.begin = weir_exchange_begin,
                                        .ready = client_ready,
                                        .late = client_late,
                                        .abort = abort_call,
                                        .awaited = true};
