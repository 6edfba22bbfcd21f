/* TLS streams over real sockets, against OpenSSL's own server. The server's bytes go through
 * memory, so that a test decides when they travel, and in pieces of which size. Certificates are
 * made here, so none of them ever gets old. */
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
    const char *wrong;
};

static struct line line;

static void hear(struct weir_watch *watch, uint32_t what)
{
    weir_stream_note(weir_container_of(watch, struct weir_stream, watch), what);
}

static void on_tick(struct weir_timer *timer)
{
    (void)timer;
    weir_loop_stop(&line.loop);
}

/* One round: the loop tells what is ready, and the server's bytes travel. */
static void turn(void)
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

static int see_name(SSL *ssl, int *alert, void *context)
{
    (void)alert;
    (void)context;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    snprintf(line.seen_name, sizeof line.seen_name, "%s", name == NULL ? "" : name);
    return SSL_TLSEXT_ERR_OK;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_bytes,
                           const unsigned char *in, unsigned in_bytes, void *context)
{
    (void)ssl;
    (void)context;
    snprintf(line.seen_protocols, sizeof line.seen_protocols, "%.*s", (int)in_bytes - 1, in + 1);
    *out = in + 1;
    *out_bytes = in[0];
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *make_server(const struct identity *identity, int version)
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

static struct weir_tls_client *make_client(const char *ca, bool verify)
{
    const char *wrong;
    struct weir_tls_client *client = weir_tls_client_create(
        &(struct weir_tls_trust){.ca = weir_slice_of(ca == NULL ? "" : path_of(ca)),
                                 .verify = verify},
        &wrong);
    assert_non_null(client);
    return client;
}

/* A server, and a client that calls it by this name; not connected yet. */
static void open_line(const struct identity *identity, int version, const char *ca,
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

static void call(void)
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
static enum weir_tls_step shake(void)
{
    enum weir_tls_step step = WEIR_TLS_AGAIN;
    while (step == WEIR_TLS_AGAIN) {
        ERR_clear_error();
        SSL_do_handshake(line.far_ssl);
        step = weir_tls_shake_hands(&line.stream, &line.wrong);
        turn();
    }
    while (step == WEIR_TLS_DONE && SSL_is_init_finished(line.far_ssl) == 0) {
        assert_int_not_equal(SSL_get_error(line.far_ssl, SSL_do_handshake(line.far_ssl)),
                             SSL_ERROR_SSL);
        turn();
    }
    return step;
}

static void connect_line(void)
{
    call();
    enum weir_tls_step step = shake();
    if (step != WEIR_TLS_DONE) {
        fail_msg("%s", line.wrong);
    }
}

static void hang_up(void)
{
    weir_stream_close(&line.stream);
    SSL_free(line.far_ssl);
    line.far_ssl = NULL;
    if (line.far >= 0) {
        close(line.far);
        line.far = -1;
    }
}

static void close_line(void)
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

static void far_says(const char *text)
{
    assert_int_equal(SSL_write(line.far_ssl, text, (int)strlen(text)), strlen(text));
}

/* What a read says once it is not AGAIN any more. */
static ssize_t read_some(char *bytes, size_t count)
{
    ssize_t got;
    while ((got = weir_stream_read(&line.stream, bytes, count)) == WEIR_STREAM_AGAIN) {
        turn();
    }
    return got;
}

static void expect_heard(const char *text)
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

static void say(const char *text)
{
    struct iovec part = {(void *)(uintptr_t)text, strlen(text)};
    ssize_t sent;
    while ((sent = weir_stream_write(&line.stream, &part, 1)) == WEIR_STREAM_AGAIN) {
        turn();
    }
    assert_int_equal(sent, strlen(text));
}

static void expect_far_hears(const char *text)
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

/* ---- bytes ---- */

TEST(bytes_go_both_ways)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        say("hello");
        expect_far_hears("hello");
        far_says("world");
        expect_heard("world");
        close_line();
    }
}

TEST(a_connection_that_delivers_single_bytes_is_as_good_as_any)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        line.piece = 1;
        line.turns = 0;
        connect_line();
        far_says("world");
        expect_heard("world");
        say("hello");
        expect_far_hears("hello");
        close_line();
    }
}

