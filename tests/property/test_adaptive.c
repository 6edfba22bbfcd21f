/* G1 to G12 with everything adaptive: random sequences of every call at a key whose lanes learn,
 * with replies, quotas and outcomes that make sense or none, and time that passes, stands still and
 * steps back. There is no model of the controllers here: whatever they decide, what is promised
 * must hold.
 *
 * Every sequence runs at two keys, of which one keeps a recorder; both must decide the same. A
 * failure prints its seed; WEIR_SEED and WEIR_STEPS replay it. */
#include "core/ticket.h"
#include "weir/weir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#ifndef STEPS_DEFAULT
#define STEPS_DEFAULT 600000
#endif

#define TICKETS   60
#define TENANTS   4
#define SEQUENCES 24
#define LINE_MAX  40
#define MS        (WEIR_NS_PER_SECOND / 1000)

static const char *const tenant_names[TENANTS] = {"", "a", "b", "limited"};
#define LIMITED       3
#define LIMITED_LIMIT 2

struct side {
    struct weir_gate *gate;
    struct weir_key *key;
    struct weir_news news;
    struct weir_ticket tickets[TICKETS];
    uint32_t tenant_of[TICKETS];
    uint32_t held_by[TENANTS];
    uint64_t last_admitted[TENANTS][WEIR_PRIORITY_COUNT];
    uint64_t admissions; /* of this call */
    bool on_lane[2];     /* whether it gave a permit in this call */
};

struct run {
    uint64_t seed;
    uint64_t random;
    uint64_t now_ns;
    uint64_t latest_ns;
    uint64_t step;
    struct side sides[2];
};

static uint64_t draw(struct run *run, uint64_t below)
{
    uint64_t z = (run->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

#define CHECK(run, condition)                                                     \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fail_msg("seed %llu, step %llu: %s", (unsigned long long)(run)->seed, \
                     (unsigned long long)(run)->step, #condition);                \
        }                                                                         \
    } while (0)

/* ---- settings ---- */

static enum weir_status settings_of(struct run *run, bool recorder, struct weir_gate *gate,
                                    struct weir_gate **created)
{
    static const struct weir_rate rates[] = {
        {.tokens = 500000, .period_ns = 60 * WEIR_NS_PER_SECOND},
        {.tokens = 900, .period_ns = 60 * WEIR_NS_PER_SECOND, .unit = WEIR_UNIT_REQUESTS},
        {.tokens = 400000, .period_ns = 60 * WEIR_NS_PER_SECOND, .unit = WEIR_UNIT_INPUT},
        {.tokens = 90000000, .period_ns = 86400 * WEIR_NS_PER_SECOND, .unit = WEIR_UNIT_OUTPUT}};
    struct weir_lane_settings lanes[2] = {{.id = 1}, {.id = 2}};
    lanes[0].control.controller = WEIR_CONTROLLER_LEARNED;
    lanes[0].control.charge = (enum weir_charge)draw(run, WEIR_CHARGE_COUNT);
    lanes[1].control.controller = draw(run, 2) ? WEIR_CONTROLLER_AIMD : WEIR_CONTROLLER_LEARNED;
    lanes[1].control.settle = (enum weir_settle)draw(run, 2);
    lanes[1].control.window.max = 1 + (uint32_t)draw(run, 20);
    lanes[1].control.window.start = 1;
    if (draw(run, 2)) {
        lanes[1].rates = rates;
        lanes[1].rate_count = 1 + (uint32_t)draw(run, 4);
    }
    if (draw(run, 3) == 0) {
        lanes[0].breaker =
            (struct weir_breaker_settings){.failures = 3, .pause_ns = WEIR_NS_PER_SECOND};
    }
    struct weir_tenant_settings limited = {
        .name = weir_slice_of(tenant_names[LIMITED]),
        .limit = LIMITED_LIMIT,
        .rate = {.tokens = 100000, .period_ns = 60 * WEIR_NS_PER_SECOND}};
    struct weir_settings settings = {
        .lanes = lanes,
        .lane_count = 1 + (uint32_t)draw(run, 2),
        .choice = draw(run, 2) ? WEIR_CHOICE_MOST_ROOM : WEIR_CHOICE_IN_ORDER,
        .line = {.tickets = LINE_MAX},
        .timeout_ns = draw(run, 2) ? 20 * WEIR_NS_PER_SECOND : WEIR_NEVER,
        .lease_ns = draw(run, 3) == 0 ? 15 * WEIR_NS_PER_SECOND : 0,
        .early_reject = draw(run, 2) == 0,
        .estimate = (enum weir_estimate)draw(run, WEIR_ESTIMATE_COUNT),
        .tenants = &limited,
        .tenant_count = 1,
        .recorder_events = recorder ? 16 : 0};
    struct weir_gate_options options = {.seed = {1, 2}};
    return gate != NULL ? weir_gate_configure(gate, &settings)
                        : weir_gate_create(&options, &settings, created);
}

