#include "base/map.h"

#include "base/list.h"
#include "unit/helpers.h"

struct item {
    struct weir_map_node node;
    uint32_t number;
};

/* One item for each hash: a mix of its number, so that all chains are used. */
static uint64_t hash_of(uint32_t number)
{
    uint64_t state = number;
    return next_random(&state);
}

static struct item *find(const struct weir_map *map, uint32_t number)
{
    struct weir_map_node *node = weir_map_first(map, hash_of(number));
    for (; node != NULL; node = weir_map_next(node)) {
        struct item *item = weir_container_of(node, struct item, node);
        if (item->number == number) {
            return item;
        }
    }
    return NULL;
}

static void insert(struct weir_map *map, struct item *item, uint32_t number, struct memory *memory)
{
    item->number = number;
    assert_true(weir_map_reserve(map, &memory->allocator));
    weir_map_insert(map, &item->node, hash_of(number));
}

static struct item *make_items(uint32_t count)
{
    struct item *items = calloc(count, sizeof *items);
    assert_non_null(items);
    return items;
}

TEST(an_empty_map_finds_nothing_and_needs_no_memory)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_map map = {0};
    assert_null(weir_map_first(&map, 0));
    weir_map_deinit(&map, &memory.allocator);
    assert_int_equal(memory.calls, 0);
}

TEST(what_was_inserted_is_found_until_it_is_removed)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_map map = {0};
    struct item items[3];
    for (uint32_t i = 0; i < 3; i++) {
        insert(&map, &items[i], i, &memory);
    }
    assert_int_equal(map.count, 3);
    assert_null(find(&map, 3));
    weir_map_remove(&map, &items[1].node);
    assert_null(find(&map, 1));
    assert_ptr_equal(find(&map, 0), &items[0]);
    assert_ptr_equal(find(&map, 2), &items[2]);
    assert_int_equal(map.count, 2);
    weir_map_deinit(&map, &memory.allocator);
    expect_no_memory_out(&memory);
}

/* How many nodes with that hash the map tells of. */
static uint32_t count_with(const struct weir_map *map, uint64_t hash)
{
    uint32_t count = 0;
    for (struct weir_map_node *at = weir_map_first(map, hash); at != NULL; at = weir_map_next(at)) {
        assert_true(at->hash == hash);
        count++;
    }
    return count;
}

TEST(items_with_the_same_hash_are_all_told_and_others_of_the_chain_are_not)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_map map = {0};
    struct weir_map_node nodes[40];
    for (size_t i = 0; i < COUNT_OF(nodes); i++) {
        assert_true(weir_map_reserve(&map, &memory.allocator));
        /* All in one chain of every table: the low bits are the same. */
        weir_map_insert(&map, &nodes[i], i % 2 == 0 ? 5 : 5 + (UINT64_C(1) << 40));
    }
    assert_int_equal(count_with(&map, 5), 20);
    assert_int_equal(count_with(&map, 5 + (UINT64_C(1) << 40)), 20);
    assert_int_equal(count_with(&map, 5 + (UINT64_C(1) << 41)), 0);
    assert_int_equal(count_with(&map, 4), 0);
    /* Out of the chain's end, middle and beginning. */
    for (size_t i = 0; i < COUNT_OF(nodes); i += 2) {
        weir_map_remove(&map, &nodes[i]);
        assert_int_equal(count_with(&map, 5), 20 - i / 2 - 1);
    }
    assert_int_equal(count_with(&map, 5 + (UINT64_C(1) << 40)), 20);
    weir_map_deinit(&map, &memory.allocator);
    expect_no_memory_out(&memory);
}

TEST(a_hundred_thousand_insertions_lose_nothing_and_move_two_chains_at_a_time)
{
    enum {
        items_count = 100000
    };
    struct memory memory;
    memory_init(&memory);
    struct weir_map map = {0};
    struct item *items = make_items(items_count);
    uint64_t random = 7;
    uint32_t growing_seen = 0;
    for (uint32_t i = 0; i < items_count; i++) {
        uint32_t size = map.size;
        uint32_t moved = map.older != NULL ? map.moved : 0;
        insert(&map, &items[i], i, &memory);
        if (map.older != NULL) {
            growing_seen++;
            assert_true(map.size != size ? map.moved <= 2 : map.moved - moved <= 2);
        }
        /* One that was there long, and one that has just come. */
        uint32_t other = (uint32_t)(next_random(&random) % (i + 1));
        assert_ptr_equal(find(&map, other), &items[other]);
        assert_ptr_equal(find(&map, i), &items[i]);
        assert_null(find(&map, i + 1));
    }
    assert_true(growing_seen > items_count / 4);
    assert_int_equal(map.count, items_count);
    assert_true(map.size >= items_count / 2);
    for (uint32_t i = 0; i < items_count; i++) {
        assert_ptr_equal(find(&map, i), &items[i]);
    }
    weir_map_deinit(&map, &memory.allocator);
    expect_no_memory_out(&memory);
    free(items);
}

