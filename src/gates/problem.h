/* problem.h - what the gateway answers for itself: RFC 9457 documents that say what to do. */
#ifndef WEIR_GATES_PROBLEM_H
#define WEIR_GATES_PROBLEM_H

#include "net/buffer.h"
#include "weir/key.h"
#include "wire/head_writer.h"
#include "wire/json_writer.h"

/* X(NAME, "urn:weir:...", title) */
#define WEIR_PROBLEMS(X)                                                              \
    X(BAD_REQUEST, "bad-request", "The request cannot be read")                       \
    X(FORBIDDEN, "forbidden", "Not for this caller")                                  \
    X(UNAUTHORIZED, "unauthorized", "It must be known who asks")                      \
    X(NOT_FOUND, "not-found", "There is no such thing")                               \
    X(NOT_HELD, "not-held", "No such permit is held")                                 \
    X(PERMIT_ENDED, "permit-ended", "Its permit was ended")                           \
    X(BAD_CONFIG, "bad-config", "The config is not taken up")                         \
    X(NO_ROUTE, "no-route", "No route leads there")                                   \
    X(LINE_TIMEOUT, "line-timeout", "Its turn did not come in time")                  \
    X(LINE_FULL, "line-full", "The line is full")                                     \
    X(PAUSED, "paused", "The gate is paused by its operator")                         \
    X(TOO_LATE, "too-late", "Its turn would come too late")                           \
    X(DISPLACED, "displaced", "Its place went to a tenant below its fair share")      \
    X(QUOTA_SPENT, "quota-spent", "The provider's quota is spent")                    \
    X(BUDGET_SPENT, "budget-spent", "The tenant's budget is spent")                   \
    X(TOO_DEEP, "too-deep", "The flow has as many requests here as it may")           \
    X(TOO_MANY_KEYS, "too-many-keys", "The gate keeps as many keys as it may")        \
    X(TOO_MANY_OVERRIDES, "too-many-overrides", "Too many limits and pauses by hand") \
    X(TOO_MANY_READERS, "too-many-readers", "Event reader limit reached")             \
    X(DRAINING, "draining", "This server is going away")                              \
    X(UPSTREAM_UNREACHABLE, "upstream-unreachable", "The upstream cannot be reached") \
    X(UPSTREAM_TIMEOUT, "upstream-timeout", "The upstream did not answer in time")    \
    X(BODY_TOO_LARGE, "body-too-large", "The body is too large")                      \
    X(SPOOL_FULL, "spool-full", "There is no room for another long body")             \
    X(REQUEST_TIMEOUT, "request-timeout", "The request did not come in time")         \
    X(QUEUE_FULL, "queue-full", "The queue is full")                                  \
    X(QUEUE_BLOCKED, "queue-blocked", "The queue accepts nothing for now")            \
    X(RATE, "rate", "The tenant submits too fast")                                    \
    X(JOB_CONFLICT, "job-conflict", "The id is taken by another job")                 \
    X(JOB_UNFINISHED, "job-unfinished", "The job has not ended")                      \
    X(JOB_OVER, "job-over", "The job was over before")                                \
    X(JOB_GONE, "job-gone", "Only the id of the job is remembered")                   \
    X(NOT_DEAD, "not-dead", "The job is no dead letter")                              \
    X(STORE_FAILED, "store-failed", "Nothing can be recorded at present")             \
    X(OUT_OF_DESCRIPTORS, "out-of-descriptors", "No connection can be opened")        \
    X(OUT_OF_MEMORY, "out-of-memory", "There is no memory left")

enum weir_problem_kind {
#define WEIR_PROBLEM_ENUM(name, type, title) WEIR_PROBLEM_##name,
    WEIR_PROBLEMS(WEIR_PROBLEM_ENUM)
#undef WEIR_PROBLEM_ENUM
    WEIR_PROBLEM_COUNT
};

struct weir_problem {
    enum weir_problem_kind kind;
    uint16_t status;
    const char *detail; /* a sentence that a person can act on */
    const char *allow;  /* of a 405: the methods that there are; null: no field */

    /* Add fields to the head, and members to the document; and write another document in its place,
     * of which weir_problem_put() may be a part. False: there is no other, and `json` is as it was.
     * Each may be null. */
    void (*add_fields)(const void *context, struct weir_head_writer *writer);
    void (*add_members)(const void *context, const struct weir_problem *problem,
                        struct weir_json *json);
    bool (*replace)(const void *context, const struct weir_problem *problem,
                    struct weir_json *json);
    const void *context; /* theirs */

    struct weir_slice request_id; /* of the request that it answers; empty: it has none */

    /* Of a refused ticket. */
    const struct weir_key_stats *stats; /* null: there was none */
    struct weir_slice gate;
    struct weir_slice key;
    struct weir_slice flow;
    struct weir_slice tenant;
    uint64_t waited_ns;
    uint64_t timeout_ns;
    uint64_t retry_ns; /* of a 429 or 503: when to come again; WEIR_NEVER: nothing is known */
};

/* What its type ends with: "line-full", ... */
const char *weir_problem_name(enum weir_problem_kind kind);

/* Writes the problem as a JSON object. */
void weir_problem_put(struct weir_json *json, const struct weir_problem *problem);

/* Writes the whole reply into the buffer. False if it does not fit, which it does unless names are
 * longer than they may be. */
WEIR_MUST_CHECK bool weir_problem_write(const struct weir_problem *problem, bool keep_alive,
                                        bool with_body, struct weir_buffer *buffer);

#endif
