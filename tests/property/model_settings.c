/* Tenants and lanes as the settings want them, and how a key moves to new settings. */
#include "model_inside.h"

#include <string.h>

static bool same_name(struct weir_slice a, struct weir_slice b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

/* With the default filled in, so that writing it out is no change. */
static struct weir_rate resolved(struct weir_rate rate)
{
    rate.burst = rate.burst != 0 ? rate.burst : rate.tokens;
    return rate;
}

static bool same_rate(const struct weir_rate *a, const struct weir_rate *b)
{
    return a->tokens == b->tokens && a->period_ns == b->period_ns && a->burst == b->burst &&
           a->unit == b->unit && a->settle == b->settle;
}

/* ---- tenants */

static const struct weir_tenant_settings *tenant_settings(const struct model *model,
                                                          struct weir_slice name)
{
    const struct weir_settings *settings = &model->plan.settings;
    for (uint32_t i = 0; i < settings->tenant_count; i++) {
        if (same_name(settings->tenants[i].name, name)) {
            return &settings->tenants[i];
        }
    }
    return &settings->tenant_default;
}

static void follow_rate(struct model *model, struct model_tenant *tenant,
                        const struct weir_rate *wanted)
{
    struct weir_rate rate = resolved(*wanted);
    struct model_bucket *bucket = &tenant->bucket;
    if (rate.tokens == 0) {
        *bucket = (struct model_bucket){0};
    } else if (bucket->rate.tokens == 0 || bucket->rate.unit != rate.unit) {
        *bucket = model_bucket_full(&rate, model->now_ns);
        tenant->bucket_since = model->changes;
    } else {
        model_bucket_change(bucket, &rate, model->now_ns);
    }
}

static void follow_tenant(struct model *model, struct model_tenant *tenant)
{
    const struct weir_tenant_settings *settings = tenant_settings(model, tenant->name);
    tenant->weight = settings->weight;
    tenant->limit = settings->limit;
    tenant->hold = MODEL_READY;
    follow_rate(model, tenant, &settings->rate);
}

static int known_tenant(const struct model *model, struct weir_slice name)
{
    for (int i = 0; i < model->tenant_count; i++) {
        if (model->tenants[i].known && same_name(model->tenants[i].name, name)) {
            return i;
        }
    }
    return MODEL_NONE;
}

static uint32_t tenants_known(const struct model *model)
{
    uint32_t count = 0;
    for (int i = 0; i < model->tenant_count; i++) {
        count += model->tenants[i].known;
    }
    return count;
}

/* Nothing held or waiting, no debt, unused for long enough. */
static bool forgettable(const struct model *model, int index)
{
    const struct model_tenant *tenant = &model->tenants[index];
    uint64_t forget_ns = model->plan.settings.forget_ns;
    forget_ns = forget_ns != 0 ? forget_ns : WEIR_FORGET_DEFAULT_NS;
    if (tenant->active > 0 || model->now_ns - tenant->used_ns < forget_ns ||
        !model_bucket_is_full(&tenant->bucket, model->now_ns)) {
        return false;
    }
    for (uint32_t p = 0; p < WEIR_PRIORITY_COUNT; p++) {
        if (model_first(model, index, p) != MODEL_NONE || tenant->time[p] > model->clock[p]) {
            return false;
        }
    }
    return true;
}

/* When tenants are forgotten is up to the key, so the model is told; it says whether it may. */
static void forget_tenants(struct model *model)
{
    for (int i = 0; i < model->tenant_count; i++) {
        struct model_tenant *tenant = &model->tenants[i];
        if (tenant->known && tenant->gone) {
            model->complaint =
                forgettable(model, i) ? model->complaint : "forgot a tenant too early";
            tenant->known = false;
        }
    }
}

static int new_tenant(struct model *model, struct weir_slice name)
{
    int index = 0;
    while (index < model->tenant_count && model->tenants[index].known) {
        index++;
    }
    model->tenant_count += index == model->tenant_count;
    struct model_tenant *tenant = &model->tenants[index];
    *tenant = (struct model_tenant){
        .name = name, .number = ++model->numbers, .known = true, .used_ns = model->now_ns};
    follow_tenant(model, tenant);
    for (uint32_t p = 0; p < WEIR_PRIORITY_COUNT; p++) {
        tenant->time[p] = model->clock[p]; /* what it would start at, whatever stood here */
    }
    return index;
}

int model_find_tenant(struct model *model, struct weir_slice name)
{
    int index = known_tenant(model, name);
    if (index != MODEL_NONE) {
        return index;
    }
    forget_tenants(model);
    uint32_t most = model->plan.settings.tenants_max;
    most = most != 0 ? most : WEIR_TENANTS_DEFAULT;
    if (tenants_known(model) >= most) {
        for (int i = 0; i < model->tenant_count; i++) {
            if (model->tenants[i].known && forgettable(model, i)) {
                model->complaint = "shared a record though one could be forgotten";
            }
        }
        name = weir_slice_of("_other");
        index = known_tenant(model, name);
    }
    return index != MODEL_NONE ? index : new_tenant(model, name);
}

/* ---- lanes */

struct model_lane *model_find_lane(struct model *model, uint16_t lane_id)
{
    for (int i = 0; i < model->lane_count; i++) {
        if (model->lanes[i].id == lane_id) {
            return &model->lanes[i];
        }
    }
    return NULL;
}

struct model_lane *model_named_lane(struct model *model, uint16_t lane_id)
{
    struct model_lane *lane = model_find_lane(model, lane_id);
    return lane != NULL && !lane->retired ? lane : NULL;
}

void model_remove_lane(struct model *model, struct model_lane *lane)
{
    *lane = model->lanes[--model->lane_count];
}

static void follow_buckets(struct model *model, struct model_lane *lane,
                           const struct weir_lane_settings *settings)
{
    for (uint32_t i = 0; i < settings->rate_count; i++) {
        struct weir_rate rate = resolved(settings->rates[i]);
        if (i >= lane->bucket_count || lane->configured[i].unit != rate.unit) {
            lane->buckets[i] = model_bucket_full(&rate, model->now_ns);
            lane->bucket_since[i] = model->changes;
        } else if (!same_rate(&lane->configured[i], &rate)) {
            model_bucket_change(&lane->buckets[i], &rate, model->now_ns);
        }
        lane->configured[i] = rate;
    }
    lane->bucket_count = settings->rate_count;
}

static void follow_lane(struct model *model, struct model_lane *lane,
                        const struct weir_lane_settings *settings)
{
    uint32_t limit = settings->limit != 0 ? settings->limit : WEIR_LIMIT_DEFAULT;
    limit = settings->no_limit ? WEIR_LIMIT_NONE : limit;
    lane->retired = false;
    if (limit != lane->configured_limit) {
        uint32_t before = model_lane_limit(model, lane);
        bool known = lane->configured_limit != 0;
        lane->limit = limit;
        if (known && before != model_lane_limit(model, lane)) {
            model_tell(model, WEIR_EVENT_LIMIT, NULL, lane, 0, before);
        }
    }
    lane->configured_limit = limit;
    lane->breaker = settings->breaker;
    if (lane->breaker.failures == 0) {
        lane->probing = false;
        lane->failures = 0;
    }
    follow_buckets(model, lane, settings);
}

/* The lanes of the settings in their order, then those that are no longer named. */
static void follow_lanes(struct model *model)
{
    static struct model_lane before[MODEL_LANES_MAX];
    int before_count = model->lane_count;
    memcpy(before, model->lanes, sizeof before);

    const struct weir_settings *settings = &model->plan.settings;
    model->lane_count = 0;
    for (uint32_t i = 0; i < settings->lane_count; i++) {
        struct model_lane lane = {.id = settings->lanes[i].id, .configured_limit = 0};
        for (int j = 0; j < before_count; j++) {
            if (before[j].id == lane.id) {
                lane = before[j];
                before[j].active = 0; /* it is taken up, so the loop below drops it */
            }
        }
        follow_lane(model, &lane, &settings->lanes[i]);
        model->lanes[model->lane_count++] = lane;
    }
    for (int j = 0; j < before_count; j++) {
        if (before[j].active > 0) {
            before[j].retired = true;
            model->lanes[model->lane_count++] = before[j];
        }
    }
}

/* ---- the whole */

/* Nothing held or waiting, nothing owed by a lane or a tenant, no lane paused, and unused for long
 * enough. */
bool model_is_forgettable(const struct model *model, uint64_t now_ns)
{
    uint64_t forget_ns = model->plan.settings.forget_ns;
    forget_ns = forget_ns != 0 ? forget_ns : WEIR_FORGET_DEFAULT_NS;
    bool rests = now_ns >= model->now_ns && now_ns - model->now_ns >= forget_ns;
    for (int i = 0; i < model->ticket_count; i++) {
        enum weir_ticket_state state = model->tickets[i].state;
        rests = rests && state != WEIR_TICKET_WAITING && state != WEIR_TICKET_ADMITTED;
    }
    for (int i = 0; i < model->lane_count; i++) {
        const struct model_lane *lane = &model->lanes[i];
        rests = rests && lane->paused_until_ns <= now_ns;
        for (uint32_t j = 0; j < lane->bucket_count; j++) {
            rests = rests && model_bucket_is_full(&lane->buckets[j], now_ns);
        }
    }
    for (int i = 0; i < model->tenant_count; i++) {
        const struct model_tenant *tenant = &model->tenants[i];
        rests = rests && (!tenant->known || model_bucket_is_full(&tenant->bucket, now_ns));
    }
    return rests;
}

void model_init(struct model *model, const struct plan *plan, int ticket_count, uint64_t now_ns)
{
    memset(model, 0, sizeof *model);
    model->now_ns = now_ns;
    model->ticket_count = ticket_count;
    model->report.wake_ns = WEIR_NEVER;
    plan_copy(&model->plan, plan);
    follow_lanes(model);
}

static bool same_weights(const struct plan *a, const struct plan *b)
{
    for (uint32_t p = 0; p < WEIR_PRIORITY_COUNT; p++) {
        if (model_priority_weight(a, p) != model_priority_weight(b, p)) {
            return false;
        }
    }
    return true;
}

void model_follow(struct model *model, const struct plan *plan)
{
    model->changes++;
    model->cursor = same_weights(&model->plan, plan) ? model->cursor : 0;
    plan_copy(&model->plan, plan);
    follow_lanes(model);
    for (int i = 0; i < model->tenant_count; i++) {
        if (model->tenants[i].known) {
            follow_tenant(model, &model->tenants[i]);
        }
    }
}
