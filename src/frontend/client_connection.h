/* client_connection.h - a client's connection of HTTP/1: reads heads, and hands one request after
 * the other to the service that it came to. */
#ifndef WEIR_FRONTEND_CLIENT_CONNECTION_H
#define WEIR_FRONTEND_CLIENT_CONNECTION_H

#include "base/list.h"
#include "frontend/client.h"

/* What a client's connection waits for, and so in which of the listener's lists it is. */
enum weir_client_wait {
    WEIR_CLIENT_BUSY, /* a request is under way, or about to be read: in none */
    WEIR_CLIENT_IDLE, /* between two requests */
    WEIR_CLIENT_NEW,  /* nothing has come yet */
    WEIR_CLIENT_IN_HEAD,
};

struct weir_client_connection {
    struct weir_stream stream;
    struct weir_client client; /* that of the exchange under way; its timer is also that of heads */
    struct weir_post resume;   /* to go on with the next request */
    struct weir_dead dead;
    struct weir_link link;     /* in the worker's list */
    struct weir_link waiting;  /* in listener->waiting[]: idle or starting, as `wait` says */
    uint64_t waiting_since_ns; /* when it was put there */
    uint8_t wait;              /* enum weir_client_wait */
    bool reserved;             /* accepted with a descriptor of the reserve */
    bool resuming;             /* `resume` is under way */
    bool lingering;            /* answered; what still comes is thrown away */
    bool closed;
    uint64_t discarded_bytes;         /* while lingering */
    char peer[WEIR_ADDRESS_TEXT_MAX]; /* its address, without the port */
};

/* The connection of a client that a raw service has taken over. */
static inline struct weir_client_connection *weir_client_connection_of(struct weir_client *client)
{
    return weir_container_of(client, struct weir_client_connection, client);
}

/* Takes over an accepted connection, with the place that was taken for it, and, if `reserved`, the
 * descriptor of the reserve. */
void weir_client_connection_open(struct weir_worker *worker, struct weir_listener *listener, int fd,
                                 const struct weir_address *peer, bool reserved);

/* Takes over one end of a pair of sockets, whose client is part of this process. The connection is
 * `loopback->connection` until it closes; that stays null without memory. */
void weir_client_connection_open_loopback(struct weir_worker *worker,
                                          struct weir_listener *listener, int fd,
                                          const struct weir_address *peer,
                                          struct weir_loopback_client *loopback);

/* Closes one of the worker's connections of this listener to make room for a newcomer: the one that
 * has owed the rest of a request's head for longest, or, if there is none, the one that has been
 * idle for longest; either for at least a second. A client whose next request waits in the socket
 * is left alone, as is every client with a request under way. False if there is none to close. */
bool weir_client_connection_displace(struct weir_listener *listener, struct weir_worker *worker);

/* The worker's config has changed, and with it perhaps whose word is taken: from the next request
 * on that counts. */
void weir_client_connection_judge(struct weir_client_connection *connection);

/* The worker drains. A connection without a request closes if its service is awaited; a service
 * that is not awaited has a last word with those that wait for something new. */
void weir_client_connection_drain(struct weir_client_connection *connection);

/* The grace is over: the service has a last word with what is under way. */
void weir_client_connection_dismiss(struct weir_client_connection *connection);

/* Closes it, with the call if there is one. */
void weir_client_connection_close(struct weir_client_connection *connection);

#endif
