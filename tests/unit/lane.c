/* The ways through a key: limits, order, room, pauses, buckets and breakers, seen from outside. */
#include "unit/helpers.h"

/* Two lanes, with the ids 7 and 3. */
#define TWO_LANES(first, second)                                                \
    .lanes = (const struct weir_lane_settings[]){{.id = 7, .limit = (first)},   \
                                                 {.id = 3, .limit = (second)}}, \
    .lane_count = 2

/* ---- G1: the limit ---- */

TEST(g1_a_lane_gives_its_limit_of_permits_and_not_one_more)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 3)});
    struct weir_ticket tickets[4] = {0};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(enter(&f, &tickets[i], 1), WEIR_ADMITTED);
        assert_int_equal(lane_of(&f, 0, 1).active, i + 1);
    }
    assert_int_equal(enter(&f, &tickets[3], 1), WEIR_WAITING);
    expect_counts(&f, 3, 1);
    leave(&f, &tickets[1], 2);
    expect_news(&f, &tickets[3]);
    expect_no_news(&f);
    expect_counts(&f, 3, 0);
    end_all(&f, tickets, 4, 3);
    close_key(&f);
}

TEST(g1_a_limit_cut_below_what_is_held_admits_nobody_until_it_has_drained)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 4)});
    struct weir_ticket tickets[6] = {0};
    enter_many(&f, tickets, 6, 1);
    assert_int_equal(set_limit(&f, 0, 2, 2), WEIR_OK);
    expect_counts(&f, 4, 2);
    leave(&f, &tickets[0], 3);
    leave(&f, &tickets[1], 3);
    expect_no_news(&f);
    expect_counts(&f, 2, 2);
    leave(&f, &tickets[2], 3);
    expect_news(&f, &tickets[4]);
    expect_no_news(&f);
    expect_counts(&f, 2, 1);
    end_all(&f, tickets, 6, 4);
    close_key(&f);
}

TEST(g1_a_raised_limit_admits_as_many_as_it_has_room_for_within_the_call)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket tickets[5] = {0};
    enter_many(&f, tickets, 5, 1);
    assert_int_equal(set_limit(&f, 0, 4, 2), WEIR_OK);
    expect_news(&f, &tickets[1]);
    expect_news(&f, &tickets[2]);
    expect_news(&f, &tickets[3]);
    expect_no_news(&f);
    expect_counts(&f, 4, 1);
    assert_int_equal(stats_of(&f).limit, 4);
    assert_int_equal(set_limit(&f, 0, WEIR_LIMIT_NONE, 2), WEIR_OK);
    expect_news(&f, &tickets[4]);
    assert_int_equal(stats_of(&f).limit, WEIR_LIMIT_NONE);
    end_all(&f, tickets, 5, 4);
    close_key(&f);
}

TEST(g1_a_limit_of_0_admits_nobody_and_time_does_not_help)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = WEIR_NEVER});
    struct weir_ticket ticket = {0};
    assert_int_equal(set_limit(&f, 0, 0, 1), WEIR_OK);
    assert_int_equal(enter(&f, &ticket, 1), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, WEIR_NEVER);
    assert_int_equal(wake(&f, DAY), WEIR_NEVER);
    expect_waiting(&ticket);
    assert_int_equal(set_limit(&f, 0, 1, DAY), WEIR_OK);
    expect_news(&f, &ticket);
    leave(&f, &ticket, DAY);
    close_key(&f);
}

TEST(a_new_limit_is_checked_and_its_lane_must_exist)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.id = 5, .limit = 1)});
    assert_int_equal(set_limit(&f, 5, WEIR_LIMIT_MAX - 1, 1), WEIR_OK);
    assert_int_equal(set_limit(&f, 5, WEIR_LIMIT_MAX, 1), WEIR_OK);
    assert_int_equal(set_limit(&f, 5, WEIR_LIMIT_MAX + 1, 1), WEIR_BAD_LIMIT);
    assert_int_equal(set_limit(&f, 5, WEIR_LIMIT_NONE - 1, 1), WEIR_BAD_LIMIT);
    assert_int_equal(lane_of(&f, 0, 1).limit, WEIR_LIMIT_MAX);
    assert_int_equal(set_limit(&f, 4, 1, 1), WEIR_NO_LANE);
    assert_int_equal(lane_of(&f, 0, 1).limit, WEIR_LIMIT_MAX);
    close_key(&f);
}

TEST(a_lane_without_a_limit_counts_all_the_same)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.no_limit = true)});
    struct weir_ticket tickets[50] = {0};
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(enter(&f, &tickets[i], 1), WEIR_ADMITTED);
    }
    expect_counts(&f, 50, 0);
    assert_int_equal(stats_of(&f).limit, WEIR_LIMIT_NONE);
    assert_int_equal(lane_of(&f, 0, 1).limit, WEIR_LIMIT_NONE);
    end_all(&f, tickets, 50, 2);
    close_key(&f);
}

