/* The numbers that the hashes of ids lead to. */
#include "unit/helpers.h"

#include "store/ids.h"

static const uint64_t seed[2] = {1, 2};
static struct weir_ids ids;

static int begin(void **state)
{
    (void)state;
    return weir_ids_init(&ids, seed) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    weir_ids_deinit(&ids);
    return 0;
}

/* Any 48 bits that look like chance. */
static uint64_t hash_of(uint64_t number)
{
    return weir_ids_hash(&ids, (struct weir_slice){(const char *)&number, sizeof number});
}

static bool has(uint64_t hash, uint64_t number)
{
    struct weir_ids_search search = {.hash = hash};
    uint64_t found;
    while ((found = weir_ids_next(&ids, &search)) != 0) {
        if (found == number) {
            return true;
        }
    }
    return false;
}

TEST(what_is_inserted_is_found_until_it_is_removed)
{
    const uint64_t count = 200000;
    for (uint64_t i = 1; i <= count; i++) {
        assert_true(weir_ids_insert(&ids, hash_of(i), i));
        if ((i & (i - 1)) == 0) {
            weir_ids_validate(&ids);
        }
    }
    weir_ids_validate(&ids);
    assert_int_equal(ids.count, count);
    for (uint64_t i = 1; i <= count; i++) {
        assert_true(has(hash_of(i), i));
        assert_false(has(hash_of(i), i + 1));
    }
    for (uint64_t i = 1; i <= count; i += 2) {
        weir_ids_remove(&ids, hash_of(i), i);
    }
    weir_ids_validate(&ids);
    for (uint64_t i = 1; i <= count; i++) {
        assert_int_equal(has(hash_of(i), i), i % 2 == 0);
    }
    for (uint64_t i = 2; i <= count; i += 2) {
        weir_ids_remove(&ids, hash_of(i), i);
    }
    weir_ids_validate(&ids);
    assert_int_equal(ids.count, 0);
}

TEST(the_same_hash_leads_to_several_numbers)
{
    const uint64_t hash = UINT64_C(0xfffffffffff);
    for (uint64_t i = 1; i <= 10; i++) {
        assert_true(weir_ids_insert(&ids, hash, i));
        assert_true(weir_ids_insert(&ids, hash + 1, 100 + i));
    }
    weir_ids_remove(&ids, hash, 5);
    weir_ids_validate(&ids);
    for (uint64_t i = 1; i <= 10; i++) {
        assert_int_equal(has(hash, i), i != 5);
        assert_true(has(hash + 1, 100 + i));
        assert_false(has(hash, 100 + i));
    }
    assert_false(has(0, 1));
}

TEST(large_numbers_and_hashes_are_kept_whole)
{
    const uint64_t hashes[] = {0, 1, UINT64_C(0xffffffffffff), UINT64_C(0x800000000000)};
    for (size_t i = 0; i < COUNT_OF(hashes); i++) {
        assert_true(weir_ids_insert(&ids, hashes[i], WEIR_IDS_NUMBER_MAX - i));
    }
    for (size_t i = 0; i < COUNT_OF(hashes); i++) {
        assert_true(has(hashes[i], WEIR_IDS_NUMBER_MAX - i));
    }
    weir_ids_validate(&ids);
}

/* Beyond all chance; then it says so instead of searching for ever. */
TEST(too_many_of_the_same_hash_are_refused)
{
    uint64_t count = 0;
    while (count < 100000 && weir_ids_insert(&ids, 7, count + 1)) {
        count++;
    }
    assert_true(count > 3000 && count < 5000);
    assert_false(has(7 + 4096, 1));
    assert_true(has(7, count));
    assert_int_equal(ids.count, count);
}

#define IDS(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IDS(what_is_inserted_is_found_until_it_is_removed),
        IDS(the_same_hash_leads_to_several_numbers),
        IDS(large_numbers_and_hashes_are_kept_whole),
        IDS(too_many_of_the_same_hash_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
