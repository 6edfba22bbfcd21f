/* The faults of the references' code that DESIGN.md lists in section 9, each by its name: here they
 * must not be. */
#define _DEFAULT_SOURCE /* for MAP_ANONYMOUS */

#include "unit/helpers.h"

#include <sys/mman.h>

#define FOREVER .timeout_ns = WEIR_NEVER

/* ---- 000, the function throttle ---- */

TEST(ref_000_release_can_run_while_somebody_waits)
{
    /* There, `acquire` waited while it held the lock that `release` needs. */
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 10 * SECOND});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(enter(&f, &tickets[0], 0), WEIR_ADMITTED);
    assert_int_equal(enter(&f, &tickets[1], 0), WEIR_WAITING);
    assert_int_equal(enter(&f, &tickets[2], 0), WEIR_WAITING);
    leave(&f, &tickets[0], 1);
    expect_news(&f, &tickets[1]);
    leave(&f, &tickets[1], 2);
    expect_news(&f, &tickets[2]);
    leave(&f, &tickets[2], 3);
    close_key(&f);
}

TEST(ref_000_a_slot_is_not_lost_to_a_waiter_that_timed_out)
{
    /* There, `release` popped a waiter that was done, woke nobody, and did not count down. */
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket tickets[4] = {0};
    enter_many(&f, tickets, 2, 0);
    assert_int_equal(enter(&f, &tickets[2], 50), WEIR_WAITING);
    /* The release comes in the very moment of the deadline. */
    leave(&f, &tickets[0], 100);
    expect_ended(&tickets[1], WEIR_END_TIMEOUT);
    expect_admitted(&tickets[2]);
    drop_news(&f);
    /* And once more, with nobody behind the one who timed out: the slot is free. */
    assert_int_equal(enter(&f, &tickets[1], 100), WEIR_WAITING);
    leave(&f, &tickets[2], 200);
    expect_ended(&tickets[1], WEIR_END_TIMEOUT);
    drop_news(&f);
    expect_counts(&f, 0, 0);
    assert_int_equal(enter(&f, &tickets[3], 200), WEIR_ADMITTED);
    leave(&f, &tickets[3], 200);
    close_key(&f);
}

TEST(ref_000_a_slot_handed_to_a_waiter_that_is_cancelled_in_the_same_instant_passes_on)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[4] = {0};
    enter_many(&f, tickets, 3, 0);
    leave(&f, &tickets[0], 1);
    assert_int_equal(cancel(&f, &tickets[1], 1), WEIR_OK);
    expect_admitted(&tickets[2]);
    assert_int_equal(cancel(&f, &tickets[2], 1), WEIR_OK);
    drop_news(&f);
    expect_counts(&f, 0, 0);
    assert_int_equal(enter(&f, &tickets[3], 1), WEIR_ADMITTED);
    leave(&f, &tickets[3], 1);
    close_key(&f);
}

TEST(ref_000_no_slot_is_lost_in_any_race_of_release_cancel_and_timeout)
{
    /* Many times each, in orders that look random; in the end all slots are there. */
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 3), .timeout_ns = 7});
    struct weir_ticket tickets[12] = {0};
    uint64_t random = 3;
    for (uint64_t now_ns = 1; now_ns < 20000; now_ns++) {
        struct weir_ticket *ticket = &tickets[next_random(&random) % 12];
        if (ticket->state == WEIR_TICKET_IDLE || ticket->state == WEIR_TICKET_ENDED) {
            (void)!enter(&f, ticket, now_ns);
        } else if (next_random(&random) % 2 == 0) {
            (void)!cancel(&f, ticket, now_ns);
        } else {
            (void)!leave_with(&f, ticket, (struct weir_result){0}, now_ns);
        }
        drop_news(&f);
        assert_true(stats_of(&f).active <= 3);
        /* Whoever waits, waits because all slots are taken. */
        assert_true(stats_of(&f).waiting == 0 || stats_of(&f).active == 3);
    }
    end_all(&f, tickets, 12, 30000);
    expect_counts(&f, 0, 0);
    close_key(&f);
}

/* Tickets on pages of their own, which can be locked away. */
struct pages {
    char *memory;
    size_t count;
    size_t page_bytes;
};

static struct weir_ticket *ticket_on(const struct pages *pages, size_t index)
{
    return (struct weir_ticket *)(void *)(pages->memory + index * pages->page_bytes);
}