/* ---- several lanes ---- */

TEST(several_lanes_are_taken_in_the_order_of_the_settings)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TWO_LANES(1, 2)});
    struct weir_ticket tickets[5] = {0};
    enter_many(&f, tickets, 5, 1);
    assert_int_equal(tickets[0].lane_id, 7);
    assert_int_equal(tickets[1].lane_id, 3);
    assert_int_equal(tickets[2].lane_id, 3);
    expect_counts(&f, 3, 2);
    assert_int_equal(stats_of(&f).limit, 3);
    leave(&f, &tickets[0], 2);
    assert_int_equal(tickets[3].lane_id, 7);
    leave(&f, &tickets[1], 2);
    assert_int_equal(tickets[4].lane_id, 3);
    end_all(&f, tickets, 5, 4);
    close_key(&f);
}

TEST(most_room_takes_the_lane_with_most_permits_free_and_the_first_on_a_tie)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TWO_LANES(2, 3), .choice = WEIR_CHOICE_MOST_ROOM});
    struct weir_ticket tickets[5] = {0};
    /* Free: 2 and 3; 2 and 2, a tie; 1 and 2; 1 and 1, a tie; 0 and 1. */
    static const uint16_t expected[] = {3, 7, 3, 7, 3};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(enter(&f, &tickets[i], 1), WEIR_ADMITTED);
        assert_int_equal(tickets[i].lane_id, expected[i]);
    }
    end_all(&f, tickets, 5, 4);
    close_key(&f);
}

TEST(no_limit_is_infinitely_much_room_and_the_first_of_two_such_lanes_wins)
{
    const struct weir_lane_settings lanes[] = {{.id = 1, .limit = WEIR_LIMIT_MAX},
                                               {.id = 2, .no_limit = true},
                                               {.id = 3, .no_limit = true}};
    struct fixture f;
    open_key(&f, (struct weir_settings){
                     .lanes = lanes, .lane_count = 3, .choice = WEIR_CHOICE_MOST_ROOM});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, 1);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tickets[i].lane_id, 2);
    }
    end_all(&f, tickets, 3, 4);
    close_key(&f);
}

TEST(most_room_counts_only_lanes_that_admit)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TWO_LANES(9, 2), .choice = WEIR_CHOICE_MOST_ROOM});
    assert_int_equal(pause_lane(&f, 7, 5 * SECOND, 1), WEIR_OK);
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, 1);
    assert_int_equal(tickets[0].lane_id, 3);
    assert_int_equal(tickets[1].lane_id, 3);
    expect_waiting(&tickets[2]);
    wake(&f, 5 * SECOND);
    assert_int_equal(tickets[2].lane_id, 7);
    end_all(&f, tickets, 3, 5 * SECOND);
    close_key(&f);
}

TEST(a_ticket_takes_the_second_lane_when_the_firsts_bucket_is_empty)
{
    const struct weir_rate rate = {.tokens = 1, .period_ns = SECOND};
    const struct weir_lane_settings lanes[] = {{.id = 1, .rates = &rate, .rate_count = 1},
                                               {.id = 2, .limit = 1}};
    struct fixture f;
    open_key(&f, (struct weir_settings){.lanes = lanes, .lane_count = 2});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, 1);
    assert_int_equal(tickets[0].lane_id, 1);
    assert_int_equal(tickets[1].lane_id, 2);
    expect_waiting(&tickets[2]);
    assert_int_equal(f.news.wake_ns, 1 + SECOND);
    wake(&f, 1 + SECOND);
    assert_int_equal(tickets[2].lane_id, 1);
    end_all(&f, tickets, 3, 2 * SECOND);
    close_key(&f);
}

TEST(nobody_overtakes_a_ticket_that_no_lane_admits_whatever_else_would_fit)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = SECOND))});
    struct weir_ticket first = {0};
    struct weir_ticket large = {0};
    struct weir_ticket small = {0};
    assert_int_equal(ask(&f, &first, request_of("a", NORMAL, 5), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &large, request_of("a", NORMAL, 10), 0), WEIR_WAITING);
    /* 5 tokens are there, and a permit too. */
    assert_int_equal(ask(&f, &small, request_of("a", NORMAL, 1), 0), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, SECOND / 2);
    wake(&f, SECOND / 2 - 1);
    expect_no_news(&f);
    wake(&f, SECOND / 2);
    expect_news(&f, &large);
    expect_no_news(&f);
    assert_int_equal(f.news.wake_ns, SECOND / 2 + SECOND / 10);
    wake(&f, SECOND);
    expect_news(&f, &small);
    leave(&f, &first, SECOND);
    leave(&f, &large, SECOND);
    leave(&f, &small, SECOND);
    close_key(&f);
}

/* ---- pauses ---- */

