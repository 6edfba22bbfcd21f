/* A key takes up new settings: every sentence of "New settings" in docs/internals/gate.md. */
#include "unit/helpers.h"

#define FOREVER .timeout_ns = WEIR_NEVER

/* ---- who is in line or admitted is not touched ---- */

TEST(a_line_longer_than_its_new_bound_drains)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[7] = {0};
    enter_many(&f, tickets, 5, 1);
    configure(&f, (struct weir_settings){LANE(.limit = 1), .line = {.tickets = 2, .cost = 2}}, 2);
    expect_counts(&f, 1, 4);
    expect_no_news(&f);
    assert_int_equal(enter(&f, &tickets[5], 2), WEIR_REFUSED);
    expect_refused(&tickets[5], WEIR_LINE_FULL);
    /* Not before it has drained below the new bound does anybody join again. */
    for (size_t i = 0; i < 2; i++) {
        leave(&f, &tickets[i], 3);
        expect_news(&f, &tickets[i + 1]);
        assert_int_equal(enter(&f, &tickets[5], 3), WEIR_REFUSED);
    }
    leave(&f, &tickets[2], 3);
    expect_news(&f, &tickets[3]);
    assert_int_equal(enter(&f, &tickets[5], 3), WEIR_WAITING);
    assert_int_equal(enter(&f, &tickets[6], 3), WEIR_REFUSED);
    end_all(&f, tickets, 7, 4);
    close_key(&f);
}

TEST(at_a_line_longer_than_its_new_bound_a_share_still_displaces)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[6] = {0};
    struct weir_ticket other = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(enter_as(&f, &tickets[i], "a", 1), WEIR_WAITING);
    }
    configure(&f, (struct weir_settings){LANE(.limit = 1), FOREVER, .line = {.tickets = 4}}, 2);
    assert_int_equal(enter_as(&f, &other, "b", 2), WEIR_WAITING);
    expect_news(&f, &tickets[5]);
    expect_news(&f, &tickets[4]);
    expect_news(&f, &tickets[3]);
    expect_no_news(&f);
    expect_counts(&f, 1, 4);
    end_all(&f, tickets, 6, 3);
    end_all(&f, &other, 1, 3);
    end_all(&f, &holder, 1, 3);
    close_key(&f);
}

TEST(a_line_dearer_than_its_new_bound_drains)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[5] = {0};
    for (size_t i = 0; i < 4; i++) {
        (void)!ask(&f, &tickets[i], request_of("a", NORMAL, 10), 1);
    }
    configure(&f, (struct weir_settings){LANE(.limit = 1), FOREVER, .line = {.cost = 20}}, 2);
    expect_counts(&f, 1, 3);
    assert_int_equal(ask(&f, &tickets[4], request_of("a", NORMAL, 1), 2), WEIR_REFUSED);
    expect_refused(&tickets[4], WEIR_LINE_FULL);
    leave(&f, &tickets[0], 3);
    assert_int_equal(ask(&f, &tickets[4], request_of("a", NORMAL, 1), 3), WEIR_REFUSED);
    leave(&f, &tickets[1], 3);
    assert_int_equal(ask(&f, &tickets[4], request_of("a", NORMAL, 10), 3), WEIR_WAITING);
    drop_news(&f);
    end_all(&f, tickets, 5, 4);
    close_key(&f);
}

TEST(who_has_more_in_line_than_any_bound_may_name_is_the_one_who_loses)
{
    /* 9,000 x 2^30 is more than 2^42, and times the scale of virtual time more than 2^63. */
    enum {
        many = 9000
    };
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER, .line = {.tickets = 10000}});
    struct weir_ticket holder = {0};
    struct weir_ticket b = {0};
    struct weir_ticket c = {0};
    static struct weir_ticket a[many];
    memset(a, 0, sizeof a);
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &b, request_of("b", NORMAL, 2), 1), WEIR_WAITING);
    struct weir_request request = request_of("a", NORMAL, WEIR_COST_MAX);
    for (size_t i = 0; i < many; i++) {
        assert_int_equal(weir_key_enter(f.key, &a[i], &request, 1, &f.news), WEIR_WAITING);
    }
    configure(&f,
              (struct weir_settings){LANE(.limit = 1), FOREVER,
                                     .line = {.tickets = 10000, .cost = WEIR_LINE_COST_MAX}},
              2);
    assert_int_equal(ask(&f, &c, request_of("c", NORMAL, 1), 2), WEIR_WAITING);
    expect_waiting(&b);
    assert_true(stats_of(&f).waiting_cost <= WEIR_LINE_COST_MAX);
    drop_news(&f);
    for (size_t i = 0; i < many; i++) {
        (void)!weir_key_cancel(f.key, &a[i], 3, &f.news);
        drop_news(&f);
    }
    end_all(&f, &b, 1, 3);
    end_all(&f, &c, 1, 3);
    end_all(&f, &holder, 1, 3);
    close_key(&f);
}

