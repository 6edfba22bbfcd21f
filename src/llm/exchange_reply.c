/* exchange_reply.c - the reply of an LLM: what it says of the account's limits, what was used, and
 * what of it the client is shown. */
#include "llm/llm_exchange.h"

#include "base/clock.h"
#include "weir/retry.h"

#include <assert.h>

/* The lane hears of output in steps of so many tokens: each costs a lock. */
#define PROGRESS_TOKENS UINT32_C(64)

static struct weir_limits_source limits_of(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    const struct weir_origin *origin = exchange->backend->origin;
    const struct weir_upstream *upstream = origin->upstream;
    struct weir_slice host = upstream->config->urls[origin - upstream->origins].address.host;
    return weir_dialect_limits(llm->dialect, host);
}

/* ---- its head ---- */

static struct weir_slice value_of(const struct weir_http1_head *head, const char *data,
                                  enum weir_field_id id)
{
    const struct weir_http1_field *field = weir_http1_find(head, id);
    return field == NULL ? (struct weir_slice){"", 0} : weir_http1_value(data, field);
}

static enum weir_llm_body body_kind(const struct weir_llm *llm, const struct weir_http1_head *head)
{
    const struct weir_exchange *exchange = llm->exchange;
    const char *data = exchange->backend->in.data + exchange->backend->in.begin;
    return weir_llm_body_of(value_of(head, data, WEIR_FIELD_CONTENT_TYPE),
                            value_of(head, data, WEIR_FIELD_CONTENT_ENCODING));
}

static void begin_listening(struct weir_llm *llm, enum weir_llm_body body)
{
    bool rewrites = llm->hides_usage && body == WEIR_LLM_BODY_EVENTS;
    llm->reply = rewrites ? WEIR_LLM_REPLY_REWRITTEN : WEIR_LLM_REPLY_READ;
    struct weir_llm_reply_options options = {.api = (enum weir_llm_api)llm->api,
                                             .body = body,
                                             .hide_usage = rewrites,
                                             .custom = weir_dialect_custom(llm->dialect)};
    weir_llm_reply_init(&llm->parser->reply, &options);
    weir_chunked_init(&llm->parser->chunked, UINT64_MAX);
    llm->told_first = body != WEIR_LLM_BODY_EVENTS;
}

void weir_llm_inform_lane(struct weir_llm *llm, bool streamed)
{
    struct weir_exchange *exchange = llm->exchange;
    const struct weir_limits *limits = &llm->parser->limits;
    struct weir_exchange_end answer = {.status = exchange->backend->head.status};
    struct weir_reply reply = {.outcome = weir_signal_outcome(&answer),
                               .streamed = streamed,
                               .retry_after_known = limits->retry_after_known,
                               .retry_after_ns = limits->retry_after_ns,
                               .retry_after_rounding_ns = limits->retry_after_rounding_ns,
                               .quotas = limits->quotas,
                               .quota_count = limits->quota_count};
    if (weir_exchange_has_place(exchange)) {
        weir_gate_ticket_hear(&exchange->gate_ticket, &reply);
    }
}

enum weir_filter_head weir_llm_hear(struct weir_llm *llm, const struct weir_http1_head *head)
{
    struct weir_exchange *exchange = llm->exchange;
    if (llm->parser == NULL) {
        llm->parser = weir_slab_take(&exchange->worker->llm->parsers);
        if (llm->parser == NULL) {
            return WEIR_FILTER_HEAD_NO_MEMORY;
        }
        llm->parser->held = (struct weir_buffer){0};
    }
    llm->parser->source = limits_of(llm);
    weir_limits_read(&llm->parser->source, head,
                     exchange->backend->in.data + exchange->backend->in.begin, weir_wall_ns(),
                     &llm->parser->limits);
    /* What follows a part of an interim reply must be the rest of it. */
    struct weir_exchange_end end = {.status = head->status};
    if (exchange->request.keeps_body && exchange->reply.progress != WEIR_REPLY_INTERIM_CUT &&
        weir_retry_possible(&end)) {
        return WEIR_FILTER_HEAD_JUDGE;
    }
    enum weir_llm_body body = body_kind(llm, head);
    if (head->status >= 200 && head->status < 300) {
        begin_listening(llm, body);
    }
    weir_llm_inform_lane(llm, body == WEIR_LLM_BODY_EVENTS);
    return llm->reply == WEIR_LLM_REPLY_REWRITTEN ? WEIR_FILTER_HEAD_REWRITE
                                                  : WEIR_FILTER_HEAD_PASS;
}

