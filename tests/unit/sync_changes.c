/* What changes at a gate while threads wait there: settings, priorities, tenants, keys, memory. */
#include "unit/sync_helpers.h"

/* ---- changes while threads wait ---- */

static void raise_limit(void *context, struct weir_key *key, uint64_t now_ns,
                        struct weir_news *news)
{
    const uint32_t *limit = context;
    assert(weir_key_set_limit(key, 0, *limit, now_ns, news) == WEIR_OK);
}

static void a_limit_raised_in_a_visit_wakes_as_many_as_it_lets_through(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held;
    take(&held, NULL);
    struct guest *guests[5];
    for (int i = 0; i < 5; i++) {
        guests[i] = send_to_line((struct guest){.timeout_ns = WEIR_NEVER, .keeps = true});
    }
    weir_sync_visit(fixture.key, raise_limit, &(uint32_t){4});
    for (int i = 0; i < 3; i++) {
        assert_int_equal(await(guests[i]), WEIR_OK);
    }
    struct weir_key_stats stats = weir_sync_get_stats(fixture.key);
    assert_int_equal(stats.active, 4);
    assert_int_equal(stats.waiting, 2);
    give(&held);
    assert_int_equal(await(guests[3]), WEIR_OK);
    give(&guests[0]->permit);
    assert_int_equal(await(guests[4]), WEIR_OK);
    for (int i = 1; i < 5; i++) {
        give(&guests[i]->permit);
    }
    close_key();
}

/* Admits somebody and lets the lease lapse before anybody hears of the admission. */
static void raise_limit_and_let_leases_lapse(void *context, struct weir_key *key, uint64_t now_ns,
                                             struct weir_news *news)
{
    raise_limit(context, key, now_ns, news);
    weir_key_wake(key, now_ns + 1, news);
}

static void a_lease_that_lapses_in_the_same_visit_was_held_and_is_not_any_more(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held;
    take(&held, NULL);
    struct guest *guest = send_to_line(
        (struct guest){.request = {.lease_ns = 1}, .timeout_ns = WEIR_NEVER, .keeps = true});
    weir_sync_visit(fixture.key, raise_limit_and_let_leases_lapse, &(uint32_t){2});
    assert_int_equal(await(guest), WEIR_OK);
    assert_int_equal(weir_sync_release(&guest->permit, NULL), WEIR_NOT_HELD);
    give(&held);
    close_key();
}

static void look_at(void *context, struct weir_key *key, uint64_t now_ns, struct weir_news *news)
{
    struct weir_key_stats *stats = context;
    (void)now_ns;
    (void)news;
    weir_key_validate(key);
    *stats = weir_key_get_stats(key);
}

static void a_visit_finds_done_what_was_due(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit leased;
    take(&leased, &(struct weir_request){.lease_ns = 1});
    assert_int_equal(weir_sync_get_stats(fixture.key).active, 1);
    struct weir_key_stats stats;
    weir_sync_visit(fixture.key, look_at, &stats);
    assert_int_equal(stats.active, 0);
    assert_int_equal(stats.ended[WEIR_END_LAPSED], 1);
    assert_int_equal(weir_sync_release(&leased, NULL), WEIR_NOT_HELD);
    close_key();
}

static void new_settings_admit_threads_that_wait_already(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held;
    take(&held, NULL);
    struct guest *first = send_to_line((struct guest){.timeout_ns = WEIR_NEVER, .keeps = true});
    struct guest *second = send_to_line((struct guest){.timeout_ns = WEIR_NEVER, .keeps = true});
    struct weir_lane_settings wider = {.limit = 3};
    assert_int_equal(weir_sync_configure(fixture.sync,
                                         &(struct weir_settings){.lanes = &wider, .lane_count = 1}),
                     WEIR_OK);
    assert_int_equal(await(first), WEIR_OK);
    assert_int_equal(await(second), WEIR_OK);
    assert_int_equal(weir_sync_get_stats(fixture.key).limit, 3);
    give(&held);
    give(&first->permit);
    give(&second->permit);
    close_key();
}

static void new_settings_do_not_touch_those_who_wait(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held;
    take(&held, NULL);
    struct guest *guest = send_to_line((struct guest){.timeout_ns = WEIR_NEVER});
    struct weir_lane_settings lane = {.limit = 1};
    struct weir_settings hasty = {.lanes = &lane,
                                  .lane_count = 1,
                                  .timeout_ns = 1,
                                  .line = {.tickets = 1},
                                  .recorder_events = 16};
    assert_int_equal(weir_sync_configure(fixture.sync, &hasty), WEIR_OK);
    struct weir_permit refused = {0};
    assert_int_equal(weir_sync_acquire(fixture.key, NULL, WEIR_NEVER, NULL, &refused),
                     WEIR_LINE_FULL);
    give(&held);
    assert_int_equal(await(guest), WEIR_OK);
    close_key();
}

