/* key.h - the state of one key, shared by the files that together make its decisions:
 *
 *   enter.c    a ticket comes to the door
 *   plain.h    the short way of a ticket about which there is nothing to decide
 *   key.c      the other calls of weir/key.h
 *   serve.c    which tickets are admitted and end, and what is due
 *   tell.c     events and news
 *   line.c     the order of waiting tickets: priorities, virtual time, held and parked tenants
 *   door.c     bounds and shares
 *   tenant.c   the tenants that the key remembers
 *   lane.c     the ways through
 *   explain.c  answers questions about it
 *   apply.c    new settings
 *
 * gate.c owns the keys. */
#ifndef WEIR_CORE_KEY_H
#define WEIR_CORE_KEY_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "core/door.h"
#include "core/lane.h"
#include "core/rules.h"
#include "core/tenant.h"
#include "weir/key.h"

static_assert((uint64_t)WEIR_TENANTS_MAX * WEIR_TENANT_WEIGHT_MAX <= UINT32_MAX,
              "weights can be added");

struct weir_priority_line {
    struct weir_heap ready; /* turns with tickets whose tenant is free, by virtual time */
    uint64_t clock;         /* virtual: where the last admission started */
    uint32_t rebased;       /* the upper half of the clock when idle turns last caught up with it */
    uint32_t ready_weight;  /* of the tenants in `ready` */
    struct weir_share_heap share_heap; /* its turns with tickets */
};

/* How fast the line drains: the mean time between two starts while a ticket waits. */
struct weir_drain {
    uint64_t interval_ns;
    uint64_t last_ns; /* the last start, if the line has not been empty since; else 0 */
    uint64_t starts;
};

/* What outputs are predicted to be at a key, and how far off that was. */
struct weir_key_estimates {
    uint32_t since_epoch; /* the key's count of changes when this began */
    uint64_t count;       /* outputs, of all tenants */
    double output_sum;    /* their mean is what a new tenant's are expected to be */
    double error_sum;
    double error_abs_sum;
};

struct weir_key {
    /* What every ticket touches comes first. */
    uint64_t now_ns;           /* the latest time seen: it never goes back (G8) */
    uint64_t wake_ns;          /* when the next thing is due */
    uint64_t plain_until_ns;   /* up to when tickets may go the short way of plain.h; or 0 */
    uint64_t blocked_until_ns; /* when a lane may admit the ticket that is next */
    uint64_t next_sequence;
    struct weir_lane **lanes; /* lane_count in the order of the settings, then the retired ones */
    uint32_t lane_count;
    uint32_t lane_total;
    uint32_t lane_capacity;
    uint32_t active;
    uint32_t ready;      /* turns in all three heaps */
    uint16_t cursor;     /* below the slots of a cycle, of which there are few */
    uint16_t batch_left; /* how many this call may yet admit from the line */
    uint32_t timed;      /* tickets that have a deadline or lease: the room needed in `timers` */
    uint32_t settings_epoch; /* how often the settings have changed */
    uint32_t last_tenant_number;
    uint32_t pins;              /* atomic: their count, and the flags of gate.c */
    struct weir_tenant *recent; /* the tenant that came last, which often comes again */
    struct weir_rules *rules;
    struct weir_event_ring *recorder;
    uint64_t ended[WEIR_END_COUNT];

    struct weir_priority_line priorities[WEIR_PRIORITY_COUNT];
    struct weir_share_heap share_heap; /* tenants with tickets in line */
    struct weir_heap timers;           /* tickets by deadline or end of lease */
    struct weir_heap parked;           /* tenants by when they are ready again */
    struct weir_map tenants;           /* by name */
    struct weir_link all_tenants;
    struct weir_drain drain;
    struct weir_key_estimates *meter; /* null where nothing is estimated */

    /* What the gate keeps with it. */
    struct weir_gate *gate;
    const struct weir_allocator *allocator;
    struct weir_map_node node; /* in the gate's table */
    struct weir_link link;     /* in the gate's list */
    union {                    /* where the gate looks for keys to forget: see gate.c */
        struct weir_link used; /* T1: in the list by last use */
        uint32_t rest_place;   /* T2, when `owing`: in the heap by when keys come to rest */
        struct weir_key *next_returned; /* T4 */
    };
    bool owing;       /* T2 */
    bool simple;      /* one lane without buckets, breaker or controller, no leases, no recorder,
                         no estimates */
    bool controlled;  /* a lane has a controller */
    bool awaiting;    /* and knows that a ticket waits for it */
    bool gate_paused; /* all of the gate is, by hand */
    struct weir_override override; /* of this key */
    uint8_t name_bytes;
    char name[];
};

