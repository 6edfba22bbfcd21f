/* http1.h - the heads of HTTP/1.0 and HTTP/1.1 messages, and their trailers: bytes in, a checked
 * head out.
 *
 * The caller collects the bytes of a message in one buffer and calls the parser after each arrival.
 * Bytes that were checked are not read again. A head holds positions in the buffer rather than
 * pointers, so the buffer may move; it is only read, and only up to the bytes given. Nothing is
 * allocated.
 *
 * A message has one meaning or is refused. Everything that another program could read differently
 * (RFC 9112 leaves much of that to the recipient) is a fault, and so is everything overlong: see
 * http_fault.h for the list and docs/internals/wire.md for the reasons. A complete head has been
 * checked as a whole: how its body is framed, whether its connection persists, which host it
 * addresses. */
#ifndef WEIR_WIRE_HTTP1_H
#define WEIR_WIRE_HTTP1_H

#include "weir/types.h"
#include "wire/field_name.h"
#include "wire/http_fault.h"

#include <stdbool.h>

#define WEIR_HTTP1_HEAD_BYTES_MAX   65535 /* positions have 16 bits */
#define WEIR_HTTP1_FIELDS_MAX       100
#define WEIR_HTTP1_NAME_BYTES_MAX   255 /* of a field name */
#define WEIR_HTTP1_METHOD_BYTES_MAX 32  /* the longest registered method has 17 */
#define WEIR_HTTP1_OPTIONS_MAX      32 /* of all Connection fields; each is looked for in the head */

/* The message had no Content-Length. A given length is at most INT64_MAX. */
#define WEIR_HTTP1_NO_LENGTH UINT64_MAX

/* Limits of a head's size. Lines count with their CRLF. */
struct weir_http1_limits {
    uint16_t line_bytes_max; /* of the first line, 16 .. head_bytes_max */
    uint16_t head_bytes_max; /* of everything up to the empty line, which counts too */
    uint16_t fields_max;     /* 1 .. WEIR_HTTP1_FIELDS_MAX */
};

/* 8 KiB for the first line (RFC 9112 wants at least 8,000 bytes), 32 KiB for all. */
#define WEIR_HTTP1_LIMITS_DEFAULT ((struct weir_http1_limits){8192, 32768, 100})

enum weir_http1_kind {
    WEIR_HTTP1_REQUEST,
    WEIR_HTTP1_RESPONSE,
    WEIR_HTTP1_TRAILERS, /* fields without a first line, after a chunked body */
};

enum weir_http1_result {
    WEIR_HTTP1_NEED_MORE,
    WEIR_HTTP1_DONE,
    WEIR_HTTP1_FAULT, /* the head's `fault` says which */
};

enum weir_http_method {
    WEIR_METHOD_OTHER, /* any other token */
    WEIR_METHOD_GET,
    WEIR_METHOD_HEAD,
    WEIR_METHOD_POST,
    WEIR_METHOD_PUT,
    WEIR_METHOD_DELETE,
    WEIR_METHOD_CONNECT,
    WEIR_METHOD_OPTIONS,
    WEIR_METHOD_TRACE,
    WEIR_METHOD_PATCH,
};

enum weir_http1_target_form {
    WEIR_TARGET_ORIGIN,    /* /path?query */
    WEIR_TARGET_ABSOLUTE,  /* http://host/path?query */
    WEIR_TARGET_AUTHORITY, /* host:port, with CONNECT only */
    WEIR_TARGET_ASTERISK,  /* *, with OPTIONS only */
};

/* Where the body of a message ends. */
enum weir_http1_framing {
    WEIR_FRAMING_NONE,        /* there is none */
    WEIR_FRAMING_LENGTH,      /* after `content_length` bytes, which may be 0 */
    WEIR_FRAMING_CHUNKED,     /* see chunked.h */
    WEIR_FRAMING_UNTIL_CLOSE, /* with the connection; of responses only */
};

enum weir_http1_upgrade {
    WEIR_UPGRADE_NONE,
    WEIR_UPGRADE_WEBSOCKET, /* a complete request for it, or its acceptance by a 101 */
    WEIR_UPGRADE_OTHER,     /* to something else: h2c, TLS, several at choice; may be ignored */
};

/* A range of bytes in the buffer. */
struct weir_http1_span {
    uint16_t at;
    uint16_t bytes;
};

struct weir_http1_field {
    uint16_t name_at;
    uint16_t value_at;
    uint16_t value_bytes; /* without the blanks around it */
    uint8_t name_bytes;
    uint8_t id; /* enum weir_field_id */
};

struct weir_http1_head {
    /* Private: the state of the parser. */
    struct weir_http1_limits limits;
    uint8_t kind;
    uint8_t state;
    uint16_t at;      /* everything before has been checked */
    uint16_t line_at; /* where the first line began */
    uint16_t mark;    /* where the current element began */

