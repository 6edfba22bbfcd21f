/* Each line of the contract of weir/sync.h, with real threads and the real clock: taking and
 * giving, and what time does. */
#include "unit/sync_helpers.h"

/* ---- taking and giving ---- */

static void a_permit_is_had_at_once_while_there_is_room(void **state)
{
    (void)state;
    open_with_limit(2);
    struct weir_permit first, second;
    take(&first, NULL);
    take(&second, NULL);
    assert_int_equal(weir_sync_get_stats(fixture.key).active, 2);
    give(&second);
    give(&first);
    close_key();
}

static void with_one_permit_threads_go_in_the_order_in_which_they_came(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held;
    take(&held, NULL);
    struct guest *a = send_to_line((struct guest){.timeout_ns = WEIR_NEVER});
    struct guest *b = send_to_line((struct guest){.timeout_ns = WEIR_NEVER});
    struct guest *c = send_to_line((struct guest){.timeout_ns = WEIR_NEVER});
    give(&held);
    assert_int_equal(await(a), WEIR_OK);
    assert_int_equal(await(b), WEIR_OK);
    assert_int_equal(await(c), WEIR_OK);
    assert_int_equal(a->place, 0);
    assert_int_equal(b->place, 1);
    assert_int_equal(c->place, 2);
    close_key();
}

static void a_permit_may_be_used_again_once_it_was_given_back(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit permit = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_sync_acquire(fixture.key, NULL, 0, NULL, &permit), WEIR_OK);
        give(&permit);
    }
    close_key();
}

static void a_permit_given_back_twice_is_not_held(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit permit;
    take(&permit, NULL);
    give(&permit);
    assert_int_equal(weir_sync_release(&permit, NULL), WEIR_NOT_HELD);
    assert_int_equal(weir_sync_get_stats(fixture.key).ended[WEIR_END_LEFT], 1);
    close_key();
}

static void a_permit_that_was_never_had_is_not_held(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit zeroed = {0};
    assert_int_equal(weir_sync_release(&zeroed, NULL), WEIR_NOT_HELD);
    struct weir_permit held, refused = {0};
    take(&held, NULL);
    assert_int_equal(weir_sync_try(fixture.key, NULL, &refused), WEIR_WOULD_WAIT);
    assert_int_equal(weir_sync_release(&refused, NULL), WEIR_NOT_HELD);
    give(&held);
    close_key();
}

static atomic_uint releases_won;
static atomic_uint racers_ready;

static void *race_to_release(void *permit)
{
    atomic_fetch_add(&racers_ready, 1);
    while (atomic_load(&racers_ready) < 2) {
        sched_yield();
    }
    if (weir_sync_release(permit, NULL) == WEIR_OK) {
        atomic_fetch_add(&releases_won, 1);
    }
    return NULL;
}

static void of_two_threads_that_give_back_one_permit_exactly_one_does(void **state)
{
    (void)state;
    open_with_limit(1);
    for (int i = 0; i < 200; i++) {
        struct weir_permit permit;
        pthread_t racers[2];
        take(&permit, NULL);
        atomic_store(&releases_won, 0);
        atomic_store(&racers_ready, 0);
        for (int j = 0; j < 2; j++) {
            assert_int_equal(pthread_create(&racers[j], NULL, race_to_release, &permit), 0);
        }
        for (int j = 0; j < 2; j++) {
            assert_int_equal(pthread_join(racers[j], NULL), 0);
        }
        assert_int_equal(atomic_load(&releases_won), 1);
    }
    close_key();
}

