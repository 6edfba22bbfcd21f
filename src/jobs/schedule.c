/* schedule.c - see schedule.h; schedule_state.h has the state and its invariants. Here are the
 * calls on jobs. Each call takes the time, makes its change, and decides whose turn has come. The
 * caller holds its lock for all of them. */
#include "jobs/schedule_state.h"

#include "base/alloc.h"

#include <assert.h>

static_assert(sizeof(struct weir_schedule_job) == 200, "no byte is lost between the fields");
static_assert(WEIR_SCHEDULE_JOBS_MAX <= WEIR_TICKETS_MAX, "all jobs of a queue fit into its line");
static_assert(WEIR_SCHEDULE_QUEUES_MAX <= UINT16_MAX, "a job knows its queue by 16 bits");
static_assert(WEIR_PRIORITY_COUNT <= 4, "a job knows its priority by 2 bits");

void weir_schedule_take_time(struct weir_schedule *schedule, struct weir_instant now)
{
    if (now.now_ns > schedule->now_ns) {
        schedule->now_ns = now.now_ns;
    }
    schedule->wall_ms = now.wall_ms;
}

/* ---- jobs by number ---- */

/* Numbers are Weir's and count up, so they are their own hash: neighbours are neighbours in the
 * table. An attacker who wants many jobs in one chain would have to submit as many jobs as the
 * table is long for each of them. */
struct weir_schedule_job *weir_schedule_find(const struct weir_schedule *schedule, uint64_t number)
{
    struct weir_map_node *node = weir_map_first(&schedule->jobs, number);
    return node == NULL ? NULL : weir_container_of(node, struct weir_schedule_job, node);
}

static void visit_chain(struct weir_map_node *node, weir_job_visit *visit, void *context)
{
    while (node != NULL) {
        struct weir_map_node *next = node->next;
        visit(context, weir_container_of(node, struct weir_schedule_job, node));
        node = next;
    }
}

/* While the map grows, chains that have not been moved yet are in the older table only. */
void weir_schedule_each(const struct weir_schedule *schedule, weir_job_visit *visit, void *context)
{
    const struct weir_map *map = &schedule->jobs;
    uint32_t half = map->size / 2;
    for (uint32_t i = 0; i < map->size; i++) {
        bool moved = map->older == NULL || (i & (half - 1)) < map->moved;
        if (moved) {
            visit_chain(map->chains[i], visit, context);
        } else if (i < half) {
            visit_chain(map->older[i], visit, context);
        }
    }
}

/* ---- places ---- */

static bool is_queued(uint8_t place)
{
    return place == WEIR_SCHEDULE_DELAYED || place == WEIR_SCHEDULE_WAITING ||
           place == WEIR_SCHEDULE_PARKED;
}

static bool is_legal(uint8_t from, enum weir_schedule_place to)
{
    static const uint8_t legal[WEIR_SCHEDULE_HELD + 1] = {
        [WEIR_SCHEDULE_NOWHERE] = 1u << WEIR_SCHEDULE_DELAYED | 1u << WEIR_SCHEDULE_WAITING,
        [WEIR_SCHEDULE_DELAYED] =
            1u << WEIR_SCHEDULE_DELAYED | 1u << WEIR_SCHEDULE_WAITING | 1u << WEIR_SCHEDULE_HELD,
        [WEIR_SCHEDULE_WAITING] =
            1u << WEIR_SCHEDULE_RUNNING | 1u << WEIR_SCHEDULE_PARKED | 1u << WEIR_SCHEDULE_HELD,
        [WEIR_SCHEDULE_PARKED] =
            1u << WEIR_SCHEDULE_WAITING | 1u << WEIR_SCHEDULE_DELAYED | 1u << WEIR_SCHEDULE_HELD,
        [WEIR_SCHEDULE_RUNNING] = 1u << WEIR_SCHEDULE_HELD,
        [WEIR_SCHEDULE_HELD] =
            1u << WEIR_SCHEDULE_NOWHERE | 1u << WEIR_SCHEDULE_DELAYED | 1u << WEIR_SCHEDULE_WAITING,
    };
    return (legal[from] >> to & 1) != 0;
}

