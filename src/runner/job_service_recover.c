/* job_service_recover.c - takes the jobs that the store finds at the start: queues them again, and
 * settles those that were running. The main thread calls it, before any other thread uses the job
 * service. */
#define _GNU_SOURCE
#include "runner/job_service_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- rows ---- */

/* Copies the row with all of its texts into one piece of memory, which the run owns. */
static bool copy_row(struct weir_run *run, const struct weir_job_row *row)
{
    run->row = *row;
    struct weir_job_order *order = &run->row.order;
    struct weir_slice *texts[] = {&order->id,  &order->queue, &order->tenant,
                                  &order->key, &order->type,  &run->row.error};
    size_t bytes = 1;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bytes += texts[i]->bytes;
    }
    char *to = malloc(bytes);
    run->memory = to;
    for (size_t i = 0; to != NULL && i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i]->bytes > 0) {
            memcpy(to, texts[i]->data, texts[i]->bytes);
        }
        texts[i]->data = to;
        to += texts[i]->bytes;
    }
    order->body.bytes = run->row.result.bytes = run->row.result_type = run->row.log =
        (struct weir_slice){0};
    return to != NULL;
}

/* A job that was running is held: its end is found out once everything is open. */
static bool find_running(struct weir_job_service *service, const struct weir_job_row *row,
                         uint32_t queue, struct weir_instant now)
{
    struct weir_run *run = weir_run_create(service, row->number, queue);
    if (run == NULL || weir_schedule_hold(service->schedule, row->number, now) != WEIR_OK) {
        return false;
    }
    run->recorded = row->epoch;
    run->unrecorded = row->state == WEIR_JOB_QUEUED;
    run->folder = true;
    weir_run_move(run, WEIR_RUN_TAKING);
    weir_run_move(run, WEIR_RUN_GOING);
    weir_run_move(run, WEIR_RUN_RUNNING);
    bool copied = copy_row(run, row);
    run->row.attempts += run->unrecorded ? 1 : 0;
    return copied;
}

/* ---- what was left ---- */

