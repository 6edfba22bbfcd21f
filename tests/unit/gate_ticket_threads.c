/* Passes on several threads, each with a loop: permits are handed over in any order, and none is
 * lost. */
#define _GNU_SOURCE
#include "gates/gate_ticket.h"

#include "unit/gate_ticket_helpers.h"
#include "unit/storm.h"

#include <pthread.h>
#include <stdatomic.h>

#define MS UINT64_C(1000000)

#define LOOPS_MAX   4
#define GUESTS_EACH 12
#define KEYS        4
#define LEASED      3 /* the key whose leases run out, so that who is inside cannot be counted */

static const char *const key_names[KEYS] = {"one", "two", "three", "leased"};
static const uint32_t key_limits[KEYS] = {1, 2, 3, 2};

struct stage;

/* What a visitor is doing. */
enum doing {
    OUTSIDE,
    IN_LINE,
    INSIDE,
    LEAVING, /* waits to be told that no post is left */
};

struct visitor {
    struct weir_gate_ticket first; /* the permit passes from one to the other now and then */
    struct weir_gate_ticket second;
    struct weir_gate_ticket *gate_ticket; /* the one of the two that is at the gate */
    struct stage *stage;
    struct weir_timer timer;
    struct weir_post again;
    bool deferred; /* `again` is under way */
    enum doing doing;
    uint32_t key;
    uint32_t rounds; /* still to come */
};

/* One thread. */
struct stage {
    struct weir_loop loop;
    uint32_t index;
    uint32_t playing; /* visitors with rounds left */
    uint64_t random;
    uint64_t endings;
    uint64_t ends[WEIR_END_COUNT];
    uint64_t told_idle;
    uint64_t passed;
    struct weir_post stop;
    struct visitor visitors[GUESTS_EACH];
};

struct storm {
    struct weir_gates *gates;
    uint32_t loop_count;
    struct stage stages[LOOPS_MAX];
    atomic_uint inside[KEYS];
    atomic_uint finished;
};

static struct storm storm;

static uint32_t below(struct stage *stage, uint32_t bound)
{
    return (uint32_t)(next_random(&stage->random) % bound);
}

static void defer_visitor(struct visitor *visitor)
{
    if (!visitor->deferred) {
        visitor->deferred = true;
        weir_loop_defer(&visitor->stage->loop, &visitor->again);
    }
}

/* Acts again soon: in the next turn, or a little later. */
static void act_soon(struct visitor *visitor)
{
    struct stage *stage = visitor->stage;
    if (below(stage, 3) > 0) {
        defer_visitor(visitor);
    } else {
        weir_timer_set(&stage->loop, &visitor->timer,
                       stage->loop.now_ns + below(stage, 400) * UINT64_C(1000));
    }
}

static void stop_stage(struct weir_post *post)
{
    weir_loop_stop(&weir_container_of(post, struct stage, stop)->loop);
}

/* Whoever is last stops all, because until then each loop's alarms may be what others wait for. */
static void finish_stage(void)
{
    if (atomic_fetch_add(&storm.finished, 1) + 1 < storm.loop_count) {
        return;
    }
    for (uint32_t i = 0; i < storm.loop_count; i++) {
        storm.stages[i].stop.arrive = stop_stage;
        weir_loop_post(&storm.stages[i].loop, &storm.stages[i].stop);
    }
}

/* The one ending of a round. */
static void end_round(struct visitor *visitor)
{
    struct stage *stage = visitor->stage;
    expect_right(visitor->doing != OUTSIDE);
    expect_right(visitor->rounds > 0);
    visitor->doing = OUTSIDE;
    weir_timer_set(&stage->loop, &visitor->timer, WEIR_NEVER);
    stage->endings++;
    stage->ends[visitor->gate_ticket->ticket.end]++;
    if (--visitor->rounds > 0) {
        act_soon(visitor);
    } else if (--stage->playing == 0) {
        finish_stage();
    }
}

static void go_inside(struct visitor *visitor)
{
    visitor->doing = INSIDE;
    if (visitor->key != LEASED) {
        uint32_t others = atomic_fetch_add(&storm.inside[visitor->key], 1);
        expect_right(others < key_limits[visitor->key]);
    }
    act_soon(visitor);
}

static void go_outside(struct visitor *visitor)
{
    if (visitor->doing == INSIDE && visitor->key != LEASED) {
        atomic_fetch_sub(&storm.inside[visitor->key], 1);
    }
}