static void bad_settings_are_refused_and_change_nothing(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_settings bad = {.lane_count = WEIR_LANES_MAX + 1};
    assert_int_equal(weir_sync_configure(fixture.sync, &bad), WEIR_BAD_LANES);
    assert_int_equal(weir_sync_override(fixture.sync, weir_slice_of("key"), &bad), WEIR_BAD_LANES);
    assert_int_equal(weir_sync_get_stats(fixture.key).limit, 1);
    struct weir_sync *none = NULL;
    assert_int_equal(weir_sync_create(NULL, &bad, &none), WEIR_BAD_LANES);
    assert_null(none);
    close_key();
}

static void a_key_may_have_settings_of_its_own(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_slice name = weir_slice_of("key"), later = weir_slice_of("later");
    struct weir_lane_settings two = {.limit = 2}, four = {.limit = 4};
    struct weir_settings own = {.lanes = &two, .lane_count = 1};
    struct weir_settings common = {.lanes = &four, .lane_count = 1};
    struct weir_permit held;
    take(&held, NULL);
    struct guest *guest = send_to_line((struct guest){.timeout_ns = WEIR_NEVER});
    assert_int_equal(weir_sync_override(fixture.sync, name, &own), WEIR_OK);
    assert_int_equal(await(guest), WEIR_OK);
    assert_int_equal(weir_sync_override(fixture.sync, later, &own), WEIR_OK);
    assert_int_equal(weir_sync_configure(fixture.sync, &common), WEIR_OK);
    assert_int_equal(weir_sync_get_stats(fixture.key).limit, 2);
    struct weir_sync_key *later_key;
    assert_int_equal(weir_sync_open(fixture.sync, later, &later_key), WEIR_OK);
    assert_int_equal(weir_sync_get_stats(later_key).limit, 2);
    assert_int_equal(weir_sync_override(fixture.sync, name, NULL), WEIR_OK);
    assert_int_equal(weir_sync_get_stats(fixture.key).limit, 4);
    weir_sync_close(later_key);
    give(&held);
    close_key();
}

/* ---- priorities and tenants ---- */

static void priorities_take_turns_by_their_weights(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held;
    take(&held, NULL);
    static const enum weir_priority comes[8] = {
        WEIR_PRIORITY_LOW,    WEIR_PRIORITY_LOW,  WEIR_PRIORITY_NORMAL, WEIR_PRIORITY_NORMAL,
        WEIR_PRIORITY_NORMAL, WEIR_PRIORITY_HIGH, WEIR_PRIORITY_HIGH,   WEIR_PRIORITY_HIGH};
    struct guest *guests[8];
    for (int i = 0; i < 8; i++) {
        guests[i] = send_to_line(
            (struct guest){.request = {.priority = comes[i]}, .timeout_ns = WEIR_NEVER});
    }
    give(&held);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(await(guests[i]), WEIR_OK);
    }
    /* First come, first served within a priority; the second of low goes last of all. */
    for (int i = 0; i + 1 < 8; i++) {
        assert_true(comes[i] != comes[i + 1] || guests[i]->place < guests[i + 1]->place);
    }
    assert_int_equal(guests[5]->place, 0);
    assert_int_equal(guests[1]->place, 7);
    close_key();
}

static void a_tenant_with_one_ticket_waits_one_turn_behind_one_with_many(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held;
    take(&held, NULL);
    struct guest like = {.timeout_ns = WEIR_NEVER};
    struct guest *many[6];
    like.request.tenant = weir_slice_of("many");
    for (int i = 0; i < 6; i++) {
        many[i] = send_to_line(like);
    }
    like.request.tenant = weir_slice_of("one");
    struct guest *one = send_to_line(like);
    give(&held);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(await(many[i]), WEIR_OK);
    }
    assert_int_equal(await(one), WEIR_OK);
    assert_true(one->place <= 1);
    close_key();
}

