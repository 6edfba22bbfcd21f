/* watch.h - redraws output: in place on a terminal, else one below the other, until Ctrl-C or a
 * SIGTERM. */
#ifndef WEIR_CLI_WATCH_H
#define WEIR_CLI_WATCH_H

#include <stdint.h>
#include <stdio.h>

/* Writes it once. A result other than 0 ends the program with that status; it may return early,
 * with any status, when `stop_fd` becomes readable. */
typedef int weir_watch_draw(void *context, int stop_fd, FILE *out);

/* Draws every `interval_ns` and returns the exit status: 0 after a signal. The terminal is left as
 * it was found. */
int weir_watch(weir_watch_draw *draw, void *context, uint64_t interval_ns);

#endif
