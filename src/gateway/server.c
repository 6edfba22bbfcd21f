#define _GNU_SOURCE
#include "gateway/server.h"

#include "base/alloc.h"
#include "base/list.h"
#include "gateway/client.h"
#include "gateway/exchange.h"
#include "gateway/settings.h"
#include "gateway/upstream.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Connections and exchanges at once, per worker; the descriptor limit is usually lower. */
#define CONNECTIONS_MAX 65536

/* How often keys that nobody uses are looked for. */
#define SWEEP_NS WEIR_NS_PER_SECOND

#define LISTENERS_MAX 32

/* One thread. */
struct thread {
    struct weir_worker worker;
    pthread_t id;
    struct weir_door doors[LISTENERS_MAX]; /* as the server's listeners */
    struct weir_post drain;
    struct weir_timer grace;
    struct weir_timer sweep; /* of the first thread */
    struct server *server;
};

struct server {
    const struct weir_config *config;
    const struct weir_service *api;
    struct weir_gates *gates;
    struct weir_listener listeners[LISTENERS_MAX];
    uint32_t listener_count;
    uint32_t thread_count;
    struct thread *threads;
    struct weir_loop *loops[WEIR_LOOPS_MAX];
};

static int complain(const char *what, const char *why)
{
    fprintf(stderr, "weir: %s: %s\n", what, why);
    return 1;
}

/* ---- listening ---- */

static int open_listener(struct server *server, const struct weir_config_listener *config,
                         const struct weir_service *service, const char *what)
{
    uint32_t index = server->listener_count;
    struct weir_listener *listener = &server->listeners[index];
    char text[WEIR_ADDRESS_TEXT_MAX];
    assert(index < LISTENERS_MAX);
    const char *wrong = weir_listener_init(listener, config, service);
    if (wrong != NULL) {
        return complain(what, wrong);
    }
    server->listener_count++;
    /* Threads cannot share a path. */
    uint32_t count = config->address.kind == WEIR_CONFIG_ADDRESS_UNIX ? 1 : server->thread_count;
    for (uint32_t i = 0; i < count; i++) {
        struct thread *thread = &server->threads[i];
        if (!weir_door_open(&thread->doors[index], &thread->worker, listener)) {
            int why = errno;
            weir_address_format(&listener->address, text);
            return complain(text, strerror(why));
        }
    }
    weir_address_format(&listener->address, text);
    printf("weir: %s on %s\n", what, text);
    return 0;
}

static int open_listeners(struct server *server)
{
    const struct weir_config *config = server->config;
    for (uint32_t i = 0; i < config->listen_count; i++) {
        if (open_listener(server, &config->listen[i], &weir_proxy, "listening") != 0) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < config->api_count; i++) {
        if (open_listener(server, &config->api[i], server->api, "api") != 0) {
            return 1;
        }
    }
    fflush(stdout);
    return 0;
}

/* ---- draining ---- */

static void stop_when_empty(struct thread *thread)
{
    if (thread->worker.awaited == 0) {
        weir_loop_stop(&thread->worker.loop);
    }
}

static void on_grace_over(struct weir_timer *timer)
{
    struct thread *thread = weir_container_of(timer, struct thread, grace);
    weir_loop_stop(&thread->worker.loop);
}

/* No new work; connections without a request close at once, the others when they have been served.
 * What is not awaited stays open until the end, to tell how far it is. */
static void on_drain(struct weir_post *post)
{
    struct thread *thread = weir_container_of(post, struct thread, drain);
    struct weir_worker *worker = &thread->worker;
    worker->draining = true;
    for (uint32_t i = 0; i < thread->server->listener_count; i++) {
        if (thread->server->listeners[i].service->awaited) {
            weir_door_close(&thread->doors[i]);
        }
    }
    struct weir_link *list = &worker->all_clients;
    for (struct weir_link *at = list->next; at != list;) {
        struct weir_client *client = weir_container_of(at, struct weir_client, link);
        at = at->next;
        if (client->call == NULL && client->listener->service->awaited) {
            weir_client_close(client);
        }
    }
    weir_timer_set(&worker->loop, &thread->grace,
                   worker->loop.now_ns + thread->server->config->grace_ns);
    stop_when_empty(thread);
}

