/* connect.c - a connection to a server comes about: from the server's name to addresses, which are
 * tried one after the other, to a TCP connection, and with TLS through a handshake.
 *
 * Everything is called in the thread of the worker that owns the connection; there is no lock. */
#include "upstream/connect.h"

#include "base/list.h"
#include "worker/descriptor_log.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

/* ---- addresses ---- */

/* A socket that is connecting. */
static bool open_socket(struct weir_upstream_connection *connection,
                        const struct weir_address *address)
{
    struct weir_worker *worker = connection->backend.origin->worker;
    if (!worker->make_room(worker)) {
        errno = EMFILE;
        return false;
    }
    int fd = weir_socket_connect(address);
    if (fd == -1) {
        int why = errno;
        if (why == EMFILE || why == ENFILE) {
            weir_log_descriptors("connect to an upstream", worker->loop.now_ns);
        }
        errno = why;
        return false;
    }
    weir_stream_init(&connection->stream, fd, connection->stream.watch.ready);
    if (!weir_loop_watch(&worker->loop, &connection->stream.watch)) {
        int why = errno;
        weir_stream_close(&connection->stream);
        errno = why;
        return false;
    }
    connection->step = WEIR_CONNECT_CONNECTING;
    return true;
}

static void on_told(struct weir_name_waiter *waiter, const char *wrong)
{
    struct weir_upstream_connection *connection =
        weir_container_of(waiter, struct weir_upstream_connection, waiter);
    assert(connection->step == WEIR_CONNECT_RESOLVING);
    connection->step = WEIR_CONNECT_RESOLVED;
    connection->wrong = wrong;
    connection->backend.ready(&connection->backend);
}

static void await_addresses(struct weir_upstream_connection *connection)
{
    connection->step = WEIR_CONNECT_RESOLVING;
    connection->waiter.on_result = on_told;
    weir_name_await(connection->backend.origin->name, &connection->waiter);
}

/* Whether there are addresses that have not been tried. */
static bool has_others(const struct weir_upstream_connection *connection)
{
    struct weir_origin *origin = connection->backend.origin;
    weir_endpoints_refresh(origin);
    return connection->endpoint_changes != origin->endpoint_changes ||
           weir_endpoint_choose(origin, connection->tried) != NULL;
}

bool weir_connect_lacks(int why)
{
    return why == EMFILE || why == ENFILE || why == ENOMEM || why == ENOBUFS || why == EAGAIN;
}

/* The next of the server's addresses that a connection can begin to, or waits for more of them.
 * False, with errno, if there are none, or if it is this program that lacks something. */
static bool open_next(struct weir_upstream_connection *connection)
{
    struct weir_origin *origin = connection->backend.origin;
    struct weir_endpoint *endpoint;
    weir_endpoints_refresh(origin);
    /* When some have come or gone, the others stand elsewhere: it begins again. */
    if (connection->endpoint_changes != origin->endpoint_changes) {
        connection->tried = 0;
        connection->endpoint_changes = origin->endpoint_changes;
    }
    errno = EHOSTUNREACH;
    while ((endpoint = weir_endpoint_choose(origin, connection->tried)) != NULL) {
        connection->tried |= UINT32_C(1) << endpoint->index;
        weir_endpoint_lead(&connection->backend, endpoint);
        if (open_socket(connection, &endpoint->address)) {
            return true;
        }
        if (weir_connect_lacks(errno)) {
            connection->backend.lacks = true;
            return false;
        }
    }
    if (origin->name != NULL && weir_name_partial(origin->name)) {
        await_addresses(connection);
        return true;
    }
    return false;
}

/* ---- what the attempts show ---- */

/* Calls it for each address that was tried before the last one. */
static void judge_others(const struct weir_upstream_connection *connection,
                         void (*judge)(struct weir_endpoint *endpoint))
{
    const struct weir_origin *origin = connection->backend.origin;
    if (connection->endpoint_changes != origin->endpoint_changes) {
        return; /* the set names others */
    }
    for (uint32_t i = 0; i < origin->endpoint_count; i++) {
        struct weir_endpoint *endpoint = origin->endpoints[i];
        if ((connection->tried >> i & 1) != 0 && endpoint != connection->backend.endpoint) {
            judge(endpoint);
        }
    }
}

/* None of the addresses can be connected to. The user of the backend counts the last failure. */
static enum weir_connect_progress fail(const struct weir_upstream_connection *connection,
                                       const char **wrong)
{
    if (connection->backend.lacks) { /* which says nothing about the addresses */
        *wrong = "There is no descriptor or memory left for a connection to the upstream.";
        return WEIR_CONNECT_FAILED;
    }
    judge_others(connection, weir_endpoint_failed);
    if (*wrong == NULL && connection->handshake_failed) {
        *wrong = connection->backend.origin->tls_error;
    }
    return WEIR_CONNECT_FAILED;
}

static enum weir_connect_progress try_next(struct weir_upstream_connection *connection,
                                           const char **wrong)
{
    weir_stream_close(&connection->stream);
    return open_next(connection) ? WEIR_CONNECT_UNDER_WAY : fail(connection, wrong);
}

/* For the answers to requests that wait for the server: where the connection failed, and why. */
static void note_error(const struct weir_upstream_connection *connection, int error)
{
    const struct weir_endpoint *endpoint = connection->backend.endpoint;
    struct weir_origin *origin = connection->backend.origin;
    origin->connect_error = error;
    origin->connect_address = endpoint != NULL ? endpoint->address : (struct weir_address){0};
}

