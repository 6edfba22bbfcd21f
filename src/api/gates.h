/* gates.h - what calls about gates share: the gate of the path, and pieces of replies. */
#ifndef WEIR_API_GATES_H
#define WEIR_API_GATES_H

#include "api/call.h"

/* What a piece of a reply leaves free: enough for the longest item of a list, whose names may take
 * six times their length, with all of its numbers. */
#define WEIR_API_ITEM_BYTES_MAX 4096

/* The gate, and the key, that the path names. False, or null, if there is none: then that is the
 * reply. The key is pinned. */
bool weir_api_find_gate(struct weir_call *call, uint32_t *gate);
struct weir_key *weir_api_find_key(struct weir_call *call, uint32_t *gate);

/* Whether the caller may see and use a key of the gate. */
bool weir_api_key_open(const struct weir_call *call, uint32_t gate, struct weir_slice key);

/* What the config says of the gate, or null if a reload has taken it out. */
const struct weir_config_gate *weir_api_find_config(const struct weir_call *call, uint32_t gate);

/* Whether a lane has found a rate: where requests have no price it begins with none, and only
 * refusals give it one. */
static inline bool weir_api_has_rate(const struct weir_control_stats *control)
{
    return control->rate < (double)WEIR_CONTROL_RATE_MAX;
}

/* Ends a reply whose last field is a list. False if it has to wait for the next piece. */
bool weir_api_end_list(struct weir_json *json);

void weir_api_put_limit(struct weir_json *json, uint32_t limit);

/* override.c: what is set at a key by hand, as two fields. */
void weir_api_put_override(struct weir_json *json, const struct weir_override *override,
                           bool paused);

/* How far a list of all gates and keys with something set by hand is. Zeroed, it begins. */
struct weir_override_cursor {
    uint32_t gate;
    uint32_t index;   /* of the gate's keys: the next one to list */
    bool listed_gate; /* the gate itself was */
};

/* Lists those that the caller may see. False if the rest has to wait for the next piece. */
bool weir_api_list_overrides(struct weir_call *call, struct weir_override_cursor *cursor,
                             struct weir_json *json);

#endif
