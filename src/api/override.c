/* override.c - limits and pauses by hand: PUT and DELETE /gates/{gate}/{key}/limit, and POST
 * /gates/{gate}/pause and /gates/{gate}/{key}/pause, each with its /resume.
 *
 * Everything happens in the loop that takes the call. The reply says what is in force then. */
#include "gates/override.h"

#include "api/gates.h"
#include "api/handlers.h"

#include <jansson.h>
#include <stdio.h>

/* What the reply says. */
struct override_reply {
    uint32_t gate;
    struct weir_slice key; /* of the path; empty: the whole gate */
    struct weir_override override;
    bool paused;
};

static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct override_reply)};

void weir_api_put_override(struct weir_json *json, const struct weir_override *override,
                           bool paused)
{
    weir_json_put_bool(json, "paused", paused);
    if (override->limited) {
        weir_json_name(json, "limit_by_hand");
        weir_json_open(json, '{');
        weir_api_put_limit(json, override->limit);
        weir_json_close(json, '}');
    } else {
        weir_json_put_null(json, "limit_by_hand");
    }
}

static bool produce_override(struct weir_call *call, struct weir_json *json)
{
    const struct override_reply *reply = call->context;
    weir_json_open(json, '{');
    weir_json_put_string(json, "gate", weir_gates_name(call->worker->gates, reply->gate));
    if (reply->key.bytes > 0) {
        weir_json_put_string(json, "key", reply->key);
        weir_api_put_override(json, &reply->override, reply->paused);
    } else {
        weir_json_put_bool(json, "paused", reply->paused);
    }
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

static void refuse_status(struct weir_call *call, enum weir_status status)
{
    char detail[160];
    switch (status) {
    case WEIR_TOO_MANY_OVERRIDES:
        snprintf(detail, sizeof detail,
                 "%d keys have a limit or pause by hand, which is the most. Take some back; POST "
                 "/reload lists them.",
                 WEIR_OVERRIDES_MAX);
        weir_call_problem(call, WEIR_PROBLEM_TOO_MANY_OVERRIDES, 409, detail);
        break;
    case WEIR_TOO_MANY_KEYS:
        weir_call_problem(call, WEIR_PROBLEM_TOO_MANY_KEYS, 503,
                          "All keys of the gate (max_keys) are in use. Try again, raise max_keys, "
                          "or pause the whole gate.");
        break;
    case WEIR_BAD_NAME:
        weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                          "The key in the path, after the gate, must have 1 to 255 bytes.");
        break;
    default:
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "Out of memory for this call. Try again.");
        break;
    }
}

/* Finds the gate and whether the caller may steer it, or that key of it; else the error reply has
 * been written, and it returns null. */
static struct override_reply *begin_override(struct weir_call *call, bool of_key)
{
    struct override_reply *reply = weir_call_attach(call, &hooks);
    if (reply == NULL || !weir_api_find_gate(call, &reply->gate)) {
        return NULL;
    }
    reply->key = of_key ? call->segments[2] : (struct weir_slice){"", 0};
    bool may = of_key ? weir_api_key_open(call, reply->gate, reply->key)
                      : call->credential.tenant.bytes == 0;
    if (!may) {
        weir_call_problem(call, WEIR_PROBLEM_FORBIDDEN, 403,
                          "A token with a tenant steers only the keys of its own tenant. Name such "
                          "a key, or use a token that names no tenant.");
        return NULL;
    }
    return reply;
}

static void change_key(struct weir_call *call, struct override_reply *reply,
                       const struct weir_override_change *change)
{
    enum weir_status status =
        weir_gates_change_override(call->worker->gates, reply->gate, reply->key, change,
                                   call->worker->index, &reply->override);
    if (status != WEIR_OK) {
        refuse_status(call, status);
        return;
    }
    reply->paused =
        reply->override.paused || weir_gates_is_paused(call->worker->gates, reply->gate);
    weir_call_reply(call, 200, "application/json", produce_override);
}

