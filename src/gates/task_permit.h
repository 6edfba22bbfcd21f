/* task_permit.h - permits of tasks that go on after the request that began them: the work of an
 * agent that has answered "working", or whose client has left.
 *
 * A request passes its permit to its task, by gate, key and name. From then on the permit has a
 * lease. Each sign of life renews it, and the end of the task gives it back. While requests that
 * concern the task are under way, such as an open stream of its events, the permit has no lease:
 * they have joined it. Any thread may call everything here. docs/guides/a2a.md shows what it is
 * for. */
#ifndef WEIR_GATES_TASK_PERMIT_H
#define WEIR_GATES_TASK_PERMIT_H

#include "gates/gate_ticket.h"

/* At once. One more keeps no permit: it goes back with its request. */
#define WEIR_TASK_PERMITS_MAX UINT32_C(100000)

/* Of a name such as task:1b2c. */
#define WEIR_TASK_NAME_BYTES_MAX (WEIR_NAME_BYTES_MAX + 16)

struct weir_task_permits;

/* Which task. */
struct weir_task_name {
    uint32_t gate;
    struct weir_slice key;  /* up to WEIR_NAME_BYTES_MAX */
    struct weir_slice text; /* 1 .. WEIR_TASK_NAME_BYTES_MAX */
};

/* At most `count_max` at once. Null without memory. */
struct weir_task_permits *weir_task_permits_create(struct weir_gates *gates, uint32_t count_max,
                                                   const struct weir_allocator *allocator);

/* Gives back what is still held. Once the loops have stopped, and before the gates go; what is
 * under way to the loops arrives here. */
void weir_task_permits_destroy(struct weir_task_permits *task_permits);

/* Passes the permit of a request, which must hold it and know that, to its task, with a lease; the
 * gate ticket is closed then. False, and the permit stays the request's, if the task holds one
 * already, whose lease begins again; if there are too many tasks or there is no memory; or if the
 * permit is not held any more. In the gate ticket's own loop. */
WEIR_MUST_CHECK bool weir_task_permits_keep(struct weir_task_permits *task_permits,
                                            struct weir_gate_ticket *gate_ticket, uint32_t gate,
                                            struct weir_slice text, uint64_t lease_ns);

/* How a request uses the permit of a task. */
enum weir_task_use {
    WEIR_TASK_WATCH, /* it only looks, as any number of others may */
    WEIR_TASK_WORK   /* it has the task's work go on: one at a time, as with any permit */
};

/* A request begins that goes on the task's permit. Returns what it leaves with; 0: the task holds
 * none, or another request has its work go on. From the loop `loop_index`, as in all that follows.
 */
uint64_t weir_task_permits_join(struct weir_task_permits *task_permits,
                                const struct weir_task_name *name, enum weir_task_use use,
                                uint32_t loop_index);

/* Such a request has ended: after the last one the lease begins. Nothing happens if the task has
 * ended meanwhile. */
void weir_task_permits_leave(struct weir_task_permits *task_permits,
                             const struct weir_task_name *name, enum weir_task_use use,
                             uint64_t joined, uint32_t loop_index);

/* The task has shown that it goes on: its lease begins again. False if it holds no permit. */
bool weir_task_permits_renew(struct weir_task_permits *task_permits,
                             const struct weir_task_name *name, uint32_t loop_index);

/* The task has ended: the permit goes back with that outcome. False if it holds none. */
bool weir_task_permits_end(struct weir_task_permits *task_permits,
                           const struct weir_task_name *name, enum weir_outcome outcome,
                           uint32_t loop_index);

/* How many are held. */
uint32_t weir_task_permits_count(struct weir_task_permits *task_permits);

#endif
