/* reload.c - a config's way into the server: the snapshot made of it, what that needs besides
 * itself, and how the threads take it up, at the start and while they run. */
#include "base/clock.h"
#include "frontend/client_connection.h"
#include "gates/event_file.h"
#include "log/line_file.h"
#include "log/log.h"
#include "proxy/spool_space.h"
#include "server/server_internal.h"
#include "server/snapshot_build.h"
#include "tenants/usage_file.h"
#include "upstream/upstream.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* ---- the log ---- */

static_assert((int)WEIR_CONFIG_LOG_ERROR == (int)WEIR_LOG_ERROR, "levels have the log's numbers");
static_assert((int)WEIR_CONFIG_LOG_JSON == (int)WEIR_LOG_JSON, "formats have the log's numbers");

/* A config without an access log leaves the file open: exchanges that began before may still end
 * with a line. */
static bool open_access_log(const struct weir_server *server, const struct weir_config *config,
                            char *error, size_t error_bytes)
{
    struct weir_slice path = config->access_log.file;
    if (path.bytes > 0 && !weir_line_file_open(server->access_file, path)) {
        snprintf(error, error_bytes, "access_log.file: %.*s cannot be opened: %s", (int)path.bytes,
                 path.data, strerror(errno));
        return false;
    }
    return true;
}

bool weir_server_open_log(const struct weir_config *config, char *error, size_t error_bytes)
{
    const struct weir_config_log *log = &config->log;
    struct weir_log_settings settings = {.level = (enum weir_log_level)log->level,
                                         .format = (enum weir_log_format)log->format,
                                         .file = log->file};
    if (!weir_log_open(&settings)) {
        snprintf(error, error_bytes, "log.file: %.*s cannot be opened: %s", (int)log->file.bytes,
                 log->file.data, strerror(errno));
        return false;
    }
    return true;
}

void weir_server_reopen_files(struct weir_server *server)
{
    weir_log_reopen();
    if (!weir_line_file_reopen(server->access_file)) {
        weir_log_event(WEIR_LOG_ERROR, "log_reopen", NULL,
                       "The access log's file cannot be opened again: %s. Lines still go to the "
                       "old file.",
                       strerror(errno));
    }
    if (server->event_file != NULL) {
        weir_event_file_refresh(server->event_file, &server->snapshot->config->events);
    }
    weir_log_event(WEIR_LOG_INFO, "reopened", NULL, "The log's files have been opened again");
}

/* ---- what a snapshot needs ---- */

/* Finds what writes the events to the config's file: the present writer, a new one, or null if the
 * config names no file. False, with a sentence, on failure. */
static bool prepare_events(const struct weir_server *server,
                           const struct weir_config_events *config, struct weir_event_file **next,
                           const char **error)
{
    *next = server->event_file;
    if (config->file.bytes == 0) {
        *next = NULL;
    } else if (*next == NULL || !weir_event_file_is(*next, config->file)) {
        *next = weir_event_file_open(config, server->gates, error);
        return *next != NULL;
    }
    return true;
}

static void adopt_events(struct weir_server *server, const struct weir_config_events *config,
                         struct weir_event_file *next)
{
    if (next != server->event_file) {
        weir_event_file_close(server->event_file);
        server->event_file = next;
    } else if (next != NULL) {
        weir_event_file_refresh(next, config);
    }
}

static void destroy_worker_configs(struct weir_server *server)
{
    for (uint32_t i = 0; i < server->thread_count; i++) {
        weir_worker_config_destroy(server->threads[i].next);
    }
}

/* Makes each thread's part of the snapshot. False, with nothing left, if one cannot be made. */
static bool make_worker_configs(struct weir_server *server, struct weir_config_snapshot *snapshot,
                                const char **error)
{
    *error = NULL;
    for (uint32_t i = 0; i < server->thread_count; i++) {
        struct weir_thread *thread = &server->threads[i];
        thread->next =
            *error != NULL ? NULL : weir_worker_config_create(snapshot, &thread->worker, error);
    }
    if (*error != NULL) {
        destroy_worker_configs(server);
    }
    return *error == NULL;
}