/* The loop tells once, and OpenSSL holds what has come: it must be read without being told again.
 */
TEST(what_has_come_is_read_to_its_end_without_another_event)
{
    for_each_version(v)
    {
        static char sent[40000], bytes[40000];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        for (size_t i = 0; i < sizeof sent; i++) {
            sent[i] = (char)('a' + i % 23);
        }
        assert_int_equal(SSL_write(line.far_ssl, sent, sizeof sent), sizeof sent);
        while (BIO_ctrl_pending(line.far_out) > 0 || !line.stream.readable) {
            turn();
        }
        turn();
        size_t got = 0;
        while (got < sizeof sent) {
            ssize_t some = weir_stream_read(&line.stream, bytes + got, 777);
            assert_true(some > 0);
            got += (size_t)some;
        }
        assert_int_equal(got, sizeof sent);
        assert_memory_equal(bytes, sent, sizeof sent);
        assert_int_equal(weir_stream_read(&line.stream, bytes, 777), WEIR_STREAM_AGAIN);
        assert_false(line.stream.readable);
        far_says("more");
        expect_heard("more");
        close_line();
    }
}

TEST(a_short_read_that_leaves_nothing_saves_the_next_call)
{
    char bytes[64];
    open_line(&leaf, TLS1_2_VERSION, "root", "a.test");
    connect_line();
    while (line.stream.readable) {
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_AGAIN);
    }
    far_says("hello");
    while (!line.stream.readable) {
        turn();
    }
    assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), 5);
    assert_false(line.stream.readable);
    close_line();
}

/* An event between two reads of one record belongs to bytes that came later. */
TEST(an_event_while_a_record_is_being_read_is_not_forgotten)
{
    char bytes[64];
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    far_says("first");
    assert_int_equal(read_some(bytes, 2), 2);
    far_says("second");
    while (BIO_ctrl_pending(line.far_out) > 0) {
        turn();
    }
    turn();
    assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), 3);
    assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), 6);
    assert_memory_equal(bytes, "second", 6);
    close_line();
}

static char letter_at(size_t position)
{
    return (char)('a' + position * 7 % 26);
}

/* Writes a piece of the sequence from memory that is never the same twice, in one part or more. */
static ssize_t write_from(size_t position, size_t count)
{
    static size_t place;
    char *memory = malloc(count + 64), *bytes = memory + place++ % 64;
    for (size_t i = 0; i < count; i++) {
        bytes[i] = letter_at(position + i);
    }
    struct iovec whole = {bytes, count};
    struct iovec parts[] = {{bytes, count / 3}, {"", 0}, {bytes + count / 3, count - count / 3}};
    ssize_t sent = place % 3 == 0 ? weir_stream_write(&line.stream, parts, 3)
                                  : weir_stream_write(&line.stream, &whole, 1);
    memset(bytes, 'x', count);
    free(memory);
    return sent;
}

TEST(a_server_that_does_not_read_stops_the_writing_until_it_does)
{
    for_each_version(v)
    {
        static char bytes[70000];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        size_t sent = 0, heard = 0, asked = 1000;
        line.far_is_deaf = true;
        for (int round = 0; round < 5; round++) {
            ssize_t some;
            while ((some = write_from(sent, asked)) > 0) {
                sent += (size_t)some;
                asked = 1000 + sent % 40000;
            }
            assert_int_equal(some, WEIR_STREAM_AGAIN);
            assert_false(line.stream.writable);
            asked += 5000; /* meanwhile there is more to send */
            line.far_is_deaf = false;
            while (heard < sent || !line.stream.writable) {
                int got = SSL_read(line.far_ssl, bytes, sizeof bytes);
                for (int i = 0; i < got; i++) {
                    assert_int_equal(bytes[i], letter_at(heard++));
                }
                turn();
            }
            line.far_is_deaf = true;
        }
        assert_true(sent > 100000);
        close_line();
    }
}

