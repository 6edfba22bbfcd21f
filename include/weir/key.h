/* key.h - the gate's decisions at one key: which ticket goes next, through which lane, and which
 * wait.
 *
 * Every call takes the present time and an out-parameter, the news, and does all of its work
 * before it returns: there are no callbacks, clocks, locks or system calls inside. A program with
 * threads brings a lock per key, holds it around each call, and takes the news before it
 * lets go of it.
 *
 * Each call stores in the news when the key next needs weir_key_wake(): at a deadline, the end of
 * a lease or a pause, or a refill. Arm one timer per key for that moment; waking too early or too
 * often is harmless. A time smaller than one already seen counts as that one.
 *
 * Order: the priorities take turns by weight; within a priority the tenant with the least virtual
 * time is next, which is charged with cost over weight; within a tenant it is first come, first
 * served. docs/internals/gate.md states the invariants G1 to G12. */
#ifndef WEIR_KEY_H
#define WEIR_KEY_H

#include "weir/event.h"
#include "weir/settings.h"
#include "weir/ticket.h"

struct weir_key;

/* The most tickets that one call admits from the line, and the most that it ends because of the
 * time; the rest follow at the next wake, which is then due at once. It bounds how long a lock is
 * held. Only displacement by summed cost is not bounded by it: an arrival sends away as many as it
 * takes, each of which has come through the door before. */
#define WEIR_BATCH_MAX 1024

/* What a call did to tickets other than its own, and when to call again. Start it zeroed, with
 * `events` set to a ring or null. May be used for many calls; drain it after each. */
struct weir_news {
    struct weir_link *first; /* private: see weir_news_next() */
    struct weir_link *last;
    struct weir_event_ring *events;
    uint64_t wake_ns; /* when the key needs weir_key_wake(); WEIR_NEVER: not before the next call */
};

enum weir_admission {
    WEIR_ADMITTED, /* it holds a permit: go, and give it back with weir_key_leave() */
    WEIR_WAITING,  /* it stands in line: the news of some later call will tell */
    WEIR_REFUSED   /* it is over; `refusal` of the ticket says why */
};

/* What the caller reports when it gives a permit back. On a lane with a controller, a cost that is
 * not known is what was counted while streaming; nothing, if it was refused or failed before it was
 * answered; else the estimate. */
struct weir_result {
    enum weir_outcome outcome;
    /* These two side by side, where one load tests both. */
    bool cost_known;  /* whether `cost` is what it really cost; else the estimate stands */
    bool moves;       /* it goes on to another lane, where its tenant is charged; here it is not */
    uint32_t cost;    /* 0 .. WEIR_COST_MAX */
    bool usage_known; /* whether `input` and `output` are; their sum is then the cost */
    uint32_t input;
    uint32_t output;
    const struct weir_reply *reply; /* what weir_key_hear() was not told yet; may be null */
};

/* What keeps a waiting ticket from going. */
enum weir_binding {
    WEIR_BINDING_NONE,         /* it is not waiting */
    WEIR_BINDING_TURN,         /* others are before it */
    WEIR_BINDING_LIMIT,        /* it is next, and every lane has given all its permits */
    WEIR_BINDING_BUCKET,       /* it is next, and waits for a refill */
    WEIR_BINDING_PAUSE,        /* it is next, and the lanes with room are paused */
    WEIR_BINDING_BREAKER,      /* it is next, and the lanes with room have tripped */
    WEIR_BINDING_TENANT_LIMIT, /* its tenant holds as many permits as it may */
    WEIR_BINDING_TENANT_RATE,  /* its tenant goes as fast as it may */
    WEIR_BINDING_GATE_PAUSED,  /* the key or all of its gate is paused by hand */
    WEIR_BINDING_COUNT
};

struct weir_explanation {
    enum weir_binding binding;
    uint32_t ahead_own; /* tickets of its own tenant and priority before it */
    uint32_t ahead;     /* estimate of all tickets that go before it */
    uint64_t start_ns;  /* predicted; 0 while it cannot be */
};

