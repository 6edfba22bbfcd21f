#include "api/permits.h"

#include "api/gates.h"
#include "api/wish.h"
#include "base/slice.h"
#include "gateway/flow.h"
#include "gateway/refusal.h"

/* ---- who asks, and for what ---- */

static void refuse_wish(struct weir_call *call, const struct weir_wish *wish)
{
    weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400, wish->wrong);
}

/* The grant's name as the wish has it. False if it has none, or two; that has been said then. */
static bool name_grant(struct weir_call *call, const struct weir_wish *wish,
                       struct weir_grant_name *name)
{
    bool by_permit = (wish->present & WEIR_WISH_PERMIT) != 0;
    if (by_permit == ((wish->present & WEIR_WISH_FLOW) != 0)) {
        weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                          "Name what is meant by its permit or by its flow: one of the two.");
        return false;
    }
    *name = (struct weir_grant_name){.gate = call->gate,
                                     .key = call->segments[2],
                                     .permit = wish->permit,
                                     .flow = wish->flow,
                                     .tenant = call->credential.tenant};
    return true;
}

/* Finds the gate. Whether there is one, and a key may be called so; if not, that has been said. A
 * longer name would be refused by the gate as if it were full, and fits nowhere else. */
static bool find_place(struct weir_call *call)
{
    size_t bytes = call->segments[2].bytes;
    if (!weir_api_find_gate(call)) {
        return false;
    }
    if (bytes == 0 || bytes > WEIR_NAME_BYTES_MAX) {
        weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                          "The key, which stands behind the gate in the path, has 1 to 255 bytes.");
        return false;
    }
    return true;
}

/* Whether the caller may take permits at the key; if not, that has been said. */
static bool may_use_key(struct weir_call *call)
{
    if (weir_api_key_open(call, call->segments[2])) {
        return true;
    }
    weir_call_problem(call, WEIR_PROBLEM_FORBIDDEN, 403,
                      "The routes to this gate put the tenant into the key, and this key is not "
                      "one of the token's tenant. Name a key of the token's own tenant, or use a "
                      "token that names no tenant.");
    return false;
}

static struct weir_grants *grants_of(const struct weir_call *call)
{
    return call->worker->api;
}

/* ---- acquire ---- */

static bool produce_permit(struct weir_call *call, struct weir_json *json)
{
    weir_json_open(json, '{');
    weir_json_put_string(json, "permit", (struct weir_slice){call->permit, sizeof call->permit});
    weir_json_put_string(json, "flow", call->flow);
    weir_json_put_number(json, "waited_ms",
                         (call->worker->loop.now_ns - call->arrived_ns) / 1000000);
    weir_json_put_number(json, "active", call->stats.active);
    weir_json_put_number(json, "waiting", call->stats.waiting);
    weir_api_put_limit(json, call->stats.limit);
    if (call->lease_ns == WEIR_NEVER) {
        weir_json_put_null(json, "lease_ms");
    } else {
        weir_json_put_number(json, "lease_ms", call->lease_ns / 1000000);
    }
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    call->quiet = call->holds;
    return !call->holds;
}

/* It is admitted: it goes into the table, and what the reply tells of it stays with the call, since
 * anybody may release it from now on. */
static void give_permit(struct weir_call *call, struct weir_grant *grant)
{
    struct weir_gate_ticket *gate_ticket = &grant->gate_ticket;
    weir_grant_format(grant, call->permit);
    call->stats = weir_gate_ticket_stats(gate_ticket);
    call->lease_ns = grant->lease_ns;
    memcpy(call->flow_text, gate_ticket->flow.data, gate_ticket->flow.bytes);
    call->flow = (struct weir_slice){call->flow_text, gate_ticket->flow.bytes};
    call->grant = NULL;
    grant->call = call->holds ? call : NULL;
    if (!weir_grant_hold(grant)) {
        grant->call = NULL;
        if (weir_gate_ticket_cancel(
                gate_ticket)) { /* else its lease is over in this moment, which is told */
            weir_grant_give(grant);
        }
        call->holds = false;
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "There is no memory for one more permit. Try again later.");
        return;
    }
    call->held = call->holds;
    weir_call_reply(call, 200, "application/json", produce_permit);
}

static void refuse_grant(struct weir_call *call, struct weir_grant *grant,
                         void (*make)(struct weir_refusal *, const struct weir_refused *))
{
    struct weir_refusal refusal;
    struct weir_refused refused = {.gate = weir_api_find_config(call),
                                   .gate_ticket = &grant->gate_ticket,
                                   .arrived_ns = call->arrived_ns,
                                   .now_ns = call->worker->loop.now_ns};
    if (refused.gate == NULL) { /* a reload has taken it out while the call waited */
        weir_call_problem(call, WEIR_PROBLEM_DRAINING, 503,
                          "The gate is no longer in the config, and its line has ended.");
        return;
    }
    make(&refusal, &refused);
    weir_call_refuse(call, &refusal.problem);
}