TEST(large_bodies_go_both_ways_at_once)
{
    for_each_version(v)
    {
        enum {
            TOTAL = 3000000
        };
        static char bytes[70000], from_far[30000];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        size_t sent = 0, heard = 0, far_sent = 0, far_heard = 0;
        while (heard < TOTAL || far_heard < TOTAL) {
            ssize_t some = sent < TOTAL ? write_from(sent, TOTAL - sent) : 0;
            assert_true(some >= 0 || some == WEIR_STREAM_AGAIN);
            sent += some > 0 ? (size_t)some : 0;
            while ((some = weir_stream_read(&line.stream, bytes, sizeof bytes)) > 0) {
                for (ssize_t i = 0; i < some; i++) {
                    assert_int_equal(bytes[i], letter_at(heard++));
                }
            }
            assert_int_equal(some, WEIR_STREAM_AGAIN);
            if (far_sent < TOTAL && BIO_ctrl_pending(line.far_out) < 500000) {
                for (size_t i = 0; i < sizeof from_far; i++) {
                    from_far[i] = letter_at(far_sent + i);
                }
                assert_int_equal(SSL_write(line.far_ssl, from_far, sizeof from_far),
                                 sizeof from_far);
                far_sent += sizeof from_far;
            }
            int got;
            while ((got = SSL_read(line.far_ssl, bytes, sizeof bytes)) > 0) {
                for (int i = 0; i < got; i++) {
                    assert_int_equal(bytes[i], letter_at(far_heard++));
                }
            }
            turn();
        }
        assert_int_equal(far_heard, TOTAL);
        assert_int_equal(heard, TOTAL);
        close_line();
    }
}

/* Reading then has to write, and the other way round. */
TEST(keys_may_change_at_any_time)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    for (int round = 0; round < 20; round++) {
        assert_int_equal(SSL_key_update(line.far_ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        far_says("after");
        expect_heard("after");
        say("before");
        expect_far_hears("before");
    }
    close_line();
}

/* ---- ends ---- */

TEST(a_goodbye_is_the_end)
{
    for_each_version(v)
    {
        char bytes[8];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        far_says("bye");
        SSL_shutdown(line.far_ssl);
        expect_heard("bye");
        assert_int_equal(read_some(bytes, sizeof bytes), WEIR_STREAM_END);
        line.stream.readable = true;
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_END);
        close_line();
    }
}

TEST(an_end_without_a_goodbye_is_told_from_one_with_it)
{
    for_each_version(v)
    {
        char bytes[8];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        far_says("by");
        while (BIO_ctrl_pending(line.far_out) > 0) {
            turn();
        }
        close(line.far);
        line.far = -1;
        while (!line.stream.hung) {
            turn();
        }
        expect_heard("by"); /* what was said before is not lost */
        assert_int_equal(read_some(bytes, sizeof bytes), WEIR_STREAM_BROKEN);
        assert_int_equal(read_some(bytes, sizeof bytes), WEIR_STREAM_BROKEN);
        close_line();
    }
}

TEST(writing_to_a_server_that_has_gone_is_broken_and_raises_no_signal)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        close(line.far);
        line.far = -1;
        while (!line.stream.hung) {
            turn();
        }
        assert_int_equal(write_from(0, 100), WEIR_STREAM_BROKEN);
        assert_int_equal(write_from(0, 100), WEIR_STREAM_BROKEN);
        close_line();
    }
}

TEST(what_a_server_said_before_it_closed_is_read_after_a_write_has_failed)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    far_says("too large");
    while (BIO_ctrl_pending(line.far_out) > 0) {
        turn();
    }
    close(line.far);
    line.far = -1;
    while (!line.stream.hung) {
        turn();
    }
    assert_int_equal(write_from(0, 100), WEIR_STREAM_BROKEN);
    expect_heard("too large");
    close_line();
}

TEST(a_broken_record_is_broken)
{
    for_each_version(v)
    {
        char bytes[8];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        assert_int_equal(send(line.far, "\x17\x03\x03\x00\x20nonsensenonsensenonsensenonsense", 37,
                              MSG_NOSIGNAL),
                         37);
        assert_int_equal(read_some(bytes, sizeof bytes), WEIR_STREAM_BROKEN);
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_BROKEN);
        close_line();
    }
}

