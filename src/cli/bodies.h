/* bodies.h - the bodies of jobs to submit: files, the files of folders, standard input; and the id
 * of each job.
 *
 * A body is read from its file while it is sent, and read again if it must be sent again. So input
 * from a pipe is first copied to an unnamed temporary file. */
#ifndef WEIR_CLI_BODIES_H
#define WEIR_CLI_BODIES_H

#include "cli/client.h"
#include "jobs/job.h"

#include <stdbool.h>

/* The most bodies in one command. */
#define WEIR_BODIES_MAX 100000

struct weir_upload_body {
    char *path; /* as given; "-" is standard input */
    char id[WEIR_JOB_ID_BYTES_MAX + 1];
};

struct weir_bodies {
    struct weir_upload_body *list;
    size_t count;
    size_t capacity;
    char error[600];
};

/* Finds the files that the words name, ended by a null: a file, a folder for its files in the order
 * of their names (not those that begin with a dot, nor folders in it), or "-". No word is "-" too.
 * `id` is the id of the only one, or has {name} in it, which becomes the file's name; null: each
 * gets a random one. False, with `error`. */
WEIR_MUST_CHECK bool weir_bodies_find(struct weir_bodies *bodies, char **words, const char *id);

/* Opens a body. False, with `error`. After success the caller closes the descriptor. */
WEIR_MUST_CHECK bool weir_upload_body_open(struct weir_bodies *bodies,
                                           const struct weir_upload_body *body,
                                           struct weir_upload *upload);

/* Safe after a failure, and when zeroed. */
void weir_bodies_deinit(struct weir_bodies *bodies);

#endif
