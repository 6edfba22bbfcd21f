/* Every call on a key in every state of a ticket, requests and results out of range, the news, and
 * the invariants G2, G3 and G5. What belongs to the line, the door, a lane or to time alone is in
 * the files of those names. */
#include "unit/helpers.h"

#define FOREVER .timeout_ns = WEIR_NEVER

/* ---- every call in every state ---- */

TEST(a_ticket_that_never_came_is_not_held)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){0});
    struct weir_ticket ticket = {0};
    assert_int_equal(leave_with(&f, &ticket, (struct weir_result){0}, 1), WEIR_NOT_HELD);
    assert_int_equal(cancel(&f, &ticket, 1), WEIR_NOT_HELD);
    assert_int_equal(ticket.state, WEIR_TICKET_IDLE);
    expect_counts(&f, 0, 0);
    close_key(&f);
}

TEST(a_waiting_ticket_cannot_leave_but_can_be_cancelled)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 1);
    assert_int_equal(leave_with(&f, &tickets[1], (struct weir_result){0}, 1), WEIR_NOT_HELD);
    expect_waiting(&tickets[1]);
    expect_counts(&f, 1, 1);
    assert_int_equal(cancel(&f, &tickets[1], 1), WEIR_OK);
    expect_ended(&tickets[1], WEIR_END_CANCELLED);
    expect_counts(&f, 1, 0);
    /* Whoever cancels knows; the news do not repeat it. */
    expect_no_news(&f);
    leave(&f, &tickets[0], 1);
    close_key(&f);
}

TEST(an_admitted_ticket_can_leave_or_be_cancelled_but_only_once)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2)});
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 1);
    leave(&f, &tickets[0], 2);
    expect_ended(&tickets[0], WEIR_END_LEFT);
    assert_int_equal(leave_with(&f, &tickets[0], (struct weir_result){0}, 2), WEIR_NOT_HELD);
    assert_int_equal(cancel(&f, &tickets[0], 2), WEIR_NOT_HELD);
    expect_counts(&f, 1, 0);
    assert_int_equal(cancel(&f, &tickets[1], 2), WEIR_OK);
    expect_ended(&tickets[1], WEIR_END_CANCELLED);
    assert_int_equal(leave_with(&f, &tickets[1], (struct weir_result){0}, 2), WEIR_NOT_HELD);
    assert_int_equal(cancel(&f, &tickets[1], 2), WEIR_NOT_HELD);
    expect_counts(&f, 0, 0);
    expect_no_news(&f);
    close_key(&f);
}

/* Brings a ticket to an end of each kind, at the time 1 or by the time 10. */
static void bring_to_end(struct fixture *f, struct weir_ticket *ticket, enum weir_end end)
{
    struct weir_ticket others[3] = {0};
    struct weir_request request = {.deadline_ns = 10, .lease_ns = end == WEIR_END_LAPSED ? 9 : 0};
    request.tenant = weir_slice_of("a");
    request.cost = end == WEIR_END_REFUSED ? WEIR_COST_MAX + 1 : 1;
    if (end == WEIR_END_TIMEOUT || end == WEIR_END_DISPLACED) {
        enter_many(f, others, 1, 1);
    }
    if (end == WEIR_END_DISPLACED) {
        assert_int_equal(enter_as(f, &others[1], "a", 1), WEIR_WAITING);
    }
    (void)!ask(f, ticket, request, 1);
    if (end == WEIR_END_LEFT) {
        leave(f, ticket, 1);
    } else if (end == WEIR_END_CANCELLED) {
        assert_int_equal(cancel(f, ticket, 1), WEIR_OK);
    } else if (end == WEIR_END_DISPLACED) {
        assert_int_equal(enter_as(f, &others[2], "b", 1), WEIR_WAITING);
        expect_news(f, ticket);
    } else if (end != WEIR_END_REFUSED) {
        wake(f, 10);
        expect_news(f, ticket);
    }
    expect_ended(ticket, end);
    end_all(f, others, 3, 10);
    expect_no_news(f);
}

