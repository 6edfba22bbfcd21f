/* seccomp_filter.h - which system calls programs in a sandbox may make: an allow list, compiled to
 * a program for the kernel's filter.
 *
 * The list is what ordinary programs need: Docker's default profile without everything that wants a
 * capability, makes namespaces or mounts, or has been a way into the kernel (bpf, keyctl, io_uring,
 * userfaultfd, perf_event_open, ptrace across processes is left to the kernel's own rules). What is
 * not on it fails with EPERM; clone3() with ENOSYS, so that libc falls back to clone(), whose flags
 * a filter can read. */
#ifndef WEIR_RUNTIME_SECCOMP_FILTER_H
#define WEIR_RUNTIME_SECCOMP_FILTER_H

#include "weir/status.h"

#include <linux/filter.h>
#include <stdbool.h>

#define WEIR_SECCOMP_STEPS_MAX 4096 /* BPF_MAXINSNS */

struct weir_seccomp_filter {
    unsigned short count;
    struct sock_filter steps[WEIR_SECCOMP_STEPS_MAX];
};

/* Compiles the list for this machine's architecture. False, with errno. */
WEIR_MUST_CHECK bool weir_seccomp_compile(struct weir_seccomp_filter *filter);

/* Puts the filter on the calling thread, which has set no_new_privs. False, with errno. */
WEIR_MUST_CHECK bool weir_seccomp_apply(const struct weir_seccomp_filter *filter);

#endif
