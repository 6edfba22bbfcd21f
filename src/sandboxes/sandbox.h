/* sandbox.h - one sandbox as the deciding code sees it: its state, its owner, what is under way.
 *
 * docs/internals/sandboxes.md describes the states and numbers the promises. */
#ifndef WEIR_SANDBOXES_SANDBOX_H
#define WEIR_SANDBOXES_SANDBOX_H

#include "base/list.h"
#include "base/map.h"
#include "weir/settings.h"

#include <stdbool.h>
#include <stdint.h>

enum weir_sandbox_state {
    WEIR_SANDBOX_PLANNED,
    WEIR_SANDBOX_MAKING,
    WEIR_SANDBOX_WARM,
    WEIR_SANDBOX_READY,
    WEIR_SANDBOX_RUNNING,
    WEIR_SANDBOX_IDLE,
    WEIR_SANDBOX_PAUSED,
    WEIR_SANDBOX_DRAINING,
    WEIR_SANDBOX_SYNCING,
    WEIR_SANDBOX_REMOVING,
    WEIR_SANDBOX_GONE,
    WEIR_SANDBOX_STATE_COUNT
};

/* Why a sandbox ends. */
enum weir_sandbox_reason {
    WEIR_SANDBOX_NO_REASON,
    WEIR_SANDBOX_UNUSED,    /* too long in the pool without an owner, or one too many */
    WEIR_SANDBOX_REPLACED,  /* its template has changed, or its pool is gone */
    WEIR_SANDBOX_IDLED,     /* nothing was under way for too long */
    WEIR_SANDBOX_OLD,       /* its lifetime is over */
    WEIR_SANDBOX_ASKED,     /* a caller has deleted it */
    WEIR_SANDBOX_FORCED,    /* a caller has deleted it at once */
    WEIR_SANDBOX_UNHEALTHY, /* it has failed its checks */
    WEIR_SANDBOX_LOST,      /* it has ended by itself */
    WEIR_SANDBOX_NOT_MADE,  /* the runtime could not make it */
    WEIR_SANDBOX_REASON_COUNT
};

/* What has to be done about a sandbox: by the record, the runtime, or the caller. At most one is
 * under way for each sandbox; its result comes back by weir_pool_done(). */
enum weir_sandbox_task {
    WEIR_SANDBOX_NO_TASK,
    WEIR_SANDBOX_RECORD_PLAN, /* on record: its name */
    WEIR_SANDBOX_MAKE,
    WEIR_SANDBOX_PROBE,
    WEIR_SANDBOX_RECORD_ASSIGN, /* on record: its owner */
    WEIR_SANDBOX_FREEZE,
    WEIR_SANDBOX_THAW,
    WEIR_SANDBOX_STOP, /* ask all programs to end, and wait up to the grace period */
    WEIR_SANDBOX_SYNC,
    WEIR_SANDBOX_REMOVE,      /* all of it; what is not there is no error */
    WEIR_SANDBOX_RECORD_GONE, /* its row may go */
    WEIR_SANDBOX_TASK_COUNT
};

struct weir_claim;

struct weir_sandbox {
    uint64_t number; /* in its pool; never used twice (S5) */
    enum weir_sandbox_state state;
    enum weir_sandbox_reason reason; /* once it ends */
    enum weir_sandbox_task task;     /* under way, or about to be handed out */
    bool task_handed;                /* by weir_pool_next() */
    bool ends;                       /* as soon as its task is done */
    bool at_once;                    /* it ends without draining and sync */
    uint32_t template_version;
    uint32_t active;          /* requests, execs, open streams */
    uint32_t failures;        /* of its checks, in a row */
    struct weir_claim *claim; /* whom it will be assigned to; null: none */
    struct weir_map_node owner_node;
    bool owned;
    struct weir_slice tenant; /* of the owner; in `owner_text` */
    struct weir_slice id;
    uint64_t quiet_ns;   /* since when nothing is inside */
    uint64_t started_ns; /* of its making */
    uint64_t assigned_ns;
    uint64_t since_ns; /* of its state */
    uint64_t probed_ns;
    uint64_t retry_ns; /* a task that failed is not tried again before; 0: none has */
    uint64_t retry_pause_ns;
    uint32_t due_place;         /* in the heap of due moments */
    struct weir_link link;      /* in the pool's list */
    struct weir_link task_link; /* in the list of tasks, then in that of gone ones */
    char owner_text[2 * WEIR_NAME_BYTES_MAX];
};

/* The words of events and of the API. */
const char *weir_sandbox_state_name(enum weir_sandbox_state state);
const char *weir_sandbox_reason_name(enum weir_sandbox_reason reason);
const char *weir_sandbox_task_name(enum weir_sandbox_task task);

/* Whether the table of legal moves has this one. */
bool weir_sandbox_may_move(enum weir_sandbox_state from, enum weir_sandbox_state to);

/* The only function that changes a state; asserts that the move is legal. */
void weir_sandbox_move(struct weir_sandbox *sandbox, enum weir_sandbox_state to, uint64_t now_ns);

/* Whether it is in one of the states between its assignment and its end. */
static inline bool weir_sandbox_assigned(const struct weir_sandbox *sandbox)
{
    return sandbox->state >= WEIR_SANDBOX_READY && sandbox->state <= WEIR_SANDBOX_PAUSED;
}

#endif
