/* job_line.h - a job in a line of JSON: what it wishes for, and its body.
 *
 * {"id","queue","tenant","priority","delay","run_at","attempts","timeout","key","cost","body"}, all
 * optional. The body is a string, whose text it is, or any other JSON, which is kept as it
 * stands. Nothing is copied: the texts are parts of the line, without their escapes. */
#ifndef WEIR_API_JOB_LINE_H
#define WEIR_API_JOB_LINE_H

#include "api/job_params.h"

struct weir_job_line {
    struct weir_job_params params;
    struct weir_slice body;
    bool is_json; /* the body is JSON; else it is a text */
};

/* Reads a line, whose bytes may be changed by that. What the parameters have before stays where the
 * line says nothing else. False, with a sentence in `wrong`, if it is no such line. */
WEIR_MUST_CHECK bool weir_job_line_read(struct weir_job_line *line, char *text, size_t bytes,
                                        char *wrong, size_t wrong_bytes);

#endif
