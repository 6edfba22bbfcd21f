/* checkers.h - the promises of the gate, checked from outside and without the model.
 *
 * A checker sees what any user can see: what it asked for itself, the events, and the statistics
 * after each call. From these it keeps its own count of who waits and who holds what. Each rule
 * names itself in its complaint: limit (G1), order (G2), work_conserving (G3), conservation (G4),
 * and pause, of the one by hand. */
#ifndef WEIR_TESTS_CHECKERS_H
#define WEIR_TESTS_CHECKERS_H

#include "plan.h"
#include "weir/key.h"

#define CHECKERS_TICKETS_MAX 4096
#define CHECKERS_LANES_MAX   16

/* A ticket that has been seen and has not ended. */
struct checked_ticket {
    uint64_t sequence;
    int64_t place; /* among those of its tenant and priority: the least must go first */
    uint32_t tenant;
    uint32_t cost;
    uint16_t lane_id;
    uint8_t priority;
    bool admitted;
};

struct checked_lane {
    uint16_t id;
    uint32_t limit;
    bool tripped;        /* and no ticket admitted since has succeeded */
    uint64_t tripped_at; /* the count of events then */
};

struct checkers {
    const struct weir_key *key;
    struct plan plan; /* what the key follows */
    uint64_t events;
    uint64_t last_sequence;
    uint64_t ended[WEIR_END_COUNT];
    uint32_t admissions; /* in the present call */
    bool paused;         /* by hand, before the present call and after it */
    bool arrival_retry;  /* whether the arrival of the present call is a retry */
    uint32_t lane_count;
    uint32_t ticket_count;
    uint64_t admitted_at[CHECKERS_TICKETS_MAX]; /* beside the tickets: the count of events then */
    struct checked_lane lanes[CHECKERS_LANES_MAX];
    struct checked_ticket tickets[CHECKERS_TICKETS_MAX];
};

void checkers_init(struct checkers *checkers, const struct weir_key *key, const struct plan *plan);

/* The key follows new settings, a new limit or a pause by hand since a call whose events are still
 * to be seen. Until checkers_follow() the larger of the old and the new limits counts, because the
 * call first did what was due. */
void checkers_change(struct checkers *checkers, const struct plan *plan);

/* The events of the change have been seen: the limits are those that the key tells. */
void checkers_follow(struct checkers *checkers);

/* Each event in turn. Returns null, or which promise was broken. */
const char *checkers_see(struct checkers *checkers, const struct weir_event *event);

/* After each call. Returns null, or which promise was broken. */
const char *checkers_rest(struct checkers *checkers);

#endif
