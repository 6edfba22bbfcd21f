/* log.h - the log: a line for what the operator of this process should know.
 *
 * A line has a time, a level, the name of an event, which programs can look for, a sentence, and
 * the names that it is about. There is one log for the process, as there is one stderr. Until it is
 * opened, and once it is closed, lines from WEIR_LOG_WARN on are written to stderr at once, and the
 * others nowhere. While it is open, a thread of its own writes (line_file.h): any thread may log,
 * also a loop and under a lock, and never waits for the file. What a line says cannot break out of
 * it: control characters are escaped. */
#ifndef WEIR_LOG_LOG_H
#define WEIR_LOG_LOG_H

#include "weir/types.h"

#include <stdarg.h>
#include <stdbool.h>

enum weir_log_level {
    WEIR_LOG_DEBUG,
    WEIR_LOG_INFO,
    WEIR_LOG_WARN,
    WEIR_LOG_ERROR,
    WEIR_LOG_LEVEL_COUNT
};

enum weir_log_format {
    WEIR_LOG_TEXT,
    WEIR_LOG_JSON
};

/* The longest sentence; what is longer is cut. */
#define WEIR_LOG_MESSAGE_BYTES_MAX 1023

/* What a line is about; names that are empty are left out. Each is at most 255 bytes long. */
struct weir_log_names {
    struct weir_slice request_id;
    struct weir_slice listener;
    struct weir_slice route;
    struct weir_slice upstream;
    struct weir_slice address;
    struct weir_slice gate;
    struct weir_slice key;
    struct weir_slice tenant;
    struct weir_slice client;
};

struct weir_log_settings {
    enum weir_log_level level; /* the lowest that is written */
    enum weir_log_format format;
    struct weir_slice file; /* its path; empty: stderr */
};

/* Opens the log, or changes where and how it is written. False, with errno, if the file cannot be
 * opened: then nothing has changed. One thread at a time calls this and the next two. */
WEIR_MUST_CHECK bool weir_log_open(const struct weir_log_settings *settings);

/* Opens the file once more by its path, after something else has renamed it. */
void weir_log_reopen(void);

/* Writes what is left. No thread may log any more that has begun before. */
void weir_log_close(void);

/* Waits until all that has been logged is written, for up to a second. */
void weir_log_flush(void);

/* Whether lines go to a file, so that stderr does not have them. */
bool weir_log_has_file(void);

/* Whether lines of that level are written: for what is costly to put together. */
bool weir_log_writes(enum weir_log_level level);

/* Logs a line. `event` is one or more words with '_' between them; `names` may be null. */
void weir_log_event(enum weir_log_level level, const char *event,
                    const struct weir_log_names *names, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void weir_log_event_list(enum weir_log_level level, const char *event,
                         const struct weir_log_names *names, const char *format, va_list arguments)
    __attribute__((format(printf, 4, 0)));

/* Lines that have been written, by level, and lines that were dropped because the file took them
 * not or not in time. Any thread. */
struct weir_log_counts {
    uint64_t lines[WEIR_LOG_LEVEL_COUNT];
    uint64_t dropped;
};
struct weir_log_counts weir_log_counts(void);

/* "debug", "info", "warn", "error". */
const char *weir_log_level_name(enum weir_log_level level);

/* The time as both logs write it: 2025-08-21T12:40:59.000Z and no end. */
#define WEIR_LOG_TIME_BYTES 24
void weir_log_time(uint64_t wall_ns, char text[WEIR_LOG_TIME_BYTES]);

#endif