/* Both sides get the same settings but for the recorder: the draws are repeated. */
static void configure(struct run *run, bool create)
{
    uint64_t before = run->random;
    for (int i = 0; i < 2; i++) {
        struct side *side = &run->sides[i];
        run->random = before;
        CHECK(run, settings_of(run, i == 1, create ? NULL : side->gate, &side->gate) == WEIR_OK);
        if (!create) {
            CHECK(run, weir_gate_apply(side->gate, side->key, run->now_ns, &side->news) == WEIR_OK);
        }
    }
}

/* ---- what is promised ---- */

static void note_admission(struct run *run, struct side *side, struct weir_ticket *ticket)
{
    uint32_t tenant = side->tenant_of[ticket - side->tickets];
    uint64_t *last = &side->last_admitted[tenant][ticket->priority];
    if (!weir_inside(ticket)->retry) {
        CHECK(run, ticket->sequence > *last); /* G2 */
        *last = ticket->sequence;
    }
    side->held_by[tenant]++;
    side->admissions++;
    CHECK(run, ticket->lane_id == 1 || ticket->lane_id == 2);
    side->on_lane[ticket->lane_id - 1] = true;
}

static void note_end(struct run *run, struct side *side, const struct weir_ticket *ticket)
{
    uint32_t tenant = side->tenant_of[ticket - side->tickets];
    CHECK(run, side->held_by[tenant] > 0);
    side->held_by[tenant]--;
}

static void drain(struct run *run, struct side *side)
{
    struct weir_ticket *ticket;
    while ((ticket = weir_news_next(&side->news)) != NULL) {
        bool admitted = ticket->state == WEIR_TICKET_ADMITTED;
        /* Admitted and lapsed within one call: it was both. */
        if (admitted || ticket->end == WEIR_END_LAPSED) {
            if (admitted) {
                note_admission(run, side, ticket);
            } else {
                note_end(run, side, ticket);
            }
        }
    }
}

static void check_side(struct run *run, struct side *side)
{
    struct weir_key_stats stats = weir_key_get_stats(side->key);
    struct weir_lane_stats lane;
    uint32_t active = 0;
    for (uint32_t i = 0; weir_key_get_lane(side->key, i, run->now_ns, &lane); i++) {
        active += lane.active;
        if (side->on_lane[lane.id - 1]) {
            CHECK(run, lane.active <= lane.limit); /* G1 */
        }
        struct weir_control_stats control;
        if (weir_key_get_control(side->key, i, run->now_ns, &control)) {
            CHECK(run, control.window >= 1.0);
            CHECK(run, control.window <= 8192.0);
            CHECK(run, control.rate > 0.0 && control.rate < 1e13);
            CHECK(run, control.bucket == control.bucket); /* a number */
        }
    }
    CHECK(run, active == stats.active);
    CHECK(run, stats.waiting <= LINE_MAX);               /* G10 */
    CHECK(run, side->held_by[LIMITED] <= LIMITED_LIMIT); /* G11 */
    uint64_t ended = 0;
    for (int i = 0; i < WEIR_END_COUNT; i++) {
        ended += stats.ended[i];
    }
    CHECK(run, ended + stats.active + stats.waiting == stats.entered); /* G4 */
    weir_key_validate(side->key);                                      /* G3, and the rest */
}

static void check(struct run *run)
{
    for (int i = 0; i < 2; i++) {
        drain(run, &run->sides[i]);
        check_side(run, &run->sides[i]);
    }
    for (int i = 0; i < TICKETS; i++) {
        const struct weir_ticket *a = &run->sides[0].tickets[i];
        const struct weir_ticket *b = &run->sides[1].tickets[i];
        CHECK(run, a->state == b->state);
        CHECK(run, a->end == b->end);
        CHECK(run, a->cost == b->cost);
    }
    CHECK(run, run->sides[0].news.wake_ns == run->sides[1].news.wake_ns);
}

/* ---- steps ---- */

static void pass_time(struct run *run)
{
    switch (draw(run, 8)) {
    case 0:
        break;
    case 1:
        run->now_ns -= draw(run, run->now_ns / 4); /* G8 */
        break;
    case 2:
        run->now_ns = run->latest_ns + draw(run, 100 * WEIR_NS_PER_SECOND);
        break;
    default:
        run->now_ns = run->latest_ns + draw(run, 700 * MS);
        break;
    }
    run->latest_ns = run->now_ns > run->latest_ns ? run->now_ns : run->latest_ns;
}

