/* cgroup.h - control groups of sandboxes: limits, freezing, killing everything, finding what is
 * left.
 *
 * Every sandbox has one group by its name, below a group of this installation that lies beside
 * Weir's own. With cgroup v2 alone that is one folder; on a hybrid system it is one folder in each
 * of the v1 hierarchies that limit (memory, pids, cpu) and one in the v2 hierarchy, which has no
 * controllers there, but freezes, kills, and tells whether a process is left.
 *
 * These functions read and write files and keep no state, so any thread may call them, also for
 * the same sandbox. Requires Linux 5.14 for cgroup.kill. */
#ifndef WEIR_RUNTIME_CGROUP_H
#define WEIR_RUNTIME_CGROUP_H

#include "weir/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WEIR_CGROUP_PATH_BYTES_MAX  512
#define WEIR_SANDBOX_NAME_BYTES_MAX 128

enum weir_cgroup_layout {
    WEIR_CGROUP_NONE,   /* no group can be made: `why` */
    WEIR_CGROUP_HYBRID, /* v1 controllers, and v2 without any */
    WEIR_CGROUP_V2
};

enum weir_cgroup_tree {
    WEIR_CGROUP_UNIFIED, /* always there */
    WEIR_CGROUP_MEMORY,  /* the others: with v1 controllers alone */
    WEIR_CGROUP_PIDS,
    WEIR_CGROUP_CPU,
    WEIR_CGROUP_TREE_COUNT
};

/* Where the groups of an installation are. */
struct weir_cgroups {
    enum weir_cgroup_layout layout;
    char parent[WEIR_CGROUP_TREE_COUNT][WEIR_CGROUP_PATH_BYTES_MAX];
    char why[256]; /* NONE: a sentence */
};

struct weir_cgroup_limits {
    uint64_t memory_bytes; /* 0: none, as in the others */
    uint32_t processes;
    uint32_t cpu_percent; /* of one core */
};

struct weir_cgroup_usage {
    uint64_t memory_bytes;
    uint64_t cpu_us;
    uint64_t oom_kills;
    uint32_t processes;
};

/* Finds out where groups can be made, and makes the group of the installation. `root` is
 * /sys/fs/cgroup, and `self` what /proc/self/cgroup says; a test has others. */
void weir_cgroups_open(struct weir_cgroups *groups, const char *root, const char *self,
                       const char *installation);

/* Makes a sandbox's group and sets its limits. One that exists already is used. False, with errno;
 * then what was made stays for weir_cgroup_remove(). */
WEIR_MUST_CHECK bool weir_cgroup_create(const struct weir_cgroups *groups, const char *name,
                                        const struct weir_cgroup_limits *limits);

/* The folder for CLONE_INTO_CGROUP; -1 with errno. */
WEIR_MUST_CHECK int weir_cgroup_open(const struct weir_cgroups *groups, const char *name);

/* Puts a process that was cloned into the group under the v1 controllers, too. */
WEIR_MUST_CHECK bool weir_cgroup_join(const struct weir_cgroups *groups, const char *name,
                                      pid_t pid);

/* Asks for all processes to be stopped, or to go on; weir_cgroup_frozen() says when they are. */
WEIR_MUST_CHECK bool weir_cgroup_freeze(const struct weir_cgroups *groups, const char *name,
                                        bool frozen);
bool weir_cgroup_frozen(const struct weir_cgroups *groups, const char *name);

/* Kills all processes, frozen ones as well. True also if there is no such group. */
WEIR_MUST_CHECK bool weir_cgroup_kill(const struct weir_cgroups *groups, const char *name);

/* Whether a process is left. False also if there is no such group. */
bool weir_cgroup_populated(const struct weir_cgroups *groups, const char *name);

/* Removes the group, in which no process is left. True also if there was none. */
WEIR_MUST_CHECK bool weir_cgroup_remove(const struct weir_cgroups *groups, const char *name);

bool weir_cgroup_usage(const struct weir_cgroups *groups, const char *name,
                       struct weir_cgroup_usage *usage);

/* Calls `found` with the name of each group below the installation's, in any tree; the same name
 * may come several times. `found` may remove it. */
void weir_cgroups_list(const struct weir_cgroups *groups,
                       void (*found)(void *context, const char *name), void *context);

#endif
