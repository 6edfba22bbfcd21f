/* worker.h - what one thread has of its own: a loop, memory for what lives on it, and its
 * connections to upstreams. Nothing here is shared but the gates, the config and what is marked as
 * shared; other threads may read the acceptors and the tallies, to report sums. */
#ifndef WEIR_WORKER_WORKER_H
#define WEIR_WORKER_WORKER_H

#include "base/random.h"
#include "base/slab.h"
#include "config/config.h"
#include "gates/gate_ticket.h"
#include "net/buffer.h"
#include "net/loop.h"
#include "worker/extension.h"
#include "worker/tally.h"

struct weir_a2a_worker;
struct weir_api_keys;
struct weir_acceptor;
struct weir_budget_book;
struct weir_flows;
struct weir_hasher;
struct weir_line_file;
struct weir_listener;
struct weir_llm_metrics;
struct weir_llm_worker;
struct weir_rpc_worker;
struct weir_reloader;
struct weir_resolver;
struct weir_spool_space;
struct weir_worker_config;
struct weir_task_permits;
struct weir_usage_book;

/* Requests that were refused because of the key or token that they came with, or did not. */
enum weir_refused_key {
    WEIR_REFUSED_API_KEY_WRONG,
    WEIR_REFUSED_API_KEY_MISSING,
    WEIR_REFUSED_TOKEN_WRONG,
    WEIR_REFUSED_TOKEN_MISSING,
    WEIR_REFUSED_KEY_COUNT
};

/* In so many sizes a worker has memory for what handlers of the API remember of a call. */
#define WEIR_CALL_CONTEXT_SIZES 4

/* The host name that a listener was last found to serve; see guard.h. */
struct weir_guard_memory {
    const struct weir_listener *listener;
    size_t bytes;
    char host[64];
};

struct weir_worker {
    struct weir_loop loop;
    uint32_t index;
    const struct weir_allocator *allocator;
    struct weir_worker_config *worker_config; /* the one in force in this thread */
    struct weir_api_keys *keys; /* in force in this thread; never null while the loop runs */
    struct weir_hasher *hasher; /* for them */
    struct weir_gates *gates;
    struct weir_flows *flows;               /* shared by all workers */
    struct weir_task_permits *task_permits; /* shared by all workers */
    struct weir_usage_book *usage;          /* shared by all workers */
    struct weir_budget_book *budgets;       /* shared by all workers */
    struct weir_llm_metrics *meter;         /* shared by all workers */
    struct weir_spool_space *spool_space;   /* of long bodies; shared by all workers */
    struct weir_buffer_pool buffers;
    struct weir_slab client_connections;
    struct weir_slab exchanges;
    struct weir_slab upstream_connections;
    struct weir_slab body_starts;       /* of exchanges that read the start of a body */
    struct weir_slab exchange_flows;    /* of exchanges that name a flow */
    struct weir_slab access_entries;    /* of exchanges that the access log will have */
    struct weir_line_file *access_file; /* of the access log; shared by all workers */
    struct weir_resolver *resolver;
    struct weir_slab heads;      /* of requests that are being read */
    struct weir_slab kept_heads; /* of requests whose model decides on their route */
    struct weir_llm_worker *llm; /* what it keeps for exchanges with LLMs, */
    struct weir_rpc_worker *rpc; /* for exchanges whose bodies are JSON, */
    struct weir_a2a_worker *a2a; /* and for exchanges with agents */
    struct weir_slab calls;      /* of the API, */
    struct weir_slab call_contexts[WEIR_CALL_CONTEXT_SIZES];    /* and what its handlers remember */
    void *api;                                                  /* the API's own state; shared */
    struct weir_extension_slot extensions[WEIR_EXTENSIONS_MAX]; /* as the server's */
    struct weir_reloader *reloader;
    struct weir_listener *loopback_listener; /* of clients that are part of this process; shared */
    struct weir_link all_clients;
    uint32_t awaited; /* clients that draining waits for */
    struct weir_guard_memory guard;
    struct weir_acceptor *acceptors; /* those it has opened, in order; fixed before the loops run */
    struct weir_tallies tallies;
    _Atomic uint64_t refused_keys[WEIR_REFUSED_KEY_COUNT];
    uint64_t random; /* see weir_worker_random() */
    bool draining;
    void (*client_gone)(struct weir_worker *worker); /* a connection has been closed */

    /* Whether there may be another connection to an upstream; may close an idle client for it. */
    bool (*make_room)(struct weir_worker *worker);
};

/* Unlikely to repeat, not secret. */
static inline uint64_t weir_worker_random(struct weir_worker *worker)
{
    return weir_random_next(&worker->random);
}

/* The state of an extension; null if no config has wanted it yet. */
static inline void *weir_worker_extension(const struct weir_worker *worker,
                                          const struct weir_extension *kind)
{
    for (uint32_t i = 0; i < WEIR_EXTENSIONS_MAX; i++) {
        if (worker->extensions[i].kind == kind) {
            return worker->extensions[i].state;
        }
    }
    return NULL;
}

/* The worker whose loop it is. */
static inline struct weir_worker *weir_worker_of(struct weir_loop *loop)
{
    return weir_container_of(loop, struct weir_worker, loop);
}

#endif
