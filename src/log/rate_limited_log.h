/* rate_limited_log.h - one line of the log about something that happens again and again: at once
 * when it happens for the first time, then once a minute with how often it has happened since. */
#ifndef WEIR_LOG_RATE_LIMITED_LOG_H
#define WEIR_LOG_RATE_LIMITED_LOG_H

#include "log/log.h"

#include <stdatomic.h>

#define WEIR_LOG_PERIOD_NS WEIR_NS_PER_MINUTE

/* Zeroed at first. One for each thing that a line is written about; any thread may use it. */
struct weir_rate_limited_log {
    _Atomic uint64_t next_ns;   /* before this moment nothing is written; 0: nothing was yet */
    _Atomic uint64_t held_back; /* since the last line */
};

/* Logs the line (log.h), unless that was done less than a minute ago. The number of those that were
 * held back follows the sentence. */
void weir_log_rate_limited(struct weir_rate_limited_log *log, uint64_t now_ns,
                           enum weir_log_level level, const char *event,
                           const struct weir_log_names *names, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#endif
