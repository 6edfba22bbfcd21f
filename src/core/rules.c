/* rules.c - settings from outside: each limit is checked with a status of its own, defaults are
 * filled in, and everything is copied into one block that keys share. Only the count of references
 * may be changed by several threads. */
#include "core/rules.h"

#include "base/alloc.h"
#include "core/bucket.h"
#include "core/control.h"

#include <assert.h>

const uint32_t weir_default_weights[WEIR_PRIORITY_COUNT] = {
    [WEIR_PRIORITY_HIGH] = 4, [WEIR_PRIORITY_NORMAL] = 3, [WEIR_PRIORITY_LOW] = 1};

static const struct weir_lane_settings default_lane = {.limit = WEIR_LIMIT_DEFAULT};

static bool duration_valid(uint64_t duration_ns)
{
    return duration_ns <= WEIR_DURATION_MAX_NS || duration_ns == WEIR_NEVER;
}

static bool bound_valid(const struct weir_bound *bound)
{
    return bound->tickets <= WEIR_TICKETS_MAX && bound->cost <= WEIR_LINE_COST_MAX;
}

static enum weir_status check_lane(const struct weir_lane_settings *lane)
{
    if (lane->limit > WEIR_LIMIT_MAX) {
        return WEIR_BAD_LIMIT;
    }
    if (lane->rate_count > WEIR_RATES_MAX) {
        return WEIR_BAD_RATE;
    }
    for (uint32_t i = 0; i < lane->rate_count; i++) {
        if (!weir_rate_valid(&lane->rates[i])) {
            return WEIR_BAD_RATE;
        }
    }
    if (!weir_control_valid(&lane->control)) {
        return WEIR_BAD_CONTROL;
    }
    const struct weir_breaker_settings *breaker = &lane->breaker;
    uint64_t longest_ns = breaker->pause_max_ns == 0 ? breaker->pause_ns : breaker->pause_max_ns;
    if (breaker->failures > 0 && (breaker->pause_ns == 0 || breaker->pause_ns > longest_ns ||
                                  longest_ns > WEIR_DURATION_MAX_NS)) {
        return WEIR_BAD_BREAKER;
    }
    return WEIR_OK;
}

static enum weir_status check_lanes(const struct weir_settings *settings)
{
    if (settings->lane_count > WEIR_LANES_MAX ||
        (unsigned)settings->choice > WEIR_CHOICE_MOST_ROOM) {
        return WEIR_BAD_LANES;
    }
    for (uint32_t i = 0; i < settings->lane_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (settings->lanes[i].id == settings->lanes[j].id) {
                return WEIR_BAD_LANES;
            }
        }
        enum weir_status status = check_lane(&settings->lanes[i]);
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}

static enum weir_status check_tenant(const struct weir_tenant_settings *tenant)
{
    if (tenant->weight > WEIR_TENANT_WEIGHT_MAX) {
        return WEIR_BAD_WEIGHT;
    }
    if (tenant->limit > WEIR_LIMIT_MAX) {
        return WEIR_BAD_LIMIT;
    }
    if ((tenant->rate.tokens > 0 && !weir_rate_valid(&tenant->rate)) ||
        (tenant->cost.tokens > 0 && !weir_rate_valid(&tenant->cost))) {
        return WEIR_BAD_RATE;
    }
    return WEIR_OK;
}

static int compare_names(struct weir_slice a, struct weir_slice b)
{
    if (a.bytes != b.bytes) {
        return a.bytes < b.bytes ? -1 : 1;
    }
    return a.bytes == 0 ? 0 : memcmp(a.data, b.data, a.bytes);
}

static enum weir_status check_tenants(const struct weir_settings *settings)
{
    if (settings->tenants_max > WEIR_TENANTS_MAX || settings->tenant_count > WEIR_TENANTS_MAX) {
        return WEIR_BAD_TENANTS;
    }
    for (uint32_t i = 0; i < settings->tenant_count; i++) {
        if (settings->tenants[i].name.bytes > WEIR_NAME_BYTES_MAX) {
            return WEIR_BAD_TENANTS;
        }
        enum weir_status status = check_tenant(&settings->tenants[i]);
        if (status != WEIR_OK) {
            return status;
        }
    }
    return check_tenant(&settings->tenant_default);
}

static enum weir_status check_weights(const uint32_t weights[WEIR_PRIORITY_COUNT])
{
    uint32_t named = 0;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        if (weights[i] > WEIR_PRIORITY_WEIGHT_MAX) {
            return WEIR_BAD_WEIGHT;
        }
        named += weights[i] > 0;
    }
    /* A weight of 0 would be starvation; all three of 0 ask for the default. */
    return named == 0 || named == WEIR_PRIORITY_COUNT ? WEIR_OK : WEIR_BAD_WEIGHT;
}

