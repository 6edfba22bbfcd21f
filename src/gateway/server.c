#define _GNU_SOURCE
#include "gateway/server.h"

#include "base/alloc.h"
#include "base/list.h"
#include "gateway/client.h"
#include "gateway/event_file.h"
#include "gateway/exchange.h"
#include "gateway/key_feed.h"
#include "gateway/llm.h"
#include "gateway/meter.h"
#include "gateway/reload.h"
#include "gateway/site.h"
#include "gateway/upstream.h"
#include "gateway/usage_file.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

/* Connections and exchanges at once, per worker; the descriptor limit is usually lower. */
#define CONNECTIONS_MAX 65536

/* How often keys that nobody uses are looked for. */
#define SWEEP_NS WEIR_NS_PER_SECOND

/* How often it is looked whether API keys have been made or revoked. */
#define KEY_FILE_S 1

#define LISTENERS_MAX 48

/* One thread. */
struct thread {
    struct weir_worker worker;
    pthread_t id;
    struct weir_door doors[LISTENERS_MAX]; /* as the server's listeners */
    struct weir_post drain;
    struct weir_post stop;
    struct weir_post adopt;
    struct weir_site *next; /* what `adopt` brings */
    struct weir_timer grace;
    struct weir_timer sweep; /* of the first thread */
    bool drained;            /* nobody is awaited any more */
    struct server *server;
};

/* A new plan's way into the loops: the first applies it to the gates, then all adopt their sites.
 * The thread that reloads waits for each step. */
struct reload {
    struct weir_reloader reloader;
    pthread_t thread;                  /* which does it */
    pthread_mutex_t lock;              /* of the next */
    struct weir_reload_request *asked; /* by loops */
    bool over;                         /* the thread looks at them no more */
    struct weir_post apply;
    struct weir_plan *plan;
    enum weir_status status;
    sem_t done;
};

struct server {
    const struct weir_serve_options *options;
    struct weir_plan *first; /* which the listeners refer to */
    struct weir_plan *plan;  /* the one in force */
    struct weir_key_feed keys;
    struct weir_journal *journal;
    struct weir_event_file *event_file; /* or null */
    struct weir_gates *gates;
    struct weir_flows *flows;
    struct weir_usage_book *usage;
    struct weir_usage_file *usage_file;
    struct weir_meter *meter;
    void *api;              /* what its service keeps */
    struct weir_desk *desk; /* of jobs; null before a config names queues */
    struct weir_listener listeners[LISTENERS_MAX];
    uint32_t listener_count;
    uint32_t thread_count;
    struct thread *threads;
    struct weir_loop *loops[WEIR_LOOPS_MAX];
    atomic_uint drained; /* threads, and the desk */
    struct reload reload;
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
    const struct weir_config *config = server->first->config;
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
    weir_loop_stop(&weir_container_of(post, struct thread, stop)->worker.loop);
}

/* One more has nothing left to do; after the last one all loops stop. */
static void count_drained(struct server *server)
{
    uint32_t all = server->thread_count + (server->desk != NULL ? 1 : 0);
    if (atomic_fetch_add(&server->drained, 1) + 1 < all) {
        return;
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        server->threads[i].stop = (struct weir_post){.arrive = on_stop};
        weir_loop_post(server->loops[i], &server->threads[i].stop);
    }
}

/* A thread that has nobody left goes on until none has: it may have set the timer by which a line
 * of the others moves, its part of the API still answers, and jobs may need it. */
static void stop_when_empty(struct thread *thread)
{
    if (!thread->drained && thread->worker.awaited == 0) {
        thread->drained = true;
        count_drained(thread->server);
    }
}

static void on_desk_drained(void *context)
{
    count_drained(context);
}

