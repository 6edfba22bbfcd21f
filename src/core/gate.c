#include "weir/gate.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/slice.h"
#include "core/key.h"

#include <assert.h>

/* How many keys are looked at for one to forget when the gate is full. */
#define SWEEP_AT_FULL 64

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
    struct weir_link *swept; /* the key that was looked at last, or the list's head */
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
    return (sizeof(struct weir_key) + name_bytes + align - 1) / align * align;
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
    struct weir_news nobody = {0};
    if (weir_key_apply(key, rules_for(gate, name, hash), &nobody) != WEIR_OK) {
        destroy_key(gate, key);
        return NULL;
    }
    return key;
}

static void forget_key(struct weir_gate *gate, struct weir_key *key)
{
    if (gate->swept == &key->link) {
        gate->swept = key->link.previous;
    }
    weir_map_remove(&gate->keys, &key->node);
    weir_list_unlink(&key->link);
    destroy_key(gate, key);
}

struct weir_key *weir_key_pin(struct weir_key *key)
{
    __atomic_add_fetch(&key->pins, 1, __ATOMIC_RELAXED);
    return key;
}

void weir_key_give(struct weir_key *key)
{
    /* Releases what was done at the key to whoever finds it without pins. */
    uint32_t before = __atomic_fetch_sub(&key->pins, 1, __ATOMIC_RELEASE);
    assert(before > 0);
}

static bool pinned(const struct weir_key *key)
{
    return __atomic_load_n(&key->pins, __ATOMIC_ACQUIRE) > 0;
}

enum weir_status weir_gate_take(struct weir_gate *gate, struct weir_slice name, uint64_t now_ns,
                                struct weir_key **result)
{
    if (!name_valid(name)) {
        return WEIR_BAD_NAME;
    }
    uint64_t hash = weir_hash(gate->seed, name);
    struct weir_key *key = find_key(gate, name, hash);
    if (key != NULL) {
        *result = weir_key_pin(key);
        return WEIR_OK;
    }
    if (gate->keys.count >= gate->keys_max && weir_gate_sweep(gate, SWEEP_AT_FULL, now_ns) == 0) {
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
    uint32_t looks = keys_max < gate->keys.count ? keys_max : gate->keys.count;
    while (looks-- > 0) {
        gate->swept = gate->swept->next;
        if (gate->swept == &gate->all_keys) {
            gate->swept = gate->swept->next;
        }
        struct weir_key *key = weir_container_of(gate->swept, struct weir_key, link);
        if (pinned(key) || key->active > 0 || key->crowd.tickets > 0) {
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
    gate->keys_max = options->keys_max == 0 ? WEIR_KEYS_DEFAULT : options->keys_max;
    gate->key_extra_bytes = options->key_extra_bytes;
    weir_list_init(&gate->all_keys);
    weir_list_init(&gate->all_overrides);
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
    while (!weir_list_empty(&gate->all_keys)) {
        struct weir_key *key = weir_container_of(gate->all_keys.next, struct weir_key, link);
        assert(!pinned(key));
        forget_key(gate, key);
    }
    while (!weir_list_empty(&gate->all_overrides)) {
        destroy_override(gate, weir_container_of(gate->all_overrides.next, struct override, link));
    }
    weir_map_deinit(&gate->keys, gate->allocator);
    weir_map_deinit(&gate->overrides, gate->allocator);
    weir_rules_give(gate->rules);
    weir_release(gate->allocator, gate, sizeof *gate);
}
