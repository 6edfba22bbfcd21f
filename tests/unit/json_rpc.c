/* JSON-RPC messages, and the values that are picked out of them. What is read is written down, and
 * must be the same however the bytes arrive. */
#include "wire/json_rpc.h"

#include "unit/wire.h"

static struct text input;

static void write_value(struct text *text, const struct weir_json_value *value)
{
    static const char marks[] = "-snTFNOA";
    struct weir_slice word = weir_json_value_text(value);
    add_bytes(text, &marks[value->kind], 1);
    if (value->kind == WEIR_JSON_VALUE_STRING || value->kind == WEIR_JSON_VALUE_NUMBER) {
        add_bytes(text, word.data, word.bytes);
    }
    add(text, value->too_long ? "..." : "");
}

/* A message as a word: kind, method, id, and what is at the paths. */
static void write_message(struct text *text, const struct weir_json_rpc *rpc, uint8_t path_count)
{
    static const char *const kinds[] = {"request", "notification", "response", "invalid"};
    struct weir_slice method = weir_json_rpc_method(rpc);
    add(text, kinds[weir_json_rpc_kind(rpc)]);
    add(text, "(");
    add_bytes(text, method.data, method.bytes);
    add(text, ",");
    write_value(text, weir_json_rpc_id(rpc));
    for (uint8_t i = 0; i < path_count; i++) {
        add(text, ",");
        write_value(text, weir_json_rpc_value(rpc, i));
    }
    add(text, ")");
}

/* Reads what there is up to `end`, right before memory that cannot be read. */
static enum weir_json_rpc_event read_part(struct weir_json_rpc *rpc, struct weir_slice part,
                                          uint8_t path_count, struct text *text)
{
    struct weir_slice rest = {guarded(part), part.bytes};
    for (;;) {
        size_t used = 99;
        enum weir_json_rpc_event event = weir_json_rpc_next(rpc, rest, &used);
        assert_true(used <= rest.bytes);
        rest.data += used;
        rest.bytes -= used;
        if (event != WEIR_JSON_RPC_MESSAGE) {
            assert_true(event == WEIR_JSON_RPC_FAULT || rest.bytes == 0);
            return event;
        }
        write_message(text, rpc, path_count);
    }
}

static void read_parts(struct weir_slice bytes, size_t step, const char *const *paths,
                       uint8_t path_count, struct text *text)
{
    struct weir_json_rpc_paths set;
    struct weir_json_rpc rpc;
    enum weir_json_rpc_event event = WEIR_JSON_RPC_NEED_MORE;
    weir_json_rpc_paths_init(&set);
    for (uint8_t i = 0; i < path_count; i++) {
        weir_json_rpc_paths_add(&set, weir_slice_of(paths[i]));
    }
    memset(&rpc, 0x5a, sizeof rpc);
    weir_json_rpc_init(&rpc, &set);
    text->bytes = 0;
    for (size_t at = 0; at < bytes.bytes && event == WEIR_JSON_RPC_NEED_MORE; at += step) {
        size_t part = step < bytes.bytes - at ? step : bytes.bytes - at;
        event = read_part(&rpc, (struct weir_slice){bytes.data + at, part}, path_count, text);
    }
    add(text, weir_json_rpc_end(&rpc) ? "" : "!");
    assert_true(event != WEIR_JSON_RPC_FAULT || !weir_json_rpc_end(&rpc));
}

static const struct text *read_all(struct weir_slice bytes, const char *const *paths,
                                   uint8_t path_count)
{
    static struct text whole, other;
    read_parts(bytes, SIZE_MAX / 2, paths, path_count, &whole);
    for (size_t step = 1; step < 9; step++) {
        read_parts(bytes, step, paths, path_count, &other);
        assert_int_equal(other.bytes, whole.bytes);
        assert_memory_equal(other.data, whole.data, whole.bytes);
    }
    return &whole;
}

