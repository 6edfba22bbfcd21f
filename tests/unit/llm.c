#include "llm/llm.h"

#include "unit/wire.h"

static enum weir_llm_api openai(const char *path)
{
    return weir_llm_api_of(WEIR_LLM_OPENAI, weir_slice_of(path));
}

TEST(the_end_of_a_path_says_which_call_it_is)
{
    assert_int_equal(openai("/v1/chat/completions"), WEIR_LLM_API_OPENAI_CHAT);
    assert_int_equal(openai("/chat/completions"), WEIR_LLM_API_OPENAI_CHAT);
    assert_int_equal(openai("/openai/deployments/x/chat/completions"), WEIR_LLM_API_OPENAI_CHAT);
    assert_int_equal(openai("/v1/completions"), WEIR_LLM_API_OPENAI_COMPLETIONS);
    assert_int_equal(openai("/v1/responses"), WEIR_LLM_API_OPENAI_RESPONSES);
    assert_int_equal(openai("/v1/embeddings"), WEIR_LLM_API_OPENAI_EMBEDDINGS);
    assert_int_equal(openai("/v1/messages"), WEIR_LLM_API_ANTHROPIC_MESSAGES);
    assert_int_equal(openai("/v1/messages/count_tokens"), WEIR_LLM_API_COUNT);
    assert_int_equal(openai("/v1/responses/input_tokens"), WEIR_LLM_API_COUNT);
}

TEST(files_and_moderations_use_nothing_that_is_not_stated)
{
    static const char *const paths[] = {"/v1/files",
                                        "/v1/uploads",
                                        "/v1/uploads/upload_1/parts",
                                        "/v1/uploads/upload_1/complete",
                                        "/v1/batches",
                                        "/v1/messages/batches",
                                        "/v1/moderations/"};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        assert_int_equal(openai(paths[i]), WEIR_LLM_API_FREE);
    }
    assert_int_equal(openai("/uploads/upload_1"), WEIR_LLM_API_FREE);
    assert_int_equal(openai("/openai/v1/uploads/upload_1/cancel/"), WEIR_LLM_API_FREE);
    static const char *const others[] = {"/v1/projects/uploads/x/images/generations",
                                         "/v1/projects/uploads/images",
                                         "/v1/uploads/upload_1/images/generations", "x/uploads/1"};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_int_equal(openai(others[i]), WEIR_LLM_API_OTHER);
    }
    /* What costs does so wherever it stands. */
    assert_int_equal(openai("/uploads/x/chat/completions"), WEIR_LLM_API_OPENAI_CHAT);
}

TEST(a_call_is_the_same_however_its_path_is_spelled)
{
    assert_int_equal(openai("/v1/chat/completions/"), WEIR_LLM_API_OPENAI_CHAT);
    assert_int_equal(openai("/V1/Chat/COMPLETIONS"), WEIR_LLM_API_OPENAI_CHAT);
    assert_int_equal(openai("/v1/Responses//"), WEIR_LLM_API_OPENAI_RESPONSES);
    assert_int_equal(openai("/v1/messageS/"), WEIR_LLM_API_ANTHROPIC_MESSAGES);
}

TEST(both_dialects_know_the_calls_of_the_other)
{
    static const char *const paths[] = {"/v1/chat/completions", "/v1/responses", "/v1/embeddings",
                                        "/v1/completions",      "/v1/messages",  "/v1/models"};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        assert_int_equal(weir_llm_api_of(WEIR_LLM_ANTHROPIC, weir_slice_of(paths[i])),
                         openai(paths[i]));
    }
}

TEST(other_calls_are_not_guessed)
{
    static const char *const paths[] = {
        "",
        "/",
        "/v1/models",
        "/v1/count_tokens",
        "/v1/images/generations",
        "/v1/audio/transcriptions",
        "/v1/complete",
        "/v1/responses/resp_1/cancel",
        "/v1/xresponses",
        "completions",
        "///",
    };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        assert_int_equal(openai(paths[i]), WEIR_LLM_API_OTHER);
    }
}

TEST(in_the_custom_dialect_all_calls_are_alike)
{
    assert_int_equal(weir_llm_api_of(WEIR_LLM_CUSTOM, BYTES("/v1/chat/completions")),
                     WEIR_LLM_API_CUSTOM);
    assert_int_equal(weir_llm_api_of(WEIR_LLM_CUSTOM, BYTES("")), WEIR_LLM_API_CUSTOM);
}

static enum weir_llm_body body(const char *type, const char *encoding)
{
    return weir_llm_body_of(weir_slice_of(type), weir_slice_of(encoding));
}

TEST(a_body_is_read_if_its_type_is_known)
{
    assert_int_equal(body("text/event-stream", ""), WEIR_LLM_BODY_EVENTS);
    assert_int_equal(body("Text/Event-Stream; charset=utf-8", ""), WEIR_LLM_BODY_EVENTS);
    assert_int_equal(body("text/event-stream ;x", ""), WEIR_LLM_BODY_EVENTS);
    assert_int_equal(body("application/json", ""), WEIR_LLM_BODY_JSON);
    assert_int_equal(body("application/JSON;charset=UTF-8", ""), WEIR_LLM_BODY_JSON);
    assert_int_equal(body("application/problem+json", ""), WEIR_LLM_BODY_JSON);
    assert_int_equal(body("", ""), WEIR_LLM_BODY_OPAQUE);
    assert_int_equal(body("+json", ""), WEIR_LLM_BODY_OPAQUE);
    assert_int_equal(body("text/html", ""), WEIR_LLM_BODY_OPAQUE);
    assert_int_equal(body("application/jsonl", ""), WEIR_LLM_BODY_OPAQUE);
    assert_int_equal(body("text/plain; a=application/json", ""), WEIR_LLM_BODY_OPAQUE);
    assert_int_equal(weir_llm_body_of((struct weir_slice){0}, (struct weir_slice){0}),
                     WEIR_LLM_BODY_OPAQUE);
}

