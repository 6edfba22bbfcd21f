/* llm_reading.h - what the tests of the reader of LLM replies share: a reply in all the parts in
 * which it may arrive, with the fate of every byte. */
#ifndef WEIR_TESTS_LLM_READING_H
#define WEIR_TESTS_LLM_READING_H

#include "llm/llm_reply.h"
#include "unit/wire.h"

/* ---- reading ---- */

/* What a client gets, and what is known at the end. */
struct result {
    struct text shown;
    struct text hidden;
    struct weir_llm_usage usage;
    uint64_t characters;
    uint64_t text_events;
    bool finished;
    enum weir_llm_error error;
    size_t held_bytes_max;
};

/* The caller's side: bytes that are undecided wait in order. */
struct caller {
    struct text waiting;
    size_t decided;
};

static inline void settle(struct caller *caller, struct text *where, size_t bytes)
{
    assert_true(bytes <= caller->waiting.bytes - caller->decided);
    add_bytes(where, caller->waiting.data + caller->decided, bytes);
    caller->decided += bytes;
}

static inline void settle_fate(struct caller *caller, struct weir_llm_fate fate,
                               struct result *result)
{
    assert_true(fate.pass + fate.hide > 0);
    settle(caller, &result->shown, fate.pass);
    settle(caller, &result->hidden, fate.hide);
}

static inline void feed(struct weir_llm_reply *reply, struct weir_slice part, struct caller *caller,
                        struct result *result)
{
    struct weir_slice rest = {guarded(part), part.bytes};
    for (;;) {
        size_t used = SIZE_MAX;
        struct weir_llm_fate fate = {SIZE_MAX, SIZE_MAX};
        bool more = weir_llm_reply_next(reply, rest, &used, &fate);
        assert_true(used <= rest.bytes);
        add_bytes(&caller->waiting, rest.data, used);
        rest.data += used;
        rest.bytes -= used;
        if (!more) {
            assert_int_equal(rest.bytes, 0);
            assert_int_equal(reply->held_bytes, caller->waiting.bytes - caller->decided);
            return;
        }
        settle_fate(caller, fate, result);
    }
}

static inline void read_parts(const struct weir_llm_reply_options *options, struct weir_slice body,
                              size_t first, size_t step, struct result *result)
{
    static struct caller caller;
    struct weir_llm_reply reply;
    memset(&reply, 0x5a, sizeof reply);
    weir_llm_reply_init(&reply, options);
    caller.waiting.bytes = caller.decided = 0;
    result->shown.bytes = result->hidden.bytes = result->held_bytes_max = 0;
    for (size_t at = 0, bytes = first; at < body.bytes; at += bytes, bytes = step) {
        bytes = bytes < body.bytes - at ? bytes : body.bytes - at;
        feed(&reply, (struct weir_slice){body.data + at, bytes}, &caller, result);
        if (reply.held_bytes > result->held_bytes_max) {
            result->held_bytes_max = reply.held_bytes;
        }
    }
    struct weir_llm_fate fate;
    while (weir_llm_reply_end(&reply, &fate)) {
        settle_fate(&caller, fate, result);
    }
    assert_int_equal(caller.decided, body.bytes);
    assert_int_equal(reply.held_bytes, 0);
    result->usage = weir_llm_reply_usage(&reply);
    result->characters = reply.characters;
    result->text_events = reply.text_events;
    result->finished = reply.finished;
    result->error = reply.error;
}

static inline void expect_same_usage(struct weir_llm_usage a, struct weir_llm_usage b)
{
    assert_int_equal(a.input_known, b.input_known);
    assert_int_equal(a.known, b.known);
    assert_int_equal(a.input, b.input);
    assert_int_equal(a.output, b.output);
    assert_int_equal(a.cached, b.cached);
    assert_int_equal(a.cache_written, b.cache_written);
}

static inline void expect_same(const struct result *a, const struct result *b)
{
    expect_same_usage(a->usage, b->usage);
    assert_int_equal(a->characters, b->characters);
    assert_int_equal(a->text_events, b->text_events);
    assert_int_equal(a->finished, b->finished);
    assert_int_equal(a->error, b->error);
    assert_int_equal(a->shown.bytes, b->shown.bytes);
    assert_memory_equal(a->shown.data, b->shown.data, a->shown.bytes);
    assert_int_equal(a->hidden.bytes, b->hidden.bytes);
    assert_memory_equal(a->hidden.data, b->hidden.data, a->hidden.bytes);
}

/* At once, byte by byte, and in any two parts. */
static inline const struct result *read_with(const struct weir_llm_reply_options *options,
                                             struct weir_slice body)
{
    static struct result whole, other;
    read_parts(options, body, body.bytes, 1, &whole);
    read_parts(options, body, 1, 1, &other);
    expect_same(&whole, &other);
    size_t step = body.bytes <= 1024 ? 1 : body.bytes / 97;
    for (size_t at = 1; at < body.bytes; at += step) {
        read_parts(options, body, at, body.bytes, &other);
        expect_same(&whole, &other);
    }
    return &whole;
}

/* ---- a stream of chat completions ---- */

#define CHAT WEIR_LLM_API_OPENAI_CHAT

#define CHUNK_WITH(delta, more)                                                                 \
    "data: {\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{" \
    "\"index\":0,\"delta\":" delta ",\"finish_reason\":null}]" more "}\n\n"
#define CHUNK(delta) CHUNK_WITH(delta, ",\"usage\":null")
#define USAGE_CHUNK                                                                              \
    "data: {\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[]," \
    "\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29,"              \
    "\"prompt_tokens_details\":{\"cached_tokens\":8},"                                           \
    "\"completion_tokens_details\":{\"reasoning_tokens\":3}}}\n\n"
#define LAST "data: [DONE]\n\n"
#define STREAM_WITH(more)                                         \
    CHUNK_WITH("{\"role\":\"assistant\",\"content\":\"\"}", more) \
    CHUNK_WITH("{\"content\":\"Hello\"}", more) CHUNK_WITH("{\"content\":\" wor\\nld\"}", more)
#define STREAM_START STREAM_WITH(",\"usage\":null")

/* What a client gets that has not asked for the usage. */
#define STREAM_SHOWN STREAM_WITH("")

#endif
