/* leftovers.h - processes of commands that an earlier Weir has started on the same data folder.
 *
 * A launcher and its supervisors (launcher.h) hold a lock, `work.lock` in the data folder, until
 * everything that they have started is gone. So the next Weir takes that lock before it settles any
 * job. If the supervisors were killed as well, processes are found by their environment:
 * WEIR_JOB_DIR names the folder of an attempt in the data folder. A process that has cleared its
 * environment and left its supervisor too is not found.
 *
 * The same search ends an attempt whose supervisor was killed while Weir goes on. Its processes
 * have then become children of the launcher, which kills them whatever their environment. Only if
 * the launcher was killed too, the environment is the only trace. */
#ifndef WEIR_RUNNER_LEFTOVERS_H
#define WEIR_RUNNER_LEFTOVERS_H

#include "weir/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Takes the lock and returns its descriptor, or -1 with a sentence in `error` if processes are left
 * after `patience_ms`. With `search`, which is needed when folders of attempts were found, all
 * processes of the machine are checked. `folder` is the data folder without links in its path.
 * Blocks; for the start. */
WEIR_MUST_CHECK int weir_leftovers_end(const char *folder, bool search, uint64_t patience_ms,
                                       char *error, size_t error_bytes);

/* An attempt whose supervisor was killed. */
struct weir_leftovers_attempt {
    int folder_fd; /* of its folder */
    pid_t supervisor;
    pid_t launcher; /* 0: there is none */
};

/* Kills all that the attempt has started and waits until it is gone. False, with a reason in
 * `error`, if that is not certain: after `patience_ms` there was still a process, or processes
 * cannot be listed. Blocks; for disk threads. */
WEIR_MUST_CHECK bool weir_leftovers_end_attempt(const struct weir_leftovers_attempt *attempt,
                                                uint64_t patience_ms, char *error,
                                                size_t error_bytes);

#endif
