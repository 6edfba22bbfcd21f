#include "proxy/request_path.h"

#include "base/slice.h"
#include "config/config.h"
#include "llm/llm_filter.h"
#include "unit/wire.h"
#include "wire/path.h"

#define PATH_BYTES_MAX 64
#define NO_ROUTE       UINT32_MAX

/* ---- a config of routes ---- */

#define TOP(paths)                                         \
    "listen: {address: '127.0.0.1:0', paths: " paths "}\n" \
    "upstreams: {u: {url: 'http://127.0.0.1:1'}}\n"        \
    "routes:\n"
#define TO(match) "  - {match: '" match "', upstream: u}\n"

static struct weir_config *load(const char *text)
{
    struct weir_config_options options = {0};
    struct weir_config_errors errors;
    struct weir_config *config;
    if (!weir_config_load_text(weir_slice_of("weir.yaml"), weir_slice_of(text), &options, &config,
                               &errors)) {
        fail_msg("the config of the test is not accepted");
    }
    return config;
}

/* ---- one request ---- */

static const char *plain_paths; /* of the routes */

struct outcome {
    const char *wrong;
    uint32_t route; /* NO_ROUTE: none matches, so nothing goes to an upstream */
    struct weir_match match;
    char path[PATH_BYTES_MAX]; /* as it goes to the upstream */
};

/* The path of a request between other bytes, which must stay as they are. */
static struct outcome outcome_of(const struct weir_config *config, const char *path)
{
    static char data[PATH_BYTES_MAX + 8];
    uint16_t bytes = (uint16_t)strlen(path);
    struct weir_http1_head head = {.path = {4, bytes},
                                   .has_query = true,
                                   .query = {(uint16_t)(4 + bytes + 1), 3},
                                   .target = {4, (uint16_t)(bytes + 4)}};
    struct outcome outcome = {.route = NO_ROUTE};
    struct weir_request_path settled;
    snprintf(data, sizeof data, "GET %s?%%61", path);
    outcome.wrong = weir_request_path_settle(&settled, config->listen[0].paths, &head, data);
    assert_memory_equal(data, "GET ", 4);
    assert_string_equal(data + 4 + bytes, "?%61");
    assert_int_equal(head.path.at + head.path.bytes, 4 + bytes);
    assert_int_equal(head.target.at, head.path.at);
    assert_int_equal(head.target.bytes, head.path.bytes + 4);
    struct weir_slice text = weir_http1_slice(data, head.path);
    if (outcome.wrong == NULL && weir_matcher_find(config->matcher, text, &outcome.match)) {
        outcome.wrong =
            weir_request_path_objection(&settled, config, text, &outcome.match, plain_paths);
        outcome.route = outcome.match.route;
    }
    memcpy(outcome.path, text.data, text.bytes);
    outcome.path[text.bytes] = '\0';
    return outcome;
}

static void expect_sent(const struct weir_config *config, const char *path, uint32_t route,
                        const char *sent)
{
    struct outcome outcome = outcome_of(config, path);
    if (outcome.wrong != NULL || outcome.route != route || strcmp(outcome.path, sent) != 0) {
        fail_msg("%s: %s, route %u, sent as %s", path,
                 outcome.wrong == NULL ? "passed" : outcome.wrong, outcome.route, outcome.path);
    }
}

static void expect_objection(const struct weir_config *config, const char *path, const char *word)
{
    struct outcome outcome = outcome_of(config, path);
    if (outcome.wrong == NULL || strstr(outcome.wrong, word) == NULL) {
        fail_msg("%s: %s, route %u", path, outcome.wrong == NULL ? "passed" : outcome.wrong,
                 outcome.route);
    }
}

TEST(slashes_and_needless_escapes_are_rewritten_before_the_route_is_chosen)
{
    struct weir_config *config = load(TOP("normalize") TO("/") TO("/expensive"));
    expect_sent(config, "/expensive/run", 1, "/expensive/run");
    expect_sent(config, "//expensive/run", 1, "/expensive/run");
    expect_sent(config, "////expensive///run//", 1, "/expensive/run/");
    expect_sent(config, "/%65xpensive/run", 1, "/expensive/run");
    expect_sent(config, "/%65%78pensive", 1, "/expensive");
    expect_sent(config, "/%7Euser/%c3%BC%20", 0, "/~user/%c3%BC%20");
    expect_sent(config, "/%2561xpensive", 0, "/%2561xpensive");
    expect_sent(config, "//", 0, "/");
    expect_sent(config, "", NO_ROUTE, "");
    weir_config_destroy(config);
}

