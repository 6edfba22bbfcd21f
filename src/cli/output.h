/* output.h - where a result goes: to standard output, or to a file that is there only once it is
 * whole. */
#ifndef WEIR_CLI_OUTPUT_H
#define WEIR_CLI_OUTPUT_H

#include "weir/types.h"

#include <linux/limits.h> /* PATH_MAX, which C17 alone does not have */
#include <stdbool.h>

struct weir_output {
    int fd;
    const char *path;          /* null: standard output */
    char unfinished[PATH_MAX]; /* beside it, until it is whole; empty: there is no such file */
    bool begun;                /* something has been written */
};

/* False, with errno. What is there and is no file, such as a device, is written to as it is. */
WEIR_MUST_CHECK bool weir_output_open(struct weir_output *output, const char *path);

/* Writes all of it. False, with errno. As a weir_caller_piece, `context` being the output. */
WEIR_MUST_CHECK bool weir_output_write(void *context, struct weir_slice bytes);

/* Begins anew; false where what was written cannot be taken back. */
WEIR_MUST_CHECK bool weir_output_rewind(struct weir_output *output);

/* It is whole: puts it in its place. False, with errno. */
WEIR_MUST_CHECK bool weir_output_finish(struct weir_output *output);

/* Closes it, and leaves nothing behind that is not whole. Safe after the finish. */
void weir_output_close(struct weir_output *output);

#endif