static void do_enter(struct run *run, uint32_t index)
{
    uint32_t tenant = (uint32_t)draw(run, TENANTS);
    struct weir_request request = {.tenant = weir_slice_of(tenant_names[tenant]),
                                   .priority = (enum weir_priority)draw(run, 3),
                                   .input = (uint32_t)draw(run, 3000),
                                   .output_max = (uint32_t)draw(run, 3) * 1000,
                                   .retry = draw(run, 10) == 0,
                                   .no_wait = draw(run, 10) == 0};
    if (draw(run, 2)) {
        request.cost = 1 + (uint32_t)draw(run, 5000);
    }
    if (draw(run, 100) == 0) {
        request.input = WEIR_COST_MAX;
    }
    for (int i = 0; i < 2; i++) {
        struct side *side = &run->sides[i];
        struct weir_ticket *ticket = &side->tickets[index];
        side->tenant_of[index] = tenant;
        enum weir_admission verdict =
            weir_key_enter(side->key, ticket, &request, run->now_ns, &side->news);
        drain(run, side);
        if (verdict == WEIR_ADMITTED) {
            note_admission(run, side, ticket);
        }
    }
}

static struct weir_quota draw_quota(struct run *run)
{
    struct weir_quota quota = {.unit = (enum weir_unit)draw(run, WEIR_UNIT_COUNT),
                               .reset = draw(run, 4) ? WEIR_RESET_FULL : WEIR_RESET_WINDOW,
                               .limit = (int64_t)draw(run, 200000),
                               .reset_ns = draw(run, 61) * WEIR_NS_PER_SECOND,
                               .reset_rounding_ns = WEIR_NS_PER_SECOND};
    quota.remaining = (int64_t)draw(run, 200000) - 1000;
    if (quota.unit == WEIR_UNIT_REQUESTS) {
        quota.limit /= 1000;
        quota.remaining /= 1000;
    }
    if (draw(run, 10) == 0) {
        quota.period_ns = 86400 * WEIR_NS_PER_SECOND;
    }
    if (draw(run, 30) == 0) {
        quota.limit = (int64_t)(draw(run, UINT64_MAX) - (UINT64_C(1) << 62));
        quota.reset_ns = draw(run, UINT64_MAX);
    }
    return quota;
}

static struct weir_reply draw_reply(struct run *run, struct weir_quota quotas[4])
{
    static const enum weir_outcome outcomes[] = {
        WEIR_OUTCOME_SUCCESS,    WEIR_OUTCOME_SUCCESS,   WEIR_OUTCOME_SUCCESS,
        WEIR_OUTCOME_SUCCESS,    WEIR_OUTCOME_SUCCESS,   WEIR_OUTCOME_SUCCESS,
        WEIR_OUTCOME_RATE_LIMIT, WEIR_OUTCOME_SOFT_LOSS, WEIR_OUTCOME_CLIENT_ERROR};
    struct weir_reply reply = {.outcome = outcomes[draw(run, 9)],
                               .streamed = draw(run, 2) == 0,
                               .retry_after_known = draw(run, 2) == 0,
                               .retry_after_ns = draw(run, 4) * WEIR_NS_PER_SECOND,
                               .retry_after_rounding_ns = WEIR_NS_PER_SECOND};
    if (run->seed % 3 != 0) { /* every third provider is silent */
        reply.quota_count = (uint32_t)draw(run, 5);
        reply.quotas = quotas;
        for (uint32_t i = 0; i < reply.quota_count; i++) {
            quotas[i] = draw_quota(run);
        }
    }
    return reply;
}

static void do_hear(struct run *run, uint32_t index)
{
    struct weir_quota quotas[4];
    struct weir_reply reply = draw_reply(run, quotas);
    for (int i = 0; i < 2; i++) {
        struct side *side = &run->sides[i];
        (void)!weir_key_hear(side->key, &side->tickets[index], &reply, run->now_ns, &side->news);
    }
}

static void do_progress(struct run *run, uint32_t index)
{
    uint32_t output = (uint32_t)draw(run, 4000);
    for (int i = 0; i < 2; i++) {
        struct side *side = &run->sides[i];
        (void)!weir_key_progress(side->key, &side->tickets[index], output, run->now_ns,
                                 &side->news);
    }
}