static void the_true_cost_replaces_the_estimate(void **state)
{
    (void)state;
    struct weir_rate rate = {.tokens = 100, .period_ns = DAY};
    struct weir_lane_settings lane = {.rates = &rate, .rate_count = 1};
    open_with(&(struct weir_settings){.lanes = &lane, .lane_count = 1});
    struct weir_permit permit, rest_of_it;
    take(&permit, &(struct weir_request){.cost = 90});
    assert_int_equal(weir_sync_get_stats(fixture.key).reserved, 90);
    struct weir_result too_much = {.cost_known = true, .cost = WEIR_COST_MAX + 1};
    assert_int_equal(weir_sync_release(&permit, &too_much), WEIR_BAD_COST);
    struct weir_result result = {.cost_known = true, .cost = 40};
    assert_int_equal(weir_sync_release(&permit, &result), WEIR_OK);
    take(&rest_of_it, &(struct weir_request){.cost = 60});
    give(&rest_of_it);
    close_key();
}

static void a_bad_request_is_refused_and_leaves_nothing_behind(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit permit = {0};
    struct weir_request request = {.priority = WEIR_PRIORITY_COUNT};
    assert_int_equal(weir_sync_acquire(fixture.key, &request, WEIR_NEVER, NULL, &permit),
                     WEIR_BAD_PRIORITY);
    request = (struct weir_request){.cost = WEIR_COST_MAX + 1};
    assert_int_equal(weir_sync_try(fixture.key, &request, &permit), WEIR_BAD_COST);
    close_key();
}

/* ---- timeouts ---- */

static void a_thread_times_out_when_its_timeout_has_passed_and_not_before(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held, late = {0};
    take(&held, NULL);
    uint64_t start_ns = clock_now();
    assert_int_equal(weir_sync_acquire(fixture.key, NULL, 20 * MILLISECOND, NULL, &late),
                     WEIR_TIMED_OUT);
    assert_true(clock_now() - start_ns >= 20 * MILLISECOND);
    assert_int_equal(waiting(), 0);
    assert_int_equal(weir_sync_get_stats(fixture.key).ended[WEIR_END_TIMEOUT], 1);
    assert_int_equal(weir_sync_release(&late, NULL), WEIR_NOT_HELD);
    give(&held);
    close_key();
}

static void a_timeout_of_zero_takes_what_is_free_and_does_not_wait(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held, late = {0};
    take(&held, NULL);
    assert_int_equal(weir_sync_acquire(fixture.key, NULL, 0, NULL, &late), WEIR_TIMED_OUT);
    give(&held);
    close_key();
}

static void the_timeout_of_the_key_is_that_of_its_settings(void **state)
{
    (void)state;
    struct weir_lane_settings lane = {.limit = 1};
    open_with(
        &(struct weir_settings){.lanes = &lane, .lane_count = 1, .timeout_ns = 20 * MILLISECOND});
    struct weir_permit held, late = {0};
    take(&held, NULL);
    uint64_t start_ns = clock_now();
    assert_int_equal(weir_sync_acquire(fixture.key, NULL, WEIR_TIMEOUT_OF_KEY, NULL, &late),
                     WEIR_TIMED_OUT);
    assert_true(clock_now() - start_ns >= 20 * MILLISECOND);
    give(&held);
    close_key();
}

static void a_timeout_longer_than_any_clock_is_as_good_as_none(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held;
    take(&held, NULL);
    struct guest *patient = send_to_line((struct guest){.timeout_ns = WEIR_DURATION_MAX_NS * 3});
    give(&held);
    assert_int_equal(await(patient), WEIR_OK);
    close_key();
}

static void one_behind_the_first_in_line_times_out_by_itself(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held;
    take(&held, NULL);
    struct guest *first = send_to_line((struct guest){.timeout_ns = WEIR_NEVER});
    struct guest *second = send_guest((struct guest){.timeout_ns = 10 * MILLISECOND});
    assert_int_equal(await(second), WEIR_TIMED_OUT);
    assert_false(atomic_load(&first->done));
    give(&held);
    assert_int_equal(await(first), WEIR_OK);
    close_key();
}

