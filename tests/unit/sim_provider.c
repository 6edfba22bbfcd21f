/* Every rule of the modelled provider against values that were worked out by hand. */
#include "lab/sim/provider.h"

#include "unit/helpers.h"

#include <math.h>

/* 600 tokens a minute, 100 at most: 10 a second. */
static const struct weir_sim_limit ten = {.tokens = 600, .period_ns = MINUTE, .burst = 100};

static struct weir_sim_provider_settings settings_of(const struct weir_sim_limit *limits,
                                                     uint32_t count, enum weir_sim_charge charge)
{
    return (struct weir_sim_provider_settings){.limits = limits,
                                               .limit_count = count,
                                               .charge = charge,
                                               .first_token_s = {0.6, 0},
                                               .tokens_per_second = 70};
}

struct account {
    struct weir_sim_provider_settings settings;
    struct weir_sim_provider provider;
    struct weir_sim_reply reply;
};

static void open_account(struct account *account, enum weir_sim_charge charge)
{
    account->settings = settings_of(&ten, 1, charge);
    weir_sim_provider_init(&account->provider, &account->settings, 1);
}

static struct weir_sim_visit visit_of(uint32_t input, uint32_t output, uint32_t max_tokens)
{
    return (struct weir_sim_visit){.input = input, .output = output, .max_tokens = max_tokens};
}

static enum weir_sim_verdict put(struct account *account, struct weir_sim_visit *visit,
                                 uint64_t now_ns)
{
    weir_sim_provider_ask(&account->provider, visit, now_ns, &account->reply);
    return account->reply.verdict;
}

static void expect_level(struct account *account, double expected, uint64_t now_ns)
{
    double level = weir_sim_provider_level(&account->provider, 0, now_ns);
    if (fabs(level - expected) > 1e-6) {
        fail_msg("the level is %f, not %f", level, expected);
    }
}

/* ---- charging ---- */

TEST(prompt_charges_what_is_true_when_it_accepts)
{
    struct account account;
    open_account(&account, WEIR_SIM_CHARGE_PROMPT);
    struct weir_sim_visit a = visit_of(30, 40, 500);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    expect_level(&account, 30, 0);
    struct weir_sim_visit b = visit_of(20, 11, 500);
    assert_int_equal(put(&account, &b, 0), WEIR_SIM_REFUSED);
    expect_level(&account, 30, 0);
    assert_int_equal(put(&account, &b, SECOND / 10), WEIR_SIM_ACCEPTED); /* 31 by then */
    expect_level(&account, 0, SECOND / 10);
    weir_sim_provider_end(&account.provider, &a, 40, SECOND);
    expect_level(&account, 9, SECOND); /* only what has flowed in */
}

TEST(max_charges_max_tokens_and_gives_the_rest_back_at_the_end)
{
    struct account account;
    open_account(&account, WEIR_SIM_CHARGE_MAX);
    struct weir_sim_visit a = visit_of(30, 20, 50);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    expect_level(&account, 20, 0);
    struct weir_sim_visit b = visit_of(10, 1, 20);
    assert_int_equal(put(&account, &b, 0), WEIR_SIM_REFUSED); /* 30 of 20 */
    weir_sim_provider_end(&account.provider, &a, 20, SECOND);
    expect_level(&account, 20 + 10 + 30, SECOND);
    /* A refund never fills it past its burst. */
    assert_int_equal(put(&account, &b, SECOND), WEIR_SIM_ACCEPTED);
    expect_level(&account, 30, SECOND);
    expect_level(&account, 95, SECOND + 65 * SECOND / 10);
    weir_sim_provider_end(&account.provider, &b, 1, SECOND + 65 * SECOND / 10);
    expect_level(&account, 100, SECOND + 65 * SECOND / 10);
}

TEST(end_charges_all_of_it_at_the_end_below_zero_if_need_be)
{
    struct account account;
    open_account(&account, WEIR_SIM_CHARGE_END);
    struct weir_sim_visit a = visit_of(60, 50, 500);
    struct weir_sim_visit b = visit_of(60, 50, 500);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    assert_int_equal(put(&account, &b, 0), WEIR_SIM_ACCEPTED);
    expect_level(&account, 100, 0);
    weir_sim_provider_end(&account.provider, &a, 50, 0);
    weir_sim_provider_end(&account.provider, &b, 50, 0);
    expect_level(&account, -120, 0);
    struct weir_sim_visit c = visit_of(1, 1, 1);
    assert_int_equal(put(&account, &c, 0), WEIR_SIM_REFUSED);
    assert_int_equal(account.reply.retry_after_ns, 13 * SECOND); /* 121 missing at 10 a second */
    assert_int_equal(put(&account, &c, 12 * SECOND), WEIR_SIM_REFUSED);
    assert_int_equal(put(&account, &c, 13 * SECOND), WEIR_SIM_ACCEPTED);
}

