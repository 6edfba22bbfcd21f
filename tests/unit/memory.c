/* Every allocation fails once in its turn: expected is a clean "no memory", everything as it was
 * before, the same call again with success once there is memory, and not a byte lost. */

#include "unit/helpers.h"

typedef void scenario(struct memory *memory);

/* Runs the scenario with the first allocation failing, then with the second, and so on until it
 * needs no more; then again with all that follow failing too, until somebody was told. */
static void fail_each_allocation_in_turn(scenario *run)
{
    for (int on = 0; on < 2; on++) {
        uint64_t at = 0;
        uint64_t failed;
        do {
            struct memory memory;
            memory_init(&memory);
            memory.fail_at = ++at;
            memory.fail_on = on == 1;
            run(&memory);
            expect_no_memory_out(&memory);
            failed = memory.failed;
        } while (failed > 0);
        /* At least one allocation was made to fail, and not for ever. */
        assert_true(at > 1);
        assert_true(at < 5000);
    }
}

/* Whether the call is to be made again: it ran out of memory, and from now on there is some. */
static bool ran_out(struct memory *memory, enum weir_status status)
{
    if (status == WEIR_OK) {
        return false;
    }
    assert_string_equal(weir_status_name(status), "NO_MEMORY");
    assert_true(memory->failed > 0);
    memory->fail_at = 0;
    return true;
}

/* ---- settings with everything in them ---- */

static const struct weir_rate rates[] = {
    {.tokens = 1000, .period_ns = SECOND},
    {.tokens = 1000, .period_ns = MINUTE, .unit = WEIR_UNIT_REQUESTS}};

static const struct weir_lane_settings lanes[] = {
    {.id = 1, .limit = 2, .rates = rates, .rate_count = 2},
    {.id = 2, .limit = 1, .rates = rates, .rate_count = 1},
    {.id = 3, .limit = 1, .breaker = {.failures = 3, .pause_ns = 10}}};

static const struct weir_tenant_settings tenants[] = {
    {.name = {"t1", 2}, .weight = 2},
    {.name = {"t2", 2}, .limit = 1},
    {.name = {"t3", 2}, .rate = {.tokens = 3, .period_ns = DAY}}};

static struct weir_settings small(void)
{
    return (struct weir_settings){.lanes = lanes, .lane_count = 1, .timeout_ns = 1000};
}

static struct weir_settings large(void)
{
    return (struct weir_settings){
        .lanes = lanes,
        .lane_count = 3,
        .timeout_ns = 1000,
        .lease_ns = 5000,
        .line = {.tickets = 24, .cost = 60},
        .line_by_priority = {{.tickets = 10}, {.cost = 30}, {.tickets = 12, .cost = 25}},
        .tenant_default = {.rate = {.tokens = 5, .period_ns = DAY}},
        .tenants = tenants,
        .tenant_count = 3,
        .recorder_events = 16};
}

static struct weir_gate *create_gate(struct memory *memory, struct weir_settings settings)
{
    struct weir_gate_options options = options_with(&memory->allocator);
    options.key_extra_bytes = 24;
    struct weir_gate *gate = NULL;
    while (ran_out(memory, weir_gate_create(&options, &settings, &gate))) {
        assert_null(gate);
        assert_int_equal(memory->blocks, 0);
    }
    return gate;
}

static struct weir_key *take_key(struct memory *memory, struct weir_gate *gate, const char *name)
{
    struct weir_key *key = NULL;
    uint32_t count = weir_gate_key_count(gate);
    while (ran_out(memory, weir_gate_take(gate, weir_slice_of(name), 1, &key))) {
        assert_null(key);
        assert_int_equal(weir_gate_key_count(gate), count);
        assert_null(weir_gate_find(gate, weir_slice_of(name)));
    }
    weir_key_validate(key);
    return key;
}

/* ---- a gate and its keys ---- */

