/* server.c - the process: makes the threads, opens the listeners, obeys signals, drains and ends.
 *
 * weir_serve() runs in the main thread, which handles signals and reloads; each other thread runs
 * one loop. The threads share the gates, flows, usage, metrics and the event log, which have their
 * own locks; each thread's connections and worker belong to its loop alone. Draining is a post to
 * every loop. The atomic `drained` counts threads and extensions that have nothing left to do, and
 * the last of them stops all loops. */
#define _GNU_SOURCE
#include "server/server_internal.h"

#include "a2a/a2a_worker.h"
#include "base/alloc.h"
#include "base/list.h"
#include "frontend/client_connection.h"
#include "frontend/loopback_client.h"
#include "gates/event_file.h"
#include "gates/task_permit.h"
#include "llm/llm_metrics.h"
#include "llm/llm_worker.h"
#include "log/line_file.h"
#include "log/log.h"
#include "net/descriptors.h"
#include "proxy/access_log.h"
#include "proxy/exchange.h"
#include "proxy/exchange_flow.h"
#include "proxy/spool_space.h"
#include "rpc/rpc_worker.h"
#include "server/snapshot_build.h"
#include "tenants/usage_file.h"
#include "upstream/secret.h"
#include "upstream/upstream_connection.h"
#include "weir/version.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

/* Connections and exchanges at once, per worker; the descriptor limit is usually lower. */
#define CONNECTIONS_MAX 65536

/* Each of the two buffers of the access log: some thousand lines for every time it is written. */
#define ACCESS_BUFFER_BYTES (UINT32_C(2) << 20)

/* How often unused keys are looked for. */
#define SWEEP_NS WEIR_NS_PER_SECOND

/* How often the key file is checked for changes. */
#define KEY_FILE_S 1

int weir_server_complain(const char *what, const char *why)
{
    fprintf(stderr, "weir: %s: %s\n", what, why);
    if (weir_log_has_file()) {
        weir_log_event(WEIR_LOG_ERROR, "failed", NULL, "%s: %s", what, why);
    }
    return 1;
}

/* ---- listening ---- */

static int open_listener(struct weir_server *server, const struct weir_config_listener *config,
                         const struct weir_service *service, const char *what)
{
    uint32_t index = server->listener_count;
    struct weir_listener *listener = &server->listeners[index];
    char text[WEIR_ADDRESS_TEXT_MAX];
    assert(index < WEIR_LISTENERS_MAX);
    const char *error = weir_listener_init(listener, config, service);
    if (error != NULL) {
        return weir_server_complain(what, error);
    }
    server->listener_count++;
    /* Only one thread can listen on a Unix socket's path. */
    uint32_t count = config->address.kind == WEIR_CONFIG_ADDRESS_UNIX ? 1 : server->thread_count;
    for (uint32_t i = 0; i < count; i++) {
        struct weir_thread *thread = &server->threads[i];
        if (!weir_acceptor_open(&thread->acceptors[index], &thread->worker, listener)) {
            int why = errno;
            weir_address_format(&listener->address, text);
            return weir_server_complain(text, strerror(why));
        }
    }
    weir_address_format(&listener->address, text);
    struct weir_log_names names = {.listener = weir_slice_of(text)};
    weir_log_event(WEIR_LOG_INFO, "listening", &names, "%s on %s", what, text);
    printf("weir: %s on %s\n", what, text);
    return 0;
}

static int open_listeners(struct weir_server *server)
{
    const struct weir_config *config = server->first->config;
    weir_log_flush(); /* what reads stdout may look into the log */
    for (uint32_t i = 0; i < config->listen_count; i++) {
        if (open_listener(server, &config->listen[i], &weir_proxy, "listening") != 0) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < config->api_count; i++) {
        if (open_listener(server, &config->api[i], server->options->api, "api") != 0) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < config->protocol_count; i++) {
        if (open_listener(server, &config->protocol[i], server->options->protocol, "protocol") !=
            0) {
            return 1;
        }
    }
    fflush(stdout);
    return 0;
}

/* ---- draining ---- */

static void on_stop(struct weir_post *post)
{
    weir_loop_stop(&weir_container_of(post, struct weir_thread, stop)->worker.loop);
}

/* Counts a thread or extension that has nothing left to do; after the last one all loops stop. */
static void count_drained(struct weir_server *server)
{
    uint32_t all = server->thread_count;
    for (uint32_t i = 0; i < WEIR_EXTENSIONS_MAX; i++) {
        all += server->extensions[i].state != NULL;
    }
    if (atomic_fetch_add(&server->drained, 1) + 1 < all) {
        return;
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        server->threads[i].stop = (struct weir_post){.arrive = on_stop};
        weir_loop_post(server->loops[i], &server->threads[i].stop);
    }
}