TEST(end_counts_requests_when_it_accepts_them)
{
    static const struct weir_sim_limit two = {
        .of = WEIR_SIM_OF_REQUESTS, .tokens = 60, .period_ns = MINUTE, .burst = 2};
    struct account account = {.settings = settings_of(&two, 1, WEIR_SIM_CHARGE_END)};
    weir_sim_provider_init(&account.provider, &account.settings, 1);
    struct weir_sim_visit a = visit_of(1, 1, 1);
    struct weir_sim_visit b = visit_of(1, 1, 1);
    struct weir_sim_visit c = visit_of(1, 1, 1);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    assert_int_equal(put(&account, &b, 0), WEIR_SIM_ACCEPTED);
    assert_int_equal(put(&account, &c, 0), WEIR_SIM_REFUSED);
    weir_sim_provider_end(&account.provider, &a, 1, 0);
    expect_level(&account, 0, 0);
}

TEST(a_client_that_leaves_pays_for_what_came)
{
    struct account account;
    open_account(&account, WEIR_SIM_CHARGE_PROMPT);
    struct weir_sim_visit a = visit_of(30, 40, 500);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    weir_sim_provider_end(&account.provider, &a, 15, 0);
    expect_level(&account, 55, 0);
}

TEST(what_costs_more_than_the_burst_goes_when_it_is_full)
{
    struct account account;
    open_account(&account, WEIR_SIM_CHARGE_PROMPT);
    struct weir_sim_visit a = visit_of(150, 50, 500);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    expect_level(&account, -100, 0);
}

TEST(requests_input_and_output_are_limits_of_their_own)
{
    static const struct weir_sim_limit limits[] = {
        {.of = WEIR_SIM_OF_REQUESTS, .tokens = 60, .period_ns = MINUTE, .burst = 2},
        {.of = WEIR_SIM_OF_INPUT, .tokens = 60, .period_ns = MINUTE, .burst = 100},
        {.of = WEIR_SIM_OF_OUTPUT, .tokens = 60, .period_ns = MINUTE, .burst = 50},
    };
    struct account account = {.settings = settings_of(limits, 3, WEIR_SIM_CHARGE_PROMPT)};
    weir_sim_provider_init(&account.provider, &account.settings, 1);
    struct weir_sim_visit a = visit_of(90, 20, 100);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    struct weir_sim_visit much_input = visit_of(13, 1, 100);
    assert_int_equal(put(&account, &much_input, 0), WEIR_SIM_REFUSED);
    assert_int_equal(account.reply.retry_after_ns, 3 * SECOND);
    struct weir_sim_visit much_output = visit_of(1, 35, 100);
    assert_int_equal(put(&account, &much_output, 0), WEIR_SIM_REFUSED);
    assert_int_equal(account.reply.retry_after_ns, 5 * SECOND);
    struct weir_sim_visit small = visit_of(1, 1, 100);
    assert_int_equal(put(&account, &small, 0), WEIR_SIM_ACCEPTED);
    struct weir_sim_visit third = visit_of(1, 1, 100);
    assert_int_equal(put(&account, &third, 0), WEIR_SIM_REFUSED); /* the third request */
}

/* ---- places ---- */

TEST(places_are_refused_without_retry_after_or_queue_inside)
{
    struct account account = {.settings = settings_of(NULL, 0, WEIR_SIM_CHARGE_PROMPT)};
    account.settings.concurrent = 1;
    account.settings.queue = 1;
    weir_sim_provider_init(&account.provider, &account.settings, 1);
    struct weir_sim_visit a = visit_of(1, 1, 1);
    struct weir_sim_visit b = visit_of(1, 1, 1);
    struct weir_sim_visit c = visit_of(1, 1, 1);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    assert_int_equal(put(&account, &b, 0), WEIR_SIM_QUEUED);
    assert_int_equal(put(&account, &c, 0), WEIR_SIM_REFUSED);
    assert_true(account.reply.by_places);
    assert_int_equal(account.reply.retry_after_ns, 0);
    assert_ptr_equal(weir_sim_provider_end(&account.provider, &a, 1, 0), &b);
    assert_null(weir_sim_provider_end(&account.provider, &b, 1, 0));
    assert_int_equal(account.provider.active, 0);
    assert_int_equal(account.provider.queued, 0);
}

