/* Limits without the names of providers: the draft of a standard, dialects, and what of it all
 * tenants do not see. */
#include "unit/limits_helpers.h"

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

/* A source whose resets are told in that unit. */
static struct weir_limits_source with_unit(enum weir_limits_reset unit)
{
    return (struct weir_limits_source){.dialect = WEIR_LIMITS_CUSTOM,
                                       .names = {.requests_limit = {"l", 1},
                                                 .requests_remaining = {"r", 1},
                                                 .requests_reset = {"t", 1},
                                                 .tokens_limit = {"tl", 2},
                                                 .tokens_remaining = {"tr", 2},
                                                 .tokens_reset = {"tt", 2},
                                                 .requests_reset_unit = unit}};
}

TEST(a_custom_reset_has_the_unit_that_was_configured)
{
    static const struct {
        enum weir_limits_reset unit;
        const char *text;
        struct weir_quota quota;
    } cases[] = {
        {WEIR_LIMITS_RESET_ANY,
         "t: 30000",
         {.reset = WEIR_RESET_WINDOW, .reset_ns = 30000 * SECOND, .reset_rounding_ns = SECOND}},
        {WEIR_LIMITS_RESET_MILLISECONDS,
         "t: 30000",
         {.reset = WEIR_RESET_WINDOW, .reset_ns = 30 * SECOND, .reset_rounding_ns = MILLISECOND}},
        {WEIR_LIMITS_RESET_SECONDS,
         "t: 2.5",
         {.reset = WEIR_RESET_WINDOW,
          .reset_ns = 2500 * MILLISECOND,
          .reset_rounding_ns = 100 * MILLISECOND}},
        {WEIR_LIMITS_RESET_WINDOW, "t: 60", {.period_ns = 60 * SECOND}},
        {WEIR_LIMITS_RESET_WINDOW, "t: 1m30s", {.period_ns = 90 * SECOND}},
        /* What has another form than the unit says is passed over. */
        {WEIR_LIMITS_RESET_MILLISECONDS, "t: 30s", {0}},
        {WEIR_LIMITS_RESET_SECONDS, "t: -1", {0}},
        {WEIR_LIMITS_RESET_DATE, "t: 60", {0}},
        {WEIR_LIMITS_RESET_WINDOW, "t: 0", {0}},
        {WEIR_LIMITS_RESET_WINDOW, "t: 2025-08-21T12:40:59Z", {0}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_limits_source source = with_unit(cases[i].unit);
        char head[64];
        snprintf(head, sizeof head, "l: 5\r\nr: 4\r\n%s\r\n", cases[i].text);
        read_success(&source, head);
        struct weir_quota expected = cases[i].quota;
        expected.unit = WEIR_UNIT_REQUESTS;
        expected.limit = 5;
        expected.remaining = 4;
        assert_int_equal(limits.quota_count, 1);
        expect_quota(0, &expected);
    }
}

TEST(a_custom_date_counts_from_the_clock_that_wrote_it)
{
    struct weir_limits_source source = with_unit(WEIR_LIMITS_RESET_DATE);
    read_success(&source, "Date: Thu, 21 Aug 2025 12:40:00 GMT\r\nl: 5\r\nr: 4\r\n"
                          "t: 2025-08-21T12:40:59Z\r\n"
                          "tl: 9\r\ntr: 8\r\ntt: 7\r\n");
    assert_int_equal(limits.quota_count, 2);
    assert_int_equal(limits.quotas[0].reset, WEIR_RESET_WINDOW);
    assert_int_equal(limits.quotas[0].reset_ns, 59 * SECOND);
    assert_int_equal(limits.quotas[1].reset_ns, 7 * SECOND); /* of tokens: any form */
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
        cmocka_unit_test(the_drafts_fields_are_joined_by_their_policy),
        cmocka_unit_test(the_drafts_fields_may_hold_several_policies_and_be_split),
        cmocka_unit_test(a_policy_that_is_not_ours_or_makes_no_sense_is_passed_over),
        cmocka_unit_test(policies_beyond_the_bound_are_passed_over),
        cmocka_unit_test(earlier_drafts_had_three_fields),
        cmocka_unit_test(what_is_standard_does_not_include_a_providers_names),
        cmocka_unit_test(a_custom_reset_has_the_unit_that_was_configured),
        cmocka_unit_test(a_custom_date_counts_from_the_clock_that_wrote_it),
        cmocka_unit_test(custom_names_are_the_only_ones_besides_what_is_standard),
        cmocka_unit_test(a_host_that_is_known_refines_the_dialect),
        cmocka_unit_test(what_tells_of_the_account_is_hidden_from_tenants),
    };
    return cmocka_run_group_tests_name("limits_dialects", tests, NULL, NULL);
}
