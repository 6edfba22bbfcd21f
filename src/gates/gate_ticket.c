#include "gates/gate_ticket.h"

#include "base/alloc.h"
#include "base/hints.h"
#include "base/list.h"
#include "base/slice.h"
#include "core/key.h"
#include "gates/event_writer.h"
#include "gates/rate_limited_log.h"

#include <assert.h>
#include <pthread.h>

/* How many keys of each gate a sweep looks at. */
#define SWEEP_KEYS 128

/* One loop's timer for one key. A loop sets it when its own call has learned of a moment earlier
 * than any that a loop looks after. */
struct alarm {
    struct weir_timer timer;
    struct weir_gates *gates;
    struct weir_key *key; /* pinned while the timer is set; else null */
    uint32_t loop_index;
};

/* How many events one call may bring; more are counted as missed. A call decides on a batch of
 * tickets at most, but for displacement by summed cost. */
#define EARSHOT (WEIR_BATCH_MAX + 64)

/* What a loop's calls have decided, until it is in the event log. */
struct ears {
    struct weir_event_ring ring;
    struct weir_event slots[EARSHOT];
};

/* What the gates keep with each key; zeroed at first. */
struct key_state {
    pthread_mutex_t lock; /* zeroed is what PTHREAD_MUTEX_INITIALIZER makes of it */
    uint32_t gate;        /* whose key it is */
    uint32_t lane_names;  /* where its lanes lead, or 0; under the lock */
    uint64_t armed_ns;    /* the earliest moment that a loop looks after, or 0; under the lock */
    struct weir_histogram waits;           /* of those who were admitted; under the lock */
    struct weir_event_writer event_writer; /* under the lock */
    struct alarm alarms[];                 /* one for each loop, which alone uses it */
};

struct entrance {
    pthread_mutex_t lock; /* of the table of keys */
    struct weir_gate *gate;
    struct weir_monotonic_sum rest; /* under the lock */
    atomic_bool a2a;
    uint64_t displaced; /* weir_gate_displaced() when it was last reported; under the lock */
    struct weir_rate_limited_log displacing;
    struct weir_rate_limited_log refusing;
    size_t name_bytes;
    char name[];
};

/* Entrances are added and never taken away; whoever sees the count sees what it counts. */
struct weir_gates {
    struct weir_gates_options options;
    struct ears *ears; /* one for each loop */
    struct weir_lane_names lane_names;
    atomic_uint count;
    struct entrance *entrances[WEIR_GATES_MAX];
};

static struct key_state *state_of(const struct weir_key *key)
{
    return weir_key_extra((struct weir_key *)key);
}

static void lock_key(const struct weir_key *key)
{
    pthread_mutex_lock(&state_of(key)->lock);
}

static void unlock_key(const struct weir_key *key)
{
    pthread_mutex_unlock(&state_of(key)->lock);
}

static struct weir_loop *loop_of(const struct weir_gates *gates, uint32_t loop_index)
{
    return gates->options.loops[loop_index];
}

/* ---- what a call leaves to be done once the lock is let go ---- */

struct deferred_work {
    struct weir_news news;
    struct weir_gates *gates;
    uint32_t loop_index;     /* of the loop that calls */
    struct weir_post *posts; /* a chain of passes that somebody's loop has to be told of */
    bool arm;
    bool wake; /* somebody sleeps who reads the event log */
};

static void arrive(struct weir_post *post);

static struct deferred_work begin_work(struct weir_gates *gates, uint32_t loop_index)
{
    const struct weir_event_log *event_log = gates->options.event_log;
    bool heard = event_log != NULL && weir_event_log_read_by_any(event_log);
    return (struct deferred_work){.news.events = heard ? &gates->ears[loop_index].ring : NULL,
                                  .gates = gates,
                                  .loop_index = loop_index};
}

/* Marks those in the news, of whom `ticket` is the first, as posted. Whoever is admitted from the
 * line is in the news once, so here its wait is counted. Most calls have no news, and do not pay
 * for this. */
