/* tls.c - TLS towards servers with OpenSSL, as a kind of stream. A TLS client is shared by all
 * threads and never changes; a server's sessions and a stream belong to one loop's thread.
 *
 * Reading may have to write and the other way round. That is no special case here: a call that has
 * to wait clears the flag of what it waits for, and the owner of the stream calls again after the
 * loop's next report.
 *
 * OpenSSL reads and writes the socket through two functions of ours, for three reasons: no SIGPIPE;
 * a short read from the socket is noticed, which saves the call that would only return EAGAIN; and
 * an end of the connection without close_notify is distinguished from other failures, so that it
 * neither makes OpenSSL answer with an alert nor spoils the session. */
#include "net/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The most that one TLS record carries. Parts that fit into one record are sent as one. */
#define RECORD_BYTES_MAX 16384

struct weir_tls_client {
    SSL_CTX *context;
};

/* What a stream keeps. */
struct tls {
    SSL *ssl;
    struct weir_stream *stream;
    struct weir_tls_server *server;
    bool drained; /* the last read from the socket, during this call, emptied it */
    bool cut;     /* the connection ended without close_notify */
    bool failed;  /* OpenSSL takes no more calls */
};

static const char *sentence(const char *format, ...) __attribute__((format(printf, 1, 2)));

static const char *sentence(const char *format, ...)
{
    static _Thread_local char text[WEIR_TLS_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

/* ---- the socket ---- */

static int socket_read(BIO *bio, char *bytes, int count)
{
    struct tls *tls = BIO_get_data(bio);
    ssize_t got;
    BIO_clear_retry_flags(bio);
    do {
        got = recv(tls->stream->watch.fd, bytes, (size_t)count, 0);
    } while (got == -1 && errno == EINTR);
    if (got > 0) {
        tls->drained = got < count;
        return (int)got;
    }
    if (got == -1 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        tls->drained = true;
        BIO_set_retry_read(bio);
    } else {
        tls->cut = true;
    }
    return -1;
}

static int socket_write(BIO *bio, const char *bytes, int count)
{
    struct tls *tls = BIO_get_data(bio);
    ssize_t sent;
    BIO_clear_retry_flags(bio);
    do {
        sent = send(tls->stream->watch.fd, bytes, (size_t)count, MSG_NOSIGNAL);
    } while (sent == -1 && errno == EINTR);
    if (sent == -1 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        BIO_set_retry_write(bio);
    }
    return (int)sent;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0; /* nothing is held back */
}

static BIO_METHOD *socket_method;

static void make_socket_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir stream");
    if (method != NULL) {
        BIO_meth_set_read(method, socket_read);
        BIO_meth_set_write(method, socket_write);
        BIO_meth_set_ctrl(method, socket_control);
    }
    socket_method = method;
}

/* ---- sessions ---- */

static void forget_oldest(struct weir_tls_server *server)
{
    SSL_SESSION_free(server->sessions[0]);
    server->session_count--;
    memmove(server->sessions, server->sessions + 1,
            server->session_count * sizeof server->sessions[0]);
}

/* OpenSSL calls this with each new session. Returning 1 takes ownership of it. */
static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls *tls = SSL_get_app_data(ssl);
    struct weir_tls_server *server = tls->server;
    if (!SSL_SESSION_is_resumable(session)) {
        return 0;
    }
    if (server->session_count == WEIR_TLS_SESSIONS_MAX) {
        forget_oldest(server);
    }
    server->sessions[server->session_count++] = session;
    return 1;
}

/* The newest session is offered. Since TLS 1.3 a session is used once, so that an observer cannot
 * recognize a returning client (RFC 8446, appendix C.4). */
static void offer_session(struct weir_tls_server *server, SSL *ssl)
{
    if (server->session_count == 0) {
        return;
    }
    SSL_SESSION *session = server->sessions[server->session_count - 1];
    (void)!SSL_set_session(ssl, session); /* without it, the handshake is a full one */
    if (SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION) {
        server->session_count--;
        SSL_SESSION_free(session);
    }
}

