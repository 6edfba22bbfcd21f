/* spawn.c - starts a process with clone(CLONE_VM | CLONE_VFORK). A supervisor calls it, which has
 * one thread. */
#define _GNU_SOURCE /* clone(), prlimit's constants */
#include "runner/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What runs in the child shares our memory and our thread's data, so sanitizers must not instrument
 * it, and it must not use calls of libc that do more than the kernel does: setuid() would change
 * all our threads. */
#define IN_CHILD __attribute__((no_sanitize_address, no_sanitize_thread, noinline))

/* ThreadSanitizer takes every clone() for a fork, and gets confused when the child lives in our
 * memory. It does not know this name of the same function. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
int __clone(int (*run)(void *), void *stack, int flags, void *argument, ...);
#define clone __clone
#endif
#endif

#define STACK_BYTES 16384

/* Signals are 1 to 64 in the kernel's sets, whatever libc reserves for itself. */
#define SIGNAL_COUNT 64
#define SIGSET_BYTES 8

/* On 32-bit machines the plain calls take 16-bit ids. */
#ifdef SYS_setuid32
#define CALL_SETUID    SYS_setuid32
#define CALL_SETGID    SYS_setgid32
#define CALL_SETGROUPS SYS_setgroups32
#else
#define CALL_SETUID    SYS_setuid
#define CALL_SETGID    SYS_setgid
#define CALL_SETGROUPS SYS_setgroups
#endif

struct birth {
    const struct weir_spawn *spawn;
    pid_t parent;
    volatile int error;
    const char *volatile step;
};

IN_CHILD static _Noreturn void give_up(struct birth *birth, const char *step)
{
    birth->error = errno;
    birth->step = step;
    for (;;) {
        syscall(SYS_exit_group, 127);
    }
}

/* A handler of ours must never run in the child, and the command must not inherit ignored signals.
 * All signals are blocked until that is done. */
IN_CHILD static void reset_signals(void)
{
    const uint64_t by_default[8] = {0}; /* the kernel's struct sigaction, and more */
    for (int number = 1; number <= SIGNAL_COUNT; number++) {
        syscall(SYS_rt_sigaction, number, by_default, NULL, SIGSET_BYTES);
    }
}

/* Moves a descriptor away from 0, 1 and 2. */
IN_CHILD static int move_up(struct birth *birth, int fd)
{
    if (fd == -1) {
        fd = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
    }
    long moved = fd > 2 ? fd : syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
    if (fd == -1 || moved == -1) {
        give_up(birth, "its files could not be opened");
    }
    return (int)moved;
}

IN_CHILD static void set_files(struct birth *birth)
{
    int files[3];
    if (syscall(SYS_fchdir, birth->spawn->folder_fd) != 0) {
        give_up(birth, "its folder could not be entered");
    }
    for (int i = 0; i < 3; i++) {
        files[i] = move_up(birth, birth->spawn->files[i]);
    }
    for (int i = 0; i < 3; i++) {
        if (syscall(SYS_dup3, files[i], i, 0) == -1) {
            give_up(birth, "its files could not be opened");
        }
    }
    /* Our own descriptors have O_CLOEXEC; this closes those that a library or our parent left open.
     * Kernels before 5.9 lack it. */
    syscall(SYS_close_range, 3u, ~0u, 0u);
    syscall(SYS_umask, 077);
}

/* A limit above our own hard limit cannot be set; the stricter one stays. */
IN_CHILD static void set_limit(struct birth *birth, int what, uint64_t soft, uint64_t hard)
{
    struct rlimit64 limit = {soft, hard};
    if (syscall(SYS_prlimit64, 0, what, &limit, NULL) != 0 && errno != EPERM) {
        give_up(birth, "its limits could not be set");
    }
}

