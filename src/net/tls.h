/* tls.h - TLS towards servers, behind the same stream as plain bytes.
 *
 * A client holds what connections to servers of one kind share: the trusted issuers. It is made
 * once, never changes, and is shared by all threads, because a store of issuers takes megabytes and
 * milliseconds to load; only handshakes touch OpenSSL's locks and counters in it, transfers never
 * do. Each thread has its own connections, and for each server a few sessions that make later
 * handshakes shorter.
 *
 * A stream becomes one of TLS when its socket has connected. Then comes the handshake, a step at
 * each report of the loop; afterwards it is read and written as any other. An end without
 * close_notify reads as WEIR_STREAM_BROKEN, since an attacker on the way may have cut it. A write
 * that returned WEIR_STREAM_AGAIN must be repeated with the same bytes first.
 *
 * Listeners would need a second way to begin, which accepts; everything after it would not differ.
 */
#ifndef WEIR_NET_TLS_H
#define WEIR_NET_TLS_H

#include "net/stream.h"
#include "weir/types.h"

/* How many sessions are kept for a server. A server usually gives two with a handshake. */
#define WEIR_TLS_SESSIONS_MAX 4

/* Of a certificate authority's file, and of a host's name; with the zero at its end. */
#define WEIR_TLS_PATH_BYTES_MAX 4096
#define WEIR_TLS_NAME_BYTES_MAX 256

/* Of a sentence that says why a handshake failed. */
#define WEIR_TLS_ERROR_BYTES 512

struct weir_tls_client;

struct weir_tls_trust {
    struct weir_slice ca; /* a file of certificates in PEM; empty: those that the system trusts */
    bool verify;          /* false: any certificate is accepted */
};

/* Null on failure, with a sentence that says what is wrong with the file; it is valid until this
 * thread's next failure. Reads files. */
struct weir_tls_client *weir_tls_client_create(const struct weir_tls_trust *trust,
                                               const char **error);

/* Once none of its connections is left; null is fine. */
void weir_tls_client_destroy(struct weir_tls_client *client);

/* A server as one thread knows it. Outlives its connections, and is used by that thread only. */
struct weir_tls_server {
    const struct weir_tls_client *client; /* connections are plain */
    char name[WEIR_TLS_NAME_BYTES_MAX]; /* the name or IP address that its certificate must have */
    bool is_number;                     /* an IP address, which is not sent to the server (SNI) */
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
    WEIR_TLS_AGAIN, /* not now; `ready` will be called */
    WEIR_TLS_FAILED
};

/* The next step of the handshake. When it has failed, `*error` is a sentence for the operator,
 * valid until this thread's next failure. */
enum weir_tls_step weir_tls_shake_hands(struct weir_stream *stream, const char **error);

/* Whether the handshake was a short one, with a session from before. */
bool weir_tls_reused(const struct weir_stream *stream);

#endif
