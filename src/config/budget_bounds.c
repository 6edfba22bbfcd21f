#include "config/budget_bounds.h"

#include <assert.h>

const struct weir_budget_bound weir_budget_bounds[WEIR_BUDGET_BOUND_COUNT] = {
    {"tokens_per_day", WEIR_BUDGET_DAY, WEIR_BUDGET_TOKENS},
    {"tokens_per_month", WEIR_BUDGET_MONTH, WEIR_BUDGET_TOKENS},
    {"requests_per_day", WEIR_BUDGET_DAY, WEIR_BUDGET_REQUESTS},
    {"requests_per_month", WEIR_BUDGET_MONTH, WEIR_BUDGET_REQUESTS},
};

const char *weir_budget_bound_name(enum weir_budget_period period, enum weir_budget_unit unit)
{
    for (int i = 0; i < WEIR_BUDGET_BOUND_COUNT; i++) {
        if (weir_budget_bounds[i].period == period && weir_budget_bounds[i].unit == unit) {
            return weir_budget_bounds[i].name;
        }
    }
    assert(false);
    return "";
}

uint64_t weir_budget_bound_get(const struct weir_budget_limits *limits,
                               const struct weir_budget_bound *bound)
{
    return limits->most[bound->period].units[bound->unit];
}

struct weir_budget_limits weir_budget_limits_none(void)
{
    struct weir_budget_limits limits;
    for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
        for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
            limits.most[period].units[unit] = WEIR_NEVER;
        }
    }
    return limits;
}

bool weir_budget_limits_any(const struct weir_budget_limits *limits)
{
    for (int i = 0; i < WEIR_BUDGET_BOUND_COUNT; i++) {
        if (weir_budget_bound_get(limits, &weir_budget_bounds[i]) != WEIR_NEVER) {
            return true;
        }
    }
    return false;
}
