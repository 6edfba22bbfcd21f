/* monotonic_sum.h - sums over keys that come and go, as counters that never fall.
 *
 * GET /metrics reports most keys of a large gate as one sum. A key that is forgotten takes its
 * counts along, and a sum that falls looks like a restart to programs that compute rates: all that
 * is left of it would seem to have happened at once. So what a sum has lost since it was last asked
 * for is added to it from then on. What was counted in the same while is hidden by that, up to what
 * was lost: such a rate is a little low, never high. */
#ifndef WEIR_GATES_MONOTONIC_SUM_H
#define WEIR_GATES_MONOTONIC_SUM_H

#include <stdint.h>

#define WEIR_MONOTONIC_SUM_COUNTERS 25

/* Zeroed, nothing has been asked for. */
struct weir_monotonic_sum {
    uint64_t seen[WEIR_MONOTONIC_SUM_COUNTERS]; /* the sums at the last time */
    uint64_t lost[WEIR_MONOTONIC_SUM_COUNTERS];
    uint64_t ended_ns; /* when the last time was over */
};

/* When the keys were added up. */
struct weir_monotonic_sum_span {
    uint64_t began_ns;
    uint64_t ended_ns;
};

/* Turns the sums into counters that never fall. Adding up takes a while; of two callers that do so
 * at the same time one may have seen less of a key than the other, which is no loss. */
void weir_monotonic_sum_mend(struct weir_monotonic_sum *rest, struct weir_monotonic_sum_span span,
                             uint64_t counters[WEIR_MONOTONIC_SUM_COUNTERS]);

#endif
