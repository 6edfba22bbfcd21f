/* Deadlines, leases, a clock that stands still or jumps (G8), when to wake, and how much one call
 * does at most. */
#include "unit/helpers.h"

#define FOREVER .timeout_ns = WEIR_NEVER

/* ---- deadlines ---- */

TEST(a_ticket_times_out_at_exactly_its_deadline)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 2, 5);
    assert_int_equal(f.news.wake_ns, 105);
    assert_int_equal(wake(&f, 104), 105);
    expect_waiting(&tickets[1]);
    assert_int_equal(wake(&f, 105), WEIR_NEVER);
    expect_news(&f, &tickets[1]);
    expect_ended(&tickets[1], WEIR_END_TIMEOUT);
    expect_counts(&f, 1, 0);
    leave(&f, &tickets[0], 106);
    close_key(&f);
}

TEST(a_requests_own_deadline_stands_for_the_keys_timeout_be_it_earlier_later_or_never)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket tickets[5] = {0};
    enter_many(&f, tickets, 2, 0);
    assert_int_equal(ask(&f, &tickets[2], (struct weir_request){.deadline_ns = 50}, 0),
                     WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[3], (struct weir_request){.deadline_ns = 150}, 0),
                     WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[4], (struct weir_request){.deadline_ns = WEIR_NEVER}, 0),
                     WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, 50);
    assert_int_equal(wake(&f, 50), 100);
    expect_news(&f, &tickets[2]);
    assert_int_equal(wake(&f, 100), 150);
    expect_news(&f, &tickets[1]);
    assert_int_equal(wake(&f, 150), WEIR_NEVER);
    expect_news(&f, &tickets[3]);
    wake(&f, DAY);
    expect_waiting(&tickets[4]);
    end_all(&f, tickets, 5, DAY);
    close_key(&f);
}

TEST(whoever_has_no_time_to_wait_sends_nobody_away)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .line = {.tickets = 2}});
    struct weir_ticket tickets[4] = {0};
    for (size_t i = 0; i < 3; i++) {
        (void)!enter_as(&f, &tickets[i], "hog", 1);
    }
    struct weir_request late = {.tenant = weir_slice_of("late"), .deadline_ns = 1};
    assert_int_equal(ask(&f, &tickets[3], late, 1), WEIR_REFUSED);
    assert_int_equal(tickets[3].refusal, WEIR_TIMED_OUT);
    expect_no_news(&f);
    expect_waiting(&tickets[2]);
    end_all(&f, tickets, 4, 2);
    close_key(&f);
}

TEST(a_deadline_that_is_due_on_arrival_lets_through_whoever_need_not_wait)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket tickets[2] = {0};
    struct weir_request late = {.deadline_ns = 10};
    assert_int_equal(ask(&f, &tickets[0], late, 10), WEIR_ADMITTED);
    /* The other one would have to wait, and has no time to. */
    assert_int_equal(ask(&f, &tickets[1], late, 20), WEIR_REFUSED);
    assert_int_equal(tickets[1].refusal, WEIR_TIMED_OUT);
    expect_no_news(&f);
    expect_ended(&tickets[1], WEIR_END_REFUSED);
    wake(&f, DAY);
    expect_admitted(&tickets[0]);
    leave(&f, &tickets[0], DAY);
    close_key(&f);
}

TEST(deadlines_pass_in_the_order_of_their_moments_and_ties_in_the_order_of_arrival)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[5] = {0};
    static const uint64_t deadlines[] = {30, 10, 20, 10, 30};
    static const size_t expected[] = {1, 3, 2, 0, 4};
    assert_int_equal(enter(&f, &holder, 0), WEIR_ADMITTED);
    for (size_t i = 0; i < 5; i++) {
        struct weir_request request = {.deadline_ns = deadlines[i]};
        assert_int_equal(ask(&f, &tickets[i], request, 0), WEIR_WAITING);
    }
    wake(&f, 30);
    for (size_t i = 0; i < 5; i++) {
        expect_news(&f, &tickets[expected[i]]);
    }
    expect_no_news(&f);
    leave(&f, &holder, 30);
    close_key(&f);
}

