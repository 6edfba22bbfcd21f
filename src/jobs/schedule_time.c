/* schedule_time.c - jobs that wait for a moment: delays and leases by the monotonic clock, which
 * does not jump, dates by the wall's, which may. */
#include "jobs/schedule_state.h"

#include <assert.h>

/* The wall clock may be set at any time, so dates are checked this often. */
#define DATES_EVERY_NS WEIR_NS_PER_SECOND

/* Dates are limited to this, so that any two can be compared. */
#define DATE_MAX_MS (INT64_MAX / 4)

uint64_t weir_schedule_after(const struct weir_schedule *schedule, int64_t delay_ms)
{
    uint64_t delay = delay_ms <= 0 ? 0 : (uint64_t)delay_ms;
    uint64_t most_ms = WEIR_DURATION_MAX_NS / WEIR_NS_PER_MS;
    return schedule->now_ns + (delay < most_ms ? delay : most_ms) * WEIR_NS_PER_MS;
}

void weir_job_delay(struct weir_schedule *schedule, struct weir_schedule_job *job,
                    uint64_t moment_ns)
{
    weir_job_move(schedule, job, WEIR_SCHEDULE_DELAYED);
    job->by_wall = false;
    job->moment = moment_ns;
    weir_heap_push(&schedule->moments, moment_ns, weir_job_number(job), &job->place_moment);
}

void weir_job_date(struct weir_schedule *schedule, struct weir_schedule_job *job, int64_t date_ms)
{
    assert(job->dated); /* else there might be no room */
    weir_job_move(schedule, job, WEIR_SCHEDULE_DELAYED);
    job->by_wall = true;
    job->moment = (uint64_t)(date_ms < DATE_MAX_MS ? date_ms : DATE_MAX_MS);
    weir_heap_push(&schedule->dates, job->moment, weir_job_number(job), &job->place_moment);
}

void weir_job_leave_heap(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    assert(job->place == WEIR_SCHEDULE_DELAYED);
    weir_heap_remove(job->by_wall ? &schedule->dates : &schedule->moments, &job->place_moment);
}

void weir_job_lease(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    uint64_t lease_ns = weir_job_queue(schedule, job)->lease_ns;
    assert(job->place == WEIR_SCHEDULE_RUNNING);
    weir_job_end_lease(schedule, job);
    if (lease_ns != WEIR_NEVER) {
        weir_heap_push(&schedule->moments, schedule->now_ns + lease_ns, weir_job_number(job),
                       &job->place_moment);
    }
}

void weir_job_end_lease(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    if (job->place_moment != 0) {
        weir_heap_remove(&schedule->moments, &job->place_moment);
    }
}

/* ---- what has become due ---- */

static struct weir_schedule_job *first_of(const struct weir_heap *heap)
{
    return weir_container_of(weir_heap_top(heap)->place, struct weir_schedule_job, place_moment);
}

/* Ends a lease that has run out. The start was reported before, so the caller knows of the run. */
static void lapse(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    if (job->untold) {
        weir_job_lease(schedule, job);
        return;
    }
    weir_job_end(schedule, job);
    weir_job_announce(schedule, job);
}

static void become_due(struct weir_schedule *schedule, struct weir_schedule_job *job)
{
    if (job->place == WEIR_SCHEDULE_RUNNING) {
        lapse(schedule, job);
    } else {
        weir_job_leave_heap(schedule, job);
        weir_job_join_surely(schedule, job);
    }
}

static bool date_has_come(const struct weir_schedule *schedule)
{
    return schedule->dates.count > 0 &&
           (int64_t)weir_heap_top(&schedule->dates)->order <= schedule->wall_ms;
}

static void wake_queues(struct weir_schedule *schedule)
{
    for (uint32_t i = schedule->queue_count; i-- > 0 && !weir_list_empty(&schedule->behind);) {
        struct weir_queue *queue =
            weir_container_of(schedule->behind.next, struct weir_queue, behind);
        struct weir_news news = {0};
        weir_list_unlink(&queue->behind);
        weir_key_wake(queue->key, schedule->now_ns, &news);
        weir_schedule_collect(schedule, queue, &news);
    }
}

static void apply_stale(struct weir_schedule *schedule)
{
    schedule->again_ns = WEIR_NEVER;
    for (uint32_t i = 0; i < schedule->queue_count; i++) {
        if (schedule->queues[i]->stale) {
            weir_queue_apply(schedule, schedule->queues[i]);
        }
    }
}

void weir_schedule_wake(struct weir_schedule *schedule, struct weir_instant now)
{
    weir_schedule_take_time(schedule, now);
    for (int i = 0; i < WEIR_SCHEDULE_BATCH_MAX; i++) {
        if (weir_heap_next(&schedule->moments) <= schedule->now_ns) {
            become_due(schedule, first_of(&schedule->moments));
        } else if (date_has_come(schedule)) {
            become_due(schedule, first_of(&schedule->dates));
        } else {
            break;
        }
    }
    wake_queues(schedule);
    if (schedule->again_ns <= schedule->now_ns) {
        apply_stale(schedule);
    }
    weir_schedule_decide(schedule);
}

/* When the dates must be checked next. */
static uint64_t dates_due(const struct weir_schedule *schedule)
{
    if (schedule->dates.count == 0) {
        return WEIR_NEVER;
    }
    int64_t left_ms = (int64_t)weir_heap_top(&schedule->dates)->order - schedule->wall_ms;
    uint64_t due_ns = weir_schedule_after(schedule, left_ms);
    uint64_t latest_ns = schedule->now_ns + DATES_EVERY_NS;
    return due_ns < latest_ns ? due_ns : latest_ns;
}

uint64_t weir_schedule_due(const struct weir_schedule *schedule)
{
    if (!weir_list_empty(&schedule->turns) || !weir_list_empty(&schedule->behind)) {
        return schedule->now_ns;
    }
    uint64_t due_ns = weir_heap_next(&schedule->moments);
    uint64_t dates_ns = dates_due(schedule);
    due_ns = due_ns < dates_ns ? due_ns : dates_ns;
    return due_ns < schedule->again_ns ? due_ns : schedule->again_ns;
}
