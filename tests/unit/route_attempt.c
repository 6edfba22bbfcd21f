/* Errands: jobs as requests through a real server, to an upstream that says what a test wants. */
#define _GNU_SOURCE
#include "unit/helpers.h"

#include "api/api.h"
#include "base/list.h"
#include "config/errors.h"
#include "runner/route_attempt.h"
#include "server/server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define RESULT_FILE   42
#define REQUEST_BYTES (1 << 20)
#define CROWD         100

/* ---- the upstream ---- */

static struct {
    int listener;
    uint16_t port;
    pthread_t thread;
    const char *reply; /* null: it never says anything */
    size_t letters;    /* that follow it */
    char *request;     /* the last one that came */
    size_t request_bytes;
    atomic_bool asked; /* it is complete */
} upstream;

/* Whether all of a request is there. */
static bool is_whole(const char *bytes, size_t count)
{
    const char *end = memmem(bytes, count, "\r\n\r\n", 4);
    const char *length = end == NULL ? NULL : strcasestr(bytes, "\r\ncontent-length: ");
    size_t body = length == NULL ? 0 : strtoul(length + 18, NULL, 10);
    return end != NULL && count >= (size_t)(end - bytes) + 4 + body;
}

static void read_request(int fd)
{
    upstream.request_bytes = 0;
    for (;;) {
        ssize_t got = read(fd, upstream.request + upstream.request_bytes,
                           REQUEST_BYTES - upstream.request_bytes);
        if (got <= 0) {
            return;
        }
        upstream.request_bytes += (size_t)got;
        upstream.request[upstream.request_bytes] = '\0';
        if (is_whole(upstream.request, upstream.request_bytes)) {
            return;
        }
    }
}

static void reply(int fd)
{
    char letters[26 * 100];
    for (size_t i = 0; i < sizeof letters; i++) {
        letters[i] = (char)('a' + i % 26);
    }
    bool heard = send(fd, upstream.reply, strlen(upstream.reply), MSG_NOSIGNAL) > 0;
    for (size_t left = upstream.letters; left > 0 && heard;) {
        size_t some = left < sizeof letters ? left : sizeof letters;
        heard = send(fd, letters, some, MSG_NOSIGNAL) == (ssize_t)some;
        left -= some;
    }
}

/* One connection after the other, until the listener is shut down. */
static void *serve_upstream(void *context)
{
    (void)context;
    int fd;
    while ((fd = accept(upstream.listener, NULL, NULL)) >= 0) {
        read_request(fd);
        atomic_store(&upstream.asked, true);
        if (upstream.reply != NULL) {
            reply(fd);
            shutdown(fd, SHUT_WR);
        }
        char rest[256];
        while (read(fd, rest, sizeof rest) > 0) {
        }
        close(fd);
    }
    return NULL;
}

