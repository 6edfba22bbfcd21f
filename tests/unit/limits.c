/* What replies say about limits, as providers write it. */
#include "unit/limits_helpers.h"

/* ---- providers ---- */

TEST(openai_tells_how_long_until_its_buckets_are_full)
{
    read_success(&openai, "Date: Thu, 21 Aug 2025 12:41:00 GMT\r\n"
                          "Content-Type: application/json\r\n"
                          "openai-organization: user-abc\r\n"
                          "openai-processing-ms: 412\r\n"
                          "x-ratelimit-limit-requests: 5000\r\n"
                          "x-ratelimit-limit-tokens: 160000\r\n"
                          "x-ratelimit-limit-tokens_usage_based: 160000\r\n"
                          "x-ratelimit-remaining-requests: 4999\r\n"
                          "x-ratelimit-remaining-tokens: 159976\r\n"
                          "x-ratelimit-reset-requests: 12ms\r\n"
                          "x-ratelimit-reset-tokens: 6m0s\r\n"
                          "x-request-id: req_1\r\n");
    assert_int_equal(limits.quota_count, 2);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .limit = 5000, .remaining = 4999,
                 .reset_ns = 12 * MILLISECOND, .reset_rounding_ns = MILLISECOND);
    EXPECT_QUOTA(1, .unit = WEIR_UNIT_COST, .period_ns = MINUTE, .limit = 160000,
                 .remaining = 159976, .reset_ns = 6 * MINUTE, .reset_rounding_ns = SECOND);
    assert_false(limits.retry_after_known);
}

TEST(azure_counts_in_windows_and_says_minus_one_for_unknown)
{
    read_reply(&azure, "429 Too Many Requests",
               "x-ms-region: East US\r\n"
               "x-ratelimit-limit-requests: 50\r\n"
               "x-ratelimit-remaining-requests: 0\r\n"
               "x-ratelimit-reset-requests: 10\r\n"
               "x-ratelimit-limit-tokens: 50000\r\n"
               "x-ratelimit-remaining-tokens: -1\r\n"
               "x-ratelimit-reset-tokens: 60\r\n"
               "retry-after-ms: 7350\r\n"
               "Retry-After: 8\r\n");
    assert_int_equal(limits.quota_count, 1);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .reset = WEIR_RESET_WINDOW, .limit = 50,
                 .remaining = 0, .reset_ns = 10 * SECOND, .reset_rounding_ns = SECOND);
    expect_retry_after(7350 * MILLISECOND, MILLISECOND);

    read_success(&azure, "x-ratelimit-limit-tokens: 50000\r\n"
                         "x-ratelimit-remaining-tokens: 46760\r\n"
                         "x-ratelimit-reset-tokens: -1\r\n");
    assert_int_equal(limits.quota_count, 1);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_COST, .period_ns = MINUTE, .limit = 50000,
                 .remaining = 46760);
    read_success(&azure, "x-ratelimit-remaining-tokens: 46760\r\n"
                         "x-ratelimit-remaining-requests: 49\r\n");
    expect_nothing();
}

TEST(groq_counts_requests_by_the_day)
{
    read_success(&groq, "x-groq-region: fra\r\n"
                        "x-ratelimit-limit-requests: 14400\r\n"
                        "x-ratelimit-limit-tokens: 18000\r\n"
                        "x-ratelimit-remaining-requests: 14370\r\n"
                        "x-ratelimit-remaining-tokens: 17997\r\n"
                        "x-ratelimit-reset-requests: 2m59.56s\r\n"
                        "x-ratelimit-reset-tokens: 7.66s\r\n");
    assert_int_equal(limits.quota_count, 2);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .period_ns = DAY, .limit = 14400,
                 .remaining = 14370, .reset_ns = 179560 * MILLISECOND,
                 .reset_rounding_ns = 10 * MILLISECOND);
    EXPECT_QUOTA(1, .unit = WEIR_UNIT_COST, .period_ns = MINUTE, .limit = 18000, .remaining = 17997,
                 .reset_ns = 7660 * MILLISECOND, .reset_rounding_ns = 10 * MILLISECOND);
}

