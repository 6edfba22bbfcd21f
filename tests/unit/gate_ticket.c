/* Passes: the hand-over between a key and the loops of those who wait there; on one loop, where
 * every order of things can be chosen, and on several threads, where none can. */
#define _GNU_SOURCE
#include "gates/gate_ticket.h"
#include "gates/override.h"

#include "unit/gate_ticket_helpers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define MS       UINT64_C(1000000)
#define PATIENCE (5 * SECOND)

/* ---- one loop ---- */

struct scene {
    struct memory memory;      /* of the gates */
    struct memory loop_memory; /* of the loop */
    struct weir_loop loop;
    struct weir_loop *loops[1];
    struct weir_gates *gates;
    struct weir_event_log *event_log; /* mostly null */
    struct weir_timer patience;       /* so that a test that waits in vain fails soon */
    struct weir_post end_of_turn;
    uint32_t awaited; /* how many are still to be told before the loop stops */
    bool impatient;
};

static struct scene scene;

/* Somebody with a gate ticket, who writes down what is told. */
struct guest {
    struct weir_gate_ticket gate_ticket;
    uint32_t told;
    uint32_t told_of[WEIR_TICKET_ENDED + 1];
};

static void write_down(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state)
{
    struct guest *guest = weir_container_of(gate_ticket, struct guest, gate_ticket);
    guest->told++;
    guest->told_of[state]++;
    if (scene.awaited > 0 && --scene.awaited == 0) {
        weir_loop_stop(&scene.loop);
    }
}

static size_t call_me_guest(const struct weir_gate_ticket *gate_ticket,
                            char text[WEIR_PERMIT_NAME_BYTES_MAX])
{
    (void)gate_ticket;
    memcpy(text, "me", 2);
    return 2;
}

static const struct weir_permit_owner guest_owner = {
    .kind = "guest", .on_change = write_down, .name = call_me_guest};

#define GUEST                                   \
    (struct guest)                              \
    {                                           \
        .gate_ticket = {.owner = &guest_owner } \
    }

static void lose_patience(struct weir_timer *timer)
{
    (void)timer;
    scene.impatient = true;
    weir_loop_stop(&scene.loop);
}

/* Runs the loop until so many were told. */
static void await(uint32_t count)
{
    scene.awaited = count;
    weir_timer_set(&scene.loop, &scene.patience, scene.loop.now_ns + PATIENCE);
    weir_loop_run(&scene.loop);
    weir_timer_set(&scene.loop, &scene.patience, WEIR_NEVER);
    assert_false(scene.impatient);
}

static void stop_at_post(struct weir_post *post)
{
    (void)post;
    weir_loop_stop(&scene.loop);
}

/* Lets everything that was deferred so far arrive. */
static void one_turn(void)
{
    scene.end_of_turn.arrive = stop_at_post;
    weir_loop_defer(&scene.loop, &scene.end_of_turn);
    weir_loop_run(&scene.loop);
}

static void open_scene_with(struct weir_settings settings, uint32_t keys_max)
{
    struct weir_event_log *event_log = scene.event_log;
    memset(&scene, 0, sizeof scene);
    scene.event_log = event_log;
    memory_init(&scene.memory);
    memory_init(&scene.loop_memory);
    assert_true(weir_loop_init(&scene.loop, &scene.loop_memory.allocator));
    assert_true(weir_timer_init(&scene.loop, &scene.patience, lose_patience));
    scene.loops[0] = &scene.loop;
    struct weir_gates_options options = {.allocator = &scene.memory.allocator,
                                         .seed = {1, 2},
                                         .loops = scene.loops,
                                         .loop_count = 1,
                                         .keys_max = keys_max,
                                         .event_log = event_log};
    assert_int_equal(weir_gates_create(&options, &scene.gates), WEIR_OK);
    add_gates(scene.gates, 2);
    assert_int_equal(weir_gates_configure(scene.gates, 1, &settings, 0), WEIR_OK);
}

static void open_scene(struct weir_settings settings)
{
    open_scene_with(settings, 0);
}

static void close_scene(void)
{
    weir_gates_destroy(scene.gates);
    weir_timer_deinit(&scene.loop, &scene.patience);
    weir_loop_deinit(&scene.loop);
    expect_no_memory_out(&scene.memory);
    expect_no_memory_out(&scene.loop_memory);
}

static enum weir_admission enter_at(struct guest *guest, const char *key,
                                    struct weir_request request)
{
    struct weir_destination where = {.gate = 1, .key = weir_slice_of(key)};
    return weir_gate_ticket_enter(scene.gates, &guest->gate_ticket, &where, &request);
}

static enum weir_admission come(struct guest *guest)
{
    return enter_at(guest, "key", (struct weir_request){0});
}

static bool go(struct guest *guest)
{
    return weir_gate_ticket_leave(&guest->gate_ticket, &(struct weir_result){0});
}

#define expect_at_keys(key_count, active_count, waiting_count)    \
    do {                                                          \
        struct weir_key_stats sum_ = add_up_keys(scene.gates, 1); \
        validate_keys(scene.gates, 1);                            \
        assert_int_equal(sum_.entered, key_count);                \
        assert_int_equal(sum_.active, active_count);              \
        assert_int_equal(sum_.waiting, waiting_count);            \
    } while (0)

#define expect_told(who, of, count) assert_int_equal((who)->told_of[WEIR_TICKET_##of], count)

#define expect_told_nothing(guest) assert_int_equal((guest)->told, 0)

static const struct weir_settings one_at_a_time = {LANE(.limit = 1), .timeout_ns = WEIR_NEVER};

TEST(who_comes_first_is_admitted_and_the_next_one_waits)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_WAITING);
    expect_at_keys(1, 1, 1);
    struct weir_key_stats stats = weir_gate_ticket_stats(&b.gate_ticket);
    assert_int_equal(stats.active, 1);
    assert_int_equal(stats.waiting, 1);
    assert_true(go(&a));
    await(1);
    assert_true(go(&b));
    expect_told_nothing(&a);
    expect_at_keys(1, 0, 0);
    close_scene();
}

