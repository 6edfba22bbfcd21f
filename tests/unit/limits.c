/* What replies say about limits, as providers write it. */
#include "wire/limits.h"

#include "unit/wire.h"

#define MILLISECOND (SECOND / 1000)

/* Thu, 21 Aug 2025 12:41:00 GMT. */
#define NOON_NS (UINT64_C(1755780060) * SECOND)

static struct weir_limits limits;

static const struct weir_limits_source openai = {.dialect = WEIR_LIMITS_OPENAI};
static const struct weir_limits_source azure = {.dialect = WEIR_LIMITS_AZURE};
static const struct weir_limits_source groq = {.dialect = WEIR_LIMITS_GROQ};
static const struct weir_limits_source anthropic = {.dialect = WEIR_LIMITS_ANTHROPIC};
static const struct weir_limits_source standard = {.dialect = WEIR_LIMITS_STANDARD};

/* Reads a reply of these fields, which are right before a page that cannot be read. */
static void read_reply(const struct weir_limits_source *source, const char *status,
                       const char *fields)
{
    static struct text text;
    text.bytes = 0;
    add(&text, "HTTP/1.1 ");
    add(&text, status);
    add(&text, "\r\n");
    add(&text, fields);
    add(&text, "\r\n");
    struct reading reading = response_reading(slice_of(&text), WEIR_METHOD_POST);
    struct weir_http1_head head;
    const char *data = guarded(reading.bytes);
    begin_head(&reading, &head);
    assert_int_equal(weir_http1_parse(&head, data, reading.bytes.bytes), WEIR_HTTP1_DONE);
    memset(&limits, 0x5a, sizeof limits);
    weir_limits_read(source, &head, data, NOON_NS, &limits);
    assert_true(limits.quota_count <= WEIR_QUOTAS_MAX);
}

static void read_success(const struct weir_limits_source *source, const char *fields)
{
    read_reply(source, "200 OK", fields);
}

static void expect_quota(uint32_t index, const struct weir_quota *expected)
{
    assert_true(index < limits.quota_count);
    const struct weir_quota *quota = &limits.quotas[index];
    assert_int_equal(quota->unit, expected->unit);
    assert_int_equal(quota->reset, expected->reset);
    assert_int_equal(quota->period_ns, expected->period_ns);
    assert_int_equal(quota->limit, expected->limit);
    assert_int_equal(quota->remaining, expected->remaining);
    assert_int_equal(quota->remaining_rounding, expected->remaining_rounding);
    assert_int_equal(quota->reset_ns, expected->reset_ns);
    assert_int_equal(quota->reset_rounding_ns, expected->reset_rounding_ns);
}

#define EXPECT_QUOTA(index, ...) expect_quota(index, &(struct weir_quota){__VA_ARGS__})

static void expect_nothing(void)
{
    assert_int_equal(limits.quota_count, 0);
    assert_false(limits.retry_after_known);
    assert_int_equal(limits.retry_after_ns, 0);
    assert_int_equal(limits.retry_after_rounding_ns, 0);
    assert_false(limits.do_not_retry);
}

static void expect_retry_after(uint64_t ns, uint64_t rounding_ns)
{
    assert_true(limits.retry_after_known);
    assert_int_equal(limits.retry_after_ns, ns);
    assert_int_equal(limits.retry_after_rounding_ns, rounding_ns);
}

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

static const char anthropic_fields[] =
    "anthropic-ratelimit-input-tokens-limit: 80000\r\n"
    "anthropic-ratelimit-input-tokens-remaining: 79000\r\n"
    "anthropic-ratelimit-input-tokens-reset: 2025-08-21T12:41:01Z\r\n"
    "anthropic-ratelimit-output-tokens-limit: 16000\r\n"
    "anthropic-ratelimit-output-tokens-remaining: 16000\r\n"
    "anthropic-ratelimit-output-tokens-reset: 2025-08-21T12:40:59Z\r\n"
    "anthropic-ratelimit-requests-limit: 1000\r\n"
    "anthropic-ratelimit-requests-remaining: 999\r\n"
    "anthropic-ratelimit-requests-reset: 2025-08-21T12:41:00Z\r\n"
    "anthropic-ratelimit-tokens-limit: 96000\r\n"
    "anthropic-ratelimit-tokens-remaining: 95000\r\n"
    "anthropic-ratelimit-tokens-reset: 2025-08-21T12:41:30Z\r\n"
    "anthropic-organization-id: 36562039\r\n";

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