static void open_upstream(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    upstream.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(upstream.listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(upstream.listener, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(listen(upstream.listener, 200), 0);
    upstream.port = ntohs(address.sin_port);
    upstream.request = calloc(1, REQUEST_BYTES + 1);
    assert_non_null(upstream.request);
}

static void close_upstream(void)
{
    shutdown(upstream.listener, SHUT_RDWR);
    pthread_join(upstream.thread, NULL);
    close(upstream.listener);
}

/* ---- the server ---- */

static char folder[64];
static char result_path[96];
static char body_path[96];

enum then {
    GO_ON,
    CANCEL,
    DESTROY
};

static struct trial {
    const char *path; /* null: /go */
    const char *tenant;
    const char *type;
    const char *body;
    size_t body_letters; /* of a body in a file; 0: it is at hand */
    uint64_t timeout_ms;
    uint64_t result_bytes_max;
    enum then then; /* once the upstream has its request */
    uint32_t count; /* of deferred work, one after the other; 0: one */
    bool unreachable;
    bool crowded; /* there are no descriptors left once it is under way */

    struct weir_worker *worker;
    struct weir_disk *disk;
    struct weir_route_attempt *attempt;
    struct weir_post post;
    struct weir_timer timer;
    uint32_t ended;
    enum weir_attempt_end end;
    uint32_t status;
    uint64_t retry_after_ms;
    uint64_t bytes;
    uint64_t file;
    char error[WEIR_JOB_ERROR_BYTES_MAX + 1];
    char type_seen[WEIR_JOB_TYPE_BYTES_MAX + 1];
    char result[WEIR_JOB_INLINE_BYTES_MAX + 1];
} trial;

static void start(struct weir_post *post);

/* No more descriptors than there are, or as many as before. */
static void allow_descriptors(bool more)
{
    static struct rlimit limit;
    struct rlimit tight;
    if (!more) {
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        tight = limit;
        tight.rlim_cur = 3;
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, more ? &limit : &tight), 0);
}

static void end_trial(void)
{
    if (trial.crowded) {
        allow_descriptors(true);
    }
    weir_timer_deinit(&trial.worker->loop, &trial.timer);
    kill(getpid(), SIGTERM);
}

static void note_end(void *context, const struct weir_route_attempt_report *report)
{
    assert_ptr_equal(context, &trial);
    trial.attempt = NULL;
    trial.end = report->end;
    trial.status = report->status;
    trial.retry_after_ms = report->retry_after_ms;
    trial.bytes = report->result.count;
    trial.file = report->result.file;
    memcpy(trial.error, report->error.data, report->error.bytes);
    memcpy(trial.type_seen, report->type.data, report->type.bytes);
    if (report->result.bytes.bytes > 0) {
        memcpy(trial.result, report->result.bytes.data, report->result.bytes.bytes);
    }
    if (++trial.ended < trial.count) {
        start(&trial.post);
    } else {
        end_trial();
    }
}

/* Whether the upstream has the request is looked at now and then. */
static void look_at_upstream(struct weir_timer *timer)
{
    if (!atomic_load(&upstream.asked)) {
        weir_timer_set(&trial.worker->loop, timer, trial.worker->loop.now_ns + 1000000);
        return;
    }
    if (trial.then == CANCEL) {
        weir_route_attempt_cancel(trial.attempt);
        weir_route_attempt_cancel(trial.attempt);
    } else {
        weir_route_attempt_destroy(trial.attempt);
        trial.attempt = NULL;
        end_trial();
    }
}

static void start(struct weir_post *post)
{
    (void)post;
    const char *body = trial.body == NULL ? "" : trial.body;
    bool at_hand = trial.body_letters == 0;
    struct weir_job_row row = {
        .number = 7,
        .order = {.id = weir_slice_of("order-1"),
                  .tenant = weir_slice_of(trial.tenant == NULL ? "" : trial.tenant),
                  .type = weir_slice_of(trial.type == NULL ? "" : trial.type),
                  .priority = WEIR_PRIORITY_LOW,
                  .timeout_ms = trial.timeout_ms,
                  .body = {.count = at_hand ? strlen(body) : trial.body_letters,
                           .file = at_hand ? 0 : 1,
                           .bytes = weir_slice_of(at_hand ? body : "")}},
    };
    trial.attempt = weir_route_attempt_start(&(struct weir_route_attempt_options){
        .worker = trial.worker,
        .disk = trial.disk,
        .path = weir_slice_of(trial.path == NULL ? "/go" : trial.path),
        .row = &row,
        .body_path = at_hand ? NULL : body_path,
        .result_file = RESULT_FILE,
        .result_path = result_path,
        .result_bytes_max = trial.result_bytes_max,
        .ended = note_end,
        .context = &trial});
    assert_non_null(trial.attempt);
    if (trial.crowded) {
        allow_descriptors(false);
    }
    if (trial.then != GO_ON) {
        weir_timer_set(&trial.worker->loop, &trial.timer, trial.worker->loop.now_ns + 1);
    }
}

static void begin(struct weir_post *post)
{
    assert_true(weir_timer_init(&trial.worker->loop, &trial.timer, look_at_upstream));
    start(post);
}

static bool want_jobs(const struct weir_config *config)
{
    return config->queue_count > 0;
}

static void *open_jobs(const struct weir_extension_options *options, char *error,
                       size_t error_bytes)
{
    (void)error;
    (void)error_bytes;
    trial.worker = options->workers[0];
    trial.disk = weir_disk_create(2);
    return &trial;
}

static void resume_jobs(void *service)
{
    (void)service;
    trial.post.arrive = begin;
    weir_loop_post(&trial.worker->loop, &trial.post);
}

static void drain_jobs(void *service, void (*drained)(void *context), void *context)
{
    (void)service;
    drained(context);
}

static void stop_jobs(void *service)
{
    (void)service;
    if (trial.attempt != NULL) {
        weir_route_attempt_destroy(trial.attempt);
    }
    weir_disk_destroy(trial.disk);
}

static void close_jobs(void *service)
{
    (void)service;
}

static struct weir_config *load(void *context, char *error, size_t error_bytes)
{
    (void)context;
    char text[2000];
    struct weir_config_options options = {0};
    struct weir_config *config = NULL;
    struct weir_config_errors errors = {0};
    snprintf(text, sizeof text,
             "listen: 127.0.0.1:0\n"
             "threads: 1\n"
             "data: %s\n"
             "trusted: []\n"
             "upstreams: { u: { url: \"http://127.0.0.1:%u\" } }\n"
             "gates: { g: { limit: 1 } }\n"
             "routes:\n"
             "  - { match: /go, gate: g, key: all, upstream: u, tenant: \"header:X-Who\","
             " priority: \"header:X-How\", flow: \"header:X-Flow\" }\n"
             "  - { match: /keyed, gate: g, key: \"{tenant}\", upstream: u, tenant: api_key }\n"
             "queues: { q: { route: /go } }\n",
             folder, trial.unreachable ? 1 : upstream.port);
    if (!weir_config_load_text(weir_slice_of("test"), weir_slice_of(text), &options, &config,
                               &errors)) {
        snprintf(error, error_bytes, "%u: %s", errors.list[0].line, errors.list[0].text);
    }
    return config;
}

/* Runs the deferred work of `trial` to their end. What the server says on stdout is not for the
 * test's reader. */
static void run(void)
{
    static const struct weir_extension jobs = {.name = "jobs",
                                               .wanted = want_jobs,
                                               .open = open_jobs,
                                               .resume = resume_jobs,
                                               .drain = drain_jobs,
                                               .stop = stop_jobs,
                                               .close = close_jobs};
    static const struct weir_extension *const extensions[] = {&jobs, NULL};
    sigset_t end; /* is for the server, also if it does not wait for it yet */
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &end, NULL), 0);
    assert_int_equal(pthread_create(&upstream.thread, NULL, serve_upstream, NULL), 0);
    fflush(stdout);
    int saved = dup(1);
    dup2(2, 1);
    int status = weir_serve(
        &(struct weir_serve_options){.load = load, .api = &weir_api, .extensions = extensions});
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    assert_int_equal(status, 0);
    close_upstream();
}

