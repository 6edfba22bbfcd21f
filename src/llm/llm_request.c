/* llm_request.c - reads a request's body in one pass: the model, the limits, how much text there
 * is, and the places that may have to be edited. Paths of JSON members lead there; each dialect has
 * a table of them. */
#include "llm/llm_request.h"

#include "llm/llm_names.h"
#include "wire/scan.h"

#include <assert.h>

/* What stands at a place that may be edited. */
enum edit_kind {
    KIND_NONE,
    KIND_NULL,
    KIND_TRUE,
    KIND_OBJECT,
    KIND_ELSE,
};

/* Names of the same limit; where several are given the first of these counts. */
enum limit {
    LIMIT_COMPLETION, /* max_completion_tokens */
    LIMIT_OUTPUT,     /* max_output_tokens */
    LIMIT_TOKENS,     /* max_tokens */
};

#define PATH1(a)    WEIR_JSON_PATH1(WEIR_LLM_NAME_##a)
#define PATH2(a, b) WEIR_JSON_PATH2(WEIR_LLM_NAME_##a, WEIR_LLM_NAME_##b)
#define ELEMENTS(a) WEIR_JSON_PATH2(WEIR_LLM_NAME_##a, WEIR_JSON_ELEMENT)
#define NESTED(a)   WEIR_JSON_PATH3(WEIR_LLM_NAME_##a, WEIR_JSON_ELEMENT, WEIR_JSON_ELEMENT)

static const char options_text[] = "\"stream_options\":{\"include_usage\":true},";
static const char object_text[] = "{\"include_usage\":true}";
static const char only_text[] = "\"include_usage\":true";
static const char first_text[] = "\"include_usage\":true,";
static const char true_text[] = "true";

void weir_llm_request_init(struct weir_llm_request *request, enum weir_llm_api api,
                           const struct weir_llm_custom *custom)
{
    assert((api == WEIR_LLM_API_CUSTOM) == (custom != NULL));
    *request = (struct weir_llm_request){.api = api, .custom = custom, .choices = 1};
    weir_json_walk_init(&request->walk, custom != NULL ? &custom->names : &weir_llm_names);
}

/* ---- texts ---- */

/* Whether the current string is something that a model reads. */
static bool is_read(const struct weir_llm_request *request)
{
    uint64_t path = request->walk.path;
    if (request->custom != NULL) {
        return path != request->custom->model;
    }
    return request->walk.scan.depth > 1 || path == PATH1(INPUT) || path == PATH1(PROMPT) ||
           path == PATH1(SYSTEM) || path == PATH1(INSTRUCTIONS);
}

/* What a URL of a picture begins with, and then something visible: with a blank behind the colon it
 * is a sentence. */
static const char scheme[] = "data:";
#define SCHEME_BYTES (sizeof scheme - 1)
#define URL_BYTES    (SCHEME_BYTES + 1)
#define URL_NOT      UINT8_MAX

/* How much of that the current string has, behind some more of it. */
static void match_url(struct weir_llm_request *request, struct weir_slice piece)
{
    uint8_t matched = request->url_bytes;
    for (size_t i = 0; i < piece.bytes && matched < URL_BYTES; i++) {
        bool matches = matched < SCHEME_BYTES ? weir_char_lower(piece.data[i]) == scheme[matched]
                                              : (uint8_t)piece.data[i] > ' ';
        matched = matches ? (uint8_t)(matched + 1) : URL_NOT;
    }
    request->url_bytes = matched;
}

/* A piece of a string that a model reads. */
static void take_text(struct weir_llm_request *request, struct weir_slice piece)
{
    const struct weir_json_scan *scan = &request->walk.scan;
    if (!request->in_string) {
        request->text_bytes = 0;
        request->text_characters = 0;
        request->url_bytes = 0;
        request->base64 = true;
    }
    match_url(request, piece);
    request->text_bytes += piece.bytes;
    request->text_characters += scan->characters;
    bool is_short = scan->ends && request->text_bytes < WEIR_LLM_BASE64_BYTES_MIN;
    if (request->base64 && !is_short) {
        const char *end = piece.data + piece.bytes;
        request->base64 = weir_scan_base64(piece.data, end) == end;
    }
    if (scan->ends && request->url_bytes != URL_BYTES && (is_short || !request->base64)) {
        request->characters += request->text_characters;
    }
}

