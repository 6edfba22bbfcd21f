/* What a key can tell about those who wait: why, how many are before them, and when they will
 * likely start. */
#include "unit/helpers.h"

#define FOREVER .timeout_ns = WEIR_NEVER

static struct weir_explanation explain(const struct fixture *f, const struct weir_ticket *ticket,
                                       uint64_t now_ns)
{
    return weir_key_explain(f->key, ticket, now_ns);
}

#define expect_binding(f, ticket, now_ns, expected) \
    assert_int_equal(explain(f, ticket, now_ns).binding, expected)

/* ---- what binds ---- */

TEST(a_ticket_that_does_not_wait_here_is_bound_by_nothing)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_key *other;
    assert_int_equal(weir_gate_take(f.gate, weir_slice_of("other"), 0, &other), WEIR_OK);
    struct weir_ticket tickets[2] = {0};
    expect_binding(&f, &tickets[0], 1, WEIR_BINDING_NONE);
    enter_many(&f, tickets, 2, 1);
    expect_binding(&f, &tickets[0], 1, WEIR_BINDING_NONE);
    struct weir_explanation nothing = weir_key_explain(other, &tickets[1], 1);
    assert_int_equal(nothing.binding, WEIR_BINDING_NONE);
    assert_int_equal(nothing.ahead, 0);
    assert_int_equal(nothing.ahead_own, 0);
    assert_int_equal(nothing.start_ns, 0);
    end_all(&f, tickets, 2, 2);
    expect_binding(&f, &tickets[1], 2, WEIR_BINDING_NONE);
    weir_key_give(other);
    close_key(&f);
}

TEST(the_one_who_is_next_is_bound_by_the_limit_and_those_behind_by_their_turn)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket tickets[4] = {0};
    enter_many(&f, tickets, 4, 1);
    expect_binding(&f, &tickets[1], 1, WEIR_BINDING_LIMIT);
    for (uint32_t i = 1; i < 4; i++) {
        struct weir_explanation why = explain(&f, &tickets[i], 1);
        assert_int_equal(why.binding, i == 1 ? WEIR_BINDING_LIMIT : WEIR_BINDING_TURN);
        assert_int_equal(why.ahead_own, i - 1);
        assert_int_equal(why.ahead, i - 1);
        assert_int_equal(why.start_ns, 0);
    }
    end_all(&f, tickets, 4, 2);
    close_key(&f);
}

TEST(a_limit_of_0_binds_as_a_limit)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket ticket = {0};
    assert_int_equal(set_limit(&f, 0, 0, 1), WEIR_OK);
    assert_int_equal(enter(&f, &ticket, 1), WEIR_WAITING);
    expect_binding(&f, &ticket, 1, WEIR_BINDING_LIMIT);
    end_all(&f, &ticket, 1, 1);
    close_key(&f);
}

TEST(an_empty_bucket_binds_and_says_when_it_will_have_refilled)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = SECOND)), FOREVER});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 5), 0), WEIR_WAITING);
    struct weir_explanation why = explain(&f, &tickets[1], SECOND / 10);
    assert_int_equal(why.binding, WEIR_BINDING_BUCKET);
    assert_int_equal(why.start_ns, SECOND / 2);
    /* It has refilled, and only nobody has called yet. */
    expect_binding(&f, &tickets[1], SECOND / 2, WEIR_BINDING_TURN);
    end_all(&f, tickets, 2, SECOND);
    close_key(&f);
}

TEST(a_pause_binds_and_says_when_it_ends)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2), FOREVER});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(pause_lane(&f, 0, 500, 1), WEIR_OK);
    enter_many(&f, tickets, 2, 1);
    struct weir_explanation why = explain(&f, &tickets[0], 100);
    assert_int_equal(why.binding, WEIR_BINDING_PAUSE);
    assert_int_equal(why.start_ns, 500);
    expect_binding(&f, &tickets[1], 100, WEIR_BINDING_TURN);
    assert_int_equal(explain(&f, &tickets[1], 100).start_ns, 0);
    /* The pause is over, and only nobody has called yet. */
    expect_binding(&f, &tickets[0], 500, WEIR_BINDING_TURN);
    end_all(&f, tickets, 2, 100);
    close_key(&f);
}

