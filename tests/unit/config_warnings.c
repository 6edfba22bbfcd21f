/* Every warning with its message, word by word, and what is close to each but no reason for one. */
#include "unit/config_helpers.h"

static struct weir_config_errors warnings;

/* Loads what is good, and compares its warnings, each with a line end. */
static void expect_warnings(const char *text, const char *expected)
{
    struct weir_config *config = NULL;
    memory_init(&config_memory);
    struct weir_config_options options = {
        .allocator = &config_memory.allocator, .lookup = look_up, .warnings = &warnings};
    bool good = weir_config_load_text(weir_slice_of("weir.yaml"), weir_slice_of(text), &options,
                                      &config, &config_errors);
    environment = NULL;
    if (!good) {
        fail_msg("%s", config_errors.list[0].text);
    }
    unload(config);
    static char said[WEIR_CONFIG_ERRORS_MAX * (WEIR_CONFIG_ERROR_BYTES_MAX + 1)];
    size_t length = 0;
    said[0] = '\0';
    for (uint32_t i = 0; i < warnings.count; i++) {
        length +=
            (size_t)snprintf(said + length, sizeof said - length, "%s\n", warnings.list[i].text);
    }
    if (strcmp(said, expected) != 0) {
        fail_msg("expected:\n%s\nbut it said:\n%s", expected, said);
    }
}

TEST(a_source_that_looks_like_a_header_is_a_constant)
{
    expect_warnings(
        LISTEN "routes: [{match: /, upstream: u, tenant: X-Tenant, flow: Flow-Id}]\n",
        "weir.yaml:3:42: warning: routes[0].tenant is the constant \"X-Tenant\", so all callers "
        "are one tenant; did you mean header:X-Tenant?\n"
        "weir.yaml:3:58: warning: routes[0].flow is the constant \"Flow-Id\", so all requests are "
        "of one flow; did you mean header:Flow-Id?\n");
    expect_warnings(LISTEN "routes: [{match: /, upstream: u, tenant: header:X-Tenant}]\n", "");
    expect_warnings(LISTEN "routes: [{match: /, upstream: u, tenant: acme, flow: nightly-2}]\n",
                    "");
}

TEST(a_key_that_is_the_name_of_a_part_is_a_constant)
{
    expect_warnings(LISTEN "gates: {g: }\nroutes:\n"
                           "  - {match: '/f/{name}', upstream: u, gate: g, key: name}\n"
                           "  - {match: /m, upstream: u, gate: g, key: model}\n"
                           "  - {match: /x, upstream: u, gate: g, key: x-key}\n",
                    "weir.yaml:5:53: warning: routes[0].key is the constant \"name\", so all "
                    "requests of this route share one key; did you mean \"{name}\"?\n"
                    "weir.yaml:6:44: warning: routes[1].key is the constant \"model\", so all "
                    "requests of this route share one key; did you mean \"{model}\"?\n"
                    "weir.yaml:7:44: warning: routes[2].key is the constant \"x-key\", so all "
                    "requests of this route share one key; did you mean header:x-key?\n");
    expect_warnings(LISTEN "gates: {g: }\nroutes:\n"
                           "  - {match: '/f/{name}', upstream: u, gate: g, key: '{name}-x'}\n"
                           "  - {match: /m, upstream: u, gate: g, key: name}\n",
                    "");
}

TEST(a_variable_without_braces_stays_as_it_is)
{
    expect_warnings(
        "listen: 127.0.0.1:1\n"
        "upstreams: {u: {url: http://u, headers: {Authorization: Bearer $API_KEY}}}\n",
        "weir.yaml:2:57: warning: upstreams.u.headers.Authorization has a $ before a name, which "
        "stays as it is; expected ${NAME}, with braces, for a variable of the environment\n");
    USE_ENVIRONMENT("API_KEY", "x");
    expect_warnings("listen: 127.0.0.1:1\n"
                    "upstreams: {u: {url: http://u, headers: {A: '${API_KEY}', B: $5, C: a$b}}}\n"
                    "queues: {q: {run: [sh, -c, 'echo $HOME']}}\n",
                    "");
}

TEST(a_star_in_a_match_stands_for_itself)
{
    expect_warnings(LISTEN "routes: [{match: '/f/*', upstream: u}]\n",
                    "weir.yaml:3:18: warning: routes[0].match is \"/f/*\"; expected a path without "
                    "*, which stands for nothing but itself here: a match takes all paths below "
                    "it, and {name} takes any one segment\n");
}

