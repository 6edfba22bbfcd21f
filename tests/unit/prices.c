/* Prices of models: what a file may say, and what tokens cost. */
#define _GNU_SOURCE
#include "tenants/prices.h"

#include "base/slice.h"
#include "config/scalars.h"
#include "unit/folder.h"

static char path[64];
static const char *error;

static struct weir_prices *load(const char *text)
{
    snprintf(path, sizeof path, "%s/prices.json", folder);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    error = "";
    return weir_prices_load(weir_slice_of(path), &error);
}

static const char two[] =
    "{\"_source\":{\"date\":\"2026-11-20\"},"
    "\"sample_spec\":{\"input_cost_per_token\":0,\"max_tokens\":\"a text\"},"
    "\"dall-e-3\":{\"input_cost_per_image\":0.04},"
    "\"gpt-4o\":{\"input_cost_per_token\":2.5e-06,\"output_cost_per_token\":1e-05,"
    "\"cache_read_input_token_cost\":1.25e-06},"
    "\"claude-x\":{\"input_cost_per_token\":3e-06,\"output_cost_per_token\":1.5e-05,"
    "\"cache_creation_input_token_cost\":3.75e-06,\"cache_read_input_token_cost\":3e-07,"
    "\"input_cost_per_token_above_200k_tokens\":6e-06,"
    "\"output_cost_per_token_above_200k_tokens\":2.25e-05},"
    "\"embed\":{\"input_cost_per_token\":7.5e-09,\"output_cost_per_token\":null},"
    "\"free\":{\"input_cost_per_token\":0,\"output_cost_per_token\":0.0}}";

static uint64_t cost(const struct weir_prices *prices, const char *model, uint64_t input,
                     uint64_t output, uint64_t cached, uint64_t written)
{
    struct weir_usage_counts counts = {
        .input = input, .output = output, .cached = cached, .cache_written = written};
    return weir_price_of(weir_prices_find(prices, weir_slice_of(model)), &counts);
}

TEST(what_tokens_cost_is_rounded_up_to_billionths)
{
    struct weir_prices *prices = load(two);
    assert_non_null(prices);
    assert_int_equal(cost(prices, "gpt-4o", 1000, 100, 0, 0), 2500000 + 1000000);
    assert_int_equal(cost(prices, "gpt-4o", 1000, 100, 600, 0), 1000000 + 750000 + 1000000);
    assert_int_equal(cost(prices, "gpt-4o", 1000, 100, 0, 500), 2500000 + 1000000); /* as input */
    assert_int_equal(cost(prices, "claude-x", 1000, 0, 600, 300), 300000 + 180000 + 1125000);
    assert_int_equal(cost(prices, "embed", 1, 0, 0, 0), 8); /* 7.5 */
    assert_int_equal(cost(prices, "embed", 2, 9, 0, 0), 15);
    assert_int_equal(cost(prices, "embed", 0, 0, 0, 0), 0);
    assert_int_equal(cost(prices, "free", 1000, 1000, 0, 0), 0);
    assert_int_equal(cost(prices, "unknown", 1000, 1000, 0, 0), 0);
    /* More cached than there is counts for no more. */
    assert_int_equal(cost(prices, "gpt-4o", 10, 0, 11, 5), 12500);
    assert_true(cost(prices, "gpt-4o", UINT64_MAX, UINT64_MAX, 0, 0) <= INT64_MAX);
    weir_prices_destroy(prices);
}

TEST(above_a_bound_all_tokens_cost_more)
{
    struct weir_prices *prices = load(two);
    assert_int_equal(cost(prices, "claude-x", 200000, 10, 0, 0), 600000000 + 150000);
    assert_int_equal(cost(prices, "claude-x", 200001, 10, 0, 0), 1200006000 + 225000);
    const struct weir_price *price = weir_prices_find(prices, weir_slice_of("claude-x"));
    assert_int_equal(price->above.cache_read, price->usual.cache_read); /* nothing else is said */
    assert_int_equal(weir_price_most(price, 1000, 0), 3750000);         /* all of it is written */
    weir_prices_destroy(prices);
}

