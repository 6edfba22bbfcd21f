/* chunked.h - bodies in chunks (RFC 9112, section 7.1): a decoder, and the lines of chunks to
 * write.
 *
 * The decoder keeps no bytes: it reports which of its input bytes belong to the body. It ends with
 * the line of the last chunk; the trailer section that follows, at least an empty line, is read
 * with weir_http1_init_trailers(), separately from the header section, and must not be merged with
 * it.
 *
 * The cost of a body besides its data is bounded. A chunk size has at most 16 digits. Extensions
 * are checked, bounded per chunk and otherwise ignored; the decoder says where they are, so that a
 * caller can leave them out. Extensions and padded sizes may not outweigh the data: a body of a
 * million chunks of one byte is fine, one that hides a gigabyte in extensions, where no limit of
 * the body counts it, is not. */
#ifndef WEIR_WIRE_CHUNKED_H
#define WEIR_WIRE_CHUNKED_H

#include "weir/types.h"
#include "wire/http_fault.h"

#define WEIR_CHUNK_DIGITS_MAX 16

/* Of one chunk, its semicolons included. Clients hardly ever send any; a signature of 64 digits
 * with its name fits several times. */
#define WEIR_CHUNK_EXTENSION_BYTES_MAX 256

/* Every chunk brings a credit of 16 bytes, and 2 for each byte of data, towards the bytes of its
 * frame (its line and the CRLF after the data). The account may be overdrawn by
 * WEIR_CHUNK_CREDIT_BYTES at any time. Frames without extensions and padding take 5 bytes for one
 * of data, and never come near. */
#define WEIR_CHUNK_CREDIT_BYTES 16
#define WEIR_CHUNK_EXCESS_MAX   4096

enum weir_chunked_event {
    WEIR_CHUNKED_NEED_MORE, /* all input was used and belonged to frames */
    WEIR_CHUNKED_BODY,      /* some bytes of the body */
    WEIR_CHUNKED_END,       /* of the last chunk's line: trailers follow */
    WEIR_CHUNKED_FAULT,     /* `fault` says which */
};

struct weir_chunked {
    uint64_t body_bytes_max;
    uint64_t body_bytes; /* what the chunks so far announced */
    uint64_t left_bytes; /* of the current chunk's data; while its line is read: its size so far */
    uint32_t line_bytes; /* of the current chunk's line so far */
    uint32_t extension_bytes;
    uint32_t excess_bytes;
    uint8_t state;
    /* Of the bytes that the last call used, those from `extension_at` up to `extension_end` are an
     * extension or a part of one; both are 0 if there is none. Lines are short, so 16 bits do. */
    uint16_t extension_at;
    uint16_t extension_end;
    enum weir_http_fault fault; /* meaningful after WEIR_CHUNKED_FAULT */
};

/* Begins a body, which is a fault from the moment it announces more than `body_bytes_max`. */
void weir_chunked_init(struct weir_chunked *chunked, uint64_t body_bytes_max);

/* Takes bytes from `input` until there is an event, and sets `used` to their number. With
 * WEIR_CHUNKED_BODY, `body` is a part of `input`, which `used` includes. Call again with the rest
 * until WEIR_CHUNKED_NEED_MORE, then with what arrives next. The events depend on the bytes only,
 * not on how they arrive; only the cuts of the body do. END and FAULT are final, and use no more
 * bytes. */
WEIR_MUST_CHECK enum weir_chunked_event weir_chunked_next(struct weir_chunked *chunked,
                                                          struct weir_slice input, size_t *used,
                                                          struct weir_slice *body);

/* The longest line of a chunk: its digits and CRLF. */
#define WEIR_CHUNK_LINE_BYTES_MAX (WEIR_CHUNK_DIGITS_MAX + 2)

/* Writes the line of a chunk of `bytes`, at least 1, and returns its length. The data and CRLF go
 * behind it. */
size_t weir_chunk_write_line(char line[WEIR_CHUNK_LINE_BYTES_MAX], uint64_t bytes);

/* A line of always the same length, for callers that make the data before they know its length;
 * leading zeros fill it. `bytes` is at most WEIR_CHUNK_FIXED_MAX. */
#define WEIR_CHUNK_FIXED_LINE_BYTES 6
#define WEIR_CHUNK_FIXED_MAX        0xffff
void weir_chunk_write_fixed_line(char line[WEIR_CHUNK_FIXED_LINE_BYTES], uint32_t bytes);

/* What follows the data of a chunk. */
#define WEIR_CHUNK_TAIL "\r\n"

/* Ends a body that has no trailers. */
#define WEIR_CHUNK_LAST "0\r\n\r\n"

#endif
