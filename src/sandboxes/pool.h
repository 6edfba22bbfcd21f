/* pool.h - which sandbox to make, give away, freeze, drain and remove, and when. No I/O and no
 * clock: callers bring results and the present time, and take out what is to be done.
 *
 *     claim, begin, end, stop, lost, done, wake          what has happened, with the time
 *     next                                               a task to carry out; its result: done
 *     served                                             a claim that has its sandbox now
 *     gone                                               a sandbox of which nothing is left
 *
 * After each call of the first line the caller takes out all of the other three, and calls wake()
 * at the moment due(). One lock around a pool, the caller's.
 *
 * A claim is what a conversation has that holds a permit of the pool's gate; so at most `max`
 * claims and owned sandboxes are there at once. A new claim gets a warm sandbox, else one that is
 * being made for the pool, else one of its own as soon as there is room. */
#ifndef WEIR_SANDBOXES_POOL_H
#define WEIR_SANDBOXES_POOL_H

#include "base/alloc.h"
#include "base/heap.h"
#include "sandboxes/demand.h"
#include "sandboxes/sandbox.h"
#include "weir/status.h"

#define WEIR_POOL_MAX 10000

struct weir_pool_settings {
    uint32_t max; /* 1 .. WEIR_POOL_MAX: assigned, warm, starting and ending ones together (S2) */
    uint32_t warm_min;
    uint32_t warm_max;           /* at least warm_min, at most max */
    uint32_t refills_per_second; /* at least 1 */
    uint32_t probe_failures;     /* in a row; at least 1 */
    uint64_t warm_ttl_ns;        /* WEIR_NEVER: for ever, as in the others */
    uint64_t idle_ns;
    uint64_t lifetime_ns;
    uint64_t pause_ns;
    uint64_t grace_ns;
    uint64_t probe_every_ns;   /* WEIR_NEVER: no checks, and none when a claim takes it */
    bool syncs;                /* its files are kept elsewhere */
    uint32_t template_version; /* changes with everything that a sandbox is made of */
};

/* Embedded in what waits for a sandbox. Its texts stay valid until it is served or withdrawn. No
 * other claim of the same tenant and id waits at the same pool: flows see to that. */
struct weir_claim {
    struct weir_link link; /* private; also of the served ones */
    struct weir_slice tenant;
    struct weir_slice id;
    struct weir_sandbox *sandbox; /* the one it will have; once served, has */
    bool waits;
};

struct weir_pool {
    struct weir_pool_settings settings;
    const struct weir_allocator *allocator;
    uint64_t seed[2];
    uint64_t next_number;
    struct weir_link sandboxes; /* all that are not gone, in the order of their numbers */
    uint32_t count;             /* of them */
    uint32_t assigned;          /* that have an owner, ending ones included */
    struct weir_link claims;    /* that wait, in their order */
    struct weir_link tasks;     /* sandboxes with a task that was not handed out */
    struct weir_link served;    /* claims */
    struct weir_link gone;      /* sandboxes */
    struct weir_map owners;
    struct weir_heap due;
    struct weir_demand demand;
    uint32_t failures;        /* starts that failed in a row */
    uint64_t closed_until_ns; /* no start before: the breaker; 0: closed */
    uint64_t breaker_pause_ns;
    bool probing_start; /* the one start that an open breaker lets through is under way */
    uint64_t next_refill_ns;
    uint64_t looked_ns;       /* when claims and refills were last looked at */
    uint64_t memory_retry_ns; /* 0: memory was not short */
};

bool weir_pool_settings_valid(const struct weir_pool_settings *settings);

struct weir_pool_options {
    uint64_t first_number; /* beyond every number that was ever used */
    uint64_t seed[2];      /* of hashes, since names come from outside */
    const struct weir_allocator *allocator;
};

void weir_pool_init(struct weir_pool *pool, const struct weir_pool_settings *settings,
                    const struct weir_pool_options *options, uint64_t now_ns);

/* Frees what is left. No claim waits. */
void weir_pool_deinit(struct weir_pool *pool);

/* Takes up other settings. Warm sandboxes of another template end, assigned ones stay. */
void weir_pool_configure(struct weir_pool *pool, const struct weir_pool_settings *settings,
                         uint64_t now_ns);

/* ---- what the record and the runtime still have at the start ---- */

struct weir_sandbox_found {
    uint64_t number;
    struct weir_slice tenant;
    struct weir_slice id;
    bool owned;
    bool there;  /* the runtime has it, and it answers */
    bool ending; /* the record says that it was to be removed */
    uint32_t template_version;
    uint64_t age_ns; /* since its assignment */
};

/* Adopts it, or arranges for what is left of it to be removed. WEIR_NO_MEMORY: nothing changed. */
WEIR_MUST_CHECK enum weir_status
weir_pool_adopt(struct weir_pool *pool, const struct weir_sandbox_found *found, uint64_t now_ns);

/* ---- conversations ---- */

void weir_pool_claim(struct weir_pool *pool, struct weir_claim *claim, uint64_t now_ns);

/* True: the claim waits no more, and has nothing. False: it has been served, or its sandbox's
 * assignment is being recorded, which cannot be taken back: it will be served. */
WEIR_MUST_CHECK bool weir_pool_withdraw(struct weir_pool *pool, struct weir_claim *claim,
                                        uint64_t now_ns);

/* The sandbox of an owner, also one that ends; null: there is none. */
struct weir_sandbox *weir_pool_find(const struct weir_pool *pool, struct weir_slice tenant,
                                    struct weir_slice id);

enum weir_pool_entry {
    WEIR_POOL_INSIDE,
    WEIR_POOL_THAWING, /* it counts as inside; it may go on once the state is RUNNING */
    WEIR_POOL_ENDING   /* it does not count: wait for another sandbox */
};

/* A request, an exec or a stream begins and ends. */
enum weir_pool_entry weir_pool_begin(struct weir_pool *pool, struct weir_sandbox *sandbox,
                                     uint64_t now_ns);
void weir_pool_end(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns);

/* It is to be frozen now rather than later, if nothing is inside. */
void weir_pool_pause(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns);

/* It is to end: by draining, or, FORCED and LOST, at once. Of several reasons the first stays. */
void weir_pool_stop(struct weir_pool *pool, struct weir_sandbox *sandbox,
                    enum weir_sandbox_reason reason, uint64_t now_ns);

/* ---- what is to be done ---- */

/* The next sandbox with a task to carry out, or null. */
struct weir_sandbox *weir_pool_next(struct weir_pool *pool);

/* The result of the task that was handed out. */
void weir_pool_done(struct weir_pool *pool, struct weir_sandbox *sandbox, bool worked,
                    uint64_t now_ns);

/* The next claim that has its sandbox, or null. */
struct weir_claim *weir_pool_served(struct weir_pool *pool);

/* The next sandbox of which nothing is left, or null; if it had an owner, its permit goes back now.
 * The caller frees it. */
struct weir_sandbox *weir_pool_gone(struct weir_pool *pool);
void weir_pool_free(struct weir_pool *pool, struct weir_sandbox *sandbox);

/* When wake() is needed next; WEIR_NEVER: not. A call too early is harmless. */
uint64_t weir_pool_due(const struct weir_pool *pool);
void weir_pool_wake(struct weir_pool *pool, uint64_t now_ns);

/* Whether starts are held back because they have failed. */
static inline bool weir_pool_broken(const struct weir_pool *pool, uint64_t now_ns)
{
    return pool->closed_until_ns > now_ns;
}

/* Asserts every count, list and promise. O(sandboxes). */
void weir_pool_validate(const struct weir_pool *pool);

#endif
