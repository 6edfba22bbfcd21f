/* Grants: permits that are found by their id or their flow, on one loop whose time is set by hand,
 * and by several threads that want the same ones. */
#define _GNU_SOURCE
#include "unit/api_permit_helpers.h"

#include <pthread.h>

/* ---- names ---- */

TEST(a_grant_is_released_by_its_id_once)
{
    open_scene(many_at_once);
    struct id id = id_of(acquire(1, "key", "flow"));
    assert_int_equal(active_at(1), 1);
    expect_released(by_id(1, "key", &id));
    assert_int_equal(active_at(1), 0);
    expect_not_held(by_id(1, "key", &id));
    expect_not_held(by_flow(1, "key", "flow"));
    close_scene();
}

TEST(a_grant_is_released_by_its_flow_once)
{
    open_scene(many_at_once);
    struct id id = id_of(acquire(1, "key", "flow"));
    expect_released(by_flow(1, "key", "flow"));
    assert_int_equal(active_at(1), 0);
    expect_not_held(by_flow(1, "key", "flow"));
    expect_not_held(by_id(1, "key", &id));
    close_scene();
}

TEST(at_another_gate_or_key_a_grant_is_not_found)
{
    open_scene(many_at_once);
    struct id id = id_of(acquire(1, "key", "flow"));
    expect_not_held(by_id(0, "key", &id));
    expect_not_held(by_id(2, "key", &id));
    expect_not_held(by_id(1, "ke", &id));
    expect_not_held(by_id(1, "keys", &id));
    expect_not_held(by_id(1, "KEY", &id));
    expect_not_held(by_id(1, "", &id));
    expect_not_held(by_flow(0, "key", "flow"));
    expect_not_held(by_flow(2, "key", "flow"));
    expect_not_held(by_flow(1, "ke", "flow"));
    expect_not_held(by_flow(1, "keys", "flow"));
    expect_not_held(by_flow(1, "key", "flo"));
    expect_not_held(by_flow(1, "key", "flows"));
    expect_not_held(by_flow(1, "key", "FLOW"));
    expect_not_held(by_flow(1, "keyf", "low"));
    expect_not_held(by_flow(1, "flow", "key"));
    assert_int_equal(active_at(1), 1);
    expect_released(by_id(1, "key", &id));
    close_scene();
}

TEST(a_text_that_is_no_id_finds_nothing)
{
    open_scene(many_at_once);
    struct weir_api_permit *api_permit = acquire(1, "key", "flow");
    struct weir_api_permit *other = acquire(1, "key", "other");
    struct id id = id_of(api_permit);
    char longer[WEIR_API_PERMIT_TEXT_BYTES + 1];
    memcpy(longer, id.text, sizeof id.text);
    longer[sizeof id.text] = '0';
    struct weir_api_permit_name name = by_id(1, "key", &id);
    name.permit = (struct weir_slice){longer, sizeof longer};
    expect_not_held(name);
    for (size_t bytes = 1; bytes < sizeof id.text; bytes++) {
        name.permit = (struct weir_slice){id.text, bytes};
        expect_not_held(name);
    }
    for (size_t at = 0; at < sizeof id.text; at++) {
        static const char bad[] = {'g', ' ', '-', '/', ':', '`', 'A', 'F', '\0', '\xff'};
        for (size_t i = 0; i < sizeof bad; i++) {
            struct id changed = id;
            changed.text[at] = bad[i];
            expect_not_held(by_id(1, "key", &changed));
        }
        struct id changed = id;
        changed.text[at] = id.text[at] == '0' ? '1' : '0';
        expect_not_held(by_id(1, "key", &changed));
    }
    assert_int_equal(active_at(1), 2);
    expect_released(by_id(1, "key", &id));
    id = id_of(other);
    expect_released(by_id(1, "key", &id));
    close_scene();
}

