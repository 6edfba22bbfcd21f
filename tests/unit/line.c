/* Who is next: priorities by weight, tenants by virtual time, first come first served within. */
#include "unit/helpers.h"

/* One permit, which somebody without a name holds, and a line in which nobody times out. */
#define ONE_PERMIT LANE(.limit = 1), .timeout_ns = WEIR_NEVER

/* Passes the one permit on, and tells who got it; null if nobody did. */
static struct weir_ticket *pass_on(struct fixture *f, struct weir_ticket **holder, uint64_t now_ns)
{
    leave(f, *holder, now_ns);
    *holder = weir_news_next(&f->news);
    expect_no_news(f);
    return *holder;
}

/* Passes the permit on to everybody in line; writes each one's letter, its tag. */
static void expect_order(struct fixture *f, struct weir_ticket *holder, const char *expected)
{
    char order[256] = {0};
    for (size_t i = 0; pass_on(f, &holder, 1) != NULL; i++) {
        assert_true(i < sizeof order - 1);
        order[i] = (char)holder->tag;
    }
    assert_string_equal(order, expected);
}

static void wait_as(struct fixture *f, struct weir_ticket *ticket, struct weir_request request,
                    char letter)
{
    request.tag = (uint64_t)letter;
    assert_int_equal(ask(f, ticket, request, 1), WEIR_WAITING);
}

/* ---- priorities (G7) ---- */

static void wait_at_all_priorities(struct fixture *f, struct weir_ticket *tickets, size_t each)
{
    for (size_t i = 0; i < each; i++) {
        wait_as(f, tickets++, request_of("a", LOW, 1), 'L');
        wait_as(f, tickets++, request_of("a", NORMAL, 1), 'N');
        wait_as(f, tickets++, request_of("a", HIGH, 1), 'H');
    }
}

TEST(g7_with_all_priorities_waiting_admissions_are_4_high_3_normal_1_low)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[24] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    wait_at_all_priorities(&f, tickets, 8);
    /* High is used up after two cycles, then normal, of which 2 are left, and then low. */
    expect_order(&f, &holder,
                 "HNHNLHNH"
                 "HNHNLHNH"
                 "NNLLLLLL");
    close_key(&f);
}

TEST(g7_any_8_admissions_in_a_row_are_one_cycle_whatever_came_before)
{
    /* Before all three wait, `before` tickets of one priority are admitted from the line. */
    for (int priority = 0; priority < WEIR_PRIORITY_COUNT; priority++) {
        for (size_t before = 0; before < 9; before++) {
            struct fixture f;
            open_key(&f, (struct weir_settings){ONE_PERMIT});
            struct weir_ticket first = {0};
            struct weir_ticket *holder = &first;
            struct weir_ticket early[9] = {0};
            struct weir_ticket tickets[45] = {0};
            assert_int_equal(enter(&f, holder, 1), WEIR_ADMITTED);
            for (size_t i = 0; i < before; i++) {
                wait_as(&f, &early[i], request_of("a", (enum weir_priority)priority, 1), 'x');
            }
            for (size_t i = 0; i < before; i++) {
                pass_on(&f, &holder, 1);
            }
            wait_at_all_priorities(&f, tickets, 15);
            uint32_t seen[WEIR_PRIORITY_COUNT] = {0};
            enum weir_priority recent[24];
            for (size_t i = 0; i < 24; i++) {
                recent[i] = (enum weir_priority)pass_on(&f, &holder, 1)->priority;
                seen[recent[i]]++;
                if (i >= 8) {
                    seen[recent[i - 8]]--;
                }
                if (i >= 7) {
                    assert_int_equal(seen[HIGH], 4);
                    assert_int_equal(seen[NORMAL], 3);
                    assert_int_equal(seen[LOW], 1);
                }
            }
            end_all(&f, tickets, 45, 1);
            end_all(&f, holder, 1, 1);
            close_key(&f);
        }
    }
}

TEST(a_priority_that_waits_alone_gets_every_turn)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[5] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    for (size_t i = 0; i < 5; i++) {
        wait_as(&f, &tickets[i], request_of("a", LOW, 1), 'L');
    }
    expect_order(&f, &holder, "LLLLL");
    close_key(&f);
}

