/* exec_env.c - finds the program and the user of a command, and makes its arguments and
 * environment. It reads files and the list of users, so it runs in disk threads, or in the main
 * thread for `weir check` and the start; it keeps no state of its own. */
#define _GNU_SOURCE /* getgrouplist() */
#include "runner/exec_env.h"

#include "base/alloc.h"
#include "base/slice.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GROUPS_MAX     1024  /* of one user; a user with more is refused */
#define USER_BYTES_MAX 65536 /* of an entry in the list of users */
#define OWN_COUNT      8     /* of variables that every command has */
#define PATH_OTHERWISE "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- text ---- */

/* Copies the text up to a zero byte, which no argument can have. Null without memory. */
static char *keep_text(struct weir_arena *arena, struct weir_slice text)
{
    const char *zero = text.bytes == 0 ? NULL : memchr(text.data, '\0', text.bytes);
    size_t bytes = zero == NULL ? text.bytes : (size_t)(zero - text.data);
    char *copy = weir_arena_allocate(arena, bytes + 1, 1);
    if (copy != NULL && bytes > 0) {
        memcpy(copy, text.data, bytes);
    }
    return copy;
}

/* NAME=value. */
static char *keep_variable(struct weir_arena *arena, const char *name, struct weir_slice value)
{
    size_t name_bytes = strlen(name);
    char *copy = weir_arena_allocate(arena, name_bytes + 1 + value.bytes + 1, 1);
    if (copy != NULL) {
        memcpy(copy, name, name_bytes);
        copy[name_bytes] = '=';
        if (value.bytes > 0) {
            memcpy(copy + name_bytes + 1, value.data, value.bytes);
        }
    }
    return copy;
}

static char *join_path(struct weir_arena *arena, struct weir_slice folder, const char *name)
{
    size_t name_bytes = strlen(name);
    char *path = weir_arena_allocate(arena, folder.bytes + 1 + name_bytes + 1, 1);
    if (path != NULL) {
        memcpy(path, folder.data, folder.bytes);
        path[folder.bytes] = '/';
        memcpy(path + folder.bytes + 1, name, name_bytes);
    }
    return path;
}

/* ---- the user ---- */

static int find_groups(struct weir_exec_env *exec_env, struct weir_arena *arena, const char *name)
{
    gid_t groups[GROUPS_MAX];
    int count = GROUPS_MAX;
    if (getgrouplist(name, exec_env->gid, groups, &count) == -1) {
        return EOVERFLOW;
    }
    exec_env->groups = weir_arena_allocate(arena, (size_t)count, sizeof *exec_env->groups);
    if (exec_env->groups == NULL) {
        return ENOMEM;
    }
    memcpy(exec_env->groups, groups, (size_t)count * sizeof *groups);
    exec_env->group_count = (size_t)count;
    return 0;
}

/* The capabilities needed to run a command as another user: to change the user, to own its folder
 * and files, and to read its result and kill it afterwards. Root has all of them, unless some were
 * dropped. */
static const struct {
    unsigned number;
    const char *name;
} capabilities[] = {
    {CAP_CHOWN, "CAP_CHOWN"},   {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
    {CAP_FOWNER, "CAP_FOWNER"}, {CAP_KILL, "CAP_KILL"},
    {CAP_SETGID, "CAP_SETGID"}, {CAP_SETUID, "CAP_SETUID"},
};

/* The effective capabilities; libc has no call for them. */
static uint64_t own_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    if (syscall(SYS_capget, &header, data) != 0) {
        return 0;
    }
    return (uint64_t)data[1].effective << 32 | data[0].effective;
}

/* The name of a needed capability that is missing, or null. */
static const char *missing_capability(void)
{
    uint64_t own = own_capabilities();
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++) {
        if ((own >> capabilities[i].number & 1) == 0) {
            return capabilities[i].name;
        }
    }
    return NULL;
}

/* What getpwnam_r() may return for a name that it does not know, besides 0. */
static bool is_unknown_user(int error)
{
    return error == 0 || error == ENOENT || error == ESRCH || error == EBADF || error == EPERM;
}

static int take_user(struct weir_exec_env *exec_env, struct weir_arena *arena, const char *name,
                     char *room, size_t room_bytes)
{
    struct passwd entry;
    struct passwd *found = NULL;
    int error = getpwnam_r(name, &entry, room, room_bytes, &found);
    if (found == NULL) {
        return is_unknown_user(error) ? ENOENT : error;
    }
    bool itself = found->pw_uid == geteuid();
    if (!itself && missing_capability() != NULL) {
        return EPERM;
    }
    if (itself && geteuid() != 0) {
        return 0; /* as without `user` */
    }
    exec_env->other_user = true;
    exec_env->uid = found->pw_uid;
    exec_env->gid = found->pw_gid;
    exec_env->home = keep_text(arena, weir_slice_of(found->pw_dir));
    return exec_env->home == NULL ? ENOMEM : find_groups(exec_env, arena, name);
}

