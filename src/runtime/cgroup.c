/* cgroup.c - control groups by files. Any thread; nothing is shared.
 *
 * A group is made with all of its limits before a process is in it. The order of the trees matters
 * in two places: the unified one is made last, because the sweep goes by it, and removed last, for
 * the same reason; so a group that was made or removed in part is found again. */
#define _GNU_SOURCE /* O_PATH */
#include "runtime/cgroup.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES_MAX (WEIR_CGROUP_PATH_BYTES_MAX + WEIR_SANDBOX_NAME_BYTES_MAX + 64)

/* Of cpu.max and cpu.cfs_period_us: the kernel's usual period. */
#define CPU_PERIOD_US UINT64_C(100000)

static const char *const v1_names[WEIR_CGROUP_TREE_COUNT] = {
    [WEIR_CGROUP_MEMORY] = "memory",
    [WEIR_CGROUP_PIDS] = "pids",
    [WEIR_CGROUP_CPU] = "cpu",
};

/* ---- files ---- */

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd == -1) {
        return false;
    }
    ssize_t written = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return written == (ssize_t)strlen(text);
}

/* Reads the beginning of a file as text; empty if it cannot be read. */
static void read_text(const char *path, char *text, size_t bytes)
{
    text[0] = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1) {
        return;
    }
    ssize_t count = read(fd, text, bytes - 1);
    text[count > 0 ? count : 0] = 0;
    close(fd);
}

static bool path_of(const struct weir_cgroups *groups, enum weir_cgroup_tree tree, const char *name,
                    const char *file, char path[PATH_BYTES_MAX])
{
    int bytes = snprintf(path, PATH_BYTES_MAX, "%s/%s%s%s", groups->parent[tree], name,
                         file[0] == 0 ? "" : "/", file);
    assert(bytes > 0 && bytes < PATH_BYTES_MAX);
    return groups->parent[tree][0] != 0;
}

static bool write_file(const struct weir_cgroups *groups, enum weir_cgroup_tree tree,
                       const char *name, const char *file, const char *text)
{
    char path[PATH_BYTES_MAX];
    return path_of(groups, tree, name, file, path) && write_text(path, text);
}

static uint64_t read_number(const struct weir_cgroups *groups, enum weir_cgroup_tree tree,
                            const char *name, const char *file)
{
    char path[PATH_BYTES_MAX], text[64];
    if (!path_of(groups, tree, name, file, path)) {
        return 0;
    }
    read_text(path, text, sizeof text);
    return strtoull(text, NULL, 10);
}

/* A file of lines, each with a word and a number: the number of that word, else 0. */
static uint64_t read_field(const struct weir_cgroups *groups, enum weir_cgroup_tree tree,
                           const char *name, const char *file, const char *word)
{
    char path[PATH_BYTES_MAX], text[2048];
    if (!path_of(groups, tree, name, file, path)) {
        return 0;
    }
    read_text(path, text, sizeof text);
    size_t bytes = strlen(word);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, bytes) == 0 && line[bytes] == ' ') {
            return strtoull(line + bytes, NULL, 10);
        }
    }
    return 0;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- where the groups are ---- */

/* The path of our own group in a hierarchy, as /proc/self/cgroup has it: lines such as
 * "4:memory:/service" or, for v2, "0::/service". The root's where there is no such line. */
static void find_own(const char *self, const char *controller, char *path, size_t bytes)
{
    snprintf(path, bytes, "/");
    for (const char *line = self; line != NULL && *line != 0; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *names = strchr(line, ':');
        const char *own = names == NULL ? NULL : strchr(names + 1, ':');
        if (own == NULL) {
            return;
        }
        size_t length = (size_t)(own - names) - 1;
        if (length == strlen(controller) && memcmp(names + 1, controller, length) == 0) {
            snprintf(path, bytes, "%.*s", (int)strcspn(own + 1, "\n"), own + 1);
            return;
        }
    }
}