/* A config that turns the check of certificates off is reported each time that it is taken up. */
static void warn_unverified_tls(const struct weir_config *config)
{
    for (uint32_t i = 0; i < config->upstream_count; i++) {
        const struct weir_config_upstream *upstream = &config->upstreams[i];
        if (!upstream->tls.verify) {
            struct weir_log_names names = {.upstream = upstream->name};
            weir_log_event(
                WEIR_LOG_WARN, "tls_unverified", &names,
                "upstream %.*s: certificates are not checked (tls.verify is false), so an "
                "attacker on the way can impersonate it",
                (int)upstream->name.bytes, upstream->name.data);
        }
    }
}

/* Opens an extension that the snapshot is the first to want. False, with a sentence, on failure. */
static bool open_extension(struct weir_server *server, struct weir_extension_slot *slot,
                           struct weir_config_snapshot *snapshot, char *error, size_t error_bytes)
{
    struct weir_worker *workers[WEIR_LOOPS_MAX];
    for (uint32_t i = 0; i < server->thread_count; i++) {
        workers[i] = &server->threads[i].worker;
    }
    struct weir_extension_options options = {.snapshot = snapshot,
                                             .workers = workers,
                                             .worker_count = server->thread_count,
                                             .event_log = server->event_log};
    slot->state = slot->kind->open(&options, error, error_bytes);
    return slot->state != NULL;
}

/* The first `count` extensions have taken up a snapshot that a later one refused: they get the old
 * one back, which they had accepted before. */
static void restore_extensions(struct weir_server *server, uint32_t count)
{
    char error[WEIR_RELOAD_ERROR_MAX];
    for (uint32_t i = 0; i < count; i++) {
        struct weir_extension_slot *slot = &server->extensions[i];
        if (slot->state != NULL &&
            !slot->kind->configure(slot->state, server->snapshot, error, sizeof error)) {
            weir_log_event(WEIR_LOG_ERROR, "failed", NULL, "%s: %s", slot->kind->name, error);
        }
    }
}

/* Gives the snapshot, which no worker need know yet, to the extensions. On failure `*failed` is the
 * extension that refused it. */
static bool prepare_extensions(struct weir_server *server, struct weir_config_snapshot *snapshot,
                               const struct weir_extension **failed, char *error,
                               size_t error_bytes)
{
    for (uint32_t i = 0; i < WEIR_EXTENSIONS_MAX && server->extensions[i].kind != NULL; i++) {
        struct weir_extension_slot *slot = &server->extensions[i];
        bool good = true;
        *failed = slot->kind;
        if (slot->state != NULL) {
            good = slot->kind->configure(slot->state, snapshot, error, error_bytes);
        } else if (slot->kind->wanted(snapshot->config)) {
            good = open_extension(server, slot, snapshot, error, error_bytes);
        }
        if (!good) {
            restore_extensions(server, i);
            return false;
        }
    }
    return true;
}

void weir_server_resume_extensions(const struct weir_server *server)
{
    for (uint32_t i = 0; i < WEIR_EXTENSIONS_MAX; i++) {
        if (server->extensions[i].state != NULL) {
            server->extensions[i].kind->resume(server->extensions[i].state);
        }
    }
}

/* Says whose the data folder is, so that keys for its tenants are not made elsewhere. */
static void mark_data(const struct weir_config *config, struct weir_slice data)
{
    bool asks_for_keys = false;
    for (uint32_t i = 0; i < config->route_count; i++) {
        asks_for_keys |= config->routes[i].tenant.kind == WEIR_CONFIG_SOURCE_API_KEY;
    }
    weir_key_file_mark(data, asks_for_keys);
}

/* ---- the first one ---- */

