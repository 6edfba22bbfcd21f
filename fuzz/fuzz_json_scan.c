/* Any bytes as a JSON document: the same tokens and paths however they arrive, and the same answer
 * and the same document as jansson.
 *
 * Differences that are deliberate, where we accept and jansson refuses:
 * - numbers that no double or 64-bit integer holds: ours are not computed unless they are small;
 * - halves of surrogate pairs as escapes: the grammar has them;
 * - NUL in the name of a member: the grammar has it.
 * And the other way round:
 * - we go 128 brackets deep, jansson 2048;
 * - jansson passes over a NUL behind a number.
 * Where a name is repeated both accept, but jansson keeps one of the values only, so that documents
 * are not compared. */
#include "llm/llm_names.h"
#include "wire.h"
#include "wire/json_walk.h"

#include <jansson.h>

struct token {
    enum weir_json_token kind;
    bool is_integer;
    uint64_t number;
    uint64_t begin;
    uint64_t end;
    uint64_t path; /* of values, as the walk tells it */
    bool is_other; /* so is whether a name that is not known leads to it */
    size_t text_at;
    size_t text_bytes;
};

struct record {
    struct token *tokens;
    size_t count;
    char *texts;
    size_t texts_bytes;
    size_t characters;
    enum weir_json_fault fault;
    uint64_t offset;
    bool whole;
    bool in_string;
};

static void record_token(struct record *record, const struct weir_json_scan *scan,
                         enum weir_json_token kind, struct weir_slice piece)
{
    bool is_text = kind == WEIR_JSON_NAME || kind == WEIR_JSON_STRING;
    if (!record->in_string) {
        record->tokens[record->count++] =
            (struct token){.kind = kind, .begin = scan->begin, .text_at = record->texts_bytes};
    }
    struct token *token = &record->tokens[record->count - 1];
    must(token->kind == kind && token->begin == scan->begin);
    token->end = scan->offset;
    if (kind == WEIR_JSON_NUMBER) {
        token->is_integer = scan->is_integer;
        token->number = scan->is_integer ? scan->number : 0;
    }
    if (is_text) {
        must(piece.bytes > 0 || scan->ends);
        memcpy(record->texts + record->texts_bytes, piece.data, piece.bytes);
        record->texts_bytes += piece.bytes;
        token->text_bytes += piece.bytes;
        record->characters += scan->characters;
    }
    record->in_string = is_text && !scan->ends;
}

/* Reads what is shown from `*at` to `end`. */
static void scan_part(struct weir_json_scan *scan, const char *data, size_t *at, size_t end,
                      struct record *record)
{
    for (;;) {
        size_t used;
        struct weir_slice piece = {0};
        struct weir_slice rest = {data + *at, end - *at};
        enum weir_json_token kind = weir_json_scan_next(scan, rest, &used, &piece);
        must(used <= rest.bytes);
        *at += used;
        must(scan->offset == *at);
        if (kind == WEIR_JSON_MORE || kind == WEIR_JSON_FAULT) {
            must(kind == WEIR_JSON_FAULT || *at == end);
            return;
        }
        record_token(record, scan, kind, piece);
    }
}

/* In pieces of `step` bytes. */
static struct record scan_all(struct input *input, size_t step)
{
    struct record record = {.tokens = calloc(input->bytes + 1, sizeof(struct token)),
                            .texts = malloc(3 * input->bytes + 1)};
    struct weir_json_scan scan;
    size_t at = 0, end = 0;
    must(record.tokens != NULL && record.texts != NULL);
    weir_json_scan_init(&scan);
    do {
        end = input->bytes - end < step ? input->bytes : end + step;
        show(input, end);
        scan_part(&scan, input->data, &at, end, &record);
    } while (end < input->bytes && scan.fault == WEIR_JSON_FAULT_NONE);
    show(input, input->bytes);
    record.fault = scan.fault;
    record.offset = scan.offset;
    record.whole = weir_json_scan_is_whole(&scan);
    must(!record.whole || record.fault == WEIR_JSON_FAULT_NONE);
    return record;
}

static void give_back_record(struct record *record)
{
    free(record->tokens);
    free(record->texts);
}

static void must_be_equal(const struct record *a, const struct record *b)
{
    must(a->fault == b->fault);
    must(a->offset == b->offset);
    must(a->whole == b->whole);
    must(a->count == b->count);
    must(a->characters == b->characters);
    must(a->texts_bytes == b->texts_bytes);
    must(memcmp(a->texts, b->texts, a->texts_bytes) == 0);
    must(memcmp(a->tokens, b->tokens, a->count * sizeof a->tokens[0]) == 0);
}

/* Walks in pieces of `step` bytes, beside the tokens that the scanner gave, and notes the paths. A
 * walk that tells only what is known goes beside one that tells everything. */
static void walk_all(struct input *input, size_t step, bool known_only, struct record *record)
{
    struct weir_json_walk walk;
    size_t place = 0;
    bool in_string = false;
    (known_only ? weir_json_walk_init_known : weir_json_walk_init)(&walk, &weir_llm_names);
    for (size_t at = 0, end = 0; end < input->bytes;) {
        end = input->bytes - end < step ? input->bytes : end + step;
        show(input, end);
        for (;;) {
            size_t used;
            struct weir_slice piece = {0};
            enum weir_json_token kind = weir_json_walk_next(
                &walk, (struct weir_slice){input->data + at, end - at}, &used, &piece);
            at += used;
            if (kind == WEIR_JSON_MORE || kind == WEIR_JSON_FAULT) {
                break;
            }
            if (!in_string) {
                while (record->tokens[place].kind == WEIR_JSON_NAME ||
                       (known_only && record->tokens[place].is_other)) {
                    place++;
                }
                struct token *token = &record->tokens[place++];
                must(place <= record->count && token->kind == kind);
                must(token->begin == walk.scan.begin);
                must(!known_only || token->path == walk.path);
                token->path = walk.path;
                token->is_other = walk.other_depth > 0;
            }
            must(record->tokens[place - 1].path == walk.path);
            in_string = kind == WEIR_JSON_STRING && !walk.scan.ends;
        }
    }
    show(input, input->bytes);
    must(walk.scan.fault == record->fault && walk.scan.offset == record->offset);
    while (place < record->count && (record->tokens[place].kind == WEIR_JSON_NAME ||
                                     (known_only && record->tokens[place].is_other))) {
        place++;
    }
    must(place == record->count);
}

