/* upstream.h - servers, and which of them to take. Exchanges with them are backend.h, connections
 * to them upstream_connection.h.
 *
 * Each worker has connections of its own. Health is learned from use: failures in a row take a
 * server out for a pause that grows, and the first request after the pause is the probe that brings
 * it back. */
#ifndef WEIR_UPSTREAM_UPSTREAM_H
#define WEIR_UPSTREAM_UPSTREAM_H

#include "net/resolver.h"
#include "net/socket.h"
#include "net/tls.h"
#include "upstream/backend.h"
#include "worker/config_snapshot.h"

/* One upstream as a worker sees it. */
struct weir_upstream {
    const struct weir_config_upstream *config;
    struct weir_worker_config *worker_config; /* null: of a client of our own */
    struct weir_origin *origins;              /* one for each url */
    struct weir_tally *tally;
    struct weir_secret *const *secrets; /* by header of the config; null: none is from a file */
    uint32_t next;                      /* where choosing among equals begins */
    bool closed;                        /* no connection stays idle any more */
};

/* How many addresses of a server are used. */
#define WEIR_ENDPOINTS_MAX (2 * WEIR_NAME_ADDRESSES_MAX)

/* What use has shown of a server or of one of its addresses. */
struct weir_health {
    uint32_t failures;      /* in a row */
    uint64_t down_until_ns; /* left alone until then */
    uint64_t pause_ns;      /* the last one */
};

/* One server of an upstream. */
struct weir_origin {
    struct weir_upstream *upstream;
    struct weir_worker *worker;
    struct weir_tally *tally;        /* the upstream's */
    struct weir_server_lines *lines; /* shared by the workers; null: of a client of our own */
    struct weir_slice host;          /* its name, the config's; empty: it has a fixed address */
    struct weir_name *name;          /* null: not taken yet, or it has none */
    uint16_t port;
    struct weir_endpoint *endpoints[WEIR_ENDPOINTS_MAX]; /* its addresses (endpoint.h) */
    uint32_t endpoint_count;
    uint32_t endpoint_changes;  /* of the table */
    uint32_t endpoints_version; /* of the name, as the table has it */
    bool has_endpoints;         /* the table has all addresses of that version */
    uint32_t next;              /* where choosing among equal endpoints begins */
    struct weir_tls_server tls;
    struct weir_slice authority; /* host:port as the config names it; without the usual port */
    char *authority_text;        /* its memory */
    struct weir_link idle;       /* connections without a user, the last used first */
    uint32_t idle_count;
    uint32_t idle_least;    /* the fewest since the last trim: these were not needed */
    struct weir_timer trim; /* set while more are idle than the config keeps */
    bool has_timer;
    uint32_t outstanding;      /* connections with a user */
    struct weir_health health; /* apart from that of its addresses: when it has none */
    int connect_error; /* errno of the last connection, to that address; 0: it was established */
    struct weir_address connect_address;
    char tls_error[WEIR_TLS_ERROR_BYTES]; /* why the last handshake that failed did */
};

/* Makes the worker config's upstreams. Null on success, else why not. Looks no names up. */
const char *weir_upstreams_open(struct weir_worker_config *worker_config);

/* The worker config is about to be the worker's: in its loop's thread, or before that runs. Holds
 * on to the names that the one before also has, and uses the config's DNS servers. The first worker
 * looks all of the names up, and says in the log which cannot be found. */
void weir_upstreams_adopt(struct weir_worker_config *worker_config);

/* Closes the idle connections; those in use close when their users are done. Once none is left, the
 * memory can go. */
void weir_upstreams_close(struct weir_worker_config *worker_config);
void weir_upstreams_free(struct weir_worker_config *worker_config);

/* One server of an upstream: made, as its config's url of that number says; without idle
 * connections from now on; and its memory, once no connection is left. Null on success, else why
 * not. */
const char *weir_origin_open(struct weir_upstream *upstream, uint32_t index,
                             struct weir_worker *worker, const struct weir_tls_client *trust);
void weir_origin_close(struct weir_origin *origin);
void weir_origin_free(struct weir_origin *origin, const struct weir_allocator *allocator);

/* The server with fewest connections in use among those that are up, but for the tried ones (by
 * bit); if none is up, the one that will be up soonest. Null only if all were tried. */
struct weir_origin *weir_upstream_choose(struct weir_upstream *upstream, uint64_t tried);

/* A connection to the server could not even begin, or its name has no address. */
void weir_origin_failed(struct weir_origin *origin);

/* Whether all of its addresses were taken out, and none has worked since. */
bool weir_origin_known_down(const struct weir_origin *origin);

/* Until when all of its addresses are left alone; a moment that has passed: it is up. */
uint64_t weir_origin_down_until_ns(const struct weir_origin *origin);

#endif
