/* A tenant's own limits, as header fields. */
#include "gates/share.h"
#include "unit/helpers.h"

static void expect_written(struct weir_share share, struct weir_share_budget budget,
                           const char *expected)
{
    char data[WEIR_SHARE_BYTES_MAX];
    struct weir_head_writer writer;
    weir_head_init(&writer, data, sizeof data);
    weir_share_write(&writer, &share, &budget);
    assert_false(writer.failed);
    assert_int_equal(writer.bytes, strlen(expected));
    assert_memory_equal(data, expected, writer.bytes);
}

TEST(a_tenant_without_limits_is_told_nothing)
{
    expect_written((struct weir_share){.active = 3}, (struct weir_share_budget){0}, "");
}

TEST(each_limit_is_told_with_what_is_left_of_it)
{
    struct weir_share share = {
        .active = 1, .limit = 4, .rate = {.tokens = 600, .period_ns = 60 * SECOND}, .level = 590};
    struct weir_share_budget budget = {
        .exists = true, .tokens = 1000000, .spent = 1, .left_ns = 3600 * SECOND - 1};
    expect_written(share, budget,
                   "ratelimit-policy: \"concurrency\";q=4;qu=\"concurrent-requests\", "
                   "\"requests\";q=600;w=60, \"tokens\";q=1000000;w=86400;qu=\"tokens\"\r\n"
                   "ratelimit: \"concurrency\";r=3, \"requests\";r=590;t=1, "
                   "\"tokens\";r=999999;t=3600\r\n");
}

TEST(one_limit_alone_stands_first)
{
    struct weir_share_budget budget = {.exists = true, .tokens = 5, .spent = 9, .left_ns = 1};
    expect_written((struct weir_share){0}, budget,
                   "ratelimit-policy: \"tokens\";q=5;w=86400;qu=\"tokens\"\r\n"
                   "ratelimit: \"tokens\";r=0;t=1\r\n");
}

TEST(a_budget_of_nothing_is_one)
{
    struct weir_share_budget budget = {.exists = true, .left_ns = 1};
    expect_written((struct weir_share){0}, budget,
                   "ratelimit-policy: \"tokens\";q=0;w=86400;qu=\"tokens\"\r\n"
                   "ratelimit: \"tokens\";r=0;t=1\r\n");
}

TEST(what_is_overdrawn_has_nothing_left_and_takes_longer)
{
    struct weir_share share = {.active = 9,
                               .limit = 4,
                               .rate = {.tokens = 10, .period_ns = SECOND, .burst = 20},
                               .level = -5};
    expect_written(share, (struct weir_share_budget){0},
                   "ratelimit-policy: \"concurrency\";q=4;qu=\"concurrent-requests\", "
                   "\"requests\";q=10;w=1\r\n"
                   "ratelimit: \"concurrency\";r=0, \"requests\";r=0;t=3\r\n");
}

TEST(the_longest_fits)
{
    struct weir_share share = {.active = 0,
                               .limit = WEIR_LIMIT_MAX,
                               .rate = {.tokens = WEIR_RATE_TOKENS_MAX,
                                        .period_ns = WEIR_RATE_PERIOD_MAX_NS,
                                        .burst = WEIR_RATE_TOKENS_MAX},
                               .level = INT64_MIN / 2};
    struct weir_share_budget budget = {
        .exists = true, .tokens = UINT64_MAX, .spent = 0, .left_ns = WEIR_NEVER};
    char data[WEIR_SHARE_BYTES_MAX];
    struct weir_head_writer writer;
    weir_head_init(&writer, data, sizeof data);
    weir_share_write(&writer, &share, &budget);
    assert_false(writer.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_without_limits_is_told_nothing),
        cmocka_unit_test(each_limit_is_told_with_what_is_left_of_it),
        cmocka_unit_test(one_limit_alone_stands_first),
        cmocka_unit_test(a_budget_of_nothing_is_one),
        cmocka_unit_test(what_is_overdrawn_has_nothing_left_and_takes_longer),
        cmocka_unit_test(the_longest_fits),
    };
    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
