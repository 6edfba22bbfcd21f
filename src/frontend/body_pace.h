/* body_pace.h - how long a client may keep Weir waiting for the body of its request.
 *
 * Only the time counts in which Weir is ready to read and nothing is there: a slow upstream is not
 * the client's fault. While the request holds something that others need (a permit, a large
 * buffer), that time is an account: waiting spends it, each byte earns it back at the least rate,
 * and it never holds more than a few seconds. So a client that keeps the rate may go on, one that
 * trickles is cut off within these seconds, and bytes that came early do not pay for a trickle
 * later. It never reads a clock and never allocates. */
#ifndef WEIR_FRONTEND_BODY_PACE_H
#define WEIR_FRONTEND_BODY_PACE_H

#include "config/config.h"

/* The most waiting that a client can have earned, and what it begins with. A TCP connection that
 * loses packets is silent for up to three seconds before its fourth try. */
#define WEIR_BODY_PACE_WINDOW_NS (UINT64_C(5) * WEIR_NS_PER_SECOND)

enum weir_body_late {
    WEIR_BODY_LATE_NOT,
    WEIR_BODY_LATE_STALL, /* nothing came for timeouts.stall */
    WEIR_BODY_LATE_RATE,  /* less than body_rate */
    WEIR_BODY_LATE_TOTAL  /* all of the waiting together took longer than timeouts.body */
};

/* Zeroed, it is at its beginning. */
struct weir_body_pace {
    uint64_t since_ns;  /* Weir waits since then, if it waits */
    uint64_t waited_ns; /* before that, in all */
    uint64_t spent_ns;  /* of the window; up to all of it */
    bool waits;
    bool holds; /* something that others need, so that the least rate counts */
};

/* How much of the window a client has: all of it, or timeouts.stall where that is shorter. */
uint64_t weir_body_pace_window_ns(const struct weir_config_listener *config);

/* Nothing is there, and Weir could read: it waits from now on, if it does not yet. With `holds`
 * the rate counts from now on. Once `holds` was true it stays true. Returns by when the client has
 * to go on; WEIR_NEVER if there is no such time. */
uint64_t weir_body_pace_wait(struct weir_body_pace *pace, const struct weir_config_listener *config,
                             bool holds, uint64_t now_ns);

/* So many bytes have come, at least 1: they pay for the wait before them, which ends. */
void weir_body_pace_receive(struct weir_body_pace *pace, const struct weir_config_listener *config,
                            uint64_t bytes, uint64_t now_ns);

/* Weir does not read the body for now, so the wait ends. What it took so far stays counted; the
 * time until weir_body_pace_wait() is not. Changes nothing if Weir does not wait. */
void weir_body_pace_stop(struct weir_body_pace *pace, const struct weir_config_listener *config,
                         uint64_t now_ns);

/* Weir or the upstream has just sent 100 Continue: the wait and the window start again. */
void weir_body_pace_restart(struct weir_body_pace *pace, uint64_t now_ns);

/* Whether the client is late, and in what. */
enum weir_body_late weir_body_pace_judge(const struct weir_body_pace *pace,
                                         const struct weir_config_listener *config,
                                         uint64_t now_ns);

#define WEIR_BODY_LATE_TEXT_BYTES 256

/* Says so to the client, and what to do. Requires that it is late. */
void weir_body_late_text(enum weir_body_late late, const struct weir_config_listener *config,
                         char text[WEIR_BODY_LATE_TEXT_BYTES]);

#endif
