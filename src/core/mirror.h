/* mirror.h - one quota that the provider states: its bucket as it must look from there now.
 *
 * A provider's bucket wastes refill only while it is full and refuses only while it is empty. So
 * the mirror does not look for the right rate but keeps the level at a target between the two: at
 * the target it sends at exactly the rate of refill, above it faster, below it slower. All who
 * share the account see the same level, hence the same price, hence take equal shares.
 *
 * Amounts and times are doubles here: they are estimates of somebody else's state, and prices are
 * powers of them. What has been charged is counted in integers, by the owner. */
#ifndef WEIR_CORE_MIRROR_H
#define WEIR_CORE_MIRROR_H

#include "weir/control.h"

struct weir_mirror {
    uint8_t unit;      /* enum weir_unit */
    uint8_t reset;     /* enum weir_reset */
    bool window_known; /* `window_s` was told or measured */
    uint64_t period_ns;
    uint64_t number;  /* of the latest request that brought news, by its sending */
    int64_t charged;  /* what had been charged when that was sent, its own charge included */
    uint64_t sent_ns; /* when that was sent */
    uint64_t end_ns;  /* RESET_WINDOW: when the counter starts anew; with a limit of 0: when that
                         is forgotten */
    double limit;
    double remaining;
    double window_s; /* to fill it when it is empty */
    double refill;   /* per second */
    double goal;     /* where the level should be, */
    double target;   /* and where it may be now: less for a while after the limit has changed */
    double exponent; /* of the price */
    double balance;  /* what may be sent now */
    double rate;     /* per second, by the price */
};

/* The request that brought news of a quota. */
struct weir_sighting {
    uint64_t number;
    int64_t charged; /* in the mirror's unit; without its own charge if it was refused */
    uint64_t sent_ns;
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

/* The level, where `charged` has been charged by now. */
double weir_mirror_level(const struct weir_mirror *mirror, int64_t charged, uint64_t now_ns);

/* Lets the balance flow in for the last `seconds`, up to now. `awaited`: somebody waited for it,
 * and it must not be cut. */
void weir_mirror_advance(struct weir_mirror *mirror, int64_t charged, double seconds, bool awaited,
                         uint64_t now_ns);

/* Seconds until the level alone would let that amount pass; 0: now. */
double weir_mirror_wait_level(const struct weir_mirror *mirror, int64_t charged, double amount,
                              uint64_t now_ns);

/* Seconds until the balance covers the amount; 0: now. */
double weir_mirror_wait_balance(const struct weir_mirror *mirror, double amount);

/* Whether it says how much may be sent in the next minutes; a day's quota does not. */
static inline bool weir_mirror_is_rate(const struct weir_mirror *mirror)
{
    return mirror->limit > 0 && mirror->window_s < 3600.0;
}

#endif
