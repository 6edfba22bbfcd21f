/* http_client.c - requests that this process makes itself: a server outside of any config's
 * upstreams, and calls to it, each of which drives one backend (backend.h) from connecting to the
 * reply's end.
 *
 * A client and its calls belong to one worker, and everything is called in that worker's thread;
 * there is no lock. A callback may cancel its call, so every step that follows one asks whether the
 * call is still under way. */
#include "upstream/http_client.h"

#include "base/alloc.h"
#include "base/list.h"
#include "upstream/connect.h"
#include "upstream/upstream_connection.h"
#include "wire/head_writer.h"

#include <assert.h>
#include <errno.h>

/* How many reads or writes of one call may follow each other before others have their turn. */
#define ROUNDS_MAX 16

/* A server has no reason to send more interim replies than this. */
#define INTERIM_MAX 16

/* Trailers of a reply may take so much. They are not delivered, but must be well formed. */
static const struct weir_http1_limits trailer_limits = {16, 8192, WEIR_HTTP1_FIELDS_MAX};

/* Around the data of one chunk: its line, and the CRLF behind it. */
#define CHUNK_FRAME_BYTES (WEIR_CHUNK_LINE_BYTES_MAX + 2)

struct weir_http_client {
    struct weir_worker *worker;
    struct weir_config_url url;
    struct weir_config_upstream config;
    struct weir_upstream upstream;
    struct weir_origin origin;
    struct weir_tally *tally; /* counts for this client alone; in no metric */
    struct weir_dead dead;
    uint32_t calls; /* under way */
};

/* ---- the client ---- */

static void free_client(struct weir_http_client *client)
{
    const struct weir_allocator *allocator = client->worker->allocator;
    weir_origin_free(&client->origin, allocator);
    weir_release(allocator, client->tally, sizeof *client->tally);
    weir_release(allocator, client, sizeof *client);
}

static void bury_client(struct weir_dead *dead)
{
    free_client(weir_container_of(dead, struct weir_http_client, dead));
}

struct weir_http_client *weir_http_client_create(struct weir_worker *worker,
                                                 const struct weir_http_client_options *options,
                                                 const char **error)
{
    assert(!options->url.tls || options->trust != NULL);
    struct weir_http_client *client = weir_allocate_zeroed(worker->allocator, sizeof *client);
    if (client == NULL) {
        *error = "there is no memory left";
        return NULL;
    }
    client->worker = worker;
    client->url = options->url;
    client->config =
        (struct weir_config_upstream){.urls = &client->url,
                                      .url_count = 1,
                                      .tls.server_name = options->tls_name,
                                      .connect_timeout_ns = options->connect_timeout_ns,
                                      .keepalive = options->keepalive};
    client->tally = weir_allocate_zeroed(worker->allocator, sizeof *client->tally);
    client->upstream = (struct weir_upstream){
        .config = &client->config, .origins = &client->origin, .tally = client->tally};
    *error = client->tally == NULL ? "there is no memory left"
                                   : weir_origin_open(&client->upstream, 0, worker, options->trust);
    if (*error != NULL) {
        free_client(client);
        return NULL;
    }
    return client;
}

void weir_http_client_destroy(struct weir_http_client *client)
{
    assert(client->calls == 0);
    client->upstream.closed = true;
    weir_origin_close(&client->origin);
    /* After the connections, whose memory refers to the client. */
    weir_loop_bury(&client->worker->loop, &client->dead, bury_client);
}

/* ---- the end of a call ---- */

static struct weir_worker *worker_of(const struct weir_http_call *call)
{
    return call->client->worker;
}

static bool is_over(const struct weir_http_call *call)
{
    return call->client == NULL;
}

static void drop_trailers(struct weir_http_call *call)
{
    if (call->trailers != NULL) {
        weir_slab_give(&worker_of(call)->heads, call->trailers);
        call->trailers = NULL;
    }
}

/* Lets go of everything but the backend, which the caller has dealt with. */
static void finish(struct weir_http_call *call)
{
    struct weir_worker *worker = worker_of(call);
    assert(call->backend == NULL);
    drop_trailers(call);
    weir_timer_deinit(&worker->loop, &call->timer);
    weir_buffer_release(&worker->buffers, &call->request);
    weir_buffer_release(&worker->buffers, &call->piece);
    call->client->calls--;
    call->client = NULL;
}

