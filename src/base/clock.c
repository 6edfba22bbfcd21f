#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t weir_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t weir_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t weir_wall_ms(void)
{
    return (int64_t)(weir_wall_ns() / WEIR_NS_PER_MS);
}
