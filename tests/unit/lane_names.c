/* Where lanes lead: lists of names that keep their numbers. */
#include "gates/lane_names.h"

#include "base/slice.h"
#include "unit/helpers.h"

static struct memory memory;
static struct weir_lane_names lane_names;

static void begin(void)
{
    memory_init(&memory);
    memset(&lane_names, 0, sizeof lane_names);
}

static void end(void)
{
    weir_lane_names_deinit(&lane_names, &memory.allocator);
    assert_int_equal(memory.blocks, 0);
}

static uint32_t add(bool llm, const char *first, const char *second)
{
    struct weir_slice names[] = {weir_slice_of(first), weir_slice_of(second == NULL ? "" : second)};
    struct weir_lane_name_spec list = {names, second == NULL ? 1 : 2, llm};
    return weir_lane_names_add(&lane_names, &memory.allocator, &list);
}

static void expect_name(uint32_t number, uint32_t lane, const char *expected)
{
    assert_true(
        weir_slice_equal(weir_lane_names_name(&lane_names, number, lane), weir_slice_of(expected)));
}

TEST(a_list_has_one_number_and_each_lane_a_name)
{
    begin();
    uint32_t one = add(false, "a", NULL), two = add(true, "a", "bc");
    assert_int_equal(one, 1);
    assert_int_equal(two, 2);
    assert_int_equal(add(false, "a", NULL), one);
    assert_int_equal(add(true, "a", "bc"), two);
    expect_name(one, 0, "a");
    expect_name(one, 7, "a"); /* a lane that another route has brought */
    expect_name(two, 0, "a");
    expect_name(two, 1, "bc");
    expect_name(two, 3, "bc");
    assert_false(weir_lane_names_llm(&lane_names, one));
    assert_true(weir_lane_names_llm(&lane_names, two));
    end();
}

TEST(lists_that_differ_in_anything_are_different)
{
    begin();
    uint32_t numbers[] = {add(false, "a", "b"),  add(true, "a", "b"),    add(false, "b", "a"),
                          add(false, "a", NULL), add(false, "ab", NULL), add(false, "a", "c")};
    for (uint32_t i = 0; i < COUNT_OF(numbers); i++) {
        assert_int_equal(numbers[i], i + 1);
    }
    end();
}

TEST(what_is_not_known_has_no_name_and_is_no_llm)
{
    begin();
    expect_name(0, 0, "");
    assert_false(weir_lane_names_llm(&lane_names, 0));
    memory.fail_at = 1;
    assert_int_equal(add(true, "a", "b"), 0);
    memory.fail_at = 0;
    assert_int_equal(add(true, "a", "b"), 1);
    end();
}

TEST(there_are_only_so_many_and_those_stay)
{
    begin();
    for (uint32_t i = 0; i < WEIR_LANE_NAMES_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "u%u", (unsigned)i);
        assert_int_equal(add(false, name, NULL), i + 1);
    }
    assert_int_equal(add(false, "more", NULL), 0);
    assert_int_equal(add(false, "u17", NULL), 18);
    expect_name(WEIR_LANE_NAMES_MAX, 0, "u4095");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_has_one_number_and_each_lane_a_name),
        cmocka_unit_test(lists_that_differ_in_anything_are_different),
        cmocka_unit_test(what_is_not_known_has_no_name_and_is_no_llm),
        cmocka_unit_test(there_are_only_so_many_and_those_stay),
    };
    return cmocka_run_group_tests_name("ways", tests, NULL, NULL);
}
