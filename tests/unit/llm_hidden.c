/* What a client is not shown of an LLM's reply, since it has not asked for it. */
#include "unit/llm_reading.h"

static struct text text;

static const struct result *read_hiding(struct weir_slice body)
{
    const struct weir_llm_reply_options options = {
        .api = CHAT, .body = WEIR_LLM_BODY_EVENTS, .hide_usage = true};
    return read_with(&options, body);
}

static void expect_shown(struct weir_slice body, const char *shown)
{
    const struct result *result = read_hiding(body);
    expect_text(slice_of(&result->shown), shown);
    assert_int_equal(result->shown.bytes + result->hidden.bytes, body.bytes);
    assert_true(result->held_bytes_max <= WEIR_LLM_HELD_BYTES_MAX);
}

TEST(the_chunk_with_the_usage_is_kept_from_the_client)
{
    expect_shown(BYTES(STREAM_START USAGE_CHUNK LAST), STREAM_SHOWN LAST);
    struct weir_llm_usage usage = read_hiding(BYTES(STREAM_START USAGE_CHUNK LAST))->usage;
    assert_true(usage.known);
    assert_int_equal(usage.input, 19);
    assert_int_equal(usage.output, 10);
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
        "data: {\"usage\":null,\"usage\":null}\n\n",
        "data: {\"usage\":null,\"choices\":[],\"usage\":[]}\n\n",
        "data: {\"a\":1,\"usage\":0}\n\n",
        "data: {\"a\":1,\"usage\":false}\n\n",
        "data: {\"a\":1,\"usage\":\"null\"}\n\n",
        "data: {\"a\":1,\"Usage\":null}\n\n",
        "data: {\"a\":1,\"us\\u0061ge\":null}\n\n",
        "data: {\"a\":{\"usage\":null}}\n\n",
        "data: {\"a\":[null,\"usage\",null]}\n\n",
        "data: [{\"a\":1,\"usage\":null}]\n\n",
        "data: {\"a\":\",\\\"usage\\\":null\"}\n\n",
        "data: {\"a\":1,\"usage\":null\n\n",
        "data: {\"a\":1,\"usage\":null}}\n\n",
        "data: {\"a\":1,\"usage\":null} x\n\n",
        "data: {\"a\":1,\"usage\":null,}\n\n",
        "data: {\"usage\":null,,\"a\":1}\n\n",
        "data: {\"a\":1,\"usage\":nul}\n\n",
        "data: {\"a\":1,\ndata: \"usage\":null}\n\n",
        "data: {\"a\":1,\"usage\":null\ndata: }\n\n",
        "data: {\"usage\":null\ndata: ,\"a\":1}\n\n",
        "event: {\"a\":1,\"usage\":null}\n\n",
        "event: {\"choices\":[],\"usage\":{}}\n\n",
        "{\"choices\":[],\"usage\":{}}\n\n",
        LAST,
        ": ping\n\n",
        "\n\n",
        STREAM_SHOWN,
    };
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        expect_shown(weir_slice_of(chunks[i]), chunks[i]);
    }
}

/* With nothing before the object and nothing behind it, and otherwise. */
static void expect_left(const char *object, const char *left)
{
    static const char *const frames[][2] = {
        {"data: ", "\n\n"},
        {"data:", "\r\n\r\n"},
        {"data: ", "\r\r"},
        {"data: \t", " \n\n"},
        {"id: 1\ndata: ", "\nretry: 5\n\n"},
        {"data: ", "\n"},
        {"data: ", ""},
    };
    static struct text expected;
    for (size_t i = 0; i < COUNT_OF(frames); i++) {
        text.bytes = expected.bytes = 0;
        add(&text, STREAM_START);
        add(&text, frames[i][0]);
        add(&text, object);
        add(&text, frames[i][1]);
        add(&expected, STREAM_SHOWN);
        add(&expected, frames[i][0]);
        add(&expected, left);
        add(&expected, frames[i][1]);
        add(&expected, "");
        const struct result *result = read_hiding(slice_of(&text));
        assert_int_equal(result->shown.bytes, expected.bytes);
        assert_memory_equal(result->shown.data, expected.data, expected.bytes);
    }
}

