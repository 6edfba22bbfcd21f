/* arena.h - memory that is taken piece by piece and given back all at once.
 *
 * Pieces are cut from the front of a chunk; when one does not fit, another chunk is fetched. There
 * is no way to give a single piece back, so nothing has to remember them: the owner of the arena
 * owns everything in it. */
#ifndef WEIR_BASE_ARENA_H
#define WEIR_BASE_ARENA_H

#include "weir/types.h"

#include <stdbool.h>

struct weir_arena_options {
    const struct weir_allocator *allocator; /* must outlive the arena */
    size_t chunk_bytes;                     /* fetched at a time, if a piece is not larger */
    size_t bytes_max;                       /* of all chunks together */
};

struct weir_arena_chunk;

struct weir_arena {
    struct weir_arena_options options;
    struct weir_arena_chunk *newest; /* from which pieces are cut; null before the first */
    size_t bytes;                    /* fetched so far */
};

/* An empty arena, which has fetched nothing. */
void weir_arena_init(struct weir_arena *arena, const struct weir_arena_options *options);

/* Gives everything back. Safe on a zeroed arena. */
void weir_arena_deinit(struct weir_arena *arena);

/* Zeroed memory, aligned for anything, for `count` items of `item_bytes` each. Null, and nothing
 * changed, without memory or beyond `bytes_max`. Never null for a count of 0 otherwise. */
void *weir_arena_allocate(struct weir_arena *arena, size_t count, size_t item_bytes);

/* Copies the bytes and lets `slice` point at the copy, which a zero byte follows. False, and the
 * slice as it was, without memory. */
bool weir_arena_keep(struct weir_arena *arena, struct weir_slice *slice);

#endif
