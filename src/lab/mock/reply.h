/* reply.h - what the mock says, as bytes in a connection's buffer. */
#ifndef WEIR_LAB_MOCK_REPLY_H
#define WEIR_LAB_MOCK_REPLY_H

#include "lab/mock/visit.h"

/* Of the counts as JSON, with their names and numbers. */
#define WEIR_MOCK_COUNTS_TEXT_MAX 320

struct weir_mock_reply {
    uint16_t status;
    const char *type;           /* of the body; null: there is none */
    struct weir_slice document; /* the body */
    uint64_t filler_bytes;      /* or that many bytes of nothing in particular */
    bool streamed;              /* or events, whose number is not known yet */
    uint64_t retry_seconds;     /* 0: not told */
    const char *fields;         /* further lines of the head, or null */
};

/* The default document about the request at hand, in the mock's memory for texts. */
struct weir_slice weir_reply_document(struct weir_visit *visit);

/* The counts as JSON. */
struct weir_slice weir_reply_counts(const struct weir_mock_counts *counts,
                                    char text[WEIR_MOCK_COUNTS_TEXT_MAX]);

/* Appends the head and what belongs behind it to what the connection has to write. False without
 * memory. */
WEIR_MUST_CHECK bool weir_reply_write(struct weir_visit *visit,
                                      const struct weir_mock_reply *reply);

/* Appends a piece of a streamed reply, and its end behind the last. An empty piece is none. False
 * without memory. */
WEIR_MUST_CHECK bool weir_reply_piece(struct weir_visit *visit, struct weir_slice piece, bool last);

/* Appends the next event of a streamed reply of numbered events. False without memory. */
WEIR_MUST_CHECK bool weir_reply_event(struct weir_visit *visit);

/* Appends the acceptance of a WebSocket, whose key is `key`. False without memory. */
WEIR_MUST_CHECK bool weir_reply_upgrade(struct weir_visit *visit, struct weir_slice key);

/* Appends 100 Continue. False without memory. */
WEIR_MUST_CHECK bool weir_reply_continue(struct weir_visit *visit);

#endif