/* Ids for which a careless reading of these texts would come out right. */
TEST(a_text_that_only_amounts_to_an_id_is_none)
{
    static const struct {
        uint64_t second;
        const char *text;
    } cases[] = {
        {5, "00000000000000015"},
        {0, "0000000000000001"},
        {16, "0000000000000001000000000000000g"},
        {10, "0000000000000001000000000000000A"},
        {UINT64_MAX, "0000000000000001fffffffffffffffg"},
        {UINT64_MAX, "0000000000000001fffffffffffffff "},
        {1, "000000000000000100000000000000001"},
    };
    open_scene(many_at_once);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_api_permit *api_permit = take("flow");
        api_permit->id[0] = 1;
        api_permit->id[1] = cases[i].second;
        struct id id = id_of(api_permit);
        assert_int_equal(enter_gate(api_permit, 1, "key"), WEIR_ADMITTED);
        assert_true(weir_api_permit_hold(api_permit));
        struct weir_api_permit_name name = by_id(1, "key", &id);
        name.permit = weir_slice_of(cases[i].text);
        expect_not_held(name);
        expect_released(by_id(1, "key", &id));
    }
    close_scene();
}

TEST(an_id_is_32_digits_in_lower_case_with_the_highest_first)
{
    struct weir_api_permit api_permit = {
        .id = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)}};
    struct id id = id_of(&api_permit);
    assert_memory_equal(id.text, "0123456789abcdeffedcba9876543210", sizeof id.text);
    api_permit = (struct weir_api_permit){.id = {0, 1}};
    id = id_of(&api_permit);
    assert_memory_equal(id.text, "00000000000000000000000000000001", sizeof id.text);
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct id));
}

TEST(ids_differ_in_both_halves)
{
    enum {
        COUNT = 2000
    };
    static struct id ids[COUNT];
    static struct id halves[COUNT];
    static struct weir_api_permit *taken[COUNT];
    open_scene(many_at_once);
    for (size_t i = 0; i < COUNT; i++) {
        taken[i] = weir_api_permit_take(scene.api_permits);
        assert_non_null(taken[i]);
        ids[i] = id_of(taken[i]);
        memset(&halves[i], 0, sizeof halves[i]);
        memcpy(halves[i].text, ids[i].text + 16, 16);
        memset(ids[i].text + 16, 0, 16);
    }
    qsort(ids, COUNT, sizeof ids[0], compare_ids);
    qsort(halves, COUNT, sizeof halves[0], compare_ids);
    for (size_t i = 1; i < COUNT; i++) {
        assert_true(compare_ids(&ids[i - 1], &ids[i]) != 0);
        assert_true(compare_ids(&halves[i - 1], &halves[i]) != 0);
    }
    for (size_t i = 0; i < COUNT; i++) {
        weir_api_permit_give(taken[i]);
    }
    close_scene();
}

TEST(a_new_grant_is_zeroed_even_if_its_memory_was_used_before)
{
    open_scene(many_at_once);
    struct weir_api_permit *used = acquire_for(HOUR, 2, "key", "flow");
    struct id id = id_of(used);
    expect_released(by_id(2, "key", &id));
    struct weir_api_permit *api_permit = weir_api_permit_take(scene.api_permits);
    assert_ptr_equal(api_permit, used); /* else this test shows nothing */
    struct id other = id_of(api_permit);
    assert_true(compare_ids(&id, &other) != 0);
    assert_ptr_equal(api_permit->api_permits, scene.api_permits);
    assert_null(api_permit->call);
    assert_null(api_permit->gate_ticket.key);
    assert_null(api_permit->gate_ticket.owner);
    assert_int_equal(api_permit->gate_ticket.flow.bytes, 0);
    assert_int_equal(api_permit->gate_ticket.ticket.state, WEIR_TICKET_IDLE);
    assert_int_equal(api_permit->lease_ns, 0);
    assert_int_equal(api_permit->gate, 0);
    assert_false(api_permit->held);
    weir_api_permit_give(api_permit);
    close_scene();
}

