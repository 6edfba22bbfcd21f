/* The table of keys: taking, finding, walking, forgetting (G12), settings of their own. */
#include "unit/gate_table.h"

/* ---- taking and finding ---- */

TEST(a_key_comes_into_being_at_its_first_use_and_is_the_same_ever_after)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){0});
    assert_int_equal(weir_gate_key_count(t.gate), 0);
    assert_null(weir_gate_find(t.gate, weir_slice_of("a")));
    struct weir_key *a = take(&t, "a", 1);
    struct weir_key *b = take(&t, "b", 1);
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(take(&t, "a", 2), a);
    assert_ptr_equal(weir_gate_find(t.gate, weir_slice_of("a")), a);
    assert_int_equal(weir_gate_key_count(t.gate), 2);
    assert_int_equal(weir_key_name(b).bytes, 1);
    assert_memory_equal(weir_key_name(b).data, "b", 1);
    for (int i = 0; i < 3; i++) {
        weir_key_give(a);
    }
    weir_key_give(b);
    close_table(&t);
}

TEST(a_keys_name_has_1_to_255_bytes_of_any_kind)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){0});
    char name[256];
    memset(name, 0, sizeof name);
    static const size_t lengths[] = {0, 1, 2, 254, 255, 256};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        bool good = lengths[i] >= 1 && lengths[i] <= 255;
        struct weir_slice slice = {name, lengths[i]};
        struct weir_key *key = NULL;
        assert_int_equal(weir_gate_take(t.gate, slice, 1, &key), good ? WEIR_OK : WEIR_BAD_NAME);
        assert_int_equal(key != NULL, good);
        struct weir_key *found = weir_gate_find(t.gate, slice);
        assert_ptr_equal(found, key);
        if (good) {
            assert_int_equal(weir_key_name(key).bytes, lengths[i]);
            weir_key_give(found);
            weir_key_give(key);
        }
        struct weir_settings settings = {0};
        assert_int_equal(weir_gate_override(t.gate, slice, &settings),
                         good ? WEIR_OK : WEIR_BAD_NAME);
        assert_int_equal(weir_gate_override(t.gate, slice, NULL), good ? WEIR_OK : WEIR_BAD_NAME);
    }
    assert_int_equal(weir_gate_key_count(t.gate), 4);
    close_table(&t);
}

TEST(the_callers_bytes_are_zeroed_aligned_and_its_own)
{
    for (size_t bytes = 1; bytes < 70; bytes += 3) {
        struct table t;
        open_table(&t, (struct weir_gate_options){.key_extra_bytes = bytes},
                   (struct weir_settings){0});
        static const char *const names[] = {"a", "ab", "abc", "a longer name of a key"};
        struct weir_key *keys[4];
        for (size_t i = 0; i < 4; i++) {
            keys[i] = take(&t, names[i], 1);
            unsigned char *extra = weir_key_extra(keys[i]);
            assert_int_equal((uintptr_t)extra % _Alignof(max_align_t), 0);
            for (size_t j = 0; j < bytes; j++) {
                assert_int_equal(extra[j], 0);
            }
            memset(extra, 0xee, bytes);
        }
        for (size_t i = 0; i < 4; i++) {
            weir_key_validate(keys[i]);
            assert_memory_equal(weir_key_name(keys[i]).data, names[i], strlen(names[i]));
            weir_key_give(keys[i]);
        }
        close_table(&t);
    }
}

TEST(a_gate_without_an_allocator_uses_malloc)
{
    struct weir_gate_options options = {.seed = {3, 4}};
    struct weir_settings settings = {0};
    struct weir_gate *gate;
    struct weir_key *key;
    assert_int_equal(weir_gate_create(&options, &settings, &gate), WEIR_OK);
    assert_int_equal(weir_gate_take(gate, weir_slice_of("a"), 1, &key), WEIR_OK);
    weir_key_give(key);
    weir_gate_destroy(gate);
    weir_gate_destroy(NULL);
}