/* ---- limits ---- */

/* Reads {"limit": N}, or null for none. False if the body is anything else. */
static bool read_limit(struct weir_slice body, struct weir_override_change *change)
{
    json_t *document = json_loadb(body.data, body.bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *limit = json_object_get(document, "limit");
    bool good = json_is_object(document) && json_object_size(document) == 1 &&
                (json_is_null(limit) || (json_is_integer(limit) && json_integer_value(limit) >= 0 &&
                                         json_integer_value(limit) <= (json_int_t)WEIR_LIMIT_MAX));
    if (good) {
        change->limit = json_is_null(limit) ? WEIR_LIMIT_NONE : (uint32_t)json_integer_value(limit);
    }
    json_decref(document);
    return good;
}

void weir_api_put_key_limit(struct weir_call *call)
{
    struct weir_override_change change = {.sets_limit = true, .limited = true};
    struct override_reply *reply = begin_override(call, true);
    if (reply == NULL) {
        return;
    }
    if (!read_limit(call->document, &change)) {
        weir_call_problem(
            call, WEIR_PROBLEM_BAD_REQUEST, 400,
            "The body must be {\"limit\": N}, with a whole number from 0 to 10000000, "
            "or null for no limit.");
        return;
    }
    change_key(call, reply, &change);
}

void weir_api_remove_key_limit(struct weir_call *call)
{
    struct override_reply *reply = begin_override(call, true);
    if (reply != NULL) {
        change_key(call, reply, &(struct weir_override_change){.sets_limit = true});
    }
}

/* ---- pauses ---- */

static void pause_or_resume(struct weir_call *call, bool paused)
{
    bool of_key = call->segment_count == 4;
    struct override_reply *reply = begin_override(call, of_key);
    if (reply == NULL) {
        return;
    }
    if (of_key) {
        change_key(call, reply,
                   &(struct weir_override_change){.sets_paused = true, .paused = paused});
        return;
    }
    weir_gates_pause(call->worker->gates, reply->gate, paused, call->worker->index);
    reply->paused = paused;
    weir_call_reply(call, 200, "application/json", produce_override);
}

void weir_api_pause(struct weir_call *call)
{
    pause_or_resume(call, true);
}

void weir_api_resume(struct weir_call *call)
{
    pause_or_resume(call, false);
}

/* ---- the list of them, in the reply to a reload ---- */

bool weir_api_list_overrides(struct weir_call *call, struct weir_override_cursor *cursor,
                             struct weir_json *json)
{
    struct weir_gates *gates = call->worker->gates;
    for (; cursor->gate < weir_gates_count(gates); cursor->gate++) {
        struct weir_key *key;
        if (!cursor->listed_gate && weir_gates_is_paused(gates, cursor->gate)) {
            if (json->capacity - json->bytes < WEIR_API_ITEM_BYTES_MAX) {
                return false;
            }
            weir_json_open(json, '{');
            weir_json_put_string(json, "gate", weir_gates_name(gates, cursor->gate));
            weir_json_put_bool(json, "paused", true);
            weir_json_close(json, '}');
        }
        cursor->listed_gate = true;
        while ((key = weir_gates_overridden(gates, cursor->gate, cursor->index)) != NULL) {
            bool paused;
            struct weir_override override = weir_gates_override_of(key, &paused);
            if (json->capacity - json->bytes < WEIR_API_ITEM_BYTES_MAX) {
                weir_key_give(key);
                return false;
            }
            if (weir_api_key_open(call, cursor->gate, weir_key_name(key))) {
                weir_json_open(json, '{');
                weir_json_put_string(json, "gate", weir_gates_name(gates, cursor->gate));
                weir_json_put_string(json, "key", weir_key_name(key));
                weir_api_put_override(json, &override, paused);
                weir_json_close(json, '}');
            }
            weir_key_give(key);
            cursor->index++;
        }
        cursor->index = 0;
        cursor->listed_gate = false;
    }
    return true;
}
