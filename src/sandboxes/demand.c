#include "sandboxes/demand.h"

#include "weir/types.h"

#include <assert.h>
#include <string.h>

/* Before a start was seen: what a container takes on a busy machine. */
#define FIRST_GUESS_NS WEIR_NS_PER_SECOND

/* Moves on to the present second and empties those that were skipped. A clock that steps back
 * counts into the last second. */
static void move_on(struct weir_demand *demand, uint64_t now_ns)
{
    uint64_t second = now_ns / WEIR_NS_PER_SECOND;
    if (second <= demand->second) {
        return;
    }
    uint64_t skipped = second - demand->second;
    if (skipped >= WEIR_DEMAND_SECONDS) {
        memset(demand->taken, 0, sizeof demand->taken);
    } else {
        for (uint64_t i = 1; i <= skipped; i++) {
            demand->taken[(demand->second + i) % WEIR_DEMAND_SECONDS] = 0;
        }
    }
    demand->second = second;
}

void weir_demand_take(struct weir_demand *demand, uint64_t now_ns)
{
    move_on(demand, now_ns);
    demand->taken[demand->second % WEIR_DEMAND_SECONDS]++;
}

void weir_demand_started(struct weir_demand *demand, uint64_t took_ns)
{
    uint64_t sorted[WEIR_DEMAND_STARTS];
    demand->starts_ns[demand->start_count++ % WEIR_DEMAND_STARTS] = took_ns;
    uint32_t count =
        demand->start_count < WEIR_DEMAND_STARTS ? demand->start_count : WEIR_DEMAND_STARTS;
    for (uint32_t i = 0; i < count; i++) { /* by insertion: at most 64, once for each start */
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > demand->starts_ns[i]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = demand->starts_ns[i];
    }
    demand->start_p95_ns = sorted[(count * 95 + 99) / 100 - 1];
}

static uint64_t sum_of_last(const struct weir_demand *demand, uint32_t seconds)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < seconds && i <= demand->second; i++) {
        sum += demand->taken[(demand->second - i) % WEIR_DEMAND_SECONDS];
    }
    return sum;
}

uint32_t weir_demand_warm(struct weir_demand *demand, uint32_t least, uint32_t most,
                          uint64_t now_ns)
{
    assert(least <= most);
    move_on(demand, now_ns);
    uint64_t start_ns = demand->start_count == 0 ? FIRST_GUESS_NS : demand->start_p95_ns;
    /* Takes a minute by either window, rounded up at the end; sums of 2^32 a second and starts of
     * a day stay below 2^128. */
    uint64_t minute = sum_of_last(demand, WEIR_DEMAND_SECONDS);
    uint64_t burst =
        sum_of_last(demand, WEIR_DEMAND_BURST_S) * (WEIR_DEMAND_SECONDS / WEIR_DEMAND_BURST_S);
    unsigned __int128 taken = minute > burst ? minute : burst;
    unsigned __int128 unit = (unsigned __int128)WEIR_DEMAND_SECONDS * WEIR_NS_PER_SECOND;
    unsigned __int128 wanted = (taken * start_ns + unit - 1) / unit;
    return wanted > most ? most : wanted < least ? least : (uint32_t)wanted;
}
