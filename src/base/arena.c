#include "base/arena.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdalign.h>

struct weir_arena_chunk {
    struct weir_arena_chunk *older;
    size_t bytes; /* of the chunk, this head included */
    size_t used;  /* from its start; a multiple of PIECE_ALIGNMENT */
};

#define PIECE_ALIGNMENT alignof(max_align_t)

static size_t round_up(size_t bytes)
{
    return (bytes + PIECE_ALIGNMENT - 1) / PIECE_ALIGNMENT * PIECE_ALIGNMENT;
}

#define HEAD_BYTES round_up(sizeof(struct weir_arena_chunk))

void weir_arena_init(struct weir_arena *arena, const struct weir_arena_options *options)
{
    assert(options->allocator != NULL);
    assert(options->chunk_bytes >= HEAD_BYTES);
    assert(options->chunk_bytes <= options->bytes_max);
    assert(options->bytes_max <= SIZE_MAX / 2);
    *arena = (struct weir_arena){.options = *options};
}

void weir_arena_deinit(struct weir_arena *arena)
{
    struct weir_arena_chunk *chunk = arena->newest;
    while (chunk != NULL) {
        struct weir_arena_chunk *older = chunk->older;
        arena->bytes -= chunk->bytes;
        weir_release(arena->options.allocator, chunk, chunk->bytes);
        chunk = older;
    }
    assert(arena->bytes == 0);
    *arena = (struct weir_arena){0};
}

/* Fetches a chunk with room for a piece of that size. */
static bool fetch(struct weir_arena *arena, size_t piece_bytes)
{
    size_t bytes = HEAD_BYTES + piece_bytes;
    if (bytes < arena->options.chunk_bytes) {
        bytes = arena->options.chunk_bytes;
    }
    if (bytes > arena->options.bytes_max - arena->bytes) {
        return false;
    }
    struct weir_arena_chunk *chunk = weir_allocate(arena->options.allocator, bytes);
    if (chunk == NULL) {
        return false;
    }
    *chunk = (struct weir_arena_chunk){.older = arena->newest, .bytes = bytes, .used = HEAD_BYTES};
    arena->newest = chunk;
    arena->bytes += bytes;
    return true;
}

void *weir_arena_allocate(struct weir_arena *arena, size_t count, size_t item_bytes)
{
    assert(item_bytes > 0);
    /* Below this bound neither the product nor rounding it up can overflow. */
    if (count > arena->options.bytes_max / item_bytes) {
        return NULL;
    }
    size_t bytes = round_up(count * item_bytes);
    struct weir_arena_chunk *chunk = arena->newest;
    if (chunk == NULL || bytes > chunk->bytes - chunk->used) {
        if (!fetch(arena, bytes)) {
            return NULL;
        }
        chunk = arena->newest;
    }
    char *piece = (char *)chunk + chunk->used;
    chunk->used += bytes;
    return memset(piece, 0, bytes);
}

bool weir_arena_keep(struct weir_arena *arena, struct weir_slice *slice)
{
    char *copy = weir_arena_allocate(arena, slice->bytes + 1, 1);
    if (copy == NULL) {
        return false;
    }
    if (slice->bytes > 0) {
        memcpy(copy, slice->data, slice->bytes);
    }
    slice->data = copy;
    return true;
}
