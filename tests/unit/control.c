/* Lanes that learn, seen from outside: what is told through the key, and what comes of it. */
#include "unit/helpers.h"

#define LEARNING(...) LANE(.control = {.controller = WEIR_CONTROLLER_LEARNED, __VA_ARGS__})
#define BY_AIMD(...)  LANE(.control = {.controller = WEIR_CONTROLLER_AIMD, __VA_ARGS__})

static const struct weir_reply accepted = {.outcome = WEIR_OUTCOME_SUCCESS, .streamed = true};
static const struct weir_reply refused = {.outcome = WEIR_OUTCOME_RATE_LIMIT,
                                          .retry_after_known = true,
                                          .retry_after_ns = 5 * SECOND,
                                          .retry_after_rounding_ns = SECOND};
static const struct weir_reply failed = {.outcome = WEIR_OUTCOME_SOFT_LOSS};

static void hear(struct fixture *f, struct weir_ticket *ticket, struct weir_reply reply,
                 uint64_t now_ns)
{
    assert_int_equal(weir_key_hear(f->key, ticket, &reply, now_ns, &f->news), WEIR_OK);
    weir_key_validate(f->key);
}

static void close_with(struct fixture *f, struct weir_ticket *tickets, size_t count)
{
    end_all(f, tickets, count, MINUTE);
    close_key(f);
    memset(tickets, 0, count * sizeof *tickets);
}

static void hear_quota(struct fixture *f, struct weir_ticket *ticket, struct weir_quota quota,
                       uint64_t now_ns)
{
    struct weir_reply reply = accepted;
    reply.quotas = &quota;
    reply.quota_count = 1;
    hear(f, ticket, reply, now_ns);
}

static void progress(struct fixture *f, struct weir_ticket *ticket, uint32_t output,
                     uint64_t now_ns)
{
    assert_int_equal(weir_key_progress(f->key, ticket, output, now_ns, &f->news), WEIR_OK);
    weir_key_validate(f->key);
}

static struct weir_control_stats control_of(const struct fixture *f, uint64_t now_ns)
{
    struct weir_control_stats stats;
    assert_true(weir_key_get_control(f->key, 0, now_ns, &stats));
    return stats;
}

static enum weir_admission enter_for(struct fixture *f, struct weir_ticket *ticket, uint32_t input,
                                     uint32_t cost, uint64_t now_ns)
{
    return ask(f, ticket, (struct weir_request){.cost = cost, .input = input}, now_ns);
}

static struct weir_quota minute_of(int64_t limit, int64_t remaining)
{
    return (struct weir_quota){.period_ns = MINUTE,
                               .limit = limit,
                               .remaining = remaining,
                               .reset_ns =
                                   (uint64_t)(limit - remaining) * MINUTE / (uint64_t)limit};
}

/* ---- the window ---- */

/* Grows only once a round has shown that nothing queues: eight replies. */
TEST(a_lane_that_learns_starts_with_16_permits_and_grows_with_first_bytes)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0)});
    struct weir_ticket tickets[24] = {0};
    enter_many(&f, tickets, 24, SECOND);
    expect_counts(&f, 16, 8);
    for (uint32_t i = 0; i < 8; i++) {
        hear(&f, &tickets[i], accepted, 2 * SECOND);
    }
    expect_counts(&f, 16, 8);
    hear(&f, &tickets[8], accepted, 2 * SECOND);
    expect_news(&f, &tickets[16]);
    expect_no_news(&f);
    expect_counts(&f, 17, 7);
    assert_int_equal(lane_of(&f, 0, 2 * SECOND).limit, 17);
    if (listening) {
        struct weir_event event;
        assert_true(find_event(&f, WEIR_EVENT_LIMIT, &event));
        assert_int_equal(event.value, 16);
        assert_int_equal(event.limit, 17);
        assert_int_equal(event.cause, WEIR_LIMIT_GROWN);
        assert_string_equal(weir_limit_reason_name((enum weir_limit_reason)event.cause), "grown");
    }
    hear(&f, &tickets[8], accepted, 3 * SECOND); /* told twice: once is enough */
    expect_counts(&f, 17, 7);
    end_all(&f, tickets, 24, 3 * SECOND);
    close_key(&f);
}

/* A quota says how much, so there is no need to find out with a crowd. */
TEST(where_the_first_reply_states_a_quota_it_starts_with_4)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0)});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, SECOND);
    hear_quota(&f, &tickets[0], minute_of(600000, 599800), 2 * SECOND);
    assert_int_equal(lane_of(&f, 0, 2 * SECOND).limit, 4);
    close_with(&f, tickets, 3);

    open_key(&f, (struct weir_settings){LEARNING(.window = {.start = 12})});
    enter_many(&f, tickets, 3, SECOND);
    hear_quota(&f, &tickets[0], minute_of(600000, 599800), 2 * SECOND);
    assert_int_equal(lane_of(&f, 0, 2 * SECOND).limit, 12);
    close_with(&f, tickets, 3);

    open_key(&f, (struct weir_settings){LEARNING(0)});
    enter_many(&f, tickets, 3, SECOND);
    hear(&f, &tickets[1], accepted, 2 * SECOND);
    hear_quota(&f, &tickets[0], minute_of(600000, 599800), 2 * SECOND);
    assert_int_equal(lane_of(&f, 0, 2 * SECOND).limit, 16); /* not the first */
    close_with(&f, tickets, 3);
}

/* Until a refusal measures one, there is no rate. */
TEST(a_crowd_of_large_requests_goes_at_once_where_nothing_is_stated)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0), .estimate = WEIR_ESTIMATE_MEAN});
    struct weir_ticket tickets[8] = {0};
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(enter_for(&f, &tickets[i], 17000, 1000, SECOND), WEIR_ADMITTED);
    }
    assert_false(control_of(&f, SECOND).rate_active);
    close_with(&f, tickets, 8);
}

