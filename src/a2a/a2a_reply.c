/* a2a_reply.c - the reply of an agent: what it tells about a task, while it passes, and what that
 * means for the task's permit.
 *
 * A message that stood in line has a permit of its own, which it passes to its task at its end if
 * the task goes on. All other replies only renew the permit of a task, or end it.
 *
 * Every function runs in the loop of the exchange's worker. */
#include "a2a/a2a_exchange.h"

#include "base/slice.h"
#include "wire/chars.h"

#include <assert.h>

/* ---- what replies say about a task ---- */

static enum weir_outcome outcome_of(enum weir_a2a_life life)
{
    switch (life) {
    case WEIR_A2A_LIFE_CANCELED:
        return WEIR_OUTCOME_CANCELLED;
    case WEIR_A2A_LIFE_FAILED: /* as any agent may; that does not mean that its server is full */
        return WEIR_OUTCOME_CLIENT_ERROR;
    case WEIR_A2A_LIFE_UNKNOWN:
    case WEIR_A2A_LIFE_GOES_ON:
    case WEIR_A2A_LIFE_COMPLETED:
        break;
    }
    return WEIR_OUTCOME_SUCCESS;
}

/* Renews or ends the permit of the task that it is about, if that holds one. */
static void tell_task(struct weir_a2a *a2a)
{
    struct weir_exchange *exchange = a2a->exchange;
    struct weir_worker *worker = exchange->worker;
    struct weir_task_name name = weir_a2a_task_name(a2a);
    enum weir_a2a_life life = (enum weir_a2a_life)a2a->life;
    if (exchange->route->gate == WEIR_CONFIG_NONE || !a2a->names_task) {
        return;
    }
    if (life != WEIR_A2A_LIFE_GOES_ON) {
        (void)weir_task_permits_end(worker->task_permits, &name, outcome_of(life), worker->index);
    } else if (a2a->call == WEIR_A2A_CALL_SUBSCRIBE && a2a->joined == 0) {
        a2a->joined =
            weir_task_permits_join(worker->task_permits, &name, WEIR_TASK_WATCH, worker->index);
    } else if (a2a->joined == 0 && exchange->place != WEIR_PLACE_OWN) {
        (void)weir_task_permits_renew(worker->task_permits, &name, worker->index);
    }
}

static bool is_about(const struct weir_a2a *a2a, struct weir_slice id)
{
    struct weir_slice name = weir_a2a_task_name(a2a).text;
    return name.bytes > id.bytes &&
           memcmp(name.data + name.bytes - id.bytes, id.data, id.bytes) == 0 &&
           name.bytes - id.bytes == strlen(WEIR_A2A_TASK);
}

/* A message of the reply is complete. */
static void take_message(struct weir_a2a *a2a)
{
    struct weir_a2a_news news = weir_a2a_reply_news(&a2a->reader->rpc, a2a->is_bare);
    if (news.life == WEIR_A2A_LIFE_UNKNOWN) {
        return;
    }
    if (a2a->joined != 0 && !is_about(a2a, news.task)) {
        return; /* it goes on the permit of the task that it has named */
    }
    a2a->life = (uint8_t)news.life;
    weir_a2a_name_task(a2a, news.task);
    tell_task(a2a);
}

/* ---- reading ---- */

static void begin_message(struct weir_a2a *a2a)
{
    const struct weir_a2a_paths *paths = &a2a->settings->paths;
    weir_json_rpc_init(&a2a->reader->rpc, a2a->is_bare ? &paths->bare : &paths->reply);
}

static void read_json(struct weir_a2a *a2a, struct weir_slice input)
{
    for (;;) {
        size_t used;
        enum weir_json_rpc_event event = weir_json_rpc_next(&a2a->reader->rpc, input, &used);
        if (event != WEIR_JSON_RPC_MESSAGE) {
            return; /* what is no JSON tells nothing */
        }
        take_message(a2a);
        input = (struct weir_slice){input.data + used, input.bytes - used};
    }
}

static void read_plain(struct weir_a2a *a2a, struct weir_slice input)
{
    if (!a2a->reader->events) {
        read_json(a2a, input);
        return;
    }
    for (;;) {
        size_t used;
        struct weir_slice data;
        enum weir_sse_token token = weir_sse_next(&a2a->reader->sse, input, &used, &data);
        if (token == WEIR_SSE_MORE) {
            return;
        }
        if (token == WEIR_SSE_DATA) {
            read_json(a2a, data);
        } else {
            begin_message(a2a);
        }
        input = (struct weir_slice){input.data + used, input.bytes - used};
    }
}

void weir_a2a_listen(struct weir_a2a *a2a, struct weir_slice bytes)
{
    if (a2a->reader == NULL || a2a->call == WEIR_A2A_CALL_CARD) {
        return;
    }
    if (a2a->exchange->reply.body.framing != WEIR_FRAMING_CHUNKED) {
        read_plain(a2a, bytes);
        return;
    }
    for (;;) {
        size_t used;
        struct weir_slice data;
        if (weir_chunked_next(&a2a->reader->chunked, bytes, &used, &data) != WEIR_CHUNKED_BODY) {
            return;
        }
        read_plain(a2a, data);
        bytes = (struct weir_slice){bytes.data + used, bytes.bytes - used};
    }
}

