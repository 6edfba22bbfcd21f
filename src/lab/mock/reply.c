/* Writes heads, bodies, events and chunks into a connection's buffer. Every reply is made here, so
 * framing and the connection's fields are right in one place. */
#include "lab/mock/reply.h"

#include "wire/head_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* Everything in a head but its document: a dozen short lines at most. */
#define HEAD_BYTES_MAX 512

/* An event with its numbers. */
#define EVENT_BYTES_MAX 128

/* The frame of a chunk, and of the last one. */
#define FRAME_BYTES_MAX 64

static bool begin(struct weir_visit *visit, struct weir_head_writer *writer, size_t bytes)
{
    struct weir_buffer *out = &visit->out;
    size_t wanted = weir_buffer_bytes(out) + bytes;
    if (wanted > WEIR_BUFFER_LARGE ||
        !weir_buffer_reserve(&visit->mock->buffers, out, (uint32_t)wanted)) {
        return false;
    }
    weir_head_init(writer, out->data + out->end, weir_buffer_room(out));
    return true;
}

static bool end(struct weir_visit *visit, const struct weir_head_writer *writer)
{
    visit->out.end += writer->failed ? 0 : (uint32_t)writer->bytes;
    return !writer->failed;
}

static void put(struct weir_head_writer *writer, const char *text)
{
    weir_head_copy(writer, weir_slice_of(text));
}

/* ---- documents ---- */

/* A target consists of visible ASCII, so a quote and a backslash are all there is to escape. */
static void put_escaped(struct weir_head_writer *writer, struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.data[i] == '"' || text.data[i] == '\\') {
            put(writer, "\\");
        }
        weir_head_copy(writer, (struct weir_slice){text.data + i, 1});
    }
}

/* With its query, which follows it in the target. */
static struct weir_slice path_of(const struct weir_visit *visit)
{
    if (visit->head.path.bytes > 0) {
        struct weir_slice path =
            weir_http1_slice(visit->in.data + visit->in.begin, visit->head.path);
        path.bytes += visit->head.has_query ? 1 + (size_t)visit->head.query.bytes : 0;
        return path;
    }
    return weir_slice_of(visit->head.form == WEIR_TARGET_ASTERISK ? "*" : "/");
}

struct weir_slice weir_reply_document(struct weir_visit *visit)
{
    struct weir_mock *mock = visit->mock;
    const char *data = visit->in.data + visit->in.begin;
    struct weir_head_writer writer;
    weir_head_init(&writer, mock->text, sizeof mock->text);
    put(&writer, "{\"n\":");
    weir_head_number(&writer, visit->number);
    put(&writer, ",\"method\":\"");
    put_escaped(&writer, weir_http1_slice(data, visit->head.method_name));
    put(&writer, "\",\"path\":\"");
    put_escaped(&writer, path_of(visit));
    put(&writer, "\",\"active\":");
    weir_head_number(&writer, mock->counts.active);
    put(&writer, "}\n");
    assert(!writer.failed); /* the first line is bounded, and this is not much more than twice it */
    return (struct weir_slice){mock->text, writer.bytes};
}

struct weir_slice weir_reply_counts(const struct weir_mock_counts *counts,
                                    char text[WEIR_MOCK_COUNTS_TEXT_MAX])
{
    int bytes = snprintf(text, WEIR_MOCK_COUNTS_TEXT_MAX,
                         "{\"active\":%" PRIu64 ",\"most\":%" PRIu64 ",\"served\":%" PRIu64
                         ",\"refused\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"reset\":%" PRIu64
                         ",\"gone\":%" PRIu64 ",\"connections\":%" PRIu64 "}\n",
                         counts->active, counts->most, counts->served, counts->refused,
                         counts->failed, counts->reset, counts->gone, counts->connections);
    assert(bytes < WEIR_MOCK_COUNTS_TEXT_MAX);
    return (struct weir_slice){text, (size_t)bytes};
}

/* ---- heads ---- */

static void put_connection(struct weir_head_writer *writer, const struct weir_visit *visit)
{
    if (visit->last) {
        put(writer, "Connection: close\r\n");
    } else if (visit->head.minor == 0) {
        put(writer, "Connection: keep-alive\r\n");
    }
}

