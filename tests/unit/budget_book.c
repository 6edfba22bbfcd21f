/* Budgets of tenants and API keys: claims that are held, wait and settle, and what is kept. */
#define _GNU_SOURCE
#include "tenants/budget_book.h"

#include "base/alloc.h"
#include "base/list.h"
#include "base/slice.h"
#include "config/budget_bounds.h"
#include "tenants/budget_file.h"
#include "unit/folder.h"

#include <sys/stat.h>
#include <unistd.h>

/* Noon of 2025-08-21, which is day 20321. */
#define NOON_S  INT64_C(1755777600)
#define A_DAY_S INT64_C(86400)

static struct weir_loop loop;
static struct weir_usage_book *usage;
static struct weir_budget_book *book;
static char decisions[256];

struct request {
    struct weir_budget_claim claim;
    char letter;
};

static struct request requests[WEIR_BUDGET_WAITING_MAX + 8];

/* Writes down who was decided how: "a+" goes, "b-" is refused. */
static void on_decided(struct weir_budget_claim *claim)
{
    struct request *request = weir_container_of(claim, struct request, claim);
    size_t bytes = strlen(decisions);
    snprintf(decisions + bytes, sizeof decisions - bytes, "%c%c ", request->letter,
             claim->status == WEIR_OK ? '+' : '-');
}

static int open_with(uint32_t accounts_max)
{
    memset(requests, 0, sizeof requests);
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        requests[i].letter = (char)('a' + i % 26);
        requests[i].claim.loop = &loop;
        requests[i].claim.decided = on_decided;
    }
    decisions[0] = '\0';
    usage = weir_usage_create(1000);
    book = weir_budget_book_create(usage, accounts_max);
    return weir_loop_init(&loop, &weir_allocator_libc) ? 0 : -1;
}

static int open_book(void **state)
{
    (void)state;
    return open_with(100);
}

static int close_book(void **state)
{
    (void)state;
    weir_budget_book_destroy(book);
    weir_usage_destroy(usage);
    weir_loop_deinit(&loop);
    return 0;
}

static struct weir_budget_limits tokens_a_day(uint64_t tokens)
{
    struct weir_budget_limits limits = weir_budget_limits_none();
    limits.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_TOKENS] = tokens;
    return limits;
}

static struct weir_budget_owner tenant(const char *name, const struct weir_budget_limits *limits)
{
    return (struct weir_budget_owner){WEIR_BUDGET_OF_TENANT, weir_slice_of(name), limits};
}

static struct weir_budget_amount amount(uint64_t tokens)
{
    return (struct weir_budget_amount){{tokens, 1, 0}};
}

static enum weir_status claim(char letter, const struct weir_budget_owner *owners, uint32_t count,
                              uint64_t tokens)
{
    struct weir_budget_amount need = amount(tokens);
    return weir_budget_book_reserve(book, NOON_S, owners, count, &need,
                                    &requests[letter - 'a'].claim);
}

static void settle(char letter, uint64_t tokens)
{
    struct weir_budget_amount spent = amount(tokens);
    weir_budget_book_settle(book, NOON_S, &requests[letter - 'a'].claim, &spent);
}

static bool leave_line(char letter)
{
    return weir_budget_book_leave(book, NOON_S, &requests[letter - 'a'].claim);
}

/* What has been decided since the last call. */
static void expect(const char *text)
{
    (void)weir_loop_settle(&loop);
    assert_string_equal(decisions, text);
    decisions[0] = '\0';
}

static uint64_t spent(const struct weir_budget_owner *owner, int64_t wall_s)
{
    struct weir_budget budget = weir_budget_book_look(book, wall_s, owner);
    return budget.spent[WEIR_BUDGET_DAY].units[WEIR_BUDGET_TOKENS];
}

/* ---- waiting ---- */

