/* watch.h - draws something again and again: in place on a terminal, else one below the other,
 * until Ctrl-C or a SIGTERM. */
#ifndef WEIR_CLI_WATCH_H
#define WEIR_CLI_WATCH_H

#include <stdint.h>
#include <stdio.h>

/* Writes it once. Not 0 is the exit status with which to end; it may end early, with whatever
 * status, when `stop_fd` becomes readable. */
typedef int weir_watch_draw(void *context, int stop_fd, FILE *out);

/* Draws every `interval_ns` and returns the exit status: 0 when it was told to end. The terminal is
 * left as it was found. */
int weir_watch(weir_watch_draw *draw, void *context, uint64_t interval_ns);

#endif
