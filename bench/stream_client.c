/* stream_client.c - the client of bench/llm: asks for streams and measures how they arrive.
 *
 * usage: bench_stream_client PORT CONNECTIONS SECONDS SPREAD_US
 *
 * The connections are opened one by one, evenly over the spread: streams of one length that began
 * together would end and begin again together ever after, and what is measured would be these
 * moments. Each asks again as soon as its stream has ended. So many seconds after the last one was
 * opened no new request is made, and those under way are read to their end: whatever a proxy did in
 * this time was done for requests that are counted. The report is one line of JSON on stdout:
 *
 *   requests, events  that arrived as a whole
 *   event_us          how long events took from their sender's write to here: p50 and p99. The
 *                     last event of a stream, which has no id, does not count
 *   first_us          from sending the request to the first event
 *   faults, fault     connections that failed, and why the first of them did
 *
 * A connection that fails is not used again. One thread; everything in static memory. */
#define _GNU_SOURCE /* SOCK_NONBLOCK */
#include "stream.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE_BYTES_MAX  1024
#define READ_BYTES      65536
#define GRACE_NS        (30 * STREAM_NS_PER_SECOND)
#define CHUNK_BYTES_MAX (UINT64_C(1) << 30)
#define REQUEST_BYTES   (STREAM_REQUEST_BODY_BYTES + 512)

/* ---- how often each delay was seen ---- */

/* Delays by their leading bits: a slot is at most 1/256 of its delay wide. */
#define SLOT_BITS  8
#define SLOTS_EACH (1u << SLOT_BITS)
#define SLOTS      (SLOTS_EACH * (64 - SLOT_BITS + 1))

struct histogram {
    uint64_t total;
    uint32_t counts[SLOTS];
};

static unsigned slot_of(uint64_t delay_ns)
{
    if (delay_ns < SLOTS_EACH) {
        return (unsigned)delay_ns;
    }
    unsigned shift = 63u - SLOT_BITS - (unsigned)__builtin_clzll(delay_ns);
    return (shift + 1) * SLOTS_EACH + (unsigned)((delay_ns >> shift) - SLOTS_EACH);
}

static double slot_start_us(unsigned slot)
{
    if (slot < SLOTS_EACH) {
        return slot / 1000.0;
    }
    uint64_t start_ns = (uint64_t)(slot % SLOTS_EACH + SLOTS_EACH) << (slot / SLOTS_EACH - 1);
    return (double)start_ns / 1000.0;
}

static void histogram_add(struct histogram *histogram, uint64_t delay_ns)
{
    unsigned slot = slot_of(delay_ns);
    assert(slot < SLOTS);
    histogram->counts[slot]++;
    histogram->total++;
}

static double histogram_us(const struct histogram *histogram, double share)
{
    uint64_t seen = 0;
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        seen += histogram->counts[slot];
        if (seen > 0 && (double)seen >= share * (double)histogram->total) {
            return slot_start_us(slot);
        }
    }
    return 0;
}

/* ---- connections ---- */

enum phase {
    PHASE_IDLE,     /* nothing is under way, or it has failed */
    PHASE_STATUS,   /* from here on a line is read */
    PHASE_FIELDS,   /* of the head */
    PHASE_SIZE,     /* of a chunk */
    PHASE_DATA,     /* all but a line: so many bytes */
    PHASE_DATA_END, /* the line end behind them */
    PHASE_TRAILERS,
};

struct line {
    size_t bytes;
    char text[LINE_BYTES_MAX];
};

struct connection {
    int socket;
    enum phase phase;
    bool is_chunked;
    bool is_done;      /* the last event has come */
    unsigned events;   /* of this stream */
    size_t sent_bytes; /* of the request */
    uint64_t asked_ns;
    uint64_t chunk_left_bytes;
    struct line frame; /* of the head, or of what frames a chunk */
    struct line event; /* goes on from one chunk to the next */
};

