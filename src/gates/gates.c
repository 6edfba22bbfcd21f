/* gates.c - all gates of the program: their tables of keys and settings, and what can be asked of a
 * key.
 *
 * Gates are added by one thread at a time and never go. Everything else may be called from any
 * thread, without a lock held; each function takes the lock of the gate, of the key or both. */
#include "gates/gates_internal.h"

#include "base/alloc.h"
#include "base/slice.h"

#include <assert.h>

/* How many keys of each gate a sweep looks at. */
#define SWEEP_KEYS 128

/* Goes over all keys of a gate. The table is let go of between two of them. */
static struct weir_key *next_key(struct weir_gate_entry *entry, struct weir_key *key)
{
    pthread_mutex_lock(&entry->lock);
    struct weir_key *next = weir_gate_next(entry->gate, key);
    pthread_mutex_unlock(&entry->lock);
    return next;
}

struct weir_key *weir_gates_next(struct weir_gates *gates, uint32_t gate, struct weir_key *key)
{
    return next_key(gates->entries[gate], key);
}

struct weir_key *weir_gates_find(struct weir_gates *gates, uint32_t gate, struct weir_slice name)
{
    struct weir_gate_entry *entry = gates->entries[gate];
    pthread_mutex_lock(&entry->lock);
    struct weir_key *key = weir_gate_find(entry->gate, name);
    pthread_mutex_unlock(&entry->lock);
    return key;
}

struct weir_key_stats weir_gates_stats(const struct weir_key *key)
{
    weir_key_lock(key);
    struct weir_key_stats stats = weir_key_get_stats(key);
    weir_key_unlock(key);
    return stats;
}

struct weir_key_stats weir_gates_measure(const struct weir_key *key, struct weir_key_record *record)
{
    const struct weir_key_state *state = weir_key_state_of(key);
    weir_key_lock(key);
    struct weir_key_stats stats = weir_key_get_stats(key);
    *record = (struct weir_key_record){state->waits, state->lane_names};
    weir_key_unlock(key);
    return stats;
}

bool weir_gates_lane(const struct weir_key *key, uint32_t index, uint64_t now_ns,
                     struct weir_lane_stats *stats)
{
    weir_key_lock(key);
    bool found = weir_key_get_lane(key, index, now_ns, stats);
    weir_key_unlock(key);
    return found;
}

bool weir_gates_control(const struct weir_key *key, uint32_t index, uint64_t now_ns,
                        struct weir_control_stats *stats)
{
    weir_key_lock(key);
    bool found = weir_key_get_control(key, index, now_ns, stats);
    weir_key_unlock(key);
    return found;
}

void weir_gates_set_make_room(struct weir_gates *gates, weir_gates_make_room *make_room,
                              void *context)
{
    gates->make_room = make_room;
    gates->make_room_context = context;
}

const struct weir_lane_names *weir_gates_lane_names(const struct weir_gates *gates)
{
    return &gates->lane_names;
}

uint32_t weir_gates_add_lane_names(struct weir_gates *gates,
                                   const struct weir_lane_name_spec *names)
{
    return weir_lane_names_add(&gates->lane_names, gates->options.allocator, names);
}

void weir_gates_line(const struct weir_key *key, uint64_t now_ns, struct weir_place *places,
                     uint32_t places_max,
                     void (*visit)(void *context, const struct weir_place *place,
                                   const struct weir_gate_ticket *gate_ticket),
                     void *context)
{
    weir_key_lock(key);
    uint32_t count = weir_key_line(key, now_ns, places, places_max);
    for (uint32_t i = 0; i < count; i++) {
        visit(context, &places[i],
              weir_container_of(places[i].ticket, struct weir_gate_ticket, ticket));
    }
    weir_key_unlock(key);
}

void weir_gates_sweep(struct weir_gates *gates, uint64_t now_ns)
{
    for (uint32_t i = 0; i < weir_gates_count(gates); i++) {
        pthread_mutex_lock(&gates->entries[i]->lock);
        weir_gate_sweep(gates->entries[i]->gate, SWEEP_KEYS, now_ns);
        pthread_mutex_unlock(&gates->entries[i]->lock);
    }
}

