#include "upstream/upstream.h"

#include "base/alloc.h"
#include "base/list.h"
#include "upstream/connect.h"
#include "upstream/dns_preload.h"
#include "upstream/trust.h"
#include "worker/address.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

/* How long connections beyond `keepalive` must have been idle before they are closed. */
#define TRIM_NS WEIR_NS_PER_SECOND

/* ---- servers ---- */

static bool is_up(const struct weir_origin *origin)
{
    return origin->down_until_ns <= origin->worker->loop.now_ns;
}

/* Whether `a` is the better choice. */
static bool better(const struct weir_origin *a, const struct weir_origin *b)
{
    if (is_up(a) != is_up(b)) {
        return is_up(a);
    }
    if (!is_up(a)) {
        return a->down_until_ns < b->down_until_ns;
    }
    return a->outstanding < b->outstanding;
}

struct weir_origin *weir_upstream_choose(struct weir_upstream *upstream,
                                         const struct weir_origin *not_this)
{
    uint32_t count = upstream->config->url_count;
    struct weir_origin *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct weir_origin *origin = &upstream->origins[(upstream->next + i) % count];
        if (origin != not_this && (best == NULL || better(origin, best))) {
            best = origin;
        }
    }
    upstream->next = (upstream->next + 1) % count;
    return best;
}

void weir_origin_worked(struct weir_origin *origin)
{
    origin->failures = 0;
    origin->down_until_ns = 0;
    origin->pause_ns = 0;
}

void weir_origin_failed(struct weir_origin *origin)
{
    const struct weir_breaker_settings *health = &origin->upstream->config->health;
    origin->failures++;
    weir_tally_raise(origin->tally, WEIR_TALLY_FAILURES);
    if (health->failures == 0 || origin->failures < health->failures) {
        return;
    }
    if (!is_up(origin)) {
        return; /* those that were under way when it was taken out tell nothing new */
    }
    uint64_t pause_ns = origin->pause_ns == 0 ? health->pause_ns : origin->pause_ns * 2;
    uint64_t longest_ns = health->pause_max_ns == 0 ? health->pause_ns : health->pause_max_ns;
    origin->pause_ns = pause_ns < longest_ns ? pause_ns : longest_ns;
    origin->down_until_ns = origin->worker->loop.now_ns + origin->pause_ns;
}

/* ---- connections ---- */

static void free_backend(struct weir_dead *dead)
{
    struct weir_backend *backend = weir_container_of(dead, struct weir_backend, dead);
    weir_slab_give(&backend->origin->worker->backends, backend);
}

static inline void leave_pool(struct weir_backend *backend)
{
    struct weir_origin *origin = backend->origin;
    weir_list_unlink(&backend->link);
    origin->idle_count--;
    weir_tally_lower(origin->tally, WEIR_TALLY_IDLE);
    if (origin->idle_count < origin->idle_least) {
        origin->idle_least = origin->idle_count;
    }
}

/* Closes a connection that has neither a user nor a place in the pool. */
static void dispose(struct weir_backend *backend)
{
    struct weir_worker *worker = backend->origin->worker;
    weir_connect_end(backend);
    weir_stream_close(&backend->stream);
    weir_timer_deinit(&worker->loop, &backend->timer);
    weir_buffer_release(&worker->buffers, &backend->in);
    weir_loop_bury(&worker->loop, &backend->dead, free_backend);
}

/* Whether the server has nothing to say. What TLS tells between requests is not said by it. */
static bool is_quiet(struct weir_backend *backend)
{
    char surplus;
    return !backend->stream.hung &&
           (!backend->stream.readable ||
            weir_stream_read(&backend->stream, &surplus, 1) == WEIR_STREAM_AGAIN);
}

