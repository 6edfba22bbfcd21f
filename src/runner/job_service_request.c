/* job_service_request.c - requests to the job service: submit, look up, list, cancel, redrive,
 * remove.
 *
 * A request begins in its caller's loop. The store completes its operation in the store's thread,
 * which takes the job service's lock to update the schedule; the answer is then posted to the
 * caller's loop. */
#include "runner/job_service_parts.h"

#include "base/slice.h"

#include <assert.h>
#include <stdlib.h>

/* How many jobs enter the schedule under one hold of the lock. */
#define ENTER_AT_ONCE 256

/* How many more may be dropped in one go than newer jobs have come: a reload has shortened their
 * line, or a redrive has filled it. The rest are dropped when the next jobs come. */
#define DROP_BESIDES 256

/* How often a cancellation looks again while its job keeps changing; then it gives up. */
#define CANCEL_TRIES_MAX 20

/* How many of these look-ups follow each other at once. */
#define CANCEL_TRIES_AT_ONCE 3

/* ---- answering ---- */

void weir_job_service_answer(struct weir_job_service_request *request,
                             enum weir_job_service_end end, const char *error)
{
    request->end = end;
    request->error = error;
    weir_loop_post(request->loop, &request->on_done);
}

void weir_job_service_answer_all(struct weir_job_service_request *requests,
                                 enum weir_job_service_end end, const char *error)
{
    while (requests != NULL) {
        struct weir_job_service_request *next = requests->next;
        weir_job_service_answer(requests, end, error);
        requests = next;
    }
}

/* Answers with the store's result. */
static void answer_from_store(struct weir_job_service_request *request)
{
    static const enum weir_job_service_end ends[] = {
        [WEIR_STORE_DONE] = WEIR_JOB_SERVICE_DONE,
        [WEIR_STORE_UNKNOWN] = WEIR_JOB_SERVICE_UNKNOWN,
        [WEIR_STORE_STALE] = WEIR_JOB_SERVICE_STALE,
        [WEIR_STORE_CONFLICT] = WEIR_JOB_SERVICE_CONFLICT,
        [WEIR_STORE_FULL] = WEIR_JOB_SERVICE_FULL,
        [WEIR_STORE_FAILED] = WEIR_JOB_SERVICE_FAILED};
    weir_job_service_answer(request, ends[request->op.end], request->op.error);
}

/* Hands the request's operation to the store. After weir_job_service_stop() it is refused. */
static void hand_to_store(struct weir_job_service_request *request, enum weir_store_act act,
                          void (*complete)(struct weir_store_op *op))
{
    struct weir_job_service *service = request->service;
    request->op = (struct weir_store_op){.act = act, .complete = complete};
    pthread_mutex_lock(&service->lock);
    bool stopped = service->stopped;
    pthread_mutex_unlock(&service->lock);
    if (stopped) {
        weir_job_service_answer(request, WEIR_JOB_SERVICE_DRAINING, NULL);
    } else {
        weir_job_service_pass(service, &request->op);
    }
}

static struct weir_job_service_request *request_of(struct weir_store_op *op)
{
    return weir_container_of(op, struct weir_job_service_request, op);
}

static void on_answer(struct weir_store_op *op)
{
    struct weir_job_service_request *request = request_of(op);
    struct weir_job_service *service = request->service;
    answer_from_store(request);
    weir_job_service_complete(service);
}

/* ---- submitting ---- */

/* The number of an order's queue; most orders have the queue of the one before. */
static uint32_t queue_of(const struct weir_job_service *service, const struct weir_job_order *order,
                         const struct weir_job_order *before, uint32_t number)
{
    return before != NULL && weir_slice_equal(before->queue, order->queue)
               ? number
               : weir_schedule_find_queue(service->schedule, order->queue);
}

static void withdraw(struct weir_job_service *service, const struct weir_job_order *order,
                     uint32_t queue)
{
    if (queue != UINT32_MAX) {
        weir_schedule_withdraw(
            service->schedule,
            &(struct weir_schedule_ask){
                .queue = queue, .tenant = order->tenant, .priority = order->priority, .count = 1});
    }
}