static void expect_at(struct weir_slice bytes, const char *path, const char *expected)
{
    const struct text *text = read_all(bytes, &path, path == NULL ? 0 : 1);
    if (text->bytes != strlen(expected) || memcmp(text->data, expected, text->bytes) != 0) {
        fail_msg("expected %s, got %.*s", expected, (int)text->bytes, text->data);
    }
}

/* The messages; a ! at the end for what is no JSON-RPC. */
#define expect(bytes, expected)            expect_at(BYTES(bytes), NULL, expected)
#define expect_path(bytes, path, expected) expect_at(BYTES(bytes), path, expected)

TEST(a_request_has_a_method_and_an_id)
{
    expect("{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"id\":1}", "request(tools/call,n1)");
    expect("{\"id\":\"a b\",\"method\":\"ping\"}", "request(ping,sa b)");
    expect("{\"id\":null,\"method\":\"ping\"}", "request(ping,N)");
    expect("{\"id\":{},\"method\":\"ping\"}", "request(ping,O)");
    expect(" {\"id\" : -1.5e3 , \"method\" : \"a\\u0062\\n\"} ", "request(ab\n,n-1.5e3)");
}

TEST(without_an_id_it_is_a_notification_and_without_a_method_a_response)
{
    expect("{\"method\":\"notifications/cancelled\"}", "notification(notifications/cancelled,-)");
    expect("{\"id\":7,\"result\":{\"method\":\"x\"}}", "response(,n7)");
    expect("{\"id\":7,\"error\":{\"code\":-1}}", "response(,n7)");
    expect("{}", "response(,-)");
}

TEST(a_method_that_is_no_string_is_invalid)
{
    expect("{\"method\":1,\"id\":1}", "invalid(1,n1)");
    expect("{\"method\":null,\"id\":1}", "invalid(,n1)");
    expect("{\"method\":[\"ping\"],\"id\":1}", "invalid(,n1)");
}

TEST(names_in_other_letters_make_a_message_invalid)
{
    expect("{\"Method\":\"a\",\"id\":1}", "invalid(,n1)");
    expect("{\"method\":\"a\",\"ID\":1}", "invalid(a,-)");
    expect("{\"method\":\"a\",\"id\":1,\"METHO\\u0044\":\"b\"}", "invalid(,n1)");
    expect("[{\"result\":1,\"id\":1,\"iD\":2},{\"id\":3}]", "invalid(,-)response(,n3)");
    expect("{\"params\":{\"Id\":1,\"Method\":2},\"ids\":3,\"Methods\":4,\"methodmethod\":5}",
           "response(,-)");
}

TEST(a_batch_is_read_message_by_message)
{
    expect("[{\"method\":\"a\",\"id\":1},{\"method\":\"b\"},{\"id\":2}]",
           "request(a,n1)notification(b,-)response(,n2)");
    expect("[{\"method\":\"a\",\"id\":1},2,\"x\",[],[{\"method\":\"b\"}],null,true,false,{}]",
           "request(a,n1)invalid(,-)invalid(,-)invalid(,-)invalid(,-)invalid(,-)invalid(,-)"
           "invalid(,-)response(,-)");
    expect("[]", "!");
}

TEST(what_is_no_json_or_no_object_is_not_read)
{
    expect("", "!");
    expect("1", "!");
    expect("1 ", "!");
    expect("\"method\"", "!");
    expect("null", "!");
    expect("{\"method\":\"a\",\"id\":1", "!");
    expect("{\"method\":\"a\",\"id\":1}}", "request(a,n1)!");
    expect("[{\"method\":\"a\",\"id\":1}", "request(a,n1)!");
    expect("method=a", "!");
}