static void on_ready(struct weir_watch *watch, uint32_t what)
{
    struct weir_stream *stream = weir_container_of(watch, struct weir_stream, watch);
    struct weir_backend *backend = weir_container_of(stream, struct weir_backend, stream);
    weir_stream_note(stream, what);
    if (backend->user != NULL) {
        backend->ready(backend);
    } else if ((what & WEIR_READY_READ) != 0 && !is_quiet(backend)) {
        /* Idle, a server has nothing to say but that it closes. */
        leave_pool(backend);
        dispose(backend);
    }
}

static void on_late(struct weir_timer *timer)
{
    struct weir_backend *backend = weir_container_of(timer, struct weir_backend, timer);
    if (backend->user != NULL) {
        backend->late(backend);
    }
}

static struct weir_backend *connect_new(struct weir_origin *origin)
{
    struct weir_worker *worker = origin->worker;
    struct weir_backend *backend = weir_slab_take(&worker->backends);
    if (backend == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    memset(backend, 0, offsetof(struct weir_backend, head));
    backend->connected = false;
    backend->reused = false;
    backend->origin = origin;
    weir_stream_init(&backend->stream, -1, on_ready);
    int why = ENOMEM;
    if (!weir_timer_init(&worker->loop, &backend->timer, on_late)) {
        goto no_timer;
    }
    if (!weir_connect_begin(backend)) {
        why = errno;
        goto no_connection;
    }
    return backend;

no_connection:
    weir_timer_deinit(&worker->loop, &backend->timer);
no_timer:
    weir_slab_give(&worker->backends, backend);
    errno = why;
    return NULL;
}

/* One from the pool, or null. Those that lead to where the server's name no longer does go. */
static inline struct weir_backend *take_idle(struct weir_origin *origin)
{
    while (!weir_list_empty(&origin->idle)) {
        struct weir_backend *backend =
            weir_container_of(origin->idle.next, struct weir_backend, link);
        leave_pool(backend);
        if (origin->name == NULL || weir_connect_current(backend)) {
            backend->reused = true;
            return backend;
        }
        dispose(backend);
    }
    return NULL;
}

struct weir_backend *weir_backend_take(struct weir_origin *origin, void *user, bool used)
{
    assert(user != NULL);
    struct weir_backend *backend = used ? take_idle(origin) : NULL;
    if (backend == NULL) {
        backend = connect_new(origin);
    }
    if (backend == NULL) {
        return NULL;
    }
    backend->user = user;
    origin->outstanding++;
    weir_tally_raise(origin->tally, WEIR_TALLY_ACTIVE);
    return backend;
}

static inline void end_use(struct weir_backend *backend)
{
    assert(backend->user != NULL);
    assert(backend->origin->outstanding > 0);
    backend->user = NULL;
    backend->origin->outstanding--;
    weir_tally_lower(backend->origin->tally, WEIR_TALLY_ACTIVE);
}

static void set_trim(struct weir_origin *origin)
{
    struct weir_loop *loop = &origin->worker->loop;
    origin->idle_least = origin->idle_count;
    weir_timer_set(loop, &origin->trim, loop->now_ns + TRIM_NS);
}

/* Closes the connections that nobody has needed since the last time, the longest idle first. */
static void on_trim(struct weir_timer *timer)
{
    struct weir_origin *origin = weir_container_of(timer, struct weir_origin, trim);
    uint32_t keepalive = origin->upstream->config->keepalive;
    while (origin->idle_least > keepalive) {
        struct weir_backend *backend =
            weir_container_of(origin->idle.previous, struct weir_backend, link);
        origin->idle_least--;
        leave_pool(backend);
        dispose(backend);
    }
    if (origin->idle_count > keepalive) {
        set_trim(origin);
    }
}

/* Whether one more may stay in the pool. */
static bool has_room(struct weir_origin *origin)
{
    const struct weir_config_upstream *config = origin->upstream->config;
    if (config->keepalive == 0 || origin->worker->draining ||
        origin->upstream->worker_config->retired) {
        return false;
    }
    if (origin->idle_count < config->keepalive) {
        return true;
    }
    if (!origin->has_timer) {
        origin->has_timer = weir_timer_init(&origin->worker->loop, &origin->trim, on_trim);
    }
    if (origin->has_timer && origin->trim.due_ns == WEIR_NEVER) {
        set_trim(origin);
    }
    return origin->has_timer;
}

void weir_backend_keep(struct weir_backend *backend)
{
    struct weir_origin *origin = backend->origin;
    struct weir_worker *worker = origin->worker;
    end_use(backend);
    /* The next user would take for the reply to its own request what nobody has asked for. */
    bool usable = weir_buffer_bytes(&backend->in) == 0 && is_quiet(backend);
    if (!usable || !has_room(origin)) {
        dispose(backend);
        return;
    }
    weir_timer_set(&worker->loop, &backend->timer, WEIR_NEVER);
    weir_buffer_release(&worker->buffers, &backend->in);
    weir_list_push_front(&origin->idle, &backend->link);
    origin->idle_count++;
    weir_tally_raise(origin->tally, WEIR_TALLY_IDLE);
}

void weir_backend_drop(struct weir_backend *backend)
{
    end_use(backend);
    dispose(backend);
}

/* ---- the worker's upstreams ---- */

/* How requests name the server. */
static bool name_authority(struct weir_origin *origin, const struct weir_config_url *url)
{
    char text[WEIR_ADDRESS_NAME_MAX];
    weir_address_authority(url, text);
    size_t bytes = strlen(text);
    origin->authority_text = weir_allocate(origin->worker->allocator, bytes);
    if (origin->authority_text == NULL) {
        return false;
    }
    memcpy(origin->authority_text, text, bytes);
    origin->authority = (struct weir_slice){origin->authority_text, bytes};
    return true;
}

/* Whom the certificate must be for. */
static bool name_for_tls(struct weir_origin *origin, const struct weir_config_url *url,
                         const struct weir_tls_client *client)
{
    struct weir_slice name = origin->upstream->config->tls.server_name;
    return weir_tls_server_init(&origin->tls, client, name.bytes > 0 ? name : url->address.host);
}

static const char *open_origin(struct weir_upstream *upstream, uint32_t index,
                               const struct weir_tls_client *client)
{
    const struct weir_config_url *url = &upstream->config->urls[index];
    struct weir_origin *origin = &upstream->origins[index];
    *origin = (struct weir_origin){.upstream = upstream,
                                   .worker = upstream->worker_config->worker,
                                   .tally = upstream->tally,
                                   .port = url->address.port};
    weir_list_init(&origin->idle);
    if (weir_address_is_name(&url->address)) {
        origin->host = url->address.host;
    } else {
        char text[WEIR_ADDRESS_NAME_MAX];
        const char *wrong = weir_address_resolve(&url->address, &origin->address, text);
        if (wrong != NULL) {
            return wrong;
        }
    }
    if (url->tls && !name_for_tls(origin, url, client)) {
        return "the name of a server with https is too long";
    }
    return name_authority(origin, url) ? NULL : "there is no memory left";
}

const char *weir_upstreams_open(struct weir_worker_config *worker_config)
{
    struct weir_worker *worker = worker_config->worker;
    const struct weir_config *config = worker_config->config;
    size_t bytes = config->upstream_count * sizeof *worker_config->upstreams;
    worker_config->upstreams = weir_allocate_zeroed(worker->allocator, bytes);
    if (worker_config->upstreams == NULL && bytes > 0) {
        return "there is no memory left";
    }
    for (uint32_t i = 0; i < config->upstream_count; i++) {
        struct weir_upstream *upstream = &worker_config->upstreams[i];
        upstream->worker_config = worker_config;
        upstream->config = &config->upstreams[i];
        upstream->tally = weir_tally_take(&worker->tallies, worker->allocator, WEIR_TALLY_UPSTREAM,
                                          upstream->config->name);
        upstream->origins = weir_allocate_zeroed(worker->allocator, upstream->config->url_count *
                                                                        sizeof *upstream->origins);
        if (upstream->origins == NULL || upstream->tally == NULL) {
            return "there is no memory left";
        }
        for (uint32_t j = 0; j < upstream->config->url_count; j++) {
            const char *wrong =
                open_origin(upstream, j, weir_trust_of(worker_config->snapshot->trust, i));
            if (wrong != NULL) {
                return wrong;
            }
        }
    }
    return NULL;
}

void weir_upstreams_adopt(struct weir_worker_config *worker_config)
{
    const struct weir_config *config = worker_config->config;
    char servers[WEIR_RESOLVER_SERVERS_BYTES_MAX] = "";
    size_t bytes = 0;
    for (uint32_t i = 0; i < config->dns.server_count; i++) {
        char text[WEIR_ADDRESS_NAME_MAX];
        weir_address_write(&config->dns.servers[i], text);
        bytes += (size_t)snprintf(servers + bytes, sizeof servers - bytes, "%s%s",
                                  i == 0 ? "" : ",", text);
        assert(bytes < sizeof servers);
    }
    weir_resolver_use(worker_config->worker->resolver, servers);
    for (uint32_t i = 0; i < config->upstream_count; i++) {
        for (uint32_t j = 0; j < config->upstreams[i].url_count; j++) {
            struct weir_origin *origin = &worker_config->upstreams[i].origins[j];
            if (origin->host.bytes > 0) { /* without memory it is taken when it is needed */
                origin->name = weir_name_take(worker_config->worker->resolver, origin->host);
            }
        }
    }
    if (worker_config->worker->index == 0) {
        worker_config->dns_preload = weir_dns_preload_begin(worker_config);
    }
}

static void close_origin(struct weir_origin *origin)
{
    if (origin->has_timer) {
        weir_timer_deinit(&origin->worker->loop, &origin->trim);
        origin->has_timer = false;
    }
    while (!weir_list_empty(&origin->idle)) {
        struct weir_backend *backend =
            weir_container_of(origin->idle.next, struct weir_backend, link);
        leave_pool(backend);
        dispose(backend);
    }
}

void weir_upstreams_close(struct weir_worker_config *worker_config)
{
    const struct weir_config *config = worker_config->config;
    weir_dns_preload_end(worker_config->dns_preload);
    worker_config->dns_preload = NULL;
    for (uint32_t i = 0; worker_config->upstreams != NULL && i < config->upstream_count; i++) {
        struct weir_upstream *upstream = &worker_config->upstreams[i];
        if (upstream->origins == NULL) {
            continue;
        }
        for (uint32_t j = 0; j < upstream->config->url_count; j++) {
            close_origin(&upstream->origins[j]);
        }
    }
}

void weir_upstreams_free(struct weir_worker_config *worker_config)
{
    const struct weir_config *config = worker_config->config;
    const struct weir_allocator *allocator = worker_config->worker->allocator;
    for (uint32_t i = 0; worker_config->upstreams != NULL && i < config->upstream_count; i++) {
        struct weir_upstream *upstream = &worker_config->upstreams[i];
        if (upstream->origins == NULL) {
            break; /* one before it could not be made */
        }
        size_t bytes = upstream->config->url_count * sizeof *upstream->origins;
        for (uint32_t j = 0; j < upstream->config->url_count; j++) {
            struct weir_origin *origin = &upstream->origins[j];
            assert(origin->outstanding == 0);
            weir_name_give(origin->name);
            weir_tls_server_deinit(&origin->tls);
            weir_release(allocator, origin->authority_text, origin->authority.bytes);
        }
        weir_release(allocator, upstream->origins, bytes);
        weir_tally_give(&worker_config->worker->tallies, allocator, upstream->tally);
    }
    weir_release(allocator, worker_config->upstreams,
                 config->upstream_count * sizeof *worker_config->upstreams);
    worker_config->upstreams = NULL;
}