/* ---- facts ---- */

static bool begins_value(const struct weir_llm_request *request, enum weir_json_token token)
{
    switch (token) {
    case WEIR_JSON_OBJECT_END:
    case WEIR_JSON_ARRAY_END:
        return false;
    case WEIR_JSON_STRING:
        return !request->in_string;
    default:
        return true;
    }
}

static void take_model(struct weir_llm_request *request, enum weir_json_token token,
                       struct weir_slice piece)
{
    const struct weir_json_scan *scan = &request->walk.scan;
    if (begins_value(request, token)) {
        request->has_model = false;
        request->model_long = false;
        request->model_bytes = 0;
    }
    if (token != WEIR_JSON_STRING) {
        return;
    }
    size_t room = sizeof request->model - request->model_bytes;
    size_t bytes = piece.bytes < room ? piece.bytes : room;
    memcpy(request->model + request->model_bytes, piece.data, bytes);
    request->model_bytes = (uint16_t)(request->model_bytes + bytes);
    request->model_long = request->model_long || bytes < piece.bytes;
    request->has_model = scan->ends;
    request->model_place = (struct weir_llm_span){scan->begin, scan->offset};
}

/* A number, or 0 for what is none. */
static uint64_t number_of(const struct weir_llm_request *request, enum weir_json_token token)
{
    const struct weir_json_scan *scan = &request->walk.scan;
    return token == WEIR_JSON_NUMBER && scan->is_integer ? scan->number : 0;
}

static void take_limit(struct weir_llm_request *request, enum weir_json_token token,
                       enum limit limit)
{
    uint8_t bit = (uint8_t)(1u << limit);
    bool stated = token == WEIR_JSON_NUMBER && request->walk.scan.is_integer;
    request->limits_seen =
        (uint8_t)(stated ? request->limits_seen | bit : request->limits_seen & ~(unsigned)bit);
    request->limits[limit] = number_of(request, token);
    request->has_max_tokens = request->limits_seen != 0;
    request->max_tokens =
        request->has_max_tokens ? request->limits[__builtin_ctz(request->limits_seen)] : 0;
}

static void take_choices(struct weir_llm_request *request)
{
    uint64_t most = request->n > request->best_of ? request->n : request->best_of;
    request->choices = most > 0 ? most : 1;
}

static enum edit_kind kind_of(enum weir_json_token token)
{
    switch (token) {
    case WEIR_JSON_NULL:
        return KIND_NULL;
    case WEIR_JSON_TRUE:
        return KIND_TRUE;
    case WEIR_JSON_OBJECT:
        return KIND_OBJECT;
    default:
        return KIND_ELSE;
    }
}

/* A value that may be edited: what it is, and where. */
static void take_place(const struct weir_llm_request *request, enum weir_json_token token,
                       uint8_t *kind, struct weir_llm_span *place)
{
    if (begins_value(request, token)) {
        *kind = (uint8_t)kind_of(token);
        place->begin = request->walk.scan.begin;
    }
    place->end = request->walk.scan.offset;
}

static void take_options(struct weir_llm_request *request, enum weir_json_token token)
{
    if (begins_value(request, token)) {
        request->include = KIND_NONE;
        request->options_empty = true;
    }
    take_place(request, token, &request->options, &request->options_place);
    request->asks_for_usage = request->include == KIND_TRUE;
}

static void take_include(struct weir_llm_request *request, enum weir_json_token token)
{
    take_place(request, token, &request->include, &request->include_place);
    request->asks_for_usage = request->include == KIND_TRUE;
}