TEST(who_leaves_the_queue_inside_gets_its_charge_back)
{
    struct account account = {.settings = settings_of(&ten, 1, WEIR_SIM_CHARGE_PROMPT)};
    account.settings.concurrent = 1;
    account.settings.queue = 1;
    weir_sim_provider_init(&account.provider, &account.settings, 1);
    struct weir_sim_visit a = visit_of(10, 10, 10);
    struct weir_sim_visit b = visit_of(20, 10, 10);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    assert_int_equal(put(&account, &b, 0), WEIR_SIM_QUEUED);
    expect_level(&account, 50, 0);
    weir_sim_provider_forget(&account.provider, &b, 0);
    expect_level(&account, 80, 0);
    assert_null(weir_sim_provider_end(&account.provider, &a, 10, 0));
}

/* ---- what is stated ---- */

TEST(headers_tell_limit_remaining_and_the_time_until_full)
{
    struct account account;
    open_account(&account, WEIR_SIM_CHARGE_PROMPT);
    struct weir_sim_visit a = visit_of(30, 35, 500);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    assert_int_equal(account.reply.stated_count, 1);
    assert_int_equal(account.reply.stated[0].limit, 100);
    assert_int_equal(account.reply.stated[0].remaining, 35);
    assert_int_equal(account.reply.stated[0].reset_ns, 65 * SECOND / 10);
}

TEST(headers_may_be_rounded_partly_hidden_or_missing)
{
    static const struct weir_sim_limit limits[] = {
        {.tokens = 600000, .period_ns = MINUTE, .burst = 100000},
        {.tokens = 600000, .period_ns = MINUTE, .burst = 50000, .hidden = true},
    };
    struct account account = {.settings = settings_of(limits, 2, WEIR_SIM_CHARGE_PROMPT)};
    account.settings.headers = WEIR_SIM_HEADERS_ROUNDED;
    weir_sim_provider_init(&account.provider, &account.settings, 1);
    struct weir_sim_visit a = visit_of(15000, 100, 500);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    assert_int_equal(account.reply.stated_count, 1);
    assert_int_equal(account.reply.stated[0].remaining, 84000); /* of 84,900 */
    assert_int_equal(account.reply.stated[0].reset_ns, SECOND); /* of 1.51 s */
    account.settings.headers = WEIR_SIM_HEADERS_NONE;
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    assert_int_equal(account.reply.stated_count, 0);
}

TEST(retry_after_is_whole_seconds_exact_or_missing)
{
    struct account account;
    open_account(&account, WEIR_SIM_CHARGE_PROMPT);
    struct weir_sim_visit a = visit_of(50, 50, 500);
    assert_int_equal(put(&account, &a, 0), WEIR_SIM_ACCEPTED);
    struct weir_sim_visit b = visit_of(10, 2, 500);
    assert_int_equal(put(&account, &b, 0), WEIR_SIM_REFUSED);
    assert_int_equal(account.reply.retry_after_ns, 2 * SECOND); /* of 1.2 s */
    account.settings.retry_after = WEIR_SIM_RETRY_AFTER_EXACT;
    assert_int_equal(put(&account, &b, 0), WEIR_SIM_REFUSED);
    assert_in_range(account.reply.retry_after_ns, 12 * SECOND / 10, 12 * SECOND / 10 + 1000);
    account.settings.retry_after = WEIR_SIM_RETRY_AFTER_NONE;
    assert_int_equal(put(&account, &b, 0), WEIR_SIM_REFUSED);
    assert_int_equal(account.reply.retry_after_ns, 0);
}

TEST(a_window_is_full_again_at_its_end_and_not_before)
{
    static const struct weir_sim_limit window = {
        .tokens = 100, .period_ns = MINUTE, .burst = 100, .window = true};
    struct account account = {.settings = settings_of(&window, 1, WEIR_SIM_CHARGE_PROMPT)};
    weir_sim_provider_init(&account.provider, &account.settings, 1);
    struct weir_sim_visit a = visit_of(50, 50, 500);
    assert_int_equal(put(&account, &a, 10 * SECOND), WEIR_SIM_ACCEPTED);
    assert_int_equal(account.reply.stated[0].reset_ns, 50 * SECOND);
    assert_int_equal(put(&account, &a, MINUTE - 1), WEIR_SIM_REFUSED);
    assert_int_equal(account.reply.retry_after_ns, SECOND);
    assert_int_equal(put(&account, &a, MINUTE), WEIR_SIM_ACCEPTED);
}

TEST(a_refund_from_before_a_window_does_not_lift_the_next_above_its_limit)
{
    static const struct weir_sim_limit window = {
        .tokens = 100, .period_ns = MINUTE, .burst = 100, .window = true};
    struct account account = {.settings = settings_of(&window, 1, WEIR_SIM_CHARGE_MAX)};
    weir_sim_provider_init(&account.provider, &account.settings, 1);
    struct weir_sim_visit a = visit_of(10, 5, 90);
    assert_int_equal(put(&account, &a, MINUTE - SECOND), WEIR_SIM_ACCEPTED);
    expect_level(&account, 0, MINUTE - SECOND);
    weir_sim_provider_end(&account.provider, &a, 5, MINUTE + SECOND);
    expect_level(&account, 100, MINUTE + SECOND);
}