TEST(a_usage_that_is_null_is_kept_from_the_client_with_its_comma)
{
    static const char *const objects[][2] = {
        {"{\"a\":1,\"usage\":null}", "{\"a\":1}"},
        {"{\"a\":1,\"usage\":null,\"b\":2}", "{\"a\":1,\"b\":2}"},
        {"{\"usage\":null,\"b\":2}", "{\"b\":2}"},
        {"{\"usage\":null}", "{}"},
        {"{\"a\": 1, \"usage\": null}", "{\"a\": 1}"},
        {"{\"a\": 1, \"usage\": null, \"b\": 2}", "{\"a\": 1, \"b\": 2}"},
        {"{\"usage\": null, \"b\": 2}", "{\"b\": 2}"},
        {"{ \"a\" : 1 , \"usage\" : null }", "{ \"a\" : 1 }"},
        {"{ \"a\" : 1 , \"usage\" : null , \"b\" : 2 }", "{ \"a\" : 1 , \"b\" : 2 }"},
        {"{ \"usage\" : null , \"b\" : 2 }", "{ \"b\" : 2 }"},
        {"{ \"usage\" : null }", "{ }"},
        {"{\t\t\"usage\"\t:\t\tnull\t,\t\"b\":2}", "{\t\t\"b\":2}"},
        {"{\"choices\":[],\"usage\":null}", "{\"choices\":[]}"},
        {"{\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}",
         "{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}"},
        {"{\"a\":\"\\\"\\\\\",\"usage\":null}", "{\"a\":\"\\\"\\\\\"}"},
        {"{\"a\":{},\"usage\":null,\"b\":{\"usage\":null}}", "{\"a\":{},\"b\":{\"usage\":null}}"},
        {"{\"error\":{\"code\":429},\"usage\":null}", "{\"error\":{\"code\":429}}"},
    };
    for (size_t i = 0; i < COUNT_OF(objects); i++) {
        expect_left(objects[i][0], objects[i][1]);
    }
}

TEST(data_of_several_lines_loses_no_usage_that_is_null)
{
    expect_shown(BYTES("data: {\"a\":1,\ndata: \"b\":2,\"usage\":null}\n\n"),
                 "data: {\"a\":1,\ndata: \"b\":2,\"usage\":null}\n\n");
    expect_shown(BYTES("data\ndata: {\"a\":1,\"usage\":null}\n\n"),
                 "data\ndata: {\"a\":1,\"usage\":null}\n\n");
    expect_shown(BYTES("data: {\"a\":1,\"usage\":null}\ndata:\n\n"),
                 "data: {\"a\":1,\"usage\":null}\ndata:\n\n");
}

TEST(every_event_of_a_stream_loses_its_own)
{
    expect_shown(
        BYTES("data: {\"a\":1,\"usage\":null}\n\ndata: {\"usage\":null,\"a\":2}\r\n\r\n"
              ": ping\n\ndata: {\"a\":3}\n\ndata: {\"a\":4,\"usage\":null}\n\n" USAGE_CHUNK LAST),
        "data: {\"a\":1}\n\ndata: {\"a\":2}\r\n\r\n"
        ": ping\n\ndata: {\"a\":3}\n\ndata: {\"a\":4}\n\n" LAST);
}

/* Spaces that make the member as long as it may be, and longer; before or behind its comma, or in
 * it. */
TEST(a_member_has_a_longest_form_that_is_found)
{
    static const char *const parts[][2] = {
        {"data: {\"a\":1", ",\"usage\":null}\n\n"}, {"data: {\"a\":1,", "\"usage\":null}\n\n"},
        {"data: {\"a\":1,\"usage\"", ":null}\n\n"}, {"data: {\"a\":1,\"usage\":", "null}\n\n"},
        {"data: {", "\"usage\":null}\n\n"},
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        size_t member = strlen("\"usage\":null") + (i < 4);
        for (size_t more = WEIR_LLM_MEMBER_BYTES_MAX - 1; more <= WEIR_LLM_MEMBER_BYTES_MAX + 1;
             more++) {
            text.bytes = 0;
            add(&text, parts[i][0]);
            add_times(&text, ' ', more - member);
            add(&text, parts[i][1]);
            const struct result *result = read_hiding(slice_of(&text));
            bool found = more <= WEIR_LLM_MEMBER_BYTES_MAX;
            assert_int_equal(result->hidden.bytes, !found ? 0 : i < 4 ? more : member);
        }
    }
}