static void on_grace_over(struct weir_timer *timer)
{
    struct thread *thread = weir_container_of(timer, struct thread, grace);
    struct weir_link *list = &thread->worker.all_clients;
    for (struct weir_link *at = list->next; at != list;) {
        struct weir_client *client = weir_container_of(at, struct weir_client, link);
        at = at->next;
        if (client->call != NULL && client->listener->service->dismiss != NULL) {
            client->listener->service->dismiss(client);
        }
    }
    weir_loop_stop(&thread->worker.loop);
}

/* No new work; connections without a request close at once, the others when they have been served:
 * a request from within is on its way as soon as there is a connection. What is not awaited stays
 * open until the end, to tell how far it is. */
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
        if (client->call == NULL && client->inner == NULL && client->listener->service->awaited) {
            weir_client_close(client);
        }
    }
    weir_flows_drain(worker->flows, worker->index);
    weir_timer_set(&worker->loop, &thread->grace,
                   worker->loop.now_ns + worker->site->config->grace_ns);
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
    *worker = (struct weir_worker){
        .index = index, .allocator = &weir_allocator_libc, .client_gone = on_client_gone};
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
    weir_slab_init(&worker->llms, sizeof(struct weir_llm), CONNECTIONS_MAX, worker->allocator);
    weir_slab_init(&worker->ears, sizeof(struct weir_llm_ear), CONNECTIONS_MAX, worker->allocator);
    weir_retry_budget_init(&worker->retry_budget);
    weir_slab_init(&worker->calls, server->options->api->call_bytes, CONNECTIONS_MAX,
                   worker->allocator);
    if (getrandom(&worker->random, sizeof worker->random, 0) != sizeof worker->random) {
        worker->random = index;
    }
    worker->hasher = weir_hasher_create();
    if (worker->hasher == NULL) {
        return "there is no memory left";
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
        return "there is no memory left";
    }
    server->loops[index] = &worker->loop;
    weir_key_feed_add(&server->keys, worker);
    return NULL;
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
    if (thread->worker.site != NULL) {
        weir_upstreams_close(thread->worker.site);
    }
    for (uint32_t i = 0; i < thread->server->listener_count; i++) {
        weir_door_close(&thread->doors[i]);
    }
    weir_timer_deinit(&thread->worker.loop, &thread->grace);
    weir_timer_deinit(&thread->worker.loop, &thread->sweep);
}

static void free_worker(struct thread *thread)
{
    struct weir_worker *worker = &thread->worker;
    weir_site_destroy(worker->site);
    weir_resolver_destroy(worker->resolver);
    weir_api_keys_give(worker->keys);
    weir_hasher_destroy(worker->hasher);
    weir_slab_deinit(&worker->clients);
    weir_slab_deinit(&worker->exchanges);
    weir_slab_deinit(&worker->backends);
    weir_slab_deinit(&worker->heads);
    weir_slab_deinit(&worker->llms);
    weir_slab_deinit(&worker->ears);
    weir_slab_deinit(&worker->calls);
    weir_buffer_pool_deinit(&worker->buffers);
    weir_loop_deinit(&worker->loop);
}

/* Until nothing that is told to one loop tells another something any more. */
static void settle_all(struct server *server)
{
    for (bool settled = false; !settled;) {
        settled = true;
        for (uint32_t i = 0; i < server->thread_count; i++) {
            settled = !weir_loop_settle(&server->threads[i].worker.loop) && settled;
        }
    }
}

/* After the threads have ended: closing a client may tell another thread's exchange something, so
 * all loops settle before any of their memory goes. */
static void close_threads(struct server *server)
{
    if (server->desk != NULL) {
        server->options->jobs->stop(server->desk);
    }
    void (*const steps[])(struct thread *) = {close_clients, close_connections};
    for (size_t step = 0; step < sizeof steps / sizeof steps[0]; step++) {
        for (uint32_t i = 0; i < server->thread_count; i++) {
            steps[step](&server->threads[i]);
        }
        settle_all(server);
    }
    if (server->desk != NULL) {
        server->options->jobs->close(server->desk);
    }
    server->options->api->close(server->api);
    weir_usage_file_close(server->usage_file);
    weir_usage_destroy(server->usage);
    weir_flows_destroy(server->flows);
    weir_meter_destroy(server->meter);
    weir_event_file_close(server->event_file);
    weir_gates_destroy(server->gates);
    weir_journal_destroy(server->journal);
    for (uint32_t i = 0; i < server->thread_count; i++) {
        free_worker(&server->threads[i]);
    }
    free(server->threads);
}