TEST(a_deadline_in_the_far_future_does_not_hide_one_that_is_near)
{
    static const uint64_t far[] = {WEIR_NEVER - 1, (UINT64_C(1) << 63) + 99, UINT64_C(1) << 63,
                                   INT64_MAX,      WEIR_DURATION_MAX_NS + 1, WEIR_DURATION_MAX_NS};
    for (size_t i = 0; i < COUNT_OF(far); i++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){LANE(.limit = 1)});
        struct weir_ticket tickets[4] = {0};
        assert_int_equal(enter(&f, &tickets[0], 0), WEIR_ADMITTED);
        struct weir_request near = {.deadline_ns = 10};
        struct weir_request distant = {.deadline_ns = far[i]};
        assert_int_equal(ask(&f, &tickets[1], distant, 0), WEIR_WAITING);
        assert_int_equal(ask(&f, &tickets[2], near, 0), WEIR_WAITING);
        assert_int_equal(ask(&f, &tickets[3], distant, 0), WEIR_WAITING);
        assert_int_equal(f.news.wake_ns, 10);
        wake(&f, 10);
        expect_news(&f, &tickets[2]);
        expect_no_news(&f);
        end_all(&f, tickets, 4, 11);
        close_key(&f);
    }
}

/* ---- leases ---- */

TEST(a_lease_lapses_at_exactly_its_end_counted_from_admission)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .lease_ns = 100, FOREVER});
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 5);
    assert_int_equal(f.news.wake_ns, 105);
    assert_int_equal(wake(&f, 104), 105);
    expect_admitted(&tickets[0]);
    /* It passes its permit on, whose lease begins now. */
    assert_int_equal(wake(&f, 105), 205);
    expect_ended(&tickets[0], WEIR_END_LAPSED);
    expect_admitted(&tickets[1]);
    drop_news(&f);
    leave(&f, &tickets[1], 204);
    assert_int_equal(f.news.wake_ns, WEIR_NEVER);
    wake(&f, 300);
    expect_ended(&tickets[1], WEIR_END_LEFT);
    close_key(&f);
}

static enum weir_status renew(struct fixture *f, struct weir_ticket *ticket, uint64_t lease_ns,
                              uint64_t now_ns)
{
    enum weir_status status = weir_key_renew(f->key, ticket, lease_ns, now_ns, &f->news);
    weir_key_validate(f->key);
    return status;
}

TEST(a_lease_that_is_renewed_begins_anew_and_one_that_is_over_cannot_be)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .lease_ns = 100, FOREVER});
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 0);
    assert_int_equal(renew(&f, &tickets[1], 100, 50), WEIR_NOT_HELD); /* it waits */
    assert_int_equal(renew(&f, &tickets[0], 0, 50), WEIR_BAD_DURATION);
    assert_int_equal(renew(&f, &tickets[0], WEIR_NEVER, 50), WEIR_BAD_DURATION);
    assert_int_equal(renew(&f, &tickets[0], 100, 99), WEIR_OK);
    wake(&f, 198);
    expect_no_news(&f);
    assert_int_equal(f.news.wake_ns, 199);
    assert_int_equal(renew(&f, &tickets[0], 10, 198), WEIR_OK); /* shorter than before */
    assert_int_equal(f.news.wake_ns, 208);
    /* A call at the very end comes too late: the lease was first, and the next one goes. */
    assert_int_equal(renew(&f, &tickets[0], 100, 208), WEIR_NOT_HELD);
    expect_ended(&tickets[0], WEIR_END_LAPSED);
    expect_admitted(&tickets[1]);
    drop_news(&f);
    end_all(&f, &tickets[1], 1, 209);
    close_key(&f);
}

static enum weir_status extend(struct fixture *f, struct weir_ticket *ticket, uint64_t deadline_ns,
                               uint64_t now_ns)
{
    enum weir_status status = weir_key_extend(f->key, ticket, deadline_ns, now_ns, &f->news);
    weir_key_validate(f->key);
    return status;
}