TEST(an_ended_ticket_is_not_held_however_it_ended_and_can_be_used_again)
{
    for (int end = WEIR_END_LEFT; end < WEIR_END_COUNT; end++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){LANE(.limit = 1), .line = {.tickets = 2}});
        struct weir_ticket ticket = {0};
        bring_to_end(&f, &ticket, (enum weir_end)end);
        struct weir_key_stats before = stats_of(&f);
        assert_int_equal(before.ended[end], 1);
        assert_int_equal(leave_with(&f, &ticket, (struct weir_result){0}, 10), WEIR_NOT_HELD);
        assert_int_equal(cancel(&f, &ticket, 10), WEIR_NOT_HELD);
        expect_ended(&ticket, (enum weir_end)end);
        assert_memory_equal(before.ended, stats_of(&f).ended, sizeof before.ended);
        expect_counts(&f, 0, 0);
        assert_int_equal(enter(&f, &ticket, 10), WEIR_ADMITTED);
        assert_int_equal(ticket.end, WEIR_END_NONE);
        assert_int_equal(ticket.refusal, WEIR_OK);
        leave(&f, &ticket, 11);
        close_key(&f);
    }
}

TEST(another_keys_ticket_is_refused_and_nothing_changes)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_key *other;
    assert_int_equal(weir_gate_take(f.gate, weir_slice_of("other"), 0, &other), WEIR_OK);
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 1);
    struct weir_result result = {0};
    assert_int_equal(weir_key_leave(other, &tickets[0], &result, 1, &f.news), WEIR_WRONG_KEY);
    assert_int_equal(weir_key_cancel(other, &tickets[0], 1, &f.news), WEIR_WRONG_KEY);
    assert_int_equal(weir_key_cancel(other, &tickets[1], 1, &f.news), WEIR_WRONG_KEY);
    /* A waiting one holds no permit of any key. */
    assert_int_equal(weir_key_leave(other, &tickets[1], &result, 1, &f.news), WEIR_NOT_HELD);
    expect_admitted(&tickets[0]);
    expect_waiting(&tickets[1]);
    expect_counts(&f, 1, 1);
    assert_int_equal(weir_key_get_stats(other).active, 0);
    end_all(&f, tickets, 2, 1);
    /* Ended tickets belong to nobody. */
    assert_int_equal(weir_key_leave(other, &tickets[0], &result, 1, &f.news), WEIR_NOT_HELD);
    assert_int_equal(weir_key_cancel(other, &tickets[0], 1, &f.news), WEIR_NOT_HELD);
    weir_key_validate(other);
    weir_key_give(other);
    close_key(&f);
}

TEST(a_ticket_may_go_from_one_key_to_another)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_key *other;
    assert_int_equal(weir_gate_take(f.gate, weir_slice_of("other"), 0, &other), WEIR_OK);
    struct weir_ticket ticket = {0};
    struct weir_request request = {0};
    struct weir_result result = {0};
    for (uint64_t i = 1; i < 4; i++) {
        assert_int_equal(enter(&f, &ticket, i), WEIR_ADMITTED);
        leave(&f, &ticket, i);
        assert_int_equal(weir_key_enter(other, &ticket, &request, i, &f.news), WEIR_ADMITTED);
        assert_int_equal(weir_key_leave(other, &ticket, &result, i, &f.news), WEIR_OK);
    }
    weir_key_give(other);
    close_key(&f);
}

/* ---- requests and results out of range ---- */

static void expect_bad_request(struct weir_request request, enum weir_status why)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket ticket = {0};
    assert_int_equal(ask(&f, &ticket, request, 1), WEIR_REFUSED);
    expect_refused(&ticket, why);
    expect_counts(&f, 0, 0);
    assert_int_equal(stats_of(&f).tenants, 0);
    assert_int_equal(stats_of(&f).ended[WEIR_END_REFUSED], 1);
    assert_int_equal(f.news.wake_ns, WEIR_NEVER);
    expect_no_news(&f);
    close_key(&f);
}

