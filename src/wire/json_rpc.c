/* json_rpc.c - JSON-RPC messages, one by one. A reader belongs to one thread. */
#include "wire/json_rpc.h"

#include "base/slice.h"
#include "wire/chars.h"

#include <assert.h>

/* In front of the caller's paths. */
enum own_path {
    PATH_METHOD,
    PATH_ID,
    PATH_COUNT
};

static_assert(PATH_COUNT + WEIR_JSON_RPC_PATHS_MAX == WEIR_JSON_PICKS_MAX, "one picker reads all");

void weir_json_rpc_paths_init(struct weir_json_rpc_paths *paths)
{
    paths->count = PATH_COUNT;
    paths->paths[PATH_METHOD] =
        (struct weir_json_path){.step_count = 1, .steps = {{"method", sizeof "method" - 1}}};
    paths->paths[PATH_ID] =
        (struct weir_json_path){.step_count = 1, .steps = {{"id", sizeof "id" - 1}}};
}

void weir_json_rpc_paths_add(struct weir_json_rpc_paths *paths, struct weir_slice path)
{
    assert(paths->count < WEIR_JSON_PICKS_MAX);
    bool valid = weir_json_path_parse(path, &paths->paths[paths->count]);
    assert(valid);
    paths->count++;
}

static void begin_message(struct weir_json_rpc *rpc)
{
    rpc->is_over = false;
    rpc->is_object = false;
    rpc->is_odd = false;
    rpc->name_bytes = 0;
    weir_json_pick_init(&rpc->pick, rpc->paths->paths, rpc->values, rpc->paths->count,
                        rpc->is_batch ? 1 : 0);
}

void weir_json_rpc_init(struct weir_json_rpc *rpc, const struct weir_json_rpc_paths *paths)
{
    rpc->message_count = 0;
    rpc->is_batch = false;
    rpc->paths = paths;
    weir_json_scan_init(&rpc->scan);
    begin_message(rpc);
}

/* Whether a message ends with that token. Alone it is an object, or none; in a batch it may be
 * anything, inside of the batch's bracket. */
static bool ends_message(const struct weir_json_rpc *rpc, enum weir_json_token token)
{
    if (!rpc->is_batch) {
        return token == WEIR_JSON_OBJECT_END && rpc->scan.depth == 0;
    }
    switch (token) {
    case WEIR_JSON_STRING:
        return rpc->scan.depth == 1 && rpc->scan.ends;
    case WEIR_JSON_OBJECT_END:
    case WEIR_JSON_ARRAY_END:
    case WEIR_JSON_NUMBER:
    case WEIR_JSON_TRUE:
    case WEIR_JSON_FALSE:
    case WEIR_JSON_NULL:
        return rpc->scan.depth == 1;
    case WEIR_JSON_MORE:
    case WEIR_JSON_OBJECT:
    case WEIR_JSON_ARRAY:
    case WEIR_JSON_NAME:
    case WEIR_JSON_FAULT:
        break;
    }
    return false;
}

/* Whether a name is that one but for the case of its letters. */
static bool is_odd(struct weir_slice name, const char *usual)
{
    struct weir_slice other = weir_slice_of(usual);
    return weir_text_same(name, other) && !weir_slice_equal(name, other);
}

/* A piece of the name of a member of the message. */
static void take_name(struct weir_json_rpc *rpc, struct weir_slice piece)
{
    if (rpc->name_bytes + piece.bytes > sizeof rpc->name) {
        rpc->name_bytes = sizeof rpc->name + 1;
    } else if (piece.bytes > 0) {
        memcpy(rpc->name + rpc->name_bytes, piece.data, piece.bytes);
        rpc->name_bytes = (uint8_t)(rpc->name_bytes + piece.bytes);
    }
    if (!rpc->scan.ends) {
        return;
    }
    struct weir_slice name = {rpc->name, rpc->name_bytes};
    rpc->name_bytes = 0;
    if (name.bytes <= sizeof rpc->name && (is_odd(name, "method") || is_odd(name, "id"))) {
        rpc->is_odd = true;
    }
}

