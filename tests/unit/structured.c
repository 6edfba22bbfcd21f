/* Lists of structured fields. */
#include "llm/structured.h"

#include "unit/wire.h"

static char told[512];
static size_t told_bytes;

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(told + told_bytes, sizeof told - told_bytes, format, arguments);
    va_end(arguments);
    assert_true(bytes >= 0 && (size_t)bytes < sizeof told - told_bytes);
    told_bytes += (size_t)bytes;
}

/* What a list says, in one notation: [item key=3 key='text' key]. */
static bool read_list(struct weir_slice text)
{
    struct weir_structured list;
    struct weir_structured_parameter parameter;
    struct weir_slice item;
    told_bytes = 0;
    told[0] = 0;
    text.data = guarded(text);
    weir_structured_init(&list, text);
    while (weir_structured_item(&list, &item)) {
        tell("[%.*s", (int)item.bytes, item.data);
        while (weir_structured_parameter(&list, &parameter)) {
            tell(" %.*s", (int)parameter.key.bytes, parameter.key.data);
            if (parameter.kind == WEIR_STRUCTURED_INTEGER) {
                tell("=%lld", (long long)parameter.integer);
            } else if (parameter.kind == WEIR_STRUCTURED_STRING) {
                tell("='%.*s'", (int)parameter.string.bytes, parameter.string.data);
            }
        }
        tell("]");
    }
    assert_false(weir_structured_item(&list, &item));
    return !list.failed;
}

static void expect_list(const char *text, const char *expected)
{
    if (!read_list(weir_slice_of(text)) || strcmp(told, expected) != 0) {
        fail_msg("%s: %s", text, told);
    }
}

TEST(items_and_their_parameters_come_one_after_the_other)
{
    expect_list("\"default\";q=100;w=60", "[default q=100 w=60]");
    expect_list("\"burst\";q=100;w=60,\"daily\";q=1000;w=86400",
                "[burst q=100 w=60][daily q=1000 w=86400]");
    expect_list("  \"a\"; q=1;  w=2 \t,\t \"b\"  ", "[a q=1 w=2][b]");
    expect_list("\"peruser\";q=65535;qu=\"content-bytes\";pk=:sdfjLJUOUH==:",
                "[peruser q=65535 qu='content-bytes' pk]");
    expect_list("token/1:*;*a_b-c.d*=-7", "[token/1:* *a_b-c.d*=-7]");
    expect_list("\"\"", "[]");
    expect_list("\" ~\";z=1;az=2;b=:az+/:;c=z", "[ ~ z=1 az=2 b c]");
    expect_list("zZ;a=z", "[zZ a]");
    expect_list("\"a\\\"b\\\\\";x=\"\\\"\"", "[a\\\"b\\\\ x='\\\"']");
}

TEST(other_values_are_passed_over)
{
    expect_list("a;b=1.5;c=?1;d=?0;e=tok:en;f=@-1659578233;g=::;h;i=1", "[a b c d e f g h i=1]");
    expect_list("a;q=-0", "[a q=0]");
    expect_list("a;q=999999999999999", "[a q=999999999999999]");
    expect_list("a;q=999999999999.999;w=1", "[a q w=1]");
}

TEST(parameters_may_be_passed_over)
{
    struct weir_structured list;
    struct weir_slice item;
    weir_structured_init(&list, weir_slice_of("\"a\";q=1;w=2, \"b\";r=3"));
    assert_true(weir_structured_item(&list, &item));
    assert_true(weir_structured_item(&list, &item));
    expect_text(item, "b");
    assert_false(weir_structured_item(&list, &item));
    assert_false(list.failed);
}

TEST(a_list_that_is_malformed_has_failed)
{
    static const char *const wrong[] = {
        "",
        " ",
        ",",
        "\"a\",",
        "\"a\",,\"b\"",
        "\"a",
        "\"a\\\"",
        "\"a\\x\"",
        "\"\x7f\"",
        "\"\x01\"",
        "\"\xc3\xbc\"",
        "1",
        "?1",
        "(\"a\")",
        "a b",
        "a;",
        "a; ",
        "a;Q=1",
        "a;=1",
        "a;1=1",
        "a;q=",
        "a;q=-",
        "a;q=1x",
        "a;q=1.",
        "a;q=.5",
        "a;q=1.2345",
        "a;q=1234567890123.4",
        "a;q=9999999999999999",
        "a;q=?2",
        "a;q=?",
        "a;q=:a",
        "a;q=:a-:",
        "a;q=@1.5",
        "a;q=@",
        "a;q=%\"x\"",
        "a ;q=1",
        "a;\tq=1",
        "a;q =1",
        "a;q= 1",
        "\"a\"b",
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        if (read_list(weir_slice_of(wrong[i]))) {
            fail_msg("%s: %s", wrong[i], told);
        }
    }
}

TEST(no_part_of_a_list_is_read_beyond_its_end)
{
    static const char text[] =
        "\"a\\\"\";q=12;w=-1.5;k=:YQ==:;b=?1;d=@5;s=\"x\\\\\", tok;t=en ,\"z\"";
    for (size_t bytes = 0; bytes < sizeof text; bytes++) {
        read_list((struct weir_slice){text, bytes});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_and_their_parameters_come_one_after_the_other),
        cmocka_unit_test(other_values_are_passed_over),
        cmocka_unit_test(parameters_may_be_passed_over),
        cmocka_unit_test(a_list_that_is_malformed_has_failed),
        cmocka_unit_test(no_part_of_a_list_is_read_beyond_its_end),
    };
    return cmocka_run_group_tests_name("structured", tests, NULL, NULL);
}