TEST(keys_do_not_know_of_each_other)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){LANE(.limit = 1)});
    struct weir_key *a = take(&t, "a", 1);
    struct weir_key *b = take(&t, "b", 1);
    struct weir_ticket tickets[2] = {0};
    struct weir_request request = {0};
    struct weir_result result = {0};
    assert_int_equal(weir_key_enter(a, &tickets[0], &request, 1, &t.news), WEIR_ADMITTED);
    assert_int_equal(weir_key_enter(b, &tickets[1], &request, 1, &t.news), WEIR_ADMITTED);
    assert_int_equal(weir_key_leave(a, &tickets[0], &result, 1, &t.news), WEIR_OK);
    assert_int_equal(weir_key_get_stats(b).active, 1);
    assert_int_equal(weir_key_leave(b, &tickets[1], &result, 1, &t.news), WEIR_OK);
    weir_key_give(a);
    weir_key_give(b);
    close_table(&t);
}

/* ---- walking ---- */

TEST(a_walk_meets_every_key_once_and_takes_its_pins_back)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){0});
    assert_null(weir_gate_next(t.gate, NULL));
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        weir_key_give(take(&t, names[i], 1));
    }
    size_t seen = 0;
    for (struct weir_key *key = weir_gate_next(t.gate, NULL); key != NULL;
         key = weir_gate_next(t.gate, key)) {
        assert_memory_equal(weir_key_name(key).data, names[seen], 1);
        seen++;
    }
    assert_int_equal(seen, 3);
    /* Nothing is pinned any more, so that all can be forgotten. */
    assert_int_equal(weir_gate_sweep(t.gate, 100, DAY), 3);
    close_table(&t);
}

TEST(a_walk_survives_keys_that_come_and_go_around_it)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){0});
    static const char *const names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 4; i++) {
        weir_key_give(take(&t, names[i], 1));
    }
    struct weir_key *key = weir_gate_next(t.gate, NULL);
    key = weir_gate_next(t.gate, key);
    /* The walk stands at b, which therefore stays. */
    assert_int_equal(weir_gate_sweep(t.gate, 100, DAY), 3);
    assert_memory_equal(weir_key_name(key).data, "b", 1);
    weir_key_give(take(&t, "e", DAY));
    key = weir_gate_next(t.gate, key);
    assert_memory_equal(weir_key_name(key).data, "e", 1);
    assert_null(weir_gate_next(t.gate, key));
    close_table(&t);
}

/* ---- how many ---- */

TEST(a_gate_keeps_its_most_keys_and_not_one_more)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = 3}, (struct weir_settings){0});
    struct weir_key *keys[3];
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        keys[i] = take(&t, names[i], 1);
    }
    struct weir_key *fourth = NULL;
    assert_int_equal(weir_gate_take(t.gate, weir_slice_of("d"), DAY, &fourth), WEIR_TOO_MANY_KEYS);
    assert_null(fourth);
    assert_int_equal(weir_gate_key_count(t.gate), 3);
    assert_ptr_equal(take(&t, "b", DAY), keys[1]);
    weir_key_give(keys[1]);
    assert_int_equal(weir_gate_take(t.gate, weir_slice_of("d"), DAY, &fourth), WEIR_TOO_MANY_KEYS);
    /* Once unpinned, it makes room at once. */
    weir_key_give(keys[1]);
    assert_int_equal(weir_gate_take(t.gate, weir_slice_of("d"), 1, &fourth), WEIR_OK);
    assert_false(knows(&t, "b"));
    assert_int_equal(weir_gate_key_count(t.gate), 3);
    weir_key_give(keys[0]);
    weir_key_give(keys[2]);
    weir_key_give(fourth);
    close_table(&t);
}

TEST(a_full_gate_finds_a_key_to_forget_wherever_it_stands)
{
    enum {
        most = 1000
    };
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = most},
               (struct weir_settings){.forget_ns = 10});
    static struct weir_key *keys[most];
    char name[16];
    for (int i = 0; i < most; i++) {
        snprintf(name, sizeof name, "key %d", i);
        keys[i] = take(&t, name, 1);
    }
    weir_key_give(keys[700]);
    /* Each new name looks at some; before they are too many it is found. */
    for (int i = 0; knows(&t, "key 700"); i++) {
        assert_true(i < most / 128);
        snprintf(name, sizeof name, "new %d", i);
        weir_key_give(take(&t, name, 100));
    }
    for (int i = 0; i < most; i++) {
        if (i != 700) {
            weir_key_give(keys[i]);
        }
    }
    close_table(&t);
}

