/* secret.h - values of header fields that come from files: credentials that something else renews.
 *
 * A file is read when a config is taken up, and again when it changes; meanwhile, and while it
 * cannot be read, the last value counts. Config snapshots that name one file with one prefix share
 * one secret, so requests that began under an earlier config also send the new value.
 *
 * A value is read under a short lock of its own by any thread. Files are read by one thread, which
 * is not a loop's, since that may block. */
#ifndef WEIR_UPSTREAM_SECRET_H
#define WEIR_UPSTREAM_SECRET_H

#include "config/config.h"

/* Of a value, its prefix included. */
#define WEIR_SECRET_BYTES_MAX 4096

struct weir_secret;

/* The secrets of a config: for each upstream and header, or null where the config has the value. */
struct weir_secrets;

/* Those of a config; what `before`, which may be null, has already is shared. Null, with a sentence
 * that holds until this thread's next call, if a file cannot be read of which nothing is known, or
 * without memory. */
struct weir_secrets *weir_secrets_load(const struct weir_config *config,
                                       struct weir_secrets *before, const char **error);

/* Null is fine. Values that another config shares stay. */
void weir_secrets_destroy(struct weir_secrets *secrets);

/* Looks at each file, and reads those that have changed or could not be read. Says in the log which
 * cannot be read, once for each reason and once more at a reload, and on stdout which were read
 * again. Null is fine. */
void weir_secrets_refresh(struct weir_secrets *secrets);

/* By header of the upstream at that place of the config; null if none of them comes from a file. */
struct weir_secret *const *weir_secrets_of(const struct weir_secrets *secrets, uint32_t upstream);

/* How long its value is now; and the value itself, of which that many bytes are copied. */
size_t weir_secret_bytes(struct weir_secret *secret);
size_t weir_secret_copy(struct weir_secret *secret, char value[WEIR_SECRET_BYTES_MAX]);

#endif
