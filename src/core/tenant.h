/* tenant.h - a tenant at one key: its line at each priority, its share, its own limits.
 *
 * A tenant is free, held (it has as many permits as it may) or parked (its bucket does not cover
 * the ticket that was next). Only a free tenant's lines are ready. Tenants are found by name,
 * made at their first ticket, and forgotten when they are idle, owe nothing, and were unused for a
 * while. */
#ifndef WEIR_CORE_TENANT_H
#define WEIR_CORE_TENANT_H

#include "base/map.h"
#include "core/bucket.h"
#include "core/rules.h"
#include "weir/ticket.h"

#include <assert.h>

/* Virtual time per unit of cost at weight 1; a power of two large enough that dividing it by the
 * largest weight loses less than a thousandth. */
#define WEIR_CHARGE_SCALE (UINT32_C(1) << 20)

static_assert(WEIR_CHARGE_SCALE / WEIR_TENANT_WEIGHT_MAX >= 1000, "weights must keep their ratio");

enum weir_tenant_hold {
    WEIR_TENANT_FREE,
    WEIR_TENANT_HELD,  /* until a permit comes back */
    WEIR_TENANT_PARKED /* until a moment; in the key's heap `parked` */
};

/* What a tenant has in a line, and its place among the others by that; see door.h. */
struct weir_stake {
    uint64_t cost;
    uint32_t tickets;
    uint32_t place_by_tickets;
    uint32_t place_by_cost;
    uint32_t place_parked; /* of a tenant: in the key's heap of parked ones */
};

/* A tenant's line at one priority. */
struct weir_turn {
    struct weir_link tickets; /* first come, first served */
    uint64_t virtual_time;
    struct weir_tenant *tenant;
    struct weir_stake stake;
    uint32_t place_ready; /* in the priority's heap of ready turns */
    uint8_t priority;
};

struct weir_key;

/* A tenant's own buckets: of `rate` and of `cost` in its settings. One that is not there has a rate
 * of 0 tokens. */
#define WEIR_TENANT_BUCKETS 2

struct weir_tenant_buckets {
    struct weir_bucket list[WEIR_TENANT_BUCKETS];
};

struct weir_tenant {
    struct weir_map_node node;
    struct weir_link link; /* in the key's list of all tenants */
    uint64_t used_ns;
    uint32_t number; /* from 1, in the order of their coming */
    uint32_t weight;
    uint32_t active;
    uint32_t limit;
    uint32_t plain_room; /* the limit, or 0 with a rate: below it, nothing else need be asked */
    uint32_t charge_per_cost;            /* WEIR_CHARGE_SCALE / weight */
    struct weir_tenant_buckets *buckets; /* null without any rate */
    struct weir_stake stake;             /* over all priorities */
    float output_mean;                   /* a struct weir_estimator without its gap */
    uint16_t output_count;
    uint8_t hold; /* enum weir_tenant_hold */
    uint8_t name_bytes;
    struct weir_turn turns[WEIR_PRIORITY_COUNT];
    char name[];
};

/* Whether its buckets would let a ticket of cost 1 through. */
bool weir_tenant_takes_one(const struct weir_tenant *tenant, uint64_t now_ns);

/* When its buckets are full again if nothing more is taken; `now_ns` without any. */
uint64_t weir_tenant_full_ns(const struct weir_tenant *tenant, uint64_t now_ns);

/* Whether the settings have a rate of either kind. */
static inline bool weir_tenant_has_rate(const struct weir_tenant_settings *settings)
{
    return settings->rate.tokens > 0 || settings->cost.tokens > 0;
}

/* The virtual time that a cost stands for. */
static inline uint64_t weir_tenant_charge(const struct weir_tenant *tenant, uint64_t cost)
{
    return cost * tenant->charge_per_cost;
}

/* What is known of the outputs of its requests. A count of thousands is as good as any larger. */
static inline struct weir_estimator weir_tenant_outputs(const struct weir_tenant *tenant)
{
    return (struct weir_estimator){tenant->output_mean, tenant->output_count};
}

static inline void weir_tenant_set_outputs(struct weir_tenant *tenant,
                                           struct weir_estimator outputs)
{
    tenant->output_mean = outputs.mean;
    tenant->output_count = (uint16_t)(outputs.count < UINT16_MAX ? outputs.count : UINT16_MAX);
}

static inline struct weir_slice weir_tenant_name(const struct weir_tenant *tenant)
{
    return (struct weir_slice){tenant->name, tenant->name_bytes};
}

/* The tenant with that name at the key, made if there is none; the shared one when the key keeps
 * as many as it may. Null without memory. */
struct weir_tenant *weir_tenant_obtain(struct weir_key *key, struct weir_slice name,
                                       uint64_t now_ns);

/* The tenant that weir_tenant_obtain() would find without making one, or null. */
struct weir_tenant *weir_tenant_find(const struct weir_key *key, struct weir_slice name);

/* Whether it has something in line, holds a permit, or owes. */
bool weir_tenant_needed(const struct weir_key *key, const struct weir_tenant *tenant,
                        uint64_t now_ns);

/* Follows new settings. `buckets` is memory for them, which the tenant takes over, where it has
 * none and needs some, else null; so this cannot fail. */
void weir_tenant_configure(struct weir_key *key, struct weir_tenant *tenant,
                           const struct weir_tenant_settings *settings,
                           struct weir_tenant_buckets *buckets);

/* Frees all tenants of a key. Requires that none has anything in line or a permit. */
void weir_tenants_destroy(struct weir_key *key);

#endif
