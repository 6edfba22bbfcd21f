/* upstream_connection.c - the life of a connection of HTTP/1 to a server: taken from the pool or
 * made, in use by one backend, and back in the pool or closed; and what that backend is asked for.
 *
 * A connection belongs to one worker and is used in that worker's thread; there is no lock. Its
 * memory goes at the end of the turn in which it has been closed. */
#include "upstream/upstream_connection.h"

#include "base/list.h"
#include "upstream/connect.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* How long connections beyond `keepalive` must have been idle before they are closed. */
#define TRIM_NS WEIR_NS_PER_SECOND

static void free_connection(struct weir_dead *dead)
{
    struct weir_upstream_connection *connection =
        weir_container_of(dead, struct weir_upstream_connection, dead);
    weir_slab_give(&connection->backend.origin->worker->upstream_connections, connection);
}

static inline void leave_pool(struct weir_upstream_connection *connection)
{
    struct weir_origin *origin = connection->backend.origin;
    weir_list_unlink(&connection->link);
    weir_list_unlink(&connection->endpoint_link);
    origin->idle_count--;
    weir_tally_lower(origin->tally, WEIR_TALLY_IDLE);
    weir_endpoint_count(connection->backend.endpoint, WEIR_TALLY_IDLE, false);
    if (origin->idle_count < origin->idle_least) {
        origin->idle_least = origin->idle_count;
    }
}

/* Closes a connection that has neither a user nor a place in the pool. */
static void dispose(struct weir_upstream_connection *connection)
{
    struct weir_worker *worker = connection->backend.origin->worker;
    weir_connect_end(connection);
    weir_stream_close(&connection->stream);
    weir_timer_deinit(&worker->loop, &connection->backend.timer);
    weir_buffer_release(&worker->buffers, &connection->backend.in);
    weir_endpoint_give(connection->backend.endpoint);
    connection->backend.endpoint = NULL;
    weir_loop_bury(&worker->loop, &connection->dead, free_connection);
}

/* Whether the server has nothing to say. What TLS tells between requests is not said by it. */
static bool is_quiet(struct weir_upstream_connection *connection)
{
    char surplus;
    return !connection->stream.hung &&
           (!connection->stream.readable ||
            weir_stream_read(&connection->stream, &surplus, 1) == WEIR_STREAM_AGAIN);
}

static void on_ready(struct weir_watch *watch, uint32_t what)
{
    struct weir_stream *stream = weir_container_of(watch, struct weir_stream, watch);
    struct weir_upstream_connection *connection =
        weir_container_of(stream, struct weir_upstream_connection, stream);
    struct weir_backend *backend = &connection->backend;
    weir_stream_note(stream, what);
    if (backend->user != NULL) {
        backend->ready(backend);
    } else if ((what & WEIR_READY_READ) != 0 && !is_quiet(connection)) {
        /* Idle, a server has nothing to say but that it closes. */
        leave_pool(connection);
        dispose(connection);
    }
}

static void on_late(struct weir_timer *timer)
{
    struct weir_backend *backend = weir_container_of(timer, struct weir_backend, timer);
    if (backend->user != NULL) {
        backend->late(backend);
    }
}

/* ---- what the backend of an exchange is asked for ---- */

static enum weir_connect_progress go_on(struct weir_backend *backend, const char **wrong)
{
    return weir_connect_go_on(weir_upstream_connection_of(backend), wrong);
}

static enum weir_connect_progress go_on_late(struct weir_backend *backend, const char **wrong)
{
    return weir_connect_late(weir_upstream_connection_of(backend), wrong);
}

static uint64_t patience_ns(const struct weir_backend *backend)
{
    return weir_connect_patience_ns(weir_upstream_connection_of((struct weir_backend *)backend));
}

