/* gate_table.h - a gate's table of keys, and short calls on it, for the tests of the table. */
#ifndef WEIR_TESTS_GATE_TABLE_H
#define WEIR_TESTS_GATE_TABLE_H

#include "unit/helpers.h"

struct table {
    struct memory memory;
    struct weir_gate *gate;
    struct weir_news news;
};

static inline void open_table(struct table *t, struct weir_gate_options options,
                              struct weir_settings settings)
{
    memory_init(&t->memory);
    t->news = (struct weir_news){0};
    options.allocator = &t->memory.allocator;
    assert_int_equal(weir_gate_create(&options, &settings, &t->gate), WEIR_OK);
}

static inline void close_table(struct table *t)
{
    weir_gate_destroy(t->gate);
    expect_no_memory_out(&t->memory);
}

static inline struct weir_key *take(struct table *t, const char *name, uint64_t now_ns)
{
    struct weir_key *key = NULL;
    assert_int_equal(weir_gate_take(t->gate, weir_slice_of(name), now_ns, &key), WEIR_OK);
    assert_non_null(key);
    return key;
}

/* Whether the gate knows the key; it stays unpinned. */
static inline bool knows(struct table *t, const char *name)
{
    struct weir_key *key = weir_gate_find(t->gate, weir_slice_of(name));
    if (key != NULL) {
        weir_key_give(key);
    }
    return key != NULL;
}

#endif
