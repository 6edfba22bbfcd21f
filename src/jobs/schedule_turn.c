/* schedule_turn.c - the core's line: joining it, whose turn it is, parking, starting.
 *
 * The core says whose turn it is by admitting a ticket. This file then starts the job or, if its
 * key is at its limit, parks it: the job gives its permit back at no cost, so that its tenant is
 * not charged, and waits in its strand. When a job of the strand ends, the first parked one comes
 * back to the head of its tenant's line with its place kept for it; so no job is parked twice in
 * one wait. One comes at a time: each goes to the head of the line, and a second one would overtake
 * the first. */
#include "jobs/schedule_state.h"

#include <assert.h>

void weir_mean_add(struct weir_mean *mean, uint64_t value)
{
    mean->count++;
    int64_t weight = mean->count < 8 ? (int64_t)mean->count : 8;
    int64_t difference = (int64_t)(value - mean->value);
    mean->value += (uint64_t)(difference / weight);
}

/* ---- the line ---- */

void weir_schedule_collect(struct weir_schedule *schedule, struct weir_queue *queue,
                           struct weir_news *news)
{
    struct weir_ticket *ticket;
    while ((ticket = weir_news_next(news)) != NULL) {
        assert(ticket->state == WEIR_TICKET_ADMITTED); /* nothing times out or is displaced */
        struct weir_schedule_job *job = weir_container_of(ticket, struct weir_schedule_job, ticket);
        weir_list_push_back(&schedule->turns, &job->link);
    }
    if (news->wake_ns <= schedule->now_ns && queue->behind.next == NULL) {
        weir_list_push_back(&schedule->behind, &queue->behind);
    }
}

/* Run time as a cost. The least is 1: a tenant whose jobs cost nothing would always be next. */
static uint32_t cost_of(uint64_t ran_ms)
{
    uint64_t cost = ran_ms < WEIR_COST_MAX ? ran_ms : WEIR_COST_MAX;
    return cost == 0 ? 1 : (uint32_t)cost;
}

/* The expected cost of a job: as submitted, else the mean of its tenant's jobs, else that of the
 * whole queue. A good estimate matters: a tenant gets an excess back only while it waits, and not
 * below what others have been charged meanwhile. */
static uint32_t expected_cost(const struct weir_queue *queue, const struct weir_schedule_job *job)
{
    if (job->cost_ms != 0) {
        return cost_of(job->cost_ms);
    }
    const struct weir_mean *own = &job->guest->run_ms;
    return cost_of(own->count > 0 ? own->value : queue->run_ms.value);
}

bool weir_job_join(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    struct weir_queue *queue = weir_job_queue(schedule, job);
    struct weir_news news = {0};
    struct weir_request request = {
        .tenant = weir_guest_name(job->guest),
        .priority = (enum weir_priority)job->priority,
        .cost = expected_cost(queue, job),
        .tag = weir_job_number(job),
        .retry = job->retry,
    };
    enum weir_admission verdict =
        weir_key_enter(queue->key, weir_job_ticket(job), &request, schedule->now_ns, &news);
    if (verdict == WEIR_REFUSED) {
        assert(weir_job_ticket(job)->refusal == WEIR_NO_MEMORY);
    } else {
        weir_job_move(schedule, job, WEIR_SCHEDULE_WAITING);
    }
    if (verdict == WEIR_ADMITTED) {
        weir_list_push_back(&schedule->turns, &job->link);
    }
    weir_schedule_collect(schedule, queue, &news);
    return verdict != WEIR_REFUSED;
}

void weir_job_join_surely(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    if (!weir_job_join(schedule, job)) {
        weir_job_delay(schedule, job, schedule->now_ns + WEIR_SCHEDULE_AGAIN_NS);
    }
}

static void leave(struct weir_schedule *schedule, struct weir_schedule_job *job, uint32_t cost)
{
    struct weir_queue *queue = weir_job_queue(schedule, job);
    struct weir_news news = {0};
    struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS, .cost_known = true, .cost = cost};
    enum weir_status status =
        weir_key_leave(queue->key, weir_job_ticket(job), &result, schedule->now_ns, &news);
    assert(status == WEIR_OK);
    weir_schedule_collect(schedule, queue, &news);
}

static void leave_waiting(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    if (weir_job_ticket(job)->state == WEIR_TICKET_ADMITTED) { /* its turn has come */
        weir_list_unlink(&job->link);
        leave(schedule, job, 0);
        return;
    }
    struct weir_queue *queue = weir_job_queue(schedule, job);
    struct weir_news news = {0};
    enum weir_status status =
        weir_key_cancel(queue->key, weir_job_ticket(job), schedule->now_ns, &news);
    assert(status == WEIR_OK);
    weir_schedule_collect(schedule, queue, &news);
}

