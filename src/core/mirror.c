/* mirror.c - a stated quota as it must look from the provider: when it fills, what a reply says of
 * it, and at which price the next request goes. Runs under its key's lock. */
#include "core/mirror.h"

#include <assert.h>
#include <math.h>

/* The target: half the bucket, or as much as flows in within this time. Larger: bursts wait longer;
 * smaller: refusals on small accounts, and with many instances. */
#define TARGET_SECONDS 30.0
#define TARGET_SHARE   0.5

/* After a change of the limit the target falls to what is there, down to a tenth, so that a raise
 * is used at once; it is rebuilt out of this share of the refill. */
#define TARGET_LEAST   0.1
#define TARGET_REBUILD 0.02

/* The price's exponent. News are one first-token time old, so a small bucket must be steered less
 * steeply than a large one, or it swings. */
#define EXPONENT_MIN     0.5
#define EXPONENT_SECONDS 2.0

/* The price. Never nothing, because only replies bring news. The full bucket is spent at four times
 * its refill; one that fills slower than in a minute, in as much time as if it did not. */
#define PRICE_MAX         4.0
#define PRICE_MAX_UNKNOWN 60.0
#define WINDOW_ASSUMED    60.0

/* The balance that is saved while no ticket waits: this, or a second's worth. */
#define SAVED_COST     2000.0
#define SAVED_REQUESTS 3.0

/* A window is believed when rounding can have changed it by no more than this. */
#define ROUNDING_MAX 0.25

/* How exact numbers are that claim to be exact: the reply and its headers are not made at once. */
#define EXACT 0.02

/* How fast a long window's counter is spent. */
#define FREELY_SECONDS 15.0

/* How long a limit of 0 is believed if the reply has no reset. */
#define NOTHING_SECONDS 60.0

#define AMOUNT_MAX ((int64_t)1 << 53)

static const double common_windows_s[] = {1.0, 10.0, 60.0, 3600.0, 86400.0};
#define COMMON_WINDOWS (sizeof common_windows_s / sizeof common_windows_s[0])

static uint64_t after(uint64_t now_ns, double wait_s)
{
    return now_ns + (uint64_t)(wait_s * 1e9);
}

bool weir_quota_valid(const struct weir_quota *quota)
{
    return (unsigned)quota->unit < WEIR_UNIT_COUNT &&
           (quota->reset == WEIR_RESET_FULL || quota->reset == WEIR_RESET_WINDOW) &&
           quota->limit >= 0 && quota->limit <= AMOUNT_MAX && quota->remaining >= -AMOUNT_MAX &&
           quota->remaining <= AMOUNT_MAX && quota->remaining_rounding >= 0 &&
           quota->remaining_rounding <= AMOUNT_MAX && quota->period_ns <= WEIR_DURATION_MAX_NS &&
           quota->reset_ns <= WEIR_DURATION_MAX_NS &&
           quota->reset_rounding_ns <= WEIR_DURATION_MAX_NS;
}

bool weir_mirror_shows(const struct weir_mirror *mirror, const struct weir_quota *quota)
{
    return mirror->unit == (uint8_t)quota->unit && mirror->period_ns == quota->period_ns;
}

void weir_mirror_init(struct weir_mirror *mirror, const struct weir_quota *quota)
{
    *mirror = (struct weir_mirror){.unit = (uint8_t)quota->unit,
                                   .period_ns = quota->period_ns,
                                   .window_s = WINDOW_ASSUMED,
                                   .saved = quota->unit == WEIR_UNIT_REQUESTS ? SAVED_REQUESTS
                                                                              : SAVED_COST};
    if (quota->period_ns > 0) {
        mirror->window_s = weir_seconds(quota->period_ns);
        mirror->window_known = true;
    }
}

/* ---- how long it takes to fill ---- */

static void keep_window(struct weir_mirror *mirror, double window_s)
{
    mirror->window_s = window_s;
    mirror->window_known = true;
}

/* From `reset`, the time until a bucket is full that lacks limit - remaining. While it is nearly
 * full both are small, and rounding is all that they tell. */
