/* Permits of tasks: on one loop whose time is set by hand, and by several threads that want the
 * same ones. */
#define _GNU_SOURCE
#include "gates/task_permit.h"

#include "base/slice.h"
#include "unit/helpers.h"

#include <pthread.h>

#define LOOPS     4
#define GATES     3
#define TASKS_MAX 4000

struct scene {
    struct memory memory; /* of the gates */
    struct memory task_memory;
    struct memory loop_memory[LOOPS];
    struct weir_loop loop[LOOPS];
    struct weir_loop *loops[LOOPS];
    struct weir_gates *gates;
    struct weir_task_permits *task_permits;
    struct weir_post end_of_turn;
};

static struct scene scene;

static void stop_at_post(struct weir_post *post)
{
    (void)post;
    weir_loop_stop(&scene.loop[0]);
}

/* Lets everything that was deferred so far arrive. */
static void one_turn(void)
{
    scene.end_of_turn.arrive = stop_at_post;
    weir_loop_defer(&scene.loop[0], &scene.end_of_turn);
    weir_loop_run(&scene.loop[0]);
}

static void open_scene(struct weir_settings settings, uint32_t count_max)
{
    memset(&scene, 0, sizeof scene);
    memory_init(&scene.memory);
    memory_init(&scene.task_memory);
    for (size_t i = 0; i < LOOPS; i++) {
        memory_init(&scene.loop_memory[i]);
        assert_true(weir_loop_init(&scene.loop[i], &scene.loop_memory[i].allocator));
        scene.loops[i] = &scene.loop[i];
    }
    struct weir_gates_options options = {.allocator = &scene.memory.allocator,
                                         .seed = {1, 2},
                                         .loops = scene.loops,
                                         .loop_count = LOOPS};
    assert_int_equal(weir_gates_create(&options, &scene.gates), WEIR_OK);
    for (uint32_t i = 0; i < GATES; i++) {
        char name = (char)('a' + i);
        uint32_t number;
        assert_int_equal(weir_gates_add(scene.gates, (struct weir_slice){&name, 1}, &number),
                         WEIR_OK);
        assert_int_equal(weir_gates_configure(scene.gates, number, &settings, 0), WEIR_OK);
    }
    scene.task_permits =
        weir_task_permits_create(scene.gates, count_max, &scene.task_memory.allocator);
    assert_non_null(scene.task_permits);
}

static void close_scene(void)
{
    weir_task_permits_destroy(scene.task_permits);
    weir_gates_destroy(scene.gates);
    for (size_t i = 0; i < LOOPS; i++) {
        weir_loop_deinit(&scene.loop[i]);
        expect_no_memory_out(&scene.loop_memory[i]);
    }
    expect_no_memory_out(&scene.task_memory);
    expect_no_memory_out(&scene.memory);
}

static const struct weir_settings many_at_once = {LANE(.no_limit = true), .timeout_ns = WEIR_NEVER};
static const struct weir_settings one_at_a_time = {LANE(.limit = 1), .timeout_ns = WEIR_NEVER};

/* ---- requests ---- */

static uint32_t requests_told;

static void on_request_told(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state)
{
    (void)gate_ticket;
    (void)state;
    requests_told++;
}

static const struct weir_permit_owner request_owner = {.kind = "request",
                                                       .on_change = on_request_told};

static enum weir_admission enter_gate(struct weir_gate_ticket *request, const char *key)
{
    struct weir_destination where = {.gate = 1, .key = weir_slice_of(key)};
    *request = (struct weir_gate_ticket){.owner = &request_owner,
                                         .from = "192.0.2.1",
                                         .tenant = weir_slice_of("tenant"),
                                         .flow = weir_slice_of("flow")};
    return weir_gate_ticket_enter(scene.gates, request, &where, &(struct weir_request){0});
}

