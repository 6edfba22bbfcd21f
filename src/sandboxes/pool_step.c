/* pool_step.c - what comes next for one sandbox: the end of its time, a check, a pause, a drain.
 * Under the caller's lock. */
#include "sandboxes/pool_inside.h"

#include <assert.h>

/* A check this recent is good enough for a claim. */
#define PROBE_FRESH_NS WEIR_NS_PER_SECOND

static uint64_t later(uint64_t from_ns, uint64_t by_ns)
{
    return by_ns >= WEIR_NEVER - from_ns ? WEIR_NEVER : from_ns + by_ns;
}

void weir_pool_give_task(struct weir_pool *pool, struct weir_sandbox *sandbox,
                         enum weir_sandbox_task task)
{
    assert(sandbox->task == WEIR_SANDBOX_NO_TASK);
    sandbox->task = task;
    sandbox->task_handed = false;
    weir_list_push_back(&pool->tasks, &sandbox->task_link);
}

/* Takes back a task that was not handed out. */
void weir_pool_drop_task(struct weir_sandbox *sandbox)
{
    assert(sandbox->task != WEIR_SANDBOX_NO_TASK && !sandbox->task_handed);
    weir_list_unlink(&sandbox->task_link);
    sandbox->task = WEIR_SANDBOX_NO_TASK;
}

/* ---- the steps of one sandbox ---- */

/* Nothing of it is to be kept, or could be. */
void weir_pool_remove(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns)
{
    weir_pool_detach_claim(sandbox);
    weir_sandbox_move(sandbox, WEIR_SANDBOX_REMOVING, now_ns);
    weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_REMOVE);
}

void weir_pool_set_reason(struct weir_sandbox *sandbox, enum weir_sandbox_reason reason)
{
    if (sandbox->reason == WEIR_SANDBOX_NO_REASON) {
        sandbox->reason = reason;
    }
    sandbox->ends = true;
}

static bool due(uint64_t from_ns, uint64_t after_ns, uint64_t now_ns)
{
    return later(from_ns, after_ns) <= now_ns;
}

static void step_warm(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns)
{
    const struct weir_pool_settings *settings = &pool->settings;
    if (sandbox->claim == NULL && (sandbox->template_version != settings->template_version ||
                                   due(sandbox->since_ns, settings->warm_ttl_ns, now_ns))) {
        weir_pool_set_reason(sandbox, sandbox->template_version != settings->template_version
                                          ? WEIR_SANDBOX_REPLACED
                                          : WEIR_SANDBOX_UNUSED);
    }
    if (sandbox->ends) {
        weir_pool_remove(pool, sandbox, now_ns);
        return;
    }
    bool stale = settings->probe_every_ns != WEIR_NEVER &&
                 due(sandbox->probed_ns,
                     sandbox->claim != NULL ? PROBE_FRESH_NS : settings->probe_every_ns, now_ns);
    if (stale) {
        weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_PROBE);
    } else if (sandbox->claim != NULL) {
        weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_RECORD_ASSIGN);
    }
}

static void step_assigned(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns)
{
    const struct weir_pool_settings *settings = &pool->settings;
    bool quiet = sandbox->active == 0;
    if (due(sandbox->assigned_ns, settings->lifetime_ns, now_ns)) {
        weir_pool_set_reason(sandbox, WEIR_SANDBOX_OLD);
    } else if (quiet && due(sandbox->quiet_ns, settings->idle_ns, now_ns)) {
        weir_pool_set_reason(sandbox, WEIR_SANDBOX_IDLED);
    }
    if (sandbox->at_once) {
        weir_pool_remove(pool, sandbox, now_ns);
    } else if (sandbox->ends) {
        weir_sandbox_move(sandbox, WEIR_SANDBOX_DRAINING, now_ns);
        weir_pool_step(pool, sandbox, now_ns);
    } else if (sandbox->state == WEIR_SANDBOX_PAUSED) {
        if (!quiet) {
            weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_THAW);
        }
    } else if (quiet && due(sandbox->quiet_ns, settings->pause_ns, now_ns)) {
        weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_FREEZE);
    } else if (due(sandbox->probed_ns, settings->probe_every_ns, now_ns)) {
        weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_PROBE);
    }
}