TEST(anthropic_tells_four_quotas_and_the_moment_when_each_is_full)
{
    read_success(&anthropic, anthropic_fields);
    assert_int_equal(limits.quota_count, 4);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .period_ns = MINUTE, .limit = 1000,
                 .remaining = 999, .reset_rounding_ns = SECOND);
    EXPECT_QUOTA(1, .unit = WEIR_UNIT_COST, .period_ns = MINUTE, .limit = 96000, .remaining = 95000,
                 .remaining_rounding = 1000, .reset_ns = 30 * SECOND, .reset_rounding_ns = SECOND);
    EXPECT_QUOTA(2, .unit = WEIR_UNIT_INPUT, .period_ns = MINUTE, .limit = 80000,
                 .remaining = 79000, .remaining_rounding = 1000, .reset_ns = SECOND,
                 .reset_rounding_ns = SECOND);
    EXPECT_QUOTA(3, .unit = WEIR_UNIT_OUTPUT, .period_ns = MINUTE, .limit = 16000,
                 .remaining = 16000, .remaining_rounding = 1000, .reset_rounding_ns = SECOND);
}

TEST(a_clock_that_is_wrong_does_not_matter_where_a_date_is_told)
{
    static char fields[1024];
    static const char reset[] = "anthropic-ratelimit-tokens-limit: 96000\r\n"
                                "anthropic-ratelimit-tokens-remaining: 95000\r\n"
                                "anthropic-ratelimit-tokens-reset: 2025-08-21T13:41:30Z\r\n";
    static const struct {
        const char *date;
        uint64_t reset_ns, rounding_ns;
    } cases[] = {
        {"Date: Thu, 21 Aug 2025 13:41:00 GMT\r\n", 30 * SECOND, 2 * SECOND}, /* we are late */
        {"Date: Thu, 21 Aug 2025 12:41:02 GMT\r\n", HOUR + 30 * SECOND, SECOND},
        {"Date: Thu, 21 Aug 2025 12:41:03 GMT\r\n", HOUR + 27 * SECOND, 2 * SECOND},
        {"Date: Thu, 21 Aug 2025 12:40:57 GMT\r\n", HOUR + 33 * SECOND, 2 * SECOND},
        {"Date: yesterday\r\n", HOUR + 30 * SECOND, SECOND},
        {"Date: 12\r\n", HOUR + 30 * SECOND, SECOND},
        {"", HOUR + 30 * SECOND, SECOND},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        snprintf(fields, sizeof fields, "%s%s", reset, cases[i].date);
        read_success(&anthropic, fields);
        EXPECT_QUOTA(0, .unit = WEIR_UNIT_COST, .period_ns = MINUTE, .limit = 96000,
                     .remaining = 95000, .remaining_rounding = 1000, .reset_ns = cases[i].reset_ns,
                     .reset_rounding_ns = cases[i].rounding_ns);
    }
}

TEST(mistral_names_the_period_and_tells_no_reset)
{
    read_success(&openai, "x-ratelimit-limit-tokens-minute: 5000000\r\n"
                          "x-ratelimit-remaining-tokens-minute: 4999911\r\n"
                          "x-ratelimit-tokens-query-cost: 52\r\n"
                          "x-ratelimit-limit-req-minute: 720\r\n"
                          "x-ratelimit-remaining-req-minute: 717\r\n");
    assert_int_equal(limits.quota_count, 2);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .period_ns = MINUTE, .limit = 720,
                 .remaining = 717);
    EXPECT_QUOTA(1, .unit = WEIR_UNIT_COST, .period_ns = MINUTE, .limit = 5000000,
                 .remaining = 4999911);
}

TEST(cerebras_counts_in_days_and_minutes)
{
    read_success(&openai, "x-ratelimit-limit-requests-day: 1000000000\r\n"
                          "x-ratelimit-limit-tokens-minute: 1000000000\r\n"
                          "x-ratelimit-remaining-requests-day: 999997455\r\n"
                          "x-ratelimit-remaining-tokens-minute: 999998298\r\n"
                          "x-ratelimit-reset-requests-day: 33011.382867097855\r\n"
                          "x-ratelimit-reset-tokens-minute: 11.382867097854614\r\n");
    assert_int_equal(limits.quota_count, 2);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_COST, .reset = WEIR_RESET_WINDOW, .period_ns = MINUTE,
                 .limit = 1000000000, .remaining = 999998298, .reset_ns = UINT64_C(11382867097),
                 .reset_rounding_ns = 1);
    EXPECT_QUOTA(1, .unit = WEIR_UNIT_REQUESTS, .reset = WEIR_RESET_WINDOW, .period_ns = DAY,
                 .limit = 1000000000, .remaining = 999997455, .reset_ns = UINT64_C(33011382867097),
                 .reset_rounding_ns = 1);
}

