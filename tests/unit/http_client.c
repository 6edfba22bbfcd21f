/* Requests that the process makes itself: against a server in a thread of its own, which reads one
 * request after the other and answers each as a script says, in pieces of any size. */
#define _GNU_SOURCE
#include "upstream/http_client.h"

#include "base/list.h"
#include "unit/helpers.h"
#include "upstream/upstream_connection.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PATIENCE (20 * SECOND)

/* ---- the server ---- */

enum then {
    KEEP,    /* reads the next request on this connection */
    CLOSE,   /* closes it */
    RESET,   /* the same without a FIN */
    SAY_MORE /* keeps it open and silent until the client has gone */
};

struct answer {
    const char *text; /* null: none */
    enum then then;
    bool at_once; /* before the request has been read */
};

static struct server {
    int listener;
    pthread_t thread;
    const struct answer *answers; /* in order, whatever the connection; the last one repeats */
    uint32_t answer_count;
    size_t piece;            /* bytes sent at once; 0: all */
    atomic_uint connections; /* accepted */
    atomic_uint gone;        /* of these, seen to be closed by the client */
    char requests[65536];    /* all that came, on all connections */
    atomic_uint request_bytes;
    struct sockaddr_un local;
    uint16_t port;
} server;

/* Whether all of the first request is there, from `from` on; and where it ends. */
static bool is_complete(size_t from, size_t *end)
{
    const char *begin = server.requests + from;
    const char *blank = strstr(begin, "\r\n\r\n");
    if (blank == NULL) {
        return false;
    }
    const char *length = strcasestr(begin, "\r\ncontent-length: ");
    const char *body = blank + 4;
    if (strcasestr(begin, "\r\ntransfer-encoding: chunked") != NULL) {
        const char *last = strstr(body, "0\r\n\r\n");
        *end = last == NULL ? 0 : (size_t)(last - server.requests) + 5;
        return last != NULL;
    }
    size_t bytes = length == NULL || length > blank ? 0 : strtoul(length + 18, NULL, 10);
    *end = (size_t)(body - server.requests) + bytes;
    return *end <= server.request_bytes;
}

static bool read_some(int fd)
{
    size_t have = server.request_bytes;
    ssize_t got = read(fd, server.requests + have, sizeof server.requests - 1 - have);
    server.request_bytes += got > 0 ? (unsigned)got : 0;
    return got > 0;
}

static void say(int fd, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t bytes = server.piece == 0 || server.piece > left ? left : server.piece;
        if (send(fd, text, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
            return;
        }
        text += bytes;
        left -= bytes;
    }
}

static void serve_connection(int fd, uint32_t *number, size_t *from)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (;;) {
        uint32_t at = *number < server.answer_count ? *number : server.answer_count - 1;
        const struct answer *answer = &server.answers[at];
        size_t end = 0;
        while (!answer->at_once && !is_complete(*from, &end)) {
            if (!read_some(fd)) {
                atomic_fetch_add(&server.gone, 1);
                close(fd);
                return;
            }
        }
        *from = end;
        ++*number;
        if (answer->text != NULL) {
            say(fd, answer->text);
        }
        if (answer->then == KEEP) {
            continue;
        }
        if (answer->then == SAY_MORE) {
            while (read_some(fd)) {
            }
            atomic_fetch_add(&server.gone, 1);
        } else if (answer->then == RESET) {
            struct linger hard = {1, 0};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        }
        close(fd);
        return;
    }
}

static void *serve(void *context)
{
    (void)context;
    uint32_t number = 0;
    size_t from = 0;
    int fd;
    while ((fd = accept(server.listener, NULL, NULL)) >= 0) {
        atomic_fetch_add(&server.connections, 1);
        serve_connection(fd, &number, &from);
    }
    return NULL;
}