static void when_the_first_in_line_times_out_the_second_still_gets_its_turn(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit held;
    take(&held, NULL);
    struct guest *first = send_to_line((struct guest){.timeout_ns = 100 * MILLISECOND});
    struct guest *second = send_to_line((struct guest){.timeout_ns = WEIR_NEVER});
    assert_int_equal(await(first), WEIR_TIMED_OUT);
    give(&held);
    assert_int_equal(await(second), WEIR_OK);
    close_key();
}

/* ---- try ---- */

static void try_takes_what_is_free_and_is_told_that_it_would_wait(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit permit = {0}, other = {0};
    assert_int_equal(weir_sync_try(fixture.key, NULL, &permit), WEIR_OK);
    assert_int_equal(weir_sync_try(fixture.key, NULL, &other), WEIR_WOULD_WAIT);
    give(&permit);
    assert_int_equal(weir_sync_try(fixture.key, NULL, &other), WEIR_OK);
    give(&other);
    close_key();
}

/* A large one waits for tokens; a small one would find enough of them, and permits too. */
static void try_and_acquire_never_overtake(void **state)
{
    (void)state;
    struct weir_rate rate = {.tokens = 10, .period_ns = DAY};
    struct weir_lane_settings lane = {.limit = 5, .rates = &rate, .rate_count = 1};
    open_with(&(struct weir_settings){.lanes = &lane, .lane_count = 1});
    struct weir_token token = WEIR_TOKEN_INIT;
    struct weir_permit first, small = {0};
    take(&first, &(struct weir_request){.cost = 8});
    struct guest *large = send_to_line(
        (struct guest){.request = {.cost = 9}, .timeout_ns = WEIR_NEVER, .token = &token});
    assert_int_equal(weir_sync_try(fixture.key, NULL, &small), WEIR_WOULD_WAIT);
    assert_int_equal(weir_sync_acquire(fixture.key, NULL, 0, NULL, &small), WEIR_TIMED_OUT);
    weir_token_fire(&token);
    assert_int_equal(await(large), WEIR_CANCELLED);
    assert_int_equal(weir_sync_try(fixture.key, NULL, &small), WEIR_OK);
    give(&small);
    give(&first);
    close_key();
}

/* ---- time passes, and nobody calls ---- */

static void when_a_lease_runs_out_the_next_thread_goes_without_any_other_call(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_permit leased;
    take(&leased, &(struct weir_request){.lease_ns = 30 * MILLISECOND});
    struct guest *next = send_guest((struct guest){.timeout_ns = WEIR_NEVER});
    assert_int_equal(await(next), WEIR_OK);
    assert_int_equal(weir_sync_release(&leased, NULL), WEIR_NOT_HELD);
    assert_int_equal(weir_sync_get_stats(fixture.key).ended[WEIR_END_LAPSED], 1);
    close_key();
}

/* Each is admitted by the end of the lease before it, so the role of the time-keeper has to go from
 * one to the next. None of them makes a call after it was admitted. */
static void leases_run_out_one_after_the_other_for_all_who_wait(void **state)
{
    (void)state;
    open_with_limit(1);
    struct guest like = {
        .request = {.lease_ns = 10 * MILLISECOND}, .timeout_ns = WEIR_NEVER, .keeps = true};
    struct weir_permit leased;
    take(&leased, &(struct weir_request){.lease_ns = 200 * MILLISECOND});
    struct guest *guests[5];
    for (uint32_t i = 0; i < 5; i++) {
        guests[i] = send_to_line(like);
    }
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(await(guests[i]), WEIR_OK);
    }
    assert_int_equal(weir_sync_release(&leased, NULL), WEIR_NOT_HELD);
    for (uint32_t i = 0; i + 1 < 5; i++) {
        assert_int_equal(weir_sync_release(&guests[i]->permit, NULL), WEIR_NOT_HELD);
    }
    weir_sync_release(&guests[4]->permit, NULL); /* held or not: nobody waited for its end */
    close_key();
}