/* ---- clients ---- */

static const char *last_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason == NULL ? "it is not in PEM format" : reason;
}

/* Null on success, else a sentence that says what is wrong with the file. */
static const char *load_issuers(SSL_CTX *context, struct weir_slice ca)
{
    char path[WEIR_TLS_PATH_BYTES_MAX];
    if (ca.bytes == 0) {
        return SSL_CTX_set_default_verify_paths(context) == 1
                   ? NULL
                   : "the system's trusted certificates cannot be loaded";
    }
    if (ca.bytes >= sizeof path) {
        return "the path of the ca file is too long";
    }
    memcpy(path, ca.data, ca.bytes);
    path[ca.bytes] = '\0';
    if (access(path, R_OK) != 0) {
        return sentence("%s: cannot be read: %s; expected a file of certificates in PEM format",
                        path, strerror(errno));
    }
    /* A certificate in the file is trusted even if it was issued by another one. */
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
    ERR_clear_error();
    if (SSL_CTX_load_verify_file(context, path) != 1) {
        return sentence("%s: has no certificate that can be used: %s; expected a file of "
                        "certificates in PEM format",
                        path, last_reason());
    }
    return NULL;
}

static const char *set_up(SSL_CTX *context, const struct weir_tls_trust *trust)
{
    static const unsigned char protocols[] = "\x08http/1.1";
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_alpn_protos(context, protocols, sizeof protocols - 1) != 0) {
        return "out of memory";
    }
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    /* Idle connections keep no buffers, and sockets are read in large pieces. */
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_session_cache_mode(context,
                                   SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
    SSL_CTX_sess_set_new_cb(context, keep_session);
    SSL_CTX_set_verify(context, trust->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    return trust->verify || trust->ca.bytes > 0 ? load_issuers(context, trust->ca) : NULL;
}

struct weir_tls_client *weir_tls_client_create(const struct weir_tls_trust *trust,
                                               const char **error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_socket_method);
    struct weir_tls_client *client = calloc(1, sizeof *client);
    *error = "out of memory";
    if (client == NULL || socket_method == NULL) {
        free(client);
        return NULL;
    }
    client->context = SSL_CTX_new(TLS_client_method());
    if (client->context != NULL) {
        *error = set_up(client->context, trust);
    }
    ERR_clear_error();
    if (*error != NULL) {
        weir_tls_client_destroy(client);
        return NULL;
    }
    return client;
}

void weir_tls_client_destroy(struct weir_tls_client *client)
{
    if (client != NULL) {
        SSL_CTX_free(client->context);
        free(client);
    }
}

/* ---- servers ---- */

bool weir_tls_server_init(struct weir_tls_server *server, const struct weir_tls_client *client,
                          struct weir_slice name)
{
    *server = (struct weir_tls_server){.client = client};
    /* A host name may end in a dot for the DNS; names in certificates do not. */
    if (name.bytes > 1 && name.data[name.bytes - 1] == '.') {
        name.bytes--;
    }
    if (name.bytes == 0 || name.bytes >= sizeof server->name) {
        return false;
    }
    memcpy(server->name, name.data, name.bytes);
    unsigned char number[16];
    server->is_number = inet_pton(AF_INET, server->name, number) == 1 ||
                        inet_pton(AF_INET6, server->name, number) == 1;
    return true;
}

void weir_tls_server_deinit(struct weir_tls_server *server)
{
    while (server->session_count > 0) {
        forget_oldest(server);
    }
}

/* ---- the stream ---- */