/* ---- plans ---- */

static int open_gates(struct server *server)
{
    server->journal = weir_journal_create();
    if (server->journal == NULL) {
        return complain("events", "there is no memory left");
    }
    struct weir_gates_options options = {.allocator = &weir_allocator_libc,
                                         .loops = server->loops,
                                         .loop_count = server->thread_count,
                                         .journal = server->journal};
    if (getrandom(options.seed, sizeof options.seed, 0) != sizeof options.seed) {
        return complain("random", strerror(errno));
    }
    enum weir_status status = weir_gates_create(&options, &server->gates);
    if (status != WEIR_OK) {
        return complain("gates", weir_status_text(status));
    }
    server->api = server->options->api->open();
    if (server->api == NULL) {
        return complain("api", "there is no memory left");
    }
    server->flows = weir_flows_create(server->gates, &weir_allocator_libc);
    if (server->flows == NULL) {
        return complain("flows", "there is no memory left");
    }
    server->usage = weir_usage_create(WEIR_USAGE_ROWS_MAX);
    if (server->usage == NULL) {
        return complain("usage", "there is no memory left");
    }
    server->meter = weir_meter_create(&weir_allocator_libc, server->thread_count, options.seed);
    if (server->meter == NULL) {
        return complain("metrics", "there is no memory left");
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        server->threads[i].worker.usage = server->usage;
        server->threads[i].worker.gates = server->gates;
        server->threads[i].worker.flows = server->flows;
        server->threads[i].worker.meter = server->meter;
        server->threads[i].worker.api = server->api;
        server->threads[i].worker.reloader = &server->reload.reloader;
    }
    return 0;
}

/* What will write events where the config says: what does so already, a new one, or null for
 * nothing. False, with a sentence, if it cannot be had. */
static bool prepare_events(const struct server *server, const struct weir_config_events *config,
                           struct weir_event_file **next, const char **wrong)
{
    *next = server->event_file;
    if (config->file.bytes == 0) {
        *next = NULL;
    } else if (*next == NULL || !weir_event_file_is(*next, config->file)) {
        *next = weir_event_file_open(config, server->gates, wrong);
        return *next != NULL;
    }
    return true;
}

static void adopt_events(struct server *server, const struct weir_config_events *config,
                         struct weir_event_file *next)
{
    if (next != server->event_file) {
        weir_event_file_close(server->event_file);
        server->event_file = next;
    } else if (next != NULL) {
        weir_event_file_refresh(next, config);
    }
}

static void destroy_sites(struct server *server)
{
    for (uint32_t i = 0; i < server->thread_count; i++) {
        weir_site_destroy(server->threads[i].next);
    }
}

/* Makes each thread's part of the plan. False, with nothing left, if one cannot be made. */
static bool make_sites(struct server *server, struct weir_plan *plan, const char **wrong)
{
    *wrong = NULL;
    for (uint32_t i = 0; i < server->thread_count; i++) {
        struct thread *thread = &server->threads[i];
        thread->next = *wrong != NULL ? NULL : weir_site_create(plan, &thread->worker, wrong);
    }
    if (*wrong != NULL) {
        destroy_sites(server);
    }
    return *wrong == NULL;
}

/* Whoever turns the check of certificates off is told what that means, each time. */
static void warn_of_strangers(const struct weir_config *config)
{
    for (uint32_t i = 0; i < config->upstream_count; i++) {
        const struct weir_config_upstream *upstream = &config->upstreams[i];
        if (!upstream->tls.verify) {
            fprintf(stderr,
                    "weir: upstream %.*s: certificates are not checked (tls.verify is false), so "
                    "anybody on the way can pass for it\n",
                    (int)upstream->name.bytes, upstream->name.data);
        }
    }
}

