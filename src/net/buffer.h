/* buffer.h - bytes on their way, in memory of four sizes that a loop keeps for reuse.
 *
 * A buffer holds [begin, end) of its memory. Most heads fit into the smallest size; bodies stream
 * through the middle one; the large one is for heads that are as long as allowed. The last is for
 * bodies that are held as a whole, of which few are long, so a loop has only a limited number of
 * them. An empty buffer has no memory. */
#ifndef WEIR_NET_BUFFER_H
#define WEIR_NET_BUFFER_H

#include "base/slab.h"
#include "weir/types.h"

#include <stdbool.h>

#define WEIR_BUFFER_SMALL  2048
#define WEIR_BUFFER_MIDDLE 16384
#define WEIR_BUFFER_LARGE  65536
#define WEIR_BUFFER_HUGE   (1024 * 1024 + 65536)

/* Buffers of the largest size in use at once, per loop. */
#define WEIR_BUFFERS_HUGE_MAX 256

/* One thread's memory for buffers. */
struct weir_buffer_pool {
    struct weir_slab small;
    struct weir_slab middle;
    struct weir_slab large;
    struct weir_slab huge;
};

struct weir_buffer {
    char *data;
    uint32_t capacity; /* 0: no memory */
    uint32_t begin;
    uint32_t end;
};

/* At most `buffers_max` buffers of each size are in use at once; of the largest also at most
 * WEIR_BUFFERS_HUGE_MAX. */
void weir_buffer_pool_init(struct weir_buffer_pool *pool, uint32_t buffers_max,
                           const struct weir_allocator *allocator);
void weir_buffer_pool_deinit(struct weir_buffer_pool *pool);

/* Makes room for at least `capacity` bytes, up to WEIR_BUFFER_HUGE; the content stays, and moves to
 * the front. Returns false, with nothing changed, if memory runs out. */
WEIR_MUST_CHECK bool weir_buffer_reserve(struct weir_buffer_pool *pool, struct weir_buffer *buffer,
                                         uint32_t capacity);

/* Gives the memory back; a buffer without any is fine. */
void weir_buffer_release(struct weir_buffer_pool *pool, struct weir_buffer *buffer);

/* Moves the content to the front, so that all free room is behind it. */
void weir_buffer_compact(struct weir_buffer *buffer);

static inline uint32_t weir_buffer_bytes(const struct weir_buffer *buffer)
{
    return buffer->end - buffer->begin;
}

static inline uint32_t weir_buffer_room(const struct weir_buffer *buffer)
{
    return buffer->capacity - buffer->end;
}

static inline struct weir_slice weir_buffer_slice(const struct weir_buffer *buffer)
{
    if (buffer->capacity == 0) {
        return (struct weir_slice){"", 0};
    }
    return (struct weir_slice){buffer->data + buffer->begin, weir_buffer_bytes(buffer)};
}

/* Takes bytes from the front. */
static inline void weir_buffer_consume(struct weir_buffer *buffer, size_t bytes)
{
    buffer->begin += (uint32_t)bytes;
    if (buffer->begin == buffer->end) {
        buffer->begin = 0;
        buffer->end = 0;
    }
}

#endif
