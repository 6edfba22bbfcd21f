/* Mistakes by their number: how many of everything there may be, how many are told, and what is
 * suggested. */
#include "unit/config_helpers.h"

#include "config/suggest.h"

/* ---- how many there may be ---- */

/* HEAD, then the item `count` times with its number for each #, then TAIL. */
static char *repeat(const char *head, const char *item, uint32_t count, const char *tail)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    fputs(head, out);
    for (uint32_t i = 0; i < count; i++) {
        for (const char *at = item; *at != '\0'; at++) {
            if (*at == '#') {
                fprintf(out, "%u", i);
            } else {
                fputc(*at, out);
            }
        }
    }
    fputs(tail, out);
    fclose(out);
    return text;
}

TEST(there_are_bounds_on_how_many_of_everything)
{
    static const struct {
        uint32_t most;
        const char *head;
        const char *item;
        const char *tail;
        const char *complaint;
    } cases[] = {
        {16, "api: [", "127.0.0.1:#, ", "]\n", "api has 17 addresses; expected 1 to 16"},
        {256, API "trusted: [", "10.0.0.0/8, ", "]\n",
         "trusted has 257 entries; expected at most 256"},
        {1024, API "upstreams: {", "u#: {url: http://h}, ", "}\n",
         "upstreams has 1025 entries; expected at most 1024"},
        {64, API "upstreams: {a: {url: [", "http://h#, ", "]}}\n",
         "upstreams.a.url has 65 urls; expected 1 to 64"},
        {64, API "upstreams: {a: {url: http://h, headers: {", "X-#: y, ", "}}}\n",
         "upstreams.a.headers has 65 entries; expected at most 64"},
        {1000, API "upstreams: {a: {url: http://h, models: {", "m#: y, ", "}}}\n",
         "upstreams.a.models has 1001 entries; expected at most 1000"},
        {1024, API "gates: {", "g#: , ", "}\n", "gates has 1025 entries; expected at most 1024"},
        {10000, API "gates: {a: {tenants: {", "t#: , ", "}}}\n",
         "gates.a.tenants has 10001 entries; expected at most 10000"},
        {10000, API "gates: {a: {keys: {", "k#: , ", "}}}\n",
         "gates.a.keys has 10001 entries; expected at most 10000"},
        {4096, LISTEN "routes: [", "{match: /r#, upstream: u}, ", "]\n",
         "routes has 4097 entries; expected at most 4096"},
        {256, API "queues: {", "q#: , ", "}\n", "queues has 257 entries; expected at most 256"},
        {64, API "queues: {q: {run: [", "x, ", "]}}\n",
         "queues.q.run has 65 entries; expected at most 64"},
        {256, API "queues: {q: {environment: {", "V#: x, ", "}}}\n",
         "queues.q.environment has 257 entries; expected at most 256"},
        {10000, API "queues: {q: {tenants: {", "t#: , ", "}}}\n",
         "queues.q.tenants has 10001 entries; expected at most 10000"},
        {16, API "protocol: [", "127.0.0.1:#, ", "]\n",
         "protocol has 17 addresses; expected 1 to 16"},
        {1024, API "api_tokens: {", "t#: {file: /f, scopes: [read]}, ", "}\n",
         "api_tokens has 1025 entries; expected at most 1024"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (uint32_t count = cases[i].most - 1; count <= cases[i].most + 1; count++) {
            char *text = repeat(cases[i].head, cases[i].item, count, cases[i].tail);
            if (count <= cases[i].most) {
                unload(load(text));
            } else {
                const struct weir_config_errors *errors = load_bad(text);
                if (errors->count != 1 ||
                    strstr(errors->list[0].text, cases[i].complaint) == NULL) {
                    fail_msg("%s: %s", cases[i].complaint, errors->list[0].text);
                }
            }
            free(text);
        }
    }
}

TEST(a_route_has_up_to_64_lanes)
{
    for (uint32_t count = 63; count <= 65; count++) {
        char *upstreams =
            repeat("listen: 127.0.0.1:1\nupstreams: {", "u#: {url: http://h}, ", count, "}\n");
        char *text = repeat(upstreams, "", 0, "routes: [{match: /, upstream: [");
        char *whole = repeat(text, "u#, ", count, "]}]\n");
        if (count <= 64) {
            unload(load(whole));
        } else {
            expect_errors(whole, "weir.yaml:3:31: routes[0].upstream has 65 upstreams; expected 1 "
                                 "to 64\n");
        }
        free(upstreams);
        free(text);
        free(whole);
    }
}

TEST(names_and_constants_have_up_to_255_bytes)
{
    static const struct {
        const char *head;
        const char *tail;
    } forms[] = {{API "gates: {a: {keys: {", ": }}}\n"},
                 {API "gates: {a: {tenants: {", ": }}}\n"},
                 {LISTEN "routes: [{match: /, upstream: u, key: ", "}]\n"},
                 {LISTEN "routes: [{match: /, upstream: u, tenant: ", "}]\n"},
                 {LISTEN "routes: [{match: /, upstream: u, llm: openai, key: '{model}', "
                         "default_key: ",
                  "}]\n"},
                 {API "upstreams: {u: {url: http://u, models: {", ": x}}}\n"},
                 {API "upstreams: {u: {url: http://u, models: {x: ", "}}}\n"},
                 {API "api_tokens: {t: {file: f, scopes: [read], tenant: ", "}}\n"}};
    static const char *const complaints[] = {
        "has a name of 256 bytes; expected 1 to 255",
        "has a name of 256 bytes; expected 1 to 255",
        "routes[0].key has 256 bytes; expected at most 255",
        "routes[0].tenant has 256 bytes; expected at most 255",
        "routes[0].default_key has 256 bytes; expected at most 255",
        "has a name of 256 bytes; expected 1 to 255",
        "upstreams.u.models.x has 256 bytes; expected at most 255",
        "api_tokens.t.tenant has 256 bytes; expected 1 to 255"};
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        for (size_t bytes = 254; bytes <= 256; bytes++) {
            char name[257];
            memset(name, 'k', bytes);
            name[bytes] = '\0';
            char *text = repeat(forms[i].head, name, 1, forms[i].tail);
            if (bytes <= 255) {
                unload(load(text));
            } else {
                assert_non_null(strstr(load_bad(text)->list[0].text, complaints[i]));
            }
            free(text);
        }
    }
}

