/* gate_ticket.h - a ticket for several loops: the gates with their locks, and the hand-over between
 * threads.
 *
 * A gate ticket is one owner's place at a gate. If another call changes it while it waits, its
 * owner learns of that in its own loop. The rules, which tests/model/handoff.pml checks: under the
 * key's lock, a call that changes a ticket of another caller marks its gate ticket as posted,
 * unless it is, and sends it to its loop; the loop takes the mark away under the lock and looks at
 * the state of that moment; and a gate ticket lives until no post is under way. */
#ifndef WEIR_GATES_GATE_TICKET_H
#define WEIR_GATES_GATE_TICKET_H

#include "base/list.h"
#include "gates/gates.h"
#include "gates/permit_owner.h"
#include "net/loop.h"
#include "weir/gate.h"

/* The place of one owner (permit_owner.h); embedded in it. Start it zeroed, with `owner` set. */
struct weir_gate_ticket {
    struct weir_ticket ticket;
    struct weir_post post;
    struct weir_link link; /* among the key's tickets, from enter until it has ended */
    struct weir_gates *gates;
    struct weir_key *key;   /* pinned from enter until the ticket has ended and no post is left */
    struct weir_slice flow; /* the caller's own id of its work; this and the next may be read by any
                             * thread that holds the key's lock until the ticket has ended */
    struct weir_slice tenant; /* as the request's */
    const char *from;         /* the client's address, as text; or null */
    const struct weir_permit_owner *owner;
    uint32_t loop_index;
    bool posted; /* a post is under way; under the key's lock */
};

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
 * that was refused, or whose owner has learned that it has ended, is closed with
 * weir_gate_ticket_close(); until then its key can be asked. */
WEIR_MUST_CHECK enum weir_admission weir_gate_ticket_enter(struct weir_gates *gates,
                                                           struct weir_gate_ticket *gate_ticket,
                                                           const struct weir_destination *where,
                                                           const struct weir_request *request);

/* Only takes the key, for a request that will go on another's permit: no ticket, but its counts can
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
 * weir_key_progress(). In its own loop. If a lease has taken the permit meanwhile, that changes
 * nothing.
 */
void weir_gate_ticket_hear(struct weir_gate_ticket *gate_ticket, const struct weir_reply *reply);
void weir_gate_ticket_progress(struct weir_gate_ticket *gate_ticket, uint32_t output);

/* The Retry-After of a reply to a request that only borrows a permit of that lane: its gate ticket
 * names the key (weir_gate_ticket_visit()). In its own loop. */
void weir_gate_ticket_hear_retry_after(struct weir_gate_ticket *gate_ticket,
                                       const struct weir_reply *reply);

/* Closes the lane that has admitted it until then, if another lane of the key is open; what closes
 * it for longer stays. False, and nothing changes, if there is none, or a lease has taken the
 * permit meanwhile. In its own loop. */
WEIR_MUST_CHECK bool weir_gate_ticket_avoid(struct weir_gate_ticket *gate_ticket,
                                            uint64_t until_ns);

/* Whether another lane is open, which is not among `lanes_tried`, and if that has no room now,
 * whether the line would take the request once more until `deadline_ns`. Then the ticket's own lane
 * is paused until `until_ns`, so that the request, once it stands at the head of its line again,
 * waits for the other one. In its own loop. */
WEIR_MUST_CHECK bool weir_gate_ticket_may_change_lane(struct weir_gate_ticket *gate_ticket,
                                                      uint64_t lanes_tried, uint64_t deadline_ns,
                                                      uint64_t until_ns);

/* Gives the permit back, or finds that its lease had taken it, and closes the gate ticket. It may
 * be used again or freed when this returns true; else once `told` has been called with IDLE. */
WEIR_MUST_CHECK bool weir_gate_ticket_leave(struct weir_gate_ticket *gate_ticket,
                                            const struct weir_result *result);

/* Ends the gate ticket wherever it is, and closes it. The result is as above. */
WEIR_MUST_CHECK bool weir_gate_ticket_cancel(struct weir_gate_ticket *gate_ticket);

/* Gives back, or extends the lease of, a permit that another loop may end as well: the ticket
 * decides which call was first. Not held: WEIR_NOT_HELD, and nothing changes; on_change tells its
 * own loop, or has. Called in the loop `loop_index`. After a release the gate ticket is closed. */
WEIR_MUST_CHECK enum weir_status weir_gate_ticket_release(struct weir_gate_ticket *gate_ticket,
                                                          const struct weir_result *result,
                                                          uint32_t loop_index);
WEIR_MUST_CHECK enum weir_status weir_gate_ticket_renew(struct weir_gate_ticket *gate_ticket,
                                                        uint64_t lease_ns, uint32_t loop_index);

/* As weir_gate_ticket_renew(), but a permit without a lease gets one, and with WEIR_NEVER it loses
 * the one that it has. Also WEIR_NO_MEMORY, with which nothing changes. */
WEIR_MUST_CHECK enum weir_status weir_gate_ticket_set_lease(struct weir_gate_ticket *gate_ticket,
                                                            uint64_t lease_ns, uint32_t loop_index);

/* The counts at the key of a gate ticket that is not closed. */
struct weir_key_stats weir_gate_ticket_stats(const struct weir_gate_ticket *gate_ticket);

/* What its tenant may have there, also of one that was refused; nothing once it is given back. */
struct weir_share weir_gate_ticket_share(const struct weir_gate_ticket *gate_ticket);

/* How long a request that came now as this gate ticket did would wait; see weir_key_predict(). */
uint64_t weir_gate_ticket_predict(const struct weir_gate_ticket *gate_ticket);

#endif
