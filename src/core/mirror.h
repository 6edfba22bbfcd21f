/* mirror.h - one quota that the provider states: its bucket as it must look from there now.
 *
 * A provider's bucket wastes refill only while it is full and refuses only while it is empty. So
 * the mirror does not look for the right rate but keeps the level at a target between the two: at
 * the target it sends at exactly the rate of refill, above it faster, below it slower. All clients
 * that share the account see the same level, hence the same price, hence take equal shares.
 *
 * Amounts and times are doubles here: they are estimates of the provider's state, and prices are
 * powers of them. What has been charged is counted in integers, by the owner. */
#ifndef WEIR_CORE_MIRROR_H
#define WEIR_CORE_MIRROR_H

#include "core/real.h"
#include "weir/control.h"

struct weir_mirror {
    uint8_t unit;      /* enum weir_unit */
    uint8_t reset;     /* enum weir_reset */
    bool window_known; /* `window_s` was stated or measured */
    bool steady;       /* a bucket at its goal, with the steepest price: the short way of time */
    double limit;
    double level;     /* when time last passed; below 0 if more was sent than there was */
    double balance;   /* what may be sent now */
    double refill;    /* per second */
    double target;    /* where the level may be now: less than the goal after a change */
    double exponent;  /* of the price */
    double price_max; /* the price of a full bucket */
    double rate;      /* per second, by the price */
    double saved;     /* how much of it is kept while no ticket waits, or else a second's worth */
    double goal;      /* where the level should be */
    double window_s;  /* to fill it when it is empty */
    uint64_t period_ns;
    uint64_t number; /* of the latest request that brought news, by its sending */
    uint64_t end_ns; /* RESET_WINDOW: when the counter restarts; with a limit of 0: when that
                        is forgotten */
};

/* The request that brought news of a quota. */
struct weir_sighting {
    uint64_t number;
    uint64_t sent_ns;
    double since; /* what was charged since it was sent, in the mirror's unit */
};

/* Whether the numbers make sense. */
bool weir_quota_valid(const struct weir_quota *quota);

/* Whether the quota is the one that the mirror shows. */
bool weir_mirror_shows(const struct weir_mirror *mirror, const struct weir_quota *quota);

/* A mirror that has heard nothing yet. */
void weir_mirror_init(struct weir_mirror *mirror, const struct weir_quota *quota);

/* Takes in what a reply said. False if it is older than what is known, or the same limit as before;
 * true if the limit is new. Requires a valid quota. */
bool weir_mirror_hear(struct weir_mirror *mirror, const struct weir_quota *quota,
                      struct weir_sighting from, uint64_t now_ns);

/* What one that is steady does not need: a counter, a target that is rebuilt, a limit of 0, a price
 * that is less steep. */
void weir_mirror_fill_slowly(struct weir_mirror *mirror, double passed_s, uint64_t now_ns);
void weir_mirror_set_rate(struct weir_mirror *mirror, uint64_t now_ns);

/* The steepest price, and the least: never nothing, because only replies bring news. */
#define WEIR_MIRROR_EXPONENT_MAX 3.0
#define WEIR_MIRROR_PRICE_MIN    0.02

/* Lets the last `passed_s` seconds flow into the level. */
static inline void weir_mirror_fill(struct weir_mirror *mirror, double passed_s, uint64_t now_ns)
{
    if (mirror->steady) {
        mirror->level = weir_smaller(mirror->level + mirror->refill * passed_s, mirror->limit);
    } else {
        weir_mirror_fill_slowly(mirror, passed_s, now_ns);
    }
}

/* Lets the last `passed_s` seconds flow into the level, and at the price of that level into the
 * balance. `awaited`: a ticket waited for it, and it must not be cut. */
static inline void weir_mirror_advance(struct weir_mirror *mirror, double passed_s, bool awaited,
                                       uint64_t now_ns)
{
    if (mirror->steady) {
        mirror->level = weir_smaller(mirror->level + mirror->refill * passed_s, mirror->limit);
        double ratio = mirror->level / mirror->target;
        mirror->rate = mirror->refill *
                       weir_clamp(ratio * ratio * ratio, WEIR_MIRROR_PRICE_MIN, mirror->price_max);
    } else {
        weir_mirror_fill_slowly(mirror, passed_s, now_ns);
        weir_mirror_set_rate(mirror, now_ns);
    }
    double balance = mirror->balance + mirror->rate * passed_s;
    /* Refunds are never cut, only what flows in. */
    double most = weir_larger(weir_larger(mirror->saved, mirror->rate), mirror->balance);
    mirror->balance = awaited ? balance : weir_smaller(balance, most);
}

/* So much is charged; less than 0 is given back. */
static inline void weir_mirror_charge(struct weir_mirror *mirror, double amount)
{
    mirror->level -= amount;
    mirror->balance -= amount;
}

/* A request waits while the level is below its cost, however large, up to this share of the limit.
 */
#define WEIR_MIRROR_LEVEL_SHARE 0.95

/* No ticket waits for the balance longer than this, however large its cost. */
#define WEIR_MIRROR_WAIT_S 30.0

static inline bool weir_mirror_level_covers(const struct weir_mirror *mirror, double amount)
{
    return mirror->limit > 0.0 &&
           (mirror->level >= amount || mirror->level >= mirror->limit * WEIR_MIRROR_LEVEL_SHARE);
}

static inline bool weir_mirror_balance_covers(const struct weir_mirror *mirror, double amount)
{
    return mirror->balance >= amount || mirror->balance >= WEIR_MIRROR_WAIT_S * mirror->rate;
}

/* Seconds until the level alone would let that amount pass, and until the balance covers it; 0:
 * now.
 */
double weir_mirror_wait_level(const struct weir_mirror *mirror, double amount, uint64_t now_ns);
double weir_mirror_wait_balance(const struct weir_mirror *mirror, double amount);

/* Whether it says how much may be sent in the next minutes; a day's quota does not. */
static inline bool weir_mirror_is_rate(const struct weir_mirror *mirror)
{
    return mirror->limit > 0 && mirror->window_s < 3600.0;
}

#endif
