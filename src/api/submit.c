/* submit.c - one job over HTTP: reads the head and the body, and answers.
 *
 *     head -> [door] -> body -> [commit] -> reply
 *                                        -> [wait for the job's end] -> result
 *
 * What is in brackets, and long bodies, are submission.h's business. A short body stays in the
 * client's buffer until it is on disk; so when the client goes meanwhile, its buffer stays. */
#include "api/submit.h"

#include "api/handlers.h"
#include "api/job_document.h"
#include "api/job_reply.h"
#include "api/submit_head.h"
#include "base/slice.h"

#include <stdio.h>

struct submit_call {
    struct weir_job_call job;
    struct weir_submission submission;
    struct weir_submission_door door;
    struct weir_job_order order;
    struct weir_acceptance acceptance;
    struct weir_submit_head head;
    bool made;               /* its id is a new one */
    struct weir_buffer body; /* the client's, once that has gone */
    uint64_t body_bytes_max; /* what the queue takes */
};

static struct submit_call *submit_of(struct weir_job_call *job)
{
    return weir_container_of(job, struct submit_call, job);
}

/* ---- what both kinds of submission share ---- */

void weir_submit_await(struct weir_job_call *job, const struct weir_submission *submission)
{
    weir_job_hold(job);
    if (submission->at_door) {
        weir_client_watch_peer(job->call->client);
    }
}

void *weir_submit_begin(struct weir_call *call, const struct weir_call_hooks *hooks)
{
    if (call->worker->draining) {
        weir_job_refuse_with(call, (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_DRAINING});
        return NULL;
    }
    return weir_job_begin(call, hooks);
}

/* ---- its end ---- */

static void drop_submit(struct weir_call *call)
{
    struct submit_call *submit = call->context;
    weir_submission_deinit(&submit->submission);
    weir_buffer_release(&call->worker->buffers, &submit->body);
    weir_job_call_free(call);
}

static void leave_submit(struct weir_call *call)
{
    struct submit_call *submit = call->context;
    if (weir_submission_cancel(&submit->submission)) {
        weir_call_withdraw(call);
    }
    weir_job_call_end(call);
    if (call->under_way > 0 && call->reader.bytes > 0) { /* what is under way points into it */
        submit->body = call->client->in;
        call->client->in = (struct weir_buffer){0};
    }
}

/* ---- the reply ---- */

/* What is on record now is what was ordered; so nothing is looked up. */
static bool produce_accepted(struct weir_call *call, struct weir_json *json)
{
    const struct submit_call *submit = call->context;
    struct weir_job_row row = {.number = submit->acceptance.number,
                               .order = submit->order,
                               .state = submit->acceptance.state};
    weir_job_document(json, &row, NULL);
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

/* What the job became while it was waited for. */
static void reply_end(struct weir_job_call *job)
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
    weir_job_look(job, WEIR_STORE_WITH_RESULT, reply_end);
}

/* This submission repeats one that was accepted before. */
static void reply_same(struct weir_job_call *job)
{
    const struct submit_call *submit = submit_of(job);
    const struct weir_job_row *row = &job->request.look.row;
    if (job->request.end != WEIR_JOB_SERVICE_DONE) {
        weir_job_refuse(job);
    } else if (!weir_slice_equal(row->order.tenant, submit->order.tenant)) {
        weir_job_refuse_with(
            job->call, (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_ID, .what = job->id});
    } else if (job->wait_ns > 0) {
        weir_job_await(job, row->number, look_for_end);
    } else {
        job->call->response.fields = weir_job_put_location;
        weir_job_reply_status(job, 200);
    }
}

static void tell(struct weir_job_call *job)
{
    const struct submit_call *submit = submit_of(job);
    struct weir_call *call = job->call;
    if (submit->submission.refusal.reason != WEIR_JOB_REFUSED_NOT) {
        weir_job_refuse_with(call, submit->submission.refusal);
        return;
    }
    job->wait_ns = submit->head.wait_ns;
    job->until_ns = submit->submission.committed_ns + job->wait_ns;
    if (!submit->acceptance.fresh) {
        weir_job_look(job, 0, reply_same);
    } else if (job->wait_ns > 0) {
        weir_job_await(job, submit->acceptance.number, look_for_end);
    } else {
        call->response.fields = weir_job_put_location;
        weir_call_reply(call, 202, "application/json", produce_accepted);
    }
}

/* ---- its way ---- */

/* While it is open, the call reads on. */
static void follow(struct weir_job_call *job)
{
    const struct weir_submission *submission = &submit_of(job)->submission;
    if (submission->state == WEIR_SUBMISSION_UNDER_WAY) {
        weir_submit_await(job, submission);
    } else if (submission->state == WEIR_SUBMISSION_ENDED) {
        tell(job);
    }
}

static void on_arrived(struct weir_submission *submission)
{
    struct weir_job_call *job = &weir_container_of(submission, struct submit_call, submission)->job;
    if (weir_call_release(job->call)) {
        weir_job_go_on(job, follow);
    }
}

/* Some of the body, or the rest of it, is in the client's buffer. */
static void take(struct weir_call *call)
{
    struct submit_call *submit = call->context;
    struct weir_slice piece = {"", 0};
    if (call->reader.bytes > 0) {
        piece =
            (struct weir_slice){call->client->in.data + call->client->in.begin, call->reader.bytes};
    }
    weir_submission_take(&submit->submission, piece, call->reader.body.state == WEIR_BODY_ENDED);
    follow(&submit->job);
}