static bool keep_for(const char *key, const char *task, uint64_t lease_ns)
{
    struct weir_gate_ticket request;
    assert_int_equal(enter_gate(&request, key), WEIR_ADMITTED);
    bool kept =
        weir_task_permits_keep(scene.task_permits, &request, 1, weir_slice_of(task), lease_ns);
    if (kept) {
        assert_null(request.key);
    } else {
        assert_true(weir_gate_ticket_leave(&request, &(struct weir_result){0}));
    }
    return kept;
}

static bool keep(const char *task)
{
    return keep_for("key", task, 10 * SECOND);
}

static struct weir_task_name name_of(uint32_t gate, const char *key, const char *task)
{
    return (struct weir_task_name){gate, weir_slice_of(key), weir_slice_of(task)};
}

static bool renew(const char *task)
{
    struct weir_task_name name = name_of(1, "key", task);
    return weir_task_permits_renew(scene.task_permits, &name, 0);
}

static bool end(const char *task)
{
    struct weir_task_name name = name_of(1, "key", task);
    return weir_task_permits_end(scene.task_permits, &name, WEIR_OUTCOME_SUCCESS, 0);
}

static uint64_t join(const char *task)
{
    struct weir_task_name name = name_of(1, "key", task);
    return weir_task_permits_join(scene.task_permits, &name, WEIR_TASK_WATCH, 0);
}

static void leave_task(const char *task, uint64_t joined)
{
    struct weir_task_name name = name_of(1, "key", task);
    weir_task_permits_leave(scene.task_permits, &name, WEIR_TASK_WATCH, joined, 0);
}

static uint32_t active_at_gate(void)
{
    uint32_t active = 0;
    for (struct weir_key *key = weir_gates_next(scene.gates, 1, NULL); key != NULL;
         key = weir_gates_next(scene.gates, 1, key)) {
        active += weir_gates_stats(key).active;
        weir_key_validate(key);
    }
    return active;
}

/* ---- one task ---- */

TEST(a_task_keeps_the_permit_until_it_ends)
{
    open_scene(one_at_a_time, TASKS_MAX);
    struct weir_gate_ticket other;
    assert_true(keep("task:1"));
    assert_int_equal(active_at_gate(), 1);
    assert_int_equal(weir_task_permits_count(scene.task_permits), 1);
    requests_told = 0;
    assert_int_equal(enter_gate(&other, "key"), WEIR_WAITING);
    assert_true(end("task:1"));
    one_turn();
    assert_int_equal(requests_told, 1);
    assert_true(weir_gate_ticket_leave(&other, &(struct weir_result){0}));
    assert_false(end("task:1"));
    assert_false(renew("task:1"));
    assert_int_equal(join("task:1"), 0);
    assert_int_equal(active_at_gate(), 0);
    assert_int_equal(weir_task_permits_count(scene.task_permits), 0);
    close_scene();
}

TEST(only_its_gate_key_and_name_together_find_a_task)
{
    open_scene(many_at_once, TASKS_MAX);
    assert_true(keep("task:1"));
    struct weir_task_name others[] = {name_of(2, "key", "task:1"), name_of(1, "kex", "task:1"),
                                      name_of(1, "key", "task:2"), name_of(1, "keyt", "ask:1"),
                                      name_of(1, "ke", "ytask:1")};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_false(weir_task_permits_renew(scene.task_permits, &others[i], 0));
        assert_false(
            weir_task_permits_end(scene.task_permits, &others[i], WEIR_OUTCOME_SUCCESS, 0));
        assert_int_equal(weir_task_permits_join(scene.task_permits, &others[i], WEIR_TASK_WATCH, 0),
                         0);
    }
    assert_true(keep_for("kex", "task:1", HOUR));
    assert_true(end("task:1"));
    assert_int_equal(active_at_gate(), 1);
    close_scene(); /* which gives the other one back */
}

