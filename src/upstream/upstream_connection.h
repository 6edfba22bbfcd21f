/* upstream_connection.h - a connection of HTTP/1 to a server: connecting, in use by one backend, or
 * idle in its server's pool. How one comes about is connect.h. */
#ifndef WEIR_UPSTREAM_UPSTREAM_CONNECTION_H
#define WEIR_UPSTREAM_UPSTREAM_CONNECTION_H

#include "net/resolver.h"
#include "upstream/endpoint.h"

/* How far a connection is that is not there yet. */
enum weir_connect_step {
    WEIR_CONNECT_RESOLVING, /* `waiter` waits for the name */
    WEIR_CONNECT_RESOLVED,  /* told, but nothing done about it */
    WEIR_CONNECT_CONNECTING,
    WEIR_CONNECT_SHAKING_HANDS
};

struct weir_upstream_connection {
    struct weir_stream stream;
    struct weir_dead dead;
    struct weir_link link;          /* in the server's pool while it is idle, */
    struct weir_link endpoint_link; /* and in its endpoint's */
    struct weir_name_waiter waiter;
    const char *wrong;           /* the error that the resolver gave the waiter */
    uint64_t connect_by_ns;      /* when it must be connected */
    uint32_t tried;              /* of its server's endpoints: a set of their indices, */
    uint32_t endpoint_changes;   /* which hold until their table changes */
    uint8_t step;                /* enum weir_connect_step */
    bool handshake_failed;       /* with one of them */
    struct weir_backend backend; /* that of the exchange under way; last, because of its head */
};

static inline struct weir_upstream_connection *
weir_upstream_connection_of(struct weir_backend *backend)
{
    return weir_container_of(backend, struct weir_upstream_connection, backend);
}

/* Closes the idle connections of a server, as many as are more than `keep`, the longest idle
 * first. */
void weir_upstream_connections_trim(struct weir_origin *origin, uint32_t keep);

/* Closes those that lead to one of its addresses. */
void weir_upstream_connections_close_idle(struct weir_endpoint *endpoint);

#endif
