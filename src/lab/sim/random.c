#include "lab/sim/random.h"

#include "base/random.h"
#include "lab/sim/number.h"

struct weir_sim_random weir_sim_random_of(uint64_t seed, uint64_t stream)
{
    struct weir_sim_random random = {0};
    uint64_t state = seed;
    state = weir_random_next(&state) ^ stream;
    for (int i = 0; i < 4; i++) {
        random.state[i] = weir_random_next(&state);
    }
    return random;
}

static uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

uint64_t weir_sim_random_bits(struct weir_sim_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double weir_sim_uniform(struct weir_sim_random *random)
{
    return (double)(weir_sim_random_bits(random) >> 11) * (1.0 / 9007199254740992.0);
}

double weir_sim_exponential(struct weir_sim_random *random)
{
    return -weir_sim_log(1 - weir_sim_uniform(random));
}

/* Marsaglia's polar method: a point in the unit circle gives two numbers. */
double weir_sim_normal(struct weir_sim_random *random)
{
    if (random->has_spare) {
        random->has_spare = 0;
        return random->spare;
    }
    double u;
    double v;
    double square;
    do {
        u = 2 * weir_sim_uniform(random) - 1;
        v = 2 * weir_sim_uniform(random) - 1;
        square = u * u + v * v;
    } while (square >= 1 || square == 0);
    double factor = weir_sim_sqrt(-2 * weir_sim_log(square) / square);
    random->spare = v * factor;
    random->has_spare = 1;
    return u * factor;
}

double weir_sim_lognormal(struct weir_sim_random *random, double median, double spread)
{
    return median * weir_sim_exp(spread * weir_sim_normal(random));
}