static void on_client_gone(struct weir_worker *worker)
{
    if (worker->draining) {
        stop_when_empty(weir_container_of(worker, struct thread, worker));
    }
}

static void on_sweep(struct weir_timer *timer)
{
    struct thread *thread = weir_container_of(timer, struct thread, sweep);
    struct weir_loop *loop = &thread->worker.loop;
    weir_gates_sweep(thread->server->gates, loop->now_ns);
    weir_timer_set(loop, timer, loop->now_ns + SWEEP_NS);
}

/* ---- threads ---- */

static const char *open_worker(struct server *server, struct thread *thread, uint32_t index)
{
    struct weir_worker *worker = &thread->worker;
    thread->server = server;
    *worker = (struct weir_worker){.index = index,
                                   .allocator = &weir_allocator_libc,
                                   .config = server->config,
                                   .client_gone = on_client_gone};
    weir_list_init(&worker->all_clients);
    weir_buffer_pool_init(&worker->buffers, CONNECTIONS_MAX * 2, worker->allocator);
    weir_slab_init(&worker->clients, sizeof(struct weir_client), CONNECTIONS_MAX,
                   worker->allocator);
    weir_slab_init(&worker->exchanges, sizeof(struct weir_exchange), CONNECTIONS_MAX,
                   worker->allocator);
    weir_slab_init(&worker->backends, sizeof(struct weir_backend), CONNECTIONS_MAX,
                   worker->allocator);
    weir_slab_init(&worker->heads, sizeof(struct weir_http1_head), CONNECTIONS_MAX,
                   worker->allocator);
    weir_slab_init(&worker->calls, server->api->call_bytes, CONNECTIONS_MAX, worker->allocator);
    if (getrandom(&worker->random, sizeof worker->random, 0) != sizeof worker->random) {
        worker->random = index;
    }
    if (!weir_loop_init(&worker->loop, worker->allocator) ||
        !weir_timer_init(&worker->loop, &thread->grace, on_grace_over) ||
        !weir_timer_init(&worker->loop, &thread->sweep, on_sweep)) {
        return strerror(errno);
    }
    if (index == 0) {
        weir_timer_set(&worker->loop, &thread->sweep, worker->loop.now_ns + SWEEP_NS);
    }
    server->loops[index] = &worker->loop;
    return weir_upstreams_open(worker);
}

static void *run_thread(void *context)
{
    struct thread *thread = context;
    weir_loop_run(&thread->worker.loop);
    return NULL;
}

/* What is still there when the grace is over, is closed. */
static void close_clients(struct thread *thread)
{
    struct weir_worker *worker = &thread->worker;
    while (!weir_list_empty(&worker->all_clients)) {
        weir_client_close(weir_container_of(worker->all_clients.next, struct weir_client, link));
    }
}

static void close_connections(struct thread *thread)
{
    weir_upstreams_close(&thread->worker);
    for (uint32_t i = 0; i < thread->server->listener_count; i++) {
        weir_door_close(&thread->doors[i]);
    }
    weir_timer_deinit(&thread->worker.loop, &thread->grace);
    weir_timer_deinit(&thread->worker.loop, &thread->sweep);
}

static void free_worker(struct thread *thread)
{
    struct weir_worker *worker = &thread->worker;
    weir_upstreams_free(worker);
    weir_slab_deinit(&worker->clients);
    weir_slab_deinit(&worker->exchanges);
    weir_slab_deinit(&worker->backends);
    weir_slab_deinit(&worker->heads);
    weir_slab_deinit(&worker->calls);
    weir_buffer_pool_deinit(&worker->buffers);
    weir_loop_deinit(&worker->loop);
}

/* After the threads have ended: closing a client may tell another thread's exchange something, so
 * all loops settle before any of their memory goes. */
