/* clock.h - what time it is, for whoever may ask: loops, threads of their own, commands.
 *
 * Only here to be included, never to be linked: base, core and jobs are told the time, and that
 * none of them asks for it is seen from what their archives need (tests/api/symbols). Whoever
 * includes it asks the C library for POSIX first. */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include "weir/types.h"

#include <time.h>

static inline uint64_t weir_clock_read(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* From some moment on, never back: what deadlines and durations go by. */
static inline uint64_t weir_clock_ns(void)
{
    return weir_clock_read(CLOCK_MONOTONIC);
}

/* Since 1970; somebody may set it at any time. */
static inline uint64_t weir_wall_ns(void)
{
    return weir_clock_read(CLOCK_REALTIME);
}

static inline int64_t weir_wall_ms(void)
{
    return (int64_t)(weir_wall_ns() / 1000000);
}

#endif
