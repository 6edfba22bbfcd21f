/* gate.c - the table of keys, and which of them is forgotten when the table is full.
 *
 * Every key is in the table and in the list of all keys. Besides, it is in one of four places:
 *
 *   T1  In `by_use`, the list of keys in the order in which they were last taken. Keys that are in
 *       use or in debt may be in it: nothing is looked at while the table has room.
 *   T2  In the heap `by_rest`: when a full table looked at it, the key was in debt or paused until
 *       the moment that is its order there. The key may have been used since.
 *   T3  Pinned with the flag PIN_ASIDE: when a full table looked at it, the key was pinned.
 *   T4  With the flag PIN_RETURNED, in the stack `returned` or on its way there: its last pin was
 *       taken back while it was aside.
 *
 * A full table looks at the front of `by_use` only. What it finds there is at rest and is
 * forgotten, or moves to T2 or T3, from where it comes back after its moment has passed or its pins
 * are gone. So each look either makes room or is paid for by a later use of that key: on average a
 * new key costs one look and O(log keys) steps in the heap, however many keys cannot be forgotten.
 * A key of T4 is never freed, because the thread that has taken back the last pin may still have to
 * push it.
 *
 * One call looks at LOOKS_AT_ONCE keys at most, because the caller holds the gate's lock. If it
 * finds no key at rest among them and others are left, the new key is added beyond `keys_max`, up
 * to KEYS_OVER_PART; the next call goes on where this one ended. KEYS_OVER_PART lets one pass over
 * the whole table end before a new key is refused.
 */
#include "weir/gate.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/hints.h"
#include "base/slice.h"
#include "core/key.h"

#include <assert.h>

/* The flags of a key's pins. */
#define PIN_ASIDE    (UINT32_C(1) << 31)
#define PIN_RETURNED (UINT32_C(1) << 30)
#define PIN_COUNT    (PIN_RETURNED - 1)

/* How many keys one call takes out of each place: some 50 us under the gate's lock. */
#define LOOKS_AT_ONCE 256u

/* How many keys whose debts should be paid by now are looked at again for each new key. */
#define RESTED_AT_ONCE 64

/* What part of `keys_max` a table may hold beyond it while it has not looked at all keys. */
#define KEYS_OVER_PART 128u
static_assert(KEYS_OVER_PART < LOOKS_AT_ONCE, "a pass over all keys ends before a key is refused");

/* What a full table has found. */
enum room {
    ROOM_MADE, /* a key was forgotten */
    ROOM_NONE, /* no key is at rest */
    ROOM_LATER /* none so far, and there are keys that were not looked at */
};

/* Settings of its own for one key. */
struct override {
    struct weir_map_node node;
    struct weir_link link;
    struct weir_rules *rules;
    uint8_t name_bytes;
    char name[];
};

struct weir_gate {
    const struct weir_allocator *allocator;
    uint64_t seed[2];
    uint32_t keys_max;
    size_t key_extra_bytes;
    struct weir_rules *rules;
    struct weir_map keys;
    struct weir_map overrides;
    struct weir_link all_keys;
    struct weir_link all_overrides;
    struct weir_link *swept;   /* the key that was looked at last, or the list's head */
    struct weir_link by_use;   /* T1: the first was taken longest ago */
    struct weir_heap by_rest;  /* T2 */
    struct weir_key *returned; /* T4: atomic, the stack's top */
    struct weir_key *popped;   /* T4: taken off the stack, to be moved to T1 */
    uint64_t displaced;
    bool paused; /* by hand */
};

static struct weir_key *find_key(const struct weir_gate *gate, struct weir_slice name,
                                 uint64_t hash)
{
    struct weir_map_node *node = weir_map_first(&gate->keys, hash);
    for (; node != NULL; node = weir_map_next(node)) {
        struct weir_key *key = weir_container_of(node, struct weir_key, node);
        if (weir_slice_equal(weir_key_name(key), name)) {
            return key;
        }
    }
    return NULL;
}

