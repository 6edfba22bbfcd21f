#include "base/heap.h"

#include "base/list.h"
#include "unit/helpers.h"

struct item {
    uint64_t order;
    uint64_t tie;
    uint32_t place;
};

#define ITEMS_MAX 64

struct heap_fixture {
    struct memory memory;
    struct weir_heap heap;
    struct item items[ITEMS_MAX];
};

static void open_heap(struct heap_fixture *f)
{
    *f = (struct heap_fixture){0};
    memory_init(&f->memory);
    assert_true(weir_heap_reserve(&f->heap, ITEMS_MAX, &f->memory.allocator));
}

static void close_heap(struct heap_fixture *f)
{
    while (f->heap.count > 0) {
        weir_heap_remove(&f->heap, weir_heap_top(&f->heap)->place);
    }
    weir_heap_deinit(&f->heap, &f->memory.allocator);
    expect_no_memory_out(&f->memory);
}

static void push(struct heap_fixture *f, size_t index, uint64_t order, uint64_t tie)
{
    struct item *item = &f->items[index];
    *item = (struct item){.order = order, .tie = tie};
    weir_heap_push(&f->heap, order, tie, &item->place);
    weir_heap_validate(&f->heap);
}

static void take_out(struct heap_fixture *f, size_t index)
{
    weir_heap_remove(&f->heap, &f->items[index].place);
    assert_int_equal(f->items[index].place, 0);
    weir_heap_validate(&f->heap);
}

/* Takes the least item out and tells which it was. */
static size_t pop(struct heap_fixture *f)
{
    struct item *item = weir_container_of(weir_heap_top(&f->heap)->place, struct item, place);
    size_t index = (size_t)(item - f->items);
    take_out(f, index);
    return index;
}

TEST(an_empty_heap_is_never_next)
{
    struct weir_heap heap = {0};
    weir_heap_validate(&heap);
    assert_true(weir_heap_next(&heap) == WEIR_NEVER);
}

TEST(deinit_of_a_zeroed_heap_gives_nothing_back)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_heap heap = {0};
    weir_heap_deinit(&heap, &memory.allocator);
    assert_int_equal(memory.calls, 0);
    expect_no_memory_out(&memory);
}

TEST(the_least_order_comes_first)
{
    static const uint64_t orders[] = {5, 1, 4, 2, 3, 0};
    static const size_t expected[] = {5, 1, 3, 4, 2, 0};
    struct heap_fixture f;
    open_heap(&f);
    for (size_t i = 0; i < COUNT_OF(orders); i++) {
        push(&f, i, orders[i], 0);
    }
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(weir_heap_next(&f.heap), i);
        assert_int_equal(pop(&f), expected[i]);
    }
    close_heap(&f);
}

TEST(equal_orders_go_by_their_tie_breaker)
{
    struct heap_fixture f;
    open_heap(&f);
    push(&f, 0, 7, 30);
    push(&f, 1, 7, 10);
    push(&f, 2, 7, UINT64_MAX);
    push(&f, 3, 6, 40);
    push(&f, 4, 7, 20);
    static const size_t expected[] = {3, 1, 4, 0, 2};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(pop(&f), expected[i]);
    }
    close_heap(&f);
}

TEST(orders_that_wrap_around_are_compared_by_their_difference)
{
    struct heap_fixture f;
    open_heap(&f);
    push(&f, 0, 2, 0);
    push(&f, 1, UINT64_MAX, 0);
    push(&f, 2, 0, 0);
    push(&f, 3, UINT64_MAX - 9, 0);
    static const size_t expected[] = {3, 1, 2, 0};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(pop(&f), expected[i]);
    }
    close_heap(&f);
}

TEST(orders_just_less_than_half_the_circle_apart_keep_their_order)
{
    struct heap_fixture f;
    open_heap(&f);
    push(&f, 0, INT64_MAX, 0);
    push(&f, 1, 0, 0);
    assert_int_equal(pop(&f), 1);
    assert_int_equal(pop(&f), 0);
    close_heap(&f);
}

TEST(removing_the_only_item_leaves_an_empty_heap)
{
    struct heap_fixture f;
    open_heap(&f);
    push(&f, 0, 1, 1);
    take_out(&f, 0);
    assert_int_equal(f.heap.count, 0);
    push(&f, 0, 2, 2);
    assert_int_equal(pop(&f), 0);
    close_heap(&f);
}

TEST(removing_the_first_or_the_last_item_keeps_the_others)
{
    struct heap_fixture f;
    open_heap(&f);
    for (size_t i = 0; i < 8; i++) {
        push(&f, i, i, 0);
    }
    take_out(&f, 7);
    take_out(&f, 0);
    for (size_t i = 1; i < 7; i++) {
        assert_int_equal(pop(&f), i);
    }
    close_heap(&f);
}

