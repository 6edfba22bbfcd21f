/* spool_space.h - the room on disk for long bodies of requests, which all threads share.
 *
 * Bodies that are too long for memory lie in files of the data folder that have no name: the system
 * removes them with their last descriptor, so that nothing is left of them however Weir ends. All
 * of them together have at most `spool_max` bytes. The threads that write and read them are started
 * for the first one. Every function may be called in any thread but for create() and destroy(). */
#ifndef WEIR_PROXY_SPOOL_SPACE_H
#define WEIR_PROXY_SPOOL_SPACE_H

#include "net/disk.h"
#include "weir/types.h"

#include <stdbool.h>

struct weir_spool_space;

/* Null without memory. The text of the folder's name need not stay. */
struct weir_spool_space *weir_spool_space_create(struct weir_slice folder);

/* Returns when no thread writes or reads any more; what they have done is posted then. */
void weir_spool_space_rest(struct weir_spool_space *space);

/* Requires that no file is left. */
void weir_spool_space_destroy(struct weir_spool_space *space);

/* The threads. Null, with errno, if they cannot be started. */
struct weir_disk *weir_spool_space_disk(struct weir_spool_space *space);

/* Whether so many bytes more fit below `bytes_max`. */
bool weir_spool_space_has(const struct weir_spool_space *space, uint64_t bytes, uint64_t bytes_max);

/* Takes room for so many bytes. False if there is none; then nothing has changed. */
WEIR_MUST_CHECK bool weir_spool_space_take(struct weir_spool_space *space, uint64_t bytes,
                                           uint64_t bytes_max);
void weir_spool_space_give(struct weir_spool_space *space, uint64_t bytes);

/* A new file without a name, to be read and written by this process alone. Blocks; -1 with errno.
 */
int weir_spool_space_open(const struct weir_spool_space *space);

#endif