static void a_refill_admits_waiting_threads_without_any_other_call(void **state)
{
    (void)state;
    struct weir_rate rate = {.tokens = 500, .period_ns = WEIR_NS_PER_SECOND, .burst = 1};
    struct weir_lane_settings lane = {.limit = 10, .rates = &rate, .rate_count = 1};
    open_with(&(struct weir_settings){.lanes = &lane, .lane_count = 1});
    struct guest *guests[8];
    for (int i = 0; i < 8; i++) {
        guests[i] = send_guest((struct guest){.timeout_ns = WEIR_NEVER, .keeps = true});
    }
    uint64_t first_ns = WEIR_NEVER, last_ns = 0;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(await(guests[i]), WEIR_OK);
        uint64_t at_ns = guests[i]->permit.ticket.admitted_ns;
        first_ns = at_ns < first_ns ? at_ns : first_ns;
        last_ns = at_ns > last_ns ? at_ns : last_ns;
    }
    assert_true(last_ns - first_ns >= 7 * 2 * MILLISECOND);
    for (int i = 0; i < 8; i++) {
        give(&guests[i]->permit);
    }
    close_key();
}

static void pause_until(void *context, struct weir_key *key, uint64_t now_ns,
                        struct weir_news *news)
{
    const uint64_t *duration_ns = context;
    assert(weir_key_pause(key, 0, now_ns + *duration_ns, now_ns, news) == WEIR_OK);
}

static void the_end_of_a_pause_admits_whoever_waits_for_it(void **state)
{
    (void)state;
    open_with_limit(1);
    weir_sync_visit(fixture.key, pause_until, &(uint64_t){20 * MILLISECOND});
    struct guest *guest = send_guest((struct guest){.timeout_ns = WEIR_NEVER});
    assert_int_equal(await(guest), WEIR_OK);
    close_key();
}

static void who_keeps_the_time_hears_that_the_moment_has_become_an_earlier_one(void **state)
{
    (void)state;
    open_with_limit(1);
    weir_sync_visit(fixture.key, pause_until, &(uint64_t){DAY});
    struct guest *guest = send_to_line((struct guest){.timeout_ns = WEIR_NEVER});
    weir_sync_visit(fixture.key, pause_until, &(uint64_t){10 * MILLISECOND});
    assert_int_equal(await(guest), WEIR_OK);
    close_key();
}

static void when_the_time_keeper_is_called_off_the_next_one_keeps_the_time(void **state)
{
    (void)state;
    enum weir_status called_off = WEIR_OK;
    /* The pause must last until both are there; how long that takes is not ours to say. */
    for (uint64_t pause_ns = 20 * MILLISECOND; called_off != WEIR_CANCELLED; pause_ns *= 2) {
        assert_true(pause_ns < PATIENCE);
        open_with_limit(1);
        struct weir_token token = WEIR_TOKEN_INIT;
        weir_sync_visit(fixture.key, pause_until, &pause_ns);
        struct guest *first =
            send_to_line((struct guest){.timeout_ns = WEIR_NEVER, .token = &token});
        struct guest *second = send_to_line((struct guest){.timeout_ns = WEIR_NEVER});
        weir_token_fire(&token);
        called_off = await(first);
        assert_int_equal(await(second), WEIR_OK);
        close_key();
    }
}

/* Their tenants' rates set them aside one by one, so that somebody else is next at each moment. */
static void tenants_with_rates_of_their_own_are_woken_when_it_is_their_time(void **state)
{
    (void)state;
    struct weir_lane_settings lane = {.limit = 10};
    struct weir_tenant_settings each = {
        .rate = {.tokens = 100, .period_ns = WEIR_NS_PER_SECOND, .burst = 1}};
    open_with(&(struct weir_settings){.lanes = &lane, .lane_count = 1, .tenant_default = each});
    static const char *const names[] = {"a", "b", "c"};
    struct guest *guests[9];
    for (int i = 0; i < 9; i++) {
        struct guest like = {.timeout_ns = WEIR_NEVER};
        like.request.tenant = weir_slice_of(names[i % 3]);
        guests[i] = send_guest(like);
    }
    for (int i = 0; i < 9; i++) {
        assert_int_equal(await(guests[i]), WEIR_OK);
    }
    close_key();
}

