#include "upstream/connect.h"

#include "base/list.h"
#include "worker/descriptor_log.h"

#include <assert.h>
#include <errno.h>

/* ---- addresses ---- */

/* A socket that is connecting. */
static bool open_socket(struct weir_backend *backend, const struct weir_address *address)
{
    struct weir_worker *worker = backend->origin->worker;
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
    weir_stream_init(&backend->stream, fd, backend->stream.watch.ready);
    if (!weir_loop_watch(&worker->loop, &backend->stream.watch)) {
        int why = errno;
        weir_stream_close(&backend->stream);
        errno = why;
        return false;
    }
    backend->step = WEIR_BACKEND_CONNECTING;
    return true;
}

static void on_told(struct weir_name_waiter *waiter, const char *wrong)
{
    struct weir_backend *backend = weir_container_of(waiter, struct weir_backend, waiter);
    assert(backend->step == WEIR_BACKEND_RESOLVING);
    backend->step = WEIR_BACKEND_RESOLVED;
    backend->wrong = wrong;
    backend->ready(backend);
}

static void await_addresses(struct weir_backend *backend)
{
    backend->step = WEIR_BACKEND_RESOLVING;
    backend->waiter.on_result = on_told;
    weir_name_await(backend->origin->name, &backend->waiter);
}

/* Whether there are addresses that have not been tried. */
static bool has_others(const struct weir_backend *backend)
{
    const struct weir_name *name = backend->origin->name;
    return name != NULL && (backend->name_version != weir_name_version(name) ||
                            backend->tried < weir_name_count(name));
}

/* The next of the name's addresses that a connection can begin to, or waits for more of them. False
 * if there are none. */
static bool open_next(struct weir_backend *backend)
{
    const struct weir_origin *origin = backend->origin;
    uint32_t count = weir_name_count(origin->name);
    /* When some have come or gone, the others stand elsewhere: it begins anew. */
    if (backend->tried == 0 || backend->name_version != weir_name_version(origin->name)) {
        backend->tried = 0;
        backend->address_index = weir_name_first(origin->name);
        backend->name_version = weir_name_version(origin->name);
    }
    errno = EHOSTUNREACH;
    while (backend->tried < count) {
        struct weir_address address;
        backend->address_index = (backend->address_index + (backend->tried > 0)) % count;
        backend->tried++;
        weir_name_address(origin->name, backend->address_index, origin->port, &address);
        if (open_socket(backend, &address)) {
            return true;
        }
    }
    if (weir_name_partial(origin->name)) {
        await_addresses(backend);
        return true;
    }
    return false;
}

static enum weir_connect_progress try_next(struct weir_backend *backend)
{
    weir_stream_close(&backend->stream);
    return backend->origin->name != NULL && open_next(backend) ? WEIR_CONNECT_UNDER_WAY
                                                               : WEIR_CONNECT_FAILED;
}

/* ---- names ---- */

static bool begin_by_name(struct weir_backend *backend)
{
    struct weir_origin *origin = backend->origin;
    if (origin->name == NULL) {
        origin->name = weir_name_take(origin->worker->resolver, origin->host);
    }
    if (origin->name == NULL) {
        errno = ENOMEM;
        return false;
    }
    if (weir_name_known(origin->name)) {
        return open_next(backend);
    }
    await_addresses(backend);
    return true;
}

bool weir_connect_begin(struct weir_backend *backend)
{
    const struct weir_origin *origin = backend->origin;
    backend->connect_by_ns =
        origin->worker->loop.now_ns + origin->upstream->config->connect_timeout_ns;
    return origin->host.bytes > 0 ? begin_by_name(backend) : open_socket(backend, &origin->address);
}

void weir_connect_end(struct weir_backend *backend)
{
    weir_name_leave(&backend->waiter);
}

bool weir_connect_current(struct weir_backend *backend)
{
    struct weir_name *name = backend->origin->name;
    if (name == NULL) {
        return true;
    }
    (void)weir_name_known(name); /* asks, should it be time to */
    if (backend->name_version == weir_name_version(name)) {
        return true;
    }
    struct weir_address address;
    backend->name_version = weir_name_version(name);
    return weir_socket_peer(backend->stream.watch.fd, &address) && weir_name_has(name, &address);
}