TEST(a_limit_that_is_set_is_where_the_window_goes_on)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0)});
    struct weir_ticket tickets[16] = {0};
    assert_int_equal(set_limit(&f, 0, 2, SECOND), WEIR_OK);
    enter_many(&f, tickets, 16, SECOND);
    expect_counts(&f, 2, 14);
    for (uint32_t i = 0; i < 8; i++) { /* two a second */
        uint64_t now_ns = (2 + i / 2) * SECOND;
        hear(&f, &tickets[i], accepted, now_ns);
        leave(&f, &tickets[i], now_ns);
        drop_news(&f);
    }
    expect_counts(&f, 2, 6);
    hear(&f, &tickets[8], accepted, 6 * SECOND);
    expect_counts(&f, 3, 5);
    end_all(&f, tickets, 16, 6 * SECOND);
    close_key(&f);
}

/* ---- Retry-After ---- */

TEST(retry_after_pauses_its_lane_alone)
{
    struct fixture f;
    struct weir_lane_settings lanes[] = {
        {.id = 0, .control = {.controller = WEIR_CONTROLLER_LEARNED, .window = {.max = 4}}},
        {.id = 1, .control = {.controller = WEIR_CONTROLLER_LEARNED}}};
    open_key(&f, (struct weir_settings){.lanes = lanes, .lane_count = 2});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(enter(&f, &tickets[0], SECOND), WEIR_ADMITTED);
    assert_int_equal(tickets[0].lane_id, 0);
    hear(&f, &tickets[0], refused, 2 * SECOND);
    leave_as(&f, &tickets[0], WEIR_OUTCOME_RATE_LIMIT, 2 * SECOND);
    assert_int_equal(lane_of(&f, 0, 2 * SECOND).paused_until_ns, 7 * SECOND);
    assert_int_equal(lane_of(&f, 1, 2 * SECOND).paused_until_ns, 0);
    assert_int_equal(enter(&f, &tickets[1], 3 * SECOND), WEIR_ADMITTED);
    assert_int_equal(tickets[1].lane_id, 1);
    if (listening) {
        struct weir_event event;
        assert_true(find_event(&f, WEIR_EVENT_PAUSE, &event));
        assert_int_equal(event.cause, WEIR_PAUSE_ASKED);
        assert_int_equal(event.value, 7 * SECOND);
        assert_int_equal(event.lane_id, 0);
    }
    end_all(&f, tickets, 3, 4 * SECOND);
    close_key(&f);
}

TEST(a_retry_after_beyond_the_deadline_refuses_at_once_and_says_when)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0), .timeout_ns = 10 * SECOND});
    struct weir_ticket tickets[2] = {0};
    struct weir_reply hours = refused;
    hours.retry_after_ns = 3 * HOUR;
    assert_int_equal(enter(&f, &tickets[0], SECOND), WEIR_ADMITTED);
    hear(&f, &tickets[0], hours, 2 * SECOND);
    leave_as(&f, &tickets[0], WEIR_OUTCOME_RATE_LIMIT, 2 * SECOND);
    assert_int_equal(enter(&f, &tickets[1], 3 * SECOND), WEIR_REFUSED);
    expect_refused(&tickets[1], WEIR_QUOTA_SPENT);
    assert_int_equal(tickets[1].retry_at_ns, 2 * SECOND + 3 * HOUR);
    hours.retry_after_ns = UINT64_MAX; /* nobody means that */
    assert_int_equal(
        ask(&f, &tickets[1], (struct weir_request){.deadline_ns = WEIR_NEVER}, 3 * SECOND),
        WEIR_WAITING);
    end_all(&f, tickets, 2, 4 * SECOND);
    close_key(&f);
}

TEST(a_retry_after_from_the_end_of_time_is_believed_for_a_day)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0)});
    struct weir_ticket ticket = {0};
    struct weir_reply for_ever = refused;
    for_ever.retry_after_ns = UINT64_MAX;
    assert_int_equal(enter(&f, &ticket, SECOND), WEIR_ADMITTED);
    hear(&f, &ticket, for_ever, 2 * SECOND);
    leave_as(&f, &ticket, WEIR_OUTCOME_RATE_LIMIT, 2 * SECOND);
    assert_int_equal(lane_of(&f, 0, 2 * SECOND).paused_until_ns, 2 * SECOND + DAY);
    close_key(&f);
}

/* An account may have been spent by others before the first request here. */
TEST(a_lane_whose_first_request_is_refused_is_not_shut_for_long)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0), .timeout_ns = HOUR});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter_for(&f, &tickets[0], 1000, 1000, SECOND), WEIR_ADMITTED);
    hear(&f, &tickets[0], refused, 2 * SECOND);
    leave_as(&f, &tickets[0], WEIR_OUTCOME_RATE_LIMIT, 2 * SECOND);
    assert_int_equal(enter_for(&f, &tickets[1], 1000, 1000, 2 * SECOND), WEIR_WAITING);
    uint64_t now_ns = 2 * SECOND;
    for (uint32_t i = 0; i < 1000 && tickets[1].state == WEIR_TICKET_WAITING; i++) {
        now_ns = f.news.wake_ns;
        weir_key_wake(f.key, now_ns, &f.news);
    }
    expect_news(&f, &tickets[1]);
    assert_in_range(now_ns, 7 * SECOND,
                    20 * SECOND); /* Retry-After, and a reserve at 500 a second */
    leave_as(&f, &tickets[1], WEIR_OUTCOME_SUCCESS, now_ns);
    close_key(&f);
}

/* ---- quotas ---- */

