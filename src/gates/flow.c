/* flow.c - flows and their requests.
 *
 * One lock guards the table of flows and everything in a flow and a request but the gate ticket. It
 * is a leaf: nothing is called under it that takes another lock, posts to a loop or sets a timer.
 * What is to be done is decided under it and done after it. So there is no order of locks to keep.
 *
 *   WAITING --- admitted ---> HELD --- ends ---> OVER, until its memory goes
 *      +----- refused, ended in line, all requests gone ----^
 *
 * F1: while a flow is WAITING it has requests that wait and none inside. Its gate ticket is touched
 * in its home only, the loop of the request that came first; other loops change the counts and post
 * there.
 *
 * F2: while a flow is HELD it has no requests that wait. The call that moves it to OVER, in any
 * loop, gives the permit back. The ticket has no lease, so nothing else ends it.
 *
 * F3: a flow stands in the table until it is OVER. From then on a request of that name finds none,
 * and begins a new flow.
 *
 * F4: a flow stands in the heap of idle ones if no request is inside; if one is, it may.
 *
 * F5: the memory of a flow goes when it is OVER, its gate ticket is closed and no post to it is
 * under way.
 *
 * F6: a request is posted at most once: when its wait ends otherwise than by its own leaving.
 *
 * F7: a flow in which no request has been for WEIR_FLOW_REST_NS rests: it stands in the list of its
 * key, the one that rests longest first, and gives its permit back if a ticket waits at the key for
 * a permit (flow_rest.c).
 */
#define _GNU_SOURCE /* getrandom */
#include "gates/flow.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/moment.h"
#include "base/slice.h"
#include "gates/flow_internal.h"

#include <assert.h>
#include <sys/random.h>

/* The loop whose timer looks after idle flows. */
#define KEEPER 0

enum flow_state {
    WAITING,
    HELD,
    OVER
};