    /* Meaningful after WEIR_HTTP1_FAULT. */
    enum weir_http_fault fault;

    /* The rest is meaningful after WEIR_HTTP1_DONE. */
    uint16_t head_bytes; /* what the head takes in the buffer; the body begins there */
    uint8_t minor;       /* of the version: 0 or 1 */

    /* Of requests. For responses, `method` is that of the request they answer. */
    enum weir_http_method method;
    struct weir_http1_span method_name;
    enum weir_http1_target_form form;
    struct weir_http1_span target; /* the whole target */
    struct weir_http1_span
        authority;                /* the target's, else the value of Host; may be empty in 1.0 */
    struct weir_http1_span path;  /* empty if the target has none: then "/" is meant */
    struct weir_http1_span query; /* after the '?', which `has_query` says exists */
    bool has_query;
    bool expects_continue; /* the client waits for a 100 before it sends its body */

    /* Of responses. */
    uint16_t status; /* 100 .. 999 */
    struct weir_http1_span reason;

    /* The meaning of the fields. */
    enum weir_http1_framing framing;
    uint64_t content_length; /* as in the field, whatever the framing; else WEIR_HTTP1_NO_LENGTH */
    bool persists;           /* the sender keeps the connection open after this message */
    enum weir_http1_upgrade upgrade;

    bool has_odd_name; /* one has a character other than letters, digits and '-' */

    /* The fields, in the order in which they came. */
    uint64_t seen;      /* which names of the list are there: 1 << id */
    uint64_t repeated;  /* which of them more than once */
    uint64_t listed[2]; /* which fields the Connection field lists: a bit for each index */
    uint16_t field_count;
    struct weir_http1_field fields[WEIR_HTTP1_FIELDS_MAX];
};

/* Whether limits that came from outside may be passed to the functions below. */
bool weir_http1_limits_valid(struct weir_http1_limits limits);

/* Each begins a new message. Requires valid limits; of trailers, line_bytes_max is not used. A
 * response is read with the method of the request that it answers, on which its framing depends. */
void weir_http1_init_request(struct weir_http1_head *head, struct weir_http1_limits limits);
void weir_http1_init_response(struct weir_http1_head *head, struct weir_http1_limits limits,
                              enum weir_http_method method);
void weir_http1_init_trailers(struct weir_http1_head *head, struct weir_http1_limits limits);

/* Continues parsing. `data` holds the message from its first byte on, `bytes` of it so far, never
 * fewer than at the last call. The result depends on the bytes only, not on how they arrived. DONE
 * and FAULT are final. The result is never NEED_MORE for head_bytes_max bytes or more. */
WEIR_MUST_CHECK enum weir_http1_result weir_http1_parse(struct weir_http1_head *head,
                                                        const char *data, size_t bytes);

/* The bytes of a span; `data` is the buffer. */
static inline struct weir_slice weir_http1_slice(const char *data, struct weir_http1_span span)
{
    return (struct weir_slice){data + span.at, span.bytes};
}

static inline struct weir_slice weir_http1_name(const char *data,
                                                const struct weir_http1_field *field)
{
    return (struct weir_slice){data + field->name_at, field->name_bytes};
}

static inline struct weir_slice weir_http1_value(const char *data,
                                                 const struct weir_http1_field *field)
{
    return (struct weir_slice){data + field->value_at, field->value_bytes};
}

/* The first field of that name, or null. Almost free when there is none. */
const struct weir_http1_field *weir_http1_find(const struct weir_http1_head *head,
                                               enum weir_field_id id);

/* Finds the first field of any name, in any case. `repeated` is set if there are more; it may be
 * null. */
const struct weir_http1_field *weir_http1_find_name(const struct weir_http1_head *head,
                                                    const char *data, struct weir_slice name,
                                                    bool *repeated);

/* Fields that always apply to one connection only (RFC 9110, section 7.6.1). */
#define WEIR_FIELDS_HOP_BY_HOP                                                            \
    (WEIR_FIELD_BIT(CONNECTION) | WEIR_FIELD_BIT(CLOSE) | WEIR_FIELD_BIT(KEEP_ALIVE) |    \
     WEIR_FIELD_BIT(PROXY_CONNECTION) | WEIR_FIELD_BIT(PROXY_AUTHENTICATE) |              \
     WEIR_FIELD_BIT(PROXY_AUTHORIZATION) | WEIR_FIELD_BIT(TE) | WEIR_FIELD_BIT(UPGRADE) | \
     WEIR_FIELD_BIT(TRANSFER_ENCODING) | WEIR_FIELD_BIT(HTTP2_SETTINGS))

/* Whether the field at `index` applies only to this connection and must not be forwarded: it is
 * hop-by-hop, or the Connection field lists it. */
bool weir_http1_is_hop_by_hop(const struct weir_http1_head *head, uint16_t index);

#endif
