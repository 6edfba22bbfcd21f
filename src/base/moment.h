/* moment.h - sums of moments and durations of which either may be never. */
#ifndef WEIR_BASE_MOMENT_H
#define WEIR_BASE_MOMENT_H

#include "weir/types.h"

/* The moment that far away from now; never where it is beyond all moments. */
static inline uint64_t weir_after_ns(uint64_t now_ns, uint64_t duration_ns)
{
    return duration_ns > WEIR_NEVER - now_ns ? WEIR_NEVER : now_ns + duration_ns;
}

#endif
