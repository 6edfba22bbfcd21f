/* pool.c - the calls and the owners of one pool's sandboxes. Under the caller's lock.
 *
 * A sandbox has at most one task under way, so its next step is decided when a result comes back or
 * a moment is due: step() looks at the state and chooses. What must not wait for that (a claim that
 * is withdrawn, an end that is asked for) leaves a mark, which the next step honours.
 *
 *     S1  owners: a map by tenant and id; a second sandbox of an owner is not planned before the
 *         first is gone
 *     S2  count: every sandbox that is not gone, at most settings.max after a start
 *     S3  an owner is set once, and only a sandbox that never had one is given to a claim
 *     S4  PLANNED waits for RECORD_PLAN, a claim for RECORD_ASSIGN
 *     S5  next_number only grows
 *     S7  active: idle times count from when it became 0 */
#include "sandboxes/pool_inside.h"

#include "base/hash.h"
#include "base/slice.h"

#include <assert.h>

static struct weir_sandbox *of_task_link(struct weir_link *link)
{
    return weir_container_of(link, struct weir_sandbox, task_link);
}

static uint64_t hash_owner(const struct weir_pool *pool, struct weir_slice tenant,
                           struct weir_slice id)
{
    const uint64_t seed[2] = {pool->seed[0], weir_hash(pool->seed, tenant)};
    return weir_hash(seed, id);
}

struct weir_sandbox *weir_pool_find(const struct weir_pool *pool, struct weir_slice tenant,
                                    struct weir_slice id)
{
    if (pool->owners.size == 0) {
        return NULL;
    }
    for (struct weir_map_node *node = weir_map_first(&pool->owners, hash_owner(pool, tenant, id));
         node != NULL; node = weir_map_next(node)) {
        struct weir_sandbox *sandbox = weir_container_of(node, struct weir_sandbox, owner_node);
        if (weir_slice_equal(sandbox->tenant, tenant) && weir_slice_equal(sandbox->id, id)) {
            return sandbox;
        }
    }
    return NULL;
}

/* Room in the map is reserved when the sandbox is planned. */
void weir_pool_set_owner(struct weir_pool *pool, struct weir_sandbox *sandbox,
                         struct weir_slice tenant, struct weir_slice id)
{
    assert(!sandbox->owned);
    assert(weir_pool_find(pool, tenant, id) == NULL);
    assert(tenant.bytes <= WEIR_NAME_BYTES_MAX && id.bytes <= WEIR_NAME_BYTES_MAX);
    sandbox->tenant = weir_slice_copy(sandbox->owner_text, tenant);
    sandbox->id = weir_slice_copy(sandbox->owner_text + WEIR_NAME_BYTES_MAX, id);
    sandbox->owned = true;
    pool->assigned++;
    weir_map_insert(&pool->owners, &sandbox->owner_node, hash_owner(pool, tenant, id));
}

/* ---- calls ---- */

bool weir_pool_settings_valid(const struct weir_pool_settings *settings)
{
    return settings->max >= 1 && settings->max <= WEIR_POOL_MAX &&
           settings->warm_min <= settings->warm_max && settings->warm_max <= settings->max &&
           settings->refills_per_second >= 1 && settings->probe_failures >= 1;
}

void weir_pool_init(struct weir_pool *pool, const struct weir_pool_settings *settings,
                    const struct weir_pool_options *options, uint64_t now_ns)
{
    assert(weir_pool_settings_valid(settings));
    *pool = (struct weir_pool){.settings = *settings,
                               .allocator = options->allocator,
                               .seed = {options->seed[0], options->seed[1]},
                               .next_number = options->first_number,
                               .next_refill_ns = now_ns};
    weir_list_init(&pool->sandboxes);
    weir_list_init(&pool->claims);
    weir_list_init(&pool->tasks);
    weir_list_init(&pool->served);
    weir_list_init(&pool->gone);
}

void weir_pool_deinit(struct weir_pool *pool)
{
    struct weir_sandbox *sandbox;
    assert(weir_list_empty(&pool->claims));
    while ((sandbox = weir_pool_gone(pool)) != NULL) {
        weir_pool_free(pool, sandbox);
    }
    while (!weir_list_empty(&pool->sandboxes)) {
        sandbox = weir_sandbox_of_link(pool->sandboxes.next);
        weir_list_unlink(&sandbox->link);
        weir_pool_forget_due(pool, sandbox);
        weir_release(pool->allocator, sandbox, sizeof *sandbox);
    }
    weir_heap_deinit(&pool->due, pool->allocator);
    weir_map_deinit(&pool->owners, pool->allocator);
}

