/* Random sequences of every call on several keys of a gate, each against a model of its own.
 *
 * Many short episodes, because most mistakes show within a few dozen steps of some odd settings.
 * WEIR_STEPS says how many steps all of them make together, WEIR_SEED where they begin. */
#include "calls.h"
#include "compare.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#ifndef STEPS_DEFAULT
#define STEPS_DEFAULT 2000000
#endif
#define SEED_DEFAULT UINT64_C(20240607)
#define SECOND       WEIR_NS_PER_SECOND

/* Large, so it does not live on the stack. */
static struct run run;

/* Who asks most in this episode, so that there is somebody to be displaced. */
static uint32_t busiest;

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

static bool one_in(uint32_t count)
{
    return random_below(&run.random, count) == 0;
}

/* ---- time */

/* Small steps, large ones, to the moment that the key announced or just before it, none at all,
 * and backwards. */
static void pass_time(const struct pair *pair)
{
    uint64_t far_ns = run.style.huge ? 86400 * SECOND : 100 * SECOND;
    uint64_t wake_ns = pair->sides[LOUD].news.wake_ns;
    uint32_t way = random_below(&run.random, 100);
    bool announced = wake_ns < run.now_ns + far_ns && wake_ns > run.now_ns;
    if (way < 25) {
        run.now_ns += random_between(&run.random, 1, SECOND / 20);
    } else if (way < 35) {
        run.now_ns += random_between(&run.random, 1, 2 * SECOND);
    } else if (way < 36) {
        run.now_ns += random_between(&run.random, 1, far_ns);
    } else if (way < 45 && announced) {
        run.now_ns = wake_ns;
    } else if (way < 48 && announced) {
        run.now_ns = wake_ns - 1;
    } else if (way < 51) {
        run.now_ns -= random_between(&run.random, 1, SECOND);
        run.coverage.back_in_time++;
    }
}

/* ---- which ticket */

#define IDLE     (1u << WEIR_TICKET_IDLE)
#define WAITING  (1u << WEIR_TICKET_WAITING)
#define ADMITTED (1u << WEIR_TICKET_ADMITTED)
#define ENDED    (1u << WEIR_TICKET_ENDED)

/* A random ticket in one of the states, or MODEL_NONE. */
static int pick_ticket(const struct pair *pair, uint32_t states)
{
    int count = pair->model.ticket_count;
    int start = (int)random_below(&run.random, (uint32_t)count);
    for (int i = 0; i < count; i++) {
        int index = (start + i) % count;
        if ((states >> pair->sides[LOUD].tickets[index].state & 1u) != 0) {
            return index;
        }
    }
    return MODEL_NONE;
}

/* ---- enter */

static uint64_t draw_deadline(void)
{
    switch (random_below(&run.random, 10)) {
    case 0:
        return run.now_ns;
    case 1:
        return run.now_ns - random_between(&run.random, 1, SECOND);
    case 2:
    case 3:
        return run.now_ns + random_between(&run.random, 1, 5 * SECOND);
    case 4:
        return WEIR_NEVER;
    case 5:
        return WEIR_NEVER - random_between(&run.random, 1, SECOND); /* as good as never */
    default:
        return 0;
    }
}

static uint64_t draw_lease(void)
{
    switch (random_below(&run.random, 20)) {
    case 0:
        return 1;
    case 1:
    case 2:
        return random_between(&run.random, 1, 5 * SECOND);
    case 3:
        return WEIR_NEVER;
    default:
        return 0;
    }
}

static struct weir_request draw_request(void)
{
    uint32_t tenant = random_below(&run.random, run.style.tenants_max);
    struct weir_request request = {
        .tenant = plan_tenant_name(random_chance(&run.random, 40) ? busiest : tenant),
        .priority = random_chance(&run.random, run.style.normal_percent)
                        ? WEIR_PRIORITY_NORMAL
                        : random_below(&run.random, WEIR_PRIORITY_COUNT),
        .cost = one_in(10) ? 0 : plan_draw_cost(&run.style, &run.random),
        .deadline_ns = draw_deadline(),
        .lease_ns = draw_lease(),
        .tag = random_next(&run.random),
        .no_wait = one_in(15),
        .retry = one_in(8),
    };
    return request;
}

