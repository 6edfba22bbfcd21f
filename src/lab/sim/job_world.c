/* One life: draws crashes, failures of the disk, jumps of the clock and reloads, runs the virtual
 * clock through them, then stops all that and lets the rest of the jobs end. The checks of
 * job_check.h come last. */
#include "lab/sim/job_world.h"

#include "base/alloc.h"
#include "lab/sim/job_life.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- settings ---- */

static void configure(struct weir_sim_life *w)
{
    struct weir_schedule_queue queues[QUEUES];
    for (uint32_t i = 0; i < QUEUES; i++) {
        const struct weir_sim_queue_plan *plan = &weir_sim_queue_plans[i];
        bool changed = !w->calm && chance(&w->chaos_random, 30);
        uint32_t workers = changed ? (uint32_t)draw(&w->chaos_random, 5) : plan->workers;
        queues[i] = (struct weir_schedule_queue){
            .name = weir_slice_of(plan->name),
            .workers = workers,
            .jobs_max = plan->jobs_max,
            .full = plan->full,
            .per_key = plan->per_key,
            .lease_ns = plan->lease_ns,
            .tenant_default = {.rate = {.tokens = 20, .period_ns = WEIR_NS_PER_SECOND}}};
        /* What runs stays: only what starts from now on must fit. */
        w->history.workers[i] = workers;
        w->history.per_key[i] = plan->per_key;
    }
    enum weir_status status = weir_schedule_configure(w->schedule, queues, QUEUES, now_of(w));
    expect(w, status == WEIR_OK, "could not be configured for", 0);
    weir_sim_job_drop_oldest(w);
    weir_sim_job_attend(w);
}

static void on_change_timer(struct weir_sim_life *w)
{
    struct weir_sim_random *random = &w->chaos_random;
    if (w->calm) {
        return;
    }
    set_timer(w, &w->change, draw(random, 4 * WEIR_NS_PER_SECOND));
    switch (draw(random, 4)) {
    case 0:
        weir_sim_store_break(w->store, w->clock.now_ns + draw(random, 2 * WEIR_NS_PER_SECOND));
        break;
    case 1:
    case 2:
        w->wall_offset_ms += (int64_t)draw(random, 20000) - 10000;
        break;
    default:
        if (w->schedule != NULL) {
            configure(w);
        }
    }
}

/* ---- crashes ---- */

static void recover(struct weir_sim_life *w, const struct weir_job_row *row)
{
    struct weir_sim_run *run = run_of(w, row->number);
    if (row->state == WEIR_JOB_QUEUED) {
        weir_sim_job_enter_row(w, row, false);
    } else if (row->state == WEIR_JOB_RUNNING) {
        run->phase = RECOVERING;
        run->row = *row;
        run->epoch = row->epoch;
        weir_sim_job_judge(run, WEIR_ATTEMPT_LOST);
    }
}

static void on_boot(struct weir_sim_life *w)
{
    struct weir_job_row row;
    w->boot = weir_sim_store_count_start(w->store);
    struct weir_schedule_options options = {.seed = {w->boot, 1}, .boot = w->boot};
    if (weir_schedule_create(&options, &w->schedule) != WEIR_OK) {
        weir_sim_history_blame(&w->history, "found no memory", 0);
        return;
    }
    for (uint32_t i = 0; i < QUEUES; i++) {
        uint32_t number = weir_schedule_need_queue(
            w->schedule, weir_slice_of(weir_sim_queue_plans[i].name), now_of(w));
        expect(w, number == i, "found no queue", number);
    }
    for (uint32_t i = 0; weir_sim_store_at(w->store, i, &row) != NULL; i++) {
        recover(w, &row);
    }
    configure(w);
}

static void crash(struct weir_sim_life *w)
{
    if (w->schedule == NULL) {
        return;
    }
    w->result->crashes++;
    for (uint32_t i = 0; i < w->rows_max; i++) {
        struct weir_sim_run *run = &w->runs[i];
        if (run->phase == WORKING && chance(&w->chaos_random, 50)) {
            weir_sim_job_leave_echo(w, run, draw(&w->chaos_random, 2 * WEIR_NS_PER_SECOND));
        }
        weir_sim_clock_stop(&w->clock, &run->timer);
        *run = (struct weir_sim_run){.timer = {.kind = RUN}, .world = w};
    }
    weir_sim_clock_stop(&w->clock, &w->wake);
    weir_sim_store_crash(w->store);
    if (w->redriving) {
        free(w->redrive.op.memory);
        w->redrive.op.memory = NULL;
        w->redriving = false;
    }
    weir_schedule_destroy(w->schedule);
    w->schedule = NULL;
    weir_sim_history_crashed(&w->history);
    for (uint32_t i = 0; i < w->client_count; i++) { /* no answer to waiting clients */
        if (w->clients[i].asking) {
            weir_sim_client_try_later(&w->clients[i], 100 * WEIR_NS_PER_MS);
        }
    }
    set_timer(w, &w->boot_timer, draw(&w->chaos_random, 600 * WEIR_NS_PER_MS));
}

static void on_crash_timer(struct weir_sim_life *w)
{
    if (!w->calm) {
        crash(w);
        set_timer(w, &w->crash, draw(&w->chaos_random, 6 * WEIR_NS_PER_SECOND));
    }
}

/* ---- a life ---- */

static void on_wake(struct weir_sim_life *w)
{
    weir_schedule_wake(w->schedule, now_of(w));
    weir_sim_job_attend(w);
}

