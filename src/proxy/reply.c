/* reply.c - an exchange's reply, on its way to the client: heads until the final one, then the
 * body, which passes from the server's buffer to the client without a copy. The server's connection
 * and the permit are free as soon as the server has said everything, also while the client still
 * reads.
 */
#include "proxy/exchange_steps.h"

#include "base/clock.h"
#include "proxy/forward.h"
#include "weir/retry.h"
#include "wire/media_type.h"
#include "wire/time_text.h"

/* Up to so many bytes of a body are sent in one part with the head. */
#define JOIN_BYTES_MAX 1024

bool weir_exchange_read_backend(struct weir_exchange *exchange, ssize_t *got)
{
    *got = weir_backend_read(exchange->backend);
    if (*got > 0 && exchange->reply.progress == WEIR_REPLY_NONE) {
        exchange->reply.progress = WEIR_REPLY_HEARD;
    }
    return *got > 0;
}

/* From now on both sides send what they like until one of them closes: bodies without a frame. The
 * permit is held meanwhile. */
static void open_tunnel(struct weir_exchange *exchange)
{
    static const struct weir_http1_head unframed = {.framing = WEIR_FRAMING_UNTIL_CLOSE};
    weir_body_init(&exchange->request.body, &unframed, UINT64_MAX);
    weir_body_init(&exchange->reply.body, &unframed, UINT64_MAX);
    exchange->request.sent = false;
    if (exchange->request.keeps_body) { /* bytes of the tunnel are not kept */
        weir_buffer_consume(&exchange->client->in, exchange->request.body_ready);
        exchange->request.keeps_body = false;
        exchange->request.body_ready = 0;
        exchange->request.body_sent = 0;
    }
    weir_client_begin_tunnel(exchange->client);
}

/* The reply goes to the client, so no other lane will need the body. What of it has not been sent
 * yet goes on as if it had never been kept. Filters that read all of it, which may be in a file,
 * let it go themselves once it is sent. */
static void let_body_go(struct weir_exchange *exchange)
{
    struct weir_buffer *in = &exchange->client->in;
    if (!exchange->request.keeps_body || weir_exchange_has_hook(exchange, WEIR_HOOK_BODY)) {
        return;
    }
    exchange->request.keeps_body = false;
    weir_buffer_consume(in, exchange->request.body_sent);
    exchange->request.body_ready -= exchange->request.body_sent;
    exchange->request.body_sent = 0;
    if (weir_buffer_bytes(in) == 0) {
        weir_buffer_release(&exchange->worker->buffers, in);
    }
}

/* How it went, as far as the status tells. */
static enum weir_outcome outcome_of(uint16_t status)
{
    return weir_signal_outcome(&(struct weir_exchange_end){.status = status});
}

/* When a reply says that it may be asked again, from now on. False if it does not. */
static bool find_retry_after(const struct weir_exchange *exchange,
                             const struct weir_http1_head *head, uint64_t *wait_ns)
{
    const char *data = exchange->backend->in.data + exchange->backend->in.begin;
    struct weir_time_text time = {0};
    const struct weir_http1_field *field =
        weir_http1_find_name(head, data, weir_slice_of("retry-after"), NULL);
    enum weir_time_form form =
        field == NULL ? WEIR_TIME_NONE : weir_time_text_read(weir_http1_value(data, field), &time);
    if (form == WEIR_TIME_EPOCH || form == WEIR_TIME_DATE) {
        uint64_t wall_ns = weir_wall_ns();
        time.ns = time.ns > wall_ns ? time.ns - wall_ns : 0;
    }
    *wait_ns = time.ns;
    return form != WEIR_TIME_NONE;
}

/* What a refusal says about when to come back, up to the route's retry_after_max. One user's
 * refusal is no reason to stop the others, so it counts only when another one follows within a
 * second. */
static void read_retry_after(const struct weir_exchange *exchange,
                             const struct weir_http1_head *head, struct weir_reply *reply)
{
    uint64_t most_ns = exchange->route->retry_after_max_ns;
    uint64_t wait_ns;
    if (most_ns == 0 || !find_retry_after(exchange, head, &wait_ns)) {
        return;
    }
    reply->retry_after_known = true;
    reply->retry_after_ns = wait_ns < most_ns ? wait_ns : most_ns;
    reply->doubtful = true;
}

