/* child.h - runs this program as a child, reads its stdout, and ends it with the parent.
 *
 * However the parent ends, also by SIGKILL, the kernel then sends the child a SIGTERM. The child's
 * stderr is kept from the terminal, and shown if the child fails. */
#ifndef WEIR_CLI_CHILD_H
#define WEIR_CLI_CHILD_H

#include "weir/types.h"

#include <stdbool.h>
#include <sys/types.h>

struct weir_child {
    const char *name; /* for complaints */
    pid_t pid;        /* 0: none */
    int out_fd;       /* its stdout; -1: none */
    int error_fd;     /* its stderr; -1: none */
};

/* No child yet. */
#define WEIR_CHILD_NONE ((struct weir_child){.out_fd = -1, .error_fd = -1})

/* Runs this program with these arguments, the first of which is a command, ended by a null. False,
 * with errno. */
WEIR_MUST_CHECK bool weir_child_start(struct weir_child *child, const char *name,
                                      char *const arguments[]);

/* Runs a function in a child, which exits with its result. False, with errno. */
WEIR_MUST_CHECK bool weir_child_fork(struct weir_child *child, const char *name,
                                     int (*run)(void *context), void *context);

/* Waits for a line that begins with `prefix` and copies what follows it, terminated. False if the
 * child ends before that or takes too long, which is reported on stderr. */
WEIR_MUST_CHECK bool weir_child_hear(struct weir_child *child, const char *prefix, char *text,
                                     size_t bytes);

/* Whether the child has ended unasked; if so, prints that and the child's stderr. */
bool weir_child_has_ended(struct weir_child *child);

/* Ends the child and waits for that; a child that takes too long is killed. Safe without a child.
 */
void weir_child_end(struct weir_child *child);

#endif
