/* schedule_door.c - admission to queues: bounds, rates, and which job is dropped to make room.
 *
 * A place is reserved before a job is recorded, so that no job is accepted without room for it. */
#include "jobs/schedule_state.h"

#include "base/alloc.h"

#include <assert.h>

/* The Retry-After where nothing has been measured. */
#define RETRY_DEFAULT_NS (UINT64_C(5) * WEIR_NS_PER_SECOND)

/* The least Retry-After, so that a client does not retry in a tight loop. */
#define RETRY_MIN_NS WEIR_NS_PER_MS

/* From so many starts on, their mean interval is meaningful. */
#define STARTS_MIN 8

/* How many guests are examined for a bucket to free when all buckets are in use. */
#define LOOKS_AT_FULL 16

/* ---- rates ---- */

/* Each submission is one token. */
static struct weir_rate rate_of(const struct weir_tenant_settings *settings)
{
    struct weir_rate rate = settings->rate;
    rate.unit = WEIR_UNIT_COST;
    return rate;
}

static void fill(struct weir_bucket *bucket, const struct weir_rate *rate, uint64_t now_ns)
{
    *bucket = (struct weir_bucket){0};
    weir_bucket_init(bucket, rate, now_ns);
    bucket->configured = *rate;
}

/* The bucket that tenants without one of their own share. */
static struct weir_bucket *shared_bucket(struct weir_schedule *schedule, struct weir_queue *queue,
                                         const struct weir_rate *rate)
{
    if (queue->others.rate.tokens == 0) {
        fill(&queue->others, rate, schedule->now_ns);
    }
    return &queue->others;
}

/* The guest's own bucket, or null if it has none and none can be made for it. */
static struct weir_bucket *own_bucket(struct weir_schedule *schedule, struct weir_queue *queue,
                                      struct weir_guest *guest, const struct weir_rate *rate,
                                      bool may_make)
{
    if (guest->bucket == NULL && may_make) {
        guest->bucket = weir_allocate(schedule->allocator, sizeof *guest->bucket);
        if (guest->bucket != NULL) {
            queue->buckets++;
            fill(guest->bucket, rate, schedule->now_ns);
        }
    }
    return guest->bucket;
}

/* The bucket of a tenant with that rate, or null without memory. */
static struct weir_bucket *bucket_of(struct weir_schedule *schedule, struct weir_queue *queue,
                                     struct weir_slice tenant, const struct weir_rate *rate,
                                     bool named)
{
    uint32_t most = WEIR_SCHEDULE_BUCKETS_MAX + queue->door->settings.tenant_count;
    if (queue->buckets >= most) {
        weir_guests_sweep(schedule, queue, LOOKS_AT_FULL);
    }
    struct weir_guest *guest = weir_guest_obtain(schedule, queue, tenant);
    if (guest == NULL) {
        return NULL;
    }
    bool may_make = named || queue->buckets < most;
    struct weir_bucket *bucket = own_bucket(schedule, queue, guest, rate, may_make);
    if (bucket == NULL) {
        weir_guest_give(schedule, queue, guest);
    }
    return bucket == NULL && !may_make ? shared_bucket(schedule, queue, rate) : bucket;
}

/* Takes from the tenant's rate, if it has one. */
static enum weir_schedule_answer charge_rate(struct weir_schedule *schedule,
                                             struct weir_queue *queue,
                                             const struct weir_schedule_ask *ask,
                                             uint64_t *retry_after_ns)
{
    const struct weir_tenant_settings *settings = weir_rules_tenant(queue->door, ask->tenant);
    bool named = settings != &queue->door->settings.tenant_default;
    struct weir_rate rate = rate_of(settings);
    if (rate.tokens == 0) {
        return WEIR_SCHEDULE_COME;
    }
    struct weir_bucket *bucket = bucket_of(schedule, queue, ask->tenant, &rate, named);
    if (bucket == NULL) {
        *retry_after_ns = RETRY_DEFAULT_NS;
        return WEIR_SCHEDULE_FULL;
    }
    if (!weir_rate_equal(&bucket->configured, &rate)) {
        weir_bucket_set_rate(bucket, &rate, schedule->now_ns);
        bucket->configured = rate;
    }
    uint64_t ready_ns = weir_bucket_ready_ns(bucket, ask->count, schedule->now_ns);
    if (ready_ns > schedule->now_ns) {
        *retry_after_ns = ready_ns - schedule->now_ns;
        return WEIR_SCHEDULE_TOO_FAST;
    }
    weir_bucket_take(bucket, ask->count, schedule->now_ns);
    return WEIR_SCHEDULE_COME;
}

/* ---- bounds ---- */

static uint32_t places_of(const struct weir_schedule_ask *ask, int priority)
{
    uint32_t own = priority == (int)ask->priority ? ask->count : 0;
    return ask->seated ? 0 : own + ask->besides[priority];
}

static uint64_t places_in_all(const struct weir_schedule_ask *ask)
{
    uint64_t places = 0;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        places += places_of(ask, i);
    }
    return places;
}

