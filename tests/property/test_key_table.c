/* A small table of keys against a model: which names it may forget for a new one, and when it must
 * refuse one.
 *
 * The model knows of each name how often it is pinned, when its debt is paid and when it was last
 * taken. A full table must take a new name if and only if a key is at rest; the one that makes room
 * must be at rest; and where nothing is ever held or owed, it is the one that was taken longest
 * ago. WEIR_SEED and WEIR_STEPS come from the environment. */
#include "random.h"

#include "weir/gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#ifndef STEPS_DEFAULT
#define STEPS_DEFAULT 1000000
#endif

#define NAMES    24
#define KEYS_MAX 6
#define PINS_MAX 3
#define TOKEN_NS (WEIR_NS_PER_SECOND / 5)

struct name {
    bool known;
    uint32_t pins;
    uint64_t rest_ns; /* when its debt is paid */
    uint64_t order;   /* of the takes */
    struct weir_key *key;
};

struct table {
    struct random random;
    struct weir_gate *gate;
    struct weir_news news;
    struct name names[NAMES];
    uint64_t now_ns;
    uint64_t takes;
    uint32_t debts_percent;
    uint32_t holds_percent;
    uint32_t refused;
    uint32_t forgotten;
};

static uint64_t environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static struct weir_slice text_of(int index, char room[16])
{
    return (struct weir_slice){room, (size_t)snprintf(room, 16, "key %d", index)};
}

static bool at_rest(const struct table *table, const struct name *name)
{
    return name->known && name->pins == 0 && name->rest_ns <= table->now_ns;
}

static uint32_t count_known(const struct table *table)
{
    uint32_t count = 0;
    for (int i = 0; i < NAMES; i++) {
        count += table->names[i].known;
    }
    return count;
}

/* The key at rest that was taken longest ago, or null. */
static struct name *oldest_at_rest(struct table *table)
{
    struct name *oldest = NULL;
    for (int i = 0; i < NAMES; i++) {
        struct name *name = &table->names[i];
        if (at_rest(table, name) && (oldest == NULL || name->order < oldest->order)) {
            oldest = name;
        }
    }
    return oldest;
}

static void expect_true_refusal(struct table *table)
{
    uint64_t first_ns = WEIR_NEVER;
    bool any_pinned = false;
    for (int i = 0; i < NAMES; i++) {
        const struct name *name = &table->names[i];
        if (name->known) {
            any_pinned = any_pinned || name->pins > 0;
            first_ns = name->rest_ns < first_ns ? name->rest_ns : first_ns;
        }
    }
    uint64_t room_ns = weir_gate_room_ns(table->gate);
    assert_true(room_ns > table->now_ns);
    if (any_pinned) {
        /* A key that was set aside for its debt may have been pinned since. */
        assert_true(room_ns == WEIR_NEVER || room_ns <= table->now_ns + 100 * TOKEN_NS);
    } else {
        assert_true(room_ns <= first_ns);
    }
    table->refused++;
}

/* Finds which name has gone, if the table was full. */
static void expect_one_forgotten(struct table *table, const struct name *expected)
{
    struct name *gone = NULL;
    char room[16];
    for (int i = 0; i < NAMES; i++) {
        struct name *name = &table->names[i];
        if (name->known) {
            struct weir_key *key = weir_gate_find(table->gate, text_of(i, room));
            if (key == NULL) {
                assert_null(gone);
                gone = name;
            } else {
                assert_ptr_equal(key, name->key);
                weir_key_give(key);
            }
        }
    }
    assert_non_null(gone);
    assert_true(at_rest(table, gone));
    if (table->debts_percent == 0 && table->holds_percent == 0) {
        assert_ptr_equal(gone, expected);
    }
    gone->known = false;
    gone->rest_ns = 0;
    table->forgotten++;
}

static void take(struct table *table, int index)
{
    struct name *name = &table->names[index];
    char room[16];
    bool full = !name->known && count_known(table) == KEYS_MAX;
    struct name *oldest = oldest_at_rest(table);
    struct weir_key *key = NULL;
    enum weir_status status =
        weir_gate_take(table->gate, text_of(index, room), table->now_ns, &key);
    if (full && oldest == NULL) {
        assert_int_equal(status, WEIR_TOO_MANY_KEYS);
        expect_true_refusal(table);
        return;
    }
    assert_int_equal(status, WEIR_OK);
    if (full) {
        expect_one_forgotten(table, oldest);
    }
    assert_true(!name->known || name->key == key);
    name->known = true;
    name->key = key;
    name->pins++;
    name->order = ++table->takes;
}

