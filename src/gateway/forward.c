#define _POSIX_C_SOURCE 200809L /* strncasecmp */
#include "gateway/forward.h"

#include "base/slice.h"
#include "wire/head_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

/* What says who asked: ours to say, unless the peer is believed. */
#define SAYS_WHO                                                            \
    (WEIR_FIELD_BIT(FORWARDED) | WEIR_FIELD_BIT(X_FORWARDED_FOR) |          \
     WEIR_FIELD_BIT(X_FORWARDED_HOST) | WEIR_FIELD_BIT(X_FORWARDED_PROTO) | \
     WEIR_FIELD_BIT(X_REAL_IP))

/* What is written anew for every request. */
#define WRITTEN_ANEW                                                                             \
    (WEIR_FIELD_BIT(HOST) | WEIR_FIELD_BIT(CONTENT_LENGTH) | WEIR_FIELD_BIT(TRANSFER_ENCODING) | \
     WEIR_FIELD_BIT(VIA) | WEIR_FIELD_BIT(WEIR_TIMEOUT))

static bool same_name(struct weir_slice a, struct weir_slice b)
{
    return a.bytes == b.bytes && strncasecmp(a.data, b.data, a.bytes) == 0;
}

/* Whether one of the route's upstreams sets this field itself. */
static bool replaced(const struct weir_forward_request *request, struct weir_slice name)
{
    for (uint32_t i = 0; i < request->route->upstream_count; i++) {
        const struct weir_config_upstream *upstream =
            &request->config->upstreams[request->route->upstreams[i]];
        for (uint32_t j = 0; j < upstream->header_count; j++) {
            if (same_name(upstream->headers[j].name, name)) {
                return true;
            }
        }
    }
    return false;
}

static void copy_field(struct weir_head_writer *writer, const char *data,
                       const struct weir_http1_field *field)
{
    weir_head_field(writer, weir_http1_name(data, field), weir_http1_value(data, field));
}

/* The path without the segments that the route strips, and the query. */
static struct weir_slice forwarded_target(const struct weir_forward_request *request)
{
    const struct weir_http1_head *head = request->head;
    struct weir_slice path = weir_http1_slice(request->data, head->path);
    for (uint32_t i = 0; i < request->route->strip_segments && path.bytes > 0; i++) {
        const char *next = memchr(path.data + 1, '/', path.bytes - 1);
        size_t segment = next == NULL ? path.bytes : (size_t)(next - path.data);
        path.data += segment;
        path.bytes -= segment;
    }
    if (head->has_query) { /* which follows the path in the target */
        path.bytes += 1 + (size_t)head->query.bytes;
    }
    return path;
}

