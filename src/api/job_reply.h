/* job_reply.h - what calls about a job answer with: its document, or its bytes.
 *
 * Each answers with what the call has looked at last: request.look.row. Results in files are read
 * by a disk thread, piece by piece, each when the one before has been sent. */
#ifndef WEIR_API_JOB_REPLY_H
#define WEIR_API_JOB_REPLY_H

#include "api/job_call.h"

/* `Location: /status/{jobId}`, for the call's `fields`. */
weir_call_fields weir_job_put_location;

/* The status document. */
void weir_job_reply_status(struct weir_job_call *job, uint16_t status);

/* The result's bytes, as 200, or that they are gone; the file must be opened first, so the call may
 * be pending. `waited`: the reply says that it did so as was preferred. */
void weir_job_reply_result(struct weir_job_call *job, bool waited);

/* The log's bytes. */
void weir_job_reply_log(struct weir_job_call *job);

/* That it has been forgotten but for its id. */
void weir_job_refuse_gone(struct weir_job_call *job);

/* Frees what a reply of bytes has read. */
void weir_job_output_free(struct weir_job_output *output);

/* Whether it is over. */
static inline bool weir_job_is_over(const struct weir_job_row *row)
{
    return row->state != WEIR_JOB_QUEUED && row->state != WEIR_JOB_RUNNING;
}

#endif
