/* policies.h - the policies there are, each in a file of its own. */
#ifndef WEIR_LAB_SIM_POLICIES_H
#define WEIR_LAB_SIM_POLICIES_H

#include "lab/sim/world.h"

extern const struct weir_sim_policy weir_sim_policy_truth;
extern const struct weir_sim_policy weir_sim_policy_low;
extern const struct weir_sim_policy weir_sim_policy_high;
extern const struct weir_sim_policy weir_sim_policy_published;
extern const struct weir_sim_policy weir_sim_policy_vegas;
extern const struct weir_sim_policy weir_sim_policy_gradient2;
extern const struct weir_sim_policy weir_sim_policy_envoy;
extern const struct weir_sim_policy weir_sim_policy_backoff;
extern const struct weir_sim_policy weir_sim_policy_aimd;
extern const struct weir_sim_policy weir_sim_policy_learned;

/* The published formulas, for their policies and their tests. */

/* Vegas (Netflix): the next limit after one reply. */
double weir_sim_vegas_next(double limit, double rtt_least_s, double rtt_s, bool dropped);

/* Gradient2 (Netflix): the next limit, from the long and the last round trip. */
double weir_sim_gradient2_next(double limit, double rtt_long_s, double rtt_s);

/* Envoy's gradient controller: the next limit after a window of samples. */
double weir_sim_envoy_next(double limit, double rtt_least_s, double rtt_s);

#endif
