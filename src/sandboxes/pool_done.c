/* pool_done.c - what the result of a task means for its sandbox. Under the caller's lock. */
#include "sandboxes/pool_inside.h"

#include <assert.h>

/* ---- results ---- */

static void bury(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns)
{
    weir_pool_detach_claim(sandbox);
    weir_sandbox_move(sandbox, WEIR_SANDBOX_GONE, now_ns);
    if (sandbox->owned) {
        weir_map_remove(&pool->owners, &sandbox->owner_node);
        pool->assigned--;
    }
    weir_pool_forget_due(pool, sandbox);
    weir_list_unlink(&sandbox->link);
    pool->count--;
    weir_list_push_back(&pool->gone, &sandbox->task_link);
}

/* The task is tried again after a pause that doubles. */
static void retry_later(struct weir_sandbox *sandbox, uint64_t now_ns)
{
    uint64_t pause_ns = weir_pool_next_pause(sandbox->retry_pause_ns);
    sandbox->retry_pause_ns = pause_ns;
    sandbox->retry_ns = now_ns + pause_ns;
}

static void done_plan(struct weir_pool *pool, struct weir_sandbox *sandbox, bool worked,
                      uint64_t now_ns)
{
    if (!worked) { /* nothing is on record, and nothing was made */
        weir_pool_set_reason(sandbox, WEIR_SANDBOX_NOT_MADE);
        weir_pool_start_failed(pool, now_ns);
        bury(pool, sandbox, now_ns);
    } else if (sandbox->ends) {
        pool->probing_start = false;
        weir_pool_remove(pool, sandbox, now_ns);
    } else {
        weir_sandbox_move(sandbox, WEIR_SANDBOX_MAKING, now_ns);
        sandbox->started_ns = now_ns;
        weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_MAKE);
    }
}

static void done_make(struct weir_pool *pool, struct weir_sandbox *sandbox, bool worked,
                      uint64_t now_ns)
{
    if (!worked) {
        weir_pool_set_reason(sandbox, WEIR_SANDBOX_NOT_MADE);
        weir_pool_start_failed(pool, now_ns);
        weir_pool_remove(pool, sandbox, now_ns);
        return;
    }
    weir_pool_start_worked(pool, sandbox, now_ns);
    weir_sandbox_move(sandbox, WEIR_SANDBOX_WARM, now_ns);
    sandbox->probed_ns = now_ns;
}

static void done_probe(struct weir_pool *pool, struct weir_sandbox *sandbox, bool worked,
                       uint64_t now_ns)
{
    sandbox->probed_ns = now_ns;
    sandbox->failures = worked ? 0 : sandbox->failures + 1;
    /* One without an owner is replaced rather than watched. */
    if (!worked && (!sandbox->owned || sandbox->failures >= pool->settings.probe_failures)) {
        weir_pool_set_reason(sandbox, WEIR_SANDBOX_UNHEALTHY);
    }
}

static void done_assign(struct weir_pool *pool, struct weir_sandbox *sandbox, bool worked,
                        uint64_t now_ns)
{
    struct weir_claim *claim = sandbox->claim;
    if (!worked) { /* the disk fails: it stays warm, and the claim its */
        retry_later(sandbox, now_ns);
        return;
    }
    weir_pool_set_owner(pool, sandbox, claim->tenant, claim->id);
    weir_sandbox_move(sandbox, WEIR_SANDBOX_READY, now_ns);
    sandbox->assigned_ns = sandbox->quiet_ns = now_ns;
    sandbox->claim = NULL;
    claim->waits = false;
    weir_list_unlink(&claim->link);
    weir_list_push_back(&pool->served, &claim->link);
    weir_demand_take(&pool->demand, now_ns);
}

static void done_freeze(struct weir_sandbox *sandbox, bool worked, uint64_t now_ns)
{
    if (worked) {
        weir_sandbox_move(sandbox, WEIR_SANDBOX_PAUSED, now_ns);
    } else if (sandbox->active > 0) {
        weir_sandbox_move(sandbox, WEIR_SANDBOX_RUNNING, now_ns);
    } else {
        retry_later(sandbox, now_ns);
    }
}

