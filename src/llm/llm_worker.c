#include "llm/llm_worker.h"

#include "llm/llm_exchange.h"

struct weir_llm_worker *weir_llm_worker_create(const struct weir_allocator *allocator,
                                               uint32_t exchanges_max)
{
    struct weir_llm_worker *kept = weir_allocate_zeroed(allocator, sizeof *kept);
    if (kept == NULL) {
        return NULL;
    }
    kept->allocator = allocator;
    weir_slab_init(&kept->exchanges, sizeof(struct weir_llm), exchanges_max, allocator);
    weir_slab_init(&kept->parsers, sizeof(struct weir_llm_reply_parser), exchanges_max, allocator);
    weir_slab_init(&kept->readers, sizeof(struct weir_llm_reader), exchanges_max, allocator);
    weir_retry_budget_init(&kept->retry_budget);
    return kept;
}

void weir_llm_worker_destroy(struct weir_llm_worker *kept)
{
    if (kept == NULL) {
        return;
    }
    weir_slab_deinit(&kept->exchanges);
    weir_slab_deinit(&kept->parsers);
    weir_slab_deinit(&kept->readers);
    weir_release(kept->allocator, kept, sizeof *kept);
}
