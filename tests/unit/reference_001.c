/* One test for each fault of the published code of reference 001, which ours must not have. */
#include "unit/helpers.h"
#include "weir/weir.h"

#define LEARNING(...) LANE(.control = {.controller = WEIR_CONTROLLER_LEARNED, __VA_ARGS__})
#define BY_AIMD(...)  LANE(.control = {.controller = WEIR_CONTROLLER_AIMD, __VA_ARGS__})

static struct weir_control_stats control_of(const struct fixture *f, uint32_t lane, uint64_t now_ns)
{
    struct weir_control_stats stats;
    assert_true(weir_key_get_control(f->key, lane, now_ns, &stats));
    return stats;
}

static void hear(struct fixture *f, struct weir_ticket *ticket, struct weir_reply reply,
                 uint64_t now_ns)
{
    assert_int_equal(weir_key_hear(f->key, ticket, &reply, now_ns, &f->news), WEIR_OK);
    weir_key_validate(f->key);
}

/* It polled every 10 ms. Ours says when to come back, and never twice for the same moment. */
TEST(ref_001_nobody_polls)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BY_AIMD(0), .timeout_ns = WEIR_NEVER});
    struct weir_ticket tickets[2] = {0};
    struct weir_request request = {.cost = 2000};
    assert_int_equal(ask(&f, &tickets[0], request, SECOND), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request, SECOND), WEIR_WAITING); /* for 4 s */
    int wakes = 0;
    while (tickets[1].state == WEIR_TICKET_WAITING) {
        wake(&f, f.news.wake_ns);
        wakes++;
    }
    assert_true(wakes <= 25); /* polling would be 400 */
    end_all(&f, tickets, 2, 10 * SECOND);
    close_key(&f);
}

/* Whoever happened to poll first went first. */
TEST(ref_001_who_came_first_goes_first)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BY_AIMD(0), .timeout_ns = WEIR_NEVER});
    struct weir_ticket tickets[6] = {0};
    const uint32_t costs[] = {2000, 1900, 10, 1500, 1, 700};
    for (size_t i = 0; i < 6; i++) {
        enum weir_admission verdict =
            ask(&f, &tickets[i], (struct weir_request){.cost = costs[i]}, SECOND);
        assert_int_equal(verdict, i == 0 ? WEIR_ADMITTED : WEIR_WAITING);
    }
    size_t next = 1;
    leave(&f, &tickets[0], SECOND);
    while (next < 6) {
        wake(&f, f.news.wake_ns);
        struct weir_ticket *ticket;
        while ((ticket = weir_news_next(&f.news)) != NULL) {
            assert_ptr_equal(ticket, &tickets[next]);
            leave(&f, ticket, f.news.wake_ns == WEIR_NEVER ? HOUR : f.news.wake_ns);
            next++;
        }
    }
    close_key(&f);
}

/* A cost above the bucket's size never fitted. */
TEST(ref_001_a_cost_above_the_bucket_does_not_wait_for_ever)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BY_AIMD(0), .timeout_ns = WEIR_NEVER});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(ask(&f, &tickets[0], (struct weir_request){.cost = 100000}, SECOND),
                     WEIR_ADMITTED); /* the bucket of 2,000 is full */
    leave(&f, &tickets[0], SECOND);
    assert_int_equal(ask(&f, &tickets[1], (struct weir_request){.cost = 100000}, SECOND),
                     WEIR_WAITING);
    wake(&f, 400 * SECOND); /* the debt is paid, and it is full again */
    expect_admitted(&tickets[1]);
    end_all(&f, tickets, 2, 400 * SECOND);
    close_key(&f);
}

