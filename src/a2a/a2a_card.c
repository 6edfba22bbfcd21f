/* a2a_card.c - a reply that is an agent's card: held until it is complete, and rewritten, so that
 * what it says about where the agent can be reached leads to Weir. A card that cannot be rewritten
 * is answered with 502 instead: it would lead clients past Weir.
 *
 * Every function runs in the loop of the exchange's worker. */
#include "a2a/a2a_exchange.h"

#include "a2a/card.h"
#include "config/match.h"

/* ---- gathering ---- */

static void refuse_card(struct weir_a2a *a2a, const char *detail)
{
    weir_exchange_answer(a2a->exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502, detail);
}

static bool append(struct weir_a2a *a2a, struct weir_slice bytes)
{
    struct weir_buffer *card = &a2a->card;
    size_t wanted = weir_buffer_bytes(card) + bytes.bytes;
    if (bytes.bytes == 0) { /* also of a card that has no memory yet */
        return true;
    }
    if (wanted > WEIR_A2A_CARD_BYTES_MAX ||
        !weir_buffer_reserve(&a2a->exchange->worker->buffers, card, (uint32_t)wanted)) {
        return false;
    }
    memcpy(card->data + card->end, bytes.data, bytes.bytes);
    card->end += (uint32_t)bytes.bytes;
    return true;
}

/* Takes what has come, without its frames. `chunked` is where the last call has stopped. */
static bool take_bytes(struct weir_a2a *a2a, struct weir_slice bytes)
{
    bool framed = a2a->exchange->reply.body.framing == WEIR_FRAMING_CHUNKED;
    while (framed && bytes.bytes > 0) {
        size_t used;
        struct weir_slice data;
        if (weir_chunked_next(&a2a->reader->chunked, bytes, &used, &data) != WEIR_CHUNKED_BODY) {
            return true;
        }
        if (!append(a2a, data)) {
            return false;
        }
        bytes = (struct weir_slice){bytes.data + used, bytes.bytes - used};
    }
    return framed || append(a2a, bytes);
}

/* Reads the card to its end. False if more has to come, or the exchange has been answered. */
static bool gather(struct weir_a2a *a2a)
{
    struct weir_exchange *exchange = a2a->exchange;
    struct weir_body *body = &exchange->reply.body;
    for (;;) {
        struct weir_buffer *in = &exchange->backend->in;
        struct weir_slice fresh = weir_buffer_slice(in);
        fresh.bytes = weir_body_accept(body, fresh);
        if (!take_bytes(a2a, fresh)) {
            refuse_card(a2a, "The agent's card is longer than 256 KiB, or there is no memory for "
                             "it. Have the agent send a shorter one.");
            return false;
        }
        weir_buffer_consume(in, fresh.bytes);
        if (body->state == WEIR_BODY_FAULT) {
            exchange->server_failed = true;
            refuse_card(a2a, weir_http_fault_text(body->fault));
            return false;
        }
        if (body->state == WEIR_BODY_ENDED) {
            return true;
        }
        ssize_t got;
        if (!weir_exchange_read_backend(exchange, &got)) {
            if (got == WEIR_STREAM_AGAIN) {
                return false;
            }
            weir_body_close(body);
        }
    }
}

/* ---- rewriting ---- */

/* Whether messages to that path lead to the agent, by this route or another one. */
static bool leads_to_agent(const void *context, struct weir_slice path)
{
    const struct weir_exchange *exchange = context;
    const struct weir_config *config = exchange->worker_config->config;
    struct weir_match match;
    uint32_t route = weir_matcher_find(config->matcher, path, &match)
                         ? weir_config_find_route(config, match.route, WEIR_CONFIG_METHOD_POST)
                         : WEIR_CONFIG_NONE;
    return route != WEIR_CONFIG_NONE && config->routes[route].a2a &&
           config->routes[route].upstreams[0] == exchange->route->upstreams[0];
}

/* A client that is part of this process comes through no address of its own. */
static struct weir_slice public_url(const struct weir_exchange *exchange)
{
    struct weir_slice own = exchange->client->listener->config->public_url;
    return own.bytes > 0 ? own : exchange->worker_config->config->listen[0].public_url;
}

static struct weir_a2a_place place_of(const struct weir_a2a *a2a)
{
    const struct weir_exchange *exchange = a2a->exchange;
    const struct weir_config_upstream *upstream =
        &exchange->worker_config->config->upstreams[exchange->route->upstreams[0]];
    return (struct weir_a2a_place){.public_url = public_url(exchange),
                                   .stripped = {a2a->stripped, a2a->stripped_bytes},
                                   .prefix = upstream->prefix,
                                   .carries = leads_to_agent,
                                   .context = exchange};
}