TEST(a_stated_quota_replaces_what_was_guessed)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(.rate = {.start = 500})});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_for(&f, &ticket, 100, 200, SECOND), WEIR_ADMITTED);
    assert_true(control_of(&f, SECOND).rate_active);
    hear_quota(&f, &ticket, minute_of(600000, 599800), 2 * SECOND);
    struct weir_control_stats stats = control_of(&f, 2 * SECOND);
    assert_false(stats.rate_active);
    assert_int_equal(stats.quota_count, 1);
    assert_true(stats.quotas[0].refill == 10000.0);
    assert_true(stats.quotas[0].window_known);
    assert_true(stats.quotas[0].target == 300000.0);
    leave_for(&f, &ticket, 200, 3 * SECOND);
    close_key(&f);
}

/* Above its target `learned` spends a quota faster than it refills; `aimd` has no price. */
static double rate_by_quota(struct weir_settings settings)
{
    struct fixture f;
    open_key(&f, settings);
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter_for(&f, &tickets[0], 100, 200, SECOND), WEIR_ADMITTED);
    hear_quota(&f, &tickets[0], minute_of(600000, 400000), 2 * SECOND);
    assert_int_equal(enter_for(&f, &tickets[1], 100, 200, 3 * SECOND), WEIR_ADMITTED);
    struct weir_control_stats stats = control_of(&f, 3 * SECOND);
    assert_true(stats.quotas[0].level > 400000.0);
    leave_for(&f, &tickets[0], 200, 3 * SECOND);
    leave_for(&f, &tickets[1], 200, 3 * SECOND);
    close_key(&f);
    return stats.quotas[0].rate;
}

TEST(only_learned_spends_a_quota_by_its_price)
{
    assert_true(rate_by_quota((struct weir_settings){LEARNING(0)}) > 20000.0);
    assert_true(rate_by_quota((struct weir_settings){BY_AIMD(0)}) == 10000.0);
}

TEST(a_ticket_needs_all_of_several_quotas)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0)});
    struct weir_ticket tickets[3] = {0};
    struct weir_quota quotas[] = {minute_of(600000, 599000), minute_of(60, 1),
                                  minute_of(300000, 299000), minute_of(300000, 200)};
    quotas[1].unit = WEIR_UNIT_REQUESTS;
    quotas[2].unit = WEIR_UNIT_INPUT;
    quotas[3].unit = WEIR_UNIT_OUTPUT;
    struct weir_reply reply = accepted;
    reply.quotas = quotas;
    reply.quota_count = 4;
    assert_int_equal(enter_for(&f, &tickets[0], 100, 200, SECOND), WEIR_ADMITTED);
    hear(&f, &tickets[0], reply, SECOND);
    assert_int_equal(control_of(&f, SECOND).quota_count, 4);
    /* 400 of output are not there; nor, after the next one, is a request. */
    assert_int_equal(enter_for(&f, &tickets[1], 100, 500, SECOND), WEIR_WAITING);
    assert_int_equal(weir_key_explain(f.key, &tickets[1], SECOND).binding, WEIR_BINDING_BUCKET);
    assert_int_equal(cancel(&f, &tickets[1], SECOND), WEIR_OK);
    assert_int_equal(enter_for(&f, &tickets[1], 100, 250, SECOND), WEIR_ADMITTED);
    assert_int_equal(enter_for(&f, &tickets[2], 1, 1, SECOND), WEIR_WAITING);
    assert_int_equal(wake(&f, 2 * SECOND + SECOND / 2) > 0, 1);
    expect_admitted(&tickets[2]);
    end_all(&f, tickets, 3, 4 * SECOND);
    close_key(&f);
}

TEST(what_was_sent_after_a_reply_is_taken_off_what_it_says_remains)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0)});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(enter_for(&f, &tickets[0], 100, 100, SECOND), WEIR_ADMITTED);
    assert_int_equal(enter_for(&f, &tickets[1], 300, 300, SECOND), WEIR_ADMITTED);
    hear_quota(&f, &tickets[0], minute_of(60000, 30000), SECOND);
    assert_true(control_of(&f, SECOND).quotas[0].level == 29700.0);
    leave_for(&f, &tickets[1], 700, SECOND); /* more than was thought */
    assert_true(control_of(&f, SECOND).quotas[0].level == 29300.0);
    assert_int_equal(enter_for(&f, &tickets[2], 50, 50, SECOND), WEIR_ADMITTED);
    assert_true(control_of(&f, SECOND).quotas[0].level == 29250.0);
    hear(&f, &tickets[2], failed, SECOND); /* it was never taken */
    assert_true(control_of(&f, SECOND).quotas[0].level == 29300.0);
    leave_as(&f, &tickets[2], WEIR_OUTCOME_SOFT_LOSS, SECOND);
    end_all(&f, tickets, 3, 2 * SECOND);
    close_key(&f);
}

TEST(the_level_is_told_as_of_its_sending_and_rises_since_once)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0)});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter_for(&f, &tickets[0], 100, 100, SECOND), WEIR_ADMITTED);
    hear_quota(&f, &tickets[0], minute_of(60000, 30000), 3 * SECOND);
    assert_true(control_of(&f, 3 * SECOND).quotas[0].level == 32000.0);
    assert_int_equal(enter_for(&f, &tickets[1], 100, 100, 4 * SECOND), WEIR_ADMITTED);
    assert_true(control_of(&f, 4 * SECOND).quotas[0].level == 32900.0);
    hear_quota(&f, &tickets[1], minute_of(60000, 20000), 9 * SECOND); /* nobody asked meanwhile */
    assert_true(control_of(&f, 9 * SECOND).quotas[0].level == 25000.0);
    end_all(&f, tickets, 2, 10 * SECOND);
    close_key(&f);
}

TEST(what_a_refusal_says_remains_is_without_the_refused)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0)});
    struct weir_ticket tickets[2] = {0};
    struct weir_quota quota = minute_of(60000, 300);
    struct weir_reply reply = refused;
    reply.quotas = &quota;
    reply.quota_count = 1;
    assert_int_equal(enter_for(&f, &tickets[0], 500, 500, SECOND), WEIR_ADMITTED);
    assert_int_equal(enter_for(&f, &tickets[1], 40, 40, SECOND), WEIR_ADMITTED); /* after it */
    hear(&f, &tickets[0], reply, SECOND);
    assert_true(control_of(&f, SECOND).quotas[0].level == 260.0);
    leave_as(&f, &tickets[0], WEIR_OUTCOME_RATE_LIMIT, SECOND);
    assert_true(control_of(&f, SECOND).quotas[0].level == 260.0);
    end_all(&f, tickets, 2, SECOND);
    close_key(&f);
}

