/* retry.h - what the end of an exchange means, and whether to try again.
 *
 * Pure functions and one small account. Randomness comes from the caller. A retry is a new ticket
 * at the head of its tenant's line (`retry` of struct weir_request) that enters at the moment named
 * here, with the deadline of the first attempt; no permit is held meanwhile. */
#ifndef WEIR_RETRY_H
#define WEIR_RETRY_H

#include "weir/ticket.h"

#define WEIR_RETRIES_MAX        2
#define WEIR_RETRY_BACKOFF_NS   (UINT64_C(200) * 1000 * 1000)
#define WEIR_RETRY_JITTER       0.5
#define WEIR_RETRY_SHARE_FAILED 0.08 /* of requests may be sent again after an error or timeout */
#define WEIR_RETRY_SHARE_429    0.02 /* after a refusal, which also needs the controller's leave */
#define WEIR_RETRY_SAVED_FAILED 3.0  /* retries that may be saved up */
#define WEIR_RETRY_SAVED_429    100.0

/* How an exchange with the other side ended, as far as it is known. Zeroed, with a status: the
 * plain case. */
struct weir_exchange_end {
    uint16_t status;      /* of the reply; 0: there was none */
    bool timed_out;       /* no reply in time */
    bool connection_lost; /* refused, reset, or ended before the reply did */
    bool caller_gone;     /* the caller went away: nothing is learned */
    bool do_not_retry;    /* the other side said so */
    bool bytes_passed_on; /* the caller has seen part of the reply: too late to start again */
};

/* How much may be sent again. Start it with weir_retry_budget_init(); one per key, or per program.
 */
struct weir_retry_budget {
    double failed;
    double refused;
};

struct weir_retry_question {
    struct weir_exchange_end end;
    uint32_t attempt; /* how many were sent already, the failed one included: from 1 */
    bool retry_after_known;
    uint64_t retry_after_ns;
    uint64_t deadline_ns; /* absolute; WEIR_NEVER: none */
    uint64_t now_ns;
    uint32_t random; /* fresh, all 32 bits */
};

enum weir_retry_decision {
    WEIR_RETRY_YES,
    WEIR_RETRY_NO_KIND,      /* not an end that is tried again */
    WEIR_RETRY_NO_FORBIDDEN, /* the other side said so, or the reply has begun */
    WEIR_RETRY_NO_ATTEMPTS,  /* tried often enough */
    WEIR_RETRY_NO_TIME,      /* it would come after the deadline */
    WEIR_RETRY_NO_BUDGET,    /* too many are being tried again */
    WEIR_RETRY_DECISION_COUNT
};

#ifdef __cplusplus
extern "C" {
#endif

/* The outcome to tell the lane: 429 is RATE_LIMIT; 5xx (529 too), a timeout and a lost connection
 * are SOFT_LOSS; other 4xx are CLIENT_ERROR; everything else is SUCCESS. */
WEIR_API enum weir_outcome weir_signal_outcome(const struct weir_exchange_end *end);

/* Full accounts. */
WEIR_API void weir_retry_budget_init(struct weir_retry_budget *budget);

/* Call for every new request, not for retries. */
WEIR_API void weir_retry_budget_earn(struct weir_retry_budget *budget);

/* Whether what ended like this is tried again at all: no reply in time, 429, 503 and 529. Of every
 * other end weir_retry_decide() says NO_KIND. */
WEIR_API bool weir_retry_possible(const struct weir_exchange_end *end);

/* Whether to try again. On YES it has been paid for, and `*at_ns` is when: after Retry-After, else
 * after 200 ms x attempt, up to half of it more or less. Otherwise nothing changes. */
WEIR_API enum weir_retry_decision weir_retry_decide(struct weir_retry_budget *budget,
                                                    const struct weir_retry_question *question,
                                                    uint64_t *at_ns);

#ifdef __cplusplus
}
#endif
#endif
