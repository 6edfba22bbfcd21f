/* supervisor.h - the code of the launcher and the supervisors, and the messages that Weir sends to
 * them. Part of launcher.h.
 *
 * Weir asks the launcher, in messages with one descriptor each: for a supervisor, which gets that
 * descriptor as its socket, or to keep it open. Over the socket Weir then sends the order for a
 * command, with the descriptors of its folder and files. The supervisor answers twice: when the
 * command has begun, or could not, and when everything has ended. Then it waits for another order.
 */
#ifndef WEIR_RUNNER_SUPERVISOR_H
#define WEIR_RUNNER_SUPERVISOR_H

#include "runner/launcher.h"

#include <stdalign.h>
#include <sys/socket.h>

/* Of path, arguments, environment and groups. The kernel takes 6 MiB of the texts at most. */
#define WEIR_LAUNCH_ORDER_BYTES_MAX (16u << 20)

enum weir_launch_request {
    WEIR_LAUNCH_HOLD,
    WEIR_LAUNCH_SUPERVISE
};

/* The folder, and the files that are not -1. */
#define WEIR_LAUNCH_FDS_MAX 4

/* Followed by `bytes`: the groups, then the path, the arguments and the environment, each with its
 * terminating zero. */
struct weir_launch_order {
    size_t bytes;
    size_t group_count;
    size_t argument_count;
    size_t variable_count;
    struct weir_command_limits limits;
    bool files[3]; /* which of stdin, stdout and stderr come along; else /dev/null */
    bool other_user;
    uid_t uid;
    gid_t gid;
};

struct weir_launch_begun {
    int error; /* errno; 0: it has begun */
    pid_t pid; /* 0: there was never a process */
    pid_t supervisor;
    char step[64];
};

/* Messages of Weir to a supervisor, one byte each. */
#define WEIR_LAUNCH_ASK_TO_END 'T'
#define WEIR_LAUNCH_KILL       'K'

/* Buffers for a message with descriptors, as recvmsg() and sendmsg() take them. */
struct weir_launch_message {
    struct iovec part;
    struct msghdr head;
    alignas(struct cmsghdr) char room[CMSG_SPACE(WEIR_LAUNCH_FDS_MAX * sizeof(int))];
};

/* Becomes the launcher, in a process that was just forked. `fd` is the socket on which Weir asks;
 * all other descriptors are closed. */
_Noreturn void weir_supervisor_launch(int fd);

#endif
