/* limits_helpers.h - replies with limits, and what is read from them. */
#ifndef WEIR_TESTS_LIMITS_HELPERS_H
#define WEIR_TESTS_LIMITS_HELPERS_H

#include "llm/limits.h"

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

/* Reads a reply of these fields, which are right before a page that cannot be read. */
static inline void read_reply(const struct weir_limits_source *source, const char *status,
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

static inline void read_success(const struct weir_limits_source *source, const char *fields)
{
    read_reply(source, "200 OK", fields);
}

static inline void expect_quota(uint32_t index, const struct weir_quota *expected)
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

static inline void expect_nothing(void)
{
    assert_int_equal(limits.quota_count, 0);
    assert_false(limits.retry_after_known);
    assert_int_equal(limits.retry_after_ns, 0);
    assert_int_equal(limits.retry_after_rounding_ns, 0);
    assert_false(limits.do_not_retry);
}

static inline void expect_retry_after(uint64_t ns, uint64_t rounding_ns)
{
    assert_true(limits.retry_after_known);
    assert_int_equal(limits.retry_after_ns, ns);
    assert_int_equal(limits.retry_after_rounding_ns, rounding_ns);
}

#endif