TEST(parameters_pass_where_no_route_depends_on_them)
{
    struct weir_config *config =
        load(TOP("normalize") TO("/") TO("/expensive") TO("/app/index") TO("/f/{function}/run"));
    expect_sent(config, "/page;jsessionid=1", 0, "/page;jsessionid=1");
    expect_sent(config, "/;jsessionid=1", 0, "/;jsessionid=1");
    expect_sent(config, "/expensive/a;x/b;y=z", 1, "/expensive/a;x/b;y=z");
    expect_sent(config, "/expensive//a%3Bx", 1, "/expensive/a%3Bx");
    expect_sent(config, "/f/a/run/;x", 3, "/f/a/run/;x");
    expect_objection(config, "/expensive;x/run", "another route's");
    expect_objection(config, "/expensive%3bx/run", "another route's");
    expect_objection(config, "/expensive;x", "another route's");
    expect_objection(config, "/app;x/index;y", "another route's");
    expect_objection(config, "/;/expensive", "nothing but parameters");
    expect_objection(config, "/a;x/;y", "nothing but parameters");
    expect_objection(config, "/..;/expensive", "dot segment");
    expect_objection(config, "/%2e%2E;x/expensive", "dot segment");
    expect_objection(config, "/.%2e%3b/expensive", "dot segment");
    expect_objection(config, "/f/a;x/run", "captures");
    expect_objection(config, "/f/a%3Bx/run", "captures");
    weir_config_destroy(config);
}

TEST(an_escaped_delimiter_leads_past_no_route_that_has_it)
{
    static const char *const tops[] = {TOP("normalize"), TOP("refuse"), TOP("keep")};
    for (size_t i = 0; i < COUNT_OF(tops); i++) {
        char text[512];
        snprintf(text, sizeof text, "%s" TO("/") TO("/m:run") TO("/k/{name}"), tops[i]);
        struct weir_config *config = load(text);
        expect_sent(config, "/m:run", 1, "/m:run");
        expect_objection(config, "/m%3Arun", "another route's");
        expect_sent(config, "/n%3Arun", 0, "/n%3Arun");
        expect_sent(config, "/k/a%3Ab", 2, "/k/a%3Ab");
        weir_config_destroy(config);
    }
}

TEST(refuse_refuses_what_normalize_would_rewrite)
{
    struct weir_config *config = load(TOP("refuse") TO("/") TO("/expensive"));
    expect_sent(config, "/expensive/run/", 1, "/expensive/run/");
    expect_sent(config, "/%c3%BC%20", 0, "/%c3%BC%20");
    expect_objection(config, "//expensive", "paths: refuse");
    expect_objection(config, "/a;x", "paths: refuse");
    expect_objection(config, "/a%3Bx", "paths: refuse");
    expect_objection(config, "/%61", "paths: refuse");
    expect_objection(config, "/../a", "dot segment");
    weir_config_destroy(config);
}

TEST(keep_leaves_slashes_and_parameters_alone)
{
    struct weir_config *config =
        load(TOP("keep") TO("/") TO("/expensive") TO("/fetch/{scheme}") TO("/v;1"));
    expect_sent(config, "//expensive", 0, "//expensive");
    expect_sent(config, "/fetch/https://host//a", 2, "/fetch/https://host//a");
    expect_sent(config, "/expensive;x", 0, "/expensive;x");
    expect_sent(config, "/;x/a", 0, "/;x/a");
    expect_sent(config, "/v;1/a", 3, "/v;1/a");
    expect_sent(config, "//%65xpensive", 0, "//expensive");
    expect_objection(config, "/v%3b1/a", "another route's");
    expect_objection(config, "/..;/a", "dot segment");
    expect_objection(config, "/a%2fb", "%2F");
    weir_config_destroy(config);
}

TEST(a_path_longer_than_any_request_line_is_refused_where_its_readings_are_compared)
{
    static char data[9000];
    struct weir_config *config = load(TOP("normalize") TO("/"));
    for (uint16_t bytes = 8191; bytes <= 8193; bytes++) {
        memset(data, 'a', sizeof data);
        data[0] = '/';
        data[bytes - 1] = ';';
        struct weir_http1_head head = {.path = {0, bytes}, .target = {0, bytes}};
        struct weir_request_path path;
        struct weir_match match;
        struct weir_slice text = {data, bytes};
        assert_null(weir_request_path_settle(&path, WEIR_CONFIG_PATHS_NORMALIZE, &head, data));
        assert_true(weir_matcher_find(config->matcher, text, &match));
        bool refused = weir_request_path_objection(&path, config, text, &match, NULL) != NULL;
        assert_int_equal(refused, bytes > 8192);
    }
    weir_config_destroy(config);
}

