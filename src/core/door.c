/* door.c - the bounds of a line (G10): whether an arrival finds room, and whose newest ticket makes
 * room for one below its share. Runs under its key's lock. */
#include "core/door.h"

#include "base/alloc.h"
#include "base/list.h"

#include <assert.h>

static bool counts_tickets(const struct weir_share_heap *share_heap)
{
    return share_heap->bound->tickets != UINT32_MAX;
}

static bool counts_cost(const struct weir_share_heap *share_heap)
{
    return share_heap->bound->cost != UINT64_MAX;
}

/* A heap's least entry is the largest stake over weight, so orders are negative. Costs are cut at
 * the largest bound, so that the product fits into 63 bits also after a bound was lowered. */
static uint64_t order_by_tickets(const struct weir_stake *stake, const struct weir_tenant *tenant)
{
    return 0 - weir_tenant_charge(tenant, stake->tickets);
}

static uint64_t order_by_cost(const struct weir_stake *stake, const struct weir_tenant *tenant)
{
    uint64_t cost = stake->cost < WEIR_LINE_COST_MAX ? stake->cost : WEIR_LINE_COST_MAX;
    return 0 - weir_tenant_charge(tenant, cost);
}

static_assert(WEIR_LINE_COST_MAX <= (UINT64_C(1) << 62) / WEIR_CHARGE_SCALE, "orders must fit");

static void place(struct weir_heap *heap, uint64_t order, const struct weir_tenant *tenant,
                  uint32_t *at)
{
    if (*at == 0) {
        weir_heap_push(heap, order, tenant->number, at);
    } else {
        weir_heap_update(heap, order, tenant->number, at);
    }
}

static void place_stake(struct weir_share_heap *share_heap, struct weir_stake *stake,
                        const struct weir_tenant *tenant)
{
    if (counts_tickets(share_heap)) {
        place(&share_heap->heaps->by_tickets, order_by_tickets(stake, tenant), tenant,
              &stake->place_by_tickets);
    }
    if (counts_cost(share_heap)) {
        place(&share_heap->heaps->by_cost, order_by_cost(stake, tenant), tenant,
              &stake->place_by_cost);
    }
}

bool weir_share_heap_reserve(struct weir_share_heap *share_heap, const struct weir_bound *bound,
                             uint32_t members, const struct weir_allocator *allocator)
{
    bool tickets = bound->tickets != UINT32_MAX;
    bool cost = bound->cost != UINT64_MAX;
    if (members == 0 || (!tickets && !cost)) {
        return true;
    }
    if (share_heap->heaps == NULL) {
        share_heap->heaps = weir_allocate_zeroed(allocator, sizeof *share_heap->heaps);
        if (share_heap->heaps == NULL) {
            return false;
        }
    }
    return (!tickets || weir_heap_reserve(&share_heap->heaps->by_tickets, members, allocator)) &&
           (!cost || weir_heap_reserve(&share_heap->heaps->by_cost, members, allocator));
}

void weir_share_heap_add(struct weir_share_heap *share_heap, struct weir_stake *stake,
                         struct weir_arrival arrival)
{
    if (stake->tickets == 0) {
        share_heap->members++;
        share_heap->weight += arrival.tenant->weight;
    }
    stake->tickets++;
    stake->cost += arrival.cost;
    share_heap->tickets++;
    share_heap->cost += arrival.cost;
    place_stake(share_heap, stake, arrival.tenant);
}

void weir_share_heap_remove(struct weir_share_heap *share_heap, struct weir_stake *stake,
                            struct weir_arrival arrival)
{
    assert(stake->tickets > 0);
    assert(stake->cost >= arrival.cost);
    stake->tickets--;
    stake->cost -= arrival.cost;
    share_heap->tickets--;
    share_heap->cost -= arrival.cost;
    if (stake->tickets > 0) {
        place_stake(share_heap, stake, arrival.tenant);
        return;
    }
    share_heap->members--;
    share_heap->weight -= arrival.tenant->weight;
    if (counts_tickets(share_heap)) {
        weir_heap_remove(&share_heap->heaps->by_tickets, &stake->place_by_tickets);
    }
    if (counts_cost(share_heap)) {
        weir_heap_remove(&share_heap->heaps->by_cost, &stake->place_by_cost);
    }
}