static void put_body_fields(struct weir_head_writer *writer, const struct weir_visit *visit,
                            const struct weir_mock_reply *reply)
{
    weir_head_field(writer, weir_slice_of("Content-Type"), weir_slice_of(reply->type));
    if (!reply->streamed) {
        weir_head_field_number(writer, weir_slice_of("Content-Length"),
                               reply->document.bytes + reply->filler_bytes);
    } else if (visit->head.minor == 1) {
        put(writer, "Transfer-Encoding: chunked\r\n");
    }
}

bool weir_reply_write(struct weir_visit *visit, const struct weir_mock_reply *reply)
{
    struct weir_head_writer writer;
    size_t more_bytes = reply->fields == NULL ? 0 : strlen(reply->fields);
    if (!begin(visit, &writer, HEAD_BYTES_MAX + more_bytes + reply->document.bytes)) {
        return false;
    }
    weir_head_status(&writer, reply->status, (struct weir_slice){0});
    if (reply->type != NULL) {
        put_body_fields(&writer, visit, reply);
    }
    if (reply->retry_seconds > 0) {
        weir_head_field_number(&writer, weir_slice_of("Retry-After"), reply->retry_seconds);
    }
    if (reply->fields != NULL) {
        put(&writer, reply->fields);
    }
    put_connection(&writer, visit);
    if (!weir_head_end(&writer)) {
        return false;
    }
    if (visit->head.method != WEIR_METHOD_HEAD) {
        weir_head_copy(&writer, reply->document);
        visit->filler_bytes = reply->filler_bytes;
    }
    return end(visit, &writer);
}

bool weir_reply_piece(struct weir_visit *visit, struct weir_slice piece, bool last)
{
    char line[WEIR_CHUNK_LINE_BYTES_MAX];
    struct weir_head_writer writer;
    if (!begin(visit, &writer, piece.bytes + FRAME_BYTES_MAX)) {
        return false;
    }
    bool chunked = visit->head.minor == 1;
    if (chunked && piece.bytes > 0) {
        size_t line_bytes = weir_chunk_write_line(line, piece.bytes);
        weir_head_copy(&writer, (struct weir_slice){line, line_bytes});
    }
    weir_head_copy(&writer, piece);
    if (chunked && piece.bytes > 0) {
        put(&writer, "\r\n");
    }
    if (chunked && last) {
        put(&writer, WEIR_CHUNK_LAST);
    }
    return end(visit, &writer);
}

bool weir_reply_event(struct weir_visit *visit)
{
    char event[EVENT_BYTES_MAX];
    assert(visit->events_left > 0);
    uint32_t part = visit->mock->settings->events - --visit->events_left;
    int bytes = snprintf(event, sizeof event, "data: {\"n\":%" PRIu64 ",\"part\":%" PRIu32 "}\n\n",
                         visit->number, part);
    assert(bytes < (int)sizeof event);
    struct weir_slice piece = {event, (size_t)bytes};
    return weir_reply_piece(visit, piece, visit->events_left == 0);
}

bool weir_reply_upgrade(struct weir_visit *visit, struct weir_slice key)
{
    char accept[WEIR_WEBSOCKET_ACCEPT_BYTES];
    struct weir_head_writer writer;
    if (!begin(visit, &writer, HEAD_BYTES_MAX)) {
        return false;
    }
    weir_websocket_accept(key, accept);
    weir_head_status(&writer, 101, (struct weir_slice){0});
    put(&writer, "Upgrade: websocket\r\nConnection: Upgrade\r\n");
    weir_head_field(&writer, weir_slice_of("Sec-WebSocket-Accept"),
                    (struct weir_slice){accept, sizeof accept});
    return weir_head_end(&writer) && end(visit, &writer);
}

bool weir_reply_continue(struct weir_visit *visit)
{
    struct weir_head_writer writer;
    if (!begin(visit, &writer, HEAD_BYTES_MAX)) {
        return false;
    }
    weir_head_status(&writer, 100, (struct weir_slice){0});
    return weir_head_end(&writer) && end(visit, &writer);
}
