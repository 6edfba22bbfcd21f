/* body.c - where a body ends: by its length, by its chunks, or with the connection. Bytes are
 * looked at where they lie and stay there. Only a request's chunk extensions and trailers are taken
 * out, by moving what follows them. */
#define _GNU_SOURCE /* memmem */
#include "proxy/body.h"

#include "base/hints.h"

#include <assert.h>

static void fail(struct weir_body *body, enum weir_http_fault fault)
{
    body->state = WEIR_BODY_FAULT;
    body->fault = fault;
}

void weir_body_init(struct weir_body *body, const struct weir_http1_head *head, uint64_t bytes_max)
{
    *body = (struct weir_body){.framing = head->framing, .bytes_max = bytes_max};
    switch (head->framing) {
    case WEIR_FRAMING_NONE:
        body->state = WEIR_BODY_ENDED;
        break;
    case WEIR_FRAMING_LENGTH:
        body->left_bytes = head->content_length;
        body->state = body->left_bytes == 0 ? WEIR_BODY_ENDED : WEIR_BODY_GOES_ON;
        if (body->left_bytes > bytes_max) {
            fail(body, WEIR_HTTP_FAULT_BODY_LARGE);
        }
        break;
    case WEIR_FRAMING_CHUNKED:
        weir_chunked_init(&body->chunked, bytes_max);
        break;
    case WEIR_FRAMING_UNTIL_CLOSE:
        break;
    }
}

static size_t accept_length(struct weir_body *body, struct weir_slice input)
{
    size_t accepted = input.bytes < body->left_bytes ? input.bytes : (size_t)body->left_bytes;
    body->left_bytes -= accepted;
    if (body->left_bytes == 0) {
        body->state = WEIR_BODY_ENDED;
    }
    return accepted;
}

static size_t accept_until_close(struct weir_body *body, struct weir_slice input)
{
    if (input.bytes > body->bytes_max - body->bytes) {
        fail(body, WEIR_HTTP_FAULT_BODY_LARGE);
        return 0;
    }
    return input.bytes;
}

/* The length of a complete trailer section, or 0. What was searched before is not searched again,
 * so that one that comes byte by byte costs no more than one that comes at once. */
static size_t find_trailer_end(struct weir_body *body, struct weir_slice input)
{
    if (input.bytes >= 2 && memcmp(input.data, "\r\n", 2) == 0) {
        return 2;
    }
    size_t from = body->trailer_bytes < 3 ? 0 : body->trailer_bytes - 3;
    const char *end = memmem(input.data + from, input.bytes - from, "\r\n\r\n", 4);
    body->trailer_bytes = (uint32_t)input.bytes;
    return end == NULL ? 0 : (size_t)(end - input.data) + 4;
}

static size_t accept_trailers(struct weir_body *body, struct weir_slice input)
{
    static const struct weir_http1_limits limits = {16, WEIR_TRAILER_BYTES_MAX,
                                                    WEIR_HTTP1_FIELDS_MAX};
    if (input.bytes > WEIR_TRAILER_BYTES_MAX) {
        input.bytes = WEIR_TRAILER_BYTES_MAX;
    }
    size_t bytes = find_trailer_end(body, input);
    if (bytes == 0) {
        if (input.bytes == WEIR_TRAILER_BYTES_MAX) {
            fail(body, WEIR_HTTP_FAULT_HEAD_LONG);
        }
        return 0;
    }
    struct weir_http1_head trailers;
    weir_http1_init_trailers(&trailers, limits);
    enum weir_http1_result result = weir_http1_parse(&trailers, input.data, bytes);
    if (result != WEIR_HTTP1_DONE) {
        fail(body, result == WEIR_HTTP1_FAULT ? trailers.fault : WEIR_HTTP_FAULT_BARE_LF);
        return 0;
    }
    body->state = WEIR_BODY_ENDED;
    return bytes;
}

/* A chunked body whose extensions and trailers are taken out: what stays is written over the bytes
 * that it is read from, at `kept_bytes` of `data`. */
struct rewriting {
    char *data;
    size_t kept_bytes;
};

static void keep(struct rewriting *rewriting, size_t from, size_t to)
{
    size_t bytes = to - from;
    if (rewriting->kept_bytes < from && bytes > 0) {
        memmove(rewriting->data + rewriting->kept_bytes, rewriting->data + from, bytes);
    }
    rewriting->kept_bytes += bytes;
}