TEST(a_hundred_thousand_keys_come_without_a_stall)
{
    enum {
        many = 100000
    };
    struct table t;
    open_table(&t, (struct weir_gate_options){.keys_max = many}, (struct weir_settings){0});
    struct weir_key **keys = calloc(many, sizeof(struct weir_key *));
    assert_non_null(keys);
    char name[16];
    uint64_t most_calls = 0;
    uint64_t most_blocks_back = 0;
    for (int i = 0; i < many; i++) {
        uint64_t calls = t.memory.calls;
        uint64_t blocks = t.memory.blocks;
        snprintf(name, sizeof name, "key %d", i);
        keys[i] = take(&t, name, 1);
        uint64_t asked = t.memory.calls - calls;
        uint64_t back = blocks + asked - t.memory.blocks;
        most_calls = asked > most_calls ? asked : most_calls;
        most_blocks_back = back > most_blocks_back ? back : most_blocks_back;
    }
    /* The key, its lanes and at most one larger table: nothing that grows with the number of keys.
     * That the table's chains move a few at a time is tested with the map. */
    assert_true(most_calls <= 6);
    assert_true(most_blocks_back <= 1);
    /* Not all keys have been looked at, so that there is room for one more. */
    weir_key_give(take(&t, "extra", 1));
    for (int i = 0; i < many; i++) {
        snprintf(name, sizeof name, "key %d", i);
        struct weir_key *found = weir_gate_find(t.gate, weir_slice_of(name));
        assert_ptr_equal(found, keys[i]);
        weir_key_give(found);
        weir_key_give(keys[i]);
    }
    assert_int_equal(weir_gate_sweep(t.gate, many, 1 + HOUR), many + 1);
    assert_int_equal(weir_gate_key_count(t.gate), 0);
    free(keys);
    close_table(&t);
}

/* ---- G12: forgetting ---- */

TEST(g12_an_unused_key_is_forgotten_after_exactly_its_time)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){.forget_ns = 100});
    struct weir_key *key = take(&t, "a", 50);
    weir_key_give(key);
    assert_int_equal(weir_gate_sweep(t.gate, 10, 149), 0);
    assert_int_equal(weir_gate_sweep(t.gate, 10, 0), 0);
    assert_true(knows(&t, "a"));
    assert_int_equal(weir_gate_sweep(t.gate, 10, 150), 1);
    assert_false(knows(&t, "a"));
    close_table(&t);
}

TEST(g12_every_call_on_a_key_is_a_use)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){.forget_ns = 100});
    struct weir_key *key = take(&t, "a", 0);
    struct weir_ticket ticket = {0};
    struct weir_request request = {0};
    struct weir_result result = {0};
    assert_int_equal(weir_key_enter(key, &ticket, &request, 70, &t.news), WEIR_ADMITTED);
    assert_int_equal(weir_key_leave(key, &ticket, &result, 80, &t.news), WEIR_OK);
    weir_key_give(key);
    assert_int_equal(weir_gate_sweep(t.gate, 10, 179), 0);
    assert_int_equal(weir_gate_sweep(t.gate, 10, 180), 1);
    close_table(&t);
}

TEST(g12_never_means_never)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){.forget_ns = WEIR_NEVER});
    weir_key_give(take(&t, "a", 0));
    assert_int_equal(weir_gate_sweep(t.gate, 10, WEIR_NEVER - 1), 0);
    close_table(&t);
}

TEST(g12_a_pinned_key_is_not_forgotten)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){0});
    struct weir_key *key = take(&t, "a", 0);
    assert_int_equal(weir_gate_sweep(t.gate, 10, DAY), 0);
    assert_ptr_equal(take(&t, "a", 0), key);
    weir_key_give(key);
    assert_int_equal(weir_gate_sweep(t.gate, 10, DAY), 0);
    weir_key_give(key);
    assert_int_equal(weir_gate_sweep(t.gate, 10, DAY), 1);
    close_table(&t);
}