TEST(a_deadline_and_a_lease_stay_as_they_were)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100, .lease_ns = 300});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 2, 0);
    configure(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 10, .lease_ns = 20}, 5);
    assert_int_equal(f.news.wake_ns, 100);
    assert_int_equal(enter(&f, &tickets[2], 5), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, 15);
    wake(&f, 15);
    expect_news(&f, &tickets[2]);
    wake(&f, 99);
    expect_waiting(&tickets[1]);
    wake(&f, 100);
    expect_news(&f, &tickets[1]);
    wake(&f, 299);
    expect_admitted(&tickets[0]);
    wake(&f, 300);
    expect_ended(&tickets[0], WEIR_END_LAPSED);
    expect_news(&f, &tickets[0]);
    close_key(&f);
}

/* ---- lanes ---- */

TEST(lanes_are_matched_by_id_and_keep_their_permits_and_pauses)
{
    const struct weir_lane_settings before[] = {{.id = 1, .limit = 2}, {.id = 2, .limit = 2}};
    const struct weir_lane_settings after[] = {
        {.id = 3, .limit = 1}, {.id = 2, .limit = 2}, {.id = 1, .limit = 2}};
    struct fixture f;
    open_key(&f, (struct weir_settings){.lanes = before, .lane_count = 2, FOREVER});
    struct weir_ticket tickets[5] = {0};
    enter_many(&f, tickets, 3, 1);
    assert_int_equal(pause_lane(&f, 2, 500, 1), WEIR_OK);
    configure(&f, (struct weir_settings){.lanes = after, .lane_count = 3, FOREVER}, 2);
    static const uint16_t ids[] = {3, 2, 1};
    static const uint32_t active[] = {0, 1, 2};
    static const uint64_t paused[] = {0, 500, 0};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(lane_of(&f, i, 2).id, ids[i]);
        assert_int_equal(lane_of(&f, i, 2).active, active[i]);
        assert_int_equal(lane_of(&f, i, 2).paused_until_ns, paused[i]);
    }
    assert_int_equal(enter(&f, &tickets[3], 2), WEIR_ADMITTED);
    assert_int_equal(tickets[3].lane_id, 3);
    assert_int_equal(enter(&f, &tickets[4], 2), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, 500);
    end_all(&f, tickets, 5, 3);
    close_key(&f);
}

TEST(a_lane_keeps_its_breaker)
{
    const struct weir_breaker_settings breaker = {
        .failures = 2, .pause_ns = 10, .pause_max_ns = 99};
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2, .breaker = breaker)});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
    leave_as(&f, &ticket, WEIR_OUTCOME_SOFT_LOSS, 1);
    configure(&f, (struct weir_settings){LANE(.limit = 3, .breaker = breaker)}, 1);
    /* The first loss still counts. */
    assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
    leave_as(&f, &ticket, WEIR_OUTCOME_SOFT_LOSS, 1);
    assert_true(lane_of(&f, 0, 1).probing);
    configure(&f, (struct weir_settings){LANE(.limit = 4, .breaker = breaker)}, 1);
    assert_true(lane_of(&f, 0, 1).probing);
    assert_int_equal(lane_of(&f, 0, 1).paused_until_ns, 11);
    assert_int_equal(enter(&f, &ticket, 11), WEIR_ADMITTED);
    leave_as(&f, &ticket, WEIR_OUTCOME_SOFT_LOSS, 11);
    assert_int_equal(lane_of(&f, 0, 11).paused_until_ns, 31);
    close_key(&f);
}

TEST(a_breaker_that_is_taken_away_lets_everybody_through)
{
    struct fixture f;
    open_key(&f,
             (struct weir_settings){LANE(.limit = 3, .breaker = {.failures = 1, .pause_ns = 10})});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(enter(&f, &tickets[0], 1), WEIR_ADMITTED);
    leave_as(&f, &tickets[0], WEIR_OUTCOME_SOFT_LOSS, 1);
    enter_many(&f, tickets, 3, 20);
    expect_counts(&f, 1, 2);
    configure(&f, (struct weir_settings){LANE(.limit = 3)}, 21);
    expect_counts(&f, 3, 0);
    assert_false(lane_of(&f, 0, 21).probing);
    drop_news(&f);
    /* Nor does it come back half tripped. */
    configure(&f,
              (struct weir_settings){LANE(.limit = 3, .breaker = {.failures = 2, .pause_ns = 10})},
              22);
    leave_as(&f, &tickets[0], WEIR_OUTCOME_SOFT_LOSS, 22);
    assert_false(lane_of(&f, 0, 22).probing);
    end_all(&f, tickets, 3, 23);
    close_key(&f);
}

