/* pacer.c - a rate from refusals: what was accepted between two of them, the cubic that leaves it,
 * and the pause after each. Runs under its key's lock. */
#include "core/pacer.h"

#include "core/real.h"

#include <math.h>

/* Larger: late on large accounts. Smaller: the first overshoot is worse, and much worse where the
 * provider charges at the end. */
#define START_RATE    500.0
#define START_EFOLD_S 6.0

/* No account is this large; it keeps a rate that nothing bounds from becoming infinite. */
#define RATE_MAX   1e12
#define RATE_LEAST 1e-3

/* Larger: more refusals, a raise is found sooner. */
#define PROBE_SLOPE 0.1

/* The plateau, in seconds or requests, whichever is longer. The longest is the budget of refusals:
 * one in 300 requests. */
#define SPAN_MIN_S        5.0
#define SPAN_MIN_REQUESTS 15.0
#define SPAN_MAX_S        60.0
#define SPAN_MAX_REQUESTS 300.0

/* What is charged at the end is felt only then. A plateau shorter than some of these delays would
 * be left far behind before the provider refuses. */
#define SPAN_MIN_DELAYS 4.0

/* The reserve that a pause builds up. Larger: small buckets overflow. Smaller: more refusals. */
#define RESERVE_S        1.0
#define RESERVE_REQUESTS 3.0

/* After so many of these delays nearly all that was open has been charged. If what was measured
 * says to wait longer for it, it is cheaper to ask: the answer measures again. */
#define OPEN_DELAYS 2.0

/* A pause without Retry-After, and how far it may double. */
#define PAUSE_MIN_S 0.5
#define BACKOFF_MAX 32.0

/* Fewer requests than this since the anchor: the same drought still. */
#define DROUGHT_REQUESTS 3

/* A measurement counts as much as the requests it rests on, n / (n + this), and moves by a factor
 * of at most 4. */
#define TRUST_REQUESTS 4.0
#define MOVE_MAX       4.0

/* Measurements agree that differ by less than this, or by two standard errors of their count. */
#define AGREE 0.1

/* Beyond this multiple of the stated rate it no longer matters. */
#define SLEEP_FACTOR 4.0

/* What flows in while no ticket waits: up to this, or a second's worth. */
#define SAVED_COST   2000.0
#define SAVED_S      1.0
#define WAIT_SECONDS 30.0

static double bounded(const struct weir_pacer *pacer, double rate)
{
    return weir_clamp(rate, pacer->least, pacer->most);
}

void weir_pacer_bound(struct weir_pacer *pacer, const struct weir_rate_settings *settings)
{
    bool none = settings->max == 0 || settings->max == WEIR_RATE_NONE;
    pacer->least = settings->min == 0 ? RATE_LEAST : (double)settings->min;
    pacer->most = none ? RATE_MAX : (double)settings->max;
    pacer->rate = bounded(pacer, pacer->rate);
}

void weir_pacer_init(struct weir_pacer *pacer, const struct weir_rate_settings *settings)
{
    *pacer = (struct weir_pacer){.clean = true, .backoff = 1.0};
    pacer->asleep = settings->start == 0;
    pacer->start = settings->start == 0 ? START_RATE : (double)settings->start;
    pacer->rate = pacer->start;
    weir_pacer_bound(pacer, settings);
    pacer->balance = weir_larger(SAVED_COST, SAVED_S * pacer->rate);
}

void weir_pacer_sleep(struct weir_pacer *pacer, double stated)
{
    if (!pacer->anchored || pacer->rate > SLEEP_FACTOR * stated) {
        pacer->asleep = true;
    }
}

/* ---- what may be sent ---- */

/* The cubic, by the time spent sending since the last refusal. */
static void follow_cubic(struct weir_pacer *pacer)
{
    double part = pacer->spent_s / pacer->span_s;
    double rate = pacer->measured * (1.0 + PROBE_SLOPE * part * part * part);
    pacer->rate = bounded(pacer, rate);
}

void weir_pacer_advance(struct weir_pacer *pacer, double passed_s, bool awaited, bool alone)
{
    if (pacer->asleep) {
        return;
    }
    if (!pacer->anchored && awaited && alone) {
        pacer->rate = bounded(pacer, pacer->rate * exp(passed_s / START_EFOLD_S));
    }
    double before = pacer->balance;
    pacer->balance += pacer->rate * passed_s;
    double most = weir_larger(weir_larger(SAVED_COST, SAVED_S * pacer->rate), before);
    if (!awaited && pacer->balance > most) {
        pacer->balance = most;
        pacer->clean = false;
    }
}

/* Until a refusal has measured something, the rate is only assumed: a ticket that finds nothing
 * under way goes, whatever it costs, and pays with what there is. One after the other is no
 * burst. */
static bool goes_free(const struct weir_pacer *pacer, bool idle)
{
    return idle && !pacer->anchored;
}

