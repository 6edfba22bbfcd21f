/* job_service_run.c - the states of a run, and the attempt that it makes: from its turn, over the
 * store's record of the start, to its loop.
 *
 * State changes happen under the job service's lock. on_taken() runs in the store's thread, on_go()
 * and on_stop() in the loop that runs the attempt: the command loop, or a worker's for a route. */
#define _GNU_SOURCE
#include "runner/job_service_parts.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* How long a job waits when there is no memory for its run. */
#define NO_MEMORY_MS 1000

/* How long a Weir that shuts down waits for all killed commands together. */
#define HALT_NS (10 * WEIR_NS_PER_SECOND)

/* ---- runs ---- */

static bool is_busy(enum weir_run_state state)
{
    return state != WEIR_RUN_IDLE && state != WEIR_RUN_OVER;
}

void weir_run_move(struct weir_run *run, enum weir_run_state state)
{
    static const uint32_t next[] = {
        [WEIR_RUN_IDLE] = 1u << WEIR_RUN_TAKING | 1u << WEIR_RUN_SETTLING | 1u << WEIR_RUN_OVER,
        [WEIR_RUN_TAKING] = 1u << WEIR_RUN_GOING | 1u << WEIR_RUN_SETTLING | 1u << WEIR_RUN_OVER,
        [WEIR_RUN_GOING] = 1u << WEIR_RUN_RUNNING | 1u << WEIR_RUN_SETTLING,
        [WEIR_RUN_RUNNING] = 1u << WEIR_RUN_SETTLING,
        [WEIR_RUN_SETTLING] = 1u << WEIR_RUN_OVER};
    assert(run->state != WEIR_RUN_OVER);
    assert((next[run->state] >> state & 1) != 0);
    run->service->busy += is_busy(state);
    run->service->busy -= is_busy(run->state);
    run->state = state;
    if (state == WEIR_RUN_OVER) {
        weir_map_remove(&run->service->runs, &run->node);
    }
}

struct weir_run *weir_run_create(struct weir_job_service *service, uint64_t number, uint32_t queue)
{
    if (!weir_map_reserve(&service->runs, &weir_allocator_libc)) {
        return NULL;
    }
    struct weir_run *run = weir_slab_take(&service->run_slab);
    if (run == NULL) {
        return NULL;
    }
    *run = (struct weir_run){.service = service,
                             .number = number,
                             .queue = queue,
                             .state = WEIR_RUN_IDLE,
                             .entered = true,
                             .progress = -1};
    weir_map_insert(&service->runs, &run->node, weir_job_service_hash(number));
    weir_list_push_back(&service->all_runs, &run->all);
    return run;
}

struct weir_run *weir_job_service_find_run(const struct weir_job_service *service, uint64_t number)
{
    struct weir_map_node *node = weir_map_first(&service->runs, weir_job_service_hash(number));
    for (; node != NULL; node = weir_map_next(node)) {
        struct weir_run *run = weir_container_of(node, struct weir_run, node);
        if (run->number == number) {
            return run;
        }
    }
    return NULL;
}

void weir_run_destroy(struct weir_run *run)
{
    struct weir_job_service *service = run->service;
    if (run->state != WEIR_RUN_OVER) {
        weir_map_remove(&service->runs, &run->node);
    }
    weir_list_unlink(&run->all);
    free(run->memory);
    free(run->texts);
    weir_config_snapshot_give(run->snapshot);
    weir_slab_give(&service->run_slab, run);
}

void weir_run_let_go(struct weir_run *run)
{
    struct weir_job_service *service = run->service;
    pthread_mutex_lock(&service->lock);
    assert(run->holds > 0);
    run->holds--;
    if (run->holds == 0 && run->state == WEIR_RUN_OVER) {
        weir_run_destroy(run);
    }
    pthread_mutex_unlock(&service->lock);
}

/* ---- beginning ---- */

/* Returns a job that cannot begin to the schedule, as if its turn had not come. */
static void return_to_schedule(struct weir_job_service *service,
                               const struct weir_schedule_news *news, struct weir_instant now,
                               int64_t next_ms)
{
    if (weir_schedule_end(service->schedule, news->number, news->epoch, now) == WEIR_OK) {
        weir_schedule_requeue(service->schedule, news->number, next_ms, now);
    }
}

