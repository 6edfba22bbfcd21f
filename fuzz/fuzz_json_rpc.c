/* Any bytes as JSON-RPC: the same messages are read however they arrive, and what is picked out of
 * a document is what jansson finds at the same path. */
#include "wire.h"
#include "wire/json_rpc.h"

#include <jansson.h>
#include <strings.h>

#define READ_MAX (1 << 16)

static const char *const path_texts[] = {"params.name", "params", "a.b", "a.1", "result.status.0"};
#define PATH_COUNT (sizeof path_texts / sizeof path_texts[0])

/* What one message says: its kind, then method, id and what is at the paths. */
struct message {
    enum weir_json_rpc_kind kind;
    struct weir_json_value values[PATH_COUNT + 1];
    size_t method_bytes;
    char method[WEIR_JSON_VALUE_BYTES_MAX];
};

struct record {
    struct message *messages;
    size_t count;
    bool is_batch;
    bool whole;
    bool failed;
};

static void record_message(struct record *record, const struct weir_json_rpc *rpc)
{
    struct message *message = &record->messages[record->count++];
    memset(message, 0, sizeof *message);
    message->kind = weir_json_rpc_kind(rpc);
    struct weir_slice method = weir_json_rpc_method(rpc);
    memcpy(message->method, method.data, method.bytes);
    message->method_bytes = method.bytes;
    for (uint8_t i = 0; i <= PATH_COUNT; i++) {
        const struct weir_json_value *value =
            i == 0 ? weir_json_rpc_id(rpc) : weir_json_rpc_value(rpc, (uint8_t)(i - 1));
        message->values[i].kind = value->kind;
        message->values[i].too_long = value->too_long;
        message->values[i].bytes = value->bytes;
        memcpy(message->values[i].text, value->text, value->bytes);
    }
}

/* In pieces of `step` bytes. */
static struct record read_all(struct input *input, size_t step,
                              const struct weir_json_rpc_paths *paths)
{
    struct record record = {.messages = malloc((input->bytes + 1) * sizeof(struct message))};
    struct weir_json_rpc rpc;
    enum weir_json_rpc_event event = WEIR_JSON_RPC_NEED_MORE;
    size_t at = 0, end = 0;
    must(record.messages != NULL);
    weir_json_rpc_init(&rpc, paths);
    do {
        end = input->bytes - end < step ? input->bytes : end + step;
        show(input, end);
        do {
            size_t used;
            struct weir_slice rest = {input->data + at, end - at};
            event = weir_json_rpc_next(&rpc, rest, &used);
            must(used <= rest.bytes);
            at += used;
            if (event == WEIR_JSON_RPC_MESSAGE) {
                record_message(&record, &rpc);
            }
        } while (event == WEIR_JSON_RPC_MESSAGE);
        must(event == WEIR_JSON_RPC_FAULT || at == end);
    } while (end < input->bytes && event == WEIR_JSON_RPC_NEED_MORE);
    show(input, input->bytes);
    must(rpc.message_count == record.count);
    record.is_batch = rpc.is_batch;
    record.failed = event == WEIR_JSON_RPC_FAULT;
    record.whole = weir_json_rpc_end(&rpc);
    must(!record.whole || !record.failed);
    return record;
}

static void must_be_equal(const struct record *a, const struct record *b)
{
    must(a->count == b->count && a->is_batch == b->is_batch);
    must(a->whole == b->whole && a->failed == b->failed);
    must(memcmp(a->messages, b->messages, a->count * sizeof a->messages[0]) == 0);
}

/* ---- the same document, as jansson reads it ---- */

static json_t *find(json_t *root, const char *path)
{
    json_t *at = root;
    while (at != NULL && *path != '\0') {
        size_t bytes = strcspn(path, ".");
        if (json_is_object(at)) {
            at = json_object_getn(at, path, bytes);
        } else if (json_is_array(at) && bytes == 1 && *path >= '0' && *path <= '9') {
            at = json_array_get(at, (size_t)(*path - '0'));
        } else {
            at = NULL;
        }
        path += bytes + (path[bytes] == '.');
    }
    return at;
}

/* Whether some name may be a step of a path but for the case of its letters: then its value is left
 * out, also where jansson has forgotten the member, because it is repeated. */
static bool has_other_letters;

static bool find_other_letters(const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if ((data[i] >= 'A' && data[i] <= 'Z') || data[i] >= 0x80 || data[i] == '\\') {
            return true;
        }
    }
    return false;
}