static void dispatch(struct weir_sim_life *w, struct weir_sim_timer *timer)
{
    switch ((enum timer_kind)timer->kind) {
    case STORE:
        weir_sim_store_advance(w->store);
        break;
    case CLIENT:
        weir_sim_client_wake(weir_container_of(timer, struct weir_sim_client, timer));
        break;
    case RUN:
        weir_sim_run_wake(weir_container_of(timer, struct weir_sim_run, timer));
        break;
    case ECHO:
        weir_sim_echo_wake(w, weir_container_of(timer, struct weir_sim_echo, timer));
        break;
    case WAKE:
        on_wake(w);
        break;
    case CRASH:
        on_crash_timer(w);
        break;
    case BOOT:
        on_boot(w);
        break;
    case CHANGE:
        on_change_timer(w);
        break;
    case REDRIVE:
        weir_sim_redrive_wake(w);
        break;
    }
}

static void run_until(struct weir_sim_life *w, uint64_t end_ns)
{
    struct weir_sim_timer *timer;
    uint32_t events = 0;
    while (w->history.error[0] == '\0' &&
           (timer = weir_sim_clock_next(&w->clock, end_ns)) != NULL) {
        weir_sim_history_note(&w->history, 30 + timer->kind, w->clock.now_ns);
        dispatch(w, timer);
        if (++events % 512 == 0 && w->schedule != NULL) {
            weir_schedule_validate(w->schedule);
        }
    }
}

/* Nothing goes wrong any more; what is there is worked off. */
static void calm_down(struct weir_sim_life *w)
{
    w->calm = true;
    weir_sim_store_break(w->store, 0);
    if (w->schedule != NULL) {
        configure(w);
    }
    run_until(w, END_NS);
    struct weir_slice name;
    struct weir_schedule_stats stats;
    for (uint32_t i = 0; i < QUEUES; i++) {
        bool empty = w->schedule != NULL &&
                     weir_schedule_get_stats(w->schedule, i, &name, &stats) &&
                     stats.queued + stats.running + stats.held + stats.reserved == 0;
        expect(w, empty, "or its place is left in a queue at the end", 0);
    }
    weir_sim_history_close(&w->history, w->store);
    expect(w, !w->clock.no_memory, "found no memory", 0);
}

static bool open_world(struct weir_sim_life *w, const struct weir_sim_jobs_options *options)
{
    weir_sim_clock_init(&w->clock, &weir_allocator_libc);
    w->clients_random = weir_sim_random_of(options->seed, 2);
    w->work_random = weir_sim_random_of(options->seed, 3);
    w->chaos_random = weir_sim_random_of(options->seed, 4);
    w->client_count = options->jobs;
    w->rows_max = options->jobs + 1;
    struct weir_sim_store_options store = {&w->clock, STORE, options->seed, w->rows_max};
    w->store = weir_sim_store_create(&store);
    w->clients = calloc(w->client_count, sizeof *w->clients);
    w->runs = calloc(w->rows_max, sizeof *w->runs);
    w->history.fates = calloc(w->rows_max, sizeof *w->history.fates);
    w->history.fates_max = w->rows_max;
    if (w->store == NULL || w->clients == NULL || w->runs == NULL || w->history.fates == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < w->rows_max; i++) {
        w->runs[i] = (struct weir_sim_run){.timer = {.kind = RUN}, .world = w};
    }
    for (uint32_t i = 0; i < w->client_count; i++) {
        weir_sim_client_init(w, i);
    }
    w->wake.kind = WAKE;
    w->crash.kind = CRASH;
    w->boot_timer.kind = BOOT;
    w->change.kind = CHANGE;
    w->redrive_timer.kind = REDRIVE;
    set_timer(w, &w->boot_timer, 0);
    set_timer(w, &w->crash, draw(&w->chaos_random, 6 * WEIR_NS_PER_SECOND));
    set_timer(w, &w->change, draw(&w->chaos_random, 4 * WEIR_NS_PER_SECOND));
    set_timer(w, &w->redrive_timer, draw(&w->chaos_random, 6 * WEIR_NS_PER_SECOND));
    return true;
}

static void close_world(struct weir_sim_life *w)
{
    weir_schedule_destroy(w->schedule);
    weir_sim_store_destroy(w->store);
    weir_sim_clock_deinit(&w->clock);
    if (w->redriving) {
        free(w->redrive.op.memory);
    }
    free(w->clients);
    free(w->runs);
    free(w->history.fates);
    free(w);
}

static void tell(const struct weir_sim_life *w, struct weir_sim_jobs_result *result)
{
    const struct weir_sim_history *history = &w->history;
    result->accepted = history->accepted;
    result->starts = history->starts;
    result->done = history->done;
    result->dead = history->dead;
    result->cancelled = history->cancelled;
    result->failed_commits = weir_sim_store_failed(w->store);
    result->digest = history->digest;
    memcpy(result->error, history->error, sizeof result->error);
}

bool weir_sim_jobs_live(const struct weir_sim_jobs_options *options,
                        struct weir_sim_jobs_result *result)
{
    *result = (struct weir_sim_jobs_result){.digest = 0};
    assert(options->jobs >= 1);
    assert(options->jobs <= WEIR_SIM_JOBS_MAX);
    struct weir_sim_life *w = calloc(1, sizeof *w);
    if (w == NULL) {
        snprintf(result->error, sizeof result->error, "there was not enough memory");
        return false;
    }
    w->result = result;
    if (open_world(w, options)) {
        run_until(w, STORM_NS);
        calm_down(w);
        tell(w, result);
    } else {
        snprintf(result->error, sizeof result->error, "there was not enough memory");
    }
    close_world(w);
    if (result->error[0] == '\0' && !weir_sim_jobs_fair(options->seed)) {
        snprintf(result->error, sizeof result->error,
                 "tenants that always had jobs waiting did not get the same run time");
    }
    return result->error[0] == '\0';
}
