/* salvage.h - copies what can be read of a damaged database into a new one.
 *
 * SQLite stops at the first invalid page, and writing to such a file could destroy more of it. So
 * the pages are read one by one, without the tree above them: a page is in use if the map of pages
 * (auto_vacuum keeps one) or a page above it says so. Rows whose checksum matches win over others
 * with the same number; rows whose checksum does not match are copied as well, and recovery makes
 * dead letters of them. The agenda is made again from the rows.
 *
 * The new file replaces the damaged one, which is kept as jobs.db.damaged-TIME, and its journal as
 * jobs.db.damaged-TIME-wal, both as they were found. SQLite applies a journal by writing into its
 * database, so if there is one, a copy of both is made and read: jobs.db.copy. */
#ifndef WEIR_STORE_SALVAGE_H
#define WEIR_STORE_SALVAGE_H

#include "weir/types.h"

#include <linux/limits.h>
#include <stdbool.h>

struct weir_salvage {
    uint64_t pages_lost; /* in use, but unreadable */
    uint64_t rows_lost;  /* rows of which not even the number was readable */
    char aside[PATH_MAX + 64];
};

/* No connection to the database may be open. False, with a sentence that says what to do; then the
 * damaged file and its journal are as they were. (If a file could not be renamed at the very end,
 * the damaged file may be under the name `aside` already.) */
WEIR_MUST_CHECK bool weir_salvage(const char *path, struct weir_salvage *salvage, char *error,
                                  size_t error_bytes);

#endif