/* One below, at it, and one above. */
TEST(a_task_without_a_sign_of_life_loses_its_permit_when_the_lease_is_over)
{
    for (uint64_t silent_ns = 10 * SECOND - 1; silent_ns <= 10 * SECOND + 1; silent_ns++) {
        open_scene(one_at_a_time, TASKS_MAX);
        assert_true(keep("task:1"));
        scene.loop[0].now_ns += 10 * SECOND - 1;
        assert_true(renew("task:1"));
        scene.loop[0].now_ns += silent_ns;
        bool over = silent_ns >= 10 * SECOND;
        assert_int_equal(renew("task:1"), !over);
        one_turn();
        assert_int_equal(active_at_gate(), over ? 0 : 1);
        assert_int_equal(weir_task_permits_count(scene.task_permits), over ? 0 : 1);
        close_scene();
    }
}

TEST(a_name_may_be_used_again_before_the_end_of_the_lease_has_been_told)
{
    open_scene(one_at_a_time, TASKS_MAX);
    assert_true(keep("task:1"));
    scene.loop[0].now_ns += 10 * SECOND;
    assert_true(keep("task:1")); /* its request finds that the lease is over */
    assert_int_equal(weir_task_permits_count(scene.task_permits), 2);
    one_turn();
    assert_int_equal(weir_task_permits_count(scene.task_permits), 1);
    assert_int_equal(active_at_gate(), 1);
    assert_true(end("task:1"));
    close_scene();
}

TEST(a_task_that_requests_have_joined_has_no_lease)
{
    open_scene(one_at_a_time, TASKS_MAX);
    assert_true(keep("task:1"));
    uint64_t first = join("task:1");
    uint64_t second = join("task:1");
    assert_true(first != 0 && second == first);
    scene.loop[0].now_ns += DAY;
    assert_true(renew("task:1"));
    leave_task("task:1", first);
    scene.loop[0].now_ns += DAY;
    assert_true(renew("task:1"));
    assert_int_equal(active_at_gate(), 1);
    leave_task("task:1", second);
    scene.loop[0].now_ns += 10 * SECOND - 1;
    assert_true(renew("task:1"));
    scene.loop[0].now_ns += 10 * SECOND;
    assert_false(renew("task:1"));
    one_turn();
    close_scene();
}

TEST(one_request_at_a_time_has_the_work_of_a_task_go_on)
{
    open_scene(one_at_a_time, TASKS_MAX);
    struct weir_task_name name = name_of(1, "key", "task:1");
    assert_true(keep("task:1"));
    for (int i = 0; i < 2; i++) {
        uint64_t works = weir_task_permits_join(scene.task_permits, &name, WEIR_TASK_WORK, 0);
        assert_int_not_equal(works, 0);
        assert_int_equal(weir_task_permits_join(scene.task_permits, &name, WEIR_TASK_WORK, 0), 0);
        uint64_t watches = join("task:1");
        assert_int_not_equal(watches, 0);
        leave_task("task:1", watches);
        assert_int_equal(weir_task_permits_join(scene.task_permits, &name, WEIR_TASK_WORK, 0), 0);
        scene.loop[0].now_ns += DAY;
        assert_true(renew("task:1"));
        weir_task_permits_leave(scene.task_permits, &name, WEIR_TASK_WORK, works, 0);
    }
    assert_true(end("task:1"));
    close_scene();
}

TEST(who_leaves_a_task_that_has_ended_changes_nothing_at_the_next_of_that_name)
{
    open_scene(one_at_a_time, TASKS_MAX);
    assert_true(keep("task:1"));
    uint64_t before = join("task:1");
    assert_true(end("task:1"));
    leave_task("task:1", before);
    assert_true(keep("task:1"));
    uint64_t now = join("task:1");
    assert_int_not_equal(now, before);
    leave_task("task:1", before);
    scene.loop[0].now_ns += DAY;
    assert_true(renew("task:1")); /* it is still joined */
    leave_task("task:1", now);
    assert_true(end("task:1"));
    close_scene();
}