static enum weir_status check_line(const struct weir_settings *settings)
{
    if (!bound_valid(&settings->line) || !bound_valid(&settings->line_by_tenant)) {
        return WEIR_BAD_BOUND;
    }
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        if (!bound_valid(&settings->line_by_priority[i])) {
            return WEIR_BAD_BOUND;
        }
    }
    if (!duration_valid(settings->timeout_ns) || !duration_valid(settings->lease_ns) ||
        !duration_valid(settings->forget_ns)) {
        return WEIR_BAD_DURATION;
    }
    if ((unsigned)settings->estimate >= WEIR_ESTIMATE_COUNT) {
        return WEIR_BAD_CONTROL;
    }
    return settings->recorder_events > WEIR_RECORDER_MAX ? WEIR_BAD_RECORDER : WEIR_OK;
}

/* All but what needs the names in order. */
static enum weir_status check_settings(const struct weir_settings *settings)
{
    enum weir_status status = check_lanes(settings);
    status = status != WEIR_OK ? status : check_weights(settings->priority_weights);
    status = status != WEIR_OK ? status : check_line(settings);
    return status != WEIR_OK ? status : check_tenants(settings);
}

/* Smooth weighted round robin: the slots of each priority are spread evenly over the cycle. */
static void lay_cycle(struct weir_rules *rules)
{
    static const uint8_t order[WEIR_PRIORITY_COUNT] = {WEIR_PRIORITY_HIGH, WEIR_PRIORITY_NORMAL,
                                                       WEIR_PRIORITY_LOW};
    const uint32_t *weights = rules->settings.priority_weights;
    int64_t credit[WEIR_PRIORITY_COUNT] = {0};
    rules->cycle_slots = weights[0] + weights[1] + weights[2];
    for (uint32_t slot = 0; slot < rules->cycle_slots; slot++) {
        uint8_t best = order[0];
        for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
            credit[order[i]] += weights[order[i]];
            if (credit[order[i]] > credit[best]) {
                best = order[i];
            }
        }
        credit[best] -= rules->cycle_slots;
        rules->cycle[slot] = best;
    }
}

static void fill_bound(struct weir_bound *bound)
{
    bound->tickets = bound->tickets == 0 ? UINT32_MAX : bound->tickets;
    bound->cost = bound->cost == 0 ? UINT64_MAX : bound->cost;
}

static void fill_tenant(struct weir_tenant_settings *tenant)
{
    tenant->weight = tenant->weight == 0 ? 1 : tenant->weight;
    tenant->limit = tenant->limit == 0 ? WEIR_LIMIT_NONE : tenant->limit;
}

static void fill_lane(struct weir_lane_settings *lane)
{
    lane->limit = lane->limit == 0 ? WEIR_LIMIT_DEFAULT : lane->limit;
    lane->limit = lane->no_limit ? WEIR_LIMIT_NONE : lane->limit;
    if (lane->breaker.pause_max_ns == 0) {
        lane->breaker.pause_max_ns = lane->breaker.pause_ns;
    }
}

static void fill_settings(struct weir_settings *settings)
{
    if (settings->lane_count == 0) {
        settings->lanes = &default_lane;
        settings->lane_count = 1;
    }
    if (settings->priority_weights[0] == 0) {
        memcpy(settings->priority_weights, weir_default_weights, sizeof weir_default_weights);
    }
    settings->line.tickets =
        settings->line.tickets == 0 ? WEIR_TICKETS_DEFAULT : settings->line.tickets;
    fill_bound(&settings->line);
    fill_bound(&settings->line_by_tenant);
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        fill_bound(&settings->line_by_priority[i]);
    }
    settings->timeout_ns =
        settings->timeout_ns == 0 ? WEIR_TIMEOUT_DEFAULT_NS : settings->timeout_ns;
    settings->lease_ns = settings->lease_ns == 0 ? WEIR_NEVER : settings->lease_ns;
    settings->forget_ns = settings->forget_ns == 0 ? WEIR_FORGET_DEFAULT_NS : settings->forget_ns;
    settings->tenants_max =
        settings->tenants_max == 0 ? WEIR_TENANTS_DEFAULT : settings->tenants_max;
    fill_tenant(&settings->tenant_default);
}

/* Where everything goes in the one block: the struct, then lanes, rates, tenants, names. */
struct layout {
    size_t rates;
    size_t name_bytes;
    size_t total;
};

static struct layout measure(const struct weir_settings *settings)
{
    struct layout layout = {0};
    for (uint32_t i = 0; i < settings->lane_count; i++) {
        layout.rates += settings->lanes[i].rate_count;
    }
    for (uint32_t i = 0; i < settings->tenant_count; i++) {
        layout.name_bytes += settings->tenants[i].name.bytes;
    }
    layout.total = sizeof(struct weir_rules) +
                   settings->lane_count * sizeof(struct weir_lane_settings) +
                   layout.rates * sizeof(struct weir_rate) +
                   settings->tenant_count * sizeof(struct weir_tenant_settings) + layout.name_bytes;
    return layout;
}

