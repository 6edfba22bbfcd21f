/* seccomp_filter.c - the list of system calls, and its compilation by libseccomp. Compiled once by
 * Weir; process 1 of each sandbox only hands the result to the kernel. */
#define _GNU_SOURCE /* memfd_create(), CLONE_NEW* */
#include "runtime/seccomp_filter.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a program may ask for. Names that an architecture does not have are skipped. */
static const char *const allowed[] = {
    "accept",
    "accept4",
    "access",
    "alarm",
    "arch_prctl",
    "bind",
    "brk",
    "capget",
    "capset",
    "chdir",
    "chmod",
    "chown",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "close_range",
    "connect",
    "copy_file_range",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_ctl_old",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "epoll_wait_old",
    "eventfd",
    "eventfd2",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fchdir",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "flistxattr",
    "flock",
    "fork",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futex",
    "futex_waitv",
    "futimesat",
    "get_robust_list",
    "get_thread_area",
    "getcpu",
    "getcwd",
    "getdents",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getitimer",
    "getpeername",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getpriority",
    "getrandom",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "getsid",
    "getsockname",
    "getsockopt",
    "gettid",
    "gettimeofday",
    "getuid",
    "getxattr",
    "inotify_add_watch",
    "inotify_init",
    "inotify_init1",
    "inotify_rm_watch",
    "ioctl",
    "ioprio_get",
    "ioprio_set",
    "kill",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "lchown",
    "lgetxattr",
    "link",
    "linkat",
    "listen",
    "listxattr",
    "llistxattr",
    "lremovexattr",
    "lseek",
    "lsetxattr",
    "lstat",
    "madvise",
    "membarrier",
    "memfd_create",
    "mincore",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "mlock",
    "mlock2",
    "mlockall",
    "mmap",
    "mprotect",
    "mq_getsetattr",
    "mq_notify",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_unlink",
    "mremap",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "msync",
    "munlock",
    "munlockall",
    "munmap",
    "nanosleep",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pause",
    "pidfd_open",
    "pidfd_send_signal",
    "pipe",
    "pipe2",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "poll",
    "ppoll",
    "prctl",
    "pread64",
    "preadv",
    "preadv2",
    "prlimit64",
    "pselect6",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "remap_file_pages",
    "removexattr",
    "rename",
    "renameat",
    "renameat2",
    "restart_syscall",
    "rmdir",
    "rseq",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_tgsigqueueinfo",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getaffinity",
    "sched_getattr",
    "sched_getparam",
    "sched_getscheduler",
    "sched_rr_get_interval",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "sched_yield",
    "seccomp",
    "select",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "set_robust_list",
    "set_thread_area",
    "set_tid_address",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "setitimer",
    "setpgid",
    "setpriority",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setrlimit",
    "setsid",
    "setsockopt",
    "setuid",
    "setxattr",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
    "shutdown",
    "sigaltstack",
    "signalfd",
    "signalfd4",
    "socketpair",
    "splice",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "sync",
    "sync_file_range",
    "syncfs",
    "sysinfo",
    "tee",
    "tgkill",
    "time",
    "timer_create",
    "timer_delete",
    "timer_getoverrun",
    "timer_gettime",
    "timer_settime",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_settime",
    "times",
    "tkill",
    "truncate",
    "umask",
    "uname",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
    "vfork",
    "wait4",
    "waitid",
    "waitpid",
    "write",
    "writev",
};

#define NAMESPACES                                                                                \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
     CLONE_NEWNET)

/* The families of sockets that a program may open: with others one reaches parts of the kernel that
 * no program in a sandbox needs. */
static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

static int allow_names(scmp_filter_ctx context)
{
    int result = 0;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed && result == 0; i++) {
        int number = seccomp_syscall_resolve_name(allowed[i]);
        if (number != __NR_SCMP_ERROR && number >= 0) {
            result = seccomp_rule_add(context, SCMP_ACT_ALLOW, number, 0);
        }
    }
    return result;
}

/* clone() without namespaces; sockets of ordinary families; personality() as it is. */
static int allow_in_part(scmp_filter_ctx context)
{
    int result = seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                  SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES, 0));
    for (size_t i = 0; i < sizeof families / sizeof *families && result == 0; i++) {
        result = seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                                  SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i], 0));
    }
    if (result == 0) {
        result = seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
                                  SCMP_A0(SCMP_CMP_EQ, 0, 0));
    }
    if (result == 0) {
        result = seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    }
    return result;
}

/* The finished program, by way of a file in memory. */
static int export_steps(scmp_filter_ctx context, struct weir_seccomp_filter *filter)
{
    int fd = memfd_create("filter", MFD_CLOEXEC);
    if (fd == -1) {
        return -errno;
    }
    int result = seccomp_export_bpf(context, fd);
    ssize_t bytes = result == 0 ? pread(fd, filter->steps, sizeof filter->steps, 0) : 0;
    close(fd);
    if (result == 0 && (bytes <= 0 || bytes == (ssize_t)sizeof filter->steps)) {
        result = -E2BIG;
    }
    filter->count = (unsigned short)((size_t)bytes / sizeof *filter->steps);
    return result;
}

bool weir_seccomp_compile(struct weir_seccomp_filter *filter)
{
    scmp_filter_ctx context = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (context == NULL) {
        errno = ENOMEM;
        return false;
    }
    /* A tree of comparisons instead of a list: nine steps find one of 300 calls. */
    int result = seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (result == 0) {
        result = allow_names(context);
    }
    if (result == 0) {
        result = allow_in_part(context);
    }
    if (result == 0) {
        result = export_steps(context, filter);
    }
    seccomp_release(context);
    errno = -result;
    return result == 0;
}

bool weir_seccomp_apply(const struct weir_seccomp_filter *filter)
{
    struct sock_fprog program = {filter->count, (struct sock_filter *)filter->steps};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
