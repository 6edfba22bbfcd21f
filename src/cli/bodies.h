/* bodies.h - what jobs are made of: files, the files of folders, standard input; and the id of the
 * job that each becomes.
 *
 * A body is read from a file while it is sent, and again if it has to be sent again. So what comes
 * from a pipe is first kept in a temporary file without a name. */
#ifndef WEIR_CLI_BODIES_H
#define WEIR_CLI_BODIES_H

#include "cli/client.h"
#include "jobs/job.h"

#include <stdbool.h>

/* Of one call. */
#define WEIR_BODIES_MAX 100000

struct weir_upload_body {
    char *path; /* as it was written; "-" is standard input */
    char id[WEIR_JOB_ID_BYTES_MAX + 1];
};

struct weir_bodies {
    struct weir_upload_body *list;
    size_t count;
    size_t capacity;
    char error[600];
};

/* Those that the words name, ended by a null: a file, a folder for its files in the order of their
 * names (not those that begin with a dot, nor folders in it), or "-". No word is "-" too. `id` is
 * the id of the only one, or has {name} in it, which becomes the file's name; null: each gets one
 * by chance. False, with `error`. */
WEIR_MUST_CHECK bool weir_bodies_find(struct weir_bodies *bodies, char **words, const char *id);

/* False, with `error`. After success the descriptor is the caller's to close. */
WEIR_MUST_CHECK bool weir_upload_body_open(struct weir_bodies *bodies,
                                           const struct weir_upload_body *body,
                                           struct weir_upload *upload);

/* Safe after a failure, and when zeroed. */
void weir_bodies_deinit(struct weir_bodies *bodies);

#endif
