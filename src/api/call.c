/* call.c - how a request to the API is read, decided and answered.
 *
 *     head -> [handler that takes the body] -> body -> handler -> reply, piece by piece -> end
 *
 * The end comes early when the client goes. Memory outlives it: as long as something is under way
 * that will arrive for the call (`under_way`), call and context stay, and a hook must look at
 * neither the client nor its buffers any more. A call is one loop's: no locks. */
#include "api/call.h"

#include "api/api.h"
#include "api/api_permit.h"
#include "base/slice.h"
#include "frontend/guard.h"
#include "tenants/api_key.h"
#include "tenants/token.h"
#include "wire/chunked.h"
#include "wire/path.h"
#include "worker/config_snapshot.h"

#include <assert.h>
#include <stdio.h>

#define CHUNK_TAIL_BYTES (sizeof WEIR_CHUNK_TAIL - 1)
#define CHUNK_LAST_BYTES (sizeof WEIR_CHUNK_LAST - 1)

static void proceed(struct weir_call *call);

/* ---- what outlives its client ---- */

/* The smallest that fits; null: none does. */
static struct weir_slab *context_slab(struct weir_worker *worker, size_t bytes)
{
    for (uint32_t i = 0; i < WEIR_CALL_CONTEXT_SIZES; i++) {
        if (bytes <= worker->call_contexts[i].object_bytes) {
            return &worker->call_contexts[i];
        }
    }
    return NULL;
}

void *weir_call_attach(struct weir_call *call, const struct weir_call_hooks *hooks)
{
    struct weir_slab *slab = context_slab(call->worker, hooks->context_bytes);
    assert(call->hooks == NULL);
    assert(slab != NULL);
    void *context = weir_slab_take(slab);
    if (context == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503, "Out of memory. Try again later.");
        return NULL;
    }
    memset(context, 0, hooks->context_bytes);
    call->hooks = hooks;
    call->context = context;
    return context;
}

static void free_call(struct weir_dead *dead)
{
    struct weir_call *call = weir_container_of(dead, struct weir_call, dead);
    struct weir_worker *worker = call->worker;
    if (call->hooks != NULL) {
        weir_slab_give(context_slab(worker, call->hooks->context_bytes), call->context);
    }
    weir_slab_give(&worker->calls, call);
}

/* Nothing refers to it any more. */
static void dispose(struct weir_call *call)
{
    assert(call->client == NULL);
    assert(call->under_way == 0);
    if (call->hooks != NULL && call->hooks->free != NULL) {
        call->hooks->free(call);
    }
    weir_loop_bury(&call->worker->loop, &call->dead, free_call);
}

void weir_call_hold(struct weir_call *call)
{
    call->under_way++;
}

void weir_call_withdraw(struct weir_call *call)
{
    assert(call->under_way > 0);
    assert(call->client != NULL);
    call->under_way--;
}

bool weir_call_release(struct weir_call *call)
{
    assert(call->under_way > 0);
    call->under_way--;
    if (call->client != NULL) {
        return true;
    }
    if (call->under_way == 0) {
        dispose(call);
    }
    return false;
}

/* ---- its end ---- */

static void end(struct weir_call *call)
{
    struct weir_worker *worker = call->worker;
    if (call->hooks != NULL && call->hooks->end != NULL) {
        call->hooks->end(call);
    }
    call->client = NULL;
    weir_buffer_release(&worker->buffers, &call->response.head);
    weir_buffer_release(&worker->buffers, &call->response.body);
    if (call->under_way == 0) {
        dispose(call);
    }
}

static void on_abort(struct weir_client *client)
{
    end(client->call);
}

static void on_again(struct weir_post *post)
{
    struct weir_call *call = weir_container_of(post, struct weir_call, again);
    call->again_pending = false;
    if (weir_call_release(call)) {
        proceed(call);
    }
}

static void go_on_later(struct weir_call *call)
{
    if (!call->again_pending) {
        call->again_pending = true;
        weir_call_hold(call);
        call->again = (struct weir_post){.arrive = on_again};
        weir_loop_defer(&call->worker->loop, &call->again);
    }
}