static void drop_backend(struct weir_http_call *call)
{
    if (call->backend != NULL) {
        weir_backend_drop(call->backend);
        call->backend = NULL;
    }
}

void weir_http_call_cancel(struct weir_http_call *call)
{
    if (!is_over(call)) {
        drop_backend(call);
        finish(call);
    }
}

static void fail(struct weir_http_call *call, enum weir_http_failure why, const char *detail)
{
    weir_http_call_cancel(call);
    call->events->failed(call, why, detail);
}

static void complete(struct weir_http_call *call)
{
    struct weir_backend *backend = call->backend;
    call->backend = NULL;
    weir_backend_done(backend, call->request_sent && call->body_made, 0, NULL);
    finish(call);
    call->events->end(call);
}

/* ---- the next step ---- */

/* Goes on in a later step of this turn, or of the next. */
static void go_on_later(struct weir_http_call *call)
{
    struct weir_loop *loop = &worker_of(call)->loop;
    weir_timer_set(loop, &call->timer, loop->now_ns);
}

static void await_events(struct weir_http_call *call)
{
    weir_timer_set(&worker_of(call)->loop, &call->timer, call->deadline_ns);
}

/* ---- connecting ---- */

static void on_ready(struct weir_backend *backend);
static void on_late(struct weir_backend *backend);

static void connect_anew(struct weir_http_call *call, bool used)
{
    struct weir_backend *backend = weir_backend_take(&call->client->origin, call, used);
    if (backend == NULL) {
        bool ours = weir_connect_lacks(errno);
        fail(call, ours ? WEIR_HTTP_FAILED_RESOURCES : WEIR_HTTP_FAILED_UNREACHABLE,
             ours ? "There is no descriptor or memory left for a connection."
                  : "No connection to the server could be opened. Check that it is running.");
        return;
    }
    call->backend = backend;
    backend->ready = on_ready;
    backend->late = on_late;
    weir_http1_init_response(&backend->head, WEIR_HTTP1_LIMITS_DEFAULT,
                             (enum weir_http_method)call->method);
    if (!backend->connected) {
        struct weir_loop *loop = &worker_of(call)->loop;
        weir_timer_set(loop, &backend->timer,
                       loop->now_ns + weir_backend_connect_patience_ns(backend));
    }
}

static bool is_idempotent(enum weir_http_method method)
{
    return method == WEIR_METHOD_GET || method == WEIR_METHOD_HEAD || method == WEIR_METHOD_PUT ||
           method == WEIR_METHOD_DELETE || method == WEIR_METHOD_OPTIONS;
}

/* The connection broke. A server may close one that was idle in the moment in which it is used. */
static void lose(struct weir_http_call *call, const char *detail)
{
    bool untouched = call->head_sent == 0;
    bool harmless = untouched || is_idempotent((enum weir_http_method)call->method);
    bool again = call->backend->reused && !call->heard && !call->retried && harmless &&
                 call->events->produce == NULL;
    if (!again) {
        fail(call, WEIR_HTTP_FAILED_LOST, detail);
        return;
    }
    drop_backend(call);
    call->retried = true;
    call->head_sent = 0;
    call->body_sent = 0;
    call->body_made = call->body.bytes == 0;
    call->request_sent = false;
    connect_anew(call, false);
}

/* Whether the connection is there. If not, it goes on when something happens, or has failed. */
static bool take_progress(struct weir_http_call *call, enum weir_connect_progress progress,
                          const char *error)
{
    struct weir_loop *loop = &worker_of(call)->loop;
    struct weir_backend *backend = call->backend;
    switch (progress) {
    case WEIR_CONNECT_DONE:
        weir_timer_set(loop, &backend->timer, WEIR_NEVER);
        return true;
    case WEIR_CONNECT_UNDER_WAY:
        weir_timer_set(loop, &backend->timer,
                       loop->now_ns + weir_backend_connect_patience_ns(backend));
        return false;
    default:
        fail(call, backend->lacks ? WEIR_HTTP_FAILED_RESOURCES : WEIR_HTTP_FAILED_UNREACHABLE,
             error != NULL ? error
                           : "The server refused the connection. Check that it is running.");
        return false;
    }
}