static void a_tenant_at_its_own_limit_is_passed_over_and_keeps_its_place(void **state)
{
    (void)state;
    struct weir_lane_settings lane = {.limit = 2};
    open_with(
        &(struct weir_settings){.lanes = &lane, .lane_count = 1, .tenant_default = {.limit = 1}});
    struct weir_permit held, other;
    struct weir_request mine = {.tenant = weir_slice_of("mine")};
    struct weir_request theirs = {.tenant = weir_slice_of("theirs")};
    take(&held, &mine);
    struct guest *guest = send_to_line((struct guest){.request = mine, .timeout_ns = WEIR_NEVER});
    take(&other, &theirs);
    give(&other);
    assert_int_equal(waiting(), 1);
    give(&held);
    assert_int_equal(await(guest), WEIR_OK);
    close_key();
}

/* ---- keys and the table ---- */

static void keys_do_not_wait_for_one_another(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_sync_key *same, *other;
    assert_int_equal(weir_sync_open(fixture.sync, weir_slice_of("key"), &same), WEIR_OK);
    assert_ptr_equal(same, fixture.key);
    weir_sync_close(same);
    assert_int_equal(weir_sync_open(fixture.sync, weir_slice_of("other"), &other), WEIR_OK);
    struct weir_permit held, other_held = {0};
    take(&held, NULL);
    assert_int_equal(weir_sync_try(other, NULL, &other_held), WEIR_OK);
    give(&other_held);
    give(&held);
    weir_sync_close(other);
    close_key();
}

static void a_bad_name_is_refused(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_sync_key *key = NULL;
    assert_int_equal(weir_sync_open(fixture.sync, weir_slice_of(""), &key), WEIR_BAD_NAME);
    assert_null(key);
    close_key();
}

static void keys_that_are_open_are_kept_and_others_make_room(void **state)
{
    (void)state;
    struct weir_settings settings = {.forget_ns = 1};
    struct weir_gate_options options = {.keys_max = 2};
    struct weir_sync *sync;
    struct weir_sync_key *a, *b, *c = NULL;
    assert_int_equal(weir_sync_create(&options, &settings, &sync), WEIR_OK);
    assert_int_equal(weir_sync_open(sync, weir_slice_of("a"), &a), WEIR_OK);
    assert_int_equal(weir_sync_open(sync, weir_slice_of("b"), &b), WEIR_OK);
    assert_int_equal(weir_sync_open(sync, weir_slice_of("c"), &c), WEIR_TOO_MANY_KEYS);
    assert_null(c);
    weir_sync_close(a);
    WAIT_FOR(weir_sync_open(sync, weir_slice_of("c"), &c) == WEIR_OK);
    struct weir_permit permit = {0};
    assert_int_equal(weir_sync_acquire(c, NULL, 0, NULL, &permit), WEIR_OK);
    give(&permit);
    weir_sync_close(b);
    weir_sync_close(c);
    weir_sync_destroy(sync);
}

/* Threads that open and close more names than the table has keys: a key is given back while another
 * thread looks at it, puts it aside or makes room of it. */
#define TABLE_THREADS 4
#define TABLE_ROUNDS  20000
#define TABLE_NAMES   12
#define TABLE_KEYS    3

struct visitor {
    pthread_t thread;
    struct weir_sync *sync;
    uint32_t number;
    uint32_t opened;
};

static void *visit_many_keys(void *context)
{
    struct visitor *visitor = context;
    char name[16];
    for (uint32_t i = 0; i < TABLE_ROUNDS; i++) {
        struct weir_sync_key *key;
        uint32_t choice = (i * (2 * visitor->number + 1) + visitor->number) % TABLE_NAMES;
        int bytes = snprintf(name, sizeof name, "key %u", choice);
        enum weir_status status =
            weir_sync_open(visitor->sync, (struct weir_slice){name, (size_t)bytes}, &key);
        if (status == WEIR_OK) {
            struct weir_permit permit = {0};
            if (weir_sync_try(key, NULL, &permit) == WEIR_OK) {
                weir_sync_release(&permit, NULL);
            }
            weir_sync_close(key);
            visitor->opened++;
        } else if (status != WEIR_TOO_MANY_KEYS) {
            return NULL; /* which the count will show */
        }
    }
    return visitor;
}

