/* task_permit.c - the table of tasks that hold permits, by gate, key and name.
 *
 * One lock guards the table and all gate tickets in it. The lock of a key is taken under it, never
 * the other way round. A ticket belongs to the loop of the request that passed its permit on; that
 * loop hears of the end of its lease. Any other thread may end or renew the ticket under the
 * table's lock, because the ticket decides which came first.
 *
 * T1: a task in the table holds its permit, or its loop is about to hear that the lease is over.
 * T2: a task that has been found to hold no permit any more is taken out of the table at once, and
 *     freed by its loop.
 * T3: a task that requests have joined has no lease. */
#define _GNU_SOURCE /* getrandom */
#include "gates/task_permit.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slab.h"
#include "base/slice.h"
#include "log/rate_limited_log.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>

struct weir_task_permit {
    struct weir_gate_ticket gate_ticket;
    struct weir_map_node node;
    struct weir_link link; /* among all in the table */
    struct weir_task_permits *task_permits;
    uint64_t sequence; /* never 0 */
    uint64_t lease_ns;
    uint32_t gate;
    uint32_t joined; /* requests that go on its permit */
    bool works;      /* one of them has the work go on */
    bool listed;     /* it is in the table */
    uint16_t text_bytes;
    char from_text[48]; /* the gate ticket's, as the next two; an IPv6 address has 46 bytes */
    char tenant_text[WEIR_NAME_BYTES_MAX];
    char flow_text[WEIR_NAME_BYTES_MAX];
    char text[WEIR_TASK_NAME_BYTES_MAX]; /* its name */
};

struct weir_task_permits {
    pthread_mutex_t lock;
    const struct weir_allocator *allocator;
    struct weir_gates *gates;
    struct weir_slab slab;
    struct weir_map map;
    struct weir_link all;
    uint64_t next_sequence;
    struct weir_rate_limited_log full;
    uint64_t seed[2];
};

/* ---- the table; all under the lock ---- */

static uint64_t hash_name(const struct weir_task_permits *task_permits,
                          const struct weir_task_name *name)
{
    char text[sizeof name->gate + 1 + WEIR_NAME_BYTES_MAX + WEIR_TASK_NAME_BYTES_MAX];
    size_t bytes = sizeof name->gate;
    assert(name->key.bytes <= WEIR_NAME_BYTES_MAX);
    assert(name->text.bytes > 0 && name->text.bytes <= WEIR_TASK_NAME_BYTES_MAX);
    memcpy(text, &name->gate, sizeof name->gate);
    text[bytes++] = (char)name->key.bytes;
    bytes += weir_slice_copy(text + bytes, name->key).bytes;
    bytes += weir_slice_copy(text + bytes, name->text).bytes;
    return weir_hash(task_permits->seed, (struct weir_slice){text, bytes});
}

static struct weir_task_permit *find(const struct weir_task_permits *task_permits,
                                     const struct weir_task_name *name)
{
    uint64_t hash = hash_name(task_permits, name);
    for (struct weir_map_node *node = weir_map_first(&task_permits->map, hash); node != NULL;
         node = weir_map_next(node)) {
        struct weir_task_permit *task = weir_container_of(node, struct weir_task_permit, node);
        struct weir_slice text = {task->text, task->text_bytes};
        if (task->gate == name->gate && weir_slice_equal(text, name->text) &&
            weir_slice_equal(weir_key_name(task->gate_ticket.key), name->key)) {
            return task;
        }
    }
    return NULL;
}

static void take_out(struct weir_task_permit *task)
{
    if (task->listed) {
        weir_map_remove(&task->task_permits->map, &task->node);
        weir_list_unlink(&task->link);
        task->listed = false;
    }
}

/* Begins the lease again, or, with WEIR_NEVER, takes it away. WEIR_NOT_HELD, and the task is no
 * longer in the table (T2), if the lease was over; WEIR_NO_MEMORY, and nothing changes, if the
 * permit had no lease and cannot get one. */
static enum weir_status set_lease(struct weir_task_permit *task, uint64_t lease_ns,
                                  uint32_t loop_index)
{
    enum weir_status status = weir_gate_ticket_set_lease(&task->gate_ticket, lease_ns, loop_index);
    assert(status == WEIR_OK || status == WEIR_NOT_HELD || status == WEIR_NO_MEMORY);
    if (status == WEIR_NOT_HELD) {
        take_out(task);
    }
    return status;
}

/* Gives the permit back. False if the lease was over: then the task's loop frees it. */
static bool give_back(struct weir_task_permit *task, enum weir_outcome outcome, uint32_t loop_index)
{
    struct weir_result result = {.outcome = outcome};
    bool held = weir_gate_ticket_release(&task->gate_ticket, &result, loop_index) == WEIR_OK;
    take_out(task);
    if (held) {
        weir_slab_give(&task->task_permits->slab, task);
    }
    return held;
}

/* ---- as an owner of permits ---- */