static struct override *find_override(const struct weir_gate *gate, struct weir_slice name,
                                      uint64_t hash)
{
    struct weir_map_node *node = weir_map_first(&gate->overrides, hash);
    for (; node != NULL; node = weir_map_next(node)) {
        struct override *override = weir_container_of(node, struct override, node);
        if (weir_slice_equal((struct weir_slice){override->name, override->name_bytes}, name)) {
            return override;
        }
    }
    return NULL;
}

static struct weir_rules *rules_for(const struct weir_gate *gate, struct weir_slice name,
                                    uint64_t hash)
{
    const struct override *override = find_override(gate, name, hash);
    return override != NULL ? override->rules : gate->rules;
}

static bool name_valid(struct weir_slice name)
{
    return name.bytes >= 1 && name.bytes <= WEIR_NAME_BYTES_MAX;
}

/* ---- keys ---- */

/* The caller's bytes stand behind the name, aligned for anything. */
static size_t extra_offset(uint8_t name_bytes)
{
    size_t align = _Alignof(max_align_t);
    return (offsetof(struct weir_key, name) + name_bytes + align - 1) / align * align;
}

static size_t key_bytes(const struct weir_gate *gate, uint8_t name_bytes)
{
    return extra_offset(name_bytes) + gate->key_extra_bytes;
}

void *weir_key_extra(struct weir_key *key)
{
    return (char *)key + extra_offset(key->name_bytes);
}

static void destroy_key(struct weir_gate *gate, struct weir_key *key)
{
    weir_key_deinit(key);
    weir_release(gate->allocator, key, key_bytes(gate, key->name_bytes));
}

static struct weir_key *create_key(struct weir_gate *gate, struct weir_slice name, uint64_t hash,
                                   uint64_t now_ns)
{
    uint8_t name_bytes = (uint8_t)name.bytes;
    struct weir_key *key = weir_allocate_zeroed(gate->allocator, key_bytes(gate, name_bytes));
    if (key == NULL) {
        return NULL;
    }
    key->gate = gate;
    key->allocator = gate->allocator;
    key->name_bytes = name_bytes;
    memcpy(key->name, name.data, name.bytes);
    weir_key_init(key, now_ns);
    key->gate_paused = gate->paused;
    struct weir_news nobody = {0};
    if (weir_key_apply(key, rules_for(gate, name, hash), &nobody) != WEIR_OK) {
        destroy_key(gate, key);
        return NULL;
    }
    return key;
}

/* ---- pins ---- */

struct weir_key *weir_key_pin(struct weir_key *key)
{
    __atomic_add_fetch(&key->pins, 1, __ATOMIC_RELAXED);
    return key;
}