struct weir_run *weir_run_begin(struct weir_job_service *service,
                                const struct weir_schedule_news *news, struct weir_instant now)
{
    const struct weir_config_queue *config = weir_job_service_config(service, news->queue);
    if (config == NULL) { /* the queue is no longer in the config: its jobs are not started */
        return_to_schedule(service, news, now, 0);
        return NULL;
    }
    struct weir_run *run = weir_run_create(service, news->number, news->queue);
    if (run == NULL) {
        return_to_schedule(service, news, now, now.wall_ms + NO_MEMORY_MS);
        return NULL;
    }
    run->epoch = news->epoch;
    run->recorded = (struct weir_epoch){service->boot, news->epoch.counter};
    run->snapshot = weir_config_snapshot_take(service->snapshot);
    run->config = config;
    if (service->paused || service->draining) {
        weir_list_push_back(&service->idle, &run->link);
        return NULL;
    }
    weir_run_move(run, WEIR_RUN_TAKING);
    return run;
}

/* Chooses the command loop, or the next worker for a route. Under the lock. */
static void choose_loop(struct weir_run *run)
{
    struct weir_job_service *service = run->service;
    if (run->config->run_count == 0) {
        run->worker = service->workers[service->next_worker++ % service->worker_count];
    }
}

static struct weir_loop *loop_of(const struct weir_run *run)
{
    return run->worker == NULL ? &run->service->command_loop.loop : &run->worker->loop;
}

static void on_go(struct weir_post *post);

/* Weir shuts down, or has another config, before the job has begun, so no attempt is spent. */
static const struct weir_run_report unbegun = {.end = WEIR_ATTEMPT_UNABLE, .orderly = true};

static void go(struct weir_run *run)
{
    struct weir_job_service *service = run->service;
    pthread_mutex_lock(&service->lock);
    run->row = run->take.row;
    run->memory = run->take.op.memory;
    bool stopped = service->stopped;
    if (!stopped) {
        choose_loop(run);
        run->go = (struct weir_post){.arrive = on_go};
        run->holds++;
        weir_run_move(run, WEIR_RUN_GOING);
    }
    pthread_mutex_unlock(&service->lock);
    if (stopped) {
        weir_run_end(run, &unbegun);
    } else {
        weir_loop_post(loop_of(run), &run->go);
    }
}

/* In the store's thread. */
static void on_taken(struct weir_store_op *op)
{
    struct weir_run *run = weir_container_of(op, struct weir_run, take.op);
    struct weir_job_service *service = run->service;
    switch (op->end) {
    case WEIR_STORE_DONE:
        go(run);
        break;
    case WEIR_STORE_FAILED:
        weir_run_stick(run, op->error);
        break;
    default:
        free(op->memory);
        weir_run_vanish(run);
    }
    weir_job_service_complete(service);
}

/* A command may start before its record is committed, because the folder of the attempt shows that
 * it was started. A request leaves no such trace, so it goes out only after the commit. */
void weir_run_take(struct weir_run *run)
{
    run->take = (struct weir_store_take){.op = {.act = WEIR_STORE_TAKE, .complete = on_taken},
                                         .number = run->number,
                                         .epoch = run->recorded,
                                         .now_ms = weir_wall_ms(),
                                         .durable = run->config->run_count == 0};
    run->asked = &run->take.op;
    weir_job_service_pass(run->service, run->asked);
}

/* ---- running ---- */

static void on_progress(void *context, double progress, struct weir_slice text)
{
    struct weir_run *run = context;
    struct weir_job_service *service = run->service;
    size_t bytes = text.bytes < sizeof run->progress_text ? text.bytes : sizeof run->progress_text;
    pthread_mutex_lock(&service->lock);
    run->progress = progress >= 0 ? progress : run->progress;
    run->progress_bytes = (uint32_t)bytes;
    memcpy(run->progress_text, text.data, bytes);
    pthread_mutex_unlock(&service->lock);
}

static void on_command_ended(void *context, const struct weir_command_report *report)
{
    struct weir_run *run = context;
    run->command = NULL;
    weir_run_end(run, &(struct weir_run_report){.end = report->end,
                                                .error = report->error,
                                                .result = report->result,
                                                .log = report->log});
}

static void on_route_attempt_ended(void *context, const struct weir_route_attempt_report *report)
{
    struct weir_run *run = context;
    run->route_attempt = NULL;
    weir_run_end(run, &(struct weir_run_report){.end = report->end,
                                                .error = report->error,
                                                .retry_after_ms = report->retry_after_ms,
                                                .status = report->status,
                                                .type = report->type,
                                                .result = report->result});
}

