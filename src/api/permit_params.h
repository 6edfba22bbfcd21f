/* permit_params.h - what a caller asks for, as JSON: read once, with a clear word on what is wrong
 * with it.
 */
#ifndef WEIR_API_PERMIT_PARAMS_H
#define WEIR_API_PERMIT_PARAMS_H

#include "weir/key.h"

#include <stdbool.h>

/* The fields of acquire, release and renew; each call knows some of them. */
enum weir_permit_params_field {
    WEIR_PERMIT_PARAM_FLOW = 1,
    WEIR_PERMIT_PARAM_TENANT = 2,
    WEIR_PERMIT_PARAM_PRIORITY = 4,
    WEIR_PERMIT_PARAM_TIMEOUT = 8,
    WEIR_PERMIT_PARAM_LEASE = 16,
    WEIR_PERMIT_PARAM_COST = 32,
    WEIR_PERMIT_PARAM_HOLD = 64,
    WEIR_PERMIT_PARAM_PERMIT = 128,
    WEIR_PERMIT_PARAM_OUTCOME = 256
};

struct weir_permit_params {
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
 * for anything else. After success, weir_permit_params_deinit() gives the memory back. */
WEIR_MUST_CHECK bool weir_permit_params_read(struct weir_permit_params *params,
                                             struct weir_slice text, uint32_t known);
void weir_permit_params_deinit(struct weir_permit_params *params);

#endif
