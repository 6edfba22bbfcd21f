/* clock.h - what time it is, for callers that may ask: loops, threads of their own, commands.
 *
 * Base, core and jobs get the time from their callers and never ask. So this is a library of its
 * own, which they are not linked with; what their archives need is looked at
 * (tests/api/symbols). */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include "weir/types.h"

/* From some moment on, never back: what deadlines and durations go by. */
uint64_t weir_clock_ns(void);

/* Since 1970; an operator may set it at any time. */
uint64_t weir_wall_ns(void);
int64_t weir_wall_ms(void);

#endif