TEST(a_spent_days_quota_refuses_at_once_with_the_true_wait)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0), .timeout_ns = 30 * SECOND});
    struct weir_ticket tickets[3] = {0};
    struct weir_quota day = {
        .period_ns = DAY, .limit = 864000, .remaining = 0, .reset_ns = DAY}; /* 10 a second */
    assert_int_equal(enter_for(&f, &tickets[0], 100, 100, SECOND), WEIR_ADMITTED);
    hear_quota(&f, &tickets[0], day, SECOND);
    assert_int_equal(enter_for(&f, &tickets[1], 1000, 1000, SECOND), WEIR_REFUSED);
    expect_refused(&tickets[1], WEIR_QUOTA_SPENT);
    assert_int_equal(tickets[1].retry_at_ns, 101 * SECOND);
    assert_int_equal(enter_for(&f, &tickets[2], 200, 200, SECOND), WEIR_WAITING); /* 20 s */
    end_all(&f, tickets, 3, 2 * SECOND);
    close_key(&f);
}

TEST(a_limit_of_nothing_refuses_at_once_even_who_could_wait_for_ever)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0), .timeout_ns = WEIR_NEVER});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter(&f, &tickets[0], SECOND), WEIR_ADMITTED);
    hear_quota(&f, &tickets[0], (struct weir_quota){.limit = 0}, SECOND);
    assert_int_equal(enter(&f, &tickets[1], 2 * SECOND), WEIR_REFUSED);
    expect_refused(&tickets[1], WEIR_QUOTA_SPENT);
    assert_in_range(tickets[1].retry_at_ns, 61 * SECOND, 61 * SECOND + 1);
    assert_int_equal(enter(&f, &tickets[1], 61 * SECOND), WEIR_ADMITTED); /* to see if it holds */
    end_all(&f, tickets, 2, 62 * SECOND);
    close_key(&f);
}

TEST(quotas_that_make_no_sense_are_ignored)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0)});
    struct weir_ticket ticket = {0};
    struct weir_quota many[WEIR_QUOTAS_MAX + 3];
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        many[i] = minute_of(1000, 500);
        many[i].period_ns = (i + 1) * SECOND;
    }
    many[0].limit = -1;
    many[1].remaining = INT64_MIN;
    struct weir_reply reply = accepted;
    reply.quotas = many;
    reply.quota_count = COUNT_OF(many);
    assert_int_equal(enter(&f, &ticket, SECOND), WEIR_ADMITTED);
    hear(&f, &ticket, reply, SECOND);
    assert_int_equal(control_of(&f, SECOND).quota_count, WEIR_QUOTAS_MAX - 2);
    leave(&f, &ticket, SECOND);
    close_key(&f);
}

/* ---- costs ---- */

TEST(a_stream_is_settled_while_it_comes)
{
    struct fixture f;
    open_key(&f,
             (struct weir_settings){
                 LANE(.control = {.controller = WEIR_CONTROLLER_LEARNED, .rate = {.start = 500}},
                      RATE(.tokens = 10000, .period_ns = DAY)),
                 .tenant_default = {.rate = {.tokens = 5000, .period_ns = DAY}}});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_for(&f, &ticket, 100, 200, SECOND), WEIR_ADMITTED);
    hear(&f, &ticket, accepted, SECOND);
    double before = control_of(&f, SECOND).bucket;
    progress(&f, &ticket, 60, SECOND);
    assert_int_equal(level_of(&f, 0, 0, SECOND), 9800);
    progress(&f, &ticket, 250, SECOND); /* 150 more than expected */
    assert_int_equal(level_of(&f, 0, 0, SECOND), 9650);
    assert_int_equal(stats_of(&f).reserved, 350);
    assert_true(control_of(&f, SECOND).bucket == before - 150.0);
    leave(&f, &ticket, SECOND); /* nobody says what it cost: what was counted stands */
    assert_int_equal(level_of(&f, 0, 0, SECOND), 9650);
    assert_true(control_of(&f, SECOND).bucket == before - 150.0);
    close_key(&f);
}

TEST(what_is_refused_or_fails_before_an_answer_costs_nothing)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.control = {.controller = WEIR_CONTROLLER_LEARNED},
                                             RATE(.tokens = 10000, .period_ns = DAY))});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_for(&f, &ticket, 100, 200, SECOND), WEIR_ADMITTED);
    hear(&f, &ticket, failed, SECOND);
    leave_as(&f, &ticket, WEIR_OUTCOME_SOFT_LOSS, SECOND);
    assert_int_equal(level_of(&f, 0, 0, SECOND), 10000);
    assert_int_equal(enter_for(&f, &ticket, 100, 200, SECOND), WEIR_ADMITTED);
    leave_as(&f, &ticket, WEIR_OUTCOME_RATE_LIMIT, SECOND); /* told only at the end */
    assert_int_equal(level_of(&f, 0, 0, SECOND), 10000);
    assert_int_equal(control_of(&f, SECOND).refused, 1);
    assert_int_equal(control_of(&f, SECOND).lost, 1);
    assert_int_equal(control_of(&f, SECOND).sent, 0);
    close_key(&f);
}