/* The lease is over. In the task's own loop. */
static void on_change(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state)
{
    struct weir_task_permit *task =
        weir_container_of(gate_ticket, struct weir_task_permit, gate_ticket);
    struct weir_task_permits *task_permits = task->task_permits;
    assert(state == WEIR_TICKET_ENDED); /* it was admitted before, and is never cancelled */
    (void)state;
    pthread_mutex_lock(&task_permits->lock);
    take_out(task);
    pthread_mutex_unlock(&task_permits->lock);
    weir_gate_ticket_close(gate_ticket);
    pthread_mutex_lock(&task_permits->lock);
    weir_slab_give(&task_permits->slab, task);
    pthread_mutex_unlock(&task_permits->lock);
}

/* A longer name is cut. */
static size_t name_owner(const struct weir_gate_ticket *gate_ticket,
                         char text[WEIR_PERMIT_NAME_BYTES_MAX])
{
    const struct weir_task_permit *task = weir_container_of((struct weir_gate_ticket *)gate_ticket,
                                                            struct weir_task_permit, gate_ticket);
    size_t bytes = task->text_bytes < WEIR_PERMIT_NAME_BYTES_MAX ? task->text_bytes
                                                                 : WEIR_PERMIT_NAME_BYTES_MAX;
    memcpy(text, task->text, bytes);
    return bytes;
}

static const struct weir_permit_owner task_owner = {
    .kind = "task", .on_change = on_change, .name = name_owner};

/* ---- keeping a permit ---- */

/* A task for the permit of that ticket, which is not in the table yet. */
static void fill(struct weir_task_permit *task, const struct weir_gate_ticket *from,
                 const struct weir_task_name *name, uint64_t lease_ns)
{
    memset(task, 0, offsetof(struct weir_task_permit, from_text)); /* the texts need not be */
    task->gate = name->gate;
    task->lease_ns = lease_ns;
    task->text_bytes = (uint16_t)name->text.bytes;
    weir_slice_copy(task->text, name->text);
    snprintf(task->from_text, sizeof task->from_text, "%s", from->from == NULL ? "" : from->from);
    task->gate_ticket =
        (struct weir_gate_ticket){.owner = &task_owner,
                                  .from = from->from == NULL ? NULL : task->from_text,
                                  .tenant = weir_slice_copy(task->tenant_text, from->tenant),
                                  .flow = weir_slice_copy(task->flow_text, from->flow)};
}

/* Puts a task into the table that has the permit. */
static void insert(struct weir_task_permits *task_permits, struct weir_task_permit *task,
                   uint64_t hash)
{
    task->task_permits = task_permits;
    task->sequence = ++task_permits->next_sequence;
    task->listed = true;
    weir_map_insert(&task_permits->map, &task->node, hash);
    weir_list_push_back(&task_permits->all, &task->link);
}

/* Passes the permit to a new task, whose name is not in the table. The lease comes first: without
 * memory for it, the permit stays where it is. */
static bool pass(struct weir_task_permits *task_permits, struct weir_gate_ticket *from,
                 const struct weir_task_name *name, uint64_t lease_ns)
{
    uint32_t loop_index = from->loop_index;
    uint64_t hash = hash_name(task_permits, name);
    struct weir_task_permit *task = weir_map_reserve(&task_permits->map, task_permits->allocator)
                                        ? weir_slab_take(&task_permits->slab)
                                        : NULL;
    if (task == NULL) {
        return false;
    }
    fill(task, from, name, lease_ns);
    if (weir_gate_ticket_pass(from, &task->gate_ticket, loop_index) != WEIR_OK) {
        weir_slab_give(&task_permits->slab, task);
        return false;
    }
    insert(task_permits, task, hash);
    if (set_lease(task, lease_ns, loop_index) != WEIR_OK) {
        /* Without memory for its lease the permit must not be held for ever. */
        give_back(task, WEIR_OUTCOME_CANCELLED, loop_index);
    }
    return true;
}

bool weir_task_permits_keep(struct weir_task_permits *task_permits,
                            struct weir_gate_ticket *gate_ticket, uint32_t gate,
                            struct weir_slice text, uint64_t lease_ns)
{
    struct weir_task_name name = {gate, weir_key_name(gate_ticket->key), text};
    uint32_t loop_index = gate_ticket->loop_index;
    bool kept = false;
    pthread_mutex_lock(&task_permits->lock);
    struct weir_task_permit *task = find(task_permits, &name);
    bool known = task != NULL && set_lease(task, task->joined > 0 ? WEIR_NEVER : task->lease_ns,
                                           loop_index) != WEIR_NOT_HELD;
    bool full = !known && task_permits->slab.count == task_permits->slab.count_max;
    if (!known) {
        kept = pass(task_permits, gate_ticket, &name, lease_ns);
    }
    pthread_mutex_unlock(&task_permits->lock);
    if (full) {
        weir_log_rate_limited(&task_permits->full,
                              weir_gates_loop(task_permits->gates, loop_index)->now_ns,
                              WEIR_LOG_WARN, "tasks_full", NULL,
                              "%u tasks hold permits, which is the most; the permit of another one "
                              "goes back with its request; lower task_lease",
                              task_permits->slab.count_max);
    }
    return kept;
}