static ssize_t read_reply(struct weir_backend *backend)
{
    struct weir_stream *stream = &weir_upstream_connection_of(backend)->stream;
    struct weir_buffer *in = &backend->in;
    if (!stream->readable) {
        return WEIR_STREAM_AGAIN;
    }
    weir_buffer_compact(in);
    if (weir_buffer_room(in) == 0) {
        uint32_t wanted = in->capacity == 0 ? WEIR_BUFFER_MIDDLE : WEIR_BUFFER_LARGE;
        if (!weir_buffer_reserve(&backend->origin->worker->buffers, in, wanted) ||
            weir_buffer_room(in) == 0) {
            return WEIR_STREAM_AGAIN;
        }
    }
    ssize_t got = weir_stream_read(stream, in->data + in->end, weir_buffer_room(in));
    in->end += got > 0 ? (uint32_t)got : 0;
    return got;
}

static ssize_t write_request(struct weir_backend *backend, struct weir_slice head,
                             struct weir_slice body)
{
    struct iovec parts[2] = {{(char *)head.data, head.bytes}, {(char *)body.data, body.bytes}};
    int first = head.bytes == 0;
    int count = 1 + (head.bytes > 0 && body.bytes > 0);
    return weir_stream_write(&weir_upstream_connection_of(backend)->stream, &parts[first], count);
}

static inline void end_use(struct weir_backend *backend)
{
    assert(backend->user != NULL);
    assert(backend->origin->outstanding > 0);
    backend->user = NULL;
    backend->origin->outstanding--;
    if (backend->endpoint != NULL) {
        assert(backend->endpoint->outstanding > 0);
        backend->endpoint->outstanding--;
        weir_endpoint_count(backend->endpoint, WEIR_TALLY_ACTIVE, false);
    }
    weir_tally_lower(backend->origin->tally, WEIR_TALLY_ACTIVE);
}

static void set_trim(struct weir_origin *origin)
{
    struct weir_loop *loop = &origin->worker->loop;
    origin->idle_least = origin->idle_count;
    weir_timer_set(loop, &origin->trim, loop->now_ns + TRIM_NS);
}

/* Closes the connections that no exchange has needed since the last time. */
static void on_trim(struct weir_timer *timer)
{
    struct weir_origin *origin = weir_container_of(timer, struct weir_origin, trim);
    uint32_t keepalive = origin->upstream->config->keepalive;
    if (origin->idle_least > keepalive) {
        weir_upstream_connections_trim(origin,
                                       origin->idle_count - (origin->idle_least - keepalive));
    }
    if (origin->idle_count > keepalive) {
        set_trim(origin);
    }
}

/* Whether one more may stay in the pool. More than `keepalive` stay for a while, since after a
 * burst the next one may come at once; those that are not needed for a second are closed then. */