void weir_a2a_listen_end(struct weir_a2a *a2a)
{
    a2a->replied = true;
}

/* ---- the head ---- */

static bool has_type(const struct weir_a2a *a2a, const struct weir_http1_head *head,
                     const char *type)
{
    const struct weir_buffer *in = &a2a->exchange->backend->in;
    const struct weir_http1_field *field = weir_http1_find(head, WEIR_FIELD_CONTENT_TYPE);
    struct weir_slice wanted = weir_slice_of(type);
    struct weir_slice value =
        field == NULL ? (struct weir_slice){"", 0} : weir_http1_value(in->data + in->begin, field);
    return value.bytes >= wanted.bytes &&
           weir_text_same((struct weir_slice){value.data, wanted.bytes}, wanted);
}

/* False without memory. */
static bool take_reader(struct weir_a2a *a2a)
{
    if (a2a->reader == NULL) {
        a2a->reader = weir_slab_take(&a2a->exchange->worker->a2a->readers);
    }
    if (a2a->reader != NULL) {
        weir_chunked_init(&a2a->reader->chunked, UINT64_MAX);
    }
    return a2a->reader != NULL;
}

/* Begins to read a reply, if it is one that says something. False without memory. */
static bool begin_listening(struct weir_a2a *a2a, const struct weir_http1_head *head)
{
    bool events = has_type(a2a, head, "text/event-stream");
    bool json = has_type(a2a, head, "application/json") ||
                has_type(a2a, head, "application/a2a+json"); /* HTTP+JSON of 1.x */
    if (!events && !json) {
        return true;
    }
    if (!take_reader(a2a)) {
        return false;
    }
    a2a->reader->events = events;
    weir_sse_init(&a2a->reader->sse);
    begin_message(a2a);
    return true;
}

enum weir_filter_head weir_a2a_read_head(struct weir_a2a *a2a, const struct weir_http1_head *head)
{
    bool good = head->status >= 200 && head->status < 300;
    bool leads_away = head->status >= 300 && head->status < 400 && head->status != 304;
    switch ((enum weir_a2a_call)a2a->call) {
    case WEIR_A2A_CALL_CARD:
        if ((!good && !leads_away) || a2a->exchange->request.method == WEIR_METHOD_HEAD) {
            break;
        }
        return take_reader(a2a) ? WEIR_FILTER_HEAD_HOLD : WEIR_FILTER_HEAD_NO_MEMORY;
    case WEIR_A2A_CALL_PUSH: /* its receiver has accepted it, so it may be believed */
        if (good) {
            tell_task(a2a);
        }
        break;
    case WEIR_A2A_CALL_SEND:
    case WEIR_A2A_CALL_TASK:
    case WEIR_A2A_CALL_SUBSCRIBE:
        if (good && !begin_listening(a2a, head)) {
            return WEIR_FILTER_HEAD_NO_MEMORY;
        }
        break;
    case WEIR_A2A_CALL_OTHER:
        break;
    }
    return WEIR_FILTER_HEAD_PASS;
}

/* ---- the end ---- */

/* Whether the agent goes on with what the message began: it has said so, or it was still to say
 * something when its client left or Weir did not wait any longer. */
static bool goes_on(const struct weir_a2a *a2a, const struct weir_result *result)
{
    const struct weir_exchange *exchange = a2a->exchange;
    bool left =
        result->outcome == WEIR_OUTCOME_CANCELLED && !a2a->replied && exchange->reply.status < 300;
    return a2a->life == WEIR_A2A_LIFE_GOES_ON || (a2a->life == WEIR_A2A_LIFE_UNKNOWN && left);
}

bool weir_a2a_keep(struct weir_a2a *a2a, const struct weir_result *result)
{
    struct weir_exchange *exchange = a2a->exchange;
    return a2a->call == WEIR_A2A_CALL_SEND && exchange->request.sent && a2a->name_bytes > 0 &&
           goes_on(a2a, result) &&
           weir_task_permits_keep(exchange->worker->task_permits, &exchange->gate_ticket, a2a->gate,
                                  (struct weir_slice){a2a->name, a2a->name_bytes},
                                  exchange->route->task_lease_ns);
}

void weir_a2a_end(struct weir_a2a *a2a)
{
    struct weir_worker *worker = a2a->exchange->worker;
    if (a2a->joined != 0) {
        struct weir_task_name name = weir_a2a_task_name(a2a);
        weir_task_permits_leave(worker->task_permits, &name, weir_a2a_task_use(a2a), a2a->joined,
                                worker->index);
    }
    if (a2a->reader != NULL) {
        weir_slab_give(&worker->a2a->readers, a2a->reader);
    }
    weir_buffer_release(&worker->buffers, &a2a->card);
    weir_slab_give(&worker->a2a->exchanges, a2a);
}
