/* server_internal.h - the running gateway, as server.c, which has the threads, and reload.c, which
 * gives them a config, both see it. No other file includes it. */
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

/* One thread of the server. */
struct weir_thread {
    struct weir_worker worker;
    pthread_t id;
    struct weir_acceptor acceptors[WEIR_LISTENERS_MAX]; /* as the server's listeners */
    struct weir_post drain;
    struct weir_post stop;
    struct weir_post adopt;
    struct weir_worker_config *next; /* the worker config that the post `adopt` delivers */
    struct weir_timer grace;
    struct weir_timer sweep; /* of the first thread */
    bool drained;            /* the thread has no client left to wait for */
    struct weir_server *server;
};

/* How a new snapshot reaches the loops: the first loop applies it to the gates, then all adopt
 * their worker configs. The main thread waits for each step. */
struct weir_reload {
    struct weir_reloader reloader;
    pthread_t thread;                  /* the main thread, which reloads */
    pthread_mutex_t lock;              /* of the next */
    struct weir_reload_request *asked; /* requests of loops, not yet begun */
    bool over;                         /* the server drains: no more requests are taken */
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
    struct weir_line_file *access_file; /* opened when a config wants it */
    struct weir_gates *gates;
    struct weir_flows *flows;
    struct weir_task_permits *task_permits;
    struct weir_usage_book *usage;
    struct weir_budget_book *budgets;
    struct weir_usage_file *usage_file;
    struct weir_spool_space *spool_space;
    struct weir_llm_metrics *meter;
    void *api; /* the API's own state */
    struct weir_extension_slot extensions[WEIR_EXTENSIONS_MAX];
    struct weir_listener loopback_listener;
    struct weir_listener listeners[WEIR_LISTENERS_MAX];
    uint32_t listener_count;
    uint32_t thread_count;
    struct weir_thread *threads;
    struct weir_loop *loops[WEIR_LOOPS_MAX];
    atomic_uint drained; /* threads and extensions that have drained */
    struct weir_reload reload;
};

/* Why the program cannot start: writes `what` and `why` to stderr, as all commands do, and to the
 * log if that has a file. Returns 1, the program's exit status. */
int weir_server_complain(const char *what, const char *why);

/* Opens the log as the config says, or changes it. False, with a sentence, if its file cannot be
 * opened: then it stays as it was. */
bool weir_server_open_log(const struct weir_config *config, char *error, size_t error_bytes);

/* Opens the files that others may have moved away: of the log and of events. */
void weir_server_reopen_files(struct weir_server *server);

/* Takes up the first config, which is the server's from now on, before any thread runs. Returns 0,
 * or 1 after logging the reason. */
int weir_server_adopt_first(struct weir_server *server, struct weir_config *config);

/* Reloads the config, for a signal and for all requests that came before it began, and reports the
 * outcome. In the main thread, while the others run. */
void weir_server_reload(struct weir_server *server);

/* Called when every worker has the snapshot: extensions may start what it names. */
void weir_server_resume_extensions(const struct weir_server *server);

/* From now on loops may ask for a reload, which sends SIGHUP to the calling thread. */
void weir_reload_init(struct weir_reload *reload);

/* Answers all waiting and later requests for a reload with WEIR_RELOAD_DRAINING. */
void weir_reload_end(struct weir_reload *reload);

#endif
