/* rpc_filter.h - requests whose JSON bodies say where they stand: by a value that is a part of the
 * key (`key: "json:params.name"`), and on JSON-RPC routes also whether they need a permit at all.
 *
 * All of the body is read before the request stands in line. On a JSON-RPC route a message needs a
 * permit if it is a request, but for methods of the route's `ungated`. Notifications and responses
 * pass: a tool call that holds the only permit may wait for one. A batch stands in line as one: it
 * has the key of its first message, and costs as much as it has messages. What cannot be read as
 * JSON-RPC stands in line under `default_key`. Refusals are errors of JSON-RPC with the request's
 * id. docs/guides/mcp.md shows the use. */
#ifndef WEIR_RPC_RPC_FILTER_H
#define WEIR_RPC_RPC_FILTER_H

#include "config/config.h"
#include "proxy/filter.h"
#include "wire/json_rpc.h"

/* Messages of a batch. */
#define WEIR_RPC_BATCH_MAX 1000

/* What a route says. */
struct weir_rpc_settings {
    const struct weir_config_route *route;
    struct weir_json_rpc_paths paths; /* of the part of the key that the body names; or none */
};

/* While a body is read. */
struct weir_rpc_reader {
    struct weir_json_rpc rpc;
    bool failed; /* it is no JSON */
};

/* The filter's state. */
struct weir_rpc_exchange {
    const struct weir_rpc_settings *settings;
    struct weir_rpc_reader *reader; /* null before the body is read, and after it */
    uint8_t priority;               /* enum weir_priority */
    bool has_body;
    bool is_read;  /* the body is JSON: the next three, `id` and `named` are what it says */
    bool is_gated; /* some message of it needs a permit */
    bool is_batch;
    uint32_t message_count;
    uint16_t key_bytes;
    uint16_t key_gap; /* see struct weir_request_facts */
    char key[WEIR_NAME_BYTES_MAX];
    struct weir_json_value id;    /* of a single message */
    struct weir_json_value named; /* what the body names for the key */
};

/* For routes with `json_rpc`, or with json: in their key. The settings are the route's. */
extern const struct weir_exchange_filter weir_rpc_filter;

/* Whether a route has the filter. */
bool weir_rpc_wanted(const struct weir_config_route *route);

/* The settings of the routes that have the filter, in the order of the config. To be freed with
 * free(). Null without memory. */
struct weir_rpc_settings *weir_rpc_settings_create(const struct weir_config *config);

#endif
