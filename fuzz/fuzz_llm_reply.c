/* Any bytes as the body of an LLM reply, whose first byte says of which call and of which kind: the
 * same usage and the same fate of every byte however they arrive. What is hidden of an event is a
 * chunk with nothing but usage to jansson as well, or what is left is to jansson the same object
 * without its usage, which was null; and nothing that is left would be hidden. The usage of a plain
 * document is what jansson finds in it. */
#include "llm/llm_reply.h"
#include "wire.h"

#include <jansson.h>

static const struct weir_llm_paths paths = {
    .input_tokens = {"meta.in", 7},
    .output_tokens = {"meta.out", 8},
    .cached_tokens = {"meta.hits.*", 11},
};
static struct weir_llm_custom custom;

struct result {
    bool *hidden; /* for each byte */
    size_t hidden_bytes;
    struct weir_llm_usage usage;
    uint64_t characters;
    uint64_t text_events;
    bool finished;
    enum weir_llm_error error;
};

/* Of the bytes from `decided` on; returns up to where they are. */
static size_t settle(struct result *result, struct weir_llm_fate fate, size_t decided)
{
    memset(result->hidden + decided + fate.pass, true, fate.hide);
    result->hidden_bytes += fate.hide;
    return decided + fate.pass + fate.hide;
}

static void must_be_bounded(const struct weir_llm_reply *reply)
{
    must(reply->held_bytes <= WEIR_LLM_HELD_BYTES_MAX);
    must(reply->held_bytes == 0 || reply->options.hide_usage);
}

static struct result read_all(struct input *input, const struct weir_llm_reply_options *options,
                              size_t step)
{
    struct result result = {.hidden = calloc(input->bytes + 1, sizeof(bool))};
    struct weir_llm_reply reply;
    struct weir_llm_fate fate;
    size_t used, decided = 0;
    must(result.hidden != NULL);
    weir_llm_reply_init(&reply, options);
    for (size_t at = 0, end = 0; end < input->bytes;) {
        bool more;
        end = input->bytes - end < step ? input->bytes : end + step;
        do {
            show(input, end);
            struct weir_slice rest = {input->data + at, end - at};
            more = weir_llm_reply_next(&reply, rest, &used, &fate);
            at += used;
            must(at <= end && fate.pass + fate.hide <= at - decided);
            must((fate.pass + fate.hide > 0) == more);
            decided = settle(&result, fate, decided);
        } while (more);
        must(at == end && at - decided == reply.held_bytes);
        must_be_bounded(&reply);
    }
    while (weir_llm_reply_end(&reply, &fate)) {
        must(fate.pass + fate.hide <= input->bytes - decided);
        decided = settle(&result, fate, decided);
    }
    must(decided == input->bytes && reply.held_bytes == 0);
    result.usage = weir_llm_reply_usage(&reply);
    result.characters = reply.characters;
    result.text_events = reply.text_events;
    result.finished = reply.finished;
    result.error = reply.error;
    return result;
}

static void must_be_equal(const struct result *a, const struct result *b, size_t bytes)
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
    must(memcmp(a->hidden, b->hidden, bytes * sizeof(bool)) == 0);
}

/* ---- what is hidden ---- */

/* Whether jansson refuses, for other reasons than that it is no JSON. */
static bool is_beyond_jansson(const json_error_t *error)
{
    return json_error_code(error) == json_error_numeric_overflow ||
           json_error_code(error) == json_error_null_byte_in_key ||
           strstr(error->text, "invalid Unicode '\\u") != NULL;
}

/* The data of an event, as it was sent and as it is shown. */
struct event {
    char *sent;
    char *left;
    size_t sent_bytes;
    size_t left_bytes;
    size_t all_bytes; /* with names of fields and ends of lines */
    size_t hidden_bytes;
    bool lines; /* several */
};

static json_t *load(const char *data, size_t bytes, size_t flags, bool *beyond)
{
    json_error_t error;
    json_t *json = json_loadb(data, bytes, JSON_ALLOW_NUL | flags, &error);
    *beyond = json == NULL && is_beyond_jansson(&error);
    return json;
}

static void must_be_usage_chunk(const struct event *event)
{
    bool beyond;
    json_t *json = load(event->sent, event->sent_bytes, 0, &beyond);
    must(json != NULL || beyond);
    if (json != NULL) {
        const json_t *choices = json_object_get(json, "choices");
        must(json_is_array(choices) && json_array_size(choices) == 0);
        must(json_is_object(json_object_get(json, "usage")));
        json_decref(json);
    }
}

/* What is left is the same without its usage. */
static void must_be_cut(const struct event *event)
{
    bool beyond;
    json_t *sent = load(event->sent, event->sent_bytes, 0, &beyond);
    must(sent != NULL || beyond);
    json_t *left = load(event->left, event->left_bytes, 0, &beyond);
    must(left != NULL || beyond);
    if (sent != NULL && left != NULL) {
        must(json_is_null(json_object_get(sent, "usage")));
        must(json_object_get(left, "usage") == NULL);
        json_object_del(sent, "usage");
        must(json_equal(sent, left));
    }
    json_decref(sent);
    json_decref(left);
}