static enum weir_status apply(struct weir_gates *gates, struct weir_gate_entry *entry,
                              struct weir_key *key, uint32_t loop_index)
{
    struct weir_key_work work = weir_key_work_begin(gates, loop_index);
    pthread_mutex_lock(&entry->lock);
    weir_key_lock(key);
    enum weir_status status = weir_gate_apply(
        entry->gate, key, weir_gates_loop_of(gates, loop_index)->now_ns, &work.news);
    weir_key_work_collect(key, &work);
    weir_key_unlock(key);
    pthread_mutex_unlock(&entry->lock);
    weir_key_work_run(key, &work);
    return status;
}

enum weir_status weir_gates_configure(struct weir_gates *gates, uint32_t gate,
                                      const struct weir_settings *settings, uint32_t loop_index)
{
    struct weir_gate_entry *entry = gates->entries[gate];
    pthread_mutex_lock(&entry->lock);
    enum weir_status status = weir_gate_configure(entry->gate, settings);
    pthread_mutex_unlock(&entry->lock);
    if (status != WEIR_OK) {
        return status;
    }
    for (struct weir_key *key = next_key(entry, NULL); key != NULL; key = next_key(entry, key)) {
        enum weir_status applied = apply(gates, entry, key, loop_index);
        status = status == WEIR_OK ? applied : status;
    }
    return status;
}

enum weir_status weir_gates_override(struct weir_gates *gates, uint32_t gate, struct weir_slice key,
                                     const struct weir_settings *settings)
{
    struct weir_gate_entry *entry = gates->entries[gate];
    pthread_mutex_lock(&entry->lock);
    enum weir_status status = weir_gate_override(entry->gate, key, settings);
    pthread_mutex_unlock(&entry->lock);
    return status;
}

void weir_gates_set_keys_max(struct weir_gates *gates, uint32_t gate, uint32_t keys_max)
{
    struct weir_gate_entry *entry = gates->entries[gate];
    pthread_mutex_lock(&entry->lock);
    weir_gate_set_keys_max(entry->gate, keys_max);
    pthread_mutex_unlock(&entry->lock);
}

enum weir_status weir_gates_create(const struct weir_gates_options *options,
                                   struct weir_gates **result)
{
    assert(options->loop_count >= 1);
    assert(options->loop_count <= WEIR_LOOPS_MAX);
    struct weir_gates *gates = weir_allocate_zeroed(options->allocator, sizeof *gates);
    if (gates == NULL) {
        return WEIR_NO_MEMORY;
    }
    gates->staged =
        weir_allocate_zeroed(options->allocator, options->loop_count * sizeof *gates->staged);
    if (gates->staged == NULL) {
        weir_release(options->allocator, gates, sizeof *gates);
        return WEIR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < options->loop_count; i++) {
        struct weir_staged_events *staged = &gates->staged[i];
        weir_event_ring_init(&staged->ring, staged->slots, WEIR_STAGED_EVENTS_MAX,
                             WEIR_EVENTS_STREAM);
    }
    gates->options = *options;
    *result = gates;
    return WEIR_OK;
}

void weir_gates_mend(struct weir_gates *gates, uint32_t gate, struct weir_monotonic_sum_span span,
                     uint64_t counters[WEIR_MONOTONIC_SUM_COUNTERS])
{
    struct weir_gate_entry *entry = gates->entries[gate];
    pthread_mutex_lock(&entry->lock);
    weir_monotonic_sum_mend(&entry->rest, span, counters);
    pthread_mutex_unlock(&entry->lock);
}

struct weir_event_log *weir_gates_event_log(const struct weir_gates *gates)
{
    return gates->options.event_log;
}

uint32_t weir_gates_loop_count(const struct weir_gates *gates)
{
    return gates->options.loop_count;
}

struct weir_loop *weir_gates_loop(const struct weir_gates *gates, uint32_t index)
{
    assert(index < gates->options.loop_count);
    return weir_gates_loop_of(gates, index);
}

