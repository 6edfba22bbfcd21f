/* server_internal.h - the running gateway, as server.c, which has the threads, and reload.c, which
 * gives them a config, both see it. Nobody else includes it. */
#ifndef WEIR_SERVER_SERVER_INTERNAL_H
#define WEIR_SERVER_SERVER_INTERNAL_H

#include "frontend/listener.h"
#include "server/key_feed.h"
#include "server/reload.h"
#include "server/server.h"
#include "worker/worker.h"

#include <pthread.h>
#include <semaphore.h>

#define WEIR_LISTENERS_MAX 48

/* One thread. */
struct weir_thread {
    struct weir_worker worker;
    pthread_t id;
    struct weir_acceptor acceptors[WEIR_LISTENERS_MAX]; /* as the server's listeners */
    struct weir_post drain;
    struct weir_post stop;
    struct weir_post adopt;
    struct weir_worker_config *next; /* what `adopt` brings */
    struct weir_timer grace;
    struct weir_timer sweep; /* of the first thread */
    bool drained;            /* nobody is awaited any more */
    struct weir_server *server;
};

/* A new snapshot's way into the loops: the first applies it to the gates, then all adopt their
 * worker configs. The thread that reloads waits for each step. */
struct weir_reload {
    struct weir_reloader reloader;
    pthread_t thread;                  /* which does it */
    pthread_mutex_t lock;              /* of the next */
    struct weir_reload_request *asked; /* by loops */
    bool over;                         /* the thread looks at them no more */
    struct weir_post apply;
    struct weir_config_snapshot *snapshot;
    enum weir_status status;
    sem_t done;
};

struct weir_server {
    const struct weir_serve_options *options;
    struct weir_config_snapshot *first;    /* which the listeners refer to */
    struct weir_config_snapshot *snapshot; /* the one in force */
    struct weir_key_feed keys;
    struct weir_event_log *event_log;
    struct weir_event_file *event_file; /* or null */
    struct weir_gates *gates;
    struct weir_flows *flows;
    struct weir_usage_book *usage;
    struct weir_usage_file *usage_file;
    struct weir_llm_metrics *meter;
    void *api; /* what its service keeps */
    struct weir_extension_slot extensions[WEIR_EXTENSIONS_MAX];
    struct weir_listener loopback_listener;
    struct weir_listener listeners[WEIR_LISTENERS_MAX];
    uint32_t listener_count;
    uint32_t thread_count;
    struct weir_thread *threads;
    struct weir_loop *loops[WEIR_LOOPS_MAX];
    atomic_uint drained; /* threads and extensions */
    struct weir_reload reload;
};

/* Says on stderr what is wrong. Returns 1, the program's exit status. */
int weir_server_complain(const char *what, const char *why);

/* Takes up the first config, which is the server's from now on, before any thread runs. 0, or 1
 * when it has been said what is wrong. */
int weir_server_adopt_first(struct weir_server *server, struct weir_config *config);

/* Takes up the config anew, for a signal and for everybody who has asked before it began, and says
 * what became of it. In the main thread, while the others run. */
void weir_server_reload(struct weir_server *server);

/* Every worker has the snapshot: extensions may start what it names. */
void weir_server_resume_extensions(const struct weir_server *server);

/* From now on loops may ask, and the calling thread is woken by a SIGHUP for them. */
void weir_reload_init(struct weir_reload *reload);

/* Whoever has asked and whoever asks later is told that the server drains. */
void weir_reload_end(struct weir_reload *reload);

#endif