static bool priorities_have_room(const struct weir_queue *queue,
                                 const struct weir_schedule_ask *ask)
{
    bool room = true;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        uint64_t own = queue->queued_of[i] + queue->reserved_of[i] + places_of(ask, i);
        room = room && (places_of(ask, i) == 0 || own <= queue->jobs_by_priority[i]);
    }
    return room;
}

static bool has_room(const struct weir_queue *queue, const struct weir_schedule_ask *ask)
{
    uint64_t all = weir_queue_queued(queue) + queue->reserved + places_in_all(ask);
    return (all <= queue->jobs_max && priorities_have_room(queue, ask)) || ask->seated ||
           queue->full == WEIR_SCHEDULE_DROP_OLDEST;
}

uint64_t weir_schedule_awaited(const struct weir_schedule *schedule,
                               const struct weir_schedule_ask *ask)
{
    assert(ask->queue < schedule->queue_count);
    const struct weir_queue *queue = schedule->queues[ask->queue];
    uint64_t places = places_in_all(ask);
    return places <= queue->jobs_max && priorities_have_room(queue, ask) ? places : 0;
}

static void reserve(struct weir_queue *queue, const struct weir_schedule_ask *ask)
{
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        queue->reserved_of[i] += places_of(ask, i);
    }
    queue->reserved += places_in_all(ask);
}

/* How long until there is room: every start frees a place. */
static uint64_t drain_ns(const struct weir_queue *queue, const struct weir_schedule_ask *ask)
{
    uint64_t all = weir_queue_queued(queue) + queue->reserved + places_in_all(ask);
    uint64_t needed = all > queue->jobs_max ? all - queue->jobs_max : 1;
    if (queue->interval_ns.count < STARTS_MIN || queue->workers == 0) {
        return RETRY_DEFAULT_NS;
    }
    uint64_t most = WEIR_DURATION_MAX_NS / needed;
    uint64_t drain = needed * (queue->interval_ns.value < most ? queue->interval_ns.value : most);
    return drain > RETRY_MIN_NS ? drain : RETRY_MIN_NS;
}

enum weir_schedule_answer weir_schedule_ask(struct weir_schedule *schedule,
                                            const struct weir_schedule_ask *ask,
                                            struct weir_instant now, uint64_t *retry_after_ns)
{
    assert(ask->queue < schedule->queue_count);
    assert((unsigned)ask->priority < WEIR_PRIORITY_COUNT);
    struct weir_queue *queue = schedule->queues[ask->queue];
    weir_schedule_take_time(schedule, now);
    if (!queue->named) {
        return WEIR_SCHEDULE_NO_QUEUE;
    }
    if (!has_room(queue, ask)) {
        *retry_after_ns = drain_ns(queue, ask);
        return WEIR_SCHEDULE_FULL;
    }
    enum weir_schedule_answer answer = charge_rate(schedule, queue, ask, retry_after_ns);
    if (answer == WEIR_SCHEDULE_COME) {
        reserve(queue, ask);
    }
    return answer;
}

void weir_schedule_withdraw(struct weir_schedule *schedule, const struct weir_schedule_ask *ask)
{
    assert(ask->queue < schedule->queue_count);
    struct weir_queue *queue = schedule->queues[ask->queue];
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        assert(queue->reserved_of[i] >= places_of(ask, i));
        queue->reserved_of[i] -= places_of(ask, i);
    }
    queue->reserved -= places_in_all(ask);
}

void weir_schedule_revoke(struct weir_schedule *schedule, const struct weir_schedule_ask *ask,
                          struct weir_instant now)
{
    weir_schedule_withdraw(schedule, ask);
    weir_schedule_take_time(schedule, now);
    struct weir_guest *guest = weir_guest_find(schedule, schedule->queues[ask->queue], ask->tenant);
    if (guest != NULL && guest->bucket != NULL) {
        weir_bucket_settle(guest->bucket, ask->count, 0, schedule->now_ns);
    }
}

/* ---- dropping ---- */

static struct weir_schedule_job *oldest_of(const struct weir_queue *queue, int priority)
{
    const struct weir_heap *ages = &queue->ages[priority];
    return ages->count == 0
               ? NULL
               : weir_container_of(weir_heap_top(ages)->place, struct weir_schedule_job, place_age);
}

struct weir_schedule_job *weir_queue_oldest_beyond(const struct weir_queue *queue)
{
    struct weir_schedule_job *oldest = NULL;
    for (int i = 0; i < WEIR_PRIORITY_COUNT && queue->aged; i++) {
        struct weir_schedule_job *job = oldest_of(queue, i);
        if (queue->queued_of[i] > queue->jobs_by_priority[i]) {
            return job; /* a priority beyond its own bound drops its own jobs */
        }
        if (job != NULL && (oldest == NULL || weir_job_number(job) < weir_job_number(oldest))) {
            oldest = job;
        }
    }
    return weir_queue_queued(queue) > queue->jobs_max ? oldest : NULL;
}
