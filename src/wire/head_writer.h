/* head_writer.h - writes the head of a message into a buffer of the caller's.
 *
 * A writer that runs out of room, or gets bytes that a head must not contain, fails and stays
 * failed: so a head is written call by call and checked once, at the end. A failed head is never
 * sent, whatever is in the buffer. Line breaks cannot be smuggled in: everything but the raw bytes
 * of weir_head_copy() is checked by the same rules by which the parser reads. */
#ifndef WEIR_WIRE_HEAD_WRITER_H
#define WEIR_WIRE_HEAD_WRITER_H

#include "weir/types.h"

#include <stdbool.h>

struct weir_head_writer {
    char *data;
    size_t capacity;
    size_t bytes; /* written so far */
    bool failed;
};

/* Begins to write into `data`, which stays the caller's. */
void weir_head_init(struct weir_head_writer *writer, char *data, size_t capacity);

/* Each function appends, and returns whether the writer has not failed. */

/* "METHOD target HTTP/1.1" and CRLF. */
bool weir_head_request(struct weir_head_writer *writer, struct weir_slice method,
                       struct weir_slice target);

/* "HTTP/1.1 status reason" and CRLF. An empty reason becomes the usual one of that status. */
bool weir_head_status(struct weir_head_writer *writer, uint16_t status, struct weir_slice reason);

/* "name: value" and CRLF. */
bool weir_head_field(struct weir_head_writer *writer, struct weir_slice name,
                     struct weir_slice value);

/* "name: number" and CRLF. */
bool weir_head_field_number(struct weir_head_writer *writer, struct weir_slice name,
                            uint64_t number);

/* A field whose value is made of parts: "name: ", then parts, then the end of the line. */
bool weir_head_open(struct weir_head_writer *writer, struct weir_slice name);
bool weir_head_part(struct weir_head_writer *writer, struct weir_slice part);
bool weir_head_number(struct weir_head_writer *writer, uint64_t number);
bool weir_head_close(struct weir_head_writer *writer);

/* Appends bytes unchecked: only for what the parser has accepted, or literals of the program.
 * Inline, since most of a head is written by it, and literals then cost a few stores. */
static inline bool weir_head_copy(struct weir_head_writer *writer, struct weir_slice bytes)
{
    if (bytes.bytes > writer->capacity - writer->bytes) {
        writer->failed = true;
    }
    if (!writer->failed && bytes.bytes > 0) {
        memcpy(writer->data + writer->bytes, bytes.data, bytes.bytes);
        writer->bytes += bytes.bytes;
    }
    return !writer->failed;
}

/* Appends the empty line. Returns whether the head is complete; then it is `bytes` of `data`. */
WEIR_MUST_CHECK bool weir_head_end(struct weir_head_writer *writer);

/* The usual reason phrase of a status, or "Unknown". */
struct weir_slice weir_http_reason(uint16_t status);

#endif