static int open_all(void **state)
{
    (void)state;
    memset(&trial, 0, sizeof trial);
    memset(&upstream, 0, sizeof upstream);
    memcpy(folder, "/tmp/weir-attempt-XXXXXX", 25);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(result_path, sizeof result_path, "%s/result", folder);
    snprintf(body_path, sizeof body_path, "%s/body", folder);
    open_upstream();
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        unlinkat(dirfd(entries), entry->d_name, 0);
    }
    closedir(entries);
    free(upstream.request);
    return rmdir(folder);
}

#define expect_end(how, text)                   \
    do {                                        \
        assert_string_equal(trial.error, text); \
        assert_int_equal(trial.end, how);       \
        assert_int_equal(trial.ended, 1);       \
    } while (0)

static void expect_said(const char *text)
{
    if (strcasestr(upstream.request, text) == NULL) {
        fail_msg("\"%s\" is not in: %.2000s", text, upstream.request);
    }
}

static void expect_no_file(void)
{
    assert_int_equal(access(result_path, F_OK), -1);
}

static void write_body(size_t bytes)
{
    FILE *file = fopen(body_path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++) {
        putc((char)('a' + i % 26), file);
    }
    assert_int_equal(fclose(file), 0);
}

static void expect_letters(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(getc(file), 'a' + (int)(i % 26));
    }
    assert_int_equal(getc(file), EOF);
    fclose(file);
}

