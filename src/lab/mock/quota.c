/* One bucket or count for each measure, in doubles, refilled when it is looked at. A request is
 * priced in all measures first and taken from all or none. The caller passes the time. */
#include "lab/mock/quota.h"

#include <assert.h>

/* Levels are sums of many roundings. */
#define NOTHING 1e-6

/* Longer than any client waits: the answer where a rate is too small for a sum. */
#define WAIT_MAX_NS 1e18

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* ---- levels ---- */

static void shape(const struct weir_mock_quota_rules *rules, enum weir_mock_measure of,
                  struct weir_mock_level *level)
{
    struct weir_mock_limit limit = rules->limits[of];
    assert(limit.tokens <= WEIR_MOCK_TOKENS_MAX);
    assert(limit.tokens == 0 || limit.period_ns >= 1);
    if (limit.tokens == 0) {
        return;
    }
    bool by_period = rules->burst_ns == 0 || of == WEIR_MEASURE_QUOTA;
    level->rate_per_ns = (double)limit.tokens / (double)limit.period_ns;
    level->capacity =
        by_period ? (double)limit.tokens : level->rate_per_ns * (double)rules->burst_ns;
    if (level->capacity < 1) {
        level->capacity = 1; /* or nothing would ever be let through */
    }
}

static uint64_t period_of(const struct weir_mock_quota *quota, uint64_t at_ns)
{
    return (at_ns - quota->start_ns) / quota->rules.limits[WEIR_MEASURE_QUOTA].period_ns;
}

/* Time that stands still or steps back brings nothing. */
static struct weir_mock_level *refill(struct weir_mock_quota *quota, enum weir_mock_measure of,
                                      uint64_t now_ns)
{
    struct weir_mock_level *level = &quota->levels[of];
    if (now_ns <= level->at_ns) {
        return level;
    }
    if (of != WEIR_MEASURE_QUOTA) {
        double more = (double)(now_ns - level->at_ns) * level->rate_per_ns;
        level->tokens = least(level->capacity, level->tokens + more);
    } else if (period_of(quota, now_ns) != period_of(quota, level->at_ns)) {
        level->tokens = level->capacity;
    }
    level->at_ns = now_ns;
    return level;
}

void weir_mock_quota_init(struct weir_mock_quota *quota, const struct weir_mock_quota_rules *rules,
                          uint64_t now_ns)
{
    *quota = (struct weir_mock_quota){.start_ns = now_ns};
    weir_mock_quota_change(quota, rules, now_ns);
}

void weir_mock_quota_change(struct weir_mock_quota *quota,
                            const struct weir_mock_quota_rules *rules, uint64_t now_ns)
{
    for (enum weir_mock_measure of = 0; of < WEIR_MEASURES; of++) {
        struct weir_mock_level *level = &quota->levels[of];
        bool was_limited = weir_mock_quota_has(quota, of);
        if (was_limited) {
            refill(quota, of, now_ns);
        }
        shape(rules, of, level);
        level->tokens = was_limited ? least(level->tokens, level->capacity) : level->capacity;
        level->at_ns = now_ns > level->at_ns ? now_ns : level->at_ns;
    }
    quota->rules = *rules;
}

double weir_mock_quota_level(struct weir_mock_quota *quota, enum weir_mock_measure of,
                             uint64_t now_ns)
{
    assert(weir_mock_quota_has(quota, of));
    return refill(quota, of, now_ns)->tokens;
}

/* ---- prices ---- */

static uint64_t price(enum weir_mock_measure of, uint64_t input, uint64_t output)
{
    switch (of) {
    case WEIR_MEASURE_REQUESTS:
        return 1;
    case WEIR_MEASURE_INPUT:
        return input;
    case WEIR_MEASURE_OUTPUT:
        return output;
    default:
        return input + output;
    }
}

static uint64_t price_at_first(const struct weir_mock_quota *quota, enum weir_mock_measure of,
                               const struct weir_mock_usage *usage)
{
    switch (quota->rules.charge) {
    case WEIR_CHARGE_MAX:
    case WEIR_CHARGE_MAX_KEPT:
        return price(of, usage->input, usage->output_max);
    case WEIR_CHARGE_END:
        return of == WEIR_MEASURE_REQUESTS ? 1 : 0;
    default:
        return price(of, usage->input, usage->output);
    }
}

