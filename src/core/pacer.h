/* pacer.h - a rate found from refusals alone, where the provider states nothing.
 *
 * Two refusals are two moments at which the provider's bucket was known to be (almost) empty. So
 * what was accepted between them, divided by the time between them, is its rate of refill, whatever
 * our own rate did meanwhile. Before the first refusal the rate grows exponentially while it is
 * what holds us back; afterwards it rests on what was measured, and leaves it along a cubic, slowly
 * at first. Each refusal pauses for so long that a small reserve builds up inside the provider,
 * which the plateau then spends.
 *
 * It sleeps while stated quotas rule, and is woken by a refusal that they did not foresee. */
#ifndef WEIR_CORE_PACER_H
#define WEIR_CORE_PACER_H

#include "core/ledger.h"

struct weir_pacer {
    bool asleep;
    bool anchored; /* there has been a refusal, and something to measure before it */
    bool begun;    /* something has been sent */
    bool clean;    /* nothing that flowed in was cut since the anchor */
    double start;  /* the rate before anything is known */
    double least;  /* bounds on it */
    double most;
    double rate;
    double balance;    /* what may be sent; refunds count, and it may be below 0 */
    double forgiven;   /* of what the last that went free costs: it was not there to be paid */
    double open;       /* reserved for what will be charged at the end only */
    double measured;   /* delivered per second between refusals */
    double span_s;     /* how long the plateau is */
    double spent_s;    /* time spent sending since the last refusal */
    double backoff;    /* of a pause without Retry-After */
    int64_t charged;   /* so far */
    uint64_t count;    /* requests that this was for */
    uint64_t accepted; /* of those that were sent since the last reaction */
    uint64_t reacted;  /* the last number that was sent before the last reaction */
    /* The anchor: the last moment at which the other bucket was empty. */
    int64_t anchor_ns;
    int64_t anchor_charged;
    uint64_t anchor_count;
    double anchor_cost; /* of the request that was refused: it lacked so much at most */
};

/* A refused request. */
struct weir_pacer_refusal {
    uint64_t number;
    uint64_t sent_last; /* the last number that has been sent by now */
    struct weir_bill bill;
    bool retry_after_known;
    double retry_after_s;
    double rounding_s; /* of Retry-After */
    double cost_mean;
    double delay_s; /* until it would have been charged, on average; 0: at once, or not known */
    double stated;  /* the rate that quotas state, or 0 */
    uint64_t now_ns;
};

void weir_pacer_init(struct weir_pacer *pacer, const struct weir_rate_settings *settings);

/* New bounds. */
void weir_pacer_bound(struct weir_pacer *pacer, const struct weir_rate_settings *settings);

/* Quotas rule from now on, which state that rate. */
void weir_pacer_sleep(struct weir_pacer *pacer, double stated);

/* Lets the balance flow in. `awaited`: a ticket waited for it; `alone`: and for nothing else. */
void weir_pacer_advance(struct weir_pacer *pacer, double passed_s, bool awaited, bool alone);

/* Seconds until the balance covers the amount; 0: now. `idle`: nothing is under way. */
double weir_pacer_wait(const struct weir_pacer *pacer, double amount, bool idle);

/* Returns whether it goes free, without waiting for the rate: then it pays with what there is, also
 * when it is settled. Only one does at a time, because it finds nothing under way. */
bool weir_pacer_send(struct weir_pacer *pacer, struct weir_bill bill, bool idle, uint64_t now_ns);
void weir_pacer_settle(struct weir_pacer *pacer, struct weir_bill bill, int64_t actual, bool free);

/* The provider has accepted that one. */
void weir_pacer_accept(struct weir_pacer *pacer, uint64_t number);

/* It was not accepted after all: as if it had never been sent. */
void weir_pacer_undo(struct weir_pacer *pacer, uint64_t number, struct weir_bill bill, bool free);

/* Learns from a refusal, after weir_pacer_undo(). Returns for how many seconds to pause. */
double weir_pacer_refuse(struct weir_pacer *pacer, const struct weir_pacer_refusal *refusal);

#endif
