/* Whose turn it is at a full door. */
#include "jobs/waiters.h"

#include "unit/helpers.h"

#include "base/list.h"

#define CROWD 200

static struct weir_waiters waiters;

static int set_up(void **state)
{
    (void)state;
    weir_waiters_init(&waiters);
    return 0;
}

static void join(struct weir_waiter *waiter, uint64_t tenant, enum weir_priority priority)
{
    *waiter = (struct weir_waiter){.tenant = tenant, .priority = priority};
    weir_waiters_join(&waiters, waiter);
}

/* Serves whose turn it is; null if it is nobody's. */
static struct weir_waiter *serve(uint32_t without)
{
    struct weir_waiter *next = weir_waiters_next(&waiters, without);
    if (next != NULL) {
        weir_waiters_serve(&waiters, next);
    }
    return next;
}

TEST(where_nobody_waits_it_is_nobodys_turn)
{
    struct weir_waiter one;
    assert_null(weir_waiters_next(&waiters, 0));
    assert_false(weir_waiters_any(&waiters, WEIR_PRIORITY_HIGH));
    join(&one, 1, WEIR_PRIORITY_HIGH);
    assert_true(weir_waiters_any(&waiters, WEIR_PRIORITY_HIGH));
    assert_false(weir_waiters_any(&waiters, WEIR_PRIORITY_LOW));
    assert_ptr_equal(serve(0), &one);
    assert_null(weir_waiters_next(&waiters, 0));
    assert_false(weir_waiters_any(&waiters, WEIR_PRIORITY_HIGH));
}

TEST(of_one_tenant_it_is_first_come_first_served)
{
    struct weir_waiter crowd[CROWD];
    for (int i = 0; i < CROWD; i++) {
        join(&crowd[i], 7, WEIR_PRIORITY_NORMAL);
    }
    for (int i = 0; i < CROWD; i++) {
        assert_ptr_equal(serve(0), &crowd[i]);
    }
    assert_null(serve(0));
}

TEST(tenants_have_their_turns_however_many_wait)
{
    struct weir_waiter crowd[CROWD], late[3];
    for (int i = 0; i < CROWD; i++) {
        join(&crowd[i], 1, WEIR_PRIORITY_NORMAL);
    }
    assert_ptr_equal(serve(0), &crowd[0]);
    for (int i = 0; i < 3; i++) { /* each comes as the one before has been served */
        join(&late[i], 2, WEIR_PRIORITY_NORMAL);
        assert_ptr_equal(serve(0), &crowd[i + 1]);
        assert_ptr_equal(serve(0), &late[i]);
    }
}

TEST(whoever_goes_away_leaves_its_turn_to_its_tenant)
{
    struct weir_waiter first[3], second[2], third;
    for (int i = 0; i < 3; i++) {
        join(&first[i], 1, WEIR_PRIORITY_LOW);
    }
    join(&second[0], 2, WEIR_PRIORITY_LOW);
    join(&third, 3, WEIR_PRIORITY_LOW);
    join(&second[1], 2, WEIR_PRIORITY_LOW);
    weir_waiters_leave(&first[1]); /* from the middle */
    weir_waiters_leave(&second[0]);
    assert_ptr_equal(serve(0), &first[0]);
    assert_ptr_equal(serve(0), &second[1]);
    weir_waiters_leave(&third); /* the last of its tenant */
    assert_ptr_equal(serve(0), &first[2]);
    assert_null(serve(0));
}

