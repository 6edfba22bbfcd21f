/* clock.h - the virtual clock: what happens next, and when.
 *
 * A timer is embedded in what it belongs to and says by its kind which that is. Moments that are
 * equal come in the order in which they were set. */
#ifndef WEIR_LAB_SIM_CLOCK_H
#define WEIR_LAB_SIM_CLOCK_H

#include "base/heap.h"

struct weir_sim_timer {
    uint32_t place;
    uint32_t kind; /* the user's */
};

struct weir_sim_clock {
    struct weir_heap heap;
    uint64_t now_ns;
    uint64_t sequence;
    const struct weir_allocator *allocator;
    bool no_memory; /* some timer could not be set: the run is worth nothing */
};

void weir_sim_clock_init(struct weir_sim_clock *clock, const struct weir_allocator *allocator);

/* Forgets all timers. Safe on a zeroed clock. */
void weir_sim_clock_deinit(struct weir_sim_clock *clock);

/* Sets the timer, or moves it. A moment that has passed counts as now; WEIR_NEVER stops it. */
void weir_sim_clock_set(struct weir_sim_clock *clock, struct weir_sim_timer *timer, uint64_t at_ns);

void weir_sim_clock_stop(struct weir_sim_clock *clock, struct weir_sim_timer *timer);

/* Goes to the next moment and takes its timer; null when there is none up to `end_ns`. */
struct weir_sim_timer *weir_sim_clock_next(struct weir_sim_clock *clock, uint64_t end_ns);

#endif