TEST(a_shorter_longest_pause_holds_from_the_next_trip_on)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){
                     LANE(.limit = 1,
                          .breaker = {.failures = 1, .pause_ns = 100, .pause_max_ns = 1000})});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter(&f, &ticket, 0), WEIR_ADMITTED);
    leave_as(&f, &ticket, WEIR_OUTCOME_SOFT_LOSS, 0);
    configure(&f,
              (struct weir_settings){
                  LANE(.limit = 1, .breaker = {.failures = 1, .pause_ns = 10, .pause_max_ns = 20})},
              1);
    assert_int_equal(lane_of(&f, 0, 1).paused_until_ns, 100);
    assert_int_equal(enter(&f, &ticket, 100), WEIR_ADMITTED);
    leave_as(&f, &ticket, WEIR_OUTCOME_SOFT_LOSS, 100);
    uint64_t until_ns = lane_of(&f, 0, 100).paused_until_ns;
    close_key(&f);
    assert_int_equal(until_ns, 120);
}

TEST(a_lane_that_is_no_longer_named_admits_nobody_and_goes_with_its_last_permit)
{
    const struct weir_lane_settings before[] = {{.id = 1, .limit = 2}, {.id = 2, .limit = 1}};
    struct fixture f;
    open_key(&f, (struct weir_settings){.lanes = before, .lane_count = 2, FOREVER});
    struct weir_ticket tickets[5] = {0};
    enter_many(&f, tickets, 4, 1);
    expect_counts(&f, 3, 1);
    configure(&f, (struct weir_settings){.lanes = &before[1], .lane_count = 1, FOREVER}, 2);
    assert_int_equal(stats_of(&f).lanes, 2);
    assert_int_equal(stats_of(&f).limit, 1);
    /* It stands last, and cannot be changed any more. */
    assert_int_equal(lane_of(&f, 0, 2).id, 2);
    assert_int_equal(lane_of(&f, 1, 2).id, 1);
    assert_int_equal(lane_of(&f, 1, 2).active, 2);
    assert_int_equal(set_limit(&f, 1, 9, 2), WEIR_NO_LANE);
    leave(&f, &tickets[0], 3);
    expect_no_news(&f);
    assert_int_equal(stats_of(&f).lanes, 2);
    leave(&f, &tickets[1], 3);
    assert_int_equal(stats_of(&f).lanes, 1);
    expect_no_news(&f);
    leave(&f, &tickets[2], 3);
    expect_news(&f, &tickets[3]);
    assert_int_equal(tickets[3].lane_id, 2);
    leave(&f, &tickets[3], 4);
    close_key(&f);
}

TEST(a_lane_that_is_named_again_is_taken_up_with_its_permits)
{
    const struct weir_lane_settings lanes[] = {{.id = 1, .limit = 2}, {.id = 2, .limit = 1}};
    struct fixture f;
    open_key(&f, (struct weir_settings){.lanes = lanes, .lane_count = 2, FOREVER});
    struct weir_ticket tickets[4] = {0};
    enter_many(&f, tickets, 4, 1);
    configure(&f, (struct weir_settings){.lanes = &lanes[1], .lane_count = 1, FOREVER}, 2);
    leave(&f, &tickets[0], 2);
    expect_no_news(&f);
    configure(&f, (struct weir_settings){.lanes = lanes, .lane_count = 2, FOREVER}, 3);
    /* One of its two permits is still out, so that there is room for one. */
    expect_news(&f, &tickets[3]);
    assert_int_equal(tickets[3].lane_id, 1);
    assert_int_equal(lane_of(&f, 0, 3).active, 2);
    assert_int_equal(stats_of(&f).lanes, 2);
    end_all(&f, tickets, 4, 4);
    assert_int_equal(stats_of(&f).lanes, 2);
    close_key(&f);
}