TEST(of_one_flow_the_oldest_goes_first)
{
    open_scene(many_at_once);
    struct weir_api_permit *api_permits[5];
    struct id ids[5];
    for (size_t i = 0; i < COUNT_OF(api_permits); i++) {
        api_permits[i] = acquire(1, "key", "flow");
        ids[i] = id_of(api_permits[i]);
        acquire(1, "other", "flow");
        acquire(2, "key", "flow");
        acquire(1, "key", "other");
    }
    expect_released(by_id(1, "key", &ids[1])); /* out of its turn */
    static const size_t order[] = {0, 2, 3, 4};
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        assert_true(api_permits[order[i]]->held);
        expect_released(by_flow(1, "key", "flow"));
        expect_not_held(by_id(1, "key", &ids[order[i]]));
    }
    expect_not_held(by_flow(1, "key", "flow"));
    assert_int_equal(active_at(1), 10);
    assert_int_equal(active_at(2), 5);
    close_scene();
}

TEST(the_id_counts_before_the_flow)
{
    open_scene(many_at_once);
    struct id first = id_of(acquire(1, "key", "flow"));
    struct id second = id_of(acquire(1, "key", "flow"));
    struct weir_api_permit_name name = by_id(1, "key", &second);
    name.flow = weir_slice_of("flow");
    expect_released(name);
    expect_not_held(name);
    expect_released(by_id(1, "key", &first));
    close_scene();
}

TEST(a_grant_without_a_flow_is_found_by_its_id)
{
    open_scene(many_at_once);
    struct id id = id_of(acquire(1, "key", ""));
    expect_not_held(by_flow(1, "key", "flow"));
    expect_released(by_id(1, "key", &id));
    close_scene();
}

/* So that many of them do not stand in one chain, which each release would go through. */
TEST(a_grant_without_a_flow_is_not_among_those_of_flows)
{
    open_scene(many_at_once);
    struct id id = id_of(acquire(1, "key", ""));
    expect_not_held(by_flow(1, "key", ""));
    expect_released(by_id(1, "key", &id));
    close_scene();
}

TEST(names_may_be_as_long_as_names_are)
{
    char longest[WEIR_NAME_BYTES_MAX + 1];
    char other[WEIR_NAME_BYTES_MAX + 1];
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(other, longest, sizeof other);
    other[sizeof other - 2] = 'm';
    open_scene(many_at_once);
    acquire(1, longest, longest);
    expect_not_held(by_flow(1, longest, other));
    expect_not_held(by_flow(1, other, longest));
    expect_not_held(by_flow(1, longest, longest + 1));
    expect_not_held(by_flow(1, longest + 1, longest));
    expect_released(by_flow(1, longest, longest));
    close_scene();
}

/* ---- waiting ---- */

TEST(a_permit_that_is_given_back_goes_to_who_waits_and_can_be_found_then)
{
    open_scene(one_at_a_time);
    acquire(1, "key", "first");
    struct weir_api_permit *second = take("second");
    struct id id = id_of(second);
    assert_int_equal(enter_gate(second, 1, "key"), WEIR_WAITING);
    expect_not_held(by_flow(1, "key", "second"));
    expect_not_held(by_id(1, "key", &id));
    expect_released(by_flow(1, "key", "first"));
    assert_int_equal(scene.admitted, 0); /* not within the call */
    one_turn();
    assert_int_equal(scene.admitted, 1);
    expect_released(by_id(1, "key", &id));
    assert_int_equal(active_at(1), 0);
    close_scene();
}

TEST(one_that_waited_in_vain_is_given_back_without_ever_being_held)
{
    open_scene(one_at_a_time);
    acquire(1, "key", "first");
    struct weir_api_permit *second = take("second");
    assert_int_equal(enter_gate(second, 1, "key"), WEIR_WAITING);
    assert_true(weir_gate_ticket_cancel(&second->gate_ticket));
    weir_api_permit_give(second);
    expect_released(by_flow(1, "key", "first"));
    one_turn();
    assert_int_equal(scene.admitted, 0);
    close_scene();
}

