/* How long tickets waited: which bucket a wait goes to, and what passes count. */
#include "gates/wait_histogram.h"

#include "unit/helpers.h"

static uint32_t bucket_of(uint64_t entered_ns, uint64_t admitted_ns)
{
    struct weir_wait_histogram waits = {0};
    uint32_t found = UINT32_MAX;
    weir_wait_histogram_add(&waits, entered_ns, admitted_ns);
    for (uint32_t i = 0; i <= WEIR_WAIT_HISTOGRAM_BOUNDS; i++) {
        assert_true(waits.counts[i] <= 1);
        if (waits.counts[i] == 1) {
            assert_int_equal(found, UINT32_MAX);
            found = i;
        }
    }
    assert_int_equal(waits.sum_ns, admitted_ns > entered_ns ? admitted_ns - entered_ns : 0);
    return found;
}

TEST(a_wait_belongs_to_the_first_bound_that_it_does_not_pass)
{
    for (uint32_t i = 0; i < WEIR_WAIT_HISTOGRAM_BOUNDS; i++) {
        uint64_t bound_ns = weir_wait_histogram_bounds_ns[i];
        assert_true(i == 0 || bound_ns > weir_wait_histogram_bounds_ns[i - 1]);
        assert_int_equal(bucket_of(7, 7 + bound_ns - 1), i);
        assert_int_equal(bucket_of(7, 7 + bound_ns), i);
        assert_int_equal(bucket_of(7, 7 + bound_ns + 1), i + 1);
    }
    assert_int_equal(bucket_of(0, UINT64_MAX), WEIR_WAIT_HISTOGRAM_BOUNDS);
}

TEST(no_time_or_less_is_a_wait_of_none)
{
    struct weir_wait_histogram waits = {0};
    assert_int_equal(bucket_of(5, 5), 0);
    assert_int_equal(bucket_of(5, 4), 0);
    weir_wait_histogram_add_none(&waits);
    weir_wait_histogram_add(&waits, 5, 5);
    assert_int_equal(waits.counts[0], 2);
    assert_int_equal(waits.sum_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_belongs_to_the_first_bound_that_it_does_not_pass),
        cmocka_unit_test(no_time_or_less_is_a_wait_of_none),
    };
    return cmocka_run_group_tests_name("waits", tests, NULL, NULL);
}
