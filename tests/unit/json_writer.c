/* JSON as it is written: what every parser reads, whatever bytes a name has. */
#include "unit/wire.h"

#include "wire/json_writer.h"

#include <string.h>

#define expect_text(json, expected)                                    \
    do {                                                               \
        assert_false((json)->failed);                                  \
        assert_int_equal((json)->bytes, strlen(expected));             \
        assert_memory_equal((json)->data, expected, strlen(expected)); \
    } while (0)

TEST(commas_stand_between_items_and_nowhere_else)
{
    char room[128];
    struct weir_json json;
    weir_json_init(&json, room, sizeof room);
    weir_json_open(&json, '{');
    weir_json_put_number(&json, "a", 0);
    weir_json_name(&json, "b");
    weir_json_open(&json, '[');
    weir_json_number(&json, UINT64_MAX);
    weir_json_signed(&json, INT64_MIN);
    weir_json_open(&json, '{');
    weir_json_close(&json, '}');
    weir_json_bool(&json, true);
    weir_json_decimal(&json, -2.5);
    weir_json_close(&json, ']');
    weir_json_put_bool(&json, "c", false);
    weir_json_put_null(&json, "d");
    weir_json_put_decimal(&json, "e", 0.125);
    weir_json_close(&json, '}');
    expect_text(&json, "{\"a\":0,\"b\":[18446744073709551615,-9223372036854775808,{},true,-2.5],"
                       "\"c\":false,\"d\":null,\"e\":0.125}");
}

static void expect_quoted(struct weir_slice text, const char *expected)
{
    char room[128];
    struct weir_json json;
    weir_json_init(&json, room, sizeof room);
    weir_json_string(&json, text);
    expect_text(&json, expected);
}

TEST(a_text_is_escaped_where_it_must_be_and_kept_where_it_may_be)
{
    expect_quoted(weir_slice_of(""), "\"\"");
    expect_quoted(weir_slice_of("a\"b\\c/"), "\"a\\\"b\\\\c/\"");
    expect_quoted((struct weir_slice){"\0\n\x1f\x7f", 4}, "\"\\u0000\\u000a\\u001f\\u007f\"");
    expect_quoted(weir_slice_of("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
                  "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    expect_quoted(weir_slice_of("\xee\x80\x80\xed\x9f\xbf\xf4\x8f\xbf\xbf"),
                  "\"\xee\x80\x80\xed\x9f\xbf\xf4\x8f\xbf\xbf\"");
}

TEST(what_is_not_utf_8_becomes_the_sign_for_it_byte_by_byte)
{
    static const char *const wrong[] = {"\x80", "\xc1", "\xf5", "\xff", "\xc3", "\xe2\x82"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect_quoted(weir_slice_of(wrong[i]),
                      wrong[i][1] == 0 ? "\"\\ufffd\"" : "\"\\ufffd\\ufffd\"");
    }
    expect_quoted(weir_slice_of("\xe0\x9f\xbf"), "\"\\ufffd\\ufffd\\ufffd\""); /* overlong */
    expect_quoted(weir_slice_of("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\""); /* a surrogate */
    expect_quoted(weir_slice_of("\xf4\x90\x80\x80"),
                  "\"\\ufffd\\ufffd\\ufffd\\ufffd\""); /* beyond the last */
    expect_quoted(weir_slice_of("\xc3"
                                "a"),
                  "\"\\ufffd"
                  "a\"");
}

TEST(a_writer_without_room_fails_stays_failed_and_can_go_back)
{
    char room[8];
    struct weir_json json;
    weir_json_init(&json, room, sizeof room);
    weir_json_open(&json, '[');
    weir_json_number(&json, 12345);
    struct weir_json before = json;
    weir_json_number(&json, 67);
    assert_true(json.failed);
    weir_json_null(&json);
    assert_true(json.failed);
    json = before;
    weir_json_close(&json, ']');
    expect_text(&json, "[12345]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_items_and_nowhere_else),
        cmocka_unit_test(a_text_is_escaped_where_it_must_be_and_kept_where_it_may_be),
        cmocka_unit_test(what_is_not_utf_8_becomes_the_sign_for_it_byte_by_byte),
        cmocka_unit_test(a_writer_without_room_fails_stays_failed_and_can_go_back),
    };
    return cmocka_run_group_tests_name("json_writer", tests, NULL, NULL);
}