TEST(who_may_not_wait_is_refused_and_can_still_ask_the_key)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(enter_at(&b, "key", (struct weir_request){.no_wait = true}), WEIR_REFUSED);
    expect_refused(&b.gate_ticket.ticket, WEIR_WOULD_WAIT);
    assert_int_equal(weir_gate_ticket_stats(&b.gate_ticket).active, 1);
    assert_true(weir_gate_ticket_predict(&b.gate_ticket) > 0);
    weir_gate_ticket_close(&b.gate_ticket);
    assert_true(go(&a));
    one_turn();
    expect_told_nothing(&b);
    close_scene();
}

TEST(a_full_line_refuses_at_its_bound_and_not_before)
{
    struct weir_settings settings = one_at_a_time;
    settings.line.tickets = 2;
    open_scene(settings);
    struct guest inside = GUEST, first = GUEST, second = GUEST, third = GUEST;
    assert_int_equal(come(&inside), WEIR_ADMITTED);
    assert_int_equal(come(&first), WEIR_WAITING);
    assert_int_equal(come(&second), WEIR_WAITING);
    assert_int_equal(come(&third), WEIR_REFUSED);
    expect_refused(&third.gate_ticket.ticket, WEIR_LINE_FULL);
    weir_gate_ticket_close(&third.gate_ticket);
    assert_true(weir_gate_ticket_cancel(&second.gate_ticket));
    assert_int_equal(come(&third), WEIR_WAITING);
    assert_true(weir_gate_ticket_cancel(&third.gate_ticket));
    assert_true(weir_gate_ticket_cancel(&first.gate_ticket));
    assert_true(go(&inside));
    close_scene();
}

TEST(a_key_that_cannot_be_had_is_a_refusal)
{
    char name[257];
    memset(name, 'n', sizeof name);
    name[256] = '\0';
    open_scene_with(one_at_a_time, 1);
    struct guest a = GUEST, b = GUEST;
    assert_int_equal(enter_at(&a, "", (struct weir_request){0}), WEIR_REFUSED);
    assert_int_equal(a.gate_ticket.ticket.refusal, WEIR_BAD_NAME);
    weir_gate_ticket_close(&a.gate_ticket);
    assert_int_equal(enter_at(&a, name, (struct weir_request){0}), WEIR_REFUSED);
    assert_int_equal(a.gate_ticket.ticket.refusal, WEIR_BAD_NAME);
    weir_gate_ticket_close(&a.gate_ticket);
    assert_int_equal(enter_at(&a, name + 1, (struct weir_request){0}), WEIR_ADMITTED);
    assert_int_equal(enter_at(&b, "other", (struct weir_request){0}), WEIR_REFUSED);
    assert_int_equal(b.gate_ticket.ticket.refusal, WEIR_TOO_MANY_KEYS);
    weir_gate_ticket_close(&b.gate_ticket);
    assert_true(go(&a));
    close_scene();
}

TEST(a_permit_given_back_is_told_to_the_next_one_in_its_loop_and_not_within_the_call)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_WAITING);
    assert_int_equal(come(&c), WEIR_WAITING);
    assert_true(go(&a));
    expect_told_nothing(&b);
    await(1);
    assert_int_equal(b.told, 1);
    expect_told(&b, ADMITTED, 1);
    expect_told_nothing(&c);
    assert_true(go(&b));
    await(1);
    expect_told(&c, ADMITTED, 1);
    assert_true(go(&c));
    one_turn();
    assert_int_equal(a.told + b.told + c.told, 2);
    expect_at_keys(1, 0, 0);
    close_scene();
}

TEST(who_cancels_in_line_is_gone_at_once_and_told_nothing)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_WAITING);
    assert_int_equal(come(&c), WEIR_WAITING);
    assert_true(weir_gate_ticket_cancel(&b.gate_ticket));
    expect_ended(&b.gate_ticket.ticket, WEIR_END_CANCELLED);
    expect_at_keys(1, 1, 1);
    assert_true(go(&a));
    await(1);
    expect_told(&c, ADMITTED, 1);
    assert_true(weir_gate_ticket_cancel(&c.gate_ticket)); /* a permit goes back that way too */
    one_turn();
    expect_told_nothing(&b);
    expect_at_keys(1, 0, 0);
    close_scene();
}

TEST(who_cancels_while_a_post_is_under_way_is_told_when_it_has_arrived)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_WAITING);
    assert_int_equal(come(&c), WEIR_WAITING);
    assert_true(go(&a));
    assert_false(weir_gate_ticket_cancel(&b.gate_ticket));
    expect_ended(&b.gate_ticket.ticket, WEIR_END_CANCELLED);
    expect_told_nothing(&b);
    await(2); /* its permit went on to the next one */
    assert_int_equal(b.told, 1);
    expect_told(&b, IDLE, 1);
    assert_int_equal(c.told, 1);
    expect_told(&c, ADMITTED, 1);
    assert_true(go(&c));
    expect_at_keys(1, 0, 0);
    close_scene();
}

TEST(a_pass_may_be_used_again_once_it_is_closed)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(come(&a), WEIR_ADMITTED);
        assert_int_equal(come(&b), WEIR_WAITING);
        assert_true(go(&a));
        assert_false(weir_gate_ticket_cancel(&b.gate_ticket));
        await(1);
        expect_told(&b, IDLE, i + 1);
    }
    close_scene();
}