TEST(a_file_inside_a_longer_argument_is_not_filled_in)
{
    expect_warnings(API "queues: {q: {run: [sh, -c, 'wc < {in} > {out}']}}\n",
                    "weir.yaml:2:28: warning: queues.q.run[2] has {in} inside a longer argument, "
                    "where it is not filled in; expected it as an argument of its own, which a "
                    "shell command calls $0, $1 and so on\n");
    expect_warnings(API "queues: {q: {run: [wc, -o, '{out}', '{in}']}}\n", "");
}

TEST(a_header_that_no_caller_may_set_is_no_tenant)
{
    expect_warnings(
        LISTEN "trusted: []\nroutes: [{match: /, upstream: u, tenant: header:T}]\n",
        "weir.yaml:4:42: warning: routes[0].tenant is a header, but trusted is empty, so no caller "
        "is believed; expected trusted: with the networks of the proxies that set it, or tenant: "
        "api_key\n");
    expect_warnings(
        "listen: 0.0.0.0:1\nupstreams: {u: {url: http://u}}\n"
        "routes: [{match: /, upstream: u, tenant: header:T}]\n",
        "weir.yaml:3:42: warning: routes[0].tenant is a header, but callers on other machines are "
        "not believed unless trusted names them; expected trusted: with the networks of the "
        "proxies that set it, or tenant: api_key\n");
    expect_warnings("listen: 0.0.0.0:1\ntrusted: [10.0.0.0/8]\nupstreams: {u: {url: http://u}}\n"
                    "routes: [{match: /, upstream: u, tenant: header:T}]\n",
                    "");
}

TEST(a_key_without_a_gate_has_no_effect)
{
    expect_warnings(LISTEN "routes: [{match: /, upstream: u, key: a}]\n",
                    "weir.yaml:3:39: warning: routes[0].key has no effect, because the route has "
                    "no gate and its requests pass unlimited; expected gate: NAME with it\n");
}

TEST(a_gate_of_agents_without_a_limit_could_have_the_preset)
{
    expect_warnings(API "gates: {agents: {lease: 1m}}\n",
                    "weir.yaml:2:17: warning: gates.agents has no limit, so 10 at once are let in "
                    "for each key; expected preset: agents, which is a limit of 3 and 30 s in "
                    "line, or limit\n");
    expect_warnings(API "gates: {agents: {lease: 1m, preset: agents}}\n", "");
    expect_warnings(API "gates: {agents: {lease: 1m, limit: 10}, others: {lease: 1m}}\n", "");
}

TEST(two_routes_with_one_key_share_its_limit)
{
    expect_warnings(LISTEN "gates: {g: , h: }\nroutes:\n"
                           "  - {match: /u, upstream: u, gate: g}\n"
                           "  - {match: /v, upstream: v, gate: g}\n"
                           "  - {match: /w, upstream: v, gate: h}\n",
                    "weir.yaml:6:5: warning: routes[1] has the gate and the key of the route on "
                    "line 5 but another upstream, so both share one limit; expected key: "
                    "\"{upstream}\" on both, or a gate of its own\n");
    expect_warnings(LISTEN "gates: {g: }\nroutes:\n"
                           "  - {match: /u, upstream: u, gate: g, key: '{upstream}'}\n"
                           "  - {match: /v, upstream: v, gate: g, key: '{upstream}'}\n"
                           "  - {match: /a, upstream: v, gate: g, key: a}\n"
                           "  - {match: /b, upstream: v, gate: g, key: a}\n",
                    "");
}

TEST(one_address_can_be_opened_once)
{
    expect_warnings(
        "listen: [127.0.0.1:1, 'unix:/s']\napi: 127.0.0.1:1\nprotocol: unix:/s\n",
        "weir.yaml:2:6: warning: api is the address of listen[0] on line 1, too, and only one of "
        "them can be opened; expected another port\n"
        "weir.yaml:3:11: warning: protocol is the address of listen[1] on line 1, too, and only "
        "one of them can be opened; expected another port\n");
    expect_warnings("listen: 0.0.0.0:1\napi: 127.0.0.1:1\n",
                    "weir.yaml:2:6: warning: api is the address of listen on line 1, too, and only "
                    "one of them can be opened; expected another port\n");
    expect_warnings("listen: [127.0.0.1:0, '[::1]:1']\napi: [127.0.0.1:0, 127.0.0.1:1]\n", "");
}

