/* leftovers.h - processes of commands that an earlier Weir has started on the same data folder.
 *
 * A launcher and its supervisors (launcher.h) hold a lock, `work.lock` in the data folder, until
 * all that they have started is gone. So the next Weir takes that lock before it looks at what
 * became of any job. Should the supervisors have been killed as well, processes are found by their
 * environment: WEIR_JOB_DIR names the folder of an attempt in the data folder. A process that has
 * cleared its environment and left its supervisor too is not found.
 *
 * The same search ends an attempt whose supervisor was killed while Weir goes on. Its processes
 * have become the launcher's children then, which the launcher kills, whatever their environment.
 * Only if the launcher was killed too is the environment all that is left to go by. */
#ifndef WEIR_RUNNER_LEFTOVERS_H
#define WEIR_RUNNER_LEFTOVERS_H

#include "weir/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Takes the lock and returns its descriptor, or -1 with a sentence in `error`: after `patience_ms`
 * there were still processes. With `search`, which is needed when folders of attempts were found,
 * the processes of all users are looked through. `folder` is the data folder without links in its
 * path. Blocks; for the start. */
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