/* A key with something left to remember until `until_ns`, which is more than `forget` later. */
struct memorable {
    struct table t;
    struct weir_key *key;
    struct weir_ticket tickets[2];
};

static void open_memorable(struct memorable *m, struct weir_settings settings)
{
    memset(m, 0, sizeof *m);
    settings.forget_ns = 1;
    open_table(&m->t, (struct weir_gate_options){0}, settings);
    m->key = take(&m->t, "a", 0);
}

static void close_memorable(struct memorable *m, uint64_t until_ns)
{
    weir_key_give(m->key);
    assert_int_equal(weir_gate_sweep(m->t.gate, 10, until_ns - 1), 0);
    assert_int_equal(weir_gate_sweep(m->t.gate, 10, until_ns), 1);
    close_table(&m->t);
}

static void enter_one(struct memorable *m, struct weir_ticket *ticket, const char *tenant,
                      uint64_t now_ns)
{
    struct weir_request request = request_of(tenant, NORMAL, 1);
    (void)!weir_key_enter(m->key, ticket, &request, now_ns, &m->t.news);
}

static void leave_one(struct memorable *m, struct weir_ticket *ticket, struct weir_result result,
                      uint64_t now_ns)
{
    assert_int_equal(weir_key_leave(m->key, ticket, &result, now_ns, &m->t.news), WEIR_OK);
}

TEST(g12_a_key_with_a_permit_out_is_not_forgotten)
{
    struct memorable m;
    open_memorable(&m, (struct weir_settings){0});
    enter_one(&m, &m.tickets[0], "", 1);
    weir_key_give(m.key);
    assert_int_equal(weir_gate_sweep(m.t.gate, 10, DAY), 0);
    leave_one(&m, &m.tickets[0], (struct weir_result){0}, DAY);
    assert_int_equal(weir_gate_sweep(m.t.gate, 10, DAY), 0);
    assert_int_equal(weir_gate_sweep(m.t.gate, 10, DAY + 1), 1);
    close_table(&m.t);
}

TEST(g12_a_key_where_somebody_waits_is_not_forgotten)
{
    struct memorable m;
    open_memorable(&m, (struct weir_settings){.timeout_ns = WEIR_NEVER});
    assert_int_equal(weir_key_set_limit(m.key, 0, 0, 0, &m.t.news), WEIR_OK);
    enter_one(&m, &m.tickets[0], "", 1);
    weir_key_give(m.key);
    assert_int_equal(weir_gate_sweep(m.t.gate, 10, DAY), 0);
    assert_int_equal(weir_key_cancel(m.key, &m.tickets[0], DAY, &m.t.news), WEIR_OK);
    assert_int_equal(weir_gate_sweep(m.t.gate, 10, DAY + 1), 1);
    close_table(&m.t);
}

TEST(g12_a_key_whose_bucket_is_not_full_is_not_forgotten)
{
    struct memorable m;
    open_memorable(&m, (struct weir_settings){LANE(RATE(.tokens = 1, .period_ns = SECOND))});
    enter_one(&m, &m.tickets[0], "", 10);
    leave_one(&m, &m.tickets[0], (struct weir_result){0}, 10);
    close_memorable(&m, 10 + SECOND);
}

TEST(g12_a_key_that_is_owed_something_is_not_forgotten)
{
    struct memorable m;
    open_memorable(&m, (struct weir_settings){LANE(
                           RATE(.tokens = 1, .period_ns = SECOND, .settle = WEIR_SETTLE_DEBT))});
    enter_one(&m, &m.tickets[0], "", 0);
    leave_one(&m, &m.tickets[0], (struct weir_result){.cost_known = true, .cost = 5}, 0);
    close_memorable(&m, 5 * SECOND);
}

