/* child.h - another run of this program as a child: told what to do, heard on its stdout, and gone
 * when we are.
 *
 * However we end, also by SIGKILL, the kernel ends the child: it is sent a SIGTERM then. What a
 * child says on stderr is kept from the terminal, and shown if it fails. */
#ifndef WEIR_CLI_CHILD_H
#define WEIR_CLI_CHILD_H

#include "weir/types.h"

#include <stdbool.h>
#include <sys/types.h>

struct weir_child {
    const char *name; /* for complaints */
    pid_t pid;        /* 0: none */
    int out_fd;       /* what it says; -1: nothing */
    int wrong_fd;     /* what it complains of; -1: nothing */
};

/* No child yet. */
#define WEIR_CHILD_NONE ((struct weir_child){.out_fd = -1, .wrong_fd = -1})

/* Runs this program with these arguments, which begin with a command and end with a null. False,
 * with errno. */
WEIR_MUST_CHECK bool weir_child_start(struct weir_child *child, const char *name,
                                      char *const arguments[]);

/* Runs a function in a child; what it returns is the child's exit status. False, with errno. */
WEIR_MUST_CHECK bool weir_child_fork(struct weir_child *child, const char *name,
                                     int (*run)(void *context), void *context);

/* Waits for a line that begins with `prefix` and copies what follows it, terminated. False if the
 * child ends before, or takes too long; then stderr says so. */
WEIR_MUST_CHECK bool weir_child_hear(struct weir_child *child, const char *prefix, char *text,
                                     size_t bytes);

/* Whether it has ended by itself; then stderr says so, with what the child complained of. */
bool weir_child_has_ended(struct weir_child *child);

/* Has it end, and waits for that; one that takes too long is killed. Safe without a child. */
void weir_child_end(struct weir_child *child);

#endif
