#include "runner/desk_parts.h"

#include "base/slice.h"

#include <assert.h>
#include <stdlib.h>

/* How many jobs enter the schedule under one hold of the lock. */
#define ENTER_AT_ONCE 256

/* How many may be dropped then for whom no newer one has come: a reload has shortened their line,
 * or a redrive has filled it. The rest go when the next ones come. */
#define DROP_BESIDES 256

/* How often a cancellation looks again while its job changes under its eyes; then it says so. */
#define CANCEL_TRIES_MAX 20

/* How many of them follow each other at once. */
#define CANCEL_TRIES_AT_ONCE 3

/* ---- answering ---- */

void weir_desk_answer(struct weir_desk_request *request, enum weir_desk_end end, const char *wrong)
{
    request->end = end;
    request->wrong = wrong;
    weir_loop_post(request->loop, &request->told);
}

void weir_desk_answer_all(struct weir_desk_request *requests, enum weir_desk_end end,
                          const char *wrong)
{
    while (requests != NULL) {
        struct weir_desk_request *next = requests->next;
        weir_desk_answer(requests, end, wrong);
        requests = next;
    }
}

/* What the store said is what is answered. */
static void pass_on(struct weir_desk_request *request)
{
    static const enum weir_desk_end ends[] = {
        [WEIR_STORE_DONE] = WEIR_DESK_DONE,   [WEIR_STORE_UNKNOWN] = WEIR_DESK_UNKNOWN,
        [WEIR_STORE_STALE] = WEIR_DESK_STALE, [WEIR_STORE_CONFLICT] = WEIR_DESK_CONFLICT,
        [WEIR_STORE_FULL] = WEIR_DESK_FULL,   [WEIR_STORE_FAILED] = WEIR_DESK_FAILED};
    weir_desk_answer(request, ends[request->op.end], request->op.wrong);
}

/* Hands the request's operation to the store. What is asked once nobody runs any more is refused.
 */
static void hand(struct weir_desk_request *request, enum weir_store_act act,
                 void (*complete)(struct weir_store_op *op))
{
    struct weir_desk *desk = request->desk;
    request->op = (struct weir_store_op){.act = act, .complete = complete};
    pthread_mutex_lock(&desk->lock);
    bool stopped = desk->stopped;
    pthread_mutex_unlock(&desk->lock);
    if (stopped) {
        weir_desk_answer(request, WEIR_DESK_DRAINING, NULL);
    } else {
        weir_desk_hand(desk, &request->op);
    }
}

static struct weir_desk_request *request_of(struct weir_store_op *op)
{
    return weir_container_of(op, struct weir_desk_request, op);
}

static void on_answer(struct weir_store_op *op)
{
    struct weir_desk_request *request = request_of(op);
    struct weir_desk *desk = request->desk;
    pass_on(request);
    weir_desk_complete(desk);
}

/* ---- submitting ---- */

/* The number of an order's queue; most are of the same as the one before. */
static uint32_t queue_of(const struct weir_desk *desk, const struct weir_job_order *order,
                         const struct weir_job_order *before, uint32_t number)
{
    return before != NULL && weir_slice_equal(before->queue, order->queue)
               ? number
               : weir_schedule_find_queue(desk->schedule, order->queue);
}

static void withdraw(struct weir_desk *desk, const struct weir_job_order *order, uint32_t queue)
{
    if (queue != UINT32_MAX) {
        weir_schedule_withdraw(
            desk->schedule,
            &(struct weir_schedule_ask){
                .queue = queue, .tenant = order->tenant, .priority = order->priority, .count = 1});
    }
}

/* A job takes its place. Without memory for it, it is found at the next start: it is on record. */
static void enter(struct weir_desk *desk, const struct weir_job_order *order, uint32_t queue,
                  uint64_t number, struct weir_instant now)
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
    desk->places[queue].tally.accepted++;
    desk->tally.accepted++;
    desk->dated = desk->dated || order->dated;
    if (weir_schedule_enter(desk->schedule, &entry, now) != WEIR_OK) {
        withdraw(desk, order, queue);
    }
}

/* Those for which newer ones have taken the room, at most so many. Under the lock; the result is to
 * be dropped without it. Returns how many there were. */
static uint32_t drop_oldest(struct weir_desk *desk, uint32_t queue, struct weir_instant now,
                            uint32_t most, struct weir_link *dropped)
{
    uint32_t count = 0;
    uint64_t number;
    for (; count < most && weir_schedule_drop(desk->schedule, queue, now, &number); count++) {
        struct weir_run *run = weir_run_create(desk, number, queue);
        if (run == NULL) {
            weir_schedule_requeue(desk->schedule, number, 0, now);
            break;
        }
        weir_run_move(run, WEIR_RUN_SETTLING);
        weir_list_push_back(dropped, &run->link);
    }
    return count;
}

