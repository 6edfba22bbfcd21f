/* waits.h - how long the tickets of a key stood in line before they were admitted, as a histogram.
 *
 * Most do not wait at all, and for them it is one addition. Each bucket counts its own only; who
 * reads it adds them up. */
#ifndef WEIR_GATEWAY_WAITS_H
#define WEIR_GATEWAY_WAITS_H

#include <stdint.h>

#define WEIR_WAITS_BOUNDS 12

/* The longest wait of each bucket but the last, which has no bound. */
extern const uint64_t weir_waits_bounds_ns[WEIR_WAITS_BOUNDS];

/* Zeroed, it is empty. */
struct weir_waits {
    uint64_t counts[WEIR_WAITS_BOUNDS + 1];
    uint64_t sum_ns;
};

/* A ticket was admitted from the line. A clock that stepped back has made it wait for nothing. */
void weir_waits_add(struct weir_waits *waits, uint64_t entered_ns, uint64_t admitted_ns);

/* One was admitted at once. */
static inline void weir_waits_add_none(struct weir_waits *waits)
{
    waits->counts[0]++;
}

#endif
