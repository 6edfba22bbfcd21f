/* number.h - the few functions of real numbers that the simulator needs, the same on every machine.
 *
 * A C library's logarithm may differ from another's in the last bit, and from one such bit two runs
 * of the same seed go different ways. These use nothing but the four operations, which IEEE 754
 * defines exactly, and are compiled without fused ones. They are right to about 15 digits. */
#ifndef WEIR_LAB_SIM_NUMBER_H
#define WEIR_LAB_SIM_NUMBER_H

/* Natural logarithm. Requires a finite number above 0. */
double weir_sim_log(double x);

/* e to the power of x; arguments beyond +-700 count as that. */
double weir_sim_exp(double x);

double weir_sim_sqrt(double x); /* requires 0 or more */

static inline double weir_sim_least(double a, double b)
{
    return a < b ? a : b;
}

static inline double weir_sim_most(double a, double b)
{
    return a > b ? a : b;
}

static inline double weir_sim_clamp(double x, double low, double high)
{
    return weir_sim_most(low, weir_sim_least(x, high));
}

#endif
