/* A pool of sandboxes: single decisions. That its promises hold whatever happens is
 * property/test_sandboxes. */
#include "sandboxes/pool.h"
#include "unit/helpers.h"

static struct weir_pool pool;
static uint64_t now_ns;

static struct weir_pool_settings usual(void)
{
    return (struct weir_pool_settings){.max = 4,
                                       .refills_per_second = 4,
                                       .probe_failures = 3,
                                       .warm_ttl_ns = 30 * MINUTE,
                                       .idle_ns = HOUR,
                                       .lifetime_ns = 8 * HOUR,
                                       .pause_ns = 2 * MINUTE,
                                       .grace_ns = 30 * SECOND,
                                       .probe_every_ns = WEIR_NEVER};
}

static void open_pool(struct weir_pool_settings settings)
{
    struct weir_pool_options options = {.first_number = 1, .allocator = &weir_allocator_libc};
    now_ns = HOUR;
    weir_pool_init(&pool, &settings, &options, now_ns);
    weir_pool_wake(&pool, now_ns);
}

static void close_pool(void)
{
    weir_pool_validate(&pool);
    weir_pool_deinit(&pool);
}

static void expect_nothing(void)
{
    assert_null(weir_pool_next(&pool));
}

/* The next task is this one; its result is given. */
static struct weir_sandbox *expect_task(enum weir_sandbox_task task, bool works)
{
    struct weir_sandbox *sandbox = weir_pool_next(&pool);
    assert_non_null(sandbox);
    assert_string_equal(weir_sandbox_task_name(sandbox->task), weir_sandbox_task_name(task));
    weir_pool_done(&pool, sandbox, works, now_ns);
    return sandbox;
}

static struct weir_sandbox *make_one(void)
{
    expect_task(WEIR_SANDBOX_RECORD_PLAN, true);
    return expect_task(WEIR_SANDBOX_MAKE, true);
}

static void wait_for(uint64_t by_ns)
{
    now_ns += by_ns;
    weir_pool_wake(&pool, now_ns);
}

static struct weir_claim claim_of(const char *id)
{
    return (struct weir_claim){.tenant = {"acme", 4}, .id = {id, strlen(id)}};
}

static struct weir_sandbox *serve(struct weir_claim *claim)
{
    weir_pool_claim(&pool, claim, now_ns);
    if (pool.tasks.next != &pool.tasks &&
        weir_container_of(pool.tasks.next, struct weir_sandbox, task_link)->task ==
            WEIR_SANDBOX_RECORD_PLAN) {
        make_one();
    }
    expect_task(WEIR_SANDBOX_RECORD_ASSIGN, true);
    assert_ptr_equal(weir_pool_served(&pool), claim);
    return claim->sandbox;
}

static void remove_all_of(struct weir_sandbox *sandbox)
{
    expect_task(WEIR_SANDBOX_REMOVE, true);
    expect_task(WEIR_SANDBOX_RECORD_GONE, true);
    assert_ptr_equal(weir_pool_gone(&pool), sandbox);
    weir_pool_free(&pool, sandbox);
}

TEST(a_warm_sandbox_is_assigned_with_one_record)
{
    struct weir_pool_settings settings = usual();
    settings.warm_min = settings.warm_max = 1;
    open_pool(settings);
    struct weir_sandbox *warm = make_one();
    struct weir_claim claim = claim_of("a");
    weir_pool_claim(&pool, &claim, now_ns);
    assert_ptr_equal(claim.sandbox, warm);
    assert_null(weir_pool_served(&pool)); /* not before it is on record */
    expect_task(WEIR_SANDBOX_RECORD_ASSIGN, true);
    assert_ptr_equal(weir_pool_served(&pool), &claim);
    assert_int_equal(warm->state, WEIR_SANDBOX_READY);
    assert_ptr_equal(weir_pool_find(&pool, claim.tenant, claim.id), warm);
    assert_null(weir_pool_find(&pool, (struct weir_slice){"other", 5}, claim.id));
    close_pool();
}