/* ---- line.c ---- */

/* A ticket's states only ever go up, and weir_ticket_reset() alone takes them down again, for a
 * ticket that is at no key. Nothing else changes a state. */
static_assert(WEIR_TICKET_IDLE < WEIR_TICKET_WAITING, "states go up");
static_assert(WEIR_TICKET_WAITING < WEIR_TICKET_ADMITTED, "states go up");
static_assert(WEIR_TICKET_ADMITTED < WEIR_TICKET_ENDED, "states go up");

static inline bool weir_ticket_at_no_key(const struct weir_ticket *ticket)
{
    return (ticket->state == WEIR_TICKET_IDLE || ticket->state == WEIR_TICKET_ENDED) &&
           !weir_inside(ticket)->listed;
}

static inline void weir_ticket_reset(struct weir_ticket *ticket)
{
    assert(weir_ticket_at_no_key(ticket));
    ticket->state = WEIR_TICKET_IDLE;
    ticket->end = WEIR_END_NONE;
    ticket->refusal = WEIR_OK;
}

static inline void weir_ticket_move(struct weir_ticket *ticket, enum weir_ticket_state state)
{
    assert(ticket->state < state);
    ticket->state = (uint8_t)state;
}

/* Reserves what adding one ticket of that tenant and priority may need, then and later. False
 * without memory. */
bool weir_line_reserve(struct weir_key *key, const struct weir_turn *turn);

/* Puts a ticket into its turn's line. Requires weir_line_reserve(). */
void weir_line_add(struct weir_key *key, struct weir_ticket *ticket);

/* Takes a waiting ticket out of line; it is up to the caller what becomes of it. */
void weir_line_remove(struct weir_key *key, struct weir_ticket *ticket);

/* The slot of the cycle, at or after the cursor, whose turn it is. Requires a ready turn. */
uint32_t weir_line_slot(const struct weir_key *key);

/* The turn that is next at that slot, and the first ticket of a turn. */
struct weir_turn *weir_line_next(const struct weir_key *key, uint32_t slot);
struct weir_ticket *weir_turn_first(const struct weir_turn *turn);

/* Charges an admission to the tenant's virtual time. The caller then moves a ready turn. */
static inline void weir_line_charge(struct weir_priority_line *line, struct weir_turn *turn,
                                    uint64_t charge)
{
    uint64_t start = turn->virtual_time;
    if ((int64_t)(start - line->clock) > 0) {
        line->clock = start;
    } else {
        start = line->clock;
    }
    turn->virtual_time = start + charge;
}

/* Whether the clock has moved by 2^60 since idle turns last caught up with it. */
static inline bool weir_line_is_far(const struct weir_priority_line *line)
{
    return (uint32_t)(line->clock >> 32) - line->rebased >= UINT32_C(1) << 28;
}

/* Lets turns that have fallen far behind catch up with the clock. Virtual times are compared by
 * their difference, which must stay below 2^63; so this must be called before the clock has moved
 * by 2^61. Hardly ever does anything, and so is inline up to there. */
void weir_line_rebase_far(struct weir_key *key);

static inline void weir_line_rebase(struct weir_key *key)
{
    const struct weir_priority_line *lines = key->priorities;
    static_assert(WEIR_PRIORITY_COUNT == 3, "all are asked");
    if (weir_line_is_far(&lines[0]) || weir_line_is_far(&lines[1]) || weir_line_is_far(&lines[2])) {
        weir_line_rebase_far(key);
    }
}

/* Corrects a charge once the true cost is known. */
void weir_line_correct(struct weir_key *key, struct weir_turn *turn, uint32_t charged,
                       uint32_t actual);

/* Takes a free tenant's turns out of the ready heaps: until a permit comes back, or until a
 * moment. */
void weir_line_hold(struct weir_key *key, struct weir_tenant *tenant);
void weir_line_park(struct weir_key *key, struct weir_tenant *tenant, uint64_t until_ns);