TEST(milliseconds_beat_seconds)
{
    expect_wait("retry-after-ms: 250\r\nRetry-After: 1\r\n", 250 * MILLISECOND, MILLISECOND);
    expect_wait("Retry-After: 1\r\nRetry-After-Ms: 250.5\r\n", UINT64_C(250500000),
                MILLISECOND / 10);
    expect_wait("Retry-After: 1\r\nretry-after-ms: -1\r\n", SECOND, SECOND);
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

/* ---- the draft ---- */

TEST(the_drafts_fields_are_joined_by_their_policy)
{
    read_success(&standard, "RateLimit: \"default\";r=50;t=30\r\n"
                            "RateLimit-Policy: \"default\";q=100;w=60;qu=\"requests\"\r\n");
    assert_int_equal(limits.quota_count, 1);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .reset = WEIR_RESET_WINDOW, .period_ns = MINUTE,
                 .limit = 100, .remaining = 50, .reset_ns = 30 * SECOND,
                 .reset_rounding_ns = SECOND);
}

TEST(the_drafts_fields_may_hold_several_policies_and_be_split)
{
    read_success(&openai,
                 "ratelimit-policy: \"burst\";q=100;w=60,\"daily\";q=1000;w=86400\r\n"
                 "RateLimit-Policy: \"tok\";q=5000;qu=\"tokens\";w=60;pk=:cHsdsRa894==:, "
                 "\"in\";qu=\"input-tokens\";q=4000, \"out\";q=1000;qu=\"output-tokens\"\r\n"
                 "ratelimit: \"tok\";r=4000;pk=:cHsdsRa894==:, \"daily\";r=999;t=5\r\n"
                 "RateLimit: \"burst\";r=90;t=0, \"in\";r=1, \"out\";r=2;t=7\r\n");
    assert_int_equal(limits.quota_count, 5);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_COST, .period_ns = MINUTE, .limit = 5000, .remaining = 4000);
    EXPECT_QUOTA(1, .unit = WEIR_UNIT_REQUESTS, .reset = WEIR_RESET_WINDOW, .period_ns = DAY,
                 .limit = 1000, .remaining = 999, .reset_ns = 5 * SECOND,
                 .reset_rounding_ns = SECOND);
    EXPECT_QUOTA(2, .unit = WEIR_UNIT_REQUESTS, .reset = WEIR_RESET_WINDOW, .period_ns = MINUTE,
                 .limit = 100, .remaining = 90, .reset_rounding_ns = SECOND);
    EXPECT_QUOTA(3, .unit = WEIR_UNIT_INPUT, .limit = 4000, .remaining = 1);
    EXPECT_QUOTA(4, .unit = WEIR_UNIT_OUTPUT, .reset = WEIR_RESET_WINDOW, .limit = 1000,
                 .remaining = 2, .reset_ns = 7 * SECOND, .reset_rounding_ns = SECOND);
}

TEST(a_policy_that_is_not_ours_or_makes_no_sense_is_passed_over)
{
    static const char *const policies[] = {
        "\"p\";q=100;qu=\"content-bytes\"",
        "\"p\";q=100;qu=\"concurrent-requests\"",
        "\"p\";q=100;qu=requests",
        "\"p\";q=-1",
        "\"p\";q=1.5",
        "\"p\";q=\"100\"",
        "\"p\";w=60",
        "\"p\";q=100;w=0",
        "\"p\";q=100;w=-60",
        "\"p\";q=100;w=1000000000",
        "\"p\";q=100;w=999999999999999",
        "\"other\";q=100",
        "\"p\";q=100,",
        "\"p\";q=100;w=6x",
        "limit=100, remaining=50, reset=5",
    };
    static const char *const services[] = {
        "\"p\"",           "\"p\";r=-1",       "\"p\";r=5.5",
        "\"p\";r=50;t=-1", "\"p\";r=50;t=1.5", "\"p\";r=50;t=1000000000",
        "\"p\";r=50;t=",   "p;r=50;",          "\"P\";r=50",
        "limit=100"};
    char fields[256];
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        snprintf(fields, sizeof fields, "RateLimit-Policy: %s\r\nRateLimit: \"p\";r=50;t=1\r\n",
                 policies[i]);
        read_success(&standard, fields);
        expect_nothing();
    }
    for (size_t i = 0; i < COUNT_OF(services); i++) {
        snprintf(fields, sizeof fields, "RateLimit-Policy: \"p\";q=100\r\nRateLimit: %s\r\n",
                 services[i]);
        read_success(&standard, fields);
        expect_nothing();
    }
    /* A field that is malformed takes nothing with it. */
    read_success(&standard, "RateLimit-Policy: \"p\";q=100;w=999999999\r\n"
                            "RateLimit-Policy: \"p\";q=5,\r\n"
                            "RateLimit: \"x\";r=1;t=999999999, \"p\";r=50;t=999999999\r\n");
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .reset = WEIR_RESET_WINDOW,
                 .period_ns = UINT64_C(999999999) * SECOND, .limit = 100, .remaining = 50,
                 .reset_ns = UINT64_C(999999999) * SECOND, .reset_rounding_ns = SECOND);
}

