/* slab.h - objects of one size, taken and given back in O(1), counted.
 *
 * Memory comes in blocks of many objects and is kept for the next ones; a block whose objects have
 * all come back is released while others have room, so memory follows use without going back and
 * forth over every object. There is a most that may be out at once. One thread's; no locks. */
#ifndef WEIR_BASE_SLAB_H
#define WEIR_BASE_SLAB_H

#include "weir/types.h"

#include <stdbool.h>

struct weir_slab {
    size_t object_bytes;
    uint32_t per_block;
    uint32_t count;     /* out now */
    uint32_t count_max; /* at once */
    uint32_t blocks;
    struct weir_link partial; /* blocks with something free and something out */
    struct weir_link empty;   /* blocks with nothing out; at most one is kept */
    const struct weir_allocator *allocator;
};

/* Requires objects of at least 8 bytes. */
void weir_slab_init(struct weir_slab *slab, size_t object_bytes, uint32_t count_max,
                    const struct weir_allocator *allocator);

/* Requires that everything has come back. */
void weir_slab_deinit(struct weir_slab *slab);

/* Not zeroed. Null at the maximum, or without memory. */
void *weir_slab_take(struct weir_slab *slab);
void weir_slab_give(struct weir_slab *slab, void *object);

#endif
