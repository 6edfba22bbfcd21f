/* What becomes of a job after an attempt. */
#include "jobs/verdict.h"

#include "unit/helpers.h"

static const struct weir_attempt first_failure = {
    .end = WEIR_ATTEMPT_FAILURE,
    .attempts = 1,
    .attempts_max = 5,
    .backoff = {1000, 300000},
};

static struct weir_verdict_of_job judge(struct weir_attempt attempt)
{
    return weir_attempt_judge(&attempt);
}

TEST(a_success_is_done_and_a_job_that_was_cancelled_is_cancelled)
{
    struct weir_attempt attempt = first_failure;
    attempt.end = WEIR_ATTEMPT_SUCCESS;
    assert_int_equal(judge(attempt).state, WEIR_JOB_DONE);
    attempt.attempts = attempt.attempts_max; /* the last attempt counts as any other */
    assert_int_equal(judge(attempt).state, WEIR_JOB_DONE);
    attempt.end = WEIR_ATTEMPT_CANCELLED;
    assert_int_equal(judge(attempt).state, WEIR_JOB_CANCELLED);
}

TEST(what_fails_is_tried_again_until_its_attempts_are_spent)
{
    const enum weir_attempt_end ends[] = {WEIR_ATTEMPT_FAILURE, WEIR_ATTEMPT_TIMEOUT,
                                          WEIR_ATTEMPT_KILLED, WEIR_ATTEMPT_LOST};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        struct weir_attempt attempt = first_failure;
        attempt.end = ends[i];
        attempt.attempts = 4;
        assert_int_equal(judge(attempt).state, WEIR_JOB_QUEUED);
        attempt.attempts = 5;
        assert_int_equal(judge(attempt).state, WEIR_JOB_FAILED);
        assert_false(judge(attempt).quarantined);
        attempt.attempts = 6; /* the settings may have changed meanwhile */
        assert_int_equal(judge(attempt).state, WEIR_JOB_FAILED);
    }
}

TEST(what_we_could_not_begin_is_tried_again_however_often)
{
    struct weir_attempt attempt = first_failure;
    attempt.end = WEIR_ATTEMPT_UNABLE;
    attempt.attempts = attempt.attempts_max + 1;
    attempt.kills = WEIR_JOB_KILLS_MAX;
    assert_int_equal(judge(attempt).state, WEIR_JOB_QUEUED);
    assert_true(judge(attempt).delay_ms > 0);
    assert_false(weir_attempt_kills(WEIR_ATTEMPT_UNABLE));
}

TEST(what_is_hopeless_is_not_tried_again)
{
    struct weir_attempt attempt = first_failure;
    attempt.end = WEIR_ATTEMPT_HOPELESS;
    assert_int_equal(judge(attempt).state, WEIR_JOB_FAILED);
    assert_false(judge(attempt).quarantined);
}

TEST(the_third_kill_is_the_last_whatever_attempts_there_are)
{
    const enum weir_attempt_end ends[] = {WEIR_ATTEMPT_KILLED, WEIR_ATTEMPT_LOST};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        struct weir_attempt attempt = first_failure;
        attempt.end = ends[i];
        attempt.attempts_max = WEIR_JOB_ATTEMPTS_MAX;
        attempt.kills = WEIR_JOB_KILLS_MAX - 1;
        assert_int_equal(judge(attempt).state, WEIR_JOB_QUEUED);
        attempt.kills = WEIR_JOB_KILLS_MAX;
        assert_int_equal(judge(attempt).state, WEIR_JOB_FAILED);
        assert_true(judge(attempt).quarantined);
    }
    struct weir_attempt failure = first_failure; /* which is no kill, whatever was before */
    failure.kills = WEIR_JOB_KILLS_MAX;
    assert_int_equal(judge(failure).state, WEIR_JOB_QUEUED);
}