/* Logs what a card has lost, so that an operator finds the reason. */
static void report_changes(const struct weir_a2a *a2a, const struct weir_a2a_card_changes *changes)
{
    const struct weir_exchange *exchange = a2a->exchange;
    struct weir_log_names names = {.route = exchange->route->match};
    if (changes->removed > 0 || changes->unsigned_now) {
        weir_log_rate_limited(a2a->settings->changed_cards, exchange->worker->loop.now_ns,
                              WEIR_LOG_WARN, "agent_card_changed", &names,
                              "an agent's card was changed: %u of its interfaces removed, which "
                              "this gateway cannot carry%s",
                              changes->removed,
                              changes->unsigned_now ? "; its signatures dropped, which sign the "
                                                      "card as the agent has it"
                                                    : "");
    }
}

/* Writes the card behind the reply's head, in the frame that the head announces. */
static bool write_card(struct weir_exchange *exchange, struct weir_slice card)
{
    struct weir_buffer *reply = &exchange->reply.head;
    bool framed = exchange->client->reply_framing == WEIR_FRAMING_CHUNKED;
    size_t wanted = weir_buffer_bytes(reply) + card.bytes + WEIR_CHUNK_LINE_BYTES_MAX +
                    strlen(WEIR_CHUNK_TAIL WEIR_CHUNK_LAST);
    if (!weir_buffer_reserve(&exchange->worker->buffers, reply, (uint32_t)wanted)) {
        return false;
    }
    if (framed) {
        reply->end += (uint32_t)weir_chunk_write_line(reply->data + reply->end, card.bytes);
    }
    memcpy(reply->data + reply->end, card.data, card.bytes);
    reply->end += (uint32_t)card.bytes;
    if (framed) {
        static const char end[] = WEIR_CHUNK_TAIL WEIR_CHUNK_LAST;
        memcpy(reply->data + reply->end, end, sizeof end - 1);
        reply->end += (uint32_t)(sizeof end - 1);
    }
    return true;
}

static const char *const card_faults[] = {
    [WEIR_A2A_CARD_INVALID] =
        "What the agent sent as its card is no JSON object, or is compressed. Ask the agent "
        "itself for it.",
    [WEIR_A2A_CARD_NO_INTERFACE] =
        "The agent's card names no address that this gateway can carry: JSON-RPC or HTTP+JSON, "
        "at a path that a route with a2a: true leads to, below the prefix of its upstream. "
        "Correct the url in the card, or the route.",
    [WEIR_A2A_CARD_NO_ROOM] = "The agent's card is too long once it leads to this gateway, or "
                              "there is no memory for it. Try again."};

/* Rewrites the card that has been gathered. False if the exchange has been answered. */
static bool rewrite(struct weir_a2a *a2a)
{
    struct weir_exchange *exchange = a2a->exchange;
    struct weir_a2a_place place = place_of(a2a);
    struct weir_a2a_card_changes changes;
    struct weir_buffer fresh = {0};
    size_t bytes = 0;
    struct weir_slice old = weir_buffer_slice(&a2a->card);
    bool room = weir_buffer_reserve(&exchange->worker->buffers, &fresh, WEIR_A2A_CARD_BYTES_MAX);
    enum weir_a2a_card_result result =
        !room ? WEIR_A2A_CARD_NO_ROOM
              : weir_a2a_card_rewrite(old, !a2a->is_bare, &place, fresh.data,
                                      WEIR_A2A_CARD_BYTES_MAX, &bytes, &changes);
    struct weir_slice card =
        result == WEIR_A2A_CARD_NONE ? old : (struct weir_slice){fresh.data, bytes};
    bool good = result == WEIR_A2A_CARD_DONE || result == WEIR_A2A_CARD_NONE;
    if (good && !write_card(exchange, card)) {
        good = false;
        result = WEIR_A2A_CARD_NO_ROOM;
    }
    weir_buffer_release(&exchange->worker->buffers, &fresh);
    if (!good) {
        refuse_card(a2a, card_faults[result]);
        return false;
    }
    if (result == WEIR_A2A_CARD_DONE) {
        report_changes(a2a, &changes);
    }
    return true;
}

bool weir_a2a_card_judged(struct weir_a2a *a2a)
{
    struct weir_exchange *exchange = a2a->exchange;
    if (a2a->call != WEIR_A2A_CALL_CARD || exchange->state != WEIR_EXCHANGE_JUDGING) {
        return true;
    }
    if (exchange->reply.status >= 300) {
        refuse_card(a2a, "The agent redirects requests for its card, which would lead clients past "
                         "this gateway. Have it serve the card where it is asked for.");
        return false;
    }
    if (a2a->stripped_long) {
        refuse_card(a2a, "The path is too long for an agent's card. Use a shorter one.");
        return false;
    }
    return gather(a2a) && rewrite(a2a);
}
