/* budget.c - reserve, settle and release against a day's and a month's budget.
 *
 * Every call that may change a budget first lets it pass into the present period; a number that is
 * smaller than one that it has seen counts as that one (B5). What is reserved belongs to no period:
 * it counts against whichever is the present one, because that is where it will be settled. Sums
 * saturate, so that a restored record of any size is harmless. The callers bring the lock. */
#include "weir/budget.h"

#include <assert.h>

#define SECONDS_A_DAY 86400

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

struct weir_budget_limits weir_budget_unlimited(void)
{
    struct weir_budget_limits limits;
    for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
        for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
            limits.most[period].units[unit] = WEIR_NEVER;
        }
    }
    return limits;
}

/* ---- the calendar ---- */

/* A day of the Gregorian calendar, in years that begin in March, so that the day that not every
 * year has is the last one. */
struct day_of_year {
    uint64_t year;
    uint32_t month; /* from March, which is 0 */
    uint32_t day;   /* of the month, from 0 */
    uint32_t month_days;
};

static bool is_leap(uint64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static struct day_of_year day_of_year(uint64_t day)
{
    uint64_t since = day + 719468; /* from 1 March of the year 0 */
    uint64_t era = since / 146097; /* 400 years, which are always as long */
    uint64_t in_era = since % 146097;
    uint64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    uint32_t in_year = (uint32_t)(in_era - (365 * year + year / 4 - year / 100));
    uint32_t month = (5 * in_year + 2) / 153;
    struct day_of_year found = {.year = era * 400 + year, .month = month};
    found.day = in_year - (153 * month + 2) / 5;
    found.month_days = (153 * (month + 1) + 2) / 5 - (153 * month + 2) / 5;
    if (month == 11) {
        found.month_days = is_leap(found.year + 1) ? 29 : 28;
    }
    return found;
}

struct weir_budget_moment weir_budget_moment_of(int64_t wall_s)
{
    uint64_t seconds = wall_s < 0 ? 0 : (uint64_t)wall_s;
    uint64_t most = (uint64_t)UINT32_MAX * SECONDS_A_DAY;
    seconds = seconds < most ? seconds : most;
    uint32_t in_day = (uint32_t)(seconds % SECONDS_A_DAY);
    struct day_of_year date = day_of_year(seconds / SECONDS_A_DAY);
    uint32_t left_s = SECONDS_A_DAY - in_day;
    /* March 1970 is the third month. */
    uint64_t month = (date.year - 1970) * 12 + date.month + 2;
    return (struct weir_budget_moment){
        .numbers = {(uint32_t)(seconds / SECONDS_A_DAY), (uint32_t)month},
        .left_s = {left_s, left_s + (date.month_days - date.day - 1) * SECONDS_A_DAY}};
}

/* ---- the present period ---- */

/* What was spent in the present period, which may be later than that in which was spent last. */
static uint64_t spent_now(const struct weir_budget *budget, int period, int unit,
                          const struct weir_budget_moment *now)
{
    bool over = now->numbers[period] > budget->numbers[period];
    return over ? 0 : budget->spent[period].units[unit];
}

static void pass(struct weir_budget *budget, const struct weir_budget_moment *now)
{
    for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
        if (now->numbers[period] > budget->numbers[period]) {
            budget->numbers[period] = now->numbers[period];
            budget->spent[period] = (struct weir_budget_amount){0};
        }
    }
}

/* ---- the calls ---- */

/* What one bound says to a need of more than 0. */
static enum weir_status ask_bound(const struct weir_budget *budget, uint64_t most, uint64_t spent,
                                  int unit, uint64_t need)
{
    if (most == WEIR_NEVER) {
        return WEIR_OK;
    }
    if (spent >= most) {
        return WEIR_BUDGET_SPENT;
    }
    if (budget->reserved.units[unit] == 0) {
        return WEIR_OK; /* B2 */
    }
    return add(add(spent, budget->reserved.units[unit]), need) <= most ? WEIR_OK : WEIR_WOULD_WAIT;
}

/* Puts down what a bound says, if it is more than what has been said: spent is more than having to
 * wait, and of two that are spent the one that ends later is. */
