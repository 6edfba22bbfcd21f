#include "wire/llm_reply.h"

#include "unit/wire.h"

static struct text text;
static struct weir_llm_custom custom;

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

static void settle(struct caller *caller, struct text *where, size_t bytes)
{
    assert_true(bytes <= caller->waiting.bytes - caller->decided);
    add_bytes(where, caller->waiting.data + caller->decided, bytes);
    caller->decided += bytes;
}

static void feed(struct weir_llm_reply *reply, struct weir_slice part, struct caller *caller,
                 struct result *result)
{
    struct weir_slice rest = {guarded(part), part.bytes};
    for (;;) {
        size_t used = SIZE_MAX, bytes = SIZE_MAX;
        enum weir_llm_verdict verdict = weir_llm_reply_next(reply, rest, &used, &bytes);
        assert_true(used <= rest.bytes);
        add_bytes(&caller->waiting, rest.data, used);
        rest.data += used;
        rest.bytes -= used;
        if (verdict == WEIR_LLM_MORE) {
            assert_int_equal(rest.bytes, 0);
            assert_int_equal(reply->held_bytes, caller->waiting.bytes - caller->decided);
            return;
        }
        assert_true(bytes > 0);
        settle(caller, verdict == WEIR_LLM_PASS ? &result->shown : &result->hidden, bytes);
    }
}

static void read_parts(const struct weir_llm_reply_options *options, struct weir_slice body,
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
    size_t bytes;
    bool passes = weir_llm_reply_end(&reply, &bytes) == WEIR_LLM_PASS;
    settle(&caller, passes ? &result->shown : &result->hidden, bytes);
    assert_int_equal(caller.decided, body.bytes);
    result->usage = weir_llm_reply_usage(&reply);
    result->characters = reply.characters;
    result->text_events = reply.text_events;
    result->finished = reply.finished;
    result->error = reply.error;
}

static void expect_same_usage(struct weir_llm_usage a, struct weir_llm_usage b)
{
    assert_int_equal(a.input_known, b.input_known);
    assert_int_equal(a.known, b.known);
    assert_int_equal(a.input, b.input);
    assert_int_equal(a.output, b.output);
    assert_int_equal(a.cached, b.cached);
    assert_int_equal(a.cache_written, b.cache_written);
}