/* Keeps what the decoder has used, from `from` on, without the extension in it. */
static void keep_used(struct rewriting *rewriting, const struct weir_chunked *chunked, size_t from,
                      size_t used)
{
    keep(rewriting, from, from + chunked->extension_at);
    keep(rewriting, from + chunked->extension_end, from + used);
}

/* Apart, because a head of trailers on the stack would cost every other body a stack protector.
 * `rewriting` is null where the body goes on as it is. Returns how many bytes of the input have
 * been read. */
static WEIR_APART size_t accept_chunks(struct weir_body *body, struct weir_slice input,
                                       struct rewriting *rewriting)
{
    size_t accepted = 0;
    while (!body->in_trailers) {
        size_t used;
        struct weir_slice data;
        struct weir_slice rest = {input.data + accepted, input.bytes - accepted};
        enum weir_chunked_event event = weir_chunked_next(&body->chunked, rest, &used, &data);
        if (event == WEIR_CHUNKED_FAULT) {
            fail(body, body->chunked.fault);
            return 0;
        }
        if (rewriting != NULL) {
            keep_used(rewriting, &body->chunked, accepted, used);
        }
        accepted += used;
        if (event == WEIR_CHUNKED_NEED_MORE) {
            return accepted;
        }
        body->in_trailers = event == WEIR_CHUNKED_END;
    }
    struct weir_slice rest = {input.data + accepted, input.bytes - accepted};
    accepted += accept_trailers(body, rest);
    if (rewriting != NULL && body->state == WEIR_BODY_ENDED) {
        keep(rewriting, accepted - 2, accepted); /* of the trailer section, the empty line */
    }
    return body->state == WEIR_BODY_FAULT ? 0 : accepted;
}

size_t weir_body_accept(struct weir_body *body, struct weir_slice input)
{
    if (body->state != WEIR_BODY_GOES_ON || input.bytes == 0) {
        return 0;
    }
    size_t accepted = 0;
    switch (body->framing) {
    case WEIR_FRAMING_NONE:
        break;
    case WEIR_FRAMING_LENGTH:
        accepted = accept_length(body, input);
        break;
    case WEIR_FRAMING_CHUNKED:
        accepted = accept_chunks(body, input, NULL);
        break;
    case WEIR_FRAMING_UNTIL_CLOSE:
        accepted = accept_until_close(body, input);
        break;
    }
    body->bytes += accepted;
    return accepted;
}

size_t weir_body_accept_for_server(struct weir_body *body, char *data, size_t *bytes)
{
    struct weir_slice input = {data, *bytes};
    if (body->framing != WEIR_FRAMING_CHUNKED || body->state != WEIR_BODY_GOES_ON || *bytes == 0) {
        return weir_body_accept(body, input);
    }
    struct rewriting rewriting = {.data = data};
    size_t read = accept_chunks(body, input, &rewriting);
    if (body->state == WEIR_BODY_FAULT) {
        return 0;
    }
    size_t accepted = rewriting.kept_bytes;
    keep(&rewriting, read, *bytes);
    *bytes = rewriting.kept_bytes;
    body->bytes += accepted;
    return accepted;
}

size_t weir_body_strip_frames(struct weir_chunked *chunked, char *data, size_t bytes)
{
    struct weir_slice rest = {data, bytes};
    struct weir_slice piece;
    size_t used;
    size_t kept = 0;
    enum weir_chunked_event event;
    while ((event = weir_chunked_next(chunked, rest, &used, &piece)) == WEIR_CHUNKED_BODY) {
        memmove(data + kept, piece.data, piece.bytes);
        kept += piece.bytes;
        rest = (struct weir_slice){rest.data + used, rest.bytes - used};
    }
    assert(event != WEIR_CHUNKED_FAULT);
    return kept;
}

void weir_body_close(struct weir_body *body)
{
    if (body->state != WEIR_BODY_GOES_ON) {
        return;
    }
    if (body->framing == WEIR_FRAMING_UNTIL_CLOSE) {
        body->state = WEIR_BODY_ENDED;
    } else {
        fail(body, WEIR_HTTP_FAULT_BODY_FORBIDDEN);
    }
}