TEST(a_deadline_can_be_moved_away_but_not_nearer_and_its_ticket_keeps_its_place)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, 0);
    assert_int_equal(extend(&f, &tickets[0], 200, 10), WEIR_NOT_HELD); /* it is admitted */
    assert_int_equal(extend(&f, &tickets[1], 50, 10), WEIR_OK);
    assert_int_equal(tickets[1].deadline_ns, 100);
    assert_int_equal(extend(&f, &tickets[1], 150, 99), WEIR_OK);
    assert_int_equal(wake(&f, 100), 150);
    expect_waiting(&tickets[1]);
    expect_ended(&tickets[2], WEIR_END_TIMEOUT);
    drop_news(&f);
    struct weir_ticket later = {0};
    enter_many(&f, &later, 1, 100);
    assert_int_equal(extend(&f, &tickets[1], WEIR_NEVER, 149), WEIR_OK); /* as far as it goes */
    assert_int_equal(tickets[1].deadline_ns, 149 + WEIR_DURATION_MAX_NS);
    leave(&f, &tickets[0], 150);
    expect_admitted(&tickets[1]); /* before the one that came later */
    expect_waiting(&later);
    drop_news(&f);
    /* A call at the very end comes too late. */
    assert_int_equal(extend(&f, &later, 300, 200), WEIR_NOT_HELD);
    expect_ended(&later, WEIR_END_TIMEOUT);
    drop_news(&f);
    end_all(&f, &tickets[1], 1, 201);
    close_key(&f);
}

TEST(a_ticket_without_a_deadline_stays_without_and_another_keys_is_not_extended)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_key *other;
    assert_int_equal(weir_gate_take(f.gate, weir_slice_of("other"), 0, &other), WEIR_OK);
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 0);
    assert_int_equal(extend(&f, &tickets[1], 10, 5), WEIR_OK);
    assert_int_equal(f.news.wake_ns, WEIR_NEVER);
    assert_int_equal(weir_key_extend(other, &tickets[1], 10, 5, &f.news), WEIR_WRONG_KEY);
    end_all(&f, tickets, 2, 50);
    weir_key_give(other);
    close_key(&f);
}

TEST(a_permit_without_a_lease_stays_without_and_another_keys_is_not_renewed)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_key *other;
    assert_int_equal(weir_gate_take(f.gate, weir_slice_of("other"), 0, &other), WEIR_OK);
    struct weir_ticket ticket = {0};
    enter_many(&f, &ticket, 1, 0);
    assert_int_equal(renew(&f, &ticket, 10, 5), WEIR_OK);
    assert_int_equal(f.news.wake_ns, WEIR_NEVER);
    assert_int_equal(weir_key_renew(other, &ticket, 10, 5, &f.news), WEIR_WRONG_KEY);
    end_all(&f, &ticket, 1, 50);
    weir_key_give(other);
    close_key(&f);
}

TEST(every_permit_of_a_key_with_leases_has_one)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9), .lease_ns = 100});
    struct weir_ticket tickets[4] = {0};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(enter(&f, &tickets[i], i), WEIR_ADMITTED);
        assert_int_equal(tickets[i].lease_ns, 100);
    }
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(f.news.wake_ns, 100 + i);
        wake(&f, 100 + i);
        expect_news(&f, &tickets[i]);
        expect_ended(&tickets[i], WEIR_END_LAPSED);
    }
    close_key(&f);
}

TEST(a_requests_own_lease_stands_for_the_keys_be_it_shorter_longer_or_never)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9), .lease_ns = 100});
    struct weir_ticket tickets[4] = {0};
    static const uint64_t leases[] = {0, 50, 150, WEIR_NEVER};
    for (size_t i = 0; i < 4; i++) {
        struct weir_request request = {.lease_ns = leases[i]};
        assert_int_equal(ask(&f, &tickets[i], request, 0), WEIR_ADMITTED);
    }
    assert_int_equal(wake(&f, 50), 100);
    expect_news(&f, &tickets[1]);
    assert_int_equal(wake(&f, 100), 150);
    expect_news(&f, &tickets[0]);
    assert_int_equal(wake(&f, 150), WEIR_NEVER);
    expect_news(&f, &tickets[2]);
    expect_admitted(&tickets[3]);
    leave(&f, &tickets[3], DAY);
    close_key(&f);
}

TEST(a_permit_of_a_key_without_leases_may_have_one_of_its_own)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9)});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter(&f, &tickets[0], 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], (struct weir_request){.lease_ns = 7}, 0), WEIR_ADMITTED);
    assert_int_equal(f.news.wake_ns, 7);
    /* Others come and go meanwhile, and it still lapses. */
    leave(&f, &tickets[0], 3);
    assert_int_equal(f.news.wake_ns, 7);
    assert_int_equal(enter(&f, &tickets[0], 7), WEIR_ADMITTED);
    expect_ended(&tickets[1], WEIR_END_LAPSED);
    expect_news(&f, &tickets[1]);
    leave(&f, &tickets[0], 8);
    close_key(&f);
}

