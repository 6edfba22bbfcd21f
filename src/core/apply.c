/* apply.c - a key takes up new settings.
 *
 * In two steps: everything that needs memory is prepared first, and only when all of it is there
 * is anything changed. So a failure leaves the key as it was. */
#include "core/key.h"

#include "base/alloc.h"
#include "core/event.h"
#include "core/tell.h"

#include <assert.h>

/* A bucket's memory that waits for its tenant. */
struct spare {
    struct spare *next;
};

/* All that the change may need. */
struct preparation {
    const struct weir_settings *settings;
    struct weir_lane **lanes; /* the new array: those of the settings, then the retired */
    uint32_t lane_capacity;
    bool fresh[WEIR_LANES_MAX]; /* which of the lanes were made for this */
    struct weir_lane_memory memory[WEIR_LANES_MAX];
    struct spare *spares;
    struct weir_event_ring *recorder;
    struct weir_key_estimates *meter;
};

static struct weir_lane *find_lane(const struct weir_key *key, uint16_t id)
{
    for (uint32_t i = 0; i < key->lane_total; i++) {
        if (key->lanes[i]->id == id) {
            return key->lanes[i];
        }
    }
    return NULL;
}

static bool prepare_lane(const struct weir_key *key, struct preparation *plan, uint32_t index)
{
    const struct weir_lane_settings *settings = &plan->settings->lanes[index];
    struct weir_lane *lane = find_lane(key, settings->id);
    if (lane == NULL) {
        lane = weir_lane_create(settings, key->allocator);
        if (lane == NULL) {
            return false;
        }
        plan->fresh[index] = true;
    }
    plan->lanes[index] = lane;
    struct weir_lane_memory *memory = &plan->memory[index];
    if (settings->rate_count > 0) {
        memory->buckets =
            weir_allocate(key->allocator, settings->rate_count * sizeof *memory->buckets);
        if (memory->buckets == NULL) {
            return false;
        }
    }
    if (weir_lane_needs_control(lane, settings)) {
        memory->control = weir_allocate_zeroed(key->allocator, sizeof *memory->control);
        return memory->control != NULL;
    }
    return true;
}

static bool prepare_lanes(const struct weir_key *key, struct preparation *plan)
{
    /* Every present lane might be retired. */
    plan->lane_capacity = plan->settings->lane_count + key->lane_total;
    plan->lanes = weir_allocate_zeroed(key->allocator, plan->lane_capacity * sizeof *plan->lanes);
    if (plan->lanes == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < plan->settings->lane_count; i++) {
        if (!prepare_lane(key, plan, i)) {
            return false;
        }
    }
    return true;
}

static const struct weir_tenant_settings *settings_of(const struct weir_rules *rules,
                                                      const struct weir_tenant *tenant)
{
    return weir_rules_tenant(rules, weir_tenant_name(tenant));
}

static bool prepare_tenants(const struct weir_key *key, struct preparation *plan,
                            const struct weir_rules *rules)
{
    for (struct weir_link *at = key->all_tenants.next; at != &key->all_tenants; at = at->next) {
        const struct weir_tenant *tenant = weir_container_of(at, struct weir_tenant, link);
        if (tenant->buckets == NULL && weir_tenant_has_rate(settings_of(rules, tenant))) {
            struct spare *spare = weir_allocate(key->allocator, sizeof(struct weir_tenant_buckets));
            if (spare == NULL) {
                return false;
            }
            spare->next = plan->spares;
            plan->spares = spare;
        }
    }
    return true;
}

/* Room for all turns in the heaps that the new bounds need. */
static bool prepare_crowds(struct weir_key *key, const struct weir_settings *settings)
{
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        struct weir_share_heap *share_heap = &key->priorities[i].share_heap;
        if (!weir_share_heap_reserve(share_heap, &settings->line_by_priority[i],
                                     share_heap->members, key->allocator)) {
            return false;
        }
    }
    return weir_share_heap_reserve(&key->share_heap, &settings->line, key->share_heap.members,
                                   key->allocator);
}