TEST(a_tripped_breaker_binds_while_it_pauses_and_while_a_probe_is_out)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){
                     LANE(.limit = 5, .breaker = {.failures = 1, .pause_ns = 10}), FOREVER});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(enter(&f, &tickets[0], 1), WEIR_ADMITTED);
    leave_as(&f, &tickets[0], WEIR_OUTCOME_SOFT_LOSS, 1);
    enter_many(&f, tickets, 3, 2);
    struct weir_explanation why = explain(&f, &tickets[0], 2);
    assert_int_equal(why.binding, WEIR_BINDING_BREAKER);
    assert_int_equal(why.start_ns, 11);
    wake(&f, 11);
    expect_admitted(&tickets[0]);
    expect_binding(&f, &tickets[1], 11, WEIR_BINDING_BREAKER);
    expect_binding(&f, &tickets[2], 11, WEIR_BINDING_TURN);
    drop_news(&f);
    end_all(&f, tickets, 3, 12);
    close_key(&f);
}

TEST(a_tenant_at_its_limit_or_its_rate_is_bound_by_that)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9), .tenant_default = {.limit = 1}, FOREVER});
    struct weir_ticket tickets[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        (void)!enter_as(&f, &tickets[i], "a", 1);
    }
    expect_binding(&f, &tickets[1], 1, WEIR_BINDING_TENANT_LIMIT);
    expect_binding(&f, &tickets[2], 1, WEIR_BINDING_TENANT_LIMIT);
    assert_int_equal(explain(&f, &tickets[2], 1).ahead_own, 1);
    end_all(&f, tickets, 3, 2);
    close_key(&f);

    open_key(&f, (struct weir_settings){
                     LANE(.limit = 9),
                     .tenant_default = {.rate = {.tokens = 1, .period_ns = SECOND}}, FOREVER});
    memset(tickets, 0, sizeof tickets);
    for (size_t i = 0; i < 2; i++) {
        (void)!enter_as(&f, &tickets[i], "a", 1);
    }
    expect_binding(&f, &tickets[1], 1, WEIR_BINDING_TENANT_RATE);
    /* Nothing has been measured yet, but when its bucket covers it is known. */
    assert_int_equal(explain(&f, &tickets[1], 1).start_ns, 1 + SECOND);
    end_all(&f, tickets, 2, 2);
    close_key(&f);
}

TEST(of_several_lanes_the_one_that_admits_soonest_is_told)
{
    const struct weir_lane_settings lanes[] = {{.id = 1, .limit = 1}, {.id = 2, .limit = 1}};
    struct fixture f;
    open_key(&f, (struct weir_settings){.lanes = lanes, .lane_count = 2, FOREVER});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(pause_lane(&f, 2, 500, 1), WEIR_OK);
    enter_many(&f, tickets, 2, 1);
    /* Lane 1 is full; lane 2 has room, and opens at 500. */
    struct weir_explanation why = explain(&f, &tickets[1], 1);
    assert_int_equal(why.binding, WEIR_BINDING_PAUSE);
    assert_int_equal(why.start_ns, 500);
    assert_int_equal(pause_lane(&f, 1, 400, 1), WEIR_OK);
    expect_binding(&f, &tickets[1], 1, WEIR_BINDING_PAUSE);
    assert_int_equal(explain(&f, &tickets[1], 1).start_ns, 500);
    end_all(&f, tickets, 2, 2);
    close_key(&f);
}

TEST(when_no_lane_opens_by_itself_one_that_has_room_and_is_closed_is_told_before_a_full_one)
{
    /* Lane 1 is full. Lane 2 has tripped, and its one probe is out: it has room behind it. */
    const struct weir_lane_settings lanes[] = {
        {.id = 1, .limit = 1}, {.id = 2, .limit = 2, .breaker = {.failures = 1, .pause_ns = 10}}};
    struct fixture f;
    open_key(&f, (struct weir_settings){.lanes = lanes, .lane_count = 2, FOREVER});
    struct weir_ticket tickets[4] = {0};
    enter_many(&f, tickets, 2, 1);
    leave_as(&f, &tickets[1], WEIR_OUTCOME_SOFT_LOSS, 1);
    enter_many(&f, &tickets[2], 2, 20);
    assert_int_equal(tickets[2].lane_id, 2);
    enum weir_binding binding = explain(&f, &tickets[3], 20).binding;
    end_all(&f, tickets, 4, 21);
    close_key(&f);
    assert_int_equal(binding, WEIR_BINDING_BREAKER);
}

