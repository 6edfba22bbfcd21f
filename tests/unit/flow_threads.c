/* Flows and their requests on several threads, where no order of things can be chosen. */
#define _GNU_SOURCE
#include "gates/flow.h"

#include "unit/shared_memory.h"
#include "unit/storm.h"

#include <pthread.h>
#include <stdatomic.h>

#define MS UINT64_C(1000000)

#define LOOPS_MAX   4
#define RIDERS_EACH 16
#define KEYS        2
#define FLOWS       5
#define DEPTH       6

static const char *const key_names[KEYS] = {"one", "two"};
static const uint32_t key_limits[KEYS] = {1, 2};
static const char *const flow_names[FLOWS] = {"a", "b", "c", "d", "e"};

enum doing {
    OUTSIDE,
    IN_LINE,
    INSIDE,
    LEAVING /* waits to be told that no post is left */
};

struct stage;

struct visitor {
    struct weir_flow_request flow_request;
    struct weir_gate_ticket gate_ticket;
    struct stage *stage;
    struct weir_timer timer;
    enum doing doing;
    uint32_t key;
    uint32_t flow;
    uint32_t rounds; /* still to come */
};

/* One thread. */
struct stage {
    struct weir_loop loop;
    uint32_t index;
    uint32_t playing;
    uint64_t random;
    uint64_t told_of[WEIR_FLOW_REQUEST_AGAIN + 1];
    uint64_t rides[WEIR_FLOW_ENTRY_TOO_DEEP + 1];
    struct weir_post stop;
    struct visitor visitors[RIDERS_EACH];
};

struct storm {
    struct weir_gates *gates;
    struct weir_flows *flows;
    struct weir_config_gate config;
    struct weir_loop *loops[LOOPS_MAX];
    uint32_t loop_count;
    struct stage stages[LOOPS_MAX];
    pthread_mutex_t lock;
    uint32_t inside[KEYS][FLOWS];
    uint32_t flows_inside[KEYS];
    atomic_uint finished;
};

static struct storm storm;

static uint32_t below(struct stage *stage, uint32_t bound)
{
    return (uint32_t)(next_random(&stage->random) % bound);
}

static void act_soon(struct visitor *visitor)
{
    struct stage *stage = visitor->stage;
    weir_timer_set(&stage->loop, &visitor->timer,
                   stage->loop.now_ns + below(stage, 300) * UINT64_C(1000));
}

static void stop_stage(struct weir_post *post)
{
    weir_loop_stop(&weir_container_of(post, struct stage, stop)->loop);
}

/* Whoever is last stops all, because until then each loop may be what others wait for. */
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

static void end_round(struct visitor *visitor)
{
    expect_right(visitor->doing != OUTSIDE);
    visitor->doing = OUTSIDE;
    weir_timer_set(&visitor->stage->loop, &visitor->timer, WEIR_NEVER);
    if (--visitor->rounds > 0) {
        act_soon(visitor);
    } else if (--visitor->stage->playing == 0) {
        finish_stage();
    }
}

/* How many flows are inside at a key, whatever the gate says. */
static void count(const struct visitor *visitor, bool enters)
{
    pthread_mutex_lock(&storm.lock);
    uint32_t *inside = &storm.inside[visitor->key][visitor->flow];
    if (enters) {
        storm.flows_inside[visitor->key] += (*inside)++ == 0;
        expect_right(storm.flows_inside[visitor->key] <= key_limits[visitor->key]);
        expect_right(*inside <= DEPTH);
    } else {
        storm.flows_inside[visitor->key] -= --(*inside) == 0;
    }
    pthread_mutex_unlock(&storm.lock);
}

static void go_inside(struct visitor *visitor)
{
    visitor->doing = INSIDE;
    count(visitor, true);
    act_soon(visitor);
}

static void let_go(struct visitor *visitor)
{
    if (visitor->doing == INSIDE) {
        count(visitor, false);
    }
    visitor->doing = LEAVING;
    bool gone = weir_flow_request_leave(&visitor->flow_request, WEIR_OUTCOME_SUCCESS,
                                        below(visitor->stage, 4) == 0);
    weir_gate_ticket_close(&visitor->gate_ticket);
    if (gone) {
        end_round(visitor);
    }
}