static void step_draining(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns)
{
    if (sandbox->at_once) {
        weir_pool_remove(pool, sandbox, now_ns);
    } else if (sandbox->active == 0 || due(sandbox->since_ns, pool->settings.grace_ns, now_ns)) {
        weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_STOP);
    }
}

/* What must come next for a sandbox without a task; nothing, often. */
static void choose(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns)
{
    switch (sandbox->state) {
    case WEIR_SANDBOX_WARM:
        step_warm(pool, sandbox, now_ns);
        break;
    case WEIR_SANDBOX_READY:
    case WEIR_SANDBOX_RUNNING:
    case WEIR_SANDBOX_IDLE:
    case WEIR_SANDBOX_PAUSED:
        step_assigned(pool, sandbox, now_ns);
        break;
    case WEIR_SANDBOX_DRAINING:
        step_draining(pool, sandbox, now_ns);
        break;
    case WEIR_SANDBOX_SYNCING:
        if (sandbox->at_once) {
            weir_pool_remove(pool, sandbox, now_ns);
        } else {
            weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_SYNC);
        }
        break;
    case WEIR_SANDBOX_REMOVING:
        weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_REMOVE);
        break;
    default: /* PLANNED and MAKING have a task until they go on */
        assert(sandbox->state == WEIR_SANDBOX_GONE);
    }
}

/* When time alone changes something about it. */
uint64_t weir_pool_due_of(const struct weir_pool *pool, const struct weir_sandbox *sandbox)
{
    const struct weir_pool_settings *settings = &pool->settings;
    uint64_t probe_ns = later(sandbox->probed_ns, settings->probe_every_ns);
    if (sandbox->task != WEIR_SANDBOX_NO_TASK) {
        return WEIR_NEVER;
    }
    if (sandbox->retry_ns != 0) {
        return sandbox->retry_ns;
    }
    if (sandbox->state == WEIR_SANDBOX_WARM) { /* with a claim it always has a task */
        return weir_pool_sooner(probe_ns, later(sandbox->since_ns, settings->warm_ttl_ns));
    }
    if (sandbox->state == WEIR_SANDBOX_DRAINING) {
        return later(sandbox->since_ns, settings->grace_ns);
    }
    if (!weir_sandbox_assigned(sandbox)) {
        return WEIR_NEVER;
    }
    uint64_t end_ns = later(sandbox->assigned_ns, settings->lifetime_ns);
    if (sandbox->active == 0) {
        end_ns = weir_pool_sooner(end_ns, later(sandbox->quiet_ns, settings->idle_ns));
    }
    if (sandbox->state == WEIR_SANDBOX_PAUSED) {
        return end_ns;
    }
    uint64_t pause_ns =
        sandbox->active > 0 ? WEIR_NEVER : later(sandbox->quiet_ns, settings->pause_ns);
    return weir_pool_sooner(end_ns, weir_pool_sooner(pause_ns, probe_ns));
}

/* Never is no moment of the heap's. Its room is reserved when the sandbox is planned. */
static void set_due(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t due_ns)
{
    bool stands = sandbox->due_place != 0;
    if (due_ns == WEIR_NEVER || sandbox->state == WEIR_SANDBOX_GONE) {
        if (stands) {
            weir_heap_remove(&pool->due, &sandbox->due_place);
        }
    } else if (stands) {
        weir_heap_update(&pool->due, due_ns, sandbox->number, &sandbox->due_place);
    } else {
        weir_heap_push(&pool->due, due_ns, sandbox->number, &sandbox->due_place);
    }
}

void weir_pool_forget_due(struct weir_pool *pool, struct weir_sandbox *sandbox)
{
    set_due(pool, sandbox, WEIR_NEVER);
}

void weir_pool_step(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns)
{
    if (sandbox->retry_ns != 0 && sandbox->retry_ns <= now_ns) {
        sandbox->retry_ns = 0;
    }
    if (sandbox->task == WEIR_SANDBOX_NO_TASK && sandbox->retry_ns == 0) {
        choose(pool, sandbox, now_ns);
    }
    set_due(pool, sandbox, weir_pool_due_of(pool, sandbox));
}