static void expect_good_request(struct weir_request request)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket ticket = {0};
    /* Twice, because the second time the tenant is known. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(&f, &ticket, request, 1), WEIR_ADMITTED);
        assert_int_equal(ticket.cost, request.cost == 0 ? 1 : request.cost);
        assert_int_equal(stats_of(&f).reserved, ticket.cost);
        leave(&f, &ticket, 1);
    }
    close_key(&f);
}

TEST(a_request_is_good_at_its_limits_and_refused_beyond)
{
    char name[256];
    memset(name, 'x', sizeof name);
    expect_good_request((struct weir_request){0});
    expect_good_request((struct weir_request){.priority = LOW});
    expect_bad_request((struct weir_request){.priority = WEIR_PRIORITY_COUNT}, WEIR_BAD_PRIORITY);
    expect_bad_request((struct weir_request){.priority = (enum weir_priority)UINT32_MAX},
                       WEIR_BAD_PRIORITY);
    expect_good_request((struct weir_request){.cost = 1});
    expect_good_request((struct weir_request){.cost = WEIR_COST_MAX - 1});
    expect_good_request((struct weir_request){.cost = WEIR_COST_MAX});
    expect_bad_request((struct weir_request){.cost = WEIR_COST_MAX + 1}, WEIR_BAD_COST);
    expect_good_request((struct weir_request){.lease_ns = WEIR_DURATION_MAX_NS});
    expect_good_request((struct weir_request){.lease_ns = WEIR_NEVER});
    expect_bad_request((struct weir_request){.lease_ns = WEIR_DURATION_MAX_NS + 1},
                       WEIR_BAD_DURATION);
    expect_bad_request((struct weir_request){.lease_ns = WEIR_NEVER - 1}, WEIR_BAD_DURATION);
    expect_good_request((struct weir_request){.tenant = {name, 254}});
    expect_good_request((struct weir_request){.tenant = {name, 255}});
    expect_bad_request((struct weir_request){.tenant = {name, 256}}, WEIR_BAD_NAME);
    expect_good_request((struct weir_request){.deadline_ns = WEIR_NEVER});
    expect_good_request((struct weir_request){.deadline_ns = WEIR_NEVER - 1});
    expect_good_request((struct weir_request){.deadline_ns = 1});
}

TEST(a_request_that_is_bad_is_refused_also_where_it_would_be_admitted_the_short_way)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){0});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
    leave(&f, &ticket, 1);
    assert_int_equal(ask(&f, &ticket, (struct weir_request){.cost = WEIR_COST_MAX + 1}, 1),
                     WEIR_REFUSED);
    expect_refused(&ticket, WEIR_BAD_COST);
    assert_int_equal(ask(&f, &ticket, (struct weir_request){.priority = (enum weir_priority)3}, 1),
                     WEIR_REFUSED);
    expect_refused(&ticket, WEIR_BAD_PRIORITY);
    assert_int_equal(ask(&f, &ticket, (struct weir_request){.lease_ns = WEIR_NEVER - 1}, 1),
                     WEIR_REFUSED);
    expect_refused(&ticket, WEIR_BAD_DURATION);
    close_key(&f);
}

TEST(a_result_out_of_range_is_refused_and_the_permit_stays)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
    struct weir_result bad = {.cost_known = true, .cost = WEIR_COST_MAX + 1};
    assert_int_equal(leave_with(&f, &ticket, bad, 2), WEIR_BAD_COST);
    bad = (struct weir_result){.outcome = WEIR_OUTCOME_COUNT};
    assert_int_equal(leave_with(&f, &ticket, bad, 2), WEIR_BAD_OUTCOME);
    bad = (struct weir_result){.outcome = (enum weir_outcome)UINT32_MAX};
    assert_int_equal(leave_with(&f, &ticket, bad, 2), WEIR_BAD_OUTCOME);
    expect_admitted(&ticket);
    expect_counts(&f, 1, 0);
    struct weir_result good = {.cost_known = true, .cost = WEIR_COST_MAX};
    assert_int_equal(leave_with(&f, &ticket, good, 2), WEIR_OK);
    assert_int_equal(enter(&f, &ticket, 2), WEIR_ADMITTED);
    leave_for(&f, &ticket, 0, 2);
    close_key(&f);
}

TEST(every_outcome_gives_the_permit_back)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket ticket = {0};
    for (int i = 0; i < WEIR_OUTCOME_COUNT; i++) {
        assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
        leave_as(&f, &ticket, (enum weir_outcome)i, 1);
    }
    assert_int_equal(stats_of(&f).ended[WEIR_END_LEFT], WEIR_OUTCOME_COUNT);
    close_key(&f);
}

TEST(tenants_are_told_apart_by_every_byte_of_their_names)
{
    static const char *const pairs[][2] = {{"", "a"},
                                           {"a", "b"},
                                           {"abc", "abd"},
                                           {"abcdefgh", "abcdefgX"},
                                           {"abcdefgh", "Xbcdefgh"},
                                           {"0123456789abcdef", "0123456X89abcdef"},
                                           {"0123456789abcdefg", "0123456789abcdefX"},
                                           {"a", "aa"}};
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){.tenant_default = {.limit = 1}});
        struct weir_ticket tickets[3] = {0};
        assert_int_equal(enter_as(&f, &tickets[0], pairs[i][0], 1), WEIR_ADMITTED);
        assert_int_equal(enter_as(&f, &tickets[1], pairs[i][1], 1), WEIR_ADMITTED);
        assert_int_equal(enter_as(&f, &tickets[2], pairs[i][1], 1), WEIR_WAITING);
        assert_int_equal(stats_of(&f).tenants, 2);
        end_all(&f, tickets, 3, 2);
        close_key(&f);
    }
}

/* ---- what a ticket says about itself ---- */