/* ---- names ---- */

static bool begin_by_name(struct weir_upstream_connection *connection)
{
    struct weir_origin *origin = connection->backend.origin;
    if (origin->name == NULL) {
        origin->name = weir_name_take(origin->worker->resolver, origin->host);
    }
    if (origin->name == NULL) {
        errno = ENOMEM;
        return false;
    }
    if (weir_name_known(origin->name)) {
        return open_next(connection);
    }
    await_addresses(connection);
    return true;
}

bool weir_connect_begin(struct weir_upstream_connection *connection)
{
    const struct weir_origin *origin = connection->backend.origin;
    connection->connect_by_ns =
        origin->worker->loop.now_ns + origin->upstream->config->connect_timeout_ns;
    bool begun = origin->host.bytes > 0 ? begin_by_name(connection) : open_next(connection);
    if (!begun) {
        int error = errno;
        if (!weir_connect_lacks(error)) {
            note_error(connection, error);
            judge_others(connection, weir_endpoint_failed);
        }
        errno = error;
    }
    return begun;
}

void weir_connect_end(struct weir_upstream_connection *connection)
{
    weir_name_leave(&connection->waiter);
}

/* ---- steps ---- */

static enum weir_connect_progress finish(struct weir_upstream_connection *connection)
{
    connection->backend.connected = true;
    connection->backend.origin->connect_error = 0;
    judge_others(connection, weir_endpoint_pass_over);
    return WEIR_CONNECT_DONE;
}

static enum weir_connect_progress shake_hands(struct weir_upstream_connection *connection,
                                              const char **wrong)
{
    switch (weir_tls_shake_hands(&connection->stream, wrong)) {
    case WEIR_TLS_DONE:
        return finish(connection);
    case WEIR_TLS_AGAIN:
        return WEIR_CONNECT_UNDER_WAY;
    default:
        break;
    }
    struct weir_origin *origin = connection->backend.origin;
    snprintf(origin->tls_error, sizeof origin->tls_error, "%s", *wrong);
    *wrong = NULL;
    connection->handshake_failed = true;
    return try_next(connection, wrong);
}

/* The socket has connected, or not. */
static enum weir_connect_progress take_socket(struct weir_upstream_connection *connection,
                                              const char **wrong)
{
    struct weir_origin *origin = connection->backend.origin;
    if (!connection->stream.writable) {
        return WEIR_CONNECT_UNDER_WAY;
    }
    int error = weir_socket_error(connection->stream.watch.fd);
    if (error != 0) {
        note_error(connection, error);
        return try_next(connection, wrong);
    }
    if (origin->tls.client == NULL) {
        return finish(connection);
    }
    if (!weir_tls_begin(&connection->stream, &origin->tls)) {
        connection->backend.lacks = true;
        return fail(connection, wrong);
    }
    connection->step = WEIR_CONNECT_SHAKING_HANDS;
    return shake_hands(connection, wrong);
}

enum weir_connect_progress weir_connect_go_on(struct weir_upstream_connection *connection,
                                              const char **wrong)
{
    *wrong = NULL;
    switch (connection->step) {
    case WEIR_CONNECT_RESOLVING:
        return WEIR_CONNECT_UNDER_WAY;
    case WEIR_CONNECT_RESOLVED:
        *wrong = connection->wrong;
        return *wrong == NULL && open_next(connection) ? WEIR_CONNECT_UNDER_WAY
                                                       : fail(connection, wrong);
    case WEIR_CONNECT_CONNECTING:
        return take_socket(connection, wrong);
    default:
        return shake_hands(connection, wrong);
    }
}

enum weir_connect_progress weir_connect_late(struct weir_upstream_connection *connection,
                                             const char **wrong)
{
    static const char *const sentences[] = {
        [WEIR_CONNECT_RESOLVING] =
            "The DNS servers did not say within the connect timeout where the upstream is. Check "
            "them, and dns in the configuration.",
        [WEIR_CONNECT_RESOLVED] = NULL,
        [WEIR_CONNECT_CONNECTING] =
            "The upstream did not accept a connection within its connect timeout. Check that it is "
            "running and can be reached, and try again.",
        [WEIR_CONNECT_SHAKING_HANDS] =
            "The upstream did not finish the TLS handshake within its connect timeout. Check that "
            "its port speaks TLS, and try again."};
    *wrong = sentences[connection->step];
    if (connection->step == WEIR_CONNECT_RESOLVING ||
        connection->connect_by_ns <= connection->backend.origin->worker->loop.now_ns) {
        return fail(connection, wrong);
    }
    if (!has_others(connection)) {
        return WEIR_CONNECT_UNDER_WAY;
    }
    *wrong = NULL;
    return try_next(connection, wrong);
}

uint64_t weir_connect_patience_ns(const struct weir_upstream_connection *connection)
{
    const struct weir_origin *origin = connection->backend.origin;
    uint64_t now_ns = origin->worker->loop.now_ns;
    uint64_t left_ns = connection->connect_by_ns > now_ns ? connection->connect_by_ns - now_ns : 0;
    uint32_t tried = (uint32_t)__builtin_popcount(connection->tried);
    uint32_t others = origin->endpoint_count > tried ? origin->endpoint_count - tried : 0;
    if (origin->name != NULL) {
        others += weir_name_partial(origin->name); /* those that come yet want time, too */
    }
    return connection->step < WEIR_CONNECT_CONNECTING ? left_ns : left_ns / (others + 1);
}
