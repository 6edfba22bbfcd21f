/* Sums over keys that come and go never fall. */
#include "gates/monotonic_sum.h"

#include "unit/helpers.h"

static struct weir_monotonic_sum rest;

/* What is told of a sum; the last counter is looked at, the others stay at 1. */
static uint64_t tell(uint64_t sum, uint64_t began_ns, uint64_t ended_ns)
{
    uint64_t counters[WEIR_MONOTONIC_SUM_COUNTERS];
    for (int i = 0; i < WEIR_MONOTONIC_SUM_COUNTERS; i++) {
        counters[i] = 1;
    }
    counters[WEIR_MONOTONIC_SUM_COUNTERS - 1] = sum;
    weir_monotonic_sum_mend(&rest, (struct weir_monotonic_sum_span){began_ns, ended_ns}, counters);
    for (int i = 0; i < WEIR_MONOTONIC_SUM_COUNTERS - 1; i++) {
        assert_int_equal(counters[i], 1);
    }
    return counters[WEIR_MONOTONIC_SUM_COUNTERS - 1];
}

TEST(a_sum_that_rises_is_told_as_it_is)
{
    rest = (struct weir_monotonic_sum){0};
    assert_int_equal(tell(1, 10, 11), 1);
    assert_int_equal(tell(1, 12, 13), 1);
    assert_int_equal(tell(7, 14, 15), 7);
}

TEST(what_is_lost_is_added_from_then_on)
{
    rest = (struct weir_monotonic_sum){0};
    assert_int_equal(tell(100, 10, 11), 100);
    assert_int_equal(tell(60, 12, 13), 100);
    assert_int_equal(tell(61, 14, 15), 101);
    assert_int_equal(tell(0, 16, 17), 101);
    assert_int_equal(tell(3, 18, 19), 104);
}

TEST(who_looked_in_the_same_while_and_saw_less_has_lost_nothing)
{
    rest = (struct weir_monotonic_sum){0};
    assert_int_equal(tell(100, 10, 20), 100);
    assert_int_equal(tell(99, 15, 25), 100);
    assert_int_equal(tell(99, 20, 25), 100);
    assert_int_equal(tell(101, 19, 25), 101);
    assert_int_equal(tell(102, 30, 31), 102);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_that_rises_is_told_as_it_is),
        cmocka_unit_test(what_is_lost_is_added_from_then_on),
        cmocka_unit_test(who_looked_in_the_same_while_and_saw_less_has_lost_nothing),
    };
    return cmocka_run_group_tests_name("rest", tests, NULL, NULL);
}