/* ---- the request ---- */

/* Asks for the next part of the body. False if there is none yet. */
static bool produce(struct weir_http_call *call)
{
    struct weir_buffer *piece = &call->piece;
    bool last = false;
    if (!weir_buffer_reserve(&worker_of(call)->buffers, piece, WEIR_BUFFER_MIDDLE)) {
        fail(call, WEIR_HTTP_FAILED_RESOURCES, "There is no memory left for the request's body.");
        return false;
    }
    /* The data lies behind the longest line of a chunk, and the line right before the data. */
    char *data = piece->data + WEIR_CHUNK_LINE_BYTES_MAX;
    size_t room = piece->capacity - CHUNK_FRAME_BYTES - (sizeof WEIR_CHUNK_LAST - 1);
    room = call->body_left < room ? (size_t)call->body_left : room;
    size_t bytes = call->events->produce(call, data, room, &last);
    if (is_over(call)) {
        return false;
    }
    assert(bytes <= room);
    piece->begin = WEIR_CHUNK_LINE_BYTES_MAX;
    piece->end = piece->begin + (uint32_t)bytes;
    if (call->in_chunks && bytes > 0) {
        char line[WEIR_CHUNK_LINE_BYTES_MAX];
        size_t line_bytes = weir_chunk_write_line(line, bytes);
        piece->begin -= (uint32_t)line_bytes;
        memcpy(piece->data + piece->begin, line, line_bytes);
        memcpy(piece->data + piece->end, "\r\n", 2);
        piece->end += 2;
    }
    if (call->in_chunks && last) {
        memcpy(piece->data + piece->end, WEIR_CHUNK_LAST, sizeof WEIR_CHUNK_LAST - 1);
        piece->end += sizeof WEIR_CHUNK_LAST - 1;
    }
    call->body_left -= call->in_chunks ? 0 : bytes;
    call->body_made = call->in_chunks ? last : call->body_left == 0;
    if (!call->in_chunks && last && call->body_left > 0) {
        fail(call, WEIR_HTTP_FAILED_RESOURCES, "The request's body is shorter than announced.");
        return false;
    }
    return weir_buffer_bytes(piece) > 0 || call->body_made;
}

/* What is to be sent of the body now. */
static struct weir_slice next_of_body(const struct weir_http_call *call)
{
    if (call->events->produce != NULL) {
        return weir_buffer_slice(&call->piece);
    }
    if (call->body_sent == call->body.bytes) { /* perhaps there is none, nor a place for it */
        return (struct weir_slice){0};
    }
    return (struct weir_slice){call->body.data + call->body_sent,
                               call->body.bytes - call->body_sent};
}

static void note_sent(struct weir_http_call *call, size_t sent)
{
    uint32_t head_left = weir_buffer_bytes(&call->request) - call->head_sent;
    uint32_t of_head = sent < head_left ? (uint32_t)sent : head_left;
    call->head_sent += of_head;
    if (call->events->produce != NULL) {
        weir_buffer_consume(&call->piece, sent - of_head);
    } else {
        call->body_sent += (uint32_t)(sent - of_head);
    }
}

/* Sends what can be sent. False if the call is over or has begun on another connection. */
static bool pump_request(struct weir_http_call *call)
{
    for (int rounds = 0; !call->request_sent; rounds++) {
        if (rounds == ROUNDS_MAX) {
            go_on_later(call);
            return true;
        }
        struct weir_slice head = weir_buffer_slice(&call->request);
        head = (struct weir_slice){head.data + call->head_sent, head.bytes - call->head_sent};
        struct weir_slice body = next_of_body(call);
        if (head.bytes + body.bytes == 0) {
            if (call->body_made) {
                call->request_sent = true;
            } else if (!produce(call)) {
                return !is_over(call);
            }
            continue;
        }
        ssize_t sent = weir_backend_write(call->backend, head, body);
        if (sent == WEIR_STREAM_AGAIN) {
            return true;
        }
        if (sent < 0) {
            call->request_sent = true; /* what the server said before it closed may be there */
            call->body_made = false;
            return true;
        }
        note_sent(call, (size_t)sent);
        call->body_made = call->body_made ||
                          (call->events->produce == NULL && call->body_sent == call->body.bytes);
    }
    return true;
}