static void open_server(const struct answer *answers, uint32_t count, bool local)
{
    memset(&server, 0, sizeof server);
    server.answers = answers;
    server.answer_count = count;
    server.listener = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (local) {
        server.local.sun_family = AF_UNIX;
        snprintf(server.local.sun_path, sizeof server.local.sun_path, "/tmp/weir-http-%d",
                 (int)getpid());
        unlink(server.local.sun_path);
        assert_int_equal(
            bind(server.listener, (struct sockaddr *)&server.local, sizeof server.local), 0);
    } else {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t bytes = sizeof address;
        assert_int_equal(bind(server.listener, (struct sockaddr *)&address, bytes), 0);
        assert_int_equal(getsockname(server.listener, (struct sockaddr *)&address, &bytes), 0);
        server.port = ntohs(address.sin_port);
    }
    assert_int_equal(listen(server.listener, 100), 0);
    assert_int_equal(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

static void close_server(void)
{
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.listener);
    if (server.local.sun_family == AF_UNIX) {
        unlink(server.local.sun_path);
    }
}

/* ---- the client ---- */

enum step {
    NEVER_STEP,
    AT_HEAD,
    AT_DATA,
    AT_PRODUCE
};

static struct scene {
    struct memory memory;
    struct weir_worker worker;
    struct weir_http_client *client;
    struct weir_http_call call;
    struct weir_timer patience;
    struct weir_post post;
    bool impatient;
    enum step cancel_at;
    enum step pause_at;

    /* What the call told. */
    uint16_t status;
    char server_header[64];
    char body[8192];
    size_t body_bytes;
    uint32_t heads;
    uint32_t ends;
    uint32_t failures;
    enum weir_http_failure why;
    char detail[200];

    /* What it asks of the body. */
    const char *const *parts; /* up to null; an empty one means that there is none yet */
    bool awaits_more;         /* since an empty part */
    bool last_alone;          /* the end is told with no bytes */
} scene;

static void stop(void)
{
    weir_loop_stop(&scene.worker.loop);
}

static bool cancels(enum step step)
{
    if (scene.cancel_at == step) {
        weir_http_call_cancel(&scene.call);
        stop();
        return true;
    }
    if (scene.pause_at == step) {
        weir_http_call_pause(&scene.call);
        stop();
    }
    return false;
}

static void on_head(struct weir_http_call *call, const struct weir_http1_head *head,
                    const char *data)
{
    assert_ptr_equal(call, &scene.call);
    scene.heads++;
    scene.status = head->status;
    bool repeated;
    const struct weir_http1_field *field =
        weir_http1_find_name(head, data, weir_slice_of("server"), &repeated);
    if (field != NULL) {
        struct weir_slice value = weir_http1_value(data, field);
        assert_true(value.bytes < sizeof scene.server_header);
        memcpy(scene.server_header, value.data, value.bytes);
    }
    cancels(AT_HEAD);
}

static void on_data(struct weir_http_call *call, struct weir_slice bytes)
{
    assert_ptr_equal(call, &scene.call);
    assert_true(bytes.bytes > 0);
    assert_true(scene.body_bytes + bytes.bytes < sizeof scene.body);
    memcpy(scene.body + scene.body_bytes, bytes.data, bytes.bytes);
    scene.body_bytes += bytes.bytes;
    cancels(AT_DATA);
}

static void on_end(struct weir_http_call *call)
{
    assert_ptr_equal(call, &scene.call);
    scene.ends++;
    stop();
}

static void on_failed(struct weir_http_call *call, enum weir_http_failure why, const char *detail)
{
    assert_ptr_equal(call, &scene.call);
    scene.failures++;
    scene.why = why;
    snprintf(scene.detail, sizeof scene.detail, "%s", detail);
    stop();
}

static size_t on_produce(struct weir_http_call *call, char *to, size_t room, bool *last)
{
    assert_ptr_equal(call, &scene.call);
    if (cancels(AT_PRODUCE)) {
        return 0;
    }
    const char *part = *scene.parts;
    if (scene.awaits_more) {
        return 0;
    }
    if (part == NULL) {
        *last = true;
        return 0;
    }
    size_t bytes = strlen(part);
    assert_true(bytes <= room);
    memcpy(to, part, bytes);
    scene.parts++;
    *last = *scene.parts == NULL && !scene.last_alone && bytes > 0;
    if (bytes == 0) {
        scene.awaits_more = true;
        stop();
    }
    return bytes;
}

static const struct weir_http_call_events whole = {
    .head = on_head, .data = on_data, .end = on_end, .failed = on_failed};
static const struct weir_http_call_events producing = {
    .head = on_head, .data = on_data, .end = on_end, .failed = on_failed, .produce = on_produce};

static bool make_room(struct weir_worker *worker)
{
    (void)worker;
    return true;
}

static void lose_patience(struct weir_timer *timer)
{
    (void)timer;
    scene.impatient = true;
    stop();
}

static struct weir_http_client *make_client(void)
{
    struct weir_http_client_options options = {.url.address = {.kind = WEIR_CONFIG_ADDRESS_TCP,
                                                               .host = weir_slice_of("127.0.0.1"),
                                                               .port = server.port},
                                               .connect_timeout_ns = PATIENCE,
                                               .keepalive = 4};
    if (server.local.sun_family == AF_UNIX) {
        options.url.address = (struct weir_config_address){
            .kind = WEIR_CONFIG_ADDRESS_UNIX, .path = weir_slice_of(server.local.sun_path)};
    }
    const char *error;
    return weir_http_client_create(&scene.worker, &options, &error);
}

static void open_worker(void)
{
    struct weir_worker *worker = &scene.worker;
    const struct weir_allocator *allocator = &scene.memory.allocator;
    memset(&scene, 0, sizeof scene);
    memory_init(&scene.memory);
    worker->allocator = allocator;
    worker->make_room = make_room;
    assert_true(weir_loop_init(&worker->loop, allocator));
    weir_buffer_pool_init(&worker->buffers, 100, allocator);
    weir_slab_init(&worker->upstream_connections, sizeof(struct weir_upstream_connection), 100,
                   allocator);
    weir_slab_init(&worker->heads, sizeof(struct weir_http1_head), 100, allocator);
    assert_true(weir_timer_init(&worker->loop, &scene.patience, lose_patience));
}

static void open_scene_at(const struct answer *answers, uint32_t count, bool local)
{
    open_server(answers, count, local);
    open_worker();
    scene.client = make_client();
    assert_non_null(scene.client);
}

#define open_scene(answers) open_scene_at(answers, COUNT_OF(answers), false)

static void stop_at_post(struct weir_post *post)
{
    (void)post;
    stop();
}

/* Lets everything that was deferred so far happen. */
static void one_turn(void)
{
    scene.post.arrive = stop_at_post;
    weir_loop_defer(&scene.worker.loop, &scene.post);
    weir_loop_run(&scene.worker.loop);
}

static void close_worker(void)
{
    struct weir_worker *worker = &scene.worker;
    one_turn();
    weir_timer_deinit(&worker->loop, &scene.patience);
    weir_slab_deinit(&worker->upstream_connections);
    weir_slab_deinit(&worker->heads);
    weir_buffer_pool_deinit(&worker->buffers);
    weir_loop_deinit(&worker->loop);
    assert_int_equal(scene.memory.blocks, 0);
}

static void close_scene(void)
{
    weir_http_client_destroy(scene.client);
    close_worker();
    close_server();
}

/* Runs the loop until the call stops it. */
static void run(void)
{
    struct weir_loop *loop = &scene.worker.loop;
    weir_timer_set(loop, &scene.patience, loop->now_ns + PATIENCE);
    weir_loop_run(loop);
    weir_timer_set(loop, &scene.patience, WEIR_NEVER);
    assert_false(scene.impatient);
}

static struct weir_http_request get(void)
{
    return (struct weir_http_request){.method = WEIR_METHOD_GET,
                                      .target = weir_slice_of("/path?x=1"),
                                      .deadline_ns = WEIR_NEVER,
                                      .reply_bytes_max = 1000};
}

static void forget(void)
{
    scene.status = 0;
    scene.body_bytes = 0;
    scene.heads = scene.ends = scene.failures = 0;
}

static void send_request(struct weir_http_request request)
{
    const struct weir_http_call_events *events = scene.parts != NULL ? &producing : &whole;
    forget();
    assert_true(weir_http_call_begin(scene.client, &scene.call, &request, events));
    run();
}

static void expect_reply(uint16_t status, const char *body)
{
    if (scene.failures > 0) {
        print_error("%s\n", scene.detail);
    }
    assert_int_equal(scene.failures, 0);
    assert_int_equal(scene.ends, 1);
    assert_int_equal(scene.heads, 1);
    assert_int_equal(scene.status, status);
    assert_int_equal(scene.body_bytes, strlen(body));
    assert_memory_equal(scene.body, body, scene.body_bytes);
}

static void expect_failure(enum weir_http_failure why)
{
    assert_int_equal(scene.ends, 0);
    assert_int_equal(scene.failures, 1);
    assert_int_equal(scene.why, why);
    assert_true(strlen(scene.detail) > 10);
}

static void wait_for(atomic_uint *count, uint32_t wanted)
{
    for (int i = 0; i < 20000 && atomic_load(count) < wanted; i++) {
        poll(NULL, 0, 1);
    }
    assert_int_equal(atomic_load(count), wanted);
}

/* ---- replies ---- */

#define HELLO "HTTP/1.1 200 OK\r\nserver: far\r\ncontent-length: 5\r\n\r\nhello"

TEST(a_reply_by_length_comes_with_its_head_and_the_connection_is_used_again)
{
    static const struct answer answers[] = {{HELLO, KEEP, false}};
    open_scene(answers);
    for (int i = 0; i < 3; i++) {
        send_request(get());
        expect_reply(200, "hello");
        assert_string_equal(scene.server_header, "far");
    }
    assert_int_equal(server.connections, 1);
    close_scene();
    char expected[200];
    snprintf(expected, sizeof expected, "GET /path?x=1 HTTP/1.1\r\nhost: 127.0.0.1:%u\r\n\r\n",
             server.port);
    assert_int_equal(strncmp(server.requests, expected, strlen(expected)), 0);
}

TEST(a_reply_in_chunks_behind_interim_heads_comes_in_pieces_of_any_size)
{
    static const struct answer answers[] = {
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n"
         "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
         "5;x=1\r\nhello\r\n7\r\n, world\r\n0\r\nx-sum: 1\r\n\r\n",
         KEEP, false},
        {HELLO, KEEP, false}};
    for (size_t piece = 0; piece < 4; piece++) {
        open_server(answers, COUNT_OF(answers), false);
        server.piece = piece;
        open_worker();
        scene.client = make_client();
        send_request(get());
        expect_reply(200, "hello, world");
        send_request(get());
        expect_reply(200, "hello");
        assert_int_equal(server.connections, 1);
        close_scene();
    }
}