/* ---- steps ---- */

static enum weir_connect_progress finish(struct weir_backend *backend)
{
    backend->connected = true;
    if (backend->origin->name != NULL) {
        weir_name_worked(backend->origin->name, backend->address_index);
    }
    return WEIR_CONNECT_DONE;
}

static enum weir_connect_progress shake_hands(struct weir_backend *backend, const char **wrong)
{
    switch (weir_tls_shake_hands(&backend->stream, wrong)) {
    case WEIR_TLS_DONE:
        return finish(backend);
    case WEIR_TLS_AGAIN:
        return WEIR_CONNECT_UNDER_WAY;
    default:
        return WEIR_CONNECT_FAILED; /* another address would be the same server as a rule */
    }
}

/* The socket has connected, or not. */
static enum weir_connect_progress take_socket(struct weir_backend *backend, const char **wrong)
{
    struct weir_origin *origin = backend->origin;
    if (!backend->stream.writable) {
        return WEIR_CONNECT_UNDER_WAY;
    }
    if (weir_socket_error(backend->stream.watch.fd) != 0) {
        return try_next(backend);
    }
    if (origin->tls.client == NULL) {
        return finish(backend);
    }
    if (!weir_tls_begin(&backend->stream, &origin->tls)) {
        *wrong = "There is no memory left for a TLS connection to the upstream.";
        return WEIR_CONNECT_FAILED;
    }
    backend->step = WEIR_BACKEND_SHAKING_HANDS;
    return shake_hands(backend, wrong);
}

enum weir_connect_progress weir_connect_go_on(struct weir_backend *backend, const char **wrong)
{
    *wrong = NULL;
    switch (backend->step) {
    case WEIR_BACKEND_RESOLVING:
        return WEIR_CONNECT_UNDER_WAY;
    case WEIR_BACKEND_RESOLVED:
        *wrong = backend->wrong;
        return *wrong == NULL && open_next(backend) ? WEIR_CONNECT_UNDER_WAY : WEIR_CONNECT_FAILED;
    case WEIR_BACKEND_CONNECTING:
        return take_socket(backend, wrong);
    default:
        return shake_hands(backend, wrong);
    }
}

enum weir_connect_progress weir_connect_late(struct weir_backend *backend, const char **wrong)
{
    static const char *const sentences[] = {
        [WEIR_BACKEND_RESOLVING] =
            "The DNS servers did not say within the connect timeout where the upstream is. Check "
            "them, and dns in the configuration.",
        [WEIR_BACKEND_RESOLVED] = NULL,
        [WEIR_BACKEND_CONNECTING] =
            "The upstream did not accept a connection within its connect timeout. Check that it is "
            "running and can be reached, and try again.",
        [WEIR_BACKEND_SHAKING_HANDS] =
            "The upstream did not finish the TLS handshake within its connect timeout. Check that "
            "its port speaks TLS, and try again."};
    *wrong = sentences[backend->step];
    if (backend->step == WEIR_BACKEND_RESOLVING ||
        backend->connect_by_ns <= backend->origin->worker->loop.now_ns) {
        return WEIR_CONNECT_FAILED;
    }
    return has_others(backend) ? try_next(backend) : WEIR_CONNECT_UNDER_WAY;
}

uint64_t weir_connect_patience_ns(const struct weir_backend *backend)
{
    const struct weir_name *name = backend->origin->name;
    uint64_t now_ns = backend->origin->worker->loop.now_ns;
    uint64_t left_ns = backend->connect_by_ns > now_ns ? backend->connect_by_ns - now_ns : 0;
    uint32_t count = name == NULL ? 0 : weir_name_count(name);
    uint32_t others = count > backend->tried ? count - backend->tried : 0;
    others += name != NULL && weir_name_partial(name); /* those that come yet want time, too */
    return backend->step < WEIR_BACKEND_CONNECTING ? left_ns : left_ns / (others + 1);
}