TEST(explaining_changes_nothing)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket tickets[2] = {0};
    enter_many(&f, tickets, 2, 1);
    struct weir_key_stats before = stats_of(&f);
    explain(&f, &tickets[1], DAY);
    weir_key_predict(f.key, weir_slice_of("nobody"), HIGH, DAY);
    lane_of(&f, 0, DAY);
    struct weir_key_stats after = stats_of(&f);
    assert_int_equal(after.tenants, before.tenants);
    assert_int_equal(after.wake_ns, before.wake_ns);
    assert_int_equal(after.entered, before.entered);
    expect_counts(&f, 1, 1);
    expect_waiting(&tickets[1]);
    /* Nor has the time of the question become the key's. */
    assert_int_equal(cancel(&f, &tickets[1], 2), WEIR_OK);
    assert_int_equal(enter(&f, &tickets[1], 2), WEIR_WAITING);
    assert_int_equal(tickets[1].entered_ns, 2);
    end_all(&f, tickets, 2, 2);
    close_key(&f);
}

/* ---- how many are ahead ---- */

TEST(a_single_ticket_of_a_tenant_has_few_ahead_however_many_another_has)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket holder = {0};
    struct weir_ticket many[50] = {0};
    struct weir_ticket one = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(enter_as(&f, &many[i], "a", 1), WEIR_WAITING);
    }
    assert_int_equal(enter_as(&f, &one, "b", 1), WEIR_WAITING);
    assert_int_equal(explain(&f, &one, 1).ahead_own, 0);
    assert_int_equal(explain(&f, &one, 1).ahead, 1);
    /* Those of a: half of the turns are theirs, as far as b has tickets. */
    assert_int_equal(explain(&f, &many[0], 1).ahead, 0);
    assert_int_equal(explain(&f, &many[10], 1).ahead_own, 10);
    assert_true(explain(&f, &many[10], 1).ahead >= 10);
    assert_true(explain(&f, &many[49], 1).ahead <= 50);
    end_all(&f, many, 50, 2);
    end_all(&f, &one, 1, 2);
    end_all(&f, &holder, 1, 2);
    close_key(&f);
}

TEST(a_low_priority_has_more_ahead_than_a_high_one)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[30] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    for (size_t i = 0; i < 30; i++) {
        assert_int_equal(ask(&f, &tickets[i], request_of("a", (enum weir_priority)(i % 3), 1), 1),
                         WEIR_WAITING);
    }
    /* The second of each: high is in every second slot, low in every eighth. */
    uint32_t normal = explain(&f, &tickets[3], 1).ahead;
    uint32_t high = explain(&f, &tickets[4], 1).ahead;
    uint32_t low = explain(&f, &tickets[5], 1).ahead;
    assert_int_equal(high, 3);
    assert_int_equal(normal, 4);
    assert_int_equal(low, 15);
    end_all(&f, tickets, 30, 2);
    end_all(&f, &holder, 1, 2);
    close_key(&f);
}

/* ---- when ---- */

/* Lets the one permit pass to the first who waits, every 10 nanoseconds. */
static uint64_t drain(struct fixture *f, struct weir_ticket *tickets, size_t starts,
                      uint64_t now_ns)
{
    for (size_t i = 0; i < starts; i++) {
        now_ns += 10;
        leave(f, &tickets[i], now_ns);
        expect_news(f, &tickets[i + 1]);
    }
    return now_ns;
}

TEST(after_eight_measured_starts_a_start_is_predicted_and_not_before)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[14] = {0};
    enter_many(&f, tickets, 14, 1);
    /* The first start from the line begins the first interval; nine make eight intervals. */
    uint64_t now_ns = drain(&f, tickets, 8, 1);
    assert_int_equal(explain(&f, &tickets[13], now_ns).start_ns, 0);
    assert_int_equal(stats_of(&f).interval_ns, 0);
    assert_int_equal(weir_key_predict(f.key, weir_slice_of("x"), NORMAL, now_ns), WEIR_NEVER);
    now_ns = drain(&f, &tickets[8], 1, now_ns);
    assert_int_equal(stats_of(&f).interval_ns, 10);
    for (size_t i = 10; i < 14; i++) {
        assert_int_equal(explain(&f, &tickets[i], now_ns).ahead, i - 10);
        assert_int_equal(explain(&f, &tickets[i], now_ns).start_ns, now_ns + 10 * (i - 9));
    }
    /* Asked later, it will be later. */
    assert_int_equal(explain(&f, &tickets[10], now_ns + 7).start_ns, now_ns + 17);
    end_all(&f, tickets, 14, now_ns);
    close_key(&f);
}

