#include "api/call.h"

#include "api/api.h"
#include "gateway/guard.h"
#include "gateway/site.h"
#include "wire/head_writer.h"
#include "wire/path.h"

#include <assert.h>

/* A chunk's size in four digits and CRLF stand before it, CRLF behind it. */
#define CHUNK_HEAD_BYTES 6
#define CHUNK_TAIL_BYTES 2
#define LAST_CHUNK       "0\r\n\r\n"

static void advance(struct weir_call *call);

/* ---- its end ---- */

static void free_call(struct weir_dead *dead)
{
    struct weir_call *call = weir_container_of(dead, struct weir_call, dead);
    weir_slab_give(&call->worker->calls, call);
}

static void end(struct weir_call *call)
{
    struct weir_worker *worker = call->worker;
    call->client = NULL;
    weir_buffer_release(&worker->buffers, &call->head);
    weir_buffer_release(&worker->buffers, &call->body);
    if (call->key != NULL) {
        weir_key_give(call->key);
        call->key = NULL;
    }
    if (!call->waiting) {
        weir_loop_bury(&worker->loop, &call->dead, free_call);
    }
}

static void on_abort(struct weir_client *client)
{
    end(client->call);
}

static void on_again(struct weir_post *post)
{
    struct weir_call *call = weir_container_of(post, struct weir_call, again);
    call->waiting = false;
    if (call->client == NULL) {
        weir_loop_bury(&call->worker->loop, &call->dead, free_call);
    } else {
        advance(call);
    }
}

static void go_on_later(struct weir_call *call)
{
    if (!call->waiting) {
        call->waiting = true;
        call->again = (struct weir_post){.arrive = on_again};
        weir_loop_defer(&call->worker->loop, &call->again);
    }
}

/* ---- the reply ---- */

void weir_call_reply(struct weir_call *call, uint16_t status, const char *content_type,
                     weir_call_produce *produce)
{
    call->status = status;
    call->content_type = content_type;
    call->produce = produce;
}

void weir_call_problem(struct weir_call *call, enum weir_problem_kind kind, uint16_t status,
                       const char *detail)
{
    struct weir_problem problem = {.kind = kind, .status = status, .detail = detail};
    struct weir_buffer_pool *buffers = &call->worker->buffers;
    call->begun = weir_buffer_reserve(buffers, &call->head, WEIR_BUFFER_MIDDLE) &&
                  weir_problem_write(&problem, call->keep_client, call->with_body, &call->head);
    call->complete = call->begun;
}

/* Once it is known whether the first piece is all. */
static bool make_head(struct weir_call *call)
{
    struct weir_head_writer writer;
    if (!weir_buffer_reserve(&call->worker->buffers, &call->head, WEIR_BUFFER_SMALL)) {
        return false;
    }
    call->chunked = !call->complete && call->minor > 0;
    call->keep_client = call->keep_client && (call->complete || call->chunked);
    weir_head_init(&writer, call->head.data, weir_buffer_room(&call->head));
    weir_head_status(&writer, call->status, (struct weir_slice){"", 0});
    weir_head_field(&writer, weir_slice_of("content-type"), weir_slice_of(call->content_type));
    weir_head_field(&writer, weir_slice_of("cache-control"), weir_slice_of("no-store"));
    if (call->complete) {
        weir_head_field_number(&writer, weir_slice_of("content-length"),
                               weir_buffer_bytes(&call->body));
    } else if (call->chunked) {
        weir_head_field(&writer, weir_slice_of("transfer-encoding"), weir_slice_of("chunked"));
    }
    weir_head_field(&writer, weir_slice_of("connection"),
                    weir_slice_of(call->keep_client ? "keep-alive" : "close"));
    call->begun = weir_head_end(&writer);
    call->head.end = (uint32_t)writer.bytes;
    return call->begun;
}

