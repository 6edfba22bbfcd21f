/* Budgets under random requests: reserve, settle and release in any order, against up to three
 * budgets at once, while days pass and the clock steps back. A list of all reservations and of all
 * that was spent is kept beside, and every call is judged by it from outside:
 *
 *   - no bound is exceeded but by one request and by what was spent beyond what was reserved (B1,
 * B2);
 *   - a refusal is right: it says WAIT only while something is reserved, SPENT only when nothing is
 *     left in the period (B3);
 *   - what is reserved is what is in flight (B4).
 *
 * A failure prints its seed; WEIR_SEED and WEIR_STEPS replay it. */
#include "random.h"
#include "weir/budget.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#ifndef STEPS_DEFAULT
#define STEPS_DEFAULT 3000000
#endif
#define SEED_DEFAULT  UINT64_C(20261119)
#define BUDGETS       3
#define IN_FLIGHT_MAX 24
#define DAY_S         INT64_C(86400)
#define START_S       INT64_C(1772193600)

struct flight {
    uint32_t budgets; /* bit set */
    struct weir_budget_amount need;
};

/* The naive model of one budget. */
struct ledger {
    uint32_t numbers[WEIR_BUDGET_PERIOD_COUNT];
    uint64_t spent[WEIR_BUDGET_PERIOD_COUNT][WEIR_BUDGET_UNIT_COUNT];
};

struct run {
    uint64_t seed;
    struct random random;
    struct weir_budget budgets[BUDGETS];
    struct weir_budget_limits limits[BUDGETS];
    struct ledger ledgers[BUDGETS];
    struct flight flights[IN_FLIGHT_MAX];
    uint32_t flight_count;
    int64_t wall_s;
    uint64_t counts[3]; /* of what reserve said: WEIR_OK, WOULD_WAIT, BUDGET_SPENT */
};

#define CHECK(run, condition)                                                        \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fail_msg("%s; replay with WEIR_SEED=%" PRIu64, #condition, (run)->seed); \
        }                                                                            \
    } while (0)

static uint64_t reserved_of(const struct run *run, uint32_t budget, int unit)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < run->flight_count; i++) {
        sum += (run->flights[i].budgets >> budget & 1) * run->flights[i].need.units[unit];
    }
    return sum;
}

/* A budget sees the time when it is used. */
static void let_time_pass(struct ledger *ledger, const struct weir_budget_moment *now)
{
    for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
        if (now->numbers[period] > ledger->numbers[period]) {
            ledger->numbers[period] = now->numbers[period];
            for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
                ledger->spent[period][unit] = 0;
            }
        }
    }
}

/* What one bound should say, in the words of the header. */
static enum weir_status judge_bound(const struct run *run, uint32_t budget, int period, int unit,
                                    uint64_t need)
{
    uint64_t most = run->limits[budget].most[period].units[unit];
    uint64_t spent = run->ledgers[budget].spent[period][unit];
    uint64_t reserved = reserved_of(run, budget, unit);
    if (need == 0 || most == WEIR_NEVER) {
        return WEIR_OK;
    }
    if (spent >= most) {
        return WEIR_BUDGET_SPENT;
    }
    return reserved == 0 || spent + reserved + need <= most ? WEIR_OK : WEIR_WOULD_WAIT;
}

static enum weir_status judge(const struct run *run, const struct flight *flight)
{
    enum weir_status worst = WEIR_OK;
    for (uint32_t i = 0; i < BUDGETS * WEIR_BUDGET_PERIOD_COUNT * WEIR_BUDGET_UNIT_COUNT; i++) {
        uint32_t budget = i % BUDGETS;
        int period = (int)(i / BUDGETS % WEIR_BUDGET_PERIOD_COUNT);
        int unit = (int)(i / BUDGETS / WEIR_BUDGET_PERIOD_COUNT);
        if ((flight->budgets >> budget & 1) != 0) {
            enum weir_status said =
                judge_bound(run, budget, period, unit, flight->need.units[unit]);
            worst = said == WEIR_OK || worst == WEIR_BUDGET_SPENT ? worst : said;
        }
    }
    return worst;
}

static uint32_t collect(struct run *run, uint32_t set, const struct weir_budget_moment *now,
                        struct weir_budget_charge *charges)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < BUDGETS; i++) {
        if ((set >> i & 1) != 0) {
            charges[count++] = (struct weir_budget_charge){&run->budgets[i], &run->limits[i]};
            let_time_pass(&run->ledgers[i], now);
        }
    }
    return count;
}

static void ask(struct run *run, const struct weir_budget_moment *now)
{
    struct weir_budget_charge charges[BUDGETS];
    struct weir_budget_refusal refusal = {0};
    struct flight flight = {.budgets = 1 + random_below(&run->random, (1u << BUDGETS) - 1)};
    for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
        uint64_t most = random_chance(&run->random, 5) ? 2000 : 60;
        flight.need.units[unit] = random_between(&run->random, 0, most);
    }
    uint32_t count = collect(run, flight.budgets, now, charges);
    enum weir_status expected = judge(run, &flight);
    enum weir_status said = weir_budget_reserve(charges, count, &flight.need, now, &refusal);
    CHECK(run, said == expected);
    run->counts[said == WEIR_OK ? 0 : said == WEIR_WOULD_WAIT ? 1 : 2]++;
    if (said == WEIR_OK) {
        run->flights[run->flight_count++] = flight;
        return;
    }
    CHECK(run, refusal.index < count);
    CHECK(run, flight.need.units[refusal.unit] > 0);
    CHECK(run,
          said == WEIR_BUDGET_SPENT ? refusal.spent >= refusal.most : refusal.spent < refusal.most);
    CHECK(run, refusal.retry_s == now->left_s[refusal.period]);
}