bool weir_llm_hides(const struct weir_llm *llm, const struct weir_http1_head *head,
                    const struct weir_http1_field *field)
{
    const struct weir_buffer *in = &llm->exchange->backend->in;
    if (head->status >= 200) {
        return weir_limits_hides(&llm->parser->source, in->data + in->begin, field);
    }
    struct weir_limits_source source = limits_of(llm); /* of an interim head */
    return weir_limits_hides(&source, in->data + in->begin, field);
}

/* ---- its body ---- */

/* Makes room for what the client may see of `bytes` and of what is held: in one chunk, however much
 * of it is hidden. */
static bool open_chunk(struct weir_llm *llm, size_t bytes)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_llm_reply_parser *parser = llm->parser;
    struct weir_buffer *reply = &exchange->reply.head;
    size_t most = weir_buffer_bytes(&parser->held) + bytes;
    size_t wanted = weir_buffer_bytes(reply) + most + WEIR_CHUNK_LINE_BYTES_MAX + 2;
    if (wanted > WEIR_BUFFER_HUGE ||
        !weir_buffer_reserve(&exchange->worker->buffers, reply, (uint32_t)wanted)) {
        return false;
    }
    parser->chunk_begin = reply->end;
    if (exchange->client->reply_framing == WEIR_FRAMING_CHUNKED && most > 0) {
        reply->end += (uint32_t)weir_chunk_write_line(reply->data + reply->end, most);
    }
    parser->chunk_data = reply->end;
    return true;
}

/* The line of the chunk is as long as that of the longest; if it need not be, the data moves. */
static void close_chunk(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_llm_reply_parser *parser = llm->parser;
    struct weir_buffer *reply = &exchange->reply.head;
    char line[WEIR_CHUNK_LINE_BYTES_MAX];
    uint32_t bytes = reply->end - parser->chunk_data;
    reply->end = parser->chunk_begin;
    if (bytes == 0) {
        return;
    }
    if (exchange->client->reply_framing != WEIR_FRAMING_CHUNKED) {
        reply->end += bytes;
        return;
    }
    uint32_t line_bytes = (uint32_t)weir_chunk_write_line(line, bytes);
    if (reply->end + line_bytes != parser->chunk_data) {
        memmove(reply->data + reply->end + line_bytes, reply->data + parser->chunk_data, bytes);
    }
    memcpy(reply->data + reply->end, line, line_bytes);
    reply->end += line_bytes + bytes;
    memcpy(reply->data + reply->end, "\r\n", 2);
    reply->end += 2;
}

/* Adds bytes to the chunk. */
static void show(struct weir_llm *llm, struct weir_slice bytes)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_buffer *reply = &exchange->reply.head;
    assert(bytes.bytes <= weir_buffer_room(reply));
    memcpy(reply->data + reply->end, bytes.data, bytes.bytes);
    reply->end += (uint32_t)bytes.bytes;
}

/* Takes the oldest bytes: first those that are held, then those of `input` from `*decided` on. The
 * client is shown them, or not. */