TEST(priorities_have_turns_by_their_weights)
{
    static struct weir_waiter crowds[WEIR_PRIORITY_COUNT][CROWD];
    int served[WEIR_PRIORITY_COUNT] = {0};
    for (int i = 0; i < CROWD; i++) {
        for (int k = 0; k < WEIR_PRIORITY_COUNT; k++) {
            join(&crowds[k][i], (uint64_t)i % 5, (enum weir_priority)k);
        }
    }
    for (int i = 1; i <= 240; i++) {
        served[serve(0)->priority]++;
        assert_true(served[WEIR_PRIORITY_LOW] >= i / 8 - 1); /* spread, not in the end */
    }
    assert_in_range(served[WEIR_PRIORITY_HIGH], 119, 121);
    assert_in_range(served[WEIR_PRIORITY_NORMAL], 89, 91);
    assert_in_range(served[WEIR_PRIORITY_LOW], 29, 31);
}

TEST(a_priority_without_waiters_saves_up_nothing_and_owes_nothing)
{
    static struct weir_waiter high[CROWD], low[CROWD];
    for (int i = 0; i < CROWD; i++) {
        join(&high[i], 1, WEIR_PRIORITY_HIGH);
        assert_ptr_equal(serve(0), &high[i]);
    }
    for (int i = 0; i < CROWD; i++) { /* after two hundred of the other, which nobody minded */
        join(&low[i], 1, WEIR_PRIORITY_LOW);
    }
    assert_ptr_equal(serve(0), &low[0]);
    for (int i = 0; i < CROWD; i++) {
        join(&high[i], 1, WEIR_PRIORITY_HIGH);
    }
    int of_high = 0;
    for (int i = 0; i < 100; i++) {
        of_high += serve(0)->priority == WEIR_PRIORITY_HIGH;
    }
    assert_in_range(of_high, 78, 82);
}

TEST(a_priority_without_room_is_passed_over)
{
    struct weir_waiter high, low;
    join(&high, 1, WEIR_PRIORITY_HIGH);
    join(&low, 1, WEIR_PRIORITY_LOW);
    assert_ptr_equal(weir_waiters_next(&waiters, 0), &high);
    assert_ptr_equal(serve(1u << WEIR_PRIORITY_HIGH), &low);
    assert_null(serve(1u << WEIR_PRIORITY_HIGH));
    assert_ptr_equal(serve(1u << WEIR_PRIORITY_LOW), &high);
}

TEST(a_priority_that_had_no_room_saves_up_nothing)
{
    static struct weir_waiter high[CROWD], low[CROWD];
    int of_low = 0;
    for (int i = 0; i < CROWD; i++) {
        join(&high[i], 1, WEIR_PRIORITY_HIGH);
        join(&low[i], 1, WEIR_PRIORITY_LOW);
    }
    for (int i = 0; i < CROWD / 2; i++) {
        assert_ptr_equal(serve(1u << WEIR_PRIORITY_HIGH), &low[i]);
    }
    for (int i = 0; i < 50; i++) {
        of_low += serve(0)->priority == WEIR_PRIORITY_LOW;
    }
    assert_in_range(of_low, 9, 11);
}

TEST(whoever_needs_several_places_lets_as_many_pass_as_these_are_worth)
{
    static const enum weir_priority priorities[] = {WEIR_PRIORITY_HIGH, WEIR_PRIORITY_LOW};
    static const int passed[] = {3, 9}; /* normal ones: 3 of 4, and 3 of 1, for each of 3 places */
    for (int i = 0; i < 2; i++) {
        struct weir_waiter many, others[CROWD];
        int turns = 0;
        weir_waiters_init(&waiters);
        join(&many, 1, priorities[i]);
        for (int k = 0; k < CROWD; k++) {
            join(&others[k], 2, WEIR_PRIORITY_NORMAL);
        }
        for (; turns < CROWD && !weir_waiters_overdue(&waiters, &many, 3); turns++) {
            assert_ptr_equal(serve(1u << priorities[i]), &others[turns]);
        }
        assert_in_range(turns, passed[i], passed[i] + 2);
        assert_false(weir_waiters_overdue(&waiters, &many, 6));
        weir_waiters_pass(&waiters, WEIR_PRIORITY_NORMAL); /* who does not wait counts as well */
        assert_true(weir_waiters_overdue(&waiters, &many, 3));
        weir_waiters_serve(&waiters, &many);
        join(&many, 1, priorities[i]);
        assert_false(weir_waiters_overdue(&waiters, &many, 1));
    }
}