TEST(a_model_is_found_by_its_name_with_a_date_too)
{
    struct weir_prices *prices = load(two);
    static const struct {
        const char *model;
        bool known;
    } cases[] = {
        {"gpt-4o", true},       {"gpt-4o-2024-08-06", true}, {"gpt-4o-20240806", true},
        {"gpt-4o-mini", false}, {"gpt-4o-2024-08-6", false}, {"gpt-4o-2024-08-06-x", false},
        {"-20240806", false},   {"GPT-4o", false},           {"", false},
        {"dall-e-3", false},    {"sample_spec", false},      {"_source", false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct weir_price *price = weir_prices_find(prices, weir_slice_of(cases[i].model));
        assert_true((price != NULL) == cases[i].known);
    }
    assert_null(weir_prices_find(NULL, weir_slice_of("gpt-4o")));
    weir_prices_destroy(prices);
}

TEST(a_bad_file_is_told_with_what_is_wrong)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "is no JSON object"},
        {"[]", "is no JSON object"},
        {"{", "is no JSON object"},
        {"{}", "has no model"},
        {"{\"a\":{\"input_cost_per_image\":1}}", "has no model"},
        {"{\"a\":{\"input_cost_per_token\":-1}}", "a has a price"},
        {"{\"a\":{\"input_cost_per_token\":1.1}}", "a has a price"},
        {"{\"a\":{\"input_cost_per_token\":1,\"output_cost_per_token\":\"1\"}}", "a has a price"},
        {"{\"a\":{\"input_cost_per_token\":1,\"cache_read_input_token_cost\":true}}",
         "a has a price"},
        {"{\"a\":{\"input_cost_per_token\":0,\"input_cost_per_token_above_128k_tokens\":\"x\"}}",
         "a has a price"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_null(load(cases[i].text));
        assert_non_null(strstr(error, cases[i].part));
        assert_non_null(strstr(error, "prices.json cannot be used"));
    }
    assert_null(weir_prices_load(weir_slice_of("/nonexistent/p.json"), &error));
    assert_non_null(strstr(error, "cannot be read: No such file or directory. Name a file"));
    weir_prices_destroy(NULL);
}

TEST(the_file_that_is_shipped_has_the_models_that_are_asked_for_most)
{
    char shipped[512];
    snprintf(shipped, sizeof shipped, "%s/share/prices.json", getenv("WEIR_ROOT"));
    struct weir_prices *prices = weir_prices_load(weir_slice_of(shipped), &error);
    assert_non_null(prices);
    /* As the pages of the providers say; docs/guides/llm.md tells who has looked, and when. */
    assert_int_equal(cost(prices, "gpt-4o", 1000000, 1000000, 0, 0), 12500000000);
    assert_int_equal(cost(prices, "claude-sonnet-4-5", 1000, 1000, 0, 0), 18000000);
    assert_int_equal(cost(prices, "gemini-2.5-pro", 1000, 1000, 0, 0), 11250000);
    weir_prices_destroy(prices);
}

TEST(money_is_shown_with_two_digits_and_no_more_than_it_needs)
{
    static const struct {
        uint64_t billionths;
        const char *text;
    } cases[] = {{0, "0.00"},
                 {1, "0.000000001"},
                 {12500000000, "12.50"},
                 {1230000000, "1.23"},
                 {1234000000, "1.234"},
                 {UINT64_C(1000000000000000000), "1000000000.00"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint64_t again;
        assert_string_equal(weir_scalar_show_money(cases[i].billionths).text, cases[i].text);
        assert_true(weir_scalar_money(weir_slice_of(cases[i].text), &again));
        assert_int_equal(again, cases[i].billionths);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_tokens_cost_is_rounded_up_to_billionths),
        cmocka_unit_test(above_a_bound_all_tokens_cost_more),
        cmocka_unit_test(a_model_is_found_by_its_name_with_a_date_too),
        cmocka_unit_test(a_bad_file_is_told_with_what_is_wrong),
        cmocka_unit_test(the_file_that_is_shipped_has_the_models_that_are_asked_for_most),
        cmocka_unit_test(money_is_shown_with_two_digits_and_no_more_than_it_needs),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
