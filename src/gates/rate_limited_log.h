/* rate_limited_log.h - one line on stderr about something that happens again and again: at once
 * when it happens for the first time, then once a minute with how often it has happened since. */
#ifndef WEIR_GATES_RATE_LIMITED_LOG_H
#define WEIR_GATES_RATE_LIMITED_LOG_H

#include "weir/types.h"

#include <stdatomic.h>
#include <stdint.h>

#define WEIR_LOG_PERIOD_NS WEIR_NS_PER_MINUTE

/* Zeroed at first. One for each thing that a line is written about; any thread may use it. */
struct weir_rate_limited_log {
    _Atomic uint64_t next_ns;   /* before this moment nothing is written; 0: nothing was yet */
    _Atomic uint64_t held_back; /* since the last line */
};

/* Writes `weir: `, the text and a line feed to stderr, unless that was done less than a minute ago.
 * Must not be called with a lock held that a loop may wait for, because stderr may be slow. */
void weir_log_rate_limited(struct weir_rate_limited_log *log, uint64_t now_ns, const char *format,
                           ...) __attribute__((format(printf, 3, 4)));

#endif