/* Some of what was accepted, or could not be, under one hold of the lock. */
static void enter_some(struct weir_desk_request *request, uint32_t begin, uint32_t end)
{
    struct weir_desk *desk = request->desk;
    const struct weir_store_accept *accept = &request->accept;
    const struct weir_job_order *before = NULL;
    struct weir_link dropped;
    uint32_t queue = UINT32_MAX;
    uint32_t may_drop = end - begin + DROP_BESIDES;
    weir_list_init(&dropped);
    struct weir_instant now = weir_desk_lock(desk);
    for (uint32_t i = begin; i < end; i++) {
        const struct weir_job_order *order = &accept->orders[i];
        queue = queue_of(desk, order, before, queue);
        before = order;
        if (accept->op.end == WEIR_STORE_DONE && accept->acceptances[i].fresh &&
            queue != UINT32_MAX) {
            enter(desk, order, queue, accept->acceptances[i].number, now);
            may_drop -= drop_oldest(desk, queue, now, may_drop, &dropped);
        } else {
            withdraw(desk, order, queue);
        }
    }
    weir_desk_unlock(desk, now);
    while (!weir_list_empty(&dropped)) {
        struct weir_run *run = weir_container_of(dropped.next, struct weir_run, link);
        weir_list_unlink(&run->link);
        weir_run_drop(run);
    }
}

static void enter_all(struct weir_desk_request *request)
{
    uint32_t count = request->accept.order_count;
    for (uint32_t i = 0; i < count; i += ENTER_AT_ONCE) {
        enter_some(request, i, count - i < ENTER_AT_ONCE ? count : i + ENTER_AT_ONCE);
    }
}

static void on_accepted(struct weir_store_op *op)
{
    struct weir_desk_request *request = request_of(op);
    struct weir_desk *desk = request->desk;
    if (!request->repeats) {
        enter_all(request);
        op->end = op->end == WEIR_STORE_UNKNOWN ? WEIR_STORE_FULL : op->end;
    }
    pass_on(request);
    weir_desk_complete(desk);
}

/* Whether they may be handed in: DONE, else why not. A queue may have gone, or have as many dead
 * letters as it may: FULL, and only those are answered for that are there already. Under the lock.
 */
static enum weir_desk_end judge(struct weir_desk *desk, const struct weir_store_accept *accept)
{
    const struct weir_job_order *before = NULL;
    uint32_t queue = UINT32_MAX;
    if (desk->draining) {
        return WEIR_DESK_DRAINING;
    }
    for (uint32_t i = 0; i < accept->order_count; i++) {
        queue = queue_of(desk, &accept->orders[i], before, queue);
        before = &accept->orders[i];
        const struct weir_config_queue *config =
            queue == UINT32_MAX ? NULL : weir_desk_config(desk, queue);
        if (config == NULL) {
            return WEIR_DESK_NO_QUEUE;
        }
        if (desk->places[queue].tally.dead >= config->dead_max) {
            return WEIR_DESK_FULL;
        }
    }
    return WEIR_DESK_DONE;
}

void weir_desk_submit(struct weir_desk *desk, struct weir_desk_request *request)
{
    assert(request->accept.order_count > 0);
    assert(request->accept.order_count <= WEIR_DESK_ORDERS_MAX);
    request->desk = desk;
    pthread_mutex_lock(&desk->lock);
    enum weir_desk_end end = judge(desk, &request->accept);
    pthread_mutex_unlock(&desk->lock);
    if (end != WEIR_DESK_DONE && end != WEIR_DESK_FULL) {
        request->op = (struct weir_store_op){.end = WEIR_STORE_FULL};
        if (!request->repeats) {
            enter_all(request); /* their places are given back */
        }
        weir_desk_answer(request, end, NULL);
        return;
    }
    request->accept.known_only = request->repeats || end == WEIR_DESK_FULL;
    hand(request, WEIR_STORE_ACCEPT, on_accepted);
}

/* ---- reading ---- */

void weir_desk_look(struct weir_desk *desk, struct weir_desk_request *request)
{
    request->desk = desk;
    hand(request, WEIR_STORE_LOOK, on_answer);
}

void weir_desk_list(struct weir_desk *desk, struct weir_desk_request *request)
{
    request->desk = desk;
    hand(request, WEIR_STORE_LIST, on_answer);
}

/* ---- cancelling ---- */

