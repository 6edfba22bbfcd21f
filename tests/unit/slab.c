#include "base/slab.h"

#include "unit/helpers.h"

#include <stdalign.h>

/* In its place, because its lists point at themselves. */
static void begin(struct weir_slab *slab, struct memory *memory, size_t object_bytes,
                  uint32_t count_max)
{
    memory_init(memory);
    weir_slab_init(slab, object_bytes, count_max, &memory->allocator);
}

#define expect_blocks(slab, memory, expected)         \
    do {                                              \
        assert_int_equal((slab)->blocks, expected);   \
        assert_int_equal((memory)->blocks, expected); \
    } while (0)

static void take_many(struct weir_slab *slab, void **objects, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        objects[i] = weir_slab_take(slab);
        assert_non_null(objects[i]);
    }
}

static void give_many(struct weir_slab *slab, void **objects, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        weir_slab_give(slab, objects[i]);
    }
}

TEST(a_slab_that_was_not_used_took_no_memory)
{
    struct memory memory;
    struct weir_slab slab;
    begin(&slab, &memory, 8, 10);
    weir_slab_deinit(&slab);
    assert_int_equal(memory.calls, 0);
}

TEST(as_many_as_the_maximum_are_out_at_once_and_no_more)
{
    for (uint32_t max = 0; max <= 5; max++) {
        struct memory memory;
        struct weir_slab slab;
        begin(&slab, &memory, 24, max);
        void *objects[5];
        for (uint32_t i = 0; i < max; i++) {
            assert_int_equal(slab.count, i);
            objects[i] = weir_slab_take(&slab);
            assert_non_null(objects[i]);
        }
        assert_null(weir_slab_take(&slab));
        assert_int_equal(slab.count, max);
        if (max > 0) {
            weir_slab_give(&slab, objects[0]);
            assert_int_equal(slab.count, max - 1);
            objects[0] = weir_slab_take(&slab);
            assert_non_null(objects[0]);
            assert_null(weir_slab_take(&slab));
        }
        give_many(&slab, objects, max);
        assert_int_equal(slab.count, 0);
        weir_slab_deinit(&slab);
        expect_no_memory_out(&memory);
    }
}

TEST(a_maximum_that_ends_within_a_block_or_at_its_end_or_behind_it_is_kept)
{
    struct memory memory;
    struct weir_slab probe;
    begin(&probe, &memory, 8192, 1);
    uint32_t per_block = probe.per_block;
    assert_true(per_block >= 4);
    assert_true(per_block <= 8);
    for (uint32_t max = per_block - 1; max <= per_block + 1; max++) {
        struct weir_slab slab;
        begin(&slab, &memory, 8192, max);
        void *objects[9];
        take_many(&slab, objects, max);
        assert_null(weir_slab_take(&slab));
        expect_blocks(&slab, &memory, max <= per_block ? 1 : 2);
        give_many(&slab, objects, max);
        weir_slab_deinit(&slab);
        expect_no_memory_out(&memory);
    }
}

TEST(objects_of_every_size_are_aligned_and_apart)
{
    static const size_t sizes[] = {8, 9, 15, 16, 17, 100, 2048, 16384, 65536, 100000};
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        struct memory memory;
        struct weir_slab slab;
        begin(&slab, &memory, sizes[s], 50);
        unsigned char *objects[50];
        for (size_t i = 0; i < COUNT_OF(objects); i++) {
            objects[i] = weir_slab_take(&slab);
            assert_non_null(objects[i]);
            assert_int_equal((uintptr_t)objects[i] % alignof(max_align_t), 0);
            memset(objects[i], (int)i, sizes[s]);
        }
        for (size_t i = 0; i < COUNT_OF(objects); i++) {
            assert_int_equal(objects[i][0], i);
            assert_int_equal(objects[i][sizes[s] - 1], i);
            assert_memory_equal(objects[i], objects[i] + 1, sizes[s] - 1);
            weir_slab_give(&slab, objects[i]);
        }
        weir_slab_deinit(&slab);
        expect_no_memory_out(&memory);
    }
}

TEST(an_object_given_back_is_taken_again_without_new_memory)
{
    struct memory memory;
    struct weir_slab slab;
    begin(&slab, &memory, 64, 100);
    void *kept = weir_slab_take(&slab);
    for (int i = 0; i < 1000; i++) {
        void *object = weir_slab_take(&slab);
        assert_non_null(object);
        weir_slab_give(&slab, object);
    }
    assert_int_equal(memory.calls, 1);
    weir_slab_give(&slab, kept);
    weir_slab_deinit(&slab);
    expect_no_memory_out(&memory);
}

/* One object that comes and goes at the edge of a block must not cost an allocation each time. */
TEST(one_empty_block_is_kept_for_the_next)
{
    struct memory memory;
    struct weir_slab slab;
    begin(&slab, &memory, 8192, 100);
    void *objects[100];
    take_many(&slab, objects, slab.per_block);
    for (int i = 0; i < 100; i++) {
        void *object = weir_slab_take(&slab);
        assert_non_null(object);
        expect_blocks(&slab, &memory, 2);
        weir_slab_give(&slab, object);
        expect_blocks(&slab, &memory, 2);
    }
    assert_int_equal(memory.calls, 2);
    give_many(&slab, objects, slab.per_block);
    expect_blocks(&slab, &memory, 1);
    weir_slab_deinit(&slab);
    expect_no_memory_out(&memory);
}

