/* G10: bounds on what waits, and who must go when an arrival below its share finds the line full.
 */
#include "unit/helpers.h"

/* A lane that somebody holds, so that everybody else waits; nobody times out. */
#define HELD_LANE LANE(.limit = 1), .timeout_ns = WEIR_NEVER

struct door {
    struct fixture f;
    struct weir_ticket holder;
    struct weir_ticket tickets[64];
    size_t count;
};

static void open_door(struct door *d, struct weir_settings settings)
{
    memset(d, 0, sizeof *d);
    open_key(&d->f, settings);
    assert_int_equal(enter(&d->f, &d->holder, 1), WEIR_ADMITTED);
}

static void close_door(struct door *d)
{
    end_all(&d->f, d->tickets, d->count, 1);
    leave(&d->f, &d->holder, 1);
    close_key(&d->f);
}

/* Another ticket comes to the door. */
static struct weir_ticket *arrive(struct door *d, struct weir_request request)
{
    assert_true(d->count < COUNT_OF(d->tickets));
    struct weir_ticket *ticket = &d->tickets[d->count++];
    (void)!ask(&d->f, ticket, request, 1);
    return ticket;
}

static struct weir_ticket *arrive_as(struct door *d, const char *tenant)
{
    return arrive(d, request_of(tenant, NORMAL, 1));
}

static struct weir_ticket *arrive_for(struct door *d, const char *tenant, uint32_t cost)
{
    return arrive(d, request_of(tenant, NORMAL, cost));
}

/* The arrival was taken in, and these two had to go for it, in this order; null is nobody. */
#define expect_displaced(d, first, second)                       \
    do {                                                         \
        struct weir_ticket *expected_[] = {first, second};       \
        for (size_t i_ = 0; i_ < 2; i_++) {                      \
            expect_news(&(d)->f, expected_[i_]);                 \
            if (expected_[i_] != NULL) {                         \
                expect_ended(expected_[i_], WEIR_END_DISPLACED); \
            }                                                    \
        }                                                        \
        expect_no_news(&(d)->f);                                 \
    } while (0)

/* ---- the bounds themselves ---- */

TEST(the_keys_line_holds_its_bound_of_tickets_and_not_one_more)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 3}});
    for (int i = 0; i < 3; i++) {
        expect_waiting(arrive_as(&d, "a"));
    }
    expect_refused(arrive_as(&d, "a"), WEIR_LINE_FULL);
    expect_counts(&d.f, 1, 3);
    /* One goes, and there is room for exactly one again. */
    assert_int_equal(cancel(&d.f, &d.tickets[0], 1), WEIR_OK);
    expect_waiting(arrive_as(&d, "a"));
    expect_refused(arrive_as(&d, "a"), WEIR_LINE_FULL);
    close_door(&d);
}

TEST(the_keys_line_holds_its_bound_of_summed_cost_and_not_one_more)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.cost = 10}});
    expect_waiting(arrive_for(&d, "a", 4));
    expect_refused(arrive_for(&d, "a", 7), WEIR_LINE_FULL);
    expect_waiting(arrive_for(&d, "a", 5));
    assert_int_equal(stats_of(&d.f).waiting_cost, 9);
    expect_refused(arrive_for(&d, "a", 2), WEIR_LINE_FULL);
    expect_waiting(arrive_for(&d, "a", 1));
    expect_refused(arrive_for(&d, "a", 1), WEIR_LINE_FULL);
    close_door(&d);
}

TEST(a_ticket_dearer_than_the_bound_can_never_wait_but_may_pass)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.cost = 10}});
    expect_refused(arrive_for(&d, "a", 11), WEIR_LINE_FULL);
    expect_refused(arrive_for(&d, "a", WEIR_COST_MAX), WEIR_LINE_FULL);
    expect_waiting(arrive_for(&d, "a", 10));
    assert_int_equal(cancel(&d.f, &d.tickets[2], 1), WEIR_OK);
    leave(&d.f, &d.holder, 1);
    expect_admitted(arrive_for(&d, "a", 11));
    leave(&d.f, &d.tickets[3], 1);
    assert_int_equal(enter(&d.f, &d.holder, 1), WEIR_ADMITTED);
    close_door(&d);
}

