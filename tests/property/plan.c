#include "plan.h"

#define SECOND WEIR_NS_PER_SECOND

struct weir_slice plan_tenant_name(uint32_t index)
{
    static const char *const names[PLAN_TENANTS_MAX] = {"",  "a", "b", "c", "d", "e",
                                                        "f", "g", "h", "i", "j", "_other"};
    return weir_slice_of(names[index]);
}

static uint64_t draw_huge(struct random *random, uint32_t bits)
{
    return random_between(random, 1, UINT64_C(1) << random_below(random, bits + 1));
}

uint32_t plan_draw_cost(const struct plan_style *style, struct random *random)
{
    if (style->cost != 0) {
        return style->cost;
    }
    if (style->huge) {
        return (uint32_t)draw_huge(random, 30);
    }
    return (uint32_t)(random_chance(random, 10) ? random_between(random, 10, 60)
                                                : random_between(random, 1, 9));
}

struct weir_rate plan_draw_rate(const struct plan_style *style, struct random *random)
{
    struct weir_rate rate = {
        .tokens = random_between(random, 1, 40),
        .period_ns = random_between(random, SECOND, 3 * SECOND),
        .burst = random_chance(random, 30) ? 0 : random_between(random, 1, 30),
        .unit = random_chance(random, 30) ? WEIR_UNIT_REQUESTS : WEIR_UNIT_COST,
        .settle = random_chance(random, 50) ? WEIR_SETTLE_DEBT : WEIR_SETTLE_NEGATIVE,
    };
    if (style->huge) {
        rate.tokens = draw_huge(random, 40);
        rate.period_ns = random_between(random, SECOND, WEIR_RATE_PERIOD_MAX_NS);
        rate.burst = random_chance(random, 30) ? 0 : draw_huge(random, 40);
    } else if (random_chance(random, 50)) {
        rate.period_ns = SECOND; /* a round one, so that moments coincide */
    }
    return rate;
}

static void draw_lane(struct plan *plan, uint32_t index, const struct plan_style *style,
                      struct random *random)
{
    struct weir_lane_settings *lane = &plan->lanes[index];
    lane->no_limit = random_chance(random, 5);
    lane->limit = random_below(random, 5); /* 0 stands for 10 */
    lane->rate_count =
        random_chance(random, style->rate_percent) ? 1 + random_below(random, PLAN_RATES_MAX) : 0;
    for (uint32_t i = 0; i < lane->rate_count; i++) {
        plan->rates[index][i] = plan_draw_rate(style, random);
    }
    lane->breaker = (struct weir_breaker_settings){0};
    if (random_chance(random, style->breaker_percent)) {
        uint64_t pause_ns = random_between(random, 1, 2 * SECOND);
        lane->breaker.failures = 1 + random_below(random, 3);
        lane->breaker.pause_ns = pause_ns;
        lane->breaker.pause_max_ns =
            random_chance(random, 30) ? 0 : random_between(random, pause_ns, 6 * pause_ns);
    }
}

/* Ids need not be in order, and may leave and come back. */
static void draw_lanes(struct plan *plan, const struct plan_style *style, struct random *random)
{
    uint32_t count = 1 + random_below(random, style->lanes_max);
    uint32_t start = random_below(random, 6);
    uint32_t step = random_chance(random, 50) ? 1 : 5; /* both visit all of the six ids */
    for (uint32_t i = 0; i < count; i++) {
        draw_lane(plan, i, style, random);
        plan->lanes[i].id = (uint16_t)((start + i * step) % 6);
    }
    plan->settings.lane_count = count;
}

static void draw_tenant(struct weir_tenant_settings *tenant, const struct plan_style *style,
                        struct random *random)
{
    tenant->weight = random_below(random, style->huge ? WEIR_TENANT_WEIGHT_MAX + 1 : 6);
    tenant->limit = random_chance(random, 40) ? 1 + random_below(random, 3) : 0;
    tenant->rate = (struct weir_rate){0};
    if (random_chance(random, style->rate_percent / 2)) {
        tenant->rate = plan_draw_rate(style, random);
    }
}

static void draw_tenants(struct plan *plan, const struct plan_style *style, struct random *random)
{
    struct weir_settings *settings = &plan->settings;
    settings->tenant_count = 0;
    for (uint32_t i = 1; i < style->tenants_max; i++) {
        if (random_chance(random, style->tenant_percent)) {
            struct weir_tenant_settings *tenant = &plan->tenants[settings->tenant_count++];
            draw_tenant(tenant, style, random);
            tenant->name = plan_tenant_name(i);
        }
    }
    settings->tenant_default = (struct weir_tenant_settings){0};
    if (random_chance(random, style->tenant_percent)) {
        draw_tenant(&settings->tenant_default, style, random);
    }
}