TEST(a_deadline_is_told_by_the_alarm_with_no_other_call)
{
    struct weir_settings settings = one_at_a_time;
    settings.timeout_ns = 25 * MS;
    open_scene(settings);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    uint64_t began_ns = scene.loop.now_ns;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    struct weir_request sooner = {.deadline_ns = began_ns + 15 * MS};
    assert_int_equal(enter_at(&b, "key", sooner), WEIR_WAITING);
    struct weir_request later = {.deadline_ns = began_ns + HOUR}; /* which the key does not give */
    assert_int_equal(enter_at(&c, "key", later), WEIR_WAITING);
    await(1);
    assert_true(scene.loop.now_ns >= began_ns + 15 * MS);
    expect_told(&b, ENDED, 1);
    expect_ended(&b.gate_ticket.ticket, WEIR_END_TIMEOUT);
    assert_int_equal(weir_gate_ticket_stats(&b.gate_ticket).active, 1);
    weir_gate_ticket_close(&b.gate_ticket);
    if (c.told == 0) { /* unless the machine was so slow that both were due */
        await(1);
    }
    assert_true(scene.loop.now_ns >= began_ns + 25 * MS);
    expect_told(&c, ENDED, 1);
    weir_gate_ticket_close(&c.gate_ticket);
    assert_true(go(&a));
    one_turn();
    assert_int_equal(b.told + c.told, 2);
    expect_at_keys(1, 0, 0);
    close_scene();
}

TEST(an_earlier_deadline_moves_the_alarm_nearer)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    uint64_t now_ns = scene.loop.now_ns;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(enter_at(&b, "key", (struct weir_request){.deadline_ns = now_ns + HOUR}),
                     WEIR_WAITING);
    assert_int_equal(enter_at(&c, "key", (struct weir_request){.deadline_ns = now_ns + 5 * MS}),
                     WEIR_WAITING);
    await(1);
    expect_told(&c, ENDED, 1);
    weir_gate_ticket_close(&c.gate_ticket);
    expect_told_nothing(&b);
    assert_true(weir_gate_ticket_cancel(&b.gate_ticket));
    assert_true(go(&a));
    close_scene();
}

TEST(a_refill_is_told_by_the_alarm_with_no_other_call)
{
    struct weir_settings settings = {
        LANE(.limit = 10, RATE(.tokens = 50, .period_ns = SECOND, .burst = 1)),
        .timeout_ns = WEIR_NEVER};
    open_scene(settings);
    struct guest guests[4] = {GUEST, GUEST, GUEST, GUEST};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(come(&guests[i]), i == 0 ? WEIR_ADMITTED : WEIR_WAITING);
    }
    await(3);
    for (int i = 0; i < 4; i++) {
        expect_told(&guests[i], ADMITTED, i == 0 ? 0 : 1);
        assert_true(go(&guests[i]));
    }
    close_scene();
}

TEST(a_lease_that_lapses_is_told_and_its_permit_goes_on)
{
    struct weir_settings settings = one_at_a_time;
    settings.lease_ns = 5 * MS;
    open_scene(settings);
    struct guest a = GUEST, b = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(enter_at(&b, "key", (struct weir_request){.lease_ns = WEIR_NEVER}),
                     WEIR_WAITING);
    await(2);
    assert_int_equal(a.told, 1);
    expect_told(&a, ENDED, 1);
    expect_ended(&a.gate_ticket.ticket, WEIR_END_LAPSED);
    weir_gate_ticket_close(&a.gate_ticket);
    expect_told(&b, ADMITTED, 1);
    assert_true(go(&b));
    expect_at_keys(1, 0, 0);
    close_scene();
}

/* The call that gives back is then the first to see that the lease is over, and changes its own
 * pass as if it were another's. */
TEST(who_leaves_after_the_lease_but_before_the_alarm_is_told_once_more)
{
    struct weir_settings settings = one_at_a_time;
    settings.lease_ns = HOUR;
    for (int way = 0; way < 2; way++) {
        open_scene(settings);
        struct guest a = GUEST;
        assert_int_equal(come(&a), WEIR_ADMITTED);
        scene.loop.now_ns += 2 * HOUR;
        assert_false(way == 0 ? go(&a) : weir_gate_ticket_cancel(&a.gate_ticket));
        expect_ended(&a.gate_ticket.ticket, WEIR_END_LAPSED);
        await(1);
        assert_int_equal(a.told, 1);
        expect_told(&a, IDLE, 1);
        expect_at_keys(1, 0, 0);
        close_scene();
    }
}

TEST(two_changes_before_the_post_arrives_are_told_as_the_last)
{
    struct weir_settings settings = one_at_a_time;
    settings.lease_ns = HOUR;
    open_scene(settings);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_WAITING);
    assert_true(go(&a)); /* admits b */
    scene.loop.now_ns += 2 * HOUR;
    assert_int_equal(come(&c), WEIR_ADMITTED); /* lapses b */
    await(1);
    assert_int_equal(b.told, 1);
    expect_told(&b, ENDED, 1);
    expect_ended(&b.gate_ticket.ticket, WEIR_END_LAPSED);
    weir_gate_ticket_close(&b.gate_ticket);
    assert_true(go(&c));
    close_scene();
}

TEST(who_is_displaced_is_told)
{
    struct weir_settings settings = one_at_a_time;
    settings.line.tickets = 2;
    open_scene(settings);
    struct guest inside = GUEST, old = GUEST, newer = GUEST, other = GUEST;
    struct weir_request many = request_of("many", NORMAL, 1), few = request_of("few", NORMAL, 1);
    assert_int_equal(come(&inside), WEIR_ADMITTED);
    assert_int_equal(enter_at(&old, "key", many), WEIR_WAITING);
    assert_int_equal(enter_at(&newer, "key", many), WEIR_WAITING);
    assert_int_equal(enter_at(&other, "key", few), WEIR_WAITING);
    await(1);
    expect_told(&newer, ENDED, 1);
    expect_ended(&newer.gate_ticket.ticket, WEIR_END_DISPLACED);
    weir_gate_ticket_close(&newer.gate_ticket);
    assert_true(weir_gate_ticket_cancel(&old.gate_ticket));
    assert_true(weir_gate_ticket_cancel(&other.gate_ticket));
    assert_true(go(&inside));
    close_scene();
}

