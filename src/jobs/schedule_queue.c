/* schedule_queue.c - makes queues and takes up their settings.
 *
 * New settings are taken up in two steps: first everything that needs memory is prepared for all
 * queues, then nothing can fail any more. Only the keys of the core allocate in the second step; a
 * key that gets no memory keeps its old tenants' shares and is tried again. The number of workers
 * never waits for memory. */
#include "jobs/schedule_state.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/slice.h"

#include <assert.h>

#define LANE 0

/* ---- the core's settings ---- */

/* No ticket is ever refused, displaced or timed out, because the schedule checks bounds at
 * admission. It also applies the rates there: the core's rates would pace the starts. */
static struct weir_settings core_settings(const struct weir_schedule_queue *queue,
                                          struct weir_lane_settings *lane,
                                          struct weir_tenant_settings *tenants)
{
    *lane = (struct weir_lane_settings){.id = LANE, .limit = queue->workers};
    lane->limit = queue->workers == 0 ? 1 : queue->workers; /* without workers it is paused */
    struct weir_settings settings = {
        .lanes = lane,
        .lane_count = 1,
        .line = {.tickets = WEIR_TICKETS_MAX},
        .timeout_ns = WEIR_NEVER,
        .tenant_default = queue->tenant_default,
        .tenants = tenants,
        .tenant_count = queue->tenant_count,
        .tenants_max = WEIR_TENANTS_MAX,
    };
    settings.tenant_default.rate = (struct weir_rate){0};
    for (uint32_t i = 0; i < queue->tenant_count; i++) {
        tenants[i] = queue->tenants[i];
        tenants[i].rate = (struct weir_rate){0};
    }
    return settings;
}

/* A tenant's rate counts submissions, whatever unit the settings name. */
static enum weir_status create_door(const struct weir_schedule *schedule,
                                    const struct weir_schedule_queue *queue,
                                    struct weir_rules **door)
{
    struct weir_settings settings = {
        .tenant_default = queue->tenant_default,
        .tenants = queue->tenants,
        .tenant_count = queue->tenant_count,
        .tenants_max = WEIR_TENANTS_MAX,
    };
    return weir_rules_create(&settings, schedule->allocator, door);
}

/* ---- queues ---- */

static struct weir_queue *find_queue(const struct weir_schedule *schedule, struct weir_slice name,
                                     uint64_t hash)
{
    struct weir_map_node *node = weir_map_first(&schedule->names, hash);
    for (; node != NULL; node = weir_map_next(node)) {
        struct weir_queue *queue = weir_container_of(node, struct weir_queue, node);
        if (weir_slice_equal((struct weir_slice){queue->name, queue->name_bytes}, name)) {
            return queue;
        }
    }
    return NULL;
}

uint32_t weir_schedule_find_queue(const struct weir_schedule *schedule, struct weir_slice name)
{
    struct weir_queue *queue = find_queue(schedule, name, weir_hash(schedule->seed, name));
    return queue == NULL ? UINT32_MAX : queue->number;
}

static void set_pause(struct weir_schedule *schedule, struct weir_queue *queue, uint64_t until_ns)
{
    struct weir_news news = {0};
    enum weir_status status = weir_key_pause(queue->key, LANE, until_ns, schedule->now_ns, &news);
    assert(status == WEIR_OK);
    weir_schedule_collect(schedule, queue, &news);
}

/* Opens a queue's gate, key and admission rules, without workers. */
static enum weir_status open_queue(struct weir_schedule *schedule, struct weir_queue *queue,
                                   struct weir_slice name)
{
    struct weir_schedule_queue none = {.workers = 0};
    struct weir_lane_settings lane;
    struct weir_settings settings = core_settings(&none, &lane, NULL);
    struct weir_gate_options options = {
        .allocator = schedule->allocator,
        .seed = {schedule->seed[0], schedule->seed[1]},
        .keys_max = 1,
    };
    enum weir_status status = create_door(schedule, &none, &queue->door);
    if (status == WEIR_OK) {
        status = weir_gate_create(&options, &settings, &queue->gate);
    }
    if (status == WEIR_OK) {
        status = weir_gate_take(queue->gate, name, schedule->now_ns, &queue->key);
    }
    return status;
}

static void close_queue(struct weir_schedule *schedule, struct weir_queue *queue)
{
    if (queue->key != NULL) {
        weir_key_give(queue->key);
    }
    weir_gate_destroy(queue->gate);
    weir_rules_give(queue->door);
    weir_release(schedule->allocator, queue, sizeof *queue + queue->name_bytes);
}