static void expect_same(const struct result *a, const struct result *b)
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
static const struct result *read_with(const struct weir_llm_reply_options *options,
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

static const struct result *read_json(enum weir_llm_api api, struct weir_slice body)
{
    const struct weir_llm_reply_options options = {
        .api = api,
        .body = WEIR_LLM_BODY_JSON,
        .custom = api == WEIR_LLM_API_CUSTOM ? &custom : NULL,
    };
    const struct result *result = read_with(&options, body);
    assert_int_equal(result->shown.bytes, body.bytes);
    return result;
}

static const struct result *read_events(enum weir_llm_api api, struct weir_slice body)
{
    const struct weir_llm_reply_options options = {
        .api = api,
        .body = WEIR_LLM_BODY_EVENTS,
        .custom = api == WEIR_LLM_API_CUSTOM ? &custom : NULL,
    };
    const struct result *result = read_with(&options, body);
    assert_int_equal(result->shown.bytes, body.bytes);
    assert_int_equal(result->held_bytes_max, 0);
    return result;
}

#define CHAT      WEIR_LLM_API_OPENAI_CHAT
#define RESPONSES WEIR_LLM_API_OPENAI_RESPONSES
#define ANTHROPIC WEIR_LLM_API_ANTHROPIC_MESSAGES

static const struct result *read_hiding(struct weir_slice body)
{
    const struct weir_llm_reply_options options = {
        .api = CHAT, .body = WEIR_LLM_BODY_EVENTS, .hide_usage = true};
    return read_with(&options, body);
}

static void expect_usage(const struct result *result, uint64_t input, uint64_t output)
{
    assert_true(result->usage.input_known);
    assert_true(result->usage.known);
    assert_int_equal(result->usage.input, input);
    assert_int_equal(result->usage.output, output);
}

static void expect_estimate(const struct result *result, uint64_t output)
{
    assert_false(result->usage.known);
    assert_int_equal(result->usage.output, output);
}

/* ---- chat completions ---- */

#define CHUNK(delta)                                                                            \
    "data: {\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{" \
    "\"index\":0,\"delta\":" delta ",\"finish_reason\":null}],\"usage\":null}\n\n"
#define USAGE_CHUNK                                                                              \
    "data: {\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[]," \
    "\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29,"              \
    "\"prompt_tokens_details\":{\"cached_tokens\":8},"                                           \
    "\"completion_tokens_details\":{\"reasoning_tokens\":3}}}\n\n"
#define LAST "data: [DONE]\n\n"
#define STREAM_START                                   \
    CHUNK("{\"role\":\"assistant\",\"content\":\"\"}") \
    CHUNK("{\"content\":\"Hello\"}") CHUNK("{\"content\":\" wor\\nld\"}")

TEST(a_chat_completion_states_its_usage)
{
    const struct result *result = read_json(
        CHAT,
        BYTES("{\"id\":\"c-1\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
              "\"content\":\"Hello\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":"
              "19,\"completion_tokens\":10,\"prompt_tokens_details\":{\"cached_tokens\":8}}}"));
    expect_usage(result, 19, 10);
    assert_int_equal(result->usage.cached, 8);
    assert_int_equal(result->usage.cache_written, 0);
    assert_true(result->finished);
    assert_int_equal(result->error, WEIR_LLM_ERROR_NONE);
}

TEST(a_stream_states_its_usage_in_its_last_chunk)
{
    const struct result *result = read_events(CHAT, BYTES(STREAM_START USAGE_CHUNK LAST));
    expect_usage(result, 19, 10);
    assert_int_equal(result->usage.cached, 8);
    assert_true(result->finished);
    assert_int_equal(result->characters, 5 + 7);
    assert_int_equal(result->text_events, 2);
}

TEST(a_stream_that_has_not_stated_its_usage_is_estimated)
{
    const struct result *result = read_events(CHAT, BYTES(STREAM_START));
    expect_estimate(result, 3);
    assert_false(result->usage.input_known);
    assert_false(result->finished);
    expect_estimate(read_events(CHAT, BYTES("")), 0);
    /* As many as there were events, if that is more. */
    result = read_events(CHAT, BYTES(CHUNK("{\"content\":\"\xe4\xb8\xad\"}")
                                         CHUNK("{\"content\":\"\xe6\x96\x87\"}")));
    assert_int_equal(result->characters, 2);
    expect_estimate(result, 2);
}

TEST(all_kinds_of_generated_text_are_estimated)
{
    static const char *const deltas[] = {
        CHUNK("{\"content\":\"abcdefgh\"}"),
        CHUNK("{\"reasoning_content\":\"abcdefgh\"}"),
        CHUNK("{\"reasoning\":\"abcdefgh\"}"),
        CHUNK("{\"refusal\":\"abcdefgh\"}"),
        CHUNK("{\"function_call\":{\"arguments\":\"abcdefgh\"}}"),
        CHUNK("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"abcdefgh\"}}]}"),
        "data: {\"choices\":[{\"text\":\"abcdefgh\"}]}\n\n",
    };
    for (size_t i = 0; i < COUNT_OF(deltas); i++) {
        expect_estimate(read_events(CHAT, weir_slice_of(deltas[i])), 2);
    }
    expect_estimate(read_events(CHAT, BYTES(CHUNK("{\"role\":\"assistant\"}"))), 0);
    expect_estimate(read_events(CHAT, BYTES("data: {\"obfuscation\":\"abcdefgh\"}\n\n")), 0);
}

TEST(a_reply_without_usage_is_estimated_from_its_text)
{
    expect_estimate(
        read_json(CHAT, BYTES("{\"choices\":[{\"message\":{\"content\":\"123456789\"}}]}")), 3);
    expect_estimate(
        read_json(WEIR_LLM_API_OPENAI_COMPLETIONS, BYTES("{\"choices\":[{\"text\":\"12345\"}]}")),
        2);
    expect_estimate(
        read_json(ANTHROPIC, BYTES("{\"content\":[{\"type\":\"text\",\"text\":\"12345\"}]}")), 2);
    expect_estimate(
        read_json(RESPONSES, BYTES("{\"output\":[{\"content\":[{\"type\":\"output_text\","
                                   "\"text\":\"12345\"}]}]}")),
        2);
}

TEST(embeddings_have_no_output)
{
    const struct result *result = read_json(
        WEIR_LLM_API_OPENAI_EMBEDDINGS,
        BYTES("{\"object\":\"list\",\"data\":[{\"embedding\":[0.1,-2.5e-3,1]}],\"usage\":{"
              "\"prompt_tokens\":8,\"total_tokens\":8}}"));
    expect_usage(result, 8, 0);
}

/* ---- numbers ---- */

TEST(the_usage_that_is_stated_last_counts)
{
    expect_usage(
        read_events(CHAT, BYTES("data: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}"
                                "\n\ndata: {\"usage\":{\"prompt_tokens\":3,"
                                "\"completion_tokens\":4}}\n\n")),
        3, 4);
    expect_usage(read_json(CHAT, BYTES("{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2},"
                                       "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}")),
                 3, 4);
    expect_usage(
        read_events(CHAT, BYTES("data: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}"
                                "\n\ndata: {\"usage\":null}\n\ndata: {\"usage\":{}}\n\n")),
        1, 2);
}

TEST(what_is_no_number_of_tokens_is_not_stated)
{
    static const char *const numbers[] = {
        "-1",   "1.5", "2e3",       "18446744073709551616", "1099511627777", "null", "\"7\"",
        "true", "[7]", "{\"a\":7}",
    };
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        text.bytes = 0;
        add(&text, "data: {\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6}}\n\n"
                   "data: {\"usage\":{\"prompt_tokens\":");
        add(&text, numbers[i]);
        add(&text, ",\"completion_tokens\":");
        add(&text, numbers[i]);
        add(&text, "}}\n\n");
        expect_usage(read_events(CHAT, slice_of(&text)), 5, 6);
        struct weir_slice second = slice_of(&text);
        const char *begin = strstr(text.data, "\n\ndata") + 2;
        second.bytes -= (size_t)(begin - text.data);
        second.data = begin;
        expect_estimate(read_events(CHAT, second), 0);
    }
    expect_usage(read_json(CHAT, BYTES("{\"usage\":{\"prompt_tokens\":1099511627776,"
                                       "\"completion_tokens\":0}}")),
                 WEIR_LLM_TOKENS_MAX, 0);
}

