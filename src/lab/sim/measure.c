/* Sums by second while the run lasts; figures afterwards: what could have been used, shares,
 * fairness, and how long a change took to recover from. Memory is taken before the run, so
 * measuring never fails. */
#include "lab/sim/measure.h"

#include "base/alloc.h"
#include "lab/sim/number.h"

#include <assert.h>

#define WAIT_LEAST_NS 1000
#define SECOND        1e9

/* Recovered is who for so long uses this much of what is possible, with no more refusals. */
#define RECOVERED_SECONDS 30
#define RECOVERED_USED    0.9
#define RECOVERED_REFUSED 0.01

/* ---- waits ---- */

/* Step 64 k + j + 1 is from (1 + j/64) * 2^k us on; everything below 1 us is in step 0. */
void weir_sim_waits_add(struct weir_sim_waits *waits, uint64_t wait_ns)
{
    uint64_t scaled = wait_ns / WAIT_LEAST_NS;
    uint32_t step = 0;
    if (scaled > 0) {
        uint32_t k = 63 - (uint32_t)__builtin_clzll(scaled);
        uint64_t part = k >= 6 ? scaled >> (k - 6) : scaled << (6 - k);
        step = 64 * k + (uint32_t)(part & 63) + 1;
    }
    step = step < WEIR_SIM_WAIT_STEPS ? step : WEIR_SIM_WAIT_STEPS - 1;
    waits->steps[step]++;
    waits->count++;
}

static double step_end_s(uint32_t step)
{
    if (step == 0) {
        return 0; /* at once */
    }
    double us = (double)(UINT64_C(1) << ((step - 1) / 64)) * (1 + ((step - 1) % 64 + 1) / 64.0);
    return us * 1e-6;
}

double weir_sim_waits_quantile(const struct weir_sim_waits *waits, double quantile)
{
    double wanted = quantile * (double)waits->count;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < WEIR_SIM_WAIT_STEPS; i++) {
        seen += waits->steps[i];
        if (seen > 0 && (double)seen >= wanted) {
            return step_end_s(i);
        }
    }
    return 0;
}

/* ---- fairness ---- */

double weir_sim_jain(const double *x, uint32_t count)
{
    double sum = 0;
    double squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    return squares > 0 ? sum * sum / (count * squares) : 1;
}