TEST(a_period_in_the_name_makes_a_window_whatever_form_its_reset_has)
{
    read_success(&openai, "x-ratelimit-limit-requests-day: 1500\r\n"
                          "x-ratelimit-remaining-requests-day: 1497\r\n"
                          "x-ratelimit-reset-requests-day: 4h17m\r\n");
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .reset = WEIR_RESET_WINDOW, .period_ns = DAY,
                 .limit = 1500, .remaining = 1497, .reset_ns = 4 * HOUR + 17 * MINUTE,
                 .reset_rounding_ns = MINUTE);
}

TEST(openrouter_tells_requests_and_a_moment_in_milliseconds)
{
    read_success(&openai, "X-RateLimit-Limit: 50\r\n"
                          "X-RateLimit-Remaining: 49\r\n"
                          "X-RateLimit-Reset: 1755820800000\r\n");
    assert_int_equal(limits.quota_count, 1);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .reset = WEIR_RESET_WINDOW, .limit = 50,
                 .remaining = 49, .reset_ns = 40740 * SECOND, .reset_rounding_ns = MILLISECOND);
}

TEST(requests_without_a_unit_count_in_windows)
{
    read_success(&groq, "x-ratelimit-limit: 50\r\n"
                        "x-ratelimit-remaining: 49\r\n"
                        "x-ratelimit-reset: 30s\r\n");
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .reset = WEIR_RESET_WINDOW, .limit = 50,
                 .remaining = 49, .reset_ns = 30 * SECOND, .reset_rounding_ns = SECOND);
}

TEST(together_has_a_family_for_tokens)
{
    read_success(&openai, "x-ratelimit-limit: 10\r\n"
                          "x-ratelimit-remaining: 9\r\n"
                          "x-ratelimit-reset: 1\r\n"
                          "x-tokenlimit-limit: 3000\r\n"
                          "x-tokenlimit-remaining: 2900\r\n");
    assert_int_equal(limits.quota_count, 2);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_COST, .period_ns = MINUTE, .limit = 3000, .remaining = 2900);
    EXPECT_QUOTA(1, .unit = WEIR_UNIT_REQUESTS, .reset = WEIR_RESET_WINDOW, .limit = 10,
                 .remaining = 9, .reset_ns = SECOND, .reset_rounding_ns = SECOND);
}

TEST(fireworks_tells_prompt_and_generated_tokens)
{
    read_success(&openai, "x-ratelimit-limit-tokens-prompt: 7200000\r\n"
                          "x-ratelimit-remaining-tokens-prompt: 7193993\r\n"
                          "x-ratelimit-limit-tokens-generated: 72000\r\n"
                          "x-ratelimit-remaining-tokens-generated: 69338\r\n"
                          "x-ratelimit-limit-tokens-cache-adjusted-prompt: 1\r\n"
                          "x-ratelimit-over-limit: no\r\n");
    assert_int_equal(limits.quota_count, 2);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_INPUT, .limit = 7200000, .remaining = 7193993);
    EXPECT_QUOTA(1, .unit = WEIR_UNIT_OUTPUT, .limit = 72000, .remaining = 69338);
}

