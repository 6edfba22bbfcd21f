/* What Google's refusals say in their bodies. */
#include "llm/limits.h"
#include "unit/wire.h"

#define DAY_S UINT64_C(86400)

static struct weir_limits read_error(struct weir_slice body)
{
    struct weir_limits limits = {0};
    weir_limits_read_error((struct weir_slice){guarded(body), body.bytes}, &limits);
    return limits;
}

#define RETRY "{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"34.5s\"}"
#define FAILURE(violations)                                       \
    "{\"@type\":\"type.googleapis.com/google.rpc.QuotaFailure\"," \
    "\"violations\":[" violations "]}"
#define DAY_REQUESTS                                                                   \
    "{\"quotaMetric\":\"m\",\"quotaId\":\"GenerateRequestsPerDayPerProjectPerModel\"," \
    "\"quotaDimensions\":{\"model\":\"g\"},\"quotaValue\":\"50\"}"
#define MINUTE_INPUT                                                         \
    "{\"quotaId\":\"GenerateContentInputTokensPerModelPerMinute-FreeTier\"," \
    "\"quotaValue\":\"250000\"}"
#define ERROR(details) "{\"error\":{\"code\":429,\"message\":\"m\",\"details\":[" details "]}}"

static void expect_all(struct weir_limits limits)
{
    assert_true(limits.retry_after_known);
    assert_true(limits.retry_after_ns == UINT64_C(34500000000));
    assert_int_equal(limits.quota_count, 2);
    assert_int_equal(limits.quotas[0].unit, WEIR_UNIT_REQUESTS);
    assert_int_equal(limits.quotas[0].limit, 50);
    assert_int_equal(limits.quotas[0].remaining, 0);
    assert_true(limits.quotas[0].period_ns == DAY_S * WEIR_NS_PER_SECOND);
    assert_int_equal(limits.quotas[0].reset, WEIR_RESET_WINDOW);
    assert_true(limits.quotas[0].reset_ns == 600 * WEIR_NS_PER_SECOND);
    assert_int_equal(limits.quotas[1].unit, WEIR_UNIT_INPUT);
    assert_int_equal(limits.quotas[1].limit, 250000);
    assert_true(limits.quotas[1].period_ns == 60 * WEIR_NS_PER_SECOND);
    assert_int_equal(limits.quotas[1].reset, WEIR_RESET_WINDOW);
    assert_true(limits.quotas[1].reset_ns == UINT64_C(34500000000));
}

TEST(delay_and_violations_are_read_in_a_document_and_in_an_array_of_them)
{
    expect_all(read_error(BYTES(ERROR(RETRY "," FAILURE(DAY_REQUESTS "," MINUTE_INPUT)))));
    expect_all(read_error(BYTES(ERROR(FAILURE(DAY_REQUESTS "," MINUTE_INPUT) "," RETRY))));
    expect_all(read_error(BYTES("[" ERROR(RETRY "," FAILURE(DAY_REQUESTS "," MINUTE_INPUT)) "]")));
}

TEST(a_quota_that_is_spent_is_asked_for_again)
{
    struct weir_limits limits = read_error(BYTES(ERROR(FAILURE(DAY_REQUESTS "," MINUTE_INPUT))));
    assert_int_equal(limits.quota_count, 2);
    assert_true(limits.quotas[0].reset_ns == 600 * WEIR_NS_PER_SECOND);
    assert_true(limits.quotas[1].reset_ns == 60 * WEIR_NS_PER_SECOND);
    limits = read_error(BYTES(ERROR(FAILURE(DAY_REQUESTS) ",{\"retryDelay\":\"21926s\"}")));
    assert_true(limits.quotas[0].reset_ns == 21926 * WEIR_NS_PER_SECOND);
}

TEST(what_the_head_has_said_stays)
{
    struct weir_limits limits = {
        .retry_after_known = true, .retry_after_ns = 7, .quota_count = 1, .quotas = {{.limit = 3}}};
    weir_limits_read_error(BYTES(ERROR(RETRY "," FAILURE(DAY_REQUESTS))), &limits);
    assert_true(limits.retry_after_ns == 7);
    assert_int_equal(limits.quota_count, 1);
    assert_int_equal(limits.quotas[0].limit, 3);
}

