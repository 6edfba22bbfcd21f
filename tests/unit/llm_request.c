#include "llm/llm_request.h"

#include "unit/wire.h"

#include <jansson.h>

static struct text text;
static struct weir_llm_custom custom;

#define CHAT WEIR_LLM_API_OPENAI_CHAT

static void feed_parts(struct weir_llm_request *request, enum weir_llm_api api,
                       struct weir_slice body, size_t first, size_t step)
{
    memset(request, 0x5a, sizeof *request);
    weir_llm_request_init(request, api, api == WEIR_LLM_API_CUSTOM ? &custom : NULL);
    for (size_t at = 0, bytes = first; at < body.bytes; at += bytes, bytes = step) {
        bytes = bytes < body.bytes - at ? bytes : body.bytes - at;
        struct weir_slice part = {body.data + at, bytes};
        weir_llm_request_feed(request, (struct weir_slice){guarded(part), bytes});
    }
    weir_llm_request_feed(request, (struct weir_slice){0});
}

static void expect_same_edits(const struct weir_llm_request *a, const struct weir_llm_request *b)
{
    struct weir_edit ours[WEIR_LLM_EDITS_MAX], theirs[WEIR_LLM_EDITS_MAX];
    size_t count = weir_llm_request_edits(a, BYTES("\"m\""), ours);
    assert_int_equal(weir_llm_request_edits(b, BYTES("\"m\""), theirs), count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ours[i].begin, theirs[i].begin);
        assert_int_equal(ours[i].end, theirs[i].end);
        assert_int_equal(ours[i].text.bytes, theirs[i].text.bytes);
        assert_memory_equal(ours[i].text.data, theirs[i].text.data, ours[i].text.bytes);
    }
}

static void expect_same(const struct weir_llm_request *a, const struct weir_llm_request *b)
{
    bool whole = weir_llm_request_end(a);
    assert_int_equal(whole, weir_llm_request_end(b));
    if (!whole) {
        return;
    }
    assert_int_equal(a->has_model, b->has_model);
    assert_int_equal(a->model_long, b->model_long);
    assert_int_equal(a->model_bytes, b->model_bytes);
    assert_memory_equal(a->model, b->model, a->model_bytes);
    assert_int_equal(a->has_max_tokens, b->has_max_tokens);
    assert_true(a->max_tokens == b->max_tokens);
    assert_true(a->choices == b->choices);
    assert_int_equal(a->stream, b->stream);
    assert_int_equal(a->asks_for_usage, b->asks_for_usage);
    assert_int_equal(a->characters, b->characters);
    assert_int_equal(a->token_count, b->token_count);
    assert_int_equal(weir_llm_request_hides_usage(a), weir_llm_request_hides_usage(b));
    expect_same_edits(a, b);
}

/* At once, byte by byte, and in any two parts. */
static struct weir_llm_request read_any(enum weir_llm_api api, struct weir_slice body)
{
    struct weir_llm_request whole, other;
    feed_parts(&whole, api, body, body.bytes, 1);
    feed_parts(&other, api, body, 1, 1);
    expect_same(&whole, &other);
    size_t step = body.bytes <= 1024 ? 1 : body.bytes / 97;
    for (size_t at = 1; at < body.bytes; at += step) {
        feed_parts(&other, api, body, at, body.bytes);
        expect_same(&whole, &other);
    }
    return whole;
}

static struct weir_llm_request read_body(enum weir_llm_api api, struct weir_slice body)
{
    struct weir_llm_request request = read_any(api, body);
    if (!weir_llm_request_end(&request)) {
        fail_msg("not an object: %.*s", (int)body.bytes, body.data);
    }
    return request;
}

#define expect_model(request, expected) \
    expect_text((struct weir_slice){(request).model, (request).model_bytes}, expected)

/* ---- facts ---- */

