/* job_id.h - the ids of jobs whose submitters name none.
 *
 * One of ours is `j-`, the time in milliseconds and 80 random bits, in hexadecimal: so ids sort by
 * when they were made, and the next one cannot be guessed. One that is made of an idempotency key
 * is `k-` and a part of the SHA-256 of tenant and key: a retry is the same job. */
#ifndef WEIR_API_JOB_ID_H
#define WEIR_API_JOB_ID_H

#include "weir/types.h"

#include <stdbool.h>

#define WEIR_JOB_ID_MADE_BYTES     34
#define WEIR_JOB_ID_KEYED_BYTES    42
#define WEIR_IDEMPOTENCY_BYTES_MAX 255

struct weir_hasher;

/* Writes an id of ours. False if the system has no random bits. */
WEIR_MUST_CHECK bool weir_job_id_make(int64_t now_ms, char id[WEIR_JOB_ID_MADE_BYTES]);

/* Writes the id of a key; `line` numbers the jobs of one submission, from 0 on. */
struct weir_idempotency {
    struct weir_slice tenant;
    struct weir_slice key;
    uint32_t line;
};
WEIR_MUST_CHECK bool weir_job_id_of_key(const struct weir_idempotency *idempotency,
                                        struct weir_hasher *hasher,
                                        char id[WEIR_JOB_ID_KEYED_BYTES]);

#endif
