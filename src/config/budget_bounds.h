/* budget_bounds.h - the bounds of a budget by name, as the config, API keys, metrics and refusals
 * call them. */
#ifndef WEIR_CONFIG_BUDGET_BOUNDS_H
#define WEIR_CONFIG_BUDGET_BOUNDS_H

#include "weir/budget.h"

/* The most that a bound may say; 2^13 of them stay below 2^63. */
#define WEIR_BUDGET_BOUND_MAX (UINT64_C(1) << 50)

struct weir_budget_bound {
    const char *name; /* tokens_per_day, ... */
    enum weir_budget_period period;
    enum weir_budget_unit unit;
};

#define WEIR_BUDGET_BOUND_COUNT 4

extern const struct weir_budget_bound weir_budget_bounds[WEIR_BUDGET_BOUND_COUNT];

/* The name of the bound for that period and unit. */
const char *weir_budget_bound_name(enum weir_budget_period period, enum weir_budget_unit unit);

/* What the limits say of a bound; WEIR_NEVER: nothing. */
uint64_t weir_budget_bound_get(const struct weir_budget_limits *limits,
                               const struct weir_budget_bound *bound);

/* Limits without any bound. */
struct weir_budget_limits weir_budget_limits_none(void);

/* Whether any bound is set. */
bool weir_budget_limits_any(const struct weir_budget_limits *limits);

#endif
