#include "log/rate_limited_log.h"

#include <stdio.h>

void weir_log_rate_limited(struct weir_rate_limited_log *log, uint64_t now_ns,
                           enum weir_log_level level, const char *event,
                           const struct weir_log_names *names, const char *format, ...)
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
    char message[WEIR_LOG_MESSAGE_BYTES_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (held_back == 0) {
        weir_log_event(level, event, names, "%s", message);
    } else {
        weir_log_event(level, event, names, "%s (%llu more times since the last such line)",
                       message, (unsigned long long)held_back);
    }
}
