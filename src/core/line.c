/* line.c - the tickets that wait, and which is next.
 *
 *   L1  A turn has a place in its priority's `ready` exactly if it has tickets and its tenant is
 *       free; its order there is its virtual time, then the number of its first ticket.
 *   L2  A tenant has a place in `parked` exactly if it is parked.
 *   L3  A ticket has a place in `timers` exactly if it waits with a deadline or is admitted with a
 *       lease.
 *   L4  The heaps have room for every item that may enter them without a new arrival:
 *       `ready` for every turn with tickets, `parked` for every tenant with tickets, `timers` for
 *       every ticket that has a deadline or a lease. */
#include "core/key.h"

#include <assert.h>

static struct weir_priority_line *priority_of(struct weir_key *key, const struct weir_turn *turn)
{
    return &key->priorities[turn->priority];
}

struct weir_ticket *weir_turn_first(const struct weir_turn *turn)
{
    assert(!weir_list_empty(&turn->tickets));
    return weir_ticket_of_link(turn->tickets.next);
}

static void make_ready(struct weir_key *key, struct weir_turn *turn)
{
    struct weir_priority_line *line = priority_of(key, turn);
    weir_heap_push(&line->ready, turn->virtual_time, weir_turn_first(turn)->sequence,
                   &turn->place_ready);
    line->ready_weight += turn->tenant->weight;
    key->ready++;
}

static void make_unready(struct weir_key *key, struct weir_turn *turn)
{
    struct weir_priority_line *line = priority_of(key, turn);
    weir_heap_remove(&line->ready, &turn->place_ready);
    line->ready_weight -= turn->tenant->weight;
    key->ready--;
}

/* After the turn's virtual time or first ticket has changed. */
static void reorder(struct weir_key *key, struct weir_turn *turn)
{
    if (turn->place_ready != 0) {
        weir_heap_update(&priority_of(key, turn)->ready, turn->virtual_time,
                         weir_turn_first(turn)->sequence, &turn->place_ready);
    }
}

bool weir_line_reserve(struct weir_key *key, const struct weir_turn *turn)
{
    struct weir_priority_line *line = priority_of(key, turn);
    const struct weir_allocator *allocator = key->allocator;
    return weir_heap_reserve(&line->ready, line->share_heap.members + 1, allocator) &&
           weir_heap_reserve(&key->parked, key->share_heap.members + 1, allocator) &&
           weir_share_heap_reserve(&line->share_heap, line->share_heap.bound,
                                   line->share_heap.members + 1, allocator) &&
           weir_share_heap_reserve(&key->share_heap, key->share_heap.bound,
                                   key->share_heap.members + 1, allocator);
}

void weir_line_add(struct weir_key *key, struct weir_ticket *ticket)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_turn *turn = inside->turn;
    struct weir_tenant *tenant = turn->tenant;
    struct weir_priority_line *line = priority_of(key, turn);
    struct weir_arrival arrival = {tenant, ticket->cost};
    bool first = weir_list_empty(&turn->tickets);

    if (inside->retry) {
        weir_list_push_front(&turn->tickets, &inside->link);
    } else {
        weir_list_push_back(&turn->tickets, &inside->link);
    }
    weir_share_heap_add(&line->share_heap, &turn->stake, arrival);
    weir_share_heap_add(&key->share_heap, &tenant->stake, arrival);
    if (ticket->deadline_ns != WEIR_NEVER) {
        weir_heap_push(&key->timers, ticket->deadline_ns, ticket->sequence, &inside->place);
    }
    if (!first) {
        reorder(key, turn);
        return;
    }
    if ((int64_t)(line->clock - turn->virtual_time) > 0) {
        turn->virtual_time = line->clock;
    }
    if (tenant->hold == WEIR_TENANT_FREE) {
        make_ready(key, turn);
    }
}

