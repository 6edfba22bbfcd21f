/* site.h - what a config means to a worker: routes, gates, connections to upstreams.
 *
 * A plan is a config and the gates that it names; all workers share it. A site is one worker's own
 * part. A reload gives every worker a new site; an exchange stays with the one that it began on, so
 * nothing that it refers to changes under it, and a site goes when the last of them is over. */
#ifndef WEIR_GATEWAY_SITE_H
#define WEIR_GATEWAY_SITE_H

#include "gateway/token.h"
#include "gateway/worker.h"

struct weir_dialect;
struct weir_origin;
struct weir_dns_preload;
struct weir_trust;

/* One upstream as a worker sees it. */
struct weir_upstream {
    const struct weir_config_upstream *config;
    struct weir_site *site;
    struct weir_origin *origins; /* one for each url */
    struct weir_tally *tally;
    uint32_t next; /* where choosing among equals begins */
};

struct weir_plan {
    struct weir_config *config;
    uint32_t *gates;               /* of each of the config's gates: its number among all */
    bool *learns;                  /* the same: whether lanes of it have controllers */
    struct weir_dialect *dialects; /* one for each of the config's routes */
    uint32_t *lane_names;          /* the same: where its lanes lead, for the gates */
    struct weir_tokens *tokens;
    struct weir_trust *trust; /* for TLS */
    atomic_uint users;
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
    uint32_t users; /* exchanges */
    bool retired;   /* another one has taken its place */
};

/* A plan with one user, which owns the config from now on, also when this fails. Adds to `gates`
 * the gates that are not there yet, and reads the files that the config names. Null on failure,
 * with a sentence that says why. */
struct weir_plan *weir_plan_create(struct weir_config *config, struct weir_gates *gates,
                                   const char **wrong);

struct weir_plan *weir_plan_take(struct weir_plan *plan);
void weir_plan_give(struct weir_plan *plan);

/* Gives the gates their settings. `before` is the plan that was in force, or null. Called in the
 * loop `loop_index`, or before any loop runs. */
WEIR_MUST_CHECK enum weir_status weir_plan_apply(const struct weir_plan *plan,
                                                 const struct weir_plan *before,
                                                 struct weir_gates *gates, uint32_t loop_index);

/* The name of something that differs and that only a start can change, or null. */
const char *weir_plan_needs_restart(const struct weir_config *before,
                                    const struct weir_config *after);

/* Whether both take the same peers' word. */
bool weir_plan_same_trust(const struct weir_config *before, const struct weir_config *after);

/* Makes the upstreams of a plan known to a worker. Null on failure, with a sentence that says why.
 * May be called in any thread. */
struct weir_site *weir_site_create(struct weir_plan *plan, struct weir_worker *worker,
                                   const char **wrong);

/* One that never came into use. */
void weir_site_destroy(struct weir_site *site);

/* An exchange begins on the worker's site, and is over. */
struct weir_site *weir_site_take(struct weir_site *site);
void weir_site_give(struct weir_site *site);

/* Another one is in force: closes idle connections, and goes once nobody uses it. */
void weir_site_retire(struct weir_site *site);

#endif