TEST(fifty_requests_at_once_spend_at_most_one_more_than_the_budget)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner acme = tenant("acme", &limits);
    assert_int_equal(claim('a', &acme, 1, 1000), WEIR_OK);
    for (char letter = 'b'; letter <= 'z'; letter++) {
        assert_int_equal(claim(letter, &acme, 1, 1000), WEIR_WOULD_WAIT);
    }
    settle('a', 900);
    expect("b+ ");
    settle('b', 1000);
    (void)weir_loop_settle(&loop);
    assert_int_equal(strlen(decisions), 24 * 3);
    assert_null(strchr(decisions, '+'));
    assert_int_equal(spent(&acme, NOON_S), 1900);
    assert_int_equal(requests['c' - 'a'].claim.status, WEIR_BUDGET_SPENT);
    assert_int_equal(requests['c' - 'a'].claim.refusal.spent, 1900);
    assert_int_equal(requests['c' - 'a'].claim.refusal.retry_s, A_DAY_S / 2);
}

TEST(a_small_request_does_not_overtake_a_large_one_that_waits)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner acme = tenant("acme", &limits);
    assert_int_equal(claim('a', &acme, 1, 600), WEIR_OK);
    assert_int_equal(claim('b', &acme, 1, 900), WEIR_WOULD_WAIT);
    assert_int_equal(claim('c', &acme, 1, 100), WEIR_WOULD_WAIT);
    struct weir_budget_owner other = tenant("other", &limits);
    assert_int_equal(claim('d', &other, 1, 100), WEIR_OK); /* whom it does not concern */
    settle('a', 50);
    expect("b+ ");
    settle('b', 50);
    expect("c+ ");
    settle('c', 0);
    settle('d', 0);
}

TEST(those_behind_a_request_that_leaves_are_looked_at)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner acme = tenant("acme", &limits);
    assert_int_equal(claim('a', &acme, 1, 600), WEIR_OK);
    assert_int_equal(claim('b', &acme, 1, 900), WEIR_WOULD_WAIT);
    assert_int_equal(claim('c', &acme, 1, 400), WEIR_WOULD_WAIT);
    assert_int_equal(claim('d', &acme, 1, 1), WEIR_WOULD_WAIT);
    assert_true(leave_line('b'));
    expect("c+ ");
    assert_true(leave_line('d'));
    settle('a', 0);
    settle('c', 0);
    expect("");
}

TEST(a_decision_that_is_on_its_way_arrives_although_the_request_leaves)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner acme = tenant("acme", &limits);
    assert_int_equal(claim('a', &acme, 1, 600), WEIR_OK);
    assert_int_equal(claim('b', &acme, 1, 900), WEIR_WOULD_WAIT);
    settle('a', 0);
    assert_false(leave_line('b'));
    expect("b+ ");
    settle('b', 0);
    assert_int_equal(spent(&acme, NOON_S), 0);
}

TEST(a_request_is_charged_to_its_tenant_and_to_its_key)
{
    struct weir_budget_limits of_tenant = tokens_a_day(1000), of_key = tokens_a_day(100);
    struct weir_budget_owner both[2] = {tenant("acme", &of_tenant),
                                        {WEIR_BUDGET_OF_KEY, weir_slice_of("acme"), &of_key}};
    assert_int_equal(claim('a', both, 2, 60), WEIR_OK);
    assert_int_equal(claim('b', both, 2, 60), WEIR_WOULD_WAIT);
    assert_int_equal(requests[1].claim.refuser, WEIR_BUDGET_OF_KEY);
    assert_int_equal(claim('c', both, 1, 60), WEIR_OK); /* with another key, without a budget */
    settle('a', 60);
    expect("b+ ");
    settle('b', 60);
    settle('c', 60);
    assert_int_equal(claim('d', both, 2, 1), WEIR_BUDGET_SPENT);
    assert_int_equal(requests[3].claim.refuser, WEIR_BUDGET_OF_KEY);
    assert_int_equal(spent(&both[0], NOON_S), 180);
    assert_int_equal(spent(&both[1], NOON_S), 120);
}