void weir_line_remove(struct weir_key *key, struct weir_ticket *ticket)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_turn *turn = inside->turn;
    struct weir_tenant *tenant = turn->tenant;
    struct weir_arrival departure = {tenant, ticket->cost};
    bool was_first = weir_turn_first(turn) == ticket;

    weir_list_unlink(&inside->link);
    weir_share_heap_remove(&priority_of(key, turn)->share_heap, &turn->stake, departure);
    weir_share_heap_remove(&key->share_heap, &tenant->stake, departure);
    if (inside->place != 0) {
        weir_heap_remove(&key->timers, &inside->place);
    }
    if (!was_first) {
        return;
    }
    if (turn->place_ready != 0) {
        if (weir_list_empty(&turn->tickets)) {
            make_unready(key, turn);
        } else {
            reorder(key, turn);
        }
    } else if (tenant->hold == WEIR_TENANT_PARKED) {
        /* It may have been the one that the tenant was parked for. */
        weir_line_free(key, tenant);
    }
}

uint32_t weir_line_slot(const struct weir_key *key)
{
    assert(key->ready > 0);
    uint32_t slot = key->cursor;
    while (key->priorities[key->rules->cycle[slot]].ready.count == 0) {
        slot = slot + 1 == key->rules->cycle_slots ? 0 : slot + 1;
    }
    return slot;
}

struct weir_turn *weir_line_next(const struct weir_key *key, uint32_t slot)
{
    const struct weir_priority_line *line = &key->priorities[key->rules->cycle[slot]];
    return weir_container_of(weir_heap_top(&line->ready)->place, struct weir_turn, place_ready);
}

/* How far a virtual time may be from its clock, either way. */
#define FAR (INT64_MAX / 4)

static void keep_near(const struct weir_priority_line *line, struct weir_turn *turn)
{
    int64_t ahead = (int64_t)(turn->virtual_time - line->clock);
    if (ahead > FAR) {
        turn->virtual_time = line->clock + FAR;
    } else if (ahead < -FAR) {
        turn->virtual_time = line->clock - FAR;
    }
}

/* Only a turn that is not ready can fall behind: with nothing in line, then entering it would catch
 * up anyway; or held, then it keeps being the first. */
static void rebase_priority(struct weir_key *key, int priority)
{
    struct weir_priority_line *line = &key->priorities[priority];
    for (struct weir_link *at = key->all_tenants.next; at != &key->all_tenants; at = at->next) {
        struct weir_turn *turn = &weir_container_of(at, struct weir_tenant, link)->turns[priority];
        if (turn->place_ready == 0) {
            keep_near(line, turn);
        }
    }
    line->rebased = (uint32_t)(line->clock >> 32);
}

void weir_line_rebase_far(struct weir_key *key)
{
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        const struct weir_priority_line *line = &key->priorities[i];
        if (weir_line_is_far(line)) {
            rebase_priority(key, i);
        }
    }
}

void weir_line_correct(struct weir_key *key, struct weir_turn *turn, uint32_t charged,
                       uint32_t actual)
{
    turn->virtual_time += weir_tenant_charge(turn->tenant, (uint64_t)actual - charged);
    keep_near(priority_of(key, turn), turn);
    reorder(key, turn);
}

static void withdraw(struct weir_key *key, struct weir_tenant *tenant)
{
    assert(tenant->hold == WEIR_TENANT_FREE);
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        if (tenant->turns[i].place_ready != 0) {
            make_unready(key, &tenant->turns[i]);
        }
    }
}

void weir_line_hold(struct weir_key *key, struct weir_tenant *tenant)
{
    withdraw(key, tenant);
    tenant->hold = WEIR_TENANT_HELD;
}

void weir_line_park(struct weir_key *key, struct weir_tenant *tenant, uint64_t until_ns)
{
    withdraw(key, tenant);
    tenant->hold = WEIR_TENANT_PARKED;
    weir_heap_push(&key->parked, until_ns, tenant->number, &tenant->stake.place_parked);
}

void weir_line_free(struct weir_key *key, struct weir_tenant *tenant)
{
    if (tenant->hold == WEIR_TENANT_FREE) {
        return;
    }
    if (tenant->hold == WEIR_TENANT_PARKED) {
        weir_heap_remove(&key->parked, &tenant->stake.place_parked);
    }
    tenant->hold = WEIR_TENANT_FREE;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        if (!weir_list_empty(&tenant->turns[i].tickets)) {
            make_ready(key, &tenant->turns[i]);
        }
    }
}

