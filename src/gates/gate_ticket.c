/* gate_ticket.c - tickets across threads: each call takes the lock of the ticket's key, lets the
 * core decide, and does what that leaves to be done after the lock (gates_internal.h).
 *
 * A ticket belongs to one loop, whose thread calls everything here but what gate_ticket.h lets any
 * loop call (release, renew). No lock is held by the caller. */
#include "gates/gates_internal.h"

#include <assert.h>

/* Runs in the owner's loop after another call has changed the ticket. The owner may have ended it
 * since that change. */
void weir_gate_ticket_arrive(struct weir_post *post)
{
    struct weir_gate_ticket *gate_ticket = weir_container_of(post, struct weir_gate_ticket, post);
    struct weir_key *key = gate_ticket->key;
    weir_key_lock(key);
    gate_ticket->posted = false;
    enum weir_ticket_state state = (enum weir_ticket_state)gate_ticket->ticket.state;
    weir_key_unlock(key);
    if (gate_ticket->gates == NULL) {
        gate_ticket->key = NULL;
        weir_key_give(key);
        gate_ticket->owner->on_change(gate_ticket, WEIR_TICKET_IDLE);
        return;
    }
    gate_ticket->owner->on_change(gate_ticket, state);
}

/* When the wait ends: as it was asked for, but not after the key's own timeout. */
static uint64_t deadline_ns(const struct weir_key *key, uint64_t asked_ns, uint64_t now_ns)
{
    uint64_t timeout_ns = key->rules->settings.timeout_ns;
    uint64_t own_ns = timeout_ns == WEIR_NEVER ? WEIR_NEVER : now_ns + timeout_ns;
    return asked_ns == 0 || own_ns < asked_ns ? own_ns : asked_ns;
}

/* Tells the operator that the gate's table of keys is full: that keys are forgotten before their
 * time, or that a new one was refused. */
static WEIR_COLD void report_full_table(struct weir_gate_entry *entry, uint32_t keys_max,
                                        bool refused, uint64_t now_ns)
{
    int name_bytes = (int)entry->name_bytes;
    struct weir_log_names names = {.gate = {entry->name, entry->name_bytes}};
    if (refused) {
        weir_log_rate_limited(
            &entry->refusing, now_ns, WEIR_LOG_WARN, "gate_keys_refused", &names,
            "gate %.*s: a request with a new key was refused, because all %u keys "
            "(max_keys) are held, waited for, in debt or paused; raise max_keys, "
            "or let the route make fewer keys",
            name_bytes, entry->name, keys_max);
    } else {
        weir_log_rate_limited(&entry->displacing, now_ns, WEIR_LOG_WARN, "gate_keys_full", &names,
                              "gate %.*s: its table of keys is full (max_keys: %u), and the keys "
                              "unused for longest are forgotten before their time; raise max_keys, "
                              "or let the route make fewer keys",
                              name_bytes, entry->name, keys_max);
    }
}

/* Pins the key for the gate ticket. */
static inline enum weir_status take_key(struct weir_gates *gates,
                                        struct weir_gate_ticket *gate_ticket,
                                        const struct weir_destination *where, uint64_t now_ns)
{
    struct weir_gate_entry *entry = gates->entries[where->gate];
    struct weir_key *key;
    pthread_mutex_lock(&entry->lock);
    enum weir_status status = weir_gate_take(entry->gate, where->key, now_ns, &key);
    bool refused = status == WEIR_TOO_MANY_KEYS;
    uint64_t displaced = weir_gate_displaced(entry->gate);
    bool report = refused || displaced != entry->displaced;
    uint32_t keys_max = weir_unlikely(report) ? weir_gate_keys_max(entry->gate) : 0;
    uint64_t room_ns = refused ? weir_gate_room_ns(entry->gate) : WEIR_NEVER;
    entry->displaced = displaced;
    pthread_mutex_unlock(&entry->lock);
    if (weir_unlikely(report)) {
        report_full_table(entry, keys_max, refused, now_ns);
    }
    gate_ticket->gates = gates;
    if (status != WEIR_OK) {
        gate_ticket->ticket.refusal = (uint8_t)status;
        gate_ticket->ticket.retry_at_ns = room_ns;
        return status;
    }
    gate_ticket->key = key;
    gate_ticket->loop_index = where->loop_index;
    return WEIR_OK;
}

/* ---- calls at a ticket's key ---- */

