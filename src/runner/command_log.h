/* command_log.h - what a command says on stderr: the last of it is kept, and its progress is read.
 *
 * Bytes arrive as they come. A line `weir-progress: 0.4 half way there` tells progress, from 0 to
 * 1, and what it is about; either may be missing. Of a line that is too long only the start counts.
 * What is told is merged until somebody asks, so a flood of lines is one piece of news. */
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
    double progress; /* less than 0: not told since it was last asked for */
    size_t text_bytes;
    char text[WEIR_COMMAND_PROGRESS_BYTES_MAX];
};

/* Zeroed memory is an empty log. */
void weir_command_log_deinit(struct weir_command_log *log);

void weir_command_log_take(struct weir_command_log *log, struct weir_slice bytes);

/* The last line counts although nothing ends it. */
void weir_command_log_end(struct weir_command_log *log);

/* What is kept: up to WEIR_COMMAND_LOG_BYTES_MAX. */
struct weir_slice weir_command_log_kept(const struct weir_command_log *log);

/* Whether there is news of the progress since the last call; good until more is taken. */
bool weir_command_log_progress(struct weir_command_log *log, double *progress,
                               struct weir_slice *text);

/* Copies text without control characters and with `?` for what is not UTF-8, as many whole
 * characters as fit; returns how many bytes that are. */
size_t weir_command_text_clean(struct weir_slice text, char *to, size_t bytes_max);

/* The last line that is not blank, without what is blank around it. May be empty. */
struct weir_slice weir_command_text_last_line(struct weir_slice text);

#endif