/* Nothing was hidden, though it is hardly longer than a member that must be found, and read. Behind
 * a word jansson passes over a NUL. */
static void must_have_no_null(const struct event *event)
{
    bool beyond;
    if (event->lines || event->sent_bytes > WEIR_LLM_MEMBER_BYTES_MAX ||
        event->all_bytes > WEIR_LLM_HELD_BYTES_MAX ||
        memchr(event->sent, '\\', event->sent_bytes) != NULL ||
        memchr(event->sent, '\0', event->sent_bytes) != NULL) {
        return;
    }
    json_t *json = load(event->sent, event->sent_bytes, JSON_REJECT_DUPLICATES, &beyond);
    must(!json_is_null(json_object_get(json, "usage")));
    json_decref(json);
}

static void end_event(struct event *event, bool hides)
{
    if (event->hidden_bytes > 0 && event->hidden_bytes == event->all_bytes) {
        must_be_usage_chunk(event);
    } else if (event->hidden_bytes > 0) {
        must(!event->lines);
        must_be_cut(event);
    } else if (hides) {
        must_have_no_null(event);
    }
    event->sent_bytes = event->left_bytes = event->all_bytes = event->hidden_bytes = 0;
    event->lines = false;
}

/* The LF of a CRLF that ended an event belongs to none. */
static bool is_lf(const struct input *input, size_t at, const struct event *event)
{
    return event->all_bytes == 0 && at > 0 && at < input->bytes && input->data[at] == '\n' &&
           input->data[at - 1] == '\r';
}

static void add_data(const struct input *input, const struct result *result, struct weir_slice data,
                     struct event *event)
{
    bool inside = data.data >= input->data && data.data < input->data + input->bytes;
    event->lines = event->lines || data.data[0] == '\n';
    for (size_t i = 0; i < data.bytes; i++) {
        event->sent[event->sent_bytes++] = data.data[i];
        if (!inside || !result->hidden[data.data + i - input->data]) {
            event->left[event->left_bytes++] = data.data[i];
        }
    }
}

/* Every event of the stream. */
static void must_hide_usage_only(const struct input *input, const struct result *result, bool hides)
{
    struct weir_sse sse;
    struct weir_slice data;
    struct event event = {.sent = malloc(input->bytes + 1), .left = malloc(input->bytes + 1)};
    enum weir_sse_token token;
    must(event.sent != NULL && event.left != NULL);
    weir_sse_init(&sse);
    size_t at = 0;
    do {
        size_t used;
        bool lf = is_lf(input, at, &event);
        size_t most = lf ? 1 : input->bytes - at;
        token = weir_sse_next(&sse, (struct weir_slice){input->data + at, most}, &used, &data);
        for (size_t i = at; i < at + used && !lf; i++) {
            event.all_bytes++;
            event.hidden_bytes += result->hidden[i];
        }
        at += used;
        if (token == WEIR_SSE_DATA) {
            add_data(input, result, data, &event);
        } else if (token == WEIR_SSE_EVENT || at == input->bytes) {
            end_event(&event, hides);
        }
    } while (token != WEIR_SSE_MORE || at < input->bytes);
    free(event.sent);
    free(event.left);
}

/* A byte order mark would become one if what is before it is hidden. */
static void must_hide_no_more(const struct input *input, const struct result *result,
                              const struct weir_llm_reply_options *options)
{
    char *left = malloc(input->bytes + 1);
    size_t bytes = 0;
    must(left != NULL);
    for (size_t i = 0; i < input->bytes; i++) {
        left[bytes] = input->data[i];
        bytes += !result->hidden[i];
    }
    struct input shown = input_of((const uint8_t *)left, bytes);
    struct result again = read_all(&shown, options, SIZE_MAX);
    must(again.hidden_bytes == 0 || (bytes >= 3 && memcmp(left, "\xef\xbb\xbf", 3) == 0));
    free(again.hidden);
    free(left);
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
    /* The input is also known by either of its names, and by the total. */
    bool stated = tokens_at(usage, "input_tokens", NULL) >= 0 ||
                  tokens_at(usage, "prompt_tokens", NULL) >= 0 ||
                  tokens_at(usage, "total_tokens", NULL) >= 0;
    if (!stated && json_object_get(json, "message") == NULL &&
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
        must_be_equal(&whole, &other, input.bytes);
        free(other.hidden);
    }
    bool hides = options.hide_usage && options.api == WEIR_LLM_API_OPENAI_CHAT &&
                 options.body == WEIR_LLM_BODY_EVENTS;
    must(hides || whole.hidden_bytes == 0);
    must_hide_usage_only(&input, &whole, hides);
    must_hide_no_more(&input, &whole, &options);
    if (options.body == WEIR_LLM_BODY_JSON && whole.finished) {
        compare(&input, &whole, options.api);
    }
    free(whole.hidden);
    give_back(&input);
    return 0;
}
