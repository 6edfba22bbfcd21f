/* folder.h - the folder of one attempt: `in`, `out`, and `.done` when it has ended well.
 *
 * Files that a command leaves are not trusted: only a regular file that its user could read counts
 * as its result, and links are never followed. `.done` holds the size of the result and is written
 * after the result is on disk, so a complete `.done` means a complete result.
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
    bool give_away;             /* the folder is given to this user: */
    uid_t uid;
    gid_t gid;
    bool read_in;   /* open `in`, for stdin */
    bool write_out; /* make `out`, for stdout */
};

struct weir_folder {
    int fd;
    int in_fd;           /* -1: not asked for */
    int out_fd;          /* -1: not asked for */
    char path[PATH_MAX]; /* as the command may name it; "." if it cannot reach it from the root */
    const char *step;    /* on failure: the step that failed */
    bool body_lost; /* on failure: the disk does not return the body as it was written, so no other
                       attempt can succeed */
};

/* Makes the folder, after removing an old one of the same name. Returns 0 or an errno; then nothing
 * is open. */
WEIR_MUST_CHECK int weir_folder_make(const struct weir_folder_order *order,
                                     struct weir_folder *folder);

/* Where a result goes, and what it is. */
struct weir_folder_result {
    uint64_t bytes_max; /* 0: any */
    uint64_t file;      /* the file number of a long result, */
    const char *path;   /* and its path */

    struct weir_job_bytes bytes; /* written */
    char *memory;                /* of a short result; the caller frees it; null: none */
    const char *error;           /* on failure: a sentence, or null: see errno */
};

/* Makes the result durable, and then `.done`. False on failure; but a short result counts also if
 * the disk fails at present. */
WEIR_MUST_CHECK bool weir_folder_seal(int fd, struct weir_folder_result *result);

/* Whether the errno means a lack of resources on Weir's side, which passes or is repaired, so that
 * the attempt must not count. */
bool weir_folder_lacks(int error);

/* ---- inside, for folder_result.c ---- */

#define WEIR_FOLDER_NAME_BYTES_MAX 40

void weir_folder_name_attempt(char *name, uint64_t number, uint32_t attempt);

/* The folder of all attempts; -1 with errno. */
int weir_folder_open_work(const char *data);

#endif