static void count_queued(struct weir_queue *queue, struct weir_schedule_job *job, bool queued)
{
    struct weir_heap *ages = &queue->ages[job->priority];
    if (queued) {
        queue->queued_of[job->priority]++;
    } else {
        queue->queued_of[job->priority]--;
    }
    if (queue->aged && queued) {
        weir_heap_push(ages, weir_job_number(job), 0, &job->place_age);
    } else if (queue->aged) {
        weir_heap_remove(ages, &job->place_age);
    }
}

void weir_job_move(struct weir_schedule *schedule, struct weir_schedule_job *job,
                   enum weir_schedule_place place)
{
    struct weir_queue *queue = weir_job_queue(schedule, job);
    bool was_queued = is_queued(job->place);
    bool queued = is_queued((uint8_t)place);
    assert(is_legal(job->place, place));
    queue->counts[job->place]--;
    queue->counts[place]++;
    job->place = (uint8_t)place;
    if (was_queued != queued) {
        count_queued(queue, job, queued);
    }
    if (queue->counts[WEIR_SCHEDULE_WAITING] == 0) {
        queue->last_start_ns = 0;
    }
}

static void age_job(void *context, struct weir_schedule_job *job)
{
    struct weir_queue *queue = context;
    if (job->queue == queue->number && is_queued(job->place)) {
        weir_heap_push(&queue->ages[job->priority], weir_job_number(job), 0, &job->place_age);
    }
}

void weir_schedule_age(struct weir_schedule *schedule, struct weir_queue *queue)
{
    weir_schedule_each(schedule, age_job, queue);
}

/* ---- coming and going ---- */

/* Reserves all the room that a job may ever need, so that it never has to be refused later. */
static bool reserve_room(struct weir_schedule *schedule, struct weir_queue *queue,
                         const struct weir_schedule_entry *entry)
{
    const struct weir_allocator *allocator = schedule->allocator;
    uint32_t all = schedule->jobs.count + 1;
    struct weir_heap *ages = &queue->ages[entry->priority];
    return weir_map_reserve(&schedule->jobs, allocator) &&
           weir_heap_reserve(&schedule->moments, all, allocator) &&
           (!entry->dated ||
            weir_heap_reserve(&schedule->dates, schedule->dated_count + 1, allocator)) &&
           (!queue->aged ||
            weir_heap_reserve(ages, queue->jobs_of[entry->priority] + 1, allocator));
}

/* Requires that the job is in its last place. */
static void destroy_job(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    struct weir_queue *queue = weir_job_queue(schedule, job);
    assert(job->place_moment == 0);
    assert(job->place_age == 0);
    queue->counts[job->place]--;
    queue->jobs--;
    queue->jobs_of[job->priority]--;
    schedule->dated_count -= job->dated;
    job->guest->jobs--;
    weir_guest_give(schedule, queue, job->guest);
    if (job->strand != NULL) {
        job->strand->jobs--;
        weir_strand_give(schedule, queue, job->strand);
    }
    weir_map_remove(&schedule->jobs, &job->node);
    weir_slab_give(&schedule->slab, job);
}

