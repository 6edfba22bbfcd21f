/* control.h - how a lane learns what the other side allows: its controller.
 *
 * A lane with a controller has a window instead of a fixed limit, and rates that need no
 * configuration. The controller learns when a ticket is sent, what the head of the reply said and
 * when it came, how much output has come so far, and how it ended. It answers whether the next
 * ticket may go, and if not, when to ask again. Two of them can be chosen:
 *
 *   learned  where the provider states its quota, a mirror of the provider's own bucket, kept at a
 *            level from which it neither overflows nor refuses; where it states nothing, a rate
 *            anchored on what was delivered between two refusals; and a window that is found by
 *            counting, and by replies that come later because they queue. The default.
 *   aimd     grows by addition while it is used and all is well, falls by a factor when it is not.
 *
 * All of this comes as numbers; reading them out of headers is the caller's part. What makes no
 * sense (a limit below zero, a reset after the end of time) is ignored.
 * docs/internals/congestion.md explains the ideas and their figures. */
#ifndef WEIR_CONTROL_H
#define WEIR_CONTROL_H

#include "weir/ticket.h"

/* As a limit or rate: no bound of our own. */
#define WEIR_RATE_NONE UINT64_MAX

/* The largest that settings may name. */
#define WEIR_WINDOW_MAX       UINT32_C(10000000)
#define WEIR_CONTROL_RATE_MAX (UINT64_C(1) << 40)

/* Quotas that a lane may have: four units, by the minute and by the day. */
#define WEIR_QUOTAS_MAX 8

/* The longest Retry-After that is believed. */
#define WEIR_RETRY_AFTER_MAX_NS WEIR_NS_PER_DAY

/* Two doubtful replies with Retry-After within so long are believed. */
#define WEIR_RETRY_AFTER_DOUBT_NS WEIR_NS_PER_SECOND

enum weir_controller {
    WEIR_CONTROLLER_NONE,
    WEIR_CONTROLLER_LEARNED,
    WEIR_CONTROLLER_AIMD
};

/* What happens when a ticket turns out to have cost more than it reserved. */
enum weir_settle {
    WEIR_SETTLE_NEGATIVE, /* the difference is taken from what is there, below zero if need be */
    WEIR_SETTLE_DEBT      /* what is there may still be spent; what flows in pays the debt first */
};

/* When the provider charges for the output: a property of the provider. */
enum weir_charge {
    WEIR_CHARGE_ESTIMATE, /* when sent, about what it will be; also where nothing is known */
    WEIR_CHARGE_MAX,      /* when sent, max_tokens, and gives back what was not used */
    WEIR_CHARGE_MAX_KEPT, /* when sent, max_tokens, and gives nothing back */
    WEIR_CHARGE_END,      /* all of it at the end */
    WEIR_CHARGE_COUNT
};

/* Permits at once. */
struct weir_window_settings {
    uint32_t start; /* 0: 4 for aimd; 16 for learned, or 4 where the first reply states a quota */
    uint32_t min;   /* 0: 1 */
    uint32_t max;   /* 0: 64 for aimd, 8192 for learned, which is a guard and not a figure */
};

/* Cost per second. What the provider states replaces `start`, and lifts a `max` of 0. */
struct weir_rate_settings {
    uint64_t start; /* 0: 500 for aimd; for learned no rate until a refusal measures one */
    uint64_t min;   /* 0: 50 for aimd, none for learned */
    uint64_t max;   /* 0: 5,000 for aimd, none for learned */
    uint64_t burst; /* aimd only: at most at once; 0: 2,000 */
};

/* What the controller `aimd` grows and falls by; 0 is the default of each. */
#define WEIR_AIMD_STEP               UINT32_C(50)
#define WEIR_AIMD_BETA               UINT32_C(70)
#define WEIR_AIMD_BETA_SOFT          UINT32_C(85)
#define WEIR_AIMD_WINDOW_BETA        UINT32_C(70)
#define WEIR_AIMD_DELAY_THRESHOLD_NS (UINT64_C(500) * 1000000)
#define WEIR_AIMD_DELAY_DECREASE     UINT32_C(90)
#define WEIR_AIMD_STEP_MAX           UINT32_C(1000000000)