TEST(who_has_finished_can_still_read)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    weir_stream_finish(&line.stream);
    assert_int_equal(write_from(0, 10), WEIR_STREAM_AGAIN);
    char bytes[8];
    int got;
    while ((got = SSL_read(line.far_ssl, bytes, sizeof bytes)) <= 0 &&
           SSL_get_error(line.far_ssl, got) == SSL_ERROR_WANT_READ) {
        turn();
    }
    assert_int_equal(SSL_get_error(line.far_ssl, got), SSL_ERROR_ZERO_RETURN);
    far_says("answer");
    expect_heard("answer");
    close_line();
}

TEST(closing_says_goodbye)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        weir_stream_close(&line.stream);
        weir_stream_close(&line.stream);
        turn();
        char bytes[8];
        int got = SSL_read(line.far_ssl, bytes, sizeof bytes);
        assert_int_equal(SSL_get_error(line.far_ssl, got), SSL_ERROR_ZERO_RETURN);
        close_line();
    }
}

/* ---- sessions ---- */

/* Waits until what the server sends after a handshake has been read. */
static void read_tickets(void)
{
    far_says("x");
    expect_heard("x");
}

TEST(the_second_handshake_is_a_short_one)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        for (int round = 0; round < 6; round++) {
            connect_line();
            assert_int_equal(weir_tls_reused(&line.stream), round > 0);
            assert_int_equal(SSL_session_reused(line.far_ssl), round > 0);
            read_tickets();
            assert_in_range(line.server.session_count, 1, WEIR_TLS_SESSIONS_MAX);
            hang_up();
        }
        close_line();
    }
}

TEST(a_server_that_closes_without_a_goodbye_does_not_spoil_its_session)
{
    for_each_version(v)
    {
        char bytes[8];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        read_tickets();
        close(line.far);
        line.far = -1;
        assert_int_equal(read_some(bytes, sizeof bytes), WEIR_STREAM_BROKEN);
        hang_up();
        connect_line();
        assert_true(weir_tls_reused(&line.stream));
        close_line();
    }
}

TEST(no_more_sessions_are_kept_than_stated)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        SSL_CTX_set_num_tickets(line.far_context, 10);
        for (int round = 0; round < 10; round++) {
            connect_line();
            read_tickets();
            hang_up();
            assert_true(line.server.session_count <= WEIR_TLS_SESSIONS_MAX);
        }
        close_line();
    }
}

TEST(a_session_of_tls_1_3_is_used_once)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    read_tickets();
    uint32_t count = line.server.session_count;
    assert_int_equal(count, 2);
    hang_up();
    call();
    assert_int_equal(line.server.session_count, count - 1);
    assert_int_equal(shake(), WEIR_TLS_DONE);
    assert_true(weir_tls_reused(&line.stream));
    close_line();
}

TEST(what_a_server_sends_between_requests_need_not_be_bytes)
{
    char bytes[8];
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    read_tickets();
    SSL_new_session_ticket(line.far_ssl);
    assert_int_equal(SSL_do_handshake(line.far_ssl), 1);
    while (BIO_ctrl_pending(line.far_out) > 0 || !line.stream.readable) {
        turn();
    }
    assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_AGAIN);
    say("still");
    expect_far_hears("still");
    close_line();
}

/* ---- who is called ---- */

TEST(a_server_is_told_the_name_that_it_is_called_by_and_the_protocol)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "www.b.test.");
        connect_line();
        assert_string_equal(line.seen_name, "www.b.test");
        assert_string_equal(line.seen_protocols, "http/1.1");
        close_line();
    }
}

TEST(an_address_is_checked_but_not_told)
{
    static const char *const numbers[] = {"127.0.0.1", "::1"};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        open_line(&leaf, TLS1_3_VERSION, "root", numbers[i]);
        connect_line();
        assert_string_equal(line.seen_name, "");
        close_line();
    }
}

TEST(a_name_that_is_too_long_is_refused)
{
    char name[300];
    struct weir_tls_server server;
    struct weir_tls_client *client = make_client("root", true);
    memset(name, 'a', sizeof name);
    assert_true(weir_tls_server_init(&server, client, (struct weir_slice){name, 255}));
    assert_false(weir_tls_server_init(&server, client, (struct weir_slice){name, 256}));
    assert_false(weir_tls_server_init(&server, client, (struct weir_slice){name, 0}));
    weir_tls_server_deinit(&server);
    weir_tls_client_destroy(client);
}