TEST(calls_of_an_llm_have_no_parameters)
{
    struct weir_config *config =
        load(TOP("normalize") "  - {match: '/', upstream: u, llm: openai}\n");
    plain_paths = weir_llm_filter.plain_paths;
    expect_sent(config, "//v1//chat/completion%73", 0, "/v1/chat/completions");
    expect_objection(config, "/v1/chat/completions;x", "LLM");
    plain_paths = NULL;
    expect_sent(config, "/v1/chat/completions;x", 0, "/v1/chat/completions;x");
    weir_config_destroy(config);
}

TEST(where_a_match_has_a_parameter_only_kept_paths_may_have_one)
{
    struct weir_config *config = load("listen:\n"
                                      "  - {address: '127.0.0.1:0'}\n"
                                      "  - {address: '127.0.0.1:0', paths: keep}\n"
                                      "upstreams: {u: {url: 'http://127.0.0.1:1'}}\n"
                                      "routes:\n" TO("/") TO("/a;x"));
    expect_objection(config, "/a;x", "paths: keep");
    expect_objection(config, "/b;x", "paths: keep");
    expect_sent(config, "/a", 0, "/a");
    weir_config_destroy(config);
}

/* ---- every path, as every upstream reads it ---- */

/* How an upstream reads a path. Written without a look at the program's own functions. */
struct upstream {
    bool decodes;
    bool decodes_first; /* and only then looks for slashes and parameters */
    bool merges;
    enum {
        DROPS_NONE,
        DROPS_ALL,
        DROPS_LAST, /* of the last segment only, as RFC 2396's forerunners had it */
        DROPS_FIRST
    } drops;
};

