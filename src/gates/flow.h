/* flow.h - permits that belong to a flow rather than to one request. docs/internals/flows.md
 * describes all of it.
 *
 * A flow is what requests of one name at one key have in common: one ticket, and then its permit.
 * Requests that come while the ticket stands in line wait with it, all are let in together when it
 * is admitted, and requests that come later go in at once; so a flow never waits for itself. The
 * permit goes back when no request is inside and one has said that it was the last, the flow has
 * been idle for a while, or its lease is over.
 *
 * A request that waits learns what has happened to it in its own loop, as the owner of a gate
 * ticket does, and lives until no post to it is under way. */
#ifndef WEIR_GATES_FLOW_H
#define WEIR_GATES_FLOW_H

#include "config/config.h"
#include "gates/gate_ticket.h"

/* At once, waiting or held. */
#define WEIR_FLOWS_MAX UINT32_C(1000000)

struct weir_flow;

/* All flows of the program. Shared by the loops. */
struct weir_flows;

enum weir_flow_request_state {
    WEIR_FLOW_REQUEST_OUT,     /* in no flow */
    WEIR_FLOW_REQUEST_WAITING, /* for its flow's permit */
    WEIR_FLOW_REQUEST_INSIDE,  /* on it */
    WEIR_FLOW_REQUEST_REFUSED, /* the ticket was refused or ended in line: see `end` and `refusal`
                                */
    WEIR_FLOW_REQUEST_AGAIN /* the same because of the time, but this request's is not over: enter
                               again */
};

/* One request; embedded in what it belongs to. Needs only `told` before it enters. */
struct weir_flow_request {
    struct weir_link link; /* among waiting requests; under the flows' lock, as all but the loop */
    struct weir_post post;
    struct weir_flows *flows;
    struct weir_flow *flow; /* while it waits or is inside */
    uint64_t deadline_ns;   /* how long it may wait; its owner sees to that */
    uint32_t loop_index;
    uint16_t lane_id; /* once inside: the permit's */
    uint8_t state;    /* enum weir_flow_request_state */
    uint8_t end;      /* enum weir_end, once refused */
    uint8_t refusal;  /* enum weir_status, once refused at the door */
    bool posted;      /* a post is under way */

    /* Called in its own loop when its wait is over: INSIDE, REFUSED or AGAIN. After
     * weir_flow_request_leave() has returned false it is called once more, with OUT: from then on
     * it may be freed. */
    void (*on_change)(struct weir_flow_request *flow_request, enum weir_flow_request_state state);
};

/* What a request asks for. */
struct weir_flow_params {
    struct weir_key *key;                  /* pinned by the caller until the request has left */
    uint32_t gate;                         /* the key's */
    const struct weir_config_gate *config; /* the gate's; for the lease */
    uint32_t loop_index;
    struct weir_slice flow;      /* 1 .. WEIR_NAME_BYTES_MAX */
    struct weir_request request; /* should a ticket be needed; with the request's own deadline */
    uint32_t depth;              /* how many requests of a flow there may be, at least 1 */
    uint64_t idle_ns;            /* how long the permit stays while no request is inside */
};

enum weir_flow_entry {
    WEIR_FLOW_ENTRY_INSIDE,
    WEIR_FLOW_ENTRY_WAITING,
    WEIR_FLOW_ENTRY_REFUSED, /* at the door; `refusal` says why */
    WEIR_FLOW_ENTRY_TOO_DEEP /* the flow has as many requests as it may */
};

/* Null without memory. The first loop looks after idle flows. */
struct weir_flows *weir_flows_create(struct weir_gates *gates,
                                     const struct weir_allocator *allocator);

/* Gives back what is still held. Once the loops have stopped, no request is left, and before the
 * gates go. */
void weir_flows_destroy(struct weir_flows *flows);

/* In the request's own loop, which is the parameters'. */
WEIR_MUST_CHECK enum weir_flow_entry weir_flow_request_enter(struct weir_flows *flows,
                                                             struct weir_flow_request *flow_request,
                                                             const struct weir_flow_params *params);

/* It goes, from wherever it is. If it was inside: how that went, and whether the flow ends with it.
 * It may be used again or freed when this returns true; else once `told` has been called with OUT.
 */
WEIR_MUST_CHECK bool weir_flow_request_leave(struct weir_flow_request *flow_request,
                                             enum weir_outcome outcome, bool last);

/* How a caller that is none of its requests names a flow. */
struct weir_flow_name {
    const struct weir_key *key;
    struct weir_slice flow;
    struct weir_slice tenant; /* the ticket has to be this tenant's; empty: any tenant's */
};

/* Ends a flow that holds a permit as if a request had said that it is the last: at once if no
 * request is inside, else with the last that is. WEIR_NOT_HELD if there is none. In the loop
 * `loop_index`. */
WEIR_MUST_CHECK enum weir_status weir_flows_release(struct weir_flows *flows,
                                                    const struct weir_flow_name *name,
                                                    const struct weir_result *result,
                                                    uint32_t loop_index);

/* From now on nothing is held for requests to come. In the loop `loop_index`. */
void weir_flows_drain(struct weir_flows *flows, uint32_t loop_index);

#endif
