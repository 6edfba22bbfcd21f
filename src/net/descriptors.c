#include "net/descriptors.h"

#include <assert.h>
#include <stdatomic.h>

#define NO_LIMIT UINT64_MAX

static uint64_t limit = NO_LIMIT;
static uint64_t reserve;
static atomic_uint_fast64_t count;
static atomic_uint_fast64_t reserved; /* descriptors of the API's part of the reserve in use */

void weir_descriptors_set_limit(uint64_t most)
{
    limit = most;
    reserve = most / 2 < WEIR_DESCRIPTORS_RESERVE_MAX ? most / 2 : WEIR_DESCRIPTORS_RESERVE_MAX;
}

void weir_descriptors_add(void)
{
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
}

void weir_descriptors_remove(void)
{
    uint64_t before = atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
    assert(before > 0);
}

uint64_t weir_descriptors_count(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed);
}

/* Whether fewer than `bound` descriptors are in use, not counting the API's part of the reserve:
 * those are in `count`, but must neither keep other clients out nor take from the half of
 * upstreams. */
static bool count_is_below(uint64_t bound)
{
    uint64_t api = atomic_load_explicit(&reserved, memory_order_relaxed);
    return weir_descriptors_count() < bound + api;
}

bool weir_descriptors_left_for_client(void)
{
    return count_is_below(limit - reserve);
}

bool weir_descriptors_left_for_upstream(void)
{
    return count_is_below(limit - reserve / 2);
}

bool weir_descriptors_take_reserved(void)
{
    if (atomic_fetch_add_explicit(&reserved, 1, memory_order_relaxed) < reserve / 4) {
        return true;
    }
    weir_descriptors_give_reserved();
    return false;
}

void weir_descriptors_give_reserved(void)
{
    uint64_t before = atomic_fetch_sub_explicit(&reserved, 1, memory_order_relaxed);
    assert(before > 0);
}

uint64_t weir_descriptors_limit(void)
{
    return limit;
}

uint64_t weir_descriptors_reserve(void)
{
    return reserve;
}