/* A job that is nowhere yet, or null without memory. */
static struct weir_schedule_job *create_job(struct weir_schedule *schedule,
                                            struct weir_queue *queue,
                                            const struct weir_schedule_entry *entry)
{
    struct weir_guest *guest = weir_guest_obtain(schedule, queue, entry->tenant);
    if (guest == NULL) {
        return NULL;
    }
    struct weir_strand *strand = NULL;
    if (entry->key.bytes > 0) {
        strand = weir_strand_obtain(schedule, queue, entry->key);
    }
    bool tied = entry->key.bytes == 0 || strand != NULL;
    struct weir_schedule_job *job = NULL;
    if (tied && reserve_room(schedule, queue, entry)) {
        job = weir_slab_take(&schedule->slab);
    }
    if (job == NULL) {
        weir_guest_give(schedule, queue, guest);
        if (strand != NULL) {
            weir_strand_give(schedule, queue, strand);
        }
        return NULL;
    }
    *job = (struct weir_schedule_job){
        .guest = guest,
        .strand = strand,
        .cost_ms = (uint32_t)(entry->cost_ms < WEIR_COST_MAX ? entry->cost_ms : WEIR_COST_MAX),
        .queue = (uint16_t)queue->number,
        .place = WEIR_SCHEDULE_NOWHERE,
        .priority = (uint8_t)(entry->priority & 3),
        .dated = entry->dated,
    };
    weir_job_ticket(job)->tag = entry->number;
    guest->jobs++;
    if (strand != NULL) {
        strand->jobs++;
    }
    queue->counts[WEIR_SCHEDULE_NOWHERE]++;
    queue->jobs++;
    queue->jobs_of[entry->priority]++;
    schedule->dated_count += entry->dated;
    weir_map_insert(&schedule->jobs, &job->node, entry->number);
    return job;
}

/* How long a delay still lasts. A delay never becomes longer than it was meant to be because the
 * wall clock was set back. */
static int64_t delay_left(const struct weir_schedule *schedule,
                          const struct weir_schedule_entry *entry)
{
    int64_t since_ms =
        schedule->wall_ms > entry->created_ms ? schedule->wall_ms : entry->created_ms;
    return entry->next_ms > since_ms ? entry->next_ms - since_ms : 0;
}

/* Puts a new job into its first place. False without memory. */
static bool place_new_job(struct weir_schedule *schedule, struct weir_schedule_job *job,
                          const struct weir_schedule_entry *entry)
{
    if (entry->dated && entry->next_ms > schedule->wall_ms) {
        weir_job_date(schedule, job, entry->next_ms);
        return true;
    }
    int64_t left_ms = entry->dated ? 0 : delay_left(schedule, entry);
    if (left_ms > 0) {
        weir_job_delay(schedule, job, weir_schedule_after(schedule, left_ms));
        return true;
    }
    return weir_job_join(schedule, job);
}

static void take_reservation(struct weir_queue *queue, enum weir_priority priority)
{
    assert(queue->reserved_of[priority] > 0);
    queue->reserved--;
    queue->reserved_of[priority]--;
}

enum weir_status weir_schedule_enter(struct weir_schedule *schedule,
                                     const struct weir_schedule_entry *entry,
                                     struct weir_instant now)
{
    assert(entry->queue < schedule->queue_count);
    assert((unsigned)entry->priority < WEIR_PRIORITY_COUNT);
    assert(weir_schedule_find(schedule, entry->number) == NULL);
    struct weir_queue *queue = schedule->queues[entry->queue];
    if (entry->tenant.bytes > WEIR_NAME_BYTES_MAX || entry->key.bytes > WEIR_NAME_BYTES_MAX) {
        return WEIR_BAD_NAME;
    }
    if (queue->jobs >= WEIR_SCHEDULE_JOBS_MAX || schedule->jobs.count >= WEIR_SCHEDULE_TOTAL_MAX) {
        return WEIR_LINE_FULL;
    }
    weir_schedule_take_time(schedule, now);
    struct weir_schedule_job *job = create_job(schedule, queue, entry);
    if (job == NULL) {
        return WEIR_NO_MEMORY;
    }
    bool settled = place_new_job(schedule, job, entry);
    if (!settled) {
        destroy_job(schedule, job);
    } else if (entry->reserved) {
        take_reservation(queue, entry->priority);
    }
    weir_schedule_decide(schedule);
    return settled ? WEIR_OK : WEIR_NO_MEMORY;
}

struct weir_schedule_news weir_schedule_next(struct weir_schedule *schedule)
{
    struct weir_schedule_job *job = schedule->news_first;
    if (job == NULL) {
        return (struct weir_schedule_news){.what = WEIR_SCHEDULE_NOTHING};
    }
    schedule->news_first = job->start.next;
    if (schedule->news_first == NULL) {
        schedule->news_last = NULL;
    }
    job->untold = false;
    bool lapsed = job->place == WEIR_SCHEDULE_HELD;
    return (struct weir_schedule_news){
        .what = lapsed ? WEIR_SCHEDULE_LAPSED : WEIR_SCHEDULE_START,
        .number = weir_job_number(job),
        .queue = job->queue,
        .epoch = {schedule->boot, job->start.counter},
        .ran_ms = lapsed ? weir_job_ran_ms(schedule, job) : 0,
    };
}