static void take_token(struct weir_json_rpc *rpc, enum weir_json_token token,
                       struct weir_slice input, size_t used, struct weir_slice piece)
{
    if (token == WEIR_JSON_ARRAY && rpc->scan.depth == 1) {
        rpc->is_batch = true;
        begin_message(rpc);
        return;
    }
    bool in_message = rpc->scan.depth == (rpc->is_batch ? 2 : 1);
    if (token == WEIR_JSON_OBJECT && in_message) {
        rpc->is_object = true;
    } else if (token == WEIR_JSON_NAME && in_message) {
        take_name(rpc, piece);
    }
    weir_json_pick_take(&rpc->pick, &rpc->scan, token, input, used, piece);
}

enum weir_json_rpc_event weir_json_rpc_next(struct weir_json_rpc *rpc, struct weir_slice input,
                                            size_t *used)
{
    if (rpc->is_over) {
        begin_message(rpc);
    }
    *used = 0;
    for (;;) {
        size_t taken;
        struct weir_slice piece = {0};
        struct weir_slice rest = {input.data + *used, input.bytes - *used};
        enum weir_json_token token = weir_json_scan_next(&rpc->scan, rest, &taken, &piece);
        *used += taken;
        if (token == WEIR_JSON_FAULT) {
            return WEIR_JSON_RPC_FAULT;
        }
        take_token(rpc, token, rest, taken, piece);
        if (ends_message(rpc, token)) {
            rpc->is_over = true;
            rpc->message_count += rpc->message_count < UINT32_MAX;
            return WEIR_JSON_RPC_MESSAGE;
        }
        if (token == WEIR_JSON_MORE) {
            return WEIR_JSON_RPC_NEED_MORE;
        }
    }
}

bool weir_json_rpc_end(const struct weir_json_rpc *rpc)
{
    return rpc->message_count > 0 && weir_json_scan_is_whole(&rpc->scan);
}

/* ---- of the last message ---- */

enum weir_json_rpc_kind weir_json_rpc_kind(const struct weir_json_rpc *rpc)
{
    enum weir_json_value_kind method = (enum weir_json_value_kind)rpc->values[PATH_METHOD].kind;
    if (!rpc->is_object || rpc->is_odd) {
        return WEIR_JSON_RPC_INVALID;
    }
    if (method == WEIR_JSON_VALUE_ABSENT) {
        return WEIR_JSON_RPC_RESPONSE;
    }
    if (method != WEIR_JSON_VALUE_STRING) {
        return WEIR_JSON_RPC_INVALID;
    }
    return rpc->values[PATH_ID].kind == WEIR_JSON_VALUE_ABSENT ? WEIR_JSON_RPC_NOTIFICATION
                                                               : WEIR_JSON_RPC_REQUEST;
}

struct weir_slice weir_json_rpc_method(const struct weir_json_rpc *rpc)
{
    return weir_json_value_text(&rpc->values[PATH_METHOD]);
}

const struct weir_json_value *weir_json_rpc_id(const struct weir_json_rpc *rpc)
{
    return &rpc->values[PATH_ID];
}

const struct weir_json_value *weir_json_rpc_value(const struct weir_json_rpc *rpc, uint8_t path)
{
    assert(path < rpc->paths->count - PATH_COUNT);
    return &rpc->values[PATH_COUNT + path];
}

void weir_json_rpc_write_id(struct weir_json *json, const struct weir_json_value *id)
{
    weir_json_name(json, "id");
    if (id->kind == WEIR_JSON_VALUE_STRING && !id->too_long) {
        weir_json_string(json, weir_json_value_text(id));
    } else if (id->kind == WEIR_JSON_VALUE_NUMBER && !id->too_long) {
        weir_json_raw(json, weir_json_value_text(id));
        json->comma = true;
    } else {
        weir_json_null(json);
    }
}