static void gate_scenario(struct memory *memory)
{
    struct weir_gate *gate = create_gate(memory, large());
    struct weir_settings own = small();
    struct weir_settings other = large();
    char name[16];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "key %d", i);
        while (ran_out(memory, weir_gate_override(gate, weir_slice_of(name), &own))) {
        }
    }
    while (ran_out(memory, weir_gate_override(gate, weir_slice_of("key 1"), &other))) {
    }
    while (ran_out(memory, weir_gate_configure(gate, &other))) {
    }
    struct weir_key *keys[20];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "key %d", i);
        keys[i] = take_key(memory, gate, name);
        assert_int_equal(weir_key_get_stats(keys[i]).lanes, i < 4 && i != 1 ? 1 : 3);
    }
    assert_int_equal(weir_gate_override(gate, weir_slice_of("key 0"), NULL), WEIR_OK);
    for (int i = 0; i < 20; i++) {
        weir_key_give(keys[i]);
    }
    assert_int_equal(weir_gate_sweep(gate, 10, DAY), 10);
    weir_gate_destroy(gate);
}

TEST(a_gate_and_its_keys_survive_the_loss_of_any_allocation)
{
    fail_each_allocation_in_turn(gate_scenario);
}

/* ---- a line full of tenants ---- */

enum {
    crowd_count = 60
};

struct crowd {
    struct memory *memory;
    struct weir_gate *gate;
    struct weir_key *key;
    struct weir_news news;
    struct weir_ticket tickets[crowd_count];
};

static void expect_same_state(const struct weir_key *key, const struct weir_key_stats *before)
{
    struct weir_key_stats now = weir_key_get_stats(key);
    assert_int_equal(now.active, before->active);
    assert_int_equal(now.waiting, before->waiting);
    assert_int_equal(now.waiting_cost, before->waiting_cost);
    assert_int_equal(now.reserved, before->reserved);
    assert_int_equal(now.lanes, before->lanes);
    assert_int_equal(now.limit, before->limit);
    assert_int_equal(now.wake_ns, before->wake_ns);
    assert_int_equal(now.ended[WEIR_END_DISPLACED], before->ended[WEIR_END_DISPLACED]);
    assert_memory_equal(now.waiting_by_priority, before->waiting_by_priority,
                        sizeof now.waiting_by_priority);
}

static void open_crowd(struct crowd *c, struct memory *memory, struct weir_settings settings)
{
    memset(c, 0, sizeof *c);
    c->memory = memory;
    c->gate = create_gate(memory, settings);
    c->key = take_key(memory, c->gate, "key");
}

/* One ticket enters, again if memory was missing; a refusal for another reason is one of its ends.
 */
static void enter_crowd(struct crowd *c, struct weir_ticket *ticket, struct weir_request request)
{
    struct weir_key_stats before = weir_key_get_stats(c->key);
    while (weir_key_enter(c->key, ticket, &request, 1, &c->news) == WEIR_REFUSED &&
           ticket->refusal == WEIR_NO_MEMORY) {
        assert_true(ran_out(c->memory, WEIR_NO_MEMORY));
        expect_ended(ticket, WEIR_END_REFUSED);
        weir_key_validate(c->key);
        expect_same_state(c->key, &before);
        assert_null(weir_news_next(&c->news));
    }
    weir_key_validate(c->key);
    while (weir_news_next(&c->news) != NULL) {
    }
}

static void fill_crowd(struct crowd *c)
{
    for (uint32_t i = 0; i < crowd_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%u", i * 7 % 13);
        struct weir_request request = request_of(name, (enum weir_priority)(i % 3), 1 + i % 4);
        request.lease_ns = i % 5 == 0 ? 77 : 0;
        request.deadline_ns = i % 4 == 0 ? WEIR_NEVER : 0;
        request.retry = i % 11 == 10;
        enter_crowd(c, &c->tickets[i], request);
    }
}

/* Nothing that gives back needs memory. */
static void close_crowd(struct crowd *c)
{
    struct weir_result result = {0};
    for (size_t i = 0; i < crowd_count; i++) {
        if (c->tickets[i].state == WEIR_TICKET_ADMITTED) {
            assert_int_equal(weir_key_leave(c->key, &c->tickets[i], &result, 2, &c->news), WEIR_OK);
        } else if (c->tickets[i].state == WEIR_TICKET_WAITING) {
            assert_int_equal(weir_key_cancel(c->key, &c->tickets[i], 2, &c->news), WEIR_OK);
        }
        weir_key_validate(c->key);
        while (weir_news_next(&c->news) != NULL) {
        }
    }
    for (size_t i = 0; i < crowd_count; i++) {
        (void)!weir_key_cancel(c->key, &c->tickets[i], 3, &c->news);
        while (weir_news_next(&c->news) != NULL) {
        }
    }
    struct weir_key_stats stats = weir_key_get_stats(c->key);
    assert_int_equal(stats.active, 0);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.reserved, 0);
    weir_key_give(c->key);
    weir_gate_destroy(c->gate);
}