int weir_server_adopt_first(struct weir_server *server, struct weir_config *config)
{
    const char *error;
    server->snapshot = weir_config_snapshot_create(config, server->gates, NULL, &error);
    if (server->snapshot == NULL) {
        return weir_server_complain("config", error);
    }
    server->first = weir_config_snapshot_take(server->snapshot);
    enum weir_status status = weir_config_snapshot_apply(server->snapshot, NULL, server->gates, 0);
    if (status != WEIR_OK) {
        return weir_server_complain("gates", weir_status_text(status));
    }
    if (!make_worker_configs(server, server->snapshot, &error)) {
        return weir_server_complain("upstreams", error);
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        server->threads[i].worker.worker_config = server->threads[i].next;
        weir_upstreams_adopt(server->threads[i].next);
    }
    struct weir_key_file_fault fault;
    if (!weir_key_feed_begin(&server->keys, server->first->config->data, &fault)) {
        return weir_server_complain("keys", fault.error);
    }
    server->usage_file =
        weir_usage_file_open(server->usage, server->budgets, server->first->config->data, &error);
    if (server->usage_file == NULL) {
        return weir_server_complain("usage", error);
    }
    server->spool_space = weir_spool_space_create(server->first->config->data);
    if (server->spool_space == NULL) {
        return weir_server_complain("spool", "out of memory");
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        server->threads[i].worker.spool_space = server->spool_space;
    }
    if (!prepare_events(server, &server->snapshot->config->events, &server->event_file, &error)) {
        return weir_server_complain("events", error);
    }
    for (uint32_t i = 0; server->options->extensions[i] != NULL; i++) {
        assert(i < WEIR_EXTENSIONS_MAX);
        server->extensions[i].kind = server->options->extensions[i];
    }
    char why[WEIR_RELOAD_ERROR_MAX];
    if (!open_access_log(server, server->first->config, why, sizeof why)) {
        return weir_server_complain("access_log", why);
    }
    const struct weir_extension *failed;
    if (!prepare_extensions(server, server->snapshot, &failed, why, sizeof why)) {
        return weir_server_complain(failed->name, why);
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        memcpy(server->threads[i].worker.extensions, server->extensions, sizeof server->extensions);
    }
    warn_unverified_tls(server->first->config);
    mark_data(server->first->config, server->first->config->data);
    return 0;
}

/* ---- the next one ---- */

static void on_apply(struct weir_post *post)
{
    struct weir_reload *reload = weir_container_of(post, struct weir_reload, apply);
    struct weir_server *server = weir_container_of(reload, struct weir_server, reload);
    reload->status =
        weir_config_snapshot_apply(reload->snapshot, server->snapshot, server->gates, 0);
    sem_post(&reload->done);
}

/* Decides again which of the open connections come from trusted peers. */
static void judge_clients(struct weir_worker *worker)
{
    struct weir_link *list = &worker->all_clients;
    for (struct weir_link *at = list->next; at != list; at = at->next) {
        weir_client_connection_judge(weir_container_of(at, struct weir_client_connection, link));
    }
}