TEST(a_predicted_start_is_not_before_the_moment_that_is_known)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[12] = {0};
    enter_many(&f, tickets, 12, 1);
    uint64_t now_ns = drain(&f, tickets, 9, 1);
    assert_int_equal(pause_lane(&f, 0, 5000, now_ns), WEIR_OK);
    leave(&f, &tickets[9], now_ns);
    assert_int_equal(explain(&f, &tickets[10], now_ns).start_ns, 5000);
    assert_int_equal(explain(&f, &tickets[11], now_ns).start_ns, 5000);
    end_all(&f, tickets, 12, now_ns);
    close_key(&f);
}

TEST(the_mean_interval_follows_a_line_that_becomes_slower)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[14] = {0};
    enter_many(&f, tickets, 14, 1);
    uint64_t now_ns = drain(&f, tickets, 9, 1);
    now_ns += 90;
    leave(&f, &tickets[9], now_ns);
    expect_news(&f, &tickets[10]);
    /* An eighth of the way from 10 to 90. */
    assert_int_equal(stats_of(&f).interval_ns, 20);
    end_all(&f, tickets, 14, now_ns);
    close_key(&f);
}

TEST(a_time_in_which_nobody_waited_is_not_measured)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[14] = {0};
    enter_many(&f, tickets, 11, 1);
    uint64_t now_ns = drain(&f, tickets, 9, 1);
    assert_int_equal(stats_of(&f).interval_ns, 10);
    /* The last one who waits goes away, and much later others come. */
    assert_int_equal(cancel(&f, &tickets[10], now_ns), WEIR_OK);
    enter_many(&f, &tickets[11], 3, DAY);
    leave(&f, &tickets[9], DAY + 5);
    expect_news(&f, &tickets[11]);
    assert_int_equal(stats_of(&f).interval_ns, 10);
    leave(&f, &tickets[11], DAY + 15);
    expect_news(&f, &tickets[12]);
    assert_int_equal(stats_of(&f).interval_ns, 10);
    end_all(&f, tickets, 14, DAY + 20);
    close_key(&f);
}

/* ---- the line as a list ---- */

TEST(the_line_is_listed_in_the_order_in_which_it_will_likely_go)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[12] = {0};
    struct weir_place places[WEIR_PLACES_MAX];
    assert_int_equal(weir_key_line(f.key, 0, places, WEIR_PLACES_MAX), 0);
    for (size_t i = 0; i < 12; i++) { /* the first is inside; ten of a, then one of b */
        struct weir_request request = request_of(i == 11 ? "b" : "a", NORMAL, 1);
        assert_int_equal(ask(&f, &tickets[i], request, 1), i == 0 ? WEIR_ADMITTED : WEIR_WAITING);
    }
    uint32_t count = weir_key_line(f.key, 1, places, WEIR_PLACES_MAX);
    assert_int_equal(count, 11);
    for (uint32_t i = 0; i < count; i++) {
        struct weir_explanation why = explain(&f, places[i].ticket, 1);
        assert_int_equal(places[i].why.binding, why.binding);
        assert_int_equal(places[i].why.ahead, i);
        assert_int_equal(places[i].why.ahead_own, why.ahead_own);
        assert_int_equal(places[i].why.start_ns, 0);
    }
    assert_true(places[0].ticket == &tickets[1] || places[0].ticket == &tickets[11]);
    /* b waits for one turn of a, not for ten. */
    uint32_t place_of_b = 0;
    while (places[place_of_b].ticket != &tickets[11]) {
        place_of_b++;
    }
    assert_true(place_of_b <= 2);
    assert_int_equal(places[place_of_b].tenant.bytes, 1);
    assert_memory_equal(places[place_of_b].tenant.data, "b", 1);
    /* Cut short, it is the beginning of the same. */
    struct weir_place few[3];
    assert_int_equal(weir_key_line(f.key, 1, few, 3), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_ptr_equal(few[i].ticket, places[i].ticket);
    }
    end_all(&f, tickets, 12, 2);
    close_key(&f);
}

