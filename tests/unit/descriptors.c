#include "net/descriptors.h"

#include "helpers.h"

#define LIMIT   4000
#define RESERVE WEIR_DESCRIPTORS_RESERVE_MAX

static void add(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        weir_descriptors_add();
    }
}

static void remove_all(void)
{
    while (weir_descriptors_count() > 0) {
        weir_descriptors_remove();
    }
}

TEST(without_a_limit_there_is_always_a_descriptor)
{
    add(100);
    assert_true(weir_descriptors_left_for_client());
    assert_true(weir_descriptors_left_for_upstream());
    assert_false(weir_descriptors_take_reserved()); /* nothing is reserved */
    remove_all();
}

TEST(clients_leave_the_reserve_and_upstreams_a_half_of_it)
{
    weir_descriptors_set_limit(LIMIT);
    add(LIMIT - RESERVE - 1);
    assert_true(weir_descriptors_left_for_client());
    add(1);
    assert_false(weir_descriptors_left_for_client());
    assert_true(weir_descriptors_left_for_upstream());
    add(RESERVE / 2 - 1);
    assert_true(weir_descriptors_left_for_upstream());
    add(1);
    assert_false(weir_descriptors_left_for_upstream());
    remove_all();
}

TEST(the_api_has_a_quarter_of_the_reserve_which_is_not_counted_for_other_clients)
{
    weir_descriptors_set_limit(LIMIT);
    add(LIMIT - RESERVE);
    for (int i = 0; i < RESERVE / 4; i++) {
        assert_true(weir_descriptors_take_reserved());
        weir_descriptors_add();
    }
    assert_false(weir_descriptors_take_reserved());
    assert_false(weir_descriptors_left_for_client());
    weir_descriptors_remove(); /* a client of the others leaves */
    assert_true(weir_descriptors_left_for_client());
    for (int i = 0; i < RESERVE / 4; i++) {
        weir_descriptors_give_reserved();
    }
    remove_all();
}

TEST(upstreams_have_a_half_of_the_reserve_also_when_the_api_has_its_quarter)
{
    weir_descriptors_set_limit(LIMIT);
    add(LIMIT - RESERVE);
    for (int i = 0; i < RESERVE / 4; i++) {
        assert_true(weir_descriptors_take_reserved());
        weir_descriptors_add();
    }
    add(RESERVE / 2 - 1);
    assert_true(weir_descriptors_left_for_upstream());
    add(1);
    assert_int_equal(weir_descriptors_count(), LIMIT - RESERVE / 4); /* the rest is for files */
    assert_false(weir_descriptors_left_for_upstream());
    for (int i = 0; i < RESERVE / 4; i++) {
        weir_descriptors_give_reserved();
    }
    assert_false(weir_descriptors_left_for_upstream());
    remove_all();
}

TEST(of_a_low_limit_a_half_is_the_reserve)
{
    weir_descriptors_set_limit(100);
    add(49);
    assert_true(weir_descriptors_left_for_client());
    add(1);
    assert_false(weir_descriptors_left_for_client());
    remove_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_limit_there_is_always_a_descriptor),
        cmocka_unit_test(clients_leave_the_reserve_and_upstreams_a_half_of_it),
        cmocka_unit_test(
            the_api_has_a_quarter_of_the_reserve_which_is_not_counted_for_other_clients),
        cmocka_unit_test(upstreams_have_a_half_of_the_reserve_also_when_the_api_has_its_quarter),
        cmocka_unit_test(of_a_low_limit_a_half_is_the_reserve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