/* Retry-After of one bundle stopped all of them. */
TEST(ref_001_retry_after_stops_its_own_lane_and_key_only)
{
    struct fixture f;
    struct weir_lane_settings lanes[] = {
        {.id = 0, .control = {.controller = WEIR_CONTROLLER_AIMD}},
        {.id = 1, .control = {.controller = WEIR_CONTROLLER_AIMD}}};
    open_key(&f, (struct weir_settings){.lanes = lanes, .lane_count = 2});
    struct weir_key *other;
    assert_int_equal(weir_gate_take(f.gate, weir_slice_of("other"), 0, &other), WEIR_OK);
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(enter(&f, &tickets[0], SECOND), WEIR_ADMITTED);
    hear(&f, &tickets[0],
         (struct weir_reply){.outcome = WEIR_OUTCOME_RATE_LIMIT,
                             .retry_after_known = true,
                             .retry_after_ns = MINUTE},
         SECOND);
    leave_as(&f, &tickets[0], WEIR_OUTCOME_RATE_LIMIT, SECOND);
    assert_int_equal(enter(&f, &tickets[1], 2 * SECOND), WEIR_ADMITTED);
    assert_int_equal(tickets[1].lane_id, 1);
    struct weir_request request = {0};
    assert_int_equal(weir_key_enter(other, &tickets[2], &request, 2 * SECOND, &f.news),
                     WEIR_ADMITTED);
    assert_int_equal(tickets[2].lane_id, 0);
    assert_int_equal(
        weir_key_leave(other, &tickets[2], &(struct weir_result){0}, 2 * SECOND, &f.news), WEIR_OK);
    weir_key_give(other);
    end_all(&f, tickets, 2, 2 * SECOND);
    close_key(&f);
}

/* It grew by one for each success: doubling with every round. */
TEST(ref_001_the_window_grows_by_one_per_window_of_successes)
{
    struct fixture f;
    open_key(&f,
             (struct weir_settings){BY_AIMD(.window = {.start = 10}), .timeout_ns = WEIR_NEVER});
    struct weir_ticket tickets[40] = {0};
    enter_many(&f, tickets, 40, SECOND);
    expect_counts(&f, 10, 30);
    for (size_t i = 0; i < 11; i++) { /* about one window of them */
        leave(&f, &tickets[i], 2 * SECOND);
    }
    double window = control_of(&f, 0, 2 * SECOND).window;
    assert_true(window > 10.9);
    assert_true(window < 11.2);
    drop_news(&f);
    end_all(&f, tickets, 40, 2 * SECOND);
    close_key(&f);
}

/* It also grew while hardly anything was sent. */
TEST(ref_001_the_window_does_not_grow_while_it_is_unused)
{
    const struct weir_control_settings kinds[] = {{.controller = WEIR_CONTROLLER_AIMD},
                                                  {.controller = WEIR_CONTROLLER_LEARNED}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){LANE(.control = kinds[i])});
        struct weir_ticket ticket = {0};
        for (uint64_t second = 1; second <= 200; second++) {
            assert_int_equal(enter(&f, &ticket, second * SECOND), WEIR_ADMITTED);
            hear(&f, &ticket,
                 (struct weir_reply){.outcome = WEIR_OUTCOME_SUCCESS, .streamed = true},
                 second * SECOND + SECOND / 2);
            leave(&f, &ticket, second * SECOND + SECOND / 2);
        }
        assert_true(control_of(&f, 0, 300 * SECOND).window == (i == 0 ? 4.0 : 16.0));
        close_key(&f);
    }
}

/* Every success raised the rate, also where the application asked for a tenth of it. */
TEST(ref_001_the_rate_does_not_grow_while_less_is_asked_for)
{
    const struct weir_control_settings kinds[] = {{.controller = WEIR_CONTROLLER_AIMD},
                                                  {.controller = WEIR_CONTROLLER_LEARNED}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){LANE(.control = kinds[i])});
        struct weir_ticket ticket = {0};
        for (uint64_t second = 1; second <= 200; second++) {
            assert_int_equal(ask(&f, &ticket, (struct weir_request){.cost = 400}, second * SECOND),
                             WEIR_ADMITTED);
            leave(&f, &ticket, second * SECOND + SECOND / 2);
        }
        assert_true(control_of(&f, 0, 201 * SECOND).rate == 500.0);
        close_key(&f);
    }
}

