/* Flows and their requests: on two loops in one thread, where every order of things can be chosen,
 * and on several threads, where none can. */
#define _GNU_SOURCE
#include "gates/flow.h"

#include "unit/shared_memory.h"

#include <pthread.h>
#include <stdatomic.h>

#define MS UINT64_C(1000000)

/* ---- two loops, which run when they are told to ---- */

#define LOOPS 2

struct scene {
    struct memory memory;
    struct memory flow_memory;
    struct weir_loop loops[LOOPS];
    struct weir_loop *loops_of_gates[LOOPS];
    struct weir_gates *gates;
    struct weir_flows *flows;
    struct weir_config_gate config;
    struct weir_timer end; /* of a run in real time */
};

static struct scene scene;

static void stop_run(struct weir_timer *timer)
{
    (void)timer;
    weir_loop_stop(&scene.loops[0]);
}

static void open_scene(struct weir_settings settings)
{
    struct weir_loop **loops = scene.loops_of_gates;
    uint32_t number;
    memset(&scene, 0, sizeof scene);
    memory_init(&scene.memory);
    memory_init(&scene.flow_memory);
    scene.config.rules.lease_ns = WEIR_NEVER;
    for (uint32_t i = 0; i < LOOPS; i++) {
        assert_true(weir_loop_init(&scene.loops[i], &scene.memory.allocator));
        loops[i] = &scene.loops[i];
    }
    scene.loops[1].now_ns = scene.loops[0].now_ns;
    assert_true(weir_timer_init(loops[0], &scene.end, stop_run));
    struct weir_gates_options options = {
        .allocator = &scene.memory.allocator, .loops = loops, .loop_count = LOOPS};
    assert_int_equal(weir_gates_create(&options, &scene.gates), WEIR_OK);
    assert_int_equal(weir_gates_add(scene.gates, weir_slice_of("gate"), &number), WEIR_OK);
    assert_int_equal(weir_gates_configure(scene.gates, 0, &settings, 0), WEIR_OK);
    scene.flows = weir_flows_create(scene.gates, &scene.flow_memory.allocator);
    assert_non_null(scene.flows);
}

/* Lets everything arrive that is under way, in both loops. */
static void settle(void)
{
    while (weir_loop_settle(&scene.loops[0]) || weir_loop_settle(&scene.loops[1])) {
    }
}

static void pass_time(uint64_t duration_ns)
{
    for (uint32_t i = 0; i < LOOPS; i++) {
        scene.loops[i].now_ns += duration_ns;
    }
}

static void close_scene(void)
{
    settle();
    weir_flows_destroy(scene.flows);
    weir_gates_destroy(scene.gates);
    weir_timer_deinit(&scene.loops[0], &scene.end);
    for (uint32_t i = 0; i < LOOPS; i++) {
        weir_loop_deinit(&scene.loops[i]);
    }
    expect_no_memory_out(&scene.memory);
    expect_no_memory_out(&scene.flow_memory);
}

static void expect_at_key(uint32_t active, uint32_t waiting)
{
    struct weir_key *key = weir_gates_find(scene.gates, 0, weir_slice_of("key"));
    assert_non_null(key);
    weir_key_validate(key);
    struct weir_key_stats stats = weir_gates_stats(key);
    weir_key_give(key);
    assert_int_equal(stats.active, active);
    assert_int_equal(stats.waiting, waiting);
}

static uint64_t ends_of(enum weir_end end)
{
    struct weir_key *key = weir_gates_find(scene.gates, 0, weir_slice_of("key"));
    uint64_t count = weir_gates_stats(key).ended[end];
    weir_key_give(key);
    return count;
}

/* Somebody who rides, and writes down what is told. */
struct guest {
    struct weir_flow_request flow_request;
    struct weir_gate_ticket gate_ticket; /* stands for the key */
    uint32_t told;
    uint32_t told_of[WEIR_FLOW_REQUEST_AGAIN + 1];
    bool here;
};

static void write_down(struct weir_flow_request *flow_request, enum weir_flow_request_state state)
{
    struct guest *guest = weir_container_of(flow_request, struct guest, flow_request);
    guest->told++;
    guest->told_of[state]++;
}

struct wish {
    const char *flow;
    uint32_t loop;
    uint32_t depth;      /* 0: 5 */
    uint64_t timeout_ns; /* 0: the key's */
    uint64_t idle_ns;    /* 0: a minute */
    const char *tenant;
};