/* ---- requests ---- */

TEST(a_job_arrives_as_a_request_and_the_reply_is_its_result)
{
    trial.body = "what is asked";
    trial.tenant = "acme";
    trial.type = "text/plain; charset=utf-8";
    trial.path = "/go/on?fast=1";
    upstream.reply =
        "HTTP/1.1 201 Created\r\nContent-Type: text/x-answer\r\nContent-Length: 6\r\n\r\n"
        "answer";
    run();
    expect_end(WEIR_ATTEMPT_SUCCESS, "");
    assert_int_equal(trial.status, 201);
    assert_string_equal(trial.result, "answer");
    assert_int_equal(trial.bytes, 6);
    assert_int_equal(trial.file, 0);
    assert_string_equal(trial.type_seen, "text/x-answer");
    assert_int_equal(strncmp(upstream.request, "POST /go/on?fast=1 HTTP/1.1\r\n", 29), 0);
    expect_said("\r\nx-request-id: order-1\r\n");
    expect_said("\r\nidempotency-key: order-1\r\n");
    expect_said("\r\ncontent-type: text/plain; charset=utf-8\r\n");
    expect_said("\r\nx-who: acme\r\n");
    expect_said("\r\nx-how: low\r\n");
    expect_said("\r\nx-flow: order-1\r\n");
    expect_said("\r\n\r\nwhat is asked");
}

TEST(a_job_without_a_body_and_a_reply_without_one)
{
    upstream.reply = "HTTP/1.1 204 No Content\r\n\r\n";
    run();
    expect_end(WEIR_ATTEMPT_SUCCESS, "");
    assert_int_equal(trial.status, 204);
    assert_int_equal(trial.bytes, 0);
    expect_said("\r\ncontent-length: 0\r\n");
}

TEST(a_route_that_asks_for_an_api_key_lets_jobs_through)
{
    trial.path = "/keyed";
    trial.tenant = "acme";
    upstream.reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    run();
    expect_end(WEIR_ATTEMPT_SUCCESS, "");
}

TEST(what_cannot_be_sent_is_hopeless)
{
    trial.path = "/go on";
    run();
    expect_end(WEIR_ATTEMPT_HOPELESS,
               "the job cannot be sent: its id or its route's path is too long, or has characters "
               "that no request can have");
    assert_int_equal(trial.status, 0);
}

TEST(a_tenant_that_no_field_can_hold_goes_without_it)
{
    trial.tenant = "ac\nme";
    upstream.reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    run();
    expect_end(WEIR_ATTEMPT_SUCCESS, "");
    assert_null(strcasestr(upstream.request, "x-who"));
}

/* ---- long bodies and results ---- */

TEST(long_bodies_come_from_files)
{
    trial.body_letters = 500001;
    write_body(500001);
    upstream.reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    run();
    expect_end(WEIR_ATTEMPT_SUCCESS, "");
    const char *body = strstr(upstream.request, "\r\n\r\n") + 4;
    assert_int_equal(upstream.request_bytes - (size_t)(body - upstream.request), 500001);
    for (size_t i = 0; i < 500001; i++) {
        assert_int_equal(body[i], 'a' + (char)(i % 26));
    }
}