TEST(a_request_that_waits_for_one_budget_may_have_to_wait_for_the_other_next)
{
    struct weir_budget_limits of_tenant = tokens_a_day(100), of_key = tokens_a_day(100);
    struct weir_budget_owner first[2] = {tenant("acme", &of_tenant),
                                         {WEIR_BUDGET_OF_KEY, weir_slice_of("1"), &of_key}};
    struct weir_budget_owner second[2] = {first[0],
                                          {WEIR_BUDGET_OF_KEY, weir_slice_of("2"), &of_key}};
    assert_int_equal(claim('a', second + 1, 1, 100), WEIR_OK);    /* key 2 alone */
    assert_int_equal(claim('b', second, 2, 50), WEIR_WOULD_WAIT); /* for key 2 */
    assert_int_equal(claim('c', first, 2, 100), WEIR_OK);         /* the tenant's is free */
    assert_int_equal(claim('d', first, 2, 100), WEIR_WOULD_WAIT); /* for the tenant's */
    settle('a', 0);
    expect(""); /* b waits for the tenant's now, in front of d, which came later */
    settle('c', 0);
    expect("b+ ");
    settle('b', 0);
    expect("d+ ");
    settle('d', 0);
}

TEST(as_many_wait_for_a_budget_as_may_and_one_more_is_refused)
{
    struct weir_budget_limits limits = tokens_a_day(10);
    struct weir_budget_owner acme = tenant("acme", &limits);
    struct weir_budget_amount need = amount(10);
    assert_int_equal(claim('a', &acme, 1, 10), WEIR_OK);
    for (uint32_t i = 1; i <= WEIR_BUDGET_WAITING_MAX; i++) {
        assert_int_equal(
            weir_budget_book_reserve(book, NOON_S, &acme, 1, &need, &requests[i].claim),
            WEIR_WOULD_WAIT);
    }
    struct weir_budget_claim *more = &requests[WEIR_BUDGET_WAITING_MAX + 1].claim;
    assert_int_equal(weir_budget_book_reserve(book, NOON_S, &acme, 1, &need, more), WEIR_LINE_FULL);
    assert_true(weir_budget_book_leave(book, NOON_S, &requests[7].claim));
    assert_int_equal(weir_budget_book_reserve(book, NOON_S, &acme, 1, &need, more),
                     WEIR_WOULD_WAIT);
    for (uint32_t i = 1; i <= WEIR_BUDGET_WAITING_MAX + 1; i++) {
        assert_true(i == 7 || weir_budget_book_leave(book, NOON_S, &requests[i].claim));
    }
    settle('a', 0);
}

TEST(who_waits_goes_first_when_the_budget_has_grown)
{
    struct weir_budget_limits small = tokens_a_day(1000), large = tokens_a_day(3000);
    struct weir_budget_owner before = tenant("acme", &small), after = tenant("acme", &large);
    assert_int_equal(claim('a', &before, 1, 600), WEIR_OK);
    assert_int_equal(claim('b', &before, 1, 900), WEIR_WOULD_WAIT);
    assert_int_equal(claim('c', &after, 1, 900), WEIR_OK);
    expect("b+ ");
    settle('a', 0);
    settle('b', 0);
    settle('c', 0);
}

TEST(who_waits_goes_when_the_budget_grows)
{
    struct weir_budget_limits small = tokens_a_day(1000), large = tokens_a_day(1500);
    struct weir_budget_owner before = tenant("acme", &small), after = tenant("acme", &large);
    struct weir_budget_owner other = tenant("other", &large);
    assert_int_equal(claim('a', &before, 1, 600), WEIR_OK);
    assert_int_equal(claim('b', &before, 1, 900), WEIR_WOULD_WAIT);
    assert_int_equal(claim('c', &before, 1, 900), WEIR_WOULD_WAIT);
    weir_budget_book_allow(book, NOON_S, &other); /* which is not known yet */
    expect("");
    weir_budget_book_allow(book, NOON_S, &after);
    expect("b+ ");
    settle('a', 0);
    settle('b', 0);
    expect("c+ ");
    settle('c', 0);
}

