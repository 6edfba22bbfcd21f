/* client.c - a blocking HTTP/1 client for the API: connects, sends a request with an optional
 * upload, and reads the reply. A caller has one connection and one thread; every wait also watches
 * `stop_fd`. */
#define _POSIX_C_SOURCE 200809L
#include "cli/client.h"

#include "base/clock.h"
#include "config/address.h"
#include "config/scalars.h"
#include "net/socket.h"
#include "wire/chunked.h"
#include "wire/head_writer.h"
#include "wire/http1.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CONNECT_PATIENCE_MS 10000
#define FINISH_PATIENCE_MS  1000

/* A path of three names of 255 bytes, each written %xx, a token and the rest. */
#define REQUEST_BYTES_MAX 16384

#define FIRST_ROOM 16384

/* How much of an upload is read at once. */
#define UPLOAD_PIECE 65536

/* The received part of a reply: its head, then its body without frames. */
struct receipt {
    char *data;
    size_t bytes;
    size_t capacity;
    uint64_t until_ns;    /* the deadline; WEIR_NEVER: none */
    uint64_t patience_ms; /* how far the deadline moves when bytes arrive; 0: it does not */
    uint32_t retry_after_s;
    struct weir_http1_head head;
};

static bool fail_call(struct weir_caller *caller, const char *what, const char *why)
{
    snprintf(caller->error, sizeof caller->error, "%s: %s", what, why);
    return false;
}

/* Fails because the other side is gone or broken. */
static bool fail_lost(struct weir_caller *caller, const char *what, const char *why)
{
    caller->lost = !caller->stopped;
    return fail_call(caller, what, why);
}

/* ---- waiting ---- */

static uint64_t after_ms(uint64_t ms)
{
    return weir_clock_ns() + ms * WEIR_NS_PER_MS;
}

static int ms_until(uint64_t until_ns)
{
    uint64_t now_ns = weir_clock_ns();
    if (until_ns == WEIR_NEVER) {
        return -1;
    }
    return until_ns <= now_ns ? 0 : (int)((until_ns - now_ns) / WEIR_NS_PER_MS + 1);
}

/* Waits until the socket is ready. 0, or an errno: ETIMEDOUT, ECANCELED when stopped. */
static int wait_for(struct weir_caller *caller, short events, uint64_t until_ns)
{
    for (;;) {
        struct pollfd polled[] = {{.fd = caller->fd, .events = events},
                                  {.fd = caller->stop_fd, .events = POLLIN}};
        int ready = poll(polled, 2, ms_until(until_ns));
        if (ready == -1 && errno != EINTR) {
            return errno;
        }
        if (ready == 0) {
            return ETIMEDOUT;
        }
        if (ready > 0 && polled[1].revents != 0) {
            caller->stopped = true;
            return ECANCELED;
        }
        if (ready > 0) {
            return 0;
        }
    }
}

/* ---- connecting ---- */

static bool fail_to_connect(struct weir_caller *caller, const char *address, const char *why)
{
    snprintf(caller->error, sizeof caller->error,
             "cannot connect to %.200s: %s. Check that `weir serve` runs and that this is the "
             "`api` address of its config; --api or WEIR_API set the address.",
             address, why);
    caller->lost = !caller->stopped;
    return false;
}

/* Returns 0 or an errno. */
static int connect_to(struct weir_caller *caller, const struct weir_address *address)
{
    caller->fd = weir_socket_connect(address);
    if (caller->fd == -1) {
        return errno;
    }
    int error = wait_for(caller, POLLOUT, after_ms(CONNECT_PATIENCE_MS));
    if (error == 0) {
        error = weir_socket_error(caller->fd);
    }
    if (error != 0) {
        weir_caller_close(caller);
    }
    return error;
}