static void decode(char *text)
{
    char *to = text;
    for (; *text != '\0'; text++) {
        if (*text == '%') {
            char digits[3] = {text[1], text[2], '\0'};
            *to++ = (char)strtol(digits, NULL, 16);
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

static void drop_parameters(char *text, const struct upstream *upstream)
{
    char *to = text;
    bool dropping = false, dropped = false;
    const char *last = strrchr(text, '/');
    for (char *from = text; *from != '\0'; from++) {
        bool wanted = upstream->drops == DROPS_ALL ||
                      (upstream->drops == DROPS_LAST && from > last) ||
                      (upstream->drops == DROPS_FIRST && !dropped);
        if (*from == '/') {
            dropped = dropped || dropping;
            dropping = false;
        } else if (*from == ';' && wanted) {
            dropping = true;
        }
        if (!dropping) {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static void merge_slashes(char *text)
{
    char *to = text;
    for (char *from = text; *from != '\0'; from++) {
        if (!(*from == '/' && to > text && to[-1] == '/')) {
            *to++ = *from;
        }
    }
    *to = '\0';
}

/* Takes "." and ".." away, as every file server does. */
static void resolve_dots(char *text)
{
    char *to = text;
    for (char *from = text; *from != '\0';) {
        size_t bytes = 1 + strcspn(from + 1, "/");
        bool one = bytes == 2 && from[1] == '.';
        bool two = bytes == 3 && from[1] == '.' && from[2] == '.';
        if (two) {
            while (to > text && *--to != '/') {
            }
        } else if (!one) {
            memmove(to, from, bytes);
            to += bytes;
        }
        from += bytes;
    }
    *to = '\0';
    if (to == text) {
        strncpy(text, "/", 2);
    }
}

static void read_as(const struct upstream *upstream, const char *path, char text[PATH_BYTES_MAX])
{
    snprintf(text, PATH_BYTES_MAX, "%s", path);
    if (upstream->decodes && upstream->decodes_first) {
        decode(text);
    }
    drop_parameters(text, upstream);
    if (upstream->merges) {
        merge_slashes(text);
    }
    if (upstream->decodes && !upstream->decodes_first) {
        decode(text);
    }
    resolve_dots(text);
}

static void expect_same_captures(const struct outcome *outcome, const struct weir_match *match,
                                 bool decoded, const char *path)
{
    assert_int_equal(outcome->match.capture_count, match->capture_count);
    for (uint32_t i = 0; i < match->capture_count; i++) {
        char ours[PATH_BYTES_MAX], theirs[PATH_BYTES_MAX];
        struct weir_slice capture = match->captures[i];
        size_t bytes = weir_path_decode(outcome->match.captures[i], ours, sizeof ours);
        size_t their_bytes = capture.bytes;
        memcpy(theirs, capture.data, capture.bytes);
        if (!decoded) {
            their_bytes = weir_path_decode(capture, theirs, sizeof theirs);
        }
        if (bytes != their_bytes || memcmp(ours, theirs, bytes) != 0) {
            fail_msg("%s: capture %u is %.*s to the route and %.*s to the upstream", path, i,
                     (int)bytes, ours, (int)their_bytes, theirs);
        }
    }
}

/* Whatever passes has the route and the keys that the upstream would give it. */
static bool check_path(const struct weir_config *config, const char *path)
{
    bool keep = config->listen[0].paths == WEIR_CONFIG_PATHS_KEEP;
    struct outcome outcome = outcome_of(config, path);
    if (outcome.wrong != NULL || outcome.route == NO_ROUTE) {
        return false;
    }
    for (unsigned i = 0; i < 32; i++) {
        struct upstream upstream = {
            .decodes = i & 1, .decodes_first = i & 2, .merges = i & 4, .drops = i / 8};
        if (keep && (upstream.merges || upstream.drops != DROPS_NONE)) {
            continue; /* what the setting costs */
        }
        char text[PATH_BYTES_MAX];
        struct weir_match match;
        read_as(&upstream, outcome.path, text);
        uint32_t route = weir_matcher_find(config->matcher, weir_slice_of(text), &match)
                             ? match.route
                             : NO_ROUTE;
        if (route != outcome.route) {
            fail_msg("%s: route %u, but %u for an upstream (%u) that gets %s and reads %s", path,
                     outcome.route, route, i, outcome.path, text);
        }
        expect_same_captures(&outcome, &match, upstream.decodes, path);
    }
    return true;
}

static void check_all_paths(const char *text, size_t passed_min)
{
    static const char *const pieces[] = {"/",   ";",   ".",   "a", "b",   "%2e",
                                         "%61", "%3b", "%3A", ":", "%2F", "%C3"};
    enum {
        PIECES_MAX = 5
    };
    struct weir_config *config = load(text);
    size_t passed = 0;
    size_t total = 1;
    for (size_t count = 1; count <= PIECES_MAX; count++) {
        total *= COUNT_OF(pieces);
        for (size_t number = 0; number < total; number++) {
            char path[PATH_BYTES_MAX] = "/";
            size_t bytes = 1;
            for (size_t rest = number, i = 0; i < count; i++, rest /= COUNT_OF(pieces)) {
                const char *piece = pieces[rest % COUNT_OF(pieces)];
                memcpy(path + bytes, piece, strlen(piece) + 1);
                bytes += strlen(piece);
            }
            passed += check_path(config, path);
        }
    }
    weir_config_destroy(config);
    if (passed < passed_min) { /* else nothing would have been asserted */
        fail_msg("only %zu paths pass", passed);
    }
}

#define LITERALS  TO("/") TO("/a") TO("/a/b") TO("/b:") TO("/a/b/a") TO("/b/")
#define CAPTURES  TO("/{x}") TO("/a/{y}") TO("/a/{y}/b") TO("/{x}/a:/") TO("/b/a")
#define DEEP      TO("/") TO("/a/{y}")
#define SEMICOLON TO("/") TO("/a;b") TO("/a") TO("/{x}/;") TO("/b")

TEST(every_short_path_has_the_route_that_any_upstream_would_give_it)
{
    check_all_paths(TOP("normalize") LITERALS, 10000);
    check_all_paths(TOP("normalize") CAPTURES, 10000);
    check_all_paths(TOP("normalize") DEEP, 10000);
}

TEST(every_short_path_that_is_not_refused_has_one_route)
{
    check_all_paths(TOP("refuse") LITERALS, 5000);
    check_all_paths(TOP("refuse") CAPTURES, 5000);
}

TEST(every_short_path_that_is_kept_has_the_route_of_an_upstream_that_keeps_it)
{
    check_all_paths(TOP("keep") LITERALS, 10000);
    check_all_paths(TOP("keep") SEMICOLON, 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slashes_and_needless_escapes_are_rewritten_before_the_route_is_chosen),
        cmocka_unit_test(parameters_pass_where_no_route_depends_on_them),
        cmocka_unit_test(an_escaped_delimiter_leads_past_no_route_that_has_it),
        cmocka_unit_test(refuse_refuses_what_normalize_would_rewrite),
        cmocka_unit_test(keep_leaves_slashes_and_parameters_alone),
        cmocka_unit_test(
            a_path_longer_than_any_request_line_is_refused_where_its_readings_are_compared),
        cmocka_unit_test(calls_of_an_llm_have_no_parameters),
        cmocka_unit_test(where_a_match_has_a_parameter_only_kept_paths_may_have_one),
        cmocka_unit_test(every_short_path_has_the_route_that_any_upstream_would_give_it),
        cmocka_unit_test(every_short_path_that_is_not_refused_has_one_route),
        cmocka_unit_test(every_short_path_that_is_kept_has_the_route_of_an_upstream_that_keeps_it),
    };
    return cmocka_run_group_tests_name("request_path", tests, NULL, NULL);
}