/* Enters a job into the schedule. If memory runs out, the next start finds it: it is on record. */
static void enter_job(struct weir_job_service *service, const struct weir_job_order *order,
                      uint32_t queue, uint64_t number, struct weir_instant now)
{
    struct weir_schedule_entry entry = {.number = number,
                                        .queue = queue,
                                        .tenant = order->tenant,
                                        .key = order->key,
                                        .priority = order->priority,
                                        .cost_ms = order->cost_ms,
                                        .created_ms = order->created_ms,
                                        .next_ms = order->due_ms,
                                        .dated = order->dated,
                                        .reserved = true};
    service->places[queue].tally.accepted++;
    service->tally.accepted++;
    service->dated = service->dated || order->dated;
    if (weir_schedule_enter(service->schedule, &entry, now) != WEIR_OK) {
        withdraw(service, order, queue);
    }
}

/* Takes jobs to drop, whose room newer jobs have taken, at most `jobs_max`. Under the lock; they
 * are dropped without it. Returns how many there were. */
static uint32_t drop_oldest(struct weir_job_service *service, uint32_t queue,
                            struct weir_instant now, uint32_t most, struct weir_link *dropped)
{
    uint32_t count = 0;
    uint64_t number;
    for (; count < most && weir_schedule_drop(service->schedule, queue, now, &number); count++) {
        struct weir_run *run = weir_run_create(service, number, queue);
        if (run == NULL) {
            weir_schedule_requeue(service->schedule, number, 0, now);
            break;
        }
        weir_run_move(run, WEIR_RUN_SETTLING);
        weir_list_push_back(dropped, &run->link);
    }
    return count;
}

/* Enters or gives up a part of the orders under one hold of the lock. */
static void enter_some(struct weir_job_service_request *request, uint32_t begin, uint32_t end)
{
    struct weir_job_service *service = request->service;
    const struct weir_store_accept *accept = &request->accept;
    const struct weir_job_order *before = NULL;
    struct weir_link dropped;
    uint32_t queue = UINT32_MAX;
    uint32_t may_drop = end - begin + DROP_BESIDES;
    weir_list_init(&dropped);
    struct weir_instant now = weir_job_service_lock(service);
    for (uint32_t i = begin; i < end; i++) {
        const struct weir_job_order *order = &accept->orders[i];
        queue = queue_of(service, order, before, queue);
        before = order;
        if (accept->op.end == WEIR_STORE_DONE && accept->acceptances[i].fresh &&
            queue != UINT32_MAX) {
            enter_job(service, order, queue, accept->acceptances[i].number, now);
            may_drop -= drop_oldest(service, queue, now, may_drop, &dropped);
        } else {
            withdraw(service, order, queue);
        }
    }
    weir_job_service_unlock(service, now);
    while (!weir_list_empty(&dropped)) {
        struct weir_run *run = weir_container_of(dropped.next, struct weir_run, link);
        weir_list_unlink(&run->link);
        weir_run_drop(run);
    }
}

static void enter_all(struct weir_job_service_request *request)
{
    uint32_t count = request->accept.order_count;
    for (uint32_t i = 0; i < count; i += ENTER_AT_ONCE) {
        enter_some(request, i, count - i < ENTER_AT_ONCE ? count : i + ENTER_AT_ONCE);
    }
}

static void on_accepted(struct weir_store_op *op)
{
    struct weir_job_service_request *request = request_of(op);
    struct weir_job_service *service = request->service;
    if (!request->repeats) {
        enter_all(request);
        op->end = op->end == WEIR_STORE_UNKNOWN ? WEIR_STORE_FULL : op->end;
    }
    answer_from_store(request);
    weir_job_service_complete(service);
}

/* Whether the orders may be submitted: DONE, else why not. A queue may be gone from the config. At
 * a queue's limit of dead letters the result is FULL, and only jobs that exist already are
 * answered. Under the lock. */
