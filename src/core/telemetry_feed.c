#include "weir/telemetry.h"

#include <assert.h>

/* How a permit ended, as a measure. A ticket that was cancelled in line never had one, and its
 * event's outcome is a success, which is all that tells it apart. */
static void measure_end(const struct weir_event *event, struct weir_measure *measure)
{
    measure->outcome = (enum weir_outcome)event->cause;
    if (measure->outcome == WEIR_OUTCOME_SUCCESS) {
        measure->kind = WEIR_MEASURE_TOTAL;
        measure->duration_ns = event->value;
    } else {
        measure->kind = WEIR_MEASURE_ERROR;
    }
}

/* What the event means to a sink. False: nothing. */
static bool measure_event(const struct weir_event *event, const struct weir_control_stats *control,
                          struct weir_measure *measure)
{
    switch ((enum weir_event_kind)event->kind) {
    case WEIR_EVENT_ADMIT:
        measure->kind = WEIR_MEASURE_WAIT;
        measure->duration_ns = event->value;
        return true;
    case WEIR_EVENT_CANCEL:
        measure_end(event, measure);
        return measure->kind == WEIR_MEASURE_ERROR;
    case WEIR_EVENT_LEAVE:
    case WEIR_EVENT_LAPSE:
        measure_end(event, measure);
        return true;
    case WEIR_EVENT_LIMIT:
        measure->kind = WEIR_MEASURE_LIMITER;
        measure->active = event->active;
        measure->control = control;
        return control != NULL;
    default:
        return false;
    }
}

void weir_telemetry_feed(struct weir_telemetry sink, struct weir_event_ring *events,
                         const struct weir_telemetry_source *source)
{
    struct weir_event event;
    assert(sink.tell != NULL);
    while (weir_event_ring_pop(events, &event)) {
        if ((WEIR_EVENTS_MEASURED >> event.kind & 1) == 0) {
            continue;
        }
        struct weir_telemetry_labels labels = {0};
        struct weir_measure measure = {0};
        source->label(source->context, &event, &labels);
        if (measure_event(&event, labels.control, &measure)) {
            measure.provider = labels.provider;
            measure.model = labels.model;
            measure.tenant = labels.tenant;
            sink.tell(sink.context, &measure);
        }
    }
}