void weir_pool_configure(struct weir_pool *pool, const struct weir_pool_settings *settings,
                         uint64_t now_ns)
{
    assert(weir_pool_settings_valid(settings));
    pool->settings = *settings;
    for (struct weir_link *link = pool->sandboxes.next, *next; link != &pool->sandboxes;
         link = next) {
        struct weir_sandbox *sandbox = weir_sandbox_of_link(link);
        next = link->next;
        if (sandbox->state < WEIR_SANDBOX_WARM && sandbox->claim == NULL &&
            sandbox->template_version != settings->template_version) {
            weir_pool_set_reason(sandbox, WEIR_SANDBOX_REPLACED);
        }
        weir_pool_step(pool, sandbox, now_ns);
    }
    weir_pool_look_round(pool, now_ns);
}

enum weir_status weir_pool_adopt(struct weir_pool *pool, const struct weir_sandbox_found *found,
                                 uint64_t now_ns)
{
    struct weir_sandbox *sandbox = weir_pool_create(pool, found->number, now_ns);
    if (sandbox == NULL) {
        return WEIR_NO_MEMORY;
    }
    sandbox->template_version = found->template_version;
    if (found->owned) {
        weir_pool_set_owner(pool, sandbox, found->tenant, found->id);
        sandbox->assigned_ns = now_ns > found->age_ns ? now_ns - found->age_ns : 0;
    }
    if (!found->there || found->ending) {
        weir_pool_set_reason(sandbox, found->there ? WEIR_SANDBOX_ASKED : WEIR_SANDBOX_LOST);
        sandbox->state = WEIR_SANDBOX_REMOVING;
    } else {
        sandbox->state = found->owned ? WEIR_SANDBOX_IDLE : WEIR_SANDBOX_WARM;
    }
    weir_pool_step(pool, sandbox, now_ns);
    return WEIR_OK;
}

void weir_pool_claim(struct weir_pool *pool, struct weir_claim *claim, uint64_t now_ns)
{
    claim->sandbox = NULL;
    claim->waits = true;
    weir_list_push_back(&pool->claims, &claim->link);
    weir_pool_look_round(pool, now_ns);
}

bool weir_pool_withdraw(struct weir_pool *pool, struct weir_claim *claim, uint64_t now_ns)
{
    struct weir_sandbox *sandbox = claim->sandbox;
    if (!claim->waits) {
        return false;
    }
    if (sandbox != NULL && sandbox->task == WEIR_SANDBOX_RECORD_ASSIGN) {
        if (sandbox->task_handed) {
            return false;
        }
        weir_pool_drop_task(sandbox);
    }
    claim->waits = false;
    weir_list_unlink(&claim->link);
    if (sandbox != NULL) { /* it becomes the pool's, and the next claim's */
        weir_pool_detach_claim(sandbox);
        weir_pool_step(pool, sandbox, now_ns);
    }
    weir_pool_look_round(pool, now_ns);
    return true;
}

enum weir_pool_entry weir_pool_begin(struct weir_pool *pool, struct weir_sandbox *sandbox,
                                     uint64_t now_ns)
{
    /* A drain for idleness of which nothing was handed out yet is called off. */
    if (sandbox->state == WEIR_SANDBOX_DRAINING && sandbox->reason == WEIR_SANDBOX_IDLED &&
        !sandbox->task_handed) {
        if (sandbox->task != WEIR_SANDBOX_NO_TASK) {
            weir_pool_drop_task(sandbox);
        }
        sandbox->ends = false;
        sandbox->reason = WEIR_SANDBOX_NO_REASON;
        weir_sandbox_move(sandbox, WEIR_SANDBOX_RUNNING, now_ns);
    }
    if (!weir_sandbox_assigned(sandbox) || sandbox->ends) {
        return WEIR_POOL_ENDING;
    }
    sandbox->active++;
    if (sandbox->task == WEIR_SANDBOX_FREEZE && !sandbox->task_handed) {
        weir_pool_drop_task(sandbox);
    }
    bool frozen = sandbox->state == WEIR_SANDBOX_PAUSED || sandbox->task == WEIR_SANDBOX_FREEZE;
    if (!frozen && sandbox->state != WEIR_SANDBOX_RUNNING) {
        weir_sandbox_move(sandbox, WEIR_SANDBOX_RUNNING, now_ns);
    }
    weir_pool_step(pool, sandbox, now_ns);
    return frozen ? WEIR_POOL_THAWING : WEIR_POOL_INSIDE;
}

void weir_pool_end(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns)
{
    assert(sandbox->active > 0);
    if (--sandbox->active == 0) {
        sandbox->quiet_ns = now_ns;
        if (sandbox->state == WEIR_SANDBOX_RUNNING) {
            weir_sandbox_move(sandbox, WEIR_SANDBOX_IDLE, now_ns);
        }
    }
    if (sandbox->state != WEIR_SANDBOX_GONE) {
        weir_pool_step(pool, sandbox, now_ns);
    }
}

void weir_pool_pause(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns)
{
    if ((sandbox->state == WEIR_SANDBOX_READY || sandbox->state == WEIR_SANDBOX_IDLE) &&
        sandbox->task == WEIR_SANDBOX_NO_TASK && !sandbox->ends) {
        weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_FREEZE);
        weir_pool_step(pool, sandbox, now_ns);
    }
}

