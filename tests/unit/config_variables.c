/* ${NAME} and ${NAME:-default} in every value but the commands of queues, and what is never shown
 * of what they stand for. */
#include "unit/config_helpers.h"

/* ---- what is filled in ---- */

TEST(a_variable_is_filled_in_wherever_there_is_a_value)
{
    USE_ENVIRONMENT("ADDRESS", "127.0.0.1:8080", "URL", "https://h:1", "LIMIT", "7", "WAIT", "90s",
                    "RATE", "5/s", "YES", "true", "NET", "10.0.0.0/8", "WORD", "most_room", "GATE",
                    "g", "HEADER", "header:X-T", "KEY", "{f}-x", "PATH_", "/f/{f}", "DATA", "/d",
                    "SIZE", "2KiB", "PRICE", "50%");
    struct weir_config *config =
        load("listen: ${ADDRESS}\ndata: \"${DATA}/${GATE}\"\ntrusted: [\"${NET}\"]\n"
             "upstreams: {u: {url: \"${URL}\"}}\n"
             "gates: {g: {limit: \"${LIMIT}\", line: {timeout: \"${WAIT}\"}, rate: \"${RATE}\",\n"
             "  early_reject: \"${YES}\", choice: \"${WORD}\"}}\n"
             "routes: [{match: \"${PATH_}\", key: \"${KEY}\", tenant: \"${HEADER}\",\n"
             "  gate: \"${GATE}\", upstream: u, max_body: \"${SIZE}\", llm: openai,\n"
             "  cache_read: \"${PRICE}\"}]\n");
    expect_slice(config->listen[0].address.host, "127.0.0.1");
    expect_slice(config->data, "/d/g");
    assert_int_equal(config->trusted[0].bits, 8);
    assert_true(config->upstreams[0].urls[0].tls);
    const struct weir_config_rules *rules = &config->gates[0].rules;
    assert_int_equal(rules->limit.start, 7);
    assert_int_equal(rules->line.timeout_ns, 90 * WEIR_NS_PER_SECOND);
    expect_rate(&rules->rate.start, 5, WEIR_NS_PER_SECOND);
    assert_true(rules->early_reject);
    assert_int_equal(rules->choice, WEIR_CHOICE_MOST_ROOM);
    const struct weir_config_route *route = &config->routes[0];
    expect_source(&route->tenant, WEIR_CONFIG_SOURCE_HEADER, "X-T");
    assert_int_equal(route->key_parts, 2);
    assert_int_equal(route->key[0].kind, WEIR_CONFIG_SOURCE_CAPTURE);
    assert_int_equal(route->body_bytes_max, 2048);
    assert_int_equal(route->cache_read_percent, 50);
    unload(config);
}

TEST(a_default_counts_where_a_variable_is_not_set_or_empty)
{
    USE_ENVIRONMENT("SET", "5", "EMPTY", "");
    struct weir_config *config =
        load(API "data: \"${NONE:-./d}${EMPTY:-}${NONE:-:-}\"\n"
                 "gates: {a: {limit: \"${SET:-1}\"}, b: {limit: \"${EMPTY:-2}\"}, c: {limit: "
                 "\"${NONE:-3}\"}}\n");
    expect_slice(config->data, "./d:-");
    assert_int_equal(config->gates[0].rules.limit.start, 5);
    assert_int_equal(config->gates[1].rules.limit.start, 2);
    assert_int_equal(config->gates[2].rules.limit.start, 3);
    unload(config);
    expect_errors(API "gates: {a: {limit: \"${NONE}\"}}\n",
                  "weir.yaml:2:20: gates.a.limit needs ${NONE}, which is not set; expected it in "
                  "the environment of weir\n");
    expect_errors(API "gates: {a: {limit: \"${NONE:-}\"}}\n",
                  "weir.yaml:2:20: gates.a.limit is \"\"; expected a whole number from 1 to "
                  "10000000, none, or {start, min, max}\n");
    expect_errors(API "data: \"${:-x}\"\n",
                  "weir.yaml:2:7: data has a ${...} without a name; expected ${NAME} or "
                  "${NAME:-default}, with a name of letters, digits and _; write $${ for a ${ that "
                  "is meant as it stands\n");
}

TEST(what_is_filled_in_is_never_parsed_again)
{
    USE_ENVIRONMENT("YAML", "{limit: 1}, b: [x] # ${YAML} \"'", "N", "N");
    struct weir_config *config = load(API "data: ${YAML}\nevents: {file: \"$${N}$$${N}\"}\n");
    expect_slice(config->data, "{limit: 1}, b: [x] # ${YAML} \"'");
    expect_slice(config->events.file, "${N}$${N}");
    unload(config);
}