static enum weir_flow_entry come_as(struct guest *guest, struct wish wish)
{
    struct weir_destination where = {.loop_index = wish.loop, .key = weir_slice_of("key")};
    uint64_t asked_ns = wish.timeout_ns == 0 ? 0 : scene.loops[wish.loop].now_ns + wish.timeout_ns;
    if (!guest->here) {
        memset(guest, 0, sizeof *guest);
        assert_int_equal(weir_gate_ticket_visit(scene.gates, &guest->gate_ticket, &where, asked_ns),
                         WEIR_OK);
        guest->here = true;
    }
    guest->flow_request.on_change = write_down;
    struct weir_flow_params params = {
        .key = guest->gate_ticket.key,
        .config = &scene.config,
        .loop_index = wish.loop,
        .flow = weir_slice_of(wish.flow),
        .request = {.deadline_ns = guest->gate_ticket.ticket.deadline_ns,
                    .tenant = weir_slice_of(wish.tenant == NULL ? "" : wish.tenant)},
        .depth = wish.depth == 0 ? 5 : wish.depth,
        .idle_ns = wish.idle_ns == 0 ? MINUTE : wish.idle_ns};
    return weir_flow_request_enter(scene.flows, &guest->flow_request, &params);
}

/* The guest, the flow, and what else is wished. */
#define come(guest, ...) come_as(guest, (struct wish){.flow = __VA_ARGS__})

static bool go_last(struct guest *guest, bool last)
{
    bool gone = weir_flow_request_leave(&guest->flow_request, WEIR_OUTCOME_SUCCESS, last);
    weir_gate_ticket_close(&guest->gate_ticket);
    guest->here = false;
    return gone;
}

static bool go(struct guest *guest)
{
    return go_last(guest, false);
}

#define expect_told(guest, of, count) \
    assert_int_equal((guest)->told_of[WEIR_FLOW_REQUEST_##of], count)

static const struct weir_settings one_at_a_time = {LANE(.limit = 1), .timeout_ns = WEIR_NEVER};

TEST(the_first_takes_the_permit_and_later_ones_ride_past_the_line_until_one_is_the_last)
{
    open_scene(one_at_a_time);
    struct guest a = {0}, b = {0}, other = {0};
    assert_int_equal(come(&a, "one"), WEIR_FLOW_ENTRY_INSIDE);
    assert_true(go(&a));
    expect_at_key(1, 0);
    assert_int_equal(come(&other, "two", .loop = 1), WEIR_FLOW_ENTRY_WAITING);
    assert_int_equal(come(&a, "one"), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&b, "one", .loop = 1), WEIR_FLOW_ENTRY_INSIDE);
    expect_at_key(1, 1);
    assert_true(go_last(&a, true));
    expect_at_key(1, 1);
    assert_int_equal(come(&a, "one"),
                     WEIR_FLOW_ENTRY_INSIDE); /* as somebody is: it may be from within */
    assert_true(go(&a));
    assert_true(go(&b));
    settle();
    expect_told(&other, INSIDE, 1);
    assert_int_equal(come(&a, "one"), WEIR_FLOW_ENTRY_WAITING); /* a new flow, behind the other */
    expect_at_key(1, 1);
    assert_true(go(&a));
    assert_true(go_last(&other, true));
    settle();
    expect_at_key(0, 0);
    close_scene();
}

TEST(who_comes_while_the_first_waits_goes_in_with_it_in_both_loops)
{
    open_scene(one_at_a_time);
    struct guest holder = {0}, flow_requests[6] = {0};
    assert_int_equal(come(&holder, "holder"), WEIR_FLOW_ENTRY_INSIDE);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(come(&flow_requests[i], "flow", .loop = i % 2, .depth = 6),
                         WEIR_FLOW_ENTRY_WAITING);
        expect_at_key(1, 1);
    }
    assert_true(go_last(&holder, true));
    settle();
    expect_at_key(1, 0);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(flow_requests[i].told, 1);
        expect_told(&flow_requests[i], INSIDE, 1);
        assert_true(go_last(&flow_requests[i], i == 0));
        settle();
        expect_at_key(i < 5, 0);
    }
    close_scene();
}

TEST(depth_bounds_requests_that_wait_and_requests_inside)
{
    open_scene(one_at_a_time);
    struct guest holder = {0}, flow_requests[4] = {0};
    for (uint32_t round = 0; round < 2; round++) { /* waiting, then inside */
        if (round == 0) {
            assert_int_equal(come(&holder, "holder"), WEIR_FLOW_ENTRY_INSIDE);
        }
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(come(&flow_requests[i], "flow", .loop = i % 2, .depth = 3),
                             round == 0 ? WEIR_FLOW_ENTRY_WAITING : WEIR_FLOW_ENTRY_INSIDE);
        }
        assert_int_equal(come(&flow_requests[3], "flow", .loop = 0, .depth = 3),
                         WEIR_FLOW_ENTRY_TOO_DEEP);
        assert_true(go(&flow_requests[3]));
        assert_int_equal(come(&flow_requests[3], "flow", .loop = 0, .depth = 4),
                         round == 0 ? WEIR_FLOW_ENTRY_WAITING : WEIR_FLOW_ENTRY_INSIDE);
        if (round == 0) {
            assert_true(go_last(&holder, true));
            settle();
        }
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(go(&flow_requests[i]));
        }
        expect_at_key(1, 0);
    }
    close_scene();
}