TEST(a_text_whose_variables_were_none_is_noted)
{
    static struct weir_config_errors notes;
    struct weir_config *config = NULL;
    memory_init(&config_memory);
    struct weir_config_options options = {
        .allocator = &config_memory.allocator, .lookup = look_up, .notes = &notes};
    USE_ENVIRONMENT("D", "/d", "U", "http://u");
    assert_true(weir_config_load_text(
        weir_slice_of("f"),
        weir_slice_of(API
                      "data: ${D}/$${x}\n"
                      "upstreams: {u: {url: '${U}', headers: {key: '${D}'}, models: {a: "
                      "'$${b}'}}}\nqueues: {q: {run: ['${D}'], environment: {data: '${D}'}}}\n"),
        &options, &config, &config_errors));
    assert_int_equal(notes.count, 2);
    assert_string_equal(notes.list[0].text,
                        "f:2:7: note: data is filled in from the environment, as every value but "
                        "run is now; Weir 0.1.0 took it as it stands, which $${ for ${ still does");
    assert_non_null(strstr(notes.list[1].text, "f:3:66: note: upstreams.u.models.a is filled in"));
    environment = NULL;
    unload(config);
}

static void expect_note(const char *text, const char *start)
{
    static struct weir_config_errors notes;
    struct weir_config *config = NULL;
    memory_init(&config_memory);
    struct weir_config_options options = {
        .allocator = &config_memory.allocator, .warnings = &warnings, .notes = &notes};
    assert_true(weir_config_load_text(weir_slice_of("f"), weir_slice_of(text), &options, &config,
                                      &config_errors));
    assert_int_equal(warnings.count, 0);
    assert_int_equal(notes.count, start != NULL);
    if (start != NULL) {
        assert_memory_equal(notes.list[0].text, start, strlen(start));
    }
    unload(config);
}

TEST(permits_of_the_api_that_have_a_lease_of_which_the_file_says_nothing_are_noted)
{
    expect_note(API "gates: {g: {limit: 1}}\n", "f:2:12: note: gates.g names no lease, so a permit "
                                                "that is acquired without hold comes back 10 "
                                                "minutes after its last renewal");
    expect_note(API "gates: {g: {lease: 10m}, h: {lease: none}}\n", NULL);
    expect_note(API LISTEN "gates: {g: {limit: 1}}\n"
                           "routes: [{match: /, upstream: u, gate: g}]\n",
                NULL);
    expect_note(LISTEN "gates: {g: {limit: 1}}\n", NULL);
}

TEST(warnings_are_counted_beyond_those_that_are_kept)
{
    static char text[8192];
    int length = snprintf(text, sizeof text, "%sroutes:\n", LISTEN);
    for (int i = 0; i <= WEIR_CONFIG_ERRORS_MAX; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "  - {match: '/%d/*', upstream: u}\n", i);
    }
    struct weir_config *config = NULL;
    memory_init(&config_memory);
    struct weir_config_options options = {.allocator = &config_memory.allocator,
                                          .warnings = &warnings};
    assert_true(weir_config_load_text(weir_slice_of("f"), weir_slice_of(text), &options, &config,
                                      &config_errors));
    assert_int_equal(warnings.count, WEIR_CONFIG_ERRORS_MAX);
    assert_int_equal(warnings.left_out, 1);
    unload(config);
}

TEST(a_file_with_a_mistake_has_no_warnings)
{
    struct weir_config *config = NULL;
    memory_init(&config_memory);
    struct weir_config_options options = {.allocator = &config_memory.allocator,
                                          .warnings = &warnings};
    assert_false(weir_config_load_text(
        weir_slice_of("f"), weir_slice_of(LISTEN "x: 1\nroutes: [{match: '/*', upstream: u}]\n"),
        &options, &config, &config_errors));
    assert_int_equal(warnings.count, 0);
    expect_no_memory_out(&config_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_that_looks_like_a_header_is_a_constant),
        cmocka_unit_test(a_key_that_is_the_name_of_a_part_is_a_constant),
        cmocka_unit_test(a_variable_without_braces_stays_as_it_is),
        cmocka_unit_test(a_star_in_a_match_stands_for_itself),
        cmocka_unit_test(a_file_inside_a_longer_argument_is_not_filled_in),
        cmocka_unit_test(a_header_that_no_caller_may_set_is_no_tenant),
        cmocka_unit_test(a_key_without_a_gate_has_no_effect),
        cmocka_unit_test(
            permits_of_the_api_that_have_a_lease_of_which_the_file_says_nothing_are_noted),
        cmocka_unit_test(a_gate_of_agents_without_a_limit_could_have_the_preset),
        cmocka_unit_test(two_routes_with_one_key_share_its_limit),
        cmocka_unit_test(one_address_can_be_opened_once),
        cmocka_unit_test(a_text_whose_variables_were_none_is_noted),
        cmocka_unit_test(warnings_are_counted_beyond_those_that_are_kept),
        cmocka_unit_test(a_file_with_a_mistake_has_no_warnings),
    };
    return cmocka_run_group_tests_name("config_warnings", tests, NULL, NULL);
}