static void take_oldest(struct weir_llm *llm, size_t bytes, bool shows, struct weir_slice input,
                        size_t *decided)
{
    struct weir_buffer *held = &llm->parser->held;
    size_t of_held = weir_buffer_bytes(held) < bytes ? weir_buffer_bytes(held) : bytes;
    struct weir_slice first = {weir_buffer_slice(held).data, of_held};
    struct weir_slice second = {input.data + *decided, bytes - of_held};
    if (shows) {
        show(llm, first);
        show(llm, second);
    }
    weir_buffer_consume(held, of_held);
    *decided += second.bytes;
}

static void pass_and_hide(struct weir_llm *llm, const struct weir_llm_fate *fate,
                          struct weir_slice input, size_t *decided)
{
    take_oldest(llm, fate->pass, true, input, decided);
    take_oldest(llm, fate->hide, false, input, decided);
}

/* What is undecided of `input` is kept until the next one. */
static bool hold(struct weir_llm *llm, struct weir_slice rest)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_buffer *held = &llm->parser->held;
    size_t wanted = weir_buffer_bytes(held) + rest.bytes;
    if (rest.bytes == 0) {
        return true;
    }
    if (wanted > WEIR_BUFFER_LARGE ||
        !weir_buffer_reserve(&exchange->worker->buffers, held, (uint32_t)wanted)) {
        return false;
    }
    memcpy(held->data + held->end, rest.data, rest.bytes);
    held->end += (uint32_t)rest.bytes;
    return true;
}

/* Bytes of the body, without frames. */
static bool listen_to(struct weir_llm *llm, struct weir_slice input)
{
    bool rewrites = llm->reply == WEIR_LLM_REPLY_REWRITTEN;
    struct weir_slice rest = input;
    size_t decided = 0;
    size_t used;
    struct weir_llm_fate fate;
    while (weir_llm_reply_next(&llm->parser->reply, rest, &used, &fate)) {
        rest = (struct weir_slice){rest.data + used, rest.bytes - used};
        if (rewrites) {
            pass_and_hide(llm, &fate, input, &decided);
        }
    }
    return !rewrites || hold(llm, (struct weir_slice){input.data + decided, input.bytes - decided});
}

static bool listen_to_chunks(struct weir_llm *llm, struct weir_slice input)
{
    for (;;) {
        size_t used;
        struct weir_slice data;
        if (weir_chunked_next(&llm->parser->chunked, input, &used, &data) != WEIR_CHUNKED_BODY) {
            return true; /* trailers, if there are any, go no further */
        }
        if (!listen_to(llm, data)) {
            return false;
        }
        input = (struct weir_slice){input.data + used, input.bytes - used};
    }
}

static void tell_progress(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    uint64_t output = weir_llm_reply_usage(&llm->parser->reply).output;
    if (output >= (uint64_t)llm->told + PROGRESS_TOKENS && output <= WEIR_COST_MAX &&
        weir_exchange_has_place(exchange)) {
        llm->told = (uint32_t)output;
        weir_gate_ticket_progress(&exchange->gate_ticket, llm->told);
    }
}

/* Whether some of what the model has generated has come. Where a dialect of the config's own has
 * its text is not known: there the first event counts. */
static bool has_text(const struct weir_llm *llm)
{
    return llm->parser->reply.text_events > 0 || llm->parser->reply.characters > 0 ||
           llm->api == WEIR_LLM_API_CUSTOM;
}

bool weir_llm_listen(struct weir_llm *llm, struct weir_slice bytes)
{
    struct weir_exchange *exchange = llm->exchange;
    if (llm->reply == WEIR_LLM_REPLY_PASSES) {
        return true;
    }
    bool rewrites = llm->reply == WEIR_LLM_REPLY_REWRITTEN;
    if (rewrites && !open_chunk(llm, bytes.bytes)) {
        return false;
    }
    bool chunked = exchange->reply.body.framing == WEIR_FRAMING_CHUNKED;
    bool heard = chunked ? listen_to_chunks(llm, bytes) : listen_to(llm, bytes);
    if (rewrites) {
        close_chunk(llm);
    }
    if (!llm->told_first && has_text(llm)) {
        llm->told_first = true;
        weir_llm_meter_first_token(llm);
    }
    tell_progress(llm);
    return heard;
}

