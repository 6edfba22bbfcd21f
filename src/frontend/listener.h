/* listener.h - sockets that accept clients for a service. Every thread has an acceptor of its own
 * to each listener, but that a Unix path has only one. The kernel spreads connections over the
 * acceptors by a hash, which is even for many and not for few; so a thread that has more than its
 * share hands what it accepts to the one that has the fewest. */
#ifndef WEIR_FRONTEND_LISTENER_H
#define WEIR_FRONTEND_LISTENER_H

#include "log/rate_limited_log.h"
#include "net/socket.h"
#include "worker/worker.h"

struct weir_service;

/* One thread's clients of a listener that have no request under way; each list is ordered by how
 * long that has been so, the longest first. They are closed when a newcomer needs their place. */
struct weir_waiting_clients {
    /* Between two requests. On a cache line of its own, since its thread writes here with every
     * request. */
    _Alignas(64) struct weir_link idle;

    /* New ones that have sent nothing yet, and those that have sent a part of a request's head. */
    struct weir_link starting;
};

/* An address that is listened on. Shared by the threads; only the counts change, and of the lists
 * of clients each thread changes its own. */
struct weir_listener {
    const struct weir_config_listener *config;
    const struct weir_service *service;
    struct weir_address address;
    bool loopback;           /* this machine's alone, and so within reach of its browsers */
    atomic_uint connections; /* and places that a thread looks for a client to take */
    atomic_uint by_worker[WEIR_LOOPS_MAX]; /* whose they are */
    struct weir_waiting_clients waiting[WEIR_LOOPS_MAX];
    struct weir_rate_limited_log full; /* that max_connections is reached */
};

/* One thread's socket. Zeroed, it is closed. */
struct weir_acceptor {
    struct weir_watch watch;
    struct weir_timer retry; /* when connections wait that could not be taken */
    struct weir_worker *worker;
    struct weir_listener *listener;
    struct weir_acceptor *next; /* of the worker's; stays when it is closed */
    bool open;

    /* Another thread is asked to close a client for a newcomer here. */
    struct weir_post request;
    uint32_t asked;       /* its index */
    uint32_t left_to_ask; /* threads, if that one has none to close */
    bool asking;          /* `request` is under way */
    bool asks_all;        /* clients of other listeners will do as well */
    bool made_room;       /* the answer */
};

/* Reads the address that the config names, which may look up a name. Null on success, else what is
 * wrong with it. */
const char *weir_listener_init(struct weir_listener *listener,
                               const struct weir_config_listener *config,
                               const struct weir_service *service);

/* Begins to accept. The first acceptor decides what port 0 becomes; the others follow. False, with
 * errno, if it cannot be. */
WEIR_MUST_CHECK bool weir_acceptor_open(struct weir_acceptor *acceptor, struct weir_worker *worker,
                                        struct weir_listener *listener);

/* Counts a connection that was not accepted but made within the process. */
void weir_listener_admit(struct weir_listener *listener, const struct weir_worker *worker);

/* A connection that was accepted has been closed by the worker that had it. `reserved`: it had been
 * accepted with a descriptor of the reserve. */
void weir_listener_forget(struct weir_listener *listener, const struct weir_worker *worker,
                          bool reserved);

/* Returns whether another connection to an upstream may be opened. May close an idle client of this
 * worker to make room; logs that, at most once a minute. */
bool weir_listener_make_room_for_upstream(struct weir_worker *worker);

/* Safe to call on a closed one. */
void weir_acceptor_close(struct weir_acceptor *acceptor);

#endif