/* Paths of its files; null: none. */
struct paths {
    uint64_t result_file;
    char result[PATH_MAX];
    char body[PATH_MAX];
    const char *body_path;
};

static void find_paths(const struct weir_run *run, struct paths *paths)
{
    const struct weir_job_service *service = run->service;
    const struct weir_job_bytes *body = &run->row.order.body;
    *paths = (struct paths){.result_file = 0};
    if (service->files == NULL) {
        return;
    }
    paths->result_file = weir_store_file_new(service->files);
    weir_store_file_path(service->files, paths->result_file, paths->result, sizeof paths->result);
    if (body->file != 0) {
        weir_store_file_path(service->files, body->file, paths->body, sizeof paths->body);
        paths->body_path = paths->body;
    }
}

static bool start_command(struct weir_run *run, const struct paths *paths)
{
    struct weir_job_service *service = run->service;
    run->folder = true;
    run->kind = weir_job_service_command_kind(run->config);
    run->command =
        weir_command_start(&(struct weir_command_options){.loop = &service->command_loop.loop,
                                                          .disk = service->disk,
                                                          .launcher = service->launcher,
                                                          .folder = service->folder,
                                                          .kind = &run->kind,
                                                          .row = &run->row,
                                                          .body_path = paths->body_path,
                                                          .body_digest = run->row.order.digest,
                                                          .result_file = paths->result_file,
                                                          .result_path = paths->result,
                                                          .progressed = on_progress,
                                                          .ended = on_command_ended,
                                                          .context = run});
    return run->command != NULL;
}

static bool start_route_attempt(struct weir_run *run, const struct paths *paths)
{
    run->route_attempt = weir_route_attempt_start(
        &(struct weir_route_attempt_options){.worker = run->worker,
                                             .disk = run->service->disk,
                                             .path = run->config->route,
                                             .row = &run->row,
                                             .body_path = paths->body_path,
                                             .body_digest = run->row.order.digest,
                                             .result_file = paths->result_file,
                                             .result_path = paths->result,
                                             .result_bytes_max = run->config->body_bytes_max,
                                             .ended = on_route_attempt_ended,
                                             .context = run});
    return run->route_attempt != NULL;
}

/* Whether a short body is the one that was submitted. Long ones are in files, and are checked where
 * they are read: folder.c, route_attempt.c. */
static bool is_whole(const struct weir_run *run)
{
    const struct weir_job_order *order = &run->row.order;
    uint8_t digest[WEIR_JOB_DIGEST_BYTES];
    unsigned bytes = 0;
    return order->body.file != 0 ||
           (order->body.count == order->body.bytes.bytes &&
            EVP_Digest(order->body.bytes.data, order->body.bytes.bytes, digest, &bytes,
                       run->service->sha256, NULL) == 1 &&
            bytes == sizeof digest && memcmp(digest, order->digest, sizeof digest) == 0);
}

static void fail_run(struct weir_run *run, enum weir_attempt_end end, const char *error)
{
    weir_run_end(run, &(struct weir_run_report){.end = end, .error = weir_slice_of(error)});
}

static void start(struct weir_run *run)
{
    struct paths paths;
    if (!is_whole(run)) {
        fail_run(run, WEIR_ATTEMPT_HOPELESS, "its body is damaged on disk");
        return;
    }
    find_paths(run, &paths);
    if (run->worker == NULL ? !start_command(run, &paths) : !start_route_attempt(run, &paths)) {
        weir_run_rest(run);
    }
}

/* Whether its loop has the routes of the run's config: a reload may have come in between. */
static bool has_route(const struct weir_run *run)
{
    return run->worker == NULL || run->worker->worker_config->snapshot == run->snapshot;
}

/* Begins the attempt in its loop. After weir_job_service_stop() the run is settled already. */
static void on_go(struct weir_post *post)
{
    struct weir_run *run = weir_container_of(post, struct weir_run, go);
    struct weir_job_service *service = run->service;
    struct weir_instant now = weir_job_service_lock(service);
    bool goes = run->state == WEIR_RUN_GOING;
    bool begins = goes && has_route(run);
    enum weir_run_halt halt = run->halt;
    if (begins) {
        weir_run_move(run, WEIR_RUN_RUNNING);
        run->began_ns = now.now_ns;
    }
    pthread_mutex_unlock(&service->lock);
    if (goes && !begins) {
        weir_run_end(run, &unbegun);
    } else if (begins && halt != WEIR_HALT_NONE) {
        fail_run(run, WEIR_ATTEMPT_CANCELLED, "it was cancelled before it had started");
    } else if (begins) {
        start(run);
    }
    weir_run_let_go(run);
}

