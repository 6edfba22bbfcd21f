/* permits.c - POST /gates/{gate}/{key}/acquire, /release and /renew.
 *
 *     acquire -> [line] -> 200, and the permit is found by its id or flow until it is released
 *                       -> 200 that stays open, with `hold`: the permit ends with the connection
 *
 * A call that waits owns its permit, and leaves the line when the client goes. Once admitted, the
 * permit is in the table of api_permit.h, where any thread may end it; so the reply is made of a
 * copy. Everything here runs in the call's own loop. */
#include "api/handlers.h"

#include "api/api_permit.h"
#include "api/gates.h"
#include "api/permit_params.h"
#include "base/slice.h"
#include "gates/flow.h"
#include "gates/refusal.h"
#include "worker/config_snapshot.h"

#include <assert.h>

/* What a call about a permit remembers. */
struct permit_call {
    uint32_t gate;
    struct weir_api_permit *waiting; /* in line; else null */
    bool holds;                      /* the permit is to end with the call */
    bool held;                       /* and has been given */
    bool timed;
    struct weir_timer timer; /* of a shared permit: the end of its own lease */
    struct weir_call *call;  /* whose context this is */
    char permit[WEIR_API_PERMIT_TEXT_BYTES];
    uint64_t arrived_ns;
    uint64_t lease_ns;
    struct weir_key_stats stats; /* of the key, when the permit was given */
    struct weir_slice flow;      /* in the text below */
    char flow_text[WEIR_NAME_BYTES_MAX];
};

static struct weir_api_permits *permits_of(const struct weir_call *call)
{
    return call->worker->api;
}

/* ---- the caller, and what it asks for ---- */

static void refuse_params(struct weir_call *call, const struct weir_permit_params *params)
{
    weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400, params->wrong);
}

/* The permit's name as the parameters have it. False if it has none, or two; then the error reply
 * has been written. */
static bool name_permit(struct weir_call *call, const struct weir_permit_params *params,
                        struct weir_api_permit_name *name)
{
    bool by_permit = (params->present & WEIR_PERMIT_PARAM_PERMIT) != 0;
    if (by_permit == ((params->present & WEIR_PERMIT_PARAM_FLOW) != 0)) {
        weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                          "Name the permit either by `permit` or by `flow`.");
        return false;
    }
    const struct permit_call *permit_call = call->context;
    *name = (struct weir_api_permit_name){.gate = permit_call->gate,
                                          .key = call->segments[2],
                                          .permit = params->permit,
                                          .flow = params->flow,
                                          .tenant = call->credential.tenant};
    return true;
}

/* Finds the gate. Whether there is one, and a key may be called so; if not, the error reply
 * has been written. A longer name would be refused by the gate as if it were full, and fits nowhere
 * else. */
static bool find_place(struct weir_call *call, uint32_t *gate)
{
    size_t bytes = call->segments[2].bytes;
    if (!weir_api_find_gate(call, gate)) {
        return false;
    }
    if (bytes == 0 || bytes > WEIR_NAME_BYTES_MAX) {
        weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                          "The key in the path, after the gate, must have 1 to 255 bytes.");
        return false;
    }
    return true;
}

/* Whether the caller may take permits at the key; if not, the error reply has been written. */
static bool may_use_key(struct weir_call *call)
{
    const struct permit_call *permit_call = call->context;
    if (weir_api_key_open(call, permit_call->gate, call->segments[2])) {
        return true;
    }
    weir_call_problem(
        call, WEIR_PROBLEM_FORBIDDEN, 403,
        "The routes to this gate put the tenant into the key, and this key belongs to another "
        "tenant. Name a key of the token's own tenant, or use a token that names no tenant.");
    return false;
}

/* ---- acquire ---- */

static bool produce_permit(struct weir_call *call, struct weir_json *json)
{
    const struct permit_call *permit_call = call->context;
    weir_json_open(json, '{');
    weir_json_put_string(json, "permit",
                         (struct weir_slice){permit_call->permit, sizeof permit_call->permit});
    weir_json_put_string(json, "flow", permit_call->flow);
    weir_json_put_number(json, "waited_ms",
                         (call->worker->loop.now_ns - permit_call->arrived_ns) / 1000000);
    weir_json_put_number(json, "active", permit_call->stats.active);
    weir_json_put_number(json, "waiting", permit_call->stats.waiting);
    weir_api_put_limit(json, permit_call->stats.limit);
    if (permit_call->lease_ns == WEIR_NEVER) {
        weir_json_put_null(json, "lease_ms");
    } else {
        weir_json_put_number(json, "lease_ms", permit_call->lease_ns / 1000000);
    }
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    call->response.paused = permit_call->holds;
    return !permit_call->holds;
}

