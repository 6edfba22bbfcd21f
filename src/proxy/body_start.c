/* body_start.c - the start of a request's body is read before the request stands in line.
 *
 * A permit is scarce, so a request takes none while its client has not even sent the start of its
 * body. A body of up to 16 KiB is read as a whole, so that nothing depends on the client once there
 * is a permit; one of up to 64 KiB as well where another lane may get the request after the first
 * one; of a longer one only what fits the buffer that the head came in, since waiting with a long
 * body must not cost more memory than waiting. What is needed to enter the line is kept here
 * meanwhile. Four kinds of requests enter at once, as their heads are complete:
 *
 *   - without a gate: there is no permit to hold;
 *   - of a client that waits for a 100: the upstream decides whether the body is sent at all;
 *   - of this process: it sends as fast as it can;
 *   - on a listener with `body_rate: none`: there a body may be a conversation with the upstream,
 *     whose start waits for an answer. */
#include "proxy/exchange_steps.h"

static bool enters_at_once(const struct weir_exchange *exchange)
{
    const struct weir_client *client = exchange->client;
    return exchange->gate == WEIR_CONFIG_NONE || exchange->request.expects ||
           client->loopback != NULL || client->listener->config->body_rate_bytes == WEIR_NEVER;
}

void weir_exchange_drop_start(struct weir_exchange *exchange)
{
    weir_slab_give(&exchange->worker->body_starts, exchange->request.start);
    exchange->request.start = NULL;
}

/* How large the client's buffer must be for the start. A chunked body tells no length. */
static uint32_t capacity_for(const struct weir_exchange *exchange)
{
    const struct weir_body *body = &exchange->request.body;
    if (body->framing == WEIR_FRAMING_CHUNKED) {
        return WEIR_BUFFER_MIDDLE;
    }
    uint64_t whole = weir_buffer_bytes(&exchange->client->in) + body->left_bytes;
    bool keeps = exchange->request.repeatable && exchange->route->upstream_count > 1;
    uint32_t most = keeps ? WEIR_BUFFER_LARGE : WEIR_BUFFER_MIDDLE;
    return whole <= most ? (uint32_t)whole : WEIR_BUFFER_SMALL;
}

/* Whether no more is read before the line: the buffer is full, or there is no memory for a larger
 * one. */
static bool is_full(const struct weir_client *client, uint32_t capacity, enum weir_body_read read)
{
    const struct weir_buffer *in = &client->in;
    return in->capacity < capacity ? read == WEIR_BODY_READ_NO_ROOM
                                   : weir_buffer_bytes(in) == in->capacity;
}

enum body_start_progress {
    START_IS_THERE,
    START_WAITS, /* for the client */
    START_OVER   /* the exchange took another way */
};

static enum body_start_progress read_start(struct weir_exchange *exchange)
{
    struct weir_client *client = exchange->client;
    for (;;) {
        weir_exchange_check_body(exchange);
        if (exchange->request.body.state == WEIR_BODY_FAULT) {
            weir_exchange_answer_body_fault(exchange);
            return START_OVER;
        }
        if (exchange->request.body.state == WEIR_BODY_ENDED) {
            return START_IS_THERE;
        }
        uint32_t capacity = capacity_for(exchange);
        enum weir_body_read read = weir_exchange_read_client(exchange, capacity, 0);
        if (read == WEIR_BODY_READ_OVER) {
            return START_OVER;
        }
        if (read != WEIR_BODY_READ_SOME) {
            return is_full(client, capacity, read) ? START_IS_THERE : START_WAITS;
        }
    }
}

/* Keeps what is needed to enter later. */
static void wait_for_start(struct weir_exchange *exchange, struct weir_slice key,
                           const struct weir_request *request)
{
    struct weir_body_start *start = weir_slab_take(&exchange->worker->body_starts);
    if (start == NULL) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                             "Out of memory for this request. Try again.");
        return;
    }
    start->priority = (uint8_t)request->priority;
    start->key_bytes = (uint16_t)key.bytes;
    memcpy(start->key, key.data, key.bytes);
    exchange->request.start = start;
    weir_exchange_watch_client(exchange);
}

void weir_exchange_begin_start(struct weir_exchange *exchange, struct weir_slice key,
                               struct weir_request *request)
{
    switch (enters_at_once(exchange) ? START_IS_THERE : read_start(exchange)) {
    case START_IS_THERE:
        weir_exchange_enter(exchange, key, request);
        break;
    case START_WAITS:
        wait_for_start(exchange, key, request);
        break;
    case START_OVER:
        break;
    }
}

static void enter(struct weir_exchange *exchange)
{
    struct weir_body_start start = *exchange->request.start;
    struct weir_request request = {.priority = (enum weir_priority)start.priority,
                                   .deadline_ns = exchange->deadline_ns};
    weir_exchange_drop_start(exchange);
    weir_client_relax(exchange->client);
    exchange->arrived_ns = exchange->worker->loop.now_ns; /* the time in line begins */
    weir_exchange_enter(exchange, (struct weir_slice){start.key, start.key_bytes}, &request);
}

void weir_exchange_read_start(struct weir_exchange *exchange)
{
    switch (read_start(exchange)) {
    case START_IS_THERE:
        enter(exchange);
        break;
    case START_WAITS:
        weir_exchange_watch_client(exchange);
        break;
    case START_OVER:
        break;
    }
}
