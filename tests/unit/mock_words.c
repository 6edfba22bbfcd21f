/* The rules of an emulated provider, as words. */
#include "lab/mock/settings.h"

#include "lab/mock/mock.h"
#include "unit/helpers.h"

static const char *apply(struct weir_mock_rules *rules, const char *name, const char *value)
{
    return weir_mock_word_apply(rules, weir_slice_of(name), weir_slice_of(value));
}

TEST(every_word_goes_to_its_place)
{
    static const char *const words[][2] = {
        {"tokens", "250000/m"},   {"requests", "5/s"},     {"input-tokens", "1/h"},
        {"output-tokens", "2/d"}, {"quota", "3/d"},        {"burst", "10s"},
        {"charge", "max_kept"},   {"full", "503"},         {"fail-status", "500"},
        {"headers", "off"},       {"retry-after", "off"},  {"first-token", "1s"},
        {"first-spread", "0.5"},  {"pace", "100/s"},       {"output", "7"},
        {"output-spread", "3"},   {"output-max", "12000"}, {"input-noise", "12.5"},
        {"chunk", "9"},           {"tools", "0"},          {"concurrency", "16"},
        {"fail", "0.0001"},
    };
    const struct weir_mock_rules expected = {
        .quota.limits = {[WEIR_MEASURE_TOKENS] = {250000, MINUTE},
                         [WEIR_MEASURE_REQUESTS] = {5, SECOND},
                         [WEIR_MEASURE_INPUT] = {1, HOUR},
                         [WEIR_MEASURE_OUTPUT] = {2, DAY},
                         [WEIR_MEASURE_QUOTA] = {3, DAY}},
        .quota.burst_ns = 10 * SECOND,
        .quota.charge = WEIR_CHARGE_MAX_KEPT,
        .concurrency_max = 16,
        .full_status = 503,
        .fail_share = 1,
        .fail_status = 500,
        .first_token_ns = SECOND,
        .first_spread = 0.5,
        .pace = {100, SECOND},
        .output = 7,
        .output_spread = 3,
        .output_max = 12000,
        .input_noise_share = 125000,
        .chunk = 9,
    };
    struct weir_mock_rules rules;
    memset(&rules, 0, sizeof rules); /* with what is between its members */
    struct weir_mock_rules usual = weir_mock_rules_default();
    rules.headers = usual.headers;
    rules.retry_after = usual.retry_after;
    rules.tools_share = usual.tools_share;
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        assert_null(apply(&rules, words[i][0], words[i][1]));
    }
    assert_memory_equal(&rules.quota.limits, &expected.quota.limits, sizeof rules.quota.limits);
    assert_int_equal(rules.quota.burst_ns, expected.quota.burst_ns);
    assert_int_equal(rules.quota.charge, expected.quota.charge);
    assert_int_equal(rules.concurrency_max, expected.concurrency_max);
    assert_int_equal(rules.full_status, expected.full_status);
    assert_int_equal(rules.fail_share, expected.fail_share);
    assert_int_equal(rules.fail_status, expected.fail_status);
    assert_int_equal(rules.headers, expected.headers);
    assert_int_equal(rules.retry_after, expected.retry_after);
    assert_int_equal(rules.first_token_ns, expected.first_token_ns);
    assert_float_equal(rules.first_spread, expected.first_spread, 0);
    assert_int_equal(rules.pace.tokens, expected.pace.tokens);
    assert_int_equal(rules.output, expected.output);
    assert_float_equal(rules.output_spread, expected.output_spread, 0);
    assert_int_equal(rules.output_max, expected.output_max);
    assert_int_equal(rules.input_noise_share, expected.input_noise_share);
    assert_int_equal(rules.chunk, expected.chunk);
    assert_int_equal(rules.tools_share, expected.tools_share);
}

TEST(none_and_nothing_lift_what_was_set)
{
    struct weir_mock_rules rules = weir_mock_rules_default();
    assert_null(apply(&rules, "tokens", "5/s"));
    assert_null(apply(&rules, "tokens", "none"));
    assert_int_equal(rules.quota.limits[WEIR_MEASURE_TOKENS].tokens, 0);
    assert_null(apply(&rules, "concurrency", "5"));
    assert_null(apply(&rules, "concurrency", "none"));
    assert_int_equal(rules.concurrency_max, 0);
    assert_null(apply(&rules, "pace", "none"));
    assert_int_equal(rules.pace.tokens, 0);
    assert_null(apply(&rules, "first-token", "0"));
    assert_int_equal(rules.first_token_ns, 0);
    assert_null(apply(&rules, "burst", "0"));
    assert_int_equal(rules.quota.burst_ns, 0);
}

