/* job_document.h - a job as the API tells of it, in JSON. docs/guides/jobs.md lists the fields;
 * one without a value is absent. */
#ifndef WEIR_API_JOB_DOCUMENT_H
#define WEIR_API_JOB_DOCUMENT_H

#include "runner/job_service.h"
#include "wire/json_writer.h"

/* The longest: two names, an error and a text of which each byte takes six, an id, and the rest. */
#define WEIR_JOB_DOCUMENT_BYTES_MAX 9216

/* What is known of the present, besides the record. */
struct weir_job_present {
    struct weir_job_service_live live;
    uint64_t now_ns;
    int64_t now_ms;
};

/* Writes the document. A null `present` leaves out its fields. */
void weir_job_document(struct weir_json *json, const struct weir_job_row *row,
                       const struct weir_job_present *present);

/* A moment: RFC 3339 with milliseconds, UTC. */
#define WEIR_JOB_MOMENT_BYTES 24
void weir_job_moment(int64_t ms, char text[WEIR_JOB_MOMENT_BYTES]);

#endif