/* A permit goes with the server that has given it, so one that drains gives none. */
static const char going_away[] =
    "This server is going away, and gives no permits any more. Try again, and another one will "
    "answer.";

static void refuse_going_away(struct weir_refusal *refusal, const struct weir_refused *refused)
{
    weir_refusal_make(refusal, WEIR_PROBLEM_DRAINING, going_away, refused);
}

/* Its lease is over. Whoever holds it by a connection learns of it by the end of that. */
static void lapse(struct weir_grant *grant)
{
    struct weir_call *call = grant->call;
    weir_grant_lapse(grant);
    if (call != NULL) {
        call->held = false;
        weir_client_close(call->client);
    }
}

/* Called in the grant's own loop when somebody else's call has changed its ticket. */
static void on_told(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state)
{
    struct weir_grant *grant = weir_container_of(gate_ticket, struct weir_grant, gate_ticket);
    struct weir_call *call = grant->call;
    if (state == WEIR_TICKET_IDLE) {
        weir_grant_give(grant);
    } else if (state == WEIR_TICKET_ADMITTED) {
        give_permit(call, grant);
        weir_call_resume(call);
    } else if (grant->held) { /* nobody else can change that once it has ended */
        lapse(grant);
    } else {
        call->grant = NULL;
        refuse_grant(call, grant, weir_refusal_in_line);
        weir_gate_ticket_close(gate_ticket);
        weir_grant_give(grant);
        weir_call_resume(call);
    }
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The lease: what the key's rules give, or less if less is asked for. A permit that is held by a
 * connection needs none. */
static uint64_t lease_of(const struct weir_wish *wish, const struct weir_config_rules *rules)
{
    uint64_t asked_ns = (wish->present & WEIR_WISH_LEASE) != 0 ? wish->lease_ns : WEIR_NEVER;
    return wish->hold ? asked_ns : smaller(asked_ns, rules->lease_ns);
}

static void enter(struct weir_call *call, struct weir_grant *grant, const struct weir_wish *wish)
{
    struct weir_worker *worker = call->worker;
    struct weir_request request = {
        .tenant = grant->gate_ticket.tenant,
        .priority = weir_config_tenant_priority(worker->site->config, grant->gate_ticket.tenant,
                                                wish->priority),
        .lease_ns = grant->lease_ns,
        .cost = wish->cost};
    struct weir_destination where = {
        .gate = call->gate, .loop_index = worker->index, .key = call->segments[2]};
    if ((wish->present & WEIR_WISH_TIMEOUT) != 0) {
        request.deadline_ns = worker->loop.now_ns + wish->timeout_ns;
    }
    switch (weir_gate_ticket_enter(worker->gates, &grant->gate_ticket, &where, &request)) {
    case WEIR_ADMITTED:
        give_permit(call, grant);
        break;
    case WEIR_WAITING:
        call->grant = grant;
        call->pending = true;
        weir_socket_watch_peer(call->client->stream.watch.fd);
        break;
    case WEIR_REFUSED:
        refuse_grant(call, grant, weir_refusal_at_door);
        weir_gate_ticket_close(&grant->gate_ticket);
        weir_grant_give(grant);
        break;
    }
}

/* A name that stays when the request's memory goes. */
static struct weir_slice keep_name(char room[WEIR_NAME_BYTES_MAX], struct weir_slice name)
{
    if (name.bytes > 0) {
        memcpy(room, name.data, name.bytes);
    }
    return (struct weir_slice){room, name.bytes};
}

static void acquire(struct weir_call *call, const struct weir_wish *wish, struct weir_slice tenant)
{
    if (call->worker->draining) {
        weir_call_problem(call, WEIR_PROBLEM_DRAINING, 503, going_away);
        return;
    }
    const struct weir_config_gate *gate = weir_api_find_config(call);
    struct weir_grant *grant = gate == NULL ? NULL : weir_grant_take(grants_of(call));
    if (gate == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_DRAINING, 503,
                          "The gate is no longer in the config; it only drains.");
        return;
    }
    if (grant == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "As many permits are held or waited for as may be. Try again later.");
        return;
    }
    grant->gate_ticket.flow = keep_name(grant->flow_text, wish->flow);
    grant->gate_ticket.tenant = keep_name(grant->tenant_text, tenant);
    grant->gate_ticket.told = on_told;
    grant->gate = call->gate;
    grant->call = call;
    grant->lease_ns = lease_of(wish, weir_config_key_rules(gate, call->segments[2]));
    call->holds = wish->hold;
    if (call->holds) {
        weir_socket_watch_peer(call->client->stream.watch.fd);
    }
    enter(call, grant, wish);
}