TEST(units_are_known_in_every_family_and_case)
{
    static const struct {
        const char *unit;
        enum weir_unit counts;
        uint64_t period_ns;
    } units[] = {
        {"requests", WEIR_UNIT_REQUESTS, 0},
        {"Tokens", WEIR_UNIT_COST, MINUTE},
        {"input-tokens", WEIR_UNIT_INPUT, 0},
        {"OUTPUT-TOKENS", WEIR_UNIT_OUTPUT, 0},
        {"tokens-prompt", WEIR_UNIT_INPUT, 0},
        {"tokens-generated", WEIR_UNIT_OUTPUT, 0},
        {"req-second", WEIR_UNIT_REQUESTS, SECOND},
        {"requests-second", WEIR_UNIT_REQUESTS, SECOND},
        {"tokens-second", WEIR_UNIT_COST, SECOND},
        {"req-minute", WEIR_UNIT_REQUESTS, MINUTE},
        {"requests-minute", WEIR_UNIT_REQUESTS, MINUTE},
        {"tokens-minute", WEIR_UNIT_COST, MINUTE},
        {"requests-hour", WEIR_UNIT_REQUESTS, HOUR},
        {"tokens-hour", WEIR_UNIT_COST, HOUR},
        {"req-day", WEIR_UNIT_REQUESTS, DAY},
        {"requests-day", WEIR_UNIT_REQUESTS, DAY},
        {"tokens-day", WEIR_UNIT_COST, DAY},
    };
    char fields[256];
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        snprintf(fields, sizeof fields,
                 "X-RateLimit-Limit-%s: 10\r\nx-ratelimit-remaining-%s: 7\r\n", units[i].unit,
                 units[i].unit);
        read_success(&openai, fields);
        EXPECT_QUOTA(0, .unit = units[i].counts, .period_ns = units[i].period_ns, .limit = 10,
                     .remaining = 7);
        snprintf(fields, sizeof fields,
                 "Anthropic-RateLimit-%s-Remaining: 7\r\nANTHROPIC-RATELIMIT-%s-LIMIT: 10\r\n",
                 units[i].unit, units[i].unit);
        read_success(&openai, fields);
        EXPECT_QUOTA(0, .unit = units[i].counts, .period_ns = units[i].period_ns, .limit = 10,
                     .remaining = 7);
    }
}

TEST(names_that_only_look_alike_say_nothing)
{
    static const char *const names[] = {
        "x-ratelimit-limit-request",
        "x-ratelimit-limit-requestss",
        "x-ratelimit-limit-re",
        "x-ratelimit-limit-",
        "x-ratelimit-limit_requests",
        "x-ratelimit-limits-requests",
        "x-ratelimit-limit-tokens_usage_based",
        "x-ratelimit-limi",
        "x-ratelimit-",
        "x-ratelimit",
        "x-ratelimt-limit-requests",
        "y-ratelimit-limit-requests",
        "x\x2dratelimit.limit-requests",
        "anthropic-ratelimit-limit",
        "anthropic-ratelimit--limit",
        "anthropic-ratelimit-requests",
        "anthropic-ratelimit-requestslimit",
        "anthropic-ratelimit-unified-limit",
        "anthropic-priority-input-tokens-limit",
        "anthropic-ratelimit-",
        "x-tokenlimit-limi",
        "x",
        "r",
        "a",
        "xy",
    };
    char fields[256];
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        /* What remains is told under every right name, so that a limit would make a quota. */
        snprintf(fields, sizeof fields,
                 "x-ratelimit-remaining-requests: 7\r\n"
                 "x-ratelimit-remaining: 7\r\n"
                 "x-tokenlimit-remaining: 7\r\n"
                 "%s: 10\r\n",
                 names[i]);
        read_success(&openai, fields);
        expect_nothing();
    }
}

/* ---- numbers ---- */

TEST(a_number_that_makes_no_sense_spoils_only_its_own_quota)
{
    static const char *const wrong[] = {"",
                                        "-1",
                                        "-0",
                                        "+5",
                                        "NaN",
                                        "inf",
                                        "1.5",
                                        "1e3",
                                        "0x10",
                                        "1,000",
                                        "5 000",
                                        "five",
                                        "9007199254740993",
                                        "99999999999999999999999999999999",
                                        "1;w=60"};
    char fields[512];
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        snprintf(fields, sizeof fields,
                 "x-ratelimit-limit-requests: %s\r\n"
                 "x-ratelimit-remaining-requests: 5\r\n"
                 "x-ratelimit-limit-tokens: 100\r\n"
                 "x-ratelimit-remaining-tokens: 50\r\n"
                 "x-ratelimit-reset-tokens: %s\r\n",
                 wrong[i], i == 6 ? "-1" : wrong[i]);
        read_success(&openai, fields);
        assert_int_equal(limits.quota_count, 1);
        EXPECT_QUOTA(0, .unit = WEIR_UNIT_COST, .period_ns = MINUTE, .limit = 100, .remaining = 50);
        snprintf(fields, sizeof fields,
                 "x-ratelimit-limit-requests: 5\r\nx-ratelimit-remaining-requests: %s\r\n",
                 wrong[i]);
        read_success(&openai, fields);
        expect_nothing();
    }
}

TEST(the_largest_number_is_that_of_a_quota)
{
    read_success(&openai, "x-ratelimit-limit-requests: 9007199254740992\r\n"
                          "x-ratelimit-remaining-requests: 9007199254740992\r\n");
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .limit = INT64_C(1) << 53,
                 .remaining = INT64_C(1) << 53);
}