TEST(the_cursor_stays_behind_the_slot_that_was_taken)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket first = {0};
    struct weir_ticket *holder = &first;
    struct weir_ticket low = {0};
    struct weir_ticket tickets[9] = {0};
    assert_int_equal(enter(&f, holder, 1), WEIR_ADMITTED);
    wait_as(&f, &low, request_of("a", LOW, 1), 'L');
    assert_ptr_equal(pass_on(&f, &holder, 1), &low);
    /* The cycle is H N H N L H N H, and the fifth slot was taken. */
    wait_at_all_priorities(&f, tickets, 3);
    expect_order(&f, holder, "HNHHNNLLL");
    close_key(&f);
}

TEST(tickets_that_never_waited_do_not_move_the_cursor)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[6] = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(&f, &holder, request_of("a", HIGH, 1), 1), WEIR_ADMITTED);
        leave(&f, &holder, 1);
    }
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    wait_at_all_priorities(&f, tickets, 2);
    expect_order(&f, &holder, "HNHNLL");
    close_key(&f);
}

TEST(other_weights_make_another_cycle)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT,
                                        .priority_weights = {[HIGH] = 5, [NORMAL] = 1, [LOW] = 1}});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[21] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    wait_at_all_priorities(&f, tickets, 7);
    expect_order(&f, &holder,
                 "HHNHLHH"
                 "HHNLNLNLNLNLNL");
    close_key(&f);
}

/* ---- tenants ---- */

static void wait_many(struct fixture *f, struct weir_ticket *tickets, size_t count,
                      const char *tenant, uint32_t cost)
{
    for (size_t i = 0; i < count; i++) {
        wait_as(f, &tickets[i], request_of(tenant, NORMAL, cost), tenant[0]);
    }
}

TEST(tenants_take_turns_and_the_one_who_came_first_wins_a_tie)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[9] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 4, "b", 1);
    wait_many(&f, &tickets[4], 3, "a", 1);
    wait_many(&f, &tickets[7], 2, "c", 1);
    expect_order(&f, &holder, "bacbacbab");
    close_key(&f);
}

TEST(a_tenant_that_has_just_gone_is_behind_one_that_has_not)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[4] = {0};
    assert_int_equal(enter_as(&f, &holder, "a", 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 2, "a", 1);
    wait_many(&f, &tickets[2], 2, "b", 1);
    expect_order(&f, &holder, "baba");
    close_key(&f);
}

TEST(within_a_tenant_it_is_first_come_first_served)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[26] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    for (size_t i = 0; i < 26; i++) {
        wait_as(&f, &tickets[i], request_of("a", NORMAL, 1 + (uint32_t)(i * 7 % 5)),
                (char)('a' + i));
    }
    expect_order(&f, &holder, "abcdefghijklmnopqrstuvwxyz");
    close_key(&f);
}

TEST(a_weight_of_2_gets_two_turns_for_each_of_the_others)
{
    const struct weir_tenant_settings tenant = {.name = weir_slice_of("a"), .weight = 2};
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT, .tenants = &tenant, .tenant_count = 1});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[18] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 9, "a", 1);
    wait_many(&f, &tickets[9], 9, "b", 1);
    expect_order(&f, &holder, "abaabaabaabaabbbbb");
    close_key(&f);
}

TEST(a_tenants_turns_are_charged_by_cost)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[13] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 3, "a", 4);
    wait_many(&f, &tickets[3], 10, "b", 1);
    /* After a's first, b has 4 units to go until it stands where a does; a wins the tie. */
    expect_order(&f, &holder, "abbbbabbbbabb");
    close_key(&f);
}

TEST(the_true_cost_corrects_what_was_charged_up)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[8] = {0};
    assert_int_equal(enter_as(&f, &holder, "a", 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 3, "a", 1);
    wait_many(&f, &tickets[3], 5, "b", 1);
    /* It was charged 1 and cost 4. */
    leave_for(&f, &holder, 4, 1);
    expect_news(&f, &tickets[3]);
    expect_order(&f, &tickets[3], "bbbabaa");
    close_key(&f);
}

