/* What a configuration says of tenants. */
#include "unit/config_helpers.h"

#include "config/budget_bounds.h"

static const struct weir_config_tenant *find(const struct weir_config *config, const char *name)
{
    return weir_config_find_tenant(config, weir_slice_of(name));
}

static uint64_t tokens(const struct weir_config_tenant *tenant)
{
    return tenant->budget.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_TOKENS];
}

static bool may_use(const struct weir_config_tenant *tenant, const char *model)
{
    return weir_config_tenant_may_use(tenant, weir_slice_of(model));
}

TEST(a_file_without_tenants_bounds_nobody)
{
    struct weir_config *config = load(API);
    const struct weir_config_tenant *tenant = find(config, "anybody");
    assert_ptr_equal(tenant, &config->tenant_default);
    assert_true(tokens(tenant) == WEIR_NEVER);
    assert_true(may_use(tenant, "any-model"));
    assert_true(may_use(tenant, ""));
    assert_int_equal(
        weir_config_tenant_priority(config, weir_slice_of("anybody"), WEIR_PRIORITY_HIGH),
        WEIR_PRIORITY_HIGH);
    unload(config);
}

TEST(named_tenants_start_from_the_default_wherever_it_stands)
{
    struct weir_config *config = load(API "tenants:\n"
                                          "  zeta: { tokens_per_day: none }\n"
                                          "  default: { tokens_per_day: 1000, models: [gpt-4o*] }\n"
                                          "  acme: { models: [claude-*, \"o1\"] }\n"
                                          "  acm: { tokens_per_day: 0 }\n"
                                          "  \"two words\":\n");
    assert_int_equal(config->tenant_count, 4);
    expect_slice(find(config, "acme")->name, "acme");
    assert_int_equal(find(config, "acme")->line, 5);
    assert_int_equal(tokens(find(config, "acme")), 1000);
    assert_true(may_use(find(config, "acme"), "claude-3"));
    assert_true(may_use(find(config, "acme"), "o1"));
    assert_false(may_use(find(config, "acme"), "gpt-4o"));
    assert_int_equal(tokens(find(config, "acm")), 0);
    assert_true(may_use(find(config, "acm"), "gpt-4o-mini"));
    assert_true(tokens(find(config, "zeta")) == WEIR_NEVER);
    assert_int_equal(tokens(find(config, "two words")), 1000);
    /* All others, among them names that come before, between and behind these. */
    static const char *const others[] = {"", "a", "acmee", "b", "zeta2", "default"};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_ptr_equal(find(config, others[i]), &config->tenant_default);
    }
    unload(config);
}

TEST(a_budget_has_bounds_by_day_and_month)
{
    struct weir_config *config = load(API "tenants:\n"
                                          "  default: { requests_per_day: 5 }\n"
                                          "  acme: { tokens_per_month: 7, requests_per_month: 8 }\n"
                                          "  free: { requests_per_day: none }\n");
    const struct weir_budget_limits *acme = &find(config, "acme")->budget;
    assert_true(acme->most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_TOKENS] == WEIR_NEVER);
    assert_int_equal(acme->most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_REQUESTS], 5);
    assert_int_equal(acme->most[WEIR_BUDGET_MONTH].units[WEIR_BUDGET_TOKENS], 7);
    assert_int_equal(acme->most[WEIR_BUDGET_MONTH].units[WEIR_BUDGET_REQUESTS], 8);
    assert_true(weir_budget_limits_any(acme));
    assert_false(weir_budget_limits_any(&find(config, "free")->budget));
    unload(config);
}

