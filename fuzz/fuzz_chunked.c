/* Any bytes as a chunked body with trailers: the same body and the same end however they arrive. A
 * body that was accepted is written in chunks anew and must come out the same. So must what is left
 * of it when the extensions are taken out. */
#include "wire/chunked.h"
#include "wire_head.h"

struct decoded {
    enum weir_chunked_event event; /* the last one */
    enum weir_http_fault fault;
    size_t used;
    char *body;
    size_t body_bytes;
    char *plain; /* what was used, without extensions */
    size_t plain_bytes;
    size_t extension_bytes;
};

/* Keeps what one call has used, but for the extension in it. */
static void keep_plain(struct decoded *decoded, const struct weir_chunked *chunked,
                       const char *from, size_t used)
{
    size_t at = chunked->extension_at;
    size_t end = chunked->extension_end;
    must(at <= end && end <= used);
    memcpy(decoded->plain + decoded->plain_bytes, from, at);
    memcpy(decoded->plain + decoded->plain_bytes + at, from + end, used - end);
    decoded->plain_bytes += used - (end - at);
    decoded->extension_bytes += end - at;
}

/* Decodes what is shown of the input from `decoded->used` up to `end`. */
static void decode_part(struct weir_chunked *chunked, const char *data, size_t end,
                        struct decoded *decoded)
{
    do {
        struct weir_slice rest = {data + decoded->used, end - decoded->used};
        struct weir_slice body = {0};
        size_t used = 0;
        decoded->event = weir_chunked_next(chunked, rest, &used, &body);
        must(used <= rest.bytes);
        keep_plain(decoded, chunked, rest.data, used);
        if (decoded->event == WEIR_CHUNKED_BODY) {
            must(body.bytes > 0);
            must(body.data >= rest.data);
            must(body.data + body.bytes == rest.data + used);
            memcpy(decoded->body + decoded->body_bytes, body.data, body.bytes);
            decoded->body_bytes += body.bytes;
        }
        must(decoded->event != WEIR_CHUNKED_NEED_MORE || used == rest.bytes);
        must(chunked->excess_bytes <= WEIR_CHUNK_EXCESS_MAX ||
             decoded->event == WEIR_CHUNKED_FAULT);
        decoded->used += used;
    } while (decoded->event == WEIR_CHUNKED_BODY);
    decoded->fault = chunked->fault;
}

/* In pieces of `step` bytes. */
static struct decoded decode(struct input *input, size_t step, uint64_t body_bytes_max)
{
    struct decoded decoded = {.body = malloc(input->bytes + 1), .plain = malloc(input->bytes + 1)};
    struct weir_chunked chunked;
    must(decoded.body != NULL && decoded.plain != NULL);
    weir_chunked_init(&chunked, body_bytes_max);
    size_t end = 0;
    do {
        end = input->bytes - end < step ? input->bytes : end + step;
        show(input, end);
        decode_part(&chunked, input->data, end, &decoded);
    } while (end < input->bytes && decoded.event == WEIR_CHUNKED_NEED_MORE);
    show(input, input->bytes);
    must(decoded.event != WEIR_CHUNKED_END || chunked.body_bytes == decoded.body_bytes);
    must(decoded.body_bytes <= body_bytes_max);
    return decoded;
}

static void must_be_equal(const struct decoded *a, const struct decoded *b)
{
    must(a->event == b->event);
    must(a->fault == b->fault);
    must(a->used == b->used);
    must(a->body_bytes == b->body_bytes);
    must(memcmp(a->body, b->body, a->body_bytes) == 0);
    must(a->event == WEIR_CHUNKED_FAULT || a->plain_bytes == b->plain_bytes);
    must(a->event == WEIR_CHUNKED_FAULT || memcmp(a->plain, b->plain, a->plain_bytes) == 0);
}

static void forget(struct decoded *decoded)
{
    free(decoded->body);
    free(decoded->plain);
}

/* Reads the body again as it is without its extensions. */
static void must_be_the_same_without_extensions(const struct decoded *decoded)
{
    struct input plain = input_of((const uint8_t *)decoded->plain, decoded->plain_bytes);
    struct decoded other = decode(&plain, SIZE_MAX, UINT64_MAX);
    must(other.event == WEIR_CHUNKED_END);
    must(other.used == decoded->plain_bytes);
    must(other.extension_bytes == 0);
    must(other.body_bytes == decoded->body_bytes);
    must(memcmp(other.body, decoded->body, decoded->body_bytes) == 0);
    forget(&other);
    give_back(&plain);
}

/* Writes the body in chunks of `step` bytes and decodes that. */
static void must_survive_writing_anew(const struct decoded *decoded, size_t step)
{
    size_t room = decoded->body_bytes * (WEIR_CHUNK_LINE_BYTES_MAX + 3) + 8;
    struct input again = {malloc(room), 0};
    must(again.data != NULL);
    for (size_t at = 0; at < decoded->body_bytes; at += step) {
        size_t bytes = decoded->body_bytes - at < step ? decoded->body_bytes - at : step;
        again.bytes += weir_chunk_write_line(again.data + again.bytes, bytes);
        memcpy(again.data + again.bytes, decoded->body + at, bytes);
        memcpy(again.data + again.bytes + bytes, "\r\n", 2);
        again.bytes += bytes + 2;
    }
    memcpy(again.data + again.bytes, WEIR_CHUNK_LAST, sizeof WEIR_CHUNK_LAST - 1);
    again.bytes += sizeof WEIR_CHUNK_LAST - 1;
    struct decoded other = decode(&again, 7, UINT64_MAX);
    must(other.event == WEIR_CHUNKED_END);
    must(other.used == again.bytes - 2);
    must(other.body_bytes == decoded->body_bytes);
    must(memcmp(other.body, decoded->body, decoded->body_bytes) == 0);
    forget(&other);
    give_back(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const uint64_t limits[] = {UINT64_MAX, 20};
    static const size_t steps[] = {1, 2, 7};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct input input = input_of(data, bytes);
        struct decoded whole = decode(&input, SIZE_MAX, limits[i]);
        for (size_t j = 0; j < sizeof steps / sizeof steps[0]; j++) {
            struct decoded other = decode(&input, steps[j], limits[i]);
            must_be_equal(&whole, &other);
            forget(&other);
        }
        if (whole.event == WEIR_CHUNKED_END) {
            must_be_the_same_without_extensions(&whole);
            must_survive_writing_anew(&whole, 1);
            must_survive_writing_anew(&whole, 100);
            try_head((struct reading){.kind = WEIR_HTTP1_TRAILERS}, data + whole.used,
                     bytes - whole.used);
        }
        forget(&whole);
        give_back(&input);
    }
    return 0;
}