TEST(a_paused_lane_admits_nobody_until_exactly_its_end)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2)});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(enter(&f, &tickets[0], 1), WEIR_ADMITTED);
    assert_int_equal(pause_lane(&f, 0, 100, 1), WEIR_OK);
    assert_int_equal(lane_of(&f, 0, 1).paused_until_ns, 100);
    assert_int_equal(enter(&f, &tickets[1], 1), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, 100);
    /* A permit that comes back stays unused. */
    leave(&f, &tickets[0], 50);
    expect_no_news(&f);
    assert_int_equal(wake(&f, 99), 100);
    expect_waiting(&tickets[1]);
    assert_int_equal(lane_of(&f, 0, 99).paused_until_ns, 100);
    wake(&f, 100);
    expect_news(&f, &tickets[1]);
    assert_int_equal(lane_of(&f, 0, 100).paused_until_ns, 0);
    assert_int_equal(enter(&f, &tickets[2], 100), WEIR_ADMITTED);
    end_all(&f, tickets, 3, 100);
    close_key(&f);
}

TEST(a_pause_can_be_made_longer_shorter_or_ended)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = WEIR_NEVER});
    struct weir_ticket ticket = {0};
    assert_int_equal(pause_lane(&f, 0, 100, 1), WEIR_OK);
    assert_int_equal(enter(&f, &ticket, 1), WEIR_WAITING);
    assert_int_equal(pause_lane(&f, 0, 200, 2), WEIR_OK);
    assert_int_equal(f.news.wake_ns, 200);
    assert_int_equal(pause_lane(&f, 0, 50, 3), WEIR_OK);
    assert_int_equal(f.news.wake_ns, 50);
    assert_int_equal(pause_lane(&f, 0, WEIR_NEVER, 3), WEIR_OK);
    assert_int_equal(f.news.wake_ns, WEIR_NEVER);
    expect_waiting(&ticket);
    /* A moment that has come, and one that is over, both end it. */
    assert_int_equal(pause_lane(&f, 0, 4, 4), WEIR_OK);
    expect_news(&f, &ticket);
    assert_int_equal(lane_of(&f, 0, 4).paused_until_ns, 0);
    assert_int_equal(pause_lane(&f, 0, 100, 5), WEIR_OK);
    assert_int_equal(pause_lane(&f, 0, 0, 5), WEIR_OK);
    assert_int_equal(lane_of(&f, 0, 5).paused_until_ns, 0);
    assert_int_equal(pause_lane(&f, 1, 100, 5), WEIR_NO_LANE);
    leave(&f, &ticket, 6);
    close_key(&f);
}

TEST(a_pause_of_one_lane_leaves_the_others_alone)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TWO_LANES(5, 1)});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(pause_lane(&f, 7, 100, 1), WEIR_OK);
    enter_many(&f, tickets, 2, 1);
    assert_int_equal(tickets[0].lane_id, 3);
    expect_waiting(&tickets[1]);
    leave(&f, &tickets[0], 2);
    assert_int_equal(tickets[1].lane_id, 3);
    end_all(&f, tickets, 2, 3);
    close_key(&f);
}

/* ---- buckets ---- */

TEST(every_bucket_of_a_lane_must_cover_the_ticket)
{
    const struct weir_rate rates[] = {
        {.tokens = 2, .period_ns = SECOND, .unit = WEIR_UNIT_REQUESTS},
        {.tokens = 100, .period_ns = MINUTE}};
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.rates = rates, .rate_count = 2)});
    struct weir_ticket tickets[4] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(level_of(&f, 0, 0, 0), 1);
    assert_int_equal(level_of(&f, 0, 1, 0), 90);
    assert_int_equal(lane_of(&f, 0, 0).bucket_count, 2);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    /* Requests are used up for half a second. */
    assert_int_equal(ask(&f, &tickets[2], request_of("a", NORMAL, 80), 0), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, SECOND / 2);
    wake(&f, SECOND / 2);
    expect_news(&f, &tickets[2]);
    /* Now it is the cost: 80.83 were there, 60 are wanted. */
    assert_int_equal(ask(&f, &tickets[3], request_of("a", NORMAL, 6), SECOND), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, 6 * MINUTE / 100);
    wake(&f, 6 * MINUTE / 100);
    expect_news(&f, &tickets[3]);
    end_all(&f, tickets, 4, MINUTE);
    close_key(&f);
}

TEST(g9_a_ticket_larger_than_the_bucket_is_late_but_not_impossible)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = SECOND, .burst = 20)),
                                        .timeout_ns = WEIR_NEVER});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 1), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 100), 0), WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[2], request_of("a", NORMAL, 1), 0), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, SECOND / 10);
    wake(&f, SECOND / 10);
    expect_news(&f, &tickets[1]);
    expect_no_news(&f);
    assert_int_equal(level_of(&f, 0, 0, SECOND / 10), -80);
    assert_int_equal(f.news.wake_ns, SECOND / 10 + 8 * SECOND + SECOND / 10);
    wake(&f, f.news.wake_ns);
    expect_news(&f, &tickets[2]);
    end_all(&f, tickets, 3, MINUTE);
    close_key(&f);
}