/* ---- tokens ---- */

static void with_a_fired_token_nobody_enters(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_token token = WEIR_TOKEN_INIT;
    weir_token_fire(&token);
    struct weir_permit permit = {0};
    assert_int_equal(weir_sync_acquire(fixture.key, NULL, WEIR_NEVER, &token, &permit),
                     WEIR_CANCELLED);
    assert_int_equal(weir_sync_get_stats(fixture.key).entered, 0);
    assert_int_equal(weir_sync_release(&permit, NULL), WEIR_NOT_HELD);
    close_key();
}

static void a_token_fired_while_a_thread_waits_calls_it_off(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_token token = WEIR_TOKEN_INIT;
    struct weir_permit held;
    take(&held, NULL);
    struct guest *guest = send_to_line((struct guest){.timeout_ns = WEIR_NEVER, .token = &token});
    weir_token_fire(&token);
    assert_int_equal(await(guest), WEIR_CANCELLED);
    assert_int_equal(waiting(), 0);
    assert_int_equal(weir_sync_get_stats(fixture.key).ended[WEIR_END_CANCELLED], 1);
    give(&held);
    close_key();
}

static void a_token_fired_after_the_admission_changes_nothing(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_token token = WEIR_TOKEN_INIT;
    struct weir_permit held = {0};
    assert_int_equal(weir_sync_acquire(fixture.key, NULL, WEIR_NEVER, &token, &held), WEIR_OK);
    struct guest *waited =
        send_to_line((struct guest){.timeout_ns = WEIR_NEVER, .token = &token, .keeps = true});
    give(&held);
    assert_int_equal(await(waited), WEIR_OK);
    weir_token_fire(&token);
    weir_token_fire(&token);
    assert_int_equal(weir_sync_get_stats(fixture.key).active, 1);
    give(&waited->permit);
    close_key();
}

static void one_token_calls_off_many_threads_and_no_others(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_sync_key *other_key;
    assert_int_equal(weir_sync_open(fixture.sync, weir_slice_of("other"), &other_key), WEIR_OK);
    struct weir_token token = WEIR_TOKEN_INIT, other_token = WEIR_TOKEN_INIT;
    struct weir_permit held, other_held = {0};
    take(&held, NULL);
    assert_int_equal(weir_sync_acquire(other_key, NULL, 0, NULL, &other_held), WEIR_OK);
    struct guest *called_off[8];
    for (int i = 0; i < 7; i++) {
        called_off[i] = send_to_line((struct guest){.timeout_ns = WEIR_NEVER, .token = &token});
    }
    called_off[7] =
        send_guest((struct guest){.key = other_key, .timeout_ns = WEIR_NEVER, .token = &token});
    WAIT_FOR(weir_sync_get_stats(other_key).waiting == 1);
    struct guest *stays =
        send_to_line((struct guest){.timeout_ns = WEIR_NEVER, .token = &other_token});
    struct guest *stays_too = send_to_line((struct guest){.timeout_ns = WEIR_NEVER});
    weir_token_fire(&token);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(await(called_off[i]), WEIR_CANCELLED);
    }
    assert_int_equal(waiting(), 2);
    give(&held);
    assert_int_equal(await(stays), WEIR_OK);
    assert_int_equal(await(stays_too), WEIR_OK);
    give(&other_held);
    weir_sync_close(other_key);
    close_key();
}

static void a_token_serves_many_acquires_one_after_the_other(void **state)
{
    (void)state;
    open_with_limit(1);
    struct weir_token token = WEIR_TOKEN_INIT;
    for (int i = 0; i < 3; i++) {
        struct weir_permit held;
        take(&held, NULL);
        struct guest *guest =
            send_to_line((struct guest){.timeout_ns = WEIR_NEVER, .token = &token});
        give(&held);
        assert_int_equal(await(guest), WEIR_OK);
    }
    close_key();
}

