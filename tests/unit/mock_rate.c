#include "lab/mock/rate.h"

#include "unit/helpers.h"

static struct weir_mock_rate bucket_of(uint64_t tokens, uint64_t period_ns)
{
    struct weir_mock_rate bucket;
    weir_mock_rate_init(&bucket, (struct weir_mock_limit){tokens, period_ns});
    return bucket;
}

TEST(a_periods_tokens_may_go_at_once_and_no_more)
{
    struct weir_mock_rate bucket = bucket_of(3, 3 * SECOND);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_mock_rate_take(&bucket, 5 * SECOND), 0);
    }
    assert_int_equal(weir_mock_rate_take(&bucket, 5 * SECOND), SECOND);
    assert_int_equal(weir_mock_rate_take(&bucket, 5 * SECOND), SECOND); /* refusing takes none */
}

TEST(the_wait_that_it_tells_is_enough_and_not_too_long)
{
    struct weir_mock_rate bucket = bucket_of(1, MINUTE);
    assert_int_equal(weir_mock_rate_take(&bucket, 7), 0);
    assert_int_equal(weir_mock_rate_take(&bucket, 7 + MINUTE - 1), 1);
    assert_int_equal(weir_mock_rate_take(&bucket, 7 + MINUTE), 0);
    assert_int_equal(weir_mock_rate_take(&bucket, 7 + MINUTE), MINUTE);
}

TEST(what_does_not_divide_is_a_hair_strict)
{
    struct weir_mock_rate bucket = bucket_of(3, SECOND);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_mock_rate_take(&bucket, 0), 0);
    }
    assert_int_equal(weir_mock_rate_take(&bucket, 0), 333333334);
}

TEST(a_long_rest_saves_no_more_than_a_burst)
{
    struct weir_mock_rate bucket = bucket_of(2, SECOND);
    for (uint64_t day = 1; day < 3; day++) {
        assert_int_equal(weir_mock_rate_take(&bucket, day * DAY), 0);
        assert_int_equal(weir_mock_rate_take(&bucket, day * DAY), 0);
        assert_int_equal(weir_mock_rate_take(&bucket, day * DAY), SECOND / 2);
    }
}

TEST(time_that_stands_still_or_steps_back_admits_no_more)
{
    struct weir_mock_rate bucket = bucket_of(2, SECOND);
    assert_int_equal(weir_mock_rate_take(&bucket, MINUTE), 0);
    assert_int_equal(weir_mock_rate_take(&bucket, MINUTE), 0);
    assert_int_equal(weir_mock_rate_take(&bucket, MINUTE - SECOND), SECOND + SECOND / 2);
}

TEST(the_largest_limits_do_not_overflow)
{
    struct weir_mock_rate bucket = bucket_of(WEIR_MOCK_TOKENS_MAX, WEIR_MOCK_PERIOD_MAX_NS);
    assert_int_equal(weir_mock_rate_take(&bucket, UINT64_MAX / 2), 0);
    bucket = bucket_of(WEIR_MOCK_TOKENS_MAX, 1); /* more than one per nanosecond is one */
    assert_int_equal(bucket.token_ns, 1);
    bucket = bucket_of(1, WEIR_MOCK_PERIOD_MAX_NS);
    assert_int_equal(weir_mock_rate_take(&bucket, 0), 0);
    assert_int_equal(weir_mock_rate_take(&bucket, 0), DAY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_periods_tokens_may_go_at_once_and_no_more),
        cmocka_unit_test(the_wait_that_it_tells_is_enough_and_not_too_long),
        cmocka_unit_test(what_does_not_divide_is_a_hair_strict),
        cmocka_unit_test(a_long_rest_saves_no_more_than_a_burst),
        cmocka_unit_test(time_that_stands_still_or_steps_back_admits_no_more),
        cmocka_unit_test(the_largest_limits_do_not_overflow),
    };
    return cmocka_run_group_tests_name("mock_rate", tests, NULL, NULL);
}