static void learn_fill(struct weir_mirror *mirror, const struct weir_quota *quota)
{
    double limit = (double)quota->limit;
    double lacking = limit - (double)quota->remaining;
    double reset_s = weir_seconds(quota->reset_ns);
    double lacking_error = (double)quota->remaining_rounding;
    double reset_error = weir_seconds(quota->reset_rounding_ns);
    if (lacking <= lacking_error || reset_s <= reset_error) {
        return;
    }
    double window_s = limit * reset_s / lacking;
    double least = limit * (reset_s - reset_error) / (lacking + lacking_error);
    double most = limit * (reset_s + reset_error) / (lacking - lacking_error);
    if (least < window_s * (1.0 - ROUNDING_MAX) || most > window_s * (1.0 + ROUNDING_MAX)) {
        return;
    }
    least = weir_smaller(least, window_s * (1.0 - EXACT));
    most = weir_larger(most, window_s * (1.0 + EXACT));
    for (unsigned i = 0; i < COMMON_WINDOWS; i++) {
        if (common_windows_s[i] >= least && common_windows_s[i] <= most) {
            keep_window(mirror, common_windows_s[i]);
            return;
        }
    }
    bool contradicted = mirror->window_s < least || mirror->window_s > most;
    if (!mirror->window_known || contradicted) {
        keep_window(mirror, window_s);
    }
}

/* A counter's window is at least as long as what is left of it. */
static void learn_counter(struct weir_mirror *mirror, const struct weir_quota *quota,
                          uint64_t now_ns)
{
    double left_s = weir_seconds(quota->reset_ns);
    mirror->end_ns = now_ns + quota->reset_ns;
    for (unsigned i = 0; i < COMMON_WINDOWS && left_s > mirror->window_s; i++) {
        if (common_windows_s[i] >= left_s) {
            mirror->window_s = common_windows_s[i];
        }
    }
    mirror->window_s = weir_larger(mirror->window_s, left_s);
    mirror->window_known = true;
}

/* ---- what is heard ---- */

static void set_target(struct weir_mirror *mirror, double target)
{
    mirror->target = target;
    mirror->exponent = weir_clamp(target / (EXPONENT_SECONDS * mirror->refill), EXPONENT_MIN,
                                  WEIR_MIRROR_EXPONENT_MAX);
    mirror->steady = mirror->reset == WEIR_RESET_FULL && target >= mirror->goal &&
                     mirror->exponent >= WEIR_MIRROR_EXPONENT_MAX;
}

static void aim(struct weir_mirror *mirror, double remaining, bool first, bool changed)
{
    bool at_goal = mirror->target >= mirror->goal;
    mirror->refill = mirror->limit / mirror->window_s;
    mirror->goal = weir_smaller(mirror->limit * TARGET_SHARE, mirror->refill * TARGET_SECONDS);
    mirror->price_max = mirror->window_known ? PRICE_MAX * weir_larger(1.0, mirror->window_s / 60.0)
                                             : PRICE_MAX_UNKNOWN;
    double target = first || at_goal ? mirror->goal : weir_smaller(mirror->target, mirror->goal);
    if (changed) {
        target = weir_clamp(remaining, mirror->goal * TARGET_LEAST, mirror->goal);
    }
    set_target(mirror, target);
}

/* How much faster than its refill the bucket is spent at this level. */
static double price_of(const struct weir_mirror *mirror)
{
    double ratio = mirror->level / mirror->target;
    double power = ratio * ratio * ratio;
    if (mirror->exponent < WEIR_MIRROR_EXPONENT_MAX) {
        power = ratio > 0.0 ? pow(ratio, mirror->exponent) : 0.0;
    }
    return weir_clamp(power, WEIR_MIRROR_PRICE_MIN, mirror->price_max);
}

static double left_s(const struct weir_mirror *mirror, uint64_t now_ns)
{
    return mirror->end_ns > now_ns ? weir_seconds(mirror->end_ns - now_ns) : 0.0;
}

void weir_mirror_set_rate(struct weir_mirror *mirror, uint64_t now_ns)
{
    if (mirror->limit <= 0.0) {
        return;
    }
    if (mirror->reset == WEIR_RESET_FULL) {
        mirror->rate = mirror->refill * price_of(mirror);
    } else {
        /* Evenly over what is left of a minute; a day's is spent freely until it is gone. */
        double over_s = weir_mirror_is_rate(mirror) ? left_s(mirror, now_ns) : FREELY_SECONDS;
        mirror->rate = weir_larger(mirror->level, mirror->refill * WEIR_MIRROR_PRICE_MIN) /
                       weir_larger(over_s, 1.0);
    }
}