static void validate_turn(const struct weir_key *key, const struct weir_turn *turn,
                          struct weir_stake *sum)
{
    struct weir_stake seen = {0};
    uint64_t previous = 0;
    for (struct weir_link *at = turn->tickets.next; at != &turn->tickets; at = at->next) {
        const struct weir_ticket *ticket = weir_ticket_of_link(at);
        assert(ticket->state == WEIR_TICKET_WAITING);
        assert(weir_inside(ticket)->key == key);
        assert(weir_inside(ticket)->turn == turn);
        assert(!weir_inside(ticket)->listed);
        assert((weir_inside(ticket)->place != 0) == (ticket->deadline_ns != WEIR_NEVER)); /* L3 */
        assert(weir_inside(ticket)->retry || ticket->sequence > previous);                /* G2 */
        previous = weir_inside(ticket)->retry ? previous : ticket->sequence;
        seen.tickets++;
        seen.cost += ticket->cost;
    }
    assert(seen.tickets == turn->stake.tickets);
    assert(seen.cost == turn->stake.cost);
    bool ready = seen.tickets > 0 && turn->tenant->hold == WEIR_TENANT_FREE;
    assert((turn->place_ready != 0) == ready); /* L1 */
    if (ready) {
        const struct weir_heap *heap = &key->priorities[turn->priority].ready;
        assert(heap->entries[turn->place_ready - 1].order == turn->virtual_time);
        assert(heap->entries[turn->place_ready - 1].tie == weir_turn_first(turn)->sequence);
    }
    sum->tickets += seen.tickets;
    sum->cost += seen.cost;
}

static void validate_tenant(const struct weir_key *key, const struct weir_tenant *tenant,
                            struct weir_stake *sum)
{
    struct weir_stake seen = {0};
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        validate_turn(key, &tenant->turns[i], &seen);
    }
    assert(seen.tickets == tenant->stake.tickets);
    assert(seen.cost == tenant->stake.cost);
    assert((tenant->stake.place_parked != 0) == (tenant->hold == WEIR_TENANT_PARKED)); /* L2 */
    sum->tickets += seen.tickets;
    sum->cost += seen.cost;
}

static void validate_crowd(const struct weir_share_heap *share_heap)
{
    if (share_heap->heaps == NULL) {
        assert(share_heap->members == 0 ||
               (share_heap->bound->tickets == UINT32_MAX && share_heap->bound->cost == UINT64_MAX));
        return;
    }
    const struct weir_share_heap_heaps *heaps = share_heap->heaps;
    weir_heap_validate(&heaps->by_tickets);
    weir_heap_validate(&heaps->by_cost);
    assert(heaps->by_tickets.count ==
           (share_heap->bound->tickets == UINT32_MAX ? 0 : share_heap->members));
    assert(heaps->by_cost.count ==
           (share_heap->bound->cost == UINT64_MAX ? 0 : share_heap->members));
}

void weir_line_validate(const struct weir_key *key)
{
    struct weir_stake seen = {0};
    uint32_t ready = 0;
    uint32_t tenants = 0;
    const struct weir_link *all = &key->all_tenants;
    for (struct weir_link *at = all->next; at != all; at = at->next) {
        validate_tenant(key, weir_container_of(at, struct weir_tenant, link), &seen);
        tenants++;
    }
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        const struct weir_priority_line *line = &key->priorities[i];
        weir_heap_validate(&line->ready);
        validate_crowd(&line->share_heap);
        ready += line->ready.count;
        assert(line->ready.capacity >= line->share_heap.members); /* L4 */
        assert((line->ready_weight == 0) == (line->ready.count == 0));
    }
    validate_crowd(&key->share_heap);
    weir_heap_validate(&key->timers);
    weir_heap_validate(&key->parked);
    assert(seen.tickets == key->share_heap.tickets);
    assert(seen.cost == key->share_heap.cost);
    assert(ready == key->ready);
    assert(tenants == key->tenants.count);
    assert(key->parked.capacity >= key->share_heap.members); /* L4 */
    assert(key->timers.capacity >= key->timed);              /* L4 */
    assert(key->timers.count <= key->timed);
}
