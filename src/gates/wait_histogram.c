#include "gates/wait_histogram.h"

#define MS UINT64_C(1000000)

const uint64_t weir_wait_histogram_bounds_ns[WEIR_WAIT_HISTOGRAM_BOUNDS] = {
    5 * MS,   10 * MS,   20 * MS,   50 * MS,   100 * MS,   200 * MS,
    500 * MS, 1000 * MS, 2000 * MS, 5000 * MS, 10000 * MS, 30000 * MS};

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
