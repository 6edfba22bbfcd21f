/* ratelimit.h - the RateLimit and RateLimit-Policy fields of the IETF's draft 10.
 *
 *     RateLimit-Policy: "default";q=100;w=60;qu="requests"
 *     RateLimit: "default";r=50;t=30
 *
 * One says what a policy allows, the other what is left of it; they come in any order and may be
 * split over several fields, so both are collected first. A policy whose unit is not ours to count
 * is passed over, and so is one that only one of the two names. The names stay in the caller's
 * buffer. */
#ifndef WEIR_LLM_RATELIMIT_H
#define WEIR_LLM_RATELIMIT_H

#include "weir/control.h"

struct weir_ratelimit_policy {
    struct weir_slice name;
    enum weir_unit unit;
    int64_t quota;
    int64_t window_s; /* 0: not told */
};

struct weir_ratelimit_service {
    struct weir_slice name;
    int64_t remaining;
    int64_t reset_s; /* -1: not told */
};

/* What is beyond the bounds is passed over. */
struct weir_ratelimit {
    uint32_t policy_count;
    uint32_t service_count;
    struct weir_ratelimit_policy policies[WEIR_QUOTAS_MAX];
    struct weir_ratelimit_service services[WEIR_QUOTAS_MAX];
};

void weir_ratelimit_init(struct weir_ratelimit *ratelimit);

/* Adds what a RateLimit-Policy field says, or a RateLimit field; nothing if it is malformed. */
void weir_ratelimit_read_policy(struct weir_ratelimit *ratelimit, struct weir_slice text);
void weir_ratelimit_read(struct weir_ratelimit *ratelimit, struct weir_slice text);

/* The quota of one of the services; false if no policy belongs to it. A window whose end is not
 * told is taken for a bucket that fills in that time. */
bool weir_ratelimit_quota(const struct weir_ratelimit *ratelimit, uint32_t index,
                          struct weir_quota *quota);

#endif