/* Puts the frame of a chunk around the piece. An empty piece is no chunk: that would be the end. */
static void frame(struct weir_call *call, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    struct weir_buffer *body = &call->body;
    body->begin = CHUNK_HEAD_BYTES;
    body->end = CHUNK_HEAD_BYTES + (uint32_t)bytes;
    if (!call->chunked || bytes == 0) {
        return;
    }
    assert(bytes <= 0xffff);
    char head[CHUNK_HEAD_BYTES] = {digits[bytes >> 12],
                                   digits[bytes >> 8 & 15],
                                   digits[bytes >> 4 & 15],
                                   digits[bytes & 15],
                                   '\r',
                                   '\n'};
    body->begin = 0;
    memcpy(body->data, head, sizeof head);
    memcpy(body->data + body->end, "\r\n", CHUNK_TAIL_BYTES);
    body->end += CHUNK_TAIL_BYTES;
}

/* Makes the next piece. False if there is no memory. */
static bool make_piece(struct weir_call *call)
{
    struct weir_buffer *body = &call->body;
    size_t frames = CHUNK_HEAD_BYTES + CHUNK_TAIL_BYTES + sizeof LAST_CHUNK - 1;
    if (!weir_buffer_reserve(&call->worker->buffers, body, WEIR_BUFFER_MIDDLE)) {
        return false;
    }
    struct weir_json *json = &call->json;
    bool comma = json->comma;
    weir_json_init(json, body->data + CHUNK_HEAD_BYTES, body->capacity - frames);
    json->comma = comma;
    call->complete = call->produce(call, json);
    assert(!json->failed);
    frame(call, json->bytes);
    if (!call->begun && !make_head(call)) {
        return false;
    }
    if (call->chunked && body->begin == CHUNK_HEAD_BYTES && json->bytes > 0) {
        frame(call, json->bytes); /* the first piece, now that it is known to be one of several */
    }
    if (call->complete && call->chunked) {
        memcpy(body->data + body->end, LAST_CHUNK, sizeof LAST_CHUNK - 1);
        body->end += (uint32_t)sizeof LAST_CHUNK - 1;
    }
    if (!call->with_body) {
        call->complete = true;
        weir_buffer_release(&call->worker->buffers, body);
    }
    return true;
}

/* Sends what is there. True if all of it went. */
static bool send_piece(struct weir_call *call)
{
    struct weir_slice parts[] = {weir_buffer_slice(&call->head), weir_buffer_slice(&call->body)};
    struct iovec vectors[2];
    int count = 0;
    for (int i = 0; i < 2; i++) {
        if (parts[i].bytes > 0) {
            vectors[count++] = (struct iovec){(char *)parts[i].data, parts[i].bytes};
        }
    }
    if (count == 0) {
        return true;
    }
    ssize_t sent = weir_stream_write(&call->client->stream, vectors, count);
    if (sent == WEIR_STREAM_AGAIN) {
        weir_client_press(call->client);
        return false;
    }
    if (sent < 0) {
        weir_client_close(call->client);
        return false;
    }
    size_t of_head = (size_t)sent < parts[0].bytes ? (size_t)sent : parts[0].bytes;
    weir_buffer_consume(&call->head, of_head);
    weir_buffer_consume(&call->body, (size_t)sent - of_head);
    return weir_buffer_bytes(&call->head) == 0 && weir_buffer_bytes(&call->body) == 0;
}

/* One piece a turn, so that a long reply lets others go on meanwhile. */
static void advance(struct weir_call *call)
{
    bool nothing = weir_buffer_bytes(&call->head) == 0 && weir_buffer_bytes(&call->body) == 0;
    if (nothing && !call->complete && !make_piece(call)) {
        weir_client_close(call->client);
        return;
    }
    while (!send_piece(call)) {
        if (call->client == NULL || !call->client->stream.writable) {
            return;
        }
    }
    weir_client_relax(call->client);
    if (!call->complete) {
        go_on_later(call);
        return;
    }
    struct weir_client *client = call->client;
    bool keep = call->keep_client;
    end(call);
    weir_client_done(client, keep);
}

/* ---- the request ---- */

/* Takes the path apart. False if it has more segments than anything here, or one that is too long.
 */