/* It costs so much more, or less. What was forgiven is not given back, else it would buy a burst;
 * and nothing is owed, else tickets that come at the same time later would wait for it. */
static void pay_free(struct weir_pacer *pacer, double more)
{
    double part = more > 0.0 ? weir_clamp(pacer->balance, 0.0, more)
                             : weir_smaller(more + pacer->forgiven, 0.0);
    pacer->balance -= part;
    pacer->forgiven += more - part;
}

double weir_pacer_wait(const struct weir_pacer *pacer, double amount, bool idle)
{
    double needed = weir_smaller(amount, WAIT_SECONDS * pacer->rate);
    bool free = pacer->asleep || goes_free(pacer, idle);
    return free || pacer->balance >= needed ? 0.0 : (needed - pacer->balance) / pacer->rate;
}

bool weir_pacer_send(struct weir_pacer *pacer, struct weir_bill bill, bool idle, uint64_t now_ns)
{
    double cost = (double)(bill.at_once + bill.later);
    if (!pacer->begun) {
        pacer->begun = true;
        pacer->anchor_ns = (int64_t)now_ns;
    }
    pacer->charged += bill.at_once;
    pacer->count += bill.at_once > 0;
    pacer->open += (double)bill.later;
    if (pacer->asleep) {
        return false;
    }
    bool free = goes_free(pacer, idle);
    if (free) {
        pacer->forgiven = 0.0;
        pay_free(pacer, cost);
    } else {
        pacer->balance -= cost;
    }
    if (pacer->anchored) {
        pacer->spent_s += cost / pacer->rate;
        follow_cubic(pacer);
    }
    return free;
}

void weir_pacer_settle(struct weir_pacer *pacer, struct weir_bill bill, int64_t actual, bool free)
{
    double more = (double)(actual - bill.at_once - bill.later);
    if (free) {
        pay_free(pacer, more);
    } else if (!pacer->asleep) {
        pacer->balance -= more;
    }
    pacer->charged += actual - bill.at_once;
    pacer->count += bill.later > 0;
    pacer->open -= (double)bill.later;
}

void weir_pacer_accept(struct weir_pacer *pacer, uint64_t number)
{
    pacer->accepted += number > pacer->reacted;
}

void weir_pacer_undo(struct weir_pacer *pacer, uint64_t number, struct weir_bill bill, bool free)
{
    weir_pacer_settle(pacer, bill, 0, free);
    pacer->count--;
    if (number <= pacer->reacted) {
        pacer->anchor_charged -= bill.at_once;
        pacer->anchor_count -= bill.at_once > 0;
    }
}

/* ---- refusals ---- */

static double cost_mean(const struct weir_pacer_refusal *refusal)
{
    double cost = (double)(refusal->bill.at_once + refusal->bill.later);
    return refusal->cost_mean > 0.0 ? refusal->cost_mean : weir_larger(cost, 1.0);
}

/* How much of what is open to wait for. */
static double awaited_open(const struct weir_pacer *pacer, const struct weir_pacer_refusal *refusal)
{
    double charged_by_then = OPEN_DELAYS * refusal->delay_s * pacer->measured;
    return refusal->delay_s > 0.0 ? weir_smaller(pacer->open, charged_by_then) : pacer->open;
}

static double pause(struct weir_pacer *pacer, const struct weir_pacer_refusal *refusal)
{
    double cost = (double)(refusal->bill.at_once + refusal->bill.later);
    double mean = cost_mean(refusal);
    double wait_s = refusal->retry_after_known
                        ? refusal->retry_after_s
                        : pacer->backoff * weir_larger(PAUSE_MIN_S, mean / pacer->measured);
    double reserve = weir_larger(RESERVE_S * pacer->measured, RESERVE_REQUESTS * mean);
    double balance = cost - wait_s * pacer->measured - reserve - awaited_open(pacer, refusal);
    pacer->balance = weir_smaller(pacer->balance, balance);
    follow_cubic(pacer);
    return wait_s;
}

static void bound_span(struct weir_pacer *pacer, const struct weir_pacer_refusal *refusal)
{
    double request_s = cost_mean(refusal) / pacer->measured;
    double least = weir_larger(SPAN_MIN_S, SPAN_MIN_REQUESTS * request_s);
    least = weir_larger(least, SPAN_MIN_DELAYS * refusal->delay_s);
    double most = weir_larger(SPAN_MAX_S, SPAN_MAX_REQUESTS * request_s);
    pacer->span_s = weir_clamp(pacer->span_s, least, weir_larger(least, most));
}

/* What was delivered between two empty moments, and how much that tells. If something was cut
 * meanwhile, the other bucket may have overflowed: it refills at least so much, perhaps more. */