TEST(a_chat_completion_says_what_it_wants)
{
    struct weir_llm_request request = read_body(
        CHAT,
        BYTES("{\"model\": \"gpt-4o-mini\", \"messages\": [{\"role\": \"system\", \"content\": "
              "\"Be brief.\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
              "\"H\xc3\xa4?\"}, {\"type\": \"image_url\", \"image_url\": {\"url\": "
              "\"data:image/png;base64,iVBORw0KGgo\"}}]}], \"max_completion_tokens\": 100, "
              "\"n\": 2, \"stream\": true}"));
    assert_true(request.has_model);
    assert_false(request.model_long);
    expect_model(request, "gpt-4o-mini");
    assert_true(request.has_max_tokens);
    assert_int_equal(request.max_tokens, 100);
    assert_int_equal(request.choices, 2);
    assert_true(request.stream);
    assert_false(request.asks_for_usage);
    /* system + Be brief. + user + text + Hä? + image_url */
    assert_int_equal(request.characters, 6 + 9 + 4 + 4 + 3 + 9);
    assert_int_equal(request.token_count, 0);
}

TEST(what_is_not_said_is_not_there)
{
    struct weir_llm_request request = read_body(CHAT, BYTES("{}"));
    assert_false(request.has_model);
    assert_false(request.has_max_tokens);
    assert_false(request.stream);
    assert_false(request.asks_for_usage);
    assert_int_equal(request.max_tokens, 0);
    assert_int_equal(request.choices, 1);
    assert_int_equal(request.characters, 0);
    assert_false(weir_llm_request_hides_usage(&request));
}

TEST(only_an_object_is_a_request)
{
    static const char *const bodies[] = {
        "",
        " ",
        "[]",
        "[{\"model\":\"a\"}]",
        "1",
        "\"model\"",
        "null",
        "{",
        "{\"model\":\"a\"",
        "{\"model\":\"a\"}}",
        "{\"model\":\"a\"} x",
        "{'model':'a'}",
        "{\"a\":\"\xff\"}",
        "model=a&x=y",
    };
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct weir_llm_request request = read_any(CHAT, weir_slice_of(bodies[i]));
        if (weir_llm_request_end(&request)) {
            fail_msg("taken for an object: %s", bodies[i]);
        }
    }
}

TEST(a_body_that_is_wrong_says_where)
{
    struct weir_llm_request request = read_any(CHAT, BYTES("{\"model\":\"a\",}"));
    assert_int_equal(request.walk.scan.fault, WEIR_JSON_FAULT_SYNTAX);
    assert_int_equal(request.walk.scan.offset, 13);
}

TEST(a_model_is_unescaped)
{
    struct weir_llm_request request =
        read_body(CHAT, BYTES("{\"mo\\u0064el\":\"a\\/b\\u00e4\\ud83d\\ude00\\\"\"}"));
    expect_model(request, "a/b\xc3\xa4\xf0\x9f\x98\x80\"");
    request = read_body(CHAT, BYTES("{\"model\":\"\"}"));
    assert_true(request.has_model);
    assert_int_equal(request.model_bytes, 0);
}

TEST(a_model_that_is_too_long_says_so)
{
    for (size_t bytes = WEIR_NAME_BYTES_MAX - 1; bytes <= WEIR_NAME_BYTES_MAX + 1; bytes++) {
        text.bytes = 0;
        add(&text, "{\"model\":\"");
        add_times(&text, 'm', bytes);
        add(&text, "\"}");
        struct weir_llm_request request = read_body(CHAT, slice_of(&text));
        assert_true(request.has_model);
        assert_int_equal(request.model_long, bytes > WEIR_NAME_BYTES_MAX);
        assert_int_equal(request.model_bytes, request.model_long ? WEIR_NAME_BYTES_MAX : bytes);
        assert_int_equal(request.model_place.begin, 9);
        assert_int_equal(request.model_place.end, text.bytes - 1);
    }
}

TEST(a_model_is_a_string_at_the_top)
{
    static const char *const bodies[] = {
        "{\"model\":5}",
        "{\"model\":null}",
        "{\"model\":[\"a\"]}",
        "{\"model\":{\"model\":\"a\"}}",
        "{\"x\":{\"model\":\"a\"}}",
        "{\"model\":\"a\",\"model\":null}",
        "{\"model\":\"a\",\"model\":{\"b\":\"c\"}}",
    };
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct weir_llm_request request = read_body(CHAT, weir_slice_of(bodies[i]));
        assert_false(request.has_model);
    }
}