/* A drained thread goes on until all are: its timer may move a line that others wait in, its part
 * of the API still answers, and jobs may need it. */
static void stop_when_empty(struct weir_thread *thread)
{
    if (!thread->drained && thread->worker.awaited == 0) {
        thread->drained = true;
        count_drained(thread->server);
    }
}

static void on_extension_drained(void *context)
{
    count_drained(context);
}

static void on_grace_over(struct weir_timer *timer)
{
    struct weir_thread *thread = weir_container_of(timer, struct weir_thread, grace);
    struct weir_link *list = &thread->worker.all_clients;
    for (struct weir_link *at = list->next; at != list;) {
        struct weir_client_connection *connection =
            weir_container_of(at, struct weir_client_connection, link);
        at = at->next;
        weir_client_connection_dismiss(connection);
    }
    weir_loop_stop(&thread->worker.loop);
}

/* Connections without a request close at once if the end waits for them. The others stay open until
 * the end, to tell how far it is; but a call that waits there for something new would not get it.
 */
static void close_idle_clients(struct weir_worker *worker)
{
    struct weir_link *list = &worker->all_clients;
    for (struct weir_link *at = list->next; at != list;) {
        struct weir_client_connection *connection =
            weir_container_of(at, struct weir_client_connection, link);
        at = at->next;
        weir_client_connection_drain(connection);
    }
}

/* Accepts no new work; requests under way go on until they have been served. */
static void on_drain(struct weir_post *post)
{
    struct weir_thread *thread = weir_container_of(post, struct weir_thread, drain);
    struct weir_worker *worker = &thread->worker;
    worker->draining = true;
    for (uint32_t i = 0; i < thread->server->listener_count; i++) {
        if (thread->server->listeners[i].service->awaited) {
            weir_acceptor_close(&thread->acceptors[i]);
        }
    }
    close_idle_clients(worker);
    weir_flows_drain(worker->flows, worker->index);
    weir_timer_set(&worker->loop, &thread->grace,
                   worker->loop.now_ns + worker->worker_config->config->grace_ns);
    stop_when_empty(thread);
}

static void on_client_gone(struct weir_worker *worker)
{
    if (worker->draining) {
        stop_when_empty(weir_container_of(worker, struct weir_thread, worker));
    }
}

static void on_sweep(struct weir_timer *timer)
{
    struct weir_thread *thread = weir_container_of(timer, struct weir_thread, sweep);
    struct weir_loop *loop = &thread->worker.loop;
    weir_gates_sweep(thread->server->gates, loop->now_ns);
    weir_timer_set(loop, timer, loop->now_ns + SWEEP_NS);
}

/* ---- threads ---- */

static const char *open_worker(struct weir_server *server, struct weir_thread *thread,
                               uint32_t index)
{
    struct weir_worker *worker = &thread->worker;
    thread->server = server;
    *worker = (struct weir_worker){.index = index,
                                   .allocator = &weir_allocator_libc,
                                   .client_gone = on_client_gone,
                                   .make_room = weir_listener_make_room_for_upstream};
    weir_list_init(&worker->all_clients);
    weir_buffer_pool_init(&worker->buffers, CONNECTIONS_MAX * 2, worker->allocator);
    weir_slab_init(&worker->client_connections, sizeof(struct weir_client_connection),
                   CONNECTIONS_MAX, worker->allocator);
    weir_slab_init(&worker->exchanges, sizeof(struct weir_exchange), CONNECTIONS_MAX,
                   worker->allocator);
    weir_slab_init(&worker->upstream_connections, sizeof(struct weir_upstream_connection),
                   CONNECTIONS_MAX, worker->allocator);
    weir_slab_init(&worker->body_starts, sizeof(struct weir_body_start), CONNECTIONS_MAX,
                   worker->allocator);
    weir_slab_init(&worker->exchange_flows, sizeof(struct weir_exchange_flow), CONNECTIONS_MAX,
                   worker->allocator);
    weir_slab_init(&worker->access_entries, weir_access_entry_bytes, CONNECTIONS_MAX,
                   worker->allocator);
    weir_slab_init(&worker->heads, sizeof(struct weir_http1_head), CONNECTIONS_MAX,
                   worker->allocator);
    weir_slab_init(&worker->kept_heads, sizeof(struct weir_kept_head), CONNECTIONS_MAX,
                   worker->allocator);
    weir_slab_init(&worker->calls, server->options->api->call_bytes, CONNECTIONS_MAX,
                   worker->allocator);
    for (uint32_t i = 0; i < WEIR_CALL_CONTEXT_SIZES; i++) {
        weir_slab_init(&worker->call_contexts[i], server->options->api->call_context_bytes[i],
                       CONNECTIONS_MAX, worker->allocator);
    }
    if (getrandom(&worker->random, sizeof worker->random, 0) != sizeof worker->random) {
        worker->random = index;
    }
    worker->hasher = weir_hasher_create();
    worker->llm = weir_llm_worker_create(worker->allocator, CONNECTIONS_MAX);
    worker->rpc = weir_rpc_worker_create(worker->allocator, CONNECTIONS_MAX);
    worker->a2a = weir_a2a_worker_create(worker->allocator, CONNECTIONS_MAX);
    if (worker->hasher == NULL || worker->llm == NULL || worker->rpc == NULL ||
        worker->a2a == NULL) {
        return "out of memory";
    }
    if (!weir_loop_init(&worker->loop, worker->allocator) ||
        !weir_timer_init(&worker->loop, &thread->grace, on_grace_over) ||
        !weir_timer_init(&worker->loop, &thread->sweep, on_sweep)) {
        return strerror(errno);
    }
    if (index == 0) {
        weir_timer_set(&worker->loop, &thread->sweep, worker->loop.now_ns + SWEEP_NS);
    }
    worker->resolver = weir_resolver_create(&worker->loop);
    if (worker->resolver == NULL) {
        return "out of memory";
    }
    server->loops[index] = &worker->loop;
    weir_key_feed_add(&server->keys, worker);
    return NULL;
}