static bool split_path(struct weir_call *call, struct weir_slice path)
{
    size_t used = 0;
    while (path.bytes > 0) {
        const char *slash = memchr(path.data + 1, '/', path.bytes - 1);
        size_t bytes = slash == NULL ? path.bytes : (size_t)(slash - path.data);
        struct weir_slice segment = {path.data + 1, bytes - 1};
        size_t decoded = weir_path_decode(segment, call->text + used, sizeof call->text - used);
        if (call->segment_count == WEIR_CALL_SEGMENTS_MAX || (decoded == 0 && segment.bytes > 0)) {
            return false;
        }
        call->segments[call->segment_count++] = (struct weir_slice){call->text + used, decoded};
        used += decoded;
        path.data += bytes;
        path.bytes -= bytes;
    }
    return true;
}

static uint32_t scopes_of(const struct weir_call *call, const struct weir_http1_head *head,
                          const char *data)
{
    const struct weir_http1_field *field = weir_http1_find(head, WEIR_FIELD_AUTHORIZATION);
    bool once = (head->repeated & WEIR_FIELD_BIT(AUTHORIZATION)) == 0;
    return field == NULL || !once ? 0
                                  : weir_tokens_scopes(call->worker->site->plan->tokens,
                                                       weir_http1_value(data, field));
}

static void decide(struct weir_call *call, const struct weir_http1_head *head, const char *data)
{
    if (head->fault != WEIR_HTTP_FAULT_NONE) {
        call->keep_client = false;
        weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, weir_http_fault_status(head->fault),
                          weir_http_fault_text(head->fault));
        return;
    }
    struct weir_slice path = weir_http1_slice(data, head->path);
    const char *wrong =
        weir_guard_objection(call->client->listener, &call->worker->guard, head, data);
    if (wrong != NULL) {
        weir_call_problem(call, WEIR_PROBLEM_FORBIDDEN, 403, wrong);
    } else if ((weir_path_flaws(path) & WEIR_PATH_BAD_ESCAPE) != 0 || !split_path(call, path)) {
        weir_call_problem(call, WEIR_PROBLEM_NOT_FOUND, 404,
                          "Nothing of the API has such a path. GET /gates lists the gates.");
    } else {
        call->scopes = scopes_of(call, head, data);
        weir_call_dispatch(call, head->method == WEIR_METHOD_HEAD ? WEIR_METHOD_GET : head->method);
    }
}

static void on_begin(struct weir_client *client)
{
    struct weir_worker *worker = client->worker;
    struct weir_http1_head *head = client->head;
    struct weir_call *call = weir_slab_take(&worker->calls);
    if (call == NULL) {
        weir_client_close(client);
        return;
    }
    bool fault = head->fault != WEIR_HTTP_FAULT_NONE;
    bool bodiless = !fault && (head->framing == WEIR_FRAMING_NONE ||
                               (head->framing == WEIR_FRAMING_LENGTH && head->content_length == 0));
    *call = (struct weir_call){.client = client,
                               .worker = worker,
                               .minor = head->minor,
                               .with_body = fault || head->method != WEIR_METHOD_HEAD,
                               .keep_client = !fault && head->persists && bodiless};
    client->call = call;
    client->head = NULL;
    client->unfinished = !bodiless;
    decide(call, head, client->in.data + client->in.begin);
    if (!fault) {
        weir_buffer_consume(&client->in, head->head_bytes);
    }
    weir_slab_give(&worker->heads, head);
    if (call->produce == NULL && !call->begun) {
        weir_client_close(client);
    } else {
        advance(call);
    }
}

static void on_ready(struct weir_client *client)
{
    struct weir_call *call = client->call;
    if (weir_client_gone(client)) {
        weir_client_close(client);
    } else if (client->stream.writable && !call->waiting) {
        advance(call);
    }
}

const struct weir_service weir_api = {
    .begin = on_begin,
    .ready = on_ready,
    .late = weir_client_close,
    .abort = on_abort,
    .call_bytes = sizeof(struct weir_call),
};