TEST(who_waits_goes_first_when_a_new_day_has_begun)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner acme = tenant("acme", &limits);
    struct weir_budget_amount need = amount(100);
    assert_int_equal(claim('a', &acme, 1, 700), WEIR_OK);
    settle('a', 700);
    assert_int_equal(claim('a', &acme, 1, 200), WEIR_OK);
    assert_int_equal(claim('b', &acme, 1, 200), WEIR_WOULD_WAIT);
    assert_int_equal(
        weir_budget_book_reserve(book, NOON_S + A_DAY_S, &acme, 1, &need, &requests[2].claim),
        WEIR_OK);
    expect("b+ ");
    settle('a', 0);
    settle('b', 0);
    settle('c', 0);
}

TEST(who_waits_goes_at_the_beginning_of_a_day_although_no_other_comes)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner acme = tenant("acme", &limits);
    assert_int_equal(claim('a', &acme, 1, 700), WEIR_OK);
    settle('a', 700);
    assert_int_equal(claim('a', &acme, 1, 200), WEIR_OK);
    assert_int_equal(claim('b', &acme, 1, 200), WEIR_WOULD_WAIT);
    weir_budget_book_pass(book, NOON_S);
    expect("");
    weir_budget_book_pass(book, NOON_S + A_DAY_S);
    expect("b+ ");
    settle('a', 0);
    settle('b', 0);
}

/* ---- what counts ---- */

TEST(what_was_used_before_there_was_a_budget_counts)
{
    struct weir_usage_counts counts = {.requests = 1, .input = 30, .output = 12};
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner acme = tenant("acme", &limits);
    weir_usage_add(usage, NOON_S, acme.name, weir_slice_of("m"), &counts);
    weir_usage_add(usage, NOON_S - A_DAY_S, acme.name, weir_slice_of("n"), &counts);
    weir_usage_add(usage, NOON_S - 21 * A_DAY_S, acme.name, weir_slice_of("n"), &counts); /* July */
    struct weir_budget budget = weir_budget_book_look(book, NOON_S, &acme);
    assert_int_equal(budget.spent[WEIR_BUDGET_DAY].units[WEIR_BUDGET_TOKENS], 42);
    assert_int_equal(budget.spent[WEIR_BUDGET_MONTH].units[WEIR_BUDGET_TOKENS], 84);
    /* And what is used while there is none; but nothing twice. */
    assert_int_equal(claim('a', &acme, 1, 100), WEIR_OK);
    settle('a', 42);
    weir_usage_add(usage, NOON_S, acme.name, weir_slice_of("m"), &counts);
    assert_int_equal(spent(&acme, NOON_S + 1), 84);
    weir_usage_add(usage, NOON_S, acme.name, weir_slice_of("m"), &counts);
    assert_int_equal(spent(&acme, NOON_S + 1), 84); /* not looked at again in this second */
    assert_int_equal(spent(&acme, NOON_S + 2), 126);
}

TEST(a_new_day_begins_at_zero_and_the_month_goes_on)
{
    struct weir_budget_limits limits = tokens_a_day(100);
    struct weir_budget_owner acme = tenant("acme", &limits);
    assert_int_equal(claim('a', &acme, 1, 100), WEIR_OK);
    settle('a', 100);
    assert_int_equal(claim('b', &acme, 1, 1), WEIR_BUDGET_SPENT);
    struct weir_budget_amount need = amount(1);
    assert_int_equal(
        weir_budget_book_reserve(book, NOON_S + A_DAY_S, &acme, 1, &need, &requests[1].claim),
        WEIR_OK);
    struct weir_budget budget = weir_budget_book_look(book, NOON_S + A_DAY_S, &acme);
    assert_int_equal(budget.spent[WEIR_BUDGET_DAY].units[WEIR_BUDGET_TOKENS], 0);
    assert_int_equal(budget.spent[WEIR_BUDGET_MONTH].units[WEIR_BUDGET_TOKENS], 100);
    settle('b', 0);
}