TEST(new_settings_admit_those_who_wait)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_WAITING);
    assert_int_equal(come(&c), WEIR_WAITING);
    struct weir_settings two = {LANE(.limit = 2)};
    assert_int_equal(weir_gates_configure(scene.gates, 1, &two, 0), WEIR_OK);
    await(1);
    expect_told(&b, ADMITTED, 1);
    expect_told_nothing(&c);
    struct weir_settings bad = {LANE(.limit = WEIR_LIMIT_MAX + 1)};
    assert_int_equal(weir_gates_configure(scene.gates, 1, &bad, 0), WEIR_BAD_LIMIT);
    assert_int_equal(weir_gate_ticket_stats(&a.gate_ticket).limit, 2);
    assert_true(weir_gate_ticket_cancel(&c.gate_ticket));
    assert_true(go(&a));
    assert_true(go(&b));
    close_scene();
}

TEST(a_key_with_settings_of_its_own_follows_them)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    struct weir_settings two = {LANE(.limit = 2)};
    assert_int_equal(weir_gates_override(scene.gates, 1, weir_slice_of("key"), &two), WEIR_OK);
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_ADMITTED);
    assert_int_equal(enter_at(&c, "other", (struct weir_request){0}), WEIR_ADMITTED);
    assert_int_equal(weir_gate_ticket_stats(&b.gate_ticket).limit, 2);
    assert_int_equal(weir_gate_ticket_stats(&c.gate_ticket).limit, 1);
    expect_at_keys(2, 3, 0);
    assert_true(go(&a));
    assert_true(go(&b));
    assert_true(go(&c));
    close_scene();
}

TEST(a_key_is_forgotten_once_all_have_left_and_its_alarm_has_rung)
{
    struct weir_settings settings = one_at_a_time;
    settings.timeout_ns = 5 * MS;
    settings.forget_ns = 1;
    open_scene(settings);
    struct guest a = GUEST, b = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_WAITING);
    weir_gates_sweep(scene.gates, scene.loop.now_ns + DAY);
    expect_at_keys(1, 1, 1);
    await(1);
    weir_gate_ticket_close(&b.gate_ticket);
    weir_gates_sweep(scene.gates, scene.loop.now_ns + DAY);
    expect_at_keys(1, 1, 0); /* a permit is held */
    assert_true(go(&a));
    weir_gates_sweep(scene.gates, scene.loop.now_ns + DAY);
    expect_at_keys(0, 0, 0);
    close_scene();
}

TEST(an_alarm_that_is_set_keeps_its_key_until_it_rings)
{
    struct weir_settings settings = one_at_a_time;
    settings.timeout_ns = 10 * MS;
    settings.forget_ns = 1;
    open_scene(settings);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    uint64_t began_ns = scene.loop.now_ns;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_WAITING);
    assert_true(weir_gate_ticket_cancel(&b.gate_ticket));
    assert_true(go(&a));
    weir_gates_sweep(scene.gates, began_ns + DAY);
    expect_at_keys(1, 0, 0);
    /* A lease at another key ends later than the alarm rings. */
    struct weir_request leased = {.lease_ns = 15 * MS};
    assert_int_equal(enter_at(&c, "other", leased), WEIR_ADMITTED);
    await(1);
    assert_true(scene.loop.now_ns >= began_ns + 15 * MS);
    weir_gate_ticket_close(&c.gate_ticket);
    weir_gates_sweep(scene.gates, began_ns + DAY);
    expect_at_keys(0, 0, 0);
    assert_int_equal(scene.loop.timer_count, 1); /* the test's own */
    close_scene();
}

TEST(gates_may_end_while_alarms_are_set)
{
    struct weir_settings settings = one_at_a_time;
    settings.timeout_ns = HOUR;
    open_scene(settings);
    static const char *const keys[] = {"a", "b", "c", "d", "e"};
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct guest inside = GUEST, waiting = GUEST;
        assert_int_equal(enter_at(&inside, keys[i], (struct weir_request){0}), WEIR_ADMITTED);
        assert_int_equal(enter_at(&waiting, keys[i], (struct weir_request){0}), WEIR_WAITING);
        assert_true(weir_gate_ticket_cancel(&waiting.gate_ticket));
        assert_true(go(&inside));
    }
    assert_int_equal(scene.loop.timer_count, 1 + COUNT_OF(keys));
    close_scene();
}

TEST(after_an_alarm_could_not_be_set_for_lack_of_memory_the_next_one_is)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    struct weir_timer others[8]; /* until room must be made for the next */
    uint32_t count = 0;
    while (scene.loop.timer_count < scene.loop.timers.capacity) {
        assert_true(count < COUNT_OF(others));
        assert_true(weir_timer_init(&scene.loop, &others[count++], lose_patience));
    }
    scene.loop_memory.fail_at = scene.loop_memory.calls + 1;
    struct weir_request soon = {.deadline_ns = scene.loop.now_ns + 2 * MS};
    assert_int_equal(enter_at(&b, "key", soon), WEIR_WAITING);
    assert_int_equal(scene.loop_memory.failed, 1);
    struct weir_request later = {.deadline_ns = scene.loop.now_ns + 4 * MS};
    assert_int_equal(enter_at(&c, "key", later), WEIR_WAITING);
    await(2);
    expect_told(&b, ENDED, 1);
    expect_told(&c, ENDED, 1);
    weir_gate_ticket_close(&b.gate_ticket);
    weir_gate_ticket_close(&c.gate_ticket);
    assert_true(go(&a));
    while (count > 0) {
        weir_timer_deinit(&scene.loop, &others[--count]);
    }
    close_scene();
}

