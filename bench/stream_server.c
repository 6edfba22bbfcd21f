/* stream_server.c - the upstream of bench/llm: answers chat completions with streams.
 *
 * usage: bench_stream_server PORT INTERVAL_US
 *
 * Every POST gets STREAM_EVENTS events, and one more with the usage if its body asks for it. With
 * an interval of 0 they go as fast as the socket takes them. Otherwise the first goes with the
 * head, the second after a random part of the interval, so that streams which began together do not
 * march in step, and the others an interval apart. Whatever is no POST gets the short body by which
 * bench/measuring.py knows that a server is up.
 *
 * One thread, everything in static memory. A connection that sends what this does not understand is
 * closed. */
#define _GNU_SOURCE /* accept4(), memmem(), strcasestr(), epoll_pwait2() */
#include "stream.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_BYTES_MAX 16384
#define PIECE_BYTES_MAX   1024 /* of the largest that is sent at once */
#define EVENTS_AT_ONCE    256  /* that epoll tells of */
#define NEVER_NS          UINT64_MAX

/* As a provider's looks, with limits that are never reached. */
static const char reply_head[] = "HTTP/1.1 200 OK\r\n"
                                 "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                                 "Content-Type: text/event-stream; charset=utf-8\r\n"
                                 "Transfer-Encoding: chunked\r\n"
                                 "Connection: keep-alive\r\n"
                                 "Cache-Control: no-cache\r\n"
                                 "openai-processing-ms: 0\r\n"
                                 "x-ratelimit-limit-requests: 1000000000\r\n"
                                 "x-ratelimit-remaining-requests: 999999999\r\n"
                                 "x-ratelimit-reset-requests: 1ms\r\n"
                                 "x-ratelimit-limit-tokens: 1000000000000\r\n"
                                 "x-ratelimit-remaining-tokens: 999999999999\r\n"
                                 "x-ratelimit-reset-tokens: 1ms\r\n"
                                 "x-request-id: req_0123456789abcdef0123456789abcdef\r\n\r\n";

static const char short_reply[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 128\r\n\r\n"
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.";

#define NO_STAMP "00000000000000000000"
#define CHUNK_OF \
    "\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"gpt-4o\","

#define TEXT_EVENT(more)                                                                        \
    STREAM_EVENT_START NO_STAMP CHUNK_OF "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" " \
                                         "river\"},\"finish_reason\":null}]" more "}\n\n"

/* As providers do: where the usage will be stated, all chunks before say that it is not there. */
static const char text_event[] = TEXT_EVENT("");
static const char text_null_event[] = TEXT_EVENT(",\"usage\":null");
static const char usage_event[] = STREAM_EVENT_START NO_STAMP CHUNK_OF
    "\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":198,"
    "\"total_tokens\":1198}}\n\n";
static const char last_event[] = STREAM_LAST_EVENT "\n\n";
static const char last_chunk[] = "0\r\n\r\n";

/* What is sent next, in this order; the text takes many turns. */
enum phase {
    PHASE_REQUEST, /* is read */
    PHASE_HEAD,
    PHASE_TEXT,
    PHASE_USAGE,
    PHASE_LAST_EVENT,
    PHASE_LAST_CHUNK,
};

struct connection {
    int socket; /* 0: nobody's */
    enum phase phase;
    bool wants_usage;
    unsigned sent_events; /* of text */
    uint64_t due_ns;      /* when the next may go */
    size_t rest_bytes;    /* of a piece that the socket did not take as a whole */
    size_t request_bytes;
    char rest[PIECE_BYTES_MAX];
    char request[REQUEST_BYTES_MAX + 1]; /* a zero follows what has been read */
};

static struct connection connections[STREAM_CONNECTIONS_MAX];
static size_t connections_used; /* none behind these has ever been somebody's */
static uint64_t interval_ns;
static int epoll;

/* ---- sending ---- */

static void hang_up(struct connection *connection)
{
    close(connection->socket);
    connection->socket = 0;
}

/* False if the connection is gone. What the socket does not take now is kept for later. */
static bool send_piece(struct connection *connection, const char *piece, size_t bytes)
{
    ssize_t sent = send(connection->socket, piece, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        hang_up(connection);
        return false;
    }
    size_t taken = sent < 0 ? 0 : (size_t)sent;
    assert(bytes - taken <= sizeof(connection->rest));
    connection->rest_bytes = bytes - taken;
    memmove(connection->rest, piece + taken, bytes - taken);
    return true;
}

static void write_stamp(char *place, uint64_t now_ns)
{
    for (int digit = STREAM_STAMP_DIGITS - 1; digit >= 0; digit--) {
        place[digit] = (char)('0' + now_ns % 10);
        now_ns /= 10;
    }
}

static bool send_event(struct connection *connection, const char *event, size_t bytes, bool stamped)
{
    char piece[PIECE_BYTES_MAX];
    int start = snprintf(piece, sizeof(piece), "%zx\r\n", bytes);
    assert(start > 0);
    size_t at = (size_t)start;
    assert(at + bytes + 2 <= sizeof(piece));

    memcpy(piece + at, event, bytes);
    memcpy(piece + at + bytes, "\r\n", 2);
    if (stamped) {
        write_stamp(piece + at + strlen(STREAM_EVENT_START), stream_now_ns());
    }
    return send_piece(connection, piece, at + bytes + 2);
}

/* ---- a stream ---- */

/* The second event's time, from a small generator that starts the same in every run. */
static uint64_t random_part_ns(void)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return interval_ns == 0 ? 0 : (state >> 32) % interval_ns;
}