static void enter_flow(struct visitor *visitor)
{
    struct stage *stage = visitor->stage;
    struct weir_flow_params params = {
        .key = visitor->gate_ticket.key,
        .config = &storm.config,
        .loop_index = stage->index,
        .flow = weir_slice_of(flow_names[visitor->flow]),
        .request = {.deadline_ns = visitor->gate_ticket.ticket.deadline_ns},
        .depth = DEPTH,
        .idle_ns = 1 + below(stage, 500) * UINT64_C(1000)};
    visitor->doing = IN_LINE;
    enum weir_flow_entry enter_flow =
        weir_flow_request_enter(storm.flows, &visitor->flow_request, &params);
    stage->rides[enter_flow]++;
    if (enter_flow == WEIR_FLOW_ENTRY_INSIDE) {
        go_inside(visitor);
    } else if (enter_flow != WEIR_FLOW_ENTRY_WAITING) {
        let_go(visitor);
    } else if (below(stage, 3) == 0) {
        act_soon(visitor); /* loses patience, if nothing happens before */
    }
}

static void come_in(struct visitor *visitor)
{
    struct stage *stage = visitor->stage;
    visitor->key = below(stage, KEYS);
    visitor->flow = below(stage, FLOWS);
    struct weir_destination where = {.loop_index = stage->index,
                                     .key = weir_slice_of(key_names[visitor->key])};
    uint64_t asked_ns =
        below(stage, 3) == 0 ? stage->loop.now_ns + 1 + below(stage, 800) * UINT64_C(1000) : 0;
    expect_right(weir_gate_ticket_visit(storm.gates, &visitor->gate_ticket, &where, asked_ns) ==
                 WEIR_OK);
    enter_flow(visitor);
}

/* Now and then somebody releases a flow from outside, or tidies up. */
static void disturb(struct stage *stage)
{
    uint32_t what = below(stage, 32);
    if (what == 0) {
        weir_gates_sweep(storm.gates, stage->loop.now_ns);
    } else if (what == 1) {
        struct weir_result well = {0};
        struct weir_key *key =
            weir_gates_find(storm.gates, 0, weir_slice_of(key_names[below(stage, KEYS)]));
        if (key != NULL) {
            struct weir_flow_name name = {key, weir_slice_of(flow_names[below(stage, FLOWS)]), {0}};
            (void)!weir_flows_release(storm.flows, &name, &well, stage->index);
            weir_key_give(key);
        }
    }
}

static void act(struct weir_timer *timer)
{
    struct visitor *visitor = weir_container_of(timer, struct visitor, timer);
    if (visitor->doing == OUTSIDE && visitor->rounds > 0) {
        disturb(visitor->stage);
        come_in(visitor);
    } else if (visitor->doing == IN_LINE || visitor->doing == INSIDE) {
        let_go(visitor);
    }
}

static void tell_visitor(struct weir_flow_request *flow_request, enum weir_flow_request_state state)
{
    struct visitor *visitor = weir_container_of(flow_request, struct visitor, flow_request);
    visitor->stage->told_of[state]++;
    switch (state) {
    case WEIR_FLOW_REQUEST_INSIDE:
        expect_right(visitor->doing == IN_LINE);
        go_inside(visitor);
        break;
    case WEIR_FLOW_REQUEST_REFUSED:
        expect_right(visitor->doing == IN_LINE);
        let_go(visitor);
        break;
    case WEIR_FLOW_REQUEST_AGAIN:
        expect_right(visitor->doing == IN_LINE);
        enter_flow(visitor);
        break;
    default:
        expect_right(visitor->doing == LEAVING);
        end_round(visitor);
    }
}

static void *play(void *context)
{
    weir_loop_run(&((struct stage *)context)->loop);
    return NULL;
}

static void open_stage(struct stage *stage, uint32_t index, uint32_t rounds,
                       const struct weir_allocator *allocator)
{
    assert_true(weir_loop_init(&stage->loop, allocator));
    stage->index = index;
    stage->random = index + 1;
    stage->playing = RIDERS_EACH;
    for (uint32_t i = 0; i < RIDERS_EACH; i++) {
        struct visitor *visitor = &stage->visitors[i];
        *visitor = (struct visitor){
            .flow_request.on_change = tell_visitor, .stage = stage, .rounds = rounds};
        assert_true(weir_timer_init(&stage->loop, &visitor->timer, act));
        act_soon(visitor);
    }
}

static void expect_nothing_left(void)
{
    for (struct weir_key *key = weir_gates_next(storm.gates, 0, NULL); key != NULL;
         key = weir_gates_next(storm.gates, 0, key)) {
        struct weir_key_stats stats = weir_gates_stats(key);
        weir_key_validate(key);
        assert_int_equal(stats.active, 0);
        assert_int_equal(stats.waiting, 0);
    }
}