/* ---- the reply ---- */

void weir_call_reply(struct weir_call *call, uint16_t status, const char *content_type,
                     weir_call_produce *produce)
{
    call->response.status = status;
    call->response.content_type = content_type;
    call->response.produce = produce;
}

void weir_call_size(struct weir_call *call, uint64_t bytes)
{
    call->response.sized = true;
    call->response.length_bytes = bytes;
}

void weir_call_refuse(struct weir_call *call, const struct weir_problem *problem)
{
    struct weir_buffer_pool *buffers = &call->worker->buffers;
    call->response.begun = weir_buffer_reserve(buffers, &call->response.head, WEIR_BUFFER_MIDDLE) &&
                           weir_problem_write(problem, call->client->keeps,
                                              call->response.with_body, &call->response.head);
    call->response.failed = !call->response.begun;
    call->response.complete = call->response.begun;
}

void weir_call_problem(struct weir_call *call, enum weir_problem_kind kind, uint16_t status,
                       const char *detail)
{
    struct weir_problem problem = {.kind = kind, .status = status, .detail = detail};
    weir_call_refuse(call, &problem);
}

/* Once it is known whether the first piece is all. */
static bool make_head(struct weir_call *call)
{
    struct weir_head_writer writer;
    if (!weir_buffer_reserve(&call->worker->buffers, &call->response.head, WEIR_BUFFER_SMALL)) {
        return false;
    }
    call->response.chunked = !call->response.complete && !call->response.sized && call->minor > 0;
    call->client->keeps = call->client->keeps && (call->response.complete || call->response.sized ||
                                                  call->response.chunked);
    weir_head_init(&writer, call->response.head.data, weir_buffer_room(&call->response.head));
    weir_head_status(&writer, call->response.status, (struct weir_slice){"", 0});
    weir_head_field(&writer, weir_slice_of("content-type"),
                    weir_slice_of(call->response.content_type));
    weir_head_field(&writer, weir_slice_of("cache-control"), weir_slice_of("no-store"));
    if (call->response.complete || call->response.sized) {
        weir_head_field_number(&writer, weir_slice_of("content-length"),
                               call->response.sized ? call->response.length_bytes
                                                    : weir_buffer_bytes(&call->response.body));
    } else if (call->response.chunked) {
        weir_head_field(&writer, weir_slice_of("transfer-encoding"), weir_slice_of("chunked"));
    }
    if (call->response.fields != NULL) {
        call->response.fields(call, &writer);
    }
    weir_head_field(&writer, weir_slice_of("connection"),
                    weir_slice_of(call->client->keeps ? "keep-alive" : "close"));
    call->response.begun = weir_head_end(&writer);
    call->response.head.end = (uint32_t)writer.bytes;
    return call->response.begun;
}

/* Puts the frame of a chunk around the piece. An empty piece is no chunk: that would be the end. */
static void frame(struct weir_call *call, size_t bytes)
{
    struct weir_buffer *body = &call->response.body;
    body->begin = WEIR_CHUNK_FIXED_LINE_BYTES;
    body->end = WEIR_CHUNK_FIXED_LINE_BYTES + (uint32_t)bytes;
    if (!call->response.chunked || bytes == 0) {
        return;
    }
    body->begin = 0;
    weir_chunk_write_fixed_line(body->data, (uint32_t)bytes);
    memcpy(body->data + body->end, WEIR_CHUNK_TAIL, CHUNK_TAIL_BYTES);
    body->end += (uint32_t)CHUNK_TAIL_BYTES;
}