TEST(a_priority_may_have_a_bound_of_its_own)
{
    struct door d;
    open_door(&d,
              (struct weir_settings){
                  HELD_LANE, .line_by_priority = {[HIGH] = {.tickets = 2}, [LOW] = {.cost = 5}}});
    expect_waiting(arrive(&d, request_of("a", HIGH, 1)));
    expect_waiting(arrive(&d, request_of("a", HIGH, 1)));
    expect_refused(arrive(&d, request_of("a", HIGH, 1)), WEIR_PRIORITY_FULL);
    expect_waiting(arrive(&d, request_of("a", LOW, 4)));
    expect_refused(arrive(&d, request_of("a", LOW, 2)), WEIR_PRIORITY_FULL);
    expect_waiting(arrive(&d, request_of("a", LOW, 1)));
    for (int i = 0; i < 5; i++) {
        expect_waiting(arrive(&d, request_of("a", NORMAL, 100)));
    }
    assert_int_equal(stats_of(&d.f).waiting_by_priority[HIGH], 2);
    assert_int_equal(stats_of(&d.f).waiting_by_priority[NORMAL], 5);
    assert_int_equal(stats_of(&d.f).waiting_by_priority[LOW], 2);
    close_door(&d);
}

TEST(a_tenant_may_have_no_more_in_line_than_its_bound_over_all_priorities)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line_by_tenant = {.tickets = 2}});
    expect_waiting(arrive(&d, request_of("a", HIGH, 1)));
    expect_waiting(arrive(&d, request_of("a", LOW, 1)));
    expect_refused(arrive(&d, request_of("a", NORMAL, 1)), WEIR_TENANT_FULL);
    expect_waiting(arrive(&d, request_of("b", NORMAL, 1)));
    close_door(&d);
}

TEST(a_tenants_bound_of_cost_is_exact)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line_by_tenant = {.cost = 10}});
    expect_refused(arrive_for(&d, "a", 11), WEIR_TENANT_FULL);
    expect_waiting(arrive_for(&d, "a", 9));
    expect_refused(arrive_for(&d, "a", 2), WEIR_TENANT_FULL);
    expect_waiting(arrive_for(&d, "a", 1));
    expect_refused(arrive_for(&d, "a", 1), WEIR_TENANT_FULL);
    expect_waiting(arrive_for(&d, "b", 10));
    close_door(&d);
}

TEST(the_tenants_bound_is_told_before_the_prioritys_and_that_before_the_keys)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 2},
                                         .line_by_priority = {[NORMAL] = {.tickets = 2}},
                                         .line_by_tenant = {.tickets = 2}});
    expect_waiting(arrive_as(&d, "a"));
    expect_waiting(arrive_as(&d, "a"));
    expect_refused(arrive_as(&d, "a"), WEIR_TENANT_FULL);
    close_door(&d);

    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 2},
                                         .line_by_priority = {[NORMAL] = {.tickets = 2}}});
    expect_waiting(arrive_as(&d, "a"));
    expect_waiting(arrive_as(&d, "a"));
    expect_refused(arrive_as(&d, "a"), WEIR_PRIORITY_FULL);
    expect_refused(arrive(&d, request_of("a", HIGH, 1)), WEIR_LINE_FULL);
    close_door(&d);
}

TEST(a_refusal_at_the_door_leaves_nothing_behind)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 1}});
    expect_waiting(arrive_as(&d, "a"));
    struct weir_key_stats before = stats_of(&d.f);
    expect_refused(arrive_as(&d, "a"), WEIR_LINE_FULL);
    struct weir_key_stats after = stats_of(&d.f);
    assert_int_equal(after.ended[WEIR_END_REFUSED], before.ended[WEIR_END_REFUSED] + 1);
    assert_int_equal(after.waiting, before.waiting);
    assert_int_equal(after.waiting_cost, before.waiting_cost);
    assert_int_equal(after.wake_ns, before.wake_ns);
    expect_no_news(&d.f);
    close_door(&d);
}

TEST(a_retry_passes_the_door_like_any_other_arrival)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 1}});
    expect_waiting(arrive_as(&d, "a"));
    struct weir_request retry = request_of("a", NORMAL, 1);
    retry.retry = true;
    expect_refused(arrive(&d, retry), WEIR_LINE_FULL);
    close_door(&d);
}

TEST(no_wait_is_told_before_any_bound)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 1}});
    expect_waiting(arrive_as(&d, "a"));
    struct weir_request request = request_of("b", NORMAL, 1);
    request.no_wait = true;
    expect_refused(arrive(&d, request), WEIR_WOULD_WAIT);
    expect_no_news(&d.f);
    close_door(&d);
}

