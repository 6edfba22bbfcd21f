/* door.h - the bounds of a line, and who must go when an arrival below its share finds it full
 * (G10).
 *
 * A crowd is a set of stakes under one bound: the turns of a priority, or the tenants of a key.
 * Where the bound is finite its members stand in a heap by what they have in line over their
 * weight, so that the one furthest above its share is found at once; where there is none, no heap
 * is kept. */
#ifndef WEIR_CORE_DOOR_H
#define WEIR_CORE_DOOR_H

#include "base/heap.h"
#include "core/tenant.h"

struct weir_share_heap_heaps {
    struct weir_heap by_tickets; /* empty unless tickets are bounded */
    struct weir_heap by_cost;    /* empty unless their cost is */
};

struct weir_share_heap {
    const struct weir_bound *bound; /* UINT32_MAX and UINT64_MAX: none */
    uint32_t tickets;
    uint32_t members; /* that have something in line */
    uint64_t cost;
    uint64_t weight;                     /* of the members */
    struct weir_share_heap_heaps *heaps; /* null until they are needed */
};

/* What one arrival adds, and for whom. */
struct weir_arrival {
    const struct weir_tenant *tenant;
    uint32_t cost;
};

/* Room for that many members in the heaps that the bound asks for. False without memory. */
bool weir_share_heap_reserve(struct weir_share_heap *share_heap, const struct weir_bound *bound,
                             uint32_t members, const struct weir_allocator *allocator);

void weir_share_heap_add(struct weir_share_heap *share_heap, struct weir_stake *stake,
                         struct weir_arrival arrival);
void weir_share_heap_remove(struct weir_share_heap *share_heap, struct weir_stake *stake,
                            struct weir_arrival arrival);

/* Whether the arrival fits, or may displace until it does. */
bool weir_share_heap_accepts(const struct weir_share_heap *share_heap,
                             const struct weir_stake *stake, struct weir_arrival arrival);

/* The stake that must lose its newest ticket before the arrival fits, or null if it fits. */
struct weir_stake *weir_share_heap_victim(const struct weir_share_heap *share_heap,
                                          const struct weir_stake *stake,
                                          struct weir_arrival arrival);

/* Empties the heaps, so that the bound and the weights may be changed. The stakes stay counted;
 * weir_share_heap_rejoin() takes each up again. */
void weir_share_heap_disband(struct weir_share_heap *share_heap);
void weir_share_heap_rejoin(struct weir_share_heap *share_heap, struct weir_stake *stake,
                            const struct weir_tenant *tenant);

/* Gives the heaps' memory back while the line is empty; they come back when they are needed. */
void weir_share_heap_deinit(struct weir_share_heap *share_heap,
                            const struct weir_allocator *allocator);

#endif