static void threads_may_come_and_go_at_a_full_table(void **state)
{
    (void)state;
    struct weir_gate_options options = {.keys_max = TABLE_KEYS};
    struct weir_settings settings = {0};
    struct weir_sync *sync;
    struct visitor visitors[TABLE_THREADS] = {0};
    assert_int_equal(weir_sync_create(&options, &settings, &sync), WEIR_OK);
    for (uint32_t i = 0; i < TABLE_THREADS; i++) {
        visitors[i] = (struct visitor){.sync = sync, .number = i};
        assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit_many_keys, &visitors[i]),
                         0);
    }
    for (uint32_t i = 0; i < TABLE_THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(visitors[i].thread, &result), 0);
        assert_ptr_equal(result, &visitors[i]);
        assert_true(visitors[i].opened > 0);
    }
    /* All are closed, so there is room for as many new keys as the table has. */
    struct weir_sync_key *keys[TABLE_KEYS];
    static const char *const names[TABLE_KEYS] = {"x", "y", "z"};
    for (int i = 0; i < TABLE_KEYS; i++) {
        assert_int_equal(weir_sync_open(sync, weir_slice_of(names[i]), &keys[i]), WEIR_OK);
    }
    for (int i = 0; i < TABLE_KEYS; i++) {
        weir_sync_close(keys[i]);
    }
    weir_sync_destroy(sync);
}

/* ---- without memory ---- */

struct scarcity {
    uint64_t left; /* allocations until none succeeds */
    uint64_t out;  /* bytes not yet given back */
};

static void *allocate_scarce(void *context, size_t bytes)
{
    struct scarcity *scarcity = context;
    if (scarcity->left == 0) {
        return NULL;
    }
    scarcity->left--;
    scarcity->out += bytes;
    return malloc(bytes);
}

static void release_scarce(void *context, void *memory, size_t bytes)
{
    struct scarcity *scarcity = context;
    scarcity->out -= bytes;
    free(memory);
}

/* Makes a gate, opens a key and takes a permit; the number of steps that worked. */
static int try_all(const struct weir_allocator *allocator)
{
    struct weir_gate_options options = {.allocator = allocator};
    struct weir_settings settings = {0};
    struct weir_sync *sync;
    struct weir_sync_key *key;
    struct weir_permit permit = {0};
    int steps = 0;
    if (weir_sync_create(&options, &settings, &sync) != WEIR_OK) {
        return steps;
    }
    steps++;
    if (weir_sync_open(sync, weir_slice_of("key"), &key) == WEIR_OK) {
        steps++;
        enum weir_status status = weir_sync_acquire(key, NULL, WEIR_NEVER, NULL, &permit);
        if (status == WEIR_OK) {
            steps++;
            weir_sync_release(&permit, NULL);
        } else {
            assert_int_equal(status, WEIR_NO_MEMORY);
        }
        weir_sync_close(key);
    }
    weir_sync_destroy(sync);
    return steps;
}

static void without_memory_a_call_says_so_and_nothing_is_lost(void **state)
{
    (void)state;
    uint64_t count = 0;
    int steps = 0;
    while (steps < 3) {
        struct scarcity scarcity = {.left = count++};
        struct weir_allocator allocator = {&scarcity, allocate_scarce, release_scarce};
        int before = steps;
        steps = try_all(&allocator);
        assert_true(steps >= before);
        assert_int_equal(scarcity.out, 0);
        assert_true(count < 1000);
    }
    assert_true(count > 3);
}

static void destroying_no_gate_does_nothing(void **state)
{
    (void)state;
    weir_sync_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_raised_in_a_visit_wakes_as_many_as_it_lets_through),
        cmocka_unit_test(a_lease_that_lapses_in_the_same_visit_was_held_and_is_not_any_more),
        cmocka_unit_test(a_visit_finds_done_what_was_due),
        cmocka_unit_test(new_settings_admit_threads_that_wait_already),
        cmocka_unit_test(new_settings_do_not_touch_those_who_wait),
        cmocka_unit_test(bad_settings_are_refused_and_change_nothing),
        cmocka_unit_test(a_key_may_have_settings_of_its_own),
        cmocka_unit_test(priorities_take_turns_by_their_weights),
        cmocka_unit_test(a_tenant_with_one_ticket_waits_one_turn_behind_one_with_many),
        cmocka_unit_test(a_tenant_at_its_own_limit_is_passed_over_and_keeps_its_place),
        cmocka_unit_test(keys_do_not_wait_for_one_another),
        cmocka_unit_test(a_bad_name_is_refused),
        cmocka_unit_test(keys_that_are_open_are_kept_and_others_make_room),
        cmocka_unit_test(threads_may_come_and_go_at_a_full_table),
        cmocka_unit_test(without_memory_a_call_says_so_and_nothing_is_lost),
        cmocka_unit_test(destroying_no_gate_does_nothing),
    };
    return cmocka_run_group_tests_name("sync_changes", tests, NULL, NULL);
}
