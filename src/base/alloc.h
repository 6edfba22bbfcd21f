/* alloc.h - memory from the allocator that was handed in, or from malloc without one. */
#ifndef WEIR_BASE_ALLOC_H
#define WEIR_BASE_ALLOC_H

#include "weir/types.h"

/* malloc and free. */
extern const struct weir_allocator weir_allocator_libc;

static inline void *weir_allocate(const struct weir_allocator *allocator, size_t bytes)
{
    return allocator->allocate(allocator->context, bytes);
}

static inline void weir_release(const struct weir_allocator *allocator, void *memory, size_t bytes)
{
    if (memory != NULL) {
        allocator->release(allocator->context, memory, bytes);
    }
}

/* Zeroed memory, or null. */
void *weir_allocate_zeroed(const struct weir_allocator *allocator, size_t bytes);

#endif
