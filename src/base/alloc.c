#include "base/alloc.h"

#include <stdlib.h>

static void *libc_allocate(void *context, size_t bytes)
{
    (void)context;
    return malloc(bytes);
}

static void libc_release(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)bytes;
    free(memory);
}

const struct weir_allocator weir_allocator_libc = {NULL, libc_allocate, libc_release};

void *weir_allocate_zeroed(const struct weir_allocator *allocator, size_t bytes)
{
    void *memory = weir_allocate(allocator, bytes);
    if (memory != NULL) {
        memset(memory, 0, bytes);
    }
    return memory;
}
