/* status.h - every way in which a call can say no, each with a name and a sentence.
 *
 * The table is the single list: the enum, the names and the sentences are made from it. */
#ifndef WEIR_STATUS_H
#define WEIR_STATUS_H

#include "weir/types.h"

/* clang-format off */
#define WEIR_STATUS_MAP(X) \
    X(OK, "done") \
    X(NO_MEMORY, "memory could not be allocated; nothing has changed") \
    /* Settings and arguments out of range. */ \
    X(BAD_LANES, "a key needs 1 to 64 lanes, each with an id of its own") \
    X(BAD_LIMIT, "a limit must be from 0 to 10000000, or WEIR_LIMIT_NONE") \
    X(BAD_RATE, "a rate needs 1 to 2^40 tokens in a period of 1 second to 1 day, and a burst of at most 2^40") \
    X(BAD_BREAKER, "a breaker needs a first pause above 0 that is not longer than its longest pause") \
    X(BAD_CONTROL, "a controller needs min <= start <= max of its window and rate, and known words") \
    X(BAD_WEIGHT, "a priority's weight must be from 1 to 16, a tenant's from 1 to 1000") \
    X(BAD_BOUND, "a line holds at most 10000000 tickets and a summed cost of 2^42") \
    X(BAD_DURATION, "a timeout, lease or pause is too long; use WEIR_NEVER for none") \
    X(BAD_TENANTS, "a key keeps 1 to 1000000 tenants, and a tenant is named once, in at most 255 bytes") \
    X(BAD_NAME, "a name has 1 to 255 bytes; only the anonymous tenant's is empty") \
    X(BAD_PRIORITY, "a priority is high, normal or low") \
    X(BAD_COST, "a cost must be from 1 to 2^30; when a permit is given back, from 0") \
    X(BAD_OUTCOME, "an outcome is success, rate_limit, soft_loss, client_error or cancelled") \
    X(BAD_RECORDER, "a recorder keeps at most 65536 decisions") \
    X(BAD_KEYS, "a gate keeps 1 to 10000000 keys") \
    X(BAD_EXTRA, "a key sets aside at most 1048576 bytes for its caller") \
    X(NO_LANE, "the key has no lane with that id, or the lane no such bucket") \
    /* Refusals at the door. */ \
    X(LINE_FULL, "the line is full; come back after it has drained") \
    X(PRIORITY_FULL, "the line is full for this priority; come back later or at another priority") \
    X(TENANT_FULL, "this tenant has as much in line as it may; wait for some of it to pass") \
    X(TOO_LATE, "its turn will likely come after its deadline; come back later, or give it more time") \
    X(WOULD_WAIT, "it would have to wait, and was asked not to") \
    X(BUDGET_SPENT, "this tenant's budget is spent; come back when it has refilled") \
    X(QUOTA_SPENT, "the provider's quota is spent for longer than it may wait; come back when it is refilled") \
    X(TOO_MANY_KEYS, "the gate keeps as many keys as it may, and none could be forgotten") \
    X(TOO_MANY_GATES, "there are as many gates as may be; a restart forgets those that are no longer named") \
    X(TOO_MANY_OVERRIDES, "as many keys have a limit or pause by hand as may be; take some back") \
    /* How a wait or a permit came to its end. */ \
    X(TIMED_OUT, "the deadline passed while it waited in line") \
    X(DISPLACED, "its place in the full line went to a tenant below its fair share") \
    X(CANCELLED, "it was cancelled") \
    X(NOT_HELD, "there is no such permit: it was never given, was given back, or has lapsed") \
    X(WRONG_KEY, "the ticket belongs to another key; nothing has changed")
/* clang-format on */

enum weir_status {
#define WEIR_STATUS_ENUM(name, text) WEIR_##name,
    WEIR_STATUS_MAP(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
    WEIR_STATUS_COUNT
};

#ifdef __cplusplus
extern "C" {
#endif

/* The status as a word, such as "LINE_FULL". Never null, also for a number that is no status. */
WEIR_API const char *weir_status_name(enum weir_status status);

/* The status as a sentence for people. Never null. */
WEIR_API const char *weir_status_text(enum weir_status status);

#ifdef __cplusplus
}
#endif
#endif
