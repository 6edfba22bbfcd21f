/* tls.h - TLS towards servers, behind the same stream as plain bytes.
 *
 * A client is what connections to servers of one kind have in common: whom to trust. It is made
 * once, never changes, and is shared by all threads, because a store of issuers takes megabytes and
 * milliseconds to load; what OpenSSL counts and locks in it is touched by handshakes, never by
 * bytes. What one thread has to itself is its connections, and for each server a few sessions, with
 * which later handshakes are shorter.
 *
 * A stream becomes one of TLS when its socket has connected. Then comes the handshake, step by step
 * as the loop tells; afterwards it is read and written as any other. An end without TLS's own
 * goodbye reads as WEIR_STREAM_BROKEN, since anybody on the way may have cut it. A write that
 * returned WEIR_STREAM_AGAIN must be repeated with the same bytes first.
 *
 * Listeners would need a second way to begin, which accepts; all that follows is the same. */
#ifndef WEIR_NET_TLS_H
#define WEIR_NET_TLS_H

#include "net/stream.h"
#include "weir/types.h"

/* How many sessions are kept for a server. A server gives two with a handshake as a rule. */
#define WEIR_TLS_SESSIONS_MAX 4

/* Of a certificate authority's file, and of a host's name; with the zero at its end. */
#define WEIR_TLS_PATH_BYTES_MAX 4096
#define WEIR_TLS_NAME_BYTES_MAX 256

struct weir_tls_client;

struct weir_tls_trust {
    struct weir_slice ca; /* a file of certificates in PEM; empty: those that the system trusts */
    bool verify;          /* false: whatever certificate a server shows is good */
};

/* Null on failure, with a sentence that says what is wrong with the file, until this thread's next.
 * Reads files. */
struct weir_tls_client *weir_tls_client_create(const struct weir_tls_trust *trust,
                                               const char **error);

/* Once none of its connections is left; null is fine. */
void weir_tls_client_destroy(struct weir_tls_client *client);

/* A server as one thread knows it. Outlives its connections, and is used by that thread only. */
struct weir_tls_server {
    const struct weir_tls_client *client; /* null: it is spoken to without TLS */
    char name[WEIR_TLS_NAME_BYTES_MAX];   /* that its certificate must be for: a name or number */
    bool is_number;                       /* an IP address, which is not told to the server */
    uint32_t session_count;
    void *sessions[WEIR_TLS_SESSIONS_MAX]; /* the newest last */
};

/* `name` is a host's name or an IP address. False if it is longer than a name can be. */
WEIR_MUST_CHECK bool weir_tls_server_init(struct weir_tls_server *server,
                                          const struct weir_tls_client *client,
                                          struct weir_slice name);
/* Safe on a zeroed one. */
void weir_tls_server_deinit(struct weir_tls_server *server);

/* Makes a plain stream, on which nothing has been sent yet, one of TLS. False, and nothing changed,
 * without memory. Closing the stream ends it. */
WEIR_MUST_CHECK bool weir_tls_begin(struct weir_stream *stream, struct weir_tls_server *server);

enum weir_tls_step {
    WEIR_TLS_DONE,
    WEIR_TLS_AGAIN, /* not now; the watch will tell */
    WEIR_TLS_FAILED
};

/* The next step of the handshake. When it has failed, `*error` is a sentence for whoever runs the
 * gateway, until this thread's next. */
enum weir_tls_step weir_tls_shake_hands(struct weir_stream *stream, const char **error);

/* Whether the handshake was a short one, with a session from before. */
bool weir_tls_reused(const struct weir_stream *stream);

#endif
