/* command_log.h - the log of a command: keeps its end, and reads its progress.
 *
 * Bytes arrive as they come. A line `weir-progress: 0.4 half way there` reports progress, from 0 to
 * 1, and a text; either may be missing. Only the start of a line that is too long counts. Reports
 * are merged until the caller asks, so a flood of lines is one report. */
#ifndef WEIR_RUNNER_COMMAND_LOG_H
#define WEIR_RUNNER_COMMAND_LOG_H

#include "runner/command.h"

/* The word, a number and the text, each with room to spare. */
#define WEIR_COMMAND_LINE_BYTES_MAX 320

struct weir_command_log {
    char *bytes; /* room for twice what is kept, so that moving it is rare; null before the first */
    size_t used;
    bool refused; /* there was no memory for it: only progress is read */
    size_t line_bytes;
    char line[WEIR_COMMAND_LINE_BYTES_MAX]; /* the start of the line that is under way */
    bool news;
    double progress; /* less than 0: not reported since the last call */
    size_t text_bytes;
    char text[WEIR_COMMAND_PROGRESS_BYTES_MAX];
};

/* Zeroed memory is an empty log. */
void weir_command_log_deinit(struct weir_command_log *log);

void weir_command_log_take(struct weir_command_log *log, struct weir_slice bytes);

/* The last line counts although nothing ends it. */
void weir_command_log_end(struct weir_command_log *log);

/* The kept end of the log: up to WEIR_COMMAND_LOG_BYTES_MAX bytes. */
struct weir_slice weir_command_log_kept(const struct weir_command_log *log);

/* Whether progress was reported since the last call; the text is valid until more bytes arrive. */
bool weir_command_log_progress(struct weir_command_log *log, double *progress,
                               struct weir_slice *text);

/* Copies text without control characters and with `?` for what is not UTF-8, as many whole
 * characters as fit; returns how many bytes that are. */
size_t weir_command_text_clean(struct weir_slice text, char *to, size_t bytes_max);

/* The last line that is not blank, without what is blank around it. May be empty. */
struct weir_slice weir_command_text_last_line(struct weir_slice text);

#endif
