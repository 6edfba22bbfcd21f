/* draw.h - numbers that look random and are the same for the same seed. */
#ifndef WEIR_LAB_MOCK_DRAW_H
#define WEIR_LAB_MOCK_DRAW_H

#include <stdint.h>

/* A sequence is one number. Every one is good, so any seed is. */
uint64_t weir_draw_bits(uint64_t *sequence);

/* The sequence of one request: what is drawn for it does not depend on what was drawn for others.
 */
uint64_t weir_draw_sequence(uint64_t seed, uint64_t number);

/* 0 <= x < 1. */
double weir_draw_uniform(uint64_t *sequence);

/* Half of them are below the median; ln x deviates by `spread`. Always takes two numbers. */
double weir_draw_lognormal(uint64_t *sequence, double median, double spread);

#endif
