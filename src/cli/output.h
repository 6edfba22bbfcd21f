/* output.h - where a result goes: to standard output, or to a file that appears only when it is
 * complete. */
#ifndef WEIR_CLI_OUTPUT_H
#define WEIR_CLI_OUTPUT_H

#include "weir/types.h"

#include <linux/limits.h> /* PATH_MAX, which C17 alone does not have */
#include <stdbool.h>

struct weir_output {
    int fd;
    const char *path;          /* null: standard output */
    char unfinished[PATH_MAX]; /* the temporary file beside it; empty: none */
    bool begun;                /* something has been written */
};

/* Opens the output. False, with errno. A path that exists and is not a regular file, such as a
 * device, is written directly. */
WEIR_MUST_CHECK bool weir_output_open(struct weir_output *output, const char *path);

/* Writes all of it. False, with errno. As a weir_caller_piece, `context` being the output. */
WEIR_MUST_CHECK bool weir_output_write(void *context, struct weir_slice bytes);

/* Starts over; false where written bytes cannot be taken back. */
WEIR_MUST_CHECK bool weir_output_rewind(struct weir_output *output);

/* Puts the complete file in its place. False, with errno. */
WEIR_MUST_CHECK bool weir_output_finish(struct weir_output *output);

/* Closes the output and removes an incomplete file. Safe after weir_output_finish(). */
void weir_output_close(struct weir_output *output);

#endif