/* Of a failure that may lead to another lane: if all fail, the client hears the earliest. */
static void note_retry_after(struct weir_exchange *exchange, const struct weir_http1_head *head)
{
    uint64_t wait_ns;
    if (exchange->route->upstream_count > 1 && find_retry_after(exchange, head, &wait_ns) &&
        wait_ns < WEIR_NS_PER_DAY) {
        uint64_t at_ns = exchange->worker->loop.now_ns + wait_ns;
        exchange->retry_at_ns = exchange->retry_at_ns == 0 || at_ns < exchange->retry_at_ns
                                    ? at_ns
                                    : exchange->retry_at_ns;
    }
}

/* What the client hears in place of the last lane's own field; 0: that stays. */
static uint64_t retry_after_s(const struct weir_exchange *exchange,
                              const struct weir_http1_head *head)
{
    uint64_t now_ns = exchange->worker->loop.now_ns;
    if (exchange->retry_at_ns == 0 || !exchange->reached ||
        !weir_exchange_status_fails(head->status)) {
        return 0;
    }
    uint64_t wait_ns = exchange->retry_at_ns > now_ns ? exchange->retry_at_ns - now_ns : 0;
    return wait_ns == 0 ? 1 : (wait_ns + WEIR_NS_PER_SECOND - 1) / WEIR_NS_PER_SECOND;
}

static bool write_head(struct weir_exchange *exchange, const struct weir_http1_head *head,
                       enum weir_http1_framing framing)
{
    struct weir_worker *worker = exchange->worker;
    struct weir_backend *backend = exchange->backend;
    uint64_t now_ns = worker->loop.now_ns;
    uint32_t wanted = head->head_bytes + UINT32_C(640) + weir_buffer_bytes(&exchange->reply.head);
    wanted += exchange->filters->fields_bytes_max;
    if (wanted > WEIR_BUFFER_LARGE ||
        !weir_buffer_reserve(&worker->buffers, &exchange->reply.head, wanted)) {
        return false;
    }
    struct weir_forward_reply reply = {.head = head,
                                       .framing = framing,
                                       .data = backend->in.data + backend->in.begin,
                                       .keep_alive = exchange->client->keeps,
                                       .request_id = weir_exchange_id(exchange),
                                       .line_ns = exchange->admitted_ns - exchange->arrived_ns,
                                       .upstream_ns = now_ns - exchange->admitted_ns};
    reply.retry_after_s = retry_after_s(exchange, head);
    reply.context = exchange;
    reply.hides = weir_exchange_has_hook(exchange, WEIR_HOOK_HIDES) ? weir_filters_hide : NULL;
    reply.add_fields =
        weir_exchange_has_hook(exchange, WEIR_HOOK_ADD_FIELDS) ? weir_filters_add_fields : NULL;
    return weir_forward_reply(&reply, &exchange->reply.head);
}

/* Lanes that learn hear of the head when it comes, not when the reply has ended; the others only
 * what a refusal asks for. */
static void tell_lane(struct weir_exchange *exchange, const struct weir_http1_head *head)
{
    bool refused = head->status == 429 || head->status == 503;
    struct weir_reply reply = {.outcome = outcome_of(head->status)};
    if (!weir_exchange_has_place(exchange)) {
        return;
    }
    if (refused) {
        read_retry_after(exchange, head, &reply);
    }
    if (exchange->place == WEIR_PLACE_BORROWED) {
        if (reply.retry_after_known) {
            weir_gate_ticket_hear_retry_after(&exchange->gate_ticket, &reply);
        }
        return;
    }
    if (reply.retry_after_known || exchange->worker_config->snapshot->learns[exchange->gate]) {
        weir_gate_ticket_hear(&exchange->gate_ticket, &reply);
    }
}

