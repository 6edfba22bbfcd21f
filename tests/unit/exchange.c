/* The moves of an exchange, what another attempt begins with, and what filters do at its steps. */
#include "proxy/exchange_steps.h"
#include "unit/helpers.h"

/* ---- states ---- */

#define STATES 10

/* Where each state leads, as docs/internals/proxy.md has it: one letter each, in the order of the
 * enum. */
static const char letters[STATES + 1] = "rwpcsjRTFO";
static const char *const moves[STATES] = {
    [WEIR_EXCHANGE_READING] = "wpFO",     [WEIR_EXCHANGE_WAITING] = "cFO",
    [WEIR_EXCHANGE_PAUSED] = "wFO",       [WEIR_EXCHANGE_CONNECTING] = "cswFO",
    [WEIR_EXCHANGE_SENDING] = "cwpjRTFO", [WEIR_EXCHANGE_JUDGING] = "RwpFO",
    [WEIR_EXCHANGE_REPLYING] = "FO",      [WEIR_EXCHANGE_TUNNEL] = "FO",
    [WEIR_EXCHANGE_FINISHING] = "O",      [WEIR_EXCHANGE_OVER] = "",
};

struct move {
    struct weir_exchange *exchange;
    enum weir_exchange_state to;
};

static void make_move(void *context)
{
    struct move *move = context;
    weir_exchange_move(move->exchange, move->to);
}

TEST(an_exchange_makes_the_moves_of_its_table_and_no_other)
{
    static struct weir_exchange exchange;
    for (uint8_t from = 0; from < STATES; from++) {
        for (uint8_t to = 0; to < STATES; to++) {
            struct move move = {&exchange, (enum weir_exchange_state)to};
            exchange.state = from;
            if (strchr(moves[from], letters[to]) == NULL) {
                expect_abort(make_move, &move, "next[exchange->state]");
                continue;
            }
            make_move(&move);
            assert_int_equal(exchange.state, to);
        }
    }
}

TEST(another_attempt_begins_as_the_first_one_did)
{
    struct weir_client client = {.keeps = false};
    struct weir_exchange exchange = {
        .client = &client,
        .reconnected = true,
        .server_failed = true,
        .request = {.sent = true,
                    .head_sent = 7,
                    .body_ready = 9,
                    .body_sent = 5,
                    .keeps_body = true,
                    .persists = true,
                    .expects = true},
        .reply = {.ready = 3, .status = 503, .progress = WEIR_REPLY_INTERIM_CUT}};
    weir_exchange_restart(&exchange);
    assert_false(exchange.reconnected);
    assert_false(exchange.server_failed);
    assert_false(exchange.request.sent);
    assert_int_equal(exchange.request.head_sent, 0);
    assert_int_equal(exchange.request.body_sent, 0);
    assert_int_equal(exchange.reply.ready, 0);
    assert_int_equal(exchange.reply.status, 0);
    assert_true(client.keeps);
    /* What the two sides have done stays: */
    assert_int_equal(exchange.request.body_ready, 9);
    assert_true(exchange.request.keeps_body);
    assert_true(exchange.request.expects);
    assert_int_equal(exchange.reply.progress, WEIR_REPLY_INTERIM_CUT);
}

static void restart(void *exchange)
{
    weir_exchange_restart(exchange);
}

TEST(there_is_no_other_attempt_once_the_client_has_a_part_of_the_reply)
{
    struct weir_client client = {0};
    struct weir_exchange exchange = {.client = &client, .reply = {.progress = WEIR_REPLY_BEGUN}};
    expect_abort(restart, &exchange, "WEIR_REPLY_BEGUN");
}

/* ---- filters ---- */

static char called[64]; /* a letter for each hook, in order */

static void note(char letter)
{
    size_t bytes = strlen(called);
    assert_true(bytes + 1 < sizeof called);
    called[bytes] = letter;
}

static bool admit(struct weir_exchange *exchange __attribute__((unused)), void *state)
{
    note(*(char *)state);
    return *(char *)state != 'n'; /* n answers the exchange */
}

static enum weir_filter_head read_head(struct weir_exchange *exchange __attribute__((unused)),
                                       void *state,
                                       const struct weir_http1_head *head __attribute__((unused)))
{
    note(*(char *)state);
    return *(char *)state == 'j' ? WEIR_FILTER_HEAD_JUDGE : WEIR_FILTER_HEAD_PASS;
}

static bool begin(struct weir_exchange *exchange __attribute__((unused)),
                  const struct weir_filter_use *use,
                  const struct weir_request_facts *facts __attribute__((unused)), void **state)
{
    static char names[] = "abjnx";
    const char *name = use->settings;
    *state = strchr(names, *name);
    return *name != 'x'; /* x has no memory */
}

static void end(struct weir_exchange *exchange __attribute__((unused)), void *state)
{
    note(state == NULL ? '-' : *(char *)state);
}