TEST(budgets_beyond_the_bound_are_shared)
{
    struct weir_budget_limits limits = tokens_a_day(10);
    close_book(NULL);
    assert_int_equal(open_with(5), 0);
    char names[6][2] = {"0", "1", "2", "3", "4", "5"};
    for (int i = 0; i < 6; i++) { /* 0 to 2 have their own, 3 to 5 share one */
        struct weir_budget_owner owner = tenant(names[i], &limits);
        assert_int_equal(claim((char)('a' + i), &owner, 1, 10), i <= 3 ? WEIR_OK : WEIR_WOULD_WAIT);
    }
    settle('d', 10);
    expect("e- f- ");
    settle('a', 10);
    settle('b', 0);
    settle('c', 0);
    /* A month later nobody has spent anything, so there is room again. */
    struct weir_budget_amount need = amount(1);
    struct weir_budget_owner fresh = tenant("5", &limits);
    assert_int_equal(
        weir_budget_book_reserve(book, NOON_S + 31 * A_DAY_S, &fresh, 1, &need, &requests[5].claim),
        WEIR_OK);
    struct weir_budget_record records[8];
    assert_int_equal(weir_budget_book_page(book, 0, records, 8), 1);
    settle('f', 0);
}

/* ---- keeping ---- */

TEST(what_is_spent_is_there_after_a_restart_and_what_was_reserved_is_spent)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner both[2] = {tenant("a \"name\" \xc3\xbc", &limits),
                                        {WEIR_BUDGET_OF_KEY, weir_slice_of("k"), &limits}};
    uint64_t state;
    assert_false(weir_budget_book_changed(book, &state));
    assert_int_equal(claim('a', both, 2, 100), WEIR_OK);
    settle('a', 70);
    assert_int_equal(claim('b', both, 1, 200), WEIR_OK);
    assert_true(weir_budget_book_changed(book, &state));
    assert_true(weir_budget_file_save(book, folder));
    assert_false(weir_budget_book_changed(book, &state));
    close_book(NULL); /* as a crash would, with a claim that is held */
    open_with(100);
    assert_true(weir_budget_file_load(book, folder, NOON_S));
    assert_int_equal(spent(&both[0], NOON_S), 270);
    assert_int_equal(spent(&both[1], NOON_S), 70);
    assert_int_equal(weir_budget_book_look(book, NOON_S, &both[0]).in_flight, 0);
}