TEST(no_more_is_cached_than_was_put_in)
{
    const struct result *result =
        read_json(CHAT, BYTES("{\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1,"
                              "\"prompt_tokens_details\":{\"cached_tokens\":9}}}"));
    assert_int_equal(result->usage.cached, 5);
    result =
        read_json(CHAT, BYTES("{\"usage\":{\"prompt_tokens\":5,\"prompt_cache_hit_tokens\":4}}"));
    assert_int_equal(result->usage.cached, 4);
}

/* ---- what is broken ---- */

TEST(half_an_event_says_nothing)
{
    const struct result *result = read_events(
        CHAT, BYTES("data: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n"
                    "data: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}"));
    expect_usage(result, 1, 2);
    expect_estimate(read_events(CHAT, BYTES("data: {\"usage\":{\"completion_tokens\":4}\n\n")), 0);
    expect_estimate(
        read_events(CHAT, BYTES("data: {\"usage\":{\"completion_tokens\":4}\n\ndata: {}\n\n")), 0);
    expect_estimate(read_json(CHAT, BYTES("{\"usage\":{\"completion_tokens\":4}")), 0);
}

TEST(an_event_that_is_whole_counts_without_its_empty_line)
{
    static const char usage[] =
        "data: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n";
    for (size_t cut = 0; cut <= 2; cut++) {
        expect_usage(read_events(CHAT, (struct weir_slice){usage, sizeof usage - 1 - cut}), 1, 2);
    }
    assert_true(read_events(CHAT, BYTES("data: [DONE]\n"))->finished);
    assert_true(read_events(CHAT, BYTES("data: [DONE]"))->finished);
    assert_false(read_events(CHAT, BYTES("data: [DONE"))->finished);
    assert_false(read_events(CHAT, BYTES("data: [DONE]x\n\n"))->finished);
    assert_false(read_events(CHAT, BYTES("event: [DONE]\n\n"))->finished);
}

TEST(what_is_no_json_says_nothing_and_harms_nobody)
{
    const struct result *result = read_events(
        CHAT, BYTES("data: <html>\n\ndata: {\"usage\":{\"completion_tokens\":4},}\n\ndata: "
                    "\n\nid: 7\n\ndata: [{\"usage\":{\"completion_tokens\":4}}]\n\ndata: 5\n\n"
                    "data: \"usage\"\n\n" STREAM_START USAGE_CHUNK LAST));
    expect_usage(result, 19, 10);
    assert_int_equal(result->error, WEIR_LLM_ERROR_NONE);
    expect_estimate(read_json(CHAT, BYTES("<html>")), 0);
}

TEST(data_of_several_lines_is_one_document)
{
    expect_usage(read_events(CHAT, BYTES("data: {\"usage\":\ndata: {\"prompt_tokens\":1,\ndata:"
                                         "\"completion_tokens\":2}\ndata: }\n\n")),
                 1, 2);
}