static struct weir_bound draw_bound(const struct plan_style *style, struct random *random)
{
    struct weir_bound bound = {0};
    if (random_chance(random, style->bound_percent)) {
        bound.tickets = 1 + random_below(random, style->line_max);
    }
    if (random_chance(random, style->bound_percent / 2)) {
        bound.cost = style->huge ? draw_huge(random, 42) : random_between(random, 5, 80);
    }
    return bound;
}

static void draw_line(struct plan *plan, const struct plan_style *style, struct random *random)
{
    struct weir_settings *settings = &plan->settings;
    settings->line = draw_bound(style, random);
    settings->line.tickets = 1 + random_below(random, style->line_max);
    settings->line_by_tenant = draw_bound(style, random);
    for (uint32_t i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        settings->line_by_priority[i] = draw_bound(style, random);
    }
}

static void draw_weights(struct plan *plan, struct random *random)
{
    bool own = random_chance(random, 40);
    for (uint32_t i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        plan->settings.priority_weights[i] =
            own ? 1 + random_below(random, WEIR_PRIORITY_WEIGHT_MAX) : 0;
    }
}

static void draw_times(struct plan *plan, const struct plan_style *style, struct random *random)
{
    struct weir_settings *settings = &plan->settings;
    static const uint64_t timeouts_ns[] = {0, WEIR_NEVER, SECOND, 3 * SECOND, SECOND / 2, 1};
    settings->timeout_ns = timeouts_ns[random_below(random, 6)];
    settings->lease_ns = random_chance(random, 30) ? random_between(random, 1, 4 * SECOND) : 0;
    settings->forget_ns = random_chance(random, 30) ? random_between(random, 1, 5 * SECOND) : 0;
    settings->forget_ns = style->forget_ns != 0 ? style->forget_ns : settings->forget_ns;
}

static void draw_choice(struct plan *plan, const struct plan_style *style, struct random *random)
{
    struct weir_settings *settings = &plan->settings;
    settings->choice = random_chance(random, 50) ? WEIR_CHOICE_MOST_ROOM : WEIR_CHOICE_IN_ORDER;
    settings->tenants_max = random_chance(random, 50) ? 1 + random_below(random, 6) : 0;
    settings->tenants_max = style->tenants_kept != 0 ? style->tenants_kept : settings->tenants_max;
    settings->recorder_events = random_chance(random, 25) ? 1 + random_below(random, 8) : 0;
}

/* The pointers lead into the plan itself, wherever it is now. */
static void point(struct plan *plan)
{
    plan->settings.lanes = plan->lanes;
    plan->settings.tenants = plan->tenants;
    for (uint32_t i = 0; i < PLAN_LANES_MAX; i++) {
        plan->lanes[i].rates = plan->rates[i];
    }
}

void plan_draw(struct plan *plan, const struct plan_style *style, struct random *random)
{
    *plan = (struct plan){0};
    draw_lanes(plan, style, random);
    draw_tenants(plan, style, random);
    draw_line(plan, style, random);
    draw_weights(plan, random);
    draw_times(plan, style, random);
    draw_choice(plan, style, random);
    point(plan);
}

/* The lane and the first change places; point() mends the pointers. */
static void swap_lanes(struct plan *plan, uint32_t index)
{
    struct weir_lane_settings lane = plan->lanes[0];
    plan->lanes[0] = plan->lanes[index];
    plan->lanes[index] = lane;
    for (uint32_t i = 0; i < PLAN_RATES_MAX; i++) {
        struct weir_rate rate = plan->rates[0][i];
        plan->rates[0][i] = plan->rates[index][i];
        plan->rates[index][i] = rate;
    }
}

/* One lane's limit, one of its rates, or its place among the others. */
static void vary_lane(struct plan *plan, const struct plan_style *style, struct random *random)
{
    uint32_t index = random_below(random, plan->settings.lane_count);
    struct weir_lane_settings *lane = &plan->lanes[index];
    if (random_chance(random, 30)) {
        lane->limit = 1 + random_below(random, 5);
    } else if (random_chance(random, 50) && lane->rate_count > 0) {
        plan->rates[index][random_below(random, lane->rate_count)] = plan_draw_rate(style, random);
    } else if (random_chance(random, 30)) {
        uint16_t id = lane->id;
        draw_lane(plan, index, style, random);
        lane->id = id;
    } else {
        swap_lanes(plan, index);
    }
}

void plan_vary(struct plan *plan, const struct plan_style *style, struct random *random)
{
    switch (random_below(random, 8)) {
    case 0:
        draw_lanes(plan, style, random);
        break;
    case 1:
        draw_tenants(plan, style, random);
        break;
    case 2:
        draw_line(plan, style, random);
        break;
    case 3:
        draw_weights(plan, random);
        break;
    case 4:
        draw_times(plan, style, random);
        break;
    case 5:
        draw_choice(plan, style, random);
        break;
    default:
        vary_lane(plan, style, random);
        break;
    }
    point(plan);
}

void plan_copy(struct plan *to, const struct plan *from)
{
    *to = *from;
    point(to);
}
