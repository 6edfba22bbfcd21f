#define _GNU_SOURCE
#include "runner/desk_parts.h"

#include "base/alloc.h"
#include "base/slice.h"
#include "gateway/journal.h"

#include <assert.h>

static_assert(WEIR_JOB_ERROR_BYTES_MAX <= WEIR_NOTE_ERROR_BYTES_MAX, "a note holds its error");

const uint64_t weir_desk_bounds_ms[WEIR_DESK_BOUNDS] = {10,    100,   500,    1000,    5000,
                                                        10000, 60000, 300000, 1800000, 3600000};

/* ---- queues ---- */

const struct weir_config_queue *weir_desk_queue(struct weir_desk *desk, struct weir_slice name,
                                                uint32_t *number)
{
    const struct weir_config_queue *found = NULL;
    pthread_mutex_lock(&desk->lock);
    const struct weir_config *config = desk->plan->config;
    for (uint32_t i = 0; i < config->queue_count && found == NULL; i++) {
        if (name.bytes == 0 || weir_slice_equal(config->queues[i].name, name)) {
            found = &config->queues[i];
            *number = desk->numbers[i];
        }
    }
    pthread_mutex_unlock(&desk->lock);
    return found;
}

bool weir_desk_stats(struct weir_desk *desk, uint32_t queue, struct weir_slice *name,
                     struct weir_schedule_stats *stats, uint64_t *dead)
{
    pthread_mutex_lock(&desk->lock);
    bool found = queue < WEIR_SCHEDULE_QUEUES_MAX &&
                 weir_schedule_get_stats(desk->schedule, queue, name, stats);
    if (found) {
        *dead = desk->places[queue].tally.dead;
    }
    pthread_mutex_unlock(&desk->lock);
    return found;
}

bool weir_desk_tally(struct weir_desk *desk, uint32_t queue, struct weir_desk_tally *tally)
{
    struct weir_slice name;
    struct weir_schedule_stats stats;
    pthread_mutex_lock(&desk->lock);
    bool found = queue < WEIR_SCHEDULE_QUEUES_MAX &&
                 weir_schedule_get_stats(desk->schedule, queue, &name, &stats);
    if (found) {
        *tally = desk->places[queue].tally;
    }
    pthread_mutex_unlock(&desk->lock);
    return found;
}

void weir_desk_count(struct weir_desk *desk, struct weir_desk_counts *counts)
{
    *counts = (struct weir_desk_counts){0};
    desk->port->count(desk->store, &counts->store);
    pthread_mutex_lock(&desk->lock);
    counts->all = desk->tally;
    counts->stale = desk->stale;
    counts->wrong = desk->draining           ? "this server ends"
                    : !counts->store.working ? counts->store.wrong
                    : counts->store.full     ? "as many ids are remembered as may be"
                                             : NULL;
    pthread_mutex_unlock(&desk->lock);
}

const char *weir_desk_objection(struct weir_desk *desk, uint32_t queue)
{
    assert(queue < WEIR_SCHEDULE_QUEUES_MAX);
    pthread_mutex_lock(&desk->lock);
    const struct weir_config_queue *config = weir_desk_config(desk, queue);
    bool blocked = config != NULL && desk->places[queue].tally.dead >= config->dead_max;
    pthread_mutex_unlock(&desk->lock);
    return config == NULL ? "it is not in the config any more"
           : blocked      ? "as many dead letters are kept as may be"
                          : NULL;
}

/* ---- one job ---- */

void weir_desk_live(struct weir_desk *desk, uint64_t number, struct weir_desk_live *live)
{
    *live = (struct weir_desk_live){.progress = -1};
    struct weir_instant now = weir_desk_lock(desk);
    live->look = weir_schedule_look(desk->schedule, number, now);
    live->look.epoch.boot = desk->boot;
    const struct weir_run *run = weir_desk_find_run(desk, number);
    if (run != NULL && run->state == WEIR_RUN_RUNNING) {
        static_assert(sizeof live->progress_text >= sizeof run->progress_text, "it fits");
        live->progress = run->progress;
        live->progress_bytes = run->progress_bytes;
        memcpy(live->progress_text, run->progress_text, run->progress_bytes);
    }
    pthread_mutex_unlock(&desk->lock);
}