/* A final head is there: what filters make of it. */
static enum weir_filter_head judge_head(struct weir_exchange *exchange,
                                        const struct weir_http1_head *head)
{
    if (!exchange->filters->tells_lane) {
        tell_lane(exchange, head);
    }
    return weir_exchange_has_hook(exchange, WEIR_HOOK_REPLY_HEAD)
               ? weir_filters_reply_head(exchange, head)
               : WEIR_FILTER_HEAD_PASS;
}

/* Where something may be taken out of a body, the length that the server names does not hold. */
static enum weir_http1_framing framing_for_client(const struct weir_exchange *exchange,
                                                  const struct weir_http1_head *head, bool rewrites)
{
    if (!rewrites || head->framing != WEIR_FRAMING_LENGTH) {
        return head->framing;
    }
    return exchange->request.minor == 0 ? WEIR_FRAMING_UNTIL_CLOSE : WEIR_FRAMING_CHUNKED;
}

/* Whether a client that asked for a session gets one: the upstream may also answer at once. */
static bool opens_session(const struct weir_exchange *exchange, const struct weir_http1_head *head,
                          const char *data)
{
    const struct weir_http1_field *type = weir_http1_find(head, WEIR_FIELD_CONTENT_TYPE);
    return exchange->session == WEIR_SESSION_ASKED && head->status == 200 && type != NULL &&
           weir_text_same(weir_media_type(weir_http1_value(data, type)),
                          weir_slice_of("text/event-stream"));
}

/* Nothing may be sent for long, so that the system has to find out when a machine is gone. */
static void open_session(struct weir_exchange *exchange)
{
    exchange->session = WEIR_SESSION_OPEN;
    weir_client_watch_peer(exchange->client);
    weir_backend_watch_peer(exchange->backend);
}

/* A head of the upstream's is complete. False if the exchange took another way on it. */
static bool take_head(struct weir_exchange *exchange)
{
    struct weir_backend *backend = exchange->backend;
    struct weir_http1_head *head = &backend->head;
    bool switches = head->status == 101;
    bool final = head->status >= 200 || switches;
    if (switches && !(exchange->request.upgrade == WEIR_UPGRADE_WEBSOCKET &&
                      head->upgrade == WEIR_UPGRADE_WEBSOCKET)) {
        weir_exchange_answer(
            exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502,
            "The upstream switched to another protocol (101) without being asked for it.");
        return false;
    }
    enum weir_filter_head judged = final ? judge_head(exchange, head) : WEIR_FILTER_HEAD_PASS;
    if (judged == WEIR_FILTER_HEAD_NO_MEMORY) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                             "Out of memory for this reply. Try again.");
        return false;
    }
    bool waits = judged == WEIR_FILTER_HEAD_JUDGE || judged == WEIR_FILTER_HEAD_HOLD;
    bool rewrites = judged == WEIR_FILTER_HEAD_REWRITE || judged == WEIR_FILTER_HEAD_HOLD;
    bool fails = final && weir_exchange_status_fails(head->status);
    bool unfit = final && exchange->request.minor == 0 && head->framing == WEIR_FRAMING_CHUNKED;
    if (fails) {
        note_retry_after(exchange, head);
    }
    if (fails && (!waits || unfit)) {
        exchange->reply.status = head->status; /* filters settle by it */
        weir_backend_worked(backend);
        if (weir_exchange_fail_over_refused(exchange, outcome_of(head->status))) {
            return false;
        }
    }
    if (unfit) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502,
                             "The upstream answered HTTP/1.0 in chunks, which only HTTP/1.1 has. "
                             "Send the request in HTTP/1.1.");
        return false;
    }
    enum weir_http1_framing framing = framing_for_client(exchange, head, rewrites);
    if (final) {
        weir_client_begin_reply(exchange->client, framing,
                                exchange->request.body.state == WEIR_BODY_ENDED);
    }
    if ((final || exchange->request.minor > 0) && !write_head(exchange, head, framing)) {
        weir_exchange_answer(
            exchange, WEIR_PROBLEM_OUT_OF_MEMORY, 502,
            "The header section of the upstream's reply is too long to be passed on. "
            "Have it send fewer or shorter header fields.");
        return false;
    }
    uint16_t head_bytes = head->head_bytes;
    if (head->status == 100 && exchange->request.expects) {
        exchange->request.expects = false;
        weir_body_pace_restart(&exchange->request.pace, exchange->worker->loop.now_ns);
        weir_client_relax(exchange->client);
    }
    if (final) {
        exchange->reply.status = head->status;
        weir_body_init(&exchange->reply.body, head, UINT64_MAX);
        weir_backend_worked(backend);
        weir_exchange_move(exchange, switches ? WEIR_EXCHANGE_TUNNEL
                                     : waits  ? WEIR_EXCHANGE_JUDGING
                                              : WEIR_EXCHANGE_REPLYING);
        if (switches) {
            open_tunnel(exchange);
        } else if (!waits) {
            let_body_go(exchange);
        }
        if (opens_session(exchange, head, backend->in.data + backend->in.begin)) {
            open_session(exchange);
        }
    } else {
        weir_http1_init_response(head, WEIR_HTTP1_LIMITS_DEFAULT,
                                 (enum weir_http_method)exchange->request.method);
    }
    weir_buffer_consume(&backend->in, head_bytes);
    return true;
}

