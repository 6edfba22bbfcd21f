/* endpoint.h - the addresses of a server, an endpoint for each: its health, its connections, and
 * which of them the next request goes to.
 *
 * A server that the config names by an address has one endpoint for good. One with a host name has
 * an endpoint for each address that the DNS gives it now. When the DNS drops an address, requests
 * under way there go on; the endpoint gets no new ones and is freed behind the last of them.
 *
 * Everything belongs to one worker and is called in its thread. */
#ifndef WEIR_UPSTREAM_ENDPOINT_H
#define WEIR_UPSTREAM_ENDPOINT_H

#include "net/resolver.h"
#include "upstream/upstream.h"

struct weir_endpoint {
    struct weir_origin *origin;
    struct weir_address address;
    struct weir_health health;
    struct weir_link idle; /* connections without a user, the last used first */
    struct weir_tally *tally;
    uint32_t index;       /* in the server's table */
    uint32_t holds;       /* by the server's table, and by each connection */
    uint32_t outstanding; /* connections with a user */
    bool retired;         /* out of the table: its connections close behind their users */
};

/* The one endpoint of a server with a fixed address. False without memory. */
WEIR_MUST_CHECK bool weir_endpoints_open(struct weir_origin *origin,
                                         const struct weir_address *address);

/* Takes up what the DNS says now, if the server has a name; closes idle connections to addresses
 * that are gone. */
void weir_endpoints_refresh(struct weir_origin *origin);

/* No more endpoints; those that a connection leads to go with it. */
void weir_endpoints_close(struct weir_origin *origin);

/* The endpoint for the next request, but for those in the set `tried` of indices; null if there is
 * no other. Of those that are up, the one with fewest connections in use, in turn among equals;
 * IPv6 only while no IPv4 address is up. If none is up, the one that will be up soonest. */
struct weir_endpoint *weir_endpoint_choose(const struct weir_origin *origin, uint32_t tried);

/* A backend's connection leads there from now on; null: nowhere any more. It counts as in use. */
void weir_endpoint_lead(struct weir_backend *backend, struct weir_endpoint *endpoint);

/* A connection holds on to it, and no longer does. */
void weir_endpoint_give(struct weir_endpoint *endpoint);

/* Counts a connection more or less in that state, for the metrics. */
static inline void weir_endpoint_count(const struct weir_endpoint *endpoint, uint32_t state,
                                       bool more)
{
    if (endpoint->tally != NULL) {
        (more ? weir_tally_raise : weir_tally_lower)(endpoint->tally, state);
    }
}

/* What a use has shown: a failure counts towards the config's `failures`. To pass it over means
 * that another address of the server could be connected to where this one could not: it is left
 * alone at once. */
void weir_endpoint_failed(struct weir_endpoint *endpoint);
void weir_endpoint_pass_over(struct weir_endpoint *endpoint);

#endif