TEST(the_largest_bound_of_cost_is_reached_exactly)
{
    /* 2^42 is 4,096 tickets of 2^30. */
    struct fixture f;
    open_key(&f, (struct weir_settings){HELD_LANE,
                                        .line = {.tickets = 10000, .cost = WEIR_LINE_COST_MAX}});
    struct weir_ticket holder = {0};
    static struct weir_ticket tickets[4097];
    memset(tickets, 0, sizeof tickets);
    assert_int_equal(enter(&f, &holder, 1), WEIR_ADMITTED);
    struct weir_request request = request_of("a", NORMAL, WEIR_COST_MAX);
    for (size_t i = 0; i < 4096; i++) {
        assert_int_equal(weir_key_enter(f.key, &tickets[i], &request, 1, &f.news), WEIR_WAITING);
    }
    assert_int_equal(ask(&f, &tickets[4096], request, 1), WEIR_REFUSED);
    expect_refused(&tickets[4096], WEIR_LINE_FULL);
    assert_int_equal(stats_of(&f).waiting_cost, WEIR_LINE_COST_MAX);
    for (size_t i = 0; i < 4096; i++) {
        assert_int_equal(weir_key_cancel(f.key, &tickets[i], 1, &f.news), WEIR_OK);
    }
    leave(&f, &holder, 1);
    close_key(&f);
}

/* ---- displacement ---- */

TEST(an_arrival_below_its_share_displaces_the_newest_of_the_one_above)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 4}});
    struct weir_ticket *a[4];
    for (int i = 0; i < 4; i++) {
        a[i] = arrive_as(&d, "a");
        expect_waiting(a[i]);
    }
    /* The share of each is 2. */
    expect_waiting(arrive_as(&d, "b"));
    expect_displaced(&d, a[3], NULL);
    expect_waiting(arrive_as(&d, "b"));
    expect_displaced(&d, a[2], NULL);
    expect_refused(arrive_as(&d, "b"), WEIR_LINE_FULL);
    expect_displaced(&d, NULL, NULL);
    expect_refused(arrive_as(&d, "a"), WEIR_LINE_FULL);
    expect_waiting(a[0]);
    expect_waiting(a[1]);
    expect_counts(&d.f, 1, 4);
    close_door(&d);
}

TEST(three_tenants_share_a_bound_that_does_not_divide)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 4}});
    struct weir_ticket *a[4];
    for (int i = 0; i < 4; i++) {
        a[i] = arrive_as(&d, "a");
    }
    expect_waiting(arrive_as(&d, "b"));
    expect_displaced(&d, a[3], NULL);
    /* A third of 4 is more than 1 and less than 2. */
    expect_waiting(arrive_as(&d, "c"));
    expect_displaced(&d, a[2], NULL);
    expect_refused(arrive_as(&d, "c"), WEIR_LINE_FULL);
    expect_refused(arrive_as(&d, "b"), WEIR_LINE_FULL);
    /* A quarter is exactly 1. */
    expect_waiting(arrive_as(&d, "d"));
    expect_displaced(&d, a[1], NULL);
    /* A fifth is less than 1. */
    expect_refused(arrive_as(&d, "e"), WEIR_LINE_FULL);
    close_door(&d);
}

TEST(shares_go_by_weight)
{
    const struct weir_tenant_settings tenant = {.name = weir_slice_of("b"), .weight = 3};
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 4}, .tenants = &tenant,
                                         .tenant_count = 1});
    struct weir_ticket *a[4];
    for (int i = 0; i < 4; i++) {
        a[i] = arrive_as(&d, "a");
    }
    for (int i = 3; i > 0; i--) {
        expect_waiting(arrive_as(&d, "b"));
        expect_displaced(&d, a[i], NULL);
    }
    expect_refused(arrive_as(&d, "b"), WEIR_LINE_FULL);
    expect_waiting(a[0]);
    close_door(&d);
}