/* Makes the next piece. False if there is no memory. */
static bool make_piece(struct weir_call *call)
{
    struct weir_buffer *body = &call->response.body;
    size_t frames = WEIR_CHUNK_FIXED_LINE_BYTES + CHUNK_TAIL_BYTES + CHUNK_LAST_BYTES;
    if (!weir_buffer_reserve(&call->worker->buffers, body, WEIR_BUFFER_MIDDLE)) {
        return false;
    }
    struct weir_json *json = &call->response.json;
    bool comma = json->comma;
    weir_json_init(json, body->data + WEIR_CHUNK_FIXED_LINE_BYTES, body->capacity - frames);
    json->comma = comma;
    call->response.complete = call->response.produce(call, json);
    assert(!json->failed);
    if (call->response.failed) {
        return false;
    }
    frame(call, json->bytes);
    if (!call->response.begun && !make_head(call)) {
        return false;
    }
    if (call->response.chunked && body->begin == WEIR_CHUNK_FIXED_LINE_BYTES && json->bytes > 0) {
        frame(call, json->bytes); /* the first piece, now that it is known to be one of several */
    }
    if (call->response.complete && call->response.chunked) {
        memcpy(body->data + body->end, WEIR_CHUNK_LAST, CHUNK_LAST_BYTES);
        body->end += (uint32_t)CHUNK_LAST_BYTES;
    }
    if (!call->response.with_body) {
        call->response.complete = true;
        weir_buffer_release(&call->worker->buffers, body);
    }
    return true;
}

/* Whether all that has been made has been sent. */
static bool is_sent(const struct weir_call *call)
{
    return weir_buffer_bytes(&call->response.head) == 0 &&
           weir_buffer_bytes(&call->response.body) == 0;
}

/* Sends what is there. True if all of it went. */
static bool send_piece(struct weir_call *call)
{
    struct weir_slice head = weir_buffer_slice(&call->response.head);
    struct weir_slice body = weir_buffer_slice(&call->response.body);
    if (head.bytes + body.bytes == 0) {
        return true;
    }
    ssize_t sent = weir_client_write(call->client, head, body);
    if (sent == WEIR_STREAM_AGAIN) {
        return false;
    }
    if (sent < 0) {
        weir_client_abandon(call->client, WEIR_ABANDON_GONE);
        return false;
    }
    size_t of_head = (size_t)sent < head.bytes ? (size_t)sent : head.bytes;
    weir_buffer_consume(&call->response.head, of_head);
    weir_buffer_consume(&call->response.body, (size_t)sent - of_head);
    return is_sent(call);
}

/* One piece a turn, so that a long reply lets others go on meanwhile. */
static void advance(struct weir_call *call)
{
    if (is_sent(call) && !call->response.complete && !make_piece(call)) {
        weir_client_abandon(call->client, WEIR_ABANDON_REPLY_CUT);
        return;
    }
    if (!send_piece(call)) {
        if (call->client != NULL) {
            weir_client_press(call->client); /* a part of it may have gone, which is a step */
        }
        return;
    }
    weir_client_relax(call->client);
    if (!call->response.complete) {
        if (call->response.paused) {
            weir_buffer_release(&call->worker->buffers, &call->response.head);
            weir_buffer_release(&call->worker->buffers, &call->response.body);
        } else {
            go_on_later(call);
        }
        return;
    }
    struct weir_client *client = call->client;
    bool keep = client->keeps;
    end(call);
    weir_client_done(client, keep);
}

/* ---- the request ---- */

/* Takes the path apart. False if it has more segments than anything here, or one that is too long.
 * Counts the bytes of `text` that it takes. */
static bool split_path(struct weir_call *call, struct weir_slice path, size_t *used)
{
    while (path.bytes > 0) {
        const char *slash = memchr(path.data + 1, '/', path.bytes - 1);
        size_t bytes = slash == NULL ? path.bytes : (size_t)(slash - path.data);
        struct weir_slice segment = {path.data + 1, bytes - 1};
        size_t decoded = weir_path_decode(segment, call->text + *used, sizeof call->text - *used);
        if (call->segment_count == WEIR_CALL_SEGMENTS_MAX || (decoded == 0 && segment.bytes > 0)) {
            return false;
        }
        call->segments[call->segment_count++] = (struct weir_slice){call->text + *used, decoded};
        *used += decoded;
        path.data += bytes;
        path.bytes -= bytes;
    }
    return true;
}

/* Keeps the query beyond the head. False if it is too long. */
static bool keep_query(struct weir_call *call, struct weir_slice query, size_t used)
{
    if (query.bytes > sizeof call->text - used) {
        return false;
    }
    if (query.bytes > 0) {
        memcpy(call->text + used, query.data, query.bytes);
    }
    call->query = (struct weir_slice){call->text + used, query.bytes};
    return true;
}