TEST(requests_may_go_away_in_every_order_and_the_ticket_goes_with_the_last)
{
    static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (uint32_t loops = 0; loops < 8; loops++) {
        for (uint32_t order = 0; order < 6; order++) {
            open_scene(one_at_a_time);
            struct guest holder = {0}, flow_requests[3] = {0};
            assert_int_equal(come(&holder, "holder"), WEIR_FLOW_ENTRY_INSIDE);
            for (uint32_t i = 0; i < 3; i++) {
                assert_int_equal(come(&flow_requests[i], "flow", .loop = loops >> i & 1),
                                 WEIR_FLOW_ENTRY_WAITING);
            }
            for (uint32_t i = 0; i < 3; i++) {
                assert_true(go(&flow_requests[orders[order][i]]));
                settle();
                expect_at_key(1, i < 2);
            }
            assert_true(go_last(&holder, true));
            expect_at_key(0, 0);
            close_scene();
        }
    }
}

TEST(who_comes_before_the_home_has_heard_that_all_are_gone_has_the_flows_place)
{
    open_scene(one_at_a_time);
    struct guest holder = {0}, a = {0}, b = {0}, other = {0};
    assert_int_equal(come(&holder, "holder"), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&a, "flow", .loop = 0), WEIR_FLOW_ENTRY_WAITING);
    assert_int_equal(come(&b, "flow", .loop = 1), WEIR_FLOW_ENTRY_WAITING);
    assert_int_equal(come(&other, "other", .loop = 0), WEIR_FLOW_ENTRY_WAITING);
    assert_true(go(&a));
    assert_true(go(&b)); /* in the other loop: the home is sent a post */
    expect_at_key(1, 2);
    assert_int_equal(come(&a, "flow", .loop = 1), WEIR_FLOW_ENTRY_WAITING);
    settle();
    expect_at_key(1, 2);
    assert_true(go_last(&holder, true));
    settle();
    expect_told(&a, INSIDE, 1);
    assert_int_equal(other.told, 0);
    assert_true(go_last(&a, true));
    settle();
    expect_told(&other, INSIDE, 1);
    assert_true(go_last(&other, true));
    close_scene();
}

TEST(a_permit_that_comes_when_all_have_gone_goes_on_to_the_next)
{
    for (uint32_t loop = 0; loop < 2; loop++) {
        open_scene(one_at_a_time);
        struct guest holder = {0}, a = {0}, b = {0}, next = {0};
        assert_int_equal(come(&holder, "holder"), WEIR_FLOW_ENTRY_INSIDE);
        assert_int_equal(come(&a, "flow", .loop = 0), WEIR_FLOW_ENTRY_WAITING);
        assert_int_equal(come(&b, "flow", .loop = loop), WEIR_FLOW_ENTRY_WAITING);
        assert_int_equal(come(&next, "next", .loop = 1), WEIR_FLOW_ENTRY_WAITING);
        assert_true(go(&a));
        assert_true(go_last(&holder, true)); /* the flow's ticket is admitted; nobody knows yet */
        assert_true(go(&b));
        settle();
        assert_int_equal(a.told + b.told, 0);
        expect_told(&next, INSIDE, 1);
        expect_at_key(1, 0);
        assert_true(go_last(&next, true));
        expect_at_key(0, 0);
        close_scene();
    }
}

TEST(a_permit_that_comes_to_requests_who_go_before_they_know_goes_on_to_the_next)
{
    open_scene(one_at_a_time);
    struct guest holder = {0}, a = {0}, b = {0}, next = {0};
    assert_int_equal(come(&holder, "holder"), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&a, "flow", .loop = 0), WEIR_FLOW_ENTRY_WAITING);
    assert_int_equal(come(&b, "flow", .loop = 1), WEIR_FLOW_ENTRY_WAITING);
    assert_int_equal(come(&next, "next"), WEIR_FLOW_ENTRY_WAITING);
    assert_true(go(&a));
    assert_true(go_last(&holder, true));
    (void)weir_loop_settle(&scene.loops[0]); /* lets b in, whose loop has not looked yet */
    assert_false(go(&b));
    settle();
    expect_told(&b, INSIDE, 0);
    expect_told(&next, INSIDE, 1);
    expect_at_key(1, 0);
    assert_true(go(&next)); /* who has known, and so keeps it */
    expect_at_key(1, 0);
    close_scene();
}

