/* gate.h - the table of a gate's keys: each comes into being at its first use and is forgotten
 * once nothing is left to remember.
 *
 * A key is at rest when nothing is held, waits, is owed or paused there; an override, also one that
 * pauses it, does not keep it (weir_key_set_override()). A key at rest is forgotten after the time
 * that its settings name; when the table is full, the key at rest that was taken longest ago makes
 * room for a new one, whatever its age. So a client that invents key names pushes out idle keys,
 * but never keeps a new key from being admitted.
 *
 * A key is pinned from weir_gate_take() until weir_key_give(); a pinned key is not forgotten, and a
 * caller that holds or waits for a permit keeps a pin. In a program with threads the calls on the
 * gate need one lock of the caller's; weir_key_give() needs none. Lock order: the gate, then a
 * key. */
#ifndef WEIR_GATE_H
#define WEIR_GATE_H

#include "weir/key.h"

#define WEIR_KEYS_MAX      UINT32_C(10000000)
#define WEIR_KEY_EXTRA_MAX (UINT32_C(1) << 20)
#define WEIR_KEYS_DEFAULT  UINT32_C(100000)

struct weir_gate_options {
    const struct weir_allocator *allocator; /* null: malloc and free */
    uint64_t seed[2];       /* random, so that callers cannot choose names that collide */
    uint32_t keys_max;      /* 0: WEIR_KEYS_DEFAULT; see weir_gate_set_keys_max() */
    size_t key_extra_bytes; /* set aside in each key for the caller, up to WEIR_KEY_EXTRA_MAX */
};

struct weir_gate;

#ifdef __cplusplus
extern "C" {
#endif

/* A gate whose keys follow `settings`, of which it keeps a copy. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_gate_create(const struct weir_gate_options *options,
                                                           const struct weir_settings *settings,
                                                           struct weir_gate **gate);

/* Frees the gate and its keys. No key may be pinned, and no ticket waiting or admitted. A null
 * gate is none. */
WEIR_API void weir_gate_destroy(struct weir_gate *gate);

/* The key with that name, pinned; made if there is none. At the most keys that the gate may keep,
 * the key at rest that was taken longest ago is forgotten for it. WEIR_TOO_MANY_KEYS if no key is
 * at rest. Takes O(log keys) on average, however many keys are in use or in debt. One call looks at
 * 256 keys at most; while it has not looked at all of them, the gate may keep 1 key in 128 more. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_gate_take(struct weir_gate *gate,
                                                         struct weir_slice name, uint64_t now_ns,
                                                         struct weir_key **key);

/* The key with that name, pinned, or null. */
WEIR_API struct weir_key *weir_gate_find(struct weir_gate *gate, struct weir_slice name);

/* One more pin of a key that the caller has pinned already. Safe from any thread without a lock. */
WEIR_API struct weir_key *weir_key_pin(struct weir_key *key);

/* Takes a pin back. Safe from any thread without a lock. */
WEIR_API void weir_key_give(struct weir_key *key);

/* All keys in turn: the first for null, then the one after `key`, whose pin is taken back; null at
 * the end. Each comes back pinned. Keys made meanwhile are found too. */
WEIR_API struct weir_key *weir_gate_next(struct weir_gate *gate, struct weir_key *key);

/* New settings for the keys that have none of their own. Keys that exist follow them after
 * weir_gate_apply(), keys made from now on at once. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_gate_configure(struct weir_gate *gate,
                                                              const struct weir_settings *settings);

/* Settings of its own for the key of that name, instead of the gate's; null takes them away. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_gate_override(struct weir_gate *gate,
                                                             struct weir_slice name,
                                                             const struct weir_settings *settings);

/* Lets an existing key follow the gate's present settings: tickets in line and permits stay, lanes
 * keep their state by their id. Needs both locks. On failure nothing changes. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_gate_apply(struct weir_gate *gate,
                                                          struct weir_key *key, uint64_t now_ns,
                                                          struct weir_news *news);

/* Pauses the whole gate by hand, or ends that: keys made from now on follow at once, keys that
 * exist after weir_gate_apply_pause(), which needs both locks and cannot fail. */
WEIR_API void weir_gate_pause(struct weir_gate *gate, bool paused);
WEIR_API bool weir_gate_is_paused(const struct weir_gate *gate);
WEIR_API void weir_gate_apply_pause(struct weir_gate *gate, struct weir_key *key, uint64_t now_ns,
                                    struct weir_news *news);

/* Looks at up to `keys_max` keys, going round, and forgets those at which nothing is held, waits,
 * is owed or paused, and that were unused for the time that their settings say. If there are more
 * keys than the gate may keep, also forgets up to `keys_max` keys at rest, whatever their age.
 * Returns how many were forgotten. */
WEIR_API uint32_t weir_gate_sweep(struct weir_gate *gate, uint32_t keys_max, uint64_t now_ns);

WEIR_API uint32_t weir_gate_key_count(const struct weir_gate *gate);

/* How many keys the gate may keep from now on; 0: WEIR_KEYS_DEFAULT; up to WEIR_KEYS_MAX. Of those
 * that are too many, weir_gate_take() and weir_gate_sweep() forget some when they are at rest. */
WEIR_API void weir_gate_set_keys_max(struct weir_gate *gate, uint32_t keys_max);
WEIR_API uint32_t weir_gate_keys_max(const struct weir_gate *gate);

/* How many keys were forgotten before their time, because the table was full. */
WEIR_API uint64_t weir_gate_displaced(const struct weir_gate *gate);

/* After WEIR_TOO_MANY_KEYS: when the first of the keys will be at rest, if all of them only wait
 * for debts to be paid or pauses to end. WEIR_NEVER (unknown) while a permit is held or waited for
 * at any key. */
WEIR_API uint64_t weir_gate_room_ns(const struct weir_gate *gate);

#ifdef __cplusplus
}
#endif
#endif