TEST(a_refund_lets_the_next_one_go_within_the_call)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY))});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 4), 0), WEIR_WAITING);
    leave_for(&f, &tickets[0], 7, 0);
    expect_no_news(&f);
    assert_int_equal(cancel(&f, &tickets[1], 0), WEIR_OK);
    assert_int_equal(level_of(&f, 0, 0, 0), 3);

    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 3), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 3), 0), WEIR_WAITING);
    leave_for(&f, &tickets[0], 0, 0);
    expect_news(&f, &tickets[1]);
    leave(&f, &tickets[1], 0);
    assert_int_equal(level_of(&f, 0, 0, 0), 0);
    close_key(&f);
}

TEST(a_cost_that_is_not_told_leaves_the_estimate)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY))});
    struct weir_ticket ticket = {0};
    assert_int_equal(ask(&f, &ticket, request_of("a", NORMAL, 4), 0), WEIR_ADMITTED);
    assert_int_equal(lane_of(&f, 0, 0).reserved, 4);
    assert_int_equal(stats_of(&f).reserved, 4);
    /* The number is not looked at, though it is out of range. */
    assert_int_equal(leave_with(&f, &ticket, (struct weir_result){.cost = UINT32_MAX}, 0), WEIR_OK);
    assert_int_equal(level_of(&f, 0, 0, 0), 6);
    assert_int_equal(lane_of(&f, 0, 0).reserved, 0);
    close_key(&f);
}

TEST(a_cancelled_or_lapsed_permit_keeps_its_estimate)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY))});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 4), 0), WEIR_ADMITTED);
    struct weir_request leased = request_of("a", NORMAL, 3);
    leased.lease_ns = 5;
    assert_int_equal(ask(&f, &tickets[1], leased, 0), WEIR_ADMITTED);
    assert_int_equal(cancel(&f, &tickets[0], 1), WEIR_OK);
    assert_int_equal(level_of(&f, 0, 0, 1), 6 - 3);
    wake(&f, 5);
    expect_ended(&tickets[1], WEIR_END_LAPSED);
    assert_int_equal(level_of(&f, 0, 0, 5), 3);
    close_key(&f);
}

static enum weir_status set_rate(struct fixture *f, uint16_t lane, uint32_t index,
                                 struct weir_rate rate, uint64_t now_ns)
{
    enum weir_status status = weir_key_set_rate(f->key, lane, index, &rate, now_ns, &f->news);
    weir_key_validate(f->key);
    return status;
}

TEST(a_new_rate_wakes_those_who_waited_for_the_old_one)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY)),
                                        .timeout_ns = WEIR_NEVER});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 1), 0), WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[2], request_of("a", NORMAL, 2), 0), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, DAY / 10);
    struct weir_rate faster = {.tokens = 10, .period_ns = SECOND};
    assert_int_equal(set_rate(&f, 0, 0, faster, SECOND), WEIR_OK);
    /* What flowed in before is a hundred-thousandth of a token. */
    assert_true(f.news.wake_ns > SECOND + SECOND / 10 - SECOND / 1000);
    assert_true(f.news.wake_ns <= SECOND + SECOND / 10);
    wake(&f, 2 * SECOND);
    expect_news(&f, &tickets[1]);
    expect_news(&f, &tickets[2]);
    end_all(&f, tickets, 3, MINUTE);
    close_key(&f);
}

TEST(a_new_rate_is_checked_and_its_bucket_must_exist)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY))});
    struct weir_rate rate = {.tokens = 20, .period_ns = DAY};
    assert_int_equal(set_rate(&f, 1, 0, rate, 0), WEIR_NO_LANE);
    assert_int_equal(set_rate(&f, 0, 1, rate, 0), WEIR_NO_LANE);
    rate.unit = WEIR_UNIT_REQUESTS;
    assert_int_equal(set_rate(&f, 0, 0, rate, 0), WEIR_BAD_RATE);
    rate = (struct weir_rate){.tokens = 0, .period_ns = DAY};
    assert_int_equal(set_rate(&f, 0, 0, rate, 0), WEIR_BAD_RATE);
    rate = (struct weir_rate){.tokens = 1, .period_ns = DAY + 1};
    assert_int_equal(set_rate(&f, 0, 0, rate, 0), WEIR_BAD_RATE);
    /* None of them changed the burst. */
    assert_int_equal(level_of(&f, 0, 0, 0), 10);
    rate = (struct weir_rate){.tokens = 7, .period_ns = DAY};
    assert_int_equal(set_rate(&f, 0, 0, rate, 0), WEIR_OK);
    assert_int_equal(level_of(&f, 0, 0, 0), 7);
    close_key(&f);
}

/* ---- the breaker ---- */

#define BREAKER LANE(.limit = 4, .breaker = {.failures = 3, .pause_ns = 10, .pause_max_ns = 35})

