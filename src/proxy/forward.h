/* forward.h - heads as they go on: a request's to an upstream, a reply's to a client.
 *
 * What concerns one connection only stays behind (RFC 9110, section 7.6.1), and so does an API key
 * of ours; what an upstream's config sets replaces what the client sent; who asked is told as far
 * as the peer is believed. */
#ifndef WEIR_PROXY_FORWARD_H
#define WEIR_PROXY_FORWARD_H

#include "config/config.h"
#include "gates/share.h"
#include "llm/limits.h"
#include "net/buffer.h"
#include "wire/http1.h"

struct weir_forward_request {
    const struct weir_config *config;
    const struct weir_config_route *route;
    const struct weir_http1_head *head;
    const char *data;  /* the head's bytes */
    const char *peer;  /* the client's address */
    bool peer_is_unix; /* it has no address that others could know */
    bool trusted;      /* whether what it says of others is kept */
    uint64_t request_id;
};

/* Writes all of the request's head that depends neither on the server nor on the body; it stays
 * open. To an LLM go no credentials of the client's and nothing that says where it is, and
 * replies are asked for as they are, not compressed, since they will be read. False if it does not
 * fit. */
WEIR_MUST_CHECK bool weir_forward_request(const struct weir_forward_request *request,
                                          struct weir_buffer *buffer);

/* What the head is ended with: what the upstream asks for, and how the body is framed. */
struct weir_forward_end {
    const struct weir_config_upstream *upstream;
    struct weir_slice authority;
    enum weir_http1_framing framing;
    uint64_t content_length; /* LENGTH */
};

/* Adds the end, which takes so many bytes at most. */
size_t weir_forward_end_bytes(const struct weir_forward_end *end);
WEIR_MUST_CHECK bool weir_forward_end(const struct weir_forward_end *end,
                                      struct weir_buffer *buffer);

struct weir_forward_reply {
    const struct weir_http1_head *head;
    enum weir_http1_framing framing; /* for the client; a length that does not hold stays behind */
    const struct weir_limits_source *llm; /* an LLM's account stays private; null: there is none */
    const char *data;
    bool keep_alive;
    uint64_t line_ns;               /* how long it waited in line */
    uint64_t upstream_ns;           /* and for the upstream's head */
    const struct weir_share *share; /* the tenant's own limits; null: nothing is said of them */
    const struct weir_share_budget *budget; /* with a share */
};

WEIR_MUST_CHECK bool weir_forward_reply(const struct weir_forward_reply *reply,
                                        struct weir_buffer *buffer);

#endif