/* And it does grow, by 50 a second, while more is asked for: at most to its maximum. */
TEST(ref_001_the_rate_grows_with_the_seconds_of_full_use)
{
    struct fixture f;
    open_key(&f,
             (struct weir_settings){BY_AIMD(.window = {.start = 64}), .timeout_ns = WEIR_NEVER});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(ask(&f, &tickets[0], (struct weir_request){.cost = 8000}, SECOND),
                     WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], (struct weir_request){.cost = 2000}, SECOND),
                     WEIR_WAITING);
    for (uint64_t tick = 1; tick <= 40; tick++) {
        wake(&f, SECOND + tick * (SECOND / 10));
    }
    expect_waiting(&tickets[1]);
    double rate = control_of(&f, 0, 5 * SECOND).rate;
    assert_true(rate > 699.9 && rate < 700.1); /* 4 s at 50 */
    end_all(&f, tickets, 2, 5 * SECOND);
    close_key(&f);
}

/* A stream that ended without telling its usage was settled with nothing. */
TEST(ref_001_a_stream_without_usage_costs_what_was_counted_or_expected)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BY_AIMD(0)});
    struct weir_ticket ticket = {0};
    struct weir_reply reply = {.outcome = WEIR_OUTCOME_SUCCESS, .streamed = true};
    struct weir_request request = {.cost = 600, .input = 100};
    assert_int_equal(ask(&f, &ticket, request, SECOND), WEIR_ADMITTED);
    hear(&f, &ticket, reply, SECOND);
    assert_int_equal(weir_key_progress(f.key, &ticket, 300, SECOND, &f.news), WEIR_OK);
    leave(&f, &ticket, SECOND);
    assert_true(control_of(&f, 0, SECOND).bucket == 2000.0 - 400.0);
    assert_int_equal(ask(&f, &ticket, request, SECOND), WEIR_ADMITTED);
    hear(&f, &ticket, reply, SECOND);
    leave(&f, &ticket, SECOND);
    assert_true(control_of(&f, 0, SECOND).bucket == 2000.0 - 400.0 - 600.0);
    close_key(&f);
}

/* It took limit / reset for the rate: a bucket that is nearly full looks thirty times as fast. */
TEST(ref_001_the_refill_is_what_is_missing_by_the_time_until_it_is_full)
{
    const struct weir_control_settings kinds[] = {{.controller = WEIR_CONTROLLER_AIMD},
                                                  {.controller = WEIR_CONTROLLER_LEARNED}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){LANE(.control = kinds[i])});
        struct weir_ticket ticket = {0};
        struct weir_quota quota = {.limit = 60000, .remaining = 58000, .reset_ns = 2 * SECOND};
        struct weir_reply reply = {
            .outcome = WEIR_OUTCOME_SUCCESS, .quotas = &quota, .quota_count = 1};
        assert_int_equal(enter(&f, &ticket, SECOND), WEIR_ADMITTED);
        hear(&f, &ticket, reply, SECOND);
        struct weir_control_stats stats = control_of(&f, 0, SECOND);
        assert_true(stats.quotas[0].refill == 1000.0);
        if (kinds[i].controller == WEIR_CONTROLLER_AIMD) {
            assert_true(stats.rate == 1000.0);
        }
        leave(&f, &ticket, SECOND);
        close_key(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(ref_001_nobody_polls),
        BOTH_WAYS(ref_001_who_came_first_goes_first),
        BOTH_WAYS(ref_001_a_cost_above_the_bucket_does_not_wait_for_ever),
        BOTH_WAYS(ref_001_retry_after_stops_its_own_lane_and_key_only),
        BOTH_WAYS(ref_001_the_window_grows_by_one_per_window_of_successes),
        BOTH_WAYS(ref_001_the_window_does_not_grow_while_it_is_unused),
        BOTH_WAYS(ref_001_the_rate_does_not_grow_while_less_is_asked_for),
        BOTH_WAYS(ref_001_the_rate_grows_with_the_seconds_of_full_use),
        BOTH_WAYS(ref_001_a_stream_without_usage_costs_what_was_counted_or_expected),
        BOTH_WAYS(ref_001_the_refill_is_what_is_missing_by_the_time_until_it_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
