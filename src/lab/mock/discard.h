/* discard.h - reads the body of a request to its end and keeps nothing of it; a function may look
 * at it. */
#ifndef WEIR_LAB_MOCK_DISCARD_H
#define WEIR_LAB_MOCK_DISCARD_H

#include "wire/chunked.h"
#include "wire/http1.h"

/* The most that trailers may take: they have to be complete to be judged. */
#define WEIR_DISCARD_TRAILER_BYTES_MAX 8192

struct weir_discard {
    void (*look)(void *context, struct weir_slice bytes); /* at what is thrown away, or null */
    void *context;
    uint64_t left_bytes; /* of a body with a length */
    struct weir_chunked chunked;
    bool is_chunked;
    bool in_trailers;
};

/* The body that a judged head of a request announces; no function looks unless the caller then sets
 * `look`. */
void weir_discard_init(struct weir_discard *discard, const struct weir_http1_head *head);

/* Takes what it can of bytes that follow those taken before, and says in `used` how much that was;
 * the rest comes again with the next call. DONE: the body has ended there. */
WEIR_MUST_CHECK enum weir_http1_result weir_discard_take(struct weir_discard *discard,
                                                         struct weir_slice input, size_t *used);

#endif