/* Jobs of a plan, which no worker need know yet. Nothing is done while no plan has named queues. */
static bool prepare_jobs(struct server *server, struct weir_plan *plan, char *wrong,
                         size_t wrong_bytes)
{
    const struct weir_extension *jobs = server->options->jobs;
    struct weir_worker *workers[WEIR_LOOPS_MAX];
    if (server->desk != NULL) {
        return jobs->configure(server->desk, plan, wrong, wrong_bytes);
    }
    if (plan->config->queue_count == 0 || jobs == NULL) {
        return true;
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        workers[i] = &server->threads[i].worker;
    }
    server->desk = jobs->open(&(struct weir_extension_options){.plan = plan,
                                                               .workers = workers,
                                                               .worker_count = server->thread_count,
                                                               .journal = server->journal},
                              wrong, wrong_bytes);
    return server->desk != NULL;
}

static void resume_jobs(const struct server *server)
{
    if (server->desk != NULL) {
        server->options->jobs->resume(server->desk);
    }
}

/* The first plan, before any thread runs. */
static int adopt_first(struct server *server, struct weir_config *config)
{
    const char *wrong;
    server->plan = weir_plan_create(config, server->gates, &wrong);
    if (server->plan == NULL) {
        return complain("config", wrong);
    }
    server->first = weir_plan_take(server->plan);
    enum weir_status status = weir_plan_apply(server->plan, NULL, server->gates, 0);
    if (status != WEIR_OK) {
        return complain("gates", weir_status_text(status));
    }
    if (!make_sites(server, server->plan, &wrong)) {
        return complain("upstreams", wrong);
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        server->threads[i].worker.site = server->threads[i].next;
        weir_upstreams_adopt(server->threads[i].next);
    }
    struct weir_key_file_fault fault;
    if (!weir_key_feed_begin(&server->keys, server->first->config->data, &fault)) {
        return complain("keys", fault.wrong);
    }
    server->usage_file = weir_usage_file_open(server->usage, server->first->config->data, &wrong);
    if (server->usage_file == NULL) {
        return complain("usage", wrong);
    }
    if (!prepare_events(server, &server->plan->config->events, &server->event_file, &wrong)) {
        return complain("events", wrong);
    }
    char why[WEIR_RELOAD_WRONG_MAX];
    if (!prepare_jobs(server, server->plan, why, sizeof why)) {
        return complain("jobs", why);
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        server->threads[i].worker.desk = server->desk;
    }
    return 0;
}

/* ---- reloading ---- */

static void on_apply(struct weir_post *post)
{
    struct reload *reload = weir_container_of(post, struct reload, apply);
    struct server *server = weir_container_of(reload, struct server, reload);
    reload->status = weir_plan_apply(reload->plan, server->plan, server->gates, 0);
    sem_post(&reload->done);
}

/* Whose word is taken on connections that stay. */
static void judge_clients(struct weir_worker *worker)
{
    struct weir_link *list = &worker->all_clients;
    for (struct weir_link *at = list->next; at != list; at = at->next) {
        weir_client_judge(weir_container_of(at, struct weir_client, link));
    }
}

static void on_adopt(struct weir_post *post)
{
    struct thread *thread = weir_container_of(post, struct thread, adopt);
    struct weir_site *before = thread->worker.site;
    thread->worker.desk = thread->server->desk;
    bool same = weir_plan_same_trust(before->config, thread->next->config);
    thread->worker.site = thread->next;
    weir_upstreams_adopt(thread->next);
    weir_site_retire(before);
    if (!same) {
        judge_clients(&thread->worker);
    }
    sem_post(&thread->server->reload.done);
}

static void await(sem_t *done, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        while (sem_wait(done) != 0) {
        }
    }
}