TEST(a_key_tells_where_its_lanes_lead_and_what_they_believe)
{
    struct weir_lane_settings lane = {.control = {.controller = WEIR_CONTROLLER_LEARNED}};
    open_scene((struct weir_settings){.lanes = &lane, .lane_count = 1});
    struct weir_slice name = weir_slice_of("openai");
    struct weir_lane_name_spec names = {&name, 1, true};
    uint32_t lane_names = weir_gates_add_lane_names(scene.gates, &names);
    assert_true(weir_lane_names_llm(weir_gates_lane_names(scene.gates), lane_names));

    struct guest a = GUEST, b = GUEST;
    struct weir_key_record record;
    struct weir_control_stats control;
    struct weir_destination where = {
        .gate = 1, .lane_names = lane_names, .key = weir_slice_of("key")};
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(weir_gates_measure(a.gate_ticket.key, &record).active, 1);
    assert_int_equal(record.lane_names, 0);
    assert_int_equal(weir_gate_ticket_enter(scene.gates, &b.gate_ticket, &where,
                                            &(struct weir_request){.cost = 1}),
                     WEIR_ADMITTED);
    assert_int_equal(weir_gates_measure(a.gate_ticket.key, &record).active, 2);
    assert_int_equal(record.lane_names, lane_names);
    assert_int_equal(record.waits.counts[0], 2);
    assert_true(weir_gates_control(a.gate_ticket.key, 0, scene.loop.now_ns, &control));
    assert_true(control.window == 16.0);
    assert_false(weir_gates_control(a.gate_ticket.key, 1, scene.loop.now_ns, &control));
    assert_true(go(&b));
    assert_int_equal(come(&b), WEIR_ADMITTED); /* who comes without one changes nothing */
    assert_int_equal(weir_gates_measure(a.gate_ticket.key, &record).active, 2);
    assert_int_equal(record.lane_names, lane_names);
    assert_true(go(&b));
    assert_true(go(&a));
    close_scene();
}

/* Until when the lane is closed; 0: it is open. */
static uint64_t closed_until_ns(const struct guest *guest, uint32_t lane)
{
    struct weir_lane_stats stats;
    assert_true(weir_gates_lane(guest->gate_ticket.key, lane, scene.loop.now_ns, &stats));
    return stats.paused_until_ns;
}

TEST(a_lane_that_leads_nowhere_is_closed_while_another_one_is_open)
{
    struct weir_lane_settings lanes[] = {{.id = 0, .limit = 1}, {.id = 1, .limit = 2}};
    open_scene((struct weir_settings){.lanes = lanes, .lane_count = 2, .timeout_ns = WEIR_NEVER});
    struct guest a = GUEST, b = GUEST, c = GUEST, d = GUEST;
    uint64_t hour_ns = scene.loop.now_ns + HOUR;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(a.gate_ticket.ticket.lane_id, 0);
    assert_true(weir_gate_ticket_avoid(&a.gate_ticket, hour_ns));
    assert_int_equal(closed_until_ns(&a, 0), hour_ns);
    assert_true(
        weir_gate_ticket_avoid(&a.gate_ticket, hour_ns - MS)); /* which does not open it sooner */
    assert_int_equal(closed_until_ns(&a, 0), hour_ns);
    assert_int_equal(come(&b), WEIR_ADMITTED);
    assert_int_equal(b.gate_ticket.ticket.lane_id, 1);
    assert_true(go(&a));
    assert_int_equal(come(&c), WEIR_ADMITTED);
    assert_int_equal(c.gate_ticket.ticket.lane_id, 1);
    assert_int_equal(come(&d), WEIR_WAITING); /* there is room in the other lane only */
    assert_false(weir_gate_ticket_avoid(&b.gate_ticket, hour_ns));
    assert_int_equal(closed_until_ns(&b, 1), 0);
    assert_true(go(&b));
    await(1);
    assert_int_equal(d.gate_ticket.ticket.lane_id, 1);
    assert_true(go(&c));
    assert_true(go(&d));
    expect_at_keys(1, 0, 0);
    close_scene();
}

TEST(a_key_that_is_paused_by_hand_has_no_other_lane)
{
    struct weir_lane_settings lanes[] = {{.id = 0, .limit = 1}, {.id = 1, .limit = 2}};
    open_scene((struct weir_settings){.lanes = lanes, .lane_count = 2, .timeout_ns = WEIR_NEVER});
    struct guest a = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    weir_gates_pause(scene.gates, 1, true, 0);
    assert_false(weir_gate_ticket_avoid(&a.gate_ticket, scene.loop.now_ns + HOUR));
    assert_int_equal(closed_until_ns(&a, 0), 0);
    weir_gates_pause(scene.gates, 1, false, 0);
    assert_true(weir_gate_ticket_avoid(&a.gate_ticket, scene.loop.now_ns + HOUR));
    assert_true(go(&a));
    close_scene();
}

TEST(who_has_lost_its_permit_closes_no_lane)
{
    struct weir_lane_settings lanes[] = {{.id = 0, .limit = 1}, {.id = 1, .limit = 1}};
    open_scene((struct weir_settings){
        .lanes = lanes, .lane_count = 2, .timeout_ns = WEIR_NEVER, .lease_ns = 5 * MS});
    struct guest a = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    await(1);
    expect_ended(&a.gate_ticket.ticket, WEIR_END_LAPSED);
    assert_false(weir_gate_ticket_avoid(&a.gate_ticket, scene.loop.now_ns + HOUR));
    assert_int_equal(closed_until_ns(&a, 0), 0);
    weir_gate_ticket_close(&a.gate_ticket);
    close_scene();
}

static void follow(struct weir_follower *follower)
{
    (void)follower;
    weir_loop_stop(&scene.loop);
}

