/* event_file.h - events appended to a file, which is rotated by size.
 *
 * A thread of its own reads the event log and writes, so that a slow disk, or a full one, does
 * not slow the loops: then lines are lost, and the file says how many. */
#ifndef WEIR_GATES_EVENT_FILE_H
#define WEIR_GATES_EVENT_FILE_H

#include "config/config.h"
#include "gates/gate_ticket.h"

struct weir_event_file;

/* Begins to write what happens from now on. Null, with a sentence that says why, if it cannot. */
struct weir_event_file *weir_event_file_open(const struct weir_config_events *config,
                                             struct weir_gates *gates, const char **wrong);

/* Takes up a config with the same path, and opens the file again if it has been moved. */
void weir_event_file_refresh(struct weir_event_file *file, const struct weir_config_events *config);

bool weir_event_file_is(const struct weir_event_file *file, struct weir_slice path);

/* Writes what is still to be written. Null is fine. */
void weir_event_file_close(struct weir_event_file *file);

#endif