static void plan_next(struct connection *connection, uint64_t now_ns)
{
    if (connection->sent_events == 1) {
        connection->due_ns = now_ns + random_part_ns();
        return;
    }
    connection->due_ns += interval_ns;
    if (connection->due_ns < now_ns) { /* late: two events never go at once to catch up */
        connection->due_ns = now_ns + interval_ns;
    }
}

static bool send_text(struct connection *connection, uint64_t now_ns)
{
    connection->sent_events++;
    plan_next(connection, now_ns);
    if (connection->sent_events == STREAM_EVENTS - 1) {
        connection->phase = connection->wants_usage ? PHASE_USAGE : PHASE_LAST_EVENT;
    }
    if (connection->wants_usage) {
        return send_event(connection, text_null_event, sizeof(text_null_event) - 1, true);
    }
    return send_event(connection, text_event, sizeof(text_event) - 1, true);
}

/* Sends what the phase says. The usage, the last event and the last chunk go one after the other,
 * like a provider's. */
static bool send_next(struct connection *connection, uint64_t now_ns)
{
    switch (connection->phase) {
    case PHASE_HEAD:
        connection->phase = PHASE_TEXT;
        return send_piece(connection, reply_head, sizeof(reply_head) - 1);
    case PHASE_TEXT:
        return send_text(connection, now_ns);
    case PHASE_USAGE:
        connection->phase = PHASE_LAST_EVENT;
        connection->due_ns = now_ns;
        return send_event(connection, usage_event, sizeof(usage_event) - 1, true);
    case PHASE_LAST_EVENT:
        connection->phase = PHASE_LAST_CHUNK;
        connection->due_ns = now_ns;
        return send_event(connection, last_event, sizeof(last_event) - 1, false);
    case PHASE_LAST_CHUNK:
        connection->phase = PHASE_REQUEST;
        return send_piece(connection, last_chunk, sizeof(last_chunk) - 1);
    case PHASE_REQUEST:
        break;
    }
    assert(false);
    return false;
}

/* Sends all that is due and that the socket takes. */
static void send_due(struct connection *connection)
{
    if (connection->rest_bytes > 0 &&
        !send_piece(connection, connection->rest, connection->rest_bytes)) {
        return;
    }
    while (connection->phase != PHASE_REQUEST && connection->rest_bytes == 0) {
        uint64_t now_ns = stream_now_ns();
        if (connection->due_ns > now_ns || !send_next(connection, now_ns)) {
            return;
        }
    }
}

/* ---- requests ---- */

/* Of the body, from a head that ends with a zero. */
static size_t content_length(const char *head)
{
    const char *field = strcasestr(head, "\r\ncontent-length:");
    return field == NULL ? 0 : strtoull(field + strlen("\r\ncontent-length:"), NULL, 10);
}

/* Begins the reply if the request is complete. False if the connection is gone. */
static bool answer(struct connection *connection)
{
    char *request = connection->request;
    char *head_end = strstr(request, "\r\n\r\n");
    if (head_end == NULL) {
        return true;
    }
    size_t head_bytes = (size_t)(head_end - request) + 4;
    head_end[2] = '\0';
    size_t body_bytes = content_length(request);
    head_end[2] = '\r';
    if (connection->request_bytes - head_bytes < body_bytes) {
        return true;
    }
    connection->request_bytes = 0; /* a next one is not sent before the reply has been read */
    if (strncmp(request, "POST ", 5) != 0) {
        return send_piece(connection, short_reply, sizeof(short_reply) - 1);
    }
    connection->wants_usage =
        memmem(request + head_bytes, body_bytes, "include_usage", strlen("include_usage")) != NULL;
    connection->sent_events = 0;
    connection->due_ns = 0;
    connection->phase = PHASE_HEAD;
    return true;
}

