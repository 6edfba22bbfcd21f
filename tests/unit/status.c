#include "unit/helpers.h"

#include "weir/version.h"

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

TEST(the_library_is_of_the_headers_version)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
             WEIR_VERSION_PATCH);
    assert_string_equal(weir_version(), text);
    assert_string_equal(WEIR_VERSION, text);
    assert_true(WEIR_VERSION_NUMBER > WEIR_VERSION_OF(0, 1, 999));
    assert_true(WEIR_VERSION_OF(1, 0, 0) > WEIR_VERSION_NUMBER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_and_a_sentence_of_its_own),
        cmocka_unit_test(success_is_zero_and_names_are_those_of_the_constants),
        cmocka_unit_test(a_number_that_is_no_status_is_named_as_such),
        cmocka_unit_test(every_status_fits_into_a_ticket),
        cmocka_unit_test(the_library_is_of_the_headers_version),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
