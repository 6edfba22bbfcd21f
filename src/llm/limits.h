/* limits.h - what a provider's reply says about its limits, as numbers for a lane's controller.
 *
 * Providers say much the same under many names, and write the same numbers in many forms. One table
 * in limits.c has the names; the forms tell themselves apart (6m0s, 12, 0.049,
 * 2025-08-21T12:40:59Z), so that a new provider is a row or two. docs/internals/wire.md lists the
 * providers.
 *
 * What makes no sense is passed over: a number that is none, below zero or beyond 2^53, a moment
 * that does not exist, a limit without what remains of it. One bad field never spoils another.
 * Nothing is allocated, and a reply is looked at once. */
#ifndef WEIR_LLM_LIMITS_H
#define WEIR_LLM_LIMITS_H

#include "weir/control.h"
#include "wire/http1.h"

/* Whose words a reply uses. All of them also read what is standard: Retry-After, and the RateLimit
 * fields of the IETF's draft. */
enum weir_limits_dialect {
    WEIR_LIMITS_STANDARD,  /* nothing else */
    WEIR_LIMITS_OPENAI,    /* x-ratelimit-*, of OpenAI and of providers that copy its API */
    WEIR_LIMITS_AZURE,     /* the same; tokens count by the minute */
    WEIR_LIMITS_GROQ,      /* the same; requests count by the day */
    WEIR_LIMITS_ANTHROPIC, /* anthropic-ratelimit-* */
    WEIR_LIMITS_CUSTOM,    /* the names of struct weir_limits_names */
    WEIR_LIMITS_DIALECT_COUNT
};

/* What a field that tells of a reset says. */
enum weir_limits_reset {
    WEIR_LIMITS_RESET_ANY, /* any form of time_text.h: a plain number leads to the end of a window,
                              the others to a full bucket */
    WEIR_LIMITS_RESET_MILLISECONDS, /* a number, until the window ends; so the next two */
    WEIR_LIMITS_RESET_SECONDS,
    WEIR_LIMITS_RESET_DATE,  /* a date, or a number since 1970 */
    WEIR_LIMITS_RESET_WINDOW /* a duration, or a number of seconds: how long the window is */
};

/* Names of fields, in any case; an empty one is not there. */
struct weir_limits_names {
    struct weir_slice requests_limit;
    struct weir_slice requests_remaining;
    struct weir_slice requests_reset;
    struct weir_slice tokens_limit;
    struct weir_slice tokens_remaining;
    struct weir_slice tokens_reset;
    enum weir_limits_reset requests_reset_unit;
    enum weir_limits_reset tokens_reset_unit;
};

/* How to read the replies of an upstream. Zeroed: what is standard. */
struct weir_limits_source {
    enum weir_limits_dialect dialect;
    struct weir_limits_names names; /* CUSTOM only */
};

struct weir_limits {
    struct weir_quota quotas[WEIR_QUOTAS_MAX]; /* each has a limit and what remains of it */
    uint32_t quota_count;
    bool retry_after_known;
    uint64_t retry_after_ns; /* up to WEIR_RETRY_AFTER_MAX_NS; a longer one is cut to it */
    uint64_t retry_after_rounding_ns;
    bool do_not_retry; /* x-should-retry: false */
};

/* The dialect of a host that is known (api.groq.com, *.openai.azure.com), or `otherwise`: what the
 * route's `llm` says. The host is a name without its port, in any case. */
enum weir_limits_dialect weir_limits_dialect_of(struct weir_slice host,
                                                enum weir_limits_dialect otherwise);

/* Reads the head of a reply, which must be DONE; `data` is its buffer. `wall_ns` is the time since
 * 1970, for resets that are moments; where the reply's Date contradicts it by more than two
 * seconds, Date is believed, because it is the same clock that the moments come from. Writes all of
 * `*limits` but the quotas beyond their count. */
void weir_limits_read(const struct weir_limits_source *source, const struct weir_http1_head *head,
                      const char *data, uint64_t wall_ns, struct weir_limits *limits);

/* The most of an error's body that is looked at. */
#define WEIR_LIMITS_ERROR_BYTES_MAX 16384

/* Adds what the body of a refusal says: the RetryInfo and QuotaFailure that Google puts into its
 * errors (JSON). Retry-After is kept if the head had one, and so are quotas. A body that is cut
 * off, too long or no JSON says nothing. */
void weir_limits_read_error(struct weir_slice body, struct weir_limits *limits);

/* Whether a field of a provider's reply tells about the account that all tenants share, and must
 * not reach them: limits in any dialect, the names of `source`, organisations and projects, and
 * cookies, which would make one session of all tenants. Retry-After is not among them. Cheap enough
 * to ask for every field. */
bool weir_limits_hides(const struct weir_limits_source *source, const char *data,
                       const struct weir_http1_field *field);

#endif
