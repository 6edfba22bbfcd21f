/* Limits that an operator wrote down. `truth` knows everything: what a request will cost, what the
 * account allows, and when that changes. It is the upper bound that others are compared with. `low`
 * and `high` are the same limits, half and twice, with costs estimated as an operator would. */
#include "lab/sim/number.h"
#include "lab/sim/policies.h"

#include <assert.h>

/* What the truth leaves of a burst at the provider, in seconds of its rate but never more than a
 * tenth, so that requests whose clients leave never find it empty. */
#define TRUTH_SPARE_S    1.0
#define TRUTH_SPARE_PART 0.1

#define SECOND 1e9

struct fixed {
    struct weir_rate rates[WEIR_SIM_LIMITS_MAX];
    uint32_t count;
    double factor;
};

/* A key counts costs and requests. A limit on input or on output becomes one on cost, at the mean
 * of what is asked. */
static struct weir_rate rate_of(const struct weir_sim_site *site, uint32_t index, double scale,
                                double spare_s)
{
    const struct weir_sim_world *world = site->world;
    const struct weir_sim_limit *limit = &world->scenario->provider.limits[index];
    const struct weir_sim_mean *mean = &world->demand.mean;
    double unit[WEIR_SIM_OF_COUNT] = {1, 1, mean->tokens / weir_sim_most(mean->input, 1),
                                      mean->tokens / weir_sim_most(mean->output, 1)};
    double part = scale * unit[limit->of] / world->scenario->instances;
    double most = (double)WEIR_RATE_TOKENS_MAX;
    double spare = spare_s * SECOND / (double)limit->period_ns * (double)limit->tokens;
    double burst = (double)limit->burst;
    burst -= weir_sim_least(spare, TRUTH_SPARE_PART * burst);
    return (struct weir_rate){
        .tokens = (uint64_t)weir_sim_clamp((double)limit->tokens * part, 1, most),
        .period_ns = limit->period_ns,
        .burst = (uint64_t)weir_sim_clamp(burst * part, 1, most),
        .unit = limit->of == WEIR_SIM_OF_REQUESTS ? WEIR_UNIT_REQUESTS : WEIR_UNIT_COST,
    };
}

static void make_rates(struct weir_sim_site *site, double spare_s)
{
    struct fixed *fixed = site->state;
    double scale = fixed->factor * site->world->provider.scale;
    fixed->count = site->world->scenario->provider.limit_count;
    for (uint32_t i = 0; i < fixed->count; i++) {
        fixed->rates[i] = rate_of(site, i, scale, spare_s);
    }
}

static double fixed_window(const struct weir_sim_site *site)
{
    const struct fixed *fixed = site->state;
    const struct weir_sim_world *world = site->world;
    double places = world->provider.concurrent * fixed->factor / world->scenario->instances;
    return places > 0 ? weir_sim_most(places, 1) : 0;
}

static bool start_with(struct weir_sim_site *site, double factor, double spare_s)
{
    struct fixed *fixed = site->state;
    fixed->factor = factor;
    make_rates(site, spare_s);
    double window = fixed_window(site);
    struct weir_lane_settings lane = {.no_limit = window == 0,
                                      .limit = (uint32_t)window,
                                      .rates = fixed->rates,
                                      .rate_count = fixed->count};
    return weir_sim_site_open(site, &lane);
}

/* ---- the truth ---- */

static bool start_truth(struct weir_sim_site *site)
{
    return start_with(site, 1, TRUTH_SPARE_S);
}

static uint32_t true_cost(struct weir_sim_site *site, struct weir_sim_request *request)
{
    const struct weir_sim_wish *wish = &request->wish;
    bool max = site->world->scenario->provider.charge == WEIR_SIM_CHARGE_MAX;
    return wish->input + (max ? wish->max_tokens : wish->output);
}

static void truth_changed(struct weir_sim_site *site)
{
    struct fixed *fixed = site->state;
    uint64_t now_ns = site->world->clock.now_ns;
    make_rates(site, TRUTH_SPARE_S);
    for (uint32_t i = 0; i < fixed->count; i++) {
        enum weir_status status =
            weir_key_set_rate(site->key, 0, i, &fixed->rates[i], now_ns, &site->news);
        assert(status == WEIR_OK);
    }
    if (site->world->provider.concurrent > 0) {
        weir_sim_site_limit(site, fixed_window(site));
    }
}

const struct weir_sim_policy weir_sim_policy_truth = {
    .name = "truth",
    .about = "fixed limits set to the truth, told of every change: the upper bound",
    .state_bytes = sizeof(struct fixed),
    .keeps_refused = true, /* only after failures, whose refunds come when its bucket is full */
    .start = start_truth,
    .cost = true_cost,
    .again = weir_sim_again_plainly,
    .changed = truth_changed,
    .window = fixed_window,
};

/* ---- too low, too high ---- */

static bool start_low(struct weir_sim_site *site)
{
    return start_with(site, 0.5, 0);
}

static bool start_high(struct weir_sim_site *site)
{
    return start_with(site, 2, 0);
}

const struct weir_sim_policy weir_sim_policy_low = {
    .name = "low",
    .about = "fixed limits at half of the truth",
    .state_bytes = sizeof(struct fixed),
    .start = start_low,
    .again = weir_sim_again_plainly,
    .window = fixed_window,
};

const struct weir_sim_policy weir_sim_policy_high = {
    .name = "high",
    .about = "fixed limits at twice the truth",
    .state_bytes = sizeof(struct fixed),
    .start = start_high,
    .again = weir_sim_again_plainly,
    .window = fixed_window,
};
