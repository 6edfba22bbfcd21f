/* G11: tenants with limits and rates of their own, which are passed over without losing their
 * place; and how many tenants a key remembers. */
#include "unit/helpers.h"

/* ---- G11: a tenant at its own limit ---- */

TEST(g11_a_tenant_gets_its_own_limit_of_permits_and_not_one_more)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9), .tenant_default = {.limit = 2}});
    struct weir_ticket tickets[3] = {0};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(enter_as(&f, &tickets[i], "a", 1), WEIR_ADMITTED);
    }
    assert_int_equal(enter_as(&f, &tickets[2], "a", 1), WEIR_WAITING);
    leave(&f, &tickets[0], 2);
    expect_news(&f, &tickets[2]);
    end_all(&f, tickets, 3, 3);
    close_key(&f);
}

TEST(g11_a_held_tenant_holds_back_nobody_else)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 3), .tenant_default = {.limit = 1}});
    struct weir_ticket a[2] = {0};
    struct weir_ticket b[2] = {0};
    struct weir_ticket c = {0};
    assert_int_equal(enter_as(&f, &a[0], "a", 1), WEIR_ADMITTED);
    assert_int_equal(enter_as(&f, &a[1], "a", 1), WEIR_WAITING);
    assert_int_equal(enter_as(&f, &b[0], "b", 1), WEIR_ADMITTED);
    assert_int_equal(enter_as(&f, &b[1], "b", 1), WEIR_WAITING);
    assert_int_equal(enter_as(&f, &c, "c", 1), WEIR_ADMITTED);
    /* A permit of c's lane comes back; both who wait are held. */
    leave(&f, &c, 2);
    expect_no_news(&f);
    leave(&f, &b[0], 2);
    expect_news(&f, &b[1]);
    expect_no_news(&f);
    end_all(&f, a, 2, 3);
    end_all(&f, b, 2, 3);
    close_key(&f);
}

TEST(g11_a_held_tenant_keeps_its_place)
{
    const struct weir_tenant_settings tenant = {.name = weir_slice_of("a"), .limit = 1};
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2), .timeout_ns = WEIR_NEVER,
                                        .tenants = &tenant, .tenant_count = 1});
    struct weir_ticket a[3] = {0};
    struct weir_ticket b[4] = {0};
    assert_int_equal(enter_as(&f, &a[0], "a", 1), WEIR_ADMITTED);
    assert_int_equal(enter_as(&f, &b[0], "b", 1), WEIR_ADMITTED);
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(enter_as(&f, &a[i], "a", 1), WEIR_WAITING);
    }
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(enter_as(&f, &b[i], "b", 1), WEIR_WAITING);
    }
    /* a is next, but held: it is passed over. */
    leave(&f, &b[0], 2);
    expect_news(&f, &b[1]);
    /* Its own permit comes back: it stands before b, which has gone twice. */
    leave(&f, &a[0], 3);
    expect_news(&f, &a[1]);
    expect_no_news(&f);
    leave(&f, &a[1], 4);
    expect_news(&f, &a[2]);
    expect_no_news(&f);
    end_all(&f, a, 3, 5);
    end_all(&f, b, 4, 5);
    close_key(&f);
}

TEST(g11_a_held_tenant_is_held_at_every_priority)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 5), .tenant_default = {.limit = 1}});
    struct weir_ticket tickets[4] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 1), 1), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", LOW, 1), 1), WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[2], request_of("a", NORMAL, 1), 1), WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[3], request_of("a", HIGH, 1), 1), WEIR_WAITING);
    leave(&f, &tickets[0], 2);
    expect_news(&f, &tickets[3]);
    expect_no_news(&f);
    leave(&f, &tickets[3], 2);
    expect_news(&f, &tickets[2]);
    leave(&f, &tickets[2], 2);
    expect_news(&f, &tickets[1]);
    leave(&f, &tickets[1], 2);
    close_key(&f);
}

