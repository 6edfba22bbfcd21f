/* What an answer means, and whether to try again. */
#include "weir/retry.h"
#include "unit/helpers.h"

#define MS (SECOND / 1000)

TEST(answers_mean_what_the_table_says)
{
    static const struct {
        struct weir_exchange_end answer;
        enum weir_outcome outcome;
    } cases[] = {
        {{.status = 200}, WEIR_OUTCOME_SUCCESS},
        {{.status = 101}, WEIR_OUTCOME_SUCCESS},
        {{.status = 304}, WEIR_OUTCOME_SUCCESS},
        {{.status = 399}, WEIR_OUTCOME_SUCCESS},
        {{.status = 400}, WEIR_OUTCOME_CLIENT_ERROR},
        {{.status = 408}, WEIR_OUTCOME_CLIENT_ERROR},
        {{.status = 428}, WEIR_OUTCOME_CLIENT_ERROR},
        {{.status = 429}, WEIR_OUTCOME_RATE_LIMIT},
        {{.status = 430}, WEIR_OUTCOME_CLIENT_ERROR},
        {{.status = 499}, WEIR_OUTCOME_CLIENT_ERROR},
        {{.status = 500}, WEIR_OUTCOME_SOFT_LOSS},
        {{.status = 503}, WEIR_OUTCOME_SOFT_LOSS},
        {{.status = 529}, WEIR_OUTCOME_SOFT_LOSS},
        {{.timed_out = true}, WEIR_OUTCOME_SOFT_LOSS},
        {{.connection_lost = true}, WEIR_OUTCOME_SOFT_LOSS},
        {{.status = 200, .connection_lost = true}, WEIR_OUTCOME_SOFT_LOSS},
        {{.status = 200, .timed_out = true}, WEIR_OUTCOME_SOFT_LOSS},
        {{.status = 500, .caller_gone = true}, WEIR_OUTCOME_CANCELLED},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(weir_signal_outcome(&cases[i].answer), cases[i].outcome);
    }
}

static enum weir_retry_decision decide(struct weir_exchange_end answer, uint32_t attempt)
{
    struct weir_retry_budget budget;
    weir_retry_budget_init(&budget);
    struct weir_retry_question question = {
        .end = answer, .attempt = attempt, .deadline_ns = WEIR_NEVER, .now_ns = SECOND};
    uint64_t at_ns = 0;
    enum weir_retry_decision verdict = weir_retry_decide(&budget, &question, &at_ns);
    assert_int_equal(weir_retry_possible(&answer), verdict != WEIR_RETRY_NO_KIND);
    return verdict;
}

TEST(only_refusals_overload_and_timeouts_are_tried_again)
{
    for (uint16_t status = 100; status < 600; status++) {
        bool again = status == 429 || status == 503 || status == 529;
        assert_int_equal(decide((struct weir_exchange_end){.status = status}, 1),
                         again ? WEIR_RETRY_YES : WEIR_RETRY_NO_KIND);
    }
    assert_int_equal(decide((struct weir_exchange_end){.timed_out = true}, 1), WEIR_RETRY_YES);
    assert_int_equal(decide((struct weir_exchange_end){.connection_lost = true}, 1),
                     WEIR_RETRY_NO_KIND);
    assert_int_equal(decide((struct weir_exchange_end){.timed_out = true, .caller_gone = true}, 1),
                     WEIR_RETRY_NO_KIND);
}

TEST(do_not_retry_is_respected_and_a_reply_that_has_begun_stands)
{
    assert_int_equal(decide((struct weir_exchange_end){.status = 429, .do_not_retry = true}, 1),
                     WEIR_RETRY_NO_FORBIDDEN);
    assert_int_equal(
        decide((struct weir_exchange_end){.timed_out = true, .bytes_passed_on = true}, 1),
        WEIR_RETRY_NO_FORBIDDEN);
}

TEST(it_is_tried_again_twice_and_not_three_times)
{
    assert_int_equal(decide((struct weir_exchange_end){.status = 503}, 2), WEIR_RETRY_YES);
    assert_int_equal(decide((struct weir_exchange_end){.status = 503}, 3), WEIR_RETRY_NO_ATTEMPTS);
}

static uint64_t moment(struct weir_retry_question question)
{
    struct weir_retry_budget budget;
    weir_retry_budget_init(&budget);
    uint64_t at_ns = 0;
    question.end.status = 503;
    question.deadline_ns = WEIR_NEVER;
    assert_int_equal(weir_retry_decide(&budget, &question, &at_ns), WEIR_RETRY_YES);
    return at_ns;
}

