/* Which keys belong to a tenant, by the template that makes them. */
#include "worker/key_tenant.h"
#include "unit/helpers.h"

#define SLICE(text) ((struct weir_slice){text, sizeof(text) - 1})

static const struct weir_config_source tenant_part = {.kind = WEIR_CONFIG_SOURCE_TENANT};
static const struct weir_config_source capture = {.kind = WEIR_CONFIG_SOURCE_CAPTURE};
static const struct weir_config_source header = {.kind = WEIR_CONFIG_SOURCE_HEADER};

static struct weir_config_source constant(const char *text)
{
    return (struct weir_config_source){.kind = WEIR_CONFIG_SOURCE_CONSTANT,
                                       .text = {text, strlen(text)}};
}

static bool fits(const struct weir_config_source *parts, uint32_t count, const char *key)
{
    return weir_key_template_fits(parts, count, (struct weir_slice){key, strlen(key)},
                                  SLICE("acme"));
}

TEST(a_key_that_is_the_tenant_is_the_tenant_s_alone)
{
    assert_true(fits(&tenant_part, 1, "acme"));
    static const char *const others[] = {"", "acm", "acme2", "xacme", "Acme", "rival-corp"};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_false(fits(&tenant_part, 1, others[i]));
    }
}

TEST(what_stands_around_the_tenant_must_be_there_as_well)
{
    const struct weir_config_source before[] = {tenant_part, constant("/"), capture};
    assert_true(fits(before, 3, "acme/f"));
    assert_true(fits(before, 3, "acme/"));
    assert_true(fits(before, 3, "acme/acme/f"));
    assert_false(fits(before, 3, "acme"));
    assert_false(fits(before, 3, "acme-corp/f"));
    assert_false(fits(before, 3, "rival/acme/f"));

    const struct weir_config_source behind[] = {capture, constant("/"), tenant_part};
    assert_true(fits(behind, 3, "f/acme"));
    assert_true(fits(behind, 3, "/acme"));
    assert_true(fits(behind, 3, "/acme/acme"));
    assert_false(fits(behind, 3, "f/acme2"));
    assert_false(fits(behind, 3, "facme"));
    assert_false(fits(behind, 3, "acme"));

    const struct weir_config_source between[] = {constant("a:"), capture,       constant(":"),
                                                 tenant_part,    constant(":"), header};
    assert_true(fits(between, 6, "a:f:acme:h"));
    assert_true(fits(between, 6, "a::acme:"));
    assert_true(fits(between, 6, "a:f:acm:acme:h"));
    assert_true(fits(between, 6, "a:rival:acme:acme:h"));
    assert_false(fits(between, 6, "a:f:acmee:h"));
    assert_false(fits(between, 6, "b:f:acme:h"));
    assert_false(fits(between, 6, "a:acme:h"));
}

TEST(unknown_parts_may_be_any_text_and_constants_only_themselves)
{
    const struct weir_config_source both[] = {capture, header};
    assert_true(fits(both, 2, ""));
    assert_true(fits(both, 2, "anything"));
    const struct weir_config_source word = constant("all");
    assert_true(fits(&word, 1, "all"));
    assert_false(fits(&word, 1, "al"));
    assert_false(fits(&word, 1, "all "));
}

TEST(names_of_the_greatest_length_fit_and_longer_ones_do_not)
{
    char text[WEIR_NAME_BYTES_MAX + 300];
    memset(text, 'k', sizeof text);
    struct weir_slice longest = {text, WEIR_NAME_BYTES_MAX};
    const struct weir_config_source twice[] = {tenant_part, tenant_part};
    assert_true(weir_key_template_fits(twice, 1, longest, longest));
    assert_false(weir_key_template_fits(twice, 2, longest, longest));
    /* A path of the API may name what is longer than any key. */
    assert_false(weir_key_template_fits(twice, 2, (struct weir_slice){text, sizeof text}, longest));
    const struct weir_config_source open[] = {capture, tenant_part, tenant_part};
    assert_false(weir_key_template_fits(open, 3, (struct weir_slice){text, sizeof text}, longest));
}

/* ---- a snapshot ---- */

TEST(a_gate_hides_the_keys_of_others_only_where_a_route_puts_the_tenant_into_the_key)
{
    struct weir_config_source word = constant("shared");
    struct weir_config_route routes[] = {{.key = &tenant_part, .key_parts = 1, .gate = 0},
                                         {.key = &word, .key_parts = 1, .gate = 0},
                                         {.key = &capture, .key_parts = 1, .gate = 0},
                                         {.key = &capture, .key_parts = 1, .gate = 1},
                                         {.key = &word, .key_parts = 1, .gate = WEIR_CONFIG_NONE},
                                         {.key = &capture,
                                          .key_parts = 1,
                                          .gate = 1,
                                          .has_sessions = true,
                                          .session_key = &tenant_part,
                                          .session_key_parts = 1,
                                          .session_gate = 2}};
    struct weir_config config = {.routes = routes, .route_count = 6, .gate_count = 3};
    uint32_t numbers[] = {7, 3, 4};
    struct weir_config_snapshot snapshot = {.config = &config, .gates = numbers};
    struct weir_slice acme = SLICE("acme"), anybody = SLICE("");
    assert_true(weir_gate_hides_keys(&snapshot, 7, acme));
    assert_true(weir_key_open_to(&snapshot, 7, acme, acme));
    assert_true(weir_key_open_to(&snapshot, 7, SLICE("shared"), acme));
    assert_false(weir_key_open_to(&snapshot, 7, SLICE("rival-corp"), acme));
    assert_true(weir_key_open_to(&snapshot, 7, SLICE("rival-corp"), anybody));
    assert_false(weir_gate_hides_keys(&snapshot, 7, anybody));
    assert_false(weir_gate_hides_keys(&snapshot, 3, acme));
    assert_true(weir_key_open_to(&snapshot, 3, SLICE("rival-corp"), acme));
    /* By a key of sessions. */
    assert_true(weir_gate_hides_keys(&snapshot, 4, acme));
    assert_true(weir_key_open_to(&snapshot, 4, acme, acme));
    assert_false(weir_key_open_to(&snapshot, 4, SLICE("rival-corp"), acme));
    /* What the keys of a gate meant that a reload has taken out is not known any more. */
    assert_true(weir_gate_hides_keys(&snapshot, 5, acme));
    assert_false(weir_key_open_to(&snapshot, 5, SLICE("rival-corp"), acme));
    assert_true(weir_key_open_to(&snapshot, 5, acme, acme));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_is_the_tenant_is_the_tenant_s_alone),
        cmocka_unit_test(what_stands_around_the_tenant_must_be_there_as_well),
        cmocka_unit_test(unknown_parts_may_be_any_text_and_constants_only_themselves),
        cmocka_unit_test(names_of_the_greatest_length_fit_and_longer_ones_do_not),
        cmocka_unit_test(
            a_gate_hides_the_keys_of_others_only_where_a_route_puts_the_tenant_into_the_key),
    };
    return cmocka_run_group_tests_name("key_tenant", tests, NULL, NULL);
}