TEST(a_filled_in_value_has_up_to_8192_bytes)
{
    static char value[8200];
    static const char *const pairs[] = {"LONG", value, NULL};
    for (size_t bytes = 8190; bytes <= 8192; bytes++) {
        memset(value, 'v', sizeof value);
        value[bytes] = '\0';
        environment = pairs;
        static const char text[] =
            API "upstreams: {a: {url: http://h, headers: {A: \"x${LONG}\"}}}\n";
        if (bytes + 1 <= 8192) {
            struct weir_config *config = load(text);
            assert_int_equal(config->upstreams[0].headers[0].value.bytes, bytes + 1);
            unload(config);
        } else {
            expect_errors(text, "weir.yaml:2:45: upstreams.a.headers.A is too long; expected at "
                                "most 8192 bytes\n");
        }
    }
}

/* ---- the list of mistakes ---- */

TEST(twenty_mistakes_are_told_and_the_others_counted)
{
    for (uint32_t count = 19; count <= 40; count += 7) {
        char *text = repeat(API "gates:\n", "  g#: {limit: x}\n", count, "");
        const struct weir_config_errors *errors = load_bad(text);
        assert_int_equal(errors->count, count > 20 ? 20 : count);
        assert_int_equal(errors->left_out, count > 20 ? count - 20 : 0);
        free(text);
    }
}

TEST(mistakes_are_told_in_the_order_of_the_file)
{
    const struct weir_config_errors *errors =
        load_bad("routes: [{match: x, upstream: u}]\nzzz: 1\ngates: {a: {limit: x}}\nthreads: 0\n"
                 "listen: x\nthreads: 0\n");
    assert_int_equal(errors->count, 7);
    for (uint32_t i = 1; i < errors->count; i++) {
        assert_true(errors->list[i - 1].line <= errors->list[i].line);
    }
    assert_int_equal(errors->list[0].line, 1);
    assert_int_equal(errors->list[0].column, 18);
    assert_int_equal(errors->list[6].line, 6);
}