static void take_known(struct weir_llm_request *request, enum weir_json_token token,
                       struct weir_slice piece)
{
    uint64_t path = request->walk.path;
    if ((uint8_t)path == WEIR_LLM_NAME_STREAM_OPTIONS && path != PATH1(STREAM_OPTIONS)) {
        request->options_empty = false;
    }
    switch (path) {
    case PATH1(MODEL):
        take_model(request, token, piece);
        return;
    case PATH1(STREAM):
        request->stream = token == WEIR_JSON_TRUE;
        return;
    case PATH1(MAX_COMPLETION_TOKENS):
        take_limit(request, token, LIMIT_COMPLETION);
        return;
    case PATH1(MAX_OUTPUT_TOKENS):
        take_limit(request, token, LIMIT_OUTPUT);
        return;
    case PATH1(MAX_TOKENS):
        take_limit(request, token, LIMIT_TOKENS);
        return;
    case PATH1(N):
        request->n = number_of(request, token);
        take_choices(request);
        return;
    case PATH1(BEST_OF):
        request->best_of = number_of(request, token);
        take_choices(request);
        return;
    case PATH1(STREAM_OPTIONS):
        take_options(request, token);
        return;
    case PATH2(STREAM_OPTIONS, INCLUDE_USAGE):
        take_include(request, token);
        return;
    case ELEMENTS(INPUT):
    case ELEMENTS(PROMPT):
    case NESTED(INPUT):
    case NESTED(PROMPT):
        request->token_count += token == WEIR_JSON_NUMBER;
        return;
    default:
        return;
    }
}

static void take_custom(struct weir_llm_request *request, enum weir_json_token token,
                        struct weir_slice piece)
{
    uint64_t path = request->walk.path;
    if (path == request->custom->model) {
        take_model(request, token, piece);
    }
    if (path == request->custom->max_tokens) {
        take_limit(request, token, LIMIT_TOKENS);
    }
    if (path == request->custom->stream) {
        request->stream = token == WEIR_JSON_TRUE;
    }
}

static void take(struct weir_llm_request *request, enum weir_json_token token,
                 struct weir_slice piece)
{
    if (request->custom != NULL) {
        take_custom(request, token, piece);
    } else {
        take_known(request, token, piece);
    }
    if (token == WEIR_JSON_STRING) {
        if (is_read(request)) {
            take_text(request, piece);
        }
        request->in_string = !request->walk.scan.ends;
    }
    if (token == WEIR_JSON_OBJECT && request->walk.scan.depth == 1) {
        request->is_object = true;
        request->inside = request->walk.scan.offset;
    }
}

void weir_llm_request_feed(struct weir_llm_request *request, struct weir_slice input)
{
    for (;;) {
        size_t used;
        struct weir_slice piece;
        enum weir_json_token token = weir_json_walk_next(&request->walk, input, &used, &piece);
        if (token == WEIR_JSON_MORE || token == WEIR_JSON_FAULT) {
            return;
        }
        take(request, token, piece);
        input.data += used;
        input.bytes -= used;
    }
}

bool weir_llm_request_end(const struct weir_llm_request *request)
{
    return request->is_object && weir_json_scan_is_whole(&request->walk.scan);
}

/* ---- edits ---- */

bool weir_llm_request_hides_usage(const struct weir_llm_request *request)
{
    return request->api == WEIR_LLM_API_OPENAI_CHAT && request->stream &&
           !request->asks_for_usage && request->options != KIND_ELSE &&
           request->options != KIND_TRUE;
}

/* What makes a stream tell its usage. An object that is not empty gets another first member, so
 * that nothing has to be known about its end. */
static struct weir_edit options_edit(const struct weir_llm_request *request)
{
    struct weir_llm_span place = request->options_place;
    if (request->options == KIND_NONE) {
        return (struct weir_edit){request->inside, request->inside, weir_slice_of(options_text)};
    }
    if (request->options == KIND_NULL) {
        return (struct weir_edit){place.begin, place.end, weir_slice_of(object_text)};
    }
    if (request->include != KIND_NONE) {
        place = request->include_place;
        return (struct weir_edit){place.begin, place.end, weir_slice_of(true_text)};
    }
    const char *text = request->options_empty ? only_text : first_text;
    return (struct weir_edit){place.begin + 1, place.begin + 1, weir_slice_of(text)};
}

size_t weir_llm_request_edits(const struct weir_llm_request *request, struct weir_slice model,
                              struct weir_edit edits[WEIR_LLM_EDITS_MAX])
{
    size_t count = 0;
    assert(weir_llm_request_end(request));
    if (request->has_model && model.bytes > 0) {
        struct weir_llm_span place = request->model_place;
        edits[count++] = (struct weir_edit){place.begin, place.end, model};
    }
    if (weir_llm_request_hides_usage(request)) {
        edits[count++] = options_edit(request);
    }
    if (count == 2 && edits[1].begin < edits[0].begin) {
        struct weir_edit later = edits[0];
        edits[0] = edits[1];
        edits[1] = later;
    }
    return count;
}
