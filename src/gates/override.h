/* override.h - what an operator changes by hand while the program runs: the limit of a key, and
 * whether a key or a whole gate is paused.
 *
 * Overrides stand above the config. A reload keeps them; they end when they are taken back, and
 * with the process. A key with one is pinned, so it is not forgotten. Any thread may call these,
 * without a lock held. */
#ifndef WEIR_GATES_OVERRIDE_H
#define WEIR_GATES_OVERRIDE_H

#include "gates/gates.h"

/* Keys with an override, of all gates together. */
#define WEIR_OVERRIDES_MAX 1000

/* A change of one key's override; what is not named stays. */
struct weir_override_change {
    bool sets_paused;
    bool paused;
    bool sets_limit;
    bool limited;
    uint32_t limit;
};

/* Changes the override of a key, which is made if there is none yet; `*now` is what it has then.
 * `loop_index` is the loop of the calling thread. WEIR_TOO_MANY_OVERRIDES at the bound,
 * WEIR_BAD_LIMIT, and what weir_gate_take() returns: then nothing has changed. */
WEIR_MUST_CHECK enum weir_status
weir_gates_change_override(struct weir_gates *gates, uint32_t gate, struct weir_slice key,
                           const struct weir_override_change *change, uint32_t loop_index,
                           struct weir_override *now);

/* Pauses the whole gate, with all of its keys, or ends that; overrides of keys stay. */
void weir_gates_pause(struct weir_gates *gates, uint32_t gate, bool paused, uint32_t loop_index);
bool weir_gates_is_paused(const struct weir_gates *gates, uint32_t gate);

/* What is set at the key; `*paused` says whether it is paused, be it with all of its gate. */
struct weir_override weir_gates_override_of(const struct weir_key *key, bool *paused);

/* How many keys of the gate have an override. */
uint32_t weir_gates_override_count(const struct weir_gates *gates, uint32_t gate);

/* The key at that place of the gate's list of overrides, pinned, or null past the end. */
struct weir_key *weir_gates_overridden(struct weir_gates *gates, uint32_t gate, uint32_t index);

#endif