TEST(g12_a_key_where_a_tenants_bucket_is_not_full_is_not_forgotten)
{
    struct memorable m;
    open_memorable(
        &m, (struct weir_settings){.tenant_default = {.rate = {.tokens = 1, .period_ns = SECOND}}});
    enter_one(&m, &m.tickets[0], "t", 10);
    leave_one(&m, &m.tickets[0], (struct weir_result){0}, 10);
    close_memorable(&m, 10 + SECOND);
}

TEST(g12_a_key_that_is_paused_is_not_forgotten)
{
    struct memorable m;
    open_memorable(&m, (struct weir_settings){0});
    assert_int_equal(weir_key_pause(m.key, 0, MINUTE, 0, &m.t.news), WEIR_OK);
    close_memorable(&m, MINUTE);
}

TEST(g12_a_key_whose_breaker_has_tripped_is_kept_until_its_pause_is_over)
{
    struct memorable m;
    open_memorable(
        &m, (struct weir_settings){LANE(.limit = 1, .breaker = {.failures = 1, .pause_ns = 10})});
    enter_one(&m, &m.tickets[0], "", 0);
    leave_one(&m, &m.tickets[0], (struct weir_result){.outcome = WEIR_OUTCOME_SOFT_LOSS}, 0);
    close_memorable(&m, 10);
}

TEST(g12_a_key_with_a_retired_lane_is_kept_while_that_has_permits_out)
{
    struct memorable m;
    open_memorable(&m, (struct weir_settings){LANE(.id = 1)});
    enter_one(&m, &m.tickets[0], "", 0);
    struct weir_settings settings = {LANE(.id = 2), .forget_ns = 1};
    assert_int_equal(weir_gate_configure(m.t.gate, &settings), WEIR_OK);
    assert_int_equal(weir_gate_apply(m.t.gate, m.key, 0, &m.t.news), WEIR_OK);
    weir_key_give(m.key);
    assert_int_equal(weir_gate_sweep(m.t.gate, 10, DAY), 0);
    leave_one(&m, &m.tickets[0], (struct weir_result){0}, DAY);
    assert_int_equal(weir_gate_sweep(m.t.gate, 10, DAY + 1), 1);
    close_table(&m.t);
}

TEST(g12_a_forgotten_key_comes_back_as_a_new_one)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){.key_extra_bytes = 8}, (struct weir_settings){0});
    struct weir_key *key = take(&t, "a", 0);
    memset(weir_key_extra(key), 1, 8);
    struct weir_ticket ticket = {0};
    struct weir_request request = {0};
    struct weir_result result = {0};
    assert_int_equal(weir_key_enter(key, &ticket, &request, 0, &t.news), WEIR_ADMITTED);
    assert_int_equal(weir_key_leave(key, &ticket, &result, 0, &t.news), WEIR_OK);
    weir_key_give(key);
    assert_int_equal(weir_gate_sweep(t.gate, 10, DAY), 1);
    key = take(&t, "a", DAY);
    assert_int_equal(weir_key_get_stats(key).entered, 0);
    assert_int_equal(*(unsigned char *)weir_key_extra(key), 0);
    weir_key_give(key);
    close_table(&t);
}

TEST(a_sweep_looks_at_no_more_keys_than_asked_and_goes_round)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){.forget_ns = 1});
    assert_int_equal(weir_gate_sweep(t.gate, 10, DAY), 0);
    char name[16];
    struct weir_key *pinned = NULL;
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "key %d", i);
        struct weir_key *key = take(&t, name, 0);
        if (i == 1) {
            pinned = key;
        } else {
            weir_key_give(key);
        }
    }
    assert_int_equal(weir_gate_sweep(t.gate, 0, DAY), 0);
    /* 0 goes, 1 stays, 2 goes; then 3 to 5; then the rest, and 1 once more. */
    assert_int_equal(weir_gate_sweep(t.gate, 3, DAY), 2);
    assert_false(knows(&t, "key 2"));
    assert_true(knows(&t, "key 3"));
    assert_int_equal(weir_gate_sweep(t.gate, 3, DAY), 3);
    assert_false(knows(&t, "key 5"));
    assert_true(knows(&t, "key 6"));
    assert_int_equal(weir_gate_sweep(t.gate, 100, DAY), 4);
    assert_int_equal(weir_gate_key_count(t.gate), 1);
    weir_key_give(pinned);
    assert_int_equal(weir_gate_sweep(t.gate, 1, DAY), 1);
    close_table(&t);
}