TEST(policies_beyond_the_bound_are_passed_over)
{
    static char fields[1024];
    size_t bytes = (size_t)snprintf(fields, sizeof fields, "RateLimit-Policy: ");
    for (int i = 0; i <= WEIR_QUOTAS_MAX; i++) {
        bytes += (size_t)snprintf(fields + bytes, sizeof fields - bytes, "%sp%d;q=100;w=%d",
                                  i == 0 ? "" : ", ", i, i + 1);
    }
    bytes += (size_t)snprintf(fields + bytes, sizeof fields - bytes, "\r\nRateLimit: ");
    for (int i = WEIR_QUOTAS_MAX; i >= 0; i--) {
        bytes += (size_t)snprintf(fields + bytes, sizeof fields - bytes, "%sp%d;r=50",
                                  i == WEIR_QUOTAS_MAX ? "" : ", ", i);
    }
    snprintf(fields + bytes, sizeof fields - bytes, "\r\n");
    read_success(&standard, fields);
    /* The ninth policy is not kept, nor the ninth service, which is the first policy's. */
    assert_int_equal(limits.quota_count, WEIR_QUOTAS_MAX - 1);
}

TEST(earlier_drafts_had_three_fields)
{
    read_success(&standard, "RateLimit-Limit: 100\r\n"
                            "RateLimit-Remaining: 40\r\n"
                            "RateLimit-Reset: 7\r\n");
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .reset = WEIR_RESET_WINDOW, .limit = 100,
                 .remaining = 40, .reset_ns = 7 * SECOND, .reset_rounding_ns = SECOND);
}

/* ---- dialects ---- */

TEST(what_is_standard_does_not_include_a_providers_names)
{
    read_success(&standard, anthropic_fields);
    expect_nothing();
    read_success(&standard, "x-ratelimit-limit-requests: 10\r\n"
                            "x-ratelimit-remaining-requests: 3\r\n");
    expect_nothing();
}

static const struct weir_limits_source custom = {
    .dialect = WEIR_LIMITS_CUSTOM,
    .names = {.requests_limit = {"Quota-Calls", 11},
              .requests_remaining = {"Quota-Calls-Left", 16},
              .tokens_limit = {"q", 1},
              .tokens_remaining = {"qt", 2},
              .tokens_reset = {"x-ratelimit-reset-requests", 26}},
};

TEST(custom_names_are_the_only_ones_besides_what_is_standard)
{
    read_success(&custom, "quota-calls: 100\r\n"
                          "QUOTA-CALLS-LEFT: 42\r\n"
                          "q: 1000\r\n"
                          "qt: 999\r\n"
                          "x-ratelimit-reset-requests: 1.5s\r\n"
                          "x-ratelimit-limit-tokens: 5\r\n"
                          "x-ratelimit-remaining-tokens: 5\r\n"
                          "Retry-After: 3\r\n"
                          "RateLimit-Policy: a;q=7;w=1\r\n"
                          "RateLimit: a;r=6\r\n");
    assert_int_equal(limits.quota_count, 3);
    EXPECT_QUOTA(0, .unit = WEIR_UNIT_REQUESTS, .limit = 100, .remaining = 42);
    EXPECT_QUOTA(1, .unit = WEIR_UNIT_COST, .limit = 1000, .remaining = 999,
                 .reset_ns = 1500 * MILLISECOND, .reset_rounding_ns = 100 * MILLISECOND);
    EXPECT_QUOTA(2, .unit = WEIR_UNIT_REQUESTS, .period_ns = SECOND, .limit = 7, .remaining = 6);
    expect_retry_after(3 * SECOND, SECOND);
}

TEST(a_host_that_is_known_refines_the_dialect)
{
    static const struct {
        const char *host;
        enum weir_limits_dialect otherwise, expected;
    } cases[] = {
        {"api.groq.com", WEIR_LIMITS_OPENAI, WEIR_LIMITS_GROQ},
        {"API.Groq.COM", WEIR_LIMITS_OPENAI, WEIR_LIMITS_GROQ},
        {"acme.openai.azure.com", WEIR_LIMITS_OPENAI, WEIR_LIMITS_AZURE},
        {"acme.cognitiveservices.azure.com", WEIR_LIMITS_OPENAI, WEIR_LIMITS_AZURE},
        {".openai.azure.com", WEIR_LIMITS_OPENAI, WEIR_LIMITS_AZURE},
        {"openai.azure.com", WEIR_LIMITS_OPENAI, WEIR_LIMITS_OPENAI},
        {"eu.api.openai.com", WEIR_LIMITS_ANTHROPIC, WEIR_LIMITS_OPENAI},
        {"api.anthropic.com", WEIR_LIMITS_OPENAI, WEIR_LIMITS_ANTHROPIC},
        {"notapi.groq.com", WEIR_LIMITS_OPENAI, WEIR_LIMITS_OPENAI},
        {"api.groq.com.evil.example", WEIR_LIMITS_OPENAI, WEIR_LIMITS_OPENAI},
        {"", WEIR_LIMITS_ANTHROPIC, WEIR_LIMITS_ANTHROPIC},
        {"127.0.0.1", WEIR_LIMITS_ANTHROPIC, WEIR_LIMITS_ANTHROPIC},
        {"api.groq.com", WEIR_LIMITS_CUSTOM, WEIR_LIMITS_CUSTOM},
        {"api.groq.com", WEIR_LIMITS_STANDARD, WEIR_LIMITS_STANDARD},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(weir_limits_dialect_of(weir_slice_of(cases[i].host), cases[i].otherwise),
                         cases[i].expected);
    }
}