TEST(several_lanes_can_go_and_their_permits_come_back_in_any_order)
{
    struct weir_lane_settings lanes[5] = {0};
    for (uint16_t i = 0; i < 5; i++) {
        lanes[i] = (struct weir_lane_settings){.id = i, .limit = 1};
    }
    struct fixture f;
    open_key(&f, (struct weir_settings){.lanes = lanes, .lane_count = 5});
    struct weir_ticket tickets[5] = {0};
    enter_many(&f, tickets, 5, 1);
    configure(&f, (struct weir_settings){.lanes = &lanes[2], .lane_count = 1}, 2);
    assert_int_equal(stats_of(&f).lanes, 5);
    configure(&f, (struct weir_settings){.lanes = &lanes[3], .lane_count = 2}, 2);
    assert_int_equal(stats_of(&f).lanes, 5);
    static const size_t order[] = {4, 1, 2, 0, 3};
    static const uint32_t left[] = {5, 4, 3, 2, 2};
    for (size_t i = 0; i < 5; i++) {
        leave(&f, &tickets[order[i]], 3);
        assert_int_equal(stats_of(&f).lanes, left[i]);
    }
    close_key(&f);
}

TEST(a_lane_that_goes_without_permits_goes_at_once)
{
    const struct weir_lane_settings lanes[] = {{.id = 1}, {.id = 2}};
    struct fixture f;
    open_key(&f, (struct weir_settings){.lanes = lanes, .lane_count = 2});
    configure(&f, (struct weir_settings){.lanes = &lanes[1], .lane_count = 1}, 2);
    assert_int_equal(stats_of(&f).lanes, 1);
    close_key(&f);
}

TEST(the_outcome_of_a_ticket_on_a_lane_that_is_gone_is_harmless)
{
    struct fixture f;
    open_key(
        &f, (struct weir_settings){LANE(.id = 1, .limit = 1, RATE(.tokens = 5, .period_ns = SECOND),
                                        .breaker = {.failures = 1, .pause_ns = 10}),
                                   .lease_ns = 50});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter(&f, &tickets[0], 1), WEIR_ADMITTED);
    configure(&f, (struct weir_settings){LANE(.id = 2, .limit = 1)}, 2);
    leave_as(&f, &tickets[0], WEIR_OUTCOME_SOFT_LOSS, 3);
    assert_int_equal(stats_of(&f).lanes, 1);
    assert_int_equal(enter(&f, &tickets[0], 3), WEIR_ADMITTED);
    leave(&f, &tickets[0], 3);
    close_key(&f);
}

/* ---- limits and rates ---- */

TEST(a_limit_takes_effect_if_the_settings_changed_and_else_stays_as_it_was_set)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2)});
    assert_int_equal(set_limit(&f, 0, 5, 1), WEIR_OK);
    configure(&f, (struct weir_settings){LANE(.limit = 2), .lease_ns = 9}, 2);
    assert_int_equal(stats_of(&f).limit, 5);
    configure(&f, (struct weir_settings){LANE(.limit = 3)}, 3);
    assert_int_equal(stats_of(&f).limit, 3);
    /* Also when the settings happen to name what was set. */
    assert_int_equal(set_limit(&f, 0, 7, 3), WEIR_OK);
    configure(&f, (struct weir_settings){LANE(.limit = 7)}, 4);
    assert_int_equal(stats_of(&f).limit, 7);
    assert_int_equal(set_limit(&f, 0, 8, 4), WEIR_OK);
    configure(&f, (struct weir_settings){LANE(.limit = 7)}, 5);
    assert_int_equal(stats_of(&f).limit, 8);
    configure(&f, (struct weir_settings){LANE(.no_limit = true)}, 6);
    assert_int_equal(stats_of(&f).limit, WEIR_LIMIT_NONE);
    close_key(&f);
}

TEST(a_rate_takes_effect_if_the_settings_changed_and_else_stays_as_it_was_set)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY))});
    const struct weir_rate adapted = {.tokens = 4, .period_ns = DAY};
    assert_int_equal(weir_key_set_rate(f.key, 0, 0, &adapted, 0, &f.news), WEIR_OK);
    assert_int_equal(level_of(&f, 0, 0, 0), 4);
    configure(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY)), .lease_ns = 9},
              0);
    assert_int_equal(level_of(&f, 0, 0, DAY), 4);
    /* A new burst in the settings brings the settings' rate. */
    configure(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY, .burst = 20))},
              0);
    assert_int_equal(level_of(&f, 0, 0, 0), 4);
    assert_int_equal(level_of(&f, 0, 0, DAY), 14);
    assert_int_equal(level_of(&f, 0, 0, 2 * DAY), 20);
    close_key(&f);
}