/* What weir_key_enter() must refuse for itself. */
static void spoil(struct weir_request *request)
{
    static const char long_name[WEIR_NAME_BYTES_MAX + 1] = {'x'};
    switch (random_below(&run.random, 4)) {
    case 0:
        request->tenant = (struct weir_slice){long_name, sizeof long_name};
        break;
    case 1:
        request->priority = WEIR_PRIORITY_COUNT;
        break;
    case 2:
        request->cost = WEIR_COST_MAX + 1;
        break;
    default:
        request->lease_ns = WEIR_DURATION_MAX_NS + 1;
        break;
    }
}

static void do_enter(struct pair *pair)
{
    int index = pick_ticket(pair, IDLE | ENDED);
    if (index == MODEL_NONE) {
        return;
    }
    struct weir_request request = draw_request();
    if (one_in(200)) {
        spoil(&request);
    }
    call_enter(&run, pair, index, &request);
}

/* ---- leave and cancel */

/* The true cost is often as expected, and else wrong by up to ten times either way. */
static uint32_t draw_true_cost(uint32_t cost)
{
    uint64_t true_cost = cost;
    switch (random_below(&run.random, 4)) {
    case 0:
        true_cost = random_between(&run.random, 0, cost);
        break;
    case 1:
        true_cost = random_between(&run.random, cost, (uint64_t)cost * 10);
        break;
    case 2:
        true_cost = cost / 10;
        break;
    default:
        break;
    }
    return (uint32_t)(true_cost < WEIR_COST_MAX ? true_cost : WEIR_COST_MAX);
}

static struct weir_result draw_result(uint32_t cost)
{
    static const enum weir_outcome outcomes[] = {
        WEIR_OUTCOME_SUCCESS,    WEIR_OUTCOME_SUCCESS,      WEIR_OUTCOME_SUCCESS,
        WEIR_OUTCOME_SOFT_LOSS,  WEIR_OUTCOME_SOFT_LOSS,    WEIR_OUTCOME_SOFT_LOSS,
        WEIR_OUTCOME_RATE_LIMIT, WEIR_OUTCOME_CLIENT_ERROR, WEIR_OUTCOME_CANCELLED,
    };
    struct weir_result result = {
        .outcome = one_in(300) ? WEIR_OUTCOME_COUNT : outcomes[random_below(&run.random, 9)],
        .cost_known = random_chance(&run.random, 50),
        .cost = one_in(300) ? WEIR_COST_MAX + 1 : draw_true_cost(cost),
    };
    return result;
}

/* Sometimes with a ticket that waits, has ended, or never was one. */
static void do_leave(struct pair *pair)
{
    int index = pick_ticket(pair, one_in(15) ? IDLE | WAITING | ENDED : ADMITTED);
    if (index != MODEL_NONE) {
        struct weir_result result = draw_result(pair->sides[LOUD].tickets[index].cost);
        call_leave(&run, pair, index, &result);
    }
}

static void do_cancel(struct pair *pair)
{
    int index = pick_ticket(pair, one_in(10) ? IDLE | ENDED : WAITING | ADMITTED);
    if (index != MODEL_NONE) {
        call_cancel(&run, pair, index);
    }
}

static void do_renew(struct pair *pair)
{
    int index = pick_ticket(pair, one_in(10) ? IDLE | WAITING | ENDED : ADMITTED);
    if (index != MODEL_NONE) {
        uint64_t bad_ns = one_in(2) ? 0 : WEIR_NEVER;
        call_renew(&run, pair, index,
                   one_in(20) ? bad_ns : random_between(&run.random, 1, 5 * SECOND));
    }
}

