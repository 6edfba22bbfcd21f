/* request.c - an exchange's request, on its way to the server. */
#include "gateway/transfer.h"

/* Reads more of the request's body. False if there is nothing now, or the exchange is over. */
static bool read_client(struct weir_exchange *exchange)
{
    struct weir_client *client = exchange->client;
    struct weir_buffer *in = &client->in;
    if (!client->stream.readable) {
        return false;
    }
    /* More than came with the head: from now on in larger pieces. */
    if (!weir_buffer_reserve(&exchange->worker->buffers, in, WEIR_BUFFER_MIDDLE) ||
        weir_buffer_room(in) == 0) {
        return false;
    }
    ssize_t got = weir_stream_read(&client->stream, in->data + in->end, weir_buffer_room(in));
    if (got == WEIR_STREAM_AGAIN) {
        return false;
    }
    if (got <= 0) {
        weir_exchange_abandon(exchange);
        return false;
    }
    in->end += (uint32_t)got;
    weir_client_relax(client); /* it has gone on: its time begins anew */
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

/* Sends what can be sent. False if the exchange took another way on it. */
bool weir_exchange_pump_request(struct weir_exchange *exchange)
{
    const struct weir_config_upstream *upstream = weir_exchange_upstream(exchange);
    for (uint32_t rounds = 0; !exchange->request_sent; rounds++) {
        if (weir_exchange_had_turn(exchange, rounds)) {
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
                weir_exchange_set_timer(exchange, upstream->first_byte_timeout_ns);
            } else if (!read_client(exchange)) {
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
