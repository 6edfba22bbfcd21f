#include "gateway/waits.h"

#define MS UINT64_C(1000000)

const uint64_t weir_waits_bounds_ns[WEIR_WAITS_BOUNDS] = {
    5 * MS,   10 * MS,   20 * MS,   50 * MS,   100 * MS,   200 * MS,
    500 * MS, 1000 * MS, 2000 * MS, 5000 * MS, 10000 * MS, 30000 * MS};

void weir_waits_add(struct weir_waits *waits, uint64_t entered_ns, uint64_t admitted_ns)
{
    uint64_t wait_ns = admitted_ns > entered_ns ? admitted_ns - entered_ns : 0;
    uint32_t bucket = 0;
    while (bucket < WEIR_WAITS_BOUNDS && wait_ns > weir_waits_bounds_ns[bucket]) {
        bucket++;
    }
    waits->counts[bucket]++;
    waits->sum_ns += wait_ns;
}
