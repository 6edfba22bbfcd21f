#include "a2a/card.h"

#include "unit/helpers.h"

#include <jansson.h>

static char output[WEIR_A2A_CARD_BYTES_MAX];
static size_t output_bytes;
static struct weir_a2a_card_changes changes;

/* What is below /agents/planner/ leads to an agent, nothing else does. */
static bool carries(const void *context, struct weir_slice path)
{
    const char *route = context;
    return path.bytes >= strlen(route) && memcmp(path.data, route, strlen(route)) == 0;
}

static struct weir_a2a_place place_of(const char *stripped, const char *prefix)
{
    return (struct weir_a2a_place){.public_url = weir_slice_of("https://gw.example.com"),
                                   .stripped = weir_slice_of(stripped),
                                   .prefix = weir_slice_of(prefix),
                                   .carries = carries,
                                   .context = "/agents/planner/"};
}

static enum weir_a2a_card_result rewrite_at(const char *card, bool wrapped,
                                            const struct weir_a2a_place *place)
{
    memset(output, 'x', sizeof output);
    return weir_a2a_card_rewrite(weir_slice_of(card), wrapped, place, output, sizeof output,
                                 &output_bytes, &changes);
}

static void expect(const char *expected)
{
    json_t *want = json_loads(expected, 0, NULL);
    json_t *got = json_loadb(output, output_bytes, 0, NULL);
    assert_non_null(want);
    if (!json_equal(want, got)) {
        print_error("got %.*s\n", (int)output_bytes, output);
    }
    assert_true(json_equal(want, got));
    json_decref(want);
    json_decref(got);
}

/* A card at an upstream without a prefix, at a route that strips /agents/planner. */
static void expect_rewritten(const char *card, const char *expected)
{
    struct weir_a2a_place place = place_of("/agents/planner", "");
    assert_int_equal(rewrite_at(card, false, &place), WEIR_A2A_CARD_DONE);
    expect(expected);
}

static void expect_result(const char *card, enum weir_a2a_card_result result)
{
    struct weir_a2a_place place = place_of("/agents/planner", "");
    assert_int_equal(rewrite_at(card, false, &place), result);
}

TEST(a_card_of_0_3_leads_to_us_and_keeps_what_else_it_says)
{
    expect_rewritten(
        "{\"name\":\"p\",\"url\":\"http://localhost:4000/a2a?x=1#y\",\"version\":\"1\","
        "\"provider\":{\"url\":\"https://example.org\"},\"skills\":[{\"id\":1.5}]}",
        "{\"name\":\"p\",\"url\":\"https://gw.example.com/agents/planner/a2a?x=1\","
        "\"version\":\"1\",\"provider\":{\"url\":\"https://example.org\"},"
        "\"skills\":[{\"id\":1.5}]}");
    assert_int_equal(changes.removed, 0);
    assert_false(changes.unsigned_now);
}

TEST(a_url_without_a_path_leads_to_what_is_below_the_route)
{
    expect_rewritten("{\"url\":\"http://agent\"}",
                     "{\"url\":\"https://gw.example.com/agents/planner/\"}");
    expect_rewritten("{\"url\":\"HTTP://agent/\"}",
                     "{\"url\":\"https://gw.example.com/agents/planner/\"}");
    expect_rewritten("{\"url\":\"http://agent?q\"}",
                     "{\"url\":\"https://gw.example.com/agents/planner/?q\"}");
}

TEST(interfaces_that_cannot_be_carried_are_removed)
{
    expect_rewritten("{\"url\":\"http://a:1/rpc\",\"additionalInterfaces\":["
                     "{\"url\":\"http://a:1/rpc\",\"transport\":\"JSONRPC\"},"
                     "{\"url\":\"http://a:1/rest\",\"transport\":\"HTTP+JSON\"},"
                     "{\"url\":\"a:2\",\"transport\":\"GRPC\"},"
                     "{\"url\":\"http://a:1/odd\",\"transport\":\"x\"},"
                     "{\"url\":\"http://b:1/rpc\",\"transport\":\"JSONRPC\"},"
                     "{\"url\":7,\"transport\":\"JSONRPC\"}, 7]}",
                     "{\"url\":\"https://gw.example.com/agents/planner/rpc\","
                     "\"additionalInterfaces\":["
                     "{\"url\":\"https://gw.example.com/agents/planner/rpc\","
                     "\"transport\":\"JSONRPC\"},"
                     "{\"url\":\"https://gw.example.com/agents/planner/rest\","
                     "\"transport\":\"HTTP+JSON\"}]}");
    assert_int_equal(changes.removed, 5);
}