static void must_be_value(const struct weir_json_value *value, const json_t *json)
{
    if (json == NULL || (has_other_letters && value->kind == WEIR_JSON_VALUE_ABSENT)) {
        must(value->kind == WEIR_JSON_VALUE_ABSENT);
        return;
    }
    switch (json_typeof(json)) {
    case JSON_STRING:
        must(value->kind == WEIR_JSON_VALUE_STRING);
        must(value->too_long == (json_string_length(json) > WEIR_JSON_VALUE_BYTES_MAX));
        must(value->too_long || value->bytes == json_string_length(json));
        must(memcmp(value->text, json_string_value(json), value->bytes) == 0);
        break;
    case JSON_INTEGER:
    case JSON_REAL:
        must(value->kind == WEIR_JSON_VALUE_NUMBER && value->bytes > 0);
        if (json_is_integer(json) && !value->too_long) {
            char text[WEIR_JSON_VALUE_BYTES_MAX + 1] = "";
            memcpy(text, value->text, value->bytes);
            must(strtoll(text, NULL, 10) == json_integer_value(json));
        }
        break;
    case JSON_TRUE:
        must(value->kind == WEIR_JSON_VALUE_TRUE);
        break;
    case JSON_FALSE:
        must(value->kind == WEIR_JSON_VALUE_FALSE);
        break;
    case JSON_NULL:
        must(value->kind == WEIR_JSON_VALUE_NULL);
        break;
    case JSON_OBJECT:
        must(value->kind == WEIR_JSON_VALUE_OBJECT);
        break;
    case JSON_ARRAY:
        must(value->kind == WEIR_JSON_VALUE_ARRAY);
        break;
    }
}

/* Whether it has a member `Method` or `ID`, say. */
static bool has_odd_name(json_t *json)
{
    const char *name;
    size_t bytes;
    json_t *value;
    json_object_keylen_foreach(json, name, bytes, value)
    {
        if ((bytes == 6 && strncasecmp(name, "method", 6) == 0 && memcmp(name, "method", 6) != 0) ||
            (bytes == 2 && strncasecmp(name, "id", 2) == 0 && memcmp(name, "id", 2) != 0)) {
            return true;
        }
    }
    return false;
}

static void must_be_message(const struct message *message, json_t *json)
{
    if (!json_is_object(json)) {
        must(message->kind == WEIR_JSON_RPC_INVALID);
        return;
    }
    must_be_value(&message->values[0], json_object_get(json, "id"));
    for (size_t i = 0; i < PATH_COUNT; i++) {
        must_be_value(&message->values[i + 1], find(json, path_texts[i]));
    }
    json_t *method = json_object_get(json, "method");
    bool invalid = (method != NULL && !json_is_string(method)) || has_odd_name(json);
    must((message->kind == WEIR_JSON_RPC_INVALID) == invalid);
    must(invalid || (message->kind == WEIR_JSON_RPC_RESPONSE) == (method == NULL));
}

/* fuzz_json_scan.c compares what is JSON at all; here it is what stands where. */
static void compare(const struct input *input, const struct record *record)
{
    json_error_t error;
    json_t *json = json_loadb(input->data, input->bytes,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    if (json == NULL || !record->whole) {
        json_decref(json);
        return;
    }
    must(record->is_batch == json_is_array(json));
    must(record->count == (record->is_batch ? json_array_size(json) : 1));
    for (size_t i = 0; i < record->count; i++) {
        must_be_message(&record->messages[i], record->is_batch ? json_array_get(json, i) : json);
    }
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    has_other_letters = find_other_letters(data, bytes);
    static const size_t steps[] = {1, 2, 7};
    struct weir_json_rpc_paths paths;
    if (bytes > READ_MAX) {
        return 0;
    }
    weir_json_rpc_paths_init(&paths);
    for (size_t i = 0; i < PATH_COUNT; i++) {
        weir_json_rpc_paths_add(&paths, weir_slice_of(path_texts[i]));
    }
    struct input input = input_of(data, bytes);
    struct record whole = read_all(&input, SIZE_MAX, &paths);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct record other = read_all(&input, steps[i], &paths);
        must_be_equal(&whole, &other);
        free(other.messages);
    }
    compare(&input, &whole);
    free(whole.messages);
    give_back(&input);
    return 0;
}
