/* What we accept, llhttp must read the same way.
 *
 * The first byte says what the rest is: Q a stream of requests; G, H or C the response to a GET,
 * HEAD or CONNECT. Every message that we accept is given to llhttp (Debian's, strict, nothing
 * lenient), with what follows it. It must accept it too, end it at the same byte, and find the same
 * method, target, version, status, reason, fields, body, trailers, and the same wish to keep the
 * connection. Where we are the stricter one there is nothing to compare.
 *
 * What differs on purpose, each looked for narrowly:
 *  D1 llhttp knows a fixed list of methods. For another it is given POST instead.
 *  D2 In HTTP/1.0 "close" and "keep-alive" together mean close to us (RFC 9112, section 9.3), and
 *     keep-alive to llhttp.
 *  D3 llhttp obeys Proxy-Connection as if it were Connection; we drop it (RFC 9112, appendix
 * C.2.2). D4 After a response to HEAD or CONNECT, or a 304, llhttp wants to be told that no body
 * follows. D5 llhttp (8.1.0) does not accept a further chunk extension behind one with an unquoted
 * value, which RFC 9112 allows. */
#include "wire.h"
#include "wire/chunked.h"

#include <llhttp.h>

#define MESSAGE_BYTES_MAX 70000 /* a longer input is not looked at */

/* ---- our reading of one message ---- */

struct message {
    const struct weir_http1_head *head;
    const char *data;
    size_t bytes;  /* of the whole message, as far as it is there */
    bool complete; /* its end is there */
    char body[MESSAGE_BYTES_MAX];
    size_t body_bytes;
    bool has_trailers;
    size_t trailers_at;
    struct weir_http1_head trailers;
};

static void add_body(struct message *message, struct weir_slice body)
{
    must(message->body_bytes + body.bytes <= sizeof message->body);
    memcpy(message->body + message->body_bytes, body.data, body.bytes);
    message->body_bytes += body.bytes;
}

/* Each of these reads a body from `rest`, and returns whether what is there has been accepted. */

static bool read_length(struct message *message, struct weir_slice rest)
{
    uint64_t length = message->head->content_length;
    message->complete = rest.bytes >= length;
    rest.bytes = message->complete ? (size_t)length : rest.bytes;
    add_body(message, rest);
    message->bytes += rest.bytes;
    return true;
}

static bool read_trailers(struct message *message, struct weir_slice rest)
{
    message->trailers_at = message->bytes;
    weir_http1_init_trailers(&message->trailers, WEIR_HTTP1_LIMITS_DEFAULT);
    switch (weir_http1_parse(&message->trailers, rest.data, rest.bytes)) {
    case WEIR_HTTP1_DONE:
        message->has_trailers = true;
        message->complete = true;
        message->bytes += message->trailers.head_bytes;
        return true;
    case WEIR_HTTP1_NEED_MORE: /* they are judged as a whole, so nothing is accepted yet */
    case WEIR_HTTP1_FAULT:
        break;
    }
    return false;
}

static bool read_chunks(struct message *message, struct weir_slice rest)
{
    struct weir_chunked chunked;
    weir_chunked_init(&chunked, UINT64_MAX);
    for (;;) {
        struct weir_slice body;
        size_t used;
        enum weir_chunked_event event = weir_chunked_next(&chunked, rest, &used, &body);
        message->bytes += used;
        rest.data += used;
        rest.bytes -= used;
        switch (event) {
        case WEIR_CHUNKED_NEED_MORE:
            return true;
        case WEIR_CHUNKED_BODY:
            add_body(message, body);
            break;
        case WEIR_CHUNKED_END:
            return read_trailers(message, rest);
        case WEIR_CHUNKED_FAULT:
            return false;
        }
    }
}

static bool read_body(struct message *message, struct weir_slice rest)
{
    switch (message->head->framing) {
    case WEIR_FRAMING_NONE:
        message->complete = true;
        return true;
    case WEIR_FRAMING_LENGTH:
        return read_length(message, rest);
    case WEIR_FRAMING_CHUNKED:
        return read_chunks(message, rest);
    case WEIR_FRAMING_UNTIL_CLOSE:
        add_body(message, rest);
        message->bytes += rest.bytes;
        return true;
    }
    return false;
}

/* ---- llhttp's reading ---- */

struct oracle {
    llhttp_t parser;
    bool no_body; /* D4 */
    struct weir_slice method, target, status, version;
    struct weir_slice names[2 * WEIR_HTTP1_FIELDS_MAX];
    struct weir_slice values[2 * WEIR_HTTP1_FIELDS_MAX];
    size_t name_count, value_count;
    size_t head_fields; /* those before the body */
    char body[MESSAGE_BYTES_MAX];
    size_t body_bytes;
    bool headers_complete, complete, keeps_alive;
};

