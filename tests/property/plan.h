/* plan.h - settings that own what they point at, so that they can be drawn at random and copied. */
#ifndef WEIR_TESTS_PLAN_H
#define WEIR_TESTS_PLAN_H

#include "random.h"
#include "weir/settings.h"

#define PLAN_LANES_MAX   4
#define PLAN_RATES_MAX   3
#define PLAN_TENANTS_MAX 12

struct plan {
    struct weir_settings settings;
    struct weir_lane_settings lanes[PLAN_LANES_MAX];
    struct weir_rate rates[PLAN_LANES_MAX][PLAN_RATES_MAX];
    struct weir_tenant_settings tenants[PLAN_TENANTS_MAX];
};

/* What the episodes of one kind have in common. Percentages say how often a setting is used. */
struct plan_style {
    uint32_t lanes_max;
    uint32_t tenants_max;    /* who asks: the first so many of plan_tenant_name() */
    uint32_t tenants_kept;   /* by the key; 0: any number */
    uint64_t forget_ns;      /* 0: any time */
    uint32_t rate_percent;   /* of lanes with buckets, and of tenants with one */
    uint32_t tenant_percent; /* of tenants with settings of their own */
    uint32_t bound_percent;  /* of bounds on priorities, tenants and cost */
    uint32_t breaker_percent;
    uint32_t normal_percent; /* of tickets of normal priority; the others are of any */
    uint32_t line_max;       /* tickets in line, at most */
    uint32_t cost;           /* of every ticket; 0: any */
    bool keys_stay;          /* no key is forgotten, so that virtual clocks go far */
    bool huge;               /* costs, rates, weights and times up to the limits of the interface */
};

/* The name of a tenant, 0 .. PLAN_TENANTS_MAX - 1. The first is the anonymous one. */
struct weir_slice plan_tenant_name(uint32_t index);

/* Settings that weir_settings_check() accepts. */
void plan_draw(struct plan *plan, const struct plan_style *style, struct random *random);

/* Changes a few things and keeps the others, as a reload of a configuration does. */
void plan_vary(struct plan *plan, const struct plan_style *style, struct random *random);

struct weir_rate plan_draw_rate(const struct plan_style *style, struct random *random);

uint32_t plan_draw_cost(const struct plan_style *style, struct random *random);

/* A copy whose pointers lead into itself. */
void plan_copy(struct plan *to, const struct plan *from);

#endif
