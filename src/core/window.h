/* window.h - how many requests at once, found by counting.
 *
 * A limit on parallel requests is an integer without a queue: the count that was refused less one
 * is the limit. Errors are judged by their share, not one by one. A server that queues instead of
 * refusing is noticed by how much later than usual its replies come (backlog.h). A request is
 * acknowledged by its first token, or by its end where it comes whole.
 *
 * window.c has how the window grows, and what refusals and errors do to it; window_round.c what
 * follows from the time that replies take. */
#ifndef WEIR_CORE_WINDOW_H
#define WEIR_CORE_WINDOW_H

#include "core/backlog.h"
#include "weir/control.h"
#include "weir/event.h"

/* The least pause between two dips, in windows of replies. */
#define WEIR_WINDOW_DIP_ROUNDS_MIN 16.0

/* A window that was made smaller to see what comes of it. */
enum weir_trial_kind {
    WEIR_TRIAL_NONE,
    WEIR_TRIAL_CUT, /* because requests queue inside */
    WEIR_TRIAL_DIP  /* to see what is usual, because there was no other occasion */
};

struct weir_trial {
    enum weir_trial_kind kind;
    double size;                      /* the window before */
    struct weir_backlog_round before; /* and what it was like */
};

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
    uint8_t reason;      /* enum weir_limit_reason of the last change */

    /* The round of replies. */
    struct weir_backlog backlog;
    struct weir_trial trial;
    uint64_t resized_number; /* the last number that was sent before this size was tried */
    bool room;               /* this size was judged, and hardly anything queues */
    double round_replies;    /* after so many it is judged */
    double judged;           /* when it last was */
    double grown_among;      /* the most under way with room, while it grows */
    double dip_rounds;       /* windows of replies from one dip to the next */
    double delay_s;          /* what the replies of the last round took on average; 0: none yet */
    double base_s;           /* and what they would if nothing queued */
};

/* One request, when something becomes known of it. */
struct weir_echo {
    uint64_t number;
    uint64_t sent_last; /* the last number that has been sent by now */
    uint32_t among;     /* in flight when it was sent, itself included */
    uint32_t active;    /* in flight now */
    bool held;          /* the window is what holds the next one back */
    bool streamed;
    uint32_t input;
    uint32_t output; /* of a reply that has ended */
    uint64_t ended;  /* requests that have ended by now */
    double delay_s;  /* since it was sent */
    uint64_t now_ns;
};

void weir_window_init(struct weir_window *window, const struct weir_window_settings *settings);
void weir_window_bound(struct weir_window *window, const struct weir_window_settings *settings);
void weir_window_set(struct weir_window *window, double size);

/* The first reply states a quota: it does not start as wide as where nothing is stated. */
void weir_window_state(struct weir_window *window, const struct weir_window_settings *settings);

/* The first byte of a success. */
void weir_window_accept(struct weir_window *window, const struct weir_echo *echo);

/* How long a success took: until its first token where it streams, else until its end. */
void weir_window_time(struct weir_window *window, const struct weir_echo *echo);

/* An error, a timeout or a lost connection. */
void weir_window_lose(struct weir_window *window, const struct weir_echo *echo);

/* Refused without a Retry-After: perhaps too many at once. */
void weir_window_refuse(struct weir_window *window, const struct weir_echo *echo);

/* Refused for so long: it is the rate. It need not grow further to find that out. */
void weir_window_halt(struct weir_window *window);

/* Whether such a refusal is no more than a bound that was confirmed before and probed once more, so
 * that it says nothing about the rate. */
bool weir_window_explains(const struct weir_window *window, uint32_t among);

/* ---- between window.c and window_round.c ---- */

void weir_window_resize(struct weir_window *window, double size, enum weir_limit_reason reason);

/* Grows by an acknowledgement, if the window is what holds requests back. */
void weir_window_grow(struct weir_window *window, const struct weir_echo *echo);

/* The size is another one: what was sent before says nothing of it. */
void weir_window_begin_round(struct weir_window *window, const struct weir_echo *echo);

/* Probes above this size start over, and wait longer from time to time. */
void weir_window_settle(struct weir_window *window, double patience_max);

#endif