/* ---- the head ---- */

/* Whether the header field says the same as the path, in quotes or without. */
static bool is_same_key(struct weir_slice key, struct weir_slice id)
{
    if (key.bytes >= 2 && key.data[0] == '"' && key.data[key.bytes - 1] == '"') {
        key = (struct weir_slice){key.data + 1, key.bytes - 2};
    }
    return weir_slice_equal(key, id);
}

/* The path's, one that is made of the idempotency key, or one of ours. A path and another key would
 * be two names for what is to be one job: a client that tries again with the same key and a new id
 * would have two. */
static bool name_job(struct submit_call *submit)
{
    struct weir_job_call *job = &submit->job;
    struct weir_call *call = job->call;
    struct weir_submit_head *head = &submit->head;
    if (call->segment_count == 2) {
        struct weir_slice id = call->segments[1];
        if (!weir_job_id_valid(id)) {
            weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                              "A job's id must have 1 to 128 letters, digits, '.', '_' and '-', a "
                              "letter or digit first.");
            return false;
        }
        if (head->idempotency_key.bytes > 0 && !is_same_key(head->idempotency_key, id)) {
            weir_call_problem(
                call, WEIR_PROBLEM_BAD_REQUEST, 400,
                "The job's id in the path differs from Idempotency-Key. The id alone makes retries "
                "safe: leave out the key, or leave out the id and POST to /submit.");
            return false;
        }
        memcpy(job->id_text, id.data, id.bytes);
        job->id = (struct weir_slice){job->id_text, id.bytes};
        return true;
    }
    struct weir_idempotency key = {.tenant = head->tenant, .key = head->idempotency_key};
    bool keyed = key.key.bytes > 0;
    submit->made = !keyed;
    job->id =
        (struct weir_slice){job->id_text, keyed ? WEIR_JOB_ID_KEYED_BYTES : WEIR_JOB_ID_MADE_BYTES};
    if (!(keyed ? weir_job_id_of_key(&key, job->worker->hasher, job->id_text)
                : weir_job_id_make(weir_wall_ms(), job->id_text))) {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "Cannot generate an id. Try again later, or name one.");
        return false;
    }
    return true;
}

static bool find_queue(struct submit_call *submit, uint32_t *number)
{
    struct weir_job_order *order = &submit->order;
    const struct weir_config_queue *queue =
        weir_submission_find_queue(&submit->submission, order, submit->head.texts.queue, number);
    if (queue == NULL) {
        weir_job_refuse_with(
            submit->job.call,
            (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_QUEUE, .what = order->queue});
        return false;
    }
    submit->body_bytes_max = queue->body_bytes_max;
    return true;
}

static bool check_length(struct submit_call *submit, const struct weir_http1_head *head)
{
    struct weir_call *call = submit->job.call;
    weir_body_init(&call->reader.body, head, submit->body_bytes_max);
    if (call->reader.body.state == WEIR_BODY_FAULT) {
        char detail[120];
        snprintf(detail, sizeof detail, "The body exceeds the queue's limit of %llu bytes.",
                 (unsigned long long)submit->body_bytes_max);
        weir_call_problem(call, WEIR_PROBLEM_BODY_TOO_LARGE, 413, detail);
        return false;
    }
    return true;
}

static void prepare(struct submit_call *submit)
{
    struct weir_job_call *job = &submit->job;
    submit->order.id = job->id;
    submit->order.queue = submit->head.params.queue;
    submit->order.tenant = submit->head.tenant;
    submit->order.type = submit->head.type;
    submit->order.priority = submit->head.params.priority;
    submit->submission = (struct weir_submission){.worker = job->worker,
                                                  .job_service = job->job_service,
                                                  .arrived = on_arrived,
                                                  .orders = &submit->order,
                                                  .acceptances = &submit->acceptance,
                                                  .order_count = 1,
                                                  .doors = &submit->door,
                                                  .params = &submit->head.params};
}

static void submit_one(struct weir_call *call, const struct weir_http1_head *head, const char *data)
{
    static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct submit_call),
                                                 .body = take,
                                                 .end = leave_submit,
                                                 .free = drop_submit};
    uint32_t queue;
    struct submit_call *submit = weir_submit_begin(call, &hooks);
    if (submit == NULL || !weir_submit_head_read(&submit->head, call, head, data) ||
        !name_job(submit)) {
        return;
    }
    prepare(submit);
    if (!find_queue(submit, &queue) || !check_length(submit, head)) {
        return;
    }
    weir_submission_add_door(&submit->submission, &submit->order, queue,
                             submit->made ? (struct weir_slice){0} : submit->order.id,
                             call->worker->loop.now_ns + submit->head.timeout_ns);
    weir_submission_enter(&submit->submission);
    follow(&submit->job);
}

void weir_api_submit(struct weir_call *call, const struct weir_http1_head *head, const char *data)
{
    if (call->segment_count == 1 && weir_submit_has_lines(head, data)) {
        weir_submit_many(call, head, data);
    } else {
        submit_one(call, head, data);
    }
}