/* Lets them go one by one, and compares with the list as it was before. */
static void expect_line_to_go(struct fixture *f, struct weir_ticket *tickets,
                              const struct weir_place *places, uint32_t count)
{
    struct weir_ticket *inside = &tickets[0];
    for (uint32_t i = 0; i < count; i++) {
        leave(f, inside, 2 + i);
        inside = &tickets[places[i].ticket - tickets];
        expect_news(f, inside);
    }
}

TEST(whatever_their_priorities_weights_and_costs_they_go_as_they_are_listed)
{
    static const char *const names[] = {"a", "b", "c", "d", ""};
    struct weir_tenant_settings weights[] = {{.name = {"b", 1}, .weight = 3},
                                             {.name = {"d", 1}, .weight = 2}};
    uint64_t state = 7;
    for (uint32_t round = 0; round < 50; round++) {
        struct fixture f;
        struct weir_settings settings = {LANE(.limit = 1), FOREVER};
        settings.tenants = weights;
        settings.tenant_count = 2;
        open_key(&f, settings);
        struct weir_ticket tickets[60] = {0};
        for (size_t i = 0; i < 60; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            uint32_t draw = (uint32_t)(state >> 33);
            struct weir_request request =
                request_of(names[draw % 5], (enum weir_priority)(draw / 5 % 3), 1 + draw / 15 % 9);
            assert_int_equal(ask(&f, &tickets[i], request, 1),
                             i == 0 ? WEIR_ADMITTED : WEIR_WAITING);
        }
        struct weir_place places[WEIR_PLACES_MAX];
        assert_int_equal(weir_key_line(f.key, 1, places, WEIR_PLACES_MAX), 59);
        struct weir_place few[1 + 58];
        uint32_t fewer = 1 + round;
        assert_int_equal(weir_key_line(f.key, 1, few, fewer), fewer);
        for (uint32_t i = 0; i < fewer; i++) { /* cut short, it is the beginning of the same */
            assert_ptr_equal(few[i].ticket, places[i].ticket);
        }
        expect_line_to_go(&f, tickets, places, 59);
        end_all(&f, tickets, 60, 100);
        close_key(&f);
    }
}

TEST(whoever_is_held_back_by_its_tenants_limit_is_listed_and_not_ahead_of_others)
{
    struct fixture f;
    struct weir_tenant_settings one = {.name = {"a", 1}, .limit = 1};
    struct weir_settings settings = {LANE(.limit = 2), FOREVER};
    settings.tenants = &one;
    settings.tenant_count = 1;
    open_key(&f, settings);
    struct weir_ticket tickets[5] = {0};
    static const char *const names[] = {"a", "b", "a", "b", "b"};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(ask(&f, &tickets[i], request_of(names[i], NORMAL, 1), 1),
                         i < 2 ? WEIR_ADMITTED : WEIR_WAITING);
    }
    struct weir_place places[5];
    assert_int_equal(weir_key_line(f.key, 1, places, 5), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_ptr_equal(places[i].ticket, &tickets[2 + i]);
        assert_int_equal(places[i].why.ahead, i == 2);
    }
    assert_int_equal(places[0].why.binding, WEIR_BINDING_TENANT_LIMIT);
    assert_int_equal(places[1].why.binding, WEIR_BINDING_LIMIT);
    end_all(&f, tickets, 5, 2);
    close_key(&f);
}

/* ---- predictions for those who have not come ---- */

TEST(whoever_would_pass_at_once_waits_for_no_time)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    assert_int_equal(weir_key_predict(f.key, weir_slice_of("a"), NORMAL, 1), 0);
    struct weir_ticket ticket = {0};
    assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
    assert_int_equal(weir_key_predict(f.key, weir_slice_of("a"), NORMAL, 1), WEIR_NEVER);
    leave(&f, &ticket, 2);
    assert_int_equal(weir_key_predict(f.key, weir_slice_of("a"), NORMAL, 2), 0);
    assert_int_equal(pause_lane(&f, 0, 100, 2), WEIR_OK);
    assert_true(weir_key_predict(f.key, weir_slice_of("a"), NORMAL, 2) != 0);
    assert_int_equal(weir_key_predict(f.key, weir_slice_of("a"), NORMAL, 100), 0);
    close_key(&f);
}