TEST(a_ticket_tells_when_it_came_when_it_was_admitted_and_by_which_lane)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.id = 77, .limit = 1)});
    struct weir_ticket tickets[2] = {0};
    struct weir_request request = {.priority = LOW, .cost = 5, .tag = 99, .deadline_ns = 1000};
    assert_int_equal(ask(&f, &tickets[0], request, 10), WEIR_ADMITTED);
    assert_int_equal(tickets[0].entered_ns, 10);
    assert_int_equal(tickets[0].admitted_ns, 10);
    assert_int_equal(tickets[0].lane_id, 77);
    assert_int_equal(tickets[0].priority, LOW);
    assert_int_equal(tickets[0].cost, 5);
    assert_int_equal(tickets[0].tag, 99);
    assert_int_equal(ask(&f, &tickets[1], request, 20), WEIR_WAITING);
    assert_int_equal(tickets[1].deadline_ns, 1000);
    leave(&f, &tickets[0], 30);
    assert_int_equal(tickets[1].entered_ns, 20);
    assert_int_equal(tickets[1].admitted_ns, 30);
    assert_int_equal(tickets[1].lane_id, 77);
    assert_true(tickets[1].sequence > tickets[0].sequence);
    expect_news(&f, &tickets[1]);
    leave(&f, &tickets[1], 40);
    close_key(&f);
}

TEST(a_ticket_that_never_waited_tells_its_own_deadline_and_not_an_older_one)
{
    /* The owner may read it, and a retry is to carry it on. */
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket ticket = {0};
    for (uint64_t now_ns = 1; now_ns < 4; now_ns++) {
        assert_int_equal(enter(&f, &ticket, now_ns), WEIR_ADMITTED);
        assert_int_equal(ticket.deadline_ns, now_ns + 100);
        leave(&f, &ticket, now_ns);
    }
    close_key(&f);
}