/* Requires that it is the last one, or that all are destroyed. */
void weir_queue_destroy(struct weir_schedule *schedule, struct weir_queue *queue)
{
    assert(queue->jobs == 0);
    while (!weir_list_empty(&queue->all_guests)) { /* even if their buckets are not full */
        struct weir_guest *guest =
            weir_container_of(queue->all_guests.next, struct weir_guest, link);
        weir_release(schedule->allocator, guest->bucket, sizeof *guest->bucket);
        guest->bucket = NULL;
        weir_guest_give(schedule, queue, guest);
    }
    weir_map_deinit(&queue->guests, schedule->allocator);
    weir_map_deinit(&queue->strands, schedule->allocator);
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        weir_heap_deinit(&queue->ages[i], schedule->allocator);
    }
    weir_map_remove(&schedule->names, &queue->node);
    if (queue->behind.next != NULL) {
        weir_list_unlink(&queue->behind);
    }
    close_queue(schedule, queue);
}

static void init_queue(struct weir_queue *queue, struct weir_slice name)
{
    queue->per_key = 1;
    queue->lease_ns = WEIR_NEVER;
    queue->name_bytes = (uint8_t)name.bytes;
    memcpy(queue->name, name.data, name.bytes);
    weir_list_init(&queue->all_guests);
    weir_list_init(&queue->all_strands);
}

static enum weir_status create_queue(struct weir_schedule *schedule, struct weir_slice name,
                                     struct weir_queue **result)
{
    if (name.bytes == 0 || name.bytes > WEIR_NAME_BYTES_MAX) {
        return WEIR_BAD_NAME;
    }
    if (schedule->queue_count == WEIR_SCHEDULE_QUEUES_MAX) {
        return WEIR_TOO_MANY_KEYS;
    }
    struct weir_queue *queue =
        weir_allocate_zeroed(schedule->allocator, sizeof *queue + name.bytes);
    if (queue == NULL) {
        return WEIR_NO_MEMORY;
    }
    init_queue(queue, name);
    enum weir_status status = weir_map_reserve(&schedule->names, schedule->allocator)
                                  ? open_queue(schedule, queue, name)
                                  : WEIR_NO_MEMORY;
    if (status != WEIR_OK) {
        close_queue(schedule, queue);
        return status;
    }
    queue->number = schedule->queue_count;
    schedule->queues[schedule->queue_count++] = queue;
    weir_map_insert(&schedule->names, &queue->node, weir_hash(schedule->seed, name));
    set_pause(schedule, queue, WEIR_NEVER);
    *result = queue;
    return WEIR_OK;
}

uint32_t weir_schedule_need_queue(struct weir_schedule *schedule, struct weir_slice name,
                                  struct weir_instant now)
{
    struct weir_queue *queue = find_queue(schedule, name, weir_hash(schedule->seed, name));
    if (queue != NULL) {
        return queue->number;
    }
    weir_schedule_take_time(schedule, now);
    return create_queue(schedule, name, &queue) == WEIR_OK ? queue->number : UINT32_MAX;
}

/* ---- settings ---- */

static enum weir_status check_queue(const struct weir_schedule_queue *queue)
{
    if (queue->workers > WEIR_LIMIT_MAX) {
        return WEIR_BAD_LIMIT;
    }
    if (queue->jobs_max > WEIR_SCHEDULE_JOBS_MAX) {
        return WEIR_BAD_BOUND;
    }
    bool lease_valid = queue->lease_ns >= 1 &&
                       (queue->lease_ns <= WEIR_DURATION_MAX_NS || queue->lease_ns == WEIR_NEVER);
    return lease_valid ? WEIR_OK : WEIR_BAD_DURATION;
}

/* The new settings of a queue, prepared. */
struct queue_update {
    struct weir_queue *queue;
    struct weir_rules *door;
};

static enum weir_status configure_gate(const struct weir_schedule *schedule,
                                       const struct weir_queue *queue,
                                       const struct weir_schedule_queue *settings)
{
    size_t bytes = settings->tenant_count * sizeof *settings->tenants;
    struct weir_tenant_settings *tenants = NULL;
    if (bytes > 0) {
        tenants = weir_allocate(schedule->allocator, bytes);
        if (tenants == NULL) {
            return WEIR_NO_MEMORY;
        }
    }
    struct weir_lane_settings lane;
    struct weir_settings core = core_settings(settings, &lane, tenants);
    enum weir_status status = weir_gate_configure(queue->gate, &core);
    weir_release(schedule->allocator, tenants, bytes);
    return status;
}

static bool reserve_ages(const struct weir_schedule *schedule, struct weir_queue *queue)
{
    bool ok = true;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        ok = ok && weir_heap_reserve(&queue->ages[i], queue->jobs_of[i], schedule->allocator);
    }
    return ok;
}

/* Prepares everything that may fail. A gate's prepared settings have no effect until they are
 * applied. */
static enum weir_status prepare_update(struct weir_schedule *schedule,
                                       const struct weir_schedule_queue *settings,
                                       struct queue_update *queue_update)
{
    enum weir_status status = check_queue(settings);
    queue_update->queue =
        find_queue(schedule, settings->name, weir_hash(schedule->seed, settings->name));
    if (status == WEIR_OK) {
        status = create_door(schedule, settings, &queue_update->door);
    }
    if (status == WEIR_OK && queue_update->queue == NULL) {
        status = create_queue(schedule, settings->name, &queue_update->queue);
    }
    if (status == WEIR_OK) {
        status = configure_gate(schedule, queue_update->queue, settings);
    }
    if (status == WEIR_OK && settings->full == WEIR_SCHEDULE_DROP_OLDEST &&
        !reserve_ages(schedule, queue_update->queue)) {
        status = WEIR_NO_MEMORY;
    }
    return status;
}

