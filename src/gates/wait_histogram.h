/* wait_histogram.h - how long the tickets of a key stood in line before they were admitted, as a
 * histogram.
 *
 * Most do not wait at all, and for them it is one addition. Each bucket counts its own only; who
 * reads it adds them up. */
#ifndef WEIR_GATES_WAIT_HISTOGRAM_H
#define WEIR_GATES_WAIT_HISTOGRAM_H

#include <stdint.h>

#define WEIR_WAIT_HISTOGRAM_BOUNDS 12

/* The longest wait of each bucket but the last, which has no bound. */
extern const uint64_t weir_wait_histogram_bounds_ns[WEIR_WAIT_HISTOGRAM_BOUNDS];

/* Zeroed, it is empty. */
struct weir_wait_histogram {
    uint64_t counts[WEIR_WAIT_HISTOGRAM_BOUNDS + 1];
    uint64_t sum_ns;
};

/* A ticket was admitted from the line. A clock that stepped back has made it wait for nothing. */
void weir_wait_histogram_add(struct weir_wait_histogram *waits, uint64_t entered_ns,
                             uint64_t admitted_ns);

/* One was admitted at once. */
static inline void weir_wait_histogram_add_none(struct weir_wait_histogram *waits)
{
    waits->counts[0]++;
}

#endif