TEST(g11_an_arrival_of_a_held_tenant_waits_even_when_its_own_priority_is_empty)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 5), .tenant_default = {.limit = 1}});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(enter_as(&f, &tickets[0], "a", 1), WEIR_ADMITTED);
    assert_int_equal(enter_as(&f, &tickets[1], "a", 1), WEIR_WAITING);
    struct weir_request request = request_of("a", HIGH, 1);
    request.no_wait = true;
    assert_int_equal(ask(&f, &tickets[2], request, 1), WEIR_REFUSED);
    expect_refused(&tickets[2], WEIR_WOULD_WAIT);
    /* The line's own head goes away: still nobody of a may go. */
    assert_int_equal(cancel(&f, &tickets[1], 1), WEIR_OK);
    assert_int_equal(ask(&f, &tickets[2], request, 1), WEIR_REFUSED);
    leave(&f, &tickets[0], 2);
    assert_int_equal(ask(&f, &tickets[2], request, 2), WEIR_ADMITTED);
    leave(&f, &tickets[2], 3);
    close_key(&f);
}

/* ---- G11: a tenant at its own rate ---- */

/* Ten tokens a second for each tenant, and lanes with room for all. */
#define TENANT_RATE                             \
    LANE(.limit = 9), .timeout_ns = WEIR_NEVER, \
                      .tenant_default = {.rate = {.tokens = 10, .period_ns = SECOND}}

TEST(g11_a_parked_tenant_is_passed_over_and_goes_when_its_bucket_covers_its_ticket)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TENANT_RATE});
    struct weir_ticket a[2] = {0};
    struct weir_ticket b = {0};
    assert_int_equal(ask(&f, &a[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &a[1], request_of("a", NORMAL, 5), 0), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, SECOND / 2);
    assert_int_equal(ask(&f, &b, request_of("b", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(wake(&f, SECOND / 2 - 1), SECOND / 2);
    expect_no_news(&f);
    wake(&f, SECOND / 2);
    expect_news(&f, &a[1]);
    assert_int_equal(f.news.wake_ns, WEIR_NEVER);
    end_all(&f, a, 2, SECOND);
    end_all(&f, &b, 1, SECOND);
    close_key(&f);
}

TEST(g11_a_tenant_that_is_a_nanosecond_early_waits_for_it)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TENANT_RATE});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 10), SECOND - 1), WEIR_WAITING);
    assert_int_equal(wake(&f, SECOND), WEIR_NEVER);
    expect_news(&f, &tickets[1]);
    end_all(&f, tickets, 2, SECOND);
    close_key(&f);
}

TEST(g11_a_parked_tenant_is_parked_at_every_priority)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TENANT_RATE});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 5), 0), WEIR_WAITING);
    /* One token is there, and would do; but the tenant is parked for the other ticket. */
    assert_int_equal(ask(&f, &tickets[2], request_of("a", HIGH, 1), SECOND / 10), WEIR_WAITING);
    /* That ticket goes away: what is left is looked at again. */
    assert_int_equal(cancel(&f, &tickets[1], SECOND / 10), WEIR_OK);
    expect_news(&f, &tickets[2]);
    end_all(&f, tickets, 3, SECOND);
    close_key(&f);
}

TEST(g11_a_ticket_that_was_not_first_may_go_away_without_waking_its_parked_tenant)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TENANT_RATE});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 5), 0), WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[2], request_of("a", NORMAL, 1), 0), WEIR_WAITING);
    assert_int_equal(cancel(&f, &tickets[2], SECOND / 10), WEIR_OK);
    assert_int_equal(f.news.wake_ns, SECOND / 2);
    wake(&f, SECOND / 2);
    expect_news(&f, &tickets[1]);
    end_all(&f, tickets, 3, SECOND);
    close_key(&f);
}

TEST(g11_a_refund_makes_a_parked_tenant_ready_within_the_call)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TENANT_RATE});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 5), 0), WEIR_WAITING);
    leave_for(&f, &tickets[0], 5, 0);
    expect_news(&f, &tickets[1]);
    leave(&f, &tickets[1], 0);
    close_key(&f);
}