TEST(a_lease_and_a_deadline_happen_in_the_order_of_their_moments)
{
    /* The lease ends at 50. One who may wait until 60 gets its permit, although it is 100 now;
     * one who may wait until 40 does not; and on a tie the earlier arrival is first. */
    static const uint64_t deadlines[] = {40, 50, 60};
    static const enum weir_end ends[] = {WEIR_END_TIMEOUT, WEIR_END_NONE, WEIR_END_NONE};
    for (size_t i = 0; i < 3; i++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){LANE(.limit = 1)});
        struct weir_ticket holder = {0};
        struct weir_ticket ticket = {0};
        assert_int_equal(ask(&f, &holder, (struct weir_request){.lease_ns = 50}, 0), WEIR_ADMITTED);
        assert_int_equal(ask(&f, &ticket, (struct weir_request){.deadline_ns = deadlines[i]}, 0),
                         WEIR_WAITING);
        wake(&f, 100);
        expect_ended(&holder, WEIR_END_LAPSED);
        assert_int_equal(ticket.end, ends[i]);
        assert_int_equal(ticket.state,
                         ends[i] == WEIR_END_NONE ? WEIR_TICKET_ADMITTED : WEIR_TICKET_ENDED);
        drop_news(&f);
        (void)!cancel(&f, &ticket, 100);
        close_key(&f);
    }
}

TEST(a_lapse_is_no_loss_to_the_breaker)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){
                     LANE(.limit = 1, .breaker = {.failures = 1, .pause_ns = 10}), .lease_ns = 5});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter(&f, &ticket, 0), WEIR_ADMITTED);
    wake(&f, 5);
    expect_news(&f, &ticket);
    assert_false(lane_of(&f, 0, 5).probing);
    close_key(&f);
}

/* ---- G8: time ---- */

TEST(g8_a_time_that_steps_back_counts_as_the_latest_seen)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100, .lease_ns = 1000});
    struct weir_ticket tickets[2] = {0};
    wake(&f, 500);
    assert_int_equal(enter(&f, &tickets[0], 10), WEIR_ADMITTED);
    assert_int_equal(tickets[0].entered_ns, 500);
    assert_int_equal(tickets[0].admitted_ns, 500);
    assert_int_equal(enter(&f, &tickets[1], 20), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, 600);
    assert_int_equal(wake(&f, 30), 600);
    wake(&f, 600);
    expect_news(&f, &tickets[1]);
    /* Back again: the lease still ends 1,000 after the 500 at which it began. */
    assert_int_equal(wake(&f, 0), 1500);
    leave(&f, &tickets[0], 0);
    close_key(&f);
}

TEST(g8_a_clock_that_stands_still_or_steps_back_refills_no_bucket_and_ends_no_pause)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 2, .period_ns = SECOND)), FOREVER});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, SECOND);
    expect_counts(&f, 2, 1);
    for (int i = 0; i < 100; i++) {
        wake(&f, SECOND);
        wake(&f, SECOND / 2);
        wake(&f, 0);
    }
    expect_counts(&f, 2, 1);
    leave(&f, &tickets[0], 0);
    leave(&f, &tickets[1], SECOND);
    expect_waiting(&tickets[2]);
    assert_int_equal(f.news.wake_ns, SECOND + SECOND / 2);
    assert_int_equal(pause_lane(&f, 0, 2 * SECOND, 0), WEIR_OK);
    wake(&f, SECOND / 2);
    expect_waiting(&tickets[2]);
    assert_int_equal(lane_of(&f, 0, 0).paused_until_ns, 2 * SECOND);
    wake(&f, 2 * SECOND);
    expect_news(&f, &tickets[2]);
    leave(&f, &tickets[2], 0);
    close_key(&f);
}

TEST(g8_a_pause_until_a_moment_before_the_latest_time_seen_is_no_pause)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket ticket = {0};
    wake(&f, 500);
    assert_int_equal(pause_lane(&f, 0, 400, 10), WEIR_OK);
    assert_int_equal(enter(&f, &ticket, 20), WEIR_ADMITTED);
    leave(&f, &ticket, 20);
    close_key(&f);
}