/* Translates the result of an OpenSSL call that did not succeed. */
static ssize_t result_of(struct tls *tls, int result)
{
    struct weir_stream *stream = tls->stream;
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        stream->readable = false;
        return WEIR_STREAM_AGAIN;
    case SSL_ERROR_WANT_WRITE:
        stream->writable = false;
        return WEIR_STREAM_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return WEIR_STREAM_END;
    case SSL_ERROR_SYSCALL:
        /* This includes a write to a server that has closed: bytes that it sent before may still be
         * read. */
        return WEIR_STREAM_BROKEN;
    default:
        tls->failed = true;
        return WEIR_STREAM_BROKEN;
    }
}

static ssize_t tls_read(struct weir_stream *stream, void *bytes, size_t count)
{
    struct tls *tls = stream->layer;
    if (tls->failed) {
        return WEIR_STREAM_BROKEN;
    }
    /* What an earlier call noticed no longer holds. */
    tls->drained = false;
    ERR_clear_error();
    int got = SSL_read(tls->ssl, bytes, count < INT_MAX ? (int)count : INT_MAX);
    if (got <= 0) {
        return result_of(tls, got);
    }
    if (tls->drained && !stream->hung && SSL_has_pending(tls->ssl) == 0) {
        stream->readable = false;
    }
    return got;
}

/* Copies as much of the parts as fits into one record to `room`, unless one part alone is enough.
 * Returns the piece to write. */
static struct weir_slice gather(const struct iovec *parts, int part_count, char *room)
{
    int first = 0;
    while (parts[first].iov_len == 0) {
        first++;
        assert(first < part_count);
    }
    if (first + 1 == part_count || parts[first].iov_len >= RECORD_BYTES_MAX) {
        return (struct weir_slice){parts[first].iov_base, parts[first].iov_len};
    }
    size_t bytes = 0;
    for (int i = first; i < part_count && bytes < RECORD_BYTES_MAX; i++) {
        size_t left = RECORD_BYTES_MAX - bytes;
        size_t fits = parts[i].iov_len < left ? parts[i].iov_len : left;
        memcpy(room + bytes, parts[i].iov_base, fits);
        bytes += fits;
    }
    return (struct weir_slice){room, bytes};
}

static ssize_t tls_write(struct weir_stream *stream, const struct iovec *parts, int part_count)
{
    struct tls *tls = stream->layer;
    char room[RECORD_BYTES_MAX];
    if (tls->failed) {
        return WEIR_STREAM_BROKEN;
    }
    struct weir_slice piece = gather(parts, part_count, room);
    ERR_clear_error();
    int sent = SSL_write(tls->ssl, piece.data, piece.bytes < INT_MAX ? (int)piece.bytes : INT_MAX);
    if (sent > 0) {
        return sent;
    }
    ssize_t result = result_of(tls, sent);
    return result == WEIR_STREAM_END ? WEIR_STREAM_BROKEN : result;
}

/* Sends close_notify, if the connection still works. */
static void send_close_notify(struct tls *tls)
{
    if (!tls->failed && !tls->cut && SSL_is_init_finished(tls->ssl) == 1) {
        ERR_clear_error();
        SSL_shutdown(tls->ssl);
    }
}

static void tls_finish(struct weir_stream *stream)
{
    send_close_notify(stream->layer);
    shutdown(stream->watch.fd, SHUT_WR);
}

