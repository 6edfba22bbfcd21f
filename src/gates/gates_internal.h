/* gates_internal.h - what gates.c, gate_ticket.c and key_work.c share: the state that the gates
 * keep with each key, and the work that a call at a key leaves to be done.
 *
 * Two locks. A key's lock guards its tickets and what stands in weir_key_state; a gate's lock
 * guards its table of keys. Where both are needed, the gate's comes first. What must not be done
 * under a key's lock (posting to loops, setting timers, waking readers of events) is collected
 * under it as a weir_key_work and done after it. */
#ifndef WEIR_GATES_GATES_INTERNAL_H
#define WEIR_GATES_GATES_INTERNAL_H

#include "base/hints.h"
#include "base/list.h"
#include "core/key.h"
#include "gates/event_writer.h"
#include "gates/gate_ticket.h"
#include "log/rate_limited_log.h"

#include <pthread.h>

/* One loop's timer for one key. A loop sets it when its own call has learned of a moment earlier
 * than any that a loop looks after. */
struct weir_key_alarm {
    struct weir_timer timer;
    struct weir_gates *gates;
    struct weir_key *key; /* pinned while the timer is set; else null */
    uint32_t loop_index;
};

/* How many events one call may bring; more are counted as missed. A call decides on a batch of
 * tickets at most, but for displacement by summed cost. */
#define WEIR_STAGED_EVENTS_MAX (WEIR_BATCH_MAX + 64)

/* What a loop's calls have decided, until it is in the event log. */
struct weir_staged_events {
    struct weir_event_ring ring;
    struct weir_event slots[WEIR_STAGED_EVENTS_MAX];
};

/* What the gates keep with each key; zeroed at first. */
struct weir_key_state {
    pthread_mutex_t lock; /* zeroed is what PTHREAD_MUTEX_INITIALIZER makes of it */
    uint32_t gate;        /* whose key it is */
    uint32_t lane_names;  /* where its lanes lead, or 0; under the lock */
    uint64_t armed_ns;    /* the earliest moment that a loop looks after, or 0; under the lock */
    struct weir_histogram waits; /* of admitted tickets; under the lock */
    struct weir_link tickets; /* gate tickets that wait or hold a permit, in the order in which they
                               * came; under the lock; zeroed: there was none yet */
    struct weir_event_writer event_writer; /* under the lock */
    struct weir_link resting;              /* flow_rest.c's; zeroed: none was ever added */
    uint64_t ask_line_ns;      /* that one's: it may ask the line from then on; under the lock */
    atomic_uint resting_count; /* how many those are */
    struct weir_key_alarm alarms[]; /* one for each loop, which alone uses it */
};

struct weir_gate_entry {
    pthread_mutex_t lock; /* of the table of keys */
    struct weir_gate *gate;
    struct weir_monotonic_sum rest; /* under the lock */
    atomic_bool a2a;
    struct weir_link overrides; /* by hand, of single keys (override.c); under the lock */
    uint32_t override_count;
    uint64_t displaced; /* weir_gate_displaced() when it was last reported; under the lock */
    struct weir_rate_limited_log displacing;
    struct weir_rate_limited_log refusing;
    struct weir_rate_limited_log pausing;
    size_t name_bytes;
    char name[];
};

/* Entries are added and never taken away; a thread that sees the count sees what it counts. */
struct weir_gates {
    struct weir_gates_options options;
    struct weir_staged_events *staged; /* one for each loop */
    struct weir_lane_names lane_names;
    weir_gates_make_room *make_room; /* null: nothing rests */
    void *make_room_context;
    atomic_uint count;
    atomic_uint override_count; /* of all gates together */
    struct weir_gate_entry *entries[WEIR_GATES_MAX];
};

static inline struct weir_key_state *weir_key_state_of(const struct weir_key *key)
{
    return weir_key_extra((struct weir_key *)key);
}