TEST(a_body_that_is_compressed_is_not_read)
{
    assert_int_equal(body("text/event-stream", "identity"), WEIR_LLM_BODY_EVENTS);
    assert_int_equal(body("application/json", "Identity"), WEIR_LLM_BODY_JSON);
    assert_int_equal(body("text/event-stream", "gzip"), WEIR_LLM_BODY_OPAQUE);
    assert_int_equal(body("application/json", "br"), WEIR_LLM_BODY_OPAQUE);
    assert_int_equal(body("application/json", "identity, gzip"), WEIR_LLM_BODY_OPAQUE);
}

#define NAME_48 "0123456789_123456789_123456789_123456789_1234567"

TEST(a_path_has_at_most_eight_steps_of_at_most_forty_eight_bytes)
{
    static const char *const good[] = {
        "",  "model",           "a.b",   "usage.input_tokens", "results.*.tokens",
        "*", "a.b.c.d.e.f.g.h", NAME_48, NAME_48 "." NAME_48,  "*.*",
    };
    static const char *const bad[] = {
        ".", "a.", ".a", "a..b", "a.b.", "..", "a.b.c.d.e.f.g.h.i", NAME_48 "x", "a." NAME_48 "x",
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_true(weir_llm_path_valid(weir_slice_of(good[i])));
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (weir_llm_path_valid(weir_slice_of(bad[i]))) {
            fail_msg("\"%s\" is no path", bad[i]);
        }
    }
}

TEST(custom_paths_are_made_ready_whatever_they_share)
{
    struct weir_llm_custom custom;
    struct weir_llm_paths paths = {
        .model = BYTES("params.name"),
        .max_tokens = BYTES("params.limit"),
        .stream = BYTES("stream"),
        .input_tokens = BYTES("stats.*.in"),
        .cached_tokens = BYTES("name"),
    };
    memset(&custom, 0x5a, sizeof custom);
    weir_llm_custom_init(&custom, &paths);
    uint8_t params = weir_json_names_find(&custom.names, BYTES("params"));
    uint8_t name = weir_json_names_find(&custom.names, BYTES("name"));
    uint8_t limit = weir_json_names_find(&custom.names, BYTES("limit"));
    uint8_t stream = weir_json_names_find(&custom.names, BYTES("stream"));
    uint8_t stats = weir_json_names_find(&custom.names, BYTES("stats"));
    uint8_t in = weir_json_names_find(&custom.names, BYTES("in"));
    assert_int_equal(weir_json_names_find(&custom.names, BYTES("*")), WEIR_JSON_OTHER);
    assert_true(params != name && params != stream && limit != stats && in != name);
    assert_true(custom.model == WEIR_JSON_PATH2(params, name));
    assert_true(custom.max_tokens == WEIR_JSON_PATH2(params, limit));
    assert_true(custom.stream == WEIR_JSON_PATH1(stream));
    assert_true(custom.input_tokens == WEIR_JSON_PATH3(stats, WEIR_JSON_ELEMENT, in));
    assert_true(custom.output_tokens == WEIR_JSON_PATH_NOWHERE);
    assert_true(custom.cached_tokens == WEIR_JSON_PATH1(name));
}

TEST(six_paths_of_eight_different_names_fit)
{
    static char names[6][64];
    struct weir_llm_custom custom;
    for (size_t i = 0; i < 6; i++) {
        char c = (char)('a' + i);
        snprintf(names[i], sizeof names[i], "%c0.%c1.%c2.%c3.%c4.%c5.%c6.%c7", c, c, c, c, c, c, c,
                 c);
    }
    struct weir_llm_paths paths = {
        .model = weir_slice_of(names[0]),
        .max_tokens = weir_slice_of(names[1]),
        .stream = weir_slice_of(names[2]),
        .input_tokens = weir_slice_of(names[3]),
        .output_tokens = weir_slice_of(names[4]),
        .cached_tokens = weir_slice_of(names[5]),
    };
    weir_llm_custom_init(&custom, &paths);
    assert_int_not_equal(weir_json_names_find(&custom.names, BYTES("a0")), WEIR_JSON_OTHER);
    assert_int_not_equal(weir_json_names_find(&custom.names, BYTES("f7")), WEIR_JSON_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_path_says_which_call_it_is),
        cmocka_unit_test(files_and_moderations_use_nothing_that_is_not_stated),
        cmocka_unit_test(a_call_is_the_same_however_its_path_is_spelled),
        cmocka_unit_test(both_dialects_know_the_calls_of_the_other),
        cmocka_unit_test(other_calls_are_not_guessed),
        cmocka_unit_test(in_the_custom_dialect_all_calls_are_alike),
        cmocka_unit_test(a_body_is_read_if_its_type_is_known),
        cmocka_unit_test(a_body_that_is_compressed_is_not_read),
        cmocka_unit_test(a_path_has_at_most_eight_steps_of_at_most_forty_eight_bytes),
        cmocka_unit_test(custom_paths_are_made_ready_whatever_they_share),
        cmocka_unit_test(six_paths_of_eight_different_names_fit),
    };
    return cmocka_run_group_tests_name("llm", tests, NULL, NULL);
}
