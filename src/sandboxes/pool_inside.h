/* pool_inside.h - what the files of a pool share: pool.c has the calls, pool_start.c plans
 * sandboxes and serves claims, pool_step.c decides the next step of one sandbox, pool_done.c takes
 * results. */
#ifndef WEIR_SANDBOXES_POOL_INSIDE_H
#define WEIR_SANDBOXES_POOL_INSIDE_H

#include "sandboxes/pool.h"

/* A task that failed is tried again after the first, then twice as long, up to the most. The pauses
 * of the breaker are the same. */
#define WEIR_POOL_RETRY_FIRST_NS WEIR_NS_PER_SECOND
#define WEIR_POOL_RETRY_MOST_NS  (60 * WEIR_NS_PER_SECOND)

/* Starts in a row that may fail before the breaker opens. */
#define WEIR_POOL_FAILURES_MAX 3

static inline struct weir_sandbox *weir_sandbox_of_link(struct weir_link *link)
{
    return weir_container_of(link, struct weir_sandbox, link);
}

static inline uint64_t weir_pool_sooner(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* The pause after one of `before_ns`; 0: after none. */
static inline uint64_t weir_pool_next_pause(uint64_t before_ns)
{
    return before_ns == 0 ? WEIR_POOL_RETRY_FIRST_NS
                          : weir_pool_sooner(2 * before_ns, WEIR_POOL_RETRY_MOST_NS);
}

/* ---- pool.c ---- */

/* Room in the map is reserved when the sandbox is planned. */
void weir_pool_set_owner(struct weir_pool *pool, struct weir_sandbox *sandbox,
                         struct weir_slice tenant, struct weir_slice id);

/* ---- pool_start.c ---- */

/* A sandbox of that number without a task; null without memory. */
struct weir_sandbox *weir_pool_create(struct weir_pool *pool, uint64_t number, uint64_t now_ns);

/* Serves claims and refills, as far as that is possible now. */
void weir_pool_look_round(struct weir_pool *pool, uint64_t now_ns);

void weir_pool_start_worked(struct weir_pool *pool, const struct weir_sandbox *sandbox,
                            uint64_t now_ns);
void weir_pool_start_failed(struct weir_pool *pool, uint64_t now_ns);

/* A claim whose sandbox comes to nothing waits again, in its old place. */
void weir_pool_detach_claim(struct weir_sandbox *sandbox);

/* When time alone lets a start happen that was not possible at the last look. */
uint64_t weir_pool_next_start(const struct weir_pool *pool);

/* ---- pool_step.c ---- */

/* Decides what comes next, if no task is under way, and when to look again. */
void weir_pool_step(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns);

void weir_pool_give_task(struct weir_pool *pool, struct weir_sandbox *sandbox,
                         enum weir_sandbox_task task);
void weir_pool_drop_task(struct weir_sandbox *sandbox); /* one that was not handed out */
void weir_pool_set_reason(struct weir_sandbox *sandbox, enum weir_sandbox_reason reason);
void weir_pool_remove(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns);

/* Takes it out of the heap of moments. */
void weir_pool_forget_due(struct weir_pool *pool, struct weir_sandbox *sandbox);

/* When time alone changes something about it; WEIR_NEVER: not. */
uint64_t weir_pool_due_of(const struct weir_pool *pool, const struct weir_sandbox *sandbox);

#endif
