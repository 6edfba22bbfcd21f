/* config_snapshot.h - a config as the threads use it.
 *
 * A config snapshot is a config and what was made of it once: the numbers of its gates, the
 * filters of its routes, tokens, trust. All workers share it, and it never changes. A worker config
 * is one worker's part: its connections to the snapshot's upstreams and its counters by route. A
 * reload gives every worker a new worker config. An exchange keeps the one that it began on, so
 * nothing that it refers to changes under it; a worker config is freed when its last exchange is
 * over. */
#ifndef WEIR_WORKER_CONFIG_SNAPSHOT_H
#define WEIR_WORKER_CONFIG_SNAPSHOT_H

#include "log/rate_limited_log.h"
#include "worker/worker.h"

struct weir_dns_preload;
struct weir_filter_list;
struct weir_prices;
struct weir_tokens;
struct weir_trust;
struct weir_secrets;
struct weir_upstream;

/* The lines of the log about one server: that it is down, and that it is up again. */
struct weir_server_lines {
    struct weir_rate_limited_log down;
    struct weir_rate_limited_log up;
};

struct weir_config_snapshot {
    struct weir_config *config;
    uint32_t *gates;      /* by gate of the config: its number among all gates */
    bool *learns;         /* by gate of the config: whether its lanes have controllers */
    uint32_t *lane_names; /* by route of the config: where its lanes lead */
    struct weir_filter_list
        *filters;          /* by route of the config; the last: of requests without any */
    void *filter_settings; /* what the filters have made of the config: that of LLMs, */
    void *rpc_settings;    /* that of JSON bodies, */
    void *a2a_settings;    /* and that of agents */
    struct weir_tokens *tokens;
    struct weir_prices *prices;             /* null: the config names none */
    struct weir_trust *trust;               /* for TLS */
    struct weir_secrets *secrets;           /* values of headers that come from files */
    struct weir_server_lines *server_lines; /* by url of all upstreams, in their order */
    atomic_uint users;
    void (*destroy)(struct weir_config_snapshot *snapshot); /* with the last reference */
};

struct weir_worker_config {
    struct weir_config_snapshot *snapshot;
    const struct weir_config *config; /* the snapshot's */
    struct weir_worker *worker;
    struct weir_upstream *upstreams;
    struct weir_dns_preload *dns_preload; /* during the first look-up of names, else null */
    struct weir_tally **routes; /* one for each of the config's, and one for requests without any */
    struct weir_dead dead;
    uint32_t users; /* exchanges */
    bool retired;   /* another one has taken its place */
    void (*destroy)(
        struct weir_worker_config *worker_config); /* with the last reference, once retired */
};

/* Takes and gives back a reference; the last one destroys the snapshot. Null may be given. Any
 * thread. */
struct weir_config_snapshot *weir_config_snapshot_take(struct weir_config_snapshot *snapshot);
void weir_config_snapshot_give(struct weir_config_snapshot *snapshot);

/* Takes a reference for an exchange, and gives it back. Only in the worker's own thread. */
struct weir_worker_config *weir_worker_config_take(struct weir_worker_config *worker_config);
void weir_worker_config_give(struct weir_worker_config *worker_config);

#endif