uint32_t weir_gates_count(const struct weir_gates *gates)
{
    return atomic_load_explicit(&gates->count, memory_order_acquire);
}

struct weir_slice weir_gates_name(const struct weir_gates *gates, uint32_t gate)
{
    const struct weir_gate_entry *entry = gates->entries[gate];
    return (struct weir_slice){entry->name, entry->name_bytes};
}

void weir_gates_set_a2a(struct weir_gates *gates, uint32_t gate, bool speaks)
{
    atomic_store_explicit(&gates->entries[gate]->a2a, speaks, memory_order_relaxed);
}

bool weir_gates_speak_a2a(const struct weir_gates *gates, uint32_t gate)
{
    return atomic_load_explicit(&gates->entries[gate]->a2a, memory_order_relaxed);
}

static enum weir_status make_entry(const struct weir_gates *gates, struct weir_slice name,
                                   struct weir_gate_entry **result)
{
    const struct weir_gates_options *options = &gates->options;
    struct weir_settings none = {0};
    struct weir_gate_options each = {.allocator = options->allocator,
                                     .seed = {options->seed[0], options->seed[1]},
                                     .keys_max = options->keys_max,
                                     .key_extra_bytes =
                                         sizeof(struct weir_key_state) +
                                         options->loop_count * sizeof(struct weir_key_alarm)};
    struct weir_gate_entry *entry =
        weir_allocate_zeroed(options->allocator, sizeof *entry + name.bytes);
    if (entry == NULL) {
        return WEIR_NO_MEMORY;
    }
    enum weir_status status = weir_gate_create(&each, &none, &entry->gate);
    if (status != WEIR_OK) {
        weir_release(options->allocator, entry, sizeof *entry + name.bytes);
        return status;
    }
    pthread_mutex_init(&entry->lock, NULL);
    weir_list_init(&entry->overrides);
    entry->name_bytes = name.bytes;
    memcpy(entry->name, name.data, name.bytes);
    *result = entry;
    return WEIR_OK;
}

enum weir_status weir_gates_add(struct weir_gates *gates, struct weir_slice name, uint32_t *number)
{
    uint32_t count = weir_gates_count(gates);
    for (uint32_t i = 0; i < count; i++) {
        if (weir_slice_equal(weir_gates_name(gates, i), name)) {
            *number = i;
            return WEIR_OK;
        }
    }
    if (count == WEIR_GATES_MAX) {
        return WEIR_TOO_MANY_GATES;
    }
    enum weir_status status = make_entry(gates, name, &gates->entries[count]);
    if (status == WEIR_OK) {
        *number = count;
        atomic_store_explicit(&gates->count, count + 1, memory_order_release);
    }
    return status;
}

/* Timers that no longer matter may still be set. */
static void disarm_all(const struct weir_gates *gates, struct weir_gate_entry *entry)
{
    for (struct weir_key *key = next_key(entry, NULL); key != NULL; key = next_key(entry, key)) {
        for (uint32_t i = 0; i < gates->options.loop_count; i++) {
            struct weir_key_alarm *alarm = &weir_key_state_of(key)->alarms[i];
            if (alarm->key != NULL) {
                weir_key_alarm_disarm(alarm);
            }
        }
    }
}

void weir_gates_destroy(struct weir_gates *gates)
{
    if (gates == NULL) {
        return;
    }
    const struct weir_allocator *allocator = gates->options.allocator;
    for (uint32_t i = 0; i < weir_gates_count(gates); i++) {
        struct weir_gate_entry *entry = gates->entries[i];
        disarm_all(gates, entry);
        weir_gates_drop_overrides(gates, entry);
        weir_gate_destroy(entry->gate);
        pthread_mutex_destroy(&entry->lock);
        weir_release(allocator, entry, sizeof *entry + entry->name_bytes);
    }
    weir_lane_names_deinit(&gates->lane_names, allocator);
    weir_release(allocator, gates->staged, gates->options.loop_count * sizeof *gates->staged);
    weir_release(allocator, gates, sizeof *gates);
}