TEST(a_lower_limit_touches_no_permit_and_a_higher_one_serves_the_line)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 3), FOREVER});
    struct weir_ticket tickets[5] = {0};
    enter_many(&f, tickets, 5, 1);
    configure(&f, (struct weir_settings){LANE(.limit = 1), FOREVER}, 2);
    expect_counts(&f, 3, 2);
    leave(&f, &tickets[0], 3);
    leave(&f, &tickets[1], 3);
    expect_counts(&f, 1, 2);
    expect_no_news(&f);
    configure(&f, (struct weir_settings){LANE(.limit = 2), FOREVER}, 4);
    expect_news(&f, &tickets[3]);
    expect_counts(&f, 2, 1);
    end_all(&f, tickets, 5, 5);
    close_key(&f);
}

/* ---- buckets ---- */

TEST(buckets_are_matched_by_position_and_unit_and_keep_their_level)
{
    const struct weir_rate before[] = {{.tokens = 10, .period_ns = DAY},
                                       {.tokens = 20, .period_ns = DAY}};
    const struct weir_rate after[] = {{.tokens = 12, .period_ns = DAY},
                                      {.tokens = 20, .period_ns = DAY, .unit = WEIR_UNIT_REQUESTS},
                                      {.tokens = 30, .period_ns = DAY}};
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.rates = before, .rate_count = 2)});
    struct weir_ticket ticket = {0};
    assert_int_equal(ask(&f, &ticket, request_of("a", NORMAL, 4), 0), WEIR_ADMITTED);
    configure(&f, (struct weir_settings){LANE(.rates = after, .rate_count = 3)}, 0);
    assert_int_equal(lane_of(&f, 0, 0).bucket_count, 3);
    assert_int_equal(level_of(&f, 0, 0, 0), 6);  /* the level stays, the rate is new */
    assert_int_equal(level_of(&f, 0, 1, 0), 20); /* another unit: a new bucket, full */
    assert_int_equal(level_of(&f, 0, 2, 0), 30); /* another position: new as well */
    /* The true cost is settled only where it was reserved. */
    leave_for(&f, &ticket, 9, 0);
    assert_int_equal(level_of(&f, 0, 0, 0), 1);
    assert_int_equal(level_of(&f, 0, 1, 0), 20);
    assert_int_equal(level_of(&f, 0, 2, 0), 30);
    close_key(&f);
}

TEST(a_bucket_that_came_later_is_not_settled_for_earlier_tickets_but_for_later_ones)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 5)});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 4), 0), WEIR_ADMITTED);
    configure(&f, (struct weir_settings){LANE(.limit = 5, RATE(.tokens = 10, .period_ns = DAY))},
              0);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 4), 0), WEIR_ADMITTED);
    leave_for(&f, &tickets[0], 0, 0);
    assert_int_equal(level_of(&f, 0, 0, 0), 6);
    leave_for(&f, &tickets[1], 1, 0);
    assert_int_equal(level_of(&f, 0, 0, 0), 9);
    close_key(&f);
}

TEST(a_bucket_that_came_later_is_not_settled_for_a_ticket_that_was_elsewhere_before)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 5)});
    struct weir_key *other;
    assert_int_equal(weir_gate_take(f.gate, weir_slice_of("other"), 0, &other), WEIR_OK);
    /* The other key's settings have changed more often than this one's will have. */
    for (int i = 0; i < 9; i++) {
        assert_int_equal(weir_gate_apply(f.gate, other, 0, &f.news), WEIR_OK);
    }
    struct weir_ticket tickets[2] = {0};
    struct weir_request request = {.cost = 4};
    struct weir_result result = {0};
    assert_int_equal(weir_key_enter(other, &tickets[0], &request, 0, &f.news), WEIR_ADMITTED);
    assert_int_equal(weir_key_leave(other, &tickets[0], &result, 0, &f.news), WEIR_OK);
    weir_key_give(other);
    assert_int_equal(ask(&f, &tickets[1], request, 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[0], request, 0), WEIR_ADMITTED);
    configure(&f, (struct weir_settings){LANE(.limit = 5, RATE(.tokens = 10, .period_ns = DAY))},
              0);
    leave_for(&f, &tickets[0], 9, 0);
    leave_for(&f, &tickets[1], 9, 0);
    assert_int_equal(level_of(&f, 0, 0, 0), 10);
    close_key(&f);
}