TEST(the_one_with_most_for_its_weight_loses_and_the_first_known_on_a_tie)
{
    const struct weir_tenant_settings tenant = {.name = weir_slice_of("a"), .weight = 2};
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 9}, .tenants = &tenant,
                                         .tenant_count = 1});
    struct weir_ticket *last_of_b = NULL;
    struct weir_ticket *last_of_c = NULL;
    for (int i = 0; i < 4; i++) {
        arrive_as(&d, "a"); /* 4 for a weight of 2 */
    }
    arrive_as(&d, "b");
    arrive_as(&d, "c");
    last_of_c = arrive_as(&d, "c");
    last_of_b = arrive_as(&d, "b");
    last_of_b = arrive_as(&d, "b"); /* 3 for a weight of 1 */
    expect_counts(&d.f, 1, 9);
    expect_waiting(arrive_as(&d, "d"));
    expect_displaced(&d, last_of_b, NULL);
    /* Now a, b and c have 2 for each unit of weight, and a is known longest: its newest goes. */
    expect_waiting(arrive_as(&d, "e"));
    expect_displaced(&d, &d.tickets[3], NULL);
    expect_waiting(last_of_c);
    close_door(&d);
}

TEST(at_the_keys_bound_the_newest_of_all_priorities_goes)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 3}});
    struct weir_ticket *low = arrive(&d, request_of("a", LOW, 1));
    struct weir_ticket *high = arrive(&d, request_of("a", HIGH, 1));
    struct weir_ticket *normal = arrive(&d, request_of("a", NORMAL, 1));
    expect_waiting(arrive(&d, request_of("b", LOW, 1)));
    expect_displaced(&d, normal, NULL);
    expect_waiting(low);
    expect_waiting(high);
    close_door(&d);
}

TEST(a_retry_at_the_head_is_not_its_lines_newest_though_its_number_is)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 3}});
    struct weir_request retry = request_of("a", NORMAL, 1);
    retry.retry = true;
    arrive_as(&d, "a");
    struct weir_ticket *second = arrive_as(&d, "a");
    struct weir_ticket *head = arrive(&d, retry);
    expect_waiting(arrive_as(&d, "b"));
    expect_displaced(&d, second, NULL);
    expect_waiting(head);
    close_door(&d);
}

TEST(at_a_prioritys_bound_only_tickets_of_that_priority_go)
{
    struct door d;
    open_door(&d,
              (struct weir_settings){HELD_LANE, .line_by_priority = {[NORMAL] = {.tickets = 2}}});
    struct weir_ticket *first = arrive_as(&d, "a");
    struct weir_ticket *second = arrive_as(&d, "a");
    struct weir_ticket *high = arrive(&d, request_of("a", HIGH, 1));
    expect_waiting(arrive_as(&d, "b"));
    expect_displaced(&d, second, NULL);
    expect_waiting(first);
    expect_waiting(high);
    expect_refused(arrive_as(&d, "b"), WEIR_PRIORITY_FULL);
    close_door(&d);
}

TEST(a_share_of_cost_displaces_as_often_as_it_takes)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.cost = 10}});
    struct weir_ticket *a[5];
    for (int i = 0; i < 5; i++) {
        a[i] = arrive_for(&d, "a", 2);
    }
    /* Half of 10 is 5: 6 are too much, 5 are not, and need three of a's to go. */
    expect_refused(arrive_for(&d, "b", 6), WEIR_LINE_FULL);
    expect_displaced(&d, NULL, NULL);
    expect_waiting(arrive_for(&d, "b", 5));
    expect_news(&d.f, a[4]);
    expect_news(&d.f, a[3]);
    expect_news(&d.f, a[2]);
    expect_no_news(&d.f);
    assert_int_equal(stats_of(&d.f).waiting_cost, 9);
    assert_int_equal(stats_of(&d.f).ended[WEIR_END_DISPLACED], 3);
    close_door(&d);
}

TEST(at_a_bound_of_cost_the_one_with_most_cost_loses_however_few_its_tickets)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.cost = 12}});
    struct weir_ticket *few = arrive_for(&d, "a", 7);
    for (int i = 0; i < 5; i++) {
        arrive_for(&d, "b", 1);
    }
    expect_waiting(arrive_for(&d, "c", 2));
    expect_displaced(&d, few, NULL);
    close_door(&d);
}

TEST(tickets_are_counted_before_cost)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 4, .cost = 16}});
    struct weir_ticket *dear = arrive_for(&d, "a", 10);
    arrive_for(&d, "b", 1);
    arrive_for(&d, "b", 1);
    struct weir_ticket *newest = arrive_for(&d, "b", 1);
    /* The line is full by tickets, of which b has most; then by cost, of which a has most. */
    expect_waiting(arrive_for(&d, "c", 5));
    expect_displaced(&d, newest, dear);
    close_door(&d);
}

