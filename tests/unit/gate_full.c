/* What a full table of keys forgets for a new one: the key at rest that was taken longest ago,
 * whatever its age; and what it keeps. */
#include "unit/gate_table.h"

#define MS UINT64_C(1000000)

/* Takes a key, uses it once and gives it back. */
static void use(struct table *t, const char *name, uint64_t now_ns)
{
    struct weir_key *key = take(t, name, now_ns);
    struct weir_ticket ticket = {0};
    struct weir_request request = {0};
    assert_int_equal(weir_key_enter(key, &ticket, &request, now_ns, &t->news), WEIR_ADMITTED);
    assert_int_equal(weir_key_leave(key, &ticket, &(struct weir_result){0}, now_ns, &t->news),
                     WEIR_OK);
    weir_key_give(key);
}

static enum weir_status try_new(struct table *t, uint64_t now_ns)
{
    struct weir_key *key = NULL;
    enum weir_status status = weir_gate_take(t->gate, weir_slice_of("new"), now_ns, &key);
    if (status == WEIR_OK) {
        weir_key_give(key);
    }
    return status;
}

TEST(a_full_table_forgets_the_key_at_rest_that_was_taken_longest_ago_whatever_its_age)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = 4}, (struct weir_settings){0});
    use(&t, "a", 1);
    use(&t, "b", 2);
    struct weir_key *c = take(&t, "c", 3);
    use(&t, "d", 4);
    use(&t, "a", 5);
    use(&t, "e", 6); /* b */
    assert_false(knows(&t, "b"));
    use(&t, "f", 7); /* c is pinned, so d */
    assert_false(knows(&t, "d"));
    assert_true(knows(&t, "c"));
    use(&t, "g", 8); /* a */
    assert_false(knows(&t, "a"));
    /* What comes back was used last: the others go first. */
    weir_key_give(c);
    use(&t, "h", 9);
    use(&t, "i", 10);
    use(&t, "j", 11);
    assert_true(knows(&t, "c"));
    use(&t, "k", 12);
    assert_false(knows(&t, "c"));
    assert_int_equal(weir_gate_key_count(t.gate), 4);
    assert_int_equal(weir_gate_displaced(t.gate), 7);
    /* What has come to its age anyway was not displaced. */
    use(&t, "l", 12 + HOUR);
    assert_int_equal(weir_gate_displaced(t.gate), 7);
    close_table(&t);
}

TEST(invented_names_never_shut_out_a_new_one_nor_drive_out_a_key_in_use)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = 100}, (struct weir_settings){0});
    struct weir_key *held = take(&t, "held", 0);
    use(&t, "busy", 0);
    struct weir_key *busy = weir_gate_find(t.gate, weir_slice_of("busy"));
    weir_key_give(busy);
    char name[16];
    for (uint64_t i = 1; i <= 100000; i++) {
        snprintf(name, sizeof name, "invented %u", (unsigned)i);
        use(&t, name, i);
        if (i % 90 == 0) {
            assert_ptr_equal(take(&t, "busy", i), busy);
            weir_key_give(busy);
        }
    }
    assert_int_equal(weir_gate_key_count(t.gate), 100);
    assert_true(knows(&t, "held"));
    assert_true(knows(&t, "busy"));
    weir_key_give(held);
    close_table(&t);
}

