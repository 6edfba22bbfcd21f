#include "rpc/rpc_worker.h"

#include "rpc/rpc_filter.h"

struct weir_rpc_worker *weir_rpc_worker_create(const struct weir_allocator *allocator,
                                               uint32_t exchanges_max)
{
    struct weir_rpc_worker *kept = weir_allocate_zeroed(allocator, sizeof *kept);
    if (kept == NULL) {
        return NULL;
    }
    kept->allocator = allocator;
    weir_slab_init(&kept->exchanges, sizeof(struct weir_rpc_exchange), exchanges_max, allocator);
    weir_slab_init(&kept->readers, sizeof(struct weir_rpc_reader), exchanges_max, allocator);
    return kept;
}

void weir_rpc_worker_destroy(struct weir_rpc_worker *kept)
{
    if (kept == NULL) {
        return;
    }
    weir_slab_deinit(&kept->exchanges);
    weir_slab_deinit(&kept->readers);
    weir_release(kept->allocator, kept, sizeof *kept);
}