TEST(ten_megabytes_without_a_line_feed_pass_and_are_bounded)
{
    struct weir_llm_reply reply;
    size_t used, bytes, passed = 0;
    text.bytes = 0;
    add_times(&text, 'x', 64 << 10);
    struct weir_slice part = {guarded(slice_of(&text)), text.bytes};
    static const char *const starts[] = {"data: {\"choices\":\"", "data: ", "nothing", "event: "};
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        passed = 0;
        weir_llm_reply_init(&reply, &(struct weir_llm_reply_options){.api = CHAT,
                                                                     .body = WEIR_LLM_BODY_EVENTS,
                                                                     .hide_usage = true});
        for (int n = 0; n < 161; n++) {
            struct weir_slice rest = n == 0 ? weir_slice_of(starts[i]) : part;
            while (weir_llm_reply_next(&reply, rest, &used, &bytes) == WEIR_LLM_PASS) {
                passed += bytes;
                rest.data += used;
                rest.bytes -= used;
            }
            assert_true(reply.held_bytes <= WEIR_LLM_HELD_BYTES_MAX);
        }
        assert_int_equal(passed, strlen(starts[i]) + 160 * part.bytes);
    }
}

TEST(an_opaque_body_passes_unread)
{
    const struct weir_llm_reply_options options = {
        .api = CHAT, .body = WEIR_LLM_BODY_OPAQUE, .hide_usage = true};
    const struct result *result = read_with(&options, BYTES(STREAM_START USAGE_CHUNK LAST));
    expect_estimate(result, 0);
    assert_int_equal(result->hidden.bytes, 0);
    assert_false(result->finished);
    const struct weir_llm_reply_options other = {.api = WEIR_LLM_API_OTHER,
                                                 .body = WEIR_LLM_BODY_EVENTS};
    expect_estimate(read_with(&other, BYTES(STREAM_START USAGE_CHUNK)), 0);
}

/* ---- what is hidden ---- */

static void expect_shown(struct weir_slice body, const char *shown)
{
    const struct result *result = read_hiding(body);
    expect_text(slice_of(&result->shown), shown);
    assert_int_equal(result->shown.bytes + result->hidden.bytes, body.bytes);
    assert_true(result->held_bytes_max <= WEIR_LLM_HELD_BYTES_MAX);
}

TEST(the_chunk_with_the_usage_is_kept_from_the_client)
{
    expect_shown(BYTES(STREAM_START USAGE_CHUNK LAST), STREAM_START LAST);
    expect_usage(read_hiding(BYTES(STREAM_START USAGE_CHUNK LAST)), 19, 10);
    expect_shown(BYTES(USAGE_CHUNK), "");
    expect_shown(BYTES(USAGE_CHUNK USAGE_CHUNK LAST USAGE_CHUNK), LAST);
    expect_shown(BYTES("data: {\"usage\":{},\"choices\":[]}\n\n" LAST), LAST);
    expect_shown(BYTES(": note\ndata: {\"usage\":{},\ndata: \"choices\":[ ]}\nid: 5\n\n" LAST),
                 LAST);
}

TEST(whatever_ends_the_lines_a_hidden_event_leaves_nothing_behind)
{
    expect_shown(BYTES("data: 1\r\n\r\ndata: {\"choices\":[],\"usage\":{}}\r\n\r\ndata: 2\r\n\r\n"),
                 "data: 1\r\n\r\ndata: 2\r\n\r\n");
    expect_shown(BYTES("data: 1\r\rdata: {\"choices\":[],\"usage\":{}}\r\rdata: 2\r\r"),
                 "data: 1\r\rdata: 2\r\r");
    expect_shown(BYTES("data: {\"choices\":[],\"usage\":{}}\r\n\r\n\ndata: 2\n\n"),
                 "\ndata: 2\n\n");
    expect_shown(BYTES("data: {\"choices\":[],\"usage\":{}}\n\n\ndata: 2\n\n"), "\ndata: 2\n\n");
}

TEST(a_hidden_event_at_the_very_end_needs_no_empty_line)
{
    expect_shown(BYTES("data: 1\n\ndata: {\"choices\":[],\"usage\":{}}\n"), "data: 1\n\n");
    expect_shown(BYTES("data: 1\n\ndata: {\"choices\":[],\"usage\":{}}"), "data: 1\n\n");
    expect_shown(BYTES("data: 1\n\ndata: {\"choices\":[],\"usage\":{}"),
                 "data: 1\n\ndata: {\"choices\":[],\"usage\":{}");
}

