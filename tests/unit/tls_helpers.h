/* tls_helpers.h - TLS streams over real sockets, against the server of OpenSSL. Its bytes go
 * through memory, so that a test decides when they travel, and in pieces of which size.
 * Certificates are made here, so none of them ever gets old. */
#ifndef WEIR_TESTS_TLS_HELPERS_H
#define WEIR_TESTS_TLS_HELPERS_H

#define _GNU_SOURCE
#include "net/tls.h"

#include "unit/certificates.h"
#include "unit/helpers.h"

#include "base/alloc.h"
#include "net/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

/* Turns without anything to do before a test gives up; each takes a millisecond. */
#define TURNS_MAX 20000

/* ---- the two ends ---- */

struct line {
    struct weir_loop loop;
    struct weir_timer tick;
    uint32_t turns;
    struct weir_tls_client *client;
    struct weir_tls_server server;
    struct weir_stream stream;
    int far;
    SSL_CTX *far_context;
    SSL *far_ssl;
    BIO *far_in; /* the server's memory */
    BIO *far_out;
    size_t piece;     /* bytes that travel at once */
    bool far_is_deaf; /* nothing travels to it any more */
    char seen_name[256];
    char seen_protocols[32];
    const char *error;
};

static struct line line;

static inline void hear(struct weir_watch *watch, uint32_t what)
{
    weir_stream_note(weir_container_of(watch, struct weir_stream, watch), what);
}

static inline void on_tick(struct weir_timer *timer)
{
    (void)timer;
    weir_loop_stop(&line.loop);
}

/* One round: the loop tells what is ready, and the server's bytes travel. */
static inline void turn(void)
{
    char bytes[65536];
    assert_true(line.turns++ < TURNS_MAX);
    if (line.far >= 0) {
        int waiting = (int)BIO_ctrl_pending(line.far_out);
        int take = waiting < (int)line.piece ? waiting : (int)line.piece;
        if (take > 0 && take <= (int)sizeof bytes) {
            /* Looked at first: the socket may be full. */
            char *all;
            BIO_get_mem_data(line.far_out, &all);
            ssize_t sent = send(line.far, all, (size_t)take, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent > 0) {
                assert_int_equal(BIO_read(line.far_out, bytes, (int)sent), sent);
            }
        }
        ssize_t got = line.far_is_deaf ? 0 : recv(line.far, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got > 0) {
            assert_int_equal(BIO_write(line.far_in, bytes, (int)got), got);
        }
    }
    weir_timer_set(&line.loop, &line.tick, line.loop.now_ns + SECOND / 1000);
    weir_loop_run(&line.loop);
}

static inline int see_name(SSL *ssl, int *alert, void *context)
{
    (void)alert;
    (void)context;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    snprintf(line.seen_name, sizeof line.seen_name, "%s", name == NULL ? "" : name);
    return SSL_TLSEXT_ERR_OK;
}

static inline int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_bytes,
                                  const unsigned char *in, unsigned in_bytes, void *context)
{
    (void)ssl;
    (void)context;
    snprintf(line.seen_protocols, sizeof line.seen_protocols, "%.*s", (int)in_bytes - 1, in + 1);
    *out = in + 1;
    *out_bytes = in[0];
    return SSL_TLSEXT_ERR_OK;
}

static inline SSL_CTX *make_server(const struct identity *identity, int version)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    assert_non_null(context);
    SSL_CTX_set_security_level(context, version < TLS1_2_VERSION ? 0 : 1);
    SSL_CTX_set_min_proto_version(context, version);
    SSL_CTX_set_max_proto_version(context, version);
    assert_int_equal(SSL_CTX_use_certificate(context, identity->certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, identity->key), 1);
    SSL_CTX_set_session_id_context(context, (const unsigned char *)"weir", 4);
    SSL_CTX_set_tlsext_servername_callback(context, see_name);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    return context;
}

static inline struct weir_tls_client *make_client(const char *ca, bool verify)
{
    const char *error;
    struct weir_tls_client *client = weir_tls_client_create(
        &(struct weir_tls_trust){.ca = weir_slice_of(ca == NULL ? "" : path_of(ca)),
                                 .verify = verify},
        &error);
    assert_non_null(client);
    return client;
}

