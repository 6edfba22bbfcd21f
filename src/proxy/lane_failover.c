/* lane_failover.c - another lane for a request whose upstream cannot be reached.
 *
 * Nothing of it was sent, so only the lane notices: it is closed for as long as its
 * servers are left alone; so the next requests do not go there first. The permit goes back, and the
 * request stands at the head of its tenant's line again, with its deadline still running. Where no
 * other lane is open, the answer is a 502 as it is without lanes: to wait for a lane that has just
 * failed would only make it a late one. */
#include "proxy/exchange_steps.h"

/* Of one request. A lane is tried again when its pause is over, so a request for another one that
 * is full may come here more than once for each; longer and longer pauses keep that rare. */
#define DETOURS_MAX 100

/* When to try the upstream again: not before one of its servers is taken for good, and not before
 * the shortest pause. */
static uint64_t rest_until_ns(const struct weir_upstream *upstream, uint64_t now_ns)
{
    uint64_t earliest_ns = WEIR_NEVER;
    for (uint32_t i = 0; i < upstream->config->url_count; i++) {
        uint64_t down_until_ns = upstream->origins[i].down_until_ns;
        earliest_ns = down_until_ns < earliest_ns ? down_until_ns : earliest_ns;
    }
    uint64_t least_ns = now_ns + upstream->config->health.pause_ns;
    return earliest_ns > least_ns ? earliest_ns : least_ns;
}

/* Where a route has one upstream, all lanes of its gate lead there. What a flow holds belongs to
 * others, too. */
static bool may_go(const struct weir_exchange *exchange)
{
    return exchange->place == WEIR_PLACE_OWN && exchange->reply.progress == WEIR_REPLY_NONE &&
           exchange->route->upstream_count > 1 && exchange->failovers < DETOURS_MAX &&
           exchange->gate_ticket.ticket.deadline_ns > exchange->worker->loop.now_ns;
}

static void enter_again(struct weir_exchange *exchange, struct weir_slice key,
                        struct weir_request *request)
{
    exchange->failovers++;
    weir_exchange_restart(exchange);
    weir_client_relax(exchange->client);
    if (!weir_exchange_has_hook(exchange, WEIR_HOOK_ENTER_AGAIN) ||
        !weir_filters_enter_again(exchange, request)) {
        weir_exchange_enter(exchange, key, request);
    }
}

bool weir_exchange_fail_over(struct weir_exchange *exchange)
{
    struct weir_gate_ticket *gate_ticket = &exchange->gate_ticket;
    if (!may_go(exchange)) {
        return false;
    }
    const struct weir_upstream *upstream =
        &exchange->worker_config->upstreams[weir_exchange_lane(exchange)];
    if (!weir_gate_ticket_avoid(gate_ticket,
                                rest_until_ns(upstream, exchange->worker->loop.now_ns))) {
        return false;
    }
    char text[WEIR_NAME_BYTES_MAX];
    struct weir_slice key = weir_key_name(gate_ticket->key);
    memcpy(text, key.data, key.bytes);
    struct weir_request request = {.priority = (enum weir_priority)gate_ticket->ticket.priority,
                                   .deadline_ns = gate_ticket->ticket.deadline_ns,
                                   .retry = true};
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_RESTART)) {
        weir_filters_restart(exchange);
    }
    weir_exchange_end_ticket(exchange, WEIR_OUTCOME_SOFT_LOSS);
    if (exchange->place == WEIR_PLACE_LEAVING) { /* its lease was over in the same moment */
        return false;
    }
    enter_again(exchange, (struct weir_slice){text, key.bytes}, &request);
    return true;
}
