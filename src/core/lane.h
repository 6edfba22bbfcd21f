/* lane.h - one way through a key: its limit, buckets, pause, breaker and controller.
 *
 * A lane answers two questions, when would you admit a ticket of this cost, and what holds you
 * back, and keeps count of what it gave. It knows nothing of lines and tenants. Lanes are separate
 * objects, because admitted tickets point to them while the settings around them change. */
#ifndef WEIR_CORE_LANE_H
#define WEIR_CORE_LANE_H

#include "core/bucket.h"
#include "core/control.h"
#include "weir/key.h"

#include <assert.h>

struct weir_lane {
    uint32_t room; /* how many permits may be out: the limit, or less while it is closed */
    uint32_t active;
    uint64_t paused_until_ns;
    uint64_t reserved; /* the cost of the permits that are out */
    uint32_t bucket_count;
    uint32_t limit;
    struct weir_bucket *buckets;
    uint32_t breaker_epoch; /* counts trips of the breaker */
    uint32_t failures;      /* soft losses in a row since then */
    uint16_t id;
    bool probing;              /* the breaker has tripped, and no probe has succeeded yet */
    bool retired;              /* no longer in the settings */
    bool stopped;              /* paused by hand */
    bool limited;              /* by hand, to: */
    uint32_t override_limit;   /* in place of `limit`, which goes on below it */
    uint32_t configured_limit; /* the settings' limit, which `limit` may have left */
    uint64_t breaker_pause_ns; /* how long the last trip has paused */
    uint64_t
        retry_after_heard_ns; /* when a reply last had Retry-After, without a controller; or 0 */
    struct weir_breaker_settings breaker;
    struct weir_control *control; /* null: it does not learn */
};

/* The limit that counts. */
static inline uint32_t weir_lane_limit(const struct weir_lane *lane)
{
    return lane->limited ? lane->override_limit : lane->limit;
}

/* What a waiting ticket is expected to cost. */
static inline struct weir_amount weir_ticket_amount(const struct weir_ticket *ticket)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    return (struct weir_amount){ticket->cost, inside->input, inside->output_max};
}

/* A lane with no buckets; weir_lane_configure() gives it those of its settings. Null without
 * memory. */
struct weir_lane *weir_lane_create(const struct weir_lane_settings *settings,
                                   const struct weir_allocator *allocator);

/* Requires that no permit is out. Null is none. */
void weir_lane_destroy(struct weir_lane *lane, const struct weir_allocator *allocator);

/* The moment of a change of settings. */
struct weir_change {
    uint64_t now_ns;
    uint32_t epoch; /* how many there have been, with this one */
};

/* Memory that a change of settings may need: for the buckets of the rates, if there are any, and
 * for a controller, if there is to be one and the lane has none of that kind. */
struct weir_lane_memory {
    struct weir_bucket *buckets;
    struct weir_control *control;
};

/* Whether the lane, which may be null, needs memory for the controller of these settings. */
bool weir_lane_needs_control(const struct weir_lane *lane,
                             const struct weir_lane_settings *settings);

/* Follows `settings`, which must last until the next change. The lane takes over the memory; so
 * this cannot fail. Levels, pause and breaker stay; a limit or rate changes only where the settings
 * differ from those before. */
void weir_lane_configure(struct weir_lane *lane, const struct weir_lane_settings *settings,
                         struct weir_lane_memory memory, struct weir_change change,
                         const struct weir_allocator *allocator);

/* Admits no ticket any more. */
void weir_lane_retire(struct weir_lane *lane);

void weir_lane_set_limit(struct weir_lane *lane, uint32_t limit);

/* What is set by hand at its key. */
void weir_lane_override(struct weir_lane *lane, const struct weir_override *override, bool stopped);

/* When the lane would admit a ticket of that amount, if nothing else happened: not after `now_ns`
 * if now, WEIR_NEVER if only a permit given back can help. `binding` tells what holds it back most.
 */
uint64_t weir_lane_ready_ns(const struct weir_lane *lane, const struct weir_amount *amount,
                            uint64_t now_ns, enum weir_binding *binding);