/* A limit of 0 is believed for a while; then a request goes as a probe. */
static void bar(struct weir_mirror *mirror, const struct weir_quota *quota, uint64_t now_ns)
{
    double wait_s = weir_seconds(quota->reset_ns);
    mirror->end_ns = after(now_ns, wait_s > 0.0 ? wait_s : NOTHING_SECONDS);
    mirror->target = 0.0;
    mirror->steady = false;
}

bool weir_mirror_hear(struct weir_mirror *mirror, const struct weir_quota *quota,
                      struct weir_sighting from, uint64_t now_ns)
{
    bool first = mirror->number == 0;
    assert(weir_quota_valid(quota));
    assert(from.number > 0);
    if (from.number < mirror->number) {
        return false;
    }
    bool changed = first || mirror->limit != (double)quota->limit;
    bool was_barred = mirror->limit <= 0.0;
    mirror->number = from.number;
    mirror->reset = (uint8_t)quota->reset;
    mirror->limit = (double)quota->limit;
    if (quota->limit == 0) {
        bar(mirror, quota, now_ns);
        return changed;
    }
    double remaining = weir_smaller((double)quota->remaining, mirror->limit);
    double passed_s = 0.0;
    if (mirror->reset == WEIR_RESET_FULL) {
        learn_fill(mirror, quota);
        passed_s = now_ns > from.sent_ns ? weir_seconds(now_ns - from.sent_ns) : 0.0;
    } else {
        learn_counter(mirror, quota, now_ns);
    }
    aim(mirror, remaining, first || was_barred, changed && !first && !was_barred);
    mirror->level = weir_smaller(remaining + mirror->refill * passed_s - from.since, mirror->limit);
    weir_mirror_set_rate(mirror, now_ns);
    if (first || was_barred) {
        mirror->balance = weir_larger(mirror->saved, mirror->rate);
    }
    return changed;
}

/* ---- what may be sent ---- */

/* The counter restarts at its time, whether a reply states that or not. */
static void start_window(struct weir_mirror *mirror, uint64_t now_ns)
{
    if (mirror->end_ns > now_ns) {
        return;
    }
    mirror->level = mirror->limit;
    uint64_t window_ns = (uint64_t)(mirror->window_s * 1e9);
    mirror->end_ns += (1 + (now_ns - mirror->end_ns) / window_ns) * window_ns;
}

void weir_mirror_fill_slowly(struct weir_mirror *mirror, double passed_s, uint64_t now_ns)
{
    if (mirror->limit <= 0.0) {
        return;
    }
    if (mirror->reset == WEIR_RESET_WINDOW) {
        start_window(mirror, now_ns);
    } else {
        double rebuilt = mirror->target + TARGET_REBUILD * mirror->refill * passed_s;
        set_target(mirror, weir_smaller(rebuilt, mirror->goal));
        mirror->level = weir_smaller(mirror->level + mirror->refill * passed_s, mirror->limit);
    }
}

double weir_mirror_wait_level(const struct weir_mirror *mirror, double amount, uint64_t now_ns)
{
    if (mirror->limit <= 0.0) {
        return left_s(mirror, now_ns);
    }
    if (weir_mirror_level_covers(mirror, amount)) {
        return 0.0;
    }
    double needed = weir_smaller(amount, mirror->limit * WEIR_MIRROR_LEVEL_SHARE);
    double wait_s = mirror->reset == WEIR_RESET_FULL ? (needed - mirror->level) / mirror->refill
                                                     : left_s(mirror, now_ns);
    return weir_larger(wait_s, 1e-9); /* whatever rounding says, it is not now */
}

double weir_mirror_wait_balance(const struct weir_mirror *mirror, double amount)
{
    if (mirror->limit <= 0.0 || weir_mirror_balance_covers(mirror, amount)) {
        return 0.0;
    }
    double needed = weir_smaller(amount, WEIR_MIRROR_WAIT_S * mirror->rate);
    return (needed - mirror->balance) / mirror->rate;
}
