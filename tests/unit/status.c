#include "unit/helpers.h"

TEST(every_status_has_a_name_and_a_sentence_of_its_own)
{
    for (int i = 0; i < WEIR_STATUS_COUNT; i++) {
        const char *name = weir_status_name((enum weir_status)i);
        const char *text = weir_status_text((enum weir_status)i);
        assert_true(strlen(name) >= 2);
        assert_true(strlen(text) >= 4);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(name, weir_status_name((enum weir_status)j));
            assert_string_not_equal(text, weir_status_text((enum weir_status)j));
        }
    }
}

TEST(success_is_zero_and_names_are_those_of_the_constants)
{
    assert_int_equal(WEIR_OK, 0);
    assert_string_equal(weir_status_name(WEIR_OK), "OK");
    assert_string_equal(weir_status_name(WEIR_LINE_FULL), "LINE_FULL");
    assert_string_equal(weir_status_name(WEIR_WRONG_KEY), "WRONG_KEY");
    assert_string_equal(weir_status_text(WEIR_CANCELLED), "it was cancelled");
}

TEST(a_number_that_is_no_status_is_named_as_such)
{
    assert_string_equal(weir_status_name(WEIR_STATUS_COUNT), "UNKNOWN");
    assert_string_equal(weir_status_name((enum weir_status)UINT32_MAX), "UNKNOWN");
    assert_string_equal(weir_status_text(WEIR_STATUS_COUNT), "this number is no status");
    assert_string_equal(weir_status_text((enum weir_status)UINT32_MAX), "this number is no status");
}

TEST(every_status_fits_into_a_ticket)
{
    assert_true(WEIR_STATUS_COUNT <= UINT8_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_and_a_sentence_of_its_own),
        cmocka_unit_test(success_is_zero_and_names_are_those_of_the_constants),
        cmocka_unit_test(a_number_that_is_no_status_is_named_as_such),
        cmocka_unit_test(every_status_fits_into_a_ticket),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
