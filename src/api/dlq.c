/* dlq.c - dead letters: GET /dlq lists them, POST /dlq/redrive and /dlq/{jobId}/redrive queue them
 * again, DELETE /dlq/{jobId} removes one.
 *
 * Many are redriven page by page, each in a commit of its own, so that the store has time for
 * others in between. */
#include "api/handlers.h"

#include "api/job_list.h"
#include "api/job_reply.h"

void weir_api_list_dead(struct weir_call *call)
{
    weir_job_list(call, WEIR_JOB_FAILED);
}

/* What redriving or removing counts. */
struct dead_letters {
    struct weir_job_call job;
    struct weir_job_filter filter; /* of many */
    uint64_t number;               /* of one */
    bool removes;
    uint64_t count;
};

static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct dead_letters),
                                             .end = weir_job_call_end,
                                             .free = weir_job_call_free};

static struct dead_letters *letters_of(struct weir_job_call *job)
{
    return weir_container_of(job, struct dead_letters, job);
}

static bool produce_count(struct weir_call *call, struct weir_json *json)
{
    const struct dead_letters *letters = letters_of(weir_job_of(call));
    weir_json_open(json, '{');
    weir_json_put_number(json, letters->removes ? "removed" : "redriven", letters->count);
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

static void refuse_living(struct weir_job_call *job)
{
    weir_call_problem(
        job->call, WEIR_PROBLEM_NOT_DEAD, 409,
        "The job has not failed, so it is not a dead letter. GET /status shows its state.");
}

/* ---- one ---- */

static void reply_one(struct weir_job_call *job)
{
    switch (job->request.end) {
    case WEIR_JOB_SERVICE_DONE:
        letters_of(job)->count = 1;
        weir_call_reply(job->call, 200, "application/json", produce_count);
        break;
    case WEIR_JOB_SERVICE_STALE:
        refuse_living(job);
        break;
    default:
        weir_job_refuse(job);
    }
}

static void act(struct weir_job_call *job)
{
    struct dead_letters *letters = letters_of(job);
    if (!weir_job_is_seen(job)) {
        return;
    }
    const struct weir_job_row *row = &job->request.look.row;
    if (row->state != WEIR_JOB_FAILED) {
        refuse_living(job);
        return;
    }
    if (row->forgotten) {
        weir_job_refuse_gone(job);
        return;
    }
    uint64_t number = row->number;
    struct weir_job_service_request *request = weir_job_prepare(job);
    if (letters->removes) {
        request->remove.number = number;
        request->remove.now_ms = weir_wall_ms();
        weir_job_ask(job, weir_job_service_remove, reply_one);
    } else {
        request->redrive.number = number;
        request->redrive.now_ms = weir_wall_ms();
        weir_job_ask(job, weir_job_service_redrive, reply_one);
    }
}

static void begin_one(struct weir_call *call, bool removes)
{
    struct weir_job_call *job = weir_job_begin_named(call, &hooks);
    if (job != NULL && weir_job_read_query(call, weir_job_set_nothing, NULL)) {
        letters_of(job)->removes = removes;
        weir_job_look(job, 0, act);
    }
}

void weir_api_redrive(struct weir_call *call)
{
    begin_one(call, false);
}

void weir_api_remove_dead(struct weir_call *call)
{
    begin_one(call, true);
}

/* ---- many ---- */

static void reply_many(struct weir_job_call *job);

/* A page at a time, so that the store has time for others. */
static void redrive_page(struct weir_job_call *job, uint64_t after)
{
    struct weir_job_service_request *request = weir_job_prepare(job);
    request->redrive.filter = letters_of(job)->filter.filter;
    request->redrive.after = after;
    request->redrive.now_ms = weir_wall_ms();
    weir_job_ask(job, weir_job_service_redrive, reply_many);
}

static void reply_many(struct weir_job_call *job)
{
    struct dead_letters *letters = letters_of(job);
    if (job->request.end != WEIR_JOB_SERVICE_DONE) {
        weir_job_refuse(job);
        return;
    }
    letters->count += job->request.redrive.row_count;
    if (job->request.redrive.next > 0) {
        redrive_page(job, job->request.redrive.next);
    } else {
        weir_call_reply(job->call, 200, "application/json", produce_count);
    }
}

void weir_api_redrive_all(struct weir_call *call)
{
    struct dead_letters *letters = weir_job_begin(call, &hooks);
    if (letters == NULL) {
        return;
    }
    letters->filter.filter.state = WEIR_JOB_FAILED;
    if (weir_job_filter_read(call, &letters->filter)) {
        redrive_page(&letters->job, 0);
    }
}