TEST(nothing_else_is_hidden)
{
    static const char *const chunks[] = {
        "data: {\"choices\":[],\"usage\":null}\n\n",
        "data: {\"choices\":[]}\n\n",
        "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n",
        "data: {\"usage\":{\"prompt_tokens\":1}}\n\n",
        "data: {\"choices\":null,\"usage\":{}}\n\n",
        "data: {\"choices\":{},\"usage\":{}}\n\n",
        "data: {\"choices\":[{}],\"usage\":{}}\n\n",
        "data: {\"choices\":[[]],\"usage\":{}}\n\n",
        "data: {\"choices\":[1],\"usage\":{}}\n\n",
        "data: {\"choices\":[],\"usage\":[]}\n\n",
        "data: {\"choices\":[],\"usage\":{}\n\n",
        "data: {\"choices\":[],\"usage\":{}}}\n\n",
        "data: {\"choices\":[],\"usage\":{}} x\n\n",
        "data: [{\"choices\":[],\"usage\":{}}]\n\n",
        "data: {\"x\":{\"choices\":[],\"usage\":{}}}\n\n",
        "data: {\"choices\":[],\"usage\":{},\"error\":{\"code\":429}}\n\n",
        "data: {\"choices\":[{}],\"choices\":[],\"usage\":{}}\n\n",
        "data: {\"choices\":[],\"usage\":{},\"usage\":null}\n\n",
        "event: {\"choices\":[],\"usage\":{}}\n\n",
        "{\"choices\":[],\"usage\":{}}\n\n",
        LAST,
        ": ping\n\n",
        "\n\n",
        STREAM_START,
    };
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        expect_shown(weir_slice_of(chunks[i]), chunks[i]);
    }
}

TEST(a_client_that_has_asked_sees_its_usage)
{
    const struct result *result = read_events(CHAT, BYTES(STREAM_START USAGE_CHUNK LAST));
    assert_int_equal(result->hidden.bytes, 0);
}

TEST(only_chat_completions_hide_their_usage)
{
    const struct weir_llm_reply_options options = {
        .api = WEIR_LLM_API_OPENAI_COMPLETIONS, .body = WEIR_LLM_BODY_EVENTS, .hide_usage = true};
    assert_int_equal(read_with(&options, BYTES(USAGE_CHUNK))->hidden.bytes, 0);
}

TEST(an_event_that_is_longer_than_what_may_be_held_is_shown)
{
    for (size_t bytes = WEIR_LLM_HELD_BYTES_MAX - 1; bytes <= WEIR_LLM_HELD_BYTES_MAX + 1;
         bytes++) {
        static const char start[] = "data: {\"choices\":[],\"usage\":{},\"id\":\"";
        static const char end[] = "\"}\n\n";
        text.bytes = 0;
        add(&text, start);
        add_times(&text, 'i', bytes - strlen(start) - strlen(end));
        add(&text, end);
        const struct result *result = read_hiding(slice_of(&text));
        bool hides = bytes <= WEIR_LLM_HELD_BYTES_MAX;
        assert_int_equal(result->hidden.bytes, hides ? bytes : 0);
        assert_true(result->held_bytes_max <= WEIR_LLM_HELD_BYTES_MAX);
    }
}

TEST(an_event_passes_as_soon_as_it_cannot_be_the_hidden_one)
{
    struct weir_llm_reply reply;
    size_t used, bytes;
    weir_llm_reply_init(&reply, &(struct weir_llm_reply_options){
                                    .api = CHAT, .body = WEIR_LLM_BODY_EVENTS, .hide_usage = true});
    assert_int_equal(weir_llm_reply_next(&reply, BYTES("data: {\"choices\":["), &used, &bytes),
                     WEIR_LLM_MORE);
    assert_int_equal(reply.held_bytes, 18);
    assert_int_equal(weir_llm_reply_next(&reply, BYTES("{\"de"), &used, &bytes), WEIR_LLM_PASS);
    assert_int_equal(bytes, 22);
    assert_int_equal(reply.held_bytes, 0);
    assert_int_equal(weir_llm_reply_next(&reply, BYTES("l"), &used, &bytes), WEIR_LLM_PASS);
    assert_int_equal(bytes, 1);
    /* So does what is no JSON. */
    assert_int_equal(weir_llm_reply_next(&reply, BYTES("\n\ndata: <"), &used, &bytes),
                     WEIR_LLM_PASS);
    assert_int_equal(bytes, 9);
    assert_int_equal(reply.held_bytes, 0);
}

/* ---- responses ---- */

#define RESPONSE_START                                                                          \
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"," \
    "\"status\":\"in_progress\",\"error\":null,\"usage\":null}}\n\n"                            \
    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\","        \
    "\"delta\":\"Hello wor\",\"obfuscation\":\"xxxxxxxx\"}\n\n"                                 \
    "event: response.output_text.done\ndata: {\"type\":\"response.output_text.done\",\"text\":" \
    "\"Hello wor\"}\n\n"
#define RESPONSE_END(type)                                                                      \
    "event: " type "\ndata: {\"type\":\"" type "\",\"response\":{\"id\":\"r\",\"error\":null,"  \
    "\"output\":[{\"content\":[{\"text\":\"Hello wor\"}]}],\"usage\":{\"input_tokens\":36,"     \
    "\"input_tokens_details\":{\"cached_tokens\":12},\"output_tokens\":87,\"total_tokens\":123" \
    "}}}\n\n"

