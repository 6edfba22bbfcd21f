/* submit.h - POST /submit and POST /submit/{jobId}: jobs are handed in.
 *
 * The head decides first, then the door, then the body is read; long ones go to a file as they
 * come. The reply leaves after the job is on disk. */
#ifndef WEIR_API_SUBMIT_H
#define WEIR_API_SUBMIT_H

#include "api/job_call.h"
#include "api/submission.h"

/* POST /submit with a job a line: all of them or none, in one commit. */
void weir_submit_many(struct weir_call *call, const struct weir_http1_head *head, const char *data);

/* As weir_job_begin(); and nothing is submitted to a server that drains. */
void *weir_submit_begin(struct weir_call *call, const struct weir_call_hooks *hooks);

/* A submission is under way: the call waits for it. */
void weir_submit_await(struct weir_job_call *job, const struct weir_submission *submission);

#endif
