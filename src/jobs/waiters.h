/* waiters.h - who waits at a full door, and whose turn it is when there is room.
 *
 * The rule is that of every line: priorities by their weights, within a priority the tenants in
 * turn, and of each tenant first come, first served. So whoever waits a thousand times holds up
 * another tenant by one place. Nothing is allocated, and all but joining is O(1): that looks at
 * each tenant that waits.
 *
 * Invariants:
 *   1. `tenants` of a priority has the first waiter of each tenant, once, in the order of turns.
 *   2. A tenant's waiters at a priority are one circle, in the order of coming from the first on.
 */
#ifndef WEIR_JOBS_WAITERS_H
#define WEIR_JOBS_WAITERS_H

#include "weir/ticket.h"

#include <stdbool.h>

/* Embedded in whoever waits. */
struct weir_waiter {
    uint64_t tenant; /* a hash of its name: two that have the same are one */
    enum weir_priority priority;
    struct weir_link turn;   /* private: among the tenants, of each tenant's first */
    struct weir_link circle; /* private: of its tenant's */
};

struct weir_waiters {
    struct weir_link tenants[WEIR_PRIORITY_COUNT];
    uint64_t charged[WEIR_PRIORITY_COUNT]; /* for those that were served, by weight */
    uint64_t time;                         /* what was charged before the last of them */
};

void weir_waiters_init(struct weir_waiters *waiters);

/* Comes behind its tenant's others, or last of the tenants if there are none. */
void weir_waiters_join(struct weir_waiters *waiters, struct weir_waiter *waiter);

/* Goes away; the next of its tenant has its turn. */
void weir_waiters_leave(struct weir_waiter *waiter);

/* Has what it waited for and goes away; its tenant is the last from now on. Requires that it is
 * what weir_waiters_next() said. */
void weir_waiters_serve(struct weir_waiters *waiters, struct weir_waiter *waiter);

/* Somebody of that priority had room without waiting for it, which is a turn as well. */
void weir_waiters_pass(struct weir_waiters *waiters, enum weir_priority priority);

/* Whether the one that is next, but for whose places there is not room enough, has let as many
 * others pass as these are worth by its weight: then all wait until it has them. */
bool weir_waiters_overdue(const struct weir_waiters *waiters, const struct weir_waiter *waiter,
                          uint64_t places);

bool weir_waiters_any(const struct weir_waiters *waiters, enum weir_priority priority);

/* Whose turn it is among the priorities that are not in `without`, a bit for each; null: nobody's.
 */
struct weir_waiter *weir_waiters_next(const struct weir_waiters *waiters, uint32_t without);

#endif