static void do_extend(struct pair *pair)
{
    int index = pick_ticket(pair, one_in(10) ? IDLE | ADMITTED | ENDED : WAITING);
    if (index != MODEL_NONE) {
        uint64_t odd_ns = one_in(2) ? 0 : WEIR_NEVER;
        call_extend(&run, pair, index,
                    one_in(20) ? odd_ns : run.now_ns + random_between(&run.random, 1, 5 * SECOND));
    }
}

static void do_wrong_key(struct pair *pair)
{
    struct pair *other = &run.pairs[random_below(&run.random, run.pair_count)];
    int index = pick_ticket(other, WAITING | ADMITTED);
    if (other != pair && index != MODEL_NONE) {
        bool admitted = other->model.tickets[index].state == WEIR_TICKET_ADMITTED;
        call_at_wrong_key(&run, pair, other, index, admitted && one_in(2));
    }
}

/* ---- changes */

/* Mostly a lane of the settings. */
static uint16_t draw_lane_id(const struct pair *pair)
{
    uint32_t count = pair->model.plan.settings.lane_count;
    return one_in(10) ? (uint16_t)random_below(&run.random, 8)
                      : pair->model.plan.lanes[random_below(&run.random, count)].id;
}

static void do_set_limit(struct pair *pair)
{
    uint32_t limit = random_below(&run.random, 6);
    limit = one_in(10) ? WEIR_LIMIT_NONE : limit;
    limit = one_in(30) ? WEIR_LIMIT_MAX + 1 : limit;
    call_set_limit(&run, pair, draw_lane_id(pair), limit);
}

/* Mostly of the unit that the bucket has. */
static void do_set_rate(struct pair *pair)
{
    uint16_t lane_id = draw_lane_id(pair);
    uint32_t index = random_below(&run.random, PLAN_RATES_MAX);
    struct weir_rate rate = plan_draw_rate(&run.style, &run.random);
    for (int i = 0; i < pair->model.lane_count; i++) {
        const struct model_lane *lane = &pair->model.lanes[i];
        if (lane->id == lane_id && index < lane->bucket_count && !one_in(10)) {
            rate.unit = lane->buckets[index].rate.unit;
        }
    }
    call_set_rate(&run, pair, lane_id, index, &rate);
}

static void do_pause(struct pair *pair)
{
    uint64_t until_ns = run.now_ns + random_below(&run.random, 2000000000);
    until_ns = one_in(3) ? run.now_ns : until_ns;
    until_ns = one_in(20) ? 0 : until_ns;
    call_pause(&run, pair, draw_lane_id(pair), until_ns);
}

/* Sometimes the gate changes and a key follows only later. */
static void do_configure(struct pair *pair)
{
    if (!one_in(3)) {
        plan_vary(&run.plan, &run.style, &run.random);
        run_note(&run, "configure");
        enum weir_status status = weir_gate_configure(run.gate, &run.plan.settings);
        run_expect(&run, "status", 0, status, WEIR_OK);
    }
    call_apply(&run, pair);
}

/* Pauses the key, or limits it, or both. */
static struct weir_override draw_override(void)
{
    struct weir_override override = {.paused = one_in(4)};
    override.limited = !override.paused || one_in(3);
    override.limit = one_in(10) ? WEIR_LIMIT_NONE : random_below(&run.random, 8);
    override.limit = one_in(10) ? WEIR_LIMIT_MAX + 1 : override.limit;
    return override;
}

/* Mostly takes it back, because what is set by hand keeps much else from happening. */
static void do_override(struct pair *pair)
{
    struct weir_override override = one_in(4) ? draw_override() : (struct weir_override){0};
    call_set_override(&run, pair, &override);
}

/* Sometimes the gate changes and a key follows only later. */
static void do_gate_pause(struct pair *pair)
{
    run.gate_paused = !run.gate_paused && one_in(8);
    weir_gate_pause(run.gate, run.gate_paused);
    call_apply_pause(&run, pair);
}

/* Ends every ticket, one way or another. Each end may admit others, so it goes on until none is
 * left (G4). */