static void crowd_scenario(struct memory *memory)
{
    struct crowd c;
    open_crowd(&c, memory, large());
    fill_crowd(&c);
    struct weir_key_stats stats = weir_key_get_stats(c.key);
    /* It was worth the while: all lanes are full, the line is long, some were displaced. */
    assert_int_equal(stats.active, 4);
    assert_true(stats.waiting >= 15);
    assert_true(stats.ended[WEIR_END_DISPLACED] > 0);
    close_crowd(&c);
}

TEST(a_line_of_many_tenants_survives_the_loss_of_any_allocation)
{
    fail_each_allocation_in_turn(crowd_scenario);
}

static void simple_crowd_scenario(struct memory *memory)
{
    struct crowd c;
    open_crowd(&c, memory, small());
    fill_crowd(&c);
    assert_true(weir_key_get_stats(c.key).waiting >= 50);
    close_crowd(&c);
}

TEST(a_line_without_bounds_survives_the_loss_of_any_allocation)
{
    fail_each_allocation_in_turn(simple_crowd_scenario);
}

/* ---- new settings while tickets wait ---- */

static void apply_again(struct crowd *c, struct weir_settings settings)
{
    while (ran_out(c->memory, weir_gate_configure(c->gate, &settings))) {
    }
    struct weir_key_stats before = weir_key_get_stats(c->key);
    struct weir_event_ring *recorder = weir_key_recorder(c->key);
    struct weir_lane_stats first;
    assert_true(weir_key_get_lane(c->key, 0, 1, &first));
    while (ran_out(c->memory, weir_gate_apply(c->gate, c->key, 1, &c->news))) {
        weir_key_validate(c->key);
        expect_same_state(c->key, &before);
        assert_ptr_equal(weir_key_recorder(c->key), recorder);
        struct weir_lane_stats now;
        assert_true(weir_key_get_lane(c->key, 0, 1, &now));
        assert_int_equal(now.id, first.id);
        assert_int_equal(now.active, first.active);
        assert_int_equal(now.bucket_count, first.bucket_count);
        assert_int_equal(now.bucket_level[0], first.bucket_level[0]);
        assert_null(weir_news_next(&c->news));
    }
    weir_key_validate(c->key);
    while (weir_news_next(&c->news) != NULL) {
    }
}

static void apply_scenario(struct memory *memory)
{
    struct crowd c;
    open_crowd(&c, memory, small());
    fill_crowd(&c);
    apply_again(&c, large());
    assert_int_equal(weir_key_get_stats(c.key).lanes, 3);
    assert_non_null(weir_key_recorder(c.key));
    /* Back again, with lanes that have permits out and must stay for a while. */
    apply_again(&c, small());
    assert_null(weir_key_recorder(c.key));
    struct weir_settings again = large();
    again.lanes = &lanes[1];
    again.lane_count = 2;
    apply_again(&c, again);
    close_crowd(&c);
}

TEST(new_settings_survive_the_loss_of_any_allocation)
{
    fail_each_allocation_in_turn(apply_scenario);
}

/* ---- what needs no memory ---- */

