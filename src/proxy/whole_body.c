/* whole_body.c - on some routes all of a request's body is read before the request stands in line,
 * because a filter has to know it: it names the model, or has the key.
 *
 * A body of up to 1 MiB is read into the client's buffer and stays there until no attempt needs it.
 * A longer one, and one for which there is no buffer, goes to a file piece by piece while it
 * arrives (body_spool.c). Either way no permit is held meanwhile, so slow clients cost the others
 * nothing; a client that waits for a 100 gets it from Weir.
 *
 * A loop has WEIR_BUFFERS_HUGE_MAX buffers for bodies of more than 64 KiB. A request takes one, or
 * begins a file, only once 64 KiB of its body are there, and its client has to keep the least rate
 * from 16 KiB on: what is only announced costs nothing. */
#include "proxy/exchange_steps.h"
#include "proxy/spool_space.h"

#include <assert.h>

static_assert(WEIR_BODY_MEMORY_MAX + WEIR_BODY_EDIT_BYTES_MAX + 2 * WEIR_BUFFER_MIDDLE <=
                  WEIR_BUFFER_HUGE,
              "a body in memory has room for changes, and for what its chunks take");

/* The whole length of a body that says it. */
static uint64_t announced_bytes(const struct weir_body *body)
{
    return body->framing == WEIR_FRAMING_LENGTH ? body->bytes + body->left_bytes : 0;
}

/* Whether the body is longer than what is kept in memory; its frames may take a little more. */
static bool is_long(const struct weir_exchange *exchange)
{
    const struct weir_body *body = &exchange->request.body;
    if (body->framing == WEIR_FRAMING_LENGTH) {
        return announced_bytes(body) > WEIR_BODY_MEMORY_MAX;
    }
    return body->chunked.body_bytes > WEIR_BODY_MEMORY_MAX ||
           exchange->request.body_ready > WEIR_BODY_MEMORY_MAX + WEIR_BUFFER_MIDDLE;
}

/* How large the client's buffer must be for what comes next of the body. One larger than most
 * bodies need is taken only when the one before is full, not for a length that is only announced.
 */
static uint32_t capacity_for(const struct weir_exchange *exchange)
{
    const struct weir_body *body = &exchange->request.body;
    uint64_t have = weir_buffer_bytes(&exchange->client->in);
    uint64_t whole = body->framing == WEIR_FRAMING_LENGTH
                         ? have + body->left_bytes + WEIR_BODY_EDIT_BYTES_MAX
                         : WEIR_BUFFER_HUGE;
    uint32_t steps[] = {WEIR_BUFFER_MIDDLE, WEIR_BUFFER_LARGE};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (whole <= steps[i]) {
            return (uint32_t)whole;
        }
        if (have + WEIR_BODY_EDIT_BYTES_MAX < steps[i]) {
            return steps[i];
        }
    }
    if (exchange->request.spool != NULL || is_long(exchange)) { /* a piece of a file */
        return WEIR_BUFFER_LARGE;
    }
    return whole < WEIR_BUFFER_HUGE ? (uint32_t)whole : WEIR_BUFFER_HUGE;
}

/* ---- the end of the body ---- */

void weir_exchange_resize_body(struct weir_exchange *exchange, size_t end, ptrdiff_t by)
{
    struct weir_buffer *in = &exchange->client->in;
    char *rest = in->data + in->begin + end;
    memmove(rest + by, rest, weir_buffer_bytes(in) - end);
    in->end = (uint32_t)(in->end + by);
    exchange->request.body_ready = (uint32_t)(exchange->request.body_ready + by);
    exchange->request.body.bytes = exchange->request.body_ready;
}

/* A body in memory that came in chunks loses their frames, and its trailers. */
static void take_frames_away(struct weir_exchange *exchange)
{
    struct weir_buffer *in = &exchange->client->in;
    uint32_t framed_bytes = exchange->request.body_ready;
    struct weir_chunked chunked;
    weir_chunked_init(&chunked, UINT64_MAX);
    size_t bytes = weir_body_strip_frames(&chunked, in->data + in->begin, framed_bytes);
    weir_exchange_resize_body(exchange, framed_bytes, (ptrdiff_t)bytes - framed_bytes);
    exchange->request.body.framing = WEIR_FRAMING_LENGTH;
    exchange->request.body.left_bytes = 0;
}

void weir_exchange_let_body_go(struct weir_exchange *exchange)
{
    struct weir_buffer *in = &exchange->client->in;
    if (!exchange->request.keeps_body || !exchange->request.sent) {
        return;
    }
    exchange->request.keeps_body = false;
    weir_buffer_consume(in, exchange->request.body_ready);
    exchange->request.body_ready = 0;
    exchange->request.body_sent = 0;
    if (weir_buffer_bytes(in) == 0) {
        weir_buffer_release(&exchange->worker->buffers, in);
    }
    weir_body_spool_drop(exchange);
}