static bool connect_unix(struct weir_caller *caller, const char *text, struct weir_slice path)
{
    char copy[WEIR_ADDRESS_PATH_BYTES_MAX + 6];
    struct weir_address address;
    int bytes = snprintf(copy, sizeof copy, "unix:%.*s", (int)path.bytes, path.data);
    assert(bytes > 0 && (size_t)bytes < sizeof copy);
    const char *error = weir_address_parse(&address, weir_slice_of(copy));
    if (error != NULL) {
        return fail_call(caller, text, error);
    }
    int code = connect_to(caller, &address);
    return code == 0 || fail_to_connect(caller, text, strerror(code));
}

/* A name may have several addresses, of which only one may be listened on: localhost has two. */
static bool connect_tcp(struct weir_caller *caller, const char *text, const char *host,
                        const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error != 0) {
        return fail_to_connect(caller, text, gai_strerror(error));
    }
    error = ENOENT;
    for (struct addrinfo *each = found; each != NULL && error != 0; each = each->ai_next) {
        struct weir_address address = {.bytes = each->ai_addrlen};
        memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
        error = connect_to(caller, &address);
    }
    freeaddrinfo(found);
    return error == 0 || fail_to_connect(caller, text, strerror(error));
}

static bool read_address(const char *text, struct weir_config_address *address)
{
    struct weir_config_url url;
    if (weir_config_address_read(weir_slice_of(text), address)) {
        return true;
    }
    if (weir_config_url_read(weir_slice_of(text), &url) != WEIR_URL_GOOD || url.tls) {
        return false;
    }
    *address = url.address;
    return true;
}

bool weir_caller_open(struct weir_caller *caller, const char *text, int stop_fd, bool *usage)
{
    struct weir_config_address address;
    char host[256], port[8];
    *caller = (struct weir_caller){.fd = -1, .stop_fd = stop_fd, .host = "localhost"};
    *usage =
        !read_address(text, &address) || (address.kind != WEIR_CONFIG_ADDRESS_UNIX &&
                                          (address.port == 0 || address.host.bytes >= sizeof host));
    if (*usage) {
        snprintf(caller->error, sizeof caller->error,
                 "%.200s is not an API address: expected host:port, [v6]:port, http://host:port or "
                 "unix:/path",
                 text);
        return false;
    }
    if (address.kind == WEIR_CONFIG_ADDRESS_UNIX) {
        return connect_unix(caller, text, address.path);
    }
    snprintf(host, sizeof host, "%.*s", (int)address.host.bytes, address.host.data);
    snprintf(port, sizeof port, "%u", address.port);
    bool is_v6 = strchr(host, ':') != NULL;
    snprintf(caller->host, sizeof caller->host, "%s%s%s:%s", is_v6 ? "[" : "", host,
             is_v6 ? "]" : "", port);
    return connect_tcp(caller, text, host, port);
}

void weir_caller_close(struct weir_caller *caller)
{
    if (caller->fd != -1) {
        close(caller->fd);
        caller->fd = -1;
    }
}

void weir_caller_finish(struct weir_caller *caller)
{
    char rest[1024];
    uint64_t until_ns = after_ms(FINISH_PATIENCE_MS);
    if (caller->fd == -1 || shutdown(caller->fd, SHUT_WR) == -1) {
        return;
    }
    while (wait_for(caller, POLLIN, until_ns) == 0) {
        ssize_t got = recv(caller->fd, rest, sizeof rest, 0);
        if (got == 0 || (got == -1 && errno != EAGAIN && errno != EINTR)) {
            return;
        }
    }
}

/* ---- the request ---- */

static bool send_all(struct weir_caller *caller, struct weir_slice bytes)
{
    uint64_t until_ns = after_ms(WEIR_ANSWER_PATIENCE_MS);
    while (bytes.bytes > 0) {
        ssize_t sent = send(caller->fd, bytes.data, bytes.bytes, MSG_NOSIGNAL);
        int error = sent == -1 ? errno : 0;
        if (error == EAGAIN) {
            error = wait_for(caller, POLLOUT, until_ns);
            sent = 0;
        }
        if (error != 0 && error != EINTR) {
            return fail_lost(caller, "the request cannot be sent", strerror(error));
        }
        size_t went = error == EINTR ? 0 : (size_t)sent;
        bytes.data += went;
        bytes.bytes -= went;
    }
    return true;
}

