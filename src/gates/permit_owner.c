/* permit_owner.c - the holders of permits at a key: lists them, ends one, passes a permit on.
 *
 * Any thread may call what lists or ends, and the loop of the ticket what passes; each call takes
 * the key's lock. The list of a key's tickets (gates_internal.h) has tickets that wait as well,
 * which are left out here. */
#include "gates/permit_owner.h"

#include "base/hash.h"
#include "gates/gates_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* ---- handles ---- */

/* A key that is forgotten begins to count its tickets again; when a ticket came tells two of the
 * same number apart. */
static struct weir_holder_handle handle_of(const struct weir_gate_ticket *gate_ticket)
{
    const struct weir_ticket *ticket = &gate_ticket->ticket;
    struct weir_slice moment = {(const char *)&ticket->entered_ns, sizeof ticket->entered_ns};
    uint64_t hash = weir_hash(gate_ticket->gates->options.seed, moment);
    return (struct weir_holder_handle){ticket->sequence, (uint32_t)hash};
}

size_t weir_holder_handle_format(struct weir_holder_handle handle,
                                 char text[WEIR_HOLDER_HANDLE_BYTES_MAX])
{
    int bytes = snprintf(text, WEIR_HOLDER_HANDLE_BYTES_MAX, "%" PRIx64 "-%08" PRIx32,
                         handle.number, handle.check);
    assert(bytes > 0 && bytes < WEIR_HOLDER_HANDLE_BYTES_MAX);
    return (size_t)bytes;
}

/* Takes up to `digits_max` digits off the front. False without any. */
static bool take_hex(struct weir_slice *text, size_t digits_max, uint64_t *number)
{
    size_t digits = 0;
    *number = 0;
    for (; digits < text->bytes && digits < digits_max; digits++) {
        char c = text->data[digits];
        bool decimal = c >= '0' && c <= '9';
        if (!decimal && (c < 'a' || c > 'f')) {
            break;
        }
        *number = *number << 4 | (uint64_t)(decimal ? c - '0' : c - 'a' + 10);
    }
    *text = (struct weir_slice){text->data + digits, text->bytes - digits};
    return digits > 0;
}

bool weir_holder_handle_parse(struct weir_slice text, struct weir_holder_handle *handle)
{
    uint64_t check;
    if (!take_hex(&text, 16, &handle->number) || text.bytes != 9 || text.data[0] != '-') {
        return false;
    }
    text = (struct weir_slice){text.data + 1, text.bytes - 1};
    bool whole = take_hex(&text, 8, &check) && text.bytes == 0;
    handle->check = (uint32_t)check;
    return whole;
}

/* ---- holders ---- */

static bool holds(const struct weir_gate_ticket *gate_ticket)
{
    return gate_ticket->ticket.state == WEIR_TICKET_ADMITTED;
}

static void describe(const struct weir_gate_ticket *gate_ticket, struct weir_permit_holder *holder)
{
    const struct weir_permit_owner *owner = gate_ticket->owner;
    *holder = (struct weir_permit_holder){
        .handle = handle_of(gate_ticket),
        .ends_itself = owner->ends_itself,
        .kind = owner->kind,
        .priority = (enum weir_priority)gate_ticket->ticket.priority,
        .cost = gate_ticket->ticket.cost,
        .flow = gate_ticket->flow,
        .tenant = gate_ticket->tenant,
        .from = gate_ticket->from,
        .since_ns = gate_ticket->ticket.admitted_ns,
        .lease_end_ns = weir_key_lease_end_ns(gate_ticket->key, &gate_ticket->ticket)};
    holder->name_bytes = owner->name == NULL ? 0 : owner->name(gate_ticket, holder->name);
    assert(holder->name_bytes <= sizeof holder->name);
}

/* Under the lock: the next of the key's tickets after this one that holds a permit; the first after
 * null. */
static struct weir_gate_ticket *next_holder(const struct weir_key *key,
                                            struct weir_gate_ticket *gate_ticket)
{
    struct weir_link *list = &weir_key_state_of(key)->tickets;
    struct weir_link *at = gate_ticket == NULL ? list->next : gate_ticket->link.next;
    for (; at != NULL && at != list; at = at->next) {
        gate_ticket = weir_container_of(at, struct weir_gate_ticket, link);
        if (holds(gate_ticket)) {
            return gate_ticket;
        }
    }
    return NULL;
}

void weir_gates_holders(const struct weir_key *key, uint64_t after,
                        bool (*visit)(void *context, const struct weir_permit_holder *holder),
                        void *context)
{
    struct weir_permit_holder holder;
    bool more = true;
    weir_key_lock(key);
    for (struct weir_gate_ticket *gate_ticket = next_holder(key, NULL); gate_ticket != NULL && more;
         gate_ticket = next_holder(key, gate_ticket)) {
        if (gate_ticket->ticket.sequence > after) {
            describe(gate_ticket, &holder);
            more = visit(context, &holder);
        }
    }
    weir_key_unlock(key);
}

enum weir_status weir_gates_end_holder(struct weir_gates *gates, struct weir_key *key,
                                       struct weir_holder_handle handle, uint32_t loop_index)
{
    enum weir_status status = WEIR_NOT_HELD;
    uint64_t now_ns = weir_gates_loop_of(gates, loop_index)->now_ns;
    struct weir_key_work work = weir_key_work_begin(gates, loop_index);
    weir_key_lock(key);
    for (struct weir_gate_ticket *gate_ticket = next_holder(key, NULL); gate_ticket != NULL;
         gate_ticket = next_holder(key, gate_ticket)) {
        if (gate_ticket->ticket.sequence != handle.number) {
            continue;
        }
        if (handle_of(gate_ticket).check == handle.check && !gate_ticket->owner->ends_itself) {
            status = weir_key_end_lease(key, &gate_ticket->ticket, now_ns, &work.news);
            weir_key_work_collect(key, &work);
        }
        break;
    }
    weir_key_unlock(key);
    weir_key_work_run(key, &work);
    return status;
}

/* ---- passing ---- */

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
        weir_list_insert_after(&from->link, &to->link);
        weir_key_unlist_ticket(from);
        from->gates = NULL;
        from->key = NULL;
    }
    weir_key_unlock(key);
    return held ? WEIR_OK : WEIR_NOT_HELD;
}
