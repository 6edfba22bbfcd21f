/* schedule_validate.c - a walk over everything that asserts the invariants of schedule_state.h. */
#include "jobs/schedule_state.h"

#include <assert.h>

/* What is counted on a walk over the jobs of one queue. */
struct census {
    const struct weir_schedule *schedule;
    const struct weir_queue *queue;
    uint32_t counts[WEIR_SCHEDULE_HELD + 1];
    uint32_t jobs_of[WEIR_PRIORITY_COUNT];
    uint32_t queued_of[WEIR_PRIORITY_COUNT];
    uint32_t busy; /* RUNNING or coming, and with a key */
    uint32_t dated;
    uint32_t turned; /* WAITING, and their turn has come */
    uint32_t untold;
    uint32_t in_moments;
    uint32_t in_dates;
};

static bool in_heap(const struct weir_heap *heap, const uint32_t *place)
{
    return *place >= 1 && *place <= heap->count && heap->entries[*place - 1].place == place;
}

static void validate_ticket(const struct weir_schedule_job *job, const struct weir_queue *queue)
{
    const struct weir_ticket *ticket = weir_job_ticket_const(job);
    bool waits = ticket->state == WEIR_TICKET_WAITING;
    bool admitted = ticket->state == WEIR_TICKET_ADMITTED;
    assert(!weir_inside(ticket)->listed);
    assert(!(waits || admitted) || weir_inside(ticket)->key == queue->key);
    if (job->place == WEIR_SCHEDULE_WAITING) { /* S2 */
        assert(waits || admitted);
    } else {
        assert(!waits);
        assert(admitted == (job->place == WEIR_SCHEDULE_RUNNING));
    }
}

static void validate_moment(const struct weir_schedule_job *job, struct census *census)
{
    bool by_moment = in_heap(&census->schedule->moments, &job->place_moment);
    bool by_date = in_heap(&census->schedule->dates, &job->place_moment);
    if (job->place == WEIR_SCHEDULE_DELAYED) { /* S3 */
        assert(job->by_wall ? by_date : by_moment);
    } else if (job->place == WEIR_SCHEDULE_RUNNING) {
        assert(job->place_moment == 0 || by_moment);
    } else {
        assert(job->place_moment == 0);
    }
    census->in_moments += by_moment;
    census->in_dates += by_date;
}

static void validate_job(void *context, struct weir_schedule_job *job)
{
    struct census *census = context;
    const struct weir_queue *queue = census->queue;
    if (job->queue != queue->number) {
        return;
    }
    bool runs = job->place == WEIR_SCHEDULE_RUNNING;
    bool held = job->place == WEIR_SCHEDULE_HELD;
    bool parked = job->place == WEIR_SCHEDULE_PARKED;
    bool queued = job->place != WEIR_SCHEDULE_NOWHERE && !runs && !held;
    assert(job->place != WEIR_SCHEDULE_NOWHERE);
    assert(weir_schedule_find(census->schedule, weir_job_number(job)) == job);
    assert(!job->coming || (job->strand->coming && queued && !parked)); /* S4 */
    assert(!job->untold || runs || held);                               /* S6 */
    assert(!job->resting || held);
    assert(in_heap(&queue->ages[job->priority], &job->place_age) == (queue->aged && queued));
    validate_ticket(job, queue);
    validate_moment(job, census);
    census->counts[job->place]++;
    census->jobs_of[job->priority]++;
    census->queued_of[job->priority] += queued;
    census->busy += job->strand != NULL && (runs || job->coming);
    census->dated += job->dated;
    census->untold += job->untold;
    census->turned += !runs && weir_job_ticket_const(job)->state == WEIR_TICKET_ADMITTED;
}

static uint32_t count_parked(const struct weir_strand *strand)
{
    uint32_t parked = 0;
    for (struct weir_link *at = strand->parked.next; at != &strand->parked; at = at->next) {
        const struct weir_schedule_job *job = weir_container_of(at, struct weir_schedule_job, link);
        assert(job->place == WEIR_SCHEDULE_PARKED);
        assert(job->strand == strand);
        parked++;
    }
    return parked;
}