/* ---- the same document ---- */

/* Where the comparison is. */
struct comparison {
    const struct record *record;
    size_t place;
};

static const struct token *take(struct comparison *comparison, enum weir_json_token kind,
                                uint64_t path)
{
    must(comparison->place < comparison->record->count);
    const struct token *token = &comparison->record->tokens[comparison->place++];
    must(token->kind == kind);
    must(kind == WEIR_JSON_NAME || token->path == path);
    return token;
}

static void must_be_text(const struct comparison *comparison, const struct token *token,
                         const char *text, size_t bytes)
{
    must(token->text_bytes == bytes);
    must(memcmp(comparison->record->texts + token->text_at, text, bytes) == 0);
}

static bool has_other(uint64_t path)
{
    for (; path != 0; path >>= 8) {
        if ((uint8_t)path == WEIR_JSON_OTHER) {
            return true;
        }
    }
    return false;
}

static uint64_t path_below(uint64_t path, unsigned depth, uint8_t step)
{
    return depth < WEIR_JSON_STEPS_MAX ? path | (uint64_t)step << 8 * depth : WEIR_JSON_PATH_DEEP;
}

/* As deep as we go. */
static void must_be_value(struct comparison *comparison, json_t *value, uint64_t path,
                          unsigned depth)
{
    const struct token *token;
    const char *name;
    size_t index;
    json_t *inner;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        take(comparison, WEIR_JSON_OBJECT, path);
        json_object_foreach(value, name, inner)
        {
            struct weir_slice text = weir_slice_of(name);
            token = take(comparison, WEIR_JSON_NAME, path);
            must_be_text(comparison, token, text.data, text.bytes);
            uint8_t step =
                has_other(path) ? WEIR_JSON_OTHER : weir_json_names_find(&weir_llm_names, text);
            must_be_value(comparison, inner, path_below(path, depth, step), depth + 1);
        }
        take(comparison, WEIR_JSON_OBJECT_END, path);
        break;
    case JSON_ARRAY:
        take(comparison, WEIR_JSON_ARRAY, path);
        json_array_foreach(value, index, inner)
        {
            must_be_value(comparison, inner, path_below(path, depth, WEIR_JSON_ELEMENT), depth + 1);
        }
        take(comparison, WEIR_JSON_ARRAY_END, path);
        break;
    case JSON_STRING:
        token = take(comparison, WEIR_JSON_STRING, path);
        must_be_text(comparison, token, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        token = take(comparison, WEIR_JSON_NUMBER, path);
        /* -0 is 0 for jansson and no integer of ours. */
        must(token->is_integer == (json_integer_value(value) >= 0) ||
             json_integer_value(value) == 0);
        must(!token->is_integer || token->number == (uint64_t)json_integer_value(value));
        break;
    case JSON_REAL:
        must(!take(comparison, WEIR_JSON_NUMBER, path)->is_integer);
        break;
    case JSON_TRUE:
        take(comparison, WEIR_JSON_TRUE, path);
        break;
    case JSON_FALSE:
        take(comparison, WEIR_JSON_FALSE, path);
        break;
    case JSON_NULL:
        take(comparison, WEIR_JSON_NULL, path);
        break;
    }
}

/* Why jansson refuses what we accept, if it may. */
static bool may_differ(const json_error_t *error)
{
    return json_error_code(error) == json_error_numeric_overflow ||
           json_error_code(error) == json_error_null_byte_in_key ||
           strstr(error->text, "invalid Unicode '\\u") != NULL;
}

static void compare(const struct input *input, const struct record *record)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t error;
    if (record->fault == WEIR_JSON_FAULT_DEPTH) {
        return;
    }
    json_t *json = json_loadb(input->data, input->bytes, flags, &error);
    if (json != NULL && !record->whole) {
        must(memchr(input->data, '\0', input->bytes) != NULL);
        json_decref(json);
        return;
    }
    must((json != NULL) == record->whole || may_differ(&error));
    json_decref(json);
    json = json_loadb(input->data, input->bytes, flags | JSON_REJECT_DUPLICATES, &error);
    if (json != NULL) {
        struct comparison comparison = {record, 0};
        /* A number alone has no token. */
        if (record->count > 0) {
            must_be_value(&comparison, json, WEIR_JSON_PATH_ROOT, 0);
        }
        must(comparison.place == record->count);
        json_decref(json);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const size_t steps[] = {1, 2, 7};
    struct input input = input_of(data, bytes);
    struct record whole = scan_all(&input, SIZE_MAX);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct record other = scan_all(&input, steps[i]);
        must_be_equal(&whole, &other);
        give_back_record(&other);
    }
    walk_all(&input, SIZE_MAX, false, &whole);
    walk_all(&input, SIZE_MAX, true, &whole);
    walk_all(&input, 3, true, &whole);
    compare(&input, &whole);
    /* The paths again, in pieces. */
    walk_all(&input, 1, false, &whole);
    compare(&input, &whole);
    give_back_record(&whole);
    give_back(&input);
    return 0;
}