static struct weir_credential token_of(const struct weir_call *call,
                                       const struct weir_http1_head *head, const char *data)
{
    const struct weir_http1_field *field = weir_http1_find(head, WEIR_FIELD_AUTHORIZATION);
    bool once = (head->repeated & WEIR_FIELD_BIT(AUTHORIZATION)) == 0;
    return field == NULL || !once ? (struct weir_credential){0}
                                  : weir_tokens_find(call->worker->worker_config->snapshot->tokens,
                                                     weir_http1_value(data, field));
}

/* Whom the caller speaks for. The name is copied: a call may last longer than the config or the
 * table that it stands in. */
static void speak_for(struct weir_call *call, struct weir_slice tenant)
{
    assert(tenant.bytes <= sizeof call->tenant_text);
    call->credential.tenant = weir_slice_copy(call->tenant_text, tenant);
}

/* A token of the config, else a tenant's API key. */
static void identify(struct weir_call *call, const struct weir_http1_head *head, const char *data)
{
    struct weir_worker *worker = call->worker;
    struct weir_api_key_grant grant;
    call->credential = token_of(call, head, data);
    if (call->credential.scopes != 0) {
        speak_for(call, call->credential.tenant);
        return;
    }
    enum weir_api_key_sight sight =
        weir_api_keys_see(worker->keys, worker->hasher, head, data, &grant);
    call->wrong_key = sight == WEIR_API_KEY_WRONG;
    call->by_key = sight == WEIR_API_KEY_GOOD;
    call->has_token = weir_http1_find(head, WEIR_FIELD_AUTHORIZATION) != NULL;
    if (call->by_key) {
        speak_for(call, grant.tenant);
    }
}

/* Whether a handler takes the body as it comes. */
static bool takes_body(const struct weir_call *call)
{
    return call->hooks != NULL && call->hooks->body != NULL;
}

static void read_on(struct weir_call *call);

/* What comes next has been decided; or it is pending. */
static void proceed(struct weir_call *call)
{
    if (call->pending) {
        return;
    }
    if (call->response.failed) {
        weir_client_abandon(call->client, WEIR_ABANDON_RESOURCES); /* not even for a problem */
    } else if (call->reader.reading && (!call->response.begun || call->reader.skips)) {
        read_on(call);
    } else {
        advance(call);
    }
}

void weir_call_resume(struct weir_call *call)
{
    call->pending = false;
    weir_body_reader_consume(&call->reader, call->client);
    proceed(call);
}

static void refuse(struct weir_call *call, enum weir_problem_kind kind, uint16_t status,
                   const char *detail)
{
    weir_call_problem(call, kind, status, detail);
    proceed(call);
}

static void refuse_fault(struct weir_call *call, enum weir_http_fault fault)
{
    call->client->keeps = false;
    call->reader.reading = false;
    if (fault == WEIR_HTTP_FAULT_BODY_LARGE) {
        char detail[120];
        snprintf(detail, sizeof detail, "The body exceeds the limit of %llu bytes.",
                 (unsigned long long)call->reader.body.bytes_max);
        refuse(call, WEIR_PROBLEM_BODY_TOO_LARGE, 413, detail);
        return;
    }
    refuse(call, WEIR_PROBLEM_BAD_REQUEST, weir_http_fault_status(fault),
           weir_http_fault_text(fault));
}

/* The request is complete. Nothing is decided any more if it has been refused. */
static void dispatch(struct weir_call *call)
{
    struct weir_client *client = call->client;
    weir_client_relax(client);
    client->unfinished = false;
    call->reader.reading = false;
    if (call->response.begun) {
        weir_body_reader_consume(&call->reader, call->client);
    } else if (takes_body(call)) {
        call->client->keeps = call->reader.persists;
        call->hooks->body(call);
        if (call->pending) {
            return; /* it needs the body until it resumes */
        }
        weir_body_reader_consume(&call->reader, call->client);
    } else {
        call->document =
            call->reader.bytes == 0
                ? (struct weir_slice){"", 0}
                : (struct weir_slice){client->in.data + client->in.begin, call->reader.bytes};
        weir_call_dispatch(call);
        call->document = (struct weir_slice){"", 0};
        weir_body_reader_consume(&call->reader, call->client);
    }
    proceed(call);
}

