#include "gates/rate_limited_log.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_BYTES_MAX 1024

void weir_log_rate_limited(struct weir_rate_limited_log *log, uint64_t now_ns, const char *format,
                           ...)
{
    uint64_t next_ns = atomic_load_explicit(&log->next_ns, memory_order_relaxed);
    /* The exchange fails for all threads but one of those that come at the same time. */
    if (now_ns < next_ns || !atomic_compare_exchange_strong_explicit(
                                &log->next_ns, &next_ns, now_ns + WEIR_LOG_PERIOD_NS,
                                memory_order_relaxed, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&log->held_back, 1, memory_order_relaxed);
        return;
    }
    uint64_t held_back = atomic_exchange_explicit(&log->held_back, 0, memory_order_relaxed);
    char line[LINE_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (held_back == 0) {
        fprintf(stderr, "weir: %s\n", line);
    } else {
        fprintf(stderr, "weir: %s (%llu more times since the last such line)\n", line,
                (unsigned long long)held_back);
    }
}
