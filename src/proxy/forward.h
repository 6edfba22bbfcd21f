/* forward.h - heads as they go on: a request's to an upstream, a reply's to a client.
 *
 * What concerns one connection only stays behind (RFC 9110, section 7.6.1), and so does an API key
 * of ours; what an upstream's config sets replaces what the client sent; fields about the client
 * (X-Forwarded-For) are kept as far as the peer is believed. */
#ifndef WEIR_PROXY_FORWARD_H
#define WEIR_PROXY_FORWARD_H

#include "config/config.h"
#include "net/buffer.h"
#include "wire/head_writer.h"
#include "wire/http1.h"

/* What else of a request's head stays here. */
struct weir_forward_policy {
    uint64_t removed;  /* of the listed names, WEIR_FIELD_BIT() each */
    bool anonymous;    /* nothing goes on that says where the client is, or whose it is */
    bool uncompressed; /* the server is asked for its reply as it is, since that will be read */
    bool keyless;      /* `key` of the query, an API key to some servers, stays here */
};

struct weir_forward_request {
    const struct weir_config *config;
    const struct weir_config_route *route;
    const struct weir_http1_head *head;
    const char *data;                         /* the head's bytes */
    const struct weir_forward_policy *policy; /* null: nothing else */
    const char *peer;                         /* the client's address */
    bool peer_is_unix;                        /* it has no address that others could know */
    bool trusted;                             /* whether what it says of others is kept */
    struct weir_slice request_id;             /* as the upstream gets it */
};

/* Writes all of the request's head that depends neither on the server nor on the body; it stays
 * open. False if it does not fit. */
WEIR_MUST_CHECK bool weir_forward_request(const struct weir_forward_request *request,
                                          struct weir_buffer *buffer);

/* What the head is ended with: what the upstream asks for, and how the body is framed. */
struct weir_forward_end {
    const struct weir_config_upstream *upstream;
    struct weir_secret *const *secrets; /* by header of the upstream; null: none is from a file */
    struct weir_slice authority;
    enum weir_http1_framing framing;
    uint64_t content_length; /* LENGTH */
};

/* Adds the end, which takes so many bytes at most. It fails if there is less room, or if a secret
 * has become longer meanwhile; then nothing has been added. */
size_t weir_forward_end_bytes(const struct weir_forward_end *end);
WEIR_MUST_CHECK bool weir_forward_end(const struct weir_forward_end *end,
                                      struct weir_buffer *buffer);

struct weir_forward_reply {
    const struct weir_http1_head *head;
    enum weir_http1_framing framing; /* for the client; a length that does not hold stays behind */
    const char *data;
    bool keep_alive;
    struct weir_slice request_id;
    uint64_t retry_after_s; /* in place of the server's own; 0: that stays */
    uint64_t line_ns;       /* how long it waited in line */
    uint64_t upstream_ns;   /* and for the upstream's head */

    /* Whether a field stays here, and fields that are added to a final head; null: none. */
    bool (*hides)(const void *context, const struct weir_http1_head *head,
                  const struct weir_http1_field *field);
    void (*add_fields)(const void *context, struct weir_head_writer *writer);
    const void *context; /* theirs */
};

WEIR_MUST_CHECK bool weir_forward_reply(const struct weir_forward_reply *reply,
                                        struct weir_buffer *buffer);

#endif
