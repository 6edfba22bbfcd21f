/* spawn.h - a process, started at a cost that does not grow with the one that starts it.
 *
 * The child borrows our memory until it has become the program (CLONE_VFORK), so nothing of ours is
 * copied; until then it uses nothing but system calls. It reports a failure in the shared memory.
 * Everything that needs files is resolved before. */
#ifndef WEIR_RUNNER_SPAWN_H
#define WEIR_RUNNER_SPAWN_H

#include "runner/command.h"

#include <sys/types.h>

struct weir_spawn {
    const char *path; /* of the program, already resolved */
    char *const *argv;
    char *const *envp;
    int folder_fd; /* where it begins */
    int files[3];  /* its stdin, stdout and stderr; -1: /dev/null */
    struct weir_command_limits limits;
    bool other_user; /* run as this user: */
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t group_count;
};

struct weir_spawned {
    pid_t pid;        /* also of its process group and session */
    int fd;           /* readable when it has ended */
    const char *step; /* on failure: the step that failed, such as "its user could not be set" */
    pid_t supervisor; /* of a command that the launcher has started */
    bool late;        /* on failure: it may have run for a while (launcher.h) */
};

/* Returns 0 or an errno. Blocks until the program has begun. */
WEIR_MUST_CHECK int weir_spawn_start(const struct weir_spawn *spawn, struct weir_spawned *spawned);

#endif