/* The job with that number if it runs under that epoch and its start was reported; else null. */
static struct weir_schedule_job *find_running(const struct weir_schedule *schedule, uint64_t number,
                                              struct weir_epoch epoch)
{
    struct weir_schedule_job *job = weir_schedule_find(schedule, number);
    bool runs = job != NULL && job->place == WEIR_SCHEDULE_RUNNING && !job->untold;
    return runs && weir_epoch_equal(epoch, (struct weir_epoch){schedule->boot, job->start.counter})
               ? job
               : NULL;
}

enum weir_status weir_schedule_renew(struct weir_schedule *schedule, uint64_t number,
                                     struct weir_epoch epoch, struct weir_instant now)
{
    struct weir_schedule_job *job = find_running(schedule, number, epoch);
    if (job == NULL) {
        return WEIR_NOT_HELD;
    }
    weir_schedule_take_time(schedule, now);
    weir_job_lease(schedule, job);
    return WEIR_OK;
}

enum weir_status weir_schedule_end(struct weir_schedule *schedule, uint64_t number,
                                   struct weir_epoch epoch, struct weir_instant now)
{
    struct weir_schedule_job *job = find_running(schedule, number, epoch);
    if (job == NULL) {
        return WEIR_NOT_HELD;
    }
    weir_schedule_take_time(schedule, now);
    uint64_t ran_ms = weir_job_ran_ms(schedule, job);
    weir_mean_add(&weir_job_queue(schedule, job)->run_ms, ran_ms);
    weir_mean_add(&job->guest->run_ms, ran_ms);
    weir_job_end(schedule, job);
    weir_schedule_decide(schedule);
    return WEIR_OK;
}

/* Takes a queued job out of wherever it is. */
static void hold_job(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    job->resting = job->place == WEIR_SCHEDULE_DELAYED;
    if (job->resting) {
        weir_job_leave_heap(schedule, job);
    } else {
        weir_job_leave_line(schedule, job);
    }
    weir_job_move(schedule, job, WEIR_SCHEDULE_HELD);
    weir_strand_give_up(schedule, job);
}

enum weir_status weir_schedule_hold(struct weir_schedule *schedule, uint64_t number,
                                    struct weir_instant now)
{
    struct weir_schedule_job *job = weir_schedule_find(schedule, number);
    if (job == NULL || !is_queued(job->place)) {
        return WEIR_NOT_HELD;
    }
    weir_schedule_take_time(schedule, now);
    hold_job(schedule, job);
    weir_schedule_decide(schedule);
    return WEIR_OK;
}

bool weir_schedule_drop(struct weir_schedule *schedule, uint32_t number, struct weir_instant now,
                        uint64_t *dropped)
{
    assert(number < schedule->queue_count);
    struct weir_queue *queue = schedule->queues[number];
    struct weir_schedule_job *job = weir_queue_oldest_beyond(queue);
    if (job == NULL) {
        return false;
    }
    *dropped = weir_job_number(job);
    weir_schedule_take_time(schedule, now);
    hold_job(schedule, job);
    weir_schedule_decide(schedule);
    return true;
}

static struct weir_schedule_job *find_held(const struct weir_schedule *schedule, uint64_t number)
{
    struct weir_schedule_job *job = weir_schedule_find(schedule, number);
    assert(job != NULL);
    assert(job->place == WEIR_SCHEDULE_HELD);
    assert(!job->untold); /* else the caller could not know that it is held */
    return job;
}

/* Puts a job back into the heap in which it was, as if it had never been taken out. */
static void return_to_heap(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    if (job->by_wall) {
        weir_job_date(schedule, job, (int64_t)job->moment);
    } else {
        weir_job_delay(schedule, job, job->moment);
    }
}