TEST(who_goes_while_a_post_to_it_is_under_way_is_told_when_it_has_arrived)
{
    open_scene(one_at_a_time);
    struct guest holder = {0}, a = {0}, b = {0};
    assert_int_equal(come(&holder, "holder"), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&a, "flow", .loop = 0), WEIR_FLOW_ENTRY_WAITING);
    assert_int_equal(come(&b, "flow", .loop = 1), WEIR_FLOW_ENTRY_WAITING);
    assert_true(go_last(&holder, true));
    (void)weir_loop_settle(&scene.loops[0]); /* lets both in; b's loop has not looked yet */
    expect_told(&a, INSIDE, 1);
    assert_false(go_last(&b, true));
    assert_true(go(&a)); /* b was inside, and its word counts */
    expect_at_key(0, 0);
    settle();
    assert_int_equal(b.told, 1);
    expect_told(&b, OUT, 1);
    close_scene();
}

/* A deadline that is over is seen by any call at the key; here of somebody who comes and goes. */
static void touch_key(void)
{
    struct guest nobody = {0};
    (void)come(&nobody, "nobody");
    assert_true(go(&nobody));
}

TEST(the_flow_keeps_its_place_as_long_as_one_of_its_requests_may_wait)
{
    struct weir_settings settings = {LANE(.limit = 1), .timeout_ns = 100 * MS};
    for (uint32_t loop = 0; loop < 2; loop++) {
        open_scene(settings);
        struct guest holder = {0}, a = {0}, b = {0}, between = {0};
        assert_int_equal(come(&holder, "holder"), WEIR_FLOW_ENTRY_INSIDE);
        assert_int_equal(come(&a, "flow", .loop = 0, .timeout_ns = 10 * MS),
                         WEIR_FLOW_ENTRY_WAITING);
        assert_int_equal(come(&between, "between", .loop = 0), WEIR_FLOW_ENTRY_WAITING);
        pass_time(5 * MS);
        assert_int_equal(come(&b, "flow", .loop = loop), WEIR_FLOW_ENTRY_WAITING);
        settle();
        pass_time(6 * MS); /* a's time is over, which its owner sees to */
        assert_true(go(&a));
        touch_key();
        settle();
        expect_at_key(1, 2);
        assert_true(go_last(&holder, true));
        settle();
        expect_told(&b, INSIDE, 1); /* before the one that came between the two */
        assert_int_equal(between.told, 0);
        assert_true(go_last(&b, true));
        settle();
        assert_true(go_last(&between, true));
        close_scene();
    }
}

TEST(when_the_ticket_is_late_its_requests_are_refused_but_for_one_that_has_just_come)
{
    struct weir_settings settings = {LANE(.limit = 1), .timeout_ns = 100 * MS};
    open_scene(settings);
    struct guest holder = {0}, a = {0}, same = {0}, later = {0};
    assert_int_equal(come(&holder, "holder"), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&a, "flow", .loop = 0), WEIR_FLOW_ENTRY_WAITING);
    assert_int_equal(come(&same, "flow", .loop = 1), WEIR_FLOW_ENTRY_WAITING);
    pass_time(100 * MS);
    assert_int_equal(come(&later, "flow", .loop = 1),
                     WEIR_FLOW_ENTRY_WAITING); /* the home has to hear of it */
    settle();
    expect_told(&a, REFUSED, 1);
    assert_int_equal(a.flow_request.end, WEIR_END_TIMEOUT);
    expect_told(&same, REFUSED, 1);
    assert_int_equal(later.told, 1);
    expect_told(&later, AGAIN, 1);
    expect_at_key(1, 0);
    assert_int_equal(ends_of(WEIR_END_TIMEOUT), 1);
    assert_int_equal(come(&later, "flow", .loop = 1), WEIR_FLOW_ENTRY_WAITING);
    expect_at_key(1, 1);
    assert_true(go(&a));
    assert_true(go(&same));
    assert_true(go_last(&holder, true));
    settle();
    expect_told(&later, INSIDE, 1);
    assert_true(go_last(&later, true));
    close_scene();
}