/* Copies what the reply needs of a permit, since any thread may release it once it is held. */
static void copy_permit(struct weir_call *call, struct weir_api_permit *api_permit)
{
    struct permit_call *permit_call = call->context;
    struct weir_slice flow = api_permit->gate_ticket.flow;
    weir_api_permit_format(api_permit, permit_call->permit);
    permit_call->lease_ns = api_permit->lease_ns;
    permit_call->flow = weir_slice_copy(permit_call->flow_text, flow);
    permit_call->waiting = NULL;
    api_permit->call = permit_call->holds ? call : NULL;
}

static void reply_permit(struct weir_call *call)
{
    struct permit_call *permit_call = call->context;
    permit_call->held = permit_call->holds;
    weir_call_reply(call, 200, "application/json", produce_permit);
}

/* The ticket is admitted: the permit goes into the table. */
static void give_permit(struct weir_call *call, struct weir_api_permit *api_permit)
{
    struct permit_call *permit_call = call->context;
    struct weir_gate_ticket *gate_ticket = &api_permit->gate_ticket;
    copy_permit(call, api_permit);
    permit_call->stats = weir_gate_ticket_stats(gate_ticket);
    if (!weir_api_permit_hold(api_permit)) {
        api_permit->call = NULL;
        if (weir_gate_ticket_cancel(
                gate_ticket)) { /* else its lease is just over, and on_change() will be called */
            weir_api_permit_give(api_permit);
        }
        permit_call->holds = false;
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "Out of memory for another permit. Try again later.");
        return;
    }
    reply_permit(call);
}

static void refuse_permit(struct weir_call *call, struct weir_api_permit *api_permit,
                          void (*make)(struct weir_refusal *, const struct weir_refused *))
{
    const struct permit_call *permit_call = call->context;
    struct weir_refusal refusal;
    struct weir_refused refused = {.gate = weir_api_find_config(call, permit_call->gate),
                                   .gate_ticket = &api_permit->gate_ticket,
                                   .arrived_ns = permit_call->arrived_ns,
                                   .now_ns = call->worker->loop.now_ns};
    if (refused.gate == NULL) { /* a reload has taken it out while the call waited */
        weir_call_problem(call, WEIR_PROBLEM_DRAINING, 503,
                          "The gate has been removed from the config, and its line with it.");
        return;
    }
    make(&refusal, &refused);
    weir_call_refuse(call, &refusal.problem);
}

/* Its flow has as many permits at the key as it may. The counts of the key are part of the reply.
 */
static void refuse_depth(struct weir_call *call, struct weir_api_permit *api_permit)
{
    const struct permit_call *permit_call = call->context;
    struct weir_destination where = {
        .gate = permit_call->gate, .loop_index = call->worker->index, .key = call->segments[2]};
    (void)!weir_gate_ticket_visit(call->worker->gates, &api_permit->gate_ticket, &where, 0);
    refuse_permit(call, api_permit, weir_refusal_too_deep);
    weir_gate_ticket_close(&api_permit->gate_ticket);
    weir_api_permit_give(api_permit);
}

/* A permit goes with the server that has given it, so one that drains gives none. */
static const char going_away[] = "This server is shutting down and gives no more permits. Try "
                                 "again; the next server will answer.";

static void refuse_going_away(struct weir_refusal *refusal, const struct weir_refused *refused)
{
    weir_refusal_make(refusal, WEIR_PROBLEM_DRAINING, going_away, refused);
}

/* The permit that the client holds by its connection is over: the client sees that end. */
static void cut(struct weir_call *call)
{
    struct permit_call *permit_call = call->context;
    permit_call->held = false;
    weir_client_abandon(call->client, WEIR_ABANDON_REPLY_CUT);
}

static void lapse(struct weir_api_permit *api_permit)
{
    struct weir_call *call = api_permit->call;
    weir_api_permit_lapse(api_permit);
    if (call != NULL) {
        cut(call);
    }
}