static void measure(struct weir_pacer *pacer, double delivered, double count)
{
    double close = weir_larger(AGREE, 2.0 / sqrt(count + 1.0));
    double off = delivered / pacer->measured - 1.0;
    if (!pacer->clean && off < close) {
        pacer->span_s /= 2.0;
        return;
    }
    pacer->span_s = fabs(off) < close ? 2.0 * pacer->span_s : 0.0;
    double moved = weir_clamp(delivered, pacer->measured / MOVE_MAX, pacer->measured * MOVE_MAX);
    moved = pacer->measured + count / (count + TRUST_REQUESTS) * (moved - pacer->measured);
    pacer->measured = bounded(pacer, moved);
}

/* The other bucket is empty then. */
static void anchor(struct weir_pacer *pacer, int64_t empty_ns,
                   const struct weir_pacer_refusal *refusal)
{
    pacer->anchor_ns = empty_ns;
    pacer->anchor_charged = pacer->charged;
    pacer->anchor_count = pacer->count;
    pacer->anchor_cost = (double)(refusal->bill.at_once + refusal->bill.later);
    pacer->clean = true;
}

static void wake(struct weir_pacer *pacer, double stated)
{
    if (pacer->asleep) {
        pacer->asleep = false;
        pacer->anchored = false;
        pacer->rate = RATE_MAX;
        pacer->balance = INFINITY; /* the pause sets it */
        pacer->measured = stated;
    }
}

/* From the anchor until a refusal. */
struct pace_stretch {
    int64_t empty_ns; /* when that request would have been accepted */
    bool drought;     /* nothing to measure */
    double count;     /* of requests that were charged */
    double delivered; /* per second */
};

static struct pace_stretch since_anchor(const struct weir_pacer *pacer,
                                        const struct weir_pacer_refusal *refusal)
{
    double until_empty_s =
        refusal->retry_after_known ? refusal->retry_after_s - refusal->rounding_s / 2.0 : 0.0;
    int64_t empty_ns = (int64_t)refusal->now_ns + (int64_t)(until_empty_s * 1e9);
    double passed_s = (double)(empty_ns - pacer->anchor_ns) * 1e-9;
    double cost = (double)(refusal->bill.at_once + refusal->bill.later);
    double base = pacer->anchor_cost > 0.0 ? pacer->anchor_cost : cost;
    double amount = (double)(pacer->charged - pacer->anchor_charged) + cost - base;
    uint64_t count = pacer->count > pacer->anchor_count ? pacer->count - pacer->anchor_count : 0;
    /* Without a Retry-After the bucket may have been empty for long, unless a request was accepted
     * meanwhile. */
    uint64_t seen = refusal->retry_after_known ? count : pacer->accepted;
    return (struct pace_stretch){.empty_ns = empty_ns,
                                 .drought = seen < DROUGHT_REQUESTS,
                                 .count = (double)count,
                                 .delivered =
                                     weir_larger(amount, 1.0) / weir_larger(passed_s, 1e-3)};
}

/* The first refusal that tells anything: it began from a full bucket, so this is a rough measure.
 * Where little was delivered because little was asked for it is none, so it is not less than what
 * we began with. */
static void measure_first(struct weir_pacer *pacer, const struct weir_pacer_refusal *refusal,
                          double delivered)
{
    double first = weir_smaller(weir_larger(delivered, pacer->start), pacer->rate);
    pacer->measured = bounded(pacer, refusal->stated > 0.0 ? refusal->stated : first);
    pacer->span_s = 0.0;
    pacer->anchored = true;
}

/* Still refused, with next to nothing charged in between: there is nothing to measure. A pacer that
 * had not measured anything before knows of an empty moment now, and measures from there. */
static void suffer_drought(struct weir_pacer *pacer, const struct weir_pacer_refusal *refusal,
                           int64_t empty_ns)
{
    pacer->span_s /= 2.0;
    pacer->backoff = weir_smaller(2.0 * pacer->backoff, BACKOFF_MAX);
    if (!pacer->anchored) {
        pacer->measured = bounded(pacer, pacer->start);
        anchor(pacer, empty_ns, refusal);
    }
}

double weir_pacer_refuse(struct weir_pacer *pacer, const struct weir_pacer_refusal *refusal)
{
    if (refusal->number <= pacer->reacted) { /* the same refusal once more */
        return refusal->retry_after_known ? refusal->retry_after_s : 0.0;
    }
    bool woken = pacer->asleep && refusal->stated > 0.0;
    wake(pacer, refusal->stated);
    struct pace_stretch stretch = since_anchor(pacer, refusal);
    pacer->spent_s = 0.0;
    pacer->reacted = refusal->sent_last;
    pacer->accepted = 0;
    if (stretch.drought && !woken) {
        suffer_drought(pacer, refusal, stretch.empty_ns);
    } else {
        if (pacer->anchored) {
            measure(pacer, stretch.delivered, stretch.count);
        } else {
            measure_first(pacer, refusal, stretch.delivered);
        }
        anchor(pacer, stretch.empty_ns, refusal);
        pacer->backoff = 1.0;
    }
    bound_span(pacer, refusal);
    return pause(pacer, refusal);
}