TEST(money_has_digits_behind_its_point_and_needs_prices)
{
    struct weir_config *config =
        load(API "prices: prices.json\n"
                 "tenants:\n"
                 "  default: { money_per_day: 12.5, money_per_month: 300 }\n"
                 "  acme: { money_per_day: 0.000000001 }\n"
                 "  most: { money_per_day: 1000000000.000000000 }\n"
                 "unpriced: free\n");
    const struct weir_budget_limits *usual = &config->tenant_default.budget;
    assert_int_equal(usual->most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_MONEY], 12500000000);
    assert_int_equal(usual->most[WEIR_BUDGET_MONTH].units[WEIR_BUDGET_MONEY], 300000000000);
    assert_int_equal(find(config, "acme")->budget.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_MONEY],
                     1);
    assert_int_equal(find(config, "most")->budget.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_MONEY],
                     WEIR_BUDGET_BOUND_MONEY_MAX);
    assert_int_equal(config->unpriced, WEIR_CONFIG_UNPRICED_FREE);
    unload(config);
    static const char *const wrong[] = {"-1",         "1.",           ".5", "1e3", "1.0000000001",
                                        "1000000001", "1000000000.1", "$5", "1,5", "01"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[256], error[512];
        snprintf(text, sizeof text, API "prices: p\ntenants: { a: { money_per_day: \"%s\" } }\n",
                 wrong[i]);
        snprintf(error, sizeof error,
                 "weir.yaml:3:32: tenants.a.money_per_day is \"%s\"; expected an amount from 0 to "
                 "1000000000 with up to 9 digits behind its point, such as 12.50, without quotes\n",
                 wrong[i]);
        expect_errors(text, error);
    }
    expect_errors(API "tenants: { a: { money_per_day: 1 } }\n",
                  "weir.yaml:2:10: tenants has a budget of money, and there is no prices; expected "
                  "prices: FILE at the top, which says what models cost\n");
}

TEST(a_tenant_has_the_priority_that_it_asks_for_up_to_its_highest)
{
    static const enum weir_priority high = WEIR_PRIORITY_HIGH, normal = WEIR_PRIORITY_NORMAL,
                                    low = WEIR_PRIORITY_LOW;
    struct weir_config *config = load(API "tenants:\n"
                                          "  none: {}\n"
                                          "  default: { priority: normal }\n"
                                          "  much: { priority: high }\n"
                                          "  little: { priority: low }\n");
    static const struct {
        const char *tenant;
        enum weir_priority of_high, of_normal, of_low;
    } cases[] = {
        {"much", high, normal, low},
        {"none", normal, normal, low},
        {"anybody", normal, normal, low},
        {"little", low, low, low},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_slice name = weir_slice_of(cases[i].tenant);
        assert_int_equal(weir_config_tenant_priority(config, name, high), cases[i].of_high);
        assert_int_equal(weir_config_tenant_priority(config, name, normal), cases[i].of_normal);
        assert_int_equal(weir_config_tenant_priority(config, name, low), cases[i].of_low);
    }
    unload(config);
}

TEST(a_star_stands_for_any_text)
{
    static const struct {
        const char *pattern, *model;
        bool matches;
    } cases[] = {
        {"gpt-4o", "gpt-4o", true},
        {"gpt-4o", "gpt-4o-mini", false},
        {"gpt-4o", "gpt-4", false},
        {"gpt-4o", "", false},
        {"gpt-4o*", "gpt-4o", true},
        {"gpt-4o*", "gpt-4o-mini", true},
        {"gpt-4o*", "xgpt-4o", false},
        {"*", "", true},
        {"*", "anything", true},
        {"**", "x", true},
        {"*-mini", "gpt-4o-mini", true},
        {"*-mini", "gpt-4o-mini-2", false},
        {"*-mini", "-mini-mini", true},
        {"a*b*c", "abc", true},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "aXcYb", false},
        {"a*ab", "aaab", true},
        {"a*ab", "ab", false},
        {"GPT*", "gpt-4", false},
        {"a?c", "abc", false},
        {"a?c", "a?c", true},
        {"a*", "a*", true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_slice pattern = weir_slice_of(cases[i].pattern);
        struct weir_config_tenant tenant = {.models = &pattern, .model_count = 1};
        if (may_use(&tenant, cases[i].model) != cases[i].matches) {
            fail_msg("%s and %s", cases[i].pattern, cases[i].model);
        }
    }
}