TEST(what_was_not_told_of_a_limit_is_told_a_second_later_though_nobody_comes)
{
    scene.event_log = weir_event_log_create();
    struct weir_bookmark mark = weir_event_log_join(scene.event_log);
    struct weir_lane_settings lane = {
        .control = {.controller = WEIR_CONTROLLER_LEARNED, .window = {.start = 1}}};
    open_scene((struct weir_settings){
        .lanes = &lane, .lane_count = 1, .timeout_ns = WEIR_NEVER, .line = {.tickets = 9}});
    struct guest guests[4] = {GUEST, GUEST, GUEST, GUEST};
    struct weir_reply reply = {.outcome = WEIR_OUTCOME_SUCCESS, .streamed = true};
    for (uint32_t i = 0; i < 8; i++) { /* a round of replies of a minute, so nothing is late */
        struct guest before = GUEST;
        assert_int_equal(come(&before), WEIR_ADMITTED);
        before.gate_ticket.ticket.admitted_ns -= 60 * SECOND;
        weir_gate_ticket_hear(&before.gate_ticket, &reply);
        assert_true(go(&before));
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(come(&guests[i]), i == 0 ? WEIR_ADMITTED : WEIR_WAITING);
    }
    for (uint32_t i = 0; i < 3; i++) { /* each grows the window by one, and lets the next in */
        weir_gate_ticket_hear(&guests[i].gate_ticket, &reply);
        one_turn();
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(go(&guests[i]));
    }
    char room[WEIR_NOTE_BYTES_MAX];
    struct weir_note *note = (struct weir_note *)(void *)room;
    uint32_t limits[4] = {0};
    uint32_t count = 0;
    struct weir_follower follower = {.wake = follow};
    weir_timer_set(&scene.loop, &scene.patience, scene.loop.now_ns + PATIENCE);
    while (limits[1] == 0 && !scene.impatient) {
        while (weir_event_log_read(scene.event_log, &mark, note)) {
            if (note->event.kind == WEIR_EVENT_LIMIT) {
                limits[count++] = note->event.limit;
            }
        }
        if (limits[1] == 0 && weir_event_log_sleep(scene.event_log, &follower, &mark)) {
            weir_loop_run(&scene.loop);
        }
    }
    assert_false(scene.impatient);
    assert_int_equal(count, 2);
    assert_int_equal(limits[0], 2);
    assert_int_equal(limits[1], 4);
    weir_event_log_quit(scene.event_log);
    close_scene();
    weir_event_log_destroy(scene.event_log);
    scene.event_log = NULL;
}

TEST(a_gate_keeps_its_number_and_there_are_only_so_many)
{
    open_scene(one_at_a_time);
    uint32_t number;
    assert_int_equal(weir_gates_add(scene.gates, weir_slice_of("b"), &number), WEIR_OK);
    assert_int_equal(number, 1);
    for (uint32_t i = 2; i < WEIR_GATES_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "gate %u", i);
        assert_int_equal(weir_gates_add(scene.gates, weir_slice_of(name), &number), WEIR_OK);
        assert_int_equal(number, i);
    }
    assert_int_equal(weir_gates_add(scene.gates, weir_slice_of("more"), &number),
                     WEIR_TOO_MANY_GATES);
    assert_int_equal(weir_gates_add(scene.gates, weir_slice_of("gate 2"), &number), WEIR_OK);
    assert_int_equal(number, 2);
    close_scene();
}

TEST(gates_that_cannot_be_made_leave_nothing_behind)
{
    struct weir_loop loop;
    struct weir_loop *loops[] = {&loop};
    assert_true(weir_loop_init(&loop, NULL));
    for (uint64_t fail_at = 1;; fail_at++) {
        struct memory memory;
        memory_init(&memory);
        memory.fail_at = fail_at;
        struct weir_gates_options options = {
            .allocator = &memory.allocator, .loops = loops, .loop_count = 1};
        struct weir_gates *gates = NULL;
        uint32_t number = 17;
        enum weir_status status = weir_gates_create(&options, &gates);
        status = status != WEIR_OK ? status : weir_gates_add(gates, weir_slice_of("a"), &number);
        assert_int_equal(status, memory.failed == 0 ? WEIR_OK : WEIR_NO_MEMORY);
        assert_int_equal(number, memory.failed == 0 ? 0 : 17);
        assert_int_equal(gates == NULL ? 0 : weir_gates_count(gates), memory.failed == 0);
        weir_gates_destroy(gates);
        expect_no_memory_out(&memory);
        if (memory.failed == 0) {
            break;
        }
    }
    weir_gates_destroy(NULL);
    weir_loop_deinit(&loop);
}

TEST(who_enters_without_memory_is_refused_and_may_come_again)
{
    for (uint64_t fail_at = 1;; fail_at++) {
        open_scene(one_at_a_time);
        struct guest a = GUEST;
        uint64_t before = scene.memory.calls;
        scene.memory.fail_at = before + fail_at;
        enum weir_admission verdict = enter_at(&a, "key", request_of("tenant", NORMAL, 1));
        bool failed = scene.memory.failed > 0;
        if (verdict == WEIR_REFUSED) {
            assert_true(failed);
            assert_int_equal(a.gate_ticket.ticket.refusal, WEIR_NO_MEMORY);
            weir_gate_ticket_close(&a.gate_ticket);
            assert_int_equal(enter_at(&a, "key", request_of("tenant", NORMAL, 1)), WEIR_ADMITTED);
        }
        assert_true(go(&a));
        close_scene();
        if (!failed) {
            break;
        }
    }
}

/* ---- who holds a permit ---- */

/* The holder of that ticket, if it holds a permit. */
struct holder_search {
    uint64_t sequence;
    bool found;
    struct weir_permit_holder holder;
};

static bool meet_holder(void *context, const struct weir_permit_holder *holder)
{
    struct holder_search *search = context;
    search->found = holder->handle.number == search->sequence;
    search->holder = *holder;
    return !search->found;
}

