/* Draws each tenant's next request ahead of time and keeps tenants in the order of those times; a
 * trace takes the place of drawing. All random numbers are the tenant's own. */
#include "lab/sim/demand.h"

#include "base/alloc.h"
#include "lab/sim/number.h"

#include <assert.h>
#include <stdio.h>

#define SECOND        1e9
#define TENANT_STREAM UINT64_C(0x74656e616e7400) /* "tenant", and its number */
#define MEAN_STEPS    400
#define MEAN_WIDEST   8.0 /* deviations */

/* ---- what one request is ---- */

static uint32_t whole(double x, uint32_t most)
{
    return x < 1 ? 1 : x > (double)most ? most : (uint32_t)(x + 0.5);
}

static struct weir_sim_wish draw(const struct weir_sim_tenant_settings *settings,
                                 struct weir_sim_random *random)
{
    struct weir_sim_wish wish = {.max_tokens = settings->max_tokens,
                                 .deadline_ns = WEIR_NEVER,
                                 .cancel_after_ns = WEIR_NEVER};
    wish.input = whole(weir_sim_lognormal(random, settings->input.median, settings->input.spread),
                       WEIR_SIM_TOKENS_MAX);
    wish.output =
        whole(weir_sim_lognormal(random, settings->output.median, settings->output.spread),
              settings->max_tokens);
    double error = settings->estimate_error * (2 * weir_sim_uniform(random) - 1);
    wish.input_estimate = whole((double)wish.input * (1 + error), WEIR_SIM_TOKENS_MAX);
    bool leaves = weir_sim_uniform(random) < settings->cancel;
    double after = weir_sim_exponential(random) * (double)settings->cancel_after_ns;
    if (leaves) {
        wish.cancel_after_ns = (uint64_t)after + 1;
    }
    return wish;
}

static void complete(struct weir_sim_wish *wish, const struct weir_sim_tenant_settings *settings,
                     uint64_t now_ns)
{
    if (settings->deadline_ns != WEIR_NEVER) {
        wish->deadline_ns = now_ns + settings->deadline_ns;
    }
}

/* ---- means and capacity ---- */

static void add_to_mean(struct weir_sim_mean *mean, const struct weir_sim_wish *wish, double share)
{
    mean->input += share * wish->input;
    mean->output += share * wish->output;
    mean->max_tokens += share * wish->max_tokens;
}

static void finish_mean(struct weir_sim_mean *mean, const struct weir_sim_scenario *scenario)
{
    const struct weir_sim_spread *first = &scenario->provider.first_token_s;
    mean->tokens = mean->input + mean->output;
    const struct weir_sim_provider_settings *provider = &scenario->provider;
    double crowd = provider->batch > 0 ? provider->concurrent / provider->batch : 0;
    mean->reply_s = first->median * weir_sim_exp(first->spread * first->spread / 2) +
                    (provider->prefill > 0 ? mean->input / provider->prefill : 0) +
                    mean->output / provider->tokens_per_second * (1 + crowd);
}

/* Of lognormal values of which none counts for more than `most`: the integral over the normal
 * density, by the trapezoidal rule, which is exact to many digits for such a function. */
static double mean_of_spread(const struct weir_sim_spread *spread, double most)
{
    double sum = 0;
    double weights = 0;
    for (int i = -MEAN_STEPS; i <= MEAN_STEPS; i++) {
        double z = MEAN_WIDEST * i / MEAN_STEPS;
        double weight = weir_sim_exp(-z * z / 2);
        double value = spread->median * weir_sim_exp(spread->spread * z);
        sum += weight * weir_sim_clamp(value, 1, most);
        weights += weight;
    }
    return sum / weights;
}

static struct weir_sim_mean mean_of_group(const struct weir_sim_tenant_settings *settings)
{
    struct weir_sim_mean mean = {.max_tokens = settings->max_tokens};
    mean.input = mean_of_spread(&settings->input, WEIR_SIM_TOKENS_MAX);
    mean.output = mean_of_spread(&settings->output, settings->max_tokens);
    mean.tokens = mean.input + mean.output;
    return mean;
}

/* A group that names a load asks in proportion to it in tokens; all that is needed here is how
 * often each group asks compared with the others. A rate is compared as if the account were one of
 * a million tokens a minute, which is close enough for a mean. */
static struct weir_sim_mean mean_of_all(const struct weir_sim_scenario *scenario)
{
    struct weir_sim_mean sum = {0};
    double all = 0;
    for (uint32_t i = 0; i < scenario->tenant_count; i++) {
        const struct weir_sim_tenant_settings *settings = &scenario->tenants[i];
        struct weir_sim_mean mean = mean_of_group(settings);
        double often = settings->load > 0      ? settings->load * 1e6 / 60 / mean.tokens
                       : settings->clients > 0 ? settings->clients * settings->count
                                               : settings->rate;
        sum.input += often * mean.input;
        sum.output += often * mean.output;
        sum.max_tokens += often * mean.max_tokens;
        all += often;
    }
    if (all > 0) {
        sum = (struct weir_sim_mean){.input = sum.input / all,
                                     .output = sum.output / all,
                                     .max_tokens = sum.max_tokens / all};
    }
    finish_mean(&sum, scenario);
    return sum;
}

