/* waiters.h - submitters that wait for room in a full queue, and whose turn it is.
 *
 * The rule is that of every line: priorities by their weights, within a priority the tenants in
 * turn, and of each tenant first come, first served. So a tenant with a thousand waiters delays
 * another tenant by one place. Nothing is allocated, and every call is O(1) except joining, which
 * visits each waiting tenant.
 *
 * Invariants:
 *   1. `tenants` of a priority has the first waiter of each tenant, once, in the order of turns.
 *   2. A tenant's waiters at a priority are one circle, in the order of coming from the first on.
 */
#ifndef WEIR_JOBS_WAITERS_H
#define WEIR_JOBS_WAITERS_H

#include "weir/ticket.h"

#include <stdbool.h>

/* Embedded in the waiting object. */
struct weir_waiter {
    uint64_t tenant; /* a hash of its name: two tenants with the same hash count as one */
    enum weir_priority priority;
    struct weir_link turn;   /* private: in `tenants`, for the first waiter of a tenant */
    struct weir_link circle; /* private: among the waiters of its tenant */
};

struct weir_waiters {
    struct weir_link tenants[WEIR_PRIORITY_COUNT];
    uint64_t charged[WEIR_PRIORITY_COUNT]; /* the cost of served waiters, by weight */
    uint64_t time; /* the virtual time: the charge before the last served one */
};

void weir_waiters_init(struct weir_waiters *waiters);

/* Joins behind its tenant's other waiters, or as the last tenant if there are none. */
void weir_waiters_join(struct weir_waiters *waiters, struct weir_waiter *waiter);

/* Leaves; the next waiter of its tenant gets its turn. */
void weir_waiters_leave(struct weir_waiter *waiter);

/* Serves the waiter, which leaves; its tenant becomes the last. Requires that it is the one of
 * weir_waiters_next(). */
void weir_waiters_serve(struct weir_waiters *waiters, struct weir_waiter *waiter);

/* Counts a turn for a submission of that priority that found room without waiting. */
void weir_waiters_pass(struct weir_waiters *waiters, enum weir_priority priority);

/* Whether the next waiter, which needs more places than are free, has let as many others pass as
 * its places are worth by its weight: then all others wait until it has them. */
bool weir_waiters_overdue(const struct weir_waiters *waiters, const struct weir_waiter *waiter,
                          uint64_t places);

bool weir_waiters_any(const struct weir_waiters *waiters, enum weir_priority priority);

/* The next waiter among the priorities that are not in `without`, a bit set; null: there is none.
 */
struct weir_waiter *weir_waiters_next(const struct weir_waiters *waiters, uint32_t without);

#endif
