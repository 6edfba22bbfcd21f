/* exec_env.h - the program, arguments, environment and user of a command.
 *
 * A disk thread makes it before the process starts, because it reads files: PATH is searched and
 * the user looked up each time, so that a replaced program is found. */
#ifndef WEIR_RUNNER_EXEC_ENV_H
#define WEIR_RUNNER_EXEC_ENV_H

#include "base/arena.h"
#include "runner/command.h"

#include <sys/types.h>

/* The attempt's values for arguments and environment. */
struct weir_exec_env_job {
    struct weir_slice id;
    struct weir_slice queue;
    struct weir_slice tenant;
    uint32_t attempt;
    const char *folder; /* its own */
    const char *in;     /* the files in it, */
    const char *out;    /* as the command can reach them */
};

struct weir_exec_env {
    const char *path;
    char **argv;
    char **envp;
    bool other_user; /* run as uid: a user is named, and it is another one or root */
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    size_t group_count;
    const char *home; /* of the other user */
};

/* Whether an argument of the command is this word, such as `{in}`. */
bool weir_exec_env_names(const struct weir_command_kind *kind, const char *word);

/* Each returns 0 or an errno: ENOENT if there is no such user or program, EPERM if Weir may not run
 * anything as that user. The results are in the arena. The user must be found first. */
WEIR_MUST_CHECK int weir_exec_env_find_user(struct weir_exec_env *exec_env,
                                            struct weir_arena *arena, struct weir_slice user);
WEIR_MUST_CHECK int weir_exec_env_find_program(struct weir_exec_env *exec_env,
                                               struct weir_arena *arena, struct weir_slice name);
WEIR_MUST_CHECK int weir_exec_env_fill(struct weir_exec_env *exec_env, struct weir_arena *arena,
                                       const struct weir_command_kind *kind,
                                       const struct weir_exec_env_job *job);

#endif