TEST(a_reply_without_a_length_ends_with_the_connection)
{
    static const struct answer answers[] = {
        {"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nall of it", CLOSE, false}};
    open_scene(answers);
    send_request(get());
    expect_reply(200, "all of it");
    send_request(get());
    expect_reply(200, "all of it");
    assert_int_equal(server.connections, 2);
    close_scene();
}

TEST(a_reply_without_a_body_ends_with_its_head)
{
    static const struct answer answers[] = {
        {"HTTP/1.1 204 No Content\r\n\r\n", KEEP, false},
        {"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", KEEP, false}};
    open_scene(answers);
    send_request(get());
    expect_reply(204, "");
    struct weir_http_request head = get();
    head.method = WEIR_METHOD_HEAD;
    head.reply_bytes_max = UINT64_C(1) << 40;
    send_request(head);
    expect_reply(200, "");
    assert_int_equal(server.connections, 1);
    close_scene();
}

TEST(a_server_at_a_unix_socket_answers_as_any)
{
    static const struct answer answers[] = {{HELLO, KEEP, false}};
    open_scene_at(answers, 1, true);
    send_request(get());
    expect_reply(200, "hello");
    send_request(get());
    expect_reply(200, "hello");
    assert_int_equal(server.connections, 1);
    close_scene();
    assert_non_null(strstr(server.requests, "\r\nhost: localhost\r\n"));
}

