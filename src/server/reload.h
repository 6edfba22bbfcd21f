/* reload.h - lets a loop ask for a reload of the config.
 *
 * The main thread does it, as for a SIGHUP, since it may take long: files are read and names
 * resolved. The outcome is delivered in the loop that asked. */
#ifndef WEIR_SERVER_RELOAD_H
#define WEIR_SERVER_RELOAD_H

#include "net/loop.h"

#include <stdatomic.h>

#define WEIR_RELOAD_ERROR_MAX 2048

enum weir_reload_end {
    WEIR_RELOAD_DONE,
    WEIR_RELOAD_REFUSED,  /* the old config stays in force */
    WEIR_RELOAD_DRAINING, /* the server drains and reloads no more */
};

/* The outcome of a reload. */
struct weir_reload_outcome {
    enum weir_reload_end end;

    /* When it is done: what is in force, and a field whose change needs a restart, or null. */
    uint32_t gates;
    uint32_t routes;
    uint32_t upstreams;
    const char *needs_restart;

    /* When it is refused: what is wrong, a line for each mistake, terminated. */
    char error[WEIR_RELOAD_ERROR_MAX];
};

struct weir_reload_request {
    struct weir_post on_done; /* the requester sets `arrive`; called once */
    struct weir_loop *loop;
    struct weir_reload_request *next;
    struct weir_reload_outcome outcome;
};

/* The server's side, shared by all workers. */
struct weir_reloader {
    void (*ask)(struct weir_reloader *reloader, struct weir_reload_request *request);
    atomic_bool refused;         /* the last reload was not taken up */
    _Atomic uint64_t success_ns; /* when the last config was, since 1970 */
};

#endif