TEST(of_a_repeated_name_the_last_value_counts)
{
    expect("{\"method\":\"ping\",\"id\":1,\"method\":\"tools/call\",\"id\":2}",
           "request(tools/call,n2)");
    expect_path("{\"params\":{\"name\":\"a\"},\"params\":{\"name\":\"b\"}}", "params.name",
                "response(,-,sb)");
    expect_path("{\"params\":{\"name\":\"a\",\"name\":\"b\"}}", "params.name", "response(,-,sb)");
    expect_path("{\"params\":{\"name\":\"a\"},\"params\":{}}", "params.name", "response(,-,-)");
    expect_path("{\"params\":{\"name\":\"a\"},\"params\":1}", "params.name", "response(,-,-)");
    expect_path("{\"params\":{\"name\":\"a\"},\"params\":\"b\"}", "params.name", "response(,-,-)");
}

/* Go's encoding/json takes the last name that is the same but for the case of its letters. */
TEST(a_step_in_other_letters_leaves_its_path_without_a_value)
{
    static const char *const odd[] = {
        "{\"params\":{\"name\":\"a\"},\"Params\":{\"name\":\"b\"}}",
        "{\"PARAMS\":{\"name\":\"b\"},\"params\":{\"name\":\"a\"}}",
        "{\"params\":{\"name\":\"a\",\"Name\":\"b\"}}",
        "{\"params\":{\"\\u004eame\":\"b\",\"name\":\"a\"}}",
        "{\"params\":{\"name\":\"a\"},\"param\xC5\xBF\":{\"name\":\"b\"}}",
        "{\"params\":{\"Name\":\"b\"},\"params\":{\"name\":\"a\"}}"};
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        expect_at(weir_slice_of(odd[i]), "params.name", "response(,-,-)");
    }
    expect_path("{\"risk\":1,\"ris\xE2\x84\xAA\":2}", "risk", "response(,-,-)");
    expect_path("{\"params\":{\"name\":\"a\",\"x\":{\"Name\":1,\"Params\":2}},\"Name\":3,"
                "\"paramsS\":4,\"Param\":5}",
                "params.name", "response(,-,sa)");
    expect_path("[{\"Params\":1,\"params\":{\"name\":\"a\"}},{\"params\":{\"name\":\"b\"}}]",
                "params.name", "response(,-,-)response(,-,sb)");
}

TEST(values_are_picked_where_the_path_leads_and_nowhere_else)
{
    expect_path("{\"method\":\"tools/call\",\"id\":1,\"params\":{\"arguments\":{\"name\":\"no\"},"
                "\"name\":\"echo\",\"_meta\":{\"params\":{\"name\":\"no\"}}},\"name\":\"no\"}",
                "params.name", "request(tools/call,n1,secho)");
    expect_path("{\"params\":[{\"name\":\"no\"}]}", "params.name", "response(,-,-)");
    expect_path("{\"x\":{\"params\":{\"name\":\"no\"}}}", "params.name", "response(,-,-)");
    expect_path("{\"params\":{\"x\":{\"name\":\"no\"}}}", "params.name", "response(,-,-)");
    expect_path("{\"params\":{\"nam\":1,\"names\":2,\"Name\":3,\"\":4}}", "params.name",
                "response(,-,-)");
    expect_path("{\"method\":\"a\"}", "method", "notification(a,-,sa)");
    expect_path("[{\"params\":{\"name\":\"a\"}},{\"params\":{\"name\":\"b\"}},{}]", "params.name",
                "response(,-,sa)response(,-,sb)response(,-,-)");
}

TEST(values_of_every_kind_are_picked)
{
    expect_path("{\"a\":{\"b\":12345678901234567890123}}", "a.b",
                "response(,-,n12345678901234567890123)");
    expect_path("{\"a\":{\"b\":-0.5E+1}}", "a.b", "response(,-,n-0.5E+1)");
    expect_path("{\"a\":{\"b\":\"\"}}", "a.b", "response(,-,s)");
    expect_path("{\"a\":{\"b\":\"\\ud83d\\ude00x\"}}", "a.b", "response(,-,s\xf0\x9f\x98\x80x)");
    expect_path("{\"a\":{\"b\":true}}", "a.b", "response(,-,T)");
    expect_path("{\"a\":{\"b\":false}}", "a.b", "response(,-,F)");
    expect_path("{\"a\":{\"b\":null}}", "a.b", "response(,-,N)");
    expect_path("{\"a\":{\"b\":{\"b\":1}}}", "a.b", "response(,-,O)");
    expect_path("{\"a\":{\"b\":[1]}}", "a.b", "response(,-,A)");
}

