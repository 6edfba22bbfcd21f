/* rpc_worker.h - what one worker keeps for exchanges whose bodies are JSON: memory for their state.
 * One loop's: no locks. */
#ifndef WEIR_RPC_RPC_WORKER_H
#define WEIR_RPC_RPC_WORKER_H

#include "base/alloc.h"
#include "base/slab.h"

struct weir_rpc_worker {
    struct weir_slab exchanges; /* struct weir_rpc_exchange */
    struct weir_slab readers;   /* struct weir_rpc_reader */
    const struct weir_allocator *allocator;
};

/* For up to so many exchanges at once. Null without memory. */
struct weir_rpc_worker *weir_rpc_worker_create(const struct weir_allocator *allocator,
                                               uint32_t exchanges_max);

/* Requires that all exchanges are over. Null is none. */
void weir_rpc_worker_destroy(struct weir_rpc_worker *kept);

#endif