TEST(the_last_request_to_go_when_its_time_is_over_counts_as_a_timeout)
{
    struct weir_settings settings = {LANE(.limit = 1), .timeout_ns = 100 * MS};
    open_scene(settings);
    struct guest holder = {0}, a = {0};
    assert_int_equal(come(&holder, "holder"), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&a, "flow", .loop = 0, .timeout_ns = 10 * MS), WEIR_FLOW_ENTRY_WAITING);
    pass_time(10 * MS);
    assert_true(go(&a));
    settle();
    assert_int_equal(ends_of(WEIR_END_TIMEOUT), 1);
    assert_int_equal(ends_of(WEIR_END_CANCELLED), 0);
    assert_true(go_last(&holder, true));
    close_scene();
}

TEST(a_full_line_refuses_the_first_and_one_that_is_displaced_all)
{
    struct weir_settings settings = one_at_a_time;
    settings.line.tickets = 2;
    open_scene(settings);
    struct guest holder = {0}, a = {0}, b = {0}, b2 = {0}, c = {0}, few = {0};
    assert_int_equal(come(&holder, "holder"), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&a, "a", .tenant = "many"), WEIR_FLOW_ENTRY_WAITING);
    assert_int_equal(come(&b, "b", .tenant = "many"), WEIR_FLOW_ENTRY_WAITING);
    assert_int_equal(come(&b2, "b", .loop = 1),
                     WEIR_FLOW_ENTRY_WAITING); /* needs no place of its own */
    assert_int_equal(come(&c, "c", .tenant = "many"), WEIR_FLOW_ENTRY_REFUSED);
    assert_int_equal(c.flow_request.refusal, WEIR_LINE_FULL);
    assert_true(go(&c));
    assert_int_equal(come(&few, "few", .tenant = "few"), WEIR_FLOW_ENTRY_WAITING);
    settle();
    expect_told(&b, REFUSED, 1);
    expect_told(&b2, REFUSED, 1);
    assert_int_equal(b.flow_request.end, WEIR_END_DISPLACED);
    assert_int_equal(b2.flow_request.end, WEIR_END_DISPLACED);
    assert_true(go(&b));
    assert_true(go(&b2));
    assert_true(go(&a));
    assert_true(go(&few));
    assert_true(go_last(&holder, true));
    expect_at_key(0, 0);
    close_scene();
}

static void run_for(uint64_t duration_ns)
{
    weir_timer_set(&scene.loops[0], &scene.end, scene.loops[0].now_ns + duration_ns);
    weir_loop_run(&scene.loops[0]);
}

TEST(an_idle_flow_gives_its_permit_back_and_one_with_somebody_inside_does_not)
{
    for (uint32_t loop = 0; loop < 2; loop++) { /* in which it becomes idle */
        open_scene((struct weir_settings){LANE(.limit = 2), .timeout_ns = WEIR_NEVER});
        struct guest busy = {0}, a = {0};
        assert_int_equal(come(&busy, "busy", .idle_ns = MS), WEIR_FLOW_ENTRY_INSIDE);
        assert_true(go(&busy));
        assert_int_equal(come(&busy, "busy", .idle_ns = MS), WEIR_FLOW_ENTRY_INSIDE);
        assert_int_equal(come(&a, "flow", .loop = loop, .idle_ns = 3 * MS), WEIR_FLOW_ENTRY_INSIDE);
        assert_true(go(&a));
        expect_at_key(2, 0);
        run_for(20 * MS);
        expect_at_key(1, 0);
        scene.loops[1].now_ns = scene.loops[0].now_ns;
        assert_true(go(&busy));
        expect_at_key(1, 0);
        run_for(20 * MS);
        expect_at_key(0, 0);
        close_scene();
    }
}

#define REST_NS (UINT64_C(1000) * MS)

/* Both loops live two seconds earlier from now on. Returns when it is. */
static uint64_t go_back(void)
{
    uint64_t real_ns = scene.loops[0].now_ns;
    scene.loops[0].now_ns = scene.loops[1].now_ns = real_ns - 2 * REST_NS;
    return real_ns;
}

/* And now again: flows that have been left since then are at rest. */
static void come_back(uint64_t real_ns)
{
    scene.loops[0].now_ns = real_ns;
    run_for(2 * MS);
    scene.loops[1].now_ns = scene.loops[0].now_ns;
    settle();
}