TEST(a_bucket_that_is_taken_away_lets_those_through_who_waited_for_it)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 1, .period_ns = DAY)), FOREVER});
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 0);
    expect_waiting(&tickets[1]);
    configure(&f, (struct weir_settings){LANE(.limit = 5), FOREVER}, 0);
    expect_news(&f, &tickets[1]);
    assert_int_equal(f.news.wake_ns, WEIR_NEVER);
    end_all(&f, tickets, 2, 1);
    close_key(&f);
}

/* ---- tenants ---- */

#define ONE_TENANT(...)                                                                          \
    .tenants = (const struct weir_tenant_settings[]){{.name = weir_slice_of("a"), __VA_ARGS__}}, \
    .tenant_count = 1

TEST(a_held_tenant_is_looked_at_again)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9), FOREVER, ONE_TENANT(.limit = 1)});
    struct weir_ticket tickets[4] = {0};
    for (size_t i = 0; i < 4; i++) {
        (void)!enter_as(&f, &tickets[i], "a", 1);
    }
    expect_counts(&f, 1, 3);
    configure(&f, (struct weir_settings){LANE(.limit = 9), FOREVER, ONE_TENANT(.limit = 3)}, 2);
    expect_news(&f, &tickets[1]);
    expect_news(&f, &tickets[2]);
    expect_no_news(&f);
    expect_counts(&f, 3, 1);
    /* Lowered, it keeps its permits and gets no more until they are below. */
    configure(&f, (struct weir_settings){LANE(.limit = 9), FOREVER, ONE_TENANT(.limit = 1)}, 3);
    leave(&f, &tickets[0], 3);
    leave(&f, &tickets[1], 3);
    expect_no_news(&f);
    leave(&f, &tickets[2], 3);
    expect_news(&f, &tickets[3]);
    leave(&f, &tickets[3], 4);
    close_key(&f);
}

TEST(a_parked_tenant_is_looked_at_again)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9), FOREVER,
                                        ONE_TENANT(.rate = {.tokens = 1, .period_ns = DAY})});
    struct weir_ticket tickets[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        (void)!enter_as(&f, &tickets[i], "a", 0);
    }
    expect_counts(&f, 1, 2);
    assert_int_equal(f.news.wake_ns, DAY);
    configure(&f,
              (struct weir_settings){LANE(.limit = 9), FOREVER,
                                     ONE_TENANT(.rate = {.tokens = 1, .period_ns = SECOND})},
              0);
    expect_no_news(&f);
    assert_int_equal(f.news.wake_ns, SECOND);
    configure(&f, (struct weir_settings){LANE(.limit = 9), FOREVER}, SECOND / 2);
    expect_news(&f, &tickets[1]);
    expect_news(&f, &tickets[2]);
    end_all(&f, tickets, 3, SECOND);
    close_key(&f);
}

TEST(a_tenant_that_gains_a_rate_starts_with_a_full_bucket)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9), FOREVER});
    struct weir_ticket tickets[4] = {0};
    assert_int_equal(enter_as(&f, &tickets[0], "a", 0), WEIR_ADMITTED);
    configure(&f,
              (struct weir_settings){LANE(.limit = 9), FOREVER,
                                     ONE_TENANT(.rate = {.tokens = 2, .period_ns = DAY})},
              0);
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(enter_as(&f, &tickets[i], "a", 0), i < 3 ? WEIR_ADMITTED : WEIR_WAITING);
    }
    /* And another unit begins another one. */
    configure(&f,
              (struct weir_settings){
                  LANE(.limit = 9), FOREVER,
                  ONE_TENANT(.rate = {.tokens = 2, .period_ns = DAY, .unit = WEIR_UNIT_REQUESTS})},
              0);
    expect_news(&f, &tickets[3]);
    end_all(&f, tickets, 4, 1);
    close_key(&f);
}

TEST(a_tenants_bucket_that_came_later_is_not_settled_for_earlier_tickets_but_for_later_ones)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9), FOREVER});
    struct weir_ticket tickets[4] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 1), 0), WEIR_ADMITTED);
    configure(&f,
              (struct weir_settings){LANE(.limit = 9), FOREVER,
                                     ONE_TENANT(.rate = {.tokens = 10, .period_ns = DAY})},
              0);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 8), 0), WEIR_ADMITTED);
    /* It cost more than expected, but nothing of it came from this bucket: 2 are left. */
    leave_for(&f, &tickets[0], 100, 0);
    assert_int_equal(ask(&f, &tickets[2], request_of("a", NORMAL, 2), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[3], request_of("a", NORMAL, 5), 0), WEIR_WAITING);
    leave_for(&f, &tickets[1], 3, 0);
    expect_news(&f, &tickets[3]);
    end_all(&f, tickets, 4, 1);
    close_key(&f);
}

