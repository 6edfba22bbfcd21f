/* wish.h - what a caller asks for, as JSON: read once, with a clear word on what is wrong with it.
 */
#ifndef WEIR_API_WISH_H
#define WEIR_API_WISH_H

#include "weir/key.h"

#include <stdbool.h>

/* The fields of acquire, release and renew; each call knows some of them. */
enum weir_wish_field {
    WEIR_WISH_FLOW = 1,
    WEIR_WISH_TENANT = 2,
    WEIR_WISH_PRIORITY = 4,
    WEIR_WISH_TIMEOUT = 8,
    WEIR_WISH_LEASE = 16,
    WEIR_WISH_COST = 32,
    WEIR_WISH_HOLD = 64,
    WEIR_WISH_PERMIT = 128,
    WEIR_WISH_OUTCOME = 256
};

struct weir_wish {
    uint32_t present; /* which fields are there */
    struct weir_slice flow;
    struct weir_slice tenant;
    struct weir_slice permit;
    enum weir_priority priority;
    enum weir_outcome outcome;
    uint64_t timeout_ns; /* 0: none was named, or it was 0: see `present` */
    uint64_t lease_ns;
    uint32_t cost;
    bool hold;
    void *document;  /* private: what the texts above point into */
    char wrong[256]; /* a sentence, after a failure */
};

/* Reads a document that may have the fields of `known`; an empty one has none. False, with `wrong`,
 * for anything else. After success, weir_wish_deinit() gives the memory back. */
WEIR_MUST_CHECK bool weir_wish_read(struct weir_wish *wish, struct weir_slice text, uint32_t known);
void weir_wish_deinit(struct weir_wish *wish);

#endif