/* ---- by chance, against the same in the simplest way ---- */

/* Who waits at one priority: `order` has them in the order of coming, `turns` the tenants in
 * theirs. */
static struct {
    struct weir_waiter *order[CROWD];
    int count;
    uint64_t turns[CROWD];
    int turn_count;
} plain;

static bool plain_has(uint64_t tenant)
{
    for (int i = 0; i < plain.count; i++) {
        if (plain.order[i]->tenant == tenant) {
            return true;
        }
    }
    return false;
}

static void plain_join(struct weir_waiter *waiter)
{
    if (!plain_has(waiter->tenant)) {
        plain.turns[plain.turn_count++] = waiter->tenant;
    }
    plain.order[plain.count++] = waiter;
}

/* `last`: its tenant had its turn. */
static void plain_remove(struct weir_waiter *waiter, bool last)
{
    int at = 0;
    while (plain.order[at] != waiter) {
        at++;
    }
    for (plain.count--; at < plain.count; at++) {
        plain.order[at] = plain.order[at + 1];
    }
    bool left = plain_has(waiter->tenant);
    if (left && !last) {
        return;
    }
    at = 0;
    while (plain.turns[at] != waiter->tenant) {
        at++;
    }
    for (plain.turn_count--; at < plain.turn_count; at++) {
        plain.turns[at] = plain.turns[at + 1];
    }
    if (left) {
        plain.turns[plain.turn_count++] = waiter->tenant;
    }
}

static struct weir_waiter *plain_next(void)
{
    for (int i = 0; i < plain.count; i++) {
        if (plain.order[i]->tenant == plain.turns[0]) {
            return plain.order[i];
        }
    }
    return NULL;
}

TEST(by_chance_it_is_as_in_the_simplest_way)
{
    static struct weir_waiter crowd[CROWD];
    uint64_t chance = 1;
    for (int i = 0; i < 100000; i++) {
        chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t roll = (uint32_t)(chance >> 33);
        if (roll % 9 < 4 && plain.count < CROWD) {
            int free = 0; /* one that does not wait: its circle is none */
            while (crowd[free].circle.next != NULL) {
                free++;
            }
            join(&crowd[free], roll / 9 % 7, WEIR_PRIORITY_NORMAL);
            plain_join(&crowd[free]);
        } else if (roll % 9 < 6 && plain.count > 0) {
            struct weir_waiter *leaves = plain.order[roll / 9 % (uint32_t)plain.count];
            weir_waiters_leave(leaves);
            plain_remove(leaves, false);
        } else {
            struct weir_waiter *expected = plain_next();
            assert_ptr_equal(serve(0), expected);
            if (expected != NULL) {
                plain_remove(expected, true);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(where_nobody_waits_it_is_nobodys_turn, set_up),
        cmocka_unit_test_setup(of_one_tenant_it_is_first_come_first_served, set_up),
        cmocka_unit_test_setup(tenants_have_their_turns_however_many_wait, set_up),
        cmocka_unit_test_setup(whoever_goes_away_leaves_its_turn_to_its_tenant, set_up),
        cmocka_unit_test_setup(priorities_have_turns_by_their_weights, set_up),
        cmocka_unit_test_setup(a_priority_without_waiters_saves_up_nothing_and_owes_nothing,
                               set_up),
        cmocka_unit_test_setup(a_priority_without_room_is_passed_over, set_up),
        cmocka_unit_test_setup(a_priority_that_had_no_room_saves_up_nothing, set_up),
        cmocka_unit_test_setup(whoever_needs_several_places_lets_as_many_pass_as_these_are_worth,
                               set_up),
        cmocka_unit_test_setup(by_chance_it_is_as_in_the_simplest_way, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