TEST(what_comes_beyond_a_reply_ends_its_connection)
{
    static const struct answer answers[] = {{HELLO "surplus", KEEP, false}, {HELLO, KEEP, false}};
    open_scene(answers);
    send_request(get());
    expect_reply(200, "hello");
    send_request(get());
    expect_reply(200, "hello");
    assert_int_equal(server.connections, 2);
    close_scene();
}

/* ---- failures ---- */

static void expect_failure_of(const char *text, enum then then, enum weir_http_failure why)
{
    struct answer answer = {text, then, false};
    open_scene_at(&answer, 1, false);
    send_request(get());
    expect_failure(why);
    close_scene();
}

TEST(a_reply_that_is_cut_off_is_never_taken_for_a_whole_one)
{
    static const char *const cut[] = {
        NULL,
        "HTTP/1.1 200 OK\r\nserver",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(cut); i++) {
        expect_failure_of(cut[i], CLOSE, WEIR_HTTP_FAILED_LOST);
        assert_int_equal(server.connections, 1); /* a new connection is not tried again */
    }
}

TEST(a_reply_without_a_length_whose_connection_is_reset_is_cut_off)
{
    expect_failure_of("HTTP/1.1 200 OK\r\n\r\nsome of it", RESET, WEIR_HTTP_FAILED_LOST);
}

