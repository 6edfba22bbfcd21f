/* submit.c - one job.
 *
 *     begin -> [door] -> reading -> [spool, for each piece of a long body] -> [commit] -> reply
 *                                                                          -> [wait] -> result
 *
 * In brackets is what is waited for. Wherever the client goes away: whoever waits at the door
 * leaves it, places that no job has taken are given back, a file that no job refers to is removed.
 * What has been handed to the job service stays until it is answered, and the client's buffer, into
 * which the order points, with it. */
#define _GNU_SOURCE /* strerror_r */
#include "api/submit.h"

#include "api/handlers.h"
#include "api/job_document.h"
#include "api/job_reply.h"
#include "api/spool.h"
#include "api/submit_head.h"
#include "base/slice.h"

#include <stdio.h>

enum queue_place {
    NOWHERE, /* no places are its own */
    AT_DOOR, /* it waits for one */
    INSIDE   /* it has one */
};

struct submission {
    struct weir_job_call job;
    struct weir_submit_head head;
    bool made; /* its id is a new one */
    enum queue_place place;
    struct weir_job_admission door;
    struct weir_job_order order;
    struct weir_acceptance acceptance;
    struct weir_spool *spool; /* of a long body */
    struct weir_buffer body;  /* the client's, once that has gone */
    uint64_t body_bytes_max;  /* what the queue takes */
    char queue[WEIR_NAME_BYTES_MAX];
};

static struct submission *submission_of(struct weir_job_call *job)
{
    return weir_container_of(job, struct submission, job);
}

/* ---- what is refused ---- */

void weir_submit_refuse_queue(struct weir_call *call, struct weir_slice name)
{
    char detail[400];
    snprintf(detail, sizeof detail,
             "There is no queue called %.*s. GET /capacity lists those that are there.",
             (int)(name.bytes < 255 ? name.bytes : 255), name.data);
    weir_call_problem(call, WEIR_PROBLEM_NOT_FOUND, 404, detail);
}

void weir_submit_refuse_conflict(struct weir_call *call, struct weir_slice id)
{
    char detail[400];
    snprintf(detail, sizeof detail,
             "The id %.*s is taken by a job with another body, or of another tenant; for 7 days "
             "after its end. Use an id of your own for each job.",
             (int)id.bytes, id.data);
    weir_call_problem(call, WEIR_PROBLEM_JOB_CONFLICT, 409, detail);
}

static void refuse_draining(struct weir_call *call)
{
    weir_call_problem(call, WEIR_PROBLEM_DRAINING, 503,
                      "This server ends, and accepts no jobs. Submit to the one that is started "
                      "next.");
}

void weir_submit_refuse_door(struct weir_call *call, const struct weir_job_admission *door,
                             struct weir_slice queue)
{
    char detail[500];
    struct weir_problem problem = {.kind = WEIR_PROBLEM_QUEUE_FULL,
                                   .status = 429,
                                   .detail = detail,
                                   .retry_ns = door->retry_after_ns};
    int bytes = (int)(queue.bytes < 255 ? queue.bytes : 255);
    if (door->answer == WEIR_SCHEDULE_NO_QUEUE) {
        weir_submit_refuse_queue(call, queue);
        return;
    }
    if (door->answer == WEIR_SCHEDULE_FULL && door->drains) {
        refuse_draining(call);
        return;
    }
    if (door->answer == WEIR_SCHEDULE_TOO_FAST) {
        problem.kind = WEIR_PROBLEM_RATE;
        snprintf(detail, sizeof detail,
                 "The tenant submits to the queue %.*s faster than its rate allows. Try again "
                 "after Retry-After.",
                 bytes, queue.data);
    } else {
        snprintf(detail, sizeof detail,
                 "The queue %.*s holds as many jobs as it may. Try again after Retry-After, by "
                 "which some will have been done.",
                 bytes, queue.data);
    }
    weir_call_refuse(call, &problem);
}

static void refuse_store(struct weir_call *call, const char *why)
{
    char detail[300];
    snprintf(detail, sizeof detail,
             "The body cannot be written to the disk: %.150s. Try again later.", why);
    struct weir_problem problem = {.kind = WEIR_PROBLEM_STORE_FAILED,
                                   .status = 503,
                                   .detail = detail,
                                   .retry_ns = 5 * WEIR_NS_PER_SECOND};
    weir_call_refuse(call, &problem);
}

/* ---- its end ---- */