static void read_request(struct connection *connection)
{
    while (connection->phase == PHASE_REQUEST) {
        size_t room = REQUEST_BYTES_MAX - connection->request_bytes;
        ssize_t got =
            recv(connection->socket, connection->request + connection->request_bytes, room, 0);
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        if (got <= 0) { /* also a request that is too long: there was no room */
            hang_up(connection);
            return;
        }
        connection->request_bytes += (size_t)got;
        connection->request[connection->request_bytes] = '\0';
        if (!answer(connection)) {
            return;
        }
    }
}

/* Whatever can be done now. A request may have arrived before the end of the reply was sent, and is
 * not told of again. */
static void serve(struct connection *connection)
{
    if (connection->socket != 0) {
        send_due(connection);
    }
    if (connection->socket != 0) {
        read_request(connection);
    }
    if (connection->socket != 0 && connection->phase == PHASE_HEAD) {
        send_due(connection);
    }
}

/* ---- the loop ---- */

static void accept_all(int listener)
{
    for (;;) {
        int accepted = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted < 0) {
            return;
        }
        setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        size_t index = 0;
        while (index < connections_used && connections[index].socket != 0) {
            index++;
        }
        if (index == STREAM_CONNECTIONS_MAX) {
            close(accepted);
            continue;
        }
        connections_used += index == connections_used;
        struct connection *connection = &connections[index];
        connection->socket = accepted;
        connection->phase = PHASE_REQUEST;
        connection->request_bytes = 0;
        connection->rest_bytes = 0;
        stream_watch(epoll, accepted, connection);
    }
}

/* Whether a stream waits for its time rather than for a request or for its socket. */
static bool is_timed(const struct connection *connection)
{
    return connection->socket != 0 && connection->phase != PHASE_REQUEST &&
           connection->rest_bytes == 0;
}

/* Serves the streams whose time has come, and returns when the next one's comes. Looking at all of
 * some dozens costs less than one system call. */
static uint64_t serve_timed(uint64_t now_ns)
{
    uint64_t next_ns = NEVER_NS;
    for (size_t index = 0; index < connections_used; index++) {
        struct connection *connection = &connections[index];
        if (is_timed(connection) && connection->due_ns <= now_ns) {
            serve(connection);
        }
        if (is_timed(connection) && connection->due_ns < next_ns) {
            next_ns = connection->due_ns;
        }
    }
    return next_ns;
}

/* Events until `until_ns`, the number of them. */
static int wait_for_events(struct epoll_event *events, uint64_t until_ns)
{
    uint64_t now_ns = stream_now_ns();
    uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec left = {.tv_sec = (time_t)(left_ns / STREAM_NS_PER_SECOND),
                            .tv_nsec = (long)(left_ns % STREAM_NS_PER_SECOND)};
    int count =
        epoll_pwait2(epoll, events, EVENTS_AT_ONCE, until_ns == NEVER_NS ? NULL : &left, NULL);
    if (count < 0 && errno != EINTR) {
        stream_give_up("epoll_pwait2");
    }
    return count;
}

static int listen_on(uint16_t port)
{
    int listener = stream_socket();
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, STREAM_CONNECTIONS_MAX) != 0) {
        stream_give_up("cannot listen");
    }
    return listener;
}

int main(int argc, char **argv)
{
    static struct epoll_event events[EVENTS_AT_ONCE];
    if (argc != 3) {
        fprintf(stderr, "usage: bench_stream_server PORT INTERVAL_US\n");
        return 2;
    }
    int listener = listen_on((uint16_t)stream_number("PORT", argv[1], 1, UINT16_MAX));
    interval_ns = 1000 * stream_number("INTERVAL_US", argv[2], 0, 1000000);
    epoll = stream_epoll();
    stream_watch(epoll, listener, NULL);
    for (;;) {
        int count = wait_for_events(events, serve_timed(stream_now_ns()));
        for (int index = 0; index < count; index++) {
            if (events[index].data.ptr == NULL) {
                accept_all(listener);
            } else {
                serve(events[index].data.ptr);
            }
        }
    }
}
