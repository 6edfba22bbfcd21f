/* run.h - a gate and its models side by side, from one seed.
 *
 * Each key stands beside a model of its own and beside a second key to which the same calls are
 * made, but without anybody listening to its events: the core goes a shorter way then, which must
 * lead to the same place. After every call all that can be seen of the three is compared.
 *
 * What disagrees is printed with seed, episode, step, the operation and both values; the same seed
 * runs the same way again. */
#ifndef WEIR_TESTS_RUN_H
#define WEIR_TESTS_RUN_H

#include "checkers.h"
#include "model.h"
#include "plan.h"
#include "random.h"
#include "weir/gate.h"

#define RUN_PAIRS_MAX  3
#define RUN_EVENTS_MAX 8192

/* Counts what is out, so that a leak shows. */
struct run_memory {
    struct weir_allocator allocator;
    uint64_t blocks;
    uint64_t bytes;
};

enum side_kind {
    LOUD,  /* its events are seen */
    QUIET, /* nobody listens */
    SIDE_COUNT
};

/* One of the two keys, with tickets of its own. */
struct side {
    struct weir_key *key;
    struct weir_news news;
    struct weir_ticket tickets[MODEL_TICKETS_MAX];
};

/* Two keys and their model. A ticket has the same index in all three. */
struct pair {
    struct side sides[SIDE_COUNT];
    struct model model;
    struct checkers checkers;
    bool recorder_anew; /* the last call changed its size, and nobody says what it keeps then */
};

/* How often the interesting cases were met, from the events and answers of the keys. */
struct coverage {
    uint64_t steps;
    uint64_t episodes;
    uint64_t kinds[WEIR_EVENT_KIND_COUNT];
    uint64_t refusals[WEIR_STATUS_COUNT]; /* of tickets */
    uint64_t statuses[WEIR_STATUS_COUNT]; /* of calls */
    uint64_t bindings[WEIR_BINDING_COUNT];
    uint64_t at_once; /* admitted by their own call */
    uint64_t cancelled_permits;
    uint64_t renewals;
    uint64_t extensions;
    uint64_t retries;
    uint64_t above_burst;
    uint64_t owing; /* looks at a bucket below zero */
    uint64_t trips;
    uint64_t recoveries; /* breakers that closed after a probe */
    uint64_t shared_tenants;
    uint64_t forgotten_tenants;
    uint64_t retired_lanes; /* looks at one */
    uint64_t over_limit;    /* looks at a lane with more permits out than its limit */
    uint64_t back_in_time;
    uint64_t wraps;       /* of virtual clocks */
    uint64_t early_wakes; /* announced before anything changes: allowed, but wasteful */
    uint64_t limits_by_hand;
    uint64_t gate_pauses; /* that a key followed */
    uint64_t forgotten_keys;
    uint64_t forgotten_overrides; /* with them */
    uint64_t keys_made_paused;    /* in a gate that is paused */
};

struct run {
    uint64_t seed;
    uint64_t episode;
    uint64_t step;
    uint64_t now_ns;
    char operation[256];
    struct random random;
    struct plan_style style;
    struct plan plan; /* what the gate is configured with */
    struct run_memory memory;
    struct weir_gate *gate;
    bool gate_paused; /* by hand; keys may not follow yet */
    uint32_t pair_count;
    int ticket_count; /* of each pair */
    struct pair pairs[RUN_PAIRS_MAX];
    struct weir_event_ring ring;
    struct weir_event slots[RUN_EVENTS_MAX];
    struct coverage coverage;
};

/* Prints where the run is and what differs, and fails the test. */
void run_fail(const struct run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* Fails if the two differ; `index` says of which ticket, lane or the like. */
void run_expect(const struct run *run, const char *what, int index, uint64_t key, uint64_t model);

/* Says what is being done, for run_fail(). */
void run_note(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A gate that follows the run's plan, with fresh keys of `ticket_count` tickets each. */
void run_open(struct run *run, uint32_t pair_count, int ticket_count);

/* Takes both keys of a pair, which were forgotten and so are new, or are those that the model
 * knows. */
void run_take(struct run *run, struct pair *pair, bool fresh);

/* Destroys the gate, and fails if memory is left. */
void run_close(struct run *run);

#endif