static struct connection connections[STREAM_CONNECTIONS_MAX];
static char request[REQUEST_BYTES];
static size_t request_bytes;
static size_t wanted;   /* connections */
static size_t opened;   /* of these */
static unsigned active; /* of these: not idle */
static uint64_t spread_ns;
static uint64_t began_ns;
static uint64_t stop_ns; /* no new requests from then on */

static uint64_t requests;
static uint64_t events_seen;
static uint64_t faults;
static const char *first_fault = "";
static struct histogram event_delays;
static struct histogram first_delays;

/* Always false, for those that return whether to go on. */
static bool fail(struct connection *connection, const char *why)
{
    if (faults++ == 0) {
        first_fault = why;
    }
    close(connection->socket);
    connection->phase = PHASE_IDLE;
    active--;
    return false;
}

static bool send_request(struct connection *connection)
{
    ssize_t sent = send(connection->socket, request + connection->sent_bytes,
                        request_bytes - connection->sent_bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != ENOTCONN) {
        return fail(connection, "a request could not be sent");
    }
    connection->sent_bytes += sent < 0 ? 0 : (size_t)sent;
    return true;
}

static bool ask(struct connection *connection, uint64_t now_ns)
{
    connection->phase = PHASE_STATUS;
    connection->is_chunked = false;
    connection->is_done = false;
    connection->events = 0;
    connection->sent_bytes = 0;
    connection->asked_ns = now_ns;
    return send_request(connection);
}

/* The stream has ended. */
static bool finish(struct connection *connection, uint64_t now_ns)
{
    if (!connection->is_done || connection->events != STREAM_EVENTS) {
        return fail(connection, "a stream had too few events, or too many");
    }
    requests++;
    if (now_ns < stop_ns) {
        return ask(connection, now_ns);
    }
    connection->phase = PHASE_IDLE;
    active--;
    return true;
}

/* ---- what is read ---- */

static bool starts_with(const struct line *line, const char *start)
{
    return line->bytes >= strlen(start) && memcmp(line->text, start, strlen(start)) == 0;
}

static bool take_stamp(const char *digits, uint64_t *stamp_ns)
{
    uint64_t number = 0;
    for (int index = 0; index < STREAM_STAMP_DIGITS; index++) {
        if (digits[index] < '0' || digits[index] > '9') {
            return false;
        }
        number = number * 10 + (uint64_t)(digits[index] - '0');
    }
    *stamp_ns = number;
    return true;
}

/* A line of the stream, without its end; events are a line and an empty one. */
static bool take_event(struct connection *connection, uint64_t now_ns)
{
    const struct line *line = &connection->event;
    size_t start = strlen(STREAM_EVENT_START);
    uint64_t stamp_ns = 0;
    if (line->bytes == 0) {
        return true;
    }
    connection->events++;
    events_seen++;
    if (starts_with(line, STREAM_LAST_EVENT)) {
        connection->is_done = true;
        return true;
    }
    if (connection->is_done || !starts_with(line, STREAM_EVENT_START) ||
        line->bytes < start + STREAM_STAMP_DIGITS || !take_stamp(line->text + start, &stamp_ns) ||
        stamp_ns > now_ns) {
        return fail(connection, "a stream had something that is no event of the server's");
    }
    histogram_add(&event_delays, now_ns - stamp_ns);
    if (connection->events == 1) {
        histogram_add(&first_delays, now_ns - connection->asked_ns);
    }
    return true;
}

/* Adds input up to the end of the line, and says how much that was; 0 if the line is too long.
 * `is_whole` says whether it has ended. The end itself is not kept. */
static size_t line_add(struct line *line, const char *input, size_t bytes, bool *is_whole)
{
    const char *end = memchr(input, '\n', bytes);
    size_t used = end == NULL ? bytes : (size_t)(end - input) + 1;
    size_t kept = end == NULL ? used : used - 1;
    *is_whole = end != NULL;
    if (kept > sizeof(line->text) - line->bytes) {
        return 0;
    }
    memcpy(line->text + line->bytes, input, kept);
    line->bytes += kept;
    if (*is_whole && line->bytes > 0 && line->text[line->bytes - 1] == '\r') {
        line->bytes--;
    }
    return used;
}

