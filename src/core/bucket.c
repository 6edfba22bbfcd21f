/* bucket.c - refill by multiplication, settlement, and how long until there is enough. Where 128
 * bits would not hold a product, whole tokens and the rest are converted apart. Runs under its
 * key's lock.
 */
#include "core/bucket.h"

#include <assert.h>

static_assert(WEIR_RATE_PERIOD_MAX_NS < (UINT64_C(1) << 47), "level must stay below 2^87");
static_assert(WEIR_RATE_TOKENS_MAX <= (UINT64_C(1) << 40), "level must stay below 2^87");

static __int128 capacity(const struct weir_bucket *bucket)
{
    return (__int128)bucket->rate.burst * (__int128)bucket->rate.period_ns;
}

static __int128 in_units(const struct weir_bucket *bucket, uint64_t tokens)
{
    return (__int128)tokens * (__int128)bucket->rate.period_ns;
}

/* Lets an amount flow in: the debt is paid first, and what does not fit is gone. */
static void pour(struct weir_bucket *bucket, __int128 amount)
{
    __int128 paid = amount < bucket->debt ? amount : bucket->debt;
    bucket->debt -= paid;
    bucket->level += amount - paid;
    if (bucket->level > capacity(bucket)) {
        bucket->level = capacity(bucket);
    }
}

/* Takes an amount that is not there: it is owed in the way that the rate says. */
static void owe(struct weir_bucket *bucket, __int128 amount)
{
    if (bucket->rate.settle == WEIR_SETTLE_DEBT) {
        bucket->debt += amount;
    } else {
        bucket->level -= amount;
    }
}

/* A time that stands still or steps back refills nothing (G8). */
static void refill(struct weir_bucket *bucket, uint64_t now_ns)
{
    if (now_ns <= bucket->at_ns) {
        return;
    }
    pour(bucket, (__int128)(now_ns - bucket->at_ns) * (__int128)bucket->rate.tokens);
    bucket->at_ns = now_ns;
}

static __int128 divide_down(__int128 amount, __int128 by)
{
    __int128 quotient = amount / by;
    return amount % by < 0 ? quotient - 1 : quotient;
}

/* As many tokens in the unit of another period, rounded down. Whole tokens and the rest
 * are converted apart, because their product with a period would not fit. */
static __int128 convert(__int128 amount, uint64_t from_ns, uint64_t to_ns)
{
    __int128 tokens = divide_down(amount, (__int128)from_ns);
    __int128 rest = amount - tokens * (__int128)from_ns;
    return tokens * (__int128)to_ns + rest * (__int128)to_ns / (__int128)from_ns;
}

static uint64_t burst_of(const struct weir_rate *rate)
{
    return rate->burst == 0 ? rate->tokens : rate->burst;
}

bool weir_rate_valid(const struct weir_rate *rate)
{
    return rate->tokens >= 1 && rate->tokens <= WEIR_RATE_TOKENS_MAX &&
           rate->burst <= WEIR_RATE_TOKENS_MAX && rate->period_ns >= WEIR_RATE_PERIOD_MIN_NS &&
           rate->period_ns <= WEIR_RATE_PERIOD_MAX_NS && (unsigned)rate->unit < WEIR_UNIT_COUNT &&
           (rate->settle == WEIR_SETTLE_NEGATIVE || rate->settle == WEIR_SETTLE_DEBT);
}

bool weir_rate_equal(const struct weir_rate *a, const struct weir_rate *b)
{
    return a->tokens == b->tokens && a->period_ns == b->period_ns && burst_of(a) == burst_of(b) &&
           a->unit == b->unit && a->settle == b->settle;
}

void weir_bucket_init(struct weir_bucket *bucket, const struct weir_rate *rate, uint64_t now_ns)
{
    assert(weir_rate_valid(rate));
    *bucket = (struct weir_bucket){.at_ns = now_ns, .rate = *rate};
    bucket->rate.burst = burst_of(rate);
    bucket->level = capacity(bucket);
}