static void put_framing(struct weir_head_writer *writer, const struct weir_question *question)
{
    const char *type = question->upload != NULL   ? "application/octet-stream"
                       : question->body.bytes > 0 ? "application/json"
                                                  : NULL;
    if (type != NULL) {
        weir_head_field(writer, weir_slice_of("content-type"), weir_slice_of(type));
    }
    if (type != NULL || strcmp(question->method, "POST") == 0) {
        uint64_t bytes = question->upload != NULL ? question->upload->bytes : question->body.bytes;
        weir_head_field_number(writer, weir_slice_of("content-length"), bytes);
    }
}

static uint64_t patience_of(const struct weir_question *question)
{
    return question->patience_ms == 0 ? WEIR_ANSWER_PATIENCE_MS : question->patience_ms;
}

/* Waits until there is room for more. False also when sending more is useless, because the reply
 * has begun or the connection has ended: reading the reply shows which. */
static bool may_send_more(struct weir_caller *caller, uint64_t until_ns, int *error)
{
    struct pollfd polled = {.fd = caller->fd, .events = POLLIN};
    *error = wait_for(caller, POLLIN | POLLOUT, until_ns);
    return *error == 0 && poll(&polled, 1, 0) == 0;
}

/* Sends as many of the bytes as there is room for, and reports how many. */
static bool send_some(struct weir_caller *caller, struct weir_slice bytes, size_t *sent)
{
    ssize_t went = send(caller->fd, bytes.data, bytes.bytes, MSG_NOSIGNAL);
    *sent = went > 0 ? (size_t)went : 0;
    return went >= 0 || errno == EAGAIN || errno == EINTR;
}

/* Sends a body from a file. True also if the other side stops reading. */
static bool send_upload(struct weir_caller *caller, const struct weir_question *question)
{
    const struct weir_upload *upload = question->upload;
    char piece[UPLOAD_PIECE];
    uint64_t at = 0;
    while (at < upload->bytes) {
        uint64_t left = upload->bytes - at;
        ssize_t got =
            pread(upload->fd, piece, left < sizeof piece ? (size_t)left : sizeof piece, (off_t)at);
        if (got <= 0) {
            return fail_call(caller, "the file to send cannot be read",
                             got == 0 ? "the file has become shorter while it was sent"
                                      : strerror(errno));
        }
        int error;
        size_t sent;
        if (!may_send_more(caller, after_ms(patience_of(question)), &error)) {
            return error == 0 || fail_lost(caller, "the request cannot be sent", strerror(error));
        }
        if (!send_some(caller, (struct weir_slice){piece, (size_t)got}, &sent)) {
            return true;
        }
        at += sent;
    }
    return true;
}

static bool send_call(struct weir_caller *caller, const struct weir_question *question)
{
    char head[REQUEST_BYTES_MAX];
    struct weir_head_writer writer;
    weir_head_init(&writer, head, sizeof head);
    weir_head_request(&writer, weir_slice_of(question->method), weir_slice_of(question->path));
    weir_head_field(&writer, weir_slice_of("host"), weir_slice_of(caller->host));
    if (question->token.bytes > 0) {
        weir_head_open(&writer, weir_slice_of("authorization"));
        weir_head_part(&writer, weir_slice_of("Bearer "));
        weir_head_part(&writer, question->token);
        weir_head_close(&writer);
    }
    put_framing(&writer, question);
    if (!question->line_only && question->line == NULL) {
        weir_head_field(&writer, weir_slice_of("connection"), weir_slice_of("close"));
    }
    if (!weir_head_end(&writer)) {
        return fail_call(
            caller, "the request cannot be sent",
            "the token or a name is too long, or has characters that HTTP does not allow");
    }
    return send_all(caller, (struct weir_slice){head, writer.bytes}) &&
           (question->upload != NULL ? send_upload(caller, question)
                                     : send_all(caller, question->body));
}