TEST(a_body_that_cannot_be_read_is_a_failure)
{
    trial.body_letters = 500001;
    run();
    expect_end(WEIR_ATTEMPT_FAILURE, "the job's body could not be read: No such file or directory");
}

/* Memory that belongs to nobody reads like a disk that does not work. */
TEST(a_body_that_the_disk_does_not_give_back_is_a_failure)
{
    trial.body_letters = 500001;
    snprintf(body_path, sizeof body_path, "/proc/self/mem");
    run();
    expect_end(WEIR_ATTEMPT_FAILURE, "the job's body could not be read: Input/output error");
}

TEST(a_body_that_is_shorter_than_it_was_is_a_failure)
{
    trial.body_letters = 500001;
    write_body(100000);
    run();
    expect_end(WEIR_ATTEMPT_FAILURE, "the job's body could not be read: No data available");
}

static void expect_long_result(const char *head, size_t letters, size_t bytes)
{
    upstream.reply = head;
    upstream.letters = letters;
    run();
    expect_end(WEIR_ATTEMPT_SUCCESS, "");
    assert_int_equal(trial.bytes, bytes);
    assert_int_equal(trial.file, RESULT_FILE);
    expect_letters(result_path, bytes);
}

TEST(a_long_result_is_a_file)
{
    expect_long_result("HTTP/1.1 200 OK\r\nContent-Length: 1000003\r\n\r\n", 1000003, 1000003);
}

TEST(a_long_result_without_a_length_is_a_file)
{
    expect_long_result("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", 300000,
                       300000);
    assert_string_equal(trial.type_seen, "text/event-stream");
}

TEST(a_result_just_at_hand_is_at_hand)
{
    upstream.reply = "HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n";
    upstream.letters = 65536;
    run();
    expect_end(WEIR_ATTEMPT_SUCCESS, "");
    assert_int_equal(trial.bytes, 65536);
    assert_int_equal(trial.file, 0);
    expect_no_file();
}

TEST(a_result_one_byte_longer_is_a_file)
{
    expect_long_result("HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n", 65537, 65537);
}

TEST(a_result_in_chunks_is_put_together)
{
    upstream.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\nX-Trailer: y\r\n\r\n";
    run();
    expect_end(WEIR_ATTEMPT_SUCCESS, "");
    assert_string_equal(trial.result, "hello, world");
}

TEST(a_long_result_in_one_chunk_is_a_file)
{
    /* The end of it never comes, so what has been written is removed again. */
    upstream.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n";
    upstream.letters = 300000;
    run();
    expect_end(WEIR_ATTEMPT_FAILURE, "the route's reply broke off");
    assert_int_equal(trial.file, 0);
    expect_no_file();
}

TEST(a_reply_that_announces_too_much_is_a_failure)
{
    trial.result_bytes_max = 99999;
    upstream.reply = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
    upstream.letters = 100000;
    run();
    expect_end(WEIR_ATTEMPT_FAILURE,
               "the route's reply has more than the 99999 bytes that a result may have");
    assert_int_equal(trial.bytes, 0);
    expect_no_file();
}

TEST(a_reply_that_becomes_too_long_is_a_failure)
{
    trial.result_bytes_max = 99999;
    upstream.reply = "HTTP/1.1 200 OK\r\n\r\n";
    upstream.letters = 100000;
    run();
    expect_end(WEIR_ATTEMPT_FAILURE,
               "the route's reply has more than the 99999 bytes that a result may have");
    expect_no_file();
}

TEST(a_reply_as_long_as_it_may_be_is_a_result)
{
    trial.result_bytes_max = 100000;
    expect_long_result("HTTP/1.1 200 OK\r\n\r\n", 100000, 100000);
}

/* ---- failures ---- */