int weir_exec_env_find_user(struct weir_exec_env *exec_env, struct weir_arena *arena,
                            struct weir_slice user)
{
    if (user.bytes == 0) {
        return 0;
    }
    char *name = keep_text(arena, user);
    char *room = malloc(USER_BYTES_MAX);
    int error = name == NULL || room == NULL
                    ? ENOMEM
                    : take_user(exec_env, arena, name, room, USER_BYTES_MAX);
    free(room);
    return error;
}

/* ---- the program ---- */

/* ENOENT, EACCES or 0. */
static int look_at_program(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        return errno == EACCES ? EACCES : ENOENT;
    }
    return S_ISREG(status.st_mode) && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 ? 0 : EACCES;
}

/* Makes a path absolute against Weir's folder, because the command begins in another one. */
static char *absolute(struct weir_arena *arena, const char *path)
{
    char here[PATH_MAX];
    if (path[0] == '/' || getcwd(here, sizeof here) == NULL) {
        return keep_text(arena, weir_slice_of(path));
    }
    return join_path(arena, weir_slice_of(here), path);
}

/* An empty part of PATH is where we are. */
static int search_path(struct weir_exec_env *exec_env, struct weir_arena *arena, const char *name)
{
    const char *at = getenv("PATH");
    int error = ENOENT;
    for (at = at == NULL ? PATH_OTHERWISE : at;; at++) {
        struct weir_slice part = {at, strcspn(at, ":")};
        char *path = join_path(arena, part.bytes == 0 ? weir_slice_of(".") : part, name);
        if (path == NULL) {
            return ENOMEM;
        }
        int found = look_at_program(path);
        if (found == 0) {
            exec_env->path = absolute(arena, path);
            return exec_env->path == NULL ? ENOMEM : 0;
        }
        /* A folder that Weir may not search is skipped. */
        error = found == EACCES && access(path, F_OK) == 0 ? EACCES : error;
        at += part.bytes;
        if (*at == '\0') {
            return error;
        }
    }
}

int weir_exec_env_find_program(struct weir_exec_env *exec_env, struct weir_arena *arena,
                               struct weir_slice name)
{
    char *text = keep_text(arena, name);
    if (text == NULL) {
        return ENOMEM;
    }
    if (text[0] == '\0') {
        return ENOENT;
    }
    if (strchr(text, '/') == NULL) {
        return search_path(exec_env, arena, text);
    }
    exec_env->path = absolute(arena, text);
    return exec_env->path == NULL ? ENOMEM : look_at_program(exec_env->path);
}

/* ---- arguments and environment ---- */

bool weir_exec_env_names(const struct weir_command_kind *kind, const char *word)
{
    for (uint32_t i = 1; i < kind->run_count; i++) {
        if (weir_slice_equal(kind->run[i], weir_slice_of(word))) {
            return true;
        }
    }
    return false;
}

/* The text that replaces the argument, or the argument itself. */
static struct weir_slice filled_in(struct weir_slice argument, const struct weir_exec_env_job *job,
                                   const char *attempt)
{
    const struct {
        const char *word;
        struct weir_slice value;
    } words[] = {
        {"{in}", weir_slice_of(job->in)},
        {"{out}", weir_slice_of(job->out)},
        {"{id}", job->id},
        {"{attempt}", weir_slice_of(attempt)},
        {"{tenant}", job->tenant},
        {"{queue}", job->queue},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (weir_slice_equal(argument, weir_slice_of(words[i].word))) {
            return words[i].value;
        }
    }
    return argument;
}

static bool make_arguments(struct weir_exec_env *exec_env, struct weir_arena *arena,
                           const struct weir_command_kind *kind,
                           const struct weir_exec_env_job *job, const char *attempt)
{
    exec_env->argv =
        weir_arena_allocate(arena, (size_t)kind->run_count + 1, sizeof *exec_env->argv);
    for (uint32_t i = 0; exec_env->argv != NULL && i < kind->run_count; i++) {
        struct weir_slice value = i == 0 ? kind->run[0] : filled_in(kind->run[i], job, attempt);
        exec_env->argv[i] = keep_text(arena, value);
        if (exec_env->argv[i] == NULL) {
            return false;
        }
    }
    return exec_env->argv != NULL;
}

