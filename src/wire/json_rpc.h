/* json_rpc.h - reads JSON-RPC 2.0 as it arrives: one message, or a batch of them.
 *
 * The reader takes bytes and returns at the end of each message, whose method, id and values at
 * paths of the caller's (json_pick.h) are known then. So a batch of any length costs no memory. It
 * reads requests and replies: `params.name` is a path of the one, `result.status.state` of the
 * other. `jsonrpc: "2.0"` is not insisted on, because a server may not insist on it either, and
 * would then serve what Weir has passed over. For the same reason a message with a name such as
 * `Method` is invalid: some servers take it for `method`. */
#ifndef WEIR_WIRE_JSON_RPC_H
#define WEIR_WIRE_JSON_RPC_H

#include "wire/json_pick.h"
#include "wire/json_writer.h"

/* Paths of the caller's; two more are those of method and id. */
#define WEIR_JSON_RPC_PATHS_MAX (WEIR_JSON_PICKS_MAX - 2)

/* What is read of messages: made once, then constant, and shared by any number of readers. */
struct weir_json_rpc_paths {
    uint8_t count;
    struct weir_json_path paths[WEIR_JSON_PICKS_MAX];
};

enum weir_json_rpc_kind {
    WEIR_JSON_RPC_REQUEST,      /* it has a method and an id: a reply will come */
    WEIR_JSON_RPC_NOTIFICATION, /* it has a method and no id */
    WEIR_JSON_RPC_RESPONSE,     /* it has no method */
    WEIR_JSON_RPC_INVALID       /* it is no object, or its method is no string, or it has a name
                                   that is `method` or `id` in other letters */
};

enum weir_json_rpc_event {
    WEIR_JSON_RPC_NEED_MORE, /* all input was used */
    WEIR_JSON_RPC_MESSAGE,   /* a message has ended; what it says stays until the next call */
    WEIR_JSON_RPC_FAULT      /* this is no JSON; it stays */
};

struct weir_json_rpc {
    uint32_t message_count; /* so far */
    bool is_batch;

    /* The rest is private. */
    struct weir_json_scan scan;
    struct weir_json_pick pick;
    const struct weir_json_rpc_paths *paths;
    bool is_over;   /* the last message has ended, and the next one has not begun */
    bool is_object; /* the message is one */
    bool is_odd;    /* it has a name that is method or id but for its letters */
    uint8_t name_bytes;
    char name[8]; /* of a member of the message, as far as it fits */
    struct weir_json_value values[WEIR_JSON_PICKS_MAX];
};

/* Begins a set of paths, and adds one; it is the next of the caller's, counted from 0. The texts
 * must outlive the set. Adding requires a path that weir_json_path_parse() takes, and room. */
void weir_json_rpc_paths_init(struct weir_json_rpc_paths *paths);
void weir_json_rpc_paths_add(struct weir_json_rpc_paths *paths, struct weir_slice path);

/* Begins a document. The paths must outlive the reader. */
void weir_json_rpc_init(struct weir_json_rpc *rpc, const struct weir_json_rpc_paths *paths);

/* Takes bytes from `input` up to the end of a message, and sets `used` to their number. Call again
 * with the rest until WEIR_JSON_RPC_NEED_MORE, then with what arrives next. What is returned
 * depends on the bytes only, not on how they arrive. */
WEIR_MUST_CHECK enum weir_json_rpc_event weir_json_rpc_next(struct weir_json_rpc *rpc,
                                                            struct weir_slice input, size_t *used);

/* The document is over. Whether it is a message, or a batch of at least one; otherwise nothing that
 * was read of it is to be used. */
WEIR_MUST_CHECK bool weir_json_rpc_end(const struct weir_json_rpc *rpc);

/* ---- of the last message ---- */

enum weir_json_rpc_kind weir_json_rpc_kind(const struct weir_json_rpc *rpc);

/* A method of more than WEIR_JSON_VALUE_BYTES_MAX bytes is cut. */
struct weir_slice weir_json_rpc_method(const struct weir_json_rpc *rpc);
const struct weir_json_value *weir_json_rpc_id(const struct weir_json_rpc *rpc);

/* The value at a path of the caller's. */
const struct weir_json_value *weir_json_rpc_value(const struct weir_json_rpc *rpc, uint8_t path);

/* Writes the member `id` of a reply to a message with that id. It is null if the message has none,
 * or one that is neither a string nor a number, or longer than what is kept. */
void weir_json_rpc_write_id(struct weir_json *json, const struct weir_json_value *id);

#endif