/* Makes a held or parked tenant ready again; a free one stays as it is. */
void weir_line_free(struct weir_key *key, struct weir_tenant *tenant);

/* Asserts that heaps, lists and counts agree. */
void weir_line_validate(const struct weir_key *key);

/* ---- key.c ---- */

/* Makes a zeroed key, with its gate and allocator set, one that is at rest and has no lanes; those
 * come with weir_key_apply(). */
void weir_key_init(struct weir_key *key, uint64_t now_ns);

/* Gives back the memory that only waiting tickets need. Requires that nothing waits or is held. */
void weir_key_trim(struct weir_key *key);

/* Gives back all that the key holds but its own memory. Requires that nothing waits or is held. */
void weir_key_deinit(struct weir_key *key);

/* Admits every ticket that can be admitted, then computes when the key next needs to be woken. */
void weir_key_serve(struct weir_key *key, struct weir_news *news);

/* From when on nothing is held, waits, is owed or paused at the key, if it is not used until then:
 * `now_ns` if that is so now, WEIR_NEVER while a permit is held or waited for (G12). */
uint64_t weir_key_rest_ns(const struct weir_key *key, uint64_t now_ns);

/* Whether the key is at rest and has not been used for the time that its settings say. */
bool weir_key_forgettable(const struct weir_key *key, uint64_t now_ns);

/* Of all lanes in the settings together. */
uint32_t weir_key_limit(const struct weir_key *key);

/* The gate is paused by hand, or no longer. */
void weir_key_pause_with_gate(struct weir_key *key, bool paused, uint64_t now_ns,
                              struct weir_news *news);

/* Whether a ticket that would join the line now will likely start after its deadline. False while
 * too few have started from the line to tell. */
bool weir_key_too_late(const struct weir_key *key, const struct weir_ticket *ticket);

/* A reply to a request that went through that lane on a permit of another owner's, such as its
 * flow's: only its Retry-After counts. A lane that is gone hears nothing. */
void weir_key_hear_retry_after(struct weir_key *key, uint16_t lane_id,
                               const struct weir_reply *reply, uint64_t now_ns,
                               struct weir_news *news);

/* Whether the line would take a ticket, which holds a permit, once more until `deadline_ns`. */
bool weir_key_may_rejoin(const struct weir_key *key, const struct weir_ticket *ticket,
                         uint64_t deadline_ns);

/* Moves a permit from one ticket, which must hold it, to another, which is at no key. Nothing else
 * at the key changes; the first ticket is as if it had never been anywhere. Both belong to callers
 * that the library does not know, so it is not part of weir/key.h. */
void weir_key_move_permit(struct weir_key *key, struct weir_ticket *from, struct weir_ticket *to);

/* Ends a ticket that holds a permit as if its lease were over, also one without a lease; the news
 * have it. WEIR_NOT_HELD if it holds none. */
WEIR_MUST_CHECK enum weir_status weir_key_end_lease(struct weir_key *key,
                                                    struct weir_ticket *ticket, uint64_t now_ns,
                                                    struct weir_news *news);

/* Gives a permit a lease of `lease_ns` from now on, whether it had one or not, or takes its lease
 * away (WEIR_NEVER). Otherwise as weir_key_renew(), and WEIR_NO_MEMORY: then nothing changes. */
WEIR_MUST_CHECK enum weir_status weir_key_set_lease(struct weir_key *key,
                                                    struct weir_ticket *ticket, uint64_t lease_ns,
                                                    uint64_t now_ns, struct weir_news *news);

/* When the lease of a ticket that holds a permit ends; WEIR_NEVER: it has none. */
uint64_t weir_key_lease_end_ns(const struct weir_key *key, const struct weir_ticket *ticket);

/* ---- gate.c ---- */

/* What names are hashed with. */
const uint64_t *weir_gate_seed(const struct weir_gate *gate);

/* ---- apply.c ---- */

/* Lets the key follow `rules`, of which it takes a reference, and serves the line. On failure
 * nothing has changed. */
WEIR_MUST_CHECK enum weir_status weir_key_apply(struct weir_key *key, struct weir_rules *rules,
                                                struct weir_news *news);

#endif