TEST(a_number_has_at_most_16_digits)
{
    read_success(&openai, "x-ratelimit-limit-requests: 0000000000000010\r\n"
                          "x-ratelimit-remaining-requests: 5\r\n");
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .limit = 10, .remaining = 5);
    read_success(&openai, "x-ratelimit-limit-requests: 00000000000000010\r\n"
                          "x-ratelimit-remaining-requests: 5\r\n");
    expect_nothing();
}

TEST(the_first_field_of_a_name_counts)
{
    read_success(&openai, "x-ratelimit-limit-requests: none\r\n"
                          "x-ratelimit-limit-requests: 10\r\n"
                          "x-ratelimit-limit-requests: 20\r\n"
                          "x-ratelimit-remaining-requests: 3\r\n"
                          "x-ratelimit-remaining-requests: 2\r\n");
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .limit = 10, .remaining = 3);
}

TEST(a_limit_of_zero_is_believed_of_who_refuses)
{
    static const char fields[] = "x-ratelimit-limit-requests: 0\r\n"
                                 "x-ratelimit-remaining-requests: 0\r\n"
                                 "RateLimit-Policy: \"p\";q=0;w=5\r\n"
                                 "RateLimit: \"p\";r=0;t=2\r\n";
    read_success(&openai, fields);
    expect_nothing();
    read_reply(&openai, "429 Too Many Requests", fields);
    assert_int_equal(limits.quota_count, 2);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .limit = 0, .remaining = 0);
}

TEST(of_quotas_that_cannot_be_told_apart_the_tighter_counts)
{
    read_success(&openai, "x-ratelimit-limit-requests: 10\r\n"
                          "x-ratelimit-remaining-requests: 3\r\n"
                          "x-ratelimit-limit: 20\r\n"
                          "x-ratelimit-remaining: 2\r\n");
    assert_int_equal(limits.quota_count, 1);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .limit = 20, .remaining = 2);
    read_success(&openai, "x-ratelimit-limit-requests: 10\r\n"
                          "x-ratelimit-remaining-requests: 2\r\n"
                          "x-ratelimit-limit: 20\r\n"
                          "x-ratelimit-remaining: 2\r\n");
    assert_int_equal(limits.quota_count, 1);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .limit = 10, .remaining = 2);
}

TEST(more_quotas_than_there_is_room_for_are_left_out)
{
    static const char *const units[] = {
        "requests",      "tokens",     "input-tokens",  "output-tokens", "req-second",
        "tokens-second", "req-minute", "requests-hour", "tokens-hour",   "req-day"};
    static char fields[2048];
    for (uint32_t count = 7; count <= COUNT_OF(units); count++) {
        size_t bytes = 0;
        for (size_t i = 0; i < count; i++) {
            bytes += (size_t)snprintf(fields + bytes, sizeof fields - bytes,
                                      "x-ratelimit-limit-%s: 10\r\nx-ratelimit-remaining-%s: 5\r\n",
                                      units[i], units[i]);
        }
        read_success(&openai, fields);
        assert_int_equal(limits.quota_count, count < WEIR_QUOTAS_MAX ? count : WEIR_QUOTAS_MAX);
    }
}

/* ---- Retry-After ---- */

static void expect_wait(const char *fields, uint64_t ns, uint64_t rounding_ns)
{
    read_reply(&standard, "503 Service Unavailable", fields);
    expect_retry_after(ns, rounding_ns);
}

TEST(retry_after_is_seconds_or_a_date)
{
    expect_wait("Retry-After: 0\r\n", 0, SECOND);
    expect_wait("Retry-After: 12\r\n", 12 * SECOND, SECOND);
    expect_wait("retry-after: 1.5\r\n", 1500 * MILLISECOND, 100 * MILLISECOND);
    expect_wait("Retry-After: Thu, 21 Aug 2025 12:41:30 GMT\r\n", 30 * SECOND, SECOND);
    expect_wait("Retry-After: Thu, 21 Aug 2025 12:00:00 GMT\r\n", 0, SECOND);
    expect_wait("Retry-After: 86400\r\n", DAY, SECOND);
    expect_wait("Retry-After: 86401\r\n", DAY, SECOND);
    expect_wait("Retry-After: Thu, 21 Aug 2098 12:00:00 GMT\r\n", DAY, SECOND);
    expect_wait("Retry-After: Thu, 21 Aug 2025 13:41:30 GMT\r\n"
                "Date: Thu, 21 Aug 2025 13:41:00 GMT\r\n",
                30 * SECOND, 2 * SECOND);
}

