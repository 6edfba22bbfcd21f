/* descriptor_log.h - the line of the log that says that file descriptors have run out. */
#ifndef WEIR_WORKER_DESCRIPTOR_LOG_H
#define WEIR_WORKER_DESCRIPTOR_LOG_H

#include <stdint.h>

/* Writes that the call `what` lacks a descriptor, the numbers, and what to do; at most once a
 * minute for the whole process. Any thread. */
void weir_log_descriptors(const char *what, uint64_t now_ns);

#endif