/* ---- displacement ---- */

static void a_waiting_thread_is_told_that_a_tenant_below_its_share_took_its_place(void **state)
{
    (void)state;
    struct weir_lane_settings lane = {.limit = 1};
    open_with(&(struct weir_settings){.lanes = &lane, .lane_count = 1, .line = {.tickets = 2}});
    struct weir_permit held, refused = {0};
    struct guest like = {.timeout_ns = WEIR_NEVER};
    take(&held, NULL);
    like.request.tenant = weir_slice_of("greedy");
    struct guest *first = send_to_line(like);
    struct guest *second = send_to_line(like);
    assert_int_equal(weir_sync_acquire(fixture.key, &like.request, WEIR_NEVER, NULL, &refused),
                     WEIR_LINE_FULL);
    like.request.tenant = weir_slice_of("modest");
    struct guest *modest = send_guest(like);
    assert_int_equal(await(second), WEIR_DISPLACED);
    assert_int_equal(weir_sync_release(&second->permit, NULL), WEIR_NOT_HELD);
    give(&held);
    assert_int_equal(await(first), WEIR_OK);
    assert_int_equal(await(modest), WEIR_OK);
    close_key();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_permit_is_had_at_once_while_there_is_room),
        cmocka_unit_test(with_one_permit_threads_go_in_the_order_in_which_they_came),
        cmocka_unit_test(a_permit_may_be_used_again_once_it_was_given_back),
        cmocka_unit_test(a_permit_given_back_twice_is_not_held),
        cmocka_unit_test(a_permit_that_was_never_had_is_not_held),
        cmocka_unit_test(of_two_threads_that_give_back_one_permit_exactly_one_does),
        cmocka_unit_test(the_true_cost_replaces_the_estimate),
        cmocka_unit_test(a_bad_request_is_refused_and_leaves_nothing_behind),
        cmocka_unit_test(a_thread_times_out_when_its_timeout_has_passed_and_not_before),
        cmocka_unit_test(a_timeout_of_zero_takes_what_is_free_and_does_not_wait),
        cmocka_unit_test(the_timeout_of_the_key_is_that_of_its_settings),
        cmocka_unit_test(a_timeout_longer_than_any_clock_is_as_good_as_none),
        cmocka_unit_test(one_behind_the_first_in_line_times_out_by_itself),
        cmocka_unit_test(when_the_first_in_line_times_out_the_second_still_gets_its_turn),
        cmocka_unit_test(try_takes_what_is_free_and_is_told_that_it_would_wait),
        cmocka_unit_test(try_and_acquire_never_overtake),
        cmocka_unit_test(when_a_lease_runs_out_the_next_thread_goes_without_any_other_call),
        cmocka_unit_test(leases_run_out_one_after_the_other_for_all_who_wait),
        cmocka_unit_test(a_refill_admits_waiting_threads_without_any_other_call),
        cmocka_unit_test(the_end_of_a_pause_admits_whoever_waits_for_it),
        cmocka_unit_test(who_keeps_the_time_hears_that_the_moment_has_become_an_earlier_one),
        cmocka_unit_test(when_the_time_keeper_is_called_off_the_next_one_keeps_the_time),
        cmocka_unit_test(tenants_with_rates_of_their_own_are_woken_when_it_is_their_time),
        cmocka_unit_test(with_a_fired_token_nobody_enters),
        cmocka_unit_test(a_token_fired_while_a_thread_waits_calls_it_off),
        cmocka_unit_test(a_token_fired_after_the_admission_changes_nothing),
        cmocka_unit_test(one_token_calls_off_many_threads_and_no_others),
        cmocka_unit_test(a_token_serves_many_acquires_one_after_the_other),
        cmocka_unit_test(a_waiting_thread_is_told_that_a_tenant_below_its_share_took_its_place),
    };
    return cmocka_run_group_tests_name("sync", tests, NULL, NULL);
}
