/* job_refusal.h - why the job service has not done what was asked, as a problem.
 *
 * The one translation of its answers, for HTTP and for the line protocol. */
#ifndef WEIR_API_JOB_REFUSAL_H
#define WEIR_API_JOB_REFUSAL_H

#include "gates/problem.h"
#include "runner/job_service.h"

enum weir_job_refusal_reason {
    WEIR_JOB_REFUSED_NOT,
    WEIR_JOB_REFUSED_QUEUE, /* there is none of that name */
    WEIR_JOB_REFUSED_JOB,   /* there is none of that id */
    WEIR_JOB_REFUSED_ID,    /* it is that of another job */
    WEIR_JOB_REFUSED_FULL,
    WEIR_JOB_REFUSED_RATE,
    WEIR_JOB_REFUSED_BLOCKED,  /* by dead letters, or ids that are remembered */
    WEIR_JOB_REFUSED_STORE,    /* nothing can be recorded */
    WEIR_JOB_REFUSED_BODY,     /* the body cannot be written */
    WEIR_JOB_REFUSED_DRAINING, /* jobs are not accepted any more */
    WEIR_JOB_REFUSED_ENDING,   /* nothing is answered any more */
    WEIR_JOB_REFUSED_MEMORY,
    WEIR_JOB_REFUSED_DIGEST
};

/* Refers to texts of others: to be used in the turn in which it was made. */
struct weir_job_refusal {
    enum weir_job_refusal_reason reason;
    struct weir_slice what; /* the queue, the job, or the disk's error */
    uint64_t retry_ns;      /* FULL and RATE */
};

/* How a request has ended that is not DONE. */
struct weir_job_refusal weir_job_refusal_by_end(const struct weir_job_service_request *request,
                                                struct weir_slice queue, struct weir_slice id);

/* The refusal of a submission that its queue did not admit. */
struct weir_job_refusal weir_job_refusal_by_admission(const struct weir_job_admission *admission,
                                                      struct weir_slice queue);

#define WEIR_JOB_REFUSAL_TEXT_BYTES 500

/* The problem, whose detail is written to `detail`. */
struct weir_problem weir_job_refusal_problem(const struct weir_job_refusal *refusal,
                                             char detail[WEIR_JOB_REFUSAL_TEXT_BYTES]);

#endif