TEST(a_long_name_of_a_file_loses_its_beginning)
{
    char name[300];
    struct weir_config_errors errors = {.count = 0};
    memset(name, 'a', sizeof name);
    memcpy(name + sizeof name - 5, ".yaml", 5);
    errors.file = (struct weir_slice){name, sizeof name};
    weir_config_errors_add(&errors, 3, 4, "x");
    weir_config_errors_add(&errors, 0, 0, "x");
    assert_memory_equal(errors.list[0].text, "...aaa", 6);
    assert_string_equal(errors.list[0].text + 3 + 200 - 5, ".yaml:3:4: x");
    assert_string_equal(errors.list[1].text + 3 + 200 - 5, ".yaml: x");
}

TEST(a_long_message_is_cut)
{
    struct weir_config_errors errors = {.count = 0};
    char text[2000];
    memset(text, 'a', sizeof text);
    for (size_t bytes = WEIR_CONFIG_ERROR_BYTES_MAX - 4; bytes < WEIR_CONFIG_ERROR_BYTES_MAX;
         bytes++) {
        weir_config_errors_add(&errors, 0, 0, "%.*s", (int)bytes, text);
    }
    /* The place is ": ", and a zero ends it. */
    assert_int_equal(strlen(errors.list[0].text), WEIR_CONFIG_ERROR_BYTES_MAX - 2);
    assert_int_equal(strlen(errors.list[1].text), WEIR_CONFIG_ERROR_BYTES_MAX - 1);
    assert_string_equal(errors.list[1].text + WEIR_CONFIG_ERROR_BYTES_MAX - 4, "aaa");
    assert_string_equal(errors.list[2].text + WEIR_CONFIG_ERROR_BYTES_MAX - 4, "...");
    assert_string_equal(errors.list[3].text + WEIR_CONFIG_ERROR_BYTES_MAX - 4, "...");
}

TEST(what_is_shown_of_a_text_cannot_do_harm)
{
    assert_string_equal(weir_show(weir_slice_of("plain \xc3\xa4")).text, "plain \xc3\xa4");
    assert_string_equal(weir_show(weir_slice_of("a\x1b[31m\n\x7f")).text, "a\\x1b[31m\\x0a\\x7f");
    assert_string_equal(weir_show(weir_slice_of("\xc2\x9b"
                                                "1\xc2\xa0"))
                            .text,
                        "\\xc2\\x9b1\xc2\xa0");
    assert_string_equal(weir_show((struct weir_slice){"a\0b", 3}).text, "a\\x00b");
    assert_string_equal(weir_show((struct weir_slice){NULL, 0}).text, "");
    char *half = malloc(1);
    assert_non_null(half);
    *half = '\xc2';
    assert_string_equal(weir_show((struct weir_slice){half, 1}).text, "\xc2");
    free(half);
    /* Whatever the length, it fits, and is cut between characters only. */
    char text[256];
    for (size_t lead = 0; lead < 4; lead++) {
        for (size_t bytes = 0; bytes < 200; bytes++) {
            for (size_t i = 0; i < bytes; i++) {
                text[i] = i < lead ? 'a' : "\xe2\x82\xac"[(i - lead) % 3];
            }
            if (bytes > lead && (bytes - lead) % 3 != 0) {
                continue;
            }
            struct weir_shown shown = weir_show((struct weir_slice){text, bytes});
            size_t length = strlen(shown.text);
            assert_true(length < sizeof shown.text);
            bool cut = length != bytes || memcmp(shown.text, text, bytes) != 0;
            size_t kept = cut ? length - 3 : length;
            assert_memory_equal(shown.text, text, kept);
            assert_true(kept <= lead || (kept - lead) % 3 == 0);
            assert_true(!cut || strcmp(shown.text + kept, "...") == 0);
        }
    }
    memset(text, '\n', sizeof text);
    assert_true(strlen(weir_show((struct weir_slice){text, sizeof text}).text) < 64);
}

/* ---- suggestions ---- */