TEST(blocks_whose_objects_have_all_come_back_are_released_but_for_one)
{
    struct memory memory;
    struct weir_slab slab;
    begin(&slab, &memory, 8192, 100);
    void *objects[40];
    uint32_t count = 5 * slab.per_block;
    take_many(&slab, objects, count);
    expect_blocks(&slab, &memory, 5);
    for (uint32_t block = 0; block < 5; block++) {
        give_many(&slab, objects + block * slab.per_block, slab.per_block - 1);
    }
    expect_blocks(&slab, &memory, 5); /* each still has one out */
    assert_int_equal(slab.count, 5);
    for (uint32_t block = 0; block < 5; block++) {
        weir_slab_give(&slab, objects[(block + 1) * slab.per_block - 1]);
        expect_blocks(&slab, &memory, block == 0 ? 5 : 5 - block);
    }
    assert_int_equal(slab.count, 0);
    weir_slab_deinit(&slab);
    expect_no_memory_out(&memory);
}

TEST(without_memory_nothing_is_taken_and_nothing_changes)
{
    for (uint64_t fail_at = 1; fail_at <= 4; fail_at++) {
        struct memory memory;
        struct weir_slab slab;
        begin(&slab, &memory, 8192, 100);
        memory.fail_at = fail_at;
        uint32_t fit = (uint32_t)(fail_at - 1) * slab.per_block;
        void *objects[100];
        take_many(&slab, objects, fit);
        assert_null(weir_slab_take(&slab));
        assert_int_equal(memory.failed, 1);
        assert_int_equal(slab.count, fit);
        expect_blocks(&slab, &memory, fail_at - 1);
        objects[fit] = weir_slab_take(&slab); /* only one allocation failed */
        assert_non_null(objects[fit]);
        give_many(&slab, objects, fit + 1);
        weir_slab_deinit(&slab);
        expect_no_memory_out(&memory);
    }
}

#define STORM_OBJECTS 700
#define STORM_BYTES   400

/* Takes and gives in waves, so that blocks fill up and empty, against an array of what is out. */
TEST(whatever_is_taken_and_given_objects_stay_apart_and_blocks_follow_their_number)
{
    struct memory memory;
    struct weir_slab slab;
    begin(&slab, &memory, STORM_BYTES, STORM_OBJECTS);
    static unsigned char *out[STORM_OBJECTS];
    static unsigned char fills[STORM_OBJECTS];
    uint32_t count = 0;
    uint64_t random = 7;
    for (int step = 0; step < 50000; step++) {
        uint64_t chance = step / 2500 % 2 == 0 ? 70 : 30;
        if (next_random(&random) % 100 < chance) {
            unsigned char *object = weir_slab_take(&slab);
            assert_int_equal(object == NULL, count == STORM_OBJECTS);
            if (object != NULL) {
                fills[count] = (unsigned char)next_random(&random);
                memset(object, fills[count], STORM_BYTES);
                out[count++] = object;
            }
        } else if (count > 0) {
            uint32_t i = (uint32_t)(next_random(&random) % count);
            assert_int_equal(out[i][0], fills[i]);
            assert_memory_equal(out[i], out[i] + 1, STORM_BYTES - 1);
            weir_slab_give(&slab, out[i]);
            out[i] = out[--count];
            fills[i] = fills[count];
        }
        assert_int_equal(slab.count, count);
        assert_int_equal(slab.blocks, memory.blocks);
        assert_true(slab.blocks * slab.per_block >= count);
        assert_true(slab.blocks <= count + 1); /* each has one out, but for the one that is kept */
    }
    while (count > 0) {
        weir_slab_give(&slab, out[--count]);
    }
    expect_blocks(&slab, &memory, 1);
    weir_slab_deinit(&slab);
    expect_no_memory_out(&memory);
}

static void end_with_one_out(void *argument)
{
    struct weir_slab *slab = argument;
    (void)!weir_slab_take(slab);
    weir_slab_deinit(slab);
}

TEST(a_slab_may_not_end_while_something_is_out)
{
    struct memory memory;
    struct weir_slab slab;
    begin(&slab, &memory, 8, 1);
    expect_abort(end_with_one_out, &slab, "slab->count == 0");
}

static void begin_with_small_objects(void *argument)
{
    struct weir_slab slab;
    begin(&slab, argument, 7, 1);
}

TEST(objects_have_at_least_8_bytes)
{
    struct memory memory;
    expect_abort(begin_with_small_objects, &memory, "object_bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slab_that_was_not_used_took_no_memory),
        cmocka_unit_test(as_many_as_the_maximum_are_out_at_once_and_no_more),
        cmocka_unit_test(a_maximum_that_ends_within_a_block_or_at_its_end_or_behind_it_is_kept),
        cmocka_unit_test(objects_of_every_size_are_aligned_and_apart),
        cmocka_unit_test(an_object_given_back_is_taken_again_without_new_memory),
        cmocka_unit_test(one_empty_block_is_kept_for_the_next),
        cmocka_unit_test(blocks_whose_objects_have_all_come_back_are_released_but_for_one),
        cmocka_unit_test(without_memory_nothing_is_taken_and_nothing_changes),
        cmocka_unit_test(
            whatever_is_taken_and_given_objects_stay_apart_and_blocks_follow_their_number),
        cmocka_unit_test(a_slab_may_not_end_while_something_is_out),
        cmocka_unit_test(objects_have_at_least_8_bytes),
    };
    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