/* ---- the reply ---- */

/* One byte is kept for the zero at the end. */
static bool make_room(struct receipt *receipt)
{
    if (receipt->capacity - receipt->bytes > 1) {
        return true;
    }
    size_t capacity = receipt->capacity == 0 ? FIRST_ROOM : receipt->capacity * 2;
    char *data =
        capacity > 2 * WEIR_ANSWER_BODY_MAX ? NULL : realloc(receipt->data, capacity); /* bounded */
    if (data == NULL) {
        return false;
    }
    receipt->data = data;
    receipt->capacity = capacity;
    return true;
}

/* Appends the next bytes. Returns 0 also at the end, which sets `ended`; else an errno. */
static int receive_some(struct weir_caller *caller, struct receipt *receipt, bool *ended)
{
    *ended = false;
    if (!make_room(receipt)) {
        return ENOMEM;
    }
    for (;;) {
        int error = wait_for(caller, POLLIN, receipt->until_ns);
        if (error != 0) {
            return error;
        }
        ssize_t got = recv(caller->fd, receipt->data + receipt->bytes,
                           receipt->capacity - receipt->bytes - 1, 0);
        if (got >= 0) {
            if (receipt->patience_ms != 0) {
                receipt->until_ns = after_ms(receipt->patience_ms);
            }
            receipt->bytes += (size_t)got;
            *ended = got == 0;
            return 0;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return errno;
        }
    }
}

static bool fail_to_receive(struct weir_caller *caller, int error)
{
    if (error == ETIMEDOUT) {
        return fail_lost(caller, "the API does not answer",
                         "check that the address is weir's `api`, and that it is not overloaded");
    }
    return fail_lost(caller, "the connection to the API broke",
                     error == 0 ? "it was closed before the reply; has `weir serve` ended?"
                                : strerror(error));
}

static bool is_hint(const struct weir_http1_head *head)
{
    return head->status >= 100 && head->status < 200;
}

/* Retry-After in seconds; a date is ignored, since Weir never sends one. */
static uint32_t read_retry_after(const struct receipt *receipt)
{
    const struct weir_http1_field *field = weir_http1_find(&receipt->head, WEIR_FIELD_RETRY_AFTER);
    uint64_t seconds = 0;
    bool known =
        field != NULL && weir_scalar_number(weir_http1_value(receipt->data, field), &seconds);
    return !known ? 0 : seconds > INT32_MAX ? INT32_MAX : (uint32_t)seconds;
}

/* Reads heads until the final one (not 1xx), and takes it off the received bytes. */
static bool receive_head(struct weir_caller *caller, struct receipt *receipt,
                         enum weir_http_method method)
{
    for (;;) {
        weir_http1_init_response(&receipt->head, WEIR_HTTP1_LIMITS_DEFAULT, method);
        enum weir_http1_result result;
        while ((result = weir_http1_parse(&receipt->head, receipt->data, receipt->bytes)) ==
               WEIR_HTTP1_NEED_MORE) {
            bool ended;
            int error = receive_some(caller, receipt, &ended);
            if (error != 0 || ended) {
                return fail_to_receive(caller, error);
            }
        }
        if (result == WEIR_HTTP1_FAULT) {
            return fail_call(caller, "the server is not a weir API",
                             weir_http_fault_text(receipt->head.fault));
        }
        size_t head_bytes = receipt->head.head_bytes;
        receipt->retry_after_s = read_retry_after(receipt);
        receipt->bytes -= head_bytes;
        memmove(receipt->data, receipt->data + head_bytes, receipt->bytes);
        if (!is_hint(&receipt->head)) {
            return true;
        }
    }
}

/* The progress of a body: how many received bytes were parsed, and how many of those are body,
 * which is compacted at the front. */