static enum weir_job_service_end judge_submission(struct weir_job_service *service,
                                                  const struct weir_store_accept *accept)
{
    const struct weir_job_order *before = NULL;
    uint32_t queue = UINT32_MAX;
    if (service->draining) {
        return WEIR_JOB_SERVICE_DRAINING;
    }
    for (uint32_t i = 0; i < accept->order_count; i++) {
        queue = queue_of(service, &accept->orders[i], before, queue);
        before = &accept->orders[i];
        const struct weir_config_queue *config =
            queue == UINT32_MAX ? NULL : weir_job_service_config(service, queue);
        if (config == NULL) {
            return WEIR_JOB_SERVICE_NO_QUEUE;
        }
        if (service->places[queue].tally.dead >= config->dead_max) {
            return WEIR_JOB_SERVICE_FULL;
        }
    }
    return WEIR_JOB_SERVICE_DONE;
}

void weir_job_service_submit(struct weir_job_service *service,
                             struct weir_job_service_request *request)
{
    assert(request->accept.order_count > 0);
    assert(request->accept.order_count <= WEIR_JOB_SERVICE_ORDERS_MAX);
    request->service = service;
    pthread_mutex_lock(&service->lock);
    enum weir_job_service_end end = judge_submission(service, &request->accept);
    pthread_mutex_unlock(&service->lock);
    if (end != WEIR_JOB_SERVICE_DONE && end != WEIR_JOB_SERVICE_FULL) {
        request->op = (struct weir_store_op){.end = WEIR_STORE_FULL};
        if (!request->repeats) {
            enter_all(request); /* their places are given back */
        }
        weir_job_service_answer(request, end, NULL);
        return;
    }
    request->accept.known_only = request->repeats || end == WEIR_JOB_SERVICE_FULL;
    hand_to_store(request, WEIR_STORE_ACCEPT, on_accepted);
}

/* ---- reading ---- */

void weir_job_service_look(struct weir_job_service *service,
                           struct weir_job_service_request *request)
{
    request->service = service;
    hand_to_store(request, WEIR_STORE_LOOK, on_answer);
}

void weir_job_service_list(struct weir_job_service *service,
                           struct weir_job_service_request *request)
{
    request->service = service;
    hand_to_store(request, WEIR_STORE_LIST, on_answer);
}

/* ---- cancelling ---- */

/* Where a cancellation finds its job. */
enum cancel_target {
    HELD,   /* the schedule holds it, for this run to retire it */
    TOLD,   /* it runs, and was asked to end */
    WAITS,  /* it must wait for a run's end */
    CHANGES /* it has changed meanwhile: look again */
};

static void wait_for(struct weir_run *run, struct weir_job_service_request *request)
{
    request->next = run->cancels;
    run->cancels = request;
}

/* Takes back a job whose turn has come but whose start is not on record: it is retired as if it
 * were in line. */
static void reclaim(struct weir_run *run, struct weir_instant now)
{
    struct weir_job_service *service = run->service;
    weir_list_unlink(&run->link);
    (void)!weir_schedule_end(service->schedule, run->number, run->epoch,
                             now); /* fails if it has lapsed */
    weir_run_move(run, WEIR_RUN_SETTLING);
}

/* Handles a job that has a run. Under the lock. */
static enum cancel_target see_run(struct weir_run *run, struct weir_instant now, bool *stop)
{
    switch (run->state) {
    case WEIR_RUN_IDLE:
        reclaim(run, now);
        return HELD;
    case WEIR_RUN_GOING:
    case WEIR_RUN_RUNNING:
        *stop = weir_run_stop(run, WEIR_HALT_CANCEL);
        return TOLD;
    case WEIR_RUN_TAKING:
        (void)weir_run_stop(run, WEIR_HALT_CANCEL);
        return WAITS;
    default:
        return WAITS;
    }
}

/* Holds a job in line, with a run that retires it. Also handles a job that is only on record,
 * because it has not entered the schedule yet or could not. */