static void tls_close(struct weir_stream *stream)
{
    struct tls *tls = stream->layer;
    send_close_notify(tls);
    if (!tls->failed || tls->cut) {
        /* Without this OpenSSL discards the session as bad, which a lost connection alone does not
         * make it. */
        SSL_set_shutdown(tls->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    }
    SSL_free(tls->ssl);
    ERR_clear_error();
    free(tls);
    stream->layer = NULL;
    weir_watch_close(&stream->watch);
}

static const struct weir_stream_kind kind = {tls_read, tls_write, tls_finish, tls_close};

/* ---- handshakes ---- */

/* Sets the name that the certificate must have, and the name sent to the server (SNI). */
static bool name_server(SSL *ssl, const struct weir_tls_server *server)
{
    X509_VERIFY_PARAM *judge = SSL_get0_param(ssl);
    if (server->is_number) {
        return X509_VERIFY_PARAM_set1_ip_asc(judge, server->name) == 1;
    }
    X509_VERIFY_PARAM_set_hostflags(judge, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(judge, server->name, 0) == 1 &&
           SSL_set_tlsext_host_name(ssl, server->name) == 1;
}

bool weir_tls_begin(struct weir_stream *stream, struct weir_tls_server *server)
{
    struct tls *tls = calloc(1, sizeof *tls);
    SSL *ssl = tls == NULL ? NULL : SSL_new(server->client->context);
    BIO *bio = ssl == NULL ? NULL : BIO_new(socket_method);
    if (bio == NULL || !name_server(ssl, server)) {
        BIO_free(bio);
        SSL_free(ssl);
        free(tls);
        ERR_clear_error();
        return false;
    }
    *tls = (struct tls){.ssl = ssl, .stream = stream, .server = server};
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_app_data(ssl, tls);
    SSL_set_connect_state(ssl);
    offer_session(server, ssl);
    stream->layer = tls;
    stream->kind = &kind;
    return true;
}

/* Describes why a certificate was not accepted. */
static const char *describe_certificate(long verdict)
{
    switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "The upstream's certificate, or one of its issuers', has expired. Renew it at the "
               "upstream.";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "The upstream's certificate is not valid yet. Check this machine's clock and the "
               "upstream's.";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return "The upstream's certificate is for another name than the requested one. Check the "
               "upstream's url, or set server_name in its tls settings.";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        return "The upstream's certificate is signed by itself, not by a trusted issuer. If it is "
               "the right one, name its file as ca in the upstream's tls settings.";
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return "The issuer of the upstream's certificate is not trusted. Name the issuer's file as "
               "ca in the upstream's tls settings, or make the upstream send its intermediate "
               "certificates.";
    default:
        return sentence("The upstream's certificate was not accepted: %s. Check it at the "
                        "upstream, and ca in the upstream's tls settings.",
                        X509_verify_cert_error_string(verdict));
    }
}

/* Describes why the handshake failed, from OpenSSL's last error. */
static const char *describe_failure(const struct tls *tls)
{
    long verdict = SSL_get_verify_result(tls->ssl);
    int reason = ERR_GET_REASON(ERR_peek_last_error());
    if (tls->cut || ERR_peek_last_error() == 0) {
        return "The upstream closed the connection during the TLS handshake. Check that its port "
               "speaks TLS, and read its log.";
    }
    switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return describe_certificate(verdict);
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        return "The upstream does not speak TLS on this port. Check its url: http:// instead of "
               "https://, or another port.";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return "The upstream supports only versions of TLS before 1.2, which are not safe. Enable "
               "TLS 1.2 or 1.3 there.";
    case SSL_R_TLSV1_UNRECOGNIZED_NAME:
        return "The upstream does not know the host name that was requested. Check its url, or set "
               "server_name in its tls settings.";
    default:
        break;
    }
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return sentence("The TLS handshake with the upstream failed: %s. Check the upstream's TLS "
                    "settings and its log.",
                    text == NULL ? "no reason was given" : text);
}

enum weir_tls_step weir_tls_shake_hands(struct weir_stream *stream, const char **error)
{
    struct tls *tls = stream->layer;
    assert(stream->kind == &kind);
    if (!tls->failed) {
        ERR_clear_error();
        int result = SSL_do_handshake(tls->ssl);
        if (result == 1) {
            return WEIR_TLS_DONE;
        }
        if (result_of(tls, result) == WEIR_STREAM_AGAIN) {
            return WEIR_TLS_AGAIN;
        }
    }
    tls->failed = true;
    *error = describe_failure(tls);
    return WEIR_TLS_FAILED;
}

bool weir_tls_reused(const struct weir_stream *stream)
{
    const struct tls *tls = stream->layer;
    return SSL_session_reused(tls->ssl) == 1;
}