TEST(the_prioritys_bound_comes_before_the_keys)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 4, .cost = 20},
                                         .line_by_priority = {[NORMAL] = {.tickets = 2}}});
    struct weir_ticket *low = arrive(&d, request_of("a", LOW, 15));
    arrive_as(&d, "b");
    struct weir_ticket *normal = arrive_as(&d, "b");
    arrive(&d, request_of("a", HIGH, 1));
    expect_waiting(arrive_for(&d, "c", 5));
    /* The newest of a is the high one, which does not make enough room; then the low one goes. */
    expect_news(&d.f, normal);
    expect_news(&d.f, &d.tickets[3]);
    expect_news(&d.f, low);
    expect_no_news(&d.f);
    close_door(&d);
}

TEST(nobody_is_displaced_for_an_arrival_that_is_then_refused)
{
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.tickets = 4},
                                         .line_by_priority = {[HIGH] = {.tickets = 2}}});
    arrive(&d, request_of("a", HIGH, 1));
    arrive(&d, request_of("a", HIGH, 1));
    arrive_as(&d, "b");
    arrive_as(&d, "b");
    /* Within b's share of the high line, but above its share of the key's. */
    expect_refused(arrive(&d, request_of("b", HIGH, 1)), WEIR_LINE_FULL);
    expect_displaced(&d, NULL, NULL);
    expect_counts(&d.f, 1, 4);
    close_door(&d);
}

TEST(a_tenant_never_displaces_its_own)
{
    struct door d;
    open_door(
        &d, (struct weir_settings){
                HELD_LANE, .line = {.tickets = 4},
                .tenants = (const struct weir_tenant_settings[]){{weir_slice_of("b"), .weight = 9}},
                .tenant_count = 1});
    arrive_as(&d, "b");
    arrive_as(&d, "b");
    struct weir_ticket *a = arrive_as(&d, "a");
    arrive_as(&d, "b");
    /* b may have 3.6, and has 3 already: one more is above its share. */
    expect_refused(arrive_as(&d, "b"), WEIR_LINE_FULL);
    expect_waiting(a);
    close_door(&d);
}

TEST(a_tenant_never_displaces_its_own_even_where_rounded_weights_put_it_on_top)
{
    /* 2^20 / 1000 is rounded down, so that x seems to have less for its weight than it has: a has
     * 1,822 for its weight of 1, x 1,823.001 for each of its 1,000; but 1,822 x 2^20 is more than
     * 1,823,001 x 1,048. One more is exactly a's share. */
    const struct weir_tenant_settings x = {.name = weir_slice_of("x"), .weight = 1000};
    struct door d;
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.cost = 1823 * 1001}, .tenants = &x,
                                         .tenant_count = 1});
    struct weir_ticket *own = arrive_for(&d, "a", 1822);
    struct weir_ticket *other = arrive_for(&d, "x", 1823001);
    expect_waiting(arrive_for(&d, "a", 1));
    expect_displaced(&d, other, NULL);
    expect_waiting(own);
    close_door(&d);

    /* Of two others it is the one with more for its weight, times the rounded scale. */
    open_door(&d, (struct weir_settings){HELD_LANE, .line = {.cost = 1825 * 1002}, .tenants = &x,
                                         .tenant_count = 1});
    own = arrive_for(&d, "a", 1824);
    other = arrive_for(&d, "x", 1825002);
    struct weir_ticket *third = arrive_for(&d, "y", 1824);
    expect_waiting(arrive_for(&d, "a", 1));
    expect_displaced(&d, third, NULL);
    expect_waiting(own);
    expect_waiting(other);
    close_door(&d);
}

TEST(whoever_displaces_another_is_counted_once_and_the_other_never_comes_back)
{
    struct door d;
    open_door(&d, (struct weir_settings){LANE(.limit = 1), .line = {.tickets = 1}});
    struct weir_ticket *a = arrive_as(&d, "a");
    expect_waiting(a);
    /* Half of 1 is less than 1: no arrival is below its share here. */
    expect_refused(arrive_as(&d, "b"), WEIR_LINE_FULL);
    close_door(&d);

    open_door(&d, (struct weir_settings){LANE(.limit = 1), .line = {.tickets = 2}});
    arrive_as(&d, "a");
    a = arrive_as(&d, "a");
    struct weir_ticket *b = arrive_as(&d, "b");
    expect_displaced(&d, a, NULL);
    assert_int_equal(cancel(&d.f, a, 1), WEIR_NOT_HELD);
    assert_int_equal(leave_with(&d.f, a, (struct weir_result){0}, 1), WEIR_NOT_HELD);
    /* Its deadline went with it. */
    wake(&d.f, DAY);
    expect_ended(a, WEIR_END_DISPLACED);
    expect_ended(b, WEIR_END_TIMEOUT);
    assert_int_equal(stats_of(&d.f).ended[WEIR_END_TIMEOUT], 2);
    drop_news(&d.f);
    close_door(&d);
}

