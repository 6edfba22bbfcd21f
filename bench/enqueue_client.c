/* enqueue_client.c - the client of bench/jobs: hands over jobs of 1 KiB, and waits for each answer.
 *
 * usage: bench_enqueue_client PROTOCOL PORT CONNECTIONS SECONDS [TENANTS]
 *
 * PROTOCOL is http (POST /submit/ID, answered with 202), beanstalkd (put, INSERTED) or redis
 * (LPUSH, an integer). Each connection sends the next job when the last one was answered. With
 * TENANTS the jobs are of so many tenants in turn, over HTTP. After so many seconds nothing new is
 * sent, and what is under way is waited for. The report is one line of JSON on stdout:
 *
 *   answers, seconds  how many jobs were accepted, in how long
 *   answer_us         how long an answer took: p50 and p99
 *   faults, fault     connections that failed, and why the first of them did
 *
 * One thread; everything in static memory, and the same little work for each protocol. */
#define _GNU_SOURCE /* memmem */
#include "stream.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define BODY_BYTES      1024
#define HEAD_BYTES_MAX  512
#define REPLY_BYTES_MAX 4096
#define GRACE_NS        (30 * STREAM_NS_PER_SECOND)
#define DELAYS_MAX      (1u << 22) /* that are kept for the percentiles */

struct connection;

/* How to ask, and how to tell an answer. */
struct protocol {
    const char *name;
    const char *tail; /* behind the body */
    size_t (*write_head)(char head[HEAD_BYTES_MAX]);
    /* How many bytes the answer has: 0 if it is not whole yet, negative if it is not the right one.
     */
    ssize_t (*read)(const char *reply, size_t bytes);
};

struct connection {
    int socket;
    bool waits; /* for an answer */
    uint64_t asked_ns;
    size_t sent_bytes;
    size_t head_bytes;
    size_t reply_bytes;
    char head[HEAD_BYTES_MAX];
    char reply[REPLY_BYTES_MAX];
};

static struct connection connections[STREAM_CONNECTIONS_MAX];
static const struct protocol *protocol;
static char body[BODY_BYTES];
static uint64_t begin_ns;
static uint64_t stop_ns;
static uint64_t asked;
static uint64_t tenants;
static unsigned active;

static uint64_t answers;
static uint64_t last_ns;
static uint32_t delays_us[DELAYS_MAX];
static uint64_t faults;
static char first_fault[200];

/* ---- protocols ---- */

/* Ids do not come again: not in this run, and not in another one on the same data. */
static size_t write_http(char head[HEAD_BYTES_MAX])
{
    char tenant[32] = "";
    if (tenants > 0) {
        snprintf(tenant, sizeof(tenant), "?tenant=t%" PRIu64, asked % tenants);
    }
    int bytes = snprintf(head, HEAD_BYTES_MAX,
                         "POST /submit/%" PRIx64 "-%" PRIu64 "%s HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Length: %d\r\n\r\n",
                         begin_ns, asked, tenant, BODY_BYTES);
    return (size_t)bytes;
}

static ssize_t read_http(const char *reply, size_t bytes)
{
    static const char length[] = "content-length: ";
    const char *end = memmem(reply, bytes, "\r\n\r\n", 4);
    if (end == NULL) {
        return 0;
    }
    const char *field = memmem(reply, (size_t)(end - reply), length, sizeof(length) - 1);
    if (memcmp(reply, "HTTP/1.1 202", 12) != 0 || field == NULL) {
        return -1;
    }
    size_t whole = (size_t)(end + 4 - reply) + strtoull(field + sizeof(length) - 1, NULL, 10);
    return bytes < whole ? 0 : (ssize_t)whole;
}

static size_t write_beanstalkd(char head[HEAD_BYTES_MAX])
{
    int bytes = snprintf(head, HEAD_BYTES_MAX, "put 0 0 60 %d\r\n", BODY_BYTES);
    return (size_t)bytes;
}

static ssize_t read_line(const char *reply, size_t bytes, const char *start)
{
    const char *end = memmem(reply, bytes, "\r\n", 2);
    if (end == NULL) {
        return 0;
    }
    return memcmp(reply, start, strlen(start)) == 0 ? end + 2 - reply : -1;
}

static ssize_t read_beanstalkd(const char *reply, size_t bytes)
{
    return read_line(reply, bytes, "INSERTED ");
}

static size_t write_redis(char head[HEAD_BYTES_MAX])
{
    int bytes =
        snprintf(head, HEAD_BYTES_MAX, "*3\r\n$5\r\nLPUSH\r\n$4\r\njobs\r\n$%d\r\n", BODY_BYTES);
    return (size_t)bytes;
}

static ssize_t read_redis(const char *reply, size_t bytes)
{
    return read_line(reply, bytes, ":");
}

static const struct protocol protocols[] = {
    {"http", "", write_http, read_http},
    {"beanstalkd", "\r\n", write_beanstalkd, read_beanstalkd},
    {"redis", "\r\n", write_redis, read_redis},
};

/* ---- connections ---- */

static void fail(struct connection *connection, const char *why)
{
    if (faults++ == 0) {
        snprintf(first_fault, sizeof(first_fault), "%s", why);
    }
    close(connection->socket);
    connection->waits = false;
    active--;
}

