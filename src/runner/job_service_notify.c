/* job_service_notify.c - tells other parts of the program about jobs: counters for metrics, the
 * state of a live job, watches for a job's end, and job.* events.
 *
 * Its functions may be called in any thread; they take the job service's lock where they need it,
 * except those that job_service_parts.h marks as called under it. */
#define _GNU_SOURCE
#include "runner/job_service_parts.h"

#include "base/alloc.h"
#include "base/slice.h"
#include "gates/event_line.h"
#include "gates/event_log.h"

#include <assert.h>

static_assert(WEIR_JOB_ERROR_BYTES_MAX <= WEIR_NOTE_ERROR_BYTES_MAX, "a note holds its error");

/* ---- queues ---- */

const struct weir_config_queue *weir_job_service_queue(struct weir_job_service *service,
                                                       struct weir_slice name, uint32_t *number)
{
    const struct weir_config_queue *found = NULL;
    pthread_mutex_lock(&service->lock);
    const struct weir_config *config = service->snapshot->config;
    for (uint32_t i = 0; i < config->queue_count && found == NULL; i++) {
        if (name.bytes == 0 || weir_slice_equal(config->queues[i].name, name)) {
            found = &config->queues[i];
            *number = service->numbers[i];
        }
    }
    pthread_mutex_unlock(&service->lock);
    return found;
}

bool weir_job_service_stats(struct weir_job_service *service, uint32_t queue,
                            struct weir_slice *name, struct weir_schedule_stats *stats,
                            uint64_t *dead)
{
    pthread_mutex_lock(&service->lock);
    bool found = queue < WEIR_SCHEDULE_QUEUES_MAX &&
                 weir_schedule_get_stats(service->schedule, queue, name, stats);
    if (found) {
        *dead = service->places[queue].tally.dead;
    }
    pthread_mutex_unlock(&service->lock);
    return found;
}

bool weir_job_service_tally(struct weir_job_service *service, uint32_t queue,
                            struct weir_job_service_tally *tally)
{
    struct weir_slice name;
    struct weir_schedule_stats stats;
    pthread_mutex_lock(&service->lock);
    bool found = queue < WEIR_SCHEDULE_QUEUES_MAX &&
                 weir_schedule_get_stats(service->schedule, queue, &name, &stats);
    if (found) {
        *tally = service->places[queue].tally;
    }
    pthread_mutex_unlock(&service->lock);
    return found;
}

void weir_job_service_count(struct weir_job_service *service,
                            struct weir_job_service_counts *counts)
{
    *counts = (struct weir_job_service_counts){0};
    service->port->count(service->store, &counts->store);
    pthread_mutex_lock(&service->lock);
    counts->all = service->tally;
    counts->stale = service->stale;
    counts->error = service->draining        ? "the server is shutting down"
                    : !counts->store.working ? counts->store.error
                    : counts->store.full     ? "the limit of remembered ids is reached"
                                             : NULL;
    pthread_mutex_unlock(&service->lock);
}

const char *weir_job_service_objection(struct weir_job_service *service, uint32_t queue)
{
    assert(queue < WEIR_SCHEDULE_QUEUES_MAX);
    pthread_mutex_lock(&service->lock);
    const struct weir_config_queue *config = weir_job_service_config(service, queue);
    bool blocked = config != NULL && service->places[queue].tally.dead >= config->dead_max;
    pthread_mutex_unlock(&service->lock);
    return config == NULL ? "the queue is no longer in the config"
           : blocked      ? "the limit of dead letters is reached"
                          : NULL;
}

/* ---- one job ---- */

void weir_job_service_live(struct weir_job_service *service, uint64_t number,
                           struct weir_job_service_live *live)
{
    *live = (struct weir_job_service_live){.progress = -1};
    struct weir_instant now = weir_job_service_lock(service);
    live->look = weir_schedule_look(service->schedule, number, now);
    live->look.epoch.boot = service->boot;
    const struct weir_run *run = weir_job_service_find_run(service, number);
    if (run != NULL && run->state == WEIR_RUN_RUNNING) {
        static_assert(sizeof live->progress_text >= sizeof run->progress_text, "it fits");
        live->progress = run->progress;
        live->progress_bytes = run->progress_bytes;
        memcpy(live->progress_text, run->progress_text, run->progress_bytes);
    }
    pthread_mutex_unlock(&service->lock);
}

/* ---- watches ---- */