TEST(a_tenant_follows_its_new_weight)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket holder = {0};
    struct weir_ticket a[6] = {0};
    struct weir_ticket b[3] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(enter_as(&f, &a[i], "a", 1), WEIR_WAITING);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(enter_as(&f, &b[i], "b", 1), WEIR_WAITING);
    }
    configure(&f, (struct weir_settings){LANE(.limit = 1), FOREVER, ONE_TENANT(.weight = 2)}, 2);
    char order[10] = {0};
    struct weir_ticket *at = &holder;
    for (size_t i = 0; i < 9; i++) {
        leave(&f, at, 3);
        at = weir_news_next(&f.news);
        order[i] = at >= b && at < b + 3 ? 'b' : 'a';
    }
    assert_string_equal(order, "abaabaaba");
    leave(&f, at, 3);
    close_key(&f);
}

TEST(shares_at_the_door_follow_new_weights_and_bounds)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER, .line = {.tickets = 100}});
    struct weir_ticket holder = {0};
    struct weir_ticket a[4] = {0};
    struct weir_ticket b[4] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(enter_as(&f, &a[i], "a", 1), WEIR_WAITING);
    }
    /* From a bound by tickets to one by cost and by priority; a's share is 3 of 4. */
    configure(&f,
              (struct weir_settings){LANE(.limit = 1), FOREVER, .line = {.cost = 4},
                                     .line_by_priority = {[NORMAL] = {.tickets = 4}},
                                     ONE_TENANT(.weight = 3)},
              2);
    assert_int_equal(enter_as(&f, &b[0], "b", 2), WEIR_WAITING);
    expect_news(&f, &a[3]);
    assert_int_equal(enter_as(&f, &b[1], "b", 2), WEIR_REFUSED);
    expect_refused(&b[1], WEIR_PRIORITY_FULL);
    /* And to no bound but the key's default. */
    configure(&f, (struct weir_settings){LANE(.limit = 1), FOREVER}, 3);
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(enter_as(&f, &b[i], "b", 3), WEIR_WAITING);
    }
    expect_counts(&f, 1, 7);
    end_all(&f, a, 4, 4);
    end_all(&f, b, 4, 4);
    end_all(&f, &holder, 1, 4);
    close_key(&f);
}

/* ---- the rest ---- */

TEST(the_cycle_starts_anew_if_the_priorities_weights_changed_and_else_goes_on)
{
    for (uint32_t changed = 0; changed < 2; changed++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
        struct weir_ticket holder = {0};
        struct weir_ticket tickets[4] = {0};
        assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
        assert_int_equal(ask(&f, &tickets[0], request_of("a", HIGH, 1), 1), WEIR_WAITING);
        assert_int_equal(ask(&f, &tickets[1], request_of("a", HIGH, 1), 1), WEIR_WAITING);
        assert_int_equal(ask(&f, &tickets[2], request_of("a", NORMAL, 1), 1), WEIR_WAITING);
        leave(&f, &holder, 2);
        expect_news(&f, &tickets[0]);
        /* The next slot is normal's; of a new cycle of 3:2:1 the first is high's. */
        configure(
            &f,
            (struct weir_settings){
                LANE(.limit = 1), FOREVER,
                .priority_weights = {[HIGH] = 4 - changed, [NORMAL] = 3 - changed, [LOW] = 1}},
            3);
        leave(&f, &tickets[0], 4);
        expect_news(&f, changed ? &tickets[1] : &tickets[2]);
        end_all(&f, tickets, 4, 5);
        close_key(&f);
    }
}

TEST(what_is_due_is_done_before_the_settings_change)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 0);
    configure(&f, (struct weir_settings){LANE(.limit = 9)}, 100);
    expect_ended(&tickets[1], WEIR_END_TIMEOUT);
    expect_news(&f, &tickets[1]);
    leave(&f, &tickets[0], 101);
    close_key(&f);
}