struct body_progress {
    struct weir_chunked chunked;
    size_t looked;
    size_t body;
    bool complete;
};

static bool take_chunks(struct body_progress *progress, struct receipt *receipt)
{
    for (;;) {
        struct weir_slice fresh = {receipt->data + progress->looked,
                                   receipt->bytes - progress->looked};
        struct weir_slice piece;
        size_t used;
        enum weir_chunked_event event = weir_chunked_next(&progress->chunked, fresh, &used, &piece);
        progress->looked += used;
        if (event == WEIR_CHUNKED_BODY) {
            memmove(receipt->data + progress->body, piece.data, piece.bytes);
            progress->body += piece.bytes;
            continue;
        }
        progress->complete = event == WEIR_CHUNKED_END;
        /* The rest are parsed frames, whose room is free again. */
        if (event == WEIR_CHUNKED_NEED_MORE) {
            receipt->bytes = progress->looked = progress->body;
        }
        return event != WEIR_CHUNKED_FAULT;
    }
}

/* False if it is no body. */
static bool take_body(struct body_progress *progress, struct receipt *receipt, bool ended)
{
    const struct weir_http1_head *head = &receipt->head;
    if (head->framing == WEIR_FRAMING_CHUNKED) {
        return take_chunks(progress, receipt);
    }
    progress->body = receipt->bytes;
    if (head->framing == WEIR_FRAMING_UNTIL_CLOSE) {
        progress->complete = ended;
        return true;
    }
    uint64_t length = head->framing == WEIR_FRAMING_LENGTH ? head->content_length : 0;
    progress->complete = receipt->bytes >= length;
    progress->body = progress->complete ? (size_t)length : progress->body;
    return true;
}

static bool receive_body(struct weir_caller *caller, struct receipt *receipt, bool line_only,
                         size_t *body_bytes)
{
    struct body_progress progress = {0};
    bool ended = false;
    weir_chunked_init(&progress.chunked, WEIR_ANSWER_BODY_MAX);
    for (;;) {
        if (!take_body(&progress, receipt, ended)) {
            return fail_call(caller, "the server is not a weir API", "its reply cannot be read");
        }
        bool has_line =
            line_only && progress.body > 0 && memchr(receipt->data, '\n', progress.body) != NULL;
        if (progress.complete || has_line) {
            *body_bytes = progress.body;
            return true;
        }
        int error = ended ? 0 : receive_some(caller, receipt, &ended);
        if (error != 0 || (ended && receipt->head.framing != WEIR_FRAMING_UNTIL_CLOSE)) {
            return fail_to_receive(caller, error);
        }
    }
}

/* Passes on the complete lines, and keeps the rest. False if `line` wants no more. */
static bool pass_lines(const struct weir_question *question, struct body_progress *progress,
                       struct receipt *receipt)
{
    size_t told = 0;
    bool more = true;
    while (more) {
        const char *from = receipt->data + told;
        const char *end = memchr(from, '\n', progress->body - told);
        if (end == NULL) {
            break;
        }
        size_t bytes = (size_t)(end - from) + 1;
        more = question->line(question->context, (struct weir_slice){from, bytes});
        told += bytes;
    }
    assert(receipt->bytes == progress->body);
    receipt->bytes = progress->looked = progress->body -= told;
    memmove(receipt->data, receipt->data + told, receipt->bytes);
    return more;
}

/* Reads lines until `line` wants no more, which is success. */
static bool receive_lines(struct weir_caller *caller, struct receipt *receipt,
                          const struct weir_question *question)
{
    struct body_progress progress = {0};
    bool ended = false;
    weir_chunked_init(&progress.chunked, UINT64_MAX);
    receipt->until_ns = WEIR_NEVER;
    for (;;) {
        if (!take_body(&progress, receipt, ended) || progress.complete) {
            return fail_call(caller, "the reply ended", "the end of the stream, or an invalid one");
        }
        if (progress.body > 0 && !pass_lines(question, &progress, receipt)) {
            return true;
        }
        int error = receive_some(caller, receipt, &ended);
        if (error != 0 || ended) {
            return fail_call(caller, "the reply ended",
                             error == 0 ? "has `weir serve` ended?" : strerror(error));
        }
    }
}

