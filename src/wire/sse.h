/* sse.h - server-sent events (the HTML standard, section 9.2): their ends and their data.
 *
 * The reader keeps no bytes but the event's name: it reports which of its input bytes are data. So
 * a line may have any length and costs no memory. Lines end with CR, LF or CRLF, a byte order mark
 * before the first one is skipped, comments and other fields are ignored.
 *
 * An empty line ends an event. If that line is CRLF, the CR ends it, since the LF may not have
 * arrived; the LF then counts to the next event and is ignored. */
#ifndef WEIR_WIRE_SSE_H
#define WEIR_WIRE_SSE_H

#include "weir/types.h"

#include <stdbool.h>

/* Of an event's name; the longest of OpenAI's has 44 bytes. A longer one is cut, and `name_long`.
 */
#define WEIR_SSE_NAME_BYTES_MAX 64

enum weir_sse_token {
    WEIR_SSE_MORE,  /* all input was used */
    WEIR_SSE_DATA,  /* some of the event's data; between two of its lines, a line feed */
    WEIR_SSE_EVENT, /* an empty line has ended an event, or a group of lines without data */
};

struct weir_sse {
    uint64_t offset; /* the offset in the stream after the used bytes */

    /* Of the current event; after WEIR_SSE_EVENT, of the one that has ended. */
    uint64_t begin; /* where it begins: after the empty line before it */
    bool has_data;  /* a line of data, perhaps an empty one, has begun */
    bool name_long;
    uint8_t name_bytes;
    char name[WEIR_SSE_NAME_BYTES_MAX]; /* empty if it was not named */

    /* The rest is private. */
    uint8_t state;
    uint8_t field;   /* that the current line has, or may have */
    uint8_t matched; /* bytes of its name */
    bool ended;      /* the next byte begins another event */
    bool after_cr;   /* an LF now belongs to the CR before it */
};

/* Begins a stream. */
void weir_sse_init(struct weir_sse *sse);

/* Takes bytes from `input` until there is a token, and sets `used` to their number. With
 * WEIR_SSE_DATA, `data` is not empty, and valid until the next call. Call again with the rest until
 * WEIR_SSE_MORE, then with what arrives next. The events depend on the bytes only, not on how they
 * arrive; only the cuts of the data do. */
WEIR_MUST_CHECK enum weir_sse_token weir_sse_next(struct weir_sse *sse, struct weir_slice input,
                                                  size_t *used, struct weir_slice *data);

#endif
