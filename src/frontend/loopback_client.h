/* loopback_client.h - a client of the proxy that is part of this process.
 *
 * It speaks HTTP like any other, by one end of a pair of sockets, so it passes the same gates and
 * is counted with the rest. But it is believed, and it says itself for whom it asks: a job has a
 * tenant, and no API key. Its request goes by the config under which it was opened: it is not
 * another route's if a reload comes between. */
#ifndef WEIR_FRONTEND_LOOPBACK_CLIENT_H
#define WEIR_FRONTEND_LOOPBACK_CLIENT_H

#include "frontend/listener.h"

struct weir_client_connection;

struct weir_loopback_client {
    struct weir_slice tenant; /* empty: whom the route names */
    enum weir_priority priority;
    bool cut;     /* its reply has ended before its time, which may not show: a pair of
                   * sockets cannot be reset */
    bool lacking; /* its reply is ours: we had no descriptor or memory to reach the upstream */
    struct weir_client_connection *connection; /* private: null once it has closed */
    struct weir_worker_config *worker_config;  /* private: whose routes it is for */
};

/* The listener that such clients have come by, and no others can; `service` answers them. One for
 * the process, which the workers share; only its counts change. */
void weir_loopback_listener_init(struct weir_listener *listener,
                                 const struct weir_service *service);

/* The other end of the pair, which does not block and is not watched yet; -1, with errno, on
 * failure. Called in the worker's loop. `inner`, and what it points at, must stay until
 * weir_loopback_client_close(). */
WEIR_MUST_CHECK int weir_loopback_client_open(struct weir_worker *worker,
                                              struct weir_loopback_client *loopback);

/* The client goes, with what it has under way. The caller's end is its own to close. */
void weir_loopback_client_close(struct weir_loopback_client *loopback);

#endif
