#include "gates/permit_owner.h"

#include "gates/gates_internal.h"

#include <assert.h>

bool weir_gate_ticket_holder(const struct weir_gate_ticket *gate_ticket,
                             struct weir_permit_holder *holder)
{
    const struct weir_permit_owner *owner = gate_ticket->owner;
    if (gate_ticket->key == NULL) {
        return false;
    }
    weir_key_lock(gate_ticket->key);
    bool held = gate_ticket->ticket.state == WEIR_TICKET_ADMITTED;
    if (held) {
        *holder = (struct weir_permit_holder){
            .kind = owner->kind,
            .flow = gate_ticket->flow,
            .tenant = gate_ticket->tenant,
            .from = gate_ticket->from,
            .since_ns = gate_ticket->ticket.admitted_ns,
            .lease_end_ns = weir_key_lease_end_ns(gate_ticket->key, &gate_ticket->ticket)};
        holder->name_bytes = owner->name == NULL ? 0 : owner->name(gate_ticket, holder->name);
        assert(holder->name_bytes <= sizeof holder->name);
    }
    weir_key_unlock(gate_ticket->key);
    return held;
}

enum weir_status weir_gate_ticket_pass(struct weir_gate_ticket *from, struct weir_gate_ticket *to,
                                       uint32_t loop_index)
{
    struct weir_key *key = from->key;
    assert(to->key == NULL);
    assert(to->owner != NULL);
    weir_key_lock(key);
    bool held = from->ticket.state == WEIR_TICKET_ADMITTED;
    if (held) {
        assert(!from->posted); /* its owner knows that it was admitted */
        weir_key_move_permit(key, &from->ticket, &to->ticket);
        to->ticket.tag = (uintptr_t)to; /* by which events find it */
        to->gates = from->gates;
        to->key = key; /* with its pin */
        to->loop_index = loop_index;
        from->gates = NULL;
        from->key = NULL;
    }
    weir_key_unlock(key);
    return held ? WEIR_OK : WEIR_NOT_HELD;
}