TEST(names_and_commands_keep_their_braces)
{
    USE_ENVIRONMENT("HOME", "/root", "N", "name");
    struct weir_config *config = load(API "queues: {q: {run: [sh, -c, 'echo ${HOME} $${N}']}}\n"
                                          "tenants: {'${N}': {priority: low}}\n");
    expect_slice(config->queues[0].run[2], "echo ${HOME} $${N}");
    expect_slice(config->tenants[0].name, "${N}");
    unload(config);
}

TEST(a_written_out_token_is_no_default)
{
    expect_errors(API "api_tokens: {t: {token: '${T:-0123456789abcdef}', scopes: [read]}}\n",
                  "weir.yaml:2:25: api_tokens.t.token is written out; expected a variable such as "
                  "${WEIR_TOKEN}, or file: with the path of a file, so that this file holds no "
                  "secret\n");
}

/* ---- bounds ---- */

/* A text of so many bytes. */
static const char *long_value(void *context, const char *name)
{
    static char text[8194];
    size_t bytes = *(const size_t *)context;
    (void)name;
    memset(text, 'x', bytes);
    text[bytes] = '\0';
    return text;
}

static bool load_long(const char *text, size_t bytes)
{
    struct weir_config *config = NULL;
    struct weir_config_options options = {.lookup = long_value, .lookup_context = &bytes};
    bool good = weir_config_load_text(weir_slice_of("f"), weir_slice_of(text), &options, &config,
                                      &config_errors);
    weir_config_destroy(config);
    return good;
}

TEST(a_value_has_up_to_8192_bytes)
{
    assert_true(load_long(API "data: ${A}\n", 8191));
    assert_true(load_long(API "data: ${A}\n", 8192));
    assert_false(load_long(API "data: ${A}\n", 8193));
    assert_string_equal(config_errors.list[0].text,
                        "f:2:7: data is too long; expected at most 8192 bytes");
    assert_false(load_long(API "data: ${A}x\n", 8192));
}

TEST(all_values_together_have_up_to_as_much_as_a_file)
{
    static char text[8192];
    int length = snprintf(text, sizeof text, "%stenants: {a: {models: [", API);
    for (int i = 0; i < 128; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length, "'${A}',");
    }
    snprintf(text + length, sizeof text - (size_t)length, "]}, b: {models: ['${A}']}}\n");
    assert_false(load_long(text, 8192));
    assert_int_equal(config_errors.count, WEIR_CONFIG_ERRORS_MAX); /* each is no model */
    assert_null(strstr(config_errors.list[0].text, "xxx"));
    bool told = false;
    snprintf(text + length, sizeof text - (size_t)length, "]}, b: {tokens_per_day: '${A}'}}\n");
    for (size_t bytes = 8191; bytes <= 8192; bytes++) {
        assert_false(load_long(text, bytes));
    }
    for (uint32_t i = 0; i < config_errors.count; i++) {
        told = told || strstr(config_errors.list[i].text, "together") != NULL;
    }
    assert_true(told);
}

TEST(a_line_end_from_the_environment_is_refused)
{
    USE_ENVIRONMENT("N", "a\nb");
    expect_errors(API "data: ${N}\n",
                  "weir.yaml:2:7: data has a control character once its variables are filled in; "
                  "expected printable characters on one line\n");
}

/* ---- what is never shown ---- */

#define SECRET "s3cret"

TEST(mistakes_do_not_show_what_the_environment_says)
{
    USE_ENVIRONMENT("S", SECRET, "NUMBER", "30", "LARGE", "5");
    expect_errors(
        API "gates: {g: {limit: '${S}', lease: '${NUMBER}', line: {status: '${S}'}}, h: {limit: "
            "{start: '${LARGE}', max: 4}}}\n"
            "trusted: ['${S}']\nupstreams: {u: {url: '${S}'}}\n"
            "routes: [{match: '${S}', upstream: '${S}'}]\n",
        "weir.yaml:2:20: gates.g.limit is not right (and not shown); expected a whole number from "
        "1 to 10000000, none, or {start, min, max}\n"
        "weir.yaml:2:35: gates.g.lease is not right (and not shown); expected a duration such as "
        "250ms, 5s, 1m30s, 2h or 7d, or none\n"
        "weir.yaml:2:63: gates.g.line.status is not right (and not shown); expected 429 or 503\n"
        "weir.yaml:2:84: gates.h.limit is out of order; expected min <= start <= max\n"
        "weir.yaml:3:11: trusted[0] is not right (and not shown); expected an address or network "
        "such as 10.0.0.0/8 or ::1, or unix\n"
        "weir.yaml:4:22: upstreams.u.url is not right (and not shown); expected http://host:port, "
        "https://host:port or unix:/path\n"
        "weir.yaml:5:9: routes lead nowhere without listen; expected an address to listen on\n"
        "weir.yaml:5:18: routes[0].match is not right (and not shown); expected a path that starts "
        "with /\n"
        "weir.yaml:5:36: routes[0].upstream is not right (and not shown); expected the name of an "
        "upstream that stands under upstreams\n");
}