struct weir_aimd_settings {
    uint32_t step;               /* added to the rate per second in which it was what held */
    uint32_t beta;               /* what is left of the rate after a refusal, in percent */
    uint32_t beta_soft;          /* of the rate after an error or a timeout, in percent */
    uint32_t window_beta;        /* of the window after a refusal, an error or a timeout */
    uint32_t delay_decrease;     /* of the window when first tokens come late, in percent */
    uint64_t delay_threshold_ns; /* which they do so far above the lane's baseline */
};

struct weir_control_settings {
    enum weir_controller controller;
    enum weir_charge charge;
    enum weir_settle settle; /* aimd only: learned has but one balance, which may be negative */
    struct weir_window_settings window;
    struct weir_rate_settings rate;
    struct weir_aimd_settings aimd; /* aimd only */
};

/* What the time in a quota's `reset_ns` leads to. */
enum weir_reset {
    WEIR_RESET_FULL,  /* until the bucket is full again, if nothing more is spent */
    WEIR_RESET_WINDOW /* until the counter restarts */
};

/* What a reply's headers said of one quota. */
struct weir_quota {
    enum weir_unit unit;
    enum weir_reset reset;
    uint64_t period_ns; /* of the limit, where that is known beforehand; 0: it is found out. It
                         * distinguishes two quotas of one unit */
    int64_t limit;      /* 0: nothing at all is allowed */
    int64_t remaining;
    int64_t remaining_rounding; /* it is right to this; 0: exact */
    uint64_t reset_ns;          /* from now */
    uint64_t reset_rounding_ns; /* likewise; a second if the reply has whole seconds */
};

/* The head of a reply. */
struct weir_reply {
    enum weir_outcome outcome; /* weir_signal_outcome(): SUCCESS for a status of 2xx */
    bool streamed;             /* its first byte is its first token: the delay means something */
    bool retry_after_known;
    uint64_t retry_after_ns;
    uint64_t retry_after_rounding_ns; /* a second if the reply has whole seconds */
    bool doubtful; /* Retry-After counts only if another reply within a second had it, too */
    const struct weir_quota *quotas; /* null: none */
    uint32_t quota_count;            /* those beyond WEIR_QUOTAS_MAX are ignored */
};

/* One stated quota, as it is believed to be now. */
struct weir_quota_stats {
    enum weir_unit unit;
    enum weir_reset reset;
    bool window_known; /* whether `window_seconds` is more than an assumption */
    double limit;
    double level;          /* what the provider would let pass now; may be below 0 */
    double target;         /* where the level should be */
    double window_seconds; /* to fill it */
    double refill;         /* per second */
    double rate;           /* at which we send by it */
};

/* What a controller believes, for metrics and plots. */
struct weir_control_stats {
    enum weir_controller controller;
    double window;
    double failure_share;       /* learned only */
    double first_token_seconds; /* of late; of learned where replies come whole: all of them */
    double baseline_seconds;    /* when nothing queues up */
    bool rate_active;           /* false: none is measured, or the quotas alone rule */
    double rate;                /* cost per second that was measured, not stated */
    double bucket;              /* what may be spent by it */
    double debt;                /* aimd with DEBT: what is owed besides */
    double measured;            /* learned: delivered per second between refusals; 0: none yet */
    double cost_mean;           /* of a ticket */
    uint64_t sent;              /* tickets; refused ones taken off again */
    uint64_t refused;           /* 429s */
    uint64_t lost;              /* soft losses */
    uint32_t quota_count;
    struct weir_quota_stats quotas[WEIR_QUOTAS_MAX];
};

#ifdef __cplusplus
extern "C" {
#endif

/* The controller as a word: "none", "learned" or "aimd". Never null. */
WEIR_API const char *weir_controller_name(enum weir_controller controller);

#ifdef __cplusplus
}
#endif
#endif
