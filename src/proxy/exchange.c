/* exchange.c - the life of an exchange: its states and its end, answers of our own, what its gate
 * reports, and what its client does or fails to do in time.
 *
 * Every function runs in the loop of the exchange's worker, as everywhere in this folder: an
 * exchange is never touched by another thread. */
#include "proxy/exchange_steps.h"

#include "base/list.h"
#include "gates/refusal.h"
#include "proxy/refusal_log.h"
#include "wire/head_writer.h"

#include <assert.h>

#define TO(state) (UINT32_C(1) << WEIR_EXCHANGE_##state)

void weir_exchange_move(struct weir_exchange *exchange, enum weir_exchange_state state)
{
    /* Any of them may end at once, when the client leaves, and all but the last two with an answer
     * of ours, which is FINISHING. */
    static const uint32_t next[] = {
        [WEIR_EXCHANGE_READING] = TO(WAITING) | TO(PAUSED) | TO(FINISHING) | TO(OVER),
        [WEIR_EXCHANGE_WAITING] = TO(CONNECTING) | TO(FINISHING) | TO(OVER),
        [WEIR_EXCHANGE_PAUSED] = TO(WAITING) | TO(FINISHING) | TO(OVER),
        [WEIR_EXCHANGE_CONNECTING] =
            TO(CONNECTING) | TO(SENDING) | TO(WAITING) | TO(FINISHING) | TO(OVER),
        [WEIR_EXCHANGE_SENDING] = TO(CONNECTING) | TO(WAITING) | TO(PAUSED) | TO(JUDGING) |
                                  TO(REPLYING) | TO(TUNNEL) | TO(FINISHING) | TO(OVER),
        [WEIR_EXCHANGE_JUDGING] =
            TO(REPLYING) | TO(WAITING) | TO(PAUSED) | TO(FINISHING) | TO(OVER),
        [WEIR_EXCHANGE_REPLYING] = TO(FINISHING) | TO(OVER),
        [WEIR_EXCHANGE_TUNNEL] = TO(FINISHING) | TO(OVER),
        [WEIR_EXCHANGE_FINISHING] = TO(OVER),
        [WEIR_EXCHANGE_OVER] = 0};
    assert((next[exchange->state] >> state & 1) != 0);
    exchange->state = (uint8_t)state;
}

/* ---- its end ---- */

static void free_exchange(struct weir_dead *dead)
{
    struct weir_exchange *exchange = weir_container_of(dead, struct weir_exchange, dead);
    weir_worker_config_give(exchange->worker_config);
    weir_slab_give(&exchange->worker->exchanges, exchange);
}

/* Once it is over and nothing to it is under way. */
void weir_exchange_bury_if_free(struct weir_exchange *exchange)
{
    if (exchange->state == WEIR_EXCHANGE_OVER && exchange->place != WEIR_PLACE_LEAVING &&
        exchange->again.arrive == NULL) {
        weir_loop_bury(&exchange->worker->loop, &exchange->dead, free_exchange);
    }
}

/* Gives the permit back, or leaves the line. True if no post to the ticket is under way. */
static bool leave(struct weir_exchange *exchange, const struct weir_result *result)
{
    if (exchange->place == WEIR_PLACE_BORROWED) {
        return weir_filters_leave(exchange, result->outcome);
    }
    return result->outcome == WEIR_OUTCOME_CANCELLED && !result->usage_known
               ? weir_gate_ticket_cancel(&exchange->gate_ticket)
               : weir_gate_ticket_leave(&exchange->gate_ticket, result);
}

/* The gate ticket goes back, if there is one. */
void weir_exchange_end_ticket(struct weir_exchange *exchange, enum weir_outcome outcome)
{
    struct weir_result result = {.outcome =
                                     exchange->server_failed ? WEIR_OUTCOME_SOFT_LOSS : outcome,
                                 .moves = exchange->moves};
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_SETTLE)) {
        weir_filters_settle(exchange, &result);
    }
    if (!weir_exchange_has_place(exchange)) {
        return;
    }
    if (exchange->place == WEIR_PLACE_OWN && weir_exchange_has_hook(exchange, WEIR_HOOK_KEEP) &&
        weir_filters_keep(exchange, &result)) {
        exchange->place = WEIR_PLACE_NONE;
        return;
    }
    exchange->place = leave(exchange, &result) ? WEIR_PLACE_NONE : WEIR_PLACE_LEAVING;
}