/* A breaker that trips at the first failure shows what the gate was told. */
TEST(what_became_of_the_work_is_passed_on)
{
    struct weir_settings careful = {
        LANE(.no_limit = true, .breaker = {.failures = 1, .pause_ns = HOUR}),
        .timeout_ns = WEIR_NEVER};
    open_scene(careful);
    acquire(1, "key", "flow");
    expect_released(by_flow(1, "key", "flow"));
    acquire(1, "key", "flow");
    struct weir_result result = {.outcome = WEIR_OUTCOME_SOFT_LOSS};
    struct weir_api_permit_name name = by_flow(1, "key", "flow");
    assert_int_equal(weir_api_permits_release(scene.api_permits, &name, &result, 0), WEIR_OK);
    struct weir_api_permit *next = take("next");
    assert_int_equal(enter_gate(next, 1, "key"), WEIR_WAITING);
    assert_true(weir_gate_ticket_cancel(&next->gate_ticket));
    weir_api_permit_give(next);
    close_scene();
}

/* ---- leases ---- */

TEST(a_lease_is_renewed_for_what_was_granted_or_less)
{
    static const struct {
        uint64_t asked_ns;
        uint64_t got_ns;
    } cases[] = {
        {0, 10 * SECOND},           {1, 1},
        {SECOND, SECOND},           {10 * SECOND - 1, 10 * SECOND - 1},
        {10 * SECOND, 10 * SECOND}, {10 * SECOND + 1, 10 * SECOND},
        {HOUR, 10 * SECOND},        {WEIR_NEVER, 10 * SECOND},
    };
    open_scene(many_at_once);
    acquire_for(10 * SECOND, 1, "key", "flow");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint64_t lease_ns = cases[i].asked_ns;
        assert_int_equal(renew(by_flow(1, "key", "flow"), &lease_ns), WEIR_OK);
        assert_int_equal(lease_ns, cases[i].got_ns);
    }
    expect_released(by_flow(1, "key", "flow"));
    close_scene();
}

TEST(a_permit_without_a_lease_needs_none)
{
    open_scene(many_at_once);
    acquire(1, "key", "flow");
    uint64_t lease_ns = 0;
    assert_int_equal(renew(by_flow(1, "key", "flow"), &lease_ns), WEIR_OK);
    assert_true(lease_ns == WEIR_NEVER);
    scene.loop[0].now_ns += 365 * DAY;
    expect_released(by_flow(1, "key", "flow"));
    close_scene();
}

TEST(a_renewed_lease_begins_anew)
{
    open_scene(many_at_once);
    struct id id = id_of(acquire_for(10 * SECOND, 1, "key", "flow"));
    uint64_t lease_ns = 0;
    scene.loop[0].now_ns += 10 * SECOND - 1;
    assert_int_equal(renew(by_id(1, "key", &id), &lease_ns), WEIR_OK);
    scene.loop[0].now_ns += 10 * SECOND - 1;
    assert_int_equal(renew(by_id(1, "key", &id), &lease_ns), WEIR_OK);
    scene.loop[0].now_ns += 10 * SECOND - 1;
    expect_released(by_id(1, "key", &id));
    assert_int_equal(scene.lapsed, 0);
    close_scene();
}

TEST(a_renewal_may_shorten_a_lease)
{
    open_scene(many_at_once);
    struct id id = id_of(acquire_for(10 * SECOND, 1, "key", "flow"));
    uint64_t lease_ns = SECOND;
    assert_int_equal(renew(by_id(1, "key", &id), &lease_ns), WEIR_OK);
    scene.loop[0].now_ns += SECOND;
    assert_int_equal(release(by_id(1, "key", &id)), WEIR_NOT_HELD);
    one_turn();
    assert_int_equal(scene.lapsed, 1);
    close_scene();
}