static bool make_folder(const char *path)
{
    return mkdir(path, 0755) == 0 || errno == EEXIST;
}

/* Appends to a path; too long becomes a path that does not exist. */
static void append(char path[PATH_BYTES_MAX], const char *text)
{
    size_t bytes = strlen(path), more = strlen(text);
    if (bytes + more < PATH_BYTES_MAX) {
        memcpy(path + bytes, text, more + 1);
    } else {
        path[0] = 0;
    }
}

static void fail_open(struct weir_cgroups *groups, const char *what, const char *path)
{
    int error = errno;
    memset(groups, 0, sizeof *groups);
    snprintf(groups->why, sizeof groups->why, "cannot %s %.150s: %s", what, path, strerror(error));
}

/* Sets a tree's parent to the installation's group in that folder, and makes it. */
static bool set_parent(struct weir_cgroups *groups, enum weir_cgroup_tree tree, const char *folder,
                       const char *installation)
{
    char path[PATH_BYTES_MAX] = "";
    append(path, folder);
    append(path, "/weir-");
    append(path, installation);
    if (strlen(path) >= WEIR_CGROUP_PATH_BYTES_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(groups->parent[tree], path, strlen(path) + 1);
    return make_folder(path);
}

/* The group lies beside our own. A group of another mount namespace cannot be seen: then it lies in
 * the hierarchy's root. */
static bool open_tree(struct weir_cgroups *groups, enum weir_cgroup_tree tree,
                      const char *hierarchy, const char *self, const char *installation)
{
    char own[PATH_BYTES_MAX], beside[PATH_BYTES_MAX] = "";
    find_own(self, tree == WEIR_CGROUP_UNIFIED ? "" : v1_names[tree], own, sizeof own);
    append(beside, hierarchy);
    append(beside, own);
    if (exists(beside)) {
        *strrchr(beside, '/') = 0;
    }
    return set_parent(groups, tree, exists(beside) ? beside : hierarchy, installation);
}

static void open_hybrid(struct weir_cgroups *groups, const char *root, const char *self,
                        const char *installation)
{
    for (int tree = WEIR_CGROUP_TREE_COUNT - 1; tree >= 0; tree--) {
        char hierarchy[PATH_BYTES_MAX] = "";
        append(hierarchy, root);
        append(hierarchy, "/");
        append(hierarchy, tree == WEIR_CGROUP_UNIFIED ? "unified" : v1_names[tree]);
        if (!open_tree(groups, (enum weir_cgroup_tree)tree, hierarchy, self, installation)) {
            fail_open(groups, "make a control group in", hierarchy);
            return;
        }
    }
    groups->layout = WEIR_CGROUP_HYBRID;
}

static bool hand_down_controllers(const char *folder)
{
    char path[PATH_BYTES_MAX] = "";
    append(path, folder);
    append(path, "/cgroup.subtree_control");
    return write_text(path, "+memory +pids +cpu");
}

/* Moves this process into a group below `folder`. */
static bool move_into_leaf(const char *folder)
{
    char path[PATH_BYTES_MAX] = "", pid[32];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    append(path, folder);
    append(path, "/weir-main");
    if (!make_folder(path)) {
        return false;
    }
    append(path, "/cgroup.procs");
    return write_text(path, pid);
}

/* Controllers are handed down from group to group, and a group that hands any down must have no
 * processes of its own: so our own process moves into a leaf, and the sandboxes' group is its
 * neighbour. That is what a service gets with systemd's Delegate=yes. The root group alone may have
 * processes and hand controllers down. */
static void open_v2(struct weir_cgroups *groups, const char *root, const char *self,
                    const char *installation)
{
    char own[PATH_BYTES_MAX], base[PATH_BYTES_MAX] = "";
    find_own(self, "", own, sizeof own);
    append(base, root);
    append(base, strcmp(own, "/") == 0 ? "" : own);
    if (strcmp(own, "/") != 0 && !move_into_leaf(base)) {
        fail_open(groups, "move into a control group of", base);
    } else if (!hand_down_controllers(base)) {
        fail_open(groups, "hand down the controllers of", base);
    } else if (!set_parent(groups, WEIR_CGROUP_UNIFIED, base, installation) ||
               !hand_down_controllers(groups->parent[WEIR_CGROUP_UNIFIED])) {
        fail_open(groups, "make a control group in", base);
    } else {
        groups->layout = WEIR_CGROUP_V2;
    }
}

void weir_cgroups_open(struct weir_cgroups *groups, const char *root, const char *self,
                       const char *installation)
{
    char pure[PATH_BYTES_MAX] = "", hybrid[PATH_BYTES_MAX] = "";
    memset(groups, 0, sizeof *groups);
    append(pure, root);
    append(pure, "/cgroup.controllers");
    append(hybrid, root);
    append(hybrid, "/unified/cgroup.procs");
    if (exists(pure)) {
        open_v2(groups, root, self, installation);
    } else if (exists(hybrid)) {
        open_hybrid(groups, root, self, installation);
    } else {
        errno = ENOENT;
        fail_open(groups, "find a cgroup v2 hierarchy below", root);
    }
}

/* ---- one group ---- */

static bool set_number(const struct weir_cgroups *groups, enum weir_cgroup_tree tree,
                       const char *name, const char *file, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, number);
    return number == 0 || write_file(groups, tree, name, file, text);
}