static void expect_status(const char *reply_text, enum weir_attempt_end end, const char *sentence)
{
    upstream.reply = reply_text;
    run();
    expect_end(end, sentence);
}

TEST(a_reply_that_may_be_better_next_time_is_a_failure)
{
    expect_status("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Type: application/json\r\n"
                  "Content-Length: 38\r\n\r\n{\"detail\":\"come\\nback\",\"message\":\"no\"}",
                  WEIR_ATTEMPT_FAILURE, "the route replied 503 (Service Unavailable): comeback");
    assert_int_equal(trial.status, 503);
    assert_int_equal(trial.retry_after_ms, 7000);
    assert_string_equal(trial.result, "{\"detail\":\"come\\nback\",\"message\":\"no\"}");
}

TEST(too_many_requests_are_a_failure)
{
    expect_status("HTTP/1.1 429 Slow\r\nContent-Length: 9\r\n\r\nslow down", WEIR_ATTEMPT_FAILURE,
                  "the route replied 429 (Too Many Requests): slow down");
    assert_int_equal(trial.retry_after_ms, 0);
}

TEST(a_request_timeout_is_a_failure)
{
    expect_status("HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n", WEIR_ATTEMPT_FAILURE,
                  "the route replied 408 (Request Timeout)");
}

TEST(a_request_that_came_too_early_is_a_failure)
{
    expect_status("HTTP/1.1 425 Early\r\nContent-Length: 0\r\n\r\n", WEIR_ATTEMPT_FAILURE,
                  "the route replied 425 (Too Early)");
}

TEST(any_other_status_is_hopeless)
{
    expect_status("HTTP/1.1 422 No\r\nContent-Length: 7\r\n\r\nuseless", WEIR_ATTEMPT_HOPELESS,
                  "the route replied 422 (Unprocessable Content): useless");
}

TEST(a_redirect_is_hopeless)
{
    expect_status("HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
                  WEIR_ATTEMPT_HOPELESS, "the route replied 302 (Found)");
}

TEST(of_a_long_failure_nothing_is_kept)
{
    upstream.letters = 200000;
    expect_status("HTTP/1.1 500 Oh\r\nContent-Length: 200000\r\n\r\n", WEIR_ATTEMPT_FAILURE,
                  "the route replied 500 (Internal Server Error)");
    assert_int_equal(trial.bytes, 0);
    expect_no_file();
}

TEST(a_path_without_a_route_is_hopeless)
{
    trial.path = "/nowhere";
    run();
    assert_int_equal(trial.end, WEIR_ATTEMPT_HOPELESS);
    assert_int_equal(trial.status, 404);
    assert_int_equal(
        strncmp(trial.error, "the route replied 404 (Not Found): The path matches no", 54), 0);
}

TEST(an_upstream_that_is_not_there_is_a_failure)
{
    trial.unreachable = true;
    run();
    assert_int_equal(trial.end, WEIR_ATTEMPT_FAILURE);
    assert_int_equal(trial.status, 502);
}

TEST(an_upstream_to_which_no_connection_is_left_costs_no_attempt)
{
    trial.crowded = true;
    run();
    assert_int_equal(trial.end, WEIR_ATTEMPT_UNABLE);
    assert_int_equal(trial.status, 503);
    assert_true(trial.retry_after_ms >= 1000);
}

TEST(a_reply_that_breaks_off_is_a_failure)
{
    expect_status("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly", WEIR_ATTEMPT_FAILURE,
                  "the route's reply broke off");
    assert_int_equal(trial.bytes, 0);
}

TEST(a_timeout_is_kept)
{
    trial.timeout_ms = 100;
    run();
    expect_end(WEIR_ATTEMPT_TIMEOUT, "the route did not answer within the timeout of 0.1 s");
    assert_int_equal(trial.status, 0);
}