static bool find_holder(const struct guest *guest, struct weir_permit_holder *holder)
{
    struct holder_search search = {.sequence = guest->gate_ticket.ticket.sequence};
    weir_gates_holders(guest->gate_ticket.key, 0, (struct weir_slice){0}, meet_holder, &search);
    *holder = search.holder;
    return search.found;
}

/* ---- permits that pass to another owner ---- */

static enum weir_status hand_over(struct guest *from, struct guest *to)
{
    return weir_gate_ticket_pass(&from->gate_ticket, &to->gate_ticket, 0);
}

TEST(a_permit_passes_to_another_owner_and_nobody_in_line_notices)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_WAITING);
    uint64_t sequence = a.gate_ticket.ticket.sequence;
    assert_int_equal(hand_over(&a, &c), WEIR_OK);
    expect_at_keys(1, 1, 1);
    validate_keys(scene.gates, 1);
    assert_int_equal(c.gate_ticket.ticket.sequence, sequence);
    assert_int_equal(a.gate_ticket.ticket.state, WEIR_TICKET_IDLE);
    assert_null(a.gate_ticket.key);
    one_turn();
    expect_told_nothing(&b);
    assert_int_equal(come(&a), WEIR_WAITING); /* the one that had it may come again */
    assert_true(go(&c));
    await(1);
    assert_int_equal(b.told_of[WEIR_TICKET_ADMITTED], 1);
    assert_true(weir_gate_ticket_cancel(&a.gate_ticket));
    assert_true(go(&b));
    expect_told_nothing(&c);
    close_scene();
}

TEST(a_lease_goes_along_with_its_permit_and_its_end_is_told_to_the_new_owner)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    assert_int_equal(enter_at(&a, "key", (struct weir_request){.lease_ns = 5 * MS}), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_WAITING);
    assert_int_equal(hand_over(&a, &c), WEIR_OK);
    await(2);
    assert_int_equal(c.told_of[WEIR_TICKET_ENDED], 1);
    assert_int_equal(c.gate_ticket.ticket.end, WEIR_END_LAPSED);
    assert_int_equal(b.told_of[WEIR_TICKET_ADMITTED], 1);
    expect_told_nothing(&a);
    weir_gate_ticket_close(&c.gate_ticket);
    assert_true(go(&b));
    close_scene();
}

TEST(a_lease_that_goes_along_can_be_renewed_and_is_given_back_once)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST;
    assert_int_equal(enter_at(&a, "key", (struct weir_request){.lease_ns = HOUR}), WEIR_ADMITTED);
    assert_int_equal(hand_over(&a, &b), WEIR_OK);
    assert_int_equal(weir_gate_ticket_renew(&b.gate_ticket, 2 * HOUR, 0), WEIR_OK);
    assert_int_equal(weir_gate_ticket_release(&b.gate_ticket, &(struct weir_result){0}, 0),
                     WEIR_OK);
    expect_at_keys(1, 0, 0);
    close_scene();
}

TEST(a_permit_without_a_lease_gets_one_and_loses_it)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST;
    struct weir_permit_holder holder;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    assert_int_equal(weir_gate_ticket_renew(&a.gate_ticket, HOUR, 0), WEIR_OK);
    assert_true(find_holder(&a, &holder));
    assert_int_equal(holder.lease_end_ns, WEIR_NEVER); /* a renewal begins none */
    for (uint64_t hours = 2; hours > 0; hours--) {
        assert_int_equal(weir_gate_ticket_set_lease(&a.gate_ticket, hours * HOUR, 0), WEIR_OK);
        validate_keys(scene.gates, 1);
        assert_true(find_holder(&a, &holder));
        assert_int_equal(holder.lease_end_ns, scene.loop.now_ns + hours * HOUR);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(weir_gate_ticket_set_lease(&a.gate_ticket, WEIR_NEVER, 0), WEIR_OK);
        validate_keys(scene.gates, 1);
        assert_true(find_holder(&a, &holder));
        assert_int_equal(holder.lease_end_ns, WEIR_NEVER);
    }
    assert_int_equal(weir_gate_ticket_set_lease(&a.gate_ticket, 0, 0), WEIR_BAD_DURATION);
    assert_int_equal(weir_gate_ticket_set_lease(&a.gate_ticket, WEIR_DURATION_MAX_NS + 1, 0),
                     WEIR_BAD_DURATION);
    assert_int_equal(come(&b), WEIR_WAITING);
    assert_int_equal(weir_gate_ticket_set_lease(&a.gate_ticket, 5 * MS, 0), WEIR_OK);
    await(2);
    assert_int_equal(a.told_of[WEIR_TICKET_ENDED], 1);
    assert_int_equal(b.told_of[WEIR_TICKET_ADMITTED], 1);
    assert_int_equal(weir_gate_ticket_set_lease(&a.gate_ticket, HOUR, 0), WEIR_NOT_HELD);
    weir_gate_ticket_close(&a.gate_ticket);
    assert_true(go(&b));
    close_scene();
}

TEST(a_lease_that_cannot_be_set_for_lack_of_memory_changes_nothing)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST;
    assert_int_equal(come(&a), WEIR_ADMITTED);
    scene.memory.fail_at = scene.memory.calls + 1;
    assert_int_equal(weir_gate_ticket_set_lease(&a.gate_ticket, HOUR, 0), WEIR_NO_MEMORY);
    validate_keys(scene.gates, 1);
    assert_int_equal(weir_gate_ticket_set_lease(&a.gate_ticket, HOUR, 0), WEIR_OK);
    assert_true(go(&a));
    close_scene();
}