static void close_threads(struct server *server)
{
    void (*const steps[])(struct thread *) = {close_clients, close_connections};
    for (size_t step = 0; step < sizeof steps / sizeof steps[0]; step++) {
        for (uint32_t i = 0; i < server->thread_count; i++) {
            steps[step](&server->threads[i]);
        }
        for (uint32_t i = 0; i < server->thread_count; i++) {
            weir_loop_settle(&server->threads[i].worker.loop);
        }
    }
    weir_gates_destroy(server->gates);
    for (uint32_t i = 0; i < server->thread_count; i++) {
        free_worker(&server->threads[i]);
    }
    free(server->threads);
}

/* ---- gates ---- */

static int configure_gate(struct server *server, uint32_t index)
{
    const struct weir_config_gate *gate = &server->config->gates[index];
    struct weir_gate_settings made;
    weir_gate_settings_make(&made, server->config, index, &gate->rules);
    enum weir_status status = weir_gates_configure(server->gates, index, &made.settings, 0);
    for (uint32_t i = 0; status == WEIR_OK && i < gate->key_count; i++) {
        weir_gate_settings_make(&made, server->config, index, &gate->keys[i].rules);
        status = weir_gates_override(server->gates, index, gate->keys[i].name, &made.settings);
    }
    return status == WEIR_OK ? 0 : complain("gates", weir_status_text(status));
}

static int open_gates(struct server *server)
{
    struct weir_gates_options options = {.allocator = &weir_allocator_libc,
                                         .loops = server->loops,
                                         .loop_count = server->thread_count,
                                         .gate_count = server->config->gate_count};
    if (getrandom(options.seed, sizeof options.seed, 0) != sizeof options.seed) {
        return complain("random", strerror(errno));
    }
    enum weir_status status = weir_gates_create(&options, &server->gates);
    if (status != WEIR_OK) {
        return complain("gates", weir_status_text(status));
    }
    for (uint32_t i = 0; i < server->config->gate_count; i++) {
        if (configure_gate(server, i) != 0) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        server->threads[i].worker.gates = server->gates;
    }
    return 0;
}

/* ---- the whole ---- */

static void wait_for_signal(const sigset_t *signals)
{
    int signal;
    while (sigwait(signals, &signal) != 0) {
    }
    printf("weir: draining\n");
    fflush(stdout);
}

/* What the config asks for and this program does not do, it says rather than passing over it. */
static void admit_gaps(const struct weir_config *config)
{
    for (uint32_t i = 0; i < config->gate_count; i++) {
        const struct weir_config_gate *gate = &config->gates[i];
        if (gate->rules.limit.kind == WEIR_CONFIG_KIND_ADAPTIVE) {
            fprintf(stderr, "weir: gate %.*s keeps its start limit: this version does not adapt\n",
                    (int)gate->name.bytes, gate->name.data);
        }
    }
}

static int run(struct server *server, const sigset_t *signals)
{
    admit_gaps(server->config);
    if (open_gates(server) != 0 || open_listeners(server) != 0) {
        return 1;
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        struct thread *thread = &server->threads[i];
        if (pthread_create(&thread->id, NULL, run_thread, thread) != 0) {
            return complain("thread", strerror(errno));
        }
    }
    wait_for_signal(signals);
    for (uint32_t i = 0; i < server->thread_count; i++) {
        struct thread *thread = &server->threads[i];
        thread->drain = (struct weir_post){.arrive = on_drain};
        weir_loop_post(&thread->worker.loop, &thread->drain);
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        pthread_join(server->threads[i].id, NULL);
    }
    return 0;
}

int weir_serve(const struct weir_config *config, const struct weir_service *api)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct server server = {.config = config,
                            .api = api,
                            .thread_count = config->threads != 0 ? config->threads
                                            : cores > 0          ? (uint32_t)cores
                                                                 : 1};
    if (server.thread_count > WEIR_LOOPS_MAX) {
        server.thread_count = WEIR_LOOPS_MAX;
    }
    server.threads = calloc(server.thread_count, sizeof *server.threads);
    if (server.threads == NULL) {
        return complain("start", "out of memory");
    }
    for (uint32_t i = 0; i < server.thread_count; i++) {
        const char *wrong = open_worker(&server, &server.threads[i], i);
        if (wrong != NULL) {
            return complain("start", wrong);
        }
    }
    int status = run(&server, &signals);
    close_threads(&server);
    return status;
}
