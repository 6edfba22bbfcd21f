/* launcher.h - the process that starts commands for Weir, and ends all that they have started.
 *
 * Weir forks the launcher once, before it has grown, and again only if it was killed. For each
 * command that runs the launcher has forked a supervisor, which starts the command and is the
 * ancestor of every process that the command starts; it serves another command when nothing is left
 * of the first:
 *
 *     weir --- launcher --- supervisor --- command --- whatever it starts
 *                      \--- supervisor --- command
 *
 * A supervisor is a child subreaper: a process that leaves the command's group or session, or whose
 * parent has ended, becomes the supervisor's own child, and cannot escape it. When the command has
 * ended, when Weir asks for it, and when Weir itself has ended however abruptly (the socket between
 * the two closes), the supervisor kills what is left, waits for it, and only then ends. So the end
 * of an attempt is the end of everything that it has started.
 *
 * Launcher and supervisors have a session of their own, and block all signals that can be blocked:
 * all but SIGKILL and SIGSTOP. They are not dumpable, so a command cannot trace them; a command
 * with `user` has no right to kill them.
 *
 * The kernel releases a lock that the launcher holds (weir_launcher_hold()) when the launcher and
 * the last supervisor have ended: a process that gets the lock knows that no command is left. */
#ifndef WEIR_RUNNER_LAUNCHER_H
#define WEIR_RUNNER_LAUNCHER_H

#include "runner/spawn.h"

struct weir_launcher;

/* Forks the launcher. Null on failure, with errno. All calls are one thread's at a time. */
struct weir_launcher *weir_launcher_create(void);

/* Launcher and supervisors keep this descriptor open as long as they live. It stays the caller's,
 * which keeps it open as long as the launcher exists. False, with errno. */
WEIR_MUST_CHECK bool weir_launcher_hold(struct weir_launcher *launcher, int fd);

/* The process, or 0 if there is none at present. */
pid_t weir_launcher_pid(const struct weir_launcher *launcher);

/* Ends everything that the launcher has started, and waits for that up to 10 s. */
void weir_launcher_destroy(struct weir_launcher *launcher);

/* How a command ended. */
struct weir_launch_end {
    int status; /* as of waitpid() */
    uint64_t cpu_seconds;
    bool lost; /* its supervisor was killed: the status is not known, and what the command has
                  started may still run (leftovers.h) */
};

/* Starts a command. Returns 0 or an errno. `spawned->fd` is then the socket to its supervisor:
 * readable when the command and all that it has started have ended; closing it ends them. Blocks
 * until the program has begun, or for 10 s: then `spawned->late` is set, and what may have begun
 * meanwhile is killed and awaited, up to 20 s more. */
WEIR_MUST_CHECK int weir_launcher_start(struct weir_launcher *launcher,
                                        const struct weir_spawn *spawn,
                                        struct weir_spawned *spawned);

/* Takes the socket back after the end, for the next command, or closes it. Must not be called after
 * weir_launch_ask_to_end() or weir_launch_kill() on this socket: the supervisor might apply that to
 * the next command. */
void weir_launcher_reuse(struct weir_launcher *launcher, int fd);

/* Sends SIGTERM to the command's process group, and SIGCONT, since a stopped process would not
 * notice. */
void weir_launch_ask_to_end(int fd);

/* Kills the command and all that it has started. */
void weir_launch_kill(int fd);

/* Whether the command has ended, and how. */
WEIR_MUST_CHECK bool weir_launch_ended(int fd, struct weir_launch_end *end);

/* Kills the command and waits until all that it has started is gone, up to `patience_ms`. */
void weir_launch_finish(int fd, int patience_ms);

#endif