TEST(what_is_no_reply_is_refused)
{
    static const char *const bad[] = {
        "no HTTP at all\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: tcp\r\nconnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        expect_failure_of(bad[i], SAY_MORE, WEIR_HTTP_FAILED_BAD_REPLY);
    }
}

TEST(interim_replies_without_end_are_refused)
{
    static char text[32 * 30] = "";
    for (int i = 0; i < 17; i++) {
        strncat(text, "HTTP/1.1 102 Processing\r\n\r\n", sizeof text - strlen(text) - 1);
    }
    expect_failure_of(text, SAY_MORE, WEIR_HTTP_FAILED_BAD_REPLY);
}

static void send_at_most(const char *text, enum then then, uint64_t bytes_max)
{
    struct answer answer = {text, then, false};
    struct weir_http_request request = get();
    request.reply_bytes_max = bytes_max;
    open_scene_at(&answer, 1, false);
    send_request(request);
    close_scene();
}

TEST(a_body_as_long_as_allowed_comes_and_one_byte_more_does_not)
{
    static const struct {
        const char *text;
        enum then then;
    } replies[] = {
        {HELLO, KEEP},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
         KEEP},
        {"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello", CLOSE},
    };
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        send_at_most(replies[i].text, replies[i].then, 6);
        expect_reply(200, "hello");
        send_at_most(replies[i].text, replies[i].then, 5);
        expect_reply(200, "hello");
        send_at_most(replies[i].text, replies[i].then, 4);
        expect_failure(WEIR_HTTP_FAILED_TOO_LONG);
        assert_int_equal(scene.heads, i == 0 ? 0 : 1); /* an announced length is refused at once */
    }
}

TEST(a_slow_server_is_given_up_at_the_deadline_wherever_the_reply_is)
{
    static const char *const slow[] = {NULL, "HTTP/1.1 200 OK\r\n",
                                       "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello"};
    for (size_t i = 0; i < COUNT_OF(slow); i++) {
        struct answer answer = {slow[i], SAY_MORE, false};
        open_scene_at(&answer, 1, false);
        struct weir_http_request request = get();
        request.deadline_ns = scene.worker.loop.now_ns + SECOND / 5;
        send_request(request);
        expect_failure(WEIR_HTTP_FAILED_LATE);
        assert_true(scene.worker.loop.now_ns >= request.deadline_ns);
        wait_for(&server.gone, 1);
        close_scene();
    }
}

TEST(a_port_without_a_listener_is_unreachable)
{
    static const struct answer answers[] = {{HELLO, KEEP, false}};
    open_scene(answers);
    close_server();
    send_request(get());
    expect_failure(WEIR_HTTP_FAILED_UNREACHABLE);
    weir_http_client_destroy(scene.client);
    close_worker();
}