/* The file stays if a job refers to it. */
static void settle_spool(struct submission *submission)
{
    struct weir_spool *spool = submission->spool;
    submission->spool = NULL;
    if (spool != NULL && submission->job.request.end == WEIR_JOB_SERVICE_DONE &&
        submission->acceptance.fresh) {
        weir_spool_keep(spool);
    } else if (spool != NULL) {
        weir_spool_drop(spool);
    }
}

static void drop_submission(struct weir_call *call)
{
    struct submission *submission = call->context;
    settle_spool(submission);
    weir_buffer_release(&call->worker->buffers, &submission->body);
    weir_job_drop(call);
}

static void leave_submission(struct weir_call *call)
{
    struct submission *submission = call->context;
    struct weir_job_call *job = &submission->job;
    enum queue_place place = submission->place;
    submission->place = NOWHERE;
    if (place != NOWHERE && weir_job_service_leave_admission(job->job_service, &submission->door) &&
        place == AT_DOOR) {
        weir_call_withdraw(call);
    }
    weir_job_leave(call);
    if (call->under_way > 0 && call->reader.bytes > 0) { /* what is under way points into it */
        submission->body = call->client->in;
        call->client->in = (struct weir_buffer){0};
    }
}

/* ---- the reply ---- */

/* What is on record now is what was ordered; so nothing is looked up. */
static bool produce_accepted(struct weir_call *call, struct weir_json *json)
{
    const struct submission *submission = call->context;
    struct weir_job_row row = {.number = submission->acceptance.number,
                               .order = submission->order,
                               .state = submission->acceptance.state};
    weir_job_document(json, &row, NULL);
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

/* What the job became while it was waited for. */
static void tell_end(struct weir_job_call *job)
{
    const struct weir_job_row *row = &job->request.look.row;
    job->call->response.fields = weir_job_put_location;
    if (job->request.end != WEIR_JOB_SERVICE_DONE) {
        weir_job_refuse(job);
    } else if (!weir_job_is_over(row)) {
        weir_job_reply_status(job, 202);
    } else if (row->state == WEIR_JOB_DONE) {
        weir_job_reply_result(job, true);
    } else {
        weir_job_reply_status(job, 422);
    }
}

static void look_for_end(struct weir_job_call *job)
{
    weir_job_look(job, WEIR_STORE_WITH_RESULT, tell_end);
}

/* The same job was there before. */
static void tell_same(struct weir_job_call *job)
{
    struct submission *submission = submission_of(job);
    const struct weir_job_row *row = &job->request.look.row;
    if (job->request.end != WEIR_JOB_SERVICE_DONE) {
        weir_job_refuse(job);
    } else if (!weir_slice_equal(row->order.tenant, submission->order.tenant)) {
        weir_submit_refuse_conflict(job->call, job->id);
    } else if (job->wait_ns > 0) {
        weir_job_await(job, row->number, look_for_end);
    } else {
        job->call->response.fields = weir_job_put_location;
        weir_job_reply_status(job, 200);
    }
}

static void tell(struct weir_job_call *job)
{
    struct submission *submission = submission_of(job);
    struct weir_call *call = job->call;
    settle_spool(submission);
    if (job->request.end == WEIR_JOB_SERVICE_CONFLICT) {
        weir_submit_refuse_conflict(call, job->id);
    } else if (job->request.end == WEIR_JOB_SERVICE_UNKNOWN) { /* by now it is forgotten, and new */
        weir_submit_refuse_door(call, &submission->door, submission->order.queue);
    } else if (job->request.end == WEIR_JOB_SERVICE_NO_QUEUE) {
        weir_submit_refuse_queue(call, submission->order.queue);
    } else if (job->request.end != WEIR_JOB_SERVICE_DONE) {
        weir_job_refuse(job);
    } else if (!submission->acceptance.fresh) {
        weir_job_look(job, 0, tell_same);
    } else if (job->wait_ns > 0) {
        weir_job_await(job, submission->acceptance.number, look_for_end);
    } else {
        call->response.fields = weir_job_put_location;
        weir_call_reply(call, 202, "application/json", produce_accepted);
    }
}

/* ---- the body ---- */

/* All of it is at hand or in a file. */
static void commit(struct weir_job_call *job)
{
    struct submission *submission = submission_of(job);
    struct weir_job_service_request *request = weir_job_prepare(job);
    submission->order.created_ms = weir_wall_ms();
    weir_job_params_apply(&submission->head.params, &submission->order);
    weir_job_set_patience(job, submission->head.wait_ns);
    submission->place = NOWHERE; /* from now on places are the job service's business */
    request->accept.orders = &submission->order;
    request->accept.order_count = 1;
    request->accept.acceptances = &submission->acceptance;
    request->repeats = submission->door.known;
    weir_job_ask(job, weir_job_service_submit, tell);
}

/* A piece has been written. If that was not the last, the call reads on. */
static void go_on_spooling(struct weir_job_call *job)
{
    struct submission *submission = submission_of(job);
    const struct weir_spool *spool = submission->spool;
    if (spool->error != 0) {
        char why[100];
        refuse_store(job->call, strerror_r(spool->error, why, sizeof why));
    } else if (spool->last) {
        memcpy(submission->order.digest, spool->digest, sizeof spool->digest);
        submission->order.body =
            (struct weir_job_bytes){.count = spool->bytes, .file = spool->file};
        commit(job);
    }
}

static void on_spooled(struct weir_post *post)
{
    struct weir_spool *spool = weir_container_of(post, struct weir_spool, on_done);
    struct submission *submission = spool->owner;
    if (weir_call_release(submission->job.call)) {
        weir_job_go_on(&submission->job, go_on_spooling);
    }
}

/* A long body is not begun while nothing can be recorded. */
static bool begin_spool(struct submission *submission)
{
    struct weir_job_call *job = &submission->job;
    struct weir_job_service_counts counts;
    weir_job_service_count(job->job_service, &counts);
    if (!counts.store.working) {
        refuse_store(job->call, counts.store.error);
        return false;
    }
    submission->spool =
        weir_spool_create(weir_job_service_disk(job->job_service),
                          weir_job_service_store(job->job_service), &job->worker->loop, on_spooled);
    if (submission->spool == NULL) {
        weir_call_problem(job->call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "There is no memory left. Try again later.");
        return false;
    }
    submission->spool->owner = submission;
    return true;
}

/* Some of the body, or the rest of it, is in the client's buffer. */
static void take(struct weir_call *call)
{
    struct submission *submission = call->context;
    struct weir_slice piece = {"", 0};
    bool last = call->reader.body.state == WEIR_BODY_ENDED;
    if (call->reader.bytes > 0) {
        piece =
            (struct weir_slice){call->client->in.data + call->client->in.begin, call->reader.bytes};
    }
    if (!last || submission->spool != NULL) {
        if (submission->spool != NULL || begin_spool(submission)) {
            weir_job_hold(&submission->job);
            weir_spool_write(submission->spool, piece, last);
        }
        return;
    }
    submission->order.body = (struct weir_job_bytes){.count = piece.bytes, .bytes = piece};
    if (weir_hasher_digest(call->worker->hasher, piece, submission->order.digest)) {
        commit(&submission->job);
    } else {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "The body's SHA-256 cannot be computed. Try again later.");
    }
}

