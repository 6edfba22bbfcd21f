/* api_permit_helpers.h - a scene of gates, loops whose time is set by hand, and permits of the API.
 */
#ifndef WEIR_TESTS_UNIT_API_PERMIT_HELPERS_H
#define WEIR_TESTS_UNIT_API_PERMIT_HELPERS_H

#include "api/api_permit.h"

#include "base/slice.h"
#include "unit/helpers.h"

#define LOOPS 4
#define GATES 3

struct scene {
    struct memory memory; /* of the gates; what permits take is their own */
    struct memory loop_memory[LOOPS];
    struct weir_loop loop[LOOPS];
    struct weir_loop *loops[LOOPS];
    struct weir_gates *gates;
    struct weir_api_permits *api_permits;
    struct weir_post end_of_turn;
    uint32_t admitted; /* how many were told so */
    uint32_t lapsed;
    uint32_t gone;
    const struct weir_call *lapsed_call; /* of the last one that lapsed */
};

static struct scene scene;

/* As the API does it, but that nobody waits for the reply. */
static inline void on_told(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state)
{
    struct weir_api_permit *api_permit =
        weir_container_of(gate_ticket, struct weir_api_permit, gate_ticket);
    if (state == WEIR_TICKET_ADMITTED) {
        scene.admitted++;
        assert_true(weir_api_permit_hold(api_permit));
    } else if (state == WEIR_TICKET_ENDED) {
        scene.lapsed++;
        scene.lapsed_call = api_permit->call;
        weir_api_permit_lapse(api_permit);
    } else {
        scene.gone++;
        weir_api_permit_give(api_permit);
    }
}

static inline void stop_at_post(struct weir_post *post)
{
    (void)post;
    weir_loop_stop(&scene.loop[0]);
}

/* Lets everything that was deferred so far arrive. */
static inline void one_turn(void)
{
    scene.end_of_turn.arrive = stop_at_post;
    weir_loop_defer(&scene.loop[0], &scene.end_of_turn);
    weir_loop_run(&scene.loop[0]);
}

static inline void open_scene(struct weir_settings settings)
{
    memset(&scene, 0, sizeof scene);
    memory_init(&scene.memory);
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
    scene.api_permits = weir_api_permits_create();
    assert_non_null(scene.api_permits);
}

static inline void close_scene(void)
{
    weir_api_permits_destroy(scene.api_permits);
    weir_gates_destroy(scene.gates);
    for (size_t i = 0; i < LOOPS; i++) {
        weir_loop_deinit(&scene.loop[i]);
        expect_no_memory_out(&scene.loop_memory[i]);
    }
    expect_no_memory_out(&scene.memory);
}

static const struct weir_settings many_at_once = {LANE(.no_limit = true), .timeout_ns = WEIR_NEVER};
static const struct weir_settings one_at_a_time = {LANE(.limit = 1), .timeout_ns = WEIR_NEVER};

static const struct weir_permit_owner test_owner = {.kind = "test", .on_change = on_told};

/* ---- acquire ---- */

static inline struct weir_api_permit *take(const char *flow)
{
    struct weir_api_permit *api_permit = weir_api_permit_take(scene.api_permits);
    assert_non_null(api_permit);
    size_t bytes = strlen(flow);
    assert_true(bytes <= sizeof api_permit->flow_text);
    memcpy(api_permit->flow_text, flow, bytes);
    api_permit->gate_ticket.flow = (struct weir_slice){api_permit->flow_text, bytes};
    api_permit->gate_ticket.owner = &test_owner;
    api_permit->lease_ns = WEIR_NEVER;
    return api_permit;
}

static inline enum weir_admission enter_gate(struct weir_api_permit *api_permit, uint32_t gate,
                                             const char *key)
{
    struct weir_request request = {.lease_ns = api_permit->lease_ns};
    struct weir_destination where = {.gate = gate, .key = weir_slice_of(key)};
    api_permit->gate = gate;
    return weir_gate_ticket_enter(scene.gates, &api_permit->gate_ticket, &where, &request);
}

static inline struct weir_api_permit *acquire_for(uint64_t lease_ns, uint32_t gate, const char *key,
                                                  const char *flow)
{
    struct weir_api_permit *api_permit = take(flow);
    api_permit->lease_ns = lease_ns;
    assert_int_equal(enter_gate(api_permit, gate, key), WEIR_ADMITTED);
    assert_true(weir_api_permit_hold(api_permit));
    return api_permit;
}

static inline struct weir_api_permit *acquire(uint32_t gate, const char *key, const char *flow)
{
    return acquire_for(WEIR_NEVER, gate, key, flow);
}

/* ---- release and renew ---- */

struct id {
    char text[WEIR_API_PERMIT_TEXT_BYTES];
};

static inline struct id id_of(const struct weir_api_permit *api_permit)
{
    struct id id;
    weir_api_permit_format(api_permit, id.text);
    return id;
}

static inline struct weir_api_permit_name by_id(uint32_t gate, const char *key, const struct id *id)
{
    return (struct weir_api_permit_name){
        .gate = gate, .key = weir_slice_of(key), .permit = {id->text, sizeof id->text}};
}

static inline struct weir_api_permit_name by_flow(uint32_t gate, const char *key, const char *flow)
{
    return (struct weir_api_permit_name){
        .gate = gate, .key = weir_slice_of(key), .flow = weir_slice_of(flow)};
}

static inline enum weir_status release(struct weir_api_permit_name name)
{
    return weir_api_permits_release(scene.api_permits, &name, &(struct weir_result){0}, 0);
}

static inline enum weir_status renew(struct weir_api_permit_name name, uint64_t *lease_ns)
{
    return weir_api_permits_renew(scene.api_permits, &name, lease_ns, 0);
}

#define expect_released(name) assert_int_equal(release(name), WEIR_OK)
#define expect_not_held(name)                                     \
    do {                                                          \
        uint64_t lease_ns_ = 1;                                   \
        assert_int_equal(renew(name, &lease_ns_), WEIR_NOT_HELD); \
        assert_int_equal(lease_ns_, 1);                           \
        assert_int_equal(release(name), WEIR_NOT_HELD);           \
    } while (0)

static inline uint32_t active_at(uint32_t gate)
{
    uint32_t active = 0;
    for (struct weir_key *key = weir_gates_next(scene.gates, gate, NULL); key != NULL;
         key = weir_gates_next(scene.gates, gate, key)) {
        weir_key_validate(key);
        active += weir_gates_stats(key).active;
    }
    return active;
}

/* ---- names ---- */

#endif