/* A call of the core at a key, which goes through three steps: begin_call() takes the lock,
 * end_decision() collects what the core has decided, and finish_call() lets go of the lock and then
 * does what must not be done under it. */
struct key_call {
    struct weir_key *key;
    uint64_t now_ns;
    struct weir_key_work work;
};

static inline struct key_call begin_call(const struct weir_gate_ticket *gate_ticket,
                                         uint32_t loop_index)
{
    struct weir_gates *gates = gate_ticket->gates;
    struct key_call call = {.key = gate_ticket->key,
                            .now_ns = weir_gates_loop_of(gates, loop_index)->now_ns,
                            .work = weir_key_work_begin(gates, loop_index)};
    weir_key_lock(call.key);
    return call;
}

static inline void end_decision(struct key_call *call)
{
    weir_key_work_collect(call->key, &call->work);
}

static inline void finish_call(struct key_call *call)
{
    weir_key_unlock(call->key);
    weir_key_work_run(call->key, &call->work);
}

enum weir_admission weir_gate_ticket_enter(struct weir_gates *gates,
                                           struct weir_gate_ticket *gate_ticket,
                                           const struct weir_destination *where,
                                           const struct weir_request *request)
{
    uint64_t now_ns = weir_gates_loop_of(gates, where->loop_index)->now_ns;
    if (take_key(gates, gate_ticket, where, now_ns) != WEIR_OK) {
        return WEIR_REFUSED;
    }
    struct weir_key_work work = weir_key_work_begin(gates, where->loop_index);
    struct weir_key *key = gate_ticket->key;
    struct weir_request bounded = *request;
    bounded.tag = (uintptr_t)gate_ticket;
    struct weir_key_state *state = weir_key_state_of(key);
    pthread_mutex_lock(&state->lock);
    state->gate = where->gate;
    state->lane_names =
        where->lane_names != 0 ? where->lane_names : state->lane_names; /* the API knows of none */
    bounded.deadline_ns = deadline_ns(key, request->deadline_ns, now_ns);
    enum weir_admission verdict =
        weir_key_enter(key, &gate_ticket->ticket, &bounded, now_ns, &work.news);
    if (verdict == WEIR_ADMITTED) {
        weir_histogram_add_zero(&state->waits);
    }
    if (verdict != WEIR_REFUSED) {
        weir_key_list_ticket(state, gate_ticket);
    }
    weir_key_work_collect(key, &work);
    pthread_mutex_unlock(&state->lock);
    weir_key_work_run(key, &work);
    if (verdict == WEIR_WAITING && atomic_load(&state->resting_count) > 0) {
        gates->make_room(gates->make_room_context, key, gate_ticket, where->loop_index);
    }
    return verdict;
}

enum weir_status weir_gate_ticket_visit(struct weir_gates *gates,
                                        struct weir_gate_ticket *gate_ticket,
                                        const struct weir_destination *where, uint64_t asked_ns)
{
    uint64_t now_ns = weir_gates_loop_of(gates, where->loop_index)->now_ns;
    enum weir_status status = take_key(gates, gate_ticket, where, now_ns);
    if (status == WEIR_OK) {
        weir_key_lock(gate_ticket->key);
        weir_key_state_of(gate_ticket->key)->lane_names = where->lane_names; /* of a route */
        gate_ticket->ticket.deadline_ns = deadline_ns(gate_ticket->key, asked_ns, now_ns);
        weir_key_unlock(gate_ticket->key);
    }
    return status;
}

void weir_gate_ticket_close(struct weir_gate_ticket *gate_ticket)
{
    assert(!gate_ticket->posted);
    if (gate_ticket->key != NULL) {
        weir_key_give(gate_ticket->key);
    }
    gate_ticket->key = NULL;
    gate_ticket->gates = NULL;
}

enum weir_status weir_gate_ticket_extend(struct weir_gate_ticket *gate_ticket, uint64_t until_ns)
{
    struct key_call call = begin_call(gate_ticket, gate_ticket->loop_index);
    enum weir_status status =
        weir_key_extend(call.key, &gate_ticket->ticket, until_ns, call.now_ns, &call.work.news);
    end_decision(&call);
    finish_call(&call);
    return status;
}

void weir_gate_ticket_hear(struct weir_gate_ticket *gate_ticket, const struct weir_reply *reply)
{
    struct key_call call = begin_call(gate_ticket, gate_ticket->loop_index);
    enum weir_status status =
        weir_key_hear(call.key, &gate_ticket->ticket, reply, call.now_ns, &call.work.news);
    assert(status == WEIR_OK || status == WEIR_NOT_HELD);
    end_decision(&call);
    finish_call(&call);
}