/* ---- the reply ---- */

/* A final head is there. False if the call is over. */
static bool take_final_head(struct weir_http_call *call)
{
    struct weir_backend *backend = call->backend;
    const struct weir_http1_head *head = &backend->head;
    if (head->framing == WEIR_FRAMING_LENGTH && head->content_length > call->reply_bytes_max) {
        fail(call, WEIR_HTTP_FAILED_TOO_LONG, "The reply's body is longer than is read of it.");
        return false;
    }
    call->framing = (uint8_t)head->framing;
    call->left_bytes = head->framing == WEIR_FRAMING_LENGTH ? head->content_length : 0;
    weir_chunked_init(&call->chunked, call->reply_bytes_max);
    call->head_done = true;
    call->events->head(call, head, backend->in.data + backend->in.begin);
    if (is_over(call)) {
        return false;
    }
    weir_buffer_consume(&backend->in, head->head_bytes);
    return true;
}

/* Reads heads, of which all but the last are interim ones, from what is there. False if the final
 * one is not there yet, or the call is over. */
static bool take_heads(struct weir_http_call *call)
{
    struct weir_backend *backend = call->backend;
    for (;;) {
        struct weir_slice bytes = weir_buffer_slice(&backend->in);
        enum weir_http1_result result =
            bytes.bytes == 0 ? WEIR_HTTP1_NEED_MORE
                             : weir_http1_parse(&backend->head, bytes.data, bytes.bytes);
        if (result == WEIR_HTTP1_NEED_MORE) {
            return false;
        }
        if (result == WEIR_HTTP1_FAULT) {
            fail(call, WEIR_HTTP_FAILED_BAD_REPLY, weir_http_fault_text(backend->head.fault));
            return false;
        }
        if (backend->head.status >= 200) {
            return take_final_head(call);
        }
        if (backend->head.status == 101 || ++call->interim_count > INTERIM_MAX) {
            fail(call, WEIR_HTTP_FAILED_BAD_REPLY,
                 backend->head.status == 101
                     ? "The server switched to a protocol that it was not asked for."
                     : "The server sent more interim replies than a request can have.");
            return false;
        }
        weir_buffer_consume(&backend->in, backend->head.head_bytes);
        weir_http1_init_response(&backend->head, WEIR_HTTP1_LIMITS_DEFAULT,
                                 (enum weir_http_method)call->method);
    }
}

/* Hands data on. False if the call is over or paused. */
static bool deliver(struct weir_http_call *call, struct weir_slice data)
{
    if (data.bytes > call->reply_bytes_max - call->reply_bytes) {
        fail(call, WEIR_HTTP_FAILED_TOO_LONG, "The reply's body is longer than is read of it.");
        return false;
    }
    call->reply_bytes += data.bytes;
    if (data.bytes > 0) {
        call->events->data(call, data);
    }
    return !is_over(call) && !call->paused;
}

enum reply_body_progress {
    BODY_WANTS_MORE,
    BODY_STOPPED, /* the call is over or paused */
    BODY_ENDED
};

static enum reply_body_progress take_trailers(struct weir_http_call *call)
{
    struct weir_buffer *in = &call->backend->in;
    struct weir_slice bytes = weir_buffer_slice(in);
    if (bytes.bytes == 0) {
        return BODY_WANTS_MORE;
    }
    if (call->trailers == NULL) {
        call->trailers = weir_slab_take(&worker_of(call)->heads);
        if (call->trailers == NULL) {
            fail(call, WEIR_HTTP_FAILED_RESOURCES, "There is no memory left for the reply.");
            return BODY_STOPPED;
        }
        weir_http1_init_trailers(call->trailers, trailer_limits);
    }
    switch (weir_http1_parse(call->trailers, bytes.data, bytes.bytes)) {
    case WEIR_HTTP1_NEED_MORE:
        return BODY_WANTS_MORE;
    case WEIR_HTTP1_FAULT:
        fail(call, WEIR_HTTP_FAILED_BAD_REPLY, weir_http_fault_text(call->trailers->fault));
        return BODY_STOPPED;
    case WEIR_HTTP1_DONE:
        break;
    }
    weir_buffer_consume(in, call->trailers->head_bytes);
    return BODY_ENDED;
}