static void end_one(struct run *run, const struct weir_budget_moment *now)
{
    struct weir_budget_charge charges[BUDGETS];
    uint32_t at = random_below(&run->random, run->flight_count);
    struct flight flight = run->flights[at];
    struct weir_budget_amount spent = {{0}};
    bool released = random_chance(&run->random, 20);
    for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT && !released; unit++) {
        uint64_t most = flight.need.units[unit] + (random_chance(&run->random, 3) ? 50 : 0);
        spent.units[unit] = random_between(&run->random, 0, most);
    }
    weir_budget_settle(charges, collect(run, flight.budgets, now, charges), &flight.need, &spent,
                       now);
    run->flights[at] = run->flights[--run->flight_count];
    for (uint32_t i = 0; i < BUDGETS * WEIR_BUDGET_PERIOD_COUNT * WEIR_BUDGET_UNIT_COUNT; i++) {
        uint32_t budget = i % BUDGETS;
        int period = (int)(i / BUDGETS % WEIR_BUDGET_PERIOD_COUNT);
        int unit = (int)(i / BUDGETS / WEIR_BUDGET_PERIOD_COUNT);
        uint64_t charged = (flight.budgets >> budget & 1) * spent.units[unit];
        run->ledgers[budget].spent[period][unit] += charged;
    }
}

static void compare(struct run *run, const struct weir_budget_moment *now)
{
    for (uint32_t i = 0; i < BUDGETS * WEIR_BUDGET_PERIOD_COUNT * WEIR_BUDGET_UNIT_COUNT; i++) {
        uint32_t at = i % BUDGETS;
        int period = (int)(i / BUDGETS % WEIR_BUDGET_PERIOD_COUNT);
        int unit = (int)(i / BUDGETS / WEIR_BUDGET_PERIOD_COUNT);
        struct weir_budget_charge charge = {&run->budgets[at], &run->limits[at]};
        uint64_t most = run->limits[at].most[period].units[unit];
        bool over = now->numbers[period] > run->ledgers[at].numbers[period];
        uint64_t spent = over ? 0 : run->ledgers[at].spent[period][unit];
        uint64_t left = most == WEIR_NEVER ? WEIR_NEVER : most > spent ? most - spent : 0;
        CHECK(run, weir_budget_left(&charge, (enum weir_budget_period)period,
                                    (enum weir_budget_unit)unit, now) == left);
        CHECK(run, run->budgets[at].reserved.units[unit] == reserved_of(run, at, unit));
    }
}

static void step(struct run *run)
{
    uint32_t what = random_below(&run->random, 1000);
    if (what < 3) {
        run->wall_s += (int64_t)random_below(&run->random, 2 * DAY_S);
    } else if (what < 5) {
        run->wall_s -= (int64_t)random_below(&run->random, 3 * DAY_S);
    } else {
        run->wall_s += random_below(&run->random, 60);
    }
    struct weir_budget_moment now = weir_budget_moment_of(run->wall_s);
    bool full = run->flight_count == IN_FLIGHT_MAX;
    if (!full && (run->flight_count == 0 || random_chance(&run->random, 55))) {
        ask(run, &now);
    } else {
        end_one(run, &now);
    }
    compare(run, &now);
}

static void choose_limits(struct run *run)
{
    for (uint32_t i = 0; i < BUDGETS; i++) {
        run->limits[i] = weir_budget_unlimited();
        for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
            uint64_t day = random_between(&run->random, 0, 3000);
            run->limits[i].most[WEIR_BUDGET_DAY].units[unit] = i == 0 ? WEIR_NEVER : day;
            run->limits[i].most[WEIR_BUDGET_MONTH].units[unit] =
                random_chance(&run->random, 30) ? WEIR_NEVER : day * 10;
        }
    }
}

static uint64_t environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void budgets_hold_under_random_requests(void **state)
{
    (void)state;
    static struct run run;
    uint64_t steps = environment("WEIR_STEPS", STEPS_DEFAULT);
    uint64_t first = environment("WEIR_SEED", SEED_DEFAULT);
    uint64_t counts[3] = {0};
    for (uint64_t i = 0; i * 2000 < steps; i++) {
        run = (struct run){.seed = first + i, .random = {first + i}, .wall_s = START_S};
        choose_limits(&run);
        for (int j = 0; j < 2000; j++) {
            step(&run);
        }
        struct weir_budget_moment now = weir_budget_moment_of(run.wall_s);
        while (run.flight_count > 0) {
            end_one(&run, &now);
        }
        compare(&run, &now);
        for (int j = 0; j < 3; j++) {
            counts[j] += run.counts[j];
        }
    }
    for (int j = 0; j < 3; j++) {
        assert_true(counts[j] > steps / 100); /* each answer was really given */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_hold_under_random_requests),
    };
    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