TEST(a_full_table_forgets_no_debt_and_knows_when_the_first_is_paid)
{
    struct weir_rate rate = {.tokens = 10, .period_ns = SECOND, .burst = 10};
    struct weir_lane_settings lane = {.rates = &rate, .rate_count = 1};
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = 3},
               (struct weir_settings){.lanes = &lane, .lane_count = 1});
    use(&t, "a", 0); /* one token: until 100 ms */
    use(&t, "b", 20 * MS);
    use(&t, "c", 40 * MS);
    assert_int_equal(try_new(&t, 50 * MS), WEIR_TOO_MANY_KEYS);
    assert_int_equal(weir_gate_room_ns(t.gate), 100 * MS);
    assert_int_equal(try_new(&t, 100 * MS - 1), WEIR_TOO_MANY_KEYS);
    /* A key that is used again while it stands aside is looked at again. */
    use(&t, "a", 90 * MS); /* until 200 ms */
    assert_int_equal(try_new(&t, 110 * MS), WEIR_TOO_MANY_KEYS);
    assert_int_equal(weir_gate_room_ns(t.gate), 120 * MS);
    assert_int_equal(try_new(&t, 120 * MS), WEIR_OK);
    assert_false(knows(&t, "b"));
    /* The new key was not used, and so is at rest; then c. */
    use(&t, "d", 130 * MS);
    assert_false(knows(&t, "new"));
    use(&t, "e", 140 * MS);
    assert_false(knows(&t, "c"));
    assert_true(knows(&t, "a"));
    close_table(&t);
}

TEST(a_full_table_whose_keys_are_paused_knows_until_when)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = 2}, (struct weir_settings){0});
    struct weir_key *a = take(&t, "a", 0);
    struct weir_key *b = take(&t, "b", 0);
    assert_int_equal(weir_key_pause(a, 0, 70 * SECOND, 0, &t.news), WEIR_OK);
    assert_int_equal(weir_key_pause(b, 0, 50 * SECOND, 0, &t.news), WEIR_OK);
    weir_key_give(b);
    assert_int_equal(try_new(&t, SECOND), WEIR_TOO_MANY_KEYS);
    assert_int_equal(weir_gate_room_ns(t.gate), WEIR_NEVER); /* a may be given back any time */
    weir_key_give(a);
    assert_int_equal(try_new(&t, SECOND), WEIR_TOO_MANY_KEYS);
    assert_int_equal(weir_gate_room_ns(t.gate), 50 * SECOND);
    /* A clock that steps back forgets nothing. */
    assert_int_equal(try_new(&t, 0), WEIR_TOO_MANY_KEYS);
    assert_int_equal(try_new(&t, 50 * SECOND), WEIR_OK);
    assert_true(knows(&t, "a"));
    assert_false(knows(&t, "b"));
    close_table(&t);
}

TEST(a_full_table_keeps_a_key_where_a_permit_is_out_and_one_where_a_ticket_waits)
{
    struct weir_lane_settings lane = {.limit = 1};
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = 1},
               (struct weir_settings){.lanes = &lane, .lane_count = 1});
    struct weir_key *key = take(&t, "a", 0);
    struct weir_ticket inside = {0}, waits = {0};
    struct weir_request request = {0};
    struct weir_result result = {0};
    assert_int_equal(weir_key_enter(key, &inside, &request, 1, &t.news), WEIR_ADMITTED);
    assert_int_equal(weir_key_enter(key, &waits, &request, 1, &t.news), WEIR_WAITING);
    assert_int_equal(try_new(&t, 2), WEIR_TOO_MANY_KEYS);
    assert_int_equal(weir_key_leave(key, &inside, &result, 3, &t.news), WEIR_OK);
    assert_ptr_equal(weir_news_next(&t.news), &waits);
    assert_int_equal(try_new(&t, 4), WEIR_TOO_MANY_KEYS);
    assert_int_equal(weir_key_leave(key, &waits, &result, 5, &t.news), WEIR_OK);
    assert_int_equal(try_new(&t, 6), WEIR_TOO_MANY_KEYS);
    weir_key_give(key);
    assert_int_equal(try_new(&t, 7), WEIR_OK);
    close_table(&t);
}