TEST(a_prediction_counts_those_ahead_times_the_interval)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[14] = {0};
    enter_many(&f, tickets, 14, 1);
    uint64_t now_ns = drain(&f, tickets, 9, 1);
    /* Four wait, all of one tenant. Another one of it comes after them; a stranger after one. */
    assert_int_equal(weir_key_predict(f.key, weir_slice_of(""), NORMAL, now_ns), 50);
    assert_int_equal(weir_key_predict(f.key, weir_slice_of("new"), NORMAL, now_ns), 20);
    end_all(&f, tickets, 14, now_ns);
    close_key(&f);
}

static struct weir_request until(const char *tenant, uint64_t deadline_ns)
{
    struct weir_request request = request_of(tenant, NORMAL, 1);
    request.deadline_ns = deadline_ns;
    return request;
}

TEST(with_early_reject_whoever_would_start_too_late_is_refused_at_once)
{
    for (int early = 0; early < 2; early++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER, .early_reject = early});
        struct weir_ticket tickets[14] = {0};
        struct weir_ticket last[4] = {0};
        enum weir_admission late = early ? WEIR_REFUSED : WEIR_WAITING;
        enter_many(&f, tickets, 14, 1);
        /* Nothing is known yet, so even the one without hope may try. */
        assert_int_equal(ask(&f, &last[0], until("", 2), 1), WEIR_WAITING);
        end_all(&f, last, 1, 1);
        uint64_t now_ns = drain(&f, tickets, 9, 1);
        assert_int_equal(ask(&f, &last[0], until("", now_ns + 49), now_ns), late);
        end_all(&f, last, early ? 0 : 1, now_ns);
        if (early) {
            assert_int_equal(last[0].refusal, WEIR_TOO_LATE);
        }
        assert_int_equal(ask(&f, &last[1], until("new", now_ns + 19), now_ns), late);
        end_all(&f, &last[1], early ? 0 : 1, now_ns);
        assert_int_equal(ask(&f, &last[2], until("new", now_ns + 20), now_ns), WEIR_WAITING);
        assert_int_equal(ask(&f, &last[3], until("", WEIR_NEVER), now_ns), WEIR_WAITING);
        end_all(&f, &last[2], 2, now_ns);
        end_all(&f, tickets, 14, now_ns);
        close_key(&f);
    }
}

TEST(a_tenant_at_its_own_limit_or_rate_is_not_told_that_it_need_not_wait)
{
    const struct weir_tenant_settings tenants[] = {
        {.name = weir_slice_of("limit"), .limit = 1},
        {.name = weir_slice_of("rate"), .rate = {.tokens = 1, .period_ns = SECOND}}};
    for (size_t i = 0; i < COUNT_OF(tenants); i++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){LANE(.limit = 9), .tenants = tenants, .tenant_count = 2,
                                            FOREVER});
        struct weir_ticket ticket = {0};
        assert_int_equal(weir_key_predict(f.key, tenants[i].name, NORMAL, 0), 0);
        assert_int_equal(ask(&f, &ticket, (struct weir_request){.tenant = tenants[i].name}, 0),
                         WEIR_ADMITTED);
        uint64_t others_ns = weir_key_predict(f.key, weir_slice_of("other"), NORMAL, 0);
        uint64_t wait_ns = weir_key_predict(f.key, tenants[i].name, NORMAL, 0);
        leave(&f, &ticket, SECOND);
        uint64_t later_ns = weir_key_predict(f.key, tenants[i].name, NORMAL, SECOND);
        close_key(&f);
        assert_int_equal(others_ns, 0);
        assert_true(wait_ns != 0);
        assert_int_equal(later_ns, 0);
    }
}

/* ---- a tenant's share ---- */