/* A ticket that waits. */
struct weir_place {
    const struct weir_ticket *ticket; /* valid until the next call on the key */
    struct weir_slice tenant;         /* the same; empty for the anonymous one */
    struct weir_explanation why;
};

#define WEIR_PLACES_MAX 1000

struct weir_key_stats {
    uint32_t active;  /* permits held */
    uint32_t waiting; /* tickets in line */
    uint32_t limit;   /* of all lanes together; WEIR_LIMIT_NONE if one has none */
    uint32_t tenants; /* remembered */
    uint32_t lanes;
    uint64_t reserved; /* cost of the permits held */
    uint64_t waiting_cost;
    uint32_t waiting_by_priority[WEIR_PRIORITY_COUNT];
    uint64_t entered;
    uint64_t ended[WEIR_END_COUNT];
    uint64_t interval_ns; /* mean time between two starts from the line; 0 while unknown */
    uint64_t wake_ns;
    struct weir_estimate_stats estimate; /* of all tenants together */
};

/* What an operator has set at a key by hand. It stands above the settings, which do not change it,
 * and above controllers, which go on learning below it. Zeroed, nothing is set. */
struct weir_override {
    bool paused;    /* no ticket is admitted; permits that are held stay */
    bool limited;   /* each lane has this limit instead of its own */
    uint32_t limit; /* 0 .. WEIR_LIMIT_MAX, or WEIR_LIMIT_NONE */
};

struct weir_lane_stats {
    uint16_t id;
    uint32_t active;
    uint32_t limit;
    uint64_t reserved;
    uint64_t paused_until_ns; /* 0 when it is not paused */
    bool probing;             /* its breaker has tripped and no probe has succeeded since */
    uint32_t bucket_count;
    int64_t bucket_level[WEIR_RATES_MAX]; /* whole tokens, rounded down; less than 0 is debt */
};

