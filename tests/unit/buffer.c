#include "net/buffer.h"

#include "unit/helpers.h"

#define POOL_MAX 2

struct tub {
    struct memory memory;
    struct weir_buffer_pool pool;
};

static void open_tub(struct tub *tub)
{
    memory_init(&tub->memory);
    weir_buffer_pool_init(&tub->pool, POOL_MAX, &tub->memory.allocator);
}

static void close_tub(struct tub *tub)
{
    weir_buffer_pool_deinit(&tub->pool);
    expect_no_memory_out(&tub->memory);
}

static void reserve(struct tub *tub, struct weir_buffer *buffer, uint32_t capacity)
{
    assert_true(weir_buffer_reserve(&tub->pool, buffer, capacity));
}

/* Requires room for it. */
static void fill(struct weir_buffer *buffer, const char *text)
{
    size_t bytes = strlen(text);
    assert_true(bytes <= weir_buffer_room(buffer));
    memcpy(buffer->data + buffer->end, text, bytes);
    buffer->end += (uint32_t)bytes;
}

static void expect_holds(const struct weir_buffer *buffer, const char *text)
{
    struct weir_slice slice = weir_buffer_slice(buffer);
    assert_int_equal(slice.bytes, strlen(text));
    assert_int_equal(weir_buffer_bytes(buffer), strlen(text));
    assert_memory_equal(slice.data, text, slice.bytes);
}

TEST(an_empty_buffer_has_no_memory_and_can_be_released)
{
    struct tub tub;
    open_tub(&tub);
    struct weir_buffer buffer = {0};
    weir_buffer_release(&tub.pool, &buffer);
    weir_buffer_compact(&buffer);
    reserve(&tub, &buffer, 0);
    assert_null(buffer.data);
    assert_int_equal(weir_buffer_bytes(&buffer), 0);
    assert_int_equal(weir_buffer_room(&buffer), 0);
    assert_int_equal(tub.memory.calls, 0);
    close_tub(&tub);
}

TEST(a_buffer_gets_the_smallest_size_that_is_enough)
{
    static const struct {
        uint32_t asked, got;
    } cases[] = {
        {1, WEIR_BUFFER_SMALL},
        {WEIR_BUFFER_SMALL - 1, WEIR_BUFFER_SMALL},
        {WEIR_BUFFER_SMALL, WEIR_BUFFER_SMALL},
        {WEIR_BUFFER_SMALL + 1, WEIR_BUFFER_MIDDLE},
        {WEIR_BUFFER_MIDDLE - 1, WEIR_BUFFER_MIDDLE},
        {WEIR_BUFFER_MIDDLE, WEIR_BUFFER_MIDDLE},
        {WEIR_BUFFER_MIDDLE + 1, WEIR_BUFFER_LARGE},
        {WEIR_BUFFER_LARGE - 1, WEIR_BUFFER_LARGE},
        {WEIR_BUFFER_LARGE, WEIR_BUFFER_LARGE},
        {WEIR_BUFFER_LARGE + 1, WEIR_BUFFER_HUGE},
        {WEIR_BUFFER_HUGE, WEIR_BUFFER_HUGE},
    };
    struct tub tub;
    open_tub(&tub);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_buffer buffer = {0};
        reserve(&tub, &buffer, cases[i].asked);
        assert_int_equal(buffer.capacity, cases[i].got);
        assert_int_equal(weir_buffer_room(&buffer), cases[i].got);
        memset(buffer.data, 'x', buffer.capacity); /* all of it is ours */
        weir_buffer_release(&tub.pool, &buffer);
        assert_int_equal(buffer.capacity, 0);
    }
    close_tub(&tub);
}

static void reserve_too_much(void *argument)
{
    struct tub *tub = argument;
    struct weir_buffer buffer = {0};
    (void)!weir_buffer_reserve(&tub->pool, &buffer, WEIR_BUFFER_HUGE + 1);
}

TEST(no_buffer_is_larger_than_the_huge_ones)
{
    struct tub tub;
    open_tub(&tub);
    expect_abort(reserve_too_much, &tub, "capacity <= ");
    close_tub(&tub);
}

TEST(what_is_in_a_buffer_stays_when_it_grows_and_moves_to_the_front)
{
    struct tub tub;
    open_tub(&tub);
    struct weir_buffer buffer = {0};
    reserve(&tub, &buffer, 10);
    fill(&buffer, "hello world");
    weir_buffer_consume(&buffer, 6);
    reserve(&tub, &buffer, WEIR_BUFFER_MIDDLE);
    assert_int_equal(buffer.begin, 0);
    expect_holds(&buffer, "world");
    assert_int_equal(weir_buffer_room(&buffer), WEIR_BUFFER_MIDDLE - 5);
    reserve(&tub, &buffer, WEIR_BUFFER_LARGE);
    expect_holds(&buffer, "world");
    assert_int_equal(tub.pool.small.count, 0);
    assert_int_equal(tub.pool.middle.count, 0);
    assert_int_equal(tub.pool.large.count, 1);
    weir_buffer_release(&tub.pool, &buffer);
    close_tub(&tub);
}