TEST(configured_buckets_count_input_and_output_apart)
{
    struct fixture f;
    struct weir_rate rates[] = {{.tokens = 1000, .period_ns = DAY, .unit = WEIR_UNIT_INPUT},
                                {.tokens = 1000, .period_ns = DAY, .unit = WEIR_UNIT_OUTPUT},
                                {.tokens = 1000, .period_ns = DAY, .unit = WEIR_UNIT_REQUESTS},
                                {.tokens = 9000, .period_ns = DAY}};
    open_key(&f, (struct weir_settings){LANE(.rates = rates, .rate_count = 4)});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter_for(&f, &tickets[0], 300, 1000, SECOND), WEIR_ADMITTED);
    assert_int_equal(level_of(&f, 0, 0, SECOND), 700);
    assert_int_equal(level_of(&f, 0, 1, SECOND), 300);
    assert_int_equal(level_of(&f, 0, 2, SECOND), 999);
    assert_int_equal(level_of(&f, 0, 3, SECOND), 8000);
    assert_int_equal(enter_for(&f, &tickets[1], 300, 700, SECOND), WEIR_WAITING);
    struct weir_result result = {.usage_known = true, .input = 310, .output = 200};
    assert_int_equal(leave_with(&f, &tickets[0], result, SECOND), WEIR_OK);
    expect_news(&f, &tickets[1]);
    assert_int_equal(level_of(&f, 0, 0, SECOND), 390);
    assert_int_equal(level_of(&f, 0, 1, SECOND), 400);
    end_all(&f, tickets, 2, SECOND);
    close_key(&f);
}

TEST(a_first_request_is_never_refused_for_its_estimate)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0), .timeout_ns = 30 * SECOND,
                                        .estimate = WEIR_ESTIMATE_MEAN});
    struct weir_ticket tickets[2] = {0};
    struct weir_quota day = {.period_ns = DAY, .limit = 86400, .remaining = 11, .reset_ns = DAY};
    assert_int_equal(ask(&f, &tickets[0], (struct weir_request){.input = 10}, SECOND),
                     WEIR_ADMITTED);
    hear_quota(&f, &tickets[0], day, SECOND); /* one a second; the seed of 128 would take minutes */
    assert_int_equal(ask(&f, &tickets[1], (struct weir_request){.input = 10}, SECOND),
                     WEIR_WAITING);
    end_all(&f, tickets, 2, SECOND);
    close_key(&f);
}

/* ---- charging rules ---- */

static double spent_by(enum weir_charge charge)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){
                     LANE(.control = {.controller = WEIR_CONTROLLER_LEARNED, .charge = charge})});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter_for(&f, &tickets[0], 100, 100, SECOND), WEIR_ADMITTED);
    hear_quota(&f, &tickets[0], minute_of(60000, 30000), SECOND);
    struct weir_request request = {.input = 100, .cost = 200, .output_max = 1000};
    assert_int_equal(ask(&f, &tickets[1], request, SECOND), WEIR_ADMITTED);
    double sent = 30000.0 - control_of(&f, SECOND).quotas[0].level;
    leave_for(&f, &tickets[1], 150, SECOND);
    double left = 30000.0 - control_of(&f, SECOND).quotas[0].level;
    end_all(&f, tickets, 2, SECOND);
    close_key(&f);
    return sent * 10000.0 + left;
}

TEST(what_is_reserved_and_given_back_follows_the_providers_rule)
{
    assert_true(spent_by(WEIR_CHARGE_ESTIMATE) == 200.0 * 10000.0 + 150.0);
    assert_true(spent_by(WEIR_CHARGE_MAX) == 1100.0 * 10000.0 + 150.0);
    assert_true(spent_by(WEIR_CHARGE_MAX_KEPT) == 1100.0 * 10000.0 + 1100.0);
    assert_true(spent_by(WEIR_CHARGE_END) == 200.0 * 10000.0 + 150.0);
}

/* ---- aimd ---- */

TEST(aimd_settles_with_debt_or_below_zero)
{
    for (int owes = 0; owes < 2; owes++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){
                         BY_AIMD(.settle = owes ? WEIR_SETTLE_DEBT : WEIR_SETTLE_NEGATIVE)});
        struct weir_ticket ticket = {0};
        assert_int_equal(enter_for(&f, &ticket, 1500, 1500, SECOND), WEIR_ADMITTED);
        leave_for(&f, &ticket, 2700, SECOND); /* 2,000 were there */
        struct weir_control_stats stats = control_of(&f, SECOND);
        assert_true(stats.bucket == (owes ? 500.0 : -700.0));
        assert_true(stats.debt == (owes ? 1200.0 : 0.0));
        close_key(&f);
    }
}

TEST(aimd_falls_once_per_round_trip_by_its_factors)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BY_AIMD(.window = {.start = 10}, .rate = {.start = 1000})});
    struct weir_ticket tickets[4] = {0};
    enter_many(&f, tickets, 3, SECOND);
    leave_as(&f, &tickets[0], WEIR_OUTCOME_RATE_LIMIT, 2 * SECOND);
    assert_true(control_of(&f, 2 * SECOND).window == 7.0);
    assert_true(control_of(&f, 2 * SECOND).rate == 700.0);
    leave_as(&f, &tickets[1], WEIR_OUTCOME_RATE_LIMIT, 2 * SECOND); /* of the same round */
    leave_as(&f, &tickets[2], WEIR_OUTCOME_SOFT_LOSS, 2 * SECOND);
    assert_true(control_of(&f, 2 * SECOND).window == 7.0);
    assert_true(control_of(&f, 2 * SECOND).rate == 700.0);
    assert_int_equal(enter(&f, &tickets[3], 3 * SECOND), WEIR_ADMITTED);
    leave_as(&f, &tickets[3], WEIR_OUTCOME_SOFT_LOSS, 4 * SECOND);
    assert_true(control_of(&f, 4 * SECOND).rate == 700.0 * 0.85);
    assert_true(control_of(&f, 4 * SECOND).window == 7.0 * 0.7);
    close_key(&f);
}

