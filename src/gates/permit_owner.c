/* permit_owner.c - the holders of permits at a key: lists them, ends one, passes a permit on.
 *
 * Any thread may call what lists or ends, and the loop of the ticket what passes; each call takes
 * the key's lock. The list of a key's tickets (gates_internal.h) has tickets that wait as well,
 * which are left out here. */
#include "gates/permit_owner.h"

#include "base/hash.h"
#include "base/slice.h"
#include "gates/gates_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

/* How many tickets are looked at before others may have the key's lock. */
#define LOOKS_PER_LOCK 1000

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

/* A walk over the tickets of a key, for which its lock is let go every so often: the line may be
 * long, and calls of other loops wait for the lock. Meanwhile a bookmark stands in the list, a
 * ticket that is at no key and that other walks pass over. */
struct walk {
    const struct weir_key *key;
    struct weir_gate_ticket bookmark;
    struct weir_link *at;
    uint32_t looks; /* tickets until the lock is let go */
    uint32_t left;  /* holders after `at`; UINT32_MAX: not known, since others have had the lock */
};

/* Takes the lock. */
static void begin_walk(struct walk *walk, const struct weir_key *key)
{
    weir_key_lock(key);
    *walk = (struct walk){.key = key,
                          .at = weir_key_state_of(key)->tickets.next,
                          .looks = LOOKS_PER_LOCK,
                          .left = key->active};
}

static void end_walk(const struct walk *walk)
{
    weir_key_unlock(walk->key);
}

static void let_others_in(struct walk *walk)
{
    weir_list_insert_after(walk->at->previous, &walk->bookmark.link);
    weir_key_unlock(walk->key);
    sched_yield(); /* else this thread would mostly have the lock again before one that waits */
    weir_key_lock(walk->key);
    walk->at = walk->bookmark.link.next;
    weir_list_unlink(&walk->bookmark.link);
    walk->looks = LOOKS_PER_LOCK;
    walk->left = UINT32_MAX;
}

/* The next ticket that holds a permit; null after the last. Under the lock, which it may let go and
 * take again. */
static struct weir_gate_ticket *next_holder(struct walk *walk)
{
    struct weir_link *list = &weir_key_state_of(walk->key)->tickets;
    while (walk->at != NULL && walk->at != list && walk->left > 0) {
        if (walk->looks-- == 0) {
            let_others_in(walk);
            continue;
        }
        struct weir_gate_ticket *gate_ticket =
            weir_container_of(walk->at, struct weir_gate_ticket, link);
        walk->at = walk->at->next;
        if (holds(gate_ticket)) {
            walk->left -= walk->left != UINT32_MAX;
            return gate_ticket;
        }
    }
    return NULL;
}

void weir_gates_holders(const struct weir_key *key, uint64_t after, struct weir_slice tenant,
                        bool (*visit)(void *context, const struct weir_permit_holder *holder),
                        void *context)
{
    struct weir_permit_holder holder;
    struct walk walk;
    bool more = true;
    begin_walk(&walk, key);
    for (struct weir_gate_ticket *gate_ticket = next_holder(&walk); gate_ticket != NULL;
         gate_ticket = more ? next_holder(&walk) : NULL) {
        bool asked = tenant.bytes == 0 || weir_slice_equal(gate_ticket->tenant, tenant);
        if (asked && gate_ticket->ticket.sequence > after) {
            describe(gate_ticket, &holder);
            more = visit(context, &holder);
        }
    }
    end_walk(&walk);
}

enum weir_status weir_gates_end_holder(struct weir_gates *gates, struct weir_key *key,
                                       struct weir_holder_handle handle, uint32_t loop_index)
{
    enum weir_status status = WEIR_NOT_HELD;
    uint64_t now_ns = weir_gates_loop_of(gates, loop_index)->now_ns;
    struct weir_key_work work = weir_key_work_begin(gates, loop_index);
    struct walk walk;
    begin_walk(&walk, key);
    struct weir_gate_ticket *gate_ticket = next_holder(&walk);
    while (gate_ticket != NULL && gate_ticket->ticket.sequence < handle.number) {
        gate_ticket = next_holder(&walk);
    }
    if (gate_ticket != NULL && gate_ticket->ticket.sequence == handle.number) {
        if (handle_of(gate_ticket).check == handle.check && !gate_ticket->owner->ends_itself) {
            status = weir_key_end_lease(key, &gate_ticket->ticket, now_ns, &work.news);
            weir_key_work_collect(key, &work);
        }
    }
    end_walk(&walk);
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