/* ---- the door ---- */

/* Once it is open, the body is read. */
static void pass_door(struct weir_job_call *job)
{
    struct submission *submission = submission_of(job);
    if (submission->door.answer == WEIR_SCHEDULE_COME) {
        submission->place = INSIDE;
    } else {
        submission->place = NOWHERE;
        weir_submit_refuse_door(job->call, &submission->door, submission->order.queue);
    }
}

static void on_door(struct weir_post *post)
{
    struct weir_job_admission *door = weir_container_of(post, struct weir_job_admission, on_done);
    struct submission *submission = weir_container_of(door, struct submission, door);
    if (weir_call_release(submission->job.call)) {
        weir_job_go_on(&submission->job, pass_door);
    }
}

static void ask_at_door(struct submission *submission, uint32_t queue)
{
    struct weir_job_call *job = &submission->job;
    submission->door = (struct weir_job_admission){
        .on_done = {.arrive = on_door},
        .loop = &job->worker->loop,
        .ask = {.queue = queue,
                .tenant = submission->order.tenant,
                .priority = submission->head.params.priority,
                .count = 1},
        .id = submission->made ? (struct weir_slice){0} : submission->order.id,
        .deadline_ns = job->worker->loop.now_ns + submission->head.patience_ns};
    if (weir_job_service_ask(job->job_service, &submission->door)) {
        pass_door(job);
        return;
    }
    submission->place = AT_DOOR;
    weir_job_hold(job);
    weir_client_watch_peer(job->call->client);
}

/* ---- the head ---- */