static WEIR_APART void collect_news(struct weir_key *key, struct deferred_work *work,
                                    struct weir_ticket *ticket)
{
    struct weir_post **end = &work->posts;
    for (; ticket != NULL; ticket = weir_news_next(&work->news)) {
        struct weir_gate_ticket *gate_ticket =
            weir_container_of(ticket, struct weir_gate_ticket, ticket);
        if (ticket->state == WEIR_TICKET_ADMITTED) {
            weir_histogram_add_since(&state_of(key)->waits, &weir_scale_gate_wait,
                                     ticket->entered_ns, ticket->admitted_ns);
        }
        if (!gate_ticket->posted) {
            gate_ticket->posted = true;
            gate_ticket->post = (struct weir_post){.arrive = arrive};
            *end = &gate_ticket->post;
            end = &gate_ticket->post.next;
        }
    }
}

/* The same for the events. What has to be told later needs a timer, too. */
static WEIR_APART void write_down(struct weir_key *key, struct deferred_work *work)
{
    struct key_state *state = state_of(key);
    struct weir_event_context place = {work->gates->options.event_log, state->gate, key};
    work->wake = weir_event_writer_write(&state->event_writer, &place, work->news.events);
    uint64_t due_ns = state->event_writer.due_ns;
    if (due_ns != 0 && due_ns < work->news.wake_ns) {
        work->news.wake_ns = due_ns;
    }
}

/* Under the lock: takes the news and the events, and sees whether a timer is needed. */
static void collect(struct weir_key *key, struct deferred_work *work)
{
    struct key_state *state = state_of(key);
    struct weir_ticket *first = weir_news_next(&work->news);
    if (first != NULL) {
        collect_news(key, work, first);
    }
    struct weir_event_ring *events = work->news.events;
    if (events != NULL && weir_event_writer_wanted(&state->event_writer, events)) {
        write_down(key, work);
    }
    uint64_t wake_ns = work->news.wake_ns;
    work->arm = wake_ns != WEIR_NEVER && (state->armed_ns == 0 || wake_ns < state->armed_ns);
    if (work->arm) {
        state->armed_ns = wake_ns;
    }
}

static void ring(struct weir_timer *timer);

/* Sets this loop's timer for the key. Without memory for a timer the next call at the key has to
 * do, and to set it. */
static void arm(struct weir_gates *gates, struct weir_key *key, uint32_t loop_index,
                uint64_t wake_ns)
{
    struct weir_loop *loop = loop_of(gates, loop_index);
    struct alarm *alarm = &state_of(key)->alarms[loop_index];
    if (alarm->key == NULL) {
        if (!weir_timer_init(loop, &alarm->timer, ring)) {
            lock_key(key);
            state_of(key)->armed_ns = 0; /* else every later moment would seem to be looked after */
            unlock_key(key);
            return;
        }
        alarm->gates = gates;
        alarm->loop_index = loop_index;
        alarm->key = weir_key_pin(key);
    }
    weir_timer_set(loop, &alarm->timer, wake_ns);
}

static void disarm(struct alarm *alarm)
{
    struct weir_key *key = alarm->key;
    weir_timer_deinit(loop_of(alarm->gates, alarm->loop_index), &alarm->timer);
    alarm->key = NULL;
    weir_key_give(key);
}

/* Without the lock. The caller still pins the key. */
static void run(struct weir_key *key, struct deferred_work *work)
{
    struct weir_gates *gates = work->gates;
    uint32_t loop_index = work->loop_index;
    while (work->posts != NULL) {
        struct weir_post *post = work->posts;
        uint32_t to = weir_container_of(post, struct weir_gate_ticket, post)->loop_index;
        work->posts = post->next;
        if (to == loop_index) {
            weir_loop_defer(loop_of(gates, to), post);
        } else {
            weir_loop_post(loop_of(gates, to), post);
        }
    }
    if (work->arm) {
        arm(gates, key, loop_index, work->news.wake_ns);
    }
    if (weir_unlikely(work->wake)) {
        weir_event_log_wake(gates->options.event_log);
    }
}