/* Adds the last chunk, which is empty. */
static bool end_chunks(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_buffer *reply = &exchange->reply.head;
    size_t bytes = strlen(WEIR_CHUNK_LAST);
    if (!weir_buffer_reserve(&exchange->worker->buffers, reply,
                             weir_buffer_bytes(reply) + (uint32_t)bytes)) {
        return false;
    }
    memcpy(reply->data + reply->end, WEIR_CHUNK_LAST, bytes);
    reply->end += (uint32_t)bytes;
    return true;
}

bool weir_llm_listen_end(struct weir_llm *llm)
{
    bool rewrites = llm->reply == WEIR_LLM_REPLY_REWRITTEN;
    struct weir_exchange *exchange = llm->exchange;
    if (llm->reply == WEIR_LLM_REPLY_PASSES) {
        return true;
    }
    if (rewrites && !open_chunk(llm, 0)) {
        return false;
    }
    struct weir_llm_fate fate;
    size_t decided = 0;
    while (weir_llm_reply_end(&llm->parser->reply, &fate)) {
        if (rewrites) {
            pass_and_hide(llm, &fate, (struct weir_slice){"", 0}, &decided);
        }
    }
    if (!rewrites) {
        return true;
    }
    close_chunk(llm);
    return exchange->client->reply_framing != WEIR_FRAMING_CHUNKED || end_chunks(llm);
}

/* ---- what it came to ---- */

/* Input that came from the provider's cache counts for less. */
static uint64_t price_input(const struct weir_llm *llm, const struct weir_llm_usage *usage)
{
    const struct weir_exchange *exchange = llm->exchange;
    uint64_t percent = exchange->route->cache_read_percent;
    uint64_t cached = usage->cached < usage->input ? usage->cached : usage->input;
    return usage->input - cached + (cached * percent + 99) / 100;
}

static enum weir_outcome outcome_of(enum weir_llm_error error, enum weir_outcome otherwise)
{
    switch (error) {
    case WEIR_LLM_ERROR_NONE:
        break;
    case WEIR_LLM_ERROR_RATE_LIMIT:
        return WEIR_OUTCOME_RATE_LIMIT;
    case WEIR_LLM_ERROR_OVERLOADED:
    case WEIR_LLM_ERROR_OTHER:
        return WEIR_OUTCOME_SOFT_LOSS;
    case WEIR_LLM_ERROR_REQUEST:
        return WEIR_OUTCOME_CLIENT_ERROR;
    }
    return otherwise;
}

static uint32_t bounded(uint64_t tokens)
{
    return tokens < WEIR_COST_MAX / 2 ? (uint32_t)tokens : WEIR_COST_MAX / 2;
}

void weir_llm_settle(const struct weir_llm *llm, struct weir_result *result)
{
    const struct weir_exchange *exchange = llm->exchange;
    if (llm->reply == WEIR_LLM_REPLY_PASSES) {
        /* The provider has not read a request that was never sent to its end, whatever length it
         * claimed, and does not charge for one that it answered with an error. A request that is
         * still in line has cost nothing anyway. */
        bool unpaid = !exchange->request.sent || exchange->reply.status >= 400;
        result->usage_known = llm->meter != NULL && unpaid;
        return;
    }
    struct weir_llm_usage usage = weir_llm_reply_usage(&llm->parser->reply);
    result->outcome = outcome_of(llm->parser->reply.error, result->outcome);
    /* What could not be read costs what was expected of it. */
    if (usage.known || usage.output > 0) {
        result->usage_known = true;
        result->input = bounded(usage.input_known ? price_input(llm, &usage) : llm->input);
        result->output = bounded(usage.output);
    }
}
