/* event_line.c - a note of the event log becomes a line of JSON, in the words of Weir and, where a
 * gate asks for that, in those of A2A. It keeps no state, and any thread may call it. */
#define _GNU_SOURCE
#include "gates/event_line.h"

#include "base/clock.h"
#include "gates/refusal.h"

#include <assert.h>
#include <time.h>

const char *weir_event_type_name(enum weir_event_type type)
{
    static const char *const names[WEIR_EVENT_TYPE_COUNT] = {
        [WEIR_EVENT_TYPE_THROTTLE] = "gate.throttle",
        [WEIR_EVENT_TYPE_TIMEOUT] = "gate.timeout",
        [WEIR_EVENT_TYPE_REFUSED] = "gate.refused",
        [WEIR_EVENT_TYPE_CANCELLED] = "gate.cancelled",
        [WEIR_EVENT_TYPE_LIMIT] = "gate.limit",
        [WEIR_EVENT_TYPE_PAUSED] = "gate.paused",
        [WEIR_EVENT_TYPE_EXPIRED] = "lease.expired",
        [WEIR_EVENT_TYPE_A2A_THROTTLE] = "a2a.concurrency.throttle",
        [WEIR_EVENT_TYPE_A2A_TIMEOUT] = "a2a.concurrency.timeout",
        [WEIR_EVENT_TYPE_JOB_DONE] = "job.done",
        [WEIR_EVENT_TYPE_JOB_FAILED] = "job.failed",
        [WEIR_EVENT_TYPE_JOB_CANCELLED] = "job.cancelled",
        [WEIR_EVENT_TYPE_JOB_RETRY] = "job.retry",
    };
    assert((unsigned)type < WEIR_EVENT_TYPE_COUNT);
    return names[type];
}

uint64_t weir_event_epoch_ns(void)
{
    return weir_wall_ns() - weir_clock_ns();
}

/* A ticket that could not wait at all is one whose time was over at once. */
static enum weir_event_type type_of(const struct weir_event *event)
{
    switch ((enum weir_event_kind)event->kind) {
    case WEIR_EVENT_THROTTLE:
        return WEIR_EVENT_TYPE_THROTTLE;
    case WEIR_EVENT_TIMEOUT:
        return WEIR_EVENT_TYPE_TIMEOUT;
    case WEIR_EVENT_REFUSE:
        return event->cause == WEIR_TIMED_OUT ? WEIR_EVENT_TYPE_TIMEOUT : WEIR_EVENT_TYPE_REFUSED;
    case WEIR_EVENT_DISPLACE:
        return WEIR_EVENT_TYPE_REFUSED;
    case WEIR_EVENT_CANCEL:
        return WEIR_EVENT_TYPE_CANCELLED;
    case WEIR_EVENT_LIMIT:
        return WEIR_EVENT_TYPE_LIMIT;
    case WEIR_EVENT_PAUSE:
        return WEIR_EVENT_TYPE_PAUSED;
    case WEIR_EVENT_LAPSE:
        return WEIR_EVENT_TYPE_EXPIRED;
    default:
        break;
    }
    assert(false); /* the others are not listened to */
    return WEIR_EVENT_TYPE_COUNT;
}

static uint64_t ms_of(uint64_t ns)
{
    return ns / WEIR_NS_PER_MS;
}

static void begin(struct weir_json *json, enum weir_event_type type)
{
    json->comma = false;
    weir_json_open(json, '{');
    weir_json_put_string(json, "type", weir_slice_of(weir_event_type_name(type)));
}

static void finish(struct weir_json *json, uint64_t at_ns)
{
    weir_json_put_number(json, "timestamp", ms_of(at_ns));
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
}

static void put_limit(struct weir_json *json, const char *name, uint32_t limit)
{
    if (limit == WEIR_LIMIT_NONE) {
        weir_json_put_null(json, name);
    } else {
        weir_json_put_number(json, name, limit);
    }
}

static void put_timeout(struct weir_json *json, const char *name, uint64_t timeout_ns)
{
    if (timeout_ns == WEIR_NEVER) {
        weir_json_put_null(json, name);
    } else {
        weir_json_put_number(json, name, ms_of(timeout_ns));
    }
}

static const char *pause_reason(enum weir_pause_reason reason)
{
    switch (reason) {
    case WEIR_PAUSE_BREAKER:
        return "breaker";
    case WEIR_PAUSE_SET: /* by weir_gate_ticket_avoid(), the only caller that sets one */
        return "unreachable";
    case WEIR_PAUSE_FAILING:
        return "failing";
    default:
        return "upstream";
    }
}

