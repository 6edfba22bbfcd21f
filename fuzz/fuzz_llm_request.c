/* Any bytes as the body of an LLM request, whose first byte says to which call: the same facts
 * however it arrives, the facts that jansson finds, and edits that make of it what jansson reads as
 * the old document with another model and with include_usage, nothing else changed. */
#include "llm/llm_request.h"
#include "wire.h"

#include <jansson.h>

static const struct weir_llm_paths paths = {
    .model = {"options.engine", 14},
    .max_tokens = {"max", 3},
    .stream = {"options.live", 12},
};
static struct weir_llm_custom custom;

static struct weir_llm_request read_all(struct input *input, enum weir_llm_api api, size_t step)
{
    struct weir_llm_request request;
    weir_llm_request_init(&request, api, api == WEIR_LLM_API_CUSTOM ? &custom : NULL);
    for (size_t at = 0, end = 0; end < input->bytes; at = end) {
        end = input->bytes - end < step ? input->bytes : end + step;
        show(input, end);
        weir_llm_request_feed(&request, (struct weir_slice){input->data + at, end - at});
    }
    show(input, input->bytes);
    return request;
}

static void must_be_equal(const struct weir_llm_request *a, const struct weir_llm_request *b)
{
    struct weir_edit ours[WEIR_LLM_EDITS_MAX], theirs[WEIR_LLM_EDITS_MAX];
    must(weir_llm_request_end(a) == weir_llm_request_end(b));
    must(a->walk.scan.fault == b->walk.scan.fault);
    must(a->walk.scan.offset == b->walk.scan.offset);
    if (!weir_llm_request_end(a)) {
        return;
    }
    must(a->has_model == b->has_model);
    must(a->model_long == b->model_long);
    must(a->model_bytes == b->model_bytes);
    must(memcmp(a->model, b->model, a->model_bytes) == 0);
    must(a->has_max_tokens == b->has_max_tokens);
    must(a->max_tokens == b->max_tokens);
    must(a->choices == b->choices);
    must(a->stream == b->stream);
    must(a->asks_for_usage == b->asks_for_usage);
    must(a->characters == b->characters);
    must(a->token_count == b->token_count);
    size_t count = weir_llm_request_edits(a, weir_slice_of("\"m\""), ours);
    must(count == weir_llm_request_edits(b, weir_slice_of("\"m\""), theirs));
    for (size_t i = 0; i < count; i++) {
        must(ours[i].begin == theirs[i].begin);
        must(ours[i].end == theirs[i].end);
        must(same_bytes(ours[i].text, theirs[i].text));
    }
}

/* ---- facts ---- */

static uint64_t integer_of(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) > 0
               ? (uint64_t)json_integer_value(value)
               : 0;
}

/* Characters that count in one string. */
static uint64_t characters_of(const json_t *string)
{
    const char *text = json_string_value(string);
    size_t bytes = json_string_length(string);
    uint64_t characters = 0;
    bool base64 = bytes >= WEIR_LLM_BASE64_BYTES_MIN;
    for (size_t i = 0; i < bytes; i++) {
        characters += ((uint8_t)text[i] & 0xc0) != 0x80;
        base64 = base64 && text[i] != '\0' &&
                 strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=",
                        text[i]) != NULL;
    }
    bool url = bytes > 5 && weir_text_same((struct weir_slice){text, 5}, weir_slice_of("data:")) &&
               (uint8_t)text[5] > ' ';
    return base64 || url ? 0 : characters;
}

static uint64_t characters_below(const json_t *value, const json_t *model, bool top)
{
    const char *name;
    size_t index;
    json_t *inner;
    uint64_t characters = 0;
    if (json_is_string(value)) {
        return value == model ? 0 : characters_of(value);
    }
    json_array_foreach((json_t *)value, index, inner)
    {
        characters += characters_below(inner, model, false);
    }
    json_object_foreach((json_t *)value, name, inner)
    {
        bool read = !top || !json_is_string(inner) || strcmp(name, "input") == 0 ||
                    strcmp(name, "prompt") == 0 || strcmp(name, "system") == 0 ||
                    strcmp(name, "instructions") == 0;
        characters += read ? characters_below(inner, model, false) : 0;
    }
    return characters;
}

static void must_be_model(const struct weir_llm_request *request, const json_t *model)
{
    must(request->has_model == json_is_string(model));
    if (request->has_model) {
        size_t bytes = json_string_length(model);
        must(request->model_long == (bytes > WEIR_NAME_BYTES_MAX));
        must(request->model_bytes == (request->model_long ? WEIR_NAME_BYTES_MAX : bytes));
        must(memcmp(request->model, json_string_value(model), request->model_bytes) == 0);
    }
}

/* Integers that jansson holds; it has no others. -0 is one for it, and none for us. */
static void must_be_limit(const struct weir_llm_request *request, const json_t *json)
{
    static const char *const names[] = {"max_completion_tokens", "max_output_tokens", "max_tokens"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint64_t limit = integer_of(json_object_get(json, names[i]));
        if (limit > 0) {
            must(request->has_max_tokens);
            must(request->max_tokens == limit || request->max_tokens == 0);
            return;
        }
    }
    must(!request->has_max_tokens || request->max_tokens == 0);
}