TEST(a_response_states_its_usage)
{
    const struct result *result = read_json(
        RESPONSES,
        BYTES("{\"id\":\"r\",\"status\":\"completed\",\"error\":null,\"output\":[],\"usage\":{"
              "\"input_tokens\":36,\"input_tokens_details\":{\"cached_tokens\":12},"
              "\"output_tokens\":87}}"));
    expect_usage(result, 36, 87);
    assert_int_equal(result->usage.cached, 12);
    assert_true(result->finished);
    assert_int_equal(result->error, WEIR_LLM_ERROR_NONE);
}

TEST(a_streamed_response_states_its_usage_when_it_ends)
{
    const struct result *result = read_events(RESPONSES, BYTES(RESPONSE_START));
    expect_estimate(result, 3);
    assert_false(result->finished);
    static const char *const streams[] = {
        RESPONSE_START RESPONSE_END("response.completed"),
        RESPONSE_START RESPONSE_END("response.incomplete"),
        RESPONSE_START RESPONSE_END("response.failed"),
    };
    for (size_t i = 0; i < COUNT_OF(streams); i++) {
        result = read_events(RESPONSES, weir_slice_of(streams[i]));
        expect_usage(result, 36, 87);
        assert_int_equal(result->usage.cached, 12);
        assert_true(result->finished);
        assert_int_equal(result->error, i == 2 ? WEIR_LLM_ERROR_OTHER : WEIR_LLM_ERROR_NONE);
    }
}

TEST(the_name_of_an_event_is_enough_to_know_its_type)
{
    assert_true(read_events(RESPONSES, BYTES("event: response.completed\ndata: {}\n\n"))->finished);
    assert_true(read_events(RESPONSES, BYTES("data: {}\nevent: response.completed\n\n"))->finished);
    assert_true(read_events(ANTHROPIC, BYTES("event: message_stop\ndata: {}\n\n"))->finished);
    assert_false(read_events(ANTHROPIC, BYTES("event: message_stop\n\n"))->finished);
    const struct result *result = read_events(ANTHROPIC, BYTES("event: error\ndata: oops\n\n"));
    assert_int_equal(result->error, WEIR_LLM_ERROR_OTHER);
    /* But what the document says counts for more. */
    result = read_events(ANTHROPIC, BYTES("event: error\ndata: {\"type\":\"message_stop\"}\n\n"));
    assert_int_equal(result->error, WEIR_LLM_ERROR_NONE);
    assert_true(result->finished);
}

/* ---- messages ---- */

#define MESSAGE_START                                                                            \
    "event: message_start\ndata: "                                                               \
    "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":"                         \
    "[],\"usage\":{\"input_tokens\":25,\"cache_creation_input_tokens\":100,"                     \
    "\"cache_read_input_tokens\":1000,\"output_tokens\":1}}}\n\n"                                \
    "event: ping\ndata: {\"type\": \"ping\"}\n\n"                                                \
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":" \
    "{\"type\":\"text_delta\",\"text\":\"Hello wor\"}}\n\n"
#define MESSAGE_DELTA(usage)                                                \
    "event: message_delta\ndata: "                                          \
    "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}," \
    "\"usage\":" usage "}\n\n"
#define MESSAGE_STOP "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

TEST(a_message_states_its_usage)
{
    const struct result *result = read_json(
        ANTHROPIC, BYTES("{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\"}"
                         "],\"usage\":{\"input_tokens\":25,\"cache_creation_input_tokens\":"
                         "100,\"cache_read_input_tokens\":1000,\"output_tokens\":15}}"));
    expect_usage(result, 1125, 15);
    assert_int_equal(result->usage.cached, 1000);
    assert_int_equal(result->usage.cache_written, 100);
    assert_true(result->finished);
}

TEST(a_streamed_message_states_its_input_first_and_its_output_last)
{
    const struct result *result = read_events(ANTHROPIC, BYTES(MESSAGE_START));
    assert_true(result->usage.input_known);
    assert_int_equal(result->usage.input, 1125);
    assert_int_equal(result->usage.cached, 1000);
    assert_int_equal(result->usage.cache_written, 100);
    expect_estimate(result, 3);
    assert_false(result->finished);

    result = read_events(ANTHROPIC, BYTES(MESSAGE_START MESSAGE_DELTA("{\"output_tokens\":15}")));
    expect_usage(result, 1125, 15);
    assert_false(result->finished);
    result = read_events(ANTHROPIC,
                         BYTES(MESSAGE_START MESSAGE_DELTA("{\"output_tokens\":15}") MESSAGE_STOP));
    expect_usage(result, 1125, 15);
    assert_true(result->finished);
}

