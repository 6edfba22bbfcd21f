/* job_refusal.c - the answers of the job service in words: which problem each is, with which
 * status, and what a caller may do about it. */
#include "api/job_refusal.h"

#include "base/slice.h"

#include <stdio.h>

#define DISK_RETRY_NS    (5 * WEIR_NS_PER_SECOND)
#define BLOCKED_RETRY_NS (60 * WEIR_NS_PER_SECOND)

/* What it is about stands between the two texts. */
static const struct {
    enum weir_problem_kind kind;
    uint16_t status;
    uint64_t retry_ns;
    const char *before;
    const char *behind;
} reasons[] = {
    [WEIR_JOB_REFUSED_QUEUE] = {WEIR_PROBLEM_NOT_FOUND, 404, 0, "There is no queue called ",
                                ". GET /capacity lists all queues."},
    [WEIR_JOB_REFUSED_JOB] = {WEIR_PROBLEM_NOT_FOUND, 404, 0,
                              "There is no job with this id: it was never accepted, or its record "
                              "has expired. GET /jobs lists all jobs.",
                              NULL},
    [WEIR_JOB_REFUSED_ID] = {WEIR_PROBLEM_JOB_CONFLICT, 409, 0, "The id ",
                             " is taken by a job with another body or of another tenant, until 7 "
                             "days after that job's end. Use a new id for each job."},
    [WEIR_JOB_REFUSED_FULL] = {WEIR_PROBLEM_QUEUE_FULL, 429, 0, "The queue ",
                               " is full. Try again after the time in Retry-After."},
    [WEIR_JOB_REFUSED_RATE] =
        {WEIR_PROBLEM_RATE, 429, 0, "The tenant submits to the queue ",
         " faster than its rate allows. Try again after the time in Retry-After."},
    [WEIR_JOB_REFUSED_BLOCKED] =
        {WEIR_PROBLEM_QUEUE_BLOCKED, 503, BLOCKED_RETRY_NS,
         "The limit of dead letters, or of remembered ids, is reached. Redrive or remove dead "
         "letters (GET /dlq lists them), or raise the queue's `dead`.",
         NULL},
    [WEIR_JOB_REFUSED_STORE] = {WEIR_PROBLEM_STORE_FAILED, 503, DISK_RETRY_NS, "Storage error: ",
                                ". Weir tries again twice a second; retry later."},
    [WEIR_JOB_REFUSED_BODY] = {WEIR_PROBLEM_STORE_FAILED, 503, DISK_RETRY_NS,
                               "Storage error: the body cannot be written: ", ". Try again later."},
    [WEIR_JOB_REFUSED_DRAINING] = {WEIR_PROBLEM_DRAINING, 503, 0,
                                   "This server is shutting down and accepts no jobs. Retry; the "
                                   "next server will accept them.",
                                   NULL},
    [WEIR_JOB_REFUSED_ENDING] =
        {WEIR_PROBLEM_DRAINING, 503, 0,
         "This server is shutting down. Retry; the next server will answer.", NULL},
    [WEIR_JOB_REFUSED_MEMORY] = {WEIR_PROBLEM_OUT_OF_MEMORY, 503, 0,
                                 "Out of memory. Try again later.", NULL},
    [WEIR_JOB_REFUSED_DIGEST] = {WEIR_PROBLEM_OUT_OF_MEMORY, 503, 0,
                                 "Cannot compute the body's SHA-256. Try again later.", NULL},
};

struct weir_problem weir_job_refusal_problem(const struct weir_job_refusal *refusal,
                                             char detail[WEIR_JOB_REFUSAL_TEXT_BYTES])
{
    enum weir_job_refusal_reason reason = refusal->reason;
    struct weir_slice what = refusal->what;
    if (reasons[reason].behind == NULL) {
        snprintf(detail, WEIR_JOB_REFUSAL_TEXT_BYTES, "%s", reasons[reason].before);
    } else {
        int bytes = (int)(what.bytes < WEIR_NAME_BYTES_MAX ? what.bytes : WEIR_NAME_BYTES_MAX);
        snprintf(detail, WEIR_JOB_REFUSAL_TEXT_BYTES, "%s%.*s%s", reasons[reason].before, bytes,
                 what.data, reasons[reason].behind);
    }
    return (struct weir_problem){.kind = reasons[reason].kind,
                                 .status = reasons[reason].status,
                                 .detail = detail,
                                 .retry_ns = reasons[reason].retry_ns > 0 ? reasons[reason].retry_ns
                                                                          : refusal->retry_ns};
}

struct weir_job_refusal weir_job_refusal_by_admission(const struct weir_job_admission *admission,
                                                      struct weir_slice queue)
{
    bool full = admission->answer == WEIR_SCHEDULE_FULL;
    enum weir_job_refusal_reason reason =
        admission->answer == WEIR_SCHEDULE_NO_QUEUE   ? WEIR_JOB_REFUSED_QUEUE
        : admission->answer == WEIR_SCHEDULE_TOO_FAST ? WEIR_JOB_REFUSED_RATE
        : full && admission->drains                   ? WEIR_JOB_REFUSED_DRAINING
                                                      : WEIR_JOB_REFUSED_FULL;
    return (struct weir_job_refusal){
        .reason = reason, .what = queue, .retry_ns = admission->retry_after_ns};
}

struct weir_job_refusal weir_job_refusal_by_end(const struct weir_job_service_request *request,
                                                struct weir_slice queue, struct weir_slice id)
{
    const char *error = request->error == NULL ? "the cause is unknown" : request->error;
    switch (request->end) {
    case WEIR_JOB_SERVICE_NO_QUEUE:
        return (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_QUEUE, .what = queue};
    case WEIR_JOB_SERVICE_FULL:
        return (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_BLOCKED};
    case WEIR_JOB_SERVICE_FAILED:
        return (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_STORE,
                                         .what = weir_slice_of(error)};
    case WEIR_JOB_SERVICE_DRAINING:
        return (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_ENDING};
    case WEIR_JOB_SERVICE_CONFLICT:
        return (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_ID, .what = id};
    case WEIR_JOB_SERVICE_DONE:
    case WEIR_JOB_SERVICE_UNKNOWN:
    case WEIR_JOB_SERVICE_STALE:
        break;
    }
    return (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_JOB};
}