TEST(bad_values_change_nothing_and_tell_what_is_expected)
{
    static const char *const words[][2] = {
        {"tokens", "250000"},
        {"tokens", "0/m"},
        {"tokens", ""},
        {"tokens", "1/w"},
        {"tokens", "1099511627777/s"},
        {"burst", "2d"},
        {"burst", "5"},
        {"charge", "prompt"},
        {"charge", ""},
        {"full", "500"},
        {"full", "430"},
        {"fail-status", "499"},
        {"fail-status", "600"},
        {"headers", "yes"},
        {"retry-after", ""},
        {"first-token", "25h"},
        {"first-spread", "3.1"},
        {"first-spread", "-1"},
        {"output-spread", ".5"},
        {"output", "0"},
        {"output", "12001"},
        {"output-max", "0"},
        {"output-max", "12001"},
        {"input-noise", "100.1"},
        {"input-noise", "1.23456"},
        {"chunk", "0"},
        {"chunk", "12001"},
        {"tools", "101"},
        {"concurrency", "0"},
        {"concurrency", "1000000001"},
        {"fail", "100.0001"},
        {"fail", "5%"},
        {"token", "5/s"},
        {"", "5"},
    };
    struct weir_mock_rules rules = weir_mock_rules_default();
    struct weir_mock_rules before = rules;
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        assert_non_null(apply(&rules, words[i][0], words[i][1]));
        assert_memory_equal(&rules, &before, sizeof rules);
    }
    assert_string_equal(apply(&rules, "full", "1"), "429 or 503");
}

static const char *add(struct weir_mock_llm_settings *settings, const char *text)
{
    return weir_mock_change_add(settings, weir_slice_of(text));
}

static void expect_change(const struct weir_mock_change *change, uint64_t at_ns, const char *name,
                          const char *value)
{
    assert_int_equal(change->at_ns, at_ns);
    assert_int_equal(change->name.bytes, strlen(name));
    assert_memory_equal(change->name.data, name, strlen(name));
    assert_int_equal(change->value.bytes, strlen(value));
    assert_memory_equal(change->value.data, value, strlen(value));
}

TEST(changes_are_ordered_by_their_moment_and_then_as_they_were_said)
{
    struct weir_mock_llm_settings settings = {.rules = weir_mock_rules_default()};
    assert_null(add(&settings, "30s:tokens=5/s"));
    assert_null(add(&settings, "1m:fail=50"));
    assert_null(add(&settings, "30s:tokens=6/s"));
    assert_null(add(&settings, "0:concurrency=2"));
    assert_int_equal(settings.change_count, 4);
    expect_change(&settings.changes[0], 0, "concurrency", "2");
    expect_change(&settings.changes[1], 30 * SECOND, "tokens", "5/s");
    expect_change(&settings.changes[2], 30 * SECOND, "tokens", "6/s");
    expect_change(&settings.changes[3], MINUTE, "fail", "50");
    assert_int_equal(settings.rules.concurrency_max, 0); /* they are not made yet */
}

TEST(changes_that_are_none_are_refused)
{
    static const char *const texts[] = {
        "",         "30s",        "30s:",        "30s:tokens", "tokens=5/s",
        "5:fail=5", "30s:fail=x", "30s:nix=5/s", ":fail=5",    "30s=fail:5",
    };
    struct weir_mock_llm_settings settings = {.rules = weir_mock_rules_default()};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        assert_non_null(add(&settings, texts[i]));
        assert_int_equal(settings.change_count, 0);
    }
}

TEST(a_schedule_has_64_changes_at_most)
{
    struct weir_mock_llm_settings settings = {.rules = weir_mock_rules_default()};
    for (int i = 0; i < WEIR_MOCK_CHANGES_MAX; i++) {
        assert_null(add(&settings, "30s:fail=5"));
    }
    assert_non_null(add(&settings, "30s:fail=5"));
    assert_int_equal(settings.change_count, WEIR_MOCK_CHANGES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_word_goes_to_its_place),
        cmocka_unit_test(none_and_nothing_lift_what_was_set),
        cmocka_unit_test(bad_values_change_nothing_and_tell_what_is_expected),
        cmocka_unit_test(changes_are_ordered_by_their_moment_and_then_as_they_were_said),
        cmocka_unit_test(changes_that_are_none_are_refused),
        cmocka_unit_test(a_schedule_has_64_changes_at_most),
    };
    return cmocka_run_group_tests_name("mock_words", tests, NULL, NULL);
}