static bool take_data(struct connection *connection, const char *input, size_t bytes,
                      uint64_t now_ns)
{
    while (bytes > 0) {
        bool is_whole = false;
        size_t used = line_add(&connection->event, input, bytes, &is_whole);
        if (used == 0) {
            return fail(connection, "a line of a stream is too long");
        }
        if (is_whole) {
            if (!take_event(connection, now_ns)) {
                return false;
            }
            connection->event.bytes = 0;
        }
        input += used;
        bytes -= used;
    }
    return true;
}

static bool take_field(struct connection *connection)
{
    static const char chunked[] = "transfer-encoding: chunked";
    const struct line *line = &connection->frame;
    if (line->bytes == 0) {
        connection->phase = PHASE_SIZE;
        return connection->is_chunked || fail(connection, "a reply is not chunked");
    }
    if (line->bytes == sizeof(chunked) - 1 && strncasecmp(line->text, chunked, line->bytes) == 0) {
        connection->is_chunked = true;
    }
    return true;
}

static bool take_size(struct connection *connection)
{
    struct line *line = &connection->frame;
    char *end = NULL;
    if (line->bytes == sizeof(line->text)) {
        return fail(connection, "the size of a chunk is too long");
    }
    line->text[line->bytes] = '\0';
    connection->chunk_left_bytes = strtoull(line->text, &end, 16);
    if (end == line->text || connection->chunk_left_bytes > CHUNK_BYTES_MAX) {
        return fail(connection, "a chunk has no size, or one beyond all bounds");
    }
    connection->phase = connection->chunk_left_bytes == 0 ? PHASE_TRAILERS : PHASE_DATA;
    return true;
}

/* A whole line of what frames the stream. */
static bool take_frame(struct connection *connection, uint64_t now_ns)
{
    const struct line *line = &connection->frame;
    switch (connection->phase) {
    case PHASE_STATUS:
        connection->phase = PHASE_FIELDS;
        return starts_with(line, "HTTP/1.1 200") || fail(connection, "a reply is not 200");
    case PHASE_FIELDS:
        return take_field(connection);
    case PHASE_SIZE:
        return take_size(connection);
    case PHASE_DATA_END:
        connection->phase = PHASE_SIZE;
        return line->bytes == 0 || fail(connection, "a chunk is longer than its size");
    case PHASE_TRAILERS:
        return line->bytes != 0 || finish(connection, now_ns);
    case PHASE_IDLE:
    case PHASE_DATA:
        break;
    }
    assert(false);
    return false;
}

/* Takes a part of the input, and says how much; 0 after a failure. */
static size_t take_some(struct connection *connection, const char *input, size_t bytes,
                        uint64_t now_ns)
{
    if (connection->phase == PHASE_DATA) {
        uint64_t left = connection->chunk_left_bytes;
        size_t used = left < bytes ? (size_t)left : bytes;
        connection->chunk_left_bytes -= used;
        if (connection->chunk_left_bytes == 0) {
            connection->phase = PHASE_DATA_END;
        }
        return take_data(connection, input, used, now_ns) ? used : 0;
    }
    bool is_whole = false;
    size_t used = line_add(&connection->frame, input, bytes, &is_whole);
    if (used == 0) {
        fail(connection, "a line of a reply is too long");
    } else if (is_whole) {
        bool goes_on = take_frame(connection, now_ns);
        connection->frame.bytes = 0;
        return goes_on ? used : 0;
    }
    return used;
}

static void take_input(struct connection *connection, const char *input, size_t bytes,
                       uint64_t now_ns)
{
    while (bytes > 0) {
        if (connection->phase == PHASE_IDLE) {
            if (faults++ == 0) {
                first_fault = "a reply goes on behind its end";
            }
            return;
        }
        size_t used = take_some(connection, input, bytes, now_ns);
        if (used == 0) {
            return;
        }
        input += used;
        bytes -= used;
    }
}

