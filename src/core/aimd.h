/* aimd.h - grows by addition, falls by a factor: a window and a rate, each with its own rule.
 *
 * The window grows by one per window of successes, and only while it is what holds requests back;
 * it falls once per window of losses, and a little when first tokens come late. The rate grows with
 * the time in which it was what held requests back, and falls at most once per round trip. Where
 * the provider states a quota, that replaces what was guessed and lifts a maximum that the settings
 * leave open. */
#ifndef WEIR_CORE_AIMD_H
#define WEIR_CORE_AIMD_H

#include "core/window.h"

struct weir_aimd {
    double window;
    double window_min;
    double window_max;
    uint64_t window_cut; /* the last number that was sent before the last decrease */
    double delay_s;      /* smoothed */
    double base_s;       /* the lane's own, when nothing queues */
    double rate;
    double rate_min;
    double rate_max;
    bool rate_max_set; /* by the settings, so that a quota does not lift it */
    bool owes;         /* WEIR_SETTLE_DEBT */
    double step;       /* what the next five mean: struct weir_aimd_settings */
    double beta;       /* factors, not percentages */
    double beta_soft;
    double window_beta;
    double delay_decrease;
    double delay_threshold_s;
    uint64_t rate_cut; /* as `window_cut` */
    double burst;
    double level;
    double debt;
    uint8_t reason; /* enum weir_limit_reason of the last change */
};

void weir_aimd_init(struct weir_aimd *aimd, const struct weir_control_settings *settings);
void weir_aimd_bound(struct weir_aimd *aimd, const struct weir_control_settings *settings);
void weir_aimd_set(struct weir_aimd *aimd, double window);

/* The provider states a rate, which it did not before. */
void weir_aimd_state(struct weir_aimd *aimd, double rate);

/* Lets the bucket flow in. `alone`: a ticket waited for it and for nothing else. */
void weir_aimd_advance(struct weir_aimd *aimd, double passed_s, bool alone);

/* Seconds until the bucket covers the amount, or is full; 0: now. */
double weir_aimd_wait(const struct weir_aimd *aimd, double amount);

void weir_aimd_take(struct weir_aimd *aimd, double amount);

/* Replaces what was taken by what it really cost. */
void weir_aimd_settle(struct weir_aimd *aimd, double taken, double actual);

/* A first token; an end that was a success; a refusal; an error, a timeout or a lost connection. */
void weir_aimd_hear(struct weir_aimd *aimd, const struct weir_echo *echo);
void weir_aimd_succeed(struct weir_aimd *aimd, const struct weir_echo *echo);
void weir_aimd_refuse(struct weir_aimd *aimd, const struct weir_echo *echo);
void weir_aimd_lose(struct weir_aimd *aimd, const struct weir_echo *echo);

#endif
