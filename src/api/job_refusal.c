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
                                ". GET /capacity lists those that are there."},
    [WEIR_JOB_REFUSED_JOB] = {WEIR_PROBLEM_NOT_FOUND, 404, 0,
                              "There is no job of that id: it was never accepted, or its id has "
                              "been forgotten since. GET /jobs lists those that are there.",
                              NULL},
    [WEIR_JOB_REFUSED_ID] = {WEIR_PROBLEM_JOB_CONFLICT, 409, 0, "The id ",
                             " is taken by a job with another body, or of another tenant; for 7 "
                             "days after its end. Use an id of your own for each job."},
    [WEIR_JOB_REFUSED_FULL] = {WEIR_PROBLEM_QUEUE_FULL, 429, 0, "The queue ",
                               " holds as many jobs as it may. Try again after Retry-After, by "
                               "which some will have been done."},
    [WEIR_JOB_REFUSED_RATE] = {WEIR_PROBLEM_RATE, 429, 0, "The tenant submits to the queue ",
                               " faster than its rate allows. Try again after Retry-After."},
    [WEIR_JOB_REFUSED_BLOCKED] = {WEIR_PROBLEM_QUEUE_BLOCKED, 503, BLOCKED_RETRY_NS,
                                  "As many dead letters are kept, or as many ids remembered, as "
                                  "may be. Redrive or remove dead letters (GET /dlq lists them), "
                                  "or raise the queue's `dead`.",
                                  NULL},
    [WEIR_JOB_REFUSED_STORE] = {WEIR_PROBLEM_STORE_FAILED, 503, DISK_RETRY_NS,
                                "The disk does not work: ",
                                ". It is looked at again by itself; try again later."},
    [WEIR_JOB_REFUSED_BODY] = {WEIR_PROBLEM_STORE_FAILED, 503, DISK_RETRY_NS,
                               "The body cannot be written to the disk: ", ". Try again later."},
    [WEIR_JOB_REFUSED_DRAINING] = {WEIR_PROBLEM_DRAINING, 503, 0,
                                   "This server ends, and accepts no jobs. Submit to the one that "
                                   "is started next.",
                                   NULL},
    [WEIR_JOB_REFUSED_ENDING] = {WEIR_PROBLEM_DRAINING, 503, 0,
                                 "This server ends. Ask the one that is started next.", NULL},
    [WEIR_JOB_REFUSED_MEMORY] = {WEIR_PROBLEM_OUT_OF_MEMORY, 503, 0,
                                 "There is no memory left. Try again later.", NULL},
    [WEIR_JOB_REFUSED_DIGEST] = {WEIR_PROBLEM_OUT_OF_MEMORY, 503, 0,
                                 "The body's SHA-256 cannot be computed. Try again later.", NULL},
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
    const char *error = request->error == NULL ? "nothing more is known" : request->error;
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