TEST(sequence_numbers_are_unique_and_ascend_also_over_refusals)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket ticket = {0};
    uint64_t last = 0;
    for (uint32_t i = 0; i < 10; i++) {
        struct weir_request request = {.cost = i % 2 == 0 ? 1 : UINT32_MAX};
        (void)!ask(&f, &ticket, request, 1);
        assert_int_equal(ticket.sequence, last + 1);
        last = ticket.sequence;
        (void)!cancel(&f, &ticket, 1);
    }
    assert_int_equal(stats_of(&f).entered, 10);
    close_key(&f);
}

/* ---- G2: no overtaking ---- */

TEST(g2_an_arrival_waits_behind_whoever_waits_even_if_a_permit_is_free_now)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(pause_lane(&f, 0, 100, 1), WEIR_OK);
    assert_int_equal(enter(&f, &tickets[0], 1), WEIR_WAITING);
    /* The pause is over, but nobody has woken the key: the arrival itself finds that out. */
    assert_int_equal(enter(&f, &tickets[1], 100), WEIR_WAITING);
    expect_news(&f, &tickets[0]);
    expect_no_news(&f);
    end_all(&f, tickets, 2, 101);
    close_key(&f);
}

TEST(g2_a_refill_that_came_due_goes_to_the_line_and_not_to_the_arrival)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 1, .period_ns = SECOND)), FOREVER});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 2, 0);
    expect_waiting(&tickets[1]);
    assert_int_equal(enter(&f, &tickets[2], SECOND), WEIR_WAITING);
    expect_news(&f, &tickets[1]);
    expect_no_news(&f);
    end_all(&f, tickets, 3, SECOND);
    close_key(&f);
}

TEST(g2_admission_follows_arrival_through_any_cancellations)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2), FOREVER});
    struct weir_ticket tickets[12] = {0};
    enter_many(&f, tickets, 12, 1);
    /* The head, the tail and some in between go away. */
    static const size_t gone[] = {2, 11, 5, 6, 3};
    for (size_t i = 0; i < COUNT_OF(gone); i++) {
        assert_int_equal(cancel(&f, &tickets[gone[i]], 1), WEIR_OK);
    }
    leave(&f, &tickets[0], 2);
    expect_news(&f, &tickets[4]);
    leave(&f, &tickets[1], 2);
    expect_news(&f, &tickets[7]);
    leave(&f, &tickets[7], 2);
    expect_news(&f, &tickets[8]);
    expect_no_news(&f);
    end_all(&f, tickets, 12, 3);
    close_key(&f);
}

TEST(g2_the_only_waiter_gone_an_arrival_passes_again)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY)), FOREVER});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 5), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 9), 0), WEIR_WAITING);
    assert_int_equal(cancel(&f, &tickets[1], 0), WEIR_OK);
    assert_int_equal(ask(&f, &tickets[2], request_of("a", NORMAL, 5), 0), WEIR_ADMITTED);
    end_all(&f, tickets, 3, 1);
    close_key(&f);
}

TEST(g2_the_head_gone_those_behind_it_go_within_the_call)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY)), FOREVER});
    struct weir_ticket tickets[4] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 5), 0), WEIR_ADMITTED);
    struct weir_request large = request_of("a", NORMAL, 9);
    large.deadline_ns = 50;
    assert_int_equal(ask(&f, &tickets[1], large, 0), WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[2], request_of("a", NORMAL, 3), 0), WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[3], request_of("a", NORMAL, 2), 0), WEIR_WAITING);
    /* It times out, and the small ones had only waited behind it. */
    wake(&f, 50);
    expect_news(&f, &tickets[1]);
    expect_news(&f, &tickets[2]);
    expect_news(&f, &tickets[3]);
    expect_no_news(&f);
    end_all(&f, tickets, 4, 51);
    close_key(&f);
}

/* ---- G3: a permit passes on within the call ---- */

