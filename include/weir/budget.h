/* budget.h - what each tenant may spend across all keys, such as a day's tokens.
 *
 * A budget is asked before the line and refuses at once; nobody ever waits for it. It is one
 * bucket per tenant, made at the first use and forgotten once it is full again. A program with
 * threads brings a lock. */
#ifndef WEIR_BUDGET_H
#define WEIR_BUDGET_H

#include "weir/settings.h"

struct weir_budget_options {
    const struct weir_allocator *allocator; /* null: malloc and free */
    uint64_t seed[2];                       /* random, as for a gate */
    struct weir_rate rate; /* of a tenant without one of its own; tokens 0: no budget */
    uint32_t tenants_max;  /* those beyond share `_other`; 0: WEIR_TENANTS_DEFAULT */
};

struct weir_budget;

#ifdef __cplusplus
extern "C" {
#endif

WEIR_API WEIR_MUST_CHECK enum weir_status
weir_budget_create(const struct weir_budget_options *options, struct weir_budget **budget);

WEIR_API void weir_budget_destroy(struct weir_budget *budget);

/* Gives one tenant a rate of its own; what it has spent stays spent. Tokens of 0 take the tenant's
 * budget away, so that it may spend what it likes; a null rate lets it follow the others again.
 * WEIR_TOO_MANY_TENANTS when `tenants_max` are kept and none could be forgotten. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_budget_set(struct weir_budget *budget,
                                                          struct weir_slice tenant,
                                                          const struct weir_rate *rate,
                                                          uint64_t now_ns);

/* Takes `cost`, 1 .. WEIR_COST_MAX, from the tenant's budget. WEIR_BUDGET_SPENT when it is not
 * there; then nothing is taken and `*retry_ns` says how long until it will be. A cost above the
 * burst needs a full one. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_budget_reserve(struct weir_budget *budget,
                                                              struct weir_slice tenant,
                                                              uint32_t cost, uint64_t now_ns,
                                                              uint64_t *retry_ns);

/* Replaces what was reserved by what it really cost, 0 if it never went. On WEIR_BAD_NAME or
 * WEIR_BAD_COST nothing changes; WEIR_NO_MEMORY can only come when more was spent than reserved. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_budget_settle(struct weir_budget *budget,
                                                             struct weir_slice tenant,
                                                             uint32_t reserved, uint32_t actual,
                                                             uint64_t now_ns);

/* What the tenant may spend now, rounded down; below 0 it is in debt. INT64_MAX without a budget.
 */
WEIR_API int64_t weir_budget_left(const struct weir_budget *budget, struct weir_slice tenant,
                                  uint64_t now_ns);

#ifdef __cplusplus
}
#endif
#endif
