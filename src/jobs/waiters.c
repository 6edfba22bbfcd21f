/* waiters.c - a line of submitters that wait for room in a full queue. No I/O and no lock of its
 * own: the caller holds the lock that guards the queue. */
#include "jobs/waiters.h"

#include "base/list.h"
#include "core/rules.h"

#include <assert.h>

/* The cost of one turn at weight 1. */
#define TURN (UINT64_C(1) << 20)

static struct weir_waiter *of_turn(struct weir_link *turn)
{
    return weir_container_of(turn, struct weir_waiter, turn);
}

void weir_waiters_init(struct weir_waiters *waiters)
{
    waiters->time = 0;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        weir_list_init(&waiters->tenants[i]);
        waiters->charged[i] = 0;
    }
}

bool weir_waiters_any(const struct weir_waiters *waiters, enum weir_priority priority)
{
    return !weir_list_empty(&waiters->tenants[priority]);
}

struct weir_waiter *weir_waiters_next(const struct weir_waiters *waiters, uint32_t without)
{
    int next = WEIR_PRIORITY_COUNT;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        bool counts = (without >> i & 1) == 0 && weir_waiters_any(waiters, (enum weir_priority)i);
        if (counts &&
            (next == WEIR_PRIORITY_COUNT || waiters->charged[i] < waiters->charged[next])) {
            next = i;
        }
    }
    return next == WEIR_PRIORITY_COUNT ? NULL : of_turn(waiters->tenants[next].next);
}

/* A priority without waiters, or without room, must not save up turns. */
static void catch_up(struct weir_waiters *waiters, enum weir_priority priority)
{
    if (waiters->charged[priority] < waiters->time) {
        waiters->charged[priority] = waiters->time;
    }
}

void weir_waiters_join(struct weir_waiters *waiters, struct weir_waiter *waiter)
{
    struct weir_link *tenants = &waiters->tenants[waiter->priority];
    if (!weir_waiters_any(waiters, waiter->priority)) {
        catch_up(waiters, waiter->priority);
    }
    waiter->turn = (struct weir_link){0};
    for (struct weir_link *at = tenants->next; at != tenants; at = at->next) {
        struct weir_waiter *first = of_turn(at);
        if (first->tenant == waiter->tenant) {
            weir_list_push_back(&first->circle, &waiter->circle);
            return;
        }
    }
    weir_list_init(&waiter->circle);
    weir_list_push_back(tenants, &waiter->turn);
}

/* Takes a waiter out of its circle; if it was the first, the tenant's next waiter gets the turn at
 * `where`. */
static void remove_waiter(struct weir_waiter *waiter, struct weir_link *where)
{
    if (waiter->turn.next != NULL) {
        if (!weir_list_empty(&waiter->circle)) {
            struct weir_waiter *heir =
                weir_container_of(waiter->circle.next, struct weir_waiter, circle);
            weir_list_insert_after(where, &heir->turn);
        }
        weir_list_unlink(&waiter->turn);
    }
    weir_list_unlink(&waiter->circle);
}

void weir_waiters_leave(struct weir_waiter *waiter)
{
    remove_waiter(waiter, &waiter->turn);
}

void weir_waiters_pass(struct weir_waiters *waiters, enum weir_priority priority)
{
    catch_up(waiters, priority);
    waiters->time = waiters->charged[priority];
    waiters->charged[priority] += TURN / weir_default_weights[priority];
}

void weir_waiters_serve(struct weir_waiters *waiters, struct weir_waiter *waiter)
{
    struct weir_link *tenants = &waiters->tenants[waiter->priority];
    assert(tenants->next == &waiter->turn);
    weir_waiters_pass(waiters, waiter->priority);
    remove_waiter(waiter, tenants->previous);
}

bool weir_waiters_overdue(const struct weir_waiters *waiters, const struct weir_waiter *waiter,
                          uint64_t places)
{
    uint64_t charged = waiters->charged[waiter->priority];
    uint64_t passed = waiters->time > charged ? waiters->time - charged : 0;
    return passed >= places * (TURN / weir_default_weights[waiter->priority]);
}