static void lose(struct fixture *f, struct weir_ticket *ticket, uint64_t now_ns)
{
    assert_int_equal(enter(f, ticket, now_ns), WEIR_ADMITTED);
    leave_as(f, ticket, WEIR_OUTCOME_SOFT_LOSS, now_ns);
}

TEST(the_breaker_trips_at_its_threshold_of_losses_in_a_row_and_not_before)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BREAKER});
    struct weir_ticket ticket = {0};
    lose(&f, &ticket, 1);
    lose(&f, &ticket, 1);
    assert_false(lane_of(&f, 0, 1).probing);
    assert_int_equal(lane_of(&f, 0, 1).paused_until_ns, 0);
    lose(&f, &ticket, 1);
    assert_true(lane_of(&f, 0, 1).probing);
    assert_int_equal(lane_of(&f, 0, 1).paused_until_ns, 11);
    close_key(&f);
}

TEST(only_soft_losses_count_and_only_a_success_starts_again)
{
    static const enum weir_outcome neither[] = {WEIR_OUTCOME_RATE_LIMIT, WEIR_OUTCOME_CLIENT_ERROR,
                                                WEIR_OUTCOME_CANCELLED};
    struct fixture f;
    open_key(&f, (struct weir_settings){BREAKER});
    struct weir_ticket ticket = {0};
    lose(&f, &ticket, 1);
    lose(&f, &ticket, 1);
    for (size_t i = 0; i < COUNT_OF(neither); i++) {
        assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
        leave_as(&f, &ticket, neither[i], 1);
    }
    assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
    assert_int_equal(cancel(&f, &ticket, 1), WEIR_OK);
    assert_false(lane_of(&f, 0, 1).probing);
    /* A success starts the count again: two more are not enough, a third is. */
    assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
    leave_as(&f, &ticket, WEIR_OUTCOME_SUCCESS, 1);
    lose(&f, &ticket, 1);
    lose(&f, &ticket, 1);
    assert_false(lane_of(&f, 0, 1).probing);
    lose(&f, &ticket, 1);
    assert_true(lane_of(&f, 0, 1).probing);
    close_key(&f);
}

/* Makes the breaker trip at that moment. */
static void trip(struct fixture *f, struct weir_ticket *ticket, uint64_t now_ns)
{
    for (int i = 0; i < 3; i++) {
        lose(f, ticket, now_ns);
    }
    assert_true(lane_of(f, 0, now_ns).probing);
}

TEST(after_the_pause_one_ticket_at_a_time_goes_through_until_one_succeeds)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BREAKER});
    struct weir_ticket tickets[4] = {0};
    trip(&f, &tickets[0], 1);
    enter_many(&f, tickets, 4, 2);
    expect_counts(&f, 0, 4);
    assert_int_equal(f.news.wake_ns, 11);
    wake(&f, 11);
    expect_news(&f, &tickets[0]);
    expect_no_news(&f);
    /* Neither a loss nor a success: the next one probes. */
    leave_as(&f, &tickets[0], WEIR_OUTCOME_CLIENT_ERROR, 12);
    expect_news(&f, &tickets[1]);
    expect_no_news(&f);
    assert_true(lane_of(&f, 0, 12).probing);
    leave_as(&f, &tickets[1], WEIR_OUTCOME_SUCCESS, 13);
    expect_news(&f, &tickets[2]);
    expect_news(&f, &tickets[3]);
    assert_false(lane_of(&f, 0, 13).probing);
    end_all(&f, tickets, 4, 14);
    close_key(&f);
}

TEST(each_failed_probe_doubles_the_pause_up_to_the_longest)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BREAKER});
    struct weir_ticket ticket = {0};
    uint64_t now_ns = 1;
    trip(&f, &ticket, now_ns);
    static const uint64_t pauses[] = {10, 20, 35, 35, 35};
    for (size_t i = 0; i < COUNT_OF(pauses); i++) {
        uint64_t until_ns = now_ns + pauses[i];
        assert_int_equal(lane_of(&f, 0, now_ns).paused_until_ns, until_ns);
        assert_int_equal(enter(&f, &ticket, until_ns - 1), WEIR_WAITING);
        wake(&f, until_ns);
        expect_news(&f, &ticket);
        leave_as(&f, &ticket, WEIR_OUTCOME_SOFT_LOSS, until_ns);
        now_ns = until_ns;
    }
    close_key(&f);
}

TEST(a_probe_that_succeeds_resets_the_pause_and_the_count)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BREAKER});
    struct weir_ticket ticket = {0};
    trip(&f, &ticket, 1);
    lose(&f, &ticket, 11);
    assert_int_equal(lane_of(&f, 0, 11).paused_until_ns, 31);
    assert_int_equal(enter(&f, &ticket, 31), WEIR_ADMITTED);
    leave_as(&f, &ticket, WEIR_OUTCOME_SUCCESS, 32);
    assert_false(lane_of(&f, 0, 32).probing);
    lose(&f, &ticket, 33);
    lose(&f, &ticket, 33);
    assert_false(lane_of(&f, 0, 33).probing);
    lose(&f, &ticket, 33);
    assert_int_equal(lane_of(&f, 0, 33).paused_until_ns, 43);
    close_key(&f);
}

