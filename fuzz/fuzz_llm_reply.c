/* Any bytes as the body of an LLM reply, whose first byte says of which call and of which kind: the
 * same usage and the same fate of every byte however they arrive. What is hidden is a chunk with
 * nothing but usage to jansson as well, and nothing that is left would be hidden. The usage of a
 * plain document is what jansson finds in it. */
#include "wire.h"
#include "wire/llm_reply.h"

#include <jansson.h>

static const struct weir_llm_paths paths = {
    .input_tokens = {"meta.in", 7},
    .output_tokens = {"meta.out", 8},
    .cached_tokens = {"meta.hits.*", 11},
};
static struct weir_llm_custom custom;

struct result {
    char *shown;
    size_t shown_bytes;
    char *hidden; /* each event's, joined */
    size_t hidden_bytes;
    struct weir_llm_usage usage;
    uint64_t characters;
    uint64_t text_events;
    bool finished;
    enum weir_llm_error error;
};

static void settle(struct result *result, enum weir_llm_verdict verdict, const char *from,
                   size_t bytes)
{
    if (verdict == WEIR_LLM_PASS) {
        memcpy(result->shown + result->shown_bytes, from, bytes);
        result->shown_bytes += bytes;
    } else {
        memcpy(result->hidden + result->hidden_bytes, from, bytes);
        result->hidden_bytes += bytes;
    }
}

static void must_be_bounded(const struct weir_llm_reply *reply)
{
    must(reply->held_bytes <= WEIR_LLM_HELD_BYTES_MAX);
    must(reply->held_bytes == 0 || reply->options.hide_usage);
}

static struct result read_all(struct input *input, const struct weir_llm_reply_options *options,
                              size_t step)
{
    struct result result = {.shown = malloc(input->bytes + 1), .hidden = malloc(input->bytes + 1)};
    struct weir_llm_reply reply;
    size_t used, bytes, decided = 0;
    must(result.shown != NULL && result.hidden != NULL);
    weir_llm_reply_init(&reply, options);
    for (size_t at = 0, end = 0; end < input->bytes;) {
        enum weir_llm_verdict verdict;
        end = input->bytes - end < step ? input->bytes : end + step;
        do {
            show(input, end);
            struct weir_slice rest = {input->data + at, end - at};
            verdict = weir_llm_reply_next(&reply, rest, &used, &bytes);
            at += used;
            must(at <= end && bytes <= at - decided);
            must((bytes > 0) == (verdict != WEIR_LLM_MORE));
            settle(&result, verdict, input->data + decided, bytes);
            decided += bytes;
        } while (verdict != WEIR_LLM_MORE);
        must(at == end && at - decided == reply.held_bytes);
        must_be_bounded(&reply);
    }
    enum weir_llm_verdict verdict = weir_llm_reply_end(&reply, &bytes);
    must(decided + bytes == input->bytes);
    settle(&result, verdict, input->data + decided, bytes);
    result.usage = weir_llm_reply_usage(&reply);
    result.characters = reply.characters;
    result.text_events = reply.text_events;
    result.finished = reply.finished;
    result.error = reply.error;
    return result;
}

static void give_back_result(struct result *result)
{
    free(result->shown);
    free(result->hidden);
}

static void must_be_equal(const struct result *a, const struct result *b)
{
    must(a->usage.input_known == b->usage.input_known);
    must(a->usage.known == b->usage.known);
    must(a->usage.input == b->usage.input);
    must(a->usage.output == b->usage.output);
    must(a->usage.cached == b->usage.cached);
    must(a->usage.cache_written == b->usage.cache_written);
    must(a->characters == b->characters);
    must(a->text_events == b->text_events);
    must(a->finished == b->finished);
    must(a->error == b->error);
    must(a->shown_bytes == b->shown_bytes);
    must(memcmp(a->shown, b->shown, a->shown_bytes) == 0);
    must(a->hidden_bytes == b->hidden_bytes);
    must(memcmp(a->hidden, b->hidden, a->hidden_bytes) == 0);
}

/* ---- what is hidden ---- */

/* Whether jansson refuses, for other reasons than that it is no JSON. */
static bool is_beyond_jansson(const json_error_t *error)
{
    return json_error_code(error) == json_error_numeric_overflow ||
           json_error_code(error) == json_error_null_byte_in_key ||
           strstr(error->text, "invalid Unicode '\\u") != NULL;
}

static void must_be_usage_chunk(const char *data, size_t bytes)
{
    json_error_t error;
    json_t *json = json_loadb(data, bytes, JSON_ALLOW_NUL, &error);
    must(json != NULL || is_beyond_jansson(&error));
    if (json != NULL) {
        const json_t *choices = json_object_get(json, "choices");
        must(json_is_array(choices) && json_array_size(choices) == 0);
        must(json_is_object(json_object_get(json, "usage")));
        json_decref(json);
    }
}

