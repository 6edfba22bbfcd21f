/* settings.c - translates the config's settings of a gate and its keys into the core's. Pure
 * functions of the config; any thread. */
#include "server/settings.h"

/* Of a lane among several, in a row. */
#define FAILURES_DEFAULT 3

/* Each upstream of a route is one lane, so a gate has as many lanes as its route with the most
 * upstreams. */
static uint32_t count_lanes(const struct weir_config *config, uint32_t gate)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < config->route_count; i++) {
        const struct weir_config_route *route = &config->routes[i];
        if (weir_config_route_leads_to(route, gate) && route->upstream_count > most) {
            most = route->upstream_count;
        }
    }
    return most < WEIR_LANES_MAX ? most : WEIR_LANES_MAX;
}

static struct weir_rate rate_of(const struct weir_config_bucket *bucket, enum weir_unit unit,
                                enum weir_settle settle)
{
    return (struct weir_rate){.tokens = bucket->start.tokens,
                              .period_ns = bucket->start.period_ns,
                              .burst = bucket->burst,
                              .unit = unit,
                              .settle = settle};
}

static uint32_t make_rates(struct weir_gate_settings *made, const struct weir_config_rules *rules)
{
    uint32_t count = 0;
    if (rules->rate.kind == WEIR_CONFIG_KIND_FIXED) {
        made->rates[count++] = rate_of(&rules->rate, WEIR_UNIT_REQUESTS, rules->settle);
    }
    if (rules->tokens.kind == WEIR_CONFIG_KIND_FIXED) {
        made->rates[count++] = rate_of(&rules->tokens, WEIR_UNIT_COST, rules->settle);
    }
    return count;
}

/* Per second, and at least 1. */
static uint64_t per_second(const struct weir_config_rate *rate)
{
    uint64_t seconds = rate->period_ns / WEIR_NS_PER_SECOND;
    return rate->tokens == 0 ? 0 : rate->tokens < seconds ? 1 : rate->tokens / seconds;
}

/* An adaptive limit or an adaptive rate in the config makes the lane learn. A fixed limit becomes a
 * window whose minimum and maximum are equal, and a fixed rate stays a bucket of its own. */
static struct weir_control_settings control_of(const struct weir_config_rules *rules)
{
    struct weir_control_settings control = {
        .controller = rules->controller, .settle = rules->settle, .aimd = rules->aimd};
    control.window =
        (struct weir_window_settings){.start = rules->limit.start_usual ? 0 : rules->limit.start,
                                      .min = rules->limit.min,
                                      .max = rules->limit.max};
    if (rules->limit.kind == WEIR_CONFIG_KIND_NONE) {
        control.window =
            (struct weir_window_settings){WEIR_WINDOW_MAX, WEIR_WINDOW_MAX, WEIR_WINDOW_MAX};
    }
    if (rules->tokens.kind == WEIR_CONFIG_KIND_ADAPTIVE) {
        control.rate = (struct weir_rate_settings){.start = per_second(&rules->tokens.start),
                                                   .min = per_second(&rules->tokens.min),
                                                   .max = per_second(&rules->tokens.max),
                                                   .burst = rules->tokens.burst};
    }
    if (rules->tokens.kind != WEIR_CONFIG_KIND_ADAPTIVE && rules->estimate == WEIR_ESTIMATE_NONE) {
        /* Requests without a cost have no rate that a slow start could find: only refusals slow
         * them down. */
        control.rate = (struct weir_rate_settings){.start = WEIR_CONTROL_RATE_MAX,
                                                   .max = WEIR_CONTROL_RATE_MAX,
                                                   .burst = WEIR_CONTROL_RATE_MAX};
    }
    return control;
}

/* A lane charges by the rule of its upstream. Where several routes lead through a gate by different
 * upstreams in one place, the first route's counts. */
static enum weir_charge charge_of(const struct weir_config *config, uint32_t gate, uint32_t lane)
{
    for (uint32_t i = 0; i < config->route_count; i++) {
        const struct weir_config_route *route = &config->routes[i];
        if (weir_config_route_leads_to(route, gate) && lane < route->upstream_count) {
            return config->upstreams[route->upstreams[lane]].charge;
        }
    }
    return WEIR_CHARGE_ESTIMATE;
}

/* Where there are several lanes, one that keeps failing is left alone for a while, even if the
 * config names no breaker: else each request would pay for asking it first. */
static struct weir_breaker_settings breaker_of(const struct weir_config_rules *rules,
                                               uint32_t lane_count)
{
    struct weir_breaker_settings breaker = rules->breaker;
    if (breaker.failures == WEIR_CONFIG_NONE) {
        breaker.failures = lane_count > 1 ? FAILURES_DEFAULT : 0;
    }
    return breaker;
}

void weir_gate_settings_make(struct weir_gate_settings *made, const struct weir_config *config,
                             uint32_t gate, const struct weir_config_rules *rules)
{
    const struct weir_config_gate *named = &config->gates[gate];
    *made = (struct weir_gate_settings){0};
    struct weir_settings *settings = &made->settings;
    uint32_t rate_count = make_rates(made, rules);
    settings->lane_count = count_lanes(config, gate);
    settings->lanes = made->lanes;
    for (uint32_t i = 0; i < settings->lane_count; i++) {
        made->lanes[i] =
            (struct weir_lane_settings){.id = (uint16_t)i,
                                        .no_limit = rules->limit.kind == WEIR_CONFIG_KIND_NONE,
                                        .rates = made->rates,
                                        .rate_count = rate_count,
                                        .breaker = breaker_of(rules, settings->lane_count),
                                        .control = control_of(rules)};
        made->lanes[i].limit = made->lanes[i].no_limit ? 0 : rules->limit.start;
        made->lanes[i].control.charge = charge_of(config, gate, i);
    }
    settings->choice = rules->choice;
    settings->line = rules->line.max;
    settings->line_by_tenant.tickets = rules->line.by_tenant;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        settings->priority_weights[i] = rules->weights[i];
        settings->line_by_priority[i].tickets = rules->line.by_priority[i];
    }
    settings->timeout_ns = rules->line.timeout_ns;
    settings->forget_ns = named->forget_ns;
    settings->early_reject = rules->early_reject;
    settings->estimate = rules->estimate;
    settings->tenant_default = named->tenant_default;
    settings->tenants = named->tenants;
    settings->tenant_count = named->tenant_count;
}
