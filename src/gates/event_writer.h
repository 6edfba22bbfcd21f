/* event_writer.h - writes down what a call at a key has decided: its events, with the names that
 * they need, into the event log.
 *
 * A limit that is learned may change with every reply, and a thousand lines a second that say so
 * are of no use. Of each lane, one such change a second is written down; changes within that second
 * are passed over, and the limit that they have led to is written at its end. So `before` of an
 * event is always the limit in the lane's last event. A limit that a caller sets is always
 * written. */
#ifndef WEIR_GATES_EVENT_WRITER_H
#define WEIR_GATES_EVENT_WRITER_H

#include "gates/event_log.h"
#include "gates/lane_names.h"
#include "log/rate_limited_log.h"
#include "weir/key.h"

#define WEIR_EVENT_WRITER_INTERVAL_NS WEIR_NS_PER_SECOND

/* What is kept with each key. Zeroed at first. */
struct weir_event_writer {
    uint64_t due_ns; /* when a limit that was passed over has to be written; 0: none */
};

/* The kinds of events of which the log gets lines, whether the event log has readers or not. */
#define WEIR_EVENTS_LOGGED (1u << WEIR_EVENT_PAUSE)

/* What a line of the log about a paused lane needs. */
struct weir_pause_lines {
    struct weir_rate_limited_log *limiter; /* the gate's */
    struct weir_slice gate;
    const struct weir_lane_names *lane_names;
    uint32_t lane_list; /* the number of the key's list */
};

/* Where and for whom it is written. */
struct weir_event_context {
    struct weir_event_log *event_log;
    uint32_t gate;
    struct weir_key *key;
    const struct weir_pause_lines *pauses; /* null: none are logged */
};

/* Whether there is anything to write. */
static inline bool weir_event_writer_wanted(const struct weir_event_writer *event_writer,
                                            const struct weir_event_ring *ring)
{
    return ring->written > ring->read || event_writer->due_ns != 0;
}

/* Writes what is in the ring, and what has become due. Called under the key's lock, which keeps the
 * tickets of the events alive: the tag of a ticket is its gate ticket. The caller calls again when
 * `due_ns` has come. Returns whether weir_event_log_wake() is due. */
WEIR_MUST_CHECK bool weir_event_writer_write(struct weir_event_writer *event_writer,
                                             const struct weir_event_context *state,
                                             struct weir_event_ring *ring);

#endif
