/* snapshot_build.h - how a config becomes a snapshot that the threads share, and a snapshot each
 * thread's worker config; config_snapshot.h says what these are. */
#ifndef WEIR_SERVER_SNAPSHOT_BUILD_H
#define WEIR_SERVER_SNAPSHOT_BUILD_H

#include "worker/config_snapshot.h"

/* Makes a snapshot with one reference. The config belongs to it from now on, also when this fails.
 * Adds new gates to `gates`, and reads the files that the config names. Null on failure, with a
 * sentence that says why. */
struct weir_config_snapshot *weir_config_snapshot_create(struct weir_config *config,
                                                         struct weir_gates *gates,
                                                         struct weir_secrets *before,
                                                         const char **error);

/* Gives the gates their settings. `before` is the snapshot that was in force, or null. Called in
 * the loop `loop_index`, or before any loop runs. */
WEIR_MUST_CHECK enum weir_status
weir_config_snapshot_apply(const struct weir_config_snapshot *snapshot,
                           const struct weir_config_snapshot *before, struct weir_gates *gates,
                           uint32_t loop_index);

/* The name of something that differs and that only a start can change, or null. */
const char *weir_config_snapshot_needs_restart(const struct weir_config *before,
                                               const struct weir_config *after);

/* Whether both trust the same peers. */
bool weir_config_snapshot_same_trust(const struct weir_config *before,
                                     const struct weir_config *after);

/* Makes a worker's part of a snapshot. Null on failure, with a sentence that says why. May be
 * called in any thread. */
struct weir_worker_config *weir_worker_config_create(struct weir_config_snapshot *snapshot,
                                                     struct weir_worker *worker,
                                                     const char **error);

/* Frees a worker config that never came into use. */
void weir_worker_config_destroy(struct weir_worker_config *worker_config);

/* Another one is in force: closes idle connections, and frees it with the last reference. */
void weir_worker_config_retire(struct weir_worker_config *worker_config);

#endif