/* In both units: requests are one each, whatever they cost. */
TEST(a_ticket_that_moves_to_another_lane_is_charged_once)
{
    static const enum weir_unit units[] = {WEIR_UNIT_COST, WEIR_UNIT_REQUESTS};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        struct weir_lane_settings lanes[] = {{.id = 0, .limit = 5, .rates = NULL},
                                             {.id = 1, .limit = 5, .rates = NULL}};
        struct weir_settings settings = {
            .lanes = lanes,
            .lane_count = 2,
            .timeout_ns = WEIR_NEVER,
            .tenant_default = {
                .rate = {.tokens = 2, .period_ns = DAY, .burst = 2, .unit = units[i]}}};
        open_key(&f, settings);
        struct weir_ticket tickets[3] = {0};
        for (size_t j = 0; j < 2; j++) {
            assert_int_equal(ask(&f, &tickets[j], request_of("a", NORMAL, 1), 0), WEIR_ADMITTED);
            struct weir_result moved = {.outcome = WEIR_OUTCOME_SOFT_LOSS, .moves = true};
            assert_int_equal(leave_with(&f, &tickets[j], moved, 0), WEIR_OK);
            struct weir_request again = request_of("a", NORMAL, 1);
            again.retry = true;
            again.lanes_tried = 1;
            assert_int_equal(ask(&f, &tickets[j], again, 0), WEIR_ADMITTED);
            assert_int_equal(tickets[j].lane_id, 1);
            leave(&f, &tickets[j], 0);
        }
        assert_int_equal(ask(&f, &tickets[2], request_of("a", NORMAL, 1), 0), WEIR_WAITING);
        end_all(&f, tickets, 3, 0);
        close_key(&f);
    }
}

TEST(g11_a_refund_that_is_too_small_parks_the_tenant_for_less_time)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TENANT_RATE});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 5), 0), WEIR_WAITING);
    leave_for(&f, &tickets[0], 8, 0);
    expect_no_news(&f);
    assert_int_equal(f.news.wake_ns, 3 * SECOND / 10);
    wake(&f, 3 * SECOND / 10);
    expect_news(&f, &tickets[1]);
    leave(&f, &tickets[1], SECOND);
    close_key(&f);
}

TEST(g11_a_settlement_into_debt_makes_the_tenant_wait_longer)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TENANT_RATE});
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 5), 0), WEIR_WAITING);
    leave_for(&f, &tickets[0], 20, 0);
    /* It is still parked for half a second, and then again for one more. */
    assert_int_equal(f.news.wake_ns, SECOND / 2);
    assert_int_equal(wake(&f, SECOND / 2), 3 * SECOND / 2);
    expect_no_news(&f);
    wake(&f, 3 * SECOND / 2);
    expect_news(&f, &tickets[1]);
    leave(&f, &tickets[1], 2 * SECOND);
    close_key(&f);
}

TEST(g11_a_tenant_may_have_a_rate_of_requests_and_one_of_tokens)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){
                     LANE(.limit = 9), .timeout_ns = WEIR_NEVER,
                     .tenant_default = {
                         .rate = {.tokens = 2, .period_ns = SECOND, .unit = WEIR_UNIT_REQUESTS},
                         .cost = {.tokens = 10, .period_ns = SECOND, .unit = WEIR_UNIT_COST}}});
    struct weir_ticket a[4] = {0};
    struct weir_ticket b = {0};
    assert_int_equal(ask(&f, &a[0], request_of("a", NORMAL, 8), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &a[1], request_of("a", NORMAL, 3), 0), WEIR_WAITING); /* of tokens */
    assert_int_equal(f.news.wake_ns, SECOND / 10);
    assert_int_equal(ask(&f, &b, request_of("b", NORMAL, 8), 0), WEIR_ADMITTED);
    leave_for(&f, &a[0], 1, 0); /* seven flow back */
    expect_news(&f, &a[1]);
    assert_int_equal(ask(&f, &a[2], request_of("a", NORMAL, 1), 0), WEIR_WAITING); /* of requests */
    assert_int_equal(f.news.wake_ns, SECOND / 2);
    struct weir_share share = weir_key_tenant_share(f.key, weir_slice_of("a"), 0);
    assert_int_equal(share.level, 0);
    assert_int_equal(share.cost_level, 6);
    wake(&f, SECOND / 2);
    expect_news(&f, &a[2]);
    end_all(&f, &a[1], 2, SECOND);
    end_all(&f, &b, 1, SECOND);
    close_key(&f);
}