static void finish(struct pair *pair)
{
    static const struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
    int index;
    while ((index = pick_ticket(pair, WAITING | ADMITTED)) != MODEL_NONE) {
        bool admitted = pair->model.tickets[index].state == WEIR_TICKET_ADMITTED;
        if (admitted && one_in(2)) {
            call_leave(&run, pair, index, &result);
        } else {
            call_cancel(&run, pair, index);
        }
    }
    struct weir_key_stats stats = weir_key_get_stats(pair->sides[LOUD].key);
    run_expect(&run, "active after all have ended", 0, stats.active, 0);
    run_expect(&run, "waiting after all have ended", 0, stats.waiting, 0);
    run_expect(&run, "reserved after all have ended", 0, stats.reserved, 0);
}

/* Ends all that is at the keys and mostly lets the time pass that they need to be forgotten. */
static void do_forget(struct pair *pair)
{
    if (run.style.keys_stay || one_in(2)) {
        return;
    }
    finish(pair);
    if (one_in(3)) {
        struct weir_override override = draw_override();
        call_set_override(&run, pair, &override);
    }
    if (one_in(3)) {
        run.gate_paused = !run.gate_paused;
        weir_gate_pause(run.gate, run.gate_paused); /* which only a new key follows */
    }
    if (one_in(3)) {
        do_pause(pair);
    }
    if (!one_in(4)) {
        run.now_ns +=
            one_in(2) ? WEIR_FORGET_DEFAULT_NS : random_between(&run.random, 1, 3 * SECOND);
    }
    call_forget(&run, pair);
}

static void do_explain(struct pair *pair)
{
    run_note(&run, "explain");
    compare_explanations(&run, pair);
}

/* ---- an episode */

static void do_something(struct pair *pair)
{
    static const struct {
        uint32_t share;
        void (*action)(struct pair *pair);
    } ways[] = {
        {90, do_enter},     {52, do_leave},   {10, do_cancel}, {2, do_wrong_key},
        {5, do_set_limit},  {4, do_set_rate}, {5, do_pause},   {5, do_configure},
        {4, do_explain},    {5, do_renew},    {4, do_extend},  {4, do_override},
        {2, do_gate_pause}, {1, do_forget},
    };
    uint32_t way = random_below(&run.random, 200);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (way < ways[i].share) {
            ways[i].action(pair);
            return;
        }
        way -= ways[i].share;
    }
    call_wake(&run, pair);
}

static void step(void)
{
    struct pair *pair = &run.pairs[random_below(&run.random, run.pair_count)];
    run.step++;
    run.coverage.steps++;
    pass_time(pair);
    do_something(pair);
}

static void run_episode(uint32_t pairs_max, uint64_t steps)
{
    run.step = 0;
    run.coverage.episodes++;
    run.now_ns = random_between(&run.random, 1000 * SECOND, 2000 * SECOND);
    busiest = random_below(&run.random, run.style.tenants_max);
    plan_draw(&run.plan, &run.style, &run.random);
    run_open(&run, 1 + random_below(&run.random, pairs_max),
             (int)random_between(&run.random, 6, 30));
    for (uint64_t i = 0; i < steps; i++) {
        step();
    }
    for (uint32_t i = 0; i < run.pair_count; i++) {
        finish(&run.pairs[i]);
    }
    run_close(&run);
}

/* Each episode has a seed of its own, so that it does not depend on those before it. */
static void begin_episode(const struct plan_style *style, uint64_t number)
{
    run.seed = from_environment("WEIR_SEED", SEED_DEFAULT);
    run.style = *style;
    run.episode = number;
    run.random.state = run.seed + UINT64_C(0xd1342543de82ef95) * number;
}