static enum cancel_target see_line(struct weir_job_service *service,
                                   const struct weir_job_service_request *request,
                                   struct weir_instant now, struct weir_run **run)
{
    const struct weir_job_row *row = &request->look.row;
    uint32_t queue = weir_schedule_need_queue(service->schedule, row->order.queue, now);
    bool unknown =
        weir_schedule_look(service->schedule, row->number, now).place == WEIR_SCHEDULE_NOWHERE;
    if (row->state != WEIR_JOB_QUEUED || queue == UINT32_MAX) {
        return CHANGES;
    }
    if (!unknown && weir_schedule_hold(service->schedule, row->number, now) != WEIR_OK) {
        return CHANGES;
    }
    *run = weir_run_create(service, row->number, queue);
    if (*run == NULL) {
        if (!unknown) {
            weir_schedule_requeue(service->schedule, row->number, row->next_ms, now);
        }
        return CHANGES;
    }
    (*run)->entered = !unknown;
    weir_run_move(*run, WEIR_RUN_SETTLING);
    return HELD;
}

static void on_cancel_looked(struct weir_store_op *op);

static void look_to_cancel(struct weir_job_service_request *request)
{
    request->look = (struct weir_store_look){.id = request->id};
    hand_to_store(request, WEIR_STORE_LOOK, on_cancel_looked);
}

/* Looks again: at once, or a little later, or no more. */
static void try_again(struct weir_job_service_request *request)
{
    struct weir_job_service *service = request->service;
    free(request->op.memory);
    request->op.memory = NULL;
    request->tries++;
    if (request->tries > CANCEL_TRIES_MAX) {
        weir_job_service_answer(
            request, WEIR_JOB_SERVICE_FAILED,
            "the job is being recorded, which takes unusually long; try again later");
        return;
    }
    if (request->tries <= CANCEL_TRIES_AT_ONCE) {
        look_to_cancel(request);
        return;
    }
    struct weir_instant now = weir_job_service_lock(service);
    bool stopped = service->stopped;
    if (!stopped) {
        uint64_t retry_ns = now.now_ns + WEIR_JOB_SERVICE_RETRY_NS;
        request->again = look_to_cancel;
        service->retry_ns = service->retry_ns < retry_ns ? service->retry_ns : retry_ns;
        weir_list_push_back(&service->stuck_requests, &request->link);
    }
    weir_job_service_unlock(service, now);
    if (stopped) {
        weir_job_service_answer(request, WEIR_JOB_SERVICE_DRAINING, NULL);
    }
}

void weir_job_service_cancel_all_again(struct weir_job_service_request *requests)
{
    while (requests != NULL) {
        struct weir_job_service_request *next = requests->next;
        try_again(requests);
        requests = next;
    }
}

/* Cancels a job that exists and has not ended. A request that waits for a run is answered when the
 * run is over, perhaps as soon as the lock is released; the row and its memory belong to the run
 * then. */
static void cancel_row(struct weir_job_service_request *request)
{
    struct weir_job_service *service = request->service;
    bool stop = false;
    struct weir_instant now = weir_job_service_lock(service);
    struct weir_run *run = weir_job_service_find_run(service, request->look.row.number);
    enum cancel_target cancel_target =
        run != NULL ? see_run(run, now, &stop) : see_line(service, request, now, &run);
    struct weir_store_look look = request->look;
    if (cancel_target == HELD && run->snapshot == NULL) {
        run->snapshot = weir_config_snapshot_take(service->snapshot);
        run->config = weir_job_service_config(service, run->queue);
    }
    if (cancel_target == HELD || cancel_target == WAITS) {
        request->op.memory = NULL;
        wait_for(run, request);
    }
    weir_job_service_unlock(service, now);
    switch (cancel_target) {
    case HELD:
        run->row = look.row;
        run->memory = look.op.memory;
        weir_run_retire(run, WEIR_JOB_CANCELLED, "it was cancelled");
        break;
    case TOLD:
        if (stop) {
            weir_run_send_stop(run);
        }
        weir_job_service_answer(request, WEIR_JOB_SERVICE_DONE, NULL);
        break;
    case WAITS:
        free(look.op.memory);
        break;
    case CHANGES:
        try_again(request);
        break;
    }
}