void weir_sim_fair_shares(const double *asked, const double *weights, uint32_t count, double total,
                          double *shares)
{
    double left = total;
    double weight_left = 0;
    for (uint32_t i = 0; i < count; i++) {
        shares[i] = -1; /* still open */
        weight_left += weights[i];
    }
    /* Each round gives tenants that ask for less than their part all that they ask for; a round
     * without such tenants is the last. */
    for (bool settled = true; settled;) {
        settled = false;
        double per_weight = weight_left > 0 ? left / weight_left : 0;
        for (uint32_t i = 0; i < count; i++) {
            if (shares[i] < 0 && asked[i] <= per_weight * weights[i]) {
                shares[i] = asked[i];
                left -= asked[i];
                weight_left -= weights[i];
                settled = true;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (shares[i] < 0) {
            shares[i] = left * weights[i] / weight_left;
        }
    }
}

/* ---- the record ---- */

static size_t tenants_bytes(const struct weir_sim_measure *measure)
{
    return (measure->demand->tenant_count + 1) * sizeof(double);
}

static size_t groups_bytes(const struct weir_sim_measure *measure)
{
    return (measure->scenario->tenant_count + 1) * sizeof *measure->group_waits;
}

bool weir_sim_measure_init(struct weir_sim_measure *measure,
                           const struct weir_sim_scenario *scenario,
                           const struct weir_sim_demand *demand,
                           const struct weir_allocator *allocator)
{
    *measure =
        (struct weir_sim_measure){.scenario = scenario, .demand = demand, .allocator = allocator};
    measure->second_count =
        (uint32_t)((scenario->duration_ns + WEIR_NS_PER_SECOND - 1) / WEIR_NS_PER_SECOND);
    size_t bytes = tenants_bytes(measure);
    measure->seconds =
        weir_allocate_zeroed(allocator, measure->second_count * sizeof *measure->seconds);
    measure->tenant_offered = weir_allocate_zeroed(allocator, bytes);
    measure->tenant_tokens = weir_allocate_zeroed(allocator, bytes);
    measure->shares = weir_allocate_zeroed(allocator, bytes * WEIR_SIM_SHARE_BINS);
    measure->group_waits = weir_allocate_zeroed(allocator, groups_bytes(measure));
    measure->group_firsts = weir_allocate_zeroed(allocator, groups_bytes(measure));
    return measure->seconds != NULL && measure->tenant_offered != NULL &&
           measure->tenant_tokens != NULL && measure->shares != NULL &&
           measure->group_waits != NULL && measure->group_firsts != NULL;
}

void weir_sim_measure_deinit(struct weir_sim_measure *measure)
{
    if (measure->allocator == NULL) {
        return;
    }
    size_t bytes = tenants_bytes(measure);
    weir_release(measure->allocator, measure->seconds,
                 measure->second_count * sizeof *measure->seconds);
    weir_release(measure->allocator, measure->tenant_offered, bytes);
    weir_release(measure->allocator, measure->tenant_tokens, bytes);
    weir_release(measure->allocator, measure->shares, bytes * WEIR_SIM_SHARE_BINS);
    weir_release(measure->allocator, measure->group_waits, groups_bytes(measure));
    weir_release(measure->allocator, measure->group_firsts, groups_bytes(measure));
    *measure = (struct weir_sim_measure){0};
}

struct weir_sim_second *weir_sim_measure_at(struct weir_sim_measure *measure, uint64_t now_ns)
{
    uint64_t second = now_ns / WEIR_NS_PER_SECOND;
    return &measure->seconds[second < measure->second_count ? second : measure->second_count - 1];
}

bool weir_sim_measure_counts(const struct weir_sim_measure *measure, uint64_t now_ns)
{
    return now_ns >= measure->scenario->warmup_ns;
}

void weir_sim_measure_tokens(struct weir_sim_measure *measure, uint32_t tenant, uint32_t instance,
                             double tokens, uint64_t at_ns)
{
    weir_sim_measure_at(measure, at_ns)->accepted += tokens;
    uint64_t bin = at_ns / (measure->scenario->duration_ns / WEIR_SIM_SHARE_BINS + 1);
    bin = bin < WEIR_SIM_SHARE_BINS ? bin : WEIR_SIM_SHARE_BINS - 1;
    measure->shares[bin * measure->demand->tenant_count + tenant] += tokens;
    if (weir_sim_measure_counts(measure, at_ns)) {
        measure->tenant_tokens[tenant] += tokens;
        measure->instance_tokens[instance] += tokens;
    }
}

/* ---- what was possible ---- */

/* The account as a fluid: each second takes as much of what waits as every limit covers. */
struct fluid {
    double levels[WEIR_SIM_LIMITS_MAX];
    double waiting; /* tokens */
    double scale;
    double errors;
    uint32_t concurrent;
    double slow;
    uint32_t change; /* the next */
};

static void follow_changes(const struct weir_sim_measure *measure, struct fluid *fluid,
                           uint64_t now_ns)
{
    const struct weir_sim_scenario *scenario = measure->scenario;
    while (fluid->change < scenario->change_count &&
           scenario->changes[fluid->change].at_ns <= now_ns) {
        const struct weir_sim_change *change = &scenario->changes[fluid->change++];
        fluid->scale = change->limits >= 0 ? change->limits : fluid->scale;
        fluid->errors = change->errors >= 0 ? change->errors : fluid->errors;
        fluid->slow = change->slow >= 0 ? change->slow : fluid->slow;
        fluid->concurrent =
            change->concurrent >= 0 ? (uint32_t)change->concurrent : fluid->concurrent;
    }
}

/* How many tokens of mean requests a limit covers in this second. */
static double limit_covers(const struct weir_sim_measure *measure, struct fluid *fluid, uint32_t i,
                           uint64_t now_ns, double unit)
{
    const struct weir_sim_limit *limit = &measure->scenario->provider.limits[i];
    double burst = (double)limit->burst * fluid->scale;
    double rate = (double)limit->tokens * SECOND / (double)limit->period_ns * fluid->scale;
    if (limit->window) {
        fluid->levels[i] =
            now_ns % limit->period_ns < WEIR_NS_PER_SECOND ? burst : fluid->levels[i];
        return fluid->levels[i] * unit;
    }
    /* What flows in during the second may be used in it, also beyond a small burst. */
    fluid->levels[i] = weir_sim_least(fluid->levels[i], burst) + rate;
    return fluid->levels[i] * unit;
}

static void flow_second(struct weir_sim_measure *measure, struct fluid *fluid, uint32_t index)
{
    const struct weir_sim_scenario *scenario = measure->scenario;
    const struct weir_sim_mean *mean = &measure->demand->mean;
    struct weir_sim_second *second = &measure->seconds[index];
    uint64_t now_ns = index * WEIR_NS_PER_SECOND;
    double units[WEIR_SIM_OF_COUNT] = {1, mean->tokens,
                                       mean->tokens / weir_sim_most(mean->input, 1),
                                       mean->tokens / weir_sim_most(mean->output, 1)};
    follow_changes(measure, fluid, now_ns);
    fluid->waiting += second->offered;
    double taken = fluid->waiting;
    for (uint32_t i = 0; i < scenario->provider.limit_count; i++) {
        double unit = units[scenario->provider.limits[i].of];
        taken = weir_sim_least(taken, limit_covers(measure, fluid, i, now_ns, unit));
    }
    if (fluid->concurrent > 0) {
        taken =
            weir_sim_least(taken, fluid->concurrent * mean->tokens / (mean->reply_s * fluid->slow));
    }
    taken *= 1 - fluid->errors;
    taken = weir_sim_most(taken, 0);
    for (uint32_t i = 0; i < scenario->provider.limit_count; i++) {
        fluid->levels[i] -= taken / units[scenario->provider.limits[i].of];
    }
    double room = (double)scenario->line_max * scenario->instances * mean->tokens;
    fluid->waiting = weir_sim_least(fluid->waiting - taken, room);
    second->possible = taken;
    double allowed = weir_sim_capacity(&scenario->provider, mean, fluid->scale, fluid->concurrent);
    second->allowed = fluid->errors < 1 ? allowed : 0;
}

static void flow(struct weir_sim_measure *measure)
{
    const struct weir_sim_scenario *scenario = measure->scenario;
    struct fluid fluid = {.scale = 1,
                          .slow = 1,
                          .errors = scenario->provider.errors,
                          .concurrent = scenario->provider.concurrent};
    for (uint32_t i = 0; i < scenario->provider.limit_count; i++) {
        fluid.levels[i] = (double)scenario->provider.limits[i].burst;
    }
    for (uint32_t i = 0; i < measure->second_count; i++) {
        flow_second(measure, &fluid, i);
    }
}

/* ---- recovery ---- */

struct span {
    double accepted;
    double possible; /* without bursts: to leave some of a full bucket is no fault */
    uint64_t answers;
    uint64_t refused;
};

static struct span span_of(const struct weir_sim_measure *measure, uint32_t from, uint32_t count)
{
    struct span span = {0};
    for (uint32_t i = from; i < from + count; i++) {
        span.accepted += measure->seconds[i].accepted;
        span.possible += weir_sim_least(measure->seconds[i].possible, measure->seconds[i].allowed);
        span.answers += measure->seconds[i].answers;
        span.refused += measure->seconds[i].refused;
    }
    return span;
}

/* A single refusal is forgiven: on a small account it is several percent of half a minute. */
static bool is_well(const struct span *span)
{
    double refused_most = weir_sim_most(1, RECOVERED_REFUSED * (double)span->answers);
    return span->accepted >= RECOVERED_USED * span->possible &&
           (double)span->refused <= refused_most;
}

static double recovery_after(const struct weir_sim_measure *measure, uint32_t from, uint32_t until)
{
    for (uint32_t s = from; s + RECOVERED_SECONDS <= until; s++) {
        struct span span = span_of(measure, s, RECOVERED_SECONDS);
        if (is_well(&span)) {
            return s - from;
        }
    }
    return WEIR_SIM_NOT_RECOVERED;
}

static double longest_recovery(const struct weir_sim_measure *measure)
{
    const struct weir_sim_scenario *scenario = measure->scenario;
    double longest = -1;
    for (uint32_t i = 0; i < scenario->change_count; i++) {
        uint64_t next_ns =
            i + 1 < scenario->change_count ? scenario->changes[i + 1].at_ns : scenario->duration_ns;
        /* While requests fail there is nothing to come back to. */
        if (scenario->changes[i].errors > 0 ||
            scenario->changes[i].at_ns >= scenario->duration_ns) {
            continue;
        }
        uint32_t from = (uint32_t)(scenario->changes[i].at_ns / WEIR_NS_PER_SECOND);
        /* A change may lie behind the end, where a trace is shorter than its scenario. */
        next_ns = next_ns < scenario->duration_ns ? next_ns : scenario->duration_ns;
        uint32_t until = (uint32_t)(next_ns / WEIR_NS_PER_SECOND);
        longest = weir_sim_most(longest, recovery_after(measure, from, until));
    }
    return longest;
}

/* ---- the result ---- */

/* What a tenant asked for. Clients that ask again when they are answered ask for all there is. */
static double asked_by(const struct weir_sim_measure *measure, uint32_t tenant, double possible)
{
    bool closed = measure->demand->tenants[tenant].settings->clients > 0;
    return closed ? possible : measure->tenant_offered[tenant];
}

static double fairness(const struct weir_sim_measure *measure, double possible)
{
    const struct weir_sim_demand *demand = measure->demand;
    double weights[WEIR_SIM_TENANTS_MAX] = {0};
    double asked[WEIR_SIM_TENANTS_MAX] = {0};
    double shares[WEIR_SIM_TENANTS_MAX];
    uint32_t count = 0;
    assert(demand->tenant_count <= WEIR_SIM_TENANTS_MAX);
    for (uint32_t i = 0; i < demand->tenant_count; i++) {
        weights[i] = demand->tenants[i].settings->weight;
        asked[i] = asked_by(measure, i, possible);
    }
    weir_sim_fair_shares(asked, weights, demand->tenant_count, possible, shares);
    for (uint32_t i = 0; i < demand->tenant_count; i++) {
        if (shares[i] > 0) {
            shares[count++] = measure->tenant_tokens[i] / shares[i];
        }
    }
    return weir_sim_jain(shares, count);
}

static double share_of(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

void weir_sim_measure_finish(struct weir_sim_measure *measure)
{
    struct weir_sim_result *result = &measure->result;
    flow(measure);
    double accepted = 0;
    double possible = 0;
    uint32_t from = (uint32_t)(measure->scenario->warmup_ns / WEIR_NS_PER_SECOND);
    for (uint32_t i = from; i < measure->second_count; i++) {
        accepted += measure->seconds[i].accepted;
        possible += measure->seconds[i].possible;
        result->answers += measure->seconds[i].answers;
        result->refused += measure->seconds[i].refused;
        result->failed += measure->seconds[i].failed;
    }
    result->used = share_of(accepted, possible);
    result->refused_share = share_of((double)result->refused, (double)result->answers);
    result->served_share = share_of((double)result->served, (double)result->asked);
    result->sent_per_begun = share_of((double)result->sent, (double)result->begun);
    result->wait_p50_s = weir_sim_waits_quantile(&measure->waits, 0.5);
    result->wait_p99_s = weir_sim_waits_quantile(&measure->waits, 0.99);
    result->first_p50_s = weir_sim_waits_quantile(&measure->firsts, 0.5);
    result->first_p99_s = weir_sim_waits_quantile(&measure->firsts, 0.99);
    result->jain = fairness(measure, possible);
    result->jain_instances = weir_sim_jain(measure->instance_tokens, measure->scenario->instances);
    result->recover_s = longest_recovery(measure);
}

struct weir_sim_group_result weir_sim_measure_group(const struct weir_sim_measure *measure,
                                                    uint32_t group)
{
    const struct weir_sim_tenant_settings *settings = &measure->scenario->tenants[group];
    const struct weir_sim_waits *waits = &measure->group_waits[group];
    struct weir_sim_group_result result = {
        .name = settings->name,
        .count = settings->count,
        .wait_p50_s = weir_sim_waits_quantile(waits, 0.5),
        .wait_p99_s = weir_sim_waits_quantile(waits, 0.99),
        .first_p50_s = weir_sim_waits_quantile(&measure->group_firsts[group], 0.5),
        .first_p99_s = weir_sim_waits_quantile(&measure->group_firsts[group], 0.99),
    };
    for (uint32_t i = 0; i < measure->demand->tenant_count; i++) {
        if (measure->demand->tenants[i].group == group) {
            result.tokens += measure->tenant_tokens[i];
        }
    }
    return result;
}