TEST(a_flow_at_rest_yields_to_a_ticket_that_waits_or_comes_to_wait)
{
    for (uint32_t loop = 0; loop < 2; loop++) { /* in which a ticket waits */
        for (int comes_later = 0; comes_later <= 1; comes_later++) {
            open_scene((struct weir_settings){LANE(.limit = 2), .timeout_ns = WEIR_NEVER});
            struct guest first = {0}, second = {0}, next = {0};
            uint64_t real_ns = go_back();
            assert_int_equal(come(&first, "first"), WEIR_FLOW_ENTRY_INSIDE);
            assert_int_equal(come(&second, "second", .loop = 1), WEIR_FLOW_ENTRY_INSIDE);
            assert_true(go(&second));
            pass_time(MS);
            assert_true(go(&first));
            if (!comes_later) {
                assert_int_equal(come(&next, "next", .loop = loop), WEIR_FLOW_ENTRY_WAITING);
            }
            come_back(real_ns);
            if (comes_later) {
                expect_at_key(2, 0);
                assert_int_equal(come(&next, "next", .loop = loop), WEIR_FLOW_ENTRY_WAITING);
            }
            settle();
            expect_told(&next, INSIDE, 1);
            expect_at_key(2, 0);
            assert_int_equal(come(&first, "first"), WEIR_FLOW_ENTRY_INSIDE); /* the other yielded */
            assert_true(go(&first));
            assert_true(go(&next));
            close_scene();
        }
    }
}

TEST(a_flow_at_rest_that_is_used_again_does_not_yield)
{
    open_scene(one_at_a_time);
    struct guest a = {0}, next = {0};
    uint64_t real_ns = go_back();
    assert_int_equal(come(&a, "flow"), WEIR_FLOW_ENTRY_INSIDE);
    assert_true(go(&a));
    come_back(real_ns);
    assert_int_equal(come(&a, "flow", .loop = 1), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&next, "next"), WEIR_FLOW_ENTRY_WAITING);
    run_for(2 * MS);
    assert_int_equal(next.told, 0);
    assert_true(go_last(&a, true));
    settle();
    expect_told(&next, INSIDE, 1);
    assert_true(go(&next));
    close_scene();
}

TEST(for_a_tenants_own_limit_a_flow_of_that_tenant_yields)
{
    struct weir_tenant_settings few = {.weight = 1, .limit = 1};
    open_scene(
        (struct weir_settings){LANE(.limit = 3), .timeout_ns = WEIR_NEVER, .tenant_default = few});
    struct guest other = {0}, own = {0}, next = {0};
    uint64_t real_ns = go_back();
    assert_int_equal(come(&other, "a", .tenant = "other"), WEIR_FLOW_ENTRY_INSIDE);
    assert_true(go(&other));
    assert_int_equal(come(&own, "b", .tenant = "own"), WEIR_FLOW_ENTRY_INSIDE);
    assert_true(go(&own));
    assert_int_equal(come(&next, "c", .tenant = "own"), WEIR_FLOW_ENTRY_WAITING);
    come_back(real_ns);
    expect_told(&next, INSIDE, 1);
    expect_at_key(2, 0);
    assert_true(go(&next));
    close_scene();
}

TEST(the_keeper_finds_a_flow_at_rest_behind_many_that_would_not_help)
{
    struct weir_tenant_settings few = {.weight = 1, .limit = 1};
    open_scene((struct weir_settings){LANE(.limit = 100), .timeout_ns = WEIR_NEVER,
                                      .tenant_default = few});
    struct guest others[70] = {0}, own = {0}, next = {0};
    char names[COUNT_OF(others)][8];
    uint64_t real_ns = go_back();
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        assert_int_equal(come(&others[i], names[i], .tenant = names[i]), WEIR_FLOW_ENTRY_INSIDE);
        assert_true(go(&others[i]));
    }
    assert_int_equal(come(&own, "b", .tenant = "own"), WEIR_FLOW_ENTRY_INSIDE);
    assert_true(go(&own));
    come_back(real_ns);
    real_ns = go_back();
    assert_int_equal(come(&next, "c", .tenant = "own"), WEIR_FLOW_ENTRY_WAITING);
    settle();
    assert_int_equal(next.told, 0); /* it looks at so many only */
    come_back(real_ns);
    expect_told(&next, INSIDE, 1);
    assert_true(go(&next));
    close_scene();
}

TEST(a_flow_at_rest_keeps_its_permit_while_tickets_wait_for_something_else)
{
    open_scene(
        (struct weir_settings){LANE(.limit = 2, RATE(.tokens = 1, .period_ns = HOUR, .burst = 1,
                                                     .unit = WEIR_UNIT_REQUESTS)),
                               .timeout_ns = WEIR_NEVER});
    struct guest a = {0}, next = {0};
    uint64_t real_ns = go_back();
    assert_int_equal(come(&a, "flow"), WEIR_FLOW_ENTRY_INSIDE);
    assert_true(go(&a));
    assert_int_equal(come(&next, "next"), WEIR_FLOW_ENTRY_WAITING);
    come_back(real_ns);
    assert_int_equal(next.told, 0);
    expect_at_key(1, 1);
    assert_true(go(&next));
    settle();
    close_scene();
}

