/* lane_failover.c - another lane for a request whose upstream cannot be reached, or whose server
 * has failed or refused it.
 *
 * The permit goes back, and the request stands at the head of its tenant's line again, with its
 * deadline still running; it prefers lanes that it has not tried. The client has heard nothing of
 * the first lane. A fail-over is no retry: it waits for no backoff and is paid from no account of
 * retries, since it goes to a lane that has not had the request. Only where the other lane is full
 * for longer than a moment may the first one get it a second time.
 *
 * An upstream that cannot be reached also closes its lane for as long as its servers are left
 * alone, so the next requests do not go there first. Where no other lane is open, the client gets
 * the 502, or the server's own reply, as it would without lanes: to wait for a lane that has just
 * failed would only make it a late one. */
#include "proxy/exchange_steps.h"

/* Of one request. A lane is tried again when its pause is over, so a request for another one that
 * is full may come here more than once for each; longer and longer pauses keep that rare. */
#define UNREACHABLE_MAX 100

/* Servers that one request reaches, however many lanes there are. */
#define ATTEMPTS_MAX 4

/* How long a lane whose server has failed rests while the request waits for a full one. Longer
 * would cost more than a single failure is worth; failures in a row trip the lane's breaker. */
#define REST_NS (100 * WEIR_NS_PER_MS)

/* When to try the upstream again: not before one of its servers is taken for good, and not before
 * the shortest pause. */
static uint64_t rest_until_ns(const struct weir_upstream *upstream, uint64_t now_ns)
{
    uint64_t earliest_ns = WEIR_NEVER;
    for (uint32_t i = 0; i < upstream->config->url_count; i++) {
        uint64_t down_until_ns = weir_origin_down_until_ns(&upstream->origins[i]);
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
           exchange->route->upstream_count > 1 && exchange->failovers < UNREACHABLE_MAX &&
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

bool weir_exchange_fail_over_unreachable(struct weir_exchange *exchange)
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
    exchange->moves = true;
    weir_exchange_end_ticket(exchange, WEIR_OUTCOME_SOFT_LOSS);
    exchange->moves = false;
    if (exchange->place == WEIR_PLACE_LEAVING) { /* its lease was over in the same moment */
        return false;
    }
    enter_again(exchange, (struct weir_slice){text, key.bytes}, &request);
    return true;
}

bool weir_exchange_has_untried_lane(const struct weir_exchange *exchange)
{
    return exchange->route->upstream_count > 1 &&
           (uint32_t)__builtin_popcountll(exchange->lanes_tried) < exchange->route->upstream_count;
}

/* ---- all lanes down ---- */

/* Whether no server of the upstream could be reached when that was last tried. */
static bool is_known_down(const struct weir_upstream *upstream)
{
    for (uint32_t i = 0; i < upstream->config->url_count; i++) {
        if (!weir_origin_known_down(&upstream->origins[i])) {
            return false;
        }
    }
    return true;
}

/* Whether each lane of the key is closed, or open only for a probe that is under way. */
static bool are_lanes_closed(const struct weir_exchange *exchange)
{
    uint64_t now_ns = exchange->worker->loop.now_ns;
    struct weir_lane_stats lane;
    for (uint32_t i = 0; weir_gates_lane(exchange->gate_ticket.key, i, now_ns, &lane); i++) {
        if (lane.paused_until_ns <= now_ns && !lane.probing) {
            return false;
        }
    }
    return true;
}

bool weir_exchange_fail_fast(struct weir_exchange *exchange)
{
    const struct weir_config_route *route = exchange->route;
    for (uint32_t i = 0; i < route->upstream_count; i++) {
        if (!is_known_down(&exchange->worker_config->upstreams[route->upstreams[i]])) {
            return false;
        }
    }
    if (route->upstream_count < 2 || !are_lanes_closed(exchange)) {
        return false;
    }
    weir_exchange_answer_down(exchange, route->upstreams[0]);
    return true;
}

bool weir_exchange_status_fails(uint16_t status)
{
    return status == 429 || status == 500 || status == 502 || status == 503 || status == 504 ||
           status == 529;
}

/* Whether all of the request can be sent once more, and may be. */
static bool can_repeat(const struct weir_exchange *exchange)
{
    return exchange->request.keeps_body && exchange->request.repeatable &&
           exchange->request.upgrade != WEIR_UPGRADE_WEBSOCKET &&
           exchange->request.body.state == WEIR_BODY_ENDED;
}

/* By when the request has to leave the line again: the time that its server took is not the line's.
 */
static uint64_t line_deadline_ns(const struct weir_exchange *exchange)
{
    const struct weir_ticket *ticket = &exchange->gate_ticket.ticket;
    uint64_t now_ns = exchange->worker->loop.now_ns;
    if (ticket->deadline_ns == WEIR_NEVER) {
        return exchange->deadline_ns;
    }
    uint64_t until_ns = now_ns + (ticket->deadline_ns - ticket->admitted_ns);
    return until_ns < exchange->deadline_ns ? until_ns : exchange->deadline_ns;
}

bool weir_exchange_fail_over_refused(struct weir_exchange *exchange, enum weir_outcome outcome)
{
    struct weir_gate_ticket *gate_ticket = &exchange->gate_ticket;
    uint64_t now_ns = exchange->worker->loop.now_ns;
    if (exchange->route->upstream_count < 2 || exchange->place != WEIR_PLACE_OWN ||
        exchange->reply.progress >= WEIR_REPLY_INTERIM_CUT || !can_repeat(exchange) ||
        exchange->tried_again || exchange->failovers >= ATTEMPTS_MAX - 1 ||
        exchange->deadline_ns <= now_ns ||
        !weir_gate_ticket_may_change_lane(gate_ticket, exchange->lanes_tried,
                                          line_deadline_ns(exchange), now_ns + REST_NS)) {
        return false;
    }
    char text[WEIR_NAME_BYTES_MAX];
    struct weir_slice key = weir_key_name(gate_ticket->key);
    memcpy(text, key.data, key.bytes);
    struct weir_request request = {.priority = (enum weir_priority)gate_ticket->ticket.priority,
                                   .deadline_ns = line_deadline_ns(exchange),
                                   .retry = true};
    if (exchange->backend != NULL) {
        weir_exchange_leave_backend(exchange);
    }
    weir_buffer_release(&exchange->worker->buffers, &exchange->reply.head);
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_RESTART)) {
        weir_filters_restart(exchange);
    }
    exchange->moves = true;
    exchange->reached = true;
    weir_exchange_end_ticket(exchange, outcome);
    exchange->moves = false;
    exchange->reply.progress = WEIR_REPLY_NONE;
    if (exchange->place == WEIR_PLACE_LEAVING) { /* its lease was over in the same moment */
        weir_exchange_answer(exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502,
                             "The upstream failed when the permit's lease was over. Try again.");
        return true;
    }
    enter_again(exchange, (struct weir_slice){text, key.bytes}, &request);
    return true;
}