static inline void weir_key_lock(const struct weir_key *key)
{
    pthread_mutex_lock(&weir_key_state_of(key)->lock);
}

static inline void weir_key_unlock(const struct weir_key *key)
{
    pthread_mutex_unlock(&weir_key_state_of(key)->lock);
}

static inline struct weir_loop *weir_gates_loop_of(const struct weir_gates *gates,
                                                   uint32_t loop_index)
{
    return gates->options.loops[loop_index];
}

/* ---- the tickets of a key; all under its lock ---- */

static inline void weir_key_list_ticket(struct weir_key_state *state,
                                        struct weir_gate_ticket *gate_ticket)
{
    if (weir_unlikely(state->tickets.next == NULL)) {
        weir_list_init(&state->tickets);
    }
    weir_list_push_back(&state->tickets, &gate_ticket->link);
}

/* It has ended; or had, and was taken out then. */
static inline void weir_key_unlist_ticket(struct weir_gate_ticket *gate_ticket)
{
    if (gate_ticket->link.next != NULL) {
        weir_list_unlink(&gate_ticket->link);
    }
}

/* ---- key_work.c: what a call at a key leaves to be done once the lock is let go ---- */

struct weir_key_work {
    struct weir_news news;
    struct weir_gates *gates;
    uint32_t loop_index;     /* of the loop that calls */
    struct weir_post *posts; /* a chain: tickets whose loops have to hear of a change */
    bool arm;
    bool wake; /* a reader of the event log sleeps */
};

/* The two parts of weir_key_work_collect() that most calls do not need: marks the tickets in the
 * news, of which `ticket` is the first, as posted; and writes the events. */
void weir_key_work_collect_news(struct weir_key *key, struct weir_key_work *work,
                                struct weir_ticket *ticket);
void weir_key_work_write_events(struct weir_key *key, struct weir_key_work *work);

/* Does it. Without the lock; the caller still pins the key. */
void weir_key_work_run(struct weir_key *key, struct weir_key_work *work);

/* In the thread of the alarm's loop. */
void weir_key_alarm_disarm(struct weir_key_alarm *alarm);

static inline struct weir_key_work weir_key_work_begin(struct weir_gates *gates,
                                                       uint32_t loop_index)
{
    const struct weir_event_log *event_log = gates->options.event_log;
    struct weir_event_ring *ring = &gates->staged[loop_index].ring;
    bool heard = event_log != NULL && weir_event_log_read_by_any(event_log);
    ring->kinds = heard ? WEIR_EVENTS_STREAM : WEIR_EVENTS_LOGGED;
    return (struct weir_key_work){
        .news.events = event_log == NULL ? NULL : ring, .gates = gates, .loop_index = loop_index};
}

/* Under the lock: takes the news and the events, and sees whether a timer is needed. */
static inline void weir_key_work_collect(struct weir_key *key, struct weir_key_work *work)
{
    struct weir_key_state *state = weir_key_state_of(key);
    struct weir_ticket *first = weir_news_next(&work->news);
    if (first != NULL) {
        weir_key_work_collect_news(key, work, first);
    }
    struct weir_event_ring *events = work->news.events;
    if (events != NULL && weir_event_writer_wanted(&state->event_writer, events)) {
        weir_key_work_write_events(key, work);
    }
    uint64_t wake_ns = work->news.wake_ns;
    work->arm = wake_ns != WEIR_NEVER && (state->armed_ns == 0 || wake_ns < state->armed_ns);
    if (work->arm) {
        state->armed_ns = wake_ns;
    }
}

/* ---- override.c ---- */

/* Lets go of the keys that have one; at the end of the program. */
void weir_gates_drop_overrides(struct weir_gates *gates, struct weir_gate_entry *entry);

/* ---- gate_ticket.c ---- */

/* The post that tells a ticket's own loop that another call has changed the ticket. */
void weir_gate_ticket_arrive(struct weir_post *post);

#endif