TEST(the_true_cost_corrects_what_was_charged_down)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[8] = {0};
    assert_int_equal(ask(&f, &holder, request_of("a", NORMAL, 100), 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 3, "a", 1);
    wait_many(&f, &tickets[3], 5, "b", 1);
    leave_for(&f, &holder, 1, 1);
    expect_news(&f, &tickets[3]);
    expect_order(&f, &tickets[3],
                 "ababab"
                 "b");
    close_key(&f);
}

TEST(a_cancelled_permit_keeps_what_it_was_charged)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[8] = {0};
    assert_int_equal(ask(&f, &holder, request_of("a", NORMAL, 3), 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 3, "a", 1);
    wait_many(&f, &tickets[3], 5, "b", 1);
    assert_int_equal(cancel(&f, &holder, 1), WEIR_OK);
    expect_news(&f, &tickets[3]);
    expect_order(&f, &tickets[3], "bbababa");
    close_key(&f);
}

TEST(idle_time_saves_up_no_credit)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_as(&f, &ticket, "b", 1), WEIR_ADMITTED);
    leave(&f, &ticket, 1);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(enter_as(&f, &ticket, "a", 1), WEIR_ADMITTED);
        leave(&f, &ticket, 1);
    }
    struct weir_ticket tickets[8] = {0};
    assert_int_equal(enter_as(&f, &ticket, "a", 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 4, "a", 1);
    wait_many(&f, &tickets[4], 4, "b", 1);
    /* b, which has had next to nothing, gets no more than its share. */
    expect_order(&f, &ticket, "babababa");
    close_key(&f);
}

TEST(of_two_who_were_idle_the_first_to_come_is_first_whatever_they_had_before)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket ticket = {0};
    /* c has had more than b, but both are long behind the clock. */
    static const char *const names[] = {"b", "c", "c", "a", "a", "a", "a", "a", "a"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_int_equal(enter_as(&f, &ticket, names[i], 1), WEIR_ADMITTED);
        leave(&f, &ticket, 1);
    }
    struct weir_ticket tickets[4] = {0};
    assert_int_equal(enter_as(&f, &ticket, "a", 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 2, "c", 1);
    wait_many(&f, &tickets[2], 2, "b", 1);
    expect_order(&f, &ticket, "cbcb");
    close_key(&f);
}

TEST(idle_time_saves_up_no_credit_either_for_who_passes_at_once)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_as(&f, &ticket, "b", 1), WEIR_ADMITTED);
    leave(&f, &ticket, 1);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(enter_as(&f, &ticket, "a", 1), WEIR_ADMITTED);
        leave(&f, &ticket, 1);
    }
    struct weir_ticket tickets[6] = {0};
    assert_int_equal(enter_as(&f, &ticket, "b", 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 3, "a", 1);
    wait_many(&f, &tickets[3], 3, "b", 1);
    expect_order(&f, &ticket, "ababab");
    close_key(&f);
}

TEST(a_debt_is_not_forgotten_when_the_tenant_goes_idle)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket ticket = {0};
    assert_int_equal(enter_as(&f, &ticket, "a", 1), WEIR_ADMITTED);
    leave_for(&f, &ticket, 4, 1);
    assert_int_equal(enter_as(&f, &ticket, "c", 1), WEIR_ADMITTED);
    struct weir_ticket tickets[8] = {0};
    wait_many(&f, &tickets[0], 3, "a", 1);
    wait_many(&f, &tickets[3], 5, "b", 1);
    expect_order(&f, &ticket, "bbbbabaa");
    close_key(&f);
}

TEST(each_priority_has_a_virtual_time_of_its_own)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[4] = {0};
    /* Much of a high priority does not count at the normal one. */
    assert_int_equal(ask(&f, &holder, request_of("a", HIGH, 1000), 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 2, "a", 1);
    wait_many(&f, &tickets[2], 2, "b", 1);
    expect_order(&f, &holder, "abab");
    close_key(&f);
}