TEST(a_tenants_share_is_told_by_its_name_whether_it_has_been_there_or_not)
{
    static const struct weir_tenant_settings tenants[] = {
        {.name = {"a", 1},
         .limit = 2,
         .rate = {.tokens = 10, .period_ns = SECOND, .burst = 20, .unit = WEIR_UNIT_REQUESTS}},
        {.name = {"c", 1},
         .limit = 3,
         .rate = {.tokens = 7, .period_ns = SECOND, .unit = WEIR_UNIT_REQUESTS}}};
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER, .tenants = tenants,
                                        .tenant_count = 2});
    struct weir_share share = weir_key_tenant_share(f.key, weir_slice_of("a"), 0);
    assert_int_equal(share.active, 0);
    assert_int_equal(share.limit, 2);
    assert_int_equal(share.rate.tokens, 10);
    assert_int_equal(share.level, 20);
    assert_int_equal(weir_key_tenant_share(f.key, weir_slice_of("c"), 0).level, 7);
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_as(&f, &ticket, "a", 0), WEIR_ADMITTED);
    share = weir_key_tenant_share(f.key, weir_slice_of("a"), 0);
    assert_int_equal(share.active, 1);
    assert_int_equal(share.level, 19);
    end_all(&f, &ticket, 1, SECOND / 20);
    share = weir_key_tenant_share(f.key, weir_slice_of("a"), SECOND / 20);
    assert_int_equal(share.active, 0);
    assert_int_equal(share.level, 19);
    assert_int_equal(weir_key_tenant_share(f.key, weir_slice_of("a"), SECOND).level, 20);
    share = weir_key_tenant_share(f.key, weir_slice_of("b"), 0);
    assert_int_equal(share.limit, 0);
    assert_int_equal(share.rate.tokens, 0);
    close_key(&f);
}

TEST(a_tenants_share_is_told_to_whoever_waits_or_holds_and_to_nobody_else)
{
    static const struct weir_tenant_settings tenants[] = {
        {.name = {"a", 1},
         .limit = 2,
         .rate = {.tokens = 10, .period_ns = SECOND, .burst = 20, .unit = WEIR_UNIT_REQUESTS}}};
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER, .tenants = tenants,
                                        .tenant_count = 1});
    struct weir_ticket tickets[3] = {0};
    struct weir_share share = {.limit = 77};
    assert_false(weir_key_get_share(f.key, &tickets[0], 0, &share));
    assert_int_equal(share.limit, 77);
    assert_int_equal(enter_as(&f, &tickets[0], "a", 0), WEIR_ADMITTED);
    assert_int_equal(enter_as(&f, &tickets[1], "a", 0), WEIR_WAITING);
    assert_int_equal(enter_as(&f, &tickets[2], "b", 0), WEIR_WAITING);
    for (int i = 0; i < 2; i++) {
        assert_true(weir_key_get_share(f.key, &tickets[i], 0, &share));
        assert_int_equal(share.active, 1);
        assert_int_equal(share.limit, 2);
        assert_int_equal(share.rate.tokens, 10);
        assert_int_equal(share.rate.burst, 20);
        assert_int_equal(share.level, 19);
    }
    assert_true(weir_key_get_share(f.key, &tickets[0], SECOND / 10, &share));
    assert_int_equal(share.level, 20);
    assert_true(weir_key_get_share(f.key, &tickets[2], 0, &share));
    assert_int_equal(share.active, 0);
    assert_int_equal(share.limit, 0);
    assert_int_equal(share.rate.tokens, 0);
    end_all(&f, tickets, 3, SECOND);
    assert_false(weir_key_get_share(f.key, &tickets[0], SECOND, &share));
    close_key(&f);
}

/* ---- looking at a few only ---- */

static uint32_t ahead_within(const struct fixture *f, const struct weir_ticket *ticket,
                             uint32_t looks_max)
{
    return weir_key_explain_within(f->key, ticket, looks_max, 1).ahead_own;
}

TEST(with_looks_enough_the_explanation_is_the_same)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[20] = {0};
    enter_many(&f, tickets, 20, 1);
    for (int i = 0; i < 20; i++) {
        struct weir_explanation all = explain(&f, &tickets[i], 1);
        struct weir_explanation few = weir_key_explain_within(f.key, &tickets[i], 18, 1);
        assert_int_equal(few.binding, all.binding);
        assert_int_equal(few.ahead_own, all.ahead_own);
        assert_int_equal(few.ahead, all.ahead);
        assert_int_equal(few.start_ns, all.start_ns);
    }
    end_all(&f, tickets, 20, 2);
    close_key(&f);
}