static void *run_thread(void *context)
{
    struct weir_thread *thread = context;
    weir_loop_run(&thread->worker.loop);
    return NULL;
}

/* Closes the connections that are still open when the grace is over. */
static void close_clients(struct weir_thread *thread)
{
    struct weir_worker *worker = &thread->worker;
    while (!weir_list_empty(&worker->all_clients)) {
        weir_client_connection_close(
            weir_container_of(worker->all_clients.next, struct weir_client_connection, link));
    }
}

static void close_connections(struct weir_thread *thread)
{
    if (thread->worker.worker_config != NULL) {
        weir_upstreams_close(thread->worker.worker_config);
    }
    for (uint32_t i = 0; i < thread->server->listener_count; i++) {
        weir_acceptor_close(&thread->acceptors[i]);
    }
    weir_timer_deinit(&thread->worker.loop, &thread->grace);
    weir_timer_deinit(&thread->worker.loop, &thread->sweep);
}

static void free_worker(struct weir_thread *thread)
{
    struct weir_worker *worker = &thread->worker;
    weir_worker_config_destroy(worker->worker_config);
    weir_resolver_destroy(worker->resolver);
    weir_api_keys_give(worker->keys);
    weir_hasher_destroy(worker->hasher);
    weir_slab_deinit(&worker->client_connections);
    weir_slab_deinit(&worker->exchanges);
    weir_slab_deinit(&worker->upstream_connections);
    weir_slab_deinit(&worker->body_starts);
    weir_slab_deinit(&worker->exchange_flows);
    weir_slab_deinit(&worker->access_entries);
    weir_slab_deinit(&worker->heads);
    weir_slab_deinit(&worker->kept_heads);
    weir_llm_worker_destroy(worker->llm);
    weir_rpc_worker_destroy(worker->rpc);
    weir_a2a_worker_destroy(worker->a2a);
    weir_slab_deinit(&worker->calls);
    for (uint32_t i = 0; i < WEIR_CALL_CONTEXT_SIZES; i++) {
        weir_slab_deinit(&worker->call_contexts[i]);
    }
    weir_buffer_pool_deinit(&worker->buffers);
    weir_loop_deinit(&worker->loop);
}

/* Repeats until no post in one loop causes a post to another. */
static void settle_all(struct weir_server *server)
{
    for (bool settled = false; !settled;) {
        settled = true;
        for (uint32_t i = 0; i < server->thread_count; i++) {
            settled = !weir_loop_settle(&server->threads[i].worker.loop) && settled;
        }
    }
}

/* After the threads have ended. Closing a client may post to another thread's exchange, so all
 * loops settle before any of their memory is freed. */