TEST(a_step_of_digits_is_an_index_or_a_name)
{
    expect_path("{\"a\":[\"x\",\"y\",{\"b\":\"z\"}]}", "a.1", "response(,-,sy)");
    expect_path("{\"a\":[\"x\",[1],{\"b\":\"z\"}]}", "a.2.b", "response(,-,sz)");
    expect_path("{\"a\":[\"x\"]}", "a.1", "response(,-,-)");
    expect_path("{\"a\":[\"x\",\"y\"]}", "a.01", "response(,-,-)");
    expect_path("{\"a\":{\"1\":\"y\"}}", "a.1", "response(,-,sy)");
    expect_path("{\"a\":[0,1,2,3,4,5,6,7,8,9,10,11]}", "a.10", "response(,-,n10)");
    expect_path("{\"a\":[{\"b\":1},{\"b\":2}],\"a\":[{}]}", "a.0.b", "response(,-,-)");
}

TEST(what_is_longer_than_a_value_is_cut_and_known_to_be)
{
    for (size_t bytes = WEIR_JSON_VALUE_BYTES_MAX - 1; bytes <= WEIR_JSON_VALUE_BYTES_MAX + 1;
         bytes++) {
        static struct text expected;
        size_t kept = bytes < WEIR_JSON_VALUE_BYTES_MAX ? bytes : WEIR_JSON_VALUE_BYTES_MAX;
        input.bytes = expected.bytes = 0;
        add(&input, "{\"method\":\"");
        add_times(&input, 'm', bytes);
        add(&input, "\",\"id\":");
        add_times(&input, '7', bytes);
        add(&input, "}");
        add(&expected, "request(");
        add_times(&expected, 'm', kept);
        add(&expected, ",n");
        add_times(&expected, '7', kept);
        add(&expected, bytes > kept ? "...)" : ")");
        add_times(&expected, '\0', 1);
        expect_at(slice_of(&input), NULL, expected.data);
    }
}

TEST(paths_have_a_longest_step_and_a_largest_count_of_steps)
{
    struct weir_json_path path;
    assert_true(weir_json_path_parse(weir_slice_of("a.b.c.d.e.f.g.h"), &path));
    assert_int_equal(path.step_count, WEIR_JSON_PATH_STEPS_MAX);
    assert_false(weir_json_path_parse(weir_slice_of("a.b.c.d.e.f.g.h.i"), &path));
    static const char *const wrong[] = {"", ".", "a.", ".a", "a..b"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_false(weir_json_path_parse(weir_slice_of(wrong[i]), &path));
    }
    input.bytes = 0;
    add_times(&input, 'x', WEIR_JSON_STEP_BYTES_MAX);
    assert_true(weir_json_path_parse(slice_of(&input), &path));
    add_times(&input, 'x', 1);
    assert_false(weir_json_path_parse(slice_of(&input), &path));
}

