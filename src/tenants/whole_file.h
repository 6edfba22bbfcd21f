/* whole_file.h - files that are there as a whole or not at all.
 *
 * What is written goes to PATH.new first and takes the file's place once it is on the disk, so
 * whoever reads finds the old one or the new one, whatever happens in between. Files are for their
 * owner alone (0600), folders that are missing are made (0700). Calls block; none belongs into a
 * loop. What goes wrong is told by errno. */
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

/* Begins to write. On failure nothing is open. Two must not write one path at once: see the lock.
 */
WEIR_MUST_CHECK bool weir_whole_file_begin(struct weir_whole_file *file, const char *path);

/* Puts it in its place; if anything about that failed, or writing before, the old one stays. */
WEIR_MUST_CHECK bool weir_whole_file_commit(struct weir_whole_file *file);

/* Leaves the old one as it is. */
void weir_whole_file_abandon(struct weir_whole_file *file);

/* All of a file, with a zero behind it that does not count; to be freed. Null on failure: EFBIG if
 * it has more than `bytes_max`. */
char *weir_whole_file_read(const char *path, size_t bytes_max, size_t *bytes);

/* Makes sure that nobody else who asks holds this path, waiting for `patience_ms` at most. The
 * file is made for that, is empty, and stays. Closing the descriptor lets go; -1 on failure,
 * EWOULDBLOCK if somebody has it. */
WEIR_MUST_CHECK int weir_whole_file_lock(const char *path, unsigned patience_ms);

#endif