static bool tickets_fit(const struct weir_share_heap *share_heap)
{
    return share_heap->tickets < share_heap->bound->tickets;
}

static bool cost_fits(const struct weir_share_heap *share_heap, uint32_t cost)
{
    return share_heap->cost <= share_heap->bound->cost &&
           cost <= share_heap->bound->cost - share_heap->cost;
}

/* Whether `stake` of the arrival's tenant stays within `bound` x weight / all weights. */
static bool within_share(const struct weir_share_heap *share_heap, const struct weir_stake *stake,
                         const struct weir_tenant *tenant, unsigned __int128 amount, uint64_t bound)
{
    uint64_t weights = share_heap->weight + (stake->tickets == 0 ? tenant->weight : 0);
    return amount * weights <= (unsigned __int128)bound * tenant->weight;
}

bool weir_share_heap_accepts(const struct weir_share_heap *share_heap,
                             const struct weir_stake *stake, struct weir_arrival arrival)
{
    if (!tickets_fit(share_heap) &&
        !within_share(share_heap, stake, arrival.tenant, (unsigned __int128)stake->tickets + 1,
                      share_heap->bound->tickets)) {
        return false;
    }
    return cost_fits(share_heap, arrival.cost) ||
           within_share(share_heap, stake, arrival.tenant,
                        (unsigned __int128)stake->cost + arrival.cost, share_heap->bound->cost);
}

/* The best entry of a heap that is not at `own`: the top, or else the better of the two below. */
static uint32_t *best_but(const struct weir_heap *heap, const uint32_t *own)
{
    assert(heap->count > 0);
    if (weir_heap_top(heap)->place != own) {
        return weir_heap_top(heap)->place;
    }
    assert(heap->count > 1);
    const struct weir_heap_entry *left = &heap->entries[1];
    const struct weir_heap_entry *right = &heap->entries[2];
    bool take_right = heap->count > 2 && weir_heap_before(right, left);
    return take_right ? right->place : left->place;
}

struct weir_stake *weir_share_heap_victim(const struct weir_share_heap *share_heap,
                                          const struct weir_stake *stake,
                                          struct weir_arrival arrival)
{
    if (!tickets_fit(share_heap)) {
        return weir_container_of(best_but(&share_heap->heaps->by_tickets, &stake->place_by_tickets),
                                 struct weir_stake, place_by_tickets);
    }
    if (!cost_fits(share_heap, arrival.cost)) {
        return weir_container_of(best_but(&share_heap->heaps->by_cost, &stake->place_by_cost),
                                 struct weir_stake, place_by_cost);
    }
    return NULL;
}

static void empty_heap(struct weir_heap *heap)
{
    for (uint32_t i = 0; i < heap->count; i++) {
        *heap->entries[i].place = 0;
    }
    heap->count = 0;
}

void weir_share_heap_disband(struct weir_share_heap *share_heap)
{
    if (share_heap->heaps != NULL) {
        empty_heap(&share_heap->heaps->by_tickets);
        empty_heap(&share_heap->heaps->by_cost);
    }
    share_heap->weight = 0;
}

void weir_share_heap_rejoin(struct weir_share_heap *share_heap, struct weir_stake *stake,
                            const struct weir_tenant *tenant)
{
    if (stake->tickets > 0) {
        share_heap->weight += tenant->weight;
        place_stake(share_heap, stake, tenant);
    }
}

void weir_share_heap_deinit(struct weir_share_heap *share_heap,
                            const struct weir_allocator *allocator)
{
    assert(share_heap->tickets == 0);
    assert(share_heap->cost == 0);
    if (share_heap->heaps != NULL) {
        weir_heap_deinit(&share_heap->heaps->by_tickets, allocator);
        weir_heap_deinit(&share_heap->heaps->by_cost, allocator);
        weir_release(allocator, share_heap->heaps, sizeof *share_heap->heaps);
        share_heap->heaps = NULL;
    }
}