/* Fills the map until a growth has just begun, with many chains still in the older table. */
static uint32_t fill_until_growing(struct weir_map *map, struct item *items, uint32_t from,
                                   struct memory *memory)
{
    uint32_t count = from;
    do {
        insert(map, &items[count], count, memory);
        count++;
    } while (map->older == NULL || map->size < 1024);
    return count;
}

TEST(items_can_be_removed_and_found_while_the_map_grows)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_map map = {0};
    struct item *items = make_items(2048);
    uint32_t count = fill_until_growing(&map, items, 0, &memory);
    assert_non_null(map.older);
    for (uint32_t i = 0; i < count; i += 2) {
        weir_map_remove(&map, &items[i].node);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_ptr_equal(find(&map, i), i % 2 == 0 ? NULL : &items[i]);
    }
    /* The growth ends although the map is half empty now. */
    for (uint32_t i = count; map.older != NULL; i++) {
        insert(&map, &items[i], i, &memory);
        assert_ptr_equal(find(&map, 1), &items[1]);
        assert_ptr_equal(find(&map, i), &items[i]);
    }
    for (uint32_t i = 1; i < count; i += 2) {
        assert_ptr_equal(find(&map, i), &items[i]);
    }
    weir_map_deinit(&map, &memory.allocator);
    expect_no_memory_out(&memory);
    free(items);
}

TEST(deinit_in_the_middle_of_a_growth_gives_both_tables_back)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_map map = {0};
    struct item *items = make_items(2048);
    fill_until_growing(&map, items, 0, &memory);
    assert_int_equal(memory.blocks, 2);
    weir_map_deinit(&map, &memory.allocator);
    expect_no_memory_out(&memory);
    assert_int_equal(map.count, 0);
    assert_null(weir_map_first(&map, hash_of(0)));
    free(items);
}

TEST(without_memory_for_its_first_table_a_reservation_fails_and_changes_nothing)
{
    struct memory memory;
    memory_init(&memory);
    memory.fail_at = 1;
    struct weir_map map = {0};
    assert_false(weir_map_reserve(&map, &memory.allocator));
    assert_int_equal(map.size, 0);
    assert_null(weir_map_first(&map, 1));
    assert_true(weir_map_reserve(&map, &memory.allocator));
    weir_map_deinit(&map, &memory.allocator);
    expect_no_memory_out(&memory);
}

TEST(a_full_map_without_memory_goes_on_with_longer_chains_and_grows_later)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_map map = {0};
    struct item *items = make_items(200);
    insert(&map, &items[0], 0, &memory);
    uint32_t size = map.size;
    memory.fail_at = memory.calls + 1;
    memory.fail_on = true;
    for (uint32_t i = 1; i < 100; i++) {
        insert(&map, &items[i], i, &memory);
        assert_int_equal(map.size, size);
    }
    assert_true(memory.failed > 0);
    memory.fail_at = 0;
    for (uint32_t i = 100; i < 200; i++) {
        insert(&map, &items[i], i, &memory);
    }
    assert_true(map.size > size);
    for (uint32_t i = 0; i < 200; i++) {
        assert_ptr_equal(find(&map, i), &items[i]);
    }
    weir_map_deinit(&map, &memory.allocator);
    expect_no_memory_out(&memory);
    free(items);
}

static void remove_a_stranger(void *argument)
{
    struct item stranger = {.node = {.hash = hash_of(99)}};
    weir_map_remove(argument, &stranger.node);
}

static void insert_without_a_table(void *argument)
{
    struct weir_map map = {0};
    weir_map_insert(&map, argument, 1);
}

TEST(a_broken_contract_is_an_assertion)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_map map = {0};
    struct item item;
    expect_abort(insert_without_a_table, &item, "map->size > 0");
    insert(&map, &item, 0, &memory);
    expect_abort(remove_a_stranger, &map, "NULL");
    weir_map_deinit(&map, &memory.allocator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_finds_nothing_and_needs_no_memory),
        cmocka_unit_test(what_was_inserted_is_found_until_it_is_removed),
        cmocka_unit_test(items_with_the_same_hash_are_all_told_and_others_of_the_chain_are_not),
        cmocka_unit_test(a_hundred_thousand_insertions_lose_nothing_and_move_two_chains_at_a_time),
        cmocka_unit_test(items_can_be_removed_and_found_while_the_map_grows),
        cmocka_unit_test(deinit_in_the_middle_of_a_growth_gives_both_tables_back),
        cmocka_unit_test(
            without_memory_for_its_first_table_a_reservation_fails_and_changes_nothing),
        cmocka_unit_test(a_full_map_without_memory_goes_on_with_longer_chains_and_grows_later),
        cmocka_unit_test(a_broken_contract_is_an_assertion),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