TEST(a_path_of_eight_steps_is_followed_and_what_is_deeper_is_passed_over)
{
    expect_path(
        "{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":{\"f\":{\"g\":{\"h\":\"x\",\"i\":{\"h\":1}}}}}}}}}",
        "a.b.c.d.e.f.g.h", "response(,-,sx)");
    expect_path("{\"a\":[[[[[[[[[[\"no\"]]]]]]]]],\"x\"]}", "a.1", "response(,-,sx)");
}

TEST(many_paths_are_followed_at_once)
{
    static const char *const paths[] = {
        "params.message.taskId", "params.message.contextId",   "params.id", "params",
        "result.status.state",   "params.message.parts.0.kind"};
    const struct text *text =
        read_all(BYTES("{\"id\":1,\"method\":\"message/send\",\"params\":{\"message\":{\"parts\":"
                       "[{\"kind\":\"text\"}],\"taskId\":\"t\",\"contextId\":\"c\"},\"id\":5}}"),
                 paths, COUNT_OF(paths));
    static const char expected[] = "request(message/send,n1,st,sc,n5,O,-,stext)";
    assert_int_equal(text->bytes, sizeof expected - 1);
    assert_memory_equal(text->data, expected, text->bytes);
}

TEST(an_id_is_written_as_it_was_or_as_null)
{
    static const char *const cases[][2] = {
        {"1", "1"},       {"-1.50", "-1.50"}, {"\"a\\\"b\"", "\"a\\\"b\""},
        {"null", "null"}, {"[1]", "null"},    {"true", "null"}};
    struct weir_json_rpc_paths paths;
    weir_json_rpc_paths_init(&paths);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_json_rpc rpc;
        char bytes[512], room[512], expected[512];
        size_t used;
        int length = snprintf(bytes, sizeof bytes, "{\"id\":%s,\"method\":\"a\"}", cases[i][0]);
        weir_json_rpc_init(&rpc, &paths);
        assert_int_equal(
            weir_json_rpc_next(&rpc, (struct weir_slice){bytes, (size_t)length}, &used),
            WEIR_JSON_RPC_MESSAGE);
        struct weir_json json;
        weir_json_init(&json, room, sizeof room);
        weir_json_open(&json, '{');
        weir_json_rpc_write_id(&json, weir_json_rpc_id(&rpc));
        weir_json_put_number(&json, "x", 1);
        weir_json_close(&json, '}');
        length = snprintf(expected, sizeof expected, "{\"id\":%s,\"x\":1}", cases[i][1]);
        assert_false(json.failed);
        assert_int_equal(json.bytes, length);
        assert_memory_equal(room, expected, json.bytes);
    }
}

TEST(an_id_that_is_too_long_to_be_kept_is_written_as_null)
{
    struct weir_json_value id = {.kind = WEIR_JSON_VALUE_STRING, .bytes = 3, .too_long = true};
    char room[32];
    struct weir_json json;
    weir_json_init(&json, room, sizeof room);
    weir_json_open(&json, '{');
    weir_json_rpc_write_id(&json, &id);
    weir_json_close(&json, '}');
    assert_memory_equal(room, "{\"id\":null}", json.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_a_method_and_an_id),
        cmocka_unit_test(without_an_id_it_is_a_notification_and_without_a_method_a_response),
        cmocka_unit_test(a_method_that_is_no_string_is_invalid),
        cmocka_unit_test(names_in_other_letters_make_a_message_invalid),
        cmocka_unit_test(a_batch_is_read_message_by_message),
        cmocka_unit_test(what_is_no_json_or_no_object_is_not_read),
        cmocka_unit_test(of_a_repeated_name_the_last_value_counts),
        cmocka_unit_test(a_step_in_other_letters_leaves_its_path_without_a_value),
        cmocka_unit_test(values_are_picked_where_the_path_leads_and_nowhere_else),
        cmocka_unit_test(values_of_every_kind_are_picked),
        cmocka_unit_test(a_step_of_digits_is_an_index_or_a_name),
        cmocka_unit_test(what_is_longer_than_a_value_is_cut_and_known_to_be),
        cmocka_unit_test(paths_have_a_longest_step_and_a_largest_count_of_steps),
        cmocka_unit_test(a_path_of_eight_steps_is_followed_and_what_is_deeper_is_passed_over),
        cmocka_unit_test(many_paths_are_followed_at_once),
        cmocka_unit_test(an_id_is_written_as_it_was_or_as_null),
        cmocka_unit_test(an_id_that_is_too_long_to_be_kept_is_written_as_null),
    };
    return cmocka_run_group_tests_name("json_rpc", tests, NULL, NULL);
}
