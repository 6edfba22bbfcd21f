/* slab.c - see slab.h.
 *
 *   block:  | header | object | object | ...
 *   object: | pointer to its block | the caller's bytes |
 *
 * A free object's bytes hold the link to the next free one of its block. */
#include "base/slab.h"

#include "base/alloc.h"
#include "base/list.h"

#include <assert.h>

/* A block is about as large as what malloc hands out without asking the kernel each time. */
#define BLOCK_BYTES (64 * 1024)

struct object {
    struct block *block;
    union {
        struct object *next; /* while it is free */
        max_align_t bytes;   /* the caller's begin here */
    };
};

struct block {
    struct weir_link link;
    struct object *free;
    uint32_t out;
};

static size_t object_stride(const struct weir_slab *slab)
{
    size_t align = _Alignof(max_align_t);
    size_t bytes = offsetof(struct object, bytes) + slab->object_bytes;
    return (bytes + align - 1) / align * align;
}

static size_t header_bytes(void)
{
    size_t align = _Alignof(max_align_t);
    return (sizeof(struct block) + align - 1) / align * align;
}

static size_t block_bytes(const struct weir_slab *slab)
{
    return header_bytes() + slab->per_block * object_stride(slab);
}

void weir_slab_init(struct weir_slab *slab, size_t object_bytes, uint32_t count_max,
                    const struct weir_allocator *allocator)
{
    assert(object_bytes >= sizeof(void *));
    *slab = (struct weir_slab){
        .object_bytes = object_bytes, .count_max = count_max, .allocator = allocator};
    size_t fit = (BLOCK_BYTES - header_bytes()) / object_stride(slab);
    slab->per_block = fit < 4 ? 4 : (uint32_t)fit;
    weir_list_init(&slab->partial);
    weir_list_init(&slab->empty);
}

static void release_block(struct weir_slab *slab, struct block *block)
{
    weir_list_unlink(&block->link);
    slab->blocks--;
    weir_release(slab->allocator, block, block_bytes(slab));
}

void weir_slab_deinit(struct weir_slab *slab)
{
    assert(slab->count == 0);
    while (!weir_list_empty(&slab->empty)) {
        release_block(slab, weir_container_of(slab->empty.next, struct block, link));
    }
}

static struct block *create_block(struct weir_slab *slab)
{
    struct block *block = weir_allocate(slab->allocator, block_bytes(slab));
    if (block == NULL) {
        return NULL;
    }
    *block = (struct block){0};
    for (uint32_t i = slab->per_block; i-- > 0;) {
        struct object *object =
            (struct object *)((char *)block + header_bytes() + i * object_stride(slab));
        object->block = block;
        object->next = block->free;
        block->free = object;
    }
    slab->blocks++;
    return block;
}

/* A block with something free, in the list of partial ones. */
static struct block *open_block(struct weir_slab *slab)
{
    if (!weir_list_empty(&slab->partial)) {
        return weir_container_of(slab->partial.next, struct block, link);
    }
    struct block *block;
    if (!weir_list_empty(&slab->empty)) {
        block = weir_container_of(slab->empty.next, struct block, link);
        weir_list_unlink(&block->link);
    } else {
        block = create_block(slab);
    }
    if (block != NULL) {
        weir_list_push_front(&slab->partial, &block->link);
    }
    return block;
}

void *weir_slab_take(struct weir_slab *slab)
{
    if (slab->count >= slab->count_max) {
        return NULL;
    }
    struct block *block = open_block(slab);
    if (block == NULL) {
        return NULL;
    }
    struct object *object = block->free;
    block->free = object->next;
    block->out++;
    if (block->free == NULL) {
        weir_list_unlink(&block->link); /* a full block is in no list */
    }
    slab->count++;
    return &object->bytes;
}

void weir_slab_give(struct weir_slab *slab, void *bytes)
{
    struct object *object = weir_container_of(bytes, struct object, bytes);
    struct block *block = object->block;
    assert(block->out > 0);
    if (block->free == NULL) {
        weir_list_push_front(&slab->partial, &block->link);
    }
    object->next = block->free;
    block->free = object;
    block->out--;
    slab->count--;
    if (block->out == 0) {
        weir_list_unlink(&block->link);
        weir_list_push_front(&slab->empty, &block->link);
        if (block->link.next != &slab->empty) { /* one is enough to keep */
            release_block(slab, block);
        }
    }
}
