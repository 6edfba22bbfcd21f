#include "base/arena.h"

#include "unit/helpers.h"

#include <stdalign.h>

static struct weir_arena arena_of(struct memory *memory, size_t chunk_bytes, size_t bytes_max)
{
    struct weir_arena arena;
    memory_init(memory);
    weir_arena_init(&arena, &(struct weir_arena_options){.allocator = &memory->allocator,
                                                         .chunk_bytes = chunk_bytes,
                                                         .bytes_max = bytes_max});
    return arena;
}

TEST(an_arena_that_was_not_used_took_no_memory)
{
    struct memory memory;
    struct weir_arena arena = arena_of(&memory, 1024, 4096);
    weir_arena_deinit(&arena);
    assert_int_equal(memory.calls, 0);
}

TEST(a_zeroed_arena_can_be_given_back)
{
    struct weir_arena arena = {.newest = NULL};
    weir_arena_deinit(&arena);
}

TEST(pieces_are_zeroed_aligned_and_apart)
{
    struct memory memory;
    struct weir_arena arena = arena_of(&memory, 1024, 65536);
    unsigned char *pieces[100];
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        pieces[i] = weir_arena_allocate(&arena, i + 1, 1);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        for (size_t j = 0; j <= i; j++) {
            assert_int_equal(pieces[i][j], 0);
        }
        memset(pieces[i], (int)i, i + 1);
    }
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        for (size_t j = 0; j <= i; j++) {
            assert_int_equal(pieces[i][j], i);
        }
    }
    assert_int_equal(memory.bytes, arena.bytes);
    weir_arena_deinit(&arena);
    expect_no_memory_out(&memory);
}

TEST(many_small_pieces_share_a_chunk)
{
    struct memory memory;
    struct weir_arena arena = arena_of(&memory, 1024, 65536);
    for (int i = 0; i < 32; i++) {
        assert_non_null(weir_arena_allocate(&arena, 1, 16));
    }
    assert_int_equal(memory.calls, 1);
    weir_arena_deinit(&arena);
}

TEST(a_piece_larger_than_a_chunk_gets_one_of_its_own)
{
    struct memory memory;
    struct weir_arena arena = arena_of(&memory, 64, 65536);
    char *piece = weir_arena_allocate(&arena, 10, 1000);
    assert_non_null(piece);
    memset(piece, 1, 10000);
    weir_arena_deinit(&arena);
    expect_no_memory_out(&memory);
}

TEST(an_arena_gives_up_to_its_bound_and_then_nothing)
{
    struct memory memory;
    struct weir_arena arena = arena_of(&memory, 1024, 2048);
    uint32_t pieces = 0;
    while (weir_arena_allocate(&arena, 1, 16) != NULL) {
        pieces++;
    }
    assert_true(pieces >= 120);
    assert_true(pieces < 128);
    assert_int_equal(memory.bytes, 2048);
    assert_null(weir_arena_allocate(&arena, 1, 16));
    weir_arena_deinit(&arena);
    expect_no_memory_out(&memory);
}

TEST(a_count_that_would_overflow_is_refused)
{
    struct memory memory;
    struct weir_arena arena = arena_of(&memory, 1024, 65536);
    assert_null(weir_arena_allocate(&arena, SIZE_MAX, 1));
    assert_null(weir_arena_allocate(&arena, SIZE_MAX / 8 + 1, 8));
    assert_null(weir_arena_allocate(&arena, 65536, 1));
    assert_int_equal(memory.calls, 0);
    assert_non_null(weir_arena_allocate(&arena, 0, 8));
    weir_arena_deinit(&arena);
}

TEST(without_memory_nothing_changes)
{
    struct memory memory;
    struct weir_arena arena = arena_of(&memory, 64, 65536);
    assert_non_null(weir_arena_allocate(&arena, 1, 16));
    memory.fail_at = memory.calls + 1;
    struct weir_slice slice = {"text", 4};
    const char *before = slice.data;
    size_t bytes = arena.bytes;
    assert_null(weir_arena_allocate(&arena, 1, 100));
    memory.fail_at = memory.calls + 1;
    struct weir_slice large = {before, 4};
    while (weir_arena_keep(&arena, &large)) {
        large.data = before;
    }
    assert_ptr_equal(large.data, before);
    assert_int_equal(arena.bytes, bytes);
    assert_true(weir_arena_keep(&arena, &slice));
    weir_arena_deinit(&arena);
    expect_no_memory_out(&memory);
}

TEST(kept_bytes_are_a_copy_that_a_zero_follows)
{
    struct memory memory;
    struct weir_arena arena = arena_of(&memory, 1024, 65536);
    char text[] = "hello";
    struct weir_slice slice = {text, 5};
    struct weir_slice empty = {NULL, 0};
    assert_true(weir_arena_keep(&arena, &slice));
    assert_true(weir_arena_keep(&arena, &empty));
    memset(text, 'x', 5);
    assert_int_equal(slice.bytes, 5);
    assert_string_equal(slice.data, "hello");
    assert_string_equal(empty.data, "");
    weir_arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_that_was_not_used_took_no_memory),
        cmocka_unit_test(a_zeroed_arena_can_be_given_back),
        cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(many_small_pieces_share_a_chunk),
        cmocka_unit_test(a_piece_larger_than_a_chunk_gets_one_of_its_own),
        cmocka_unit_test(an_arena_gives_up_to_its_bound_and_then_nothing),
        cmocka_unit_test(a_count_that_would_overflow_is_refused),
        cmocka_unit_test(without_memory_nothing_changes),
        cmocka_unit_test(kept_bytes_are_a_copy_that_a_zero_follows),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
