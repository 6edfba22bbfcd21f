/* job_params.h - what a submission asks for, name by name: from a query, or from a line of JSON.
 *
 * Values are texts in both; they stay the caller's. What is not named is left to the queue. */
#ifndef WEIR_API_JOB_PARAMS_H
#define WEIR_API_JOB_PARAMS_H

#include "jobs/job.h"

enum weir_job_params_field {
    WEIR_JOB_PARAM_ID = 1, /* of lines only */
    WEIR_JOB_PARAM_QUEUE = 2,
    WEIR_JOB_PARAM_TENANT = 4,
    WEIR_JOB_PARAM_PRIORITY = 8,
    WEIR_JOB_PARAM_DELAY = 16,
    WEIR_JOB_PARAM_RUN_AT = 32,
    WEIR_JOB_PARAM_ATTEMPTS = 64,
    WEIR_JOB_PARAM_TIMEOUT = 128,
    WEIR_JOB_PARAM_KEY = 256,
    WEIR_JOB_PARAM_COST = 512
};

/* All that a query or a command may name. */
#define WEIR_JOB_PARAM_QUERY 1022u

/* Zeroed, it asks for nothing. */
struct weir_job_params {
    uint32_t present; /* which fields have been set */
    struct weir_slice id;
    struct weir_slice queue;
    struct weir_slice tenant;
    struct weir_slice key;
    enum weir_priority priority;
    uint64_t delay_ms;
    int64_t run_at_ms;
    uint32_t attempts;
    uint64_t timeout_ms;
    uint64_t cost_ms;
};

/* Which of the fields in `known` has that name; 0: none. */
uint32_t weir_job_params_find(struct weir_slice name, uint32_t known);

/* Sets a field. Null, or what is wrong with the value, such as "is high, normal or low"; then
 * nothing has changed. */
WEIR_MUST_CHECK const char *weir_job_params_set(struct weir_job_params *params,
                                                enum weir_job_params_field field,
                                                struct weir_slice value);

/* Where texts stay when what they were read from goes. */
struct weir_job_params_texts {
    char queue[WEIR_NAME_BYTES_MAX];
    char tenant[WEIR_NAME_BYTES_MAX];
    char key[WEIR_NAME_BYTES_MAX];
};

/* Reads one parameter of a query or a command, and copies its text. Null, or what is wrong with it,
 * such as "is high, normal or low". */
WEIR_MUST_CHECK const char *weir_job_params_read(struct weir_job_params *params,
                                                 struct weir_job_params_texts *texts,
                                                 struct weir_slice name, struct weir_slice value);

/* Puts into an order what is wished for; of what is not, the order keeps what it has. Requires
 * created_ms. Id, queue and tenant are not touched. */
void weir_job_params_apply(const struct weir_job_params *params, struct weir_job_order *order);

#endif