/* Called in the permit's own loop when another call has changed its ticket. */
static void on_change(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state)
{
    struct weir_api_permit *api_permit =
        weir_container_of(gate_ticket, struct weir_api_permit, gate_ticket);
    struct weir_call *call = api_permit->call;
    if (state == WEIR_TICKET_IDLE) {
        bool cuts = api_permit->over && call != NULL;
        weir_api_permit_give(api_permit);
        if (cuts) {
            cut(call);
        }
    } else if (state == WEIR_TICKET_ADMITTED) {
        give_permit(call, api_permit);
        weir_call_resume(call);
    } else if (api_permit->held) { /* only its own loop changes that once the lease has ended */
        lapse(api_permit);
    } else {
        struct permit_call *permit_call = call->context;
        permit_call->waiting = NULL;
        refuse_permit(call, api_permit, weir_refusal_in_line);
        weir_gate_ticket_close(gate_ticket);
        weir_api_permit_give(api_permit);
        weir_call_resume(call);
    }
}

/* It has no name in a list of holders: its id is a secret. */
static const struct weir_permit_owner permit_owner = {.kind = "permit", .on_change = on_change};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The lease: what the key's rules give, or less if less is asked for. Where the rules name none, it
 * is what is asked for, else ten minutes, so that no permit is lost with its holder. A permit that
 * is held by a connection needs none. */
static uint64_t lease_of(const struct weir_permit_params *params,
                         const struct weir_config_rules *rules)
{
    uint64_t asked_ns =
        (params->present & WEIR_PERMIT_PARAM_LEASE) != 0 ? params->lease_ns : WEIR_NEVER;
    if (params->hold) {
        return asked_ns;
    }
    bool usual = !rules->lease_named && asked_ns == WEIR_NEVER;
    return usual ? WEIR_CONFIG_LEASE_DEFAULT_NS : smaller(asked_ns, rules->lease_ns);
}

/* ---- permits of a flow that holds one already ---- */

/* The connection that holds the permit ends. */
static void leave_permit(struct weir_call *call)
{
    struct permit_call *permit_call = call->context;
    if (permit_call->held) {
        struct weir_api_permit_name name = {
            .gate = permit_call->gate,
            .key = call->segments[2],
            .permit = {permit_call->permit, sizeof permit_call->permit}};
        /* A caller that succeeded says so by a release. A connection that just ends may be a caller
         * that has died, which must not count as a success. */
        struct weir_result result = {.outcome = WEIR_OUTCOME_CANCELLED};
        permit_call->held = false;
        weir_api_permits_let_go(permits_of(call), &name, &result, call->worker->index);
    }
}

/* The lease of a shared permit that a connection holds is over. The ticket may go on. */
static void on_lease_end(struct weir_timer *timer)
{
    struct permit_call *permit_call = weir_container_of(timer, struct permit_call, timer);
    struct weir_call *call = permit_call->call;
    if (permit_call->held) {
        leave_permit(call);
        cut(call);
    }
}

/* The lease of the ticket is that of all who share it, so the end of this permit's own is looked
 * after here, where a connection has to end with it. Without memory for a timer it ends with the
 * ticket's. */
static void watch_lease(struct weir_call *call, uint64_t lease_ns)
{
    struct permit_call *permit_call = call->context;
    struct weir_loop *loop = &call->worker->loop;
    if (permit_call->holds && lease_ns != WEIR_NEVER &&
        weir_timer_init(loop, &permit_call->timer, on_lease_end)) {
        permit_call->timed = true;
        weir_timer_set(loop, &permit_call->timer, loop->now_ns + lease_ns);
    }
}

/* Whether the flow holds a permit at the key, which this one shares: then the call is decided. */
static bool join_flow(struct weir_call *call, struct weir_api_permit *api_permit)
{
    struct permit_call *permit_call = call->context;
    struct weir_worker *worker = call->worker;
    const struct weir_config_gate *gate = weir_api_find_config(call, permit_call->gate);
    struct weir_api_permit_place place = {.gate = permit_call->gate,
                                          .loop_index = worker->index,
                                          .depth = gate->depth,
                                          .key = call->segments[2]};
    uint64_t lease_ns = api_permit->lease_ns;
    copy_permit(call, api_permit);
    switch (weir_api_permit_join(api_permit, &place, &permit_call->stats, worker->loop.now_ns)) {
    case WEIR_API_PERMIT_JOINED:
        watch_lease(call, lease_ns);
        reply_permit(call);
        return true;
    case WEIR_API_PERMIT_TOO_DEEP:
        refuse_depth(call, api_permit);
        return true;
    case WEIR_API_PERMIT_ALONE:
        break;
    }
    api_permit->call = call;
    return false;
}