static void copy_lanes(struct weir_settings *to, struct weir_lane_settings *lanes,
                       struct weir_rate *rates)
{
    for (uint32_t i = 0; i < to->lane_count; i++) {
        lanes[i] = to->lanes[i];
        fill_lane(&lanes[i]);
        for (uint32_t r = 0; r < lanes[i].rate_count; r++) {
            rates[r] = to->lanes[i].rates[r];
        }
        lanes[i].rates = rates;
        rates += lanes[i].rate_count;
    }
    to->lanes = lanes;
}

static void sift_tenant(struct weir_tenant_settings *tenants, uint32_t root, uint32_t count)
{
    for (uint32_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count && compare_names(tenants[child].name, tenants[child + 1].name) < 0) {
            child++;
        }
        if (compare_names(tenants[root].name, tenants[child].name) >= 0) {
            return;
        }
        struct weir_tenant_settings swap = tenants[root];
        tenants[root] = tenants[child];
        tenants[child] = swap;
        root = child;
    }
}

/* By name, for the search in weir_rules_tenant(). A heap sort, because qsort() may allocate. */
static void sort_tenants(struct weir_tenant_settings *tenants, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;) {
        sift_tenant(tenants, i, count);
    }
    for (uint32_t last = count; last-- > 1;) {
        struct weir_tenant_settings swap = tenants[0];
        tenants[0] = tenants[last];
        tenants[last] = swap;
        sift_tenant(tenants, 0, last);
    }
}

static void copy_tenants(struct weir_settings *to, struct weir_tenant_settings *tenants,
                         char *names)
{
    for (uint32_t i = 0; i < to->tenant_count; i++) {
        tenants[i] = to->tenants[i];
        fill_tenant(&tenants[i]);
        size_t bytes = tenants[i].name.bytes;
        if (bytes > 0) {
            memcpy(names, tenants[i].name.data, bytes);
        }
        tenants[i].name.data = names;
        names += bytes;
    }
    sort_tenants(tenants, to->tenant_count);
    to->tenants = tenants;
}

static bool names_repeat(const struct weir_settings *settings)
{
    for (uint32_t i = 1; i < settings->tenant_count; i++) {
        if (compare_names(settings->tenants[i - 1].name, settings->tenants[i].name) == 0) {
            return true;
        }
    }
    return false;
}

enum weir_status weir_rules_create(const struct weir_settings *settings,
                                   const struct weir_allocator *allocator,
                                   struct weir_rules **result)
{
    enum weir_status status = check_settings(settings);
    if (status != WEIR_OK) {
        return status;
    }
    struct weir_settings filled = *settings;
    fill_settings(&filled);
    struct layout layout = measure(&filled);
    struct weir_rules *rules = weir_allocate_zeroed(allocator, layout.total);
    if (rules == NULL) {
        return WEIR_NO_MEMORY;
    }
    struct weir_lane_settings *lanes = (struct weir_lane_settings *)(rules + 1);
    struct weir_rate *rates = (struct weir_rate *)(lanes + filled.lane_count);
    struct weir_tenant_settings *tenants = (struct weir_tenant_settings *)(rates + layout.rates);

    rules->settings = filled;
    rules->bytes = layout.total;
    rules->allocator = allocator;
    rules->references = 1;
    copy_lanes(&rules->settings, lanes, rates);
    copy_tenants(&rules->settings, tenants, (char *)(tenants + filled.tenant_count));
    lay_cycle(rules);
    if (names_repeat(&rules->settings)) {
        weir_rules_give(rules);
        return WEIR_BAD_TENANTS;
    }
    *result = rules;
    return WEIR_OK;
}

struct weir_rules *weir_rules_take(struct weir_rules *rules)
{
    __atomic_add_fetch(&rules->references, 1, __ATOMIC_RELAXED);
    return rules;
}

void weir_rules_give(struct weir_rules *rules)
{
    if (rules != NULL && __atomic_sub_fetch(&rules->references, 1, __ATOMIC_ACQ_REL) == 0) {
        weir_release(rules->allocator, rules, rules->bytes);
    }
}

const struct weir_tenant_settings *weir_rules_tenant(const struct weir_rules *rules,
                                                     struct weir_slice name)
{
    uint32_t low = 0;
    uint32_t high = rules->settings.tenant_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare_names(rules->settings.tenants[middle].name, name);
        if (order == 0) {
            return &rules->settings.tenants[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return &rules->settings.tenant_default;
}

enum weir_status weir_settings_check(const struct weir_settings *settings)
{
    struct weir_rules *rules;
    enum weir_status status = weir_rules_create(settings, &weir_allocator_libc, &rules);
    if (status == WEIR_OK) {
        weir_rules_give(rules);
    }
    return status;
}