/* A server, and a client that calls it by this name; not connected yet. */
static inline void open_line(const struct identity *identity, int version, const char *ca,
                             const char *name)
{
    memset(&line, 0, sizeof line);
    line.far = -1;
    line.piece = 65536;
    assert_true(weir_loop_init(&line.loop, &weir_allocator_libc));
    assert_true(weir_timer_init(&line.loop, &line.tick, on_tick));
    line.far_context = make_server(identity, version);
    line.client = make_client(ca, true);
    assert_true(weir_tls_server_init(&line.server, line.client, weir_slice_of(name)));
}

static inline void call(void)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    weir_stream_init(&line.stream, ends[0], hear);
    line.far = ends[1];
    line.far_ssl = SSL_new(line.far_context);
    line.far_in = BIO_new(BIO_s_mem());
    line.far_out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(line.far_in, -1);
    SSL_set_bio(line.far_ssl, line.far_in, line.far_out);
    SSL_set_accept_state(line.far_ssl);
    assert_true(weir_loop_watch(&line.loop, &line.stream.watch));
    assert_true(weir_tls_begin(&line.stream, &line.server));
}

/* Both ends take their steps until the client's has an end. */
static inline enum weir_tls_step shake(void)
{
    enum weir_tls_step step = WEIR_TLS_AGAIN;
    while (step == WEIR_TLS_AGAIN) {
        ERR_clear_error();
        SSL_do_handshake(line.far_ssl);
        step = weir_tls_shake_hands(&line.stream, &line.error);
        turn();
    }
    while (step == WEIR_TLS_DONE && SSL_is_init_finished(line.far_ssl) == 0) {
        assert_int_not_equal(SSL_get_error(line.far_ssl, SSL_do_handshake(line.far_ssl)),
                             SSL_ERROR_SSL);
        turn();
    }
    return step;
}

static inline void connect_line(void)
{
    call();
    enum weir_tls_step step = shake();
    if (step != WEIR_TLS_DONE) {
        fail_msg("%s", line.error);
    }
}

static inline void hang_up(void)
{
    weir_stream_close(&line.stream);
    SSL_free(line.far_ssl);
    line.far_ssl = NULL;
    if (line.far >= 0) {
        close(line.far);
        line.far = -1;
    }
}

static inline void close_line(void)
{
    hang_up();
    weir_tls_server_deinit(&line.server);
    weir_tls_client_destroy(line.client);
    SSL_CTX_free(line.far_context);
    weir_timer_deinit(&line.loop, &line.tick);
    weir_loop_deinit(&line.loop);
}

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
#define for_each_version(index) for (size_t index = 0; index < COUNT_OF(versions); index++)

static inline void far_says(const char *text)
{
    assert_int_equal(SSL_write(line.far_ssl, text, (int)strlen(text)), strlen(text));
}

/* What a read says once it is not AGAIN any more. */
static inline ssize_t read_some(char *bytes, size_t count)
{
    ssize_t got;
    while ((got = weir_stream_read(&line.stream, bytes, count)) == WEIR_STREAM_AGAIN) {
        turn();
    }
    return got;
}

static inline void expect_heard(const char *text)
{
    char bytes[64];
    size_t heard = 0;
    while (heard < strlen(text)) {
        ssize_t got = read_some(bytes + heard, sizeof bytes - heard);
        assert_true(got > 0);
        heard += (size_t)got;
    }
    assert_int_equal(heard, strlen(text));
    assert_memory_equal(bytes, text, heard);
}

static inline void say(const char *text)
{
    struct iovec part = {(void *)(uintptr_t)text, strlen(text)};
    ssize_t sent;
    while ((sent = weir_stream_write(&line.stream, &part, 1)) == WEIR_STREAM_AGAIN) {
        turn();
    }
    assert_int_equal(sent, strlen(text));
}

static inline void expect_far_hears(const char *text)
{
    char bytes[64];
    int got;
    while ((got = SSL_read(line.far_ssl, bytes, sizeof bytes)) <= 0) {
        assert_int_equal(SSL_get_error(line.far_ssl, got), SSL_ERROR_WANT_READ);
        turn();
    }
    assert_int_equal(got, strlen(text));
    assert_memory_equal(bytes, text, strlen(text));
}

#endif