TEST(g3_a_permit_passes_on_within_leave_cancel_and_lapse)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[4] = {0};
    enter_many(&f, &tickets[0], 2, 1);
    assert_int_equal(ask(&f, &tickets[2], (struct weir_request){.lease_ns = 10}, 1), WEIR_WAITING);
    assert_int_equal(enter(&f, &tickets[3], 1), WEIR_WAITING);
    leave(&f, &tickets[0], 2);
    expect_news(&f, &tickets[1]);
    expect_admitted(&tickets[1]);
    assert_int_equal(cancel(&f, &tickets[1], 3), WEIR_OK);
    expect_news(&f, &tickets[2]);
    expect_admitted(&tickets[2]);
    assert_int_equal(f.news.wake_ns, 13);
    wake(&f, 13);
    expect_ended(&tickets[2], WEIR_END_LAPSED);
    expect_admitted(&tickets[3]);
    drop_news(&f);
    expect_counts(&f, 1, 0);
    leave(&f, &tickets[3], 14);
    close_key(&f);
}

TEST(g3_one_call_admits_as_many_as_there_is_room_for)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 100, RATE(.tokens = 10, .period_ns = SECOND)),
                                        FOREVER});
    struct weir_ticket tickets[14] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    for (size_t i = 1; i < 14; i++) {
        assert_int_equal(ask(&f, &tickets[i], request_of("a", NORMAL, 1), 0), WEIR_WAITING);
    }
    leave_for(&f, &tickets[0], 0, 0);
    for (size_t i = 1; i < 11; i++) {
        expect_news(&f, &tickets[i]);
    }
    expect_no_news(&f);
    expect_counts(&f, 10, 3);
    end_all(&f, tickets, 14, 1);
    close_key(&f);
}

/* ---- G5: exactly one of cancel, timeout and admission wins ---- */

TEST(g5_a_cancel_that_comes_when_the_deadline_is_due_loses_to_it)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 0);
    assert_int_equal(cancel(&f, &tickets[1], 100), WEIR_NOT_HELD);
    expect_ended(&tickets[1], WEIR_END_TIMEOUT);
    expect_news(&f, &tickets[1]);
    leave(&f, &tickets[0], 100);
    close_key(&f);
}

TEST(g5_a_cancel_just_before_the_deadline_wins_and_the_deadline_is_gone)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 0);
    assert_int_equal(cancel(&f, &tickets[1], 99), WEIR_OK);
    assert_int_equal(f.news.wake_ns, WEIR_NEVER);
    wake(&f, 200);
    expect_ended(&tickets[1], WEIR_END_CANCELLED);
    expect_no_news(&f);
    leave(&f, &tickets[0], 200);
    close_key(&f);
}

TEST(g5_a_permit_given_back_when_the_deadline_is_due_goes_to_the_next_one)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(enter(&f, &tickets[0], 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], (struct weir_request){.deadline_ns = 100}, 0),
                     WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[2], (struct weir_request){.deadline_ns = 101}, 0),
                     WEIR_WAITING);
    leave(&f, &tickets[0], 100);
    expect_ended(&tickets[1], WEIR_END_TIMEOUT);
    expect_admitted(&tickets[2]);
    expect_news(&f, &tickets[1]);
    expect_news(&f, &tickets[2]);
    /* Admitted, it can no longer time out. */
    wake(&f, 101);
    expect_admitted(&tickets[2]);
    expect_no_news(&f);
    leave(&f, &tickets[2], 200);
    close_key(&f);
}

TEST(g5_a_ticket_cancelled_after_admission_gives_its_permit_back_and_the_next_one_gets_it)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, 0);
    leave(&f, &tickets[0], 1);
    /* Its owner has not even read the news yet. */
    assert_int_equal(cancel(&f, &tickets[1], 1), WEIR_OK);
    expect_admitted(&tickets[2]);
    expect_news(&f, &tickets[1]);
    expect_ended(&tickets[1], WEIR_END_CANCELLED);
    expect_news(&f, &tickets[2]);
    expect_no_news(&f);
    expect_counts(&f, 1, 0);
    leave(&f, &tickets[2], 2);
    close_key(&f);
}

