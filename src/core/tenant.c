/* tenant.c - the tenants that a key remembers: found by name, made at their first ticket, given a
 * bucket by their settings, and forgotten once nothing is owed. Runs under its key's lock. */
#include "core/tenant.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/slice.h"
#include "core/key.h"

#include <assert.h>

/* How many tenants are looked at, going round, when a new one comes: two, so that they are
 * forgotten faster than they are made; more when the key is full of them. */
#define FORGET_AT_NEW  2
#define FORGET_AT_FULL 16

/* Whom all tenants beyond the key's maximum are counted as. */
static const struct weir_slice other = {"_other", 6};

static struct weir_tenant *find_hashed(const struct weir_key *key, struct weir_slice name,
                                       uint64_t hash)
{
    struct weir_map_node *node = weir_map_first(&key->tenants, hash);
    for (; node != NULL; node = weir_map_next(node)) {
        struct weir_tenant *tenant = weir_container_of(node, struct weir_tenant, node);
        if (weir_slice_equal(weir_tenant_name(tenant), name)) {
            return tenant;
        }
    }
    return NULL;
}

struct weir_tenant *weir_tenant_find(const struct weir_key *key, struct weir_slice name)
{
    return find_hashed(key, name, weir_hash(weir_gate_seed(key->gate), name));
}

static void destroy(struct weir_key *key, struct weir_tenant *tenant)
{
    assert(tenant->active == 0);
    assert(tenant->stake.tickets == 0);
    weir_line_free(key, tenant);
    weir_map_remove(&key->tenants, &tenant->node);
    weir_list_unlink(&tenant->link);
    if (key->recent == tenant) {
        key->recent = NULL;
    }
    if (tenant->buckets != NULL) {
        weir_release(key->allocator, tenant->buckets, sizeof *tenant->buckets);
    }
    weir_release(key->allocator, tenant, sizeof *tenant + tenant->name_bytes);
}

bool weir_tenant_takes_one(const struct weir_tenant *tenant, uint64_t now_ns)
{
    for (int i = 0; tenant->buckets != NULL && i < WEIR_TENANT_BUCKETS; i++) {
        const struct weir_bucket *bucket = &tenant->buckets->list[i];
        if (bucket->rate.tokens > 0 && weir_bucket_ready_ns(bucket, 1, now_ns) > now_ns) {
            return false;
        }
    }
    return true;
}

uint64_t weir_tenant_full_ns(const struct weir_tenant *tenant, uint64_t now_ns)
{
    uint64_t latest_ns = now_ns;
    for (int i = 0; tenant->buckets != NULL && i < WEIR_TENANT_BUCKETS; i++) {
        const struct weir_bucket *bucket = &tenant->buckets->list[i];
        if (bucket->rate.tokens > 0) {
            uint64_t full_ns = weir_bucket_full_ns(bucket, now_ns);
            latest_ns = full_ns > latest_ns ? full_ns : latest_ns;
        }
    }
    return latest_ns;
}

bool weir_tenant_needed(const struct weir_key *key, const struct weir_tenant *tenant,
                        uint64_t now_ns)
{
    if (tenant->active > 0 || tenant->stake.tickets > 0) {
        return true;
    }
    for (int i = 0; tenant->buckets != NULL && i < WEIR_TENANT_BUCKETS; i++) {
        const struct weir_bucket *bucket = &tenant->buckets->list[i];
        if (bucket->rate.tokens > 0 && !weir_bucket_full(bucket, now_ns)) {
            return true;
        }
    }
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        if ((int64_t)(tenant->turns[i].virtual_time - key->priorities[i].clock) > 0) {
            return true;
        }
    }
    return false;
}

/* Looks at a few tenants, oldest look first, and forgets those that nothing is left to remember
 * of. */
static void forget_some(struct weir_key *key, uint32_t looks, uint64_t now_ns)
{
    while (looks-- > 0 && !weir_list_empty(&key->all_tenants)) {
        struct weir_link *link = key->all_tenants.next;
        struct weir_tenant *tenant = weir_container_of(link, struct weir_tenant, link);
        if (!weir_tenant_needed(key, tenant, now_ns) &&
            now_ns - tenant->used_ns >= key->rules->settings.forget_ns) {
            destroy(key, tenant);
        } else {
            weir_list_unlink(link);
            weir_list_push_back(&key->all_tenants, link);
        }
    }
}

static void init_turns(const struct weir_key *key, struct weir_tenant *tenant)
{
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        tenant->turns[i].virtual_time = key->priorities[i].clock;
        weir_list_init(&tenant->turns[i].tickets);
        tenant->turns[i].tenant = tenant;
        tenant->turns[i].priority = (uint8_t)i;
    }
}