static void write_file(const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/budgets", folder);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

#define FIRST "{\"weir\":\"budgets\",\"version\":1}\n"
#define ROW                                                                                   \
    "{\"tenant\":\"acme\",\"day\":20321,\"month\":667,\"spent_day\":[5,1,0],\"spent_month\":" \
    "[9,2,0],\"reserved\":[1,1,0]}\n"

TEST(a_damaged_file_is_moved_aside_and_what_can_be_read_of_it_counts)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner acme = tenant("acme", &limits);
    static const struct {
        const char *text;
        uint64_t spent;
        bool good;
    } cases[] = {
        {FIRST ROW "{\"rows\":1}\n", 6, true},
        {FIRST "{\"rows\":0}\n", 0, true},
        {"", 0, false},
        {FIRST, 0, false},
        {FIRST ROW, 6, false},
        {FIRST ROW "{\"rows\":2}\n", 6, false},
        {FIRST ROW ROW "{\"rows\":2}\n", 6, true},
        {FIRST ROW "{\"tenant\":\"b\",\"day\":-1}\n{\"rows\":2}\n", 6, false},
        {"{\"weir\":\"usage\",\"version\":1}\n" ROW "{\"rows\":1}\n", 0, false},
        {FIRST "{\"tenant\":\"acme\",\"day\":4294967296,\"month\":1,\"spent_day\":[5,1,0],"
               "\"spent_month\":[9,2,0],\"reserved\":[1,1,0]}\n{\"rows\":1}\n",
         0, false},
        {FIRST "{\"tenant\":\"acme\",\"day\":20321,\"month\":667,\"spent_day\":[5,1],"
               "\"spent_month\":[9,2,0],\"reserved\":[1,1,0]}\n{\"rows\":1}\n",
         0, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char path[128];
        close_book(NULL);
        open_with(100);
        write_file(cases[i].text);
        assert_true(weir_budget_file_load(book, folder, NOON_S));
        assert_int_equal(spent(&acme, NOON_S), cases[i].spent);
        snprintf(path, sizeof path, "%s/budgets.damaged", folder);
        assert_int_equal(unlink(path), cases[i].good ? -1 : 0);
    }
}

/* Two tenants whose names JSON cannot carry, and of which it would make one. */
TEST(names_of_any_bytes_come_back)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    char longest[WEIR_NAME_BYTES_MAX];
    memset(longest, 0xff, sizeof longest);
    struct weir_budget_owner owners[] = {
        tenant("b\xfc", &limits),
        tenant("b\xe4", &limits),
        {WEIR_BUDGET_OF_TENANT, {"a\0b", 3}, &limits},
        {WEIR_BUDGET_OF_TENANT, {longest, sizeof longest}, &limits},
        {WEIR_BUDGET_OF_KEY, {longest, sizeof longest}, &limits},
        tenant("behind", &limits),
    };
    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        assert_int_equal(claim((char)('a' + i), &owners[i], 1, 1), WEIR_OK);
        settle((char)('a' + i), 10 + i);
    }
    assert_true(weir_budget_file_save(book, folder));
    close_book(NULL);
    open_with(100);
    assert_true(weir_budget_file_load(book, folder, NOON_S));
    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        assert_int_equal(spent(&owners[i], NOON_S), 10 + i);
    }
    char path[128];
    snprintf(path, sizeof path, "%s/budgets.damaged", folder);
    assert_int_equal(unlink(path), -1);
}

#define ROW_OF(name, day, month, spent)                                                     \
    "{\"tenant\":\"" name "\",\"day\":" #day ",\"month\":" #month ",\"spent_day\":[" #spent \
    ",1,0],\"spent_month\":[" #spent ",1,0],\"reserved\":"                                  \
    "[0,0,0]}\n"

TEST(of_two_records_of_one_name_the_larger_amounts_count_and_those_behind_are_read)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner acme = tenant("acme", &limits), beta = tenant("beta", &limits);
    write_file(FIRST ROW_OF("acme", 20321, 667, 7) ROW_OF("acme", 20321, 667, 9)
                   ROW_OF("acme", 20320, 667, 11) ROW_OF("beta", 20321, 667, 3) "{\"rows\":4}\n");
    assert_true(weir_budget_file_load(book, folder, NOON_S));
    assert_int_equal(spent(&acme, NOON_S), 9);
    assert_int_equal(spent(&beta, NOON_S), 3);
}

TEST(a_full_book_comes_back_whole)
{
    struct weir_budget_limits limits = tokens_a_day(100);
    close_book(NULL);
    assert_int_equal(open_with(5), 0);
    char names[4][2] = {"0", "1", "2", "3"};
    for (int i = 0; i < 4; i++) { /* the last one has none of its own */
        struct weir_budget_owner owner = tenant(names[i], &limits);
        assert_int_equal(claim((char)('a' + i), &owner, 1, 10), WEIR_OK);
        settle((char)('a' + i), 10);
    }
    struct weir_budget_owner key = {WEIR_BUDGET_OF_KEY, weir_slice_of("k"), &limits};
    assert_int_equal(claim('e', &key, 1, 10), WEIR_OK);
    settle('e', 20);
    assert_true(weir_budget_file_save(book, folder));
    close_book(NULL);
    assert_int_equal(open_with(5), 0);
    assert_true(weir_budget_file_load(book, folder, NOON_S));
    struct weir_budget_record records[8];
    assert_int_equal(weir_budget_book_page(book, 0, records, 8), 5);
    assert_int_equal(spent(&key, NOON_S), 20);
    /* And one that has more than there is room for: no damage. */
    close_book(NULL);
    assert_int_equal(open_with(4), 0);
    assert_true(weir_budget_file_load(book, folder, NOON_S));
    assert_int_equal(weir_budget_book_page(book, 0, records, 8), 4);
    char path[128];
    snprintf(path, sizeof path, "%s/budgets", folder);
    assert_int_equal(access(path, R_OK), 0);
}

