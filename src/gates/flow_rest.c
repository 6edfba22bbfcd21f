/* flow_rest.c - flows that rest: each gives its permit back if a ticket waits at its key for one.
 *
 * The keeper looks for such a ticket when a flow begins to rest, and the call that enters a ticket
 * looks for flows that rest when it begins to wait; whichever comes second finds the other. While
 * tickets wait, the keeper looks again every WEIR_FLOW_REST_NS, since what they wait for may
 * change; and at once after it has helped one of several.
 *
 * A ticket that enters is asked alone what it waits for. The line is asked, which takes time for
 * each tenant, by the keeper, and for a ticket that has others before it unless within
 * WEIR_FLOW_REST_NS that has helped none at this key. The flows that one look passes over are
 * bounded as well.
 *
 * Any loop may call this. The key's lock and the flows' are taken one after the other. */
#include "base/slice.h"
#include "gates/flow_internal.h"

/* How many of a line's first tickets are asked what they wait for. */
#define ASKED_MAX 8

/* How many flows that rest are looked at for a ticket that enters, and by the keeper. */
#define LOOKS_ENTERING 64
#define LOOKS_KEEPER   1000

void weir_flow_begin_rest(struct weir_flow *flow)
{
    struct weir_key_state *state = weir_key_state_of(flow->key);
    if (state->resting.next == NULL) {
        weir_list_init(&state->resting);
    }
    weir_list_push_back(&state->resting, &flow->rest);
    atomic_fetch_add(&state->resting_count, 1);
    flow->resting = true;
}

void weir_flow_end_rest(struct weir_flow *flow)
{
    if (flow->resting) {
        weir_list_unlink(&flow->rest);
        atomic_fetch_sub(&weir_key_state_of(flow->key)->resting_count, 1);
        flow->resting = false;
    }
}

/* Tickets that a permit would help. */
struct wanted {
    bool waiting;    /* tickets wait at all */
    bool asked_line; /* not only the ticket that enters */
    uint32_t count;
    struct {
        bool any; /* a permit of any tenant will do */
        struct weir_slice tenant;
        char tenant_text[WEIR_NAME_BYTES_MAX];
    } of[ASKED_MAX];
};

static void add(struct wanted *wanted, enum weir_binding binding, struct weir_slice tenant)
{
    if (binding == WEIR_BINDING_LIMIT || binding == WEIR_BINDING_TENANT_LIMIT) {
        uint32_t n = wanted->count++;
        wanted->of[n].any = binding == WEIR_BINDING_LIMIT;
        wanted->of[n].tenant = weir_slice_copy(wanted->of[n].tenant_text, tenant);
    }
}

/* Under the key's lock. */
static void ask_line(const struct weir_key *key, uint64_t now_ns, struct wanted *wanted)
{
    struct weir_place places[ASKED_MAX];
    uint32_t count = weir_key_line(key, now_ns, places, ASKED_MAX);
    for (uint32_t i = 0; i < count; i++) {
        add(wanted, places[i].why.binding, places[i].tenant);
    }
    wanted->asked_line = true;
}

/* Under the key's lock: asks the ticket that enters; null: the line. */
static void ask(const struct weir_key *key, const struct weir_gate_ticket *gate_ticket,
                uint64_t now_ns, struct wanted *wanted)
{
    struct weir_key_state *state = weir_key_state_of(key);
    enum weir_binding binding = WEIR_BINDING_TURN; /* others' needs count */
    wanted->waiting = key->share_heap.tickets > 0;
    wanted->asked_line = false;
    wanted->count = 0;
    if (!wanted->waiting || weir_key_is_paused(key)) {
        return;
    }
    if (gate_ticket != NULL) {
        binding = weir_key_explain_within(key, &gate_ticket->ticket, 1, now_ns).binding;
        add(wanted, binding, gate_ticket->tenant);
    }
    bool may_ask = gate_ticket == NULL || now_ns >= state->ask_line_ns;
    if (binding == WEIR_BINDING_TURN && may_ask) {
        ask_line(key, now_ns, wanted);
        state->ask_line_ns = now_ns + WEIR_FLOW_REST_NS;
    }
}

static bool helps(const struct weir_flow *flow, const struct wanted *wanted)
{
    bool found = false;
    for (uint32_t i = 0; i < wanted->count && !found; i++) {
        found =
            wanted->of[i].any || weir_slice_equal(flow->gate_ticket.tenant, wanted->of[i].tenant);
    }
    return found;
}

/* Under the flows' lock: takes out the flow that has rested longest among those whose permit would
 * help; null: there is none. */
static struct weir_flow *take_resting(const struct weir_link *list, const struct wanted *wanted,
                                      uint32_t looks_max)
{
    struct weir_link *at = list->next;
    for (uint32_t i = 0; i < looks_max && at != list && wanted->count > 0; i++, at = at->next) {
        struct weir_flow *flow = weir_container_of(at, struct weir_flow, rest);
        if (helps(flow, wanted)) {
            weir_flow_take_out(flow);
            return flow;
        }
    }
    return NULL;
}

/* Under the flows' lock: lets the keeper look at that moment, if any flow still rests. */
static void look_again(const struct weir_link *list, uint64_t at_ns)
{
    if (!weir_list_empty(list)) {
        struct weir_flow *first = weir_container_of(list->next, struct weir_flow, rest);
        if (at_ns < first->look_ns) {
            weir_flow_look_at(first, at_ns);
        }
    }
}

void weir_flows_make_room(void *context, struct weir_key *key,
                          const struct weir_gate_ticket *gate_ticket, uint32_t loop_index)
{
    struct weir_flows *flows = context;
    struct weir_key_state *state = weir_key_state_of(key);
    struct wanted wanted;
    struct weir_flow *flow = NULL;
    uint64_t now_ns = weir_gates_loop(flows->gates, loop_index)->now_ns;
    uint32_t looks_max = gate_ticket == NULL ? LOOKS_KEEPER : LOOKS_ENTERING;
    weir_key_lock(key);
    ask(key, gate_ticket, now_ns, &wanted);
    weir_key_unlock(key);
    pthread_mutex_lock(&flows->lock);
    if (atomic_load(&state->resting_count) > 0) {
        flow = take_resting(&state->resting, &wanted, looks_max);
        bool at_once = flow != NULL && gate_ticket == NULL && wanted.count > 1;
        if (wanted.waiting) {
            look_again(&state->resting, at_once ? now_ns : now_ns + WEIR_FLOW_REST_NS);
        }
    }
    bool sooner = weir_flows_must_arm(flows);
    pthread_mutex_unlock(&flows->lock);
    if (flow != NULL && wanted.asked_line) {
        weir_key_lock(key);
        state->ask_line_ns = 0;
        weir_key_unlock(key);
    }
    if (flow != NULL) {
        weir_flow_give_back(flow, loop_index);
    }
    if (sooner) {
        weir_flows_arm(flows, loop_index);
    }
}
