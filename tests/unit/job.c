/* What a job is called, and its states. */
#include "jobs/job.h"

#include "unit/helpers.h"

static struct weir_slice slice(const char *text)
{
    return weir_slice_of(text);
}

TEST(an_id_begins_with_a_letter_or_digit_and_goes_on_with_three_signs_more)
{
    assert_true(weir_job_id_valid(slice("a")));
    assert_true(weir_job_id_valid(slice("Z")));
    assert_true(weir_job_id_valid(slice("0")));
    assert_true(weir_job_id_valid(slice("9-._")));
    assert_true(weir_job_id_valid(slice("run-2024.06_b")));
    assert_false(weir_job_id_valid(slice("")));
    assert_false(weir_job_id_valid(slice("-a")));
    assert_false(weir_job_id_valid(slice(".")));
    assert_false(weir_job_id_valid(slice("..")));
    assert_false(weir_job_id_valid(slice("_a")));
    assert_false(weir_job_id_valid(slice("a/b")));
    assert_false(weir_job_id_valid(slice("a b")));
    assert_false(weir_job_id_valid(slice("a\n")));
    assert_false(weir_job_id_valid(slice("\xc3\xa4")));
    assert_false(weir_job_id_valid((struct weir_slice){"a\0b", 3}));
}

TEST(every_byte_is_judged_alike_at_the_second_place)
{
    const char *extra = "._-";
    for (int c = 0; c < 256; c++) {
        char id[2] = {'a', (char)c};
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        bool valid = plain || (c != 0 && strchr(extra, c) != NULL);
        assert_int_equal(weir_job_id_valid((struct weir_slice){id, 2}), valid);
        assert_int_equal(weir_job_id_valid((struct weir_slice){id + 1, 1}), plain);
    }
}

TEST(an_id_has_up_to_128_bytes)
{
    char id[WEIR_JOB_ID_BYTES_MAX + 1];
    memset(id, 'x', sizeof id);
    assert_true(weir_job_id_valid((struct weir_slice){id, WEIR_JOB_ID_BYTES_MAX - 1}));
    assert_true(weir_job_id_valid((struct weir_slice){id, WEIR_JOB_ID_BYTES_MAX}));
    assert_false(weir_job_id_valid((struct weir_slice){id, WEIR_JOB_ID_BYTES_MAX + 1}));
}

TEST(every_state_has_a_name_by_which_it_is_found_again)
{
    for (int i = 0; i < WEIR_JOB_STATE_COUNT; i++) {
        enum weir_job_state state = WEIR_JOB_STATE_COUNT;
        assert_true(
            weir_job_state_read(slice(weir_job_state_name((enum weir_job_state)i)), &state));
        assert_int_equal(state, i);
    }
    assert_string_equal(weir_job_state_name(WEIR_JOB_CANCELLED), "cancelled");
    assert_string_equal(weir_job_state_name(WEIR_JOB_STATE_COUNT), "unknown");
}

TEST(a_word_that_is_no_state_writes_nothing)
{
    enum weir_job_state state = WEIR_JOB_FAILED;
    assert_false(weir_job_state_read(slice(""), &state));
    assert_false(weir_job_state_read(slice("Queued"), &state));
    assert_false(weir_job_state_read(slice("queue"), &state));
    assert_false(weir_job_state_read(slice("unknown"), &state));
    assert_int_equal(state, WEIR_JOB_FAILED);
}

TEST(two_epochs_are_the_same_if_boot_and_counter_are)
{
    assert_true(weir_epoch_equal((struct weir_epoch){1, 2}, (struct weir_epoch){1, 2}));
    assert_false(weir_epoch_equal((struct weir_epoch){1, 2}, (struct weir_epoch){2, 2}));
    assert_false(weir_epoch_equal((struct weir_epoch){1, 2}, (struct weir_epoch){1, 3}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_begins_with_a_letter_or_digit_and_goes_on_with_three_signs_more),
        cmocka_unit_test(every_byte_is_judged_alike_at_the_second_place),
        cmocka_unit_test(an_id_has_up_to_128_bytes),
        cmocka_unit_test(every_state_has_a_name_by_which_it_is_found_again),
        cmocka_unit_test(a_word_that_is_no_state_writes_nothing),
        cmocka_unit_test(two_epochs_are_the_same_if_boot_and_counter_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