TEST(only_deaths_count_as_kills)
{
    for (int i = 0; i < WEIR_ATTEMPT_END_COUNT; i++) {
        bool kills = i == WEIR_ATTEMPT_KILLED || i == WEIR_ATTEMPT_LOST;
        assert_int_equal(weir_attempt_kills((enum weir_attempt_end)i), kills);
    }
}

TEST(backoff_doubles_from_its_first_up_to_its_most)
{
    struct weir_attempt attempt = first_failure;
    attempt.attempts_max = WEIR_JOB_ATTEMPTS_MAX;
    attempt.chance = UINT64_MAX; /* all of it */
    uint64_t expected_ms = 1000;
    for (uint32_t i = 1; i < WEIR_JOB_ATTEMPTS_MAX; i++) {
        attempt.attempts = i;
        assert_int_equal(judge(attempt).delay_ms, expected_ms);
        expected_ms = expected_ms * 2 < 300000 ? expected_ms * 2 : 300000;
    }
}

TEST(a_delay_is_between_half_and_all_of_what_backoff_says)
{
    struct weir_attempt attempt = first_failure;
    attempt.chance = 0;
    assert_int_equal(judge(attempt).delay_ms, 500);
    attempt.chance = UINT64_MAX / 2 + 1;
    assert_int_equal(judge(attempt).delay_ms, 750);
    attempt.chance = UINT64_MAX;
    assert_int_equal(judge(attempt).delay_ms, 1000);
    uint64_t state = 1;
    uint64_t sum = 0;
    for (int i = 0; i < 100000; i++) {
        attempt.chance = next_random(&state);
        uint64_t delay_ms = judge(attempt).delay_ms;
        assert_in_range(delay_ms, 500, 1000);
        sum += delay_ms;
    }
    assert_in_range(sum / 100000, 748, 752);
}

TEST(odd_and_extreme_backoffs_stay_within_their_bounds)
{
    struct weir_attempt attempt = first_failure;
    attempt.chance = UINT64_MAX;
    attempt.backoff = (struct weir_backoff){0, 0};
    assert_int_equal(judge(attempt).delay_ms, 0);
    attempt.backoff = (struct weir_backoff){1, 1};
    assert_int_equal(judge(attempt).delay_ms, 1);
    attempt.backoff = (struct weir_backoff){5000, 1000}; /* the most is the most */
    assert_int_equal(judge(attempt).delay_ms, 1000);
    attempt.backoff = (struct weir_backoff){UINT64_MAX, UINT64_MAX};
    assert_int_equal(judge(attempt).delay_ms, UINT64_MAX);
    attempt.attempts_max = WEIR_JOB_ATTEMPTS_MAX;
    attempt.attempts = WEIR_JOB_ATTEMPTS_MAX - 1;
    attempt.backoff = (struct weir_backoff){1, UINT64_MAX};
    assert_int_equal(judge(attempt).delay_ms, UINT64_C(1) << 40);
}

TEST(who_asks_for_more_time_than_backoff_gets_it)
{
    struct weir_attempt attempt = first_failure;
    attempt.chance = UINT64_MAX;
    attempt.retry_after_ms = 999;
    assert_int_equal(judge(attempt).delay_ms, 1000);
    attempt.retry_after_ms = 60000;
    assert_int_equal(judge(attempt).delay_ms, 60000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_success_is_done_and_a_job_that_was_cancelled_is_cancelled),
        cmocka_unit_test(what_fails_is_tried_again_until_its_attempts_are_spent),
        cmocka_unit_test(what_we_could_not_begin_is_tried_again_however_often),
        cmocka_unit_test(what_is_hopeless_is_not_tried_again),
        cmocka_unit_test(the_third_kill_is_the_last_whatever_attempts_there_are),
        cmocka_unit_test(only_deaths_count_as_kills),
        cmocka_unit_test(backoff_doubles_from_its_first_up_to_its_most),
        cmocka_unit_test(a_delay_is_between_half_and_all_of_what_backoff_says),
        cmocka_unit_test(odd_and_extreme_backoffs_stay_within_their_bounds),
        cmocka_unit_test(who_asks_for_more_time_than_backoff_gets_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