/* ---- what tenants do not see ---- */

static bool is_hidden(const struct weir_limits_source *source, const char *name)
{
    char bytes[256];
    struct weir_http1_head head;
    snprintf(bytes, sizeof bytes, "HTTP/1.1 200 OK\r\n%s:\r\n\r\n", name);
    struct reading reading = response_reading(weir_slice_of(bytes), WEIR_METHOD_GET);
    const char *data = guarded(reading.bytes);
    begin_head(&reading, &head);
    assert_int_equal(weir_http1_parse(&head, data, reading.bytes.bytes), WEIR_HTTP1_DONE);
    return weir_limits_hides(source, data, &head.fields[0]);
}

TEST(what_tells_of_the_account_is_hidden_from_tenants)
{
    static const char *const hidden[] = {"x-ratelimit-limit-requests",
                                         "X-RateLimit-Remaining",
                                         "x-ratelimit-anything",
                                         "x-ratelimitbysize-limit-minute",
                                         "ratelimitbysize-reset",
                                         "RateLimit",
                                         "RateLimit-Policy",
                                         "ratelimit-reset",
                                         "x-tokenlimit-limit",
                                         "anthropic-ratelimit-unified-status",
                                         "anthropic-ratelimit-requests-limit",
                                         "anthropic-priority-input-tokens-limit",
                                         "Anthropic-Organization-Id",
                                         "anthropic-fast-input-tokens-remaining",
                                         "OpenAI-Organization",
                                         "openai-project",
                                         "x-ms-ratelimit-remaining-tokens",
                                         "x-codex-primary-used-percent",
                                         "retry-after-ms",
                                         "Set-Cookie"};
    static const char *const shown[] = {"Retry-After",
                                        "x-request-id",
                                        "request-id",
                                        "openai-processing-ms",
                                        "openai-version",
                                        "content-type",
                                        "x-should-retry",
                                        "server-timing",
                                        "x-ms-region",
                                        "anthropic-version",
                                        "via",
                                        "x",
                                        "r",
                                        "a",
                                        "o",
                                        "q",
                                        "ratelimi",
                                        "x-rate-limit",
                                        "open",
                                        "x-groq-region",
                                        "set-cookies",
                                        "apim-request-id"};
    for (size_t i = 0; i < COUNT_OF(hidden); i++) {
        if (!is_hidden(&standard, hidden[i]) || !is_hidden(&custom, hidden[i])) {
            fail_msg("%s is shown", hidden[i]);
        }
    }
    for (size_t i = 0; i < COUNT_OF(shown); i++) {
        if (is_hidden(&anthropic, shown[i])) {
            fail_msg("%s is hidden", shown[i]);
        }
    }
    assert_true(is_hidden(&custom, "quota-CALLS"));
    assert_true(is_hidden(&custom, "q"));
    assert_false(is_hidden(&openai, "quota-calls"));
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
        cmocka_unit_test(milliseconds_beat_seconds),
        cmocka_unit_test(a_wait_that_makes_no_sense_is_none),
        cmocka_unit_test(who_says_do_not_retry_is_heard),
        cmocka_unit_test(the_drafts_fields_are_joined_by_their_policy),
        cmocka_unit_test(the_drafts_fields_may_hold_several_policies_and_be_split),
        cmocka_unit_test(a_policy_that_is_not_ours_or_makes_no_sense_is_passed_over),
        cmocka_unit_test(policies_beyond_the_bound_are_passed_over),
        cmocka_unit_test(earlier_drafts_had_three_fields),
        cmocka_unit_test(what_is_standard_does_not_include_a_providers_names),
        cmocka_unit_test(custom_names_are_the_only_ones_besides_what_is_standard),
        cmocka_unit_test(a_host_that_is_known_refines_the_dialect),
        cmocka_unit_test(what_tells_of_the_account_is_hidden_from_tenants),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