/* When a refilled bucket has `needed` and no debt. */
static uint64_t reach_ns(const struct weir_bucket *then, __int128 needed, uint64_t now_ns)
{
    __int128 tokens = (__int128)then->rate.tokens;
    __int128 wait_ns = (needed - then->level + then->debt + tokens - 1) / tokens;
    bool for_ever = wait_ns > (__int128)WEIR_DURATION_MAX_NS;
    /* After a step back nothing flows until the time is again what it was. */
    uint64_t from_ns = now_ns > then->at_ns ? now_ns : then->at_ns;
    return from_ns + (for_ever ? WEIR_DURATION_MAX_NS : (uint64_t)wait_ns);
}

uint64_t weir_bucket_ready_ns(const struct weir_bucket *bucket, uint32_t cost, uint64_t now_ns)
{
    struct weir_bucket then = *bucket;
    refill(&then, now_ns);
    __int128 needed = in_units(&then, weir_bucket_price(bucket, cost));
    if (needed > capacity(&then)) {
        needed = capacity(&then);
    }
    return then.level >= needed ? now_ns : reach_ns(&then, needed, now_ns);
}

void weir_bucket_take(struct weir_bucket *bucket, uint32_t cost, uint64_t now_ns)
{
    refill(bucket, now_ns);
    __int128 price = in_units(bucket, weir_bucket_price(bucket, cost));
    assert(bucket->level >= 0);
    __int128 there = price < bucket->level ? price : bucket->level;
    bucket->level -= there;
    owe(bucket, price - there);
}

void weir_bucket_return(struct weir_bucket *bucket, uint32_t reserved, uint64_t now_ns)
{
    refill(bucket, now_ns);
    pour(bucket, in_units(bucket, weir_bucket_price(bucket, reserved)));
}

bool weir_bucket_settle(struct weir_bucket *bucket, uint32_t reserved, uint32_t actual,
                        uint64_t now_ns)
{
    refill(bucket, now_ns);
    uint32_t taken = weir_bucket_price(bucket, reserved);
    uint32_t due = weir_bucket_price(bucket, actual);
    if (due < taken) {
        pour(bucket, in_units(bucket, taken - due));
    } else {
        owe(bucket, in_units(bucket, due - taken));
    }
    return due < taken;
}

void weir_bucket_set_rate(struct weir_bucket *bucket, const struct weir_rate *rate, uint64_t now_ns)
{
    assert(weir_rate_valid(rate));
    assert(rate->unit == bucket->rate.unit);
    refill(bucket, now_ns);
    uint64_t from_ns = bucket->rate.period_ns;
    if (from_ns != rate->period_ns) {
        bucket->level = convert(bucket->level, from_ns, rate->period_ns);
        /* A debt is rounded up: a hair strict is right, a hair loose is not. */
        bucket->debt = -convert(-bucket->debt, from_ns, rate->period_ns);
    }
    bucket->rate = *rate;
    bucket->rate.burst = burst_of(rate);
    pour(bucket, 0);
}

int64_t weir_bucket_level(const struct weir_bucket *bucket, uint64_t now_ns)
{
    struct weir_bucket then = *bucket;
    refill(&then, now_ns);
    return (int64_t)divide_down(then.level - then.debt, (__int128)then.rate.period_ns);
}

bool weir_bucket_full(const struct weir_bucket *bucket, uint64_t now_ns)
{
    struct weir_bucket then = *bucket;
    refill(&then, now_ns);
    return then.level == capacity(&then) && then.debt == 0;
}

uint64_t weir_bucket_full_ns(const struct weir_bucket *bucket, uint64_t now_ns)
{
    struct weir_bucket then = *bucket;
    refill(&then, now_ns);
    bool full = then.level == capacity(&then) && then.debt == 0;
    return full ? now_ns : reach_ns(&then, capacity(&then), now_ns);
}