static void leave_or_cancel(struct visitor *visitor)
{
    go_outside(visitor);
    bool leaves = visitor->doing == INSIDE && below(visitor->stage, 4) > 0;
    struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
    visitor->doing = LEAVING;
    if (leaves ? weir_gate_ticket_leave(visitor->gate_ticket, &result)
               : weir_gate_ticket_cancel(visitor->gate_ticket)) {
        end_round(visitor);
    }
}

static void come_in(struct visitor *visitor)
{
    static const char *const tenants[] = {"", "a", "b"};
    struct stage *stage = visitor->stage;
    visitor->key = below(stage, KEYS);
    struct weir_request request = {.tenant = weir_slice_of(tenants[below(stage, 3)]),
                                   .priority = (enum weir_priority)below(stage, 3),
                                   .no_wait = below(stage, 16) == 0};
    if (below(stage, 3) == 0) {
        request.deadline_ns = stage->loop.now_ns + 1 + below(stage, 1000) * UINT64_C(1000);
    }
    if (visitor->key == LEASED) {
        request.lease_ns = 1 + below(stage, 300) * UINT64_C(1000);
    }
    struct weir_destination where = {.loop_index = stage->index,
                                     .key = weir_slice_of(key_names[visitor->key])};
    visitor->doing = IN_LINE;
    switch (weir_gate_ticket_enter(storm.gates, visitor->gate_ticket, &where, &request)) {
    case WEIR_ADMITTED:
        go_inside(visitor);
        break;
    case WEIR_WAITING:
        if (below(stage, 2) == 0) {
            act_soon(visitor); /* loses patience, if nothing happens before */
        }
        break;
    case WEIR_REFUSED:
        weir_gate_ticket_close(visitor->gate_ticket);
        end_round(visitor);
        break;
    }
}

/* Now and then somebody looks, tidies up or configures in the middle of it all. */
static void disturb(struct stage *stage)
{
    struct weir_settings settings = {LANE(.limit = 1), .forget_ns = 1, .timeout_ns = 20 * MS};
    switch (below(stage, 64)) {
    case 0:
        weir_gates_sweep(storm.gates, stage->loop.now_ns);
        break;
    case 1:
        (void)add_up_keys(storm.gates, 0);
        break;
    case 2:
        expect_right(weir_gates_configure(storm.gates, 0, &settings, stage->index) == WEIR_OK);
        break;
    default:
        break;
    }
}

/* Passes the permit to the other ticket. If its lease was over first, that will be told. */
static void pass_on(struct visitor *visitor)
{
    struct weir_gate_ticket *to =
        visitor->gate_ticket == &visitor->first ? &visitor->second : &visitor->first;
    if (weir_gate_ticket_pass(visitor->gate_ticket, to, visitor->stage->index) == WEIR_OK) {
        visitor->gate_ticket = to;
        visitor->stage->passed++;
        act_soon(visitor);
    }
}

static void act(struct visitor *visitor)
{
    if (visitor->doing == OUTSIDE && visitor->rounds > 0) {
        disturb(visitor->stage);
        come_in(visitor);
    } else if (visitor->doing == INSIDE && below(visitor->stage, 4) == 0) {
        pass_on(visitor);
    } else if (visitor->doing == IN_LINE || visitor->doing == INSIDE) {
        leave_or_cancel(visitor);
    }
}

static void act_again(struct weir_post *post)
{
    struct visitor *visitor = weir_container_of(post, struct visitor, again);
    visitor->deferred = false;
    act(visitor);
}

static void act_in_time(struct weir_timer *timer)
{
    act(weir_container_of(timer, struct visitor, timer));
}

static void tell_visitor(struct visitor *visitor, struct weir_gate_ticket *gate_ticket,
                         enum weir_ticket_state state)
{
    expect_right(gate_ticket == visitor->gate_ticket);
    switch (state) {
    case WEIR_TICKET_ADMITTED:
        expect_right(visitor->doing == IN_LINE);
        go_inside(visitor);
        break;
    case WEIR_TICKET_ENDED:
        expect_right(visitor->doing == IN_LINE || visitor->doing == INSIDE);
        go_outside(visitor);
        weir_gate_ticket_close(gate_ticket);
        end_round(visitor);
        break;
    case WEIR_TICKET_IDLE:
        expect_right(visitor->doing == LEAVING);
        visitor->stage->told_idle++;
        end_round(visitor);
        break;
    default:
        expect_right(state != WEIR_TICKET_WAITING);
    }
}

static void tell_first(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state)
{
    tell_visitor(weir_container_of(gate_ticket, struct visitor, first), gate_ticket, state);
}

static void tell_second(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state)
{
    tell_visitor(weir_container_of(gate_ticket, struct visitor, second), gate_ticket, state);
}