/* Only the tickets from `first` to `last`, and the one that is next, number 1, may be touched; any
 * other access is a fault. */
static void allow_only(const struct pages *pages, size_t first, size_t last)
{
    size_t bytes = pages->count * pages->page_bytes;
    int all = PROT_READ | PROT_WRITE;
    assert_int_equal(mprotect(pages->memory, bytes, PROT_NONE), 0);
    assert_int_equal(mprotect(ticket_on(pages, 1), pages->page_bytes, all), 0);
    assert_int_equal(mprotect(ticket_on(pages, first), (last - first + 1) * pages->page_bytes, all),
                     0);
}

static void allow_all(const struct pages *pages)
{
    assert_int_equal(
        mprotect(pages->memory, pages->count * pages->page_bytes, PROT_READ | PROT_WRITE), 0);
}

TEST(ref_000_removing_a_waiter_touches_nobody_but_its_neighbours_and_the_one_who_is_next)
{
    /* There it was a search through all of them. */
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER, .line = {.tickets = 2000}});
    struct pages pages = {.count = 1000, .page_bytes = (size_t)sysconf(_SC_PAGESIZE)};
    pages.memory = mmap(NULL, pages.count * pages.page_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages.memory != MAP_FAILED);
    struct weir_request request = {0};
    struct weir_result result = {0};
    for (size_t i = 0; i < pages.count; i++) {
        /* A newcomer touches the last one, too. */
        allow_only(&pages, i == 0 ? 0 : i - 1, i);
        assert_int_equal(weir_key_enter(f.key, ticket_on(&pages, i), &request, 1, &f.news),
                         i == 0 ? WEIR_ADMITTED : WEIR_WAITING);
    }
    static const size_t middle[] = {500, 3, 998, 250};
    for (size_t i = 0; i < COUNT_OF(middle); i++) {
        allow_only(&pages, middle[i] - 1, middle[i] + 1);
        assert_int_equal(weir_key_cancel(f.key, ticket_on(&pages, middle[i]), 1, &f.news), WEIR_OK);
    }
    allow_only(&pages, 997, 999);
    assert_int_equal(weir_key_cancel(f.key, ticket_on(&pages, 999), 1, &f.news), WEIR_OK);
    /* Nor does passing a permit on touch anybody but the first two in line. */
    allow_only(&pages, 0, 2);
    assert_int_equal(weir_key_leave(f.key, ticket_on(&pages, 0), &result, 1, &f.news), WEIR_OK);
    expect_news(&f, ticket_on(&pages, 1));
    allow_all(&pages);
    for (size_t i = 0; i < pages.count; i++) {
        (void)!weir_key_cancel(f.key, ticket_on(&pages, i), 1, &f.news);
        drop_news(&f);
    }
    munmap(pages.memory, pages.count * pages.page_bytes);
    close_key(&f);
}

TEST(ref_000_requests_are_served_in_the_order_in_which_they_came)
{
    /* The reference's own test plan: with a limit of 1, A, B and C run one after the other. */
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, 0);
    for (size_t i = 0; i < 2; i++) {
        expect_admitted(&tickets[i]);
        leave(&f, &tickets[i], 1 + i);
        expect_news(&f, &tickets[i + 1]);
        expect_no_news(&f);
    }
    leave(&f, &tickets[2], 3);
    close_key(&f);
}

TEST(ref_000_a_release_too_many_is_told_and_frees_nothing)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2)});
    struct weir_ticket tickets[3] = {0};
    enter_many(&f, tickets, 3, 0);
    leave(&f, &tickets[0], 1);
    drop_news(&f);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(leave_with(&f, &tickets[0], (struct weir_result){0}, 1), WEIR_NOT_HELD);
    }
    expect_counts(&f, 2, 0);
    end_all(&f, tickets, 3, 2);
    close_key(&f);
}

/* ---- 004, the agents' gate ---- */

TEST(ref_004_a_timed_out_waiter_leaves_the_line)
{
    /* There, the timeout looked for a function that was not the one in the queue. */
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 3), .timeout_ns = 30 * SECOND});
    struct weir_ticket tickets[5] = {0};
    enter_many(&f, tickets, 5, 0);
    expect_counts(&f, 3, 2);
    wake(&f, 30 * SECOND);
    expect_counts(&f, 3, 0);
    expect_news(&f, &tickets[3]);
    expect_news(&f, &tickets[4]);
    end_all(&f, tickets, 5, 31 * SECOND);
    close_key(&f);
}

