/* job_service_settle.c - the end of a run: decides what becomes of the job, has the store record
 * it, and then forgets or requeues it.
 *
 * weir_run_end() is called in the loop of the attempt or in the store's thread; on_settled() runs
 * in the store's thread. Both take the job service's lock. */
#define _GNU_SOURCE
#include "runner/job_service_parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* For jobs of queues that are no longer in the config. */
#define BACKOFF_FIRST_NS WEIR_NS_PER_SECOND
#define BACKOFF_MAX_NS   (300 * WEIR_NS_PER_SECOND)
#define KEEP_NS          WEIR_NS_PER_DAY

#define QUARANTINED "quarantined, having taken down what ran it three times; the last time: "

static_assert(WEIR_JOB_KILLS_MAX == 3, "which is said in words");

/* ---- texts of an attempt ---- */

/* Where the next text goes. */
struct text_packer {
    char *to;
};

static struct weir_slice put(struct text_packer *text_packer, struct weir_slice text)
{
    struct weir_slice copy = {text_packer->to, text.bytes};
    if (text.bytes > 0) {
        memcpy(text_packer->to, text.data, text.bytes);
    }
    text_packer->to += text.bytes;
    return copy;
}

/* Cuts a text to a length without splitting a character. */
static struct weir_slice cut(struct weir_slice text, size_t bytes_max)
{
    size_t bytes = text.bytes < bytes_max ? text.bytes : bytes_max;
    while (bytes > 0 && bytes < text.bytes && (text.data[bytes] & 0xc0) == 0x80) {
        bytes--;
    }
    return (struct weir_slice){text.data, bytes};
}

/* Copies the texts of the report, which are valid only during the call; `before` goes before the
 * error. False without memory. */
static bool keep_texts(struct weir_run *run, struct weir_run_report *report,
                       struct weir_slice before)
{
    report->error = cut(report->error, WEIR_JOB_ERROR_BYTES_MAX - before.bytes);
    report->type = cut(report->type, WEIR_JOB_TYPE_BYTES_MAX);
    report->log = cut(report->log, WEIR_JOB_INLINE_BYTES_MAX);
    bool at_hand = report->result.file == 0;
    size_t bytes = before.bytes + report->error.bytes + report->type.bytes + report->log.bytes +
                   (at_hand ? report->result.bytes.bytes : 0);
    if (bytes == 0) {
        return true;
    }
    run->texts = malloc(bytes);
    if (run->texts == NULL) {
        return false;
    }
    struct text_packer text_packer = {run->texts};
    struct weir_slice head = put(&text_packer, before);
    report->error = put(&text_packer, report->error);
    report->error = (struct weir_slice){head.data, head.bytes + report->error.bytes};
    report->type = put(&text_packer, report->type);
    report->log = put(&text_packer, report->log);
    if (at_hand) {
        report->result.bytes = put(&text_packer, report->result.bytes);
    }
    return true;
}

/* ---- the verdict ---- */

/* If the attempt was asked to end, that is the reason why it ended. */
static void explain(const struct weir_run *run, struct weir_run_report *report)
{
    if (report->end == WEIR_ATTEMPT_SUCCESS) {
        return; /* it had succeeded before it was asked */
    }
    if (run->halt == WEIR_HALT_CANCEL) {
        report->end = WEIR_ATTEMPT_CANCELLED;
        report->error = weir_slice_of("it was cancelled");
    } else if (run->halt == WEIR_HALT_LAPSE) {
        report->end = WEIR_ATTEMPT_LOST;
        report->error = weir_slice_of("its lease ran out without a sign of life");
    } else if ((report->end == WEIR_ATTEMPT_LOST && report->orderly) ||
               (report->end == WEIR_ATTEMPT_KILLED && run->service->draining)) {
        /* A shutdown of Weir is not the job's fault. A service manager that stops Weir may also
         * have killed the command. */
        report->end = WEIR_ATTEMPT_UNABLE;
        report->orderly = true;
        report->error = weir_slice_of("Weir was shut down while it ran");
    }
}