/* Reads heads until the final one. False if it is not there yet, or another way was taken. */
bool weir_exchange_read_head(struct weir_exchange *exchange)
{
    for (uint32_t rounds = 0; exchange->state == WEIR_EXCHANGE_SENDING;) {
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
            weir_backend_failed(backend);
            exchange->server_failed = true;
            const char *fault = weir_http_fault_text(backend->head.fault);
            if (!weir_exchange_fail_over_refused(exchange, WEIR_OUTCOME_SOFT_LOSS)) {
                weir_exchange_answer(exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502, fault);
            }
            return false;
        }
        ssize_t got;
        if (weir_exchange_had_turn(exchange, rounds++)) {
            return false;
        }
        if (!weir_exchange_read_backend(exchange, &got)) {
            if (got != WEIR_STREAM_AGAIN) {
                weir_exchange_lose_backend(exchange);
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
    bool whole = exchange->request.sent && exchange->request.body.state == WEIR_BODY_ENDED &&
                 exchange->state != WEIR_EXCHANGE_TUNNEL;
    exchange->backend = NULL;
    weir_exchange_move(exchange, WEIR_EXCHANGE_FINISHING);
    weir_backend_done(backend, whole, exchange->reply.ready, &exchange->reply.tail);
    weir_exchange_end_ticket(exchange, outcome_of(exchange->reply.status));
}

static struct weir_buffer *reply_source(struct weir_exchange *exchange)
{
    return exchange->state == WEIR_EXCHANGE_FINISHING ? &exchange->reply.tail
                                                      : &exchange->backend->in;
}

/* Checks what has come of the body. False if it cannot go on. */
static bool check_reply(struct weir_exchange *exchange)
{
    if (exchange->state == WEIR_EXCHANGE_FINISHING) {
        return true;
    }
    struct weir_slice all = weir_buffer_slice(&exchange->backend->in);
    struct weir_slice fresh = {all.data + exchange->reply.ready, all.bytes - exchange->reply.ready};
    fresh.bytes = weir_body_accept(&exchange->reply.body, fresh);
    enum weir_filter_data filtered =
        weir_exchange_has_hook(exchange, WEIR_HOOK_REPLY_DATA) && fresh.bytes > 0
            ? weir_filters_reply_data(exchange, fresh)
            : WEIR_FILTER_DATA_PASS;
    if (filtered == WEIR_FILTER_DATA_NO_MEMORY) {
        weir_exchange_abandon(exchange, WEIR_ABANDON_RESOURCES);
        return false;
    }
    if (filtered == WEIR_FILTER_DATA_TAKEN) {
        weir_buffer_consume(&exchange->backend->in, fresh.bytes);
    } else {
        exchange->reply.ready += (uint32_t)fresh.bytes;
    }
    bool ended = exchange->reply.body.state == WEIR_BODY_ENDED;
    bool broken = exchange->reply.body.state == WEIR_BODY_FAULT;
    exchange->server_failed =
        exchange->server_failed || broken; /* it is not the client that left */
    if (broken && exchange->reply.progress != WEIR_REPLY_BEGUN) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502,
                             weir_http_fault_text(exchange->reply.body.fault));
        return false;
    }
    if (broken || (ended && weir_exchange_has_hook(exchange, WEIR_HOOK_REPLY_END) &&
                   !weir_filters_reply_end(exchange))) {
        weir_exchange_abandon(exchange, WEIR_ABANDON_REPLY_CUT);
        return false;
    }
    if (ended) {
        end_upstream(exchange);
    }
    return true;
}