/* All that there is to read. The clock is read after each read: nothing of it came later. */
static void read_reply(struct connection *connection)
{
    static char input[READ_BYTES];
    while (connection->phase != PHASE_IDLE) {
        ssize_t got = recv(connection->socket, input, sizeof(input), 0);
        if (got < 0 && (errno == EAGAIN || errno == ENOTCONN)) {
            return;
        }
        if (got <= 0) {
            fail(connection, got == 0 ? "a connection was closed" : strerror(errno));
            return;
        }
        take_input(connection, input, (size_t)got, stream_now_ns());
    }
}

/* ---- the whole ---- */

/* A body of the agreed length, mostly the text of one message. */
static void prepare_request(uint16_t port)
{
    static const char start[] = "{\"model\":\"gpt-4o\",\"stream\":true,\"max_tokens\":1000,"
                                "\"messages\":[{\"role\":\"user\",\"content\":\"";
    static const char end[] = "\"}]}";
    static const char words[] = "where does the river go ";
    int head = snprintf(request, sizeof(request),
                        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                        "Accept: application/json\r\nContent-Type: application/json\r\n"
                        "User-Agent: bench_stream_client\r\nAuthorization: Bearer sk-bench\r\n"
                        "Content-Length: %d\r\n\r\n%s",
                        port, STREAM_REQUEST_BODY_BYTES, start);
    assert(head > 0 && (size_t)head + STREAM_REQUEST_BODY_BYTES < sizeof(request));
    size_t body_start = (size_t)head - strlen(start);
    request_bytes = body_start + STREAM_REQUEST_BODY_BYTES;
    for (size_t at = (size_t)head; at < request_bytes - strlen(end); at++) {
        request[at] = words[(at - (size_t)head) % strlen(words)];
    }
    memcpy(request + request_bytes - strlen(end), end, strlen(end));
}

/* Opens those whose time has come. */
static void open_due(int epoll, uint16_t port)
{
    uint64_t now_ns = stream_now_ns();
    while (opened < wanted && now_ns - began_ns >= spread_ns * opened / wanted) {
        struct connection *connection = &connections[opened++];
        connection->socket = stream_connect(port);
        stream_watch(epoll, connection->socket, connection);
        active++;
        ask(connection, now_ns);
    }
}

static void go_on(void *owner)
{
    struct connection *connection = owner;
    if (connection->phase != PHASE_STATUS || connection->sent_bytes >= request_bytes ||
        send_request(connection)) {
        read_reply(connection);
    }
}

static void run(int epoll, uint16_t port)
{
    while ((opened < wanted || active > 0) && stream_now_ns() < stop_ns + GRACE_NS) {
        open_due(epoll, port);
        stream_turn(epoll, go_on);
    }
    if (active > 0 && faults == 0) {
        first_fault = "a stream did not end";
    }
    faults += active;
}

static void report(void)
{
    printf("{\"requests\": %" PRIu64 ", \"events\": %" PRIu64
           ", \"event_us\": {\"p50\": %.1f, \"p99\": %.1f}"
           ", \"first_us\": {\"p50\": %.1f, \"p99\": %.1f}"
           ", \"faults\": %" PRIu64 ", \"fault\": \"%s\"}\n",
           requests, events_seen, histogram_us(&event_delays, 0.5),
           histogram_us(&event_delays, 0.99), histogram_us(&first_delays, 0.5),
           histogram_us(&first_delays, 0.99), faults, first_fault);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: bench_stream_client PORT CONNECTIONS SECONDS SPREAD_US\n");
        return 2;
    }
    uint16_t port = (uint16_t)stream_number("PORT", argv[1], 1, UINT16_MAX);
    wanted = stream_number("CONNECTIONS", argv[2], 1, STREAM_CONNECTIONS_MAX);
    uint64_t seconds = stream_number("SECONDS", argv[3], 1, 3600);
    spread_ns = 1000 * stream_number("SPREAD_US", argv[4], 0, 60000000);
    int epoll = stream_epoll();
    prepare_request(port);
    began_ns = stream_now_ns();
    stop_ns = began_ns + spread_ns + seconds * STREAM_NS_PER_SECOND;
    run(epoll, port);
    report();
    return 0;
}