TEST(outcomes_of_tickets_from_before_the_trip_do_not_count)
{
    struct fixture f;
    open_key(&f,
             (struct weir_settings){LANE(.limit = 9, .breaker = {.failures = 2, .pause_ns = 10})});
    struct weir_ticket tickets[5] = {0};
    enter_many(&f, tickets, 5, 1);
    leave_as(&f, &tickets[0], WEIR_OUTCOME_SOFT_LOSS, 1);
    leave_as(&f, &tickets[1], WEIR_OUTCOME_SOFT_LOSS, 1);
    assert_int_equal(lane_of(&f, 0, 1).paused_until_ns, 11);
    /* A late success does not close it, a late loss does not pause it longer. */
    leave_as(&f, &tickets[2], WEIR_OUTCOME_SUCCESS, 5);
    assert_true(lane_of(&f, 0, 5).probing);
    leave_as(&f, &tickets[3], WEIR_OUTCOME_SOFT_LOSS, 5);
    assert_int_equal(lane_of(&f, 0, 5).paused_until_ns, 11);
    /* One from before still holds its permit, so that no probe goes beside it. */
    struct weir_ticket probe = {0};
    assert_int_equal(enter(&f, &probe, 20), WEIR_WAITING);
    leave_as(&f, &tickets[4], WEIR_OUTCOME_SOFT_LOSS, 21);
    expect_news(&f, &probe);
    assert_true(lane_of(&f, 0, 21).probing);
    leave_as(&f, &probe, WEIR_OUTCOME_SUCCESS, 22);
    assert_false(lane_of(&f, 0, 22).probing);
    close_key(&f);
}

TEST(a_trip_does_not_shorten_a_longer_pause)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BREAKER});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, 1);
    assert_int_equal(pause_lane(&f, 0, 500, 1), WEIR_OK);
    for (size_t i = 0; i < 3; i++) {
        leave_as(&f, &tickets[i], WEIR_OUTCOME_SOFT_LOSS, 1);
    }
    assert_true(lane_of(&f, 0, 1).probing);
    assert_int_equal(lane_of(&f, 0, 1).paused_until_ns, 500);
    close_key(&f);
}

TEST(while_it_probes_a_limit_of_0_still_admits_nobody)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BREAKER, .timeout_ns = WEIR_NEVER});
    struct weir_ticket ticket = {0};
    trip(&f, &ticket, 1);
    assert_int_equal(set_limit(&f, 0, 0, 1), WEIR_OK);
    assert_int_equal(enter(&f, &ticket, 20), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, WEIR_NEVER);
    assert_int_equal(set_limit(&f, 0, 9, 20), WEIR_OK);
    expect_news(&f, &ticket);
    struct weir_ticket second = {0};
    assert_int_equal(enter(&f, &second, 20), WEIR_WAITING);
    end_all(&f, &ticket, 1, 21);
    end_all(&f, &second, 1, 21);
    close_key(&f);
}

TEST(with_a_second_lane_the_traffic_goes_on_while_the_first_is_tripped)
{
    const struct weir_lane_settings lanes[] = {
        {.id = 1, .limit = 2, .breaker = {.failures = 1, .pause_ns = 10}}, {.id = 2, .limit = 2}};
    struct fixture f;
    open_key(&f, (struct weir_settings){.lanes = lanes, .lane_count = 2});
    struct weir_ticket tickets[2] = {0};
    lose(&f, &tickets[0], 1);
    enter_many(&f, tickets, 2, 2);
    assert_int_equal(tickets[0].lane_id, 2);
    assert_int_equal(tickets[1].lane_id, 2);
    end_all(&f, tickets, 2, 3);
    close_key(&f);
}

TEST(a_pause_of_146_years_doubles_without_overflow)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){
                     LANE(.limit = 1, .breaker = {.failures = 1,
                                                  .pause_ns = WEIR_DURATION_MAX_NS / 2 + 1,
                                                  .pause_max_ns = WEIR_DURATION_MAX_NS})});
    struct weir_ticket ticket = {0};
    lose(&f, &ticket, 1);
    uint64_t until_ns = 1 + WEIR_DURATION_MAX_NS / 2 + 1;
    assert_int_equal(lane_of(&f, 0, 1).paused_until_ns, until_ns);
    lose(&f, &ticket, until_ns);
    assert_int_equal(lane_of(&f, 0, until_ns).paused_until_ns, until_ns + WEIR_DURATION_MAX_NS);
    close_key(&f);
}