static uint32_t kills_of(const struct weir_run *run, const struct weir_run_report *report)
{
    return run->row.kills + (weir_attempt_kills(report->end) && !report->orderly ? 1 : 0);
}

static struct weir_verdict_of_job
judge_attempt(const struct weir_run *run, const struct weir_run_report *report, uint64_t chance)
{
    const struct weir_config_queue *config = run->config;
    uint64_t first_ns = config == NULL ? BACKOFF_FIRST_NS : config->backoff_first_ns;
    uint64_t max_ns = config == NULL ? BACKOFF_MAX_NS : config->backoff_max_ns;
    return weir_attempt_judge(
        &(struct weir_attempt){.end = report->end,
                               .attempts = run->row.attempts,
                               .attempts_max = run->row.order.attempts_max,
                               .kills = kills_of(run, report),
                               .backoff = {first_ns / WEIR_NS_PER_MS, max_ns / WEIR_NS_PER_MS},
                               .retry_after_ms = report->retry_after_ms,
                               .chance = chance});
}

static int64_t keep_until(const struct weir_run *run, int64_t now_ms)
{
    uint64_t keep_ns = run->config == NULL ? KEEP_NS : run->config->keep_ns;
    return now_ms + (int64_t)(keep_ns / WEIR_NS_PER_MS);
}

static void on_settled(struct weir_store_op *op);

static void record_end(struct weir_run *run)
{
    run->settle.op = (struct weir_store_op){.act = WEIR_STORE_SETTLE, .complete = on_settled};
    run->settle.number = run->number;
    run->settle.keep_until_ms = keep_until(run, run->settle.now_ms);
    run->asked = &run->settle.op;
    weir_job_service_pass(run->service, run->asked);
}

static void on_swept(struct weir_disk_task *task)
{
    struct weir_run *run = weir_container_of(task, struct weir_run, sweep);
    struct weir_job_service *service = run->service;
    weir_command_sweep(service->folder, run->number, run->row.attempts);
    record_end(run);
    weir_job_service_complete(service);
}

/* Removes the folder before the end is recorded, for an attempt that does not count and for a dead
 * letter: the next attempt has the same number and so the same folder, which must not be removed
 * under it, nor be mistaken for its own at a start. */
static void sweep_and_settle(struct weir_run *run)
{
    struct weir_job_service *service = run->service;
    run->folder = false;
    run->sweep = (struct weir_disk_task){.work = on_swept};
    atomic_fetch_add(&service->asked,
                     1); /* counts as an operation of the store for weir_job_service_stop() */
    weir_disk_submit(service->disk, &run->sweep);
}

void weir_run_end(struct weir_run *run, const struct weir_run_report *answered)
{
    struct weir_job_service *service = run->service;
    struct weir_run_report report = *answered;
    struct weir_instant now = weir_job_service_lock(service);
    explain(run, &report);
    run->ran_ms = run->began_ns == 0 ? 0 : (now.now_ns - run->began_ns) / WEIR_NS_PER_MS;
    uint64_t chance = weir_job_service_random(service);
    weir_run_move(run, WEIR_RUN_SETTLING);
    /* Frees its worker. A run whose lease has run out is held already. */
    (void)!weir_schedule_end(service->schedule, run->number, run->epoch, now);
    weir_job_service_unlock(service, now);

    struct weir_verdict_of_job verdict = judge_attempt(run, &report, chance);
    struct weir_slice before = weir_slice_of(verdict.quarantined ? QUARANTINED : "");
    if (!keep_texts(run, &report, before)) {
        report =
            (struct weir_run_report){.end = WEIR_ATTEMPT_FAILURE,
                                     .error = weir_slice_of("out of memory for its error text")};
        verdict = judge_attempt(run, &report, chance);
    }
    int64_t delay_ms = report.orderly ? 0 : (int64_t)verdict.delay_ms;
    run->settle = (struct weir_store_settle){.before = WEIR_JOB_RUNNING,
                                             .epoch = run->recorded,
                                             .after = verdict.state,
                                             .now_ms = now.wall_ms,
                                             .next_ms = delay_ms == 0 ? 0 : now.wall_ms + delay_ms,
                                             .uncounted = report.end == WEIR_ATTEMPT_UNABLE,
                                             .kills = kills_of(run, &report),
                                             .error = report.error,
                                             .result_status = report.status,
                                             .result_type = report.type,
                                             .result = report.result,
                                             .log = report.log};
    bool comes_again = run->settle.uncounted || run->settle.after == WEIR_JOB_FAILED;
    if (comes_again && run->folder) {
        sweep_and_settle(run);
    } else {
        record_end(run);
    }
}