static bool limit_v1(const struct weir_cgroups *groups, const char *name,
                     const struct weir_cgroup_limits *limits)
{
    if (!set_number(groups, WEIR_CGROUP_MEMORY, name, "memory.limit_in_bytes",
                    limits->memory_bytes) ||
        !set_number(groups, WEIR_CGROUP_PIDS, name, "pids.max", limits->processes) ||
        !set_number(groups, WEIR_CGROUP_CPU, name, "cpu.cfs_quota_us",
                    limits->cpu_percent * CPU_PERIOD_US / 100)) {
        return false;
    }
    /* A kernel that does not account swap has no such file, and no swap to use either. */
    return set_number(groups, WEIR_CGROUP_MEMORY, name, "memory.memsw.limit_in_bytes",
                      limits->memory_bytes) ||
           errno == ENOENT;
}

static bool limit_v2(const struct weir_cgroups *groups, const char *name,
                     const struct weir_cgroup_limits *limits)
{
    char text[64];
    snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64, limits->cpu_percent * CPU_PERIOD_US / 100,
             CPU_PERIOD_US);
    return set_number(groups, WEIR_CGROUP_UNIFIED, name, "memory.max", limits->memory_bytes) &&
           set_number(groups, WEIR_CGROUP_UNIFIED, name, "pids.max", limits->processes) &&
           (limits->cpu_percent == 0 ||
            write_file(groups, WEIR_CGROUP_UNIFIED, name, "cpu.max", text)) &&
           (limits->memory_bytes == 0 ||
            write_file(groups, WEIR_CGROUP_UNIFIED, name, "memory.swap.max", "0") ||
            errno == ENOENT);
}

bool weir_cgroup_create(const struct weir_cgroups *groups, const char *name,
                        const struct weir_cgroup_limits *limits)
{
    char path[PATH_BYTES_MAX];
    assert(groups->layout != WEIR_CGROUP_NONE);
    assert(name[0] != 0 && name[0] != '.' && strchr(name, '/') == NULL);
    for (int tree = WEIR_CGROUP_TREE_COUNT - 1; tree >= 0; tree--) {
        if (path_of(groups, (enum weir_cgroup_tree)tree, name, "", path) && !make_folder(path)) {
            return false;
        }
    }
    return groups->layout == WEIR_CGROUP_V2 ? limit_v2(groups, name, limits)
                                            : limit_v1(groups, name, limits);
}