TEST(g8_a_jump_forward_does_everything_at_once_and_in_order)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100, .lease_ns = 60});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, 0);
    wake(&f, DAY);
    /* At 60 the first lapsed and passed its permit on; at 100 the third timed out. The second was
     * admitted only now, as far as the key knows. */
    expect_ended(&tickets[0], WEIR_END_LAPSED);
    expect_admitted(&tickets[1]);
    expect_ended(&tickets[2], WEIR_END_TIMEOUT);
    assert_int_equal(tickets[1].admitted_ns, DAY);
    assert_int_equal(f.news.wake_ns, DAY + 60);
    drop_news(&f);
    leave(&f, &tickets[1], DAY);
    close_key(&f);
}

/* ---- waking ---- */

TEST(a_wake_that_comes_too_early_or_too_often_changes_nothing)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(wake(&f, 0), WEIR_NEVER);
    enter_many(&f, tickets, 2, 0);
    for (uint64_t now_ns = 0; now_ns < 100; now_ns += 9) {
        assert_int_equal(wake(&f, now_ns), 100);
        assert_int_equal(wake(&f, now_ns), 100);
    }
    expect_no_news(&f);
    expect_counts(&f, 1, 1);
    end_all(&f, tickets, 2, 99);
    close_key(&f);
}

TEST(every_call_says_when_to_wake_also_when_it_says_no)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket tickets[3] = {0};
    struct weir_rate rate = {.tokens = 1, .period_ns = SECOND};
    enter_many(&f, tickets, 2, 0);
    f.news.wake_ns = 1;
    assert_int_equal(leave_with(&f, &tickets[2], (struct weir_result){0}, 1), WEIR_NOT_HELD);
    assert_int_equal(f.news.wake_ns, 100);
    f.news.wake_ns = 1;
    assert_int_equal(cancel(&f, &tickets[2], 1), WEIR_NOT_HELD);
    assert_int_equal(f.news.wake_ns, 100);
    f.news.wake_ns = 1;
    assert_int_equal(set_limit(&f, 9, 1, 1), WEIR_NO_LANE);
    assert_int_equal(f.news.wake_ns, 100);
    f.news.wake_ns = 1;
    assert_int_equal(pause_lane(&f, 9, 50, 1), WEIR_NO_LANE);
    assert_int_equal(f.news.wake_ns, 100);
    f.news.wake_ns = 1;
    assert_int_equal(weir_key_set_rate(f.key, 0, 0, &rate, 1, &f.news), WEIR_NO_LANE);
    assert_int_equal(f.news.wake_ns, 100);
    f.news.wake_ns = 1;
    assert_int_equal(ask(&f, &tickets[2], (struct weir_request){.no_wait = true}, 1), WEIR_REFUSED);
    assert_int_equal(f.news.wake_ns, 100);
    assert_int_equal(stats_of(&f).wake_ns, 100);
    end_all(&f, tickets, 2, 2);
    close_key(&f);
}

/* ---- batches ---- */

#define MANY 3000

struct batch {
    struct fixture f;
    struct weir_ticket tickets[MANY];
};

/* 3,000 tickets come, of which the first few are admitted, with leases until 100; the others wait
 * at a lane that admits nobody. */
static struct batch *open_batch(struct weir_settings settings, size_t leased)
{
    struct batch *b = calloc(1, sizeof *b);
    assert_non_null(b);
    settings.line.tickets = MANY + 10;
    open_key(&b->f, settings);
    assert_int_equal(set_limit(&b->f, 0, (uint32_t)leased, 0), WEIR_OK);
    for (size_t i = 0; i < MANY; i++) {
        struct weir_request request = {.lease_ns = i < leased ? 99 : 0};
        assert_int_equal(weir_key_enter(b->f.key, &b->tickets[i], &request, 1, &b->f.news),
                         i < leased ? WEIR_ADMITTED : WEIR_WAITING);
    }
    weir_key_validate(b->f.key);
    return b;
}

static void close_batch(struct batch *b)
{
    drop_news(&b->f);
    for (size_t i = 0; i < MANY; i++) {
        (void)!weir_key_cancel(b->f.key, &b->tickets[i], 1, &b->f.news);
        drop_news(&b->f);
    }
    close_key(&b->f);
    free(b);
}

static size_t count_news(struct fixture *f)
{
    size_t count = 0;
    while (weir_news_next(&f->news) != NULL) {
        count++;
    }
    return count;
}