/* How long until the bucket covers what is asked; 0 if it does. One that is charged at the end
 * needs something to be there all the same. */
static uint64_t wait_for(struct weir_mock_quota *quota, enum weir_mock_measure of, uint64_t asked,
                         uint64_t now_ns)
{
    const struct weir_mock_level *level = refill(quota, of, now_ns);
    double needed = least(asked == 0 ? 1 : (double)asked, level->capacity);
    double missing = needed - level->tokens;
    if (missing <= NOTHING) {
        return 0;
    }
    if (of == WEIR_MEASURE_QUOTA) {
        uint64_t period_ns = quota->rules.limits[of].period_ns;
        return period_ns - (now_ns - quota->start_ns) % period_ns;
    }
    return (uint64_t)least(missing / level->rate_per_ns, WAIT_MAX_NS) + 1;
}

/* ---- requests ---- */

bool weir_mock_quota_take(struct weir_mock_quota *quota, const struct weir_mock_usage *usage,
                          uint64_t now_ns, struct weir_mock_bill *bill, struct weir_mock_lack *lack)
{
    *bill = (struct weir_mock_bill){.kept = quota->rules.charge == WEIR_CHARGE_MAX_KEPT};
    *lack = (struct weir_mock_lack){0};
    for (enum weir_mock_measure of = 0; of < WEIR_MEASURES; of++) {
        uint64_t asked = price_at_first(quota, of, usage);
        uint64_t wait_ns = weir_mock_quota_has(quota, of) ? wait_for(quota, of, asked, now_ns) : 0;
        bill->charged[of] = asked;
        if (wait_ns > lack->wait_ns) {
            *lack = (struct weir_mock_lack){of, wait_ns, asked};
        }
    }
    if (lack->wait_ns > 0) {
        *bill = (struct weir_mock_bill){0};
        return false;
    }
    for (enum weir_mock_measure of = 0; of < WEIR_MEASURES; of++) {
        quota->levels[of].tokens -= (double)bill->charged[of];
    }
    return true;
}

/* The bill becomes what was really taken, and the bucket follows. One without a limit has nothing
 * that could follow, and must not have a debt when it gets one. */
static void correct(struct weir_mock_quota *quota, enum weir_mock_measure of,
                    struct weir_mock_bill *bill, uint64_t took, uint64_t now_ns)
{
    if (weir_mock_quota_has(quota, of)) {
        struct weir_mock_level *level = refill(quota, of, now_ns);
        level->tokens += (double)bill->charged[of] - (double)took;
        level->tokens = least(level->tokens, level->capacity);
    }
    bill->charged[of] = took;
}

void weir_mock_quota_settle(struct weir_mock_quota *quota, struct weir_mock_bill *bill,
                            const struct weir_mock_usage *usage, uint64_t now_ns)
{
    for (enum weir_mock_measure of = 0; of < WEIR_MEASURES; of++) {
        uint64_t took = price(of, usage->input, usage->output);
        if (!bill->kept || took > bill->charged[of]) {
            correct(quota, of, bill, took, now_ns);
        }
    }
}

void weir_mock_quota_refund(struct weir_mock_quota *quota, struct weir_mock_bill *bill,
                            uint64_t now_ns)
{
    for (enum weir_mock_measure of = 0; of < WEIR_MEASURES; of++) {
        correct(quota, of, bill, 0, now_ns);
    }
}

struct weir_mock_stated weir_mock_quota_state(struct weir_mock_quota *quota,
                                              enum weir_mock_measure of, uint64_t now_ns)
{
    assert(weir_mock_quota_has(quota, of));
    const struct weir_mock_level *level = refill(quota, of, now_ns);
    struct weir_mock_stated stated = {.limit = (uint64_t)(level->capacity + NOTHING)};
    stated.remaining = level->tokens > 0 ? (uint64_t)(level->tokens + NOTHING) : 0;
    if (of == WEIR_MEASURE_QUOTA) {
        uint64_t period_ns = quota->rules.limits[of].period_ns;
        stated.reset_ns = period_ns - (now_ns - quota->start_ns) % period_ns;
    } else {
        double missing = level->capacity - level->tokens;
        stated.reset_ns = (uint64_t)least(missing / level->rate_per_ns, WAIT_MAX_NS);
    }
    return stated;
}
