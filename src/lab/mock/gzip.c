#include "lab/mock/gzip.h"

#include <assert.h>

#define POLYNOMIAL UINT32_C(0xedb88320)

static uint32_t add_to_sum(uint32_t sum, struct weir_slice bytes)
{
    sum = ~sum;
    for (size_t i = 0; i < bytes.bytes; i++) {
        sum ^= (uint8_t)bytes.data[i];
        for (int bit = 0; bit < 8; bit++) {
            sum = sum >> 1 ^ (sum & 1 ? POLYNOMIAL : 0);
        }
    }
    return ~sum;
}

static size_t put_number(char *out, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (char)(number >> 8 * i);
    }
    return bytes;
}

size_t weir_gzip_write(struct weir_gzip *gzip, struct weir_slice piece, bool last, char *out)
{
    /* Deflate, no name, no time, a system that is not told. */
    static const char head[] = {'\x1f', '\x8b', 8, 0, 0, 0, 0, 0, 0, '\xff'};
    size_t at = 0;
    assert(piece.bytes <= WEIR_GZIP_PIECE_BYTES_MAX);
    if (!gzip->begun) {
        memcpy(out, head, sizeof head);
        at = sizeof head;
        gzip->begun = true;
    }
    uint32_t bytes = (uint32_t)piece.bytes;
    out[at++] = last ? 1 : 0; /* a stored block */
    at += put_number(out + at, bytes, 2);
    at += put_number(out + at, ~bytes, 2);
    memcpy(out + at, piece.data, piece.bytes);
    at += piece.bytes;
    gzip->sum = add_to_sum(gzip->sum, piece);
    gzip->bytes += bytes;
    if (last) {
        at += put_number(out + at, gzip->sum, 4);
        at += put_number(out + at, gzip->bytes, 4);
    }
    return at;
}