static void must_be_facts(const struct weir_llm_request *request, const json_t *json)
{
    const json_t *options = json_object_get(json, "options");
    if (request->custom != NULL) {
        const json_t *model = json_object_get(options, "engine");
        must_be_model(request, model);
        must(request->stream == json_is_true(json_object_get(options, "live")));
        must(request->max_tokens == integer_of(json_object_get(json, "max")));
        must(request->characters == characters_below(json, model, false));
        return;
    }
    uint64_t n = integer_of(json_object_get(json, "n"));
    uint64_t best_of = integer_of(json_object_get(json, "best_of"));
    n = n > best_of ? n : best_of;
    must_be_model(request, json_object_get(json, "model"));
    must_be_limit(request, json);
    must(request->choices == (n > 0 ? n : 1));
    must(request->stream == json_is_true(json_object_get(json, "stream")));
    must(request->asks_for_usage ==
         json_is_true(json_object_get(json_object_get(json, "stream_options"), "include_usage")));
    must(request->characters == characters_below(json, NULL, true));
}

/* ---- edits ---- */

static struct input edit(const struct weir_llm_request *request, const struct input *input,
                         struct weir_slice model)
{
    struct weir_edit edits[WEIR_LLM_EDITS_MAX];
    size_t count = weir_llm_request_edits(request, model, edits);
    struct input result = {malloc(input->bytes + 128), 0};
    uint64_t at = 0;
    must(result.data != NULL && count <= WEIR_LLM_EDITS_MAX);
    for (size_t i = 0; i <= count; i++) {
        uint64_t end = i < count ? edits[i].begin : input->bytes;
        must(end >= at && end <= input->bytes);
        memcpy(result.data + result.bytes, input->data + at, end - at);
        result.bytes += end - at;
        if (i < count) {
            must(edits[i].end >= edits[i].begin);
            memcpy(result.data + result.bytes, edits[i].text.data, edits[i].text.bytes);
            result.bytes += edits[i].text.bytes;
            at = edits[i].end;
        }
    }
    return result;
}

/* Changes the old document as the edits should. */
static void change(const struct weir_llm_request *request, json_t *json, const char *model)
{
    bool custom_model = request->custom != NULL;
    if (request->has_model) {
        json_t *holder = custom_model ? json_object_get(json, "options") : json;
        json_object_set_new(holder, custom_model ? "engine" : "model", json_string(model));
    }
    if (weir_llm_request_hides_usage(request)) {
        json_t *options = json_object_get(json, "stream_options");
        must(request->api == WEIR_LLM_API_OPENAI_CHAT && request->stream);
        must(options == NULL || json_is_null(options) || json_is_object(options));
        if (!json_is_object(options)) {
            options = json_object();
            json_object_set_new(json, "stream_options", options);
        }
        json_object_set_new(options, "include_usage", json_true());
    }
}

/* Whether both objects have the same names, in the same order. */
static bool same_order(json_t *a, json_t *b)
{
    void *left = json_object_iter(a);
    void *right = json_object_iter(b);
    for (; left != NULL; left = json_object_iter_next(a, left)) {
        while (right != NULL &&
               strcmp(json_object_iter_key(left), json_object_iter_key(right)) != 0) {
            right = json_object_iter_next(b, right);
        }
        if (right == NULL) {
            return false;
        }
    }
    return true;
}

static void compare(const struct input *input, const struct weir_llm_request *request)
{
    const size_t flags = JSON_ALLOW_NUL;
    json_error_t error;
    json_t *old = json_loadb(input->data, input->bytes, flags, &error);
    if (old == NULL) {
        return; /* fuzz_json_scan.c says why that may be */
    }
    json_t *again = json_deep_copy(old);
    struct input result = edit(request, input, weir_slice_of("\"new\""));
    json_t *new = json_loadb(result.data, result.bytes, flags, &error);
    must(new != NULL);
    must(same_order(again, new));
    change(request, old, "new");
    must(json_equal(old, new));
    json_decref(again);
    json_decref(new);
    json_decref(old);
    free(result.data);

    /* Facts of a document in which nothing is repeated: otherwise jansson has lost some texts. */
    old = json_loadb(input->data, input->bytes, flags | JSON_REJECT_DUPLICATES, &error);
    if (old != NULL) {
        must_be_facts(request, old);
        json_decref(old);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const size_t steps[] = {1, 2, 7};
    if (bytes == 0) {
        return 0;
    }
    weir_llm_custom_init(&custom, &paths);
    enum weir_llm_api api = (enum weir_llm_api)(data[0] % (WEIR_LLM_API_CUSTOM + 1));
    struct input input = input_of(data + 1, bytes - 1);
    struct weir_llm_request whole = read_all(&input, api, SIZE_MAX);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct weir_llm_request other = read_all(&input, api, steps[i]);
        must_be_equal(&whole, &other);
    }
    if (weir_llm_request_end(&whole)) {
        compare(&input, &whole);
    }
    give_back(&input);
    return 0;
}
