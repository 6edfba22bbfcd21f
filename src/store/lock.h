/* lock.h - one Weir per data folder. */
#ifndef WEIR_STORE_LOCK_H
#define WEIR_STORE_LOCK_H

#include "weir/types.h"

/* Makes the folder if needed, and locks it until the returned descriptor is closed, however the
 * process ends. -1, with a sentence in `error`. */
int weir_lock_take(const char *folder, char *error, size_t error_bytes);

#endif
