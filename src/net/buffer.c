#include "net/buffer.h"

#include <assert.h>

void weir_buffer_pool_init(struct weir_buffer_pool *pool, uint32_t buffers_max,
                           const struct weir_allocator *allocator)
{
    weir_slab_init(&pool->small, WEIR_BUFFER_SMALL, buffers_max, allocator);
    weir_slab_init(&pool->middle, WEIR_BUFFER_MIDDLE, buffers_max, allocator);
    weir_slab_init(&pool->large, WEIR_BUFFER_LARGE, buffers_max, allocator);
    weir_slab_init(&pool->huge, WEIR_BUFFER_HUGE,
                   buffers_max < WEIR_BUFFERS_HUGE_MAX ? buffers_max : WEIR_BUFFERS_HUGE_MAX,
                   allocator);
}

void weir_buffer_pool_deinit(struct weir_buffer_pool *pool)
{
    weir_slab_deinit(&pool->small);
    weir_slab_deinit(&pool->middle);
    weir_slab_deinit(&pool->large);
    weir_slab_deinit(&pool->huge);
}

static struct weir_slab *slab_for(struct weir_buffer_pool *pool, uint32_t capacity)
{
    if (capacity <= WEIR_BUFFER_SMALL) {
        return &pool->small;
    }
    if (capacity <= WEIR_BUFFER_MIDDLE) {
        return &pool->middle;
    }
    return capacity <= WEIR_BUFFER_LARGE ? &pool->large : &pool->huge;
}

bool weir_buffer_reserve(struct weir_buffer_pool *pool, struct weir_buffer *buffer,
                         uint32_t capacity)
{
    assert(capacity <= WEIR_BUFFER_HUGE);
    if (capacity <= buffer->capacity) {
        weir_buffer_compact(buffer);
        return true;
    }
    struct weir_slab *slab = slab_for(pool, capacity);
    char *data = weir_slab_take(slab);
    if (data == NULL) {
        return false;
    }
    uint32_t bytes = weir_buffer_bytes(buffer);
    if (bytes > 0) {
        memcpy(data, buffer->data + buffer->begin, bytes);
    }
    weir_buffer_release(pool, buffer);
    *buffer =
        (struct weir_buffer){.data = data, .capacity = (uint32_t)slab->object_bytes, .end = bytes};
    return true;
}

void weir_buffer_release(struct weir_buffer_pool *pool, struct weir_buffer *buffer)
{
    if (buffer->capacity > 0) {
        weir_slab_give(slab_for(pool, buffer->capacity), buffer->data);
    }
    *buffer = (struct weir_buffer){0};
}

void weir_buffer_compact(struct weir_buffer *buffer)
{
    if (buffer->begin > 0) {
        memmove(buffer->data, buffer->data + buffer->begin, weir_buffer_bytes(buffer));
        buffer->end -= buffer->begin;
        buffer->begin = 0;
    }
}