/* One below, at it, and one above. */
TEST(a_lease_that_is_over_is_no_longer_held_and_told_to_its_loop)
{
    for (uint64_t held_ns = 10 * SECOND - 1; held_ns <= 10 * SECOND + 1; held_ns++) {
        open_scene(many_at_once);
        struct id id = id_of(acquire_for(10 * SECOND, 1, "key", "flow"));
        scene.loop[0].now_ns += held_ns;
        if (held_ns < 10 * SECOND) {
            expect_released(by_id(1, "key", &id));
        } else {
            uint64_t lease_ns = 0;
            assert_int_equal(renew(by_id(1, "key", &id), &lease_ns), WEIR_NOT_HELD);
            assert_int_equal(release(by_id(1, "key", &id)), WEIR_NOT_HELD);
            assert_int_equal(release(by_flow(1, "key", "flow")), WEIR_NOT_HELD);
            assert_int_equal(scene.lapsed, 0); /* not within the call */
            one_turn();
            assert_int_equal(scene.lapsed, 1);
            expect_not_held(by_id(1, "key", &id));
            expect_not_held(by_flow(1, "key", "flow"));
        }
        assert_int_equal(active_at(1), 0);
        one_turn();
        assert_int_equal(scene.lapsed, held_ns >= 10 * SECOND);
        close_scene();
    }
}

/* Somebody's release finds out that the lease is over; the loop has not heard of it yet. */
TEST(a_call_that_lets_go_as_the_lease_ends_is_not_told_of_it)
{
    for (int lets_go = 0; lets_go <= 1; lets_go++) {
        open_scene(many_at_once);
        struct weir_call *call = (struct weir_call *)(void *)&scene; /* which is not looked at */
        struct weir_result result = {.outcome = WEIR_OUTCOME_CANCELLED};
        struct weir_api_permit *api_permit = acquire_for(10 * SECOND, 1, "key", "flow");
        struct id id = id_of(api_permit);
        struct weir_api_permit_name name = by_id(1, "key", &id);
        api_permit->call = call;
        scene.loop[0].now_ns += 10 * SECOND;
        assert_int_equal(release(name), WEIR_NOT_HELD);
        if (lets_go) {
            weir_api_permits_let_go(scene.api_permits, &name, &result, 0);
        }
        one_turn();
        assert_int_equal(scene.lapsed, 1);
        assert_ptr_equal(scene.lapsed_call, lets_go ? NULL : call);
        close_scene();
    }
}

TEST(a_call_that_lets_go_gives_back_once)
{
    open_scene(many_at_once);
    struct weir_result result = {.outcome = WEIR_OUTCOME_CANCELLED};
    struct id id = id_of(acquire(1, "key", "flow"));
    struct weir_api_permit_name name = by_id(1, "key", &id);
    for (int i = 0; i < 2; i++) {
        weir_api_permits_let_go(scene.api_permits, &name, &result, 0);
        assert_int_equal(active_at(1), 0);
        expect_not_held(name);
    }
    close_scene();
}

TEST(a_lease_ends_by_itself)
{
    open_scene(many_at_once);
    acquire_for(1, 1, "key", "flow");
    acquire(1, "key", "stays");
    uint64_t patience_ns = scene.loop[0].now_ns + 5 * SECOND;
    while (scene.lapsed == 0 && scene.loop[0].now_ns < patience_ns) {
        one_turn();
    }
    assert_int_equal(scene.lapsed, 1);
    expect_not_held(by_flow(1, "key", "flow"));
    assert_int_equal(active_at(1), 1);
    expect_released(by_flow(1, "key", "stays"));
    close_scene();
}

TEST(the_end_of_a_lease_lets_the_next_one_in)
{
    open_scene(one_at_a_time);
    acquire_for(10 * SECOND, 1, "key", "first");
    struct weir_api_permit *second = take("second");
    assert_int_equal(enter_gate(second, 1, "key"), WEIR_WAITING);
    scene.loop[0].now_ns += 10 * SECOND;
    assert_int_equal(release(by_flow(1, "key", "first")), WEIR_NOT_HELD);
    one_turn();
    assert_int_equal(scene.lapsed, 1);
    assert_int_equal(scene.admitted, 1);
    expect_released(by_flow(1, "key", "second"));
    close_scene();
}

