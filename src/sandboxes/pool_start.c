/* pool_start.c - starts sandboxes, for claims and for the pool itself, and gives free ones to
 * claims. Under the caller's lock. */
#include "sandboxes/pool_inside.h"

#include <assert.h>

/* Without memory for a sandbox, the next is tried after this. */
#define MEMORY_RETRY_NS WEIR_NS_PER_SECOND

/* ---- planning ---- */

struct weir_sandbox *weir_pool_create(struct weir_pool *pool, uint64_t number, uint64_t now_ns)
{
    if (!weir_heap_reserve(&pool->due, pool->count + 1, pool->allocator) ||
        !weir_map_reserve(&pool->owners, pool->allocator)) {
        return NULL;
    }
    struct weir_sandbox *sandbox = weir_allocate_zeroed(pool->allocator, sizeof *sandbox);
    if (sandbox == NULL) {
        return NULL;
    }
    sandbox->number = number;
    sandbox->since_ns = sandbox->quiet_ns = sandbox->probed_ns = now_ns;
    sandbox->template_version = pool->settings.template_version;
    weir_list_push_back(&pool->sandboxes, &sandbox->link);
    pool->count++;
    if (number >= pool->next_number) {
        pool->next_number = number + 1;
    }
    return sandbox;
}

static bool may_start(const struct weir_pool *pool, uint64_t now_ns)
{
    if (pool->count >= pool->settings.max || pool->memory_retry_ns > now_ns) {
        return false;
    }
    return pool->failures < WEIR_POOL_FAILURES_MAX ||
           (pool->closed_until_ns <= now_ns && !pool->probing_start);
}

static struct weir_sandbox *plan(struct weir_pool *pool, struct weir_claim *claim, uint64_t now_ns)
{
    struct weir_sandbox *sandbox = weir_pool_create(pool, pool->next_number, now_ns);
    if (sandbox == NULL) {
        pool->memory_retry_ns = now_ns + MEMORY_RETRY_NS;
        return NULL;
    }
    pool->memory_retry_ns = 0;
    pool->probing_start = pool->failures >= WEIR_POOL_FAILURES_MAX;
    sandbox->claim = claim;
    if (claim != NULL) {
        claim->sandbox = sandbox;
    }
    weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_RECORD_PLAN);
    return sandbox;
}

void weir_pool_start_worked(struct weir_pool *pool, const struct weir_sandbox *sandbox,
                            uint64_t now_ns)
{
    uint64_t took_ns = now_ns > sandbox->started_ns ? now_ns - sandbox->started_ns : 0;
    weir_demand_started(&pool->demand, took_ns);
    pool->failures = 0;
    pool->closed_until_ns = 0;
    pool->breaker_pause_ns = 0;
    pool->probing_start = false;
}

void weir_pool_start_failed(struct weir_pool *pool, uint64_t now_ns)
{
    pool->failures += pool->failures < UINT32_MAX;
    pool->probing_start = false;
    if (pool->failures >= WEIR_POOL_FAILURES_MAX) {
        uint64_t pause_ns = weir_pool_next_pause(pool->breaker_pause_ns);
        pool->breaker_pause_ns = pause_ns;
        pool->closed_until_ns = now_ns + pause_ns;
    }
}

/* ---- claims ---- */

/* A sandbox that has no owner, is not claimed, and does not end. */
static bool is_free(const struct weir_sandbox *sandbox)
{
    return sandbox->state <= WEIR_SANDBOX_WARM && sandbox->claim == NULL && !sandbox->ends;
}

/* The best for a claim: a warm one without a task, a warm one whose check is under way, then one
 * that is being made. The oldest of its kind. */
static struct weir_sandbox *find_free(struct weir_pool *pool)
{
    struct weir_sandbox *best = NULL;
    int best_rank = 3;
    for (struct weir_link *link = pool->sandboxes.next; link != &pool->sandboxes;
         link = link->next) {
        struct weir_sandbox *sandbox = weir_sandbox_of_link(link);
        int rank = sandbox->state != WEIR_SANDBOX_WARM ? 2 : sandbox->task != 0 ? 1 : 0;
        if (is_free(sandbox) && rank < best_rank) {
            best = sandbox;
            best_rank = rank;
        }
    }
    return best;
}

