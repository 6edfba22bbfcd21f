/* flow_internal.h - what flow.c and flow_rest.c share: flows, their table, and the steps by which a
 * flow ends. */
#ifndef WEIR_GATES_FLOW_INTERNAL_H
#define WEIR_GATES_FLOW_INTERNAL_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slab.h"
#include "gates/flow.h"
#include "gates/gates_internal.h"

#include <pthread.h>

/* For how long a flow keeps its permit from tickets that wait for one: the time between two
 * requests of an agent that is at work. */
#define WEIR_FLOW_REST_NS UINT64_C(1000000000)

struct weir_flow {
    struct weir_gate_ticket gate_ticket;
    struct weir_map_node node;
    struct weir_post post; /* to its home, the gate ticket's loop */
    struct weir_flows *flows;
    struct weir_key *key;           /* pinned */
    struct weir_link flow_requests; /* that wait */
    uint32_t waiting;               /* how many those are */
    uint32_t inside;
    uint32_t home;
    uint32_t place;            /* among the idle */
    uint64_t sequence;         /* breaks ties there */
    uint64_t deadline_ns;      /* the latest of its requests' */
    uint64_t idle_ns;          /* as the request that came last had it */
    uint64_t idle_end_ns;      /* while no request is inside */
    uint64_t look_ns;          /* likewise: when the keeper looks at it */
    uint64_t lease_ns;         /* WEIR_NEVER: none */
    uint64_t lease_end_ns;     /* the same */
    struct weir_result result; /* of the last one inside that was not cancelled */
    uint8_t state;             /* enum flow_state in flow.c */
    bool resting;              /* F7 */
    struct weir_link rest;     /* then: its place in the key's list */
    bool used;                 /* a request has gone in, and knows it */
    bool ending;               /* a request has said that it is the last */
    bool posted;               /* `post` is under way */
    bool closed;               /* only that keeps it */
    char name[WEIR_NAME_BYTES_MAX];
    char tenant[WEIR_NAME_BYTES_MAX]; /* the ticket's */
};

struct weir_flows {
    pthread_mutex_t lock;
    const struct weir_allocator *allocator;
    struct weir_gates *gates;
    struct weir_slab slab;
    struct weir_map map;
    struct weir_heap idle;
    uint64_t next_sequence;
    uint64_t armed_ns; /* for when the timer is set, or is about to be */
    bool calling;      /* `call` is under way */
    bool draining;
    struct weir_post call;   /* to the keeper: set the timer */
    struct weir_timer timer; /* the keeper's */
    uint64_t seed[2];
};

/* ---- flow.c ---- */

/* Under the flows' lock: no request finds it any more. One that was held has then to be given back,
 * without the lock. */
void weir_flow_take_out(struct weir_flow *flow);
void weir_flow_give_back(struct weir_flow *flow, uint32_t loop_index);

/* Under the flows' lock: when the keeper looks at an idle flow, and whether its timer has to be set
 * for sooner than it is; then weir_flows_arm(), without the lock. */
void weir_flow_look_at(struct weir_flow *flow, uint64_t look_ns);
bool weir_flows_must_arm(struct weir_flows *flows);
void weir_flows_arm(struct weir_flows *flows, uint32_t loop_index);

/* ---- flow_rest.c ---- */

/* Under the flows' lock: into the list of its key's flows that rest, and out of it if it is there.
 */
void weir_flow_begin_rest(struct weir_flow *flow);
void weir_flow_end_rest(struct weir_flow *flow);

/* A weir_gates_make_room whose context are the flows. */
void weir_flows_make_room(void *context, struct weir_key *key,
                          const struct weir_gate_ticket *gate_ticket, uint32_t loop_index);

#endif