static void enter(struct weir_call *call, struct weir_api_permit *api_permit,
                  const struct weir_permit_params *params)
{
    struct permit_call *permit_call = call->context;
    struct weir_worker *worker = call->worker;
    struct weir_request request = {
        .tenant = api_permit->gate_ticket.tenant,
        .priority = weir_config_tenant_priority(worker->worker_config->config,
                                                api_permit->gate_ticket.tenant, params->priority),
        .lease_ns = weir_api_permit_ticket_lease_ns(api_permit),
        .cost = params->cost};
    struct weir_destination where = {
        .gate = permit_call->gate, .loop_index = worker->index, .key = call->segments[2]};
    if ((params->present & WEIR_PERMIT_PARAM_TIMEOUT) != 0) {
        request.deadline_ns = worker->loop.now_ns + params->timeout_ns;
    }
    switch (weir_gate_ticket_enter(worker->gates, &api_permit->gate_ticket, &where, &request)) {
    case WEIR_ADMITTED:
        give_permit(call, api_permit);
        break;
    case WEIR_WAITING:
        permit_call->waiting = api_permit;
        call->pending = true;
        weir_client_watch_peer(call->client);
        break;
    case WEIR_REFUSED:
        refuse_permit(call, api_permit, weir_refusal_at_door);
        weir_gate_ticket_close(&api_permit->gate_ticket);
        weir_api_permit_give(api_permit);
        break;
    }
}

static void acquire(struct weir_call *call, const struct weir_permit_params *params,
                    struct weir_slice tenant)
{
    if (call->worker->draining) {
        weir_call_problem(call, WEIR_PROBLEM_DRAINING, 503, going_away);
        return;
    }
    struct permit_call *permit_call = call->context;
    const struct weir_config_gate *gate = weir_api_find_config(call, permit_call->gate);
    struct weir_api_permit *api_permit =
        gate == NULL ? NULL : weir_api_permit_take(permits_of(call));
    if (gate == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_DRAINING, 503,
                          "The gate has been removed from the config and is draining.");
        return;
    }
    if (api_permit == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "Permit limit reached (1,000,000 held or waiting). Try again later.");
        return;
    }
    api_permit->gate_ticket.flow = weir_slice_copy(api_permit->flow_text, params->flow);
    api_permit->gate_ticket.tenant = weir_slice_copy(api_permit->tenant_text, tenant);
    api_permit->gate_ticket.owner = &permit_owner;
    struct weir_slice peer = weir_slice_of(call->client->peer);
    size_t room = sizeof api_permit->from_text - 1; /* zeroed, so the text ends there */
    peer.bytes = peer.bytes < room ? peer.bytes : room;
    (void)weir_slice_copy(api_permit->from_text, peer);
    api_permit->gate_ticket.from = api_permit->from_text;
    api_permit->gate = permit_call->gate;
    api_permit->call = call;
    api_permit->lease_ns = lease_of(params, weir_config_key_rules(gate, call->segments[2]));
    permit_call->holds = params->hold;
    if (permit_call->holds) {
        weir_client_watch_peer(call->client);
    }
    if (api_permit->gate_ticket.flow.bytes == 0 || !join_flow(call, api_permit)) {
        enter(call, api_permit, params);
    }
}

/* ---- release and renew ---- */

static bool produce_done(struct weir_call *call, struct weir_json *json)
{
    const struct permit_call *permit_call = call->context;
    weir_json_open(json, '{');
    if (permit_call->lease_ns == WEIR_NEVER) {
        weir_json_put_null(json, "lease_ms");
    } else if (permit_call->lease_ns > 0) {
        weir_json_put_number(json, "lease_ms", permit_call->lease_ns / 1000000);
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
                          "No such permit is held: it was never given, was released, or its lease "
                          "has expired. Acquire a new one.");
    }
}