/* When to ask again, if the answer was that: sooner where a controller may change its mind. */
static inline uint64_t weir_lane_ask_ns(const struct weir_lane *lane, uint64_t ready_ns,
                                        uint64_t now_ns)
{
    return lane->control == NULL || ready_ns == WEIR_NEVER ? ready_ns
                                                           : weir_control_ask_ns(ready_ns, now_ns);
}

/* From when on the other side would take it, as far as it said so: its quotas, and Retry-After.
 * Now, if it says nothing. */
uint64_t weir_lane_quota_ns(const struct weir_lane *lane, const struct weir_amount *amount,
                            uint64_t now_ns);

/* Whether the lane admits a ticket of that amount now. Inline, because it is asked for every one.
 */
static inline bool weir_lane_admits(const struct weir_lane *lane, const struct weir_amount *amount,
                                    uint64_t now_ns)
{
    if (lane->active >= lane->room || lane->paused_until_ns > now_ns) {
        return false;
    }
    if (lane->control != NULL && !weir_control_admits(lane->control, amount, now_ns)) {
        return false;
    }
    enum weir_binding binding;
    return lane->bucket_count == 0 || weir_lane_ready_ns(lane, amount, now_ns, &binding) <= now_ns;
}

void weir_lane_take_from_buckets(struct weir_lane *lane, const struct weir_ticket *ticket,
                                 uint64_t now_ns);

/* Reserve the ticket's cost in the buckets and tell the controller, after weir_lane_take(); and
 * settle it in the buckets. */
static inline void weir_lane_reserve(struct weir_lane *lane, struct weir_ticket *ticket,
                                     uint64_t now_ns)
{
    if (lane->bucket_count > 0) {
        weir_lane_take_from_buckets(lane, ticket, now_ns);
    }
    if (lane->control != NULL) {
        weir_control_send(lane->control, ticket, lane->active, now_ns);
    }
}
void weir_lane_settle(struct weir_lane *lane, const struct weir_ticket *ticket,
                      struct weir_usage usage, uint64_t now_ns);

/* Whether the lane has a controller that has sent this ticket. */
static inline bool weir_lane_listens(const struct weir_lane *lane, const struct weir_ticket *ticket)
{
    return lane->control != NULL &&
           lane->control->since_epoch <= weir_inside(ticket)->settings_epoch;
}

/* Tell the controller the head of a reply, and that the ticket has ended, while it still holds its
 * permit. The limit and the pause follow. Require that the lane listens to the ticket. */
void weir_lane_hear(struct weir_lane *lane, struct weir_ticket *ticket,
                    const struct weir_reply *reply, uint64_t now_ns);
void weir_lane_end(struct weir_lane *lane, struct weir_ticket *ticket, enum weir_outcome outcome,
                   struct weir_usage usage, uint64_t now_ns);

/* What the breaker makes of an outcome. True if it tripped. Requires that there is one. */
bool weir_lane_learn(struct weir_lane *lane, const struct weir_ticket *ticket,
                     enum weir_outcome outcome, uint64_t now_ns);

/* Gives the ticket a permit. Requires that the lane admits it (G1). */
static inline void weir_lane_take(struct weir_lane *lane, struct weir_ticket *ticket)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    assert(lane->active < lane->room); /* G1 */
    lane->active++;
    lane->reserved += ticket->cost;
    inside->lane = lane;
    ticket->lane_id = lane->id;
    inside->breaker_epoch = lane->breaker_epoch;
}

/* Takes the ticket's permit back. */
static inline void weir_lane_give(struct weir_lane *lane, const struct weir_ticket *ticket)
{
    assert(lane->active > 0);
    lane->active--;
    lane->reserved -= ticket->cost;
}

/* From when on nothing is owed or paused at the lane, so that it may be forgotten: `now_ns` if that
 * is so now, WEIR_NEVER while a permit is held. */
uint64_t weir_lane_rest_ns(const struct weir_lane *lane, uint64_t now_ns);

#endif