TEST(keys_that_are_aside_and_pinned_again_come_back_once)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = 1}, (struct weir_settings){0});
    struct weir_key *key = take(&t, "a", 0);
    assert_int_equal(try_new(&t, 1), WEIR_TOO_MANY_KEYS);
    /* Given back, taken and given back again, before the table looks at it. */
    weir_key_give(key);
    assert_ptr_equal(take(&t, "a", 2), key);
    assert_int_equal(try_new(&t, 3), WEIR_TOO_MANY_KEYS);
    weir_key_give(key);
    assert_ptr_equal(take(&t, "a", 4), key);
    weir_key_give(key);
    assert_int_equal(try_new(&t, 5), WEIR_OK);
    assert_false(knows(&t, "a"));
    /* What is on its way back when the gate ends is freed with it. */
    key = take(&t, "new", 6);
    struct weir_key *other = NULL;
    assert_int_equal(weir_gate_take(t.gate, weir_slice_of("b"), 6, &other), WEIR_TOO_MANY_KEYS);
    weir_key_give(key);
    close_table(&t);
}

TEST(a_full_table_costs_the_same_however_many_keys_are_in_use)
{
    enum {
        many = 50000
    };
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = many + 1}, (struct weir_settings){0});
    struct weir_key **keys = calloc(many, sizeof(struct weir_key *));
    assert_non_null(keys);
    char name[24];
    for (int i = 0; i < many; i++) {
        snprintf(name, sizeof name, "held %d", i);
        keys[i] = take(&t, name, 1);
    }
    /* One place is left for invented names. A look at every key for each of them would be ten
     * thousand million looks: it would run into the time limit of the test. */
    for (int i = 0; i < 200000; i++) {
        snprintf(name, sizeof name, "invented %d", i);
        use(&t, name, 2);
    }
    assert_int_equal(weir_gate_key_count(t.gate), many + 1);
    for (int i = 0; i < many; i++) {
        weir_key_give(keys[i]);
    }
    for (int i = 0; i < many; i++) {
        snprintf(name, sizeof name, "invented %d", i);
        use(&t, name, 3);
    }
    assert_false(knows(&t, "held 0"));
    free(keys);
    close_table(&t);
}

enum {
    crowd = 20000,
    crowd_over = crowd / 128 /* new keys beyond the bound, while not all keys were looked at */
};

/* Fills the table with `crowd` keys, which are held but for the last `idle`. */
static struct weir_key **fill_with_crowd(struct table *t, int idle)
{
    struct weir_key **keys = calloc(crowd, sizeof(struct weir_key *));
    char name[24];
    assert_non_null(keys);
    for (int i = 0; i < crowd; i++) {
        snprintf(name, sizeof name, "key %d", i);
        keys[i] = take(t, name, 1);
        if (i >= crowd - idle) {
            weir_key_give(keys[i]);
        }
    }
    return keys;
}

static void give_crowd(struct weir_key **keys, int held)
{
    for (int i = 0; i < held; i++) {
        weir_key_give(keys[i]);
    }
}

/* New names are admitted beyond the bound until every key was looked at, a few in each call. */
TEST(one_call_looks_at_few_keys_of_a_full_table)
{
    struct table t;
    struct weir_key *beyond[crowd_over + 1];
    char name[24];
    int admitted = 0;
    open_table(&t, (struct weir_gate_options){.keys_max = crowd}, (struct weir_settings){0});
    struct weir_key **keys = fill_with_crowd(&t, 0);
    for (; admitted <= crowd_over; admitted++) {
        snprintf(name, sizeof name, "new %d", admitted);
        if (weir_gate_take(t.gate, weir_slice_of(name), 2, &beyond[admitted]) != WEIR_OK) {
            break;
        }
    }
    assert_in_range(admitted, crowd / 1000, crowd_over);
    assert_int_equal(weir_gate_key_count(t.gate), crowd + admitted);
    assert_int_equal(try_new(&t, 2), WEIR_TOO_MANY_KEYS);
    assert_int_equal(weir_gate_room_ns(t.gate), WEIR_NEVER);
    /* All of them come back at once. The table is at its bound again before long. */
    give_crowd(keys, crowd);
    give_crowd(beyond, admitted);
    for (int i = 0; i < crowd_over; i++) {
        snprintf(name, sizeof name, "later %d", i);
        use(&t, name, 3);
    }
    assert_int_equal(weir_gate_key_count(t.gate), crowd);
    free(keys);
    close_table(&t);
}

