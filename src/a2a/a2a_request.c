/* a2a_request.c - a request to an agent: its body is read before it stands in line, because the
 * method in it decides whether it does.
 *
 * A call about a task goes on at once: it must never wait behind the task. So does a message for a
 * task that holds a permit, on that permit. Messages otherwise, and all that is not known, stand in
 * line.
 *
 * Every function runs in the loop of the exchange's worker. */
#include "a2a/a2a_exchange.h"

#include "base/slice.h"

#include <assert.h>

/* ---- the head ---- */

/* Keeps what the route strips from the path, as the client wrote it. */
static void keep_stripped(struct weir_a2a *a2a, struct weir_slice path)
{
    uint32_t segments = a2a->exchange->route->strip_segments;
    size_t bytes = 0;
    for (uint32_t i = 0; i < segments && bytes < path.bytes; i++) {
        bytes++; /* its slash */
        while (bytes < path.bytes && path.data[bytes] != '/') {
            bytes++;
        }
    }
    a2a->stripped_long = bytes > sizeof a2a->stripped;
    if (!a2a->stripped_long) {
        a2a->stripped_bytes = (uint16_t)bytes;
        weir_slice_copy(a2a->stripped, (struct weir_slice){path.data, bytes});
    }
}

struct weir_a2a *weir_a2a_begin(struct weir_exchange *exchange,
                                const struct weir_a2a_settings *settings,
                                const struct weir_request_facts *facts)
{
    struct weir_a2a *a2a = weir_slab_take(&exchange->worker->a2a->exchanges);
    if (a2a == NULL) {
        return NULL;
    }
    memset(a2a, 0, offsetof(struct weir_a2a, key)); /* the texts need not be */
    a2a->exchange = exchange;
    a2a->settings = settings;
    a2a->priority = (uint8_t)facts->priority;
    a2a->has_body = exchange->request.body.state == WEIR_BODY_GOES_ON;
    a2a->is_post = facts->head->method == WEIR_METHOD_POST;
    a2a->by_path = (uint8_t)weir_a2a_call_of_path(facts->head->method, facts->path);
    a2a->call = a2a->by_path;
    a2a->is_bare = true;
    a2a->key_bytes = (uint16_t)facts->key.bytes;
    weir_slice_copy(a2a->key, facts->key);
    keep_stripped(a2a, facts->path);
    return a2a;
}

/* ---- what the body says ---- */

/* An id has at most WEIR_JSON_VALUE_BYTES_MAX bytes, so every name fits. */
static void set_name(struct weir_a2a *a2a, const char *kind, struct weir_slice id)
{
    size_t kind_bytes = strlen(kind);
    assert(kind_bytes + id.bytes <= sizeof a2a->name);
    memcpy(a2a->name, kind, kind_bytes);
    memcpy(a2a->name + kind_bytes, id.data, id.bytes);
    a2a->name_bytes = (uint16_t)(kind_bytes + id.bytes);
}

void weir_a2a_name_task(struct weir_a2a *a2a, struct weir_slice id)
{
    set_name(a2a, WEIR_A2A_TASK, id);
    a2a->names_task = true;
}

struct weir_task_name weir_a2a_task_name(const struct weir_a2a *a2a)
{
    return (struct weir_task_name){
        a2a->gate, {a2a->key, a2a->key_bytes}, {a2a->name, a2a->name_bytes}};
}

enum weir_task_use weir_a2a_task_use(const struct weir_a2a *a2a)
{
    return a2a->call == WEIR_A2A_CALL_SEND ? WEIR_TASK_WORK : WEIR_TASK_WATCH;
}

/* Remembers what is needed of the body. */
static void take_body(struct weir_a2a *a2a, const struct weir_json_rpc *rpc)
{
    a2a->call = (uint8_t)weir_a2a_call_of_body(rpc, (enum weir_a2a_call)a2a->by_path);
    a2a->is_bare = weir_json_rpc_kind(rpc) == WEIR_JSON_RPC_RESPONSE;
    a2a->is_rpc = weir_json_rpc_kind(rpc) == WEIR_JSON_RPC_REQUEST;
    if (a2a->is_rpc) {
        a2a->id = *weir_json_rpc_id(rpc);
    }
    struct weir_slice task = weir_a2a_request_task(rpc, (enum weir_a2a_call)a2a->call);
    struct weir_slice message = weir_a2a_request_message(rpc);
    if (a2a->call == WEIR_A2A_CALL_PUSH) {
        struct weir_a2a_news news = weir_a2a_push_news(rpc);
        a2a->life = (uint8_t)news.life;
        task = news.task;
    }
    if (task.bytes > 0) {
        weir_a2a_name_task(a2a, task);
    } else if (a2a->call == WEIR_A2A_CALL_SEND && message.bytes > 0) {
        set_name(a2a, WEIR_A2A_MESSAGE, message);
    }
}

