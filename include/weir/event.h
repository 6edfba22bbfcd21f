/* event.h - what a key decided, as fixed-size records in a ring.
 *
 * The same ring serves two ends. A caller hands one in with struct weir_news and drains it after
 * each call: that is the event stream. A key may keep one of its own, the recorder, that holds its
 * last decisions. When a ring is full the oldest record makes room, and the reader learns how many
 * it missed. */
#ifndef WEIR_EVENT_H
#define WEIR_EVENT_H

#include "weir/ticket.h"

enum weir_event_kind {
    WEIR_EVENT_THROTTLE, /* joins the line; `waiting` excludes it */
    WEIR_EVENT_ADMIT,    /* value: nanoseconds waited */
    WEIR_EVENT_LEAVE,    /* cause: outcome; value: nanoseconds held */
    WEIR_EVENT_CANCEL,   /* cause: outcome, if it held a permit; value: since it entered */
    WEIR_EVENT_TIMEOUT,  /* value: nanoseconds waited */
    WEIR_EVENT_REFUSE,   /* cause: enum weir_status */
    WEIR_EVENT_DISPLACE, /* value: nanoseconds waited */
    WEIR_EVENT_LAPSE,    /* a lease ran out; cause: outcome; value: nanoseconds held */
    WEIR_EVENT_LIMIT,    /* cause: enum weir_limit_reason; value: the limit before */
    WEIR_EVENT_PAUSE,    /* cause: enum weir_pause_reason; value: until when */
    WEIR_EVENT_KIND_COUNT
};

/* Why a limit is another one now. */
enum weir_limit_reason {
    WEIR_LIMIT_SET,     /* by a call or new settings */
    WEIR_LIMIT_GROWN,   /* all of it was used, and it went well */
    WEIR_LIMIT_PROBED,  /* one more than was known to be good is tried */
    WEIR_LIMIT_REFUSED, /* a 429: as many as that were too many */
    WEIR_LIMIT_LOST,    /* too many errors, timeouts or lost connections */
    WEIR_LIMIT_DELAYED, /* first tokens come late: requests queue up behind the gate */
    WEIR_LIMIT_REASON_COUNT
};

/* Why a lane is paused. */
enum weir_pause_reason {
    WEIR_PAUSE_SET,     /* by a call */
    WEIR_PAUSE_BREAKER, /* its breaker has tripped */
    WEIR_PAUSE_ASKED,   /* the other side asked for it (Retry-After), or refused without saying how
                           long */
    WEIR_PAUSE_FAILING, /* a request that failed there waits for another lane */
    WEIR_PAUSE_REASON_COUNT
};

/* Sets of kinds, for weir_event_ring_init(). The stream leaves out what happens to every ticket. */
#define WEIR_EVENTS_ALL ((1u << WEIR_EVENT_KIND_COUNT) - 1u)
#define WEIR_EVENTS_STREAM \
    (WEIR_EVENTS_ALL & ~((1u << WEIR_EVENT_ADMIT) | (1u << WEIR_EVENT_LEAVE)))

/* One decision, with the counts just after it. */
struct weir_event {
    uint64_t at_ns;
    uint64_t sequence; /* the ticket's; 0 where there is none */
    uint64_t tag;      /* the ticket's */
    uint64_t value;    /* see the kinds */
    uint32_t tenant;   /* the number of the tenant at this key, from 1; 0 where there is none */
    uint32_t cost;
    uint32_t active;  /* permits held at the key */
    uint32_t waiting; /* tickets in its line */
    uint32_t limit;   /* of the lane, where one is concerned; else of all lanes together */
    uint16_t lane_id;
    uint8_t kind;     /* enum weir_event_kind */
    uint8_t priority; /* enum weir_priority */
    uint8_t cause;    /* see the kinds */
};

struct weir_event_ring {
    struct weir_event *slots;
    uint32_t slot_count;
    uint32_t kinds; /* bit set of what is kept */
    uint64_t written;
    uint64_t read;
    uint64_t lost; /* overwritten before they were read */
};

#ifdef __cplusplus
extern "C" {
#endif

/* A ring over `slots`, which stay the caller's. Requires at least one slot. */
WEIR_API void weir_event_ring_init(struct weir_event_ring *ring, struct weir_event *slots,
                                   uint32_t slot_count, uint32_t kinds);

/* Takes the oldest unread record. False, and nothing written, when there is none. */
WEIR_API bool weir_event_ring_pop(struct weir_event_ring *ring, struct weir_event *event);

/* The kind as a word: "throttle", "admit", ... Never null. */
WEIR_API const char *weir_event_kind_name(enum weir_event_kind kind);

/* The reason as a word: "set", "grown", ... Never null. */
WEIR_API const char *weir_limit_reason_name(enum weir_limit_reason reason);

#ifdef __cplusplus
}
#endif
#endif