TEST(tickets_of_held_and_of_parked_tenants_can_be_displaced)
{
    struct door d;
    open_door(&d, (struct weir_settings){LANE(.limit = 9), .timeout_ns = WEIR_NEVER,
                                         .line = {.tickets = 4}, .tenant_default = {.limit = 1}});
    expect_admitted(arrive_as(&d, "a"));
    for (int i = 0; i < 4; i++) {
        expect_waiting(arrive_as(&d, "a"));
    }
    expect_admitted(arrive_as(&d, "b"));
    expect_waiting(arrive_as(&d, "b"));
    expect_displaced(&d, &d.tickets[4], NULL);
    close_door(&d);

    open_door(&d, (struct weir_settings){
                      LANE(.limit = 9), .timeout_ns = WEIR_NEVER, .line = {.tickets = 2},
                      .tenant_default = {.rate = {.tokens = 1, .period_ns = SECOND}}});
    expect_admitted(arrive_as(&d, "a"));
    expect_waiting(arrive_as(&d, "a"));
    expect_waiting(arrive_as(&d, "a"));
    expect_admitted(arrive_as(&d, "b"));
    expect_waiting(arrive_as(&d, "b"));
    expect_displaced(&d, &d.tickets[2], NULL);
    assert_int_equal(d.f.news.wake_ns, 1 + SECOND);
    close_door(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(the_keys_line_holds_its_bound_of_tickets_and_not_one_more),
        BOTH_WAYS(the_keys_line_holds_its_bound_of_summed_cost_and_not_one_more),
        BOTH_WAYS(a_ticket_dearer_than_the_bound_can_never_wait_but_may_pass),
        BOTH_WAYS(a_priority_may_have_a_bound_of_its_own),
        BOTH_WAYS(a_tenant_may_have_no_more_in_line_than_its_bound_over_all_priorities),
        BOTH_WAYS(a_tenants_bound_of_cost_is_exact),
        BOTH_WAYS(the_tenants_bound_is_told_before_the_prioritys_and_that_before_the_keys),
        BOTH_WAYS(a_refusal_at_the_door_leaves_nothing_behind),
        BOTH_WAYS(a_retry_passes_the_door_like_any_other_arrival),
        BOTH_WAYS(no_wait_is_told_before_any_bound),
        BOTH_WAYS(the_largest_bound_of_cost_is_reached_exactly),
        BOTH_WAYS(an_arrival_below_its_share_displaces_the_newest_of_the_one_above),
        BOTH_WAYS(three_tenants_share_a_bound_that_does_not_divide),
        BOTH_WAYS(shares_go_by_weight),
        BOTH_WAYS(the_one_with_most_for_its_weight_loses_and_the_first_known_on_a_tie),
        BOTH_WAYS(at_the_keys_bound_the_newest_of_all_priorities_goes),
        BOTH_WAYS(a_retry_at_the_head_is_not_its_lines_newest_though_its_number_is),
        BOTH_WAYS(at_a_prioritys_bound_only_tickets_of_that_priority_go),
        BOTH_WAYS(a_share_of_cost_displaces_as_often_as_it_takes),
        BOTH_WAYS(at_a_bound_of_cost_the_one_with_most_cost_loses_however_few_its_tickets),
        BOTH_WAYS(tickets_are_counted_before_cost),
        BOTH_WAYS(the_prioritys_bound_comes_before_the_keys),
        BOTH_WAYS(nobody_is_displaced_for_an_arrival_that_is_then_refused),
        BOTH_WAYS(a_tenant_never_displaces_its_own),
        BOTH_WAYS(a_tenant_never_displaces_its_own_even_where_rounded_weights_put_it_on_top),
        BOTH_WAYS(whoever_displaces_another_is_counted_once_and_the_other_never_comes_back),
        BOTH_WAYS(tickets_of_held_and_of_parked_tenants_can_be_displaced),
    };
    return cmocka_run_group_tests_name("door", tests, NULL, NULL);
}