/* What only events of this type tell. */
static void put_details(struct weir_json *json, const struct weir_note *note,
                        enum weir_event_type type)
{
    const struct weir_event *event = &note->event;
    switch (type) {
    case WEIR_EVENT_TYPE_TIMEOUT:
        weir_json_put_number(json, "waited_ms", ms_of(event->value));
        put_timeout(json, "timeout_ms", note->timeout_ns);
        break;
    case WEIR_EVENT_TYPE_REFUSED: {
        bool displaced = event->kind == WEIR_EVENT_DISPLACE;
        enum weir_problem_kind why =
            displaced ? WEIR_PROBLEM_DISPLACED : weir_refusal_kind((enum weir_status)event->cause);
        weir_json_put_string(json, "reason", weir_slice_of(weir_problem_name(why)));
        weir_json_put_number(json, "waited_ms", displaced ? ms_of(event->value) : 0);
        break;
    }
    case WEIR_EVENT_TYPE_CANCELLED:
        weir_json_put_number(json, "after_ms", ms_of(event->value));
        break;
    case WEIR_EVENT_TYPE_EXPIRED:
        weir_json_put_number(json, "held_ms", ms_of(event->value));
        break;
    case WEIR_EVENT_TYPE_LIMIT:
        weir_json_put_number(json, "lane", event->lane_id);
        put_limit(json, "before", (uint32_t)event->value);
        weir_json_put_string(
            json, "reason",
            weir_slice_of(weir_limit_reason_name((enum weir_limit_reason)event->cause)));
        break;
    case WEIR_EVENT_TYPE_PAUSED:
        weir_json_put_number(json, "lane", event->lane_id);
        weir_json_put_number(json, "for_ms",
                             event->value > event->at_ns ? ms_of(event->value - event->at_ns) : 0);
        weir_json_put_string(json, "reason",
                             weir_slice_of(pause_reason((enum weir_pause_reason)event->cause)));
        break;
    default:
        break;
    }
}

static void put_ticket(struct weir_json *json, const struct weir_event *event,
                       const struct weir_note_names *names)
{
    weir_json_put_string(json, "flow", names->flow);
    weir_json_put_string(json, "tenant", names->tenant);
    weir_json_put_string(json, "priority",
                         weir_slice_of(weir_priority_name((enum weir_priority)event->priority)));
    weir_json_put_number(json, "cost", event->cost);
}

static_assert(6 * (3 * (size_t)WEIR_NAME_BYTES_MAX + WEIR_NOTE_ERROR_BYTES_MAX) + 512 <=
                  WEIR_EVENT_LINES_MAX,
              "the line of a note with a kind fits");

static void put_own(struct weir_json *json, const struct weir_note *note,
                    const struct weir_gates *gates, uint64_t epoch_ns)
{
    const struct weir_event *event = &note->event;
    struct weir_note_names names = weir_note_names_of(note);
    enum weir_event_type type = type_of(event);
    begin(json, type);
    weir_json_put_string(json, "gate", weir_gates_name(gates, note->gate));
    weir_json_put_string(json, "key", names.key);
    if (event->tag != 0) {
        put_ticket(json, event, &names);
    }
    weir_json_put_number(json, "active", event->active);
    weir_json_put_number(json, "waiting", event->waiting);
    put_limit(json, "limit", event->limit);
    put_details(json, note, type);
    finish(json, event->at_ns + epoch_ns);
}

/* Writes an event in the words of A2A, the protocol between agents. */
static void put_a2a(struct weir_json *json, const struct weir_note *note, enum weir_event_type type,
                    uint64_t epoch_ns)
{
    const struct weir_event *event = &note->event;
    struct weir_note_names names = weir_note_names_of(note);
    begin(json, type);
    weir_json_put_string(json, "agentId", names.key);
    weir_json_put_string(json, "flowId", names.flow);
    weir_json_put_number(json, "activeCount", event->active);
    if (type == WEIR_EVENT_TYPE_A2A_THROTTLE) {
        weir_json_put_number(json, "queuedCount", event->waiting);
        put_limit(json, "maxConcurrentFlows", event->limit);
    } else {
        put_timeout(json, "queueTimeoutMs", note->timeout_ns);
    }
    finish(json, event->at_ns + epoch_ns);
}

static void put_other(struct weir_json *json, const struct weir_note *note, uint64_t epoch_ns)
{
    begin(json, (enum weir_event_type)note->kind->type);
    note->kind->put(json, note);
    finish(json, note->event.at_ns + epoch_ns);
}

void weir_event_lines(struct weir_json *json, const struct weir_note *note,
                      const struct weir_gates *gates, uint32_t types, uint64_t epoch_ns)
{
    if (note->kind != NULL) {
        if ((types >> note->kind->type & 1) != 0) {
            put_other(json, note, epoch_ns);
        }
        return;
    }
    enum weir_event_type own = type_of(&note->event);
    enum weir_event_type other = own == WEIR_EVENT_TYPE_THROTTLE  ? WEIR_EVENT_TYPE_A2A_THROTTLE
                                 : own == WEIR_EVENT_TYPE_TIMEOUT ? WEIR_EVENT_TYPE_A2A_TIMEOUT
                                                                  : WEIR_EVENT_TYPE_COUNT;
    if ((types >> own & 1) != 0) {
        put_own(json, note, gates, epoch_ns);
    }
    if ((types >> other & 1) != 0 && weir_gates_speak_a2a(gates, note->gate)) {
        put_a2a(json, note, other, epoch_ns);
    }
}

void weir_event_missed(struct weir_json *json, uint64_t count, uint64_t epoch_ns)
{
    json->comma = false;
    weir_json_open(json, '{');
    weir_json_put_string(json, "type", weir_slice_of("events.missed"));
    weir_json_put_number(json, "count", count);
    finish(json, weir_clock_ns() + epoch_ns);
}