static void on_adopt(struct weir_post *post)
{
    struct weir_thread *thread = weir_container_of(post, struct weir_thread, adopt);
    struct weir_worker_config *before = thread->worker.worker_config;
    memcpy(thread->worker.extensions, thread->server->extensions, sizeof thread->worker.extensions);
    bool same = weir_config_snapshot_same_trust(before->config, thread->next->config);
    thread->worker.worker_config = thread->next;
    weir_upstreams_adopt(thread->next);
    weir_worker_config_retire(before);
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

/* Tells the budgets of tenants what they are now: one that has grown may have room for requests
 * that wait. */
static void allow_budgets(const struct weir_server *server)
{
    const struct weir_config *config = server->snapshot->config;
    int64_t wall_s = weir_wall_ms() / 1000;
    for (uint32_t i = 0; i < config->tenant_count; i++) {
        const struct weir_config_tenant *tenant = &config->tenants[i];
        struct weir_budget_owner owner = {WEIR_BUDGET_OF_TENANT, tenant->name, &tenant->budget};
        weir_budget_book_allow(server->budgets, wall_s, &owner);
    }
}

static void adopt(struct weir_server *server, struct weir_config_snapshot *snapshot)
{
    struct weir_reload *reload = &server->reload;
    reload->apply = (struct weir_post){.arrive = on_apply};
    reload->snapshot = snapshot;
    sem_init(&reload->done, 0, 0);
    weir_loop_post(server->loops[0], &reload->apply);
    await(&reload->done, 1);
    if (reload->status !=
        WEIR_OK) { /* out of memory: some keys follow the new settings, some not */
        weir_log_event(WEIR_LOG_ERROR, "failed", NULL, "reload: %s",
                       weir_status_text(reload->status));
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        server->threads[i].adopt = (struct weir_post){.arrive = on_adopt};
        weir_loop_post(server->loops[i], &server->threads[i].adopt);
    }
    await(&reload->done, server->thread_count);
    sem_destroy(&reload->done);
    weir_config_snapshot_give(server->snapshot);
    server->snapshot = snapshot;
    allow_budgets(server);
}

/* The log goes on as the config in force says. */
static void restore_log(const struct weir_server *server)
{
    char error[WEIR_RELOAD_ERROR_MAX];
    if (!weir_server_open_log(server->snapshot->config, error, sizeof error) ||
        !open_access_log(server, server->snapshot->config, error, sizeof error)) {
        weir_log_event(WEIR_LOG_ERROR, "failed", NULL, "%s", error);
    }
}

/* Makes or opens what a snapshot needs. On failure nothing is left, and `error` has a sentence. */
static bool prepare_snapshot(struct weir_server *server, struct weir_config_snapshot *snapshot,
                             struct weir_event_file **events, char *error, size_t error_bytes)
{
    const char *why = NULL;
    *events = server->event_file;
    if (!weir_server_open_log(snapshot->config, error, error_bytes) ||
        !open_access_log(server, snapshot->config, error, error_bytes)) {
        restore_log(server);
        return false;
    }
    if (prepare_events(server, &snapshot->config->events, events, &why) &&
        make_worker_configs(server, snapshot, &why)) {
        const struct weir_extension *failed;
        if (prepare_extensions(server, snapshot, &failed, error, error_bytes)) {
            return true;
        }
        destroy_worker_configs(server);
    } else {
        snprintf(error, error_bytes, "%s", why);
    }
    if (*events != NULL && *events != server->event_file) {
        weir_event_file_close(*events);
    }
    restore_log(server);
    return false;
}

/* Reads the config file and adopts it. On failure nothing changes. */
static void reload_config(struct weir_server *server, struct weir_reload_outcome *outcome)
{
    const struct weir_serve_options *options = server->options;
    *outcome = (struct weir_reload_outcome){.end = WEIR_RELOAD_REFUSED};
    struct weir_config *config =
        options->load(options->context, outcome->error, sizeof outcome->error);
    if (config == NULL) {
        return;
    }
    const char *why = NULL;
    const char *fixed = weir_config_snapshot_needs_restart(server->first->config, config);
    struct weir_config_snapshot *snapshot =
        weir_config_snapshot_create(config, server->gates, server->snapshot->secrets, &why);
    struct weir_event_file *events;
    if (snapshot == NULL) {
        snprintf(outcome->error, sizeof outcome->error, "%s", why);
        return;
    }
    if (!prepare_snapshot(server, snapshot, &events, outcome->error, sizeof outcome->error)) {
        weir_config_snapshot_give(snapshot);
        return;
    }
    *outcome = (struct weir_reload_outcome){.end = WEIR_RELOAD_DONE,
                                            .gates = config->gate_count,
                                            .routes = config->route_count,
                                            .upstreams = config->upstream_count,
                                            .needs_restart = fixed};
    warn_unverified_tls(config);
    mark_data(config, server->first->config->data);
    adopt(server, snapshot);
    weir_server_resume_extensions(server);
    adopt_events(server, &snapshot->config->events, events);
}

/* A line of the log for each line of the text. */
static void log_lines(const char *text)
{
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\n");
        weir_log_event(WEIR_LOG_ERROR, "config_refused", NULL, "%.*s", (int)bytes, text);
        text += bytes + (text[bytes] != '\0');
    }
}