/* What a cancellation finds. */
enum sight {
    HELD,   /* by the schedule, for this run to retire it */
    TOLD,   /* it runs, and is made to end */
    WAITS,  /* for a run's end */
    CHANGES /* it is something else by now: look again */
};

static void wait_for(struct weir_run *run, struct weir_desk_request *request)
{
    request->next = run->cancels;
    run->cancels = request;
}

/* Its turn has come, but nothing of it is on record: it is retired as if it stood in line. */
static void reclaim(struct weir_run *run, struct weir_instant now)
{
    struct weir_desk *desk = run->desk;
    weir_list_unlink(&run->link);
    (void)!weir_schedule_end(desk->schedule, run->number, run->epoch, now); /* or it has lapsed */
    weir_run_move(run, WEIR_RUN_SETTLING);
}

/* A run that is there already. Under the lock. */
static enum sight see_run(struct weir_run *run, struct weir_instant now, bool *stop)
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

/* One that stands in line is held, with a run that sees to its end. One that is on record only, as
 * it has not entered yet or could not, as well. */
static enum sight see_line(struct weir_desk *desk, const struct weir_desk_request *request,
                           struct weir_instant now, struct weir_run **run)
{
    const struct weir_job_row *row = &request->look.row;
    uint32_t queue = weir_schedule_need_queue(desk->schedule, row->order.queue, now);
    bool unknown =
        weir_schedule_look(desk->schedule, row->number, now).place == WEIR_SCHEDULE_NOWHERE;
    if (row->state != WEIR_JOB_QUEUED || queue == UINT32_MAX) {
        return CHANGES;
    }
    if (!unknown && weir_schedule_hold(desk->schedule, row->number, now) != WEIR_OK) {
        return CHANGES;
    }
    *run = weir_run_create(desk, row->number, queue);
    if (*run == NULL) {
        if (!unknown) {
            weir_schedule_requeue(desk->schedule, row->number, row->next_ms, now);
        }
        return CHANGES;
    }
    (*run)->entered = !unknown;
    weir_run_move(*run, WEIR_RUN_SETTLING);
    return HELD;
}

static void on_cancel_looked(struct weir_store_op *op);

static void look_to_cancel(struct weir_desk_request *request)
{
    request->look = (struct weir_store_look){.id = request->id};
    hand(request, WEIR_STORE_LOOK, on_cancel_looked);
}

/* Looks again: at once, or a little later, or no more. */
static void try_again(struct weir_desk_request *request)
{
    struct weir_desk *desk = request->desk;
    free(request->op.memory);
    request->op.memory = NULL;
    request->tries++;
    if (request->tries > CANCEL_TRIES_MAX) {
        weir_desk_answer(request, WEIR_DESK_FAILED,
                         "the job is being recorded, which takes unusually long; try again later");
        return;
    }
    if (request->tries <= CANCEL_TRIES_AT_ONCE) {
        look_to_cancel(request);
        return;
    }
    struct weir_instant now = weir_desk_lock(desk);
    bool stopped = desk->stopped;
    if (!stopped) {
        uint64_t retry_ns = now.now_ns + WEIR_DESK_RETRY_NS;
        request->again = look_to_cancel;
        desk->retry_ns = desk->retry_ns < retry_ns ? desk->retry_ns : retry_ns;
        weir_list_push_back(&desk->stuck_requests, &request->link);
    }
    weir_desk_unlock(desk, now);
    if (stopped) {
        weir_desk_answer(request, WEIR_DESK_DRAINING, NULL);
    }
}

void weir_desk_cancel_all_again(struct weir_desk_request *requests)
{
    while (requests != NULL) {
        struct weir_desk_request *next = requests->next;
        try_again(requests);
        requests = next;
    }
}

/* The job is neither over nor unknown. Whoever waits for a run is told when that is over, perhaps
 * as soon as the lock is gone; the row and its memory are the run's then. */