static bool has_room(struct weir_origin *origin)
{
    const struct weir_config_upstream *config = origin->upstream->config;
    if (config->keepalive == 0 || origin->worker->draining || origin->upstream->closed) {
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

/* Back to the pool, if it has room. */
static void keep(struct weir_backend *backend)
{
    struct weir_upstream_connection *connection = weir_upstream_connection_of(backend);
    struct weir_origin *origin = backend->origin;
    struct weir_worker *worker = origin->worker;
    end_use(backend);
    weir_buffer_release(&worker->buffers, &backend->in);
    if (!is_quiet(connection) || backend->endpoint->retired || !has_room(origin)) {
        dispose(connection);
        return;
    }
    weir_timer_set(&worker->loop, &backend->timer, WEIR_NEVER);
    weir_list_push_front(&origin->idle, &connection->link);
    weir_list_push_front(&backend->endpoint->idle, &connection->endpoint_link);
    origin->idle_count++;
    weir_tally_raise(origin->tally, WEIR_TALLY_IDLE);
    weir_endpoint_count(backend->endpoint, WEIR_TALLY_IDLE, true);
}

static void drop(struct weir_backend *backend)
{
    end_use(backend);
    dispose(weir_upstream_connection_of(backend));
}

static void done(struct weir_backend *backend, bool whole, uint32_t reply_bytes,
                 struct weir_buffer *rest)
{
    const struct weir_http1_head *head = &backend->head;
    /* The next exchange would take a surplus for the reply to its own request. */
    bool reusable = whole && head->persists && head->framing != WEIR_FRAMING_UNTIL_CLOSE &&
                    weir_buffer_bytes(&backend->in) == reply_bytes;
    if (rest != NULL) {
        *rest = backend->in;
        backend->in = (struct weir_buffer){0};
    }
    if (reusable) {
        keep(backend);
    } else {
        drop(backend);
    }
}

static void watch_peer(const struct weir_backend *backend)
{
    weir_socket_watch_peer(
        weir_upstream_connection_of((struct weir_backend *)backend)->stream.watch.fd);
}

static const struct weir_backend_protocol http1 = {.connect = go_on,
                                                   .connect_late = go_on_late,
                                                   .connect_patience_ns = patience_ns,
                                                   .read = read_reply,
                                                   .write = write_request,
                                                   .done = done,
                                                   .drop = drop,
                                                   .watch_peer = watch_peer};

/* ---- taking one ---- */

static struct weir_upstream_connection *connect_new(struct weir_origin *origin)
{
    struct weir_worker *worker = origin->worker;
    struct weir_upstream_connection *connection = weir_slab_take(&worker->upstream_connections);
    if (connection == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    memset(connection, 0, offsetof(struct weir_upstream_connection, backend.head));
    connection->backend.protocol = &http1;
    connection->backend.origin = origin;
    weir_stream_init(&connection->stream, -1, on_ready);
    int why = ENOMEM;
    if (!weir_timer_init(&worker->loop, &connection->backend.timer, on_late)) {
        goto no_timer;
    }
    if (!weir_connect_begin(connection)) {
        why = errno;
        goto no_connection;
    }
    return connection;

no_connection:
    weir_endpoint_lead(&connection->backend, NULL);
    weir_timer_deinit(&worker->loop, &connection->backend.timer);
no_timer:
    weir_slab_give(&worker->upstream_connections, connection);
    errno = why;
    return NULL;
}

/* One from the pool that leads to the best address, or null. */
static inline struct weir_upstream_connection *take_idle(struct weir_origin *origin)
{
    struct weir_endpoint *endpoint = weir_endpoint_choose(origin, 0);
    if (endpoint == NULL || weir_list_empty(&endpoint->idle)) {
        return NULL;
    }
    struct weir_upstream_connection *connection =
        weir_container_of(endpoint->idle.next, struct weir_upstream_connection, endpoint_link);
    leave_pool(connection);
    connection->backend.reused = true;
    endpoint->outstanding++;
    weir_endpoint_count(endpoint, WEIR_TALLY_ACTIVE, true);
    return connection;
}

struct weir_backend *weir_backend_take(struct weir_origin *origin, void *user, bool used)
{
    assert(user != NULL);
    if (origin->name != NULL) {
        (void)weir_name_known(origin->name); /* asks, should it be time to */
        weir_endpoints_refresh(origin);
    }
    struct weir_upstream_connection *connection = used ? take_idle(origin) : NULL;
    if (connection == NULL) {
        connection = connect_new(origin);
    }
    if (connection == NULL) {
        return NULL;
    }
    connection->backend.user = user;
    origin->next++;
    origin->outstanding++;
    weir_tally_raise(origin->tally, WEIR_TALLY_ACTIVE);
    return &connection->backend;
}

void weir_upstream_connections_trim(struct weir_origin *origin, uint32_t keep)
{
    while (origin->idle_count > keep) {
        struct weir_upstream_connection *connection =
            weir_container_of(origin->idle.previous, struct weir_upstream_connection, link);
        leave_pool(connection);
        dispose(connection);
    }
}

void weir_upstream_connections_close_idle(struct weir_endpoint *endpoint)
{
    while (!weir_list_empty(&endpoint->idle)) {
        struct weir_upstream_connection *connection =
            weir_container_of(endpoint->idle.next, struct weir_upstream_connection, endpoint_link);
        leave_pool(connection);
        dispose(connection);
    }
}
