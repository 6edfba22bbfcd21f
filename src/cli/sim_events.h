/* sim_events.h - the events that a Weir has recorded (docs/reference/events.md), as a trace for the
 * simulator.
 *
 * Who had to wait, and who was not let into the line, is an arrival; the cost is the ticket's. Who
 * passed at once made no event and is missing, so this tells of a gate that was full. */
#ifndef WEIR_CLI_SIM_EVENTS_H
#define WEIR_CLI_SIM_EVENTS_H

#include "config/errors.h"

/* Whether the text looks like events rather than CSV. */
bool weir_sim_is_events(struct weir_slice text);

/* The arrivals as CSV, of malloc's; null, and told, if a line is no event. */
char *weir_sim_events_to_csv(struct weir_slice text, size_t *bytes,
                             struct weir_config_errors *errors);

#endif