static void on_cancel_looked(struct weir_store_op *op)
{
    struct weir_job_service_request *request = request_of(op);
    struct weir_job_service *service = request->service;
    enum weir_job_state state = request->look.row.state;
    if (op->end != WEIR_STORE_DONE) {
        answer_from_store(request);
    } else if (state != WEIR_JOB_QUEUED && state != WEIR_JOB_RUNNING) {
        weir_job_service_answer(request, WEIR_JOB_SERVICE_STALE, NULL);
    } else {
        cancel_row(request);
    }
    weir_job_service_complete(service);
}

void weir_job_service_cancel(struct weir_job_service *service,
                             struct weir_job_service_request *request)
{
    request->service = service;
    request->id = request->look.id;
    request->tries = 0;
    look_to_cancel(request);
}

/* ---- dead letters ---- */

static void count_less_dead(struct weir_job_service *service, uint32_t queue)
{
    uint64_t *dead = &service->places[queue].tally.dead;
    if (*dead > 0) {
        (*dead)--;
        service->tally.dead--;
    }
}

static void enter_redriven(struct weir_job_service *service, const struct weir_job_row *row,
                           struct weir_instant now)
{
    uint32_t queue = weir_schedule_need_queue(service->schedule, row->order.queue, now);
    if (queue == UINT32_MAX) {
        return;
    }
    count_less_dead(service, queue);
    struct weir_schedule_entry entry = {.number = row->number,
                                        .queue = queue,
                                        .tenant = row->order.tenant,
                                        .key = row->order.key,
                                        .priority = row->order.priority,
                                        .cost_ms = row->order.cost_ms,
                                        .created_ms = row->order.created_ms,
                                        .next_ms = row->next_ms,
                                        .dated = row->order.dated};
    (void)!weir_schedule_enter(service->schedule, &entry,
                               now); /* if it fails, the next start finds the job */
}

static void on_redriven(struct weir_store_op *op)
{
    struct weir_job_service_request *request = request_of(op);
    struct weir_job_service *service = request->service;
    const struct weir_store_redrive *redrive = &request->redrive;
    uint32_t count = op->end == WEIR_STORE_DONE ? redrive->row_count : 0;
    for (uint32_t i = 0; i < count;) {
        struct weir_instant now = weir_job_service_lock(service);
        for (uint32_t k = 0; k < ENTER_AT_ONCE && i < count; k++, i++) {
            enter_redriven(service, &redrive->rows[i], now);
        }
        weir_job_service_unlock(service, now);
    }
    answer_from_store(request);
    weir_job_service_complete(service);
}

void weir_job_service_redrive(struct weir_job_service *service,
                              struct weir_job_service_request *request)
{
    request->service = service;
    request->redrive.now_ms = weir_wall_ms();
    hand_to_store(request, WEIR_STORE_REDRIVE, on_redriven);
}

static void on_removed(struct weir_store_op *op)
{
    struct weir_job_service_request *request = request_of(op);
    struct weir_job_service *service = request->service;
    if (op->end == WEIR_STORE_DONE && request->queue != UINT32_MAX) {
        pthread_mutex_lock(&service->lock);
        count_less_dead(service, request->queue);
        pthread_mutex_unlock(&service->lock);
    }
    answer_from_store(request);
    weir_job_service_complete(service);
}

/* The look-up has found the queue of the dead letter. */
static void on_remove_looked(struct weir_store_op *op)
{
    struct weir_job_service_request *request = request_of(op);
    struct weir_job_service *service = request->service;
    if (op->end != WEIR_STORE_DONE) {
        answer_from_store(request);
    } else {
        pthread_mutex_lock(&service->lock);
        request->queue = weir_schedule_find_queue(service->schedule, request->look.row.order.queue);
        pthread_mutex_unlock(&service->lock);
        free(op->memory);
        request->remove =
            (struct weir_store_remove){.number = request->number, .now_ms = weir_wall_ms()};
        hand_to_store(request, WEIR_STORE_REMOVE, on_removed);
    }
    weir_job_service_complete(service);
}

void weir_job_service_remove(struct weir_job_service *service,
                             struct weir_job_service_request *request)
{
    request->service = service;
    request->number = request->remove.number;
    request->look = (struct weir_store_look){.number = request->number};
    hand_to_store(request, WEIR_STORE_LOOK, on_remove_looked);
}
