/* model_bucket.h - the simplest exact token bucket: a level, a debt and the time of both.
 *
 * All amounts are tokens times the nanoseconds of the period, so one nanosecond adds `tokens`. */
#ifndef WEIR_TESTS_MODEL_BUCKET_H
#define WEIR_TESTS_MODEL_BUCKET_H

#include "weir/settings.h"

struct model_bucket {
    struct weir_rate rate; /* tokens 0: there is no bucket, and everything is covered */
    __int128 level;
    __int128 debt;
    uint64_t at_ns;
};

struct model_bucket model_bucket_full(const struct weir_rate *rate, uint64_t now_ns);

/* When a ticket of that cost is covered: `now_ns` if it is now, and at most the longest duration
 * later. */
uint64_t model_bucket_moment(const struct model_bucket *bucket, uint32_t cost, uint64_t now_ns);

void model_bucket_take(struct model_bucket *bucket, uint32_t cost, uint64_t now_ns);

/* Replaces a reserved cost by the actual one. Returns whether something was refunded. */
bool model_bucket_settle(struct model_bucket *bucket, uint32_t reserved, uint32_t actual,
                         uint64_t now_ns);

void model_bucket_change(struct model_bucket *bucket, const struct weir_rate *rate,
                         uint64_t now_ns);

/* Level less debt in whole tokens, rounded down. */
int64_t model_bucket_level(const struct model_bucket *bucket, uint64_t now_ns);

bool model_bucket_is_full(const struct model_bucket *bucket, uint64_t now_ns);

#endif
