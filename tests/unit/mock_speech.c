/* What providers say, as any reader of JSON reads it. Whether clients of theirs understand it is
 * tested with those clients (tests/system/test_mock_llm.py). */
#include "lab/mock/dialect.h"

#include "lab/mock/visit.h"
#include "unit/helpers.h"
#include "weir/settings.h"

#include <jansson.h>

static char room[WEIR_MOCK_DOCUMENT_BYTES_MAX];
static uint64_t events;

/* The longest text and a model whose every byte is to be escaped. */
static struct weir_mock_answer longest(void)
{
    static char text[4 * WEIR_MOCK_OUTPUT_MAX];
    static char model[WEIR_NAME_BYTES_MAX];
    memset(text, 'x', sizeof text);
    memset(model, '\x01', sizeof model);
    events = 0;
    return (struct weir_mock_answer){
        .number = UINT64_MAX,
        .created_s = 1767323045,
        .model = {model, sizeof model},
        .text = {text, sizeof text},
        .input_tokens = UINT64_C(1) << 40,
        .output_tokens = WEIR_MOCK_OUTPUT_MAX,
        .cut = true,
        .states_usage = true,
        .doubles_usage = true,
        .base64 = true,
        .inputs = 256,
        .events = &events,
    };
}

static const struct weir_mock_speech *const speeches[] = {
    &weir_mock_chat,      &weir_mock_completions, &weir_mock_embeddings,
    &weir_mock_responses, &weir_mock_messages,
};

TEST(the_longest_documents_fit_and_are_json)
{
    struct weir_mock_answer answer = longest();
    for (size_t i = 0; i < COUNT_OF(speeches); i++) {
        struct weir_json json;
        weir_json_init(&json, room, sizeof room);
        speeches[i]->document(&answer, &json);
        assert_false(json.failed);
        json_t *document = json_loadb(json.data, json.bytes, 0, NULL);
        assert_non_null(document);
        json_decref(document);
    }
}

/* Reads `event: name` and `data: document` lines with an empty line behind, and returns how many
 * events there were. */
static int count_events(const struct weir_json *json)
{
    const char *at = json->data;
    const char *end = json->data + json->bytes;
    int count = 0;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        assert_non_null(line_end);
        if (strncmp(at, "event: ", 7) == 0) {
            at = line_end + 1;
            continue;
        }
        assert_memory_equal(at, "data: ", 6);
        if (strncmp(at, "data: [DONE]", 12) != 0) {
            json_t *document = json_loadb(at + 6, (size_t)(line_end - at) - 6, 0, NULL);
            assert_non_null(document);
            json_decref(document);
        }
        assert_true(line_end + 1 < end);
        assert_int_equal(line_end[1], '\n');
        at = line_end + 2;
        count++;
    }
    return count;
}

/* Behind so many bytes that were there before, as when events are gathered. */
#define BEFORE 4096

static void expect_stream(const struct weir_mock_speech *speech,
                          const struct weir_mock_answer *answer)
{
    struct weir_json json;
    weir_json_init(&json, room, sizeof room);
    speech->open(answer, &json);
    int count = count_events(&json);
    assert_false(json.failed);
    uint32_t step = 0;
    bool more = true;
    while (more) {
        weir_json_init(&json, room, sizeof room - BEFORE);
        more = speech->close(answer, &json, step++);
        assert_false(json.failed);
        count += count_events(&json);
        assert_true(step < 10);
    }
    weir_json_init(&json, room, sizeof room - BEFORE);
    speech->text(answer, &json, answer->text);
    assert_false(json.failed);
    assert_int_equal(count_events(&json), 1);
    assert_true(count > 1);
}

TEST(the_longest_events_fit_and_are_json)
{
    struct weir_mock_answer answer = longest();
    for (size_t i = 0; i < COUNT_OF(speeches); i++) {
        if (speeches[i]->open != NULL) {
            expect_stream(speeches[i], &answer);
        }
    }
    answer.tool = weir_slice_of("f");
    answer.text = weir_slice_of("{\"mock\":true}");
    answer.cut = false;
    for (size_t i = 0; i < COUNT_OF(speeches); i++) {
        if (speeches[i]->open != NULL) {
            expect_stream(speeches[i], &answer);
        }
    }
}

TEST(events_of_a_response_are_numbered)
{
    struct weir_mock_answer answer = longest();
    struct weir_json json;
    answer.text.bytes = 8;
    weir_json_init(&json, room, sizeof room);
    weir_mock_responses.open(&answer, &json);
    weir_mock_responses.text(&answer, &json, answer.text);
    assert_int_equal(events, count_events(&json));
    room[json.bytes] = '\0';
    for (int i = 0; i < (int)events; i++) {
        char number[40];
        snprintf(number, sizeof number, "\"sequence_number\":%d,", i);
        assert_non_null(strstr(room, number));
    }
}

/* Where a name leads, through objects only. */
static const char *text_at(json_t *document, const char *outer, const char *inner)
{
    json_t *object = outer == NULL ? document : json_object_get(document, outer);
    return json_string_value(json_object_get(object, inner));
}

TEST(errors_have_the_form_and_the_names_of_their_dialect)
{
    static const struct {
        uint16_t status;
        enum weir_mock_measure of;
        const char *openai_type;
        const char *openai_code;
        const char *anthropic_type;
    } cases[] = {
        {400, WEIR_MEASURES, "invalid_request_error", NULL, "invalid_request_error"},
        {401, WEIR_MEASURES, "invalid_request_error", "invalid_api_key", "authentication_error"},
        {404, WEIR_MEASURES, "invalid_request_error", NULL, "not_found_error"},
        {429, WEIR_MEASURE_TOKENS, "tokens", "rate_limit_exceeded", "rate_limit_error"},
        {429, WEIR_MEASURE_REQUESTS, "requests", "rate_limit_exceeded", "rate_limit_error"},
        {429, WEIR_MEASURES, "requests", "rate_limit_exceeded", "rate_limit_error"},
        {500, WEIR_MEASURES, "server_error", NULL, "api_error"},
        {529, WEIR_MEASURES, "server_error", NULL, "overloaded_error"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_mock_error error = {cases[i].status, cases[i].of, 7, weir_slice_of("why")};
        struct weir_json json;
        weir_json_init(&json, room, sizeof room);
        weir_mock_openai_error(&error, &json);
        json_t *said = json_loadb(json.data, json.bytes, 0, NULL);
        assert_string_equal(text_at(said, "error", "type"), cases[i].openai_type);
        assert_string_equal(text_at(said, "error", "message"), "why");
        const char *code = text_at(said, "error", "code");
        assert_int_equal(code == NULL, cases[i].openai_code == NULL);
        if (code != NULL) {
            assert_string_equal(code, cases[i].openai_code);
        }
        json_decref(said);
        weir_json_init(&json, room, sizeof room);
        weir_mock_anthropic_error(&error, &json);
        said = json_loadb(json.data, json.bytes, 0, NULL);
        assert_string_equal(text_at(said, NULL, "type"), "error");
        assert_string_equal(text_at(said, "error", "type"), cases[i].anthropic_type);
        assert_string_equal(text_at(said, NULL, "request_id"), "req_0000000000000007");
        json_decref(said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_documents_fit_and_are_json),
        cmocka_unit_test(the_longest_events_fit_and_are_json),
        cmocka_unit_test(events_of_a_response_are_numbered),
        cmocka_unit_test(errors_have_the_form_and_the_names_of_their_dialect),
    };
    return cmocka_run_group_tests_name("mock_speech", tests, NULL, NULL);
}