void weir_job_leave_line(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    if (job->place == WEIR_SCHEDULE_PARKED) {
        weir_list_unlink(&job->link);
    } else {
        assert(job->place == WEIR_SCHEDULE_WAITING);
        leave_waiting(schedule, job);
    }
}

/* ---- strands ---- */

void weir_strand_release(struct weir_schedule *schedule, struct weir_queue *queue,
                         struct weir_strand *strand)
{
    if (strand->coming || strand->busy >= queue->per_key || weir_list_empty(&strand->parked)) {
        return;
    }
    struct weir_schedule_job *job =
        weir_container_of(strand->parked.next, struct weir_schedule_job, link);
    weir_list_unlink(&job->link);
    strand->coming = true;
    strand->busy++;
    job->coming = true;
    job->retry = true;
    weir_job_join_surely(schedule, job);
}

void weir_strand_give_up(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    if (!job->coming) {
        return;
    }
    job->coming = false;
    job->strand->coming = false;
    job->strand->busy--;
    weir_strand_release(schedule, weir_job_queue(schedule, job), job->strand);
}

/* Whether the job may run: there is a free place, or one is kept for it, unless the bound has been
 * lowered since. A job behind parked ones must wait. */
static bool strand_admits(const struct weir_queue *queue, const struct weir_schedule_job *job)
{
    const struct weir_strand *strand = job->strand;
    if (strand == NULL || job->coming) {
        return strand == NULL || strand->busy <= queue->per_key;
    }
    return strand->busy < queue->per_key && weir_list_empty(&strand->parked);
}

static void take_strand(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    struct weir_strand *strand = job->strand;
    if (strand == NULL) {
        return;
    }
    if (!job->coming) {
        strand->busy++;
        return;
    }
    job->coming = false;
    strand->coming = false;
    weir_strand_release(schedule, weir_job_queue(schedule, job), strand);
}

/* ---- turns ---- */

void weir_job_announce(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    assert(!job->untold);
    job->untold = true;
    job->start.next = NULL;
    if (schedule->news_last == NULL) {
        schedule->news_first = job;
    } else {
        schedule->news_last->start.next = job;
    }
    schedule->news_last = job;
}

static void start(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    struct weir_queue *queue = weir_job_queue(schedule, job);
    if (queue->last_start_ns != 0) {
        weir_mean_add(&queue->interval_ns, schedule->now_ns - queue->last_start_ns);
    }
    weir_job_move(schedule, job, WEIR_SCHEDULE_RUNNING);
    bool others_wait = queue->counts[WEIR_SCHEDULE_WAITING] > 0;
    queue->last_start_ns = others_wait ? schedule->now_ns : 0;
    queue->started++;
    job->retry = false;
    job->start.counter = ++schedule->counter;
    weir_job_announce(schedule, job);
    weir_job_lease(schedule, job);
    take_strand(schedule, job);
}

static void park(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    leave(schedule, job, 0);
    weir_job_move(schedule, job, WEIR_SCHEDULE_PARKED);
    if (job->coming) {
        weir_list_push_front(&job->strand->parked, &job->link);
        weir_strand_give_up(schedule, job);
    } else {
        weir_list_push_back(&job->strand->parked, &job->link);
    }
}

void weir_schedule_decide(struct weir_schedule *schedule)
{
    for (int i = 0; i < WEIR_SCHEDULE_BATCH_MAX && !weir_list_empty(&schedule->turns); i++) {
        struct weir_schedule_job *job =
            weir_container_of(schedule->turns.next, struct weir_schedule_job, link);
        weir_list_unlink(&job->link);
        if (strand_admits(weir_job_queue(schedule, job), job)) {
            start(schedule, job);
        } else {
            park(schedule, job);
        }
    }
}

uint64_t weir_job_ran_ms(const struct weir_schedule *schedule, const struct weir_schedule_job *job)
{
    return (schedule->now_ns - weir_job_ticket_const(job)->admitted_ns) / WEIR_NS_PER_MS;
}

void weir_job_end(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    struct weir_strand *strand = job->strand;
    weir_job_end_lease(schedule, job);
    weir_job_move(schedule, job, WEIR_SCHEDULE_HELD);
    if (strand != NULL) { /* before its worker is free: a parked job may be next for it */
        strand->busy--;
        weir_strand_release(schedule, weir_job_queue(schedule, job), strand);
    }
    leave(schedule, job, cost_of(weir_job_ran_ms(schedule, job)));
}
