#include "api/body_reader.h"

/* Moves the parts of a body in chunks that `raw` holds together, behind what is there. Their frames
 * have been checked before. */
static void decode(struct weir_body_reader *reader, struct weir_buffer *in, char *raw,
                   size_t raw_bytes)
{
    struct weir_slice rest = {raw, raw_bytes};
    char *to = raw;
    for (;;) {
        size_t used;
        struct weir_slice piece;
        enum weir_chunked_event event = weir_chunked_next(&reader->decoder, rest, &used, &piece);
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
    reader->bytes += (uint32_t)(to - raw);
}

/* Looks at what has come since. */
static void accept_fresh(struct weir_body_reader *reader, struct weir_buffer *in)
{
    struct weir_slice all = weir_buffer_slice(in);
    struct weir_slice fresh = {all.data + reader->bytes, all.bytes - reader->bytes};
    size_t accepted = weir_body_accept(&reader->body, fresh);
    if (accepted == 0) {
        return;
    }
    if (reader->body.framing == WEIR_FRAMING_CHUNKED) {
        decode(reader, in, (char *)fresh.data, accepted);
    } else {
        reader->bytes += (uint32_t)accepted;
    }
}

/* Room for what comes next: for all of it, if it is known how much that is. */
static uint32_t wanted_room(const struct weir_body_reader *reader, const struct weir_client *client)
{
    const struct weir_buffer *in = &client->in;
    uint32_t wanted = in->capacity == 0                      ? WEIR_BUFFER_SMALL
                      : weir_buffer_bytes(in) < in->capacity ? in->capacity
                      : in->capacity == WEIR_BUFFER_SMALL    ? WEIR_BUFFER_MIDDLE
                                                             : WEIR_BUFFER_LARGE;
    uint64_t known = reader->body.left_bytes + weir_buffer_bytes(in);
    if (reader->body.framing == WEIR_FRAMING_LENGTH && known > wanted) {
        wanted = known < WEIR_BUFFER_LARGE ? (uint32_t)known : WEIR_BUFFER_LARGE;
    }
    return wanted;
}

enum weir_body_reader_event weir_body_reader_read(struct weir_body_reader *reader,
                                                  struct weir_client *client)
{
    struct weir_buffer *in = &client->in;
    for (;;) {
        accept_fresh(reader, in);
        if (reader->body.state != WEIR_BODY_GOES_ON) {
            return reader->body.state == WEIR_BODY_ENDED ? WEIR_BODY_READER_ENDED
                                                         : WEIR_BODY_READER_FAULT;
        }
        if (weir_buffer_bytes(in) >= WEIR_BUFFER_LARGE) {
            return WEIR_BODY_READER_FULL;
        }
        ssize_t got = weir_client_read(client, wanted_room(reader, client), 0);
        if (got <= 0) {
            return got == WEIR_STREAM_AGAIN ? WEIR_BODY_READER_WAITS : WEIR_BODY_READER_GONE;
        }
        weir_body_pace_receive(&reader->pace, client->listener->config, (uint64_t)got,
                               client->worker->loop.now_ns);
    }
}

void weir_body_reader_consume(struct weir_body_reader *reader, struct weir_client *client)
{
    weir_buffer_consume(&client->in, reader->bytes);
    reader->bytes = 0;
}