/* ---- by name ---- */

uint64_t weir_task_permits_join(struct weir_task_permits *task_permits,
                                const struct weir_task_name *name, enum weir_task_use use,
                                uint32_t loop_index)
{
    uint64_t joined = 0;
    pthread_mutex_lock(&task_permits->lock);
    struct weir_task_permit *task = find(task_permits, name);
    bool free = task != NULL && !(use == WEIR_TASK_WORK && task->works);
    if (free && set_lease(task, WEIR_NEVER, loop_index) == WEIR_OK) {
        task->works = task->works || use == WEIR_TASK_WORK;
        task->joined++;
        joined = task->sequence;
    }
    pthread_mutex_unlock(&task_permits->lock);
    return joined;
}

void weir_task_permits_leave(struct weir_task_permits *task_permits,
                             const struct weir_task_name *name, enum weir_task_use use,
                             uint64_t joined, uint32_t loop_index)
{
    pthread_mutex_lock(&task_permits->lock);
    struct weir_task_permit *task = find(task_permits, name);
    if (task != NULL && task->sequence == joined) {
        assert(task->joined > 0);
        assert(task->works || use != WEIR_TASK_WORK);
        task->works = task->works && use != WEIR_TASK_WORK;
        task->joined--;
        if (task->joined == 0 && set_lease(task, task->lease_ns, loop_index) == WEIR_NO_MEMORY) {
            give_back(task, WEIR_OUTCOME_CANCELLED, loop_index); /* it must not stay for ever */
        }
    }
    pthread_mutex_unlock(&task_permits->lock);
}

bool weir_task_permits_renew(struct weir_task_permits *task_permits,
                             const struct weir_task_name *name, uint32_t loop_index)
{
    pthread_mutex_lock(&task_permits->lock);
    struct weir_task_permit *task = find(task_permits, name);
    bool held = task != NULL &&
                (task->joined > 0 || set_lease(task, task->lease_ns, loop_index) == WEIR_OK);
    pthread_mutex_unlock(&task_permits->lock);
    return held;
}

bool weir_task_permits_end(struct weir_task_permits *task_permits,
                           const struct weir_task_name *name, enum weir_outcome outcome,
                           uint32_t loop_index)
{
    pthread_mutex_lock(&task_permits->lock);
    struct weir_task_permit *task = find(task_permits, name);
    bool held = task != NULL && give_back(task, outcome, loop_index);
    pthread_mutex_unlock(&task_permits->lock);
    return held;
}

uint32_t weir_task_permits_count(struct weir_task_permits *task_permits)
{
    pthread_mutex_lock(&task_permits->lock);
    uint32_t count = task_permits->slab.count;
    pthread_mutex_unlock(&task_permits->lock);
    return count;
}

/* ---- all of them ---- */

struct weir_task_permits *weir_task_permits_create(struct weir_gates *gates, uint32_t count_max,
                                                   const struct weir_allocator *allocator)
{
    struct weir_task_permits *task_permits = weir_allocate_zeroed(allocator, sizeof *task_permits);
    if (task_permits == NULL) {
        return NULL;
    }
    if (getrandom(task_permits->seed, sizeof task_permits->seed, 0) != sizeof task_permits->seed) {
        weir_release(allocator, task_permits, sizeof *task_permits);
        return NULL;
    }
    pthread_mutex_init(&task_permits->lock, NULL);
    task_permits->allocator = allocator;
    task_permits->gates = gates;
    weir_list_init(&task_permits->all);
    weir_slab_init(&task_permits->slab, sizeof(struct weir_task_permit), count_max, allocator);
    return task_permits;
}

/* Until nothing is under way to any loop. */
static void settle_loops(struct weir_gates *gates)
{
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < weir_gates_loop_count(gates); i++) {
            any = weir_loop_settle(weir_gates_loop(gates, i)) || any;
        }
    }
}

void weir_task_permits_destroy(struct weir_task_permits *task_permits)
{
    if (task_permits == NULL) {
        return;
    }
    while (!weir_list_empty(&task_permits->all)) {
        struct weir_task_permit *task =
            weir_container_of(task_permits->all.next, struct weir_task_permit, link);
        (void)give_back(task, WEIR_OUTCOME_CANCELLED, task->gate_ticket.loop_index);
    }
    settle_loops(task_permits->gates); /* the ends of leases that came first */
    weir_map_deinit(&task_permits->map, task_permits->allocator);
    weir_slab_deinit(&task_permits->slab);
    pthread_mutex_destroy(&task_permits->lock);
    weir_release(task_permits->allocator, task_permits, sizeof *task_permits);
}