void weir_queue_apply(struct weir_schedule *schedule, struct weir_queue *queue)
{
    struct weir_news news = {0};
    if (queue->workers == 0) {
        set_pause(schedule, queue, WEIR_NEVER);
    }
    enum weir_status status = weir_gate_apply(queue->gate, queue->key, schedule->now_ns, &news);
    assert(status == WEIR_OK || status == WEIR_NO_MEMORY);
    weir_schedule_collect(schedule, queue, &news);
    queue->stale = status != WEIR_OK;
    if (queue->stale) {
        schedule->again_ns = schedule->now_ns + WEIR_SCHEDULE_AGAIN_NS;
    }
    if (queue->workers > 0) {
        status = weir_key_set_limit(queue->key, LANE, queue->workers, schedule->now_ns, &news);
        assert(status == WEIR_OK);
        weir_schedule_collect(schedule, queue, &news);
        set_pause(schedule, queue, 0);
    }
}

static void set_aged(struct weir_schedule *schedule, struct weir_queue *queue, bool aged)
{
    if (aged && !queue->aged) {
        weir_schedule_age(schedule, queue);
    }
    for (int i = 0; i < WEIR_PRIORITY_COUNT && !aged; i++) {
        struct weir_heap *ages = &queue->ages[i];
        for (uint32_t j = 0; j < ages->count; j++) {
            *ages->entries[j].place = 0;
        }
        ages->count = 0;
        weir_heap_deinit(ages, schedule->allocator);
    }
    queue->aged = aged;
}

static void follow(struct weir_schedule *schedule, struct weir_queue *queue,
                   const struct weir_schedule_queue *settings)
{
    queue->workers = settings->workers;
    queue->jobs_max = settings->jobs_max;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        uint32_t own = settings->jobs_by_priority[i];
        queue->jobs_by_priority[i] = own == 0 ? UINT32_MAX : own;
    }
    queue->full = settings->full;
    queue->per_key = settings->per_key == 0 ? 1 : settings->per_key;
    queue->lease_ns = settings->lease_ns;
    set_aged(schedule, queue, settings->full == WEIR_SCHEDULE_DROP_OLDEST);
    weir_queue_apply(schedule, queue);
    for (struct weir_link *at = queue->all_strands.next; at != &queue->all_strands; at = at->next) {
        weir_strand_release(schedule, queue, weir_container_of(at, struct weir_strand, link));
    }
}

/* Applies the prepared settings to every queue, or stops queues that are no longer named. */
static void commit_update(struct weir_schedule *schedule, const struct weir_schedule_queue *queues,
                          struct queue_update *plans, uint32_t count)
{
    static const struct weir_schedule_queue stopped = {.lease_ns = WEIR_NEVER};
    for (uint32_t i = 0; i < schedule->queue_count; i++) {
        schedule->queues[i]->named = false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct weir_queue *queue = plans[i].queue;
        weir_rules_give(queue->door);
        queue->door = plans[i].door;
        queue->named = true;
        follow(schedule, queue, &queues[i]);
    }
    for (uint32_t i = 0; i < schedule->queue_count; i++) {
        if (!schedule->queues[i]->named) {
            follow(schedule, schedule->queues[i], &stopped);
        }
    }
    weir_schedule_decide(schedule);
}

static void abandon(struct weir_schedule *schedule, struct queue_update *plans, uint32_t count,
                    uint32_t queue_count)
{
    for (uint32_t i = 0; i < count; i++) {
        weir_rules_give(plans[i].door);
    }
    while (schedule->queue_count > queue_count) {
        weir_queue_destroy(schedule, schedule->queues[--schedule->queue_count]);
    }
}

enum weir_status weir_schedule_configure(struct weir_schedule *schedule,
                                         const struct weir_schedule_queue *queues, uint32_t count,
                                         struct weir_instant now)
{
    if (count > WEIR_SCHEDULE_QUEUES_MAX) {
        return WEIR_TOO_MANY_KEYS;
    }
    size_t bytes = (count + UINT32_C(1)) * sizeof(struct queue_update); /* never zero bytes */
    struct queue_update *plans = weir_allocate_zeroed(schedule->allocator, bytes);
    if (plans == NULL) {
        return WEIR_NO_MEMORY;
    }
    uint32_t queue_count = schedule->queue_count;
    enum weir_status status = WEIR_OK;
    weir_schedule_take_time(schedule, now);
    for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
        status = prepare_update(schedule, &queues[i], &plans[i]);
    }
    if (status == WEIR_OK) {
        commit_update(schedule, queues, plans, count);
    } else {
        abandon(schedule, plans, count, queue_count);
    }
    weir_release(schedule->allocator, plans, bytes);
    return status;
}