/* ---- what fails ---- */

static void expect_failure(const struct identity *identity, const char *ca, const char *name,
                           const char *text)
{
    for_each_version(v)
    {
        open_line(identity, versions[v], ca, name);
        call();
        assert_int_equal(shake(), WEIR_TLS_FAILED);
        if (strstr(line.wrong, text) == NULL) {
            fail_msg("expected \"%s\", but it said: %s", text, line.wrong);
        }
        const char *again = "";
        assert_int_equal(weir_tls_shake_hands(&line.stream, &again), WEIR_TLS_FAILED);
        close_line();
    }
}

TEST(a_certificate_for_somebody_else_is_refused)
{
    expect_failure(&leaf, "root", "c.test", "another name");
    expect_failure(&leaf, "root", "b.test", "another name");
    expect_failure(&leaf, "root", "a.b.b.test", "another name");
    expect_failure(&leaf, "root", "127.0.0.2", "another name");
    expect_failure(&leaf, "root", "::2", "another name");
}

TEST(a_certificate_is_good_for_its_time_only)
{
    struct identity old = make_identity((struct wish){"old", "DNS:a.test", -7200, -3600, &root});
    struct identity young = make_identity((struct wish){"young", "DNS:a.test", 3600, 7200, &root});
    expect_failure(&old, "root", "a.test", "has expired");
    expect_failure(&young, "root", "a.test", "not valid yet");
    free_identity(&old);
    free_identity(&young);
}

TEST(an_unknown_issuer_is_told_with_the_setting_that_makes_it_known)
{
    struct identity own = make_identity((struct wish){"own", "DNS:a.test", -3600, 3600, NULL});
    expect_failure(&leaf, "other", "a.test", "as ca in");
    expect_failure(&leaf, NULL, "a.test", "as ca in");
    expect_failure(&own, "root", "a.test", "signed by itself");
    free_identity(&own);
}

TEST(a_certificate_that_is_named_itself_is_trusted)
{
    struct identity own = make_identity((struct wish){"own", "DNS:a.test", -3600, 3600, NULL});
    write_pem("leaf", &own);
    open_line(&own, TLS1_3_VERSION, "leaf", "a.test");
    connect_line();
    close_line();
    free_identity(&own);
}

TEST(an_issuer_that_others_vouch_for_may_be_named)
{
    struct identity below =
        make_identity((struct wish){"below", "DNS:a.test", -3600, 3600, &middle});
    expect_failure(&below, "root", "a.test", "have the upstream send the certificates in between");
    open_line(&below, TLS1_3_VERSION, "middle", "a.test");
    connect_line();
    close_line();
    free_identity(&below);
}

TEST(without_verification_any_certificate_is_good)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "c.test");
    weir_tls_client_destroy(line.client);
    line.client = make_client(NULL, false);
    line.server.client = line.client;
    connect_line();
    assert_string_equal(line.seen_name, "c.test");
    close_line();
}

TEST(versions_before_1_2_are_refused)
{
    open_line(&leaf, TLS1_1_VERSION, "root", "a.test");
    call();
    assert_int_equal(shake(), WEIR_TLS_FAILED);
    assert_non_null(strstr(line.wrong, "versions of TLS before 1.2"));
    close_line();
}

/* A server that is not one of TLS: what it says to a hello, or null if it just closes. */
static void expect_stranger(const char *says, const char *text)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    call();
    if (says != NULL) {
        assert_int_equal(send(line.far, says, strlen(says), MSG_NOSIGNAL), strlen(says));
    }
    enum weir_tls_step step;
    while ((step = weir_tls_shake_hands(&line.stream, &line.wrong)) == WEIR_TLS_AGAIN) {
        turn();
        if (says == NULL && line.far >= 0) {
            close(line.far);
            line.far = -1;
        }
    }
    assert_int_equal(step, WEIR_TLS_FAILED);
    if (strstr(line.wrong, text) == NULL) {
        fail_msg("expected \"%s\", but it said: %s", text, line.wrong);
    }
    close_line();
}