TEST(a_second_permit_of_a_task_stays_with_its_request_and_is_a_sign_of_life)
{
    open_scene(many_at_once, TASKS_MAX);
    assert_true(keep("task:1"));
    scene.loop[0].now_ns += 10 * SECOND - 1;
    assert_false(keep("task:1"));
    scene.loop[0].now_ns += 10 * SECOND - 1;
    assert_true(renew("task:1"));
    uint64_t joined = join("task:1");
    assert_false(keep("task:1"));
    scene.loop[0].now_ns += DAY;
    assert_int_equal(active_at_gate(), 1);
    leave_task("task:1", joined);
    assert_true(end("task:1"));
    close_scene();
}

static bool meet_holder(void *context, const struct weir_permit_holder *holder)
{
    struct weir_permit_holder *met = context;
    *met = *holder;
    return false;
}

TEST(a_task_is_listed_as_a_holder_with_its_name_and_who_began_it)
{
    static const struct {
        const char *task;
        size_t bytes;
    } cases[] = {{"task:1", 6},
                 {"task:0123456789012345678901234567890123456789012345678901234567x", 64},
                 {"task:0123456789012345678901234567890123456789012345678901234567xy", 64}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        open_scene(many_at_once, TASKS_MAX);
        struct weir_gate_ticket request;
        assert_int_equal(enter_gate(&request, "key"), WEIR_ADMITTED);
        uint64_t since_ns = scene.loop[0].now_ns;
        scene.loop[0].now_ns += SECOND;
        assert_true(weir_task_permits_keep(scene.task_permits, &request, 1,
                                           weir_slice_of(cases[i].task), HOUR));
        struct weir_permit_holder holder = {0};
        for (struct weir_key *key = weir_gates_next(scene.gates, 1, NULL); key != NULL;
             key = weir_gates_next(scene.gates, 1, key)) {
            weir_gates_holders(key, 0, (struct weir_slice){0}, meet_holder, &holder);
        }
        assert_string_equal(holder.kind, "task");
        assert_int_equal(holder.name_bytes, cases[i].bytes);
        assert_memory_equal(holder.name, cases[i].task, cases[i].bytes);
        assert_true(weir_slice_equal(holder.tenant, weir_slice_of("tenant")));
        assert_true(weir_slice_equal(holder.flow, weir_slice_of("flow")));
        assert_string_equal(holder.from, "192.0.2.1");
        assert_int_equal(holder.since_ns, since_ns);
        assert_int_equal(holder.lease_end_ns, scene.loop[0].now_ns + HOUR);
        close_scene();
    }
}

/* ---- bounds and memory ---- */

TEST(one_task_too_many_keeps_no_permit)
{
    open_scene(many_at_once, 2);
    assert_true(keep("task:1"));
    assert_true(keep("task:2"));
    assert_false(keep("task:3"));
    assert_false(keep("task:1"));
    assert_int_equal(active_at_gate(), 2);
    assert_true(end("task:1"));
    assert_true(keep("task:3"));
    assert_int_equal(active_at_gate(), 2);
    close_scene();
}

TEST(without_memory_a_task_keeps_no_permit_and_the_request_gives_it_back)
{
    for (uint64_t fail_at = 1; fail_at < 10; fail_at++) {
        open_scene(many_at_once, TASKS_MAX);
        scene.task_memory.fail_at = scene.task_memory.calls + fail_at;
        bool kept = keep("task:1");
        assert_int_equal(active_at_gate(), kept);
        assert_int_equal(kept, scene.task_memory.failed == 0);
        close_scene();
    }
}

TEST(without_memory_for_a_lease_the_permit_goes_back_at_once)
{
    open_scene(many_at_once, TASKS_MAX);
    struct weir_gate_ticket request;
    assert_int_equal(enter_gate(&request, "key"), WEIR_ADMITTED);
    scene.memory.fail_at = scene.memory.calls + 1;
    assert_true(
        weir_task_permits_keep(scene.task_permits, &request, 1, weir_slice_of("task:1"), HOUR));
    assert_int_equal(scene.memory.failed, 1);
    assert_int_equal(active_at_gate(), 0);
    assert_int_equal(weir_task_permits_count(scene.task_permits), 0);
    close_scene();
}