static void close_threads(struct weir_server *server)
{
    for (uint32_t i = 0; i < WEIR_EXTENSIONS_MAX; i++) {
        if (server->extensions[i].state != NULL) {
            server->extensions[i].kind->stop(server->extensions[i].state);
        }
    }
    void (*const steps[])(struct weir_thread *) = {close_clients, close_connections};
    for (size_t step = 0; step < sizeof steps / sizeof steps[0]; step++) {
        for (uint32_t i = 0; i < server->thread_count; i++) {
            steps[step](&server->threads[i]);
        }
        if (server->spool_space != NULL) {
            weir_spool_space_rest(server->spool_space); /* after which its posts are under way */
        }
        settle_all(server);
    }
    for (uint32_t i = 0; i < WEIR_EXTENSIONS_MAX; i++) {
        if (server->extensions[i].state != NULL) {
            server->extensions[i].kind->close(server->extensions[i].state);
        }
    }
    server->options->api->close(server->api);
    weir_spool_space_destroy(server->spool_space);
    weir_usage_file_close(server->usage_file);
    weir_budget_book_destroy(server->budgets);
    weir_usage_destroy(server->usage);
    weir_task_permits_destroy(server->task_permits);
    weir_flows_destroy(server->flows);
    weir_llm_metrics_destroy(server->meter);
    weir_event_file_close(server->event_file);
    weir_line_file_destroy(server->access_file);
    weir_gates_destroy(server->gates);
    weir_event_log_destroy(server->event_log);
    for (uint32_t i = 0; i < server->thread_count; i++) {
        free_worker(&server->threads[i]);
    }
    free(server->threads);
}

/* ---- what the threads share ---- */

/* In the thread of the access log's file. */
static void report_access_file(void *context __attribute__((unused)), int error, uint64_t dropped)
{
    if (error != 0) {
        weir_log_event(WEIR_LOG_ERROR, "access_log_failed", NULL,
                       "The access log cannot be written: %s. Its lines are dropped until it can "
                       "be again. Free room, or name another access_log.file.",
                       strerror(error));
    } else {
        weir_log_event(WEIR_LOG_WARN, "access_log_works", NULL,
                       "The access log can be written again. %llu lines have been lost so far.",
                       (unsigned long long)dropped);
    }
}

static int open_gates(struct weir_server *server)
{
    server->event_log = weir_event_log_create();
    if (server->event_log == NULL) {
        return weir_server_complain("events", "out of memory");
    }
    struct weir_gates_options options = {.allocator = &weir_allocator_libc,
                                         .loops = server->loops,
                                         .loop_count = server->thread_count,
                                         .event_log = server->event_log};
    if (getrandom(options.seed, sizeof options.seed, 0) != sizeof options.seed) {
        return weir_server_complain("random", strerror(errno));
    }
    enum weir_status status = weir_gates_create(&options, &server->gates);
    if (status != WEIR_OK) {
        return weir_server_complain("gates", weir_status_text(status));
    }
    server->access_file = weir_line_file_create(ACCESS_BUFFER_BYTES);
    if (server->access_file == NULL) {
        return weir_server_complain("access_log", "out of memory");
    }
    weir_line_file_set_report(server->access_file, report_access_file, NULL);
    server->api = server->options->api->open();
    if (server->api == NULL) {
        return weir_server_complain("api", "out of memory");
    }
    server->flows = weir_flows_create(server->gates, &weir_allocator_libc);
    if (server->flows == NULL) {
        return weir_server_complain("flows", "out of memory");
    }
    server->task_permits =
        weir_task_permits_create(server->gates, WEIR_TASK_PERMITS_MAX, &weir_allocator_libc);
    if (server->task_permits == NULL) {
        return weir_server_complain("tasks", "out of memory");
    }
    server->usage = weir_usage_create(WEIR_USAGE_ROWS_MAX);
    if (server->usage == NULL) {
        return weir_server_complain("usage", "out of memory");
    }
    server->budgets = weir_budget_book_create(server->usage, WEIR_BUDGET_ACCOUNTS_MAX);
    if (server->budgets == NULL) {
        return weir_server_complain("budgets", "out of memory");
    }
    server->meter =
        weir_llm_metrics_create(&weir_allocator_libc, server->thread_count, options.seed);
    if (server->meter == NULL) {
        return weir_server_complain("metrics", "out of memory");
    }
    weir_loopback_listener_init(&server->loopback_listener, &weir_proxy);
    for (uint32_t i = 0; i < server->thread_count; i++) {
        server->threads[i].worker.loopback_listener = &server->loopback_listener;
        server->threads[i].worker.access_file = server->access_file;
        server->threads[i].worker.usage = server->usage;
        server->threads[i].worker.budgets = server->budgets;
        server->threads[i].worker.gates = server->gates;
        server->threads[i].worker.flows = server->flows;
        server->threads[i].worker.task_permits = server->task_permits;
        server->threads[i].worker.meter = server->meter;
        server->threads[i].worker.api = server->api;
        server->threads[i].worker.reloader = &server->reload.reloader;
    }
    return 0;
}

