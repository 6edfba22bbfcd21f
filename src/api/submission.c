/* submission.c - the way of jobs into the store; submission.h shows it.
 *
 * One thing is under way at a time. Doors of several queues are asked in one order by all
 * submissions, and the first of a queue's asks for the places of all of them, so that no two
 * submissions wait for each other. Everything runs in the front end's loop. */
#define _GNU_SOURCE /* strerrordesc_np */
#include "api/submission.h"

#include "base/clock.h"
#include "base/slice.h"
#include "worker/config_snapshot.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- orders and their doors ---- */

const struct weir_config_queue *weir_submission_find_queue(const struct weir_submission *submission,
                                                           struct weir_job_order *order,
                                                           char room[WEIR_NAME_BYTES_MAX],
                                                           uint32_t *number)
{
    const struct weir_config_queue *queue =
        weir_job_service_queue(submission->job_service, order->queue, number);
    if (queue == NULL) {
        return NULL;
    }
    if (order->attempts_max == 0) {
        order->attempts_max = queue->attempts;
    }
    if (order->timeout_ms == 0) {
        order->timeout_ms = queue->timeout_ns / 1000000;
    }
    if (order->queue.bytes == 0) { /* the config's text may go before the job */
        assert(queue->name.bytes <= WEIR_NAME_BYTES_MAX);
        memcpy(room, queue->name.data, queue->name.bytes);
        order->queue = (struct weir_slice){room, queue->name.bytes};
    }
    return queue;
}

static int compare_asks(const struct weir_schedule_ask *a, const struct weir_schedule_ask *b)
{
    if (a->queue != b->queue) {
        return a->queue < b->queue ? -1 : 1;
    }
    if (a->priority != b->priority) {
        return a->priority < b->priority ? -1 : 1;
    }
    return weir_slice_compare(a->tenant, b->tenant);
}

static int compare_doors(const void *a, const void *b)
{
    return compare_asks(&((const struct weir_submission_door *)a)->admission.ask,
                        &((const struct weir_submission_door *)b)->admission.ask);
}

static void on_door(struct weir_post *post);

/* Neighbours that lead to the same share a door at once. */
void weir_submission_add_door(struct weir_submission *submission,
                              const struct weir_job_order *order, uint32_t queue,
                              struct weir_slice id, uint64_t deadline_ns)
{
    struct weir_schedule_ask ask = {
        .queue = queue, .tenant = order->tenant, .priority = order->priority, .count = 1};
    if (submission->door_count > 0) {
        struct weir_schedule_ask *last =
            &submission->doors[submission->door_count - 1].admission.ask;
        if (compare_asks(last, &ask) == 0) {
            last->count++;
            return;
        }
    }
    submission->doors[submission->door_count++] =
        (struct weir_submission_door){.submission = submission,
                                      .queue = order->queue,
                                      .admission = {.on_done = {.arrive = on_door},
                                                    .loop = &submission->worker->loop,
                                                    .ask = ask,
                                                    .id = id,
                                                    .deadline_ns = deadline_ns}};
}

void weir_submission_merge_doors(struct weir_submission *submission)
{
    struct weir_submission_door *doors = submission->doors;
    uint32_t kept = 0;
    qsort(doors, submission->door_count, sizeof doors[0], compare_doors);
    for (uint32_t i = 1; i < submission->door_count; i++) {
        if (compare_doors(&doors[kept], &doors[i]) == 0) {
            doors[kept].admission.ask.count += doors[i].admission.ask.count;
        } else {
            doors[++kept] = doors[i];
        }
    }
    submission->door_count = kept + 1;
}

/* The first door of each queue asks for the places of all of its. */
static void seat(struct weir_submission *submission)
{
    struct weir_schedule_ask *first = &submission->doors[0].admission.ask;
    for (uint32_t i = 1; i < submission->door_count; i++) {
        struct weir_schedule_ask *ask = &submission->doors[i].admission.ask;
        ask->seated = ask->queue == first->queue;
        if (ask->seated) {
            first->besides[ask->priority] += ask->count;
        } else {
            first = ask;
        }
    }
}

/* ---- steps ---- */

static void finish(struct weir_submission *submission, struct weir_job_refusal refusal)
{
    submission->state = WEIR_SUBMISSION_ENDED;
    submission->refusal = refusal;
}

/* As if nothing had been asked. */
static void give_places_back(struct weir_submission *submission)
{
    for (uint32_t i = 0; i < submission->asked; i++) {
        if (submission->doors[i].inside) {
            submission->doors[i].inside = false;
            weir_job_service_revoke(submission->job_service, &submission->doors[i].admission);
        }
    }
}