static bool recorder_stays(const struct weir_key *key, const struct weir_settings *settings)
{
    uint32_t slot_count = key->recorder == NULL ? 0 : key->recorder->slot_count;
    return slot_count == settings->recorder_events;
}

static bool prepare_recorder(const struct weir_key *key, struct preparation *plan)
{
    uint32_t slot_count = plan->settings->recorder_events;
    if (recorder_stays(key, plan->settings) || slot_count == 0) {
        return true;
    }
    plan->recorder = weir_recorder_create(slot_count, key->allocator);
    return plan->recorder != NULL;
}

static bool meter_stays(const struct weir_key *key, const struct weir_settings *settings)
{
    return (key->meter != NULL) == (settings->estimate != WEIR_ESTIMATE_NONE);
}

static bool prepare_meter(const struct weir_key *key, struct preparation *plan)
{
    if (meter_stays(key, plan->settings) || plan->settings->estimate == WEIR_ESTIMATE_NONE) {
        return true;
    }
    plan->meter = weir_allocate_zeroed(key->allocator, sizeof *plan->meter);
    return plan->meter != NULL;
}

static void abandon(const struct weir_key *key, struct preparation *plan)
{
    const struct weir_settings *settings = plan->settings;
    for (uint32_t i = 0; i < settings->lane_count; i++) {
        if (plan->fresh[i]) {
            weir_lane_destroy(plan->lanes[i], key->allocator);
        }
        const struct weir_lane_memory *memory = &plan->memory[i];
        weir_release(key->allocator, memory->buckets,
                     settings->lanes[i].rate_count * sizeof *memory->buckets);
        weir_release(key->allocator, memory->control, sizeof *memory->control);
    }
    weir_release(key->allocator, plan->lanes, plan->lane_capacity * sizeof *plan->lanes);
    while (plan->spares != NULL) {
        struct spare *spare = plan->spares;
        plan->spares = spare->next;
        weir_release(key->allocator, spare, sizeof(struct weir_tenant_buckets));
    }
    weir_recorder_destroy(plan->recorder, key->allocator);
    weir_release(key->allocator, plan->meter, sizeof *plan->meter);
}

static bool still_named(const struct preparation *plan, const struct weir_lane *lane)
{
    for (uint32_t i = 0; i < plan->settings->lane_count; i++) {
        if (plan->lanes[i] == lane) {
            return true;
        }
    }
    return false;
}

static void change_lanes(struct weir_key *key, struct preparation *plan, struct weir_news *news)
{
    uint32_t total = plan->settings->lane_count;
    for (uint32_t i = 0; i < key->lane_total; i++) {
        struct weir_lane *lane = key->lanes[i];
        if (still_named(plan, lane)) {
            continue;
        }
        if (lane->active == 0) {
            weir_lane_destroy(lane, key->allocator);
        } else {
            weir_lane_retire(lane);
            plan->lanes[total++] = lane;
        }
    }
    for (uint32_t i = 0; i < plan->settings->lane_count; i++) {
        struct weir_lane *lane = plan->lanes[i];
        weir_lane_override(lane, &key->override, weir_key_is_paused(key)); /* if it is new */
        uint32_t before = weir_lane_limit(lane);
        weir_lane_configure(lane, &plan->settings->lanes[i], plan->memory[i],
                            (struct weir_change){key->now_ns, key->settings_epoch}, key->allocator);
        weir_tell_limit(key, news, lane, before);
    }
    weir_release(key->allocator, key->lanes, key->lane_capacity * sizeof *key->lanes);
    key->lanes = plan->lanes;
    key->lane_capacity = plan->lane_capacity;
    key->lane_count = plan->settings->lane_count;
    key->lane_total = total;
}

static void disband_crowds(struct weir_key *key, const struct weir_settings *settings)
{
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        weir_share_heap_disband(&key->priorities[i].share_heap);
        key->priorities[i].share_heap.bound = &settings->line_by_priority[i];
    }
    weir_share_heap_disband(&key->share_heap);
    key->share_heap.bound = &settings->line;
}