static void use(struct table *table, struct name *name)
{
    struct weir_ticket ticket = {0};
    uint32_t cost = (uint32_t)random_between(&table->random, 1, 5);
    struct weir_request request = {.no_wait = true, .cost = cost};
    if (weir_key_enter(name->key, &ticket, &request, table->now_ns, &table->news) ==
        WEIR_ADMITTED) {
        struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
        assert_int_equal(weir_key_leave(name->key, &ticket, &result, table->now_ns, &table->news),
                         WEIR_OK);
        uint64_t from_ns = name->rest_ns > table->now_ns ? name->rest_ns : table->now_ns;
        name->rest_ns = from_ns + cost * TOKEN_NS;
    }
}

static void give(struct name *name)
{
    name->pins--;
    weir_key_give(name->key);
}

static void step(struct table *table)
{
    struct random *random = &table->random;
    int index = (int)random_below(random, NAMES);
    struct name *name = &table->names[index];
    table->now_ns += random_chance(random, 50) ? random_below(random, TOKEN_NS) : 0;
    if (name->pins > 0 && random_chance(random, 50)) {
        give(name);
        return;
    }
    uint32_t before = name->pins;
    if (before < PINS_MAX) {
        take(table, index);
    }
    if (name->pins == before) {
        return;
    }
    if (random_chance(random, table->debts_percent)) {
        use(table, name);
    }
    if (!random_chance(random, table->holds_percent)) {
        give(name);
    }
}

static void run_table(uint32_t debts_percent, uint32_t holds_percent)
{
    static struct table table;
    uint64_t seed = environment("WEIR_SEED", 20240607);
    uint64_t steps = environment("WEIR_STEPS", STEPS_DEFAULT) / 3;
    struct weir_rate rate = {.tokens = 5, .period_ns = WEIR_NS_PER_SECOND, .unit = WEIR_UNIT_COST};
    struct weir_lane_settings lane = {.rates = &rate, .rate_count = 1};
    struct weir_settings settings = {.lanes = &lane, .lane_count = 1, .forget_ns = WEIR_NEVER};
    struct weir_gate_options options = {.seed = {seed, 1}, .keys_max = KEYS_MAX};
    table = (struct table){.random = {seed},
                           .now_ns = WEIR_NS_PER_SECOND,
                           .debts_percent = debts_percent,
                           .holds_percent = holds_percent};
    printf("# WEIR_SEED=%llu\n", (unsigned long long)seed);
    assert_int_equal(weir_gate_create(&options, &settings, &table.gate), WEIR_OK);
    for (uint64_t i = 0; i < steps; i++) {
        step(&table);
        assert_true(weir_gate_key_count(table.gate) <= KEYS_MAX);
        assert_int_equal(weir_gate_key_count(table.gate), count_known(&table));
        if (random_chance(&table.random, 1)) {
            assert_int_equal(weir_gate_sweep(table.gate, 3, table.now_ns), 0);
        }
    }
    for (int i = 0; i < NAMES; i++) {
        while (table.names[i].pins > 0) {
            give(&table.names[i]);
        }
    }
    weir_gate_destroy(table.gate);
    assert_true(table.forgotten > steps / 100);
    assert_true(debts_percent + holds_percent == 0 || table.refused > steps / 1000);
}

static void keys_at_rest_are_forgotten_in_the_order_of_their_last_use(void **state)
{
    (void)state;
    run_table(0, 0);
}

static void keys_that_are_held_or_in_debt_are_kept_and_refusals_are_true(void **state)
{
    (void)state;
    run_table(60, 30);
}

static void refusals_for_debts_alone_know_when_to_come_again(void **state)
{
    (void)state;
    run_table(90, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_at_rest_are_forgotten_in_the_order_of_their_last_use),
        cmocka_unit_test(keys_that_are_held_or_in_debt_are_kept_and_refusals_are_true),
        cmocka_unit_test(refusals_for_debts_alone_know_when_to_come_again),
    };
    return cmocka_run_group_tests_name("key_table", tests, NULL, NULL);
}