void weir_exchange_ticket_back(struct weir_exchange *exchange)
{
    assert(exchange->place == WEIR_PLACE_LEAVING);
    exchange->place = WEIR_PLACE_NONE;
    weir_exchange_bury_if_free(exchange);
}

static void release_memory(struct weir_exchange *exchange)
{
    struct weir_buffer_pool *buffers = &exchange->worker->buffers;
    weir_buffer_release(buffers, &exchange->request.head);
    weir_buffer_release(buffers, &exchange->reply.head);
    weir_buffer_release(buffers, &exchange->reply.tail);
}

/* Lets go of everything. The client has its answer, or its owner is about to close it. */
static void finish(struct weir_exchange *exchange, enum weir_outcome outcome)
{
    exchange->client = NULL;
    weir_tally_reply(exchange->tally, exchange->reply.status,
                     exchange->worker->loop.now_ns - exchange->arrived_ns);
    if (exchange->backend != NULL) {
        weir_backend_drop(exchange->backend);
        exchange->backend = NULL;
    }
    release_memory(exchange);
    weir_body_spool_drop(exchange);
    weir_exchange_drop_head(exchange);
    if (exchange->request.start != NULL) {
        weir_exchange_drop_start(exchange);
    }
    weir_exchange_move(exchange, WEIR_EXCHANGE_OVER);
    weir_exchange_end_ticket(exchange, outcome);
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_END)) {
        weir_filters_end(exchange);
    }
    weir_exchange_bury_if_free(exchange);
}

static void abort_call(struct weir_client *client)
{
    finish(client->call, WEIR_OUTCOME_CANCELLED);
}

void weir_exchange_abandon(struct weir_exchange *exchange, enum weir_abandon why)
{
    exchange->abandoned = (uint8_t)(why + 1);
    weir_client_abandon(exchange->client, why);
}

/* What was checked of the body but never sent is not the beginning of the next request. */
static void drop_body(struct weir_exchange *exchange)
{
    weir_body_spool_drop(exchange);
    weir_buffer_consume(&exchange->client->in, exchange->request.body_ready);
    exchange->request.body_ready = 0;
    exchange->request.body_sent = 0;
}

void weir_exchange_complete(struct weir_exchange *exchange)
{
    struct weir_client *client = exchange->client;
    drop_body(exchange);
    client->unfinished = exchange->request.body.state != WEIR_BODY_ENDED;
    exchange->completed = true;
    finish(exchange, WEIR_OUTCOME_CANCELLED);
    weir_client_done(client, client->keeps);
}

/* ---- answers of our own ---- */

/* Leaves the upstream, and decides whether the client's connection stays open. False if it is too
 * late for an answer: the exchange is over then. */
static bool begin_answer(struct weir_exchange *exchange)
{
    if (exchange->backend != NULL) {
        weir_backend_drop(exchange->backend);
        exchange->backend = NULL;
    }
    if (exchange->reply.progress >= WEIR_REPLY_INTERIM_CUT) {
        weir_exchange_abandon(exchange, WEIR_ABANDON_REPLY_CUT);
        return false;
    }
    weir_buffer_release(&exchange->worker->buffers, &exchange->reply.head);
    weir_client_begin_reply(exchange->client, WEIR_FRAMING_LENGTH,
                            exchange->request.body.state == WEIR_BODY_ENDED);
    return true;
}

/* Sends the answer that has been written to the reply's buffer. */
static void end_answer(struct weir_exchange *exchange, uint16_t status)
{
    /* The server has no more part in it. After the document, which names the key. */
    weir_exchange_end_ticket(exchange, WEIR_OUTCOME_CANCELLED);
    exchange->reply.status = status;
    drop_body(exchange);
    exchange->reply.ready = 0;
    weir_exchange_move(exchange, WEIR_EXCHANGE_FINISHING);
    weir_exchange_pump_reply(exchange);
    weir_exchange_watch_client(exchange);
}