TEST(cumulative_usage_is_not_added_up)
{
    const struct result *result = read_events(
        ANTHROPIC,
        BYTES(MESSAGE_START MESSAGE_DELTA("{\"output_tokens\":15}") MESSAGE_DELTA(
            "{\"input_tokens\":30,\"cache_read_input_tokens\":0,\"output_tokens\":40}")));
    expect_usage(result, 130, 40);
    assert_int_equal(result->usage.cached, 0);
}

TEST(thinking_and_tool_calls_are_generated_text_too)
{
    expect_estimate(
        read_events(ANTHROPIC, BYTES("data: {\"delta\":{\"thinking\":\"12345678\"}}\n\n")), 2);
    expect_estimate(
        read_events(ANTHROPIC, BYTES("data: {\"delta\":{\"partial_json\":\"12345678\"}}\n\n")), 2);
    expect_estimate(
        read_events(ANTHROPIC, BYTES("data: {\"delta\":{\"signature\":\"12345678\"}}\n\n")), 0);
}

/* ---- errors ---- */

struct failure {
    enum weir_llm_api api;
    const char *event;
    enum weir_llm_error error;
};

TEST(errors_in_the_middle_of_a_stream_are_noticed)
{
    static const struct failure cases[] = {
        {ANTHROPIC,
         "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
         "\"message\":\"Overloaded\"}}\n\n",
         WEIR_LLM_ERROR_OVERLOADED},
        {ANTHROPIC, "data: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\"}}\n\n",
         WEIR_LLM_ERROR_RATE_LIMIT},
        {ANTHROPIC, "data: {\"error\":{\"type\":\"api_error\"},\"type\":\"error\"}\n\n",
         WEIR_LLM_ERROR_OTHER},
        {ANTHROPIC, "data: {\"type\":\"error\"}\n\n", WEIR_LLM_ERROR_OTHER},
        {ANTHROPIC, "data: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\"}}\n\n",
         WEIR_LLM_ERROR_REQUEST},
        {CHAT, "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\",\"code\":null}}\n\n",
         WEIR_LLM_ERROR_OTHER},
        {CHAT, "data: {\"error\":{\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}\n\n",
         WEIR_LLM_ERROR_RATE_LIMIT},
        {CHAT, "data: {\"error\":{\"code\":\"insufficient_quota\",\"type\":\"x\"}}\n\n",
         WEIR_LLM_ERROR_RATE_LIMIT},
        {CHAT, "data: {\"error\":{\"code\":429,\"message\":\"x\"}}\n\n", WEIR_LLM_ERROR_RATE_LIMIT},
        {CHAT, "data: {\"error\":{\"code\":503}}\n\n", WEIR_LLM_ERROR_OVERLOADED},
        {CHAT, "data: {\"error\":{\"code\":400}}\n\n", WEIR_LLM_ERROR_REQUEST},
        {CHAT, "data: {\"error\":{\"code\":1429}}\n\n", WEIR_LLM_ERROR_OTHER},
        {CHAT, "data: {\"error\":{\"code\":\"429\"}}\n\n", WEIR_LLM_ERROR_RATE_LIMIT},
        {CHAT, "data: {\"error\":\"out of memory\"}\n\n", WEIR_LLM_ERROR_OTHER},
        {CHAT, "data: {\"error\":{\"code\":\"rate_limit_exceeded_and_much_more_than_that\"}}\n\n",
         WEIR_LLM_ERROR_OTHER},
        {RESPONSES,
         "data: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"x\"}\n\n",
         WEIR_LLM_ERROR_RATE_LIMIT},
        {RESPONSES, "data: {\"code\":\"server_error\",\"type\":\"error\"}\n\n",
         WEIR_LLM_ERROR_OTHER},
        {RESPONSES,
         "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":"
         "\"rate_limit_exceeded\"},\"usage\":null}}\n\n",
         WEIR_LLM_ERROR_RATE_LIMIT},
        {CHAT, "data: {\"error\":null,\"choices\":[]}\n\n", WEIR_LLM_ERROR_NONE},
        {CHAT, "data: {\"x\":{\"error\":{}}}\n\n", WEIR_LLM_ERROR_NONE},
        {RESPONSES, "data: {\"type\":\"response.created\",\"code\":\"429\"}\n\n",
         WEIR_LLM_ERROR_NONE},
        {ANTHROPIC, "data: {\"type\":\"error", WEIR_LLM_ERROR_NONE},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct result *result = read_events(cases[i].api, weir_slice_of(cases[i].event));
        if (result->error != cases[i].error) {
            fail_msg("expected %d, got %d for %s", cases[i].error, result->error, cases[i].event);
        }
    }
}

