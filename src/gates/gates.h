/* gates.h - all gates of the program, with their locks: their settings, their tables of keys, and
 * what can be asked of a key. A ticket at a gate is gate_ticket.h. */
#ifndef WEIR_GATES_GATES_H
#define WEIR_GATES_GATES_H

#include "base/histogram.h"
#include "gates/event_log.h"
#include "gates/lane_names.h"
#include "gates/monotonic_sum.h"
#include "net/loop.h"
#include "weir/gate.h"

struct weir_gate_ticket;

#define WEIR_LOOPS_MAX 64

/* A config names at most 1,024; those that a reload has taken out stay. */
#define WEIR_GATES_MAX 4096

/* All gates of the program. Shared by the loops. */
struct weir_gates;

struct weir_gates_options {
    const struct weir_allocator *allocator;
    uint64_t seed[2];
    struct weir_loop *const *loops; /* stay the caller's */
    uint32_t loop_count;            /* 1 .. WEIR_LOOPS_MAX */
    uint32_t keys_max;              /* of a gate until weir_gates_set_keys_max(); 0: the default */
    struct weir_event_log *event_log; /* of what they decide; stays the caller's; may be null */
};

/* None at first. */
WEIR_MUST_CHECK enum weir_status weir_gates_create(const struct weir_gates_options *options,
                                                   struct weir_gates **gates);

/* Once the loops have stopped and no gate ticket is left. */
void weir_gates_destroy(struct weir_gates *gates);

/* The number of the gate of that name, which is added if there is none: gates have numbers from 0
 * on, and keep them. One that is added follows the default settings until weir_gates_configure().
 * WEIR_TOO_MANY_GATES at WEIR_GATES_MAX. Called by one thread at a time. */
WEIR_MUST_CHECK enum weir_status weir_gates_add(struct weir_gates *gates, struct weir_slice name,
                                                uint32_t *number);

uint32_t weir_gates_count(const struct weir_gates *gates);

/* Whether the gate's events are also written in the words of agents; from any thread. */
void weir_gates_set_a2a(struct weir_gates *gates, uint32_t gate, bool speaks);
bool weir_gates_speak_a2a(const struct weir_gates *gates, uint32_t gate);

struct weir_slice weir_gates_name(const struct weir_gates *gates, uint32_t gate);

/* New settings for a gate, or for one key of it, from now on; keys that exist follow them. Called
 * in the loop `loop_index`. */
WEIR_MUST_CHECK enum weir_status weir_gates_configure(struct weir_gates *gates, uint32_t gate,
                                                      const struct weir_settings *settings,
                                                      uint32_t loop_index);
WEIR_MUST_CHECK enum weir_status weir_gates_override(struct weir_gates *gates, uint32_t gate,
                                                     struct weir_slice key,
                                                     const struct weir_settings *settings);

/* How many keys the gate may keep from now on; see weir_gate_set_keys_max(). */
void weir_gates_set_keys_max(struct weir_gates *gates, uint32_t gate, uint32_t keys_max);

/* The key of that name, pinned, or null; and all keys of a gate in turn, as weir_gate_next(). */
struct weir_key *weir_gates_find(struct weir_gates *gates, uint32_t gate, struct weir_slice key);
struct weir_key *weir_gates_next(struct weir_gates *gates, uint32_t gate, struct weir_key *key);

/* weir_key_get_stats(), weir_key_get_lane() and weir_key_get_control() under the key's
 * lock. */
struct weir_key_stats weir_gates_stats(const struct weir_key *key);
bool weir_gates_lane(const struct weir_key *key, uint32_t index, uint64_t now_ns,
                     struct weir_lane_stats *stats);
bool weir_gates_control(const struct weir_key *key, uint32_t index, uint64_t now_ns,
                        struct weir_control_stats *stats);

/* What the gates know of a key besides. */
struct weir_key_record {
    struct weir_histogram waits;
    uint32_t lane_names; /* where its lanes lead, as the last request said */
};

/* The counts, and the rest, of one moment. */
struct weir_key_stats weir_gates_measure(const struct weir_key *key,
                                         struct weir_key_record *record);

/* Where the lanes of keys lead; and one more list of that, see weir_lane_names_add(). */
const struct weir_lane_names *weir_gates_lane_names(const struct weir_gates *gates);
uint32_t weir_gates_add_lane_names(struct weir_gates *gates,
                                   const struct weir_lane_name_spec *names);

/* Sums over keys of the gate that are not told of by name; see monotonic_sum.h. */
void weir_gates_mend(struct weir_gates *gates, uint32_t gate, struct weir_monotonic_sum_span span,
                     uint64_t counters[WEIR_MONOTONIC_SUM_COUNTERS]);

/* The event log that they write, or null. */
struct weir_event_log *weir_gates_event_log(const struct weir_gates *gates);

/* The loops that the gates were made for. */
uint32_t weir_gates_loop_count(const struct weir_gates *gates);
struct weir_loop *weir_gates_loop(const struct weir_gates *gates, uint32_t index);

/* weir_key_line() under the key's lock; `visit` is called for each place, and must not
 * block. */
void weir_gates_line(const struct weir_key *key, uint64_t now_ns, struct weir_place *places,
                     uint32_t places_max,
                     void (*visit)(void *context, const struct weir_place *place,
                                   const struct weir_gate_ticket *gate_ticket),
                     void *context);

/* Called when a ticket has begun to wait at a key with `resting_count` (gates_internal.h) above 0:
 * what holds permits there without using them may give one back. No lock is held, and the key is
 * pinned. The ticket's loop, `loop_index`, hears of its admission as of any. */
typedef void weir_gates_make_room(void *context, struct weir_key *key,
                                  const struct weir_gate_ticket *gate_ticket, uint32_t loop_index);

/* Before the loops run, and once they have stopped. */
void weir_gates_set_make_room(struct weir_gates *gates, weir_gates_make_room *make_room,
                              void *context);

/* Forgets keys that nothing is left to remember of; to be called now and then. */
void weir_gates_sweep(struct weir_gates *gates, uint64_t now_ns);

#endif