static const char *suggest(const char *word, const char *const *candidates)
{
    static char best[WEIR_SUGGEST_BYTES_MAX + 1];
    struct weir_suggestion suggestion = weir_suggestion_for(weir_slice_of(word));
    for (; *candidates != NULL; candidates++) {
        weir_suggestion_offer(&suggestion, weir_slice_of(*candidates));
    }
    snprintf(best, sizeof best, "%.*s", (int)suggestion.best.bytes, suggestion.best.data);
    return best;
}

TEST(the_nearest_word_is_suggested_if_it_is_near_enough)
{
    static const char *const words[] = {"limit", "line", "lease", "upstreams", "priority", NULL};
    static const struct {
        const char *word;
        const char *best;
    } cases[] = {{"limt", "limit"},
                 {"ilmit", "limit"},
                 {"linee", "line"},
                 {"limits", "limit"},
                 {"lmiit", "limit"},
                 {"lomit", "limit"},
                 {"LIMIT", "limit"},
                 {"limt_", ""},
                 {"lin", "line"},
                 {"lease", "lease"},
                 {"leaes", "lease"},
                 {"lea", "lease"},
                 {"prio", "priority"},
                 {"pr", ""},
                 {"upstram", "upstreams"},
                 {"upstraems", "upstreams"},
                 {"usptraems", "upstreams"},
                 {"upxyzeams", "upstreams"},
                 {"uxyzzeams", ""},
                 {"zzz", ""},
                 {"", ""}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (strcmp(suggest(cases[i].word, words), cases[i].best) != 0) {
            fail_msg("%s: %s", cases[i].word, suggest(cases[i].word, words));
        }
    }
    static const char *const ties[] = {"ab", "ac", "a", NULL};
    assert_string_equal(suggest("ad", ties), "ab");
    assert_string_equal(suggest("ac", ties), "ac");
}

TEST(long_words_get_no_suggestion)
{
    char word[WEIR_SUGGEST_BYTES_MAX + 2];
    char other[WEIR_SUGGEST_BYTES_MAX + 2];
    const char *const candidates[] = {other, NULL};
    for (size_t bytes = WEIR_SUGGEST_BYTES_MAX - 1; bytes <= WEIR_SUGGEST_BYTES_MAX + 1; bytes++) {
        memset(word, 'a', bytes);
        word[bytes] = '\0';
        memcpy(other, word, sizeof word);
        other[3] = 'b';
        const char *best = suggest(word, candidates);
        assert_string_equal(best, bytes <= WEIR_SUGGEST_BYTES_MAX ? other : "");
    }
}

TEST(a_prefix_is_the_plain_beginning_of_a_path)
{
    static const char *const wrong[] = {"openai", "/",     "/a/",  "//a",  "/a//b",
                                        "/..",    "/a/.b", "/a b", "/%41", "/a?b"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[256];
        char expected[256];
        snprintf(text, sizeof text, API "upstreams: { a: { url: http://a, prefix: '%s' } }\n",
                 wrong[i]);
        snprintf(expected, sizeof expected,
                 "weir.yaml:2:42: upstreams.a.prefix is \"%s\"; expected the beginning of a path, "
                 "such as /openai, without a slash at its end, of at most 255 bytes\n",
                 wrong[i]);
        expect_errors(text, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_are_bounds_on_how_many_of_everything),
        cmocka_unit_test(a_route_has_up_to_64_lanes),
        cmocka_unit_test(names_and_constants_have_up_to_255_bytes),
        cmocka_unit_test(a_filled_in_value_has_up_to_8192_bytes),
        cmocka_unit_test(twenty_mistakes_are_told_and_the_others_counted),
        cmocka_unit_test(mistakes_are_told_in_the_order_of_the_file),
        cmocka_unit_test(a_long_name_of_a_file_loses_its_beginning),
        cmocka_unit_test(a_long_message_is_cut),
        cmocka_unit_test(what_is_shown_of_a_text_cannot_do_harm),
        cmocka_unit_test(the_nearest_word_is_suggested_if_it_is_near_enough),
        cmocka_unit_test(long_words_get_no_suggestion),
        cmocka_unit_test(a_prefix_is_the_plain_beginning_of_a_path),
    };
    return cmocka_run_group_tests_name("config_errors_list", tests, NULL, NULL);
}
