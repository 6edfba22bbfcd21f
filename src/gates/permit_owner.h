/* permit_owner.h - what stands in line for a permit and then holds it: an exchange, a call of the
 * API, a flow, and whatever else embeds a gate ticket.
 *
 * An owner says how it hears of changes, and what it is called where holders are listed. A permit
 * can pass from one owner to another without being given back: the work that it is for outlives the
 * request that asked for it. It is still given back exactly once, because at each moment one ticket
 * has it, which the lock of its key guards: what comes first, a passing or the end of a lease, is
 * what the other finds. */
#ifndef WEIR_GATES_PERMIT_OWNER_H
#define WEIR_GATES_PERMIT_OWNER_H

#include "weir/ticket.h"

#include <stddef.h>

struct weir_gate_ticket;
struct weir_gates;
struct weir_key;

#define WEIR_PERMIT_NAME_BYTES_MAX 64

/* One kind of owners; constant. */
struct weir_permit_owner {
    const char *kind; /* what a list of holders calls it */

    /* Its ticket has no lease, and only the owner itself ends it: a flow, which is ended by its
     * name (weir_flows_release()). Any other's is ended as if its lease were over. */
    bool ends_itself;

    /* Called in the gate ticket's own loop when another call has admitted or ended it: ADMITTED, or
     * ENDED with the reason in the ticket. After weir_gate_ticket_cancel() has returned false it is
     * called once more, with IDLE: from then on the gate ticket may be freed. */
    void (*on_change)(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state);

    /* Writes by which name callers know this owner among those of its kind, such as the id of a
     * task, and returns its length: never a secret. Any thread may call it that has the key's lock,
     * so it reads only what does not change while the ticket is not over. Null: it has none. */
    size_t (*name)(const struct weir_gate_ticket *gate_ticket,
                   char text[WEIR_PERMIT_NAME_BYTES_MAX]);
};

/* Which holder of a key is meant: the number of its ticket there, and a check, since numbers begin
 * again when a key has been forgotten. It is no credential. */
struct weir_holder_handle {
    uint64_t number;
    uint32_t check;
};

#define WEIR_HOLDER_HANDLE_BYTES_MAX 32

/* As text: "2a-5f3c1b09". Returns its length. And back; false if it is none. */
size_t weir_holder_handle_format(struct weir_holder_handle handle,
                                 char text[WEIR_HOLDER_HANDLE_BYTES_MAX]);
bool weir_holder_handle_parse(struct weir_slice text, struct weir_holder_handle *handle);

/* A permit that is held, as far as a list of holders tells. */
struct weir_permit_holder {
    struct weir_holder_handle handle;
    bool ends_itself;
    const char *kind;
    char name[WEIR_PERMIT_NAME_BYTES_MAX];
    size_t name_bytes; /* 0: it has none */
    enum weir_priority priority;
    uint32_t cost;
    struct weir_slice flow; /* the ticket's texts, as the next two: until it is over */
    struct weir_slice tenant;
    const char *from; /* the client's address; null: there is not one client */
    uint64_t since_ns;
    uint64_t lease_end_ns; /* WEIR_NEVER: no lease */
};

/* Calls `visit` for the holders of a key that are the tenant's (empty: any's), in the order in
 * which their tickets came, from the one after the ticket number `after` on, until it returns
 * false. It must not block, and the texts are there during the call only. Looks at each ticket that
 * came before the last holder, and lets go of the key's lock every thousand. */
void weir_gates_holders(const struct weir_key *key, uint64_t after, struct weir_slice tenant,
                        bool (*visit)(void *context, const struct weir_permit_holder *holder),
                        void *context);

/* Ends the permit of a holder as if its lease were over: its owner hears of it in its own loop.
 * WEIR_NOT_HELD if there is none of that handle, or its owner ends itself. In the loop
 * `loop_index`. */
WEIR_MUST_CHECK enum weir_status weir_gates_end_holder(struct weir_gates *gates,
                                                       struct weir_key *key,
                                                       struct weir_holder_handle handle,
                                                       uint32_t loop_index);

/* Passes the permit of one gate ticket to another, which is at no key and has its owner, its flow,
 * tenant and address set. From then on the permit is that one's, in the loop `loop_index`, and the
 * other gate ticket is closed. Place, lane, lease and all counts stay as they are; no request in
 * line notices. Not held any more, because its lease is over: WEIR_NOT_HELD, nothing changes, and
 * the owner that had it learns that in its loop. In the loop of the ticket that has it; where other
 * loops may release the permit as well, by its name, the caller sees to it that none does
 * meanwhile. */
WEIR_MUST_CHECK enum weir_status weir_gate_ticket_pass(struct weir_gate_ticket *from,
                                                       struct weir_gate_ticket *to,
                                                       uint32_t loop_index);

#endif