static enum reply_body_progress take_chunks(struct weir_http_call *call)
{
    while (!call->in_trailers) {
        struct weir_buffer *in = &call->backend->in;
        struct weir_slice data;
        size_t used;
        enum weir_chunked_event event =
            weir_chunked_next(&call->chunked, weir_buffer_slice(in), &used, &data);
        if (event == WEIR_CHUNKED_FAULT) {
            bool large = call->chunked.fault == WEIR_HTTP_FAULT_BODY_LARGE;
            fail(call, large ? WEIR_HTTP_FAILED_TOO_LONG : WEIR_HTTP_FAILED_BAD_REPLY,
                 large ? "The reply's body is longer than is read of it."
                       : weir_http_fault_text(call->chunked.fault));
            return BODY_STOPPED;
        }
        bool goes_on = event != WEIR_CHUNKED_BODY || deliver(call, data);
        if (is_over(call)) {
            return BODY_STOPPED;
        }
        weir_buffer_consume(in, used);
        if (!goes_on) {
            return BODY_STOPPED;
        }
        if (event == WEIR_CHUNKED_NEED_MORE) {
            return BODY_WANTS_MORE;
        }
        call->in_trailers = event == WEIR_CHUNKED_END;
    }
    return take_trailers(call);
}

/* A body that ends after a length, or with the connection. */
static enum reply_body_progress take_plain(struct weir_http_call *call)
{
    struct weir_buffer *in = &call->backend->in;
    struct weir_slice data = weir_buffer_slice(in);
    bool by_length = call->framing == WEIR_FRAMING_LENGTH;
    if (by_length && data.bytes > call->left_bytes) {
        data.bytes = (size_t)call->left_bytes;
    }
    call->left_bytes -= by_length ? data.bytes : 0;
    bool goes_on = deliver(call, data);
    if (is_over(call)) {
        return BODY_STOPPED;
    }
    weir_buffer_consume(in, data.bytes);
    if (!goes_on) {
        return BODY_STOPPED;
    }
    return by_length && call->left_bytes == 0 ? BODY_ENDED : BODY_WANTS_MORE;
}

static enum reply_body_progress take_body(struct weir_http_call *call)
{
    switch ((enum weir_http1_framing)call->framing) {
    case WEIR_FRAMING_NONE:
        return BODY_ENDED;
    case WEIR_FRAMING_CHUNKED:
        return take_chunks(call);
    default:
        return take_plain(call);
    }
}

/* The server sends no more. */
static void take_close(struct weir_http_call *call, ssize_t got)
{
    if (call->head_done && call->framing == WEIR_FRAMING_UNTIL_CLOSE && got == WEIR_STREAM_END) {
        complete(call);
    } else {
        lose(call, call->heard ? "The server closed the connection before the end of its reply."
                               : "The server closed the connection without a reply.");
    }
}

static void pump_reply(struct weir_http_call *call)
{
    for (int rounds = 0; !call->paused; rounds++) {
        if (call->head_done || take_heads(call)) {
            enum reply_body_progress progress = take_body(call);
            if (progress == BODY_ENDED) {
                complete(call);
            }
            if (progress != BODY_WANTS_MORE) {
                return;
            }
        }
        if (is_over(call)) {
            return;
        }
        if (rounds == ROUNDS_MAX) {
            go_on_later(call);
            return;
        }
        ssize_t got = weir_backend_read(call->backend);
        if (got == WEIR_STREAM_AGAIN) {
            return;
        }
        if (got <= 0) {
            take_close(call, got);
            return;
        }
        call->heard = true;
    }
}

/* ---- events ---- */

static void go_on(struct weir_http_call *call)
{
    struct weir_backend *backend = call->backend;
    if (!backend->connected) {
        const char *error;
        enum weir_connect_progress progress = weir_backend_connect(backend, &error);
        if (!take_progress(call, progress, error)) {
            return;
        }
    }
    if (pump_request(call)) {
        pump_reply(call);
    }
}

static void on_ready(struct weir_backend *backend)
{
    go_on(backend->user);
}

/* Connecting takes too long. */
static void on_late(struct weir_backend *backend)
{
    const char *error;
    enum weir_connect_progress progress = weir_backend_connect_late(backend, &error);
    (void)take_progress(backend->user, progress, error);
}