void weir_pool_stop(struct weir_pool *pool, struct weir_sandbox *sandbox,
                    enum weir_sandbox_reason reason, uint64_t now_ns)
{
    if (sandbox->state >= WEIR_SANDBOX_REMOVING) {
        return;
    }
    weir_pool_set_reason(sandbox, reason);
    if (reason == WEIR_SANDBOX_FORCED || reason == WEIR_SANDBOX_LOST) {
        sandbox->at_once = true;
        sandbox->retry_ns = 0;
    }
    if (sandbox->state > WEIR_SANDBOX_MAKING && sandbox->task != WEIR_SANDBOX_NO_TASK &&
        !sandbox->task_handed) {
        weir_pool_drop_task(sandbox);
    }
    weir_pool_step(pool, sandbox, now_ns);
    weir_pool_look_round(pool, now_ns);
}

struct weir_sandbox *weir_pool_next(struct weir_pool *pool)
{
    if (weir_list_empty(&pool->tasks)) {
        return NULL;
    }
    struct weir_sandbox *sandbox = of_task_link(pool->tasks.next);
    weir_list_unlink(&sandbox->task_link);
    sandbox->task_handed = true;
    return sandbox;
}

struct weir_claim *weir_pool_served(struct weir_pool *pool)
{
    if (weir_list_empty(&pool->served)) {
        return NULL;
    }
    struct weir_claim *claim = weir_container_of(pool->served.next, struct weir_claim, link);
    weir_list_unlink(&claim->link);
    return claim;
}

struct weir_sandbox *weir_pool_gone(struct weir_pool *pool)
{
    if (weir_list_empty(&pool->gone)) {
        return NULL;
    }
    struct weir_sandbox *sandbox = of_task_link(pool->gone.next);
    weir_list_unlink(&sandbox->task_link);
    return sandbox;
}

void weir_pool_free(struct weir_pool *pool, struct weir_sandbox *sandbox)
{
    assert(sandbox->state == WEIR_SANDBOX_GONE);
    weir_release(pool->allocator, sandbox, sizeof *sandbox);
}

uint64_t weir_pool_due(const struct weir_pool *pool)
{
    return weir_pool_sooner(weir_heap_next(&pool->due), weir_pool_next_start(pool));
}

void weir_pool_wake(struct weir_pool *pool, uint64_t now_ns)
{
    while (weir_heap_next(&pool->due) <= now_ns) {
        uint32_t *place = weir_heap_top(&pool->due)->place;
        struct weir_sandbox *sandbox = weir_container_of(place, struct weir_sandbox, due_place);
        weir_pool_step(pool, sandbox, now_ns);
        assert(sandbox->due_place == 0 || weir_heap_order(&pool->due, place) > now_ns);
    }
    weir_pool_look_round(pool, now_ns);
}

static void validate_sandbox(const struct weir_pool *pool, const struct weir_sandbox *sandbox)
{
    assert(sandbox->state != WEIR_SANDBOX_GONE);
    assert(sandbox->number < pool->next_number);
    assert(sandbox->owned || sandbox->state <= WEIR_SANDBOX_WARM ||
           sandbox->state == WEIR_SANDBOX_REMOVING);
    assert(!sandbox->owned || sandbox->state >= WEIR_SANDBOX_READY);
    assert(!sandbox->owned || sandbox->claim == NULL);
    assert(sandbox->claim == NULL || sandbox->claim->sandbox == sandbox);
    assert(sandbox->state != WEIR_SANDBOX_RUNNING || sandbox->active > 0);
    assert(sandbox->state != WEIR_SANDBOX_IDLE || sandbox->active == 0 ||
           sandbox->task == WEIR_SANDBOX_FREEZE);
    uint64_t due_ns = weir_pool_due_of(pool, sandbox);
    assert((sandbox->due_place != 0) == (due_ns != WEIR_NEVER));
    assert(due_ns == WEIR_NEVER || weir_heap_order(&pool->due, &sandbox->due_place) == due_ns);
    if (sandbox->owned) {
        assert(weir_pool_find(pool, sandbox->tenant, sandbox->id) == sandbox);
    }
}

void weir_pool_validate(const struct weir_pool *pool)
{
    uint32_t count = 0, assigned = 0;
    for (const struct weir_link *link = pool->sandboxes.next; link != &pool->sandboxes;
         link = link->next) {
        const struct weir_sandbox *sandbox = weir_sandbox_of_link((struct weir_link *)link);
        validate_sandbox(pool, sandbox);
        count++;
        assigned += sandbox->owned;
    }
    assert(count == pool->count);
    assert(assigned == pool->assigned);
    assert(pool->owners.count == assigned);
    weir_heap_validate(&pool->due);
}