void weir_exchange_answer_problem(struct weir_exchange *exchange, struct weir_problem *problem)
{
    if (!begin_answer(exchange)) {
        return;
    }
    weir_filters_problem(exchange, problem);
    weir_refusal_log(exchange, problem);
    problem->add_fields = weir_filters_add_fields;
    problem->add_members = weir_filters_add_members;
    problem->replace = weir_filters_replace;
    problem->context = exchange;
    problem->request_id = weir_exchange_id(exchange);
    struct weir_buffer_pool *buffers = &exchange->worker->buffers;
    if (!weir_buffer_reserve(buffers, &exchange->reply.head, WEIR_BUFFER_MIDDLE) ||
        !weir_problem_write(problem, exchange->client->keeps,
                            exchange->request.method != WEIR_METHOD_HEAD, &exchange->reply.head)) {
        weir_exchange_abandon(exchange, WEIR_ABANDON_RESOURCES);
        return;
    }
    end_answer(exchange, problem->status);
}

void weir_exchange_answer(struct weir_exchange *exchange, enum weir_problem_kind kind,
                          uint16_t status, const char *detail)
{
    struct weir_problem problem = {.kind = kind, .status = status, .detail = detail};
    weir_exchange_answer_problem(exchange, &problem);
}

void weir_exchange_answer_options(struct weir_exchange *exchange)
{
    struct weir_buffer_pool *buffers = &exchange->worker->buffers;
    struct weir_head_writer head;
    if (!begin_answer(exchange)) {
        return;
    }
    if (!weir_buffer_reserve(buffers, &exchange->reply.head, WEIR_BUFFER_SMALL)) {
        weir_exchange_abandon(exchange, WEIR_ABANDON_RESOURCES);
        return;
    }
    weir_head_init(&head, exchange->reply.head.data, weir_buffer_room(&exchange->reply.head));
    weir_head_status(&head, 204, (struct weir_slice){"", 0});
    weir_head_field(&head, weir_slice_of("allow"),
                    weir_slice_of("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    weir_head_field(&head, weir_slice_of("connection"),
                    weir_slice_of(exchange->client->keeps ? "keep-alive" : "close"));
    weir_head_field(&head, weir_slice_of("x-request-id"), weir_exchange_id(exchange));
    bool fits = weir_head_end(&head);
    assert(fits);
    exchange->reply.head.end = (uint32_t)head.bytes;
    end_answer(exchange, 204);
}

static struct weir_refused refused_of(const struct weir_exchange *exchange)
{
    return (struct weir_refused){.gate = &exchange->worker_config->config->gates[exchange->gate],
                                 .gate_ticket = &exchange->gate_ticket,
                                 .arrived_ns = exchange->arrived_ns,
                                 .now_ns = exchange->worker->loop.now_ns};
}

void weir_exchange_refuse(struct weir_exchange *exchange)
{
    struct weir_refused refused = refused_of(exchange);
    struct weir_refusal refusal;
    weir_refusal_at_door(&refusal, &refused);
    weir_exchange_answer_problem(exchange, &refusal.problem);
}

void weir_exchange_refuse_in_line(struct weir_exchange *exchange)
{
    struct weir_refused refused = refused_of(exchange);
    struct weir_refusal refusal;
    weir_refusal_in_line(&refusal, &refused);
    weir_exchange_answer_problem(exchange, &refusal.problem);
}

void weir_exchange_refuse_depth(struct weir_exchange *exchange)
{
    struct weir_refused refused = refused_of(exchange);
    struct weir_refusal refusal;
    weir_refusal_too_deep(&refusal, &refused);
    weir_exchange_answer_problem(exchange, &refusal.problem);
}

/* ---- the gate ---- */

static void on_change(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state)
{
    struct weir_exchange *exchange =
        weir_container_of(gate_ticket, struct weir_exchange, gate_ticket);
    if (state == WEIR_TICKET_IDLE) {
        weir_exchange_ticket_back(exchange);
        return;
    }
    if (state == WEIR_TICKET_ADMITTED) {
        weir_exchange_admitted(exchange);
        return;
    }
    exchange->place = WEIR_PLACE_NONE;
    if (gate_ticket->ticket.end == WEIR_END_LAPSED) { /* its ticket asks for no lease */
        weir_exchange_answer(exchange, WEIR_PROBLEM_PERMIT_ENDED, 503,
                             "An administrator has ended the permit of this request, which may "
                             "have been carried out in part. Ask the operator of this gateway.");
    } else {
        weir_exchange_refuse_in_line(exchange);
    }
    if (exchange->gate_ticket.key != NULL) {
        weir_gate_ticket_close(&exchange->gate_ticket);
    }
}

const struct weir_permit_owner weir_exchange_owner = {.kind = "request", .on_change = on_change};

/* ---- the client's side ---- */

/* Whether there is nothing to send until the client has sent more of its body. */
bool weir_exchange_wants_body(const struct weir_exchange *exchange)
{
    return exchange->state != WEIR_EXCHANGE_TUNNEL && !exchange->request.sent &&
           exchange->request.body.state == WEIR_BODY_GOES_ON && exchange->request.body_ready == 0 &&
           exchange->backend != NULL && exchange->backend->connected;
}

/* Whether there is something that the client has not read yet. */
bool weir_exchange_wants_reader(const struct weir_exchange *exchange)
{
    return exchange->state != WEIR_EXCHANGE_JUDGING &&
           (weir_buffer_bytes(&exchange->reply.head) > 0 || exchange->reply.ready > 0);
}

/* By when the client has to go on with the body that Weir waits for. While the request holds a
 * permit, or a buffer larger than most requests need, it has to keep the least rate. */
static uint64_t body_due_ns(struct weir_exchange *exchange)
{
    const struct weir_client *client = exchange->client;
    const struct weir_config_listener *config = client->listener->config;
    bool holds =
        exchange->state >= WEIR_EXCHANGE_CONNECTING || client->in.capacity > WEIR_BUFFER_MIDDLE;
    uint64_t due_ns =
        weir_body_pace_wait(&exchange->request.pace, config, holds, exchange->worker->loop.now_ns);
    if (exchange->state == WEIR_EXCHANGE_READING && exchange->deadline_ns < due_ns) {
        due_ns = exchange->deadline_ns;
    }
    uint64_t tell_ns = exchange->request.pace.since_ns + weir_body_pace_window_ns(config) / 2;
    return exchange->request.expects && tell_ns < due_ns ? tell_ns : due_ns;
}

static bool awaits_body(const struct weir_exchange *exchange)
{
    return exchange->state == WEIR_EXCHANGE_READING || weir_exchange_wants_body(exchange);
}

void weir_exchange_pause_body(struct weir_exchange *exchange)
{
    weir_body_pace_stop(&exchange->request.pace, exchange->client->listener->config,
                        exchange->worker->loop.now_ns);
}

/* A client that others wait for has a limited time to go on. */
void weir_exchange_watch_client(struct weir_exchange *exchange)
{
    struct weir_client *client = exchange->client;
    if (client == NULL || exchange->state == WEIR_EXCHANGE_WAITING ||
        exchange->state == WEIR_EXCHANGE_PAUSED) {
        return; /* a request in line or before it holds nothing that others wait for */
    }
    if (awaits_body(exchange)) {
        uint64_t due_ns = body_due_ns(exchange);
        if (due_ns < client->timer.due_ns) { /* else it has to read sooner than that */
            weir_timer_set(&exchange->worker->loop, &client->timer, due_ns);
        }
    } else if (weir_exchange_wants_reader(exchange)) {
        bool waited = exchange->request.pace.waits; /* for a body that is not read any more */
        weir_exchange_pause_body(exchange);
        if (waited || client->timer.due_ns == WEIR_NEVER) {
            weir_client_press(client); /* what the server does is no step of its own */
        }
    } else if (client->timer.due_ns != WEIR_NEVER) {
        weir_client_relax(client);
        weir_exchange_pause_body(exchange);
    }
}

bool weir_exchange_send_continue(struct weir_exchange *exchange)
{
    if (!weir_client_continue(exchange->client)) {
        weir_exchange_abandon(exchange, WEIR_ABANDON_LATE); /* it does not even read that */
        return false;
    }
    return true;
}

/* The upstream has not sent its 100 in time, so Weir does: else a client that holds a permit could
 * wait for ever. */
static void tell_to_send(struct weir_exchange *exchange)
{
    exchange->request.expects = false;
    if (!weir_exchange_send_continue(exchange)) {
        return;
    }
    weir_client_relax(exchange->client);
    weir_exchange_watch_client(exchange);
}

/* The body that Weir waits for has not come in time, or the deadline has passed before it was
 * there, or the client has not read an interim reply in time. */
static void body_late(struct weir_exchange *exchange)
{
    const struct weir_listener *listener = exchange->client->listener;
    uint64_t now_ns = exchange->worker->loop.now_ns;
    enum weir_body_late late =
        weir_body_pace_judge(&exchange->request.pace, listener->config, now_ns);
    const struct weir_body_spool *spool = exchange->request.spool;
    bool reading = exchange->state == WEIR_EXCHANGE_READING;
    bool expired = reading && exchange->deadline_ns <= now_ns;
    if (!expired && reading && spool != NULL && weir_body_spool_is_busy(spool)) {
        weir_body_spool_late(exchange);
        return;
    }
    if (late == WEIR_BODY_LATE_NOT && exchange->request.expects &&
        exchange->reply.progress != WEIR_REPLY_INTERIM_CUT) {
        tell_to_send(exchange);
        return;
    }
    if (exchange->reply.progress == WEIR_REPLY_BEGUN || (late == WEIR_BODY_LATE_NOT && !expired)) {
        weir_exchange_abandon(exchange, WEIR_ABANDON_LATE); /* it would not read an answer either */
        return;
    }
    char text[WEIR_BODY_LATE_TEXT_BYTES] =
        "The deadline of the request (deadline of its route, or Weir-Timeout) passed before its "
        "body was there. Send it faster, or ask for more time.";
    if (late != WEIR_BODY_LATE_NOT) {
        weir_body_late_text(late, listener->config, text);
    }
    exchange->client->keeps = false;
    weir_exchange_answer(exchange, WEIR_PROBLEM_REQUEST_TIMEOUT, 408, text);
}

static void client_late(struct weir_client *client)
{
    struct weir_exchange *exchange = client->call;
    if (exchange->state == WEIR_EXCHANGE_PAUSED) {
        weir_exchange_resume(exchange);
        return;
    }
    if (exchange->state <= WEIR_EXCHANGE_WAITING &&
        weir_exchange_has_hook(exchange, WEIR_HOOK_LATE) && weir_filters_late(exchange)) {
        return;
    }
    assert(exchange->state != WEIR_EXCHANGE_WAITING); /* only filters set a time for those */
    if (exchange->reply.progress == WEIR_REPLY_BEGUN ||
        exchange->state == WEIR_EXCHANGE_FINISHING) {
        weir_exchange_abandon(exchange, WEIR_ABANDON_LATE);
        return;
    }
    body_late(exchange);
}

static void client_ready(struct weir_client *client)
{
    struct weir_exchange *exchange = client->call;
    if (exchange->state == WEIR_EXCHANGE_TUNNEL && weir_client_half_closed(client)) {
        (void)!weir_exchange_pump_request(exchange); /* its last words; they end with its close */
        weir_exchange_watch_client(exchange);
        return;
    }
    if (weir_client_gone(client) && exchange->state != WEIR_EXCHANGE_FINISHING) {
        /* Out of the line, or from under the upstream's hands. */
        weir_exchange_abandon(exchange, WEIR_ABANDON_GONE);
        return;
    }
    if (exchange->state == WEIR_EXCHANGE_READING) {
        if (weir_exchange_has_hook(exchange, WEIR_HOOK_BODY)) {
            weir_exchange_read_whole(exchange);
        } else {
            weir_exchange_read_start(exchange);
        }
        return;
    }
    if (exchange->state >= WEIR_EXCHANGE_REPLYING) {
        weir_exchange_pump_reply(exchange);
    } else if (weir_exchange_wants_reader(exchange) && !weir_exchange_write(exchange) &&
               exchange->client == NULL) {
        return; /* an interim reply, of which the client has made room for more */
    }
    if (exchange->backend != NULL && exchange->backend->connected && !exchange->request.sent) {
        weir_exchange_go_on(exchange);
    }
    weir_exchange_watch_client(exchange);
}

/* The program ends: answers a request that stands in line, or is on its way there. */
static void dismiss(struct weir_client *client)
{
    static const char going_away[] = "This server is going away, and its grace period is over. Try "
                                     "again, and another one will answer.";
    struct weir_exchange *exchange = client->call;
    if (exchange->state > WEIR_EXCHANGE_PAUSED) {
        return;
    }
    if (exchange->gate == WEIR_CONFIG_NONE) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_DRAINING, 503, going_away);
    } else {
        struct weir_refused refused = refused_of(exchange);
        struct weir_refusal refusal;
        weir_refusal_make(&refusal, WEIR_PROBLEM_DRAINING, going_away, &refused);
        weir_exchange_answer_problem(exchange, &refusal.problem);
    }
}

const struct weir_service weir_proxy = {.begin = weir_exchange_begin,
                                        .ready = client_ready,
                                        .late = client_late,
                                        .abort = abort_call,
                                        .dismiss = dismiss,
                                        .awaited = true};
