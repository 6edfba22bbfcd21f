/* submit_head.h - what the head of a submission says: its query, and the header fields that count.
 */
#ifndef WEIR_API_SUBMIT_HEAD_H
#define WEIR_API_SUBMIT_HEAD_H

#include "api/call.h"
#include "api/job_id.h"
#include "api/job_params.h"

/* How long a submission waits for room in a queue that waits, if it does not say. */
#define WEIR_SUBMIT_TIMEOUT_NS (UINT64_C(30) * WEIR_NS_PER_SECOND)

/* And if it does, how long at most: as long as a call may wait for a job's end. */
#define WEIR_SUBMIT_TIMEOUT_MAX_NS (UINT64_C(300) * WEIR_NS_PER_SECOND)

struct weir_submit_head {
    struct weir_job_params params; /* its names are in `texts` */
    struct weir_slice tenant;      /* on whose behalf */
    struct weir_slice type;        /* of the body; may be empty */
    struct weir_slice idempotency_key;
    uint64_t timeout_ns; /* for room */
    uint64_t wait_ns;    /* for the job's end */
    struct weir_job_params_texts texts;
    char type_text[WEIR_JOB_TYPE_BYTES_MAX];
    char idempotency_text[WEIR_IDEMPOTENCY_BYTES_MAX];
};

/* Reads it into a zeroed struct. False if something is wrong, or the caller may not speak for that
 * tenant: then that is the reply. */
bool weir_submit_head_read(struct weir_submit_head *submit, struct weir_call *call,
                           const struct weir_http1_head *head, const char *data);

/* Reads `Weir-Timeout`, which may be empty. False, and nothing is written, if it is no duration. */
WEIR_MUST_CHECK bool weir_submit_read_timeout(struct weir_slice value, uint64_t *timeout_ns);

/* Whether the body has a job a line. */
bool weir_submit_has_lines(const struct weir_http1_head *head, const char *data);

#endif
