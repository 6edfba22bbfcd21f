/* card.h - an agent card (A2A) as clients get it through Weir: what it says about where the agent
 * can be reached leads to Weir, so that clients do not go around it.
 *
 * Cards of 0.3 name `url` and `additionalInterfaces`, those of 1.x `supportedInterfaces`; a card
 * may have both. An interface stays, with a new URL, if Weir can carry it: its protocol is JSON-RPC
 * or HTTP+JSON, it is on the same server as the first interface over HTTP, and its path leads to a
 * route with `a2a: true`. The others are taken out. So are `signatures`: they sign what the agent
 * has said, and no client could verify them any more. No I/O; any thread. */
#ifndef WEIR_A2A_CARD_H
#define WEIR_A2A_CARD_H

#include "weir/types.h"

#include <stdbool.h>

/* Of a card, before and after. Real ones have a few KiB. */
#define WEIR_A2A_CARD_BYTES_MAX (256 * 1024)

/* Of a URL in a card; longer ones are not carried. */
#define WEIR_A2A_URL_BYTES_MAX 2048

/* Where the card's interfaces are from outside. */
struct weir_a2a_place {
    struct weir_slice public_url; /* of the listener, without a slash at its end */
    struct weir_slice stripped;   /* what the route strips from paths; empty: nothing */
    struct weir_slice prefix;     /* what the upstream has in front of paths; empty: nothing */
    bool (*carries)(const void *context, struct weir_slice path); /* whether clients may go there */
    const void *context;
};

enum weir_a2a_card_result {
    WEIR_A2A_CARD_DONE,
    WEIR_A2A_CARD_NONE,         /* it is the JSON-RPC reply of an error, and goes on as it is */
    WEIR_A2A_CARD_INVALID,      /* it is no JSON object */
    WEIR_A2A_CARD_NO_INTERFACE, /* it names none that Weir can carry */
    WEIR_A2A_CARD_NO_ROOM       /* for the new card, or no memory */
};

/* What was changed besides URLs. */
struct weir_a2a_card_changes {
    uint32_t removed; /* interfaces */
    bool unsigned_now;
};

/* Rewrites the card in `input`, or, with `wrapped`, the one that is the result of the JSON-RPC
 * reply there. With DONE the new text is in `output`, of which `*bytes` are used. */
enum weir_a2a_card_result weir_a2a_card_rewrite(struct weir_slice input, bool wrapped,
                                                const struct weir_a2a_place *place, char *output,
                                                size_t capacity, size_t *bytes,
                                                struct weir_a2a_card_changes *changes);

#endif