TEST(an_error_leaves_what_was_known)
{
    const struct result *result =
        read_events(ANTHROPIC, BYTES(MESSAGE_START
                                     "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                                     "\"overloaded_error\"}}\n\n"));
    assert_int_equal(result->error, WEIR_LLM_ERROR_OVERLOADED);
    assert_int_equal(result->usage.input, 1125);
    expect_estimate(result, 3);
    assert_false(result->finished);
}

/* ---- the custom dialect ---- */

TEST(a_custom_reply_is_read_by_its_paths)
{
    weir_llm_custom_init(&custom, &(struct weir_llm_paths){
                                      .input_tokens = BYTES("meta.in"),
                                      .output_tokens = BYTES("meta.out"),
                                      .cached_tokens = BYTES("meta.cache.*.hit"),
                                  });
    const struct result *result =
        read_json(WEIR_LLM_API_CUSTOM, BYTES("{\"answer\":\"x\",\"meta\":{\"in\":7,\"out\":9,"
                                             "\"cache\":[{\"hit\":1},{\"hit\":2}]}}"));
    expect_usage(result, 7, 9);
    assert_int_equal(result->usage.cached, 2);
    assert_true(result->finished);
    result = read_events(WEIR_LLM_API_CUSTOM,
                         BYTES("data: {\"t\":\"a\"}\n\ndata: {\"meta\":{\"in\":7,\"out\":9}}\n\n"));
    expect_usage(result, 7, 9);
}

TEST(a_custom_stream_is_estimated_by_its_events)
{
    weir_llm_custom_init(&custom, &(struct weir_llm_paths){.output_tokens = BYTES("out")});
    const struct result *result =
        read_events(WEIR_LLM_API_CUSTOM,
                    BYTES("data: {\"t\":\"a\"}\n\n: ping\n\ndata: {\"t\":\"b\"}\n\n" LAST));
    expect_estimate(result, 2);
    assert_true(result->finished);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_completion_states_its_usage),
        cmocka_unit_test(a_stream_states_its_usage_in_its_last_chunk),
        cmocka_unit_test(a_stream_that_has_not_stated_its_usage_is_estimated),
        cmocka_unit_test(all_kinds_of_generated_text_are_estimated),
        cmocka_unit_test(a_reply_without_usage_is_estimated_from_its_text),
        cmocka_unit_test(embeddings_have_no_output),
        cmocka_unit_test(the_usage_that_is_stated_last_counts),
        cmocka_unit_test(what_is_no_number_of_tokens_is_not_stated),
        cmocka_unit_test(no_more_is_cached_than_was_put_in),
        cmocka_unit_test(half_an_event_says_nothing),
        cmocka_unit_test(an_event_that_is_whole_counts_without_its_empty_line),
        cmocka_unit_test(what_is_no_json_says_nothing_and_harms_nobody),
        cmocka_unit_test(data_of_several_lines_is_one_document),
        cmocka_unit_test(ten_megabytes_without_a_line_feed_pass_and_are_bounded),
        cmocka_unit_test(an_opaque_body_passes_unread),
        cmocka_unit_test(the_chunk_with_the_usage_is_kept_from_the_client),
        cmocka_unit_test(whatever_ends_the_lines_a_hidden_event_leaves_nothing_behind),
        cmocka_unit_test(a_hidden_event_at_the_very_end_needs_no_empty_line),
        cmocka_unit_test(nothing_else_is_hidden),
        cmocka_unit_test(a_client_that_has_asked_sees_its_usage),
        cmocka_unit_test(only_chat_completions_hide_their_usage),
        cmocka_unit_test(an_event_that_is_longer_than_what_may_be_held_is_shown),
        cmocka_unit_test(an_event_passes_as_soon_as_it_cannot_be_the_hidden_one),
        cmocka_unit_test(a_response_states_its_usage),
        cmocka_unit_test(a_streamed_response_states_its_usage_when_it_ends),
        cmocka_unit_test(the_name_of_an_event_is_enough_to_know_its_type),
        cmocka_unit_test(a_message_states_its_usage),
        cmocka_unit_test(a_streamed_message_states_its_input_first_and_its_output_last),
        cmocka_unit_test(cumulative_usage_is_not_added_up),
        cmocka_unit_test(thinking_and_tool_calls_are_generated_text_too),
        cmocka_unit_test(errors_in_the_middle_of_a_stream_are_noticed),
        cmocka_unit_test(an_error_leaves_what_was_known),
        cmocka_unit_test(a_custom_reply_is_read_by_its_paths),
        cmocka_unit_test(a_custom_stream_is_estimated_by_its_events),
    };
    return cmocka_run_group_tests_name("llm_reply", tests, NULL, NULL);
}