TEST(a_socket_that_is_not_there_is_unreachable)
{
    memset(&server, 0, sizeof server);
    open_worker();
    struct weir_http_client_options options = {
        .url.address = {.kind = WEIR_CONFIG_ADDRESS_UNIX,
                        .path = weir_slice_of("/tmp/there-is-no-such-socket")},
        .connect_timeout_ns = SECOND / 10};
    const char *error;
    scene.client = weir_http_client_create(&scene.worker, &options, &error);
    assert_non_null(scene.client);
    send_request(get());
    expect_failure(WEIR_HTTP_FAILED_UNREACHABLE);
    weir_http_client_destroy(scene.client);
    close_worker();
}

/* ---- a connection that was closed while it was idle ---- */

TEST(an_idempotent_request_on_a_used_connection_is_made_once_more)
{
    static const struct answer answers[] = {
        {HELLO, KEEP, false}, {NULL, RESET, false}, {HELLO, KEEP, false}};
    open_scene(answers);
    send_request(get());
    expect_reply(200, "hello");
    send_request(get());
    expect_reply(200, "hello");
    assert_int_equal(server.connections, 2);
    close_scene();
}

TEST(another_request_is_not_and_nor_is_one_of_which_a_part_of_the_reply_came)
{
    static const struct answer closes[] = {{HELLO, KEEP, false}, {NULL, CLOSE, false}};
    open_scene(closes);
    send_request(get());
    struct weir_http_request post = get();
    post.method = WEIR_METHOD_POST;
    post.body = weir_slice_of("body");
    send_request(post);
    expect_failure(WEIR_HTTP_FAILED_LOST);
    assert_int_equal(server.connections, 1);
    close_scene();

    static const struct answer cuts[] = {{HELLO, KEEP, false}, {"HTTP/1.1 2", CLOSE, false}};
    open_scene(cuts);
    send_request(get());
    send_request(get());
    expect_failure(WEIR_HTTP_FAILED_LOST);
    assert_int_equal(server.connections, 1);
    close_scene();
}

/* ---- requests ---- */

static struct weir_http_request post(void)
{
    struct weir_http_request request = get();
    request.method = WEIR_METHOD_POST;
    return request;
}

TEST(a_body_at_hand_goes_with_its_length_and_headers_go_as_given)
{
    static const struct answer answers[] = {{HELLO, KEEP, false}};
    static const struct weir_http_header headers[] = {{{"x-token", 7}, {"secret", 6}},
                                                      {{"content-type", 12}, {"text/plain", 10}}};
    open_scene(answers);
    struct weir_http_request request = post();
    request.headers = headers;
    request.header_count = COUNT_OF(headers);
    request.body = weir_slice_of("the body");
    send_request(request);
    expect_reply(200, "hello");
    close_scene();
    assert_non_null(strstr(server.requests, "\r\nx-token: secret\r\ncontent-type: text/plain\r\n"
                                            "content-length: 8\r\n\r\nthe body"));
}

TEST(a_post_without_a_body_says_so)
{
    static const struct answer answers[] = {{HELLO, KEEP, false}};
    open_scene(answers);
    send_request(post());
    expect_reply(200, "hello");
    close_scene();
    assert_non_null(strstr(server.requests, "\r\ncontent-length: 0\r\n\r\n"));
}

TEST(a_body_that_is_made_goes_with_a_length_or_in_chunks)
{
    static const struct answer answers[] = {{HELLO, KEEP, false}};
    static const char *const parts[] = {"one ", "two", NULL};
    for (int i = 0; i < 3; i++) {
        open_scene(answers);
        struct weir_http_request request = post();
        request.body_bytes = i == 0 ? 7 : WEIR_HTTP1_NO_LENGTH;
        scene.parts = parts;
        scene.last_alone = i == 2;
        send_request(request);
        expect_reply(200, "hello");
        close_scene();
        assert_non_null(strstr(server.requests, i == 0 ? "\r\ncontent-length: 7\r\n\r\none two"
                                                       : "\r\ntransfer-encoding: chunked\r\n\r\n"
                                                         "4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n"));
    }
}

