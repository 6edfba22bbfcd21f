/* budget.h - what one tenant or one API key may spend in a day and in a month.
 *
 * A budget counts tokens, requests and money. What a request will need is reserved when it is
 * admitted, settled by what it really took when its reply is there, and released if it never went.
 * Nothing is estimated here: the caller reserves the most that a request can take, its input and
 * the largest output that it allows. So a budget holds under any concurrency, but for a request
 * that is alone:
 *
 *   B1  While some of a unit is reserved, no more is than is left: spent + reserved <= most.
 *   B2  With none of it reserved a request goes as long as anything is left, however much it needs;
 *       so a large request is never impossible, and the overspend is at most that one request.
 *   B3  A request that is refused by B1 fits once others have settled, or is refused by B2 then.
 *   B4  What was reserved is given back exactly once; with nothing in flight nothing is reserved.
 *   B5  A clock that stands still or steps back never gives anything back: a day that has begun
 *       stays begun, until the clock has come to the next one.
 *
 * Days and months are those of UTC, and end for all at the same moment. A request counts for the
 * day on which it settles. The functions do no I/O and allocate nothing: a budget is a plain struct
 * of the caller's, start it zeroed, that several threads share under a lock of the caller's. */
#ifndef WEIR_BUDGET_H
#define WEIR_BUDGET_H

#include "weir/status.h"

#include <stdbool.h>

enum weir_budget_unit {
    WEIR_BUDGET_TOKENS,
    WEIR_BUDGET_REQUESTS,
    WEIR_BUDGET_MONEY, /* in billionths, so that a token's price is a whole number */
    WEIR_BUDGET_UNIT_COUNT
};

enum weir_budget_period {
    WEIR_BUDGET_DAY,
    WEIR_BUDGET_MONTH,
    WEIR_BUDGET_PERIOD_COUNT
};

/* The most that one request may need of a unit; sums of 2^20 of them stay below 2^64. */
#define WEIR_BUDGET_NEED_MAX (UINT64_C(1) << 43)

/* How many budgets one request may be charged to: a tenant's, its key's, and that of all. */
#define WEIR_BUDGETS_MAX 4

struct weir_budget_amount {
    uint64_t units[WEIR_BUDGET_UNIT_COUNT];
};

/* Which day and month it is, counted from January 1970. */
struct weir_budget_moment {
    uint32_t numbers[WEIR_BUDGET_PERIOD_COUNT];
    uint32_t left_s[WEIR_BUDGET_PERIOD_COUNT]; /* until the next one begins, at least 1 */
};

/* The most that may be spent in each period; WEIR_NEVER: no bound. */
struct weir_budget_limits {
    struct weir_budget_amount most[WEIR_BUDGET_PERIOD_COUNT];
};

struct weir_budget {
    uint32_t numbers[WEIR_BUDGET_PERIOD_COUNT]; /* of the periods in which was spent */
    struct weir_budget_amount spent[WEIR_BUDGET_PERIOD_COUNT];
    struct weir_budget_amount reserved;
    uint32_t in_flight; /* reservations */
};

/* A budget that a request is charged to, and what it may spend at present. */
struct weir_budget_charge {
    struct weir_budget *budget;
    const struct weir_budget_limits *limits;
};

/* What keeps a request from going. */
struct weir_budget_refusal {
    uint32_t index; /* of the budget among those that were asked */
    enum weir_budget_period period;
    enum weir_budget_unit unit;
    uint64_t most;
    uint64_t spent;
    uint32_t retry_s; /* until the period ends */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Limits without any bound. */
WEIR_API struct weir_budget_limits weir_budget_unlimited(void);

/* The day and month of a moment in seconds since 1970; one before that counts as 1970. */
WEIR_API struct weir_budget_moment weir_budget_moment_of(int64_t wall_s);

/* Reserves what a request needs in all of these budgets, or in none. A unit of which it needs
 * nothing is not asked for. WEIR_WOULD_WAIT when it may go once others have settled,
 * WEIR_BUDGET_SPENT when it cannot go in this period; `refusal`, which may be null, says by which
 * budget: by the one that is spent for longest. WEIR_BAD_COST for more than WEIR_BUDGET_NEED_MAX of
 * a unit; then no refusal is given. Requires 1 .. WEIR_BUDGETS_MAX budgets, each only once. */
WEIR_API WEIR_MUST_CHECK enum weir_status
weir_budget_reserve(const struct weir_budget_charge *charges, uint32_t count,
                    const struct weir_budget_amount *need, const struct weir_budget_moment *now,
                    struct weir_budget_refusal *refusal);

/* Replaces what was reserved, in the same budgets, by what was spent: 0 of everything releases it.
 * More than was reserved may have been spent; it counts as well. */
WEIR_API void weir_budget_settle(const struct weir_budget_charge *charges, uint32_t count,
                                 const struct weir_budget_amount *reserved,
                                 const struct weir_budget_amount *spent,
                                 const struct weir_budget_moment *now);

/* Adds what was spent on that day and in its month, as a record of before a restart has it. What
 * lies in another day or month than the budget's own is not counted there. */
WEIR_API void weir_budget_restore(struct weir_budget *budget,
                                  const struct weir_budget_amount *spent,
                                  const struct weir_budget_moment *when,
                                  const struct weir_budget_moment *now);

/* What may still be spent in a period, reserved or not: 0 if none, WEIR_NEVER without a bound. */
WEIR_API uint64_t weir_budget_left(const struct weir_budget_charge *charge,
                                   enum weir_budget_period period, enum weir_budget_unit unit,
                                   const struct weir_budget_moment *now);

#ifdef __cplusplus
}
#endif
#endif