static WEIR_COLD void push_returned(struct weir_key *key)
{
    struct weir_key **top = &key->gate->returned;
    struct weir_key *next = __atomic_load_n(top, __ATOMIC_RELAXED);
    do {
        key->next_returned = next;
    } while (
        !__atomic_compare_exchange_n(top, &next, key, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

void weir_key_give(struct weir_key *key)
{
    uint32_t before = __atomic_load_n(&key->pins, __ATOMIC_RELAXED);
    uint32_t after;
    do {
        assert((before & PIN_COUNT) > 0);
        after = before == (PIN_ASIDE | 1) ? PIN_RETURNED : before - 1;
        /* Releases what was done at the key to the thread that finds it without pins, and acquires
         * what was done to put it aside. */
    } while (!__atomic_compare_exchange_n(&key->pins, &before, after, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    if (weir_unlikely(before == (PIN_ASIDE | 1))) {
        push_returned(key);
    }
}

/* Whether the key must not be freed, for a pin or for a flag. */
static bool pinned(const struct weir_key *key)
{
    return __atomic_load_n(&key->pins, __ATOMIC_ACQUIRE) != 0;
}

/* ---- forgetting ---- */

static void forget_key(struct weir_gate *gate, struct weir_key *key)
{
    assert(!pinned(key));
    if (gate->swept == &key->link) {
        gate->swept = key->link.previous;
    }
    if (key->owing) {
        weir_heap_remove(&gate->by_rest, &key->rest_place);
    } else {
        weir_list_unlink(&key->used);
    }
    weir_map_remove(&gate->keys, &key->node);
    weir_list_unlink(&key->link);
    destroy_key(gate, key);
}

/* Whether the key stands in the list by last use; else it is in one of the other places. */
static bool in_use_order(const struct weir_key *key)
{
    uint32_t pins = __atomic_load_n(&key->pins, __ATOMIC_RELAXED);
    return !key->owing && (pins & (PIN_ASIDE | PIN_RETURNED)) == 0;
}

/* The key is taken: it becomes the last that a full table looks at. */
static inline void note_use(struct weir_gate *gate, struct weir_key *key)
{
    if (in_use_order(key) && gate->by_use.previous != &key->used) {
        weir_list_unlink(&key->used);
        weir_list_push_back(&gate->by_use, &key->used);
    }
}

/* Moves a key from the front of T1 to T3. False if it is not pinned. The key leaves the list before
 * it has the flag, because from then on the thread that gives it back may push it. */
static bool set_aside(struct weir_gate *gate, struct weir_key *key)
{
    weir_list_unlink(&key->used);
    uint32_t pins = __atomic_load_n(&key->pins, __ATOMIC_ACQUIRE);
    do {
        if (pins == 0) {
            weir_list_push_front(&gate->by_use, &key->used);
            return false;
        }
    } while (!__atomic_compare_exchange_n(&key->pins, &pins, pins | PIN_ASIDE, true,
                                          __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
    return true;
}

/* Moves keys of T4 to T1, in the order in which they were given back; those that have been pinned
 * again, back to T3. Of more keys than LOOKS_AT_ONCE, those that were given back last go to the end
 * of T1 now; the others go to its front in later calls, because they were used before the rest. */
static void collect_returned(struct weir_gate *gate)
{
    struct weir_link *place = &gate->by_use; /* each key goes before those given back after it */
    if (gate->popped == NULL && __atomic_load_n(&gate->returned, __ATOMIC_RELAXED) != NULL) {
        gate->popped = __atomic_exchange_n(&gate->returned, NULL, __ATOMIC_ACQUIRE);
        place = gate->by_use.previous;
    }
    for (uint32_t i = 0; i < LOOKS_AT_ONCE && gate->popped != NULL; i++) {
        struct weir_key *key = gate->popped;
        gate->popped = key->next_returned;
        uint32_t pins = __atomic_load_n(&key->pins, __ATOMIC_RELAXED);
        uint32_t count;
        do {
            count = pins & PIN_COUNT;
        } while (!__atomic_compare_exchange_n(&key->pins, &pins, count == 0 ? 0 : count | PIN_ASIDE,
                                              true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
        if (count == 0) {
            weir_list_insert_after(place, &key->used);
        }
    }
}

/* Whether T4 has keys. */
static bool any_returned(const struct weir_gate *gate)
{
    return gate->popped != NULL || __atomic_load_n(&gate->returned, __ATOMIC_RELAXED) != NULL;
}

/* Moves keys whose moment has passed from T2 to T1, but not all of them at once. */
static void collect_rested(struct weir_gate *gate, uint64_t now_ns)
{
    for (int i = 0; i < RESTED_AT_ONCE && weir_heap_next(&gate->by_rest) <= now_ns; i++) {
        struct weir_key *key =
            weir_container_of(weir_heap_top(&gate->by_rest)->place, struct weir_key, rest_place);
        weir_heap_remove(&gate->by_rest, &key->rest_place);
        key->owing = false;
        weir_list_push_back(&gate->by_use, &key->used);
    }
}

/* Moves a key that is not pinned from T1 to T2; without memory to the end of T1. */
static void set_at_rest_later(struct weir_gate *gate, struct weir_key *key, uint64_t rest_ns)
{
    weir_list_unlink(&key->used);
    key->owing = weir_heap_reserve(&gate->by_rest, gate->by_rest.count + 1, gate->allocator);
    if (key->owing) {
        key->rest_place = 0;
        weir_heap_push(&gate->by_rest, rest_ns, key->node.hash, &key->rest_place);
    } else {
        weir_list_push_back(&gate->by_use, &key->used);
    }
}

/* Forgets the key at rest that was taken longest ago, whatever its age; looks at `*looks` keys at
 * most, and takes those off it. A key in debt is judged by the latest time that it has seen, so
 * that a clock that steps back never forgets one too early (G8). */
static enum room forget_oldest(struct weir_gate *gate, uint64_t now_ns, uint32_t *looks)
{
    collect_returned(gate);
    collect_rested(gate, now_ns);
    /* Without memory for the heap, keys in debt stay in the list. Each is looked at once. */
    uint32_t unseen = gate->keys.count;
    for (; *looks > 0 && unseen > 0 && !weir_list_empty(&gate->by_use); --*looks, unseen--) {
        struct weir_key *key = weir_container_of(gate->by_use.next, struct weir_key, used);
        if (set_aside(gate, key)) {
            continue;
        }
        uint64_t seen_ns = key->now_ns > now_ns ? key->now_ns : now_ns;
        uint64_t rest_ns = weir_key_rest_ns(key, seen_ns);
        if (rest_ns <= seen_ns) {
            gate->displaced += !weir_key_forgettable(key, now_ns);
            forget_key(gate, key);
            return ROOM_MADE;
        }
        set_at_rest_later(gate, key, rest_ns);
    }
    bool all = unseen == 0 || weir_list_empty(&gate->by_use);
    return all && !any_returned(gate) && weir_heap_next(&gate->by_rest) > now_ns ? ROOM_NONE
                                                                                 : ROOM_LATER;
}

/* Makes room for a new key in a full table. False: there is none. If the bound was lowered or
 * passed, two keys go for each new one. */
static bool make_room(struct weir_gate *gate, uint64_t now_ns)
{
    uint32_t looks = LOOKS_AT_ONCE;
    enum room room = forget_oldest(gate, now_ns, &looks);
    if (room == ROOM_MADE && gate->keys.count >= gate->keys_max) {
        (void)forget_oldest(gate, now_ns, &looks);
    }
    return room == ROOM_MADE ||
           (room == ROOM_LATER &&
            gate->keys.count < gate->keys_max + gate->keys_max / KEYS_OVER_PART);
}

/* ---- taking ---- */

enum weir_status weir_gate_take(struct weir_gate *gate, struct weir_slice name, uint64_t now_ns,
                                struct weir_key **result)
{
    if (!name_valid(name)) {
        return WEIR_BAD_NAME;
    }
    uint64_t hash = weir_hash(gate->seed, name);
    struct weir_key *key = find_key(gate, name, hash);
    if (key != NULL) {
        note_use(gate, key);
        *result = weir_key_pin(key);
        return WEIR_OK;
    }
    if (gate->keys.count >= gate->keys_max && !make_room(gate, now_ns)) {
        return WEIR_TOO_MANY_KEYS;
    }
    if (!weir_map_reserve(&gate->keys, gate->allocator)) {
        return WEIR_NO_MEMORY;
    }
    key = create_key(gate, name, hash, now_ns);
    if (key == NULL) {
        return WEIR_NO_MEMORY;
    }
    weir_map_insert(&gate->keys, &key->node, hash);
    weir_list_push_back(&gate->all_keys, &key->link);
    weir_list_push_back(&gate->by_use, &key->used);
    *result = weir_key_pin(key);
    return WEIR_OK;
}

struct weir_key *weir_gate_find(struct weir_gate *gate, struct weir_slice name)
{
    if (!name_valid(name)) {
        return NULL;
    }
    struct weir_key *key = find_key(gate, name, weir_hash(gate->seed, name));
    return key == NULL ? NULL : weir_key_pin(key);
}

struct weir_key *weir_gate_next(struct weir_gate *gate, struct weir_key *key)
{
    struct weir_link *next = key == NULL ? gate->all_keys.next : key->link.next;
    struct weir_key *following = next == &gate->all_keys
                                     ? NULL
                                     : weir_key_pin(weir_container_of(next, struct weir_key, link));
    if (key != NULL) {
        weir_key_give(key);
    }
    return following;
}

uint32_t weir_gate_sweep(struct weir_gate *gate, uint32_t keys_max, uint64_t now_ns)
{
    uint32_t forgotten = 0;
    uint32_t oldest_looks = keys_max < gate->keys.count ? keys_max : gate->keys.count;
    oldest_looks += LOOKS_AT_ONCE; /* a sweep that forgets nothing still gets on */
    collect_returned(gate);
    while (gate->keys.count > gate->keys_max && forgotten < keys_max &&
           forget_oldest(gate, now_ns, &oldest_looks) == ROOM_MADE) {
        forgotten++;
    }
    uint32_t looks = keys_max < gate->keys.count ? keys_max : gate->keys.count;
    while (looks-- > 0) {
        gate->swept = gate->swept->next;
        if (gate->swept == &gate->all_keys) {
            gate->swept = gate->swept->next;
        }
        struct weir_key *key = weir_container_of(gate->swept, struct weir_key, link);
        if (pinned(key) || key->active > 0 || key->share_heap.tickets > 0) {
            continue;
        }
        if (weir_key_forgettable(key, now_ns)) {
            forget_key(gate, key);
            forgotten++;
        } else {
            weir_key_trim(key);
        }
    }
    return forgotten;
}

const uint64_t *weir_gate_seed(const struct weir_gate *gate)
{
    return gate->seed;
}

uint32_t weir_gate_key_count(const struct weir_gate *gate)
{
    return gate->keys.count;
}

void weir_gate_set_keys_max(struct weir_gate *gate, uint32_t keys_max)
{
    assert(keys_max <= WEIR_KEYS_MAX);
    gate->keys_max = keys_max == 0 ? WEIR_KEYS_DEFAULT : keys_max;
}

uint32_t weir_gate_keys_max(const struct weir_gate *gate)
{
    return gate->keys_max;
}

uint64_t weir_gate_displaced(const struct weir_gate *gate)
{
    return gate->displaced;
}

uint64_t weir_gate_room_ns(const struct weir_gate *gate)
{
    bool all = gate->by_rest.count == gate->keys.count;
    return all ? weir_heap_next(&gate->by_rest) : WEIR_NEVER;
}

/* ---- settings ---- */

enum weir_status weir_gate_configure(struct weir_gate *gate, const struct weir_settings *settings)
{
    struct weir_rules *rules;
    enum weir_status status = weir_rules_create(settings, gate->allocator, &rules);
    if (status == WEIR_OK) {
        weir_rules_give(gate->rules);
        gate->rules = rules;
    }
    return status;
}

static void destroy_override(struct weir_gate *gate, struct override *override)
{
    weir_map_remove(&gate->overrides, &override->node);
    weir_list_unlink(&override->link);
    weir_rules_give(override->rules);
    weir_release(gate->allocator, override, sizeof *override + override->name_bytes);
}

/* Without rules yet. Null without memory. */
static struct override *create_override(struct weir_gate *gate, struct weir_slice name,
                                        uint64_t hash)
{
    if (!weir_map_reserve(&gate->overrides, gate->allocator)) {
        return NULL;
    }
    struct override *override =
        weir_allocate_zeroed(gate->allocator, sizeof *override + name.bytes);
    if (override != NULL) {
        override->name_bytes = (uint8_t)name.bytes;
        memcpy(override->name, name.data, name.bytes);
        weir_map_insert(&gate->overrides, &override->node, hash);
        weir_list_push_back(&gate->all_overrides, &override->link);
    }
    return override;
}

enum weir_status weir_gate_override(struct weir_gate *gate, struct weir_slice name,
                                    const struct weir_settings *settings)
{
    if (!name_valid(name)) {
        return WEIR_BAD_NAME;
    }
    uint64_t hash = weir_hash(gate->seed, name);
    struct override *override = find_override(gate, name, hash);
    if (settings == NULL) {
        if (override != NULL) {
            destroy_override(gate, override);
        }
        return WEIR_OK;
    }
    struct weir_rules *rules;
    enum weir_status status = weir_rules_create(settings, gate->allocator, &rules);
    if (status != WEIR_OK) {
        return status;
    }
    if (override == NULL) {
        override = create_override(gate, name, hash);
        if (override == NULL) {
            weir_rules_give(rules);
            return WEIR_NO_MEMORY;
        }
    }
    weir_rules_give(override->rules);
    override->rules = rules;
    return WEIR_OK;
}

enum weir_status weir_gate_apply(struct weir_gate *gate, struct weir_key *key, uint64_t now_ns,
                                 struct weir_news *news)
{
    assert(key->gate == gate);
    weir_key_wake(key, now_ns, news);
    return weir_key_apply(key, rules_for(gate, weir_key_name(key), key->node.hash), news);
}

/* ---- by hand ---- */

void weir_gate_pause(struct weir_gate *gate, bool paused)
{
    gate->paused = paused;
}

bool weir_gate_is_paused(const struct weir_gate *gate)
{
    return gate->paused;
}

void weir_gate_apply_pause(struct weir_gate *gate, struct weir_key *key, uint64_t now_ns,
                           struct weir_news *news)
{
    assert(key->gate == gate);
    weir_key_pause_with_gate(key, gate->paused, now_ns, news);
}

/* ---- the gate's life ---- */

enum weir_status weir_gate_create(const struct weir_gate_options *options,
                                  const struct weir_settings *settings, struct weir_gate **result)
{
    if (options->keys_max > WEIR_KEYS_MAX) {
        return WEIR_BAD_KEYS;
    }
    if (options->key_extra_bytes > WEIR_KEY_EXTRA_MAX) {
        return WEIR_BAD_EXTRA;
    }
    const struct weir_allocator *allocator =
        options->allocator == NULL ? &weir_allocator_libc : options->allocator;
    struct weir_gate *gate = weir_allocate_zeroed(allocator, sizeof *gate);
    if (gate == NULL) {
        return WEIR_NO_MEMORY;
    }
    gate->allocator = allocator;
    memcpy(gate->seed, options->seed, sizeof gate->seed);
    weir_gate_set_keys_max(gate, options->keys_max);
    gate->key_extra_bytes = options->key_extra_bytes;
    weir_list_init(&gate->all_keys);
    weir_list_init(&gate->all_overrides);
    weir_list_init(&gate->by_use);
    gate->swept = &gate->all_keys;
    enum weir_status status = weir_gate_configure(gate, settings);
    if (status != WEIR_OK) {
        weir_release(allocator, gate, sizeof *gate);
        return status;
    }
    *result = gate;
    return WEIR_OK;
}

void weir_gate_destroy(struct weir_gate *gate)
{
    if (gate == NULL) {
        return;
    }
    while (any_returned(gate)) {
        collect_returned(gate);
    }
    while (!weir_list_empty(&gate->all_keys)) {
        forget_key(gate, weir_container_of(gate->all_keys.next, struct weir_key, link));
    }
    weir_heap_deinit(&gate->by_rest, gate->allocator);
    while (!weir_list_empty(&gate->all_overrides)) {
        destroy_override(gate, weir_container_of(gate->all_overrides.next, struct override, link));
    }
    weir_map_deinit(&gate->keys, gate->allocator);
    weir_map_deinit(&gate->overrides, gate->allocator);
    weir_rules_give(gate->rules);
    weir_release(gate->allocator, gate, sizeof *gate);
}