void weir_gate_ticket_progress(struct weir_gate_ticket *gate_ticket, uint32_t output)
{
    struct key_call call = begin_call(gate_ticket, gate_ticket->loop_index);
    enum weir_status status =
        weir_key_progress(call.key, &gate_ticket->ticket, output, call.now_ns, &call.work.news);
    assert(status == WEIR_OK || status == WEIR_NOT_HELD);
    end_decision(&call);
    finish_call(&call);
}

/* After the owner's own call has ended the ticket: closed at once, or when the post that is under
 * way arrives. */
static bool close_after(struct weir_gate_ticket *gate_ticket, bool posted)
{
    if (posted) {
        gate_ticket->gates = NULL;
        return false;
    }
    weir_gate_ticket_close(gate_ticket);
    return true;
}

bool weir_gate_ticket_leave(struct weir_gate_ticket *gate_ticket, const struct weir_result *result)
{
    struct key_call call = begin_call(gate_ticket, gate_ticket->loop_index);
    enum weir_status status =
        weir_key_leave(call.key, &gate_ticket->ticket, result, call.now_ns, &call.work.news);
    assert(status == WEIR_OK || status == WEIR_NOT_HELD);
    weir_key_unlist_ticket(gate_ticket);
    end_decision(&call);
    bool posted = gate_ticket->posted;
    finish_call(&call);
    return close_after(gate_ticket, posted);
}

bool weir_gate_ticket_cancel(struct weir_gate_ticket *gate_ticket)
{
    struct key_call call = begin_call(gate_ticket, gate_ticket->loop_index);
    enum weir_status status =
        weir_key_cancel(call.key, &gate_ticket->ticket, call.now_ns, &call.work.news);
    assert(status == WEIR_OK || status == WEIR_NOT_HELD);
    weir_key_unlist_ticket(gate_ticket);
    end_decision(&call);
    bool posted = gate_ticket->posted;
    finish_call(&call);
    return close_after(gate_ticket, posted);
}

enum weir_status weir_gate_ticket_release(struct weir_gate_ticket *gate_ticket,
                                          const struct weir_result *result, uint32_t loop_index)
{
    struct key_call call = begin_call(gate_ticket, loop_index);
    enum weir_status status =
        weir_key_leave(call.key, &gate_ticket->ticket, result, call.now_ns, &call.work.news);
    if (status == WEIR_OK) {
        weir_key_unlist_ticket(gate_ticket);
    }
    end_decision(&call);
    assert(status != WEIR_OK || !gate_ticket->posted);
    finish_call(&call);
    if (status == WEIR_OK) {
        weir_gate_ticket_close(gate_ticket);
    }
    return status;
}

enum weir_status weir_gate_ticket_renew(struct weir_gate_ticket *gate_ticket, uint64_t lease_ns,
                                        uint32_t loop_index)
{
    struct key_call call = begin_call(gate_ticket, loop_index);
    enum weir_status status =
        weir_key_renew(call.key, &gate_ticket->ticket, lease_ns, call.now_ns, &call.work.news);
    end_decision(&call);
    finish_call(&call);
    return status;
}

void weir_gate_ticket_hear_retry_after(struct weir_gate_ticket *gate_ticket,
                                       const struct weir_reply *reply)
{
    struct key_call call = begin_call(gate_ticket, gate_ticket->loop_index);
    weir_key_hear_retry_after(call.key, gate_ticket->ticket.lane_id, reply, call.now_ns,
                              &call.work.news);
    end_decision(&call);
    finish_call(&call);
}

enum weir_status weir_gate_ticket_set_lease(struct weir_gate_ticket *gate_ticket, uint64_t lease_ns,
                                            uint32_t loop_index)
{
    struct key_call call = begin_call(gate_ticket, loop_index);
    enum weir_status status =
        weir_key_set_lease(call.key, &gate_ticket->ticket, lease_ns, call.now_ns, &call.work.news);
    end_decision(&call);
    finish_call(&call);
    return status;
}

/* Whether the key has a lane besides this one that is not paused; and until when this one is. While
 * all of the key is paused by hand it has none. */