TEST(one_call_admits_at_most_1024_and_the_rest_is_due_at_once)
{
    struct batch *b = open_batch((struct weir_settings){FOREVER}, 0);
    assert_int_equal(set_limit(&b->f, 0, WEIR_LIMIT_NONE, 1), WEIR_OK);
    for (size_t i = 0; i < WEIR_BATCH_MAX; i++) {
        expect_news(&b->f, &b->tickets[i]);
    }
    expect_no_news(&b->f);
    assert_true(b->f.news.wake_ns <= 1);
    assert_true(wake(&b->f, 1) <= 1);
    for (size_t i = WEIR_BATCH_MAX; i < 2 * WEIR_BATCH_MAX; i++) {
        expect_news(&b->f, &b->tickets[i]);
    }
    expect_no_news(&b->f);
    assert_int_equal(wake(&b->f, 1), WEIR_NEVER);
    assert_int_equal(count_news(&b->f), MANY - 2 * WEIR_BATCH_MAX);
    expect_counts(&b->f, MANY, 0);
    close_batch(b);
}

TEST(exactly_1024_are_one_batch_and_nothing_is_left_over)
{
    struct batch *b = open_batch((struct weir_settings){FOREVER}, 0);
    assert_int_equal(set_limit(&b->f, 0, WEIR_BATCH_MAX, 1), WEIR_OK);
    assert_int_equal(count_news(&b->f), WEIR_BATCH_MAX);
    assert_int_equal(b->f.news.wake_ns, WEIR_NEVER);
    assert_int_equal(set_limit(&b->f, 0, 2 * WEIR_BATCH_MAX + 1, 1), WEIR_OK);
    assert_int_equal(count_news(&b->f), WEIR_BATCH_MAX);
    assert_true(b->f.news.wake_ns <= 1);
    assert_int_equal(wake(&b->f, 1), WEIR_NEVER);
    assert_int_equal(count_news(&b->f), 1);
    close_batch(b);
}

TEST(nobody_overtakes_those_whom_the_batch_left_over)
{
    struct batch *b = open_batch((struct weir_settings){FOREVER}, 0);
    assert_int_equal(set_limit(&b->f, 0, WEIR_LIMIT_NONE, 1), WEIR_OK);
    drop_news(&b->f);
    struct weir_ticket late = {0};
    (void)!enter(&b->f, &late, 1);
    while (stats_of(&b->f).waiting > 0) {
        wake(&b->f, 1);
    }
    assert_true(late.admitted_ns >= b->tickets[MANY - 1].admitted_ns);
    size_t i = WEIR_BATCH_MAX;
    for (struct weir_ticket *at; (at = weir_news_next(&b->f.news)) != NULL && at != &late; i++) {
        assert_ptr_equal(at, &b->tickets[i]);
    }
    assert_int_equal(i, MANY);
    leave(&b->f, &late, 1);
    close_batch(b);
}

TEST(one_call_lets_at_most_1024_deadlines_pass)
{
    struct batch *b = open_batch((struct weir_settings){.timeout_ns = 100}, 0);
    assert_true(wake(&b->f, 101) <= 101);
    assert_int_equal(count_news(&b->f), WEIR_BATCH_MAX);
    expect_counts(&b->f, 0, MANY - WEIR_BATCH_MAX);
    assert_true(wake(&b->f, 101) <= 101);
    assert_int_equal(count_news(&b->f), WEIR_BATCH_MAX);
    assert_int_equal(wake(&b->f, 101), WEIR_NEVER);
    assert_int_equal(count_news(&b->f), MANY - 2 * WEIR_BATCH_MAX);
    expect_counts(&b->f, 0, 0);
    close_batch(b);
}

TEST(one_call_lets_at_most_1024_leases_lapse)
{
    struct batch *b = open_batch((struct weir_settings){.lease_ns = 100, FOREVER}, 0);
    assert_int_equal(set_limit(&b->f, 0, WEIR_LIMIT_NONE, 1), WEIR_OK);
    wake(&b->f, 1);
    wake(&b->f, 1);
    assert_int_equal(count_news(&b->f), MANY);
    for (size_t ended = 0; ended < MANY;) {
        assert_true(b->f.news.wake_ns <= 101);
        wake(&b->f, 101);
        size_t now = count_news(&b->f);
        assert_true(now <= WEIR_BATCH_MAX);
        assert_true(now > 0);
        ended += now;
    }
    expect_counts(&b->f, 0, 0);
    close_batch(b);
}