TEST(a_lease_that_is_over_ends_the_flow_as_soon_as_nobody_is_inside)
{
    open_scene(one_at_a_time);
    struct guest a = {0}, b = {0}, next = {0};
    scene.config.rules.lease_ns = 10 * MS;
    assert_int_equal(come(&a, "flow"), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&next, "next", .loop = 1), WEIR_FLOW_ENTRY_WAITING);
    pass_time(10 * MS);
    assert_int_equal(come(&b, "flow", .loop = 1),
                     WEIR_FLOW_ENTRY_INSIDE); /* or a would wait for itself */
    assert_true(go(&a));
    settle();
    assert_int_equal(next.told, 0);
    assert_true(go(&b));
    settle();
    expect_told(&next, INSIDE, 1);
    pass_time(9 * MS);
    assert_true(go(&next)); /* 1 ms is left, however long it may be idle */
    expect_at_key(1, 0);
    scene.loops[0].now_ns -= 19 * MS;
    run_for(60 * MS);
    expect_at_key(0, 0);
    close_scene();
}

TEST(draining_ends_what_is_idle_at_once_and_the_rest_when_it_becomes_so)
{
    open_scene((struct weir_settings){LANE(.limit = 2), .timeout_ns = WEIR_NEVER});
    struct guest busy = {0}, idle = {0}, next = {0};
    assert_int_equal(come(&busy, "busy"), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&idle, "idle", .loop = 1), WEIR_FLOW_ENTRY_INSIDE);
    assert_true(go(&idle));
    assert_int_equal(come(&next, "next", .loop = 1), WEIR_FLOW_ENTRY_WAITING);
    weir_flows_drain(scene.flows, 0);
    settle();
    expect_told(&next, INSIDE, 1);
    expect_at_key(2, 0);
    assert_true(go(&busy));
    expect_at_key(1, 0);
    assert_true(go(&next));
    expect_at_key(0, 0);
    close_scene();
}

static enum weir_status release_by_name(const struct weir_key *key, const char *flow,
                                        uint32_t loop_index)
{
    struct weir_flow_name name = {.key = key, .flow = weir_slice_of(flow)};
    return weir_flows_release(scene.flows, &name, &(struct weir_result){0}, loop_index);
}

TEST(a_flow_is_released_by_its_name_at_once_or_with_those_who_are_inside)
{
    open_scene(one_at_a_time);
    struct guest a = {0}, b = {0};
    assert_int_equal(come(&a, "flow"), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&b, "other", .loop = 1), WEIR_FLOW_ENTRY_WAITING);
    struct weir_key *key = a.gate_ticket.key;
    assert_int_equal(release_by_name(key, "none", 1), WEIR_NOT_HELD);
    assert_int_equal(release_by_name(key, "other", 1), WEIR_NOT_HELD); /* it waits */
    assert_int_equal(release_by_name(key, "flow", 1), WEIR_OK);
    expect_at_key(1, 1);
    assert_true(go(&a));
    settle();
    expect_told(&b, INSIDE, 1);
    key = b.gate_ticket.key;
    assert_true(go(&b));
    expect_at_key(1, 0);
    assert_int_equal(release_by_name(key, "other", 0), WEIR_OK);
    expect_at_key(0, 0);
    assert_int_equal(release_by_name(key, "other", 0), WEIR_NOT_HELD);
    close_scene();
}

TEST(a_flow_is_released_for_a_tenant_only_if_it_is_of_that_one)
{
    open_scene(one_at_a_time);
    struct guest a = {0};
    assert_int_equal(come(&a, "flow", .tenant = "acme"), WEIR_FLOW_ENTRY_INSIDE);
    struct weir_flow_name name = {a.gate_ticket.key, weir_slice_of("flow"), weir_slice_of("acm")};
    assert_true(go(&a));
    assert_int_equal(weir_flows_release(scene.flows, &name, &(struct weir_result){0}, 0),
                     WEIR_NOT_HELD);
    expect_at_key(1, 0);
    name.tenant = weir_slice_of("acme");
    assert_int_equal(weir_flows_release(scene.flows, &name, &(struct weir_result){0}, 0), WEIR_OK);
    expect_at_key(0, 0);
    close_scene();
}