TEST(reserving_what_is_there_already_only_moves_to_the_front)
{
    struct tub tub;
    open_tub(&tub);
    struct weir_buffer buffer = {0};
    reserve(&tub, &buffer, WEIR_BUFFER_MIDDLE);
    fill(&buffer, "abcdef");
    weir_buffer_consume(&buffer, 2);
    char *data = buffer.data;
    reserve(&tub, &buffer, WEIR_BUFFER_SMALL);
    assert_ptr_equal(buffer.data, data);
    assert_int_equal(buffer.capacity, WEIR_BUFFER_MIDDLE);
    assert_int_equal(buffer.begin, 0);
    expect_holds(&buffer, "cdef");
    weir_buffer_release(&tub.pool, &buffer);
    close_tub(&tub);
}

TEST(compacting_gives_the_consumed_room_back)
{
    struct tub tub;
    open_tub(&tub);
    struct weir_buffer buffer = {0};
    reserve(&tub, &buffer, WEIR_BUFFER_SMALL);
    memset(buffer.data, 'a', WEIR_BUFFER_SMALL);
    buffer.end = WEIR_BUFFER_SMALL;
    assert_int_equal(weir_buffer_room(&buffer), 0);
    weir_buffer_consume(&buffer, 100);
    assert_int_equal(weir_buffer_room(&buffer), 0);
    weir_buffer_compact(&buffer);
    assert_int_equal(weir_buffer_room(&buffer), 100);
    assert_int_equal(weir_buffer_bytes(&buffer), WEIR_BUFFER_SMALL - 100);
    weir_buffer_release(&tub.pool, &buffer);
    close_tub(&tub);
}

TEST(a_buffer_whose_last_byte_was_consumed_has_all_its_room_again)
{
    struct tub tub;
    open_tub(&tub);
    struct weir_buffer buffer = {0};
    reserve(&tub, &buffer, WEIR_BUFFER_SMALL);
    fill(&buffer, "abc");
    weir_buffer_consume(&buffer, 0);
    expect_holds(&buffer, "abc");
    weir_buffer_consume(&buffer, 2);
    expect_holds(&buffer, "c");
    assert_int_equal(weir_buffer_room(&buffer), WEIR_BUFFER_SMALL - 3);
    weir_buffer_consume(&buffer, 1);
    assert_int_equal(weir_buffer_room(&buffer), WEIR_BUFFER_SMALL);
    weir_buffer_release(&tub.pool, &buffer);
    close_tub(&tub);
}

TEST(of_each_size_there_are_as_many_as_the_maximum_and_no_more)
{
    static const uint32_t sizes[] = {WEIR_BUFFER_SMALL, WEIR_BUFFER_MIDDLE, WEIR_BUFFER_LARGE,
                                     WEIR_BUFFER_HUGE};
    struct tub tub;
    open_tub(&tub);
    struct weir_buffer buffers[COUNT_OF(sizes)][POOL_MAX + 1] = {0};
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        for (int i = 0; i < POOL_MAX; i++) {
            reserve(&tub, &buffers[s][i], sizes[s]);
        }
        struct weir_buffer *beyond = &buffers[s][POOL_MAX];
        assert_false(weir_buffer_reserve(&tub.pool, beyond, sizes[s]));
        assert_int_equal(beyond->capacity, 0);
        weir_buffer_release(&tub.pool, &buffers[s][0]);
        reserve(&tub, beyond, sizes[s]);
    }
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        for (int i = 0; i <= POOL_MAX; i++) {
            weir_buffer_release(&tub.pool, &buffers[s][i]);
        }
    }
    close_tub(&tub);
}

TEST(a_buffer_that_cannot_grow_is_as_it_was)
{
    struct tub tub;
    open_tub(&tub);
    struct weir_buffer buffer = {0};
    reserve(&tub, &buffer, WEIR_BUFFER_SMALL);
    fill(&buffer, "xxkept");
    weir_buffer_consume(&buffer, 2);
    struct weir_buffer before = buffer;
    tub.memory.fail_at = tub.memory.calls + 1;
    tub.memory.fail_on = true;
    assert_false(weir_buffer_reserve(&tub.pool, &buffer, WEIR_BUFFER_MIDDLE));
    assert_false(weir_buffer_reserve(&tub.pool, &buffer, WEIR_BUFFER_LARGE));
    assert_int_equal(tub.memory.failed, 2);
    assert_ptr_equal(buffer.data, before.data);
    assert_int_equal(buffer.capacity, before.capacity);
    assert_int_equal(buffer.begin, before.begin);
    expect_holds(&buffer, "kept");
    tub.memory.fail_at = 0;
    reserve(&tub, &buffer, WEIR_BUFFER_LARGE);
    expect_holds(&buffer, "kept");
    weir_buffer_release(&tub.pool, &buffer);
    close_tub(&tub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_has_no_memory_and_can_be_released),
        cmocka_unit_test(a_buffer_gets_the_smallest_size_that_is_enough),
        cmocka_unit_test(no_buffer_is_larger_than_the_huge_ones),
        cmocka_unit_test(what_is_in_a_buffer_stays_when_it_grows_and_moves_to_the_front),
        cmocka_unit_test(reserving_what_is_there_already_only_moves_to_the_front),
        cmocka_unit_test(compacting_gives_the_consumed_room_back),
        cmocka_unit_test(a_buffer_whose_last_byte_was_consumed_has_all_its_room_again),
        cmocka_unit_test(of_each_size_there_are_as_many_as_the_maximum_and_no_more),
        cmocka_unit_test(a_buffer_that_cannot_grow_is_as_it_was),
    };
    return cmocka_run_group_tests_name("buffer", tests, NULL, NULL);
}