/* Logs the outcome; stdout has a line when a config has been taken up. */
static void report_outcome(const struct weir_reload_outcome *outcome)
{
    if (outcome->end == WEIR_RELOAD_REFUSED) {
        log_lines(outcome->error);
        weir_log_event(WEIR_LOG_ERROR, "config_refused", NULL,
                       "reload: everything goes on as before");
        return;
    }
    if (outcome->needs_restart != NULL) {
        weir_log_event(WEIR_LOG_WARN, "needs_restart", NULL,
                       "reload: a change of %s needs a restart; it is not in force",
                       outcome->needs_restart);
    }
    weir_log_event(WEIR_LOG_INFO, "reloaded", NULL, "Reloaded: %u gates, %u routes, %u upstreams",
                   outcome->gates, outcome->routes, outcome->upstreams);
    weir_log_flush(); /* what reads stdout may look into the log */
    printf("weir: reloaded\n");
    fflush(stdout);
}

/* ---- requests for a reload ---- */

static struct weir_reload_request *take_requests(struct weir_reload *reload, bool over)
{
    pthread_mutex_lock(&reload->lock);
    struct weir_reload_request *asked = reload->asked;
    reload->asked = NULL;
    reload->over = over;
    pthread_mutex_unlock(&reload->lock);
    return asked;
}

static void finish_requests(struct weir_reload_request *asked,
                            const struct weir_reload_outcome *outcome)
{
    while (asked != NULL) {
        struct weir_reload_request *next = asked->next;
        asked->outcome = *outcome;
        weir_loop_post(asked->loop, &asked->on_done);
        asked = next;
    }
}

/* For metrics. */
static void note_outcome(struct weir_reloader *reloader, bool good)
{
    atomic_store_explicit(&reloader->refused, !good, memory_order_relaxed);
    if (good) {
        atomic_store_explicit(&reloader->success_ns, weir_wall_ns(), memory_order_relaxed);
    }
}

void weir_server_reload(struct weir_server *server)
{
    struct weir_reload_outcome outcome;
    struct weir_reload_request *asked = take_requests(&server->reload, false);
    weir_key_feed_refresh(&server->keys);
    reload_config(server, &outcome);
    note_outcome(&server->reload.reloader, outcome.end == WEIR_RELOAD_DONE);
    report_outcome(&outcome);
    finish_requests(asked, &outcome);
}

static const struct weir_reload_outcome draining = {.end = WEIR_RELOAD_DRAINING};

/* Called in a loop: wakes the main thread by a SIGHUP. */
static void on_reload_request(struct weir_reloader *reloader, struct weir_reload_request *request)
{
    struct weir_reload *reload = weir_container_of(reloader, struct weir_reload, reloader);
    pthread_mutex_lock(&reload->lock);
    bool over = reload->over;
    request->next = over ? NULL : reload->asked;
    reload->asked = over ? reload->asked : request;
    pthread_mutex_unlock(&reload->lock);
    if (over) {
        finish_requests(request, &draining);
    } else {
        pthread_kill(reload->thread, SIGHUP);
    }
}

void weir_reload_init(struct weir_reload *reload)
{
    *reload =
        (struct weir_reload){.reloader = {.ask = on_reload_request}, .thread = pthread_self()};
    note_outcome(&reload->reloader, true);
    pthread_mutex_init(&reload->lock, NULL);
}

void weir_reload_end(struct weir_reload *reload)
{
    finish_requests(take_requests(reload, true), &draining);
}