static const struct weir_permit_owner first_owner = {.kind = "first", .on_change = tell_first};
static const struct weir_permit_owner second_owner = {.kind = "second", .on_change = tell_second};

static void *play(void *context)
{
    struct stage *stage = context;
    weir_loop_run(&stage->loop);
    return NULL;
}

static void open_stage(struct stage *stage, uint32_t index, uint32_t rounds,
                       const struct weir_allocator *allocator)
{
    assert_true(weir_loop_init(&stage->loop, allocator));
    stage->index = index;
    stage->random = index + 1;
    stage->playing = GUESTS_EACH;
    for (uint32_t i = 0; i < GUESTS_EACH; i++) {
        struct visitor *visitor = &stage->visitors[i];
        *visitor = (struct visitor){.first.owner = &first_owner,
                                    .second.owner = &second_owner,
                                    .gate_ticket = &visitor->first,
                                    .stage = stage,
                                    .again.arrive = act_again,
                                    .rounds = rounds};
        assert_true(weir_timer_init(&stage->loop, &visitor->timer, act_in_time));
        defer_visitor(visitor);
    }
}

static void close_stage(struct stage *stage)
{
    for (uint32_t i = 0; i < GUESTS_EACH; i++) {
        weir_timer_deinit(&stage->loop, &stage->visitors[i].timer);
    }
    weir_loop_deinit(&stage->loop);
}

static void set_limits(void)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        struct weir_settings settings = {LANE(.limit = key_limits[i]), .line.tickets = 12,
                                         .forget_ns = 1, .timeout_ns = 20 * MS};
        assert_int_equal(
            weir_gates_override(storm.gates, 0, weir_slice_of(key_names[i]), &settings), WEIR_OK);
    }
}

static void play_storm(uint32_t loop_count, uint32_t rounds)
{
    struct shared_memory memory;
    struct weir_loop *loops[LOOPS_MAX];
    pthread_t threads[LOOPS_MAX];
    shared_memory_init(&memory);
    memset(&storm, 0, sizeof storm);
    storm.loop_count = loop_count;
    for (uint32_t i = 0; i < loop_count; i++) {
        open_stage(&storm.stages[i], i, rounds, &memory.allocator);
        loops[i] = &storm.stages[i].loop;
    }
    struct weir_gates_options options = {
        .allocator = &memory.allocator, .loops = loops, .loop_count = loop_count};
    assert_int_equal(weir_gates_create(&options, &storm.gates), WEIR_OK);
    add_gates(storm.gates, 1);
    set_limits();
    for (uint32_t i = 0; i < loop_count; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, play, &storm.stages[i]), 0);
    }
    uint64_t endings = 0, ends[WEIR_END_COUNT] = {0}, told_idle = 0, passed = 0;
    for (uint32_t i = 0; i < loop_count; i++) {
        pthread_join(threads[i], NULL);
        endings += storm.stages[i].endings;
        told_idle += storm.stages[i].told_idle;
        passed += storm.stages[i].passed;
        for (int end = 0; end < WEIR_END_COUNT; end++) {
            ends[end] += storm.stages[i].ends[end];
        }
    }
    assert_int_equal(atomic_load(&storm_wrong), 0);
    assert_int_equal(endings, (uint64_t)loop_count * GUESTS_EACH * rounds);
    struct weir_key_stats sum = add_up_keys(storm.gates, 0);
    validate_keys(storm.gates, 0);
    assert_int_equal(sum.active, 0);
    assert_int_equal(sum.waiting, 0);
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(atomic_load(&storm.inside[i]), 0);
    }
    /* It was a storm: every way to end has been taken. */
    assert_int_equal(ends[WEIR_END_NONE], 0);
    for (int end = WEIR_END_NONE + 1; end < WEIR_END_COUNT; end++) {
        assert_true(ends[end] > 0);
    }
    assert_true(told_idle > 0);
    assert_true(passed > 0);
    weir_gates_destroy(storm.gates);
    for (uint32_t i = 0; i < loop_count; i++) {
        close_stage(&storm.stages[i]);
    }
    expect_no_memory_out(&memory.memory);
}

TEST(in_a_storm_of_two_loops_nobody_is_lost_and_no_limit_is_passed)
{
    play_storm(2, 600);
}

TEST(in_a_storm_of_four_loops_nobody_is_lost_and_no_limit_is_passed)
{
    play_storm(4, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_storm_of_two_loops_nobody_is_lost_and_no_limit_is_passed),
        cmocka_unit_test(in_a_storm_of_four_loops_nobody_is_lost_and_no_limit_is_passed),
    };
    return cmocka_run_group_tests_name("pass_threads", tests, NULL, NULL);
}