TEST(beyond_its_looks_a_place_is_told_from_the_order_of_coming)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[1001] = {0};
    enter_many(&f, tickets, 1001, 1);
    for (uint32_t i = 1; i <= 1000; i++) {
        assert_int_equal(ahead_within(&f, &tickets[i], 10), i - 1);
    }
    /* Every other one goes: half as many are before each, and evenly so. */
    for (uint32_t i = 2; i <= 1000; i += 2) {
        assert_int_equal(cancel(&f, &tickets[i], 1), WEIR_OK);
    }
    assert_in_range(ahead_within(&f, &tickets[501], 10), 248, 252);
    /* All that are before it go but a few more than are looked at: at least as many are told. */
    for (uint32_t i = 1; i < 470; i += 2) {
        assert_int_equal(cancel(&f, &tickets[i], 1), WEIR_OK);
    }
    assert_in_range(ahead_within(&f, &tickets[501], 10), 10, 20);
    assert_int_equal(ahead_within(&f, &tickets[501], 16), 15);
    end_all(&f, tickets, 1001, 2);
    close_key(&f);
}

TEST(retries_at_the_head_do_not_mislead_those_behind)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[101] = {0};
    struct weir_ticket again[30] = {0};
    enter_many(&f, tickets, 101, 1);
    for (int i = 0; i < 5; i++) {
        (void)!ask(&f, &again[i], (struct weir_request){.retry = true}, 1);
    }
    assert_in_range(ahead_within(&f, &tickets[51], 10), 50, 58);
    for (int i = 5; i < 30; i++) { /* more than are looked at: the middle is as good as any */
        (void)!ask(&f, &again[i], (struct weir_request){.retry = true}, 1);
    }
    assert_int_equal(ahead_within(&f, &tickets[51], 10), 129 / 2);
    assert_int_equal(ahead_within(&f, &again[0], 10), 129 / 2);
    end_all(&f, tickets, 101, 2);
    assert_int_equal(ahead_within(&f, &again[1], 10), 28 / 2); /* only retries are left */
    end_all(&f, again, 30, 2);
    assert_int_equal(ahead_within(&f, &again[1], 10), 0);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(a_ticket_that_does_not_wait_here_is_bound_by_nothing),
        BOTH_WAYS(the_one_who_is_next_is_bound_by_the_limit_and_those_behind_by_their_turn),
        BOTH_WAYS(a_limit_of_0_binds_as_a_limit),
        BOTH_WAYS(an_empty_bucket_binds_and_says_when_it_will_have_refilled),
        BOTH_WAYS(a_pause_binds_and_says_when_it_ends),
        BOTH_WAYS(a_tripped_breaker_binds_while_it_pauses_and_while_a_probe_is_out),
        BOTH_WAYS(a_tenant_at_its_limit_or_its_rate_is_bound_by_that),
        BOTH_WAYS(of_several_lanes_the_one_that_admits_soonest_is_told),
        UNHEARD(
            when_no_lane_opens_by_itself_one_that_has_room_and_is_closed_is_told_before_a_full_one),
        BOTH_WAYS(explaining_changes_nothing),
        BOTH_WAYS(a_single_ticket_of_a_tenant_has_few_ahead_however_many_another_has),
        BOTH_WAYS(a_low_priority_has_more_ahead_than_a_high_one),
        BOTH_WAYS(after_eight_measured_starts_a_start_is_predicted_and_not_before),
        BOTH_WAYS(a_predicted_start_is_not_before_the_moment_that_is_known),
        BOTH_WAYS(the_mean_interval_follows_a_line_that_becomes_slower),
        BOTH_WAYS(a_time_in_which_nobody_waited_is_not_measured),
        BOTH_WAYS(whoever_would_pass_at_once_waits_for_no_time),
        BOTH_WAYS(the_line_is_listed_in_the_order_in_which_it_will_likely_go),
        BOTH_WAYS(whatever_their_priorities_weights_and_costs_they_go_as_they_are_listed),
        BOTH_WAYS(whoever_is_held_back_by_its_tenants_limit_is_listed_and_not_ahead_of_others),
        BOTH_WAYS(a_prediction_counts_those_ahead_times_the_interval),
        BOTH_WAYS(with_early_reject_whoever_would_start_too_late_is_refused_at_once),
        BOTH_WAYS(a_tenant_at_its_own_limit_or_rate_is_not_told_that_it_need_not_wait),
        BOTH_WAYS(a_tenants_share_is_told_by_its_name_whether_it_has_been_there_or_not),
        BOTH_WAYS(a_tenants_share_is_told_to_whoever_waits_or_holds_and_to_nobody_else),
        BOTH_WAYS(with_looks_enough_the_explanation_is_the_same),
        UNHEARD(beyond_its_looks_a_place_is_told_from_the_order_of_coming),
        UNHEARD(retries_at_the_head_do_not_mislead_those_behind),
    };
    return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
