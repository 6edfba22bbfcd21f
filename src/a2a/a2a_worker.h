/* a2a_worker.h - what one worker keeps for its exchanges with agents: memory for their state. One
 * loop's: no locks. */
#ifndef WEIR_A2A_A2A_WORKER_H
#define WEIR_A2A_A2A_WORKER_H

#include "base/alloc.h"
#include "base/slab.h"

struct weir_a2a_worker {
    struct weir_slab exchanges; /* struct weir_a2a */
    struct weir_slab readers;   /* struct weir_a2a_reader, from the reply on */
    const struct weir_allocator *allocator;
};

/* For up to so many exchanges at once. Null without memory. */
struct weir_a2a_worker *weir_a2a_worker_create(const struct weir_allocator *allocator,
                                               uint32_t exchanges_max);

/* Requires that all exchanges are over. Null is none. */
void weir_a2a_worker_destroy(struct weir_a2a_worker *kept);

#endif