TEST(a_route_attempt_is_cancelled_while_its_reply_is_awaited)
{
    trial.then = CANCEL;
    run();
    expect_end(WEIR_ATTEMPT_CANCELLED, "it was cancelled");
}

TEST(a_route_attempt_that_is_destroyed_tells_nothing)
{
    trial.then = DESTROY;
    run();
    assert_int_equal(trial.ended, 0);
}

TEST(a_route_attempt_that_is_destroyed_while_its_body_is_read_tells_nothing)
{
    trial.then = DESTROY;
    trial.body_letters = 900000;
    write_body(900000);
    atomic_store(&upstream.asked, true); /* at once */
    run();
    assert_int_equal(trial.ended, 0);
}

/* ---- many ---- */

static size_t open_files(void)
{
    size_t count = 0;
    DIR *entries = opendir("/proc/self/fd");
    assert_non_null(entries);
    while (readdir(entries) != NULL) {
        count++;
    }
    closedir(entries);
    return count;
}

TEST(many_route_attempts_follow_each_other_and_leave_nothing)
{
    size_t before = open_files();
    trial.count = CROWD;
    /* That it closes is said, or the next route attempt may be sent to a connection that it ends.
     */
    upstream.reply = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    run();
    assert_string_equal(trial.error, "");
    assert_int_equal(trial.ended, CROWD);
    assert_int_equal(trial.end, WEIR_ATTEMPT_SUCCESS);
    assert_int_equal(open_files(), before - 1); /* the upstream's listener is gone */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_job_arrives_as_a_request_and_the_reply_is_its_result,
                                        open_all, close_all),
        cmocka_unit_test_setup_teardown(a_job_without_a_body_and_a_reply_without_one, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_route_that_asks_for_an_api_key_lets_jobs_through,
                                        open_all, close_all),
        cmocka_unit_test_setup_teardown(what_cannot_be_sent_is_hopeless, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_tenant_that_no_field_can_hold_goes_without_it, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(long_bodies_come_from_files, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_body_that_cannot_be_read_is_a_failure, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_body_that_the_disk_does_not_give_back_is_a_failure,
                                        open_all, close_all),
        cmocka_unit_test_setup_teardown(a_body_that_is_shorter_than_it_was_is_a_failure, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_long_result_is_a_file, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_long_result_without_a_length_is_a_file, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_result_just_at_hand_is_at_hand, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_result_one_byte_longer_is_a_file, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_result_in_chunks_is_put_together, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_long_result_in_one_chunk_is_a_file, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_reply_that_announces_too_much_is_a_failure, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_reply_that_becomes_too_long_is_a_failure, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_reply_as_long_as_it_may_be_is_a_result, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_reply_that_may_be_better_next_time_is_a_failure, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(too_many_requests_are_a_failure, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_request_timeout_is_a_failure, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_request_that_came_too_early_is_a_failure, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(any_other_status_is_hopeless, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_redirect_is_hopeless, open_all, close_all),
        cmocka_unit_test_setup_teardown(of_a_long_failure_nothing_is_kept, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_path_without_a_route_is_hopeless, open_all, close_all),
        cmocka_unit_test_setup_teardown(an_upstream_that_is_not_there_is_a_failure, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(an_upstream_to_which_no_connection_is_left_costs_no_attempt,
                                        open_all, close_all),
        cmocka_unit_test_setup_teardown(a_reply_that_breaks_off_is_a_failure, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_timeout_is_kept, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_route_attempt_is_cancelled_while_its_reply_is_awaited,
                                        open_all, close_all),
        cmocka_unit_test_setup_teardown(a_route_attempt_that_is_destroyed_tells_nothing, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(
            a_route_attempt_that_is_destroyed_while_its_body_is_read_tells_nothing, open_all,
            close_all),
        cmocka_unit_test_setup_teardown(many_route_attempts_follow_each_other_and_leave_nothing,
                                        open_all, close_all),
    };
    alarm(250);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