IN_CHILD static void set_limits(struct birth *birth)
{
    const struct weir_command_limits *limits = &birth->spawn->limits;
    set_limit(birth, RLIMIT_CORE, 0, 0); /* a core file may be large and has no reader */
    if (limits->memory_bytes != 0) {
        set_limit(birth, RLIMIT_AS, limits->memory_bytes, limits->memory_bytes);
    }
    if (limits->processes != 0) {
        set_limit(birth, RLIMIT_NPROC, limits->processes, limits->processes);
    }
    if (limits->cpu_seconds != 0) {
        /* SIGXCPU, and a second later SIGKILL. */
        set_limit(birth, RLIMIT_CPU, limits->cpu_seconds, limits->cpu_seconds + 1);
    }
    if (limits->output_bytes != 0) {
        set_limit(birth, RLIMIT_FSIZE, limits->output_bytes, limits->output_bytes);
    }
}

IN_CHILD static void set_user(struct birth *birth)
{
    const struct weir_spawn *spawn = birth->spawn;
    if (!spawn->other_user) {
        return;
    }
    if (syscall(CALL_SETGROUPS, spawn->group_count, spawn->groups) != 0 ||
        syscall(CALL_SETGID, spawn->gid) != 0 || syscall(CALL_SETUID, spawn->uid) != 0) {
        give_up(birth, "its user could not be set");
    }
}

/* Called after the user is set, which clears the parent-death signal. If our process died before
 * this call, the child has another parent. */
IN_CHILD static void set_fate(struct birth *birth)
{
    if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
        give_up(birth, "its rights could not be limited");
    }
    if (syscall(SYS_getppid) != birth->parent) {
        errno = ESRCH;
        give_up(birth, "Weir has ended");
    }
}

IN_CHILD static int be_born(void *argument)
{
    struct birth *birth = argument;
    const uint64_t none = 0;
    reset_signals();
    if (syscall(SYS_setsid) == -1) {
        give_up(birth, "it could not have a session of its own");
    }
    set_files(birth);
    set_limits(birth);
    set_user(birth);
    set_fate(birth);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, SIGSET_BYTES);
    syscall(SYS_execve, birth->spawn->path, birth->spawn->argv, birth->spawn->envp);
    give_up(birth, "it could not be started");
}

/* The child runs on a part of our stack, which is idle until the child has become the program. */
static int clone_child(struct birth *birth, struct weir_spawned *spawned)
{
    alignas(16) char stack[STACK_BYTES];
    int fd = -1;
    int pid = clone(be_born, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD,
                    birth, &fd);
    if (pid == -1) {
        birth->step = "it could not be started";
        return errno;
    }
    *spawned = (struct weir_spawned){.pid = pid, .fd = fd};
    return 0;
}

/* Blocks also the signals that libc reserves: they are for threads of ours. */
static int clone_quietly(struct birth *birth, struct weir_spawned *spawned)
{
    const uint64_t all = UINT64_MAX;
    uint64_t before = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, SIGSET_BYTES);
    int error = clone_child(birth, spawned);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, SIGSET_BYTES);
    return error;
}

/* While the child has another user and shares our memory, the kernel marks both as not dumpable,
 * and leaves us so. This restores it when no child is in that state. */
static int clone_as_other(struct birth *birth, struct weir_spawned *spawned)
{
    static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&alone);
    int dumpable = prctl(PR_GET_DUMPABLE);
    int error = clone_quietly(birth, spawned);
    if (dumpable == 1) {
        prctl(PR_SET_DUMPABLE, 1);
    }
    pthread_mutex_unlock(&alone);
    return error;
}

int weir_spawn_start(const struct weir_spawn *spawn, struct weir_spawned *spawned)
{
    struct birth birth = {.spawn = spawn, .parent = getpid()};
    int error =
        spawn->other_user ? clone_as_other(&birth, spawned) : clone_quietly(&birth, spawned);
    if (error != 0) {
        spawned->step = birth.step;
        return error;
    }
    assert(spawned->fd >= 0); /* kernels from 5.2 on give one */
    if (birth.error != 0) {
        spawned->step = birth.step;
        siginfo_t info;
        while (waitid(P_PIDFD, (id_t)spawned->fd, &info, WEXITED) == -1 && errno == EINTR) {
        }
        close(spawned->fd);
        return birth.error;
    }
    return 0;
}
