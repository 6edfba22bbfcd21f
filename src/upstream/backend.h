/* backend.h - the server's side of one exchange: what a request is written to and its reply read
 * from, whatever the protocol of the connection (upstream_connection.h) may be.
 *
 * A connection of HTTP/1 has one backend, embedded in it, which serves one exchange after the other
 * and is idle in a pool in between. A protocol that carries several exchanges at once has a backend
 * for each. So a user (an exchange, a call of http_client.h) never touches a connection: whether it
 * is kept for the next request is its protocol's to decide.
 *
 * Heads and bodies are HTTP/1's bytes on both sides of this interface, as client.h of the frontend
 * explains. Everything here belongs to one loop and is called in its thread. */
#ifndef WEIR_UPSTREAM_BACKEND_H
#define WEIR_UPSTREAM_BACKEND_H

#include "net/buffer.h"
#include "net/loop.h"
#include "net/stream.h"
#include "wire/http1.h"

struct weir_backend;
struct weir_endpoint;
struct weir_origin;

enum weir_connect_progress {
    WEIR_CONNECT_DONE,
    WEIR_CONNECT_UNDER_WAY,
    WEIR_CONNECT_FAILED
};

/* How a protocol does what its backends are asked for; the functions below say what each means. */
struct weir_backend_protocol {
    enum weir_connect_progress (*connect)(struct weir_backend *backend, const char **wrong);
    enum weir_connect_progress (*connect_late)(struct weir_backend *backend, const char **wrong);
    uint64_t (*connect_patience_ns)(const struct weir_backend *backend);
    ssize_t (*read)(struct weir_backend *backend);
    ssize_t (*write)(struct weir_backend *backend, struct weir_slice head, struct weir_slice body);
    void (*done)(struct weir_backend *backend, bool whole, uint32_t reply_bytes,
                 struct weir_buffer *rest);
    void (*drop)(struct weir_backend *backend);
    void (*watch_peer)(const struct weir_backend *backend);
};

struct weir_backend {
    const struct weir_backend_protocol *protocol;
    struct weir_origin *origin;
    struct weir_endpoint *endpoint; /* where it leads or tries to; null: no address is known yet */
    struct weir_timer timer;        /* the user's */
    struct weir_buffer in;          /* what has come of the reply */
    bool connected;
    bool lacks;  /* it could not be connected for want of a descriptor or of memory here */
    bool reused; /* its connection has carried a request before */
    void *user;  /* null while it is idle */
    void (*ready)(struct weir_backend *backend); /* it can send or take more, or has gone */
    void (*late)(struct weir_backend *backend);  /* the timer has fired */
    struct weir_http1_head head;                 /* of the reply; the user reads it from `in` */
};

/* A backend for a user: by a connection of the pool if that may be a used one, else by a new one
 * that is connecting. The user sets `ready` and `late`. Null, with errno, if that cannot even
 * begin. */
struct weir_backend *weir_backend_take(struct weir_origin *origin, void *user, bool used);

/* What the use of a backend has shown about its server: it failed, or it replied. */
void weir_backend_failed(struct weir_backend *backend);
void weir_backend_worked(struct weir_backend *backend);

/* Goes on with connecting after the backend has become ready. When it has failed, `*wrong` says
 * why, until this thread's next, or is null if there is nothing to say but that. */
static inline enum weir_connect_progress weir_backend_connect(struct weir_backend *backend,
                                                              const char **wrong)
{
    return backend->protocol->connect(backend, wrong);
}

/* Goes on with connecting after its time is over: with another address, or it has failed. */
static inline enum weir_connect_progress weir_backend_connect_late(struct weir_backend *backend,
                                                                   const char **wrong)
{
    return backend->protocol->connect_late(backend, wrong);
}

/* How long it may wait from now on before weir_backend_connect_late(). */
static inline uint64_t weir_backend_connect_patience_ns(const struct weir_backend *backend)
{
    return backend->protocol->connect_patience_ns(backend);
}

/* Has the system find out when the server's machine is gone, though nothing is sent to it. */
static inline void weir_backend_watch_peer(const struct weir_backend *backend)
{
    backend->protocol->watch_peer(backend);
}

/* Reads more into `in`. Returns how many bytes have come; WEIR_STREAM_AGAIN when nothing is there
 * yet, or there is no room for it; else the server sends no more. */
static inline ssize_t weir_backend_read(struct weir_backend *backend)
{
    return backend->protocol->read(backend);
}

/* Writes what it can of the request's head and then of its body, either of which may be empty, but
 * not both. Returns how many bytes of the two have gone, or WEIR_STREAM_AGAIN, or
 * WEIR_STREAM_BROKEN. */
static inline ssize_t weir_backend_write(struct weir_backend *backend, struct weir_slice head,
                                         struct weir_slice body)
{
    return backend->protocol->write(backend, head, body);
}

/* The user needs the server no more. `whole`: request and reply have passed to their ends, and
 * nothing but `reply_bytes` in `in` is left of the reply; then the connection may be kept. `rest`
 * takes over what is in `in`; null: that is thrown away. */
static inline void weir_backend_done(struct weir_backend *backend, bool whole, uint32_t reply_bytes,
                                     struct weir_buffer *rest)
{
    backend->protocol->done(backend, whole, reply_bytes, rest);
}

/* The user gives the exchange up. */
static inline void weir_backend_drop(struct weir_backend *backend)
{
    backend->protocol->drop(backend);
}

#endif