TEST(a_claim_without_a_warm_one_starts_its_own_and_takes_one_being_made)
{
    open_pool(usual());
    struct weir_claim first = claim_of("a"), second = claim_of("b");
    weir_pool_claim(&pool, &first, now_ns);
    assert_true(weir_pool_withdraw(&pool, &first, now_ns));
    weir_pool_claim(&pool, &second, now_ns); /* the start that is under way is its */
    assert_int_equal(pool.count, 1);
    make_one();
    expect_task(WEIR_SANDBOX_RECORD_ASSIGN, true);
    assert_ptr_equal(weir_pool_served(&pool), &second);
    expect_nothing();
    close_pool();
}

TEST(claims_beyond_max_wait_until_one_is_gone)
{
    struct weir_pool_settings settings = usual();
    settings.max = 1;
    open_pool(settings);
    struct weir_claim first = claim_of("a"), second = claim_of("b");
    struct weir_sandbox *sandbox = serve(&first);
    weir_pool_claim(&pool, &second, now_ns);
    expect_nothing();
    weir_pool_stop(&pool, sandbox, WEIR_SANDBOX_FORCED, now_ns);
    remove_all_of(sandbox); /* nothing is planned before its row is gone, too */
    make_one();
    expect_task(WEIR_SANDBOX_RECORD_ASSIGN, true);
    assert_ptr_equal(weir_pool_served(&pool), &second);
    close_pool();
}

TEST(a_sandbox_drains_syncs_and_is_removed)
{
    struct weir_pool_settings settings = usual();
    settings.syncs = true;
    open_pool(settings);
    struct weir_claim claim = claim_of("a");
    struct weir_sandbox *sandbox = serve(&claim);
    assert_int_equal(weir_pool_begin(&pool, sandbox, now_ns), WEIR_POOL_INSIDE);
    weir_pool_stop(&pool, sandbox, WEIR_SANDBOX_ASKED, now_ns);
    assert_int_equal(weir_pool_begin(&pool, sandbox, now_ns), WEIR_POOL_ENDING);
    expect_nothing(); /* a request is inside */
    weir_pool_end(&pool, sandbox, now_ns);
    expect_task(WEIR_SANDBOX_STOP, true);
    expect_task(WEIR_SANDBOX_SYNC, false);
    assert_int_equal(sandbox->state, WEIR_SANDBOX_SYNCING); /* S8: it is kept */
    wait_for(SECOND);
    expect_task(WEIR_SANDBOX_SYNC, true);
    remove_all_of(sandbox);
    close_pool();
}

TEST(a_drain_waits_for_requests_up_to_the_grace_period)
{
    open_pool(usual());
    struct weir_claim claim = claim_of("a");
    struct weir_sandbox *sandbox = serve(&claim);
    assert_int_equal(weir_pool_begin(&pool, sandbox, now_ns), WEIR_POOL_INSIDE);
    weir_pool_stop(&pool, sandbox, WEIR_SANDBOX_ASKED, now_ns);
    wait_for(30 * SECOND - 1);
    expect_nothing();
    wait_for(1);
    expect_task(WEIR_SANDBOX_STOP, true);
    close_pool();
}

TEST(what_is_idle_is_frozen_thawed_by_a_request_and_ended)
{
    open_pool(usual());
    struct weir_claim claim = claim_of("a");
    struct weir_sandbox *sandbox = serve(&claim);
    wait_for(2 * MINUTE);
    expect_task(WEIR_SANDBOX_FREEZE, true);
    assert_int_equal(sandbox->state, WEIR_SANDBOX_PAUSED);
    assert_int_equal(weir_pool_begin(&pool, sandbox, now_ns), WEIR_POOL_THAWING);
    expect_task(WEIR_SANDBOX_THAW, true);
    assert_int_equal(sandbox->state, WEIR_SANDBOX_RUNNING);
    wait_for(5 * HOUR); /* S7: it has something inside */
    expect_nothing();
    weir_pool_end(&pool, sandbox, now_ns);
    wait_for(2 * MINUTE);
    expect_task(WEIR_SANDBOX_FREEZE, true);
    wait_for(HOUR - 2 * MINUTE);
    assert_int_equal(sandbox->state, WEIR_SANDBOX_DRAINING);
    assert_int_equal(sandbox->reason, WEIR_SANDBOX_IDLED);
    close_pool();
}

