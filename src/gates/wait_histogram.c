#include "gates/wait_histogram.h"

const uint64_t weir_wait_histogram_bounds_ns[WEIR_WAIT_HISTOGRAM_BOUNDS] = {
    5 * WEIR_NS_PER_MS,    10 * WEIR_NS_PER_MS,   20 * WEIR_NS_PER_MS,    50 * WEIR_NS_PER_MS,
    100 * WEIR_NS_PER_MS,  200 * WEIR_NS_PER_MS,  500 * WEIR_NS_PER_MS,   1000 * WEIR_NS_PER_MS,
    2000 * WEIR_NS_PER_MS, 5000 * WEIR_NS_PER_MS, 10000 * WEIR_NS_PER_MS, 30000 * WEIR_NS_PER_MS};

void weir_wait_histogram_add(struct weir_wait_histogram *waits, uint64_t entered_ns,
                             uint64_t admitted_ns)
{
    uint64_t wait_ns = admitted_ns > entered_ns ? admitted_ns - entered_ns : 0;
    uint32_t bucket = 0;
    while (bucket < WEIR_WAIT_HISTOGRAM_BOUNDS && wait_ns > weir_wait_histogram_bounds_ns[bucket]) {
        bucket++;
    }
    waits->counts[bucket]++;
    waits->sum_ns += wait_ns;
}
