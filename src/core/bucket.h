/* bucket.h - a token bucket with reservation, settlement and debt.
 *
 * Amounts inside are tokens times the nanoseconds of the period. In that unit one nanosecond adds
 * exactly `tokens`, so refilling is a multiplication without a remainder: the bucket is exact over
 * any number of looks, and only telling how long to wait needs a division. 128 bits hold a burst
 * of 2^40 tokens over a day (2^87) with room for any debt. */
#ifndef WEIR_CORE_BUCKET_H
#define WEIR_CORE_BUCKET_H

#include "weir/settings.h"

struct weir_bucket {
    __int128 level; /* up to burst x period; below 0 only in mode NEGATIVE */
    __int128 debt;  /* in mode DEBT: paid by what flows in before the level rises */
    uint64_t at_ns; /* when `level` and `debt` were true */
    struct weir_rate rate;
    struct weir_rate
        configured;       /* the owner's: what its settings say, which `rate` may have left */
    uint32_t since_epoch; /* the owner's: its count of changes when this bucket began */
};

/* Whether a rate from outside may be given to a bucket. Tokens of 0 are no rate. */
bool weir_rate_valid(const struct weir_rate *rate);

bool weir_rate_equal(const struct weir_rate *a, const struct weir_rate *b);

/* A full bucket. Requires a valid rate. */
void weir_bucket_init(struct weir_bucket *bucket, const struct weir_rate *rate, uint64_t now_ns);

/* What a ticket of that cost takes from this bucket. Where the bucket counts a part of the cost,
 * its owner hands in that part as the cost. */
static inline uint32_t weir_bucket_price(const struct weir_bucket *bucket, uint32_t cost)
{
    return bucket->rate.unit == WEIR_UNIT_REQUESTS ? 1 : cost;
}

/* When a ticket of that cost may go: not after `now_ns` if it may go now, at most
 * WEIR_DURATION_MAX_NS later. A cost above the burst needs a full bucket (G9). */
uint64_t weir_bucket_ready_ns(const struct weir_bucket *bucket, uint32_t cost, uint64_t now_ns);

/* Takes what the ticket costs, into debt if it costs more than the burst. Requires that it may go.
 */
void weir_bucket_take(struct weir_bucket *bucket, uint32_t cost, uint64_t now_ns);

/* Replaces what was taken for `reserved` by `actual`. True if something flowed back. */
bool weir_bucket_settle(struct weir_bucket *bucket, uint32_t reserved, uint32_t actual,
                        uint64_t now_ns);

/* Gives back all that was taken for a cost, as if it had never been. */
void weir_bucket_return(struct weir_bucket *bucket, uint32_t reserved, uint64_t now_ns);

/* Refills by the new rate from now on. The level stays, but for what exceeds the new burst. */
void weir_bucket_set_rate(struct weir_bucket *bucket, const struct weir_rate *rate,
                          uint64_t now_ns);

/* Level less debt in whole tokens, rounded down. */
int64_t weir_bucket_level(const struct weir_bucket *bucket, uint64_t now_ns);

/* Whether nothing is owed and nothing more flows in. */
bool weir_bucket_full(const struct weir_bucket *bucket, uint64_t now_ns);

/* When the bucket is full again if nothing more is taken: not after `now_ns` if it is full now, at
 * most WEIR_DURATION_MAX_NS later. */
uint64_t weir_bucket_full_ns(const struct weir_bucket *bucket, uint64_t now_ns);

#endif