TEST(the_item_that_fills_a_gap_may_have_to_rise)
{
    /* The last leaf, 3, is in another branch than 10, whose place it takes: below 9 it is wrong. */
    static const uint64_t orders[] = {0, 9, 1, 10, 11, 2, 3};
    struct heap_fixture f;
    open_heap(&f);
    for (size_t i = 0; i < COUNT_OF(orders); i++) {
        push(&f, i, orders[i], 0);
    }
    take_out(&f, 3);
    static const size_t expected[] = {0, 2, 5, 6, 1, 4};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(pop(&f), expected[i]);
    }
    close_heap(&f);
}

TEST(an_update_moves_an_item_up_down_or_not_at_all)
{
    struct heap_fixture f;
    open_heap(&f);
    for (size_t i = 0; i < 7; i++) {
        push(&f, i, 10 * i, i);
    }
    weir_heap_update(&f.heap, 35, 0, &f.items[0].place);
    weir_heap_validate(&f.heap);
    weir_heap_update(&f.heap, 5, 6, &f.items[6].place);
    weir_heap_validate(&f.heap);
    weir_heap_update(&f.heap, 20, 2, &f.items[2].place);
    weir_heap_validate(&f.heap);
    static const size_t expected[] = {6, 1, 2, 3, 0, 4, 5};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(pop(&f), expected[i]);
    }
    close_heap(&f);
}

TEST(an_update_of_the_tie_breaker_alone_reorders)
{
    struct heap_fixture f;
    open_heap(&f);
    push(&f, 0, 1, 1);
    push(&f, 1, 1, 2);
    weir_heap_update(&f.heap, 1, 3, &f.items[0].place);
    weir_heap_validate(&f.heap);
    assert_int_equal(pop(&f), 1);
    assert_int_equal(pop(&f), 0);
    close_heap(&f);
}

TEST(growing_keeps_the_items_and_their_places)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_heap heap = {0};
    struct item items[100] = {0};
    for (uint32_t i = 0; i < COUNT_OF(items); i++) {
        assert_true(weir_heap_reserve(&heap, i + 1, &memory.allocator));
        assert_true(heap.capacity >= i + 1);
        assert_int_equal(memory.blocks, 1);
        weir_heap_push(&heap, 1000 - i, i, &items[i].place);
        weir_heap_validate(&heap);
    }
    /* Twice as much each time: 100 items need few allocations. */
    assert_true(memory.calls <= 7);
    for (size_t i = COUNT_OF(items); i-- > 0;) {
        assert_ptr_equal(weir_heap_top(&heap)->place, &items[i].place);
        weir_heap_remove(&heap, &items[i].place);
    }
    weir_heap_deinit(&heap, &memory.allocator);
    expect_no_memory_out(&memory);
}

TEST(an_item_that_has_moved_in_memory_keeps_its_place)
{
    struct heap_fixture f;
    open_heap(&f);
    for (size_t i = 0; i < 5; i++) {
        push(&f, i, 10 * i, i);
    }
    struct item moved = f.items[3];
    weir_heap_move(&f.heap, &f.items[3].place, &moved.place);
    weir_heap_validate(&f.heap);
    assert_int_equal(f.items[3].place, 0);
    assert_int_equal(weir_heap_order(&f.heap, &moved.place), 30);
    weir_heap_update(&f.heap, 1, 3, &moved.place);
    weir_heap_validate(&f.heap);
    weir_heap_remove(&f.heap, &moved.place);
    weir_heap_validate(&f.heap);
    assert_int_equal(f.heap.count, 4);
    close_heap(&f);
}

TEST(a_reservation_for_many_at_once_is_one_allocation)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_heap heap = {0};
    assert_true(weir_heap_reserve(&heap, 0, &memory.allocator));
    assert_int_equal(memory.calls, 0);
    assert_true(weir_heap_reserve(&heap, 1000, &memory.allocator));
    assert_int_equal(memory.calls, 1);
    assert_true(weir_heap_reserve(&heap, heap.capacity, &memory.allocator));
    assert_int_equal(memory.calls, 1);
    assert_true(weir_heap_reserve(&heap, heap.capacity + 1, &memory.allocator));
    assert_int_equal(memory.calls, 2);
    weir_heap_deinit(&heap, &memory.allocator);
    expect_no_memory_out(&memory);
}