static void ring(struct weir_timer *timer)
{
    struct alarm *alarm = weir_container_of(timer, struct alarm, timer);
    struct weir_gates *gates = alarm->gates;
    struct weir_key *key = weir_key_pin(alarm->key);
    uint32_t loop_index = alarm->loop_index;
    struct deferred_work work = begin_work(gates, loop_index);
    disarm(alarm);
    lock_key(key);
    state_of(key)->armed_ns = 0;
    weir_key_wake(key, loop_of(gates, loop_index)->now_ns, &work.news);
    collect(key, &work);
    unlock_key(key);
    run(key, &work);
    weir_key_give(key);
}

/* ---- passes ---- */

/* Another call has changed the ticket; or had, before its owner ended it. */
static void arrive(struct weir_post *post)
{
    struct weir_gate_ticket *gate_ticket = weir_container_of(post, struct weir_gate_ticket, post);
    struct weir_key *key = gate_ticket->key;
    lock_key(key);
    gate_ticket->posted = false;
    enum weir_ticket_state state = (enum weir_ticket_state)gate_ticket->ticket.state;
    unlock_key(key);
    if (gate_ticket->gates == NULL) {
        gate_ticket->key = NULL;
        weir_key_give(key);
        gate_ticket->on_change(gate_ticket, WEIR_TICKET_IDLE);
        return;
    }
    gate_ticket->on_change(gate_ticket, state);
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
static WEIR_COLD void report_full_table(struct entrance *entrance, uint32_t keys_max, bool refused,
                                        uint64_t now_ns)
{
    int name_bytes = (int)entrance->name_bytes;
    if (refused) {
        weir_log_rate_limited(
            &entrance->refusing, now_ns,
            "gate %.*s: a request with a new key was refused, because all %u keys "
            "(max_keys) are held, waited for, in debt or paused; raise max_keys, "
            "or let the route make fewer keys",
            name_bytes, entrance->name, keys_max);
    } else {
        weir_log_rate_limited(&entrance->displacing, now_ns,
                              "gate %.*s: its table of keys is full (max_keys: %u), and the keys "
                              "unused for longest are forgotten before their time; raise max_keys, "
                              "or let the route make fewer keys",
                              name_bytes, entrance->name, keys_max);
    }
}

/* Pins the key for the gate ticket. */
static inline enum weir_status take_key(struct weir_gates *gates,
                                        struct weir_gate_ticket *gate_ticket,
                                        const struct weir_destination *where, uint64_t now_ns)
{
    struct entrance *entrance = gates->entrances[where->gate];
    struct weir_key *key;
    pthread_mutex_lock(&entrance->lock);
    enum weir_status status = weir_gate_take(entrance->gate, where->key, now_ns, &key);
    bool refused = status == WEIR_TOO_MANY_KEYS;
    uint64_t displaced = weir_gate_displaced(entrance->gate);
    bool report = refused || displaced != entrance->displaced;
    uint32_t keys_max = weir_unlikely(report) ? weir_gate_keys_max(entrance->gate) : 0;
    uint64_t room_ns = refused ? weir_gate_room_ns(entrance->gate) : WEIR_NEVER;
    entrance->displaced = displaced;
    pthread_mutex_unlock(&entrance->lock);
    if (weir_unlikely(report)) {
        report_full_table(entrance, keys_max, refused, now_ns);
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
    struct deferred_work work;
};

static inline struct key_call begin_call(const struct weir_gate_ticket *gate_ticket,
                                         uint32_t loop_index)
{
    struct weir_gates *gates = gate_ticket->gates;
    struct key_call call = {.key = gate_ticket->key,
                            .now_ns = loop_of(gates, loop_index)->now_ns,
                            .work = begin_work(gates, loop_index)};
    lock_key(call.key);
    return call;
}

static inline void end_decision(struct key_call *call)
{
    collect(call->key, &call->work);
}

static inline void finish_call(struct key_call *call)
{
    unlock_key(call->key);
    run(call->key, &call->work);
}

enum weir_verdict weir_gate_ticket_enter(struct weir_gates *gates,
                                         struct weir_gate_ticket *gate_ticket,
                                         const struct weir_destination *where,
                                         const struct weir_request *request)
{
    uint64_t now_ns = loop_of(gates, where->loop_index)->now_ns;
    if (take_key(gates, gate_ticket, where, now_ns) != WEIR_OK) {
        return WEIR_REFUSED;
    }
    struct deferred_work work = begin_work(gates, where->loop_index);
    struct weir_key *key = gate_ticket->key;
    struct weir_request bounded = *request;
    bounded.tag = (uintptr_t)gate_ticket;
    struct key_state *state = state_of(key);
    pthread_mutex_lock(&state->lock);
    state->gate = where->gate;
    state->lane_names =
        where->lane_names != 0 ? where->lane_names : state->lane_names; /* the API knows of none */
    bounded.deadline_ns = deadline_ns(key, request->deadline_ns, now_ns);
    enum weir_verdict verdict =
        weir_key_enter(key, &gate_ticket->ticket, &bounded, now_ns, &work.news);
    if (verdict == WEIR_ADMITTED) {
        weir_histogram_add_zero(&state->waits);
    }
    collect(key, &work);
    pthread_mutex_unlock(&state->lock);
    run(key, &work);
    return verdict;
}

enum weir_status weir_gate_ticket_visit(struct weir_gates *gates,
                                        struct weir_gate_ticket *gate_ticket,
                                        const struct weir_destination *where, uint64_t asked_ns)
{
    uint64_t now_ns = loop_of(gates, where->loop_index)->now_ns;
    enum weir_status status = take_key(gates, gate_ticket, where, now_ns);
    if (status == WEIR_OK) {
        lock_key(gate_ticket->key);
        state_of(gate_ticket->key)->lane_names = where->lane_names; /* of a route */
        gate_ticket->ticket.deadline_ns = deadline_ns(gate_ticket->key, asked_ns, now_ns);
        unlock_key(gate_ticket->key);
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

/* Whether the key has a lane besides this one that is not paused; and until when this one is. */
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
    return open;
}

bool weir_gate_ticket_avoid(struct weir_gate_ticket *gate_ticket, uint64_t until_ns)
{
    struct weir_gates *gates = gate_ticket->gates;
    struct weir_key *key = gate_ticket->key;
    uint16_t lane_id = gate_ticket->ticket.lane_id;
    uint64_t now_ns = loop_of(gates, gate_ticket->loop_index)->now_ns;
    struct deferred_work work = begin_work(gates, gate_ticket->loop_index);
    uint64_t paused_until_ns = WEIR_NEVER; /* a lane that is gone needs no pause */
    lock_key(key);
    bool moves = gate_ticket->ticket.state == WEIR_TICKET_ADMITTED &&
                 has_other_way(key, lane_id, now_ns, &paused_until_ns);
    bool pauses = moves && paused_until_ns < until_ns;
    if (pauses) {
        enum weir_status status = weir_key_pause(key, lane_id, until_ns, now_ns, &work.news);
        assert(status == WEIR_OK || status == WEIR_NO_LANE); /* a reload may have retired it */
        collect(key, &work);
    }
    unlock_key(key);
    if (pauses) {
        run(key, &work);
    }
    return moves;
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
    uint64_t now_ns = loop_of(gate_ticket->gates, gate_ticket->loop_index)->now_ns;
    lock_key(gate_ticket->key);
    if (!weir_key_get_share(gate_ticket->key, &gate_ticket->ticket, now_ns, &share)) {
        share = weir_key_tenant_share(gate_ticket->key, gate_ticket->tenant, now_ns);
    }
    unlock_key(gate_ticket->key);
    return share;
}

uint64_t weir_gate_ticket_predict(const struct weir_gate_ticket *gate_ticket)
{
    uint64_t now_ns = loop_of(gate_ticket->gates, gate_ticket->loop_index)->now_ns;
    lock_key(gate_ticket->key);
    uint64_t wait_ns = weir_key_predict(gate_ticket->key, gate_ticket->tenant,
                                        (enum weir_priority)gate_ticket->ticket.priority, now_ns);
    unlock_key(gate_ticket->key);
    return wait_ns;
}

/* ---- gates ---- */

/* Goes over all keys of a gate. The table is let go of between two of them. */
static struct weir_key *next_key(struct entrance *entrance, struct weir_key *key)
{
    pthread_mutex_lock(&entrance->lock);
    struct weir_key *next = weir_gate_next(entrance->gate, key);
    pthread_mutex_unlock(&entrance->lock);
    return next;
}

struct weir_key *weir_gates_next(struct weir_gates *gates, uint32_t gate, struct weir_key *key)
{
    return next_key(gates->entrances[gate], key);
}

struct weir_key *weir_gates_find(struct weir_gates *gates, uint32_t gate, struct weir_slice name)
{
    struct entrance *entrance = gates->entrances[gate];
    pthread_mutex_lock(&entrance->lock);
    struct weir_key *key = weir_gate_find(entrance->gate, name);
    pthread_mutex_unlock(&entrance->lock);
    return key;
}

struct weir_key_stats weir_gates_stats(const struct weir_key *key)
{
    lock_key(key);
    struct weir_key_stats stats = weir_key_get_stats(key);
    unlock_key(key);
    return stats;
}

struct weir_key_stats weir_gates_measure(const struct weir_key *key, struct weir_key_record *record)
{
    const struct key_state *state = state_of(key);
    lock_key(key);
    struct weir_key_stats stats = weir_key_get_stats(key);
    *record = (struct weir_key_record){state->waits, state->lane_names};
    unlock_key(key);
    return stats;
}

bool weir_gates_lane(const struct weir_key *key, uint32_t index, uint64_t now_ns,
                     struct weir_lane_stats *stats)
{
    lock_key(key);
    bool found = weir_key_get_lane(key, index, now_ns, stats);
    unlock_key(key);
    return found;
}

bool weir_gates_control(const struct weir_key *key, uint32_t index, uint64_t now_ns,
                        struct weir_control_stats *stats)
{
    lock_key(key);
    bool found = weir_key_get_control(key, index, now_ns, stats);
    unlock_key(key);
    return found;
}

const struct weir_lane_names *weir_gates_lane_names(const struct weir_gates *gates)
{
    return &gates->lane_names;
}

uint32_t weir_gates_add_lane_names(struct weir_gates *gates,
                                   const struct weir_lane_name_spec *names)
{
    return weir_lane_names_add(&gates->lane_names, gates->options.allocator, names);
}

void weir_gates_line(const struct weir_key *key, uint64_t now_ns, struct weir_place *places,
                     uint32_t places_max,
                     void (*visit)(void *context, const struct weir_place *place,
                                   const struct weir_gate_ticket *gate_ticket),
                     void *context)
{
    lock_key(key);
    uint32_t count = weir_key_line(key, now_ns, places, places_max);
    for (uint32_t i = 0; i < count; i++) {
        visit(context, &places[i],
              weir_container_of(places[i].ticket, struct weir_gate_ticket, ticket));
    }
    unlock_key(key);
}

void weir_gates_sweep(struct weir_gates *gates, uint64_t now_ns)
{
    for (uint32_t i = 0; i < weir_gates_count(gates); i++) {
        pthread_mutex_lock(&gates->entrances[i]->lock);
        weir_gate_sweep(gates->entrances[i]->gate, SWEEP_KEYS, now_ns);
        pthread_mutex_unlock(&gates->entrances[i]->lock);
    }
}

static enum weir_status apply(struct weir_gates *gates, struct entrance *entrance,
                              struct weir_key *key, uint32_t loop_index)
{
    struct deferred_work work = begin_work(gates, loop_index);
    pthread_mutex_lock(&entrance->lock);
    lock_key(key);
    enum weir_status status =
        weir_gate_apply(entrance->gate, key, loop_of(gates, loop_index)->now_ns, &work.news);
    collect(key, &work);
    unlock_key(key);
    pthread_mutex_unlock(&entrance->lock);
    run(key, &work);
    return status;
}

enum weir_status weir_gates_configure(struct weir_gates *gates, uint32_t gate,
                                      const struct weir_settings *settings, uint32_t loop_index)
{
    struct entrance *entrance = gates->entrances[gate];
    pthread_mutex_lock(&entrance->lock);
    enum weir_status status = weir_gate_configure(entrance->gate, settings);
    pthread_mutex_unlock(&entrance->lock);
    if (status != WEIR_OK) {
        return status;
    }
    for (struct weir_key *key = next_key(entrance, NULL); key != NULL;
         key = next_key(entrance, key)) {
        enum weir_status applied = apply(gates, entrance, key, loop_index);
        status = status == WEIR_OK ? applied : status;
    }
    return status;
}

enum weir_status weir_gates_override(struct weir_gates *gates, uint32_t gate, struct weir_slice key,
                                     const struct weir_settings *settings)
{
    struct entrance *entrance = gates->entrances[gate];
    pthread_mutex_lock(&entrance->lock);
    enum weir_status status = weir_gate_override(entrance->gate, key, settings);
    pthread_mutex_unlock(&entrance->lock);
    return status;
}

void weir_gates_set_keys_max(struct weir_gates *gates, uint32_t gate, uint32_t keys_max)
{
    struct entrance *entrance = gates->entrances[gate];
    pthread_mutex_lock(&entrance->lock);
    weir_gate_set_keys_max(entrance->gate, keys_max);
    pthread_mutex_unlock(&entrance->lock);
}

enum weir_status weir_gates_create(const struct weir_gates_options *options,
                                   struct weir_gates **result)
{
    assert(options->loop_count >= 1);
    assert(options->loop_count <= WEIR_LOOPS_MAX);
    struct weir_gates *gates = weir_allocate_zeroed(options->allocator, sizeof *gates);
    if (gates == NULL) {
        return WEIR_NO_MEMORY;
    }
    gates->ears =
        weir_allocate_zeroed(options->allocator, options->loop_count * sizeof *gates->ears);
    if (gates->ears == NULL) {
        weir_release(options->allocator, gates, sizeof *gates);
        return WEIR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < options->loop_count; i++) {
        struct ears *ears = &gates->ears[i];
        weir_event_ring_init(&ears->ring, ears->slots, EARSHOT, WEIR_EVENTS_STREAM);
    }
    gates->options = *options;
    *result = gates;
    return WEIR_OK;
}

void weir_gates_mend(struct weir_gates *gates, uint32_t gate, struct weir_monotonic_sum_span span,
                     uint64_t counters[WEIR_MONOTONIC_SUM_COUNTERS])
{
    struct entrance *entrance = gates->entrances[gate];
    pthread_mutex_lock(&entrance->lock);
    weir_monotonic_sum_mend(&entrance->rest, span, counters);
    pthread_mutex_unlock(&entrance->lock);
}

struct weir_event_log *weir_gates_event_log(const struct weir_gates *gates)
{
    return gates->options.event_log;
}

uint32_t weir_gates_loop_count(const struct weir_gates *gates)
{
    return gates->options.loop_count;
}

struct weir_loop *weir_gates_loop(const struct weir_gates *gates, uint32_t index)
{
    assert(index < gates->options.loop_count);
    return loop_of(gates, index);
}

uint32_t weir_gates_count(const struct weir_gates *gates)
{
    return atomic_load_explicit(&gates->count, memory_order_acquire);
}

struct weir_slice weir_gates_name(const struct weir_gates *gates, uint32_t gate)
{
    const struct entrance *entrance = gates->entrances[gate];
    return (struct weir_slice){entrance->name, entrance->name_bytes};
}

void weir_gates_set_a2a(struct weir_gates *gates, uint32_t gate, bool speaks)
{
    atomic_store_explicit(&gates->entrances[gate]->a2a, speaks, memory_order_relaxed);
}

bool weir_gates_speak_a2a(const struct weir_gates *gates, uint32_t gate)
{
    return atomic_load_explicit(&gates->entrances[gate]->a2a, memory_order_relaxed);
}

static enum weir_status make_entrance(const struct weir_gates *gates, struct weir_slice name,
                                      struct entrance **result)
{
    const struct weir_gates_options *options = &gates->options;
    struct weir_settings none = {0};
    struct weir_gate_options each = {.allocator = options->allocator,
                                     .seed = {options->seed[0], options->seed[1]},
                                     .keys_max = options->keys_max,
                                     .key_extra_bytes = sizeof(struct key_state) +
                                                        options->loop_count * sizeof(struct alarm)};
    struct entrance *entrance =
        weir_allocate_zeroed(options->allocator, sizeof *entrance + name.bytes);
    if (entrance == NULL) {
        return WEIR_NO_MEMORY;
    }
    enum weir_status status = weir_gate_create(&each, &none, &entrance->gate);
    if (status != WEIR_OK) {
        weir_release(options->allocator, entrance, sizeof *entrance + name.bytes);
        return status;
    }
    pthread_mutex_init(&entrance->lock, NULL);
    entrance->name_bytes = name.bytes;
    memcpy(entrance->name, name.data, name.bytes);
    *result = entrance;
    return WEIR_OK;
}

enum weir_status weir_gates_add(struct weir_gates *gates, struct weir_slice name, uint32_t *number)
{
    uint32_t count = weir_gates_count(gates);
    for (uint32_t i = 0; i < count; i++) {
        if (weir_slice_equal(weir_gates_name(gates, i), name)) {
            *number = i;
            return WEIR_OK;
        }
    }
    if (count == WEIR_GATES_MAX) {
        return WEIR_TOO_MANY_GATES;
    }
    enum weir_status status = make_entrance(gates, name, &gates->entrances[count]);
    if (status == WEIR_OK) {
        *number = count;
        atomic_store_explicit(&gates->count, count + 1, memory_order_release);
    }
    return status;
}

/* Timers that no longer matter may still be set. */
static void disarm_all(const struct weir_gates *gates, struct entrance *entrance)
{
    for (struct weir_key *key = next_key(entrance, NULL); key != NULL;
         key = next_key(entrance, key)) {
        for (uint32_t i = 0; i < gates->options.loop_count; i++) {
            struct alarm *alarm = &state_of(key)->alarms[i];
            if (alarm->key != NULL) {
                disarm(alarm);
            }
        }
    }
}

void weir_gates_destroy(struct weir_gates *gates)
{
    if (gates == NULL) {
        return;
    }
    const struct weir_allocator *allocator = gates->options.allocator;
    for (uint32_t i = 0; i < weir_gates_count(gates); i++) {
        struct entrance *entrance = gates->entrances[i];
        disarm_all(gates, entrance);
        weir_gate_destroy(entrance->gate);
        pthread_mutex_destroy(&entrance->lock);
        weir_release(allocator, entrance, sizeof *entrance + entrance->name_bytes);
    }
    weir_lane_names_deinit(&gates->lane_names, allocator);
    weir_release(allocator, gates->ears, gates->options.loop_count * sizeof *gates->ears);
    weir_release(allocator, gates, sizeof *gates);
}