TEST(a_key_that_was_swept_but_kept_goes_on_as_before)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0},
               (struct weir_settings){LANE(.limit = 1), .line = {.tickets = 2}, .lease_ns = 50,
                                      .timeout_ns = 100});
    struct weir_key *key = take(&t, "a", 0);
    struct weir_request request = request_of("x", NORMAL, 1);
    struct weir_request other = request_of("y", NORMAL, 1);
    struct weir_result result = {0};
    for (uint64_t round = 1; round < 4; round++) {
        struct weir_ticket tickets[4] = {0};
        assert_int_equal(weir_key_enter(key, &tickets[0], &request, round, &t.news), WEIR_ADMITTED);
        assert_int_equal(weir_key_enter(key, &tickets[1], &request, round, &t.news), WEIR_WAITING);
        assert_int_equal(weir_key_enter(key, &tickets[2], &request, round, &t.news), WEIR_WAITING);
        assert_int_equal(weir_key_enter(key, &tickets[3], &other, round, &t.news), WEIR_WAITING);
        weir_key_validate(key);
        assert_ptr_equal(weir_news_next(&t.news), &tickets[2]);
        assert_int_equal(weir_key_cancel(key, &tickets[3], round, &t.news), WEIR_OK);
        assert_int_equal(weir_key_leave(key, &tickets[0], &result, round, &t.news), WEIR_OK);
        assert_ptr_equal(weir_news_next(&t.news), &tickets[1]);
        assert_int_equal(weir_key_leave(key, &tickets[1], &result, round, &t.news), WEIR_OK);
        weir_key_give(key);
        assert_int_equal(weir_gate_sweep(t.gate, 10, round), 0);
        weir_key_validate(key);
        assert_ptr_equal(take(&t, "a", round), key);
    }
    weir_key_give(key);
    close_table(&t);
}

/* ---- settings of their own ---- */

static uint32_t limit_of(struct weir_key *key)
{
    return weir_key_get_stats(key).limit;
}

TEST(new_settings_hold_for_new_keys_at_once_and_for_others_when_applied)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){LANE(.limit = 1)});
    struct weir_key *a = take(&t, "a", 1);
    struct weir_settings settings = {LANE(.limit = 2)};
    assert_int_equal(weir_gate_configure(t.gate, &settings), WEIR_OK);
    struct weir_key *b = take(&t, "b", 1);
    assert_int_equal(limit_of(a), 1);
    assert_int_equal(limit_of(b), 2);
    assert_int_equal(weir_gate_apply(t.gate, a, 1, &t.news), WEIR_OK);
    assert_int_equal(limit_of(a), 2);
    weir_key_give(a);
    weir_key_give(b);
    close_table(&t);
}

TEST(an_override_holds_for_its_key_alone_and_instead_of_the_gates_settings)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){LANE(.limit = 1)});
    struct weir_settings own = {LANE(.limit = 5)};
    assert_int_equal(weir_gate_override(t.gate, weir_slice_of("a"), &own), WEIR_OK);
    struct weir_key *a = take(&t, "a", 1);
    struct weir_key *b = take(&t, "b", 1);
    assert_int_equal(limit_of(a), 5);
    assert_int_equal(limit_of(b), 1);
    /* The gate's change does not reach it; a change of its own does, when applied. */
    struct weir_settings settings = {LANE(.limit = 2)};
    assert_int_equal(weir_gate_configure(t.gate, &settings), WEIR_OK);
    assert_int_equal(weir_gate_apply(t.gate, a, 1, &t.news), WEIR_OK);
    assert_int_equal(limit_of(a), 5);
    own = (struct weir_settings){LANE(.limit = 6)};
    assert_int_equal(weir_gate_override(t.gate, weir_slice_of("a"), &own), WEIR_OK);
    assert_int_equal(limit_of(a), 5);
    assert_int_equal(weir_gate_apply(t.gate, a, 1, &t.news), WEIR_OK);
    assert_int_equal(limit_of(a), 6);
    /* Taken away, it is like all the others. */
    assert_int_equal(weir_gate_override(t.gate, weir_slice_of("a"), NULL), WEIR_OK);
    assert_int_equal(weir_gate_apply(t.gate, a, 1, &t.news), WEIR_OK);
    assert_int_equal(limit_of(a), 2);
    assert_int_equal(weir_gate_override(t.gate, weir_slice_of("a"), NULL), WEIR_OK);
    weir_key_give(a);
    weir_key_give(b);
    close_table(&t);
}