TEST(a_reservation_without_memory_says_so_and_changes_nothing)
{
    struct heap_fixture f;
    open_heap(&f);
    push(&f, 0, 2, 0);
    push(&f, 1, 1, 0);
    uint32_t capacity = f.heap.capacity;
    f.memory.fail_at = f.memory.calls + 1;
    assert_false(weir_heap_reserve(&f.heap, capacity + 1, &f.memory.allocator));
    assert_int_equal(f.heap.capacity, capacity);
    assert_int_equal(f.heap.count, 2);
    weir_heap_validate(&f.heap);
    assert_int_equal(pop(&f), 1);
    close_heap(&f);
}

/* The least item by looking at all of them. */
static size_t least_of(const struct heap_fixture *f)
{
    size_t least = ITEMS_MAX;
    for (size_t i = 0; i < ITEMS_MAX; i++) {
        const struct item *item = &f->items[i];
        if (item->place == 0) {
            continue;
        }
        int64_t difference =
            least == ITEMS_MAX ? -1 : (int64_t)(item->order - f->items[least].order);
        if (difference < 0 || (difference == 0 && item->tie < f->items[least].tie)) {
            least = i;
        }
    }
    return least;
}

static void one_random_step(struct heap_fixture *f, uint64_t *random, uint64_t base)
{
    size_t index = next_random(random) % ITEMS_MAX;
    struct item *item = &f->items[index];
    /* Few orders, so that many are equal; ties are all different. */
    uint64_t order = base + next_random(random) % 16;
    uint64_t tie = next_random(random) / ITEMS_MAX * ITEMS_MAX + index;
    if (item->place == 0) {
        push(f, index, order, tie);
    } else if (next_random(random) % 2 == 0) {
        take_out(f, index);
    } else {
        item->order = order;
        item->tie = tie;
        weir_heap_update(&f->heap, order, tie, &item->place);
        weir_heap_validate(&f->heap);
    }
}

TEST(random_operations_agree_with_a_search_through_all_items)
{
    struct heap_fixture f;
    open_heap(&f);
    uint64_t random = 1;
    for (uint64_t i = 0; i < 50000; i++) {
        /* The orders creep over the end of the numbers. */
        one_random_step(&f, &random, i / 100 - 250);
        size_t least = least_of(&f);
        if (least == ITEMS_MAX) {
            assert_int_equal(f.heap.count, 0);
        } else {
            assert_ptr_equal(weir_heap_top(&f.heap)->place, &f.items[least].place);
        }
    }
    close_heap(&f);
}

static void push_without_room(void *argument)
{
    struct weir_heap heap = {0};
    weir_heap_push(&heap, 1, 1, argument);
}

static void push_twice(void *argument)
{
    struct heap_fixture *f = argument;
    weir_heap_push(&f->heap, 1, 1, &f->items[0].place);
}

static void remove_what_is_not_there(void *argument)
{
    struct heap_fixture *f = argument;
    weir_heap_remove(&f->heap, &f->items[1].place);
}

static void deinit_with_items(void *argument)
{
    struct heap_fixture *f = argument;
    weir_heap_deinit(&f->heap, &f->memory.allocator);
}

TEST(a_broken_contract_is_an_assertion)
{
    struct heap_fixture f;
    open_heap(&f);
    push(&f, 0, 1, 1);
    uint32_t place = 0;
    expect_abort(push_without_room, &place, "heap->capacity");
    expect_abort(push_twice, &f, "*place == 0");
    expect_abort(remove_what_is_not_there, &f, "*place >= 1");
    expect_abort(deinit_with_items, &f, "heap->count == 0");
    close_heap(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_heap_is_never_next),
        cmocka_unit_test(deinit_of_a_zeroed_heap_gives_nothing_back),
        cmocka_unit_test(the_least_order_comes_first),
        cmocka_unit_test(equal_orders_go_by_their_tie_breaker),
        cmocka_unit_test(orders_that_wrap_around_are_compared_by_their_difference),
        cmocka_unit_test(orders_just_less_than_half_the_circle_apart_keep_their_order),
        cmocka_unit_test(removing_the_only_item_leaves_an_empty_heap),
        cmocka_unit_test(removing_the_first_or_the_last_item_keeps_the_others),
        cmocka_unit_test(the_item_that_fills_a_gap_may_have_to_rise),
        cmocka_unit_test(an_update_moves_an_item_up_down_or_not_at_all),
        cmocka_unit_test(an_update_of_the_tie_breaker_alone_reorders),
        cmocka_unit_test(growing_keeps_the_items_and_their_places),
        cmocka_unit_test(an_item_that_has_moved_in_memory_keeps_its_place),
        cmocka_unit_test(a_reservation_for_many_at_once_is_one_allocation),
        cmocka_unit_test(a_reservation_without_memory_says_so_and_changes_nothing),
        cmocka_unit_test(random_operations_agree_with_a_search_through_all_items),
        cmocka_unit_test(a_broken_contract_is_an_assertion),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
