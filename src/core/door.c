#include "core/door.h"

#include "base/alloc.h"
#include "base/list.h"

#include <assert.h>

static bool counts_tickets(const struct weir_crowd *crowd)
{
    return crowd->bound->tickets != UINT32_MAX;
}

static bool counts_cost(const struct weir_crowd *crowd)
{
    return crowd->bound->cost != UINT64_MAX;
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

static void place_stake(struct weir_crowd *crowd, struct weir_stake *stake,
                        const struct weir_tenant *tenant)
{
    if (counts_tickets(crowd)) {
        place(&crowd->heaps->by_tickets, order_by_tickets(stake, tenant), tenant,
              &stake->place_by_tickets);
    }
    if (counts_cost(crowd)) {
        place(&crowd->heaps->by_cost, order_by_cost(stake, tenant), tenant, &stake->place_by_cost);
    }
}

bool weir_crowd_reserve(struct weir_crowd *crowd, const struct weir_bound *bound, uint32_t members,
                        const struct weir_allocator *allocator)
{
    bool tickets = bound->tickets != UINT32_MAX;
    bool cost = bound->cost != UINT64_MAX;
    if (members == 0 || (!tickets && !cost)) {
        return true;
    }
    if (crowd->heaps == NULL) {
        crowd->heaps = weir_allocate_zeroed(allocator, sizeof *crowd->heaps);
        if (crowd->heaps == NULL) {
            return false;
        }
    }
    return (!tickets || weir_heap_reserve(&crowd->heaps->by_tickets, members, allocator)) &&
           (!cost || weir_heap_reserve(&crowd->heaps->by_cost, members, allocator));
}

void weir_crowd_add(struct weir_crowd *crowd, struct weir_stake *stake, struct weir_arrival arrival)
{
    if (stake->tickets == 0) {
        crowd->members++;
        crowd->weight += arrival.tenant->weight;
    }
    stake->tickets++;
    stake->cost += arrival.cost;
    crowd->tickets++;
    crowd->cost += arrival.cost;
    place_stake(crowd, stake, arrival.tenant);
}

void weir_crowd_remove(struct weir_crowd *crowd, struct weir_stake *stake,
                       struct weir_arrival arrival)
{
    assert(stake->tickets > 0);
    assert(stake->cost >= arrival.cost);
    stake->tickets--;
    stake->cost -= arrival.cost;
    crowd->tickets--;
    crowd->cost -= arrival.cost;
    if (stake->tickets > 0) {
        place_stake(crowd, stake, arrival.tenant);
        return;
    }
    crowd->members--;
    crowd->weight -= arrival.tenant->weight;
    if (counts_tickets(crowd)) {
        weir_heap_remove(&crowd->heaps->by_tickets, &stake->place_by_tickets);
    }
    if (counts_cost(crowd)) {
        weir_heap_remove(&crowd->heaps->by_cost, &stake->place_by_cost);
    }
}

static bool tickets_fit(const struct weir_crowd *crowd)
{
    return crowd->tickets < crowd->bound->tickets;
}

static bool cost_fits(const struct weir_crowd *crowd, uint32_t cost)
{
    return crowd->cost <= crowd->bound->cost && cost <= crowd->bound->cost - crowd->cost;
}

/* Whether `stake` of the arrival's tenant stays within `bound` x weight / all weights. */
static bool within_share(const struct weir_crowd *crowd, const struct weir_stake *stake,
                         const struct weir_tenant *tenant, unsigned __int128 amount, uint64_t bound)
{
    uint64_t weights = crowd->weight + (stake->tickets == 0 ? tenant->weight : 0);
    return amount * weights <= (unsigned __int128)bound * tenant->weight;
}

bool weir_crowd_accepts(const struct weir_crowd *crowd, const struct weir_stake *stake,
                        struct weir_arrival arrival)
{
    if (!tickets_fit(crowd) &&
        !within_share(crowd, stake, arrival.tenant, (unsigned __int128)stake->tickets + 1,
                      crowd->bound->tickets)) {
        return false;
    }
    return cost_fits(crowd, arrival.cost) ||
           within_share(crowd, stake, arrival.tenant, (unsigned __int128)stake->cost + arrival.cost,
                        crowd->bound->cost);
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

struct weir_stake *weir_crowd_victim(const struct weir_crowd *crowd, const struct weir_stake *stake,
                                     struct weir_arrival arrival)
{
    if (!tickets_fit(crowd)) {
        return weir_container_of(best_but(&crowd->heaps->by_tickets, &stake->place_by_tickets),
                                 struct weir_stake, place_by_tickets);
    }
    if (!cost_fits(crowd, arrival.cost)) {
        return weir_container_of(best_but(&crowd->heaps->by_cost, &stake->place_by_cost),
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

void weir_crowd_disband(struct weir_crowd *crowd)
{
    if (crowd->heaps != NULL) {
        empty_heap(&crowd->heaps->by_tickets);
        empty_heap(&crowd->heaps->by_cost);
    }
    crowd->weight = 0;
}

void weir_crowd_rejoin(struct weir_crowd *crowd, struct weir_stake *stake,
                       const struct weir_tenant *tenant)
{
    if (stake->tickets > 0) {
        crowd->weight += tenant->weight;
        place_stake(crowd, stake, tenant);
    }
}

void weir_crowd_deinit(struct weir_crowd *crowd, const struct weir_allocator *allocator)
{
    assert(crowd->tickets == 0);
    assert(crowd->cost == 0);
    if (crowd->heaps != NULL) {
        weir_heap_deinit(&crowd->heaps->by_tickets, allocator);
        weir_heap_deinit(&crowd->heaps->by_cost, allocator);
        weir_release(allocator, crowd->heaps, sizeof *crowd->heaps);
        crowd->heaps = NULL;
    }
}
