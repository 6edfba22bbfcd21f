/* lock.h - one Weir per data folder. */
#ifndef WEIR_STORE_LOCK_H
#define WEIR_STORE_LOCK_H

#include "weir/types.h"

/* Makes the folder if it is not there, and locks it for as long as the descriptor that is returned
 * stays open, however the process ends. -1, with a sentence in `error`. */
int weir_lock_take(const char *folder, char *error, size_t error_bytes);

#endif