TEST(a_client_that_has_asked_sees_its_usage)
{
    const struct weir_llm_reply_options options = {.api = CHAT, .body = WEIR_LLM_BODY_EVENTS};
    const struct result *result = read_with(&options, BYTES(STREAM_START USAGE_CHUNK LAST));
    assert_int_equal(result->hidden.bytes, 0);
    assert_int_equal(result->held_bytes_max, 0);
}

TEST(only_chat_completions_hide_their_usage)
{
    const struct weir_llm_reply_options options = {
        .api = WEIR_LLM_API_OPENAI_COMPLETIONS, .body = WEIR_LLM_BODY_EVENTS, .hide_usage = true};
    assert_int_equal(read_with(&options, BYTES(USAGE_CHUNK))->hidden.bytes, 0);
}

TEST(an_event_that_is_longer_than_what_may_be_held_is_shown)
{
    static const char *const starts[] = {"data: {\"choices\":[],\"usage\":{},\"id\":\"",
                                         "data: {\"usage\":null,\"id\":\""};
    static const char end[] = "\"}\n\n";
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        for (size_t bytes = WEIR_LLM_HELD_BYTES_MAX - 1; bytes <= WEIR_LLM_HELD_BYTES_MAX + 1;
             bytes++) {
            text.bytes = 0;
            add(&text, starts[i]);
            add_times(&text, 'i', bytes - strlen(starts[i]) - strlen(end));
            add(&text, end);
            const struct result *result = read_hiding(slice_of(&text));
            size_t hidden = i == 0 ? bytes : strlen("\"usage\":null,");
            assert_int_equal(result->hidden.bytes, bytes <= WEIR_LLM_HELD_BYTES_MAX ? hidden : 0);
            assert_true(result->held_bytes_max <= WEIR_LLM_HELD_BYTES_MAX);
        }
    }
}

static void expect_pass(struct weir_llm_reply *reply, struct weir_slice input, size_t bytes,
                        size_t held_bytes)
{
    size_t used;
    struct weir_llm_fate fate;
    assert_int_equal(weir_llm_reply_next(reply, input, &used, &fate), bytes > 0);
    assert_int_equal(used, input.bytes);
    assert_int_equal(fate.pass, bytes);
    assert_int_equal(fate.hide, 0);
    assert_int_equal(reply->held_bytes, held_bytes);
}

TEST(an_event_passes_once_it_is_over_or_cannot_be_read)
{
    struct weir_llm_reply reply;
    weir_llm_reply_init(&reply, &(struct weir_llm_reply_options){
                                    .api = CHAT, .body = WEIR_LLM_BODY_EVENTS, .hide_usage = true});
    expect_pass(&reply, BYTES("data: {\"choices\":[{"), 0, 19);
    expect_pass(&reply, BYTES("}]}\n\ndata: {"), 24, 7);
    expect_pass(&reply, BYTES("<"), 8, 0);
    expect_pass(&reply, BYTES("l"), 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_chunk_with_the_usage_is_kept_from_the_client),
        cmocka_unit_test(whatever_ends_the_lines_a_hidden_event_leaves_nothing_behind),
        cmocka_unit_test(a_hidden_event_at_the_very_end_needs_no_empty_line),
        cmocka_unit_test(nothing_else_is_hidden),
        cmocka_unit_test(a_usage_that_is_null_is_kept_from_the_client_with_its_comma),
        cmocka_unit_test(data_of_several_lines_loses_no_usage_that_is_null),
        cmocka_unit_test(every_event_of_a_stream_loses_its_own),
        cmocka_unit_test(a_member_has_a_longest_form_that_is_found),
        cmocka_unit_test(a_client_that_has_asked_sees_its_usage),
        cmocka_unit_test(only_chat_completions_hide_their_usage),
        cmocka_unit_test(an_event_that_is_longer_than_what_may_be_held_is_shown),
        cmocka_unit_test(an_event_passes_once_it_is_over_or_cannot_be_read),
    };
    return cmocka_run_group_tests_name("llm_hidden", tests, NULL, NULL);
}