TEST(one_call_admits_at_most_1024_also_when_leases_lapse_meanwhile)
{
    struct batch *b = open_batch((struct weir_settings){FOREVER}, 3);
    /* The pause ends in the moment in which the leases do. */
    assert_int_equal(pause_lane(&b->f, 0, 100, 1), WEIR_OK);
    assert_int_equal(set_limit(&b->f, 0, WEIR_LIMIT_NONE, 1), WEIR_OK);
    expect_counts(&b->f, 3, MANY - 3);
    wake(&b->f, 100);
    uint32_t admitted = MANY - 3 - stats_of(&b->f).waiting;
    close_batch(b);
    assert_true(admitted <= WEIR_BATCH_MAX);
}

TEST(one_call_admits_at_most_1024_also_when_it_first_had_to_catch_up)
{
    struct batch *b = open_batch((struct weir_settings){FOREVER}, 0);
    assert_int_equal(set_limit(&b->f, 0, WEIR_LIMIT_NONE, 1), WEIR_OK);
    drop_news(&b->f);
    uint32_t before = stats_of(&b->f).waiting;
    leave(&b->f, &b->tickets[0], 2);
    uint32_t after = stats_of(&b->f).waiting;
    close_batch(b);
    assert_true(before - after <= WEIR_BATCH_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(a_ticket_times_out_at_exactly_its_deadline),
        BOTH_WAYS(a_requests_own_deadline_stands_for_the_keys_timeout_be_it_earlier_later_or_never),
        BOTH_WAYS(whoever_has_no_time_to_wait_sends_nobody_away),
        BOTH_WAYS(a_deadline_that_is_due_on_arrival_lets_through_whoever_need_not_wait),
        BOTH_WAYS(deadlines_pass_in_the_order_of_their_moments_and_ties_in_the_order_of_arrival),
        BOTH_WAYS(a_deadline_in_the_far_future_does_not_hide_one_that_is_near),
        BOTH_WAYS(a_lease_lapses_at_exactly_its_end_counted_from_admission),
        BOTH_WAYS(a_lease_that_is_renewed_begins_anew_and_one_that_is_over_cannot_be),
        BOTH_WAYS(a_permit_without_a_lease_stays_without_and_another_keys_is_not_renewed),
        BOTH_WAYS(a_deadline_can_be_moved_away_but_not_nearer_and_its_ticket_keeps_its_place),
        BOTH_WAYS(a_ticket_without_a_deadline_stays_without_and_another_keys_is_not_extended),
        BOTH_WAYS(every_permit_of_a_key_with_leases_has_one),
        BOTH_WAYS(a_requests_own_lease_stands_for_the_keys_be_it_shorter_longer_or_never),
        BOTH_WAYS(a_permit_of_a_key_without_leases_may_have_one_of_its_own),
        BOTH_WAYS(a_lease_and_a_deadline_happen_in_the_order_of_their_moments),
        BOTH_WAYS(a_lapse_is_no_loss_to_the_breaker),
        BOTH_WAYS(g8_a_time_that_steps_back_counts_as_the_latest_seen),
        BOTH_WAYS(g8_a_clock_that_stands_still_or_steps_back_refills_no_bucket_and_ends_no_pause),
        BOTH_WAYS(g8_a_pause_until_a_moment_before_the_latest_time_seen_is_no_pause),
        BOTH_WAYS(g8_a_jump_forward_does_everything_at_once_and_in_order),
        BOTH_WAYS(a_wake_that_comes_too_early_or_too_often_changes_nothing),
        BOTH_WAYS(every_call_says_when_to_wake_also_when_it_says_no),
        BOTH_WAYS(one_call_admits_at_most_1024_and_the_rest_is_due_at_once),
        BOTH_WAYS(exactly_1024_are_one_batch_and_nothing_is_left_over),
        BOTH_WAYS(nobody_overtakes_those_whom_the_batch_left_over),
        BOTH_WAYS(one_call_lets_at_most_1024_deadlines_pass),
        BOTH_WAYS(one_call_lets_at_most_1024_leases_lapse),
        BOTH_WAYS(one_call_admits_at_most_1024_also_when_leases_lapse_meanwhile),
        BOTH_WAYS(one_call_admits_at_most_1024_also_when_it_first_had_to_catch_up),
    };
    return cmocka_run_group_tests_name("time", tests, NULL, NULL);
}
