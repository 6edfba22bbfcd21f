/* tally.h - one worker's counters by name, which other threads can read.
 *
 * Only the worker's own thread adds to a tally: a load and a store without a lock, and no memory
 * that several threads write to. A reader sums over the workers. A tally belongs to a name, not to
 * a worker config, so counts go on across a reload; it is freed with the last worker config that
 * has the name. */
#ifndef WEIR_WORKER_TALLY_H
#define WEIR_WORKER_TALLY_H

#include "base/histogram.h"

#include <pthread.h>
#include <stdatomic.h>

/* The most names of a kind. Further names are counted as WEIR_TALLY_OTHER, and so are names that
 * are too long. */
#define WEIR_TALLIES_MAX     1000
#define WEIR_TALLY_OTHER     "_other"
#define WEIR_TALLY_BYTES_MAX 255

enum weir_tally_kind {
    WEIR_TALLY_ROUTE,
    WEIR_TALLY_UPSTREAM,
    WEIR_TALLY_ADDRESS, /* of an upstream: its name is the upstream's, a line feed, the address */
    WEIR_TALLY_KINDS
};

/* The counters of an upstream and of its addresses. */
enum {
    WEIR_TALLY_IDLE,
    WEIR_TALLY_ACTIVE,
    WEIR_TALLY_FAILURES,
    WEIR_TALLY_DOWN_UNTIL /* of an address: a time of the monotonic clock, in nanoseconds */
};

/* The counters of a route: replies by the first digit of their status; 0: no reply. */
#define WEIR_TALLY_COUNTS 6

struct weir_tally {
    struct weir_tally *next; /* under the lock, like the next three fields */
    uint32_t users;
    enum weir_tally_kind kind;
    uint32_t name_bytes;
    _Atomic uint64_t counts[WEIR_TALLY_COUNTS];
    _Atomic uint64_t took[WEIR_DURATION_BUCKETS + 1]; /* of a route: requests by how long */
    _Atomic uint64_t took_ns;                         /* and all of them together */
    char name[];
};

/* The tallies of a worker. Zeroed, it is empty. */
struct weir_tallies {
    pthread_mutex_t lock; /* zeroed is what PTHREAD_MUTEX_INITIALIZER makes of it */
    struct weir_tally *first;
    uint32_t names[WEIR_TALLY_KINDS];
};

/* Takes a reference to the tally of that name, making it if needed; null without memory. Any
 * thread. */
struct weir_tally *weir_tally_take(struct weir_tallies *tallies,
                                   const struct weir_allocator *allocator,
                                   enum weir_tally_kind kind, struct weir_slice name);

/* Gives a reference back; null is fine. Any thread. */
void weir_tally_give(struct weir_tallies *tallies, const struct weir_allocator *allocator,
                     struct weir_tally *tally);

/* Calls `visit` for each, in the order in which they were made. It must not block. */
void weir_tallies_visit(struct weir_tallies *tallies,
                        void (*visit)(void *context, const struct weir_tally *tally),
                        void *context);

/* Adds one, and subtracts one. Only in the worker's own thread. */
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

/* Sets a counter. Only in the worker's own thread. */
static inline void weir_tally_set(struct weir_tally *tally, uint32_t index, uint64_t value)
{
    atomic_store_explicit(&tally->counts[index], value, memory_order_relaxed);
}

static inline void weir_tally_add(_Atomic uint64_t *count, uint64_t number)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + number,
                          memory_order_relaxed);
}

/* Counts a reply on a route, and how long it took; the status is 0 if there was none. */
static inline void weir_tally_reply(struct weir_tally *tally, uint16_t status, uint64_t took_ns)
{
    uint32_t class = status / 100u;
    weir_tally_raise(tally, class < WEIR_TALLY_COUNTS ? class : 0);
    weir_tally_add(&tally->took[weir_histogram_bucket(&weir_scale_duration, took_ns)], 1);
    weir_tally_add(&tally->took_ns, took_ns);
}

#endif