/* ---- changes and errors ---- */

TEST(a_halved_limit_refills_half_as_fast_and_holds_half)
{
    struct account account;
    open_account(&account, WEIR_SIM_CHARGE_PROMPT);
    const struct weir_sim_change half = {.limits = 0.5, .errors = -1, .slow = -1, .concurrent = -1};
    weir_sim_provider_change(&account.provider, &half, SECOND);
    expect_level(&account, 50, SECOND);
    struct weir_sim_visit a = visit_of(25, 25, 500);
    assert_int_equal(put(&account, &a, SECOND), WEIR_SIM_ACCEPTED);
    expect_level(&account, 5, 2 * SECOND);
    const struct weir_sim_change back = {.limits = 1, .errors = -1, .slow = -1, .concurrent = -1};
    weir_sim_provider_change(&account.provider, &back, 2 * SECOND);
    expect_level(&account, 15, 3 * SECOND);
}

TEST(errors_charge_nothing_and_come_as_often_as_they_should)
{
    struct account account;
    open_account(&account, WEIR_SIM_CHARGE_PROMPT);
    const struct weir_sim_change all = {.limits = -1, .errors = 1, .slow = 3, .concurrent = 5};
    weir_sim_provider_change(&account.provider, &all, 0);
    struct weir_sim_visit a = visit_of(25, 25, 500);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(put(&account, &a, 0), WEIR_SIM_FAILED);
    }
    expect_level(&account, 100, 0);
    assert_int_equal(account.provider.concurrent, 5);
    assert_in_range(weir_sim_provider_first_ns(&account.provider, 600), 1799999999, 1800000001);
    const struct weir_sim_change half = {.limits = -1, .errors = 0.5, .slow = 1, .concurrent = -1};
    weir_sim_provider_change(&account.provider, &half, 0);
    int failed = 0;
    struct weir_sim_visit tiny = visit_of(1, 1, 1);
    for (int i = 0; i < 1000; i++) {
        failed += put(&account, &tiny, (uint64_t)i * HOUR) == WEIR_SIM_FAILED;
        account.provider.active = 0;
    }
    assert_in_range(failed, 450, 550);
}

TEST(the_input_is_read_before_the_first_token_and_a_crowd_slows_all_replies)
{
    struct weir_sim_provider provider;
    const struct weir_sim_provider_settings settings = {
        .first_token_s = {0.5, 0}, .tokens_per_second = 100, .prefill = 1000, .batch = 4};
    weir_sim_provider_init(&provider, &settings, 1);
    assert_in_range(weir_sim_provider_first_ns(&provider, 2000), 2499999999, 2500000001);
    assert_in_range(weir_sim_provider_token_ns(&provider), 10000000, 10000001);
    provider.active = 4;
    assert_in_range(weir_sim_provider_token_ns(&provider), 20000000, 20000001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompt_charges_what_is_true_when_it_accepts),
        cmocka_unit_test(max_charges_max_tokens_and_gives_the_rest_back_at_the_end),
        cmocka_unit_test(end_charges_all_of_it_at_the_end_below_zero_if_need_be),
        cmocka_unit_test(end_counts_requests_when_it_accepts_them),
        cmocka_unit_test(a_client_that_leaves_pays_for_what_came),
        cmocka_unit_test(what_costs_more_than_the_burst_goes_when_it_is_full),
        cmocka_unit_test(requests_input_and_output_are_limits_of_their_own),
        cmocka_unit_test(places_are_refused_without_retry_after_or_queue_inside),
        cmocka_unit_test(who_leaves_the_queue_inside_gets_its_charge_back),
        cmocka_unit_test(headers_tell_limit_remaining_and_the_time_until_full),
        cmocka_unit_test(headers_may_be_rounded_partly_hidden_or_missing),
        cmocka_unit_test(retry_after_is_whole_seconds_exact_or_missing),
        cmocka_unit_test(a_window_is_full_again_at_its_end_and_not_before),
        cmocka_unit_test(a_refund_from_before_a_window_does_not_lift_the_next_above_its_limit),
        cmocka_unit_test(a_halved_limit_refills_half_as_fast_and_holds_half),
        cmocka_unit_test(errors_charge_nothing_and_come_as_often_as_they_should),
        cmocka_unit_test(the_input_is_read_before_the_first_token_and_a_crowd_slows_all_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