TEST(ref_004_a_timed_out_waiter_swallows_no_wake_up)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = 100});
    struct weir_ticket tickets[6] = {0};
    enter_many(&f, tickets, 4, 0);
    wake(&f, 100);
    drop_news(&f);
    assert_int_equal(enter(&f, &tickets[4], 101), WEIR_WAITING);
    /* Three have gone before it; the first release is for it. */
    leave(&f, &tickets[0], 102);
    expect_news(&f, &tickets[4]);
    expect_admitted(&tickets[4]);
    leave(&f, &tickets[4], 103);
    close_key(&f);
}

TEST(ref_004_no_newcomer_slips_in_between_release_and_wake_up)
{
    /* There, `release` counted down and the woken flow counted up later; in between the door was
     * open. */
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket first = {0};
    struct weir_ticket waiter = {0};
    struct weir_ticket newcomer = {0};
    assert_int_equal(enter(&f, &first, 0), WEIR_ADMITTED);
    assert_int_equal(enter(&f, &waiter, 0), WEIR_WAITING);
    leave(&f, &first, 1);
    /* The one who waited has not read the news yet, and yet the permit is its own. */
    assert_int_equal(enter(&f, &newcomer, 1), WEIR_WAITING);
    expect_admitted(&waiter);
    expect_counts(&f, 1, 1);
    expect_news(&f, &waiter);
    expect_no_news(&f);
    leave(&f, &waiter, 2);
    expect_news(&f, &newcomer);
    leave(&f, &newcomer, 3);
    close_key(&f);
}

TEST(ref_004_the_limit_is_never_exceeded_however_newcomers_and_releases_alternate)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 3), FOREVER});
    struct weir_ticket tickets[40] = {0};
    size_t next_in = 0;
    size_t next_out = 0;
    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < 2 && next_in - next_out < 40; i++) {
            (void)!enter(&f, &tickets[next_in++ % 40], (uint64_t)round);
            assert_true(stats_of(&f).active <= 3);
        }
        /* The one who came first is admitted, whatever came since. */
        expect_admitted(&tickets[next_out % 40]);
        leave(&f, &tickets[next_out++ % 40], (uint64_t)round);
        drop_news(&f);
        assert_true(stats_of(&f).active <= 3);
    }
    while (next_out < next_in) {
        leave(&f, &tickets[next_out++ % 40], 1000);
        drop_news(&f);
    }
    close_key(&f);
}

TEST(ref_004_counts_do_not_go_below_zero_when_a_flow_releases_what_it_never_had)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1)});
    struct weir_ticket stranger = {0};
    struct weir_ticket tickets[2] = {0};
    assert_int_equal(leave_with(&f, &stranger, (struct weir_result){0}, 0), WEIR_NOT_HELD);
    enter_many(&f, tickets, 2, 0);
    expect_counts(&f, 1, 1);
    end_all(&f, tickets, 2, 1);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(ref_000_release_can_run_while_somebody_waits),
        BOTH_WAYS(ref_000_a_slot_is_not_lost_to_a_waiter_that_timed_out),
        BOTH_WAYS(
            ref_000_a_slot_handed_to_a_waiter_that_is_cancelled_in_the_same_instant_passes_on),
        BOTH_WAYS(ref_000_no_slot_is_lost_in_any_race_of_release_cancel_and_timeout),
        UNHEARD(
            ref_000_removing_a_waiter_touches_nobody_but_its_neighbours_and_the_one_who_is_next),
        BOTH_WAYS(ref_000_requests_are_served_in_the_order_in_which_they_came),
        BOTH_WAYS(ref_000_a_release_too_many_is_told_and_frees_nothing),
        BOTH_WAYS(ref_004_a_timed_out_waiter_leaves_the_line),
        BOTH_WAYS(ref_004_a_timed_out_waiter_swallows_no_wake_up),
        BOTH_WAYS(ref_004_no_newcomer_slips_in_between_release_and_wake_up),
        BOTH_WAYS(ref_004_the_limit_is_never_exceeded_however_newcomers_and_releases_alternate),
        BOTH_WAYS(ref_004_counts_do_not_go_below_zero_when_a_flow_releases_what_it_never_had),
    };
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
