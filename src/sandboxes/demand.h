/* demand.h - how many sandboxes should be warm: as many as were taken within one p95 of the time
 * that a start takes.
 *
 * Takes are counted by second over the last minute. The larger of two rates counts, that of the
 * minute and that of the last six seconds, so a burst is answered at once and forgotten slowly. */
#ifndef WEIR_SANDBOXES_DEMAND_H
#define WEIR_SANDBOXES_DEMAND_H

#include <stdint.h>

#define WEIR_DEMAND_SECONDS 60
#define WEIR_DEMAND_BURST_S 6
#define WEIR_DEMAND_STARTS  64 /* the last that the p95 is taken of */

struct weir_demand {
    uint32_t taken[WEIR_DEMAND_SECONDS]; /* by second, modulo their number */
    uint64_t second;                     /* of the last of them */
    uint64_t starts_ns[WEIR_DEMAND_STARTS];
    uint32_t start_count;  /* of them, in all */
    uint64_t start_p95_ns; /* 0: none has been seen */
};

void weir_demand_take(struct weir_demand *demand, uint64_t now_ns);
void weir_demand_started(struct weir_demand *demand, uint64_t took_ns);

/* How many should be warm, within these bounds. */
uint32_t weir_demand_warm(struct weir_demand *demand, uint32_t least, uint32_t most,
                          uint64_t now_ns);

#endif