TEST(a_pattern_made_to_be_slow_is_not)
{
    static char text[4096];
    struct weir_slice pattern = weir_slice_of("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b");
    struct weir_config_tenant tenant = {.models = &pattern, .model_count = 1};
    memset(text, 'a', sizeof text);
    assert_false(weir_config_tenant_may_use(&tenant, (struct weir_slice){text, sizeof text}));
}

TEST(a_route_may_take_its_tenant_from_an_api_key)
{
    struct weir_config *config = load("listen: 127.0.0.1:1\n"
                                      "upstreams: { u: { url: http://u } }\n"
                                      "routes:\n"
                                      "  - { match: /a, upstream: u, tenant: api_key }\n"
                                      "  - { match: /b, upstream: u, tenant: \"api_keys\" }\n"
                                      "  - { match: /c, upstream: u, flow: api_key }\n");
    assert_int_equal(config->routes[0].tenant.kind, WEIR_CONFIG_SOURCE_API_KEY);
    assert_int_equal(config->routes[1].tenant.kind, WEIR_CONFIG_SOURCE_CONSTANT);
    assert_int_equal(config->routes[2].flow.kind, WEIR_CONFIG_SOURCE_CONSTANT);
    unload(config);
}

TEST(tenants_are_told_how_they_look)
{
    expect_errors(
        API "tenants: { a: { tokens_per_day: -1, modles: [x] }, b: { models: [] }, c: { "
            "models: gpt }, d: { models: [\"\", [x]] }, '': , e: { tokens_per_day: "
            "1125899906842625 } }\n",
        "weir.yaml:2:33: tenants.a.tokens_per_day is \"-1\"; expected a whole number from "
        "0 to 1125899906842624\n"
        "weir.yaml:2:37: tenants.a.modles is no field; expected tokens_per_day, "
        "tokens_per_month, requests_per_day, requests_per_month, money_per_day, "
        "money_per_month, priority or models; "
        "did you mean models?\n"
        "weir.yaml:2:65: tenants.b.models is empty; expected at least one model, or no "
        "models field at all, which allows every model\n"
        "weir.yaml:2:84: tenants.c.models is \"gpt\"; expected a list of models, such as "
        "[gpt-4o*, claude-*]\n"
        "weir.yaml:2:105: tenants.d.models[0] is \"\"; expected a model such as gpt-4o, in "
        "which * stands for any text, of up to 255 bytes\n"
        "weir.yaml:2:109: tenants.d.models[1] is a list; expected a model such as gpt-4o, "
        "in which * stands for any text, of up to 255 bytes\n"
        "weir.yaml:2:121: tenants.\"\" has a name of 0 bytes; expected 1 to 255\n"
        "weir.yaml:2:144: tenants.e.tokens_per_day is \"1125899906842625\"; expected a "
        "whole number from 0 to 1125899906842624\n");
    expect_errors(API "tenants: [acme]\n", "weir.yaml:2:10: tenants is a list; expected a mapping "
                                           "of tenants to {tokens_per_day, requests_per_day, "
                                           "models, priority}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_without_tenants_bounds_nobody),
        cmocka_unit_test(named_tenants_start_from_the_default_wherever_it_stands),
        cmocka_unit_test(a_budget_has_bounds_by_day_and_month),
        cmocka_unit_test(money_has_digits_behind_its_point_and_needs_prices),
        cmocka_unit_test(a_tenant_has_the_priority_that_it_asks_for_up_to_its_highest),
        cmocka_unit_test(a_star_stands_for_any_text),
        cmocka_unit_test(a_pattern_made_to_be_slow_is_not),
        cmocka_unit_test(a_route_may_take_its_tenant_from_an_api_key),
        cmocka_unit_test(tenants_are_told_how_they_look),
    };
    return cmocka_run_group_tests_name("config_tenant", tests, NULL, NULL);
}