TEST(aimd_does_not_grow_once_the_one_who_waited_has_gone)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BY_AIMD(.window = {.start = 8})});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter_for(&f, &tickets[0], 90000, 90000, SECOND), WEIR_ADMITTED);
    assert_int_equal(enter_for(&f, &tickets[1], 2000, 2000, SECOND), WEIR_WAITING);
    assert_int_equal(cancel(&f, &tickets[1], 2 * SECOND), WEIR_OK);
    assert_true(control_of(&f, 2 * SECOND).rate == 550.0);
    wake(&f, 50 * SECOND);
    assert_int_equal(enter_for(&f, &tickets[1], 2000, 2000, 100 * SECOND), WEIR_WAITING);
    assert_true(control_of(&f, 100 * SECOND).rate == 550.0);
    end_all(&f, tickets, 2, 100 * SECOND);
    close_key(&f);
}

TEST(aimd_feels_first_tokens_half_a_second_above_its_own_baseline)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BY_AIMD(.window = {.start = 10})});
    struct weir_ticket ticket = {0};
    uint64_t now_ns = SECOND;
    for (int i = 0; i < 100; i++) { /* a slow model: 4 s is its usual */
        assert_int_equal(enter(&f, &ticket, now_ns), WEIR_ADMITTED);
        hear(&f, &ticket, accepted, now_ns + 4 * SECOND);
        leave(&f, &ticket, now_ns + 5 * SECOND);
        now_ns += 6 * SECOND;
    }
    assert_true(control_of(&f, now_ns).window == 10.0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(enter(&f, &ticket, now_ns), WEIR_ADMITTED);
        hear(&f, &ticket, accepted, now_ns + 5 * SECOND);
        leave(&f, &ticket, now_ns + 5 * SECOND);
        now_ns += 6 * SECOND;
    }
    assert_true(control_of(&f, now_ns).window < 10.0);
    assert_true(control_of(&f, now_ns).window > 4.0);
    close_key(&f);
}

/* ---- settings ---- */

TEST(what_was_learned_outlives_new_settings_and_ends_with_the_controller)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0)});
    struct weir_ticket tickets[24] = {0};
    enter_many(&f, tickets, 24, SECOND);
    for (uint32_t i = 7; i < 16; i++) { /* the ninth makes it grow */
        hear(&f, &tickets[i], accepted, 2 * SECOND);
    }
    drop_news(&f);
    configure(&f, (struct weir_settings){LEARNING(0), .timeout_ns = MINUTE}, 3 * SECOND);
    assert_int_equal(lane_of(&f, 0, 3 * SECOND).limit, 17);
    configure(&f, (struct weir_settings){LEARNING(.window = {.max = 2})}, 3 * SECOND);
    assert_int_equal(lane_of(&f, 0, 3 * SECOND).limit, 2);
    configure(&f, (struct weir_settings){BY_AIMD(0)}, 3 * SECOND);
    assert_int_equal(lane_of(&f, 0, 3 * SECOND).limit, 4);
    assert_int_equal(control_of(&f, 3 * SECOND).controller, WEIR_CONTROLLER_AIMD);
    /* Sent by a controller that is no more: the new one does not hear of it. */
    hear(&f, &tickets[1], refused, 4 * SECOND);
    leave_as(&f, &tickets[1], WEIR_OUTCOME_RATE_LIMIT, 4 * SECOND);
    assert_true(control_of(&f, 4 * SECOND).window == 4.0);
    configure(&f, (struct weir_settings){LANE(.limit = 3)}, 5 * SECOND);
    struct weir_control_stats none;
    assert_false(weir_key_get_control(f.key, 0, 5 * SECOND, &none));
    assert_int_equal(lane_of(&f, 0, 5 * SECOND).limit, 3);
    drop_news(&f);
    end_all(&f, tickets, 24, 6 * SECOND);
    close_key(&f);
}

TEST(a_change_that_finds_no_memory_changes_nothing)
{
    struct weir_settings settings = {LEARNING(0), .estimate = WEIR_ESTIMATE_MEAN};
    for (uint64_t fail_at = 1;; fail_at++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){LANE(.limit = 3)});
        assert_int_equal(weir_gate_configure(f.gate, &settings), WEIR_OK);
        f.memory.fail_at = f.memory.calls + fail_at;
        enum weir_status status = weir_gate_apply(f.gate, f.key, SECOND, &f.news);
        bool done = f.memory.failed == 0;
        f.memory.fail_at = 0;
        assert_int_equal(status, done ? WEIR_OK : WEIR_NO_MEMORY);
        assert_int_equal(lane_of(&f, 0, SECOND).limit, done ? 16 : 3);
        close_key(&f);
        if (done) {
            assert_true(fail_at > 2);
            return;
        }
    }
}

TEST(settings_that_make_no_sense_are_refused)
{
    const struct weir_control_settings bad[] = {
        {.controller = (enum weir_controller)3},
        {.controller = WEIR_CONTROLLER_AIMD, .charge = WEIR_CHARGE_COUNT},
        {.controller = WEIR_CONTROLLER_AIMD, .settle = (enum weir_settle)2},
        {.controller = WEIR_CONTROLLER_AIMD, .window = {.start = 5, .min = 6}},
        {.controller = WEIR_CONTROLLER_AIMD, .window = {.start = 5, .max = 4}},
        {.controller = WEIR_CONTROLLER_AIMD, .window = {.max = WEIR_WINDOW_MAX + 1}},
        {.controller = WEIR_CONTROLLER_AIMD, .rate = {.start = 5, .min = 6}},
        {.controller = WEIR_CONTROLLER_AIMD, .rate = {.start = 5, .max = 4}},
        {.controller = WEIR_CONTROLLER_AIMD, .rate = {.burst = WEIR_CONTROL_RATE_MAX + 1}},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct weir_settings settings = {LANE(.control = bad[i])};
        assert_int_equal(weir_settings_check(&settings), WEIR_BAD_CONTROL);
    }
    struct weir_settings settings = {.estimate = WEIR_ESTIMATE_COUNT};
    assert_int_equal(weir_settings_check(&settings), WEIR_BAD_CONTROL);
}