/* Loads it, prints it, and expects that what is printed has the text, no secret, and can be loaded
 * and printed again. */
static void expect_printed(const char *text, const char *const *pairs, const char *expected)
{
    environment = pairs;
    struct weir_config *config = load(text);
    char *first = print(config);
    unload(config);
    if (strstr(first, expected) == NULL || strstr(first, SECRET) != NULL) {
        fail_msg("expected %s, and no secret, in:\n%s", expected, first);
    }
    environment = pairs;
    config = load(first);
    char *second = print(config);
    unload(config);
    assert_string_equal(first, second);
    free(first);
    free(second);
}

TEST(what_is_printed_has_the_variable_where_the_environment_filled_in)
{
    static const char *const pairs[] = {"HOST",           SECRET, "N",   "5", "T",
                                        "header:" SECRET, "W",    "60s", NULL};
    expect_printed("listen: \"${HOST}:80\"\n", pairs, "listen:\n  \"${HOST}:80\"\n");
    expect_printed("listen: {half_close: keep, address: \"${HOST}:80\"}\n", pairs,
                   "  - {address: \"${HOST}:80\", half_close: keep, ");
    expect_printed("listen: [127.0.0.1:1, \"${HOST}:80\"]\n", pairs, "  - \"${HOST}:80\"\n");
    expect_printed(API "upstreams: {u: {url: \"http://${HOST}\"}}\n", pairs,
                   "    url:\n      \"http://${HOST}\"\n");
    expect_printed(API "upstreams: {u: {url: [http://a, \"http://${HOST}\"]}}\n", pairs,
                   "      - \"http://a:80\"\n      - \"http://${HOST}\"\n");
    expect_printed(API "events: {file: \"a \\\"${HOST}\\\\\"}\n", pairs,
                   "  file: \"a \\\"${HOST}\\\\\"\n");
    expect_printed(LISTEN
                   "routes: [{match: /, upstream: u, tenant: \"${T}\", key: \"${N}{tenant}\"}]"
                   "\n",
                   pairs, "    key: \"${N}{tenant}\"\n    tenant: \"${T}\"\n");
    expect_printed(API "data: '$${HOST}'\n", pairs, "data: \"$${HOST}\"\n");
    expect_printed(API "data: '${NOT:-é}/${HOST}'\n", pairs, "data: \"${NOT:-é}/${HOST}\"\n");
}

TEST(what_started_from_such_a_value_is_printed_so_too)
{
    static const char *const pairs[] = {"L", "17", "W", "77s", "R", "13/s", NULL};
    expect_printed(API
                   "gates: {g: {limit: '${L}', line: {timeout: '${W}'}, keys: {a: {limit: 3}, b: "
                   ", c: {limit: '${L}'}}}}\n",
                   pairs, "    limit: \"${L}\"\n");
    environment = pairs;
    struct weir_config *config =
        load(API "gates: {g: {limit: '${L}', line: {timeout: '${W}'}, keys: {a: {limit: 3}, b: },\n"
                 "  tenants: {default: {limit: '${L}'}, x: {weight: 2}, y: {rate: '${R}'}}}}\n"
                 "queues: {q: {tenants: {default: {rate: '${R}'}, x: {weight: 2}}}}\n"
                 "tenants: {default: {tokens_per_day: '${L}'}, z: {priority: low}}\n");
    char *text = print(config);
    unload(config);
    assert_null(strstr(text, "17"));
    assert_null(strstr(text, "77s"));
    assert_null(strstr(text, "1m17s"));
    assert_null(strstr(text, "13/s"));
    assert_non_null(strstr(text, "        limit: 3\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_is_filled_in_wherever_there_is_a_value),
        cmocka_unit_test(a_default_counts_where_a_variable_is_not_set_or_empty),
        cmocka_unit_test(what_is_filled_in_is_never_parsed_again),
        cmocka_unit_test(names_and_commands_keep_their_braces),
        cmocka_unit_test(a_written_out_token_is_no_default),
        cmocka_unit_test(a_value_has_up_to_8192_bytes),
        cmocka_unit_test(all_values_together_have_up_to_as_much_as_a_file),
        cmocka_unit_test(a_line_end_from_the_environment_is_refused),
        cmocka_unit_test(mistakes_do_not_show_what_the_environment_says),
        cmocka_unit_test(what_is_printed_has_the_variable_where_the_environment_filled_in),
        cmocka_unit_test(what_started_from_such_a_value_is_printed_so_too),
    };
    return cmocka_run_group_tests_name("config_variables", tests, NULL, NULL);
}
