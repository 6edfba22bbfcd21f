#include "lab/mock/draw.h"

#include "base/random.h"

#include <math.h>

#define TAU 6.283185307179586

uint64_t weir_draw_bits(uint64_t *sequence)
{
    return weir_random_next(sequence);
}

/* Mixed in between, so that neighbouring seeds and neighbouring numbers do not meet. */
uint64_t weir_draw_sequence(uint64_t seed, uint64_t number)
{
    uint64_t mixed = weir_draw_bits(&seed) ^ number;
    return weir_draw_bits(&mixed);
}

double weir_draw_uniform(uint64_t *sequence)
{
    return (double)(weir_draw_bits(sequence) >> 11) * (1.0 / 9007199254740992.0);
}

/* By Box and Muller; the logarithm is of a number above 0. */
double weir_draw_lognormal(uint64_t *sequence, double median, double spread)
{
    double radius = sqrt(-2 * log(1 - weir_draw_uniform(sequence)));
    double normal = radius * cos(TAU * weir_draw_uniform(sequence));
    return median * exp(spread * normal);
}