TEST(leaving_cancelling_waking_and_changing_a_lane_never_need_memory)
{
    struct memory memory;
    memory_init(&memory);
    struct crowd c;
    open_crowd(&c, &memory, large());
    fill_crowd(&c);
    memory.fail_at = memory.calls + 1;
    memory.fail_on = true;
    struct weir_result result = {.outcome = WEIR_OUTCOME_SOFT_LOSS, .cost_known = true, .cost = 9};
    size_t left = 0;
    for (size_t i = 0; i < crowd_count && left < 2; i++) {
        if (c.tickets[i].state == WEIR_TICKET_ADMITTED) {
            assert_int_equal(weir_key_leave(c.key, &c.tickets[i], &result, 1, &c.news), WEIR_OK);
            left++;
        }
    }
    assert_int_equal(weir_key_set_limit(c.key, 1, 5, 1, &c.news), WEIR_OK);
    assert_int_equal(weir_key_set_rate(c.key, 1, 0, &rates[0], 1, &c.news), WEIR_OK);
    assert_int_equal(weir_key_pause(c.key, 2, 50, 1, &c.news), WEIR_OK);
    weir_key_wake(c.key, 500, &c.news);
    weir_key_validate(c.key);
    weir_key_wake(c.key, DAY, &c.news);
    weir_key_validate(c.key);
    while (weir_news_next(&c.news) != NULL) {
    }
    assert_int_equal(memory.failed, 0);
    close_crowd(&c);
    assert_int_equal(memory.failed, 0);
    expect_no_memory_out(&memory);
}

TEST(a_key_that_has_seen_its_crowd_before_allocates_nothing_for_the_next)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2), .lease_ns = 50});
    struct weir_ticket tickets[30] = {0};
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    uint64_t calls = 0;
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < 30; i++) {
            (void)!enter_as(&f, &tickets[i], names[i % 5], 1);
        }
        end_all(&f, tickets, 30, 1);
        calls = round == 0 ? f.memory.calls : calls;
    }
    assert_int_equal(f.memory.calls, calls);
    close_key(&f);
}

TEST(an_arrival_without_memory_that_need_not_wait_still_passes)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2)});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(enter_as(&f, &tickets[0], "a", 1), WEIR_ADMITTED);
    f.memory.fail_at = f.memory.calls + 1;
    f.memory.fail_on = true;
    assert_int_equal(enter_as(&f, &tickets[1], "a", 1), WEIR_ADMITTED);
    /* The one who must wait, and a tenant that is not known yet, need some. */
    assert_int_equal(enter_as(&f, &tickets[2], "a", 1), WEIR_REFUSED);
    expect_refused(&tickets[2], WEIR_NO_MEMORY);
    leave(&f, &tickets[0], 1);
    assert_int_equal(enter_as(&f, &tickets[2], "b", 1), WEIR_REFUSED);
    expect_refused(&tickets[2], WEIR_NO_MEMORY);
    assert_int_equal(enter_as(&f, &tickets[2], "a", 1), WEIR_ADMITTED);
    f.memory.fail_at = 0;
    end_all(&f, tickets, 3, 1);
    close_key(&f);
}

TEST(a_tenant_that_was_forgotten_for_an_arrival_without_memory_is_gone)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){.forget_ns = 100});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_as(&f, &ticket, "a", 1), WEIR_ADMITTED);
    leave_for(&f, &ticket, 0, 1);
    f.memory.fail_at = f.memory.calls + 1;
    f.memory.fail_on = true;
    assert_int_equal(enter_as(&f, &ticket, "b", 200), WEIR_REFUSED);
    expect_refused(&ticket, WEIR_NO_MEMORY);
    f.memory.fail_at = 0;
    assert_int_equal(stats_of(&f).tenants, 0);
    /* It came last, but what is remembered of that must be gone with it. */
    assert_int_equal(enter_as(&f, &ticket, "a", 200), WEIR_ADMITTED);
    assert_int_equal(stats_of(&f).tenants, 1);
    leave(&f, &ticket, 200);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gate_and_its_keys_survive_the_loss_of_any_allocation),
        cmocka_unit_test(a_line_of_many_tenants_survives_the_loss_of_any_allocation),
        cmocka_unit_test(a_line_without_bounds_survives_the_loss_of_any_allocation),
        cmocka_unit_test(new_settings_survive_the_loss_of_any_allocation),
        cmocka_unit_test(leaving_cancelling_waking_and_changing_a_lane_never_need_memory),
        BOTH_WAYS(a_key_that_has_seen_its_crowd_before_allocates_nothing_for_the_next),
        BOTH_WAYS(an_arrival_without_memory_that_need_not_wait_still_passes),
        BOTH_WAYS(a_tenant_that_was_forgotten_for_an_arrival_without_memory_is_gone),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
