/* gate_ticket_helpers.h - what the tests of passes share: gates, and what is to be seen of their
 * keys. */
#ifndef WEIR_TESTS_PASS_HELPERS_H
#define WEIR_TESTS_PASS_HELPERS_H

#include "gates/gate_ticket.h"
#include "unit/shared_memory.h"

/* Called a, b and so on, with the numbers from 0. */
static inline void add_gates(struct weir_gates *gates, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char name = (char)('a' + i);
        uint32_t number;
        assert_int_equal(weir_gates_add(gates, (struct weir_slice){&name, 1}, &number), WEIR_OK);
        assert_int_equal(number, i);
    }
}

/* Of all keys of a gate: who is active, who waits; and as `entered`, how many keys there are. */
static inline struct weir_key_stats add_up_keys(struct weir_gates *gates, uint32_t gate)
{
    struct weir_key_stats sum = {0};
    for (struct weir_key *key = weir_gates_next(gates, gate, NULL); key != NULL;
         key = weir_gates_next(gates, gate, key)) {
        struct weir_key_stats stats = weir_gates_stats(key);
        sum.active += stats.active;
        sum.waiting += stats.waiting;
        sum.entered++; /* counts the keys here */
    }
    return sum;
}

/* While no other thread is at them. */
static inline void validate_keys(struct weir_gates *gates, uint32_t gate)
{
    for (struct weir_key *key = weir_gates_next(gates, gate, NULL); key != NULL;
         key = weir_gates_next(gates, gate, key)) {
        weir_key_validate(key);
    }
}

#endif