TEST(g11_a_rate_of_tokens_comes_and_goes_with_the_settings)
{
    struct fixture f;
    struct weir_rate cost = {.tokens = 10, .period_ns = SECOND};
    struct weir_settings settings = {LANE(.limit = 9), .timeout_ns = WEIR_NEVER};
    open_key(&f, settings);
    struct weir_ticket a[3] = {0};
    assert_int_equal(ask(&f, &a[0], request_of("a", NORMAL, 30), 0), WEIR_ADMITTED);
    settings.tenant_default.cost = cost;
    configure(&f, settings, 0);
    leave_for(&f, &a[0], 30, 0); /* which was admitted before there was a bucket */
    assert_int_equal(ask(&f, &a[1], request_of("a", NORMAL, 10), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &a[2], request_of("a", NORMAL, 10), 0), WEIR_WAITING);
    settings.tenant_default.cost = (struct weir_rate){0};
    configure(&f, settings, 0);
    expect_news(&f, &a[2]);
    end_all(&f, &a[1], 2, 0);
    close_key(&f);
}

TEST(g11_and_g9_a_tenants_ticket_larger_than_its_bucket_waits_for_a_full_one)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TENANT_RATE});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 50), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 50), 0), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, 5 * SECOND);
    wake(&f, 5 * SECOND);
    expect_news(&f, &tickets[1]);
    end_all(&f, tickets, 2, 5 * SECOND);
    close_key(&f);
}

TEST(g11_no_wait_is_refused_when_only_the_tenants_rate_is_in_the_way)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TENANT_RATE});
    struct weir_ticket ticket = {0};
    struct weir_request request = request_of("a", NORMAL, 10);
    request.no_wait = true;
    assert_int_equal(ask(&f, &ticket, request, 0), WEIR_ADMITTED);
    leave(&f, &ticket, 0);
    assert_int_equal(ask(&f, &ticket, request, SECOND - 1), WEIR_REFUSED);
    expect_refused(&ticket, WEIR_WOULD_WAIT);
    assert_int_equal(ask(&f, &ticket, request, SECOND), WEIR_ADMITTED);
    leave(&f, &ticket, SECOND);
    close_key(&f);
}

TEST(g11_parked_tenants_wake_in_the_order_of_their_moments)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){TENANT_RATE});
    static const char *const names[] = {"a", "b", "c"};
    static const uint32_t costs[] = {9, 2, 5};
    struct weir_ticket first[3] = {0};
    struct weir_ticket second[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ask(&f, &first[i], request_of(names[i], NORMAL, 10), 0), WEIR_ADMITTED);
        assert_int_equal(ask(&f, &second[i], request_of(names[i], NORMAL, costs[i]), 0),
                         WEIR_WAITING);
    }
    assert_int_equal(f.news.wake_ns, 2 * SECOND / 10);
    assert_int_equal(wake(&f, 2 * SECOND / 10), 5 * SECOND / 10);
    expect_news(&f, &second[1]);
    assert_int_equal(wake(&f, 5 * SECOND / 10), 9 * SECOND / 10);
    expect_news(&f, &second[2]);
    assert_int_equal(wake(&f, 9 * SECOND / 10), WEIR_NEVER);
    expect_news(&f, &second[0]);
    end_all(&f, first, 3, SECOND);
    end_all(&f, second, 3, SECOND);
    close_key(&f);
}

TEST(a_tenant_parked_for_ages_does_not_hide_one_that_is_ready_soon)
{
    struct fixture f;
    open_key(&f,
             (struct weir_settings){LANE(.limit = 9), .timeout_ns = WEIR_NEVER,
                                    .tenant_default = {.rate = {.tokens = 1, .period_ns = DAY}}});
    struct weir_ticket a[2] = {0};
    struct weir_ticket b[2] = {0};
    assert_int_equal(enter_as(&f, &b[0], "b", 0), WEIR_ADMITTED);
    assert_int_equal(enter_as(&f, &b[1], "b", 0), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, DAY);
    /* 2^30 tokens in debt at one a day are more than all the time there is. */
    assert_int_equal(enter_as(&f, &a[0], "a", 0), WEIR_ADMITTED);
    leave_for(&f, &a[0], WEIR_COST_MAX, 0);
    assert_int_equal(enter_as(&f, &a[1], "a", 0), WEIR_WAITING);
    assert_int_equal(f.news.wake_ns, DAY);
    weir_key_wake(f.key, DAY, &f.news);
    expect_news(&f, &b[1]);
    expect_waiting(&a[1]);
    end_all(&f, a, 2, DAY);
    end_all(&f, b, 2, DAY);
    close_key(&f);
}

