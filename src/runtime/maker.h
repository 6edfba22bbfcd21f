/* maker.h - the process that makes sandboxes.
 *
 * Weir starts it by running its own program once more, so it has none of Weir's memory, one thread,
 * and forks at no cost; process 1 of each sandbox is a clone of it. It keeps no state of sandboxes
 * and is not needed while they run: if it is killed, the next order starts another one, and when
 * Weir ends it ends, while the sandboxes go on. */
#ifndef WEIR_RUNTIME_MAKER_H
#define WEIR_RUNTIME_MAKER_H

#include "runtime/cgroup.h"
#include "runtime/inside.h"

/* Of the texts of an order. */
#define WEIR_MAKER_TEXTS_BYTES (128u << 10)

struct weir_maker;

/* What a sandbox is made of. */
struct weir_maker_order {
    const char *name;   /* of the group and the folder */
    const char *folder; /* exists; the control socket is made in it: CONTROL_SOCKET */
    const char *root;
    const char *egress; /* empty: none */
    char *const *argv;  /* of the server; argv[0] null: none */
    char *const *envp;
    struct weir_cgroup_limits limits; /* of a runtime without groups: none */
    uint64_t disk_bytes;
    uint32_t uid_first; /* of the users of the host that the sandbox's users are */
    uint32_t uid_count; /* 1: Weir is no root, and the sandbox's only user is its own */
    uint32_t uid;       /* whom programs run as, inside */
    bool host_network;
};

#define WEIR_SANDBOX_CONTROL_SOCKET "control"

/* To be called first thing in main(): does not return in the maker's process. */
void weir_maker_main(int argc, char **argv);

/* Null, with errno. Groups with the layout NONE: sandboxes have no limits. */
struct weir_maker *weir_maker_create(const struct weir_cgroups *groups,
                                     const struct weir_seccomp_filter *filter);

/* Ends the maker's process, not what it has made. */
void weir_maker_destroy(struct weir_maker *maker);

/* Makes process 1. Returns 0 or an errno; then `step` says what failed, and something of the
 * sandbox may exist. Whether its inside could be built, the control socket says. Blocks for some
 * milliseconds, at most 10 s. One thread at a time. */
WEIR_MUST_CHECK int weir_maker_make(struct weir_maker *maker, const struct weir_maker_order *order,
                                    char step[64]);

#endif