/* ---- watches ---- */

bool weir_desk_watch(struct weir_desk *desk, struct weir_desk_watch *watch)
{
    struct weir_instant now = weir_desk_lock(desk);
    watch->sleeping =
        !desk->draining &&
        weir_schedule_look(desk->schedule, watch->number, now).place != WEIR_SCHEDULE_NOWHERE &&
        weir_map_reserve(&desk->watches, &weir_allocator_libc);
    if (watch->sleeping) {
        weir_map_insert(&desk->watches, &watch->node, weir_desk_hash(watch->number));
        weir_list_push_back(&desk->all_watches, &watch->link);
    }
    bool sleeping = watch->sleeping;
    pthread_mutex_unlock(&desk->lock);
    return sleeping;
}

static void wake(struct weir_desk *desk, struct weir_desk_watch *watch)
{
    weir_map_remove(&desk->watches, &watch->node);
    weir_list_unlink(&watch->link);
    watch->sleeping = false;
}

bool weir_desk_unwatch(struct weir_desk *desk, struct weir_desk_watch *watch)
{
    pthread_mutex_lock(&desk->lock);
    bool slept = watch->sleeping;
    if (slept) {
        wake(desk, watch);
    }
    pthread_mutex_unlock(&desk->lock);
    return slept;
}

struct weir_map_node *weir_desk_take_watches(struct weir_desk *desk, uint64_t number)
{
    struct weir_map_node *taken = NULL;
    struct weir_map_node *node = weir_map_first(&desk->watches, weir_desk_hash(number));
    while (node != NULL) {
        struct weir_desk_watch *watch = weir_container_of(node, struct weir_desk_watch, node);
        node = weir_map_next(node);
        if (watch->number == number) {
            wake(desk, watch);
            watch->node.next = taken;
            taken = &watch->node;
        }
    }
    return taken;
}

struct weir_map_node *weir_desk_take_all_watches(struct weir_desk *desk)
{
    struct weir_map_node *taken = NULL;
    while (!weir_list_empty(&desk->all_watches)) {
        struct weir_desk_watch *watch =
            weir_container_of(desk->all_watches.next, struct weir_desk_watch, link);
        wake(desk, watch);
        watch->drains = true;
        watch->node.next = taken;
        taken = &watch->node;
    }
    return taken;
}

void weir_desk_tell_watches(struct weir_map_node *watches)
{
    while (watches != NULL) {
        struct weir_desk_watch *watch = weir_container_of(watches, struct weir_desk_watch, node);
        watches = watches->next;
        weir_loop_post(watch->loop, &watch->told);
    }
}

/* ---- events ---- */

void weir_desk_tell_end(const struct weir_run *run)
{
    static const enum weir_job_news news[] = {[WEIR_JOB_QUEUED] = WEIR_JOB_NEWS_RETRY,
                                              [WEIR_JOB_DONE] = WEIR_JOB_NEWS_DONE,
                                              [WEIR_JOB_FAILED] = WEIR_JOB_NEWS_FAILED,
                                              [WEIR_JOB_CANCELLED] = WEIR_JOB_NEWS_CANCELLED};
    struct weir_journal *journal = run->desk->journal;
    if (journal == NULL || !weir_journal_read_by_any(journal)) {
        return;
    }
    struct weir_event event = {.at_ns = weir_clock_ns(), .value = run->ran_ms * 1000000};
    struct weir_notice notice = {.event = &event,
                                 .gate = WEIR_NOTE_NO_GATE,
                                 .key = run->row.order.queue,
                                 .flow = run->row.order.id,
                                 .tenant = run->row.order.tenant,
                                 .timeout_ns = WEIR_NEVER,
                                 .job = news[run->settle.after],
                                 .attempt = run->row.attempts,
                                 .error = run->settle.error};
    if (weir_journal_write(journal, &notice)) {
        weir_journal_wake(journal);
    }
}
