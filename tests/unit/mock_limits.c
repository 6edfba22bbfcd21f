/* What replies say of limits, to the byte. */
#include "lab/mock/limits.h"

#include "llm/limits.h"
#include "unit/helpers.h"

#define MS (SECOND / 1000)

/* 2026-01-02T03:04:05Z. */
#define MOMENT (UINT64_C(1767323045) * SECOND)

TEST(durations_are_written_as_go_writes_them)
{
    static const struct {
        uint64_t duration_ns;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1ms"},
        {12 * MS, "12ms"},
        {12 * MS + 1, "13ms"},
        {999 * MS, "999ms"},
        {999 * MS + 1, "1s"},
        {SECOND, "1s"},
        {SECOND + 500 * MS, "1.5s"},
        {8640 * MS, "8.64s"},
        {SECOND + 5 * MS, "1.005s"},
        {59 * SECOND + 999 * MS, "59.999s"},
        {MINUTE, "1m0s"},
        {6 * MINUTE, "6m0s"},
        {MINUTE + 23456 * MS, "1m23.456s"},
        {HOUR, "1h0m0s"},
        {23 * HOUR + 59 * MINUTE + 59 * SECOND, "23h59m59s"},
        {3 * DAY, "72h0m0s"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[WEIR_MOCK_TIME_TEXT_MAX];
        weir_mock_duration_text(cases[i].duration_ns, text);
        assert_string_equal(text, cases[i].text);
    }
}

TEST(the_longest_duration_fits)
{
    char text[WEIR_MOCK_TIME_TEXT_MAX];
    weir_mock_duration_text(UINT64_MAX, text);
    assert_string_equal(text, "5124095h34m33.71s");
}

TEST(moments_are_rounded_up_to_seconds)
{
    char text[WEIR_MOCK_TIME_TEXT_MAX];
    weir_mock_moment_text(MOMENT, text);
    assert_string_equal(text, "2026-01-02T03:04:05Z");
    weir_mock_moment_text(MOMENT + 1, text);
    assert_string_equal(text, "2026-01-02T03:04:06Z");
    weir_mock_moment_text(UINT64_MAX, text);
    assert_string_equal(text, "2554-07-21T23:34:34Z");
}

/* An account from which a request of 1,499 input tokens and 1 of output was taken. */
static struct weir_mock_limits used_limits(void)
{
    struct weir_mock_quota_rules rules = {0};
    for (enum weir_mock_measure of = 0; of < WEIR_MEASURES; of++) {
        rules.limits[of] = (struct weir_mock_limit){60000, MINUTE};
    }
    rules.limits[WEIR_MEASURE_REQUESTS].tokens = 10;
    struct weir_mock_quota quota;
    struct weir_mock_limits limits;
    struct weir_mock_bill bill;
    struct weir_mock_lack lack;
    struct weir_mock_usage usage = {1499, 1, 1};
    weir_mock_quota_init(&quota, &rules, 0);
    assert_true(weir_mock_quota_take(&quota, &usage, 0, &bill, &lack));
    weir_mock_limits_note(&limits, &quota, 0, MOMENT);
    return limits;
}

static void expect_fields(enum weir_mock_dialect dialect, const struct weir_mock_limits *limits,
                          const char *expected)
{
    char text[2048];
    struct weir_head_writer writer;
    weir_head_init(&writer, text, sizeof text - 1);
    weir_mock_limits_write(&writer, dialect, limits);
    assert_false(writer.failed);
    text[writer.bytes] = '\0';
    assert_string_equal(text, expected);
}

TEST(openai_states_requests_and_tokens_and_nothing_else)
{
    struct weir_mock_limits limits = used_limits();
    expect_fields(WEIR_MOCK_OPENAI, &limits,
                  "x-ratelimit-limit-requests: 10\r\n"
                  "x-ratelimit-remaining-requests: 9\r\n"
                  "x-ratelimit-reset-requests: 6s\r\n"
                  "x-ratelimit-limit-tokens: 60000\r\n"
                  "x-ratelimit-remaining-tokens: 58500\r\n"
                  "x-ratelimit-reset-tokens: 1.5s\r\n");
}

TEST(anthropic_states_four_and_rounds_tokens)
{
    struct weir_mock_limits limits = used_limits();
    expect_fields(WEIR_MOCK_ANTHROPIC, &limits,
                  "anthropic-ratelimit-requests-limit: 10\r\n"
                  "anthropic-ratelimit-requests-remaining: 9\r\n"
                  "anthropic-ratelimit-requests-reset: 2026-01-02T03:04:11Z\r\n"
                  "anthropic-ratelimit-tokens-limit: 60000\r\n"
                  "anthropic-ratelimit-tokens-remaining: 59000\r\n"
                  "anthropic-ratelimit-tokens-reset: 2026-01-02T03:04:07Z\r\n"
                  "anthropic-ratelimit-input-tokens-limit: 60000\r\n"
                  "anthropic-ratelimit-input-tokens-remaining: 59000\r\n"
                  "anthropic-ratelimit-input-tokens-reset: 2026-01-02T03:04:07Z\r\n"
                  "anthropic-ratelimit-output-tokens-limit: 60000\r\n"
                  "anthropic-ratelimit-output-tokens-remaining: 60000\r\n"
                  "anthropic-ratelimit-output-tokens-reset: 2026-01-02T03:04:06Z\r\n");
}

/* What the gateway's reader makes of them. */
static void read_back(enum weir_mock_dialect dialect, const struct weir_mock_limits *limits,
                      struct weir_limits *read)
{
    static char text[4096];
    static struct weir_http1_head head;
    struct weir_head_writer writer;
    const struct weir_limits_source source = {
        .dialect = dialect == WEIR_MOCK_OPENAI ? WEIR_LIMITS_OPENAI : WEIR_LIMITS_ANTHROPIC};
    weir_head_init(&writer, text, sizeof text);
    weir_head_status(&writer, 200, (struct weir_slice){0});
    weir_mock_limits_write(&writer, dialect, limits);
    assert_true(weir_head_end(&writer));
    weir_http1_init_response(&head, WEIR_HTTP1_LIMITS_DEFAULT, WEIR_METHOD_POST);
    assert_int_equal(weir_http1_parse(&head, text, writer.bytes), WEIR_HTTP1_DONE);
    weir_limits_read(&source, &head, text, limits->unix_ns, read);
}

static const struct weir_quota *quota_of(const struct weir_limits *read, enum weir_unit unit)
{
    for (uint32_t i = 0; i < read->quota_count; i++) {
        if (read->quotas[i].unit == unit) {
            return &read->quotas[i];
        }
    }
    fail_msg("there is no such quota");
    return NULL;
}

TEST(the_gateway_reads_what_is_stated)
{
    struct weir_mock_limits limits = used_limits();
    struct weir_limits read;
    read_back(WEIR_MOCK_OPENAI, &limits, &read);
    assert_int_equal(read.quota_count, 2);
    const struct weir_quota *tokens = quota_of(&read, WEIR_UNIT_COST);
    assert_int_equal(tokens->limit, 60000);
    assert_int_equal(tokens->remaining, 58500);
    assert_int_equal(tokens->reset_ns, 1500 * MS);
    const struct weir_quota *requests = quota_of(&read, WEIR_UNIT_REQUESTS);
    assert_int_equal(requests->remaining, 9);
    assert_int_equal(requests->reset_ns, 6 * SECOND);
    read_back(WEIR_MOCK_ANTHROPIC, &limits, &read);
    assert_int_equal(read.quota_count, 4);
    const struct weir_quota *input = quota_of(&read, WEIR_UNIT_INPUT);
    assert_int_equal(input->remaining, 59000);
    assert_int_equal(input->reset_ns, 2 * SECOND);
}

TEST(rounding_never_states_more_than_there_can_be)
{
    struct weir_mock_limits limits = {.unix_ns = MOMENT};
    limits.states[WEIR_MEASURE_TOKENS] = (struct weir_mock_stated){700, 600, 0};
    expect_fields(WEIR_MOCK_ANTHROPIC, &limits,
                  "anthropic-ratelimit-tokens-limit: 700\r\n"
                  "anthropic-ratelimit-tokens-remaining: 700\r\n"
                  "anthropic-ratelimit-tokens-reset: 2026-01-02T03:04:05Z\r\n");
    limits.states[WEIR_MEASURE_TOKENS] = (struct weir_mock_stated){700, 499, 0};
    expect_fields(WEIR_MOCK_ANTHROPIC, &limits,
                  "anthropic-ratelimit-tokens-limit: 700\r\n"
                  "anthropic-ratelimit-tokens-remaining: 0\r\n"
                  "anthropic-ratelimit-tokens-reset: 2026-01-02T03:04:05Z\r\n");
}

TEST(without_limits_nothing_is_stated)
{
    struct weir_mock_limits limits = {.unix_ns = MOMENT};
    expect_fields(WEIR_MOCK_OPENAI, &limits, "");
    expect_fields(WEIR_MOCK_ANTHROPIC, &limits, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_written_as_go_writes_them),
        cmocka_unit_test(the_longest_duration_fits),
        cmocka_unit_test(moments_are_rounded_up_to_seconds),
        cmocka_unit_test(openai_states_requests_and_tokens_and_nothing_else),
        cmocka_unit_test(anthropic_states_four_and_rounds_tokens),
        cmocka_unit_test(the_gateway_reads_what_is_stated),
        cmocka_unit_test(rounding_never_states_more_than_there_can_be),
        cmocka_unit_test(without_limits_nothing_is_stated),
    };
    return cmocka_run_group_tests_name("mock_limits", tests, NULL, NULL);
}
