/* tally.h - what one worker counts by name, where the other threads can read it.
 *
 * Only the worker's own thread adds to a tally: a load and a store without a lock, and nothing that
 * several threads write to. Who reads sums over the workers. A tally belongs to a name, not to a
 * worker config, so counts go on across a reload; it goes with the last worker config that has the
 * name. */
#ifndef WEIR_WORKER_TALLY_H
#define WEIR_WORKER_TALLY_H

#include "weir/types.h"

#include <pthread.h>
#include <stdatomic.h>

/* The most names of a kind. What is named after them is counted as WEIR_TALLY_OTHER, and so is a
 * name that is too long. */
#define WEIR_TALLIES_MAX     1000
#define WEIR_TALLY_OTHER     "_other"
#define WEIR_TALLY_BYTES_MAX 255

enum weir_tally_kind {
    WEIR_TALLY_ROUTE,
    WEIR_TALLY_UPSTREAM,
    WEIR_TALLY_KINDS
};

/* What the counts of an upstream are. */
enum {
    WEIR_TALLY_IDLE,
    WEIR_TALLY_ACTIVE,
    WEIR_TALLY_FAILURES
};

/* Those of a route: replies by the first digit of their status, 0 without any. */
#define WEIR_TALLY_COUNTS 6

struct weir_tally {
    struct weir_tally *next; /* under the lock, as the three that follow */
    uint32_t users;
    enum weir_tally_kind kind;
    uint32_t name_bytes;
    _Atomic uint64_t counts[WEIR_TALLY_COUNTS];
    char name[];
};

/* A worker's. Zeroed, it is empty. */
struct weir_tallies {
    pthread_mutex_t lock; /* zeroed is what PTHREAD_MUTEX_INITIALIZER makes of it */
    struct weir_tally *first;
    uint32_t names[WEIR_TALLY_KINDS];
};

/* The tally of that name for one more user, or null without memory. Safe from any thread. */
struct weir_tally *weir_tally_take(struct weir_tallies *tallies,
                                   const struct weir_allocator *allocator,
                                   enum weir_tally_kind kind, struct weir_slice name);

/* A null tally is none. Safe from any thread. */
void weir_tally_give(struct weir_tallies *tallies, const struct weir_allocator *allocator,
                     struct weir_tally *tally);

/* Calls `visit` for each, in the order in which they were made. It must not block. */
void weir_tallies_visit(struct weir_tallies *tallies,
                        void (*visit)(void *context, const struct weir_tally *tally),
                        void *context);

/* One more, and one less. Only in the worker's own thread. */
static inline void weir_tally_raise(struct weir_tally *tally, uint32_t index)
{
    _Atomic uint64_t *count = &tally->counts[index];
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static inline void weir_tally_lower(struct weir_tally *tally, uint32_t index)
{
    _Atomic uint64_t *count = &tally->counts[index];
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) - 1,
                          memory_order_relaxed);
}

/* A reply on a route; the status is 0 if there was none. */
static inline void weir_tally_reply(struct weir_tally *tally, uint16_t status)
{
    uint32_t class = status / 100u;
    weir_tally_raise(tally, class < WEIR_TALLY_COUNTS ? class : 0);
}

#endif