TEST(a_key_at_rest_behind_a_crowd_in_use_makes_room_and_no_new_name_is_refused)
{
    struct table t;
    char name[24];
    open_table(&t, (struct weir_gate_options){.keys_max = crowd}, (struct weir_settings){0});
    struct weir_key **keys = fill_with_crowd(&t, 1);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "new %d", i);
        use(&t, name, 2);
        assert_in_range(weir_gate_key_count(t.gate), crowd, crowd + crowd_over);
    }
    snprintf(name, sizeof name, "key %d", crowd - 1);
    assert_false(knows(&t, name));
    assert_int_equal(weir_gate_key_count(t.gate), crowd);
    give_crowd(keys, crowd - 1);
    free(keys);
    close_table(&t);
}

TEST(a_lower_bound_shrinks_the_table_by_sweeps_and_by_new_keys)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = 100}, (struct weir_settings){0});
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "key %d", i);
        use(&t, name, 1);
    }
    assert_int_equal(weir_gate_keys_max(t.gate), 100);
    weir_gate_set_keys_max(t.gate, 10);
    use(&t, "new", 2);
    assert_int_equal(weir_gate_key_count(t.gate), 99);
    assert_int_equal(weir_gate_sweep(t.gate, 20, 2), 20);
    assert_int_equal(weir_gate_sweep(t.gate, 1000, 2), 69);
    assert_int_equal(weir_gate_key_count(t.gate), 10);
    assert_true(knows(&t, "new"));
    weir_gate_set_keys_max(t.gate, 0);
    assert_int_equal(weir_gate_keys_max(t.gate), WEIR_KEYS_DEFAULT);
    close_table(&t);
}

TEST(a_full_table_without_memory_to_remember_debts_still_finds_a_key_at_rest)
{
    struct weir_rate rate = {.tokens = 1, .period_ns = SECOND};
    struct weir_lane_settings lane = {.rates = &rate, .rate_count = 1};
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = 3},
               (struct weir_settings){.lanes = &lane, .lane_count = 1});
    use(&t, "a", 0);
    use(&t, "b", 0);
    use(&t, "c", 0);
    t.memory.fail_at = t.memory.calls + 1;
    t.memory.fail_on = true;
    assert_int_equal(try_new(&t, 1), WEIR_TOO_MANY_KEYS);
    assert_int_equal(try_new(&t, SECOND),
                     WEIR_NO_MEMORY); /* a made room, for which there is none */
    t.memory.fail_at = 0;
    assert_false(knows(&t, "a"));
    assert_int_equal(try_new(&t, SECOND), WEIR_OK);
    close_table(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_full_table_forgets_the_key_at_rest_that_was_taken_longest_ago_whatever_its_age),
        cmocka_unit_test(invented_names_never_shut_out_a_new_one_nor_drive_out_a_key_in_use),
        cmocka_unit_test(a_full_table_forgets_no_debt_and_knows_when_the_first_is_paid),
        cmocka_unit_test(a_full_table_whose_keys_are_paused_knows_until_when),
        cmocka_unit_test(
            a_full_table_keeps_a_key_where_a_permit_is_out_and_one_where_a_ticket_waits),
        cmocka_unit_test(keys_that_are_aside_and_pinned_again_come_back_once),
        cmocka_unit_test(a_full_table_costs_the_same_however_many_keys_are_in_use),
        cmocka_unit_test(one_call_looks_at_few_keys_of_a_full_table),
        cmocka_unit_test(a_key_at_rest_behind_a_crowd_in_use_makes_room_and_no_new_name_is_refused),
        cmocka_unit_test(a_lower_bound_shrinks_the_table_by_sweeps_and_by_new_keys),
        cmocka_unit_test(a_full_table_without_memory_to_remember_debts_still_finds_a_key_at_rest),
    };
    return cmocka_run_group_tests_name("gate_full", tests, NULL, NULL);
}