static void do_leave(struct run *run, uint32_t index)
{
    struct weir_quota quotas[4];
    struct weir_reply reply = draw_reply(run, quotas);
    struct weir_result result = {.outcome = (enum weir_outcome)draw(run, WEIR_OUTCOME_COUNT),
                                 .cost_known = draw(run, 4) == 0,
                                 .cost = (uint32_t)draw(run, 6000),
                                 .usage_known = draw(run, 2) == 0,
                                 .input = (uint32_t)draw(run, 3000),
                                 .output = (uint32_t)draw(run, 3000)};
    result.reply = draw(run, 2) ? &reply : NULL;
    for (int i = 0; i < 2; i++) {
        struct side *side = &run->sides[i];
        struct weir_ticket *ticket = &side->tickets[index];
        enum weir_status status =
            weir_key_leave(side->key, ticket, &result, run->now_ns, &side->news);
        if (status == WEIR_OK) {
            note_end(run, side, ticket);
        }
    }
}

static void do_cancel(struct run *run, uint32_t index)
{
    for (int i = 0; i < 2; i++) {
        struct side *side = &run->sides[i];
        struct weir_ticket *ticket = &side->tickets[index];
        bool held = ticket->state == WEIR_TICKET_ADMITTED;
        enum weir_status status = weir_key_cancel(side->key, ticket, run->now_ns, &side->news);
        /* Its turn may have come, or its lease ended, in the very same call. */
        if (status == WEIR_OK && held) {
            note_end(run, side, ticket);
        }
    }
}

static void do_other(struct run *run)
{
    uint64_t kind = draw(run, 20);
    uint16_t lane = (uint16_t)(1 + draw(run, 2));
    uint32_t limit = (uint32_t)draw(run, 12);
    uint64_t until_ns = run->now_ns + draw(run, 3) * WEIR_NS_PER_SECOND;
    if (kind == 0) {
        configure(run, false);
        return;
    }
    for (int i = 0; i < 2; i++) {
        struct side *side = &run->sides[i];
        if (kind == 1) {
            (void)!weir_key_set_limit(side->key, lane, limit, run->now_ns, &side->news);
        } else if (kind == 2) {
            (void)!weir_key_pause(side->key, lane, until_ns, run->now_ns, &side->news);
        } else {
            weir_key_wake(side->key, run->now_ns, &side->news);
        }
    }
}

/* What is due is done first, so that what follows finds every ticket as it is told. */
static void wake_both(struct run *run)
{
    for (int i = 0; i < 2; i++) {
        struct side *side = &run->sides[i];
        side->admissions = 0;
        side->on_lane[0] = false;
        side->on_lane[1] = false;
        weir_key_wake(side->key, run->now_ns, &side->news);
        drain(run, side);
        check_side(run, side);
        side->on_lane[0] = false;
        side->on_lane[1] = false;
    }
}

static void take_step(struct run *run)
{
    uint64_t before_ns = run->latest_ns;
    pass_time(run);
    wake_both(run);
    if (run->now_ns <= before_ns) { /* G8: it was woken at that time before */
        CHECK(run, run->sides[0].admissions == 0);
    }
    uint32_t index = (uint32_t)draw(run, TICKETS);
    enum weir_ticket_state state = (enum weir_ticket_state)run->sides[0].tickets[index].state;
    uint64_t kind = draw(run, 16);
    if (state == WEIR_TICKET_IDLE || state == WEIR_TICKET_ENDED) {
        do_enter(run, index);
    } else if (kind < 5) {
        do_hear(run, index);
    } else if (kind < 8) {
        do_progress(run, index);
    } else if (kind < 13) {
        do_leave(run, index);
    } else if (kind < 15) {
        do_cancel(run, index);
    } else {
        do_other(run);
    }
    check(run);
}

/* Everybody goes; then nothing is left (G4), and after a while the key is forgotten (G12). */
static void finish(struct run *run)
{
    run->now_ns = run->latest_ns;
    wake_both(run);
    for (uint32_t i = 0; i < TICKETS; i++) {
        do_cancel(run, i);
        check(run);
    }
    for (int i = 0; i < 2; i++) {
        struct side *side = &run->sides[i];
        struct weir_key_stats stats = weir_key_get_stats(side->key);
        CHECK(run, stats.active == 0);
        CHECK(run, stats.waiting == 0);
        CHECK(run, stats.reserved == 0);
        weir_key_give(side->key);
        CHECK(run, weir_gate_sweep(side->gate, 1, run->now_ns + 1) == 0);
        uint64_t later_ns = run->now_ns + UINT64_C(400) * 86400 * WEIR_NS_PER_SECOND;
        weir_gate_sweep(side->gate, 1, later_ns);
        weir_gate_destroy(side->gate);
    }
}