TEST(past_the_last_lane_there_is_nothing_and_nothing_is_written)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TWO_LANES(1, 2)});
    struct weir_lane_stats stats = {.id = 99};
    assert_true(weir_key_get_lane(f.key, 1, 0, &stats));
    assert_int_equal(stats.id, 3);
    assert_false(weir_key_get_lane(f.key, 2, 0, &stats));
    assert_int_equal(stats.id, 3);
    close_key(&f);
}

/* ---- another lane ---- */

static enum weir_admission enter_past(struct fixture *f, struct weir_ticket *ticket,
                                      uint64_t lanes_tried, uint64_t now_ns)
{
    struct weir_request request = {.lanes_tried = lanes_tried, .retry = true};
    return ask(f, ticket, request, now_ns);
}

static enum weir_other_lane other_lane(struct fixture *f, struct weir_ticket *ticket,
                                       uint64_t lanes_tried, uint64_t now_ns)
{
    return weir_key_other_lane(f->key, ticket, lanes_tried, now_ns);
}

TEST(a_lane_that_was_tried_is_taken_only_if_no_other_admits)
{
    static const enum weir_choice choices[] = {WEIR_CHOICE_IN_ORDER, WEIR_CHOICE_MOST_ROOM};
    for (size_t i = 0; i < COUNT_OF(choices); i++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){TWO_LANES(5, 1), .choice = choices[i]});
        struct weir_ticket tickets[3] = {0};
        assert_int_equal(enter_past(&f, &tickets[0], UINT64_C(1) << 7, 1), WEIR_ADMITTED);
        assert_int_equal(tickets[0].lane_id, 3);
        assert_int_equal(enter_past(&f, &tickets[1], UINT64_C(1) << 7, 1), WEIR_ADMITTED);
        assert_int_equal(tickets[1].lane_id, 7); /* the other one is full */
        assert_int_equal(enter_past(&f, &tickets[2], UINT64_MAX, 1), WEIR_ADMITTED);
        assert_int_equal(tickets[2].lane_id, 7);
        end_all(&f, tickets, 3, 2);
        close_key(&f);
    }
}

TEST(whether_another_lane_is_open_and_has_room_is_told)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TWO_LANES(2, 1)});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(other_lane(&f, &tickets[0], 0, 1),
                     WEIR_OTHER_LANE_NONE); /* it holds nothing */
    assert_int_equal(enter(&f, &tickets[0], 1), WEIR_ADMITTED);
    assert_int_equal(other_lane(&f, &tickets[0], 0, 1), WEIR_OTHER_LANE_FREE);
    assert_int_equal(other_lane(&f, &tickets[0], UINT64_C(1) << 7, 1), WEIR_OTHER_LANE_FREE);
    assert_int_equal(other_lane(&f, &tickets[0], UINT64_C(1) << 3, 1), WEIR_OTHER_LANE_NONE);
    assert_int_equal(enter_past(&f, &tickets[1], UINT64_C(1) << 7, 1), WEIR_ADMITTED);
    assert_int_equal(other_lane(&f, &tickets[0], 0, 1), WEIR_OTHER_LANE_FULL);
    assert_int_equal(pause_lane(&f, 3, 10, 2), WEIR_OK);
    assert_int_equal(other_lane(&f, &tickets[0], 0, 9), WEIR_OTHER_LANE_NONE);
    assert_int_equal(other_lane(&f, &tickets[0], 0, 10), WEIR_OTHER_LANE_FULL);
    end_all(&f, tickets, 2, 11);
    close_key(&f);
}

TEST(a_lane_that_rests_does_so_for_the_longest_time_it_was_told)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TWO_LANES(2, 1)});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
    weir_key_pause_failing(f.key, &ticket, 100, 2, &f.news);
    weir_key_pause_failing(f.key, &ticket, 50, 3, &f.news);
    assert_int_equal(lane_of(&f, 0, 4).paused_until_ns, 100);
    weir_key_pause_failing(f.key, &ticket, 4, 5, &f.news); /* a moment that has passed */
    assert_int_equal(lane_of(&f, 0, 5).paused_until_ns, 100);
    leave(&f, &ticket, 6);
    weir_key_pause_failing(f.key, &ticket, 1000, 7, &f.news); /* it holds nothing any more */
    assert_int_equal(lane_of(&f, 0, 7).paused_until_ns, 100);
    close_key(&f);
}

/* ---- Retry-After without a controller ---- */

static void refuse_lane(struct fixture *f, bool doubtful, uint64_t retry_after_ns, uint64_t now_ns)
{
    struct weir_ticket ticket = {0};
    struct weir_reply reply = {.outcome = WEIR_OUTCOME_RATE_LIMIT,
                               .retry_after_known = true,
                               .retry_after_ns = retry_after_ns,
                               .doubtful = doubtful};
    assert_int_equal(enter(f, &ticket, now_ns), WEIR_ADMITTED);
    assert_int_equal(weir_key_hear(f->key, &ticket, &reply, now_ns, &f->news), WEIR_OK);
    leave(f, &ticket, now_ns);
    drop_news(f);
}