static void write_request_line(struct weir_head_writer *writer,
                               const struct weir_forward_request *request)
{
    const struct weir_http1_head *head = request->head;
    struct weir_slice target = forwarded_target(request);
    weir_head_copy(writer, weir_http1_slice(request->data, head->method_name));
    weir_head_copy(writer, weir_slice_of(" "));
    if (target.bytes == 0 || target.data[0] != '/') {
        weir_head_copy(writer, weir_slice_of("/"));
    }
    weir_head_copy(writer, target);
    /* A client of 1.0 must not get chunks, and a server that is asked in 1.0 sends none. */
    weir_head_copy(writer, weir_slice_of(head->minor == 0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n"));
}

static void write_framing(struct weir_head_writer *writer, const struct weir_http1_head *head)
{
    if (head->framing == WEIR_FRAMING_LENGTH) {
        weir_head_field_number(writer, weir_slice_of("content-length"), head->content_length);
    } else if (head->framing == WEIR_FRAMING_CHUNKED) {
        weir_head_field(writer, weir_slice_of("transfer-encoding"), weir_slice_of("chunked"));
    }
}

static void write_who(struct weir_head_writer *writer, const struct weir_forward_request *request)
{
    const struct weir_http1_head *head = request->head;
    const struct weir_http1_field *before =
        request->trusted ? weir_http1_find(head, WEIR_FIELD_X_FORWARDED_FOR) : NULL;
    weir_head_open(writer, weir_slice_of("x-forwarded-for"));
    if (before != NULL) {
        weir_head_part(writer, weir_http1_value(request->data, before));
        weir_head_part(writer, weir_slice_of(", "));
    }
    weir_head_part(writer, weir_slice_of(request->peer));
    weir_head_close(writer);
    bool keep = request->trusted;
    if (!keep || weir_http1_find(head, WEIR_FIELD_X_FORWARDED_PROTO) == NULL) {
        weir_head_field(writer, weir_slice_of("x-forwarded-proto"), weir_slice_of("http"));
    }
    if (head->authority.bytes > 0 &&
        (!keep || weir_http1_find(head, WEIR_FIELD_X_FORWARDED_HOST) == NULL)) {
        weir_head_field(writer, weir_slice_of("x-forwarded-host"),
                        weir_http1_slice(request->data, head->authority));
    }
}

static void write_via(struct weir_head_writer *writer, const struct weir_http1_head *head,
                      const char *data)
{
    weir_head_open(writer, weir_slice_of("via"));
    const struct weir_http1_field *via = weir_http1_find(head, WEIR_FIELD_VIA);
    if (via != NULL) {
        weir_head_part(writer, weir_http1_value(data, via));
        weir_head_part(writer, weir_slice_of(", "));
    }
    weir_head_part(writer, weir_slice_of(head->minor == 0 ? "1.0 weir" : "1.1 weir"));
    weir_head_close(writer);
}

static bool passes(const struct weir_forward_request *request, uint16_t index)
{
    const struct weir_http1_field *field = &request->head->fields[index];
    uint64_t bit = field->id == WEIR_FIELD_OTHER ? 0 : UINT64_C(1) << field->id;
    if ((bit & WRITTEN_ANEW) != 0 || weir_http1_is_hop_by_hop(request->head, index)) {
        return false;
    }
    if ((bit & SAYS_WHO) != 0) {
        return request->trusted && field->id != WEIR_FIELD_X_FORWARDED_FOR;
    }
    return !replaced(request, weir_http1_name(request->data, field));
}

static bool take(struct weir_buffer *buffer, const struct weir_head_writer *writer)
{
    if (writer->failed) {
        return false;
    }
    buffer->end += (uint32_t)writer->bytes;
    return true;
}

bool weir_forward_request(const struct weir_forward_request *request, struct weir_buffer *buffer)
{
    struct weir_head_writer writer;
    weir_head_init(&writer, buffer->data + buffer->end, weir_buffer_room(buffer));
    write_request_line(&writer, request);
    for (uint16_t i = 0; i < request->head->field_count; i++) {
        if (passes(request, i)) {
            copy_field(&writer, request->data, &request->head->fields[i]);
        }
    }
    write_framing(&writer, request->head);
    write_who(&writer, request);
    write_via(&writer, request->head, request->data);
    if (weir_http1_find(request->head, WEIR_FIELD_X_REQUEST_ID) == NULL) {
        char id[20];
        snprintf(id, sizeof id, "%016" PRIx64, request->request_id);
        weir_head_field(&writer, weir_slice_of("x-request-id"), weir_slice_of(id));
    }
    return take(buffer, &writer);
}

bool weir_forward_finish(const struct weir_config_upstream *upstream, struct weir_slice authority,
                         struct weir_buffer *buffer)
{
    struct weir_head_writer writer;
    weir_head_init(&writer, buffer->data + buffer->end, weir_buffer_room(buffer));
    weir_head_field(&writer, weir_slice_of("host"), authority);
    for (uint32_t i = 0; i < upstream->header_count; i++) {
        weir_head_field(&writer, upstream->headers[i].name, upstream->headers[i].value);
    }
    return weir_head_end(&writer) && take(buffer, &writer);
}

static void write_timing(struct weir_head_writer *writer, const struct weir_forward_reply *reply)
{
    char text[96];
    snprintf(text, sizeof text, "line;dur=%.3f, upstream;dur=%.3f", (double)reply->line_ns / 1e6,
             (double)reply->upstream_ns / 1e6);
    weir_head_field(writer, weir_slice_of("server-timing"), weir_slice_of(text));
}

bool weir_forward_reply(const struct weir_forward_reply *reply, struct weir_buffer *buffer)
{
    const struct weir_http1_head *head = reply->head;
    struct weir_head_writer writer;
    weir_head_init(&writer, buffer->data + buffer->end, weir_buffer_room(buffer));
    weir_head_status(&writer, head->status, weir_http1_slice(reply->data, head->reason));
    for (uint16_t i = 0; i < head->field_count; i++) {
        bool via = head->fields[i].id == WEIR_FIELD_VIA;
        if (!via && !weir_http1_is_hop_by_hop(head, i)) {
            copy_field(&writer, reply->data, &head->fields[i]);
        }
    }
    if (head->status >= 200) {
        if (head->framing == WEIR_FRAMING_CHUNKED) {
            weir_head_field(&writer, weir_slice_of("transfer-encoding"), weir_slice_of("chunked"));
        }
        write_via(&writer, head, reply->data);
        write_timing(&writer, reply);
        weir_head_field(&writer, weir_slice_of("connection"),
                        weir_slice_of(reply->keep_alive ? "keep-alive" : "close"));
    }
    return weir_head_end(&writer) && take(buffer, &writer);
}