static struct weir_sim_mean mean_of_trace(const struct weir_sim_scenario *scenario)
{
    struct weir_sim_mean mean = {0};
    for (uint32_t i = 0; i < scenario->trace_count; i++) {
        const struct weir_sim_arrival *arrival = &scenario->trace[i];
        const struct weir_sim_tenant_settings *tenant = &scenario->tenants[arrival->tenant];
        struct weir_sim_wish wish = {.input = arrival->input, .output = arrival->output};
        if (arrival->cost > 0) {
            double output = mean_of_spread(&tenant->output, tenant->max_tokens);
            wish.output = whole(weir_sim_least(output, arrival->cost / 2.0), WEIR_SIM_TOKENS_MAX);
            wish.input = arrival->cost > wish.output ? arrival->cost - wish.output : 1;
        }
        wish.max_tokens = arrival->max_tokens > 0 ? arrival->max_tokens : tenant->max_tokens;
        add_to_mean(&mean, &wish, 1.0 / scenario->trace_count);
    }
    finish_mean(&mean, scenario);
    return mean;
}

double weir_sim_capacity(const struct weir_sim_provider_settings *provider,
                         const struct weir_sim_mean *mean, double scale, uint32_t concurrent)
{
    double least = 1e15;
    for (uint32_t i = 0; i < provider->limit_count; i++) {
        const struct weir_sim_limit *limit = &provider->limits[i];
        double rate = (double)limit->tokens * SECOND / (double)limit->period_ns * scale;
        double unit[WEIR_SIM_OF_COUNT] = {mean->tokens, 1, mean->input, mean->output};
        /* A day's quota is spent as fast as the other limits allow. */
        if (limit->period_ns <= 3600 * WEIR_NS_PER_SECOND && unit[limit->of] > 0) {
            least = weir_sim_least(least, rate * mean->tokens / unit[limit->of]);
        }
    }
    if (concurrent > 0) {
        least = weir_sim_least(least, concurrent * mean->tokens / mean->reply_s);
    }
    return least;
}

/* ---- tenants ---- */

static void name_tenant(struct weir_sim_tenant *tenant, uint32_t number)
{
    const struct weir_sim_tenant_settings *settings = tenant->settings;
    int bytes = (int)settings->name.bytes;
    if (settings->count == 1) {
        snprintf(tenant->name, sizeof tenant->name, "%.*s", bytes, settings->name.data);
    } else {
        snprintf(tenant->name, sizeof tenant->name, "%.*s-%u", bytes, settings->name.data, number);
    }
}

static void init_group(struct weir_sim_demand *demand, uint32_t group, uint64_t seed)
{
    const struct weir_sim_tenant_settings *settings = &demand->scenario->tenants[group];
    double rate = settings->rate;
    if (settings->load > 0) {
        rate = settings->load * demand->capacity / mean_of_group(settings).tokens;
    }
    for (uint32_t i = 0; i < settings->count; i++) {
        struct weir_sim_tenant *tenant = &demand->tenants[demand->tenant_count];
        *tenant = (struct weir_sim_tenant){.settings = settings, .group = group};
        tenant->random = weir_sim_random_of(seed, TENANT_STREAM + demand->tenant_count);
        tenant->gap_s = rate > 0 ? settings->count / rate : 0;
        name_tenant(tenant, i + 1);
        demand->tenant_count++;
    }
}

static uint32_t count_tenants(const struct weir_sim_scenario *scenario)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < scenario->tenant_count; i++) {
        count += scenario->tenants[i].count;
    }
    return count;
}

bool weir_sim_demand_init(struct weir_sim_demand *demand, const struct weir_sim_scenario *scenario,
                          uint64_t seed, const struct weir_allocator *allocator)
{
    *demand = (struct weir_sim_demand){.scenario = scenario};
    size_t bytes = (count_tenants(scenario) + 1) * sizeof *demand->tenants;
    demand->tenants = weir_allocate_zeroed(allocator, bytes);
    if (demand->tenants == NULL) {
        return false;
    }
    const struct weir_sim_provider_settings *provider = &scenario->provider;
    demand->mean = scenario->trace != NULL ? mean_of_trace(scenario) : mean_of_all(scenario);
    demand->capacity = weir_sim_capacity(provider, &demand->mean, 1, provider->concurrent);
    for (uint32_t i = 0; i < scenario->tenant_count; i++) {
        init_group(demand, i, seed);
    }
    return true;
}