void weir_schedule_requeue(struct weir_schedule *schedule, uint64_t number, int64_t next_ms,
                           struct weir_instant now)
{
    struct weir_schedule_job *job = find_held(schedule, number);
    bool resting = job->resting;
    weir_schedule_take_time(schedule, now);
    job->resting = false;
    if (resting && next_ms == 0) {
        return_to_heap(schedule, job);
        return;
    }
    job->retry = job->retry || !resting;
    if (next_ms > schedule->wall_ms && resting && job->dated) {
        weir_job_date(schedule, job, next_ms);
    } else if (next_ms > schedule->wall_ms) {
        int64_t left_ms = next_ms - schedule->wall_ms;
        weir_job_delay(schedule, job, weir_schedule_after(schedule, left_ms));
    } else {
        weir_job_join_surely(schedule, job);
    }
    weir_schedule_decide(schedule);
}

void weir_schedule_forget(struct weir_schedule *schedule, uint64_t number)
{
    destroy_job(schedule, find_held(schedule, number));
}

/* ---- the schedule's life ---- */

enum weir_status weir_schedule_create(const struct weir_schedule_options *options,
                                      struct weir_schedule **result)
{
    const struct weir_allocator *allocator =
        options->allocator == NULL ? &weir_allocator_libc : options->allocator;
    struct weir_schedule *schedule = weir_allocate_zeroed(allocator, sizeof *schedule);
    if (schedule == NULL) {
        return WEIR_NO_MEMORY;
    }
    schedule->allocator = allocator;
    memcpy(schedule->seed, options->seed, sizeof schedule->seed);
    schedule->boot = options->boot;
    schedule->again_ns = WEIR_NEVER;
    weir_slab_init(&schedule->slab, sizeof(struct weir_schedule_job), WEIR_SCHEDULE_TOTAL_MAX,
                   allocator);
    weir_list_init(&schedule->turns);
    weir_list_init(&schedule->behind);
    *result = schedule;
    return WEIR_OK;
}

static void destroy_any_job(void *context, struct weir_schedule_job *job)
{
    struct weir_schedule *schedule = context;
    struct weir_news news = {0};
    enum weir_status status = weir_key_cancel(weir_job_queue(schedule, job)->key,
                                              weir_job_ticket(job), schedule->now_ns, &news);
    assert(status == WEIR_OK || status == WEIR_NOT_HELD);
    assert(weir_news_next(&news) == NULL);
    job->place_moment = 0;
    job->place_age = 0;
    if (job->strand != NULL) {
        job->strand->busy = 0;
        weir_list_init(&job->strand->parked);
    }
    destroy_job(schedule, job);
}

static void empty_heap(struct weir_heap *heap, const struct weir_allocator *allocator)
{
    heap->count = 0;
    weir_heap_deinit(heap, allocator);
}

void weir_schedule_destroy(struct weir_schedule *schedule)
{
    if (schedule == NULL) {
        return;
    }
    const struct weir_allocator *allocator = schedule->allocator;
    for (uint32_t i = 0; i < schedule->queue_count;
         i++) { /* so that no ticket is admitted any more */
        struct weir_news news = {0};
        enum weir_status status =
            weir_key_pause(schedule->queues[i]->key, 0, WEIR_NEVER, schedule->now_ns, &news);
        assert(status == WEIR_OK);
    }
    weir_schedule_each(schedule, destroy_any_job, schedule);
    empty_heap(&schedule->moments, allocator);
    empty_heap(&schedule->dates, allocator);
    for (uint32_t i = 0; i < schedule->queue_count; i++) {
        for (int p = 0; p < WEIR_PRIORITY_COUNT; p++) {
            empty_heap(&schedule->queues[i]->ages[p], allocator);
        }
        weir_queue_destroy(schedule, schedule->queues[i]);
    }
    weir_map_deinit(&schedule->jobs, allocator);
    weir_map_deinit(&schedule->names, allocator);
    weir_slab_deinit(&schedule->slab);
    weir_release(allocator, schedule, sizeof *schedule);
}
