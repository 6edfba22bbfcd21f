/* heap.c - sifting entries up and down. An entry moves together with the `place` that it points to,
 * so that an item can be removed from the middle. See heap.h for the orders and the room reserved.
 */
#include "base/heap.h"

#include "base/alloc.h"

#include <assert.h>

#define HEAP_CAPACITY_MIN 4

static inline void put(struct weir_heap *heap, uint32_t index, struct weir_heap_entry entry)
{
    heap->entries[index] = entry;
    *entry.place = index + 1;
}

static void sift_up(struct weir_heap *heap, uint32_t index, struct weir_heap_entry entry)
{
    while (index > 0) {
        uint32_t parent = (index - 1) / 2;
        if (!weir_heap_before(&entry, &heap->entries[parent])) {
            break;
        }
        put(heap, index, heap->entries[parent]);
        index = parent;
    }
    put(heap, index, entry);
}

static void sift_down(struct weir_heap *heap, uint32_t index, struct weir_heap_entry entry)
{
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count &&
            weir_heap_before(&heap->entries[child + 1], &heap->entries[child])) {
            child++;
        }
        if (!weir_heap_before(&heap->entries[child], &entry)) {
            break;
        }
        put(heap, index, heap->entries[child]);
        index = child;
    }
    put(heap, index, entry);
}

/* Puts `entry` at `index` or wherever it belongs from there. */
static void settle(struct weir_heap *heap, uint32_t index, struct weir_heap_entry entry)
{
    if (index > 0 && weir_heap_before(&entry, &heap->entries[(index - 1) / 2])) {
        sift_up(heap, index, entry);
    } else {
        sift_down(heap, index, entry);
    }
}

static uint32_t index_of(const struct weir_heap *heap, const uint32_t *place)
{
    assert(*place >= 1);
    assert(*place <= heap->count);
    assert(heap->entries[*place - 1].place == place);
    return *place - 1;
}

bool weir_heap_grow(struct weir_heap *heap, uint32_t count, const struct weir_allocator *allocator)
{
    assert(count <= UINT32_MAX / 4);
    uint32_t capacity = heap->capacity == 0 ? HEAP_CAPACITY_MIN : heap->capacity * 2;
    while (capacity < count) {
        capacity *= 2;
    }
    struct weir_heap_entry *entries = weir_allocate(allocator, capacity * sizeof *entries);
    if (entries == NULL) {
        return false;
    }
    if (heap->count > 0) {
        memcpy(entries, heap->entries, heap->count * sizeof *entries);
    }
    weir_release(allocator, heap->entries, heap->capacity * sizeof *entries);
    heap->entries = entries;
    heap->capacity = capacity;
    return true;
}

void weir_heap_deinit(struct weir_heap *heap, const struct weir_allocator *allocator)
{
    assert(heap->count == 0);
    weir_release(allocator, heap->entries, heap->capacity * sizeof *heap->entries);
    *heap = (struct weir_heap){0};
}

void weir_heap_push(struct weir_heap *heap, uint64_t order, uint64_t tie, uint32_t *place)
{
    assert(*place == 0);
    assert(heap->count < heap->capacity);
    sift_up(heap, heap->count++, (struct weir_heap_entry){order, tie, place});
}

void weir_heap_remove(struct weir_heap *heap, uint32_t *place)
{
    uint32_t index = index_of(heap, place);
    *place = 0;
    heap->count--;
    if (index < heap->count) {
        settle(heap, index, heap->entries[heap->count]);
    }
}

void weir_heap_update(struct weir_heap *heap, uint64_t order, uint64_t tie, uint32_t *place)
{
    settle(heap, index_of(heap, place), (struct weir_heap_entry){order, tie, place});
}

void weir_heap_validate(const struct weir_heap *heap)
{
    assert(heap->count <= heap->capacity);
    for (uint32_t i = 0; i < heap->count; i++) {
        assert(*heap->entries[i].place == i + 1);
        assert(i == 0 || !weir_heap_before(&heap->entries[i], &heap->entries[(i - 1) / 2]));
    }
}

void weir_heap_move(struct weir_heap *heap, uint32_t *from, uint32_t *to)
{
    uint32_t index = index_of(heap, from);
    *to = *from;
    *from = 0;
    heap->entries[index].place = to;
}

uint64_t weir_heap_order(const struct weir_heap *heap, const uint32_t *place)
{
    return heap->entries[index_of(heap, place)].order;
}