static void on_timer(struct weir_timer *timer)
{
    struct weir_http_call *call = weir_container_of(timer, struct weir_http_call, timer);
    if (call->deadline_ns <= worker_of(call)->loop.now_ns) {
        fail(call, WEIR_HTTP_FAILED_LATE, "The deadline passed before the reply was complete.");
        return;
    }
    await_events(call);
    if (call->backend == NULL) {
        connect_anew(call, true);
    }
    if (!is_over(call) && call->backend->connected) {
        go_on(call);
    }
}

/* ---- beginning ---- */

static struct weir_slice name_of(enum weir_http_method method)
{
    static const char *const names[] = {
        [WEIR_METHOD_GET] = "GET",         [WEIR_METHOD_HEAD] = "HEAD",
        [WEIR_METHOD_POST] = "POST",       [WEIR_METHOD_PUT] = "PUT",
        [WEIR_METHOD_DELETE] = "DELETE",   [WEIR_METHOD_CONNECT] = NULL,
        [WEIR_METHOD_OPTIONS] = "OPTIONS", [WEIR_METHOD_TRACE] = NULL,
        [WEIR_METHOD_PATCH] = "PATCH"};
    assert(method < sizeof names / sizeof names[0]);
    assert(names[method] != NULL);
    return weir_slice_of(names[method]);
}

static bool write_head(struct weir_http_call *call, const struct weir_http_request *request)
{
    struct weir_buffer *buffer = &call->request;
    struct weir_head_writer head;
    bool has_body = request->method == WEIR_METHOD_POST || request->method == WEIR_METHOD_PUT ||
                    request->method == WEIR_METHOD_PATCH || !call->body_made;
    weir_head_init(&head, buffer->data, buffer->capacity);
    weir_head_request(&head, name_of(request->method), request->target);
    weir_head_field(&head, weir_slice_of("host"), call->client->origin.authority);
    for (uint32_t i = 0; i < request->header_count; i++) {
        weir_head_field(&head, request->headers[i].name, request->headers[i].value);
    }
    if (call->in_chunks) {
        weir_head_field(&head, weir_slice_of("transfer-encoding"), weir_slice_of("chunked"));
    } else if (has_body) {
        weir_head_field_number(&head, weir_slice_of("content-length"),
                               call->events->produce != NULL ? request->body_bytes
                                                             : request->body.bytes);
    }
    bool written = weir_head_end(&head);
    buffer->end = (uint32_t)head.bytes;
    return written;
}

bool weir_http_call_begin(struct weir_http_client *client, struct weir_http_call *call,
                          const struct weir_http_request *request,
                          const struct weir_http_call_events *events)
{
    struct weir_worker *worker = client->worker;
    assert(is_over(call));
    assert(request->body.bytes <= UINT32_MAX);
    *call = (struct weir_http_call){.client = client,
                                    .events = events,
                                    .body = request->body,
                                    .deadline_ns = request->deadline_ns,
                                    .reply_bytes_max = request->reply_bytes_max,
                                    .method = (uint8_t)request->method};
    call->body_left = request->body_bytes;
    call->in_chunks = events->produce != NULL && request->body_bytes == WEIR_HTTP1_NO_LENGTH;
    call->body_made = events->produce != NULL ? request->body_bytes == 0 : request->body.bytes == 0;
    size_t wanted = 256 + request->target.bytes + client->origin.authority.bytes;
    for (uint32_t i = 0; i < request->header_count; i++) {
        wanted += request->headers[i].name.bytes + request->headers[i].value.bytes + 4;
    }
    if (wanted > WEIR_BUFFER_LARGE || !weir_timer_init(&worker->loop, &call->timer, on_timer)) {
        call->client = NULL;
        return false;
    }
    client->calls++;
    if (!weir_buffer_reserve(&worker->buffers, &call->request, (uint32_t)wanted) ||
        !write_head(call, request)) {
        finish(call);
        return false;
    }
    go_on_later(call);
    return true;
}

void weir_http_call_pause(struct weir_http_call *call)
{
    call->paused = true;
}

void weir_http_call_resume(struct weir_http_call *call)
{
    call->paused = false;
    if (!is_over(call)) {
        go_on_later(call);
    }
}