TEST(g5_a_permit_whose_lease_is_over_cannot_be_given_back_any_more)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .lease_ns = 100});
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 0);
    assert_int_equal(leave_with(&f, &tickets[0], (struct weir_result){0}, 100), WEIR_NOT_HELD);
    expect_ended(&tickets[0], WEIR_END_LAPSED);
    expect_admitted(&tickets[1]);
    assert_int_equal(cancel(&f, &tickets[0], 100), WEIR_NOT_HELD);
    expect_counts(&f, 1, 0);
    drop_news(&f);
    leave(&f, &tickets[1], 101);
    close_key(&f);
}

/* ---- no_wait ---- */

TEST(no_wait_is_admitted_or_refused_but_never_in_line)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .lease_ns = 50});
    struct weir_ticket tickets[2] = {0};
    struct weir_request request = {.no_wait = true};
    assert_int_equal(ask(&f, &tickets[0], request, 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request, 0), WEIR_REFUSED);
    expect_refused(&tickets[1], WEIR_WOULD_WAIT);
    expect_counts(&f, 1, 0);
    /* The lease is over: what is due comes first, and then there is room. */
    assert_int_equal(ask(&f, &tickets[1], request, 50), WEIR_ADMITTED);
    expect_ended(&tickets[0], WEIR_END_LAPSED);
    drop_news(&f);
    leave(&f, &tickets[1], 51);
    close_key(&f);
}

TEST(no_wait_does_not_overtake_those_who_wait)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY)), FOREVER});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 5), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 9), 0), WEIR_WAITING);
    struct weir_request small = request_of("b", HIGH, 1);
    small.no_wait = true;
    assert_int_equal(ask(&f, &tickets[2], small, 0), WEIR_REFUSED);
    expect_refused(&tickets[2], WEIR_WOULD_WAIT);
    end_all(&f, tickets, 2, 1);
    close_key(&f);
}

/* ---- the news ---- */

TEST(the_news_come_in_the_order_in_which_things_happened)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2), .timeout_ns = 40});
    struct weir_ticket tickets[5] = {0};
    assert_int_equal(ask(&f, &tickets[0], (struct weir_request){.lease_ns = 20}, 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], (struct weir_request){.lease_ns = 30}, 0), WEIR_ADMITTED);
    enter_many(&f, &tickets[2], 3, 0);
    wake(&f, 40);
    /* At 20 one lapses and the next is admitted; at 30 again; at 40 the last one times out. The
     * one who gets a permit is told before the one who lost it. */
    expect_news(&f, &tickets[2]);
    expect_news(&f, &tickets[0]);
    expect_news(&f, &tickets[3]);
    expect_news(&f, &tickets[1]);
    expect_news(&f, &tickets[4]);
    expect_no_news(&f);
    expect_ended(&tickets[4], WEIR_END_TIMEOUT);
    end_all(&f, tickets, 5, 41);
    close_key(&f);
}

TEST(a_ticket_stands_in_the_news_once_however_much_happens_to_it)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .lease_ns = 10, FOREVER});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, 0);
    /* Nobody reads the news while one after the other is admitted and lapses. */
    wake(&f, 10);
    wake(&f, 20);
    wake(&f, 30);
    size_t told = 0;
    for (struct weir_ticket *at; (at = weir_news_next(&f.news)) != NULL; told++) {
        expect_ended(at, WEIR_END_LAPSED);
    }
    assert_int_equal(told, 3);
    close_key(&f);
}

TEST(one_news_serves_calls_on_several_keys)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_key *other;
    assert_int_equal(weir_gate_take(f.gate, weir_slice_of("other"), 0, &other), WEIR_OK);
    struct weir_ticket mine[2] = {0};
    struct weir_ticket theirs[2] = {0};
    struct weir_request request = {0};
    struct weir_result result = {0};
    enter_many(&f, mine, 2, 0);
    for (int i = 0; i < 2; i++) {
        (void)!weir_key_enter(other, &theirs[i], &request, 0, &f.news);
    }
    leave(&f, &mine[0], 1);
    assert_int_equal(weir_key_leave(other, &theirs[0], &result, 1, &f.news), WEIR_OK);
    expect_news(&f, &mine[1]);
    expect_news(&f, &theirs[1]);
    expect_no_news(&f);
    assert_int_equal(weir_key_leave(other, &theirs[1], &result, 1, &f.news), WEIR_OK);
    leave(&f, &mine[1], 1);
    weir_key_give(other);
    close_key(&f);
}