TEST(g7_one_ticket_behind_a_hundred_thousand_of_another_tenant_waits_one_turn)
{
    enum {
        many = 100000
    };
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT, .line = {.tickets = many + 1}});
    struct weir_ticket holder = {0};
    struct weir_ticket *tickets = calloc(many, sizeof *tickets);
    assert_non_null(tickets);
    struct weir_request request = request_of("a", NORMAL, 1);
    assert_int_equal(weir_key_enter(f.key, &holder, &request, 1, &f.news), WEIR_ADMITTED);
    for (size_t i = 0; i < many; i++) {
        assert_int_equal(weir_key_enter(f.key, &tickets[i], &request, 1, &f.news), WEIR_WAITING);
    }
    struct weir_ticket single = {0};
    assert_int_equal(enter_as(&f, &single, "b", 1), WEIR_WAITING);
    leave(&f, &holder, 2);
    expect_news(&f, &single);
    for (size_t i = 0; i < many; i++) {
        assert_int_equal(weir_key_cancel(f.key, &tickets[i], 3, &f.news), WEIR_OK);
    }
    leave(&f, &single, 3);
    close_key(&f);
    free(tickets);
}

/* The most that virtual time can move at once: the largest cost at the smallest weight. */
static void enter_ten_thousand(struct fixture *f, struct weir_ticket *tickets, uint32_t cost)
{
    struct weir_request request = request_of("a", NORMAL, cost);
    for (size_t i = 0; i < 10000; i++) {
        assert_int_equal(weir_key_enter(f->key, &tickets[i], &request, 1, &f->news), WEIR_ADMITTED);
    }
}

static void leave_ten_thousand(struct fixture *f, struct weir_ticket *tickets, uint32_t cost)
{
    struct weir_result result = {.cost_known = true, .cost = cost};
    for (size_t i = 0; i < 10000; i++) {
        assert_int_equal(weir_key_leave(f->key, &tickets[i], &result, 1, &f->news), WEIR_OK);
    }
}

TEST(ten_thousand_settlements_at_the_largest_cost_stay_a_debt)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 10000), .timeout_ns = WEIR_NEVER});
    static struct weir_ticket many[10000];
    memset(many, 0, sizeof many);
    enter_ten_thousand(&f, many, 1);
    leave_ten_thousand(&f, many, WEIR_COST_MAX);
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[6] = {0};
    assert_int_equal(set_limit(&f, 0, 1, 1), WEIR_OK);
    assert_int_equal(enter_as(&f, &holder, "c", 1), WEIR_ADMITTED);
    wait_many(&f, &tickets[0], 3, "a", 1);
    wait_many(&f, &tickets[3], 3, "b", 1);
    expect_order(&f, &holder, "bbbaaa");
    close_key(&f);
}

TEST(ten_thousand_refunds_of_the_largest_cost_are_no_debt)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 10001), .timeout_ns = WEIR_NEVER});
    static struct weir_ticket many[10000];
    memset(many, 0, sizeof many);
    enter_ten_thousand(&f, many, WEIR_COST_MAX);
    struct weir_ticket holder = {0};
    assert_int_equal(enter_as(&f, &holder, "a", 1), WEIR_ADMITTED);
    leave_ten_thousand(&f, many, 0);
    struct weir_ticket tickets[6] = {0};
    assert_int_equal(set_limit(&f, 0, 1, 1), WEIR_OK);
    wait_many(&f, &tickets[0], 3, "a", 1);
    wait_many(&f, &tickets[3], 3, "b", 1);
    expect_order(&f, &holder, "ababab");
    close_key(&f);
}

/* Lets a tenant pass with so much cost that its virtual time goes over half of all numbers. */
static void pass_half_the_circle(struct fixture *f, struct weir_ticket *ticket)
{
    for (int i = 0; i < 9000; i++) {
        assert_int_equal(ask(f, ticket, request_of("a", NORMAL, WEIR_COST_MAX), 1), WEIR_ADMITTED);
        leave(f, ticket, 1);
    }
    assert_int_equal(enter_as(f, ticket, "a", 1), WEIR_ADMITTED);
}

TEST(g7_a_new_tenant_does_not_starve_where_virtual_time_is_old)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[6] = {0};
    pass_half_the_circle(&f, &holder);
    wait_many(&f, &tickets[0], 3, "a", 1);
    wait_many(&f, &tickets[3], 3, "b", 1);
    expect_order(&f, &holder, "bababa");
    close_key(&f);
}

