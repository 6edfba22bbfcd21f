#include "lab/sim/clock.h"

#include "base/alloc.h"
#include "base/list.h"

#include <assert.h>

void weir_sim_clock_init(struct weir_sim_clock *clock, const struct weir_allocator *allocator)
{
    *clock = (struct weir_sim_clock){.allocator = allocator};
}

void weir_sim_clock_deinit(struct weir_sim_clock *clock)
{
    while (clock->heap.count > 0) {
        weir_heap_remove(&clock->heap, weir_heap_top(&clock->heap)->place);
    }
    if (clock->allocator != NULL) {
        weir_heap_deinit(&clock->heap, clock->allocator);
    }
}

void weir_sim_clock_set(struct weir_sim_clock *clock, struct weir_sim_timer *timer, uint64_t at_ns)
{
    if (at_ns == WEIR_NEVER) {
        weir_sim_clock_stop(clock, timer);
        return;
    }
    at_ns = at_ns < clock->now_ns ? clock->now_ns : at_ns;
    if (timer->place > 0) {
        weir_heap_update(&clock->heap, at_ns, clock->sequence++, &timer->place);
    } else if (weir_heap_reserve(&clock->heap, clock->heap.count + 1, clock->allocator)) {
        weir_heap_push(&clock->heap, at_ns, clock->sequence++, &timer->place);
    } else {
        clock->no_memory = true;
    }
}

void weir_sim_clock_stop(struct weir_sim_clock *clock, struct weir_sim_timer *timer)
{
    if (timer->place > 0) {
        weir_heap_remove(&clock->heap, &timer->place);
    }
}

struct weir_sim_timer *weir_sim_clock_next(struct weir_sim_clock *clock, uint64_t end_ns)
{
    if (weir_heap_next(&clock->heap) > end_ns || clock->heap.count == 0) {
        return NULL;
    }
    const struct weir_heap_entry *top = weir_heap_top(&clock->heap);
    assert(top->order >= clock->now_ns);
    clock->now_ns = top->order;
    struct weir_sim_timer *timer = weir_container_of(top->place, struct weir_sim_timer, place);
    weir_heap_remove(&clock->heap, &timer->place);
    return timer;
}
