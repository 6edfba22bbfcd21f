/* jobs.c - one job: GET /status, /result and /log of it, and POST /cancel; and GET /jobs.
 *
 * Each looks at the job first, since a caller that speaks for one tenant sees no other's jobs;
 * status and result may then wait for its end and look again. */
#include "api/handlers.h"

#include "api/job_list.h"
#include "api/job_reply.h"
#include "base/slice.h"

/* ---- status, result and log ---- */

/* The parameter `wait`, for the calls that have it. */
static const char *set_wait(void *context, struct weir_slice name, struct weir_slice value,
                            uint32_t *bit)
{
    *bit = 1;
    return weir_slice_equal(name, weir_slice_of("wait")) ? weir_job_read_wait(value, context)
                                                         : "is unknown. Parameter: wait";
}

/* Begins a call that may wait for the job's end. */
static struct weir_job_call *begin_waiting(struct weir_call *call)
{
    uint64_t wait_ns = 0;
    struct weir_job_call *job = weir_job_begin_named(call, &weir_job_hooks);
    if (job == NULL || !weir_job_read_query(call, set_wait, &wait_ns)) {
        return NULL;
    }
    weir_job_set_wait(job, wait_ns);
    return job;
}

/* Whether it has to be waited for; once. */
static bool waits(struct weir_job_call *job, weir_job_step *later)
{
    const struct weir_job_row *row = &job->request.look.row;
    if (job->wait_ns == 0 || weir_job_is_over(row)) {
        return false;
    }
    job->wait_ns = 0;
    weir_job_await(job, row->number, later);
    return true;
}

static void reply_status(struct weir_job_call *job);

static void look_for_status(struct weir_job_call *job)
{
    weir_job_look(job, 0, reply_status);
}

static void reply_status(struct weir_job_call *job)
{
    if (weir_job_is_seen(job) && !waits(job, look_for_status)) {
        weir_job_reply_status(job, 200);
    }
}

void weir_api_get_status(struct weir_call *call)
{
    struct weir_job_call *job = begin_waiting(call);
    if (job != NULL) {
        look_for_status(job);
    }
}

static void reply_result(struct weir_job_call *job);

static void look_for_result(struct weir_job_call *job)
{
    weir_job_look(job, WEIR_STORE_WITH_RESULT, reply_result);
}

static void reply_result(struct weir_job_call *job)
{
    const struct weir_job_row *row = &job->request.look.row;
    if (!weir_job_is_seen(job) || waits(job, look_for_result)) {
        return;
    }
    if (row->forgotten) {
        weir_job_refuse_gone(job);
    } else if (row->state == WEIR_JOB_DONE) {
        weir_job_reply_result(job, false);
    } else if (weir_job_is_over(row)) {
        weir_job_reply_status(job, 422);
    } else {
        weir_call_problem(job->call, WEIR_PROBLEM_JOB_UNFINISHED, 409,
                          "The job has not ended, so there is no result yet. GET /status shows its "
                          "progress; ?wait=30 waits for its end for up to 30 seconds.");
    }
}

void weir_api_get_result(struct weir_call *call)
{
    struct weir_job_call *job = begin_waiting(call);
    if (job != NULL) {
        look_for_result(job);
    }
}

static void reply_log(struct weir_job_call *job)
{
    if (weir_job_is_seen(job)) {
        weir_job_reply_log(job);
    }
}

void weir_api_get_log(struct weir_call *call)
{
    struct weir_job_call *job = weir_job_begin_named(call, &weir_job_hooks);
    if (job != NULL && weir_job_read_query(call, weir_job_set_nothing, NULL)) {
        weir_job_look(job, WEIR_STORE_WITH_LOG, reply_log);
    }
}

/* ---- cancelling ---- */

static void reply_cancelled(struct weir_job_call *job)
{
    if (weir_job_is_seen(job)) {
        weir_job_reply_status(job, 200);
    }
}

static void look_again(struct weir_job_call *job)
{
    if (job->request.end == WEIR_JOB_SERVICE_DONE) {
        weir_job_look(job, 0, reply_cancelled);
        return;
    }
    if (job->request.end != WEIR_JOB_SERVICE_STALE) {
        weir_job_refuse(job);
    } else if (job->request.look.row.state == WEIR_JOB_CANCELLED) {
        weir_job_reply_status(job, 200); /* as was asked for */
    } else {
        weir_call_problem(job->call, WEIR_PROBLEM_JOB_OVER, 409,
                          "The job has already ended, so there is nothing to cancel. GET /status "
                          "shows how it ended.");
    }
}

static void cancel(struct weir_job_call *job)
{
    if (weir_job_is_seen(job)) {
        struct weir_job_service_request *request = weir_job_prepare(job);
        request->look.id = job->id;
        weir_job_ask(job, weir_job_service_cancel, look_again);
    }
}

void weir_api_cancel(struct weir_call *call)
{
    struct weir_job_call *job = weir_job_begin_named(call, &weir_job_hooks);
    if (job != NULL && weir_job_read_query(call, weir_job_set_nothing, NULL)) {
        weir_job_look(job, 0, cancel); /* whose it is must be known first */
    }
}

/* ---- many ---- */

void weir_api_list_jobs(struct weir_call *call)
{
    weir_job_list(call, -1);
}
