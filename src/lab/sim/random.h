/* random.h - numbers that look random and are the same for the same seed, everywhere.
 *
 * xoshiro256++ of Blackman and Vigna, filled by splitmix64 from a seed and the number of a stream.
 * Each part of a simulation has a stream of its own, so that what one draws does not change what
 * another sees: all policies meet the same requests. */
#ifndef WEIR_LAB_SIM_RANDOM_H
#define WEIR_LAB_SIM_RANDOM_H

#include <stdint.h>

struct weir_sim_random {
    uint64_t state[4];
    double spare; /* the second of two normal numbers */
    int has_spare;
};

struct weir_sim_random weir_sim_random_of(uint64_t seed, uint64_t stream);

uint64_t weir_sim_random_bits(struct weir_sim_random *random);

/* 0 <= x < 1. */
double weir_sim_uniform(struct weir_sim_random *random);

/* Times between the events of a Poisson process; its mean is 1. */
double weir_sim_exponential(struct weir_sim_random *random);

/* Mean 0, deviation 1. */
double weir_sim_normal(struct weir_sim_random *random);

/* Half of them are below the median; ln x deviates by `spread`. */
double weir_sim_lognormal(struct weir_sim_random *random, double median, double spread);

#endif