/* A short body goes behind its head: copying it costs less than a second part does. */
static void join_if_short(struct weir_exchange *exchange, struct weir_buffer *source)
{
    struct weir_buffer *reply = &exchange->reply.head;
    uint32_t bytes = exchange->reply.ready;
    if (bytes > 0 && bytes <= JOIN_BYTES_MAX && weir_buffer_bytes(reply) > 0 &&
        bytes <= weir_buffer_room(reply)) {
        memcpy(reply->data + reply->end, source->data + source->begin, bytes);
        reply->end += bytes;
        weir_buffer_consume(source, bytes);
        exchange->reply.ready = 0;
    }
}

/* Writes what is there to the client. True if all of it went. */
bool weir_exchange_write(struct weir_exchange *exchange)
{
    struct weir_buffer *source = reply_source(exchange);
    join_if_short(exchange, source);
    struct weir_slice head = weir_buffer_slice(&exchange->reply.head);
    struct weir_slice body = {weir_buffer_slice(source).data, exchange->reply.ready};
    if (head.bytes + body.bytes == 0) {
        return true;
    }
    ssize_t sent = weir_client_write(exchange->client, head, body);
    if (sent == WEIR_STREAM_AGAIN) {
        return false;
    }
    if (sent < 0) {
        weir_exchange_abandon(exchange, WEIR_ABANDON_GONE);
        return false;
    }
    exchange->reply.bytes += (size_t)sent;
    size_t of_head = (size_t)sent < head.bytes ? (size_t)sent : head.bytes;
    weir_buffer_consume(&exchange->reply.head, of_head);
    size_t of_body = (size_t)sent - of_head;
    exchange->reply.ready -= (uint32_t)of_body;
    weir_buffer_consume(source, of_body);
    if (exchange->state >= WEIR_EXCHANGE_REPLYING) {
        exchange->reply.progress = WEIR_REPLY_BEGUN;
    } else { /* an interim one does not begin the final one */
        exchange->reply.progress = weir_buffer_bytes(&exchange->reply.head) > 0
                                       ? WEIR_REPLY_INTERIM_CUT
                                       : WEIR_REPLY_HEARD;
    }
    weir_client_relax(exchange->client); /* it has gone on: its timeout starts again */
    return weir_buffer_bytes(&exchange->reply.head) == 0 && exchange->reply.ready == 0;
}

/* Whether bytes of the final reply go to the client. */
static bool is_replying(const struct weir_exchange *exchange)
{
    return exchange->state >= WEIR_EXCHANGE_REPLYING && exchange->state != WEIR_EXCHANGE_OVER;
}

void weir_exchange_pump_reply(struct weir_exchange *exchange)
{
    for (uint32_t rounds = 0; is_replying(exchange); rounds++) {
        if (weir_exchange_had_turn(exchange, rounds)) {
            return;
        }
        if (!check_reply(exchange) || !weir_exchange_write(exchange)) {
            return;
        }
        if (exchange->state == WEIR_EXCHANGE_FINISHING) {
            weir_exchange_complete(exchange);
            return;
        }
        ssize_t got;
        if (!weir_exchange_read_backend(exchange, &got)) {
            if (got == WEIR_STREAM_AGAIN) {
                weir_exchange_set_timer(exchange, weir_exchange_idle_ns(exchange));
                return;
            }
            if (got == WEIR_STREAM_BROKEN && exchange->state != WEIR_EXCHANGE_TUNNEL) {
                weir_exchange_abandon(exchange, WEIR_ABANDON_REPLY_CUT);
                return;
            }
            weir_body_close(&exchange->reply.body);
        }
    }
}
