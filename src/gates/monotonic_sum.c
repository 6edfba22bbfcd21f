#include "gates/monotonic_sum.h"

#include <stdbool.h>

void weir_monotonic_sum_mend(struct weir_monotonic_sum *rest, struct weir_monotonic_sum_span span,
                             uint64_t counters[WEIR_MONOTONIC_SUM_COUNTERS])
{
    bool alone = span.began_ns > rest->ended_ns;
    for (int i = 0; i < WEIR_MONOTONIC_SUM_COUNTERS; i++) {
        uint64_t seen = rest->seen[i];
        if (alone) {
            rest->lost[i] += counters[i] < seen ? seen - counters[i] : 0;
            rest->seen[i] = counters[i];
        } else if (counters[i] < seen) {
            counters[i] = seen;
        }
        counters[i] += rest->lost[i];
    }
    if (alone) {
        rest->ended_ns = span.ended_ns;
    }
}
