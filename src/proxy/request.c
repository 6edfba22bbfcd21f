/* request.c - an exchange's request, on its way to the server. */
#include "proxy/exchange_internal.h"

bool weir_exchange_read_client(struct weir_exchange *exchange, uint32_t capacity, uint32_t spare)
{
    struct weir_client *client = exchange->client;
    struct weir_buffer *in = &client->in;
    if (!client->stream.readable) {
        return false;
    }
    if (!weir_buffer_reserve(&exchange->worker->buffers, in, capacity) ||
        weir_buffer_room(in) <= spare) {
        return false;
    }
    ssize_t got =
        weir_stream_read(&client->stream, in->data + in->end, weir_buffer_room(in) - spare);
    if (got == WEIR_STREAM_AGAIN) {
        return false;
    }
    if (got <= 0) {
        weir_exchange_abandon(exchange);
        return false;
    }
    in->end += (uint32_t)got;
    exchange->expects = false; /* it sends, told to or not */
    weir_body_pace_receive(&exchange->body_pace, client->listener->config, (uint64_t)got,
                           exchange->worker->loop.now_ns);
    weir_client_relax(client); /* it has gone on: its time begins anew */
    return true;
}

void weir_exchange_check_body(struct weir_exchange *exchange)
{
    struct weir_buffer *in = &exchange->client->in;
    size_t bytes = weir_buffer_bytes(in) - exchange->body_ready;
    if (bytes == 0) {
        return;
    }
    uint32_t from = in->begin + exchange->body_ready;
    exchange->body_ready +=
        (uint32_t)weir_body_accept_for_server(&exchange->request_body, in->data + from, &bytes);
    in->end = from + (uint32_t)bytes;
    weir_buffer_consume(in, 0); /* there may be nothing left of it */
}

static void note_sent(struct weir_exchange *exchange, size_t sent)
{
    uint32_t head_left = weir_buffer_bytes(&exchange->request) - exchange->request_sent_bytes;
    uint32_t of_head = sent < head_left ? (uint32_t)sent : head_left;
    exchange->request_sent_bytes += of_head;
    sent -= of_head;
    if (exchange->keeps_body) {
        exchange->body_sent += (uint32_t)sent;
        return;
    }
    exchange->body_ready -= (uint32_t)sent;
    weir_buffer_consume(&exchange->client->in, sent);
}

void weir_exchange_answer_body_fault(struct weir_exchange *exchange)
{
    enum weir_http_fault fault = exchange->request_body.fault;
    bool large = fault == WEIR_HTTP_FAULT_BODY_LARGE;
    exchange->keep_client = false;
    weir_exchange_answer(exchange, large ? WEIR_PROBLEM_BODY_TOO_LARGE : WEIR_PROBLEM_BAD_REQUEST,
                         weir_http_fault_status(fault),
                         large ? WEIR_BODY_TOO_LONG : weir_http_fault_text(fault));
}

/* Sends what can be sent. False if the exchange took another way on it. */
bool weir_exchange_pump_request(struct weir_exchange *exchange)
{
    const struct weir_config_upstream *upstream = weir_exchange_upstream(exchange);
    for (uint32_t rounds = 0; !exchange->request_sent; rounds++) {
        if (weir_exchange_had_turn(exchange, rounds)) {
            return true;
        }
        if (exchange->request_body.state == WEIR_BODY_GOES_ON) {
            weir_exchange_check_body(exchange);
        }
        if (exchange->request_body.state == WEIR_BODY_FAULT) {
            weir_exchange_answer_body_fault(exchange);
            return false;
        }
        struct iovec parts[2];
        int count = 0;
        struct weir_slice head = weir_buffer_slice(&exchange->request);
        if (exchange->request_sent_bytes < head.bytes) {
            parts[count++] = (struct iovec){(char *)head.data + exchange->request_sent_bytes,
                                            head.bytes - exchange->request_sent_bytes};
        }
        if (exchange->body_ready > exchange->body_sent) {
            struct weir_buffer *in = &exchange->client->in;
            parts[count++] = (struct iovec){in->data + in->begin + exchange->body_sent,
                                            exchange->body_ready - exchange->body_sent};
        }
        if (count == 0) {
            if (exchange->request_body.state == WEIR_BODY_ENDED) {
                exchange->request_sent = true;
                weir_exchange_set_timer(exchange, upstream->first_byte_timeout_ns);
            } else if (!weir_exchange_read_client(exchange, WEIR_BUFFER_MIDDLE, 0)) {
                /* More than came with the head is read in larger pieces. */
                if (exchange->state == WEIR_EXCHANGE_OVER) {
                    return false;
                }
                weir_exchange_set_timer(exchange, upstream->idle_timeout_ns);
                return true;
            }
            continue;
        }
        ssize_t sent = weir_stream_write(&exchange->backend->stream, parts, count);
        if (sent == WEIR_STREAM_AGAIN) {
            weir_exchange_set_timer(exchange, upstream->idle_timeout_ns);
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