void weir_api_acquire(struct weir_call *call)
{
    struct weir_wish wish;
    struct weir_slice tenant;
    if (!find_place(call) || !may_use_key(call)) {
        return;
    }
    if (!weir_wish_read(&wish, call->document,
                        WEIR_WISH_FLOW | WEIR_WISH_TENANT | WEIR_WISH_PRIORITY | WEIR_WISH_TIMEOUT |
                            WEIR_WISH_LEASE | WEIR_WISH_COST | WEIR_WISH_HOLD)) {
        refuse_wish(call, &wish);
        return;
    }
    if (weir_call_find_tenant(call, wish.tenant, &tenant)) {
        acquire(call, &wish, tenant);
    }
    weir_wish_deinit(&wish);
}

/* ---- release and renew ---- */

static bool produce_done(struct weir_call *call, struct weir_json *json)
{
    weir_json_open(json, '{');
    if (call->lease_ns == WEIR_NEVER) {
        weir_json_put_null(json, "lease_ms");
    } else if (call->lease_ns > 0) {
        weir_json_put_number(json, "lease_ms", call->lease_ns / 1000000);
    }
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

static void reply_to(struct weir_call *call, enum weir_status status)
{
    if (status == WEIR_OK) {
        weir_call_reply(call, 200, "application/json", produce_done);
    } else {
        weir_call_problem(call, WEIR_PROBLEM_NOT_HELD, 409,
                          "No such permit is held here: it was never given, was given back, or its "
                          "lease is over. Acquire a new one.");
    }
}

/* A permit that the API gave, else one that a flow holds through the proxy. */
static enum weir_status release(const struct weir_call *call, const struct weir_grant_name *name,
                                const struct weir_result *result)
{
    struct weir_worker *worker = call->worker;
    enum weir_status status = weir_grants_release(grants_of(call), name, result, worker->index);
    if (status == WEIR_OK || name->permit.bytes > 0 || name->flow.bytes == 0) {
        return status;
    }
    struct weir_key *key = weir_gates_find(worker->gates, name->gate, name->key);
    if (key != NULL) {
        struct weir_flow_name flow = {key, name->flow, name->tenant};
        status = weir_flows_release(worker->flows, &flow, result, worker->index);
        weir_key_give(key);
    }
    return status;
}

void weir_api_release(struct weir_call *call)
{
    struct weir_wish wish;
    struct weir_grant_name name;
    if (!find_place(call)) {
        return;
    }
    if (!weir_wish_read(&wish, call->document,
                        WEIR_WISH_PERMIT | WEIR_WISH_FLOW | WEIR_WISH_OUTCOME | WEIR_WISH_COST)) {
        refuse_wish(call, &wish);
        return;
    }
    if (name_grant(call, &wish, &name)) {
        struct weir_result result = {.outcome = wish.outcome,
                                     .cost_known = (wish.present & WEIR_WISH_COST) != 0,
                                     .cost = wish.cost};
        reply_to(call, release(call, &name, &result));
    }
    weir_wish_deinit(&wish);
}

void weir_api_renew(struct weir_call *call)
{
    struct weir_wish wish;
    struct weir_grant_name name;
    if (!find_place(call)) {
        return;
    }
    if (!weir_wish_read(&wish, call->document,
                        WEIR_WISH_PERMIT | WEIR_WISH_FLOW | WEIR_WISH_LEASE)) {
        refuse_wish(call, &wish);
        return;
    }
    if (name_grant(call, &wish, &name)) {
        call->lease_ns = wish.lease_ns;
        reply_to(call,
                 weir_grants_renew(grants_of(call), &name, &call->lease_ns, call->worker->index));
    }
    weir_wish_deinit(&wish);
}

/* ---- the end of a call ---- */

static void leave_line(struct weir_call *call)
{
    struct weir_grant *grant = call->grant;
    call->grant = NULL;
    grant->call = NULL;
    if (weir_gate_ticket_cancel(&grant->gate_ticket)) {
        weir_grant_give(grant);
    }
}

void weir_call_dismiss(struct weir_call *call)
{
    if (call->grant != NULL) {
        refuse_grant(call, call->grant, refuse_going_away);
        leave_line(call);
        weir_call_resume(call);
    }
}

void weir_call_let_go(struct weir_call *call)
{
    if (call->grant != NULL) {
        leave_line(call);
    }
    if (call->held) {
        struct weir_grant_name name = {.gate = call->gate,
                                       .key = call->segments[2],
                                       .permit = {call->permit, sizeof call->permit}};
        /* Whoever was well says so by a release; a connection that just ends may be a caller that
         * has died, which must not count as a success. */
        struct weir_result result = {.outcome = WEIR_OUTCOME_CANCELLED};
        call->held = false;
        weir_grants_let_go(grants_of(call), &name, &result, call->worker->index);
    }
}
