#include "model_bucket.h"

static __int128 smaller(__int128 a, __int128 b)
{
    return a < b ? a : b;
}

/* Rounded towards minus infinity, so that a level is never told or kept too high. */
static __int128 divided_down(__int128 amount, __int128 by)
{
    __int128 quotient = amount / by;
    return amount % by < 0 ? quotient - 1 : quotient;
}

/* An amount of one period in units of another, rounded down. In two parts: the product of a level
 * and a period has more than 128 bits. */
static __int128 converted(__int128 amount, uint64_t from_ns, uint64_t to_ns)
{
    __int128 whole = divided_down(amount, from_ns);
    __int128 rest = amount - whole * from_ns;
    return whole * to_ns + rest * to_ns / from_ns;
}

static uint64_t burst_of(const struct weir_rate *rate)
{
    return rate->burst != 0 ? rate->burst : rate->tokens;
}

static __int128 capacity(const struct model_bucket *bucket)
{
    return (__int128)burst_of(&bucket->rate) * bucket->rate.period_ns;
}

static __int128 price(const struct model_bucket *bucket, uint32_t cost)
{
    uint32_t tokens = bucket->rate.unit == WEIR_UNIT_REQUESTS ? 1 : cost;
    return (__int128)tokens * bucket->rate.period_ns;
}

/* The bucket as it is at `now_ns`: what flowed in has paid the debt first. */
static struct model_bucket filled(const struct model_bucket *bucket, uint64_t now_ns)
{
    struct model_bucket now = *bucket;
    if (now_ns > bucket->at_ns) {
        __int128 flow = (__int128)bucket->rate.tokens * (now_ns - bucket->at_ns);
        __int128 paid = smaller(flow, now.debt);
        now.debt -= paid;
        now.level = smaller(now.level + flow - paid, capacity(bucket));
        now.at_ns = now_ns;
    }
    return now;
}

struct model_bucket model_bucket_full(const struct weir_rate *rate, uint64_t now_ns)
{
    struct model_bucket bucket = {.rate = *rate, .at_ns = now_ns};
    bucket.level = capacity(&bucket);
    return bucket;
}

uint64_t model_bucket_moment(const struct model_bucket *bucket, uint32_t cost, uint64_t now_ns)
{
    if (bucket->rate.tokens == 0) {
        return now_ns;
    }
    struct model_bucket now = filled(bucket, now_ns);
    __int128 wanted = smaller(price(&now, cost), capacity(&now));
    if (now.level >= wanted) {
        return now_ns;
    }
    __int128 missing = wanted - now.level + now.debt;
    __int128 wait_ns = (missing + now.rate.tokens - 1) / now.rate.tokens;
    return now_ns + (uint64_t)smaller(wait_ns, WEIR_DURATION_MAX_NS);
}

void model_bucket_take(struct model_bucket *bucket, uint32_t cost, uint64_t now_ns)
{
    if (bucket->rate.tokens == 0) {
        return;
    }
    *bucket = filled(bucket, now_ns);
    bucket->level -= price(bucket, cost);
    if (bucket->rate.settle == WEIR_SETTLE_DEBT && bucket->level < 0) {
        bucket->debt -= bucket->level;
        bucket->level = 0;
    }
}

bool model_bucket_settle(struct model_bucket *bucket, uint32_t reserved, uint32_t actual,
                         uint64_t now_ns)
{
    if (bucket->rate.tokens == 0 || bucket->rate.unit == WEIR_UNIT_REQUESTS) {
        return false;
    }
    *bucket = filled(bucket, now_ns);
    if (actual >= reserved) {
        __int128 more = price(bucket, actual - reserved);
        bool owes = bucket->rate.settle == WEIR_SETTLE_DEBT;
        bucket->debt += owes ? more : 0;
        bucket->level -= owes ? 0 : more;
        return false;
    }
    __int128 refund = price(bucket, reserved - actual);
    __int128 paid = smaller(refund, bucket->debt);
    bucket->debt -= paid;
    bucket->level = smaller(bucket->level + refund - paid, capacity(bucket));
    return true;
}

void model_bucket_change(struct model_bucket *bucket, const struct weir_rate *rate, uint64_t now_ns)
{
    struct model_bucket before = filled(bucket, now_ns);
    uint64_t old_ns = before.rate.period_ns;
    bucket->rate = *rate;
    bucket->at_ns = now_ns;
    bucket->level = converted(before.level, old_ns, rate->period_ns);
    bucket->debt = -converted(-before.debt, old_ns, rate->period_ns);
    bucket->level = smaller(bucket->level, capacity(bucket));
}

int64_t model_bucket_level(const struct model_bucket *bucket, uint64_t now_ns)
{
    struct model_bucket now = filled(bucket, now_ns);
    return (int64_t)divided_down(now.level - now.debt, now.rate.period_ns);
}

bool model_bucket_is_full(const struct model_bucket *bucket, uint64_t now_ns)
{
    struct model_bucket now = filled(bucket, now_ns);
    return now.rate.tokens == 0 || (now.debt == 0 && now.level == capacity(&now));
}
