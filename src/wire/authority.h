/* authority.h - the host and port of a Host field or of a request target.
 *
 * Narrower than RFC 3986: a name has letters, digits and "-._~" only, because programs disagree on
 * what a URI allows there besides (percent escapes, commas, user names). */
#ifndef WEIR_WIRE_AUTHORITY_H
#define WEIR_WIRE_AUTHORITY_H

#include "weir/types.h"

#include <stdbool.h>

#define WEIR_HOST_BYTES_MAX 255 /* the longest name that DNS knows has 253 */

struct weir_authority {
    struct weir_slice host; /* of an IPv6 address without its brackets */
    uint16_t port;          /* 0 when none is named */
    bool has_port;
    bool is_ipv6;
};

/* Reads `host`, `host:port`, `[ipv6]` or `[ipv6]:port`. False, and nothing written, for anything
 * else: also for an empty host, and for a port that is empty, 0 or above 65535. */
bool weir_authority_parse(struct weir_slice text, struct weir_authority *authority);

/* Whether this is an IPv6 address in one of the forms of RFC 4291, without a zone. */
bool weir_ipv6_valid(struct weir_slice text);

#endif
