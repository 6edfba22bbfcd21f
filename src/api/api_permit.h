/* api_permit.h - permits that the API has given, and those that it waits for.
 *
 * A permit is a gate ticket with an id. While it waits it belongs to its call, and to the loop of
 * that. Once it is held it stands in a table, where any thread finds it by its id, or by gate, key
 * and flow, and ends or renews it under the table's lock. Its own loop hears of the end of its
 * lease; the ticket decides which was first. docs/reference/api.md describes the calls.
 *
 * Permits of one flow, tenant, gate and key nest: those that are acquired while one is held have no
 * ticket of their own, but share that one's. The ticket stays at the key until the last of them is
 * released. Its lease ends when the leases of all of them have ended. */
#ifndef WEIR_API_API_PERMIT_H
#define WEIR_API_API_PERMIT_H

#include "base/list.h"
#include "base/map.h"
#include "gates/gate_ticket.h"

#define WEIR_API_PERMITS_MAX       UINT32_C(1000000)
#define WEIR_API_PERMIT_TEXT_BYTES 32 /* of an id, in hexadecimal */

struct weir_api_permits;
struct weir_call;

struct weir_api_permit {
    struct weir_gate_ticket gate_ticket; /* at no key while it shares another's: see `leader` */
    struct weir_map_node by_id;
    struct weir_map_node by_flow;
    struct weir_link link; /* among all that are held */
    struct weir_api_permits *api_permits;
    struct weir_call *call; /* that waits for it, or holds it by its connection; else null */
    struct weir_api_permit *leader; /* whose ticket it shares; null: it has its own. This and the
                                     * next five under the table's lock */
    struct weir_link sharers;       /* of a leader: the permits that share its ticket */
    struct weir_link sharing;       /* of a sharer: its place there */
    uint32_t sharer_count;
    bool shared;                      /* of a leader: a permit that shared the ticket has gone, */
    struct weir_result shared_result; /* and what all such permits have said */
    uint64_t id[2];
    uint64_t number;       /* in which order permits were asked for */
    uint64_t lease_ns;     /* WEIR_NEVER: none */
    uint64_t lease_end_ns; /* once held; WEIR_NEVER: none */
    uint32_t gate;
    bool held;          /* stands in the table; under its lock */
    bool over;          /* the ticket that it shared has ended, and its loop will hear of it */
    char from_text[48]; /* the gate ticket's, as the next two; an IPv6 address has 46 bytes */
    char tenant_text[WEIR_NAME_BYTES_MAX];
    char flow_text[WEIR_NAME_BYTES_MAX];
};

/* How a caller names a permit: by its id, else by its flow. */
struct weir_api_permit_name {
    uint32_t gate;
    struct weir_slice key;
    struct weir_slice permit; /* empty: by flow */
    struct weir_slice flow;
    struct weir_slice tenant; /* which it has to belong to; empty: any */
    bool exact_tenant;        /* empty: none */
};

/* Null without memory. */
struct weir_api_permits *weir_api_permits_create(void);

/* Gives back what is still held. Once the loops have stopped; what is under way to them may arrive
 * here. */
void weir_api_permits_destroy(struct weir_api_permits *api_permits);

/* A new one, zeroed but for its id. Null at WEIR_API_PERMITS_MAX or without memory. */
struct weir_api_permit *weir_api_permit_take(struct weir_api_permits *api_permits);

/* One that is not held, and whose gate ticket is closed, goes. */
void weir_api_permit_give(struct weir_api_permit *api_permit);

/* It has been admitted, and can be found from now on. False, and nothing changed, without memory.
 */
WEIR_MUST_CHECK bool weir_api_permit_hold(struct weir_api_permit *api_permit);

enum weir_api_permit_join {
    WEIR_API_PERMIT_ALONE,   /* its flow holds no permit there: it has to enter the gate */
    WEIR_API_PERMIT_JOINED,  /* it is held, and shares the flow's ticket */
    WEIR_API_PERMIT_TOO_DEEP /* the flow has `depth` permits there */
};

/* Where a permit wants to join its flow's. */
struct weir_api_permit_place {
    uint32_t gate;
    uint32_t loop_index; /* of the call */
    uint32_t depth;      /* how many permits of a flow may share a ticket, at least 1 */
    struct weir_slice key;
};

/* Lets a permit that has its flow, tenant, owner and lease share the ticket of its flow, if a
 * permit of that is held. `stats` are the key's counts, unless it is ALONE. */
WEIR_MUST_CHECK enum weir_api_permit_join
weir_api_permit_join(struct weir_api_permit *api_permit, const struct weir_api_permit_place *place,
                     struct weir_key_stats *stats, uint64_t now_ns);

/* The lease that the ticket of a permit asks for. One that may be shared always has a lease, so
 * that it can follow those of the permits that share it. */
uint64_t weir_api_permit_ticket_lease_ns(const struct weir_api_permit *api_permit);

/* Its ticket's lease is over: it can be found no more, nor can those that share the ticket, and all
 * of them go. Those that a connection holds go when their owner's `on_change` has been called with
 * IDLE in their own loops; `over` tells it why. In its own loop. */
void weir_api_permit_lapse(struct weir_api_permit *api_permit);

void weir_api_permit_format(const struct weir_api_permit *api_permit,
                            char text[WEIR_API_PERMIT_TEXT_BYTES]);

/* WEIR_NOT_HELD if there is none of that name. */
WEIR_MUST_CHECK enum weir_status weir_api_permits_release(struct weir_api_permits *api_permits,
                                                          const struct weir_api_permit_name *name,
                                                          const struct weir_result *result,
                                                          uint32_t loop_index);

/* Releases a permit whose call, which holds it by its connection, ends; in the loop of both. A
 * permit that has been released or has lapsed stays so. It does not refer to the call again. */
void weir_api_permits_let_go(struct weir_api_permits *api_permits,
                             const struct weir_api_permit_name *name,
                             const struct weir_result *result, uint32_t loop_index);

/* `lease_ns` only shortens what was granted; 0: all of that. Stores how long the lease is now. */
WEIR_MUST_CHECK enum weir_status weir_api_permits_renew(struct weir_api_permits *api_permits,
                                                        const struct weir_api_permit_name *name,
                                                        uint64_t *lease_ns, uint32_t loop_index);

#endif
