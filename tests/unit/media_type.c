#include "wire/media_type.h"

#include "unit/wire.h"

static void expect_type(struct weir_slice field, const char *expected)
{
    struct weir_slice type = weir_media_type((struct weir_slice){guarded(field), field.bytes});
    assert_int_equal(type.bytes, strlen(expected));
    assert_memory_equal(type.data, expected, type.bytes);
}

TEST(a_type_stands_without_its_parameters)
{
    expect_type(BYTES("text/event-stream"), "text/event-stream");
    expect_type(BYTES(" text/event-stream\t; charset=utf-8"), "text/event-stream");
    expect_type(BYTES("a/b;c=d;e=f"), "a/b");
    expect_type(BYTES(";a=b"), "");
    expect_type(BYTES(""), "");
}

static bool accepted(struct weir_slice accept)
{
    return weir_media_type_accepted((struct weir_slice){guarded(accept), accept.bytes},
                                    BYTES("text/event-stream"));
}

TEST(a_list_accepts_what_it_names)
{
    assert_true(accepted(BYTES("text/event-stream")));
    assert_true(accepted(BYTES("application/json, Text/Event-Stream;q=0.5")));
    assert_true(accepted(BYTES("text/event-stream,application/json")));
    assert_true(accepted(BYTES(",,text/event-stream")));
    assert_false(accepted(BYTES("")));
    assert_false(accepted(BYTES("*/*")));
    assert_false(accepted(BYTES("text/*")));
    assert_false(accepted(BYTES("text/event-streams, xtext/event-stream")));
    assert_false(accepted(BYTES("application/json;x=text/event-stream")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_type_stands_without_its_parameters),
        cmocka_unit_test(a_list_accepts_what_it_names),
    };
    return cmocka_run_group_tests_name("media_type", tests, NULL, NULL);
}