TEST(a_request_calls_off_a_drain_for_idleness_before_it_was_begun)
{
    open_pool(usual());
    struct weir_claim claim = claim_of("a");
    struct weir_sandbox *sandbox = serve(&claim);
    wait_for(HOUR);
    assert_int_equal(sandbox->state, WEIR_SANDBOX_DRAINING);
    assert_int_equal(weir_pool_begin(&pool, sandbox, now_ns), WEIR_POOL_INSIDE);
    expect_nothing();
    weir_pool_end(&pool, sandbox, now_ns);
    wait_for(HOUR);
    assert_non_null(weir_pool_next(&pool)); /* the programs are asked to end now */
    assert_int_equal(weir_pool_begin(&pool, sandbox, now_ns), WEIR_POOL_ENDING);
    close_pool();
}

/* Carries out all that is to be done but makes, which fail. Returns how many there were. */
static int fail_makes(void)
{
    struct weir_sandbox *sandbox;
    int makes = 0;
    while ((sandbox = weir_pool_next(&pool)) != NULL) {
        makes += sandbox->task == WEIR_SANDBOX_MAKE;
        weir_pool_done(&pool, sandbox, sandbox->task != WEIR_SANDBOX_MAKE, now_ns);
    }
    while ((sandbox = weir_pool_gone(&pool)) != NULL) {
        weir_pool_free(&pool, sandbox);
    }
    return makes;
}

TEST(starts_that_fail_open_the_breaker_whose_pause_doubles)
{
    open_pool(usual());
    struct weir_claim claim = claim_of("a");
    weir_pool_claim(&pool, &claim, now_ns);
    assert_int_equal(fail_makes(), 3);
    for (uint64_t pause_ns = SECOND; pause_ns <= 32 * SECOND; pause_ns *= 2) {
        assert_true(weir_pool_broken(&pool, now_ns));
        assert_int_equal(weir_pool_due(&pool), now_ns + pause_ns);
        wait_for(pause_ns - 1);
        assert_int_equal(fail_makes(), 0);
        wait_for(1);
        assert_int_equal(fail_makes(), 1); /* the probe */
    }
    assert_int_equal(weir_pool_due(&pool), now_ns + MINUTE); /* and no longer */
    wait_for(MINUTE);
    make_one();
    assert_int_equal(pool.failures, 0);
    expect_task(WEIR_SANDBOX_RECORD_ASSIGN, true);
    assert_ptr_equal(weir_pool_served(&pool), &claim);
    close_pool();
}

TEST(a_lost_sandbox_is_removed_without_a_drain)
{
    open_pool(usual());
    struct weir_claim claim = claim_of("a");
    struct weir_sandbox *sandbox = serve(&claim);
    assert_int_equal(weir_pool_begin(&pool, sandbox, now_ns), WEIR_POOL_INSIDE);
    weir_pool_stop(&pool, sandbox, WEIR_SANDBOX_LOST, now_ns);
    remove_all_of(sandbox);
    close_pool();
}

TEST(another_template_replaces_what_has_no_owner)
{
    struct weir_pool_settings settings = usual();
    settings.warm_min = settings.warm_max = 1;
    open_pool(settings);
    make_one();
    struct weir_claim claim = claim_of("a");
    struct weir_sandbox *mine = serve(&claim);
    wait_for(SECOND); /* of the pace of refills */
    struct weir_sandbox *warm = make_one();
    settings.template_version = 1;
    settings.warm_min = settings.warm_max = 0;
    weir_pool_configure(&pool, &settings, now_ns);
    assert_int_equal(warm->reason, WEIR_SANDBOX_REPLACED);
    assert_int_equal(mine->state, WEIR_SANDBOX_READY);
    remove_all_of(warm);
    close_pool();
}

TEST(refills_are_paced)
{
    struct weir_pool_settings settings = usual();
    settings.max = 100;
    settings.warm_min = settings.warm_max = 40;
    open_pool(settings);
    uint32_t at_once = pool.count;
    assert_in_range(at_once, 1, 8); /* a second's worth, and one more */
    wait_for(SECOND);
    assert_int_equal(pool.count, at_once + 4);
    assert_true(weir_pool_due(&pool) <= now_ns + SECOND / 4);
    close_pool();
}

