/* ride.c - an exchange whose permit is its flow's: it waits with the flow, goes in with it, and is
 * refused with it, or alone when its own time is over. Its gate ticket stands for the key, without
 * a ticket: what is told of a refusal is read from there. */
#include "gateway/transfer.h"

#include "base/list.h"

#include <assert.h>

static void ride(struct weir_exchange *exchange);

static void go_in(struct weir_exchange *exchange)
{
    exchange->gate_ticket.ticket.lane_id = exchange->rider.lane_id;
    weir_client_relax(exchange->client);
    weir_exchange_admitted(exchange);
}

/* The words are those of a ticket of its own that ended like the flow's. */
static void refuse(struct weir_exchange *exchange)
{
    struct weir_ticket *ticket = &exchange->gate_ticket.ticket;
    ticket->end = exchange->rider.end;
    ticket->refusal = exchange->rider.refusal;
    if (ticket->end == WEIR_END_TIMEOUT || ticket->end == WEIR_END_DISPLACED) {
        weir_exchange_refuse_in_line(exchange);
    } else {
        weir_exchange_refuse(exchange);
    }
}

static void on_told(struct weir_rider *rider, enum weir_rider_state state)
{
    struct weir_exchange *exchange = weir_container_of(rider, struct weir_exchange, rider);
    switch (state) {
    case WEIR_RIDER_INSIDE:
        go_in(exchange);
        break;
    case WEIR_RIDER_REFUSED:
        refuse(exchange);
        break;
    case WEIR_RIDER_AGAIN:
        ride(exchange);
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
    weir_timer_set(&exchange->worker->loop, &client->timer, exchange->rider.deadline_ns);
}

static void ride(struct weir_exchange *exchange)
{
    const struct weir_config_route *route = exchange->route;
    const struct weir_gate_ticket *gate_ticket = &exchange->gate_ticket;
    struct weir_fare fare = {
        .key = gate_ticket->key,
        .config = &exchange->site->config->gates[route->gate],
        .gate = exchange->site->plan->gates[route->gate],
        .loop_index = exchange->worker->index,
        .flow = gate_ticket->flow,
        .request = {.tenant = gate_ticket->tenant,
                    .priority = (enum weir_priority)gate_ticket->ticket.priority,
                    .deadline_ns = gate_ticket->ticket.deadline_ns},
        .depth = route->depth,
        .idle_ns = route->flow_idle_ns};
    switch (weir_rider_enter(exchange->worker->flows, &exchange->rider, &fare)) {
    case WEIR_RIDE_INSIDE:
        go_in(exchange);
        break;
    case WEIR_RIDE_WAITING:
        wait(exchange);
        break;
    case WEIR_RIDE_REFUSED:
        refuse(exchange);
        break;
    case WEIR_RIDE_TOO_DEEP:
        weir_exchange_refuse_depth(exchange);
        break;
    }
}

void weir_exchange_ride(struct weir_exchange *exchange, const struct weir_destination *where,
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
    exchange->rider.told = on_told;
    exchange->has_ticket = true;
    exchange->rides = true;
    ride(exchange);
}

/* Not by way of the rider, whose flow may be telling it the same at this moment. */
void weir_exchange_ride_late(struct weir_exchange *exchange)
{
    assert(exchange->rides); /* nobody else's client has something to be late for in line */
    exchange->gate_ticket.ticket.end = WEIR_END_TIMEOUT;
    weir_exchange_refuse_in_line(exchange);
}

void weir_exchange_end_ride(struct weir_exchange *exchange, enum weir_outcome outcome)
{
    if (exchange->state == WEIR_EXCHANGE_WAITING) { /* it is being answered */
        weir_client_relax(exchange->client);
    }
    exchange->ticket_pending = !weir_rider_leave(&exchange->rider, outcome, exchange->flow_last);
    weir_gate_ticket_close(&exchange->gate_ticket);
}
