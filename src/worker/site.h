/* site.h - what a config means to a worker: routes, gates, connections to upstreams.
 *
 * A plan is a config and the gates that it names; all workers share it. A site is one worker's own
 * part. A reload gives every worker a new site; an exchange stays with the one that it began on, so
 * nothing that it refers to changes under it, and a site goes when the last of them is over. */
#ifndef WEIR_WORKER_SITE_H
#define WEIR_WORKER_SITE_H

#include "worker/worker.h"

struct weir_dialect;
struct weir_dns_preload;
struct weir_tokens;
struct weir_trust;
struct weir_upstream;

struct weir_plan {
    struct weir_config *config;
    uint32_t *gates;               /* of each of the config's gates: its number among all */
    bool *learns;                  /* the same: whether lanes of it have controllers */
    struct weir_dialect *dialects; /* one for each of the config's routes */
    uint32_t *lane_names;          /* the same: where its lanes lead, for the gates */
    struct weir_tokens *tokens;
    struct weir_trust *trust; /* for TLS */
    atomic_uint users;
    void (*destroy)(struct weir_plan *plan); /* once nobody uses it */
};

struct weir_site {
    struct weir_plan *plan;
    const struct weir_config *config; /* the plan's */
    struct weir_worker *worker;
    struct weir_upstream *upstreams;
    struct weir_dns_preload
        *dns_preload;           /* while names are looked up for the first time, or null */
    struct weir_tally **routes; /* one for each of the config's, and one for requests without any */
    struct weir_dead dead;
    uint32_t users;                          /* exchanges */
    bool retired;                            /* another one has taken its place */
    void (*destroy)(struct weir_site *site); /* once it is retired and nobody uses it */
};

/* One more, or one fewer, uses the plan. Null may be given. Any thread. */
struct weir_plan *weir_plan_take(struct weir_plan *plan);
void weir_plan_give(struct weir_plan *plan);

/* An exchange begins on the worker's site, and is over. In its loop's thread. */
struct weir_site *weir_site_take(struct weir_site *site);
void weir_site_give(struct weir_site *site);

#endif