TEST(a_file_that_cannot_be_read_or_is_of_another_version_stays)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner acme = tenant("acme", &limits);
    char path[128];
    snprintf(path, sizeof path, "%s/budgets", folder);
    write_file("{\"weir\":\"budgets\",\"version\":2}\n" ROW "{\"rows\":1}\n");
    assert_false(weir_budget_file_load(book, folder, NOON_S));
    assert_int_equal(spent(&acme, NOON_S), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0); /* it cannot be read, by root either */
    assert_false(weir_budget_file_load(book, folder, NOON_S));
    assert_int_equal(rmdir(path), 0);
}

TEST(a_clock_that_was_ahead_does_not_keep_a_budget_spent)
{
    struct weir_budget_limits limits = tokens_a_day(1000);
    struct weir_budget_owner acme = tenant("acme", &limits), beta = tenant("beta", &limits);
    write_file(FIRST ROW_OF("acme", 99999, 3285, 1000)
                   ROW_OF("beta", 20322, 667, 1000) "{\"rows\":2}\n");
    assert_true(weir_budget_file_load(book, folder, NOON_S));
    assert_int_equal(claim('a', &acme, 1, 1), WEIR_BUDGET_SPENT);
    struct weir_budget_amount need = amount(1);
    assert_int_equal(
        weir_budget_book_reserve(book, NOON_S + A_DAY_S, &acme, 1, &need, &requests[0].claim),
        WEIR_OK);
    assert_int_equal(/* of tomorrow, which a step of the clock may make */
                     weir_budget_book_reserve(book, NOON_S + A_DAY_S, &beta, 1, &need,
                                              &requests[1].claim),
                     WEIR_BUDGET_SPENT);
    settle('a', 0);
}

int main(void)
{
#define A_TEST(name) cmocka_unit_test_setup_teardown(name, open_book, close_book)
    const struct CMUnitTest tests[] = {
        A_TEST(fifty_requests_at_once_spend_at_most_one_more_than_the_budget),
        A_TEST(a_small_request_does_not_overtake_a_large_one_that_waits),
        A_TEST(those_behind_a_request_that_leaves_are_looked_at),
        A_TEST(a_decision_that_is_on_its_way_arrives_although_the_request_leaves),
        A_TEST(a_request_is_charged_to_its_tenant_and_to_its_key),
        A_TEST(a_request_that_waits_for_one_budget_may_have_to_wait_for_the_other_next),
        A_TEST(as_many_wait_for_a_budget_as_may_and_one_more_is_refused),
        A_TEST(who_waits_goes_first_when_the_budget_has_grown),
        A_TEST(who_waits_goes_when_the_budget_grows),
        A_TEST(who_waits_goes_first_when_a_new_day_has_begun),
        A_TEST(who_waits_goes_at_the_beginning_of_a_day_although_no_other_comes),
        A_TEST(what_was_used_before_there_was_a_budget_counts),
        A_TEST(a_new_day_begins_at_zero_and_the_month_goes_on),
        A_TEST(budgets_beyond_the_bound_are_shared),
        A_TEST(what_is_spent_is_there_after_a_restart_and_what_was_reserved_is_spent),
        A_TEST(a_damaged_file_is_moved_aside_and_what_can_be_read_of_it_counts),
        A_TEST(names_of_any_bytes_come_back),
        A_TEST(of_two_records_of_one_name_the_larger_amounts_count_and_those_behind_are_read),
        A_TEST(a_full_book_comes_back_whole),
        A_TEST(a_file_that_cannot_be_read_or_is_of_another_version_stays),
        A_TEST(a_clock_that_was_ahead_does_not_keep_a_budget_spent),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
