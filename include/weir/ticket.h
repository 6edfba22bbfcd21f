/* ticket.h - one request's place at a key: waiting, admitted, or ended.
 *
 * A ticket is embedded in the caller's own object (an exchange, a job, a thread's stack) and costs
 * no allocation. Start it zeroed. From weir_key_enter() until it has ended it belongs to the key:
 * it must neither move nor be freed, and only the library changes it. After that it may be used
 * again for another request.
 *
 *              enter                    a turn comes               leave
 *     IDLE ------------->  WAITING  ------------------> ADMITTED ---------> ENDED
 *       |                     | timeout, cancel, displaced     | cancel, lease  ^
 *       |  enter: refused     +--------------------------------+----------------+
 *       +-----------------------------------------------------------------------+
 */
#ifndef WEIR_TICKET_H
#define WEIR_TICKET_H

#include "weir/status.h"

#include <stdbool.h>

/* What one ticket may cost, in the caller's unit (tokens, bytes, seconds). */
#define WEIR_COST_MAX (UINT32_C(1) << 30)

/* What a bucket or a quota counts: of each ticket its cost, 1, or one of the two parts of its cost.
 */
enum weir_unit {
    WEIR_UNIT_COST,     /* all of it: input and output together */
    WEIR_UNIT_REQUESTS, /* 1 */
    WEIR_UNIT_INPUT,    /* `input` of the request */
    WEIR_UNIT_OUTPUT,   /* the rest of its cost */
    WEIR_UNIT_COUNT
};

/* Normal comes first, so that a zeroed request asks for it. */
enum weir_priority {
    WEIR_PRIORITY_NORMAL,
    WEIR_PRIORITY_HIGH,
    WEIR_PRIORITY_LOW,
    WEIR_PRIORITY_COUNT
};

enum weir_ticket_state {
    WEIR_TICKET_IDLE,     /* at no key; the state of a zeroed ticket */
    WEIR_TICKET_WAITING,  /* in its tenant's line */
    WEIR_TICKET_ADMITTED, /* holds a permit of a lane */
    WEIR_TICKET_ENDED     /* over; `end` says how */
};

/* How a ticket ended. */
enum weir_end {
    WEIR_END_NONE,
    WEIR_END_LEFT,      /* its permit was given back */
    WEIR_END_TIMEOUT,   /* its deadline passed in line */
    WEIR_END_CANCELLED, /* in line or admitted */
    WEIR_END_REFUSED,   /* at the door; `refusal` says why */
    WEIR_END_DISPLACED, /* from a full line, by a tenant below its share */
    WEIR_END_LAPSED,    /* admitted, and its lease ran out */
    WEIR_END_COUNT
};

/* How it went behind the gate; told when a permit is given back. */
enum weir_outcome {
    WEIR_OUTCOME_SUCCESS,
    WEIR_OUTCOME_RATE_LIMIT,   /* refused for its rate (429) */
    WEIR_OUTCOME_SOFT_LOSS,    /* 5xx, timeout, connection lost: counts against the breaker */
    WEIR_OUTCOME_CLIENT_ERROR, /* the caller's own fault */
    WEIR_OUTCOME_CANCELLED,    /* the caller went away */
    WEIR_OUTCOME_COUNT
};

/* What is asked for. A zeroed request is one of normal priority and cost 1 by the anonymous
 * tenant, with the key's own timeout and lease.
 *
 * Where the key estimates (`estimate` of its settings), leave `cost` at 0 and name `input` and
 * `output_max`: the cost is then the input and the output that is predicted. Otherwise a cost of 0
 * stands for 1, and a cost without input is all input. */
struct weir_request {
    struct weir_slice tenant; /* the tenant that asks; read during the call only */
    enum weir_priority priority;
    uint32_t cost;        /* expected, input and output; up to WEIR_COST_MAX; 0: see above */
    uint32_t input;       /* what is known of it beforehand; weir_estimate_input() */
    uint32_t output_max;  /* the most that the output can be (max_tokens); 0: not known */
    uint64_t deadline_ns; /* absolute; 0: the key's timeout from now; WEIR_NEVER: none */
    uint64_t lease_ns;    /* once admitted; 0: the key's own; WEIR_NEVER: none */
    uint64_t tag;         /* the caller's own; comes back in events */
    bool no_wait;         /* refuse with WEIR_WOULD_WAIT rather than wait */
    bool retry;           /* goes to the head of its tenant's line: it has waited before */
    uint64_t lanes_tried; /* bit n: the lane with id n is taken only if no other lane admits it */
};

/* What the library keeps in a ticket for itself, with room to spare: so a program runs with a later
 * version of the library, whose tickets remember more. */
#define WEIR_TICKET_INSIDE_BYTES 128

/* The ticket's owner may read every field but `inside`, and writes none. */
struct weir_ticket {
    uint8_t state;     /* enum weir_ticket_state */
    uint8_t end;       /* enum weir_end, once ENDED */
    uint8_t refusal;   /* enum weir_status, once refused */
    uint8_t priority;  /* enum weir_priority */
    uint16_t lane_id;  /* which lane admitted it */
    uint32_t cost;     /* as asked for, and reserved once admitted */
    uint64_t sequence; /* the key's count of arrivals when it came: unique at its key */
    uint64_t entered_ns;
    union {
        uint64_t admitted_ns;
        uint64_t retry_at_ns; /* refused with WEIR_QUOTA_SPENT: when there will be room again */
    };
    uint64_t deadline_ns;
    uint64_t lease_ns;
    uint64_t tag;
    union {
        uint64_t alignment;
        unsigned char bytes[WEIR_TICKET_INSIDE_BYTES];
    } inside; /* the library's own */
};

#ifdef __cplusplus
extern "C" {
#endif

/* The priority as a word: "normal", "high" or "low". Never null. */
WEIR_API const char *weir_priority_name(enum weir_priority priority);

/* Reads such a word, in lower case and nothing else. False, and nothing stored, if it is none. */
WEIR_API bool weir_priority_parse(struct weir_slice word, enum weir_priority *priority);

/* The outcome as a word: "success", "rate_limit", "soft_loss", "client_error" or "cancelled". Never
 * null. */
WEIR_API const char *weir_outcome_name(enum weir_outcome outcome);

/* Reads such a word, in lower case and nothing else. False, and nothing stored, if it is none. */
WEIR_API bool weir_outcome_parse(struct weir_slice word, enum weir_outcome *outcome);

#ifdef __cplusplus
}
#endif
#endif
