/* random.h - a small seeded generator, so that a failure can be run again exactly.
 *
 * splitmix64: one word of state, so that a seed of any kind is as good as any other. */
#ifndef WEIR_TESTS_RANDOM_H
#define WEIR_TESTS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A number from 0 to `count` - 1. The bias of the modulus does not matter to a test. */
static inline uint32_t random_below(struct random *random, uint32_t count)
{
    return (uint32_t)(random_next(random) >> 32) % count;
}

/* A number from `low` to `high`, both included. */
static inline uint64_t random_between(struct random *random, uint64_t low, uint64_t high)
{
    return low + random_next(random) % (high - low + 1);
}

/* True `percent` times in a hundred. */
static inline bool random_chance(struct random *random, uint32_t percent)
{
    return random_below(random, 100) < percent;
}

#endif
