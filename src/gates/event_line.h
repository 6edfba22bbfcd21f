/* event_line.h - a note of the event log as JSON, one object a line: what /events and the event
 * file are made of. docs/reference/events.md names every field. */
#ifndef WEIR_GATES_EVENT_LINE_H
#define WEIR_GATES_EVENT_LINE_H

#include "gates/gate_ticket.h"
#include "wire/json_writer.h"

enum weir_event_type {
    WEIR_EVENT_TYPE_THROTTLE,
    WEIR_EVENT_TYPE_TIMEOUT,
    WEIR_EVENT_TYPE_REFUSED,
    WEIR_EVENT_TYPE_CANCELLED,
    WEIR_EVENT_TYPE_LIMIT,
    WEIR_EVENT_TYPE_PAUSED,
    WEIR_EVENT_TYPE_EXPIRED,
    WEIR_EVENT_TYPE_A2A_THROTTLE, /* of gates that speak so */
    WEIR_EVENT_TYPE_A2A_TIMEOUT,
    WEIR_EVENT_TYPE_JOB_DONE,
    WEIR_EVENT_TYPE_JOB_FAILED,
    WEIR_EVENT_TYPE_JOB_CANCELLED,
    WEIR_EVENT_TYPE_JOB_RETRY,
    WEIR_EVENT_TYPE_COUNT
};

#define WEIR_EVENT_TYPES_ALL ((1u << WEIR_EVENT_TYPE_COUNT) - 1u)

/* All lines of one note, and one of those missed before it: each name may be six times as long in
 * JSON, and stands in two lines. */
#define WEIR_EVENT_LINES_MAX (2 * (6 * 4 * (size_t)WEIR_NAME_BYTES_MAX + 512))

/* "gate.throttle", ... */
const char *weir_event_type_name(enum weir_event_type type);

/* What has to be added to the loops' time to make it the time since 1970. */
uint64_t weir_event_epoch_ns(void);

/* Writes the note's lines of these types. */
void weir_event_lines(struct weir_json *json, const struct weir_note *note,
                      const struct weir_gates *gates, uint32_t types, uint64_t epoch_ns);

/* The line that says how many a reader has missed. */
void weir_event_missed(struct weir_json *json, uint64_t count, uint64_t epoch_ns);

#endif