TEST(a_table_that_cannot_be_made_leaves_nothing_behind)
{
    open_scene(many_at_once, TASKS_MAX);
    scene.task_memory.fail_at = scene.task_memory.calls + 1;
    assert_null(weir_task_permits_create(scene.gates, 1, &scene.task_memory.allocator));
    weir_task_permits_destroy(NULL);
    close_scene();
}

/* ---- several threads ---- */

#define MANY 2000

static char many_tasks[MANY][12];

struct rival {
    pthread_t thread;
    uint32_t loop_index;
    uint32_t ended;
};

/* Joins, renews and ends them all; what another one was first at has ended. */
static void *end_all_tasks(void *context)
{
    struct rival *rival = context;
    for (size_t i = 0; i < MANY; i++) {
        size_t at = rival->loop_index % 2 == 0 ? i : MANY - 1 - i;
        struct weir_task_name name = name_of(1, at % 2 == 0 ? "even" : "odd", many_tasks[at]);
        uint64_t joined =
            weir_task_permits_join(scene.task_permits, &name, WEIR_TASK_WATCH, rival->loop_index);
        (void)weir_task_permits_renew(scene.task_permits, &name, rival->loop_index);
        rival->ended += weir_task_permits_end(scene.task_permits, &name, WEIR_OUTCOME_SUCCESS,
                                              rival->loop_index);
        weir_task_permits_leave(scene.task_permits, &name, WEIR_TASK_WATCH, joined,
                                rival->loop_index);
    }
    return NULL;
}

TEST(of_several_threads_that_end_a_task_one_is_first)
{
    static struct rival rivals[LOOPS];
    uint32_t ended = 0;
    open_scene(many_at_once, TASKS_MAX);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(many_tasks[i], sizeof many_tasks[i], "task:%u", (unsigned)i);
        assert_true(keep_for(i % 2 == 0 ? "even" : "odd", many_tasks[i], HOUR));
    }
    for (uint32_t i = 0; i < LOOPS; i++) {
        rivals[i] = (struct rival){.loop_index = i};
        assert_int_equal(pthread_create(&rivals[i].thread, NULL, end_all_tasks, &rivals[i]), 0);
    }
    for (uint32_t i = 0; i < LOOPS; i++) {
        assert_int_equal(pthread_join(rivals[i].thread, NULL), 0);
        ended += rivals[i].ended;
    }
    assert_int_equal(ended, MANY);
    assert_int_equal(active_at_gate(), 0);
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_keeps_the_permit_until_it_ends),
        cmocka_unit_test(only_its_gate_key_and_name_together_find_a_task),
        cmocka_unit_test(a_task_without_a_sign_of_life_loses_its_permit_when_the_lease_is_over),
        cmocka_unit_test(a_name_may_be_used_again_before_the_end_of_the_lease_has_been_told),
        cmocka_unit_test(a_task_that_requests_have_joined_has_no_lease),
        cmocka_unit_test(one_request_at_a_time_has_the_work_of_a_task_go_on),
        cmocka_unit_test(who_leaves_a_task_that_has_ended_changes_nothing_at_the_next_of_that_name),
        cmocka_unit_test(a_second_permit_of_a_task_stays_with_its_request_and_is_a_sign_of_life),
        cmocka_unit_test(a_task_is_listed_as_a_holder_with_its_name_and_who_began_it),
        cmocka_unit_test(one_task_too_many_keeps_no_permit),
        cmocka_unit_test(without_memory_a_task_keeps_no_permit_and_the_request_gives_it_back),
        cmocka_unit_test(without_memory_for_a_lease_the_permit_goes_back_at_once),
        cmocka_unit_test(a_table_that_cannot_be_made_leaves_nothing_behind),
        cmocka_unit_test(of_several_threads_that_end_a_task_one_is_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
