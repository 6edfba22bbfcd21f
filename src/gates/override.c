/* override.c - overrides by hand: kept in a list for each gate, under the gate's lock, with a pin
 * of each key that has one.
 *
 * Any thread may call these. The gate's lock comes before the key's, as everywhere; what a change
 * admits is posted after both are let go. */
#include "gates/override.h"

#include "base/alloc.h"
#include "base/slice.h"
#include "gates/gates_internal.h"

/* A key that has an override; in its gate's list. */
struct key_override {
    struct weir_link link;
    struct weir_key *key; /* pinned */
};

static struct key_override *override_of_link(struct weir_link *link)
{
    return weir_container_of(link, struct key_override, link);
}

static struct key_override *find_key_override(const struct weir_gate_entry *entry,
                                              struct weir_slice name)
{
    const struct weir_link *list = &entry->overrides;
    for (struct weir_link *at = list->next; at != list; at = at->next) {
        struct key_override *found = override_of_link(at);
        if (weir_slice_equal(weir_key_name(found->key), name)) {
            return found;
        }
    }
    return NULL;
}

/* With the key that it pins. Under the gate's lock. */
static enum weir_status add_key_override(struct weir_gates *gates, struct weir_gate_entry *entry,
                                         struct weir_slice name, uint64_t now_ns,
                                         struct key_override **result)
{
    if (atomic_fetch_add(&gates->override_count, 1) >= WEIR_OVERRIDES_MAX) {
        atomic_fetch_sub(&gates->override_count, 1);
        return WEIR_TOO_MANY_OVERRIDES;
    }
    struct key_override *added = weir_allocate_zeroed(gates->options.allocator, sizeof *added);
    enum weir_status status =
        added == NULL ? WEIR_NO_MEMORY : weir_gate_take(entry->gate, name, now_ns, &added->key);
    if (status != WEIR_OK) {
        weir_release(gates->options.allocator, added, sizeof *added);
        atomic_fetch_sub(&gates->override_count, 1);
        return status;
    }
    weir_list_push_back(&entry->overrides, &added->link);
    entry->override_count++;
    *result = added;
    return WEIR_OK;
}

/* Takes it out of the list. The pin of its key passes to the caller. */
static void remove_key_override(struct weir_gates *gates, struct weir_gate_entry *entry,
                                struct key_override *removed)
{
    weir_list_unlink(&removed->link);
    entry->override_count--;
    atomic_fetch_sub(&gates->override_count, 1);
    weir_release(gates->options.allocator, removed, sizeof *removed);
}

static struct weir_override changed(struct weir_override override,
                                    const struct weir_override_change *change)
{
    if (change->sets_paused) {
        override.paused = change->paused;
    }
    if (change->sets_limit) {
        override.limited = change->limited;
        override.limit = change->limited ? change->limit : 0;
    }
    return override;
}

/* Whether the change can do nothing at a key without an override. */
static bool only_takes_back(const struct weir_override_change *change)
{
    return !(change->sets_paused && change->paused) && !(change->sets_limit && change->limited);
}

enum weir_status weir_gates_change_override(struct weir_gates *gates, uint32_t gate,
                                            struct weir_slice name,
                                            const struct weir_override_change *change,
                                            uint32_t loop_index, struct weir_override *now)
{
    struct weir_gate_entry *entry = gates->entries[gate];
    uint64_t now_ns = weir_gates_loop_of(gates, loop_index)->now_ns;
    struct weir_key_work work = weir_key_work_begin(gates, loop_index);
    enum weir_status status = WEIR_OK;
    *now = (struct weir_override){0};
    pthread_mutex_lock(&entry->lock);
    struct key_override *found = find_key_override(entry, name);
    if (found == NULL && !only_takes_back(change)) {
        status = add_key_override(gates, entry, name, now_ns, &found);
    }
    if (found == NULL) {
        pthread_mutex_unlock(&entry->lock);
        return status;
    }
    struct weir_key *key = weir_key_pin(found->key); /* until the work is done */
    weir_key_lock(key);
    weir_key_state_of(key)->gate = gate;
    struct weir_override wanted = changed(weir_key_get_override(key), change);
    status = weir_key_set_override(key, &wanted, now_ns, &work.news);
    *now = weir_key_get_override(key);
    weir_key_work_collect(key, &work);
    weir_key_unlock(key);
    bool ends = !now->paused && !now->limited;
    if (ends) {
        remove_key_override(gates, entry, found);
    }
    pthread_mutex_unlock(&entry->lock);
    weir_key_work_run(key, &work);
    if (ends) {
        weir_key_give(key); /* the pin of the list */
    }
    weir_key_give(key);
    return status;
}

void weir_gates_pause(struct weir_gates *gates, uint32_t gate, bool paused, uint32_t loop_index)
{
    struct weir_gate_entry *entry = gates->entries[gate];
    pthread_mutex_lock(&entry->lock);
    weir_gate_pause(entry->gate, paused);
    pthread_mutex_unlock(&entry->lock);
    for (struct weir_key *key = weir_gates_next(gates, gate, NULL); key != NULL;
         key = weir_gates_next(gates, gate, key)) {
        struct weir_key_work work = weir_key_work_begin(gates, loop_index);
        pthread_mutex_lock(&entry->lock);
        weir_key_lock(key);
        weir_gate_apply_pause(entry->gate, key, weir_gates_loop_of(gates, loop_index)->now_ns,
                              &work.news);
        weir_key_work_collect(key, &work);
        weir_key_unlock(key);
        pthread_mutex_unlock(&entry->lock);
        weir_key_work_run(key, &work);
    }
}

bool weir_gates_is_paused(const struct weir_gates *gates, uint32_t gate)
{
    struct weir_gate_entry *entry = gates->entries[gate];
    pthread_mutex_lock(&entry->lock);
    bool paused = weir_gate_is_paused(entry->gate);
    pthread_mutex_unlock(&entry->lock);
    return paused;
}

struct weir_override weir_gates_override_of(const struct weir_key *key, bool *paused)
{
    weir_key_lock(key);
    struct weir_override override = weir_key_get_override(key);
    *paused = weir_key_is_paused(key);
    weir_key_unlock(key);
    return override;
}

uint32_t weir_gates_override_count(const struct weir_gates *gates, uint32_t gate)
{
    struct weir_gate_entry *entry = gates->entries[gate];
    pthread_mutex_lock(&entry->lock);
    uint32_t count = entry->override_count;
    pthread_mutex_unlock(&entry->lock);
    return count;
}

struct weir_key *weir_gates_overridden(struct weir_gates *gates, uint32_t gate, uint32_t index)
{
    struct weir_gate_entry *entry = gates->entries[gate];
    struct weir_key *key = NULL;
    pthread_mutex_lock(&entry->lock);
    if (index < entry->override_count) {
        struct weir_link *at = entry->overrides.next;
        for (uint32_t i = 0; i < index; i++) {
            at = at->next;
        }
        key = weir_key_pin(override_of_link(at)->key);
    }
    pthread_mutex_unlock(&entry->lock);
    return key;
}

void weir_gates_drop_overrides(struct weir_gates *gates, struct weir_gate_entry *entry)
{
    while (!weir_list_empty(&entry->overrides)) {
        struct key_override *last = override_of_link(entry->overrides.next);
        struct weir_key *key = last->key;
        remove_key_override(gates, entry, last);
        weir_key_give(key);
    }
}