void weir_run_retire(struct weir_run *run, enum weir_job_state after, const char *error)
{
    run->settle = (struct weir_store_settle){.before = WEIR_JOB_QUEUED,
                                             .after = after,
                                             .now_ms = weir_wall_ms(),
                                             .kills = run->row.kills,
                                             .error = weir_slice_of(error)};
    record_end(run);
}

/* ---- what is on record ---- */

static void count_end(const struct weir_run *run, enum weir_job_state after,
                      struct weir_job_service_tally *tally)
{
    tally->ended[after]++;
    tally->dead += after == WEIR_JOB_FAILED;
    if (run->began_ns != 0) {
        weir_histogram_add(&tally->ran, &weir_scale_job_run, run->ran_ms * WEIR_NS_PER_MS);
    }
}

static void on_sweep(struct weir_disk_task *task)
{
    struct weir_run *run = weir_container_of(task, struct weir_run, sweep);
    struct weir_job_service *service = run->service;
    if (run->folder) {
        weir_command_sweep(service->folder, run->number, run->row.attempts);
    }
    if (run->stale && service->files != NULL && run->settle.result.file != 0) {
        weir_store_file_remove(service->files, run->settle.result.file);
    }
    weir_run_let_go(run);
}

/* The end is on record: counts it, notifies, and forgets or requeues the job. */
static void finish_run(struct weir_run *run, enum weir_job_state after, int64_t next_ms)
{
    struct weir_job_service *service = run->service;
    struct weir_map_node *watches = NULL;
    struct weir_instant now = weir_job_service_lock(service);
    if (run->stale) {
        service->stale++;
    } else {
        count_end(run, after, &service->tally);
        count_end(run, after, &service->places[run->queue].tally);
    }
    if (after != WEIR_JOB_QUEUED) {
        watches = weir_job_service_take_watches(service, run->number);
    }
    if (run->entered && after == WEIR_JOB_QUEUED) {
        weir_schedule_requeue(service->schedule, run->number, next_ms, now);
    } else if (run->entered) {
        weir_schedule_forget(service->schedule, run->number);
    }
    struct weir_job_service_request *cancels = run->cancels;
    run->cancels = NULL;
    run->holds++;
    weir_run_move(run, WEIR_RUN_OVER);
    weir_job_service_unlock(service, now);

    weir_job_service_notify_watches(watches);
    if (!run->stale) {
        weir_job_service_notify_end(run);
    }
    if (after == WEIR_JOB_CANCELLED && !run->stale) {
        weir_job_service_answer_all(cancels, WEIR_JOB_SERVICE_DONE, NULL);
    } else {
        weir_job_service_cancel_all_again(cancels);
    }
    if (run->folder || run->stale) {
        run->sweep = (struct weir_disk_task){.work = on_sweep};
        weir_disk_submit(service->disk, &run->sweep);
    } else {
        weir_run_let_go(run);
    }
}

