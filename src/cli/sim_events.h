/* sim_events.h - converts recorded events (docs/reference/events.md) into a trace for the
 * simulator.
 *
 * Each request that had to wait or was refused is an arrival with its ticket's cost. A request that
 * passed at once made no event and is missing, so the trace suits a gate that was full. */
#ifndef WEIR_CLI_SIM_EVENTS_H
#define WEIR_CLI_SIM_EVENTS_H

#include "config/errors.h"

/* Whether the text looks like events rather than CSV. */
bool weir_sim_is_events(struct weir_slice text);

/* The arrivals as CSV, in memory from malloc(); null, with an error noted, if a line is not an
 * event. */
char *weir_sim_events_to_csv(struct weir_slice text, size_t *bytes,
                             struct weir_config_errors *errors);

#endif
