/* Long lines that become due all at once: one call admits and ends no more than a batch, so that a
 * lock is held for a bounded time, and asks to be woken at once for the rest.
 *
 * Driven against the model, as the random sequences are; these are too short to get here. */
#include "calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define SECOND  WEIR_NS_PER_SECOND
#define TICKETS (2 * WEIR_BATCH_MAX + 300)

static struct run run;

/* One lane without a limit, and room in line for everybody. */
static struct pair *open_long_line(void)
{
    run.seed = 1;
    run.random.state = 1;
    run.now_ns = 1000 * SECOND;
    run.plan = (struct plan){
        .settings = {.lane_count = 1, .line = {.tickets = TICKETS}, .timeout_ns = WEIR_NEVER},
        .lanes = {{.id = 7, .no_limit = true}},
    };
    run.plan.settings.lanes = run.plan.lanes;
    run_open(&run, 1, TICKETS);
    return &run.pairs[0];
}

static void enter_many(struct pair *pair, int first, int count, const struct weir_request *request)
{
    for (int i = first; i < first + count; i++) {
        call_enter(&run, pair, i, request);
    }
}

/* The model says how many, and was compared; these are said once more for the reader. */
static void expect_counts(const struct pair *pair, uint32_t active, uint32_t waiting)
{
    struct weir_key_stats stats = weir_key_get_stats(pair->sides[LOUD].key);
    assert_int_equal(stats.active, active);
    assert_int_equal(stats.waiting, waiting);
}

static void expect_wake_at_once(const struct pair *pair)
{
    assert_true(pair->sides[LOUD].news.wake_ns <= run.now_ns);
    assert_true(pair->sides[QUIET].news.wake_ns <= run.now_ns);
}

static void finish(struct pair *pair)
{
    for (int i = 0; i < pair->model.ticket_count; i++) {
        enum weir_ticket_state state = pair->model.tickets[i].state;
        if (state == WEIR_TICKET_WAITING || state == WEIR_TICKET_ADMITTED) {
            call_cancel(&run, pair, i);
        }
    }
    run_close(&run);
}

static void a_call_admits_no_more_than_a_batch(void **state)
{
    (void)state;
    struct pair *pair = open_long_line();
    call_set_limit(&run, pair, 7, 0);
    enter_many(pair, 0, TICKETS, &(struct weir_request){0});
    call_set_limit(&run, pair, 7, WEIR_LIMIT_NONE);
    expect_counts(pair, WEIR_BATCH_MAX, TICKETS - WEIR_BATCH_MAX);
    expect_wake_at_once(pair);
    call_wake(&run, pair);
    expect_counts(pair, 2 * WEIR_BATCH_MAX, TICKETS - 2 * WEIR_BATCH_MAX);
    call_wake(&run, pair);
    expect_counts(pair, TICKETS, 0);
    finish(pair);
}

static void a_call_ends_no_more_than_a_batch(void **state)
{
    (void)state;
    struct pair *pair = open_long_line();
    call_set_limit(&run, pair, 7, 0);
    struct weir_request request = {.deadline_ns = run.now_ns + SECOND};
    enter_many(pair, 0, TICKETS, &request);
    run.now_ns += SECOND;
    call_wake(&run, pair);
    expect_counts(pair, 0, TICKETS - WEIR_BATCH_MAX);
    expect_wake_at_once(pair);
    call_wake(&run, pair);
    call_wake(&run, pair);
    expect_counts(pair, 0, 0);
    finish(pair);
}

/* Each lapse passes its permit on at once, and all of them together no more than a batch. */
static void lapses_in_one_call_admit_no_more_than_a_batch(void **state)
{
    (void)state;
    struct pair *pair = open_long_line();
    enter_many(pair, 0, 10, &(struct weir_request){.lease_ns = SECOND});
    call_pause(&run, pair, 7, run.now_ns + SECOND);
    enter_many(pair, 10, TICKETS - 10, &(struct weir_request){0});
    run.now_ns += SECOND;
    call_wake(&run, pair);
    expect_counts(pair, WEIR_BATCH_MAX, TICKETS - 10 - WEIR_BATCH_MAX);
    expect_wake_at_once(pair);
    finish(pair);
}

/* An arrival finds the rest of the batch waiting and does not overtake it. */
static void an_arrival_does_not_overtake_what_is_left_of_a_batch(void **state)
{
    (void)state;
    struct pair *pair = open_long_line();
    call_set_limit(&run, pair, 7, 0);
    enter_many(pair, 0, TICKETS - 1, &(struct weir_request){0});
    call_set_limit(&run, pair, 7, WEIR_LIMIT_NONE);
    enum weir_admission verdict =
        call_enter(&run, pair, TICKETS - 1, &(struct weir_request){.no_wait = true});
    assert_int_equal(verdict, WEIR_REFUSED);
    finish(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_admits_no_more_than_a_batch),
        cmocka_unit_test(a_call_ends_no_more_than_a_batch),
        cmocka_unit_test(lapses_in_one_call_admit_no_more_than_a_batch),
        cmocka_unit_test(an_arrival_does_not_overtake_what_is_left_of_a_batch),
    };
    return cmocka_run_group_tests_name("gate_batch", tests, NULL, NULL);
}