static struct oracle *oracle_of(llhttp_t *parser)
{
    return parser->data;
}

static int on_method(llhttp_t *parser, const char *at, size_t bytes)
{
    oracle_of(parser)->method = (struct weir_slice){at, bytes};
    return 0;
}

static int on_url(llhttp_t *parser, const char *at, size_t bytes)
{
    oracle_of(parser)->target = (struct weir_slice){at, bytes};
    return 0;
}

static int on_status(llhttp_t *parser, const char *at, size_t bytes)
{
    oracle_of(parser)->status = (struct weir_slice){at, bytes};
    return 0;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t bytes)
{
    struct oracle *oracle = oracle_of(parser);
    must(oracle->name_count < 2 * WEIR_HTTP1_FIELDS_MAX);
    oracle->names[oracle->name_count++] = (struct weir_slice){at, bytes};
    return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t bytes)
{
    struct oracle *oracle = oracle_of(parser);
    must(oracle->value_count + 1 == oracle->name_count);
    oracle->values[oracle->value_count++] = (struct weir_slice){at, bytes};
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct oracle *oracle = oracle_of(parser);
    oracle->headers_complete = true;
    oracle->head_fields = oracle->value_count;
    oracle->keeps_alive = llhttp_should_keep_alive(parser) != 0;
    return oracle->no_body ? 1 : 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t bytes)
{
    struct oracle *oracle = oracle_of(parser);
    must(oracle->body_bytes + bytes <= sizeof oracle->body);
    memcpy(oracle->body + oracle->body_bytes, at, bytes);
    oracle->body_bytes += bytes;
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct oracle *oracle = oracle_of(parser);
    must(!oracle->complete);
    oracle->complete = true;
    oracle->keeps_alive = llhttp_should_keep_alive(parser) != 0;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_method = on_method,
    .on_url = on_url,
    .on_status = on_status,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* ---- the comparison ---- */

/* The bytes that llhttp gets: the message, with its method replaced if need be (D1), and what
 * follows it, or a few bytes that no message begins with. */
static struct weir_slice bytes_for_oracle(const struct message *message, struct weir_slice stream)
{
    static char copy[2 * MESSAGE_BYTES_MAX];
    static const char behind[] = {'\0', 'x'};
    const struct weir_http1_head *head = message->head;
    struct weir_slice rest = stream;
    size_t bytes = 0;
    if (head->kind == WEIR_HTTP1_REQUEST && head->method == WEIR_METHOD_OTHER) {
        size_t method_end = head->method_name.at + head->method_name.bytes;
        memcpy(copy, "POST", 4);
        bytes = 4;
        rest = (struct weir_slice){stream.data + method_end, stream.bytes - method_end};
    }
    must(bytes + rest.bytes + sizeof behind <= sizeof copy);
    memcpy(copy + bytes, rest.data, rest.bytes);
    bytes += rest.bytes;
    if (message->complete && message->bytes == stream.bytes) {
        memcpy(copy + bytes, behind, sizeof behind);
        bytes += sizeof behind;
    }
    return (struct weir_slice){copy, bytes};
}

/* D5: whether llhttp stopped in the line of a chunk that has several extensions. */
static bool is_further_extension(const struct message *message, const char *at, const char *from)
{
    const char *line = at;
    while (line > from && line[-1] != '\n') {
        line--;
    }
    const char *first = memchr(line, ';', (size_t)(at - line));
    return message->head->framing == WEIR_FRAMING_CHUNKED && first != NULL && at > first + 1 &&
           at[-1] == ';';
}

/* llhttp leaves the blanks behind a value to its user. */
static struct weir_slice trimmed(struct weir_slice value)
{
    while (value.bytes > 0 && weir_char_is_blank(value.data[value.bytes - 1])) {
        value.bytes--;
    }
    return value;
}

static void must_have_same_fields(const struct weir_http1_head *head, const char *data,
                                  const struct oracle *oracle, size_t first)
{
    for (uint16_t i = 0; i < head->field_count; i++) {
        must(same_bytes(weir_http1_name(data, &head->fields[i]), oracle->names[first + i]));
        must(same_bytes(weir_http1_value(data, &head->fields[i]),
                        trimmed(oracle->values[first + i])));
    }
}

static bool keeping_alive_may_differ(const struct weir_http1_head *head,
                                     const struct oracle *oracle)
{
    bool both = (oracle->parser.flags & F_CONNECTION_CLOSE) != 0 && oracle->keeps_alive;
    return (head->minor == 0 && !head->persists && both) ||      /* D2 */
           (head->seen & WEIR_FIELD_BIT(PROXY_CONNECTION)) != 0; /* D3 */
}

static void compare(const struct message *message, const struct oracle *oracle)
{
    const struct weir_http1_head *head = message->head;
    const llhttp_t *parser = &oracle->parser;
    must(oracle->headers_complete);
    must(parser->http_major == 1);
    must(parser->http_minor == head->minor);
    if (head->kind == WEIR_HTTP1_REQUEST) {
        must(head->method == WEIR_METHOD_OTHER ||
             same_bytes(weir_http1_slice(message->data, head->method_name), oracle->method));
        must(same_bytes(weir_http1_slice(message->data, head->target), oracle->target));
    } else {
        must(parser->status_code == head->status);
        must(same_bytes(weir_http1_slice(message->data, head->reason), oracle->status));
    }
    must(oracle->head_fields == head->field_count);
    must_have_same_fields(head, message->data, oracle, 0);
    must(oracle->body_bytes == message->body_bytes);
    must(memcmp(oracle->body, message->body, message->body_bytes) == 0);
    must(oracle->complete == message->complete);
    if (message->has_trailers) {
        must(oracle->value_count == head->field_count + message->trailers.field_count);
        must_have_same_fields(&message->trailers, message->data + message->trailers_at, oracle,
                              head->field_count);
    }
    must(oracle->keeps_alive == head->persists || keeping_alive_may_differ(head, oracle));
}

/* One message at the beginning of the stream. Returns its length, 0 when there is none (any more).
 */
static size_t try_message(const struct reading *reading, struct weir_slice stream)
{
    static struct message message;
    static struct oracle oracle;
    struct weir_http1_head head;
    begin_head(reading, &head);
    if (weir_http1_parse(&head, stream.data, stream.bytes) != WEIR_HTTP1_DONE) {
        return 0;
    }
    message = (struct message){.head = &head, .data = stream.data, .bytes = head.head_bytes};
    struct weir_slice rest = {stream.data + head.head_bytes, stream.bytes - head.head_bytes};
    if (!read_body(&message, rest)) {
        return 0;
    }
    memset(&oracle, 0, sizeof oracle);
    llhttp_init(&oracle.parser, reading->kind == WEIR_HTTP1_REQUEST ? HTTP_REQUEST : HTTP_RESPONSE,
                &settings);
    oracle.parser.data = &oracle;
    oracle.no_body = reading->kind == WEIR_HTTP1_RESPONSE && head.framing == WEIR_FRAMING_NONE &&
                     (head.status == 304 || head.method == WEIR_METHOD_HEAD ||
                      (head.method == WEIR_METHOD_CONNECT && head.status / 100 == 2));
    struct weir_slice bytes = bytes_for_oracle(&message, stream);
    enum llhttp_errno error = llhttp_execute(&oracle.parser, bytes.data, bytes.bytes);
    const char *stop = llhttp_get_error_pos(&oracle.parser);
    if (error != HPE_OK && error != HPE_PAUSED &&
        is_further_extension(&message, stop, bytes.data)) {
        return 0;
    }
    must(error == (message.complete ? HPE_PAUSED : HPE_OK));
    if (message.complete) {
        /* Behind the last byte of the message, counted from the end: the method may have changed.
         */
        size_t behind = bytes.bytes - (size_t)(stop - bytes.data);
        size_t expected = stream.bytes - message.bytes;
        must(behind == (expected == 0 ? 2 : expected));
    }
    compare(&message, &oracle);
    return message.complete ? message.bytes : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2 || bytes > MESSAGE_BYTES_MAX) {
        return 0;
    }
    struct reading reading = {
        .kind = data[0] == 'Q' ? WEIR_HTTP1_REQUEST : WEIR_HTTP1_RESPONSE,
        .limits = WEIR_HTTP1_LIMITS_DEFAULT,
        .method = data[0] == 'H'   ? WEIR_METHOD_HEAD
                  : data[0] == 'C' ? WEIR_METHOD_CONNECT
                                   : WEIR_METHOD_GET,
    };
    struct weir_slice stream = {(const char *)data + 1, bytes - 1};
    size_t used;
    while ((used = try_message(&reading, stream)) > 0) {
        stream.data += used;
        stream.bytes -= used;
    }
    return 0;
}