TEST(of_a_repeated_name_the_last_counts)
{
    struct weir_llm_request request =
        read_body(CHAT, BYTES("{\"model\":\"aaaa\",\"stream\":true,\"n\":3,\"max_tokens\":5,"
                              "\"model\":\"b\",\"stream\":false,\"n\":2,\"max_tokens\":7}"));
    expect_model(request, "b");
    assert_false(request.stream);
    assert_int_equal(request.choices, 2);
    assert_int_equal(request.max_tokens, 7);
    request = read_body(CHAT, BYTES("{\"n\":3,\"max_tokens\":5,\"n\":null,\"max_tokens\":null}"));
    assert_int_equal(request.choices, 1);
    assert_false(request.has_max_tokens);
    assert_int_equal(request.max_tokens, 0);
}

struct limit {
    const char *body;
    bool stated;
    uint64_t max_tokens;
};

TEST(the_limit_has_several_names)
{
    static const struct limit cases[] = {
        {"{\"max_tokens\":1}", true, 1},
        {"{\"max_output_tokens\":2}", true, 2},
        {"{\"max_completion_tokens\":3}", true, 3},
        {"{\"max_tokens\":1,\"max_completion_tokens\":3}", true, 3},
        {"{\"max_completion_tokens\":3,\"max_tokens\":1}", true, 3},
        {"{\"max_output_tokens\":2,\"max_tokens\":1}", true, 2},
        {"{\"max_tokens\":1,\"max_completion_tokens\":null}", true, 1},
        {"{\"max_completion_tokens\":3,\"max_completion_tokens\":\"4\",\"max_tokens\":1}", true, 1},
        {"{\"max_tokens\":0}", true, 0},
        {"{\"max_tokens\":18446744073709551615}", true, UINT64_MAX},
        {"{\"max_tokens\":18446744073709551616}", false, 0},
        {"{\"max_tokens\":-1}", false, 0},
        {"{\"max_tokens\":1.5}", false, 0},
        {"{\"max_tokens\":1e3}", false, 0},
        {"{\"max_tokens\":[5]}", false, 0},
        {"{\"max_tokens\":{\"max_tokens\":5}}", false, 0},
        {"{\"x\":{\"max_tokens\":5}}", false, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_llm_request request = read_body(CHAT, weir_slice_of(cases[i].body));
        if (request.has_max_tokens != cases[i].stated ||
            request.max_tokens != cases[i].max_tokens) {
            fail_msg("%d and %ju for %s", request.has_max_tokens, (uintmax_t)request.max_tokens,
                     cases[i].body);
        }
    }
}

TEST(best_of_counts_where_it_is_more_than_n)
{
    enum weir_llm_api old = WEIR_LLM_API_OPENAI_COMPLETIONS;
    assert_int_equal(read_body(old, BYTES("{\"n\":2,\"best_of\":5}")).choices, 5);
    assert_int_equal(read_body(old, BYTES("{\"best_of\":5,\"n\":8}")).choices, 8);
    assert_int_equal(read_body(old, BYTES("{\"n\":0}")).choices, 1);
    assert_int_equal(read_body(old, BYTES("{\"n\":\"7\"}")).choices, 1);
    assert_int_equal(read_body(old, BYTES("{\"n\":[7]}")).choices, 1);
}

/* ---- characters ---- */

static uint64_t characters_of(struct weir_slice body)
{
    return read_body(CHAT, body).characters;
}

TEST(texts_at_the_top_count_where_they_are_read)
{
    assert_int_equal(characters_of(BYTES("{\"input\":\"abc\"}")), 3);
    assert_int_equal(characters_of(BYTES("{\"prompt\":\"abc\"}")), 3);
    assert_int_equal(characters_of(BYTES("{\"system\":\"abc\"}")), 3);
    assert_int_equal(characters_of(BYTES("{\"instructions\":\"abc\"}")), 3);
    assert_int_equal(characters_of(BYTES("{\"model\":\"abc\"}")), 0);
    assert_int_equal(characters_of(BYTES("{\"user\":\"abc\",\"service_tier\":\"auto\"}")), 0);
    assert_int_equal(characters_of(BYTES("{\"input\":[\"abc\",\"de\"]}")), 5);
}

TEST(texts_that_are_deeper_all_count_and_names_do_not)
{
    assert_int_equal(characters_of(BYTES("{\"system\":[{\"type\":\"text\",\"text\":\"abc\"}]}")),
                     7);
    assert_int_equal(
        characters_of(BYTES("{\"tools\":[{\"function\":{\"parameters\":{\"properties\":{\"city\":"
                            "{\"description\":\"of a person\"}}}}}]}")),
        11);
    assert_int_equal(characters_of(BYTES("{\"messages\":[{\"model\":\"abc\",\"n\":5}]}")), 3);
}

TEST(characters_are_those_of_unicode)
{
    assert_int_equal(characters_of(BYTES("{\"input\":\"\xe4\xb8\xad\xe6\x96\x87\"}")), 2);
    assert_int_equal(characters_of(BYTES("{\"input\":\"\\u4e2d\\n\\ud83d\\ude00\"}")), 3);
}

TEST(urls_of_data_do_not_count)
{
    assert_int_equal(characters_of(BYTES("{\"a\":[\"data:image/png;base64,AAAA\"]}")), 0);
    assert_int_equal(characters_of(BYTES("{\"a\":[\"DATA:,x y z\",\"b\"]}")), 1);
    assert_int_equal(characters_of(BYTES("{\"a\":[\"dat\\u0061:;base64,AAAA\"]}")), 0);
    assert_int_equal(characters_of(BYTES("{\"a\":[\"data\",\"data:\",\"data: x\",\"xdata:y\"]}")),
                     4 + 5 + 7 + 7);
    assert_int_equal(characters_of(BYTES("{\"a\":[\"dada:x\",\"data-:x\"]}")), 13);
    assert_int_equal(characters_of(BYTES("{\"a\":[\"data:\\nx\"]}")), 7);
    assert_int_equal(characters_of(BYTES("{\"data:x\":[\"y\"]}")), 1);
}

TEST(long_base64_does_not_count)
{
    for (size_t bytes = WEIR_LLM_BASE64_BYTES_MIN - 1; bytes <= WEIR_LLM_BASE64_BYTES_MIN + 1;
         bytes++) {
        for (size_t odd = 0; odd < 4; odd++) {
            static const char *const odds[] = {"/", "\\/", "=", " "};
            text.bytes = 0;
            add(&text, "{\"source\":{\"data\":\"");
            add_times(&text, 'A', bytes - 1);
            add(&text, odds[odd]);
            add(&text, "\"}}");
            bool counts = bytes < WEIR_LLM_BASE64_BYTES_MIN || odd == 3;
            assert_int_equal(characters_of(slice_of(&text)), counts ? bytes : 0);
        }
    }
}

TEST(prompts_of_numbers_are_counted_in_tokens)
{
    enum weir_llm_api embeddings = WEIR_LLM_API_OPENAI_EMBEDDINGS;
    assert_int_equal(read_body(embeddings, BYTES("{\"input\":[1,2,3]}")).token_count, 3);
    assert_int_equal(read_body(embeddings, BYTES("{\"input\":[[1,2],[3]]}")).token_count, 3);
    assert_int_equal(read_body(embeddings, BYTES("{\"prompt\":[7]}")).token_count, 1);
    assert_int_equal(read_body(embeddings, BYTES("{\"input\":5,\"x\":[1,2]}")).token_count, 0);
    assert_int_equal(read_body(embeddings, BYTES("{\"input\":[\"abc\",5]}")).token_count, 1);
}

/* ---- edits ---- */

/* The body with its edits, written as the caller does. */
static struct weir_slice edited(const struct weir_llm_request *request, struct weir_slice body,
                                struct weir_slice model)
{
    struct weir_edit edits[WEIR_LLM_EDITS_MAX];
    size_t count = weir_llm_request_edits(request, model, edits);
    uint64_t at = 0;
    text.bytes = 0;
    assert_true(count <= WEIR_LLM_EDITS_MAX);
    for (size_t i = 0; i < count; i++) {
        assert_true(edits[i].begin >= at);
        assert_true(edits[i].end >= edits[i].begin);
        assert_true(edits[i].end <= body.bytes);
        add_bytes(&text, body.data + at, edits[i].begin - at);
        add_bytes(&text, edits[i].text.data, edits[i].text.bytes);
        at = edits[i].end;
    }
    add_bytes(&text, body.data + at, body.bytes - at);
    return slice_of(&text);
}

static void expect_edited(const char *body, const char *expected)
{
    struct weir_llm_request request = read_body(CHAT, weir_slice_of(body));
    struct weir_slice result = edited(&request, weir_slice_of(body), (struct weir_slice){0});
    expect_text(result, expected);
    assert_true(weir_llm_request_hides_usage(&request));
    /* It asks now, so there is nothing more to do. */
    struct weir_llm_request again = read_body(CHAT, result);
    assert_true(again.asks_for_usage);
    assert_false(weir_llm_request_hides_usage(&again));
    json_error_t error;
    json_t *json = json_loadb(result.data, result.bytes, 0, &error);
    assert_non_null(json);
    assert_true(
        json_is_true(json_object_get(json_object_get(json, "stream_options"), "include_usage")));
    json_decref(json);
}

static void expect_untouched(enum weir_llm_api api, const char *body)
{
    struct weir_llm_request request = read_body(api, weir_slice_of(body));
    expect_text(edited(&request, weir_slice_of(body), (struct weir_slice){0}), body);
    assert_false(weir_llm_request_hides_usage(&request));
}

TEST(a_stream_is_made_to_tell_its_usage)
{
    expect_edited("{\"stream\":true}",
                  "{\"stream_options\":{\"include_usage\":true},\"stream\":true}");
    expect_edited(" { \"stream\" : true }\n",
                  " {\"stream_options\":{\"include_usage\":true}, \"stream\" : true }\n");
    expect_edited("{\"stream\":true,\"stream_options\":null}",
                  "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    expect_edited("{\"stream\":true,\"stream_options\":{}}",
                  "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    expect_edited("{\"stream\":true,\"stream_options\": { } }",
                  "{\"stream\":true,\"stream_options\": {\"include_usage\":true } }");
    expect_edited("{\"stream_options\":{\"include_obfuscation\":false},\"stream\":true}",
                  "{\"stream_options\":{\"include_usage\":true,\"include_obfuscation\":false},"
                  "\"stream\":true}");
    expect_edited("{\"stream_options\":{\"x\":{}},\"stream\":true}",
                  "{\"stream_options\":{\"include_usage\":true,\"x\":{}},\"stream\":true}");
}

TEST(a_client_that_does_not_want_its_usage_is_not_asked)
{
    expect_edited("{\"stream\":true,\"stream_options\":{\"include_usage\":false}}",
                  "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    expect_edited(
        "{\"stream\":true,\"stream_options\":{\"a\":[1],\"include_usage\": null ,\"b\":2}}",
        "{\"stream\":true,\"stream_options\":{\"a\":[1],\"include_usage\": true ,\"b\":2}}");
    expect_edited("{\"stream\":true,\"stream_options\":{\"include_usage\":[{}]}}",
                  "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    expect_edited("{\"stream\":true,\"stream_options\":{\"include_usage\":\"tr\\u0075e\"}}",
                  "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    expect_edited("{\"stream\":true,\"stream_options\":{\"include_usage\":-12.5}}",
                  "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
}

TEST(where_options_are_repeated_the_last_ones_are_edited)
{
    expect_edited("{\"stream\":true,\"stream_options\":{\"include_usage\":true},"
                  "\"stream_options\":{}}",
                  "{\"stream\":true,\"stream_options\":{\"include_usage\":true},"
                  "\"stream_options\":{\"include_usage\":true}}");
    expect_edited("{\"stream\":true,\"stream_options\":{\"x\":1},\"stream_options\":null}",
                  "{\"stream\":true,\"stream_options\":{\"x\":1},"
                  "\"stream_options\":{\"include_usage\":true}}");
    expect_edited("{\"stream\":true,\"stream_options\":{\"include_usage\":true,"
                  "\"include_usage\":false}}",
                  "{\"stream\":true,\"stream_options\":{\"include_usage\":true,"
                  "\"include_usage\":true}}");
    expect_edited("{\"stream\":true,\"stream_options\":7,\"stream_options\":{\"x\":1}}",
                  "{\"stream\":true,\"stream_options\":7,"
                  "\"stream_options\":{\"include_usage\":true,\"x\":1}}");
    expect_edited("{\"stream\":false,\"stream\":true}",
                  "{\"stream_options\":{\"include_usage\":true},\"stream\":false,\"stream\":true}");
    expect_untouched(CHAT, "{\"stream\":true,\"stream_options\":{},"
                           "\"stream_options\":{\"include_usage\":true}}");
    expect_untouched(CHAT, "{\"stream\":true,\"stream_options\":{},\"stream_options\":7}");
}

TEST(names_are_what_they_stand_for_in_options_too)
{
    expect_edited("{\"stream\":true,\"stream\\u005foptions\":{\"include\\u005fusage\":false}}",
                  "{\"stream\":true,\"stream\\u005foptions\":{\"include\\u005fusage\":true}}");
}

TEST(what_needs_no_edit_is_left_alone)
{
    expect_untouched(CHAT, "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    expect_untouched(CHAT, "{\"stream\":false}");
    expect_untouched(CHAT, "{\"stream\":\"true\"}");
    expect_untouched(CHAT, "{\"stream\":1}");
    expect_untouched(CHAT, "{\"stream\":[true]}");
    expect_untouched(CHAT, "{}");
    expect_untouched(CHAT, "{\"messages\":[{\"stream\":true}]}");
    expect_untouched(CHAT, "{\"stream\":true,\"stream_options\":true}");
    expect_untouched(CHAT, "{\"stream\":true,\"stream_options\":\"x\"}");
    expect_untouched(CHAT, "{\"stream\":true,\"stream_options\":[{\"include_usage\":false}]}");
}

TEST(only_chat_completions_are_made_to_tell_their_usage)
{
    weir_llm_custom_init(&custom, &(struct weir_llm_paths){.stream = BYTES("stream")});
    for (int api = WEIR_LLM_API_OTHER; api <= WEIR_LLM_API_FREE; api++) {
        if (api != CHAT) {
            expect_untouched((enum weir_llm_api)api, "{\"stream\":true}");
        }
    }
}

TEST(a_model_is_replaced_where_it_stands)
{
    static const char *const cases[][2] = {
        {"{\"model\":\"a\"}", "{\"model\":\"new\"}"},
        {"{\"model\" : \"a\\\"b\" }", "{\"model\" : \"new\" }"},
        {"{\"model\":\"a\",\"model\":\"b\"}", "{\"model\":\"a\",\"model\":\"new\"}"},
        {"{\"model\":\"a\",\"stream\":true}",
         "{\"stream_options\":{\"include_usage\":true},\"model\":\"new\",\"stream\":true}"},
        {"{\"stream\":true,\"stream_options\":{},\"model\":\"a\"}",
         "{\"stream\":true,\"stream_options\":{\"include_usage\":true},\"model\":\"new\"}"},
        {"{\"stream\":true,\"model\":\"a\",\"stream_options\":null}",
         "{\"stream\":true,\"model\":\"new\",\"stream_options\":{\"include_usage\":true}}"},
        {"{\"model\":7}", "{\"model\":7}"},
        {"{}", "{}"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_slice body = weir_slice_of(cases[i][0]);
        struct weir_llm_request request = read_body(CHAT, body);
        expect_text(edited(&request, body, BYTES("\"new\"")), cases[i][1]);
    }
}

/* ---- other calls ---- */

TEST(messages_of_anthropic_are_read)
{
    struct weir_llm_request request = read_body(
        WEIR_LLM_API_ANTHROPIC_MESSAGES,
        BYTES("{\"model\":\"claude-x\",\"max_tokens\":1024,\"system\":\"Be kind.\",\"messages\":[{"
              "\"role\":\"user\",\"content\":\"Hello\"}],\"stream\":true,\"temperature\":0.5}"));
    expect_model(request, "claude-x");
    assert_int_equal(request.max_tokens, 1024);
    assert_true(request.stream);
    assert_int_equal(request.characters, 8 + 4 + 5);
    assert_int_equal(request.choices, 1);
}

TEST(responses_are_read)
{
    struct weir_llm_request request =
        read_body(WEIR_LLM_API_OPENAI_RESPONSES,
                  BYTES("{\"model\":\"gpt-x\",\"instructions\":\"Be brief.\",\"input\":[{\"role\":"
                        "\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"Hi\"}]}],"
                        "\"max_output_tokens\":50,\"stream\":true}"));
    expect_model(request, "gpt-x");
    assert_int_equal(request.max_tokens, 50);
    assert_true(request.stream);
    assert_int_equal(request.characters, 9 + 4 + 10 + 2);
}

TEST(a_custom_request_is_read_by_its_paths)
{
    weir_llm_custom_init(&custom, &(struct weir_llm_paths){
                                      .model = BYTES("options.engine"),
                                      .max_tokens = BYTES("options.*.length"),
                                      .stream = BYTES("live"),
                                  });
    struct weir_llm_request request =
        read_body(WEIR_LLM_API_CUSTOM,
                  BYTES("{\"question\":\"abc\",\"model\":\"no\",\"stream\":true,\"options\":"
                        "{\"engine\":\"e-1\",\"note\":\"x\"}}"));
    expect_model(request, "e-1");
    assert_false(request.stream);
    assert_int_equal(request.characters, 3 + 2 + 1);
    request = read_body(WEIR_LLM_API_CUSTOM,
                        BYTES("{\"live\":true,\"options\":[{\"length\":5},{\"length\":6}]}"));
    assert_true(request.stream);
    assert_true(request.has_max_tokens);
    assert_int_equal(request.max_tokens, 6);
    assert_false(request.has_model);
}

TEST(a_custom_path_that_is_not_given_matches_nothing)
{
    weir_llm_custom_init(&custom, &(struct weir_llm_paths){0});
    struct weir_llm_request request =
        read_body(WEIR_LLM_API_CUSTOM,
                  BYTES("{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":\"deep\","
                        "\"b\":true,\"c\":5}}}}}}}}}"));
    assert_false(request.has_model);
    assert_false(request.stream);
    assert_false(request.has_max_tokens);
    assert_int_equal(request.characters, 4);
}

static void init_custom_without_paths(void *argument)
{
    struct weir_llm_request request;
    (void)argument;
    weir_llm_request_init(&request, WEIR_LLM_API_CUSTOM, NULL);
}

TEST(custom_requests_need_their_paths)
{
    expect_abort(init_custom_without_paths, NULL, "custom");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_completion_says_what_it_wants),
        cmocka_unit_test(what_is_not_said_is_not_there),
        cmocka_unit_test(only_an_object_is_a_request),
        cmocka_unit_test(a_body_that_is_wrong_says_where),
        cmocka_unit_test(a_model_is_unescaped),
        cmocka_unit_test(a_model_that_is_too_long_says_so),
        cmocka_unit_test(a_model_is_a_string_at_the_top),
        cmocka_unit_test(of_a_repeated_name_the_last_counts),
        cmocka_unit_test(the_limit_has_several_names),
        cmocka_unit_test(best_of_counts_where_it_is_more_than_n),
        cmocka_unit_test(texts_at_the_top_count_where_they_are_read),
        cmocka_unit_test(texts_that_are_deeper_all_count_and_names_do_not),
        cmocka_unit_test(characters_are_those_of_unicode),
        cmocka_unit_test(urls_of_data_do_not_count),
        cmocka_unit_test(long_base64_does_not_count),
        cmocka_unit_test(prompts_of_numbers_are_counted_in_tokens),
        cmocka_unit_test(a_stream_is_made_to_tell_its_usage),
        cmocka_unit_test(a_client_that_does_not_want_its_usage_is_not_asked),
        cmocka_unit_test(where_options_are_repeated_the_last_ones_are_edited),
        cmocka_unit_test(names_are_what_they_stand_for_in_options_too),
        cmocka_unit_test(what_needs_no_edit_is_left_alone),
        cmocka_unit_test(only_chat_completions_are_made_to_tell_their_usage),
        cmocka_unit_test(a_model_is_replaced_where_it_stands),
        cmocka_unit_test(messages_of_anthropic_are_read),
        cmocka_unit_test(responses_are_read),
        cmocka_unit_test(a_custom_request_is_read_by_its_paths),
        cmocka_unit_test(a_custom_path_that_is_not_given_matches_nothing),
        cmocka_unit_test(custom_requests_need_their_paths),
    };
    return cmocka_run_group_tests_name("llm_request", tests, NULL, NULL);
}
