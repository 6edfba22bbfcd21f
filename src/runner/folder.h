/* folder.h - the folder of one attempt: `in`, `out`, and `.done` when it has ended well.
 *
 * What a command leaves behind is not believed: only a regular file counts as its result, and none
 * that its user could not read; and nothing follows a link of its. `.done` holds the size of the
 * result and is written after the result is on disk, so whoever finds it whole finds all of it.
 *
 * A long result becomes a second link to `out`, not another name: until the job's end is on record
 * and the folder is removed, it can be found from `.done`. Everything here blocks. */
#ifndef WEIR_RUNNER_FOLDER_H
#define WEIR_RUNNER_FOLDER_H

#include "runner/command.h"

#include <linux/limits.h> /* PATH_MAX, which C17 alone does not have */
#include <sys/types.h>

struct weir_folder_order {
    const char *data; /* the data folder */
    uint64_t number;
    uint32_t attempt;
    struct weir_slice body; /* if `body_path` is null */
    const char *body_path;
    uint64_t body_bytes;        /* of what is there */
    const uint8_t *body_digest; /* its SHA-256, which is checked; null: it is not */
    bool give_away;             /* to the user who runs the command: */
    uid_t uid;
    gid_t gid;
    bool read_in;   /* `in` is wanted open, for stdin */
    bool write_out; /* `out` is to be made, for stdout */
};

struct weir_folder {
    int fd;
    int in_fd;           /* -1: not wanted */
    int out_fd;          /* -1: not wanted */
    char path[PATH_MAX]; /* as the command may name it; "." if it cannot reach it from the root */
    const char *step;    /* on failure: what could not be done */
    bool body_lost;      /* on failure: because the disk does not give the body back as it was; no
                          * other attempt would fare better */
};

/* Makes it anew: what is there under its name is removed. 0, or why not as errno; then nothing is
 * open. */
WEIR_MUST_CHECK int weir_folder_make(const struct weir_folder_order *order,
                                     struct weir_folder *folder);

/* What to do with a result. */
struct weir_folder_result {
    uint64_t bytes_max; /* 0: any */
    uint64_t file;      /* what a long one is called, */
    const char *path;   /* and where it goes */

    struct weir_job_bytes bytes; /* written */
    char *memory;                /* of those at hand; to be freed; null: none */
    const char *error;           /* on failure: a sentence, or null: see errno */
};

/* Makes the result durable, and then `.done`. False on failure; but what is at hand counts also if
 * the disk does not work at present. */
WEIR_MUST_CHECK bool weir_folder_seal(int fd, struct weir_folder_result *result);

/* Whether that errno says that it is we who lack something, which others give back or somebody
 * mends: so that no attempt is to be counted. */
bool weir_folder_lacks(int error);

/* Makes the folder in which a file is durable, and so the file's name. False, with errno. */
WEIR_MUST_CHECK bool weir_folder_sync(const char *path);

#endif
