/* real.h - the few helpers for doubles that the controllers share. Those of libm ask for NaN first,
 * which cannot come here, and are calls. */
#ifndef WEIR_CORE_REAL_H
#define WEIR_CORE_REAL_H

#include <stdint.h>

static inline double weir_smaller(double a, double b)
{
    return a < b ? a : b;
}

static inline double weir_larger(double a, double b)
{
    return a > b ? a : b;
}

static inline double weir_clamp(double value, double least, double most)
{
    return weir_smaller(weir_larger(value, least), most);
}

static inline double weir_seconds(uint64_t duration_ns)
{
    return (double)duration_ns * 1e-9;
}

#endif