TEST(a_lane_without_a_controller_keeps_to_retry_after)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 3)});
    refuse_lane(&f, false, 100, 1);
    assert_int_equal(lane_of(&f, 0, 1).paused_until_ns, 101);
    refuse_lane(&f, false, UINT64_MAX, 200);
    assert_int_equal(lane_of(&f, 0, 200).paused_until_ns, 200 + WEIR_RETRY_AFTER_MAX_NS);
    close_key(&f);
}

TEST(what_is_doubtful_counts_from_the_second_time_in_a_second)
{
    const uint64_t second = WEIR_RETRY_AFTER_DOUBT_NS;
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 3)});
    refuse_lane(&f, true, 100, 1);
    refuse_lane(&f, true, 100, second + 2);
    assert_int_equal(lane_of(&f, 0, second + 2).paused_until_ns, 0);
    refuse_lane(&f, true, 100, 2 * second + 2);
    assert_int_equal(lane_of(&f, 0, 2 * second + 2).paused_until_ns, 2 * second + 102);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(g1_a_lane_gives_its_limit_of_permits_and_not_one_more),
        BOTH_WAYS(g1_a_limit_cut_below_what_is_held_admits_nobody_until_it_has_drained),
        BOTH_WAYS(g1_a_raised_limit_admits_as_many_as_it_has_room_for_within_the_call),
        BOTH_WAYS(g1_a_limit_of_0_admits_nobody_and_time_does_not_help),
        BOTH_WAYS(a_new_limit_is_checked_and_its_lane_must_exist),
        BOTH_WAYS(a_lane_without_a_limit_counts_all_the_same),
        BOTH_WAYS(several_lanes_are_taken_in_the_order_of_the_settings),
        BOTH_WAYS(most_room_takes_the_lane_with_most_permits_free_and_the_first_on_a_tie),
        BOTH_WAYS(no_limit_is_infinitely_much_room_and_the_first_of_two_such_lanes_wins),
        BOTH_WAYS(most_room_counts_only_lanes_that_admit),
        BOTH_WAYS(a_ticket_takes_the_second_lane_when_the_firsts_bucket_is_empty),
        BOTH_WAYS(nobody_overtakes_a_ticket_that_no_lane_admits_whatever_else_would_fit),
        BOTH_WAYS(a_paused_lane_admits_nobody_until_exactly_its_end),
        BOTH_WAYS(a_pause_can_be_made_longer_shorter_or_ended),
        BOTH_WAYS(a_pause_of_one_lane_leaves_the_others_alone),
        BOTH_WAYS(every_bucket_of_a_lane_must_cover_the_ticket),
        BOTH_WAYS(g9_a_ticket_larger_than_the_bucket_is_late_but_not_impossible),
        BOTH_WAYS(a_refund_lets_the_next_one_go_within_the_call),
        BOTH_WAYS(a_cost_that_is_not_told_leaves_the_estimate),
        BOTH_WAYS(a_cancelled_or_lapsed_permit_keeps_its_estimate),
        BOTH_WAYS(a_new_rate_wakes_those_who_waited_for_the_old_one),
        BOTH_WAYS(a_new_rate_is_checked_and_its_bucket_must_exist),
        BOTH_WAYS(the_breaker_trips_at_its_threshold_of_losses_in_a_row_and_not_before),
        BOTH_WAYS(only_soft_losses_count_and_only_a_success_starts_again),
        BOTH_WAYS(after_the_pause_one_ticket_at_a_time_goes_through_until_one_succeeds),
        BOTH_WAYS(each_failed_probe_doubles_the_pause_up_to_the_longest),
        BOTH_WAYS(a_probe_that_succeeds_resets_the_pause_and_the_count),
        BOTH_WAYS(outcomes_of_tickets_from_before_the_trip_do_not_count),
        BOTH_WAYS(a_trip_does_not_shorten_a_longer_pause),
        BOTH_WAYS(while_it_probes_a_limit_of_0_still_admits_nobody),
        BOTH_WAYS(with_a_second_lane_the_traffic_goes_on_while_the_first_is_tripped),
        BOTH_WAYS(a_pause_of_146_years_doubles_without_overflow),
        BOTH_WAYS(a_lane_that_was_tried_is_taken_only_if_no_other_admits),
        BOTH_WAYS(whether_another_lane_is_open_and_has_room_is_told),
        BOTH_WAYS(a_lane_that_rests_does_so_for_the_longest_time_it_was_told),
        BOTH_WAYS(a_lane_without_a_controller_keeps_to_retry_after),
        BOTH_WAYS(what_is_doubtful_counts_from_the_second_time_in_a_second),
        BOTH_WAYS(past_the_last_lane_there_is_nothing_and_nothing_is_written),
    };
    return cmocka_run_group_tests_name("lane", tests, NULL, NULL);
}
