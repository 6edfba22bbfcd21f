/* schedule_look.c - reads the state of the schedule and its jobs, for the API and metrics. It
 * changes nothing. */
#include "jobs/schedule_state.h"

#include <assert.h>

/* How many other jobs of its tenant are examined to find a job's place in line. */
#define LOOKS_MAX 1000

/* From so many starts on, their mean interval is meaningful. */
#define STARTS_MIN 8

static uint64_t interval_of(const struct weir_queue *queue)
{
    return queue->interval_ns.count < STARTS_MIN ? 0 : queue->interval_ns.value;
}

static void look_at_waiting(const struct weir_queue *queue, const struct weir_schedule_job *job,
                            uint64_t now_ns, struct weir_schedule_look *look)
{
    struct weir_explanation why =
        weir_key_explain_within(queue->key, weir_job_ticket_const(job), LOOKS_MAX, now_ns);
    look->ahead = why.ahead;
    uint64_t interval_ns = interval_of(queue);
    bool stuck = queue->workers == 0 || why.binding == WEIR_BINDING_TENANT_LIMIT;
    if (interval_ns != 0 && !stuck) {
        uint64_t starts = look->ahead + 1;
        uint64_t most_ns = WEIR_DURATION_MAX_NS / starts;
        look->start_ns = now_ns + starts * (interval_ns < most_ns ? interval_ns : most_ns);
    }
}

struct weir_schedule_look weir_schedule_look(const struct weir_schedule *schedule, uint64_t number,
                                             struct weir_instant now)
{
    struct weir_schedule_look look = {.place = WEIR_SCHEDULE_NOWHERE};
    const struct weir_schedule_job *job = weir_schedule_find(schedule, number);
    if (job == NULL) {
        return look;
    }
    uint64_t now_ns = now.now_ns > schedule->now_ns ? now.now_ns : schedule->now_ns;
    look.place = (enum weir_schedule_place)job->place;
    if (look.place == WEIR_SCHEDULE_WAITING) {
        look_at_waiting(weir_job_queue(schedule, job), job, now_ns, &look);
    } else if (look.place == WEIR_SCHEDULE_RUNNING) {
        look.epoch = (struct weir_epoch){schedule->boot, job->start.counter};
    } else if (look.place == WEIR_SCHEDULE_DELAYED && job->by_wall) {
        look.start_ns = weir_schedule_after(schedule, (int64_t)job->moment - now.wall_ms);
    } else if (look.place == WEIR_SCHEDULE_DELAYED) {
        look.start_ns = job->moment;
    }
    return look;
}

bool weir_schedule_get_stats(const struct weir_schedule *schedule, uint32_t number,
                             struct weir_slice *name, struct weir_schedule_stats *stats)
{
    if (number >= schedule->queue_count) {
        return false;
    }
    const struct weir_queue *queue = schedule->queues[number];
    *name = (struct weir_slice){queue->name, queue->name_bytes};
    *stats = (struct weir_schedule_stats){
        .workers = queue->workers,
        .running = queue->counts[WEIR_SCHEDULE_RUNNING],
        .queued = weir_queue_queued(queue),
        .waiting = queue->counts[WEIR_SCHEDULE_WAITING],
        .delayed = queue->counts[WEIR_SCHEDULE_DELAYED],
        .parked = queue->counts[WEIR_SCHEDULE_PARKED],
        .held = queue->counts[WEIR_SCHEDULE_HELD],
        .reserved = queue->reserved,
        .jobs_max = queue->jobs_max,
        .started = queue->started,
        .interval_ns = interval_of(queue),
    };
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        stats->by_priority[i] = queue->queued_of[i];
    }
    return true;
}