TEST(the_same_settings_again_change_nothing)
{
    const struct weir_settings settings = {
        LANE(.limit = 2, RATE(.tokens = 100, .period_ns = DAY),
             .breaker = {.failures = 5, .pause_ns = 10}),
        .timeout_ns = 1000, .line = {.tickets = 10, .cost = 50}, .recorder_events = 8,
        ONE_TENANT(.weight = 2, .rate = {.tokens = 50, .period_ns = DAY})};
    struct fixture f;
    open_key(&f, settings);
    struct weir_ticket tickets[5] = {0};
    for (size_t i = 0; i < 5; i++) {
        (void)!enter_as(&f, &tickets[i], i % 2 == 0 ? "a" : "b", 1);
    }
    struct weir_key_stats before = stats_of(&f);
    int64_t level = level_of(&f, 0, 0, 1);
    configure(&f, settings, 1);
    configure(&f, settings, 1);
    expect_no_news(&f);
    expect_counts(&f, before.active, before.waiting);
    assert_int_equal(stats_of(&f).wake_ns, before.wake_ns);
    assert_int_equal(level_of(&f, 0, 0, 1), level);
    end_all(&f, tickets, 5, 2);
    close_key(&f);
}

TEST(fewer_tenants_than_there_are_leaves_those_who_are_there)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9)});
    struct weir_ticket tickets[4] = {0};
    static const char *const names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(enter_as(&f, &tickets[i], names[i], 1), WEIR_ADMITTED);
    }
    configure(&f, (struct weir_settings){LANE(.limit = 9), .tenants_max = 1}, 2);
    assert_int_equal(stats_of(&f).tenants, 3);
    assert_int_equal(enter_as(&f, &tickets[3], names[3], 2), WEIR_ADMITTED);
    assert_int_equal(stats_of(&f).tenants, 4);
    end_all(&f, tickets, 4, 3);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(a_line_longer_than_its_new_bound_drains),
        BOTH_WAYS(at_a_line_longer_than_its_new_bound_a_share_still_displaces),
        BOTH_WAYS(a_line_dearer_than_its_new_bound_drains),
        BOTH_WAYS(who_has_more_in_line_than_any_bound_may_name_is_the_one_who_loses),
        BOTH_WAYS(a_deadline_and_a_lease_stay_as_they_were),
        BOTH_WAYS(lanes_are_matched_by_id_and_keep_their_permits_and_pauses),
        BOTH_WAYS(a_lane_keeps_its_breaker),
        BOTH_WAYS(a_breaker_that_is_taken_away_lets_everybody_through),
        UNHEARD(a_shorter_longest_pause_holds_from_the_next_trip_on),
        BOTH_WAYS(a_lane_that_is_no_longer_named_admits_nobody_and_goes_with_its_last_permit),
        BOTH_WAYS(a_lane_that_is_named_again_is_taken_up_with_its_permits),
        BOTH_WAYS(several_lanes_can_go_and_their_permits_come_back_in_any_order),
        BOTH_WAYS(a_lane_that_goes_without_permits_goes_at_once),
        BOTH_WAYS(the_outcome_of_a_ticket_on_a_lane_that_is_gone_is_harmless),
        BOTH_WAYS(a_limit_takes_effect_if_the_settings_changed_and_else_stays_as_it_was_set),
        BOTH_WAYS(a_rate_takes_effect_if_the_settings_changed_and_else_stays_as_it_was_set),
        BOTH_WAYS(a_lower_limit_touches_no_permit_and_a_higher_one_serves_the_line),
        BOTH_WAYS(buckets_are_matched_by_position_and_unit_and_keep_their_level),
        BOTH_WAYS(a_bucket_that_came_later_is_not_settled_for_earlier_tickets_but_for_later_ones),
        BOTH_WAYS(a_bucket_that_came_later_is_not_settled_for_a_ticket_that_was_elsewhere_before),
        BOTH_WAYS(a_bucket_that_is_taken_away_lets_those_through_who_waited_for_it),
        BOTH_WAYS(a_held_tenant_is_looked_at_again),
        BOTH_WAYS(a_parked_tenant_is_looked_at_again),
        BOTH_WAYS(a_tenant_that_gains_a_rate_starts_with_a_full_bucket),
        BOTH_WAYS(
            a_tenants_bucket_that_came_later_is_not_settled_for_earlier_tickets_but_for_later_ones),
        BOTH_WAYS(a_tenant_follows_its_new_weight),
        BOTH_WAYS(shares_at_the_door_follow_new_weights_and_bounds),
        BOTH_WAYS(the_cycle_starts_anew_if_the_priorities_weights_changed_and_else_goes_on),
        BOTH_WAYS(what_is_due_is_done_before_the_settings_change),
        BOTH_WAYS(the_same_settings_again_change_nothing),
        BOTH_WAYS(fewer_tenants_than_there_are_leaves_those_who_are_there),
    };
    return cmocka_run_group_tests_name("apply", tests, NULL, NULL);
}