TEST(what_is_not_held_cannot_be_told_of)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0)});
    struct weir_ticket ticket = {0};
    struct weir_reply reply = accepted;
    assert_int_equal(weir_key_hear(f.key, &ticket, &reply, 1, &f.news), WEIR_NOT_HELD);
    assert_int_equal(weir_key_progress(f.key, &ticket, 1, 1, &f.news), WEIR_NOT_HELD);
    assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
    reply.outcome = WEIR_OUTCOME_COUNT;
    assert_int_equal(weir_key_hear(f.key, &ticket, &reply, 1, &f.news), WEIR_BAD_OUTCOME);
    assert_int_equal(weir_key_progress(f.key, &ticket, WEIR_COST_MAX + 1, 1, &f.news),
                     WEIR_BAD_COST);
    struct weir_result result = {.reply = &reply};
    assert_int_equal(leave_with(&f, &ticket, result, 1), WEIR_BAD_OUTCOME);
    progress(&f, &ticket, WEIR_COST_MAX, 1);
    leave(&f, &ticket, 2);
    close_key(&f);
}

TEST(lanes_that_do_not_learn_do_not_listen)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
    struct weir_reply reply = refused;
    reply.retry_after_known = false; /* to that they do keep */
    hear(&f, &ticket, reply, 1);
    progress(&f, &ticket, 1000, 1);
    assert_int_equal(stats_of(&f).reserved, 1);
    assert_int_equal(lane_of(&f, 0, 1).paused_until_ns, 0);
    leave(&f, &ticket, 2);
    close_key(&f);
}

/* ---- time ---- */

TEST(g8_a_clock_that_steps_back_lets_nobody_through)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BY_AIMD(.window = {.start = 64})});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter_for(&f, &tickets[0], 2000, 2000, 100 * SECOND), WEIR_ADMITTED);
    assert_int_equal(enter_for(&f, &tickets[1], 2000, 2000, 100 * SECOND), WEIR_WAITING);
    for (uint64_t i = 0; i < 1000; i++) {
        wake(&f, (i % 100) * SECOND);
    }
    expect_waiting(&tickets[1]);
    assert_true(control_of(&f, 0).bucket <= 0.0);
    end_all(&f, tickets, 2, 100 * SECOND);
    close_key(&f);
}

TEST(what_is_told_of_a_controller_is_of_the_moment_that_asks_and_changes_nothing)
{
    for (int learns = 0; learns < 2; learns++) {
        struct fixture f;
        open_key(&f, learns ? (struct weir_settings){LEARNING(.rate = {.start = 100})}
                            : (struct weir_settings){BY_AIMD(.rate = {.start = 100})});
        struct weir_ticket ticket = {0};
        assert_int_equal(enter_for(&f, &ticket, 300, 300, SECOND), WEIR_ADMITTED);
        leave_for(&f, &ticket, 300, SECOND);
        double spent = control_of(&f, SECOND).bucket;
        double refilled = control_of(&f, 2 * SECOND).bucket;
        assert_true(refilled == spent + 100.0);
        assert_true(control_of(&f, SECOND).bucket == spent);
        wake(&f, 2 * SECOND);
        assert_true(control_of(&f, 2 * SECOND).bucket == refilled);
        close_key(&f);
    }
}

TEST(g9_a_ticket_larger_than_everything_is_late_but_not_impossible)
{
    const struct weir_control_settings kinds[] = {{.controller = WEIR_CONTROLLER_AIMD},
                                                  {.controller = WEIR_CONTROLLER_LEARNED}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        for (int stated = 0; stated < 2; stated++) {
            struct fixture f;
            open_key(&f,
                     (struct weir_settings){LANE(.control = kinds[i]), .timeout_ns = WEIR_NEVER});
            struct weir_ticket tickets[2] = {0};
            uint64_t now_ns = SECOND;
            assert_int_equal(enter_for(&f, &tickets[0], 100, 100, now_ns), WEIR_ADMITTED);
            if (stated) {
                hear_quota(&f, &tickets[0], minute_of(60000, 50000), now_ns);
            }
            enum weir_admission verdict =
                enter_for(&f, &tickets[1], WEIR_COST_MAX, WEIR_COST_MAX, now_ns);
            for (int wakes = 0; wakes < 100000 && verdict != WEIR_ADMITTED; wakes++) {
                assert_true(f.news.wake_ns > now_ns);
                now_ns = f.news.wake_ns;
                wake(&f, now_ns);
                verdict = tickets[1].state == WEIR_TICKET_ADMITTED ? WEIR_ADMITTED : WEIR_WAITING;
            }
            expect_admitted(&tickets[1]);
            assert_true(now_ns < 5 * MINUTE);
            end_all(&f, tickets, 2, now_ns);
            close_key(&f);
        }
    }
}

TEST(g12_a_key_whose_controller_owes_is_not_forgotten)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BY_AIMD(.rate = {.start = 1, .min = 1, .max = 1})});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_for(&f, &ticket, 10000, 10000, SECOND), WEIR_ADMITTED);
    leave_for(&f, &ticket, 10000, SECOND); /* 8,000 owed, one a second */
    weir_key_give(f.key);
    assert_int_equal(weir_gate_sweep(f.gate, 10, SECOND + 2 * HOUR), 0);
    assert_int_equal(weir_gate_sweep(f.gate, 10, SECOND + 4 * HOUR), 1);
    assert_int_equal(weir_gate_take(f.gate, weir_slice_of("key"), 5 * HOUR, &f.key), WEIR_OK);
    close_key(&f);
}

