/* estimate.h - what a request will cost, before it is known.
 *
 * The input is counted from its characters. The output is predicted from what came before: per
 * tenant at a key, because the model and the tenant say most about it, and from all tenants of the
 * key for one that is new. Lanes do not come into it: they lead to the same model, and a ticket
 * needs its cost while it waits, before it has a lane. */
#ifndef WEIR_ESTIMATE_H
#define WEIR_ESTIMATE_H

#include "weir/ticket.h"

/* What is predicted before anything is known; and the weight of a new value in EWMA. */
#define WEIR_ESTIMATE_SEED   UINT32_C(128)
#define WEIR_ESTIMATE_LAMBDA 0.2

/* The mean weighs a new value by 1/n, but never less than this, so that it follows a change. */
#define WEIR_ESTIMATE_WEIGHT_MIN 0.01

enum weir_estimate {
    WEIR_ESTIMATE_NONE, /* the caller names the cost */
    WEIR_ESTIMATE_MEAN, /* running mean: what providers charge adds up to it */
    WEIR_ESTIMATE_EWMA, /* lambda 0.2, seed 128 */
    WEIR_ESTIMATE_COUNT
};

/* One running estimate. Start it zeroed. */
struct weir_estimator {
    float mean;
    uint32_t count; /* values seen; stops at UINT32_MAX */
};

/* How good the predictions were. */
struct weir_estimate_stats {
    uint64_t count;        /* outputs that were predicted and then known */
    double output_mean;    /* of the outputs */
    double error_mean;     /* predicted less actual: 0 if it is right on average */
    double error_abs_mean; /* without the sign */
};

#ifdef __cplusplus
extern "C" {
#endif

/* The input of a text of that many characters: a quarter of them, rounded up; at most
 * WEIR_COST_MAX. */
WEIR_API uint32_t weir_estimate_input(uint64_t characters);

/* The output to expect: what `own` says, or `others` if that has seen nothing, or the seed if
 * neither has; at most `output_max`, unless that is 0. `others` may be null. */
WEIR_API uint32_t weir_estimate_output(const struct weir_estimator *own,
                                       const struct weir_estimator *others, uint32_t output_max);

/* Learns one output. `kind` is MEAN or EWMA. */
WEIR_API void weir_estimate_learn(struct weir_estimator *estimator, enum weir_estimate kind,
                                  uint32_t output);

#ifdef __cplusplus
}
#endif
#endif