/* ---- being made to end ---- */

static void on_stop(struct weir_post *post)
{
    struct weir_run *run = weir_container_of(post, struct weir_run, stop);
    if (run->command != NULL) {
        weir_command_cancel(run->command);
    } else if (run->route_attempt != NULL) {
        weir_route_attempt_cancel(run->route_attempt);
    }
    weir_run_let_go(run);
}

bool weir_run_stop(struct weir_run *run, enum weir_run_halt halt)
{
    bool first = run->halt == WEIR_HALT_NONE;
    assert(run->state == WEIR_RUN_TAKING || run->state == WEIR_RUN_GOING ||
           run->state == WEIR_RUN_RUNNING);
    if (first || halt == WEIR_HALT_CANCEL) {
        run->halt = halt; /* a cancelled job must not be tried again */
    }
    if (!first || run->state == WEIR_RUN_TAKING) {
        return false; /* a run that is being taken checks `halt` when it begins */
    }
    run->stop = (struct weir_post){.arrive = on_stop};
    run->holds++;
    return true;
}

void weir_run_send_stop(struct weir_run *run)
{
    weir_loop_post(loop_of(run), &run->stop);
}

/* A lease has run out: the schedule holds the job, and its attempt is asked to end. */
struct weir_run *weir_run_lapse(struct weir_job_service *service,
                                const struct weir_schedule_news *news)
{
    struct weir_run *run = weir_job_service_find_run(service, news->number);
    assert(run != NULL);
    assert(weir_epoch_equal(run->epoch, news->epoch));
    if (run->state == WEIR_RUN_IDLE || run->rests) {
        return NULL; /* nothing runs yet, and nothing is lost */
    }
    return weir_run_stop(run, WEIR_HALT_LAPSE) ? run : NULL;
}

static int remaining_ms(uint64_t deadline_ns)
{
    uint64_t now_ns = weir_clock_ns();
    return now_ns >= deadline_ns ? 0 : (int)((deadline_ns - now_ns) / WEIR_NS_PER_MS);
}

/* Kills all commands before it waits for the first of them. */
static void kill_commands(struct weir_link *runs)
{
    for (struct weir_link *at = runs->next; at != runs; at = at->next) {
        struct weir_run *run = weir_container_of(at, struct weir_run, link);
        if (run->command != NULL) {
            weir_command_kill(run->command);
        }
    }
}

/* False: the attempt has ended already, and reports its end when its loop is settled. */
static bool destroy_work(struct weir_run *run, uint64_t deadline_ns)
{
    if (run->command != NULL && !weir_command_destroy(run->command, remaining_ms(deadline_ns))) {
        return false;
    }
    if (run->route_attempt != NULL) {
        weir_route_attempt_destroy(run->route_attempt);
    }
    run->command = NULL;
    run->route_attempt = NULL;
    return true;
}

bool weir_job_service_halt_all(struct weir_job_service *service)
{
    static const struct weir_run_report lost = {.end = WEIR_ATTEMPT_LOST, .orderly = true};
    struct weir_link found;
    weir_list_init(&found);
    pthread_mutex_lock(&service->lock);
    for (struct weir_link *at = service->all_runs.next; at != &service->all_runs; at = at->next) {
        struct weir_run *run = weir_container_of(at, struct weir_run, all);
        if (run->state == WEIR_RUN_GOING || run->state == WEIR_RUN_RUNNING) {
            weir_list_push_back(&found, &run->link);
        }
    }
    pthread_mutex_unlock(&service->lock);
    bool any = !weir_list_empty(&found);
    uint64_t deadline_ns = weir_clock_ns() + HALT_NS;
    kill_commands(&found);
    while (!weir_list_empty(&found)) {
        struct weir_run *run = weir_container_of(found.next, struct weir_run, link);
        weir_list_unlink(&run->link);
        if (destroy_work(run, deadline_ns)) {
            weir_run_end(run, run->state == WEIR_RUN_GOING ? &unbegun : &lost);
        }
    }
    return weir_loop_settle(&service->command_loop.loop) || any;
}