void *weir_submit_begin(struct weir_call *call, const struct weir_call_hooks *hooks)
{
    if (call->worker->draining) {
        refuse_draining(call);
        return NULL;
    }
    return weir_job_begin(call, hooks);
}

/* Whether the header field says the same as the path, in quotes or without. */
static bool is_same_key(struct weir_slice key, struct weir_slice id)
{
    if (key.bytes >= 2 && key.data[0] == '"' && key.data[key.bytes - 1] == '"') {
        key = (struct weir_slice){key.data + 1, key.bytes - 2};
    }
    return weir_slice_equal(key, id);
}

/* The path's, one that is made of the idempotency key, or one of ours. A path and another key would
 * be two names for what is to be one job: whoever tries again with the same key and a new id would
 * have two. */
static bool name_job(struct submission *submission)
{
    struct weir_job_call *job = &submission->job;
    struct weir_call *call = job->call;
    struct weir_submit_head *head = &submission->head;
    if (call->segment_count == 2) {
        struct weir_slice id = call->segments[1];
        if (!weir_job_id_valid(id)) {
            weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                              "A job's id has 1 to 128 letters, digits, '.', '_' and '-', a letter "
                              "or digit first.");
            return false;
        }
        if (head->idempotency_key.bytes > 0 && !is_same_key(head->idempotency_key, id)) {
            weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                              "The path names a job's id, and Idempotency-Key something else. The "
                              "id alone makes the same submission the same job: leave the key "
                              "out, or the id, and POST to /submit.");
            return false;
        }
        memcpy(job->id_text, id.data, id.bytes);
        job->id = (struct weir_slice){job->id_text, id.bytes};
        return true;
    }
    struct weir_idempotency key = {.tenant = head->tenant, .key = head->idempotency_key};
    bool keyed = key.key.bytes > 0;
    submission->made = !keyed;
    job->id =
        (struct weir_slice){job->id_text, keyed ? WEIR_JOB_ID_KEYED_BYTES : WEIR_JOB_ID_MADE_BYTES};
    if (!(keyed ? weir_job_id_of_key(&key, job->worker->hasher, job->id_text)
                : weir_job_id_make(weir_wall_ms(), job->id_text))) {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "No id can be made. Try again later, or name one.");
        return false;
    }
    return true;
}

/* The queue, and what it says where the submission does not. */
static bool find_queue(struct submission *submission, uint32_t *number)
{
    struct weir_job_order *order = &submission->order;
    struct weir_slice name = submission->head.params.queue;
    const struct weir_config_queue *queue =
        weir_job_service_queue(submission->job.job_service, name, number);
    if (queue == NULL) {
        weir_submit_refuse_queue(submission->job.call, name);
        return false;
    }
    memcpy(submission->queue, queue->name.data, queue->name.bytes);
    order->queue = (struct weir_slice){submission->queue, queue->name.bytes};
    order->attempts_max = queue->attempts;
    order->timeout_ms = queue->timeout_ns / 1000000;
    submission->body_bytes_max = queue->body_bytes_max;
    return true;
}

static bool check_length(struct submission *submission, const struct weir_http1_head *head)
{
    struct weir_call *call = submission->job.call;
    weir_body_init(&call->reader.body, head, submission->body_bytes_max);
    if (call->reader.body.state == WEIR_BODY_FAULT) {
        char detail[120];
        snprintf(detail, sizeof detail, "The queue takes bodies of up to %llu bytes.",
                 (unsigned long long)submission->body_bytes_max);
        weir_call_problem(call, WEIR_PROBLEM_BODY_TOO_LARGE, 413, detail);
        return false;
    }
    return true;
}

void weir_api_submit(struct weir_call *call, const struct weir_http1_head *head, const char *data)
{
    if (call->segment_count == 1 && weir_submit_has_lines(head, data)) {
        weir_submit_many(call, head, data);
        return;
    }
    uint32_t queue;
    static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct submission),
                                                 .take = take,
                                                 .leave = leave_submission,
                                                 .drop = drop_submission};
    struct submission *submission = weir_submit_begin(call, &hooks);
    if (submission == NULL || !weir_submit_head_read(&submission->head, call, head, data) ||
        !name_job(submission) || !find_queue(submission, &queue) ||
        !check_length(submission, head)) {
        return;
    }
    submission->order.id = submission->job.id;
    submission->order.tenant = submission->head.tenant;
    submission->order.type = submission->head.type;
    ask_at_door(submission, queue);
}