/* What a tenant may have at a key, and has. */
struct weir_share {
    uint32_t active;
    uint32_t limit;        /* permits at once; 0: none of its own */
    struct weir_rate rate; /* tokens 0: none */
    int64_t level;         /* of its bucket: whole tokens, rounded down; less than 0 is debt */
    struct weir_rate cost; /* the second one, and its level */
    int64_t cost_level;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Takes the next ticket whose state another caller's call has changed: ADMITTED, or ENDED by
 * timeout, displacement or lapse. Null when there is none. */
WEIR_API struct weir_ticket *weir_news_next(struct weir_news *news);

/* Asks for a permit. `ticket` must be IDLE or ENDED. WEIR_REFUSED leaves nothing behind, be it for
 * a bad request, a full line or missing memory. With `retry`, the deadline should be the one that
 * the first attempt had. */
WEIR_API WEIR_MUST_CHECK enum weir_admission
weir_key_enter(struct weir_key *key, struct weir_ticket *ticket, const struct weir_request *request,
               uint64_t now_ns, struct weir_news *news);

/* Gives a permit back and passes it on. WEIR_NOT_HELD when the ticket is not admitted,
 * WEIR_WRONG_KEY when it is another key's, WEIR_BAD_COST for a cost out of range: then nothing
 * changes. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_key_leave(struct weir_key *key,
                                                         struct weir_ticket *ticket,
                                                         const struct weir_result *result,
                                                         uint64_t now_ns, struct weir_news *news);

/* Tells the head of the reply to an admitted ticket, once: that the first byte is there, and what
 * the headers said. Only a lane with a controller listens. What is learned may let others go, which
 * stand in the news. WEIR_NOT_HELD, WEIR_WRONG_KEY and WEIR_BAD_OUTCOME as above. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_key_hear(struct weir_key *key,
                                                        struct weir_ticket *ticket,
                                                        const struct weir_reply *reply,
                                                        uint64_t now_ns, struct weir_news *news);

/* Tells how much output has come so far, all of it counted from the start. What exceeds the
 * estimate is charged at once, to the lane, the tenant's bucket and its turn. Only a lane with a
 * controller listens. WEIR_NOT_HELD, WEIR_WRONG_KEY and WEIR_BAD_COST as above. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_key_progress(struct weir_key *key,
                                                            struct weir_ticket *ticket,
                                                            uint32_t output, uint64_t now_ns,
                                                            struct weir_news *news);

/* Ends a ticket wherever it is: in line it goes away, admitted it gives its permit back with the
 * outcome CANCELLED and its estimate as cost. WEIR_NOT_HELD when it had ended before: another call
 * won the race. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_key_cancel(struct weir_key *key,
                                                          struct weir_ticket *ticket,
                                                          uint64_t now_ns, struct weir_news *news);

/* Restarts the lease of a permit, for `lease_ns` from now on. WEIR_NOT_HELD when the ticket is not
 * admitted, also because its lease is over; WEIR_WRONG_KEY as above; WEIR_BAD_DURATION. A permit
 * without a lease stays without. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_key_renew(struct weir_key *key,
                                                         struct weir_ticket *ticket,
                                                         uint64_t lease_ns, uint64_t now_ns,
                                                         struct weir_news *news);

/* Lets a ticket in line wait until `deadline_ns`, if its own deadline is before that; its place
 * stays. A moment further away than WEIR_DURATION_MAX_NS counts as that. WEIR_NOT_HELD when it does
 * not wait, also because its deadline has passed; WEIR_WRONG_KEY as above. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_key_extend(struct weir_key *key,
                                                          struct weir_ticket *ticket,
                                                          uint64_t deadline_ns, uint64_t now_ns,
                                                          struct weir_news *news);

/* Does what has become due: deadlines, leases, refills, ends of pauses. */
WEIR_API void weir_key_wake(struct weir_key *key, uint64_t now_ns, struct weir_news *news);

/* Changes a lane's limit: 0 .. WEIR_LIMIT_MAX or WEIR_LIMIT_NONE. Permits already given stay. A
 * controller goes on from there. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_key_set_limit(struct weir_key *key, uint16_t lane_id,
                                                             uint32_t limit, uint64_t now_ns,
                                                             struct weir_news *news);

/* Sets by hand, or takes back, what stands above the settings. WEIR_BAD_LIMIT changes nothing. The
 * override goes with the key when that is forgotten: a caller that wants it to stay pins the
 * key. */
WEIR_API WEIR_MUST_CHECK enum weir_status
weir_key_set_override(struct weir_key *key, const struct weir_override *override, uint64_t now_ns,
                      struct weir_news *news);
WEIR_API struct weir_override weir_key_get_override(const struct weir_key *key);

/* Whether the key is paused by hand, be it alone or with all of its gate (weir_gate_pause()). */
WEIR_API bool weir_key_is_paused(const struct weir_key *key);

/* Changes how fast a lane's bucket refills from now on, and how much it holds; what is in it stays
 * but for what no longer fits. `index` counts the lane's rates. The unit cannot change. */
WEIR_API WEIR_MUST_CHECK enum weir_status
weir_key_set_rate(struct weir_key *key, uint16_t lane_id, uint32_t index,
                  const struct weir_rate *rate, uint64_t now_ns, struct weir_news *news);

/* Whether a ticket that holds a permit could go through another lane, which is not among
 * `lanes_tried` (bit n: the lane with id n): none is open; one is, but has no room now; one would
 * admit it now. */
enum weir_other_lane {
    WEIR_OTHER_LANE_NONE,
    WEIR_OTHER_LANE_FULL,
    WEIR_OTHER_LANE_FREE
};

WEIR_API enum weir_other_lane weir_key_other_lane(const struct weir_key *key,
                                                  const struct weir_ticket *ticket,
                                                  uint64_t lanes_tried, uint64_t now_ns);

/* The lane admits no ticket until `until_ns`; a moment that has passed ends a pause. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_key_pause(struct weir_key *key, uint16_t lane_id,
                                                         uint64_t until_ns, uint64_t now_ns,
                                                         struct weir_news *news);

/* The lane of a ticket that holds a permit admits no other until `until_ns`, or for as long as it
 * is paused already: the request has failed there and is about to wait for another lane. */
WEIR_API void weir_key_pause_failing(struct weir_key *key, struct weir_ticket *ticket,
                                     uint64_t until_ns, uint64_t now_ns, struct weir_news *news);

/* Why a ticket waits, and when it will likely start. Walks over those of its own tenant that are
 * before it. */
WEIR_API struct weir_explanation
weir_key_explain(const struct weir_key *key, const struct weir_ticket *ticket, uint64_t now_ns);

/* weir_key_explain() for lines of any length: looks at few more than `looks_max` tickets, at least
 * 1, and where more of its own tenant are before it, estimates how many from the order of their
 * coming. */
WEIR_API struct weir_explanation weir_key_explain_within(const struct weir_key *key,
                                                         const struct weir_ticket *ticket,
                                                         uint32_t looks_max, uint64_t now_ns);

/* The waiting tickets, in the order in which they will go if no other ticket comes and costs are as
 * estimated: up to `places_max` of them, which is at most WEIR_PLACES_MAX. A ticket that a limit or
 * rate of its tenant holds back has the place that it would have without. Returns how many. Looks
 * at every tenant that waits. `ahead` is exact here, and so is what is predicted by it. */
WEIR_API uint32_t weir_key_line(const struct weir_key *key, uint64_t now_ns,
                                struct weir_place *places, uint32_t places_max);

/* How long a ticket that came now would wait, from the measured drain: 0 if not at all, WEIR_NEVER
 * while too few have passed to predict that, or while its tenant is at its own limit. Requires one
 * of the three priorities. */
WEIR_API uint64_t weir_key_predict(const struct weir_key *key, struct weir_slice tenant,
                                   enum weir_priority priority, uint64_t now_ns);

WEIR_API struct weir_key_stats weir_key_get_stats(const struct weir_key *key);

/* The lane at `index`, in the order of the settings; lanes that were taken out of the settings and
 * still hold permits come last. False, and nothing written, past the end. */
WEIR_API bool weir_key_get_lane(const struct weir_key *key, uint32_t index, uint64_t now_ns,
                                struct weir_lane_stats *stats);

/* What the controller of the lane at `index` believes. False, and nothing written, if there is no
 * such lane or it has no controller. */
WEIR_API bool weir_key_get_control(const struct weir_key *key, uint32_t index, uint64_t now_ns,
                                   struct weir_control_stats *stats);

/* What the tenant of a ticket may have. False, and nothing written, if the ticket neither waits at
 * the key nor holds a permit of it. */
WEIR_API bool weir_key_get_share(const struct weir_key *key, const struct weir_ticket *ticket,
                                 uint64_t now_ns, struct weir_share *share);

/* What the tenant of that name may have, whether it has any ticket there or not. Of one that the
 * key does not know it is what the settings say, with nothing taken. */
WEIR_API struct weir_share weir_key_tenant_share(const struct weir_key *key,
                                                 struct weir_slice tenant, uint64_t now_ns);

/* The tenant's name by the number that events carry; empty for the anonymous one and for one that
 * has been forgotten. Looks at every tenant. Valid until the next call on the key. */
WEIR_API struct weir_slice weir_key_tenant_name(const struct weir_key *key, uint32_t number);

WEIR_API struct weir_slice weir_key_name(const struct weir_key *key);

/* The last decisions, if the settings ask for a recorder; else null. Drain it like any ring. */
WEIR_API struct weir_event_ring *weir_key_recorder(struct weir_key *key);

/* The bytes that the gate set aside in each key for its caller; zeroed at first. */
WEIR_API void *weir_key_extra(struct weir_key *key);

/* Walks over everything and asserts every invariant that can be seen at rest. For tests. */
WEIR_API void weir_key_validate(const struct weir_key *key);

#ifdef __cplusplus
}
#endif
#endif
