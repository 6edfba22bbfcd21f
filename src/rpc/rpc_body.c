/* rpc_body.c - reads the body of a request as it comes, up to 1 MiB of it, into the client's
 * buffer, and shows it to the filter. Everything runs in the loop of the exchange's worker. */
#include "rpc/rpc_filter.h"

#include "proxy/exchange_steps.h"

#include <assert.h>

/* The most of a body that is held and read. */
#define BODY_BYTES_MAX (1024 * 1024)

static_assert(BODY_BYTES_MAX + 2 * WEIR_BUFFER_MIDDLE <= WEIR_BUFFER_HUGE,
              "a held body has room for what its chunks take");

/* Shows what has been checked and not been shown, without the frames of chunks. False without
 * memory. */
static bool show_more(struct weir_exchange *exchange, struct weir_rpc_exchange *rpc)
{
    const struct weir_buffer *in = &exchange->client->in;
    struct weir_slice rest = {in->data + in->begin + rpc->shown,
                              exchange->request.body_ready - rpc->shown};
    rpc->shown = exchange->request.body_ready;
    if (exchange->request.body.framing != WEIR_FRAMING_CHUNKED) {
        return weir_rpc_body(exchange, rpc, rest, false);
    }
    while (rest.bytes > 0) {
        size_t used;
        struct weir_slice data;
        if (weir_chunked_next(&rpc->chunked, rest, &used, &data) != WEIR_CHUNKED_BODY) {
            break;
        }
        if (!weir_rpc_body(exchange, rpc, data, false)) {
            return false;
        }
        rest = (struct weir_slice){rest.data + used, rest.bytes - used};
    }
    return true;
}

/* How large the client's buffer must be for what comes next of the body. */
static uint32_t capacity_for(const struct weir_exchange *exchange)
{
    static const uint32_t steps[] = {WEIR_BUFFER_MIDDLE, WEIR_BUFFER_LARGE};
    const struct weir_body *body = &exchange->request.body;
    uint64_t have = weir_buffer_bytes(&exchange->client->in);
    uint64_t whole =
        body->framing == WEIR_FRAMING_LENGTH ? have + body->left_bytes : WEIR_BUFFER_HUGE;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (whole <= steps[i]) {
            return (uint32_t)whole;
        }
        if (have < steps[i]) {
            return steps[i];
        }
    }
    return whole < WEIR_BUFFER_HUGE ? (uint32_t)whole : WEIR_BUFFER_HUGE;
}

static void lack_memory(struct weir_exchange *exchange)
{
    weir_exchange_answer(exchange, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                         "Out of memory for this request. Try again.");
}

/* As much of the body is there as will be read: all, or what there is memory for. */
static void finish_body(struct weir_exchange *exchange, struct weir_rpc_exchange *rpc)
{
    weir_client_relax(exchange->client);
    exchange->request.keeps_body = exchange->request.body.state == WEIR_BODY_ENDED;
    if (exchange->request.keeps_body &&
        !weir_rpc_body(exchange, rpc, (struct weir_slice){"", 0}, true)) {
        lack_memory(exchange);
        return;
    }
    weir_rpc_body_read(exchange, rpc);
}

static void read_body(struct weir_exchange *exchange, struct weir_rpc_exchange *rpc)
{
    for (;;) {
        weir_exchange_check_body(exchange);
        if (exchange->request.body.state == WEIR_BODY_FAULT) {
            weir_exchange_answer_body_fault(exchange);
            return;
        }
        if (!show_more(exchange, rpc)) {
            lack_memory(exchange);
            return;
        }
        uint32_t capacity = capacity_for(exchange);
        if (exchange->request.body.state == WEIR_BODY_ENDED ||
            exchange->request.body_ready >= BODY_BYTES_MAX) {
            finish_body(exchange, rpc);
            return;
        }
        enum weir_body_read read = weir_exchange_read_client(exchange, capacity, 0);
        if (read == WEIR_BODY_READ_OVER) {
            return;
        }
        if (read == WEIR_BODY_READ_NO_ROOM && exchange->client->in.capacity < capacity) {
            finish_body(exchange, rpc);
            return;
        }
        if (read != WEIR_BODY_READ_SOME) {
            weir_exchange_watch_client(exchange);
            return;
        }
    }
}

void weir_rpc_read(struct weir_exchange *exchange, void *state)
{
    struct weir_rpc_exchange *rpc = state;
    if (rpc->wants_continue && rpc->has_body) {
        rpc->wants_continue = false;
        if (!weir_exchange_send_continue(exchange)) {
            return;
        }
    }
    read_body(exchange, rpc);
}
