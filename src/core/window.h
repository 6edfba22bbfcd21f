/* window.h - how many requests at once, found by counting.
 *
 * A limit on parallel requests is an integer without a queue: the count that was refused less one
 * is the limit. Errors are judged by their share, not one by one. A provider that queues instead of
 * refusing is noticed by its first tokens, by Little's law: replies per second times how much later
 * than usual they come is how many wait inside. A request is acknowledged by its first byte; its
 * end may be a minute away. */
#ifndef WEIR_CORE_WINDOW_H
#define WEIR_CORE_WINDOW_H

#include "weir/control.h"
#include "weir/event.h"

struct weir_window {
    double size;
    double least;
    double most;
    double back;         /* up to here it grows by one for each acknowledgement */
    double failures;     /* the share of errors of late */
    double accepted;     /* the most in flight that were taken */
    double step;         /* of a probe above `back` */
    double patience;     /* acknowledgements before a probe after a refusal; doubles */
    double probe;        /* acknowledgements before the next probe */
    double acknowledged; /* since the last one */
    uint32_t probes;     /* in a row that went well */
    uint32_t confirmed;  /* probes in a row that found the same bound as before */
    double remembered;   /* the size before errors cut it */
    uint64_t cut_number; /* the last number that was sent before the last cut */
    uint64_t cut_ns;     /* when errors last cut it; 0: never */
    /* The round of first tokens. */
    uint64_t round_ns;
    double round_count;
    double round_sum;     /* of the logarithms of their times */
    double round_squares; /* of these */
    double delay_s;       /* the geometric mean of the last round */
    double base_s;        /* when nothing queues */
    uint8_t reason;       /* enum weir_limit_reason of the last change */
};

/* One request, when something becomes known of it. */
struct weir_echo {
    uint64_t number;
    uint64_t sent_last; /* the last number that has been sent by now */
    uint32_t among;     /* in flight when it was sent, itself included */
    uint32_t active;    /* in flight now */
    bool held;          /* the window is what holds the next one back */
    bool streamed;
    double delay_s; /* since it was sent */
    uint64_t now_ns;
};

void weir_window_init(struct weir_window *window, const struct weir_window_settings *settings);
void weir_window_bound(struct weir_window *window, const struct weir_window_settings *settings);
void weir_window_set(struct weir_window *window, double size);

/* The first byte of a success. */
void weir_window_accept(struct weir_window *window, const struct weir_echo *echo);

/* An error, a timeout or a lost connection. */
void weir_window_lose(struct weir_window *window, const struct weir_echo *echo);

/* Refused without being told for how long: perhaps too many at once. */
void weir_window_refuse(struct weir_window *window, const struct weir_echo *echo);

/* Whether such a refusal is no more than a bound that was confirmed before and probed once more, so
 * that it says nothing about the rate. */
bool weir_window_explains(const struct weir_window *window, uint32_t among);

#endif