int weir_cgroup_open(const struct weir_cgroups *groups, const char *name)
{
    char path[PATH_BYTES_MAX];
    path_of(groups, WEIR_CGROUP_UNIFIED, name, "", path);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool weir_cgroup_join(const struct weir_cgroups *groups, const char *name, pid_t pid)
{
    char text[32];
    snprintf(text, sizeof text, "%d", (int)pid);
    for (int tree = WEIR_CGROUP_MEMORY; tree < WEIR_CGROUP_TREE_COUNT; tree++) {
        if (groups->layout == WEIR_CGROUP_HYBRID &&
            !write_file(groups, (enum weir_cgroup_tree)tree, name, "cgroup.procs", text)) {
            return false;
        }
    }
    return true;
}

bool weir_cgroup_freeze(const struct weir_cgroups *groups, const char *name, bool frozen)
{
    return write_file(groups, WEIR_CGROUP_UNIFIED, name, "cgroup.freeze", frozen ? "1" : "0");
}

bool weir_cgroup_frozen(const struct weir_cgroups *groups, const char *name)
{
    return read_field(groups, WEIR_CGROUP_UNIFIED, name, "cgroup.events", "frozen") == 1;
}

bool weir_cgroup_kill(const struct weir_cgroups *groups, const char *name)
{
    return write_file(groups, WEIR_CGROUP_UNIFIED, name, "cgroup.kill", "1") || errno == ENOENT ||
           errno == ENODEV;
}

bool weir_cgroup_populated(const struct weir_cgroups *groups, const char *name)
{
    return read_field(groups, WEIR_CGROUP_UNIFIED, name, "cgroup.events", "populated") == 1;
}

bool weir_cgroup_remove(const struct weir_cgroups *groups, const char *name)
{
    char path[PATH_BYTES_MAX];
    for (int tree = WEIR_CGROUP_TREE_COUNT - 1; tree >= 0; tree--) {
        if (path_of(groups, (enum weir_cgroup_tree)tree, name, "", path) && rmdir(path) != 0 &&
            errno != ENOENT) {
            return false;
        }
    }
    return true;
}

bool weir_cgroup_usage(const struct weir_cgroups *groups, const char *name,
                       struct weir_cgroup_usage *usage)
{
    char path[PATH_BYTES_MAX];
    *usage = (struct weir_cgroup_usage){0};
    if (!path_of(groups, WEIR_CGROUP_UNIFIED, name, "", path) || !exists(path)) {
        return false;
    }
    if (groups->layout == WEIR_CGROUP_V2) {
        usage->memory_bytes = read_number(groups, WEIR_CGROUP_UNIFIED, name, "memory.current");
        usage->processes = (uint32_t)read_number(groups, WEIR_CGROUP_UNIFIED, name, "pids.current");
        usage->oom_kills =
            read_field(groups, WEIR_CGROUP_UNIFIED, name, "memory.events", "oom_kill");
    } else {
        usage->memory_bytes =
            read_number(groups, WEIR_CGROUP_MEMORY, name, "memory.usage_in_bytes");
        usage->processes = (uint32_t)read_number(groups, WEIR_CGROUP_PIDS, name, "pids.current");
        usage->oom_kills =
            read_field(groups, WEIR_CGROUP_MEMORY, name, "memory.oom_control", "oom_kill");
    }
    usage->cpu_us = read_field(groups, WEIR_CGROUP_UNIFIED, name, "cpu.stat", "usage_usec");
    return true;
}

void weir_cgroups_list(const struct weir_cgroups *groups,
                       void (*found)(void *context, const char *name), void *context)
{
    for (int tree = 0; tree < WEIR_CGROUP_TREE_COUNT; tree++) {
        DIR *folder = groups->parent[tree][0] == 0 ? NULL : opendir(groups->parent[tree]);
        struct dirent *entry;
        while (folder != NULL && (entry = readdir(folder)) != NULL) {
            if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
                found(context, entry->d_name);
            }
        }
        if (folder != NULL) {
            closedir(folder);
        }
    }
}