/* Whether the configuration sets that variable itself. */
static bool is_configured(const struct weir_command_kind *kind, const char *name)
{
    size_t bytes = strlen(name);
    for (uint32_t i = 0; i < kind->environment_count; i++) {
        struct weir_slice variable = kind->environment[i];
        if (variable.bytes > bytes && variable.data[bytes] == '=' &&
            memcmp(variable.data, name, bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* A null value: the variable does not exist. */
struct variable {
    const char *name;
    struct weir_slice value;
};

static bool add_own(struct weir_exec_env *exec_env, struct weir_arena *arena,
                    const struct weir_command_kind *kind, const struct variable *own, size_t *count)
{
    for (size_t i = 0; i < OWN_COUNT; i++) {
        if (own[i].name == NULL || is_configured(kind, own[i].name)) {
            continue;
        }
        exec_env->envp[*count] = keep_variable(arena, own[i].name, own[i].value);
        if (exec_env->envp[*count] == NULL) {
            return false;
        }
        (*count)++;
    }
    return true;
}

static bool make_environment(struct weir_exec_env *exec_env, struct weir_arena *arena,
                             const struct weir_command_kind *kind,
                             const struct weir_exec_env_job *job, const char *attempt)
{
    const char *path = getenv("PATH");
    const char *language = getenv("LANG");
    const struct variable own[OWN_COUNT] = {
        {"PATH", weir_slice_of(path == NULL ? PATH_OTHERWISE : path)},
        {"HOME", weir_slice_of(exec_env->other_user ? exec_env->home : job->folder)},
        {language == NULL ? NULL : "LANG", weir_slice_of(language == NULL ? "" : language)},
        {"WEIR_JOB_ID", job->id},
        {"WEIR_ATTEMPT", weir_slice_of(attempt)},
        {"WEIR_QUEUE", job->queue},
        {"WEIR_TENANT", job->tenant},
        {"WEIR_JOB_DIR", weir_slice_of(job->folder)},
    };
    size_t count = 0;
    size_t room = (size_t)OWN_COUNT + kind->environment_count + 1;
    exec_env->envp = weir_arena_allocate(arena, room, sizeof *exec_env->envp);
    if (exec_env->envp == NULL || !add_own(exec_env, arena, kind, own, &count)) {
        return false;
    }
    for (uint32_t i = 0; i < kind->environment_count; i++) {
        exec_env->envp[count] = keep_text(arena, kind->environment[i]);
        if (exec_env->envp[count++] == NULL) {
            return false;
        }
    }
    return true;
}

int weir_exec_env_fill(struct weir_exec_env *exec_env, struct weir_arena *arena,
                       const struct weir_command_kind *kind, const struct weir_exec_env_job *job)
{
    char attempt[16];
    snprintf(attempt, sizeof attempt, "%u", job->attempt);
    return make_arguments(exec_env, arena, kind, job, attempt) &&
                   make_environment(exec_env, arena, kind, job, attempt)
               ? 0
               : ENOMEM;
}

/* ---- what is wrong with a kind ---- */

static void explain_user(char *sentence, size_t bytes, struct weir_slice user, int error)
{
    int shown = (int)(user.bytes < 100 ? user.bytes : 100);
    if (error == EPERM) {
        const char *missing = missing_capability();
        assert(missing != NULL);
        snprintf(sentence, bytes,
                 "commands cannot run as the user \"%.*s\": Weir runs as user %u without %s; start "
                 "Weir as root, or remove `user`",
                 shown, user.data, (unsigned)geteuid(), missing);
    } else if (error == ENOENT) {
        snprintf(sentence, bytes,
                 "commands cannot run as the user \"%.*s\": there is no such user; create it, or "
                 "correct `user`",
                 shown, user.data);
    } else {
        snprintf(sentence, bytes, "commands cannot run as the user \"%.*s\": %s", shown, user.data,
                 strerror(error));
    }
}

static const char *object(struct weir_arena *arena, const struct weir_command_kind *kind)
{
    static _Thread_local char sentence[500];
    struct weir_exec_env exec_env = {0};
    struct weir_slice name = kind->run[0];
    int error = weir_exec_env_find_program(&exec_env, arena, name);
    if (error != 0) {
        snprintf(sentence, sizeof sentence, "the command \"%.*s\" cannot be run: %s%s",
                 (int)(name.bytes < 300 ? name.bytes : 300), name.data, strerror(error),
                 memchr(name.data, '/', name.bytes) == NULL ? " in PATH" : "");
        return sentence;
    }
    error = weir_exec_env_find_user(&exec_env, arena, kind->user);
    if (error != 0) {
        explain_user(sentence, sizeof sentence, kind->user, error);
        return sentence;
    }
    return NULL;
}

const char *weir_command_kind_objection(const struct weir_command_kind *kind)
{
    if (kind->run_count == 0 || kind->run[0].bytes == 0) {
        return "no command is named";
    }
    struct weir_arena arena;
    weir_arena_init(&arena, &(struct weir_arena_options){.allocator = &weir_allocator_libc,
                                                         .chunk_bytes = 4096,
                                                         .bytes_max = 1 << 20});
    const char *objection = object(&arena, kind);
    weir_arena_deinit(&arena);
    return objection;
}