/* Places that were taken for jobs which do not come: that counts against the tenant's rate. */
static void abandon_places(struct weir_submission *submission)
{
    for (uint32_t i = 0; i < submission->door_count; i++) {
        if (submission->doors[i].inside) {
            submission->doors[i].inside = false;
            (void)!weir_job_service_leave_admission(submission->job_service,
                                                    &submission->doors[i].admission);
        }
    }
}

/* The file stays if a job refers to it. */
static void settle_spool(struct weir_submission *submission)
{
    struct weir_job_spool *spool = submission->spool;
    submission->spool = NULL;
    if (spool == NULL) {
        return;
    }
    if (submission->request.end == WEIR_JOB_SERVICE_DONE && submission->acceptances[0].fresh) {
        weir_job_spool_keep(spool);
    } else {
        weir_spool_drop(&spool->spool);
    }
}

static void on_answer(struct weir_post *post);

/* Hands the orders to the store; with `repeats` only those that are there already count. */
static void submit(struct weir_submission *submission, bool repeats)
{
    struct weir_job_service_request *request = &submission->request;
    *request = (struct weir_job_service_request){
        .on_done = {.arrive = on_answer}, .loop = &submission->worker->loop, .repeats = repeats};
    request->accept.orders = submission->orders;
    request->accept.order_count = submission->order_count;
    request->accept.acceptances = submission->acceptances;
    submission->state = WEIR_SUBMISSION_UNDER_WAY;
    weir_job_service_submit(submission->job_service, request);
}

/* Goes on to the next door. Where there is no room, all orders may be there already, and need none.
 */
static void pass_doors(struct weir_submission *submission)
{
    for (; submission->asked < submission->door_count; submission->asked++) {
        struct weir_submission_door *door = &submission->doors[submission->asked];
        struct weir_job_admission *admission = &door->admission;
        admission->at_once = submission->repeatable;
        if (!submission->at_door && !weir_job_service_ask(submission->job_service, admission)) {
            submission->at_door = true;
            submission->state = WEIR_SUBMISSION_UNDER_WAY;
            return;
        }
        submission->at_door = false;
        door->inside = admission->answer == WEIR_SCHEDULE_COME;
        if (admission->answer == WEIR_SCHEDULE_FULL && admission->at_once) {
            submission->repeatable = false;
            submission->looking = true;
            submit(submission, true);
            return;
        }
        if (!door->inside) {
            give_places_back(submission);
            finish(submission, weir_job_refusal_by_admission(admission, door->queue));
            return;
        }
    }
    submission->state = WEIR_SUBMISSION_OPEN;
}

void weir_submission_enter(struct weir_submission *submission)
{
    assert(submission->state == WEIR_SUBMISSION_NEW);
    assert(submission->door_count > 0);
    seat(submission);
    pass_doors(submission);
}

void weir_submission_commit(struct weir_submission *submission)
{
    assert(submission->state == WEIR_SUBMISSION_OPEN);
    if (submission->params != NULL) {
        submission->orders[0].created_ms = weir_wall_ms();
        weir_job_params_apply(submission->params, &submission->orders[0]);
    }
    for (uint32_t i = 0; i < submission->door_count; i++) {
        submission->doors[i].inside = false; /* places are the job service's business from now on */
    }
    submission->committed_ns = submission->worker->loop.now_ns;
    submit(submission, submission->doors[0].admission.known);
}

/* ---- the body ---- */

static void on_spooled(struct weir_post *post);

static void fail_body(struct weir_submission *submission, enum weir_job_refusal_reason reason,
                      const char *error)
{
    abandon_places(submission);
    finish(submission, (struct weir_job_refusal){.reason = reason, .what = weir_slice_of(error)});
}

/* A long body is not begun while nothing can be recorded. */
static bool begin_spool(struct weir_submission *submission)
{
    struct weir_job_service *job_service = submission->job_service;
    struct weir_job_service_counts counts;
    weir_job_service_count(job_service, &counts);
    if (!counts.store.working) {
        fail_body(submission, WEIR_JOB_REFUSED_BODY,
                  counts.store.error == NULL ? "" : counts.store.error);
        return false;
    }
    submission->spool = weir_job_spool_create(weir_job_service_disk(job_service),
                                              weir_job_service_store(job_service),
                                              &submission->worker->loop, on_spooled);
    if (submission->spool == NULL) {
        fail_body(submission, WEIR_JOB_REFUSED_MEMORY, "");
        return false;
    }
    submission->spool->owner = submission;
    return true;
}

