/* rate.h - a token bucket whose burst is one period's tokens.
 *
 * The whole state is one moment, the time at which the bucket is full again, so there is no refill
 * to forget. The core's bucket can do more, but lies in a layer that an upstream must not know. */
#ifndef WEIR_LAB_MOCK_RATE_H
#define WEIR_LAB_MOCK_RATE_H

#include "weir/types.h"

/* A day of nanoseconds times the largest number of tokens must stay far below 2^64. */
#define WEIR_MOCK_TOKENS_MAX    (UINT64_C(1) << 40)
#define WEIR_MOCK_PERIOD_MAX_NS WEIR_NS_PER_DAY

struct weir_mock_limit {
    uint64_t tokens;    /* per period, 1 .. WEIR_MOCK_TOKENS_MAX */
    uint64_t period_ns; /* 1 .. WEIR_MOCK_PERIOD_MAX_NS */
};

struct weir_mock_rate {
    uint64_t token_ns;   /* in which one token flows in */
    uint64_t depth_ns;   /* in which all of them do */
    uint64_t full_at_ns; /* when it is full again if nothing more is taken */
};

/* The bucket begins full. */
void weir_mock_rate_init(struct weir_mock_rate *bucket, struct weir_mock_limit limit);

/* Takes a token and returns 0, or takes none and returns in how many nanoseconds one is there. */
uint64_t weir_mock_rate_take(struct weir_mock_rate *bucket, uint64_t now_ns);

#endif