/* A breaker of one failure: afterwards the lane is paused. */
static bool paused_after(enum weir_outcome first, enum weir_outcome second)
{
    struct weir_lane_stats stats;
    open_scene((struct weir_settings){
        LANE(.limit = 1, .breaker = {.failures = 1, .pause_ns = HOUR, .pause_max_ns = HOUR}),
        .timeout_ns = WEIR_NEVER});
    struct guest a = {0}, b = {0};
    assert_int_equal(come(&a, "flow"), WEIR_FLOW_ENTRY_INSIDE);
    assert_int_equal(come(&b, "flow"), WEIR_FLOW_ENTRY_INSIDE);
    assert_true(weir_flow_request_leave(&a.flow_request, first, true));
    assert_true(weir_flow_request_leave(&b.flow_request, second, false));
    assert_true(weir_gates_lane(a.gate_ticket.key, 0, scene.loops[0].now_ns, &stats));
    weir_gate_ticket_close(&a.gate_ticket);
    weir_gate_ticket_close(&b.gate_ticket);
    close_scene();
    return stats.paused_until_ns != 0;
}

TEST(the_permit_goes_back_with_the_last_outcome_that_says_something)
{
    assert_true(paused_after(WEIR_OUTCOME_SUCCESS, WEIR_OUTCOME_SOFT_LOSS));
    assert_true(paused_after(WEIR_OUTCOME_SOFT_LOSS, WEIR_OUTCOME_CANCELLED));
    assert_false(paused_after(WEIR_OUTCOME_SOFT_LOSS, WEIR_OUTCOME_SUCCESS));
    assert_false(paused_after(WEIR_OUTCOME_CANCELLED, WEIR_OUTCOME_CANCELLED));
}

TEST(without_memory_a_flow_is_refused_and_may_come_again)
{
    for (uint64_t fail_at = 1;; fail_at++) {
        open_scene(one_at_a_time);
        struct guest a = {0};
        scene.flow_memory.fail_at = scene.flow_memory.calls + fail_at;
        enum weir_flow_entry enter_flow = come(&a, "flow");
        bool failed = scene.flow_memory.failed > 0;
        if (enter_flow == WEIR_FLOW_ENTRY_REFUSED) {
            assert_true(failed);
            assert_int_equal(a.flow_request.refusal, WEIR_NO_MEMORY);
            assert_int_equal(come(&a, "flow"), WEIR_FLOW_ENTRY_INSIDE);
        }
        assert_true(go_last(&a, true));
        close_scene();
        if (!failed) {
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            the_first_takes_the_permit_and_later_ones_ride_past_the_line_until_one_is_the_last),
        cmocka_unit_test(who_comes_while_the_first_waits_goes_in_with_it_in_both_loops),
        cmocka_unit_test(depth_bounds_requests_that_wait_and_requests_inside),
        cmocka_unit_test(requests_may_go_away_in_every_order_and_the_ticket_goes_with_the_last),
        cmocka_unit_test(who_comes_before_the_home_has_heard_that_all_are_gone_has_the_flows_place),
        cmocka_unit_test(a_permit_that_comes_when_all_have_gone_goes_on_to_the_next),
        cmocka_unit_test(
            a_permit_that_comes_to_requests_who_go_before_they_know_goes_on_to_the_next),
        cmocka_unit_test(who_goes_while_a_post_to_it_is_under_way_is_told_when_it_has_arrived),
        cmocka_unit_test(the_flow_keeps_its_place_as_long_as_one_of_its_requests_may_wait),
        cmocka_unit_test(
            when_the_ticket_is_late_its_requests_are_refused_but_for_one_that_has_just_come),
        cmocka_unit_test(the_last_request_to_go_when_its_time_is_over_counts_as_a_timeout),
        cmocka_unit_test(a_full_line_refuses_the_first_and_one_that_is_displaced_all),
        cmocka_unit_test(an_idle_flow_gives_its_permit_back_and_one_with_somebody_inside_does_not),
        cmocka_unit_test(a_flow_at_rest_yields_to_a_ticket_that_waits_or_comes_to_wait),
        cmocka_unit_test(a_flow_at_rest_that_is_used_again_does_not_yield),
        cmocka_unit_test(the_keeper_finds_a_flow_at_rest_behind_many_that_would_not_help),
        cmocka_unit_test(for_a_tenants_own_limit_a_flow_of_that_tenant_yields),
        cmocka_unit_test(a_flow_at_rest_keeps_its_permit_while_tickets_wait_for_something_else),
        cmocka_unit_test(a_lease_that_is_over_ends_the_flow_as_soon_as_nobody_is_inside),
        cmocka_unit_test(draining_ends_what_is_idle_at_once_and_the_rest_when_it_becomes_so),
        cmocka_unit_test(a_flow_is_released_by_its_name_at_once_or_with_those_who_are_inside),
        cmocka_unit_test(a_flow_is_released_for_a_tenant_only_if_it_is_of_that_one),
        cmocka_unit_test(the_permit_goes_back_with_the_last_outcome_that_says_something),
        cmocka_unit_test(without_memory_a_flow_is_refused_and_may_come_again),
    };
    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