/* As much of the body is there as a buffer holds. */
static void take_piece(struct weir_call *call)
{
    assert(!call->response.begun); /* what is skipped is shorter */
    if (!takes_body(call)) {
        refuse_fault(call, WEIR_HTTP_FAULT_BODY_LARGE);
    } else {
        weir_client_relax(call->client);
        call->hooks->body(call);
        if (!call->pending) {
            weir_body_reader_consume(&call->reader, call->client);
            go_on_later(call); /* so that a long body lets others go on meanwhile */
        }
    }
}

/* Weir waits for the body. What is taken as it comes has a place in a queue and a file meanwhile,
 * so there the least rate counts; a document is held in a buffer of its own. */
static void await_body(struct weir_call *call)
{
    struct weir_loop *loop = &call->worker->loop;
    struct weir_client *client = call->client;
    uint64_t due_ns = weir_body_pace_wait(&call->reader.pace, client->listener->config,
                                          takes_body(call) && !call->response.begun, loop->now_ns);
    weir_timer_set(loop, &client->timer, due_ns);
}

/* Reads until the request is complete. */
static void read_body(struct weir_call *call)
{
    switch (weir_body_reader_read(&call->reader, call->client)) {
    case WEIR_BODY_READER_WAITS:
        await_body(call);
        break;
    case WEIR_BODY_READER_FULL:
        take_piece(call);
        break;
    case WEIR_BODY_READER_ENDED:
        dispatch(call);
        break;
    case WEIR_BODY_READER_FAULT:
        refuse_fault(call, call->reader.body.fault);
        break;
    case WEIR_BODY_READER_GONE:
        weir_client_abandon(call->client, WEIR_ABANDON_GONE);
        break;
    }
}

static void read_on(struct weir_call *call)
{
    bool waits = call->reader.expects;
    call->reader.expects = false;
    if (waits && !weir_client_continue(call->client)) {
        weir_client_abandon(call->client, WEIR_ABANDON_GONE);
    } else {
        read_body(call);
    }
}

/* The body is wanted by one who looks at the head first. Until it has been read, the connection is
 * kept only if it will be, whatever becomes of the request. */
static bool begin_body(struct weir_call *call, const struct weir_http1_head *head, const char *data)
{
    bool ended = call->reader.body.state == WEIR_BODY_ENDED;
    bool is_short = call->reader.body.state == WEIR_BODY_GOES_ON &&
                    call->reader.body.framing == WEIR_FRAMING_LENGTH;
    bool persists = call->client->keeps;
    call->reader.skips = ended || (is_short && !call->reader.expects);
    call->client->keeps = persists && call->reader.skips;
    call->reader.persists = persists;
    if (weir_call_begin(call, head, data)) {
        return true;
    }
    call->client->keeps = persists;
    return false;
}