/* ---- how many tenants a key remembers ---- */

#define expect_name(f, number, text)                                      \
    do {                                                                  \
        struct weir_slice name_ = weir_key_tenant_name((f)->key, number); \
        assert_int_equal(name_.bytes, strlen(text));                      \
        assert_memory_equal(name_.data, text, name_.bytes);               \
    } while (0)

/* One ticket of the tenant comes and goes. */
static void visit(struct fixture *f, const char *tenant, uint64_t now_ns)
{
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_as(f, &ticket, tenant, now_ns), WEIR_ADMITTED);
    leave(f, &ticket, now_ns);
}

TEST(tenants_beyond_the_most_share_one_record)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9), .tenants_max = 2,
                                        .tenant_default = {.limit = 1}});
    struct weir_ticket tickets[6] = {0};
    static const char *const names[] = {"a", "b", "c", "d", "c", "_other"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(enter_as(&f, &tickets[i], names[i], 1), WEIR_ADMITTED);
    }
    assert_int_equal(stats_of(&f).tenants, 3);
    /* All the others are one tenant with c, which has its one permit. */
    for (size_t i = 3; i < 6; i++) {
        assert_int_equal(enter_as(&f, &tickets[i], names[i], 1), WEIR_WAITING);
    }
    assert_int_equal(stats_of(&f).tenants, 3);
    expect_name(&f, 3, "_other");
    leave(&f, &tickets[2], 2);
    expect_news(&f, &tickets[3]);
    expect_no_news(&f);
    end_all(&f, tickets, 6, 3);
    close_key(&f);
}

TEST(the_shared_tenant_follows_the_settings_of_its_name)
{
    const struct weir_tenant_settings tenant = {.name = weir_slice_of("_other"), .limit = 2};
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 9), .tenants_max = 1,
                                        .tenant_default = {.limit = 1}, .tenants = &tenant,
                                        .tenant_count = 1});
    struct weir_ticket tickets[4] = {0};
    assert_int_equal(enter_as(&f, &tickets[0], "a", 1), WEIR_ADMITTED);
    assert_int_equal(enter_as(&f, &tickets[1], "b", 1), WEIR_ADMITTED);
    assert_int_equal(enter_as(&f, &tickets[2], "c", 1), WEIR_ADMITTED);
    assert_int_equal(enter_as(&f, &tickets[3], "d", 1), WEIR_WAITING);
    end_all(&f, tickets, 4, 2);
    close_key(&f);
}

TEST(a_tenant_that_is_idle_is_forgotten_after_the_time_and_not_before)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){.forget_ns = 100});
    visit(&f, "a", 1);
    /* b goes twice, so that the virtual clock comes to where a stands: a owes nothing. */
    visit(&f, "b", 1);
    visit(&f, "b", 1);
    visit(&f, "c", 100);
    assert_int_equal(stats_of(&f).tenants, 3);
    visit(&f, "d", 101);
    assert_int_equal(stats_of(&f).tenants, 3);
    assert_int_equal(weir_key_tenant_name(f.key, 1).bytes, 0);
    expect_name(&f, 4, "d");
    /* When it comes back it is somebody new. */
    visit(&f, "a", 101);
    expect_name(&f, 5, "a");
    close_key(&f);
}

TEST(a_tenants_idle_time_begins_when_its_last_permit_comes_back)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){.forget_ns = 100});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_as(&f, &ticket, "a", 1), WEIR_ADMITTED);
    leave(&f, &ticket, 50);
    visit(&f, "b", 50);
    visit(&f, "b", 50);
    visit(&f, "c", 149);
    visit(&f, "d", 149);
    assert_int_equal(weir_key_tenant_name(f.key, 1).bytes, 1);
    visit(&f, "e", 150);
    visit(&f, "f", 150);
    assert_int_equal(weir_key_tenant_name(f.key, 1).bytes, 0);
    close_key(&f);
}