/* Episodes of one style, until their share of the steps is made. */
static void run_style(const struct plan_style *style, uint32_t number, uint32_t percent)
{
    uint64_t steps = from_environment("WEIR_STEPS", STEPS_DEFAULT) * percent / 100;
    for (uint64_t episode = number * UINT64_C(1000000); steps > 0; episode++) {
        begin_episode(style, episode);
        uint64_t length = random_between(&run.random, 500, 3000);
        length = length < steps ? length : steps;
        run_episode(RUN_PAIRS_MAX, length);
        steps -= length;
    }
}

/* ---- the tests */

static const struct plan_style ordinary = {
    .lanes_max = 4,
    .tenants_max = 12,
    .rate_percent = 40,
    .tenant_percent = 40,
    .bound_percent = 30,
    .breaker_percent = 30,
    .line_max = 16,
};

static void key_and_model_agree_on_ordinary_settings(void **state)
{
    (void)state;
    run_style(&ordinary, 0, 30);
}

static void key_and_model_agree_on_one_lane_and_a_crowded_line(void **state)
{
    (void)state;
    struct plan_style style = ordinary;
    style.lanes_max = 1;
    style.tenants_max = 5;
    style.rate_percent = 10;
    style.tenant_percent = 10;
    style.bound_percent = 40;
    style.line_max = 10;
    run_style(&style, 1, 25);
}

static void key_and_model_agree_on_tenants_with_limits_of_their_own(void **state)
{
    (void)state;
    struct plan_style style = ordinary;
    style.lanes_max = 2;
    style.rate_percent = 80;
    style.tenant_percent = 90;
    style.bound_percent = 10;
    run_style(&style, 2, 20);
}

static void key_and_model_agree_on_numbers_at_their_limits(void **state)
{
    (void)state;
    struct plan_style style = ordinary;
    style.huge = true;
    style.rate_percent = 60;
    run_style(&style, 3, 15);
}

/* Virtual times are 64 bits that wrap. With the largest cost one admission adds 2^50, so it takes
 * 2^14 of them at one priority. */
static void key_and_model_agree_when_virtual_time_wraps(void **state)
{
    (void)state;
    struct plan_style style = {
        .lanes_max = 1,
        .tenants_max = 12,
        .tenants_kept = 3,
        .forget_ns = SECOND,
        .line_max = 12,
        .normal_percent = 90,
        .keys_stay = true,
        .cost = WEIR_COST_MAX,
    };
    begin_episode(&style, 4000000);
    run_episode(1, from_environment("WEIR_STEPS", STEPS_DEFAULT) / 10);
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        run.coverage.wraps += run.pairs[0].model.clock[i] > UINT64_MAX;
    }
}

/* ---- what was met */

static void print_coverage(void)
{
    const struct coverage *c = &run.coverage;
#define N "%" PRIu64
    printf("# " N " steps, " N " episodes: " N " admitted (" N " at once, " N " above a burst), " N
           " waited (" N " retries)\n",
           c->steps, c->episodes, c->kinds[WEIR_EVENT_ADMIT], c->at_once, c->above_burst,
           c->kinds[WEIR_EVENT_THROTTLE], c->retries);
    printf("# " N " left, " N " cancelled (" N " permits), " N " timeouts, " N " displaced, " N
           " lapsed, " N " breakers tripped, " N " closed again\n",
           c->kinds[WEIR_EVENT_LEAVE], c->kinds[WEIR_EVENT_CANCEL], c->cancelled_permits,
           c->kinds[WEIR_EVENT_TIMEOUT], c->kinds[WEIR_EVENT_DISPLACE], c->kinds[WEIR_EVENT_LAPSE],
           c->trips, c->recoveries);
    printf("# " N " admitted as _other, " N " tenants forgotten, " N " steps back in time, " N
           " wakes earlier than needed, " N " virtual clocks wrapped\n",
           c->shared_tenants, c->forgotten_tenants, c->back_in_time, c->early_wakes, c->wraps);
    printf("# " N " limits by hand, " N " pauses of the gate, " N " keys forgotten (" N
           " with an override), " N " made in a paused gate\n",
           c->limits_by_hand, c->gate_pauses, c->forgotten_keys, c->forgotten_overrides,
           c->keys_made_paused);
    printf("# bindings:");
    for (uint32_t i = 0; i < WEIR_BINDING_COUNT; i++) {
        printf(" " N, c->bindings[i]);
    }
    printf("\n");
    for (uint32_t i = 1; i < WEIR_STATUS_COUNT; i++) {
        if (c->refusals[i] + c->statuses[i] > 0) {
            printf("# " N " %s\n", c->refusals[i] + c->statuses[i], weir_status_name(i));
        }
    }
#undef N
}