/* ---- how many should be warm ---- */

TEST(as_many_are_wanted_as_a_start_takes_long)
{
    struct weir_demand demand = {0};
    uint64_t at_ns = HOUR;
    assert_int_equal(weir_demand_warm(&demand, 2, 10, at_ns), 2);
    for (int i = 0; i < 20; i++) {
        weir_demand_started(&demand, 2 * SECOND);
    }
    for (int i = 0; i < 60; i++) { /* one a second */
        weir_demand_take(&demand, at_ns + (uint64_t)i * SECOND);
    }
    at_ns += 59 * SECOND;
    assert_int_equal(weir_demand_warm(&demand, 0, 10, at_ns), 2);
    for (int i = 0; i < 12; i++) { /* a burst of six seconds counts at once */
        weir_demand_take(&demand, at_ns);
    }
    assert_int_equal(weir_demand_warm(&demand, 0, 10, at_ns), 6);
    assert_int_equal(weir_demand_warm(&demand, 0, 5, at_ns), 5);
    assert_int_equal(weir_demand_warm(&demand, 0, 10, at_ns + 7 * SECOND),
                     3); /* and is forgotten */
    assert_int_equal(weir_demand_warm(&demand, 0, 10, at_ns + HOUR), 0);
    assert_int_equal(weir_demand_warm(&demand, 0, 10, 0), 0); /* a clock that steps back */
}

TEST(the_p95_of_starts_forgets_single_slow_ones)
{
    struct weir_demand demand = {0};
    for (int i = 0; i < 64; i++) {
        weir_demand_started(&demand, i % 32 == 0 ? MINUTE : SECOND);
    }
    assert_int_equal(demand.start_p95_ns, SECOND);
    for (int i = 0; i < 8; i++) {
        weir_demand_started(&demand, 3 * SECOND);
    }
    assert_int_equal(demand.start_p95_ns, 3 * SECOND);
}

/* ---- moves ---- */

TEST(every_move_that_the_table_lacks_is_refused)
{
    for (enum weir_sandbox_state from = 0; from < WEIR_SANDBOX_STATE_COUNT; from++) {
        for (enum weir_sandbox_state to = 0; to < WEIR_SANDBOX_STATE_COUNT; to++) {
            bool legal = weir_sandbox_may_move(from, to);
            assert_true(!legal || from != to);
            assert_true(!legal || from != WEIR_SANDBOX_GONE);
            if (to == WEIR_SANDBOX_REMOVING) { /* at any time, once */
                assert_int_equal(legal, from < WEIR_SANDBOX_REMOVING);
            }
            if (to == WEIR_SANDBOX_WARM) { /* S3: never back into the pool */
                assert_int_equal(legal, from == WEIR_SANDBOX_MAKING);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_warm_sandbox_is_assigned_with_one_record),
        cmocka_unit_test(a_claim_without_a_warm_one_starts_its_own_and_takes_one_being_made),
        cmocka_unit_test(claims_beyond_max_wait_until_one_is_gone),
        cmocka_unit_test(a_sandbox_drains_syncs_and_is_removed),
        cmocka_unit_test(a_drain_waits_for_requests_up_to_the_grace_period),
        cmocka_unit_test(what_is_idle_is_frozen_thawed_by_a_request_and_ended),
        cmocka_unit_test(a_request_calls_off_a_drain_for_idleness_before_it_was_begun),
        cmocka_unit_test(starts_that_fail_open_the_breaker_whose_pause_doubles),
        cmocka_unit_test(a_lost_sandbox_is_removed_without_a_drain),
        cmocka_unit_test(another_template_replaces_what_has_no_owner),
        cmocka_unit_test(refills_are_paced),
        cmocka_unit_test(as_many_are_wanted_as_a_start_takes_long),
        cmocka_unit_test(the_p95_of_starts_forgets_single_slow_ones),
        cmocka_unit_test(every_move_that_the_table_lacks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
