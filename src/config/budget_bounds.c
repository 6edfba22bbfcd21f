#include "config/budget_bounds.h"

#include "config/scalars.h"

#include <assert.h>
#include <stdio.h>

const struct weir_budget_bound weir_budget_bounds[WEIR_BUDGET_BOUND_COUNT] = {
    {"tokens_per_day", WEIR_BUDGET_DAY, WEIR_BUDGET_TOKENS},
    {"tokens_per_month", WEIR_BUDGET_MONTH, WEIR_BUDGET_TOKENS},
    {"requests_per_day", WEIR_BUDGET_DAY, WEIR_BUDGET_REQUESTS},
    {"requests_per_month", WEIR_BUDGET_MONTH, WEIR_BUDGET_REQUESTS},
    {"money_per_day", WEIR_BUDGET_DAY, WEIR_BUDGET_MONEY},
    {"money_per_month", WEIR_BUDGET_MONTH, WEIR_BUDGET_MONEY},
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

bool weir_budget_bound_read(const struct weir_budget_bound *bound, struct weir_slice text,
                            uint64_t *most)
{
    uint64_t number;
    bool money = bound->unit == WEIR_BUDGET_MONEY;
    bool good = money ? weir_scalar_money(text, &number) : weir_scalar_number(text, &number);
    if (!good || number > (money ? WEIR_BUDGET_BOUND_MONEY_MAX : WEIR_BUDGET_BOUND_MAX)) {
        return false;
    }
    *most = number;
    return true;
}

const char *weir_budget_bound_expected(const struct weir_budget_bound *bound)
{
    return bound->unit == WEIR_BUDGET_MONEY ? "an amount from 0 to 1000000000 with up to 9 digits "
                                              "behind its point, such as 12.50"
                                            : "a whole number from 0 to 1125899906842624";
}

struct weir_budget_text weir_budget_show(enum weir_budget_unit unit, uint64_t amount)
{
    struct weir_budget_text shown;
    if (unit == WEIR_BUDGET_MONEY) {
        snprintf(shown.text, sizeof shown.text, "%s", weir_scalar_show_money(amount).text);
    } else {
        snprintf(shown.text, sizeof shown.text, "%llu", (unsigned long long)amount);
    }
    return shown;
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