/* Parses the received part of the body: `piece` is the new part of it. False if it is not valid. */
static bool take_piece(struct body_progress *progress, struct receipt *receipt, bool ended,
                       uint64_t told, struct weir_slice *piece)
{
    const struct weir_http1_head *head = &receipt->head;
    bool taken = true;
    if (head->framing == WEIR_FRAMING_CHUNKED) {
        taken = take_chunks(progress, receipt);
    } else {
        uint64_t left = head->framing == WEIR_FRAMING_LENGTH        ? head->content_length - told
                        : head->framing == WEIR_FRAMING_UNTIL_CLOSE ? UINT64_MAX
                                                                    : 0;
        progress->body = receipt->bytes < left ? receipt->bytes : (size_t)left;
        progress->complete = progress->body == left || ended;
    }
    *piece = (struct weir_slice){receipt->data, progress->body};
    return taken;
}

/* Passes each part of the body on as it arrives, so that it may be longer than memory. */
static bool receive_pieces(struct weir_caller *caller, struct receipt *receipt,
                           const struct weir_question *question)
{
    struct body_progress progress = {0};
    uint64_t told = 0;
    bool ended = false;
    weir_chunked_init(&progress.chunked, UINT64_MAX);
    receipt->patience_ms = patience_of(question);
    for (;;) {
        struct weir_slice piece;
        if (!take_piece(&progress, receipt, ended, told, &piece)) {
            return fail_call(caller, "the server is not a weir API", "its reply cannot be read");
        }
        if (piece.bytes > 0 && !question->piece(question->context, piece)) {
            return fail_call(caller, "the reply cannot be written", strerror(errno));
        }
        if (progress.complete) {
            return true;
        }
        told += piece.bytes;
        receipt->bytes = progress.looked = progress.body = 0;
        int error = receive_some(caller, receipt, &ended);
        if (error != 0 || (ended && receipt->head.framing != WEIR_FRAMING_UNTIL_CLOSE)) {
            return fail_to_receive(caller, error);
        }
    }
}

static bool receive(struct weir_caller *caller, struct receipt *receipt,
                    const struct weir_question *question, size_t *body_bytes)
{
    if (question->piece != NULL && receipt->head.status == 200) {
        return receive_pieces(caller, receipt, question);
    }
    return question->line != NULL && receipt->head.status == 200
               ? receive_lines(caller, receipt, question)
               : receive_body(caller, receipt, question->line_only, body_bytes);
}

bool weir_caller_ask(struct weir_caller *caller, const struct weir_question *question,
                     struct weir_api_reply *answer)
{
    struct receipt receipt = {0};
    enum weir_http_method method =
        strcmp(question->method, "GET") == 0
            ? WEIR_METHOD_GET
            : WEIR_METHOD_POST; /* or one whose reply is framed like a GET's */
    size_t body_bytes = 0;
    if (question->waits || question->line != NULL) {
        weir_socket_watch_peer(caller->fd); /* else we would not notice that its machine is gone */
    }
    if (!make_room(&receipt)) {
        return fail_call(caller, "the request cannot be sent", strerror(ENOMEM));
    }
    bool sent = send_call(caller, question);
    receipt.until_ns = question->waits ? WEIR_NEVER : after_ms(patience_of(question));
    if (!sent || !receive_head(caller, &receipt, method) ||
        !receive(caller, &receipt, question, &body_bytes)) {
        free(receipt.data);
        return false;
    }
    receipt.data[body_bytes] = '\0';
    *answer = (struct weir_api_reply){receipt.head.status, receipt.retry_after_s, receipt.data,
                                      body_bytes};
    return true;
}
