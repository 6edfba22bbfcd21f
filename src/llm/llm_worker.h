/* llm_worker.h - what one worker keeps for its exchanges with LLMs: memory for their state, and
 * how many of its requests may be sent again. One loop's: no locks. */
#ifndef WEIR_LLM_LLM_WORKER_H
#define WEIR_LLM_LLM_WORKER_H

#include "base/alloc.h"
#include "base/slab.h"
#include "weir/retry.h"

struct weir_llm_worker {
    struct weir_slab exchanges; /* struct weir_llm */
    struct weir_slab parsers;   /* struct weir_llm_reply_parser */
    struct weir_slab readers;   /* struct weir_llm_reader */
    struct weir_retry_budget retry_budget;
    const struct weir_allocator *allocator;
};

/* For up to so many exchanges at once. Null without memory. */
struct weir_llm_worker *weir_llm_worker_create(const struct weir_allocator *allocator,
                                               uint32_t exchanges_max);

/* Requires that all exchanges are over. Null is none. */
void weir_llm_worker_destroy(struct weir_llm_worker *kept);

#endif
