/* control.h - the controller of one lane: what both kinds have in common, and the small interface
 * behind which they differ.
 *
 * In common are the ledger of what has been charged, the mirrors of stated quotas, and what the
 * provider's rule makes of a ticket's cost. A kind (control_learned.c, control_aimd.c) adds a rate
 * that it measures itself, and a window. Every call costs O(1), allocates nothing and takes the
 * time; between two calls nothing happens. control.c decides whether a ticket may go,
 * control_request.c learns from a ticket that has gone. */
#ifndef WEIR_CORE_CONTROL_H
#define WEIR_CORE_CONTROL_H

#include "core/aimd.h"
#include "core/ledger.h"
#include "core/mirror.h"
#include "core/pacer.h"
#include "core/window.h"

struct weir_control;

/* How a kind of controller differs from the other. `wait_s` says for how many seconds the kind's
 * own rate holds a ticket back that finds nothing under way (`idle`) or not, `passed` lets time
 * pass, `stated` tells of a quota whose limit is new. The others tell of one request: sent (and
 * whether it goes free), settled, and the three things that may become known of it. */
struct weir_control_kind {
    bool priced;   /* steers by the price of the mirrors, not only by their level */
    bool each_end; /* each end is news to it, not only that of a reply that came whole */
    void (*init)(struct weir_control *control);
    void (*bound)(struct weir_control *control);
    void (*set_window)(struct weir_control *control, double window);
    void (*passed)(struct weir_control *control, double passed_s);
    double (*wait_s)(const struct weir_control *control, const struct weir_need *need, bool idle);
    void (*stated)(struct weir_control *control, bool is_new);
    bool (*sent)(struct weir_control *control, struct weir_bill bill, uint64_t now_ns);
    void (*settled)(struct weir_control *control, struct weir_bill bill, int64_t actual, bool free);
    void (*undone)(struct weir_control *control, uint64_t number, struct weir_bill bill, bool free);
    void (*accepted)(struct weir_control *control, const struct weir_echo *echo);
    void (*succeeded)(struct weir_control *control, const struct weir_echo *echo);
    void (*lost)(struct weir_control *control, const struct weir_echo *echo);
    double (*refused)(struct weir_control *control, const struct weir_echo *echo,
                      const struct weir_pacer_refusal *refusal);
    double (*window)(const struct weir_control *control, enum weir_limit_reason *reason);
    void (*describe)(const struct weir_control *control, struct weir_control_stats *stats);
};

struct weir_control {
    const struct weir_control_kind *kind;
    struct weir_control_settings settings;
    uint32_t since_epoch; /* the owner's count of changes when this began */
    uint32_t mirror_count;
    uint64_t at_ns; /* up to when time has passed */

    struct weir_ledger ledger;
    uint32_t under_way; /* sent, and not ended */
    uint64_t ended;     /* that were not refused */
    uint64_t refused;
    uint64_t lost;

    /* The ticket that is next and cannot go, as the line was last left. */
    bool awaited;
    bool full; /* because all permits are out, perhaps among others */
    struct weir_need head;

    /* For the writer of events about the limit: when it last wrote one, whether it has passed over
     * a change since, and what the limit was before that. */
    uint64_t told_ns;
    uint32_t untold_from;
    bool untold;

    struct weir_mirror mirrors[WEIR_QUOTAS_MAX];
    union {
        struct {
            struct weir_pacer pacer;
            struct weir_window window;
        } learned;
        struct weir_aimd aimd;
    };
};

extern const struct weir_control_kind weir_control_learned;
extern const struct weir_control_kind weir_control_aimd;

/* Whether settings from outside may be given to a controller. */
bool weir_control_valid(const struct weir_control_settings *settings);

/* Requires valid settings that name a controller. */
void weir_control_init(struct weir_control *control, const struct weir_control_settings *settings,
                       uint64_t now_ns);

/* New bounds; what was learned stays. Requires the same controller as before. */
void weir_control_configure(struct weir_control *control,
                            const struct weir_control_settings *settings);

/* What a ticket of that amount needs. */
struct weir_need weir_control_need(const struct weir_control *control,
                                   const struct weir_amount *amount);

/* Lets time pass. A time that stands still or steps back changes nothing (G8). */
void weir_control_advance(struct weir_control *control, uint64_t now_ns);

/* The rate that the quotas state, in cost; 0 if they do not tell. */
double weir_control_stated_rate(const struct weir_control *control);

/* For how many seconds rates and quotas hold that back: all but the window. */
double weir_control_wait_s(const struct weir_control *control, const struct weir_need *need,
                           uint64_t now_ns);

/* So many seconds later, as far as there is such a time. */
uint64_t weir_control_after(uint64_t now_ns, double wait_s);

/* Whether that may go, up to when time has passed. */
bool weir_control_admits(const struct weir_control *control, const struct weir_amount *amount,
                         uint64_t now_ns);

/* When that may go: not after `now_ns` if now. As far as is known now: it may become earlier, and
 * should be asked for again at weir_control_ask_ns(). */
uint64_t weir_control_ready_ns(const struct weir_control *control, const struct weir_amount *amount,
                               uint64_t now_ns);
uint64_t weir_control_ask_ns(uint64_t ready_ns, uint64_t now_ns);

/* When the stated quotas alone will let that pass. */
uint64_t weir_control_quota_ns(const struct weir_control *control, const struct weir_amount *amount,
                               uint64_t now_ns);

/* Whether a quota has a limit of 0. */
bool weir_control_barred(const struct weir_control *control, uint64_t now_ns);

/* The ticket that is next and cannot go; null: none waits. `full`: all permits are out. */
void weir_control_await(struct weir_control *control, const struct weir_amount *head, bool full);

/* A ticket goes; `active` permits are out, its own included. */
void weir_control_send(struct weir_control *control, struct weir_ticket *ticket, uint32_t active,
                       uint64_t now_ns);

/* The head of its reply. Returns until when the lane must pause; not after now if it need not. */
uint64_t weir_control_hear(struct weir_control *control, struct weir_ticket *ticket,
                           const struct weir_reply *reply, uint32_t active, uint64_t now_ns);

/* So much output has come; what exceeds what was charged for is charged now. */
void weir_control_progress(struct weir_control *control, struct weir_ticket *ticket,
                           uint32_t output);

/* It has ended, and cost that. The caller has reported its reply before, unless it knows of none.
 * True if the limit may be another one now. */
bool weir_control_end(struct weir_control *control, struct weir_ticket *ticket,
                      enum weir_outcome outcome, struct weir_usage usage, uint32_t active,
                      uint64_t now_ns);

/* Permits at once, and why it is not as many as before. */
uint32_t weir_control_limit(const struct weir_control *control, enum weir_limit_reason *reason);
void weir_control_set_limit(struct weir_control *control, uint32_t limit);

/* Whether nothing is owed, to us or to the provider. */
bool weir_control_at_rest(const struct weir_control *control, uint64_t now_ns);

/* When that may be so, if nothing more is sent: `now_ns` if it is so now, else a later moment, at
 * which to ask again. */
uint64_t weir_control_rest_ns(const struct weir_control *control, uint64_t now_ns);

void weir_control_describe(const struct weir_control *believed, uint64_t now_ns,
                           struct weir_control_stats *stats);

#endif