/* ---- the whole ---- */

/* Handles signals until one ends the program. */
static void obey_signals(struct weir_server *server, const sigset_t *signals)
{
    const struct timespec patience = {.tv_sec = KEY_FILE_S};
    int which = SIGHUP;
    while (which == SIGHUP || which == SIGUSR1 || which < 0) {
        which = sigtimedwait(signals, NULL, &patience);
        if (which == SIGHUP) {
            weir_server_reload(server);
        } else if (which == SIGUSR1) {
            weir_server_reopen_files(server);
        } else if (which < 0) {
            weir_key_feed_refresh(&server->keys);
            weir_secrets_refresh(server->snapshot->secrets);
        }
    }
    weir_reload_end(&server->reload);
    weir_log_event(WEIR_LOG_INFO, "draining", NULL, "Draining after %s",
                   which == SIGINT ? "SIGINT" : "SIGTERM");
    printf("weir: draining\n");
    fflush(stdout);
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    pthread_sigmask(SIG_UNBLOCK, signals, NULL); /* a second signal ends the program at once */
}

static int run(struct weir_server *server, const sigset_t *signals)
{
    if (open_listeners(server) != 0) {
        return 1;
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        struct weir_thread *thread = &server->threads[i];
        if (pthread_create(&thread->id, NULL, run_thread, thread) != 0) {
            int status = weir_server_complain("thread", strerror(errno));
            weir_log_flush();
            exit(status); /* other threads may run already */
        }
    }
    weir_server_resume_extensions(server);
    obey_signals(server, signals);
    for (uint32_t i = 0; i < WEIR_EXTENSIONS_MAX; i++) {
        if (server->extensions[i].state != NULL) {
            server->extensions[i].kind->drain(server->extensions[i].state, on_extension_drained,
                                              server);
        }
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        struct weir_thread *thread = &server->threads[i];
        thread->drain = (struct weir_post){.arrive = on_drain};
        weir_loop_post(&thread->worker.loop, &thread->drain);
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        pthread_join(server->threads[i].id, NULL);
    }
    return 0;
}

static uint32_t thread_count(const struct weir_config *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t count = config->threads != 0 ? config->threads : cores > 0 ? (uint32_t)cores : 1;
    return count < WEIR_LOOPS_MAX ? count : WEIR_LOOPS_MAX;
}

static int open_threads(struct weir_server *server)
{
    server->threads = calloc(server->thread_count, sizeof *server->threads);
    if (server->threads == NULL) {
        return weir_server_complain("start", "out of memory");
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        const char *error = open_worker(server, &server->threads[i], i);
        if (error != NULL) {
            return weir_server_complain("start", error);
        }
    }
    return 0;
}

/* Raises the limit to what the system allows: the usual 1,024 is meant for programs that use
 * select(). */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        weir_descriptors_set_limit(limit.rlim_cur);
    }
}

static int serve(struct weir_server *server, struct weir_config *config, const sigset_t *signals)
{
    if (open_threads(server) != 0 || open_gates(server) != 0) {
        return 1; /* the process cannot run without it; the system frees what was made */
    }
    weir_log_event(WEIR_LOG_INFO, "start", NULL, "weir %s starts, process %ld, threads %u",
                   weir_version(), (long)getpid(), server->thread_count);
    int status = weir_server_adopt_first(server, config);
    if (status == 0) {
        status = run(server, signals);
    }
    close_threads(server);
    weir_config_snapshot_give(server->snapshot);
    weir_config_snapshot_give(server->first);
    weir_log_event(WEIR_LOG_INFO, "end", NULL, "weir ends with status %d", status);
    return status;
}

int weir_serve(const struct weir_serve_options *options)
{
    raise_descriptor_limit();
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN); /* a reader of our events or output may go away; we must not */
    char error[WEIR_RELOAD_ERROR_MAX];
    struct weir_config *config = options->load(options->context, error, sizeof error);
    if (config == NULL) {
        fprintf(stderr, "%s\n", error); /* without a config it is not known where the log goes */
        return 1;
    }
    if (!weir_server_open_log(config, error, sizeof error)) {
        return weir_server_complain("log", error);
    }
    struct weir_server server = {.options = options, .thread_count = thread_count(config)};
    weir_reload_init(&server.reload);
    int status = serve(&server, config, &signals);
    weir_log_close();
    return status;
}
