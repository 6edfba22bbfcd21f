/* share.h - a tenant's own limits as header fields: RateLimit and RateLimit-Policy of the IETF's
 * draft (draft-ietf-httpapi-ratelimit-headers-10). */
#ifndef WEIR_GATES_SHARE_H
#define WEIR_GATES_SHARE_H

#include "weir/key.h"
#include "wire/head_writer.h"

/* A budget of tokens for a day of UTC. */
struct weir_share_budget {
    bool exists;
    uint64_t tokens; /* 0: none may be used */
    uint64_t spent;
    uint64_t left_ns; /* of the day */
};

/* The most that weir_share_write() takes. */
#define WEIR_SHARE_BYTES_MAX 384

/* Writes both fields, or neither where the tenant has no limits: how many requests at once
 * ("concurrency"), how many in a while ("requests"), how many tokens a day ("tokens"). */
void weir_share_write(struct weir_head_writer *writer, const struct weir_share *share,
                      const struct weir_share_budget *budget);

#endif
