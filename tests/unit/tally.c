/* Tallies: by name, for as long as somebody uses it, and never more than so many. */
#include "worker/tally.h"

#include "base/slice.h"
#include "unit/helpers.h"

#include <stdio.h>

static struct memory memory;
static struct weir_tallies tallies;

static struct weir_tally *take(enum weir_tally_kind kind, const char *name)
{
    return weir_tally_take(&tallies, &memory.allocator, kind, weir_slice_of(name));
}

static void give(struct weir_tally *tally)
{
    weir_tally_give(&tallies, &memory.allocator, tally);
}

static void begin(void)
{
    memory_init(&memory);
    tallies = (struct weir_tallies){0};
}

static void end(void)
{
    assert_null(tallies.first);
    assert_int_equal(memory.blocks, 0);
}

static void count_visit(void *context, const struct weir_tally *tally)
{
    uint64_t *sum = context;
    *sum += 1 + atomic_load(&tally->counts[0]);
}

TEST(a_name_keeps_its_counts_while_it_has_a_user)
{
    begin();
    struct weir_tally *first = take(WEIR_TALLY_ROUTE, "/a");
    weir_tally_raise(first, 0);
    weir_tally_raise(first, 0);
    weir_tally_lower(first, 0);
    assert_ptr_equal(take(WEIR_TALLY_ROUTE, "/a"), first);
    struct weir_tally *upstream = take(WEIR_TALLY_UPSTREAM, "/a");
    assert_ptr_not_equal(upstream, first);
    give(first);
    assert_int_equal(atomic_load(&first->counts[0]), 1);
    uint64_t sum = 0;
    weir_tallies_visit(&tallies, count_visit, &sum);
    assert_int_equal(sum, 3);
    give(first);
    first = take(WEIR_TALLY_ROUTE, "/a");
    assert_int_equal(atomic_load(&first->counts[0]), 0);
    give(first);
    give(upstream);
    give(NULL);
    end();
}

TEST(names_beyond_the_most_share_one)
{
    begin();
    struct weir_tally *taken[WEIR_TALLIES_MAX + 2];
    for (uint32_t i = 0; i < WEIR_TALLIES_MAX + 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "/%u", (unsigned)i);
        taken[i] = take(WEIR_TALLY_ROUTE, name);
        assert_non_null(taken[i]);
    }
    assert_int_equal(taken[WEIR_TALLIES_MAX - 1]->name[0], '/');
    assert_memory_equal(taken[WEIR_TALLIES_MAX]->name, "_other", 6);
    assert_ptr_equal(taken[WEIR_TALLIES_MAX], taken[WEIR_TALLIES_MAX + 1]);
    struct weir_tally *known = take(WEIR_TALLY_ROUTE, "/0");
    assert_ptr_equal(known, taken[0]);
    give(known);
    struct weir_tally *upstream = take(WEIR_TALLY_UPSTREAM, "u"); /* of its own bound */
    assert_memory_equal(upstream->name, "u", 1);
    give(upstream);
    for (uint32_t i = 0; i < WEIR_TALLIES_MAX + 2; i++) {
        give(taken[i]);
    }
    end();
}

TEST(a_name_that_is_too_long_is_another)
{
    begin();
    char name[WEIR_TALLY_BYTES_MAX + 1];
    memset(name, 'x', sizeof name);
    struct weir_tally *fits = weir_tally_take(&tallies, &memory.allocator, WEIR_TALLY_ROUTE,
                                              (struct weir_slice){name, WEIR_TALLY_BYTES_MAX});
    struct weir_tally *longer = weir_tally_take(&tallies, &memory.allocator, WEIR_TALLY_ROUTE,
                                                (struct weir_slice){name, sizeof name});
    assert_int_equal(fits->name_bytes, WEIR_TALLY_BYTES_MAX);
    assert_int_equal(longer->name_bytes, 6);
    give(fits);
    give(longer);
    end();
}

TEST(without_memory_there_is_none_and_nothing_changes)
{
    begin();
    memory.fail_at = 1;
    assert_null(take(WEIR_TALLY_ROUTE, "/a"));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_keeps_its_counts_while_it_has_a_user),
        cmocka_unit_test(names_beyond_the_most_share_one),
        cmocka_unit_test(a_name_that_is_too_long_is_another),
        cmocka_unit_test(without_memory_there_is_none_and_nothing_changes),
    };
    return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
