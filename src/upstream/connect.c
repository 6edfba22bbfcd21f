/* connect.c - a connection to a server comes about: from the server's name to addresses, which are
 * tried one after the other, to a TCP connection, and with TLS through a handshake.
 *
 * Everything is called in the thread of the worker that owns the connection; there is no lock. */
#include "upstream/connect.h"

#include "base/list.h"
#include "worker/descriptor_log.h"

#include <assert.h>
#include <errno.h>

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
    const struct weir_name *name = connection->backend.origin->name;
    return name != NULL && (connection->name_version != weir_name_version(name) ||
                            connection->tried < weir_name_count(name));
}

/* The next of the name's addresses that a connection can begin to, or waits for more of them. False
 * if there are none. */
static bool open_next(struct weir_upstream_connection *connection)
{
    const struct weir_origin *origin = connection->backend.origin;
    uint32_t count = weir_name_count(origin->name);
    /* When some have come or gone, the others stand elsewhere: it begins again. */
    if (connection->tried == 0 || connection->name_version != weir_name_version(origin->name)) {
        connection->tried = 0;
        connection->address_index = weir_name_first(origin->name);
        connection->name_version = weir_name_version(origin->name);
    }
    errno = EHOSTUNREACH;
    while (connection->tried < count) {
        struct weir_address address;
        connection->address_index = (connection->address_index + (connection->tried > 0)) % count;
        connection->tried++;
        weir_name_address(origin->name, connection->address_index, origin->port, &address);
        if (open_socket(connection, &address)) {
            return true;
        }
    }
    if (weir_name_partial(origin->name)) {
        await_addresses(connection);
        return true;
    }
    return false;
}

static enum weir_connect_progress try_next(struct weir_upstream_connection *connection)
{
    weir_stream_close(&connection->stream);
    return connection->backend.origin->name != NULL && open_next(connection)
               ? WEIR_CONNECT_UNDER_WAY
               : WEIR_CONNECT_FAILED;
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

/* For the answers to those who wait for the server: where the connection failed, and why. */
static void note_error(const struct weir_upstream_connection *connection, int error)
{
    struct weir_origin *origin = connection->backend.origin;
    origin->connect_error = error;
    origin->connect_address = origin->address;
    if (origin->name != NULL && connection->address_index < weir_name_count(origin->name)) {
        weir_name_address(origin->name, connection->address_index, origin->port,
                          &origin->connect_address);
    }
}

bool weir_connect_begin(struct weir_upstream_connection *connection)
{
    const struct weir_origin *origin = connection->backend.origin;
    connection->connect_by_ns =
        origin->worker->loop.now_ns + origin->upstream->config->connect_timeout_ns;
    bool begun = origin->host.bytes > 0 ? begin_by_name(connection)
                                        : open_socket(connection, &origin->address);
    if (!begun) {
        int error = errno;
        note_error(connection, error);
        errno = error;
    }
    return begun;
}

void weir_connect_end(struct weir_upstream_connection *connection)
{
    weir_name_leave(&connection->waiter);
}

bool weir_connect_current(struct weir_upstream_connection *connection)
{
    struct weir_name *name = connection->backend.origin->name;
    if (name == NULL) {
        return true;
    }
    (void)weir_name_known(name); /* asks, should it be time to */
    if (connection->name_version == weir_name_version(name)) {
        return true;
    }
    struct weir_address address;
    connection->name_version = weir_name_version(name);
    return weir_socket_peer(connection->stream.watch.fd, &address) && weir_name_has(name, &address);
}

/* ---- steps ---- */

static enum weir_connect_progress finish(struct weir_upstream_connection *connection)
{
    connection->backend.connected = true;
    connection->backend.origin->connect_error = 0;
    if (connection->backend.origin->name != NULL) {
        weir_name_worked(connection->backend.origin->name, connection->address_index);
    }
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
        return WEIR_CONNECT_FAILED; /* another address would be the same server as a rule */
    }
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
        return try_next(connection);
    }
    if (origin->tls.client == NULL) {
        return finish(connection);
    }
    if (!weir_tls_begin(&connection->stream, &origin->tls)) {
        *wrong = "There is no memory left for a TLS connection to the upstream.";
        return WEIR_CONNECT_FAILED;
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
                                                       : WEIR_CONNECT_FAILED;
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
        return WEIR_CONNECT_FAILED;
    }
    return has_others(connection) ? try_next(connection) : WEIR_CONNECT_UNDER_WAY;
}

uint64_t weir_connect_patience_ns(const struct weir_upstream_connection *connection)
{
    const struct weir_name *name = connection->backend.origin->name;
    uint64_t now_ns = connection->backend.origin->worker->loop.now_ns;
    uint64_t left_ns = connection->connect_by_ns > now_ns ? connection->connect_by_ns - now_ns : 0;
    uint32_t count = name == NULL ? 0 : weir_name_count(name);
    uint32_t others = count > connection->tried ? count - connection->tried : 0;
    others += name != NULL && weir_name_partial(name); /* those that come yet want time, too */
    return connection->step < WEIR_CONNECT_CONNECTING ? left_ns : left_ns / (others + 1);
}