static void serve_claim(struct weir_pool *pool, struct weir_claim *claim, uint64_t now_ns)
{
    if (claim->sandbox != NULL || weir_pool_find(pool, claim->tenant, claim->id) != NULL) {
        return; /* being made for it; or its owner's last one has not gone yet (S1) */
    }
    struct weir_sandbox *sandbox = find_free(pool);
    if (sandbox != NULL) {
        sandbox->claim = claim;
        claim->sandbox = sandbox;
        weir_pool_step(pool, sandbox, now_ns);
    } else if (may_start(pool, now_ns)) {
        plan(pool, claim, now_ns);
    }
}

static void serve_claims(struct weir_pool *pool, uint64_t now_ns)
{
    for (struct weir_link *link = pool->claims.next, *next; link != &pool->claims; link = next) {
        next = link->next;
        serve_claim(pool, weir_container_of(link, struct weir_claim, link), now_ns);
    }
}

/* A claim whose sandbox comes to nothing waits again, in its old place. */
void weir_pool_detach_claim(struct weir_sandbox *sandbox)
{
    if (sandbox->claim != NULL) {
        sandbox->claim->sandbox = NULL;
        sandbox->claim = NULL;
    }
}

/* Makes sandboxes for the pool itself, after all claims, and no faster than the settings say. */
static void refill(struct weir_pool *pool, uint64_t now_ns)
{
    uint32_t free_count = 0;
    for (struct weir_link *link = pool->sandboxes.next; link != &pool->sandboxes;
         link = link->next) {
        free_count += is_free(weir_sandbox_of_link(link));
    }
    uint32_t wanted =
        weir_demand_warm(&pool->demand, pool->settings.warm_min, pool->settings.warm_max, now_ns);
    uint64_t pace_ns = WEIR_NS_PER_SECOND / pool->settings.refills_per_second;
    while (free_count < wanted && may_start(pool, now_ns) && pool->next_refill_ns <= now_ns) {
        if (plan(pool, NULL, now_ns) == NULL) {
            return;
        }
        /* What was not used for a second does not add up to a burst. */
        uint64_t least_ns = now_ns < WEIR_NS_PER_SECOND ? 0 : now_ns - WEIR_NS_PER_SECOND;
        pool->next_refill_ns =
            (pool->next_refill_ns < least_ns ? least_ns : pool->next_refill_ns) + pace_ns;
        free_count++;
    }
}

/* Everything that any change may have made possible. */
void weir_pool_look_round(struct weir_pool *pool, uint64_t now_ns)
{
    pool->looked_ns = now_ns;
    serve_claims(pool, now_ns);
    refill(pool, now_ns);
}

/* ---- when ---- */

/* When a start is allowed again that was not at the last look; WEIR_NEVER: it was, or only an event
 * can allow it. */
static uint64_t next_start(const struct weir_pool *pool)
{
    uint64_t due_ns = pool->memory_retry_ns;
    if (pool->count >= pool->settings.max) {
        return WEIR_NEVER;
    }
    if (pool->failures >= WEIR_POOL_FAILURES_MAX) {
        if (pool->probing_start) {
            return WEIR_NEVER;
        }
        due_ns = due_ns > pool->closed_until_ns ? due_ns : pool->closed_until_ns;
    }
    return due_ns > pool->looked_ns ? due_ns : WEIR_NEVER;
}

/* When a refill is, by the pace of refills. A future with fewer wanted only wakes in vain. */
static uint64_t next_refill(const struct weir_pool *pool)
{
    uint64_t start_ns = next_start(pool);
    uint32_t free_count = 0;
    for (struct weir_link *link = pool->sandboxes.next; link != &pool->sandboxes;
         link = link->next) {
        free_count += is_free(weir_sandbox_of_link(link));
    }
    struct weir_demand demand = pool->demand;
    bool full = pool->count >= pool->settings.max;
    if (full || free_count >= weir_demand_warm(&demand, pool->settings.warm_min,
                                               pool->settings.warm_max, pool->looked_ns)) {
        return WEIR_NEVER;
    }
    if (start_ns != WEIR_NEVER) {
        return start_ns > pool->next_refill_ns ? start_ns : pool->next_refill_ns;
    }
    return pool->next_refill_ns > pool->looked_ns ? pool->next_refill_ns : WEIR_NEVER;
}

uint64_t weir_pool_next_start(const struct weir_pool *pool)
{
    uint64_t refill_ns = next_refill(pool);
    return weir_list_empty(&pool->claims) ? refill_ns
                                          : weir_pool_sooner(refill_ns, next_start(pool));
}
