/* exchange_flow.c - the filter of routes with `permit: flow`: an exchange whose permit is its
 * flow's waits with the flow, goes in with it, and is refused with it, or alone when its own time
 * is over. Its gate ticket stands for the key, without a ticket: what a refusal says is read from
 * there.
 *
 * The state is taken when the request names a flow. It goes with the exchange, or, if the flow
 * still has a post to it under way then, when that has arrived. */
#include "proxy/exchange_flow.h"

#include "base/list.h"
#include "base/slice.h"
#include "proxy/exchange_steps.h"

#include <assert.h>

static void enter_flow(struct weir_exchange_flow *flow);

/* ---- the flow's answers ---- */

static void go_in(struct weir_exchange_flow *flow)
{
    struct weir_exchange *exchange = flow->exchange;
    exchange->gate_ticket.ticket.lane_id = flow->request.lane_id;
    weir_client_relax(exchange->client);
    weir_exchange_admitted(exchange);
}

/* The words are those of a ticket of its own that ended like the flow's. */
static void refuse(struct weir_exchange_flow *flow)
{
    struct weir_ticket *ticket = &flow->exchange->gate_ticket.ticket;
    ticket->end = flow->request.end;
    ticket->refusal = flow->request.refusal;
    if (ticket->end == WEIR_END_TIMEOUT || ticket->end == WEIR_END_DISPLACED) {
        weir_exchange_refuse_in_line(flow->exchange);
    } else {
        weir_exchange_refuse(flow->exchange);
    }
}

static void free_flow(struct weir_exchange_flow *flow)
{
    weir_slab_give(&flow->exchange->worker->exchange_flows, flow);
}

/* The flow has let go of the request. */
static void go_out(struct weir_exchange_flow *flow)
{
    struct weir_exchange *exchange = flow->exchange;
    if (exchange->state == WEIR_EXCHANGE_OVER) {
        free_flow(flow);
    }
    weir_exchange_ticket_back(exchange);
}

static void on_change(struct weir_flow_request *request, enum weir_flow_request_state state)
{
    struct weir_exchange_flow *flow =
        weir_container_of(request, struct weir_exchange_flow, request);
    switch (state) {
    case WEIR_FLOW_REQUEST_INSIDE:
        go_in(flow);
        break;
    case WEIR_FLOW_REQUEST_REFUSED:
        refuse(flow);
        break;
    case WEIR_FLOW_REQUEST_AGAIN:
        enter_flow(flow);
        break;
    default:
        go_out(flow);
        break;
    }
}

/* ---- into the flow, and out of it ---- */

/* Its own time in line is the client's timer, which has nothing else to watch meanwhile. */
static void wait(struct weir_exchange_flow *flow)
{
    struct weir_worker *worker = flow->exchange->worker;
    struct weir_client *client = flow->exchange->client;
    if (weir_buffer_bytes(&client->in) == 0) {
        weir_buffer_release(&worker->buffers, &client->in);
    }
    weir_timer_set(&worker->loop, &client->timer, flow->request.deadline_ns);
}

static void enter_flow(struct weir_exchange_flow *flow)
{
    struct weir_exchange *exchange = flow->exchange;
    const struct weir_config_route *route = exchange->route;
    const struct weir_gate_ticket *gate_ticket = &exchange->gate_ticket;
    struct weir_flow_params params = {
        .key = gate_ticket->key,
        .config = &exchange->worker_config->config->gates[route->gate],
        .gate = exchange->worker_config->snapshot->gates[route->gate],
        .loop_index = exchange->worker->index,
        .flow = gate_ticket->flow,
        .request = {.tenant = gate_ticket->tenant,
                    .priority = (enum weir_priority)gate_ticket->ticket.priority,
                    .deadline_ns = gate_ticket->ticket.deadline_ns},
        .depth = route->depth,
        .idle_ns = route->flow_idle_ns};
    switch (weir_flow_request_enter(exchange->worker->flows, &flow->request, &params)) {
    case WEIR_FLOW_ENTRY_INSIDE:
        go_in(flow);
        break;
    case WEIR_FLOW_ENTRY_WAITING:
        wait(flow);
        break;
    case WEIR_FLOW_ENTRY_REFUSED:
        refuse(flow);
        break;
    case WEIR_FLOW_ENTRY_TOO_DEEP:
        weir_exchange_refuse_depth(exchange);
        break;
    }
}

/* ---- the hooks ---- */

/* Whether the request says that it is the flow's last. */
static bool is_last(const struct weir_request_facts *facts)
{
    return weir_http1_find(facts->head, WEIR_FIELD_WEIR_FLOW) != NULL;
}

static const char *object(const struct weir_request_facts *facts)
{
    const struct weir_http1_field *said = weir_http1_find(facts->head, WEIR_FIELD_WEIR_FLOW);
    bool known = said == NULL ||
                 ((facts->head->repeated & WEIR_FIELD_BIT(WEIR_FLOW)) == 0 &&
                  weir_slice_equal(weir_http1_value(facts->data, said), weir_slice_of("end")));
    return known ? NULL : "Weir-Flow is end, on the last request of a flow.";
}

static bool begin(struct weir_exchange *exchange,
                  const struct weir_filter_use *use __attribute__((unused)),
                  const struct weir_request_facts *facts, void **state)
{
    if (exchange->gate_ticket.flow.bytes == 0) {
        return true; /* it stands in line for itself */
    }
    struct weir_exchange_flow *flow = weir_slab_take(&exchange->worker->exchange_flows);
    if (flow == NULL) {
        return false;
    }
    *flow = (struct weir_exchange_flow){
        .request = {.on_change = on_change}, .exchange = exchange, .last = is_last(facts)};
    *state = flow;
    return true;
}

static bool enter(struct weir_exchange *exchange, void *state, const struct weir_destination *where,
                  const struct weir_request *request)
{
    struct weir_gate_ticket *gate_ticket = &exchange->gate_ticket;
    if (state == NULL) {
        return false;
    }
    if (weir_gate_ticket_visit(exchange->worker->gates, gate_ticket, where, request->deadline_ns) !=
        WEIR_OK) {
        weir_exchange_refuse(exchange);
        weir_gate_ticket_close(gate_ticket);
        return true;
    }
    gate_ticket->ticket.priority = (uint8_t)request->priority;
    exchange->place = WEIR_PLACE_BORROWED;
    enter_flow(state);
    return true;
}

static bool leave(struct weir_exchange *exchange, void *state, enum weir_outcome outcome)
{
    struct weir_exchange_flow *flow = state;
    if (exchange->state == WEIR_EXCHANGE_WAITING) { /* it is being answered */
        weir_client_relax(exchange->client);
    }
    bool back = weir_flow_request_leave(&flow->request, outcome, flow->last);
    weir_gate_ticket_close(&exchange->gate_ticket);
    return back;
}

/* It has waited for as long as it may. Not by way of the request, whose flow may be telling it the
 * end of the wait at this moment. */
static bool is_late(struct weir_exchange *exchange, void *state)
{
    if (exchange->state != WEIR_EXCHANGE_WAITING || state == NULL) {
        return false;
    }
    exchange->gate_ticket.ticket.end = WEIR_END_TIMEOUT;
    weir_exchange_refuse_in_line(exchange);
    return true;
}

static void end(struct weir_exchange *exchange, void *state)
{
    if (state != NULL && exchange->place != WEIR_PLACE_LEAVING) {
        free_flow(state);
    }
}

const struct weir_exchange_filter weir_flow_filter = {
    .object = object, .begin = begin, .late = is_late, .enter = enter, .leave = leave, .end = end};