/* Although whoever comes next would not have to wait for it. */
TEST(g12_nor_is_one_whose_first_rate_owes)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(.rate = {.start = 1, .min = 1, .max = 1}),
                                        .timeout_ns = HOUR});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter_for(&f, &tickets[0], 1000, 1000, SECOND), WEIR_ADMITTED);
    assert_int_equal(enter_for(&f, &tickets[1], 1000, 1000, SECOND), WEIR_ADMITTED);
    leave_for(&f, &tickets[1], 9000, SECOND); /* 8,000 owed, one a second */
    leave_for(&f, &tickets[0], 1000, SECOND);
    weir_key_give(f.key);
    assert_int_equal(weir_gate_sweep(f.gate, 10, SECOND + 2 * HOUR), 0);
    assert_int_equal(weir_gate_sweep(f.gate, 10, SECOND + 4 * HOUR), 1);
    assert_int_equal(weir_gate_take(f.gate, weir_slice_of("key"), 5 * HOUR, &f.key), WEIR_OK);
    close_key(&f);
}

/* Whatever it turns out to cost: who comes at the same time as another later has not to wait for
 * it, nor is a burst let through. */
TEST(what_goes_because_nothing_is_under_way_leaves_neither_a_debt_nor_a_credit)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LEARNING(0), .timeout_ns = HOUR});
    static const uint32_t costs[] = {100, 90000, 1000};
    for (size_t i = 0; i < COUNT_OF(costs); i++) {
        for (int round = 0; round < 5; round++) {
            struct weir_ticket ticket = {0};
            assert_int_equal(enter_for(&f, &ticket, 1000, 20000, SECOND), WEIR_ADMITTED);
            hear(&f, &ticket, round == 4 ? failed : accepted, SECOND);
            leave_for(&f, &ticket, costs[i], SECOND);
            assert_in_range((int64_t)control_of(&f, SECOND).bucket, 0, 2000);
        }
    }
    close_key(&f);
}

TEST(who_waits_for_a_rate_is_told_so_and_when)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){BY_AIMD(.window = {.start = 8}), .timeout_ns = HOUR});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(enter_for(&f, &tickets[0], 2000, 2000, SECOND), WEIR_ADMITTED);
    assert_int_equal(enter_for(&f, &tickets[1], 1000, 1000, SECOND), WEIR_WAITING);
    struct weir_explanation why = weir_key_explain(f.key, &tickets[1], SECOND);
    assert_int_equal(why.binding, WEIR_BINDING_BUCKET);
    assert_int_equal(why.start_ns, 3 * SECOND);     /* 1,000 at 500 a second */
    assert_true(stats_of(&f).wake_ns < 3 * SECOND); /* but it asks again before */
    end_all(&f, tickets, 2, SECOND);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(a_lane_that_learns_starts_with_16_permits_and_grows_with_first_bytes),
        BOTH_WAYS(where_the_first_reply_states_a_quota_it_starts_with_4),
        BOTH_WAYS(a_crowd_of_large_requests_goes_at_once_where_nothing_is_stated),
        BOTH_WAYS(a_limit_that_is_set_is_where_the_window_goes_on),
        BOTH_WAYS(a_lane_whose_first_request_is_refused_is_not_shut_for_long),
        BOTH_WAYS(retry_after_pauses_its_lane_alone),
        BOTH_WAYS(a_retry_after_beyond_the_deadline_refuses_at_once_and_says_when),
        BOTH_WAYS(a_retry_after_from_the_end_of_time_is_believed_for_a_day),
        BOTH_WAYS(a_stated_quota_replaces_what_was_guessed),
        BOTH_WAYS(a_ticket_needs_all_of_several_quotas),
        BOTH_WAYS(only_learned_spends_a_quota_by_its_price),
        BOTH_WAYS(what_was_sent_after_a_reply_is_taken_off_what_it_says_remains),
        BOTH_WAYS(the_level_is_told_as_of_its_sending_and_rises_since_once),
        BOTH_WAYS(what_a_refusal_says_remains_is_without_the_refused),
        BOTH_WAYS(a_spent_days_quota_refuses_at_once_with_the_true_wait),
        BOTH_WAYS(a_limit_of_nothing_refuses_at_once_even_who_could_wait_for_ever),
        BOTH_WAYS(quotas_that_make_no_sense_are_ignored),
        BOTH_WAYS(a_stream_is_settled_while_it_comes),
        BOTH_WAYS(what_is_refused_or_fails_before_an_answer_costs_nothing),
        BOTH_WAYS(configured_buckets_count_input_and_output_apart),
        BOTH_WAYS(a_first_request_is_never_refused_for_its_estimate),
        BOTH_WAYS(what_is_reserved_and_given_back_follows_the_providers_rule),
        BOTH_WAYS(aimd_settles_with_debt_or_below_zero),
        BOTH_WAYS(aimd_falls_once_per_round_trip_by_its_factors),
        BOTH_WAYS(aimd_does_not_grow_once_the_one_who_waited_has_gone),
        BOTH_WAYS(aimd_feels_first_tokens_half_a_second_above_its_own_baseline),
        BOTH_WAYS(what_was_learned_outlives_new_settings_and_ends_with_the_controller),
        BOTH_WAYS(a_change_that_finds_no_memory_changes_nothing),
        BOTH_WAYS(settings_that_make_no_sense_are_refused),
        BOTH_WAYS(what_is_not_held_cannot_be_told_of),
        BOTH_WAYS(lanes_that_do_not_learn_do_not_listen),
        BOTH_WAYS(g8_a_clock_that_steps_back_lets_nobody_through),
        BOTH_WAYS(what_is_told_of_a_controller_is_of_the_moment_that_asks_and_changes_nothing),
        BOTH_WAYS(g9_a_ticket_larger_than_everything_is_late_but_not_impossible),
        BOTH_WAYS(g12_a_key_whose_controller_owes_is_not_forgotten),
        BOTH_WAYS(g12_nor_is_one_whose_first_rate_owes),
        BOTH_WAYS(what_goes_because_nothing_is_under_way_leaves_neither_a_debt_nor_a_credit),
        BOTH_WAYS(who_waits_for_a_rate_is_told_so_and_when),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
