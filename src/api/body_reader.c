#include "api/body_reader.h"

/* Moves the parts of a body in chunks that `raw` holds together, behind what is there. Their frames
 * have been checked before. */
static void decode(struct weir_call *call, char *raw, size_t raw_bytes)
{
    struct weir_buffer *in = &call->client->in;
    struct weir_slice rest = {raw, raw_bytes};
    char *to = raw;
    for (;;) {
        size_t used;
        struct weir_slice piece;
        enum weir_chunked_event event = weir_chunked_next(&call->decoder, rest, &used, &piece);
        if (event != WEIR_CHUNKED_BODY) {
            break; /* all of it was frames, or trailers follow */
        }
        memmove(to, piece.data, piece.bytes);
        to += piece.bytes;
        rest.data += used;
        rest.bytes -= used;
    }
    const char *behind = raw + raw_bytes;
    const char *end = in->data + in->end;
    memmove(to, behind, (size_t)(end - behind));
    in->end -= (uint32_t)(behind - to);
    call->body_bytes += (uint32_t)(to - raw);
}

/* Looks at what has come since. */
static void accept_fresh(struct weir_call *call)
{
    struct weir_slice all = weir_buffer_slice(&call->client->in);
    struct weir_slice fresh = {all.data + call->body_bytes, all.bytes - call->body_bytes};
    size_t accepted = weir_body_accept(&call->body_in, fresh);
    if (accepted == 0) {
        return;
    }
    if (call->body_in.framing == WEIR_FRAMING_CHUNKED) {
        decode(call, (char *)fresh.data, accepted);
    } else {
        call->body_bytes += (uint32_t)accepted;
    }
}

/* Room for what comes next: for all of it, if it is known how much that is. */
static bool make_room(struct weir_call *call)
{
    struct weir_buffer *in = &call->client->in;
    uint32_t wanted = in->capacity == 0                      ? WEIR_BUFFER_SMALL
                      : weir_buffer_bytes(in) < in->capacity ? in->capacity
                      : in->capacity == WEIR_BUFFER_SMALL    ? WEIR_BUFFER_MIDDLE
                                                             : WEIR_BUFFER_LARGE;
    uint64_t known = call->body_in.left_bytes + weir_buffer_bytes(in);
    if (call->body_in.framing == WEIR_FRAMING_LENGTH && known > wanted) {
        wanted = known < WEIR_BUFFER_LARGE ? (uint32_t)known : WEIR_BUFFER_LARGE;
    }
    return weir_buffer_reserve(&call->worker->buffers, in, wanted);
}

enum weir_intake weir_intake_read(struct weir_call *call)
{
    struct weir_client *client = call->client;
    struct weir_buffer *in = &client->in;
    for (;;) {
        accept_fresh(call);
        if (call->body_in.state != WEIR_BODY_GOES_ON) {
            return call->body_in.state == WEIR_BODY_ENDED ? WEIR_INTAKE_ENDED : WEIR_INTAKE_FAULT;
        }
        if (weir_buffer_bytes(in) >= WEIR_BUFFER_LARGE) {
            return WEIR_INTAKE_FULL;
        }
        if (!make_room(call)) {
            return WEIR_INTAKE_GONE;
        }
        ssize_t got = weir_stream_read(&client->stream, in->data + in->end, weir_buffer_room(in));
        if (got <= 0) {
            return got == WEIR_STREAM_AGAIN ? WEIR_INTAKE_WAITS : WEIR_INTAKE_GONE;
        }
        in->end += (uint32_t)got;
        weir_body_pace_receive(&call->body_pace, client->listener->config, (uint64_t)got,
                               call->worker->loop.now_ns);
    }
}

void weir_intake_use_up(struct weir_call *call)
{
    weir_buffer_consume(&call->client->in, call->body_bytes);
    call->body_bytes = 0;
}