static void done_thaw(struct weir_sandbox *sandbox, bool worked, uint64_t now_ns)
{
    if (!worked) { /* it cannot be used any more */
        weir_pool_set_reason(sandbox, WEIR_SANDBOX_LOST);
        sandbox->at_once = true;
    } else {
        weir_sandbox_move(sandbox, sandbox->active > 0 ? WEIR_SANDBOX_RUNNING : WEIR_SANDBOX_IDLE,
                          now_ns);
    }
}

static void done_stop(struct weir_pool *pool, struct weir_sandbox *sandbox, uint64_t now_ns)
{
    if (pool->settings.syncs && !sandbox->at_once) {
        weir_sandbox_move(sandbox, WEIR_SANDBOX_SYNCING, now_ns);
    } else {
        weir_pool_remove(pool, sandbox, now_ns);
    }
}

/* A sandbox whose sync fails is kept (S8). */
static void done_sync(struct weir_pool *pool, struct weir_sandbox *sandbox, bool worked,
                      uint64_t now_ns)
{
    if (worked) {
        weir_pool_remove(pool, sandbox, now_ns);
    } else {
        retry_later(sandbox, now_ns);
    }
}

static void done_remove(struct weir_pool *pool, struct weir_sandbox *sandbox, bool worked,
                        uint64_t now_ns)
{
    if (worked) {
        weir_pool_give_task(pool, sandbox, WEIR_SANDBOX_RECORD_GONE);
    } else {
        retry_later(sandbox, now_ns);
    }
}

static void done_gone(struct weir_pool *pool, struct weir_sandbox *sandbox, bool worked,
                      uint64_t now_ns)
{
    if (worked) {
        bury(pool, sandbox, now_ns);
    } else { /* removing it again is no error */
        retry_later(sandbox, now_ns);
    }
}

static void settle(struct weir_pool *pool, struct weir_sandbox *sandbox,
                   enum weir_sandbox_task task, bool worked, uint64_t now_ns)
{
    switch (task) {
    case WEIR_SANDBOX_RECORD_PLAN:
        done_plan(pool, sandbox, worked, now_ns);
        break;
    case WEIR_SANDBOX_MAKE:
        done_make(pool, sandbox, worked, now_ns);
        break;
    case WEIR_SANDBOX_PROBE:
        done_probe(pool, sandbox, worked, now_ns);
        break;
    case WEIR_SANDBOX_RECORD_ASSIGN:
        done_assign(pool, sandbox, worked, now_ns);
        break;
    case WEIR_SANDBOX_FREEZE:
        done_freeze(sandbox, worked, now_ns);
        break;
    case WEIR_SANDBOX_THAW:
        done_thaw(sandbox, worked, now_ns);
        break;
    case WEIR_SANDBOX_STOP: /* what did not end is killed with the rest */
        done_stop(pool, sandbox, now_ns);
        break;
    case WEIR_SANDBOX_SYNC:
        done_sync(pool, sandbox, worked, now_ns);
        break;
    case WEIR_SANDBOX_REMOVE:
        done_remove(pool, sandbox, worked, now_ns);
        break;
    default:
        assert(task == WEIR_SANDBOX_RECORD_GONE);
        done_gone(pool, sandbox, worked, now_ns);
    }
}

void weir_pool_done(struct weir_pool *pool, struct weir_sandbox *sandbox, bool worked,
                    uint64_t now_ns)
{
    enum weir_sandbox_task task = sandbox->task;
    assert(task != WEIR_SANDBOX_NO_TASK && sandbox->task_handed);
    sandbox->task = WEIR_SANDBOX_NO_TASK;
    sandbox->task_handed = false;
    if (worked) {
        sandbox->retry_pause_ns = 0;
    }
    settle(pool, sandbox, task, worked, now_ns);
    if (sandbox->state != WEIR_SANDBOX_GONE) {
        weir_pool_step(pool, sandbox, now_ns);
    }
    weir_pool_look_round(pool, now_ns);
}