void weir_sim_demand_deinit(struct weir_sim_demand *demand, const struct weir_allocator *allocator)
{
    if (demand->tenants != NULL) {
        size_t bytes = (demand->tenant_count + 1) * sizeof *demand->tenants;
        weir_release(allocator, demand->tenants, bytes);
    }
    demand->tenants = NULL;
}

/* ---- arrivals ---- */

static uint64_t gap_ns(struct weir_sim_tenant *tenant)
{
    double gap = tenant->gap_s * SECOND;
    switch (tenant->settings->arrivals) {
    case WEIR_SIM_ARRIVALS_CONSTANT:
        return (uint64_t)gap + 1;
    case WEIR_SIM_ARRIVALS_BURSTS:
        if (tenant->left > 0) {
            tenant->left--;
            return 0;
        }
        tenant->left = tenant->settings->burst - 1;
        return (uint64_t)(gap * tenant->settings->burst *
                          (0.5 + weir_sim_uniform(&tenant->random))) +
               1;
    default:
        return (uint64_t)(gap * weir_sim_exponential(&tenant->random)) + 1;
    }
}

static void set_next(struct weir_sim_tenant *tenant, struct weir_sim_clock *clock, uint64_t from_ns)
{
    uint64_t at_ns = from_ns + gap_ns(tenant);
    if (at_ns < tenant->settings->until_ns) {
        weir_sim_clock_set(clock, &tenant->timer, at_ns);
    }
}

static uint64_t trace_at(const struct weir_sim_demand *demand)
{
    uint32_t next = demand->trace_next;
    return next < demand->scenario->trace_count ? demand->scenario->trace[next].at_ns : WEIR_NEVER;
}

void weir_sim_demand_start(struct weir_sim_demand *demand, struct weir_sim_clock *clock,
                           uint32_t tenant_kind, uint32_t trace_kind)
{
    demand->trace_timer.kind = trace_kind;
    if (demand->scenario->trace != NULL) {
        weir_sim_clock_set(clock, &demand->trace_timer, trace_at(demand));
        return;
    }
    for (uint32_t i = 0; i < demand->tenant_count; i++) {
        struct weir_sim_tenant *tenant = &demand->tenants[i];
        tenant->timer.kind = tenant_kind;
        if (tenant->settings->clients > 0) {
            weir_sim_clock_set(clock, &tenant->timer, tenant->settings->from_ns);
        } else if (tenant->gap_s > 0) {
            /* Not all at once: tenants that come at constant intervals start anywhere in theirs. */
            double first_s = tenant->gap_s * weir_sim_uniform(&tenant->random);
            weir_sim_clock_set(clock, &tenant->timer,
                               tenant->settings->from_ns + (uint64_t)(first_s * SECOND));
        }
    }
}

struct weir_sim_wish weir_sim_demand_draw(struct weir_sim_demand *demand,
                                          struct weir_sim_tenant *tenant, uint64_t now_ns)
{
    struct weir_sim_wish wish = draw(tenant->settings, &tenant->random);
    wish.tenant = (uint32_t)(tenant - demand->tenants);
    complete(&wish, tenant->settings, now_ns);
    return wish;
}

struct weir_sim_wish weir_sim_demand_next(struct weir_sim_demand *demand,
                                          struct weir_sim_tenant *tenant,
                                          struct weir_sim_clock *clock)
{
    struct weir_sim_wish wish = weir_sim_demand_draw(demand, tenant, clock->now_ns);
    if (tenant->settings->clients == 0) {
        set_next(tenant, clock, clock->now_ns);
    }
    return wish;
}

struct weir_sim_wish weir_sim_demand_replay(struct weir_sim_demand *demand,
                                            struct weir_sim_clock *clock)
{
    assert(demand->trace_next < demand->scenario->trace_count);
    const struct weir_sim_arrival *arrival = &demand->scenario->trace[demand->trace_next++];
    struct weir_sim_tenant *tenant = &demand->tenants[arrival->tenant];
    struct weir_sim_wish wish = draw(tenant->settings, &tenant->random);
    double error = (double)wish.input_estimate / (double)wish.input;
    uint32_t output = arrival->output;
    if (arrival->cost > 0) {
        output = wish.output < arrival->cost ? wish.output : arrival->cost - 1;
    }
    wish.tenant = arrival->tenant;
    wish.input = arrival->cost > 0 ? arrival->cost - output : arrival->input;
    wish.input_estimate = whole((double)wish.input * error, WEIR_SIM_TOKENS_MAX);
    wish.max_tokens = arrival->max_tokens > 0 ? arrival->max_tokens : tenant->settings->max_tokens;
    wish.output = output < wish.max_tokens ? output : wish.max_tokens;
    complete(&wish, tenant->settings, clock->now_ns);
    weir_sim_clock_set(clock, &demand->trace_timer, trace_at(demand));
    return wish;
}