static void adopt(struct server *server, struct weir_plan *plan)
{
    struct reload *reload = &server->reload;
    reload->apply = (struct weir_post){.arrive = on_apply};
    reload->plan = plan;
    sem_init(&reload->done, 0, 0);
    weir_loop_post(server->loops[0], &reload->apply);
    await(&reload->done, 1);
    if (reload->status !=
        WEIR_OK) { /* out of memory: some keys follow the new settings, some not */
        complain("reload", weir_status_text(reload->status));
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        server->threads[i].adopt = (struct weir_post){.arrive = on_adopt};
        weir_loop_post(server->loops[i], &server->threads[i].adopt);
    }
    await(&reload->done, server->thread_count);
    sem_destroy(&reload->done);
    weir_plan_give(server->plan);
    server->plan = plan;
}

/* All that a plan needs besides itself. False, with nothing left, if something cannot be had. */
static bool prepare(struct server *server, struct weir_plan *plan, struct weir_event_file **events,
                    char *wrong, size_t wrong_bytes)
{
    const char *why = NULL;
    *events = server->event_file;
    if (prepare_events(server, &plan->config->events, events, &why) &&
        make_sites(server, plan, &why)) {
        if (prepare_jobs(server, plan, wrong, wrong_bytes)) {
            return true;
        }
        destroy_sites(server);
    } else {
        snprintf(wrong, wrong_bytes, "%s", why);
    }
    if (*events != NULL && *events != server->event_file) {
        weir_event_file_close(*events);
    }
    return false;
}

/* Takes up the file as it is now. If anything is wrong with it, nothing changes. */
static void reload_config(struct server *server, struct weir_reload_outcome *outcome)
{
    const struct weir_serve_options *options = server->options;
    *outcome = (struct weir_reload_outcome){.end = WEIR_RELOAD_REFUSED};
    struct weir_config *config =
        options->load(options->context, outcome->wrong, sizeof outcome->wrong);
    if (config == NULL) {
        return;
    }
    const char *why = NULL;
    const char *fixed = weir_plan_needs_restart(server->first->config, config);
    struct weir_plan *plan = weir_plan_create(config, server->gates, &why);
    struct weir_event_file *events;
    if (plan == NULL) {
        snprintf(outcome->wrong, sizeof outcome->wrong, "%s", why);
        return;
    }
    if (!prepare(server, plan, &events, outcome->wrong, sizeof outcome->wrong)) {
        weir_plan_give(plan);
        return;
    }
    *outcome = (struct weir_reload_outcome){.end = WEIR_RELOAD_DONE,
                                            .gates = config->gate_count,
                                            .routes = config->route_count,
                                            .upstreams = config->upstream_count,
                                            .needs_restart = fixed};
    warn_of_strangers(config);
    adopt(server, plan);
    resume_jobs(server);
    adopt_events(server, &plan->config->events, events);
}

/* Says on the server's own streams what became of it. */
static void report(const struct weir_reload_outcome *outcome)
{
    if (outcome->end == WEIR_RELOAD_REFUSED) {
        fprintf(stderr, "%s\nweir: reload: everything goes on as before\n", outcome->wrong);
        return;
    }
    if (outcome->needs_restart != NULL) {
        fprintf(stderr, "weir: reload: a change of %s needs a restart; it is not in force\n",
                outcome->needs_restart);
    }
    printf("weir: reloaded\n");
    fflush(stdout);
}

static struct weir_reload_request *take_asked(struct reload *reload, bool over)
{
    pthread_mutex_lock(&reload->lock);
    struct weir_reload_request *asked = reload->asked;
    reload->asked = NULL;
    reload->over = over;
    pthread_mutex_unlock(&reload->lock);
    return asked;
}

static void tell(struct weir_reload_request *asked, const struct weir_reload_outcome *outcome)
{
    while (asked != NULL) {
        struct weir_reload_request *next = asked->next;
        asked->outcome = *outcome;
        weir_loop_post(asked->loop, &asked->told);
        asked = next;
    }
}