static struct weir_tenant_buckets *take_spare(struct preparation *plan)
{
    struct spare *spare = plan->spares;
    assert(spare != NULL);
    plan->spares = spare->next;
    return (struct weir_tenant_buckets *)(void *)spare;
}

/* Out of the ready heaps and in again, so that their weights are those of the settings, and what
 * held or parked the tenant is checked again. */
static void change_tenant(struct weir_key *key, struct preparation *plan,
                          const struct weir_tenant_settings *settings, struct weir_tenant *tenant)
{
    bool needs_buckets = tenant->buckets == NULL && weir_tenant_has_rate(settings);
    weir_line_free(key, tenant);
    weir_line_hold(key, tenant);
    weir_tenant_configure(key, tenant, settings, needs_buckets ? take_spare(plan) : NULL);
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        weir_share_heap_rejoin(&key->priorities[i].share_heap, &tenant->turns[i].stake, tenant);
    }
    weir_share_heap_rejoin(&key->share_heap, &tenant->stake, tenant);
    weir_line_free(key, tenant);
}

static void change_cycle(struct weir_key *key, const struct weir_rules *rules)
{
    const uint32_t *weights = rules->settings.priority_weights;
    if (key->rules == NULL || memcmp(key->rules->settings.priority_weights, weights,
                                     sizeof rules->settings.priority_weights) != 0) {
        key->cursor = 0;
    }
}

/* See plain.h. */
static bool is_simple(const struct weir_key *key)
{
    const struct weir_lane *lane = key->lanes[0];
    return key->lane_count == 1 && lane->bucket_count == 0 && lane->breaker.failures == 0 &&
           !key->controlled && key->meter == NULL && key->rules->settings.lease_ns == WEIR_NEVER &&
           key->recorder == NULL;
}

static bool is_controlled(const struct weir_key *key)
{
    for (uint32_t i = 0; i < key->lane_total; i++) {
        if (key->lanes[i]->control != NULL) {
            return true;
        }
    }
    return false;
}

static void change_meter(struct weir_key *key, const struct preparation *plan)
{
    if (!meter_stays(key, plan->settings)) {
        weir_release(key->allocator, key->meter, sizeof *key->meter);
        key->meter = plan->meter;
    }
    if (plan->meter != NULL) {
        key->meter->since_epoch = key->settings_epoch;
    }
}

static void change(struct weir_key *key, struct preparation *plan, struct weir_rules *rules,
                   struct weir_news *news)
{
    key->settings_epoch++;
    if (!recorder_stays(key, plan->settings)) {
        weir_recorder_destroy(key->recorder, key->allocator);
        key->recorder = plan->recorder;
    }
    change_meter(key, plan);
    change_lanes(key, plan, news);
    key->controlled = is_controlled(key);
    key->awaiting = key->controlled; /* new ones do not know it yet */
    disband_crowds(key, plan->settings);
    for (struct weir_link *at = key->all_tenants.next; at != &key->all_tenants; at = at->next) {
        struct weir_tenant *tenant = weir_container_of(at, struct weir_tenant, link);
        change_tenant(key, plan, settings_of(rules, tenant), tenant);
    }
    assert(plan->spares == NULL);
    change_cycle(key, rules);
    weir_rules_give(key->rules);
    key->rules = weir_rules_take(rules);
    key->simple = is_simple(key);
}

enum weir_status weir_key_apply(struct weir_key *key, struct weir_rules *rules,
                                struct weir_news *news)
{
    struct preparation plan = {.settings = &rules->settings};
    bool ready = prepare_lanes(key, &plan) && prepare_tenants(key, &plan, rules) &&
                 prepare_crowds(key, plan.settings) && prepare_recorder(key, &plan) &&
                 prepare_meter(key, &plan);
    if (!ready) {
        abandon(key, &plan);
        return WEIR_NO_MEMORY;
    }
    change(key, &plan, rules, news);
    weir_key_serve(key, news);
    return WEIR_OK;
}