TEST(a_tenant_in_debt_to_the_virtual_clock_is_not_forgotten)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){.forget_ns = 100});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_as(&f, &ticket, "a", 1), WEIR_ADMITTED);
    leave_for(&f, &ticket, 1000, 1);
    visit(&f, "b", 1);
    visit(&f, "b", 1);
    visit(&f, "c", DAY);
    visit(&f, "d", DAY);
    assert_int_equal(weir_key_tenant_name(f.key, 1).bytes, 1);
    close_key(&f);
}

TEST(a_tenant_whose_bucket_is_not_full_is_not_forgotten)
{
    const struct weir_tenant_settings tenant = {.name = weir_slice_of("a"),
                                                .rate = {.tokens = 1, .period_ns = SECOND}};
    struct fixture f;
    open_key(&f, (struct weir_settings){.forget_ns = 100, .tenants = &tenant, .tenant_count = 1});
    visit(&f, "a", 0);
    visit(&f, "b", 0);
    visit(&f, "b", 0);
    visit(&f, "c", SECOND - 1);
    visit(&f, "d", SECOND - 1);
    assert_int_equal(weir_key_tenant_name(f.key, 1).bytes, 1);
    visit(&f, "e", SECOND);
    visit(&f, "f", SECOND);
    assert_int_equal(weir_key_tenant_name(f.key, 1).bytes, 0);
    close_key(&f);
}

TEST(a_tenant_that_waits_or_holds_a_permit_is_not_forgotten)
{
    struct fixture f;
    open_key(&f,
             (struct weir_settings){LANE(.limit = 2), .forget_ns = 1, .timeout_ns = WEIR_NEVER});
    struct weir_ticket held = {0};
    struct weir_ticket waiting = {0};
    assert_int_equal(enter_as(&f, &held, "a", 1), WEIR_ADMITTED);
    for (int i = 0; i < 9; i++) {
        char name[2] = {(char)('p' + i), 0};
        visit(&f, name, DAY + (uint64_t)i);
    }
    assert_int_equal(weir_key_tenant_name(f.key, 1).bytes, 1);
    struct weir_ticket second = {0};
    assert_int_equal(enter_as(&f, &second, "a", 2 * DAY), WEIR_ADMITTED);
    assert_int_equal(enter_as(&f, &waiting, "b", 2 * DAY), WEIR_WAITING);
    struct weir_ticket others[9] = {0};
    for (size_t i = 0; i < 9; i++) {
        char name[2] = {(char)('A' + i), 0};
        assert_int_equal(enter_as(&f, &others[i], name, 3 * DAY), WEIR_WAITING);
        assert_int_equal(cancel(&f, &others[i], 3 * DAY), WEIR_OK);
    }
    leave(&f, &held, 4 * DAY);
    expect_news(&f, &waiting);
    leave(&f, &waiting, 4 * DAY);
    leave(&f, &second, 4 * DAY);
    close_key(&f);
}

TEST(a_full_key_forgets_idle_tenants_to_make_room)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){.forget_ns = 100, .tenants_max = 8});
    struct weir_ticket held[4] = {0};
    for (size_t i = 0; i < 8; i++) {
        char name[2] = {(char)('a' + i), 0};
        visit(&f, name, 1);
        visit(&f, name, 1);
        if (i < 4) {
            assert_int_equal(enter_as(&f, &held[i], name, 1), WEIR_ADMITTED);
        }
    }
    assert_int_equal(stats_of(&f).tenants, 8);
    /* Nobody has been idle for long enough: the next one shares. */
    visit(&f, "x", 100);
    expect_name(&f, 9, "_other");
    /* Now some have, though not those that are looked at first: they hold permits. */
    visit(&f, "y", 101);
    expect_name(&f, 10, "y");
    assert_true(stats_of(&f).tenants <= 8);
    for (uint32_t i = 1; i <= 4; i++) {
        assert_int_equal(weir_key_tenant_name(f.key, i).bytes, 1);
    }
    end_all(&f, held, 4, 102);
    close_key(&f);
}