/* For a signal, and for everybody who has asked before it began. */
static void obey_reload(struct server *server)
{
    struct weir_reload_outcome outcome;
    struct weir_reload_request *asked = take_asked(&server->reload, false);
    weir_key_feed_refresh(&server->keys);
    reload_config(server, &outcome);
    report(&outcome);
    tell(asked, &outcome);
}

static const struct weir_reload_outcome draining = {.end = WEIR_RELOAD_DRAINING};

/* Called in a loop: the main thread wakes up as for a signal from outside. */
static void on_ask(struct weir_reloader *reloader, struct weir_reload_request *request)
{
    struct reload *reload = weir_container_of(reloader, struct reload, reloader);
    pthread_mutex_lock(&reload->lock);
    bool over = reload->over;
    request->next = over ? NULL : reload->asked;
    reload->asked = over ? reload->asked : request;
    pthread_mutex_unlock(&reload->lock);
    if (over) {
        tell(request, &draining);
    } else {
        pthread_kill(reload->thread, SIGHUP);
    }
}

/* ---- the whole ---- */

/* Until one comes that ends the program. */
static void obey_signals(struct server *server, const sigset_t *signals)
{
    const struct timespec patience = {.tv_sec = KEY_FILE_S};
    int which = SIGHUP;
    while (which == SIGHUP || which < 0) {
        which = sigtimedwait(signals, NULL, &patience);
        if (which == SIGHUP) {
            obey_reload(server);
        } else if (which < 0) {
            weir_key_feed_refresh(&server->keys);
        }
    }
    tell(take_asked(&server->reload, true), &draining);
    printf("weir: draining\n");
    fflush(stdout);
    signal(SIGHUP, SIG_IGN);
    pthread_sigmask(SIG_UNBLOCK, signals, NULL); /* a second one ends the program at once */
}

static int run(struct server *server, const sigset_t *signals)
{
    warn_of_strangers(server->first->config);
    if (open_listeners(server) != 0) {
        return 1;
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        struct thread *thread = &server->threads[i];
        if (pthread_create(&thread->id, NULL, run_thread, thread) != 0) {
            exit(complain("thread", strerror(errno))); /* others may run already */
        }
    }
    resume_jobs(server);
    obey_signals(server, signals);
    if (server->desk != NULL) {
        server->options->jobs->drain(server->desk, on_desk_drained, server);
    }
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

static uint32_t thread_count(const struct weir_config *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t count = config->threads != 0 ? config->threads : cores > 0 ? (uint32_t)cores : 1;
    return count < WEIR_LOOPS_MAX ? count : WEIR_LOOPS_MAX;
}

static int open_threads(struct server *server)
{
    server->threads = calloc(server->thread_count, sizeof *server->threads);
    if (server->threads == NULL) {
        return complain("start", "there is no memory left");
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        const char *wrong = open_worker(server, &server->threads[i], i);
        if (wrong != NULL) {
            return complain("start", wrong);
        }
    }
    return 0;
}

/* Up to what the system allows: the usual 1,024 is meant for programs that use select(). */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int weir_serve(const struct weir_serve_options *options)
{
    raise_descriptor_limit();
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN); /* what reads our events or our output may go; we do not */
    char wrong[WEIR_RELOAD_WRONG_MAX];
    struct weir_config *config = options->load(options->context, wrong, sizeof wrong);
    if (config == NULL) {
        fprintf(stderr, "%s\n", wrong);
        return 1;
    }
    struct server server = {.options = options,
                            .thread_count = thread_count(config),
                            .reload = {.reloader = {on_ask}, .thread = pthread_self()}};
    pthread_mutex_init(&server.reload.lock, NULL);
    if (open_threads(&server) != 0 || open_gates(&server) != 0) {
        return 1; /* the machine lacks what every process has; what was made goes with this one */
    }
    int status = adopt_first(&server, config);
    if (status == 0) {
        status = run(&server, &signals);
    }
    close_threads(&server);
    weir_plan_give(server.plan);
    weir_plan_give(server.first);
    return status;
}
