#include "gateway/settings.h"

/* Each upstream of a route is one lane, and a gate serves the route with most of them. */
static uint32_t count_lanes(const struct weir_config *config, uint32_t gate)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < config->route_count; i++) {
        const struct weir_config_route *route = &config->routes[i];
        if (route->gate == gate && route->upstream_count > most) {
            most = route->upstream_count;
        }
    }
    return most < WEIR_LANES_MAX ? most : WEIR_LANES_MAX;
}

static struct weir_rate rate_of(const struct weir_config_bucket *bucket, enum weir_unit unit)
{
    return (struct weir_rate){.tokens = bucket->start.tokens,
                              .period_ns = bucket->start.period_ns,
                              .burst = bucket->burst,
                              .unit = unit};
}

static uint32_t make_rates(struct weir_gate_settings *made, const struct weir_config_rules *rules)
{
    uint32_t count = 0;
    if (rules->rate.kind != WEIR_CONFIG_KIND_NONE) {
        made->rates[count++] = rate_of(&rules->rate, WEIR_UNIT_REQUESTS);
    }
    if (rules->tokens.kind != WEIR_CONFIG_KIND_NONE) {
        made->rates[count++] = rate_of(&rules->tokens, WEIR_UNIT_COST);
    }
    return count;
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
                                        .breaker = rules->breaker};
        made->lanes[i].limit = made->lanes[i].no_limit ? 0 : rules->limit.start;
    }
    settings->choice = rules->choice;
    settings->line = rules->line.max;
    settings->line_by_tenant.tickets = rules->line.by_tenant;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        settings->priority_weights[i] = rules->weights[i];
        settings->line_by_priority[i].tickets = rules->line.by_priority[i];
    }
    settings->timeout_ns = rules->line.timeout_ns;
    settings->early_reject = rules->early_reject;
    settings->tenant_default = named->tenant_default;
    settings->tenants = named->tenants;
    settings->tenant_count = named->tenant_count;
}