TEST(a_card_whose_own_url_is_not_carried_gets_that_of_another_interface)
{
    expect_rewritten("{\"url\":\"a:2\",\"preferredTransport\":\"GRPC\",\"additionalInterfaces\":["
                     "{\"url\":\"http://a:1/rest\",\"transport\":\"HTTP+JSON\"}]}",
                     "{\"url\":\"https://gw.example.com/agents/planner/rest\","
                     "\"preferredTransport\":\"HTTP+JSON\",\"additionalInterfaces\":["
                     "{\"url\":\"https://gw.example.com/agents/planner/rest\","
                     "\"transport\":\"HTTP+JSON\"}]}");
    assert_int_equal(changes.removed, 1);
}

TEST(a_card_of_1_x_leads_to_us_in_both_spellings)
{
    expect_rewritten("{\"supportedInterfaces\":["
                     "{\"url\":\"grpc.example:443\",\"protocolBinding\":\"GRPC\"},"
                     "{\"url\":\"http://a/rpc\",\"protocolBinding\":\"jsonrpc\","
                     "\"protocolVersion\":\"1.0\",\"tenant\":\"t\"}]}",
                     "{\"supportedInterfaces\":["
                     "{\"url\":\"https://gw.example.com/agents/planner/rpc\","
                     "\"protocolBinding\":\"jsonrpc\",\"protocolVersion\":\"1.0\","
                     "\"tenant\":\"t\"}]}");
    assert_int_equal(changes.removed, 1);
    expect_rewritten("{\"supported_interfaces\":["
                     "{\"url\":\"http://a/rpc\",\"protocol_binding\":\"JSONRPC\"}]}",
                     "{\"supported_interfaces\":["
                     "{\"url\":\"https://gw.example.com/agents/planner/rpc\","
                     "\"protocol_binding\":\"JSONRPC\"}]}");
}

TEST(a_card_of_both_versions_is_rewritten_for_both)
{
    expect_rewritten("{\"url\":\"a:2\",\"preferredTransport\":\"GRPC\",\"supportedInterfaces\":["
                     "{\"url\":\"http://a/rpc\",\"protocolBinding\":\"JSONRPC\"}]}",
                     "{\"supportedInterfaces\":["
                     "{\"url\":\"https://gw.example.com/agents/planner/rpc\","
                     "\"protocolBinding\":\"JSONRPC\"}]}");
}

TEST(signatures_are_dropped)
{
    expect_rewritten("{\"url\":\"http://a/\",\"signatures\":[{\"signature\":\"x\"}]}",
                     "{\"url\":\"https://gw.example.com/agents/planner/\"}");
    assert_true(changes.unsigned_now);
}

TEST(the_upstreams_prefix_is_taken_away_before_ours_comes)
{
    struct weir_a2a_place place = place_of("/agents/planner", "/v1");
    assert_int_equal(rewrite_at("{\"url\":\"http://a/v1/rpc\"}", false, &place),
                     WEIR_A2A_CARD_DONE);
    expect("{\"url\":\"https://gw.example.com/agents/planner/rpc\"}");
    assert_int_equal(rewrite_at("{\"url\":\"http://a/v1\"}", false, &place), WEIR_A2A_CARD_DONE);
    expect("{\"url\":\"https://gw.example.com/agents/planner/\"}");
    static const char *const outside[] = {"{\"url\":\"http://a/v11/rpc\"}",
                                          "{\"url\":\"http://a/rpc\"}", "{\"url\":\"http://a\"}"};
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        assert_int_equal(rewrite_at(outside[i], false, &place), WEIR_A2A_CARD_NO_INTERFACE);
    }
}

TEST(a_route_that_strips_nothing_keeps_the_path)
{
    struct weir_a2a_place place = place_of("", "");
    assert_int_equal(rewrite_at("{\"url\":\"http://a/agents/planner/rpc\"}", false, &place),
                     WEIR_A2A_CARD_DONE);
    expect("{\"url\":\"https://gw.example.com/agents/planner/rpc\"}");
    assert_int_equal(rewrite_at("{\"url\":\"http://a/rpc\"}", false, &place),
                     WEIR_A2A_CARD_NO_INTERFACE);
    assert_int_equal(changes.removed, 1);
    assert_int_equal(rewrite_at("{\"url\":\"http://a\"}", false, &place),
                     WEIR_A2A_CARD_NO_INTERFACE);
}

