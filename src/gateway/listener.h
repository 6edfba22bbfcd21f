/* listener.h - sockets that accept clients for a service. Every thread has a door of its own to
 * each listener, but that a Unix path has only one. The kernel spreads connections over the doors
 * by a hash, which is even for many and not for few; so a thread that has more than its share hands
 * what it accepts to the one that has the fewest. */
#ifndef WEIR_GATEWAY_LISTENER_H
#define WEIR_GATEWAY_LISTENER_H

#include "gateway/worker.h"
#include "net/socket.h"

struct weir_service;

/* An address that is listened on. Shared by the threads; only the counts change. */
struct weir_listener {
    const struct weir_config_listener *config;
    const struct weir_service *service;
    struct weir_address address;
    bool loopback;            /* this machine's alone, and so within reach of its browsers */
    uint32_t connections_max; /* the config's, or fewer: what is served needs descriptors too */
    atomic_uint connections;  /* and places that a thread looks for somebody to take */
    atomic_uint by_worker[WEIR_LOOPS_MAX]; /* whose they are */
};

/* One thread's socket. Zeroed, it is closed. */
struct weir_door {
    struct weir_watch watch;
    struct weir_timer retry; /* when connections wait that could not be taken */
    struct weir_worker *worker;
    struct weir_listener *listener;
    struct weir_door *next; /* of the worker's; stays when it is closed */
    bool open;
};

/* Reads the address that the config names, which may look up a name. Null on success, else what is
 * wrong with it. */
const char *weir_listener_init(struct weir_listener *listener,
                               const struct weir_config_listener *config,
                               const struct weir_service *service);

/* Begins to accept. The first door decides what port 0 becomes; the others follow. False, with
 * errno, if it cannot be. */
WEIR_MUST_CHECK bool weir_door_open(struct weir_door *door, struct weir_worker *worker,
                                    struct weir_listener *listener);

/* Counts a connection that was not accepted but made within the process. */
void weir_listener_admit(struct weir_listener *listener, const struct weir_worker *worker);

/* A connection that was accepted has been closed by the worker that had it. */
void weir_listener_forget(struct weir_listener *listener, const struct weir_worker *worker);

/* Safe to call on a closed one. */
void weir_door_close(struct weir_door *door);

#endif
