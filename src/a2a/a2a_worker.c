#include "a2a/a2a_worker.h"

#include "a2a/a2a_exchange.h"

struct weir_a2a_worker *weir_a2a_worker_create(const struct weir_allocator *allocator,
                                               uint32_t exchanges_max)
{
    struct weir_a2a_worker *kept = weir_allocate_zeroed(allocator, sizeof *kept);
    if (kept == NULL) {
        return NULL;
    }
    kept->allocator = allocator;
    weir_slab_init(&kept->exchanges, sizeof(struct weir_a2a), exchanges_max, allocator);
    weir_slab_init(&kept->readers, sizeof(struct weir_a2a_reader), exchanges_max, allocator);
    return kept;
}

void weir_a2a_worker_destroy(struct weir_a2a_worker *kept)
{
    if (kept == NULL) {
        return;
    }
    weir_slab_deinit(&kept->exchanges);
    weir_slab_deinit(&kept->readers);
    weir_release(kept->allocator, kept, sizeof *kept);
}