static void must_be_usage_chunks(const struct result *result)
{
    struct weir_sse sse;
    struct weir_slice data;
    struct weir_slice rest = {result->hidden, result->hidden_bytes};
    char *document = malloc(result->hidden_bytes + 1);
    size_t used, bytes = 0;
    must(document != NULL);
    weir_sse_init(&sse);
    for (;;) {
        enum weir_sse_token token = weir_sse_next(&sse, rest, &used, &data);
        rest = (struct weir_slice){rest.data + used, rest.bytes - used};
        if (token == WEIR_SSE_DATA) {
            memcpy(document + bytes, data.data, data.bytes);
            bytes += data.bytes;
            continue;
        }
        if (token == WEIR_SSE_EVENT || bytes > 0) {
            must_be_usage_chunk(document, bytes);
            bytes = 0;
        }
        if (token == WEIR_SSE_MORE) {
            break;
        }
    }
    free(document);
}

/* A byte order mark would become one if what is before it is hidden. */
static void must_hide_no_more(const struct result *result,
                              const struct weir_llm_reply_options *options)
{
    struct input shown = input_of((const uint8_t *)result->shown, result->shown_bytes);
    struct result again = read_all(&shown, options, SIZE_MAX);
    must(again.hidden_bytes == 0 ||
         (result->shown_bytes >= 3 && memcmp(result->shown, "\xef\xbb\xbf", 3) == 0));
    give_back_result(&again);
    give_back(&shown);
}

/* ---- usage ---- */

/* The number of tokens at a path of one or two names; -1: there is none. */
static json_int_t tokens_at(const json_t *json, const char *first, const char *second)
{
    const json_t *value = json_object_get(json, first);
    value = second == NULL ? value : json_object_get(value, second);
    json_int_t tokens = json_is_integer(value) ? json_integer_value(value) : -1;
    return tokens <= (json_int_t)WEIR_LLM_TOKENS_MAX ? tokens : -1;
}

/* Of a call of OpenAI or Anthropic. 0 may be -0 to us, which is none. */
static void must_be_usage(const struct result *result, enum weir_llm_api api, const json_t *json)
{
    bool new_names = api == WEIR_LLM_API_OPENAI_RESPONSES || api == WEIR_LLM_API_ANTHROPIC_MESSAGES;
    const json_t *usage = json_object_get(json, "usage");
    json_int_t input = tokens_at(usage, new_names ? "input_tokens" : "prompt_tokens", NULL);
    json_int_t output = tokens_at(usage, new_names ? "output_tokens" : "completion_tokens", NULL);
    if (api != WEIR_LLM_API_ANTHROPIC_MESSAGES && input > 0) {
        must(result->usage.input_known && result->usage.input == (uint64_t)input);
    }
    if (output > 0) {
        must(result->usage.output == (uint64_t)output);
        must(result->usage.known || api == WEIR_LLM_API_OPENAI_EMBEDDINGS);
    }
    if (input < 0 && json_object_get(json, "message") == NULL &&
        json_object_get(json, "response") == NULL) {
        must(!result->usage.input_known);
    }
}

static void compare(const struct input *input, const struct result *result, enum weir_llm_api api)
{
    json_error_t error;
    json_t *json =
        json_loadb(input->data, input->bytes, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) {
        return;
    }
    if (api == WEIR_LLM_API_CUSTOM) {
        json_int_t output = tokens_at(json, "meta", "out");
        must(output <= 0 || (result->usage.known && result->usage.output == (uint64_t)output));
    } else if (api != WEIR_LLM_API_OTHER && json_is_object(json)) {
        must_be_usage(result, api, json);
    }
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const size_t steps[] = {1, 2, 7};
    if (bytes == 0) {
        return 0;
    }
    weir_llm_custom_init(&custom, &paths);
    struct weir_llm_reply_options options = {
        .api = (enum weir_llm_api)(data[0] % (WEIR_LLM_API_CUSTOM + 1)),
        .body = (enum weir_llm_body)((data[0] >> 4) % (WEIR_LLM_BODY_EVENTS + 1)),
        .hide_usage = (data[0] & 0x80) != 0,
    };
    options.custom = options.api == WEIR_LLM_API_CUSTOM ? &custom : NULL;
    struct input input = input_of(data + 1, bytes - 1);
    struct result whole = read_all(&input, &options, SIZE_MAX);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct result other = read_all(&input, &options, steps[i]);
        must_be_equal(&whole, &other);
        give_back_result(&other);
    }
    must_be_usage_chunks(&whole);
    must_hide_no_more(&whole, &options);
    if (options.body == WEIR_LLM_BODY_JSON && whole.finished) {
        compare(&input, &whole, options.api);
    }
    give_back_result(&whole);
    give_back(&input);
    return 0;
}