static void settle_storm(void)
{
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < storm.loop_count; i++) {
            any = weir_loop_settle(&storm.stages[i].loop) || any;
        }
    }
}

static void open_storm(uint32_t loop_count, uint32_t rounds, struct shared_memory *memory)
{
    struct weir_loop **loops = storm.loops;
    uint32_t number;
    memset(&storm, 0, sizeof storm);
    pthread_mutex_init(&storm.lock, NULL);
    storm.config.rules.lease_ns = 5 * MS;
    storm.loop_count = loop_count;
    for (uint32_t i = 0; i < loop_count; i++) {
        open_stage(&storm.stages[i], i, rounds, &memory->allocator);
        loops[i] = &storm.stages[i].loop;
    }
    struct weir_gates_options options = {
        .allocator = &memory->allocator, .loops = loops, .loop_count = loop_count};
    assert_int_equal(weir_gates_create(&options, &storm.gates), WEIR_OK);
    assert_int_equal(weir_gates_add(storm.gates, weir_slice_of("gate"), &number), WEIR_OK);
    for (uint32_t i = 0; i < KEYS; i++) {
        struct weir_settings settings = {LANE(.limit = key_limits[i]), .line.tickets = 3,
                                         .forget_ns = 1, .timeout_ns = 2 * MS};
        assert_int_equal(
            weir_gates_override(storm.gates, 0, weir_slice_of(key_names[i]), &settings), WEIR_OK);
    }
    storm.flows = weir_flows_create(storm.gates, &memory->allocator);
    assert_non_null(storm.flows);
}

static void close_storm(struct shared_memory *memory)
{
    weir_flows_destroy(storm.flows);
    expect_nothing_left();
    weir_gates_destroy(storm.gates);
    for (uint32_t i = 0; i < storm.loop_count; i++) {
        for (uint32_t j = 0; j < RIDERS_EACH; j++) {
            weir_timer_deinit(&storm.stages[i].loop, &storm.stages[i].visitors[j].timer);
        }
        weir_loop_deinit(&storm.stages[i].loop);
    }
    expect_no_memory_out(&memory->memory);
}

static void play_storm(uint32_t loop_count, uint32_t rounds)
{
    struct shared_memory memory;
    pthread_t threads[LOOPS_MAX];
    uint64_t told_of[WEIR_FLOW_REQUEST_AGAIN + 1] = {0}, rides[WEIR_FLOW_ENTRY_TOO_DEEP + 1] = {0};
    shared_memory_init(&memory);
    open_storm(loop_count, rounds, &memory);
    for (uint32_t i = 0; i < loop_count; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, play, &storm.stages[i]), 0);
    }
    for (uint32_t i = 0; i < loop_count; i++) {
        pthread_join(threads[i], NULL);
        for (size_t j = 0; j < COUNT_OF(told_of); j++) {
            told_of[j] += storm.stages[i].told_of[j];
        }
        for (size_t j = 0; j < COUNT_OF(rides); j++) {
            rides[j] += storm.stages[i].rides[j];
        }
    }
    settle_storm();
    assert_int_equal(atomic_load(&storm_wrong), 0);
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(storm.flows_inside[i], 0);
    }
    /* It was a storm: every way has been taken, but for AGAIN, which is a matter of luck. */
    for (size_t i = 0; i < COUNT_OF(rides); i++) {
        assert_true(rides[i] > 0);
    }
    assert_true(told_of[WEIR_FLOW_REQUEST_INSIDE] > 0);
    assert_true(told_of[WEIR_FLOW_REQUEST_REFUSED] > 0);
    assert_true(told_of[WEIR_FLOW_REQUEST_OUT] > 0);
    close_storm(&memory);
}

TEST(in_a_storm_of_two_loops_no_more_flows_are_inside_than_may_be_and_nothing_is_left)
{
    play_storm(2, 600);
}

TEST(in_a_storm_of_four_loops_no_more_flows_are_inside_than_may_be_and_nothing_is_left)
{
    play_storm(4, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            in_a_storm_of_two_loops_no_more_flows_are_inside_than_may_be_and_nothing_is_left),
        cmocka_unit_test(
            in_a_storm_of_four_loops_no_more_flows_are_inside_than_may_be_and_nothing_is_left),
    };
    return cmocka_run_group_tests_name("flow_threads", tests, NULL, NULL);
}
