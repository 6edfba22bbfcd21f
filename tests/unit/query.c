/* The parameters of a target. */
#include "wire/query.h"

#include "base/slice.h"
#include "unit/helpers.h"

static char room[16];
static struct weir_slice rest, name, value;

static enum weir_query_result next(void)
{
    return weir_query_next(&rest, room, sizeof room, &name, &value);
}

static void expect_pair(const char *expected_name, const char *expected_value)
{
    assert_int_equal(next(), WEIR_QUERY_PAIR);
    assert_true(weir_slice_equal(name, weir_slice_of(expected_name)));
    assert_true(weir_slice_equal(value, weir_slice_of(expected_value)));
}

TEST(parameters_come_one_after_the_other)
{
    rest = weir_slice_of("a=1&b=&c&a=2=3&&=x&");
    expect_pair("a", "1");
    expect_pair("b", "");
    expect_pair("c", "");
    expect_pair("a", "2=3");
    expect_pair("", "x");
    assert_int_equal(next(), WEIR_QUERY_END);
    assert_int_equal(next(), WEIR_QUERY_END);
    rest = weir_slice_of("");
    assert_int_equal(next(), WEIR_QUERY_END);
}

TEST(escapes_stand_for_bytes)
{
    rest = weir_slice_of("%61%3D=x+y%26&k=%c3%BC");
    expect_pair("a=", "x y&");
    expect_pair("k", "ü");
}

TEST(what_is_no_escape_is_a_fault)
{
    static const char *const wrong[] = {"a=%", "a=%4", "a=%4g", "a=%g4", "%=a", "a=%%41"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        rest = weir_slice_of(wrong[i]);
        assert_int_equal(next(), WEIR_QUERY_FAULT);
    }
}

TEST(what_does_not_fit_is_a_fault)
{
    rest = weir_slice_of("12345678=12345678");
    expect_pair("12345678", "12345678");
    rest = weir_slice_of("12345678=123456789");
    assert_int_equal(next(), WEIR_QUERY_FAULT);
    rest = weir_slice_of("12345678901234567=");
    assert_int_equal(next(), WEIR_QUERY_FAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_come_one_after_the_other),
        cmocka_unit_test(escapes_stand_for_bytes),
        cmocka_unit_test(what_is_no_escape_is_a_fault),
        cmocka_unit_test(what_does_not_fit_is_a_fault),
    };
    return cmocka_run_group_tests_name("query", tests, NULL, NULL);
}