TEST(it_waits_200_ms_for_each_attempt_with_half_of_it_as_jitter)
{
    assert_int_equal(moment((struct weir_retry_question){.attempt = 1, .random = 0}), 100 * MS);
    assert_int_equal(moment((struct weir_retry_question){.attempt = 1, .random = UINT32_MAX}),
                     300 * MS);
    assert_int_equal(moment((struct weir_retry_question){.attempt = 2, .random = 0}), 200 * MS);
    assert_int_equal(
        moment((struct weir_retry_question){.attempt = 2, .random = UINT32_MAX, .now_ns = SECOND}),
        SECOND + 600 * MS);
}

TEST(retry_after_comes_first_and_has_no_jitter)
{
    struct weir_retry_question question = {.attempt = 2,
                                           .random = 99,
                                           .retry_after_known = true,
                                           .retry_after_ns = 7 * SECOND,
                                           .now_ns = SECOND};
    assert_int_equal(moment(question), 8 * SECOND);
    question.retry_after_ns = 0;
    assert_int_equal(moment(question), SECOND);
}

TEST(nothing_is_tried_again_that_would_come_after_the_deadline)
{
    struct weir_retry_budget budget;
    weir_retry_budget_init(&budget);
    uint64_t at_ns = 5;
    struct weir_retry_question question = {.end = {.status = 429},
                                           .attempt = 1,
                                           .retry_after_known = true,
                                           .retry_after_ns = SECOND,
                                           .deadline_ns = 11 * SECOND,
                                           .now_ns = 10 * SECOND};
    assert_int_equal(weir_retry_decide(&budget, &question, &at_ns), WEIR_RETRY_NO_TIME);
    assert_int_equal(at_ns, 5);
    question.deadline_ns++;
    assert_int_equal(weir_retry_decide(&budget, &question, &at_ns), WEIR_RETRY_YES);
    question.deadline_ns = 9 * SECOND;
    assert_int_equal(weir_retry_decide(&budget, &question, &at_ns), WEIR_RETRY_NO_TIME);
    question.retry_after_ns = UINT64_MAX;
    question.deadline_ns = WEIR_NEVER;
    assert_int_equal(weir_retry_decide(&budget, &question, &at_ns), WEIR_RETRY_NO_TIME);
}

static uint32_t retries_of(uint16_t status, uint32_t requests)
{
    struct weir_retry_budget budget;
    weir_retry_budget_init(&budget);
    struct weir_retry_question question = {
        .end = {.status = status}, .attempt = 1, .deadline_ns = WEIR_NEVER};
    uint32_t retries = 0;
    uint64_t at_ns;
    for (uint32_t i = 0; i < requests; i++) {
        weir_retry_budget_earn(&budget);
        retries += weir_retry_decide(&budget, &question, &at_ns) == WEIR_RETRY_YES;
    }
    return retries;
}

/* Everything fails: 8 in a hundred are sent again after an error and 2 after a refusal, besides
 * what was saved up. */
TEST(at_most_a_tenth_of_requests_is_sent_again)
{
    uint32_t failed = retries_of(503, 10000);
    uint32_t refused = retries_of(429, 10000);
    assert_in_range(failed, 800, 803);
    assert_in_range(refused, 298, 301);
    assert_true(failed + refused <= 1000 + 104);
}

TEST(a_refused_retry_costs_nothing_of_the_budget)
{
    struct weir_retry_budget budget = {.failed = 0.9, .refused = 0.5};
    struct weir_retry_question question = {
        .end = {.status = 503}, .attempt = 1, .deadline_ns = WEIR_NEVER};
    uint64_t at_ns;
    assert_int_equal(weir_retry_decide(&budget, &question, &at_ns), WEIR_RETRY_NO_BUDGET);
    assert_true(budget.failed == 0.9);
    question.end.status = 429;
    assert_int_equal(weir_retry_decide(&budget, &question, &at_ns), WEIR_RETRY_NO_BUDGET);
    assert_true(budget.refused == 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_mean_what_the_table_says),
        cmocka_unit_test(only_refusals_overload_and_timeouts_are_tried_again),
        cmocka_unit_test(do_not_retry_is_respected_and_a_reply_that_has_begun_stands),
        cmocka_unit_test(it_is_tried_again_twice_and_not_three_times),
        cmocka_unit_test(it_waits_200_ms_for_each_attempt_with_half_of_it_as_jitter),
        cmocka_unit_test(retry_after_comes_first_and_has_no_jitter),
        cmocka_unit_test(nothing_is_tried_again_that_would_come_after_the_deadline),
        cmocka_unit_test(at_most_a_tenth_of_requests_is_sent_again),
        cmocka_unit_test(a_refused_retry_costs_nothing_of_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
