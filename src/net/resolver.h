/* resolver.h - names to addresses, in a loop and without ever blocking it.
 *
 * A resolver belongs to one loop and asks by c-ares: /etc/hosts first, then the DNS. A caller holds
 * on to a name: it keeps its addresses for as long as the answer allows, is resolved again at the
 * next use after that, and serves the old addresses meanwhile. Only a name of which the DNS says
 * that it does not exist loses its addresses; a DNS that fails or is silent does not.
 *
 * IPv4 and IPv6 addresses are queried at the same time. A waiter goes on with those that come
 * first, and may wait again for the others. IPv4 addresses come first in the list. */
#ifndef WEIR_NET_RESOLVER_H
#define WEIR_NET_RESOLVER_H

#include "net/loop.h"
#include "net/socket.h"

/* Of each family; more are left out. */
#define WEIR_NAME_ADDRESSES_MAX 8

/* Of a host's name, without the zero at its end. */
#define WEIR_HOST_BYTES_MAX 255

/* Bounds of an answer's lifetime, whatever it says: at most one query a second, and a change is
 * noticed within the hour. */
#define WEIR_NAME_TTL_MIN_NS WEIR_NS_PER_SECOND
#define WEIR_NAME_TTL_MAX_NS WEIR_NS_PER_HOUR

/* Of the list of servers, with the zero at its end. */
#define WEIR_RESOLVER_SERVERS_BYTES_MAX 512

struct weir_name;
struct weir_resolver;

/* A waiter for a name; embedded. */
struct weir_name_waiter {
    struct weir_link link;
    /* There are addresses now, or there is no hope of any: then `error` says why. */
    void (*on_result)(struct weir_name_waiter *waiter, const char *error);
};

/* Null without memory. Opens nothing before something is asked. Not thread-safe: no other thread
 * may create or destroy a resolver at the same time. */
struct weir_resolver *weir_resolver_create(struct weir_loop *loop);

/* Requires that no name is held; null is fine. */
void weir_resolver_destroy(struct weir_resolver *resolver);

/* Asks these servers from now on: host:port and [v6]:port with commas between them; empty for those
 * that the system names, as it does now. Queries under way are sent again. */
void weir_resolver_use(struct weir_resolver *resolver, const char *servers);

/* The name, which may be held by others, too; asks nothing yet. Null without memory, or if it is
 * too long. Given back as often as taken. */
struct weir_name *weir_name_take(struct weir_resolver *resolver, struct weir_slice host);
void weir_name_give(struct weir_name *name);

/* Whether there are addresses; old ones count until new ones replace them. Sends a query when the
 * addresses have expired. */
bool weir_name_known(struct weir_name *name);

/* Whether the other family's addresses may still come to those that are there: the name was unknown
 * when it was queried, and not all queries are answered. */
bool weir_name_partial(const struct weir_name *name);

/* Waits for addresses or for a failure. The waiter is called once, in a later turn of the loop.
 * Requires that there are no addresses, or not all of them. */
void weir_name_await(struct weir_name *name, struct weir_name_waiter *waiter);

/* Stops waiting; fine for a waiter that does not wait. */
void weir_name_leave(struct weir_name_waiter *waiter);

/* How many addresses there are, and one of them, with a port. */
uint32_t weir_name_count(const struct weir_name *name);
void weir_name_address(const struct weir_name *name, uint32_t index, uint16_t port,
                       struct weir_address *address);

/* Changes whenever the addresses do. */
uint32_t weir_name_version(const struct weir_name *name);

#endif
