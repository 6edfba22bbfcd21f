/* exchange_flow.c - an exchange whose permit is its flow's: it waits with the flow, goes in with
 * it, and is refused with it, or alone when its own time is over. Its gate ticket stands for the
 * key, without a ticket: what is told of a refusal is read from there. */
#include "proxy/exchange_internal.h"

#include "base/list.h"

#include <assert.h>

static void enter_flow(struct weir_exchange *exchange);

static void go_in(struct weir_exchange *exchange)
{
    exchange->gate_ticket.ticket.lane_id = exchange->flow_request.lane_id;
    weir_client_relax(exchange->client);
    weir_exchange_admitted(exchange);
}

/* The words are those of a ticket of its own that ended like the flow's. */
static void refuse(struct weir_exchange *exchange)
{
    struct weir_ticket *ticket = &exchange->gate_ticket.ticket;
    ticket->end = exchange->flow_request.end;
    ticket->refusal = exchange->flow_request.refusal;
    if (ticket->end == WEIR_END_TIMEOUT || ticket->end == WEIR_END_DISPLACED) {
        weir_exchange_refuse_in_line(exchange);
    } else {
        weir_exchange_refuse(exchange);
    }
}

static void on_told(struct weir_flow_request *flow_request, enum weir_flow_request_state state)
{
    struct weir_exchange *exchange =
        weir_container_of(flow_request, struct weir_exchange, flow_request);
    switch (state) {
    case WEIR_FLOW_REQUEST_INSIDE:
        go_in(exchange);
        break;
    case WEIR_FLOW_REQUEST_REFUSED:
        refuse(exchange);
        break;
    case WEIR_FLOW_REQUEST_AGAIN:
        enter_flow(exchange);
        break;
    default:
        exchange->ticket_pending = false;
        weir_exchange_bury_if_free(exchange);
        break;
    }
}

/* Its own time in line is the client's timer, which has nothing else to watch meanwhile. */
static void wait(struct weir_exchange *exchange)
{
    struct weir_client *client = exchange->client;
    if (weir_buffer_bytes(&client->in) == 0) {
        weir_buffer_release(&exchange->worker->buffers, &client->in);
    }
    weir_timer_set(&exchange->worker->loop, &client->timer, exchange->flow_request.deadline_ns);
}

static void enter_flow(struct weir_exchange *exchange)
{
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
    switch (weir_flow_request_enter(exchange->worker->flows, &exchange->flow_request, &params)) {
    case WEIR_FLOW_ENTRY_INSIDE:
        go_in(exchange);
        break;
    case WEIR_FLOW_ENTRY_WAITING:
        wait(exchange);
        break;
    case WEIR_FLOW_ENTRY_REFUSED:
        refuse(exchange);
        break;
    case WEIR_FLOW_ENTRY_TOO_DEEP:
        weir_exchange_refuse_depth(exchange);
        break;
    }
}

void weir_exchange_enter_flow(struct weir_exchange *exchange, const struct weir_destination *where,
                              const struct weir_request *request)
{
    struct weir_gate_ticket *gate_ticket = &exchange->gate_ticket;
    if (weir_gate_ticket_visit(exchange->worker->gates, gate_ticket, where, request->deadline_ns) !=
        WEIR_OK) {
        weir_exchange_refuse(exchange);
        weir_gate_ticket_close(gate_ticket);
        return;
    }
    gate_ticket->ticket.priority = (uint8_t)request->priority;
    exchange->flow_request.on_change = on_told;
    exchange->has_ticket = true;
    exchange->uses_flow = true;
    enter_flow(exchange);
}

/* Not by way of the request, whose flow may be telling it the same at this moment. */
void weir_exchange_late_for_flow(struct weir_exchange *exchange)
{
    assert(exchange->uses_flow); /* nobody else's client has something to be late for in line */
    exchange->gate_ticket.ticket.end = WEIR_END_TIMEOUT;
    weir_exchange_refuse_in_line(exchange);
}

void weir_exchange_leave_flow(struct weir_exchange *exchange, enum weir_outcome outcome)
{
    if (exchange->state == WEIR_EXCHANGE_WAITING) { /* it is being answered */
        weir_client_relax(exchange->client);
    }
    exchange->ticket_pending =
        !weir_flow_request_leave(&exchange->flow_request, outcome, exchange->flow_last);
    weir_gate_ticket_close(&exchange->gate_ticket);
}