static void cancel_row(struct weir_desk_request *request)
{
    struct weir_desk *desk = request->desk;
    bool stop = false;
    struct weir_instant now = weir_desk_lock(desk);
    struct weir_run *run = weir_desk_find_run(desk, request->look.row.number);
    enum sight sight = run != NULL ? see_run(run, now, &stop) : see_line(desk, request, now, &run);
    struct weir_store_look look = request->look;
    if (sight == HELD && run->plan == NULL) {
        run->plan = weir_plan_take(desk->plan);
        run->config = weir_desk_config(desk, run->queue);
    }
    if (sight == HELD || sight == WAITS) {
        request->op.memory = NULL;
        wait_for(run, request);
    }
    weir_desk_unlock(desk, now);
    switch (sight) {
    case HELD:
        run->row = look.row;
        run->memory = look.op.memory;
        weir_run_retire(run, WEIR_JOB_CANCELLED, "it was cancelled");
        break;
    case TOLD:
        if (stop) {
            weir_run_send_stop(run);
        }
        weir_desk_answer(request, WEIR_DESK_DONE, NULL);
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
    struct weir_desk_request *request = request_of(op);
    struct weir_desk *desk = request->desk;
    enum weir_job_state state = request->look.row.state;
    if (op->end != WEIR_STORE_DONE) {
        pass_on(request);
    } else if (state != WEIR_JOB_QUEUED && state != WEIR_JOB_RUNNING) {
        weir_desk_answer(request, WEIR_DESK_STALE, NULL);
    } else {
        cancel_row(request);
    }
    weir_desk_complete(desk);
}

void weir_desk_cancel(struct weir_desk *desk, struct weir_desk_request *request)
{
    request->desk = desk;
    request->id = request->look.id;
    request->tries = 0;
    look_to_cancel(request);
}

/* ---- dead letters ---- */

static void count_less_dead(struct weir_desk *desk, uint32_t queue)
{
    uint64_t *dead = &desk->places[queue].tally.dead;
    if (*dead > 0) {
        (*dead)--;
        desk->tally.dead--;
    }
}

static void enter_redriven(struct weir_desk *desk, const struct weir_job_row *row,
                           struct weir_instant now)
{
    uint32_t queue = weir_schedule_need_queue(desk->schedule, row->order.queue, now);
    if (queue == UINT32_MAX) {
        return;
    }
    count_less_dead(desk, queue);
    struct weir_schedule_entry entry = {.number = row->number,
                                        .queue = queue,
                                        .tenant = row->order.tenant,
                                        .key = row->order.key,
                                        .priority = row->order.priority,
                                        .cost_ms = row->order.cost_ms,
                                        .created_ms = row->order.created_ms,
                                        .next_ms = row->next_ms,
                                        .dated = row->order.dated};
    (void)!weir_schedule_enter(desk->schedule, &entry, now); /* or it is found at the next start */
}

static void on_redriven(struct weir_store_op *op)
{
    struct weir_desk_request *request = request_of(op);
    struct weir_desk *desk = request->desk;
    const struct weir_store_redrive *redrive = &request->redrive;
    uint32_t count = op->end == WEIR_STORE_DONE ? redrive->row_count : 0;
    for (uint32_t i = 0; i < count;) {
        struct weir_instant now = weir_desk_lock(desk);
        for (uint32_t k = 0; k < ENTER_AT_ONCE && i < count; k++, i++) {
            enter_redriven(desk, &redrive->rows[i], now);
        }
        weir_desk_unlock(desk, now);
    }
    pass_on(request);
    weir_desk_complete(desk);
}

void weir_desk_redrive(struct weir_desk *desk, struct weir_desk_request *request)
{
    request->desk = desk;
    request->redrive.now_ms = weir_wall_ms();
    hand(request, WEIR_STORE_REDRIVE, on_redriven);
}

static void on_removed(struct weir_store_op *op)
{
    struct weir_desk_request *request = request_of(op);
    struct weir_desk *desk = request->desk;
    if (op->end == WEIR_STORE_DONE && request->queue != UINT32_MAX) {
        pthread_mutex_lock(&desk->lock);
        count_less_dead(desk, request->queue);
        pthread_mutex_unlock(&desk->lock);
    }
    pass_on(request);
    weir_desk_complete(desk);
}

/* It is known now whose letter it is. */
static void on_remove_looked(struct weir_store_op *op)
{
    struct weir_desk_request *request = request_of(op);
    struct weir_desk *desk = request->desk;
    if (op->end != WEIR_STORE_DONE) {
        pass_on(request);
    } else {
        pthread_mutex_lock(&desk->lock);
        request->queue = weir_schedule_find_queue(desk->schedule, request->look.row.order.queue);
        pthread_mutex_unlock(&desk->lock);
        free(op->memory);
        request->remove =
            (struct weir_store_remove){.number = request->number, .now_ms = weir_wall_ms()};
        hand(request, WEIR_STORE_REMOVE, on_removed);
    }
    weir_desk_complete(desk);
}

void weir_desk_remove(struct weir_desk *desk, struct weir_desk_request *request)
{
    request->desk = desk;
    request->number = request->remove.number;
    request->look = (struct weir_store_look){.number = request->number};
    hand(request, WEIR_STORE_LOOK, on_remove_looked);
}
