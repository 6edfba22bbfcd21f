/* gate_ticket.h - a ticket for several loops: the gates with their locks, and the hand-over between
 * threads.
 *
 * A gate ticket is one exchange's place at a gate. Whatever another call does to it while it waits
 * is told in the loop that it belongs to. The rules, which tests/model/handoff.pml checks: under
 * the key's lock, a call that changes somebody's ticket marks its gate ticket as posted, unless it
 * is, and sends it to its loop; the loop takes the mark away under the lock and looks at the state
 * of that moment; and a gate ticket lives until no post is under way. */
#ifndef WEIR_GATES_GATE_TICKET_H
#define WEIR_GATES_GATE_TICKET_H

#include "base/histogram.h"
#include "gates/event_log.h"
#include "gates/lane_names.h"
#include "gates/monotonic_sum.h"
#include "net/loop.h"
#include "weir/gate.h"

#define WEIR_LOOPS_MAX 64

/* A config names at most 1,024; those that a reload has taken out stay. */
#define WEIR_GATES_MAX 4096

/* All gates of the program. Shared by the loops. */
struct weir_gates;

/* One exchange's place; embedded in it. Start it zeroed, with `told` set. */
struct weir_gate_ticket {
    struct weir_ticket ticket;
    struct weir_post post;
    struct weir_gates *gates;
    struct weir_key *key;   /* pinned from enter until the ticket has ended and no post is left */
    struct weir_slice flow; /* the caller's own id of its work; this and the next may be read by any
                             * thread that holds the key's lock until the ticket has ended */
    struct weir_slice tenant; /* as the request's */
    uint32_t loop_index;
    bool posted; /* a post is under way; under the key's lock */

    /* Called in the gate ticket's own loop when another call has admitted or ended it: ADMITTED, or
     * ENDED with the reason in the ticket. After weir_gate_ticket_cancel() has returned false it is
     * called once more, with IDLE: from then on the gate ticket may be freed. */
    void (*on_change)(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state);
};

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

/* Whether the gate's events are told in the words of agents as well; from any thread. */
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

/* Which gate and key a gate ticket wants to go through, from which loop. */
struct weir_destination {
    uint32_t gate;
    uint32_t loop_index;
    uint32_t lane_names; /* where its lanes lead; 0: as far as it is known */
    struct weir_slice key;
};

/* As weir_key_enter(), but that a deadline only shortens the key's own timeout, and that the tag is
 * used here. Also refused, with the reason in the ticket, if the key cannot be had; with
 * WEIR_TOO_MANY_KEYS the ticket's `retry_at_ns` is what weir_gate_room_ns() says. A gate ticket
 * that was refused, or was told that it has ended, is closed with weir_gate_ticket_close(); until
 * then its key can be asked. */
WEIR_MUST_CHECK enum weir_verdict weir_gate_ticket_enter(struct weir_gates *gates,
                                                         struct weir_gate_ticket *gate_ticket,
                                                         const struct weir_destination *where,
                                                         const struct weir_request *request);

/* Only takes the key, for somebody who will go on another's permit: no ticket, but its counts can
 * be asked until weir_gate_ticket_close(). The ticket's deadline becomes what it would be in line.
 * If the key cannot be had, the reason also stands in the ticket, as above. */
WEIR_MUST_CHECK enum weir_status weir_gate_ticket_visit(struct weir_gates *gates,
                                                        struct weir_gate_ticket *gate_ticket,
                                                        const struct weir_destination *where,
                                                        uint64_t asked_ns);

void weir_gate_ticket_close(struct weir_gate_ticket *gate_ticket);

/* Lets it wait for longer; see weir_key_extend(). In its own loop. */
WEIR_MUST_CHECK enum weir_status weir_gate_ticket_extend(struct weir_gate_ticket *gate_ticket,
                                                         uint64_t until_ns);

/* What the reply to an admitted pass says, and how much of it has come; see weir_key_hear() and
 * weir_key_progress(). In its own loop. If a lease has taken the permit meanwhile, nobody listens.
 */
void weir_gate_ticket_hear(struct weir_gate_ticket *gate_ticket, const struct weir_reply *reply);
void weir_gate_ticket_progress(struct weir_gate_ticket *gate_ticket, uint32_t output);

/* Closes the lane that has admitted it until then, if another lane of the key is open; what closes
 * it for longer stays. False, and nothing changes, if there is none, or a lease has taken the
 * permit meanwhile. In its own loop. */
WEIR_MUST_CHECK bool weir_gate_ticket_avoid(struct weir_gate_ticket *gate_ticket,
                                            uint64_t until_ns);

/* Gives the permit back, or finds that its lease had taken it, and closes the gate ticket. It may
 * be used again or freed when this returns true; else once `told` has been called with IDLE. */
WEIR_MUST_CHECK bool weir_gate_ticket_leave(struct weir_gate_ticket *gate_ticket,
                                            const struct weir_result *result);

/* Ends the gate ticket wherever it is, and closes it. The result is as above. */
WEIR_MUST_CHECK bool weir_gate_ticket_cancel(struct weir_gate_ticket *gate_ticket);

/* The same two for a permit that another loop may end as well: the ticket decides who was first.
 * Not held: WEIR_NOT_HELD, and nothing changes; its own loop is told, or has been. Called in the
 * loop `loop_index`. After a release the gate ticket is closed. */
WEIR_MUST_CHECK enum weir_status weir_gate_ticket_release(struct weir_gate_ticket *gate_ticket,
                                                          const struct weir_result *result,
                                                          uint32_t loop_index);
WEIR_MUST_CHECK enum weir_status weir_gate_ticket_renew(struct weir_gate_ticket *gate_ticket,
                                                        uint64_t lease_ns, uint32_t loop_index);

/* The counts at the key of a gate ticket that is not closed. */
struct weir_key_stats weir_gate_ticket_stats(const struct weir_gate_ticket *gate_ticket);

/* What its tenant may have there, also of one that was refused; nothing once it is given back. */
struct weir_share weir_gate_ticket_share(const struct weir_gate_ticket *gate_ticket);

/* How long somebody who came now as this gate ticket did would wait; see weir_key_predict(). */
uint64_t weir_gate_ticket_predict(const struct weir_gate_ticket *gate_ticket);

/* The key of that name, pinned, or null; and all keys of a gate in turn, as weir_gate_next(). */
struct weir_key *weir_gates_find(struct weir_gates *gates, uint32_t gate, struct weir_slice key);
struct weir_key *weir_gates_next(struct weir_gates *gates, uint32_t gate, struct weir_key *key);

/* The same as weir_key_get_stats(), weir_key_get_lane() and weir_key_get_control() under the key's
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

/* The same as weir_key_line() under the key's lock; `visit` is called for each place, and must not
 * block. */
void weir_gates_line(const struct weir_key *key, uint64_t now_ns, struct weir_place *places,
                     uint32_t places_max,
                     void (*visit)(void *context, const struct weir_place *place,
                                   const struct weir_gate_ticket *gate_ticket),
                     void *context);

/* Forgets keys that nothing is left to remember of; to be called now and then. */
void weir_gates_sweep(struct weir_gates *gates, uint64_t now_ns);

#endif