TEST(many_tenants_come_and_go_and_the_key_does_not_grow)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){.forget_ns = 100});
    for (uint64_t i = 0; i < 5000; i++) {
        char name[16];
        snprintf(name, sizeof name, "tenant %u", (unsigned)i);
        struct weir_ticket ticket = {0};
        struct weir_request request = request_of(name, NORMAL, 1);
        struct weir_result result = {0};
        assert_int_equal(weir_key_enter(f.key, &ticket, &request, i * 10, &f.news), WEIR_ADMITTED);
        assert_int_equal(weir_key_leave(f.key, &ticket, &result, i * 10, &f.news), WEIR_OK);
        request = request_of("regular", NORMAL, 1);
        assert_int_equal(weir_key_enter(f.key, &ticket, &request, i * 10, &f.news), WEIR_ADMITTED);
        assert_int_equal(weir_key_leave(f.key, &ticket, &result, i * 10, &f.news), WEIR_OK);
        assert_true(stats_of(&f).tenants <= 100);
    }
    weir_key_validate(f.key);
    close_key(&f);
}

TEST(a_tenants_number_finds_its_name_and_other_numbers_find_none)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){0});
    visit(&f, "acme", 1);
    visit(&f, "", 1);
    expect_name(&f, 1, "acme");
    assert_int_equal(weir_key_tenant_name(f.key, 2).bytes, 0);
    assert_int_equal(weir_key_tenant_name(f.key, 0).bytes, 0);
    assert_int_equal(weir_key_tenant_name(f.key, 3).bytes, 0);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(g11_a_tenant_gets_its_own_limit_of_permits_and_not_one_more),
        BOTH_WAYS(g11_a_held_tenant_holds_back_nobody_else),
        BOTH_WAYS(g11_a_held_tenant_keeps_its_place),
        BOTH_WAYS(g11_a_held_tenant_is_held_at_every_priority),
        BOTH_WAYS(g11_an_arrival_of_a_held_tenant_waits_even_when_its_own_priority_is_empty),
        BOTH_WAYS(g11_a_parked_tenant_is_passed_over_and_goes_when_its_bucket_covers_its_ticket),
        BOTH_WAYS(g11_a_tenant_that_is_a_nanosecond_early_waits_for_it),
        BOTH_WAYS(g11_a_parked_tenant_is_parked_at_every_priority),
        BOTH_WAYS(g11_a_ticket_that_was_not_first_may_go_away_without_waking_its_parked_tenant),
        BOTH_WAYS(g11_a_refund_makes_a_parked_tenant_ready_within_the_call),
        BOTH_WAYS(a_ticket_that_moves_to_another_lane_is_charged_once),
        BOTH_WAYS(g11_a_refund_that_is_too_small_parks_the_tenant_for_less_time),
        BOTH_WAYS(g11_a_settlement_into_debt_makes_the_tenant_wait_longer),
        BOTH_WAYS(g11_a_tenant_may_have_a_rate_of_requests_and_one_of_tokens),
        BOTH_WAYS(g11_a_rate_of_tokens_comes_and_goes_with_the_settings),
        BOTH_WAYS(g11_and_g9_a_tenants_ticket_larger_than_its_bucket_waits_for_a_full_one),
        BOTH_WAYS(g11_no_wait_is_refused_when_only_the_tenants_rate_is_in_the_way),
        BOTH_WAYS(g11_parked_tenants_wake_in_the_order_of_their_moments),
        BOTH_WAYS(a_tenant_parked_for_ages_does_not_hide_one_that_is_ready_soon),
        BOTH_WAYS(tenants_beyond_the_most_share_one_record),
        BOTH_WAYS(the_shared_tenant_follows_the_settings_of_its_name),
        BOTH_WAYS(a_tenant_that_is_idle_is_forgotten_after_the_time_and_not_before),
        BOTH_WAYS(a_tenants_idle_time_begins_when_its_last_permit_comes_back),
        BOTH_WAYS(a_tenant_in_debt_to_the_virtual_clock_is_not_forgotten),
        BOTH_WAYS(a_tenant_whose_bucket_is_not_full_is_not_forgotten),
        BOTH_WAYS(a_tenant_that_waits_or_holds_a_permit_is_not_forgotten),
        BOTH_WAYS(a_full_key_forgets_idle_tenants_to_make_room),
        BOTH_WAYS(many_tenants_come_and_go_and_the_key_does_not_grow),
        BOTH_WAYS(a_tenants_number_finds_its_name_and_other_numbers_find_none),
    };
    return cmocka_run_group_tests_name("tenant", tests, NULL, NULL);
}