static void expect_nothing(struct weir_slice body)
{
    struct weir_limits limits = read_error(body);
    assert_false(limits.retry_after_known);
    assert_int_equal(limits.quota_count, 0);
}

TEST(half_a_document_says_nothing)
{
    struct weir_slice whole = BYTES(ERROR(RETRY "," FAILURE(DAY_REQUESTS)));
    for (size_t bytes = 0; bytes < whole.bytes; bytes++) {
        expect_nothing((struct weir_slice){whole.data, bytes});
    }
}

TEST(other_documents_and_places_say_nothing)
{
    expect_nothing(BYTES("{\"retryDelay\":\"3s\"}"));
    expect_nothing(BYTES("{\"error\":{\"retryDelay\":\"3s\"}}"));
    expect_nothing(BYTES("{\"error\":{\"details\":{\"retryDelay\":\"3s\"}}}"));
    expect_nothing(BYTES("[[" ERROR(RETRY) "]]"));
    expect_nothing(BYTES(ERROR(RETRY) "x"));
    expect_nothing(BYTES(ERROR("{\"retryDelay\":3}")));
    expect_nothing(BYTES(ERROR("{\"retryDelay\":\"3\"}")));
    expect_nothing(BYTES(ERROR("{\"retryDelay\":\"-3s\"}")));
    expect_nothing(BYTES(ERROR("{\"retryDelay\":\"soon\"}")));
}

TEST(violations_that_cannot_be_understood_are_passed_over)
{
    expect_nothing(BYTES(ERROR(FAILURE("{\"quotaId\":\"RequestsPerDay\"}"))));
    expect_nothing(BYTES(ERROR(FAILURE("{\"quotaId\":\"RequestsPerDay\",\"quotaValue\":\"0\"}"))));
    expect_nothing(BYTES(ERROR(FAILURE("{\"quotaId\":\"RequestsPerDay\",\"quotaValue\":\"5x\"}"))));
    expect_nothing(BYTES(
        ERROR(FAILURE("{\"quotaId\":\"RequestsPerDay\",\"quotaValue\":\"1234567890123456\"}"))));
    expect_nothing(BYTES(ERROR(FAILURE("{\"quotaId\":\"RequestsPerWeek\",\"quotaValue\":\"5\"}"))));
    expect_nothing(BYTES(ERROR(FAILURE("{\"quotaId\":\"UploadsPerDay\",\"quotaValue\":\"5\"}"))));
    expect_nothing(
        BYTES(ERROR(FAILURE("{\"quotaValue\":\"5\"},{\"quotaId\":\"RequestsPerDay\"}"))));
}

TEST(a_body_that_is_too_long_is_not_looked_at)
{
    static char text[WEIR_LIMITS_ERROR_BYTES_MAX + 1];
    static const char document[] = ERROR(RETRY);
    memset(text, ' ', sizeof text);
    memcpy(text, document, sizeof document - 1);
    assert_true(read_error((struct weir_slice){text, sizeof text - 1}).retry_after_known);
    expect_nothing((struct weir_slice){text, sizeof text});
}

TEST(more_violations_than_there_is_room_for_are_left_out)
{
    struct weir_limits limits = read_error(BYTES(ERROR(FAILURE(
        DAY_REQUESTS "," DAY_REQUESTS "," DAY_REQUESTS "," DAY_REQUESTS "," DAY_REQUESTS
                     "," DAY_REQUESTS "," DAY_REQUESTS "," DAY_REQUESTS "," DAY_REQUESTS))));
    assert_int_equal(limits.quota_count, WEIR_QUOTAS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delay_and_violations_are_read_in_a_document_and_in_an_array_of_them),
        cmocka_unit_test(a_quota_that_is_spent_is_asked_for_again),
        cmocka_unit_test(what_the_head_has_said_stays),
        cmocka_unit_test(half_a_document_says_nothing),
        cmocka_unit_test(other_documents_and_places_say_nothing),
        cmocka_unit_test(violations_that_cannot_be_understood_are_passed_over),
        cmocka_unit_test(a_body_that_is_too_long_is_not_looked_at),
        cmocka_unit_test(more_violations_than_there_is_room_for_are_left_out),
    };
    return cmocka_run_group_tests_name("limits_error", tests, NULL, NULL);
}
