#define _GNU_SOURCE /* memmem */
#include "gateway/body.h"

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

static size_t accept_chunks(struct weir_body *body, struct weir_slice input)
{
    size_t accepted = 0;
    while (!body->in_trailers) {
        size_t used;
        struct weir_slice data;
        struct weir_slice rest = {input.data + accepted, input.bytes - accepted};
        switch (weir_chunked_next(&body->chunked, rest, &used, &data)) {
        case WEIR_CHUNKED_NEED_MORE:
            return accepted + used;
        case WEIR_CHUNKED_BODY:
            break;
        case WEIR_CHUNKED_END:
            body->in_trailers = true;
            break;
        case WEIR_CHUNKED_FAULT:
            fail(body, body->chunked.fault);
            return 0;
        }
        accepted += used;
    }
    struct weir_slice rest = {input.data + accepted, input.bytes - accepted};
    accepted += accept_trailers(body, rest);
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
        accepted = accept_chunks(body, input);
        break;
    case WEIR_FRAMING_UNTIL_CLOSE:
        accepted = accept_until_close(body, input);
        break;
    }
    body->bytes += accepted;
    return accepted;
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
