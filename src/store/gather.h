/* gather.h - a layer between SQLite and its files that gathers what is written.
 *
 * SQLite writes each page of a commit to the journal by two calls, its head and its bytes, one
 * behind the other, and then syncs. Here they are kept until something else is wanted of the
 * journal, and written by one call: a commit of a hundred jobs takes one instead of some three
 * hundred. So are neighbouring pages when the journal is copied into the database. Nothing is
 * promised before the sync, so nothing that is promised is ever only here; a write that fails is
 * told by the sync, which SQLite takes as a failed commit or copying. */
#ifndef WEIR_STORE_GATHER_H
#define WEIR_STORE_GATHER_H

struct sqlite3;

/* Opens a database as sqlite3_open_v2() does, over whatever is SQLite's default layer now. Two
 * threads must not do so at once. */
int weir_gather_open(const char *path, struct sqlite3 **handle, int flags);

#endif