/* Looks at all of the head but for what the path's own handler wants. */
static void judge(struct weir_call *call, const struct weir_http1_head *head, const char *data)
{
    struct weir_slice path = weir_http1_slice(data, head->path);
    const char *wrong =
        weir_guard_objection(call->client->listener, &call->worker->guard, head, data);
    weir_body_init(&call->reader.body, head, WEIR_CALL_BODY_MAX);
    weir_chunked_init(&call->reader.decoder, UINT64_MAX); /* body_in has the bound */
    identify(call, head, data);
    size_t used = 0;
    bool known =
        (weir_path_flaws(path) & WEIR_PATH_BAD_ESCAPE) == 0 && split_path(call, path, &used);
    bool fits = keep_query(call, weir_http1_slice(data, head->query), used);
    call->reader.expects = head->expects_continue && call->reader.body.state == WEIR_BODY_GOES_ON;
    weir_buffer_consume(&call->client->in, head->head_bytes);
    if (wrong != NULL || !known || !fits) { /* a body is not read, and so ends the connection */
        call->client->unfinished = call->reader.body.state != WEIR_BODY_ENDED;
        call->client->keeps = call->client->keeps && !call->client->unfinished;
    }
    if (wrong != NULL) {
        refuse(call, WEIR_PROBLEM_FORBIDDEN, 403, wrong);
    } else if (!known) {
        refuse(call, WEIR_PROBLEM_NOT_FOUND, 404,
               "The API has no such path. GET /gates lists the gates.");
    } else if (!fits) {
        refuse(call, WEIR_PROBLEM_BAD_REQUEST, 414, "The query is too long.");
    } else if (begin_body(call, head, data)) {
        call->reader.reading = true;
        proceed(call);
    } else if (call->reader.body.state == WEIR_BODY_FAULT) {
        refuse_fault(call, call->reader.body.fault);
    } else {
        call->reader.reading = true;
        proceed(call);
    }
}

static void on_begin(struct weir_client *client)
{
    struct weir_worker *worker = client->worker;
    struct weir_http1_head *head = client->head;
    struct weir_call *call = weir_slab_take(&worker->calls);
    if (call == NULL) {
        weir_client_abandon(client, WEIR_ABANDON_RESOURCES);
        return;
    }
    bool fault = head->fault != WEIR_HTTP_FAULT_NONE;
    bool only_head = !fault && head->method == WEIR_METHOD_HEAD;
    memset(call, 0, offsetof(struct weir_call, text));
    call->client = client;
    call->worker = worker;
    call->minor = head->minor;
    call->response.with_body = !only_head;
    call->method = (uint8_t)(only_head ? WEIR_METHOD_GET : head->method);
    client->call = call;
    client->head = NULL;
    client->unfinished = true;
    if (fault) {
        refuse_fault(call, head->fault);
    } else {
        judge(call, head, client->in.data + client->in.begin);
    }
    weir_slab_give(&worker->heads, head);
}

static void on_ready(struct weir_client *client)
{
    struct weir_call *call = client->call;
    if (weir_client_gone(client)) {
        weir_client_abandon(client, WEIR_ABANDON_GONE);
    } else if (call->reader.reading && (!call->response.begun || call->reader.skips)) {
        if (!call->pending && !call->again_pending) {
            read_body(call);
        }
    } else if (weir_client_writable(client) && !call->again_pending && !call->pending &&
               !(call->response.paused && is_sent(call))) {
        advance(call);
    }
}

/* The client has not gone on in time: with sending its body, which gets a 408, or with reading the
 * reply. */
static void on_late(struct weir_client *client)
{
    struct weir_call *call = client->call;
    const struct weir_config_listener *config = client->listener->config;
    enum weir_body_late late =
        weir_body_pace_judge(&call->reader.pace, config, call->worker->loop.now_ns);
    if (!call->reader.reading || call->response.begun || call->pending ||
        late == WEIR_BODY_LATE_NOT) {
        weir_client_abandon(client, WEIR_ABANDON_LATE);
        return;
    }
    char text[WEIR_BODY_LATE_TEXT_BYTES];
    weir_body_late_text(late, config, text);
    call->client->keeps = false;
    call->reader.reading = false;
    refuse(call, WEIR_PROBLEM_REQUEST_TIMEOUT, 408, text);
}

static void on_dismiss(struct weir_client *client)
{
    struct weir_call *call = client->call;
    if (call->hooks != NULL && call->hooks->drain != NULL) {
        call->hooks->drain(call);
    }
}

static void *open_api(void)
{
    return weir_api_permits_create();
}

static void close_api(void *api_permits)
{
    weir_api_permits_destroy(api_permits);
}

const struct weir_service weir_api = {
    .begin = on_begin,
    .ready = on_ready,
    .late = on_late,
    .abort = on_abort,
    .dismiss = on_dismiss,
    .essential = true,
    .call_bytes = sizeof(struct weir_call),
    .call_context_bytes = {256, 1024, 4096, 16384},
    .open = open_api,
    .close = close_api,
};