bool weir_job_service_watch(struct weir_job_service *service, struct weir_job_service_watch *watch)
{
    struct weir_instant now = weir_job_service_lock(service);
    watch->sleeping =
        !service->draining &&
        weir_schedule_look(service->schedule, watch->number, now).place != WEIR_SCHEDULE_NOWHERE &&
        weir_map_reserve(&service->watches, &weir_allocator_libc);
    if (watch->sleeping) {
        weir_map_insert(&service->watches, &watch->node, weir_job_service_hash(watch->number));
        weir_list_push_back(&service->all_watches, &watch->link);
    }
    bool sleeping = watch->sleeping;
    pthread_mutex_unlock(&service->lock);
    return sleeping;
}

static void wake(struct weir_job_service *service, struct weir_job_service_watch *watch)
{
    weir_map_remove(&service->watches, &watch->node);
    weir_list_unlink(&watch->link);
    watch->sleeping = false;
}

bool weir_job_service_unwatch(struct weir_job_service *service,
                              struct weir_job_service_watch *watch)
{
    pthread_mutex_lock(&service->lock);
    bool slept = watch->sleeping;
    if (slept) {
        wake(service, watch);
    }
    pthread_mutex_unlock(&service->lock);
    return slept;
}

struct weir_map_node *weir_job_service_take_watches(struct weir_job_service *service,
                                                    uint64_t number)
{
    struct weir_map_node *taken = NULL;
    struct weir_map_node *node = weir_map_first(&service->watches, weir_job_service_hash(number));
    while (node != NULL) {
        struct weir_job_service_watch *watch =
            weir_container_of(node, struct weir_job_service_watch, node);
        node = weir_map_next(node);
        if (watch->number == number) {
            wake(service, watch);
            watch->node.next = taken;
            taken = &watch->node;
        }
    }
    return taken;
}

struct weir_map_node *weir_job_service_take_all_watches(struct weir_job_service *service)
{
    struct weir_map_node *taken = NULL;
    while (!weir_list_empty(&service->all_watches)) {
        struct weir_job_service_watch *watch =
            weir_container_of(service->all_watches.next, struct weir_job_service_watch, link);
        wake(service, watch);
        watch->drains = true;
        watch->node.next = taken;
        taken = &watch->node;
    }
    return taken;
}

void weir_job_service_notify_watches(struct weir_map_node *watches)
{
    while (watches != NULL) {
        struct weir_job_service_watch *watch =
            weir_container_of(watches, struct weir_job_service_watch, node);
        watches = watches->next;
        weir_loop_post(watch->loop, &watch->on_done);
    }
}

/* ---- events ---- */

/* A job's note has its queue as the key, its id as the flow, and its run time as the event's value.
 */
static void put_job(struct weir_json *json, const struct weir_note *note)
{
    struct weir_note_names names = weir_note_names_of(note);
    weir_json_put_string(json, "id", names.flow);
    weir_json_put_string(json, "queue", names.key);
    weir_json_put_string(json, "tenant", names.tenant);
    weir_json_put_number(json, "attempt", note->attempt);
    weir_json_put_number(json, "ran_ms", note->event.value / WEIR_NS_PER_MS);
    if (names.error.bytes > 0) {
        weir_json_put_string(json, "error", names.error);
    }
}

void weir_job_service_notify_end(const struct weir_run *run)
{
    /* By the state that the job has reached; QUEUED means another attempt. */
    static const struct weir_note_kind kinds[] = {
        [WEIR_JOB_QUEUED] = {WEIR_EVENT_TYPE_JOB_RETRY, put_job},
        [WEIR_JOB_DONE] = {WEIR_EVENT_TYPE_JOB_DONE, put_job},
        [WEIR_JOB_FAILED] = {WEIR_EVENT_TYPE_JOB_FAILED, put_job},
        [WEIR_JOB_CANCELLED] = {WEIR_EVENT_TYPE_JOB_CANCELLED, put_job}};
    struct weir_event_log *event_log = run->service->event_log;
    if (event_log == NULL || !weir_event_log_read_by_any(event_log)) {
        return;
    }
    struct weir_event event = {.at_ns = weir_clock_ns(), .value = run->ran_ms * WEIR_NS_PER_MS};
    struct weir_notice notice = {.event = &event,
                                 .gate = WEIR_NOTE_NO_GATE,
                                 .key = run->row.order.queue,
                                 .flow = run->row.order.id,
                                 .tenant = run->row.order.tenant,
                                 .timeout_ns = WEIR_NEVER,
                                 .kind = &kinds[run->settle.after],
                                 .attempt = run->row.attempts,
                                 .error = run->settle.error};
    if (weir_event_log_write(event_log, &notice)) {
        weir_event_log_wake(event_log);
    }
}