static void run_sequence(uint64_t seed, uint64_t steps)
{
    struct run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    *run = (struct run){.seed = seed, .random = seed, .now_ns = WEIR_NS_PER_SECOND};
    run->latest_ns = run->now_ns;
    configure(run, true);
    for (int i = 0; i < 2; i++) {
        struct side *side = &run->sides[i];
        CHECK(run,
              weir_gate_take(side->gate, weir_slice_of("key"), run->now_ns, &side->key) == WEIR_OK);
    }
    for (run->step = 0; run->step < steps; run->step++) {
        take_step(run);
    }
    finish(run);
    free(run);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void g1_to_g12_hold_with_everything_adaptive(void **state)
{
    (void)state;
    uint64_t steps = number_from("WEIR_STEPS", STEPS_DEFAULT) / SEQUENCES;
    uint64_t only = number_from("WEIR_SEED", 0);
    for (uint64_t seed = 1; seed <= SEQUENCES; seed++) {
        if (only == 0 || only == seed) {
            run_sequence(seed, steps);
        }
    }
}

/* All priorities wait all the time at a lane that learns: any 8 in a row are 4, 3 and 1. */
static void g7_priorities_keep_their_shares_at_a_lane_that_learns(void **state)
{
    (void)state;
    struct weir_lane_settings lane = {.control = {.controller = WEIR_CONTROLLER_LEARNED}};
    struct weir_settings settings = {.lanes = &lane, .lane_count = 1, .timeout_ns = WEIR_NEVER};
    struct weir_gate_options options = {.seed = {1, 2}};
    struct weir_gate *gate;
    struct weir_key *key;
    struct weir_news news = {0};
    static struct weir_ticket tickets[300];
    uint8_t order[3000];
    uint32_t count = 0;
    assert_int_equal(weir_gate_create(&options, &settings, &gate), WEIR_OK);
    assert_int_equal(weir_gate_take(gate, weir_slice_of("key"), 0, &key), WEIR_OK);
    memset(tickets, 0, sizeof tickets);
    for (uint32_t i = 0; i < 300; i++) {
        struct weir_request request = {.priority = (enum weir_priority)(i % 3), .cost = 100};
        (void)!weir_key_enter(key, &tickets[i], &request, 0, &news);
    }
    for (uint32_t i = 0; i < 300; i++) { /* those that went through at once */
        struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
        struct weir_request request = {.priority = (enum weir_priority)(i % 3), .cost = 100};
        if (tickets[i].state == WEIR_TICKET_ADMITTED && !weir_inside(&tickets[i])->listed) {
            assert_int_equal(weir_key_leave(key, &tickets[i], &result, 0, &news), WEIR_OK);
            assert_int_equal(weir_key_enter(key, &tickets[i], &request, 0, &news), WEIR_WAITING);
        }
    }
    for (uint64_t now_ns = 0; count < 2000; now_ns += 50 * MS) {
        assert_true(now_ns < 100000 * WEIR_NS_PER_SECOND);
        weir_key_wake(key, now_ns, &news);
        struct weir_ticket *ticket;
        while ((ticket = weir_news_next(&news)) != NULL && count < 3000) {
            order[count++] = ticket->priority;
            struct weir_request request = {.priority = (enum weir_priority)ticket->priority,
                                           .cost = 100};
            struct weir_result result = {.outcome = count % 50 == 0 ? WEIR_OUTCOME_RATE_LIMIT
                                                                    : WEIR_OUTCOME_SUCCESS};
            assert_int_equal(weir_key_leave(key, ticket, &result, now_ns, &news), WEIR_OK);
            assert_int_equal(weir_key_enter(key, ticket, &request, now_ns, &news), WEIR_WAITING);
        }
    }
    for (uint32_t i = 0; i + 8 <= count; i++) {
        uint32_t seen[WEIR_PRIORITY_COUNT] = {0};
        for (uint32_t j = i; j < i + 8; j++) {
            seen[order[j]]++;
        }
        assert_int_equal(seen[WEIR_PRIORITY_HIGH], 4);
        assert_int_equal(seen[WEIR_PRIORITY_NORMAL], 3);
        assert_int_equal(seen[WEIR_PRIORITY_LOW], 1);
    }
    for (uint32_t i = 0; i < 300; i++) {
        (void)!weir_key_cancel(key, &tickets[i], 0, &news);
        while (weir_news_next(&news) != NULL) {
        }
    }
    weir_key_give(key);
    weir_gate_destroy(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(g1_to_g12_hold_with_everything_adaptive),
        cmocka_unit_test(g7_priorities_keep_their_shares_at_a_lane_that_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
