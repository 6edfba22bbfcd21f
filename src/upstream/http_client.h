/* http_client.h - requests that this process makes itself, on a worker's loop: to a server at a TCP
 * address, behind TLS or at a Unix socket. Unlike a proxied request such a call passes no gate and
 * no route.
 *
 * A client is one server with a pool of connections. A call is one request and its reply; the
 * caller embeds it in its own object, so it costs no allocation. The reply comes in pieces as it
 * arrives: its head, its data without frames, its end. Exactly one of `end` and `failed` is called,
 * last, unless the caller cancels; none is called before weir_http_call_begin() has returned.
 *
 * A call that fails before the reply began, on a connection that had been used before, is made once
 * more on a new one, if nothing was sent or its method is idempotent and its body is at hand. Every
 * other failure is the caller's to judge.
 *
 * Everything here is called in the worker's thread. */
#ifndef WEIR_UPSTREAM_HTTP_CLIENT_H
#define WEIR_UPSTREAM_HTTP_CLIENT_H

#include "upstream/upstream.h"
#include "wire/chunked.h"

struct weir_http_client;
struct weir_http_call;

struct weir_http_client_options {
    struct weir_config_url url;
    const struct weir_tls_client *trust; /* where the url is https; else null */
    struct weir_slice tls_name;          /* whom the certificate is for; empty: the url's host */
    uint64_t connect_timeout_ns;         /* the name, the connection and the TLS handshake */
    uint32_t keepalive;                  /* how many idle connections stay; 0: none */
};

/* Null on failure, with a sentence that says why, until this thread's next. What the options refer
 * to must outlive the client. Connects nowhere yet. */
struct weir_http_client *weir_http_client_create(struct weir_worker *worker,
                                                 const struct weir_http_client_options *options,
                                                 const char **error);

/* Closes the idle connections. Requires that no call is under way. */
void weir_http_client_destroy(struct weir_http_client *client);

struct weir_http_header {
    struct weir_slice name;
    struct weir_slice value;
};

enum weir_http_failure {
    WEIR_HTTP_FAILED_UNREACHABLE, /* no connection to the server */
    WEIR_HTTP_FAILED_LOST,        /* it closed the connection before the reply's end */
    WEIR_HTTP_FAILED_BAD_REPLY,   /* what came is no reply to the request */
    WEIR_HTTP_FAILED_TOO_LONG,    /* the reply's body is longer than `reply_bytes_max` */
    WEIR_HTTP_FAILED_LATE,        /* the deadline has passed */
    WEIR_HTTP_FAILED_RESOURCES    /* no memory or descriptor of our own, or the head is too long */
};

/* What a caller hears of a call. Each function may cancel the call. */
struct weir_http_call_events {
    /* The final head of the reply, whose texts are at `data`, during this call only. */
    void (*head)(struct weir_http_call *call, const struct weir_http1_head *head, const char *data);

    /* More of the reply's body, at least one byte, during this call only. */
    void (*data)(struct weir_http_call *call, struct weir_slice bytes);

    /* The reply is complete. */
    void (*end)(struct weir_http_call *call);

    /* The call is over without a complete reply. `detail` is a sentence, valid during this call. */
    void (*failed)(struct weir_http_call *call, enum weir_http_failure why, const char *detail);

    /* Puts the next part of the request's body at `to`, and returns how many bytes that is: at
     * least one, and `room` at most; or 0 when there is none yet, after which
     * weir_http_call_resume() asks again. `*last` says that nothing follows, which may also come
     * with 0 bytes. Null where the request has its body as one slice. */
    size_t (*produce)(struct weir_http_call *call, char *to, size_t room, bool *last);
};

struct weir_http_request {
    enum weir_http_method method;           /* one that has a name */
    struct weir_slice target;               /* path and query */
    const struct weir_http_header *headers; /* besides Host and those that frame the body */
    uint32_t header_count;
    struct weir_slice body;   /* stays until the call is over; where `produce` is null */
    uint64_t body_bytes;      /* what `produce` will make; WEIR_HTTP1_NO_LENGTH: sent in chunks */
    uint64_t deadline_ns;     /* of all; WEIR_NEVER: none */
    uint64_t reply_bytes_max; /* of the reply's body without frames */
};

/* Embedded by the caller, who zeroes it at first. All of it is private. */
struct weir_http_call {
    struct weir_http_client *client; /* null while it is not under way */
    const struct weir_http_call_events *events;
    struct weir_backend *backend; /* null: not connected yet, or over */
    struct weir_timer timer;      /* the deadline, or the next step */
    struct weir_buffer request;   /* the head */
    struct weir_buffer piece;     /* what `produce` made, with its frame */
    struct weir_slice body;
    struct weir_chunked chunked;
    struct weir_http1_head *trailers; /* while they are read */
    uint64_t deadline_ns;
    uint64_t reply_bytes_max;
    uint64_t reply_bytes; /* delivered so far */
    uint64_t left_bytes;  /* of a reply with a length */
    uint64_t body_left;   /* that `produce` still owes */
    uint32_t head_sent;   /* of `request` */
    uint32_t body_sent;   /* of `body` */
    uint8_t method;       /* enum weir_http_method */
    uint8_t framing;      /* enum weir_http1_framing of the reply */
    uint8_t interim_count;
    bool in_chunks;    /* the request's body */
    bool body_made;    /* `produce` has made all of it */
    bool request_sent; /* all of it */
    bool heard;        /* bytes of a reply have come */
    bool head_done;
    bool in_trailers;
    bool retried;
    bool paused;
};

/* Begins; the callbacks report the outcome later. False, and nothing happens, without memory or if
 * the request's head is too long or has a field that must not stand in one. The call must stay
 * where it is until it is over, and until the end of the turn in which that happens. */
WEIR_MUST_CHECK bool weir_http_call_begin(struct weir_http_client *client,
                                          struct weir_http_call *call,
                                          const struct weir_http_request *request,
                                          const struct weir_http_call_events *events);

/* No more data is delivered, nor read, until weir_http_call_resume(). The deadline goes on. */
void weir_http_call_pause(struct weir_http_call *call);

/* Goes on after a pause, or because `produce` has more; in a later step. */
void weir_http_call_resume(struct weir_http_call *call);

/* Ends it without a word. Safe to call on one that is over. */
void weir_http_call_cancel(struct weir_http_call *call);

#endif