TEST(an_override_outlives_its_key_and_many_of_them_are_told_apart)
{
    struct table t;
    open_table(&t, (struct weir_gate_options){0}, (struct weir_settings){LANE(.limit = 1)});
    char name[16];
    for (uint32_t i = 0; i < 200; i++) {
        struct weir_settings own = {LANE(.limit = 10 + i)};
        snprintf(name, sizeof name, "key %u", i);
        assert_int_equal(weir_gate_override(t.gate, weir_slice_of(name), &own), WEIR_OK);
    }
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 200; i++) {
            snprintf(name, sizeof name, "key %u", i);
            struct weir_key *key = take(&t, name, 0);
            assert_int_equal(limit_of(key), 10 + i);
            weir_key_give(key);
        }
        assert_int_equal(weir_gate_sweep(t.gate, 1000, DAY), 200);
    }
    close_table(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_comes_into_being_at_its_first_use_and_is_the_same_ever_after),
        cmocka_unit_test(a_keys_name_has_1_to_255_bytes_of_any_kind),
        cmocka_unit_test(the_callers_bytes_are_zeroed_aligned_and_its_own),
        cmocka_unit_test(a_gate_without_an_allocator_uses_malloc),
        cmocka_unit_test(keys_do_not_know_of_each_other),
        cmocka_unit_test(a_walk_meets_every_key_once_and_takes_its_pins_back),
        cmocka_unit_test(a_walk_survives_keys_that_come_and_go_around_it),
        cmocka_unit_test(a_gate_keeps_its_most_keys_and_not_one_more),
        cmocka_unit_test(a_full_gate_finds_a_key_to_forget_wherever_it_stands),
        cmocka_unit_test(a_hundred_thousand_keys_come_without_a_stall),
        cmocka_unit_test(g12_an_unused_key_is_forgotten_after_exactly_its_time),
        cmocka_unit_test(g12_every_call_on_a_key_is_a_use),
        cmocka_unit_test(g12_never_means_never),
        cmocka_unit_test(g12_a_pinned_key_is_not_forgotten),
        cmocka_unit_test(g12_a_key_with_a_permit_out_is_not_forgotten),
        cmocka_unit_test(g12_a_key_where_somebody_waits_is_not_forgotten),
        cmocka_unit_test(g12_a_key_whose_bucket_is_not_full_is_not_forgotten),
        cmocka_unit_test(g12_a_key_that_is_owed_something_is_not_forgotten),
        cmocka_unit_test(g12_a_key_where_a_tenants_bucket_is_not_full_is_not_forgotten),
        cmocka_unit_test(g12_a_key_that_is_paused_is_not_forgotten),
        cmocka_unit_test(g12_a_key_whose_breaker_has_tripped_is_kept_until_its_pause_is_over),
        cmocka_unit_test(g12_a_key_with_a_retired_lane_is_kept_while_that_has_permits_out),
        cmocka_unit_test(g12_a_forgotten_key_comes_back_as_a_new_one),
        cmocka_unit_test(a_sweep_looks_at_no_more_keys_than_asked_and_goes_round),
        cmocka_unit_test(a_key_that_was_swept_but_kept_goes_on_as_before),
        cmocka_unit_test(new_settings_hold_for_new_keys_at_once_and_for_others_when_applied),
        cmocka_unit_test(an_override_holds_for_its_key_alone_and_instead_of_the_gates_settings),
        cmocka_unit_test(an_override_outlives_its_key_and_many_of_them_are_told_apart),
    };
    return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
