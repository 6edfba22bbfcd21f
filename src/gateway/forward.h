/* forward.h - heads as they go on: a request's to an upstream, a reply's to a client.
 *
 * What concerns one connection only stays behind (RFC 9110, section 7.6.1); what an upstream's
 * config sets replaces what the client sent; who asked is told as far as the peer is believed. */
#ifndef WEIR_GATEWAY_FORWARD_H
#define WEIR_GATEWAY_FORWARD_H

#include "config/config.h"
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

/* Writes all of the request's head that does not depend on the server; it stays open. False if it
 * does not fit. */
WEIR_MUST_CHECK bool weir_forward_request(const struct weir_forward_request *request,
                                          struct weir_buffer *buffer);

/* Adds what the upstream asks for, and the end: so many bytes at most. */
size_t weir_forward_finish_bytes(const struct weir_config_upstream *upstream,
                                 struct weir_slice authority);
WEIR_MUST_CHECK bool weir_forward_finish(const struct weir_config_upstream *upstream,
                                         struct weir_slice authority, struct weir_buffer *buffer);

struct weir_forward_reply {
    const struct weir_http1_head *head;
    const char *data;
    bool keep_alive;
    uint64_t line_ns;     /* how long it waited in line */
    uint64_t upstream_ns; /* and for the upstream's head */
};

WEIR_MUST_CHECK bool weir_forward_reply(const struct weir_forward_reply *reply,
                                        struct weir_buffer *buffer);

#endif