/* ---- all of them ---- */

/* Loops that have stopped did so at different moments, by which each goes. */
TEST(a_lease_may_run_out_while_all_that_is_held_is_given_back)
{
    open_scene(many_at_once);
    struct weir_api_permit *late = take("late");
    struct weir_destination where = {.gate = 1, .loop_index = 1, .key = weir_slice_of("key")};
    struct weir_request request = {.lease_ns = WEIR_NEVER};
    late->gate = 1;
    assert_int_equal(weir_gate_ticket_enter(scene.gates, &late->gate_ticket, &where, &request),
                     WEIR_ADMITTED);
    assert_true(weir_api_permit_hold(late));
    acquire_for(10 * SECOND, 1, "key", "early");
    acquire_for(HOUR, 1, "key", "early");
    scene.loop[1].now_ns += 11 * SECOND;
    close_scene();
    assert_int_equal(scene.gone, 1);
    assert_int_equal(scene.lapsed, 0);
}

TEST(what_is_still_held_goes_with_the_table)
{
    open_scene(many_at_once);
    for (int i = 0; i < 100; i++) {
        acquire_for(i % 2 == 0 ? HOUR : WEIR_NEVER, (uint32_t)i % GATES, i % 5 == 0 ? "a" : "b",
                    "flow");
    }
    assert_int_equal(active_at(0) + active_at(1) + active_at(2), 100);
    weir_api_permits_destroy(scene.api_permits);
    assert_int_equal(active_at(0) + active_at(1) + active_at(2), 0);
    scene.api_permits = weir_api_permits_create();
    assert_non_null(scene.api_permits);
    close_scene();
    weir_api_permits_destroy(NULL);
}

TEST(what_one_table_holds_another_one_does_not)
{
    open_scene(many_at_once);
    struct id id = id_of(acquire(1, "key", "flow"));
    struct weir_api_permits *other = weir_api_permits_create();
    assert_non_null(other);
    struct weir_api_permit_name name = by_id(1, "key", &id);
    assert_int_equal(weir_api_permits_release(other, &name, &(struct weir_result){0}, 0),
                     WEIR_NOT_HELD);
    name = by_flow(1, "key", "flow");
    assert_int_equal(weir_api_permits_release(other, &name, &(struct weir_result){0}, 0),
                     WEIR_NOT_HELD);
    weir_api_permits_destroy(other);
    expect_released(by_id(1, "key", &id));
    close_scene();
}

/* ---- many, and several threads ---- */

#define MANY 3000

static struct id many_ids[MANY];
static char many_flows[MANY][8];

static void hold_many(void)
{
    for (size_t i = 0; i < MANY; i++) {
        snprintf(many_flows[i], sizeof many_flows[i], "f%u", (unsigned)i);
        many_ids[i] = id_of(acquire(1, i % 2 == 0 ? "even" : "odd", many_flows[i]));
    }
}

static struct weir_api_permit_name name_of(size_t i, bool flow)
{
    const char *key = i % 2 == 0 ? "even" : "odd";
    return flow ? by_flow(1, key, many_flows[i]) : by_id(1, key, &many_ids[i]);
}

TEST(many_are_held_at_once_and_each_is_found)
{
    open_scene(many_at_once);
    hold_many();
    assert_int_equal(active_at(1), MANY);
    for (size_t i = 0; i < MANY; i++) {
        size_t at = i * 1237 % MANY; /* in no order */
        expect_released(name_of(at, i % 3 == 0));
        expect_not_held(name_of(at, i % 3 != 0));
    }
    assert_int_equal(active_at(1), 0);
    close_scene();
}

struct thief {
    pthread_t thread;
    uint32_t loop_index;
    uint32_t released;
    uint32_t renewed;
};

