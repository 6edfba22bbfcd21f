/* warning.h - a warning that is written at most once a minute, however often there is reason for
 * it.
 *
 * Whoever has the reason asks weir_warning_due() and writes the text if the answer is yes. It needs
 * no lock: of threads that ask at once, one writes. Zeroed, a warning is due at once. */
#ifndef WEIR_BASE_WARNING_H
#define WEIR_BASE_WARNING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WEIR_WARNING_PAUSE_NS (UINT64_C(60) * 1000000000)

struct weir_warning {
    atomic_uint_fast64_t due_ns; /* not before then */
};

/* Whether the warning is to be written now. True once, then false for a minute. `now_ns` may step
 * back; then nothing is written until the clock has caught up. */
static inline bool weir_warning_due(struct weir_warning *warning, uint64_t now_ns)
{
    uint_fast64_t due_ns = atomic_load_explicit(&warning->due_ns, memory_order_relaxed);
    return now_ns >= due_ns && atomic_compare_exchange_strong_explicit(
                                   &warning->due_ns, &due_ns, now_ns + WEIR_WARNING_PAUSE_NS,
                                   memory_order_relaxed, memory_order_relaxed);
}

#endif