TEST(milliseconds_beat_seconds_and_the_first_field_the_others)
{
    expect_wait("retry-after-ms: 250\r\nRetry-After: 1\r\n", 250 * MILLISECOND, MILLISECOND);
    expect_wait("Retry-After: 1\r\nRetry-After-Ms: 250.5\r\n", UINT64_C(250500000),
                MILLISECOND / 10);
    expect_wait("Retry-After: 1\r\nretry-after-ms: -1\r\n", SECOND, SECOND);
    expect_wait("Retry-After: 1\r\nRetry-After: 9\r\n", SECOND, SECOND);
    expect_wait("retry-after-ms: 7\r\nretry-after-ms: 9\r\nRetry-After: 1\r\n", 7 * MILLISECOND,
                MILLISECOND);
    expect_wait("retry-after-ms: soon\r\nRetry-After: 1\r\n", SECOND, SECOND);
    expect_wait("retry-after-ms: 999999999999\r\n", DAY, MILLISECOND);
}

TEST(a_wait_that_makes_no_sense_is_none)
{
    static const char *const wrong[] = {
        "-1", "soon", "", "Thu, 32 Aug 2025 12:41:30 GMT", "99999999999999999999", "1, 2"};
    char fields[128];
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        snprintf(fields, sizeof fields, "Retry-After: %s\r\nretry-after-ms: %s\r\n", wrong[i],
                 wrong[i]);
        read_reply(&standard, "503 Service Unavailable", fields);
        expect_nothing();
    }
}

TEST(who_says_do_not_retry_is_heard)
{
    read_reply(&standard, "429 Too Many Requests", "X-Should-Retry: False\r\n");
    assert_true(limits.do_not_retry);
    read_reply(&standard, "429 Too Many Requests", "x-should-retry: true\r\n");
    assert_false(limits.do_not_retry);
    read_reply(&standard, "429 Too Many Requests",
               "x-should-retry: false\r\nx-should-retry: true\r\n");
    assert_true(limits.do_not_retry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openai_tells_how_long_until_its_buckets_are_full),
        cmocka_unit_test(azure_counts_in_windows_and_says_minus_one_for_unknown),
        cmocka_unit_test(groq_counts_requests_by_the_day),
        cmocka_unit_test(anthropic_tells_four_quotas_and_the_moment_when_each_is_full),
        cmocka_unit_test(a_clock_that_is_wrong_does_not_matter_where_a_date_is_told),
        cmocka_unit_test(mistral_names_the_period_and_tells_no_reset),
        cmocka_unit_test(cerebras_counts_in_days_and_minutes),
        cmocka_unit_test(a_period_in_the_name_makes_a_window_whatever_form_its_reset_has),
        cmocka_unit_test(openrouter_tells_requests_and_a_moment_in_milliseconds),
        cmocka_unit_test(requests_without_a_unit_count_in_windows),
        cmocka_unit_test(together_has_a_family_for_tokens),
        cmocka_unit_test(fireworks_tells_prompt_and_generated_tokens),
        cmocka_unit_test(units_are_known_in_every_family_and_case),
        cmocka_unit_test(names_that_only_look_alike_say_nothing),
        cmocka_unit_test(a_number_that_makes_no_sense_spoils_only_its_own_quota),
        cmocka_unit_test(the_largest_number_is_that_of_a_quota),
        cmocka_unit_test(a_number_has_at_most_16_digits),
        cmocka_unit_test(the_first_field_of_a_name_counts),
        cmocka_unit_test(a_limit_of_zero_is_believed_of_who_refuses),
        cmocka_unit_test(of_quotas_that_cannot_be_told_apart_the_tighter_counts),
        cmocka_unit_test(more_quotas_than_there_is_room_for_are_left_out),
        cmocka_unit_test(retry_after_is_seconds_or_a_date),
        cmocka_unit_test(milliseconds_beat_seconds_and_the_first_field_the_others),
        cmocka_unit_test(a_wait_that_makes_no_sense_is_none),
        cmocka_unit_test(who_says_do_not_retry_is_heard),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
