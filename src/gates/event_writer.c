/* event_writer.c - which of a key's events go into the event log, and with which names.
 *
 * Called by any thread under the lock of the key whose event_writer it is; a ticket that an event
 * names is read under that lock, too. */
#include "gates/event_writer.h"

#include "core/key.h"
#include "gates/gate_ticket.h"

/* How long the ticket may wait. */
static uint64_t timeout_of(const struct weir_ticket *ticket)
{
    if (ticket->deadline_ns == WEIR_NEVER) {
        return WEIR_NEVER;
    }
    return ticket->deadline_ns > ticket->entered_ns ? ticket->deadline_ns - ticket->entered_ns : 0;
}

static bool write_down(const struct weir_event_context *state, const struct weir_event *event)
{
    const struct weir_gate_ticket *gate_ticket =
        (const struct weir_gate_ticket *)(uintptr_t)event->tag;
    struct weir_notice notice = {.event = event,
                                 .gate = state->gate,
                                 .key = weir_key_name(state->key),
                                 .timeout_ns = WEIR_NEVER};
    if (gate_ticket != NULL) {
        notice.flow = gate_ticket->flow;
        notice.tenant = gate_ticket->tenant;
        notice.timeout_ns = timeout_of(&gate_ticket->ticket);
    }
    return weir_event_log_write(state->event_log, &notice);
}

/* ---- limits that are learned ---- */

static struct weir_control *find_control(const struct weir_key *key, uint16_t lane_id)
{
    for (uint32_t i = 0; i < key->lane_total; i++) {
        if (key->lanes[i]->id == lane_id) {
            return key->lanes[i]->control;
        }
    }
    return NULL;
}

static void put_off(struct weir_event_writer *event_writer, const struct weir_control *control)
{
    uint64_t due_ns = control->told_ns + WEIR_EVENT_WRITER_INTERVAL_NS;
    event_writer->due_ns =
        event_writer->due_ns == 0 || due_ns < event_writer->due_ns ? due_ns : event_writer->due_ns;
}

/* Whether it comes too soon after the last one of its lane, or back to what that has told; if not,
 * it tells of all that were passed over since. */
static bool is_passed_over(struct weir_event_writer *event_writer, const struct weir_key *key,
                           struct weir_event *event)
{
    struct weir_control *control = find_control(key, event->lane_id);
    if (control == NULL) {
        return false;
    }
    bool soon = control->told_ns != 0 && event->cause != WEIR_LIMIT_SET &&
                event->at_ns < control->told_ns + WEIR_EVENT_WRITER_INTERVAL_NS;
    if (!control->untold) {
        control->untold_from = (uint32_t)event->value;
    }
    control->untold = soon;
    if (soon) {
        put_off(event_writer, control);
        return true;
    }
    if (event->limit == control->untold_from && event->cause != WEIR_LIMIT_SET) {
        return true;
    }
    event->value = control->untold_from;
    control->told_ns = event->at_ns;
    return false;
}

/* Tells where the lane's limit has got to. */
static bool catch_up(struct weir_event_writer *event_writer, const struct weir_event_context *state,
                     const struct weir_lane *lane)
{
    const struct weir_key *key = state->key;
    struct weir_control *control = lane->control;
    if (control == NULL || !control->untold) {
        return false;
    }
    if (key->now_ns < control->told_ns + WEIR_EVENT_WRITER_INTERVAL_NS) {
        put_off(event_writer, control);
        return false;
    }
    control->untold = false;
    if (lane->limit == control->untold_from) {
        return false; /* it is back at the limit of the last event */
    }
    enum weir_limit_reason reason;
    weir_control_limit(control, &reason);
    control->told_ns = key->now_ns;
    struct weir_event event = {.at_ns = key->now_ns,
                               .value = control->untold_from,
                               .active = key->active,
                               .waiting = key->share_heap.tickets,
                               .limit = lane->limit,
                               .lane_id = lane->id,
                               .kind = WEIR_EVENT_LIMIT,
                               .cause = (uint8_t)reason};
    return write_down(state, &event);
}

/* ---- lanes that are paused ---- */

/* The log does not wait, so it may be written to under the key's lock. A pause until another lane
 * has answered is an ordinary step of a request. */
static void log_pause(const struct weir_event_context *state, const struct weir_event *event)
{
    const struct weir_pause_lines *pauses = state->pauses;
    if (pauses == NULL || event->cause == WEIR_PAUSE_FAILING || event->value <= event->at_ns) {
        return;
    }
    bool breaker = event->cause == WEIR_PAUSE_BREAKER;
    struct weir_log_names names = {
        .gate = pauses->gate,
        .key = weir_key_name(state->key),
        .upstream = weir_lane_names_name(pauses->lane_names, pauses->lane_list, event->lane_id)};
    weir_log_rate_limited(pauses->limiter, event->at_ns, breaker ? WEIR_LOG_WARN : WEIR_LOG_INFO,
                          "lane_paused", &names, "Gate `%.*s`: lane %u is paused for %llu ms: %s.",
                          (int)pauses->gate.bytes, pauses->gate.data, event->lane_id,
                          (unsigned long long)((event->value - event->at_ns) / WEIR_NS_PER_MS),
                          breaker ? "too many requests failed there, so its breaker tripped"
                          : event->cause == WEIR_PAUSE_ASKED
                              ? "the upstream refused requests or asked for a pause"
                              : "a caller has set it");
}

/* ---- all of it ---- */

bool weir_event_writer_write(struct weir_event_writer *event_writer,
                             const struct weir_event_context *state, struct weir_event_ring *ring)
{
    const struct weir_key *key = state->key;
    bool wake = false;
    struct weir_event event;
    while (weir_event_ring_pop(ring, &event)) {
        if (event.kind == WEIR_EVENT_PAUSE) {
            log_pause(state, &event);
        }
        if (event.kind != WEIR_EVENT_LIMIT || !is_passed_over(event_writer, key, &event)) {
            wake = write_down(state, &event) || wake;
        }
    }
    if (ring->lost > 0) {
        weir_event_log_skip(state->event_log, ring->lost);
        ring->lost = 0;
    }
    if (event_writer->due_ns != 0 && event_writer->due_ns <= key->now_ns) {
        event_writer->due_ns = 0;
        for (uint32_t i = 0; i < key->lane_total; i++) {
            wake = catch_up(event_writer, state, key->lanes[i]) || wake;
        }
    }
    return wake;
}
