/* heap.h - a binary heap of items that know their place in it.
 *
 * An entry carries its order and a tie-breaker, so that comparing touches no item, and points at
 * the item's `place`, from which weir_container_of() finds the item. A place of 0 means "in no
 * heap". Orders are compared by their signed difference: they may wrap around, as virtual times
 * do, while those in one heap are less than 2^63 apart.
 *
 * Room is reserved beforehand; then push, remove and update cannot fail. All are O(log count), and
 * pushing in ascending order is O(1). */
#ifndef WEIR_BASE_HEAP_H
#define WEIR_BASE_HEAP_H

#include "weir/types.h"

#include <stdbool.h>

struct weir_heap_entry {
    uint64_t order;
    uint64_t tie;
    uint32_t *place;
};

struct weir_heap {
    struct weir_heap_entry *entries;
    uint32_t count;
    uint32_t capacity;
};

/* The total order of a heap's entries. */
static inline bool weir_heap_before(const struct weir_heap_entry *a,
                                    const struct weir_heap_entry *b)
{
    int64_t difference = (int64_t)(a->order - b->order);
    return difference != 0 ? difference < 0 : a->tie < b->tie;
}

/* Makes room for `count` entries in all. False, and nothing changed, without memory. */
bool weir_heap_grow(struct weir_heap *heap, uint32_t count, const struct weir_allocator *allocator);

static inline bool weir_heap_reserve(struct weir_heap *heap, uint32_t count,
                                     const struct weir_allocator *allocator)
{
    return count <= heap->capacity || weir_heap_grow(heap, count, allocator);
}

/* Gives the memory back. Requires an empty heap; a zeroed one is empty. */
void weir_heap_deinit(struct weir_heap *heap, const struct weir_allocator *allocator);

/* Requires room, and an item that is in no heap. */
void weir_heap_push(struct weir_heap *heap, uint64_t order, uint64_t tie, uint32_t *place);

/* Takes the item out. Requires that it is in this heap. */
void weir_heap_remove(struct weir_heap *heap, uint32_t *place);

/* Moves the item to where its new order belongs. Requires that it is in this heap. */
void weir_heap_update(struct weir_heap *heap, uint64_t order, uint64_t tie, uint32_t *place);

/* The item has moved in memory: its place, which was at `from`, is at `to` now. Requires that it is
 * in this heap. */
void weir_heap_move(struct weir_heap *heap, uint32_t *from, uint32_t *to);

/* The order under which the item stands in this heap. */
uint64_t weir_heap_order(const struct weir_heap *heap, const uint32_t *place);

/* The least entry. Requires that there is one. */
static inline const struct weir_heap_entry *weir_heap_top(const struct weir_heap *heap)
{
    return &heap->entries[0];
}

/* The order of the least entry, or WEIR_NEVER in an empty heap of moments. */
static inline uint64_t weir_heap_next(const struct weir_heap *heap)
{
    return heap->count == 0 ? WEIR_NEVER : heap->entries[0].order;
}

/* Asserts the order and every place. */
void weir_heap_validate(const struct weir_heap *heap);

#endif