/* Renews and releases them all; what another one was first at is not held. */
static void *release_all(void *context)
{
    struct thief *thief = context;
    for (size_t i = 0; i < MANY; i++) {
        size_t at = thief->loop_index % 2 == 0 ? i : MANY - 1 - i;
        struct weir_api_permit_name name = name_of(at, thief->loop_index < 2);
        uint64_t lease_ns = 0;
        thief->renewed += weir_api_permits_renew(scene.api_permits, &name, &lease_ns,
                                                 thief->loop_index) == WEIR_OK;
        thief->released +=
            weir_api_permits_release(scene.api_permits, &name, &(struct weir_result){0},
                                     thief->loop_index) == WEIR_OK;
    }
    return NULL;
}

TEST(of_several_threads_that_release_the_same_one_is_first)
{
    static struct thief thieves[LOOPS];
    uint32_t released = 0;
    open_scene(many_at_once);
    hold_many();
    for (uint32_t i = 0; i < LOOPS; i++) {
        thieves[i] = (struct thief){.loop_index = i};
        assert_int_equal(pthread_create(&thieves[i].thread, NULL, release_all, &thieves[i]), 0);
    }
    for (uint32_t i = 0; i < LOOPS; i++) {
        assert_int_equal(pthread_join(thieves[i].thread, NULL), 0);
        assert_true(thieves[i].renewed >= thieves[i].released);
        released += thieves[i].released;
    }
    assert_int_equal(released, MANY);
    assert_int_equal(active_at(1), 0);
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grant_is_released_by_its_id_once),
        cmocka_unit_test(a_grant_is_released_by_its_flow_once),
        cmocka_unit_test(at_another_gate_or_key_a_grant_is_not_found),
        cmocka_unit_test(a_text_that_is_no_id_finds_nothing),
        cmocka_unit_test(a_text_that_only_amounts_to_an_id_is_none),
        cmocka_unit_test(an_id_is_32_digits_in_lower_case_with_the_highest_first),
        cmocka_unit_test(ids_differ_in_both_halves),
        cmocka_unit_test(a_new_grant_is_zeroed_even_if_its_memory_was_used_before),
        cmocka_unit_test(of_one_flow_the_oldest_goes_first),
        cmocka_unit_test(the_id_counts_before_the_flow),
        cmocka_unit_test(a_grant_without_a_flow_is_found_by_its_id),
        cmocka_unit_test(a_grant_without_a_flow_is_not_among_those_of_flows),
        cmocka_unit_test(names_may_be_as_long_as_names_are),
        cmocka_unit_test(a_permit_that_is_given_back_goes_to_who_waits_and_can_be_found_then),
        cmocka_unit_test(one_that_waited_in_vain_is_given_back_without_ever_being_held),
        cmocka_unit_test(what_became_of_the_work_is_passed_on),
        cmocka_unit_test(a_lease_is_renewed_for_what_was_granted_or_less),
        cmocka_unit_test(a_permit_without_a_lease_needs_none),
        cmocka_unit_test(a_renewed_lease_begins_anew),
        cmocka_unit_test(a_renewal_may_shorten_a_lease),
        cmocka_unit_test(a_lease_that_is_over_is_no_longer_held_and_told_to_its_loop),
        cmocka_unit_test(a_call_that_lets_go_as_the_lease_ends_is_not_told_of_it),
        cmocka_unit_test(a_call_that_lets_go_gives_back_once),
        cmocka_unit_test(a_lease_ends_by_itself),
        cmocka_unit_test(the_end_of_a_lease_lets_the_next_one_in),
        cmocka_unit_test(a_lease_may_run_out_while_all_that_is_held_is_given_back),
        cmocka_unit_test(what_is_still_held_goes_with_the_table),
        cmocka_unit_test(what_one_table_holds_another_one_does_not),
        cmocka_unit_test(many_are_held_at_once_and_each_is_found),
        cmocka_unit_test(of_several_threads_that_release_the_same_one_is_first),
    };
    return cmocka_run_group_tests_name("grant", tests, NULL, NULL);
}