static void validate_strands(const struct weir_queue *queue, uint32_t busy_seen)
{
    uint32_t parked = 0;
    uint32_t busy = 0;
    for (struct weir_link *at = queue->all_strands.next; at != &queue->all_strands; at = at->next) {
        const struct weir_strand *strand = weir_container_of(at, struct weir_strand, link);
        uint32_t own = count_parked(strand);
        assert(strand->busy + own <= strand->jobs);
        assert(strand->jobs > 0);
        assert(own == 0 || strand->coming || strand->busy >= queue->per_key); /* S4 */
        parked += own;
        busy += strand->busy;
    }
    assert(busy == busy_seen); /* S4 */
    assert(parked == queue->counts[WEIR_SCHEDULE_PARKED]);
}

static void validate_guests(const struct weir_queue *queue)
{
    uint32_t guests = 0;
    uint32_t buckets = 0;
    uint32_t jobs = 0;
    for (struct weir_link *at = queue->all_guests.next; at != &queue->all_guests; at = at->next) {
        const struct weir_guest *guest = weir_container_of(at, struct weir_guest, link);
        assert(guest->jobs > 0 || guest->bucket != NULL);
        guests++;
        buckets += guest->bucket != NULL;
        jobs += guest->jobs;
    }
    assert(guests == queue->guests.count);
    assert(buckets == queue->buckets);
    assert(jobs == queue->jobs);
}

static void validate_queue(const struct weir_queue *queue, const struct census *seen)
{
    uint32_t jobs = 0;
    uint64_t reserved = 0;
    for (int i = 0; i <= WEIR_SCHEDULE_HELD; i++) {
        assert(queue->counts[i] == seen->counts[i]); /* S1 */
        jobs += seen->counts[i];
    }
    assert(queue->jobs == jobs);
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        assert(queue->jobs_of[i] == seen->jobs_of[i]);
        assert(queue->queued_of[i] == seen->queued_of[i]);
        assert(queue->ages[i].count == (queue->aged ? queue->queued_of[i] : 0)); /* S5 */
        assert(!queue->aged || queue->ages[i].capacity >= queue->jobs_of[i]);
        weir_heap_validate(&queue->ages[i]);
        reserved += queue->reserved_of[i];
    }
    assert(queue->reserved == reserved);
    validate_strands(queue, seen->busy);
    validate_guests(queue);
    weir_key_validate(queue->key);
    assert(weir_key_get_stats(queue->key).active ==
           queue->counts[WEIR_SCHEDULE_RUNNING] + seen->turned);
}

static uint32_t count_links(const struct weir_link *list)
{
    uint32_t count = 0;
    for (const struct weir_link *at = list->next; at != list; at = at->next) {
        count++;
    }
    return count;
}

static uint32_t count_news(const struct weir_schedule *schedule)
{
    uint32_t count = 0;
    const struct weir_schedule_job *last = NULL;
    for (const struct weir_schedule_job *at = schedule->news_first; at != NULL;
         at = at->start.next) {
        assert(at->untold); /* S6 */
        last = at;
        count++;
    }
    assert(schedule->news_last == last);
    return count;
}

void weir_schedule_validate(const struct weir_schedule *schedule)
{
    struct census sum = {0};
    uint32_t jobs = 0;
    for (uint32_t i = 0; i < schedule->queue_count; i++) {
        struct census census = {.schedule = schedule, .queue = schedule->queues[i]};
        weir_schedule_each(schedule, validate_job, &census);
        validate_queue(schedule->queues[i], &census);
        sum.dated += census.dated;
        sum.turned += census.turned;
        sum.untold += census.untold;
        sum.in_moments += census.in_moments;
        sum.in_dates += census.in_dates;
        jobs += schedule->queues[i]->jobs;
    }
    assert(jobs == schedule->jobs.count);
    assert(jobs == schedule->slab.count);
    assert(sum.dated == schedule->dated_count);
    assert(sum.turned == count_links(&schedule->turns));
    assert(sum.untold == count_news(schedule));
    assert(sum.in_moments == schedule->moments.count);
    assert(sum.in_dates == schedule->dates.count);
    assert(schedule->moments.capacity >= jobs); /* S3 */
    assert(schedule->dates.capacity >= schedule->dated_count);
    weir_heap_validate(&schedule->moments);
    weir_heap_validate(&schedule->dates);
}