void weir_run_vanish(struct weir_run *run)
{
    struct weir_job_service *service = run->service;
    struct weir_instant now = weir_job_service_lock(service);
    run->stale = true;
    weir_run_move(run, WEIR_RUN_SETTLING);
    (void)!weir_schedule_end(service->schedule, run->number, run->epoch,
                             now); /* fails if it has lapsed */
    weir_job_service_unlock(service, now);
    finish_run(run, WEIR_JOB_CANCELLED, 0);
}

static void on_looked(struct weir_store_op *op);

static void look(struct weir_run *run)
{
    run->look = (struct weir_store_look){.op = {.act = WEIR_STORE_LOOK, .complete = on_looked},
                                         .number = run->number};
    run->asked = &run->look.op;
    weir_job_service_pass(run->service, run->asked);
}

/* In the store's thread. */
static void on_settled(struct weir_store_op *op)
{
    struct weir_run *run = weir_container_of(op, struct weir_run, settle.op);
    struct weir_job_service *service = run->service;
    switch (op->end) {
    case WEIR_STORE_DONE:
        finish_run(run, run->settle.after, run->settle.next_ms);
        break;
    case WEIR_STORE_FAILED:
        weir_run_stick(run, op->error);
        break;
    default: /* another end was recorded before; that one counts */
        run->stale = true;
        look(run);
    }
    weir_job_service_complete(service);
}

static void on_looked(struct weir_store_op *op)
{
    struct weir_run *run = weir_container_of(op, struct weir_run, look.op);
    struct weir_job_service *service = run->service;
    if (op->end == WEIR_STORE_FAILED) {
        weir_run_stick(run, op->error);
    } else if (run->stale) {
        bool again = op->end == WEIR_STORE_DONE && run->look.row.state == WEIR_JOB_QUEUED;
        enum weir_job_state after = again ? WEIR_JOB_QUEUED : WEIR_JOB_CANCELLED;
        int64_t next_ms = again ? run->look.row.next_ms : 0;
        free(op->memory);
        finish_run(run, after, next_ms);
    } else if (op->end == WEIR_STORE_DONE && run->look.row.state == WEIR_JOB_QUEUED) {
        run->row = run->look.row;
        run->memory = op->memory;
        weir_run_retire(run, WEIR_JOB_FAILED, "dropped: the queue was full and newer jobs came");
    } else {
        free(op->memory);
        run->stale = true;
        finish_run(run, WEIR_JOB_CANCELLED, 0);
    }
    weir_job_service_complete(service);
}

void weir_run_drop(struct weir_run *run)
{
    look(run);
}

/* ---- while the disk fails ---- */

void weir_run_stick(struct weir_run *run, const char *error)
{
    struct weir_job_service *service = run->service;
    struct weir_instant now = weir_job_service_lock(service);
    struct weir_job_service_request *cancels = run->cancels;
    run->cancels = NULL;
    if (run->state == WEIR_RUN_TAKING && run->halt == WEIR_HALT_CANCEL) {
        run->halt = WEIR_HALT_NONE; /* the cancellation is answered with the failure */
    }
    if (!service->stopped) {
        uint64_t retry_ns = now.now_ns + WEIR_JOB_SERVICE_RETRY_NS;
        service->retry_ns = service->retry_ns < retry_ns ? service->retry_ns : retry_ns;
        weir_list_push_back(&service->stuck, &run->link);
    }
    weir_job_service_unlock(service, now);
    weir_job_service_answer_all(cancels, WEIR_JOB_SERVICE_FAILED, error);
}

void weir_run_rest(struct weir_run *run)
{
    pthread_mutex_lock(&run->service->lock);
    run->rests = true;
    pthread_mutex_unlock(&run->service->lock);
    weir_run_stick(run, NULL);
}

void weir_run_ask_again(struct weir_run *run)
{
    if (run->rests) {
        weir_run_end(run,
                     &(struct weir_run_report){
                         .end = WEIR_ATTEMPT_UNABLE,
                         .error = weir_slice_of("there was no memory or no descriptor to run it")});
        return;
    }
    run->asked->memory = NULL;
    weir_job_service_pass(run->service, run->asked);
}