TEST(an_extended_card_is_the_result_of_a_reply)
{
    struct weir_a2a_place place = place_of("/agents/planner", "");
    assert_int_equal(rewrite_at("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"url\":\"http://a/\","
                                "\"signatures\":[]}}",
                                true, &place),
                     WEIR_A2A_CARD_DONE);
    expect("{\"jsonrpc\":\"2.0\",\"id\":3,"
           "\"result\":{\"url\":\"https://gw.example.com/agents/planner/\"}}");
    assert_int_equal(
        rewrite_at("{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32007}}", true, &place),
        WEIR_A2A_CARD_NONE);
    assert_int_equal(rewrite_at("{\"result\":7}", true, &place), WEIR_A2A_CARD_INVALID);
    assert_int_equal(rewrite_at("[1]", true, &place), WEIR_A2A_CARD_INVALID);
}

TEST(what_is_no_card_is_refused)
{
    static const char *const invalid[] = {"", "[]", "7", "{\"url\":", "{} {}", "<html>"};
    for (size_t i = 0; i < COUNT_OF(invalid); i++) {
        expect_result(invalid[i], WEIR_A2A_CARD_INVALID);
    }
    static const char *const unreachable[] = {
        "{}",
        "{\"url\":7}",
        "{\"url\":\"\"}",
        "{\"url\":\"http://\"}",
        "{\"url\":\"ftp://a/\"}",
        "{\"url\":\"//a/\"}",
        "{\"url\":\"http://a/b c\"}",
        "{\"url\":\"http://a/\\u0000\"}",
        "{\"url\":\"http://a/\\r\\nx\"}",
        "{\"url\":\"http://a/\",\"preferredTransport\":7}",
        "{\"supportedInterfaces\":{}}",
        "{\"supportedInterfaces\":[{}]}",
        "{\"supportedInterfaces\":[{\"url\":\"http://a/\"}]}"};
    for (size_t i = 0; i < COUNT_OF(unreachable); i++) {
        expect_result(unreachable[i], WEIR_A2A_CARD_NO_INTERFACE);
    }
}

TEST(a_url_may_be_as_long_as_the_bound)
{
    static char card[WEIR_A2A_URL_BYTES_MAX + 100];
    for (size_t more = 0; more < 2; more++) {
        int head = snprintf(card, sizeof card, "{\"url\":\"");
        memset(card + head, 'a', WEIR_A2A_URL_BYTES_MAX + more);
        memcpy(card + head, "http://a/", 9);
        snprintf(card + head + WEIR_A2A_URL_BYTES_MAX + more, 3, "\"}");
        expect_result(card, more == 0 ? WEIR_A2A_CARD_DONE : WEIR_A2A_CARD_NO_INTERFACE);
    }
}

TEST(a_card_that_does_not_fit_is_not_written)
{
    struct weir_a2a_place place = place_of("/agents/planner", "");
    struct weir_slice card = weir_slice_of("{\"url\":\"http://a/\"}");
    assert_int_equal(
        weir_a2a_card_rewrite(card, false, &place, output, sizeof output, &output_bytes, &changes),
        WEIR_A2A_CARD_DONE);
    size_t needed = output_bytes;
    for (size_t capacity = 0; capacity < needed + 2; capacity++) {
        char *room = malloc(capacity + 1);
        assert_int_equal(
            weir_a2a_card_rewrite(card, false, &place, room, capacity, &output_bytes, &changes),
            capacity < needed ? WEIR_A2A_CARD_NO_ROOM : WEIR_A2A_CARD_DONE);
        free(room);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_of_0_3_leads_to_us_and_keeps_what_else_it_says),
        cmocka_unit_test(a_url_without_a_path_leads_to_what_is_below_the_route),
        cmocka_unit_test(interfaces_that_cannot_be_carried_are_removed),
        cmocka_unit_test(a_card_whose_own_url_is_not_carried_gets_that_of_another_interface),
        cmocka_unit_test(a_card_of_1_x_leads_to_us_in_both_spellings),
        cmocka_unit_test(a_card_of_both_versions_is_rewritten_for_both),
        cmocka_unit_test(signatures_are_dropped),
        cmocka_unit_test(the_upstreams_prefix_is_taken_away_before_ours_comes),
        cmocka_unit_test(a_route_that_strips_nothing_keeps_the_path),
        cmocka_unit_test(an_extended_card_is_the_result_of_a_reply),
        cmocka_unit_test(what_is_no_card_is_refused),
        cmocka_unit_test(a_url_may_be_as_long_as_the_bound),
        cmocka_unit_test(a_card_that_does_not_fit_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