static uint64_t now_of(const struct weir_flows *flows, uint32_t loop_index)
{
    return weir_gates_loop(flows->gates, loop_index)->now_ns;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* From one loop to another, or to itself. */
static void send(const struct weir_flows *flows, struct weir_post *post, uint32_t to, uint32_t from)
{
    struct weir_loop *loop = weir_gates_loop(flows->gates, to);
    if (to == from) {
        weir_loop_defer(loop, post);
    } else {
        weir_loop_post(loop, post);
    }
}

/* ---- the table; all under the lock ---- */

static void move(struct weir_flow *flow, enum flow_state state)
{
    assert(state > flow->state);
    assert(state == OVER ? flow->inside == 0 : flow->waiting > 0);
    flow->state = (uint8_t)state;
}

/* A pinned key keeps its address, so that names it. */
static uint64_t hash_name(const struct weir_flows *flows, const struct weir_key *key,
                          struct weir_slice name)
{
    char text[sizeof(uintptr_t) + WEIR_NAME_BYTES_MAX];
    uintptr_t address = (uintptr_t)key;
    assert(name.bytes <= WEIR_NAME_BYTES_MAX);
    memcpy(text, &address, sizeof address);
    memcpy(text + sizeof address, name.data, name.bytes);
    return weir_hash(flows->seed, (struct weir_slice){text, sizeof address + name.bytes});
}

static struct weir_flow *find(const struct weir_flows *flows, const struct weir_key *key,
                              struct weir_slice name, uint64_t hash)
{
    for (struct weir_map_node *node = weir_map_first(&flows->map, hash); node != NULL;
         node = weir_map_next(node)) {
        struct weir_flow *flow = weir_container_of(node, struct weir_flow, node);
        if (flow->key == key && weir_slice_equal(flow->gate_ticket.flow, name)) {
            return flow;
        }
    }
    return NULL;
}

static struct weir_flow *create(struct weir_flows *flows, const struct weir_flow_params *params,
                                uint64_t hash)
{
    struct weir_flow *flow = weir_slab_take(&flows->slab);
    if (flow == NULL) {
        return NULL;
    }
    if (!weir_map_reserve(&flows->map, flows->allocator) ||
        !weir_heap_reserve(&flows->idle, flows->slab.count, flows->allocator)) {
        weir_slab_give(&flows->slab, flow);
        return NULL;
    }
    memset(flow, 0, offsetof(struct weir_flow, name));
    memcpy(flow->name, params->flow.data, params->flow.bytes);
    flow->gate_ticket.flow = (struct weir_slice){flow->name, params->flow.bytes};
    flow->flows = flows;
    flow->key = weir_key_pin(params->key);
    flow->home = params->loop_index;
    flow->sequence = flows->next_sequence++;
    flow->result.outcome = WEIR_OUTCOME_CANCELLED;
    weir_list_init(&flow->flow_requests);
    weir_map_insert(&flows->map, &flow->node, hash);
    return flow;
}

/* No request finds it any more (F3). */
void weir_flow_take_out(struct weir_flow *flow)
{
    move(flow, OVER);
    weir_flow_end_rest(flow);
    weir_map_remove(&flow->flows->map, &flow->node);
    if (flow->place != 0) {
        weir_heap_remove(&flow->flows->idle, &flow->place);
    }
}

/* ---- the end of a flow; without the lock ---- */

/* Its gate ticket is closed (F5). */
static void finish(struct weir_flow *flow)
{
    struct weir_flows *flows = flow->flows;
    weir_key_give(flow->key);
    pthread_mutex_lock(&flows->lock);
    assert(flow->state == OVER);
    if (flow->posted) {
        flow->closed = true;
    } else {
        weir_slab_give(&flows->slab, flow);
    }
    pthread_mutex_unlock(&flows->lock);
}

/* One that was HELD and has just been taken out gives its permit back (F2). */
void weir_flow_give_back(struct weir_flow *flow, uint32_t loop_index)
{
    enum weir_status status =
        weir_gate_ticket_release(&flow->gate_ticket, &flow->result, loop_index);
    assert(status == WEIR_OK);
    (void)status;
    finish(flow);
}

/* ---- idle flows ---- */

/* Under the lock: whether the keeper's timer has to be set for sooner than it is. */
bool weir_flows_must_arm(struct weir_flows *flows)
{
    uint64_t next_ns = weir_heap_next(&flows->idle);
    if (next_ns >= flows->armed_ns) {
        return false;
    }
    flows->armed_ns = next_ns;
    return true;
}

void weir_flows_arm(struct weir_flows *flows, uint32_t loop_index)
{
    pthread_mutex_lock(&flows->lock);
    uint64_t at_ns = flows->armed_ns;
    bool call = loop_index != KEEPER && !flows->calling;
    flows->calling |= call;
    pthread_mutex_unlock(&flows->lock);
    if (loop_index == KEEPER) {
        weir_timer_set(weir_gates_loop(flows->gates, KEEPER), &flows->timer, at_ns);
    } else if (call) {
        weir_loop_post(weir_gates_loop(flows->gates, KEEPER), &flows->call);
    }
}

static void on_call(struct weir_post *post)
{
    struct weir_flows *flows = weir_container_of(post, struct weir_flows, call);
    pthread_mutex_lock(&flows->lock);
    flows->calling = false;
    pthread_mutex_unlock(&flows->lock);
    weir_flows_arm(flows, KEEPER);
}

/* Under the lock: no request is inside any more. Whether it is over at once; else it is idle.
 * Moving its moment further away is left to the timer, which finds out. */
static bool ends_now(struct weir_flow *flow, uint64_t now_ns)
{
    struct weir_flows *flows = flow->flows;
    if (!flow->used || flow->ending || flows->draining || flow->lease_end_ns <= now_ns) {
        weir_flow_take_out(flow);
        return true;
    }
    flow->idle_end_ns = earlier(now_ns + flow->idle_ns, flow->lease_end_ns);
    flow->look_ns = earlier(now_ns + WEIR_FLOW_REST_NS, flow->idle_end_ns);
    if (flow->place == 0) {
        weir_heap_push(&flows->idle, flow->look_ns, flow->sequence, &flow->place);
    } else if (flow->look_ns < flows->idle.entries[flow->place - 1].order) {
        weir_heap_update(&flows->idle, flow->look_ns, flow->sequence, &flow->place);
    }
    return false;
}

void weir_flow_look_at(struct weir_flow *flow, uint64_t look_ns)
{
    flow->look_ns = earlier(look_ns, flow->idle_end_ns);
    weir_heap_update(&flow->flows->idle, flow->look_ns, flow->sequence, &flow->place);
}

/* What an idle flow leads to. */
struct idle_step {
    struct weir_flow *ended; /* it has been idle for long enough, and is taken out; or null */
    struct weir_key *key;    /* where flows rest, pinned: a ticket may wait there; or null */
};

/* The next step that is due at that moment; none if both are null. */
static struct idle_step take_idle(struct weir_flows *flows, uint64_t moment_ns)
{
    struct idle_step step = {0};
    pthread_mutex_lock(&flows->lock);
    while (step.ended == NULL && step.key == NULL && flows->idle.count > 0 &&
           weir_heap_top(&flows->idle)->order <= moment_ns) {
        struct weir_flow *flow =
            weir_container_of(weir_heap_top(&flows->idle)->place, struct weir_flow, place);
        if (flow->inside > 0) {
            weir_heap_remove(&flows->idle, &flow->place);
        } else if (flow->idle_end_ns <= moment_ns) {
            weir_flow_take_out(flow);
            step.ended = flow;
        } else if (flow->look_ns > moment_ns) {
            weir_flow_look_at(flow, flow->look_ns);
        } else {
            if (!flow->resting) {
                weir_flow_begin_rest(flow);
            }
            weir_flow_look_at(flow, flow->idle_end_ns);
            step.key = weir_key_pin(flow->key);
        }
    }
    pthread_mutex_unlock(&flows->lock);
    return step;
}

static void end_idle(struct weir_flows *flows, uint64_t moment_ns, uint32_t loop_index)
{
    struct idle_step step;
    do {
        step = take_idle(flows, moment_ns);
        if (step.ended != NULL) {
            weir_flow_give_back(step.ended, loop_index);
        }
        if (step.key != NULL) {
            weir_flows_make_room(flows, step.key, NULL, loop_index);
            weir_key_give(step.key);
        }
    } while (step.ended != NULL || step.key != NULL);
}

static void on_timer(struct weir_timer *timer)
{
    struct weir_flows *flows = weir_container_of(timer, struct weir_flows, timer);
    pthread_mutex_lock(&flows->lock);
    flows->armed_ns = WEIR_NEVER;
    pthread_mutex_unlock(&flows->lock);
    end_idle(flows, now_of(flows, KEEPER), KEEPER);
    pthread_mutex_lock(&flows->lock);
    bool again = weir_flows_must_arm(flows);
    pthread_mutex_unlock(&flows->lock);
    if (again) {
        weir_flows_arm(flows, KEEPER);
    }
}

/* ---- how requests learn of the flow's state ---- */

static void arrive(struct weir_post *post)
{
    struct weir_flow_request *flow_request =
        weir_container_of(post, struct weir_flow_request, post);
    pthread_mutex_lock(&flow_request->flows->lock);
    flow_request->posted = false;
    enum weir_flow_request_state state = (enum weir_flow_request_state)flow_request->state;
    if (state == WEIR_FLOW_REQUEST_INSIDE) {
        flow_request->flow->used = true;
    }
    pthread_mutex_unlock(&flow_request->flows->lock);
    flow_request->on_change(flow_request, state);
}

/* Requests whose loops get a post, in the order in which they came. */
struct summons {
    struct weir_post *first;
    struct weir_post **end;
};

/* Under the lock: the wait of the first in the flow's list is over. `self` gets no post: its own
 * call returns the state. */
static struct weir_flow_request *end_wait(struct weir_flow *flow, struct summons *summons,
                                          const struct weir_flow_request *self)
{
    struct weir_flow_request *flow_request =
        weir_container_of(flow->flow_requests.next, struct weir_flow_request, link);
    weir_list_unlink(&flow_request->link);
    flow->waiting--;
    if (flow_request != self) {
        assert(!flow_request->posted);
        flow_request->posted = true;
        flow_request->post = (struct weir_post){.arrive = arrive};
        *summons->end = &flow_request->post;
        summons->end = &flow_request->post.next;
    }
    return flow_request;
}

/* Without the lock. */
static void summon(const struct weir_flows *flows, struct summons *summons, uint32_t from)
{
    while (summons->first != NULL) {
        struct weir_post *post = summons->first;
        summons->first = post->next;
        send(flows, post, weir_container_of(post, struct weir_flow_request, post)->loop_index,
             from);
    }
}

/* ---- what the home does ---- */

/* Its ticket has been admitted: all waiting requests go in. `self` asks at this moment, or is null.
 * If all have gone, and the post that says so has not come yet, the permit goes back. */
static void let_in(struct weir_flow *flow, const struct weir_flow_request *self)
{
    struct weir_flows *flows = flow->flows;
    struct summons summons = {.end = &summons.first};
    uint32_t home = flow->home;
    pthread_mutex_lock(&flows->lock);
    bool deserted = flow->waiting == 0;
    if (deserted) {
        weir_flow_take_out(flow);
    } else {
        move(flow, HELD);
        flow->used = self != NULL;
        flow->lease_end_ns = weir_after_ns(now_of(flows, home), flow->lease_ns);
    }
    while (flow->waiting > 0) {
        struct weir_flow_request *flow_request = end_wait(flow, &summons, self);
        flow_request->state = WEIR_FLOW_REQUEST_INSIDE;
        flow_request->lane_id = flow->gate_ticket.ticket.lane_id;
        flow->inside++;
    }
    pthread_mutex_unlock(&flows->lock);
    summon(flows, &summons, home);
    if (deserted) {
        weir_flow_give_back(flow, home);
    }
}

/* Whether it was only the time that the ticket was refused or ended for. */
static bool was_late(const struct weir_ticket *ticket)
{
    return ticket->end == WEIR_END_TIMEOUT ||
           (ticket->end == WEIR_END_REFUSED &&
            (ticket->refusal == WEIR_TIMED_OUT || ticket->refusal == WEIR_TOO_LATE));
}

/* Its ticket did not get through. A request that may wait for longer than the ticket could,
 * because it came when that was just ending, may try again; the others are refused as the ticket
 * was. */
static void send_away(struct weir_flow *flow, const struct weir_flow_request *self)
{
    struct weir_flows *flows = flow->flows;
    const struct weir_ticket *ticket = &flow->gate_ticket.ticket;
    struct summons summons = {.end = &summons.first};
    bool late = was_late(ticket);
    pthread_mutex_lock(&flows->lock);
    weir_flow_take_out(flow);
    while (flow->waiting > 0) {
        struct weir_flow_request *flow_request = end_wait(flow, &summons, self);
        bool again =
            late && flow_request != self && flow_request->deadline_ns > ticket->deadline_ns;
        flow_request->state = again ? WEIR_FLOW_REQUEST_AGAIN : WEIR_FLOW_REQUEST_REFUSED;
        flow_request->end = ticket->end;
        flow_request->refusal = ticket->refusal;
    }
    pthread_mutex_unlock(&flows->lock);
    summon(flows, &summons, flow->home);
    weir_gate_ticket_close(&flow->gate_ticket);
    finish(flow);
}

/* Looks after a flow that is WAITING: its last request has gone, or one wants to wait longer than
 * the ticket would. */
static void attend(struct weir_flow *flow)
{
    struct weir_flows *flows = flow->flows;
    pthread_mutex_lock(&flows->lock);
    assert(flow->state == WAITING);
    bool deserted = flow->waiting == 0;
    uint64_t deadline_ns = flow->deadline_ns;
    if (deserted) {
        weir_flow_take_out(flow);
    }
    pthread_mutex_unlock(&flows->lock);
    if (deserted) {
        if (weir_gate_ticket_cancel(&flow->gate_ticket)) {
            finish(flow);
        }
    } else if (deadline_ns > flow->gate_ticket.ticket.deadline_ns) {
        /* If it does not wait any more, a post to its home is under way. */
        (void)!weir_gate_ticket_extend(&flow->gate_ticket, deadline_ns);
    }
}

static void on_post(struct weir_post *post)
{
    struct weir_flow *flow = weir_container_of(post, struct weir_flow, post);
    struct weir_flows *flows = flow->flows;
    pthread_mutex_lock(&flows->lock);
    flow->posted = false;
    bool waits = flow->state == WAITING; /* if not, it may be gone as soon as the lock is */
    if (flow->closed) {
        weir_slab_give(&flows->slab, flow);
    }
    pthread_mutex_unlock(&flows->lock);
    if (waits) {
        attend(flow);
    }
}

static void on_told(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state)
{
    struct weir_flow *flow = weir_container_of(gate_ticket, struct weir_flow, gate_ticket);
    if (state == WEIR_TICKET_IDLE) {
        finish(flow);
    } else if (state == WEIR_TICKET_ADMITTED) {
        let_in(flow, NULL);
    } else {
        send_away(flow, NULL);
    }
}

/* Its name is the flow of its ticket, and its requests may come from anywhere. */
static const struct weir_permit_owner flow_owner = {
    .kind = "flow", .ends_itself = true, .on_change = on_told};

/* What a request's call leaves to be done once the lock is let go. */
struct home_call {
    struct weir_flow *flow; /* to look after, or null */
    bool post;              /* its home is another loop: by its post */
};

/* Under the lock: the flow's home has to look after it. */
static struct home_call ask_home(struct weir_flow *flow, uint32_t loop_index)
{
    struct home_call home_call = {flow, flow->home != loop_index};
    if (home_call.post && flow->posted) {
        return (struct home_call){0}; /* it will, anyway */
    }
    flow->posted |= home_call.post;
    return home_call;
}

static void run(const struct weir_flows *flows, struct home_call home_call)
{
    if (home_call.flow != NULL && home_call.post) {
        home_call.flow->post = (struct weir_post){.arrive = on_post};
        weir_loop_post(weir_gates_loop(flows->gates, home_call.flow->home), &home_call.flow->post);
    } else if (home_call.flow != NULL) {
        attend(home_call.flow);
    }
}

/* ---- requests ---- */

/* The first of a flow stands in line for all of them. */
static enum weir_flow_entry enter_line(struct weir_flow *flow,
                                       struct weir_flow_request *flow_request,
                                       const struct weir_flow_params *params)
{
    struct weir_request request = params->request;
    struct weir_destination where = {
        .gate = params->gate, .loop_index = params->loop_index, .key = weir_key_name(params->key)};
    assert(request.tenant.bytes <= WEIR_NAME_BYTES_MAX);
    request.lease_ns = WEIR_NEVER; /* F2 */
    flow->gate_ticket.tenant = weir_slice_copy(flow->tenant, request.tenant);
    flow->gate_ticket.owner = &flow_owner;
    flow->lease_ns = weir_config_key_rules(params->config, where.key)->lease_ns;
    switch (weir_gate_ticket_enter(flow->flows->gates, &flow->gate_ticket, &where, &request)) {
    case WEIR_ADMITTED:
        let_in(flow, flow_request);
        return WEIR_FLOW_ENTRY_INSIDE;
    case WEIR_WAITING:
        attend(flow); /* others may have come meanwhile */
        return WEIR_FLOW_ENTRY_WAITING;
    default:
        send_away(flow, flow_request);
        return WEIR_FLOW_ENTRY_REFUSED;
    }
}

/* Under the lock: the request joins the flow, if that is not too deep. */
static enum weir_flow_entry join(struct weir_flow *flow, struct weir_flow_request *flow_request,
                                 const struct weir_flow_params *params)
{
    if (flow->inside + flow->waiting >= params->depth) {
        return WEIR_FLOW_ENTRY_TOO_DEEP;
    }
    flow->idle_ns = params->idle_ns;
    flow_request->flow = flow;
    if (flow->state == HELD) {
        weir_flow_end_rest(flow);
        flow->used = true;
        flow->inside++;
        flow_request->lane_id = flow->gate_ticket.ticket.lane_id;
        flow_request->state = WEIR_FLOW_REQUEST_INSIDE;
        return WEIR_FLOW_ENTRY_INSIDE;
    }
    weir_list_push_back(&flow->flow_requests, &flow_request->link);
    flow->waiting++;
    flow_request->state = WEIR_FLOW_REQUEST_WAITING;
    return WEIR_FLOW_ENTRY_WAITING;
}

enum weir_flow_entry weir_flow_request_enter(struct weir_flows *flows,
                                             struct weir_flow_request *flow_request,
                                             const struct weir_flow_params *params)
{
    uint64_t hash = hash_name(flows, params->key, params->flow);
    struct home_call home_call = {0};
    enum weir_flow_entry enter_flow = WEIR_FLOW_ENTRY_REFUSED;
    *flow_request = (struct weir_flow_request){.flows = flows,
                                               .deadline_ns = params->request.deadline_ns,
                                               .loop_index = params->loop_index,
                                               .end = WEIR_END_REFUSED,
                                               .refusal = WEIR_NO_MEMORY,
                                               .on_change = flow_request->on_change};
    assert(params->depth >= 1);
    pthread_mutex_lock(&flows->lock);
    struct weir_flow *flow = find(flows, params->key, params->flow, hash);
    bool first = flow == NULL;
    flow = first ? create(flows, params, hash) : flow;
    if (flow != NULL) {
        enter_flow = join(flow, flow_request, params);
    }
    if (enter_flow == WEIR_FLOW_ENTRY_WAITING && flow_request->deadline_ns > flow->deadline_ns) {
        flow->deadline_ns = flow_request->deadline_ns;
        home_call = first ? home_call : ask_home(flow, params->loop_index);
    }
    pthread_mutex_unlock(&flows->lock);
    if (first && flow != NULL) {
        return enter_line(flow, flow_request, params);
    }
    run(flows, home_call);
    return enter_flow;
}

/* Under the lock: one that was inside goes. Whether the flow ends with it. */
static bool go_out(struct weir_flow *flow, enum weir_outcome outcome, bool last, uint64_t now_ns)
{
    assert(flow->state == HELD);
    assert(flow->inside > 0);
    flow->inside--;
    flow->ending |= last;
    if (outcome != WEIR_OUTCOME_CANCELLED) { /* which says nothing of the upstream */
        flow->result.outcome = outcome;
    }
    return flow->inside == 0 && ends_now(flow, now_ns);
}

bool weir_flow_request_leave(struct weir_flow_request *flow_request, enum weir_outcome outcome,
                             bool last)
{
    struct weir_flows *flows = flow_request->flows;
    struct weir_flow *flow = flow_request->flow;
    uint32_t loop_index = flow_request->loop_index;
    uint64_t now_ns = now_of(flows, loop_index);
    struct home_call home_call = {0};
    bool ends = false;
    pthread_mutex_lock(&flows->lock);
    if (flow_request->state == WEIR_FLOW_REQUEST_WAITING) {
        weir_list_unlink(&flow_request->link);
        flow->waiting--;
        home_call = flow->waiting == 0 ? ask_home(flow, loop_index) : home_call;
    } else if (flow_request->state == WEIR_FLOW_REQUEST_INSIDE) {
        ends = go_out(flow, outcome, last, now_ns);
    }
    flow_request->state = WEIR_FLOW_REQUEST_OUT;
    bool quiet = !flow_request->posted;
    bool sooner = weir_flows_must_arm(flows);
    pthread_mutex_unlock(&flows->lock);
    if (ends) {
        weir_flow_give_back(flow, loop_index);
    }
    if (sooner) {
        weir_flows_arm(flows, loop_index);
    }
    run(flows, home_call);
    return quiet;
}

/* ---- all of them ---- */

enum weir_status weir_flows_release(struct weir_flows *flows, const struct weir_flow_name *name,
                                    const struct weir_result *result, uint32_t loop_index)
{
    uint64_t hash = hash_name(flows, name->key, name->flow);
    bool ends = false;
    pthread_mutex_lock(&flows->lock);
    struct weir_flow *flow = find(flows, name->key, name->flow, hash);
    bool held =
        flow != NULL && flow->state == HELD &&
        (name->tenant.bytes == 0 || weir_slice_equal(flow->gate_ticket.tenant, name->tenant));
    if (held) {
        flow->ending = true;
        flow->result = *result;
        ends = flow->inside == 0;
    }
    if (ends) {
        weir_flow_take_out(flow);
    }
    pthread_mutex_unlock(&flows->lock);
    if (ends) {
        weir_flow_give_back(flow, loop_index);
    }
    return held ? WEIR_OK : WEIR_NOT_HELD;
}

void weir_flows_drain(struct weir_flows *flows, uint32_t loop_index)
{
    pthread_mutex_lock(&flows->lock);
    flows->draining = true;
    pthread_mutex_unlock(&flows->lock);
    end_idle(flows, WEIR_NEVER, loop_index);
}

struct weir_flows *weir_flows_create(struct weir_gates *gates,
                                     const struct weir_allocator *allocator)
{
    struct weir_flows *flows = weir_allocate_zeroed(allocator, sizeof *flows);
    if (flows == NULL) {
        return NULL;
    }
    if (getrandom(flows->seed, sizeof flows->seed, 0) != sizeof flows->seed ||
        !weir_timer_init(weir_gates_loop(gates, KEEPER), &flows->timer, on_timer)) {
        weir_release(allocator, flows, sizeof *flows);
        return NULL;
    }
    pthread_mutex_init(&flows->lock, NULL);
    flows->allocator = allocator;
    flows->gates = gates;
    flows->armed_ns = WEIR_NEVER;
    flows->call.arrive = on_call;
    weir_gates_set_make_room(gates, weir_flows_make_room, flows);
    weir_slab_init(&flows->slab, sizeof(struct weir_flow), WEIR_FLOWS_MAX, allocator);
    return flows;
}

void weir_flows_destroy(struct weir_flows *flows)
{
    if (flows == NULL) {
        return;
    }
    weir_flows_drain(flows, KEEPER);
    weir_gates_set_make_room(flows->gates, NULL, NULL);
    weir_timer_deinit(weir_gates_loop(flows->gates, KEEPER), &flows->timer);
    weir_map_deinit(&flows->map, flows->allocator);
    weir_heap_deinit(&flows->idle, flows->allocator);
    weir_slab_deinit(&flows->slab);
    pthread_mutex_destroy(&flows->lock);
    weir_release(flows->allocator, flows, sizeof *flows);
}
