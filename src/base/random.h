/* random.h - splitmix64: numbers that look random, from a state of 64 bits.
 *
 * Every number comes once in 2^64 calls. The same state gives the same sequence on every machine.
 * An attacker that knows one number can compute the next, so this is not for secrets. */
#ifndef WEIR_BASE_RANDOM_H
#define WEIR_BASE_RANDOM_H

#include <stdint.h>

/* The next number of the sequence. */
static inline uint64_t weir_random_next(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#endif
