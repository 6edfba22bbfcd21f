/* journal.h - what must be done to SQLite's journal by somebody who does not believe in syncs
 * that are tried again. Only while no connection is open. It goes through SQLite's own file layer,
 * so that whoever stands in between sees it. */
#ifndef WEIR_STORE_JOURNAL_H
#define WEIR_STORE_JOURNAL_H

#include "weir/types.h"

#include <stdbool.h>

/* The journal of the database ends after so many bytes, on disk. One that is shorter or missing is
 * left as it is. False: it could not be done. */
WEIR_MUST_CHECK bool weir_journal_cut(const char *database, uint64_t bytes);

/* Writes again what the journal holds, as it is, and syncs it: parts of it may be in memory only,
 * and never get to the disk, if the last who wrote it saw its sync fail. The same result. */
WEIR_MUST_CHECK bool weir_journal_renew(const char *database);

#endif