void weir_submission_take(struct weir_submission *submission, struct weir_slice piece, bool last)
{
    struct weir_job_order *order = &submission->orders[0];
    assert(submission->state == WEIR_SUBMISSION_OPEN);
    if (!last || submission->spool != NULL) {
        if (submission->spool != NULL || begin_spool(submission)) {
            submission->state = WEIR_SUBMISSION_UNDER_WAY;
            weir_spool_write(&submission->spool->spool, piece, last);
        }
        return;
    }
    order->body = (struct weir_job_bytes){.count = piece.bytes, .bytes = piece};
    if (weir_hasher_digest(submission->worker->hasher, piece, order->digest)) {
        weir_submission_commit(submission);
    } else {
        fail_body(submission, WEIR_JOB_REFUSED_DIGEST, "");
    }
}

/* A piece has been written. If that was not the last, more may come. */
static void go_on_spooling(struct weir_submission *submission)
{
    const struct weir_job_spool *spool = submission->spool;
    struct weir_job_order *order = &submission->orders[0];
    submission->state = WEIR_SUBMISSION_OPEN;
    if (spool->spool.error != 0) {
        fail_body(submission, WEIR_JOB_REFUSED_BODY, strerrordesc_np(spool->spool.error));
    } else if (spool->spool.last) {
        memcpy(order->digest, spool->digest, sizeof spool->digest);
        order->body = (struct weir_job_bytes){.count = spool->spool.bytes, .file = spool->file};
        weir_submission_commit(submission);
    }
}

/* ---- the store's answer ---- */

/* The one whose id was taken. */
static struct weir_slice conflicting_id(const struct weir_submission *submission)
{
    for (uint32_t i = 0; i < submission->order_count; i++) {
        if (submission->acceptances[i].conflict) {
            return submission->orders[i].id;
        }
    }
    return submission->orders[0].id;
}

/* The one that has gone meanwhile. */
static struct weir_slice missing_queue(const struct weir_submission *submission)
{
    uint32_t number, i = 0;
    while (i + 1 < submission->door_count &&
           weir_job_service_queue(submission->job_service, submission->doors[i].queue, &number) !=
               NULL) {
        i++;
    }
    return submission->doors[i].queue;
}

static struct weir_job_refusal judge_answer(const struct weir_submission *submission)
{
    const struct weir_submission_door *door = &submission->doors[0];
    switch (submission->request.end) {
    case WEIR_JOB_SERVICE_DONE:
        return (struct weir_job_refusal){0};
    case WEIR_JOB_SERVICE_UNKNOWN: /* forgotten since the door: it is new, and has no place */
        return weir_job_refusal_by_admission(&door->admission, door->queue);
    default:
        return weir_job_refusal_by_end(&submission->request, missing_queue(submission),
                                       conflicting_id(submission));
    }
}

/* ---- what arrives: nothing more is begun for a client that has gone ---- */

static void on_door(struct weir_post *post)
{
    struct weir_job_admission *admission =
        weir_container_of(post, struct weir_job_admission, on_done);
    struct weir_submission *submission =
        weir_container_of(admission, struct weir_submission_door, admission)->submission;
    if (!submission->left) {
        pass_doors(submission);
    }
    submission->arrived(submission);
}

static void on_spooled(struct weir_post *post)
{
    struct weir_job_spool *spool = weir_container_of(post, struct weir_job_spool, spool.on_done);
    struct weir_submission *submission = spool->owner;
    if (!submission->left) {
        go_on_spooling(submission);
    }
    submission->arrived(submission);
}

static void on_answer(struct weir_post *post)
{
    struct weir_job_service_request *request =
        weir_container_of(post, struct weir_job_service_request, on_done);
    struct weir_submission *submission =
        weir_container_of(request, struct weir_submission, request);
    bool looked = submission->looking;
    submission->looking = false;
    if (!submission->left && looked && request->end == WEIR_JOB_SERVICE_UNKNOWN) {
        pass_doors(submission); /* some are new: they are to wait, or to be refused */
    } else if (!submission->left) {
        give_places_back(submission);
        settle_spool(submission);
        finish(submission, judge_answer(submission));
    }
    submission->arrived(submission);
}

/* ---- its end ---- */

bool weir_submission_cancel(struct weir_submission *submission)
{
    bool open = submission->state == WEIR_SUBMISSION_OPEN || submission->spool != NULL;
    submission->left = true;
    if (open) {
        abandon_places(submission);
    } else {
        give_places_back(submission);
    }
    if (!submission->at_door) {
        return false;
    }
    submission->at_door = false;
    return weir_job_service_leave_admission(submission->job_service,
                                            &submission->doors[submission->asked].admission);
}

void weir_submission_deinit(struct weir_submission *submission)
{
    settle_spool(submission);
    free(submission->request.op.memory);
}
