/* line_file.h - lines on their way to a file, which no caller ever waits for.
 *
 * A caller copies its line into a buffer in memory, under a lock that is held for no longer than
 * that. A thread of the file's own takes the buffer, gives callers an empty one in its place, and
 * writes. So a disk that is full, slow or gone costs lines and never time: a line for which the
 * buffer has no room, and a line that cannot be written, is dropped and counted. Only whole lines
 * are in a file: what has been written of a line is taken back if the rest of it fails, or ended
 * with a line feed in a pipe, in stderr's file, and in a file to which another program writes.
 *
 * The file can be another one at any time, or opened once more by its path, which is how programs
 * that rotate files work: they rename the old one first. */
#ifndef WEIR_LOG_LINE_FILE_H
#define WEIR_LOG_LINE_FILE_H

#include "weir/types.h"

#include <stdbool.h>

/* The longest line, with its line feed. A buffer holds one. */
#define WEIR_LINE_BYTES_MAX 16384

struct weir_line_file;

/* What goes into the counts. */
struct weir_line_file_counts {
    uint64_t written; /* lines */
    uint64_t dropped; /* lines */
};

/* Its two buffers have so many bytes each, at least WEIR_LINE_BYTES_MAX. Until it is opened, lines
 * are dropped without being counted. Null without memory. */
struct weir_line_file *weir_line_file_create(uint32_t buffer_bytes);

/* Opens the file of that path and writes there from now on; what was put before still goes to the
 * file before, unless that takes nothing for a second. With an empty path to stderr. False, with
 * errno, if that is not possible: then nothing has changed. One thread at a time calls this and the
 * next two. */
WEIR_MUST_CHECK bool weir_line_file_open(struct weir_line_file *file, struct weir_slice path);

/* Opens the path once more. If that is not possible, the open file stays, and errno says why. */
WEIR_MUST_CHECK bool weir_line_file_reopen(struct weir_line_file *file);

/* Writes what is left, for up to a second where the file takes nothing, and ends. Null is fine. */
void weir_line_file_destroy(struct weir_line_file *file);

/* Puts a line, which ends with its line feed. Any thread; never waits for the file. */
void weir_line_file_put(struct weir_line_file *file, struct weir_slice line);

/* Counts a line as dropped that could not be made. Any thread. */
void weir_line_file_drop(struct weir_line_file *file);

/* Waits until all lines that were put before are written or dropped, for up to a second. */
void weir_line_file_flush(struct weir_line_file *file);

/* Any thread. */
struct weir_line_file_counts weir_line_file_counts(struct weir_line_file *file);

/* What the file says of itself when writing begins to fail, with errno, and when it works again:
 * called by the file's thread; null: nothing. Set before the file is opened. */
typedef void weir_line_file_report(void *context, int error, uint64_t dropped);
void weir_line_file_set_report(struct weir_line_file *file, weir_line_file_report *report,
                               void *context);

#endif