TEST(a_permit_whose_lease_is_over_passes_to_nobody)
{
    open_scene(one_at_a_time);
    struct guest a = GUEST, b = GUEST, c = GUEST;
    assert_int_equal(enter_at(&a, "key", (struct weir_request){.lease_ns = HOUR}), WEIR_ADMITTED);
    scene.loop.now_ns += 2 * HOUR;
    assert_int_equal(come(&b), WEIR_ADMITTED); /* which ends the lease, of which a has to be told */
    assert_int_equal(hand_over(&a, &c), WEIR_NOT_HELD);
    assert_int_equal(c.gate_ticket.ticket.state, WEIR_TICKET_IDLE);
    assert_null(c.gate_ticket.key);
    await(1);
    assert_int_equal(a.told_of[WEIR_TICKET_ENDED], 1);
    weir_gate_ticket_close(&a.gate_ticket);
    expect_told_nothing(&c);
    assert_true(go(&b));
    close_scene();
}

TEST(a_holder_says_who_it_is_and_since_when_it_holds)
{
    open_scene(one_at_a_time);
    struct weir_permit_holder holder;
    struct guest a = GUEST, b = GUEST;
    a.gate_ticket.flow = weir_slice_of("flow");
    a.gate_ticket.tenant = weir_slice_of("tenant");
    a.gate_ticket.from = "192.0.2.1";
    assert_int_equal(enter_at(&a, "key", (struct weir_request){.lease_ns = HOUR}), WEIR_ADMITTED);
    assert_int_equal(come(&b), WEIR_WAITING);
    assert_false(find_holder(&b, &holder));
    assert_true(find_holder(&a, &holder));
    assert_string_equal(holder.kind, "guest");
    assert_int_equal(holder.name_bytes, 2);
    assert_memory_equal(holder.name, "me", 2);
    assert_ptr_equal(holder.flow.data, a.gate_ticket.flow.data);
    assert_ptr_equal(holder.tenant.data, a.gate_ticket.tenant.data);
    assert_string_equal(holder.from, "192.0.2.1");
    assert_int_equal(holder.since_ns, scene.loop.now_ns);
    assert_int_equal(holder.lease_end_ns, scene.loop.now_ns + HOUR);
    assert_true(weir_gate_ticket_cancel(&b.gate_ticket));
    assert_true(go(&a));
    assert_int_equal(come(&b), WEIR_ADMITTED);
    assert_true(find_holder(&b, &holder));
    assert_int_equal(holder.lease_end_ns, WEIR_NEVER);
    assert_true(go(&b));
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_first_is_admitted_and_the_next_one_waits),
        cmocka_unit_test(who_may_not_wait_is_refused_and_can_still_ask_the_key),
        cmocka_unit_test(a_full_line_refuses_at_its_bound_and_not_before),
        cmocka_unit_test(a_key_that_cannot_be_had_is_a_refusal),
        cmocka_unit_test(
            a_permit_given_back_is_told_to_the_next_one_in_its_loop_and_not_within_the_call),
        cmocka_unit_test(who_cancels_in_line_is_gone_at_once_and_told_nothing),
        cmocka_unit_test(who_cancels_while_a_post_is_under_way_is_told_when_it_has_arrived),
        cmocka_unit_test(a_pass_may_be_used_again_once_it_is_closed),
        cmocka_unit_test(a_deadline_is_told_by_the_alarm_with_no_other_call),
        cmocka_unit_test(an_earlier_deadline_moves_the_alarm_nearer),
        cmocka_unit_test(a_refill_is_told_by_the_alarm_with_no_other_call),
        cmocka_unit_test(a_lease_that_lapses_is_told_and_its_permit_goes_on),
        cmocka_unit_test(who_leaves_after_the_lease_but_before_the_alarm_is_told_once_more),
        cmocka_unit_test(two_changes_before_the_post_arrives_are_told_as_the_last),
        cmocka_unit_test(who_is_displaced_is_told),
        cmocka_unit_test(new_settings_admit_those_who_wait),
        cmocka_unit_test(a_key_with_settings_of_its_own_follows_them),
        cmocka_unit_test(a_key_is_forgotten_once_all_have_left_and_its_alarm_has_rung),
        cmocka_unit_test(an_alarm_that_is_set_keeps_its_key_until_it_rings),
        cmocka_unit_test(gates_may_end_while_alarms_are_set),
        cmocka_unit_test(after_an_alarm_could_not_be_set_for_lack_of_memory_the_next_one_is),
        cmocka_unit_test(a_key_tells_where_its_lanes_lead_and_what_they_believe),
        cmocka_unit_test(a_lane_that_leads_nowhere_is_closed_while_another_one_is_open),
        cmocka_unit_test(a_key_that_is_paused_by_hand_has_no_other_lane),
        cmocka_unit_test(who_has_lost_its_permit_closes_no_lane),
        cmocka_unit_test(what_was_not_told_of_a_limit_is_told_a_second_later_though_nobody_comes),
        cmocka_unit_test(a_gate_keeps_its_number_and_there_are_only_so_many),
        cmocka_unit_test(gates_that_cannot_be_made_leave_nothing_behind),
        cmocka_unit_test(who_enters_without_memory_is_refused_and_may_come_again),
        cmocka_unit_test(a_permit_passes_to_another_owner_and_nobody_in_line_notices),
        cmocka_unit_test(a_lease_goes_along_with_its_permit_and_its_end_is_told_to_the_new_owner),
        cmocka_unit_test(a_lease_that_goes_along_can_be_renewed_and_is_given_back_once),
        cmocka_unit_test(a_permit_without_a_lease_gets_one_and_loses_it),
        cmocka_unit_test(a_lease_that_cannot_be_set_for_lack_of_memory_changes_nothing),
        cmocka_unit_test(a_permit_whose_lease_is_over_passes_to_nobody),
        cmocka_unit_test(a_holder_says_who_it_is_and_since_when_it_holds),
    };
    return cmocka_run_group_tests_name("pass", tests, NULL, NULL);
}