/* Fewer than one in ten thousand steps would be luck. */
static void expect_met(const char *what, uint64_t count)
{
    if (count <= run.coverage.steps / 10000) {
        fail_msg("hardly met: %s, %" PRIu64 " times in %" PRIu64 " steps", what, count,
                 run.coverage.steps);
    }
}

static void expect_answers_met(void)
{
    static const enum weir_status refusals[] = {
        WEIR_BAD_NAME,  WEIR_BAD_PRIORITY,  WEIR_BAD_COST,    WEIR_BAD_DURATION,
        WEIR_LINE_FULL, WEIR_PRIORITY_FULL, WEIR_TENANT_FULL, WEIR_WOULD_WAIT,
    };
    static const enum weir_status statuses[] = {
        WEIR_NOT_HELD,  WEIR_WRONG_KEY,   WEIR_NO_LANE,  WEIR_BAD_COST,
        WEIR_BAD_LIMIT, WEIR_BAD_OUTCOME, WEIR_BAD_RATE,
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        expect_met(weir_status_name(refusals[i]), run.coverage.refusals[refusals[i]]);
    }
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        expect_met(weir_status_name(statuses[i]), run.coverage.statuses[statuses[i]]);
    }
}

static void the_interesting_cases_were_all_met(void **state)
{
    (void)state;
    const struct coverage *c = &run.coverage;
    print_coverage();
    expect_answers_met();
    for (uint32_t i = 0; i < WEIR_EVENT_KIND_COUNT; i++) {
        expect_met(weir_event_kind_name(i), c->kinds[i]);
    }
    for (uint32_t i = 0; i < WEIR_BINDING_COUNT; i++) {
        expect_met("one of the bindings", c->bindings[i]);
    }
    expect_met("admitted at once", c->at_once);
    expect_met("a cancelled permit", c->cancelled_permits);
    expect_met("a lease that begins anew", c->renewals);
    expect_met("a deadline that is moved away", c->extensions);
    expect_met("a retry in line", c->retries);
    expect_met("a cost above the burst", c->above_burst);
    expect_met("a bucket in debt", c->owing);
    expect_met("a tripped breaker", c->trips);
    expect_met("a breaker closed again", c->recoveries);
    expect_met("the shared tenant", c->shared_tenants);
    expect_met("a forgotten tenant", c->forgotten_tenants);
    expect_met("a retired lane", c->retired_lanes);
    expect_met("a limit by hand", c->limits_by_hand);
    expect_met("a pause of the gate", c->gate_pauses);
    expect_met("a forgotten key", c->forgotten_keys);
    expect_met("an override forgotten with its key", c->forgotten_overrides);
    expect_met("a key made while its gate is paused", c->keys_made_paused);
    expect_met("a lane over its limit", c->over_limit);
    expect_met("a step back in time", c->back_in_time);
    assert_true(c->wraps > 0 || c->steps < 2000000); /* which takes long */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_and_model_agree_on_ordinary_settings),
        cmocka_unit_test(key_and_model_agree_on_one_lane_and_a_crowded_line),
        cmocka_unit_test(key_and_model_agree_on_tenants_with_limits_of_their_own),
        cmocka_unit_test(key_and_model_agree_on_numbers_at_their_limits),
        cmocka_unit_test(key_and_model_agree_when_virtual_time_wraps),
        cmocka_unit_test(the_interesting_cases_were_all_met),
    };
    return cmocka_run_group_tests_name("gate_model", tests, NULL, NULL);
}
