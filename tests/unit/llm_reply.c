#include "llm/llm_reply.h"

#include "unit/llm_reading.h"

static struct text text;
static struct weir_llm_custom custom;

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

#define RESPONSES WEIR_LLM_API_OPENAI_RESPONSES
#define ANTHROPIC WEIR_LLM_API_ANTHROPIC_MESSAGES

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
    size_t used, passed = 0;
    struct weir_llm_fate fate;
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
            while (weir_llm_reply_next(&reply, rest, &used, &fate)) {
                passed += fate.pass;
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
    const struct weir_llm_reply_options count = {.api = WEIR_LLM_API_COUNT,
                                                 .body = WEIR_LLM_BODY_EVENTS};
    expect_estimate(read_with(&count, BYTES(STREAM_START USAGE_CHUNK)), 0);
}

TEST(of_other_calls_the_usage_is_read_by_either_name)
{
    static const struct {
        enum weir_llm_body body;
        const char *text;
        uint64_t input, output, cached;
    } cases[] = {
        /* An image, a transcription, the end of a stream of each, a reranking by its total. */
        {WEIR_LLM_BODY_JSON,
         "{\"data\":[{\"b64_json\":\"iVBORw0\"}],\"usage\":{\"total_tokens\":4260,\"input_tokens\":"
         "50,"
         "\"output_tokens\":4210,\"input_tokens_details\":{\"text_tokens\":10,\"image_tokens\":40}}"
         "}",
         50, 4210, 0},
        {WEIR_LLM_BODY_JSON,
         "{\"text\":\"Imagine\",\"usage\":{\"type\":\"tokens\",\"input_tokens\":14,"
         "\"input_token_details\":{\"text_tokens\":0},\"output_tokens\":45,\"total_tokens\":59}}",
         14, 45, 0},
        {WEIR_LLM_BODY_EVENTS,
         "event: image_generation.completed\ndata: "
         "{\"type\":\"image_generation.completed\",\"usage\":{"
         "\"total_tokens\":100,\"input_tokens\":50,\"output_tokens\":50}}\n\n",
         50, 50, 0},
        {WEIR_LLM_BODY_EVENTS,
         "data: {\"type\":\"transcript.text.delta\",\"delta\":\"I\"}\n\n"
         "data: {\"type\":\"transcript.text.done\",\"text\":\"I "
         "see\",\"usage\":{\"input_tokens\":14,"
         "\"output_tokens\":45}}\n\n",
         14, 45, 0},
        {WEIR_LLM_BODY_JSON, "{\"usage\":{\"total_tokens\":7}}", 7, 0, 0},
        {WEIR_LLM_BODY_JSON,
         "{\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\"prompt_tokens_details\":{"
         "\"cached_tokens\":3}}}",
         7, 2, 3},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct weir_llm_reply_options options = {.api = WEIR_LLM_API_OTHER,
                                                       .body = cases[i].body};
        const struct result *result = read_with(&options, weir_slice_of(cases[i].text));
        expect_usage(result, cases[i].input, cases[i].output);
        assert_int_equal(result->usage.cached, cases[i].cached);
    }
    /* What states its duration, or nothing, has no tokens. */
    const struct weir_llm_reply_options options = {.api = WEIR_LLM_API_OTHER,
                                                   .body = WEIR_LLM_BODY_JSON};
    expect_estimate(
        read_with(&options, BYTES("{\"text\":\"Imagine the wildest\",\"usage\":{\"type\":"
                                  "\"duration\",\"seconds\":9}}")),
        0);
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
        cmocka_unit_test(of_other_calls_the_usage_is_read_by_either_name),
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