static void settle(struct weir_exchange *exchange __attribute__((unused)), void *state,
                   struct weir_result *result)
{
    note(*(char *)state);
    result->input++;
}

static const struct weir_exchange_filter full = {.begin = begin,
                                                 .admitted = admit,
                                                 .reply_head = read_head,
                                                 .settle = settle,
                                                 .end = end,
                                                 .fields_bytes_max = 100,
                                                 .policy = {.removed = 1, .anonymous = true}};
static const struct weir_exchange_filter log_only = {
    .end = end, .fields_bytes_max = 10, .plain_paths = "plain", .policy = {.removed = 4}};

static struct weir_filter_list list;
static struct weir_exchange exchange;

/* An exchange with one full filter for each letter. */
static bool open_exchange(const char *names)
{
    list = (struct weir_filter_list){0};
    exchange = (struct weir_exchange){.filters = &list};
    memset(called, 0, sizeof called);
    for (; *names != '\0'; names++) {
        weir_filter_list_add(&list, &full, names);
    }
    exchange.hooks = list.hooks;
    return weir_filters_begin(&exchange, NULL);
}

TEST(a_route_without_filters_has_no_hook)
{
    assert_true(open_exchange(""));
    for (int hook = 0; hook < WEIR_HOOK_COUNT; hook++) {
        assert_false(weir_exchange_has_hook(&exchange, (enum weir_filter_hook)hook));
    }
}

TEST(a_list_adds_up_what_its_filters_ask_for)
{
    open_exchange("a");
    weir_filter_list_add(&list, &log_only, NULL);
    exchange.hooks = list.hooks;
    assert_int_equal(list.count, 2);
    assert_int_equal(list.fields_bytes_max, 110);
    assert_int_equal(list.policy.removed, 5);
    assert_true(list.policy.anonymous);
    assert_false(list.policy.uncompressed);
    assert_string_equal(list.plain_paths, "plain");
    assert_true(weir_exchange_has_hook(&exchange, WEIR_HOOK_BEGIN));
    assert_true(weir_exchange_has_hook(&exchange, WEIR_HOOK_END));
    assert_true(weir_exchange_has_hook(&exchange, WEIR_HOOK_SETTLE));
    assert_false(weir_exchange_has_hook(&exchange, WEIR_HOOK_BODY));
    assert_false(weir_exchange_has_hook(&exchange, WEIR_HOOK_HIDES));
}

TEST(filters_are_asked_in_order_each_with_its_state)
{
    struct weir_result result = {0};
    assert_true(open_exchange("ab"));
    assert_true(weir_filters_admitted(&exchange));
    weir_filters_settle(&exchange, &result);
    weir_filters_end(&exchange);
    assert_string_equal(called, "ababab");
    assert_int_equal(result.input, 2);
    assert_null(exchange.filter_states[0]);
    assert_null(exchange.filter_states[1]);
}

TEST(no_filter_is_asked_once_one_has_answered)
{
    assert_true(open_exchange("anb"));
    assert_false(weir_filters_admitted(&exchange));
    assert_string_equal(called, "an");
}

TEST(a_reply_that_one_filter_judges_is_judged)
{
    assert_true(open_exchange("ajb"));
    assert_int_equal(weir_filters_reply_head(&exchange, NULL), WEIR_FILTER_HEAD_JUDGE);
    assert_string_equal(called, "ajb"); /* all have seen the head */
}

TEST(a_filter_that_has_not_begun_hears_of_the_end_all_the_same)
{
    struct weir_result result = {0};
    assert_false(open_exchange("axb"));
    weir_filters_settle(&exchange, &result);
    weir_filters_end(&exchange);
    assert_string_equal(called, "axax-");
    assert_int_equal(result.input, 2);
}

static void add_filter(void *context __attribute__((unused)))
{
    weir_filter_list_add(&list, &full, "a");
}

TEST(a_route_has_at_most_four_filters)
{
    assert_true(open_exchange("abab"));
    expect_abort(add_filter, NULL, "WEIR_FILTERS_MAX");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exchange_makes_the_moves_of_its_table_and_no_other),
        cmocka_unit_test(another_attempt_begins_as_the_first_one_did),
        cmocka_unit_test(there_is_no_other_attempt_once_the_client_has_a_part_of_the_reply),
        cmocka_unit_test(a_route_without_filters_has_no_hook),
        cmocka_unit_test(a_list_adds_up_what_its_filters_ask_for),
        cmocka_unit_test(filters_are_asked_in_order_each_with_its_state),
        cmocka_unit_test(no_filter_is_asked_once_one_has_answered),
        cmocka_unit_test(a_reply_that_one_filter_judges_is_judged),
        cmocka_unit_test(a_filter_that_has_not_begun_hears_of_the_end_all_the_same),
        cmocka_unit_test(a_route_has_at_most_four_filters),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