static void say(enum weir_status *said, struct weir_budget_refusal *refusal,
                enum weir_status status, const struct weir_budget_refusal *why)
{
    bool first = *said == WEIR_OK && status != WEIR_OK;
    bool worse = *said == WEIR_WOULD_WAIT && status == WEIR_BUDGET_SPENT;
    bool later = *said == WEIR_BUDGET_SPENT && status == WEIR_BUDGET_SPENT &&
                 why->retry_s > refusal->retry_s;
    if (first || worse || later) {
        *said = status;
        *refusal = *why;
    }
}

static enum weir_status ask(const struct weir_budget_charge *charges, uint32_t count,
                            const struct weir_budget_amount *need,
                            const struct weir_budget_moment *now,
                            struct weir_budget_refusal *refusal)
{
    enum weir_status said = WEIR_OK;
    uint32_t bounds = count * WEIR_BUDGET_PERIOD_COUNT * WEIR_BUDGET_UNIT_COUNT;
    for (uint32_t i = 0; i < bounds; i++) {
        int unit = (int)(i % WEIR_BUDGET_UNIT_COUNT);
        int period = (int)(i / WEIR_BUDGET_UNIT_COUNT % WEIR_BUDGET_PERIOD_COUNT);
        uint32_t index = i / (WEIR_BUDGET_UNIT_COUNT * WEIR_BUDGET_PERIOD_COUNT);
        const struct weir_budget_charge *charge = &charges[index];
        struct weir_budget_refusal why = {.index = index,
                                          .period = (enum weir_budget_period)period,
                                          .unit = (enum weir_budget_unit)unit,
                                          .most = charge->limits->most[period].units[unit],
                                          .spent = spent_now(charge->budget, period, unit, now),
                                          .retry_s = now->left_s[period]};
        if (need->units[unit] > 0) {
            say(&said, refusal,
                ask_bound(charge->budget, why.most, why.spent, unit, need->units[unit]), &why);
        }
    }
    return said;
}

enum weir_status weir_budget_reserve(const struct weir_budget_charge *charges, uint32_t count,
                                     const struct weir_budget_amount *need,
                                     const struct weir_budget_moment *now,
                                     struct weir_budget_refusal *refusal)
{
    struct weir_budget_refusal unread;
    assert(count >= 1);
    assert(count <= WEIR_BUDGETS_MAX);
    for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
        if (need->units[unit] > WEIR_BUDGET_NEED_MAX) {
            return WEIR_BAD_COST;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        pass(charges[i].budget, now);
    }
    enum weir_status status = ask(charges, count, need, now, refusal == NULL ? &unread : refusal);
    for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
        struct weir_budget *budget = charges[i].budget;
        budget->in_flight++;
        for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
            budget->reserved.units[unit] = add(budget->reserved.units[unit], need->units[unit]);
        }
    }
    return status;
}

static void spend(struct weir_budget *budget, int period, const struct weir_budget_amount *spent)
{
    for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
        uint64_t *sum = &budget->spent[period].units[unit];
        *sum = add(*sum, spent->units[unit]);
    }
}

void weir_budget_settle(const struct weir_budget_charge *charges, uint32_t count,
                        const struct weir_budget_amount *reserved,
                        const struct weir_budget_amount *spent,
                        const struct weir_budget_moment *now)
{
    for (uint32_t i = 0; i < count; i++) {
        struct weir_budget *budget = charges[i].budget;
        assert(budget->in_flight > 0);
        pass(budget, now);
        budget->in_flight--;
        for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
            assert(budget->reserved.units[unit] >= reserved->units[unit]);
            budget->reserved.units[unit] -= reserved->units[unit];
            assert(budget->in_flight > 0 || budget->reserved.units[unit] == 0); /* B4 */
        }
        for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
            spend(budget, period, spent);
        }
    }
}

void weir_budget_restore(struct weir_budget *budget, const struct weir_budget_amount *spent,
                         const struct weir_budget_moment *when,
                         const struct weir_budget_moment *now)
{
    pass(budget, now);
    for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
        if (when->numbers[period] == budget->numbers[period]) {
            spend(budget, period, spent);
        }
    }
}

uint64_t weir_budget_left(const struct weir_budget_charge *charge, enum weir_budget_period period,
                          enum weir_budget_unit unit, const struct weir_budget_moment *now)
{
    uint64_t most = charge->limits->most[period].units[unit];
    uint64_t spent = spent_now(charge->budget, (int)period, (int)unit, now);
    return most == WEIR_NEVER ? WEIR_NEVER : less(most, spent);
}
