/* request.c - an exchange's request, on its way to the server: the head that Weir has written, then
 * the body from the client's buffer, as far as it has been checked. */
#include "proxy/exchange_steps.h"

enum weir_body_read weir_exchange_read_client(struct weir_exchange *exchange, uint32_t capacity,
                                              uint32_t spare)
{
    struct weir_client *client = exchange->client;
    ssize_t got = weir_client_read(client, capacity, spare);
    if (got == WEIR_STREAM_AGAIN) {
        return WEIR_BODY_READ_NOTHING;
    }
    if (got == WEIR_CLIENT_NO_ROOM) {
        return WEIR_BODY_READ_NO_ROOM;
    }
    if (got <= 0) {
        weir_exchange_abandon(exchange, WEIR_ABANDON_GONE);
        return WEIR_BODY_READ_OVER;
    }
    exchange->request.expects = false; /* it sends, told to or not */
    weir_body_pace_receive(&exchange->request.pace, client->listener->config, (uint64_t)got,
                           exchange->worker->loop.now_ns);
    weir_client_relax(client); /* it has gone on, so its time starts again */
    return WEIR_BODY_READ_SOME;
}

void weir_exchange_check_body(struct weir_exchange *exchange)
{
    struct weir_buffer *in = &exchange->client->in;
    size_t bytes = weir_buffer_bytes(in) - exchange->request.body_ready;
    if (bytes == 0) {
        return;
    }
    uint32_t from = in->begin + exchange->request.body_ready;
    exchange->request.body_ready +=
        (uint32_t)weir_body_accept_for_server(&exchange->request.body, in->data + from, &bytes);
    in->end = from + (uint32_t)bytes;
    weir_buffer_consume(in, 0); /* there may be nothing left of it */
}

/* The next bytes of the body that can be sent. False if the exchange took another way. */
static bool next_body(struct weir_exchange *exchange, struct weir_slice *body)
{
    if (exchange->request.spool != NULL) {
        return weir_body_spool_next(exchange, body);
    }
    *body = weir_buffer_slice(&exchange->client->in);
    *body = (struct weir_slice){body->data + exchange->request.body_sent,
                                exchange->request.body_ready - exchange->request.body_sent};
    return true;
}

/* Whether all of the request has been sent, where there is nothing to send now. */
static bool is_sent(const struct weir_exchange *exchange)
{
    return exchange->request.body.state == WEIR_BODY_ENDED &&
           (exchange->request.spool == NULL || weir_body_spool_is_sent(exchange->request.spool));
}

static void note_sent(struct weir_exchange *exchange, size_t sent)
{
    uint32_t head_left = weir_buffer_bytes(&exchange->request.head) - exchange->request.head_sent;
    uint32_t of_head = sent < head_left ? (uint32_t)sent : head_left;
    exchange->request.head_sent += of_head;
    sent -= of_head;
    if (exchange->request.spool != NULL) {
        weir_body_spool_note_sent(exchange, sent);
        return;
    }
    if (exchange->request.keeps_body) {
        exchange->request.body_sent += (uint32_t)sent;
        return;
    }
    exchange->request.body_ready -= (uint32_t)sent;
    weir_buffer_consume(&exchange->client->in, sent);
}

void weir_exchange_answer_body_fault(struct weir_exchange *exchange)
{
    enum weir_http_fault fault = exchange->request.body.fault;
    bool large = fault == WEIR_HTTP_FAULT_BODY_LARGE;
    exchange->client->keeps = false;
    weir_exchange_answer(exchange, large ? WEIR_PROBLEM_BODY_TOO_LARGE : WEIR_PROBLEM_BAD_REQUEST,
                         weir_http_fault_status(fault),
                         large ? WEIR_BODY_TOO_LONG : weir_http_fault_text(fault));
}

/* Sends what can be sent. False if the exchange took another way on it. */
bool weir_exchange_pump_request(struct weir_exchange *exchange)
{
    const struct weir_config_upstream *upstream = weir_exchange_upstream(exchange);
    for (uint32_t rounds = 0; !exchange->request.sent; rounds++) {
        if (weir_exchange_had_turn(exchange, rounds)) {
            return true;
        }
        if (exchange->request.body.state == WEIR_BODY_GOES_ON) {
            weir_exchange_check_body(exchange);
        }
        if (exchange->request.body.state == WEIR_BODY_FAULT) {
            weir_exchange_answer_body_fault(exchange);
            return false;
        }
        struct weir_slice head = weir_buffer_slice(&exchange->request.head);
        struct weir_slice body;
        if (!next_body(exchange, &body)) {
            return false;
        }
        head = (struct weir_slice){head.data + exchange->request.head_sent,
                                   head.bytes - exchange->request.head_sent};
        if (head.bytes + body.bytes == 0) {
            if (is_sent(exchange)) {
                exchange->request.sent = true;
                weir_exchange_set_timer(exchange, upstream->first_byte_timeout_ns);
            } else if (exchange->request.spool != NULL) { /* a disk thread is at it */
                weir_exchange_set_timer(exchange, upstream->idle_timeout_ns);
                return true;
            } else if (weir_exchange_read_client(exchange, WEIR_BUFFER_MIDDLE, 0) !=
                       WEIR_BODY_READ_SOME) {
                /* More than came with the head is read in larger pieces. */
                if (exchange->state == WEIR_EXCHANGE_OVER) {
                    return false;
                }
                weir_exchange_set_timer(exchange, upstream->idle_timeout_ns);
                return true;
            }
            continue;
        }
        ssize_t sent = weir_backend_write(exchange->backend, head, body);
        if (sent == WEIR_STREAM_AGAIN) {
            weir_exchange_set_timer(exchange, upstream->idle_timeout_ns);
            return true;
        }
        if (sent < 0) {
            /* What the server said before it closed may still be there. */
            exchange->request.sent = true;
            return true;
        }
        note_sent(exchange, (size_t)sent);
    }
    return true;
}
