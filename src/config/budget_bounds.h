/* budget_bounds.h - the bounds of a budget by name, as the config, API keys, metrics and refusals
 * call them. */
#ifndef WEIR_CONFIG_BUDGET_BOUNDS_H
#define WEIR_CONFIG_BUDGET_BOUNDS_H

#include "weir/budget.h"

/* The most that a bound may say: of tokens and requests, and of money, which is a billion in
 * billionths. With 2^20 requests that are under way, each sum stays below 2^64. */
#define WEIR_BUDGET_BOUND_MAX       (UINT64_C(1) << 50)
#define WEIR_BUDGET_BOUND_MONEY_MAX (UINT64_C(1000000000) * 1000000000)

struct weir_budget_bound {
    const char *name; /* tokens_per_day, ... */
    enum weir_budget_period period;
    enum weir_budget_unit unit;
};

#define WEIR_BUDGET_BOUND_COUNT 6

extern const struct weir_budget_bound weir_budget_bounds[WEIR_BUDGET_BOUND_COUNT];

/* The name of the bound for that period and unit. */
const char *weir_budget_bound_name(enum weir_budget_period period, enum weir_budget_unit unit);

/* What the limits say of a bound; WEIR_NEVER: nothing. */
uint64_t weir_budget_bound_get(const struct weir_budget_limits *limits,
                               const struct weir_budget_bound *bound);

/* Reads the value of a bound: a whole number, or money such as 12.50. False if it is none that it
 * may be. */
bool weir_budget_bound_read(const struct weir_budget_bound *bound, struct weir_slice text,
                            uint64_t *most);

/* What it may be, for error messages. */
const char *weir_budget_bound_expected(const struct weir_budget_bound *bound);

/* An amount of a unit as its text: money with its point. */
struct weir_budget_text {
    char text[32];
};
struct weir_budget_text weir_budget_show(enum weir_budget_unit unit, uint64_t amount);

/* Limits without any bound. */
struct weir_budget_limits weir_budget_limits_none(void);

/* Whether any bound is set. */
bool weir_budget_limits_any(const struct weir_budget_limits *limits);

#endif