static void send_rest(struct connection *connection)
{
    struct iovec parts[] = {{connection->head, connection->head_bytes},
                            {body, BODY_BYTES},
                            {(void *)(uintptr_t)protocol->tail, strlen(protocol->tail)}};
    size_t skip = connection->sent_bytes;
    size_t left = 0;
    for (size_t index = 0; index < sizeof(parts) / sizeof(parts[0]); index++) {
        size_t gone = skip < parts[index].iov_len ? skip : parts[index].iov_len;
        parts[index].iov_base = (char *)parts[index].iov_base + gone;
        parts[index].iov_len -= gone;
        skip -= gone;
        left += parts[index].iov_len;
    }
    if (left == 0) {
        return;
    }
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = sizeof(parts) / sizeof(parts[0])};
    ssize_t sent = sendmsg(connection->socket, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != ENOTCONN) {
        fail(connection, strerror(errno));
    }
    connection->sent_bytes += sent < 0 ? 0 : (size_t)sent;
}

static void ask(struct connection *connection, uint64_t now_ns)
{
    connection->waits = true;
    connection->asked_ns = now_ns;
    connection->sent_bytes = 0;
    connection->reply_bytes = 0;
    connection->head_bytes = protocol->write_head(connection->head);
    asked++;
    send_rest(connection);
}

static void take_answer(struct connection *connection, uint64_t now_ns)
{
    delays_us[answers % DELAYS_MAX] = (uint32_t)((now_ns - connection->asked_ns) / 1000);
    answers++;
    last_ns = now_ns;
    if (now_ns < stop_ns) {
        ask(connection, now_ns);
        return;
    }
    connection->waits = false;
    active--;
}

static void refuse_answer(struct connection *connection)
{
    char text[160];
    size_t line = 0;
    while (line < connection->reply_bytes && line < sizeof(text) - 1 &&
           connection->reply[line] >= ' ' && connection->reply[line] != '"') {
        text[line] = connection->reply[line];
        line++;
    }
    text[line] = '\0';
    fail(connection, text);
}

static void read_answer(struct connection *connection)
{
    while (connection->waits) {
        ssize_t got = recv(connection->socket, connection->reply + connection->reply_bytes,
                           REPLY_BYTES_MAX - connection->reply_bytes, 0);
        if (got < 0 && (errno == EAGAIN || errno == ENOTCONN)) {
            return;
        }
        if (got <= 0) {
            fail(connection, got == 0 ? "a connection was closed" : strerror(errno));
            return;
        }
        connection->reply_bytes += (size_t)got;
        ssize_t whole = protocol->read(connection->reply, connection->reply_bytes);
        if (whole < 0 || (whole == 0 && connection->reply_bytes == REPLY_BYTES_MAX)) {
            refuse_answer(connection);
        } else if (whole > 0) {
            take_answer(connection, stream_now_ns());
        }
    }
}

/* ---- the whole ---- */

static void open_connections(int epoll, uint16_t port, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        struct connection *connection = &connections[index];
        connection->socket = stream_connect(port);
        stream_watch(epoll, connection->socket, connection);
        active++;
        ask(connection, stream_now_ns());
    }
}

static void go_on(void *owner)
{
    struct connection *connection = owner;
    if (connection->waits) {
        send_rest(connection);
        read_answer(connection);
    }
}

static void run(int epoll)
{
    while (active > 0 && stream_now_ns() < stop_ns + GRACE_NS) {
        stream_turn(epoll, go_on);
    }
    if (active > 0 && faults == 0) {
        snprintf(first_fault, sizeof(first_fault), "an answer did not come");
    }
    faults += active;
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static void report(void)
{
    size_t count = answers < DELAYS_MAX ? (size_t)answers : DELAYS_MAX;
    qsort(delays_us, count, sizeof(delays_us[0]), compare);
    printf("{\"answers\": %" PRIu64 ", \"seconds\": %.6f, \"answer_us\": {\"p50\": %u, \"p99\": %u}"
           ", \"faults\": %" PRIu64 ", \"fault\": \"%s\"}\n",
           answers, (double)(last_ns > begin_ns ? last_ns - begin_ns : 0) / 1e9,
           count == 0 ? 0 : delays_us[count / 2], count == 0 ? 0 : delays_us[count * 99 / 100],
           faults, first_fault);
}

static void choose_protocol(const char *name)
{
    for (size_t index = 0; index < sizeof(protocols) / sizeof(protocols[0]); index++) {
        if (strcmp(protocols[index].name, name) == 0) {
            protocol = &protocols[index];
            return;
        }
    }
    fprintf(stderr,
            "bench_enqueue_client: PROTOCOL is \"%s\"; expected http, beanstalkd or redis\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 6) {
        fprintf(stderr,
                "usage: bench_enqueue_client PROTOCOL PORT CONNECTIONS SECONDS [TENANTS]\n");
        return 2;
    }
    choose_protocol(argv[1]);
    uint16_t port = (uint16_t)stream_number("PORT", argv[2], 1, UINT16_MAX);
    size_t count = stream_number("CONNECTIONS", argv[3], 1, STREAM_CONNECTIONS_MAX);
    uint64_t seconds = stream_number("SECONDS", argv[4], 1, 3600);
    tenants = argc > 5 ? stream_number("TENANTS", argv[5], 1, 1000000) : 0;
    int epoll = stream_epoll();
    memset(body, 'x', sizeof(body));
    begin_ns = stream_now_ns();
    last_ns = begin_ns;
    stop_ns = begin_ns + seconds * STREAM_NS_PER_SECOND;
    open_connections(epoll, port, count);
    run(epoll);
    report();
    return 0;
}
