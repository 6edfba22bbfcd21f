#include "core/event.h"

#include "base/alloc.h"

#include <assert.h>

static_assert(sizeof(struct weir_event) == 64, "a record is one cache line");

void weir_event_ring_init(struct weir_event_ring *ring, struct weir_event *slots,
                          uint32_t slot_count, uint32_t kinds)
{
    assert(slots != NULL);
    assert(slot_count >= 1);
    *ring = (struct weir_event_ring){.slots = slots, .slot_count = slot_count, .kinds = kinds};
}

void weir_event_ring_push(struct weir_event_ring *ring, const struct weir_event *event)
{
    if ((ring->kinds >> event->kind & 1) == 0) {
        return;
    }
    if (ring->written - ring->read == ring->slot_count) {
        ring->read++;
        ring->lost++;
    }
    ring->slots[ring->written % ring->slot_count] = *event;
    ring->written++;
}

bool weir_event_ring_pop(struct weir_event_ring *ring, struct weir_event *event)
{
    if (ring->read == ring->written) {
        return false;
    }
    *event = ring->slots[ring->read % ring->slot_count];
    ring->read++;
    return true;
}

const char *weir_event_kind_name(enum weir_event_kind kind)
{
    static const char *const names[WEIR_EVENT_KIND_COUNT] = {
        [WEIR_EVENT_THROTTLE] = "throttle", [WEIR_EVENT_ADMIT] = "admit",
        [WEIR_EVENT_LEAVE] = "leave",       [WEIR_EVENT_CANCEL] = "cancel",
        [WEIR_EVENT_TIMEOUT] = "timeout",   [WEIR_EVENT_REFUSE] = "refuse",
        [WEIR_EVENT_DISPLACE] = "displace", [WEIR_EVENT_LAPSE] = "lapse",
        [WEIR_EVENT_LIMIT] = "limit",       [WEIR_EVENT_PAUSE] = "pause",
    };
    return (unsigned)kind < WEIR_EVENT_KIND_COUNT ? names[kind] : "unknown";
}

const char *weir_limit_reason_name(enum weir_limit_reason reason)
{
    static const char *const names[WEIR_LIMIT_REASON_COUNT] = {
        [WEIR_LIMIT_SET] = "set",       [WEIR_LIMIT_GROWN] = "grown",
        [WEIR_LIMIT_PROBED] = "probed", [WEIR_LIMIT_REFUSED] = "refused",
        [WEIR_LIMIT_LOST] = "lost",     [WEIR_LIMIT_DELAYED] = "delayed",
    };
    return (unsigned)reason < WEIR_LIMIT_REASON_COUNT ? names[reason] : "unknown";
}

static size_t recorder_bytes(uint32_t slot_count)
{
    return sizeof(struct weir_event_ring) + slot_count * sizeof(struct weir_event);
}

struct weir_event_ring *weir_recorder_create(uint32_t slot_count,
                                             const struct weir_allocator *allocator)
{
    struct weir_event_ring *ring = weir_allocate(allocator, recorder_bytes(slot_count));
    if (ring != NULL) {
        weir_event_ring_init(ring, (struct weir_event *)(ring + 1), slot_count, WEIR_EVENTS_ALL);
    }
    return ring;
}

void weir_recorder_destroy(struct weir_event_ring *recorder, const struct weir_allocator *allocator)
{
    if (recorder != NULL) {
        weir_release(allocator, recorder, recorder_bytes(recorder->slot_count));
    }
}