TEST(the_callers_own_ticket_is_told_by_the_verdict_and_not_by_the_news)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY)), FOREVER});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 5), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 9), 0), WEIR_WAITING);
    /* b has had nothing yet, so that it is next, and 5 tokens are there. */
    assert_int_equal(ask(&f, &tickets[2], request_of("b", NORMAL, 1), 0), WEIR_ADMITTED);
    expect_no_news(&f);
    end_all(&f, tickets, 3, 1);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(a_ticket_that_never_came_is_not_held),
        BOTH_WAYS(a_waiting_ticket_cannot_leave_but_can_be_cancelled),
        BOTH_WAYS(an_admitted_ticket_can_leave_or_be_cancelled_but_only_once),
        BOTH_WAYS(an_ended_ticket_is_not_held_however_it_ended_and_can_be_used_again),
        BOTH_WAYS(another_keys_ticket_is_refused_and_nothing_changes),
        BOTH_WAYS(a_ticket_may_go_from_one_key_to_another),
        BOTH_WAYS(a_request_is_good_at_its_limits_and_refused_beyond),
        BOTH_WAYS(a_request_that_is_bad_is_refused_also_where_it_would_be_admitted_the_short_way),
        BOTH_WAYS(a_result_out_of_range_is_refused_and_the_permit_stays),
        BOTH_WAYS(every_outcome_gives_the_permit_back),
        BOTH_WAYS(tenants_are_told_apart_by_every_byte_of_their_names),
        BOTH_WAYS(a_ticket_tells_when_it_came_when_it_was_admitted_and_by_which_lane),
        BOTH_WAYS(a_ticket_that_never_waited_tells_its_own_deadline_and_not_an_older_one),
        BOTH_WAYS(sequence_numbers_are_unique_and_ascend_also_over_refusals),
        BOTH_WAYS(g2_an_arrival_waits_behind_whoever_waits_even_if_a_permit_is_free_now),
        BOTH_WAYS(g2_a_refill_that_came_due_goes_to_the_line_and_not_to_the_arrival),
        BOTH_WAYS(g2_admission_follows_arrival_through_any_cancellations),
        BOTH_WAYS(g2_the_only_waiter_gone_an_arrival_passes_again),
        BOTH_WAYS(g2_the_head_gone_those_behind_it_go_within_the_call),
        BOTH_WAYS(g3_a_permit_passes_on_within_leave_cancel_and_lapse),
        BOTH_WAYS(g3_one_call_admits_as_many_as_there_is_room_for),
        BOTH_WAYS(g5_a_cancel_that_comes_when_the_deadline_is_due_loses_to_it),
        BOTH_WAYS(g5_a_cancel_just_before_the_deadline_wins_and_the_deadline_is_gone),
        BOTH_WAYS(g5_a_permit_given_back_when_the_deadline_is_due_goes_to_the_next_one),
        BOTH_WAYS(
            g5_a_ticket_cancelled_after_admission_gives_its_permit_back_and_the_next_one_gets_it),
        BOTH_WAYS(g5_a_permit_whose_lease_is_over_cannot_be_given_back_any_more),
        BOTH_WAYS(no_wait_is_admitted_or_refused_but_never_in_line),
        BOTH_WAYS(no_wait_does_not_overtake_those_who_wait),
        BOTH_WAYS(the_news_come_in_the_order_in_which_things_happened),
        BOTH_WAYS(a_ticket_stands_in_the_news_once_however_much_happens_to_it),
        BOTH_WAYS(one_news_serves_calls_on_several_keys),
        BOTH_WAYS(the_callers_own_ticket_is_told_by_the_verdict_and_not_by_the_news),
    };
    return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