TEST(a_body_that_is_not_there_yet_goes_on_when_it_is_resumed)
{
    static const struct answer answers[] = {{HELLO, KEEP, false}};
    static const char *const parts[] = {"one", "", "two", NULL};
    open_scene(answers);
    struct weir_http_request request = post();
    request.body_bytes = WEIR_HTTP1_NO_LENGTH;
    scene.parts = parts;
    send_request(request);
    assert_int_equal(scene.ends + scene.failures, 0);
    scene.awaits_more = false;
    weir_http_call_resume(&scene.call);
    run();
    expect_reply(200, "hello");
    close_scene();
    assert_non_null(strstr(server.requests, "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
}

TEST(a_body_that_is_shorter_than_announced_fails)
{
    static const struct answer answers[] = {{HELLO, KEEP, false}};
    static const char *const parts[] = {"one", NULL};
    open_scene(answers);
    struct weir_http_request request = post();
    request.body_bytes = 4;
    scene.parts = parts;
    send_request(request);
    expect_failure(WEIR_HTTP_FAILED_RESOURCES);
    close_scene();
}

TEST(a_reply_before_the_end_of_the_request_is_taken_and_the_connection_closed)
{
    static const struct answer answers[] = {
        {"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno", SAY_MORE, true}};
    static const char *const parts[] = {"one", "", NULL};
    open_scene(answers);
    struct weir_http_request request = post();
    request.body_bytes = WEIR_HTTP1_NO_LENGTH;
    scene.parts = parts;
    send_request(request);
    while (scene.ends + scene.failures == 0) {
        run();
    }
    expect_reply(413, "no");
    wait_for(&server.gone, 1);
    close_scene();
}

TEST(a_head_that_is_too_long_or_has_a_line_break_is_refused_at_once)
{
    static const struct answer answers[] = {{HELLO, KEEP, false}};
    static char text[WEIR_BUFFER_LARGE];
    memset(text, 'a', sizeof text);
    open_scene(answers);
    struct weir_http_header header = {weir_slice_of("x"), {text, sizeof text}};
    struct weir_http_request request = get();
    request.headers = &header;
    request.header_count = 1;
    assert_false(weir_http_call_begin(scene.client, &scene.call, &request, &whole));
    header.value = weir_slice_of("a\r\nx-more: b");
    assert_false(weir_http_call_begin(scene.client, &scene.call, &request, &whole));
    close_scene();
}

/* ---- cancelling, pausing ---- */

TEST(a_call_can_be_cancelled_at_each_step_and_says_nothing_more)
{
    static const struct answer answers[] = {
        {"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello", SAY_MORE, false}};
    static const char *const parts[] = {"one", NULL};
    for (enum step step = AT_HEAD; step <= AT_PRODUCE; step++) {
        open_scene(answers);
        struct weir_http_request request = post();
        request.body_bytes = WEIR_HTTP1_NO_LENGTH;
        scene.parts = parts;
        scene.cancel_at = step;
        send_request(request);
        wait_for(&server.gone, 1);
        one_turn();
        assert_int_equal(scene.ends + scene.failures, 0);
        weir_http_call_cancel(&scene.call); /* once more changes nothing */
        close_scene();
    }
}

TEST(a_call_can_be_cancelled_before_it_has_connected)
{
    static const struct answer answers[] = {{HELLO, KEEP, false}};
    for (int turns = 0; turns < 2; turns++) {
        open_scene(answers);
        struct weir_http_request request = get();
        assert_true(weir_http_call_begin(scene.client, &scene.call, &request, &whole));
        for (int i = 0; i < turns; i++) {
            one_turn();
        }
        weir_http_call_cancel(&scene.call);
        one_turn();
        assert_int_equal(scene.ends + scene.failures, 0);
        close_scene();
    }
}

TEST(a_paused_call_delivers_nothing_until_it_is_resumed)
{
    static const struct answer answers[] = {{"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
                                             "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
                                             KEEP, false},
                                            {HELLO, KEEP, false}};
    for (int i = 0; i < 2; i++) {
        open_scene_at(&answers[i], 1, false);
        scene.pause_at = AT_DATA;
        send_request(get());
        assert_true(scene.body_bytes > 0);
        assert_int_equal(scene.ends, 0);
        size_t before = scene.body_bytes;
        one_turn();
        one_turn();
        assert_int_equal(scene.body_bytes, before);
        assert_int_equal(scene.ends, 0);
        scene.pause_at = NEVER_STEP;
        weir_http_call_resume(&scene.call);
        run();
        expect_reply(200, "hello");
        close_scene();
    }
}

/* ---- memory ---- */

TEST(without_memory_a_call_fails_and_nothing_is_left)
{
    static const struct answer answers[] = {
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", SAY_MORE,
         false}};
    static const char *const parts[] = {"one", NULL};
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        open_server(answers, 1, false);
        open_worker();
        scene.memory.fail_at = scene.memory.calls + nth;
        scene.client = make_client();
        if (scene.client != NULL) {
            struct weir_http_request request = post();
            request.body_bytes = WEIR_HTTP1_NO_LENGTH;
            scene.parts = parts;
            if (weir_http_call_begin(scene.client, &scene.call, &request, &producing)) {
                run();
                assert_int_equal(scene.ends + scene.failures, 1);
            }
            weir_http_client_destroy(scene.client);
        }
        failed = scene.memory.failed > 0;
        assert_true(failed || scene.ends == 1);
        close_worker();
        close_server();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_by_length_comes_with_its_head_and_the_connection_is_used_again),
        cmocka_unit_test(a_reply_in_chunks_behind_interim_heads_comes_in_pieces_of_any_size),
        cmocka_unit_test(a_reply_without_a_length_ends_with_the_connection),
        cmocka_unit_test(a_reply_without_a_body_ends_with_its_head),
        cmocka_unit_test(a_server_at_a_unix_socket_answers_as_any),
        cmocka_unit_test(what_comes_beyond_a_reply_ends_its_connection),
        cmocka_unit_test(a_reply_that_is_cut_off_is_never_taken_for_a_whole_one),
        cmocka_unit_test(a_reply_without_a_length_whose_connection_is_reset_is_cut_off),
        cmocka_unit_test(what_is_no_reply_is_refused),
        cmocka_unit_test(interim_replies_without_end_are_refused),
        cmocka_unit_test(a_body_as_long_as_allowed_comes_and_one_byte_more_does_not),
        cmocka_unit_test(a_slow_server_is_given_up_at_the_deadline_wherever_the_reply_is),
        cmocka_unit_test(a_port_without_a_listener_is_unreachable),
        cmocka_unit_test(a_socket_that_is_not_there_is_unreachable),
        cmocka_unit_test(an_idempotent_request_on_a_used_connection_is_made_once_more),
        cmocka_unit_test(another_request_is_not_and_nor_is_one_of_which_a_part_of_the_reply_came),
        cmocka_unit_test(a_body_at_hand_goes_with_its_length_and_headers_go_as_given),
        cmocka_unit_test(a_post_without_a_body_says_so),
        cmocka_unit_test(a_body_that_is_made_goes_with_a_length_or_in_chunks),
        cmocka_unit_test(a_body_that_is_not_there_yet_goes_on_when_it_is_resumed),
        cmocka_unit_test(a_body_that_is_shorter_than_announced_fails),
        cmocka_unit_test(a_reply_before_the_end_of_the_request_is_taken_and_the_connection_closed),
        cmocka_unit_test(a_head_that_is_too_long_or_has_a_line_break_is_refused_at_once),
        cmocka_unit_test(a_call_can_be_cancelled_at_each_step_and_says_nothing_more),
        cmocka_unit_test(a_call_can_be_cancelled_before_it_has_connected),
        cmocka_unit_test(a_paused_call_delivers_nothing_until_it_is_resumed),
        cmocka_unit_test(without_memory_a_call_fails_and_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