static bool note_remains(void *context, uint64_t number)
{
    struct weir_job_service_remains *remains = context;
    if (remains->count == remains->size) {
        size_t size = remains->size == 0 ? 64 : 2 * remains->size;
        uint64_t *numbers = realloc(remains->numbers, size * sizeof numbers[0]);
        if (numbers == NULL) {
            return true; /* the job may start once more than it should */
        }
        remains->numbers = numbers;
        remains->size = size;
    }
    remains->numbers[remains->count++] = number;
    return true;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void weir_job_service_find_remains(struct weir_job_service *service, const char *folder)
{
    struct weir_job_service_remains *remains = &service->remains;
    if (access(folder, F_OK) == 0) {
        snprintf(service->folder, sizeof service->folder, "%s", folder);
        weir_command_sweep_all(folder, note_remains, remains);
    }
    if (remains->count > 0) {
        qsort(remains->numbers, remains->count, sizeof remains->numbers[0], compare_numbers);
    }
}

void weir_job_service_forget_remains(struct weir_job_service *service)
{
    free(service->remains.numbers);
    service->remains = (struct weir_job_service_remains){0};
}

/* A start is on record with the next commit, for which the command does not wait. If Weir ended
 * before that commit, the folder shows the start: else a job that crashes Weir at once would do so
 * for ever. */
static bool was_begun(const struct weir_job_service *service, const struct weir_job_row *row)
{
    const struct weir_job_service_remains *remains = &service->remains;
    char path[PATH_MAX + 64];
    if (remains->count == 0 || bsearch(&row->number, remains->numbers, remains->count,
                                       sizeof remains->numbers[0], compare_numbers) == NULL) {
        return false;
    }
    snprintf(path, sizeof path, "%s/work/%" PRIu64 "-%" PRIu32, service->folder, row->number,
             row->attempts + 1);
    return access(path, F_OK) == 0;
}

/* When its wait began: a backoff begins when an attempt has ended, which is not before it had
 * begun. It bounds the wait if the clock was set back since. */
static int64_t waits_since_ms(const struct weir_job_row *row)
{
    return row->started_ms > row->order.created_ms ? row->started_ms : row->order.created_ms;
}

/* No queue has workers yet, so all jobs are in line before the first turn comes. */
static bool find_alive(struct weir_job_service *service, const struct weir_job_row *row,
                       uint32_t queue, struct weir_instant now)
{
    struct weir_schedule_entry entry = {.number = row->number,
                                        .queue = queue,
                                        .tenant = row->order.tenant,
                                        .key = row->order.key,
                                        .priority = row->order.priority,
                                        .cost_ms = row->order.cost_ms,
                                        .created_ms = waits_since_ms(row),
                                        .next_ms = row->next_ms,
                                        .dated = row->order.dated};
    service->dated = service->dated || row->order.dated;
    bool unrecorded = row->state == WEIR_JOB_QUEUED && was_begun(service, row);
    return weir_schedule_enter(service->schedule, &entry, now) == WEIR_OK &&
           ((row->state != WEIR_JOB_RUNNING && !unrecorded) ||
            find_running(service, row, queue, now));
}

bool weir_job_service_found(void *context, const struct weir_job_row *row)
{
    struct weir_job_service *service = context;
    struct weir_instant now = weir_job_service_lock(service);
    uint32_t queue = weir_schedule_need_queue(service->schedule, row->order.queue, now);
    bool good = queue != UINT32_MAX;
    if (good && row->state == WEIR_JOB_FAILED) {
        service->places[queue].tally.dead++;
        service->tally.dead++;
    } else if (good) {
        good = find_alive(service, row, queue, now);
    }
    pthread_mutex_unlock(&service->lock);
    return good;
}

/* ---- what was running ---- */

/* Keeps the folder of an attempt whose end is about to be recorded, because it shows how the
 * attempt ended. Runs of jobs whose turn has come since have no folder yet. */
static bool is_wanted(void *context, uint64_t number)
{
    struct weir_job_service *service = context;
    pthread_mutex_lock(&service->lock);
    const struct weir_run *run = weir_job_service_find_run(service, number);
    bool wanted = run != NULL && run->folder;
    pthread_mutex_unlock(&service->lock);
    return wanted;
}

static void end_found(struct weir_run *run)
{
    struct weir_job_service *service = run->service;
    struct weir_run_report report = {.end = WEIR_ATTEMPT_LOST,
                                     .error = weir_slice_of("Weir itself ended while it ran")};
    void *memory = NULL;
    if (service->files != NULL) {
        char path[PATH_MAX];
        uint64_t file = weir_store_file_new(service->files);
        weir_store_file_path(service->files, file, path, sizeof path);
        struct weir_command_find find = {.folder = service->folder,
                                         .number = run->number,
                                         .attempt = run->row.attempts,
                                         .result_file = file,
                                         .result_path = path};
        if (weir_command_finished(&find, &report.result, &memory)) {
            report.end = WEIR_ATTEMPT_SUCCESS;
            report.error = (struct weir_slice){0};
        }
    }
    weir_run_end(run, &report);
    free(memory);
}

void weir_job_service_recover(struct weir_job_service *service)
{
    struct weir_link found;
    weir_list_init(&found);
    pthread_mutex_lock(&service->lock);
    for (struct weir_link *at = service->all_runs.next; at != &service->all_runs; at = at->next) {
        struct weir_run *run = weir_container_of(at, struct weir_run, all);
        if (run->state == WEIR_RUN_RUNNING && run->snapshot == NULL) {
            run->snapshot = weir_config_snapshot_take(service->snapshot);
            run->config = weir_job_service_config(service, run->queue);
            if (run->unrecorded) { /* the start came later than anything on record */
                run->recorded = (struct weir_epoch){.boot = service->boot};
            }
            weir_list_push_back(&found, &run->link);
        }
    }
    pthread_mutex_unlock(&service->lock);
    weir_command_sweep_all(service->folder, is_wanted, service);
    while (!weir_list_empty(&found)) {
        struct weir_run *run = weir_container_of(found.next, struct weir_run, link);
        weir_list_unlink(&run->link);
        end_found(run);
    }
}
