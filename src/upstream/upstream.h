/* upstream.h - servers, which of them to take, and connections to them. How one comes about is
 * connect.h.
 *
 * Each worker has connections of its own. A connection is idle in its server's pool, or has one
 * user. Health is learned from use: failures in a row take a server out for a pause that grows, and
 * the first request after the pause is the probe that brings it back. */
#ifndef WEIR_UPSTREAM_UPSTREAM_H
#define WEIR_UPSTREAM_UPSTREAM_H

#include "net/resolver.h"
#include "net/socket.h"
#include "net/stream.h"
#include "net/tls.h"
#include "wire/http1.h"
#include "worker/config_snapshot.h"

struct weir_origin;

/* One upstream as a worker sees it. */
struct weir_upstream {
    const struct weir_config_upstream *config;
    struct weir_worker_config *worker_config;
    struct weir_origin *origins; /* one for each url */
    struct weir_tally *tally;
    uint32_t next; /* where choosing among equals begins */
};

/* One server of an upstream. */
struct weir_origin {
    struct weir_upstream *upstream;
    struct weir_worker *worker;
    struct weir_tally *tally; /* the upstream's */
    struct weir_slice host;   /* its name, the config's; empty: it has a fixed address */
    struct weir_address address;
    struct weir_name *name; /* null: not taken yet, or it has none */
    uint16_t port;
    struct weir_tls_server tls;
    struct weir_slice authority; /* host:port as the config names it; without the usual port */
    char *authority_text;        /* its memory */
    struct weir_link idle;       /* connections without a user, the last used first */
    uint32_t idle_count;
    uint32_t idle_least;    /* the fewest since the last trim: these nobody needed */
    struct weir_timer trim; /* set while more are idle than the config keeps */
    bool has_timer;
    uint32_t outstanding; /* connections with a user */
    uint32_t failures;    /* in a row */
    uint64_t down_until_ns;
    uint64_t pause_ns; /* the last one */
};

/* How far a connection is that is not there yet. */
enum weir_backend_step {
    WEIR_BACKEND_RESOLVING, /* `waiter` waits for the name */
    WEIR_BACKEND_RESOLVED,  /* told, but nothing done about it */
    WEIR_BACKEND_CONNECTING,
    WEIR_BACKEND_SHAKING_HANDS
};

/* A connection to a server. */
struct weir_backend {
    struct weir_stream stream;
    struct weir_timer timer; /* the user's */
    struct weir_dead dead;
    struct weir_link link; /* in the pool while it is idle */
    struct weir_origin *origin;
    struct weir_buffer in;
    struct weir_name_waiter waiter;
    const char *wrong;           /* what the waiter was told */
    uint64_t connect_by_ns;      /* when it must be connected */
    uint32_t tried;              /* addresses of its name */
    uint32_t address_index;      /* of the last of them */
    uint32_t name_version;       /* when it was made, or last found to be right */
    uint8_t step;                /* enum weir_backend_step */
    struct weir_http1_head head; /* of the reply */
    bool connected;
    bool reused;                                 /* has carried a request before */
    void *user;                                  /* null while it is idle */
    void (*ready)(struct weir_backend *backend); /* something has changed on its stream */
    void (*late)(struct weir_backend *backend);  /* the timer has fired */
};

/* Makes the worker config's upstreams. Null on success, else why not. Looks no names up. */
const char *weir_upstreams_open(struct weir_worker_config *worker_config);

/* The worker config is about to be the worker's: in its loop's thread, or before that runs. Holds
 * on to the names that the one before also has, and uses the config's DNS servers. The first worker
 * looks all of the names up, and says on stderr which cannot be found. */
void weir_upstreams_adopt(struct weir_worker_config *worker_config);

/* Closes the idle connections; those in use close when their users are done. Once none is left, the
 * memory can go. */
void weir_upstreams_close(struct weir_worker_config *worker_config);
void weir_upstreams_free(struct weir_worker_config *worker_config);

/* The server with fewest connections in use among those that are up, but for `not_this`; if none
 * is up, the one that will be up soonest. Null only if there is no other. */
struct weir_origin *weir_upstream_choose(struct weir_upstream *upstream,
                                         const struct weir_origin *not_this);

/* A connection for a user: from the pool if it may be a used one, else a new one that is
 * connecting. Null, with errno, if that cannot even begin. */
struct weir_backend *weir_backend_take(struct weir_origin *origin, void *user, bool used);

/* Back to the pool, if its upstream keeps any. More than `keepalive` stay for a while, since after
 * a burst the next one may come at once; those that nobody needs for a second are closed then. */
void weir_backend_keep(struct weir_backend *backend);

/* Closes it. */
void weir_backend_drop(struct weir_backend *backend);

/* What a use has shown about the server. */
void weir_origin_failed(struct weir_origin *origin);
void weir_origin_worked(struct weir_origin *origin);

#endif
