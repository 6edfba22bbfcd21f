/* shared_memory.h - an allocator that counts, for tests with several threads. */
#ifndef WEIR_TESTS_SHARED_MEMORY_H
#define WEIR_TESTS_SHARED_MEMORY_H

#include "unit/helpers.h"

#include <pthread.h>

struct shared_memory {
    struct weir_allocator allocator;
    struct memory memory;
    pthread_mutex_t lock;
};

static inline void *shared_allocate(void *context, size_t bytes)
{
    struct shared_memory *shared = context;
    pthread_mutex_lock(&shared->lock);
    void *result = memory_allocate(&shared->memory, bytes);
    pthread_mutex_unlock(&shared->lock);
    return result;
}

static inline void shared_release(void *context, void *bytes_of, size_t bytes)
{
    struct shared_memory *shared = context;
    pthread_mutex_lock(&shared->lock);
    memory_release(&shared->memory, bytes_of, bytes);
    pthread_mutex_unlock(&shared->lock);
}

static inline void shared_memory_init(struct shared_memory *shared)
{
    *shared = (struct shared_memory){.allocator = {shared, shared_allocate, shared_release},
                                     .lock = PTHREAD_MUTEX_INITIALIZER};
    memory_init(&shared->memory);
}

#endif