static bool has_other_way(const struct weir_key *key, uint16_t lane_id, uint64_t now_ns,
                          uint64_t *paused_until_ns)
{
    bool open = false;
    struct weir_lane_stats lane;
    for (uint32_t i = 0; weir_key_get_lane(key, i, now_ns, &lane); i++) {
        if (lane.id == lane_id) {
            *paused_until_ns = lane.paused_until_ns;
        } else {
            open = open || (lane.paused_until_ns == 0 && lane.limit > 0);
        }
    }
    return open && !weir_key_is_paused(key);
}

bool weir_gate_ticket_avoid(struct weir_gate_ticket *gate_ticket, uint64_t until_ns)
{
    struct weir_gates *gates = gate_ticket->gates;
    struct weir_key *key = gate_ticket->key;
    uint16_t lane_id = gate_ticket->ticket.lane_id;
    uint64_t now_ns = weir_gates_loop_of(gates, gate_ticket->loop_index)->now_ns;
    struct weir_key_work work = weir_key_work_begin(gates, gate_ticket->loop_index);
    uint64_t paused_until_ns = WEIR_NEVER; /* a lane that is gone needs no pause */
    weir_key_lock(key);
    bool moves = gate_ticket->ticket.state == WEIR_TICKET_ADMITTED &&
                 has_other_way(key, lane_id, now_ns, &paused_until_ns);
    bool pauses = moves && paused_until_ns < until_ns;
    if (pauses) {
        enum weir_status status = weir_key_pause(key, lane_id, until_ns, now_ns, &work.news);
        assert(status == WEIR_OK || status == WEIR_NO_LANE); /* a reload may have retired it */
        weir_key_work_collect(key, &work);
    }
    weir_key_unlock(key);
    if (pauses) {
        weir_key_work_run(key, &work);
    }
    return moves;
}

bool weir_gate_ticket_may_change_lane(struct weir_gate_ticket *gate_ticket, uint64_t lanes_tried,
                                      uint64_t deadline_ns, uint64_t until_ns)
{
    struct weir_gates *gates = gate_ticket->gates;
    struct weir_key *key = gate_ticket->key;
    struct weir_ticket *ticket = &gate_ticket->ticket;
    uint64_t now_ns = weir_gates_loop_of(gates, gate_ticket->loop_index)->now_ns;
    struct weir_key_work work = weir_key_work_begin(gates, gate_ticket->loop_index);
    weir_key_lock(key);
    enum weir_other_lane other = weir_key_other_lane(key, ticket, lanes_tried, now_ns);
    if (other == WEIR_OTHER_LANE_FULL && !weir_key_may_rejoin(key, ticket, deadline_ns)) {
        other = WEIR_OTHER_LANE_NONE;
    }
    if (other == WEIR_OTHER_LANE_FULL) {
        weir_key_pause_failing(key, ticket, until_ns, now_ns, &work.news);
        weir_key_work_collect(key, &work);
    }
    weir_key_unlock(key);
    if (other == WEIR_OTHER_LANE_FULL) {
        weir_key_work_run(key, &work);
    }
    return other != WEIR_OTHER_LANE_NONE;
}

struct weir_key_stats weir_gate_ticket_stats(const struct weir_gate_ticket *gate_ticket)
{
    return weir_gates_stats(gate_ticket->key);
}

struct weir_share weir_gate_ticket_share(const struct weir_gate_ticket *gate_ticket)
{
    struct weir_share share = {0};
    if (gate_ticket->key == NULL ||
        gate_ticket->gates == NULL) { /* it was given back, or never entered */
        return share;
    }
    uint64_t now_ns = weir_gates_loop_of(gate_ticket->gates, gate_ticket->loop_index)->now_ns;
    weir_key_lock(gate_ticket->key);
    if (!weir_key_get_share(gate_ticket->key, &gate_ticket->ticket, now_ns, &share)) {
        share = weir_key_tenant_share(gate_ticket->key, gate_ticket->tenant, now_ns);
    }
    weir_key_unlock(gate_ticket->key);
    return share;
}

uint64_t weir_gate_ticket_predict(const struct weir_gate_ticket *gate_ticket)
{
    uint64_t now_ns = weir_gates_loop_of(gate_ticket->gates, gate_ticket->loop_index)->now_ns;
    weir_key_lock(gate_ticket->key);
    uint64_t wait_ns = weir_key_predict(gate_ticket->key, gate_ticket->tenant,
                                        (enum weir_priority)gate_ticket->ticket.priority, now_ns);
    weir_key_unlock(gate_ticket->key);
    return wait_ns;
}