static bool begin_reading(struct weir_a2a *a2a)
{
    a2a->reader = weir_slab_take(&a2a->exchange->worker->a2a->readers);
    if (a2a->reader == NULL) {
        return false;
    }
    a2a->reader->failed = false;
    weir_json_rpc_init(&a2a->reader->rpc, &a2a->settings->paths.request);
    return true;
}

static void read_bytes(struct weir_a2a *a2a, struct weir_slice bytes)
{
    struct weir_json_rpc *rpc = &a2a->reader->rpc;
    while (!a2a->reader->failed) {
        size_t used;
        switch (weir_json_rpc_next(rpc, bytes, &used)) {
        case WEIR_JSON_RPC_NEED_MORE:
            return;
        case WEIR_JSON_RPC_MESSAGE:
            if (!rpc->is_batch) {
                take_body(a2a, rpc);
            }
            break;
        case WEIR_JSON_RPC_FAULT:
            a2a->reader->failed = true;
            break;
        }
        bytes = (struct weir_slice){bytes.data + used, bytes.bytes - used};
    }
}

bool weir_a2a_read(struct weir_a2a *a2a, struct weir_slice bytes, bool last)
{
    if (!a2a->is_post || (a2a->reader == NULL && bytes.bytes == 0)) {
        return true;
    }
    if (a2a->reader == NULL && !begin_reading(a2a)) {
        return false;
    }
    read_bytes(a2a, bytes);
    if (last) {
        a2a->is_read = !a2a->reader->failed && weir_json_rpc_end(&a2a->reader->rpc);
        a2a->is_batch = a2a->reader->rpc.is_batch;
        weir_slab_give(&a2a->exchange->worker->a2a->readers, a2a->reader);
        a2a->reader = NULL;
    }
    return true;
}

void weir_a2a_ask(struct weir_a2a *a2a)
{
    struct weir_exchange *exchange = a2a->exchange;
    struct weir_request request = {.priority = (enum weir_priority)a2a->priority,
                                   .deadline_ns = exchange->deadline_ns};
    if (a2a->is_batch) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_BAD_REQUEST, 400,
                             "A2A knows no batches of JSON-RPC. Send one message at a time.");
        return;
    }
    if (a2a->is_post && a2a->has_body && !a2a->is_read && a2a->call != WEIR_A2A_CALL_SEND) {
        a2a->call = WEIR_A2A_CALL_OTHER; /* whatever its path says */
        a2a->is_rpc = false;
    }
    weir_exchange_enter(exchange, (struct weir_slice){a2a->key, a2a->key_bytes}, &request);
}

/* ---- into the line, or past it ---- */

/* Whether the task holds a permit, on which this request goes from now on. */
static bool joins_task(struct weir_a2a *a2a)
{
    struct weir_worker *worker = a2a->exchange->worker;
    if (a2a->names_task) {
        struct weir_task_name name = weir_a2a_task_name(a2a);
        a2a->joined = weir_task_permits_join(worker->task_permits, &name, weir_a2a_task_use(a2a),
                                             worker->index);
    }
    return a2a->joined != 0;
}

bool weir_a2a_enter(struct weir_a2a *a2a, const struct weir_destination *where)
{
    a2a->gate = where->gate;
    switch ((enum weir_a2a_call)a2a->call) {
    case WEIR_A2A_CALL_OTHER:
        return false;
    case WEIR_A2A_CALL_SEND:
        if (!joins_task(a2a)) {
            return false;
        }
        break;
    case WEIR_A2A_CALL_SUBSCRIBE:
        (void)joins_task(a2a);
        break;
    case WEIR_A2A_CALL_TASK:
    case WEIR_A2A_CALL_CARD:
    case WEIR_A2A_CALL_PUSH:
        break;
    }
    weir_exchange_admitted(a2a->exchange);
    return true;
}