/* A permit that the API gave, else one that a flow holds through the proxy. */
static enum weir_status release(const struct weir_call *call,
                                const struct weir_api_permit_name *name,
                                const struct weir_result *result)
{
    struct weir_worker *worker = call->worker;
    enum weir_status status =
        weir_api_permits_release(permits_of(call), name, result, worker->index);
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

/* ---- the end of a call that acquires ---- */

static void leave_line(struct permit_call *permit_call)
{
    struct weir_api_permit *api_permit = permit_call->waiting;
    permit_call->waiting = NULL;
    api_permit->call = NULL;
    if (weir_gate_ticket_cancel(&api_permit->gate_ticket)) {
        weir_api_permit_give(api_permit);
    }
}

static void dismiss_waiting(struct weir_call *call)
{
    struct permit_call *permit_call = call->context;
    if (permit_call->waiting != NULL) {
        refuse_permit(call, permit_call->waiting, refuse_going_away);
        leave_line(permit_call);
        weir_call_resume(call);
    }
}

static void end_permit_call(struct weir_call *call)
{
    struct permit_call *permit_call = call->context;
    if (permit_call->waiting != NULL) {
        leave_line(permit_call);
    }
    leave_permit(call);
    if (permit_call->timed) {
        weir_timer_deinit(&call->worker->loop, &permit_call->timer);
        permit_call->timed = false;
    }
}

/* ---- the three calls ---- */

/* Attaches what the call remembers, and finds the place that the path names. */
static bool begin_permit_call(struct weir_call *call)
{
    static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct permit_call),
                                                 .drain = dismiss_waiting,
                                                 .end = end_permit_call};
    struct permit_call *permit_call = weir_call_attach(call, &hooks);
    if (permit_call == NULL) {
        return false;
    }
    permit_call->call = call;
    permit_call->arrived_ns = call->worker->loop.now_ns;
    return find_place(call, &permit_call->gate);
}

void weir_api_acquire(struct weir_call *call)
{
    struct weir_permit_params params;
    struct weir_slice tenant;
    if (!begin_permit_call(call) || !may_use_key(call)) {
        return;
    }
    if (!weir_permit_params_read(&params, call->document,
                                 WEIR_PERMIT_PARAM_FLOW | WEIR_PERMIT_PARAM_TENANT |
                                     WEIR_PERMIT_PARAM_PRIORITY | WEIR_PERMIT_PARAM_TIMEOUT |
                                     WEIR_PERMIT_PARAM_LEASE | WEIR_PERMIT_PARAM_COST |
                                     WEIR_PERMIT_PARAM_HOLD)) {
        refuse_params(call, &params);
        return;
    }
    if (weir_call_find_tenant(call, params.tenant, &tenant)) {
        acquire(call, &params, tenant);
    }
    weir_permit_params_deinit(&params);
}

void weir_api_release(struct weir_call *call)
{
    struct weir_permit_params params;
    struct weir_api_permit_name name;
    if (!begin_permit_call(call)) {
        return;
    }
    if (!weir_permit_params_read(&params, call->document,
                                 WEIR_PERMIT_PARAM_PERMIT | WEIR_PERMIT_PARAM_FLOW |
                                     WEIR_PERMIT_PARAM_OUTCOME | WEIR_PERMIT_PARAM_COST)) {
        refuse_params(call, &params);
        return;
    }
    if (name_permit(call, &params, &name)) {
        struct weir_result result = {.outcome = params.outcome,
                                     .cost_known = (params.present & WEIR_PERMIT_PARAM_COST) != 0,
                                     .cost = params.cost};
        reply_to(call, release(call, &name, &result));
    }
    weir_permit_params_deinit(&params);
}

void weir_api_renew(struct weir_call *call)
{
    struct weir_permit_params params;
    struct weir_api_permit_name name;
    if (!begin_permit_call(call)) {
        return;
    }
    if (!weir_permit_params_read(&params, call->document,
                                 WEIR_PERMIT_PARAM_PERMIT | WEIR_PERMIT_PARAM_FLOW |
                                     WEIR_PERMIT_PARAM_LEASE)) {
        refuse_params(call, &params);
        return;
    }
    if (name_permit(call, &params, &name)) {
        struct permit_call *permit_call = call->context;
        permit_call->lease_ns = params.lease_ns;
        reply_to(call, weir_api_permits_renew(permits_of(call), &name, &permit_call->lease_ns,
                                              call->worker->index));
    }
    weir_permit_params_deinit(&params);
}
