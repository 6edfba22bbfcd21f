#include "sandboxes/sandbox.h"

#include <assert.h>

static const char *const state_names[WEIR_SANDBOX_STATE_COUNT] = {
    "planned", "making",   "warm",    "ready",    "running", "idle",
    "paused",  "draining", "syncing", "removing", "gone",
};

static const char *const reason_names[WEIR_SANDBOX_REASON_COUNT] = {
    "",        "unused", "replaced",  "idle", "lifetime",
    "deleted", "forced", "unhealthy", "lost", "not-made",
};

static const char *const task_names[WEIR_SANDBOX_TASK_COUNT] = {
    "",     "record-plan", "make", "probe",  "record-assign", "freeze",
    "thaw", "stop",        "sync", "remove", "record-gone",
};

#define TO(state) (1u << WEIR_SANDBOX_##state)

/* Every state before REMOVING may go there: a sandbox can be lost, or forced to end, at any time.
 * PLANNED has nothing that could be removed unless its making may have begun. */
static const uint16_t moves[WEIR_SANDBOX_STATE_COUNT] = {
    [WEIR_SANDBOX_PLANNED] = TO(MAKING) | TO(REMOVING) | TO(GONE),
    [WEIR_SANDBOX_MAKING] = TO(WARM) | TO(REMOVING),
    [WEIR_SANDBOX_WARM] = TO(READY) | TO(REMOVING),
    [WEIR_SANDBOX_READY] = TO(RUNNING) | TO(PAUSED) | TO(DRAINING) | TO(REMOVING),
    [WEIR_SANDBOX_RUNNING] = TO(IDLE) | TO(DRAINING) | TO(REMOVING),
    [WEIR_SANDBOX_IDLE] = TO(RUNNING) | TO(PAUSED) | TO(DRAINING) | TO(REMOVING),
    [WEIR_SANDBOX_PAUSED] = TO(RUNNING) | TO(IDLE) | TO(DRAINING) | TO(REMOVING),
    [WEIR_SANDBOX_DRAINING] = TO(RUNNING) | TO(SYNCING) | TO(REMOVING),
    [WEIR_SANDBOX_SYNCING] = TO(REMOVING),
    [WEIR_SANDBOX_REMOVING] = TO(GONE),
    [WEIR_SANDBOX_GONE] = 0,
};

const char *weir_sandbox_state_name(enum weir_sandbox_state state)
{
    assert(state < WEIR_SANDBOX_STATE_COUNT);
    return state_names[state];
}

const char *weir_sandbox_reason_name(enum weir_sandbox_reason reason)
{
    assert(reason < WEIR_SANDBOX_REASON_COUNT);
    return reason_names[reason];
}

const char *weir_sandbox_task_name(enum weir_sandbox_task task)
{
    assert(task < WEIR_SANDBOX_TASK_COUNT);
    return task_names[task];
}

bool weir_sandbox_may_move(enum weir_sandbox_state from, enum weir_sandbox_state to)
{
    assert(from < WEIR_SANDBOX_STATE_COUNT && to < WEIR_SANDBOX_STATE_COUNT);
    return (moves[from] >> to & 1) != 0;
}

void weir_sandbox_move(struct weir_sandbox *sandbox, enum weir_sandbox_state to, uint64_t now_ns)
{
    assert(weir_sandbox_may_move(sandbox->state, to));
    sandbox->state = to;
    sandbox->since_ns = now_ns;
}
