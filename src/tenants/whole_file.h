/* whole_file.h - files that are replaced as a whole or not at all.
 *
 * The new content goes to PATH.new first and replaces the file once it is on the disk, so a reader
 * finds the old file or the new one, whatever happens in between. Files are readable for their
 * owner alone (0600); missing folders are made (0700). Calls block, so loops must not make them.
 * Failures are reported in errno. */
#ifndef WEIR_TENANTS_WHOLE_FILE_H
#define WEIR_TENANTS_WHOLE_FILE_H

#include "weir/types.h"

#include <linux/limits.h> /* PATH_MAX, which C17 alone does not have */
#include <stdbool.h>
#include <stdio.h>

struct weir_whole_file {
    FILE *stream; /* to be written to */
    char path[PATH_MAX];
    char fresh[PATH_MAX];
};

/* Begins to write. On failure nothing is open. Two writers must not write one path at once: see
 * weir_whole_file_lock(). */
WEIR_MUST_CHECK bool weir_whole_file_begin(struct weir_whole_file *file, const char *path);

/* Replaces the file; if that fails, or writing before, the old one stays. */
WEIR_MUST_CHECK bool weir_whole_file_commit(struct weir_whole_file *file);

/* Gives up; the old file stays as it is. */
void weir_whole_file_abandon(struct weir_whole_file *file);

/* Reads a whole file; a zero follows the content and does not count. The caller frees it. Null on
 * failure: EFBIG if the file has more than `bytes_max` bytes. */
char *weir_whole_file_read(const char *path, size_t bytes_max, size_t *bytes);

/* Takes a lock on this path, waiting for at most `patience_ms`. The lock file is made if needed, is
 * empty, and stays. Closing the descriptor releases the lock; -1 on failure, EWOULDBLOCK if another
 * process holds it. */
WEIR_MUST_CHECK int weir_whole_file_lock(const char *path, unsigned patience_ms);

#endif
