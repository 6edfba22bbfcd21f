/* journal.h - what must be done to SQLite's journal for a program that does not trust syncs that
 * are tried again. Only while no connection is open. It goes through SQLite's own file layer, so
 * that a layer between SQLite and the disk sees it. */
#ifndef WEIR_STORE_JOURNAL_H
#define WEIR_STORE_JOURNAL_H

#include "weir/types.h"

#include <stdbool.h>

/* Cuts the journal to this length, on disk. A shorter or missing journal is left as it is. False:
 * it has failed. */
WEIR_MUST_CHECK bool weir_journal_cut(const char *database, uint64_t bytes);

/* Rewrites the whole journal with its own content and syncs it: if the last writer saw its sync
 * fail, parts of it may be in memory only and never reach the disk. False: it has failed. */
WEIR_MUST_CHECK bool weir_journal_renew(const char *database);

#endif