/* All of it is there. */
static void finish_body(struct weir_exchange *exchange)
{
    struct weir_slice rest = {"", 0};
    weir_client_relax(exchange->client);
    exchange->arrived_ns = exchange->worker->loop.now_ns; /* the time in line begins */
    exchange->request.keeps_body = true;
    if (exchange->request.spool != NULL) {
        weir_body_spool_end(exchange);
    } else if (exchange->request.body_ready > 0) {
        if (exchange->request.body.framing == WEIR_FRAMING_CHUNKED) {
            take_frames_away(exchange);
        }
        rest = (struct weir_slice){exchange->client->in.data + exchange->client->in.begin,
                                   exchange->request.body_ready};
    }
    if (!weir_filters_body(exchange, rest, true)) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                             "Out of memory for this request. Try again.");
        return;
    }
    weir_filters_body_read(exchange);
}

/* ---- reading it ---- */

enum body_step {
    BODY_STEP_READ,  /* more of it is to be read */
    BODY_STEP_WAITS, /* for the client or for a disk thread */
    BODY_STEP_DONE   /* it is complete, or the exchange took another way */
};

/* Begins a file for what comes. Nothing of it has been read if there is no memory at all. */
static enum body_step begin_file(struct weir_exchange *exchange)
{
    if (exchange->request.body_ready == 0) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                             "Out of memory for this request. Try again.");
        return BODY_STEP_DONE;
    }
    if (!weir_body_spool_begin(exchange)) {
        return BODY_STEP_DONE;
    }
    weir_body_spool_write(exchange);
    return BODY_STEP_WAITS;
}

/* The client's buffer is full, or there is no memory for a larger one. */
static enum body_step make_room(struct weir_exchange *exchange)
{
    if (exchange->request.spool == NULL || exchange->request.body_ready == 0) {
        return begin_file(exchange);
    }
    weir_body_spool_write(exchange);
    return BODY_STEP_WAITS;
}

static enum body_step read_more(struct weir_exchange *exchange)
{
    const struct weir_buffer *in = &exchange->client->in;
    uint32_t capacity = capacity_for(exchange);
    bool starts_file = exchange->request.spool == NULL && is_long(exchange) &&
                       weir_buffer_bytes(in) + WEIR_BODY_EDIT_BYTES_MAX >= WEIR_BUFFER_LARGE;
    if (starts_file) {
        return begin_file(exchange);
    }
    switch (weir_exchange_read_client(exchange, capacity, WEIR_BODY_EDIT_BYTES_MAX)) {
    case WEIR_BODY_READ_SOME:
        return BODY_STEP_READ;
    case WEIR_BODY_READ_NO_ROOM:
        return make_room(exchange);
    case WEIR_BODY_READ_NOTHING:
        weir_exchange_watch_client(exchange);
        return BODY_STEP_WAITS;
    default:
        return BODY_STEP_DONE;
    }
}

static enum body_step take_step(struct weir_exchange *exchange)
{
    weir_exchange_check_body(exchange);
    if (exchange->request.body.state == WEIR_BODY_FAULT) {
        weir_exchange_answer_body_fault(exchange);
        return BODY_STEP_DONE;
    }
    if (exchange->request.body.state == WEIR_BODY_GOES_ON) {
        return read_more(exchange);
    }
    if (exchange->request.spool != NULL && exchange->request.body_ready > 0) {
        weir_body_spool_write(exchange);
        return BODY_STEP_WAITS;
    }
    finish_body(exchange);
    return BODY_STEP_DONE;
}

void weir_exchange_begin_whole(struct weir_exchange *exchange, bool expects_continue)
{
    const struct weir_body *body = &exchange->request.body;
    uint64_t bytes = announced_bytes(body);
    if (bytes > WEIR_BODY_MEMORY_MAX &&
        !weir_spool_space_has(exchange->worker->spool_space, bytes,
                              exchange->worker_config->config->spool_bytes_max)) {
        weir_body_spool_refuse(exchange);
        return;
    }
    if (expects_continue && body->state == WEIR_BODY_GOES_ON &&
        !weir_exchange_send_continue(exchange)) {
        return;
    }
    weir_exchange_read_whole(exchange);
}

void weir_exchange_read_whole(struct weir_exchange *exchange)
{
    if (exchange->request.spool != NULL && weir_body_spool_is_busy(exchange->request.spool)) {
        return;
    }
    while (take_step(exchange) == BODY_STEP_READ) {
    }
}
