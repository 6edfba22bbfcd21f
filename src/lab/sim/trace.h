/* trace.h - yesterday's requests instead of made-up ones: a CSV file of arrivals.
 *
 *     time,tenant,input,output,max_tokens
 *     0.000,acme,812,240,1024
 *     0.125,globex,95,17,256
 *
 * or, where only the sum of input and output is known, `time,tenant,cost`; the output is then
 * drawn.
 *
 * The first line names the columns, in any order; max_tokens may be missing, or empty in a row, and
 * columns of other names are skipped. `time` is in seconds from any origin, with up to nine digits
 * behind the point; rows may come in any order. A tenant that the scenario names is that one, any
 * other is like the scenario's tenant `default` if there is one. */
#ifndef WEIR_LAB_SIM_TRACE_H
#define WEIR_LAB_SIM_TRACE_H

#include "config/errors.h"
#include "lab/sim/scenario.h"

#define WEIR_SIM_TRACE_BYTES_MAX (UINT64_C(1) << 30)
#define WEIR_SIM_TRACE_ROWS_MAX  UINT32_C(5000000)

/* What follows the last arrival. */
#define WEIR_SIM_TRACE_TAIL_NS WEIR_NS_PER_MINUTE

/* Takes the arrivals into the scenario, which lasts as long as they do; its tenants become those of
 * the trace. Needs memory of the scenario's arena. False, and a mistake told, if it is no trace;
 * the scenario is then good for nothing but weir_sim_scenario_destroy(). */
WEIR_MUST_CHECK bool weir_sim_trace_read(struct weir_sim_scenario *scenario, struct weir_slice text,
                                         struct weir_config_errors *errors);

#endif