static void follow(struct weir_tenant *tenant, const struct weir_tenant_settings *settings)
{
    tenant->weight = settings->weight;
    tenant->charge_per_cost = WEIR_CHARGE_SCALE / settings->weight;
    tenant->limit = settings->limit;
    tenant->plain_room = weir_tenant_has_rate(settings) ? 0 : settings->limit;
}

/* A full bucket, settled only for tickets that are admitted from now on. */
static void init_bucket(const struct weir_key *key, struct weir_bucket *bucket,
                        const struct weir_rate *rate)
{
    weir_bucket_init(bucket, rate, key->now_ns);
    bucket->since_epoch = key->settings_epoch;
}

/* The bucket of one rate under new settings: it goes on if it counts the same thing. */
static void follow_rate(const struct weir_key *key, struct weir_bucket *bucket,
                        const struct weir_rate *rate)
{
    if (rate->tokens == 0) {
        *bucket = (struct weir_bucket){0};
    } else if (bucket->rate.tokens == 0 || bucket->rate.unit != rate->unit) {
        init_bucket(key, bucket, rate);
    } else {
        weir_bucket_set_rate(bucket, rate, key->now_ns);
    }
}

static void follow_rates(const struct weir_key *key, struct weir_tenant_buckets *buckets,
                         const struct weir_tenant_settings *settings)
{
    follow_rate(key, &buckets->list[0], &settings->rate);
    follow_rate(key, &buckets->list[1], &settings->cost);
}

static struct weir_tenant *create(struct weir_key *key, struct weir_slice name, uint64_t hash,
                                  uint64_t now_ns)
{
    const struct weir_tenant_settings *settings = weir_rules_tenant(key->rules, name);
    struct weir_tenant *tenant = weir_allocate_zeroed(key->allocator, sizeof *tenant + name.bytes);
    if (tenant == NULL) {
        return NULL;
    }
    if (weir_tenant_has_rate(settings)) {
        tenant->buckets = weir_allocate_zeroed(key->allocator, sizeof *tenant->buckets);
        if (tenant->buckets == NULL) {
            weir_release(key->allocator, tenant, sizeof *tenant + name.bytes);
            return NULL;
        }
        follow_rates(key, tenant->buckets, settings);
    }
    tenant->number = ++key->last_tenant_number;
    tenant->used_ns = now_ns;
    tenant->name_bytes = (uint8_t)name.bytes;
    if (name.bytes > 0) {
        memcpy(tenant->name, name.data, name.bytes);
    }
    follow(tenant, settings);
    init_turns(key, tenant);
    weir_map_insert(&key->tenants, &tenant->node, hash);
    weir_list_push_back(&key->all_tenants, &tenant->link);
    return tenant;
}

/* The key is full: room may be made, and if not, the shared tenant stands in. */
static bool must_share(struct weir_key *key, uint64_t now_ns)
{
    uint32_t most = key->rules->settings.tenants_max;
    if (key->tenants.count >= most) {
        forget_some(key, FORGET_AT_FULL, now_ns);
    }
    return key->tenants.count >= most;
}

static struct weir_tenant *obtain_new(struct weir_key *key, struct weir_slice name, uint64_t hash,
                                      uint64_t now_ns)
{
    forget_some(key, FORGET_AT_NEW, now_ns);
    if (must_share(key, now_ns)) {
        name = other;
        hash = weir_hash(weir_gate_seed(key->gate), other);
        struct weir_tenant *shared = find_hashed(key, other, hash);
        if (shared != NULL) {
            return shared;
        }
    }
    if (!weir_map_reserve(&key->tenants, key->allocator)) {
        return NULL;
    }
    return create(key, name, hash, now_ns);
}

struct weir_tenant *weir_tenant_obtain(struct weir_key *key, struct weir_slice name,
                                       uint64_t now_ns)
{
    uint64_t hash = weir_hash(weir_gate_seed(key->gate), name);
    struct weir_tenant *tenant = find_hashed(key, name, hash);
    return tenant != NULL ? tenant : obtain_new(key, name, hash, now_ns);
}

void weir_tenant_configure(struct weir_key *key, struct weir_tenant *tenant,
                           const struct weir_tenant_settings *settings,
                           struct weir_tenant_buckets *buckets)
{
    follow(tenant, settings);
    if (!weir_tenant_has_rate(settings)) {
        weir_release(key->allocator, tenant->buckets, sizeof *tenant->buckets);
        tenant->buckets = NULL;
        return;
    }
    if (tenant->buckets == NULL) {
        assert(buckets != NULL);
        *buckets = (struct weir_tenant_buckets){0};
        tenant->buckets = buckets;
    }
    follow_rates(key, tenant->buckets, settings);
}

void weir_tenants_destroy(struct weir_key *key)
{
    while (!weir_list_empty(&key->all_tenants)) {
        destroy(key, weir_container_of(key->all_tenants.next, struct weir_tenant, link));
    }
    weir_map_deinit(&key->tenants, key->allocator);
}
