/* The words of priorities and outcomes: said and read. */
#include "base/words.h"

#include "unit/helpers.h"

TEST(every_priority_is_read_back_from_its_word)
{
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        enum weir_priority read = WEIR_PRIORITY_COUNT;
        const char *word = weir_priority_name((enum weir_priority)i);
        assert_ptr_equal(word, weir_priority_words[i]);
        assert_true(weir_priority_parse(weir_slice_of(word), &read));
        assert_int_equal(read, i);
    }
    assert_string_equal(weir_priority_name(WEIR_PRIORITY_NORMAL), "normal");
    assert_string_equal(weir_priority_name(WEIR_PRIORITY_HIGH), "high");
    assert_string_equal(weir_priority_name(WEIR_PRIORITY_LOW), "low");
    assert_null(weir_priority_words[WEIR_PRIORITY_COUNT]);
}

TEST(every_outcome_is_read_back_from_its_word)
{
    for (int i = 0; i < WEIR_OUTCOME_COUNT; i++) {
        enum weir_outcome read = WEIR_OUTCOME_COUNT;
        const char *word = weir_outcome_name((enum weir_outcome)i);
        assert_ptr_equal(word, weir_outcome_words[i]);
        assert_true(weir_outcome_parse(weir_slice_of(word), &read));
        assert_int_equal(read, i);
    }
    assert_string_equal(weir_outcome_name(WEIR_OUTCOME_SUCCESS), "success");
    assert_string_equal(weir_outcome_name(WEIR_OUTCOME_RATE_LIMIT), "rate_limit");
    assert_string_equal(weir_outcome_name(WEIR_OUTCOME_SOFT_LOSS), "soft_loss");
    assert_string_equal(weir_outcome_name(WEIR_OUTCOME_CLIENT_ERROR), "client_error");
    assert_string_equal(weir_outcome_name(WEIR_OUTCOME_CANCELLED), "cancelled");
    assert_null(weir_outcome_words[WEIR_OUTCOME_COUNT]);
}

TEST(what_is_no_word_is_refused_and_stores_nothing)
{
    static const char *const wrong[] = {"",     "hig",  "highe",   "High", " high",
                                        "low ", "lowe", "unknown", "2",    "succes"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        enum weir_priority priority = WEIR_PRIORITY_LOW;
        enum weir_outcome outcome = WEIR_OUTCOME_CANCELLED;
        assert_false(weir_priority_parse(weir_slice_of(wrong[i]), &priority));
        assert_false(weir_outcome_parse(weir_slice_of(wrong[i]), &outcome));
        assert_int_equal(priority, WEIR_PRIORITY_LOW);
        assert_int_equal(outcome, WEIR_OUTCOME_CANCELLED);
    }
    enum weir_priority priority = WEIR_PRIORITY_HIGH;
    assert_false(weir_priority_parse((struct weir_slice){NULL, 0}, &priority));
    assert_false(weir_priority_parse((struct weir_slice){"low\0", 4}, &priority));
    assert_int_equal(priority, WEIR_PRIORITY_HIGH);
}

TEST(a_number_that_is_none_of_them_is_unknown)
{
    assert_string_equal(weir_priority_name(WEIR_PRIORITY_COUNT), "unknown");
    assert_string_equal(weir_priority_name((enum weir_priority)UINT32_MAX), "unknown");
    assert_string_equal(weir_outcome_name(WEIR_OUTCOME_COUNT), "unknown");
    assert_string_equal(weir_outcome_name((enum weir_outcome)UINT32_MAX), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_priority_is_read_back_from_its_word),
        cmocka_unit_test(every_outcome_is_read_back_from_its_word),
        cmocka_unit_test(what_is_no_word_is_refused_and_stores_nothing),
        cmocka_unit_test(a_number_that_is_none_of_them_is_unknown),
    };
    return cmocka_run_group_tests_name("words", tests, NULL, NULL);
}
