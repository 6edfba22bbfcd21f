/* gzip.h - bytes as gzip (RFC 1952) that compresses nothing: it emulates a provider that sends gzip
 * although the request does not allow it, not one that saves bytes. */
#ifndef WEIR_LAB_MOCK_GZIP_H
#define WEIR_LAB_MOCK_GZIP_H

#include "weir/types.h"

#include <stdbool.h>

#define WEIR_GZIP_PIECE_BYTES_MAX 65535 /* a stored block has a length of 16 bits */
#define WEIR_GZIP_EXTRA_BYTES     23    /* around a piece: head, block, trailer */

/* A zeroed one begins. */
struct weir_gzip {
    bool begun;
    uint32_t sum;   /* the CRC so far */
    uint32_t bytes; /* so far, modulo 2^32 */
};

/* Writes the next piece, of at most WEIR_GZIP_PIECE_BYTES_MAX, to `out`, which has room for
 * WEIR_GZIP_EXTRA_BYTES more than that. Returns how many bytes were written. */
size_t weir_gzip_write(struct weir_gzip *gzip, struct weir_slice piece, bool last, char *out);

#endif