TEST(a_server_without_tls_is_told_as_such)
{
    expect_stranger("HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS");
    expect_stranger("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "does not speak TLS");
    expect_stranger(NULL, "closed the connection during the TLS handshake");
}

/* ---- files ---- */

static void expect_bad_file(const char *path, const char *text)
{
    const char *wrong = NULL;
    assert_null(weir_tls_client_create(
        &(struct weir_tls_trust){.ca = weir_slice_of(path), .verify = true}, &wrong));
    if (strstr(wrong, text) == NULL || strstr(wrong, "in PEM format") == NULL) {
        fail_msg("expected \"%s\", but it said: %s", text, wrong);
    }
}

TEST(a_file_that_is_no_authority_is_refused)
{
    char bad[256];
    snprintf(bad, sizeof bad, "%s", path_of("bad"));
    expect_bad_file(bad, "No such file");
    expect_bad_file(folder, "");
    static const char broken[] = "-----BEGIN CERTIFICATE-----\nAAAA\n"
                                 "-----END CERTIFICATE-----\n";
    static const char *const contents[] = {"", "nonsense\n", broken};
    for (size_t i = 0; i < COUNT_OF(contents); i++) {
        FILE *file = fopen(bad, "w");
        assert_non_null(file);
        fputs(contents[i], file);
        fclose(file);
        expect_bad_file(bad, "no certificate that can be used");
    }
    char long_path[5000];
    const char *wrong = NULL;
    memset(long_path, 'a', sizeof long_path);
    assert_null(weir_tls_client_create(
        &(struct weir_tls_trust){.ca = {long_path, sizeof long_path}, .verify = true}, &wrong));
    assert_non_null(strstr(wrong, "too long"));
}

int main(void)
{
    signal(SIGPIPE, SIG_DFL); /* a write that raises it ends the program, which is the test */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_both_ways),
        cmocka_unit_test(a_connection_that_delivers_single_bytes_is_as_good_as_any),
        cmocka_unit_test(what_has_come_is_read_to_its_end_without_another_event),
        cmocka_unit_test(a_short_read_that_leaves_nothing_saves_the_next_call),
        cmocka_unit_test(an_event_while_a_record_is_being_read_is_not_forgotten),
        cmocka_unit_test(a_server_that_does_not_read_stops_the_writing_until_it_does),
        cmocka_unit_test(large_bodies_go_both_ways_at_once),
        cmocka_unit_test(keys_may_change_at_any_time),
        cmocka_unit_test(a_goodbye_is_the_end),
        cmocka_unit_test(an_end_without_a_goodbye_is_told_from_one_with_it),
        cmocka_unit_test(writing_to_a_server_that_has_gone_is_broken_and_raises_no_signal),
        cmocka_unit_test(what_a_server_said_before_it_closed_is_read_after_a_write_has_failed),
        cmocka_unit_test(a_broken_record_is_broken),
        cmocka_unit_test(who_has_finished_can_still_read),
        cmocka_unit_test(closing_says_goodbye),
        cmocka_unit_test(the_second_handshake_is_a_short_one),
        cmocka_unit_test(a_server_that_closes_without_a_goodbye_does_not_spoil_its_session),
        cmocka_unit_test(no_more_sessions_are_kept_than_stated),
        cmocka_unit_test(a_session_of_tls_1_3_is_used_once),
        cmocka_unit_test(what_a_server_sends_between_requests_need_not_be_bytes),
        cmocka_unit_test(a_server_is_told_the_name_that_it_is_called_by_and_the_protocol),
        cmocka_unit_test(an_address_is_checked_but_not_told),
        cmocka_unit_test(a_name_that_is_too_long_is_refused),
        cmocka_unit_test(a_certificate_for_somebody_else_is_refused),
        cmocka_unit_test(a_certificate_is_good_for_its_time_only),
        cmocka_unit_test(an_unknown_issuer_is_told_with_the_setting_that_makes_it_known),
        cmocka_unit_test(a_certificate_that_is_named_itself_is_trusted),
        cmocka_unit_test(an_issuer_that_others_vouch_for_may_be_named),
        cmocka_unit_test(without_verification_any_certificate_is_good),
        cmocka_unit_test(versions_before_1_2_are_refused),
        cmocka_unit_test(a_server_without_tls_is_told_as_such),
        cmocka_unit_test(a_file_that_is_no_authority_is_refused),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
