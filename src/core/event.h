/* event.h - writing into rings of events. */
#ifndef WEIR_CORE_EVENT_H
#define WEIR_CORE_EVENT_H

#include "weir/event.h"

/* Keeps the event if the ring wants its kind; the oldest makes room. */
void weir_event_ring_push(struct weir_event_ring *ring, const struct weir_event *event);

/* A ring with its slots in one block, for all kinds of events. Null without memory. */
struct weir_event_ring *weir_recorder_create(uint32_t slot_count,
                                             const struct weir_allocator *allocator);

/* Null is none. */
void weir_recorder_destroy(struct weir_event_ring *recorder,
                           const struct weir_allocator *allocator);

#endif