TEST(g7_a_tenant_that_was_idle_for_ages_does_not_starve)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[6] = {0};
    assert_int_equal(enter_as(&f, &holder, "b", 1), WEIR_ADMITTED);
    leave(&f, &holder, 1);
    pass_half_the_circle(&f, &holder);
    wait_many(&f, &tickets[0], 3, "a", 1);
    wait_many(&f, &tickets[3], 3, "b", 1);
    expect_order(&f, &holder, "bababa");
    close_key(&f);
}

TEST(g7_a_line_that_only_drains_forgets_nobody_who_was_idle)
{
    /* Enough of the largest cost that the virtual clock goes half way round. */
    enum {
        TICKETS = 9000
    };
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .line = {.tickets = TICKETS},
                                        .timeout_ns = WEIR_NEVER});
    struct weir_ticket *tickets = calloc(TICKETS, sizeof *tickets);
    assert_non_null(tickets);
    struct weir_ticket idle = {0};
    assert_int_equal(ask(&f, &idle, request_of("idle", NORMAL, 1), 1), WEIR_ADMITTED);
    leave(&f, &idle, 1);
    struct weir_request large = request_of("busy", NORMAL, WEIR_COST_MAX);
    for (uint32_t i = 0; i < TICKETS; i++) {
        (void)!weir_key_enter(f.key, &tickets[i], &large, 1, &f.news);
    }
    struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
    for (uint32_t i = 0; i < TICKETS - 10; i++) {
        assert_int_equal(weir_key_leave(f.key, &tickets[i], &result, 1, &f.news), WEIR_OK);
        assert_ptr_equal(weir_news_next(&f.news), &tickets[i + 1]);
    }
    assert_int_equal(ask(&f, &idle, request_of("idle", NORMAL, 1), 1), WEIR_WAITING);
    assert_int_equal(weir_key_leave(f.key, &tickets[TICKETS - 10], &result, 1, &f.news), WEIR_OK);
    assert_ptr_equal(weir_news_next(&f.news), &idle);
    leave(&f, &idle, 1);
    for (uint32_t i = TICKETS - 9; i < TICKETS; i++) {
        (void)!weir_key_cancel(f.key, &tickets[i], 1, &f.news);
        while (weir_news_next(&f.news) != NULL) {
        }
    }
    close_key(&f);
    free(tickets);
}

TEST(g7_a_tenant_that_was_held_for_ages_does_not_starve)
{
    const struct weir_tenant_settings tenant = {.name = weir_slice_of("b"), .limit = 1};
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2), .timeout_ns = WEIR_NEVER,
                                        .tenants = &tenant, .tenant_count = 1});
    struct weir_ticket b[2] = {0};
    struct weir_ticket a[4] = {0};
    assert_int_equal(enter_as(&f, &b[0], "b", 1), WEIR_ADMITTED);
    assert_int_equal(enter_as(&f, &b[1], "b", 1), WEIR_WAITING);
    pass_half_the_circle(&f, &a[0]);
    wait_many(&f, &a[1], 3, "a", 1);
    /* b has had one ticket in all this time. */
    leave(&f, &b[0], 1);
    struct weir_ticket *next = weir_news_next(&f.news);
    end_all(&f, a, 4, 1);
    end_all(&f, b, 2, 1);
    close_key(&f);
    assert_ptr_equal(next, &b[1]);
}

/* ---- retries ---- */

static struct weir_request retry_of(const char *tenant)
{
    struct weir_request request = request_of(tenant, NORMAL, 1);
    request.retry = true;
    return request;
}

TEST(a_retry_goes_to_the_head_of_its_tenants_line_and_the_latest_first)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[4] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    wait_as(&f, &tickets[0], request_of("a", NORMAL, 1), '1');
    wait_as(&f, &tickets[1], request_of("a", NORMAL, 1), '2');
    wait_as(&f, &tickets[2], retry_of("a"), '3');
    wait_as(&f, &tickets[3], retry_of("a"), '4');
    expect_order(&f, &holder, "4312");
    close_key(&f);
}

