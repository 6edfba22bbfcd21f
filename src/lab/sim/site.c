/* The gateway's side of a run: a key of the real gate, and what comes and goes at it. */
#include "lab/sim/number.h"
#include "lab/sim/world.h"

#include "base/alloc.h"

#include <assert.h>

#define RETRY_STEP_S 0.2
#define KEY_NAME     "account"

static struct weir_tenant_settings tenant_settings(struct weir_sim_tenant *tenant)
{
    return (struct weir_tenant_settings){.name = weir_slice_of(tenant->name),
                                         .weight = tenant->settings->weight};
}

static bool open_gate(struct weir_sim_site *site, const struct weir_settings *settings)
{
    struct weir_gate_options options = {.allocator = site->world->allocator, .keys_max = 1};
    return weir_gate_create(&options, settings, &site->gate) == WEIR_OK &&
           weir_gate_take(site->gate, weir_slice_of(KEY_NAME), 0, &site->key) == WEIR_OK;
}

bool weir_sim_site_open(struct weir_sim_site *site, const struct weir_lane_settings *lane)
{
    struct weir_sim_world *world = site->world;
    struct weir_sim_demand *demand = &world->demand;
    size_t bytes = (demand->tenant_count + 1) * sizeof(struct weir_tenant_settings);
    struct weir_tenant_settings *tenants = weir_allocate_zeroed(world->allocator, bytes);
    if (tenants == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < demand->tenant_count; i++) {
        tenants[i] = tenant_settings(&demand->tenants[i]);
    }
    struct weir_settings settings = {.lanes = lane,
                                     .lane_count = 1,
                                     .line = {.tickets = world->scenario->line_max},
                                     .timeout_ns = world->scenario->line_timeout_ns,
                                     .tenants = tenants,
                                     .tenant_count = demand->tenant_count,
                                     .estimate = world->policy->predicts ? WEIR_ESTIMATE_MEAN
                                                                         : WEIR_ESTIMATE_NONE};
    bool opened = open_gate(site, &settings);
    weir_release(world->allocator, tenants, bytes);
    return opened;
}

/* ---- line ---- */

static void take_news(struct weir_sim_site *site, struct weir_ticket *ticket)
{
    struct weir_sim_request *request = weir_container_of(ticket, struct weir_sim_request, ticket);
    if (ticket->state == WEIR_TICKET_ADMITTED) {
        weir_sim_send(site, request);
    } else {
        weir_sim_lose(site, request);
    }
}

void weir_sim_site_drain(struct weir_sim_site *site)
{
    for (struct weir_ticket *ticket; (ticket = weir_news_next(&site->news)) != NULL;) {
        take_news(site, ticket);
    }
    weir_sim_clock_set(&site->world->clock, &site->wake, site->news.wake_ns);
}

void weir_sim_site_enter(struct weir_sim_site *site, struct weir_sim_request *request)
{
    struct weir_sim_world *world = site->world;
    const struct weir_sim_tenant *tenant = &world->demand.tenants[request->wish.tenant];
    const struct weir_sim_policy *policy = world->policy;
    request->cost = policy->predicts       ? 0
                    : policy->cost != NULL ? policy->cost(site, request)
                                           : weir_sim_estimate(site, request);
    struct weir_request asked = {.tenant = weir_slice_of(tenant->name),
                                 .priority = tenant->settings->priority,
                                 .cost = request->cost,
                                 .input = policy->predicts ? request->wish.input_estimate : 0,
                                 .output_max = request->wish.max_tokens,
                                 .deadline_ns = request->deadline_ns,
                                 .retry = request->attempts > 0};
    request->state = WEIR_SIM_LINE;
    enum weir_admission verdict =
        weir_key_enter(site->key, &request->ticket, &asked, world->clock.now_ns, &site->news);
    if (verdict == WEIR_ADMITTED) {
        weir_sim_send(site, request);
    } else if (verdict == WEIR_REFUSED) {
        weir_sim_lose(site, request);
    }
    weir_sim_site_drain(site);
}

void weir_sim_site_limit(struct weir_sim_site *site, double limit)
{
    double whole = weir_sim_clamp(limit, 1, (double)WEIR_LIMIT_MAX);
    struct weir_lane_stats lane;
    uint64_t now_ns = site->world->clock.now_ns;
    if (!weir_key_get_lane(site->key, 0, now_ns, &lane) || lane.limit == (uint32_t)whole) {
        return;
    }
    enum weir_status status =
        weir_key_set_limit(site->key, lane.id, (uint32_t)whole, now_ns, &site->news);
    assert(status == WEIR_OK);
    weir_sim_site_drain(site);
}

/* ---- estimates and retries ---- */

uint32_t weir_sim_estimate(const struct weir_sim_site *site, const struct weir_sim_request *request)
{
    double output = weir_sim_least(site->output_mean, request->wish.max_tokens);
    return request->wish.input_estimate + (uint32_t)(output + 0.5);
}

uint32_t weir_sim_actual(const struct weir_sim_request *request)
{
    return request->wish.input + request->output;
}

uint64_t weir_sim_again_plainly(struct weir_sim_site *site, struct weir_sim_request *request,
                                enum weir_outcome outcome)
{
    (void)outcome;
    if (request->attempts > site->world->scenario->retries) {
        return WEIR_NEVER;
    }
    if (request->reply.retry_after_ns > 0) {
        return request->reply.retry_after_ns;
    }
    double jitter = 0.5 + weir_sim_uniform(&site->random);
    return (uint64_t)(RETRY_STEP_S * request->attempts * jitter * 1e9);
}