TEST(a_retry_does_not_pass_other_tenants_nor_other_priorities)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ONE_PERMIT});
    struct weir_ticket holder = {0};
    struct weir_ticket tickets[4] = {0};
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    wait_as(&f, &tickets[0], request_of("b", NORMAL, 1), 'b');
    wait_as(&f, &tickets[1], request_of("a", HIGH, 1), 'h');
    wait_as(&f, &tickets[2], request_of("a", NORMAL, 1), 'a');
    wait_as(&f, &tickets[3], retry_of("a"), 'r');
    expect_order(&f, &holder, "hbra");
    close_key(&f);
}

TEST(a_retrys_deadline_runs_on)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket holder = {0};
    struct weir_ticket ticket = {0};
    struct weir_request request = {.deadline_ns = 101};
    assert_int_equal(ask(&f, &ticket, request, 1), WEIR_ADMITTED);
    leave_as(&f, &ticket, WEIR_OUTCOME_RATE_LIMIT, 50);
    assert_int_equal(enter(&f, &holder, 60), WEIR_ADMITTED);
    request.retry = true;
    assert_int_equal(ask(&f, &ticket, request, 60), WEIR_WAITING);
    wake(&f, 100);
    expect_waiting(&ticket);
    wake(&f, 101);
    expect_ended(&ticket, WEIR_END_TIMEOUT);
    expect_news(&f, &ticket);
    leave(&f, &holder, 101);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(g7_with_all_priorities_waiting_admissions_are_4_high_3_normal_1_low),
        BOTH_WAYS(g7_any_8_admissions_in_a_row_are_one_cycle_whatever_came_before),
        BOTH_WAYS(a_priority_that_waits_alone_gets_every_turn),
        BOTH_WAYS(the_cursor_stays_behind_the_slot_that_was_taken),
        BOTH_WAYS(tickets_that_never_waited_do_not_move_the_cursor),
        BOTH_WAYS(other_weights_make_another_cycle),
        BOTH_WAYS(tenants_take_turns_and_the_one_who_came_first_wins_a_tie),
        BOTH_WAYS(a_tenant_that_has_just_gone_is_behind_one_that_has_not),
        BOTH_WAYS(within_a_tenant_it_is_first_come_first_served),
        BOTH_WAYS(a_weight_of_2_gets_two_turns_for_each_of_the_others),
        BOTH_WAYS(a_tenants_turns_are_charged_by_cost),
        BOTH_WAYS(the_true_cost_corrects_what_was_charged_up),
        BOTH_WAYS(the_true_cost_corrects_what_was_charged_down),
        BOTH_WAYS(a_cancelled_permit_keeps_what_it_was_charged),
        BOTH_WAYS(idle_time_saves_up_no_credit),
        BOTH_WAYS(of_two_who_were_idle_the_first_to_come_is_first_whatever_they_had_before),
        BOTH_WAYS(idle_time_saves_up_no_credit_either_for_who_passes_at_once),
        BOTH_WAYS(a_debt_is_not_forgotten_when_the_tenant_goes_idle),
        BOTH_WAYS(each_priority_has_a_virtual_time_of_its_own),
        BOTH_WAYS(g7_one_ticket_behind_a_hundred_thousand_of_another_tenant_waits_one_turn),
        BOTH_WAYS(ten_thousand_settlements_at_the_largest_cost_stay_a_debt),
        BOTH_WAYS(ten_thousand_refunds_of_the_largest_cost_are_no_debt),
        BOTH_WAYS(g7_a_new_tenant_does_not_starve_where_virtual_time_is_old),
        BOTH_WAYS(g7_a_tenant_that_was_idle_for_ages_does_not_starve),
        BOTH_WAYS(g7_a_line_that_only_drains_forgets_nobody_who_was_idle),
        BOTH_WAYS(g7_a_tenant_that_was_held_for_ages_does_not_starve),
        BOTH_WAYS(a_retry_goes_to_the_head_of_its_tenants_line_and_the_latest_first),
        BOTH_WAYS(a_retry_does_not_pass_other_tenants_nor_other_priorities),
        BOTH_WAYS(a_retrys_deadline_runs_on),
    };
    return cmocka_run_group_tests_name("line", tests, NULL, NULL);
}
